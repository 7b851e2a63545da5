"""Gemms that no other pass has issued: as wgmma where the rule of `async_gemms.py` says so, awaited at once or, in
programs with explicit synchronisation, where their results are used.

    %c1 = gemm %As, %Bs, %c                        %f1, %t1 = async_gemm %As, %Bs, %c
                                             →     %c1 = await %f1, %t1

    for … [%z] (%k, %c) {                          %n = no_token
      barrier_wait …                               for … [%z, %n] (%k, %c, %t) {
      %c1 = gemm %As, %Bs, %c {in_flight}            barrier_wait …
      wait_gemms {pending = 1}               →       %c1, %t1 = async_gemm %As, %Bs, %c
      barrier_arrive …                               wait_gemms {pending = 1} ; barrier_arrive …
      yield %c1                                      yield %c1, %t1
    }                                              }
    store %r, %C[…]                                %d = await %r, %u ; store %d, %C[…]

These are the gemms of kernels that `warp_specialize` and `tma_multistage` have left alone: outside of pipelined loops,
in loops whose copies TMA cannot make, in programs with explicit roles. `sink_wgmma_waits` comes next.

A product that the program issues in flight (T.wgmma_gemm) stays so through loops and branches, as an accumulator of
further products; any other use awaits it. When its operands in shared memory are free again is the program's business
(T.wait_wgmma). `resolve_wait_counts` finds out which of the waits inserted here are covered by those of the program.

Explicit stores have read their shared memory before a role ends: a wait stands there.

Where wgmma does not fit, T.gemm is left to mma.sync, and a note says why; T.wgmma_gemm is an error that does.
"""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import control, explicit, roles, tile
from minitile.ir.origin import ACCUMULATOR, Origin, places
from minitile.ir.types import WGMMA_TOKEN, BufferType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.async_gemms import choose, issue


