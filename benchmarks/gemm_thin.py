"""minitile's contenders of gemm.py for C of few rows, where the speed is that of reading B. NT only.

- swapped: examples/gemm_swapped.py, Cᵀ = B · Aᵀ, so that M is the side of the product that comes in steps of 8; in
  clusters, which read A once for all of their blocks.
- cluster_k: examples/gemm_cluster_k.py, split-K over the blocks of a cluster, which add up in shared memory.
- split_k: examples/gemm_split_k.py, split-K for as many blocks as the GPU has room for; deterministic, one launch.
- stream_k: examples/gemm_stream_k.py, one block a multiprocessor and equal shares of all steps of K; for other shapes,
  too: there what is left over from whole waves of tiles is shared.

What to have in mind for the tiles: 128x8192x8192 reads 134 MB of B, 64x7168x18432 264 MB, at about 4 TB/s; A comes
again for each block_N columns, from L2, which gives about 8 TB/s in all; and each multiprocessor wants 64 KB or more
on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compilers import Ours, compile_ours, example
from contest import Entry, Missing, each
from gemm_peers import DEVICE, Contender, Gemm, Operands, Tiles, thin


@dataclass(frozen=True)
class Shared(Tiles):
    """`cluster` blocks with neighbouring columns share the rows of A."""

    cluster: int = 1

    def __str__(self) -> str:
        return f"{super().__str__()}, cluster {self.cluster}"


@dataclass(frozen=True)
class Split(Shared):
    """`splits` blocks share a tile of C, `rows` of it are added at a time. share: all of them add, not only the last
    one to arrive."""

    splits: int = 1
    rows: int = 16
    share: bool = True

    def __str__(self) -> str:
        by = f"split {self.splits}" if self.share else f"split {self.splits}, the last block adds"
        return f"{super().__str__()}, {by}"


@dataclass(frozen=True)
class Parts(Tiles):
    """The blocks of a cluster share a tile of C, each with one of `splits` slices of K."""

    splits: int = 2

    def __str__(self) -> str:
        return f"{super().__str__()}, cluster of {self.splits} along K"


@dataclass(frozen=True)
class Stream(Tiles):
    """`rows` of a tile are added at a time."""

    rows: int = 16


# For 132 multiprocessors: 28 or 56 tiles of 64 rows in 7168 columns, 32, 43 or 64 of 128 rows in 8192 columns.
SWAPPED = {
    64: (
        Shared(64, 64, 128, 4, 128),
        Shared(64, 64, 128, 6, 128),
        Shared(64, 64, 128, 6, 128, cluster=2),
        Shared(64, 64, 128, 6, 128, cluster=4),
        Shared(64, 64, 64, 12, 128, cluster=4),
    ),
    128: (
        Shared(128, 64, 64, 8, 256),
        Shared(128, 64, 128, 4, 256),
        Shared(128, 64, 128, 4, 128),
        Shared(128, 64, 64, 8, 256, cluster=2),
        Shared(128, 64, 64, 8, 256, cluster=4),
        Shared(128, 64, 128, 4, 256, cluster=4),
        Shared(128, 64, 64, 8, 128, cluster=4),
        Shared(128, 64, 64, 8, 256, cluster=8),
    ),
}
CLUSTER_K = {
    64: (Parts(64, 112, 128, 4, 128), Parts(64, 112, 64, 8, 128)),
    128: (Parts(128, 128, 64, 6, 256), Parts(128, 128, 64, 5, 256)),
}
SPLIT = {
    64: (
        Split(64, 256, 64, 5, 256, splits=4),
        Split(64, 128, 128, 4, 256, splits=2, rows=32, cluster=4),
        Split(64, 256, 64, 5, 256, splits=14, rows=8),  # three waves
        Split(64, 128, 64, 3, 256, splits=9, rows=8),  # two blocks on a multiprocessor, two waves
        Split(64, 128, 128, 4, 256, splits=7),  # three waves
        Split(64, 128, 128, 4, 256, splits=7, share=False),
    ),
    128: (
        Split(128, 256, 64, 4, 256, splits=4, rows=32),
        Split(128, 256, 64, 4, 256, splits=4, share=False),
        Split(128, 128, 64, 6, 256, splits=2, rows=64),
        Split(128, 128, 64, 6, 256, splits=2, rows=64, cluster=2),
        Split(128, 128, 64, 6, 256, splits=2, rows=64, cluster=4),
        Split(128, 128, 128, 3, 256, splits=2, rows=64),
        Split(128, 192, 64, 5, 256, splits=3),
    ),
}
STREAM = {
    64: (Stream(64, 256, 64, 5, 256, rows=8), Stream(64, 128, 64, 7, 256, rows=16), Stream(64, 128, 128, 4, 256)),
    128: (Stream(128, 256, 64, 4, 256), Stream(128, 128, 64, 6, 256, rows=32), Stream(128, 192, 64, 5, 256)),
}
STREAM_LARGE = (Stream(128, 256, 64, 4, 256), Stream(128, 192, 64, 5, 256), Stream(128, 128, 64, 6, 256, rows=32))
_compiled: dict[Any, Ours] = {}


def swapped(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    if not thin(problem):
        raise Missing("for few rows")

    def build(tiles: Shared) -> Entry:
        arrays = operands.a, operands.b, operands.c
        constants = {"cluster": tiles.cluster}
        return entry_of("swapped", example("gemm_swapped").gemm_swapped, tiles, problem, arrays, constants)

    return each("swapped", SWAPPED[64 if problem.m <= 64 else 128], build)


def cluster_k(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    if not thin(problem):
        raise Missing("for few rows")

    def build(parts: Parts) -> Entry:
        arrays = operands.a, operands.b, operands.c
        constants = {"splits": parts.splits}
        return entry_of("cluster_k", example("gemm_cluster_k").gemm_cluster_k, parts, problem, arrays, constants)

    return each("cluster_k", CLUSTER_K[64 if problem.m <= 64 else 128], build)


def split_k(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    """The workspace and the counters come with each entry: launches of one entry follow each other."""
    if not thin(problem):
        raise Missing("for few rows")

    def build(split: Split) -> Entry:
        arrays = with_workspace(problem, operands, split, (split.splits, problem.m, problem.n))
        constants = {"splits": split.splits, "rows": split.rows, "share": split.share, "cluster": split.cluster}
        return entry_of("split_k", example("gemm_split_k").gemm_split_k, split, problem, arrays, constants)

    return each("split_k", SPLIT[64 if problem.m <= 64 else 128], build)


def stream_k(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    import torch

    blocks = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    candidates = STREAM[64 if problem.m <= 64 else 128] if thin(problem) else STREAM_LARGE

    def build(tiles: Stream) -> Entry:
        arrays = with_workspace(problem, operands, tiles, (tiles_of(problem, tiles) + blocks, tiles.m, tiles.n))
        constants = {"blocks": blocks, "rows": tiles.rows}
        return entry_of("stream_k", example("gemm_stream_k").gemm_stream_k, tiles, problem, arrays, constants)

    return each("stream_k", candidates, build)


def tiles_of(problem: Gemm, tiles: Tiles) -> int:
    return -(-problem.m // tiles.m) * -(-problem.n // tiles.n)


def with_workspace(problem: Gemm, operands: Operands, tiles: Tiles, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The operands, an f32 workspace of this shape, a zeroed counter for each tile."""
    import torch

    parts = torch.empty(shape, device=DEVICE, dtype=torch.float32)
    arrived = torch.zeros(tiles_of(problem, tiles), device=DEVICE, dtype=torch.int32)
    return operands.a, operands.b, operands.c, parts, arrived


def entry_of(
    name: str, kernel: Any, tiles: Tiles, problem: Gemm, arrays: tuple[Any, ...], constants: dict[str, Any]
) -> Entry:
    """An entry of a kernel whose third argument is the result."""
    key = name, problem, tiles
    if key not in _compiled:
        sizes = {"block_M": tiles.m, "block_N": tiles.n, "block_K": tiles.k, "num_stages": tiles.stages}
        _compiled[key] = compile_ours(kernel, arrays, threads=tiles.threads, **sizes, **constants)
    done = _compiled[key]
    run = done.compiled.prepare(*arrays)

    def launch() -> Any:
        run()
        return arrays[2]

    return Entry(name, str(tiles), launch, done.facts, "", done.seconds, done.stages)


THIN_CONTENDERS: dict[str, Contender] = {
    "swapped": swapped,
    "cluster_k": cluster_k,
    "split_k": split_k,
    "stream_k": stream_k,
}
