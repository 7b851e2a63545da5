"""A CUDA driver made of Python: two devices, contexts, modules, and a cuLaunchKernelEx that reads the launch back from
memory as the driver would (CUDA driver API: CUlaunchConfig). It stands in where no GPU is."""

from __future__ import annotations

import ctypes
import enum
from types import SimpleNamespace
from typing import Any


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_INVALID_IMAGE = 200


class Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


def named(*names: str) -> SimpleNamespace:
    return SimpleNamespace(**{name: name for name in names})


def pointed(reference: Any) -> int:
    """The address that a `ctypes.byref` stands for."""
    return ctypes.addressof(reference._obj)


def in_one_buffer(kinds: list[Any], extra: int) -> tuple[int, ...] | None:
    """Where the parameters of a launch's `extra` lie, each on a multiple of its size; None where the list's marks, or
    the size it points to, are not right (CUDA driver API: cuLaunchKernel)."""
    first, start, second, size, end = (ctypes.c_size_t * 5).from_address(extra)
    at, found = 0, []
    for kind in kinds:
        at += -at % ctypes.sizeof(kind)
        found.append(start + at)
        at += ctypes.sizeof(kind)
    right = (first, second, end) == (1, 2, 0) and ctypes.c_size_t.from_address(size).value == at
    return tuple(found) if right else None


def value_at(kind: Any, address: int) -> Any:
    """A parameter as the driver copies it: a number, or the bytes of a tensor map."""
    found = kind.from_address(address)
    return bytes(found) if issubclass(kind, ctypes.Array) else found.value


