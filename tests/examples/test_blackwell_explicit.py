"""T.alloc_tmem, T.tcgen05_gemm and their kin: right and race-free in all schedules, with roles and without; nothing of
the program's synchronisation is to spare; what tensor memory has not is said."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants
from support import error, poisoned, random
from test_blackwell import launch

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError, ResourceError, TargetError
from minitile.runtime.sim.mutate.ptx import removals

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
BF16 = ml_dtypes.bfloat16
SCHEDULES = ("lazy", "eager", "random")
pytestmark = pytest.mark.parametrize("target", TARGETS)


def arguments(m: int, n: int, k: int, element: Any = BF16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    return random(rng, (m, k), element), random(rng, (n, k), element), poisoned((m, n))


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


@mt.kernel
def single_role(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    block_M=128,
    block_N=64,
    threads=128,
):
    """All threads copy, one issues, all wait."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, 64), A.dtype)
        B_shared = T.alloc_shared((block_N, 64), B.dtype)
        C_tmem = T.alloc_tmem((block_M, block_N), T.float32)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        done = T.alloc_barrier(1)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * block_M, k * 64], A_shared)
            T.copy(B[bx * block_N, k * 64], B_shared)
            T.tcgen05_gemm(A_shared, B_shared, C_tmem, transpose_B=True, mbar=done, clear_accum=(k == 0))
            T.mbarrier_wait_parity(done, k % 2)
        T.copy(C_tmem, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "tiles", [{}, {"block_M": 64, "block_N": 128}, {"block_M": 256, "threads": 256}, {"threads": 256}]
)
@pytest.mark.parametrize("size", [(1, 17, 8), (130, 72, 200)])
def test_one_role(target: str, size: tuple[int, int, int], tiles: dict[str, int], schedule: str) -> None:
    a, b, c = arguments(*size)
    ptx = launch(single_role, (a, b, c), target, schedule, **tiles)
    assert error(c, exact(a, b)) <= 1e-5
    assert "tcgen05.mma" in ptx


