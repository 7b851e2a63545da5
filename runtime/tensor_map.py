"""Tensor maps: the 128 opaque bytes that tell TMA of a tensor, encoded by the driver and kept.

`TensorMapEncoder` is one TensorMapParam of one kernel. Its `known` holds the maps made so far by what they depend on
(the address and the run-time dimensions), so that a launch with the same tensors costs a look-up. A map is a pure
function of these numbers: it stays right when memory is freed and used again.

The driver's arrays run innermost first, with strides in bytes; ours outermost first, with strides in elements. What
cuTensorMapEncodeTiled would answer with a bare CUDA_ERROR_INVALID_VALUE is said here first, by name and rule.

A tensor without elements has no map at the driver's, and a copy by a map of zeros is an error that ends the context. It
gets the map of one element that is zero, in memory of the encoder's own: what is loaded is zeros, as everything outside
of a tensor, and a store changes nothing of the caller's.

Sources: CUDA driver API reference, Tensor Map Object Management (cuTensorMapEncodeTiled: limits and enumerations; the
opaque object is 128 bytes, aligned to 64).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from .errors import ArgumentError, DriverError, UnavailableError
from .launch_info import (
    TENSOR_MAP_ALIGNMENT,
    TENSOR_MAP_BYTES,
    Expr,
    Slot,
    TensorMapParam,
    Values,
    byte_size,
    compile_exprs,
    mentioned,
)

# CUtensorMapDataType. What has no type of its own travels as the unsigned integer of its size.
_DATA_TYPES = {
    **dict.fromkeys(("u8", "i8", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "bool"), 0),
    **dict.fromkeys(("u16", "i16"), 1),
    "u32": 2,
    "i32": 3,
    "u64": 4,
    "i64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
}
_TF32 = 11  # f32 in memory; what a load writes is rounded to the nearest tf32, ties to even (triton-lang/triton #11751)
_FLOATS = ("f16", "f32", "f64", "bf16")
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
_L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}  # bytes -> CUtensorMapL2promotion
_FILLS = {"zeros": 0, "nan": 1}  # CUtensorMapFloatOOBfill
_CHUNK = 16  # bytes: TMA's grain in global memory
_MOST_KNOWN = 1024  # maps kept for one parameter, 128 bytes each
_PAGE = 4096
_PORTABLE, _MAPPED = 1, 2  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
_ZEROS: list[int] = []  # addresses of zeros that no encoder has taken yet
_LOCK = threading.Lock()


class TensorMapEncoder:
    """Encodes the maps of one parameter. `library` is libcuda through ctypes, `slots` the launch's.

    Raises ArgumentError for a description that no call could make right, UnavailableError for too old a driver.
    """

    def __init__(self, param: TensorMapParam, slots: Sequence[Slot], library: Any) -> None:
        self.param = param
        check_box(param)
        pointer: Expr = ("pointer", param.tensor)
        exprs = (pointer, *param.dims, *param.strides)
        read = set().union(*map(mentioned, exprs))
        self.slots = tuple(slot for slot in slots if slot in read)  # what a map depends on: the order of a key
        self.known: dict[Values, bytes] = {}
        self._evaluate = compile_exprs(exprs, self.slots)
        self._library = library
        self._zero = 0  # the address of an element for tensors that have none, once there was one
        self._encode_tiled: Any = getattr(library, "cuTensorMapEncodeTiled", None)
        if self._encode_tiled is None:
            raise UnavailableError("this CUDA driver makes no tensor maps", "they came with CUDA 12.0")

    def encode(self, key: Values) -> bytes:
        """The map for these values of `slots`, which it does not look for in `known` but leaves there. Raises
        ArgumentError for what breaks one of TMA's rules, DriverError for what the driver alone objects to."""
        pointer, *numbers = self._evaluate(key)
        rank = len(self.param.dims)
        dims, strides = numbers[:rank], [s * byte_size(self.param.dtype) for s in numbers[rank:]]
        if 0 in dims:
            dims, strides = one_element(rank)
            self._zero = self._zero or zeroed(self._library)
            pointer = self._zero
        check_tensor(self.param, pointer, dims, strides)
        made = self._encode(pointer, dims, strides)
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        self.known[key] = made
        return made

    def _encode(self, pointer: int, dims: Sequence[int], strides: Sequence[int]) -> bytes:
        param, rank = self.param, len(dims)
        memory = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
        at = ctypes.addressof(memory)
        skipped = -at % TENSOR_MAP_ALIGNMENT
        dtype, *modes = driver_numbers(param)
        status = self._encode_tiled(
            at + skipped,
            dtype,
            rank,
            pointer,
            (ctypes.c_uint64 * rank)(*reversed(dims)),
            (ctypes.c_uint64 * rank)(*reversed(strides)),
            (ctypes.c_uint32 * rank)(*reversed(param.box)),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            0,
            *modes,
        )
        if status:
            raise DriverError(
                f"the driver refuses a tensor map of {param.tensor}: {param.dtype}, dimensions {tuple(dims)}, strides "
                f"of {tuple(strides)} bytes, box {param.box}, swizzle {param.swizzle} bytes",
                f"CUDA error {status}",
            )
        return memory.raw[skipped : skipped + TENSOR_MAP_BYTES]


