"""Inserts proxy fences: on thread IR of sm_90 and later, after `thread_barriers`.

    store_mem %s, %x, %C                          store_mem %s, %x, %C
    barrier                            ->         proxy_fence {space = "shared"}
    tma_store %s, …, %C                           barrier
                                                  tma_store %s, …, %C

Loads, stores and cp.async go through the generic proxy; copies by TMA and the shared-memory reads of wgmma through the
async proxy. Where a generic access comes first and an asynchronous one to the same bytes later, and one of them writes,
order alone is not enough: the thread that accessed needs a proxy fence behind its access and before whatever tells
others that it is done (PTX ISA 8.3, 8.7 and 9.7.12.4 "membar/fence"; docs/proxy_fences.md goes through the cases).
Nothing is needed the other way round, or between asynchronous accesses.

The data. A `Mark` is a generic access that may lie in the past of a place in the program: the bytes, which of two
memories, the last release behind it, and whether a fence stands behind that release. A release is what others can learn
of the access by: a barrier, an arrival. So

    no release yet      a fence here and now is good enough for everybody
    release, no fence   a fence here is too late for threads that have learnt by that release: it had to stand in front
    release, fence      good again for threads that learn by the next release of at least as many threads

A forward walk carries the marks, through loops to a fixed point (in the terms of each iteration, see
memory_dependence.py), and joins them where paths meet. An asynchronous access that meets a mark *demands* a fence: in
front of the mark's release, or in front of itself where there was none. An arrival demands the same for what those that
wait for it will access (`async_happens_before.py`). A copy by cp.async leaves its marks where it is waited for. Threads
that go apart (roles, branches on what differs between threads) cannot fence for the others: marks from outside stay as
they are inside, and count as released where the threads diverged.

Placement. Demands name the last place that will do on their path. `Placement` fulfils them, then looks for cheaper
places: in front of the loops and branches around a fence, or at the end of the branch that accesses, taking a loop for
8 iterations and a branch for taken half of the time. A fence that nothing demands when it is left out is dropped: every
one that stays is needed on some path.

The search asks for many walks that differ in one fence. A walk of a loop or branch, or of some operations of a block,
that begins with the same marks (`fence_dataflow.py`) and has the same fences inside (`fence_parts.py`) ends the same:
it is done once.

Operations are asked for `accesses()` and `syncs()`; one that declares neither may do anything, in either proxy. Fences
that stand there count. `proxy_hint` overrides what operations say; the pass removes it. On older targets there is one
proxy only: fences that the program has are removed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from minitile.analysis.affine import Facts
from minitile.analysis.memory_dependence import MemoryAccess, any_version, back, is_private, memory_access, overlap
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.effects import Access, Sync
from minitile.ir.ops import control, fences, roles, tile
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import made_inside
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.async_happens_before import Asynchronous, Order
from minitile.transforms.sync.fence_dataflow import Mark, Marks, Seen, State
from minitile.transforms.sync.fence_parts import Part, Parts
from minitile.transforms.sync.fence_placement import Demand, Fence, Place, cheapest, insert_fences
from minitile.transforms.sync.reasons import names
from minitile.transforms.sync.resolve_wait_counts import last_uses

SPACES: tuple[str, ...] = ("shared", "global")
_PATIENCE = 8  # walks of a loop's body before versions are given up


def proxy_fence(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if context.target.has("tma"):
        effects = _Effects(kernel)
        if effects.mixed():
            chosen = cheapest(kernel, lambda placed: _Flow(effects, placed).demand())
            if effects.cluster:
                unfenced = _Flow(effects, frozenset())
                unfenced.demand()
                _acquire(kernel.body, unfenced.peers)
            insert_fences(kernel.body, chosen)
        _remove(kernel.body, (fences.ProxyHint,))
    else:
        _remove(kernel.body, (fences.ProxyHint, fences.ProxyFence))


def _acquire(block: Block, wanted: set[Op]) -> None:
    """Before the first access of the cluster's memory behind each synchronisation: the other half of the fences that
    the threads there have executed before it."""
    ops: list[Op] = []
    acquired = False
    for op in block.ops:
        for region in op.regions:
            _acquire(region, wanted)
        if op in wanted and not acquired:
            fence = fences.ProxyFence(form="acquire")
            fence.loc, fence.why = op.loc, _acquired(op)
            ops.append(fence)
            acquired = True
        elif isinstance(op, fences.ProxyFence) and op.form == "acquire":
            acquired = True
        elif op.region_fields or any(sync.acquires for sync in op.syncs()):
            acquired = False
        ops.append(op)
    block.ops = ops


def _acquired(op: Op) -> Origin:
    """Of the half of a fence in front of an access of the cluster's memory."""
    what = names(access.mem for access in op.accesses() if access.ctas == "cluster")
    return Origin("proxy_fence", f"WAR/WAW {what}: acquire half of the cluster's proxy fence", after=places([op.loc]))


