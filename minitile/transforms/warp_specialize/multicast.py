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
from collections.abc import Sequence

from minitile.analysis.op_places import Places
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.transforms.warp_specialize.producer_partition import Rings

ATOM = 8  # rows that no part of a swizzled tile divides

Common = dict[tile.Copy, tuple[int, ...]]
Dims = frozenset[int]
NONE: Dims = frozenset()


def find_common(launch: control.Launch, rings: Rings) -> Common:
    """The dimensions of the cluster along which a copy is common, of those that are and whose rows can be shared out.
    Copies of one ring go along the same dimensions or none: a consumer that releases a slot tells all blocks that
    write to it."""
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
            self._block(launch.body)

    def of(self, value: Value) -> Dims:
        return self.dims.get(value, NONE)

    def way_to(self, op: Op, places: Places) -> Dims:
        """Along which dimensions blocks differ in how often they come to the operation."""
        return NONE.union(*(self._decides(around) for around in places.all_around(op)))

    def _decides(self, op: Op) -> Dims:
        """What decides which of its regions run, and how often."""
        return self._all(op.decides() if isinstance(op, control.Structured) else op.operands)

    def _all(self, values: Sequence[Value]) -> Dims:
        return NONE.union(*map(self.of, values))

    def _set(self, values: Sequence[Value], dims: Dims) -> None:
        for value in values:
            if not dims <= self.of(value):
                self.dims[value] = self.of(value) | dims
                self.changed = True

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, control.Structured):
                self._structured(op)
            elif not self._rank_goes(op):
                self._set(op.results, self._all(op.operands))

    def _rank_goes(self, op: Op) -> bool:
        """A block's index divided by the cluster's size, or a multiple of it."""
        if not isinstance(op, arith.FloorDiv) or op.a.owner is not self.launch.body:
            return False
        divisor = constant_of(op.b)
        return divisor is not None and int(divisor) % self.launch.cluster[op.a.index] == 0

    def _structured(self, op: control.Structured) -> None:
        """In the same turn of a loop values vary as those do that were handed on; behind it, and behind a branch, also
        as its course does. So does the number of a turn, which is computed from what decides it."""
        course, given = self._decides(op), op.given()
        for region in op.regions:
            self._set([v for v in region.args if v not in given], course)
            self._block(region)
        for t in op.transfers():
            for v, *targets in zip(t.values, *t.targets, strict=True):
                self._set(targets, self.of(v))
        self._set(op.results, course)
