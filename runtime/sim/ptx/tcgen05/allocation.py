"""Which columns of tensor memory are whose: tcgen05.alloc, dealloc, relinquish_alloc_permit (PTX ISA 8.8, 9.7.16.7).

With .cta_group::2 a warp of each CTA of a pair executes them, and they take effect in both CTAs when both have come
(9.7.16.5, tables 46 to 48). Who comes first at an alloc sleeps until then: the address is the same in both. The other
two may let it go on: they do under schedule "eager", never under "lazy", sometimes under "random". The two warps have
the same number in their CTAs and give the same address of shared memory (CUTLASS,
include/cute/arch/tmem_allocator_sm100.hpp, Allocator2Sm); coming together orders nothing else.

Each CTA has all columns: that CTAs of one multiprocessor share them, and wait for each other in alloc, is not modelled.
An allocation begins at the first free columns, under schedule "random" at the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import SharedSpace
from ...core.report import Finding
from ...core.scalars import Array
from ..table import Outcome
from ..wait_queue import Waiter
from .order import COLUMNS, GROUPS, Engine

if TYPE_CHECKING:
    from ..machine import Machine
    from .memory import TensorMemory


@dataclass(frozen=True, slots=True)
class Allocation:
    """Columns [first, first + count) of a CTA, allocated by this instruction."""

    first: int
    count: int
    site: int
    thread: int


@dataclass(slots=True, eq=False)
class Request:
    """What a warp asks for. `what`: alloc, dealloc or relinquish; `columns` of the first two; `place`: where in the
    arena the address of an alloc goes, or the address that a dealloc gives."""

    what: str
    threads: Array
    site: int
    columns: int = 0
    place: int = 0
    done: bool = False

    @property
    def thread(self) -> int:
        return int(self.threads[0])


class Allocator:
    """The allocations of a batch, by CTA, and the requests that wait for the other CTA of a pair."""

    def __init__(self, machine: Machine, memory: TensorMemory, ctas: int) -> None:
        self.machine, self.memory = machine, memory
        self.live: list[list[Allocation]] = [[] for _ in range(ctas)]
        self.freed = np.zeros((ctas, COLUMNS), bool)
        self.relinquished: dict[int, int] = {}  # CTA: the instruction
        self.least: dict[int, int] = {}  # CTA: the columns of its last allocation
        self.waiting: dict[tuple[str, int], list[Request]] = {}  # by what and CTA
        named = {mod for step in machine.program.code if step.ins.name == "tcgen05" for mod in step.ins.mods}
        self.mixed = {"cta_group::1", "cta_group::2"} <= named

    # -- requests ---------------------------------------------------------------------------------------------------

    def ask(self, request: Request, pair: bool, pc: int) -> Outcome:
        """A warp asks; where its threads go on, if they do at once."""
        if self.mixed:
            message = "all tcgen05 instructions of a kernel have the same .cta_group; this one's have both"
            self.memory.fault("cta_group_mismatch", message, request.site, request.thread, request.what)
        cta = request.thread // self.machine.padded
        self._check(request, cta)
        if not pair:
            self._grant([request], [cta])
            return [(pc + 1, request.threads)]
        peer = self.peer(request.thread, request.site)
        queue = self.waiting.get((request.what, peer))
        if queue:
            self._together(queue.pop(0), request)
            return [(pc + 1, request.threads)]
        self.waiting.setdefault((request.what, cta), []).append(request)
        launch = self.machine.launch
        goes = launch.schedule == "eager" or (launch.schedule == "random" and launch.rng.random() < 0.5)
        if goes and request.what != "alloc":
            return [(pc + 1, request.threads)]
        self._sleep(request, pc, cta)
        return []

    def _sleep(self, request: Request, pc: int, cta: int) -> None:
        def describe() -> str:
            return f"a warp of the other CTA of the pair to execute tcgen05.{request.what} as well"

        waiter = Waiter(pc, request.threads, lambda: request.done, lambda done: None, describe)
        self.machine.waiters.add(("tcgen05", request.what, cta), waiter)

    def _together(self, first: Request, second: Request) -> None:
        padded = self.machine.padded
        if first.columns != second.columns:
            message = f"the CTAs of a pair ask for {first.columns} and {second.columns} columns"
            self.memory.complain(message, second.site, second.thread)
        if first.thread % padded != second.thread % padded:
            message = "the warps that allocate for the CTAs of a pair have different numbers"
            self.memory.complain(message, second.site, second.thread)
        shared = self.machine.spaces["shared"]
        assert isinstance(shared, SharedSpace)
        if first.what == "alloc" and first.place % shared.stride != second.place % shared.stride:
            message = "the warps of a pair want the address at different places of their CTAs' shared memory"
            self.memory.complain(message, second.site, second.thread)
        self._grant([first, second], [first.thread // padded, second.thread // padded])
        first.done = True
        self.machine.waiters.changed(("tcgen05", first.what, first.thread // padded))

    def peer(self, thread: int, site: int) -> int:
        """The other CTA of the pair, which is there as long as the cluster has an even number of CTAs."""
        if self.machine.launch.cluster_size % 2:
            message = ".cta_group::2 needs the other CTA of a pair: clusters of an even number of CTAs"
            self.memory.fault("cta_group_mismatch", message, site, thread, "tcgen05")
        return thread // self.machine.padded ^ 1

    def _check(self, request: Request, cta: int) -> None:
        if request.what == "alloc":
            if request.columns not in (32, 64, 128, 256, 512):
                message = f"an allocation is 32, 64, 128, 256 or 512 columns, not {request.columns}"
                self.memory.complain(message, request.site, request.thread)
            if cta in self.relinquished:
                message = "the CTA has relinquished its permit to allocate tensor memory"
                self.memory.complain(message, request.site, request.thread)
            least = self.least.setdefault(cta, request.columns)
            if request.columns > least:
                message = f"an allocation of {request.columns} columns behind one of {least}: they do not grow"
                self.memory.complain(message, request.site, request.thread)
            self.least[cta] = request.columns
        elif request.what == "dealloc":
            self._find(request, cta)

    # -- what they do -----------------------------------------------------------------------------------------------

    def _grant(self, requests: list[Request], ctas: list[int]) -> None:
        what = requests[0].what
        if what == "alloc":
            self._allocate(requests, ctas)
        elif what == "dealloc":
            for request in requests:
                self._order(request, ctas)
            for request, cta in zip(requests, ctas, strict=True):
                self._free(request, cta)
        else:
            for request, cta in zip(requests, ctas, strict=True):
                self.relinquished.setdefault(cta, request.site)

    def _allocate(self, requests: list[Request], ctas: list[int]) -> None:
        columns, memory = requests[0].columns, self.memory
        free = np.ones(COLUMNS, bool)
        for cta in ctas:
            for each in self.live[cta]:
                free[each.first : each.first + each.count] = False
        starts = [at for at in range(0, COLUMNS, columns) if free[at : at + columns].all()]
        if not starts:
            held = COLUMNS - int(np.count_nonzero(free))
            message = f"this waits for {columns} columns of tensor memory for ever: the CTA itself holds {held} of 512"
            access = self.machine.access("alloc", requests[0].site, requests[0].thread)
            self.machine.find(Finding("deadlock", message, access), stop=True)
        at = starts[-1 if self.machine.launch.schedule == "random" else 0]
        for request, cta in zip(requests, ctas, strict=True):
            self.live[cta].append(Allocation(at, columns, request.site, request.thread))
            self.freed[cta, at : at + columns] = False
            memory.fresh(cta, slice(at, at + columns))
            if self.machine.race is not None:
                place = np.array([request.place])
                self.machine.race.write("shared", request.threads[:1], place, 4, request.site, False)
            self.machine.spaces["shared"].arena.view(4, 1)[request.place // 4] = at

    def _find(self, request: Request, cta: int) -> Allocation:
        """The allocation that a dealloc names."""
        first, columns = request.place, request.columns
        for each in self.live[cta]:
            if (each.first, each.count) == (first, columns):
                return each
        if self.freed[cta, first % COLUMNS]:
            message = f"column {first} is free already"
            self.memory.fault("use_after_free", message, request.site, request.thread, "dealloc")
        self.memory.complain(f"there is no allocation of {columns} columns at {first:#x}", request.site, request.thread)
        raise AssertionError  # the finding has ended the run

    def _order(self, request: Request, ctas: list[int]) -> None:
        """Who frees knows all accesses to be over, in both CTAs."""
        span, engine = slice(request.place, request.place + request.columns), Engine("dealloc", request.thread)
        for cta in ctas:
            self.memory.order.check(engine, request.threads, cta, np.arange(GROUPS), span, request.site, writes=True)

    def _free(self, request: Request, cta: int) -> None:
        found = self._find(request, cta)
        span = slice(found.first, found.first + found.count)
        self.memory.order.forget(cta, span)
        self.live[cta].remove(found)
        self.freed[cta, span] = True

    def end(self) -> None:
        """The batch is over: all allocations have been freed, and no warp waits for the other CTA of a pair."""
        for requests in self.waiting.values():
            for request in requests:
                message = f"a warp of one CTA of a pair executes tcgen05.{request.what}, none of the other one does"
                access = self.machine.access(request.what, request.site, request.thread)
                self.machine.find(Finding("cta_group_mismatch", message, access, space="tensor"))
        for allocations in self.live:
            for each in allocations:
                message = (
                    f"the kernel ends, and {each.count} columns of tensor memory from {each.first} on are not freed"
                )
                access = self.machine.access("alloc", each.site, each.thread)
                cure = "tcgen05.dealloc on every path to the end"
                self.machine.find(Finding("tensor_memory_leak", message, access, space="tensor", cure=cure))
