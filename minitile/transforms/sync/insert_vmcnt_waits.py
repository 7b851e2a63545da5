"""The barriers at which a wave waits for what it has done to global memory, on AMD: those between it and the access of
another wave that it conflicts with. On thread IR, behind `thread_barriers`.

    store_mem … %W                              store_mem … %W
    barrier                                     barrier {drains = true}
    for … {                            ->       for … {
      wait %t                                     wait %t
      barrier                                     barrier
      %u = cp_async %W … -> %Ws                   %u = cp_async %W … -> %Ws
    }                                           }

`thread_barriers` has put one between any two such accesses. Its walk goes over the kernel once more: an access stays
pending behind barriers, of which it remembers the one that runs least often, of several the last. Where it meets
another, that barrier waits, and nothing is pending behind it. None waits without need: in a pipeline copies are under
way there, and vmcnt(0) would wait for them, too. What LDS-DMA has read is over when its token has been awaited.

A fence for the GPU or the host makes known what all threads have done that passed a barrier before it, and a wave can
wait for its own accesses alone: at the barrier between an access and a fence each wave waits for its own.

The waves of a workgroup share a vector L1, and LLVM's memory model has no such wait at their barriers, unless they run
in tgsplit mode. But what the ISA promises is an order for the operations of one wave.

Sources: LLVM 22, "User Guide for AMDGPU Backend", "Memory Model GFX942"; "CDNA 3" Instruction Set Architecture, 4.4.
"""

from __future__ import annotations

from minitile.analysis.access_set import AccessSet
from minitile.analysis.global_sharing import shares_global
from minitile.analysis.memory_dependence import MemoryAccess, conflict
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import control, fences, thread
from minitile.ir.types import TensorType
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.thread_barriers import Spot, State, Walk


def insert_vmcnt_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass, for targets with counted stores. What a first walk finds late, a second one knows from the start."""
    if not context.target.has("counted_stores") or not shares_global(kernel):
        return
    waiting: set[Op] = set()
    known = -1
    while len(waiting) != known:
        known = len(waiting)
        _GlobalWalk(kernel, waiting).run()
    for op in waiting:
        if isinstance(op, thread.Barrier):  # others the backend refuses
            op.drains = True


class _GlobalWalk(Walk):
    """Adds to `waiting`."""

    def __init__(self, kernel: Kernel, waiting: set[Op]) -> None:
        super().__init__(kernel)
        self.waiting = waiting
        self.count(kernel.body, 1)

    def touches_of(self, op: Op, single: object = None) -> list[tuple[MemoryAccess, Value | None]]:
        every = super().touches_of(op, single)
        return [(t, by) for t, by in every if t.mem is None or isinstance(t.mem.type, TensorType)]

    def matters(self, op: Op) -> bool:
        return isinstance(op, fences.MemoryFence) or super().matters(op)

    def publish(self, state: State) -> None:
        """A fence: what is pending behind a barrier is done there."""
        self.waiting.update(barrier for barrier, _ in state.pending.by_barrier() if barrier is not None)
        state.pending = state.pending.without(self.waiting)

    def access(self, op: Op, state: State, before: set[Spot]) -> None:
        if isinstance(op, fences.MemoryFence):
            self.publish(state)
            return
        touches = self.touches_of(op)
        self.settle_conflicts(op, [t for t, _ in touches], state, before)
        state.pending |= {t for t, token in touches if token is None}

    def settle_conflicts(self, op: Op, touches: list[MemoryAccess], state: State, before: set[Spot]) -> None:
        for barrier, near in state.pending.by_barrier():
            if barrier is not None and any(conflict(t, p) for t in touches for p in near(t)):
                self.waiting.add(barrier)
        state.pending = state.pending.without(self.waiting)

    def passed(self, barrier: Op, pending: AccessSet) -> AccessSet:
        if barrier in self.waiting:
            return AccessSet()
        mine = self.times[barrier]
        return pending.without(self.waiting).passing(barrier, lambda earlier: self.times[earlier] < mine)

    def meet(self, op: Op, group: int | None, state: State, before: set[Spot]) -> None:
        """There are the barriers that there are."""

    def loop(self, op: control.For, state: State, before: set[Spot]) -> None:
        """What was pending before it meets every iteration: a barrier inside does not end it."""
        _, end, _ = self.settle(state.copy(), self.iteration(op))
        state.join(self.leave(end, op))

    def together(self, op: Op, state: State, before: set[Spot]) -> None:
        if any(isinstance(inner, fences.MemoryFence) for inner in op.walk()):
            self.publish(state)
        touches = self.gathered(op, state.copy())
        self.settle_conflicts(op, [t for t, _ in touches], state, before)
        super().together(op, state, before)
