"""Wait states: LLVM's code keeps them all, and with one fewer in any of its s_nops the checker reports."""

from __future__ import annotations

import re

import numpy as np
import pytest

from minitile.runtime.sim.amdgcn.hazards import find_hazards
from minitile.runtime.sim.amdgcn.program import load_program
from tests.sim.amdgcn.gemm_ir import gemm_ir
from tests.sim.amdgcn.harness import assemble, lanes, text_of
from tests.sim.amdgcn.test_kernels import SOFTMAX
from tests.sim.amdgcn.test_llvm_operations import KERNEL

OPERATION = """  %q = fdiv float %a, %b
  %f = fptosi float %q to i32
  %m = srem i32 %f, 12345
  %r = atomicrmw add ptr addrspace(1) %pc, i32 %m syncscope("agent") monotonic
  %c = sitofp i32 %r to float"""
TEXTS = {
    "softmax": SOFTMAX,
    "gemm": gemm_ir(3),
    "k": KERNEL.format(body=OPERATION, source="float", result="float", who="item", declarations=""),
}


def hazards(text, name):
    program = load_program(text, name)
    return find_hazards(program, [1] * len(program.code))


@pytest.mark.parametrize(
    ("name", "arch"), [("softmax", "gfx942"), ("softmax", "gfx950"), ("gemm", "gfx950"), ("k", "gfx942")]
)
def test_every_wait_state_of_llvm_is_needed(name, arch):
    text = assemble(TEXTS[name], arch)
    assert [str(finding) for finding in hazards(text, name)] == []
    lines = text.split("\n")
    tried = 0
    for index, line in enumerate(lines):
        match = re.fullmatch(r"\ts_nop (\d+)", line)
        if match:
            fewer = "" if match[1] == "0" else f"\ts_nop {int(match[1]) - 1}"
            changed = "\n".join([*lines[:index], fewer, *lines[index + 1 :]])
            assert {finding.kind for finding in hazards(changed, name)} == {"hazard"}, index + 1
            tried += 1
    assert tried


@pytest.mark.parametrize(
    ("body", "arch", "expected"),
    [
        ("s_mov_b32 m0, 0\ns_nop {}\nbuffer_load_dwordx4 v3, s[92:95], 0 offen lds", "gfx950", 1),
        ("v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], 0\ns_nop {}\nv_mov_b32 v8, v17", "gfx942", 7),
        ("v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], 0\ns_nop {}\nv_mov_b32 v8, v17", "gfx950", 8),
        (
            "v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[6:7], 0\ns_nop {}\nglobal_store_dword v3, v31, s[92:93]",
            "gfx942",
            11,
        ),
        ("v_mfma_f32_32x32x2_f32 v[16:31], v4, v6, 0\ns_nop {}\nv_mov_b32 v16, v8", "gfx942", 18),
        (
            "v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], 0\ns_nop {}\n"
            "v_mfma_f32_16x16x16_f16 v[20:23], v[16:17], v[6:7], 0",
            "gfx950",
            8,
        ),
        (
            "v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], 0\ns_nop {}\n"
            "v_mfma_f32_16x16x16_f16 v[18:21], v[4:5], v[6:7], v[18:21]",
            "gfx942",
            5,
        ),
        ("v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], v[20:23]\ns_nop {}\nv_mov_b32 v20, v8", "gfx942", 3),
        *(
            (
                f"v_mfma_{scale}f32_{tile}_f8f6f4 v[40:{39 + c}], v[4:{3 + a}], v[16:{15 + b}], 0{scales} cbsz:{cbsz} "
                f"blgp:{blgp}\ns_nop {{}}\nv_mov_b32 v8, v41",
                "gfx950",
                expected,
            )
            for tile, c, cbsz, a, blgp, b, expected in (
                ("16x16x128", 4, 0, 8, 0, 8, 12),  # 8 passes with an fp8 operand, 4 without; 32x32 twice that
                ("16x16x128", 4, 4, 4, 1, 8, 12),
                ("16x16x128", 4, 4, 4, 4, 4, 8),
                ("16x16x128", 4, 2, 6, 3, 6, 8),
                ("32x32x64", 16, 0, 8, 4, 4, 20),
                ("32x32x64", 16, 3, 6, 4, 4, 12),
            )
            for scale, scales in (("", ""), ("scale_", ", v10, v11"))
        ),
        ("v_mov_b32 v8, v9\ns_nop {}\nv_mov_b32_dpp v10, v8 row_shr:1 row_mask:0xf bank_mask:0xf", "gfx950", 2),
        ("v_mov_b32 v4, v9\ns_nop {}\nv_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], 0", "gfx942", 2),
        ("v_exp_f32 v19, v9\ns_nop {}\nv_mfma_f32_16x16x4_f32 v[16:19], v4, v6, v[16:19]", "gfx950", 2),
        ("v_readfirstlane_b32 s4, v8\ns_nop {}\nbuffer_load_dword v10, off, s[4:7], 0", "gfx950", 5),
    ],
)
def test_distances(body, arch, expected):
    for distance, wanted in ((expected, []), (expected - 1, ["hazard"])):
        text = text_of(body.format(distance - 1), 1, arch)
        assert [finding.kind for finding in hazards(text, "k")] == wanted, distance


def test_an_accumulator_needs_no_distance():
    body = "\n".join(["v_mfma_f32_16x16x32_f16 v[16:19], v[4:7], v[4:7], v[16:19]"] * 3)
    _, report = lanes(
        f"{body}\ns_nop 7",
        {"v[4:7]": np.zeros((64, 4), np.uint32), "v[16:19]": np.zeros((64, 4), np.uint32)},
        {"v[16:19]": (np.float32, 4)},
    )
    assert not report.findings


