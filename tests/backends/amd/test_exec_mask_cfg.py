"""The control flow of an assembly text by its exec masks: a branch on a mask goes one way where the mask is known, else
both."""

from __future__ import annotations

from random import Random

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.verify.assembly import read
from minitile.backends.amd.verify.exec_mask_cfg import paths
from tests.lowering.test_random_kernels import compare_machine_code

SAVED = """
	s_and_saveexec_b64 s[4:5], vcc
	s_cbranch_execz .L
	ds_write_b32 v0, v1
.L:
	s_or_b64 exec, exec, s[4:5]
	s_cbranch_scc0 .M
	s_nop 1
	s_branch .N
.M:
	s_cbranch_execz .N
	s_nop 2
.N:
	s_endpgm
"""
CONSTANT = """
	s_cbranch_scc0 .L
	s_nop 1
	s_mov_b64 s[0:1], 0
	s_branch .M
.L:
	s_mov_b64 s[0:1], -1
.M:
	s_and_b64 vcc, exec, s[0:1]
	s_cbranch_vccz .N
	s_nop 2
.N:
	s_endpgm
"""
LOOP = """
	s_mov_b64 s[0:1], 0
.L:
	s_nop 1
	s_or_b64 s[0:1], vcc, s[0:1]
	s_andn2_b64 exec, exec, s[0:1]
	s_cbranch_execnz .L
	s_or_b64 exec, exec, s[0:1]
	s_cbranch_execz .M
	s_nop 2
.M:
	s_endpgm
"""

REST = """
	s_and_saveexec_b64 s[4:5], vcc
	s_xor_b64 s[4:5], exec, s[4:5]
	s_cbranch_execz .L
	ds_write_b32 v0, v1
.L:
	s_nop 1
	s_or_b64 exec, exec, s[4:5]
	s_cbranch_execz .M
	s_nop 2
.M:
	s_endpgm
"""


def ways(text: str, closely: bool = False) -> set[str]:
    """The numbers of the s_nop on each way to the end; each path at most twice on a way."""
    code = read(text)
    found = paths(code, closely)
    ends: set[str] = set()
    pending = [(0, "", (0,))]
    while pending:
        at, passed, trail = pending.pop()
        here = code.inside(found[at].block)
        passed += "".join(ins.operands[0] for ins in here if ins.name == "s_nop")
        if here[-1].ends:
            ends.add(passed)
        pending += [(to, passed, (*trail, to)) for to in found[at].following if trail.count(to) < 2]
    return ends


def test_a_wave_with_lanes():
    """The second half of an if, which only a wave without lanes would leave out."""
    assert ways(SAVED) == {"1", "2"}
    assert ways(SAVED.replace("_execz .N", "_execnz .N")) == {"1", ""}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\ts_or_b64 exec, exec, s[4:5]\n", ""),
        ("exec, exec, s[4:5]", "exec, exec, s[6:7]"),
        (".L:\n", ".L:\n\ts_mov_b32 s5, 0\n"),
        (".L:\n", ".L:\n\ts_load_dwordx4 s[0:3], s[8:9], 0x0\n\ts_load_dwordx4 s[4:7], s[8:9], 0x0\n"),
        (".L:\n", ".L:\n\tv_cmp_lt_i32_e64 s[4:5], 0, v0\n"),
        (".L:\n", ".L:\n\tv_add_co_u32_e64 v0, s[4:5], v0, v1\n"),
        (".M:\n", ".M:\n\tv_cmpx_lt_i32_e32 vcc, 0, v0\n"),
        (".M:\n", ".M:\n\ts_and_b64 exec, exec, vcc\n"),
        (".M:\n", ".M:\n\ts_mov_b32 exec_lo, s2\n"),
    ],
)
def test_a_wave_perhaps_without_lanes(old, new):
    changed = SAVED.replace(old, new, 1)
    assert changed != SAVED
    assert ways(changed) == {"1", "2", ""}


