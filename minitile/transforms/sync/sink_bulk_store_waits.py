"""Moves waits for copies out of shared memory down to where they are needed: on thread IR, after
`allocate_shared_memory`.

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
and before atomic operations and fences of global memory, by which other blocks may be told that the tensor is ready.
Where a kernel has those, or threads touch the tensor themselves, it is needed before threads meet, too: any of them may
be the one that goes on. An arrival at a barrier tells another role; it matters where that one touches what the copy
does.

What a loop's body has left over is carried into its next round:

    for … (%k) {                      %l = for … [no_token] (%k, %u) {
      %t = join … ; wait %t     →       wait %u ; %t = join … ; yield %t
    }                                 } ; wait %l

so that the copy of one tile goes on while the next one is computed; out of branches they are handed likewise, with no
token from the other branch. Where a round touches no part of the tensor that earlier rounds have stored, %u gives the
shared memory back only. At the end of other blocks a wait for everything becomes one for the reads if nothing behind
touches the tensor, as at the end of the kernel, which makes all writes visible. Waits that come to stand together are
ordered so that the first ones cover the others; `resolve_wait_counts` removes those.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from minitile.analysis.affine import Facts
from minitile.analysis.memory_dependence import MemoryAccess, back, conflict, is_private, memory_access
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, fences, roles, tile
from minitile.ir.types import BULK_TOKEN, TensorType
from minitile.transforms.manager import PassContext


def sink_bulk_store_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if any(isinstance(op, tile.Wait) and op.token.type == BULK_TOKEN for op in kernel.walk()):
        _Walk(kernel).block(kernel.body, [])


class _Word(NamedTuple):
    """What others may learn by an operation or something in it. `published`: other blocks, what came before it has been
    done; `met`: threads, what others of them have done; `told`: anybody, by any synchronisation."""

    published: bool
    met: bool
    told: bool


class _Walk:
    """`tokens`: what each token's copies touch, in the order in which tokens were made; `read`: those whose copies have
    read all, since that was waited for on the way to the place at hand; `others`: the operations of the
    other roles at a place, of all of them outside of roles, or without roles those that pipelines alone put in order;
    `around`: the branches by role that enclose the place."""

    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        ops = [op for op in kernel.walk() if not op.pure]
        accesses = {op: op.accesses() for op in ops}
        self.public = any(map(_publishes, ops))
        self.by_threads = {a.mem for op in ops if not op.regions for a in accesses[op] if a.token is None}
        self.partings = [op for op in ops if isinstance(op, roles.ByRole)]
        self.around: list[Op] = []
        ordered = (op for op in ops if any(a.free for a in accesses[op]))
        self.others: list[Op] = list(self.partings or ordered)
        self.tokens: dict[Value, list[MemoryAccess]] = {}
        self.read: set[Value] = set()
        self.inside: dict[Op, list[MemoryAccess]] = {}
        self.words: dict[Op, _Word] = {}

    def block(self, block: Block, later: list[Op], keep: bool = False) -> list[tile.Wait]:
        """Move the waits of a block. `later`: the operations that may run when it has ended. The waits that are left at
        its end, if it is to `keep` them for what follows."""
        ops: list[Op] = []
        waiting: list[tile.Wait] = []
        for n, op in enumerate(block.ops):
            if not op.pure:
                self.note(op)
            if isinstance(op, tile.Wait) and op.token in self.tokens:
                waiting.append(op)
                continue
            if op.terminator:
                break
            due, waiting = self.due(waiting, op)
            ops += self.in_order(due)
            behind = [*block.ops[n + 1 :], *later]
            if isinstance(op, control.For):
                left = self.block(op.body, [op, *behind], keep=True)
                if left:
                    none, behind_it = self.carry(op, left)
                    ops.append(none)
                    waiting += behind_it
            elif type(op) is control.If:
                waiting += self.hand_out(op, [self.block(region, behind, keep=True) for region in op.regions])
            else:
                self.regions(op, behind)
            ops.append(op)
        if not keep:
            ops += self.at_end(waiting, later)
        end = block.terminator
        block.ops = [*ops, end] if end is not None else ops
        return waiting

    def regions(self, op: Op, behind: list[Op]) -> None:
        again = [op] if isinstance(op, control.While) else []
        outer = self.others, self.around
        for region in op.regions:
            if isinstance(op, roles.ByRole):
                self.around = [*outer[1], op]
                mine = {id(inner) for inner in region.walk()}
                beside = [inner for r in op.regions if r is not region and not op.independent for inner in r.ops]
                siblings = [other for other in outer[0] if other not in self.partings]
                apart = [p for p in self.partings if p not in self.around and id(p) not in mine]
                self.others = [*siblings, *beside, *apart]
            self.block(region, [*again, *behind])
        self.others, self.around = outer

    def at_end(self, waiting: list[tile.Wait], later: list[Op]) -> list[tile.Wait]:
        for wait in waiting:
            if not wait.reads and not any(self.needs_all(wait, op) for op in later):
                wait.reads = True
        return self.in_order(waiting)

    def carry(self, loop: control.For, left: list[tile.Wait]) -> tuple[Op, list[tile.Wait]]:
        """Hand the tokens that a loop's body has not waited for to its next round, and out of the loop: what they
        begin with, and the waits behind the loop."""
        made = list(self.tokens)
        tokens = sorted({w.token for w in left}, key=made.index)
        none = tile.NoToken(counter="bulk")
        none.loc = loop.loc
        inside = {v for op in loop.walk() for v in op.results}
        inside |= {v for op in loop.walk() for region in op.regions for v in region.args}
        step = self.facts.affine(loop.step)
        args: dict[Value, Value] = {}
        results: dict[Value, Value] = {}
        for token in tokens:
            arg = args[token] = loop.body.add_arg(BULK_TOKEN, "stored")
            self.tokens[arg] = [back(t, loop.iv, step, inside) for t in self.tokens[token]]
            result = results[token] = Value(BULK_TOKEN, loop, len(loop.results))
            loop.results = (*loop.results, result)
            self.tokens[result] = [back(t, None, None, inside) for t in self.tokens[token]]
        loop.init = (*loop.init, *([none.result] * len(tokens)))
        if loop.body.terminator is None:
            loop.body.ops.append(control.Yield(()))
        end = loop.body.ops[-1]
        assert isinstance(end, control.Yield)
        end.values = (*end.values, *tokens)
        waits = [self.like(w, args[w.token]) for w in left]
        ops: list[Op] = []
        for op in loop.body.ops[:-1]:
            due, waits = self.due(waits, op)
            ops += self.in_order(due)
            ops.append(op)
        for wait in waits:  # what needs the writes later waits for a younger copy, and groups complete in order
            wait.reads = True
        loop.body.ops = [*ops, *self.in_order(waits), end]
        return none, [self.like(w, results[w.token]) for w in left]

    def hand_out(self, op: control.If, left: list[list[tile.Wait]]) -> list[tile.Wait]:
        """Hand the tokens that each branch has not waited for out of it, where the other has none: the waits behind."""
        made = list(self.tokens)
        inside = {v for inner in op.walk() for v in inner.results}
        waits: list[tile.Wait] = []
        for region, mine in zip(op.regions, left, strict=True):
            for token in sorted({w.token for w in mine}, key=made.index):
                result = Value(BULK_TOKEN, op, len(op.results))
                op.results = (*op.results, result)
                self.tokens[result] = [back(t, None, None, inside) for t in self.tokens[token]]
                waits += [self.like(w, result) for w in mine if w.token is token]
                for other in op.regions:
                    end = other.ops.pop() if other.terminator is not None else control.Yield(())
                    assert isinstance(end, control.Yield)
                    none = tile.NoToken(counter="bulk")
                    end.loc = none.loc = op.loc
                    end.values = (*end.values, token if other is region else none.result)
                    other.ops += [end] if other is region else [none, end]
        return waits

    def like(self, wait: tile.Wait, token: Value) -> tile.Wait:
        """The same wait for another token."""
        new = tile.Wait(token, reads=wait.reads)
        new.loc, new.why = wait.loc, wait.why
        return new

    def due(self, waiting: list[tile.Wait], op: Op) -> tuple[list[tile.Wait], list[tile.Wait]]:
        """The waits that must stand in front of an operation, and those that are left behind it. Of a wait for
        everything the reads alone may be due. What a wait that is due covers anyway, since groups complete in order, is
        due as well: one barrier will do for all of it."""
        made = {token: n for n, token in enumerate(self.tokens)}
        all_of = max((made[w.token] for w in waiting if not w.reads and self.needs_all(w, op)), default=-1)
        unread = [w for w in waiting if w.token not in self.read]
        reads_of = max((made[w.token] for w in unread if self.needs_reads(w, op)), default=-1)
        now: list[tile.Wait] = []
        left: list[tile.Wait] = []
        for wait in waiting:
            number = made[wait.token]
            if number <= all_of or (wait.reads and number <= reads_of):
                now.append(wait)
                continue
            left.append(wait)
            if number <= reads_of and wait.token not in self.read:
                now.append(self.like(wait, wait.token))
                now[-1].reads = True
                self.read.add(wait.token)
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
                    mine = replace(memory_access(op, access, None, self.facts), thread=None)
                    self.tokens.setdefault(access.token, []).append(mine)

    def in_order(self, waits: list[tile.Wait]) -> list[tile.Wait]:
        """Each sort of wait once a token, the last token first."""
        made = list(self.tokens)
        once = {(w.token, w.reads): w for w in waits}
        return sorted(once.values(), key=lambda w: (w.reads, -made.index(w.token)))

    def needs_all(self, wait: tile.Wait, op: Op) -> bool:
        """Whether something in an operation must not happen before the copy's writes."""
        writes = [t for t in self.tokens[wait.token] if t.writes]
        goes_on = self.public or any(t.mem in self.by_threads for t in writes)
        word = self.word(op)
        return word.published or (goes_on and word.met) or self.meets(writes, op) or self.passes_on(writes, op)

    def needs_reads(self, wait: tile.Wait, op: Op) -> bool:
        reads = [t for t in self.tokens[wait.token] if not t.writes]
        return self.meets(reads, op) or self.passes_on(reads, op)

    def passes_on(self, mine: list[MemoryAccess], op: Op) -> bool:
        """Whether others may go on by the operation to what must wait."""
        return self.word(op).told and any(self.meets(mine, other) for other in self.others)

    def meets(self, mine: list[MemoryAccess], op: Op) -> bool:
        return any(conflict(a, b) for a in mine for b in self.touches(op))

    def word(self, op: Op) -> _Word:
        found = self.words.get(op)
        if found is None:
            inner = [one for one in op.walk() if not one.pure]
            syncs = [sync for one in inner for sync in one.syncs()]
            found = self.words[op] = _Word(
                any(map(_publishes, inner)),
                any(sync.kind == "meet" for sync in syncs),
                any(sync.releases for sync in syncs),
            )
        return found

    def touches(self, op: Op) -> list[MemoryAccess]:
        found = self.inside.get(op)
        if found is None:
            found = self.inside[op] = [
                memory_access(inner, access, None, self.facts)
                for inner in op.walk()
                if not inner.pure and not inner.regions
                for access in inner.accesses()
                if (access.pipeline is not access.mem or access.mem is None) and not is_private(access)
            ]
        return found


def _publishes(op: Op) -> bool:
    """Whether other blocks may learn by the operation that what came before it has been done."""
    if isinstance(op, fences.MemoryFence):
        return True
    return not op.regions and any(
        a.kind == "atomic" and a.token is None and (a.mem is None or isinstance(a.mem.type, TensorType))
        for a in op.accesses()
    )
