"""Operations of cluster launch control: clusters of the grid that have not begun are given to ones that run (PTX ISA
8.8, 9.7.13.17 "clusterlaunchcontrol.try_cancel", 9.7.13.18 "query_cancel").

In tile IR answers are the payload of an mbarrier pipeline whose slots the first block of a cluster fills for all
(`MbarrierPipeline.leader`): `request_tile` asks for one, as `tma_copy` asks for bytes, and `given_tile` reads it
between a wait and a release, in each role. An answer is 16 bytes of an undocumented layout, written in the async proxy.
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, maybe, operand
from minitile.ir.effects import Access
from minitile.ir.ops.checks import require
from minitile.ir.ops.roles import SlotOp
from minitile.ir.relations import Relation
from minitile.ir.types import BOOL, I32, BufferType, Type, i32

WORDS = 4  # of an answer
ANSWER = BufferType("shared", (WORDS,), i32)


class RequestTile(SlotOp, name="request_tile", stage="tile"):
    """Ask for a cluster that has not begun; the answer comes to the slot of `dst`, in all blocks of the cluster."""

    wants = "filling"
    dst: Value = operand()

    def verify(self) -> None:
        require(self.dst.shape == ANSWER.shape and self.dst.dtype is i32, f"{self.dst.type} is not for answers")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.dst, self.index, proxy="async", pipeline=self.pipeline, threads="one"),)


class GivenTile(Op, name="given_tile", stage="tile"):
    """Whether there is another tile, and its number: that of the cluster, where each has so many blocks `together` in a
    row. Without one 0."""

    src: Value = operand()
    slot: Value = operand()
    together: int = attr(1)

    def infer(self) -> tuple[Type, ...]:
        return BOOL, I32

    def relations(self) -> list[Relation]:
        return []

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.src, self.slot),)


class TryCancel(Op, name="try_cancel", stage="thread"):
    """By one thread, that of the predicate: the answer goes to `address` and completes on `barrier` by its bytes; with
    `multicast` at the same places in all blocks of the cluster. All are done with the answer before."""

    address: Value = operand()
    barrier: Value = operand()
    mem: Value = operand()
    slot: Value = operand()
    ring: Value = operand()
    predicate: Value | None = maybe()
    multicast: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        ctas, ring = "cluster" if self.multicast else "own", self.ring
        return (
            Access("write", self.mem, self.slot, proxy="async", threads="one", ctas=ctas, pipeline=ring, free=True),
        )


class QueryCancel(Op, name="query_cancel", stage="thread"):
    """Whether the answer at `address` gives a cluster, and the x of its first block; without one 0."""

    address: Value = operand()
    mem: Value = operand()
    slot: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return BOOL, I32

    def agrees(self) -> bool:
        return True

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot),)
