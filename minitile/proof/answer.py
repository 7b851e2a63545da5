"""What the prover has to say of a text: proved, at fault on a run of abstract steps, or refused (docs/proof.md).

`answer` never raises for a text. A run is a fault only if numbers are found that give all its answers (witness);
what it asks of sizes is listed, so that others can look for sizes on which a simulator shows the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from minitile.proof.arithmetic.values import Affine, Predicate
from minitile.proof.certificate import certified
from minitile.proof.explore import MOST_SECONDS, MOST_STATES, Explorer
from minitile.proof.launches.witness import evaluate, witness
from minitile.proof.questions import Question
from minitile.proof.text import EVENTS, Fault, Launch, Refused, parse

Verdict = Literal["proved", "fault", "refused"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run: an instruction of a warp that synchronises, accesses shared memory or branches; or, by warp -1,
    the answer to a question."""

    warp: int
    line: int
    text: str

    def __str__(self) -> str:
        return f"warp {self.warp}, line {self.line}: {self.text}" if self.warp >= 0 else self.text


@dataclass(frozen=True)
class Asked:
    """An answer that a run was given: a question, and what it says of sizes in `holds` (None: nothing)."""

    question: Question
    yes: bool
    divisor: int = 1

    def holds(self, size_of: Callable[[Any], int | None]) -> bool | None:
        """Whether sizes give this answer; None: it is not of sizes, or not known of these."""
        if self.question.kind == "bound":
            difference = evaluate(Affine(self.question.key[1], 0), size_of)
            return None if difference is None else (difference > self.question.value * self.divisor) == self.yes
        if self.question.kind == "fact":
            truth = evaluate(self.question.key, size_of)
            return None if truth is None else bool(truth) == self.yes
        return None

    def __str__(self) -> str:
        if self.question.kind == "warp":
            number, name, lane = self.question.key
            return f"{name} of warp {number}{f', lane {lane}' * (lane >= 0)}: {'true' if self.yes else 'false'}"
        if self.question.kind == "fact":
            return f"{show(self.question.key)}: {'true' if self.yes else 'false'}"
        base = "".join(f", {show(each)} around" for each in self.question.key[0][1])
        limit = self.question.value * self.divisor
        return f"{show(Affine(self.question.key[1], 0))} {'>' if self.yes else '<='} {limit}{base}"


@dataclass(frozen=True)
class Answer:
    """What was found of a text.

    verdict: "proved", "fault" (a rule is broken on the run `steps`) or "refused" (not known, out of limits, or broken
    on a run only in which data makes warps differ, or whose answers no numbers were found to give). line, reason: why
    not proved. certificate: plain data for JSON, if proved. asked: what the run was answered; residues: of the case it
    is in.
    sizes: on which the simulator shows the fault, where they were looked for and found; `shown`: what it says.
    """

    verdict: Verdict
    name: str = ""
    line: int = 0
    reason: str = ""
    states: int = 0
    seconds: float = 0.0
    certificate: Mapping[str, Any] | None = None
    steps: tuple[Step, ...] = ()
    asked: tuple[Asked, ...] = ()
    residues: Mapping[Any, tuple[int, int]] = field(default_factory=dict)
    sizes: Mapping[str, int] | None = None
    shown: str = ""

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    def __str__(self) -> str:
        if self.verdict == "proved":
            return f"proved: {self.states} states, {self.seconds:.1f} s"
        where = f"line {self.line}: " if self.line else ""
        return f"{self.verdict}: {where}{self.reason}"


def answer(text: str, launch: Launch, *, most_states: int = MOST_STATES, seconds: float = MOST_SECONDS) -> Answer:
    """Proves the only entry of a PTX text for a launch, within so many states and seconds, or says why not."""
    try:
        proof, data = certified(text, launch, most_states=most_states, seconds=seconds)
    except Fault as fault:
        steps, asked, guessed = _replayed(text, launch, fault)
        # Else what is not known was taken to differ from warp to warp, or an access for executed, or answers for
        # independent that are not.
        sure = not guessed and not any(each.question.kind == "warp" for each in asked)
        sure = sure and witness([each.holds for each in asked], fault.residues, launch) is not None
        verdict: Verdict = "fault" if sure else "refused"
        return Answer(verdict, line=fault.line, reason=fault.reason, steps=steps, asked=asked, residues=fault.residues)
    except Refused as why:
        return Answer("refused", line=why.line, reason=why.reason)
    return Answer("proved", proof.name, states=proof.states, seconds=proof.seconds, certificate=data)


def _replayed(text: str, launch: Launch, fault: Fault) -> tuple[tuple[Step, ...], tuple[Asked, ...], bool]:
    """The run that leads to a fault, from the start, without normal forms: so that it says true numbers; and whether it
    is none for sure: it took an access for executed, or does not end in a fault, with counters as they are."""
    program = parse(text, launch)
    explorer = Explorer(program, launch, fault.together, fault.residues, 0, MOST_SECONDS)
    explorer.machine.bursts = [None] * len(program.code)  # so that each access is a step
    steps: list[Step] = []
    asked: list[Asked] = []
    state = explorer.start()

    def run() -> Question | None:
        taken: list[tuple[int, int]] = []
        try:
            question = explorer.run(state, taken)
            if question is None:
                explorer.check_end(state)
            return question
        finally:
            for warp, pc in taken:
                each = program.code[pc]
                if each.base in EVENTS or each.op.startswith("ld.shared"):
                    steps.append(Step(warp, each.line, each.text))

    try:
        for yes in fault.answers:
            question = run()
            if question is None:
                break
            divisor = explorer.machine.divisor(*question.key) if question.kind == "bound" else 1
            asked.append(Asked(question, yes, divisor))
            steps.append(Step(-1, 0, str(asked[-1])))
            state = explorer.answered(state, question, yes)
        run()
        doubtful = True
    except Refused as found:
        doubtful = not isinstance(found, Fault)
    return tuple(steps), tuple(asked), doubtful or explorer.machine.guessed


def show(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, Affine):
        terms = [(f"{c}*" if c not in (1, -1) else "-" if c < 0 else "") + show(key) for key, c in value.terms]
        return " + ".join([*terms, *([str(value.const)] if value.const or not terms else [])]).replace("+ -", "- ")
    if isinstance(value, Predicate):
        operation, *rest = value.expression
        if operation == "above":
            base, number, bound = rest
            return f"{show(Affine(base[0], number))} < {show(bound)}"
        if operation == "not":
            return f"not ({show(rest[0])})"
        kind = rest.pop(0) if operation not in ("and", "or") else ""
        sign = {"lt": "<", "eq": "="}.get(operation, operation)
        return f"{show(rest[0])} {sign} {show(rest[1])}{' (unsigned)' * (kind[:1] == 'u' and operation == 'lt')}"
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        if value[0] == "param":
            return str(value[1])
        if value[0] == "one":
            return "1"
        if value[0] == "counter":
            return f"round {show(value[1])}"
        if value[0] == "loaded":
            return f"[{show(value[2])}]"
        if value[0] == "quotient":
            return f"quotient of {show(value[1])}"
        return f"({show(value[2])} {value[0]} {show(value[3])})" if len(value) == 4 else value[0]
    return str(getattr(value, "value", value))


__all__ = ["Answer", "Asked", "Step", "answer", "show"]
