"""Which accesses to tensor memory are in order (PTX ISA 8.8, 9.7.16.6 "Memory Consistency Model for 5th generation of
TensorCore operations").

Each access is a step of an engine: of the thread that issues products ("mma"), or of the warp that loads ("ld") or
stores ("st"). Per cell (16 lanes of a column) there is the last write and, by engine, the last read. An access is in
order with an earlier one that conflicts if

    the same thread's products   have the same accumulator and shape; or one is a tcgen05.cp, see copies.py; or the
                                 later one overwrites what the earlier one reads as its A (attention's weights lie in
                                 the columns of scores, and the next scores are issued behind their product without a
                                 wait: CUTLASS, examples/77_blackwell_fmha, and FlashAttention-4,
                                 flash_attn/cute/flash_fwd_sm100.py; the ISA's list of pipelined pairs has it not)
    the same warp                has waited for its ld or st (tcgen05.wait)
    another engine's             completion is known to each thread of the access, and known at its last
                                 fence::after_thread_sync. A product's is told by a commit's arrival; that of ld and st
                                 by a fence::before_thread_sync behind the wait.
    another thread's product     is a product with the same accumulator and shape, and a fence::before_thread_sync
                                 stands behind it

What threads know travels with every synchronisation, in the async proxy's clocks (race/async_clocks.py), in columns of
these names: "tcgen05" and "tcgen05 order" of a thread (its products are complete; are issued), "tmem" and "tmem wait"
of a warp and what it does (complete, behind a fence; complete, behind a wait: that tells a missing fence from a missing
barrier). A relaxed arrival, which tells nothing else, tells what the thread's last fence::before_thread_sync had
(9.7.16.6.3: these fences compose with relaxed operations); who has seen its phase relaxed learns that by
fence::after_thread_sync.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.fixes import between
from ...core.report import HAZARDS, Finding
from ...core.scalars import Array
from ..race.clocks import Row

if TYPE_CHECKING:
    from ..machine import Machine

GROUP = 16  # lanes of a cell
COPY = -1  # the chain of what tcgen05.cp accesses
FACTOR = -2  # of what products read as A
GROUPS, COLUMNS = 8, 512
_TOLD = ("tcgen05", "tcgen05 order", "tmem")  # the columns that fences tell


@dataclass(frozen=True, slots=True)
class Engine:
    """Who accesses: "mma" of a thread, "ld" or "st" of a warp; or "dealloc", which is over at once."""

    kind: str
    number: int


@dataclass(slots=True)
class _Last:
    """The last accesses of some kind to each cell: engine (an index, 0: none), step, instruction."""

    engine: Array
    step: Array
    site: Array
    chain: Array  # of products: which accumulator and shape


def _fresh(ctas: int) -> _Last:
    shape = (ctas, GROUPS, COLUMNS)
    return _Last(*(np.zeros(shape, np.int64) for _ in range(4)))


class TensorOrder:
    """The accesses to the tensor memory of one batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.engines: list[Engine] = [Engine("", -1)]
        self.index: dict[Engine, int] = {}
        self.steps: dict[Engine, int] = {}
        self.done: dict[Engine, int] = {}  # of ld and st: the steps behind which a wait stands
        self.writes = _fresh(machine.ctas)
        self.reads: dict[Engine, _Last] = {}
        self.after = np.zeros((machine.slots, 0), np.int64)  # what each thread knew at its last fence::after
        code = (step.ins for step in machine.program.code)
        self.relaxed = any(ins.name == "mbarrier" and "relaxed" in ins.mods for ins in code)
        self.fenced: dict[int, Row] = {}  # what each thread's last fence::before tells by relaxed arrivals

    # -- what happens -----------------------------------------------------------------------------------------------

    def step(self, engine: Engine) -> int:
        """A new step of an engine."""
        if engine not in self.index:
            self.index[engine] = len(self.engines)
            self.engines.append(engine)
        self.steps[engine] = self.steps.get(engine, 0) + 1
        return self.steps[engine]

    def waited(self, engine: Engine, threads: Array) -> None:
        """tcgen05.wait: all that the warp has loaded or stored is complete."""
        steps = self.steps.get(engine, 0)
        if steps:
            self.done[engine] = steps
            self._complete(threads, ("tmem wait", engine), steps)

    def before(self, threads: Array) -> None:
        """fence::before_thread_sync of these threads: what they tell others includes their tcgen05 operations."""
        for thread in threads.tolist():
            one = np.array([thread])
            for kind in ("ld", "st"):
                engine = Engine(kind, thread // 32)
                if engine in self.done:
                    self._complete(one, ("tmem", engine), self.done[engine])
            engine = Engine("mma", thread)
            if engine in self.steps:
                self._complete(one, ("tcgen05 order", thread), self.steps[engine])
            if self.machine.race is not None and self.relaxed:
                clocks = self.machine.race.clocks
                row = Row(clocks.first + thread // clocks.padded, np.zeros(clocks.padded, np.int64))
                row.extra = self._own(thread, self._matrix()[thread])
                self.fenced[thread] = row

    def _own(self, thread: int, row: Array) -> Array:
        """Of a row of clocks, what is of tensor memory."""
        race = self.machine.race
        assert race is not None
        assert race.clocks.async_clocks is not None
        columns = race.clocks.async_clocks.columns[thread // race.clocks.padded]
        mine = [at for key, at in columns.items() if isinstance(key, tuple) and key[0] in _TOLD and at < len(row)]
        result = np.zeros_like(row)
        result[mine] = row[mine]
        return result

    def fence_after(self, threads: Array) -> None:
        """fence::after_thread_sync: what these threads know now holds for their tcgen05 operations behind it."""
        race = self.machine.race
        if race is not None and race.heard and race.clocks.async_clocks is not None:
            for thread in threads.tolist():
                for row in race.heard.get(thread, {}).values():
                    if row.extra is not None:
                        race.clocks.async_clocks.give(np.array([thread]), self._own(thread, row.extra))
        matrix = self._matrix()
        if self.after.shape[1] < matrix.shape[1]:
            self.after = np.pad(self.after, ((0, 0), (0, matrix.shape[1] - self.after.shape[1])))
        self.after[threads] = matrix[threads]

    def known(self, thread: int) -> Array:
        """Which asynchronous operations a thread knows to be complete: a row that has no more than these."""
        row: Array = self._matrix()[thread].copy()
        race = self.machine.race
        if race is not None:
            row[: 2 * race.clocks.padded] = 0  # its proxy fences, which are of threads' own accesses
        return row

    def arrival(self, thread: int, steps: int, known: Array | None) -> Array | None:
        """What a commit's arrival tells: the products of the thread, up to that step, are complete, and what
        comes in order with them is; so is what the thread had `known` to be complete when it issued the last of them,
        as they are behind it (a slot that TMA filled is TMA's again by a commit alone: CUTLASS,
        include/cutlass/pipeline/sm100_pipeline.hpp, PipelineTmaUmmaAsync). None without a race model."""
        if self.machine.race is None:
            return None
        complete, order = (self._column(thread, (name, thread)) for name in ("tcgen05", "tcgen05 order"))
        extra = np.zeros(self._matrix().shape[1], np.int64)
        if known is not None:
            extra[: len(known)] = known
        extra[[complete, order]] = steps
        return extra

    def is_complete(self, thread: int, step: int, cta: int) -> bool:
        """Whether some thread of the CTA has waited for this product."""
        mates = np.arange(cta * self.machine.padded, (cta + 1) * self.machine.padded)
        return bool((self._matrix()[mates, self._column(thread, ("tcgen05", thread))] >= step).any())

    def _complete(self, threads: Array, key: Hashable, steps: int) -> None:
        race = self.machine.race
        if race is not None and race.clocks.async_clocks is not None:
            race.clocks.async_clocks.complete(threads, self._column(int(threads[0]), key), steps)

    def _column(self, thread: int, key: Hashable) -> int:
        race = self.machine.race
        assert race is not None
        assert race.clocks.async_clocks is not None
        return race.clocks.async_clocks.engine(thread // race.clocks.padded, key)

    def _matrix(self) -> Array:
        race = self.machine.race
        if race is None or race.clocks.async_clocks is None:
            return np.zeros((self.machine.slots, 0), np.int64)
        return race.clocks.async_clocks.matrix

    # -- accesses -----------------------------------------------------------------------------------------------------

    def access(
        self,
        engine: Engine,
        step: int,
        threads: Array,
        cta: int,
        groups: Array,
        columns: slice | Array,
        site: int,
        writes: bool,
        chain: int = 0,
    ) -> None:
        """An engine accesses cells, for these threads. `chain`: of a product's accumulator, which one it is of."""
        if self.machine.race is None:
            return
        self.check(engine, threads, cta, groups, columns, site, writes, chain)
        where = (cta, groups[:, None], np.arange(COLUMNS)[columns][None, :])
        if writes:
            last = self.writes
            for reads in self.reads.values():
                reads.step[where] = 0
        else:
            last = self.reads.setdefault(engine, _fresh(self.machine.ctas))
        last.engine[where], last.step[where], last.site[where], last.chain[where] = (
            self.index[engine],
            step,
            site,
            chain,
        )

    def forget(self, cta: int, columns: slice) -> None:
        """Columns are freed: nothing has accessed them."""
        for last in (self.writes, *self.reads.values()):
            last.step[cta, :, columns] = 0

    def check(
        self,
        engine: Engine,
        threads: Array,
        cta: int,
        groups: Array,
        columns: slice | Array,
        site: int,
        writes: bool,
        chain: int = 0,
    ) -> None:
        """Report the first earlier access that an access of these cells is not in order with."""
        if self.machine.race is None:
            return
        cells = (cta, groups[:, None], np.arange(COLUMNS)[columns][None, :])
        kinds = [("WAW" if writes else "RAW", self.writes)]
        kinds += [("WAR", last) for last in self.reads.values()] if writes else []
        for hazard, last in kinds:
            steps = last.step[cells].ravel()
            if not steps.any():
                continue
            who, chains, sites = (table[cells].ravel() for table in (last.engine, last.chain, last.site))
            seen = np.stack([who, steps, chains, sites], 1)[steps > 0]
            for other, when, other_chain, other_site in np.unique(seen, axis=0).tolist():
                chained = chain != 0 and chain == other_chain and hazard == "WAW"
                if engine.kind == "mma":
                    chained |= other_chain == COPY or (chain == COPY and hazard == "WAR")
                    chained |= other_chain == FACTOR and hazard == "WAR" and engine == self.engines[other]
                lacks = self._lacks(engine, threads, self.engines[other], when, chained)
                if lacks is not None:
                    at = int(np.flatnonzero((who == other) & (steps == when) & (sites == other_site))[0])
                    named = np.arange(COLUMNS)[columns]
                    place = int(groups[at // len(named)]), int(named[at % len(named)])
                    self._report(lacks, hazard, engine, int(threads[0]), site, self.engines[other], other_site, place)
                    return

    def _lacks(self, engine: Engine, threads: Array, other: Engine, step: int, chained: bool) -> tuple[str, str] | None:
        """(kind of finding, cure) of what is missing between an access and an earlier one; None if nothing is."""
        frees = engine.kind == "dealloc"
        first = int(threads[0])
        if other.kind == "mma":
            if engine == other and chained:
                return None
            complete = self._column(first, ("tcgen05", other.number))
            if self._fenced(threads, complete, step) or (frees and self._known(threads, complete, step)):
                return None
            order = self._column(first, ("tcgen05 order", other.number))
            if chained and self._fenced(threads, order, step):
                return None
            if self._known(threads, complete, step) or (chained and self._known(threads, order, step)):
                return "missing_fence", "tcgen05.fence::after_thread_sync behind the wait"
            return "missing_wait", "tcgen05.commit behind the product, and a wait for the mbarrier's phase"
        wait = f"tcgen05.wait::{other.kind}"
        done = self.done.get(other, 0) >= step
        if (threads // 32 == other.number).all():
            return None if done else ("missing_wait", f"{wait} by the same warp")
        told = self._column(first, ("tmem", other))
        if self._fenced(threads, told, step) or (frees and self._known(threads, told, step)):
            return None
        if self._known(threads, told, step):
            return "missing_fence", "tcgen05.fence::after_thread_sync behind the synchronisation"
        if self._known(threads, self._column(first, ("tmem wait", other)), step):
            return "missing_fence", f"tcgen05.fence::before_thread_sync behind {wait}, before the synchronisation"
        if not done:
            return "missing_wait", f"{wait} by the warp that did it, and a synchronisation between tcgen05's fences"
        return (
            "missing_barrier",
            "a synchronisation, with tcgen05.fence::before_thread_sync and fence::after_thread_sync",
        )

    def _known(self, threads: Array, column: int, step: int) -> bool:
        return bool((self._matrix()[threads, column] >= step).all())

    def _fenced(self, threads: Array, column: int, step: int) -> bool:
        return column < self.after.shape[1] and bool((self.after[threads, column] >= step).all())

    def _report(
        self,
        lacks: tuple[str, str],
        hazard: str,
        engine: Engine,
        thread: int,
        site: int,
        other: Engine,
        other_site: int,
        place: tuple[int, int],
    ) -> None:
        kind, cure = lacks
        later, earlier = HAZARDS[hazard]
        machine = self.machine
        does = "frees" if engine.kind == "dealloc" else "reads" if later == "read" else "overwrites"
        doing = "read" if earlier == "read" else "written"
        message = f"this {does} tensor memory (lane {place[0] * GROUP}, column {place[1]}) that is still to be {doing}"
        if kind != "missing_wait":
            message = f"nothing orders what {does} tensor memory (lane {place[0] * GROUP}, column {place[1]})"
            message += f" with what has {doing} it"
        who = other.number if other.kind == "mma" else other.number * 32
        first, second = machine.access(later, site, thread), machine.access(f"async {earlier}", other_site, who)
        cure = f"{cure}, {between(machine, other_site, site)}"
        machine.find(Finding(kind, message, first, second, hazard, "tensor", None, None, cure))
