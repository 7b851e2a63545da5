"""A call's arguments, checked and turned into slot values, by one generated function for each signature.

The generated function holds the common case as straight-line comparisons; whatever fails there goes to `explain`, which
looks again, slowly, and says what is wrong. For `(A: (M, K) bf16, n: i32)` it reads

    def bind(a0=MISSING, a1=MISSING, *rest):
        try:
            p0, s0, t0, place, w0 = (get(type(a0)) or find(a0))(a0)
            d0, d1, = s0
            v1 = to_int(a1)
            ok = not rest and t0 == 'bf16' and w0 and not p0 & 1
        except Exception:
            ok = False
        if not ok:
            explain(a0, a1, *rest)
        return (p0, d0, d1, v1), place
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .arrays import CPU, Place, Reading, find_reader, read, readers
from .errors import ArgumentError
from .launch import ScalarArg, TensorArg, Values, byte_size

Bind = Callable[..., tuple[Values, Place]]


def compile_binder(args: Sequence[TensorArg | ScalarArg]) -> Bind:
    """A function that takes one Python value for each of `args` and returns `(slot values, place)`, the values in the
    order of `slots_of(args)`; the place is that of the tensors (the CPU if there are none).

    It raises ArgumentError for another number of arguments, a wrong rank, dtype or constant dimension, gaps or another
    order than row-major, an address that is no multiple of the element's size, tensors on different devices, two
    tensors that disagree on a named dimension, and scalars of the wrong kind.
    """
    names = [f"a{i}" for i in range(len(args))]
    reads: list[str] = []
    checks: list[str] = []
    tests: list[str] = []
    pointers: list[str] = []
    dims: dict[str, str] = {}
    scalars: list[str] = []
    place = "CPU"
    for i, arg in enumerate(args):
        if isinstance(arg, ScalarArg):
            checks.append(f"v{i} = {_conversion(arg.dtype)}(a{i})")
            scalars.append(f"v{i}")
            continue
        spot = "place" if place == "CPU" else f"place{i}"
        reads.append(f"p{i}, s{i}, t{i}, {spot}, w{i} = (get(type(a{i})) or find(a{i}))(a{i})")
        pointers.append(f"p{i}")
        unpacked = [f"d{i}_{axis}" for axis in range(len(arg.shape))]
        checks.append(f"{''.join(f'{d}, ' for d in unpacked) or '()'} = s{i}")
        tests += [f"t{i} == {arg.dtype!r}", f"w{i}"]
        if byte_size(arg.dtype) > 1:
            tests.append(f"not p{i} & {byte_size(arg.dtype) - 1}")
        if spot != "place":
            tests.append(f"({spot} is place or {spot} == place)")
        place = "place"
        for extent, variable in zip(arg.shape, unpacked, strict=True):
            if isinstance(extent, int):
                tests.append(f"{variable} == {extent}")
            elif extent in dims:
                tests.append(f"{variable} == {dims[extent]}")
            else:
                dims[extent] = variable
    body = "    try:\n" + "".join(f"        {line}\n" for line in (*reads, *checks))
    body += f"        ok = {' and '.join(['not rest', *tests])}\n"
    body += "    except Exception:\n        ok = False\n"
    body += f"    if not ok:\n        explain({''.join(f'{name}, ' for name in names)}*rest)\n"
    values = "".join(f"{name}, " for name in (*pointers, *dims.values(), *scalars))
    body += f"    return ({values}), {place}\n"
    scope: dict[str, Any] = {
        "get": readers.get,
        "find": find_reader,
        "CPU": CPU,
        "MISSING": _MISSING,
        **_CONVERSIONS,
        "explain": lambda *values: _explain(tuple(args), values),
    }
    exec(f"def bind({''.join(f'{name}=MISSING, ' for name in names)}*rest):\n{body}", scope)
    return scope["bind"]  # type: ignore[no-any-return]


_MISSING: Any = object()  # an argument that was not given


def _conversion(dtype: str) -> str:
    """Which of `_CONVERSIONS` a scalar of this dtype goes through."""
    return "to_bool" if dtype == "bool" else "to_float" if dtype in ("f64", "f32", "f16", "bf16") else "to_int"


def _to_float(value: Any) -> float:
    """Numbers only: `float("1.5")` is no scalar argument."""
    if isinstance(value, str | bytes):
        raise TypeError("a string is no number")
    return float(value)


def _to_bool(value: Any) -> bool:
    """Truth values and the numbers 0 and 1."""
    if value in (0, 1):
        return bool(value)
    raise TypeError("neither true nor false")


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"to_int": operator.index, "to_float": _to_float, "to_bool": _to_bool}


def _explain(args: tuple[TensorArg | ScalarArg, ...], values: tuple[Any, ...]) -> NoReturn:
    """Why `values` do not fit `args`, as an ArgumentError."""
    place: Place | None = None
    placed = ""
    seen: dict[str, tuple[int, str]] = {}
    given = sum(value is not _MISSING for value in values)
    if given != len(args):
        names = ", ".join(arg.name for arg in args)
        raise ArgumentError(f"the kernel takes {len(args)} arguments ({names}), and {given} are given")
    for arg, value in zip(args, values, strict=True):
        if isinstance(arg, ScalarArg):
            _explain_scalar(arg, value)
            continue
        pointer, shape, dtype, here, whole = _read(arg, value)
        _explain_tensor(arg, tuple(shape), dtype, whole)
        if pointer % byte_size(dtype):
            raise ArgumentError(
                f"{arg.name} is misaligned: its address {pointer:#x} is no multiple of a {dtype}'s size",
                "pass a copy, which the framework aligns",
            )
        if place is None:
            place, placed = here, arg.name
        elif place != here:
            raise ArgumentError(f"{placed} is on {place}, {arg.name} on {here}: all tensors must be on one device")
        for axis, (want, have) in enumerate(zip(arg.shape, shape, strict=True)):
            if isinstance(want, int):
                if want != have:
                    raise ArgumentError(
                        f"{arg.name}.shape[{axis}] is {have}, the kernel takes {want}: {_shown(arg, shape)}"
                    )
            elif seen.setdefault(want, (have, f"{arg.name}.shape[{axis}]"))[0] != have:
                first, where = seen[want]
                raise ArgumentError(
                    f"{want} is {first} in {where}, but {have} in {arg.name}.shape[{axis}]: {_shown(arg, shape)}"
                )
    raise ArgumentError("the arguments changed while they were read")


def _read(arg: TensorArg, value: Any) -> Reading:
    try:
        return read(value)
    except ArgumentError as error:
        raise ArgumentError(f"{arg.name}: {error.message}", error.hint) from None
    except Exception as error:  # the framework's own
        raise ArgumentError(f"{arg.name} cannot be read: {type(error).__name__}: {error}") from None


def _explain_scalar(arg: ScalarArg, value: Any) -> None:
    try:
        _CONVERSIONS[_conversion(arg.dtype)](value)
    except Exception:
        raise ArgumentError(f"{arg.name} is a {arg.dtype} scalar; {value!r} ({type(value).__name__}) is none") from None


def _explain_tensor(arg: TensorArg, shape: tuple[int, ...], dtype: str, whole: bool) -> None:
    if len(shape) != len(arg.shape):
        raise ArgumentError(
            f"{arg.name} has rank {len(shape)}, the kernel takes {len(arg.shape)}: {_shown(arg, shape)}"
        )
    if dtype != arg.dtype:
        raise ArgumentError(
            f"{arg.name} is {dtype}, the kernel takes {arg.dtype}",
            "convert it first: `.to(dtype)` in torch, `.astype(dtype)` in NumPy",
        )
    if not whole:
        raise ArgumentError(
            f"{arg.name} is not row-major without gaps (shape {shape})",
            "make it contiguous first: `.contiguous()` in torch, `np.ascontiguousarray` in NumPy",
        )


def _shown(arg: TensorArg, shape: tuple[int, ...]) -> str:
    wanted = ", ".join(map(str, arg.shape))
    return f"{arg.name} is ({wanted}{',' if len(arg.shape) == 1 else ''}), called with {tuple(shape)}"
