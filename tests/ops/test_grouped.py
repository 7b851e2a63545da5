"""mt.ops.grouped_matmul, and matmul of batches, in the simulator: right for every form, layout and plan, at odd sizes,
with empty groups; rows of no group stay as they are; wrong use is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from minitile.ops import Plan, grouped_matmul, grouped_plan_for, matmul, plan_for
from minitile.ops.grouped_gemm import SCALED, grouped, grouped_along_k, grouped_scaled

bf16, f16, e4m3, e5m2 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
BOUND = {bf16: 4e-3, f16: 5e-4, np.float32: 1e-6}
ONE = Plan(64, 64, 32, 3, 128, blocks=3, panel=1)
TWO = ONE._replace(threads=256, teams=2)
SIZES = [
    [17, 0, 129, 1, 128, 0],  # a tile and a row, a whole tile, nothing at the end
    [0, 0, 150],  # all in one group
    [0, 0],  # nothing at all
    [1],
    [3, 0, 64, 0, 1, 2, 70, 0, 5, 9],  # more than are looked at together
]


def turned(x):
    """The same array, its last two dimensions in the other order in memory."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


class Groups:
    """Random operands; `left`: rows of a behind the last group, NaN as all that belongs to none."""

    def __init__(self, sizes, n=72, k=104, dtype=bf16, masked=False, left=5, transposed=True, seed=0, scaled=False):
        rng = np.random.default_rng(seed)
        count, most = len(sizes), max(sizes) + left
        self.masked = masked
        if masked:
            self.bounds, shape = np.array(sizes, np.int32), (count, most, k)
            self.real = np.arange(most) < np.array(sizes)[:, None]
        else:
            self.bounds = np.cumsum(sizes).astype(np.int32)
            shape = int(self.bounds[-1]) + left, k
            self.real = np.arange(shape[0]) < self.bounds[-1]
        self.a = rng.standard_normal(shape).astype(dtype)
        self.a[~self.real] = np.nan
        b = rng.standard_normal((count, k, n)).astype(dtype)
        self.b = turned(b) if transposed else b
        self.scales, steps, wide_b = None, -(-k // SCALED), b.astype(np.float64)
        wide_a = self.a.astype(np.float64)
        if scaled:
            of_a, of_b = (
                (2.0 ** rng.uniform(-2, 2, s)).astype(np.float32)
                for s in ((*shape[:-1], steps), (count, steps, -(-n // SCALED)))
            )
            self.scales = turned(of_a), turned(of_b)
            along_k, along_n = np.arange(k) // SCALED, np.arange(n) // SCALED
            wide_a = wide_a * of_a[..., along_k]
            wide_b = wide_b * of_b[:, along_k][:, :, along_n]
        if masked:
            self.expected = (np.where(self.real[..., None], wide_a, 0) @ wide_b)[self.real]
        else:
            group_of = np.repeat(np.arange(count), sizes)
            self.expected = np.einsum("mk,mkn->mn", wide_a[self.real], wide_b[group_of])
        self.shape = (*shape[:-1], n)

    def poisoned(self, dtype=bf16):
        return np.full(self.shape, np.nan).astype(dtype)

    def words(self):
        return {"counts" if self.masked else "offsets": self.bounds, "scales": self.scales}

    def check(self, c):
        """Every group's rows are right; the others have not been written."""
        exact, found = self.expected, c[self.real].astype(np.float64)
        assert np.linalg.norm(found - exact) <= BOUND[c.dtype.type] * np.linalg.norm(exact)
        assert np.isnan(c[~self.real].astype(np.float32)).all()


@pytest.fixture(params=["sm_80", "sm_90a"])
def target(request, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", request.param)
    return request.param


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["offsets", "counts"])
def test_sizes(target, sizes, masked):
    groups = Groups(sizes, k=72, masked=masked, transposed=masked)
    out = groups.poisoned()
    assert grouped_matmul(groups.a, groups.b, **groups.words(), out=out, plan=TWO) is out
    groups.check(out)


@pytest.mark.parametrize("size", [(1, 1), (17, 31), (8, 0), (67, 37)], ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["offsets", "counts"])
def test_odd_sizes(size, masked, monkeypatch):
    """Rows that the copy engine does not take, as operands and as results."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    groups = Groups([3, 0, 65], *size, masked=masked, transposed=not masked)
    out = groups.poisoned()
    grouped_matmul(groups.a, groups.b, **groups.words(), out=out, plan=ONE)
    groups.check(out)


@pytest.mark.parametrize(
    "plan",
    [
        ONE._replace(blocks=1),
        TWO._replace(block_M=128, panel=2, blocks=2),
        TWO._replace(block_M=128, threads=512, block_K=64, stages=2, blocks=1),
        TWO._replace(threads=384, teams=3),
        ONE._replace(block_N=128, threads=256),
    ],
    ids=str,
)
@pytest.mark.parametrize("masked", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["offsets", "counts"])
def test_plans(plan, masked, monkeypatch):
    """One block for all, panels that a group's end cuts off, other teams."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    groups = Groups([130, 0, 5, 200], 136, 40, masked=masked, seed=3)
    out = groups.poisoned()
    grouped_matmul(groups.a, groups.b, **groups.words(), out=out, plan=plan)
    groups.check(out)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["offsets", "counts"])
def test_scales(sizes, masked, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    groups = Groups(sizes, 136, 144, e4m3, masked, left=2, scaled=True)
    out = groups.poisoned()
    grouped_matmul(groups.a, groups.b, **groups.words(), out=out, plan=ONE._replace(block_K=SCALED))
    groups.check(out)


@pytest.mark.parametrize("masked", [False, True], ids=["offsets", "counts"])
def test_scales_of_other_kinds(masked, monkeypatch):
    """e5m2; teams; scales of a that the copy engine does not take, and that lie row-major; a result in f32."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    groups = Groups([70, 3], 72, 144, e5m2, masked, left=1, scaled=True, seed=2)
    words = groups.words()
    words["scales"] = tuple(np.ascontiguousarray(s) for s in words["scales"])
    out = groups.poisoned(np.float32)
    grouped_matmul(groups.a, groups.b, **words, out=out, plan=TWO._replace(block_K=SCALED, stages=2))
    groups.check(out)


def test_dtypes_and_new_arrays(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    groups = Groups([20, 7], 24, 40, f16, left=0)
    for dtype, kind in ((None, f16), ("float32", np.float32), ("bfloat16", bf16)):
        c = grouped_matmul(groups.a, groups.b, groups.bounds, dtype=dtype)
        assert c.dtype == kind
        groups.check(c)
    scaled = Groups([20, 7], 24, 40, e4m3, left=0, scaled=True)
    c = grouped_matmul(scaled.a, scaled.b, **scaled.words())
    assert c.dtype == bf16
    scaled.check(c)


def test_operands_with_gaps_are_copied():
    groups = Groups([20, 7], 24, 40, left=0)
    wide_a, wide_b = np.zeros((27, 60), bf16), np.zeros((2, 40, 30), bf16)
    wide_a[:, 3:43], wide_b[:, :, 2:26] = groups.a, groups.b
    groups.check(grouped_matmul(wide_a[:, 3:43], wide_b[:, :, 2:26], groups.bounds))
    groups.check(grouped_matmul(turned(groups.a), groups.b, groups.bounds))


def test_nothing_to_do():
    for sizes, n, k in (([0], 8, 8), ([0, 0], 0, 8), ([3], 0, 8)):
        groups = Groups(sizes, n, k, left=0)
        assert grouped_matmul(groups.a, groups.b, groups.bounds).shape == groups.shape
    assert grouped_matmul(np.zeros((0, 8), bf16), np.zeros((0, 8, 8), bf16), np.zeros(0, np.int32)).shape == (0, 8)


def test_plans_of_the_model(monkeypatch):
    """Large tiles for many rows, and lower ones for few."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    b, bounds = np.zeros((4, 7168, 4096), bf16), np.zeros(4, np.int32)
    a = np.zeros((32768, 7168), bf16)
    many = grouped_plan_for(a, b, bounds)
    assert many.block_M * many.block_N >= 128 * 128
    assert many.blocks == 132
    few = grouped_plan_for(a, b, bounds, expected=30)
    assert few.block_M == 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": np.zeros(2, np.int32)}, "either offsets or counts"),
        ({"offsets": None}, "either offsets or counts"),
        ({"offsets": np.zeros(3, np.int32)}, "one for each of the 2"),
        ({"offsets": np.zeros(2, np.int64)}, "it is i32"),
        ({"a": np.zeros((8, 23), bf16)}, "23 columns"),
        ({"a": np.zeros((2, 8, 24), bf16)}, "with offsets, a has 2"),
        ({"a": np.zeros((8, 24), f16)}, "convert one"),
        ({"a": np.zeros((8, 24), e4m3), "b": np.zeros((2, 24, 16), e4m3)}, "fp8 comes with scales"),
        ({"b": np.zeros((23, 16), bf16)}, "b has 23 rows"),
        ({"offsets": np.zeros((1, 2), np.int32)}, "of one dimension"),
        ({"out": np.zeros((8, 15), bf16)}, "it must be"),
        ({"dtype": "int32"}, "the result is i32"),
        ({"plan": ONE._replace(blocks=0)}, "none for groups"),
        ({"plan": ONE._replace(split=2)}, "none for groups"),
        ({"a": 3}, "no array"),
    ],
)
def test_what_is_refused(change, words):
    call = {"a": np.zeros((8, 24), bf16), "b": np.zeros((2, 24, 16), bf16), "offsets": np.zeros(2, np.int32), **change}
    with pytest.raises(mt.MinitileError, match=words) as caught:
        grouped_matmul(**call)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b": np.zeros((2, 144, 16), e4m3)}, "not column-major"),
        ({"scales": (np.zeros((8, 1), np.float32), np.zeros((2, 2, 1), np.float32))}, r"scales of a are f32 of shape"),
        ({"scales": (np.zeros((8, 2), np.float32), np.zeros((2, 2, 1)))}, "scales of b are f64"),
        ({"plan": ONE}, "none for scales"),
    ],
)
def test_what_is_refused_of_scales(change, words):
    call = {
        "a": np.zeros((8, 144), e4m3),
        "b": turned(np.zeros((2, 144, 16), e4m3)),
        "offsets": np.zeros(2, np.int32),
        "scales": (np.zeros((8, 2), np.float32), np.zeros((2, 2, 1), np.float32)),
        **change,
    }
    with pytest.raises(mt.MinitileError, match=words):
        grouped_matmul(**call)


