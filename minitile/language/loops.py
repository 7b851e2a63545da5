"""What follows `in` of a `for`, and the launch: descriptions that the interpreter recognises.

`T.serial`, `T.Pipelined`, `T.Parallel` and the others return a description; the loop itself is traced by the
interpreter (`control_flow.py`). Iterating one anywhere else is an error that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from minitile.ir.diagnostics import LanguageError
from minitile.language.context import active, current
from minitile.language.scalars import Expr, constant_int, constant_value, is_scalar


class Iterable:
    """Base of the descriptions: refuses to be iterated by Python itself."""

    def __iter__(self) -> NoReturn:
        trace = active()
        raise LanguageError(
            "a loop of the language where Python iterates by itself",
            None if trace is None else trace.loc,
            "write `for i in T.…(…):` as a statement",
        )


@dataclass(frozen=True)
class Loop(Iterable):
    """A loop over start, start + step, … before stop. `kind` as in the IR's `for`."""

    start: Any
    stop: Any
    step: Any
    kind: str = "serial"
    stages: int = 1
    order: tuple[int, ...] | None = None
    stage_of: tuple[int, ...] | None = None

    def constant(self) -> range | None:
        """The loop as Python's range, when all its bounds are known."""
        bounds = [constant_value(x) for x in (self.start, self.stop, self.step)]
        return None if any(b is None for b in bounds) else range(*map(int, bounds))

    def constant_step(self) -> int | None:
        step = constant_value(self.step)
        return None if step is None else int(step)


@dataclass(frozen=True)
class ParallelLoop(Iterable):
    extents: tuple[int, ...]


@dataclass(frozen=True)
class KernelScope:
    """`T.Kernel(…)`: the grid (three scalars) and the number of computing threads."""

    grid: tuple[Any, ...]
    rank: int
    threads: int

    def __enter__(self) -> NoReturn:
        raise LanguageError("T.Kernel has a meaning only in a `with` statement of a function marked @mt.kernel")

    def __exit__(self, *_: object) -> None: ...


def _bounds(start: Any, stop: Any, what: str) -> tuple[Any, Any]:
    low, high = (0, start) if stop is None else (start, stop)
    for bound in (low, high):
        _integer(bound, what)
    return low, high


def _integer(x: Any, what: str) -> None:
    if not is_scalar(x) or (isinstance(x, Expr) and not x.dtype.is_int) or isinstance(x, float):
        raise current().error(f"a bound of {what} is {x!r}, not an integer")


def _step(step: Any, what: str) -> Any:
    if step is None:
        return 1
    _integer(step, what)
    if constant_value(step) == 0:
        raise current().error(f"the step of {what} is 0: the loop would not end")
    return step


def serial(start: Any, stop: Any = None, step: Any = 1) -> Loop:
    """`for i in T.serial(n)` or `(start, stop, step)`: one iteration after the other; bounds may be run-time values."""
    low, high = _bounds(start, stop, "T.serial")
    return Loop(low, high, _step(step, "T.serial"))


def range_loop(*bounds: Any) -> Loop:
    """Python's `range` in a kernel."""
    if not 1 <= len(bounds) <= 3:
        raise current().error(f"range takes 1 to 3 bounds, not {len(bounds)}")
    return serial(*bounds)


def unroll(start: Any, stop: Any = None, step: Any = 1) -> Loop:
    """A loop whose body is repeated. With constant bounds the index is a compile-time int."""
    low, high = _bounds(start, stop, "T.unroll")
    return Loop(low, high, _step(step, "T.unroll"), "unroll")


def vectorized(start: Any, stop: Any = None, step: Any = 1) -> Loop:
    """A loop of each thread's own over neighbouring elements, whose accesses may be joined into wide ones."""
    low, high = _bounds(start, stop, "T.vectorized")
    return Loop(low, high, _step(step, "T.vectorized"), "vectorized")


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: list[int] | None = None,
    stage: list[int] | None = None,
) -> Loop:
    """A loop whose copies from global memory run ahead of their uses. `num_stages` is the number of versions that a
    buffer filled in the loop gets; 0 and 1 mean no overlap. `order` and `stage`, one int per statement, are the user's
    own schedule: the copies in stage 0, in the order of the source, is the only one that is not refused later."""
    low, high = _bounds(start, stop, "T.Pipelined")
    stages = constant_int(num_stages, "num_stages")
    if not 0 <= stages <= 16:
        raise current().error(f"num_stages is {stages}; it goes from 0 to 16")
    if (order is None) != (stage is None) or (order is not None and stage is not None and len(order) != len(stage)):
        raise current().error("order and stage go together and have one entry per statement of the loop")
    return Loop(
        low,
        high,
        1,
        "pipelined" if stages > 1 else "serial",
        max(1, stages),
        None if order is None else tuple(order),
        None if stage is None else tuple(stage),
    )


def Parallel(*extents: Any, coalesced_width: int | None = None) -> ParallelLoop:
    """`for i, j in T.Parallel(64, 128)`: all index combinations, spread over the threads of the block, in any order.
    The extents are compile-time; guard with `if` inside to do less. `coalesced_width` is a hint that is not needed."""
    if not extents:
        raise current().error("T.Parallel needs at least one extent")
    sizes = tuple(constant_int(e, "an extent of T.Parallel") for e in extents)
    if any(s < 1 for s in sizes):
        raise current().error(f"T.Parallel{sizes}: extents are at least 1")
    return ParallelLoop(sizes)


def Kernel(*grid: Any, threads: int | tuple[int, ...] | list[int] | None = None) -> KernelScope:
    """`with T.Kernel(gx, gy, gz, threads=128) as (bx, by, bz):` launches gx·gy·gz blocks. `threads` counts the threads
    that compute: a multiple of 32, up to 1024."""
    if not 1 <= len(grid) <= 3:
        raise current().error(f"T.Kernel takes 1 to 3 grid dimensions, not {len(grid)}")
    for g in grid:
        _integer(g, "the grid")
        if (constant_value(g) or 0) < 0:
            raise current().error(f"a bound of the grid is {g}", "0 blocks make the launch a no-op")
    count = 1
    for t in [128] if threads is None else threads if isinstance(threads, (tuple, list)) else [threads]:
        count *= constant_int(t, "threads")
    if count % 32 or not 32 <= count <= 1024:
        raise current().error(
            f"threads={count}: a block has a multiple of 32 threads, from 32 to 1024",
            f"use threads={min(1024, max(32, (count + 31) // 32 * 32))}",
        )
    return KernelScope((*grid, *(1,) * (3 - len(grid))), len(grid), count)
