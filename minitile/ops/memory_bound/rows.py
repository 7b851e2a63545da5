"""What kernels along the rows of a matrix have in common: how rows are spread over blocks, and how calls are read.

A row is read once, and is at hand until its result is written: in registers, or in shared memory where that many
registers would leave room for one block only, which loads or computes but not both. A short row has a warp, or less, so
that shuffles alone reduce it. Bytes on their way, not arithmetic, decide how fast that is: a multiprocessor wants 32 to
48 KB of them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.hardware import BLOCK_REGISTERS, BLOCK_THREADS, Target
from minitile.ir.types import DType
from minitile.ops.array_adapters import frame_of
from minitile.ops.memory_bound.arguments import FLOATS, INDICES, VECTOR, Argument, argument, described, multiprocessors
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.memory_bound.long_rows import LongPlan, long_plan
from minitile.ops.memory_bound.persistent_norm import ROUNDS, PersistentPlan, persistent_plan
from minitile.ops.operands import refused
from minitile.target import target_at

WARPS = 4  # of a block, where rows do not need more
STAGED = 4096  # bytes of a row from which one waits in shared memory
HELD = 32  # elements of a row that a thread has
SHORT, LONG = 2048, 16384  # elements of a row: above, registers hold several blocks' rows, one block's row
LONG_ODD = 9216  # elements of a row that begins anywhere from which one waits in shared memory
PAIRED = 1280  # elements of a row up to which a warp has two of them, where there is a weight and a bias
MOST_STAGES = 3
BUSY = 512  # threads of a multiprocessor that hide each other's latencies
BESIDE_ROW = 32  # registers of a thread beside its elements of a row
BLOCK_SHARED = 2048  # bytes of shared memory of a block beside its rows


class Room(NamedTuple):
    """What plans must know of a GPU: its multiprocessors, the bytes of shared memory of a block on each, the lanes of a
    warp."""

    multiprocessors: int = 132
    shared: int = 227 * 1024
    lanes: int = 32


H200 = Room()


class RowPlan(NamedTuple):
    """A block of `threads` has `rows` rows at a time, each in a fragment of `columns`, at least as many as it has
    elements. With `stages`, `blocks` of them go over all rows, and copy ahead into as many buffers in shared memory."""

    rows: int
    columns: int
    threads: int
    stages: int = 0
    blocks: int = 0

    def constants(self, n: int) -> dict[str, Any]:
        """Compile-time arguments of a kernel along rows of n elements. exact: the fragment has no columns behind the
        row, and the kernel no masks."""
        return self._asdict() | {"exact": self.columns == n}


@lru_cache
def row_plans(n: int, dtype: DType, tensors: int = 1, room: Room = H200) -> list[RowPlan]:
    """The plans for rows of n elements, of so many tensors at a time, that are worth a measurement, the likeliest
    first; none where neither registers nor shared memory hold a row."""
    regs = {held: in_registers(n, dtype, held, room.lanes) for held in (HELD // 2, HELD, 2 * HELD)}
    staged = {held: in_shared(n, dtype, held, tensors, (1, 1), room) for held in (HELD, 2 * HELD)}
    if n <= SHORT:
        found = [regs[HELD], regs[2 * HELD], regs[HELD // 2]]
    elif n <= LONG:
        found = [regs[HELD], staged[HELD], staged[2 * HELD], regs[HELD // 2], regs[2 * HELD]]
    else:
        found = [staged[2 * HELD], staged[HELD], regs[HELD]]
    return list(dict.fromkeys(plan for plan in found if plan is not None))


@lru_cache
def pair_plan(n: int, dtype: DType, room: Room = H200) -> RowPlan | None:
    """The plan for rows of two tensors, both of which persistent blocks have at hand, if there is room for that."""
    found = [in_shared(n, dtype, held, 2, (2, 4), room) for held in (HELD // 2, HELD)]
    plans = [plan for plan in found if plan is not None]
    return min(plans, key=lambda plan: plan.blocks * plan.threads < room.multiprocessors * BUSY, default=None)


def in_registers(n: int, dtype: DType, held: int, lanes: int) -> RowPlan | None:
    """Each thread has up to `held` elements of a row, or of several short ones."""
    vector = VECTOR // dtype.bytes
    grain = lanes * vector  # elements that a warp loads at once
    if n <= grain:
        columns = 1 << max(0, n - 1).bit_length()
        return RowPlan(WARPS * lanes * held // columns, columns, WARPS * lanes)
    grains = math.ceil(n / grain)
    warps = math.ceil(grains * vector / held)
    each = math.ceil(grains / warps)
    if warps * lanes > BLOCK_THREADS:
        return None
    if warps > 1:
        return RowPlan(1, each * warps * grain, warps * lanes)
    return RowPlan(WARPS * (held // (each * vector)), each * grain, WARPS * lanes)


def in_shared(n: int, dtype: DType, held: int, tensors: int, live: tuple[int, int], room: Room) -> RowPlan | None:
    """Each thread has up to `held` elements of rows that wait in shared memory, with `live` numbers, at least and
    rather, for each of them in registers. As many blocks as there is room for at once go over all rows."""
    plan = in_registers(n, dtype, held, room.lanes)
    if plan is None:
        return None
    rows = plan.rows * plan.columns * dtype.bytes * tensors
    fit, rather = (BLOCK_REGISTERS // (plan.threads * (each * held + BESIDE_ROW)) for each in live)
    beside = max(1, min(rather, room.shared // (2 * rows + BLOCK_SHARED)))
    stages = min(MOST_STAGES, (room.shared // beside - BLOCK_SHARED) // rows)
    if not fit or stages < 2:
        return None
    return plan._replace(stages=stages, blocks=beside * room.multiprocessors)


def row_plan(n: int, dtype: DType, tensors: int = 1, room: Room = H200, factors: int = 0) -> RowPlan | None:
    """The first of `row_plans`, if any; with a weight and a bias, the one by which a thread's serve two short rows."""
    plans = row_plans(n, dtype, tensors, room)
    return next(iter(plans[1:] if factors > 1 and n <= PAIRED else plans), None)