def test_the_path_around_a_loop_counts():
    body = """s_mov_b32 s4, 0
.Lloop:
v_mov_b32 v8, v16
s_nop 3
v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[4:5], 0
s_add_u32 s4, s4, 1
s_cmp_lt_u32 s4, 3
s_cbranch_scc1 .Lloop
s_nop 7"""
    _, report = lanes(
        body, {"v[4:5]": np.zeros((64, 2), np.uint32), "v16": np.zeros(64, np.uint32)}, {"v16": np.float32}
    )
    (finding,) = report.findings
    assert finding.kind == "hazard"
    assert "8 wait states are needed, there are 3" in finding.message
    assert finding.first.text == "v_mov_b32 v8, v16"


def chain(length):
    """A matrix instruction of 16 passes, then vector instructions, each needing the one before, then its result."""
    body = "\n".join(f"  %v{k + 1} = {('add', 'xor')[k % 2]} i32 %v{k}, {k + 1000}" for k in range(length))
    return f"""
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.sched.barrier(i32)
declare <32 x float> @llvm.amdgcn.mfma.f32.32x32x4bf16.1k(<4 x i16>, <4 x i16>, <32 x float>, i32, i32, i32)
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %c, i32 %n) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr <4 x i16>, ptr addrspace(1) %a, i32 %i
  %x = load <4 x i16>, ptr addrspace(1) %p
  %d = call <32 x float> @llvm.amdgcn.mfma.f32.32x32x4bf16.1k(<4 x i16> %x, <4 x i16> %x,
                                                             <32 x float> zeroinitializer, i32 0, i32 0, i32 0)
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %v0 = add i32 %i, %n
{body}
  call void @llvm.amdgcn.sched.barrier(i32 0)
  %e = extractelement <32 x float> %d, i32 3
  %ei = bitcast float %e to i32
  %r = add i32 %ei, %v{length}
  %q = getelementptr i32, ptr addrspace(1) %c, i32 %i
  store i32 %r, ptr addrspace(1) %q
  ret void
}}
"""


@pytest.mark.parametrize(("arch", "needed"), [("gfx942", 19), ("gfx950", 20)])
def test_the_longest_distance(arch, needed):
    """LLVM 22.1 looks back 19 wait states only, but gfx950 needs 20 after 16 passes: with 19 between there is a gap."""
    for length in range(15, 22):
        text = assemble(chain(length), arch)
        code = load_program(text, "k").code
        at = next(index for index, step in enumerate(code) if step.matrix is not None)
        distance = 0
        for step in code[at + 1 :]:
            if not step.touched.isdisjoint(code[at].matrix.result):
                break
            distance += step.ins.operands[0].value + 1 if step.ins.name == "s_nop" else 1
        findings = hazards(text, "k")
        assert [finding.kind for finding in findings] == (["hazard"] if distance < needed else []), (length, distance)


# What LLVM is known to have got wrong ---------------------------------------------------------------------------------


def matrices(between, second=None):
    """LLVM IR: a matrix instruction of 16 passes, so many other instructions, perhaps one more on its accumulator, then
    a use of the result."""
    others = "".join(f"  %m{i} = call i32 @llvm.amdgcn.mbcnt.lo(i32 {i + 1}, i32 %x)\n" for i in range(between))
    uses = "".join(f"  store volatile i32 %m{i}, ptr addrspace(1) %p\n" for i in range(between))
    fence = "  call void @llvm.amdgcn.sched.barrier(i32 0)\n"
    call = "call <16 x float> @llvm.amdgcn.mfma.f32.32x32x"
    more = (
        ""
        if second is None
        else f"  %s = {call}{second[0]}({second[1]} %c, {second[1]} %c, <16 x float> %r{IMMEDIATES}\n"
    )
    kind = "float" if second is None else second[1]
    declared = {"2f32": "float"} | dict([second or ("2f32", "float")])
    return f"""define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) #0 {{
  %x = call i32 @llvm.amdgcn.workitem.id.x()
  %a = load volatile float, ptr addrspace(1) %p
  %c = load volatile {kind}, ptr addrspace(1) %p
{fence}  %r = {call}2f32(float %a, float %a, <16 x float> zeroinitializer{IMMEDIATES}
{fence}{others}{fence}{more}{fence}  %e = extractelement <16 x float> {"%r" if second is None else "%s"}, i32 15
  %f = fmul float %e, 3.0
  store volatile float %f, ptr addrspace(1) %q
{uses}  ret void
}}
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare void @llvm.amdgcn.sched.barrier(i32)
""" + "".join(
        f"declare <16 x float> @llvm.amdgcn.mfma.f32.32x32x{name}({t}, {t}, <16 x float>, i32, i32, i32)\n"
        for name, t in declared.items()
    )


IMMEDIATES = ", i32 0, i32 0, i32 0)"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_last_wait_state_that_counts(arch):
    """An older LLVM did not look exactly 19 instructions back (llvm-project #222040); this one does."""
    for between in (0, 17, 18, 19, 20):
        assert hazards(assemble(matrices(between), arch), "k") == [], between


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_another_opcode_on_the_same_accumulator(arch):
    """LLVM 22 forgets the longer instruction behind a shorter one (llvm-project #218363): this is found, and refused
    when a code object is made of it. The same opcode again is right."""
    assert hazards(assemble(matrices(0, ("2f32", "float")), arch), "k") == []
    found = hazards(assemble(matrices(0, ("8f16", "<4 x half>")), arch), "k")
    assert found
    assert all("of 16 passes" in finding.message for finding in found)