def test_the_lanes_that_an_if_leaves_out():
    """They and those that it runs with are all lanes: together there is one."""
    assert ways(REST) == {"12"}
    assert ways(REST.replace("execz .M", "execnz .M")) == {"1"}
    swapped = REST.replace("exec, s[4:5]\n\ts_cbranch_execz .L", "s[4:5], exec\n\ts_cbranch_execz .L")
    assert swapped != REST
    assert ways(swapped) == {"12"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\ts_xor_b64 s[4:5], exec, s[4:5]\n", "\ts_xor_b64 s[4:5], exec, s[6:7]\n"),
        ("s_xor_b64", "s_and_b64"),
        ("\ts_or_b64 exec, exec, s[4:5]\n", "\ts_or_b64 exec, exec, s[6:7]\n"),
        ("\ts_or_b64 exec", "\ts_mov_b64 exec, s[8:9]\n\ts_and_b64 exec"),
        ("\ts_or_b64 exec", "\tv_cmp_lt_i32_e32 vcc, 0, v0\n\ts_mov_b64 exec, vcc\n\ts_or_b64 exec"),
        ("\ts_or_b64 exec", "\tv_cmpx_lt_i32_e32 vcc, 0, v0\n\ts_or_b64 exec"),
        ("\ts_or_b64 exec", "\ts_mov_b32 s5, 0\n\ts_or_b64 exec"),
        ("\ts_or_b64 exec, exec, s[4:5]\n", "\ts_mov_b64 exec, s[4:5]\n"),
        ("\ts_or_b64 exec, exec, s[4:5]\n", "\ts_mov_b64 s[8:9], exec\n\ts_or_b64 exec, s[8:9], s[10:11]\n"),
    ],
)
def test_lanes_that_are_perhaps_not_the_rest(old, new):
    changed = REST.replace(old, new, 1)
    assert changed != REST
    assert ways(changed) == {"12", "1"}


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ("\ts_xor_b64 exec, exec, s[4:5]\n", {"12"}),  # no lane is in both
        ("\ts_and_b64 exec, exec, s[4:5]\n", {"1"}),
        ("\ts_mov_b64 exec, vcc\n\ts_or_b64 exec, exec, s[4:5]\n", {"12"}),  # the lanes of the if were in vcc
        ("\ts_andn2_saveexec_b64 s[6:7], s[4:5]\n\ts_or_b64 exec, exec, s[6:7]\n", {"12"}),
        ("\ts_andn2_saveexec_b64 s[6:7], s[4:5]\n", {"12", "1"}),  # the lanes of the else
        ("\ts_or_saveexec_b64 s[6:7], s[4:5]\n\ts_xor_b64 exec, exec, s[6:7]\n", {"12", "1"}),
        ("\ts_or_saveexec_b64 s[6:7], s[4:5]\n\ts_nor_b64 s[6:7], exec, exec\n\ts_not_b64 exec, s[6:7]\n", {"12"}),
        ("\ts_andn1_wrexec_b64 s[6:7], s[4:5]\n\ts_or_b64 exec, s[6:7], s[4:5]\n", {"12"}),
    ],
)
def test_what_two_masks_have_together(new, found):
    """Also through a second register, and an else of its own."""
    assert ways(REST.replace("\ts_or_b64 exec, exec, s[4:5]\n", new)) == found


@mt.kernel
def counted_down(N: T.Tensor((4,), T.int32), Sums: T.Tensor((4, 64), T.int32)):
    with T.Kernel(4, threads=128) as block:
        left = T.alloc_shared((1,), T.int32)
        left[0] = N[block]
        total = T.alloc_fragment((64,), T.int32)
        T.clear(total)
        while left[0] > 0:
            for i in T.Parallel(64):
                total[i] += left[0] + i
            left[0] = left[0] - 1
        T.copy(total, Sums[block, 0])


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_loop_on_a_count_in_shared_memory(target):
    """One thread writes the count, so LLVM ends a round with a branch on whether the wave has any lane."""
    pytest.importorskip("llvmlite")
    numbers, sums = np.array([3, 0, 1, 5], np.int32), np.zeros((4, 64), np.int32)
    kernel = counted_down.compile(numbers, sums, target=target)
    rounds = numbers[:, None].astype(np.int64)
    want = rounds * (rounds + 1) // 2 + rounds * np.arange(64)
    for schedule in ("eager", "lazy", "random"):
        sums[:] = 0
        kernel.simulate(numbers, sums, schedule=schedule, seed=1)
        assert np.array_equal(sums, want)


