"""Fences, and what a program says about proxies: legal in both stages.

A proxy fence is between a thread's own accesses as loads and stores make them (the generic proxy) and those that copy
engines and tensor cores make later (the async proxy); `proxy_fence.py` inserts them. A memory fence orders a thread's
accesses as the rest of the GPU, or the host, sees them.
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, operand, operands
from minitile.ir.effects import UNKNOWN, Access, Sync
from minitile.ir.ops.checks import require, require_one_of
from minitile.ir.types import BOOL, I32, Type

SPACES = ("shared", "global", "any")
FORMS = ("", "release", "acquire")
SCOPES = ("gpu", "sys")
HINTS = ("generic", "async", "neutral")


class ProxyFence(Op, name="proxy_fence", stage="both", orders=True):
    """What this thread has accessed is in order with asynchronous accesses behind, for the threads that get to know of
    it afterwards.

    space  which memory: "shared", "global" or "any" of the two
    form   "": within the CTA. Between CTAs of a cluster there are two halves, for shared memory: "release" by the
           threads that accessed, before they tell, and "acquire" by the thread that has been told, before it issues
    """

    space: str = attr("shared")
    form: str = attr("")

    def verify(self) -> None:
        require_one_of(self.space, SPACES, "space of a proxy fence")
        require_one_of(self.form, FORMS, "form of a proxy fence")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class MemoryFence(Op, name="memory_fence", stage="both", orders=True):
    """This thread's accesses before are seen before those behind, by all threads of the GPU ("gpu") or of the whole
    system ("sys"), the host included."""

    scope: str = attr()

    def verify(self) -> None:
        require_one_of(self.scope, SCOPES, "scope of a memory fence")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class GridBarrier(Op, orders=True):
    def accesses(self) -> tuple[Access, ...]:
        return (UNKNOWN,)

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("meet", "grid"),)

    def reconverges(self) -> bool:
        return True


class GridSync(GridBarrier, name="grid_sync", stage="tile", uniform=True):
    """All threads of all blocks of the grid meet, which run at the same time; what they have done to memory is known to
    all."""


class GridMeet(GridBarrier, name="grid_meet", stage="thread", uniform=True):
    """The same by a counter in global memory that is the kernel's own: the `first` thread of each block adds `step` to
    it and waits until its highest bit is another one. The steps of all blocks make 2^31, so that the counter is ready
    for the next time. The block's threads meet at barrier `id`, `threads` of them, before and afterwards."""

    first: Value = operand()
    step: Value = operand()
    id: int = attr(0)
    threads: int | None = attr(None)

    def verify(self) -> None:
        require(self.first.type == BOOL and self.step.type == I32, f"{self.first.type} and {self.step.type}")


class PdlSync(Op, name="pdl_sync", stage="both", orders=True):
    """Waits until the grid launched before has ended and all that it wrote is visible (programmatic dependent launch):
    the launch says that this grid may start earlier. What stands in front must not touch what that grid writes.
    `ahead`: tensors that it does not write."""

    ahead: tuple[Value, ...] = operands()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class PdlTrigger(Op, name="pdl_trigger", stage="both", uniform=True, orders=True):
    """This block does not mind if blocks of the next grid start: they do when all blocks have said so or ended. Says
    nothing of memory; the next grid's pdl_sync waits for all of this one."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Disjoint(Op, name="disjoint", stage="both"):
    """From here to the matching end in its block, different threads touch different elements of these tensors and
    buffers, or only read or update by atomics what they have in common: the program's word. The result stands for this
    time that it is said, so that in a loop it is another one in each round."""

    mems: tuple[Value, ...] = operands()
    end: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def accesses(self) -> tuple[Access, ...]:
        return ()


class ProxyHint(Op, name="proxy_hint", stage="both"):
    """How the accesses from here to the matching end count, whatever the operations say: as "generic" or "async" ones,
    or ("neutral") not at all, and everything before is in order. `end` closes the innermost open one of its block."""

    scope: str = attr("")
    end: bool = attr(False)

    def verify(self) -> None:
        if not self.end:
            require_one_of(self.scope, HINTS, "scope of a proxy hint")

    def accesses(self) -> tuple[Access, ...]:
        return ()
