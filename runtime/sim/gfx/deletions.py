"""Which waits, barriers and wait states of an AMD text are needed: each is taken away or weakened in turn.

The counterpart of `runtime.sim.deletions` for GCN; its `redundant` and `missed` do the rest. A counter of an s_waitcnt
goes as a whole; s_nop keeps one wait state fewer.

    s_waitcnt vmcnt(0) lgkmcnt(0)      s_waitcnt lgkmcnt(0), and s_waitcnt vmcnt(0)
    s_barrier                          (gone)
    s_nop 3                            s_nop 2
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..deletions import Deletion
from .program import load_program
from .syntax import Instruction, Literal, Word

_COUNTER = re.compile(r"\b(?:vmcnt|lgkmcnt)\(\w+\)")


def deletions(text: str, entry: str) -> Iterator[Deletion]:
    """The text with each synchronising instruction of the kernel missing or weaker, from the first to the last."""
    lines = text.splitlines(keepends=True)
    for step in load_program(text, entry).code:
        ins = step.ins
        for what, instead in _weaker(ins):
            start = "".join(lines[: ins.line - 1])
            yield Deletion(ins.line, what, ins.source, f"{start}{instead}\n{''.join(lines[ins.line :])}", "GCN")


def _weaker(ins: Instruction) -> Iterator[tuple[str, str]]:
    """(what is taken away, the line that stands instead)."""
    if ins.name == "s_barrier":
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
