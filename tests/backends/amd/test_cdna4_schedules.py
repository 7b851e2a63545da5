"""The schedules of gfx950: what stands in the steady loop, right under every schedule of memory, each wait and barrier
needed, ahead of the plain pipeline by the estimate; what is left as it is, and why."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.verify.check import costs, steady_loop
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import SimulationError, run_gcn
from minitile.runtime.sim.mutate.amdgcn import removals
from minitile.runtime.sim.mutate.ptx import redundant, runner
from minitile.transforms.pipeline import cdna4_modulo

pytest.importorskip("llvmlite")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import cdna4_schedules as bench
import gemm
from support import error, poisoned, random

SCHEDULES = {
    "interleaved": {"cdna4_half_tiles": False},
    "half tiles": {"cdna4_interleave": False},
    "found by search": {"cdna4_interleave": False, "cdna4_half_tiles": False},
}
MEMORY = [("eager", 0), ("lazy", 0), ("random", 0), ("random", 1)]
SMALL = {"block_M": 64, "block_N": 64, "block_K": 64, "threads": 256, "num_stages": 2}
WAITS = {
    "interleaved": ["lgkmcnt(0)", "lgkmcnt(0)", "lgkmcnt(0)", "vmcnt(0) lgkmcnt(0)", "s_barrier"],
    # Twice a tile: eight copies stay under way, half a tile that is awaited next and a whole half behind it.
    "half tiles": ["vmcnt(8) lgkmcnt(0)", "s_barrier", "lgkmcnt(0)", "vmcnt(8) lgkmcnt(0)", "s_barrier"],
    # LLVM's own, in front of products whose fragments are the oldest under way.
    "found by search": [
        *(f"lgkmcnt({n})" for n in (2, 2, 2, 2, 3, 4, 4, 4, 3, 2, 2, 2, 2, 3)),
        "vmcnt(0)",
        "lgkmcnt(0)",
        "s_barrier",
    ],
}
FAR = (
    "its reads would be more than one iteration ahead"  # what the search says of tiles that LDS, not products, holds up
)


@pytest.fixture(autouse=True)
def _loops_of_any_length(monkeypatch):
    """Small tiles are searched as well."""
    monkeypatch.setattr(cdna4_modulo, "SHORTEST", 0)


def compiled(name, m, n, k, dtype="bf16", ta=False, tb=True, passes=None, **tile):
    """The kernel, and its arguments on random data: small integers, so that no order of sums matters."""
    element, accumulate, numpy, _ = (gemm.DTYPES | gemm.FP8)[dtype]
    narrow = np.dtype(numpy).itemsize == 1
    result = (np.int32 if accumulate == T.int32 else np.float32) if narrow else numpy
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, s).astype(numpy) for s in ((k, m) if ta else (m, k), (n, k) if tb else (k, n)))
    c = poisoned((m, n), result)
    kernel = gemm.make_gemm(element, accumulate, accumulate if narrow else element, ta, tb)
    chosen = SCHEDULES[name] if passes is None else passes
    return kernel.compile(a, b, c, target="gfx950", passes=dict(chosen), **{**SMALL, **tile}), a, b, c


def want(a, b, like, ta=False, tb=True):
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return ((wide_a.T if ta else wide_a) @ (wide_b.T if tb else wide_b)).astype(like.dtype)


def large(name):
    return bench.compiled(name, 1024)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_steady_loop(name):
    """256x256x64 on 512 threads: 64 products of each wave, 24 reads of 16 bytes, 8 copies of 16 bytes a lane; the
    schedule's waits and no other; no register spilled, no AGPR in use, at most 256 registers."""
    kernel = large(name)
    loop = steady_loop(kernel.text)
    count = Counter(line.split()[0] for line in loop)
    assert count["v_mfma_f32_16x16x32_bf16"] == 64
    assert count["ds_read_b128"] == 24
    assert count["buffer_load_dwordx4"] == sum(line.endswith("lds") for line in loop) == 8
    assert not [x for x in count if x.startswith(("scratch", "v_accvgpr", "ds_write", "global"))]
    assert [line.removeprefix("s_waitcnt ") for line in bench.waits(kernel)] == WAITS[name]
    cost = costs(kernel.text)
    assert cost.vgprs <= 256
    assert (cost.vgpr_spills, cost.sgpr_spills, cost.scratch) == (0, 0, 0)
    assert not kernel.notes


