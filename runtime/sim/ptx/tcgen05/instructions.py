"""tcgen05's instructions, decoded for allocation.py, memory.py and products.py (PTX ISA 8.8, 9.7.16.7 to 9.7.16.12).
Which forms there are is in forms.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.scalars import Array, Sel
from ..instructions.bulk_instructions import destinations, in_cta
from ..instructions.mbarrier import shared_address
from ..machine import Machine
from ..operands import address, count, error, per_thread, read
from ..program import Linker
from ..syntax import Address, Instruction, Integer, Operand, Register, Sink, Vector
from ..table import Decoded, Handler, Kind, Outcome, instruction, whole_warp
from .allocation import Request
from .copies import copy
from .descriptors import SCALED, factors_of
from .fragments import Fragment, fragment, registers
from .products import Form, Operands


def _warps(m: Machine, sel: Sel, site: int) -> list[Array]:
    """The threads of each warp; a finding that ends the run where some of its lanes have exited."""
    threads = m.thread[sel]
    counts = np.bincount(threads // 32)
    short = np.flatnonzero((counts > 0) & (counts < 32))
    if len(short):
        thread = int(threads[threads // 32 == short[0]][0])
        m.tensor.fault("divergent_barrier", "all 32 lanes of a warp must execute this", site, thread, "wait")
    return list(threads.reshape(-1, 32))


def _one_value(m: Machine, values: Array, site: int, thread: int, what: str) -> int:
    """What all lanes of a warp must agree on."""
    if (values != values[0]).any():
        m.tensor.complain(f"the lanes of a warp give different {what}", site, thread)
    return int(values[0])


def _is_pair(ins: Instruction) -> bool:
    return "cta_group::2" in ins.mods


def _outcome(m: Machine, parts: Outcome, sel: Sel, pc: int) -> Outcome:
    """Where the threads that need not sleep go on: all of them as they came, if none does."""
    if sum(count(part) for _, part in parts) == count(sel):
        return [(pc + 1, sel)]
    return [(pc + 1, np.concatenate([m.thread[part] for _, part in parts]))] if parts else []


@instruction("tcgen05.alloc", kind=Kind.CONTROL, results=0)
def _allocate(ins: Instruction, linker: Linker) -> Decoded:
    where, number = shared_address(ins.operands[0], ins, linker), read(ins.operands[1], "u32", ins, linker)
    site, pair = linker.site(ins), _is_pair(ins)

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        warps, parts = _warps(m, sel, site), []
        places = m.spaces["shared"].locate(m, sel, where(m, sel), 4, site, "write").reshape(-1, 32)
        counts = per_thread(number(m, sel), sel).reshape(-1, 32)
        for threads, place, columns in zip(warps, places, counts, strict=True):
            wanted = _one_value(m, columns, site, int(threads[0]), "numbers of columns")
            parts += m.tensor.allocator.ask(Request("alloc", threads, site, wanted, int(place[0])), pair, pc)
        return _outcome(m, parts, sel, pc)

    return Decoded(run, whole_warp)


@instruction("tcgen05.dealloc", kind=Kind.CONTROL, results=0)
def _free(ins: Instruction, linker: Linker) -> Decoded:
    where, number = read(ins.operands[0], "u32", ins, linker), read(ins.operands[1], "u32", ins, linker)
    site, pair = linker.site(ins), _is_pair(ins)

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        warps, parts = _warps(m, sel, site), []
        places = per_thread(where(m, sel), sel).reshape(-1, 32)
        counts = per_thread(number(m, sel), sel).reshape(-1, 32)
        for threads, place, columns in zip(warps, places, counts, strict=True):
            first = int(threads[0])
            at = _one_value(m, place, site, first, "addresses")
            wanted = _one_value(m, columns, site, first, "numbers of columns")
            parts += m.tensor.allocator.ask(Request("dealloc", threads, site, wanted, at), pair, pc)
        return _outcome(m, parts, sel, pc)

    return Decoded(run, whole_warp)


@instruction("tcgen05.relinquish_alloc_permit", kind=Kind.CONTROL, results=0)
def _relinquish(ins: Instruction, linker: Linker) -> Decoded:
    site, pair = linker.site(ins), _is_pair(ins)

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        asked = [m.tensor.allocator.ask(Request("relinquish", each, site), pair, pc) for each in _warps(m, sel, site)]
        return _outcome(m, [part for parts in asked for part in parts], sel, pc)

    return Decoded(run, whole_warp)


def _fragment(ins: Instruction, operand: Operand, rest: tuple[Operand, ...]) -> tuple[tuple[int, ...], Fragment]:
    """The registers of an ld or st, as many as its shape and number say, and where they are."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    shape = next(mod for mod in ins.mods if mod[0].isdigit())
    number = int(next(mod[1:] for mod in ins.mods if mod[0] == "x" and mod[1:].isdigit()))
    if not items or len(items) != registers(shape, number):
        raise error(ins, f"{ins.opcode} takes {registers(shape, number)} registers, not {len(items)}")
    slots = []
    for item in items:
        if isinstance(item, Sink) or not isinstance(item, Register) or item.kind not in ("b32", "u32", "s32", "f32"):
            raise error(ins, f"the registers of {ins.name}.{ins.mods[0]} are of 32 bits")
        slots.append(item.slot)
    split = rest[0].value if rest and isinstance(rest[0], Integer) else 0
    return tuple(slots), fragment(shape, number, any("pack::16b" in mod for mod in ins.mods), split)


