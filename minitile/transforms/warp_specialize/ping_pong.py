"""Teams of consumers that share the turns of a persistent loop: the analysis for `warp_specialize`, and their programs.

    consumer {                                     consumer {
      for %t = %lo, %hi, %s {teams = 2} {            warp_groups {first = 0, count = 1} {
        for … (%k, %c) { … gemm … }                    for %t = %lo, %hi, %s·2 {
        store %acc, %C[…]                                ping_pong_wait 0 ; for … { … gemm … } ; ping_pong_arrive 1
      } }                                      →         store %acc, %C[…]
                                                       }
                                                     } {
                                                       ping_pong_arrive 0
                                                       for %t = %lo + %s, %hi, %s·2 { ping_pong_wait 1 ; … }
                                                     } }

Each team runs a program of its own, as explicit roles do: its threads count from 0, meet at their own barrier, and have
their own version of every shared buffer that no copy of the producer fills. One team stores its tile while the next
one multiplies. The producer knows nothing of teams: it feeds one turn after the other. A team's rings step over what
the others consume (`warp_specialize`).

The order barrier says which team receives what the producer sends: from before the first receive of a turn until
behind the last. A barrier of a ring tells apart no more than two phases, so that a team that waited for its slots ahead
of time could take one that was filled long before for its own. Since gemms follow their receives, the order barrier
also gives the tensor cores to one team after the other; a team arrives at the next one's when a turn's last gemm is
issued, before it is complete.

Turns of one block must be as independent as those of different blocks are: that they are, as far as tensors go, is the
program's word. Values and shared buffers that hand something from turn to turn are refused here.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitile.hardware import WARPGROUP
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, explicit, roles, tile
from minitile.ir.origin import Origin, places
from minitile.ir.rewrite import clone, clone_block
from minitile.transforms.warp_specialize.producer_partition import Refused, Rings


@dataclass(frozen=True, eq=False)
class Teams:
    """The loop whose turns `count` teams of `threads` threads share, and the buffers of which each team has its own. A
    team passes the order barrier before the operation `first` of the loop's body and arrives at the next one's behind
    `last`. `again`: the loop may begin again."""

    loop: control.For
    count: int
    threads: int
    buffers: tuple[tile.Alloc, ...]
    first: Op
    last: Op
    again: bool


def find_teams(launch: control.Launch, rings: Rings) -> Teams | None:
    """None where no loop asks for teams. Raises Refused where there is a reason against them."""
    loops = [op for op in launch.body.walk() if isinstance(op, control.For) and op.teams > 1]
    if not loops:
        return None
    loop = loops[0]
    if len(loops) > 1:
        raise Refused("more than one loop asks for teams")
    if launch.threads % (loop.teams * WARPGROUP):
        raise Refused(f"{launch.threads} threads are not {loop.teams} teams of whole warpgroups of {WARPGROUP}")
    if loop.init:
        names = ", ".join(v.name or "a value" for v in loop.carried)
        raise Refused(f"each turn of the loop hands {names} on to the next")
    inside = {region for op in (loop, *loop.body.walk()) for region in op.regions}
    early = next((ring for ring in rings.rings if ring.pipeline_state.block not in inside), None)
    if early is not None:
        raise Refused(f"{early.copies[0].src.name} is copied outside of the loop, for all teams")
    allocs = [op for op in launch.body.walk() if isinstance(op, tile.Alloc) and op.result not in rings.of]
    _check_outside(launch, loop, {op.result for op in allocs})
    for alloc in allocs:
        _check_carried(loop.body, alloc.result)
    users = {ring.first for ring in rings.rings}
    fed = [op for op in loop.body.ops if not users.isdisjoint(op.walk())]
    again = any(isinstance(op, control.Loop) for op in rings.slice.places.all_around(loop))
    return Teams(loop, loop.teams, launch.threads // loop.teams, tuple(allocs), fed[0], fed[-1], again)


def _check_outside(launch: control.Launch, loop: control.For, own: set[Value]) -> None:
    """Every team does what stands outside of the loop: that must not show."""
    inside = set(loop.body.walk())
    for op in launch.body.walk():
        if isinstance(op, tile.ThreadIndex):
            raise Refused("the program asks for the thread's index, which is one in all teams")
        if op not in inside and not op.regions and any(a.writes and a.mem not in own for a in op.accesses()):
            raise Refused(f"`{op.mnemonic}` stands outside of the loop, and would be done by each team")


def _check_carried(body: Block, buffer: Value) -> None:
    """Refuses a buffer in which one turn may find what the last one left."""
    if any(a.writes and a.mem is buffer for op in body.walk() for a in op.accesses()) and not _renews(body, buffer):
        raise Refused(f"a turn of the loop may find in {buffer.name or 'a buffer'} what the last one has left")


def _renews(block: Block, buffer: Value) -> bool:
    """Whether a block that uses a buffer writes all of it first: itself, or in the only loop or branch that uses it."""
    users = [op for op in block.ops if any(a.mem is buffer for o in op.walk() for a in o.accesses())]
    if not users or _overwrites(users[0], buffer):
        return True
    return len(users) == 1 and bool(users[0].regions) and all(_renews(region, buffer) for region in users[0].regions)


def _overwrites(op: Op, buffer: Value) -> bool:
    """Whether an operation begins by writing all of a buffer."""
    if isinstance(op, tile.Copy):
        return op.dst is buffer and op.shape == buffer.shape and all(constant_of(i) == 0 for i in op.dst_indices)
    whole = isinstance(op, tile.Store) and op.mem is buffer and op.mask is None and op.value.shape == buffer.shape
    return whole and all(constant_of(i) == 0 for i in op.indices)  # type: ignore[attr-defined]


def part(program: Block, team: Value, teams: Teams, common: Builder) -> Block:
    """The consumers' program of which `team` is the number of the team that runs it, as one for each team. What is
    `common` gets their buffers."""
    programs = []
    for number in range(teams.count):
        b = Builder(Block(), common.loc)
        names = {team: b.constant(number)}
        if number == teams.count - 1:  # it has not waited before
            with b.because(Origin("warp_specialize", "order barrier: the first team begins", places([common.loc]))):
                b.emit(roles.PingPongArrive(b.constant(0)))
        if number:
            for alloc in teams.buffers:
                common.emit(clone(alloc, names))
        b.block.ops += clone_block(program, names).ops
        programs.append(b.block)
    return _apart(programs, 0, teams.threads // WARPGROUP, common)


def _apart(programs: list[Block], first: int, groups: int, common: Builder) -> Block:
    """A branch by warpgroups, the last of which takes the last program."""
    if len(programs) == 1:
        return programs[0]
    b = Builder(Block(), common.loc)
    mine = b.emit(explicit.InGroups(first, groups)).result
    rest = _apart(programs[1:], first + groups, groups, common)
    for side in (programs[0], rest):
        side.ops.append(control.Yield(()))
    b.emit(explicit.WarpGroups(mine, first=first, count=groups, independent=True, then=programs[0], orelse=rest))
    return b.block
