"""Every form of wgmma, through T.gemm, against float64, in the simulator or (MINITILE_GPU=1) on a GPU: operand types,
accumulators, N, warpgroups and how they share the tile, operands from registers; and what it refuses, with the reason.
The assembler must take each form as it is: no note that it serialised a wgmma."""

from __future__ import annotations

import re
from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest
from support import USE_GPU, on_device, on_host, poisoned, random

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import AssemblerMissing, assemble

ELEMENT = {
    "bf16": (T.bfloat16, ml_dtypes.bfloat16),
    "f16": (T.float16, np.float16),
    "tf32": (T.float32, np.float32),
    "e4m3": (T.float8_e4m3, ml_dtypes.float8_e4m3fn),
    "e5m2": (T.float8_e5m2, ml_dtypes.float8_e5m2),
    "s8": (T.int8, np.int8),
    "u8": (T.uint8, np.uint8),
    "f32": (T.float32, np.float32),
    "s32": (T.int32, np.int32),
}
BOUND = {"f32": 1e-6, "s32": 0, "f16": 2e-3}  # of sums of exact products; f16 rounds after each step of K
if USE_GPU:
    BOUND |= {"f32": 2e-3, "f16": 4e-3}  # fp8 is summed with about 14 bits
FORMS = [  # A, B, accumulator
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"),
    ("e5m2", "e5m2", "f32"),
    ("e4m3", "e5m2", "f32"),
    ("e5m2", "e4m3", "f16"),
    ("s8", "s8", "s32"),
    ("u8", "u8", "s32"),
    ("s8", "u8", "s32"),
    ("u8", "s8", "s32"),
]


@lru_cache
def make(a, b, into, ta=False, tb=True, policy="Square", stages=2):
    """C = op(A) · op(B): a block_K of 64 bytes."""
    a_type, b_type, c_type = (ELEMENT[name][0] for name in (a, b, into))

    @mt.kernel
    def product(
        A: T.Tensor(("K", "M") if ta else ("M", "K"), a_type),
        B: T.Tensor(("N", "K") if tb else ("K", "N"), b_type),
        C: T.Tensor(("M", "N"), c_type),
        block_M=64,
        block_N=64,
        block_K=32,
        threads=128,
    ):
        M, N = C.shape
        K = A.shape[0] if ta else A.shape[1]
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_K, block_M) if ta else (block_M, block_K), a_type)
            B_shared = T.alloc_shared((block_N, block_K) if tb else (block_K, block_N), b_type)
            C_local = T.alloc_fragment((block_M, block_N), c_type)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                if ta:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if tb:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(
                    A_shared,
                    B_shared,
                    C_local,
                    transpose_A=ta,
                    transpose_B=tb,
                    policy=getattr(T.GemmWarpPolicy, policy),
                )
            T.copy(C_local, C[by * block_M, bx * block_N])

    return product


def values(rng, shape, name):
    """Random; floats that tf32 and the sums of f16 hold well, integers of all sizes."""
    element = ELEMENT[name][1]
    if name in ("s8", "u8"):
        limits = np.iinfo(element)
        return rng.integers(limits.min, limits.max + 1, shape).astype(element)
    if name == "tf32":  # as tf32 has them: what is rounded is another test's
        return random(rng, shape, ml_dtypes.bfloat16).astype(np.float32)
    return random(rng, shape, element)


def check(a, b, into, m, n, k, ta=False, tb=True, policy="Square", schedule="random", seed=1, fits=True, **tiles):
    """Compiles, launches and compares; the compiled kernel. `fits`: wgmma must do it."""
    rng = np.random.default_rng(seed)
    left = values(rng, (k, m) if ta else (m, k), a)
    right = values(rng, (n, k) if tb else (k, n), b)
    result = poisoned((m, n), ELEMENT[into][1])
    kernel = make(a, b, into, ta, tb, policy).compile(left, right, result, target="sm_90a", **tiles)
    assert "wgmma.mma_async" in kernel.asm["ptx"] or (not fits and kernel.notes), kernel.notes
    launch(kernel, left, right, result, schedule=schedule, seed=seed)
    wide = [x.astype(np.float64) for x in (left, right)]
    exact = (wide[0].T if ta else wide[0]) @ (wide[1].T if tb else wide[1])
    difference = np.linalg.norm(result.astype(np.float64) - exact)
    assert difference <= BOUND[into] * np.linalg.norm(exact)
    return kernel


