"""tcgen05.mma and tcgen05.commit (PTX ISA 8.8, 9.7.16.10.9, 9.7.16.12): dense products of one CTA.

One thread issues a product; it executes when a commit that covers it arrives (lazy, random), at any time before
(random), or at once (eager). A commit tracks all products that its thread has issued; its arrival at the mbarrier is
one of the pending ones, and tells who waits that these products are complete. Until then their operands in shared
memory, and A in tensor memory, are being read.

The accumulator: row i of M = 128 is lane i, of M = 64 it is lane 32 · (i / 16) + i % 16, in lanes 16 higher if the
address says so; column j is column j. A in tensor memory lies in the same lanes, 4 bytes of K a column. Products are
exact in single precision and summed there, along K first, then onto the accumulator; the hardware's order of additions
is not specified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array
from ..instructions.bulk_copy import Load
from ..instructions.mbarrier import MBarrier
from ..instructions.tensor_core import to_float
from ..race.scopes import CLUSTER
from .descriptors import Product, matrix, product
from .order import GROUP, Engine

if TYPE_CHECKING:
    from ..machine import Machine

_A_COLUMNS = 8  # of 32 bytes of K


@dataclass(slots=True, eq=False)
class Pending:
    """One product in flight. `a` and `b`: arena rows of 16 bytes; `a_columns`: where A is in tensor memory."""

    thread: int
    step: int
    shape: Product
    lanes: Array
    columns: slice
    a: Array | None
    a_columns: slice | None
    b: Array
    accumulates: bool


class Products:
    """The products in flight of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.schedule = machine.launch.schedule
        self.pending: list[Pending] = []
        self.chains: dict[tuple[int, int, Product], int] = {}  # accumulators: CTA, address, shape
        self.latest: dict[int, tuple[int, int]] = {}  # per thread: its last product's step and instruction
        self.known: dict[int, Array] = {}  # per thread: what it knew to be complete when it issued that

    def issue(
        self, thread: int, d: int, a: int, b: int, word: int, kind: str, accumulate: bool, in_tensor: bool, site: int
    ) -> None:
        """One thread issues a product. `a`: a descriptor, or `in_tensor` an address."""
        m = self.machine
        memory, cta = m.tensor, thread // m.padded
        try:
            shape = product(word, kind, in_tensor)
            layouts = (
                None if in_tensor else matrix(a, shape.a_mn_major, shape.item),
                matrix(b, shape.b_mn_major, shape.item),
            )
        except ValueError as reason:
            memory.fault("bad_descriptor", str(reason), site, thread, "mma")
            return
        lanes = self._lanes(shape, d >> 16, site, thread)
        columns = memory.locate(cta, d & 0xFFFF, shape.n, site, thread, "mma")
        engine = Engine("mma", thread)
        step = memory.order.step(engine)
        groups = np.unique(lanes // GROUP)
        issuer = np.array([thread])
        a_columns = None
        if in_tensor:
            if a >> 16 != d >> 16:
                memory.fault("bad_descriptor", "A and D begin at different lanes", site, thread, "mma")
            a_columns = memory.locate(cta, a & 0xFFFF, _A_COLUMNS, site, thread, "mma")
            memory.order.access(engine, step, issuer, cta, groups, a_columns, site, writes=False)
            memory.check_written(cta, groups, a_columns, site, thread)
        a_rows = None if layouts[0] is None else self._rows(shape, layouts[0], True, thread, site)
        b_rows = self._rows(shape, layouts[1], False, thread, site)
        if m.race is not None:
            both = [each.ravel() for each in (a_rows, b_rows) if each is not None]
            rows = np.unique(np.concatenate(both)) * 16
            m.race.proxy.read(issuer, rows, site, ("tcgen05", thread), step)
        chain = self.chains.setdefault((cta, d, shape), len(self.chains) + 1)
        memory.order.access(engine, step, issuer, cta, groups, columns, site, writes=True, chain=chain)
        if accumulate:
            memory.check_written(cta, groups, columns, site, thread)
        for group in groups:
            memory.written[cta, group, columns] = True
        self.latest[thread] = step, site
        self.known[thread] = memory.order.known(thread)
        self.pending.append(Pending(thread, step, shape, lanes, columns, a_rows, a_columns, b_rows, accumulate))
        if self.schedule == "eager":
            self.execute(thread, step)

    def _lanes(self, shape: Product, first: int, site: int, thread: int) -> Array:
        if first not in ((0,) if shape.m == 128 else (0, 16)):
            message = f"the accumulator of {shape.m} rows begins at lane {first}"
            self.machine.tensor.fault("lane_access", message, site, thread, "mma")
        rows = np.arange(shape.m)
        return rows if shape.m == 128 else rows // 16 * 32 + rows % 16 + first

    def _rows(self, shape: Product, layout: object, is_a: bool, thread: int, site: int) -> Array:
        """The arena rows (of 16 bytes) of an operand in shared memory."""
        count = shape.m if is_a else shape.n
        if shape.a_mn_major if is_a else shape.b_mn_major:
            addr = layout.mn_major(shape.k, count * shape.item // 16)  # type: ignore[attr-defined]
        else:
            addr = layout.k_major(count, 2)  # type: ignore[attr-defined]
        shared = self.machine.spaces["shared"]
        where = shared.locate(self.machine, np.full(addr.size, thread), addr.ravel(), 16, site, "read")
        rows: Array = where.reshape(addr.shape) // 16
        return rows

    # -- completion -------------------------------------------------------------------------------------------------

    def commit(self, thread: int, barrier: MBarrier, site: int) -> None:
        """The barrier gets an arrival when all that the thread has issued is complete."""
        m = self.machine
        m.mbarriers.check_fenced(barrier, thread, site)
        step, known = self.latest.get(thread, (0, site))[0], self.known.get(thread)
        empty = np.zeros(0, np.int64)

        def arrive() -> None:
            self._arrive(thread, step, known, barrier, site)

        m.bulk.load(Load(barrier, empty, empty, 0, thread, site, action=arrive))

    def _arrive(self, thread: int, step: int, known: Array | None, barrier: MBarrier, site: int) -> None:
        m = self.machine
        self.execute(thread, step)
        told = m.tensor.order.arrival(thread, step, known)
        if told is not None:
            barrier.current.add(told[0], CLUSTER, told[1])
        if not barrier.pending:
            m.mbarriers.complain("a commit arrives where no arrival is pending", thread, site)
        barrier.arrived[thread] = site
        barrier.pending -= 1
        m.mbarriers.settle(barrier)

    def execute(self, thread: int, step: int) -> None:
        """All products of a thread up to this step, in order."""
        mine = [each for each in self.pending if each.thread == thread and each.step <= step]
        for each in mine:
            self._multiply(each)
        self.pending = [each for each in self.pending if each not in mine]

    def drift(self) -> None:
        """Under schedule "random": the oldest product may be done now."""
        if self.pending and self.machine.launch.rng.random() < 0.2:
            self.execute(self.pending[0].thread, self.pending[0].step)

    def _multiply(self, each: Pending) -> None:
        m, shape = self.machine, each.shape
        cells = m.tensor.cells[each.thread // m.padded]
        rows = m.spaces["shared"].arena.view(4, 4)
        if each.a is None:
            assert each.a_columns is not None
            a = to_float(np.ascontiguousarray(cells[each.lanes, each.a_columns]), shape.a)
        else:
            a = _operand(rows[each.a], shape.a, shape.a_mn_major)
        b = _operand(rows[each.b], shape.b, shape.b_mn_major)
        sums = np.matmul(a.astype(np.float32), b.astype(np.float32).T)
        if shape.negative:
            sums = -sums
        old = cells[each.lanes, each.columns]
        if shape.d == "s32":
            total = sums.astype(np.int64) + (old.view(np.int32) if each.accumulates else 0)
            cells[each.lanes, each.columns] = total.astype(np.int32).view(np.uint32)
            return
        cells[each.lanes, each.columns] = (old.view(np.float32) + sums if each.accumulates else sums).view(np.uint32)

    def end(self) -> None:
        """The batch is over: who ends while products are in flight frees memory under them."""
        matrix = self.machine.tensor.order
        for thread, (step, site) in self.latest.items():
            if self.machine.race is not None and not matrix.is_complete(thread, step):
                message = "the kernel ends, and no thread has waited for this product"
                cure = "tcgen05.commit behind it, and a wait for the mbarrier's phase"
                access = self.machine.access("mma", site, thread)
                self.machine.find(Finding("missing_wait", message, access, space="tensor", cure=cure))
        self.pending = []


def _operand(rows: Array, kind: str, mn_major: bool) -> Array:
    """Rows of 16 bytes [rows, pieces, 4] as a matrix [M or N, K]."""
    matrix = to_float(np.ascontiguousarray(rows.reshape(len(rows), -1)), kind)
    return matrix.T if mn_major else matrix
