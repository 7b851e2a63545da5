"""What a loop with a schedule of the user's own consists of: the operations of each entry, what they need of one
another, and in which order and stage all of the body runs.

Operations are *fixed* to the entry of the statement that they come from, or *free*: scalars and scalar loads of memory
that the loop does not write are computed where they are needed. Copies from tensors to shared memory that the rest of
the loop only reads, after them, *feed* it: they may run ahead, and are put in front of their first reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import control, roles, tile
from minitile.ir.types import BufferType, PipelineType, ScalarType, TensorType

Key = tuple[int, int, int]  # stage, order, number in the body


def inside(op: Op) -> Iterator[Op]:
    """The operations in an operation's regions."""
    for region in op.regions:
        yield from region.walk()


def used(op: Op) -> Iterator[Value]:
    """The values that an operation or one inside it uses."""
    for inner in op.walk():
        yield from inner.operands


def writes(op: Op, mem: Value | None) -> bool:
    return any(a.writes and a.mem is mem for inner in op.walk() for a in inner.accesses())


class Body:
    """The body of a loop with `order` and `stage_of`. `unit`: the entry of each fixed operation; `feeders`: the copies,
    and branches of nothing but copies, that may run ahead."""

    def __init__(self, loop: control.For) -> None:
        self.loop = loop
        self.ops: list[Op] = []
        self.unit: dict[Op, int] = {}
        self.free: set[Op] = set()
        self.written = {a.mem for op in loop.body.walk() for a in op.accesses() if a.writes}
        self.next_of = dict(zip(loop.carried, loop.body.yielded, strict=True))
        at = 0
        for op in loop.body.ops:
            if isinstance(op, control.Statement):
                at = op.number
            elif not op.terminator:
                self.ops.append(op)
                if self._is_free(op):
                    self.free.add(op)
                else:
                    self.unit[op] = at
        self.number = {op: n for n, op in enumerate(self.ops)}
        self.fixed = list(self.unit)
        self.units = set(self.unit.values())
        self.feeders = self._feeders()

    def _is_free(self, op: Op) -> bool:
        if not all(isinstance(r.type, ScalarType) for r in op.results) or not op.results:
            return False
        if op.region_fields:
            return all(inner.terminator or self._is_free(inner) for inner in inside(op))
        if op.pure:
            return True
        accesses = op.accesses()
        return bool(accesses) and all(
            a.kind == "read" and a.mem is not None and a.mem not in self.written for a in accesses
        )

    def _feeders(self) -> set[Op]:
        found = {op: buffers for op in self.fixed if (buffers := self._fed(op)) and not any(self.needs(op))}
        for op in self.fixed:
            for mem in {a.mem for inner in op.walk() for a in inner.accesses()}:
                for copy, buffers in list(found.items()):
                    late = op not in found and (self.number[op] < self.number[copy] or writes(op, mem))
                    if copy is not op and (mem is None or (mem in buffers and late)):
                        del found[copy]
        return set(found)

    def _fed(self, op: Op) -> set[Value]:
        """The shared buffers that an operation fills, if it does nothing but copy tensors to shared memory."""
        leaves = [inner for inner in op.walk() if not (inner.terminator or inner.region_fields)]
        copies = [c for c in leaves if type(c) is tile.Copy]
        if op.results or any(c not in copies and not self._is_free(c) for c in leaves):
            return set()
        if any(not isinstance(c.src.type, TensorType) or c.src in self.written for c in copies):
            return set()
        buffers = {c.dst for c in copies}
        own = any(b.op is not None and b.op in self.loop.body.ops for b in buffers)
        shared = all(isinstance(b.type, BufferType) and b.type.space == "shared" for b in buffers)
        return buffers if shared and not own else set()

    # For messages ----------------------------------------------------------------------------------------------------

    def feeds(self, unit: int) -> bool:
        """Whether an entry is nothing but copies that may run ahead."""
        return all(op in self.feeders for op, u in self.unit.items() if u == unit)

    def loc(self, unit: int) -> Location | None:
        marks = [op for op in self.loop.body.ops if isinstance(op, control.Statement) and op.number == unit]
        return marks[0].loc if marks else None

    def name(self, unit: int) -> str:
        loc = self.loc(unit)
        return f"entry {unit} of the schedule" + ("" if loc is None else f" (line {loc.line})")

    def name_of(self, op: Op) -> str:
        line = "" if op.loc is None else f" at line {op.loc.line}"
        return f"`{op.mnemonic}`{line} (entry {self.unit[op]})"

    # Order -----------------------------------------------------------------------------------------------------------

    def key(self, op: Op) -> Key:
        assert self.loop.order is not None
        assert self.loop.stage_of is not None
        u = self.unit[op]
        return self.loop.stage_of[u], self.loop.order[u], self.number[op]

    def readers(self, copy: Op) -> list[Op]:
        """The fixed operations that read what a feeder copies."""
        buffers = self._fed(copy)
        return [op for op in self.fixed if op not in self.feeders and not buffers.isdisjoint(used(op))]

    def needs(self, op: Op) -> Iterator[tuple[Op, int]]:
        """The fixed operations whose results an operation uses, directly or through free ones: those of the same
        iteration (0) and those of the one before (1)."""
        work = [(v, 0) for v in used(op)]
        seen = set(work)
        while work:
            value, later = work.pop()
            made = value.op
            more: Iterable[tuple[Value, int]] = ()
            if made in self.free:
                more = [(v, later) for v in used(made)]
            elif made in self.unit:
                yield made, later
            elif value in self.next_of and not later:
                more = [(self.next_of[value], 1)]
            work += [m for m in more if m not in seen]
            seen.update(more)