def launch(kernel, *arrays, schedule="lazy", seed=0):
    """In the simulator, with every access checked; or on the GPU. The last array is the result."""
    if not USE_GPU:
        kernel.simulate(*arrays, schedule=schedule, seed=seed)
        return
    device = [on_device(array) for array in arrays]
    kernel(*device)
    arrays[-1][...] = on_host(device[-1])


def assembles(kernel):
    """Not a word of the assembler."""
    try:
        done = assemble(kernel.asm["ptx"], "sm_90a")
    except AssemblerMissing:
        pytest.skip("nvJitLink is not installed")
    assert done.warnings == ()
    assert done.spill_stores == 0


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_types(form):
    kernel = check(*form, 136, 80, 272, block_M=128, block_N=80)
    assembles(kernel)


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
@pytest.mark.parametrize("form", [FORMS[2], FORMS[3], FORMS[6], FORMS[10]], ids="-".join)
def test_schedules(form, schedule):
    check(*form, 64, 48, 272, block_N=48, schedule=schedule)


@pytest.mark.parametrize("n", [8, 16, 24, 40, 96, 104, 192, 256])
@pytest.mark.parametrize("form", [FORMS[0], FORMS[2], FORMS[4]], ids="-".join)
def test_columns(form, n):
    check(*form, 64, n + 16, 64, block_N=n)


@pytest.mark.parametrize("n", [8, 24, 40, 48, 120])
@pytest.mark.parametrize("ta", [False, True])
def test_columns_side_by_side(n, ta):
    """N contiguous: rows of an odd number of 16 bytes lie in panels of 16 bytes, not swizzled."""
    assembles(check("bf16", "bf16", "f32", 64, n + 16, 96, ta, False, block_N=n))


@pytest.mark.parametrize("n", [8, 16, 24, 32, 40, 48, 72, 112, 256])
def test_columns_of_integers(n):
    """Above 32 an instruction's columns come in steps of 16: 40 are five strips of 8, 72 three of 24."""
    check("s8", "u8", "s32", 64, n + 16, 64, block_N=n)


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("form", FORMS[:3], ids="-".join)
def test_transposes(form, ta, tb):
    assembles(check(*form, 72, 104, 96, ta, tb, block_M=64, block_N=96))


SPLITS = [  # policy, M, N, threads: how many warpgroups go along M and N
    ("Square", 128, 64, 256, (2, 1)),
    ("FullRow", 128, 64, 256, (2, 1)),
    ("FullCol", 128, 64, 256, (1, 2)),
    ("Square", 64, 64, 256, (1, 2)),
    ("FullRow", 64, 32, 256, (1, 2)),
    ("FullCol", 128, 128, 512, (1, 4)),
    ("Square", 128, 64, 512, (2, 2)),
    ("Square", 256, 32, 512, (4, 1)),
    ("Square", 192, 32, 384, (3, 1)),
    ("FullCol", 64, 96, 384, (1, 3)),
]


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_splits(split, tb):
    policy, m, n, threads, (_, along_n) = split
    kernel = check("bf16", "bf16", "f32", m, n + 8, 96, False, tb, policy, block_M=m, block_N=n, threads=threads)
    assert f"m64n{n // along_n}k16" in kernel.asm["ptx"]
    assembles(kernel)


STRIPS = [  # M, N, threads, columns of an instruction (where N is contiguous: in whole panels)
    (192, 256, 384, 128, 128),
    (256, 160, 512, 80, 32),
    (64, 320, 128, 160, 64),
]


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("tiles", STRIPS, ids=str)
def test_strips(tiles, tb):
    """More columns than one instruction may have: two side by side."""
    m, n, threads, *columns = tiles
    kernel = check("bf16", "bf16", "f32", m, n, 32, False, tb, block_M=m, block_N=n, threads=threads)
    assert f"m64n{columns[not tb]}k16" in kernel.asm["ptx"]
    assembles(kernel)


