"""What a kernel depends on besides its arguments: the globals and closure variables that it and its helpers read.

`captures(function)` finds them by the names in its code; `Captures.current` says, cheaply enough for every call,
whether all still have the values that were compiled in, and `key` stands for those values. A value is looked through:
containers, NumPy arrays and objects of the user's own classes are what is in them at the time. A helper is what it
does: its code and its defaults, which a reload of the module in place (IPython's autoreload) replaces in the
function. A global that is not there yet, such as a helper that stands below the kernel, is read as missing: once it is
there, values have changed.
"""

from __future__ import annotations

import builtins
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from opcode import EXTENDED_ARG, opmap
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from minitile.language.tracing.source import remember

_PACKAGES = ("numpy", "ml_dtypes", "torch", "jax", "jaxlib", "cupy", "scipy", "minitile")
_FOREIGN = frozenset({*sys.stdlib_module_names, *_PACKAGES}) - {"__main__"}
_PLAIN = (int, float, complex, str, bytes, type(None), np.generic)
_MISSING = object()
_LOAD_GLOBAL = opmap["LOAD_GLOBAL"]


@dataclass
class Captures:
    """`read` are (get, name, value): get(name) must give the very same value. `compared` are (value, snapshot): objects
    that can change in place, and what was in them. `functions`: the function itself, then its helpers."""

    read: list[tuple[Callable[[str], Any], str, Any]] = field(default_factory=list)
    compared: list[tuple[Any, Any]] = field(default_factory=list)
    functions: list[FunctionType] = field(default_factory=list)

    def current(self) -> bool:
        for get, name, value in self.read:
            if get(name) is not value:
                return False
        return not self.compared or all(_snapshot(value) == was for value, was in self.compared)

    def key(self) -> tuple[Any, ...]:
        """Hashable; equal for equal captured values."""
        return tuple((name, _snapshot(value)) for _, name, value in self.read)


def captures(function: FunctionType, owners: Mapping[str, Any] | None = None) -> Captures:
    """What a function and the user's functions that it names read from outside. `owners`: the object that it is a
    method of, by its name in the function."""
    found = Captures()
    seen: set[Any] = set()

    def go(f: FunctionType) -> None:
        if f in seen:  # not its code: functions made by one function share that, and differ in what they capture
            return
        seen.add(f)
        found.functions.append(f)
        remember(f)
        for part in ("__code__",) if f is function else _PARTS:  # a kernel's own defaults are its parameters'
            keep(partial(getattr, f), part, ())
        names = dict.fromkeys(_names(f.__code__))
        for name in names:
            if name in f.__globals__:
                keep(f.__globals__.get, name, names)
        for name in dict.fromkeys(_globals(f.__code__)):
            if name not in f.__globals__ and not hasattr(builtins, name):
                found.read.append((_global_reader(f.__globals__), name, _MISSING))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            keep(_cell_reader(cell), name, names)

    def keep(get: Callable[[str], Any], name: str, names: Iterable[str]) -> None:
        """Note one variable; of a user's module or class, those of its attributes that are among the code's names."""
        value = get(name)
        found.read.append((get, name, value))
        if isinstance(value, FunctionType):
            helper(value)
        elif isinstance(value, ModuleType):
            members(value, value.__name__, names)
        elif not isinstance(value, _PLAIN):
            for owner in (value if isinstance(value, type) else type(value)).__mro__:
                members(owner, owner.__module__, names)
            if not isinstance(found_now := _snapshot(value), _Itself):
                found.compared.append((value, found_now))
            for inner in _functions_in(value):
                helper(inner)

    def helper(f: FunctionType) -> None:
        if not _foreign(f.__module__ or ""):
            go(f)

    def members(owner: ModuleType | type, module: str, names: Iterable[str]) -> None:
        if _foreign(module) or (owner, *names) in seen:
            return
        seen.add((owner, *names))
        for attribute in names:
            if attribute in vars(owner) and not isinstance(vars(owner)[attribute], ModuleType):
                keep(vars(owner).get, attribute, names)

    go(function)
    for name, owner in (owners or {}).items():
        keep({name: owner}.__getitem__, name, dict.fromkeys(_names(function.__code__)))
    return found


_PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # of a function, that can be replaced


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions that containers and functools.partial hold, at any depth."""
    pending, seen = [value], {id(value)}
    for each in pending:  # grows meanwhile
        if isinstance(each, FunctionType):
            yield each
        inside: Iterable[Any] = ()
        if isinstance(each, list | tuple | deque | set | frozenset):
            inside = each
        elif isinstance(each, dict):
            inside = each.values()
        elif isinstance(each, partial):
            inside = (each.func, *each.args, *each.keywords.values())
        for new in inside:
            if not isinstance(new, _PLAIN) and id(new) not in seen:
                seen.add(id(new))
                pending.append(new)


def exact(value: Any) -> Any:
    """A compile-time constant as a key: hashable as the value is, and equal only for what means the same to a kernel.
    1, 1.0 and True are equal in Python, and so are 0.0 and -0.0; a NaN is not equal to itself."""
    kind = type(value)
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if isinstance(value, tuple):
        return kind, tuple(map(exact, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(exact, value))
    if is_dataclass(value) and not isinstance(value, type):
        held = [getattr(value, f.name) for f in fields(value)]
        return kind, value, tuple(exact(x) for x in held if hashable(x))
    return kind, value


def hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def current_key(value: Any) -> Any:
    """An argument of a function that makes kernels, as a key: hashable, and equal for what is and holds the same now.
    Values of classes with an equality of their own are compared by it; the key keeps other objects, so that no later
    one is taken for them."""
    kind = type(value)
    if isinstance(value, list | tuple):
        return kind, tuple(map(current_key, value))
    if isinstance(value, dict):
        return kind, tuple((current_key(k), current_key(x)) for k, x in value.items())
    own_equality = any("__eq__" in vars(base) for base in kind.__mro__ if base is not object)
    return exact(value) if own_equality and hashable(value) else _snapshot(value)


def _foreign(module: str) -> bool:
    return module.split(".")[0] in _FOREIGN


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _globals(code: CodeType) -> Iterator[str]:
    """The names among `_names` that are loaded as globals; the others are attributes."""
    high = 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = high << 8 | low
        high = argument if operation == EXTENDED_ARG else 0
        if operation == _LOAD_GLOBAL:
            yield code.co_names[argument >> 1]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _global_reader(variables: Mapping[str, Any]) -> Callable[[str], Any]:
    return lambda name: variables.get(name, _MISSING)


def _cell_reader(cell: Any) -> Callable[[str], Any]:
    def read(_: str) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return _MISSING

    return read


@dataclass(frozen=True, eq=False, slots=True)
class _Itself:
    """A value that counts as the object that it is."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _snapshot(value: Any, around: tuple[int, ...] = (), owned: bool = False) -> Any:
    """What a value is and holds, hashable; equal as long as it means the same to a kernel (1, 1.0 and True do not).
    An object that another one owns counts as itself: who knows what hangs on it."""
    kind = type(value)
    if isinstance(value, _PLAIN):
        return exact(value)
    if id(value) in around:
        return _Itself(value)
    around = (*around, id(value))
    if isinstance(value, list | tuple | deque):
        return kind, tuple(_snapshot(x, around, owned) for x in value)
    if isinstance(value, dict):
        return kind, tuple((_snapshot(k, around, owned), _snapshot(x, around, owned)) for k, x in value.items())
    if isinstance(value, set | frozenset):
        return kind, frozenset(_snapshot(x, around, owned) for x in value)
    if isinstance(value, bytearray):
        return kind, bytes(value)
    if isinstance(value, np.ndarray):
        return kind, value.dtype, value.shape, value.tobytes()
    if isinstance(value, (type, ModuleType, FunctionType)) or owned or _foreign(kind.__module__):
        return _Itself(value)
    return _Itself(value), tuple((name, _snapshot(x, around, True)) for name, x in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object of a user's class holds, in `__dict__` or in slots."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
