"""Answers about values that follow from the answers about their operands, kept in a table: without recursion as deep as
an expression is long.

    %1 = add %a, %b         look(%5000) would ask for %4999, that for %4998, …
    %2 = add %1, %c         so that deep down, %1, %2, … are looked at first, and each finds its operands in the table
    …

Short chains, which nearly all are, are left to the recursion, which looks only at what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TypeVar

from minitile.ir.core import Value

T = TypeVar("T")
LONG = 64


class Chains:
    """Asks for answers that depend on further answers. Several tables may take part."""

    def __init__(self) -> None:
        self._deep = 0
        self._busy: set[int] = set()  # the tables, by `id`, that are being filled

    def ask(self, v: Value, known: MutableMapping[Value, T], look: Callable[[Value], T]) -> T:
        """look(v), which asks for what it needs of the operands that are not in `known`."""
        self._deep += 1
        if self._deep > LONG and id(known) not in self._busy:
            self._busy.add(id(known))
            for each in _operands_first(v, known):
                if each not in known:
                    known[each] = look(each)
            self._busy.remove(id(known))
        found = look(v)
        self._deep -= 1
        return found


def _operands_first(v: Value, known: MutableMapping[Value, T]) -> list[Value]:
    """What `v` is computed from, element by element, and is not known."""
    if v.op is None:
        return []
    order: list[Value] = []
    path, seen = [(v, iter(v.op.operands))], {v}
    while path:
        at, operands = path[-1]
        for o in operands:
            if o.op is not None and o.op.elementwise and o not in seen and o not in known:
                seen.add(o)
                path.append((o, iter(o.op.operands)))
                break
        else:
            path.pop()
            order.append(at)
    return order[:-1]
