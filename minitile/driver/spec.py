"""`mt.spec`: tensors that are not there yet, described for `Kernel.compile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitile.driver.dispatch import caller_location, for_users
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError, shown
from minitile.ir.types import ALIGNMENT, DType
from minitile.language.math import dtype_of_name
from minitile.language.scalars import is_number, python_number
from minitile.runtime.arrays import describe
from minitile.runtime.errors import LaunchError


@dataclass(frozen=True)
class Spec:
    """A tensor that is not there yet: `shape` holds sizes, or names for sizes that nothing is known of; `strides`
    likewise (None: row-major without gaps); aligned: its address is a multiple of 16 bytes."""

    shape: tuple[int | str, ...]
    dtype: DType
    strides: tuple[int | str, ...] | None = None
    aligned: bool = True


@for_users
def spec(
    shape: tuple[int | str, ...] | int | str,
    dtype: Any,
    strides: tuple[int | str, ...] | int | str | None = None,
    aligned: bool = True,
) -> Spec:
    """Describes a tensor for `compile` and `trace`: `spec((8192, "K"), "bfloat16")`.

    Args:
        shape: sizes, of which the compiler learns only what divides them, and names of sizes that nothing is known of.
        dtype: a dtype, or its name.
        strides: in elements, one for each dimension, likewise; None for a tensor that is row-major without gaps.
        aligned: whether its address is a multiple of 16 bytes.

    Raises:
        LanguageError: an unknown dtype, what is neither a size nor a name, or another number of strides.
    """
    sizes = _numbers("shape", shape, 0)
    steps = None if strides is None else _numbers("strides", strides, -(2**63))
    if steps is not None and len(steps) != len(sizes):
        raise LanguageError(f"a spec of {len(sizes)} dimensions has {len(steps)} strides", caller_location())
    return Spec(sizes, dtype_of_name(dtype), steps, aligned)


def _numbers(what: str, given: Any, least: int) -> tuple[int | str, ...]:
    numbers = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    for n in numbers:
        if not (isinstance(n, str) or (is_number(n) and _is_whole(python_number(n), least))):
            bounds = "0 to 2^63 - 1" if least == 0 else "-2^63 to 2^63 - 1"
            hint = f'whole numbers from {bounds}; where one is unknown, a name: spec((1024, "N"), "float16")'
            raise LanguageError(f"the {what} of a spec has {shown(n)}", caller_location(), hint)
    return tuple(n if isinstance(n, str) else int(python_number(n)) for n in numbers)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def as_spec(x: Any) -> Spec:
    if isinstance(x, Spec):
        return x
    try:
        array = describe(x)
    except LaunchError as error:
        raise LaunchArgumentError(
            f"{shown(x)} is no spec and no array", caller_location(), 'write minitile.spec((1024, "N"), "float16")'
        ) from error
    strides = None if array.contiguous else array.strides
    return Spec(array.shape, dtype_of_name(array.dtype), strides, array.ptr % ALIGNMENT == 0)
