"""Roles of warpgroups, barriers and copies by hand: T.ws, T.alloc_barrier, T.tma_copy and their kin, for sm_90a.

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

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from minitile.ir.core import Value
from minitile.ir.diagnostics import LanguageError, TypeMismatchError, shown
from minitile.ir.ops import explicit as by_hand
from minitile.ir.ops import hopper, tile
from minitile.ir.types import i32
from minitile.language import math
from minitile.language.memory import as_region, between, match_extents
from minitile.language.scalars import Expr, constant_int, convert, is_scalar, operand_value
from minitile.language.tiles import regions, tile_scope
from minitile.language.tracing.context import Trace, current

FULL_WARP = 0xFFFFFFFF


# Roles -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoleScope:
    """`T.ws(…)` as a `with` statement of a kernel sees it: the warpgroups that execute its body."""

    first: int
    count: int

    @property
    def name(self) -> str:
        return f"T.ws({', '.join(map(str, range(self.first, self.first + self.count)))})"

    def __enter__(self) -> NoReturn:
        raise LanguageError("T.ws has a meaning only in a `with` statement of a function marked @mt.kernel")

    def __exit__(self, *_: object) -> None: ...


def ws(*warp_group_idx: Any) -> RoleScope:
    """`with T.ws(0):` only warpgroup 0 (threads 0 to 127) executes the body; `T.ws(0, 1)`: the first two together.
    Tile operations inside are spread over these threads. The numbers are constants and neighbours.

    Raises LanguageError for others, and where `threads` of T.Kernel is no multiple of 128."""
    trace = tile_scope("T.ws")
    assert trace.launch is not None
    groups = sorted({constant_int(g, "the number of a warpgroup") for g in warp_group_idx})
    number, rest = divmod(trace.launch.threads, by_hand.GROUP)
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
    """The warpgroup's registers per thread from here on (setmaxnreg): a multiple of 8 from 24 to 256; `is_inc` says
    whether that is more (1) or less (0) than before."""
    trace = tile_scope("T.set_max_nreg")
    count = constant_int(reg_count, "reg_count")
    if count % 8 or not 24 <= count <= 256:
        raise trace.error(f"T.set_max_nreg({count}, …)", "a multiple of 8 from 24 to 256")
    trace.b.emit(hopper.SetMaxRegisters(count, increase=bool(constant_int(int(is_inc), "is_inc"))))


def inc_max_nreg(reg_count: Any) -> None:
    """T.set_max_nreg(reg_count, 1)."""
    set_max_nreg(reg_count, 1)


def dec_max_nreg(reg_count: Any) -> None:
    """T.set_max_nreg(reg_count, 0)."""
    set_max_nreg(reg_count, 0)


def no_set_max_nreg() -> None:
    """The compiler is not to divide the registers among the roles that it makes."""
    tile_scope("T.no_set_max_nreg").attrs["no_set_max_nreg"] = True


def disable_warp_group_reg_alloc() -> None:
    """T.no_set_max_nreg()."""
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
    """Mbarriers, initialised for all threads: one whose phases complete after `arrive_count` arrivals, or as many as a
    list has counts. Waits begin with parity 0; parity 1 counts as complete before the first phase. They are initialised
    once, before any thread can wait at them, also where a branch or loop allocates them: phases go on from iteration
    to iteration."""
    trace = tile_scope("T.alloc_barrier")
    items: Sequence[Any] = arrive_count if isinstance(arrive_count, (list, tuple)) else [arrive_count]
    counts = tuple(constant_int(c, "arrive_count") for c in items)
    if not counts or any(not 0 < c < 1 << 20 for c in counts):
        raise trace.error(f"T.alloc_barrier({arrive_count})", "counts go from 1 to 2^20 - 1")
    return Barriers(trace.b.emit(by_hand.Barriers(counts)).result, len(counts))


def _barrier(x: Any, what: str) -> Barrier:
    if isinstance(x, Barriers) and x.count == 1:
        return x[0]
    if isinstance(x, Barriers):
        raise current().error(f"{what} of {x.count} barriers at once", "index one: bars[i]")
    if not isinstance(x, Barrier):
        raise TypeMismatchError(f"{what}: {shown(x)} is no barrier of T.alloc_barrier", current().loc)
    return x


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Each thread that comes here arrives: what it has done before is known to whoever waits for the phase."""
    trace = tile_scope("T.mbarrier_arrive")
    if cta_id is not None:
        raise trace.error("T.mbarrier_arrive with cta_id", "barriers of other blocks of a cluster are not there yet")
    bar = _barrier(mbarrier, "T.mbarrier_arrive")
    trace.b.emit(by_hand.BarrierArrive(bar.of.value, bar.index))


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Wait until the phase of this parity is complete. The first phase has parity 0; before it is complete, parity 1
    counts as complete."""
    trace = tile_scope("T.mbarrier_wait_parity")
    bar = _barrier(mbarrier, "T.mbarrier_wait_parity")
    trace.b.emit(by_hand.BarrierWait(bar.of.value, bar.index, convert(parity, i32).value))


def _bytes(tx: Any, what: str) -> int:
    count = constant_int(tx, "the bytes of " + what)
    if not 0 < count < 1 << 20:
        raise current().error(f"{what} of {count} bytes", "a phase takes 1 to 2^20 - 1")
    return count


def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Each thread that comes here announces `tx` bytes of copies for the phase, without arriving. T.tma_copy announces
    its own."""
    trace = tile_scope("T.mbarrier_expect_tx")
    bar = _barrier(mbarrier, "T.mbarrier_expect_tx")
    trace.b.emit(by_hand.BarrierExpect(bar.of.value, bar.index, _bytes(tx, "T.mbarrier_expect_tx")))


