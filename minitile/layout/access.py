"""How threads that hold a tile in one layout reach it in shared memory in another: width, order, bank conflicts.

An *access* is one instruction's share of a thread: a run of registers, neighbours along the shared layout's contiguous
dimension. Shared memory has 32 banks of 4 bytes. A warp's 16-byte accesses are served in 4 phases of 8 lanes, 8-byte
ones in 2 phases of 16, narrower ones at once; a phase takes as many cycles as the busiest bank has different words
(lanes that want the same word share it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from minitile.hardware import Target
from minitile.ir.types import DType, bf16, f16, f32
from minitile.layout.register import Coord, Digit, Layout, LayoutError, offsets
from minitile.layout.shared import ConstantSplit, SharedLayout, add_maybe_bits, is_power_of_two

NUM_BANKS = 32
BANK_BYTES = 4
SECTOR = 32  # bytes of global memory (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory")


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """One load or store of each thread: `registers` in address order, starting at base coordinate + `offset`.

    `split` leads from the address at the thread's base coordinate to this one; None: compute it anew.
    """

    registers: tuple[int, ...]
    offset: Coord
    split: ConstantSplit | None


def vector_width(layout: Layout, shared: SharedLayout, max_bytes: int = 16) -> int:
    """How many elements each thread can move at once between its registers and shared memory, aligned."""
    dim = _contiguous(layout, shared)
    if dim is None:
        return 1
    width = layout.vector_width(dim, max(1, max_bytes * 8 // shared.element_bits))
    while width > 1 and (
        shared.contiguous_elems(dim) % width or shared.row_alignment(dim, width) * 8 % (width * shared.element_bits)
    ):
        width //= 2
    return width


@lru_cache(maxsize=1024)
def accesses(
    layout: Layout, shared: SharedLayout, width: int, base_bits: tuple[int, ...] | None = None
) -> tuple[VectorAccess, ...]:
    """The accesses, `width` elements each, with which every thread covers its registers.

    `base_bits`: which bits of the tile's own place inside `shared` may be set, per dimension (default: it lies at
    coordinate 0). Raises LayoutError when the registers do not come in runs of `width`.
    """
    dim = _contiguous(layout, shared)
    runs = vector_runs(layout, width, dim)
    base = thread_bits(layout)
    if base_bits is not None:
        base = tuple(add_maybe_bits(a, b) for a, b in zip(base, base_bits, strict=True))
    return tuple(VectorAccess(run, at, shared.split_constant(at, base)) for run, at in runs)


@lru_cache(maxsize=1024)
def vector_runs(layout: Layout, width: int, dim: int | None) -> tuple[tuple[tuple[int, ...], Coord], ...]:
    """The registers in runs of `width` neighbours along `dim`, each with its first register's offset.

    In memory order: `dim` fastest. Raises LayoutError when the registers do not come in such runs.
    """
    if width > 1 and (dim is None or layout.register_run(dim) % width):
        raise LayoutError(f"registers of {layout} do not come in runs of {width} along dimension {dim}")
    if not layout.rank:
        return (((0,), ()),)
    ordered = layout.sorted_registers(-1 if dim is None else dim)
    where = {offset: reg for reg, offset in enumerate(layout.register_offsets())}
    places = ordered.register_offsets()
    return tuple((tuple(where[at] for at in places[i : i + width]), places[i]) for i in range(0, len(places), width))


def thread_bits(layout: Layout) -> tuple[int, ...]:
    """Which bits of a thread's base coordinates may be set, per dimension."""
    return bits_of_digits(layout.lane + layout.warp, layout.rank)


def bits_of_digits(digits: Iterable[Digit], rank: int) -> tuple[int, ...]:
    """Which bits of the coordinates that `digits` add up to may be set."""
    out = [0] * rank
    for digit in digits:
        if digit.dim is None:
            continue
        if is_power_of_two(digit.stride):
            most = (1 << (digit.size - 1).bit_length()) - 1
            out[digit.dim] = add_maybe_bits(out[digit.dim], most * digit.stride)
        else:
            for i in range((digit.size - 1).bit_length()):
                out[digit.dim] = add_maybe_bits(out[digit.dim], digit.stride << i)
    return tuple(out)


