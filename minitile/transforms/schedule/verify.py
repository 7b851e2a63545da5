"""Whether a loop's schedule keeps what each operation needs, a user's or a policy's; and the pass that asks this of
the user's own schedules, and brings them into normal form.

    for … {order = (0, 1, 4, 2, 3), stage_of = (0, 1, 1, 2, 2)}        for … {order = (-1, 1, 4, 2, 3),
                                                                  →           stage_of = (-1, 0, 0, 1, 1)}

In the normal form an entry of -1 is one of copies that go ahead, and the others' least stage is 0; `skew` then writes
the loop anew. Operation X of iteration k runs in turn k + stage(X) of the new loop, there in the order of `order`. So
B of the iteration `distance` later comes after A if

    (stage A, order A) < (stage B + distance, order B)

and that must hold for each edge of the dependence graph (graph.py). Each rule that can be broken has a name, which the
error has as `rule`.
"""

from __future__ import annotations

from collections.abc import Container

from minitile.ir.core import Kernel, Op
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import control, roles
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext
from minitile.transforms.schedule.graph import Apart, Body, Edge, never
from minitile.transforms.schedule.schedule import ENDS, Line, Place, Schedule, computed_anywhere, schedule_of

MOST_STAGES = 16
RULES = {
    "entries": "a schedule has a place for each entry of the loop, and for no others",
    "end": "an operation is peeled, guarded, kept or clamped",
    "place": "two entries do not have the same place in a turn",
    "stages": "a loop has at most 16 stages",
    "ahead": "only copies of tensors to shared memory that the rest of the loop just reads go ahead",
    "guard": "what runs for iterations that there may be none of is guarded or kept",
    "effect": "what is guarded or kept does nothing but copy, load, and compute",
    "alloc": "no buffer is allocated in the loop",
    "versions": "a buffer has a version for each iteration that is under way",
    "unroll": "what is in flight for so many turns has registers of its own in each",
    "value": "a value is made before it is used",
    "carried": "a value that is handed on is made before the next iteration uses it",
    "feed": "a copy comes before what reads it",
    "read": "what has been written is read after",
    "overwrite": "what is read is written anew after",
    "rewrite": "of two writes the later one comes later",
    "receive": "a slot is received before it is used",
    "release": "a slot is released when it has been used",
}


class ScheduleError(LanguageError):
    """A schedule that breaks a rule, one of RULES."""

    def __init__(self, rule: str, message: str, loc: Location | None = None, hint: str = "") -> None:
        super().__init__(message, loc, hint)
        self.rule = rule


