"""Tensor memory and its products by hand (sm_100a, sm_103a): T.alloc_tmem, T.tcgen05_gemm and their kin.

    C_tmem, done = T.alloc_tmem((128, 64), T.float32), T.alloc_barrier(1)
    T.tcgen05_gemm(A_shared, B_shared, C_tmem, transpose_B=True, mbar=done, clear_accum=True)
    T.mbarrier_wait_parity(done, 0)
    T.copy(C_tmem, C_local)

The program says where products arrive, and waits for them. The compiler allocates and frees tensor memory, and puts
tcgen05's fences and waits for loads and stores where they are needed.
"""

from __future__ import annotations

import math
from typing import Any

from minitile.ir.core import Value
from minitile.ir.ops import arith, blackwell, explicit
from minitile.language.explicit import barrier_of
from minitile.language.gemms import GemmWarpPolicy, check_dtypes, fitting, matrices
from minitile.language.memory import Memory, as_region
from minitile.language.scalars import truth
from minitile.language.tiles import alloc, regions, tile_scope


def alloc_tmem(shape: Any, dtype: Any) -> Memory:
    """Allocates a buffer in tensor memory, common to the block's threads (sm_100a, sm_103a): 64 rows, or 128 or a
    multiple.

    There are 512 columns of 4 bytes; 128 rows of N float32 take N of them, 64 rows half as many. All of it is given
    back at the kernel's end.

    Args:
        shape: rows and columns: Python ints; columns in steps of 16.
        dtype: of 4 bytes for what T.tcgen05_gemm adds to, of A's for its A.

    Returns:
        The buffer: for T.tcgen05_gemm, and for T.copy from and to fragments, of all rows and some of the columns.

    Raises:
        LanguageError: another shape; another use.
        ResourceError: more columns than there are.
        TargetError: another target.

    Example:
        ```py
        C_tmem = T.alloc_tmem((128, 128), T.float32)
        T.fill(C_local, 1)
        T.copy(C_local, C_tmem)
        T.copy(C_tmem, C_local)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
    return alloc("tmem", shape, dtype, "T.alloc_tmem", blackwell.AllocTmem)


@regions("A", "B", "C")
def tcgen05_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    mbar: Any,
    use_2cta: bool = False,
) -> None:
    """C += A · B by tcgen05, which this does not wait for (sm_100a, sm_103a); C is in tensor memory.

    One thread of the role issues it. A, B and C must stay as they are until a phase of `mbar` is complete. f32 is
    truncated to tf32.

    Args:
        A: as of T.gemm, in shared memory; or M×K in tensor memory, not C itself.
        B: as of T.gemm, in shared memory.
        C: M×N in tensor memory, as a whole.
        transpose_A: as of T.gemm.
        transpose_B: as of T.gemm.
        policy: not looked at.
        clear_accum: as of T.gemm.
        mbar: one barrier of T.alloc_barrier, where an arrival says that the product is complete, and all that the role
            has issued before; None: a later one does, or T.tcgen05_mma_arrive.
        use_2cta: the two blocks of a cluster multiply as one (cta_group::2): each has its own A and C, and one half of
            B, which has half of C's columns then, at the same places. Both call it, and the first one issues it, so
            that the second one's operands are known there before (T.cluster_sync); it arrives at `mbar` of both. All
            products of a kernel have it, or none.

    Raises:
        TypeMismatchError: as of T.gemm.
        LanguageError: other memory, a product that tcgen05 has not; the message says why.
        TargetError: another target.

    Example:
        ```py
        C_tmem, done = T.alloc_tmem((128, 128), T.float32), T.alloc_barrier(1)
        T.copy(A[0, 0], A_shared)
        T.copy(B[0, 0], B_shared)
        T.tcgen05_gemm(A_shared, B_shared, C_tmem, transpose_B=True, clear_accum=True, mbar=done)
        T.mbarrier_wait_parity(done, 0)
        T.copy(C_tmem, C_local)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
    what = "T.tcgen05_gemm"
    trace = tile_scope(what)
    a, b, c = (as_region(x, f"{what}'s {name}") for name, x in (("A", A), ("B", B), ("C", C)))
    for name, region, spaces in (("A", a, ("shared", "tmem")), ("B", b, ("shared",)), ("C", c, ("tmem",))):
        if region.memory.space not in spaces:
            raise trace.error(
                f"{what}'s {name} is {region.memory.describe()}",
                "A and B are in shared memory, C in tensor memory (T.alloc_tmem), where A may be as well",
            )
    if c.start or c.shape != c.memory.static_shape:
        raise trace.error(f"{what}'s C is {c.describe()}", "accumulate into a whole buffer")
    if a.memory.value is c.memory.value:
        raise trace.error(f"{what}'s A and C are both {c.describe()}", "A is to stay as it is: another T.alloc_tmem")
    shapes = matrices(trace, what, (a, b, c))
    if use_2cta:
        _check_pair(what)
        shapes[1] = tuple(2 * n if (d == 0) == bool(transpose_B) else n for d, n in enumerate(shapes[1]))
    depth = fitting(trace, what, shapes, transpose_A, transpose_B)
    check_dtypes(trace, a.memory.dtype, b.memory.dtype, c.memory.dtype)
    barriers, index = _barrier(mbar, what)
    trace.b.emit(
        blackwell.TensorGemm(
            a.memory.value,
            a.offsets,
            b.memory.value,
            b.offsets,
            c.memory.value,
            trace.b.value(arith.Not(truth(clear_accum))),
            depth,
            barriers=barriers,
            index=index,
            transpose_a=bool(transpose_A),
            transpose_b=bool(transpose_B),
            a_dims=a.dims(2),
            b_dims=b.dims(2),
            reused=True,
            pair=bool(use_2cta),
        )
    )


def _check_pair(what: str) -> None:
    trace = tile_scope(what)
    blocks = 1 if trace.launch is None else math.prod(trace.launch.cluster)
    if blocks != 2:
        raise trace.error(f"{what} with use_2cta, and clusters of {blocks}", "T.Kernel(…, cluster=2)")


def _barrier(mbar: Any, what: str) -> tuple[Value, Value | None]:
    """The barriers of a product, and which one; without one, any that the program has allocated."""
    trace = tile_scope(what)
    if mbar is not None:
        bar = barrier_of(mbar, what)
        return bar.of.value, bar.index
    assert trace.launch is not None
    found = next((op for op in trace.launch.body.walk() if isinstance(op, explicit.Barriers)), None)
    if found is None:
        raise trace.error(f"{what} without a barrier", "T.alloc_barrier first: some product is to arrive at one")
    return found.result, None


def tcgen05_mma_arrive(mbar: Any) -> None:
    """An arrival at a barrier when all products that the role has issued are complete (tcgen05.commit).

    Args:
        mbar: one barrier of T.alloc_barrier.

    Raises:
        LanguageError: several barriers at once; inside T.Parallel.
        TypeMismatchError: what is no barrier.
        TargetError: another target.

    Example:
        ```py
        C_tmem, done = T.alloc_tmem((128, 128), T.float32), T.alloc_barrier(1)
        T.copy(A[0, 0], A_shared)
        T.tcgen05_gemm(A_shared, A_shared, C_tmem, transpose_B=True, clear_accum=True, mbar=None)
        T.tcgen05_mma_arrive(done)
        T.mbarrier_wait_parity(done, 0)
        ```
    """
    bar = barrier_of(mbar, "T.tcgen05_mma_arrive")
    tile_scope("T.tcgen05_mma_arrive").b.emit(blackwell.BarrierCommit(bar.of.value, bar.index))


def tcgen05_before_thread_sync() -> None:
    """Does nothing: the compiler puts tcgen05's fences where threads meet.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.tcgen05_before_thread_sync()
        ```
    """
    tile_scope("T.tcgen05_before_thread_sync")


def tcgen05_after_thread_sync() -> None:
    """Does nothing, as T.tcgen05_before_thread_sync.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.tcgen05_after_thread_sync()
        ```
    """
    tile_scope("T.tcgen05_after_thread_sync")
