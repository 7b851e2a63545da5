"""Accumulators of gemms go to tensor memory: a pass on tile IR, behind `software_pipeline`.

    for … [%z] (%k, %c) {                     %m = tensor_memory {columns = 128} ; %d = tensor_alloc %m
      %c1 = gemm %As, %Bs, %c                 for … [false, 0] (%k, %written, %p) {
      yield %c1                        →        tensor_gemm %As, %Bs, %d, %written, %p
    }                                           yield true, %p ^ 1
    store %r, %C[…]                           }
                                              %t = tensor_load %d, %w ; store %t, %C[…] ; tensor_free %m, %d

An accumulator is the values that are handed on from gemm to gemm, around loops and out of them, and begin as zeros. It
becomes a buffer; each of the values becomes a bool, whether a product has written the buffer yet. That is right because
each value is handed on once at most, and what reads one gets a tile that is loaded where the value comes about.

A gemm is left to mma.sync, with a note, where its shapes or operands are not for tcgen05 (`products.misfit_of`), where
its accumulator is anything else (computed on between products, handed on in two ways, under a branch), or where tensor
memory does not suffice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from minitile.analysis.affine import Facts
from minitile.backends.nvidia.blackwell.products import misfit_of
from minitile.backends.nvidia.blackwell.shapes import COLUMNS, allocated
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, blackwell, control, roles, tile
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import recast
from minitile.ir.types import BOOL, I32, BufferType, bool_

ROWS = 128  # of the accumulator of one instruction


@dataclass(eq=False)
class _Accumulator:
    """Values that are one accumulator, the gemms that add to it, and why it stays in registers, if it does."""

    members: set[Value] = field(default_factory=set)
    gemms: list[tile.Gemm] = field(default_factory=list)
    read: set[Value] = field(default_factory=set)
    reason: str = ""
    buffer: Value | None = None

    def is_reused(self, gemm: tile.Gemm, around: dict[Op, tuple[control.For, ...]]) -> bool:
        """Whether a product follows loads of the buffer, in some loop, or one of another kind."""
        loads = {v.owner for v in self.read if isinstance(v.owner, Op)}
        kinds = {(g.a.dtype.name, g.b.dtype.name, g.transpose_a, g.transpose_b) for g in self.gemms}
        return len(kinds) > 1 or any(set(around[op]) & set(around[gemm]) for op in loads)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.gemms[0].c.shape
        return rows, columns

    @property
    def columns(self) -> int:
        return self.shape[0] // ROWS * self.shape[1]


def tensor_memory(kernel: Kernel, context: Any) -> None:
    """The pass."""
    if kernel.attrs.get("explicit_sync"):
        left = (op for op in kernel.walk() if isinstance(op, tile.Gemm))
        context.notes += [
            f"T.gemm{_where(op)} is mma.sync, not tcgen05: the program orders threads by itself" for op in left
        ]
        return
    body = _body(control.find_launch(kernel))
    found = _Search(kernel, context.target).run(body)
    chosen, used = [], 0
    for each in found:
        if not each.reason and used + each.columns > COLUMNS:
            each.reason = f"{each.columns} columns of tensor memory are not left"
        if each.reason:
            context.notes += [f"T.gemm{_where(op)} is mma.sync, not tcgen05: {each.reason}" for op in each.gemms]
            continue
        used += each.columns
        chosen.append(each)
    if chosen:
        _Rewrite(chosen).whole(body, allocated(used))
    if any(type(op) is tile.Gemm for op in body.walk()):  # threads read what TMA overwrites
        for op in body.walk():
            if isinstance(op, roles.ConsumerRelease):
                op.generic = True


def one_team(kernel: Kernel, context: Any) -> None:
    """Teams of consumers would each want products and accumulators of their own: one team is what there is."""
    for op in kernel.walk():
        if isinstance(op, control.For):
            op.teams = 1


def await_products(kernel: Kernel, context: Any) -> None:
    """A pass behind those that make roles, which take gemms for asynchronous ones and await each at once: they are
    gemms again, complete behind themselves."""
    blocks = [kernel.body]
    while blocks:
        block = blocks.pop()
        blocks += [region for op in block.ops for region in op.regions]
        waits = {op.a: op for op in block.ops if isinstance(op, roles.Await)}
        made: list[Op] = []
        for op in block.ops:
            if isinstance(op, roles.AsyncGemm):
                gemm, wait = recast(op, tile.Gemm), waits[op.results[0]]
                gemm.results = wait.results
                gemm.result.owner = gemm
                made.append(gemm)
            elif not isinstance(op, roles.Await):
                made.append(op)
        block.ops = made


def _body(launch: control.Launch) -> Block:
    """What all threads that compute do: of roles, the consumers'."""
    return next((op.consumer for op in launch.body.ops if isinstance(op, roles.WarpSpecialized)), launch.body)


def _where(op: Op) -> str:
    return f" of line {op.loc.line}" if op.loc is not None else ""


# Which accumulators -------------------------------------------------------------------------------------------------


