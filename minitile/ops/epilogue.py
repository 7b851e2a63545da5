"""`matmul(a, b, epilogue=f, args=(bias, …))`: a function of one element, applied to sums while they are in registers.

f is traced as part of the kernel, by the language's rules. Its first parameter is the f32 sum of an element of C; the
others are what `args` has for that element, by the rules of broadcasting:

    (N,)  (1, N)       a number for each column          bias
    (M, 1)             a number for each row             scales of the rows of a
    (M, N)             a number for each element         residual
    (1,)  (1, 1)  ()   one number, known at run time     scale
    2.0                one number, known at compile time

    mt.ops.matmul(x, w.t(), epilogue=lambda x, bias, residual: T.max(x + bias, 0.0) + residual, args=(bias, residual))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from numbers import Real
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from minitile.driver.capture import exact
from minitile.driver.dispatch import raise_for_caller
from minitile.ir.types import DType, f32
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import reshaped
from minitile.ops.operands import RESULTS, refused
from minitile.runtime.arrays import ArrayInfo, describe
from minitile.runtime.errors import LaunchError

MOST = 4  # tensors
MOST_FUNCTIONS = 1024  # that are remembered


class Extra(NamedTuple):
    """A tensor beside the product: its dimensions, "M" or 1 and "N" or 1, and its elements."""

    dims: tuple[str | int, str | int]
    dtype: DType


class Epilogue(NamedTuple):
    """What is compiled into a kernel. `numbers`: of the function's further parameters, in order, the numbers that they
    are, None for tensors."""

    function: Callable[..., Any]
    extras: tuple[Extra, ...]
    numbers: tuple[float | None, ...]


def extra_tensors(epilogue: Epilogue | None) -> list[tuple[tuple[str | int, str | int], DType]]:
    """Shapes and dtypes of a kernel's MOST optional tensors: the epilogue's, and any for those that there are not."""
    extras = epilogue.extras if epilogue else ()
    return [*extras, *[((1, 1), f32)] * (MOST - len(extras))]


def named(epilogue: Epilogue | None) -> Callable[[FunctionType], FunctionType]:
    """A decorator under `kernel`: with an epilogue the kernel's name says so, for profilers."""

    def name(function: FunctionType) -> FunctionType:
        if epilogue is not None:
            function.__name__ += "_epilogue"
        return function

    return name


def read_epilogue(
    function: Callable[..., Any] | None, args: Sequence[Any], like: ArrayInfo, shape: tuple[int, int]
) -> tuple[Epilogue | None, tuple[Any, ...]]:
    """What is compiled, and the tensors that are passed, as matrices. Raises LaunchArgumentError for what does not
    fit."""
    if not isinstance(args, (tuple, list)):
        raise refused(f"args is a {type(args).__name__}", "a tuple, also of one tensor: args=(bias,)")
    if function is None:
        if args:
            raise refused("args are given, and no epilogue that takes them")
        return None, ()
    if not callable(function):
        raise refused(f"epilogue is a {type(function).__name__}", "a function of one element, and of those of args")
    tensors: list[Any] = []
    extras: list[Extra] = []
    numbers: list[float | None] = []
    for position, arg in enumerate(args):
        if isinstance(arg, Real):  # NumPy's scalars too
            numbers.append(float(arg))
            continue
        tensor, extra = _read(arg, position, like, shape)
        tensors.append(tensor)
        extras.append(extra)
        numbers.append(None)
    if len(tensors) > MOST:
        raise refused(f"args has {len(tensors)} tensors, an epilogue takes at most {MOST}")
    function = same(function)
    _check_count(function, len(args))
    return Epilogue(function, tuple(extras), tuple(numbers)), tuple(tensors)


def _check_count(function: Callable[..., Any], count: int) -> None:
    """Raises LaunchArgumentError for a function that does not take the sum and as many elements."""
    key = id(function), count
    if _counted.get(key) is function:
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a callable that does not say
        return
    try:
        signature.bind(*range(1 + count))
    except TypeError as error:
        elements = f"the sum and an element of each of {count} args" if count else "the sum alone; args are none"
        raise refused(f"epilogue{signature} is called with {elements}: {error}") from None
    if len(_counted) >= MOST_FUNCTIONS:
        _counted.clear()
    _counted[key] = function


def _read(arg: Any, position: int, like: ArrayInfo, shape: tuple[int, int]) -> tuple[Any, Extra]:
    """A tensor of args as a matrix, and how it goes with C."""
    try:
        info = describe(arg)
    except LaunchError as error:
        raise_for_caller(error)
    name = f"args[{position}]"
    if info.dtype not in RESULTS:
        raise refused(f"{name} is {info.dtype}; it may be {', '.join(RESULTS)}")
    if info[4:6] != like[4:6]:
        raise refused(f"{name} is not on the device of a")
    given = tuple(info.shape)
    whole = (*(1,) * (2 - len(given)), *given)
    if len(whole) != 2 or any(n not in (1, size) for n, size in zip(whole, shape, strict=True)):
        raise refused(f"{name} has shape {given}, which does not go with a result of {shape[0]}×{shape[1]}")
    dims = ("M" if whole[0] != 1 else 1, "N" if whole[1] != 1 else 1)
    return (arg if len(given) == 2 else reshaped(arg, whole)), Extra(dims, dtype_of_name(info.dtype))


_known: dict[tuple[Any, ...], Callable[..., Any]] = {}
_counted: dict[tuple[int, int], Callable[..., Any]] = {}  # those that take as many arguments, by their ids


def same(function: Callable[..., Any]) -> Callable[..., Any]:
    """One function for all that are the same: a lambda in a loop is a new object each time, and one kernel. It has
    variables of its own, since those that a function captures may get other values."""
    if not isinstance(function, FunctionType):
        return function
    code: CodeType = function.__code__
    try:
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        defaults, named = function.__defaults__ or (), function.__kwdefaults__ or {}
        given = exact((*cells, *defaults, *named.values()))
        key = code, code.co_filename, id(function.__globals__), given, tuple(named)
        if (known := _known.get(key)) is not None:
            return known
        if len(_known) >= MOST_FUNCTIONS:
            _known.clear()
        return _known.setdefault(key, _with_cells(function, cells))
    except (TypeError, ValueError):  # what is captured has no hash, or no value yet
        return function


def _with_cells(function: FunctionType, values: tuple[Any, ...]) -> FunctionType:
    """The function with these values in place of what it captures."""
    closure = tuple(map(CellType, values))
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made
