"""The first fragments of the next iteration are loaded before the last multiplication of this one.

    for … (%k, %c, %t0, %t1) {                     %f = if %trips { wait %t0 ; ldmatrix slot 0 … } orelse { zeros }
      wait %t0                                     for … (%k, %c, %t0, %t1, %f) {
      %f = ldmatrix slot(%k) …                       %c1 = mma_sync %f, %c
      %c1 = mma_sync %f, %c                  ->      %g = ldmatrix slot(%k) …
      %g = ldmatrix slot(%k) …                       wait %t1
      %c2 = mma_sync %g, %c1                         %f1 = ldmatrix slot(%k + 1) …
      %t2 = join …                                   %c2 = mma_sync %g, %c1
      yield %c2, %t1, %t2                            %t2 = join …
    }                                                yield %c2, %t1, %t2, %f1
                                                   }

So the wait, the barrier that follows it and the latency of ldmatrix hide behind the tensor cores instead of standing
between two iterations. Only for loops of nothing but loads, multiplications and asynchronous copies, with a token for
the next iteration at hand (three versions or more).

In the last iteration there is no next one. Its load reads the slot at hand once more instead of one that may never
have been written; the analyses are told the slot of the rule (`slot`), since no iteration follows whose accesses
could tell."""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, thread, tile
from minitile.ir.rewrite import clone, rewrite_loops
from minitile.ir.types import dtype_of
from minitile.transforms.manager import PassContext

Read = thread.LdMatrix | thread.LoadMem


def prefetch_fragments(kernel: Kernel, context: PassContext) -> None:
    """The pass. Not for LDS-DMA: the earlier wait would leave one iteration's copies fewer under way, and LLVM moves
    the reads up by itself."""
    if not context.target.has("cp_async"):
        return
    rewrite_loops(kernel.body, lambda loop, before: _Rotation(loop, before).run())


class _Rotation:
    """One loop; `before` is what stands in front of it."""

    def __init__(self, loop: control.For, before: Block) -> None:
        self.loop, self.before = loop, before
        self.ops = loop.body.ops
        self.place = {op: n for n, op in enumerate(self.ops)}
        multiplications = [op for op in self.ops if isinstance(op, thread.MmaSync)]
        self.first = multiplications[0] if multiplications else None
        self.last = multiplications[-1] if multiplications else None

    def run(self) -> None:
        if self.first is None or self.last is None or not all(_is_plain(op) for op in self.ops):
            return
        waits = [op for op in self.ops if isinstance(op, tile.Wait)]
        head = self.head(self.first, waits)
        reads = [op for op in head if isinstance(op, (thread.LdMatrix, thread.LoadMem))]
        end = self.loop.body.terminator
        if not waits or not reads or end is None or any(self.place[w] > self.place[self.first] for w in waits):
            return
        next_of = dict(zip(self.loop.carried, end.operands, strict=True))
        if any(w.token not in next_of for w in waits):
            return  # awaited where it was issued: nothing is under way for the next iteration
        inputs = [v for op in head for v in op.operands if v in next_of]
        if any(self.place.get(next_of[v].op, -1) >= self.place[self.last] for v in inputs):  # type: ignore[arg-type]
            return  # not known yet where it would be needed
        starts = self.before_loop(head, reads)
        self.in_loop(head, reads, next_of, starts)

    def head(self, first: thread.MmaSync, waits: list[tile.Wait]) -> list[Op]:
        """The waits and what the first multiplication's fragments are made of, in order."""
        wanted: set[Value] = {first.a, first.b}
        found: list[Op] = []
        for op in reversed(self.ops[: self.place[first]]):
            if op in waits or any(r in wanted for r in op.results):
                found.append(op)
                wanted.update(op.operands)
        return found[::-1]

    def before_loop(self, head: list[Op], reads: list[Read]) -> tuple[Value, ...]:
        """The first iteration's fragments, if there is one; else zeros."""
        loop = self.loop
        b = Builder(self.before, loop.loc)
        trips = b.compare("lt", loop.lower, loop.upper)
        then, orelse = Block(), Block()
        names = dict(zip(loop.carried, loop.init, strict=True)) | {loop.iv: loop.lower}
        then.ops = [clone(op, names) for op in head]
        with b.inside(then):
            b.emit(control.Yield(tuple(names[r.result] for r in reads)))
        with b.inside(orelse):
            b.emit(control.Yield(tuple(_zeros(b, r.result) for r in reads)))
        return b.emit(control.If(trips, then=then, orelse=orelse)).results

    def in_loop(
        self, head: list[Op], reads: list[Read], next_of: dict[Value, Value], starts: tuple[Value, ...]
    ) -> None:
        loop, body = self.loop, self.loop.body
        carried = [body.add_arg(r.result.type, r.result.name) for r in reads]
        loop.init = (*loop.init, *starts)
        more = [Value(v.type, loop, len(loop.results) + n, v.name) for n, v in enumerate(starts)]
        loop.results = (*loop.results, *more)
        renamed = dict(zip((r.result for r in reads), carried, strict=True))
        new: list[Op] = []
        fetched: list[Value] = []
        for op in self.ops:
            if op is self.last:
                fetched = self.fetch(new, head, reads, next_of)
            if isinstance(op, tile.Wait) or op in reads:
                continue
            op.replace_operands(lambda v: renamed.get(v, v))
            new.append(op)
        end = new[-1]
        assert isinstance(end, control.Yield)
        end.values = (*end.values, *fetched)
        body.ops = new

    def fetch(self, into: list[Op], head: list[Op], reads: list[Read], next_of: dict[Value, Value]) -> list[Value]:
        """The head again, for the iteration to come; reads go to this iteration's slot when none comes."""
        loop = self.loop
        b = Builder(Block(ops=into), loop.loc)
        following = b.value(arith.Add(loop.iv, loop.step))
        more = b.compare("lt", following, loop.upper)
        names = dict(next_of) | {loop.iv: following}
        slots = {r.slot for r in reads if r.slot is not None}
        true_slot: dict[Value, Value] = {}

        def stay(slot: Value) -> None:
            true_slot[slot] = names[slot]
            names[slot] = b.select(more, names[slot], slot)

        for slot in [
            v for v in names if v in slots
        ]:  # the loop's own variable, where it has fewer rounds than versions
            stay(slot)
        for op in head:
            copy = b.emit(clone(op, names))
            if isinstance(op, (thread.LdMatrix, thread.LoadMem)) and op.slot in true_slot:
                copy.slot = true_slot[op.slot]  # type: ignore[attr-defined]
            for result in op.results:
                if result in slots:
                    stay(result)
        return [names[r.result] for r in reads]


def _is_plain(op: Op) -> bool:
    if isinstance(op, thread.LoadMem):
        return op.space == "shared"
    kinds = (thread.LdMatrix, thread.MmaSync, thread.CpAsync, tile.Join, tile.Wait, tile.NoToken, control.Yield)
    return op.pure or isinstance(op, kinds)


def _zeros(b: Builder, like: Value) -> Value:
    dtype = dtype_of(like.type)
    zero = b.constant(0.0 if dtype.is_float else 0, dtype)
    count = thread.count_of(like.type)
    return zero if count == 1 else b.emit(thread.Pick(zero, (0,) * count)).result