@lru_cache
def make_from_registers(a, b, into):
    """C = A · (B₀ + B₁ + …), A once in registers. Its conversion stands in front of the loop."""
    a_type, b_type, c_type = (ELEMENT[name][0] for name in (a, b, into))

    @mt.kernel
    def product(
        A: T.Tensor(("M", 64), a_type),
        B: T.Tensor(("N", "K"), b_type),
        C: T.Tensor(("M", "N"), c_type),
        block_M=64,
        block_N=64,
        threads=128,
    ):
        M, N = C.shape
        K = B.shape[1]
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_local = T.alloc_fragment((block_M, 64), a_type)
            B_shared = T.alloc_shared((block_N, 64), b_type)
            C_local = T.alloc_fragment((block_M, block_N), c_type)
            T.copy(A[by * block_M, 0], A_local)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(B[bx * block_N, k * 64], B_shared)
                T.gemm(A_local, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return product


@pytest.mark.parametrize(("schedule", "threads"), [("lazy", 128), ("random", 256)])
@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_a_from_registers(form, schedule, threads):
    """A warpgroup has one or two blocks of 64 rows."""
    a, b, into = form
    rng = np.random.default_rng(0)
    left, right = values(rng, (128, 64), a), values(rng, (72, 192), b)
    result = poisoned((128, 72), ELEMENT[into][1])
    kernel = make_from_registers(*form).compile(left, right, result, target="sm_90a", block_M=128, threads=threads)
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    launch(kernel, left, right, result, schedule=schedule, seed=1)
    summed = right.astype(np.float64).reshape(72, 3, 64).sum(axis=1)
    exact = left.astype(np.float64) @ summed.T
    assert np.linalg.norm(result.astype(np.float64) - exact) <= BOUND[into] * np.linalg.norm(exact)
    assembles(kernel)


@lru_cache
def make_chain(kind, policy="Square"):
    """O = (Q · Kᵀ) · Vᵀ, blocks of K and V one after the other; what lies between goes from one gemm's accumulator to
    the next one's A, in `kind`."""
    element, split = ELEMENT[kind][0], getattr(T.GemmWarpPolicy, policy)

    @mt.kernel
    def chain(
        Q: T.Tensor(("M", 64), element),
        K: T.Tensor(("S", 64), element),
        V: T.Tensor(("N", "S"), element),
        O: T.Tensor(("M", "N"), T.float32),  # noqa: E741
        block_M=128,
        block_N=32,
        block_S=64,
        threads=256,
    ):
        M, N = O.shape
        S = K.shape[0]
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            Q_shared = T.alloc_shared((block_M, 64), element)
            K_shared = T.alloc_shared((block_S, 64), element)
            V_shared = T.alloc_shared((block_N, block_S), element)
            between = T.alloc_fragment((block_M, block_S), T.float32)
            weights = T.alloc_fragment((block_M, block_S), element)
            out = T.alloc_fragment((block_M, block_N), T.float32)
            T.copy(Q[by * block_M, 0], Q_shared)
            T.clear(out)
            for s in T.Pipelined(T.ceildiv(S, block_S), num_stages=2):
                T.copy(K[s * block_S, 0], K_shared)
                T.gemm(Q_shared, K_shared, between, transpose_B=True, clear_accum=True, policy=split)
                for i, j in T.Parallel(block_M, block_S):
                    between[i, j] /= 8
                T.copy(between, weights)
                T.copy(V[bx * block_N, s * block_S], V_shared)
                T.gemm(weights, V_shared, out, transpose_B=True, policy=split)
            T.copy(out, O[by * block_M, bx * block_N])

    return chain


@pytest.mark.parametrize("schedule", ["lazy", pytest.param("eager", marks=pytest.mark.slow), "random"])
@pytest.mark.parametrize(
    ("kind", "policy"),
    [*((kind, "Square") for kind in ("bf16", "f16", "e4m3", "e5m2", "tf32")), ("bf16", "FullCol"), ("e4m3", "FullCol")],
)
def test_accumulator_to_operand(kind, policy, schedule):
    """The accumulator lies as the A of 16-bit operands; for the others it goes from thread to thread in the warp. Where
    warpgroups have columns, each needs the others' as well: they meet, and can take no turns."""
    rng = np.random.default_rng(0)
    q, k, v = (values(rng, shape, kind) for shape in ((128, 64), (192, 64), (32, 192)))
    out = poisoned((128, 32))
    kernel = make_chain(kind, policy).compile(q, k, v, out, target="sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    launch(kernel, q, k, v, out, schedule=schedule, seed=1)
    element = ml_dtypes.finfo(ELEMENT[kind][1]).dtype if kind != "tf32" else np.float32
    between = (q.astype(np.float64) @ k.astype(np.float64).T / 8).astype(np.float32).astype(element)
    exact = between.astype(np.float64) @ v.astype(np.float64).T
    bound = 1e-3 if kind == "tf32" else 1e-4
    if USE_GPU and kind in ("e4m3", "e5m2"):
        bound = 2e-2  # sums of 14 bits that round to another fp8 number
    assert np.linalg.norm(out - exact) <= bound * np.linalg.norm(exact)
    assembles(kernel)


@pytest.mark.parametrize("n", [32, 40])
def test_tf32_is_rounded(n):
    """Of operands that tf32 can't hold: the error is that of rounding, half of truncation's, and has no bias."""
    rng = np.random.default_rng(0)
    left, right = rng.uniform(1, 2, (64, 256)).astype(np.float32), rng.uniform(1, 2, (n, 256)).astype(np.float32)
    result = poisoned((64, n))
    kernel = make("tf32", "tf32", "f32").compile(left, right, result, target="sm_90a", block_N=n)
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    launch(kernel, left, right, result)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.abs(result / exact - 1).max() <= 2e-4  # truncated operands are 6.6e-4 too small on average


REFUSED = {  # what wgmma can't take: the same kernel by mma.sync, and the reason
    "rows": (("bf16", "bf16", "f32"), {"block_M": 32}, "rows come in blocks of 64"),
    "K-major fp8": (("e4m3", "e4m3", "f32", False, False), {}, "K must be contiguous for e4m3"),
    "K-major int8": (("s8", "s8", "s32", True, True), {}, "K must be contiguous for i8"),
    "K-major tf32": (("tf32", "tf32", "f32", True, True), {}, "K must be contiguous for f32"),
    "columns": (("bf16", "bf16", "f32"), {"block_N": 512}, "takes 256 of a thread's 256 registers"),
    "threads": (("bf16", "bf16", "f32"), {"threads": 64}, "64 threads are not whole warpgroups"),
    "warpgroups": (("bf16", "bf16", "f32"), {"threads": 640, "block_M": 160, "block_N": 160}, "more than 4 warpgroups"),
    "K": (("bf16", "bf16", "f32", True, False), {"block_K": 24}, "K = 24 is not a multiple of 16"),
    "panels": (("bf16", "bf16", "f32", False, False), {"block_N": 48, "threads": 256}, "panels of 16 columns"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    form, tiles, reason = REFUSED[name]
    element, into = ELEMENT[form[0]][1], ELEMENT[form[2]][1]
    kernel = make(*form).compile(
        *(mt.spec((256, 256), np.dtype(e).name) for e in (element, element, into)), target="sm_90a", **tiles
    )
    assert "wgmma.mma_async" not in kernel.asm["ptx"]
    assert any(reason in note for note in kernel.notes), kernel.notes


@mt.kernel
def cleared_first(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    threads=128,
):
    """The accumulator is cleared by the first gemm of K, by a condition of run time."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.bfloat16)
        B_shared = T.alloc_shared((64, 32), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.fill(C_local, 1e30)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True, clear_accum=k == 0)
        T.copy(C_local, C[by * 64, bx * 64])


@pytest.mark.parametrize("k", [8, 96])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_cleared_at_run_time(target, k):
    rng = np.random.default_rng(0)
    left, right = values(rng, (64, k), "bf16"), values(rng, (72, k), "bf16")
    result = poisoned((64, 72))
    kernel = cleared_first.compile(left, right, result, target=target)
    launch(kernel, left, right, result)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.linalg.norm(result - exact) <= 1e-6 * np.linalg.norm(exact)
    if target == "sm_90a":
        scales = re.findall(r"wgmma\.mma_async.*, ([^,]+), 1, 1, 0, 0;", kernel.asm["ptx"])
        assert [scale[0] for scale in scales] == ["%", "1"]
        assembles(kernel)


def test_cleared_by_some_threads():
    @mt.kernel
    def uneven(A: T.Tensor((64, 64), T.bfloat16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            shared = T.alloc_shared((64, 64), T.bfloat16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, shared)
            T.clear(C_local)
            T.gemm(shared, shared, C_local, clear_accum=T.get_thread_binding() == 0)
            T.copy(C_local, C)

    with pytest.raises(mt.MinitileError, match="clear_accum differs between threads"):
        uneven.compile(mt.spec((64, 64), "bfloat16"), mt.spec((64, 64), "float32"))


def draw(seed):
    """A random form and tiles that wgmma takes, most of the time."""
    rng = np.random.default_rng(seed)
    form = FORMS[rng.integers(len(FORMS))]
    item = np.dtype(ELEMENT[form[0]][1]).itemsize
    ta, tb = (bool(rng.integers(2)), bool(rng.integers(2))) if item == 2 and form[0] != "tf32" else (False, True)
    groups = int(rng.integers(1, 5))
    tiles = {
        "threads": 128 * groups,
        "block_M": 64 * groups * int(rng.integers(1, 3)) if groups < 3 else 64 * groups,
        "block_N": int(rng.integers(1, 4 if tb else 3)) * int(rng.choice([8, 16, 24, 32, 48, 64])),
        "block_K": int(rng.choice([32, 64, 96, 128, 256])) // item,
    }
    sizes = [int(rng.integers(1, 40)) * 8 * size for size in (1, 1, 16 // item // 8 or 1)]
    if item == 1:
        sizes = [16 * -(-size // 16) for size in sizes]
    policy = ["Square", "FullRow", "FullCol"][rng.integers(3)]
    schedule = ["lazy", "eager", "random"][rng.integers(3)]
    return form, sizes, (ta, tb, policy), schedule, tiles


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random(seed):
    """Whatever the form, the result is right: by wgmma or, with the reason, by mma.sync."""
    form, sizes, how, schedule, tiles = draw(seed)
    check(*form, *sizes, *how, schedule, seed, fits=False, **tiles)


@pytest.mark.parametrize(
    ("form", "tiles", "reason"),
    [
        (("s8", "s8", "s32"), {"block_M": 32, "block_N": 24, "threads": 256}, "rows come in blocks of 64"),
        (("e4m3", "e4m3", "f16"), {"block_M": 32}, "rows come in blocks of 64"),
        (("bf16", "bf16", "f32"), {"block_N": 72, "threads": 256}, "columns come in steps of 8"),
        (("e4m3", "e4m3", "f16"), {"block_K": 16}, "K = 16 is not a multiple of 32"),
    ],
    ids=str,
)
def test_nothing_takes_it(form, tiles, reason):
    """An error that names both instructions' reasons."""
    specs = [mt.spec((256, 256), np.dtype(ELEMENT[name][1]).name) for name in form]
    with pytest.raises(mt.MinitileError, match="mma") as caught:
        make(*form).compile(*specs, target="sm_90a", **tiles)
    assert reason in caught.value.hint


@mt.kernel
def scaled(
    A: T.Tensor(("M", "K"), T.float8_e4m3),
    B: T.Tensor(("N", "K"), T.float8_e4m3),
    row_scale: T.Tensor(("KB", "M"), T.float32),
    block_scale: T.Tensor(("NB", "KB"), T.float32),
    C: T.Tensor(("M", "N"), T.bfloat16),
    block_M=128,
    block_N=128,
    block_K=128,
    threads=256,
):
    """fp8 with a scale for each row of A and block of B and each 128 of K: sums of 128 products go to f32."""
    M, N = C.shape
    K = A.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        part = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_M, block_N), T.float32)
        scale = T.alloc_fragment((block_M,), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
            for i in T.Parallel(block_M):
                scale[i] = row_scale[k, by * block_M + i] * block_scale[bx, k]
            for i, j in T.Parallel(block_M, block_N):
                total[i, j] += part[i, j] * scale[i]
        T.copy(total, C[by * block_M, bx * block_N])


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_scaled_blocks(schedule):
    rng = np.random.default_rng(0)
    m, n, k = 200, 136, 336
    left, right = values(rng, (m, k), "e4m3"), values(rng, (n, k), "e4m3")
    rows, blocks = rng.uniform(0.5, 2, (3, m)).astype(np.float32), rng.uniform(0.5, 2, (2, 3)).astype(np.float32)
    result = poisoned((m, n), ml_dtypes.bfloat16)
    kernel = scaled.compile(left, right, rows, blocks, result, target="sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    launch(kernel, left, right, rows, blocks, result, schedule=schedule)
    along_k, along_n = np.arange(k) // 128, np.arange(n) // 128
    wide = right.astype(np.float64) * blocks.astype(np.float64)[along_n][:, along_k]
    exact = (left.astype(np.float64) * rows.T.astype(np.float64)[:, along_k]) @ wide.T
    assert np.linalg.norm(result.astype(np.float64) - exact) <= 4e-3 * np.linalg.norm(exact)
    scales = re.findall(r"wgmma\.mma_async.*, ([^,]+), 1, 1;", kernel.asm["ptx"])
    assert scales == ["0", "1", "1", "1"]
    assembles(kernel)


@lru_cache
def make_widened(narrow, wide):
    """C = A · Bᵀ, A stored in 8 bits and widened in registers, a block at a time."""
    a_type, b_type = ELEMENT[narrow][0], ELEMENT[wide][0]

    @mt.kernel
    def widened(
        A: T.Tensor(("M", "K"), a_type),
        B: T.Tensor(("N", "K"), b_type),
        C: T.Tensor(("M", "N"), T.float32),
        block_M=128,
        block_N=64,
        block_K=64,
        threads=256,
    ):
        M, N = C.shape
        K = A.shape[1]
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), a_type)
            B_shared = T.alloc_shared((block_N, block_K), b_type)
            A_narrow = T.alloc_fragment((block_M, block_K), a_type)
            A_wide = T.alloc_fragment((block_M, block_K), b_type)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.copy(A_shared, A_narrow)
                for i, j in T.Parallel(block_M, block_K):
                    A_wide[i, j] = T.cast(A_narrow[i, j], b_type)
                T.gemm(A_wide, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return widened


@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize(("narrow", "wide"), [("s8", "bf16"), ("u8", "f16"), ("e4m3", "bf16"), ("s8", "tf32")])
def test_widened_operands(narrow, wide, schedule):
    """The registers that a product in flight reads are not written before it is complete."""
    rng = np.random.default_rng(0)
    left, right = values(rng, (136, 208), narrow), values(rng, (72, 208), wide)
    result = poisoned((136, 72))
    kernel = make_widened(narrow, wide).compile(left, right, result, target="sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"], kernel.notes
    launch(kernel, left, right, result, schedule=schedule, seed=1)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.linalg.norm(result - exact) <= 1e-6 * np.linalg.norm(exact)
    assembles(kernel)


@pytest.mark.parametrize(("threads", "columns"), [(256, 256), (384, 256), (512, 128), (640, 128)])
def test_registers_of_the_whole_kernel(threads, columns):
    """An instruction's accumulators must fit an equal share of the registers, also where roles are explicit."""

    @mt.kernel
    def explicit(
        A: T.Tensor((64, 64), T.bfloat16), B: T.Tensor((256, 64), T.bfloat16), C: T.Tensor((64, 256), T.float32)
    ):
        with T.Kernel(1, threads=threads):
            A_shared = T.alloc_shared((64, 64), A.dtype)
            B_shared = T.alloc_shared((256, 64), A.dtype)
            C_local = T.alloc_fragment((64, 256), T.float32)
            ready = T.alloc_barrier(arrive_count=128)
            with T.ws(1):
                T.tma_copy(A, A_shared, barrier=ready)
                T.tma_copy(B, B_shared, barrier=ready)
                T.barrier_arrive(ready)
            with T.ws(0):
                T.clear(C_local)
                T.barrier_wait(ready, 0)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C)

    specs = [mt.spec(shape, dtype) for shape, dtype in (((64, 64), "bfloat16"), ((256, 64), "bfloat16"))]
    kernel = explicit.compile(*specs, mt.spec((64, 256), "float32"), target="sm_90a")
    assert f"m64n{columns}k16" in kernel.asm["ptx"]