def lower_manual_wgmma(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not context.target.has("tma"):
        return
    _finish_stores(control.find_launch(kernel).body)
    if not context.target.has("wgmma") and not any(isinstance(op, tile.Gemm) and op.in_flight for op in kernel.walk()):
        return
    choice = choose(kernel, context.rules)
    for gemm, why in choice.refused.items():
        if gemm.in_flight:
            raise LanguageError(f"T.wgmma_gemm: {why}", gemm.loc, "T.gemm multiplies by other instructions")
        if context.target.has("wgmma"):
            context.notes.append(f"T.gemm{_where(gemm)} is mma.sync, not wgmma: {why}")
    if choice.chosen:
        for op in choice.rounding.writers(choice.chosen):
            op.tf32 = True  # type: ignore[attr-defined]
        _Flights(set(choice.chosen)).block(kernel.body, {})


def _where(op: Op) -> str:
    return f" of line {op.loc.line}" if op.loc is not None else ""


def _finish_stores(block: Block) -> None:
    """Stores that the program leaves in flight have read shared memory before their role ends."""
    parts = [r for op in block.ops if isinstance(op, explicit.WarpGroups) for r in op.regions]
    for part in parts:
        _finish_stores(part)
    inside = {inner for part in parts for inner in part.walk()}
    if any(isinstance(op, explicit.BulkStore) and op not in inside for op in block.walk()):
        end = [block.ops.pop()] if block.terminator is not None else []
        last = block.ops[-1]
        if not (isinstance(last, explicit.WaitStores) and last.pending == 0):
            wait = explicit.WaitStores(0, reads=True)
            stores = places(op.loc for op in block.walk() if isinstance(op, explicit.BulkStore) and op not in inside)
            wait.why = Origin(
                "lower_manual_wgmma", "WAR: shared memory is read before it goes away with the role", stores
            )
            block.ops.append(wait)
        block.ops += end


class _Flights:
    """`tokens` maps each value in flight to the token that completes it."""

    def __init__(self, chosen: set[Op]) -> None:
        self.chosen = chosen
        self.flying: set[Value] = set()  # values that may be in flight: found in a first walk, to a fixed point
        self.names: dict[Value, Value] = {}

    def block(self, block: Block, tokens: dict[Value, Value]) -> None:
        while self.find(block):
            pass
        self.rewrite(block, tokens)

    # Which values are in flight ------------------------------------------------------------------------------------

    def find(self, block: Block) -> bool:
        before = len(self.flying)
        for op in block.ops:
            for region in op.regions:
                self.find(region)
            if op in self.chosen and self.may_leave(op):
                self.flying.add(op.results[0])
            elif isinstance(op, control.For):
                self.link(op.carried, op.init, op.body.yielded)
                self.link(op.results, op.init, op.body.yielded)
            elif isinstance(op, control.If):
                self.link(op.results, op.then.yielded, op.orelse.yielded)
        return len(self.flying) > before

    def may_leave(self, op: Op) -> bool:
        """Whether a product may be in flight when its block ends: not where it reads registers, which are written again
        in the next round."""
        assert isinstance(op, tile.Gemm)
        return op.in_flight and isinstance(op.a.type, BufferType)

    def link(self, to: tuple[Value, ...], *sources: list[Value] | tuple[Value, ...]) -> None:
        for n, value in enumerate(to):
            if any(source[n] in self.flying for source in sources):
                self.flying.add(value)

    # Rewriting -----------------------------------------------------------------------------------------------------

    def rewrite(self, block: Block, tokens: dict[Value, Value]) -> None:
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            b.loc = op.loc
            if op in self.chosen:
                self.issue(b, op, tokens)
            elif isinstance(op, control.For):
                self.loop(b, op, tokens)
            elif isinstance(op, control.If):
                self.branch(b, op, tokens)
            else:
                self.settle(b, op, tokens)
                for region in op.regions:
                    self.rewrite(region, tokens)
                block.ops.append(op)

    def name(self, value: Value) -> Value:
        return self.names.get(value, value)

    def settle(self, b: Builder, op: Op, tokens: dict[Value, Value]) -> None:
        """Await what an operation, or what is inside of it, uses."""
        op.replace_operands(lambda v: self.landed(b, v, tokens))

    def landed(self, b: Builder, value: Value, tokens: dict[Value, Value]) -> Value:
        """A value that has landed."""
        value = self.name(value)
        token = tokens.get(value)
        if token is None:
            return value
        with b.because(Origin("lower_manual_wgmma", ACCUMULATOR)):
            done = b.emit(roles.Await(value, token)).result
        done.name = value.name
        return done

    def issue(self, b: Builder, op: Op, tokens: dict[Value, Value]) -> None:
        assert isinstance(op, tile.Gemm)
        operands = {name: self.landed(b, getattr(op, name), tokens) for name in ("a", "b")}
        gemm = issue(b, op, **operands, c=self.name(op.c))
        if op.in_flight:
            self.names[op.result] = gemm.results[0]
            tokens[gemm.results[0]] = gemm.results[1]
            return
        with b.because(Origin("lower_manual_wgmma", ACCUMULATOR)):
            done = b.emit(roles.Await(*gemm.results)).result
        done.name = op.result.name
        self.names[op.result] = done

    def token(self, b: Builder, value: Value, tokens: dict[Value, Value]) -> Value:
        found = tokens.get(value)
        return b.emit(tile.NoToken(counter="wgmma")).result if found is None else found

    def loop(self, b: Builder, op: control.For, tokens: dict[Value, Value]) -> None:
        op.replace_operands(self.name)
        carried = [n for n, v in enumerate(op.carried) if v in self.flying]
        landing = [n for n in range(len(op.init)) if n not in carried]
        op.init = tuple(self.landed(b, v, tokens) if n in landing else v for n, v in enumerate(op.init))
        entering = [self.token(b, op.init[n], tokens) for n in carried]
        args = op.carried
        inner = dict(tokens)
        for n in carried:
            inner[args[n]] = op.body.add_arg(WGMMA_TOKEN, "flight")
        self.region(op.body, inner, carried)
        op.init = (*op.init, *entering)
        self.finish(b, op, tokens, carried)

    def branch(self, b: Builder, op: control.If, tokens: dict[Value, Value]) -> None:
        self.settle(b, op, tokens)
        flying = [n for n, v in enumerate(op.results) if v in self.flying]
        for region in op.regions:
            self.region(region, dict(tokens), flying)
        self.finish(b, op, tokens, flying)

    def finish(self, b: Builder, op: control.Structured, tokens: dict[Value, Value], flying: list[int]) -> None:
        """A loop or branch whose regions hand on tokens behind their values."""
        first = len(op.results)
        op.results = (*op.results, *[Value(WGMMA_TOKEN, op, first + i) for i in range(len(flying))])
        b.block.ops.append(op)
        for i, n in enumerate(flying):
            tokens[op.results[n]] = op.results[first + i]

    def region(self, block: Block, tokens: dict[Value, Value], flying: list[int]) -> None:
        """A region that hands on the values number `flying` with their tokens, and others landed."""
        end = block.ops.pop() if block.terminator is not None else control.Yield(())
        assert isinstance(end, control.Yield)
        self.rewrite(block, tokens)
        b = Builder(block, end.loc)
        values = [self.name(v) if n in flying else self.landed(b, v, tokens) for n, v in enumerate(end.values)]
        end.values = (*values, *[self.token(b, values[n], tokens) for n in flying])
        block.ops.append(end)