def driver_numbers(param: TensorMapParam) -> tuple[int, int, int, int]:
    """The driver's numbers for the element type, the swizzle, the L2 promotion and the fill."""
    dtype = _TF32 if param.tf32 else _DATA_TYPES[param.dtype]
    return dtype, _SWIZZLES[param.swizzle], _L2_PROMOTIONS[param.l2_promotion], _FILLS[param.fill]


def one_element(rank: int) -> tuple[list[int], list[int]]:
    """Dimensions and strides (in bytes) of the smallest tensor that has a map."""
    return [1] * rank, [_CHUNK] * (rank - 1)


def zeroed(library: Any) -> int:
    """The address of 16 zero bytes that every device reaches: page-locked memory of the host, kept for good. Raises
    DriverError where there is none."""
    with _LOCK:
        if not _ZEROS:
            page = ctypes.c_void_p()
            status = library.cuMemHostAlloc(ctypes.byref(page), ctypes.c_size_t(_PAGE), _PORTABLE | _MAPPED)
            if status or page.value is None:
                raise DriverError("no memory for the tensor map of a tensor without elements", f"CUDA error {status}")
            ctypes.memset(page, 0, _PAGE)
            _ZEROS.extend(range(page.value, page.value + _PAGE, _CHUNK))
        return _ZEROS.pop()


def declare(library: Any) -> None:
    """Gives `library`'s cuTensorMapEncodeTiled its C types. Nothing where the driver is older than CUDA 12.0."""
    function = getattr(library, "cuTensorMapEncodeTiled", None)
    if function is not None:
        address, number = ctypes.c_void_p, ctypes.c_uint
        function.argtypes = [address, number, number, *[address] * 5, *[number] * 4]
        function.restype = ctypes.c_int


def check_box(param: TensorMapParam) -> None:
    """TMA's rules for what a parameter fixes. Raises ArgumentError."""
    rank, element = len(param.dims), byte_size(param.dtype)
    inner = param.box[-1] * element if param.box else 0
    rules = [
        (1 <= rank <= 5, f"it has {rank} dimensions; TMA takes 1 to 5"),
        (
            len(param.box) == rank and len(param.strides) == rank - 1,
            f"{rank} dimensions want a box of {rank} and {rank - 1} strides, not {len(param.box)} and "
            f"{len(param.strides)}",
        ),
        (param.dtype in _DATA_TYPES, f"TMA has no elements of type {param.dtype}"),
        (param.swizzle in _SWIZZLES, f"a swizzle of {param.swizzle} bytes; TMA has 0, 32, 64 and 128"),
        (
            param.l2_promotion in _L2_PROMOTIONS,
            f"an L2 promotion of {param.l2_promotion} bytes; there are 0, 64, 128 and 256",
        ),
        (param.fill in _FILLS, f"it is filled with {param.fill!r}; there are 'zeros' and 'nan'"),
        (param.fill != "nan" or param.dtype in _FLOATS, f"{param.dtype} has no NaN to be filled with"),
        (not param.tf32 or param.dtype == "f32", f"{param.dtype} is not rounded to tf32"),
        (all(1 <= n <= 256 for n in param.box), f"its box is {param.box}; each extent must be from 1 to 256"),
        (inner % _CHUNK == 0, f"its box is {inner} bytes wide, which must be a multiple of {_CHUNK}"),
        (
            not param.swizzle or inner <= param.swizzle,
            f"its box is {inner} bytes wide; the {param.swizzle}-byte swizzle allows {param.swizzle}",
        ),
    ]
    _require(param, rules)


def check_tensor(param: TensorMapParam, pointer: int, dims: Sequence[int], strides: Sequence[int]) -> None:
    """TMA's rules for a call's numbers, strides in bytes. Raises ArgumentError."""
    rules = [(pointer % _CHUNK == 0, f"its address {pointer:#x} is no multiple of {_CHUNK}")]
    for axis, extent in enumerate(dims):
        rules.append((1 <= extent <= 2**32, f"dimension {axis} is {extent}; TMA takes 1 to 2**32"))
    for axis, stride in enumerate(strides):
        rules.append(
            (stride % _CHUNK == 0, f"dimension {axis} has a stride of {stride} bytes, which is no multiple of {_CHUNK}")
        )
        rules.append(
            (0 <= stride < 2**40, f"dimension {axis} has a stride of {stride} bytes; TMA takes less than 2**40")
        )
    _require(param, rules)


def _require(param: TensorMapParam, rules: Sequence[tuple[bool, str]]) -> None:
    for holds, otherwise in rules:
        if not holds:
            raise ArgumentError(f"{param.tensor} cannot be copied by TMA: {otherwise}")