def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Each thread that comes here arrives, and announces `tx` bytes of copies for the phase."""
    trace = tile_scope("T.mbarrier_arrive_expect_tx")
    bar = _barrier(mbarrier, "T.mbarrier_arrive_expect_tx")
    count = _bytes(tx, "T.mbarrier_arrive_expect_tx")
    trace.b.emit(by_hand.BarrierArrive(bar.of.value, bar.index, bytes=count))


def barrier_wait(mbarrier: Any, parity: Any) -> None:
    """T.mbarrier_wait_parity."""
    mbarrier_wait_parity(mbarrier, parity)


def barrier_arrive(mbarrier: Any) -> None:
    """T.mbarrier_arrive."""
    mbarrier_arrive(mbarrier)


def named_barrier(trace: Trace, what: str, id: Any, threads: Any, wait: bool) -> None:
    number, count = constant_int(id, f"the number of {what}"), constant_int(threads, f"the threads of {what}")
    assert trace.launch is not None
    if not 0 <= number < 16 or count % 32 or not 0 < count <= trace.launch.threads:
        raise trace.error(
            f"{what}({number}, {count})", f"barriers are 0 to 15, threads whole warps, at most {trace.launch.threads}"
        )
    trace.b.emit(by_hand.NumberedBarrier(number, count, wait=wait))


def named_barrier_arrive(barrier_id: Any, thread_count: Any) -> None:
    """Says at a named barrier that these threads have come, without waiting for the others (bar.arrive). The others
    meet them by T.sync_threads(barrier_id, thread_count)."""
    named_barrier(tile_scope("T.named_barrier_arrive"), "T.named_barrier_arrive", barrier_id, thread_count, False)


def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """All threads of the block meet, or in `with T.ws(…)` those of the role. With a number: `arrive_count` threads meet
    at that named barrier (bar.sync), wherever they are. The compiler inserts barriers for shared memory by itself."""
    trace = tile_scope("T.sync_threads")
    if barrier_id is None and arrive_count is None:
        trace.b.emit(tile.SyncThreads())
        return
    assert trace.launch is not None
    count = trace.launch.threads if arrive_count is None else arrive_count
    named_barrier(trace, "T.sync_threads", 0 if barrier_id is None else barrier_id, count, True)


def sync_warp(mask: Any = FULL_WARP) -> None:
    """The warp's threads, or those in `mask`, meet (bar.warp.sync)."""
    trace = tile_scope("T.sync_warp")
    trace.b.emit(by_hand.WarpBarrier(mask=_mask(mask)))


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
    """A copy by the copy engine that this does not wait for.

    From a tensor to shared memory: one thread announces the bytes on `barrier` and issues the copy; an arrive completes
    the phase, a wait for it sees the data. What lies outside the tensor becomes zeros. `leader_scope_threads`: how many
    threads have one such thread (32: every warp issues its own); otherwise all threads of the role have one.

    From shared memory to a tensor: one thread issues the copy and commits its group; T.tma_store_wait waits.
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
        trace.b.emit(by_hand.BulkStore(**between(a, b, shape)))
        return
    if barrier is None:
        raise trace.error("T.tma_copy without a barrier", "give one of T.alloc_barrier: barrier=…")
    leader = 0 if leader_scope_threads is None else constant_int(leader_scope_threads, "leader_scope_threads")
    if leader % 32 or leader < 0:
        raise trace.error(f"leader_scope_threads={leader}", "whole warps: a multiple of 32")
    bar = _barrier(barrier, "T.tma_copy")
    trace.b.emit(by_hand.BulkLoad(**between(a, b, shape), barriers=bar.of.value, index=bar.index, leader=leader))


def tma_store_arrive() -> None:
    """One more group of stores for T.tma_store_wait to count. T.tma_copy to a tensor is a group as it is."""
    tile_scope("T.tma_store_arrive").b.emit(by_hand.CommitStores())


def tma_store_wait(count: Any = 0, read: Any = True) -> None:
    """Until at most `count` of the stores by T.tma_copy are in flight: the others have read shared memory, or with
    read=False have reached the tensor. Other threads know of it after the next barrier."""
    trace = tile_scope("T.tma_store_wait")
    pending = constant_int(count, "T.tma_store_wait's count")
    if pending < 0:
        raise trace.error(f"T.tma_store_wait({pending})", "0 or more may be in flight")
    trace.b.emit(by_hand.WaitStores(pending, reads=bool(read)))


# wgmma -------------------------------------------------------------------------------------------------------------


def wait_wgmma(id: Any) -> None:
    """Until at most `id` of the products issued by T.wgmma_gemm are in flight. A use of a result waits by itself."""
    trace = tile_scope("T.wait_wgmma")
    pending = constant_int(id, "T.wait_wgmma's count")
    if not 0 <= pending < 8:
        raise trace.error(f"T.wait_wgmma({pending})", "0 to 7 may be in flight")
    trace.b.emit(by_hand.WaitGemms(pending))


def warpgroup_wait(num_mma: Any) -> None:
    """T.wait_wgmma."""
    wait_wgmma(num_mma)


def warpgroup_arrive() -> None:
    """Nothing: T.gemm and T.wgmma_gemm announce their accumulators themselves."""
    tile_scope("T.warpgroup_arrive")


def warpgroup_commit_batch() -> None:
    """One more group of wgmma for T.wait_wgmma to count. T.gemm and T.wgmma_gemm are a group each as they are."""
    tile_scope("T.warpgroup_commit_batch").b.emit(by_hand.CommitGemms())


def warpgroup_fence_operand(*_: Any, **__: Any) -> None:
    """Nothing: the compiler knows what is in flight."""
    tile_scope("T.warpgroup_fence_operand")


# Threads -----------------------------------------------------------------------------------------------------------


def _thread(what: str) -> Expr:
    return Expr(tile_scope(what).b.emit(tile.ThreadIndex()).result)


def get_lane_idx(warp_size: Any = 32) -> Expr:
    """The thread's number in its warp."""
    return _thread("T.get_lane_idx") % warp_size  # type: ignore[no-any-return]


