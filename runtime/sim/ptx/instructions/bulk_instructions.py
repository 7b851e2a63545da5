"""cp.async.bulk, TMA tensor copies, reductions, prefetches and bulk groups (PTX ISA 8.0, 9.7.8.24 and 9.7.8.25).

Decoding turns the operands into places: 16-byte rows of shared memory, and elements of global memory. The copies
themselves are the business of `bulk_copy.py`. Tile mode only, and four rows at a time (sm_100). Cache hints are
accepted and change nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import SharedSpace
from ...core.scalars import DTYPES, Array, Sel
from ...core.updates import UPDATES
from ..operands import Read, address, error, per_thread, read
from ..program import GLOBAL_BASE, PARAM_WINDOW, RANK_SHIFT, SHARED_BASE, Linker
from ..race.scopes import CTA
from ..syntax import Address, Instruction, Integer, Operand, Symbol, Vector
from ..table import Handler, instruction
from ..tensor_map import BOX_ALIGNMENT, MAP_SIZE, Box, Descriptor, swizzle_address, unpack
from .bulk_copy import Combine, Load, Store, combine_by
from .mbarrier import MBarrier, Semantics

if TYPE_CHECKING:
    from ..machine import Machine

NOWHERE, NOTHING = np.zeros(0, np.int64), np.zeros(0, np.uint8)
_FOUR_ROWS = ("tile::gather4", "tile::scatter4")
_SIZE = "the size of a bulk copy must be a multiple of 16 bytes"


# -- places -----------------------------------------------------------------------------------------------------------


def rows_of(m: Machine, thread: int, addr: int, size: int, swizzle: int, align: int, site: int, what: str) -> Array:
    """The arena offsets of the 16-byte rows of `size` bytes of shared memory, in the box's order."""
    shared = m.spaces["shared"]
    assert isinstance(shared, SharedSpace)
    one = np.array([thread])
    start = int(shared.locate(m, one, np.array([addr]), 16, site, what, align=align)[0])
    last = np.array([addr + size - 16])
    shared.locate(m, one, last, 16, site, what)
    inside = start % shared.stride + SHARED_BASE + 16 * np.arange(size // 16, dtype=np.int64)
    return swizzle_address(inside, swizzle) - SHARED_BASE + start // shared.stride * shared.stride


def in_cta(m: Machine, addr: int, rank: int) -> int:
    """The address of the same shared variable in the CTA with this rank in the cluster."""
    return addr & (1 << RANK_SHIFT) - 1 | rank << RANK_SHIFT


def destinations(m: Machine, thread: int, mask: int | None) -> list[int | None]:
    """The cluster ranks that a copy goes to, None for whatever its address says."""
    if mask is None:
        return [None]
    ranks = [rank for rank in range(16) if mask >> rank & 1]
    if not ranks or ranks[-1] >= m.launch.cluster_size:
        m.mbarriers.complain(f"the multicast mask {mask:#x} names CTAs outside the cluster", thread, 0)
    return list(ranks)


def _fetch_global(m: Machine, thread: int, offsets: Array, item: int, site: int) -> Array:
    """The elements at these arena offsets, as unsigned words, with the race model told."""
    if m.race is not None and len(offsets):
        m.race.globals.bulk(thread, offsets, site, writes=False)
    words: Array = m.spaces["global"].arena.view(item, 1)[offsets // item, 0]
    return words


def start_load(
    m: Machine,
    thread: int,
    site: int,
    target: int,
    data: Array,
    bar_addr: int,
    mask: int | None,
    swizzle: int,
    align: int,
    combine: Combine | None = None,
    source: Array | None = None,
    pair: bool = False,
) -> list[Load]:
    """Send bytes to shared memory of one or several CTAs, each completing on its own barrier, or, for a `pair` of
    CTAs, on that of the CTA of its pair which is even or odd as the barrier's is. `source` are the rows of shared
    memory that they come from, if they do."""
    loads = []
    for rank in destinations(m, thread, mask):
        to, at = target, bar_addr
        if rank is not None:
            to = in_cta(m, target, rank)
            at = in_cta(m, bar_addr, rank & ~1 | bar_addr >> RANK_SHIFT & 1 if pair else rank)
        _check_pair(m, to, at, pair, thread, site)
        rows = rows_of(m, thread, to, len(data), swizzle, align, site, "write")
        place = int(m.mbarriers.locate(np.array([thread]), np.array([at]), site)[0])
        barrier = m.mbarriers.get(place, thread, site)
        m.mbarriers.check_fenced(barrier, thread, site)
        load = Load(barrier, rows, data, len(data), thread, site, combine=combine)
        if m.race is not None:
            load.step = barrier.serial + 1
            load.column = m.race.proxy.load(thread, rows, site, barrier.key, load.step)
            if source is not None:
                m.race.proxy.read(np.array([thread]), source, site, barrier.key, load.step)
        m.bulk.load(load)
        loads.append(load)
    return loads


def _check_pair(m: Machine, to: int, at: int, pair: bool, thread: int, site: int) -> None:
    """A barrier lies in the CTA that bytes go to, or with .cta_group::2 in the other one of its pair (9.7.9.27.1.2)."""
    apart = to >> RANK_SHIFT ^ at >> RANK_SHIFT
    if pair and m.launch.cluster_size % 2:
        m.mbarriers.complain(".cta_group::2 needs clusters of an even number of CTAs", thread, site)
    if apart and not (pair and apart == 1):
        m.mbarriers.complain("the mbarrier lies in another CTA than the destination", thread, site)


def _start_store(
    m: Machine,
    thread: int,
    site: int,
    rows: Array,
    target: Array,
    inside: Array,
    item: int,
    combine: Combine | None,
) -> None:
    group = m.bulk.group(thread)
    if m.race is not None:
        m.race.proxy.read(np.array([thread]), rows, site, ("bulk", thread), group + 1)
        if inside.any():
            m.race.globals.bulk(thread, target[inside], site, writes=True, atomic=combine is not None)
    m.bulk.store(Store(thread, group, site, rows, target, inside, item, combine))


# -- tensors ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tensor:
    """The operand [map, {coordinates}]. `rows`: of tile::gather4 or tile::scatter4, whose coordinates are a column and
    four rows of a tensor of two dimensions."""

    where: Read
    coordinates: list[Read]
    rows: bool = False

    def map(self, m: Machine, thread: int, addr: int, site: int) -> Descriptor:
        """The tensor map at an address: a parameter, or one in global memory."""
        raw = _map_bytes(m, thread, addr, site)
        if raw not in m.launch.descriptors:
            m.launch.descriptors[raw] = unpack(raw)
        chosen = m.launch.descriptors[raw]
        if chosen is None or chosen.problem:
            message = f"there is no tensor map at address {addr:#x}; give a TensorMap for a .param of 128 bytes"
            if chosen is not None:
                message = f"the tensor map at address {addr:#x} is refused: {chosen.problem}"
            m.fault("out_of_bounds", message, site, "tensor map", thread, "param", (None, 0))
        assert chosen is not None
        rank = 2 if self.rows else len(self.coordinates)
        if chosen.rank != rank:
            message = f"the tensor has {chosen.rank} dimensions, the instruction {rank}"
            m.fault("out_of_bounds", message, site, "tensor map", thread, "param", (None, 0))
        if self.rows and chosen.box_shape[1] != 1:
            message = f"a box of four rows has one row in its map, not {chosen.box_shape[1]}"
            m.fault("out_of_bounds", message, site, "tensor map", thread, "param", (None, 0))
        return chosen

    def tile(self, m: Machine, tensor: Descriptor, coordinates: list[int], thread: int, site: int) -> Box:
        """The box at these coordinates, or of four rows, one after the other (PTX ISA 8.8, 5.5.3.4)."""
        if not self.rows:
            return _tile(m, tensor, coordinates, thread, site)
        column, *rows = coordinates
        boxes = [_tile(m, tensor, [column, row], thread, site) for row in rows]
        return Box(*(np.concatenate(parts) for parts in zip(*((b.offsets, b.inside) for b in boxes), strict=True)))


def _map_bytes(m: Machine, thread: int, addr: int, site: int) -> bytes:
    """The bytes of a tensor map, as the tensormap proxy reads them."""
    if addr < GLOBAL_BASE:
        params = m.spaces["param"]
        offset = addr - PARAM_WINDOW if addr >= PARAM_WINDOW else addr
        if not 0 <= offset <= params.size - MAP_SIZE:
            return bytes(MAP_SIZE)
        return params.arena.data[offset : offset + MAP_SIZE].tobytes()
    one, space = np.array([thread]), m.spaces["global"]
    where = int(space.locate(m, one, np.array([addr]), MAP_SIZE, site, "tensor map", align=64)[0])
    if m.race is not None:
        m.race.globals.tensor_maps.use(thread, where, site)
    return space.arena.data[where : where + MAP_SIZE].tobytes()


def _inside(m: Machine, tensor: Descriptor, box: Box, thread: int, site: int) -> Array:
    """The arena offsets of a box's elements. A map that a program has made may reach beyond every buffer."""
    offsets = tensor.address - GLOBAL_BASE + box.offsets
    used = offsets[box.inside]
    if len(used):
        space, one = m.spaces["global"], np.array([thread])
        ends = np.array([used.min(), used.max()]) + GLOBAL_BASE
        for end in ends:
            space.locate(m, one, np.array([end]), tensor.item, site, "TMA copy")
    return offsets


def _tensor(operand: Operand, ins: Instruction, linker: Linker) -> _Tensor:
    if not isinstance(operand, Address) or len(operand.rest) != 1 or not isinstance(operand.rest[0], Vector):
        raise error(ins, "expected [map, {coordinates}]")
    items = operand.rest[0].items
    rows = any(mod in _FOUR_ROWS for mod in ins.mods)
    if (5, "2d" in ins.mods) != (len(items), True) if rows else f"{len(items)}d" not in ins.mods:
        raise error(ins, f"there are {len(items)} coordinates, but the instruction says otherwise")
    if isinstance(operand.base, Symbol):
        raise error(ins, "a tensor map is named by its generic address in a register (cvta.param)")
    plain = Address(operand.base, operand.offset)
    return _Tensor(address(plain, ins, linker), [read(item, "s32", ins, linker) for item in items], rows)


def _tile(m: Machine, tensor: Descriptor, coordinates: list[int], thread: int, site: int) -> Box:
    """A box. Where its rows start must be a multiple of 16 bytes, also outside the tensor: an H200 stops otherwise."""
    inner = coordinates[0] * tensor.item
    if inner % 16:
        message = f"the box starts {inner} bytes into its row, which is not a multiple of 16"
        where = m.launch.globals.describe(m, tensor.address)
        m.fault("misaligned", message, site, "TMA copy", thread, "global", where, tensor.item)
    return tensor.tile(coordinates)


def _check_mode(ins: Instruction) -> None:
    if any(mod.startswith("im2col") or (mod.startswith("tile::") and mod not in _FOUR_ROWS) for mod in ins.mods):
        raise error(ins, "only tile mode is supported")


def _mask(ins: Instruction, operands: tuple[Operand, ...], linker: Linker) -> Read | None:
    """The CTA mask of .multicast::cluster, the first of the optional operands."""
    if "multicast::cluster" not in ins.mods:
        return None
    if not operands:
        raise error(ins, ".multicast::cluster needs a mask of CTAs")
    return read(operands[0], "u16", ins, linker)


def _values(m: Machine, sel: Sel, reader: Read | None) -> list[int | None]:
    threads = m.thread[sel]
    return [None] * len(threads) if reader is None else per_thread(reader(m, sel), sel).tolist()


@instruction("cp.async.bulk.tensor", results=0)
def _copy_tensor(ins: Instruction, linker: Linker) -> Handler:
    _check_mode(ins)
    if ins.mods.index("global") < next(i for i, mod in enumerate(ins.mods) if mod.startswith("shared")):
        return _store_tensor(ins, linker, None)
    target, source = address(ins.operands[0], ins, linker), _tensor(ins.operands[1], ins, linker)
    barrier = address(ins.operands[2], ins, linker)
    mask = _mask(ins, ins.operands[3:], linker)
    site, pair = linker.site(ins), "cta_group::2" in ins.mods

    def run(m: Machine, sel: Sel) -> None:
        places = [per_thread(each(m, sel), sel).tolist() for each in source.coordinates]
        masks = _values(m, sel, mask)
        rows = zip(m.thread[sel].tolist(), source.where(m, sel).tolist(), target(m, sel).tolist(), strict=True)
        for index, ((thread, at, to), bar) in enumerate(zip(rows, barrier(m, sel).tolist(), strict=True)):
            tensor = source.map(m, thread, at, site)
            box = source.tile(m, tensor, [each[index] for each in places], thread, site)
            data = np.tile(tensor.fill_bytes(), len(box.offsets)).view(f"u{tensor.item}")
            offsets = _inside(m, tensor, box, thread, site)[box.inside]
            data[box.inside] = _fetch_global(m, thread, offsets, tensor.item, site)
            data = tensor.converted(data).view(np.uint8)
            start_load(m, thread, site, to, data, bar, masks[index], tensor.swizzle, BOX_ALIGNMENT, pair=pair)

    return run


def _store_tensor(ins: Instruction, linker: Linker, reduction: str | None) -> Handler:
    target, source = _tensor(ins.operands[0], ins, linker), address(ins.operands[1], ins, linker)
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        places = [per_thread(each(m, sel), sel).tolist() for each in target.coordinates]
        rows = zip(m.thread[sel].tolist(), target.where(m, sel).tolist(), source(m, sel).tolist(), strict=True)
        for index, (thread, at, from_) in enumerate(rows):
            tensor = target.map(m, thread, at, site)
            origin = [each[index] for each in places]
            if min(origin) < 0:
                message = (
                    f"a TMA store to the coordinates {origin}; an H200 stops at negative ones (loads may have them)"
                )
                m.fault("out_of_bounds", message, site, "TMA copy", thread, "global", (None, 0))
            box = target.tile(m, tensor, origin, thread, site)
            size = len(box.offsets) * tensor.item
            rows_ = rows_of(m, thread, from_, size, tensor.swizzle, BOX_ALIGNMENT, site, "read")
            combine = None if reduction is None else combine_by(reduction, tensor.dtype)
            offsets = _inside(m, tensor, box, thread, site)
            _start_store(m, thread, site, rows_, offsets, box.inside, tensor.item, combine)

    return run


# -- plain bytes ------------------------------------------------------------------------------------------------------


def _check_size(m: Machine, thread: int, size: int, site: int) -> None:
    if size % 16 or size <= 0:
        m.fault("misaligned", f"{_SIZE}, not {size}", site, "copy", thread, "shared", (None, 0))


def _global_bytes(m: Machine, thread: int, addr: int, size: int, site: int, what: str) -> int:
    space, one = m.spaces["global"], np.array([thread])
    start = space.locate(m, one, np.array([addr]), size, site, what, align=16)
    return int(start[0])


@instruction("cp.async.bulk", results=0)
def _copy_bulk(ins: Instruction, linker: Linker) -> Handler:
    """cp.async.bulk.to.from [to], [from], size, then [mbar]{, mask} if the destination is shared memory."""
    spaces = [mod for mod in ins.mods if mod in ("global", "shared::cta", "shared::cluster")]
    if len(spaces) != 2:
        raise error(ins, f"unsupported instruction {ins.opcode}")
    if spaces[0] == "global":
        return _store_bulk(ins, linker, None)
    return _load_bulk(ins, linker, spaces[1], None)


def _load_bulk(ins: Instruction, linker: Linker, space: str, combine: Combine | None) -> Handler:
    target, source = address(ins.operands[0], ins, linker), address(ins.operands[1], ins, linker)
    size, barrier = read(ins.operands[2], "u32", ins, linker), address(ins.operands[3], ins, linker)
    mask = _mask(ins, ins.operands[4:], linker)
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        sizes, masks = per_thread(size(m, sel), sel).tolist(), _values(m, sel, mask)
        rows = zip(target(m, sel).tolist(), source(m, sel).tolist(), barrier(m, sel).tolist(), strict=True)
        for index, (thread, (to, at, bar)) in enumerate(zip(m.thread[sel].tolist(), rows, strict=True)):
            length = sizes[index]
            source_rows = None
            _check_size(m, thread, length, site)
            if space == "global":
                start = _global_bytes(m, thread, at, length, site, "read")
                offsets = start + 8 * np.arange(length // 8, dtype=np.int64)
                data = _fetch_global(m, thread, offsets, 8, site).view(np.uint8)
            else:
                source_rows = rows_of(m, thread, at, length, 0, 16, site, "read")
                data = m.spaces["shared"].arena.view(8, 2)[source_rows // 16].view(np.uint8).ravel()
            start_load(m, thread, site, to, data, bar, masks[index], 0, 16, combine, source_rows)

    return run


def _store_bulk(ins: Instruction, linker: Linker, combine: Combine | None, item: int = 8) -> Handler:
    target, source = address(ins.operands[0], ins, linker), address(ins.operands[1], ins, linker)
    size, site = read(ins.operands[2], "u32", ins, linker), linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        sizes = per_thread(size(m, sel), sel).tolist()
        places = zip(m.thread[sel].tolist(), target(m, sel).tolist(), source(m, sel).tolist(), sizes, strict=True)
        for thread, to, at, length in places:
            _check_size(m, thread, length, site)
            rows = rows_of(m, thread, at, length, 0, 16, site, "read")
            start = _global_bytes(m, thread, to, length, site, "write")
            offsets = start + item * np.arange(length // item, dtype=np.int64)
            _start_store(m, thread, site, rows, offsets, np.ones(len(offsets), bool), item, combine)

    return run


@instruction("cp.reduce.async.bulk", results=0)
def _reduce_bulk(ins: Instruction, linker: Linker) -> Handler:
    """cp.reduce.async.bulk{.tensor}: as the copies, but each element is combined with what is there."""
    name = next((mod for mod in ins.mods if mod in UPDATES), None)
    if name is None:
        raise error(ins, f"unsupported instruction {ins.opcode}")
    if "tensor" in ins.mods:
        _check_mode(ins)
        return _store_tensor(ins, linker, name)
    dtype = DTYPES[ins.mods[-1]]
    combine = combine_by(name, dtype)
    spaces = [mod for mod in ins.mods if mod in ("global", "shared::cta", "shared::cluster")]
    if spaces[0] == "global":
        return _store_bulk(ins, linker, combine, dtype.itemsize)
    return _load_bulk(ins, linker, spaces[1], combine)


@instruction("cp.async.bulk.prefetch", results=0)
def _prefetch(ins: Instruction, linker: Linker) -> Handler:
    """A prefetch into L2 changes nothing, but its operands must be right."""
    if "tensor" not in ins.mods:
        where, size, site = address(ins.operands[0], ins, linker), read(ins.operands[1], "u32", ins, linker), 0
        site = linker.site(ins)

        def run(m: Machine, sel: Sel) -> None:
            for thread, at, length in zip(
                m.thread[sel].tolist(), where(m, sel).tolist(), per_thread(size(m, sel), sel).tolist(), strict=True
            ):
                _check_size(m, thread, length, site)
                _global_bytes(m, thread, at, length, site, "read")

        return run
    tensor = _tensor(ins.operands[0], ins, linker)
    tensor_site = linker.site(ins)

    def check(m: Machine, sel: Sel) -> None:
        for thread, at in zip(m.thread[sel].tolist(), tensor.where(m, sel).tolist(), strict=True):
            tensor.map(m, thread, at, tensor_site)

    return check


@instruction("cp.async.bulk.commit_group", results=0)
def _commit(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: m.bulk.commit(m.thread[sel])


@instruction("cp.async.bulk.wait_group", results=0)
def _wait(ins: Instruction, linker: Linker) -> Handler:
    number = ins.operands[0]
    if not isinstance(number, Integer):
        raise error(ins, "wait_group takes a constant")
    only_read = "read" in ins.mods
    return lambda m, sel: m.bulk.wait(m.thread[sel], number.value, only_read)


@instruction("cp.async.mbarrier.arrive", results=0)
def _arrive_when_copied(ins: Instruction, linker: Linker) -> Handler:
    """cp.async.mbarrier.arrive{.noinc}: an arrival once the thread's cp.async copies so far have landed (9.7.12.15.15).

    Without .noinc the pending count grows by one first, so that the arrival changes nothing in the end.
    """
    where, site = address(ins.operands[0], ins, linker), linker.site(ins)
    counted = "noinc" in ins.mods

    def run(m: Machine, sel: Sel) -> None:
        for thread, place in zip(
            m.thread[sel].tolist(), m.mbarriers.locate(sel, where(m, sel), site).tolist(), strict=True
        ):
            barrier = m.mbarriers.get(place, thread, site)
            barrier.pending += 0 if counted else 1
            finish = m.copies.completion(thread)

            action = functools.partial(_copied, m, finish, barrier, thread, site)
            m.bulk.load(Load(barrier, NOWHERE, NOTHING, 0, thread, site, action=action))

    return run


def _copied(m: Machine, finish: Callable[[], None], barrier: MBarrier, thread: int, site: int) -> None:
    finish()
    m.mbarriers.arrive(barrier, np.array([thread]), 1, site, Semantics(CTA, False))
