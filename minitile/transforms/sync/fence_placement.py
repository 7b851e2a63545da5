"""Where fences go: the cheapest places that fulfil what an analysis demands (`proxy_fence.py`).

    before the loop: store            before the loop: store
    for … { fence ; barrier      ->   fence
            wgmma }                   for … { barrier ; wgmma }

The analysis is a function: given fences, which other one is the first to be missing? First its own places are taken,
one by one. Then each fence is tried elsewhere: in front of a loop or branch around it, and at the
end of the branch that holds the access it is for. With one fence more, some of the others may not be demanded any more;
if what is left costs less, it is kept. A loop is taken for 8 iterations and each side of a branch for half of the time;
of equals, fewer fences are better. At last a fence that stands behind a wait for products in flight goes in front of it
where that will do: there it costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping

from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import control, fences
from minitile.ir.origin import Origin, places
from minitile.ir.types import WGMMA_TOKEN
from minitile.transforms.sync.reasons import hazard, names

Place = Op | Block  # in front of an operation, or at the end of a block
Fence = tuple[Place, str]  # where, and for what: "shared", "global"; "cluster": shared memory of the whole cluster
Demand = tuple[Fence, frozenset[tuple[Op, Op]]]  # a missing fence, with the accesses before and behind that it is for
Analysis = Callable[[frozenset[Fence]], Demand | None]

_ITERATIONS = 8.0


def cheapest(kernel: Kernel, demands: Analysis) -> dict[Fence, Origin]:
    """The fences with which nothing is demanded, and what each of them is for."""
    search = _Search(kernel, demands)
    chosen = search.run()
    return {fence: search.origin(chosen, fence) for fence in chosen}


class _Search:
    def __init__(self, kernel: Kernel, demands: Analysis) -> None:
        self.demands = demands
        self.around: dict[Place, tuple[Block, Op | None]] = {}  # the block that a place is in, the operation around it
        self.weight: dict[Place, float] = {}
        self.number: dict[Place, int] = {}
        self.waits: dict[Block, list[Op]] = {}  # for products, in the order of a block
        self._block(kernel.body, None, 1.0)

    def _block(self, block: Block, around: Op | None, weight: float) -> None:
        for op in block.ops:
            self._place(op, block, around, weight)
            if not op.region_fields and any(v.type == WGMMA_TOKEN for v in op.operands):
                self.waits.setdefault(block, []).append(op)
            for region in op.regions:
                self._block(region, op, weight * _factor(op))
        self._place(block, block, around, weight)

    def _place(self, place: Place, block: Block, around: Op | None, weight: float) -> None:
        self.around[place], self.weight[place], self.number[place] = (block, around), weight, len(self.number)

    def run(self) -> frozenset[Fence]:
        chosen: frozenset[Fence] = frozenset()
        reasons: dict[Fence, set[tuple[Op, Op]]] = {}
        while missing := self.demands(chosen):
            fence, accesses = missing
            reasons[fence] = set(accesses)
            chosen |= {fence}
        chosen = self._without_idle(chosen, None)
        while better := self._better(chosen, reasons):
            chosen = better
        for fence in sorted(chosen, key=self._order):
            chosen = self._in_the_shade(chosen, fence)
        return chosen

    def origin(self, chosen: frozenset[Fence], fence: Fence) -> Origin:
        """What would be missing without a fence."""
        missing = self.demands(chosen - {fence})
        pairs = missing[1] if missing is not None else frozenset()
        first, then = (sorted({pair[n] for pair in pairs}, key=lambda op: self.number[op]) for n in (0, 1))
        kinds = {kind for pair in pairs for kind in conflicts(*pair)}
        reached = {access.mem for op in then for access in op.accesses()}
        what = names(access.mem for op in first for access in op.accesses() if access.mem in reached)
        hazards = "/".join(sorted(kinds)) or "order"
        return Origin(
            "proxy_fence",
            f"{hazards} {what or 'memory'}: generic-to-async proxy",
            places(op.loc for op in first),
            places(op.loc for op in then),
        )

    def _in_the_shade(self, chosen: frozenset[Fence], fence: Fence) -> frozenset[Fence]:
        """The same fences, this one in front of as many waits for products before it as it may pass."""
        place, kind = fence
        block, _ = self.around[place]
        waits = self.waits.get(block, [])
        behind = bisect_left(waits, self.number[place], key=self.number.__getitem__)
        others = chosen - {fence}
        for op in reversed(waits[:behind]):
            trial = others | {(op, kind)}
            if self.demands(trial):
                break
            chosen = trial
        return chosen

    def _better(self, chosen: frozenset[Fence], reasons: dict[Fence, set[tuple[Op, Op]]]) -> frozenset[Fence] | None:
        """Fences that cost less, one of them in a place that is new."""
        cost = self._cost(chosen)
        for fence in sorted(chosen, key=self._order):
            for other in self._elsewhere(fence, reasons.get(fence, set())):
                if self.weight[other[0]] > cost[0] or self.demands((chosen | {other}) - {fence}):
                    continue
                trial = self._without_idle((chosen | {other}) - {fence}, other)
                if self._cost(trial) < cost:
                    reasons.setdefault(other, set()).update(reasons.get(fence, ()))
                    return trial
        return None

    def _order(self, fence: Fence) -> tuple[int, str]:
        return self.number[fence[0]], fence[1]

    def _cost(self, chosen: frozenset[Fence]) -> tuple[float, int]:
        places = {place for place, _ in chosen}
        return sum(self.weight[place] for place in places), len(chosen)

    def _without_idle(self, chosen: frozenset[Fence], last: Fence | None) -> frozenset[Fence]:
        """Without the fences that nothing needs, the dearest ones first and `last` last."""
        for fence in sorted(chosen, key=lambda f: (f == last, -self.weight[f[0]], self._order(f))):
            if not self.demands(chosen - {fence}):
                chosen -= {fence}
        return chosen

    def _elsewhere(self, fence: Fence, reasons: set[tuple[Op, Op]]) -> Iterator[Fence]:
        """Other places for a fence, outer ones first."""
        place, kind = fence
        outer = list(self._enclosing(place))
        for op in reversed(outer):
            yield op, kind
        for access in sorted({earlier for earlier, _ in reasons}, key=lambda op: self.number[op]):
            for op in self._enclosing(access):
                if op not in outer:
                    yield self._region_with(op, access), kind

    def _enclosing(self, place: Place) -> Iterator[Op]:
        """The operations around a place, inner ones first."""
        _, op = self.around[place]
        while op is not None:
            yield op
            _, op = self.around[op]

    def _region_with(self, op: Op, inner: Op) -> Block:
        return next(region for region in op.regions if inner in region.walk())


def _factor(op: Op) -> float:
    if isinstance(op, control.Loop):
        return _ITERATIONS
    return 0.5 if isinstance(op, control.If) and not op.by_role else 1.0


def conflicts(earlier: Op, later: Op) -> Iterator[str]:
    """RAW, WAR, WAW: how an asynchronous operation conflicts with an ordinary one before it."""
    for a in earlier.accesses():
        for b in later.accesses():
            if b.proxy != "generic" and (a.mem is b.mem or None in (a.mem, b.mem)) and (a.writes or b.writes):
                yield hazard(a.writes, b.writes)


def insert_fences(block: Block, chosen: Mapping[Fence, Origin]) -> None:
    """Write the fences into a block and those inside it."""
    wanted: dict[Place, dict[str, Origin]] = {}
    for (place, kind), why in chosen.items():
        wanted.setdefault(place, {})[kind] = why
    if wanted:
        _insert(block, wanted)


def _insert(block: Block, wanted: dict[Place, dict[str, Origin]]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _insert(region, wanted)
        if op.terminator:
            ops.extend(_fences(wanted.get(block, {}), op))
        ops.extend(_fences(wanted.get(op, {}), op))
        ops.append(op)
    if block.terminator is None:
        ops.extend(_fences(wanted.get(block, {}), block.ops[-1] if block.ops else None))
    block.ops = ops


def _fences(kinds: dict[str, Origin], at: Op | None) -> Iterator[Op]:
    made: list[tuple[Op, str]] = [(fences.ProxyFence(form="release"), "cluster")] if "cluster" in kinds else []
    if spaces := kinds.keys() & {"shared", "global"}:
        made.append((fences.ProxyFence(space=min(spaces) if len(spaces) == 1 else "any"), min(spaces)))
    for fence, kind in made:
        fence.loc, fence.why = at.loc if at is not None else None, kinds[kind]
        yield fence
