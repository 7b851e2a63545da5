"""Thread operations of sm_100a: tensor memory and the products that accumulate there (PTX ISA 8.6, 9.7.16).

No target emits them yet. What they touch is declared, so that the passes which synchronise are right for them: products
read their operands and copies their source (the scales of narrow dtypes among them) from shared memory in the async
proxy. Tensor memory is a space of its own, ordered by `tcgen05_wait` and `tcgen05_fence`, which no proxy fence is for.
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, maybe, operand, operands
from minitile.ir.effects import Access
from minitile.ir.ops.checks import require_one_of
from minitile.ir.ops.hopper import Arrival
from minitile.ir.types import DType, RegsType, Type


class _TensorMemoryOp(Op):
    """Touches tensor memory alone."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class _FromShared(Op):
    """One elected thread issues it for the CTA; `reads` are the shared buffers that the hardware reads."""

    def accesses(self) -> tuple[Access, ...]:
        mems: tuple[Value, ...] = self.reads  # type: ignore[attr-defined]
        return tuple(Access("read", mem, proxy="async", threads="one") for mem in mems)


class Tcgen05Mma(_FromShared, name="tcgen05_mma", stage="thread"):
    """d += a · b, d and the scales (if any) in tensor memory, b and a (unless in tensor memory) by descriptor."""

    d: Value = operand()
    a: Value = operand()
    b: Value = operand()
    reads: tuple[Value, ...] = operands()
    scale_a: Value | None = maybe()
    scale_b: Value | None = maybe()
    predicate: Value | None = maybe()
    dtype: DType = attr()


class Tcgen05Cp(_FromShared, name="tcgen05_cp", stage="thread"):
    """Shared memory to tensor memory: the way of the scales."""

    to: Value = operand()
    descriptor: Value = operand()
    reads: tuple[Value, ...] = operands()
    predicate: Value | None = maybe()


class Tcgen05Ld(_TensorMemoryOp, name="tcgen05_ld", stage="thread"):
    """Tensor memory to `count` registers, which are there once `tcgen05_wait` has waited for loads."""

    address: Value = operand()
    dtype: DType = attr()
    count: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (RegsType(self.count, self.dtype),)


class Tcgen05St(_TensorMemoryOp, name="tcgen05_st", stage="thread"):
    address: Value = operand()
    value: Value = operand()


class Tcgen05Wait(_TensorMemoryOp, name="tcgen05_wait", stage="thread", orders=True):
    """Until this thread's loads ("ld") or stores ("st") are complete."""

    kind: str = attr()

    def verify(self) -> None:
        require_one_of(self.kind, ("ld", "st"), "wait")


class Tcgen05Fence(_TensorMemoryOp, name="tcgen05_fence", stage="thread", orders=True):
    """Orders accesses of tensor memory "before" or "after" a synchronisation of threads."""

    side: str = attr()

    def verify(self) -> None:
        require_one_of(self.side, ("before", "after"), "side")


class Tcgen05Commit(Arrival, name="tcgen05_commit", stage="thread"):
    """The barrier's phase gets an arrival when all that the thread has issued is complete."""
