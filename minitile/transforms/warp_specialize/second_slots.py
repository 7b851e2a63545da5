"""A second slot for what a persistent block holds through a loop, so that the next tile's is there when it begins.

    for %t = %block, %tiles, %blocks {apart} {             %ring = mbarrier_pipeline %Q {slots = 1}  →  {slots = 2}
      copy %q[…], %Q
      for … { … gemm %Q, %K, … } }

The producer runs ahead into the next tile. A buffer that is read in an inner loop is free at the tile's end alone: with
one slot its copy is waited for at each tile's begin, some 1000 cycles. What is read before the loops is free at once,
and needs none.

A ring gets its second slot if shared memory has room for it and no block of a multiprocessor goes away for it.
"""

from __future__ import annotations

from dataclasses import replace

from minitile.analysis.occupancy import room_of
from minitile.hardware import Target
from minitile.ir.core import Kernel
from minitile.ir.ops import control
from minitile.transforms.warp_specialize.producer_partition import PipelineState, Ring, Rings


def second_slots(kernel: Kernel, rings: Rings, target: Target) -> Rings:
    """The rings, those that persistent blocks hold through a loop with two slots where there is room."""
    held = [ring for ring in rings.rings if _is_held(ring, rings)]
    if not held:
        return rings
    room = room_of(kernel, target, True)
    versions = {buffer: ring.pipeline_state.slots for ring in rings.rings for buffer in ring.buffers}
    blocks = room.blocks(versions)
    doubled: dict[Ring, PipelineState] = {}
    for ring in held:
        more = versions | dict.fromkeys(ring.buffers, 2)
        if 0 < blocks <= room.blocks(more):
            versions = more
            state = next((s for s in doubled.values() if s.block is ring.pipeline_state.block), None)
            doubled[ring] = state or PipelineState(ring.pipeline_state.block, 2)
    for ring, state in doubled.items():
        ring.pipeline_state = state
    return replace(rings) if doubled else rings


def _is_held(ring: Ring, rings: Rings) -> bool:
    """Whether a ring of one slot is a persistent block's, for a tile each time, and read in a loop inside."""
    places, block = rings.slice.places, ring.pipeline_state.block
    loop = places.parent.get(block)
    if ring.pipeline_state.multistage or not (isinstance(loop, control.For) and loop.apart):
        return False
    users = [user for buffer in ring.buffers for user in rings.users[buffer]]
    return any(isinstance(places.in_block(user, block), control.Loop) for user in users)
