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

So a wait at which the threads may come apart, with an arrival of one for all behind it at the same barriers and nothing
between the two, on some path, that makes them meet (`Op.reconverges`), needs a `warp_barrier` behind what has parted
them: a branch or loop whose condition differs within the warp, or an operation that says so (`Op.diverges`). A backward
walk keeps what comes before the warp meets again on some path. Within such a branch or loop some threads are alone: it
stands behind the outermost one.

Threads that come together go through a wait together: all ask for the same phase of the same barrier, and ptxas takes
the answer for one of the whole warp (decision 152).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    """What comes, on some path, before the warp meets again. `told`: the barriers (`Sync.on`) at which one lane arrives
    for its warp; `waits`: the waits behind which one does, at the same barriers."""

    told: frozenset[object] = frozenset()
    waits: frozenset[Op] = frozenset()

    def __or__(self, other: Ahead) -> Ahead:
        return Ahead(self.told | other.told, self.waits | other.waits)


MET = Ahead()


def warp_barriers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not any(map(_told, kernel.walk())):
        return
    apart = divergent_values(kernel)
    if not any(_parts(op, apart) for op in kernel.walk()):
        return
    walk = _Walk(divergent_values(kernel, _same_in_warps(kernel)))
    walk.block(kernel.body, MET, alone=False)
    origins = {op: _origin(op, [wait for wait in kernel.walk() if wait in waits]) for op, waits in walk.behind.items()}
    if origins:
        _insert(kernel.body, origins)


def _origin(op: Op, waits: list[Op]) -> Origin:
    return Origin("warp_barriers", REASON, places([op.loc]), places(wait.loc for wait in waits))


def _same_in_warps(kernel: Kernel) -> Callable[[Value], bool]:
    """Whether a value is known to be the same in all threads of each warp: by the number of the thread alone."""
    threads = Threads(kernel, Facts(kernel))

    def same(value: Value) -> bool:
        numbers = threads.numbers(value)
        return numbers is not None and all(
            (numbers[first : first + WARP] == numbers[first]).all() for first in range(0, len(numbers), WARP)
        )

    return same


def _told(op: Op) -> frozenset[object]:
    """The barriers at which one lane arrives for the threads that it has met."""
    return frozenset(sync.on for sync in op.syncs() if sync.kind == "release" and sync.threads == "one")


def _parts(op: Op, apart: set[Value]) -> bool:
    """Whether threads of a warp may come out of an operation apart. Roles are of whole warps."""
    if isinstance(op, control.Structured) and not isinstance(op, roles.ByRole):
        return not apart.isdisjoint(op.decides())
    return op.diverges()


class _Walk:
    """`behind`: the operations that need a barrier behind them, each with the waits that it is for."""

    def __init__(self, apart: set[Value]) -> None:
        self.apart = apart
        self.behind: dict[Op, frozenset[Op]] = {}

    def block(self, block: Block, after: Ahead, alone: bool) -> Ahead:
        """What comes from the block's beginning on. `alone`: some threads of the warp may be elsewhere."""
        for op in reversed(block.ops):
            after = self.op(op, after, alone)
        return after

    def op(self, op: Op, after: Ahead, alone: bool) -> Ahead:
        if not alone and _parts(op, self.apart):
            self.behind.pop(op, None)  # a loop around may have been walked before with less behind it
            if after.waits:
                self.behind[op] = after.waits
                after = MET
            alone = True
        if op.region_fields:
            return self.regions(op, after, alone)
        if op.reconverges():
            return MET
        acquired = {sync.on for sync in op.syncs() if sync.kind == "acquire"}
        waits = after.waits | {op} if acquired & after.told else after.waits
        return Ahead(after.told | _told(op), waits)

    def regions(self, op: Op, after: Ahead, alone: bool) -> Ahead:
        if isinstance(op, control.For):
            return self.rounds(after, lambda ahead: self.block(op.body, ahead, alone))
        if isinstance(op, control.While):
            body, before = op.body, op.before
            head = self.rounds(after, lambda ahead: self.block(body, self.block(before, ahead, alone), alone))
            return self.block(before, head, alone)
        if isinstance(op, control.If):
            return self.block(op.then, after, alone) | self.block(op.orelse, after, alone)
        for region in reversed(op.regions):
            after |= self.block(region, after, alone)
        return after

    def rounds(self, after: Ahead, walk: Callable[[Ahead], Ahead]) -> Ahead:
        """At the end of a loop's round: what comes behind the loop, or from the next round on."""
        known = after
        while (more := known | walk(known)) != known:
            known = more
        return known


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
