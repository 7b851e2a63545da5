"""What follows `in` of a `for`, and the launch: descriptions that the interpreter recognises.

`T.serial`, `T.Pipelined`, `T.Parallel` and the others return a description; the loop itself is traced by the
interpreter (`control_flow.py`). Iterating one anywhere else is an error that says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from minitile.hardware import BLOCK_THREADS
from minitile.ir.diagnostics import LanguageError, shown
from minitile.language.block_swizzle import in_turns, within
from minitile.language.math import min as minimum
from minitile.language.scalars import Expr, constant_int, constant_value, is_scalar, operand_value
from minitile.language.tracing import hilbert
from minitile.language.tracing.context import active, current

MOST_STAGES = 16
CLUSTER = 16  # blocks of a cluster; more than 8 only where the GPU has room for them, which the launch asks it
MOST_TEAMS = 4


Index = TypeVar("Index")
"""What the body of a loop or of T.Kernel gets for an index, as type checkers see it: an int or a tuple of them."""


class Iterable(Generic[Index]):
    """Base of the descriptions: refuses to be iterated by Python itself. For type checkers, in a kernel's text, the
    indices of the loop."""

    def __iter__(self) -> Iterator[Index]:
        trace = active()
        raise LanguageError(
            "a loop of the language where Python iterates by itself",
            None if trace is None else trace.loc,
            "write `for i in T.…(…):` as a statement",
        )


@dataclass(frozen=True)
class Schedule:
    """The user's own schedule of a pipelined loop: for each group of statements its place in the new body, and how many
    iterations it runs behind stage 0 (both -1: a copy that goes ahead). `groups`: the numbers of each group's
    statements; None: each statement is one."""

    order: tuple[int, ...]
    stage: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Loop(Iterable[Index]):
    """A loop over start, start + step, … before stop. `kind`, `teams` and `dynamic` as in the IR's `for`. `place`: the
    indices that the body sees, a tuple made of the running one; None: that one itself."""

    start: Any
    stop: Any
    step: Any
    kind: str = "serial"
    stages: int = 1
    schedule: Schedule | None = None
    place: Callable[[Any], tuple[Any, ...]] | None = None
    teams: int = 1
    dynamic: bool = False

    def constant(self) -> range | None:
        """The loop as Python's range, when all its bounds are known."""
        bounds = [constant_value(x) for x in (self.start, self.stop, self.step)]
        return None if any(b is None for b in bounds) else range(*map(int, bounds))

    def constant_step(self) -> int | None:
        step = constant_value(self.step)
        return None if step is None else int(step)


@dataclass(frozen=True)
class ParallelLoop(Iterable[Index]):
    extents: tuple[int, ...]


@dataclass(frozen=True)
class KernelScope(Generic[Index]):
    """`T.Kernel(…)`: the grid (three scalars), the computing threads and the blocks of a cluster in x, y, z; how
    many blocks a persistent kernel has, which go over the grid (0: each block has one tile), and whether they take
    whichever tiles they are given."""

    grid: tuple[Any, ...]
    rank: int
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    persistent: int = 0
    dynamic: bool = False

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    def __enter__(self) -> Index:
        raise LanguageError("T.Kernel has a meaning only in a `with` statement of a function marked @mt.kernel")

    def __exit__(self, *_: object) -> None: ...


def _bounds(start: Any, stop: Any, what: str) -> tuple[Any, Any]:
    low, high = (0, start) if stop is None else (start, stop)
    for bound in (low, high):
        _integer(bound, what)
    return low, high


def _integer(x: Any, what: str) -> None:
    if not is_scalar(x) or (isinstance(x, Expr) and not x.dtype.is_int) or isinstance(x, float):
        hint = "make it one: T.cast(x, T.int32)" if is_scalar(x) else ""
        raise current().error(f"a bound of {what} is {shown(x)}, not an integer", hint)


