"""A call's arguments, checked and turned into slot values, by one generated function for each signature.

The generated function holds the common case as straight-line comparisons; whatever fails there goes to `explain`, which
looks again, slowly, and says what is wrong. For `(A: (M, K) bf16, n: i32)` it reads

    def bind(a0=MISSING, a1=MISSING, *rest):
        try:
            if type(a0) is Tensor:
                p0, s0, index = a0.data_ptr(), a0.shape, a0.get_device()
                place = places.get(index) or place_of(a0)
                ok = a0.dtype is torch_bf16 and a0.is_contiguous()
            else:
                p0, s0, t0, place, w0 = (get(type(a0)) or find(a0))(a0)
                ok = t0 == 'bf16' and w0
                if Tensor is None:
                    learn(a0)
            d0_0, d0_1, = s0
            v1 = to_int(a1)
            ok = ok and not rest and not p0 & 1
        except Exception:
            ok = False
        if not ok:
            explain(a0, a1, *rest)
        return (p0, d0_0, d0_1, v1), place

Of a tensor with strides (`TensorArg.strides`) they are read instead of asked whether they are row-major. The first
branch is for torch, whose tensors are then asked nothing twice and through no other function. torch is not
imported here: `Tensor` is nothing's type until `learn` is shown a tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from .arrays import CPU, SHORT_NAMES, Place, Reading, TorchTensors, find_reader, read, readers, strides_of
from .errors import ArgumentError, LaunchError, short
from .launch_info import FUNCTIONS, Expr, ScalarArg, Slot, TensorArg, Values, byte_size, expr_source

Bind = Callable[..., tuple[Values, Place]]
Select = Callable[..., tuple[Values, Place, Values]]
Launch = Callable[[Values, Place], None]


def compile_binder(args: Sequence[TensorArg | ScalarArg]) -> Bind:
    """A function that takes one Python value for each of `args` and returns `(slot values, place)`, the values in the
    order of `slots_of(args)`; the place is that of the tensors (the CPU if there are none).

    It raises ArgumentError for another number of arguments, a wrong rank, dtype or constant dimension, gaps or another
    order than row-major, an address that is no multiple of the element's size, tensors on different devices, two
    tensors that disagree on a named dimension, and scalars of the wrong kind.
    """
    signature = _Signature(args)
    return signature.compile([f"return {signature.values}, place"])  # type: ignore[no-any-return]


def compile_selector(args: Sequence[TensorArg | ScalarArg], exprs: Sequence[Expr]) -> Select:
    """As `compile_binder`; the function returns `(slot values, place, key)`, the key made of the place's kind and index
    and of the expressions' values."""
    signature = _Signature(args)
    return signature.compile(  # type: ignore[no-any-return]
        [f"return {signature.values}, place, {signature.key(exprs)}"]
    )


def compile_dispatch(
    args: Sequence[TensorArg | ScalarArg],
    exprs: Sequence[Expr],
    launches: Mapping[Values, Launch],
    otherwise: Callable[[Values, Place, Values, tuple[Any, ...]], None],
    fail: Callable[[LaunchError], None],
    elsewhere: Callable[[tuple[Any, ...]], Callable[..., None] | None] = lambda args: None,
) -> Callable[..., None]:
    """A whole call in one function: it does as `compile_selector`'s and calls `launches[key](values, place)`, or
    `otherwise(values, place, key, arguments)` where there is no such launch (yet). LaunchErrors go to `fail`.
    elsewhere: is asked for a function for arguments that are not right for this one; None: they are wrong."""
    signature = _Signature(args)
    lines = [
        f"key = {signature.key(exprs)}",
        "launch = find_launch(key)",
        "if launch is None:",
        f"    otherwise({signature.values}, place, key, ({signature.arguments}))",
        "else:",
        f"    launch({signature.values}, place)",
    ]
    known = {"find_launch": launches.get, "otherwise": otherwise, "fail": fail, "LaunchError": LaunchError}
    unfit = [
        f"    other = None if rest else elsewhere(({signature.arguments}))",
        "    if other is not None:",
        f"        return other({signature.arguments})",
    ]
    handlers = ["except LaunchError as error:", "    fail(error)"]
    return signature.compile(lines, {**known, "elsewhere": elsewhere}, handlers, unfit)  # type: ignore[no-any-return]


