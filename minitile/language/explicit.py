"""Explicit roles of warpgroups, barriers and copies: T.ws, T.alloc_barrier, T.tma_copy and their kin, for sm_90a.

    ready, done = T.alloc_barrier(128), T.alloc_barrier(128)
    for k in range(n):
        with T.ws(1):
            T.barrier_wait(done, (k + 1) % 2)
            T.tma_copy(A[by * 128, k * 64], A_shared, barrier=ready)
            T.barrier_arrive(ready)
        with T.ws(0):
            T.barrier_wait(ready, k % 2)
            T.gemm(A_shared, B_shared, C_local)
            T.barrier_arrive(done)

The order between roles is the program's own, by its barriers; among the threads of one role the compiler inserts
barriers as anywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitile.hardware import WARPGROUP
from minitile.ir.core import Value
from minitile.ir.diagnostics import LanguageError, TypeMismatchError, shown
from minitile.ir.ops import explicit, hopper, tile
from minitile.ir.types import i32
from minitile.language.memory import as_region, between, match_extents
from minitile.language.scalars import constant_int, convert, is_scalar, operand_value
from minitile.language.tiles import regions, tile_scope
from minitile.language.tracing.context import Trace, current
from minitile.language.warps import FULL_WARP, lane_mask

# Roles -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoleScope:
    """`T.ws(…)` as a `with` statement of a kernel sees it: the warpgroups that execute its body."""

    first: int
    count: int

    @property
    def name(self) -> str:
        return f"T.ws({', '.join(map(str, range(self.first, self.first + self.count)))})"

    def __enter__(self) -> None:
        raise LanguageError("T.ws has a meaning only in a `with` statement of a function marked @mt.kernel")

    def __exit__(self, *_: object) -> None: ...


def ws(*warp_group_idx: Any) -> RoleScope:
    """`with T.ws(0):` only warpgroup 0 (threads 0 to 127) executes the body; `T.ws(0, 1)`: the first two together
    (sm_90a).

    Each role becomes a program of its own. Tile operations inside are spread over the role's threads. Among these the
    compiler inserts barriers as anywhere; the order between roles is the program's own, by its barriers.

    Args:
        warp_group_idx: the numbers of neighbouring warpgroups: Python ints.

    Raises:
        LanguageError: others, and where `threads` of T.Kernel is no multiple of 128.
        TargetError: another target.

    Example:
        ```py
        ready = T.alloc_barrier(128)
        with T.ws(1):
            T.tma_copy(A[bx * 128, 0], A_shared, barrier=ready)
            T.barrier_arrive(ready)
        with T.ws(0):
            T.barrier_wait(ready, 0)
            T.copy(A_shared, C[bx * 128, 0])
        ```
    """
    trace = tile_scope("T.ws")
    assert trace.launch is not None
    groups = sorted({constant_int(g, "the number of a warpgroup") for g in warp_group_idx})
    number, rest = divmod(trace.launch.threads, WARPGROUP)
    if rest:
        raise trace.error(
            f"T.ws in a kernel of {trace.launch.threads} threads", "warpgroups have 128: use a multiple of it"
        )
    if not groups or groups[0] < 0 or groups[-1] >= number or groups[-1] - groups[0] >= len(groups):
        raise trace.error(
            f"T.ws({', '.join(map(str, groups))}) in a kernel of {number} warpgroups",
            f"give neighbours among 0 to {number - 1}",
        )
    return RoleScope(groups[0], len(groups))


def set_max_nreg(reg_count: Any, is_inc: Any) -> None:
    """The warpgroup's registers per thread from here on (setmaxnreg; sm_90a). nvJitLink ignores it, ptxas does not.

    Args:
        reg_count: a multiple of 8 from 24 to 256.
        is_inc: whether that is more (1) or less (0) than before.

    Raises:
        LanguageError: another count.

    Example:
        ```py
        with T.ws(1):
            T.set_max_nreg(40, 0)
            T.copy(A[bx * 128, 0], A_shared)
        with T.ws(0):
            T.set_max_nreg(232, 1)
            T.fill(C_local, 1)
            T.copy(C_local, C[0, bx * 128])
        ```
    """
    trace = tile_scope("T.set_max_nreg")
    count = constant_int(reg_count, "reg_count")
    if count % 8 or not 24 <= count <= 256:
        raise trace.error(f"T.set_max_nreg({count}, …)", "a multiple of 8 from 24 to 256")
    trace.b.emit(hopper.SetMaxRegisters(count, increase=bool(constant_int(int(is_inc), "is_inc"))))


def inc_max_nreg(reg_count: Any) -> None:
    """The same as T.set_max_nreg(reg_count, 1).

    Args:
        reg_count: a multiple of 8 from 24 to 256.
    """
    set_max_nreg(reg_count, 1)


def dec_max_nreg(reg_count: Any) -> None:
    """The same as T.set_max_nreg(reg_count, 0).

    Args:
        reg_count: a multiple of 8 from 24 to 256.
    """
    set_max_nreg(reg_count, 0)


def no_set_max_nreg() -> None:
    """The compiler is not to divide the registers among the roles that it makes (sm_90a; elsewhere it says nothing).

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.no_set_max_nreg()
        ```
    """
    tile_scope("T.no_set_max_nreg").attrs["no_set_max_nreg"] = True


def disable_warp_group_reg_alloc() -> None:
    """The same as T.no_set_max_nreg."""
    no_set_max_nreg()


# Barriers ----------------------------------------------------------------------------------------------------------


class Barriers:
    """What T.alloc_barrier gives: `bars[i]` is one of them, with a constant or run-time index."""

    __hash__ = object.__hash__

    def __init__(self, value: Value, count: int) -> None:
        self.value = value
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> Barrier:
        trace = current()
        if isinstance(index, slice) or not is_scalar(index):
            raise TypeMismatchError(f"barriers are indexed by one integer, not {shown(index)}", trace.loc)
        value = operand_value(index)
        if not value.dtype.is_int:
            raise TypeMismatchError(f"the index of a barrier is {value.dtype}, not an integer", trace.loc)
        number = value.op.value if value.op is not None and hasattr(value.op, "value") else None
        if isinstance(number, int) and not 0 <= number < self.count:
            raise trace.error(f"barrier {number} of {self.count}", f"they are 0 to {self.count - 1}")
        return Barrier(self, trace.b.cast(value, i32))


@dataclass(frozen=True, eq=False)
class Barrier:
    """One barrier of an array."""

    of: Barriers
    index: Value


def alloc_barrier(arrive_count: Any) -> Barriers:
    """Mbarriers, initialised for all threads (sm_90a). Waits begin with parity 0; parity 1 counts as complete before
    the first phase.

    They are initialised once, before any thread can wait at them, also where a branch or loop allocates them: phases go
    on from iteration to iteration.

    Args:
        arrive_count: after how many arrivals a phase is complete, from 1 to 2^20 - 1: a Python int, or a list of them
            for as many barriers.

    Returns:
        The barriers; `bars[i]` is one, with a constant or run-time index. Where there is one, the array stands for it.

    Raises:
        LanguageError: another count; inside T.Parallel.
        TargetError: another target.

    Example:
        ```py
        ready = T.alloc_barrier([1, 1])
        if tx == 0:
            T.mbarrier_arrive(ready[0])
        T.mbarrier_wait_parity(ready[0], 0)
        ```
    """
    return _alloc_barriers(arrive_count, "T.alloc_barrier")


def alloc_cluster_barrier(arrive_count: Any) -> Barriers:
    """T.alloc_barrier, at which threads of all blocks of the cluster may arrive (T.mbarrier_arrive with `cta_id`).

    All blocks of the cluster have initialised theirs before any thread goes on. A block must not end before the others
    have arrived at its barriers: T.cluster_sync at the end sees to that.

    Args:
        arrive_count: after how many arrivals a phase is complete, from 1 to 2^20 - 1: a Python int, or a list of them
            for as many barriers.

    Returns:
        The barriers, as of T.alloc_barrier; each block has its own.

    Raises:
        LanguageError: another count; inside T.Parallel.
        TargetError: another target.

    Example:
        ```py
        arrived = T.alloc_cluster_barrier(256)
        T.mbarrier_arrive(arrived, T.block_rank_in_cluster())
        T.mbarrier_wait_parity(arrived, 0)
        T.cluster_sync()
        ```
    """
    return _alloc_barriers(arrive_count, "T.alloc_cluster_barrier", cluster=True)


def _alloc_barriers(arrive_count: Any, what: str, cluster: bool = False) -> Barriers:
    trace = tile_scope(what)
    items: Sequence[Any] = arrive_count if isinstance(arrive_count, (list, tuple)) else [arrive_count]
    counts = tuple(constant_int(c, "arrive_count") for c in items)
    if not counts or any(not 0 < c < 1 << 20 for c in counts):
        raise trace.error(f"{what}({arrive_count})", "counts go from 1 to 2^20 - 1")
    return Barriers(trace.b.emit(explicit.Barriers(counts, cluster=cluster)).result, len(counts))


def barrier_of(x: Any, what: str) -> Barrier:
    if isinstance(x, Barriers) and x.count == 1:
        return x[0]
    if isinstance(x, Barriers):
        raise current().error(f"{what} of {x.count} barriers at once", "index one: bars[i]")
    if not isinstance(x, Barrier):
        raise TypeMismatchError(f"{what}: {shown(x)} is no barrier of T.alloc_barrier", current().loc)
    return x


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Each thread that comes here arrives: what it did before is known to threads that wait for the phase (sm_90a).

    Args:
        mbarrier: one barrier of T.alloc_barrier.
        cta_id: of a barrier of T.alloc_cluster_barrier: the block of the cluster at whose barrier, an integer, run-time
            or not; None: at the own one.

    Raises:
        LanguageError: several barriers at once, a `cta_id` of another barrier; inside T.Parallel.
        TypeMismatchError: what is no barrier.

    Example:
        ```py
        ready = T.alloc_barrier(256)
        T.mbarrier_arrive(ready)
        T.mbarrier_wait_parity(ready, 0)
        ```
    """
    trace = tile_scope("T.mbarrier_arrive")
    bar, rank = barrier_of(mbarrier, "T.mbarrier_arrive"), None
    if cta_id is not None:
        if not getattr(bar.of.value.op, "cluster", False):
            raise trace.error(
                "T.mbarrier_arrive with cta_id at a barrier of the block alone",
                "allocate it by T.alloc_cluster_barrier",
            )
        rank = convert(cta_id, i32).value
    trace.b.emit(explicit.BarrierArrive(bar.of.value, bar.index, rank=rank))


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Waits until the phase of this parity is complete (sm_90a). The first phase has parity 0; before it is complete,
    parity 1 counts as complete.

    Args:
        mbarrier: one barrier of T.alloc_barrier.
        parity: 0 or 1, run-time or not: the phase's number modulo 2.

    Raises:
        LanguageError: several barriers at once; another number than 0 and 1; inside T.Parallel.
        TypeMismatchError: what is no barrier.

    Example:
        ```py
        ready = T.alloc_barrier(256)
        for k in range(4):
            T.mbarrier_arrive(ready)
            T.mbarrier_wait_parity(ready, k % 2)
        ```
    """
    trace = tile_scope("T.mbarrier_wait_parity")
    bar = barrier_of(mbarrier, "T.mbarrier_wait_parity")
    if isinstance(parity, int) and parity not in (0, 1):
        raise current().error(f"a wait for parity {parity}", "parities are 0 and 1: the phase's number modulo 2")
    trace.b.emit(explicit.BarrierWait(bar.of.value, bar.index, convert(parity, i32).value))


def _bytes(tx: Any, what: str) -> int:
    count = constant_int(tx, "the bytes of " + what)
    if not 0 < count < 1 << 20:
        raise current().error(f"{what} of {count} bytes", "a phase takes 1 to 2^20 - 1")
    return count


def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Each thread that comes here announces bytes of copies for the phase, without arriving (sm_90a). T.tma_copy
    announces its own.

    Args:
        mbarrier: one barrier of T.alloc_barrier.
        tx: how many bytes, from 1 to 2^20 - 1: a Python int.

    Raises:
        LanguageError: another number; inside T.Parallel.
        TypeMismatchError: what is no barrier.

    Example:
        ```py
        ready = T.alloc_barrier(1)
        if tx == 0:
            T.mbarrier_expect_tx(ready, 64)
        ```
    """
    trace = tile_scope("T.mbarrier_expect_tx")
    bar = barrier_of(mbarrier, "T.mbarrier_expect_tx")
    trace.b.emit(explicit.BarrierExpect(bar.of.value, bar.index, _bytes(tx, "T.mbarrier_expect_tx")))


def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Each thread that comes here arrives, and announces bytes of copies for the phase (sm_90a).

    Args:
        mbarrier: one barrier of T.alloc_barrier.
        tx: how many bytes, from 1 to 2^20 - 1: a Python int.

    Raises:
        LanguageError: another number; inside T.Parallel.
        TypeMismatchError: what is no barrier.

    Example:
        ```py
        ready = T.alloc_barrier(1)
        if tx == 0:
            T.mbarrier_arrive_expect_tx(ready, 64)
        ```
    """
    trace = tile_scope("T.mbarrier_arrive_expect_tx")
    bar = barrier_of(mbarrier, "T.mbarrier_arrive_expect_tx")
    count = _bytes(tx, "T.mbarrier_arrive_expect_tx")
    trace.b.emit(explicit.BarrierArrive(bar.of.value, bar.index, bytes=count))


def barrier_wait(mbarrier: Any, parity: Any) -> None:
    """The same as T.mbarrier_wait_parity.

    Args:
        mbarrier: one barrier of T.alloc_barrier.
        parity: 0 or 1.
    """
    mbarrier_wait_parity(mbarrier, parity)


def barrier_arrive(mbarrier: Any) -> None:
    """The same as T.mbarrier_arrive.

    Args:
        mbarrier: one barrier of T.alloc_barrier.
    """
    mbarrier_arrive(mbarrier)


def named_barrier(trace: Trace, what: str, id: Any, threads: Any, wait: bool) -> None:
    number, count = constant_int(id, f"the number of {what}"), constant_int(threads, f"the threads of {what}")
    assert trace.launch is not None
    if not 0 <= number < 16 or count % 32 or not 0 < count <= trace.launch.threads:
        raise trace.error(
            f"{what}({number}, {count})", f"barriers are 0 to 15, threads whole warps, at most {trace.launch.threads}"
        )
    trace.b.emit(explicit.NumberedBarrier(number, count, wait=wait))


def named_barrier_arrive(barrier_id: Any, thread_count: Any) -> None:
    """Says at a named barrier that these threads have come, without waiting for the others (bar.arrive), which meet
    them by T.sync_threads(barrier_id, thread_count). NVIDIA; on AMD all threads meet.

    Args:
        barrier_id: the barrier's number, from 0 to 15.
        thread_count: how many threads meet there: whole warps.

    Raises:
        LanguageError: another number; inside T.Parallel.

    Example:
        ```py
        if tx < 64:
            T.named_barrier_arrive(1, 128)
        else:
            T.sync_threads(1, 128)
        ```
    """
    named_barrier(tile_scope("T.named_barrier_arrive"), "T.named_barrier_arrive", barrier_id, thread_count, False)


def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """All threads of the block meet, or in `with T.ws(…)` those of the role. The compiler inserts barriers for what it
    sees by itself.

    With a number, `arrive_count` threads meet at that named barrier (bar.sync), also in a branch that parts whole
    warps.

    Args:
        barrier_id: None, or the barrier's number, from 0 to 15.
        arrive_count: how many threads meet there: whole warps; None: all.

    Raises:
        LanguageError: another number; under a condition that differs between threads, without a number; inside
            T.Parallel.

    Example:
        ```py
        T.sync_threads()
        if tx < 64:
            T.sync_threads(1, 64)
        ```
    """
    trace = tile_scope("T.sync_threads")
    if barrier_id is None and arrive_count is None:
        trace.b.emit(tile.SyncThreads())
        return
    assert trace.launch is not None
    count = trace.launch.threads if arrive_count is None else arrive_count
    named_barrier(trace, "T.sync_threads", 0 if barrier_id is None else barrier_id, count, True)


def sync_warp(mask: Any = FULL_WARP) -> None:
    """The warp's threads meet (bar.warp.sync). On AMD it costs nothing: the lanes go together.

    Args:
        mask: the lanes that meet, 32 bits: a Python int.

    Raises:
        LanguageError: another mask; inside T.Parallel.

    Example:
        ```py
        T.sync_warp()
        ```
    """
    trace = tile_scope("T.sync_warp")
    trace.b.emit(explicit.WarpBarrier(mask=lane_mask(mask)))


# Copies ------------------------------------------------------------------------------------------------------------


@regions("src", "dst")
def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    cluster_mask: Any = None,
    leader_scope_threads: Any = None,
    eviction_policy: str | None = None,
) -> None:
    """A copy by TMA that this does not wait for (sm_90a). One of `src` and `dst` is a tensor, the other shared memory,
    of one dtype.

    From a tensor: one thread announces the bytes on `barrier` and issues the copy; an arrive completes the phase, a
    wait for it sees the data. What lies outside the tensor becomes zeros. To a tensor: one thread issues the copy and
    commits its group; T.tma_store_wait waits. Regions are whole matrices, or parts that begin where the layout's 8 rows
    and panels do.

    Args:
        src: a tensor's region or start, or shared memory.
        dst: shared memory, or a tensor's region or start.
        barrier: for loads, one barrier of T.alloc_barrier.
        cluster_mask: None; multicast is not there yet.
        leader_scope_threads: how many threads have one that issues the copy (32: each warp); None: all of the role.
        eviction_policy: not looked at.

    Raises:
        LanguageError: other memory, a load without a barrier, a store with one, a `cluster_mask`, a region that TMA
            cannot copy; inside T.Parallel.
        TypeMismatchError: a cast on the way.
        TargetError: another target.

    Example:
        ```py
        ready = T.alloc_barrier(256)
        T.tma_copy(A[bx * 128, 0], A_shared, barrier=ready)
        T.barrier_arrive(ready)
        T.barrier_wait(ready, 0)
        T.tma_copy(A_shared, B[bx * 128, 0])
        T.tma_store_wait(0)
        ```
    """
    trace = tile_scope("T.tma_copy")
    a, b = as_region(src, "T.tma_copy's source"), as_region(dst, "T.tma_copy's destination")
    if cluster_mask is not None:
        raise trace.error("T.tma_copy with cluster_mask", "clusters are not there yet")
    if {a.memory.space, b.memory.space} != {"global", "shared"}:
        raise trace.error(
            f"T.tma_copy from {a.memory.describe()} to {b.memory.describe()}",
            "it copies between tensors and shared memory: use T.copy",
        )
    shape = match_extents(a, b, "T.tma_copy")
    if a.memory.dtype is not b.memory.dtype:
        raise TypeMismatchError(
            f"T.tma_copy from {a.memory.dtype} to {b.memory.dtype}", trace.loc, "no cast on the way: use T.copy"
        )
    if a.memory.space == "shared":
        if barrier is not None:
            raise trace.error("T.tma_copy to a tensor with a barrier", "T.tma_store_wait waits for it")
        trace.b.emit(explicit.BulkStore(**between(a, b, shape)))
        return
    if barrier is None:
        raise trace.error("T.tma_copy without a barrier", "give one of T.alloc_barrier: barrier=…")
    leader = 0 if leader_scope_threads is None else constant_int(leader_scope_threads, "leader_scope_threads")
    if leader % 32 or leader < 0:
        raise trace.error(f"leader_scope_threads={leader}", "whole warps: a multiple of 32")
    bar = barrier_of(barrier, "T.tma_copy")
    trace.b.emit(explicit.BulkLoad(**between(a, b, shape), barriers=bar.of.value, index=bar.index, leader=leader))


def tma_store_arrive() -> None:
    """One more, empty group of stores for T.tma_store_wait to count: T.tma_copy to a tensor is a group as it is
    (sm_90a).

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.fill(A_shared, 1)
        T.tma_copy(A_shared, B[bx * 128, 0])
        T.tma_store_arrive()
        T.tma_store_wait(1)
        ```
    """
    tile_scope("T.tma_store_arrive").b.emit(explicit.CommitStores())


def tma_store_wait(count: Any = 0, read: Any = True) -> None:
    """Waits until at most `count` of the stores by T.tma_copy are in flight (sm_90a). Other threads know of it after
    the next barrier.

    Args:
        count: 0 or more: a Python int.
        read: True: the others have read shared memory; False: they have reached the tensor.

    Raises:
        LanguageError: another count; inside T.Parallel.

    Example:
        ```py
        T.fill(A_shared, 1)
        T.tma_copy(A_shared, B[bx * 128, 0])
        T.tma_store_wait(0, read=False)
        ```
    """
    trace = tile_scope("T.tma_store_wait")
    pending = constant_int(count, "T.tma_store_wait's count")
    if pending < 0:
        raise trace.error(f"T.tma_store_wait({pending})", "0 or more may be in flight")
    trace.b.emit(explicit.WaitStores(pending, reads=bool(read)))


# wgmma -------------------------------------------------------------------------------------------------------------


def wait_wgmma(id: Any) -> None:
    """Waits until at most `id` of the products issued by T.wgmma_gemm are in flight (sm_90a). A use of a result waits
    by itself.

    Args:
        id: 0 to 7: a Python int.

    Raises:
        LanguageError: another number; inside T.Parallel.

    Example:
        ```py
        T.fill(A_shared, 1)
        T.wgmma_gemm(A_shared, A_shared, C_local, transpose_B=True, clear_accum=True)
        T.wait_wgmma(0)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
    trace = tile_scope("T.wait_wgmma")
    pending = constant_int(id, "T.wait_wgmma's count")
    if not 0 <= pending < 8:
        raise trace.error(f"T.wait_wgmma({pending})", "0 to 7 may be in flight")
    trace.b.emit(explicit.WaitGemms(pending))


def warpgroup_wait(num_mma: Any) -> None:
    """The same as T.wait_wgmma.

    Args:
        num_mma: 0 to 7: a Python int.
    """
    wait_wgmma(num_mma)


def warpgroup_arrive() -> None:
    """Does nothing: T.gemm and T.wgmma_gemm announce their accumulators themselves.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.warpgroup_arrive()
        ```
    """
    tile_scope("T.warpgroup_arrive")


def warpgroup_commit_batch() -> None:
    """One more, empty group of wgmma for T.wait_wgmma to count: T.gemm and T.wgmma_gemm are a group each as they are
    (sm_90a).

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.fill(A_shared, 1)
        T.wgmma_gemm(A_shared, A_shared, C_local, transpose_B=True, clear_accum=True)
        T.warpgroup_commit_batch()
        T.wait_wgmma(1)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
    tile_scope("T.warpgroup_commit_batch").b.emit(explicit.CommitGemms())


def warpgroup_fence_operand(*_: Any, **__: Any) -> None:
    """Does nothing, whatever it is given: the compiler knows what is in flight.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.warpgroup_fence_operand(C_local)
        ```
    """
    tile_scope("T.warpgroup_fence_operand")
