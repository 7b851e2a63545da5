"""Arrays of any framework, seen alike: torch, CuPy, NumPy, and whatever speaks `__cuda_array_interface__` or DLPack.

`read(array)` gives `(pointer, shape, dtype, place, contiguous)` and is what a launch uses; `describe` says the same,
and the strides, in an `ArrayInfo`. No framework is imported: a reader is found by the array's type, once per type.
A `Place` is where the memory is and how to learn the stream that its framework works on at the moment.

Sources: the CUDA Array Interface, version 3 (numba documentation); DLPack 1.0, dlpack.h (the struct layouts; device
types 1 CPU, 2 CUDA, 3 CUDA host, 10 ROCm, 13 CUDA managed); the Python array API's `__dlpack__` (the meaning of
`stream`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from .errors import ArgumentError


def _legacy_stream() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array is: kind "cpu", "cuda" or "rocm", and the device's index. `stream()` is the raw handle of the
    stream that the array's framework currently uses there (0: the legacy default stream)."""

    kind: str
    index: int = 0
    stream: Callable[[], int] = field(default=_legacy_stream, compare=False)

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"


class ArrayInfo(NamedTuple):
    """An array without its framework. `ptr` is its first element's address, `strides` are in elements, `dtype` is a
    short name (f32, bf16, e4m3, i32, …; one that minitile has not is the framework's own)."""

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device_kind: str
    device_index: int
    contiguous: bool


class RawArray(NamedTuple):
    """Row-major memory without gaps that is known by numbers alone, and that others keep: see `ArrayInfo`."""

    data: int
    shape: tuple[int, ...]
    dtype: str
    place: Place


Reading = tuple[int, tuple[int, ...], str, Place, bool]
Reader = Callable[[Any], Reading]

CPU = Place("cpu")

SHORT_NAMES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "bool": "bool",
}

readers: dict[type, Reader] = {RawArray: lambda raw: (*raw, True)}


def read(array: Any) -> Reading:
    """Pointer, shape, dtype, place and contiguity of `array`. Raises ArgumentError for what is no array."""
    return (readers.get(type(array)) or find_reader(array))(array)


def describe(array: Any) -> ArrayInfo:
    """All of `array` that a launch could ask for. Raises ArgumentError for what is no array."""
    pointer, shape, dtype, place, contiguous = read(array)
    strides = row_major(shape) if contiguous else strides_of(array)
    return ArrayInfo(pointer, tuple(shape), strides, dtype, place.kind, place.index, contiguous)


