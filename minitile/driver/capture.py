"""What a kernel depends on besides its arguments: the globals and closure variables that it and its helpers read.

`captures(function)` finds them by the names in its code; `Captures.current` says, cheaply enough for every call,
whether all still have the values that were compiled in, and `key` stands for those values. A value is looked through:
containers, NumPy arrays and objects of the user's own classes are what is in them at the time; an object that another
one owns is what it has under the names that the code reads anywhere, since much else may hang on it. A helper is what
it does: its code and its defaults, which a reload of the module in place (IPython's autoreload) replaces in the
function. Compile-time parameters that are functions or objects count as captured, too (`changeable`). A global that is
not there yet, such as a helper that stands below the kernel, is read as missing: once it is there, values have changed.
"""

from __future__ import annotations

import builtins
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from opcode import EXTENDED_ARG, opmap
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from minitile.language.tracing.source import remember

_PACKAGES = ("numpy", "ml_dtypes", "torch", "jax", "jaxlib", "cupy", "scipy", "pytest", "_pytest", "minitile")
_FOREIGN = frozenset({*sys.stdlib_module_names, *_PACKAGES}) - {"__main__"}
_PLAIN = (int, float, complex, str, bytes, type(None), np.generic)
_MISSING = object()
_LOAD_GLOBAL = opmap["LOAD_GLOBAL"]


@dataclass
class Captures:
    """`read` are (get, name, value): get(name) must give the very same value. `compared` are (value, snapshot): objects
    that can change in place, and what was in them. `functions`: the function itself, then its helpers. `names`: all
    that these read of objects, or of anything else."""

    names: frozenset[str]
    read: list[tuple[Callable[[str], Any], str, Any]] = field(default_factory=list)
    compared: list[tuple[Any, Any]] = field(default_factory=list)
    functions: list[FunctionType] = field(default_factory=list)

    def current(self) -> bool:
        for get, name, value in self.read:
            if get(name) is not value:
                return False
        return not self.compared or all(_snapshot(value, self.names) == was for value, was in self.compared)

    def key(self) -> tuple[Any, ...]:
        """Hashable; equal for equal captured values."""
        return tuple((name, _snapshot(value, self.names)) for _, name, value in self.read)


def captures(function: FunctionType, held: Mapping[str, Any] | None = None) -> Captures:
    """What a function and the user's functions that it names read from outside. `held`: by their names in the function,
    the object that it is a method of, and what else it is given that can change in place."""
    names = frozenset(_names(function.__code__))
    while True:  # what is found by more names may be functions, which have names in turn
        found = _found(function, held or {}, names)
        more = names.union(*(_names(f.__code__) for f in found.functions))
        if more == names:
            return found
        names = more


def _found(function: FunctionType, held: Mapping[str, Any], names: frozenset[str]) -> Captures:
    """What is read from outside by code that has these names."""
    found = Captures(names)
    seen: set[Any] = set()

    def go(f: FunctionType) -> None:
        if f in seen:  # not its code: functions made by one function share that, and differ in what they capture
            return
        seen.add(f)
        found.functions.append(f)
        remember(f)
        own = frozenset(_names(f.__code__))
        for part in ("__code__",) if f is function else _PARTS:  # a kernel's own defaults are its parameters'
            keep(partial(getattr, f), part, own)
        for name in dict.fromkeys(_loaded(f.__code__)):
            if name in f.__globals__:
                keep(f.__globals__.get, name, own)
        for name in dict.fromkeys(_globals(f.__code__)):
            if name not in f.__globals__ and not hasattr(builtins, name):
                found.read.append((_global_reader(f.__globals__), name, _MISSING))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            keep(_cell_reader(cell), name, own)

    def keep(get: Callable[[str], Any], name: str, own: frozenset[str]) -> None:
        """Note one variable. Of a user's module those of its attributes that the function names itself (`own`: modules
        are large), of classes those that any code names, since objects are handed on."""
        value = get(name)
        found.read.append((get, name, value))
        if isinstance(value, _PLAIN):
            return
        if not isinstance(now := _snapshot(value, names), _Itself):
            found.compared.append((value, now))
        for each in _inside(value, names):
            if isinstance(each, FunctionType):
                if not _foreign(each.__module__ or ""):
                    go(each)
            elif isinstance(each, ModuleType):
                members(each, each.__name__, own)
            else:
                for owner in (each if isinstance(each, type) else type(each)).__mro__:
                    members(owner, owner.__module__, names | _CALLED)

    def members(owner: ModuleType | type, module: str, wanted: frozenset[str]) -> None:
        if _foreign(module) or (owner, wanted) in seen:
            return
        seen.add((owner, wanted))
        for attribute in sorted(wanted & vars(owner).keys()):
            if not isinstance(vars(owner)[attribute], ModuleType):
                keep(vars(owner).get, attribute, wanted)

    go(function)
    for name, value in held.items():
        keep({name: value}.__getitem__, name, names)
    return found


_PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # of a function, that can be replaced


# What Python calls of an object without its name standing in the code.
_CALLED = frozenset({"__call__", "__getitem__", "__len__", "__iter__", "__contains__", "__bool__", "__getattr__"})


def changeable(value: Any) -> bool:
    """Whether what a compile-time parameter means can change while it stays equal to itself: a function reads
    variables, an object of the user's own has attributes."""
    if isinstance(value, tuple | frozenset | list | dict):
        return any(map(changeable, value.values() if isinstance(value, dict) else value))
    if isinstance(value, MethodType | partial):
        return True
    owner = value if isinstance(value, FunctionType | type) else type(value)
    return not isinstance(value, _PLAIN) and not _foreign(owner.__module__ or "")


def _inside(value: Any, names: frozenset[str]) -> Iterator[Any]:
    """A value and what is in it, as far as `_snapshot` looks; and the functions that properties and the like hold."""
    pending, seen = [value], {id(value)}
    for each in pending:  # grows meanwhile
        yield each
        inside: Iterable[Any] = ()
        if isinstance(each, list | tuple | deque | set | frozenset):
            inside = each
        elif isinstance(each, dict):
            inside = each.values()
        elif isinstance(each, partial):
            inside = (each.func, *each.args, *each.keywords.values())
        elif isinstance(each, MethodType):
            inside = each.__func__, each.__self__
        elif isinstance(each, property):
            inside = (each.fget,)
        elif isinstance(each, staticmethod | classmethod):
            inside = (each.__func__,)
        elif isinstance(each, cached_property):
            inside = (each.func,)
        elif _looked_into(each):
            inside = (x for name, x in _attributes(each) if each is value or name in names)
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
    return exact(value) if own_equality and hashable(value) else _snapshot(value, frozenset())


def _foreign(module: str) -> bool:
    return module.split(".")[0] in _FOREIGN


def _loaded(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loaded(constant)


def _names(code: CodeType) -> Iterator[str]:
    """These, and texts that may be such names: getattr(x, "name")."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


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


def _snapshot(
    value: Any, names: frozenset[str], around: tuple[int, ...] = (), seen: dict[int, None] | None = None
) -> Any:
    """What a value is and holds, hashable; equal as long as it means the same to a kernel (1, 1.0 and True do not).
    An object counts for what it holds once, in the objects that own it (`seen`) by `names` alone."""
    kind = type(value)
    if isinstance(value, _PLAIN):
        return exact(value)
    if id(value) in around:
        return _Itself(value)
    around = (*around, id(value))

    def of(x: Any) -> Any:
        return _snapshot(x, names, around, seen)

    if isinstance(value, list | tuple | deque):
        return kind, tuple(map(of, value))
    if isinstance(value, dict):
        return kind, tuple((of(k), of(x)) for k, x in value.items())
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(of, value))
    if isinstance(value, bytearray):
        return kind, bytes(value)
    if isinstance(value, np.ndarray):
        return kind, value.dtype, value.shape, value.tobytes()
    if isinstance(value, partial):
        return kind, of(value.func), of(value.args), of(value.keywords)
    if isinstance(value, MethodType):
        return kind, of(value.__func__), of(value.__self__)
    if not _looked_into(value) or (seen is not None and id(value) in seen):
        return _Itself(value)
    owned = seen is not None
    seen = {} if seen is None else seen
    seen[id(value)] = None
    attributes = [(name, x) for name, x in _attributes(value) if not owned or name in names]
    return _Itself(value), tuple((name, _snapshot(x, names, around, seen)) for name, x in attributes)


def _looked_into(value: Any) -> bool:
    """Whether it is an object of a user's class."""
    return not isinstance(value, (type, ModuleType, FunctionType)) and not _foreign(type(value).__module__)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object of a user's class holds, in `__dict__` or in slots."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
