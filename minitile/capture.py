"""What a kernel depends on besides its arguments: the globals and closure variables that it and its helpers read.

`captures(function)` finds them by the names in its code; `Captures.current` says, cheaply enough for every call,
whether all still have the values that were compiled in, and `key` stands for those values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

_FOREIGN = frozenset({*sys.stdlib_module_names, "numpy", "ml_dtypes", "torch", "cupy", "scipy", "minitile"}) - {
    "__main__"
}
_MISSING = object()


@dataclass
class Captures:
    """`read` are (get, name, value): get(name) must give the very same value. `compared` are (value, copy): objects
    that can change in place, and what they were."""

    read: list[tuple[Callable[[str], Any], str, Any]] = field(default_factory=list)
    compared: list[tuple[Any, Any]] = field(default_factory=list)

    def current(self) -> bool:
        for get, name, value in self.read:
            if get(name) is not value:
                return False
        return not self.compared or all(_contents(x) == copy for x, copy in self.compared)

    def key(self) -> tuple[Any, ...]:
        """Hashable; equal for equal captured values."""
        return tuple((name, _hashable(value)) for _, name, value in self.read)


def captures(function: FunctionType) -> Captures:
    """What a function and the user's functions that it names read from outside."""
    found = Captures()
    seen: set[Any] = set()

    def go(f: FunctionType) -> None:
        if f.__code__ in seen:
            return
        seen.add(f.__code__)
        names = dict.fromkeys(_names(f.__code__))
        for name in names:
            if name in f.__globals__:
                keep(f.__globals__.get, name, names)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            keep(_cell_reader(cell), name, names)

    def keep(get: Callable[[str], Any], name: str, names: Iterable[str]) -> None:
        """Note one variable; of a user's module, those of its attributes that are among the code's names."""
        value = get(name)
        found.read.append((get, name, value))
        if isinstance(value, FunctionType):
            if not _foreign(value.__module__ or ""):
                go(value)
        elif isinstance(value, ModuleType):
            if not _foreign(value.__name__):
                for attribute in names:
                    if attribute in vars(value) and not isinstance(vars(value)[attribute], ModuleType):
                        keep(vars(value).get, attribute, names)
        elif _contents(value) is not None:
            found.compared.append((value, _copy(_contents(value))))

    go(function)
    return found


def _foreign(module: str) -> bool:
    return module.split(".")[0] in _FOREIGN


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _cell_reader(cell: Any) -> Callable[[str], Any]:
    def read(_: str) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return _MISSING

    return read


def _contents(value: Any) -> Any:
    """What can change inside an object; None if nothing that matters can."""
    if isinstance(value, (list, dict, set)):
        return value
    if isinstance(value, (type, ModuleType, FunctionType)) or _foreign(type(value).__module__):
        return None
    return getattr(value, "__dict__", None)


def _copy(contents: Any) -> Any:
    return type(contents)(contents)


def _hashable(value: Any) -> Any:
    """The value, so that equal ones meet; what cannot be hashed or has no value of its own stands by identity."""
    contents = _contents(value)
    if contents is not None:
        return (id(value), repr(contents))
    try:
        hash(value)
    except TypeError:
        return (id(value), repr(value))
    return (type(value), value)
