"""Inserts `warp_barrier` where threads of a warp may be apart and one of them arrives for all: on thread IR, last.

    if %mine { … }                                if %mine { … }          // %mine: 17 threads of the warp
    for … (%k) {                                  warp_barrier
      mbarrier_wait %full, …                      for … (%k) {
      if %some { … wgmma … }               ->       mbarrier_wait %full, …
      mbarrier_arrive %empty, predicate = %lane0    if %some { … wgmma … }
    }                                               mbarrier_arrive %empty, predicate = %lane0
                                                  }

Nothing brings the threads of a warp together behind a branch that only some of them take: PTX promises no place where
they reconverge. What is `.sync` needs no help, each thread waits there for the others; `.aligned` adds that all come to
the same instruction, which structured control flow that does not differ within the warp sees to. But a thread that
arrives at an mbarrier for its warp says that all have passed their wait. While it is alone and nothing stops it, it
runs round the ring, and phases complete for which the others still wait: that parity then stands for a later phase, or
for none.

So a wait at which the threads may come apart, with an arrival of one behind it and nothing between the two, on some
path, that makes them meet (`Op.reconverges`), needs a `warp_barrier` behind what has parted them: a branch or loop
whose condition differs within the warp, or an operation that says so (`Op.diverges`). An arrival of one is one that
says so, or one that stands in such a branch (`if lane == 0: T.barrier_arrive(free)`). A backward walk keeps what comes
before the warp meets again on some path. Within such a branch or loop some threads are alone: it stands behind the
outermost one.

Threads that come together go through a wait together: all ask for the same phase of the same barrier, and ptxas takes
the answer for one of the whole warp (decision 152).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from minitile.analysis.affine import Facts
from minitile.analysis.disjoint import Threads
from minitile.analysis.divergence import divergent_values
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, explicit, roles
from minitile.ir.origin import Origin, places
from minitile.transforms.manager import PassContext

WARP = 32
REASON = "one lane arrives for its warp, whose threads the branch before has parted"


@dataclass(frozen=True)
class Ahead:
    """What comes, on some path, before the warp meets again. `told`: whether one lane arrives for its warp; `waits`:
    the waits behind which one does."""

    told: bool = False
    waits: frozenset[Op] = frozenset()

    def __or__(self, other: Ahead) -> Ahead:
        return Ahead(self.told or other.told, self.waits | other.waits)


MET = Ahead()


def warp_barriers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    walk = _Walk(kernel)
    walk.block(kernel.body, MET)
    if walk.behind:
        order = list(kernel.walk())
        origins = {op: _origin(op, [wait for wait in order if wait in waits]) for op, waits in walk.behind.items()}
        _insert(kernel.body, origins)


def _origin(op: Op, waits: list[Op]) -> Origin:
    return Origin("warp_barriers", REASON, places([op.loc]), places(wait.loc for wait in waits))


class _Walk:
    """`behind`: the operations that need a barrier behind them, each with the waits that it is for; `around`: those
    that the walk is in; `silent`: classes whose operations say nothing of it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.behind: dict[Op, frozenset[Op]] = {}
        self.around: list[Op] = []
        self.silent: set[type[Op]] = set()

    def block(self, block: Block, after: Ahead) -> Ahead:
        """What comes from the block's beginning on."""
        for op in reversed(block.ops):
            if type(op) not in self.silent:
                after = self.op(op, after)
        return after

    def op(self, op: Op, after: Ahead) -> Ahead:
        self.behind.pop(op, None)  # a loop around may have been walked before with less behind it
        if after.waits and self.parts(op) and not self.alone():
            self.behind[op] = after.waits
            after = MET
        if op.region_fields:
            self.around.append(op)
            after = self.regions(op, after)
            self.around.pop()
            return after
        if op.reconverges():
            return MET
        syncs = op.syncs()
        if not syncs:
            self.note_silent(type(op))
            return after
        if after.told and any(sync.kind == "acquire" for sync in syncs):
            return Ahead(True, after.waits | {op})
        told = any(sync.kind == "release" and (sync.threads == "one" or self.alone()) for sync in syncs)
        return Ahead(after.told or told, after.waits)

    def alone(self) -> bool:
        """Whether some threads of the warp may not come to where the walk is."""
        return any(map(self.parts, self.around))

    def note_silent(self, kind: type[Op]) -> None:
        asked = (kind.syncs, Op.syncs), (kind.reconverges, Op.reconverges), (kind.diverges, Op.diverges)
        if all(own is default for own, default in asked):
            self.silent.add(kind)

    def regions(self, op: Op, after: Ahead) -> Ahead:
        if isinstance(op, control.For):
            return self.rounds(after, lambda ahead: self.block(op.body, ahead))
        if isinstance(op, control.While):
            body, before = op.body, op.before
            head = self.rounds(after, lambda ahead: self.block(body, self.block(before, ahead)))
            return self.block(before, head)
        if isinstance(op, control.If):
            return self.block(op.then, after) | self.block(op.orelse, after)
        for region in reversed(op.regions):
            after |= self.block(region, after)
        return after

    def rounds(self, after: Ahead, walk: Callable[[Ahead], Ahead]) -> Ahead:
        """At the end of a loop's round: what comes behind the loop, or from the next round on."""
        known = after
        while (more := known | walk(known)) != known:
            known = more
        return known

    # What parts a warp -----------------------------------------------------------------------------------------------

    def parts(self, op: Op) -> bool:
        """Whether threads of a warp may come out of an operation apart. Roles are of whole warps."""
        if not isinstance(op, control.Structured) or isinstance(op, roles.ByRole):
            return op.diverges()
        decides = op.decides()
        return not (self.differ.isdisjoint(decides) or self.differ_in_warps.isdisjoint(decides))

    @cached_property
    def differ(self) -> set[Value]:
        return divergent_values(self.kernel)

    @cached_property
    def differ_in_warps(self) -> set[Value]:
        """Between the threads of a warp: not what the number of the thread alone says to be the same in all of them."""
        threads = Threads(self.kernel, Facts(self.kernel))

        def same(value: Value) -> bool:
            numbers = threads.numbers(value)
            return numbers is not None and all(
                (numbers[first : first + WARP] == numbers[first]).all() for first in range(0, len(numbers), WARP)
            )

        return divergent_values(self.kernel, same)


def _insert(block: Block, behind: dict[Op, Origin]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        ops.append(op)
        for region in op.regions:
            _insert(region, behind)
        if op in behind:
            barrier = explicit.WarpBarrier()
            barrier.loc, barrier.why = op.loc, behind[op]
            ops.append(barrier)
    block.ops = ops