# Roles and races ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["lazy", pytest.param("eager", marks=pytest.mark.slow), "random"])
@pytest.mark.parametrize("masked", [False, True], ids=["offsets", "counts"])
@pytest.mark.parametrize("scaled", [False, True], ids=["bf16", "fp8"])
def test_the_copying_warp_finds_its_way_by_itself(schedule, masked, scaled):
    """All copies are the producer's, and whole tiles are stored by the copy engine; teams alternate."""
    groups = Groups([70, 0, 64, 1], 64, 144, e4m3 if scaled else bf16, masked, left=2 if masked else 1, scaled=scaled)
    c = groups.poisoned()
    kernel = (
        grouped_scaled(mt.language.float8_e4m3, mt.language.bfloat16, masked)
        if scaled
        else grouped(mt.language.bfloat16, mt.language.bfloat16, masked, True)
    )
    settings = {"block_M": 64, "block_N": 64, "stages": 2, "threads": 256, "teams": 2, "blocks": 2, "panel": 2}
    arrays = [groups.a, turned(groups.b).swapaxes(1, 2), c, groups.bounds]
    if groups.scales is not None:
        arrays[2:2] = [np.ascontiguousarray(s.swapaxes(-1, -2)) for s in groups.scales]
    compiled = kernel.compile(*arrays, target="sm_90a", **settings)
    assert all(note.endswith("it has a mask") for note in compiled.notes)
    text = compiled.asm["ptx"]
    assert "cp.async.ca" not in text
    assert "cp.async.cg" not in text
    assert "cp.async.bulk.tensor.3d.global" in text or "cp.async.bulk.tensor.2d.global" in text
    assert compiled.asm["tile_ir"].count("warp_groups") == 1
    compiled.simulate(*arrays, schedule=schedule, seed=1)
    groups.check(c)


