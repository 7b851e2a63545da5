"""Which mutable names of traced IR become SSA values, and where control flow must hand them on.

A `Variable` is a fragment, or one element of a local array all of whose accesses are scalars at constant indices (and
whole fills). `Variables` finds them and walks the kernel backwards once: `carried[op]` lists the variables that a loop
must carry (written inside, and live after it or at the start of a next round) or that a branch must give (written in
one, live after).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import control, tile
from minitile.ir.ops.views import viewed
from minitile.ir.types import BufferType, ScalarType, TileType, Type

Element = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """`element` is None for a whole fragment."""

    mem: Value
    element: Element | None = None

    @property
    def type(self) -> Type:
        dtype = self.mem.dtype
        return TileType(self.mem.shape, dtype) if self.element is None else ScalarType(dtype)

    def __str__(self) -> str:
        name = self.mem.name or "a fragment"
        return name if self.element is None else f"{name}[{', '.join(map(str, self.element))}]"


def in_space(value: Value, space: str) -> bool:
    return isinstance(value.type, BufferType) and value.type.space == space


def is_fragment(value: Value) -> bool:
    return in_space(value, "fragment")


def is_shared(value: Value) -> bool:
    return in_space(value, "shared")


def covers(mem: Value, indices: tuple[Value, ...], dims: tile.Dims, shape: tuple[int, ...]) -> bool:
    """Whether a region is the whole buffer."""
    return all(
        extent == (1 if d is None else shape[d]) and (extent == 1 or constant_of(index) == 0)
        for extent, index, d in zip(mem.shape, indices, dims, strict=True)
    )


class Variables:
    def __init__(self, kernel: Kernel) -> None:
        self.carried: dict[Op, list[Variable]] = {}
        self.promoted = _promotable(kernel)
        self._order: dict[Value, int] = {}
        self._effects: dict[Op, list[tuple[Variable, str]]] = {}
        self._writers: dict[Variable, list[tuple[Block, ...]]] = {}
        self._collect(kernel.body, ())
        self._live(kernel.body, set())

    def _collect(self, block: Block, around: tuple[Block, ...]) -> None:
        """Note each operation's effects, and for each write the blocks around it."""
        around = (*around, block)
        for op in block.ops:
            if isinstance(op, tile.Alloc):
                self._order[op.result] = len(self._order)
            effects = list(self.effects(op))
            if effects:
                self._effects[op] = effects
            for variable, effect in effects:
                if effect != "read":
                    self._writers.setdefault(variable, []).append(around)
            for region in op.regions:
                self._collect(region, around)

    def comes_around(self, variable: Variable, inside: list[tuple[Op, Block]]) -> bool:
        """Whether a read may see a write of an earlier round of a loop, although in the first round there is none: it
        stands in a region (the last of those it is `inside`) that the first round may skip, the write stands outside.
        """
        if not inside:
            return False
        *outer, (_, innermost) = inside
        bodies = {region for op, _ in outer if isinstance(op, control.Loop) for region in op.regions}
        writers = self._writers.get(variable, ())
        return any(innermost not in blocks and not bodies.isdisjoint(blocks) for blocks in writers)

    def of(self, mem: Value) -> list[Variable]:
        """All variables of a buffer; none for memory."""
        mem = viewed(mem)
        if is_fragment(mem):
            return [Variable(mem)]
        if mem in self.promoted:
            return [Variable(mem, element) for element in itertools.product(*map(range, mem.shape))]
        return []

    def at(self, mem: Value, indices: tuple[Value, ...]) -> list[Variable]:
        """The variables that a scalar or region access at `indices` is about."""
        if mem in self.promoted:
            return [Variable(mem, tuple([constant_of(i) for i in indices]))]
        return self.of(mem)

    def effects(self, op: Op) -> Iterator[tuple[Variable, str]]:
        """What an operation does to variables: "read", "set" (all of it, without reading), "update"."""
        if isinstance(op, tile.Load):
            yield from ((v, "read") for v in self.at(op.mem, op.indices))
        elif isinstance(op, tile.Store):
            whole = op.mask is None and (op.mem in self.promoted or covers(op.mem, op.indices, op.dims, op.value.shape))
            yield from ((v, "set" if whole else "update") for v in self.at(op.mem, op.indices))
        elif isinstance(op, tile.Fill):
            whole = covers(op.mem, op.indices, op.dims, op.shape)
            yield from ((v, "set" if whole else "update") for v in self.of(op.mem))
        elif isinstance(op, tile.Copy):
            whole = covers(op.dst, op.dst_indices, op.dst_dims, op.shape)
            yield from ((v, "read") for v in self.of(op.src))
            yield from ((v, "set" if whole else "update") for v in self.of(op.dst))
        elif isinstance(op, tile.GemmInto):
            read = (op.a, op.b, op.a_scale, op.b_scale)
            yield from ((v, "read") for mem in read if mem is not None for v in self.of(mem))
            yield from ((v, "set" if op.clear_accum else "update") for v in self.of(op.c))
        elif isinstance(op, tile.ReduceInto):
            yield from ((v, "read") for v in self.of(op.src))
            yield from ((v, "set" if op.clear else "update") for v in self.of(op.dst))
        elif isinstance(op, tile.Print):
            yield from ((v, "read") for mem in op.values for v in self.of(mem))

    # Liveness -------------------------------------------------------------------------------------------------------

    def _sorted(self, variables: set[Variable]) -> list[Variable]:
        return sorted(variables, key=lambda v: (self._order[v.mem], v.element or ()))

    def _written(self, *blocks: Block) -> set[Variable]:
        ops = itertools.chain.from_iterable(block.walk() for block in blocks)
        return {v for op in ops for v, effect in self._effects.get(op, ()) if effect != "read"}

    def _live(self, block: Block, live: set[Variable]) -> set[Variable]:
        """What is live before a block, from what is live after it; notes `carried` on the way."""
        live = set(live)
        for op in reversed(block.ops):
            if isinstance(op, control.For | control.While):
                live = self._loop(op, live)
            elif isinstance(op, control.If):
                self.carried[op] = self._sorted(self._written(op.then, op.orelse) & live)
                live = self._live(op.then, live) | self._live(op.orelse, live)
            elif op.regions:
                for region in op.regions:
                    live |= self._live(region, set())
            elif op in self._effects:
                effects = self._effects[op]
                live.difference_update(v for v, effect in effects if effect == "set")
                live.update(v for v, effect in effects if effect != "set")
        return live

    def _loop(self, op: control.For | control.While, after: set[Variable]) -> set[Variable]:
        start: set[Variable] = set()  # live when a round starts
        while True:
            end = after | start
            for region in reversed(op.regions):
                end = self._live(region, end) | (after if len(op.regions) > 1 else set())
            if end <= start:
                break
            start |= end
        self.carried[op] = self._sorted(self._written(*op.regions) & (after | start))
        return after | start


def _promotable(kernel: Kernel) -> set[Value]:
    """The local arrays that need no memory."""
    found = {op.result for op in kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "local"}
    if not found:
        return found
    for op in kernel.walk():
        if isinstance(op, tile.Load | tile.Store) and op.mem in found:
            value = op.result if isinstance(op, tile.Load) else op.value
            indices = [constant_of(i) for i in op.indices]
            if None in indices or not isinstance(value.type, ScalarType):
                found.discard(op.mem)
            elif not all(0 <= i < size for i, size in zip(indices, op.mem.shape, strict=True)):
                raise LanguageError(
                    f"index {', '.join(map(str, indices))} of {op.mem.name!r}, whose shape is {op.mem.shape}", op.loc
                )
        elif isinstance(op, tile.Fill) and covers(op.mem, op.indices, op.dims, op.shape):
            continue
        else:
            found.difference_update(op.operands)
    return found