@pytest.mark.parametrize("name", SCHEDULES)
def test_products_have_matching_operands(name):
    """Each product of the thread IR, once; with poisoned fragments a wrong one would show in the results anyway."""
    text = large(name).asm["thread_ir"]
    origins = []
    for line in text.splitlines():
        if "= mma_sync" in line:
            n = int(re.search(r"repeats = \(1, (\d+), 1\)", line)[1])
            at = re.search(r"origin = \((\d+), (\d+), (\d+)\)", line)
            i, j, kp = map(int, at.groups()) if at else (0, 0, 0)
            origins += [(i, j + x, kp) for x in range(n)]
    assert sorted(origins) == [(i, j, kp) for i in range(4) for j in range(8) for kp in range(2)]


@pytest.mark.parametrize("k", [64, 128, 192, 256, 320, 200])
@pytest.mark.parametrize("name", SCHEDULES)
def test_results(name, k):
    """One to five tiles of K, of which the last may be partial."""
    kernel, a, b, c = compiled(name, 64, 64, k)
    assert "s_setprio" in kernel.text
    for schedule, seed in MEMORY:
        c[:] = np.nan
        kernel.simulate(a, b, c, schedule=schedule, seed=seed)
        assert np.array_equal(c, want(a, b, c))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_large_one(name):
    kernel, a, b, c = compiled(name, 256, 256, 192, **bench.TILE)
    kernel.simulate(a, b, c, schedule="random", seed=4)
    assert np.array_equal(c, want(a, b, c))


@pytest.mark.slow
@pytest.mark.parametrize("k", [64, 128, 192, 256, 320, 8])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_large_one_everywhere(name, k):
    kernel, a, b, c = compiled(name, 257, 300, k, **bench.TILE)
    for schedule, seed in MEMORY:
        c[:] = np.nan
        kernel.simulate(a, b, c, schedule=schedule, seed=seed)
        assert np.array_equal(c, want(a, b, c))


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        ((1, 17, 8), {}),
        ((65, 130, 200), {"num_stages": 3}),
        ((65, 130, 0), {"num_stages": 2}),
        ((127, 61, 328), {"num_stages": 4, "threads": 128}),
        ((64, 96, 72), {"block_M": 64, "block_N": 96, "threads": 128}),
        ((130, 70, 104), {"block_M": 128, "block_N": 64, "block_K": 32, "threads": 128}),
        ((96, 64, 136), {"block_M": 32, "block_N": 64, "threads": 64}),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", SCHEDULES)
def test_shapes(name, size, tile):
    kernel, a, b, c = compiled(name, *size, **tile)
    kernel.simulate(a, b, c, schedule="random", seed=2)
    assert np.array_equal(c, want(a, b, c))


