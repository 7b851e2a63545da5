"""What a schedule for CDNA is made of besides reads, copies and multiplications: where the backend may move nothing,
which wave goes first, and waits for a number of LDS accesses. Legal in the thread stage.

Source: "CDNA 3" and "CDNA 4" Instruction Set Architecture, S_SETPRIO and S_WAITCNT; LLVM 22, llvm.amdgcn.sched.barrier.
"""

from __future__ import annotations

from minitile.ir.core import Op, attr
from minitile.ir.effects import Access
from minitile.ir.ops.checks import require

MOST_PENDING = 15  # lgkmcnt has four bits


class SchedBarrier(Op, name="sched_barrier", stage="thread"):
    """The backend moves no instruction across. Costs no instruction and orders nothing at run time."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class SetPriority(Op, name="set_priority", stage="thread"):
    """The wave's priority, 0 to 3, from here on: of the waves of a SIMD that could issue, the highest goes first."""

    level: int = attr()

    def verify(self) -> None:
        require(0 <= self.level <= 3, f"priorities go from 0 to 3, not to {self.level}")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class LdsWait(Op, name="lds_wait", stage="thread", orders=True):
    """All of this wave's LDS accesses are done but the last `pending` instructions (lgkmcnt)."""

    pending: int = attr()

    def verify(self) -> None:
        require(0 <= self.pending <= MOST_PENDING, f"lgkmcnt goes to {MOST_PENDING}, not to {self.pending}")

    def accesses(self) -> tuple[Access, ...]:
        return ()
