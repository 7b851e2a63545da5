"""Synchronisation that is there but not enough: what `ptx.py` does with an instruction that is gone, for one that
is weakened.

    mbarrier.arrive.release.cluster    ->  .release.cta          the scope is too narrow
                                           .relaxed.cluster      nothing is released
    fence.proxy.async.shared::cta      ->  .global               for the other memory
                                           behind the barrier    instead of in front of it
    cp.async.bulk.wait_group 0         ->  .read 0, or 1         for less
    mbarrier.init [b], 4               ->  3, or 5               a wrong count of arrivals
    expect_tx [b], 8192                ->  8176, or 8208         a wrong count of bytes
    try_wait.parity p, [b], %phase     ->  the other phase       a round of the ring too early, or too late
    bar.sync 2, 128                    ->  3, 128                another team's barrier
                                           2, 64                 half of the threads
    tcgen05.commit….multicast::cluster ->  (the own CTA)         one CTA of those that wait
    TMA….cta_group::2                  ->  .cta_group::1         onto the other CTA's mbarrier
    tcgen05.wait::ld                   ->  wait::st              for the other kind
    tcgen05.fence::before_thread_sync  ->  ::after               the other direction

A text with too strong a count never ends, or its barrier counts past its end: that is noticed as well. Lines stay where
they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ..ptx.program import load_program
from ..ptx.syntax import Instruction
from .ptx import Mutant, place

Change = Callable[[str], Iterable[str]]  # the text of an instruction to weaker ones


def _one(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Change:
    def change(text: str) -> Iterable[str]:
        weaker, count = re.subn(pattern, replacement, text, count=1)
        return [weaker] if count else []

    return change


def _last_number(*steps: int, least: int) -> Change:
    """The last operand, a number, by so much more or less."""

    def change(text: str) -> Iterable[str]:
        found = re.fullmatch(r"(.*\s)(\d+)", text, re.DOTALL)
        if found is None:
            return []
        return [f"{found[1]}{int(found[2]) + step}" for step in steps if int(found[2]) + step >= least]

    return change


def _other_phase(text: str) -> Iterable[str]:
    front, _, phase = text.rpartition(",")
    phase = phase.strip()
    if phase in ("0", "1"):
        return [f"{front}, {1 - int(phase)}"]
    return [f"{{ .reg .b32 %other_phase; xor.b32 %other_phase, {phase}, 1; {front}, %other_phase; }}"]


def _half(text: str) -> Iterable[str]:
    found = re.fullmatch(r"(.*,\s*)(\d+)", text, re.DOTALL)
    if found is None or int(found[2]) % 64:
        return []
    return [f"{found[1]}{int(found[2]) // 2}"]


_CHANGES: tuple[tuple[str, Change], ...] = (
    (r"(?:mbarrier|membar|fence\.acq_rel|fence\.sc|ld|st|atom|red)\b", _one(r"\.(cluster|gpu|gl|sys)\b", ".cta")),
    (r"mbarrier|barrier\.cluster\.arrive|ld|st|atom|red", _one(r"\.(?:release|acquire|acq_rel)\b", ".relaxed")),
    (r"fence\.proxy\.async$|fence\.proxy\.async\.shared", _one(r"async(\.shared::cta)?\b", "async.global")),
    (r"fence\.proxy\.async$|fence\.proxy\.async\.global", _one(r"async(\.global)?\b", "async.shared::cta")),
    (r"cp\.async\.bulk\.wait_group$", _one(r"wait_group\b", "wait_group.read")),
    (r"(?:cp\.async|cp\.async\.bulk|wgmma)\.wait_group", _last_number(1, least=0)),
    (r"mbarrier\.init", _last_number(-1, 1, least=1)),
    (r"mbarrier\.(?:arrive\.)?expect_tx", _last_number(-16, 16, least=0)),
    (r"mbarrier\.(?:try|test)_wait\.parity", _other_phase),
    (r"(?:bar|barrier)\.(?:sync|arrive)", _half),
    (r"tcgen05\.commit.*multicast", _one(r"\.multicast::cluster(.*\]), *\S+", r"\1")),
    (r"cp\.async\.bulk\.tensor.*cta_group::2", _one(r"\.cta_group::2", "")),
    (r"tcgen05\.wait", _one(r"wait::(ld|st)", lambda found: f"wait::{'st' if found[1] == 'ld' else 'ld'}")),
    (r"tcgen05\.fence::before", _one(r"before_thread_sync", "after_thread_sync")),
    (r"tcgen05\.fence::after", _one(r"after_thread_sync", "before_thread_sync")),
    (r"clusterlaunchcontrol\.try_cancel.*multicast", _one(r"\.multicast::cluster::all", "")),
)
_FENCE, _BARRIER = re.compile(r"fence\.proxy\.async"), re.compile(r"(?:bar|barrier)\.(?:sync|arrive|cluster\.arrive)")


def weaker_mutants(text: str, entry: str) -> Iterator[Mutant]:
    """The text with each synchronising instruction of the entry, and of what it calls, made weaker in each way."""
    code = [step.ins for step in load_program(text, entry).code]
    numbers = sorted({number for ins in code if (number := _number(ins))})
    for ins, following in zip(code, [*code[1:], None], strict=True):
        for weaker in _weaker(ins, numbers):
            yield _changed(text, ins, weaker)
        if following is not None and _FENCE.match(ins.opcode) and _BARRIER.match(following.opcode):
            first, second = place(text, ins), place(text, following)
            moved = f"{following.text}; {ins.text};"
            new = text[: first[0]] + text[first[1] : second[0]] + moved + text[second[1] :]
            yield Mutant(ins.line, f"{ins.text} -> behind {following.text}", ins.source, new)


def _weaker(ins: Instruction, numbers: list[str]) -> Iterator[str]:
    for pattern, change in _CHANGES:
        if re.match(pattern, ins.opcode):
            yield from change(ins.text)
    mine = _number(ins)
    if mine and len(numbers) > 1:
        other = numbers[(numbers.index(mine) + 1) % len(numbers)]
        yield re.sub(rf"\s{mine},", f" {other},", ins.text, count=1)


def _number(ins: Instruction) -> str:
    """The number of a named barrier; "" for other instructions, and for the barrier of all threads."""
    found = re.search(r"\b(?:bar|barrier)\.(?:sync|arrive)(?:\.aligned)?\s+(\d+),", ins.text)
    return found[1] if found and found[1] != "0" else ""


def _changed(text: str, ins: Instruction, weaker: str) -> Mutant:
    start, end = place(text, ins)
    lines = text[start:end].count("\n") - weaker.count("\n")
    stop = "" if weaker.endswith("}") else ";"
    new = f"{text[:start]}{weaker}{stop}" + "\n" * lines + text[end:]
    return Mutant(ins.line, f"{ins.text} -> {weaker}", ins.source, new)
