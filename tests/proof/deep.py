"""Deep faults: one synchronising instruction of a loop is missing from round n on, or in round n only.

`python -m tests.proof.deep` says what the prover and the simulator, at the tests' sizes, make of each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitile.proof import Launch
from minitile.proof.text import Instruction, Loop, Program, is_wait, parse

SYNCHRONISE = (
    *("mbarrier.arrive", "mbarrier.try_wait", "wgmma.wait_group", "wgmma.commit_group", "fence.proxy", "bar."),
    *("cp.async.wait_group", "cp.async.commit_group", "cp.async.bulk.wait_group", "cp.async.bulk.commit_group"),
)


@dataclass(frozen=True)
class Deep:
    """A text in which `what` is missing."""

    what: str
    text: str


def deep_faults(text: str, launch: Launch, rounds: tuple[int, ...]) -> Iterator[Deep]:
    """Each instruction of an innermost loop that synchronises, missing from one of these rounds on, or in it only."""
    program = parse(text, launch)
    for each in program.code:
        around = [loop for loop in program.loops if loop.head <= each.pc <= loop.back]
        if around and each.op.startswith(SYNCHRONISE):
            loop = min(around, key=lambda loop: loop.back - loop.head)
            for n in (n for n in rounds if n < most_rounds(program, loop)):
                for test, how in (("ge", "from round {} on"), ("eq", "in round {} only")):
                    what = f"line {each.line}, {each.op}, missing {how.format(n)}"
                    yield Deep(what, _without(text, program.code, each, f"setp.{test}.s32 %late, {loop.counter}, {n};"))


def most_rounds(program: Program, loop: Loop) -> float:
    """How many rounds a loop has at most: its bound may be a minimum with a constant."""
    bound = next((each for each in program.code if loop.bound in each.writes), None)
    constants = [int(arg) for arg in bound.args[1:] if arg.isdigit()] if bound and bound.base == "min" else []
    return min(constants, default=math.inf)


def residue_faults(text: str, launch: Launch, modulus: int, residue: int) -> Iterator[Deep]:
    """The same from round 5 on, in launches only whose number of rounds has this residue."""
    program = parse(text, launch)
    for each in program.code:
        around = [loop for loop in program.loops if loop.head <= each.pc <= loop.back]
        if around and each.op.startswith(SYNCHRONISE):
            loop = min(around, key=lambda loop: loop.back - loop.head)
            test = f"rem.s32 %class, {loop.bound}, {modulus};\n  setp.eq.s32 %late, %class, {residue};\n"
            test += f"  setp.ge.s32 %later, {loop.counter}, 5;\n  and.pred %late, %late, %later;"
            what = f"line {each.line}, {each.op}, missing from round 5 on of {residue} modulo {modulus}"
            yield Deep(what, _without(text, program.code, each, test))


def tile_faults(text: str, launch: Launch, start: str, third: int) -> Iterator[Deep]:
    """Each instruction that synchronises, in a loop over tiles or in a loop within, missing from the tile on that
    comes `third` behind the register `start`."""
    program = parse(text, launch)
    for each in program.code:
        around = [loop for loop in program.loops if loop.head <= each.pc <= loop.back]
        if around and each.op.startswith(SYNCHRONISE):
            loop = max(around, key=lambda loop: loop.back - loop.head)
            test = f"add.s32 %class, {start}, {third};\n  setp.ge.s32 %late, {loop.counter}, %class;"
            yield Deep(
                f"line {each.line}, {each.op}, missing from the third tile on", _without(text, program.code, each, test)
            )


def _without(text: str, code: tuple[Instruction, ...], each: Instruction, test: str) -> str:
    lines = text.splitlines()
    at, last = each.line - 1, each.line - 1
    if is_wait(code, each.pc):
        at, last = code[each.pc].line - 2, code[each.pc + 1].line - 1  # from its label to its branch
        assert lines[at].endswith(":")
    lines[last] += "\n$L_late:"
    lines[at] = f"  {test}\n  @%late bra.uni $L_late;\n{lines[at]}"
    first = next(n for n, line in enumerate(lines) if line.strip() == "{")
    lines[first] += "\n  .reg .pred %late, %later;\n  .reg .b32 %class;"
    return "\n".join(lines) + "\n"


KERNELS = {
    ("sm_90a", "gemm"): (5, 7),
    ("sm_90a", "gemm, 2 stages, wide"): (6, 7),
    ("sm_90a", "gemm, 4 stages"): (6, 7),
    ("sm_90a", "attention"): (5, 7),
    ("sm_80", "gemm"): (5, 7),
    ("sm_90a, one role", "gemm"): (5, 7),
}
STEPS = {"gemm": (6, 1), "gemm, 2 stages, wide": (4, 3), "gemm, 4 stages": (8, 5)}  # modulus, residue


def every() -> Iterator[tuple[tuple[str, str], Any, list[Any], Deep, Launch]]:
    from tests.examples.mutation_cases import CASES, MANY, compiled_case
    from tests.proof.test_examples import text_and_launch

    for (target, name), rounds in KERNELS.items():
        text, launch = text_and_launch(name, target)
        kernel, values = compiled_case({**CASES, **MANY}[name], target)
        found = [*deep_faults(text, launch, rounds)]
        found += residue_faults(text, launch, *STEPS[name]) if target == "sm_90a" and name in STEPS else []
        for deep in found:
            yield (target, name), kernel, values, deep, launch
    text, launch = text_and_launch("gemm_persistent", "sm_90a")
    kernel, values = compiled_case({**CASES, **MANY}["gemm_persistent"], "sm_90a")
    for deep in tile_faults(text, launch, "%block", 4):
        yield ("sm_90a", "gemm_persistent"), kernel, values, deep, launch


def main() -> None:
    from minitile.driver.simulate import SimulationError, simulate
    from minitile.proof import answer

    total = {"proved": 0, "fault": 0, "refused": 0, "simulator": 0}
    for key, kernel, values, deep, launch in every():
        found = answer(deep.text, launch, most_states=1500)
        seen = ""
        for schedule in ("lazy", "random"):
            given = [value.copy() if hasattr(value, "copy") else value for value in values]
            try:
                simulate(kernel.launch_info, deep.text, given, schedule, 1)
            except SimulationError as error:
                seen = str(error).splitlines()[0]
        total[found.verdict] += 1
        total["simulator"] += bool(seen)
        print(*key, deep.what, found, f"simulator: {seen or 'nothing'}", sep=" | ", flush=True)
    print(total)


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "examples"), str(root / "tests" / "examples")]
    main()
