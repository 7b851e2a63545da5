"""What a turn of a loop costs a warp that has to issue it: thread IR on the units of one scheduler.

A multiprocessor has four schedulers (hardware.Rates). Each issues one warp instruction in a cycle, to units of which it
has a quarter: an instruction of 32 lanes keeps a unit of R results a cycle for 32 · 4 / R cycles. Which unit an
operation needs is its backend's to say (`Rules.work`); a register of its result, or a pair, is one instruction, which
waits for the registers that it reads.

    %s = await %s0, %t          the products' end
    %m = max %s, %c             32 instructions, 2 cycles each
    %e = ptx %m {ex2…}          32 of 8 cycles, each behind its own maximum
    %d, %u = wgmma %e, …        behind the last of these; the threads go on

Instructions of a turn are issued as early as their operands, their unit and the issue slot allow, the first of the
program first, as if the assembler ordered them at its best; waits, barriers and asynchronous products keep their order,
and no instruction goes from one turn to the next. One thing the assembler does not do at its best: it moves the waits
for products to each other, in front of what stands between them, so that the first is as long as the last (seen in the
disassembly of all attention kernels of benchmarks/schedule_profile.py, nvJitLink 13.5).

Two things are assumed of the warpgroups that share the schedulers. All are in the same part of a turn: each instruction
takes its unit once for each of them. And while one awaits its own products, those of others do not delay it. So a turn
takes as long as one warpgroup's products and all warpgroups' instructions, where these wait for each other.

Not counted: scalars that no register is in, accesses of memory, what waits and barriers themselves take, what stands
under a condition, and latencies beyond that of arithmetic.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minitile.hardware import Rates
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import control, roles, thread, tile
from minitile.ir.types import WGMMA_TOKEN, RegsType

if TYPE_CHECKING:
    from minitile.backends.base import Work

_LANES = 32
_TURNS = 6  # of which the last ones are what all others take
PRODUCTS = "products"
ISSUE = "issue"


@dataclass(frozen=True, slots=True)
class Issued:
    """Of one turn. cycles: until the next one of the same warpgroup may begin. busy: cycles of each unit that a
    scheduler's warps keep busy together, by the names of hardware.Rates, and of the issue slot."""

    cycles: float
    busy: dict[str, float]


@dataclass(slots=True)
class _Node:
    """An instruction, or the place of a wait. unit: "" for none; held: cycles that the unit is taken for; behind: the
    nodes whose end it waits for; ends: cycles from its start until its result is there."""

    unit: str
    held: float
    behind: tuple[int, ...]
    ends: float = 0.0


