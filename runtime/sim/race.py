"""The race model: finds conflicting accesses that nothing orders (PTX ISA 8.0, chapter 8).

The machine reports every access and every synchronisation; this module keeps the clocks (`clocks.py`) and the shadow
memory (`shadow.py`) and adds findings. Two accesses to the same bytes conflict if one writes; they race unless one
happens before the other, or both are strong (atomic, volatile, relaxed, ...). What orders accesses:

    program order               within a thread
    bar.sync, barrier, bar.red  among the threads that arrive
    bar.warp.sync               among the named lanes (shfl, vote and mma order no memory)
    release/acquire, fences     through a strong access to the same place
    cp.async                    its write happens when the issuing thread has waited for its group, not before

Threads are slots of the current batch; in global memory they are numbered through the whole grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .clocks import Clocks, Row
from .memory import SharedSpace
from .program import SHARED_BASE, Program
from .report import Finding
from .scalars import SIZES, Array
from .shadow import MANY, PENDING, SEVERAL, GlobalShadow, SharedShadow
from .syntax import Instruction, Integer

if TYPE_CHECKING:
    from .machine import Machine


def _access_size(ins: Instruction) -> tuple[str | None, int] | None:
    """(space or None for any, bytes) of the smallest piece of memory that an instruction may touch."""
    name = ins.name
    if name in ("ldmatrix", "stmatrix"):
        return "shared", 2 if "trans" in ins.mods else 4
    if name == "cp" and ins.mods[:1] == ("async",):
        size = ins.operands[2] if len(ins.operands) > 2 else None
        return None, size.value if isinstance(size, Integer) else 16
    if name not in ("ld", "st", "ldu", "atom", "red"):
        return None
    lanes = next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1)
    space = next(
        (mod for mod in ins.mods if mod in ("global", "const", "shared", "shared::cta", "local", "param")), None
    )
    space = {"shared::cta": "shared", "const": "global"}.get(space or "", space)
    return space, min(16, SIZES.get(ins.mods[-1], 1) * lanes)


def granules(program: Program) -> dict[str, int]:
    """The granule of shared and of global memory: the smallest access of the program."""
    smallest = {"shared": 16, "global": 16}
    for step in program.code:
        found = _access_size(step.ins)
        if found is not None:
            for space in smallest:
                if found[0] in (None, space):
                    smallest[space] = min(smallest[space], found[1])
    return smallest


class RaceModel:
    """One launch's race detection."""

    def __init__(self, program: Program, global_size: int) -> None:
        self.sizes = granules(program)
        self.strong = np.array([step.ins.is_strong for step in program.code], bool)
        self.globals = GlobalShadow(global_size, self.sizes["global"])
        self.now = 1
        self.machine: Machine
        self.clocks: Clocks
        self.shared: SharedShadow
        self.stride = 1

    def start_batch(self, machine: Machine, shared: SharedSpace) -> None:
        """New CTAs: fresh shared memory, fresh knowledge; global memory remembers."""
        previous: Clocks | None = getattr(self, "clocks", None)
        now = previous.tick() if previous is not None else 1
        self.machine = machine
        self.clocks = Clocks(machine.first, machine.ctas, machine.padded, now)
        self.shared = SharedShadow(len(shared.arena.data), self.sizes["shared"], machine.padded // 32)
        self.stride = shared.stride
        self.rows: dict[object, Row] = {}
        self.flags: dict[tuple[str, int], Row] = {}
        self.fenced: dict[int, Row] = {}
        self.heard: dict[int, list[Row]] = {}

    # -- synchronisation -----------------------------------------------------------------------------------------------

    def barrier_all(self, ctas: Array) -> None:
        """All threads of these CTAs passed a barrier. What one of them has heard, a fence of any may now take up."""
        self.clocks.all_of(ctas)
        if self.heard:
            padded = self.clocks.padded
            for cta in ctas.tolist():
                threads = range(cta * padded, (cta + 1) * padded)
                rows = [row for thread in threads for row in self.heard.get(thread, ())]
                if rows:
                    self.heard.update({thread: list(rows) for thread in threads})

    def warp_barrier(self, threads: Array, masks: Array) -> None:
        """bar.warp.sync."""
        self.clocks.warp(threads, masks)

    def arrive(self, key: object, threads: Array) -> None:
        """Threads of one CTA arrive at a synchronisation object (release)."""
        row = self.clocks.release(threads)
        if key in self.rows:
            self.rows[key].merge(row)
        else:
            self.rows[key] = row

    def join(self, key: object, threads: Array) -> None:
        """Threads of one CTA leave a completed synchronisation object (acquire), which starts afresh."""
        row = self.rows.pop(key, None)
        if row is not None and len(threads):
            self.clocks.acquire(threads, row)

    def fence(self, threads: Array) -> None:
        """fence or membar: orders what was before it with strong accesses after it, and the reverse."""
        for thread in threads:
            one = np.array([thread])
            self.acquire(one)
            self.fenced[int(thread)] = self.clocks.release(one)

    def acquire(self, threads: Array) -> None:
        """What these threads heard through strong reads becomes knowledge."""
        if not self.heard:
            return
        for thread in threads:
            for row in self.heard.pop(int(thread), ()):
                self.clocks.acquire(np.array([thread]), row)

    def release(self, threads: Array) -> None:
        """A releasing access begins: what these threads know goes with their next strong write."""
        for thread in threads:
            self.fenced[int(thread)] = self.clocks.release(np.array([thread]))

    def _strong_write(self, space: str, threads: Array, where: Array) -> None:
        if not self.fenced:
            return
        for thread, place in zip(threads.tolist(), where.tolist(), strict=True):
            row = self.fenced.get(thread)
            if row is None:
                continue
            known = self.flags.get((space, place))
            if known is None:
                self.flags[space, place] = Row(row.cta, row.near.copy(), dict(row.far))
            else:
                known.merge(row)

    def _strong_read(self, space: str, threads: Array, where: Array) -> None:
        if not self.flags:
            return
        for thread, place in zip(threads.tolist(), where.tolist(), strict=True):
            row = self.flags.get((space, place))
            if row is not None:
                self.heard.setdefault(thread, []).append(Row(row.cta, row.near.copy(), dict(row.far)))

    # -- accesses ------------------------------------------------------------------------------------------------------

    def _spread(self, threads: Array, where: Array, size: int, granule: int) -> tuple[Array, Array]:
        """Accesses of `size` bytes as accesses of single granules."""
        pieces = size // granule
        first = where // granule
        if pieces <= 1:
            return threads, first
        return np.repeat(threads, pieces), (first[:, None] + np.arange(pieces)).ravel()

    def read(self, space: str, threads: Array, where: Array, size: int, site: int, strong: bool) -> None:
        """Threads read `size` bytes at arena offsets `where`."""
        if space == "shared":
            self._read_shared(*self._spread(threads, where, size, self.shared.granule), site)
        elif space == "global":
            self._read_global(*self._spread(threads, where, size, self.globals.granule), site)
        if strong:
            self._strong_read(space, threads, where)

    def write(
        self, space: str, threads: Array, where: Array, size: int, site: int, strong: bool, pending: bool = False
    ) -> None:
        """Threads write; a pending write is made by an asynchronous agent and ends with `async_done`."""
        if space == "shared":
            self._write_shared(*self._spread(threads, where, size, self.shared.granule), site, pending)
        elif space == "global":
            self._write_global(*self._spread(threads, where, size, self.globals.granule), site)
        if strong:
            self._strong_write(space, threads, where)

    def atomic(
        self, space: str, threads: Array, where: Array, size: int, site: int, release: bool, acquire: bool
    ) -> None:
        """Threads read and write in one step."""
        if release or acquire or self.fenced or self.flags:
            for index in range(len(threads)):  # one after the other: each may hear those before it
                one, place = threads[index : index + 1], where[index : index + 1]
                if release:
                    self.release(one)
                self._strong_read(space, one, place)
                if acquire:
                    self.acquire(one)
                self._strong_write(space, one, place)
        self.write(space, threads, where, size, site, False)

    def async_done(self, space: str, threads: Array, where: Array, size: int) -> None:
        """The issuing threads have waited: their pending writes count as made by them now."""
        threads, where = self._spread(threads, where, size, self.shared.granule)
        shadow = self.shared
        mine = (shadow.stamp[where] == PENDING) & (shadow.thread[where] == threads + 1)
        shadow.stamp[where[mine]] = self.clocks.now

    # -- shared memory -------------------------------------------------------------------------------------------------

    def _read_shared(self, threads: Array, where: Array, site: int) -> None:
        shadow, clocks = self.shared, self.clocks
        writer = shadow.thread[where]
        stamp = shadow.stamp[where]
        cta = threads // clocks.padded
        floor = clocks.floor[cta]
        doubtful = stamp >= floor
        if not writer.all():
            self._unwritten(threads, where, writer, site)
            doubtful &= writer > 0
        if doubtful.any():
            self._check_writer("RAW", threads[doubtful], where[doubtful], site)
        warp = threads % clocks.padded // 32
        shadow.record_read(where, threads % 32, warp, clocks.now, floor, site)

    def _write_shared(self, threads: Array, where: Array, site: int, pending: bool) -> None:
        shadow, clocks = self.shared, self.clocks
        floor = clocks.floor[threads // clocks.padded]
        doubtful = (shadow.stamp[where] >= floor) & (shadow.thread[where] > 0)
        if doubtful.any():
            self._check_writer("WAW", threads[doubtful], where[doubtful], site)
        stamp, lane, sites = shadow.readers(where)
        suspects = (stamp >= floor[:, None]) & (stamp > 0)
        if suspects.any():
            self._check_readers(threads, where, site, suspects, stamp, lane, sites)
        shadow.forget_reads(where)
        shadow.thread[where] = threads + 1
        shadow.stamp[where] = PENDING if pending else clocks.now
        shadow.site[where] = site
        clash = shadow.thread[where] != threads + 1
        if clash.any() and not self.strong[site]:
            self._same_instruction("shared", threads[clash], where[clash], site)

    def _check_writer(self, hazard: str, threads: Array, where: Array, site: int) -> None:
        """Report the first of these accesses that is not ordered after the granule's last write."""
        shadow = self.shared
        writer, stamp = shadow.thread[where].astype(np.int64) - 1, shadow.stamp[where]
        ok = self.clocks.knows(threads, writer, stamp) & (stamp != PENDING)
        if self.strong[site]:
            ok |= self.strong[shadow.site[where]]
        if ok.all():
            return
        bad = int(np.flatnonzero(~ok)[0])
        waits = bool(stamp[bad] == PENDING)
        self._race_shared(hazard, threads[bad], where[bad], site, writer[bad], shadow.site[where[bad]], waits)

    def _check_readers(
        self, threads: Array, where: Array, site: int, suspects: Array, stamp: Array, lane: Array, sites: Array
    ) -> None:
        """Report the first write that is not ordered after an earlier read."""
        clocks = self.clocks
        row, warp = np.nonzero(suspects)
        me = threads[row]
        first = me // clocks.padded * clocks.padded + warp * 32
        lanes, stamps = lane[row, warp], stamp[row, warp]
        many = lanes == MANY
        ok = clocks.knows(me, first + np.where(many, 0, lanes), stamps)
        if many.any():
            ok[many] = self._knows_warp(me[many], first[many], stamps[many])
        if self.strong[site]:
            ok |= self.strong[sites[row, warp]]
        if ok.all():
            return
        bad = int(np.flatnonzero(~ok)[0])
        reader = int(first[bad]) + (0 if many[bad] else int(lanes[bad]))
        at = row[bad]
        self._race_shared("WAR", threads[at], where[at], site, reader, sites[at, warp[bad]], False)

    def _knows_warp(self, me: Array, first: Array, stamp: Array) -> Array:
        """Whether threads know all live lanes of a warp up to a stamp."""
        ok = np.ones(len(me), bool)
        for lane in range(32):
            other = first + lane
            ok &= self.clocks.knows(me, other, stamp) | ~self.machine.live[other]
        return ok

    def _race_shared(
        self, hazard: str, me: int, where: int, site: int, other: int, other_site: int, waits: bool
    ) -> None:
        granule = self.shared.granule
        at = int(where) * granule
        me, other = int(me), int(other)
        if waits:
            kind, cure = "missing_wait", "wait for the copy (cp.async.wait_group) before, then bar.sync for the others"
        elif me // 32 == other // 32:
            kind, cure = "missing_barrier", "put bar.warp.sync (or bar.sync) between them"
        else:
            kind, cure = "missing_barrier", "put bar.sync between them"
        name, offset = self._shared_name(at)
        words = {"RAW": ("reads", "written"), "WAW": ("overwrites", "written"), "WAR": ("overwrites", "read")}[hazard]
        message = (
            f"thread {me % self.clocks.padded} {words[0]} what thread {other % self.clocks.padded} has {words[1]}; "
        )
        later, earlier = {"RAW": ("read", "write"), "WAW": ("write", "write"), "WAR": ("write", "read")}[hazard]
        machine = self.machine
        first = machine.access(later, site, me)
        second = machine.access(f"async {earlier}" if waits else earlier, int(other_site), other)
        span = (offset, offset + granule)
        machine.find(Finding(kind, message + cure, first, second, hazard, "shared", name, span))

    def _shared_name(self, at: int) -> tuple[str | None, int]:
        space = self.machine.spaces["shared"]
        return space.describe(self.machine, at % self.stride + SHARED_BASE)

    def _unwritten(self, threads: Array, where: Array, writer: Array, site: int) -> None:
        bad = int(np.flatnonzero(writer == 0)[0])
        name, offset = self._shared_name(int(where[bad]) * self.shared.granule)
        message = "shared memory is read that no thread of this CTA has written"
        access = self.machine.access("read", site, int(threads[bad]))
        span = (offset, offset + self.shared.granule)
        self.machine.find(Finding("uninitialised", message, access, space="shared", buffer=name, bytes=span))

    def _same_instruction(self, space: str, threads: Array, where: Array, site: int) -> None:
        """Several threads wrote one place with one instruction."""
        shadow = self.shared if space == "shared" else self.globals
        at = int(where[0]) * shadow.granule
        base = 0 if space == "shared" else self.machine.first * self.clocks.padded
        winner = int(shadow.thread[where[0]]) - 1 - base
        name, offset = self._shared_name(at) if space == "shared" else self.machine.launch.globals.owner(at)
        message = "two threads write the same bytes with one instruction; let one of them write"
        first = self.machine.access("write", site, int(threads[0]) - base)
        second = self.machine.access("write", site, winner)
        span = (offset, offset + shadow.granule)
        self.machine.find(Finding("missing_barrier", message, first, second, "WAW", space, name, span))

    # -- global memory -------------------------------------------------------------------------------------------------

    def _ordered_global(self, threads: Array, other: Array, stamp: Array) -> Array:
        """Whether batch threads know accesses of grid threads."""
        clocks = self.clocks
        base = clocks.first * clocks.padded
        local = other - base
        near = (local // clocks.padded == threads // clocks.padded) & (local >= 0)
        ok = np.zeros(len(threads), bool)
        if near.any():
            ok[near] = clocks.knows(threads[near], local[near], stamp[near])
        if clocks.far and not ok.all():
            for index in np.flatnonzero(~ok & ~near):
                cta, thread = divmod(int(other[index]), clocks.padded)
                ok[index] = clocks.knows_far(int(threads[index]), cta, thread, int(stamp[index]))
        return ok

    def _read_global(self, threads: Array, where: Array, site: int) -> None:
        shadow, clocks = self.globals, self.clocks
        self._check_global("RAW", threads, where, site, shadow.thread[where], shadow.stamp[where], shadow.site[where])
        base = clocks.first * clocks.padded
        me = (threads + base + 1).astype(np.int32)
        previous, stamp, many = shadow.read_thread[where], shadow.read_stamp[where], shadow.read_cta[where]
        mine = (self.first_cta() + threads // clocks.padded + 1).astype(np.int32)
        warps = np.uint32(1) << (threads % clocks.padded // 32).astype(np.uint32)
        fresh = (previous == 0) | ((previous == me) & (many == 0))
        if not fresh.all():
            before = stamp < clocks.floor[threads // clocks.padded]
            same_cta = (previous - 1) // clocks.padded + 1 == mine
            fresh |= before & same_cta & (many != SEVERAL)
            joined = np.where(same_cta & ((many == 0) | (many == mine)), mine, np.int32(SEVERAL))
            shadow.read_cta[where] = np.where(fresh, 0, joined)
            old_warp = ((previous - 1) % clocks.padded // 32).astype(np.uint32)
            gathered = shadow.read_warps[where] | warps | (np.uint32(1) << old_warp)
            shadow.read_warps[where] = np.where(fresh, warps, gathered)
        else:
            shadow.read_cta[where] = 0
            shadow.read_warps[where] = warps
        shadow.read_thread[where] = me
        shadow.read_stamp[where] = clocks.now
        shadow.read_site[where] = site
        clash = shadow.read_thread[where] != me
        if clash.any():
            self._several_readers(where[clash], mine[clash], warps[clash])

    def _several_readers(self, where: Array, mine: Array, warps: Array) -> None:
        """Several threads read one granule with one instruction."""
        shadow = self.globals
        winner = (shadow.read_thread[where] - 1) // self.clocks.padded + 1
        shared = np.where((winner == mine) & (shadow.read_cta[where] != SEVERAL), mine, SEVERAL)
        order = np.argsort(shared == SEVERAL, kind="stable")  # where both occur, SEVERAL must win
        shadow.read_cta[where[order]] = shared[order]
        np.bitwise_or.at(shadow.read_warps, where, warps)

    def first_cta(self) -> int:
        """The grid number of the batch's first CTA."""
        return self.clocks.first

    def _write_global(self, threads: Array, where: Array, site: int) -> None:
        shadow, clocks = self.globals, self.clocks
        self._check_global("WAW", threads, where, site, shadow.thread[where], shadow.stamp[where], shadow.site[where])
        readers = shadow.read_thread[where]
        if readers.any():
            single = shadow.read_cta[where] == 0
            stamps, sites = shadow.read_stamp[where], shadow.read_site[where]
            self._check_global("WAR", threads, where, site, np.where(single, readers, 0), stamps, sites)
            if not single.all():
                self._check_crowd(threads[~single], where[~single], site)
            shadow.read_thread[where] = 0
            shadow.read_cta[where] = 0
        me = (threads + clocks.first * clocks.padded + 1).astype(np.int32)
        shadow.thread[where] = me
        shadow.stamp[where] = clocks.now
        shadow.site[where] = site
        clash = shadow.thread[where] != me
        if clash.any() and not self.strong[site]:
            base = clocks.first * clocks.padded
            self._same_instruction("global", threads[clash] + base, where[clash], site)

    def _check_global(
        self, hazard: str, threads: Array, where: Array, site: int, other: Array, stamp: Array, sites: Array
    ) -> None:
        me = threads + (self.clocks.first * self.clocks.padded + 1)
        doubtful = (other != 0) & (other != me)
        if not doubtful.any():
            return
        pick = np.flatnonzero(doubtful)
        ok = self._ordered_global(threads[pick], other[pick].astype(np.int64) - 1, stamp[pick])
        if self.strong[site]:
            ok |= self.strong[sites[pick]]
        if not ok.all():
            bad = int(pick[np.flatnonzero(~ok)[0]])
            self._race_global(hazard, int(threads[bad]), int(where[bad]), site, int(other[bad]) - 1, int(sites[bad]))

    def _check_crowd(self, threads: Array, where: Array, site: int) -> None:
        """Writes to granules that several unordered threads have read."""
        shadow, clocks = self.globals, self.clocks
        cta, stamp = shadow.read_cta[where], shadow.read_stamp[where]
        mine = self.first_cta() + threads // clocks.padded + 1
        ok = (cta == mine) & (stamp < clocks.floor[threads // clocks.padded])
        if self.strong[site]:
            ok |= self.strong[shadow.read_site[where]]
        for index in np.flatnonzero(~ok):
            me = int(threads[index])
            if cta[index] != mine[index]:
                ok[index] = me in clocks.far
                continue
            warps = int(shadow.read_warps[where[index]])
            start = me // clocks.padded * clocks.padded
            ok[index] = all(
                self._knows_warp(np.array([me]), np.array([start + 32 * warp]), stamp[index : index + 1])[0]
                for warp in range(clocks.padded // 32)
                if warps >> warp & 1
            )
            if not ok[index]:
                break
        if not ok.all():
            bad = int(np.flatnonzero(~ok)[0])
            reader = int(shadow.read_thread[where[bad]]) - 1
            self._race_global(
                "WAR", int(threads[bad]), int(where[bad]), site, reader, int(shadow.read_site[where[bad]])
            )

    def _race_global(self, hazard: str, me: int, where: int, site: int, other: int, other_site: int) -> None:
        machine, clocks = self.machine, self.clocks
        name, offset = machine.launch.globals.owner(where * self.globals.granule)
        local = other - clocks.first * clocks.padded
        if local // clocks.padded == me // clocks.padded:
            cure = "put bar.sync between them"
        else:
            cure = "CTAs of one launch are not ordered: use atomics, or two launches"
        later, earlier = {"RAW": ("read", "write"), "WAW": ("write", "write"), "WAR": ("write", "read")}[hazard]
        message = f"global memory: a {later} conflicts with an earlier {earlier}; {cure}"
        first, second = machine.access(later, site, me), machine.access(earlier, other_site, local)
        span = (offset, offset + self.globals.granule)
        machine.find(Finding("missing_barrier", message, first, second, hazard, "global", name, span))
