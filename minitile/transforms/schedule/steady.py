"""What a turn of a loop with a schedule by entries consists of, operation by operation.

Receives of a ring's slots and copies that are still in the loop go in front of the first operation that uses what they
bring, releases behind the last one. What is free has no place: it is computed where it is needed.
"""

from __future__ import annotations

from minitile.ir.core import Op
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import control, roles
from minitile.ir.types import PipelineType
from minitile.transforms.schedule.graph import RING, Body, used, writes
from minitile.transforms.schedule.schedule import Line, Schedule, Step

Key = tuple[int, int, int]  # stage, order, number in the body


def steady(loop: control.For, schedule: Schedule) -> Line:
    """The turn's operations in order. Raises LanguageError where a schedule needs more versions of a buffer than there
    are."""
    return _Steady(Body(loop), schedule).ops


def in_order(loop: control.For, schedule: Schedule) -> Line:
    """The turn of a schedule that gives each operation a place."""
    place = {op: schedule.places[unit] for op, unit in Body(loop, each=True).unit.items()}
    return [Step(op, place[op].stage) for op in sorted(place, key=lambda op: place[op].order)]


class _Steady:
    def __init__(self, body: Body, schedule: Schedule) -> None:
        self.body, self.schedule = body, schedule
        self.ops: Line = []
        self.front: dict[Op, list[Op]] = {}  # what goes in front of an operation, in its stage
        self.behind: dict[Op, list[Op]] = {}
        attached = self._attach()
        fixed = [op for op in body.fixed if op not in attached]
        for op in sorted(fixed, key=lambda op: self.key(op)[1:]):
            for each in (*self.front.get(op, ()), op, *self.behind.get(op, ())):
                self.ops.append(Step(each, self.key(op)[0]))

    def key(self, op: Op) -> Key:
        place = self.schedule.places[self.body.unit[op]]
        stage = 0 if place.ahead else place.stage  # a copy that is still in the loop, and that nothing reads
        return stage, place.order, self.body.number[op]

    def _attach(self) -> set[Op]:
        body, attached = self.body, set[Op]()
        late: list[tuple[roles.ConsumerRelease, list[Op]]] = []
        for op in body.fixed:
            users = self._users(op)
            if not users:
                continue
            attached.add(op)
            if isinstance(op, roles.ConsumerRelease):
                self.behind.setdefault(max(users, key=self.key), []).append(op)
                self._check_slots(op, users)
                late.append((op, users))
            else:
                first = min(users, key=self.key)
                self.front.setdefault(first, []).append(op)
                if op in body.feeders:
                    self._check_versions(op, first, users)
        self._check_lag(late)
        return attached

    def _users(self, op: Op) -> list[Op]:
        if isinstance(op, RING):
            return self.body.ring_users(op)
        return self.body.readers(op) if op in self.body.feeders else []

    def _check_versions(self, copy: Op, first: Op, readers: list[Op]) -> None:
        """A feeder that is still in the loop fills one version: the next copy must find it read."""
        stage, order, _ = self.key(first)
        for op in readers:
            if self.key(op)[:2] > (stage + 1, order):
                raise LanguageError(
                    f"{self.body.name_of(op)} reads what {self.body.name_of(copy)} copies an iteration after "
                    f"{self.body.name_of(first)} does, when the next copy has overwritten it",
                    op.loc,
                    "give both readers one stage, this one a lower place in order, or copy to a second buffer",
                )

    def _check_slots(self, release: roles.ConsumerRelease, users: list[Op]) -> None:
        """A slot that is received in one stage and released in a later one is held that many turns; one more where the
        next receive comes first, and where the last gemm stays in flight because nothing behind it in its turn
        overwrites what it reads."""
        assert isinstance(release.pipeline.type, PipelineType)
        slots = release.pipeline.type.slots
        early, first, _ = min(map(self.key, users))
        for op in users:
            late, order, _ = self.key(op)
            flies = isinstance(op, roles.AsyncGemm) and not self._settled(op)
            needed = late - early + (order > first) + flies
            if late > early and needed > slots:
                stays = "stays in flight until the next turn," if flies else f"is {late - early} turns later,"
                many = "two versions are" if slots == 2 else f"{slots} versions are"
                raise LanguageError(
                    f"{self.body.name_of(op)} {stays} with a version of a buffer that is read in stage {early} as "
                    f"well: {many} too few",
                    op.loc,
                    f"num_stages={needed}",
                )

    def _settled(self, gemm: Op) -> bool:
        """Whether something behind a gemm in its turn overwrites what it reads, so that it is awaited before."""
        order = self.key(gemm)[1]
        behind = [op for op in self.body.fixed if self.key(op)[1] > order]
        return any(v in op.results or writes(op, v) for op in behind for v in used(gemm))

    def _check_lag(self, releases: list[tuple[roles.ConsumerRelease, list[Op]]]) -> None:
        """The producer feeds one iteration's rings before the next one's: a ring that is received stages later than
        another one has slots for the iterations between."""
        if len(releases) < 2:
            return
        first = min(self.key(op)[0] for _, users in releases for op in users)
        for release, users in releases:
            assert isinstance(release.pipeline.type, PipelineType)
            lag, last = min(map(self.key, users))[0] - first, max(users, key=self.key)
            needed = lag + (isinstance(last, roles.Await | roles.AsyncGemm))
            if lag > 1 and needed > release.pipeline.type.slots:
                raise LanguageError(
                    f"{self.body.name_of(last)} is {lag} stages behind the first use of a copy: "
                    f"{release.pipeline.type.slots} versions are too few",
                    last.loc,
                    f"num_stages={needed}",
                )