@lru_cache(maxsize=1024)
def bank_conflicts(layout: Layout, shared: SharedLayout, vec_bytes: int) -> int:
    """The most cycles that any phase of any access takes; 1 is free of conflicts.

    `vec_bytes` is what each thread moves at once: 16, 8, 4 or less. Raises LayoutError when the registers do not come
    in such runs.
    """
    width = max(1, vec_bytes * 8 // shared.element_bits)
    runs = [at for _, at in vector_runs(layout, width, _contiguous(layout, shared))]
    lanes = offsets(layout.lane, layout.rank)
    warps = offsets(layout.warp, layout.rank)
    worst = 1
    for warp in _distinct(shared, warps, bits_of_digits(layout.lane, layout.rank)):
        for run in _distinct(shared, runs, thread_bits(layout)):
            addresses = [_offset_inside(shared, lane, warp, run) for lane in lanes]
            worst = max(worst, phase_conflicts(addresses, vec_bytes))
    return worst


def _distinct(shared: SharedLayout, constants: Iterable[Coord], base_bits: tuple[int, ...]) -> list[Coord]:
    """The constants that can make a difference to bank conflicts.

    One that enters an address by xor and addition only renames the banks; what counts is its place within a word.
    """
    out, seen = [], set[int]()
    for constant in constants:
        split = shared.split_constant(constant, base_bits)
        if split is not None:
            place = split.add % BANK_BYTES
            if place in seen:
                continue
            seen.add(place)
        out.append(constant)
    return out


def phase_conflicts(addresses: Sequence[int | None], vec_bytes: int) -> int:
    """The most different words in one bank in one phase; `addresses` in bytes by lane, None for an idle lane."""
    per_phase = max(8, min(len(addresses), NUM_BANKS * BANK_BYTES // max(vec_bytes, BANK_BYTES)))
    worst = 1
    for start in range(0, len(addresses), per_phase):
        words: set[int] = set()
        for address in addresses[start : start + per_phase]:
            if address is not None:
                words.update(range(address // BANK_BYTES, -(-(address + vec_bytes) // BANK_BYTES)))
        load = [0] * NUM_BANKS
        for word in words:
            load[word % NUM_BANKS] += 1
        worst = max(worst, *load)
    return worst


@lru_cache(maxsize=1024)
def sectors(layout: Layout, width: int, dim: int, element_bytes: int) -> float:
    """How many sectors of global memory, 32 bytes each, an access of a warp touches, as a share of those that its bytes
    fill: 1 where lanes are neighbours. Each lane has `width` elements along `dim`, rows begin with a sector."""
    found: set[tuple[Coord, int]] = set()
    for at in set(offsets(layout.lane, layout.rank)):
        row, start = (*at[:dim], *at[dim + 1 :]), at[dim] * element_bytes
        found.update((row, n) for n in range(start // SECTOR, (start + width * element_bytes - 1) // SECTOR + 1))
    return len(found) * SECTOR / (len(set(offsets(layout.lane, layout.rank))) * width * element_bytes)


class RowAccess(NamedTuple):
    """How a tile's rows are accessed: kind "load" or "store" of global memory, or "shared"; at most `width` elements of
    `bytes` each at once, as alignment allows."""

    kind: str
    width: int
    bytes: int

    def cycles(self, vec: int) -> float:
        """Of a multiprocessor, for 32 elements, where each lane holds `vec` neighbours. An access of a warp takes one;
        and a store one for each two sectors that it touches, full or not (64 bytes a cycle go to L2); a load one for
        each line of 128 bytes, in which later loads find what is between (L1); one of shared memory its bytes."""
        width = min(vec, self.width)
        reach = 32 * vec * self.bytes
        if self.kind == "store":
            least = min(reach / SECTOR, 32 * max(1, width * self.bytes / SECTOR)) / 2
        elif self.kind == "load":
            least = min(reach / 128, 32)
        else:
            least = 32 * width * self.bytes / 128
        return max(1.0, least) / width


def cheapest_vector(uses: Sequence[RowAccess]) -> int:
    """How many neighbours each lane should hold for all these accesses to take the fewest cycles: of equals, most."""
    widths = [1 << n for n in range(max((use.width for use in uses), default=1).bit_length())]
    return min(reversed(widths), key=lambda vec: sum(use.cycles(vec) for use in uses))


def _contiguous(layout: Layout, shared: SharedLayout) -> int | None:
    if layout.rank != shared.rank:
        raise LayoutError(f"a tile of rank {layout.rank} in shared memory of rank {shared.rank}")
    return shared.contiguous_dim


def _offset_inside(shared: SharedLayout, *parts: Coord) -> int | None:
    coords = tuple(map(sum, zip(*parts, strict=True)))
    if any(c >= size for c, size in zip(coords, shared.shape, strict=True)):
        return None
    return shared.offset(coords)


def atomic_bytes(target: Target, dtype: DType, in_tensor: bool) -> int:
    """The most bytes that one instruction adds to elements of a dtype, each atomically by itself."""
    if dtype in (f16, bf16, f32) and in_tensor and target.has("add_vectors"):
        return 16
    return 4 if target.has(f"add_{dtype}x2") else dtype.bytes