# Along K --------------------------------------------------------------------------------------------------------------


class AlongK:
    """Random operands with groups along K; what is no group's is NaN."""

    def __init__(self, sizes, m=72, n=40, form="TN", dtype=bf16):
        rng = np.random.default_rng(7)
        self.ends = np.cumsum(sizes).astype(np.int32)
        k = int(self.ends[-1]) + 3
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        parts = [slice(end - size, end) for end, size in zip(self.ends, sizes, strict=True)]
        self.expected = np.stack([a[:, part].astype(np.float64) @ b[part].astype(np.float64) for part in parts])
        a[:, self.ends[-1] :], b[self.ends[-1] :] = np.nan, np.nan
        self.a, self.b = turned(a) if form[0] == "T" else a, turned(b) if form[1] == "T" else b

    def check(self, c):
        assert np.linalg.norm(c.astype(np.float64) - self.expected) <= BOUND[c.dtype.type] * np.linalg.norm(
            self.expected
        )


@pytest.mark.parametrize("form", ["TN", "NT", "NN"])
@pytest.mark.parametrize("sizes", [[17, 0, 129, 1, 128, 0], [0, 100], [0]], ids=str)
def test_along_k(form, sizes, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_80" if form == "NN" else "sm_90a")
    groups = AlongK(sizes, form=form)
    out = np.full(groups.expected.shape, np.nan).astype(bf16)
    assert grouped_matmul(groups.a, groups.b, groups.ends, out=out, plan=TWO) is out
    groups.check(out)


@pytest.mark.parametrize("size", [(1, 1), (17, 31)], ids=str)
def test_odd_sizes_along_k(size, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    groups = AlongK([5, 40, 33], *size)
    groups.check(grouped_matmul(groups.a, groups.b, groups.ends))


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_roles_along_k(schedule):
    """Whole steps are the producer's; what is left at a group's end each team copies for itself."""
    groups = AlongK([64, 0, 90, 7, 32], 64, 136)
    kernel = grouped_along_k(mt.language.bfloat16, mt.language.bfloat16, True, False)
    c = np.full(groups.expected.shape, np.nan).astype(bf16)
    arrays = [groups.a.T, groups.b, c, groups.ends]
    settings = {"block_M": 64, "block_N": 64, "block_K": 32, "stages": 2, "threads": 256, "teams": 2, "blocks": 2}
    compiled = kernel.compile(*arrays, target="sm_90a", **settings)
    assert compiled.notes == ()
    assert compiled.asm["tile_ir"].count("warp_groups") == 1
    compiled.simulate(*arrays, schedule=schedule, seed=1)
    groups.check(c)


# Batches --------------------------------------------------------------------------------------------------------------


def batches(count_a, count_b, m, n, k, form="NN", dtype=bf16):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((count_a, m, k)).astype(dtype), rng.standard_normal((count_b, k, n)).astype(dtype)
    return (turned(a) if form[0] == "T" else a), (turned(b) if form[1] == "T" else b)


def check_batch(c, a, b):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert c.shape == exact.shape
    assert np.linalg.norm(c.astype(np.float64) - exact) <= BOUND[c.dtype.type] * np.linalg.norm(exact)


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("counts", [(3, 3), (1, 2), (2, 1)], ids=str)
def test_batches(form, counts, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_80" if form in ("NT", "TN") else "sm_90a")
    a, b = batches(*counts, 72, 40, 56, form)
    out = np.full((max(counts), 72, 40), np.nan).astype(bf16)
    assert matmul(a, b, out=out, plan=ONE) is out
    check_batch(out, a, b)


def test_plans_of_batches(monkeypatch):
    """A plan that can be handed back; where one B goes with all rows, it is that of one product."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = batches(3, 3, 72, 40, 56)
    plan = plan_for(a, b)
    assert plan.blocks
    check_batch(matmul(a, b, plan=plan), a, b)
    assert plan_for(a, b[0]) == plan_for(a.reshape(216, 56), b[0])
    assert plan_for(a[0], b).blocks
    with pytest.raises(mt.MinitileError, match="2 matrices and b has 3"):
        plan_for(a[:2], b)


@pytest.mark.slow
def test_batches_by_the_model(target):
    a, b = batches(2, 2, 17, 31, 13, "NT", f16)
    check_batch(matmul(a, b), a, b)
    check_batch(matmul(a[0], b), a[0], b)
    check_batch(matmul(a, b[1]), a, b[1])
    repeated = np.broadcast_to(a[:1], a.shape)
    check_batch(matmul(repeated, b), repeated, b)
    check_batch(matmul(a, b, dtype="float32"), a, b)
    wide = np.zeros((2, 40, 13), f16)
    wide[:, 3:20] = a
    check_batch(matmul(wide[:, 3:20], b), a, b)
    for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        check_batch(matmul(*batches(2, 2, m, n, k)), *batches(2, 2, m, n, k))
    assert matmul(*batches(0, 0, 4, 4, 4)).shape == (0, 4, 4)


@pytest.mark.parametrize(
    ("shapes", "change", "words"),
    [
        (((2, 8, 24), (3, 24, 16)), {}, "2 matrices and b has 3"),
        (((2, 8, 24), (2, 23, 16)), {}, "24 columns"),
        (((2, 8, 24), (24,)), {}, "1 dimensions"),
        (((2, 8, 24), (2, 24, 16)), {"out": np.zeros((8, 16), bf16)}, "it must be"),
        (((2, 8, 24), (2, 24, 16)), {"plan": ONE._replace(split=2)}, "none for batches"),
    ],
)
def test_what_is_refused_of_batches(shapes, change, words):
    with pytest.raises(mt.MinitileError, match=words) as caught:
        matmul(*(np.zeros(shape, bf16) for shape in shapes), **change)
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
