"""Completes copies out of shared memory that are not waited for: on thread IR, before `allocate_shared_memory`.

    tma_store %s, …, %C               %t = tma_store %s, …, %C
                                ->    %u = join %t
                                      wait %u {reads = true}

A store by the copy engine is three steps: issue it, commit its group, and wait before the shared memory changes or goes
away (PTX ISA 8.3, 9.7.8.24.13 "cp.async.bulk.wait_group"). A token that reaches no wait, through joins, branches and
loops, gets what is missing right behind it. Where the kernel may access the tensor again, the wait is for the store to
be done, and not only for its source to have been read.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.types import BULK_TOKEN
from minitile.transforms.manager import PassContext


def insert_bulk_store_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    tokens = {r for op in kernel.walk() for r in op.results if r.type == BULK_TOKEN}
    if tokens:
        _Completion(kernel).block(kernel.body)


class _Completion:
    def __init__(self, kernel: Kernel) -> None:
        self.flows: dict[Value, list[Value]] = {}  # token: the tokens that it is made of
        self.users: dict[Value, set[Op]] = {}  # global memory: the operations that access it
        self.loops: set[Op] = set()  # what may run more than once
        self.waited: set[Value] = set()
        self.joined: set[Value] = set()
        waits: list[Value] = []
        for op in kernel.walk():
            if not op.pure:
                self.note(op)
            if isinstance(op, tile.Wait):
                waits.append(op.token)
        while waits:
            token = waits.pop()
            if token not in self.waited:
                self.waited.add(token)
                waits.extend(self.flows.get(token, ()))

    def note(self, op: Op) -> None:
        if isinstance(op, tile.Join):
            self.flow((op.result,) * len(op.tokens), op.tokens)
            self.joined.update(op.tokens)
        elif isinstance(op, control.Structured):
            if op.repeats and not (isinstance(op, control.Loop) and op.apart):
                self.loops.update(inner for region in op.regions for inner in region.walk())
            for t in op.transfers():
                for targets in t.targets:
                    self.flow(targets, t.values)
        elif op.regions:
            for region in op.regions:
                self.flow(op.results, region.yielded)
        else:
            for access in op.accesses():
                if access.mem is not None and access.mem.op is None:
                    self.users.setdefault(access.mem, set()).add(op)

    def flow(self, targets: Sequence[Value], sources: Sequence[Value]) -> None:
        for target, source in zip(targets, sources, strict=False):
            if target.type == BULK_TOKEN:
                self.flows.setdefault(target, []).append(source)

    def block(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self.block(region)
            ops.append(op)
            if op.regions or op.pure:
                continue
            if isinstance(op, tile.Join) and op.program_waits:
                continue
            for token in op.results:
                if token.type == BULK_TOKEN and token not in self.waited | self.joined:
                    if not isinstance(op, tile.Join):
                        ops.append(tile.Join((token,)))
                    ops.append(tile.Wait(ops[-1].result, reads=not self.shares(token)))
                    ops[-1].loc = ops[-2].loc = op.loc
                    ops[-1].why = Origin("insert_bulk_store_waits", LANDED)
        block.ops = ops

    def shares(self, token: Value) -> bool:
        """Whether the tensor that the token's copies store to is accessed again."""
        sources = self.flows.get(token)
        if sources is not None:
            return any(self.shares(source) for source in sources)
        if token.op is None or token.op in self.loops:
            return True
        return any(len(self.users.get(a.mem, ())) > 1 for a in token.op.accesses() if a.mem is not None)
