"""Kernels in LLVM IR, compiled by LLVM, run right under every schedule and without findings."""

from __future__ import annotations

import re

import numpy as np
import pytest

from minitile.runtime.sim import SimulationError, run_gcn
from tests.sim.amdgcn.harness import SCHEDULES, assemble

VECTOR_ADD = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %g, 256
  %i = add i32 %m, %t
  %p = icmp slt i32 %i, %n
  br i1 %p, label %inside, label %end
inside:
  %j = sext i32 %i to i64
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %j
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %j
  %pc = getelementptr float, ptr addrspace(1) %c, i64 %j
  %va = load float, ptr addrspace(1) %pa
  %vb = load float, ptr addrspace(1) %pb
  %v = fadd float %va, %vb
  store float %v, ptr addrspace(1) %pc
  br label %end
end:
  ret void
}
"""

# One workgroup a row; each work-item visits every 256th column, partial results are combined through LDS.
SOFTMAX = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare float @llvm.exp.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare void @llvm.amdgcn.s.barrier()
@parts = internal addrspace(3) global [256 x float] undef
define amdgpu_kernel void @softmax(ptr addrspace(1) %a, ptr addrspace(1) %c, i32 %n) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %g, %n
  %slot = getelementptr float, ptr addrspace(3) @parts, i32 %t
  br label %max
max:
  %i = phi i32 [%t, %entry], [%inext, %max_body]
  %mx = phi float [0xFFF0000000000000, %entry], [%mx2, %max_body]
  %more = icmp slt i32 %i, %n
  br i1 %more, label %max_body, label %max_done
max_body:
  %ix = add i32 %base, %i
  %i64 = sext i32 %ix to i64
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %i64
  %va = load float, ptr addrspace(1) %pa
  %mx2 = call float @llvm.maxnum.f32(float %mx, float %va)
  %inext = add i32 %i, 256
  br label %max
max_done:
  store float %mx, ptr addrspace(3) %slot
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %reduce
reduce:
  %j = phi i32 [0, %max_done], [%j1, %reduce]
  %r = phi float [0xFFF0000000000000, %max_done], [%r1, %reduce]
  %pj = getelementptr float, ptr addrspace(3) @parts, i32 %j
  %vj = load float, ptr addrspace(3) %pj
  %r1 = call float @llvm.maxnum.f32(float %r, float %vj)
  %j1 = add i32 %j, 1
  %cj = icmp eq i32 %j1, 256
  br i1 %cj, label %sum_start, label %reduce
sum_start:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %sum
sum:
  %k = phi i32 [%t, %sum_start], [%knext, %sum_body]
  %s = phi float [0.0, %sum_start], [%s2, %sum_body]
  %kmore = icmp slt i32 %k, %n
  br i1 %kmore, label %sum_body, label %sum_done
sum_body:
  %kx = add i32 %base, %k
  %k64 = sext i32 %kx to i64
  %ka = getelementptr float, ptr addrspace(1) %a, i64 %k64
  %kc = getelementptr float, ptr addrspace(1) %c, i64 %k64
  %kv = load float, ptr addrspace(1) %ka
  %kd = fsub float %kv, %r1
  %ke = call float @llvm.exp.f32(float %kd)
  store float %ke, ptr addrspace(1) %kc
  %s2 = fadd float %s, %ke
  %knext = add i32 %k, 256
  br label %sum
sum_done:
  store float %s, ptr addrspace(3) %slot
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  br label %total
total:
  %u = phi i32 [0, %sum_done], [%u1, %total]
  %w = phi float [0.0, %sum_done], [%w1, %total]
  %pu = getelementptr float, ptr addrspace(3) @parts, i32 %u
  %vu = load float, ptr addrspace(3) %pu
  %w1 = fadd float %w, %vu
  %u1 = add i32 %u, 1
  %cu = icmp eq i32 %u1, 256
  br i1 %cu, label %divide, label %total
divide:
  %d = phi i32 [%t, %total], [%dnext, %divide_body]
  %dmore = icmp slt i32 %d, %n
  br i1 %dmore, label %divide_body, label %end
divide_body:
  %dx = add i32 %base, %d
  %d64 = sext i32 %dx to i64
  %dc = getelementptr float, ptr addrspace(1) %c, i64 %d64
  %dv = load float, ptr addrspace(1) %dc
  %dq = fdiv float %dv, %w1
  store float %dq, ptr addrspace(1) %dc
  %dnext = add i32 %d, 256
  br label %divide
end:
  ret void
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [1, 17, 256, 1009])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_vector_add(arch, size, schedule):
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal(size).astype(np.float32) for _ in range(2))
    c = np.full(size, np.nan, np.float32)
    text = assemble(VECTOR_ADD, arch)
    report = run_gcn(text, "add", (-(-size // 256),), (256,), [a, b, c, np.int32(size)], schedule=schedule)
    assert not report.findings
    np.testing.assert_array_equal(c, a + b)
    assert report.instructions["s_endpgm"] == 4 * -(-size // 256)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("arch", "level"), [("gfx942", 3), ("gfx950", 3), ("gfx950", 0)])
def test_softmax(arch, level, schedule):
    rows, columns = 3, 331
    rng = np.random.default_rng(1)
    a = (4 * rng.standard_normal((rows, columns))).astype(np.float32)
    c = np.full((rows, columns), np.nan, np.float32)
    text = assemble(SOFTMAX, arch, level)
    report = run_gcn(text, "softmax", (rows,), (256,), [a, c, np.int32(columns)], schedule=schedule)
    assert [str(finding) for finding in report.findings] == []
    exact = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(c, exact, rtol=2e-6)


def test_an_unknown_instruction_is_named():
    text = assemble(VECTOR_ADD).replace("v_add_f32_e32", "v_frobnicate_f32_e32")
    with pytest.raises(SimulationError, match=r"GCN line \d+: .*does not know the instruction v_frobnicate_f32_e32"):
        run_gcn(text, "add", (1,), (256,), [None, None, None, 0])


def test_a_kernel_without_an_end():
    text = assemble(VECTOR_ADD)
    with pytest.raises(SimulationError, match="runs past its end"):
        run_gcn(text.replace("\ts_endpgm", "\ts_nop 0"), "add", (1,), (256,), [None, None, None, 0])
    with pytest.raises(SimulationError, match="past the kernel's end"):
        run_gcn(re.sub(r"(s_cbranch_execz) \S+", r"\1 .Lfunc_end0", text), "add", (1,), (256,), [None, None, None, 0])


def test_one_element_too_far():
    a = np.zeros(255, np.float32)
    c = np.zeros(256, np.float32)
    report = run_gcn(assemble(VECTOR_ADD), "add", (1,), (256,), [a, c, c, np.int32(256)])
    (finding,) = report.findings
    assert (finding.kind, finding.buffer, finding.bytes, report.stopped) == ("out_of_bounds", "a", (1020, 1024), True)
    assert finding.first.thread == (255, 0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": [None] * 3}, "takes 4 arguments"),
        ({"args": [None, None, None, np.int64(1)]}, "has 4 bytes, but 8 were given"),
        ({"block": (2000,)}, "more than the 256"),
        ({"entry": "sub"}, "no kernel 'sub'; it has: add"),
        ({"schedule": "never"}, "schedule"),
    ],
)
def test_what_does_not_fit(change, message):
    given = {"entry": "add", "grid": (1,), "block": (256,), "args": [None, None, None, 0]} | change
    with pytest.raises(SimulationError, match=message):
        run_gcn(assemble(VECTOR_ADD), **given)
