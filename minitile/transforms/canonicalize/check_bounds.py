"""Refuses accesses that are outside their tensor or buffer as a whole, whatever happens at run time.

    store %A[9], %x            // %A: tensor<8xf32>                    error: the index is 9, the size 8
    copy %A[%i + 8, 0] -> %s   // 0 <= %i, %A: tensor<8x8xf32>         error: the index is 8 or more

Bounds cut off what reaches past a tensor's edge: loads give 0, stores vanish. An access of which nothing is ever left
does not do what its author meant. Buffers have no such checks: no element of an access may be outside of them.

A statement that Python unrolls is judged as a whole, so that its last rounds may be past the end.

What is certain comes from `Facts`; only accesses that happen whenever the kernel runs are judged: not those under a
condition that may be false, or in a loop that may have no rounds. (In a loop that may have none, an index that is a
number is judged all the same.) Changes nothing.

Runs on traced IR: later, loads of tensors happen without the condition that they stood under, since bounds make them
harmless.
"""

from __future__ import annotations

from minitile.analysis.affine import Affine, Facts
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.effects import Footprint
from minitile.ir.ops import arith, control
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext


def check_bounds(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises TypeMismatchError at the first such access."""
    check = _Check(kernel)
    check.block(kernel.body, runs=True)
    check.finish()


class _Check:
    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.rounds: dict[Value, range] = {}  # the numbers that an index goes through, whatever the others are
        self.outside: dict[object, TypeMismatchError] = {}  # by statement: its first access that is outside
        self.useful: set[object] = set()  # the statements of which an access may be inside

    def block(self, block: Block, runs: bool) -> None:
        """`runs`: it does for sure, and is not merely a loop's body that may have no rounds."""
        for op in block.ops:
            for footprint in op.footprints():
                self.footprint(op, footprint, runs)
            self.note(op)
            for region, certain in self.certain(op, runs):
                self.block(region, certain)

    def note(self, op: Op) -> None:
        """Learn the rounds of a loop's indices, where they are numbers."""
        if isinstance(op, control.Parallel):
            self.rounds.update(zip(op.body.args, map(range, op.extents), strict=True))
        if isinstance(op, control.For):
            lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
            if None not in (lower, upper, step) and range(lower, upper, step):
                self.rounds[op.iv] = range(lower, upper, step)

    def certain(self, op: Op, runs: bool) -> list[tuple[Block, bool]]:
        """The regions whose accesses are judged, and whether they run for sure."""
        if isinstance(op, control.If) and not op.by_role:
            known = constant_of(op.condition)
            return [] if known is None else [(op.then if known else op.orelse, runs)]
        if isinstance(op, control.While):
            return [(op.before, runs)]
        if isinstance(op, control.For):
            return [(op.body, runs and self.facts.less(self.facts.affine(op.lower), self.facts.affine(op.upper)))]
        return [(region, runs) for region in op.regions]

    def finish(self) -> None:
        """Raises the error of the first statement whose accesses of tensors are all outside."""
        for statement, error in self.outside.items():
            if statement not in self.useful:
                raise error

    def footprint(self, op: Op, f: Footprint, runs: bool) -> None:
        """An access of a buffer is judged at once; one of a tensor with the others of its statement: a loop that Python
        has unrolled may go past the end in its last rounds."""
        error = self.judge(op, f, runs)
        if isinstance(f.mem.type, BufferType):
            if error is not None:
                raise error
            return
        statement: object = op.loc or op
        if error is None:
            self.useful.add(statement)
        else:
            self.outside.setdefault(statement, error)

    def judge(self, op: Op, f: Footprint, runs: bool) -> TypeMismatchError | None:
        for d, (index, extent) in enumerate(zip(f.indices, f.extents, strict=True)):
            at, size = self.facts.affine(index), self.facts.size(f.mem, d)
            if size == Affine(0) or not (runs or (at.is_constant and (size.is_constant or at.const < 0))):
                continue  # of a tensor without elements nothing is expected
            if any(isinstance(v.op, arith.Select) for v in at.atoms()):
                continue  # a place outside may be chosen on purpose: like an access under a condition
            if self.facts.nonnegative(-at - extent):
                return _error(op, f, d, self.shown(at, extent, size, above=False), _FROM_THE_START)
            if self.facts.nonnegative(at - size):
                last = f.mem.shape[d]
                hint = f"the last index is {last - 1 if isinstance(last, int) else f'{last} - 1'}"
                return _error(op, f, d, self.shown(at, extent, size, above=True), hint)
            taken = self.taken(at) if runs and isinstance(f.mem.type, BufferType) else None
            if taken is not None and (taken[0] < 0 or taken[1] + extent > size.const):
                return _partly(op, f, d, taken[0], taken[1] + extent - 1)
        return None

    def taken(self, at: Affine) -> tuple[int, int] | None:
        """The least and the greatest number that an index is, where both are for sure: a sum of indices of loops that
        run through all their rounds, each by itself."""
        low = high = at.const
        for monomial, c in at.terms.items():
            rounds = self.rounds.get(monomial[0]) if len(monomial) == 1 else None
            if rounds is None:
                return None
            low += c * (rounds[0] if c > 0 else rounds[-1])
            high += c * (rounds[-1] if c > 0 else rounds[0])
        return low, high

    def shown(self, at: Affine, extent: int, size: Affine, above: bool) -> str:
        """The index in words: a number, several, or what bounds it from the wrong side."""
        if at.is_constant:
            return f"is {at.const}" if extent == 1 else f"is {at.const} … {at.const + extent - 1}"
        if not above:
            most = self.facts.range(at + (extent - 1))[1]
            return "is always negative" if most is None else f"is {most} or less"
        least = self.facts.range(at)[0] if size.is_constant else None
        return "is never less than the size" if least is None else f"is {least} or more"


def _partly(op: Op, f: Footprint, d: int, low: int, high: int) -> TypeMismatchError:
    size = f.mem.shape[d]
    return TypeMismatchError(
        f"in dimension {d} (size {size}) of {_named(f)} the index goes from {low} to {high}",
        op.loc,
        f"a buffer has no elements outside: an `if` in front, as in `if i < {size}`, or a larger buffer",
    )


def _named(f: Footprint) -> str:
    shape = "×".join(map(str, f.mem.shape))
    kind = f"the {f.mem.type.space} buffer" if isinstance(f.mem.type, BufferType) else "the tensor"
    return f"{kind} {f.mem.name or '(unnamed)'} ({shape} {f.mem.dtype})"


_FROM_THE_START = "indices count from the start only; write shape[d] - n for the n-th from the end"


def _error(op: Op, f: Footprint, d: int, shown: str, hint: str) -> TypeMismatchError:
    verb = {"read": "reads", "write": "writes"}.get(f.kind, "accesses")
    where = f"in dimension {d} (size {f.mem.shape[d]}) the index {shown}"
    return TypeMismatchError(f"this never {verb} any element of {_named(f)}: {where}", op.loc, hint)