def over_rows(work, tensors, rows, columns, threads, exact, stages, blocks):
    """A kernel's body: work(first, *tiles) for each block of rows, whose elements of each tensor are in a tile, with 0
    behind their end. Tiles are fragments; with `stages`, shared memory, into which persistent blocks copy ahead."""
    M, N = tensors[0].shape
    if exact:
        T.assume(columns == N)
    if stages:
        with T.Kernel(blocks, threads=threads) as block:
            in_order()
            tiles = [T.alloc_shared((rows, columns), tensor.dtype) for tensor in tensors]
            for k in T.Pipelined(T.ceildiv(M - block * rows, blocks * rows), num_stages=stages):
                first = (block + k * blocks) * rows
                for tensor, tile in zip(tensors, tiles, strict=True):
                    T.copy(tensor[first, 0], tile)
                work(first, *tiles)
    else:
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
            in_order()
            tiles = [T.alloc_fragment((rows, columns), tensor.dtype) for tensor in tensors]
            for tensor, tile in zip(tensors, tiles, strict=True):
                T.copy(tensor[block * rows, 0], tile)
            work(block * rows, *tiles)


def greatest_of_rows(given, n, rows, columns):
    """A tile of rows of n elements as f32, -inf behind their ends; the greatest of each."""
    x = T.alloc_fragment((rows, columns), T.float32)
    top = T.alloc_fragment((rows,), T.float32)
    for i, j in T.Parallel(rows, columns):
        x[i, j] = T.if_then_else(j < n, T.cast(given[i, j], T.float32), -T.infinity(T.float32))
    T.reduce_max(x, top, dim=1)
    return x, top