@dataclass(slots=True)
class _Graph:
    """The nodes of some turns. last: what keeps its order; products: those that were issued, in order."""

    rates: Rates
    work: Callable[[Op], Work | None]
    groups: int
    nodes: list[_Node] = field(default_factory=list)
    registers: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    products: list[int] = field(default_factory=list)
    begin: int = 0
    last: int = 0

    def add(self, node: _Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def turn(self, loop: control.For) -> int:
        """The nodes of one turn, and the place at which the next one may begin."""
        pending = self.pending(loop)
        for op in loop.body.before_end:
            if op.orders or op.results:
                self.op(op, pending)
        own = tuple(n for n in range(self.begin, len(self.nodes)) if self.nodes[n].unit != PRODUCTS)
        carried = zip(loop.carried, loop.body.yielded, strict=True)
        self.registers |= {arg: self.registers.get(value, ()) for arg, value in list(carried)}
        self.begin = self.last = self.add(_Node("", 0.0, own))
        return self.begin

    def pending(self, loop: control.For) -> dict[Op, int]:
        """How many products each wait for products leaves: as many as the last wait in front of the next product."""
        found: dict[Op, int] = {}
        least: int | None = None
        for op in reversed(loop.body.before_end):
            work = self.work(op)
            if work is not None and work.whole:
                least = None
            elif isinstance(op, (roles.Await, tile.Wait)) and op.token.type == WGMMA_TOKEN:
                own = op.pending or 0
                found[op] = least = own if least is None else min(own, least)
        return found

    def op(self, op: Op, pending: dict[Op, int]) -> None:
        work = self.work(op)
        if work is not None and work.whole:
            self.last = self.add(_Node("", 0.0, (self.last, *self.read(op))))
            cycles = work.whole / self.rates.products
            self.products.append(self.add(_Node(PRODUCTS, cycles, (self.last,), cycles)))
        elif op.orders:
            self.wait(op, pending.get(op))
        elif not isinstance(op.results[0].type, RegsType) and not self.read(op):
            return  # an address, a number: nothing of it comes from registers
        elif work is not None:
            self.instructions(op, work)
        elif isinstance(op, thread.Pick):
            held = self.registers.get(op.a, ())
            self.registers[op.result] = tuple(held[n] for n in op.indices) if held else ()
        else:
            self.whole(op.results, self.add(_Node("", 0.0, self.read(op))))

    def whole(self, results: Sequence[Value], node: int) -> None:
        """All registers of these are there with one node."""
        self.registers |= {v: (node,) * _count(v) for v in results}

    def wait(self, op: Op, pending: int | None) -> None:
        """Products are complete in order: all but the last `pending`; None where none are waited for."""
        complete = [] if pending is None else self.products[: len(self.products) - pending]
        self.last = self.add(_Node("", 0.0, (self.last, *complete[-1:])))
        self.whole(op.results, self.last)

    def read(self, op: Op) -> tuple[int, ...]:
        """All nodes that an operation as a whole waits for."""
        return tuple(sorted({n for v in op.operands for n in self.registers.get(v, ())}))

    def instructions(self, op: Op, work: Work) -> None:
        count = _count(op.results[0])
        held = _LANES * self.rates.schedulers / getattr(self.rates, work.unit)
        found: list[int] = []
        for first in range(0, count, work.packed):
            packed = range(first, min(first + work.packed, count))
            behind = {self.begin}
            for read in (self.registers.get(v, ()) for v in op.operands):
                behind |= {read[n] for n in packed} if len(read) == count else set(read)
            ends = held - 1 + self.rates.latency
            found += [self.add(_Node(work.unit, held, tuple(behind), ends))] * len(packed)
        self.registers[op.results[0]] = tuple(found)

    def starts(self) -> list[float]:
        """When each node begins."""
        free: dict[str, float] = {}
        waits = [len(set(node.behind)) for node in self.nodes]
        users: list[list[int]] = [[] for _ in self.nodes]
        for n, node in enumerate(self.nodes):
            for before in set(node.behind):
                users[before].append(n)
        ready = [(0.0, n) for n, count in enumerate(waits) if not count]
        start, early = [0.0] * len(self.nodes), [0.0] * len(self.nodes)
        while ready:
            at, n = heapq.heappop(ready)
            node = self.nodes[n]
            issues = node.unit not in ("", PRODUCTS)
            possible = max(at, free.get(node.unit, 0.0), free.get(ISSUE, 0.0) if issues else 0.0)
            if possible > at:
                heapq.heappush(ready, (possible, n))
                continue
            start[n] = at
            if node.unit:
                free[node.unit] = at + node.held * (self.groups if issues else 1)
            if issues:
                free[ISSUE] = at + self.groups
            for user in users[n]:
                early[user] = max(early[user], at + node.ends)
                waits[user] -= 1
                if not waits[user]:
                    heapq.heappush(ready, (early[user], user))
        return start


def _count(value: Value) -> int:
    return value.type.count if isinstance(value.type, RegsType) else 1


def issued(loop: control.For, work: Callable[[Op], Work | None], rates: Rates, groups: int) -> Issued:
    """Of a loop of thread IR that has no other in it, which `groups` warpgroups run."""
    graph = _Graph(rates, work, groups)
    graph.add(_Node("", 0.0, ()))
    ends = [graph.turn(loop) for _ in range(_TURNS)]
    start = graph.starts()
    half = _TURNS // 2
    cycles = (start[ends[-1]] - start[ends[half - 1]]) / (_TURNS - half)
    busy: dict[str, float] = {}
    for node in graph.nodes[ends[-2] + 1 :]:
        if node.unit not in ("", PRODUCTS):
            busy[node.unit] = busy.get(node.unit, 0.0) + node.held * groups
            busy[ISSUE] = busy.get(ISSUE, 0.0) + groups
    return Issued(cycles, busy)


def loops_of(kernel: Kernel, line: int, work: Callable[[Op], Work | None]) -> list[control.For]:
    """The loops of a line that issue asynchronous products and have no other loop in them."""
    found = []
    for op in kernel.walk():
        if isinstance(op, control.For) and op.loc is not None and op.loc.line == line:
            inside = list(op.body.walk())
            products = any(each.whole for each in map(work, inside) if each is not None)
            if products and not any(isinstance(each, control.Loop) for each in inside):
                found.append(op)
    return found
