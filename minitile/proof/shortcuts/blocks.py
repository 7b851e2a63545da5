"""Blocks: runs of arithmetic whose results are a function of registers alone, so that they are computed once for each
content of what they read (registers.Registers.pass_block)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitile.proof.text import ARITHMETIC, Instruction, Program

_MEETINGS = ("elect", "shfl", "vote", "redux", "match", "mma", "activemask")  # lanes meet in them, or depend on it


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions from `begin` on that compute `writes` of `reads`; `end`: what is executed next."""

    begin: int
    end: int
    code: tuple[Instruction, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def blocks(program: Program, touches: Sequence[int], draws: bool) -> list[Block | None]:
    """The block that begins at each instruction. `touches`: products' registers that each instruction accesses;
    `draws`: truths are named by the instructions that compute them (tickets.py)."""
    code, counters = program.code, {each.counter for each in program.loops}
    targets = {each.target for each in code}
    alone = [
        not touches[each.pc]
        and _is_function(each)
        and counters.isdisjoint(each.writes)
        and not (draws and names_truth(each))
        for each in code
    ]
    found: list[Block | None] = []
    for begin in range(len(code)):
        now, inside = begin, []
        while begin not in program.regions and now < len(code) and alone[now] and (now == begin or now not in targets):
            inside.append(code[now])
            now = program.next_kept[now + 1]
        written: dict[str, None] = {}
        read: dict[str, None] = {}
        for each in inside:
            read.update((name, None) for name in each.reads if name not in written)
            written.update((name, None) for name in each.writes)
        found.append(Block(begin, now, tuple(inside), tuple(read), tuple(written)) if inside else None)
    return found


def _is_function(each: Instruction) -> bool:
    """Whether an instruction asks nothing, as tests and minima of bounds do, and accesses no shared memory. A test of
    equality may ask within a loop: what it gives then is not kept (Registers.pass_block)."""
    return (
        each.base in ARITHMETIC
        and each.base not in (*_MEETINGS, "min")
        and (each.base != "setp" or each.op.startswith(("setp.eq.", "setp.ne.")))
        and (each.base != "ld" or each.op.startswith(("ld.param.", "ld.global.")))
        and not each.guard
    )


def names_truth(each: Instruction) -> bool:
    """Whether an instruction computes a truth, which tickets name by where it is computed."""
    return (each.base == "setp" or each.op.endswith(".pred")) and len(each.writes) == 1


__all__ = ["Block", "blocks", "names_truth"]
