"""Mutants of every proved kernel of examples/ and mt.ops: one that the simulator finds faulty and the prover proves has
escaped. There must be none, but for faults in global memory, which the prover does not look at.

A mutant lacks one synchronising instruction, or weakens one. Each is given to the prover; what is proved is run under
the schedules of mutation testing, on the arguments of the tests; floating-point arrays that are 0 there hold small
whole numbers by chance, whose sums hang on no order. Of a large grid the first blocks run: what the prover looks at is
within one. What neither finds is to spare (EXCEPTIONS of tests/examples/test_mutations.py), or needs other sizes.

`python -m tests.proof.escapes FILE [COUNT] [--only WORDS]` takes COUNT of them, spread over all kernels (always the
same), appends what it finds to FILE as JSON, one a line, and leaves out what FILE holds already.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import minitile as mt
from minitile.driver.simulate import launch_of
from minitile.proof import Fault, Launch, Refused, prove
from minitile.runtime.sim.mutate.ptx import SCHEDULES, Mutant, Run, killed, removals, runner
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from minitile.tools.proving import launch_facts

TARGETS = ("sm_90a", "sm_80")
MOST_STATES, SECONDS = 1000, 30.0
MOST_BLOCKS = 4  # along x; as many along y where the grid has more than 16 in all


@dataclass
class Subject:
    """A kernel that is proved, and arguments of it. `expected`: what it leaves under each schedule."""

    name: str
    kernel: mt.CompiledKernel
    values: Sequence[Any]
    expected: list[Sequence[Any]] = field(default_factory=list)

    @property
    def launch(self) -> Launch:
        return launch_facts(self.kernel.launch_info)

    def mutants(self) -> Iterator[Mutant]:
        text, entry = self.kernel.asm["ptx"], self.kernel.launch_info.entry
        yield from removals(text, entry)
        yield from weaker_mutants(text, entry)

    def runner(self) -> Run:
        info, values = self.kernel.launch_info, [filled(each) for each in self.values]

        def arguments() -> Sequence[Any]:
            return launch_of(info, [v.copy() if isinstance(v, np.ndarray) else v for v in values])[1]

        x, y, z = launch_of(info, self.values)[0]
        grid = (min(x, MOST_BLOCKS), min(y, MOST_BLOCKS), z) if x * y > 16 else (x, y, z)
        return runner(info.entry, grid, info.block, arguments, dynamic_shared=info.dynamic_shared)

    def seen(self, mutant: Mutant) -> str:
        """ "" or what the simulator makes of a mutant."""
        run = self.runner()
        if not self.expected:
            self.expected = [run(self.kernel.asm["ptx"], schedule, seed) for schedule, seed in SCHEDULES]
        return killed(mutant, run, self.expected) or ""


def filled(value: Any) -> Any:
    """An array of floating-point zeros as one of whole numbers from -2 to 2 by chance, always the same; anything else
    as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "biu" or np.any(value.astype(np.float32)):
        return value
    return np.random.default_rng(0).integers(-2, 3, value.shape).astype(np.float32).astype(value.dtype)


def refusal(text: str, launch: Launch) -> str:
    """ "" for proved, or why not."""
    try:
        prove(text, launch, most_states=MOST_STATES, seconds=SECONDS)
    except Fault as found:
        return f"fault: {found}"
    except Refused as found:
        return f"refused: {found}"
    return ""


def subjects(target: str, only: str = "") -> Iterator[Subject]:
    """Kernels without clusters that are proved (outcomes.txt), each text once."""
    from tests.proof.kernels import launches
    from tests.proof.test_outcomes import listed

    texts, proved = set[str](), set(listed(target))
    for name, kernel, values in launches(target):
        text = kernel.asm["ptx"]
        if only in name and text not in texts and f"{target} | {name} | proved" in proved:
            texts.add(text)
            yield Subject(f"{target} | {name}", kernel, values)


def in_turn(found: list[tuple[Subject, Mutant]]) -> list[tuple[Subject, Mutant]]:
    """By chance, but so that of each kernel as large a part comes in each part of the list."""
    rng, order = random.Random(0), []
    each = Counter(subject.name for subject, _ in found)
    for name, count in each.items():
        places = [(n + rng.random()) / count for n in range(count)]
        rng.shuffle(places)
        order += [(at, *pair) for at, pair in zip(places, (p for p in found if p[0].name == name), strict=True)]
    return [(subject, mutant) for _, subject, mutant in sorted(order, key=lambda one: one[0])]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("file", type=Path)
    arguments.add_argument("count", type=int, nargs="?", default=1 << 30)
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    lines = given.file.read_text().splitlines() if given.file.exists() else []
    results = {tuple(each["key"]): each for each in map(json.loads, lines)}
    pairs = every(given.only)
    print(
        f"{len({subject.name for subject, _ in pairs})} proved kernels with mutants, {len(pairs)} mutants", flush=True
    )
    for subject, mutant in pairs[: given.count]:
        key = (subject.name, mutant.line, mutant.instruction)
        if key not in results:
            results[key] = found = verdicts(subject, mutant)
            with given.file.open("a") as out:
                out.write(json.dumps(found) + "\n")
            if not found["prover"]:
                print(*key, found["simulator"] or "nothing is seen", sep=" | ", flush=True)
    print(summary(list(results.values())))


def every(only: str = "") -> list[tuple[Subject, Mutant]]:
    found = [subject for target in TARGETS for subject in subjects(target, only)]
    return in_turn([(subject, mutant) for subject in found for mutant in subject.mutants()])


def verdicts(subject: Subject, mutant: Mutant) -> dict[str, Any]:
    begin = time.thread_time()
    why = refusal(mutant.text, subject.launch)
    seen = "" if why else subject.seen(mutant)
    key = (subject.name, mutant.line, mutant.instruction)
    return {"key": key, "prover": why, "simulator": seen, "seconds": round(time.thread_time() - begin, 2)}


def summary(results: list[dict[str, Any]]) -> str:
    """What the simulator says of global memory only is no escape: the prover does not look at it."""
    counts = Counter(each["prover"].partition(":")[0] or "proved" for each in results)
    seen = [each["simulator"] for each in results if each["simulator"]]
    outside = sum("global memory: " in each.splitlines()[0] for each in seen)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    escaped = f"{outside} have faults of global memory, {len(seen) - outside} escaped"
    return f"{len(results)} mutants: {said}; of the proved ones {escaped}"


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "examples"), str(root / "tests" / "examples")]
    main()
