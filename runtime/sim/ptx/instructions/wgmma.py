"""wgmma: asynchronous matrix products of a warpgroup (PTX ISA 8.0, 9.7.14).

Warps issue products, close groups and wait for groups. A product's registers and shared memory are in use until its
group has been waited for: `execute` reads shared memory and writes the accumulators when a wait forces it (lazy), at
once (eager), or at any time between (random). All four warps have to issue the same products; a wait of one warp is a
wait for the work of all four, so it sleeps until the others have issued theirs.

Registers are watched (`check_registers`): touching an accumulator in flight, or changing an A operand in flight, is a
`missing_wait`; a product whose accumulators were touched, or whose A registers were written, after the last wgmma.fence
is a `missing_fence` ("wgmma.fence": between a register access and a product that accesses the same registers).

A thread holds element i of the result at row 16 * warp + lane / 4 + 8 * (i / 2 % 2) and column
8 * (i / 4) + 2 * (lane % 4) + i % 2, and A in registers as mma.m16n8k does for the warp's 16 rows. Products are exact
in single precision and summed there; the hardware's order of additions is not specified.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array, Sel, distinct, every, some
from .tensor_core import operand_order, to_float
from .wgmma_layout import Descriptor

if TYPE_CHECKING:
    from ..machine import Machine


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction multiplies: m64 x n x k of a kind, into accumulators of a kind, in these registers."""

    columns: int
    depth: int
    a_kind: str
    b_kind: str
    d_kind: str
    item: int  # bytes of an element
    a_transposed: bool
    b_transposed: bool
    scale_a: int
    scale_b: int
    results: tuple[int, ...]  # slots of the accumulators
    fragments: tuple[int, ...]  # slots of A, empty if A is in shared memory
    saturates: bool
    site: int


@dataclass(slots=True, eq=False)
class Product:
    """One product in flight, for some warps of one warpgroup."""

    shape: Shape
    group: int
    warps: Array  # of the batch
    cta: int
    a_pieces: Array | None  # arena rows of 16 bytes, of all 64 rows of A
    a_words: Array | None  # [warps, 32 lanes, registers]
    b_pieces: Array
    rows: Array  # arena offsets of all these pieces
    accumulates: bool
    done: bool = False


