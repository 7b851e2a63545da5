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

A forward walk carries the marks, through loops to a fixed point (in the terms of each iteration, see hazards.py), and
joins them where paths meet. An asynchronous access that meets a mark *demands* a fence: in front of the mark's release,
or in front of itself where there was none. An arrival demands the same for what those that wait for it will access
(`proxy_order.py`). A copy by cp.async leaves its marks where it is waited for. Threads that go apart (roles, branches
on what differs between threads) cannot fence for the others: marks from outside stay as they are inside, and count as
released where the threads parted.

Placement. Demands name the last place that will do on their path. `Placement` fulfils them, then looks for cheaper
places: in front of the loops and branches around a fence, or at the end of the branch that accesses, taking a loop for
8 iterations and a branch for taken half of the time. A fence that nothing demands when it is left out is dropped: every
one that stays is needed on some path.

Operations are asked for `accesses()` and `syncs()`; one that declares neither may do anything, in either proxy. Fences
that stand there count. `proxy_hint` overrides what operations say; the pass removes it. On older targets there is one
proxy only: fences that the program has are removed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.effects import Access
from minitile.ir.ops import control, fences, roles, tile
from minitile.ir.types import BufferType, TokenType
from minitile.passes.affine import Facts
from minitile.passes.fence_places import Demands, Fence, Place, cheapest, insert_fences
from minitile.passes.hazards import Touch, any_version, back, is_private, overlap, touch
from minitile.passes.manager import PassContext
from minitile.passes.proxy_order import Order

SPACES: tuple[str, ...] = ("shared", "global")
_PATIENCE = 8  # walks of a loop's body before versions are given up


