"""How many versions the buffers of a loop have, where the program leaves that to the compiler.

    for 0, 64, 1 (%k: i32) {                     for 0, 64, 1 {kind = "pipelined", stages = 4} (%k: i32) {
      copy %A[…], %As                              copy %A[…], %As
      copy %B[…], %Bs                     →        copy %B[…], %Bs
      … gemm %As, %Bs, %c …                        … gemm %As, %Bs, %c …
      yield }                                      yield }

TileLang's programs do (the attribute `resources_are_hints`): there num_stages is how many versions a pipelined loop has
*at least* to be worth while on the machine that it was tuned for, and a loop of one stage runs its copies ahead all the
same, into the bytes whose last use is over. Here a copy goes ahead into a version that nothing reads, so that takes
two. A kernel of `@minitile.kernel` has the stages that it says.

The rule. A loop takes part where all of its copies from tensors to shared memory can go ahead (`ahead.py`): one
that stays in the loop is waited for in each iteration, and more versions of the others change nothing.

1. `choose_stages`: *two versions* for a loop that has one, if they fit and leave at least half of the blocks that a
   multiprocessor would have had: a block whose copies overlap its products does the work of two that wait for theirs.
2. `deepen_stages`: *one more*, again and again, as long as fewer than IN_FLIGHT bytes are on their way to a
   multiprocessor, the loop has as many trips, and no block goes away. Only where copies are counted or arrive by
   themselves (cp.async, TMA): through registers each iteration ahead would take registers.

Where the loop loads matrices to registers besides, it waits for these: two versions then may cost no block, and more
are of no use; besides, these loads go through L1, which has what is left of shared memory.

How many blocks a multiprocessor has is estimated (`analysis/occupancy.py`).

`passes={"choose_stages": False, "deepen_stages": False}` leaves loops as they are written; `notes` says what was
chosen, and why not more.

Sources: a TMA copy takes about 1000 cycles from L2, and a multiprocessor of sm_90a takes operands of f16 at up to 64
bytes a cycle (a step of 128×128×32 in 256 cycles, for 16 KB): 64 KB on their way, and a quarter more for slack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minitile.analysis.occupancy import Room, bytes_of, room_of, versions_of
from minitile.ir.builder import constant_of
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.types import BufferType, TensorType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.ahead import Ahead, plan

IN_FLIGHT = 80 * 1024  # bytes on their way to a multiprocessor
MOST_VERSIONS = 8


@dataclass(frozen=True)
class _Chosen:
    """A loop that takes part. buffers: those that its copies fill; bytes: of one version of all; trips: None where only
    run time knows; loads: whether it loads matrices to registers besides."""

    loop: control.For
    buffers: frozenset[Value]
    bytes: int
    trips: int | None
    loads: bool

    def with_stages(self, stages: int, versions: dict[Value, int]) -> dict[Value, int]:
        return versions | {v: max(versions[v], stages) for v in self.buffers}

    def set(self, stages: int, versions: dict[Value, int]) -> None:
        versions.update(self.with_stages(stages, versions))
        self.loop.stages = stages

    def too_many(self, stages: int, after: int, before: int) -> str:
        """Why so many are too many, which leave `after` of `before` blocks."""
        names = " and ".join(sorted(v.name or "a buffer" for v in self.buffers))
        if after == 0:
            return f"{stages} versions of {names} do not fit"
        return f"with {stages} versions of {names} a multiprocessor has {after} of {before} blocks"


def choose_stages(kernel: Kernel, context: PassContext) -> None:
    """The first pass: overlap."""
    _choose(kernel, context, _overlap)


def deepen_stages(kernel: Kernel, context: PassContext) -> None:
    """The second pass: as many bytes on their way as the hardware wants."""
    if context.target.has("cp_async"):
        _choose(kernel, context, _deepen)


def _choose(kernel: Kernel, context: PassContext, act: Callable[[_Chosen, dict[Value, int], Room], str]) -> None:
    if not kernel.attrs.get("resources_are_hints") or kernel.attrs.get("explicit_sync"):
        return
    loops = _loops(kernel)
    if not loops:
        return
    room = room_of(kernel, context.target, context.runs("warp_specialize"))
    versions = {v: chosen.loop.stages for chosen in loops for v in chosen.buffers}
    for chosen in loops:
        written = chosen.loop.stages
        why = act(chosen, versions, room)
        at = "" if chosen.loop.loc is None else f" (line {chosen.loop.loc.line})"
        if chosen.loop.stages > written:
            chosen.loop.kind = "pipelined"
            more = why and f", not more: {why}"
            context.notes.append(f"stages: {chosen.loop.stages} in place of {written}{at}{more}")
        elif why:
            context.notes.append(f"stages: no more than {written}{at}: {why}")


def _overlap(chosen: _Chosen, versions: dict[Value, int], room: Room) -> str:
    """Two versions for a loop that has one; why not, where that would be good."""
    if chosen.loop.stages > 1 or chosen.trips in (0, 1):
        return ""
    before, after = room.blocks(versions), room.blocks(chosen.with_stages(2, versions))
    if before == 0:  # buffers may share their bytes, or nothing helps
        return ""
    if after == 0 or 2 * after < before or (chosen.loads and after < before):
        return chosen.too_many(2, after, before)
    chosen.set(2, versions)
    return ""


def _deepen(chosen: _Chosen, versions: dict[Value, int], room: Room) -> str:
    """As many versions as bytes in flight ask for, and room allows; what did not allow one more."""
    blocks, now = room.blocks(versions), chosen.loop.stages
    if chosen.loads or now == 1:
        return ""
    while 0 < blocks * (now - 1) * chosen.bytes < IN_FLIGHT and now < MOST_VERSIONS:
        if chosen.trips is not None and now >= chosen.trips:
            return ""
        after = room.blocks(chosen.with_stages(now + 1, versions))
        if after < blocks:
            return chosen.too_many(now + 1, after, blocks)
        now += 1
        chosen.set(now, versions)
    return ""


# Which loops --------------------------------------------------------------------------------------------------------


def _loops(kernel: Kernel) -> list[_Chosen]:
    """The loops that take part, in order."""
    found = [op for op in kernel.walk() if isinstance(op, control.For) and _candidate(op)]
    if not found:
        return []
    written = [(loop.kind, loop.stages) for loop in found]
    for loop in found:  # the analysis is one of pipelined loops
        loop.kind, loop.stages = "pipelined", max(2, loop.stages)
    plans = plan(kernel)
    for loop, (kind, stages) in zip(found, written, strict=True):
        loop.kind, loop.stages = kind, stages
    return [_chosen(loop, plans[loop]) for loop in found if _all_ahead(loop, plans[loop])]


def _candidate(loop: control.For) -> bool:
    """Whether copies to shared memory stand in the body, and not only in loops inside it."""
    if loop.order is not None or loop.kind not in ("serial", "pipelined") or not _copies(loop):
        return False
    inner = [op for op in loop.body.walk() if isinstance(op, control.Loop)]
    return not any(map(_fills, (op for loop in inner for region in loop.regions for op in region.walk())))


def _copies(loop: control.For) -> list[Op]:
    return [op for op in loop.body.walk() if _fills(op)]


def _fills(op: Op) -> bool:
    """Whether an operation copies a tensor to shared memory."""
    return (
        isinstance(op, tile.Copy)
        and isinstance(op.src.type, TensorType)
        and isinstance(op.dst.type, BufferType)
        and op.dst.type.space == "shared"
    )


def _all_ahead(loop: control.For, ahead: Ahead) -> bool:
    copies = _copies(loop)
    return set(copies) == set(ahead.copies) and all(versions_of(v) == 1 for v in ahead.buffers)


def _chosen(loop: control.For, ahead: Ahead) -> _Chosen:
    bounds = [constant_of(v) for v in (loop.lower, loop.upper, loop.step)]
    trips = None
    if all(isinstance(n, int) for n in bounds):
        trips = len(range(*map(int, bounds)))
    loads = any(map(_loads_matrix, loop.body.walk()))
    return _Chosen(loop, frozenset(ahead.buffers), sum(map(bytes_of, ahead.buffers)), trips, loads)


def _loads_matrix(op: Op) -> bool:
    return isinstance(op, tile.Load) and isinstance(op.mem.type, TensorType) and len(op.shape) > 1
