"""Two published schedules of a 256x256x64 GEMM on gfx950, as what they do to LDS: copies, reads, waits and barriers.
What is wrong with each is found whatever the order in which memory answers, and what cures it leaves nothing to find.

Multiplications are left out but for the wait that they need. A workgroup has eight waves, two along M and four along N.

Four stages     per K tile, by (kp, half of N): reads of the stage, two copies of the next tile, multiply. As first
                written down, stage 3 waits by `vmcnt(0); s_barrier` with its reads under way, and other waves' copies
                of the next round overwrite what they read (triton #11696 has the same wait missing).
Eight phases    per two K tiles, by half tiles of 128x64 (HipKittens, 256_256_64_32_with16x32.cpp): in each a half tile
                is read and another one copied, with a barrier before and behind the multiplication; vmcnt(6) in the
                fourth and eighth; the two wave rows are a barrier apart. The fourth phase reads the first half of B's
                other version before the vmcnt(6) that covers it; vmcnt(10), one barrier earlier, is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from minitile.runtime.sim import run_gcn
from tests.sim.amdgcn.harness import SCHEDULES, text_of

WAVES, HALF = 8, 16384  # bytes of half a tile: 128 x 64 of 16 bits
ADDRESS = {"A": 4, "B": 5}  # vector registers: where a wave's rows of A and B begin
START = """s_load_dwordx2 s[4:5], s[0:1], 0
v_lshrrev_b32 v2, 6, v0
v_readfirstlane_b32 s3, v2
v_and_b32 v3, 63, v0
s_mov_b32 s6, 0x1000000
s_mov_b32 s7, 0x27000
v_lshlrev_b32 v1, 4, v0
s_lshl_b32 s8, s3, 10
s_lshr_b32 s9, s3, 2
s_and_b32 s10, s3, 3
v_lshlrev_b32 v3, 4, v3
s_lshl_b32 s11, s9, 13
v_add_u32 v4, s11, v3
s_lshl_b32 s11, s10, 12
v_add_u32 v5, s11, v3
s_waitcnt lgkmcnt(0)"""


@dataclass
class Program:
    """Lines of assembly. Buffers by name, "A" or "B", version and half, are HALF bytes each."""

    lines: list[str] = field(default_factory=lambda: [START])
    reads: int = 0

    def at(self, name: str) -> int:
        """The first byte of a half tile called A00 (matrix, version, half)."""
        return HALF * ("AB".index(name[0]) * 4 + int(name[1]) * 2 + int(name[2]))

    def copy(self, name: str, part: int | None = None) -> None:
        """Half a tile by all waves, two instructions each, or one of the two."""
        for n in (0, 1) if part is None else (part,):
            self.lines.append(f"s_add_u32 m0, s8, {self.at(name) + n * HALF // 2}")
            self.lines.append("s_nop 0\nbuffer_load_dwordx4 v1, s[4:7], 0 offen lds")

    def read(self, name: str, part: slice = slice(None)) -> None:
        """The wave's own rows of half a tile: of A 64, eight instructions; of B 32, four."""
        count = 8 if name[0] == "A" else 4
        for n in range(count)[part]:
            high, low = divmod(self.at(name) + 1024 * n, 65536)
            to = 16 + 4 * (self.reads % 48)
            self.reads += 1
            self.lines.append(f"v_add_u32 v6, {high * 65536}, v{ADDRESS[name[0]]}")
            self.lines.append(f"ds_read_b128 v[{to}:{to + 3}], v6 offset:{low}")

    def wait(self, text: str) -> None:
        self.lines.append(f"s_waitcnt {text}")

    def barrier(self) -> None:
        self.lines.append("s_barrier")

    def only(self, row: int, label: str) -> None:
        """A barrier for one wave row."""
        self.lines.append(f"s_cmp_lg_u32 s9, {row}\ns_cbranch_scc1 .L{label}\ns_barrier\n.L{label}:")

    def findings(self, schedule: str, seed: int = 0):
        text = text_of("\n".join(self.lines), 1, lds=8 * HALF)
        memory = np.zeros(64 * 1024, np.uint8)
        return run_gcn(text, "k", (1,), (64 * WAVES,), [memory], schedule=schedule, seed=seed).findings


