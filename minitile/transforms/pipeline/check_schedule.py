"""The user's own schedule of a loop: whether it keeps what each operation needs; and brought into normal form.

    for … {order = (0, 1, 4, 2, 3), stage_of = (0, 1, 1, 2, 2)}        for … {order = (-1, 1, 4, 2, 3),
                                                                  →           stage_of = (-1, 0, 0, 1, 1)}

In the normal form an entry of -1 is one of copies that go ahead, and the others' least stage is 0; `skew` then writes
the loop anew. Operation X of iteration k runs in turn k + stage(X) of the new loop, there in the order of `order`. So

    B of the same iteration comes after A     if (stage A, order A) < (stage B, order B),
    B of the next iteration comes after A     if (stage A, order A) < (stage B + 1, order B),

and one of these must hold wherever B uses what A makes, directly or through scalars, which are computed where they are
needed, and wherever both touch the same memory and one of them writes.
"""

from __future__ import annotations

from minitile.ir.core import Kernel, Op
from minitile.ir.diagnostics import LanguageError
from minitile.ir.effects import UNKNOWN, Access
from minitile.ir.ops import control
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.schedule import Body


def check_schedule(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises LanguageError for a schedule that cannot be."""
    for op in kernel.walk():
        if isinstance(op, control.For) and op.order is not None:
            _check(op)


def _check(loop: control.For) -> None:
    assert loop.order is not None
    assert loop.stage_of is not None
    body = Body(loop)
    for op in body.ops:
        if any(isinstance(r.type, BufferType) for r in op.results):
            name = op.results[0].name or "a buffer"
            raise LanguageError(f"{name} is allocated in a loop with a schedule", op.loc, "allocate it before the loop")
    ahead = {u for u in body.units if body.feeds(u)}
    for u in body.units - ahead:
        if loop.order[u] < 0:
            raise LanguageError(
                f"{body.name(u)} has -1 in order and stage, and is no copy of a tensor to shared memory that the "
                "rest of the loop only reads",
                body.loc(u),
                "give it a place and a stage",
            )
    stages = sorted({loop.stage_of[u] for u in body.units - ahead})
    if stages and stages[-1] - stages[0] > 1:
        raise LanguageError(
            f"the stages of this loop, besides the copies that go ahead, are {', '.join(map(str, stages))}",
            loop.loc,
            "at most two stages that follow each other, such as 0 and 1",
        )
    for op in body.fixed:
        for need, later in body.needs(op):
            _require(body, need, op, later, f"{body.name_of(op)} needs what {body.name_of(need)} makes")
    _check_memory(body, ahead)
    least = stages[0] if stages else 0
    units = range(len(loop.order))
    loop.order = tuple(-1 if u in ahead or u not in body.units else loop.order[u] for u in units)
    loop.stage_of = tuple(-1 if u in ahead or u not in body.units else loop.stage_of[u] - least for u in units)


def _require(body: Body, before: Op, op: Op, later: int, message: str) -> None:
    """That `op` of the same iteration, or of the next one (`later` = 1), comes after `before`."""
    (stage, *at), (own_stage, *own) = body.key(before), body.key(op)
    if (stage, *at) >= (own_stage + later, *own):
        when = "of the iteration before" if later else "of the same iteration"
        raise LanguageError(
            f"{message} {when}, which the schedule puts behind it",
            op.loc,
            f"give {body.name(body.unit[before])} a lower place in order or a lower stage, or this one higher ones",
        )


def _check_memory(body: Body, ahead: set[int]) -> None:
    for copy in body.fixed:
        if body.unit[copy] in ahead:
            for op in body.readers(copy):
                _require(body, copy, op, 0, f"{body.name_of(op)} reads what {body.name_of(copy)} copies")
    others = [(op, _accesses(op)) for op in body.fixed if body.unit[op] not in ahead]
    for n, (op, accesses) in enumerate(others):
        for earlier, theirs in others[:n]:
            mem = _conflict(theirs, accesses)
            if mem is None:
                continue
            _require(body, earlier, op, 0, f"{body.name_of(op)} uses {mem} after {body.name_of(earlier)}")
            _require(body, op, earlier, 1, f"{body.name_of(earlier)} uses {mem} after {body.name_of(op)}")


def _accesses(op: Op) -> list[Access]:
    found: list[Access] = []
    for inner in op.walk():
        accesses = inner.accesses()
        orders = not accesses and not (inner.results or inner.pure or inner.terminator or inner.region_fields)
        found += (UNKNOWN,) if orders else accesses
    return found


def _conflict(some: list[Access], others: list[Access]) -> str | None:
    """What both touch and one of them writes, in words."""
    for a in some:
        for b in others:
            if (a.writes or b.writes) and (a.mem is b.mem or a.mem is None or b.mem is None):
                mem = a.mem or b.mem
                return "memory" if mem is None else mem.name or "a buffer"
    return None
