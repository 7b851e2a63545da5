"""What keeps an interleaved schedule as it was written: s_setprio, s_waitcnt lgkmcnt, and LLVM's scheduling barrier.

Source: LLVM 22, llvm/include/llvm/IR/IntrinsicsAMDGPU.td (sched.barrier: mask 0 lets nothing pass); the bits of
s_waitcnt: "CDNA 3" ISA, S_WAITCNT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.amd.emit.emitter import Emitter
from minitile.ir.core import Op
from minitile.ir.ops import cdna

_NO_OTHER_WAIT = 0xC07F  # vmcnt and expcnt at "no wait", lgkmcnt 0


def sched_barrier(w: Emitter, op: cdna.SchedBarrier) -> None:
    w.call("llvm.amdgcn.sched.barrier", "void", [("i32", "0")])


def set_priority(w: Emitter, op: cdna.SetPriority) -> None:
    w.call("llvm.amdgcn.s.setprio", "void", [("i16", str(op.level))])


def lds_wait(w: Emitter, op: cdna.LdsWait) -> None:
    w.call("llvm.amdgcn.s.waitcnt", "void", [("i32", str(_NO_OTHER_WAIT | op.pending << 8))])


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    cdna.SchedBarrier: sched_barrier,
    cdna.SetPriority: set_priority,
    cdna.LdsWait: lds_wait,
}
