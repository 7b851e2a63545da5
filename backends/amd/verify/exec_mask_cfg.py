"""The paths of an assembly text that a wave can take: branches on masks go one way where the mask is known.

LLVM makes one branch of the structured `if … else …` into two, of which the second asks again what the first one knew:
for a constant that each way has put in a register, or, after SIPreEmitPeephole, for whether the wave has any lane.
Who follows each branch both ways sees an if of which neither side runs.

    s_cbranch_vccz .M                             s_mov_b64 s[0:1], -1
    …                                             s_branch .M
    .M:                                           …
    s_cbranch_execz .N     never: exec has a      s_mov_b64 s[0:1], 0
    …                      lane since the start   .M:
                                                  s_and_b64 vcc, exec, s[0:1]
                                                  s_cbranch_vccz .N           taken from one of the two ways only

A path is a run of instructions without a branch, with what is known of the masks (exec, vcc, pairs of scalar registers)
at its start; the same instructions stand in as many paths as there are ways to know something else. A kernel begins
with a lane; s_and_saveexec_b64 keeps the mask from before, and s_or_b64 exec, exec brings it back, also from the lanes
that an if leaves out: s_xor_b64 of exec and that mask. A register that anything else writes is unknown, so what is said
of a mask holds.

Source: "CDNA 3" Instruction Set Architecture, 5 (S_AND_SAVEEXEC, S_CBRANCH_EXECZ); LLVM 22, SIPreEmitPeephole.cpp.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

Facts = frozenset[str]  # of a mask
ALL, NONE, SOME = frozenset({"all", "some"}), frozenset({"none"}), frozenset({"some"})
REST = frozenset({"rest"})  # it or exec has a lane, as long as exec stays
UNKNOWN: Facts = frozenset()
Known = frozenset[tuple[str, str]]  # (mask, fact)

_WAYS = 64  # so many sets of facts are told apart at a place; further ones are joined

_LABEL = re.compile(r"^(\.?\w+):")
_BRANCH = re.compile(r"^\s+s_(c?)branch(?:_(\w+))?\s+(\S+)")
_WRITER = re.compile(r"^\s+([sv]_\w+)\s+([^;]*)")
_SCALAR = re.compile(r"\bs(\d+)\b|\bs\[(\d+):(\d+)\]|\b(exec|vcc)(?:_lo|_hi)?\b")
_ON_MASK = re.compile(r"(exec|vcc)(n?)z")


@dataclass(slots=True)
class Path:
    """Lines [start, stop), of which only the last may be a branch; the numbers of the paths that may follow."""

    start: int
    stop: int
    following: list[int] = field(default_factory=list)


def paths(lines: list[str]) -> list[Path]:
    """All that can be reached from the first line, which begins the first path."""
    labels = {match.group(1): n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    branches = {n: match for n, line in enumerate(lines) if (match := _BRANCH.match(line))}
    ends = {n for n, line in enumerate(lines) if line.lstrip().startswith("s_endpgm")}
    starts = sorted({0, *labels.values(), *(n + 1 for n in (*branches, *ends)), len(lines)})
    stops = dict(pairwise(starts))
    found: list[Path] = []
    numbers: dict[tuple[int, Known], int] = {}
    joined: dict[int, list[Known]] = {}  # the sets of facts at each start; the last one of many is what they share
    pending: list[tuple[int, Known]] = []

    def number_of(start: int, known: Known) -> int:
        here = joined.setdefault(start, [])
        if known not in here and len(here) >= _WAYS:
            known = here[-1] & known
        if (start, known) not in numbers:
            numbers[start, known] = len(found)
            found.append(Path(start, stops[start]))
            pending.append((start, known))
        here[:] = [*(other for other in here if other != known), known]
        return numbers[start, known]

    number_of(0, frozenset({("exec", "some")}))
    while pending:
        start, known = pending.pop()
        path = found[numbers[start, known]]
        last = path.stop - 1
        for line in lines[start : path.stop]:
            known = after(line, known)
        if last in ends:
            continue
        for to, then in _ways(branches.get(last), known, labels, path.stop):
            if to < len(lines):
                path.following.append(number_of(to, then))
    return found


def _ways(
    branch: re.Match[str] | None, known: Known, labels: dict[str, int], following: int
) -> Iterator[tuple[int, Known]]:
    """Where the program may go on, and what is known there."""
    if branch is None:
        yield following, known
        return
    target = labels[branch.group(3)]
    asked = _ON_MASK.fullmatch(branch.group(2) or "")
    if asked is None:
        yield target, known
        if branch.group(1):
            yield following, known
        return
    mask, taken = asked.group(1), SOME if asked.group(2) else NONE
    facts, other = _of(mask, known), NONE if taken == SOME else SOME
    if not other <= facts:
        yield target, known | {(mask, fact) for fact in taken}
    if not taken <= facts:
        yield following, known | {(mask, fact) for fact in other}


def after(line: str, known: Known) -> Known:
    """What is known after an instruction. Scalar instructions write their first operand, vector ones at most their
    first two; v_cmpx and wrexec write exec as well."""
    writer = _writer(line)
    if writer is None:
        return known
    name, operands, written = writer
    result = UNKNOWN
    if name.endswith("_b64"):
        sources = [_of(operand, known) for operand in operands[1:]]
        result = _result(name, sources, _of("exec", known))
        if "exec" in operands[1:]:
            result |= _with_exec(name, frozenset().union(*sources))
    kept = frozenset(one for one in known if not written & _registers(one[0]))
    if "exec" in written:  # what was said together with it
        result -= REST
        kept = frozenset(one for one in kept if one[1] not in REST)
    return kept | {(operands[0], fact) for fact in result}


@functools.lru_cache(maxsize=1 << 12)
def _writer(line: str) -> tuple[str, list[str], frozenset[str]] | None:
    """The name, the operands, and the scalar registers that it writes, of an instruction that writes any."""
    match = _WRITER.match(line)
    if match is None:
        return None
    name, operands = match.group(1), [part.strip() for part in match.group(2).split(",")]
    written = {r for part in operands[: 1 if name[0] == "s" else 2] for r in _registers(part)}
    if "saveexec" in name or "wrexec" in name or name.startswith("v_cmpx"):
        written.add("exec")
    return (name, operands, frozenset(written)) if written else None


def _result(name: str, sources: list[Facts], lanes: Facts) -> Facts:
    """What is known of the first operand of an instruction on masks."""
    if name.endswith("_saveexec_b64"):
        return lanes
    if name == "s_mov_b64":
        return sources[0]
    if name not in ("s_or_b64", "s_and_b64", "s_andn2_b64", "s_xor_b64"):
        return UNKNOWN
    a, b = sources
    if name == "s_or_b64":
        return b if a == NONE else a if b == NONE else (a | b) & ALL
    if name == "s_xor_b64":
        return b if a == NONE else a if b == NONE else _not(a) if b == ALL else UNKNOWN
    if name == "s_andn2_b64":
        b = _not(b)
    if NONE in (a, b):
        return NONE
    return a if b == ALL else b if a == ALL else UNKNOWN


def _with_exec(name: str, facts: Facts) -> Facts:
    """The same where exec is one of the sources: of `exec ^ x` and exec one has each lane of x."""
    if name == "s_xor_b64" and facts >= SOME:
        return REST
    return SOME if name == "s_or_b64" and facts >= REST else UNKNOWN


def _not(facts: Facts) -> Facts:
    return ALL if facts == NONE else NONE if facts == ALL else UNKNOWN


def _of(operand: str, known: Known) -> Facts:
    constant = {"-1": ALL, "0": NONE}.get(operand)
    return frozenset(fact for mask, fact in known if mask == operand) if constant is None else constant


@functools.lru_cache(maxsize=1 << 10)
def _registers(operand: str) -> frozenset[str]:
    found: set[str] = set()
    for one, first, last, name in _SCALAR.findall(operand):
        found |= {name} if name else {f"s{n}" for n in range(int(first or one), int(last or one) + 1)}
    return frozenset(found)
