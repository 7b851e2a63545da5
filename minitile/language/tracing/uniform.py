"""The rule of uniformity: what all threads of a block do together is not under a condition that differs between them.

A value differs between threads when it comes from the thread's index, from an atomic's result, from memory at a
differing address, or from a loop or branch whose course differs; each thread's own array does when such a value, or not
all threads, have been stored to it. Tile operations and barriers
inside such a loop or branch are errors, and so is an early return of the kernel.
"""

from __future__ import annotations

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import control, tile
from minitile.ir.types import BufferType

HINT = "compute the condition from block indices, dimensions and loop counters only, or work inside T.Parallel"


def check_uniform(kernel: Kernel, returns: list[tuple[Value, Location | None]]) -> None:
    """LanguageError at the first operation that breaks the rule; `returns` are the conditions of early returns."""
    sources = (tile.ThreadIndex, tile.AtomicRmw)
    if not any(isinstance(op, sources) or (op.varies() and not op.uniform) for op in kernel.walk()):
        return
    analysis = _Uniformity()
    size = -1
    while len(analysis.varying) != size:  # an array may be stored to behind where it is read, in a loop around both
        size = len(analysis.varying)
        analysis.block(kernel.body)
    for condition, loc in returns:
        if condition in analysis.varying:
            raise LanguageError("`return` under a condition that differs between threads", loc, HINT)
    analysis.check(kernel.body, None)


def _own(mem: Value | None) -> bool:
    """Whether each thread has a memory of this name to itself."""
    return mem is not None and isinstance(mem.type, BufferType) and mem.type.space == "local"


class _Uniformity:
    """`varying` grows until nothing changes: loops are walked until their carried values settle. `under`: how many of
    the loops and branches around have a course that differs."""

    def __init__(self) -> None:
        self.varying: set[Value] = set()
        self.under = 0

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        varies = any(v in self.varying for v in op.operands)
        if isinstance(op, (control.For, control.While)):
            self.loop(op)
            return
        if isinstance(op, control.If):
            differs = self.course_varies(op)
            self.under += differs
            self.block(op.then)
            self.block(op.orelse)
            self.under -= differs
            ends = [b.terminator.operands if b.terminator else [] for b in (op.then, op.orelse)]
            for result, x, y in zip(op.results, *ends, strict=True):
                if op.varies() or op.condition in self.varying or x in self.varying or y in self.varying:
                    self.varying.add(result)
            return
        if isinstance(op, control.Parallel):
            return  # holds no operation that the rule is about, and yields no values
        for region in op.regions:
            self.block(region)
        if varies or op.varies() or isinstance(op, (tile.ThreadIndex, tile.AtomicRmw)):
            self.varying.update(op.results)
        if varies or self.under or not isinstance(op, (tile.Store, tile.Fill)):
            self.varying.update(a.mem for a in op.accesses() if a.writes and a.mem is not None and _own(a.mem))

    def loop(self, op: control.For | control.While) -> None:
        blocks = op.regions
        while True:
            size = len(self.varying)
            course = self.course_varies(op)
            self.under += course
            for block in blocks:
                args = block.args[1:] if isinstance(op, control.For) else block.args
                self.carry(op.init, args, course)
                if isinstance(op, control.For) and course:
                    self.varying.add(op.iv)
                self.block(block)
                end = block.terminator
                if isinstance(end, control.Yield):
                    first = blocks[0].args[1:] if isinstance(op, control.For) else blocks[0].args
                    self.carry(end.values, first, False)
                    self.carry(end.values, op.results, course)
                elif isinstance(end, control.Condition):
                    self.carry(end.values, blocks[1].args, False)
                    self.carry(end.values, op.results, False)
            self.under -= course
            self.carry(op.init, op.results, False)
            if len(self.varying) == size:
                return

    def carry(self, values: tuple[Value, ...], to: tuple[Value, ...], always: bool) -> None:
        for v, t in zip(values, to, strict=True):
            if always or v in self.varying:
                self.varying.add(t)

    def course_varies(self, op: Op) -> bool:
        """Whether threads may disagree on how often a loop runs or which branch is taken."""
        return isinstance(op, control.Structured) and not self.varying.isdisjoint(op.decides())

    def check(self, block: Block, under: Op | None) -> None:
        for op in block.ops:
            if under is not None and op.uniform:
                where = "" if under.loc is None else f" (line {under.loc.line})"
                raise LanguageError(
                    f"{op.mnemonic} under a condition that differs between threads{where}", op.loc, HINT
                )
            if isinstance(op, tile.Gemm) and op.scale_d in self.varying:
                raise LanguageError("clear_accum differs between threads", op.loc, HINT)
            if isinstance(op, control.Parallel):
                if under is not None:
                    raise LanguageError("T.Parallel under a condition that differs between threads", op.loc, HINT)
                continue
            inside = op if under is None and self.course_varies(op) else under
            for region in op.regions:
                self.check(region, inside)