@pytest.mark.parametrize("dtype", ["f16", "tf32", "int8", "e4m3", "e5m2"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_dtypes(name, dtype):
    kernel, a, b, c = compiled(name, 70, 66, 272, dtype, block_K=128)
    refused = name == "found by search" and dtype in ("e4m3", "e5m2")
    assert ("s_setprio" in kernel.text) == (not refused)
    assert [FAR in note for note in kernel.notes] == [True] * refused
    kernel.simulate(a, b, c, schedule="random", seed=5)
    assert np.array_equal(c, want(a, b, c))


def test_random_data():
    """Not only integers: against float64."""
    rng = np.random.default_rng(11)
    a, b = (random(rng, (rows, 328), ml_dtypes.bfloat16) for rows in (65, 63))
    c = poisoned((65, 63), ml_dtypes.bfloat16)
    for passes in SCHEDULES.values():
        c[:] = np.nan
        gemm.gemm_nt_bf16().compile(a, b, c, target="gfx950", passes=dict(passes), **SMALL).simulate(a, b, c)
        assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) < 4e-3


@mt.kernel
def persistent(
    A: T.Tensor(("M", "K"), T.bfloat16), B: T.Tensor(("N", "K"), T.bfloat16), C: T.Tensor(("M", "N"), T.bfloat16)
):
    with T.Kernel(2, threads=128) as block:
        A_shared = T.alloc_shared((64, 64), T.bfloat16)
        B_shared = T.alloc_shared((64, 64), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        for by, bx in T.Persistent([T.ceildiv(C.shape[0], 64), T.ceildiv(C.shape[1], 64)], 2, block):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
                T.copy(A[by * 64, k * 64], A_shared)
                T.copy(B[bx * 64, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * 64, bx * 64])


@pytest.mark.few_cases
@pytest.mark.parametrize("k", [64, 192, 256])
@pytest.mark.parametrize("name", SCHEDULES)
def test_inside_another_loop(name, k):
    """The next tile of C starts with copies into what the last one has read, and with what was copied past its end."""
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (66, 130))
    c = poisoned((66, 130), ml_dtypes.bfloat16)
    kernel = persistent.compile(a, b, c, target="gfx950", passes=dict(SCHEDULES[name]))
    assert "s_setprio" in kernel.text
    for schedule, seed in MEMORY:
        c[:] = np.nan
        kernel.simulate(a, b, c, schedule=schedule, seed=seed)
        assert np.array_equal(c, want(a, b, c))


@mt.kernel
def counted(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((64, "K"), T.float16),
    C: T.Tensor((64, 64), T.float32),
    rounds=2,
    num_stages=2,
):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(rounds, num_stages=num_stages):
            T.copy(A[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_known_numbers_of_iterations(name, stages, rounds):
    """As many as versions: what the last iteration would read ahead lies behind the buffer. Fewer leave no loop."""
    rng = np.random.default_rng(rounds)
    a, b = (rng.integers(-3, 4, (64, rounds * 32)).astype(np.float16) for _ in range(2))
    c = poisoned((64, 64), np.float32)
    tile = {"rounds": rounds, "num_stages": stages}
    kernel = counted.compile(a, b, c, target="gfx950", passes=dict(SCHEDULES[name]), **tile)
    notes = [note for note in kernel.notes if FAR not in note or name != "found by search"]
    assert ("s_setprio" in kernel.text) == (rounds > stages and notes == list(kernel.notes))
    assert len(notes) == (rounds == stages) * (1 + (name != "found by search"))
    assert all(f"as many iterations as its buffers have versions ({stages})" in note for note in notes)
    for schedule, seed in MEMORY:
        c[:] = np.nan
        kernel.simulate(a, b, c, schedule=schedule, seed=seed)
        assert np.array_equal(c, want(a, b, c))


@mt.kernel
def fading(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((64, "K"), T.float16),
    C: T.Tensor((64, 64), T.float32),
    computed=False,
):
    with T.Kernel(1, threads=256):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        a = T.alloc_fragment((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(A.shape[1] // 64, num_stages=2):
            T.copy(B[0, k * 64], B_shared)
            for i, j in T.Parallel(64, 64):
                C_local[i, j] *= 0.5
            if computed:
                for i, j in T.Parallel(64, 64):
                    a[i, j] = T.cast((i + j + k) % 4, A.dtype)
                T.gemm(a, B_shared, C_local, transpose_B=True)
            else:
                T.copy(A[0, k * 64], A_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("name", SCHEDULES)
def test_what_the_loop_computes_itself(name, computed):
    """The accumulator that is scaled in front of the product, and a factor of k: they stand in front of their uses."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-3, 4, (64, 256)).astype(np.float16) for _ in range(2))
    c = poisoned((64, 64), np.float32)
    kernel = fading.compile(a, b, c, target="gfx950", passes=dict(SCHEDULES[name]), computed=computed)
    kernel.simulate(a, b, c, schedule="random", seed=2)
    exact, (i, j) = np.zeros((64, 64)), np.indices((64, 64))
    for k in range(4):
        x = (i + j + k) % 4 if computed else a[:, k * 64 : k * 64 + 64].astype(np.float64)
        exact = exact * 0.5 + x @ b[:, k * 64 : k * 64 + 64].astype(np.float64).T
    assert "s_setprio" in kernel.text
    assert np.array_equal(c, exact.astype(np.float32))


# Synchronisation ------------------------------------------------------------------------------------------------------

NEEDLESS = [
    # In front of the loop a wave has read nothing of LDS yet that the barrier could hand over; it always waits.
    r"lgkmcnt\(0\) of s_waitcnt vmcnt\(\d+\) lgkmcnt\(0\)",
    # What was copied past the end has landed before LDS could be used for something else; here nothing follows.
    r"vmcnt\(0\) of s_waitcnt vmcnt\(0\)",
]


def run_of(kernel, a, b, c):
    info = kernel.launch_info
    grid, _ = launch_of(info, [a, b, c])

    def arguments():
        return launch_of(info, [a.copy(), b.copy(), c.copy()])[1]

    return runner(info.entry, grid, info.block, arguments, simulate=run_gcn)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_wait_and_barrier_is_needed(name):
    """Each vmcnt, lgkmcnt and barrier taken away in turn; the mutants that survive are known, once each."""
    kernel, a, b, c = compiled(name, 64, 64, 328)

    def of_waits(text, entry):
        return (each for each in removals(text, entry) if "wait state" not in str(each))  # those are LLVM's

    found, count = redundant(kernel.text, kernel.launch_info.entry, run_of(kernel, a, b, c), of_waits)
    assert count >= 9
    left = [str(each).partition(": ")[2] for each in found]
    assert len(left) == len(NEEDLESS)
    for pattern, each in zip(NEEDLESS, left, strict=True):
        assert re.fullmatch(pattern, each)
    loop = "\n".join(steady_loop(kernel.text))
    assert all(each.line not in lines_of(kernel.text, loop) for each in found)


def lines_of(text, loop):
    """The numbers of the lines between the loop's first and last one."""
    lines = [line.strip() for line in text.splitlines()]
    first = next(n for n in range(len(lines)) if lines[n] == loop.splitlines()[0] and lines[n - 1][-1:] == ":")
    return range(first, len(lines) - lines[::-1].index(loop.splitlines()[-1]))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_wait_that_leaves_one_copy_more_is_found(name):
    """HipKittens' 8-wave kernel reads a half before the vmcnt(6) that covers it; so does one that waits for less."""
    kernel, a, b, c = compiled(name, 64, 64, 328)
    run = run_of(kernel, a, b, c)
    places = list(re.finditer(r"vmcnt\((\d+)\)(?= lgkmcnt\(0\)\s)", kernel.text))
    assert places
    for place in places:
        weaker = f"vmcnt({int(place[1]) + 1})"
        text = kernel.text[: place.start()] + weaker + kernel.text[place.end() :]
        for schedule, seed in MEMORY:
            with pytest.raises(SimulationError):
                run(text, schedule, seed)


# The estimate ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ahead_of_the_plain_pipeline():
    """By 15 points and more in the steady loop; without bank conflicts."""
    found = {name: bench.steady(bench.compiled(name, 1024), depths=(256, 512)) for name in bench.SCHEDULES}
    assert found["interleaved"] >= found["plain pipelined"] + 0.15
    assert found["plain pipelined"] < found["half tiles"] < found["interleaved"]
    assert bench.estimate(large("interleaved"), 128).lds_conflicts == 0


@pytest.mark.slow
def test_found_by_search():
    """Beside the schedules written by hand, and for a tile that these refuse."""
    assert bench.steady(large("found by search"), depths=(256, 512)) >= 0.87
    plain, found = (
        bench.steady(bench.compiled(name, 1024, bench.OTHER), depths=(256, 512), tile=bench.OTHER)
        for name in ("plain pipelined", "found by search")
    )
    assert found >= 0.75
    assert found >= plain + 0.2
    by_default = bench.example().compile(
        *(mt.spec(shape, "bfloat16") for shape in ((192, 1024), (192, 1024), (192, 192))),
        target="gfx950",
        **bench.OTHER,
    )
    assert by_default.text == bench.compiled("found by search", 1024, bench.OTHER).text


@pytest.mark.slow
def test_the_picture():
    """docs/steady_iteration.svg is drawn of what the estimate says."""
    folder = Path(__file__).parents[3] / "docs"
    spec = importlib.util.spec_from_file_location("steady_iteration", folder / "steady_iteration.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    shown = module.digest([module.record(name) for name in bench.SCHEDULES])
    hint = "run PYTHONPATH=. python docs/steady_iteration.py"
    assert shown in (folder / "steady_iteration.svg").read_text(encoding="utf-8"), hint


# What stays as it is --------------------------------------------------------------------------------------------------


@mt.kernel
def twice(A: T.Tensor((64, "K"), T.float16), B: T.Tensor((64, "K"), T.float16), C: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.gemm(A_shared, A_shared, C_local, transpose_B=True)
        T.copy(C_local, C)


@mt.kernel
def decayed(A: T.Tensor((64, "K"), T.float16), B: T.Tensor((64, "K"), T.float16), C: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                C_local[i, j] = C_local[i, j] * 0.5
        T.copy(C_local, C)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [(twice, "more than one pair of tiles"), (decayed, "goes on with the accumulator")],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_refusals(kernel, why):
    """A note says why; what comes out is right all the same."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 192)).astype(np.float16) for _ in range(2))
    c = poisoned((64, 64), np.float32)
    one = kernel.compile(a, b, c, target="gfx950")
    assert "s_setprio" not in one.text
    assert len(one.notes) == 3  # one for each schedule
    assert all(why in note for note in one.notes)
    one.simulate(a, b, c, schedule="random", seed=1)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    exact = np.zeros((64, 64))
    for k in range(0, 192, 64):
        x, y = wide_a[:, k : k + 64], wide_b[:, k : k + 64]
        exact = exact + x @ y.T + x @ x.T if kernel is twice else (exact + x @ y.T) * 0.5
    assert np.array_equal(c, exact.astype(np.float32))


@pytest.mark.parametrize(
    ("tile", "why"),
    [
        ({"block_M": 16, "block_N": 16, "block_K": 32, "threads": 64}, "nothing to interleave"),
        ({"block_M": 256, "block_N": 256, "block_K": 64, "threads": 256}, "registers"),
    ],
    ids=str,
)
def test_tiles_that_do_not_fit(tile, why):
    specs = [mt.spec((512, 512), "bfloat16")] * 3
    kernel = gemm.gemm_nt_bf16().compile(*specs, target="gfx950", num_stages=2, **tile)
    assert "s_setprio" not in kernel.text
    assert any(why in note for note in kernel.notes)


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (True, True)])
def test_transposing_reads(ta, tb):
    kernel, a, b, c = compiled("interleaved", 72, 80, 200, ta=ta, tb=tb)
    assert "s_setprio" in kernel.text
    assert "ds_read_b64_tr_b16" in kernel.text
    kernel.simulate(a, b, c, schedule="random", seed=6)
    assert np.array_equal(c, want(a, b, c, ta, tb))


def test_narrow_reads():
    kernel, *_ = compiled("interleaved", 64, 64, 128, "tf32", ta=True)
    assert "s_setprio" not in kernel.text
    assert any("reads are 4 bytes wide" in note for note in kernel.notes)


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_other_targets_have_none(target):
    """The switches are known there, too."""
    specs = [mt.spec((128, 128), "bfloat16")] * 3
    passes = {"cdna4_interleave": True, "cdna4_half_tiles": False}
    kernel = gemm.gemm_nt_bf16().compile(*specs, target=target, passes=passes, **{**SMALL, "threads": 128})
    assert "setprio" not in kernel.text
    assert not any("interleaved" in note for note in kernel.notes)
