"""Accumulators of gemms go to tensor memory: a pass on tile IR, behind `software_pipeline`.

    for … [%z] (%k, %c) {                     %m = tensor_memory {columns = 128} ; %d = tensor_alloc %m
      %c1 = gemm %As, %Bs, %c                 for … [false, 0] (%k, %written, %p) {
      yield %c1                        →        tensor_gemm %As, %Bs, %d, %written, %p
    }                                           yield true, %p ^ 1
    store %r, %C[…]                           }
                                              %t = tensor_load %d, %w ; store %t, %C[…] ; tensor_free %m, %d

An accumulator is the values that are handed on from gemm to gemm, around loops and out of them. It becomes a buffer;
each of the values becomes a bool, whether the buffer has been written yet. That is right because each value is handed
on once at most, and what reads one gets a tile that is loaded (`tensor_load`) where the value comes about; what a loop
hands on is loaded where a turn first reads it, or adds to it. Anything else that a product adds to, or that goes on as
an accumulator, is a tile, which is stored first (`tensor_store`): attention's output, once its rows are scaled. A
factor A that is a tile is stored as well, and read from tensor memory.

A gemm is left to mma.sync, with a note, where its shapes or operands are not for tcgen05 (`products.misfit_of`), where
its accumulator goes on in two ways or stands under a branch, or where tensor memory does not suffice. Which columns a
buffer has is columns.py's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from minitile.analysis.affine import Facts
from minitile.analysis.tf32_rounding import Rounding
from minitile.backends.nvidia.blackwell.accumulators import Accumulator, is_tile, is_zeros
from minitile.backends.nvidia.blackwell.columns import Layout, place
from minitile.backends.nvidia.blackwell.explicit import lower_explicit
from minitile.backends.nvidia.blackwell.products import misfit_of
from minitile.backends.nvidia.blackwell.scale_images import Image, images
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, blackwell, control, roles, tile
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import recast
from minitile.ir.types import BOOL, I32, BufferType, DType, bool_, f32


def tensor_memory(kernel: Kernel, context: Any) -> None:
    """The pass."""
    if kernel.attrs.get("explicit_sync"):
        left = (op for op in kernel.walk() if isinstance(op, tile.Gemm))
        context.notes += [
            f"T.gemm{_where(op)} is mma.sync, not tcgen05: the program orders threads by itself" for op in left
        ]
        lower_explicit(kernel, context.target)
        return
    body = _body(control.find_launch(kernel))
    search = _Search(kernel, context.target)
    found = search.run(body)
    layout = place(body, [each for each in found if not each.reason])
    for each in found:
        for gemm in each.gemms if each.reason else ():
            if gemm.scaled:
                raise TargetError(f"T.gemm_blockscaled: {each.reason}", gemm.loc, "only tcgen05 takes scales here")
            context.notes.append(f"T.gemm{_where(gemm)} is mma.sync, not tcgen05: {each.reason}")
    chosen = [each for each in found if not each.reason]
    if chosen:
        for writer in search.rounding.writers(gemm for each in chosen for gemm in each.gemms):
            writer.tf32 = True  # type: ignore[attr-defined]
        rings = [op for op in kernel.walk() if isinstance(op, roles.MbarrierPipeline)]
        _Rewrite(chosen, layout).whole(body, rings)
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
        self.facts, self.rounding = Facts(kernel), Rounding(kernel)
        self.parent: dict[Value, Value] = {}
        self.handed: Counter[Value] = Counter()  # so often is a value handed on
        self.gemms: list[tuple[tile.Gemm, str]] = []
        self.loops: list[control.For] = []
        self.branch: dict[Op, Block | None] = {}  # of a gemm or loop: the innermost branch around it
        self.left: set[Value] = set()  # what branches hand on

    def run(self, body: Block) -> list[Accumulator]:
        self.block(body, "", None)
        found: dict[Value, Accumulator] = {}
        for gemm, reason in self.gemms:
            each = found.setdefault(self.find(gemm.result), Accumulator())
            each.gemms.append(gemm)
            each.reason = each.reason or reason
        for value in list(self.parent):
            if (top := self.find(value)) in found:
                found[top].members.add(value)
        for each in found.values():
            each.loops = [loop for loop in self.loops if not each.members.isdisjoint(loop.carried)]
            each.reason = each.reason or self.shared_value(each)
        return list(found.values())

    def shared_value(self, each: Accumulator) -> str:
        """Why the values do not come one after the other, in one place."""
        for value in each.members:
            if self.handed[value] > 1:
                return "its accumulator goes on in two ways"
        if len({self.branch[op] for op in (*each.gemms, *each.loops)}) > 1 or not each.members.isdisjoint(self.left):
            return "its accumulator goes into a branch, or out of it"
        return ""

    def block(self, block: Block, around: str, branch: Block | None) -> None:
        for op in block.ops:
            self.branch[op] = branch
            if type(op) is tile.Gemm:
                self.parent.setdefault(op.result, op.result)
                self.join(op.c, op.result)
                self.handed[op.c] += 1
                why = misfit_of(op, self.kernel.threads, self.target, self.facts, self.rounding)
                self.gemms.append((op, around or why))
            elif isinstance(op, control.For):
                self.loops.append(op)
                for row in zip(op.init, op.carried, op.body.yielded, op.results, strict=True):
                    if row[1].type == row[3].type and hasattr(row[1].type, "layout"):
                        self.parent.setdefault(row[1], row[1])
                        self.handed.update((row[0], row[2]))
                        for other in (row[0], row[2], row[3]):
                            self.join(other, row[1])
                self.block(op.body, around, branch)
            elif isinstance(op, control.If):
                for region in op.regions:
                    self.left.update(region.yielded)
                    self.block(region, around, region)
            else:
                for region in op.regions:
                    self.block(region, f"it stands under `{op.mnemonic}`", branch)

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


# The rewriting ------------------------------------------------------------------------------------------------------


class _Rewrite:
    """`flags`: the bool that a member has become; `tiles`: the tile that its readers get."""

    def __init__(self, chosen: list[Accumulator], layout: Layout) -> None:
        self.chosen, self.layout = chosen, layout
        self.operands: dict[tile.Gemm, Value] = {}  # where factors that are tiles go
        self.scales: dict[tile.Gemm, tuple[Value, Value]] = {}  # and scales of blocks
        self.images: dict[Value, Image] = {}  # scales that are copied from shared memory
        self.imaged: set[Op] = set()  # and what made tiles of those
        self.of = {value: each for each in chosen for value in each.members}
        self.gemms: dict[Op, Accumulator] = {gemm: each for each in chosen for gemm in each.gemms}
        self.flags: dict[Value, Value] = {}
        self.tiles: dict[Value, Value] = {}
        self.read: set[Value] = set()
        self.around: dict[Op, tuple[control.For, ...]] = {}
        self.b = Builder(Block())

    def whole(self, body: Block, rings: Sequence[roles.MbarrierPipeline]) -> None:
        uses = Counter(v for op in body.walk() for v in op.operands)
        for op in body.walk():
            if isinstance(op, control.For):
                uses.subtract(v for v, arg in zip(op.init, op.carried, strict=True) if arg in self.of)
                uses.subtract(v for v, arg in zip(op.body.yielded, op.carried, strict=True) if arg in self.of)
            elif isinstance(op, tile.Gemm) and op in self.gemms:
                uses[op.c] -= 1
        self.read = {v for v in self.of if uses[v] > 0}
        for value in self.read:
            self.of[value].read.add(value)
        self._place(body, ())
        b, setup = self.b, Block()
        with b.inside(setup), b.because(self.why("tensor memory for accumulators")):
            memory = b.emit(blackwell.TensorMemory(self.layout.columns)).result
            buffers: dict[object, Value] = {}
            for each in self.chosen:
                name = each.gemms[0].c.name or "accumulator"
                each.buffer = self.alloc(memory, each, name, each.shape, each.gemms[0].c.dtype, buffers)
            for gemm in (op for each in self.chosen for op in each.gemms if is_tile(op.a)):
                shape = gemm.a.shape[0], gemm.a.shape[1]
                self.operands[gemm] = self.alloc(memory, gemm, gemm.a.name or "a", shape, gemm.a.dtype, buffers)
            for gemm in (op for each in self.chosen for op in each.gemms if op.scaled):
                places = [
                    self.alloc(memory, (gemm, name), name, (v.shape[0], v.shape[1]), v.dtype, buffers)
                    for name, v in (("a_scale", gemm.a_scale), ("b_scale", gemm.b_scale))
                    if v is not None
                ]
                self.scales[gemm] = places[0], places[1]
            self.images = images(body, [gemm for each in self.chosen for gemm in each.gemms], rings)
            self.imaged = {op for each in self.images.values() for op in each.ops}
            phase = b.constant(0)
        self.block(body, phase)
        end = [body.ops.pop()] if body.terminator is not None else []
        last = Block()
        with b.inside(last), b.because(self.why("tensor memory is given back")):
            b.emit(blackwell.TensorFree(memory, tuple(buffers.values()), self.layout.columns))
        body.ops = [*setup.ops, *body.ops, *last.ops, *end]

    def alloc(
        self, memory: Value, key: Any, name: str, shape: tuple[int, int], dtype: DType, known: dict[object, Value]
    ) -> Value:
        """The buffer of an accumulator or factor, or the one that it shares."""
        spot = self.layout.spots[key]
        if spot.number not in known:
            t = BufferType("tmem", shape, dtype)
            made = self.b.emit(blackwell.TensorAlloc(memory, t, spot.column, spot.stride)).result
            made.name, known[spot.number] = name, made
        return known[spot.number]

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
        waiting = [arg for arg in block.args if arg in self.read]
        for op in block.ops:
            for arg in [arg for arg in waiting if not op.terminator and self.touches(op, arg)]:
                waiting.remove(arg)
                with self.b.inside(Block()) as made:
                    self.load(arg, self.flags[arg], op)
                ops += made.ops
            if op in self.imaged:
                continue
            if isinstance(op, tile.Gemm) and op in self.gemms:
                with self.b.inside(Block()) as made:
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
            elif isinstance(op, control.If) and self.concerns(op):
                self.branch(op, phase)
                phase = op.results[-1]
                ops.append(op)
            elif isinstance(op, control.Yield):
                ops.append(op)  # of a loop or branch, which makes a new one
            else:
                self.replace(op)
                ops.append(op)
        block.ops = ops
        return phase

    def touches(self, op: Op, arg: Value) -> bool:
        """Whether an operation reads a value that a loop hands on, or changes its buffer."""
        each = self.of[arg]
        return any(
            arg in inner.operands
            or self.gemms.get(inner) is each
            or (isinstance(inner, control.For) and any(self.of.get(v) is each for v in inner.carried))
            for inner in op.walk()
        )

    def concerns(self, op: control.For | control.If) -> bool:
        """Whether a loop hands accumulators on, or it has products in it."""
        carried = op.carried if isinstance(op, control.For) else ()
        return any(arg in self.of for arg in carried) or any(inner in self.gemms for inner in op.walk())

    def branch(self, op: control.If, phase: Value) -> None:
        """The parity comes behind what a branch hands on; accumulators are each one branch's alone."""
        op.condition = self.tiles.get(op.condition, op.condition)
        for region in op.regions:
            last = self.block(region, phase)
            end = [region.ops.pop()] if region.terminator is not None else []
            values = [self.tiles.get(v, v) for yielded in end for v in yielded.operands]
            region.ops.append(control.Yield((*values, last)))
        op.results = (*op.results, Value(I32, op, len(op.results), "phase"))

    def replace(self, op: Op) -> None:
        for inner in op.walk():
            inner.replace_operands(lambda v: self.tiles.get(v, v))

    def flag(self, value: Value, each: Accumulator) -> Value:
        """The bool that stands for a value which is handed on. A tile is stored."""
        if self.of.get(value) is each:
            return self.flags[value]
        if is_zeros(value):
            return self.b.constant(False, bool_)
        assert each.buffer is not None
        self.b.emit(blackwell.TensorStore(self.tiles.get(value, value), each.buffer))
        return self.b.constant(True, bool_)

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
        accumulate, a = self.flag(op.c, each), op.a
        if op.scale_d is not None:
            accumulate = b.and_(op.scale_d, accumulate)
        if op in self.operands:
            a = self.operands[op]
            b.emit(blackwell.TensorStore(self.tiles.get(op.a, op.a), a, tf32=a.dtype is f32))
        scales = self.scales.get(op, (None, None))
        sources: dict[str, Value | None] = {}
        stored = False
        for name, tile_, buffer in zip("ab", (op.a_scale, op.b_scale), scales, strict=True):
            if tile_ is None or buffer is None:
                continue
            if tile_ in self.images:
                load = self.images[tile_].load
                sources |= {f"{name}_scale_from": load.mem, f"{name}_scale_slot": load.slot}
            else:
                b.emit(blackwell.TensorStore(self.tiles.get(tile_, tile_), buffer, scales=True))
                stored = True
        b.emit(
            blackwell.TensorGemm(
                a,
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
                reused=stored or each.is_reused(op, self.around) or self.layout.shares(each),
                a_scale=scales[0],
                b_scale=scales[1],
                a_format=op.a_format,
                b_format=op.b_format,
                **sources,
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
                self.flag(v, self.of[arg]) if arg in self.of else self.tiles.get(v, v)
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
        members = [self.of.get(arg) for arg in op.carried]
        inner = op.body.add_arg(I32, "phase")
        result = Value(I32, op, len(op.results), "phase")
        op.results = (*op.results, result)
        last = self.block(op.body, inner)
        end = op.body.terminator
        assert isinstance(end, control.Yield)
        made = Block()
        with self.b.inside(made):
            values = [
                self.flag(v, each) if each else self.tiles.get(v, v)
                for v, each in zip(end.values, members, strict=True)
            ]
        op.body.ops[-1:] = [*made.ops, control.Yield((*values, last))]