@instruction("tcgen05.ld", kind=Kind.WARP)
def _load(ins: Instruction, linker: Linker) -> Decoded:
    slots, shape = _fragment(ins, ins.operands[0], ins.operands[2:])
    where, site = address(ins.operands[1], ins, linker), linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        for threads, at in zip(_warps(m, sel, site), where(m, sel).reshape(-1, 32), strict=True):
            m.tensor.move(threads, at, "ld", slots, shape, site)

    return Decoded(run, whole_warp)


@instruction("tcgen05.st", kind=Kind.WARP, results=0)
def _store(ins: Instruction, linker: Linker) -> Decoded:
    slots, shape = _fragment(ins, ins.operands[-1], ins.operands[1:-1])
    where, site = address(ins.operands[0], ins, linker), linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        for threads, at in zip(_warps(m, sel, site), where(m, sel).reshape(-1, 32), strict=True):
            m.tensor.move(threads, at, "st", slots, shape, site)

    return Decoded(run, whole_warp)


@instruction("tcgen05.wait::ld", "tcgen05.wait::st", kind=Kind.WARP, results=0)
def _wait(ins: Instruction, linker: Linker) -> Decoded:
    kind = ins.mods[0].partition("::")[2]
    return Decoded(lambda m, sel: m.tensor.wait(m.thread[sel], kind), whole_warp)


@instruction("tcgen05.fence::before_thread_sync", results=0)
def _before(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: m.tensor.order.before(m.thread[sel])


@instruction("tcgen05.fence::after_thread_sync", results=0)
def _after(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: m.tensor.order.fence_after(m.thread[sel])


@instruction("tcgen05.mma", results=0)
def _multiply(ins: Instruction, linker: Linker) -> Handler:
    """tcgen05.mma.cta_group::n.kind::k [d], a-desc or [a], b-desc, idesc{, disable-output-lane}, enable-input-d
    {, scale-input-d}; where the kind has scale factors, with their addresses in place of disable-output-lane."""
    kind = next(mod.partition("::")[2] for mod in ins.mods if mod.startswith("kind"))
    in_tensor = isinstance(ins.operands[1], Address)
    d = address(ins.operands[0], ins, linker)
    a = address(ins.operands[1], ins, linker) if in_tensor else read(ins.operands[1], "b64", ins, linker)
    b, word = read(ins.operands[2], "b64", ins, linker), read(ins.operands[3], "b32", ins, linker)
    *rest, last = ins.operands[4:]
    shift = 0
    if isinstance(last, Integer) and rest and not isinstance(rest[-1], Vector | Address):
        shift, last = last.value, rest.pop()
        if not 0 <= shift <= 15:
            raise error(ins, f"scale-input-d is 0 to 15, not {shift}")
    accumulate, site = read(last, "pred", ins, linker), linker.site(ins)
    lanes = [read(item, "b32", ins, linker) for each in rest if isinstance(each, Vector) for item in each.items]
    if lanes and len(lanes) != (8 if _is_pair(ins) else 4):
        raise error(ins, "disable-output-lane has a bit for each lane: 4 words, or 8 for a pair of CTAs")
    readers, factors = [d, a, b, word, accumulate], 0
    if kind in SCALED:
        vector = next((mod for mod in ins.mods if mod.startswith(("scale_vec", "block1", "block3"))), None)
        found = factors_of(kind, vector)
        if found is None:
            raise error(ins, f"kind {kind} has no products with .{vector or 'block_scale'}")
        factors = found
        readers += [address(each, ins, linker) for each in rest]
    form = Form(kind, in_tensor, _is_pair(ins), factors, shift)
    number = len(readers)

    def run(m: Machine, sel: Sel) -> None:
        columns = (per_thread(each(m, sel), sel).tolist() for each in (*readers, *lanes))
        for thread, *values in zip(m.thread[sel].tolist(), *columns, strict=True):
            given = replace(Operands(*values[:number]), disabled=tuple(values[number:]))
            m.products.issue(thread, given, form, site)

    return run


@instruction("tcgen05.cp", results=0)
def _copy(ins: Instruction, linker: Linker) -> Handler:
    where, word = address(ins.operands[0], ins, linker), read(ins.operands[1], "b64", ins, linker)
    shape, pair, site = ".".join(ins.mods[2:]), _is_pair(ins), linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        words = per_thread(word(m, sel), sel).tolist()
        for thread, at, each in zip(m.thread[sel].tolist(), where(m, sel).tolist(), words, strict=True):
            copy(m, thread, at, each, shape, pair, site)

    return run


@instruction("tcgen05.commit", results=0)
def _commit(ins: Instruction, linker: Linker) -> Handler:
    """tcgen05.commit...b64 [mbar]{, ctaMask}: with a mask, at the same place in each CTA that it names."""
    where, site = shared_address(ins.operands[0], ins, linker), linker.site(ins)
    if ("multicast::cluster" in ins.mods) != (len(ins.operands) > 1):
        raise error(ins, "a mask of CTAs goes with .multicast::cluster")
    mask = read(ins.operands[1], "u16", ins, linker) if len(ins.operands) > 1 else None
    pair = _is_pair(ins)

    def run(m: Machine, sel: Sel) -> None:
        masks = [None] * count(sel) if mask is None else per_thread(mask(m, sel), sel).tolist()
        for thread, at, named in zip(m.thread[sel].tolist(), where(m, sel).tolist(), masks, strict=True):
            m.products.ctas(thread, pair, site)
            ranks = destinations(m, thread, named)
            places = np.array([at if rank is None else in_cta(m, at, rank) for rank in ranks])
            found = m.mbarriers.locate(np.full(len(places), thread), places, site).tolist()
            m.products.commit(thread, [m.mbarriers.get(place, thread, site) for place in found], site)

    return run
