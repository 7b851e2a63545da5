"""Reads an assembly text: its instructions, and the blocks between branches and labels.

    s_cbranch_scc0 .L        block 0, and then 2 (the target) or 1
    s_nop 1                  block 1, and then 2
    .L:
    s_endpgm                 block 2, and then none

What checks the assembly (waitcnt_verification.py, exec_mask_cfg.py, mfma_waits.py) reads it here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_LABEL = re.compile(r"^(\.?\w+):")


@dataclass(frozen=True, slots=True)
class Instruction:
    """`line`: its number in the text, from 1 on."""

    line: int
    text: str
    name: str
    operands: tuple[str, ...]

    @property
    def ends(self) -> bool:
        return self.name == "s_endpgm"

    @property
    def branch(self) -> str:
        """The condition of a branch ("scc0", "execz", …), "always" for none; "" for what is no branch."""
        if self.name == "s_branch":
            return "always"
        return self.name[len("s_cbranch_") :] if self.name.startswith("s_cbranch_") else ""


@dataclass(frozen=True, slots=True)
class Block:
    """The instructions [start, stop), of which only the last may be a branch; the blocks that may follow, a branch's
    target first."""

    start: int
    stop: int
    following: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Block 0 is where a kernel begins."""

    instructions: list[Instruction]
    blocks: list[Block]

    def inside(self, block: int) -> list[Instruction]:
        return self.instructions[self.blocks[block].start : self.blocks[block].stop]

    def block_of_each(self) -> list[int]:
        """The block of each instruction."""
        return [n for n, block in enumerate(self.blocks) for _ in range(block.start, block.stop)]


def read(text: str) -> Code:
    """The one kernel of an assembly text."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for number, whole in enumerate(text.splitlines(), 1):
        if not whole or not whole[0].isspace():
            if whole.startswith(".Lfunc_end"):
                break
            if (label := _LABEL.match(whole)) is not None:
                labels[label[1]] = len(code)
            continue
        line = whole.partition(";")[0].strip()
        if not line or line[0] == ".":
            if line.startswith(".section") and code:
                break  # metadata
            continue
        name, _, rest = line.partition(" ")
        code.append(Instruction(number, line, name, tuple(rest.split(", "))))
    cuts = {n + 1 for n, ins in enumerate(code) if ins.ends or ins.branch}
    starts = sorted(n for n in {0, *labels.values(), *cuts} if n < len(code))
    numbers = {start: n for n, start in enumerate(starts)}
    blocks = []
    for start, stop in pairwise([*starts, len(code)]):
        last = code[stop - 1]
        after = [labels[last.operands[0]]] if last.branch else []
        if not last.ends and last.branch != "always":
            after.append(stop)
        blocks.append(Block(start, stop, tuple(dict.fromkeys(numbers[n] for n in after if n in numbers))))
    return Code(code, blocks)