def _step(step: Any, what: str) -> Any:
    if step is None:
        return 1
    _integer(step, what)
    if constant_value(step) == 0:
        raise current().error(f"the step of {what} is 0: the loop would not end")
    return step


def serial(start: Any, stop: Any = None, step: Any = 1) -> Loop[int]:
    """`for i in T.serial(n):` one iteration after the other. Python's `range` in a kernel is the same.

    `break` and `continue` work. The index is i32, or i64 where the bounds are.

    Args:
        start: the first index; alone, it is the end, and 0 the first.
        stop: the end: an integer, run-time or not.
        step: a Python int may be negative; a run-time one is over 0.

    Raises:
        LanguageError: bounds that are no integers, a step of 0.

    Example:
        ```py
        total = 0.0
        for k in T.serial(tx, 256, 128):
            total = total + V[k]
        V[tx] = total
        ```
    """
    low, high = _bounds(start, stop, "T.serial")
    return Loop(low, high, _step(step, "T.serial"))


def range_loop(*bounds: Any) -> Loop[int]:
    """Python's `range` in a kernel."""
    if not 1 <= len(bounds) <= 3:
        raise current().error(f"range takes 1 to 3 bounds, not {len(bounds)}")
    return serial(*bounds)


def unroll(start: Any, stop: Any = None, step: Any = 1) -> Loop[int]:
    """A loop whose body is repeated. With constant bounds it is a Python loop, and its index a Python int.

    Args:
        start: the first index; alone, it is the end, and 0 the first.
        stop: the end.
        step: not 0.

    Raises:
        LanguageError: bounds that are no integers, a step of 0.

    Example:
        ```py
        for k in T.unroll(4):
            V[tx] = V[tx] * (k + 1)
        ```
    """
    low, high = _bounds(start, stop, "T.unroll")
    return Loop(low, high, _step(step, "T.unroll"), "unroll")