class Steady:
    """The body of the new loop, in order: `ops`, each with its stage. A scalar that comes from the loop's index and
    from outside alone may be in both stages."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.ops: list[tuple[Op, int]] = []
        self.front: dict[Op, list[Op]] = {}  # what goes in front of an operation, in its stage
        self.behind: dict[Op, list[Op]] = {}
        attached = self._attach()
        fixed = [op for op in body.fixed if op not in attached]
        self.stage = {op: body.key(op)[0] for op in fixed}
        self._stages_of_free(fixed)
        self.done: set[tuple[Op, int]] = set()
        for op in sorted(fixed, key=lambda op: body.key(op)[1:]):
            for each in (*self.front.get(op, ()), op, *self.behind.get(op, ())):
                self._emit(each, self.stage[op])
        for op in body.ops:
            if op in body.free and op not in self.anywhere:
                self._emit(op, self.stage[op])
        for value in body.loop.body.yielded:
            if value.op in body.free:
                self._emit(value.op, self.stage.get(value.op, 0))

    def _attach(self) -> set[Op]:
        """Receives and feeders go in front of the first operation that uses what they bring, releases behind the last
        one."""
        body, attached = self.body, set[Op]()
        for op in body.fixed:
            users = self._users(op)
            if not users:
                continue
            attached.add(op)
            if isinstance(op, roles.ConsumerRelease):
                self.behind.setdefault(max(users, key=body.key), []).append(op)
                self._check_slots(op, users)
            else:
                first = min(users, key=body.key)
                self.front.setdefault(first, []).append(op)
                if op in body.feeders:
                    self._check_versions(op, first, users)
        return attached

    def _check_versions(self, copy: Op, first: Op, readers: list[Op]) -> None:
        """A feeder that is still in the loop fills one version: the next copy must find it read."""
        stage, order, _ = self.body.key(first)
        for op in readers:
            if self.body.key(op)[:2] > (stage + 1, order):
                raise LanguageError(
                    f"{self.body.name_of(op)} reads what {self.body.name_of(copy)} copies an iteration after "
                    f"{self.body.name_of(first)} does, when the next copy has overwritten it",
                    op.loc,
                    "give both readers one stage, this one a lower place in order, or copy to a second buffer",
                )

    def _check_slots(self, release: roles.ConsumerRelease, users: list[Op]) -> None:
        """A slot that is received early and released late is free a turn later; or two, if the late gemm stays in
        flight because nothing behind it in its turn overwrites what it reads. Two slots do not do then, unless the
        release still comes before the next receive."""
        assert isinstance(release.pipeline.type, PipelineType)
        early, first, _ = min(map(self.body.key, users))
        if early or release.pipeline.type.slots > 2:
            return
        for gemm in users:
            late, order, _ = self.body.key(gemm)
            behind = [op for op in self.body.fixed if self.body.key(op)[1] > order]
            settled = any(v in op.results or writes(op, v) for op in behind for v in used(gemm))
            if isinstance(gemm, roles.AsyncGemm) and late and order > first and not settled:
                raise LanguageError(
                    f"{self.body.name_of(gemm)} stays in flight until the next turn, with a version of a buffer that "
                    "is read in stage 0 as well: two versions are too few",
                    gemm.loc,
                    "num_stages=3",
                )

    def _users(self, op: Op) -> list[Op]:
        body = self.body
        if isinstance(op, (roles.ConsumerWait, roles.ConsumerRelease)):
            assert op.pipeline.op is not None
            payload = set(op.pipeline.op.operands)
            users = {o for o in body.fixed if o is not op and not payload.isdisjoint(used(o))}
            awaits = [o for o in body.fixed if isinstance(o, roles.Await) and o.token.op in users]
            return [*users, *awaits]
        return body.readers(op) if op in body.feeders else []

    def _stages_of_free(self, fixed: list[Op]) -> None:
        """Where free operations go: `anywhere`, as often as they are needed; else with stage 0 where that needs them,
        be it an iteration later, and with stage 1 where it makes what they need or alone needs them."""
        body = self.body
        self.anywhere: set[Op] = set()
        for op in body.ops:
            if op in body.free and all(
                v.op in self.anywhere or (v.op not in body.number and v not in body.next_of) for v in used(op)
            ):
                self.anywhere.add(op)
        first = self._demanded([op for op in fixed if not self.stage[op]])
        second = self._demanded([op for op in fixed if self.stage[op]])
        for op in body.ops:
            if op in body.free and op not in self.anywhere:
                late = any(self.stage[need] for need, _ in body.needs(op))
                self.stage[op] = int(op not in first and (op in second or late))

    def _demanded(self, ops: Iterable[Op]) -> set[Op]:
        """The free operations whose results some operations need, in this iteration or the next one."""
        body = self.body
        work = [v for op in ops for o in (*self.front.get(op, ()), op, *self.behind.get(op, ())) for v in used(o)]
        found: set[Op] = set()
        seen = set(work)
        while work:
            value = work.pop()
            more: list[Value] = []
            if value.op in body.free and value.op not in found:
                found.add(value.op)
                more = list(used(value.op))
            elif value in body.next_of:
                more = [body.next_of[value]]
            work += [v for v in more if v not in seen]
            seen.update(more)
        return found

    def _emit(self, op: Op, stage: int) -> None:
        """An operation, after the free ones that it needs."""
        if (op, stage) in self.done:
            return
        self.done.add((op, stage))
        for value in used(op):
            made = value.op
            if made in self.body.free and self.stage.get(made, stage) == stage:
                self._emit(made, stage)
        self.ops.append((op, stage))
