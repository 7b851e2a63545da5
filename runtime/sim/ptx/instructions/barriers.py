"""CTA barriers: bar and barrier with .sync, .arrive and .red (PTX ISA 8.0, 9.7.12.1).

A CTA has 16 barriers. A barrier completes when as many threads arrived as it expects: the given count, or all threads
of the CTA that have not exited. Aligned forms count whole warps. Waiting threads leave their group and come back as
released ones. The race model hears of every arrival and completion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import DTYPES, Array, Sel, every, some
from ..operands import Read, constant, error, per_thread, read, write
from ..program import Linker
from ..syntax import Instruction, Integer, Operand
from ..table import ControlHandler, Decoded, Kind, Outcome, instruction, whole_warp

if TYPE_CHECKING:
    from ..machine import Machine

_COUNT = 16
_ALL = -1  # expected: every live thread of the CTA


class Barriers:
    """The barriers of a batch, and who waits at them."""

    def __init__(self, machine: Machine) -> None:
        slots, ctas = machine.slots, machine.ctas
        self.machine = machine
        self.waiting = np.zeros(slots, bool)
        self.wait_pc = np.zeros(slots, np.int64)
        self.wait_id = np.full(slots, -1, np.int64)
        self.values = np.zeros(slots, bool)
        self.arrived = np.zeros((ctas, _COUNT), np.int64)
        self.expected = np.full((ctas, _COUNT), _ALL, np.int64)
        self.live_count = np.bincount(machine.cta[machine.live], minlength=ctas)
        self.released: list[tuple[int, Array]] = []
        self.finish: dict[int, Callable[[Machine, Array], None]] = {}
        self.lanes: Array | None = None

    def live_lanes(self) -> Array:
        """A bit mask of the lanes that have not exited, per warp."""
        if self.lanes is None:
            bits = self.machine.live.reshape(-1, 32).astype(np.uint32) << np.arange(32, dtype=np.uint32)
            self.lanes = bits.sum(axis=1, dtype=np.uint32)
        return self.lanes

    def take_released(self) -> list[tuple[int, Array]]:
        """The threads released since the last call, with the instruction where they continue."""
        taken, self.released = self.released, []
        return taken

    def waiting_groups(self) -> list[tuple[int, Array]]:
        """(instruction, threads) of everybody who waits."""
        threads = np.flatnonzero(self.waiting)
        return [(int(pc), threads[self.wait_pc[threads] == pc]) for pc in np.unique(self.wait_pc[threads])]

    def arrive(self, sel: Sel, number: int, total: int | None, aligned: bool, pc: int, waits: bool) -> bool:
        """Threads arrive at barrier `number`; `total` is the explicit thread count. True if no thread has to wait.

        Threads that exit are no longer expected where there is no count; a count stays what it is, and those that
        arrived without waiting and exited count."""
        machine = self.machine
        threads = machine.thread[sel]
        everyone = total is None or total == machine.padded
        per_cta = np.bincount(machine.cta[sel], minlength=machine.ctas)
        if not everyone and aligned:
            warps = np.unique(threads // 32)
            per_cta = 32 * np.bincount(warps // (machine.padded // 32), minlength=machine.ctas)
        ctas = np.flatnonzero(per_cta)
        expected = _ALL if total is None else total
        self.check_count(ctas, number, expected, pc, threads)
        if (
            waits
            and everyone
            and every(per_cta[ctas] == machine.launch.threads)
            and not some(self.arrived[ctas, number])
        ):
            if machine.race is not None:
                machine.race.barrier_all(ctas)
                machine.race.phases.forget(ctas, number)
            return pc not in self.finish or self.finish_at(pc, ctas, threads)
        if machine.race is not None:
            for cta in ctas:
                machine.race.phases.arrive(int(cta), number, threads[machine.cta[threads] == cta], pc)
                machine.race.arrive(("bar", int(cta), number), threads[machine.cta[threads] == cta])
        self.arrived[ctas, number] += per_cta[ctas]
        self.expected[ctas, number] = expected
        if waits:
            self.waiting[sel] = True
            self.wait_pc[sel] = pc
            self.wait_id[sel] = number
        for cta in ctas:
            self.complete(int(cta), number, pc)
        return False

    def finish_at(self, pc: int, ctas: Array, threads: Array) -> bool:
        for cta in ctas:
            self.finish[pc](self.machine, threads[self.machine.cta[threads] == cta])
        return True

    def check_count(self, ctas: Array, number: int, expected: int, pc: int, threads: Array) -> None:
        """Report a count that the ISA forbids or that differs from the one already set."""
        machine = self.machine
        message = ""
        if expected != _ALL and (expected <= 0 or expected % 32 or expected > machine.padded):
            message = (
                f"a barrier count must be a multiple of 32 up to the CTA's {machine.padded} threads, not {expected}"
            )
        busy = self.arrived[ctas, number] > 0
        different = busy & (self.expected[ctas, number] != expected)
        if some(different):
            before = int(self.expected[ctas, number][different][0])
            names = ["all threads" if each == _ALL else str(each) for each in (before, expected)]
            message = f"barrier {number} is waiting for {names[0]}, but this arrival names {names[1]}; use one count"
        if message:
            access = machine.access("wait", pc, int(threads[0]))
            machine.find(Finding("barrier_mismatch", message, access), stop=True)

    def complete(self, cta: int, number: int, pc: int | None = None) -> None:
        """Release the waiting threads of this barrier if all expected threads have arrived."""
        machine = self.machine
        expected = int(self.expected[cta, number])
        needed = int(self.live_count[cta]) if expected == _ALL else expected
        arrived = int(self.arrived[cta, number])
        if not arrived or arrived < needed:
            return
        if arrived > needed and pc is not None:
            message = f"{arrived} threads arrived at barrier {number}, which expects {needed}"
            machine.find(Finding("barrier_mismatch", message, machine.access("wait", pc)), stop=True)
        slots = slice(cta * machine.padded, (cta + 1) * machine.padded)
        threads = machine.thread[slots][self.waiting[slots] & (self.wait_id[slots] == number)]
        self.arrived[cta, number] = 0
        if machine.race is not None:
            if len(threads) == machine.launch.threads:  # not so if some have exited: nothing orders what they did
                machine.race.barrier_all(np.array([cta]))
            machine.race.join(("bar", cta, number), threads)
            machine.race.phases.complete(cta, number)
        self.waiting[threads] = False
        self.wait_id[threads] = -1
        for at in np.unique(self.wait_pc[threads]):
            part = threads[self.wait_pc[threads] == at]
            if int(at) in self.finish:
                self.finish[int(at)](machine, part)
            self.released.append((int(at) + 1, part))

    def exit_threads(self, machine: Machine, sel: Sel) -> None:
        """Threads end: barriers that expect every live thread expect fewer now."""
        machine.live[sel] = False
        self.lanes = None
        self.live_count = np.bincount(machine.cta[machine.live], minlength=machine.ctas)
        for cta, number in np.argwhere((self.arrived > 0) & (self.expected == _ALL)):
            self.complete(int(cta), int(number))
        machine.bulk.exit_threads(machine.thread[sel])
        machine.clusters.exit_threads(machine.thread[sel])


def _uniform(operand: Operand, ins: Instruction, linker: Linker) -> Read:
    return read(operand, "u32", ins, linker)


def _barrier(ins: Instruction, linker: Linker, waits: bool, leading: int, sources: int) -> Decoded:
    """Decode the operands (id, count) that follow `leading` results and precede `sources` predicates."""
    operands = ins.operands[leading : len(ins.operands) - sources]
    if not 1 <= len(operands) <= 2 or (not waits and len(operands) != 2):
        raise error(ins, "a barrier takes a number and a thread count")
    if isinstance(operands[0], Integer) and not 0 <= operands[0].value < _COUNT:
        raise error(ins, f"barriers are numbered 0 to {_COUNT - 1}")
    number = _uniform(operands[0], ins, linker)
    total = _uniform(operands[1], ins, linker) if len(operands) == 2 else None
    aligned = ins.name == "bar" or "aligned" in ins.mods

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        numbers = per_thread(number(m, sel), sel)
        totals = None if total is None else per_thread(total(m, sel), sel)
        done = True
        for each in np.unique(numbers):
            part = sel if every(numbers == each) else m.thread[sel][numbers == each]
            limit = None if totals is None else int(totals[numbers == each][0])
            done &= m.barriers.arrive(part, int(each) % _COUNT, limit, aligned, pc, waits)
        if not waits or (done and not some(m.barriers.waiting[sel])):
            return [(pc + 1, sel)]
        return []

    return Decoded(run, whole_warp if aligned else None)


@instruction("bar", "barrier", kind=Kind.CONTROL, results=0)
def _bar_sync(ins: Instruction, linker: Linker) -> Decoded:
    mods = [mod for mod in ins.mods if mod not in ("cta", "aligned")]
    if mods[0] not in ("sync", "arrive") or len(mods) > 1:
        raise error(ins, f"unsupported instruction {ins.opcode}")
    return _barrier(ins, linker, mods[0] == "sync", 0, 0)


@instruction("bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red", kind=Kind.CONTROL)
def _bar_red(ins: Instruction, linker: Linker) -> Decoded:
    kind = ins.mods[-1]
    target = write(ins.operands[0], kind, ins, linker)
    source = read(ins.operands[-1], "pred", ins, linker)
    how = "popc" if "popc" in ins.mods else "and" if "and" in ins.mods else "or"
    inner = _barrier(ins, linker, True, 1, 1)
    wait: ControlHandler = inner.run  # type: ignore[assignment]

    def finish(m: Machine, threads: Array) -> None:
        values = m.barriers.values[threads]
        total = {"popc": values.sum(), "and": values.all(), "or": values.any()}[how]
        target(m, threads, np.broadcast_to(constant(int(total), DTYPES[kind]), threads.shape))

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        m.barriers.values[sel] = source(m, sel)
        m.barriers.finish[pc] = finish
        return wait(m, sel, pc)

    return Decoded(run, inner.members)
