"""How results leave on sm_90a: stmatrix, stores and reductions by TMA, in the simulator with every access checked.

Sizes that are no multiples of the tile, all schedules, each instruction that synchronises deleted in turn. With
MINITILE_GPU=1 the same kernels run on the GPU.
"""

from __future__ import annotations

import gemm
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, on_device, on_host, poisoned, random
from thinned import thinned

import minitile as mt
import minitile.language as T
from tests.comments import bare

BF16 = ml_dtypes.bfloat16
RESULTS = {"bf16": (T.bfloat16, BF16, 4e-3), "f16": (T.float16, np.float16, 5e-4), "f32": (T.float32, np.float32, 1e-6)}
TILES = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 2, "threads": 256}
SCHEDULES = ("lazy", "eager", "random")


def close(got, exact, bound: float) -> bool:
    return bool(np.linalg.norm(got.astype(np.float64) - exact) <= bound * max(np.linalg.norm(exact), 1e-30))


def launch(function, arrays, schedule: str = "lazy", **tiles) -> mt.CompiledKernel:
    """Run the kernel on the arrays. What sm_90a's code of it is."""
    kernel = function.compile(*arrays, target="sm_90a", **tiles)
    if not USE_GPU:
        kernel.simulate(*arrays, schedule=schedule, seed=1)
        return kernel
    if schedule != "lazy":
        pytest.skip("a GPU has a schedule of its own")
    there = [on_device(array) for array in arrays]
    function(*there, **tiles)
    for array, result in zip(arrays, there, strict=True):
        array[...] = on_host(result)
    return kernel


needs_simulator = pytest.mark.skipif(USE_GPU, reason="looks for races")


def matrices(m: int, n: int, k: int):
    rng = np.random.default_rng(0)
    a, b = random(rng, (m, k), BF16), random(rng, (n, k), BF16)
    return a, b, a.astype(np.float64) @ b.astype(np.float64).T


def multiply(m: int, n: int, k: int = 64, result: str = "bf16", schedule: str = "lazy", **tiles) -> mt.CompiledKernel:
    """A GEMM whose result is right, compiled for sm_90a."""
    dtype, element, bound = RESULTS[result]
    a, b, exact = matrices(m, n, k)
    c = poisoned((m, n), element)
    make = gemm.make_gemm(T.bfloat16, T.float32, dtype, False, True)
    kernel = launch(make, (a, b, c), schedule, **{**TILES, **tiles})
    assert close(c, exact, bound)
    return kernel


def count(kernel: mt.CompiledKernel, text: str) -> int:
    return sum(text in line for line in kernel.asm["ptx"].splitlines())


@pytest.mark.parametrize(
    ("size", "result", "schedule"), thinned([(128, 128), (1, 8), (129, 136), (251, 264)], RESULTS, SCHEDULES)
)
def test_results(size, result, schedule):
    """What lies outside the tensor is not stored: the simulator would find it, and poison would be gone."""
    kernel = multiply(*size, result=result, schedule=schedule)
    assert count(kernel, "st.global") == 0
    assert count(kernel, "cp.async.bulk.tensor.2d.global.shared::cta") == (4 if result == "f32" else 2)
    assert count(kernel, "stmatrix") == (0 if result == "f32" else 8)


@pytest.mark.parametrize(
    ("tiles", "parts"),
    [
        ({"block_M": 64, "block_N": 8, "threads": 128}, 1),  # rows of 16 bytes, no swizzle
        ({"block_M": 64, "block_N": 24, "threads": 128}, 1),  # 48 bytes: no swizzle either
        ({"block_N": 32}, 1),  # 64 bytes: a narrower swizzle
        ({"block_N": 96}, 2),  # 192 bytes, which 128 does not divide: halves of 96, unswizzled
        ({"block_N": 256}, 4),
        ({"block_M": 256, "block_N": 64}, 2),  # each warpgroup has 128 rows
        ({"block_M": 128, "block_N": 128, "threads": 128}, 4),
        ({"block_M": 192, "block_N": 64, "threads": 384}, 1),
        ({"block_M": 64, "block_N": 256}, 2),  # the warpgroups share columns
        ({"block_M": 64, "block_N": 48}, 1),  # 24 columns each
    ],
)
def test_tiles(tiles, parts):
    kernel = multiply(200, 264, **tiles)
    assert count(kernel, "cp.async.bulk.tensor.2d.global.shared::cta") == parts
    assert count(kernel, "st.global") == 0