@mt.kernel
def else_in_front(
    A: T.Tensor((64, "K"), T.bfloat16),
    Pages: T.Tensor((4, 32, 32), T.bfloat16),
    Table: T.Tensor(("W",), T.int32),
    Marks: T.Tensor((64,), T.int32),
    C: T.Tensor((64, 32), T.float32),
):
    """An if with an else that lanes take apart, in front of one of the whole block with copies in both branches."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        marks = T.alloc_shared((64,), T.int32)
        a = T.alloc_shared((64, 32), A.dtype)
        page = T.alloc_shared((32, 32), A.dtype)
        acc = T.alloc_fragment((64, 32), T.float32)
        T.clear(acc)
        if t < 1:
            marks[t] = 7
        elif t < 64:
            marks[t] = 5 - t
        for k in T.Pipelined(Table.shape[0], num_stages=2):
            T.copy(A[0, k * 32], a)
            if Table[k] > 1:
                T.copy(Pages[Table[k] % 4, 0, 0], page)
            else:
                T.copy(Pages[0, 0, 0], page)
            T.gemm(a, page, acc, transpose_B=True)
        if t < 64:
            Marks[t] = marks[63 - t]
        T.copy(acc, C)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_copies_behind_an_else(target):
    """The lanes of the else get a mask of their own before all are together again."""
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(3)
    a, pages = (rng.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((64, 160), (4, 32, 32)))
    table, marks = np.array([2, 0, 1, 3, 6], np.int32), np.zeros(64, np.int32)
    kernel = else_in_front.compile(a, pages, table, marks, np.zeros((64, 32), np.float32), target=target)
    assert not any("again" in note for note in kernel.notes)
    taken = np.concatenate([pages[n % 4 if n > 1 else 0] for n in table], axis=1)
    for schedule in ("eager", "lazy", "random"):
        c = np.zeros((64, 32), np.float32)
        kernel.simulate(a, pages, table, marks, c, schedule=schedule, seed=1)
        assert np.array_equal(c, a.astype(np.float32) @ taken.astype(np.float32).T)
        assert np.array_equal(marks[::-1], [7, *(5 - t for t in range(1, 64))])


SCC = """
	s_cmp_lg_u32 s4, 0
	s_cselect_b64 s[0:1], -1, 0
	s_cmp_eq_u32 s4, 0
	s_cbranch_scc1 .L
	s_nop 1
.L:
	s_and_b64 vcc, exec, s[0:1]
	s_cbranch_vccz .M
	s_nop 2
.M:
	s_endpgm
