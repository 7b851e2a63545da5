"""What operations on matrices have in common: operands as they lie in memory, refusals, launches that are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar, get_type_hints

from minitile.driver.dispatch import caller_location, raise_for_caller
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import Frame
from minitile.runtime.arrays import ArrayInfo, Place, describe, read, row_major
from minitile.runtime.errors import LaunchError

OPERANDS = ("bf16", "f16")
RESULTS = ("bf16", "f16", "f32")
ALIGNMENT = 16  # bytes
MOST_KNOWN = 4096

P = TypeVar("P")

Key = tuple[Any, ...]  # all of a call that decides how it is launched, but addresses and `out`


def refused(what: str, hint: str = "") -> LaunchArgumentError:
    return LaunchArgumentError(what, caller_location(), hint)


def read_pair(a: Any, b: Any, out: Any, ranks: tuple[int, ...]) -> tuple[ArrayInfo, ArrayInfo, ArrayInfo | None]:
    """The operands of `matmul`, and `out` if it is given. Raises LaunchArgumentError for what is no array, for other
    ranks and element types, and where these or the devices differ."""
    try:
        infos = describe(a), describe(b)
        given = None if out is None else describe(out)
    except LaunchError as error:
        raise_for_caller(error)
    for name, info in zip("ab", infos, strict=True):
        if len(info.shape) not in ranks:
            raise refused(f"{name} has {len(info.shape)} dimensions, matmul takes matrices and batches of them")
        if info.dtype not in OPERANDS:
            raise refused(f"{name} is {info.dtype}, matmul takes {' and '.join(OPERANDS)}")
    if infos[0].dtype != infos[1].dtype:
        raise refused(f"a is {infos[0].dtype} and b is {infos[1].dtype}", "convert one of them first")
    if infos[0][4:6] != infos[1][4:6] or (given is not None and given[4:6] != infos[0][4:6]):
        raise refused("a, b and out are not on one device")
    return *infos, given


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


def named(argument: str, dtype: Any) -> DType:
    """The element type that an argument names: a name, or a dtype of T, NumPy or torch. Raises LaunchArgumentError."""
    try:
        return dtype_of_name(dtype)
    except LanguageError:
        raise refused(f"{argument} is {dtype!r}", '"bf16", "f16" or "f32", or such a dtype of torch or NumPy') from None


def planned(plan: Any, kind: type[P]) -> P | None:
    """The plan of a call, or None where none is given. Raises LaunchArgumentError for a plan of another kind, and for
    counts in it that are none."""
    if plan is None:
        return None
    if not isinstance(plan, kind):
        raise refused(f"plan is {plan!r}", f"pass mt.ops.{kind.__name__}(…), or none")
    for name, annotation in (_annotations.get(kind) or _annotations.setdefault(kind, get_type_hints(kind))).items():
        value, extent = getattr(plan, name), name.startswith("block_") or name == "threads"
        if annotation is int and not (isinstance(value, Integral) and (int(value) > 0 or not extent)):
            raise refused(f"the plan's {name} is {value!r}", "a whole number" + " greater than 0" * extent)
        if annotation is float and not (isinstance(value, Real) and 0 <= float(value) < math.inf):
            raise refused(f"the plan's {name} is {value!r}", "a number from 0 on")
    return plan


_annotations: dict[Any, dict[str, Any]] = {}  # of plans


def result_dtype(given: ArrayInfo | None, shape: tuple[int, ...], default: str, dtype: Any) -> DType:
    """The result's element type: that of `given`, an `out`, else `dtype`, else the default. Raises LaunchArgumentError
    for an `out` that is not row-major of that shape and dtype, and for other types than RESULTS."""
    result = named("dtype", default if dtype is None else dtype)
    if given is not None:
        if tuple(given.shape) != shape or not given.contiguous:
            gaps = "" if given.contiguous else " with gaps, or in another order"
            raise refused(f"out has shape {tuple(given.shape)}{gaps}; it must be {shape}, row-major without gaps")
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


def remember(
    known: dict[Key, Ready], key: Key, executable: Any, sizes: Mapping[str, int], frame: Frame, out: Any
) -> None:
    """The next call with this key goes straight to the launch. `sizes`: of the kernel's dimensions by name. `out`: a
    row-major result of such a launch."""
    launcher = executable.launcher
    dims = tuple(sizes[name] for kind, name in launcher.slots if kind == "dim")
    expected = out.shape, row_major(out.shape), out.dtype, out.get_device()
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = Ready(launcher.launch, dims, read(out)[3], frame.like(out), expected)
