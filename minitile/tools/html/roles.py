"""Who does what in a kernel, and who waits for whom: read off the tile IR, as rows in lanes with arrows between them.

    all 256 threads          producer: 1 warp                      consumer: 256 threads
                             for 0, ceil(K / 64), 1                for 0, ceil(K / 64), 1
                               acquire A_shared+B_shared   ◄─┐  ┌──► receive A_shared+B_shared
                               tma_copy A → A_shared         │  │    async_gemm A_shared, B_shared
                               tma_copy B → B_shared   ──────┼──┘    wait
                                                             └──── release A_shared+B_shared

A lane is a role: roles run at the same time, what is in one lane runs in the order of its rows. A row is an operation
that touches memory, waits or lets others go on; runs of others that compute tiles are one row. An arrow leads from
what lets go to what waits for it: by an mbarrier pipeline, by a barrier of the program's own, or by the token of an
asynchronous operation, through as many iterations as the loop carries it. Nothing here is a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from minitile.hardware import WARPGROUP
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import Location
from minitile.ir.ops import control, explicit, roles
from minitile.ir.ops.arith import Constant
from minitile.ir.types import PipelineType, TileType, TokenType

DEPTH = 4  # operations that an expression is shown with

# What the operations of a pipeline do to the two barriers of a slot, or to an order barrier.
_PIPELINE: dict[type[Op], tuple[str, str]] = {
    roles.ProducerAcquire: ("waits", "empty"),
    roles.ConsumerWait: ("waits", "full"),
    roles.ProducerExpectTx: ("arrives", "full"),
    roles.TmaCopy: ("arrives", "full"),
    roles.ConsumerRelease: ("arrives", "empty"),
    roles.Refill: ("arrives", "empty"),
    roles.OrderBarrierWait: ("waits", "turn"),
    roles.OrderBarrierArrive: ("arrives", "turn"),
    roles.PingPongWait: ("waits", "turn"),
    roles.PingPongArrive: ("arrives", "turn"),
}

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}
_SIGNS |= {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}


@dataclass
class Row:
    """An operation, at `y` (in rows) of a lane, within `depth` loops and branches that begin there; one with regions
    lasts to the row `end`. `kind`: "waits", "arrives", "async", "memory", "compute", "region"."""

    text: str
    kind: str
    lane: int
    y: int
    depth: int
    place: int | None
    end: int = 0


@dataclass
class Arrow:
    """From the row that lets go to the one that waits for it; `by`: what orders them; `turns`: the fewest iterations of
    loops that lie between, where a token says so."""

    source: Row
    target: Row
    by: str
    turns: int = 0


@dataclass
class Chart:
    """Lanes by their titles; the rows and arrows of all of them; the pipelines, each with what it consists of."""

    lanes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    pipelines: list[tuple[str, str]] = field(default_factory=list)
    height: int = 0


def role_chart(kernel: Kernel, at: Callable[[Location | None], int | None]) -> Chart:
    """The chart of a kernel in tile IR; `at` gives the number of a place."""
    walk = _Walk(kernel, at)
    body = control.find_launch(kernel).body
    end = walk.block(body, walk.lane(f"all {kernel.threads} threads"), 0, 0)
    walk.chart.height = max([end, *walk.ends.values()])
    walk.connect()
    used = sorted({row.lane for row in walk.chart.rows})
    walk.chart.lanes = [walk.chart.lanes[lane] for lane in used]
    for row in walk.chart.rows:
        row.lane = used.index(row.lane)
    return walk.chart


class _Walk:
    def __init__(self, kernel: Kernel, at: Callable[[Location | None], int | None]) -> None:
        self.kernel = kernel
        self.at = at
        self.chart = Chart()
        self.signals: dict[tuple[object, object], list[tuple[str, Row]]] = {}  # by barrier: who waits and arrives
        self.flows: dict[Value, list[tuple[Value, int]]] = {}  # of a token those that it may be, and iterations between
        self.issued: dict[Value, Row] = {}
        self.awaited: list[tuple[Value, Row]] = []
        self.groups = frozenset(range(kernel.threads // WARPGROUP))  # whose role the walk is in
        self.ends: dict[int, int] = {}  # of the lanes of roles: where they have come to

    def lane(self, title: str) -> int:
        if title not in self.chart.lanes:
            self.chart.lanes.append(title)
        return self.chart.lanes.index(title)

    def row(self, op: Op, text: str, kind: str, lane: int, y: int, depth: int) -> Row:
        row = Row(text, kind, lane, y, depth, self.at(op.loc), y)
        self.chart.rows.append(row)
        return row

    def block(self, block: Block, lane: int, y: int, depth: int) -> int:
        """The rows of a block from `y` on; the first row behind them."""
        computed: list[Op] = []
        for op in [*block.ops, None]:
            if op is not None and not any(map(self.leads_to_a_row, op.walk())):
                for inner in op.walk():
                    self.flow(inner)
                continue
            if op is not None and not op.regions and not self.shown(op):
                computed.append(op)
                continue
            if computed:
                counts = Counter(op.mnemonic for op in computed)
                names = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
                y = self.row(computed[-1], names, "compute", lane, self.joined(lane, y), depth).y + 1
                computed = []
            if op is not None:
                y = self.op(op, lane, y, depth)
        return y

    def shown(self, op: Op) -> bool:
        waits = _tokens(op.operands) and not _tokens(op.results)
        return not op.pure and not op.terminator and bool(op.accesses() or op.syncs() or waits or _in_pipeline(op))

    def op(self, op: Op, lane: int, y: int, depth: int) -> int:
        self.flow(op)
        around = self.groups
        sides = list(_sides(op, self.kernel.threads, around))
        for title, region, self.groups in sides:
            side = self.lane(title)
            if side == lane:
                y = self.block(region, lane, y, depth)
                continue
            self.ends[side] = max(y, self.ends.get(side, 0))
            self.ends[side] = self.block(region, side, self.ends[side], 0)
        self.groups = around
        if sides:
            return y
        y = self.joined(lane, y)
        row = self.row(op, self.text(op), self.kind(op), lane, y, depth)
        self.tokens(op, row)
        known = _in_pipeline(op)
        if known is not None:
            self.signal(op, row, *known)
        for sync in op.syncs():
            self.signals.setdefault((sync.on, _index(op)), []).append(("waits" if sync.acquires else "arrives", row))
        for access in op.accesses():
            if access.pipeline is not None and access.proxy == "async" and known is None:
                self.signals.setdefault((access.pipeline, _index(op)), []).append(("arrives", row))
        y += 1
        for number, region in enumerate(op.regions):
            if number and any(map(self.leads_to_a_row, region.walk())):
                y = self.row(op, "else", "region", lane, y, depth).y + 1
            y = self.joined(lane, self.block(region, lane, y, depth + 1))
        row.end = y - 1
        return y

    def joined(self, lane: int, y: int) -> int:
        """Where all lanes are done, if this one is the one that others part from."""
        return y if lane in self.ends else max([y, *self.ends.values()])

    def leads_to_a_row(self, op: Op) -> bool:
        computes = op.pure and any(isinstance(r.type, TileType) for r in op.results)
        return computes or self.shown(op) or any(_sides(op, 0, self.groups))

    def signal(self, op: Op, row: Row, what: str, word: str) -> None:
        pipeline = next((v for v in op.operands if isinstance(v.type, PipelineType)), None)
        team = getattr(op, "to", None)  # whom the order barrier lets pass
        which = word if team is None else f"team {_spelled(team)}"
        self.signals.setdefault((pipeline, which), []).append((what, row))

    def tokens(self, op: Op, row: Row) -> None:
        """What the operation issues, and what it waits for."""
        self.issued.update(dict.fromkeys(_tokens(op.results), row) if not op.regions else {})
        if not _tokens(op.results) and not op.regions:
            self.awaited += [(token, row) for token in _tokens(op.operands)]

    # What a row says ------------------------------------------------------------------------------------------------

    def kind(self, op: Op) -> str:
        known = _in_pipeline(op)
        if op.regions and known is None:
            return "region"
        if known is not None:
            return "async" if isinstance(op, roles.TmaCopy) else known[0]
        if op.syncs():
            return "waits" if any(sync.acquires for sync in op.syncs()) else "arrives"
        if _tokens(op.results):
            return "async"
        if _tokens(op.operands):
            return "waits"
        return "async" if any(a.proxy == "async" for a in op.accesses()) else "memory"

    def text(self, op: Op) -> str:
        if isinstance(op, control.For):
            first, last, step = map(_spelled, op.decides())
            by = f" by {step}" if step != "1" else ""
            return f"for {op.iv.name or 'k'} from {first} to {last}{by}" + (f", {op.kind}" * (op.kind != "serial"))
        if isinstance(op, control.Structured):
            return f"{op.mnemonic} {', '.join(map(_spelled, op.decides()))}"
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        for a in op.accesses():
            if a.mem is not None and a.mem is not a.pipeline:
                (writes if a.writes else reads)[_named(a.mem, a.slot)] = None
        if reads or writes:
            arrow = " →" if writes else ""
            return f"{op.mnemonic} {', '.join(reads)}".rstrip() + f"{arrow} {', '.join(writes)}".rstrip()
        pipeline = next((v for v in op.operands if isinstance(v.type, PipelineType)), None)
        if pipeline is not None:
            return f"{op.mnemonic} {_pipeline(pipeline)}[{_spelled(op.operands[1])}]"
        return f"{op.mnemonic} {', '.join(v.name for v in op.operands if v.name)}".rstrip()

    # Tokens and arrows ----------------------------------------------------------------------------------------------

    def flow(self, op: Op) -> None:
        if isinstance(op, control.Structured):
            self.transfers(op)
        elif isinstance(op, roles.MbarrierPipeline):
            members = ", ".join(f"{v.name} ({'×'.join(map(str, v.shape))} {v.dtype})" for v in op.payload)
            slots = "one slot" if op.slots == 1 else f"{op.slots} slots"
            self.chart.pipelines.append((_pipeline(op.result), f"{slots} of {members}"))
        elif op.stands_for() and not op.accesses():
            self.flows.setdefault(op.results[-1], []).extend((v, 0) for v in op.stands_for())

    def transfers(self, op: control.Structured) -> None:
        inner = {argument for region in op.regions for argument in region.args}
        for t in op.transfers():
            for value, *targets in zip(t.values, *t.targets, strict=True):
                for target in targets:
                    if isinstance(target.type, TokenType):
                        again = op.repeats and t.source is not None and target in inner
                        self.flows.setdefault(target, []).append((value, int(again)))

    def connect(self) -> None:
        for (barrier, word), members in self.signals.items():
            what = _pipeline(barrier) if isinstance(barrier, Value) else "order barrier,"
            by = f"{what} {word}".strip()
            arrivals = _last_of_runs([row for what, row in members if what == "arrives"])
            for target in (row for what, row in members if what == "waits"):
                self.chart.arrows += [Arrow(source, target, by) for source in arrivals]
        for token, target in self.awaited:
            by_turns: dict[int, list[Row]] = {}
            for found, turns in self.origins(token).items():
                by_turns.setdefault(turns, []).append(self.issued[found])
            for turns, rows in by_turns.items():
                self.chart.arrows += [Arrow(source, target, "token", turns) for source in _last_of_runs(rows)]

    def origins(self, token: Value) -> dict[Value, int]:
        """The issued tokens that this one may be, each with the fewest iterations that lie between."""
        distance = {token: 0}
        left = [token]
        while left:
            value = left.pop(0)
            for source, more in self.flows.get(value, ()):
                if distance[value] + more < distance.get(source, 1 << 30):
                    distance[source] = distance[value] + more
                    left.append(source)
        return {value: n for value, n in distance.items() if value in self.issued}


def _sides(op: Op, threads: int, groups: frozenset[int]) -> Iterator[tuple[str, Block, frozenset[int]]]:
    """The roles of an operation, each with the title of its lane, and its warpgroups of the threads that compute; none
    where it has no roles. `groups`: those that come to it."""
    if isinstance(op, roles.WarpSpecialized):
        if op.producer_threads:
            own, theirs = op.registers
            title = f"producer: one warp of {op.producer_threads} threads, {own} registers each"
            yield title, op.producer, frozenset()
            yield f"consumers: {threads} threads, {theirs} registers each", op.consumer, groups
        else:
            yield f"all {threads} threads", op.consumer, groups
    elif isinstance(op, explicit.WarpGroups):
        taken = groups & {*range(op.first, op.first + op.count)}
        for region, side in ((op.then, taken), (op.orelse, groups - taken)):
            if not region.is_empty:
                yield f"warpgroup{'s' * (len(side) != 1)} {', '.join(map(str, sorted(side)))}", region, side


def _last_of_runs(rows: list[Row]) -> list[Row]:
    """Of rows that stand below one another the last."""
    places = {(row.lane, row.depth, row.y) for row in rows}
    return [row for row in rows if (row.lane, row.depth, row.y + 1) not in places]


def _in_pipeline(op: Op) -> tuple[str, str] | None:
    """What an operation of a pipeline, or one derived from it, does; None for any other."""
    return next((_PIPELINE[kind] for kind in type(op).__mro__ if kind in _PIPELINE), None)


def _tokens(values: Iterable[Value]) -> list[Value]:
    return [v for v in values if isinstance(v.type, TokenType)]


def _index(op: Op) -> object:
    """Which of several barriers: its number, where the program says it."""
    number = getattr(op, "index", None)
    return _spelled(number) if isinstance(number, Value) and isinstance(number.op, Constant) else ""


def _pipeline(pipeline: Value) -> str:
    """A pipeline by what it hands over."""
    made = pipeline.op
    return (
        "+".join(v.name for v in made.payload)
        if isinstance(made, roles.MbarrierPipeline)
        else pipeline.name or "barriers"
    )


def _named(memory: Value, slot: Value | None) -> str:
    return (memory.name or "scratch") + ("" if slot is None else f"[{_spelled(slot)}]")


def _spelled(value: Value, depth: int = DEPTH) -> str:
    """A scalar, as an expression where it has no name."""
    op = value.op
    if isinstance(op, Constant):
        return str(op.value)
    if value.name or op is None or not depth or not op.pure:
        return value.name or "…"
    spelled = [_spelled(v, depth - 1) for v in op.operands]
    sign = _SIGNS.get(getattr(op, "predicate", op.mnemonic))
    if sign is None:
        return f"{op.mnemonic}({', '.join(spelled)})"
    return f" {sign} ".join(spelled) if depth == DEPTH else f"({f' {sign} '.join(spelled)})"
