"""What operations on matrices have in common: operands as they lie in memory, refusals, launches that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from minitile.ir.diagnostics import LaunchArgumentError
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.launching import caller_location
from minitile.ops.frames import Frame
from minitile.runtime.arrays import ArrayInfo, Place, read

OPERANDS = ("bf16", "f16")
RESULTS = ("bf16", "f16", "f32")
ALIGNMENT = 16  # bytes
MOST_KNOWN = 4096


def refused(what: str, hint: str = "") -> LaunchArgumentError:
    return LaunchArgumentError(what, caller_location(), hint)


def lying(x: Any, info: ArrayInfo, frame: Frame | None) -> tuple[Any, bool]:
    """The matrix, or the batch of matrices, row-major without gaps; and whether that is the transpose (of each)."""
    *_, rows, columns = info.shape
    aligned = info.ptr % ALIGNMENT == 0 or info.device_kind == "cpu"
    if info.contiguous and aligned:
        return x, False
    if frame is None:
        raise refused(
            f"an operand is not row-major without gaps, or its address is no multiple of {ALIGNMENT} bytes",
            "pass such a copy, or arrays of torch, CuPy or NumPy, whose strides are taken as they are",
        )
    *outer, down, across = info.strides
    dense = not outer or info.shape[0] == 1 or outer[0] == rows * columns
    if aligned and dense and ((down, across) == (1, rows) or (down == 1 and columns == 1)):
        return (frame.transposed if len(info.shape) == 2 else frame.turned)(x), True
    return frame.whole(x), False


def result_dtype(given: ArrayInfo | None, shape: tuple[int, ...], default: str, dtype: Any) -> DType:
    """The result's element type: that of `given`, an `out`, else `dtype`, else the default. Raises LaunchArgumentError
    for an `out` that is not row-major of that shape and dtype, and for other types than RESULTS."""
    result = dtype_of_name(default if dtype is None else str(dtype).removeprefix("torch."))
    if given is not None:
        if tuple(given.shape) != shape or not given.contiguous:
            raise refused(f"out has shape {tuple(given.shape)}; it must be {shape}, row-major without gaps")
        if dtype is not None and given.dtype != result.name:
            raise refused(f"out is {given.dtype}, and dtype is {result}")
        result = dtype_of_name(given.dtype)
        if given.ptr % ALIGNMENT:
            raise refused(f"the address of out is no multiple of {ALIGNMENT} bytes")
    if result.name not in RESULTS:
        raise refused(f"the result is {result}; it may be {', '.join(RESULTS)}")
    return result


class Ready(NamedTuple):
    """One launch on torch tensors of a GPU: `launch` takes slot values, of which all but the pointers are `dims`;
    `empty()` is a new result, `out` is what a given one must be: shape, strides, dtype, device."""

    launch: Callable[[tuple[int, ...], Place], None]
    dims: tuple[int, ...]
    place: Place
    empty: Callable[[], Any]
    out: tuple[Any, ...]


def facts(x: Any) -> tuple[Any, ...]:
    """What of a tensor of torch decides how it is launched, but for its address. Raises AttributeError for others."""
    return x.shape, x.stride(), x.dtype, x.get_device()


def ready_for(executable: Any, sizes: Mapping[str, int], frame: Frame, out: Any) -> Ready:
    """`sizes`: of the kernel's dimensions by name. `out`: a result of such a launch."""
    launcher = executable.launcher
    dims = tuple(sizes[name] for kind, name in launcher.slots if kind == "dim")
    new = frame.like(out)
    return Ready(launcher.launch, dims, read(out)[3], new, facts(new()))