"""


def test_a_condition_of_the_wave_in_a_mask():
    """What a comparison of scalars says is known where it is asked once more, and where it has become a mask."""
    assert ways(SCC, True) == {"12", ""}
    assert ways(SCC.replace("s_cmp_eq_u32", "s_cmp_lg_u32"), True) == {"1", "2"}
    assert ways(SCC.replace("\ts_cmp_eq_u32 s4, 0\n", ""), True) == {"1", "2"}
    assert ways(SCC.replace("-1, 0", "0, -1"), True) == {"1", "2"}
    less = SCC.replace("s_cmp_lg_u32 s4, 0", "s_cmp_gt_i32 s4, 0").replace("s_cmp_eq_u32 s4, 0", "s_cmp_lt_i32 s4, 1")
    assert ways(less, True) == {"12", ""}
    bits = SCC.replace("s_cmp_lg_u32", "s_bitcmp1_b32").replace("s_cmp_eq_u32", "s_bitcmp0_b32")
    assert ways(bits, True) == {"12", ""}
    assert ways(SCC) == {"12", "1", "2", ""}, "told apart only where that is needed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\ts_cmp_eq_u32 s4, 0\n", "\ts_mov_b32 s4, 1\n\ts_cmp_eq_u32 s4, 0\n"),
        ("s_cmp_eq_u32 s4, 0", "s_cmp_eq_u32 s5, 0"),
        ("s_cmp_eq_u32 s4, 0", "s_cmp_eq_u32 s4, 1"),
        ("s_cmp_eq_u32 s4, 0", "s_cmp_lt_i32 s4, 0"),
        ("\ts_cbranch_scc1", "\ts_add_i32 s6, s6, 1\n\ts_cbranch_scc1"),
        ("-1, 0", "s[6:7], 0"),
        (".L:\n", ".L:\n\ts_mov_b32 s0, s6\n"),
    ],
)
def test_another_condition(old, new):
    changed = SCC.replace(old, new, 1)
    assert changed != SCC
    assert {"1", "12", ""} <= ways(changed, True)


def test_many_masks_that_no_branch_asks_for_again():
    """They do not keep ways from being told apart by what is asked."""
    guards = "".join(
        f"\ts_and_b64 s[4:5], s[{n}:{n + 1}], vcc\n\ts_and_saveexec_b64 s[2:3], s[4:5]\n\ts_cbranch_execz .G{n}\n"
        f"\tglobal_store_dword v1, v2, off\n.G{n}:\n\ts_or_b64 exec, exec, s[2:3]\n"
        for n in range(10, 40, 2)
    )
    code = read(CONSTANT.replace(".M:\n", f".M:\n{guards}\tv_cmp_lt_i32_e32 vcc, 0, v0\n{guards.replace('.G', '.H')}"))
    found = paths(code)
    ends = [path for path in found if code.inside(path.block)[-1].branch == "vccz"]
    assert {code.inside(found[to].block)[0].name for path in ends for to in path.following} == {"s_nop", "s_endpgm"}
    assert all(len(path.following) == 1 for path in ends)
    assert len(found) < 8 * len(code.blocks)


def test_a_constant_of_each_way():
    assert ways(CONSTANT) == {"1", "2"}
    assert ways(CONSTANT.replace("vccz", "vccnz")) == {"12", ""}
    assert ways(CONSTANT.replace("s_and_b64", "s_andn2_b64")) == {"12", ""}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s[0:1], -1", "s[0:1], s[2:3]"),
        ("exec, s[0:1]", "exec, s[2:3]"),
        (".M:\n", ".M:\n\ts_add_i32 s1, s1, 1\n"),
        ("\ts_cbranch_vccz", "\tv_cmp_eq_u32_e32 vcc, 0, v0\n\ts_cbranch_vccz"),
        ("s_cbranch_vccz", "s_cbranch_scc0"),
    ],
)
def test_no_constant(old, new):
    changed = CONSTANT.replace(old, new, 1)
    assert changed != CONSTANT
    assert {"2", ""} <= ways(changed)


def test_a_loop_until_no_lane_is_left():
    """What is known in front of a loop does not hold behind it; that the lanes of both masks are some does."""
    assert ways(LOOP) == {"12", "112"}
    assert ways(LOOP.replace("s_or_b64 exec, exec, s[0:1]", "s_mov_b64 exec, s[4:5]")) == {"1", "12", "11", "112"}
    from_the_start = LOOP.replace(".L:\n\ts_nop 1\n", ".L:\n").replace("s_or_b64 exec, exec", "s_mov_b64 exec")
    assert ways(from_the_start.replace("s[0:1]\n\ts_cbranch_execz", "0\n\ts_cbranch_execz")) == {""}


def test_many_ways_are_joined():
    """The number of paths does not double with each branch; what all ways share is kept."""
    forks = "".join(f"\ts_cbranch_scc0 .A{n}\n\ts_mov_b64 s[{n}:{n + 1}], 0\n.A{n}:\n" for n in range(10, 50, 2))
    text = (
        f"\ts_mov_b64 s[0:1], -1\n{forks}\ts_and_b64 vcc, exec, s[0:1]\n\ts_cbranch_vccz .N\n\ts_nop 2\n.N:\n\ts_endpgm"
    )
    code = read(text)
    for closely in (False, True):
        found = paths(code, closely)
        assert len(found) < 64 * len(code.instructions)
        skipped = [path for path in found if code.inside(path.block)[-1].branch == "vccz"]
        assert skipped
        assert all(code.inside(found[to].block)[0].name == "s_nop" for path in skipped for to in path.following)


@pytest.mark.parametrize("seed", [71, 264, 124])
def test_kernels_with_branches_inside_of_branches(seed):
    """LLVM leaves such branches here: of the first kind (71, 264), of the second (124)."""
    pytest.importorskip("llvmlite")
    compare_machine_code(Random(seed), 0, "gfx950")
