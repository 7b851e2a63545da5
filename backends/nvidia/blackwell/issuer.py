"""Products are issued by a warp of their own, ahead of those who load the accumulators: a pass behind `tensor_memory`.

    consumer {                                             issuer {
      for … [0, 0] (%t, %i, %p) {          a tile            for … (%t, %i, %p, %a, %f) {
        for … [false, %i, %p] (%k, …) {                        products_acquire %done, %a, %f
          consumer_wait %ring, %i, %p                          for … (%k, %written, %i, %p) {
          tensor_gemm %As, %Bs, %d, %written         →           consumer_wait %ring, %i, %p
          consumer_release %ring, %i                             tensor_gemm %As, %Bs, %d[%a], %written
        }                                                        products_release %ring, %i
        %c = tensor_load %d                                    }
        store %c, %C[…]                                        products_commit %done, %a
      }                                                    } }
    }                                                      consumer {
                                                             for … (%t, %a, %f) {
                                                               consumer_wait %done, %a, %f
                                                               %c = tensor_load %d[%a]
                                                               consumer_release %done, %a
                                                               store %c, %C[…]
                                                           } }

An accumulator is what a slot of TMA's ring is: the payload of a pipeline, which the issuer fills and the others release
once they have loaded it. Its barriers count what the hardware does: a commit is the one arrival that says "full". The
release of a slot of TMA's ring is a commit as well, at the slot's barrier. So only those wait for a product who load
it; and where the loads stand in a loop (tiles of a persistent kernel), an accumulator has two versions, if tensor
memory has the columns: while one is loaded and stored, products add to the other.

The part of each role is all that its own operations need (parts.py). Blocks of a cluster of two that have the same B
become a pair, with one issuer (pairs.py). Products stay with those who load them, with a note, where the issuer could
not do its part alone: an operand that threads write, an accumulator that goes on from tile to tile, slots that blocks
of another cluster fill in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitile.analysis.op_places import Places
from minitile.backends.nvidia.blackwell.layouts import columns_of, scale_columns
from minitile.backends.nvidia.blackwell.pair_rules import PAIR
from minitile.backends.nvidia.blackwell.pairs import make_pair, why_no_pair
from minitile.backends.nvidia.blackwell.parts import Part
from minitile.backends.nvidia.blackwell.shapes import COLUMNS, allocated
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, blackwell, control, roles, tile
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import recast, replace_ops
from minitile.ir.types import I32, BufferType, ScalarType, TensorType

WARP = 32
AHEAD = 2  # versions of an accumulator that is loaded in a loop


class _Refused(Exception):
    """Why products stay where they are."""


@dataclass(eq=False)
class _Accumulator:
    """The block whose every turn fills it and loads it; there the operations that hold its products, and its loads; the
    loops and branches around, inner ones first."""

    buffer: Value
    block: Block
    products: list[Op]
    loads: list[blackwell.TensorLoad]
    around: list[control.For | control.If]

    @property
    def repeats(self) -> bool:
        return any(op.repeats for op in self.around)

    @property
    def columns(self) -> int:
        return columns_of(self.buffer.type)


def issue_apart(kernel: Kernel, context: Any) -> None:
    """The pass."""
    launch = control.find_launch(kernel)
    apart = next((op for op in launch.body.ops if type(op) is roles.WarpSpecialized and op.producer_threads), None)
    if apart is None or not any(isinstance(op, blackwell.TensorGemm) for op in apart.consumer.walk()):
        return
    try:
        _Split(kernel, launch, apart).run()
    except _Refused as reason:
        context.notes.append(f"products are issued by those who load them: {reason}")


class _Split:
    def __init__(self, kernel: Kernel, launch: control.Launch, op: roles.WarpSpecialized) -> None:
        self.kernel, self.launch, self.op, self.body = kernel, launch, op, op.consumer
        self.places = Places(self.body)
        ops = list(self.places.block)
        self.gemms = [each for each in ops if isinstance(each, blackwell.TensorGemm)]
        self.pipelines = {
            each.result: each
            for each in launch.body.ops
            if isinstance(each, roles.MbarrierPipeline)
            and any(v in each.payload for gemm in self.gemms for v in gemm.shared())
        }
        self.copies = [
            each for each in op.producer.walk() if isinstance(each, roles.TmaCopy) and each.pipeline in self.pipelines
        ]
        self.pair = False
        self.b = Builder(Block())

    def run(self) -> None:
        self.check_operands()
        everything = [op for op in self.body.ops if isinstance(op, blackwell.TensorAlloc)]
        scales = {v for gemm in self.gemms for v in (gemm.a_scale, gemm.b_scale)}
        others = [op for op in everything if op.result in scales]
        allocs = [op for op in everything if op.result not in scales]
        found = [self.accumulator(op.result) for op in allocs]
        self.check_issuer()
        if self.pair:
            self.pipelines = make_pair((self.launch.body,), self.pipelines, self.copies, self.gemms)
        slots = self.placed(allocs, found, others)
        made = [self.pipeline(each, count) for each, count in zip(found, slots, strict=True)]
        memory = [op for op in self.body.ops if isinstance(op, blackwell.TensorMemory)]
        self.body.ops = [op for op in self.body.ops if op not in everything and op not in memory]
        for gemm in self.gemms:
            gemm.phase, gemm.reused = None, False  # the acquire is in front of what loads come before
        issuer = Part(self.body, self.is_issued).program(self.body)
        consumer = Part(self.body, lambda op: not self.is_issued(op)).program(self.body)
        self.assemble(issuer, consumer, memory, [*everything, *made])

    # What the issuer can do -----------------------------------------------------------------------------------------

    def check_operands(self) -> None:
        """All that reads the rings of products are products; all operands of those come by rings."""
        payload = {v for ring in self.pipelines.values() for v in ring.payload}
        for gemm in self.gemms:
            scales = gemm.a_scale, gemm.b_scale
            if not {v for v in scales if v is not None}.issubset(gemm.copied()):
                raise _Refused("threads write scales of blocks")
            for v in gemm.shared():
                if v not in payload:
                    raise _Refused(f"threads write {v.name or 'an operand'}")
        for op in self.places.block:
            if not isinstance(op, blackwell.TensorGemm) and not payload.isdisjoint(op.operands):
                raise _Refused(f"`{op.mnemonic}` reads what products read")
        self.pair = any(ring.common for ring in self.pipelines.values())
        if self.pair and (reason := why_no_pair(self.launch, self.copies, self.gemms)):
            raise _Refused(reason)

    def accumulator(self, buffer: Value) -> _Accumulator:
        name = buffer.name or "an accumulator"
        loads = [op for op in self.places.users[buffer] if isinstance(op, blackwell.TensorLoad)]
        if any(isinstance(op, blackwell.TensorStore) for op in self.places.users[buffer]):
            raise _Refused(f"threads write {name}")
        gemms = [op for op in self.gemms if op.d is buffer]
        blocks = {self.places.block[op] for op in loads}
        if len(blocks) != 1:
            raise _Refused(f"{name} is not loaded in one place")
        (block,) = blocks
        holders = [self.places.in_block(op, block) for op in gemms]
        if any(op is None for op in holders):
            raise _Refused(f"{name} is loaded in a turn of its own")
        products = sorted({op for op in holders if op is not None}, key=self.places.number.__getitem__)
        first = min(self.places.number[op] for op in loads)
        if self.places.number[products[-1]] > first:
            raise _Refused(f"{name} is loaded between its products")
        around = [op for op in self.places.all_around(loads[0]) if isinstance(op, control.For | control.If)]
        if len(around) < len(list(self.places.all_around(loads[0]))):
            raise _Refused(f"{name} is loaded in a loop of unknown length")
        if len({(g.a.dtype, g.b.dtype, g.transpose_a, g.transpose_b) for g in gemms}) > 1:
            raise _Refused(f"products of several kinds add to {name}, and are in no order")
        inside = {inner for op in products for inner in op.walk()} | set(block.ops)
        if not all(self.begins(op.accumulate, block, inside) for op in gemms):
            raise _Refused(f"{name} goes on from turn to turn")
        return _Accumulator(buffer, block, products, sorted(loads, key=self.places.number.__getitem__), around)

    def begins(self, flag: Value, block: Block, inside: set[Op]) -> bool:
        """Whether a bool, that an accumulator has been written, is of this turn of a block."""
        work, seen = [flag], set[Value]()
        while work:
            value = work.pop()
            if value in seen or constant_of(value) is not None:
                continue
            seen.add(value)
            op = self.places.parent.get(value.owner) if isinstance(value.owner, Block) else value.op
            if op is None or op not in inside or value.owner is block:
                return False
            if isinstance(op, control.Structured):
                work += op.column(value)[1]
            elif isinstance(op, arith.And | arith.Or | arith.Cmp):
                work += [v for v in op.operands if v.type == flag.type]
            else:
                return False
        return True

    def is_issued(self, op: Op) -> bool:
        """Whether an operation with effects is the issuer's."""
        mine = blackwell.TensorGemm | blackwell.ProductsAcquire | blackwell.ProductsCommit | blackwell.ProductsRelease
        if isinstance(op, roles.ConsumerWait | roles.ConsumerRelease):
            return op.pipeline in self.pipelines
        return isinstance(op, mine)

    def check_issuer(self) -> None:
        """One warp can do what its part is made of: scalars, loops, loads of what the kernel does not write."""
        written = {a.mem for op in self.kernel.walk() for a in op.accesses() if a.writes}
        part = Part(self.body, self.is_issued)
        for op in part.needed:
            if self.is_issued(op) or isinstance(op, control.Structured):
                continue
            known = op.pure and not op.uniform
            if isinstance(op, tile.Load):
                known = isinstance(op.mem.type, TensorType) and op.mem not in written
            allocs = isinstance(op, blackwell.TensorAlloc | blackwell.TensorMemory)
            if not allocs and not (known and all(isinstance(r.type, ScalarType) for r in op.results)):
                raise _Refused(f"they depend on `{op.mnemonic}`")

    # Accumulators as payload ----------------------------------------------------------------------------------------

    def placed(
        self,
        allocs: Sequence[blackwell.TensorAlloc],
        found: Sequence[_Accumulator],
        scales: Sequence[blackwell.TensorAlloc],
    ) -> list[int]:
        """How many versions each accumulator has; all get their columns, scales of blocks behind them."""
        total = sum(each.columns for each in found) + sum(scale_columns(op.type_.shape) for op in scales)
        slots = []
        for each in found:
            more = each.columns * (AHEAD - 1) if each.repeats else 0
            if total + more > COLUMNS:
                more = 0
            total += more
            slots.append(1 + more // each.columns)
        column = 0
        for op, each, count in zip(allocs, found, slots, strict=True):
            t = op.type_
            op.type_ = op.result.type = BufferType(t.space, t.shape, t.dtype, count)
            op.column, column = column, column + each.columns * count
        for op in scales:
            op.column, column = column, column + scale_columns(op.type_.shape)
        for other in self.body.ops:
            if isinstance(other, blackwell.TensorMemory | blackwell.TensorFree):
                other.columns = allocated(total)
        return slots

    def pipeline(self, each: _Accumulator, slots: int) -> roles.MbarrierPipeline:
        """The pipeline of an accumulator, and what either role does with it, in the program as it is."""
        threads = self.launch.threads * (PAIR if self.pair else 1)
        kind = blackwell.PairPipeline if self.pair else roles.MbarrierPipeline
        made = kind((each.buffer,), slots, threads)
        made.result.name = "accumulators"
        made.loc = each.loads[0].loc
        made.why = self.why(each, "mbarrier init")
        index, phase = self.state(each, slots)
        with self.b.inside(Block()) as before, self.b.because(self.why(each, "WAR: accumulator loaded")):
            if each.repeats:
                self.b.emit(blackwell.ProductsAcquire(made.result, index, phase))
        with self.b.inside(Block()) as behind, self.b.because(self.why(each, "products of the accumulator")):
            self.b.emit(blackwell.ProductsCommit(made.result, index))
        with self.b.inside(Block()) as full, self.b.because(self.why(each, "RAW: accumulator complete")):
            self.b.emit(roles.ConsumerWait(made.result, index, phase))
        with self.b.inside(Block()) as done, self.b.because(self.why(each, "WAR: accumulator loaded")):
            self.b.emit(roles.ConsumerRelease(made.result, index))
        ops: list[Op] = []
        for op in each.block.ops:
            ops += before.ops if op is each.products[0] else full.ops if op is each.loads[0] else []
            ops.append(op)
            ops += behind.ops if op is each.products[-1] else done.ops if op is each.loads[-1] else []
        each.block.ops = ops
        slot = index if slots > 1 else None
        for gemm in self.gemms:
            if gemm.d is each.buffer:
                gemm.d_slot = slot
        for load in each.loads:
            load.d_slot = slot
        return made

    def why(self, each: _Accumulator, reason: str) -> Origin:
        products, loads = (places(op.loc for op in ops) for ops in (each.products, each.loads))
        return Origin("issue_apart", reason, products, loads)

    def state(self, each: _Accumulator, slots: int) -> tuple[Value, Value]:
        """The slot and the phase at a turn of the accumulator's block, carried through what is around."""
        b, head = self.b, Block()
        with b.inside(head):
            state = b.constant(0), b.constant(0)
        self.body.ops = head.ops + self.body.ops
        outside: dict[Op, tuple[Value, Value]] = {}
        for op in reversed(each.around):
            outside[op] = state
            if isinstance(op, control.For):
                op.init = (*op.init, *state)
                state = op.body.add_arg(I32, "slot"), op.body.add_arg(I32, "phase")
        if not each.repeats:
            return state
        end = [each.block.ops.pop()] if each.block.terminator is not None else []
        with b.inside(each.block):
            if slots > 1:
                following = b.add(state[0], 1)
                wraps = b.compare("eq", following, slots)
                turn = b.select(wraps, b.xor(state[1], 1), state[1])
                last = b.select(wraps, b.constant(0), following), turn
            else:
                last = state[0], b.xor(state[1], 1)
        each.block.ops += end
        inner = each.block
        for op in each.around:
            for region in op.regions:
                _hand_on(region, last if region is inner else outside[op])
            number, inner = len(op.results), self.places.block[op]
            last = Value(I32, op, number, "slot"), Value(I32, op, number + 1, "phase")
            op.results = (*op.results, *last)
        return state

    def committed(self, op: Op) -> Op:
        """The issuer's releases are commits."""
        mine = isinstance(op, roles.ConsumerRelease) and op.pipeline in self.pipelines
        return recast(op, blackwell.ProductsRelease, generic=False) if mine else op

    # The roles --------------------------------------------------------------------------------------------------------

    def assemble(self, issuer: Block, consumer: Block, memory: Sequence[Op], made: Sequence[Op]) -> None:
        """Tensor memory is allocated and named in front of all roles; one commit releases a slot of TMA's ring."""
        replace_ops(issuer, self.committed)
        for ring in self.pipelines.values():
            ring.consumers = WARP
        ops = self.launch.body.ops
        at = ops.index(self.op)
        threads = max(self.op.producer_threads, 2 * WARP)
        parts = {"producer": self.op.producer, "consumer": consumer, "issuer": issuer}
        new = recast(self.op, blackwell.IssuerSpecialized, producer_threads=threads, pair=self.pair, **parts)
        self.kernel.attrs["producer_threads"] = threads
        ops[at : at + 1] = [*made, new]
        if self.pair:  # both blocks have loaded all
            last = [op for op in consumer.ops if isinstance(op, blackwell.TensorFree)]
            consumer.ops = [op for op in consumer.ops if op not in last]
            ops[at + len(made) + 1 : at + len(made) + 1] = last
        for op in (*memory, *ops):
            if isinstance(op, blackwell.TensorMemory | blackwell.TensorFree):
                op.pair = self.pair
        ops[:0] = memory


def _hand_on(region: Block, values: tuple[Value, ...]) -> None:
    """Of a loop or branch: more values at the region's end."""
    if region.terminator is None:
        region.ops.append(control.Yield(()))
    end = region.terminator
    assert isinstance(end, control.Yield)
    end.values = (*end.values, *values)