class _Search:
    """All accumulators of a kernel, in the order of their first gemms."""

    def __init__(self, kernel: Kernel, target: Any) -> None:
        self.kernel, self.target = kernel, target
        self.facts = Facts(kernel)
        self.parent: dict[Value, Value] = {}
        self.handed: Counter[Value] = Counter()  # so often is a value handed on
        self.gemms: list[tuple[tile.Gemm, str]] = []
        self.loops: list[control.For] = []

    def run(self, body: Block) -> list[_Accumulator]:
        self.block(body, "")
        uses = Counter(v for op in self.kernel.walk() for v in op.operands)
        found: dict[Value, _Accumulator] = {}
        for gemm, reason in self.gemms:
            each = found.setdefault(self.find(gemm.result), _Accumulator())
            each.gemms.append(gemm)
            each.reason = each.reason or reason
        for value in list(self.parent):
            if (top := self.find(value)) in found:
                found[top].members.add(value)
        for each in found.values():
            each.reason = each.reason or self.shared_value(each, uses)
        return list(found.values())

    def shared_value(self, each: _Accumulator, uses: Counter[Value]) -> str:
        """Why the values do not come one after the other."""
        for gemm in each.gemms:
            if gemm.c not in each.members and not _zeros(gemm.c):
                return "something else is computed on its accumulator"
        starts = [
            v for loop in self.loops for v, arg in zip(loop.init, loop.carried, strict=True) if arg in each.members
        ]
        if not all(v in each.members or _zeros(v) for v in starts):
            return "something else is computed on its accumulator"
        ends = [
            v
            for loop in self.loops
            for v, arg in zip(loop.body.yielded, loop.carried, strict=True)
            if arg in each.members
        ]
        if not all(v in each.members or _zeros(v) for v in ends):
            return "something else is computed on its accumulator"
        for value in each.members:
            if self.handed[value] > 1:
                return "its accumulator goes on in two ways"
            if uses[value] > self.handed[value] and isinstance(value.owner, Block):
                return "its accumulator is read while the loop goes on"
        return ""

    def block(self, block: Block, around: str) -> None:
        for op in block.ops:
            if type(op) is tile.Gemm:
                self.parent.setdefault(op.result, op.result)
                self.join(op.c, op.result)
                self.handed[op.c] += 1
                self.gemms.append((op, around or misfit_of(op, self.kernel.threads, self.target, self.facts)))
            elif isinstance(op, control.For):
                self.loops.append(op)
                for row in zip(op.init, op.carried, op.body.yielded, op.results, strict=True):
                    if row[1].type == row[3].type and hasattr(row[1].type, "layout"):
                        self.parent.setdefault(row[1], row[1])
                        self.handed.update((row[0], row[2]))
                        for other in (row[0], row[2], row[3]):
                            self.join(other, row[1])
                self.block(op.body, around)
            else:
                for region in op.regions:
                    self.block(region, f"it stands under `{op.mnemonic}`")

    def find(self, value: Value) -> Value:
        while (above := self.parent.get(value, value)) is not value:
            value = above
        return value

    def join(self, one: Value, other: Value) -> None:
        """Values that are one accumulator; what is no gemm's, no loop's is none."""
        if isinstance(one.owner, Block | tile.Gemm | control.For):
            self.parent.setdefault(one, one)
            a, b = self.find(one), self.find(other)
            if a is not b:
                self.parent[a] = b


def _zeros(value: Value) -> bool:
    return isinstance(value.op, tile.Splat) and constant_of(value.op.value) == 0


# The rewriting ------------------------------------------------------------------------------------------------------


