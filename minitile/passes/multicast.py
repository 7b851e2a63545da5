"""Which copies the blocks of a cluster have in common: the analysis behind TMA's multicast.

    launch … cluster (2, 1, 1) (%bx, %by) {
      for %k {
        copy %A[%by·128, %k·64], %As      the same in both blocks: each brings half of its rows, to both
        copy %B[%bx·256, %k·64], %Bs      each block its own

A copy is common to the blocks along a dimension of the cluster if neither its indices, nor the bounds and conditions of
the loops and branches around it, vary along it. What varies: the block's index in that dimension, and what is computed
from it; its quotient by the cluster's size does not.
"""

from __future__ import annotations

import math

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.passes.rings import Places, Rings

ATOM = 8  # rows that no part of a swizzled tile divides

Common = dict[tile.Copy, tuple[int, ...]]
Dims = frozenset[int]
NONE: Dims = frozenset()


def find_common(launch: control.Launch, rings: Rings) -> Common:
    """The dimensions of the cluster along which a copy is common, of those that are and whose rows can be shared out.
    Copies of one ring go along the same dimensions or none: whoever frees a slot tells all who write to it."""
    wide = tuple(d for d, n in enumerate(launch.cluster) if n > 1)
    if not wide:
        return {}
    varying = Varying(launch)
    places = rings.slice.places
    found: Common = {}
    for ring in rings.rings:
        together = [d for d in wide if all(d not in varying.way_to(copy, places) for copy in ring.copies)]
        for copy in ring.copies:
            common = tuple(d for d in together if all(d not in varying.of(v) for v in copy.src_indices))
            parts = math.prod(launch.cluster[d] for d in common)
            if common and len(copy.dst.shape) > 1 and copy.dst.shape[0] % (parts * ATOM) == 0:
                found[copy] = common
    return found


class Varying:
    """Along which dimensions of the cluster a value differs between blocks; a fixed point over loops."""

    def __init__(self, launch: control.Launch) -> None:
        self.launch = launch
        self.dims: dict[Value, Dims] = {
            arg: frozenset({d} if launch.cluster[d] > 1 else ()) for d, arg in enumerate(launch.body.args)
        }
        self.changed = True
        while self.changed:
            self.changed = False
            self._block(launch.body, NONE)

    def of(self, value: Value) -> Dims:
        return self.dims.get(value, NONE)

    def way_to(self, op: Op, places: Places) -> Dims:
        """Along which dimensions blocks differ in how often they come to the operation."""
        return NONE.union(*(self._decides(around) for around in places.all_around(op)))

    def _decides(self, op: Op) -> Dims:
        """What decides which of its regions run, and how often."""
        if isinstance(op, control.While):
            return self.of(op.before.yielded[0])
        return self._all(op.operands if not isinstance(op, control.For) else (op.lower, op.upper, op.step))

    def _all(self, values: list[Value] | tuple[Value, ...]) -> Dims:
        return NONE.union(*map(self.of, values))

    def _set(self, values: tuple[Value, ...], dims: Dims) -> None:
        for value in values:
            if not dims <= self.of(value):
                self.dims[value] = self.of(value) | dims
                self.changed = True

    def _block(self, block: Block, way: Dims) -> None:
        for op in block.ops:
            if op.regions:
                self._structured(op, way | self._decides(op))
            elif not self._rank_goes(op):
                self._set(op.results, self._all(op.operands))

    def _rank_goes(self, op: Op) -> bool:
        """A block's index divided by the cluster's size, or a multiple of it."""
        if not isinstance(op, arith.FloorDiv) or op.a.owner is not self.launch.body:
            return False
        divisor = constant_of(op.b)
        return divisor is not None and int(divisor) % self.launch.cluster[op.a.index] == 0

    def _structured(self, op: Op, way: Dims) -> None:
        """Values that go into a region, from one turn to the next, or out; all of those that do meet here."""
        handed = self._all(op.operands) | way
        for region in op.regions:
            if isinstance(op, control.For):
                self._set(region.args[:1], self._all((op.lower, op.step)))
                self._carry(op, region)
                continue
            self._set(tuple(region.args), handed)
            self._block(region, way)
            handed |= self._all(region.yielded if region.ops else [])
        if not isinstance(op, control.For):
            for region in op.regions:
                self._set(tuple(region.args), handed)
            self._set(op.results, handed)

    def _carry(self, op: control.For, body: Block) -> None:
        for n, arg in enumerate(op.carried):
            self._set((arg,), self.of(op.init[n]) | self.of(body.yielded[n]))
        self._block(body, self._decides(op))
        for n, result in enumerate(op.results):
            self._set((result,), self.of(op.carried[n]) | self.of(body.yielded[n]) | self._decides(op))
