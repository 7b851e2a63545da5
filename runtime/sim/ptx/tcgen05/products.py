"""tcgen05.mma and tcgen05.commit (PTX ISA 8.8, 9.7.16.10.9, 9.7.16.12): dense products of one CTA, or of a pair.

One thread issues a product; it executes when a commit that covers it arrives (lazy, random), at any time before
(random), or at once (eager). A commit tracks all products that its thread has issued; its arrival at the mbarrier, or
at those of several CTAs (.multicast::cluster), is one of the pending ones, and tells who waits that these products are
complete. Until then their operands in shared memory, and A in tensor memory, are being read.

A thread of either CTA of a pair may issue; the shared memory and the tensor memory of both are accessed, at the same
addresses (datapaths.py). A in tensor memory has 4 bytes of K a column. Products are exact in single precision and
summed there, along K first, then onto the accumulator; the hardware's order of additions is not specified. With scale
factors (scales.py) the sum along the K of one instruction is in double precision, and rounded then. Accumulators of f16
are rounded after each instruction, and have the lower half of a column (9.7.16.10.4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array
from ..instructions.bulk_copy import Load
from ..instructions.mbarrier import MBarrier
from ..instructions.wgmma_layout import Descriptor
from ..race.async_clocks import joined
from .datapaths import Part, parts, width
from .descriptors import Product, matrix, product
from .elements import values
from .order import FACTOR, GROUP, Engine
from .scales import Factors, load_factors, read_factors, scaled

if TYPE_CHECKING:
    from ..machine import Machine

_A_COLUMNS = 8  # of 32 bytes of K
_ABOVE_F16 = np.uint32(0xA5A50000)  # what a column has above an accumulator of 16 bits: not specified


@dataclass(slots=True, eq=False)
class Operation:
    """One product in flight: a step of its thread, and what it does."""

    thread: int
    step: int
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Operands:
    """What an instruction is given: addresses in tensor memory, descriptors, whether it adds to what is there; where
    the scale factors are; the lanes that stay as they are, a bit for each of a CTA, or of both."""

    d: int
    a: int
    b: int
    word: int
    accumulates: bool
    scale_a: int = 0
    scale_b: int = 0
    disabled: tuple[int, ...] = ()

    def enabled(self, part: Part, half: int) -> Array:
        """Which lanes of a part are updated; `half`: which CTA of the pair it is of."""
        words = self.disabled[4 * half : 4 * half + 4]
        bits = np.array([word >> lane & 1 for word in words for lane in range(32)] or [0] * 128)
        found: Array = bits[part.lanes] == 0
        return found


@dataclass(frozen=True, slots=True)
class Form:
    """What an instruction is. `in_tensor`: A is an address, not a descriptor; `pair`: of CTAs; `factors`: scale factors
    for 32 bytes of K, of a kind that has any; `shift`: D is scaled by 2 to the power of minus that."""

    kind: str
    in_tensor: bool
    pair: bool
    factors: int = 0
    shift: int = 0


class Products:
    """The products in flight of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.schedule = machine.launch.schedule
        self.pending: list[Operation] = []
        self.chains: dict[tuple[int, int, str, int, int], int] = {}  # accumulators: CTA, address, kind, M, N
        self.latest: dict[int, tuple[int, int]] = {}  # per thread: its last product's step and instruction
        self.known: dict[int, Array] = {}  # per thread: what it knew to be complete when it issued that
        # Per thread: the CTAs that its operations and the arrivals of its commits are in, and the last step that is
        self.reached: dict[int, dict[int, int]] = {}

    def issue(self, thread: int, given: Operands, form: Form, site: int) -> None:
        """One thread issues a product."""
        memory, ctas = self.machine.tensor, self.ctas(thread, form.pair, site)
        try:
            shape = product(given.word, form.kind, form.in_tensor, len(ctas), form.factors)
            a_layout = None if form.in_tensor else matrix(given.a, shape.a_mn_major, shape.bits)
            b_layout = matrix(given.b, shape.b_mn_major, shape.bits)
        except ValueError as reason:
            memory.fault("bad_descriptor", str(reason), site, thread, "mma")
            return
        lane, column = given.d >> 16, given.d & 0xFFFF
        if lane not in ((0, 16) if shape.m == 64 else (0,)):
            message = f"the accumulator of {shape.m} rows begins at lane {lane}"
            memory.fault("lane_access", message, site, thread, "mma")
        for each in ctas:
            memory.locate(each, column, width(shape.m, shape.n, len(ctas)), site, thread, "mma")
        step = self.begin(thread, ctas, site)
        where = parts(shape.m, shape.n, ctas, lane, column)
        a_columns = self._a_columns(thread, given, where, step, site) if form.in_tensor else None
        a_rows = None
        if a_layout is not None:
            a_rows = [self._rows(a_layout, shape.m // len(ctas), shape, True, each, thread, site) for each in ctas]
        b_rows = [self._rows(b_layout, shape.n // len(ctas), shape, False, each, thread, site) for each in ctas]
        self.read_shared(thread, [*(a_rows or ()), *b_rows], step, site)
        accumulator = ctas[0], given.d, form.kind, shape.m, shape.n
        chain = self.chains.setdefault(accumulator, len(self.chains) + 1)
        factors = self._factors(thread, given, shape, where, step, chain, site)
        for part in where:
            self._accumulate(thread, part, step, chain, given.accumulates, site)

        def run() -> None:
            all_b = np.concatenate([self._operand(rows, shape.b, shape.b_mn_major) for rows in b_rows])
            for index, part in enumerate(where):
                if a_rows is None:
                    assert a_columns is not None
                    a = values(memory.cells[part.cta][part.lanes, a_columns], shape.a)
                else:
                    a = self._operand(a_rows[part.cta - ctas[0]], shape.a, shape.a_mn_major)[part.rows]
                b = all_b[part.n]
                if shape.scaling is not None:
                    firsts = shape.scaling.a_byte, shape.scaling.b_byte
                    of_a, of_b = (
                        load_factors(self.machine, each, shape, first, thread, site)
                        for each, first in zip(factors[index], firsts, strict=True)
                    )
                    a, b = scaled(a, of_a[part.rows]), scaled(b, of_b)
                factor = 2.0**-form.shift if given.accumulates else 0.0
                enabled = given.enabled(part, part.cta - ctas[0])
                _add(memory.cells[part.cta], part, shape, a, b, np.float32(factor), enabled)

        self.put(thread, step, run)

    def _factors(
        self, thread: int, given: Operands, shape: Product, where: list[Part], step: int, chain: int, site: int
    ) -> list[tuple[Factors, Factors]]:
        """The scale factors of A and B for each part, where the kind has any."""
        if shape.scaling is None:
            return []

        def read(address: int, part: Part, count: int) -> Factors:
            return read_factors(self.machine, thread, step, chain, address, part, count, site)

        return [
            (read(given.scale_a, part, len(part.rows)), read(given.scale_b, part, part.n.stop - part.n.start))
            for part in where
        ]

    # -- what every operation of these engines does -------------------------------------------------------------------

    def ctas(self, thread: int, pair: bool, site: int) -> list[int]:
        """The CTA of a thread, or both of its pair."""
        cta = thread // self.machine.padded
        if not pair:
            return [cta]
        self._check_peer(self.machine.tensor.allocator.peer(thread, site), thread, site)
        return [cta & ~1, cta | 1]

    def begin(self, thread: int, ctas: list[int], site: int) -> int:
        """A new step of a thread's engine."""
        order = self.machine.tensor.order
        step = order.step(Engine("mma", thread))
        self.reached.setdefault(thread, {}).update(dict.fromkeys(ctas, step))
        self.latest[thread] = step, site
        self.known[thread] = order.known(thread)
        return step

    def put(self, thread: int, step: int, run: Callable[[], None]) -> None:
        """An operation is in flight."""
        self.pending.append(Operation(thread, step, run))
        if self.schedule == "eager":
            self.execute(thread, step)

    def read_shared(self, thread: int, rows: list[Array], step: int, site: int) -> None:
        """An operation reads rows of 16 bytes of the arena, in the async proxy."""
        race = self.machine.race
        if race is not None:
            places = np.unique(np.concatenate([each.ravel() for each in rows])) * 16
            race.proxy.read(np.array([thread]), places, site, ("tcgen05", thread), step)

    def locate(self, addresses: Array, cta: int, thread: int, site: int) -> Array:
        """The arena rows of pieces of 16 bytes at these addresses in a CTA's shared memory."""
        m = self.machine
        window = 0 if m.window is None else int(m.window[cta * m.padded])
        threads = np.full(addresses.size, thread)
        where = m.spaces["shared"].locate(m, threads, addresses.ravel() + window, 16, site, "read")
        rows: Array = where.reshape(addresses.shape) // 16
        return rows

    def _check_peer(self, peer: int, thread: int, site: int) -> None:
        if self.machine.clusters.alive(peer):
            return
        message = "the other CTA of the pair has ended when this accesses its memory"
        cure = "barrier.cluster.arrive.release and barrier.cluster.wait.acquire by all threads before they end"
        access = self.machine.access("mma", site, thread)
        self.machine.find(Finding("missing_barrier", message, access, space="tensor", cure=cure), stop=True)

    # -- operands ---------------------------------------------------------------------------------------------------

    def _accumulate(self, thread: int, part: Part, step: int, chain: int, accumulates: bool, site: int) -> None:
        memory, groups = self.machine.tensor, np.unique(part.lanes // GROUP)
        engine, issuer = Engine("mma", thread), np.array([thread])
        memory.order.access(engine, step, issuer, part.cta, groups, part.columns, site, writes=True, chain=chain)
        if accumulates:
            memory.check_written(part.cta, groups, part.columns, site, thread)
        for group in groups:
            memory.written[part.cta, group, part.columns] = True

    def _a_columns(self, thread: int, given: Operands, where: list[Part], step: int, site: int) -> slice:
        """The columns of A in tensor memory, which are read in the lanes of each part."""
        memory = self.machine.tensor
        if given.a >> 16 != given.d >> 16:
            memory.fault("bad_descriptor", "A and D begin at different lanes", site, thread, "mma")
        columns = slice(0, 0)
        for part in where:
            columns = memory.locate(part.cta, given.a & 0xFFFF, _A_COLUMNS, site, thread, "mma")
            groups = np.unique(part.lanes // GROUP)
            engine, issuer = Engine("mma", thread), np.array([thread])
            memory.order.access(engine, step, issuer, part.cta, groups, columns, site, writes=False, chain=FACTOR)
            memory.check_written(part.cta, groups, columns, site, thread)
        return columns

    def _rows(
        self, layout: Descriptor, count: int, shape: Product, is_a: bool, cta: int, thread: int, site: int
    ) -> Array:
        """The arena rows (of 16 bytes) of `count` rows of an operand in a CTA's shared memory."""
        if shape.a_mn_major if is_a else shape.b_mn_major:
            addresses = layout.mn_major(shape.k, count * shape.bits // 128)
        else:
            addresses = layout.k_major(count, 2)
        return self.locate(addresses, cta, thread, site)

    def _operand(self, rows: Array, kind: str, mn_major: bool) -> Array:
        """Rows of 16 bytes [rows, pieces] of the arena as a matrix [M or N, K]."""
        words = self.machine.spaces["shared"].arena.view(4, 4)[rows]
        matrix = values(words.reshape(len(words), -1), kind)
        return matrix.T if mn_major else matrix

    # -- completion -------------------------------------------------------------------------------------------------

    def commit(self, thread: int, barriers: list[MBarrier], site: int) -> None:
        """Each of these barriers gets an arrival when all that the thread has issued is complete."""
        m = self.machine
        step, known = self.latest.get(thread, (0, site))[0], self.known.get(thread)
        empty = np.zeros(0, np.int64)
        for barrier in barriers:
            m.mbarriers.check_fenced(barrier, thread, site)
            if step:
                self.reached[thread][barrier.cta] = step

            def arrive(barrier: MBarrier = barrier) -> None:
                self._arrive(thread, step, known, barrier, site)

            m.bulk.load(Load(barrier, empty, empty, 0, thread, site, action=arrive))

    def _arrive(self, thread: int, step: int, known: Array | None, barrier: MBarrier, site: int) -> None:
        m = self.machine
        self.execute(thread, step)
        told = m.tensor.order.arrival(thread, step, known)
        if told is not None:
            barrier.telling = told if barrier.telling is None else joined(barrier.telling, told)
        if not barrier.pending:
            m.mbarriers.complain("a commit arrives where no arrival is pending", thread, site)
        barrier.arrived[thread] = site
        barrier.pending -= 1
        m.mbarriers.settle(barrier)

    def execute(self, thread: int, step: int) -> None:
        """All operations of a thread up to this step, in order."""
        mine = [each for each in self.pending if each.thread == thread and each.step <= step]
        for each in mine:
            each.run()
        self.pending = [each for each in self.pending if each not in mine]

    def drift(self) -> None:
        """Under schedule "random": the oldest operation may be done now."""
        if self.pending and self.machine.launch.rng.random() < 0.2:
            self.execute(self.pending[0].thread, self.pending[0].step)

    def end(self) -> None:
        """The batch is over: who ends while products are in flight frees memory under them."""
        order = self.machine.tensor.order
        for thread, (_, site) in self.latest.items() if self.machine.race is not None else ():
            for cta, step in sorted(self.reached[thread].items()):
                if not order.is_complete(thread, step, cta):
                    message = "the kernel ends, and no thread has waited for this product"
                    if len(self.reached[thread]) > 1:
                        message = "a CTA ends, and none of its threads has waited for this product, which is partly its"
                        message += " own or arrives at an mbarrier of it"
                    cure = "tcgen05.commit behind it, and a wait for the mbarrier's phase"
                    access = self.machine.access("mma", site, thread)
                    self.machine.find(Finding("missing_wait", message, access, space="tensor", cure=cure))
        self.pending = []


def _add(cells: Array, part: Part, shape: Product, a: Array, b: Array, factor: np.float32, enabled: Array) -> None:
    """The product of one part, and `factor` times what is there, into the lanes that are `enabled`."""
    if shape.scaling is None:
        sums = np.matmul(a.astype(np.float32), b.astype(np.float32).T)
    else:
        sums = np.matmul(a, b.T).astype(np.float32)
    if shape.negative:
        sums = -sums
    old = cells[part.lanes, part.columns]
    if shape.d == "s32":
        total = (sums.astype(np.int64) + (old.view(np.int32) if factor else 0)).astype(np.int32).view(np.uint32)
    elif shape.d == "f16":
        before = (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
        short = (sums + before * factor if factor else sums).astype(np.float16).view(np.uint16)
        total = short.astype(np.uint32) | _ABOVE_F16
    else:
        total = (sums + old.view(np.float32) * factor if factor else sums).view(np.uint32)
    cells[part.lanes[enabled], part.columns] = total[enabled]