def four_stages(tiles: int, stage3: str = "vmcnt(0)", prologue: bool = True, barrier: bool = True) -> Program:
    """`stage3` is waited for in the last stage of a tile."""
    p = Program()
    for name in ("A00", "A01", "B00", "B01"):
        p.copy(name)
    if prologue:
        p.wait("vmcnt(0)")
        p.barrier()
    for k in range(tiles):
        now, then = k % 2, 1 - k % 2
        copies = [(f"{matrix}{then}{half}", part) for matrix in "AB" for half in (0, 1) for part in (0, 1)]
        for stage in range(4):
            kp, half = divmod(stage, 2)
            if half == 0:  # A of this kp: half of the wave's instructions for each half tile
                p.read(f"A{now}0", slice(kp, None, 2))
                p.read(f"A{now}1", slice(kp, None, 2))
            p.read(f"B{now}{half}", slice(kp, None, 2))
            if k + 1 < tiles:
                for name, part in copies[2 * stage : 2 * stage + 2]:
                    p.copy(name, part)
                if stage == 3:
                    p.wait(stage3)
                    if barrier:
                        p.barrier()
            p.wait("lgkmcnt(0)")  # the multiplication's own
    return p


def eight_phases(tiles: int, cured: bool) -> Program:
    """`tiles`: even, 4 or more."""
    p = Program()
    for name in ("B00", "A00", "B01", "A01"):
        p.copy(name)
    p.only(1, "late")
    p.wait("vmcnt(4)")
    p.barrier()
    for name in ("B10", "A10", "B11"):
        p.copy(name)
    p.wait("vmcnt(6)")
    p.barrier()

    def phase(reads: tuple[str, ...], copied: str = "", before: str = "", multiply: str = "lgkmcnt(0)") -> None:
        for name in reads:
            p.read(name)
        if copied:
            p.copy(copied)
        if before:
            p.wait(before)
        p.barrier()
        if multiply:
            p.wait(multiply)
        p.barrier()

    for _ in range(0, tiles - 2, 2):
        phase(("B00", "A00"), "A11", "lgkmcnt(8)")
        phase(("B01",), "B00")
        phase(("A01",), "A00", "vmcnt(10)" if cured else "")
        phase(("B10",), "B01", "vmcnt(6)", "")
        phase(("A10",), "A01", "lgkmcnt(8)")
        phase(("B11",), "B10")
        phase(("A11",), "A10")
        phase((), "B11", "vmcnt(6)", "")
    phase(("B00", "A00"), "A11")
    phase(("B01",))
    phase(("A01",), "", "vmcnt(4)")
    phase(("B10", "A10"), "", "vmcnt(2)")
    phase(("B11",), "", "vmcnt(0)")
    phase(("A11",))
    p.only(0, "early")
    return p


def hazards(program: Program, schedule: str, seed: int = 0) -> set[str]:
    return {finding.hazard for finding in program.findings(schedule, seed)}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stage_3_as_written(schedule):
    """Reads are under way past the barrier; copies come to them. What is found names both."""
    findings = four_stages(5).findings(schedule)
    assert {finding.hazard for finding in findings} == {"WAR"}
    assert all(f.first.text.endswith("lds") and f.second.text.startswith("ds_read") for f in findings)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", [1, 2, 3, 6])
def test_stage_3_cured(tiles, schedule):
    for seed in range(2):
        assert hazards(four_stages(tiles, "vmcnt(0) lgkmcnt(0)"), schedule, seed) == set()


@pytest.mark.parametrize(
    ("broken", "hazard"),
    [
        ({"stage3": "vmcnt(2) lgkmcnt(0)"}, "RAW"),
        ({"stage3": "lgkmcnt(0)"}, "RAW"),
        ({"barrier": False}, "RAW"),
        ({"prologue": False}, "RAW"),
    ],
    ids=str,
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_other_ways_to_get_it_wrong(broken, hazard, schedule):
    found = hazards(four_stages(5, **{"stage3": "vmcnt(0) lgkmcnt(0)", **broken}), schedule)
    assert hazard in found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_eight_phases_read_too_early(schedule):
    """B10 is read before the vmcnt(6) that covers its copy."""
    program = eight_phases(6, cured=False)
    findings = program.findings(schedule)
    assert {finding.hazard for finding in findings} == {"RAW"}
    begin = program.at("B10")
    assert all(begin <= finding.bytes[0] < begin + HALF for finding in findings)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", [4, 6, 8])
def test_eight_phases_cured(tiles, schedule):
    for seed in range(2):
        assert hazards(eight_phases(tiles, cured=True), schedule, seed) == set()