def vectorized(start: Any, stop: Any = None, step: Any = 1) -> Loop[int]:
    """A loop of each thread's own over neighbouring elements, whose accesses are joined into wide ones.

    With constant bounds and up to 64 rounds of scalar code it is unrolled. Accesses to neighbours in a tensor or a
    shared buffer are then one of up to 16 bytes, where strides and indices say that it is aligned. What it does is what
    a serial loop does, in any case.

    Args:
        start: the first index; alone, it is the end, and 0 the first.
        stop: the end.
        step: not 0.

    Raises:
        LanguageError: bounds that are no integers, a step of 0.

    Example:
        ```py
        if tx < 64:
            for k in T.vectorized(4):
                V[tx * 4 + k] = 1.0
        ```
    """
    low, high = _bounds(start, stop, "T.vectorized")
    return Loop(low, high, _step(step, "T.vectorized"), "vectorized")


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    sync: Any = None,
    group: Sequence[Sequence[int]] | None = None,
) -> Loop[int]:
    """A loop whose copies from tensors to shared memory run ahead of their uses.

    `order` and `stage` are a schedule of the user's own, with one int for each statement of the body, or for each group
    of statements where `group` lists their numbers. Copies that go ahead have -1 in both, or a lower stage than what
    reads their buffer. Statements that only compute scalars do not count, and a function's count as if they stood in
    the loop; a call may also count as one.

    Args:
        start: the first index; alone, it is the end, and 0 the first.
        stop: the end: an integer, run-time or not.
        num_stages: how many versions a buffer filled in the loop gets, 0 to 16; 0 and 1 mean no overlap. Without it,
            with a schedule, as many as there are stages.
        order: for each entry its place in the loop's new body.
        stage: for each entry how many iterations it runs behind stage 0.
        sync: not looked at: synchronisation is computed.
        group: for each entry the numbers of its statements.

    Raises:
        LanguageError: other numbers, entries of different count, a schedule that uses something before it is made or
            after it is overwritten; `break`, and `continue` beside a schedule.
        ResourceError: more shared memory than the target has; the message lists the buffers.

    Example:
        ```py
        T.clear(C_local)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
    low, high = _bounds(start, stop, "T.Pipelined")
    stages = constant_int(num_stages, "num_stages")
    if not 0 <= stages <= MOST_STAGES:
        raise current().error(f"num_stages is {stages}; it goes from 0 to {MOST_STAGES}")
    if (order is None) != (stage is None) or (group is not None and order is None):
        raise current().error("order and stage go together; group comes with both")
    schedule = None
    if order is not None and stage is not None:
        schedule = _schedule(order, stage, group)
        stages = max(stages, max(schedule.stage, default=0) + 1)
    return Loop(low, high, 1, "pipelined" if stages > 1 else "serial", max(1, stages), schedule)


def _schedule(order: Sequence[int], stage: Sequence[int], group: Sequence[Sequence[int]] | None) -> Schedule:
    places = tuple(constant_int(n, "an entry of order") for n in _listed(order, "order"))
    stages = tuple(constant_int(n, "an entry of stage") for n in _listed(stage, "stage"))
    group = None if group is None else _listed(group, "group")
    if len(places) != len(stages) or (group is not None and len(group) != len(places)):
        many = "" if group is None else f", group {len(group)}"
        raise current().error(f"order has {len(places)} entries, stage {len(stages)}{many}: they go together")
    for place, behind in zip(places, stages, strict=True):
        if behind >= MOST_STAGES:
            raise current().error(f"stage {behind}: stages go from 0 to {MOST_STAGES - 1}")
        if (place < 0) != (behind < 0) or min(place, behind) < -1:
            raise current().error(
                f"order {place} with stage {behind}: both are -1 for a copy that goes ahead, else neither is negative",
            )
    twice = [n for n in places if n >= 0 and places.count(n) > 1]
    if twice:
        raise current().error(
            f"order has the place {twice[0]} more than once", "give each statement a place of its own"
        )
    if group is None:
        return Schedule(places, stages)
    entries = [_listed(numbers, "an entry of group") for numbers in group]
    groups = tuple(tuple(constant_int(n, "a statement's number in group") for n in numbers) for numbers in entries)
    return Schedule(places, stages, groups)


def _listed(given: Any, name: str) -> Sequence[Any]:
    try:
        return tuple(given)
    except TypeError:
        hint = "a list of numbers" if name != "group" else "a list of lists of numbers"
        raise current().error(f"{name} is {shown(given)}", hint) from None


def Persistent(
    domain: Sequence[Any],
    wave_size: Any,
    index: Any,
    group_size: int = 8,
    teams: int = 1,
    num_xcds: int = 1,
    order: str = "row",
    dynamic: bool = False,
) -> Loop[Any]:
    """A persistent kernel's loop: `for by, bx in T.Persistent([rows, columns], blocks, block):` the tiles number block,
    block + blocks, … of a grid of tiles.

    Of the last two dimensions, tiles are numbered down panels of `group_size` rows, column by column, so that tiles of
    a wave share rows and columns of the operands. Further dimensions are outer ones. The blocks of a cluster take tiles
    of neighbouring rows in one column at the same time; where the rows do not divide by them, the last ones get a tile
    below the domain's end, which bounds checks leave without effect.

    Args:
        domain: the extents of the grid of tiles: integers, run-time or not.
        wave_size: how many blocks are launched, say as many as the GPU has multiprocessors.
        index: the block's number.
        group_size: rows of a panel, at least 1.
        teams: ping-pong consumer warpgroups (sm_90a): the block's threads are that many teams, 1 to 4, which take every
            `teams`-th tile each, so that one stores its results while another multiplies. `threads` counts them all.
            Tiles of one block must then be as independent as tiles of different blocks are. Elsewhere, and where the
            compiler finds that it cannot be done (`notes` say why), all threads do one tile after the other.
        num_xcds: how many XCDs the GPU has, which get blocks in turn and have an L2 each (8 on MI300X and MI355X): the
            blocks of one have neighbouring tiles in each wave.
        order: "row", or "hilbert": along the Hilbert order, which needs no group_size.
        dynamic: a block that is done takes the next tile that no other has taken, instead of every `wave_size`-th
            (targets with cluster launch control, for which as many blocks are launched as there are tiles; what
            stands outside of the loop may run that often). Tiles must be as independent as those of different blocks
            are. Elsewhere, and where the compiler finds that it cannot be done (`notes` say why), tiles are taken as
            without it.

    Raises:
        LanguageError: other numbers, num_xcds with clusters.

    Example:
        ```py
        for row_tile, column_tile in T.Persistent([T.ceildiv(M, 32), T.ceildiv(N, 128)], 2, bx):
            T.copy(X[row_tile * 32, column_tile * 128], x)
            T.copy(x, Y[row_tile * 32, column_tile * 128])
        ```
    """
    sizes = list(domain)
    if not sizes:
        raise current().error("T.Persistent needs the extents of a grid of tiles")
    for bound in (*sizes, wave_size, index):
        _integer(bound, "T.Persistent")
    group = constant_int(group_size, "group_size")
    if group < 1:
        raise current().error(f"group_size is {group}; it is at least 1")
    if order not in ("row", "hilbert"):
        raise current().error(f"T.Persistent(…, order={order!r})", 'order is "row" or "hilbert"')
    if order == "hilbert":
        group = 0
    total: Any = 1
    for size in sizes:
        total = total * size
    count = constant_int(teams, "teams")
    if not 1 <= count <= MOST_TEAMS:
        raise current().error(f"teams is {count}; it goes from 1 to {MOST_TEAMS}")
    step = _step(wave_size, "T.Persistent")
    launch = current().launch
    together, *other = (1,) if launch is None else launch.cluster
    xcds = constant_int(num_xcds, "num_xcds")
    if xcds < 1 or (xcds > 1 and together > 1):
        raise current().error(f"num_xcds is {xcds}, in clusters of {together}", "at least 1; 1 with clusters")
    if together > 1 and set(other) == {1} and len(sizes) > 1:
        return replace(_by_clusters(sizes, step, index, group, together), teams=count, dynamic=bool(dynamic))

    def place(number: Any) -> tuple[Any, ...]:
        return _tile(number if xcds == 1 else _in_turns(number, index, step, total, xcds), sizes, group)

    return Loop(index, total, step, place=place, teams=count, dynamic=bool(dynamic))


def _in_turns(number: Expr, *others: Any) -> Expr:
    b, like = current().b, operand_value(number)
    block, blocks, total = (b.cast(operand_value(x), like.dtype) for x in others[:3])
    taken = in_turns(b, like, block, blocks, total, others[3])
    return Expr(within(b, taken, b.sub(total, 1), b.add(total, blocks), (like, block, blocks, total)))


def _by_clusters(sizes: list[Any], blocks: Any, index: Any, group: int, together: int) -> Loop[Any]:
    """`_tile` for clusters: the tiles of a cluster count as one that is `together` times as high."""
    tall = [*sizes[:-2], (sizes[-2] + together - 1) // together, sizes[-1]]
    total: Any = 1
    for size in tall:
        total = total * size
    rank = index % together

    def place(number: Any) -> tuple[Any, ...]:
        *outer, row, column = _tile(number, tall, group and max(1, group // together))
        return (*outer, row * together + rank, column)

    return Loop(index // together, total, blocks // together, place=place)


def _tile(number: Any, sizes: Sequence[Any], group: int) -> tuple[Any, ...]:
    """The indices of a tile by its number, down panels of `group` rows; 0: in Hilbert order. Each is known to be
    less than its size."""
    if len(sizes) == 1:
        return (number,)
    b, like = current().b, operand_value(number)
    total: Any = 1
    for size in sizes:
        total = total * size
    most, *limits = (
        b.cast(operand_value(x), like.dtype)
        for x in (total + group * sizes[-1] + sizes[-1] + sizes[-2], *(size - 1 for size in sizes))
    )
    inputs = (like, *(operand_value(size) for size in sizes if isinstance(size, Expr)))
    found = _numbered(number, sizes, group)
    return tuple(Expr(within(b, operand_value(x), limit, most, inputs)) for x, limit in zip(found, limits, strict=True))


def _numbered(number: Any, sizes: Sequence[Any], group: int) -> tuple[Any, ...]:
    *outer, rows, columns = sizes
    found: list[Any] = []
    if outer:
        around, number = number // (rows * columns), number % (rows * columns)
        for size in reversed(outer):
            found.insert(0, around % size)
            around = around // size
    if not group:
        return (*found, *hilbert.place(number, rows, columns))
    panel = number // (columns * group)
    inside = number % (columns * group)
    height = minimum(rows - panel * group, group)
    return (*found, panel * group + inside % height, inside // height)


@overload
def Parallel(i: Any, /, *, coalesced_width: int | None = None) -> ParallelLoop[int]: ...
@overload
def Parallel(i: Any, j: Any, /, *, coalesced_width: int | None = None) -> ParallelLoop[tuple[int, int]]: ...
@overload
def Parallel(
    i: Any, j: Any, k: Any, /, *, coalesced_width: int | None = None
) -> ParallelLoop[tuple[int, int, int]]: ...
@overload
def Parallel(*extents: Any, coalesced_width: int | None = None) -> ParallelLoop[Any]: ...


def Parallel(*extents: Any, coalesced_width: int | None = None) -> ParallelLoop[Any]:
    """`for i, j in T.Parallel(64, 128):` all index combinations, spread over the threads of the block, in any order.

    `if` inside is per element. Directly nested ones are one. Tile operations and barriers may not stand inside.

    Args:
        extents: Python ints, at least 1; at most 8192 elements for each thread (on AMD 2048).
        coalesced_width: a hint that is not needed.

    Raises:
        LanguageError: other extents.

    Example:
        ```py
        for i, j in T.Parallel(32, 128):
            if j < N:
                Y[bx * 32 + i, j] = X[bx * 32 + i, j] * 2
        ```
    """
    if not extents:
        raise current().error("T.Parallel needs at least one extent")
    sizes = tuple(constant_int(e, "an extent of T.Parallel") for e in extents)
    if any(s < 1 for s in sizes):
        raise current().error(f"T.Parallel{sizes}: extents are at least 1")
    return ParallelLoop(sizes)


@overload
def Kernel(
    x: Any,
    /,
    *,
    threads: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] = 1,
    persistent: int = 0,
    dynamic: bool = False,
) -> KernelScope[Any]: ...
@overload
def Kernel(
    x: Any,
    y: Any,
    /,
    *,
    threads: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] = 1,
    persistent: int = 0,
    dynamic: bool = False,
) -> KernelScope[tuple[int, int]]: ...
@overload
def Kernel(
    x: Any,
    y: Any,
    z: Any,
    /,
    *,
    threads: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] = 1,
    persistent: int = 0,
    dynamic: bool = False,
) -> KernelScope[tuple[int, int, int]]: ...
@overload
def Kernel(
    *grid: Any,
    threads: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] = 1,
    persistent: int = 0,
    dynamic: bool = False,
) -> KernelScope[Any]: ...


def Kernel(
    *grid: Any,
    threads: int | Sequence[int] | None = None,
    cluster: int | Sequence[int] = 1,
    persistent: int = 0,
    dynamic: bool = False,
) -> KernelScope[Any]:
    """`with T.Kernel(gx, gy, gz, threads=128) as (bx, by, bz):` launches gx·gy·gz blocks; one per kernel function.

    Args:
        grid: 1 to 3 integers, run-time or not; 0 makes the launch a no-op.
        threads: how many threads compute: a multiple of 32 (on AMD of 64), up to 1024, in one number or in x, y and z.
            Default 128. A producer warpgroup comes on top (`launch_info` says).
        cluster: so many neighbouring blocks, in x or in each dimension, up to 16, run at the same time and share what
            they copy (sm_90a; elsewhere without effect); it divides the grid. Of more than 8 the GPU is asked whether
            they fit.
        persistent: at most so many blocks are launched, say as many as the GPU has multiprocessors, and each does the
            work of one block of the grid after the other; 0: as many as the grid has. T.Persistent says so
            explicitly, and in which order.
        dynamic: of a persistent kernel: a block that is done takes the next one's work that no other has taken, as
            T.Persistent has it; which tiles a block takes is then not known before.

    Raises:
        LanguageError: other numbers; elsewhere than in a `with` statement of a kernel.

    Example:
        ```py
        @mt.kernel
        def twice(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32)):
            (N,) = X.shape
            with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    Y[bx * 128 + i] = 2 * X[bx * 128 + i]
        ```
    """
    if not 1 <= len(grid) <= 3:
        raise current().error(f"T.Kernel takes 1 to 3 grid dimensions, not {len(grid)}")
    for g in grid:
        _integer(g, "the grid")
        if (constant_value(g) or 0) < 0:
            raise current().error(f"a bound of the grid is {g}", "0 blocks make the launch a no-op")
        if (constant_value(g) or 0) >= 1 << 31:
            raise current().error(f"a bound of the grid is {g}: a launch has less than 2^31 blocks in a dimension")
    block = _block(threads)
    count = math.prod(block)
    if count % 32 or not 32 <= count <= BLOCK_THREADS:
        raise current().error(
            f"threads={count}: a block has a multiple of 32 threads, from 32 to {BLOCK_THREADS}",
            f"use threads={min(BLOCK_THREADS, max(32, (count + 31) // 32 * 32))}",
        )
    stays = constant_int(persistent, "persistent")
    sizes = _cluster(cluster, grid)
    if stays < 0 or (stays and sizes != (1, 1, 1)):
        raise current().error(
            f"persistent={stays} with cluster={cluster}: a number of blocks, 0 for one each tile",
            "in clusters, use T.Persistent",
        )
    if dynamic and not stays:
        raise current().error("dynamic=True without persistent=", "say how many blocks a persistent kernel has")
    return KernelScope((*grid, *(1,) * (3 - len(grid))), len(grid), block, sizes, stays, bool(dynamic))


def _block(threads: Any) -> tuple[int, int, int]:
    """The block's threads in x, y, z."""
    given = [128] if threads is None else threads if isinstance(threads, (tuple, list)) else [threads]
    sizes = [constant_int(t, "threads") for t in given]
    if not 1 <= len(sizes) <= 3 or any(n < 0 for n in sizes):
        raise current().error(f"threads={shown(threads)}: a block has 1 to 3 dimensions, each of at least one thread")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _cluster(sizes: int | Sequence[int], grid: tuple[Any, ...]) -> tuple[int, int, int]:
    given = [constant_int(n, "cluster") for n in (sizes if isinstance(sizes, (tuple, list)) else [sizes])]
    if len(given) > len(grid) or any(n < 1 for n in given) or math.prod(given) > CLUSTER:
        limit = f"one size of at least 1 for each dimension of the grid, {CLUSTER} blocks in all"
        raise current().error(f"cluster={shown(sizes)}: a cluster has {limit}")
    for n, blocks in zip(given, grid, strict=False):
        if (constant_value(blocks) or 0) % n:
            raise current().error(f"clusters of {n} blocks do not divide a grid of {constant_value(blocks)}")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z
