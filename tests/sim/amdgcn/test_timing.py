"""The cycle estimate, on programs whose cycles can be told by hand, and LDS bank conflicts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import estimate_gcn
from minitile.runtime.sim.amdgcn.timing.latencies import Latencies
from minitile.runtime.sim.amdgcn.timing.trace import bank_turns, phases
from tests.sim.amdgcn.gemm_ir import gemm_ir
from tests.sim.amdgcn.harness import assemble, text_of

LANE = np.arange(64)
ZERO = "".join(f"v_mov_b32 v{index}, 0\n" for index in range(1, 32))


def cycles(body, waves=4, arch="gfx950", lds=0, **options):
    text = text_of(body, 1, arch, lds)
    return estimate_gcn(text, "k", (8,), (64 * waves,), [np.zeros(4096, np.uint32)], **options)


@pytest.mark.parametrize(
    ("name", "arch", "passes"),
    [
        ("f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[16:19]", "gfx950", 4),
        ("f32_32x32x16_bf16 v[16:31], v[4:7], v[8:11], v[16:31]", "gfx950", 8),
        ("f32_32x32x8_f16 v[16:31], v[4:5], v[8:9], v[16:31]", "gfx942", 8),
        ("f32_16x16x128_f8f6f4 v[16:19], v[4:11], v[4:11], v[16:19]", "gfx950", 8),
        ("f32_16x16x128_f8f6f4 v[16:19], v[4:7], v[4:7], v[16:19] cbsz:4 blgp:4", "gfx950", 4),
    ],
)
def test_matrix_instructions_in_a_row(name, arch, passes):
    body = ZERO + "\n".join([f"v_mfma_{name}"] * 100)
    timing = cycles(body, arch=arch, groups=1)
    assert timing.matrix_cycles == 4 * 100 * 4 * passes
    assert timing.cycles == pytest.approx(100 * 4 * passes, abs=200)
    assert timing.utilisation > 0.85


def test_two_waves_share_a_matrix_unit():
    body = ZERO + "\n".join(["v_mfma_f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[16:19]"] * 50)
    one, two = cycles(body, 4, groups=1), cycles(body, 8, groups=1)
    assert two.cycles == pytest.approx(one.cycles + 50 * 16, rel=0.1)


def test_what_is_waited_for():
    latencies = Latencies()
    load = "s_load_dwordx2 s[4:5], s[0:1], 0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v1, 0\n"
    matrix = "v_mfma_f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[16:19]\n"
    body = ZERO + load + matrix + "global_load_dword v30, v1, s[4:5]\ns_waitcnt vmcnt(0)\n" + matrix
    timing = cycles(body, groups=1)
    assert latencies.memory - 20 < timing.idle["vmcnt"] / 4 < latencies.memory + 40
    assert timing.stalls[0].reason == "vmcnt"
    assert timing.stalls[0].text == "s_waitcnt vmcnt(0)"
    slow = cycles(body, groups=1, latencies=Latencies(memory=2000))
    assert slow.cycles - timing.cycles == 1400
    text = str(timing)
    assert "% vmcnt" in text
    assert "matrix units:" in text


def test_loads_in_flight_overlap():
    load = "s_load_dwordx2 s[4:5], s[0:1], 0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v1, 0\n"
    one = "global_load_dword v{}, v1, s[4:5]\n"
    apart = load + "".join(one.format(index) + "s_waitcnt vmcnt(0)\n" for index in range(2, 10))
    together = load + "".join(one.format(index) for index in range(2, 10)) + "s_waitcnt vmcnt(0)\n"
    assert cycles(apart, groups=1).cycles > 6 * cycles(together, groups=1).cycles - 2000
    assert cycles(together, groups=1).cycles < 1100


def test_a_late_wave_holds_the_others():
    body = """v_readfirstlane_b32 s4, v0
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 .Lgo
s_sleep 100
.Lgo:
s_barrier"""
    timing = cycles(body, groups=1)
    assert any(stall.reason == "barrier" and stall.cycles > 6000 for stall in timing.stalls)


@pytest.mark.parametrize(
    ("arch", "size", "address", "turns"),
    [
        ("gfx950", 4, 4 * LANE, 2),
        ("gfx942", 4, 4 * LANE, 2),
        ("gfx942", 4, 4 * (LANE % 32), 2),
        ("gfx942", 4, 8 * LANE, 4),
        ("gfx950", 4, 8 * LANE, 4),
        ("gfx942", 4, 128 * LANE, 64),
        ("gfx950", 4, 256 * LANE, 128),
        ("gfx950", 4, 0 * LANE, 2),
        ("gfx950", 16, 16 * LANE, 8),
        ("gfx942", 16, 16 * LANE, 8),
        ("gfx950", 8, 8 * LANE, 4),
        ("gfx942", 8, 8 * LANE, 4),
        ("gfx950", 16, 256 * LANE, 128),
    ],
)
def test_bank_conflicts(arch, size, address, turns):
    assert bank_turns(arch, address, size, None)[0] == turns


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 12, 16])
def test_phases_cover_the_lanes(arch, size):
    assert sorted(lane for group in phases(arch, size) for lane in group) == list(range(64))


def test_inactive_lanes_cost_nothing():
    lanes = LANE < 16
    assert bank_turns("gfx942", 4 * LANE, 4, lanes) == (1, 1)
    assert bank_turns("gfx950", 4 * LANE, 4, LANE < 0) == (0, 0)


def test_gemm():
    """Two buffers against one: the copies of the next step overlap with this one's multiplications."""
    steps = 8
    shape = (64, 32 * steps)
    args = [np.zeros(shape, ml_dtypes.bfloat16), np.zeros(shape, ml_dtypes.bfloat16), np.zeros((64, 64), np.float32)]
    args += [np.int32(shape[1]), np.int32(64)]
    double = estimate_gcn(assemble(gemm_ir(steps)), "gemm", (1, 1), (256,), args)
    single = estimate_gcn(assemble(gemm_ir(steps, double=False)), "gemm", (1, 1), (256,), args)
    assert double.matrix_cycles == single.matrix_cycles == 4 * 4 * steps * 16
    assert double.cycles < single.cycles
    assert double.memory_bytes == 64 * 64 * 4 + steps * 8192
    assert max(double.idle, key=double.idle.get) == "vmcnt"
    assert (args[2] == 0).all()