class _Rewrite:
    """`flags`: the bool that a member has become; `tiles`: the tile that its readers get."""

    def __init__(self, chosen: list[_Accumulator]) -> None:
        self.chosen = chosen
        self.of = {value: each for each in chosen for value in each.members}
        self.gemms = {gemm: each for each in chosen for gemm in each.gemms}
        self.flags: dict[Value, Value] = {}
        self.tiles: dict[Value, Value] = {}
        self.read: set[Value] = set()
        self.around: dict[Op, tuple[control.For, ...]] = {}
        self.b = Builder(Block())

    def whole(self, body: Block, columns: int) -> None:
        uses = Counter(v for op in body.walk() for v in op.operands)
        for op in body.walk():
            if isinstance(op, control.For):
                uses.subtract(v for v, arg in zip(op.init, op.carried, strict=True) if arg in self.of)
                uses.subtract(v for v, arg in zip(op.body.yielded, op.carried, strict=True) if arg in self.of)
            elif op in self.gemms:
                uses[op.c] -= 1
        self.read = {v for v in self.of if uses[v] > 0}
        for value in self.read:
            self.of[value].read.add(value)
        self._place(body, ())
        b, setup = self.b, Block()
        with b.inside(setup), b.because(self.why("tensor memory for accumulators")):
            memory = b.emit(blackwell.TensorMemory(columns)).result
            column = 0
            for each in self.chosen:
                t = BufferType("tmem", each.shape, each.gemms[0].c.dtype)
                each.buffer = b.emit(blackwell.TensorAlloc(memory, t, column)).result
                each.buffer.name = each.gemms[0].c.name or "accumulator"
                column += each.columns
            phase = b.constant(0)
        self.block(body, phase)
        end = [body.ops.pop()] if body.terminator is not None else []
        last = Block()
        with b.inside(last), b.because(self.why("tensor memory is given back")):
            buffers = tuple(each.buffer for each in self.chosen if each.buffer is not None)
            b.emit(blackwell.TensorFree(memory, buffers, columns))
        body.ops = [*setup.ops, *body.ops, *last.ops, *end]

    def _place(self, block: Block, loops: tuple[control.For, ...]) -> None:
        """The loops around each operation."""
        for op in block.ops:
            self.around[op] = loops
            for region in op.regions:
                self._place(region, (*loops, op) if isinstance(op, control.For) else loops)

    def why(self, reason: str) -> Origin:
        return Origin("tensor_memory", reason, places(gemm.loc for gemm in self.gemms))

    def block(self, block: Block, phase: Value) -> Value:
        """Rewrites a block, in which the first product ends a phase of this parity; the parity behind it."""
        ops: list[Op] = []
        for op in block.ops:
            if op in self.gemms:
                made = Block()
                with self.b.inside(made):
                    phase = self.gemm(op, phase)
                ops += made.ops
            elif isinstance(op, control.For) and self.concerns(op):
                begin, end = Block(), Block()
                with self.b.inside(begin):
                    self.loop(op, phase)
                phase = op.results[-1]
                with self.b.inside(end):
                    for result, first, last in zip(op.results, op.init, op.body.yielded, strict=True):
                        if result in self.of:
                            self.flags[result] = self.written(op, result, first, last)
                            self.load(result, self.flags[result], op)
                ops += [*begin.ops, op, *end.ops]
            elif isinstance(op, control.Yield):
                ops.append(op)  # of the loop, which makes a new one
            else:
                self.replace(op)
                ops.append(op)
        block.ops = ops
        return phase

    def concerns(self, op: control.For) -> bool:
        """Whether a loop hands accumulators on, or has products in it."""
        return any(arg in self.of for arg in op.carried) or any(inner in self.gemms for inner in op.body.walk())

    def replace(self, op: Op) -> None:
        for inner in op.walk():
            inner.replace_operands(lambda v: self.tiles.get(v, v))

    def flag(self, value: Value) -> Value:
        """The bool that stands for a value which is handed on."""
        return self.flags[value] if value in self.of else self.b.constant(False, bool_)

    def written(self, op: control.For, result: Value, first: Value, last: Value) -> Value:
        """The bool behind a loop. Where each turn ends with a product, it is known without the loop."""
        if constant_of(last) is not True:
            return result
        ran = self.b.compare("lt", op.lower, op.upper)
        return ran if constant_of(first) is False else self.b.value(arith.Or(first, ran))

    def gemm(self, op: tile.Gemm, phase: Value) -> Value:
        b, each = self.b, self.gemms[op]
        assert each.buffer is not None
        b.loc = op.loc
        accumulate = self.flag(op.c)
        if op.scale_d is not None:
            accumulate = b.and_(op.scale_d, accumulate)
        b.emit(
            blackwell.TensorGemm(
                op.a,
                op.a_indices,
                op.b,
                op.b_indices,
                each.buffer,
                accumulate,
                op.depth,
                phase=phase,
                a_slot=op.a_slot,
                b_slot=op.b_slot,
                transpose_a=op.transpose_a,
                transpose_b=op.transpose_b,
                a_dims=op.a_dims,
                b_dims=op.b_dims,
                reused=each.is_reused(op, self.around),
            )
        )
        self.flags[op.result] = b.constant(True, bool_)
        self.load(op.result, self.flags[op.result], op)
        return b.xor(phase, 1)

    def load(self, value: Value, written: Value, op: Op) -> None:
        """A tile for those that read a value."""
        if value in self.read:
            self.b.loc = op.loc
            tile_ = self.b.emit(blackwell.TensorLoad(self.buffer(value), written)).result
            tile_.name = value.name
            self.tiles[value] = tile_

    def buffer(self, value: Value) -> Value:
        found = self.of[value].buffer
        assert found is not None
        return found

    def loop(self, op: control.For, phase: Value) -> None:
        """Of what a loop carries, members become bools; the parity comes behind."""
        op.init = (
            *(
                self.flag(v) if arg in self.of else self.tiles.get(v, v)
                for v, arg in zip(op.init, op.carried, strict=True)
            ),
            phase,
        )
        for n, arg in enumerate(op.carried):
            if arg in self.of:
                arg.type = BOOL
                self.flags[arg] = arg
                op.results[n].type = BOOL
                self.flags[op.results[n]] = op.results[n]
        members = [arg in self.of for arg in op.carried]
        inner = op.body.add_arg(I32, "phase")
        result = Value(I32, op, len(op.results), "phase")
        op.results = (*op.results, result)
        last = self.block(op.body, inner)
        end = op.body.terminator
        assert isinstance(end, control.Yield)
        made = Block()
        with self.b.inside(made):
            values = [
                self.flag(v) if member else self.tiles.get(v, v) for v, member in zip(end.values, members, strict=True)
            ]
        op.body.ops[-1:] = [*made.ops, control.Yield((*values, last))]
