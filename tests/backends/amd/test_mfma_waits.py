"""Wait states behind matrix instructions that LLVM leaves out where ways join are found, and put in."""

from __future__ import annotations

import pytest

from minitile.backends.amd.verify.mfma_waits import early_use, with_wait_states
from minitile.target import parse_target
from tests.fuzz import campaign

JOIN = """k:
	v_mfma_f32_32x32x16_f16 v[2:17], v[42:45], v[46:49], v[50:65]
	s_cbranch_execz .LBB0_2
	s_nop 7
	s_nop 7
.LBB0_2:
	s_nop WAIT
	USE
	s_endpgm
"""


@pytest.mark.parametrize(
    ("use", "target", "states"),
    [
        ("v_min_f32_e32 v2, 0x447a0000, v2", "gfx950", 12),
        ("v_min_f32_e32 v20, v17, v17", "gfx942", 11),
        ("global_store_dwordx4 v[40:41], v[4:7], off", "gfx950", 12),
        ("v_mfma_f32_32x32x16_f16 v[50:65], v[2:5], v[46:49], v[50:65]", "gfx950", 12),
        ("v_mfma_f32_16x16x32_f16 v[2:5], v[42:45], v[46:49], v[2:5]", "gfx950", 10),
        ("v_mfma_f32_32x32x16_f16 v[2:17], v[42:45], v[46:49], v[2:17]", "gfx950", 0),
        ("v_min_f32_e32 v1, v18, v18", "gfx950", 0),
        ("v_mov_b32_e32 v61, 0", "gfx950", 7),
        ("v_mov_b32_e32 v1, v61", "gfx950", 0),
    ],
)
def test_the_shorter_way_counts(use: str, target: str, states: int) -> None:
    """A branch is one wait state, s_nop n is n + 1."""
    for wait in range(16):
        line = early_use(JOIN.replace("WAIT", str(wait)).replace("USE", use), parse_target(target))
        assert line == (8 if 2 + wait < states else 0), wait


def test_within_a_block_llvm_is_right() -> None:
    text = "k:\n\tv_mfma_f32_16x16x16_f16 v[2:5], v[6:7], v[8:9], v[2:5]\n\tv_mov_b32_e32 v1, v2\n\ts_endpgm\n"
    assert early_use(text, parse_target("gfx942")) == 0


@pytest.mark.parametrize(
    ("made", "reads"),
    [("v_add_u32_e32 v6, v6, v1", True), ("v_exp_f32_e32 v4, v1", True), ("v_mov_b32_e32 v2, 0", False)],
)
def test_operands_made_at_the_end_of_the_block_before(made: str, reads: bool) -> None:
    for wait in (0, 1):
        text = f"k:\n\t{made}\n.L:\n\ts_nop {wait}\n\tv_mfma_f32_16x16x16_f16 v[2:5], v[6:7], v[8:9], v[4:7]\n"
        text += "\ts_nop 15\n\ts_cbranch_scc0 .L\n\ts_endpgm\n"
        assert early_use(text, parse_target("gfx942")) == (5 if reads and wait == 0 else 0)


def test_they_stand_at_the_end_of_blocks_that_multiply() -> None:
    llvm = """define amdgpu_kernel void @k() {
a:
  %x = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> %y, i32 0, i32 0, i32 0)
  br label %b
b:
  br label %c
c:
  ret void
}
"""
    made = with_wait_states(llvm)
    front, _, body = made.split("define")[1].partition("}")[0].partition("%x = ")
    assert front.count("s.nop(i16 1)") == 1
    first, second, third = body.split("br ")
    assert first.count("s.nop(i16 7)") == 3
    assert "s.nop" not in second + third
    assert made.count("declare void @llvm.amdgcn.s.nop(i16)") == 1
    assert with_wait_states(made).count("declare void @llvm.amdgcn.s.nop(i16)") == 1


@pytest.mark.parametrize(("seed", "mode"), [(91, "gfx950"), (61545, "gfx942")])
def test_a_program_of_which_llvm_leaves_one_out(seed: int, mode: str) -> None:
    """Of the first one before a use of a result, of the second one before a write of an addend."""
    outcome = campaign.one(seed, mode)
    assert outcome is not None
    assert outcome.kind == "fine", outcome.text


@pytest.mark.parametrize(("between", "line"), [("", 5), ("\ts_nop 0\n", 0)])
def test_a_mask_of_the_block_before(between: str, line: int) -> None:
    text = f"k:\n\tv_cmp_gt_i32_e64 s[0:1], 64, v0\n\ts_cbranch_execz .L\n{between}.L:\n"
    text += "\tv_cndmask_b32_e64 v1, 0, 1, s[0:1]\n\ts_endpgm\n"
    assert early_use(text, parse_target("gfx942")) in ((5,) if not between else (6,)), (
        "the branch skips what is between"
    )
    straight = f"k:\n\tv_cmp_gt_i32_e64 s[0:1], 64, v0\n{between}.L:\n\ts_nop 0\n\tv_cndmask_b32_e64 v1, 0, 1, s[0:1]\n"
    assert early_use(straight, parse_target("gfx942")) == line


def test_a_program_with_a_mask_of_the_block_before() -> None:
    outcome = campaign.one(3086, "gfx942")
    assert outcome is not None
    assert outcome.kind == "fine", outcome.text