@mt.kernel
def three_roles(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    slots=2,
    tiles=2,
):
    """One warpgroup copies by TMA, one issues, one loads and stores: of `tiles` tiles of rows in turn, each in one of
    two accumulators."""
    K = A.shape[1]
    with T.Kernel(T.ceildiv(B.shape[0], 64), threads=384) as bx:
        A_shared = T.alloc_shared((slots, 128, 32), A.dtype)
        B_shared = T.alloc_shared((slots, 64, 32), B.dtype)
        even, odd = T.alloc_tmem((128, 64), T.float32), T.alloc_tmem([128, 64], T.float32)
        C_local = T.alloc_fragment((128, 64), T.float32)
        full = T.alloc_barrier([128] * slots)
        free = T.alloc_barrier([1] * slots)
        ready = T.alloc_barrier([1] * 2)
        loaded = T.alloc_barrier([128] * 2)
        steps = T.ceildiv(K, 32)
        with T.ws(1):
            for i in range(tiles * steps):
                T.mbarrier_wait_parity(free[i % slots], (i // slots + 1) % 2)
                T.tma_copy(A[i // steps * 128, i % steps * 32], A_shared[i % slots, :, :], barrier=full[i % slots])
                T.tma_copy(B[bx * 64, i % steps * 32], B_shared[i % slots, :, :], barrier=full[i % slots])
                T.mbarrier_arrive(full[i % slots])
        with T.ws(2):
            for t in range(tiles):
                T.mbarrier_wait_parity(loaded[t % 2], (t // 2 + 1) % 2)
                T.tcgen05_after_thread_sync()
                for k in range(steps):
                    i = t * steps + k
                    T.mbarrier_wait_parity(full[i % slots], i // slots % 2)
                    if t % 2 == 0:
                        T.tcgen05_gemm(
                            A_shared[i % slots, :, :],
                            B_shared[i % slots, :, :],
                            even,
                            False,
                            True,
                            mbar=free[i % slots],
                            clear_accum=k == 0,
                        )
                    else:
                        T.tcgen05_gemm(
                            A_shared[i % slots, :, :],
                            B_shared[i % slots, :, :],
                            odd,
                            False,
                            True,
                            mbar=None,
                            clear_accum=k == 0,
                        )
                        T.tcgen05_mma_arrive(free[i % slots])
                T.tcgen05_mma_arrive(ready[t % 2])
        with T.ws(0):
            for t in range(tiles):
                T.mbarrier_wait_parity(ready[t % 2], t // 2 % 2)
                if t % 2 == 0:
                    T.copy(even, C_local)
                else:
                    T.copy(odd, C_local)
                T.tcgen05_before_thread_sync()
                T.mbarrier_arrive(loaded[t % 2])
                T.copy(C_local, C[t * 128, bx * 64])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("tiles", "k"), [(1, 8), (2, 200), (5, 72)])
def test_three_roles(target: str, tiles: int, k: int, schedule: str) -> None:
    a, b, c = arguments(128 * tiles - 3, 72, k)
    ptx = launch(three_roles, (a, b, c), target, schedule, tiles=tiles)
    assert "cp.async.bulk.tensor" in ptx
    assert error(c, exact(a, b)) <= 1e-5


@mt.kernel
def factor_in_tensor_memory(
    A: T.Tensor((128, 64), T.bfloat16), B: T.Tensor((32, 64), T.bfloat16), C: T.Tensor((128, 32), T.float32)
):
    """(A + A) · Bᵀ; A and what is added to come from fragments, part by part."""
    with T.Kernel(1, threads=128):
        B_shared = T.alloc_shared((32, 64), B.dtype)
        a = T.alloc_fragment((128, 32), A.dtype)
        c = T.alloc_fragment((128, 32), T.float32)
        A_tmem = T.alloc_tmem((128, 64), A.dtype)
        C_tmem = T.alloc_tmem((128, 32), T.float32)
        done = T.alloc_barrier(1)
        T.copy(B, B_shared)
        for part in T.unroll(2):
            T.copy(A[0, part * 32], a)
            for i, j in T.Parallel(128, 32):
                a[i, j] = a[i, j] + a[i, j]
            if part == 0:
                T.copy(a, A_tmem[:, 0:32])
            else:
                T.copy(a, A_tmem[:, 32:64])
        T.fill(c, 1)
        T.copy(c, C_tmem)
        T.tcgen05_gemm(A_tmem, B_shared, C_tmem, transpose_B=True, mbar=done)
        T.mbarrier_wait_parity(done, 0)
        T.copy(C_tmem[:, 0:16], C[0:128, 0:16])
        T.copy(C_tmem[:, 16:32], C[0:128, 16:32])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_factor_in_tensor_memory(target: str, schedule: str) -> None:
    a, b, c = arguments(128, 32, 64)
    ptx = launch(factor_in_tensor_memory, (a, b, c), target, schedule)
    assert re.search(r"tcgen05\.mma\S+ \[%\S+\], \[", ptx)  # A by an address
    assert error(c, 1 + 2 * exact(a, b)) <= 1e-5


@mt.kernel
def part_of_a_factor(
    A: T.Tensor((128, 64), T.bfloat16), B: T.Tensor((32, 32), T.bfloat16), C: T.Tensor((128, 32), T.float32), first=32
):
    """A[:, first : first + 32] · Bᵀ, of an A that is whole in tensor memory."""
    with T.Kernel(1, threads=128):
        B_shared = T.alloc_shared((32, 32), B.dtype)
        a = T.alloc_fragment((128, 64), A.dtype)
        c = T.alloc_fragment((128, 32), T.float32)
        A_tmem = T.alloc_tmem((128, 64), A.dtype)
        C_tmem = T.alloc_tmem((128, 32), T.float32)
        done = T.alloc_barrier(1)
        T.copy(B, B_shared)
        T.copy(A, a)
        T.copy(a, A_tmem)
        T.tcgen05_gemm(A_tmem[:, first : first + 32], B_shared, C_tmem, transpose_B=True, mbar=done, clear_accum=True)
        T.mbarrier_wait_parity(done, 0)
        T.copy(C_tmem, c)
        T.copy(c, C)


@pytest.mark.parametrize("first", [0, 16, 32])
def test_part_of_a_factor(target: str, first: int) -> None:
    rng = np.random.default_rng(first)
    a, b, c = random(rng, (128, 64), BF16), random(rng, (32, 32), BF16), poisoned((128, 32))
    launch(part_of_a_factor, (a, b, c), target, first=first)
    assert error(c, exact(a[:, first : first + 32], b)) <= 1e-5


def test_part_of_a_factor_that_is_none(target: str) -> None:
    with pytest.raises(MinitileError, match="at its first row and a constant multiple of 16 columns"):
        part_of_a_factor.compile(target=target, first=8)


@mt.kernel
def parts_of_columns(
    A: T.Tensor(("M", 64), T.float32), C: T.Tensor(("M", "width"), T.float32), rows=128, first=0, count=64, threads=128
):
    """C = A[:, first : first + count], by a buffer that is allocated in a loop."""
    with T.Kernel(1, threads=threads):
        whole = T.alloc_fragment((rows, 64), T.float32)
        some = T.alloc_fragment((rows, count), T.float32)
        for _ in range(A.shape[0] // rows):
            A_tmem = T.alloc_tmem((rows, 64), T.float32)
            T.copy(A, whole)
            T.copy(whole, A_tmem)
            T.copy(A_tmem[:, first : first + count], some)
            T.copy(some, C)


@pytest.mark.parametrize(  # ptxas spills for 128 threads and 32 columns of 256 rows, beside the 64 that they copy
    ("first", "count", "threads"), [(5, 1, 128), (5, 3, 128), (16, 16, 128), (5, 1, 256), (5, 3, 256), (16, 48, 256)]
)
def test_parts_of_columns(target: str, first: int, count: int, threads: int) -> None:
    """Of two blocks of rows also where a thread has one column: the blocks are not taken for columns."""
    a, c = np.arange(256 * 64, dtype=np.float32).reshape(256, 64), poisoned((256, count))
    launch(parts_of_columns, (a, c), target, "lazy", rows=256, first=first, count=count, threads=threads)
    assert np.array_equal(c, a[:, first : first + count])


@pytest.mark.parametrize("element", [BF16, np.int8, np.int32])
@pytest.mark.parametrize(("rows", "first", "count"), [(256, 0, 64), (256, 4, 12), (64, 0, 64)])
def test_elements_there_and_back(target: str, element: Any, rows: int, first: int, count: int) -> None:
    """Of less than 32 bits several are in a column."""
    dtype = {BF16: T.bfloat16, np.int8: T.int8, np.int32: T.int32}[element]

    @mt.kernel
    def copies(A: T.Tensor((rows, 64), dtype), C: T.Tensor((rows, count), dtype)):
        with T.Kernel(1, threads=128):
            whole, some = T.alloc_fragment((rows, 64), dtype), T.alloc_fragment((rows, count), dtype)
            memory = T.alloc_tmem((rows, 64), dtype)
            T.copy(A, whole)
            T.copy(whole, memory)
            T.copy(memory[:, first : first + count], some)
            T.copy(some, C)

    a, c = np.arange(rows * 64).reshape(rows, 64).astype(element), np.full((rows, count), -1).astype(element)
    launch(copies, (a, c), target, "eager")
    assert np.array_equal(c, a[:, first : first + count])


@mt.kernel
def seen_as_halves(
    A: T.Tensor((128, 32), T.float32), C: T.Tensor((128, 64), T.bfloat16), B: T.Tensor((128, 32), T.float32)
):
    """Words stored, halves loaded; the first 16 halves stored, words loaded."""
    with T.Kernel(1, threads=128):
        words, halves = T.alloc_fragment((128, 32), T.float32), T.alloc_fragment((128, 64), T.bfloat16)
        some = T.alloc_fragment((128, 16), T.bfloat16)
        memory = T.alloc_tmem((128, 32), T.float32)
        view = T.view(memory, dtype=T.bfloat16)
        T.copy(A, words)
        T.copy(words, memory)
        T.copy(view, halves)
        T.copy(halves, C)
        T.fill(some, 0)
        T.copy(some, view[:, 0:16])
        T.copy(memory, words)
        T.copy(words, B)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_views(target: str, schedule: str) -> None:
    a = random(np.random.default_rng(3), (128, 32), np.float32)
    c, b = poisoned((128, 64), BF16), poisoned((128, 32))
    ptx = launch(seen_as_halves, (a, c, b), target, schedule)
    assert np.array_equal(c.view(np.uint16), a.view(np.uint16))
    assert np.array_equal(b, np.where(np.arange(32) < 8, 0, a))
    assert re.search(r"tcgen05\.alloc\S+ \[\S+\], 32;", ptx)


@pytest.mark.parametrize("threads", [64, 192])
def test_no_whole_warpgroups(target: str, threads: int) -> None:
    a, c = poisoned((128, 64)), poisoned((128, 64))
    with pytest.raises(MinitileError, match=f"{threads} threads do not share 128×64 of tensor memory"):
        parts_of_columns.compile(a, c, target=target, threads=threads)


# What is to spare, by the kernel's name: a proxy fence in front of the products makes the mbarrier known to the async
# proxy as well. The compiler does not know what a barrier of the program is for: behind a wait for TMA a fence is, too.
# Schedules run warps whole, and a warp loads as one: what all but one of its lanes tell, is told.
SPARE = {
    "single_role": ("fence.mbarrier_init",),
    "factor_in_tensor_memory": ("fence.mbarrier_init",),
    "three_roles": ("bar.warp.sync", "tcgen05.fence::after", "], 128 -> mbarrier.init.shared.b64 [%loaded"),
}


@TAKEN_OR_WEAKER
@pytest.mark.parametrize(
    "kernel", [single_role, factor_in_tensor_memory, pytest.param(three_roles, marks=pytest.mark.slow)]
)
def test_mutants(target: str, kernel: Any, candidates: Any) -> None:
    """Without any one of the waits, arrivals and barriers of the program, or of the fences, commits and the dealloc
    that are the compiler's, or where one is weaker, it is at fault; but for what is named."""
    arrays = arguments(128, 32, 64) if kernel is factor_in_tensor_memory else arguments(512, 64, 136)
    given = {"tiles": 4} if kernel is three_roles else {}
    survivors, count = surviving_mutants(kernel.compile(*arrays, target=target, **given), arrays, candidates)
    assert count >= (12 if candidates is removals else 8)
    assert [each for each in survivors if not any(word in each for word in SPARE[kernel.__name__])] == []


@mt.kernel
def all_columns(X: T.Tensor((128, 512), T.float32), Y: T.Tensor((128, 512), T.float32), columns=512):
    with T.Kernel(1, threads=128):
        whole = T.alloc_tmem((128, columns), T.float32)
        part = T.alloc_fragment((128, 64), T.float32)
        for j in T.unroll(8):
            T.copy(X[0, j * 64], part)
            T.copy(part, whole[:, j * 64 : j * 64 + 64])
        for j in T.unroll(8):
            T.copy(whole[:, j * 64 : j * 64 + 64], part)
            T.copy(part, Y[0, j * 64])


def test_all_columns(target: str) -> None:
    """All of tensor memory is more than shared memory has: its columns are what counts, up to the last one."""
    x, y = random(np.random.default_rng(0), (128, 512), np.float32), poisoned((128, 512))
    assert all_columns.compile(x, y, target=target).simulate(x, y).findings == []
    assert (x == y).all()
    with pytest.raises(ResourceError, match=r"1024 columns: tensor memory has 512"):
        all_columns.compile(x, y, target=target, columns=1024)


@mt.kernel
def stored_twice(X: T.Tensor((128, 64), T.float32), Y: T.Tensor((128, 64), T.float32)):
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((128, 64), T.float32)
        memory, other = T.alloc_tmem((128, 64), T.float32), T.alloc_tmem((128, 64), T.float32)
        T.fill(x, 1.0)
        T.copy(x, memory)
        T.copy(x, other)
        T.copy(X, x)
        T.copy(x, memory)
        T.copy(memory, x)
        T.copy(x, Y)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_store_over_another(target: str, schedule: str) -> None:
    """Stores to the same columns are in no order by themselves: a wait between them, and none elsewhere."""
    x, y = random(np.random.default_rng(0), (128, 64), np.float32), poisoned((128, 64))
    kernel = stored_twice.compile(x, y, target=target)
    kernel.simulate(x, y, schedule=schedule)
    assert (x == y).all()
    assert len(re.findall(r"tcgen05\.wait::st", kernel.asm["ptx"])) == 2


@mt.kernel
def part_by_part(X: T.Tensor((128, 96), T.float32), Y: T.Tensor((128, 96), T.float32)):
    """X + 1, by columns of tensor memory that are loaded and stored anew, half by half."""
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((128, 48), T.float32)
        memory = T.alloc_tmem((128, 96), T.float32)
        for part in T.unroll(2):
            T.copy(X[0, part * 48], x)
            T.copy(x, memory[:, part * 48 : part * 48 + 48])
        for part in T.unroll(2):
            T.copy(memory[:, part * 48 : part * 48 + 48], x)
            for i, j in T.Parallel(128, 48):
                x[i, j] += 1
            T.copy(x, memory[:, part * 48 : part * 48 + 48])
        for part in T.unroll(2):
            T.copy(memory[:, part * 48 : part * 48 + 48], x)
            T.copy(x, Y[0, part * 48])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_columns_in_turn(target: str, schedule: str) -> None:
    """A load waits for stores to the same columns alone, and two instructions of one load have one wait."""
    x, y = random(np.random.default_rng(0), (128, 96), np.float32), poisoned((128, 96))
    kernel = part_by_part.compile(x, y, target=target)
    kernel.simulate(x, y, schedule=schedule)
    assert (y == x + 1).all()
    found = re.findall(r"^ *tcgen05\.(ld|st|wait::ld|wait::st)", kernel.asm["ptx"], re.MULTILINE)
    stored, added = ["st", "st"] * 2, ["ld", "ld", "wait::ld", "st", "st"]
    loaded = ["ld", "ld", "wait::ld"]
    assert found == [*stored, "wait::st", *added, *added, "wait::st", *loaded, *loaded]


@mt.kernel
def told_before_it_hears(X: T.Tensor((128, 16), T.float32), Y: T.Tensor((128, 16), T.float32)):
    """The first warpgroup waits for the second between its store and its word that it has stored."""
    with T.Kernel(1, threads=256):
        memory = T.alloc_tmem((128, 16), T.float32)
        here, stored = T.alloc_barrier(128), T.alloc_barrier(128)
        with T.ws(0):
            x = T.alloc_fragment((128, 16), T.float32)
            T.copy(X, x)
            T.copy(x, memory)
            T.mbarrier_wait_parity(here, 0)
            T.mbarrier_arrive(stored)
        with T.ws(1):
            y = T.alloc_fragment((128, 16), T.float32)
            T.mbarrier_arrive(here)
            T.mbarrier_wait_parity(stored, 0)
            T.copy(memory, y)
            T.copy(y, Y)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_who_waits_tells_nothing(target: str, schedule: str) -> None:
    """The fence before, and the wait for stores, stand in front of the arrival, not of the wait."""
    x, y = random(np.random.default_rng(0), (128, 16), np.float32), poisoned((128, 16))
    kernel = told_before_it_hears.compile(x, y, target=target)
    kernel.simulate(x, y, schedule=schedule)
    assert (x == y).all()
    first = kernel.asm["ptx"].partition("tcgen05.st")[2]
    words = r"^ *(tcgen05\.(?:wait|fence)::\w+|mbarrier\.(?:try_wait|arrive))"
    found = re.findall(words, first, re.MULTILINE)
    arrives = ["tcgen05.wait::st", "tcgen05.fence::before_thread_sync", "mbarrier.arrive"]
    assert found[:4] == ["mbarrier.try_wait", *arrives]


@mt.kernel
def by_pairs(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    n=64,
    apart=False,
    cluster=2,
    both=True,
):
    """C = A · Bᵀ by pairs of blocks: 128 rows each, half of the rows of B; `apart`: the commit is one of its own."""
    with T.Kernel(T.ceildiv(C.shape[0], 256) * 2, T.ceildiv(C.shape[1], n), threads=128, cluster=cluster) as (bx, by):
        a, b = T.alloc_shared((128, 32), A.dtype), T.alloc_shared((n // 2, 32), A.dtype)
        c, f = T.alloc_tmem((128, n), T.float32), T.alloc_fragment((128, n), T.float32)
        done = T.alloc_barrier(1)
        for k in T.serial(T.ceildiv(A.shape[1], 32)):
            T.copy(A[bx * 128, k * 32], a)
            T.copy(B[by * n + bx % 2 * (n // 2), k * 32], b)
            T.cluster_sync()
            bar = None if apart else done
            T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=k == 0, mbar=bar, use_2cta=True)
            if apart:
                T.tcgen05_mma_arrive(done)
            if not both:
                T.tcgen05_gemm(a, a, T.alloc_tmem((128, 128), T.float32), transpose_B=True, mbar=done)
            T.mbarrier_wait_parity(done, k % 2)
        T.copy(c, f)
        T.copy(f, C[bx * 128, by * n])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("n", [32, 128])
def test_pairs(target: str, n: int, apart: bool, schedule: str) -> None:
    rng = np.random.default_rng(n)
    a, b, c = random(rng, (300, 72), BF16), random(rng, (130, 72), BF16), poisoned((300, 130))
    kernel = by_pairs.compile(a, b, c, target=target, n=n, apart=apart)
    assert set(re.findall(r"tcgen05\.(?:mma|commit|alloc|dealloc)\.cta_group::(\d)", kernel.asm["ptx"])) == {"2"}
    assert kernel.spills == 0
    kernel.simulate(a, b, c, schedule=schedule, seed=1)
    assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 1e-6


@pytest.mark.slow
@TAKEN_OR_WEAKER
@pytest.mark.parametrize("apart", [False, True])
def test_mutants_of_pairs(target: str, apart: bool, candidates: Any) -> None:
    """Two pairs, three steps of K; but for the fence of the mbarriers' initialisation, which the proxy fences in front
    of each product do as well, nothing is to spare or may be weaker."""
    rng = np.random.default_rng(3)
    a, b, c = random(rng, (300, 72), BF16), random(rng, (32, 72), BF16), poisoned((300, 32))
    kernel = by_pairs.compile(a, b, c, target=target, n=32, apart=apart)
    survivors, count = surviving_mutants(kernel, (a, b, c), candidates)
    assert count >= (18 if candidates is removals else 10)
    assert [each for each in survivors if "fence.mbarrier_init" not in each] == []


@pytest.mark.parametrize(
    ("given", "why"),
    [({"cluster": 1}, "use_2cta, and clusters of 1"), ({"both": False}, "without use_2cta, in a kernel that has one")],
)
def test_no_pairs(target: str, given: dict[str, Any], why: str) -> None:
    a, b, c = poisoned((256, 64), BF16), poisoned((64, 64), BF16), poisoned((256, 64))
    with pytest.raises(MinitileError, match=why):
        by_pairs.compile(a, b, c, target=target, **given)


# What is not ---------------------------------------------------------------------------------------------------------


@mt.kernel
def faulty(A: T.Tensor((128, 64), T.bfloat16), C: T.Tensor((128, 128), T.float32), what=""):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 64), A.dtype)
        c = T.alloc_tmem((100 if what == "rows" else 128, 128), T.float32)
        more = [T.alloc_tmem((128, 128), T.float32) for _ in range(4 if what == "columns" else 0)]
        f = T.alloc_fragment((128, 128), T.float32)
        done = T.alloc_barrier(1)
        T.copy(A, a)
        if what == "element":
            for i in T.Parallel(128):
                C[i, 0] = c[i, 0]
        elif what == "view":
            T.view(c, (64, 256))
        elif what == "some rows":
            T.copy(c[0:64, :], f[0:64, :])
        elif what == "depth":
            T.tcgen05_gemm(a[:, 0:8], a[:, 0:8], c, transpose_B=True, mbar=done)
        elif what == "fragment":
            T.tcgen05_gemm(a, a, f, transpose_B=True, mbar=done)
        elif what == "shape":
            T.tcgen05_gemm(a, a, c, mbar=done)
        elif what == "in place":
            T.tcgen05_gemm(c, T.alloc_shared((128, 128), T.float32), c, transpose_B=True, mbar=done)
        elif what == "barrier":
            T.tcgen05_gemm(a, a, c, transpose_B=True, mbar=a)
        for each in more:
            T.copy(each, f)
        if what in ("columns", "some rows"):
            T.copy(f, C)


FAULTS = {
    "rows": r"T.alloc_tmem of 100×128: rows are 64, or come in blocks of 128",
    "columns": r"640 columns of tensor memory: there are 512",
    "element": r"whole columns",
    "some rows": r"whole columns",
    "view": r"its rows are lanes, and stay",
    "depth": r"T.tcgen05_gemm: K = 8 is not a multiple of 16",
    "fragment": r"T.tcgen05_gemm's C is the fragment f",
    "shape": r"with transpose_A=False, transpose_B=True they fit",
    "in place": r"T.tcgen05_gemm's A and C are both",
    "barrier": r"T.tcgen05_gemm: .* is no barrier",
}


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_not(target: str, what: str) -> None:
    with pytest.raises(MinitileError, match=FAULTS[what]) as raised:
        faulty.compile(target=target, what=what)
    assert raised.value.loc is not None


def test_other_targets(target: str) -> None:
    with pytest.raises(TargetError, match=r"sm_90a has no T\.alloc_tmem"):
        factor_in_tensor_memory.compile(target="sm_90a")
