"""Abstract states as plain data for JSON, and back. Tuples are lists; all else that JSON lacks is {tag: content}.

Long tuples, footprints, accesses and values stand once in a table. Nothing is trusted: what is not a state raises
Refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Affine,
    Among,
    Counter,
    Perhaps,
    Predicate,
    Stored,
    Ticket,
    Token,
)
from minitile.proof.events import Access, Footprint, MBarrier, NamedBarrier, Product
from minitile.proof.memory import Memory
from minitile.proof.state import State, Warp
from minitile.proof.text import Refused

_RECORDS: dict[str, Any] = {each.__name__: each for each in (Access, MBarrier, NamedBarrier, Product, Warp, State)}
_VALUES: dict[str, Any] = {
    each.__name__: each for each in (Affine, Among, Counter, Perhaps, Predicate, Stored, Ticket, Token)
}
_TRUTHS = {  # fields that are True or False, by their places; what is equal to a number elsewhere is read as one
    tag: [place for place, each in enumerate(fields(made)) if each.type == "bool"]
    for tag, made in (_RECORDS | _VALUES).items()
}
_LONG = 8  # tuples at least as long stand in the table


class Encoder:
    def __init__(self) -> None:
        self.table: list[Any] = []
        self._places: dict[Any, int] = {}
        self._feet: dict[Footprint, int] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, (bool, str)) or value is None:
            return value
        if isinstance(value, int):
            return value if -(1 << 50) < value < 1 << 50 else {"x": hex(value)}
        if value is TOP or value is UNIFORM:
            return {"u": value.name}
        if isinstance(value, Footprint):
            if value not in self._feet:
                self._feet[value] = self._place(("footprint", value.shares), value.shares)
            return {"f": self._feet[value]}
        if isinstance(value, tuple):
            return {"t": self._place(value, value)} if len(value) >= _LONG else [self(each) for each in value]
        if isinstance(value, dict):
            return {"d": [[self(key), self(each)] for key, each in value.items()]}
        if isinstance(value, list):
            return {"l": [self(each) for each in value]}
        if type(value) in _VALUES.values() or isinstance(value, Access):
            return {"t": self._place(value, value)}
        return self._record(value)

    def _record(self, value: Any) -> Any:
        return {type(value).__name__: [self(getattr(value, each.name)) for each in fields(value) if each.init]}

    def _place(self, key: Any, value: Any) -> int:
        if key not in self._places:
            content = [self(each) for each in value] if isinstance(value, tuple) else self._record(value)
            self._places[key] = len(self.table)
            self.table.append(content)
        return self._places[key]


class Decoder:
    def __init__(self, table: list[Any], memory: Memory) -> None:
        self.table, self.memory = table, memory
        self._made: dict[int, Any] = {}
        self._feet: dict[int, Footprint] = {}

    def state(self, data: Any) -> State:
        try:
            state = self(data)
            if not isinstance(state, State):
                raise Refused(0, "not a certificate: something that is not a state")
            return state.copy()  # what can be changed is of this state alone
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError) as error:
            raise Refused(0, f"not a certificate: {error!r}") from error

    def __call__(self, data: Any) -> Any:
        if isinstance(data, list):
            return tuple(self.each(data))
        if not isinstance(data, dict):
            if data is not None and not isinstance(data, (int, str)):
                raise TypeError(data)  # 5.0 is equal to 5, but no number of a register
            return int(data) if isinstance(data, bool) else data
        ((tag, content),) = data.items()
        if tag in self._tags:
            return self._tags[tag](self, content)
        made, values = _RECORDS.get(tag) or _VALUES[tag], self.each(content)
        for place in _TRUTHS[tag]:
            if place < len(values):
                values[place] = {0: False, 1: True}[values[place]]
        return made(*values)

    def each(self, data: list[Any]) -> list[Any]:
        return [each if type(each) is int or type(each) is str else self(each) for each in data]

    def _long(self, place: int) -> Any:
        if place not in self._made:
            self._made[place] = self(self.table[place])
        return self._made[place]

    def _foot(self, place: int) -> Footprint:
        if place not in self._feet:
            self._feet[place] = self.memory.of(self._long(place))
        return self._feet[place]

    _tags: ClassVar[dict[str, Callable[[Decoder, Any], Any]]] = {
        "x": lambda self, content: int(content, 16),
        "u": lambda self, content: {"top": TOP, "uniform": UNIFORM}[content],
        "f": lambda self, content: self._foot(content),
        "t": lambda self, content: self._long(content),
        "d": lambda self, content: {self(key): self(each) for key, each in content},
        "l": lambda self, content: self.each(content),
    }
