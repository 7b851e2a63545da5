"""How many blocks a multiprocessor has at the same time, estimated on tile IR.

The least of what its registers hold (tiles that are live, and what a thread wants besides; roles included), its
threads, the blocks that the grid has for each multiprocessor, and its shared memory: all buffers, each with its
versions and with bytes of its own, and a reserve for results on their way out. What is not known (a grid of run-time
sizes) does not limit.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (2048 threads of one).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from minitile.analysis.register_budget import ACCUMULATOR_ROOM, producer_threads
from minitile.analysis.register_pressure import spread, tile_registers
from minitile.hardware import BLOCK_THREADS, WARPGROUP, Target
from minitile.ir.builder import constant_of
from minitile.ir.core import Kernel, Value
from minitile.ir.ops import control, tile
from minitile.ir.types import BufferType

RESULTS = 8 * 1024  # bytes of each 128 threads for results on their way out by TMA: a part of 64 rows of 128 bytes
WORDS = 1024  # bytes of barriers, and of what threads exchange


@dataclass(frozen=True)
class Room:
    """What limits blocks on a multiprocessor. limit: how many there are but for shared memory; sizes: bytes of one
    version of each buffer; versions: as they are; reserve: bytes of a block besides; least: how many the program asks
    for."""

    target: Target
    limit: int
    sizes: Mapping[Value, int]
    versions: Mapping[Value, int]
    reserve: int
    least: int = 1

    def blocks(self, versions: Mapping[Value, int]) -> int:
        """How many blocks there are with other `versions`; 0 where not even one fits, or fewer than asked for."""
        wanted = {**self.versions, **versions}
        needed = self.reserve + sum(size * wanted[v] for v, size in self.sizes.items())
        if needed > self.target.max_shared:
            return 0
        beside = self.target.reserved_shared
        fit = (self.target.max_shared + beside) // (needed + beside)
        return min(self.limit, fit) if fit >= self.least else 0


def room_of(kernel: Kernel, target: Target, roles: bool) -> Room:
    """What a kernel leaves, in tile IR without roles; `roles`: it may get some."""
    launch = control.find_launch(kernel)
    multiplies = any(isinstance(op, tile.Gemm) for op in kernel.walk())
    threads, registers = launch.threads, registers_of(launch, target)
    if roles and multiplies and target.has("wgmma"):
        threads += producer_threads(launch.threads, registers, kernel.attrs.get("min_ctas", 1))
    limits = [target.block_registers // (threads * registers), 2 * BLOCK_THREADS // threads]
    grid = [constant_of(v) for v in launch.grid]
    if target.multiprocessors and all(isinstance(n, int) for n in grid):
        limits.append(-(-math.prod(map(int, grid)) // target.multiprocessors))
    allocs = [op.result for op in kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "shared"]
    reserve = WORDS + RESULTS * -(-launch.threads // WARPGROUP) * target.has("tma")
    sizes, versions = {v: bytes_of(v) for v in allocs}, {v: versions_of(v) for v in allocs}
    return Room(target, max(1, min(limits)), sizes, versions, reserve, kernel.attrs.get("min_ctas", 1))


def registers_of(launch: control.Launch, target: Target) -> int:
    """Of a thread, in steps of 8, of which one is over what a thread can have."""
    registers = tile_registers(launch.body, spread(launch.threads)) + ACCUMULATOR_ROOM
    return min(-(-registers // 8) * 8, target.max_registers + 1)


def versions_of(buffer: Value) -> int:
    return buffer.type.versions if isinstance(buffer.type, BufferType) else 1


def bytes_of(buffer: Value) -> int:
    """Of one version."""
    return -(-math.prod(buffer.shape) * buffer.dtype.bits // 8)
