"""Facts about the flow of a program, found once when it is decoded.

`straight_ends` cuts the code into straight lines, `spin_loops` finds loops that may wait for other threads,
`product_registers` lists who touches the registers of asynchronous products, and `unwritten` lists, per instruction,
the registers to watch because some path may read them before it wrote them: a forward dataflow over "definitely
written" sets. Only those need checking while running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .syntax import Address, Instruction, Not, Operand, Pair, Register, Symbol, Tuple, Vector
from .table import Entry, Kind

if TYPE_CHECKING:
    from .program import Linker, Step

Watch = dict[int, tuple[list[int], list[int]]]  # instruction to the watched slots it reads, and those it writes
Touched = list[tuple[list[Register], list[Register]]]  # per instruction: the registers it reads, and those it writes


def straight_ends(code: list[Step], ragged: bool) -> list[int]:
    """Per index, the first index at or behind it where a group must leave the straight line."""
    ends = [len(code)] * (len(code) + 1)
    for index in range(len(code) - 1, -1, -1):
        step = code[index]
        stop = step.kind is Kind.CONTROL or (step.kind is Kind.WARP and (ragged or step.guard is not None))
        ends[index] = index if stop else ends[index + 1]
    return ends


def spin_loops(code: list[Step]) -> set[tuple[int, int]]:
    """The backward branches (target, branch) around a strong access: perhaps threads that wait for others."""
    spins: set[tuple[int, int]] = set()
    strong = np.cumsum([0] + [step.ins.is_strong for step in code])
    for index, step in enumerate(code):
        if step.target is not None and step.target <= index and strong[index] > strong[step.target]:
            spins.add((step.target, index))
    return spins


def registers_in(operand: Operand) -> list[Register]:
    """The registers an operand names."""
    if isinstance(operand, Register):
        return [operand]
    if isinstance(operand, Not):
        return [operand.operand]
    if isinstance(operand, Vector | Tuple):
        return [register for item in operand.items for register in registers_in(item)]
    if isinstance(operand, Pair):
        return registers_in(operand.first) + registers_in(operand.second)
    if isinstance(operand, Address):
        base = [operand.base] if isinstance(operand.base, Register) else []
        return base + [register for item in operand.rest for register in registers_in(item)]
    return []


def reads_and_writes(ins: Instruction, entry: Entry) -> tuple[list[Register], list[Register]]:
    """The registers an instruction reads (with its guard) and writes."""
    results = entry.results
    written = [register for operand in ins.operands[:results] for register in registers_in(operand)]
    if results and isinstance(ins.operands[0], Address):
        written = []
    sources = ins.operands[results:] if written or not results else ins.operands
    read = [register for operand in sources for register in registers_in(operand)]
    return read + ([ins.guard] if ins.guard else []), written


def unwritten(code: list[Step], touched: Touched, linker: Linker) -> tuple[frozenset[int], Watch]:
    """The slots of the registers that some path reads without having written them for certain, and where they occur."""
    slots = _maybe_unwritten(code, touched, linker)
    watch: Watch = {}
    for index, (step, (read, written)) in enumerate(zip(code, touched, strict=True)):
        sources = [each.slot for each in read if each.slot in slots and each is not step.ins.guard]
        results = [each.slot for each in written if each.slot in slots]
        if sources or results:
            watch[index] = sources, results
    return slots, watch


def _maybe_unwritten(code: list[Step], touched: Touched, linker: Linker) -> frozenset[int]:
    reads, writes = [], []
    for step, (read, written) in zip(code, touched, strict=True):
        reads.append(sum({1 << register.slot for register in read}))
        writes.append(0 if step.guard is not None else sum({1 << register.slot for register in written}))
    everything = (1 << linker.module.slots) - 1
    before = [everything] * (len(code) + 1)
    for name, base in linker.bases.items():
        linker.function = linker.module.functions[name]
        before[base] = 0
        pending = [base]
        while pending:
            index = pending.pop()
            known = before[index]
            while True:
                known |= writes[index]
                follow = _successors(code[index], index, linker)
                for other in follow[1:]:
                    if before[other] & known != before[other]:
                        before[other] &= known
                        pending.append(other)
                if not follow:
                    break
                index = follow[0]
                if before[index] & known == before[index]:
                    break
                before[index] &= known
                known = before[index]
    fragile = 0
    for index in range(len(code)):
        fragile |= reads[index] & ~before[index]
    return frozenset(slot for slot in range(fragile.bit_length()) if fragile >> slot & 1)


def _successors(step: Step, index: int, linker: Linker) -> list[int]:
    ins = step.ins
    following = [index + 1] if step.guard is not None else []
    if step.target is not None:
        return [*following, step.target]
    if ins.name == "brx":
        name = ins.operands[1]
        labels = linker.function.targets[name.name] if isinstance(name, Symbol) else ()
        return [*following, *(linker.label(label, ins) for label in labels)]
    if ins.name in ("exit", "ret", "trap"):
        return following
    return [index + 1]


def products_of(ins: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The slots of a wgmma's accumulators, and of A if it is in registers."""
    results, fragments = (
        tuple(register.slot for register in registers_in(operand)) if isinstance(operand, Vector) else ()
        for operand in ins.operands[:2]
    )
    return results, fragments


def product_registers(code: list[Step], touched: Touched) -> Watch:
    """Per instruction (but wgmma itself): the registers used by any wgmma that it reads, and those that it writes."""
    products = [step.ins for step in code if step.ins.name == "wgmma" and step.ins.mods[0] == "mma_async"]
    used = {slot for ins in products for slots in products_of(ins) for slot in slots}
    watch: Watch = {}
    for index, step in enumerate(code if used else []):
        if step.ins.name == "wgmma":
            continue
        reads, writes = ([each.slot for each in registers if each.slot in used] for registers in touched[index])
        if reads or writes:
            watch[index] = reads, writes
    return watch


def load_registers(code: list[Step], touched: Touched) -> Watch:
    """Per instruction: the registers that any tcgen05.ld writes and this one reads, and those that it writes."""
    loads = [index for index, step in enumerate(code) if step.ins.opcode.startswith("tcgen05.ld")]
    used = {each.slot for index in loads for each in touched[index][1]}
    watch: Watch = {}
    for index in range(len(code) if used else 0):
        reads, writes = ([each.slot for each in registers if each.slot in used] for registers in touched[index])
        if reads or writes:
            watch[index] = reads, writes
    return watch