def dtype_name(array: Any) -> str:
    """The short name of an array's dtype; of torch's tensors and JAX's arrays also where they have no
    memory (fake tensors, tracers)."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch_tensors().names[array.dtype]
    if is_jax(array):
        name = str(array.dtype.name)
        return SHORT_NAMES.get(name, name)
    return read(array)[2]


def is_jax(array: Any) -> bool:
    """Whether it is an array of JAX, or one that JAX traces."""
    kind = getattr(sys.modules.get("jax"), "Array", None)
    return kind is not None and isinstance(array, kind)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a row-major array without gaps."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def find_reader(array: Any) -> Reader:
    """The reader for arrays of this type, kept for the next time."""
    kind = type(array)
    reader: Reader
    torch = sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    cupy = sys.modules.get("cupy")
    if torch is not None and isinstance(array, torch.Tensor):
        reader = torch_tensors().read
    elif numpy is not None and isinstance(array, numpy.ndarray):
        reader = _read_numpy
    elif cupy is not None and isinstance(array, cupy.ndarray):
        reader = _cupy_reader(cupy)
    elif is_jax(array):
        reader = _read_jax
    elif hasattr(array, "__cuda_array_interface__"):
        reader = _read_interface
    elif hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        reader = _read_dlpack
    else:
        raise ArgumentError(
            f"{_type_name(kind)} is no array that minitile knows",
            "pass a torch, CuPy or NumPy array, or one with __cuda_array_interface__ or __dlpack__",
        )
    readers[kind] = reader
    return reader


def _type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class TorchTensors:
    """What is to be known of torch to read its tensors: `kind`, the tensors' type; `dtypes` by their short names; and
    `places` by device index, for GPUs, as they are met."""

    def __init__(self, torch: Any) -> None:
        self.kind: type = torch.Tensor
        # A dtype has several names in torch (float32, float); its text has the one with the width.
        dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
        self.names = {d: SHORT_NAMES.get(name, name) for d in dtypes for name in [str(d).removeprefix("torch.")]}
        self.dtypes = {name: d for d, name in self.names.items()}
        self.places: dict[int, Place] = {}
        self._device_kind = "rocm" if torch.version.hip else "cuda"
        self._torch = torch

    def read(self, tensor: Any) -> Reading:
        index = tensor.get_device()
        place = self.places.get(index) or self.place_of(tensor)
        return tensor.data_ptr(), tensor.shape, self.names[tensor.dtype], place, tensor.is_contiguous()

    def place_of(self, tensor: Any) -> Place:
        """The place of a tensor, noted in `places` if it is a GPU. Raises ArgumentError for other devices."""
        index, device = tensor.get_device(), tensor.device.type
        if device == "cpu":
            return CPU
        if device != "cuda":
            raise ArgumentError(f"a tensor on torch device '{tensor.device}' cannot be given to a kernel")
        raw = getattr(self._torch._C, "_cuda_getCurrentRawStream", None)
        stream = partial(raw, index) if raw else lambda: int(self._torch.cuda.current_stream(index).cuda_stream)
        place = self.places[index] = Place(self._device_kind, index, stream)
        return place


@cache
def torch_tensors() -> TorchTensors:
    """For the torch that has been imported."""
    return TorchTensors(sys.modules["torch"])


def _read_numpy(array: Any) -> Reading:
    if hasattr(array, "mask"):
        raise ArgumentError("a masked array is no plain memory", "pass `.filled()`, or `.data`, which has no mask")
    name = array.dtype.name
    whole = array.flags.c_contiguous and array.dtype.isnative
    return array.ctypes.data, array.shape, SHORT_NAMES.get(name, name), CPU, whole


def _cupy_reader(cupy: Any) -> Reader:
    kind = "rocm" if cupy.cuda.runtime.is_hip else "cuda"
    places: dict[int, Place] = {}

    def read_cupy(array: Any) -> Reading:
        index = int(array.device.id)
        place = places.get(index)
        if place is None:
            place = places[index] = Place(kind, index, lambda: int(cupy.cuda.get_current_stream(index).ptr))
        name = array.dtype.name
        return int(array.data.ptr), array.shape, SHORT_NAMES.get(name, name), place, bool(array.flags.c_contiguous)

    return read_cupy


def _read_interface(array: Any) -> Reading:
    """`__cuda_array_interface__`: the device is asked of the driver, the stream is the one the array names."""
    import numpy

    facts = array.__cuda_array_interface__
    pointer, shape = int(facts["data"][0]), tuple(facts["shape"])
    element = numpy.dtype(facts["typestr"])
    # ml_dtypes have no typestr of their own ("V2"): the array's dtype knows better where it has one.
    name = getattr(getattr(array, "dtype", None), "name", None) if element.kind == "V" else element.name
    strides = facts.get("strides")
    whole = strides is None or _gapless(shape, tuple(s / element.itemsize for s in strides))
    # 1 is the legacy default stream, 2 the per-thread one; the driver knows both by these numbers.
    stream = int(facts.get("stream") or 0)
    place = _place_of_pointer(pointer, stream)
    return pointer, shape, SHORT_NAMES.get(str(name), str(name)), place, whole


def _place_of_pointer(pointer: int, stream: int) -> Place:
    """Asked of CUDA's driver or, where there is only an AMD GPU, of HIP. Raises UnavailableError without either."""
    from . import cuda, hip

    if not cuda.available() and hip.available():
        # HIP's null stream is the legacy one of CUDA; 1 is nothing there.
        return Place("rocm", hip.device_of_pointer(pointer), lambda: 0 if stream == 1 else stream)
    return Place("cuda", cuda.device_of_pointer(pointer), lambda: stream)