class _Signature:
    """The parts of a binder's text: for each tensor how torch's is read and how any other's, what holds for both, and
    the variable of each slot."""

    def __init__(self, args: Sequence[TensorArg | ScalarArg]) -> None:
        self.args = tuple(args)
        self.names = [f"a{i}" for i in range(len(args))]
        self.tensors = [(name, arg) for name, arg in zip(self.names, args, strict=True) if isinstance(arg, TensorArg)]
        self.unpacked: list[str] = []
        self.tests = ["ok", "not rest"]
        pointers: dict[Slot, str] = {}
        dims: dict[Slot, str] = {}
        scalars: dict[Slot, str] = {}
        for i, (name, arg) in enumerate(zip(self.names, args, strict=True)):
            if isinstance(arg, ScalarArg):
                self.unpacked.append(f"v{i} = {_converted(name, arg.dtype)}")
                scalars["scalar", arg.name] = f"v{i}"
                continue
            pointers["pointer", arg.name] = f"p{i}"
            extents = [f"d{i}_{axis}" for axis in range(len(arg.shape))]
            self.unpacked.append(f"{''.join(f'{d}, ' for d in extents) or '()'} = s{i}")
            if byte_size(arg.dtype) > 1:
                self.tests.append(f"not p{i} & {byte_size(arg.dtype) - 1}")
            for extent, variable in zip(arg.shape, extents, strict=True):
                if isinstance(extent, int):
                    self.tests.append(f"{variable} == {extent}")
                elif ("dim", extent) in dims:
                    self.tests.append(f"{variable} == {dims['dim', extent]}")
                else:
                    dims["dim", extent] = variable
        for i, arg in enumerate(args):
            if not isinstance(arg, TensorArg) or arg.strides is None:
                continue
            steps = [f"q{i}_{axis}" for axis in range(len(arg.strides))]
            self.unpacked.append(f"{''.join(f'{q}, ' for q in steps) or '()'} = q{i}")
            for axis, (stride, variable) in enumerate(zip(arg.strides, steps, strict=True)):
                if isinstance(stride, int):
                    self.tests.append(f"({variable} == {stride} or d{i}_{axis} < 2)")
                elif ("dim", stride) in dims:
                    self.tests.append(f"{variable} == {dims['dim', stride]}")
                else:
                    dims["dim", stride] = variable
        self.slots = {**pointers, **dims, **scalars}

    @property
    def arguments(self) -> str:
        """The arguments, each with a comma."""
        return "".join(f"{name}, " for name in self.names)

    @property
    def values(self) -> str:
        """The tuple of the slots' values."""
        return f"({''.join(f'{variable}, ' for variable in self.slots.values())})"

    def key(self, exprs: Sequence[Expr]) -> str:
        """The tuple of the place and the expressions' values."""
        return f"(place.kind, place.index{''.join(f', {expr_source(e, self.slots)}' for e in exprs)})"

    def compile(
        self,
        ending: Sequence[str],
        more: Mapping[str, Any] | None = None,
        handlers: Sequence[str] = (),
        unfit: Sequence[str] = (),
    ) -> Any:
        """The function; `ending` is what it does with values and place, by the names that `more` adds, `handlers` the
        `except` clauses around everything, `unfit` what it does with other arguments before it explains them."""
        body = ["try:"]
        if self.tensors:
            body.append(f"    if {' is '.join(f'type({name})' for name, _ in self.tensors)} is Tensor:")
            body += [f"        {line}" for line in self._torch()]
            body.append("    else:")
            body += [f"        {line}" for line in self._any()]
        else:
            body.append("    place, ok = CPU, True")
        body += [f"    {line}" for line in self.unpacked]
        body += [
            f"    ok = {' and '.join(self.tests)}",
            "except Exception:",
            "    ok = False",
            "if not ok:",
            *unfit,
            f"    explain({self.arguments}*rest)",
            *ending,
        ]
        if handlers:
            body = ["try:", *(f"    {line}" for line in body), *handlers]
        scope: dict[str, Any] = {
            "Tensor": None,
            "get": readers.get,
            "find": find_reader,
            "CPU": CPU,
            "MISSING": _MISSING,
            "strides_of": strides_of,
            **FUNCTIONS,
            **_CONVERSIONS,
            **(more or {}),
            "explain": lambda *values: _explain(self.args, values),
            "learn": lambda array: _learn(scope, array),
        }
        head = f"def bind({''.join(f'{name}=MISSING, ' for name in self.names)}*rest):"
        exec("\n    ".join([head, *body]), scope)
        return scope["bind"]

    def _torch(self) -> list[str]:
        """All tensors are torch's own: `ok` says whether dtypes, contiguity and devices are right."""
        lines = [f"p{name[1:]} = {name}.data_ptr(); s{name[1:]} = {name}.shape" for name, _ in self.tensors]
        first = self.tensors[0][0]
        lines.append(f"index = {first}.get_device()")
        lines.append(f"place = places.get(index) or place_of({first})")
        lines += [f"q{name[1:]} = {name}.stride()" for name, arg in self.tensors if arg.strides is not None]
        tests = [f"{name}.dtype is torch_{arg.dtype}" for name, arg in self.tensors]
        tests += [f"{name}.is_contiguous()" for name, arg in self.tensors if arg.strides is None]
        tests += [f"{name}.get_device() == index" for name, _ in self.tensors[1:]]
        return [*lines, f"ok = {' and '.join(tests)}"]

    def _any(self) -> list[str]:
        """The same by the readers of `arrays`."""
        lines, tests = [], []
        first = self.tensors[0][0]
        for name, arg in self.tensors:
            i, place = name[1:], "place" if name == first else f"place{name[1:]}"
            lines.append(f"p{i}, s{i}, t{i}, {place}, w{i} = (get(type({name})) or find({name}))({name})")
            tests.append(f"t{i} == {arg.dtype!r}")
            if arg.strides is None:
                tests.append(f"w{i}")
            else:
                lines.append(f"q{i} = strides_of({name})")
            if place != "place":
                tests.append(f"({place} is place or {place} == place)")
        return [*lines, f"ok = {' and '.join(tests)}", "if Tensor is None:", f"    learn({first})"]


