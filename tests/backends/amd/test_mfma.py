"""mfma against a product in float64: every atom and pair of dtypes that a target multiplies, 2 × 2 × 2 of them; which
atom a gemm gets, and whole gemms by it."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.emit.warp import INSTRUCTIONS
from minitile.backends.amd.lowering import MFMA_OF_DTYPE
from minitile.backends.amd.verify.check import costs
from minitile.ir.ops import thread
from minitile.ir.types import dtype
from minitile.layout import (
    MFMA_ATOMS,
    MFMA_CHAINED,
    MFMA_SCALED,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
)
from minitile.target import TARGETS
from tests.backends.nvidia import harness
from tests.backends.nvidia.harness import Make, raw, run, width_of
from tests.backends.nvidia.test_warp import spread

pytest.importorskip("llvmlite")
BOTH = ("gfx942", "gfx950")


def spelt(intrinsic):
    """The mnemonic of an intrinsic: f32.32x32x8bf16.1k is v_mfma_f32_32x32x8_bf16."""
    name = intrinsic.removeprefix("llvm.amdgcn.mfma.").removeprefix("scale.").removesuffix(".v8i32.v8i32")
    return "v_mfma_" + re.sub(r"(x\d+)(b?f\d+)", r"\1.\2", name).removesuffix(".1k").replace(".", "_")


UNSCALED = [atom for atom in MFMA_ATOMS.values() if atom not in MFMA_SCALED.values()]  # test_blockscaled has the others
# Every fragment may be fed to every instruction that takes an even part of it: also to the narrower ones.
CASES = [
    (atom.name, a, b, target)
    for tile, a, b, target in INSTRUCTIONS
    for atom in UNSCALED
    if tile == f"{atom.m}x{atom.n}" and dtype(a).bits == atom.bits
    if any(atom.a.num_regs % form.k == 0 for form in INSTRUCTIONS[tile, a, b, target])
]


def test_every_atom_is_here():
    assert {case[0] for case in CASES} == {atom.name for atom in UNSCALED}
    for target, atoms in MFMA_OF_DTYPE.items():
        assert {case[1] for case in CASES if case[3] == target} == set(atoms)
        for name, preferred in atoms.items():
            assert {(atom.name, name, name, target) for atom in preferred} <= set(CASES)
    assert set(MFMA_CHAINED.values()) <= set(MFMA_ATOMS.values())


def test_every_form_that_is_needed_is_used():
    """The widest form that a fragment can be fed to; f8f6f4 for 32 elements of 8 bits."""
    for forms in INSTRUCTIONS.values():
        assert [form.k for form in forms] == sorted((form.k for form in forms), reverse=True)


@pytest.mark.parametrize(("name", "left", "right", "target"), CASES)
def test_mfma(name, left, right, target, monkeypatch):
    """With the registers in the order that minitile.layout says; small integers, so that sums are exact."""
    monkeypatch.setattr(harness, "redirect", TARGETS[target])
    atom = MFMA_ATOMS[name]
    m, n, k = 2 * atom.m, 2 * atom.n, 2 * atom.k
    accumulator = "i32" if left == "i8" else "f32"
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (m, k)).astype(dtype(left).numpy)
    b = rng.integers(-4, 5, (k, n)).astype(dtype(right).numpy)
    c = rng.integers(-9, 10, (m, n)).astype(dtype(accumulator).numpy)
    layouts = [mma_operand_a((m, k), atom, (1, 1)), mma_operand_b((k, n), atom, (1, 1))]
    layouts.append(mma_accumulator((m, n), atom, (1, 1)))
    registers = [spread(t, layout) for t, layout in zip((a, b, c), layouts, strict=True)]

    make = Make({"a": left, "b": right, "c": accumulator}, threads=64)
    values = []
    for tensor, lanes in zip(make.tensors, registers, strict=True):
        count = lanes.shape[1]
        index = make.mul(make.thread(), count)
        values.append(make.load(tensor, index, count, width_of(make.tensors[tensor].dtype.name, count)))
    d = make.emit(thread.MmaSync(*values, name, (2, 2, 2))).result
    make.store("c", make.mul(make.thread(), registers[2].shape[1]), d, 4)
    text = run(make, *[raw(r.reshape(-1)) for r in registers], threads=64)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert np.array_equal(registers[2].astype(np.float64), spread(exact, layouts[2]))
    widest = next(
        form for form in INSTRUCTIONS[f"{atom.m}x{atom.n}", left, right, target] if atom.a.num_regs % form.k == 0
    )
    assert set(re.findall(r"v_mfma_\w+", text)) == {spelt(widest.name)}
    assert costs(text).scratch == 0


# Whole gemms ----------------------------------------------------------------------------------------------------------


@lru_cache
def gemm_of(left, right, tile, threads, transposed=(False, True)):
    m, n, k = tile
    ta, tb = transposed
    types = dtype(left), dtype(right), T.int32 if left == "i8" else T.float32

    @mt.kernel
    def gemm(
        A: T.Tensor(("K", "M") if ta else ("M", "K"), types[0]),
        B: T.Tensor(("N", "K") if tb else ("K", "N"), types[1]),
        C: T.Tensor(("M", "N"), types[2]),
    ):
        M, N = C.shape
        K = A.shape[0 if ta else 1]
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((k, m) if ta else (m, k), A.dtype)
            B_shared = T.alloc_shared((n, k) if tb else (k, n), B.dtype)
            C_local = T.alloc_fragment((m, n), C.dtype)
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(K, k), num_stages=2):
                if ta:
                    T.copy(A[step * k, by * m], A_shared)
                else:
                    T.copy(A[by * m, step * k], A_shared)
                if tb:
                    T.copy(B[bx * n, step * k], B_shared)
                else:
                    T.copy(B[step * k, bx * n], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=ta, transpose_B=tb)
            T.copy(C_local, C[by * m, bx * n])

    return gemm


def product(left, right, target, tile, threads=128, size=(64, 41, 150), transposed=(False, True), seed=0):
    """Checks one gemm; its assembly."""
    rng = np.random.default_rng(seed)
    m, n, k = size
    ta, tb = transposed
    values = []
    for name, shape in ((left, (k, m) if ta else (m, k)), (right, (n, k) if tb else (k, n))):
        whole = rng.integers(-8, 9, shape) if name == "i8" else rng.standard_normal(shape)
        values.append(whole.astype(dtype(name).numpy))
    a, b = values
    c = np.full((m, n), 77, np.int32) if left == "i8" else np.full((m, n), np.nan, np.float32)
    kernel = gemm_of(left, right, tile, threads, transposed).compile(a, b, c, target=target)
    kernel.simulate(a, b, c, schedule="random", seed=seed)
    wide_a, wide_b = (x.astype(np.float64) for x in (a, b))
    exact = (wide_a.T if ta else wide_a) @ (wide_b.T if tb else wide_b)
    assert np.abs(c - exact).max() <= (0 if left == "i8" else 1e-4 * np.sqrt(k))
    return kernel.text


CHOICES = [  # dtypes, target, tile, threads, the instruction
    ("bf16", "bf16", "gfx942", (64, 64, 32), 128, "f32_16x16x16_bf16"),
    ("bf16", "bf16", "gfx942", (64, 64, 16), 128, "f32_16x16x16_bf16"),
    ("bf16", "bf16", "gfx942", (64, 64, 8), 128, "f32_32x32x8_bf16"),
    ("f16", "f16", "gfx950", (64, 64, 32), 128, "f32_16x16x32_f16"),
    ("f16", "f16", "gfx950", (64, 64, 16), 128, "f32_32x32x16_f16"),
    ("f16", "f16", "gfx950", (48, 64, 16), 64, "f32_16x16x16_f16"),  # 48 is no multiple of 32
    ("f16", "f16", "gfx950", (64, 64, 8), 128, "f32_32x32x8_f16"),
    ("i8", "i8", "gfx942", (64, 64, 64), 128, "i32_16x16x32_i8"),
    ("i8", "i8", "gfx942", (64, 64, 16), 128, "i32_32x32x16_i8"),
    ("i8", "i8", "gfx950", (64, 64, 64), 128, "i32_16x16x64_i8"),
    ("i8", "i8", "gfx950", (64, 64, 32), 128, "i32_32x32x32_i8"),
    ("i8", "i8", "gfx950", (64, 48, 32), 128, "i32_16x16x32_i8"),
    ("e4m3fnuz", "e4m3fnuz", "gfx942", (64, 64, 64), 128, "f32_16x16x32_fp8_fp8"),
    ("e4m3fnuz", "e5m2fnuz", "gfx942", (64, 64, 32), 128, "f32_16x16x32_bf8_fp8"),
    ("e5m2fnuz", "e5m2fnuz", "gfx942", (64, 64, 16), 128, "f32_32x32x16_bf8_bf8"),
    ("e4m3", "e4m3", "gfx950", (64, 64, 128), 128, "f32_16x16x128_f8f6f4"),
    ("e5m2", "e4m3", "gfx950", (64, 64, 128), 128, "f32_16x16x128_f8f6f4"),
    ("e4m3", "e5m2", "gfx950", (64, 64, 64), 128, "f32_32x32x64_f8f6f4"),
    ("e4m3", "e5m2", "gfx950", (64, 48, 64), 128, "f32_16x16x32_bf8_fp8"),
    ("f32", "f32", "gfx942", (64, 64, 16), 128, "f32_16x16x4_f32"),
    ("f32", "f32", "gfx950", (64, 64, 2), 128, "f32_32x32x2_f32"),
]


@pytest.mark.parametrize(("left", "right", "target", "tile", "threads", "instruction"), CHOICES)
def test_what_fits_is_chosen(left, right, target, tile, threads, instruction):
    """A and B are exchanged in the instruction."""
    text = product(left, right, target, tile, threads)
    assert set(re.findall(r"v_mfma_(\w+)", text)) == {instruction}


@pytest.mark.parametrize(
    ("left", "right", "accumulator", "target", "hint"),
    [
        ("e4m3", "e4m3", "f32", "gfx942", "its fp8 formats are float8_e4m3fnuz and float8_e5m2fnuz"),
        ("e5m2fnuz", "e5m2fnuz", "f32", "gfx950", "its fp8 formats are float8_e4m3fn and float8_e5m2"),
        ("e4m3", "e4m3fnuz", "f32", "gfx950", "it multiplies"),
        ("u8", "u8", "i32", "gfx950", "it multiplies f16, bf16, i8"),
        ("i8", "u8", "i32", "gfx942", "into i32 what is i8, else into f32"),
        ("f16", "f16", "f16", "gfx950", "into i32 what is i8, else into f32"),
        ("f64", "f64", "f64", "gfx942", "it multiplies"),
    ],
)
def test_what_no_mfma_multiplies(left, right, accumulator, target, hint):
    a, b, c = (dtype(name) for name in (left, right, accumulator))

    @mt.kernel
    def gemm(A: T.Tensor((32, 32), a), B: T.Tensor((32, 32), b), C: T.Tensor((32, 32), c)):
        with T.Kernel(1, threads=64):
            A_shared = T.alloc_shared((32, 32), A.dtype)
            B_shared = T.alloc_shared((32, 32), B.dtype)
            C_local = T.alloc_fragment((32, 32), C.dtype)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.clear(C_local)
            T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C)

    with pytest.raises(mt.MinitileError, match=f"no mfma on {target} multiplies {left} by {right}") as caught:
        gemm.compile(target=target)
    assert hint in caught.value.hint
    assert "T.gemm(A_shared, B_shared, C_local)" in str(caught.value)


# Operands whose neighbours in memory lie along M or N ----------------------------------------------------------------


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize(
    ("left", "right", "tile", "threads"),
    [
        ("bf16", "bf16", (64, 64, 64), 128),
        ("f16", "f16", (32, 64, 16), 64),
        ("f16", "f16", (64, 64, 8), 128),
        ("i8", "i8", (64, 32, 64), 64),
        ("i8", "i8", (64, 64, 32), 128),
        ("e4m3", "e5m2", (64, 64, 128), 128),
        ("e4m3", "e4m3", (64, 64, 16), 128),
    ],
    ids=str,
)
def test_transposing_reads(left, right, tile, threads, transposed):
    """No element is read by itself, none through registers: whatever the order in memory, 8 bytes at a time or more."""
    bits = dtype(left).bits
    size = (61, 45, 2 * tile[2] - 3) if tile[2] < 128 else (64, 48, 128)
    text = product(left, right, "gfx950", tile, threads, size, transposed)
    reads = set(re.findall(r"ds_read\w+", text))
    assert f"ds_read_b64_tr_b{bits}" in reads
    assert all("b64" in name or "b128" in name for name in reads)
    assert costs(text).scratch == 0


@pytest.mark.parametrize("target", BOTH)
def test_cleared_at_run_time(target):
    """What the accumulator held is gone where the condition says so."""

    @mt.kernel
    def gemm(A: T.Tensor((64, 192), T.float16), C: T.Tensor((64, 64), T.float32), first: T.int32):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64, 64), A.dtype)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.fill(C_local, 1e6)
            for k in T.serial(3):
                T.copy(A[0, k * 64], S)
                T.gemm(S, S, C_local, transpose_B=True, clear_accum=k == first)
            T.copy(C_local, C)

    a = np.random.default_rng(6).standard_normal((64, 192)).astype(np.float16)
    for first in (0, 2, 5):
        c = np.full((64, 64), np.nan, np.float32)
        gemm.compile(a, c, first, target=target).simulate(a, c, first)
        left = a[:, 64 * first if first < 3 else 0 :].astype(np.float64)
        assert np.abs(c - left @ left.T - (1e6 if first == 5 else 0)).max() < (1 if first == 5 else 1e-3)


def test_gfx942_has_no_transposing_reads():
    assert "tr_b" not in product("bf16", "bf16", "gfx942", (64, 64, 32), 128, (72, 48, 96), (False, False))


def test_copies_stay_ahead_of_transposing_reads():
    """LLVM waits for no more LDS-DMA than is asked for before them, and what is asked for is enough."""
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(dtype("bf16").numpy) for shape in ((64, 320), (320, 64)))
    aligned = gemm_of("bf16", "bf16", (64, 64, 64), 128, (False, False)).compile(
        a, b, np.empty((64, 64), np.float32), target="gfx950"
    )
    assert re.search(r"buffer_load_dwordx4 .* lds", aligned.text)
    assert "ds_read_b64_tr_b16" in aligned.text
    assert aligned.notes == ()
    for schedule, seed in (("lazy", 0), ("eager", 0), ("random", 0), ("random", 1)):
        c = np.full((64, 64), np.nan, np.float32)
        aligned.simulate(a, b, c, schedule=schedule, seed=seed)
        assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max() < 1e-3
