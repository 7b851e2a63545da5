"""Clusters: the blocks of one run at the same time, meet, and access each other's shared memory (sm_90 and later);
T.sync_grid, at which all blocks of a grid meet.

with T.Kernel(splits, columns, cluster=splits) as (bz, bx):
    parts = T.alloc_shared((splits, 64, 64), T.float32)
    there = T.map_shared_rank(parts, 0)            # that of the block with number 0 in the cluster
    for i, j in T.Parallel(64, 64):
        there[bz, i, j] = sums[i, j]
    T.cluster_sync()                               # what the others have written is known
"""

from __future__ import annotations

from typing import Any, NoReturn

from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import fences, hopper, tile
from minitile.ir.types import i32
from minitile.language.memory import Memory
from minitile.language.scalars import Expr, Scalar, assign_cast, is_scalar, operand_value
from minitile.language.tiles import tile_scope
from minitile.language.tracing.context import Trace, current


def cluster_sync() -> None:
    """All threads of all blocks of the cluster meet (barrier.cluster); what they have written to shared memory is known
    to all. sm_90a.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.cluster_sync()
        ```
    """
    tile_scope("T.cluster_sync").b.emit(hopper.ClusterBarrier())


def cluster_arrive() -> None:
    """The first half of T.cluster_sync: what the block has written to shared memory is known to those who have waited,
    and it goes on meanwhile. sm_90a.

    T.cluster_wait follows, before the next of these or T.cluster_sync. What the compiler itself puts at the start of a
    kernel whose blocks access each other's memory comes before.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.cluster_arrive()
        T.copy(A[bx * 128, 0], x)
        T.cluster_wait()
        ```
    """
    tile_scope("T.cluster_arrive").b.emit(hopper.ClusterArrive())


def cluster_wait() -> None:
    """The second half of T.cluster_sync: until all threads of the cluster have come to T.cluster_arrive. sm_90a.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.cluster_arrive()
        T.cluster_wait()
        ```
    """
    tile_scope("T.cluster_wait").b.emit(hopper.ClusterWait())


def sync_grid() -> None:
    """All threads of all blocks of the grid meet; what they have written is known to all. NVIDIA's targets.

    All blocks run at the same time: the launch is a cooperative one, and refuses a grid that does not fit on the GPU at
    once. So a kernel has as many blocks as there are multiprocessors, and a loop over its tiles. The blocks meet at a
    counter that belongs to the compiled kernel: two launches of one must not run at the same time, on two streams. The
    compiler's own roles (TMA by a warp of its own) are not used in such a kernel.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel; under a condition that differs between threads; in a role of
            T.ws.
        TargetError: AMD.
        LaunchArgumentError: a call whose grid does not run at once.

    Example:
        ```py
        V[bx * 128 + tx] = 1.0
        T.sync_grid()
        I[bx * 128 + tx] = T.cast(V[255 - bx * 128 - tx], T.int32)
        ```
    """
    tile_scope("T.sync_grid").b.emit(fences.GridSync())


def block_rank_in_cluster() -> Scalar:
    """The block's number in its cluster, x first: i32. 0 without a cluster.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        I[tx] = T.block_rank_in_cluster()
        ```
    """
    trace = tile_scope("T.block_rank_in_cluster")
    assert trace.launch is not None
    b, rank = trace.b, trace.b.constant(0)
    for arg, size in zip(reversed(trace.launch.body.args), reversed(trace.launch.cluster), strict=True):
        rank = b.add(b.mul(rank, size), b.floormod(arg, size))
    return Expr(rank)


def map_shared_rank(buffer: Any, rank: Any) -> Remote:
    """A shared buffer as the block with this number in the cluster has it (distributed shared memory; sm_90a): to be
    indexed element by element in T.Parallel loops, one rank for all elements of a loop.

    All blocks of the cluster have begun before the first access (the compiler sees to that). T.cluster_sync tells them
    of what is written; a block whose memory is read must not end before, for which T.cluster_sync stands, too.

    Args:
        buffer: a buffer of T.alloc_shared.
        rank: the other block's number: an integer, run-time or not.

    Raises:
        TypeMismatchError: another kind of memory or number.

    Example:
        ```py
        @mt.kernel
        def exchange(X: T.Tensor((256,), T.float32), Y: T.Tensor((256,), T.float32)):
            with T.Kernel(2, threads=128, cluster=2) as bx:
                mine = T.alloc_shared((128,), T.float32)
                T.copy(X[bx * 128], mine)
                T.cluster_sync()
                other = T.map_shared_rank(mine, 1 - T.block_rank_in_cluster())
                for i in T.Parallel(128):
                    Y[bx * 128 + i] = other[i]
                T.cluster_sync()
        ```
    """
    trace = tile_scope("T.map_shared_rank")
    if not isinstance(buffer, Memory) or buffer.space != "shared" or isinstance(buffer, Remote):
        raise TypeMismatchError(f"T.map_shared_rank of {shown(buffer)}, which is no shared buffer", trace.loc)
    if not is_scalar(rank) or not operand_value(rank).dtype.is_int:
        raise TypeMismatchError(f"T.map_shared_rank with the rank {rank!r}, not an integer", trace.loc)
    return Remote(buffer.value, trace, trace.b.cast(operand_value(rank), i32))


class Remote(Memory):
    """What T.map_shared_rank gives."""

    def __init__(self, value: Value, trace: Trace, rank: Value) -> None:
        super().__init__(value, trace)
        self.rank = rank

    def load(self, index: Any) -> Scalar:
        points = (None,) * self.ndim
        return Expr(current().b.emit(tile.Load(self.value, self.indices(index), (), points, rank=self.rank)).result)

    def store(self, index: Any, value: Any) -> None:
        what = f"a store to another block's {self.describe()[4:]}"
        if not is_scalar(value):
            raise TypeMismatchError(f"{what} of {shown(value)}: one element takes a scalar", current().loc)
        indices, points = self.indices(index), (None,) * self.ndim
        value = assign_cast(value, self.dtype, what)
        current().b.emit(tile.Store(self.value, indices, value, points, rank=self.rank))

    def region(self, index: Any) -> NoReturn:
        raise self._by_element()

    def whole(self) -> NoReturn:
        raise self._by_element()

    def _by_element(self) -> Exception:
        return current().error(
            f"{self.describe()} in another block of the cluster, as a whole or by regions",
            "access it element by element: for i, j in T.Parallel(…): …",
        )
