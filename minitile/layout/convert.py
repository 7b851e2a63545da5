"""What it takes to turn one register layout of a tile into another, in the same threads.

From cheap to dear:

    identity    every register already holds what is wanted
    registers   each thread has its elements, in other registers: `register_permutation`
    lanes       each register of the result comes from one register of another lane: one shfl each
                (`lane_exchange`)
    swaps       what a bit of the lane's number stands for and what a bit of the register's does are swapped, a few
                times: half as many shfls as registers each (`lane_swaps`)
    shared       through shared memory

Masked slots of the result may hold anything. shfl: PTX ISA 8.3, 9.7.8.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from minitile.layout.register import Coord, Digit, Layout, LayoutError, offsets


@dataclass(frozen=True, slots=True)
class LaneMove:
    """Take register `reg` of the lane `constant ^ (xor of bits[i] over the set bits i of the own lane)`."""

    reg: int
    constant: int
    bits: tuple[int, ...]

    def source(self, lane: int) -> int:
        """The lane to read from."""
        out = self.constant
        for i, contribution in enumerate(self.bits):
            if lane >> i & 1:
                out ^= contribution
        return out

    @property
    def xor(self) -> int | None:
        """The mask m when the source is `lane ^ m` (shfl.bfly; 0: no move at all), else None (shfl.idx)."""
        is_butterfly = all(contribution == 1 << i for i, contribution in enumerate(self.bits))
        return self.constant if is_butterfly else None


@lru_cache(maxsize=4096)
def register_permutation(src: Layout, dst: Layout) -> tuple[int, ...] | None:
    """For each register of `dst` the register of `src` with the same element in the same thread.

    None if some element has to come from another thread. A masked register of `dst` maps to any register.
    Raises LayoutError if the two cover different shapes.
    """
    _same_shape(src, dst)
    if not _threads_agree(src, dst):
        return None
    where = {offset: reg for reg, offset in enumerate(src.register_offsets())}
    out = []
    for reg, offset in enumerate(dst.register_offsets()):
        found = where.get(offset)
        if found is None:
            if _inside(offset, dst.shape):
                return None
            found = min(reg, src.num_regs - 1)
        out.append(found)
    return tuple(out)


@lru_cache(maxsize=4096)
def lane_exchange(src: Layout, dst: Layout) -> tuple[LaneMove, ...] | None:
    """For each register of `dst` where in its own warp to fetch it, or None if that can't be said this way.

    Each move reads the same source register in all lanes, so it is one shuffle. Raises LayoutError if the two
    cover different shapes.
    """
    _same_shape(src, dst)
    if (src.num_lanes, src.num_warps) != (dst.num_lanes, dst.num_warps):
        return None
    warps = zip(offsets(src.warp, src.rank), offsets(dst.warp, dst.rank), strict=True)
    if any(s != d and _inside(d, dst.shape) for s, d in warps):
        return None
    holders: dict[Coord, list[int]] = {}
    for lane, at in enumerate(offsets(src.lane, src.rank)):
        holders.setdefault(at, []).append(lane)
    dst_lanes = offsets(dst.lane, dst.rank)
    src_regs = src.register_offsets()
    known: dict[Coord, LaneMove | None] = {}
    out = []
    for reg, offset in enumerate(dst.register_offsets()):
        if not _inside(offset, dst.shape):
            out.append(LaneMove(min(reg, src.num_regs - 1), 0, _identity_bits(dst.num_lanes)))
            continue
        owner = src.owner(offset)
        if owner.warp:
            return None
        delta = tuple(d - s for d, s in zip(offset, src_regs[owner.reg], strict=True))
        if delta not in known:
            wanted: list[list[int] | None] = []
            for at in dst_lanes:
                coord = tuple(a + b for a, b in zip(at, delta, strict=True))
                element = tuple(a + b for a, b in zip(at, offset, strict=True))
                wanted.append(holders.get(coord, []) if _inside(element, dst.shape) else None)
            known[delta] = _fit(wanted)
        move = known[delta]
        if move is None:
            return None
        out.append(LaneMove(owner.reg, move.constant, move.bits))
    return tuple(out)


class Atom(NamedTuple):
    """A factor of a dimension: `size` steps of `stride`; 2 steps are a bit."""

    dim: int
    stride: int
    size: int


@dataclass(frozen=True, slots=True)
class LaneSwaps:
    """Registers count through `before`, fastest first. Each of `swaps` is a bit of the lane's number, the atom held in
    registers that it shall stand for, and the one that it stood for: that is then the registers' slowest. In the end
    register n of the result is register `order[n]`."""

    before: tuple[Atom, ...]
    swaps: tuple[tuple[int, Atom, Atom], ...]
    order: tuple[int, ...]


@lru_cache(maxsize=4096)
def lane_swaps(src: Layout, dst: Layout) -> LaneSwaps | None:
    """How to get from `src` to `dst` by swaps; None where data leaves the warp or sizes do not allow it."""
    if not stays_in_warps(src, dst):
        return None
    lanes, wanted = _atoms(src.lane), _atoms(dst.lane)
    held, result = _atoms(src.reg), _atoms(dst.reg)
    # A larger factor on one side may be several on the other one.
    if any(atom.size != 2 for atom in lanes + wanted) or sorted(lanes + held) != sorted(wanted + result):
        return None
    before, swaps = tuple(held), []
    while lanes != wanted:
        ready = [n for n, atom in enumerate(wanted) if atom in held]
        wrong = [n for n, atom in enumerate(wanted) if lanes[n] != atom]
        bits = [atom for atom in held if atom.size == 2]
        if not bits:
            return None
        n = ready[0] if ready else wrong[0]
        atom = wanted[n] if ready else bits[-1]
        swaps.append((n, atom, lanes[n]))
        held = [*(h for h in held if h != atom), lanes[n]]
        lanes[n] = atom
    weight, place = 1, {}
    for atom in held:
        place[atom] = weight
        weight *= atom.size
    order = [0]
    for atom in result:
        order = [at + value * place[atom] for value in range(atom.size) for at in order]
    return LaneSwaps(before, tuple(swaps), tuple(order))


def _atoms(digits: Iterable[Digit]) -> list[Atom]:
    """Digits as bits, and what is left of each as one factor."""
    atoms = []
    for digit in digits:
        assert digit.dim is not None
        size, stride = digit.size, digit.stride
        while size % 2 == 0:
            atoms.append(Atom(digit.dim, stride, 2))
            size, stride = size // 2, stride * 2
        if size > 1:
            atoms.append(Atom(digit.dim, stride, size))
    return atoms


@lru_cache(maxsize=4096)
def stays_in_warps(src: Layout, dst: Layout) -> bool:
    """Whether each warp has the same elements in both, and no other warp has them."""
    _same_shape(src, dst)
    exact = all(layout.covers_exactly() and not layout.is_replicated() for layout in (src, dst))
    same = (src.num_lanes, src.num_warps) == (dst.num_lanes, dst.num_warps)
    # Of an exact tiling by sums, one part says what the other is.
    return exact and same and offsets(src.warp, src.rank) == offsets(dst.warp, dst.rank)


def conversion(src: Layout, dst: Layout) -> str:
    """The cheapest way from `src` to `dst`: "identity", "registers", "lanes", "swaps" or "shared"."""
    moves = register_permutation(src, dst)
    if moves is not None:
        return "identity" if moves == tuple(range(src.num_regs)) else "registers"
    if lane_exchange(src, dst) is not None:
        return "lanes"
    return "shared" if lane_swaps(src, dst) is None else "swaps"


def _fit(wanted: list[list[int] | None]) -> LaneMove | None:
    """A xor-linear map that sends each lane to one of the lanes wanted for it (None: any will do)."""
    lanes = len(wanted)
    identity = _identity_bits(lanes)

    def holds(move: LaneMove) -> bool:
        return all(want is None or move.source(lane) in want for lane, want in enumerate(wanted))

    first = wanted[0]
    for mask in range(lanes) if first is None else first:
        butterfly = LaneMove(0, mask, identity)
        if holds(butterfly):
            return butterfly
    pick = [(want or [lane])[0] for lane, want in enumerate(wanted)]
    linear = LaneMove(0, pick[0], tuple(pick[bit] ^ pick[0] for bit in identity))
    return linear if holds(linear) else None


def _identity_bits(lanes: int) -> tuple[int, ...]:
    return tuple(1 << i for i in range(lanes.bit_length() - 1))


def _threads_agree(src: Layout, dst: Layout) -> bool:
    """Has each thread the same base coordinates in both, save threads that hold nothing in `dst`?"""
    if src.threads != dst.threads:
        return False
    if src.thread_digits() == dst.thread_digits():
        return True
    for divisor, _, _, _ in dst.thread_digits() + src.thread_digits():  # a quick no
        at = dst.thread_base(divisor)
        if at != src.thread_base(divisor) and _inside(at, dst.shape):
            return False
    pairs = zip(offsets(src.lane + src.warp, src.rank), offsets(dst.lane + dst.warp, dst.rank), strict=True)
    return all(s == d or not _inside(d, dst.shape) for s, d in pairs)


def _inside(coords: Coord, shape: tuple[int, ...]) -> bool:
    return all(c < size for c, size in zip(coords, shape, strict=True))


def _same_shape(src: Layout, dst: Layout) -> None:
    if src.shape != dst.shape:
        raise LayoutError(f"layouts of different tiles: {src} and {dst}")
