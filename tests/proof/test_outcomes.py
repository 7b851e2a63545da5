"""What is found of kernels of examples/ and mt.ops, for sm_90a and sm_80 without clusters: outcomes.txt.

`python -m tests.proof.test_outcomes [TARGET…]` prints the list anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OUTCOMES = Path(__file__).parent / "outcomes.txt"
TARGETS = ("sm_90a", "sm_80")
MOST_STATES = 1000


def outcomes(target: str) -> Iterator[str]:
    """A line for each kernel: target, name, and "proved" or the verdict with its reason."""
    from minitile.proof import answer
    from minitile.tools.proving import launch_facts
    from tests.proof.kernels import kernels

    for name, kernel in kernels(target):
        found = answer(kernel.asm["ptx"], launch_facts(kernel.launch_info), most_states=MOST_STATES, seconds=120.0)
        said = found.verdict if found else f"{found.verdict}: {found.reason}"
        yield f"{target} | {name} | {said}"


def listed(target: str) -> list[str]:
    return [line for line in OUTCOMES.read_text().splitlines() if line.startswith(f"{target} |")]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel(target):
    assert set(listed(target)) <= set(outcomes(target))


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_list_says(target):
    """Most are proved; none is called faulty, since none is."""
    lines = listed(target)
    proved = [line for line in lines if line.endswith("| proved")]
    assert len(lines) >= 60
    assert len(proved) >= 0.92 * len(lines)
    assert [line for line in lines if "| fault" in line] == []


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "examples"), str(root / "tests" / "examples")]
    for each in sys.argv[1:] or TARGETS:
        for line in outcomes(each):
            print(line, flush=True)
