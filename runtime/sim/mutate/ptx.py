"""Mutation testing of PTX: each synchronising instruction is removed, one at a time, and the mutant must be killed.

`removals` gives the mutants; `killed` runs one and says what kills it: the race model has findings, the text cannot be
executed, or the results differ. An instruction whose mutant survives under every schedule is redundant on the sizes of
that run, or the race model has a hole: either is worth a look.

    bar.sync 0;                                          (gone)
    mbarrier.try_wait.parity.shared.b64 %p, [...], 1;    setp.eq.u32 %p, 0, 0;     the wait is over at once
    @%p barrier.cluster.arrive;                          (gone, with its guard)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import SimulationError
from ..core.report import Report
from ..ptx.launch import run_ptx
from ..ptx.program import load_program
from ..ptx.syntax import Instruction, Register

# Instructions that only order things. bar.red, shfl and vote compute as well, and elect chooses.
_SYNC = re.compile(
    r"(?:bar|barrier)\.(?!red)|membar\b|fence\b"
    r"|cp\.async\.(?:bulk\.)?(?:commit_group|wait_group|wait_all)|cp\.async\.mbarrier"
    r"|wgmma\.(?:fence|commit_group|wait_group)|tcgen05\.(?:fence|commit|wait|dealloc)"
    r"|mbarrier\.(?:init|arrive|arrive_drop|expect_tx|complete_tx|try_wait|test_wait)"
)
_WAIT = re.compile(r"mbarrier\.(?:try_wait|test_wait)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text that lacks one instruction: the one at `line`, which came from `source` ("file:line")."""

    line: int
    instruction: str
    source: str | None
    text: str
    isa: str = "PTX"

    def __str__(self) -> str:
        source = "" if self.source is None else f" ({self.source})"
        return f"{self.isa} line {self.line}{source}: {self.instruction}"


def removals(text: str, entry: str) -> Iterator[Mutant]:
    """The text without each synchronising instruction of the entry and of what it calls, from the first to the last."""
    for step in load_program(text, entry).code:
        ins = step.ins
        if _SYNC.match(ins.opcode):
            yield Mutant(ins.line, ins.text, ins.source, _without(text, ins))


def place(text: str, ins: Instruction) -> tuple[int, int]:
    """Where an instruction stands, its semicolon included: from one character to before another."""
    start = sum(len(line) for line in text.splitlines(keepends=True)[: ins.line - 1])
    words = r"\s+".join(map(re.escape, ins.text.split()))
    found = re.compile(words + r"\s*;").search(text, start)
    if found is None:
        raise SimulationError(f"cannot find {ins.text!r} in the text", ins.line, ins.text)
    return found.start(), found.end()


def _without(text: str, ins: Instruction) -> str:
    """The text with the instruction's characters replaced; lines stay where they are."""
    start, end = place(text, ins)
    instead = ""
    if _WAIT.match(ins.opcode):
        done = ins.operands[0]
        assert isinstance(done, Register)
        instead = f"setp.eq.u32 {done.name}, 0, 0;"
    return text[:start] + instead + "\n" * text[start:end].count("\n") + text[end:]


SCHEDULES = (("lazy", 0), ("eager", 0), ("random", 1), ("random", 2))
Run = Callable[[str, str, int], Sequence[Any]]


def runner(
    entry: str,
    grid: Any,
    block: Any,
    args: Callable[[], Sequence[Any]],
    simulate: Callable[..., Report] = run_ptx,
    **options: Any,
) -> Run:
    """A function of (text, schedule, seed) that runs the text on fresh arguments and returns these as it leaves them.
    `args` makes the arguments; `options` are those of `simulate`. It raises SimulationError for findings."""

    def run(text: str, schedule: str, seed: int) -> Sequence[Any]:
        given = args()
        report = simulate(text, entry, grid, block, given, schedule=schedule, seed=seed, only_first=True, **options)
        report.raise_if_findings()
        return [getattr(each, "root", each) for each in given]

    return run


def redundant(
    text: str, entry: str, run: Run, candidates: Callable[[str, str], Iterator[Mutant]] = removals
) -> tuple[list[Mutant], int]:
    """The mutants that survive, and how many there are in all. Raises SimulationError if the whole text is at
    fault already."""
    expected = [run(text, schedule, seed) for schedule, seed in SCHEDULES]
    every = list(candidates(text, entry))
    return [each for each in every if killed(each, run, expected) is None], len(every)


def killed(mutant: Mutant, run: Run, expected: Sequence[Sequence[Any]]) -> str | None:
    """How the lack shows first; None if it does not. `expected`: what the whole text leaves under each schedule."""
    for (schedule, seed), want in zip(SCHEDULES, expected, strict=True):
        try:
            found = run(mutant.text, schedule, seed)
        except SimulationError as error:
            return str(error)
        if any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in zip(found, want, strict=True)):
            return f"other results ({schedule})"
    return None
