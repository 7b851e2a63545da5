"""cp.async: copies that a thread starts and an async engine carries out (PTX ISA 8.0, 9.7.8.22).

A `Transfer` is data on its way: the bytes are taken from global memory when the copy starts and written to shared
memory when it *lands*. When that is depends on the launch's schedule: at once (eager), when a wait of the issuing
thread forces it (lazy), or at any time between (random). A thread's copies are collected into groups; group numbers
count its commits, so "all but the latest N groups" is a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import Space
from ...core.scalars import Array, Sel
from ..operands import address, count, error, per_thread, read
from ..program import Linker
from ..syntax import Address, Instruction, Integer, Register
from ..table import Handler, instruction

if TYPE_CHECKING:
    from ..machine import Machine


@dataclass(slots=True, eq=False)
class Transfer:
    """One copy instruction's data in flight: per thread, `size` bytes for the arena offset `where`."""

    space: Space
    threads: Array
    where: Array
    size: int
    data: Array
    group: Array
    landed: Array
    done: Array  # waited for by the issuing thread

    def land(self, which: Array) -> None:
        """The bytes arrive in memory."""
        which = which & ~self.landed
        if which.any():
            self.space.arena.view(1, self.size)[self.where[which] // self.size] = self.data[which]
            self.landed |= which


class AsyncCopies:
    """The copies in flight of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.schedule = machine.launch.schedule
        self.commits = np.zeros(machine.slots, np.int64)
        self.pending: list[Transfer] = []

    def start(self, transfer: Transfer) -> None:
        """A copy is on its way."""
        self.pending.append(transfer)
        if self.schedule == "eager":
            transfer.land(np.ones(len(transfer.threads), bool))

    def commit(self, sel: Sel) -> None:
        """Close the current group of each thread."""
        self.commits[sel] += 1

    def wait(self, sel: Sel, keep: int) -> None:
        """Threads wait for all of their groups but the latest `keep`; uncommitted copies stay in flight."""
        limit = np.full(self.machine.slots, -1, np.int64)
        limit[sel] = self.commits[sel] - keep
        for transfer in self.pending:
            reached = (transfer.group < limit[transfer.threads]) & ~transfer.done
            if not reached.any():
                continue
            transfer.land(reached)
            transfer.done |= reached
            if self.machine.race is not None:
                threads, where = transfer.threads[reached], transfer.where[reached]
                self.machine.race.async_done("shared", threads, where, transfer.size)
        self.pending = [transfer for transfer in self.pending if not transfer.done.all()]

    def completion(self, thread: int) -> Callable[[], None]:
        """A function that completes what this thread has started so far."""
        mine = [(transfer, transfer.threads == thread) for transfer in self.pending]

        def finish() -> None:
            for transfer, which in mine:
                fresh = which & ~transfer.done
                transfer.land(fresh)
                transfer.done |= fresh
                if self.machine.race is not None:
                    self.machine.race.async_done(
                        "shared", transfer.threads[fresh], transfer.where[fresh], transfer.size
                    )

        return finish

    def drift(self) -> None:
        """Under schedule "random": some of what is in flight lands now."""
        rng = self.machine.launch.rng
        for transfer in self.pending:
            if rng.random() < 0.1:
                transfer.land(rng.random(len(transfer.threads)) < 0.5)


@instruction("cp.async", results=0)
def _copy_async(ins: Instruction, linker: Linker) -> Handler:
    """cp.async.ca|cg.shared.global [dst], [src], size{, src-size | ignore-src}{, cache-policy}."""
    if not ins.mods[1:2] or ins.mods[1] not in ("ca", "cg"):
        raise error(ins, f"unsupported instruction {ins.opcode}")
    length = ins.operands[2]
    if not isinstance(length, Integer) or length.value not in ((16,) if ins.mods[1] == "cg" else (4, 8, 16)):
        raise error(ins, "the copy's size must be 4, 8 or 16 bytes (.cg: 16)")
    size = length.value
    target, source = address(ins.operands[0], ins, linker), address(ins.operands[1], ins, linker)
    extra = ins.operands[3] if len(ins.operands) > 3 else None
    policy = any("cache_hint" in mod for mod in ins.mods)
    if policy and len(ins.operands) == 4:
        extra = None
    ignore = read(extra, "pred", ins, linker) if isinstance(extra, Register) and extra.kind == "pred" else None
    amount = read(extra, "u32", ins, linker) if extra is not None and ignore is None else None
    if isinstance(extra, Address):
        raise error(ins, "unsupported operand")
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        shared, threads = m.spaces["shared"], m.thread[sel]
        valid = np.full(count(sel), size, np.int64)
        if amount is not None:
            valid = np.minimum(per_thread(amount(m, sel), sel), size).astype(np.int64)
        elif ignore is not None:
            valid = np.where(ignore(m, sel), 0, valid)
        where = shared.locate(m, sel, target(m, sel), size, site, "write")
        data = _fetch(m, threads, source(m, sel), valid, size, site)
        if m.race is not None:
            m.race.write("shared", threads, where, size, site, False, pending=True)
        none = np.zeros(len(threads), bool)
        transfer = Transfer(shared, threads, where, size, data, m.copies.commits[sel].copy(), none, none.copy())
        m.copies.start(transfer)

    return run


def _fetch(m: Machine, threads: Array, addr: Array, valid: Array, size: int, site: int) -> Array:
    """Read `valid` bytes per thread from global memory, zeros behind them: [threads, size] bytes."""
    space = m.spaces["global"]
    data = np.zeros((len(threads), size), np.uint8)
    for length in np.unique(valid):
        if not length:
            continue
        which = np.flatnonzero(valid == length)
        part = threads[which]
        where = space.locate(m, part, addr[which], int(length), site, "read", align=size)
        if m.race is not None:
            m.race.read("global", part, where, int(length), site, False)
        data[which, :length] = space.arena.data[where[:, None] + np.arange(length)]
    return data


@instruction("cp.async.commit_group", results=0)
def _commit(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: m.copies.commit(sel)


@instruction("cp.async.wait_group", results=0)
def _wait_group(ins: Instruction, linker: Linker) -> Handler:
    number = ins.operands[0]
    if not isinstance(number, Integer):
        raise error(ins, "wait_group takes a constant")
    return lambda m, sel: m.copies.wait(sel, number.value)


@instruction("cp.async.wait_all", results=0)
def _wait_all(ins: Instruction, linker: Linker) -> Handler:
    def run(m: Machine, sel: Sel) -> None:
        m.copies.commit(sel)
        m.copies.wait(sel, 0)

    return run