class Rows(NamedTuple):
    """An argument as a matrix: leading dimensions are rows."""

    x: Argument
    matrix: Any
    m: int
    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        """As given."""
        return self.x.shape

    @property
    def dtype(self) -> DType:
        return self.x.dtype

    @property
    def target(self) -> Target:
        """What kernels on these rows are compiled for."""
        return target_at(*self.x.device)

    @property
    def room(self) -> Room:
        """Of the device that the argument is on."""
        target = self.target
        return Room(multiprocessors(self.x), target.max_shared, target.lanes)

    def plan(self, tensors: int = 1, factors: int = 0) -> RowPlan | None:
        """How a kernel goes over these rows, of so many tensors at a time; None: it has to take them piece by piece."""
        odd = self.n * self.dtype.bytes % VECTOR  # such rows cannot be copied to shared memory in 16 bytes
        return row_plan(
            self.n, self.dtype, tensors, self.room._replace(shared=0) if odd else self.room, 0 if odd else factors
        )

    def pair_plan(self) -> RowPlan | None:
        """As `plan`, for two tensors that stay at hand, by persistent blocks."""
        return pair_plan(self.n, self.dtype, self.room)

    def long_plan(self, tensors: int = 1, factors: int = 0) -> LongPlan | None:
        """How a cluster's blocks share these rows; None where there are no clusters, or none holds a row."""
        return long_plan(self.n, self.dtype, tensors, factors=factors) if self.target.has("cluster") else None

    def choose(self, tensors: int = 1, factors: int = 0) -> RowPlan | LongPlan | None:
        """The plan of a kernel that reads rows once, and besides `factors` numbers for each column: by registers, or
        from shared memory where that leaves room for more blocks or no registers hold a row
        (benchmarks/results/memory_h200.md); None: piece by piece."""
        return (
            (self.waiting_plan(self.n > LONG_ODD, factors) if tensors == 1 else None)
            or self.plan(tensors, factors)
            or self.long_plan(tensors, factors)
        )

    def persistent_plan(self, tensors: int, factors: int) -> PersistentPlan | None:
        """How persistent blocks take these rows and keep so many numbers for each column; None where rows are few, do
        not begin anywhere, or have no blocks that copy ahead in 16 bytes."""
        if tensors > 1 or self.dtype.bytes != 2 or not self.target.has("cluster"):
            return None
        room = self.room
        plan = persistent_plan(self.n, factors, room.multiprocessors, room.shared)
        return plan if plan is not None and self.m >= ROUNDS * plan.blocks else None

    def waiting_plan(self, odd: bool = False, factors: int = 0) -> LongPlan | None:
        """As `long_plan`, for rows that are long enough to be better off in shared memory than in registers, and start
        at 16 bytes, unless those that do not (`odd`) are, too; else None."""
        bytes_ = self.n * self.dtype.bytes
        return self.long_plan(factors=factors) if bytes_ >= STAGED and (odd or bytes_ % VECTOR == 0) else None

    def like(self, what: str, x: Any) -> Any:
        """Another array of this shape as a matrix."""
        other = rows_of(what, x)
        if other.shape != self.shape:
            raise refused(f"{what} has shape {other.shape}; it must be {self.shape}")
        return other.matrix

    def result(self, out: Any, dtype: DType | None = None, what: str = "out") -> tuple[Any, Any]:
        """An array of this shape for a result, new or given, and the same as a matrix."""
        out = self.x.result(out, self.shape, dtype, what)
        return out, out.reshape(self.m, self.n)


def rows_of(what: str, x: Any) -> Rows:
    """An argument of f32, bf16 or f16 as rows. Raises LaunchArgumentError for others."""
    given = argument(what, x)
    if not given.shape:
        raise refused(f"{what} has no dimensions", "give it one row: x.reshape(1)")
    m, n = math.prod(given.shape[:-1]), given.shape[-1]
    return Rows(given, _whole(x, given.contiguous).reshape(m, n), m, n)


def vector_of(what: str, x: Any, n: int) -> Any:
    """A weight or a bias: one element for each column. Raises LaunchArgumentError for others."""
    return _beside(what, x, (n,), FLOATS, f"it has a number for each of {n} columns, of {', '.join(FLOATS)}")


def indices_of(what: str, x: Any, shape: tuple[int, ...]) -> Any:
    """i64 or i32 numbers, one for each row, as a vector. Raises LaunchArgumentError for others."""
    return _beside(what, x, shape, INDICES, f"pass {' or '.join(INDICES)} of shape {shape}")


def numbers_of(what: str, x: Any, shape: tuple[int, ...]) -> Any:
    """f32 numbers, one for each row, as a vector. Raises LaunchArgumentError for others."""
    return _beside(what, x, shape, ("f32",), f"pass f32 of shape {shape}")


def _beside(what: str, x: Any, shape: tuple[int, ...], dtypes: tuple[str, ...], hint: str) -> Any:
    """An argument of this shape and one of these dtypes, as a vector without gaps."""
    info = described(what, x)
    if tuple(info.shape) != shape or info.dtype not in dtypes:
        raise refused(f"{what} is {info.dtype} of shape {tuple(info.shape)}", hint)
    return _whole(x, info.contiguous).reshape(-1)


def _whole(x: Any, contiguous: bool) -> Any:
    """The array, copied where it has gaps."""
    frame = None if contiguous else frame_of(x)
    return x if frame is None else frame.whole(x)
