"""Gemms outside of pipelined loops are wgmma on sm_90a, with their waits and fences: against float64 in each schedule
of the simulator, in the forms that kernels come in (roles, one role, explicitly in flight); each synchronisation taken
away; what the assembler says. What is left to mma.sync, and why."""

from __future__ import annotations

import inspect
import re

import attention
import gemm
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, error, on_device, poisoned, random
from thinned import thinned

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from tests.examples.unpipelined import PROGRAMS

BF16 = ml_dtypes.bfloat16
SCHEDULES = [("lazy", 0), ("eager", 0), ("random", 1)]
TO_SPARE = r"wgmma\.(fence|commit_group)\.sync\.aligned|cp\.async(\.bulk)?\.(commit_group|wait_group 0)"  # decision 45

# Waits for another accumulator in front of a loop whose own waits would cover them: how many a program has.
WAITS_EARLY = {"around_a_pipeline": 1}


def drawn(name: str, mode: str) -> tuple[mt.CompiledKernel, list[np.ndarray], np.ndarray]:
    """The kernel, its arguments and the result that is wanted."""
    kernel, arguments, expected = PROGRAMS[name]
    rng = np.random.default_rng(0)
    values = [each if isinstance(each, np.ndarray) else small(rng, *each) for each in arguments[:-1]]
    values.append(poisoned(*arguments[-1]))
    settings = {"auto": {}, "one role": {"warp_specialize": False}, "explicit": {"explicit": True}}[mode]
    return kernel.compile(*values, target="sm_90a", **settings), values, expected(*values[:-1])


def small(rng: np.random.Generator, shape: tuple[int, ...], element: type) -> np.ndarray:
    return rng.integers(0 if np.dtype(element).kind == "u" else -3, 4, shape).astype(element)


def modes(name: str) -> list[str]:
    explicit = "explicit" in inspect.signature(PROGRAMS[name][0]).parameters
    return ["auto", "one role", *(["explicit"] if explicit else [])]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(name, mode, marks=pytest.mark.slow if (n + m) % 2 else ())
        for n, name in enumerate(PROGRAMS)
        for m, mode in enumerate(modes(name))
    ],
)
def test_programs(name, mode):
    kernel, values, expected = drawn(name, mode)
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    assert "mma.sync" not in kernel.asm["ptx"]
    for schedule, seed in SCHEDULES:
        values[-1][...] = poisoned(values[-1].shape, values[-1].dtype)
        if USE_GPU:
            there = [on_device(value) for value in values]
            kernel(*there)
            assert error(there[-1], expected) == 0
            return
        kernel.simulate(*values, schedule=schedule, seed=seed)
        np.testing.assert_array_equal(values[-1].astype(np.float64), expected)


@pytest.mark.skipif(find_ptxas("wgmma") is None, reason="needs a ptxas")
@pytest.mark.parametrize("name", PROGRAMS)
def test_assembled(name):
    """No product is serialised, nothing spills."""
    kernel, _, _ = drawn(name, "auto")
    assert kernel.assembled.warnings == ()
    assert kernel.spills == 0


def check_mutants(name: str, mode: str) -> None:
    kernel, values, _ = drawn(name, mode)
    found, count = surviving_mutants(kernel, values)
    assert count
    spare = TO_SPARE
    if mode == "explicit":
        spare += r"|wgmma\.wait_group\.sync\.aligned 0"  # the program's own
    elif mode == "auto" and "mbarrier" in kernel.asm["ptx"]:
        spare += r"|bar\.sync 1, 128"  # of a role with one warpgroup: decision 69
    rest = [each for each in found if not re.search(f": ({spare})$", each)]
    early = [each for each in rest if name in WAITS_EARLY and each.endswith("wgmma.wait_group.sync.aligned 0")]
    assert len(early) <= WAITS_EARLY.get(name, 0)
    assert [each for each in rest if each not in early] == []


@pytest.mark.parametrize("name", ["fragments", "parts"])
def test_every_mutant_is_killed(name):
    check_mutants(name, "auto")