class WarpGroups:
    """The products in flight of a batch. Warps are numbered through the batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        warps = machine.slots // 32
        self.schedule = machine.launch.schedule
        self.per_cta = machine.padded // 32
        self.commits = np.zeros(warps, np.int64)
        self.issued = np.zeros(warps, np.int64)
        self.finished = np.zeros(warps, np.int64)  # groups known to be complete
        self.log: dict[int, dict[int, tuple[int, int, int]]] = {}  # per warpgroup: the n-th product's operands
        self.pending: list[Product] = []
        self.latest = np.zeros(warps, np.int64)  # the last product's group + 1
        program = machine.program
        slots = program.module.slots if any(step.ins.name == "wgmma" for step in program.code) else 0
        self.busy = np.zeros((slots, warps), np.int64)  # per accumulator and warp: the last product's group + 1
        self.reading = np.zeros((slots, warps), np.int64)  # per register of A
        self.now = 1
        self.fenced = np.zeros(warps, np.int64)
        self.wrote = np.zeros((slots, warps), np.int64)  # when
        self.read = np.zeros((slots, warps), np.int64)
        self.places: dict[tuple[int, int | None, int, int], tuple[Array | None, Array, Array]] = {}  # see `_operands`
        self.valued: set[tuple[tuple[int, ...], bytes]] = set()  # accumulators of warps that have values

    def key(self, warp: int) -> tuple[str, int, int]:
        """A warpgroup's name: as an async engine, and for waiting threads."""
        return "wgmma", warp // self.per_cta, warp % self.per_cta // 4

    def team(self, warp: int) -> Array:
        """The four warps of a warp's group."""
        first = warp // self.per_cta * self.per_cta + warp % self.per_cta // 4 * 4
        return np.arange(first, first + 4)

    # -- issue ------------------------------------------------------------------------------------------------------

    def issue(self, sel: Sel, shape: Shape, a: Array, b: Array, words: Array | None, accumulate: Array) -> None:
        """Whole warps issue a product: `a` and `b` are descriptors per thread (`words` A's registers, [threads, n]).
        Warps that are here at the same time may be in different iterations of a loop: those issue one product each."""
        m = self.machine
        threads = m.thread[sel]
        warps = threads[::32] // 32
        teams = warps // self.per_cta * self.per_cta + warps % self.per_cta // 4
        kinds: dict[tuple[int, int, bool], list[int]] = {}
        for index, kind in enumerate(
            zip(teams.tolist(), self.issued[warps].tolist(), accumulate[::32].tolist(), strict=True)
        ):
            kinds.setdefault(kind, []).append(index)
        for kind in sorted(kinds):
            which = np.array(kinds[kind])
            lanes = which * 32
            first = int(warps[which[0]])
            self._check_team(warps[which], int(threads[lanes[0]]), shape.site)
            a_word, b_word = int(a[lanes[0]]), int(b[lanes[0]])
            for position, warp in zip(lanes.tolist(), warps[which].tolist(), strict=True):
                self._check_same(warp, (shape.site, int(a[position]), int(b[position])))
            self._check_operands(shape, warps[which])
            cta = first // self.per_cta
            thread = int(threads[lanes[0]])
            a_pieces, b_pieces, rows = self._operands(shape, a_word if words is None else None, b_word, cta, thread)
            product = Product(
                shape,
                int(self.commits[first]),
                warps[which],
                cta,
                a_pieces,
                None if words is None else words.reshape(-1, 32, words.shape[1])[which],
                b_pieces,
                rows,
                bool(accumulate[lanes[0]]),
            )
            self._tell_race(product)
            if product.accumulates:
                self._check_written(shape, warps[which])
            self.pending.append(product)
            step = self.latest[warps[which]] = self.commits[warps[which]] + 1
            for slots, table in ((shape.results, self.busy), (shape.fragments, self.reading)):
                table[_rows(slots), warps[which]] = step
        if self.schedule == "eager":
            self.execute([each for each in self.pending if not each.done])

    def _operands(
        self, shape: Shape, a: int | None, b: int, cta: int, thread: int
    ) -> tuple[Array | None, Array, Array]:
        """The pieces of A (if it is in shared memory) and B by their descriptors, and the arena offsets of all. Loops
        over a ring come back to the same ones."""
        key = shape.site, a, b, cta
        if key not in self.places:
            a_pieces = None if a is None else self._pieces(shape, a, True, thread)
            b_pieces = self._pieces(shape, b, False, thread)
            both = [each.ravel() for each in (a_pieces, b_pieces) if each is not None]
            self.places[key] = a_pieces, b_pieces, np.unique(np.concatenate(both)) * 16
        return self.places[key]

    def _pieces(self, shape: Shape, word: int, is_a: bool, thread: int) -> Array:
        """The arena rows (of 16 bytes) of an operand."""
        descriptor = Descriptor.decode(word)
        rows = 64 if is_a else shape.columns
        if shape.a_transposed if is_a else shape.b_transposed:
            addr = descriptor.mn_major(shape.depth, rows * shape.item // 16)
        else:
            addr = descriptor.k_major(rows, shape.depth * shape.item // 16)
        shared = self.machine.spaces["shared"]
        own = 0 if self.machine.window is None else int(self.machine.window[thread])
        where = shared.locate(self.machine, np.full(addr.size, thread), addr.ravel() + own, 16, shape.site, "read")
        return where.reshape(addr.shape) // 16

    def _tell_race(self, product: Product) -> None:
        race = self.machine.race
        if race is None:
            return
        issuers = (product.warps[:, None] * 32 + np.arange(32)).ravel()
        key = self.key(int(product.warps[0]))
        race.proxy.read(issuers, product.rows, product.shape.site, key, product.group + 1)

    def _check_team(self, warps: Array, thread: int, site: int) -> None:
        team = self.team(int(warps[0]))
        live = self.machine.live.reshape(-1, 32)
        inside = team[-1] // self.per_cta == team[0] // self.per_cta
        # A warp that has issued this product may have ended since.
        came = inside and live[team].all(axis=1) | (self.issued[team] > self.issued[warps[0]])
        if not np.all(came):
            message = "wgmma needs all 128 threads of a warpgroup: four warps that start at a multiple of four"
            self.machine.find(
                Finding("divergent_barrier", message, self.machine.access("wait", site, thread)), stop=True
            )

    def _check_same(self, warp: int, operands: tuple[int, int, int]) -> None:
        """All four warps must issue the same products in the same order."""
        number = int(self.issued[warp])
        self.issued[warp] += 1
        log = self.log.setdefault(int(self.team(warp)[0]), {})
        if log.setdefault(number, operands) != operands:
            message = "the warps of a warpgroup issue different products; all 128 threads must execute the same wgmma"
            first = self.machine.access("wgmma", operands[0], warp * 32)
            second = self.machine.access("wgmma", log[number][0])
            self.machine.find(Finding("divergent_barrier", message, first, second), stop=True)
        behind = int(self.issued[self.team(warp)].min())
        log.pop(behind - 1, None)

    # -- groups -----------------------------------------------------------------------------------------------------

    def commit(self, sel: Sel) -> None:
        """Close the current group of these warps."""
        warps = self.machine.thread[sel][::32] // 32
        self.commits[warps] += 1
        for key in {self.key(int(warp)) for warp in warps}:
            self.machine.waiters.changed(key)

    def ready(self, warps: Array, keep: int) -> bool:
        """Whether all warps of the group have issued what these wait for."""
        # A block whose last warpgroup is not whole can wait, for nothing: a product there is a finding.
        last = len(self.commits) - 1
        teams = (np.minimum(self.team(int(warp)), last) for warp in warps)
        return all((self.commits[team] >= self.commits[w] - keep).all() for team, w in zip(teams, warps, strict=True))

    def wait(self, warps: Array, keep: int) -> None:
        """These warps (of one warpgroup) wait for all of their groups but the latest `keep`."""
        limit = int(self.commits[warps[0]]) - keep
        team = set(self.team(int(warps[0])).tolist())
        self.execute([each for each in self.pending if each.group < limit and int(each.warps[0]) in team])
        self.finished[warps] = np.maximum(self.finished[warps], limit)
        race = self.machine.race
        if race is not None and limit > 0:
            threads = (warps[:, None] * 32 + np.arange(32)).ravel()
            race.proxy.complete(threads, self.key(int(warps[0])), limit)

    def fence(self, sel: Sel) -> None:
        """wgmma.fence: earlier register writes are in order with later products."""
        self.now += 1
        self.fenced[self.machine.thread[sel][::32] // 32] = self.now

    def drift(self) -> None:
        """Under schedule "random": the oldest products may be done now."""
        if self.pending and self.machine.launch.rng.random() < 0.2:
            oldest = self.pending[0]
            self.execute([oldest])

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def execute(self, products: list[Product]) -> None:
        """Do these products, in order; accumulators stay here between products that chain."""
        totals: dict[tuple[tuple[int, ...], bytes], Array] = {}
        for product in products:
            shape = product.shape
            key = (shape.results, product.warps.tobytes())
            terms = self._multiply(product)
            others = [each for each in totals if each != key and not set(each[0]).isdisjoint(shape.results)]
            for each in others:
                self._write_back(each, totals.pop(each))
            if product.accumulates and key not in totals:
                totals[key] = self._accumulators(product)
            totals[key] = _add(totals[key] if product.accumulates else None, terms, shape)
            product.done = True
        for each, total in totals.items():
            self._write_back(each, total)
        if products:
            self.pending = [each for each in self.pending if not each.done]

    def _threads(self, warps: Array) -> Sel:
        if len(warps) == warps[-1] - warps[0] + 1:
            return slice(int(warps[0]) * 32, int(warps[-1]) * 32 + 32)
        threads: Array = (warps[:, None] * 32 + np.arange(32)).ravel()
        return threads

    def _accumulators(self, product: Product) -> Array:
        """[registers, threads] as words."""
        sel = self._threads(product.warps)
        return np.array([self.machine.regs[slot][sel] for slot in product.shape.results])

    def _write_back(self, key: tuple[tuple[int, ...], bytes], total: Array) -> None:
        sel = self._threads(np.frombuffer(key[1], np.int64))
        for slot, row in zip(key[0], total, strict=True):
            self.machine.regs[slot][sel] = row

    def _multiply(self, product: Product) -> Array:
        """The products' sums, [elements, threads]. Always of 64 rows, whichever warps came together: how a sum is
        rounded must depend on its row alone, and BLAS adds in another order for other sizes."""
        shape = product.shape
        rows = self.machine.spaces["shared"].arena.view(4, 4)
        b = to_float(rows[product.b_pieces].reshape(len(product.b_pieces), -1), shape.b_kind)
        b = b if shape.b_transposed else b.T  # [k, n]
        parts = product.warps % self.per_cta % 4
        if product.a_pieces is not None:
            a = to_float(rows[product.a_pieces].reshape(len(product.a_pieces), -1), shape.a_kind)
            whole = (a.T if shape.a_transposed else a).astype(np.float32)
        else:
            assert product.a_words is not None
            per = 4 // shape.item
            order = operand_order(16, shape.depth, per, 2)
            mine = to_float(product.a_words.reshape(len(product.warps), -1), shape.a_kind)[:, order]
            whole = np.zeros((4, 16, shape.depth), np.float32)
            whole[parts] = mine.reshape(len(parts), 16, shape.depth)
        sums = np.matmul(whole.reshape(64, shape.depth), b.astype(np.float32)).reshape(4, 16, -1)[parts]
        if shape.scale_a * shape.scale_b < 0:
            sums = -sums
        # [warp, half, g, j, t, e] -> [j, half, e, warp, g, t]
        fragments = sums.reshape(len(product.warps), 2, 8, shape.columns // 8, 4, 2).transpose(3, 1, 5, 0, 2, 4)
        elements: Array = fragments.reshape(shape.columns // 2, -1)
        return elements

    # -- registers --------------------------------------------------------------------------------------------------

    def _check_operands(self, shape: Shape, warps: Array) -> None:
        """Registers that were written since the last wgmma.fence, or A registers that are still accumulators."""
        fenced = self.fenced[warps]
        slots = shape.results + shape.fragments
        written: Array = np.any(self.wrote[_rows(slots), warps] >= fenced, axis=1)
        read: Array = np.any(self.read[_rows(shape.results), warps] >= fenced, axis=1)
        late = written.copy()
        late[: len(read)] |= read
        if late.any():
            first = int(np.argmax(late))
            name = self._name(slots[first])
            message = f"register {name} was {'written' if written[first] else 'read'} after the last wgmma.fence"
            if not fenced.all():
                message = "no wgmma.fence was executed before the first product"
            access = self.machine.access("wgmma", shape.site, int(warps[0]) * 32)
            cure = f"wgmma.fence before PTX line {access.line}"
            self.machine.find(Finding("missing_fence", message, access, space="register", buffer=name, cure=cure))
        for slot in shape.fragments:
            if (self.busy[slot, warps] > self.finished[warps]).any():
                self._touched(slot, "read", shape.site, int(warps[0]) * 32)
                break

    def _check_written(self, shape: Shape, warps: Array) -> None:
        """A product that accumulates needs accumulators with values."""
        key = (shape.results, warps.tobytes())
        if key in self.valued:
            return
        self.valued.add(key)
        for slot in shape.results:
            if not (self.wrote[slot, warps] | self.busy[slot, warps]).all():
                name = self._name(slot)
                message = f"the product adds to accumulator {name}, which was never written"
                access = self.machine.access("wgmma", shape.site, int(warps[0]) * 32)
                cure = "scale-d false for the first product"
                self.machine.find(Finding("uninitialised", message, access, space="register", buffer=name, cure=cure))
                return

    def check_registers(self, sel: Sel, site: int, reads: list[int], writes: list[int]) -> None:
        """An instruction reads and writes registers that products use."""
        warps: Sel = (
            slice(sel.start // 32, (sel.stop + 31) // 32) if isinstance(sel, slice) else np.array(distinct(sel // 32))
        )
        for slots, table in ((writes, self.wrote), (reads, self.read)):
            for slot in slots:
                table[slot, warps] = self.now
        finished = self.finished[warps]
        if every(self.latest[warps] <= finished):
            return
        for slots, table, what in (
            (reads, self.busy, "read"),
            (writes, self.busy, "write"),
            (writes, self.reading, "write"),
        ):
            for slot in slots:
                early = table[slot, warps] > finished
                if some(early):
                    warp = int(np.arange(len(self.finished))[warps][np.flatnonzero(early)[0]])
                    self._touched(slot, what, site, warp * 32)

    def _touched(self, slot: int, what: str, site: int, thread: int) -> None:
        name = self._name(slot)
        product = next((each for each in self.pending if slot in each.shape.results + each.shape.fragments), None)
        second = None if product is None else self.machine.access("wgmma", product.shape.site)
        message = f"register {name} is in use by a wgmma in flight"
        access = self.machine.access(what, site, thread)
        hazard = "RAW" if what == "read" else "WAW"
        cure = f"wgmma.wait_group before this {what}"
        self.machine.find(Finding("missing_wait", message, access, second, hazard, "register", name, cure=cure))

    def _name(self, slot: int) -> str:
        return next(register.name for register in self.machine.program.registers if register.slot == slot)

    def end(self) -> None:
        """The batch is over: all warps of a group must have issued the same number of products."""
        self.execute(list(self.pending))
        for first, log in self.log.items():
            if len(set(self.issued[first : first + 4].tolist())) > 1:
                site = next(iter(log.values()))[0]
                message = "some warps of a warpgroup did not execute this product; all 128 threads must"
                access = self.machine.access("wgmma", site, first * 32)
                self.machine.find(Finding("divergent_barrier", message, access))


@functools.lru_cache(maxsize=256)
def _rows(slots: tuple[int, ...]) -> Array:
    """Registers as rows of a table, to be picked with warps as its columns."""
    return np.array(slots, np.int64)[:, None]


def _add(total: Array | None, terms: Array, shape: Shape) -> Array:
    """Accumulator words [registers, threads] plus terms [elements, threads]."""
    if shape.d_kind == "s32":
        result = terms.astype(np.int64) + (0 if total is None else total.view(np.int32).astype(np.int64))
        if shape.saturates:
            result = np.clip(result, -(1 << 31), (1 << 31) - 1)
        return result.astype(np.int32).view(np.uint32)
    if shape.d_kind == "f32":
        return (terms if total is None else total.view(np.float32) + terms).view(np.uint32)
    pairs = terms.reshape(-1, 2, terms.shape[1])
    if total is not None:
        halves = np.stack([total & np.uint32(0xFFFF), total >> np.uint32(16)], axis=1).astype(np.uint16)
        pairs = pairs + halves.view(np.float16).astype(np.float32)
    words = pairs.astype(np.float16).view(np.uint16).astype(np.uint32)
    packed: Array = words[:, 0] | words[:, 1] << np.uint32(16)
    return packed