@mt.kernel
def turned(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("batch", "N", "M"), None),
    block_M=128,
    block_N=64,
    threads=256,
    add=False,
):
    """(A · Bᵀ)ᵀ, from accumulators whose rows are columns of C."""
    M, K = A.shape
    with T.Kernel(T.ceildiv(B.shape[0], block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, 64), A.dtype)
        B_shared = T.alloc_shared((block_N, 64), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * block_M, k * 64], A_shared)
            T.copy(B[bx * block_N, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            if add:
                T.atomic_add(C[1, bx * block_N + j, by * block_M + i], C_local[i, j])
            else:
                C[1, bx * block_N + j, by * block_M + i] = C_local[i, j]


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize(
    ("tiles", "parts"),
    [
        ({}, 1),
        ({"block_M": 64, "threads": 128}, 1),
        ({"block_M": 64, "block_N": 8, "threads": 128}, 1),  # 8 rows of C
        ({"block_M": 64, "block_N": 128}, 1),  # the warpgroups share rows of C
        ({"block_M": 256, "block_N": 96}, 4),  # 128 columns and 96 rows each
    ],
)
def test_turned(tiles, parts, result):
    """16-bit elements turn on their way to shared memory, by stmatrix; no element is stored by itself."""
    _, element, bound = RESULTS[result]
    a, b, exact = matrices(136, 100, 72)
    c = poisoned((2, 100, 136), element)
    kernel = launch(turned, (a, b, c), **tiles)
    assert close(c[1], exact.T, bound)
    assert np.isnan(c[0].astype(np.float32)).all()
    assert count(kernel, "st.global") == 0
    assert count(kernel, "bulk.tensor.3d.global.shared::cta") == parts * (2 if result == "f32" else 1)
    assert (count(kernel, "x4.trans.shared") + count(kernel, "x2.trans.shared") > 0) == (result != "f32")


def test_turned_sums():
    """What adds by TMA turns as well."""
    a, b, exact = matrices(136, 100, 72)
    c = np.ones((2, 100, 136), np.float32)
    kernel = launch(turned, (a, b, c), add=True)
    assert close(c[1] - 1, exact.T, 1e-6)
    assert (c[0] == 1).all()
    assert count(kernel, "red.global") == 0
    assert count(kernel, "cp.reduce.async.bulk.tensor") > 0


def test_rows_that_tma_cannot_take():
    """M×N row-major with N odd: ordinary stores, and a note that says why."""
    kernel = gemm.make_gemm(T.bfloat16, T.float32, T.float32, False, True)
    a, b, exact = matrices(65, 37, 64)
    c = poisoned((65, 37))
    compiled = launch(kernel, (a, b, c), **TILES)
    assert close(c, exact, 1e-6)
    assert count(compiled, "bulk.tensor.2d.global") == 0
    assert any("the rows of C may not be multiples of 16 bytes" in text for text in compiled.notes)


def test_no_room_to_stage():
    """Shared memory full of stages: ordinary stores, and a note that says why."""
    kernel = multiply(128, 128, num_stages=7)
    assert count(kernel, "bulk.tensor.2d.global") == 0
    assert any("what is left of shared memory" in text for text in kernel.notes)


def test_each_warpgroup_meets_by_itself():
    """Three parts, two versions: the barriers of 128 threads; none of all consumers."""
    kernel = multiply(128, 192, block_N=192)
    assert count(kernel, "bar.sync %group, 128") == 4
    assert count(kernel, "bar.sync 1") == 0
    assert [line.split(".")[-1] for line in bare(kernel.asm["ptx"]).splitlines() if "bulk.wait_group" in line] == [
        "read 1;",
        "read 0;",
    ]


@mt.kernel
def two_results(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    D: T.Tensor(("M", "N"), T.float32),
):
    """The staging buffers of two results lie in the same bytes."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 96), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((96, 64), A.dtype)
        C_local = T.alloc_fragment((128, 96), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 128, k * 64], A_shared)
            T.copy(B[bx * 96, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 128, bx * 96])
        T.copy(C_local, D[by * 128, bx * 96])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_staging_buffers_share_their_place(schedule):
    a, b, exact = matrices(200, 104, 128)
    c, d = poisoned((200, 104), BF16), poisoned((200, 104))
    kernel = launch(two_results, (a, b, c, d), schedule)
    assert close(c, exact, 4e-3)
    assert close(d, exact, 1e-6)
    assert kernel.launch_info.dynamic_shared == 2 * (16384 + 12288) + 32768 + 32  # D's two versions hold C's


@mt.kernel
def split_k(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    parts=2,
):
    """Each block adds its part of K to the result."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 128), parts, threads=256) as (bx, by, bz):
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((128, 64), T.float32)
        T.clear(C_local)
        steps = T.ceildiv(K, 64 * parts)
        for k in T.Pipelined(steps, num_stages=2):
            T.copy(A[by * 128, (bz * steps + k) * 64], A_shared)
            T.copy(B[bx * 64, (bz * steps + k) * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.atomic_add(C[by * 128, bx * 64], C_local)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fragments_are_added_by_tma(schedule):
    a, b, exact = matrices(129, 72, 200)
    c = np.ones((129, 72), np.float32)
    kernel = launch(split_k, (a, b, c), schedule)
    assert close(c - 1, exact, 1e-6)
    assert count(kernel, "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add") == 2
    assert count(kernel, " red.") == 0


@mt.kernel
def shared_places(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((64, "K"), T.float16),
    P: T.Tensor((64,), T.int32),
    S: T.Tensor((4,), T.float32),
    R: T.Tensor((4, 64), T.float32),
    C: T.Tensor((64, 64), T.float32),
):
    """Besides a GEMM: all elements are added to one place, or those of a few; and whole rows to few rows."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(A.shape[1] // 32, num_stages=2):
            T.copy(A[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            for i in T.Parallel(32):
                T.atomic_add(S[0], T.cast(A_shared[0, i], T.float32))
        for i in T.Parallel(64):
            T.atomic_add(S[1 + i % 3], 1.0)
        for i, j in T.Parallel(64, 64):
            T.atomic_add(R[P[i], j], C_local[i, j])
        T.copy(C_local, C)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_elements_that_share_places(schedule):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 96)).astype(np.float16) for _ in range(2))
    rows = rng.integers(0, 4, 64).astype(np.int32)
    sums, by_row, c = np.zeros(4, np.float32), np.zeros((4, 64), np.float32), poisoned((64, 64), np.float32)
    kernel = launch(shared_places, (a, b, rows, sums, by_row, c), schedule)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.array_equal(c, exact)
    assert np.array_equal(sums, [a[0].sum(dtype=np.float64), 22, 21, 21])
    assert np.array_equal(by_row, [exact[rows == row].sum(0) for row in range(4)])
    assert count(kernel, "cp.async.bulk.tensor.2d.shared::cluster") > 0
    assert count(kernel, "cp.async.bulk.tensor.2d.global.shared::cta") > 0


def make_combine(kind: str, dtype):
    @mt.kernel
    def combine(A: T.Tensor(("M", "N"), dtype), C: T.Tensor(("M", "N"), dtype), D: T.Tensor(("M", "N"), dtype)):
        M, N = A.shape
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            S = T.alloc_shared((64, 64), dtype)
            T.copy(A[by * 64, bx * 64], S)
            getattr(T, f"atomic_{kind}")(C[by * 64, bx * 64], S)
            T.copy(S, D[by * 64, bx * 64])

    return combine


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("kind", "dtype", "element", "by_tma"),
    [
        ("add", T.float32, np.float32, True),
        ("add", T.bfloat16, BF16, True),
        ("add", T.int32, np.int32, True),
        ("max", T.int32, np.int32, True),
        ("min", T.float16, np.float16, True),
        ("max", T.float32, np.float32, False),  # the ISA has none
    ],
)
def test_shared_tiles_are_combined(kind, dtype, element, by_tma, schedule):
    rng = np.random.default_rng(0)
    a, c = (rng.integers(-50, 50, (67, 136)).astype(element) for _ in range(2))
    d = np.zeros_like(a)
    apply = {"add": np.add, "max": np.maximum, "min": np.minimum}[kind]
    wide = np.int64 if element is np.int32 else np.float32
    wanted = apply(a.astype(wide), c.astype(wide)).astype(element)
    kernel = launch(make_combine(kind, dtype), (a, c, d), schedule)
    assert np.array_equal(c, wanted)
    assert np.array_equal(d, a)
    assert (count(kernel, f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{kind}") > 0) == by_tma
    assert by_tma or any(f"TMA has no {kind} of f32" in text for text in kernel.notes)


@mt.kernel
def back_and_forth(
    A: T.Tensor(("M", 64), T.float32),
    C: T.Tensor((32, 64), T.float32),
    D: T.Tensor((32, 64), T.float32),
    V: T.Tensor((64,), T.float32),
):
    """All blocks of rows in turn go through one buffer and one place of a tensor, and are read back from there; and a
    vector."""
    with T.Kernel(1, threads=128):
        S = T.alloc_shared((32, 64), T.float32)
        W = T.alloc_shared((64,), T.float32)
        total = T.alloc_fragment((32, 64), T.float32)
        part = T.alloc_fragment((32, 64), T.float32)
        T.clear(total)
        for i in range(T.ceildiv(A.shape[0], 32)):
            T.copy(A[i * 32, 0], S)
            T.copy(S, C[0, 0])
            T.copy(C[0, 0], part)
            for r, c in T.Parallel(32, 64):
                total[r, c] += part[r, c]
        T.copy(total, D)
        T.copy(D[0, 0:64], W)
        T.copy(W, V)


def read_back(m: int):
    a = random(np.random.default_rng(0), (m, 64), np.float32)
    blocks = np.zeros((-(-m // 32) * 32, 64), np.float32)
    blocks[:m] = a
    total = blocks.reshape(-1, 32, 64).astype(np.float64).sum(axis=0)
    arrays = (a, poisoned((32, 64)), poisoned((32, 64)), poisoned((64,)))

    def holds(found) -> bool:
        _, c, d, v = found
        return (not m or np.array_equal(c, blocks[-32:])) and close(d, total, 1e-6) and np.array_equal(v, d[0])

    return arrays, holds


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("m", [0, 1, 32, 77])
def test_what_was_stored_is_read_back(m, schedule):
    arrays, holds = read_back(m)
    kernel = launch(back_and_forth, arrays, schedule)
    assert holds(arrays)
    assert count(kernel, "cp.async.bulk.tensor.2d.global") == 1
    assert count(kernel, "cp.async.bulk.tensor.1d.global") == 1
    assert count(kernel, "cp.async.bulk.wait_group 0;") == 1  # for the reader of C
    assert count(kernel, "cp.async.bulk.wait_group.read 0;") == 1  # for the kernel's end


@mt.kernel
def fill_ones(C: T.Tensor(("M", "N"), T.float32)):
    with T.Kernel(2, threads=128) as bx:
        S = T.alloc_shared((32, 32), T.float32)
        T.fill(S, 1)
        T.copy(S, C[bx * 32, 0])


@pytest.mark.parametrize("shape", [(0, 32), (5, 0), (31, 4), (33, 40), (64, 32)])
def test_tensors_that_end_before_the_box(shape):
    """Of a tensor without elements there is no tensor map, but the kernel runs."""
    c = poisoned(shape)
    kernel = launch(fill_ones, (c,))
    inside = np.zeros(shape, bool)
    inside[:, :32] = True
    assert np.all(np.where(inside, c == 1, np.isnan(c)))
    assert count(kernel, "bulk.tensor.2d.global") == 1


@needs_simulator
@mt.kernel
def few_bytes(C: T.Tensor((3, 16), T.float32)):
    """Rows of 64 bytes: another buffer of as many lies in front of the one that TMA reads."""
    with T.Kernel(1, threads=128):
        factor = T.alloc_shared((16,), T.float32)
        row = T.alloc_shared((16,), T.float32)
        T.fill(factor, 2.0)
        for k in T.serial(3):
            for i in T.Parallel(16):
                row[i] = factor[15 - i] * (i + k)
            T.copy(row, C[k, 0])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_few_bytes(schedule):
    result = poisoned((3, 16))
    kernel = launch(few_bytes, (result,), schedule)
    assert (result == 2 * (np.arange(16) + np.arange(3)[:, None])).all()
    assert "cp.async.bulk.tensor" in kernel.asm["ptx"]


def test_mutants_around_stores_are_killed():
    arrays, _ = read_back(77)
    found, tried = surviving_mutants(back_and_forth.compile(*arrays, target="sm_90a"), arrays)
    assert tried >= 10
    assert found == []


@needs_simulator
@pytest.mark.slow
def test_mutants_around_two_results_are_killed():
    a, b, _ = matrices(128, 96, 256)
    arrays = (a, b, poisoned((128, 96), BF16), poisoned((128, 96)))
    kernel = two_results.compile(*arrays, target="sm_90a")
    found, tried = surviving_mutants(kernel, arrays)
    assert tried >= 20
    # C leaves in two groups, and one wait is for both.
    assert [each.partition("): ")[2] for each in found] == ["cp.async.bulk.commit_group"]


@mt.kernel
def tiles_in_turn(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    blocks=2,
):
    """Each block does several tiles, with the compiler's own roles."""
    M, K = A.shape
    N = B.shape[0]
    across = T.ceildiv(N, 192)
    with T.Kernel(blocks, threads=256) as bx:
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((192, 64), A.dtype)
        C_local = T.alloc_fragment((128, 192), T.float32)
        for i in range(T.ceildiv(across * T.ceildiv(M, 128) - bx, blocks)):
            row = (bx + i * blocks) // across * 128
            column = (bx + i * blocks) % across * 192
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[row, k * 64], A_shared)
                T.copy(B[column, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[row, column])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("m", "n", "k"), [(128, 192, 64), (300, 400, 200), (1, 1000, 0)])
def test_the_next_tile_is_computed_while_one_is_stored(m, n, k, schedule):
    a, b, exact = matrices(m, n, k)
    c = poisoned((m, n), BF16)
    kernel = launch(tiles_in_turn, (a, b, c), schedule)
    assert close(c, exact, 4e-3)
    lines = bare(kernel.asm["ptx"]).splitlines()
    products = [n for n, line in enumerate(lines) if "wgmma.mma_async" in line]
    stores = [n for n, line in enumerate(lines) if "bulk.tensor.2d.global" in line]
    waits = [n for n, line in enumerate(lines) if "bulk.wait_group" in line]
    assert len(stores) == 3
    assert [lines[n].strip() for n in waits if n < stores[0]] == [
        "cp.async.bulk.wait_group.read 0;",  # before the staging buffer is written again
        "cp.async.bulk.wait_group 0;",  # before the tensor is: that tiles differ is not known
    ]
    assert min(waits) > max(products)


@mt.kernel
def persistent(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    blocks=2,
):
    """The same with explicit roles."""
    M, K = A.shape
    N = B.shape[0]
    across = T.ceildiv(N, 192)
    steps = T.ceildiv(K, 64)
    with T.Kernel(blocks, threads=256) as bx:
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((192, 64), A.dtype)
        C_local = T.alloc_fragment((64, 192), T.float32)
        full = T.alloc_barrier(arrive_count=128)
        empty = T.alloc_barrier(arrive_count=128)
        for i in range(T.ceildiv(across * T.ceildiv(M, 64) - bx, blocks)):
            row = (bx + i * blocks) // across * 64
            column = (bx + i * blocks) % across * 192
            with T.ws(0):
                T.clear(C_local)
            for k in range(steps):
                with T.ws(1):
                    T.barrier_wait(empty, (i * steps + k + 1) % 2)
                    T.tma_copy(A[row, k * 64], A_shared, barrier=full)
                    T.tma_copy(B[column, k * 64], B_shared, barrier=full)
                    T.barrier_arrive(full)
                with T.ws(0):
                    T.barrier_wait(full, (i * steps + k) % 2)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                    T.barrier_arrive(empty)
            with T.ws(0):
                T.copy(C_local, C[row, column])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 192, 64), (130, 400, 128), (300, 8, 72), (1, 1000, 64)])
