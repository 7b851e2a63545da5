"""Shared memory through which fragments go to tensors: what room there is for it, and how a fragment lies there.

`tma_store.py` takes what is staged by the copy engine, `coalesced_store.py` by the threads themselves.
"""

from __future__ import annotations

from minitile.analysis.register_budget import TILE_ROOM
from minitile.ir.core import Op, Value
from minitile.ir.ops import tile
from minitile.ir.types import BufferType
from minitile.layout import Layout
from minitile.layout.shared import SharedLayout
from minitile.lowering.context import Lowering
from minitile.lowering.memory import in_memory


def as_stored(layout: Layout, dims: tile.Dims) -> tuple[Layout, tile.Dims]:
    """The layout with its dimensions in the tensor's order, and which of them run along the tensor's: a tile that is
    stored with its dimensions exchanged turns on its way to the staging buffer (stmatrix.trans)."""
    order = tuple(d for d in dims if d is not None)
    return in_memory(layout, order), tuple(None if d is None else order.index(d) for d in dims)


def alike(low: Lowering, op: tile.Store | tile.AtomicRmw) -> int:
    """How many stores like this one, itself included, have not been lowered: each team has its own. Those with a mask
    are not staged."""
    found = [o for o in low.kernel.walk() if isinstance(o, type(op)) and o.mem is op.mem and o.mask is None]
    return sum(o.value.type == op.value.type for o in found[found.index(op) :])


def most_versions(low: Lowering, shared: SharedLayout, wanted: int, registers: int, buffers: int) -> int:
    """How many versions, up to `wanted`, of each of so many buffers surely fit beside all others, as
    `allocate_shared_memory` will place them: the largest first. What later exchanges between threads may want comes on
    top. A second version is not worth a block less on each SM, as far as registers (`registers` of the fragment a
    thread) let there be more than one."""
    allocs = {op.result: op for op in low.kernel.walk() if isinstance(op, tile.Alloc) and op.type_.space == "shared"}
    lowered = {low.get(v) for v in allocs}
    mine = [op for op in low.entry.ops if isinstance(op, tile.Alloc) and op.type_.space == "shared"]
    every = [*allocs.values(), *(op for op in mine if op.result not in lowered)]
    others = [(op.version_bytes * op.type_.versions, op.layout.alignment if op.layout else 16) for op in every]
    later = (op for op in low.kernel.walk() if op.results and op.results[0] not in low.map)
    others += [(size, 128) for op in later if (size := op.exchange_bytes()) is not None]
    threads: int = low.kernel.attrs["threads"] + low.kernel.attrs.get("producer_threads", 0)
    beside = low.target.reserved_shared
    sm_shared = low.target.max_shared + beside
    by_registers = low.target.block_registers // (threads * (registers + TILE_ROOM))

    def needed(versions: int) -> int:
        end = 0
        more = [(versions * shared.stage_bytes, shared.alignment)] * buffers
        for size, alignment in sorted([*others, *more], reverse=True):
            end = -(-end // alignment) * alignment + size
        return end

    def blocks(versions: int) -> int:
        return max(1, min(by_registers, sm_shared // (needed(versions) + beside)))

    fit = [n for n in range(wanted, 0, -1) if needed(n) <= low.target.max_shared]
    return next((n for n in fit if blocks(n) == blocks(0)), fit[-1] if fit else 0)


def staging(low: Lowering, shared: SharedLayout, op: Op, versions: int, group: int) -> Value:
    """A buffer for what `op` stores, of which each `group` consecutive threads have a part to themselves."""
    dtype = op.mem.dtype  # type: ignore[attr-defined]
    kind = BufferType("shared", shared.shape, dtype, versions)
    alloc = tile.Alloc(kind, layout=shared, bytes=shared.stage_bytes, shared_by=group)
    alloc.loc, alloc.result.name = op.loc, "staged"
    low.entry.ops.append(alloc)
    return alloc.result
