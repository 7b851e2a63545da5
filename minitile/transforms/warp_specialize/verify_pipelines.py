"""Verifies the pipelines of specialised kernels: slots are linear, and no role waits for ever.

All roles, and each team of consumers, are run on numbers, as processes that only see pipelines and the order
barrier: tiles have no values, dimensions and parameters get small ones, loads of tensors the role does not write give
the same number to all, and so does an answer about the next tile (the first few grant one). A pipeline orders its
roles completely (the role that comes first waits), so that one order of
running them stands for all; teams are run in both orders, each as far as it comes. The warps of a single role run one
program, in which what waits is behind what it waits for, or all wait. What must hold in each run:

* an acquire that passes finds its slot released or never used, a receive finds it full: index and phase agree with
  what the barriers' parities let through; no role fills a slot that has been released and not acquired;
* bytes that are announced are those of the copies that follow, each payload buffer once, into this slot;
* each role receives slots in the order in which they were filled: teams do not take each other's; a slot is free when
  all roles that receive from its pipeline have released it;
* what reads a ring's buffer reads a slot between its receive and its release by the same team, and a gemm that reads
  it is complete before the release;
* an arrival at a team's order barrier finds the one before it taken by the team;
* they do not all wait, and when the kernel ends, nothing that was copied is still under way to a slot.

The runs are few: dimensions of 0, 1 and more tiles than there are slots, the first block of the grid. An error that
shows only beyond that (a counter that wraps) is missed, as is one under conditions that depend on tiles: branches and
loops with such are passed over if no pipeline is used in them, else the run ends there.

It is part of verification (MINITILE_VERIFY=1), between the passes on tile IR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from minitile.ir.builder import COMPARE, INTEGER
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import IRError
from minitile.ir.ops import arith, control, explicit, launch_control, roles, tile

SIZES = (0, 1, 64, 200, 520)  # of dimensions, rounded up to what divides them
LONGEST = 4000  # steps of both roles in one run
GRANTED = 5  # answers that give another tile


class _Open(Exception):
    """The run depends on what it does not know."""


def verify_pipelines(kernel: Kernel) -> None:
    """Raises IRError with what goes wrong, and for which sizes."""
    for op in kernel.walk():
        if isinstance(op, roles.WarpSpecialized):
            for size in SIZES:
                _Run(kernel, op, size).run()
                if any(isinstance(inner, explicit.WarpGroups) for inner in op.consumer.walk()):
                    _Run(kernel, op, size, -1).run()


@dataclass
class _Slot:
    """How often its barriers have completed, and whose it is: "free", "filling", "full", "held" or "released"."""

    filled: int = 0
    freed: int = 0
    state: str = "free"
    holders: dict[str, object] = field(default_factory=dict)  # what has received it, by role
    released: set[str] = field(default_factory=set)  # the roles that have since it was filled
    coming: set[Value] = field(default_factory=set)


class _Run:
    """`order`: 1, or -1 for the teams in reverse."""

    def __init__(self, kernel: Kernel, op: roles.WarpSpecialized, size: int, order: int = 1) -> None:
        self.kernel, self.op, self.size, self.order = kernel, op, size, order
        self.events = 0
        self.slots: dict[tuple[Value, int], _Slot] = {}
        self.pipeline_of: dict[Value, Value] = {}
        self.readers: dict[Value, set[str]] = {}  # the roles that receive from a pipeline
        for name, program in op.programs.items():
            for inner in program.walk():
                if isinstance(inner, roles.ConsumerWait):
                    self.readers.setdefault(inner.pipeline, set()).add(name)
        # The slots of a pipeline that a role has not received, in order.
        self.filled: dict[tuple[Value, str], list[int]] = {(v, n): [] for v, to in self.readers.items() for n in to}
        self.arrived: set[int] = set()  # the teams whose order barrier has an arrival that they have not taken
        self.known: dict[Value, Any] = {v: -(-size // f) * f for v, f in self.dims().items()}
        for other in kernel.walk():
            if isinstance(other, control.Launch):
                self.known |= dict.fromkeys(other.body.args, 0)
            if isinstance(other, roles.MbarrierPipeline):
                for n in range(other.slots):
                    self.slots[other.result, n] = _Slot()
                self.pipeline_of |= dict.fromkeys(other.payload, other.result)
        self.known |= {p: size for p in kernel.params if not hasattr(p.type, "shape")}

    def dims(self) -> dict[Value, int]:
        return {v: self.kernel.facts.get(name, 1) for name, v in self.kernel.dims.items()}

    def run(self) -> None:
        common = _Role(self, dict(self.known), "")
        for op in self.kernel.body.ops:
            if isinstance(op, control.Launch) and any(common.known.get(v) == 0 for v in op.grid):
                return  # no block runs
            for inner in op.body.ops if isinstance(op, control.Launch) else [op]:
                if inner is not self.op:
                    common.evaluate(inner)
        programs = self.op.programs.items()
        running = {name: _Role(self, dict(common.known), name).block(program) for name, program in programs}
        try:
            while running:
                before = self.events
                waiting = {name: next(role, "") for name, role in running.items()}
                if self.events == before and all(waiting.values()):
                    waits = "; ".join(f"the {name} wait {what}" for name, what in waiting.items())
                    raise self.error(f"deadlock: {waits}")
                running = {name: role for name, role in running.items() if waiting[name]}
        except _Open:
            return
        for (pipeline, n), slot in self.slots.items():
            left = [name for name in self.readers.get(pipeline, ()) if n in self.filled[pipeline, name]]
            if slot.state in ("filling", "full") or left:
                raise self.error(f"{_name(pipeline)}, slot {n}, is filled and never received")

    def error(self, message: str, op: Op | None = None) -> IRError:
        return IRError(f"{message} (with dimensions of {self.size})", op.loc if op is not None else None)

    def event(self) -> None:
        self.events += 1
        if self.events > LONGEST:
            raise _Open


def _name(pipeline: Value) -> str:
    payload = pipeline.op.operands if pipeline.op is not None else []
    return f"the ring of {', '.join(v.name or '?' for v in payload)}"


def _in_all(op: control.Structured) -> list[roles.Await]:
    """The waits that every way of a branch makes."""
    waits = [[o for o in region.ops if isinstance(o, roles.Await)] for region in op.regions]
    if op.repeats:
        return []
    return [wait for wait in waits[0] if all(any(o.token is wait.token for o in others) for others in waits[1:])]


class _Role:
    """A role as a process: its generators yield what they wait for."""

    def __init__(self, run: _Run, known: dict[Value, Any], name: str) -> None:
        self.run, self.known, self.name = run, known, name
        self.flights: list[tuple[Value, set[tuple[Value, int]]]] = []  # tokens of gemms, the slots that they read
        self.tokens: dict[Value, Value | None] = {}  # what a token that is handed on stands for

    # Numbers -------------------------------------------------------------------------------------------------------

    def get(self, v: Value) -> Any:
        """The number of a scalar; raises _Open where it has none."""
        if isinstance(v.op, arith.Constant):
            return v.op.value
        number = self.known.get(v)
        if number is None:
            raise _Open
        return number

    def evaluate(self, op: Op) -> None:
        """Give a scalar operation's result its number, if its operands have theirs."""
        try:
            number = self.number(op)
        except (_Open, ZeroDivisionError):
            number = None
        if isinstance(op, launch_control.GivenTile) and number is not None:
            self.known.update(zip(op.results, (number <= GRANTED, number), strict=True))
            return
        for r in op.results:
            self.known[r] = number

    def number(self, op: Op) -> Any:
        if isinstance(op, arith.Cmp):
            return COMPARE[op.predicate](self.get(op.a), self.get(op.b))
        if isinstance(op, arith.Select):
            return self.get(op.a) if self.get(op.condition) else self.get(op.b)
        if isinstance(op, arith.Not):
            return not self.get(op.a)
        if isinstance(op, arith.Cast):
            return self.get(op.a)
        if type(op) in INTEGER and op.operands and not op.operands[0].shape:
            return INTEGER[type(op)](*[self.get(v) for v in op.operands])
        if isinstance(op, tile.Load) and not op.result.shape and not hasattr(op.mem.type, "space"):
            place = sum((n + 1) * self.get(v) for n, v in enumerate(op.indices))
            return (0, 5, 1, 2)[(place + SIZES.index(self.run.size)) % 4]  # any numbers do, the same in both roles
        if isinstance(op, launch_control.GivenTile):
            pipeline, n = self.run.pipeline_of[op.src], self.get(op.slot)
            slots = pipeline.op.slots if isinstance(pipeline.op, roles.MbarrierPipeline) else 1
            return (self.run.slots[pipeline, n].filled - 1) * slots + n + 1
        raise _Open

    # Control flow --------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> Iterator[str]:
        for op in block.ops:
            if isinstance(op, explicit.WarpGroups):
                yield from self.divergent(op)
            elif isinstance(op, control.Structured):
                yield from self.structured(op)
            elif isinstance(op, roles.SlotOp | roles.TmaCopy):
                yield from self.pipeline(op)
                if isinstance(op, roles.Refill):
                    yield from self.refill(op)
            elif isinstance(op, (roles.PingPongWait, roles.PingPongArrive)):
                yield from self.order_barrier(op)
            elif isinstance(op, roles.PipelinePrologue):
                yield from self.block(op.body)
            else:
                self.plain(op)

    def divergent(self, op: explicit.WarpGroups) -> Iterator[str]:
        """Each side is a process; this one goes on when they have ended."""
        sides = [_Role(self.run, dict(self.known), self.name).block(region) for region in op.regions[:: self.run.order]]
        while sides:
            waits = {side: next(side, "") for side in sides}
            sides = [side for side in sides if waits[side]]
            if sides:
                yield " and ".join(waits[side] for side in sides)

    def structured(self, op: control.Structured) -> Iterator[str]:
        inner = [o for region in op.regions for o in region.walk()]
        try:
            if op.repeats:
                self.hand(op.transfer(None))
            for region, numbers in op.course(self.get):
                self.run.event()
                self.known.update(zip(region.args, numbers, strict=False))
                yield from self.block(region)
                self.hand(op.transfer(region))
        except _Open:
            if any(isinstance(o, roles.SlotOp | roles.AsyncGemm) for o in inner):
                raise
            for wait in _in_all(op):
                self.plain(wait)
            self.known.update(dict.fromkeys(op.results))

    def refill(self, op: roles.Refill) -> Iterator[str]:
        released = op.condition is None or self.get(op.condition)
        if released and self.get(op.following) < self.get(op.end):
            self.hand(control.Transfer(None, op.turn, (op.body.args,)))
            yield from self.block(op.body)

    def hand(self, transfer: control.Transfer) -> None:
        """Values and tokens go from one name to another, all at once."""
        sources = transfer.values
        found = [v.op.value if isinstance(v.op, arith.Constant) else self.known.get(v) for v in sources]
        tokens = [self.tokens.get(v, v) for v in sources]
        for targets in transfer.targets:
            self.known.update(zip(targets, found, strict=True))
            self.tokens.update(zip(targets, tokens, strict=True))

    # Pipelines ------------------------------------------------------------------------------------------------------

    def slot(self, op: Any) -> tuple[int, _Slot]:
        n = self.get(op.index)
        slot = self.run.slots.get((op.pipeline, n))
        if slot is None:
            raise self.run.error(f"`{op.mnemonic}` of slot {n}: {_name(op.pipeline)} has no such", op)
        return n, slot

    def pipeline(self, op: Any) -> Iterator[str]:
        if isinstance(op, roles.ConsumerRelease) and op.condition is not None and not self.get(op.condition):
            return
        n, slot = self.slot(op)
        where = f"{_name(op.pipeline)}, slot {n}"
        if isinstance(op, (roles.ProducerAcquire, roles.ConsumerWait)):
            filling, phase = isinstance(op, roles.ProducerAcquire), self.get(op.phase)
            while ((slot.freed if filling else slot.filled) % 2 == phase) != filling:
                yield f"for {where}, to be {'free' if filling else 'full'}"
        if isinstance(op, roles.ConsumerRelease) and slot.holders.get(self.name, self) is not self:
            raise self.run.error(f"`release` of {where}, which another team holds", op)
        if isinstance(op, roles.ProducerAcquire) and slot.state == "released":
            slot.state = "free"
        if self.state(slot) != op.wants:
            raise self.run.error(f"`{op.mnemonic}` of {where}, which is {self.state(slot)}, not {op.wants}", op)
        self.run.event()
        if isinstance(op, roles.ConsumerWait):
            if self.run.filled[op.pipeline, self.name].pop(0) != n:
                raise self.run.error(f"`receive` of {where}, ahead of slots that were filled before it", op)
            slot.state, slot.holders[self.name] = "held", self
        elif isinstance(op, roles.ConsumerRelease):
            if any((op.pipeline, n) in slots for _, slots in self.flights):
                raise self.run.error(f"`release` of {where}, which a gemm in flight reads", op)
            del slot.holders[self.name]
            slot.released.add(self.name)
            if slot.released >= self.run.readers[op.pipeline]:
                slot.state, slot.freed = "released", slot.freed + 1
        elif isinstance(op, roles.SlotOp) and op.fills:
            self.filled(op.pipeline, n, slot)
        elif isinstance(op, roles.ProducerExpectTx):
            ring = op.pipeline.op
            slot.state, slot.coming = "filling", set(ring.operands if ring is not None else ())
        elif isinstance(op, roles.TmaCopy | launch_control.RequestTile):
            if op.dst not in slot.coming:
                raise self.run.error(f"`{op.mnemonic}` to {op.dst.name} is none of those announced for {where}", op)
            slot.coming.remove(op.dst)
            if not slot.coming:
                self.filled(op.pipeline, n, slot)

    def filled(self, pipeline: Value, n: int, slot: _Slot) -> None:
        slot.state, slot.filled, slot.released = "full", slot.filled + 1, set()
        for name in self.run.readers.get(pipeline, ()):
            self.run.filled[pipeline, name].append(n)

    def state(self, slot: _Slot) -> str:
        """A slot's state as the role sees it: what others hold may be full for this one, or released."""
        if slot.state != "held" or self.name in slot.holders:
            return slot.state
        return "released" if self.name in slot.released else "full"

    def order_barrier(self, op: roles.PingPongWait | roles.PingPongArrive) -> Iterator[str]:
        team = self.get(op.to)
        if isinstance(op, roles.PingPongWait):
            while team not in self.run.arrived:
                yield f"for team {team} to pass the order barrier"
            self.run.arrived.remove(team)
        elif team in self.run.arrived:
            raise self.run.error(f"`{op.mnemonic}` to team {team}, which has not taken it since it got it", op)
        else:
            self.run.arrived.add(team)
        self.run.event()

    def plain(self, op: Op) -> None:
        reads = self.reads(op)
        for pipeline, n in reads:
            slot = self.run.slots[pipeline, n]
            if slot.holders.get(self.name) is not self:
                raise self.run.error(f"`{op.mnemonic}` reads {_name(pipeline)}, slot {n}, which it does not hold", op)
        if isinstance(op, roles.AsyncGemm):
            self.flights.append((op.results[1], reads))
        elif isinstance(op, (roles.Await, tile.Wait)):
            token = self.tokens.get(op.token, op.token)
            for at, (known, _) in enumerate(self.flights):
                if known is token:
                    del self.flights[: at + 1]  # groups complete in order
                    break
        self.evaluate(op)

    def reads(self, op: Op) -> set[tuple[Value, int]]:
        """The slots of rings that an operation reads."""
        found = set()
        for access in op.accesses():
            pipeline = self.run.pipeline_of.get(access.mem) if access.mem is not None else None
            if pipeline is not None and not access.writes:
                found.add((pipeline, 0 if access.slot is None else self.get(access.slot)))
        return found