def _learn(scope: dict[str, Any], array: Any) -> None:
    """If this is a tensor of torch: fills in what a binder's branch for torch names."""
    torch = getattr(readers[type(array)], "__self__", None)
    if isinstance(torch, TorchTensors):
        scope |= {f"torch_{name}": torch.dtypes.get(name) for name in SHORT_NAMES.values()}
        scope |= {"places": torch.places, "place_of": torch.place_of}
        scope["Tensor"] = torch.kind  # last: another thread may be in the function


def gapped(args: Sequence[TensorArg | ScalarArg], values: Sequence[Any]) -> tuple[str, ...]:
    """The tensors that are to be row-major without gaps, and whose arrays are not but have strides that can be read, by
    name."""
    found = []
    for arg, value in zip(args, values, strict=True):
        if isinstance(arg, TensorArg) and arg.strides is None:
            try:
                *_, whole = read(value)
                if not whole:
                    strides_of(value)
            except Exception:
                continue
            if not whole:
                found.append(arg.name)
    return tuple(found)


_MISSING: Any = object()  # an argument that was not given


def _conversion(dtype: str) -> str:
    """Which of `_CONVERSIONS` a scalar of this dtype goes through."""
    return "to_bool" if dtype == "bool" else "to_float" if dtype in ("f64", "f32", "f16", "bf16") else "to_int"


