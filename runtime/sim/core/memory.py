"""The memories of a launch: global, shared, local and parameter space (PTX ISA 8.0, 5.1).

Each space is one flat byte arena for all threads of a batch; `locate` turns addresses of a space into arena offsets
and raises `Fault` for what lies outside or is misaligned. Global memory holds the module's variables first, then each
array argument as an allocation of its own with guard space between, so that one byte too far is noticed. Generic
addresses are split by windows. Every access is told to the race model, if there is one.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.program import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_BASE,
    SHARED_WINDOW,
    WINDOW_SIZE,
    Program,
    SharedName,
)
from .arguments import allocations_of, skew_of
from .scalars import UNSIGNED, Array, Sel, some
from .sparse import copy_in, zeros

if TYPE_CHECKING:
    from ..ptx.machine import Machine

GUARD = 4096
POISON = 0xFF  # NaN as a float, -1 as an index


class Fault(Exception):
    """A finding after which the run cannot go on."""


class Arena:
    """Bytes with views by element size."""

    def __init__(self, size: int, fill: int | None = None) -> None:
        padded = -(-max(size, 16) // 256) * 256
        self.data = zeros(padded, np.uint8) if fill is None else np.full(padded, fill, np.uint8)
        self.views: dict[tuple[int, int], Array] = {}

    def view(self, elem: int, lanes: int) -> Array:
        """The arena as rows of `lanes` unsigned elements of `elem` bytes."""
        key = (elem, lanes)
        if key not in self.views:
            self.views[key] = self.data.view(UNSIGNED[elem]).reshape(-1, lanes)
        return self.views[key]


@dataclass(slots=True)
class Allocation:
    """One buffer in global memory: arena offsets [start, end) and a name for messages."""

    start: int
    end: int
    name: str


class Space:
    """A state space. Subclasses say where an address lies (`locate`)."""

    name = ""
    arena: Arena
    size = 0  # bytes of one CTA's, thread's or launch's part

    def locate(self, m: Machine, sel: Sel, addr: Array, size: int, site: int, what: str, align: int = 0) -> Array:
        """Arena offsets of these addresses, each the start of `size` bytes and a multiple of `align` (or of `size`)."""
        raise NotImplementedError

    def load(self, m: Machine, sel: Sel, addr: Array, elem: int, lanes: int, site: int, strong: bool) -> Array:
        """Read `lanes` elements of `elem` bytes per thread: an array [threads, lanes]."""
        size = elem * lanes
        where = self.locate(m, sel, addr, size, site, "read")
        if m.race is not None:
            m.race.read(self.name, m.thread[sel], where, size, site, strong)
        value: Array = self.arena.view(elem, lanes)[where // size]
        return value

    def store(self, m: Machine, sel: Sel, addr: Array, value: Array, site: int, strong: bool) -> None:
        """Write the array [threads, lanes] of unsigned elements."""
        elem, lanes = value.dtype.itemsize, value.shape[1]
        size = elem * lanes
        where = self.locate(m, sel, addr, size, site, "write")
        if m.race is not None:
            m.race.write(self.name, m.thread[sel], where, size, site, strong)
        self.arena.view(elem, lanes)[where // size] = value

    def check_alignment(self, m: Machine, sel: Sel, addr: Array, size: int, site: int, what: str) -> None:
        """Raise `Fault` unless every address is a multiple of the access size (PTX ISA 8.0, 6.4.1.1)."""
        wrong = addr & (size - 1)
        if some(wrong):
            worst = int(np.flatnonzero(wrong)[0])
            at = int(addr[worst])
            m.fault(
                "misaligned",
                f"{what} of {size} bytes at {self.name} address {at:#x}, which is not a multiple of {size}",
                site,
                what,
                int(m.thread[sel][worst]),
                self.name,
                self.describe(m, at),
            )

    def describe(self, m: Machine, addr: int) -> tuple[str | None, int]:
        """The buffer nearest to an address of this space, and the byte offset in it."""
        return None, addr


@dataclass
class GlobalSpace(Space):
    """Global and constant memory; addresses are generic addresses."""

    arena: Arena
    allocations: list[Allocation] = field(default_factory=list)
    name: str = "global"

    def __post_init__(self) -> None:
        self.allocations.sort(key=lambda each: each.start)
        self.starts = np.array([each.start for each in self.allocations], np.int64)
        self.ends = np.array([each.end for each in self.allocations], np.int64)
        self.start_list = self.starts.tolist()

    def locate(self, m: Machine, sel: Sel, addr: Array, size: int, site: int, what: str, align: int = 0) -> Array:
        where = addr - GLOBAL_BASE
        if not len(where):
            return where
        low, high = int(where.min()), int(where.max())
        first = bisect.bisect_right(self.start_list, low) - 1
        if first < 0 or high + size > self.ends[first]:
            owner = np.searchsorted(self.starts, where, "right") - 1
            bad = (owner < 0) | (where + size > self.ends[np.maximum(owner, 0)])
            if not len(self.starts) or bad.any():
                self.out_of_bounds(m, sel, addr, int(np.flatnonzero(bad)[0]), size, site, what)
        self.check_alignment(m, sel, addr, align or size, site, what)
        return where

    def out_of_bounds(self, m: Machine, sel: Sel, addr: Array, worst: int, size: int, site: int, what: str) -> None:
        at = int(addr[worst])
        name, offset = self.describe(m, at)
        near = "no buffer is near" if name is None else f"nearest is {name}, at byte {offset} of {self.length(name)}"
        message = f"{what} of {size} bytes at global address {at:#x} outside every buffer; {near}"
        m.fault("out_of_bounds", message, site, what, int(m.thread[sel][worst]), "global", (name, offset), size)

    def length(self, name: str) -> int:
        return next(each.end - each.start for each in self.allocations if each.name == name)

    def describe(self, m: Machine, addr: int) -> tuple[str | None, int]:
        return self.owner(addr - GLOBAL_BASE)

    def owner(self, where: int) -> tuple[str | None, int]:
        """The allocation nearest to an arena offset and the offset in it."""
        if not self.allocations:
            return None, where
        distance = [max(each.start - where, where - each.end + 1, 0) for each in self.allocations]
        best = self.allocations[distance.index(min(distance))]
        return (None, where) if min(distance) > 1 << 30 else (best.name, where - best.start)


class SharedSpace(Space):
    """Shared memory: one window of `size` bytes per CTA of the batch, each `stride` bytes after the other."""

    name = "shared"

    def __init__(self, size: int, ctas: int, names: list[SharedName]) -> None:
        self.size = size
        self.stride = -(-max(size, 16) // 16) * 16
        self.arena = Arena(self.stride * ctas, POISON)
        self.names = names

    def locate(self, m: Machine, sel: Sel, addr: Array, size: int, site: int, what: str, align: int = 0) -> Array:
        cta = m.cta[sel]
        if m.launch.cluster_size > 1:
            cta, addr = self.in_cluster(m, cta, addr)
        inside = addr - SHARED_BASE
        if len(inside) and int(inside.view(np.uint64).max()) + size > self.size:  # what is in front wraps
            bad = (inside < 0) | (inside + size > self.size)
            worst = int(np.flatnonzero(bad)[0])
            at = int(addr[worst])
            end = SHARED_BASE + self.size
            message = (
                f"{what} of {size} bytes at shared address {at:#x}; this CTA has {self.size} bytes of shared memory, "
                f"at {SHARED_BASE:#x} to {end:#x}"
            )
            who = int(m.thread[sel][worst])
            m.fault("out_of_bounds", message, site, what, who, "shared", self.describe(m, at), size)
        self.check_alignment(m, sel, addr, align or size, site, what)
        return inside + cta * self.stride

    def in_cluster(self, m: Machine, cta: Array, addr: Array) -> tuple[Array, Array]:
        """The CTAs that addresses of shared::cluster name (see cluster.py), and the addresses there; an address whose
        rank is not in the cluster stays as it is, outside of any CTA."""
        rank, group = addr >> RANK_SHIFT, m.launch.cluster_size
        there = (rank >= 0) & (rank < group)
        inside = np.where(there, addr & (1 << RANK_SHIFT) - 1, addr)
        return cta // group * group + np.where(there, rank, 0), inside

    def describe(self, m: Machine, addr: int) -> tuple[str | None, int]:
        """What lies there: the parts of an array that comments name (several, where they share bytes), or the array."""
        found = [each for each in self.names if each[0] <= addr < each[1]]
        if not found:
            return None, addr - SHARED_BASE
        parts = [each for each in found if each[1] < 1 << 31] or found
        names = []
        for start, end, name, versions in parts:
            version, inside = divmod(addr - start, (end - start) // versions)
            names.append((f"{name}[{version}]" if versions > 1 else name, inside))
        return " or ".join(name for name, _ in names), names[0][1]


class LocalSpace(Space):
    """Local memory (and the parameters of calls): one frame per thread."""

    name = "local"

    def __init__(self, size: int, threads: int) -> None:
        self.size = -(-max(size, 16) // 16) * 16
        self.arena = Arena(self.size * threads, POISON)

    def locate(self, m: Machine, sel: Sel, addr: Array, size: int, site: int, what: str, align: int = 0) -> Array:
        bad = (addr < 0) | (addr + size > self.size)
        if bad.any():
            worst = int(np.flatnonzero(bad)[0])
            message = f"{what} of {size} bytes at local address {int(addr[worst]):#x} outside the frame"
            m.fault("out_of_bounds", message, site, what, int(m.thread[sel][worst]), "local", (None, 0), size)
        self.check_alignment(m, sel, addr, align or size, site, what)
        return addr + m.thread[sel] * self.size


class ParamSpace(Space):
    """The kernel's parameters, the same bytes for every thread."""

    name = "param"

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.arena = Arena(self.size)
        self.arena.data[: self.size] = np.frombuffer(data, np.uint8)

    def locate(self, m: Machine, sel: Sel, addr: Array, size: int, site: int, what: str, align: int = 0) -> Array:
        if len(addr) and (int(addr.min()) < 0 or int(addr.max()) + size > self.size):
            message = f"{what} of {size} bytes outside the {self.size} bytes of parameters"
            m.fault("out_of_bounds", message, site, what, int(m.thread[sel][0]), "param", (None, 0), size)
        self.check_alignment(m, sel, addr, align or size, site, what)
        return addr


