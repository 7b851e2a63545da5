"""What a loop gathers for its products through registers goes to shared memory a turn ahead, into a second version.

    for %k = 0 to %n {                 %x0 = load %X[%at(0)] ; store %s slot 0, %x0 ; %x1 = load %X[%at(1)]
      %x = load %X[%at(%k)]            for %k = 0 to %n carry(%x = %x1) {
      store %s, %x                       %t = async_gemm %s slot %k % 2, …
      %t = async_gemm %s, …       →      store %s slot (%k + 1) % 2, %x
      await %t }                         %x2 = load %X[%at(%k + 2)]
                                         await %t
                                         yield %x2 }

With one version a turn is: all have read, write, all have written, multiply, wait. With two, the next turn's tile is
written while the tensor cores have this one's, all meet once a turn, and a load has a whole turn to arrive.
`hoist_loads` alone takes the load a turn ahead; it has what this pass leaves. For programs of minitile.tilelang
(`resources_are_hints`), in loops whose products are asynchronous (wgmma): of what such a loop gathers (no instruction
copies it) at most GATHERED registers, where nothing else is done with it, the loop writes nothing else to what products
read and waits for these in the same turn, and a second version fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from minitile.analysis.variables import covers, is_shared
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.rewrite import clone, made_by, rewrite_loops
from minitile.ir.types import i32
from minitile.transforms.manager import PassContext
from minitile.transforms.tile.hoist_loads import GATHERED, gathers, is_pipelines, is_quiet, loaded, registers


@dataclass(frozen=True, eq=False)
class _Row:
    """load: of a tile; needed: what its place is computed by; store: to shared memory; products: that read it there."""

    load: tile.Load
    needed: list[Op]
    store: tile.Store
    products: list[roles.AsyncGemm]


def double_buffer(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if kernel.attrs.get("resources_are_hints") and any(isinstance(op, roles.AsyncGemm) for op in kernel.walk()):
        rewrite_loops(kernel.body, _Double(kernel, context).loop)


class _Double:
    def __init__(self, kernel: Kernel, context: PassContext) -> None:
        self.threads = kernel.threads
        self.room = context.target.max_shared - sum(_bytes(op) for op in kernel.walk() if isinstance(op, tile.Alloc))
        self.touching: dict[Value | None, list[Op]] = {}
        self.users: dict[Value, list[Op]] = {}
        for op in kernel.walk():
            for access in op.accesses():
                self.touching.setdefault(access.mem, []).append(op)
            for v in op.operands:
                self.users.setdefault(v, []).append(op)
        self.written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}

    def loop(self, loop: control.For, before: Block) -> None:
        ops = loop.body.ops
        if loop.kind != "serial" or not all(is_quiet(op, True) or is_pipelines(op) for op in loop.body.walk()):
            return
        gathered = [op for op in ops if gathers(op)]
        rows = [row for op in gathered if (row := self.row(op, loop)) is not None]
        if not rows or len(rows) < len(gathered):
            return
        if sum(registers(row.load.result, self.threads) for row in rows) > GATHERED:
            return
        needed = sum(_bytes(_alloc(row.store)) for row in rows)
        if needed <= self.room:
            self.room -= needed
            _rewrite(loop, before, rows)

    def row(self, load: Op, loop: control.For) -> _Row | None:
        assert isinstance(load, tile.Load)
        inside = {*loop.body.ops}
        needed = made_by(load, inside)
        used = {v for one in (*(needed or ()), load) for v in one.operands}
        users = self.users.get(load.result, [])
        if needed is None or loop.iv not in used or not used.isdisjoint(loop.carried) or len(users) != 1:
            return None
        if load.mem in self.written or None in self.written:
            return None
        store = users[0]
        if not isinstance(store, tile.Store) or store not in inside or not is_shared(store.mem):
            return None
        if store.mask is not None or store.shift is not None or _alloc(store).type_.versions != 1:
            return None
        products = [op for op in self.touching[store.mem] if op is not store]
        order = {op: n for n, op in enumerate(loop.body.ops)}
        if not covers(store.mem, store.indices, store.dims, load.result.shape) or not products:
            return None
        awaited = {v for op in loop.body.ops if isinstance(op, roles.Await) for v in op.operands}
        reads = [
            op
            for op in products
            if isinstance(op, roles.AsyncGemm) and order.get(op, -1) > order[store] and op.results[1] in awaited
        ]
        return _Row(load, needed, store, reads) if len(reads) == len(products) else None


def _alloc(store: tile.Store) -> tile.Alloc:
    assert isinstance(store.mem.op, tile.Alloc)
    return store.mem.op


def _bytes(op: tile.Alloc) -> int:
    return math.prod(op.type_.shape) * op.type_.versions * -(-op.type_.dtype.bits // 8) if is_shared(op.result) else 0


def _rewrite(loop: control.For, before: Block, rows: list[_Row]) -> None:
    pairs: list[tuple[Op, list[Op]]] = [(row.load, row.needed) for row in rows]
    for row in rows:
        alloc = _alloc(row.store)
        alloc.type_ = replace(alloc.type_, versions=2)
        row.store.mem.type = alloc.type_
    b = Builder(before)
    b.loc = loop.loc
    first = loaded(b, pairs, loop, loop.lower)
    for row, value in zip(rows, first, strict=True):
        _store(b, row.store, value, b.constant(0, i32))
    second = loaded(b, pairs, loop, b.add(loop.lower, loop.step))
    carried = [loop.body.add_arg(row.load.result.type, row.load.result.name) for row in rows]
    _body(loop, rows, pairs, carried)
    loop.init = (*loop.init, *second)
    count = len(loop.results)
    loop.results = (*loop.results, *(Value(v.type, loop, count + n, v.name) for n, v in enumerate(second)))


def _body(loop: control.For, rows: list[_Row], pairs: list[tuple[Op, list[Op]]], carried: list[Value]) -> None:
    body, moved = loop.body, {op for row in rows for op in (row.load, row.store)}
    rest = [op for op in body.ops if op not in moved]
    last = max(n for n, op in enumerate(rest) if any(op in row.products for row in rows))
    body.ops = []
    b = Builder(body, loop.loc)
    number = b.floordiv(b.sub(loop.iv, loop.lower), loop.step)
    slot, ahead = (b.cast(b.floormod(n, 2), i32) for n in (number, b.add(number, 1)))
    body.ops += rest[: last + 1]
    for row, value in zip(rows, carried, strict=True):
        for product in row.products:
            for mem, slot_of in (("a", "a_slot"), ("b", "b_slot")):
                if getattr(product, mem) is row.store.mem:
                    setattr(product, slot_of, slot)
        _store(b, row.store, value, ahead)
    following = loaded(b, pairs, loop, b.add(loop.iv, b.mul(loop.step, 2)))
    body.ops += rest[last + 1 :]
    end = body.terminator
    assert isinstance(end, control.Yield)
    end.values = (*end.values, *following)


def _store(b: Builder, store: tile.Store, value: Value, slot: Value) -> None:
    new = clone(store, {})
    assert isinstance(new, tile.Store)
    new.value, new.slot = value, slot
    new.indices = tuple([b.constant(0) for _ in store.indices])  # all of the buffer
    b.emit(new)
