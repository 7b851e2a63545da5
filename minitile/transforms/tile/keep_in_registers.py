"""Shared memory that each thread reads only where it has written itself becomes a fragment.

    copy %A[%k] -> %s                         %f = load %A[%k]
    parallel (%i) { use %s[%i] }       →      parallel (%i) { use %f[%i] }

Programs stage tensors in shared memory out of habit, where T.Parallel then reads each element at its own place. As a
fragment the tile goes from memory to the registers that want it; no barrier stands between, and loads may go ahead of
what uses others (hoist_loads). This is so for buffers that copies of tensors, fills and T.Parallel at its own indices
access as a whole; kernels that multiply tiles, and loops of several stages, whose copies are under way while others are
used, keep theirs; so do kernels that synchronise themselves. What a thread holds then is at most WORDS registers.

A layout of the program's own (T.annotate_layout) says that it is meant to be memory. Only programs of minitile.tilelang
are changed so (the attribute `resources_are_hints`); where others say shared memory, it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.types import BufferType, TensorType
from minitile.transforms.manager import PassContext

WORDS = 32  # of a thread's registers, for all such fragments
_LEAVE = ("gemm", "barrier", "mbarrier", "sync_threads", "warp", "bulk", "thread_index", "by_role", "in_groups")


def keep_in_registers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not kernel.attrs.get("resources_are_hints") or kernel.attrs.get("explicit_sync"):
        return
    if any(op.mnemonic.startswith(_LEAVE) for op in kernel.walk()):
        return
    allocs = {
        op.result: op
        for op in kernel.walk()
        if isinstance(op, tile.Alloc) and op.type_.space == "shared" and op.layout is None and op.type_.versions == 1
    }
    if not allocs:
        return
    refused: set[Value] = set()
    first: dict[Value, bool] = {}
    for op, loop, parallel in _walk(kernel.body, None, None):
        for buffer in {v for v in op.operands if v in allocs}:
            first.setdefault(buffer, any(a.writes and a.mem is buffer for a in op.accesses()))
            if (loop is not None and loop.stages > 1) or not _as_a_whole(op, buffer, parallel):
                refused.add(buffer)
    kept = [op for buffer, op in allocs.items() if first.get(buffer) and buffer not in refused]
    if sum(math.prod(op.type_.shape) * op.type_.dtype.bits for op in kept) > 32 * WORDS * kernel.threads:
        return
    for op in kept:
        op.type_ = replace(op.type_, space="fragment")
        op.lifetime = None
        op.result.type = op.type_


def _walk(
    block: Block, loop: control.For | None, parallel: control.Parallel | None
) -> Iterator[tuple[Op, control.For | None, control.Parallel | None]]:
    """All operations, each with the pipelined loop and the T.Parallel around it."""
    for op in block.ops:
        yield op, loop, parallel
        inner = op if isinstance(op, control.For) and (op.stages > 1 or loop is None) else loop
        for region in op.regions:
            yield from _walk(region, inner, op if isinstance(op, control.Parallel) else parallel)


def _as_a_whole(op: Op, buffer: Value, parallel: control.Parallel | None) -> bool:
    """Whether an operation accesses all of a buffer, with the thread for each element that any layout gives."""
    shape = buffer.type.shape  # type: ignore[attr-defined]
    if isinstance(op, tile.Copy):
        return op.src is not op.dst and _copies_all(op, buffer, shape)
    if isinstance(op, tile.Fill):
        return op.shape == shape and _all_of(op.indices, op.dims, len(shape))
    if not isinstance(op, (tile.Load, tile.Store)) or parallel is None or buffer is not op.mem:
        return False
    ivs = parallel.body.args
    if tuple(parallel.extents) != tuple(shape) or len(op.indices) != len(ivs):
        return False
    return all(index is iv for index, iv in zip(op.indices, ivs, strict=True))


def _copies_all(op: tile.Copy, buffer: Value, shape: tuple[int, ...]) -> bool:
    mine, theirs = (op.src_indices, op.src_dims), op.dst_dims
    other = op.dst
    if op.dst is buffer:
        mine, theirs, other = (op.dst_indices, op.dst_dims), op.src_dims, op.src
    order = [d for d in theirs if d is not None]
    straight = order == sorted(order) and len(order) == len(shape)
    known = isinstance(other.type, (TensorType, BufferType))
    return known and op.shape == shape and straight and _all_of(*mine, len(shape))


def _all_of(indices: tuple[Value, ...], dims: tile.Dims, rank: int) -> bool:
    return tuple(dims) == tuple(range(rank)) and all(constant_of(i) == 0 for i in indices)
