"""Register layouts: which element of a tile sits in which register of which thread.

A layout is an ordered list of *digits* for each of three places: registers, lanes of a warp, warps of the
block. The index within a place is read as a mixed-radix number, fastest digit first; each digit adds `stride
* value` to the coordinate of one dimension, or to none (`dim is None`: the threads that differ only there
hold the same data).

    lane 4:2@1, 8:1@0      lane = a + 4*b with a < 4, b < 8;  column += 2*a, row += b

Rules, checked on construction:
- The digits of one dimension, sorted by stride over all places, are themselves a mixed-radix system: strides
  1, s0, s0*s1, ... Hence every coordinate has exactly one owner (up to replication), and the inverse is
  arithmetic.
- Together they reach at least the tile's size. Slots whose coordinate falls outside the shape are *masked*.
- Registers do not replicate; lanes multiply to 32 (a warp) or 64 (a wavefront).

Normal form, taken on construction, so that equal maps compare and hash equal: digits of size 1 are dropped
and neighbours that count on (same place, same dimension, stride = size * stride of the one before) are
merged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from minitile.layout.lazy import cached_property

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class LayoutError(ValueError):
    """A layout that does not exist or does not fit; the message names the numbers involved."""


@dataclass(frozen=True, slots=True)
class Digit:
    """`size` values, each step adding `stride` to coordinate `dim`; dim None replicates (stride 0)."""

    size: int
    dim: int | None
    stride: int

    def __str__(self) -> str:
        return f"{self.size}:*" if self.dim is None else f"{self.size}:{self.stride}@{self.dim}"


class ThreadDigit(NamedTuple):
    """Adds `((tid // divisor) % size) * stride` to coordinate `dim`, tid the linear thread id."""

    divisor: int
    size: int
    dim: int | None
    stride: int


class OwnerDigit(NamedTuple):
    """Adds `((coord[dim] // stride) % size) * weight` to the index in `place` ("reg", "lane" or "warp")."""

    dim: int
    stride: int
    size: int
    place: str
    weight: int


class Slot(NamedTuple):
    """Where an element lives."""

    reg: int
    lane: int
    warp: int


Coord = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The layout of a tile of `shape` over the threads of a block; see the module's docstring.

    `shape` may be `()`: one value, the same in every thread. Raises LayoutError when the digits break a rule.
    """

    shape: tuple[int, ...]
    reg: tuple[Digit, ...]
    lane: tuple[Digit, ...]
    warp: tuple[Digit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        for place in ("reg", "lane", "warp"):
            object.__setattr__(self, place, _normal(getattr(self, place)))
        self._validate()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.reg, self.lane, self.warp))

    # --- sizes ---

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def num_regs(self) -> int:
        return math.prod(d.size for d in self.reg)

    @cached_property
    def num_lanes(self) -> int:
        return math.prod(d.size for d in self.lane)

    @cached_property
    def num_warps(self) -> int:
        return math.prod(d.size for d in self.warp)

    @cached_property
    def threads(self) -> int:
        return self.num_lanes * self.num_warps

    @cached_property
    def replication(self) -> int:
        """In how many threads each element lives."""
        return math.prod(d.size for d in self.lane + self.warp if d.dim is None)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """How far the digits reach in each dimension: at least `shape`, more where slots are masked."""
        extents = [1] * self.rank
        for digit in self.reg + self.lane + self.warp:
            if digit.dim is not None:
                extents[digit.dim] *= digit.size
        return tuple(extents)

    def is_replicated(self) -> bool:
        """Does any element live in more than one thread?"""
        return self.replication > 1

    def covers_exactly(self) -> bool:
        """Does every register of every thread hold an element of the tile (no masked slots)?"""
        return self.extents == self.shape

    # --- the map and its inverse ---

    def coords(self, reg: int, lane: int, warp: int) -> Coord:
        """Coordinates of the element in that slot; outside `shape` if the slot is masked."""
        out = [0] * self.rank
        for index, digits in ((reg, self.reg), (lane, self.lane), (warp, self.warp)):
            for digit in digits:
                index, value = divmod(index, digit.size)
                if digit.dim is not None:
                    out[digit.dim] += value * digit.stride
        return tuple(out)

    def register_offsets(self) -> tuple[Coord, ...]:
        """Per register, the constant that it adds to the thread's base coordinates."""
        return self._register_offsets

    @cached_property
    def _register_offsets(self) -> tuple[Coord, ...]:
        return offsets(self.reg, self.rank)

    def thread_digits(self) -> tuple[ThreadDigit, ...]:
        """The thread's base coordinate as digits of the linear thread id `lane + num_lanes * warp`.

        Replicated digits are left out; see `replica_digits`. A digit with `divisor * size == threads` needs
        no `%`.
        """
        return self._thread_digits[0]

    def replica_digits(self) -> tuple[ThreadDigit, ...]:
        """The digits of the thread id that replicate; a thread *owns* its elements when all are zero."""
        return self._thread_digits[1]

    @cached_property
    def _thread_digits(self) -> tuple[tuple[ThreadDigit, ...], tuple[ThreadDigit, ...]]:
        return thread_digits_of(self.lane + self.warp)

    def thread_base(self, tid: int) -> Coord:
        """Coordinates of register 0 of linear thread `tid`."""
        out = [0] * self.rank
        for divisor, size, dim, stride in self.thread_digits():
            if dim is not None:
                out[dim] += tid // divisor % size * stride
        return tuple(out)

    def owner(self, coords: Sequence[int]) -> Slot:
        """The slot that owns the element: the inverse of `coords`, replicas at zero."""
        index = {"reg": 0, "lane": 0, "warp": 0}
        for dim, stride, size, place, weight in self.owner_digits():
            index[place] += coords[dim] // stride % size * weight
        return Slot(**index)

    inverse = owner

    def owner_digits(self) -> tuple[OwnerDigit, ...]:
        """The inverse as digits of the coordinates."""
        return self._owner_digits

    @cached_property
    def _owner_digits(self) -> tuple[OwnerDigit, ...]:
        out = []
        for place, digits in (("reg", self.reg), ("lane", self.lane), ("warp", self.warp)):
            weight = 1
            for digit in digits:
                if digit.dim is not None:
                    out.append(OwnerDigit(digit.dim, digit.stride, digit.size, place, weight))
                weight *= digit.size
        return tuple(out)

    def coord_array(self) -> npt.NDArray[np.int64]:
        """All coordinates as [warps, lanes, regs, rank]; for tests and pictures, not for compiling."""
        import numpy as np

        def table(digits: tuple[Digit, ...]) -> npt.NDArray[np.int64]:
            rows = offsets(digits, self.rank)
            return np.array(rows, dtype=np.int64).reshape(len(rows), self.rank)

        warp, lane, reg = table(self.warp), table(self.lane), table(self.reg)
        return warp[:, None, None, :] + lane[None, :, None, :] + reg[None, None, :, :]

    # --- other layouts from this one ---

    def quotient(self, dim: int) -> Layout:
        """The layout of a tile without dimension `dim`, as a reduction along it leaves it.

        Lane and warp digits of `dim` become replication, register digits vanish, later dimensions move down.
        """
        dim = self._dim(dim)

        def drop(digit: Digit) -> Digit:
            if digit.dim is None or digit.dim < dim:
                return digit
            return _replica(digit.size) if digit.dim == dim else Digit(digit.size, digit.dim - 1, digit.stride)

        return Layout(
            self.shape[:dim] + self.shape[dim + 1 :],
            tuple(drop(d) for d in self.reg if d.dim != dim),
            tuple(map(drop, self.lane)),
            tuple(map(drop, self.warp)),
        )

    def broadcast_source(self, dims: Iterable[int]) -> Layout:
        """The layout from which an operand of size 1 along `dims` broadcasts to this one in place."""
        ones = {self._dim(d) for d in dims}

        def drop(digit: Digit) -> Digit:
            return _replica(digit.size) if digit.dim in ones else digit

        return Layout(
            tuple(1 if i in ones else size for i, size in enumerate(self.shape)),
            tuple(d for d in self.reg if d.dim not in ones),
            tuple(map(drop, self.lane)),
            tuple(map(drop, self.warp)),
        )

    def expand(self, dim: int, size: int, vec: int = 1, like: Layout | None = None) -> Layout:
        """The inverse of `quotient(dim)`: a new dimension of `size`, inserted before `dim`.

        `vec` neighbours go to registers, then the replicated lanes and warps are used as far as the size asks
        for, and the rest goes to registers. `expand(d, n).quotient(d)` has the same threads as `self`.
        `like` is the answer if it is one: when its own quotient has these threads.
        """
        if not 0 <= dim <= self.rank:
            raise LayoutError(f"cannot insert dimension {dim} into a tile of rank {self.rank}")
        shape = (*self.shape[:dim], size, *self.shape[dim:])
        if like is not None and like.shape == shape and like.quotient(dim).same_threads(self):
            return like
        stride = min(vec, size)
        reg = [Digit(stride, dim, 1)]

        def place(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
            nonlocal stride
            out = []
            for digit in digits:
                if digit.dim is None:
                    taken = divisor_at_least(digit.size, -(-size // stride))
                    out += [Digit(taken, dim, stride), _replica(digit.size // taken)]
                    stride *= taken
                else:
                    out.append(_shift(digit, dim))
            return tuple(out)

        lane, warp = place(self.lane), place(self.warp)
        reg += [_shift(d, dim) for d in self.reg]
        reg.append(Digit(-(-size // stride), dim, stride))
        return Layout(shape, tuple(reg), lane, warp)

    def permute_dims(self, order: Sequence[int]) -> Layout:
        """The transposed tile's layout: dimension i of the result is dimension `order[i]` of this one."""
        if sorted(order) != list(range(self.rank)):
            raise LayoutError(f"{tuple(order)} is not a permutation of the {self.rank} dimensions")
        return self.renumbered({old: new for new, old in enumerate(order)}, [self.shape[i] for i in order])

    def renumbered(self, to: Mapping[int, int], shape: Sequence[int]) -> Layout:
        """A tile of `shape` that is covered as this one: in its dimension `to[d]` as this one in d."""

        def move(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
            return tuple(d if d.dim is None else Digit(d.size, to[d.dim], d.stride) for d in digits)

        return Layout(tuple(shape), move(self.reg), move(self.lane), move(self.warp))

    def with_shape(self, shape: Sequence[int]) -> Layout:
        """The same digits over another shape of the same rank: more or fewer slots are masked."""
        return Layout(tuple(shape), self.reg, self.lane, self.warp)

    def with_register_order(self, reg: Sequence[Digit]) -> Layout:
        """The same threads, registers numbered by `reg`; LayoutError if that holds other elements."""
        out = Layout(self.shape, tuple(reg), self.lane, self.warp)
        if not self.same_threads(out):
            raise LayoutError(f"registers {_digits_text(out.reg)} are no reordering of {_digits_text(self.reg)}")
        return out

    def sorted_registers(self, dim: int = -1) -> Layout:
        """The same threads, registers ordered: `dim` fastest, then the others from last to first."""
        if not self.rank:
            return self
        return _sorted_registers(self, self._dim(dim))

    def compose(
        self,
        shape: Sequence[int],
        registers: Sequence[tuple[int, int]] = (),
        warps: Sequence[tuple[int | None, int]] = (),
    ) -> Layout:
        """This layout as an atom, repeated: in registers, then over warps, each `(dim, count)` in order.

        Each repeat along a dimension moves by all that the digits before it cover there; a warp repeat along
        None replicates. Each warp thus owns one contiguous sub-tile. `shape` is the whole tile's.
        """
        extents = list(self.extents)

        def repeats(items: Sequence[tuple[int | None, int]]) -> tuple[Digit, ...]:
            out = []
            for dim, count in items:
                if dim is None:
                    out.append(_replica(count))
                else:
                    out.append(Digit(count, dim, extents[dim]))
                    extents[dim] *= count
            return tuple(out)

        reg = self.reg + repeats(registers)
        return Layout(tuple(shape), reg, self.lane, self.warp + repeats(warps))

    # --- questions ---

    def register_run(self, dim: int = -1) -> int:
        """How many consecutive, aligned coordinates along `dim` each thread holds in registers."""
        dim, run = self._dim(dim), 1
        for digit in sorted((d for d in self.reg if d.dim == dim), key=lambda d: d.stride):
            if digit.stride != run:
                break
            run *= digit.size
        return run

    def vector_width(self, dim: int = -1, max_elems: int = 16) -> int:
        """The largest power of two of consecutive, aligned elements along `dim` that a thread holds.

        It holds for the register order of `sorted_registers(dim)`; no vector straddles the tile's edge.
        """
        if not self.rank:
            return 1
        run = math.gcd(self.register_run(dim), self.shape[dim])
        width = run & -run
        while width > max_elems:
            width //= 2
        return width

    def same_threads(self, other: Layout) -> bool:
        """Does every thread hold the same elements in both, perhaps in other registers?"""
        if (self.shape, self.lane, self.warp) != (other.shape, other.lane, other.warp):
            return False
        return self.reg == other.reg or self.sorted_registers().reg == other.sorted_registers().reg

    # --- text ---

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        parts = ["x".join(map(str, self.shape)) or "scalar"]
        for name, digits in (("reg", self.reg), ("lane", self.lane), ("warp", self.warp)):
            if digits:
                parts.append(f"{name} {_digits_text(digits)}")
        return f"layout<{'; '.join(parts)}>"

    @staticmethod
    def parse(text: str) -> Layout:
        """Reads what `str` prints. LayoutError if it can't."""
        return _parse(text)

    # --- inside ---

    def _dim(self, dim: int) -> int:
        if not -self.rank <= dim < self.rank:
            raise LayoutError(f"dimension {dim} of a tile of rank {self.rank}")
        return dim % self.rank

    def _validate(self) -> None:
        if any(size < 1 for size in self.shape):
            raise LayoutError(f"a tile's sizes are at least 1: {self.shape}")
        if any(d.dim is None for d in self.reg):
            raise LayoutError(f"registers do not replicate: {_digits_text(self.reg)}")
        if self.num_lanes not in (32, 64):
            raise LayoutError(f"lanes {_digits_text(self.lane)} multiply to {self.num_lanes}, not to 32 or 64")
        for what, digits in (("registers", self.reg), ("warps", self.warp)):
            if math.prod(d.size for d in digits) > MAX_SIZE:
                raise LayoutError(f"more than {MAX_SIZE} {what}: {_digits_text(digits)}")
        reach = [1] * self.rank
        for digit in sorted(self.reg + self.lane + self.warp, key=lambda d: d.stride):
            dim = digit.dim
            if dim is None:
                if digit.stride:
                    raise LayoutError(f"a replicated digit has stride 0, not {digit.stride}")
                continue
            if not 0 <= dim < self.rank:
                raise LayoutError(f"digit {digit} names dimension {dim} of a tile of rank {self.rank}")
            if digit.stride != reach[dim]:
                what = "leaves a gap after" if digit.stride > reach[dim] else "overlaps"
                raise LayoutError(f"digit {digit} {what} the digits below it, which cover 0..{reach[dim] - 1}")
            reach[dim] *= digit.size
        for i, (size, covered) in enumerate(zip(self.shape, reach, strict=True)):
            if covered < size:
                raise LayoutError(f"the digits of dimension {i} cover {covered} of its {size} coordinates")


def offsets(digits: Sequence[Digit], rank: int) -> tuple[Coord, ...]:
    """What each value of the number made of `digits` adds to the coordinates, in order."""
    out: list[Coord] = [(0,) * rank]
    for digit in digits:
        if digit.dim is None:
            out *= digit.size
            continue
        dim = digit.dim
        steps = [value * digit.stride for value in range(digit.size)]
        out = [(*c[:dim], c[dim] + step, *c[dim + 1 :]) for step in steps for c in out]
    return tuple(out)


def thread_digits_of(digits: Iterable[Digit]) -> tuple[tuple[ThreadDigit, ...], tuple[ThreadDigit, ...]]:
    """Digits of lane and warp, in order, as digits of the thread id: those that move, those that replicate."""
    moving: list[ThreadDigit] = []
    replicas: list[ThreadDigit] = []
    divisor = 1
    for digit in _normal(digits):
        piece = ThreadDigit(divisor, digit.size, digit.dim, digit.stride)
        (replicas if digit.dim is None else moving).append(piece)
        divisor *= digit.size
    return tuple(moving), tuple(replicas)


def divisor_at_least(size: int, want: int) -> int:
    """The smallest divisor of `size` that is at least `want`; `size` itself if none is."""
    return next((d for d in range(max(want, 1), size) if size % d == 0), size)


def _replica(size: int) -> Digit:
    return Digit(size, None, 0)


def _shift(digit: Digit, inserted: int) -> Digit:
    if digit.dim is None or digit.dim < inserted:
        return digit
    return Digit(digit.size, digit.dim + 1, digit.stride)


def _normal(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    out: list[Digit] = []
    for digit in digits:
        if digit.size < 1:
            raise LayoutError(f"a digit's size is at least 1: {digit}")
        if digit.size == 1:
            continue
        last = out[-1] if out else None
        if last is not None and last.dim == digit.dim and digit.stride == last.stride * last.size:
            out[-1] = Digit(last.size * digit.size, last.dim, last.stride)
        else:
            out.append(digit)
    return tuple(out)


@lru_cache(maxsize=4096)
def _sorted_registers(layout: Layout, dim: int) -> Layout:
    def key(digit: Digit) -> tuple[bool, int, int]:
        assert digit.dim is not None  # registers do not replicate
        return (digit.dim != dim, -digit.dim, digit.stride)

    reg = tuple(sorted(layout.reg, key=key))
    return layout if reg == layout.reg else Layout(layout.shape, reg, layout.lane, layout.warp)


def _digits_text(digits: Sequence[Digit]) -> str:
    return ", ".join(map(str, digits))


MAX_SIZE = 1 << 20  # registers of a thread, warps, coordinates of a dimension


def size_of(text: str) -> int:
    """A size or stride as text has it; digits beyond those of MAX_SIZE are no layout's."""
    if len(text) > 18:
        raise LayoutError(f"a number of {len(text)} digits")
    return int(text)


_TEXT = re.compile(
    r"layout<\s*(?P<shape>scalar|\d+(?:x\d+)*)\s*"
    r"(?:;\s*reg (?P<reg>[^;>]*))?(?:;\s*lane (?P<lane>[^;>]*))?(?:;\s*warp (?P<warp>[^;>]*))?>"
)
_DIGIT = re.compile(r"\s*(\d+):(?:\*|(\d+)@(\d+))\s*")


@lru_cache(maxsize=1024)
def _parse(text: str) -> Layout:
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise LayoutError(f"not a layout: {text!r}")

    def digits(part: str | None) -> tuple[Digit, ...]:
        out = []
        for item in (part or "").split(",") if part else ():
            found = _DIGIT.fullmatch(item)
            if found is None:
                raise LayoutError(f"not a digit: {item.strip()!r} in {text!r}")
            size, stride, dim = found.groups()
            out.append(_replica(size_of(size)) if dim is None else Digit(*map(size_of, (size, dim, stride))))
        return tuple(out)

    shape = match["shape"]
    sizes = () if shape == "scalar" else tuple(map(size_of, shape.split("x")))
    return Layout(sizes, digits(match["reg"]), digits(match["lane"]), digits(match["warp"]))
