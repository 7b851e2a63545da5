"""The state of one batch of workgroups that run side by side, and how findings are made.

All waves of the batch are numbered; wave w belongs to workgroup `group[w]` of the batch. Scalar registers are an array
[register, wave], vector registers [register, wave, lane], the accumulation registers behind the others. EXEC lives in
its scalar registers; `active` is the same as booleans, and `mask` is that of the waves that execute now (None: all).

What is fixed: the machine executes waves in lockstep as long as they agree, which is one legal order. What is open on
the hardware, when memory operations complete, is up to `queue.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..core.arguments import Dim
from ..core.memory import Arena, Fault
from ..core.report import Access, Finding, Report
from ..core.scalars import Array, Sel, every
from .memory import POISON, Global
from .queue import Queue
from .syntax import EXEC, SCALARS

if TYPE_CHECKING:
    from .program import Program
    from .race.global_memory import GlobalRaces
    from .race.lds import LdsRaces
    from .timing.trace import Trace

LANES = 64
_MAX_FINDINGS = 64


@dataclass(slots=True)
class Launch:
    """One launch: its geometry, its memory, its options, and what has been found so far."""

    program: Program
    grid: Dim
    block: Dim
    lds_size: int
    globals: Global
    kernarg: int
    schedule: str
    check: bool
    rng: np.random.Generator
    report: Report = field(default_factory=Report)
    seen: set[tuple[object, ...]] = field(default_factory=set)
    only_first: bool = False  # a finding ends the run

    @property
    def threads(self) -> int:
        """Work-items of a workgroup."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return -(-self.threads // LANES)


class Machine:
    """Registers, LDS and pending memory operations of the workgroups first .. first + groups - 1 of the grid."""

    race: LdsRaces | None = None
    global_race: GlobalRaces | None = None
    trace: Trace | None = None

    def __init__(self, launch: Launch, first: int, groups: int) -> None:
        self.launch = launch
        self.program = program = launch.program
        self.first = first
        self.groups = groups
        self.per_group = launch.waves
        self.waves = waves = groups * launch.waves
        self.wave = np.arange(waves)
        self.group = self.wave // launch.waves
        self.s = np.full((SCALARS, waves), 0xA5A5A5A5, np.uint32)
        self.v = np.full((program.vector_rows, waves, LANES), 0xA5A5A5A5, np.uint32)
        self.written = np.zeros((program.vector_rows, waves), bool)
        self.scc = np.zeros(waves, bool)
        self.active = np.zeros((waves, LANES), bool)
        self.mask: Array | None = None
        self.current: Sel = slice(0, waves)
        self.globals = launch.globals
        self.lds_stride = -(-max(launch.lds_size, 16) // 16) * 16
        self.lds = Arena(self.lds_stride * groups, POISON)
        self.private_size = -(-program.kernel.setting("private_segment_fixed_size") // 16) * 16  # of each lane
        self.scratch = Arena(self.private_size * waves * LANES, POISON)
        self.passed = np.zeros(waves, np.int32)  # barriers that a wave has arrived at
        self.waiting = np.zeros(waves, bool)
        self.ended = np.zeros(waves, bool)
        self.released: list[tuple[int, Array]] = []
        self.resume = np.zeros(waves, np.int64)
        self.queue = Queue(self)
        self.site = 0
        self.clock = 0
        program.start_waves(self)

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def refresh(self, sel: Sel) -> None:
        """These waves execute now: note their active lanes."""
        self.current = sel
        active = self.active[sel]
        self.mask = None if every(active) else active.copy()

    def exec_changed(self, sel: Sel) -> None:
        """EXEC's scalar registers were written for these waves."""
        words = np.ascontiguousarray(self.s[EXEC : EXEC + 2, sel].T)
        self.active[sel] = unpack(words)
        self.refresh(self.current)

    def lanes(self, sel: Sel) -> Array:
        """The active lanes of these waves: booleans [waves, 64], a copy."""
        active: Array = self.active[sel].copy()
        return active

    def put(self, row: int, sel: Sel, value: Array, enabled: Array | None = None) -> None:
        """Write a vector register in the active (and enabled) lanes."""
        target = self.v[row]
        self.written[row, sel] = True
        mask = self.mask
        if enabled is not None:
            mask = enabled if mask is None else mask & enabled
        if mask is None:
            target[sel] = value
        elif isinstance(sel, slice):
            np.copyto(target[sel], value, where=mask)
        else:
            held = target[sel]
            np.copyto(held, value, where=mask)
            target[sel] = held

    # -- who is who, in messages ---------------------------------------------------------------------------------------

    def position(self, wave: int) -> tuple[int, Dim]:
        """(number of the wave in its workgroup, the workgroup's coordinates)."""
        (gx, gy, _), group = self.launch.grid, self.first + int(self.group[wave])
        return wave % self.per_group, (group % gx, group // gx % gy, group // (gx * gy))

    def access(self, what: str, site: int, wave: int | None = None, lane: int = 0) -> Access:
        """One side of a finding: what happened at the instruction with this index."""
        ins = self.program.code[site].ins
        if wave is None:
            return Access(what, ins.line, ins.text, ins.source, isa="GCN")
        number, group = self.position(wave)
        bx, by, _ = self.launch.block
        item = number * LANES + lane
        thread = (item % bx, item // bx % by, item // (bx * by))
        return Access(what, ins.line, ins.text, ins.source, thread, group, isa="GCN")

    def find(self, finding: Finding, stop: bool = False) -> None:
        """Add a finding, unless the same defect at the same lines is known already."""
        second = finding.second.line if finding.second else None
        key = (finding.kind, finding.hazard, finding.space, finding.first.line, second)
        launch = self.launch
        if key not in launch.seen and len(launch.report.findings) < _MAX_FINDINGS:
            launch.seen.add(key)
            launch.report.findings.append(finding)
        if stop or launch.only_first:
            raise Fault(finding.kind)


def unpack(words: Array) -> Array:
    """Lane masks [n, 2] as booleans [n, 64]."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits.view(bool)


def pack(lanes: Array) -> Array:
    """Booleans [n, 64] as lane masks [n, 2]."""
    return np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)


def indices(m: Machine, sel: Sel) -> Array:
    """The numbers of the selected waves."""
    numbers: Array = m.wave[sel]
    return numbers