class _DLDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DL_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "rocm", 11: "cpu", 13: "cuda"}
_DL_TYPES = {
    **{(0, bits): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16",
    (6, 8): "bool",
    (10, 8): "e4m3",
    (11, 8): "e4m3fnuz",
    (12, 8): "e5m2",
    (13, 8): "e5m2fnuz",
}


def _read_dlpack(array: Any) -> Reading:
    """DLPack: the producer is asked to make the data ready on the legacy default stream, and the launch goes there.
    The capsule may go at once: the caller's array keeps the memory."""
    tensor, capsule = _dltensor(array)
    kind = _DL_DEVICES.get(tensor.device.type)
    if kind is None:
        raise ArgumentError(f"an array on DLPack device type {tensor.device.type} cannot be given to a kernel")
    shape = tuple(tensor.shape[: tensor.rank])
    whole = not tensor.strides or _gapless(shape, tuple(tensor.strides[: tensor.rank]))
    dtype = _DL_TYPES.get((tensor.code, tensor.bits), f"dlpack type {tensor.code} of {tensor.bits} bits")
    place = CPU if kind == "cpu" else Place(kind, tensor.device.index)
    pointer = (tensor.data or 0) + tensor.byte_offset
    del capsule
    return pointer, shape, dtype, place, whole


def _read_jax(array: Any) -> Reading:
    """By DLPack. On a GPU it can be read, and not launched on: JAX works on streams of its own, of which it tells only
    the handlers of XLA's custom calls."""
    if not hasattr(array, "__dlpack_device__") or len(array.devices()) != 1:
        raise ArgumentError(
            f"{_type_name(type(array))} is no array on one device",
            "call the kernel itself, or mt.jax_op of it, inside of jax.jit or jax.shard_map",
        )
    pointer, shape, dtype, place, whole = _read_dlpack(array)
    return pointer, shape, dtype, place if place is CPU else Place(place.kind, place.index, _jax_stream), whole


def _jax_stream() -> int:
    raise ArgumentError(
        "JAX's arrays on a GPU are launched on by JAX alone", "call the kernel itself, or mt.jax_op of it"
    )


def _dltensor(array: Any) -> tuple[_DLTensor, Any]:
    """The DLTensor of `array`, valid while the capsule beside it lives."""
    kind = _DL_DEVICES.get(int(array.__dlpack_device__()[0]))
    stream = {"cuda": 1, "rocm": 0}.get(kind or "cpu")
    capsule = array.__dlpack__() if stream is None else array.__dlpack__(stream=stream)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _DLTensor.from_address(get(capsule, b"dltensor")), capsule


def strides_of(array: Any) -> tuple[int, ...]:
    """An array's strides in elements. Raises ArgumentError for elements that are no whole number of them apart, and for
    those of the other byte order."""
    if isinstance(array, RawArray):
        return row_major(array.shape)
    if callable(getattr(array, "stride", None)):
        return tuple(array.stride())
    if hasattr(array, "strides") and hasattr(array, "itemsize"):
        if not getattr(array.dtype, "isnative", True):
            raise ArgumentError("its elements are in the other byte order")
        return _in_elements(array.strides, array.itemsize)
    if hasattr(array, "__cuda_array_interface__"):
        import numpy

        facts = array.__cuda_array_interface__
        strides = facts.get("strides")
        if strides is None:
            return row_major(tuple(facts["shape"]))
        return _in_elements(strides, numpy.dtype(facts["typestr"]).itemsize)
    tensor, _capsule = _dltensor(array)
    if not tensor.strides:
        return row_major(tuple(tensor.shape[: tensor.rank]))
    return tuple(tensor.strides[: tensor.rank])


def writable(array: Any) -> bool:
    """Whether a framework lets an array in the host's memory be written to in place. JAX's never change, and do not
    always say so in DLPack."""
    return not is_jax(array)


def _in_elements(strides: Sequence[int], size: int) -> tuple[int, ...]:
    if any(s % size for s in strides):
        raise ArgumentError(
            f"its strides of {tuple(strides)} bytes are no multiples of an element's {size}", "pass a copy"
        )
    return tuple(s // size for s in strides)


def _gapless(shape: tuple[int, ...], strides: tuple[float, ...]) -> bool:
    """Row-major without gaps; the stride of a dimension of one element does not matter."""
    if 0 in shape:
        return True
    return all(extent == 1 or have == want for extent, have, want in zip(shape, strides, row_major(shape), strict=True))