def proxy_fence(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if context.target.has("tma"):
        effects = _Effects(kernel)
        if effects.mixed():
            chosen = cheapest(kernel, lambda placed: _Flow(effects, placed).demands())
            if effects.cluster:
                unfenced = _Flow(effects, frozenset())
                unfenced.demands()
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
            fence.loc = op.loc
            ops.append(fence)
            acquired = True
        elif isinstance(op, fences.ProxyFence) and op.form == "acquire":
            acquired = True
        elif op.region_fields or any(sync.acquires for sync in op.syncs()):
            acquired = False
        ops.append(op)
    block.ops = ops


def _remove(block: Block, kinds: tuple[type[Op], ...]) -> None:
    block.ops = [op for op in block.ops if not isinstance(op, kinds)]
    for op in block.ops:
        for region in op.regions:
            _remove(region, kinds)


@dataclass(frozen=True, slots=True)
class Mark:
    """A generic access in the past. `release`: the last operation by which others may know of it, and how many threads
    met there (None: all); `fenced`: there was a fence behind it."""

    touch: Touch
    space: str
    release: Op | None = None
    count: int | None = None
    fenced: bool = False


Marks = frozenset[Mark]
_NONE: Marks = frozenset()


@dataclass(slots=True)
class _State:
    """`mine`: the marks of the threads that are here together; `outer`: those from before they parted from others;
    `tokens`: the touches of copies in flight."""

    mine: Marks = _NONE
    outer: Marks = _NONE
    tokens: dict[Value, frozenset[Touch]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(self.mine, self.outer, dict(self.tokens))

    def join(self, other: _State) -> None:
        self.mine |= other.mine
        self.outer |= other.outer
        self.start(other.tokens.items())

    def start(self, copies: Iterable[tuple[Value, frozenset[Touch]]]) -> None:
        for token, touches in copies:
            self.tokens[token] = self.tokens.get(token, frozenset()) | touches

    def covers(self, other: _State) -> bool:
        return (
            other.mine <= self.mine
            and other.outer <= self.outer
            and all(touches <= self.tokens.get(token, frozenset()) for token, touches in other.tokens.items())
        )

    def carry(self, targets: Iterable[Value], sources: Iterable[Value]) -> None:
        """Tokens that go from sources to targets."""
        pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if isinstance(t.type, TokenType)]
        self.start([(t, self.tokens.get(s, frozenset())) for t, s in pairs])

    def map(self, f: Callable[[Touch], Touch]) -> _State:
        def marks(old: Marks) -> Marks:
            return frozenset([replace(m, touch=f(m.touch)) for m in old])

        tokens = {token: frozenset([f(t) for t in touches]) for token, touches in self.tokens.items()}
        return _State(marks(self.mine), marks(self.outer), tokens)

    def apart(self, at: Op) -> _State:
        """What threads start with that part from the others at an operation."""
        left = frozenset([replace(m, release=m.release or at) for m in self.mine])
        return _State(_NONE, self.outer | left, dict(self.tokens))

    def fence(self, space: str) -> None:
        """All threads that are here fence."""
        kept = [m for m in self.mine if m.space != space or m.release is not None]
        self.mine = frozenset([replace(m, fenced=True) if m.space == space else m for m in kept])

    def release(self, at: Op, count: int | None) -> None:
        """`count` threads (None: all that are here) tell one another what they have done."""
        marks = []
        for m in self.mine:
            if m.release is not None and count is not None and (m.count is None or m.count > count):
                marks.append(m)
            elif not m.fenced:
                marks.append(replace(m, release=at, count=count))
        self.mine = frozenset(marks)


class _Effects:
    """What the operations of a kernel touch, by proxy: found once, for all walks."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts = Facts(kernel)
        self.generic: dict[Op, list[tuple[Touch, str, Value | None]]] = {}
        self.asynchronous: dict[Op, list[tuple[Touch, frozenset[str]]]] = {}
        self.locals: dict[Op, set[Value]] = {}
        self.relevant: dict[Block, list[Op]] = {}
        self.cluster = any(access.ctas == "cluster" for op in kernel.walk() for access in op.accesses())
        self._block(kernel.body, "")

    def _block(self, block: Block, hint: str) -> None:
        hints = [hint]
        kept = self.relevant[block] = []
        for op in block.ops:
            if isinstance(op, fences.ProxyHint):
                if op.end:
                    hints.pop()
                else:
                    hints.append(op.scope)
            if op.pure or op.terminator:
                continue
            kept.append(op)
            for region in op.regions:
                self._block(region, hints[-1])
            for access in op.accesses():
                self._access(op, access, hints[-1])

    def _access(self, op: Op, access: Access, hint: str) -> None:
        words = access.proxy == "generic" and access.channel is not None and access.channel is access.mem
        if hint == "neutral" or is_private(access) or words:
            return
        proxy = hint or access.proxy
        t = touch(op, access, None, self.facts)
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
        self.generic = {
            op: kept
            for op, found in self.generic.items()
            if (kept := [g for g in found if (any_version(g[0]), g[1]) in firsts])
        }
        self.asynchronous = {
            op: left
            for op, reached in self.asynchronous.items()
            if (left := [a for a in reached if (any_version(a[0]), a[1]) in seconds])
        }
        for block, ops in self.relevant.items():
            self.relevant[block] = [op for op in ops if self.matters(op)]
        self.order = Order(self.kernel, self.facts, self.diverges, self.asynchronous)
        return bool(pairs)

    def matters(self, op: Op) -> bool:
        """Whether a walk has to look at an operation."""
        if op in self.generic or op in self.asynchronous or op.regions or op.syncs():
            return True
        return not op.accesses()  # waits, joins, fences

    def inside(self, op: Op) -> set[Value]:
        """All values made in the regions of an operation."""
        found = self.locals.get(op)
        if found is None:
            found = self.locals[op] = set()
            for region in op.regions:
                found.update(region.args)
                for inner in region.walk():
                    found.update(inner.results)
                    for block in inner.regions:
                        found.update(block.args)
        return found

    def runs_once(self, op: control.For) -> bool:
        """Whether there is no second iteration."""
        lower, upper, step = (self.facts.affine(v) for v in (op.lower, op.upper, op.step))
        return self.facts.nonnegative(lower + step - upper)

    def diverges(self, op: Op) -> bool:
        """Do threads differ in whether, or how often, they run the regions of an operation?"""
        if op.by_role:
            return True
        if isinstance(op, control.If):
            return not self.facts.uniform(op.condition)
        if isinstance(op, control.For):
            return not all(self.facts.uniform(v) for v in (op.lower, op.upper, op.step))
        ends = [region.terminator for region in op.regions]
        return not all(self.facts.uniform(end.flag) for end in ends if isinstance(end, control.Condition))


def _fenced(op: fences.ProxyFence) -> tuple[str, ...]:
    """What a fence is for."""
    if op.form:
        return ("cluster",) if op.form == "release" else ()
    return SPACES if op.space == "any" else (op.space,)


def meets(t: Touch, space: str, a: Touch, spaces: frozenset[str]) -> bool:
    """Whether a generic touch and a later asynchronous one need a fence."""
    return space in spaces and (t.writes or a.writes) and overlap(t, a)


class _Flow:
    """One walk with fences in place: what is demanded besides."""

    def __init__(self, effects: _Effects, placed: frozenset[Fence]) -> None:
        self.effects = effects
        self.placed: dict[Place, list[str]] = {}
        for place, kind in placed:
            self.placed.setdefault(place, []).append(kind)
        self.found: Demands = {}
        self.peers: set[Op] = set()  # what accesses other CTAs' memory where marks are known
        self.together: int | None = effects.kernel.attrs.get("threads")  # how many threads are here

    def demands(self) -> Demands:
        """The fences that are missing, each with the operations whose accesses it is for."""
        self.block(self.effects.kernel.body, _State())
        return self.found

    def demand(self, mark: Mark, later: Touch, here: Op) -> None:
        assert mark.touch.op is not None
        assert later.op is not None
        if mark.space == "cluster":
            self.peers.add(later.op)
        self.found.setdefault((mark.release or here, mark.space), set()).add(mark.touch.op)

    def fences_at(self, place: Place, state: _State) -> None:
        for kind in self.placed.get(place, ()):
            state.fence(kind)

    def block(self, block: Block, state: _State) -> None:
        """Walk a block; `state` becomes that at its end."""
        for op in self.effects.relevant[block]:
            self.fences_at(op, state)
            if isinstance(op, control.If):
                self.branch(op, state)
            elif isinstance(op, (control.For, control.While)):
                self.loop(op, state)
            elif isinstance(op, fences.ProxyFence):
                for space in _fenced(op):
                    state.fence(space)
            elif isinstance(op, fences.ProxyHint):
                if op.scope == "neutral":
                    state.mine = state.outer = _NONE
            elif isinstance(op, (tile.Wait, roles.Await)):
                self.touched(state.tokens.get(op.token, ()), state)
            elif isinstance(op, tile.Join):
                state.tokens[op.result] = frozenset().union(*[state.tokens.get(t, frozenset()) for t in op.tokens])
            else:
                self.access(op, state)
        self.fences_at(block, state)

    def touched(self, touches: Iterable[Touch], state: _State) -> None:
        state.mine |= frozenset([Mark(t, space) for t in touches for space in self.effects.spaces(t.mem)])

    def access(self, op: Op, state: _State) -> None:
        for a, spaces in self.effects.asynchronous.get(op, ()):
            for mark in (*state.mine, *state.outer):
                if meets(mark.touch, mark.space, a, spaces):
                    self.demand(mark, a, op)
        for sync in op.syncs():
            if not sync.releases:
                continue
            together = sync.threads == "all"
            for a, spaces in self.effects.order.leads_to(op):
                for mark in state.mine:
                    if meets(mark.touch, mark.space, a, spaces) and not (together and mark.fenced):
                        self.demand(replace(mark, release=None) if together else mark, a, op)
                for mark in state.outer:
                    if meets(mark.touch, mark.space, a, spaces):
                        self.demand(mark, a, op)
            if together:
                whole = sync.count is None or (self.together is not None and sync.count >= self.together)
                state.release(op, None if whole else sync.count)
        for t, space, token in self.effects.generic.get(op, ()):
            if token is not None:
                state.start([(token, frozenset([t]))])
            else:
                state.mine |= {Mark(t, space)}

    # Control flow ----------------------------------------------------------------------------------------------------

    def branch(self, op: control.If, state: _State) -> None:
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
                state.start(end.tokens.items())
        else:
            state.mine, state.outer, state.tokens = _NONE, _NONE, {}
            for end in ends:
                state.join(end)

    def loop(self, op: control.For | control.While, state: _State) -> None:
        if not self.effects.diverges(op):
            self.repeat(op, state)
            return
        inner = state.apart(op)
        self.repeat(op, inner)
        state.mine |= inner.mine
        state.start(inner.tokens.items())

    def repeat(self, op: control.For | control.While, state: _State) -> None:
        """Walk a loop until what is known at its head no longer grows."""
        inside = self.effects.inside(op)
        first, args = (op.body, op.carried) if isinstance(op, control.For) else (op.before, op.before.args)
        head = state.copy()
        head.carry(args, op.init)
        once = isinstance(op, control.For) and self.effects.runs_once(op)
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
                again = again.map(any_version)
            if once or head.covers(again):
                break
            head = head.copy()
            head.join(again)
        leaving.carry(op.results, first.yielded[-len(op.results) :] if op.results else ())
        after = leaving.map(lambda t: back(t, None, None, inside))
        after.tokens = {token: touches for token, touches in after.tokens.items() if token not in inside}
        runs = isinstance(op, control.While)
        if isinstance(op, control.For):
            state.carry(op.results, op.init)
            facts = self.effects.facts
            runs = facts.less(facts.affine(op.lower), facts.affine(op.upper))
        if runs:
            state.mine = state.outer = _NONE
        state.join(after)

    def again(self, op: control.For | control.While, end: _State, inside: set[Value], args: Iterable[Value]) -> _State:
        """The state at a body's end, in the terms of the next iteration."""
        iv, step = (op.iv, self.effects.facts.affine(op.step)) if isinstance(op, control.For) else (None, None)
        shifted = end.map(lambda t: back(t, iv, step, inside))
        again = _State(shifted.mine, shifted.outer)
        again.start([(token, touches) for token, touches in shifted.tokens.items() if token not in inside])
        pairs = zip(args, op.body.yielded, strict=True)
        again.start([(arg, shifted.tokens[source]) for arg, source in pairs if source in shifted.tokens])
        return again