LEFT_OUT = {
    ("persistent", ".*"): "that tiles do not overlap follows from the block swizzle's divisions only",
    ("slices", ".*"): "that three copies go to three slots follows from the number of turns only",
    ("around_a_pipeline", "one role"): "threads meet for other reasons once barriers are initialised",
}
MUTANTS = [
    (name, mode)
    for name in PROGRAMS
    for mode in modes(name)
    if not any(name == case and re.fullmatch(where, mode) for case, where in LEFT_OUT)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), MUTANTS)
def test_every_mutant_of_all_is_killed(name, mode):
    check_mutants(name, mode)


def test_barriers_of_one_warpgroup():
    """Its wait for a product is that of all threads: no barrier stands between that and what overwrites the operands.
    Of two warpgroups, one does."""
    for threads, barriers in ((128, 1), (256, 2)):
        kernel = gemm.make_gemm(T.bfloat16, T.float32, T.bfloat16, False, True)
        tiles = {"block_M": 128, "block_N": 64, "num_stages": 1, "threads": threads}
        text = kernel.compile(*[mt.spec((256, 256), "bfloat16")] * 3, target="sm_90a", **tiles).asm["ptx"]
        loop = text[text.index("$L_for0:") : text.index("$L_for_end0:")]
        assert (loop.count("bar.sync"), loop.count("fence.proxy.async"), loop.count("wgmma.wait_group")) == (
            barriers,
            1,
            1,
        )


# GEMM and attention of the examples --------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "stages"), thinned([(136, 72, 200), (64, 64, 0), (1, 8, 8), (77, 45, 51)], [0, 1]))
def test_gemm(size, stages):
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b, c = random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)
    kernel = gemm.make_gemm(T.bfloat16, T.float32, T.bfloat16, False, True)
    compiled = kernel.compile(a, b, c, target="sm_90a", num_stages=stages, block_M=64, block_N=64)
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    assert "mma.sync" not in compiled.asm["ptx"]
    for schedule, seed in SCHEDULES:
        c[...] = np.nan
        compiled.simulate(a, b, c, schedule=schedule, seed=seed)
        assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 4e-3


@pytest.mark.parametrize(("case", "stages"), thinned([(136, False), (200, True), (1, True)], [1, 0]))
def test_attention(case, stages):
    s, causal = case
    rng = np.random.default_rng(0)
    q, k, v = (random(rng, (1, 1, s, 64), BF16) for _ in range(3))
    o = poisoned((1, 1, s, 64), BF16)
    tiles = {"D": 64, "causal": causal, "block_N": 64, "num_stages": stages}
    compiled = attention.attention.compile(q, k, v, o, target="sm_90a", **tiles)
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    assert "mma.sync" not in compiled.asm["ptx"]
    for schedule, seed in SCHEDULES:
        o[...] = np.nan
        compiled.simulate(q, k, v, o, schedule=schedule, seed=seed)
        assert error(o, attention.reference(q, k, v, causal)) <= 8e-3


# tf32 ---------------------------------------------------------------------------------------------------------------


@mt.kernel
def stored_tf32(A: T.Tensor((64, 64), T.float32), B: T.Tensor((32, 64), T.float32), C: T.Tensor((64, 32), T.float32)):
    """Threads store one operand element by element, and copy the other."""
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((64, 64), T.float32), T.alloc_shared((32, 64), T.float32)
        c = T.alloc_fragment((64, 32), T.float32)
        for i, j in T.Parallel(64, 64):
            a[i, j] = A[i, j] * 3
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C)


