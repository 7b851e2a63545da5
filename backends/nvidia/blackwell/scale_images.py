"""Scales of blocks that tcgen05.cp copies from shared memory to tensor memory, past the registers.

    %s = load %SFA[0, 0] : tile<128x4xu8>                      alloc %SFA {layout: an image of 512 bytes}
    %c1 = gemm %As, %Bs, %c, a_scale = %s, …           →       tensor_gemm …, a_scale_from = %SFA

A tile of scales that is no more than what a shared buffer holds, whole, is copied by the thread that issues the
product, in front of it. The buffer then lies in images of 128 rows (layouts.py), which threads write by 4 bytes. That
takes that nothing else reads the buffer, and that nothing is written to it between the load and the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitile.analysis.op_places import Places
from minitile.backends.nvidia.blackwell.layouts import ROWS, image
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import tile


def images(body: Block, gemms: Sequence[tile.Gemm]) -> dict[Value, tile.Load]:
    """The tiles of scales of these gemms that are copied, with the loads that made them; their buffers get layouts."""
    places = Places(body)
    found = {
        scale: scale.op
        for gemm in gemms
        for scale in (gemm.a_scale, gemm.b_scale)
        if scale is not None and isinstance(scale.op, tile.Load) and _copied(scale.op, gemm, places)
    }
    for load in found.values():
        alloc = load.mem.op
        assert isinstance(alloc, tile.Alloc)
        alloc.layout = image(load.mem.shape)
    return found


def _copied(load: tile.Load, gemm: tile.Gemm, places: Places) -> bool:
    alloc, block = load.mem.op, places.block.get(load)
    if not isinstance(alloc, tile.Alloc) or alloc.type_.space != "shared" or alloc.layout is not None:
        return False
    whole = load.shape == load.mem.shape and load.dims == (0, 1) and load.mask is None
    starts = all(constant_of(i) == 0 for i in load.indices)
    if not (whole and starts) or load.shape[0] % ROWS or places.users.get(load.result) != [gemm]:
        return False
    if block is None or places.block[gemm] is not block:
        return False
    between = block.ops[places.number[load] + 1 : places.number[gemm]]
    return not any(_writes(op, load) for op in between) and all(
        op is load or _fills(op, load.mem) for op in places.users[load.mem]
    )


def _writes(op: Op, load: tile.Load) -> bool:
    """Whether it may write what the load reads: another version is another place."""
    within = [op, *(inner for region in op.regions for inner in region.walk())]
    touched = [a for each in within for a in each.accesses() if a.writes and a.mem in (load.mem, None)]
    return any(a.token is None for a in touched)


def _fills(op: Op, mem: Value) -> bool:
    """Whether threads write the buffer by it, and do no more with it."""
    touched = [a for a in op.accesses() if a.mem is mem]
    return isinstance(op, tile.Copy | tile.Store) and all(a.writes and a.proxy == "generic" for a in touched)