def get_warp_idx(warp_size: Any = 32) -> Expr:
    """The number of the thread's warp in the block."""
    return _thread("T.get_warp_idx") // warp_size  # type: ignore[no-any-return]


def get_warp_idx_sync(warp_size: Any = 32) -> Expr:
    """The same as T.get_warp_idx."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: Any = 32, warps_per_group: Any = 4) -> Expr:
    """The number of the thread's warpgroup in the block."""
    return _thread("T.get_warp_group_idx") // (warp_size * warps_per_group)  # type: ignore[no-any-return]


def shuffle_elect(thread_extent: Any) -> Expr:
    """True in one thread of each `thread_extent` threads; 0: of the block."""
    extent = constant_int(thread_extent, "thread_extent")
    index = _thread("T.shuffle_elect")
    return (index if extent == 0 else index % extent) == 0


def _mask(mask: Any) -> int:
    number = constant_int(mask, "the mask of lanes")
    if not 0 < number <= FULL_WARP:
        raise current().error(f"the mask {number:#x}", "32 bits, one a lane")
    return number


def _shuffle(kind: str, value: Any, lane: Any, width: Any, mask: Any, what: str) -> Expr:
    trace = tile_scope(what)
    if not is_scalar(value) or not is_scalar(lane):
        raise TypeMismatchError(f"{what} of {shown(value)}, {shown(lane)}", trace.loc, "it exchanges scalars")
    segment = constant_int(width, f"the width of {what}")
    if segment not in (1, 2, 4, 8, 16, 32, 64):
        raise trace.error(
            f"{what} with width={segment}", "a power of two up to 32; 64 on targets with waves of 64 lanes"
        )
    number = convert(lane, i32).value
    op = by_hand.Shuffle(operand_value(value), number, kind, width=segment, mask=_mask(mask))
    return Expr(trace.b.emit(op).result)


