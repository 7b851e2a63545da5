"""What is too large for any block, found before passes count its elements one by one.

Fragments lie in registers, shared buffers in a block's shared memory, arrays of T.alloc_local in a thread's own memory;
what a T.Parallel or a copy has for each thread is unrolled. Compile time and memory grow with all of them, so that a
size that is a slip of the pen (1 << 26 for 1 << 6) would not end in an error but in nothing at all. Buffers in tensor
memory are none of that: the backend that has it counts its columns.
"""

from __future__ import annotations

import math

from minitile.hardware import Target
from minitile.ir.core import Op
from minitile.ir.diagnostics import ResourceError
from minitile.ir.ops import control, tile
from minitile.ir.types import BufferType


def check_sizes(launch: control.Launch, target: Target) -> None:
    """Raises ResourceError for a buffer that no block could hold, and for an operation on so many elements that its
    code would not end."""
    for op in launch.body.walk():
        if isinstance(op, tile.Alloc) and op.type_.space in ("fragment", "local", "shared"):
            _check_buffer(op, target)
    for op in launch.body.walk():
        elements = _elements(op)
        each = -(-elements // launch.threads)
        if each > target.max_unrolled:
            most = target.max_unrolled * launch.threads
            raise ResourceError(
                f"{elements} elements at once are {each} for each of {launch.threads} threads, and code is written "
                f"for each of them; {target.max_unrolled} are the most on {target}",
                op.loc,
                f"take a part at a time, at most {most}, in a loop of T.serial or in more blocks",
            )


def _elements(op: Op) -> int:
    """What is spread over the threads of a block at once, in registers: copies have several elements in one."""
    own = [math.prod(op.extents)] if isinstance(op, control.Parallel) else []
    copied = [math.prod(f.extents) * f.mem.dtype.bits // 32 for f in op.footprints()]
    return max(own + copied, default=0)


def _check_buffer(op: tile.Alloc, target: Target) -> None:
    shape, dtype = op.type_.shape, op.type_.dtype
    size = math.prod(shape) * dtype.bits // 8
    limit, where, hint = _holds(op.type_, target)
    if size > limit:
        what = f"{op.result.name or 'a buffer'} is {size} bytes ({'x'.join(map(str, shape))} {dtype})"
        raise ResourceError(f"{what}, and {where} {limit} on {target}", op.loc, hint)


def _holds(type_: BufferType, target: Target) -> tuple[int, str, str]:
    """How many bytes there are for a buffer, of what, and what to do where they are too few."""
    if type_.space == "fragment":
        hint = "a fragment lies in registers: take a part at a time, in a loop or in more blocks"
        return target.block_registers * 4, "all registers of a block are", hint
    if type_.space == "local":
        hint = "each thread has such an array of its own: keep large ones in a tensor"
        return target.local_bytes, "the memory of a thread's own is", hint
    return target.max_shared, "the shared memory of a block is", "take a part at a time, in a loop or in more blocks"
