"""Inserts `barrier` where threads of a CTA would race: on thread IR, after `allocate_shared_memory`.

    for … (%k) {                                   for … (%k) {
      wait %t0                                       wait %t0
      %t2 = cp_async … -> slot (%k+2)%3              barrier
      %a = ldmatrix slot %k%3              ->        %t2 = cp_async … -> slot (%k+2)%3
      …                                              %a = ldmatrix slot %k%3
    }                                                …
                                                   }

A forward walk keeps the pending touches: all accesses since the last barrier on some path. Before an operation that
conflicts with one of them (memory_dependence.py) goes a barrier, and nothing is pending any more.

Asynchronous accesses When issued they must not meet what is pending (threads may still be reading there); from then on
                      they are their token's. A `wait` for the token makes them pending: done for the thread that has
                      waited, not yet known to the others. Tokens are followed through join, branches and loops.
                      What a warpgroup does as one (wgmma) is over for all of it: in a block of one, nothing is
                      pending then.
                      What a pipeline completes is known to what has received it, and never pending; nor does it
                      meet earlier uses of the same buffer: their threads have released the slot.
Loops                 The body is walked until what is pending at its head no longer grows: the touches of the previous
                      iteration, in this one's terms. What was pending before the loop is settled by a barrier in front
                      of it, if a barrier inside would be needed for that alone.
Branches              Both sides start alike; after them everything pending on either side is. A barrier inside moves in
                      front of the branch where that saves another one behind it.
Groups                Where groups of threads have a part of a buffer each (`shared_by` of its alloc), a conflict in the
                      buffer concerns each group alone: it meets at a barrier of its own.
Explicit copies       A copy whose landing the program awaits at a barrier of its own conflicts, when it is issued, with
                      what is pending in its role; nothing conflicts with it later.
Divergent control     A branch or loop on a value that differs between threads cannot hold a barrier. It counts as one
                      operation with all the accesses inside: the barrier goes in front of the outermost one. Conflicts
                      inside are an error, unless one thread alone goes in, each stays with its own bytes, or no two
                      threads meet (disjoint.py). A barrier with a number orders what the threads there do before
                      and behind it; the two sides of a branch are in no order, but by a number on both.

Enough: any two conflicting accesses have a barrier between them on every path, since the first stays pending until
there is one. Not too many: a barrier stands right before an access that conflicts with an earlier one and there is none
between the two on some path; without it this pair would race. What operations touch is asked of `op.accesses()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache

from minitile.analysis.access_set import AccessSet
from minitile.analysis.affine import Affine, Facts
from minitile.analysis.disjoint import Threads, in_whole_groups
from minitile.analysis.memory_dependence import (
    GROUP,
    MemoryAccess,
    any_version,
    back,
    conflict,
    group_of,
    is_private,
    memory_access,
    moved,
)
from minitile.hardware import WARPGROUP
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import Location, MinitileError
from minitile.ir.ops import arith, control, explicit, roles, thread, tile
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import made_inside
from minitile.ir.types import BULK_TOKEN, TokenType
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.reasons import between
from minitile.transforms.sync.resolve_wait_counts import ended_gemms

Touches = frozenset[MemoryAccess]
Spot = tuple[Op, int | None]  # a barrier in front of an operation: of all threads, or of each that many of them
Cause = tuple[MemoryAccess, MemoryAccess]  # two accesses that a barrier stands between
Body = Callable[["State", set[Spot]], tuple["State", "State"]]
_NONE: Touches = frozenset()
NOTHING = AccessSet()
_OF_TOKENS = (tile.Wait, tile.Join, roles.Await, explicit.WaitStores, explicit.WaitGemms)
BY_PROGRAM = Value(BULK_TOKEN)  # stands for all copies that the program waits for by their number
GROUPS = 2  # the first one at which a group of threads meets by itself, one number a group
WARP = 32  # of which barriers with numbers take whole ones; AMD's waves are two
_PATIENCE = 8  # walks of a loop's body before versions are given up; each normally needs two or three


def thread_barriers(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises MinitileError for a conflict or a barrier among divergent threads."""
    walk = Walk(kernel)
    before = walk.run()
    causes, moved_out = walk.causes, dict[Spot, Cause]()
    for branch in walk.branches_with(before):
        walk.fixed.add((branch, None))
        changed = walk.run()
        if walk.cost(changed) < walk.cost(before):
            replaced = min(before - changed, key=walk.spot_place)
            if replaced in causes:
                moved_out[branch, None] = causes[replaced]
            before, causes = changed, {**walk.causes, **moved_out}
        else:
            walk.fixed.remove((branch, None))
    origins = {op: _origin(op, causes.get((op, group))) for op, group in sorted(before, key=_narrow_first)}
    groups = {op: group for op, group in before if group is not None}
    if groups:
        numbered = [group for group in groups.values() if group > context.target.lanes]  # a warp needs no number
        first = _free_numbers(kernel, kernel.threads // min(numbered)) if numbered else GROUPS
        groups_at = {op: (first, group) for op, group in groups.items()}
    else:
        groups_at = {}
    _insert_in(kernel.body, {op for op, group in before if group is None}, groups_at, origins, 0, None)


def _narrow_first(spot: Spot) -> bool:
    return spot[1] is None


def _origin(op: Op, cause: Cause | None) -> Origin:
    """Of a barrier in front of an operation."""
    if cause is None:
        return Origin("thread_barriers", "accesses of other threads before", after=places([op.loc]))
    earlier, later = cause
    first, then = (places([t.op.loc if t.op is not None else None]) for t in (earlier, later))
    return Origin("thread_barriers", between(earlier, later), first, then or places([op.loc]))


def _free_numbers(kernel: Kernel, count: int) -> int:
    """The first of `count` barrier numbers from GROUPS on that are free."""
    taken = {op.id for op in kernel.walk() if isinstance(op, thread.Barrier | explicit.NumberedBarrier)}
    taken |= {number for op in kernel.walk() if isinstance(op, roles.ByRole) for number, _ in op.teams}
    first = next((n for n in range(GROUPS, 17 - count) if taken.isdisjoint(range(n, n + count))), None)
    if first is None:
        raise MinitileError(f"no {count} of the 16 named barriers are left for groups of threads")
    return first


def _insert_in(
    block: Block,
    before: set[Op],
    groups: dict[Op, tuple[int, int]],
    origins: Mapping[Op, Origin],
    id: int,
    threads: int | None,
) -> None:
    ops: list[Op] = []
    for op in block.ops:
        if op in before or op in groups:
            narrow = op not in before and groups[op][1] != threads  # a role of one group meets as it is
            number, count = groups[op] if narrow else (id, threads)
            barrier = thread.Barrier(id=number, threads=count, each=narrow)
            barrier.loc, barrier.why = op.loc, origins[op]
            ops.append(barrier)
        if isinstance(op, roles.ByRole):
            for region, (number, team) in zip(op.regions, op.teams, strict=True):
                _insert_in(region, before, groups, origins, number, team)
        elif op.region_fields:
            for region in op.regions:
                _insert_in(region, before, groups, origins, id, threads)
        ops.append(op)
    block.ops = ops


@dataclass(slots=True)
class State:
    """`pending` touches since the last barrier; `tokens`: which writes each token stands for."""

    pending: AccessSet = NOTHING
    tokens: dict[Value, Touches] = field(default_factory=dict)

    def copy(self) -> State:
        return State(self.pending, dict(self.tokens))

    def join(self, other: State) -> None:
        self.pending |= other.pending
        for token, touches in other.tokens.items():
            self.tokens[token] = self.tokens.get(token, _NONE) | touches

    def covers(self, other: State) -> bool:
        return other.pending <= self.pending and all(
            touches <= self.tokens.get(token, _NONE) for token, touches in other.tokens.items()
        )

    def carry(self, targets: Iterable[Value], sources: Iterable[Value]) -> None:
        """Token values that go from sources to targets."""
        moved = [
            (target, self.tokens.get(source, _NONE))
            for target, source in zip(targets, sources, strict=True)
            if isinstance(target.type, TokenType)
        ]
        for target, touches in moved:
            self.tokens[target] = self.tokens.get(target, _NONE) | touches


@dataclass(frozen=True, slots=True)
class Apart:
    """Of divergent threads: values that may be of different iterations (`looped`), and what threads touch that took
    another side of a branch (`beside`)."""

    looped: Set[Value]
    beside: list[MemoryAccess] = field(default_factory=list)


class Walk:
    """`before` everywhere collects the operations that need a barrier in front of them, and `causes` what for; those in
    `fixed` get one whether or not their accesses ask for it. `first` holds loop variables that are at their first
    number just now."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts = Facts(kernel)
        self.each = Threads(kernel, self.facts)
        self.explicit_sync = bool(kernel.attrs.get("explicit_sync"))
        self.fixed: set[Spot] = set()
        self.causes: dict[Spot, Cause] = {}
        ops = list(kernel.walk())
        self.places = {op: n for n, op in enumerate(ops)}  # in the text
        self.groups = sorted({op.shared_by for op in ops if op.shared_by is not None})
        self.times: dict[Op, int] = {}
        self.first: dict[Value, Affine] = {}
        self.threads = kernel.attrs.get("threads")
        self.touches: dict[Op, list[tuple[MemoryAccess, Value | None]]] = {}
        self.barriers: set[Op] = set()
        self.meetings: dict[Op, int] = {}  # of groups of so many threads
        self.gemms = ended_gemms(kernel)  # by the program's own waits
        roles_part = any(isinstance(op, roles.ByRole) for op in ops)
        self.alone = self.threads == WARPGROUP and not roles_part  # one warpgroup is all there is
        self.inside = cache(made_inside)  # of a loop or branch
        self.relevant: dict[Block, list[Op]] = {}
        self.shifted: dict[tuple[MemoryAccess, Op, bool], MemoryAccess] = {}

    def run(self) -> set[Spot]:
        before: set[Spot] = set()
        self.causes = {}
        self.block(self.kernel.body, State(), before)
        return before

    def branches_with(self, before: set[Spot]) -> list[Op]:
        """The branches that have barriers inside, outer ones first."""
        behind = {op for op, _ in before}
        return [
            op
            for op in self.kernel.walk()
            if isinstance(op, control.If) and any(inner in behind for r in op.regions for inner in r.walk())
        ]

    def spot_place(self, spot: Spot) -> tuple[int, int]:
        return self.places[spot[0]], spot[1] or 0

    def cost(self, before: set[Spot]) -> int:
        """How often barriers run, taking each loop for 8 iterations and each branch for taken."""
        if not self.times:
            self.count(self.kernel.body, 1)
        return sum(self.times[op] for op, _ in before)

    def count(self, block: Block, times: int) -> None:
        for op in block.ops:
            self.times[op] = times
            if op.region_fields:
                inside = times * 8 if isinstance(op, control.Loop) else times
                for region in op.regions:
                    self.count(region, inside)

    def block(self, block: Block, state: State, before: set[Spot]) -> None:
        """Walk a block; `state` becomes that at its end."""
        ops = self.relevant.get(block)
        if ops is None:
            ops = self.relevant[block] = [op for op in block.ops if self.matters(op)]
        fixed = self.fixed
        for op in ops:
            if fixed:
                for group in (*self.groups, None):
                    if (op, group) in fixed:
                        self.meet(op, group, state, before)
            if isinstance(op, control.Structured):
                self.structured(op, state, before)
            elif op in self.barriers:
                state.pending = self.passed(op, state.pending)
            elif op in self.meetings:
                state.pending = _met(state.pending, self.meetings[op])
            elif self.touches.get(op):
                self.access(op, state, before)
            elif isinstance(op, (tile.Wait, roles.Await)):
                state.pending |= self.ended(op, state)
            elif isinstance(op, explicit.WaitStores):
                ended = state.tokens.get(BY_PROGRAM, _NONE)
                state.pending |= frozenset([t for t in ended if not (op.reads and t.writes)])
            elif isinstance(op, explicit.WaitGemms):
                for token in self.gemms.get(op, ()):
                    state.pending |= self.unknown(state.tokens.pop(token, _NONE))
            elif isinstance(op, tile.Join):
                state.tokens[op.result] = _NONE.union(*[state.tokens.get(t, _NONE) for t in op.tokens])
                if op.program_waits:
                    state.tokens[BY_PROGRAM] = state.tokens.get(BY_PROGRAM, _NONE) | state.tokens[op.result]
            else:
                self.access(op, state, before)

    def ended(self, wait: tile.Wait | roles.Await, state: State) -> Touches:
        """The accesses that are over, for the thread that has waited, and may not be known to be to the others."""
        touches = state.tokens.get(wait.token, _NONE)
        only_reads = isinstance(wait, tile.Wait) and wait.reads
        return self.unknown(frozenset([t for t in touches if not t.writes]) if only_reads else touches)

    def unknown(self, touches: Touches) -> Touches:
        """Of accesses that are over for a thread, those that others may not know to be over."""
        return frozenset([t for t in touches if t.thread != GROUP]) if self.alone else touches

    def matters(self, op: Op) -> bool:
        """Whether a walk has to look at an operation."""
        if op.pure or op.terminator:
            return False
        if self.is_barrier(op):
            self.barriers.add(op)
            return True
        if op.orders and (count := _meeting(op)) is not None:
            self.meetings[op] = count
            return True
        return isinstance(op, (control.Structured, *_OF_TOKENS)) or bool(self.touches_of(op) or self.landing(op))

    def passed(self, barrier: Op, pending: AccessSet) -> AccessSet:
        """What is still pending behind a barrier."""
        return NOTHING

    def is_barrier(self, op: Op) -> bool:
        """Whether all threads meet here."""
        return any(sync.kind == "meet" and sync.count in (None, self.threads) for sync in op.syncs())

    def touches_of(self, op: Op, single: object = None) -> list[tuple[MemoryAccess, Value | None]]:
        """The accesses of an operation that other threads can see, each with what completes it: a token, or the buffer
        of a pipeline's barrier words. Those words are none."""
        found = self.touches.get(op)
        if found is None:
            found = self.touches[op] = [
                (memory_access(op, a, single, self.facts, self.each), a.token if a.pipeline is None else a.pipeline)
                for a in op.accesses()
                if a.pipeline is not a.mem or a.mem is None
                if not is_private(a)
            ]
        if self.first:
            return [(moved(t, self.first), token) for t, token in found]
        return found

    def access(self, op: Op, state: State, before: set[Spot]) -> None:
        touches = self.touches_of(op)
        self.settle_conflicts(op, [*(t for t, _ in touches), *self.landing(op)], state, before)
        earlier = _NONE.union(*[state.tokens.get(t, _NONE) for t in op.stands_for()])
        for t, token in touches:
            if token is None:
                state.pending |= {t}
            elif isinstance(token.type, TokenType):
                state.tokens[token] = state.tokens.get(token, _NONE) | {t} | earlier

    def reached(self, op: Op) -> list[MemoryAccess]:
        """What an operation itself touches, landing or not."""
        if op.pure or op.terminator or op.region_fields:
            return []
        return [*(t for t, _ in self.touches_of(op)), *self.landing(op)]

    def landing(self, op: Op) -> list[MemoryAccess]:
        """What an explicit copy overwrites once it is issued. When it has landed is the program's own business; but one
        thread issues it, and the others of its role may not be done yet with what was there."""
        if not self.explicit_sync:
            return []
        writes = [a for a in op.accesses() if a.pipeline is not None and a.writes and a.proxy == "async"]
        return [moved(t, self.first) for t in (memory_access(op, a, None, self.facts, self.each) for a in writes)]

    def settle_conflicts(self, op: Op, touches: list[MemoryAccess], state: State, before: set[Spot]) -> None:
        """A barrier where something pending conflicts."""
        within: int | None = None
        for t in touches:
            for p in state.pending.near(t):
                if conflict(t, p) and not _released(t, p):
                    within = group_of(t, p)
                    self.note(op, within, t, state)
                    if within is None:
                        self.meet(op, None, state, before)
                        return
        if within is not None:
            self.meet(op, within, state, before)

    def note(self, op: Op, group: int | None, t: MemoryAccess, state: State) -> None:
        """What a barrier in front of an operation is for: of the accesses that this one of its conflicts with, the
        nearest, in the program's order, before it, or else of the round before; WAW only where that is all."""
        here = self.places[op]
        met = [p for p in state.pending.near(t) if conflict(t, p) and not _released(t, p)]
        met = [p for p in met if group_of(t, p) == group] or met
        group = None if group == self.threads else group
        self.causes[op, group] = (
            max(met, key=lambda p: (p.writes != t.writes, self.place(p) < here, self.place(p), p.kind)),
            t,
        )

    def settle_together(self, op: Op, touches: list[MemoryAccess], state: State, before: set[Spot]) -> None:
        """The same of all that an operation holds, in front of it, for all threads."""
        for t in touches:
            for p in state.pending.near(t):
                if conflict(t, p) and not _released(t, p):
                    self.note(op, None, t, state)
                    self.meet(op, None, state, before)
                    return

    def meet(self, op: Op, group: int | None, state: State, before: set[Spot]) -> None:
        """A barrier in front of an operation, of all threads or of each group; one group alone is all threads."""
        if group == self.threads:
            group = None
        before.add((op, group))
        state.pending = NOTHING if group is None else _met(state.pending, group)

    # Control flow ----------------------------------------------------------------------------------------------------

    def structured(self, op: Op, state: State, before: set[Spot]) -> None:
        if isinstance(op, roles.ByRole):
            self.by_role(op, state, before)
        elif self.diverges(op):
            self.together(op, state, before)
        elif isinstance(op, control.If):
            self.branch(op, state, before)
        elif isinstance(op, control.For):
            self.loop(op, state, before)
        elif isinstance(op, control.While):
            self.repeat(op, state, before)

    def by_role(self, op: roles.ByRole, state: State, before: set[Spot]) -> None:
        """Each role's threads meet by themselves; what the roles hand each other goes through pipelines, or through
        barriers of the program's own: no barrier could be inserted between them."""
        inside = [t for region in op.regions for inner in region.walk() for t in self.reached(inner)]
        self.settle_together(op, inside, state, before)
        left, threads = state.pending, self.threads
        for region, (_, self.threads) in zip(op.regions, op.teams, strict=True):
            inner = State(NOTHING, dict(state.tokens))
            self.block(region, inner, before)
            left |= inner.pending
        self.threads = threads
        state.pending = left

    def diverges(self, op: Op) -> bool:
        assert isinstance(op, control.Structured)
        return not all(map(self.facts.uniform, op.decides()))

    def branch(self, op: control.If, state: State, before: set[Spot]) -> None:
        ends = []
        for region in op.regions:
            end = state.copy()
            self.block(region, end, before)
            end.carry(op.results, region.yielded)
            ends.append(end)
        state.pending, state.tokens = ends[0].pending, ends[0].tokens
        state.join(ends[1])

    def iteration(self, op: control.For) -> Body:
        """How to walk a loop's body once."""
        yields = op.body.yielded
        step = self.facts.affine(op.step)
        inside = self.inside(op)

        def body(head: State, found: set[Spot]) -> tuple[State, State]:
            """One iteration: the state at its end, and the same in the next iteration's terms."""
            end = head.copy()
            self.block(op.body, end, found)
            again = State(end.pending.renamed(inside, lambda touches: self.shift(touches, op, step)))
            again.tokens = {t: self.shift(end.tokens[t], op, step) for t in end.tokens if t not in inside}
            for arg, source in zip(op.carried, yields, strict=True):
                if source in end.tokens:
                    again.tokens[arg] = self.shift(end.tokens[source], op, step)
            return end, _own(again) if op.apart else again

        return body

    def loop(self, op: control.For, state: State, before: set[Spot]) -> None:
        entry = State(NOTHING, dict(state.tokens))
        entry.carry(op.carried, op.init)
        head, end, found = self.settle(entry, self.iteration(op))
        left = self.entered(op, state.pending, entry, head, found) if state.pending else NOTHING
        if left is None:
            self.meet(op, None, state, before)
            left = NOTHING
        before |= found
        end.carry(op.results, op.body.yielded)
        state.carry(op.results, op.init)
        after = self.leave(end, op)
        if self.facts.less(self.facts.affine(op.lower), self.facts.affine(op.upper)):
            state.pending = left
        state.join(after)

    def entered(
        self, op: control.For, pending: AccessSet, entry: State, head: State, found: set[Spot]
    ) -> AccessSet | None:
        """What was pending before a loop meets the body, whose barriers are `found`: what is left of it when an
        iteration has ended, or None where it needs a barrier of its own. The first iteration is looked at as such,
        since most of what was pending does not live to see another."""
        fixed, self.fixed = self.fixed, self.fixed | found
        first = State(pending, dict(entry.tokens))
        later = State(head.pending, dict(head.tokens))
        needed: set[Spot] = set()
        self.first[op.iv] = self.facts.affine(op.lower)
        self.block(op.body, first, needed)
        del self.first[op.iv]
        left = pending & first.pending
        if left:
            later.pending |= left
            self.block(op.body, later, needed)
        self.fixed = fixed
        if needed - found:
            first_new = min(needed - found, key=self.spot_place)
            if first_new in self.causes:
                self.causes[op, None] = self.causes[first_new]
            return None
        return left & later.pending

    def repeat(self, op: control.While, state: State, before: set[Spot]) -> None:
        passed = op.before.yielded[1:]

        def body(head: State, found: set[Spot]) -> tuple[State, State]:
            """The state when the condition has been computed, and after the body, in the next round's terms."""
            left = head.copy()
            self.block(op.before, left, found)
            end = left.copy()
            end.carry(op.body.args, passed)
            self.block(op.body, end, found)
            again = self.leave(end, op)
            for arg, source in zip(op.before.args, op.body.yielded, strict=True):
                if source in end.tokens:
                    again.tokens[arg] = self.shift(end.tokens[source], op)
            return left, _own(again) if op.apart else again

        entry = state.copy()
        entry.carry(op.before.args, op.init)
        _, left, found = self.settle(entry, body)
        before |= found
        left.carry(op.results, passed)
        after = self.leave(left, op)
        state.pending, state.tokens = after.pending, after.tokens

    def settle(self, entry: State, body: Body) -> tuple[State, State, set[Spot]]:
        """Walk a loop's body until its head covers its own end: the head, the end, the barriers."""
        head, end, found, steady = self.grow(entry, body)
        if steady:
            return head, end, found
        # Barriers came and went while the head grew. It may hold what got there for want of a barrier that there is
        # now, and what is there only because it was before: grow it again with these barriers in place, which can
        # only give less, and see which of them that still asks for.
        fixed, self.fixed = self.fixed, self.fixed | found
        head, end, _, _ = self.grow(entry, body)
        self.fixed = fixed
        fewer: set[Spot] = set()
        fewer_end, again = body(head, fewer)
        return (head, fewer_end, fewer) if head.covers(again) else (head, end, found)

    def grow(self, entry: State, body: Body) -> tuple[State, State, set[Spot], bool]:
        """The same without second thoughts, and whether each walk asked for the same barriers."""
        head, steady = entry, True
        last: set[Spot] | None = None
        for attempt in range(4 * _PATIENCE):
            found: set[Spot] = set()
            end, again = body(head, found)
            steady = steady and last in (None, found)
            if head.covers(again):
                break
            if attempt >= _PATIENCE:
                again = _forget_versions(again)
            head, last = head.copy(), found
            head.join(again)
        return head, end, found, steady

    def shift(self, touches: Iterable[MemoryAccess], op: Op, step: Affine | None = None) -> Touches:
        """Touches inside of a loop or branch as they are called outside of it; with a step, in its next iteration."""
        known = self.shifted
        moved = []
        for t in sorted(touches, key=self.place):  # of those that become equal the first stays
            new = known.get((t, op, step is None))
            if new is None:
                iv = op.iv if isinstance(op, control.For) and step is not None else None
                new = known[t, op, step is None] = back(t, iv, step, self.inside(op))
            moved.append(new)
        return frozenset(moved)

    def place(self, t: MemoryAccess) -> int:
        """Where in the text an access is."""
        return self.places.get(t.op, -1) if t.op is not None else -1

    def leave(self, end: State, op: Op) -> State:
        """The state in terms of what is known outside a loop."""
        inside = self.inside(op)
        tokens = {t: self.shift(end.tokens[t], op) for t in end.tokens if t not in inside}
        return State(end.pending.renamed(inside, lambda touches: self.shift(touches, op)), tokens)

    # Divergent control flow ------------------------------------------------------------------------------------------

    def together(self, op: Op, state: State, before: set[Spot]) -> None:
        """Threads diverge: everything inside counts as one operation."""
        touches = self.gathered(op, state)
        self.settle_conflicts(op, [t for t, _ in touches], state, before)
        left = frozenset([t for t, by in touches if not _by_pipeline(by)])
        state.pending |= self.shift(left, op)
        for result in op.results:
            if isinstance(result.type, TokenType):
                state.tokens[result] = _NONE.union(*state.tokens.values())

    def gathered(self, op: Op, state: State) -> list[tuple[MemoryAccess, Value | None]]:
        """What a branch or loop touches whose threads diverge, each with what completes it."""
        rounds = [
            inner for inner in (op, *(o for r in op.regions for o in r.walk())) if isinstance(inner, control.Loop)
        ]
        looped: set[Value] = set().union(*map(self.inside, rounds))
        touches: list[tuple[MemoryAccess, Value | None]] = []
        around = Block()
        around.ops = [op]
        self.gather(around, None, Apart(looped), state, touches, [])
        return touches

    def gather(
        self,
        block: Block,
        single: object,
        apart: Apart,
        state: State,
        touches: list[tuple[MemoryAccess, Value | None]],
        open: list[MemoryAccess],
    ) -> None:
        """Collect what a block touches, and refuse what threads apart cannot do. `open`: what has been touched before,
        with no barrier of these threads behind it."""
        for op in block.ops:
            number = numbered(op)
            if number is not None:
                self.check_numbered(op, number)
                open.clear()
                continue
            if op.uniform or self.is_barrier(op):
                raise MinitileError(
                    "not all threads come here: the condition differs between threads, and this needs all of them",
                    op.loc,
                    "move it out of the branch or loop, or make the condition the same for all threads",
                )
            if isinstance(op, (tile.Wait, roles.Await)):
                touches.extend((t, None) for t in self.ended(op, state))
            if isinstance(op, tile.Join):
                state.tokens[op.result] = _NONE.union(*[state.tokens.get(t, _NONE) for t in op.tokens])
            if isinstance(op, control.If):
                self.gather_sides(op, single, apart, state, touches, open)
            elif op.regions:
                entered = list(open)
                for region in op.regions:
                    self.gather(region, single, apart, state, touches, open)
                if isinstance(op, control.Loop) and any(numbered(o) is not None for r in op.regions for o in r.walk()):
                    for region in op.regions:  # what a round leaves behind its last barrier meets the next one
                        self.gather(region, single, apart, state, [], open)
                open += entered
            if op.pure or op.terminator or op.regions:
                continue
            for t, token in self.touches_of(op, single):
                t = back(t, None, None, apart.looped)
                for earlier in open:
                    if conflict(t, earlier) and not _released(t, earlier) and not self.stays(t, earlier):
                        raise _apart(t, earlier)
                for other in apart.beside:
                    if conflict(t, other) and not self.stays(t, other) and not self.told(t, other):
                        raise _apart(t, other)
                if not _by_pipeline(token):
                    open.append(t)
                touches.append((t, token))
                if token is not None and isinstance(token.type, TokenType):
                    state.tokens[token] = state.tokens.get(token, _NONE) | {t}

    def gather_sides(
        self,
        op: control.If,
        single: object,
        apart: Apart,
        state: State,
        touches: list[tuple[MemoryAccess, Value | None]],
        open: list[MemoryAccess],
    ) -> None:
        """Both sides of a branch. Threads of one are in no order with those of the other, except by barriers with
        numbers that stand on both; where all threads take the same one in every round, no thread is on the other."""
        alone = self.elected(op) if single is None else single
        left, before = list(open), len(touches)
        self.gather(op.then, alone, apart, state, touches, left)
        mine, others = (
            {s.on for inner in region.walk() for s in inner.syncs() if isinstance(s.on, int)} for region in op.regions
        )
        one_side = self.facts.uniform(op.condition) and not _changes(op.condition, apart.looped)
        beside = [] if mine & others or one_side else [t for t, _ in touches[before:]]
        self.gather(op.orelse, single, Apart(apart.looped, [*apart.beside, *beside]), state, touches, open)
        open += left

    def check_numbered(self, op: Op, number: int) -> None:
        """Whole warps come to a barrier, and no more threads than it counts."""
        coming = self.each.coming(op)
        count = next((sync.count for sync in op.syncs()), None)
        if coming is None or count is None:
            return
        if not in_whole_groups(coming, WARP) or coming.sum() > count:
            raise MinitileError(
                f"{coming.sum()} threads come to barrier {number}, which is of {count} and of whole warps",
                op.loc,
                "let its condition hold for whole warps, and give as many threads as come there in all",
            )

    def told(self, one: MemoryAccess, other: MemoryAccess) -> bool:
        """Whether two stores on the sides of a branch go where something that was loaded, or that an atomic gave, says:
        to different places, or it would not matter which of them is last."""
        return one.kind == other.kind == "write" and (self.each.told(one.reach) or self.each.told(other.reach))

    def stays(self, later: MemoryAccess, earlier: MemoryAccess) -> bool:
        """Whether each thread stays with bytes that it has written by itself, all addresses being the same: if others
        touched them, they would have written them as well."""
        if later.place is None or later.place != earlier.place or later.op is None or earlier.op is None:
            return False
        write, other = (later.op, earlier.op) if later.writes else (earlier.op, later.op)
        return self.each.comes_to(other, write)

    def elected(self, op: control.If) -> object:
        """What singles out the one thread that takes the branch `thread index == a uniform value`; None otherwise."""
        alone = self.each.single((*self.each.around(op), (op.condition, True)))
        if alone is not None:
            return alone
        condition = op.condition.op
        if not isinstance(condition, arith.Cmp) or condition.predicate != "eq" or not condition.a.dtype.is_int:
            return None
        gap = self.facts.affine(condition.a) - self.facts.affine(condition.b)
        divergent = [m for m in gap.terms if not all(self.facts.uniform(v) for v in m)]
        if len(divergent) != 1 or len(divergent[0]) != 1 or abs(gap.terms[divergent[0]]) != 1:
            return None
        index = divergent[0][0].op
        if not isinstance(index, thread.Special) or index.register != "tid.x":
            return None
        return gap if gap.terms[divergent[0]] == 1 else -gap


def numbered(op: Op) -> int | None:
    """The number of the barrier at which threads meet here that need not be all of them; None where it is no such."""
    if op.uniform:
        return None
    return next((int(s.on) for s in op.syncs() if s.kind == "meet" and isinstance(s.on, int)), None)


def _meeting(op: Op) -> int | None:
    """How many consecutive threads meet here, each group of so many by itself; None where none do."""
    return next((s.count for s in op.syncs() if s.kind == "meet" and s.on is None and op.reconverges()), None)


def _met(pending: AccessSet, group: int) -> AccessSet:
    """What is still pending where each group of so many threads has met."""
    return AccessSet(p for p in pending if group_of(p, p) != group)


def _by_pipeline(by: Value | None) -> bool:
    """Whether what completes an access is a pipeline's barrier."""
    return by is not None and not isinstance(by.type, TokenType)


def _released(t: MemoryAccess, earlier: MemoryAccess) -> bool:
    """Whether a pipeline orders an access behind an earlier one of the same buffer."""
    return t.free and t.mem is earlier.mem


def _forget_versions(state: State) -> State:
    """Every version of what is touched, so that a loop's head cannot grow for ever."""

    def forget(touches: Iterable[MemoryAccess]) -> Touches:
        return frozenset([any_version(t) for t in touches])

    return State(AccessSet(forget(state.pending)), {token: forget(t) for token, t in state.tokens.items()})


def _own(state: State) -> State:
    """The state without what tensors have seen: turns of a persistent kernel are as blocks of a grid."""
    tokens = {t: frozenset(touch for touch in touches if _in_shared(touch)) for t, touches in state.tokens.items()}
    return State(AccessSet(touch for touch in state.pending if _in_shared(touch)), tokens)


def _in_shared(t: MemoryAccess) -> bool:
    return t.mem is None or t.mem.op is not None


def _changes(v: Value, looped: Set[Value]) -> bool:
    """Whether a value may be another one from round to round of the loops that `looped` is made in."""
    todo, seen = [v], set[Value]()
    while todo:
        v = todo.pop()
        if v not in looped or v in seen:
            continue
        seen.add(v)
        if v.op is None or not v.op.pure or v.op.regions:
            return True
        todo.extend(v.op.operands)
    return False


def _apart(later: MemoryAccess, earlier: MemoryAccess) -> MinitileError:
    name = later.mem.name if later.mem is not None and later.mem.name else "memory"
    verb = {"read": "reads", "write": "writes", "atomic": "updates"}
    where = _line(earlier.op.loc if earlier.op is not None else None)
    return MinitileError(
        f"this {verb[later.kind]} `{name}` where another thread {verb[earlier.kind]} it{where}, and no barrier can "
        "stand between: the condition around differs between threads",
        later.op.loc if later.op is not None else None,
        "end the branch between the two accesses, so that all threads meet there; where no two threads touch the same "
        f"element, say so: `with T.assume_disjoint({name}):` around both",
    )


def _line(loc: Location | None) -> str:
    return f" (line {loc.line})" if loc is not None else ""