def test_persistent(m, n, k, schedule):
    a, b, exact = matrices(m, n, k)
    c = poisoned((m, n), BF16)
    kernel = launch(persistent, (a, b, c), schedule)
    assert close(c, exact, 4e-3)
    lines = bare(kernel.asm["ptx"]).splitlines()
    stores = [n for n, line in enumerate(lines) if "bulk.tensor.2d.global" in line]
    waits = [n for n, line in enumerate(lines) if "bulk.wait_group" in line]
    assert len(stores) == 3
    between = [n for n in waits if stores[0] < n < stores[-1]]
    assert len(between) == 1  # the third part goes where the first one was; all else is awaited in the next round
    assert [lines[n].strip() for n in waits if n > stores[-1]] == ["cp.async.bulk.wait_group.read 0;"]


@needs_simulator
@pytest.mark.slow
def test_mutants_in_a_persistent_kernel_are_killed():
    a, b, _ = matrices(130, 192, 128)
    arrays = (a, b, poisoned((130, 192), BF16))
    kernel = persistent.compile(*arrays, target="sm_90a")
    found, tried = surviving_mutants(kernel, arrays)
    assert tried >= 20
    # Each array of barriers is initialised by itself, and that two tiles are not the same place is not known.
    known = ("fence.mbarrier_init.release.cluster", "bar.sync 0", "cp.async.bulk.wait_group 0")
    assert [each for each in found if not each.endswith(known)] == []
    assert len(found) <= 4


