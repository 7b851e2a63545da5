"""Running a PTX text on the GPU through the driver's C interface, for tests under MINITILE_GPU=1.

Only ctypes and NumPy: the point is to compare the simulator with the hardware without any of our own runtime between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitile.runtime.sim import TensorMap

_TENSOR_TYPES = {
    "uint8": 0,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}


class Driver:
    """A context on device 0."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        """Call a driver function; raises RuntimeError with its error code."""
        code = getattr(self.lib, name)(*args)
        if code:
            raise RuntimeError(f"{name} failed with CUDA error {code}")

    def run(
        self, text: str, entry: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared: int = 0
    ) -> None:
        """Launch an entry; arrays (also those of tensor maps) are copied there and back, NumPy scalars go by value."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, shared)
        values: list[Any] = []
        buffers: list[tuple[ctypes.c_uint64, np.ndarray[Any, Any]]] = []
        for arg in args:
            if isinstance(arg, np.ndarray | TensorMap):
                array = arg.root if isinstance(arg, TensorMap) else arg
                pointer = ctypes.c_uint64()
                known = [at for at, other in buffers if other is array]
                if known:
                    pointer = known[0]
                else:
                    size = ctypes.c_size_t(array.nbytes)
                    self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(array.nbytes, 16)))
                    self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), size)
                    buffers.append((pointer, array))
                values.append(self.encode(arg, pointer.value) if isinstance(arg, TensorMap) else pointer)
            else:
                values.append((ctypes.c_char * arg.nbytes).from_buffer_copy(arg.tobytes()))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = [*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block))]
        self.call("cuLaunchKernel", function, *sizes, shared, None, pointers, None)
        self.call("cuCtxSynchronize")
        for pointer, array in buffers:
            size = ctypes.c_size_t(array.nbytes)
            self.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), pointer, size)
            self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)

    def encode(self, tensor: TensorMap, pointer: int) -> Any:
        """The 128 bytes of a tensor map (cuTensorMapEncodeTiled), at an address that is a multiple of 64."""
        array, rank = tensor.array, tensor.array.ndim
        storage = (ctypes.c_char * 256)()
        at = -(-ctypes.addressof(storage) // 64) * 64
        steps = tensor.element_strides or (1,) * rank
        self.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(at),
            _TENSOR_TYPES[array.dtype.name],
            rank,
            ctypes.c_void_p(pointer + tensor.root_offset),
            (ctypes.c_uint64 * rank)(*reversed(array.shape)),
            (ctypes.c_uint64 * rank)(*list(reversed(array.strides))[1:]),
            (ctypes.c_uint32 * rank)(*reversed(list(tensor.box))),
            (ctypes.c_uint32 * rank)(*reversed(list(steps))),
            0,
            {0: 0, 32: 1, 64: 2, 128: 3}[tensor.swizzle],
            0,
            int(tensor.oob_fill == "nan"),
        )
        return (ctypes.c_char * 128).from_buffer(storage, at - ctypes.addressof(storage))