class FakeDriver:
    """Both faces: `cuda.bindings.driver`'s functions that return (status, results…), and libcuda for ctypes. A
    context's handle is 1000 + device; a function's 1, 2, …; `parameters` are the ctypes of the kernel's parameters."""

    CUresult = Status
    CUjit_option = named(
        "CU_JIT_ERROR_LOG_BUFFER",
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES",
        "CU_JIT_GENERATE_LINE_INFO",
        "CU_JIT_INFO_LOG_BUFFER",
        "CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES",
        "CU_JIT_LOG_VERBOSE",
        "CU_JIT_MAX_REGISTERS",
        "CU_JIT_OPTIMIZATION_LEVEL",
    )
    CUfunction_attribute = named(
        "CU_FUNC_ATTRIBUTE_NUM_REGS",
        "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES",
        "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES",
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
        "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
    )
    CUdevice_attribute = named(
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
        "CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE",
        "CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE",
    )
    CUlimit = named("CU_LIMIT_PERSISTING_L2_CACHE_SIZE")

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.stack = [0]
        self.loads: list[tuple[int, bytes]] = []
        self.launches: list[SimpleNamespace] = []
        self.shared_limits: dict[int, int] = {}
        self.large_clusters: dict[int, int] = {}  # functions for which they are allowed
        self.fitting = 4  # clusters of any size
        self.asked: list[tuple[tuple[int, ...], ...]] = []  # what would fit: grid, block, cluster
        self.limits: dict[tuple[int, str], int] = {}
        self.maps: list[SimpleNamespace] = []
        self.fail_map = 0
        self.fail_launch = 0
        self.fail_load = b""
        self.jit_says = b""
        self.jit_options: list[dict[str, Any]] = []

    # libcuda, as ctypes calls it

    def cuCtxGetCurrent(self, *out: Any) -> Any:
        if not out:
            return Status.CUDA_SUCCESS, self.stack[-1]
        out[0]._obj.value = self.stack[-1]
        return 0

    def cuLaunchKernelEx(self, config_at: Any, function_at: Any, params_at: Any, extra: Any) -> int:
        config = Config.from_address(pointed(config_at))
        if params_at is None:
            found = in_one_buffer(self.parameters, pointed(extra))
            if found is None:
                return Status.CUDA_ERROR_INVALID_VALUE
            pointers = found
        else:
            pointers = tuple((ctypes.c_void_p * len(self.parameters)).from_address(pointed(params_at)))
        attributes = {}
        for at in range(config.attributes or 0, (config.attributes or 0) + 72 * config.count, 72):
            attributes[ctypes.c_uint.from_address(at).value] = ctypes.string_at(at + 8, 64)
        cluster = tuple((ctypes.c_uint * 3).from_buffer_copy(attributes[4])) if 4 in attributes else None
        self.launches.append(
            SimpleNamespace(
                grid=tuple(config.grid),
                block=tuple(config.block),
                shared=config.shared,
                stream=config.stream or 0,
                cluster=cluster,
                attributes=attributes,
                function=pointed(function_at),
                context=self.stack[-1],
                addresses=pointers,
                values=tuple(value_at(t, p) for t, p in zip(self.parameters, pointers, strict=True)),
            )
        )
        return self.fail_launch

    def cuOccupancyMaxActiveClusters(self, out: Any, function_at: Any, config_at: Any) -> int:
        config = Config.from_address(pointed(config_at))
        assert config.count == 1
        assert ctypes.c_uint.from_address(config.attributes).value == 4
        cluster = tuple((ctypes.c_uint * 3).from_address(config.attributes + 8))
        self.asked.append((tuple(config.grid), tuple(config.block), cluster))
        out._obj.value = self.fitting
        return Status.CUDA_SUCCESS if self.large_clusters.get(pointed(function_at)) else Status.CUDA_ERROR_INVALID_VALUE

    def cuTensorMapEncodeTiled(
        self, out: int, dtype: int, rank: int, address: int, dims: Any, strides: Any, box: Any, steps: Any, *modes: int
    ) -> int:
        assert out % 64 == 0
        interleave, swizzle, l2_promotion, fill = modes
        assert interleave == 0
        self.maps.append(
            SimpleNamespace(
                dtype=dtype,
                address=address,
                dims=tuple(dims),
                strides=tuple(strides)[: rank - 1],
                box=tuple(box),
                steps=tuple(steps),
                swizzle=swizzle,
                l2_promotion=l2_promotion,
                fill=fill,
            )
        )
        ctypes.memset(out, len(self.maps), 128)
        return self.fail_map

    def cuMemHostAlloc(self, out: Any, size: Any, flags: int) -> int:
        self.host = ctypes.create_string_buffer(b"x" * size.value, size.value + 16)
        out._obj.value = ctypes.addressof(self.host) + -ctypes.addressof(self.host) % 16
        assert flags == 3  # portable, mapped
        return 0

    # cuda.bindings.driver

    def cuDeviceGetCount(self) -> Any:
        return Status.CUDA_SUCCESS, 2

    def cuDeviceGet(self, index: int) -> Any:
        return Status.CUDA_SUCCESS, index

    def cuDeviceGetName(self, _size: int, _device: int) -> Any:
        return Status.CUDA_SUCCESS, b"Fake GPU\0\0\0"

    def cuDeviceGetAttribute(self, which: str, _device: int) -> Any:
        table = {"MAJOR": 9, "MINOR": 0, "OPTIN": 232448, "COUNT": 132}
        sizes = {"WINDOW_SIZE": 1 << 20, "CACHE_SIZE": 1 << 24}
        ends = {**table, **sizes}
        return Status.CUDA_SUCCESS, next(value for end, value in ends.items() if which.endswith(end))

    def cuCtxGetLimit(self, which: str) -> Any:
        return Status.CUDA_SUCCESS, self.limits.get((self.stack[-1], which), 0)

    def cuCtxSetLimit(self, which: str, value: int) -> Any:
        self.limits[self.stack[-1], which] = value
        return (Status.CUDA_SUCCESS,)

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return Status.CUDA_SUCCESS, 1000 + device

    def cuCtxSetCurrent(self, context: int) -> Any:
        self.stack[-1] = context
        return (Status.CUDA_SUCCESS,)

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.stack.append(context)
        return (Status.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self) -> Any:
        return Status.CUDA_SUCCESS, self.stack.pop()

    def cuCtxGetDevice(self) -> Any:
        return Status.CUDA_SUCCESS, self.stack[-1] % 1000

    def cuDriverGetVersion(self) -> Any:
        return Status.CUDA_SUCCESS, 12080

    def cuModuleLoadDataEx(self, image: bytes, count: int, names: list[str], values: list[Any]) -> Any:
        assert count == len(names) == len(values)
        options = {name.removeprefix("CU_JIT_"): value for name, value in zip(names, values, strict=True)}
        if self.fail_load:
            options["ERROR_LOG_BUFFER"][: len(self.fail_load)] = self.fail_load
            return Status.CUDA_ERROR_INVALID_IMAGE, None
        if "INFO_LOG_BUFFER" in options:
            options["INFO_LOG_BUFFER"][: len(self.jit_says)] = self.jit_says
        self.jit_options.append(options)
        if not image.startswith(b"\x7fELF"):
            assert image.endswith(b"\0"), "PTX is passed as a C string"
            image = image[:-1]
        self.loads.append((self.stack[-1], image))
        return Status.CUDA_SUCCESS, len(self.loads)

    def cuModuleGetFunction(self, module: int, _entry: bytes) -> Any:
        return Status.CUDA_SUCCESS, module

    def cuFuncSetAttribute(self, function: int, which: str, value: int) -> Any:
        (self.shared_limits if which.endswith("SIZE_BYTES") else self.large_clusters)[function] = value
        return (Status.CUDA_SUCCESS,)

    def cuFuncGetAttribute(self, which: str, _function: int) -> Any:
        return Status.CUDA_SUCCESS, {"CU_FUNC_ATTRIBUTE_NUM_REGS": 40}.get(which, 0)

    def cuGetErrorName(self, status: int) -> Any:
        return Status.CUDA_SUCCESS, Status(status).name.encode()

    def cuGetErrorString(self, _status: int) -> Any:
        return Status.CUDA_SUCCESS, b"some text"
