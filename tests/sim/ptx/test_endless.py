"""Loops that never end: found where a round changes nothing, long before the limit; loops that end are left alone."""

from __future__ import annotations

import time

import numpy as np
import pytest

from minitile.runtime.sim import Report, SimulationError, run_gcn, run_ptx

PTX = """.version 8.0
.target sm_80
.address_size 64
.file 1 "kernel.py"
.visible .entry k(.param .u64 A)
{
.reg .pred %p;
.reg .b32 %r<9>;
.reg .b64 %a;
ld.param.u64 %a, [A];
cvta.to.global.u64 %a, %a;
mov.u32 %r1, 0;
mov.u32 %r3, %tid.x;
BODY
ret;
}
"""
GCN = """\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.file 1 "kernel.py"
k:
\ts_load_dwordx2 s[4:5], s[0:1], 0x0
\ts_waitcnt lgkmcnt(0)
\ts_mov_b32 s6, 0
\tv_mov_b32_e32 v1, 0
BODY
\ts_endpgm
\t.amdhsa_kernel k
\t.amdhsa_user_sgpr_count 2
\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t.amdhsa_kernarg_size 8
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset: 0
        .size: 8
        .value_kind: global_buffer
    .name: k
...
\t.end_amdgpu_metadata
"""


def ptx(body: str, block: int = 64) -> tuple[Report, np.ndarray]:
    a = np.zeros(64, np.uint32)
    return run_ptx(PTX.replace("BODY", body), "k", (2,), (block,), [a]), a


def gcn(body: str, block: int = 128) -> tuple[Report, np.ndarray]:
    a = np.zeros(64, np.uint32)
    return run_gcn(GCN.replace("BODY", body), "k", (2,), (block,), [a]), a


@pytest.mark.parametrize(
    "body",
    [
        ".loc 1 7 1\nL: bra L;",
        "L:\n.loc 1 7 1\nld.global.u32 %r1, [%a];\nsetp.eq.u32 %p, %r1, 0;\n@%p bra L;",
        "L: xor.b32 %r1, %r1, 1;\nsetp.lt.u32 %p, %r1, 2;\n.loc 1 7 1\n@%p bra L;",  # a period of two rounds
        "setp.lt.u32 %p, %r3, 32;\n.loc 1 7 1\nL: @%p bra L;\nbar.sync 0;",  # the others wait at a barrier
    ],
)
def test_ptx_state_repeats(body: str) -> None:
    start = time.process_time()
    report, _ = ptx(body)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert finding.first.source == "kernel.py:7"
    assert report.stopped
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "body",
    [
        "\t.loc 1 7 1\nL:\n\ts_branch L",
        "L:\n\tglobal_load_dword v1, v1, s[4:5]\n\ts_waitcnt vmcnt(0)\n\tv_and_b32_e32 v1, 0, v1\n"
        "\t.loc 1 7 1\n\ts_branch L",
        "L:\n\ts_xor_b32 s6, s6, 1\n\ts_cmp_lt_u32 s6, 2\n\t.loc 1 7 1\n\ts_cbranch_scc1 L",
    ],
)
def test_gcn_state_repeats(body: str) -> None:
    start = time.process_time()
    report, _ = gcn(body)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert finding.first.source == "kernel.py:7"
    assert time.process_time() - start < 5


COUNTS = "L: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p, %r1, 5000;\n@%p bra L;\nst.global.u32 [%a], %r1;"
STORES = (
    "L: ld.global.u32 %r1, [%a];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%a], %r1;\nmov.u32 %r2, %r1;\n"
    "mov.u32 %r1, 0;\nsetp.lt.u32 %p, %r2, 5000;\nmov.u32 %r2, 0;\n@%p bra L;"
)


@pytest.mark.parametrize(("body", "last"), [(COUNTS, 5000), (STORES, 5000)])
def test_ptx_loops_that_end(body: str, last: int) -> None:
    """One that counts, and one all of whose progress is in memory."""
    report, a = ptx(body, block=1)
    assert a[0] == last
    assert not report.stopped


def test_gcn_loops_that_end() -> None:
    body = "L:\n\ts_add_u32 s6, s6, 1\n\ts_cmp_lt_u32 s6, 5000\n\ts_cbranch_scc1 L\n\tv_mov_b32_e32 v2, s6\n"
    report, a = gcn(body + "\tglobal_store_dword v1, v2, s[4:5]", block=1)
    assert a[0] == 5000
    assert not report.stopped


def test_the_limit_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_SIMULATED_LOOPS", "5000")
    with pytest.raises(SimulationError, match=r"5000 backward branches.*kernel.py:7.*MINITILE_SIMULATED_LOOPS"):
        ptx("L: add.u32 %r1, %r1, 2;\nsetp.ne.u32 %p, %r1, 1;\n.loc 1 7 1\n@%p bra L;")
    report, _ = gcn("L:\n\ts_add_u32 s6, s6, 2\n\ts_cmp_lg_u32 s6, 1\n\t.loc 1 7 1\n\ts_cbranch_scc1 L")
    assert "5000 backward branches" in report.findings[0].message
    monkeypatch.setenv("MINITILE_SIMULATED_LOOPS", "many")
    with pytest.raises(SimulationError, match="MINITILE_SIMULATED_LOOPS is a number"):
        ptx("ret;")
