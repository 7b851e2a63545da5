"""A cycle estimate: when each instruction issues on one compute unit, and what the matrix units wait for.

The recorded waves (`trace.py`) are replayed in order: at each step the wave that can issue first does, of several the
one with the highest priority, of those the oldest ("CDNA 3" ISA, S_SETPRIO: priority, then the wave's age; older waves
go first, LLVM D124246). A wave issues at most every four cycles; vector, matrix, scalar, LDS and memory units take one
instruction at a time per SIMD (LDS and memory: per compute unit); LDS, memory and scalar loads complete later, in
order, and s_waitcnt waits for that. What other compute units do is not modelled: memory always answers after the same
time.

`Timing` prints the utilisation of the matrix units and what they waited for; it is an estimate for comparing schedules
of one kernel, not a prediction of its time.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.memory import Fault
from ..instructions.control import counters
from ..instructions.mfma import tile_of
from ..launch import prepare
from ..machine import Machine
from ..program import LDS_LIMIT, Program
from ..scheduler import Scheduler
from ..syntax import Literal, Word
from ..units import (
    BARRIER,
    BRANCH,
    END,
    LDS,
    MFMA,
    NOP,
    SALU,
    SMEM,
    TRANS,
    VALU,
    VMEM,
    WAIT,
    flops_of,
    passes_of,
    unit_of,
)
from .latencies import Latencies
from .trace import Event, Trace

_SLOW = ("v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32")


@dataclass(frozen=True, slots=True)
class Stall:
    """Cycles that waves waited before one instruction, for one reason."""

    cycles: int
    reason: str
    line: int
    text: str
    source: str | None

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        return f"{self.cycles:8} {self.reason:12} line {self.line}{source}: {self.text}"


@dataclass(frozen=True, slots=True)
class Issued:
    """One instruction of a wave: the cycles in which it occupies its unit; `ready`: when it could have issued, had
    nothing delayed it. A DMA's data is written to LDS later, which is no part of it."""

    wave: int
    simd: int
    unit: str
    ready: int
    start: int
    end: int
    line: int
    text: str


@dataclass(slots=True)
class Timing:
    """The estimate for `groups` workgroups that run side by side on one compute unit."""

    cycles: int
    groups: int
    waves: int
    matrix_cycles: int  # of all SIMDs together
    simds: int
    flops: int
    lds_cycles: int
    lds_conflicts: int  # of the LDS cycles, those that bank conflicts cost
    memory_bytes: int
    idle: dict[str, int] = field(default_factory=dict)  # cycles in which a matrix unit waited, by reason
    stalls: list[Stall] = field(default_factory=list)  # longest first
    issued: list[Issued] = field(default_factory=list)  # in order, where asked for

    @property
    def utilisation(self) -> float:
        """The share of the time in which the matrix units work."""
        return self.matrix_cycles / max(self.cycles * self.simds, 1)

    def __str__(self) -> str:
        total = max(self.cycles * self.simds, 1)
        lines = [
            f"{self.cycles} cycles for {self.groups} workgroups of {self.waves} waves on a compute unit (an estimate)",
            f"matrix units: {100 * self.utilisation:.1f}% busy, {self.flops / max(self.cycles, 1):.0f} flop a cycle",
            f"LDS: {100 * self.lds_cycles / max(self.cycles, 1):.1f}% busy, of which bank conflicts "
            f"{100 * self.lds_conflicts / max(self.cycles, 1):.1f}%",
            f"memory: {self.memory_bytes / max(self.cycles, 1):.1f} bytes a cycle",
            "the matrix units waited:",
        ]
        lines += [f"{100 * cycles / total:7.1f}% {reason}" for reason, cycles in self.idle.items()]
        lines.append("waves waited longest for something else (cycles of all waves):")
        # Waiting for a busy matrix unit is as it should be.
        lines += [str(stall) for stall in self.stalls if stall.reason != "matrix unit"][:10]
        return "\n".join(lines)


@dataclass(slots=True, eq=False)
class _Wave:
    events: list[Event]
    group: int
    simd: int
    at: int = 0
    ready: int = 0  # when the instruction before it lets the next one issue
    priority: int = 0
    arrived: int | None = None
    memory: list[int] = field(default_factory=list)  # when operations of vmcnt complete, in order
    local: list[int] = field(default_factory=list)  # of lgkmcnt
    waits: list[tuple[int, int, str]] = field(default_factory=list)  # (from, to, reason)

    @property
    def done(self) -> bool:
        return self.at >= len(self.events)


