"""Blocks: runs of arithmetic whose results are a function of registers alone, so that they are computed once for each
content of what they read (registers.Registers.pass_block)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitile.proof.text import ARITHMETIC, Instruction, Program

_MEETINGS = ("elect", "shfl", "vote", "redux", "match", "mma", "activemask")  # lanes meet in them, or depend on it


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions from `begin` on that compute `writes` of `reads`; `end`: what is executed next. `meets`: products by
    the whole warp (mma), which leave nothing that is known."""

    begin: int
    end: int
    code: tuple[Instruction, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    meets: bool = False


def blocks(program: Program, touches: Sequence[int], draws: bool) -> list[Block | None]:
    """The block that begins at each instruction. `touches`: products' registers that each instruction accesses;
    `draws`: truths are named by the instructions that compute them (tickets.py)."""
    code, function, counters = program.code, functions(program), {each.counter for each in program.loops}
    targets = {each.target for each in code}
    kinds = [
        ""
        if touches[each.pc] or each.guard or not counters.isdisjoint(each.writes) or (draws and names_truth(each))
        else "product"
        if each.base == "mma" and len(each.writes) > 1
        else "function" * function[each.pc]
        for each in code
    ]
    found: list[Block | None] = []
    for begin in range(len(code)):
        now, kind = begin, kinds[begin] if begin not in program.regions else ""
        inside: list[Instruction] = []
        while kind and now < len(code) and kinds[now] == kind and (now == begin or now not in targets):
            inside.append(code[now])
            now = program.next_kept[now + 1]
        written: dict[str, None] = {}
        read: dict[str, None] = {}
        for each in inside:
            read.update((name, None) for name in each.reads if name not in written and kind == "function")
            written.update((name, None) for name in each.writes)
        block = Block(begin, now, tuple(inside), tuple(read), tuple(written), kind == "product")
        found.append(block if inside else None)
    return found


def functions(program: Program) -> list[bool]:
    """Whether what an instruction leaves is a function of what it reads: so it asks nothing, as tests and minima of
    bounds do, begins no counter, and accesses no shared memory. A test of equality may ask within a loop: what it gives
    then is not kept (Registers.asked)."""
    counters = {each.counter for each in program.loops}
    return [
        each.base in ARITHMETIC
        and each.base not in (*_MEETINGS, "min")
        and (each.base != "setp" or each.op.startswith(("setp.eq.", "setp.ne.")))
        and (each.base != "ld" or each.op.startswith(("ld.param.", "ld.global.")))
        and (each.base == "add" or counters.isdisjoint(each.writes))
        for each in program.code
    ]


def names_truth(each: Instruction) -> bool:
    """Whether an instruction computes a truth, which tickets name by where it is computed."""
    return (each.base == "setp" or each.op.endswith(".pred")) and len(each.writes) == 1


__all__ = ["Block", "blocks", "functions", "names_truth"]
