"""What a warp executes together: shfl, vote, match, redux, activemask, elect, bar.warp (PTX ISA 8.0, 9.7.8.6, 9.7.12).

All of them work on rows of 32 lanes. The scheduler has made sure that every live lane of a member mask is present, so
a handler computes for the whole warps that its threads belong to and writes the active lanes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import DTYPES, REDUCTIONS, Array, Sel
from ..operands import Read, count, error, per_thread, read, write
from ..program import Linker
from ..syntax import Instruction, Operand, Pair, Sink
from ..table import Decoded, Handler, Kind, Members, instruction

if TYPE_CHECKING:
    from ..machine import Machine

_LANES = np.arange(32)


def lane_bits(m: Machine, sel: Sel) -> tuple[Array, Array, Array]:
    """(thread slots, row of each thread, bit mask of the selected lanes per row) for the warps of a selection."""
    threads = m.thread[sel]
    warps, rows = np.unique(threads // 32, return_inverse=True)
    active = np.zeros((len(warps), 32), bool)
    active[rows, threads % 32] = True
    return threads, rows, pack(active)


def pack(flags: Array) -> Array:
    """[rows, 32] flags as one 32-bit mask a row."""
    packed: Array = (flags.astype(np.uint32) << _LANES.astype(np.uint32)).sum(axis=1, dtype=np.uint32)
    return packed


def spread(m: Machine, sel: Sel, values: Array) -> Array:
    """The selected threads' values as [rows, 32], zero for lanes that are not selected."""
    threads = m.thread[sel]
    warps, rows = np.unique(threads // 32, return_inverse=True)
    table = np.zeros((len(warps), 32), np.asarray(values).dtype)
    table[rows, threads % 32] = values
    return table


def member_mask(operand: Operand, ins: Instruction, linker: Linker) -> tuple[Read, Members]:
    """The membermask operand: a reader for handlers, and the members for the scheduler. A thread that is not in its
    own mask is reported: its result would be undefined."""
    mask = read(operand, "b32", ins, linker)
    site = linker.site(ins)

    def values(m: Machine, sel: Sel) -> Array:
        return per_thread(mask(m, sel), sel)

    def members(m: Machine, sel: Sel) -> Array:
        masks = values(m, sel)
        own = (masks >> (m.thread[sel] % 32).astype(np.uint32)) & np.uint32(1)
        if not own.all():
            slot = int(m.thread[sel][np.flatnonzero(own == 0)[0]])
            message = "a thread executes this although the member mask does not name it; use activemask or all lanes"
            m.find(Finding("divergent_barrier", message, m.access("wait", site, slot)), stop=True)
        return masks

    return values, members


# -- shuffles ----------------------------------------------------------------------------------------------------


@instruction("shfl", kind=Kind.WARP)
def _shuffle(ins: Instruction, linker: Linker) -> Decoded:
    """shfl.sync.mode.b32 d|p, a, b, c, mask: lane `j` of segment-limited source (PTX ISA 8.0, 9.7.8.6)."""
    if "sync" not in ins.mods:
        raise error(ins, "shfl without .sync does not exist for this target")
    mode = ins.mods[1]
    target = ins.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    d, p = write(first, "b32", ins, linker), write(second, "pred", ins, linker)
    a, b, c = (read(operand, "b32", ins, linker) for operand in ins.operands[1:4])
    _, members = member_mask(ins.operands[4], ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        threads = m.thread[sel]
        source = per_thread(a(m, sel), sel)
        lane = threads % 32
        step = (b(m, sel) & np.uint32(31)).astype(np.int64)
        limit = c(m, sel).astype(np.int64)
        clamp, segment = limit & 31, limit >> 8 & 31
        last = (lane & segment) | (clamp & ~segment)
        lowest = lane & segment
        if mode == "up":
            wanted = lane - step
            inside = wanted >= last
        elif mode == "down":
            wanted = lane + step
            inside = wanted <= last
        elif mode == "bfly":
            wanted = lane ^ step
            inside = wanted <= last
        else:
            wanted = lowest | (step & ~segment)
            inside = wanted <= last
        wanted = np.where(inside, wanted, lane)
        if isinstance(sel, slice) and count(sel) % 32 == 0 and sel.start % 32 == 0:
            result = source[threads - threads[0] - lane + wanted]
        else:
            rows = np.unique(threads // 32, return_inverse=True)[1]
            result = spread(m, sel, source)[rows, wanted]
        d(m, sel, result)
        p(m, sel, inside)

    return Decoded(run, members)


# -- votes ----------------------------------------------------------------------------------------------------


@instruction("vote", kind=Kind.WARP)
def _vote(ins: Instruction, linker: Linker) -> Decoded:
    if ins.mods[0] != "sync":
        raise error(ins, "vote without .sync does not exist for this target")
    mode = ins.mods[1]
    source = read(ins.operands[1], "pred", ins, linker)
    mask, members = member_mask(ins.operands[2], ins, linker)
    target = write(ins.operands[0], "b32" if mode == "ballot" else "pred", ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        _, rows, active = lane_bits(m, sel)
        ballot = pack(spread(m, sel, per_thread(source(m, sel), sel)))[rows]
        named = mask(m, sel) & active[rows]
        ballot = ballot & named
        if mode == "ballot":
            target(m, sel, ballot)
            return
        every, some = ballot == named, ballot != 0
        target(m, sel, {"all": every, "any": some, "uni": every | ~some}[mode])

    return Decoded(run, members)


@instruction("activemask")
def _active_mask(ins: Instruction, linker: Linker) -> Handler:
    target = write(ins.operands[0], "b32", ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        _, rows, active = lane_bits(m, sel)
        target(m, sel, active[rows])

    return run


@instruction("match", kind=Kind.WARP)
def _match(ins: Instruction, linker: Linker) -> Decoded:
    kind = ins.mods[-1]
    every = "all" in ins.mods
    target = ins.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    d, p = write(first, "b32", ins, linker), write(second, "pred", ins, linker)
    source = read(ins.operands[1], kind, ins, linker)
    mask, members = member_mask(ins.operands[2], ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        _, rows, active = lane_bits(m, sel)
        own = per_thread(source(m, sel), sel)
        named = mask(m, sel) & active[rows]
        equal = pack(spread(m, sel, own)[rows] == own[:, None]) & named
        if every:
            agree = equal == named
            d(m, sel, np.where(agree, named, np.uint32(0)))
            p(m, sel, agree)
        else:
            d(m, sel, equal)

    return Decoded(run, members)


@instruction("redux", kind=Kind.WARP)
def _reduce(ins: Instruction, linker: Linker) -> Decoded:
    kind = ins.mods[-1]
    if kind == "f32":
        raise error(ins, "redux on floats needs a newer target")
    function = REDUCTIONS[ins.mods[1]]
    dtype = DTYPES[kind]
    source, target = read(ins.operands[1], kind, ins, linker), write(ins.operands[0], kind, ins, linker)
    mask, members = member_mask(ins.operands[2], ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        _, rows, active = lane_bits(m, sel)
        values = spread(m, sel, per_thread(source(m, sel), sel))[rows]
        named = mask(m, sel) & active[rows]
        inside = (named[:, None] >> _LANES.astype(np.uint32) & np.uint32(1)) != 0
        first = np.argmax(inside, axis=1)
        neutral = values[np.arange(len(values)), first][:, None]
        if ins.mods[1] in ("add", "xor"):
            neutral = np.zeros_like(neutral)
        target(m, sel, function.reduce(np.where(inside, values, neutral), axis=1, dtype=dtype))

    return Decoded(run, members)


@instruction("elect", kind=Kind.WARP)
def _elect(ins: Instruction, linker: Linker) -> Decoded:
    """elect.sync d|p, mask: one lane, here the lowest, gets true (PTX ISA 8.0, 9.7.12.12)."""
    target = ins.operands[0]
    if not isinstance(target, Pair):
        raise error(ins, "elect.sync writes d|p")
    d, p = write(target.first, "b32", ins, linker), write(target.second, "pred", ins, linker)
    mask, members = member_mask(ins.operands[1], ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        threads, rows, active = lane_bits(m, sel)
        named = mask(m, sel) & active[rows]
        leader = np.bitwise_count((named & -named.astype(np.int64)) - 1).astype(np.uint32)
        d(m, sel, leader)
        p(m, sel, threads % 32 == leader)

    return Decoded(run, members)


@instruction("bar.warp", kind=Kind.WARP, results=0)
def _warp_barrier(ins: Instruction, linker: Linker) -> Decoded:
    """bar.warp.sync mask: the named lanes meet, and their memory accesses are ordered (PTX ISA 8.0, 9.7.12.2)."""
    mask, members = member_mask(ins.operands[0], ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        if m.race is not None:
            m.race.warp_barrier(m.thread[sel], mask(m, sel))

    return Decoded(run, members)
