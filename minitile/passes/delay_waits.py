"""Moves waits for copies out of shared memory down to where somebody needs them: on thread IR, after `place_shared`.

    stmatrix %S, slot = 0                         stmatrix %S, slot = 0
    %t0 = join (tma_store %S, slot = 0 → %C)      %t0 = join (tma_store %S, slot = 0 → %C)
    wait %t0 {reads}                              stmatrix %S, slot = 1
    stmatrix %S, slot = 1                         %t1 = join (tma_store %S, slot = 1 → %C)
    %t1 = join (tma_store %S, slot = 1 → %C)  →   wait %t0 {reads}
    wait %t1 {reads}                              stmatrix %S, slot = 0
    stmatrix %S, slot = 0                         …
    …                                             wait %t1 {reads}     // the kernel ends, and shared memory with it
    wait %t1

Lowering awaits each copy at once. A wait with `reads` is needed before anything writes the bytes that the copy reads
(those of another buffer in the same place, too); one without also before anything touches the tensor that it writes,
before threads meet or fence, and before an atomic operation: others may be told then that the tensor is ready. Waits
stay in their block. At its end a wait for everything becomes one for the reads if nothing behind touches the tensor,
as at the end of the kernel, which makes all writes visible.

Waits that come to stand together are ordered so that the first ones cover the others; `count_tokens` removes those.
"""

from __future__ import annotations

from dataclasses import replace

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, fences, tile
from minitile.ir.types import BULK_TOKEN, TensorType
from minitile.passes.affine import Facts
from minitile.passes.hazards import Touch, conflict, is_private, touch
from minitile.passes.manager import PassContext


def delay_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if any(isinstance(op, tile.Wait) and op.token.type == BULK_TOKEN for op in kernel.walk()):
        _Walk(kernel).block(kernel.body, [])


class _Walk:
    """`tokens`: what each token's copies touch, and the order in which tokens were made."""

    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.tokens: dict[Value, list[Touch]] = {}
        self.inside: dict[Op, list[Touch]] = {}

    def block(self, block: Block, later: list[Op]) -> None:
        """`later`: the operations that may run when the block has ended."""
        ops: list[Op] = []
        waiting: list[tile.Wait] = []
        for n, op in enumerate(block.ops):
            self.note(op)
            if isinstance(op, tile.Wait) and op.token in self.tokens:
                waiting.append(op)
                continue
            if op.terminator:
                break
            due, waiting = self.due(waiting, op)
            ops += self.in_order(due)
            again = [op] if isinstance(op, (control.For, control.While)) else []
            for region in op.regions:
                self.block(region, [*again, *block.ops[n + 1 :], *later])
            ops.append(op)
        for wait in waiting:
            if not wait.reads and not any(self.needs_all(wait, op) for op in later):
                wait.reads = True
        ops += self.in_order(waiting)
        end = block.terminator
        block.ops = [*ops, end] if end is not None else ops

    def due(self, waiting: list[tile.Wait], op: Op) -> tuple[list[tile.Wait], list[tile.Wait]]:
        """The waits that must stand in front of an operation, and those that are left behind it. Of a wait for
        everything the reads alone may be due."""
        now: list[tile.Wait] = []
        left: list[tile.Wait] = []
        for wait in waiting:
            if not wait.reads and self.needs_all(wait, op):
                now.append(wait)
            elif not self.needs_reads(wait, op):
                left.append(wait)
            elif wait.reads:
                now.append(wait)
            else:
                left.append(wait)
                now.append(tile.Wait(wait.token, reads=True))
                now[-1].loc = wait.loc
        return now, left

    def note(self, op: Op) -> None:
        """What the tokens of an operation stand for."""
        if isinstance(op, tile.Join):
            known = [self.tokens[t] for t in op.tokens if t in self.tokens]
            if known and len(known) == len(op.tokens):
                self.tokens[op.result] = [t for touches in known for t in touches]
        elif not op.regions:
            for access in op.accesses():
                if access.token is not None and access.token.type == BULK_TOKEN:
                    # Not the issuing thread's: copies of one thread run side by side.
                    mine = replace(touch(op, access, None, self.facts), thread=None)
                    self.tokens.setdefault(access.token, []).append(mine)

    def in_order(self, waits: list[tile.Wait]) -> list[tile.Wait]:
        """Each sort of wait once a token, the last token first."""
        made = list(self.tokens)
        once = {(w.token, w.reads): w for w in waits}
        return sorted(once.values(), key=lambda w: (w.reads, -made.index(w.token)))

    def needs_all(self, wait: tile.Wait, op: Op) -> bool:
        """Whether something in an operation must not happen before the copy's writes."""
        return any(map(_tells, _walk(op))) or self.meets([t for t in self.tokens[wait.token] if t.writes], op)

    def needs_reads(self, wait: tile.Wait, op: Op) -> bool:
        return self.meets([t for t in self.tokens[wait.token] if not t.writes], op)

    def meets(self, mine: list[Touch], op: Op) -> bool:
        return any(conflict(a, b) for a in mine for b in self.touches(op))

    def touches(self, op: Op) -> list[Touch]:
        found = self.inside.get(op)
        if found is None:
            found = self.inside[op] = [
                touch(inner, access, None, self.facts)
                for inner in _walk(op)
                if not inner.regions
                for access in inner.accesses()
                if access.channel is None and not is_private(access)
            ]
        return found


def _walk(op: Op) -> list[Op]:
    return [op, *(inner for region in op.regions for inner in region.walk())]


def _tells(op: Op) -> bool:
    """Whether others may learn by the operation that what came before it has been done."""
    if isinstance(op, fences.MemoryFence) or any(sync.kind == "meet" for sync in op.syncs()):
        return True
    return not op.regions and any(
        a.kind == "atomic" and a.token is None and (a.mem is None or isinstance(a.mem.type, TensorType))
        for a in op.accesses()
    )
