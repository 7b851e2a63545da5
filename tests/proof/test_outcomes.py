"""What is found of kernels of examples/ and mt.ops, for sm_90a and sm_80 without clusters: outcomes.txt.

`python -m tests.proof.test_outcomes [TARGET…] [--only WORDS]` prints the list anew, and to stderr how long each proof
and its check took, with the median and the worst at the end. WORDS: only of kernels whose names have them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

OUTCOMES = Path(__file__).parent / "outcomes.txt"
TARGETS = ("sm_90a", "sm_80")
MOST_STATES = 1000


@dataclass(frozen=True)
class Outcome:
    """What is found of a kernel; `prove`, `check`: seconds of this thread (`check` is 0 if it is not proved)."""

    target: str
    name: str
    verdict: str
    reason: str
    states: int
    prove: float
    check: float

    def __str__(self) -> str:
        """The line of the list. Names of registers and labels are left out: they change with the compiler."""
        reason = re.sub(r"[%$]\w+", lambda name: f"{name[0][0]}…", self.reason)
        return f"{self.target} | {self.name} | {self.verdict}{f': {reason}' * bool(reason)}"


def outcomes(target: str, only: str = "") -> Iterator[Outcome]:
    from minitile.proof import answer, check
    from minitile.tools.proving import launch_facts
    from tests.proof.kernels import kernels

    for name, kernel in kernels(target):
        if only not in name:
            continue
        text, launch = kernel.asm["ptx"], launch_facts(kernel.launch_info)
        begin = time.thread_time()
        found = answer(text, launch, most_states=MOST_STATES, seconds=120.0)
        proved = time.thread_time()
        if found.certificate is not None:
            check(found.certificate, text, launch)
        checked = time.thread_time() - proved if found else 0.0
        yield Outcome(target, name, found.verdict, found.reason, found.states, proved - begin, checked)


def summary(found: list[Outcome]) -> str:
    """How many are proved, and the median and the worst of the seconds."""
    proved = [each for each in found if each.verdict == "proved"]
    counts = ", ".join(f"{n} {v}" for v in ("proved", "fault", "refused") if (n := sum(v == e.verdict for e in found)))
    lines = [f"{counts} of {len(found)} ({len(proved) / max(len(found), 1):.1%})"]
    for what in ("prove", "check"):
        worst = max(proved, key=lambda each: getattr(each, what), default=None)
        if worst:
            middle = median(getattr(each, what) for each in proved)
            lines.append(f"{what}: median {middle:.2f} s, worst {getattr(worst, what):.2f} s ({worst.name})")
    return "\n".join(lines)


def listed(target: str) -> list[str]:
    return [line for line in OUTCOMES.read_text().splitlines() if line.startswith(f"{target} |")]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel(target):
    assert listed(target) == [str(each) for each in outcomes(target)]


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_list_says(target):
    """Most are proved; none is called faulty, since none is."""
    lines = listed(target)
    proved = [line for line in lines if line.endswith("| proved")]
    assert len(lines) >= 90
    assert len(proved) >= 0.95 * len(lines)
    assert [line for line in lines if "| fault" in line] == []
    assert [line for line in lines if re.search(r"%\w", line)] == []


def test_a_line_of_the_list_names_no_registers():
    """So that it stays when a compiler numbers them anew."""
    reason = "a loop that is not counted: @%p96 bra $L_while0"
    line = str(Outcome("sm_80", "top_k", "refused", reason, 0, 0.0, 0.0))
    assert line == "sm_80 | top_k | refused: a loop that is not counted: @%… bra $…"


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "examples"), str(root / "tests" / "examples")]
    arguments = argparse.ArgumentParser()
    arguments.add_argument("targets", nargs="*", default=TARGETS)
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    every: list[Outcome] = []
    for target in given.targets:
        for each in outcomes(target, given.only):
            every.append(each)
            print(each, flush=True)
            print(f"  {each.states} states, {each.prove:.2f} s, check {each.check:.2f} s", file=sys.stderr, flush=True)
    print(summary(every), file=sys.stderr)