def _remove(block: Block, kinds: tuple[type[Op], ...]) -> None:
    block.ops = [op for op in block.ops if not isinstance(op, kinds)]
    for op in block.ops:
        for region in op.regions:
            _remove(region, kinds)


class _Effects:
    """What the operations of a kernel touch, by proxy, and what walks over it have found: for all walks."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts = Facts(kernel)
        self.marks = Marks()
        self.generic: dict[Op, list[tuple[MemoryAccess, str, Value | None]]] = {}
        self.asynchronous: Asynchronous = {}
        self.inside = cache(made_inside)  # of a loop or branch
        self.relevant: dict[Block, list[Op]] = {}
        self.around: dict[Place, Op | None] = {}  # the operation around a place
        self.first: dict[Op, list[tuple[Mark, Value | None]]] = {}  # the marks that an operation makes
        self.releases: dict[Op, list[Sync]] = {}
        self.acting: set[Op] = set()  # what accesses memory, or tells others of accesses
        self.number: dict[Op, int] = {}  # in the order of the program
        self.walked: dict[object, _Walked] = {}
        self.over: dict[Op, list[Value]] = {}  # the tokens of which nothing is asked behind an operation
        last_uses(kernel.body, self.over)
        self._meetings: dict[tuple[Op, Seen, bool], tuple[Op, ...]] = {}
        self._runs: dict[Op, tuple[bool, bool]] = {}
        found: list[tuple[Op, Access, str]] = []  # each with the hint that it stands under
        self._block(kernel.body, None, "", found)
        self.cluster = any(access.ctas == "cluster" and access.proxy != "generic" for _, access, _ in found)
        _check_remote(found)
        for op, access, hint in found:
            words = access.proxy == "generic" and access.pipeline is not None and access.pipeline is access.mem
            if hint != "neutral" and not words and not is_private(access):
                self._access(op, access, hint or access.proxy)

    def _block(self, block: Block, around: Op | None, hint: str, found: list[tuple[Op, Access, str]]) -> None:
        hints = [hint]
        kept = self.relevant[block] = []
        self.around[block] = around
        for op in block.ops:
            if isinstance(op, fences.ProxyHint):
                if op.end:
                    hints.pop()
                else:
                    hints.append(op.scope)
            if op.pure or op.terminator:
                continue
            self.number[op] = len(self.number)
            for region in op.regions:
                self._block(region, op, hints[-1], found)
            found += [(op, access, hints[-1]) for access in op.accesses()]
            if releases := [sync for sync in op.syncs() if sync.releases]:
                self.releases[op] = releases
            kept.append(op)
            self.around[op] = around

    def _access(self, op: Op, access: Access, proxy: str) -> None:
        t = memory_access(op, access, None, self.facts)
        spaces = self.spaces(access.mem)
        if proxy in ("generic", "any"):
            found = self.generic.setdefault(op, [])
            found.extend((t, space, access.token) for space in spaces)
        if proxy in ("async", "any"):
            reached = {"cluster"} if access.ctas == "cluster" else set(spaces) - {"cluster"}
            self.asynchronous.setdefault(op, []).append((t, frozenset(reached)))

    def spaces(self, mem: Value | None) -> tuple[str, ...]:
        """What a fence for generic accesses of it is for. Shared memory that copies for the whole cluster may reach
        counts twice: as the CTA's own, and as the cluster's."""
        found = SPACES
        if mem is not None:
            found = ("shared",) if isinstance(mem.type, BufferType) else ("global",)
        return (*found, "cluster") if self.cluster and "shared" in found else found

    def mixed(self) -> bool:
        """Whether there is anything that could need a fence; what cannot, in any version, is forgotten."""
        later = {(any_version(a), spaces) for found in self.asynchronous.values() for a, spaces in found}
        earlier = {(any_version(t), space) for found in self.generic.values() for t, space, _ in found}
        pairs = [(one, other) for one in earlier for other in later if meets(*one, *other)]
        firsts, seconds = {one for one, _ in pairs}, {other for _, other in pairs}
        self.asynchronous = {
            op: left
            for op, reached in self.asynchronous.items()
            if (left := [a for a in reached if (any_version(a[0]), a[1]) in seconds])
        }
        self.acting = self.asynchronous.keys() | self.releases.keys()
        for block, ops in self.relevant.items():
            for op in ops:
                kept = [g for g in self.generic.get(op, ()) if (any_version(g[0]), g[1]) in firsts]
                if kept:
                    self.acting.add(op)
                    self.first[op] = [(self.marks.first(t, block, space), token) for t, space, token in kept]
            self.relevant[block] = [op for op in ops if self.matters(op)]
        self.parts = Parts(self.relevant, self.around)
        self.order = Order(self.kernel, self.facts, self.diverges, self.asynchronous)
        return bool(pairs)

    def matters(self, op: Op) -> bool:
        """Whether a walk has to look at an operation."""
        return op in self.acting or bool(op.region_fields) or not op.accesses()  # the last: waits, joins, fences

    def meetings(self, op: Op, seen: Seen, told: bool) -> tuple[Op, ...]:
        """The asynchronous accesses that need a fence behind a generic one: of an operation itself, or (`told`) of
        those that learn by it what was before."""
        found = self._meetings.get((op, seen, told))
        if found is None:
            later = self.order.leads_to(op) if told else self.asynchronous.get(op, ())
            ops = [a.op for a, spaces in later if a.op is not None and meets(seen.touch, seen.space, a, spaces)]
            found = self._meetings[op, seen, told] = tuple(ops)
        return found

    def runs(self, op: control.For) -> tuple[bool, bool]:
        """Whether a loop has an iteration for sure, and whether it has no second one."""
        known = self._runs.get(op)
        if known is None:
            facts = self.facts
            lower, upper, step = (facts.affine(v) for v in (op.lower, op.upper, op.step))
            known = self._runs[op] = facts.less(lower, upper), facts.nonnegative(lower + step - upper)
        return known

    def diverges(self, op: Op) -> bool:
        """Do threads differ in whether, or how often, they run the regions of an operation?"""
        if op.by_role:
            return True
        return isinstance(op, control.Structured) and not all(map(self.facts.uniform, op.decides()))


def _check_remote(found: list[tuple[Op, Access, str]]) -> None:
    """Raises LanguageError for memory that other blocks store to and that is accessed through the async proxy, too: the
    fences for that would be theirs."""
    remote = {a.mem for _, a, _ in found if a.ctas == "cluster" and a.proxy == "generic" and a.writes}
    for op, access, _ in found:
        if access.mem in remote and access.proxy != "generic":
            name = access.mem.name if access.mem is not None else "memory"
            raise LanguageError(
                f"other blocks of the cluster store to {name!r}, which copies by TMA or wgmma access, too",
                op.loc,
                "copy it to a buffer of its own for that, through registers",
            )


def _fenced(op: fences.ProxyFence) -> tuple[str, ...]:
    """What a fence is for."""
    if op.form:
        return ("cluster",) if op.form == "release" else ()
    return SPACES if op.space == "any" else (op.space,)


def meets(t: MemoryAccess, space: str, a: MemoryAccess, spaces: frozenset[str]) -> bool:
    """Whether a generic touch and a later asynchronous one need a fence."""
    return space in spaces and (t.writes or a.writes) and overlap(t, a)


@dataclass(slots=True)
class _Walked:
    """What came of a walk over a part of a block, or over an operation's regions."""

    state: State
    first: Demand | None
    peers: set[Op]