def check_schedule(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises ScheduleError for a schedule that cannot be."""
    for op in kernel.walk():
        if isinstance(op, control.For) and (schedule := schedule_of(op)) is not None:
            body = Body(op)
            schedule = _settled(body, schedule)
            verify(body, schedule)
            schedule.normal().put(op)


def _settled(body: Body, schedule: Schedule) -> Schedule:
    """Entries of nothing but copies that may go ahead do, whatever stage they have; numbers without an entry as well.
    Raises ScheduleError."""
    _check_entries(body, schedule)
    units = {body.unit[op] for op in body.fixed if op not in body.ahead}
    for unit in sorted(units):
        if schedule.places[unit].ahead:
            raise ScheduleError(
                "ahead",
                f"{body.name(unit)} has -1 in order and stage, and is no copy of a tensor to shared memory that the "
                "rest of the loop only reads",
                body.loc(unit),
                "give it a place and a stage",
            )
    for op in body.fixed:
        place = schedule.places[body.unit[op]]
        if op in body.ahead and not place.ahead:
            _check_feeder(body, schedule, op)
    return schedule.with_ahead(set(range(len(schedule.places))) - units)


def _check_feeder(body: Body, schedule: Schedule, copy: Op) -> None:
    """The place that the user has given a copy, although it goes ahead of that."""
    for edge in body.edges:
        if edge.source is copy and edge.kind == "feed":
            _require(body, schedule, edge)


def verify(body: Body, schedule: Schedule) -> None:
    """Raises ScheduleError where a schedule breaks a rule: of the entries by themselves first, then of what the
    operations need of one another."""
    _check_entries(body, schedule)
    _check_places(body, schedule)
    _check_unroll(body, schedule)
    for edge in body.edges:
        if edge.source not in body.ahead or not schedule.places[body.unit[edge.source]].ahead:
            _require(body, schedule, edge)


def verify_line(
    loop: control.For, line: Line, free: Container[Op] | None = None, apart: Apart = never, versions: int = 1
) -> None:
    """Verify the schedule that a turn of single operations is; `free` have no place (all that `computed_anywhere`)."""
    places = {step.op: Place(step.stage, n, step.end) for n, step in enumerate(line)}
    if free is None:
        free = {op for op in loop.body.ops if computed_anywhere(op)}
    body = Body(loop, each=True, free=free, apart=apart)
    verify(body, Schedule(tuple([places[op] for op in body.unit]), versions))


def _check_entries(body: Body, schedule: Schedule) -> None:
    missing = [unit for unit in sorted(body.units) if unit >= len(schedule.places)]
    if missing:
        raise ScheduleError(
            "entries",
            f"{body.name(missing[0])} has no place: the schedule has {len(schedule.places)}",
            body.loc(missing[0]),
        )
    for op in () if body.each else body.ops:
        if any(isinstance(r.type, BufferType) for r in op.results):
            message = f"{op.results[0].name or 'a buffer'} is allocated in a loop with a schedule"
            raise ScheduleError("alloc", message, op.loc, "allocate it before the loop")


def _check_places(body: Body, schedule: Schedule) -> None:
    """What can be said of places one by one."""
    loop, found = body.loop, dict[int, int]()
    for unit in sorted(body.units):
        place = schedule.places[unit]
        if place.end not in ENDS:
            raise ScheduleError("end", f"{body.name(unit)} is {place.end!r}, none of {', '.join(ENDS)}", loop.loc)
        if place.ahead:
            continue
        other = found.setdefault(place.order, unit)
        if other != unit:
            message = f"{body.name(other)} and {body.name(unit)} both have the place {place.order}"
            raise ScheduleError("place", message, body.loc(unit), "give each a place of its own")
        if place.stage < 0 and place.end == "peeled":
            message = (
                f"{body.name(unit)} runs ahead of its iteration, of which there may be none, and nothing guards it"
            )
            raise ScheduleError("guard", message, body.loc(unit))
    if schedule.stages > MOST_STAGES:
        raise ScheduleError("stages", f"this loop has {schedule.stages} stages; {MOST_STAGES} are the most", loop.loc)
    for op in body.fixed:
        place = schedule.places[body.unit[op]]
        if not place.ahead and place.end != "peeled":
            _check_effects(body, op, place)


def _check_effects(body: Body, op: Op, place: Place) -> None:
    for inner in op.walk():
        for access in inner.accesses():
            if access.writes and access.token is None:
                raise ScheduleError(
                    "effect",
                    f"{body.name_of(op)} is {place.end} and writes memory, also where its iteration is none",
                    op.loc,
                )


def _check_unroll(body: Body, schedule: Schedule) -> None:
    """Registers that a product still writes when the next one is issued."""
    for edge in body.edges if schedule.unroll else ():
        if edge.kind != "value" or not isinstance(edge.source, roles.Await):
            continue
        early, late = (schedule.places[body.unit[op]].stage for op in (edge.source, edge.target))
        if late - early >= schedule.unroll:
            target, source = body.name_of(edge.target), body.name_of(edge.source)
            message = f"{target} uses, {late - early} turns later, what {source} makes: a round has {schedule.unroll}"
            raise ScheduleError("unroll", message, edge.target.loc)


_WORDS = {
    "value": "{target} needs what {source} makes",
    "carried": "{target} needs what {source} makes",
    "feed": "{target} reads what {source} copies",
    "read": "{target} uses {what} after {source}",
    "overwrite": "{target} uses {what} after {source}",
    "rewrite": "{target} uses {what} after {source}",
    "receive": "{target} uses the slot of {what} that {source} receives",
    "release": "{target} releases the slot of {what} that {source} uses",
}


def comes_after(body: Body, schedule: Schedule, edge: Edge) -> bool:
    """Whether a schedule keeps an edge."""
    before, place = schedule.places[body.unit[edge.source]], schedule.places[body.unit[edge.target]]
    mine = place.stage + edge.distance, place.order, body.number[edge.target]
    return (before.stage, before.order, body.number[edge.source]) < mine


def _require(body: Body, schedule: Schedule, edge: Edge) -> None:
    if comes_after(body, schedule, edge):
        return
    if edge.kind in ("overwrite", "rewrite") and edge.distance > 1:
        raise ScheduleError(
            "versions",
            f"{body.name_of(edge.target)} fills the version of {edge.what} that {body.name_of(edge.source)} of "
            f"{edge.distance} iterations before has not left: it takes more versions",
            edge.target.loc,
        )
    message = _WORDS[edge.kind].format(
        target=body.name_of(edge.target), source=body.name_of(edge.source), what=edge.what
    )
    when = {0: "of the same iteration", 1: "of the iteration before"}.get(
        edge.distance, f"of {edge.distance} iterations before"
    )
    raise ScheduleError(
        edge.kind,
        f"{message} {when}, which the schedule puts behind it",
        edge.target.loc,
        f"give {body.name(body.unit[edge.source])} a lower place in order or a lower stage, or this one higher ones",
    )
