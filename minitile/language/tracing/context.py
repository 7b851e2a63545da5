"""The trace in progress: where operations go, and what surrounds the statement being traced.

One `Trace` exists while a kernel function runs. The T.* functions and the operators of staged values reach it through
`current()`; there is one per thread of the host, so that kernels may be traced concurrently.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import control

MOST_ROUNDS = 300_000  # of loops at compile time
MOST_OPS = 100_000  # of a kernel as it is traced

_local = threading.local()


@dataclass(eq=False)
class ControlRegion:
    """A stretch of the program under run-time control: a loop's body or a branch. `what` names it in errors."""

    what: str
    loc: Location | None


@dataclass(eq=False)
class Trace:
    """What tracing one kernel knows.

    launch      the launch being traced; None outside `T.Kernel`
    block       its threads in x, y, z
    launched    a `T.Kernel` has been traced already
    only        of several `T.Kernel` the number of the one that is traced; None: there may be one alone
    launches    how many `T.Kernel` the function came to so far
    tensors     those of the signature by name
    constants   the compile-time parameters by name
    parallel    nesting depth of T.Parallel
    control     the run-time loops and branches around the current statement, outermost first
    created     Python containers made under run-time control, by id: (the container, its innermost region)
    returns     conditions of the kernel's early returns, which must be uniform
    dims        run-time dimensions by name
    attrs       becomes the kernel's attrs
    evictions   of a tensor's lines from L2, where the program says which go first or last
    all_reduces of reductions over the cluster, by what a block sends: the buffer, and what counts them
    rounds      of loops that Python runs, so far
    made        the tensors of T.empty and views of tensors; sizes: of their dimensions that are computed, by name
    views       the tensors that views are of
    random      each thread's own seed, sequence and place in it (T.rng_init), once there are some
    copies      of single threads, of which it is not known yet at which barriers they arrive
    marks       of the statements of the loop with a schedule of its own that is being traced (`schedule.py`)
    """

    b: Builder
    dims: dict[str, Value] = field(default_factory=dict)
    launch: control.Launch | None = None
    block: tuple[int, int, int] = (1, 1, 1)
    launched: bool = False
    only: int | None = None
    launches: int = 0
    tensors: dict[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    parallel: int = 0
    control: list[ControlRegion] = field(default_factory=list)
    created: dict[int, tuple[Any, ControlRegion | None]] = field(default_factory=dict)
    returns: list[tuple[Value, Location | None]] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    evictions: dict[Value, str] = field(default_factory=dict)
    all_reduces: dict[Any, tuple[Value, Value]] = field(default_factory=dict)
    made: list[Value] = field(default_factory=list)
    views: dict[Value, Value] = field(default_factory=dict)
    sizes: dict[str, Value] = field(default_factory=dict)
    rounds: int = 0
    random: Any = None
    marks: Any = None
    copies: list[Any] = field(default_factory=list)

    @property
    def loc(self) -> Location | None:
        return self.b.loc

    @property
    def region(self) -> ControlRegion | None:
        """The innermost run-time loop or branch."""
        return self.control[-1] if self.control else None

    @contextmanager
    def within(self, block: Block, what: str) -> Iterator[Block]:
        """Trace into `block`, a region under run-time control."""
        region = ControlRegion(what, self.b.loc)
        self.control.append(region)
        try:
            with self.b.inside(block):
                yield block
        finally:
            self.control.pop()

    @contextmanager
    def one_statement(self) -> Iterator[None]:
        """What is traced inside counts as one statement of a loop with a schedule."""
        marks, self.marks = self.marks, None
        try:
            yield
        finally:
            self.marks = marks

    def count_round(self) -> str:
        """One more round of a loop that Python runs. What is wrong when that is one too many: loops may be in loops,
        and a kernel too large to be compiled in minutes is a mistake."""
        self.rounds += 1
        if self.rounds > MOST_ROUNDS:
            return f"loops at compile time with more than {MOST_ROUNDS} iterations in all"
        return f"a kernel of more than {MOST_OPS} operations" if self.b.emitted > MOST_OPS else ""

    def error(self, message: str, hint: str = "") -> LanguageError:
        return LanguageError(message, self.b.loc, hint)


def current() -> Trace:
    """The trace in progress; LanguageError when there is none."""
    trace = active()
    if trace is None:
        raise LanguageError(
            "this has a meaning only while a kernel is traced", hint="call it inside a function marked @mt.kernel"
        )
    return trace


def active() -> Trace | None:
    return cast("Trace | None", getattr(_local, "trace", None))


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    outer = active()
    _local.trace = trace
    try:
        yield trace
    finally:
        _local.trace = outer
