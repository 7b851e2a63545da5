"""A policy for CDNA 4 by iterative modulo scheduling: for a loop of one gemm that has no schedule of its own.

    product 0 … product n            each keeps the matrix unit for its time, so that a turn takes n of them
    read of a fragment               LDS's time; so long in front of the first product that multiplies it
    wait for the next tile           behind the reads of this one, in front of those of the next one; a barrier
    copy of a part of a tile         behind that wait, and as long in front of the next one as memory takes

Those are the nodes and needs of schedule/modulo.py; how long each keeps its unit follows from the target's rates and
from how many waves share it. What starts in front of product 0 of its iteration is one iteration ahead. Registers are a
hard limit: where fragments that are read so early are too many, they are read later; where that does not help, the loop
stays as it is, with a note.

It comes after `cdna4_half_tiles` and `cdna4_interleave` and takes what these refuse: 192x192x64 with 256 threads, say,
whose fragments of two stages at once are more than a lane's registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import itemgetter

from minitile.hardware import Rates
from minitile.ir.core import Block, Kernel
from minitile.ir.ops import cdna, thread
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.cdna4_interleave import FEW, each_loop
from minitile.transforms.pipeline.mfma_loop import Access, Loop, Refusal
from minitile.transforms.pipeline.mfma_pieces import Group, Pieces
from minitile.transforms.schedule.modulo import Need, Node, Times, modulo

STEP = 4  # cycles: a SIMD issues for a wave at most every fourth (runtime/sim/amdgcn/timing/latencies.py, its sources)
LANES = 64
LATENCIES = (192, 128, 64)  # cycles from a read to the product that multiplies it: the first that registers allow
MEMORY = 1000  # cycles until a copy has landed, behind others
LANDING = 0.75  # of a turn at most, so that the rest is left to issue copies
SHORTEST = 750  # cycles of a turn: in a shorter one copies are what it waits for, and the loop as it was does better

Product = tuple[int, int, int]  # kp, i, j


def cdna4_modulo(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    threads = kernel.attrs.get("threads", 0)
    waves = max(1, threads // LANES)

    def search(loop: Loop, limit: int) -> _Found:
        refusal = Refusal()
        for latency in LATENCIES:
            try:
                return _Found(loop, waves, context.target.rates, latency, limit)
            except Refusal as reason:
                refusal = reason
        raise refusal

    def write(loop: Loop, block: Block, limit: int) -> None:
        found = search(loop, limit)
        pieces = Pieces(loop, found.groups, block, "cdna4_modulo", lambda access: None)
        found.order(pieces)
        pieces.write()

    each_loop(kernel, context, "scheduled by search", write)


class _Found:
    """The times of one loop's pieces, the turn's first product at 0. Raises Refusal where there are none."""

    def __init__(self, loop: Loop, waves: int, rates: Rates, latency: int, limit: int) -> None:
        self.loop = loop
        m, n, depth = loop.counts
        rows = [(i, j) for i in range(m) for j in range(n)] if m >= n else [(i, j) for j in range(n) for i in range(m)]
        self.products: list[Product] = [(kp, i, j) for kp in range(depth) for i, j in rows]
        self.reads: list[Access] = loop.accesses([f for p in self.products for f in _fragments(p)])
        copies = range(sum(len(c.dst_offsets) for c in loop.copies))
        times = self._times(waves, rates, latency, len(copies))
        self.interval, starts = times.interval, [start - times.starts[0] for start in times.starts]
        count = len(self.products)
        self.starts = starts[:count]
        self.read_at = dict(zip(self.reads, starts[count:], strict=False))
        self.copy_at = dict(zip(copies, starts[count + len(self.reads) :], strict=False))
        self.wait_at = starts[-1]
        early = min(min(starts), self.wait_at - self.interval)
        if early < -self.interval or not 0 <= self.wait_at < self.interval or max(starts) >= self.interval:
            raise Refusal("its reads would be more than one iteration ahead")
        ahead = [number for number, at in self.copy_at.items() if at < 0]
        here = [number for number, at in self.copy_at.items() if at >= 0]
        self.groups = [Group({0: some}, some is ahead, 0, True) for some in (ahead, here) if some]
        if self.registers > limit:
            raise Refusal(f"it takes {self.registers} registers; a lane has {limit}")

    def _times(self, waves: int, rates: Rates, latency: int, copies: int) -> Times:
        loop, one = self.loop, self.loop.products[0]
        m, n, _ = loop.counts
        a, b, c = (thread.count_of(v.type) * LANES // rows for v, rows in ((one.a, m), (one.b, n), (one.c, m * n)))
        multiplied = math.isqrt(a * b * c) * one.a.dtype.bits / 16
        nodes = [Node("matrix", _steps(multiplied * waves / rates.products))] * len(self.products)
        nodes += [Node("shared", _steps(loop.words(r[0]) * 4 * LANES * waves / rates.shared)) for r in self.reads]
        total = sum(node.steps for node in nodes[: len(self.products)])
        if total * STEP < SHORTEST:
            raise Refusal(f"a turn of {total * STEP} cycles is too short for its copies to land")
        landing = min(MEMORY // STEP, int(total * LANDING))
        nodes += [Node("copy", max(1, (total - landing) // copies))] * copies + [Node()]
        wait, first, needs = len(nodes) - 1, len(self.products), list[Need]()
        needs += [Need(p, p + 1, nodes[p].steps) for p in range(first - 1)]
        uses: dict[Access, int] = {}
        for number, product in enumerate(self.products):
            for access in loop.accesses(_fragments(product)):
                uses.setdefault(access, number)
        for number, access in enumerate(self.reads, first):
            needs.append(Need(number, uses[access], nodes[number].steps + latency // STEP))
            needs += [Need(number, wait, 1), Need(wait, number, 1, 1)]
        for number in range(first + len(self.reads), wait):
            needs += [Need(wait, number, 1, 1), Need(number, wait, landing, len(loop.flights) - 1)]
        found = modulo(nodes, needs)
        if found is None:
            raise Refusal("no interval is found in which its reads and copies find room")
        return found

    @property
    def registers(self) -> int:
        """That a lane needs: accumulators, fragments from their read to their last product, and addresses."""
        last: dict[Access, int] = {}
        for at, product in zip(self.starts, self.products, strict=True):
            last.update(dict.fromkeys(self.loop.accesses(_fragments(product)), at))
        live = [0] * self.interval
        for access, start in self.read_at.items():
            for at in range(start, last[access]):
                live[at % self.interval] += self.loop.words(access[0])
        c = self.loop.products[0].c
        return thread.count_of(c.type) * c.dtype.bits // 32 + max(live) + FEW

    def order(self, pieces: Pieces) -> None:
        """The pieces of a turn, in order; products beside each other that nothing stands between are one piece."""
        which = {number: g for g, group in enumerate(self.groups) for number in group.numbers}
        items: list[tuple[int, int, Callable[[], None]]] = [(self.wait_at, 0, partial(_wait, pieces, len(self.groups)))]
        for number, at in self.copy_at.items():
            items.append((at % self.interval, 1, partial(pieces.copy, number, which[number])))
        for read, at in self.read_at.items():
            items.append((at % self.interval, 2, partial(pieces.read, read, -1 if at < 0 else 0)))
        items.sort(key=itemgetter(0, 1))
        pieces.put(cdna.SetPriority(1))
        some: list[Product] = []
        for at, product in zip(self.starts, self.products, strict=True):
            due = bool(items) and items[0][0] <= at
            if some and (due or some[-1][:2] != product[:2] or product[2] != some[-1][2] + 1):
                pieces.multiply(some)
                some = []
            while items and items[0][0] <= at:
                items.pop(0)[2]()
            some.append(product)
        pieces.multiply(some)
        for _, _, put in items:
            put()
        pieces.put(cdna.SchedBarrier())


def _wait(pieces: Pieces, groups: int) -> None:
    pieces.put(cdna.SetPriority(0))
    pieces.put(cdna.SchedBarrier())
    pieces.wait(range(groups))
    pieces.put(cdna.SetPriority(1))


def _fragments(product: Product) -> list[tuple[str, int, int]]:
    kp, i, j = product
    return [("a", i, kp), ("b", j, kp)]


def _steps(cycles: float) -> int:
    return max(1, math.ceil(cycles / STEP))