def split_generic(m: Machine, sel: Sel, addr: Array) -> list[tuple[Space, Sel, Array, Array | None]]:
    """Sort generic addresses into spaces: (space, threads, addresses in that space, positions or None for all)."""
    if not len(addr) or int(addr.min()) >= GLOBAL_BASE:
        return [(m.spaces["global"], sel, addr, None)]
    parts: list[tuple[Space, Sel, Array, Array | None]] = []
    threads = m.thread[sel]
    left = np.ones(len(addr), bool)
    for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW)):
        inside = (addr >= window) & (addr < window + WINDOW_SIZE)
        if inside.all():
            return [(m.spaces[name], sel, addr - window, None)]
        if inside.any():
            where = np.flatnonzero(inside)
            parts.append((m.spaces[name], threads[where], addr[where] - window, where))
            left &= ~inside
    if left.any():
        where = np.flatnonzero(left)
        parts.append((m.spaces["global"], threads[where], addr[where], where))
    return parts


def build_global(program: Program, arrays: list[tuple[str, Array]]) -> tuple[GlobalSpace, list[int]]:
    """Lay out module variables and array arguments; returns the space and each array's address."""
    at = program.global_size + GUARD
    allocations: list[Allocation] = []
    needed, lying = allocations_of([array for _, array in arrays])
    for first, size in needed:
        begin = -(-at // 256) * 256 + skew_of(arrays[first][1])
        allocations.append(Allocation(begin, begin + size, arrays[first][0]))
        at = -(-(begin + size + GUARD) // 256) * 256
    places = [allocations[number].start + offset for number, offset in lying]
    arena = Arena(at)
    for offset, variable in program.globals:
        allocations.append(Allocation(offset, offset + variable.size, variable.name))
        arena.data[offset : offset + len(variable.init)] = np.frombuffer(variable.init, np.uint8)
        for where, symbol in variable.pointers:
            target = next(each for _, each in program.globals if each.name == symbol.name)
            address = program.addresses[id(target)] + symbol.offset
            arena.data[offset + where : offset + where + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
    for place, (_, array) in zip(places, arrays, strict=True):
        copy_in(arena.data[place : place + array.nbytes], array.reshape(-1).view(np.uint8))
    return GlobalSpace(arena, allocations), [GLOBAL_BASE + place for place in places]