def _converted(name: str, dtype: str) -> str:
    """The text that converts the argument `name`; a float needs no call to be one."""
    convert = _conversion(dtype)
    return f"{name} if type({name}) is float else to_float({name})" if convert == "to_float" else f"{convert}({name})"


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
        native = getattr(getattr(value, "dtype", None), "isnative", True)
        if not whole and native:
            _strides(arg, value)
        _explain_tensor(arg, tuple(shape), dtype, whole or arg.strides is not None, native)
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
                    packed = arg.dtype in ("i8", "u8") and axis == len(shape) - 1 and have == 2 * want
                    raise ArgumentError(
                        f"{arg.name}.shape[{axis}] is {have}, the kernel takes {want}: {_shown(arg, shape)}",
                        "elements of 4 bits are passed two in a byte" if packed else "",
                    )
            elif seen.setdefault(want, (have, f"{arg.name}.shape[{axis}]"))[0] != have:
                first, where = seen[want]
                raise ArgumentError(
                    f"{want} is {first} in {where}, but {have} in {arg.name}.shape[{axis}]: {_shown(arg, shape)}"
                )
    for arg, value in zip(args, values, strict=True):
        if isinstance(arg, TensorArg) and arg.strides is not None:
            _explain_strides(arg, value, seen)
    raise ArgumentError("the arguments changed while they were read")


def _strides(arg: TensorArg, value: Any) -> tuple[int, ...]:
    try:
        return strides_of(value)
    except ArgumentError as error:
        raise ArgumentError(f"{arg.name}: {error.message}", error.hint) from None


def _explain_strides(arg: TensorArg, value: Any, seen: dict[str, tuple[int, str]]) -> None:
    strides, shape = _strides(arg, value), read(value)[1]
    for axis, (want, have) in enumerate(zip(arg.strides or (), strides, strict=True)):
        where = f"{arg.name}.strides[{axis}]"
        if isinstance(want, int):
            if want != have and shape[axis] > 1:
                raise ArgumentError(
                    f"{where} is {have}, the kernel takes {want}: its strides are {arg.strides}, called with {strides}"
                )
        elif seen.setdefault(want, (have, where))[0] != have:
            first, at = seen[want]
            raise ArgumentError(f"{want} is {first} in {at}, but {have} in {where}: {arg.name} has strides {strides}")


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
        what = f"{short(value)} ({type(value).__name__})"
        raise ArgumentError(f"{arg.name} is a {arg.dtype} scalar, not {what}") from None


def _explain_tensor(arg: TensorArg, shape: tuple[int, ...], dtype: str, whole: bool, native: bool = True) -> None:
    if len(shape) != len(arg.shape):
        raise ArgumentError(
            f"{arg.name} has rank {len(shape)}, the kernel takes {len(arg.shape)}: {_shown(arg, shape)}"
        )
    if dtype != arg.dtype:
        raise ArgumentError(
            f"{arg.name} is {dtype}, the kernel takes {arg.dtype}",
            "convert it first: `.to(dtype)` in torch, `.astype(dtype)` in NumPy",
        )
    if not native:
        raise ArgumentError(
            f"{arg.name} holds its {dtype} in the other byte order",
            "convert it first: `.astype(array.dtype.newbyteorder('='))`",
        )
    if not whole:
        raise ArgumentError(
            f"{arg.name} is not row-major without gaps (shape {shape}), as this kernel was compiled for",
            "call the kernel function itself, which compiles what a call needs, or pass a contiguous copy",
        )


def _shown(arg: TensorArg, shape: tuple[int, ...]) -> str:
    wanted = ", ".join(map(str, arg.shape))
    return f"{arg.name} is ({wanted}{',' if len(arg.shape) == 1 else ''}), called with {tuple(shape)}"