def estimate_gcn(
    text: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    dynamic_shared: int = 0,
    latencies: Latencies | None = None,
    groups: int | None = None,
    record: bool = False,
) -> Timing:
    """Run the first workgroup of a launch and estimate its cycles. Arguments are those of `run_gcn`; arrays are not
    changed. `groups` workgroups run side by side; by default as many as registers and LDS allow. `record`: say when
    each instruction was issued, too."""
    latencies = latencies or Latencies()
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    launch, _ = prepare(text, entry, grid, block, copies, dynamic_shared, "eager", 0, False)
    with np.errstate(all="ignore"):
        machine = Machine(launch, 0, 1)
        machine.trace = Trace(launch.program.arch, [[] for _ in range(launch.waves)])
        try:
            Scheduler(machine).run()
        except Fault:
            launch.report.raise_if_findings()
    if groups is None:
        groups = resident(launch.program, launch.lds_size, launch.waves, latencies)
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    return replay(launch.program, machine.trace, max(1, min(groups, total)), latencies, record)


def resident(program: Program, lds: int, waves: int, latencies: Latencies) -> int:
    """Workgroups that fit on one compute unit."""
    used = max(program.kernel.setting("next_free_vgpr", program.vector_rows), 1)
    per_simd = min(latencies.waves_per_simd, latencies.registers // (-(-used // 8) * 8))
    by_registers = per_simd * latencies.simds // waves
    by_lds = LDS_LIMIT[program.arch] // lds if lds else by_registers
    return max(1, min(by_registers, by_lds))


def replay(program: Program, trace: Trace, groups: int, latencies: Latencies, record: bool = False) -> Timing:
    """Issue the recorded instructions of `groups` copies of a workgroup."""
    return _Replay(program, trace, groups, latencies, record).run()


class _Replay:
    def __init__(self, program: Program, trace: Trace, groups: int, latencies: Latencies, record: bool) -> None:
        self.record = record
        self.issued: list[Issued] = []
        self.program = program
        self.code = program.code
        self.trace = trace
        self.groups = groups
        self.latencies = latencies
        self.units = [unit_of(step.ins) for step in self.code]
        self.waves = [
            _Wave(events, group, (group * len(trace.waves) + index) % latencies.simds)
            for group in range(groups)
            for index, events in enumerate(trace.waves)
        ]
        self.free: dict[tuple[str, int], int] = defaultdict(int)  # when a unit of a SIMD takes the next instruction
        self.busy: list[list[tuple[int, int, _Wave]]] = [[] for _ in range(latencies.simds)]
        self.stalls: dict[tuple[int, str], int] = defaultdict(int)
        self.arrivals: list[tuple[int, int]] = []  # LDS-DMA under way: (when its data comes, LDS cycles it takes)
        self.flops = self.lds = self.bytes = 0
        self.end = 0

    def run(self) -> Timing:
        while True:
            best: tuple[int, int, _Wave, str] | None = None
            for wave in self.waves:
                if wave.done or wave.arrived is not None:
                    continue
                when, reason = self.earliest(wave)
                key = (when, -wave.priority, wave, reason)
                if best is None or key[:2] < best[:2]:  # the waves stand in the order of their age
                    best = key
            if best is None:
                break
            self.issue(best[2], best[0], best[3])
        return self.result()

    def earliest(self, wave: _Wave) -> tuple[int, str]:
        """When the wave's next instruction can issue, and what it waits for until then."""
        event = wave.events[wave.at]
        unit = self.units[event.site]
        when, reason = wave.ready, "issue"
        if unit == WAIT:
            word = self.code[event.site].ins.operands[0]
            assert isinstance(word, Word)
            for name, count, pending in zip(
                ("vmcnt", "lgkmcnt"), counters(word.text), (wave.memory, wave.local), strict=True
            ):
                if count is not None and len(pending) > count and pending[-1 - count] > when:
                    when, reason = pending[-1 - count], name
            return when, reason
        for key, name in self.needs(unit, wave):
            if self.free[key] > when:
                when, reason = self.free[key], name
        return when, reason

    def needs(self, unit: str, wave: _Wave) -> list[tuple[tuple[str, int], str]]:
        """The units that an instruction occupies, and how waiting for them is called."""
        simd = wave.simd
        if unit in (VALU, TRANS):
            return [((VALU, simd), "vector unit")]
        if unit == MFMA:
            return [((VALU, simd), "vector unit"), ((MFMA, simd), "matrix unit")]
        if unit in (SALU, BRANCH):
            return [((SALU, simd), "scalar unit")]
        if unit == LDS:
            return [((LDS, simd), "LDS issue")]
        if unit in (VMEM, SMEM):
            return [((unit, simd), "memory issue")]
        return []

    def issue(self, wave: _Wave, when: int, reason: str) -> None:
        """Issue the wave's next instruction."""
        event, latencies = wave.events[wave.at], self.latencies
        step = self.code[event.site]
        unit = self.units[event.site]
        self.note(wave, wave.ready, when, reason, event.site)
        ready = wave.ready
        wave.at += 1
        wave.ready = when + latencies.issue
        start, length = when, latencies.issue
        for key, _ in self.needs(unit, wave):
            self.free[key] = when + latencies.issue
        if unit == MFMA:
            length = passes_of(step.ins, self.program.arch) * latencies.matrix_pass
            self.free[MFMA, wave.simd] = when + length
            self.busy[wave.simd].append((when, when + length, wave))
            self.flops += flops_of(tile_of(step.ins.name)[0])
            self.end = max(self.end, when + length)
        elif unit == TRANS or step.ins.name in _SLOW:
            self.free[VALU, wave.simd] = when + latencies.quarter_rate
        elif unit == LDS:
            start = self.shared_start(when)
            length = event.turns
            self.free[LDS, -1] = start + length
            self.lds += length
            self.complete(wave.local, start + length + latencies.lds)
        elif unit == VMEM:
            length = max(event.bytes // latencies.memory_bytes_per_cycle, 64 // latencies.address_lanes_per_cycle)
            start = max(when, self.free[VMEM, -1])
            self.free[VMEM, -1] = start + length
            self.bytes += event.bytes
            done = start + length + latencies.memory
            if event.turns:  # LDS-DMA writes what has come
                self.lds += event.turns
                heapq.heappush(self.arrivals, (done, event.turns))
            self.complete(wave.memory, done)
        elif unit == SMEM:
            self.complete(wave.local, when + latencies.scalar_load)
        elif unit == BRANCH:
            wave.ready = when + latencies.branch
        elif unit == NOP:
            self.nop(wave, when, step.ins.name, step.ins.operands)
        elif unit == BARRIER:
            wave.arrived = when
            self.release(wave.group)
        if unit == END or wave.done:
            wave.at = len(wave.events)
            self.release(wave.group)
        self.end = max(self.end, wave.ready)
        if self.record:
            number, ins = self.waves.index(wave), step.ins
            self.issued.append(Issued(number, wave.simd, unit, ready, start, start + length, ins.line, ins.text))

    def shared_start(self, when: int) -> int:
        """When the data share takes an instruction: behind those before it and the DMA that has come till then."""
        while self.arrivals and self.arrivals[0][0] <= max(when, self.free[LDS, -1]):
            arrival, turns = heapq.heappop(self.arrivals)
            self.free[LDS, -1] = max(self.free[LDS, -1], arrival) + turns
        return max(when, self.free[LDS, -1])

    @staticmethod
    def complete(pending: list[int], when: int) -> None:
        pending.append(max(when, pending[-1] if pending else 0))

    def nop(self, wave: _Wave, when: int, name: str, operands: Sequence[object]) -> None:
        operand = operands[0] if operands else None
        value = int(operand.value) if isinstance(operand, Literal) else 0
        if name == "s_nop":
            wave.ready = when + self.latencies.issue * (value + 1)
            self.note(wave, when + self.latencies.issue, wave.ready, "s_nop", wave.events[wave.at - 1].site)
        elif name == "s_sleep":
            wave.ready = when + 64 * value
        elif name == "s_setprio":
            wave.priority = value

    def release(self, group: int) -> None:
        """Let the waves of a workgroup go on, if all have come to the barrier or ended."""
        waves = [wave for wave in self.waves if wave.group == group and not wave.done]
        if not waves or any(wave.arrived is None for wave in waves):
            return
        last = max(wave.arrived or 0 for wave in waves)
        for wave in waves:
            self.note(wave, wave.ready, last, "barrier", wave.events[wave.at - 1].site)
            wave.ready = max(wave.ready, last + self.latencies.barrier)
            wave.arrived = None

    def note(self, wave: _Wave, start: int, end: int, reason: str, site: int) -> None:
        if end > start:
            self.stalls[site, reason] += end - start
            wave.waits.append((start, end, reason))

    def result(self) -> Timing:
        idle: dict[str, int] = defaultdict(int)
        for simd in range(self.latencies.simds):
            position = 0
            for start, end, wave in self.busy[simd]:
                self.explain(wave, position, start, idle)
                position = max(position, end)
            used = any(wave.simd == simd for wave in self.waves)
            idle["end" if used else "no wave"] += max(self.end - position, 0)
        matrix = sum(end - start for simd in self.busy for start, end, _ in simd)
        stalls = []
        for (site, reason), cycles in sorted(self.stalls.items(), key=lambda item: -item[1]):
            ins = self.code[site].ins
            stalls.append(Stall(cycles, reason, ins.line, ins.text, ins.source))
        return Timing(
            self.end,
            self.groups,
            len(self.trace.waves),
            matrix,
            self.latencies.simds,
            self.flops,
            self.lds,
            self.trace.conflicts * self.groups,
            self.bytes,
            dict(sorted(idle.items(), key=lambda item: -item[1])),
            stalls,
            self.issued,
        )

    @staticmethod
    def explain(wave: _Wave, start: int, end: int, idle: dict[str, int]) -> None:
        """Why a matrix unit was idle: what the wave that used it next waited for in that time."""
        left = end - start
        if left <= 0:
            return
        for first, last, reason in reversed(wave.waits):
            if last <= start:
                break
            overlap = min(last, end) - max(first, start)
            if overlap > 0 and reason != "matrix unit":
                idle[reason] += overlap
                left -= overlap
        idle["other instructions"] += max(left, 0)
