"""The user's own schedule of a loop (`order`, `stage`, `group` of T.Pipelined), brought to the IR.

While the loop's body is traced, a `statement` goes in front of what each statement of the program emits into it. At the
end the marks of statements that do nothing by themselves (they compute scalars, which are computed wherever they are
needed) go away, and the others get the number of their entry in the loop's `order` and `stage_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minitile.ir.core import Block, Op, Value
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import control
from minitile.language.tracing.context import Trace
from minitile.language.tracing.loops import Schedule


class Marks:
    """The marks in the body of the loop that is being traced. `owner` is who executes the loop's own statements: what
    others execute is in functions that these call."""

    def __init__(self, block: Block, owner: object) -> None:
        self.block, self.owner = block, owner
        self.outer: dict[Op, Op] = {}  # a mark -> itself, or the one of the loop's own statement that called

    def mark(self, trace: Trace, who: object) -> None:
        """A statement begins, executed by `who`."""
        if trace.b.block is self.block:
            mark = trace.b.emit(control.Statement(len(self.outer)))
            called = who is not self.owner and self.outer
            self.outer[mark] = self.outer[next(reversed(self.outer))] if called else mark

    def finish(self, schedule: Schedule, loc: Location | None) -> None:
        """Give the marks the numbers of their entries. Raises LanguageError where the schedule has more or fewer
        entries than the body has statements."""
        acting = self._acting()
        calls = list(dict.fromkeys(self.outer[m] for m in acting))
        groups = schedule.groups or tuple((n,) for n in range(len(schedule.order)))
        numbers = sorted(n for group in groups for n in group)
        if numbers != list(range(len(numbers))):
            raise LanguageError(
                f"group has the statements {numbers}", loc, "each statement's number, counted from 0, once"
            )
        if len(numbers) == len(acting):
            entry = dict(zip(acting, range(len(acting)), strict=True))
        elif len(numbers) == len(calls):
            entry = {m: calls.index(self.outer[m]) for m in acting}
        else:
            lines = ", ".join(str(m.loc.line) for m in acting if m.loc is not None)
            raise LanguageError(
                f"order and stage are for {_statements(len(numbers))}; the loop has {len(acting)}, at line {lines}",
                loc,
                "one entry for each statement, or for each group of them with group=[[0], [1, 2], …]; "
                "what only computes scalars is none",
            )
        group_of = {n: g for g, group in enumerate(groups) for n in group}
        for mark, n in entry.items():
            mark.number = group_of[n]
        self.block.ops = [op for op in self.block.ops if op not in self.outer or op in entry]

    def _acting(self) -> list[control.Statement]:
        """The marks behind which, up to the next one, something is done besides computing scalars."""
        written = {a.mem for op in self.block.walk() for a in op.accesses() if a.writes}
        found: dict[control.Statement, None] = {}
        at: control.Statement | None = None
        for op in self.block.ops:
            if isinstance(op, control.Statement):
                at = op
            elif at is not None and any(_acts(inner, written) for inner in op.walk()):
                found[at] = None
        return list(found)


def _acts(op: Op, written: set[Value | None]) -> bool:
    if op.pure or op.terminator or op.region_fields:
        return False
    accesses = op.accesses()
    if not accesses:
        return not op.results  # an allocation does nothing
    return any(a.writes or a.mem in written or a.mem is None for a in accesses)


def _statements(count: int) -> str:
    return "1 statement" if count == 1 else f"{count} statements"


@contextmanager
def marking(trace: Trace, block: Block, owner: object, schedule: Schedule | None) -> Iterator[Marks | None]:
    """Mark the statements of a loop's body while it is traced, where the loop has a schedule of its own."""
    if schedule is None:
        yield None
        return
    if trace.marks is not None:
        raise trace.error("a loop with order and stage in another one", "give the inner loop a schedule only")
    trace.marks = Marks(block, owner)
    try:
        yield trace.marks
    finally:
        trace.marks = None