def shfl_sync(value: Any, srcLane: Any, width: Any = 32, mask: Any = FULL_WARP) -> Expr:
    """The value of lane `srcLane` of each segment of `width` lanes."""
    return _shuffle("idx", value, srcLane, width, mask, "T.shfl_sync")


def shfl_xor(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_WARP) -> Expr:
    """The value of the lane whose number is this one's xor `delta`."""
    return _shuffle("bfly", value, delta, width, mask, "T.shfl_xor")


def shfl_down(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_WARP) -> Expr:
    """The value of the lane `delta` above, or the thread's own at the end of the segment."""
    return _shuffle("down", value, delta, width, mask, "T.shfl_down")


def shfl_up(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_WARP) -> Expr:
    """The value of the lane `delta` below, or the thread's own at the start of the segment."""
    return _shuffle("up", value, delta, width, mask, "T.shfl_up")


def _warp_reduced(value: Any, combine: Callable[[Any, Any], Any], what: str) -> Expr:
    tile_scope(what)
    reduced = Expr(operand_value(value))
    for delta in (16, 8, 4, 2, 1):
        reduced = combine(reduced, _shuffle("bfly", reduced, delta, 32, FULL_WARP, what))
    return reduced


def warp_reduce_sum(value: Any) -> Expr:
    """The sum of a scalar over the warp's threads, in all of them."""
    return _warp_reduced(value, operator.add, "T.warp_reduce_sum")


def warp_reduce_max(value: Any) -> Expr:
    """The maximum of a scalar over the warp's threads, in all of them."""
    return _warp_reduced(value, math.max, "T.warp_reduce_max")


def warp_reduce_min(value: Any) -> Expr:
    """The minimum of a scalar over the warp's threads, in all of them."""
    return _warp_reduced(value, math.min, "T.warp_reduce_min")


def warp_reduce_bitand(value: Any) -> Expr:
    """The bitwise and of an integer over the warp's threads, in all of them."""
    return _warp_reduced(value, operator.and_, "T.warp_reduce_bitand")


def warp_reduce_bitor(value: Any) -> Expr:
    """The bitwise or of an integer over the warp's threads, in all of them."""
    return _warp_reduced(value, operator.or_, "T.warp_reduce_bitor")