@mt.kernel
def read_elsewhere(
    A: T.Tensor((64, 64), T.float32), B: T.Tensor((32, 64), T.float32), C: T.Tensor((64, 32), T.float32)
):
    """What is read besides is not rounded."""
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((64, 64), T.float32), T.alloc_shared((32, 64), T.float32)
        c = T.alloc_fragment((64, 32), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(64, 32):
            c[i, j] = a[i, j] + c[i, j] * 0
        T.copy(c, C)


def test_tf32_is_rounded():
    """The error is that of rounding: half of truncation's, without a bias."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (64, 64)).astype(np.float32), rng.uniform(1, 2, (32, 64)).astype(np.float32)
    c = poisoned((64, 32))
    kernel = stored_tf32.compile(a, b, c, target="sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    kernel.simulate(a, b, c)
    exact = 3 * a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c / exact - 1).max() <= 2e-4


def test_what_is_read_besides_is_not_rounded():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (64, 64)).astype(np.float32), rng.uniform(1, 2, (32, 64)).astype(np.float32)
    c = poisoned((64, 32))
    kernel = read_elsewhere.compile(a, b, c, target="sm_90a")
    assert any("would be rounded to tf32" in note for note in kernel.notes)
    kernel.simulate(a, b, c)
    np.testing.assert_array_equal(c, a[:, :32])


# What is left to mma.sync -------------------------------------------------------------------------------------------


def plain(m=64, threads=128, transpose_b=True, at=0, printing=False):
    """A product of one step; B begins `at` that column of its buffer, which only run time knows."""
    shape = (64, 128) if transpose_b else (128, 64)

    @mt.kernel
    def kernel(A: T.Tensor((m, 64), T.bfloat16), B: T.Tensor(shape, T.bfloat16), C: T.Tensor((m, 64), T.float32)):
        with T.Kernel(1, threads=threads) as bx:
            a, b = T.alloc_shared((m, 64), T.bfloat16), T.alloc_shared(shape, T.bfloat16)
            c = T.alloc_fragment((m, 64), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            start = bx + at if at else 0
            if transpose_b:
                T.gemm(a[:, 0:32], b[:, start : start + 32], c, transpose_B=True)
            else:
                T.gemm(a[:, 0:32], b[start : start + 32, :], c)
            if printing:
                T.print(start)
            T.copy(c, C)

    return kernel


REFUSED = {
    "rows": ({"m": 32}, "rows come in blocks of 64"),
    "warpgroups": ({"m": 96, "threads": 192}, "192 threads are not whole warpgroups"),
    "columns": ({"at": 40}, r"B begins at \[0, …\] of its buffer, inside of what the swizzle keeps together"),
    "rows of K": ({"at": 4, "transpose_b": False}, r"B begins at \[…, 0\] of its buffer, inside of what the swizzle"),
    "a call": ({"printing": True}, "`print` is a function call"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    settings, reason = REFUSED[name]
    kernel = plain(**settings)
    rng = np.random.default_rng(0)
    m, straight = settings.get("m", 64), settings.get("transpose_b", True)
    a = rng.integers(-3, 4, (m, 64)).astype(BF16)
    b = rng.integers(-3, 4, (64, 128) if straight else (128, 64)).astype(BF16)
    c = poisoned((m, 64))
    compiled = kernel.compile(a, b, c, target="sm_90a")
    assert "wgmma.mma_async" not in compiled.asm["ptx"]
    assert any(re.search(f"^T.gemm of line .* is mma.sync, not wgmma: .*{reason}", n) for n in compiled.notes)
    compiled.simulate(a, b, c)
    start = settings.get("at", 0)
    part = b[:, start : start + 32].T if straight else b[start : start + 32]
    np.testing.assert_array_equal(c, a[:, :32].astype(np.float64) @ part.astype(np.float64))


def test_one_accumulator_goes_one_way():
    """wgmma takes the first product only: to move the accumulator to where mma.sync has it costs more than it saves."""

    @mt.kernel
    def mixed(A: T.Tensor((64, 64), T.bfloat16), B: T.Tensor((64, 72), T.bfloat16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), T.bfloat16), T.alloc_shared((64, 72), T.bfloat16)
            c, d = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64, 64), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.clear(d)
            T.gemm(a, a, c, transpose_B=True)
            T.gemm(a[:, 0:16], b[:, 8:24], c, transpose_B=True)
            T.gemm(a, a, d, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                c[i, j] += d[i, j]
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (64, 64)).astype(BF16), rng.integers(-3, 4, (64, 72)).astype(BF16)
    c = poisoned((64, 64))
    compiled = mixed.compile(a, b, c, target="sm_90a")
    assert sum("is mma.sync, not wgmma" in note for note in compiled.notes) == 2
    assert any("its accumulator is that of the gemm of line" in note for note in compiled.notes)
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    assert "mma.sync" in compiled.asm["ptx"]
    compiled.simulate(a, b, c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(c, 2 * x @ x.T + x[:, :16] @ y[:, 8:24].T)