@pytest.mark.parametrize(
    ("tiles", "versions"),
    [
        ({"block_N": 128, "num_stages": 3}, 2),  # 64 accumulators a thread: one block on an SM in any case
        ({"block_N": 64, "num_stages": 3, "block_M": 64, "threads": 128}, 1),  # one part
        ({"block_N": 128, "num_stages": 4, "block_M": 64, "threads": 128}, 2),  # 96 and 112 KB: two blocks
        ({"block_N": 160, "num_stages": 4, "block_M": 64, "threads": 128}, 1),  # 112 KB: two blocks without staging
    ],
)
def test_a_second_version_costs_no_block(tiles, versions):
    kernel = gemm.gemm_nt_bf16()
    spec = mt.spec((1024, 1024), "bfloat16")
    compiled = kernel.compile(spec, spec, spec, target="sm_90a", **{**TILES, **tiles})
    (line,) = [line for line in compiled.asm["thread_ir"].splitlines() if "%staged = alloc" in line]
    assert ("2 versions" in line) == (versions == 2)


@mt.kernel
def through_shared(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    num_stages=4,
):
    """The stages and the whole result do not fit beside each other."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 256), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((256, 64), A.dtype)
        C_shared = T.alloc_shared((128, 256), C.dtype)
        C_local = T.alloc_fragment((128, 256), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=num_stages):
            T.copy(A[by * 128, k * 64], A_shared)
            T.copy(B[bx * 256, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C_shared)
        T.copy(C_shared, C[by * 128, bx * 256])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("num_stages", "kilobytes"), [(3, 3 * 48 + 64), (4, 4 * 48)])
def test_results_lie_where_stages_were(num_stages, kilobytes, schedule):
    """Only where there is no room for both."""
    a, b, exact = matrices(130, 264, 328)
    c = poisoned((130, 264), BF16)
    kernel = launch(through_shared, (a, b, c), schedule, num_stages=num_stages)
    assert close(c, exact, 4e-3)
    assert 0 < kernel.launch_info.dynamic_shared - 1024 * kilobytes <= 128
    assert count(kernel, "bar.sync 1, 256") == num_stages - 2  # all consumers must be done with the stages


@needs_simulator
@pytest.mark.slow
def test_mutants_where_results_lie_where_stages_were_are_killed():
    a, b, _ = matrices(128, 256, 328)
    arrays = (a, b, poisoned((128, 256), BF16))
    found, tried = surviving_mutants(through_shared.compile(*arrays, target="sm_90a"), arrays)
    assert tried >= 20
    assert found == []
