"""A role's part of a program: what it does itself, with the loops and branches around that and all that these need.

    for 0, %n, 1, [%x, %z] (%i, %a, %c) {             for 0, %n, 1, [%z] (%i, %c) {
      wait %ring, %a                                    store %i, %c
      store %i, %c                    without wait      %d = add %c, 1
      %b = add %a, 1 ; %d = add %c, 1       →           yield %d
      yield %b, %d                                    }
    }

Operations with effects are in the part or not as `keeps` says; pure ones are where something of the part needs them, as
are the values that loops and branches hand on. The program itself is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from minitile.analysis.op_places import Places
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control
from minitile.ir.rewrite import clone, handing


class Part:
    """`needed`: the operations of the part; `wanted`: the values that they take, or hand on."""

    def __init__(self, body: Block, keeps: Callable[[Op], bool]) -> None:
        self.places = Places(body)
        self.needed: set[Op] = set()
        self.wanted: set[Value] = set()
        self.names: dict[Value, Value] = {}
        self.b = Builder(Block())
        for op in self.places.block:
            if not op.pure and not op.terminator and not isinstance(op, control.Structured) and keeps(op):
                self._need(op)

    def program(self, body: Block) -> Block:
        """The part of the body, anew."""
        with self.b.inside(Block()) as made:
            self._block(body)
        return made

    # What is needed --------------------------------------------------------------------------------------------------

    def _need(self, op: Op) -> None:
        """An operation with all inside of it that it is not structured around, what is around it, and its operands."""
        if op in self.needed:
            return
        self.needed.add(op)
        around = self.places.around(op)
        if around is not None:
            self._need(around)
        self._want(op.decides() if isinstance(op, control.Structured) else op.operands)
        if not isinstance(op, control.Structured):
            for inner in op.walk():
                self._want([v for v in inner.operands if v.owner not in self.places.parent])

    def _want(self, values: Collection[Value]) -> None:
        work = list(values)
        while work:
            value = work.pop()
            if value in self.wanted:
                continue
            self.wanted.add(value)
            op = self.places.parent.get(value.owner) if isinstance(value.owner, Block) else value.op
            if op is None or op not in self.places.block:
                continue
            self._need(op)
            if isinstance(op, control.Structured):
                targets, sources = op.column(value)
                self.wanted.update(targets)
                work += sources

    # The part --------------------------------------------------------------------------------------------------------

    def _get(self, value: Value) -> Value:
        return self.names.get(value, value)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op not in self.needed:
                continue
            self.b.loc = op.loc
            if isinstance(op, control.Structured):
                self._structured(op)
            else:
                self.b.emit(clone(op, self.names))

    def _structured(self, op: control.Structured) -> None:
        init = self._handed(op, None) if op.repeats else ()
        regions, given = {}, op.given()
        for name, source in zip(op.region_fields, op.regions, strict=True):
            regions[name] = block = Block()
            for arg in source.args:
                if arg in self.wanted or arg not in given:
                    self.names[arg] = block.add_arg(arg.type, arg.name)
            with self.b.inside(block):
                self._block(source)
                end = source.terminator or control.Yield(())
                self.b.emit(handing(end, self._get, self._handed(op, source)))
        new = handing(op, self._get, init, **regions)
        for name, _ in op.attr_fields:
            setattr(new, name, getattr(op, name))
        new.loc, new.why = op.loc, op.why
        self.b.emit(new)
        kept = [r for r in op.results if r in self.wanted]
        for old, result in zip(kept, new.results, strict=True):
            result.name = old.name
            self.names[old] = result

    def _handed(self, op: control.Structured, source: Block | None) -> tuple[Value, ...]:
        """What is handed on from a region's end, or to a loop's first turn."""
        transfer = op.transfer(source)
        pairs = zip(transfer.values, transfer.targets[0], strict=True)
        return tuple(self._get(v) for v, target in pairs if target in self.wanted)