class _Flow:
    """One walk with fences in place: which one is demanded besides, the first in the order of the program. What it
    finds in a part of a block or in the regions of an operation depends on the state there and the fences inside, and
    is kept for other walks that come with the same."""

    def __init__(self, effects: _Effects, placed: frozenset[Fence]) -> None:
        self.effects = effects
        self.parts = effects.parts
        self.parts.change(placed)
        self.first: Demand | None = None
        self.peers: set[Op] = set()  # what accesses other CTAs' memory where marks are known
        self.together: int | None = effects.kernel.attrs.get("threads")  # how many threads are here

    def demand(self) -> Demand | None:
        """The first fence that is missing, with the operations whose accesses it is for."""
        self.block(self.effects.kernel.body, State(self.effects.marks))
        return self.first

    def miss(self, mark: Mark, release: Op, later: tuple[Op, ...]) -> None:
        """A fence in front of `release` is missing, for what some operations access later."""
        assert mark.seen.touch.op is not None
        if mark.seen.space == "cluster":
            self.peers.update(later)
        self.note(((release, mark.seen.space), frozenset([(mark.seen.touch.op, later[0])])))

    def note(self, demand: Demand) -> None:
        if self.first is None:
            self.first = demand
            return
        fence, accesses = self.first
        if fence == demand[0]:
            self.first = fence, accesses | demand[1]
        elif self.place(demand) < self.place(self.first):
            self.first = demand

    def place(self, demand: Demand) -> tuple[int, str]:
        release, space = demand[0]
        assert isinstance(release, Op)
        return self.effects.number[release], space

    def fences_at(self, place: Place, state: State) -> None:
        for kind in self.parts.placed.get(place, ()):
            state.fence(kind)

    def block(self, block: Block, state: State) -> None:
        """Walk a block; `state` becomes that at its end."""
        self.part(self.parts.whole[block], state)

    def part(self, part: Part, state: State) -> None:
        """Walk a part of a block."""
        for half in part.halves:
            self.once((half, half.number), lambda half=half: self.part(half, state), state)  # type: ignore[misc]
        for place in part.places:
            self.fences_at(place, state)
            if isinstance(place, Op):
                self.operation(place, state)

    def once(self, key: tuple[object, ...], walk: Callable[[], None], state: State) -> None:
        """Take a walk, or take what an earlier one has found there."""
        key = *key, state.known(), self.together
        walked = self.effects.walked.get(key)
        if walked is None:
            outside = self.first, self.peers
            self.first, self.peers = None, set()
            walk()
            walked = self.effects.walked[key] = _Walked(state.copy(), self.first, self.peers)
            self.first, self.peers = outside
        else:
            state.put(walked.state)
        if walked.first is not None:
            self.note(walked.first)
        self.peers |= walked.peers

    def operation(self, op: Op, state: State) -> None:
        if op.region_fields:
            self.once((op, self.parts.inside(op)), lambda: self.regions(op, state), state)
        elif op in self.effects.acting:
            self.access(op, state)
        elif isinstance(op, fences.ProxyFence):
            for space in _fenced(op):
                state.fence(space)
        elif isinstance(op, fences.ProxyHint):
            if op.scope == "neutral":
                state.forget()
        elif isinstance(op, (tile.Wait, roles.Await)):
            state.finish(op.token)
        elif isinstance(op, tile.Join):
            marks = frozenset[Mark]().union(*[state.copies.get(t, frozenset()) for t in op.tokens])
            if marks:
                state.copies[op.result] = marks
        for token in self.effects.over.get(op, ()):
            state.copies.pop(token, None)

    def access(self, op: Op, state: State) -> None:
        meetings = self.effects.meetings
        if op in self.effects.asynchronous:
            for mark in (*state.mine, *state.outer):
                if later := meetings(op, mark.seen, False):
                    self.miss(mark, mark.release or op, later)
        for sync in self.effects.releases.get(op, ()):
            together = sync.threads == "all"
            for mark in state.mine:
                if not (together and mark.fenced) and (later := meetings(op, mark.seen, True)):
                    self.miss(mark, op if together else mark.release or op, later)
            for mark in state.outer:
                if later := meetings(op, mark.seen, True):
                    self.miss(mark, mark.release or op, later)
            if together:
                whole = sync.count is None or (self.together is not None and sync.count >= self.together)
                state.release(op, None if whole else sync.count)
        for mark, token in self.effects.first.get(op, ()):
            if token is not None:
                state.start([(token, frozenset([mark]))])
            else:
                state.mine |= {mark}

    # Control flow ----------------------------------------------------------------------------------------------------

    def regions(self, op: Op, state: State) -> None:
        """Walk the regions of an operation."""
        if isinstance(op, control.If):
            self.branch(op, state)
        elif isinstance(op, (control.For, control.While)):
            self.loop(op, state)

    def branch(self, op: control.If, state: State) -> None:
        apart = self.effects.diverges(op)
        ends = []
        outside = self.together
        for region in op.regions:
            end = state.apart(op) if apart else state.copy()
            if apart:
                self.together = op.teams[op.regions.index(region)][1] if isinstance(op, roles.ByRole) else None
            self.block(region, end)
            self.together = outside
            end.carry(op.results, region.yielded)
            ends.append(end)
        if apart:
            for end in ends:
                state.mine |= end.mine
                state.start(end.copies.items())
        else:
            state.put(State(state.marks))
            for end in ends:
                state.join(end)

    def loop(self, op: control.For | control.While, state: State) -> None:
        if not self.effects.diverges(op):
            self.repeat(op, state)
            return
        inner = state.apart(op)
        self.repeat(op, inner)
        state.mine |= inner.mine
        state.start(inner.copies.items())

    def repeat(self, op: control.For | control.While, state: State) -> None:
        """Walk a loop until what is known at its head no longer grows."""
        inside = self.effects.inside(op)
        first, args = (op.body, op.carried) if isinstance(op, control.For) else (op.before, op.before.args)
        head = state.copy()
        head.carry(args, op.init)
        runs, once = self.effects.runs(op) if isinstance(op, control.For) else (True, False)
        for walks in itertools.count():
            leaving = head.copy()
            self.block(first, leaving)
            end = leaving
            if isinstance(op, control.While):
                end = leaving.copy()
                end.carry(op.body.args, op.before.yielded[1:])
                self.block(op.body, end)
            again = self.again(op, end, inside, args)
            if walks > _PATIENCE:
                again = again.map(any_version, any_version)
            if once or head.covers(again):
                break
            head = head.copy()
            head.join(again)
        leaving.carry(op.results, first.yielded[-len(op.results) :] if op.results else ())
        after = leaving.map(lambda t: back(t, None, None, inside), (op, "after"))
        after.copies = {token: marks for token, marks in after.copies.items() if token not in inside}
        if isinstance(op, control.For):
            state.carry(op.results, op.init)
        if runs:
            state.forget()
        state.join(after)

    def again(self, op: control.For | control.While, end: State, inside: set[Value], args: Iterable[Value]) -> State:
        """The state at a body's end, in the terms of the next iteration."""
        iv, step = (op.iv, self.effects.facts.affine(op.step)) if isinstance(op, control.For) else (None, None)
        shifted = end.map(lambda t: back(t, iv, step, inside), (op, "again"))
        again = State(end.marks, shifted.mine, shifted.outer)
        again.start([(token, marks) for token, marks in shifted.copies.items() if token not in inside])
        pairs = zip(args, op.body.yielded, strict=True)
        again.start([(arg, shifted.copies[source]) for arg, source in pairs if source in shifted.copies])
        return again
