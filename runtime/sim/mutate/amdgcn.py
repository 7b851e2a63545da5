"""Which waits, barriers and wait states of an AMD text are needed: each is taken away or weakened in turn.

The counterpart of ptx.py for GCN; its `redundant` and `killed` do the rest. A counter of an s_waitcnt
goes as a whole; s_nop keeps one wait state fewer.

    s_waitcnt vmcnt(0) lgkmcnt(0)      s_waitcnt lgkmcnt(0), and s_waitcnt vmcnt(0)
    s_barrier                          (gone)
    s_nop 3                            s_nop 2
    buffer_wbl2 sc1, buffer_inv sc1    (gone)

`idle` are those waits that find nothing to wait for, on any path: they do no harm, and are needed as soon as LLVM moves
what stands before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..amdgcn.instructions.control import counters
from ..amdgcn.program import load_program
from ..amdgcn.syntax import Instruction, Literal, Word
from ..amdgcn.units import LDS, SMEM, VMEM, WAIT, unit_of
from .ptx import Mutant

_COUNTER = re.compile(r"\b(?:vmcnt|lgkmcnt)\(\w+\)")


def removals(text: str, entry: str) -> Iterator[Mutant]:
    """The text with each synchronising instruction of the kernel missing or weaker, from the first to the last."""
    lines = text.splitlines(keepends=True)
    for step in load_program(text, entry).code:
        ins = step.ins
        for what, instead in _weaker(ins):
            start = "".join(lines[: ins.line - 1])
            yield Mutant(ins.line, what, ins.source, f"{start}{instead}\n{''.join(lines[ins.line :])}", "GCN")


def _weaker(ins: Instruction) -> Iterator[tuple[str, str]]:
    """(what is taken away, the line that stands instead)."""
    if ins.name in ("s_barrier", "buffer_wbl2", "buffer_inv"):
        yield ins.text, ""
    elif ins.name == "s_waitcnt":
        word = ins.operands[0]
        assert isinstance(word, Word)
        counters = _COUNTER.findall(word.text)
        for counter in counters:
            others = [each for each in counters if each != counter]
            yield f"{counter} of {ins.text}", "\ts_waitcnt " + " ".join(others) if others else ""
    elif ins.name == "s_nop":
        count = ins.operands[0]
        assert isinstance(count, Literal)
        yield f"a wait state of {ins.text}", f"\ts_nop {int(count.value) - 1}" if count.value else ""


def idle(text: str, entry: str) -> set[tuple[int, str]]:
    """(line, counter's name) of the waits before which no more operations can be outstanding than they allow: the most
    that can be, over all paths, is counted forward from the kernel's start."""
    code = load_program(text, entry).code
    units = [unit_of(step.ins) for step in code]
    most: dict[int, tuple[int, int]] = {0: (0, 0)}
    pending = [0]
    while pending:
        at = pending.pop()
        vm, lgkm = most[at]
        ins = code[at].ins
        if units[at] == WAIT:
            allowed = counters(_text(ins))
            vm, lgkm = (n if a is None else min(n, a) for n, a in zip((vm, lgkm), allowed, strict=True))
        vm += units[at] == VMEM
        lgkm += units[at] in (LDS, SMEM) or ins.name.startswith("flat_")
        following = [] if ins.name in ("s_branch", "s_endpgm") else [at + 1]
        for other in [*following, *([] if code[at].target is None else [code[at].target])]:
            if other is None or other >= len(code):
                continue
            before = most.get(other, (-1, -1))
            after = max(before[0], min(vm, 63)), max(before[1], min(lgkm, 15))
            if after != before:
                most[other] = after
                pending.append(other)
    found = set()
    for at, outstanding in most.items():
        if units[at] == WAIT:
            names = zip(("vmcnt", "lgkmcnt"), outstanding, counters(_text(code[at].ins)), strict=True)
            found |= {(code[at].ins.line, name) for name, n, allowed in names if allowed is not None and n <= allowed}
    return found


def _text(ins: Instruction) -> str:
    word = ins.operands[0]
    assert isinstance(word, Word)
    return word.text
