"""Tensor memory of a batch: 128 lanes × 512 columns of 32 bits for each CTA, ld and st (PTX ISA 8.8, 9.7.16.1,
9.7.16.8). Which columns are allocated is in allocation.py.

An address has the lane in its upper 16 bits, the column in the lower ones. A warp loads and stores lanes
32 · (its number % 4) to + 31, in the shapes of fragments.py. ld and st are asynchronous: what they move, they move at
the warp's tcgen05.wait (lazy), at once (eager), or either (random); the registers of an ld are not to be touched
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array, Sel
from .allocation import Allocator
from .fragments import Fragment
from .order import COLUMNS, GROUP, GROUPS, Engine, TensorOrder

if TYPE_CHECKING:
    from ..machine import Machine

LANES = GROUP * GROUPS
_POISON = np.uint32(0xA5A5A5A5)


@dataclass(slots=True, eq=False)
class Move:
    """An ld or st of a warp in flight: what lies behind a lane and a column, to or from registers."""

    warp: int
    kind: str
    lane: int
    column: int
    shape: Fragment
    slots: tuple[int, ...]
    values: Array | None  # [registers, 32] of a st
    site: int


class TensorMemory:
    """The tensor memory of a batch, and what is in flight to and from it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.used = any(step.ins.name == "tcgen05" for step in machine.program.code)
        ctas = machine.ctas if self.used else 0
        self.cells = np.full((ctas, LANES, COLUMNS), _POISON, np.uint32)
        self.written = np.zeros((ctas, GROUPS, COLUMNS), bool)
        self.allocator = Allocator(machine, self, ctas)
        self.moves: list[Move] = []
        self.loading: dict[tuple[int, int], Move] = {}  # register's slot, warp
        self.schedule = machine.launch.schedule
        self.order = TensorOrder(machine)

    # -- columns ----------------------------------------------------------------------------------------------------

    def fresh(self, cta: int, columns: slice) -> None:
        """These columns are allocated, and hold nothing yet."""
        self.written[cta, :, columns] = False
        self.cells[cta, :, columns] = _POISON

    def locate(self, cta: int, column: int, count: int, site: int, thread: int, what: str) -> slice:
        """Columns as a slice, if they are allocated; else a finding that ends the run."""
        if column + count <= COLUMNS:
            span = slice(column, column + count)
            live = self.allocator.live[cta]
            if any(each.first <= column and column + count <= each.first + each.count for each in live):
                return span
            if self.allocator.freed[cta, span].any():
                self.fault("use_after_free", f"columns {column} to {column + count - 1} are free", site, thread, what)
        message = f"columns {column} to {column + count - 1} of tensor memory are not within an allocation"
        self.fault("out_of_bounds", message, site, thread, what)
        raise AssertionError  # the finding has ended the run

    # -- ld and st --------------------------------------------------------------------------------------------------

    def move(
        self, threads: Array, address: Array, kind: str, slots: tuple[int, ...], shape: Fragment, site: int
    ) -> None:
        """A warp loads or stores so many registers of each thread."""
        m, first = self.machine, int(threads[0])
        warp, cta = first // 32, first // m.padded
        at = int(address[0])
        lane, column = at >> 16, at & 0xFFFF
        if (address != at).any():
            self.fault("lane_access", f"the lanes of a warp give different addresses to {kind}", site, first, kind)
        mine = warp % (m.padded // 32) % 4 * 32
        if lane != mine and not (shape.height == GROUP and lane == mine + GROUP):
            message = f"lane {lane} of tensor memory is not this warp's, which has lanes {mine} to {mine + 31}"
            self.fault("lane_access", message, site, first, kind)
        columns = column + shape.touched
        for run in np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1):
            self.locate(cta, int(run[0]), len(run), site, first, kind)
        engine, groups = Engine(kind, warp), lane // GROUP + np.arange(shape.height // GROUP)
        step = self.order.step(engine)
        self.order.access(engine, step, threads, cta, groups, columns, site, writes=kind == "st")
        if kind == "ld":
            self.check_written(cta, groups, columns, site, first)
        values = np.array([m.regs[slot][threads] for slot in slots]) if kind == "st" else None
        move = Move(warp, kind, lane, column, shape, slots, values, site)
        if kind == "st":
            self.written[cta, groups[:, None], columns] = True
        else:
            for slot in slots:
                self.loading[slot, warp] = move
                m.regs[slot][threads] = _POISON
        at_once = self.schedule == "eager" or (self.schedule == "random" and m.launch.rng.random() < 0.5)
        if at_once:
            self._do(move)
        else:
            self.moves.append(move)

    def _do(self, move: Move) -> None:
        m, cells = self.machine, self.cells[move.warp * 32 // self.machine.padded]
        if move.values is not None:
            move.shape.store(cells, move.lane, move.column, move.values)
            return
        threads = slice(move.warp * 32, move.warp * 32 + 32)
        for slot, values in zip(move.slots, move.shape.load(cells, move.lane, move.column), strict=True):
            m.regs[slot][threads] = values

    def wait(self, threads: Array, kind: str) -> None:
        """tcgen05.wait::ld or ::st of whole warps."""
        for warp in np.unique(threads // 32).tolist():
            for move in [each for each in self.moves if each.warp == warp and each.kind == kind]:
                self._do(move)
                self.moves.remove(move)
            if kind == "ld":
                self.loading = {key: each for key, each in self.loading.items() if key[1] != warp}
            self.order.waited(Engine(kind, warp), threads[threads // 32 == warp])

    def check_registers(self, sel: Sel, site: int, reads: list[int], writes: list[int]) -> None:
        """An instruction reads and writes registers that loads write."""
        if not self.loading:
            return
        for warp in np.unique(self.machine.thread[sel] // 32).tolist():
            for slots, what in ((reads, "read"), (writes, "write")):
                move = next((self.loading[slot, warp] for slot in slots if (slot, warp) in self.loading), None)
                if move is None:
                    continue
                slot = next(slot for slot in slots if (slot, warp) in self.loading)
                name = next(each.name for each in self.machine.program.registers if each.slot == slot)
                message = f"register {name} is still to be written by a tcgen05.ld"
                first = self.machine.access(what, site, warp * 32)
                second = self.machine.access("ld", move.site, warp * 32)
                hazard, cure = "RAW" if what == "read" else "WAW", f"tcgen05.wait::ld before this {what}"
                self.machine.find(Finding("missing_wait", message, first, second, hazard, "register", name, None, cure))

    # -- findings ---------------------------------------------------------------------------------------------------

    def check_written(
        self, cta: int, groups: Array, span: slice | Array, site: int, thread: int, everywhere: bool = False
    ) -> None:
        """Some lanes, or all groups of lanes, of each of these columns must have been written since the allocation."""
        columns = np.arange(COLUMNS)[span]
        written = self.written[cta, groups[:, None], columns]
        lacking = ~(written.all(axis=0) if everywhere else written.any(axis=0))
        if lacking.any():
            column = int(columns[lacking][0])
            message = f"column {column} of tensor memory is read, and nothing has written these lanes of it"
            access = self.machine.access("read", site, thread)
            self.machine.find(Finding("uninitialised", message, access, space="tensor"))

    def complain(self, message: str, site: int, thread: int) -> None:
        """A misuse of the allocator, which ends the run."""
        self.fault("tensor_memory_alloc", message, site, thread, "alloc")

    def fault(self, kind: str, message: str, site: int, thread: int, what: str) -> None:
        """A finding that ends the run."""
        access = self.machine.access(what, site, thread)
        self.machine.find(Finding(kind, message, access, space="tensor"), stop=True)

    def end(self) -> None:
        """The batch is over."""
        self.allocator.end()
