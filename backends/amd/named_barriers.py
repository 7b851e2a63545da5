"""Barriers with numbers, which CDNA has not: its s_barrier is one for all waves of the block, wherever they stand.

    if %t < 256 {                                  if %t < 256 {
      store %S ; numbered_barrier 3 ; load %S        store %S ; numbered_barrier 3 ; load %S
    }                                        →     } else {
                                                     numbered_barrier 3
                                                   }

An s_barrier counts waves, not places: those on the other side of a branch come to one of their own. So each side
gets, in loops as the other one has them, as many barriers as stand there. Where both sides name a barrier they meet
there, and must have the same ones already. More threads meet than the program asked for, never fewer; the number is
dropped when the barrier is written.

Source: "CDNA 3" Instruction Set Architecture, chapter "Program Flow Control" (S_BARRIER).
"""

from __future__ import annotations

from collections.abc import Iterator

from minitile.analysis.affine import Facts
from minitile.analysis.disjoint import Threads, in_whole_groups
from minitile.hardware import Target
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import Location, TargetError
from minitile.ir.ops import control, explicit
from minitile.ir.rewrite import clone, made_inside

_HINT = "meet in `if`s on the thread's index and in loops of as many rounds for all threads, or at T.sync_threads()"


def pair_barriers(kernel: Kernel, target: Target) -> None:
    """Rewrites the kernel in place. Raises TargetError where the other threads' barriers cannot be known."""
    if _numbers(kernel.body):
        _Pairs(kernel, target).block(kernel.body)


def _numbers(block: Block) -> list[int]:
    return [op.id for op in block.walk() if isinstance(op, explicit.NumberedBarrier)]


class _Pairs:
    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.target = target
        self.facts = Facts(kernel)
        self.threads = Threads(kernel, self.facts)
        taken = {*_numbers(kernel.body)}
        self.free = next((n for n in range(16) if n not in taken), None)

    def fail(self, why: str, loc: Location | None) -> TargetError:
        return TargetError(f"{self.target} has one barrier for all threads of a block, and {why}", loc, _HINT)

    def block(self, block: Block) -> None:
        """Inner branches first, so that both sides of each have as many barriers."""
        for op in block.ops:
            if not any(_numbers(region) for region in op.regions):
                continue
            for region in op.regions:
                self.block(region)
            if isinstance(op, control.If):
                if not self.facts.uniform(op.condition):
                    self.pair(op)
            elif isinstance(op, control.Structured) and not all(map(self.facts.uniform, op.decides())):
                raise self.fail("this loop, around a barrier with a number, has its own rounds in each thread", op.loc)

    def pair(self, op: control.If) -> None:
        takes = self.threads.exactly(op.condition)
        if takes is None:
            raise self.fail(
                "which threads come to the one with a number in here depends on more than the thread's index", op.loc
            )
        if not in_whole_groups(takes, self.target.lanes):
            raise self.fail(f"a part of a wave of {self.target.lanes} comes to the one with a number in here", op.loc)
        then, orelse = (set(_numbers(region)) - {self.free} for region in op.regions)
        if then & orelse:
            if _shape(op.then) != _shape(op.orelse):
                raise self.fail("the two sides of this branch come to it at different times", op.loc)
            return
        sides = [list(self.outline(region, made_inside(op))) for region in op.regions]
        for region, other in zip(op.regions, reversed(sides), strict=True):
            end = [region.ops.pop()] if region.terminator is not None else []
            region.ops += [*other, *end]

    def outline(self, block: Block, inside: set[Value]) -> Iterator[Op]:
        """The barriers of a block, in the loops and branches that they stand in."""
        for op in block.ops:
            if isinstance(op, explicit.NumberedBarrier):
                number = op.id if self.free is None else self.free
                copy: Op = explicit.NumberedBarrier(number, self.threads.count)
                copy.loc, copy.why = op.loc, op.why
                yield copy
            elif any(_numbers(region) for region in op.regions):
                if isinstance(op, control.If) and not self.facts.uniform(op.condition):
                    yield from self.outline(op.then, inside)  # the other side has as many
                    continue
                made: list[Op] = []
                if isinstance(op, control.If):
                    condition = self.outside(op.condition, inside, made, op)
                    copy = control.If(condition, then=self.body(op.then, inside), orelse=self.body(op.orelse, inside))
                elif isinstance(op, control.For):
                    body = Block()
                    body.add_arg(op.iv.type, op.iv.name)
                    body.ops = self.body(op.body, inside).ops
                    bounds = [self.outside(v, inside, made, op) for v in (op.lower, op.upper, op.step)]
                    copy = control.For(*bounds, (), kind=op.kind, body=body)
                else:
                    raise self.fail("how often this loop comes to it is known inside of the branch alone", op.loc)
                copy.loc = op.loc
                yield from made
                yield copy

    def outside(self, value: Value, inside: set[Value], made: list[Op], user: Op) -> Value:
        """A value as it is known on the other side of the branch: computed again by operations put into `made`."""
        if value not in inside:
            return value
        op = value.op
        if op is None or not op.pure or op.regions:
            raise self.fail("how often this comes to it is known inside of the branch alone", user.loc)
        new = clone(op, {v: self.outside(v, inside, made, user) for v in op.operands})
        made.append(new)
        return new.results[value.index]

    def body(self, block: Block, inside: set[Value]) -> Block:
        found = Block()
        found.ops = [*self.outline(block, inside), control.Yield(())]
        return found


def _shape(block: Block) -> list[object]:
    """What two sides have in common that come to the same barriers."""
    found: list[object] = []
    for op in block.ops:
        if isinstance(op, explicit.NumberedBarrier):
            found.append(op.id)
        elif any(_numbers(region) for region in op.regions):
            assert isinstance(op, control.Structured)
            found.append((type(op), *map(_said, op.decides()), *(tuple(_shape(region)) for region in op.regions)))
    return found


def _said(value: Value) -> object:
    """Of two values that are the same one or the same number: the same."""
    number = constant_of(value)
    return value if number is None else number
