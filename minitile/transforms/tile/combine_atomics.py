"""Sums that lanes of a warp add to one place are added up in registers first; one lane of them then adds to memory.

    %n = floormod %tid, 2                          %w = shuffle %v, 2 {kind = "bfly"} ; %s = add %v, %w ; … 4, 8, 16
    atomic %S[%n], %v                     →        %lane = floormod %tid, 32
                                                   if %lane < 2 { atomic %S[%n], %s }

Shared memory adds no floats: `red.shared.add.f32` is a loop around a compare-and-swap, in which 16 lanes at one place
take 16 turns; and in global memory they are as many additions, one after the other. For atomics of f32 whose result
nothing takes and whose indices depend on the thread by remainders of a power of two alone, where all threads of the
warps come: outside of branches and loops that differ between them.
"""

from __future__ import annotations

import math

from minitile.analysis.divergence import divergent_values
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, explicit, tile
from minitile.ir.types import ScalarType, f32
from minitile.transforms.manager import PassContext

LANES = 32  # of a warp, and of a shuffle's segment on targets with wider ones


def combine_atomics(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    found = [op for op in kernel.walk() if _adds(op)]
    if found and kernel.threads % LANES == 0:
        _Combine(kernel).block(control.find_launch(kernel).body)


def _adds(op: Op) -> bool:
    return (
        isinstance(op, tile.AtomicRmw)
        and op.kind == "add"
        and op.mask is None
        and isinstance(op.value.type, ScalarType)
        and op.value.dtype is f32
    )


class _Combine:
    def __init__(self, kernel: Kernel) -> None:
        self.divergent = divergent_values(kernel)
        self.used = {v for op in kernel.walk() for v in op.operands}

    def block(self, block: Block) -> None:
        """The block's own atomics, and those of loops and branches that all threads take alike."""
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            if isinstance(op, control.For | control.If) and self.divergent.isdisjoint(op.operands[:3]):
                for region in op.regions:
                    self.block(region)
            b.loc = op.loc
            together = self.lanes_apart(op)
            if together < LANES:
                assert isinstance(op, tile.AtomicRmw)
                self.combined(b, op, together)
            else:
                b.emit(op)

    def lanes_apart(self, op: Op) -> int:
        """How many lanes there are between two that add to one place, all alike; LANES where that is not known."""
        if not isinstance(op, tile.AtomicRmw) or not _adds(op) or not self.used.isdisjoint(op.results):
            return LANES
        period = math.lcm(*(self.period(i) for i in op.indices))
        return period if period and LANES % period == 0 else LANES

    def period(self, value: Value) -> int:
        """After how many threads a scalar is the same again, from each; 0 where that is not known."""
        op = value.op
        if value not in self.divergent:
            return 1
        if isinstance(op, arith.FloorMod) and self.is_linear(op.a):
            c = constant_of(op.b)
            return c if isinstance(c, int) and c > 0 else 0
        if op is None or not op.pure or op.region_fields or not op.operands or not op.elementwise:
            return 0
        return math.lcm(*(self.period(v) for v in op.operands))

    def is_linear(self, value: Value) -> bool:
        """Whether a scalar goes up by the same number from each thread to the next."""
        op = value.op
        if value not in self.divergent or isinstance(op, tile.ThreadIndex):
            return True
        if isinstance(op, arith.Mul):
            return any(
                constant_of(factor) is not None and self.is_linear(x) for factor, x in ((op.a, op.b), (op.b, op.a))
            )
        return isinstance(op, arith.Add | arith.Sub) and self.is_linear(op.a) and self.is_linear(op.b)

    def combined(self, b: Builder, op: tile.AtomicRmw, apart: int) -> None:
        delta = LANES // 2
        while delta >= apart:
            other = b.emit(explicit.Shuffle(op.value, b.constant(delta), "bfly", width=LANES)).result
            op.value = b.emit(arith.Add(op.value, other)).result
            delta //= 2
        lane = b.floormod(b.emit(tile.ThreadIndex()).result, LANES)
        then = Block()
        with b.inside(then):
            b.emit(op)
            b.emit(control.Yield(()))
        orelse = Block()
        with b.inside(orelse):
            b.emit(control.Yield(()))
        b.emit(control.If(b.compare("lt", lane, b.constant(apart)), then=then, orelse=orelse))
