"""A program whose parts are marked for warpgroups (`T.ws`) becomes one program a role: on traced IR, the first pass.

    for %k {                                            warp_groups %one {first = 0, count = 1} {
      warp_groups %two {first = 1, count = 1} {           for %k { barrier_wait … ; gemm_into … ; barrier_arrive … }
        barrier_wait … ; bulk_load … ; barrier_arrive …   copy %C_local, %C[…]
      } {}                                          →   } {
      warp_groups %one {first = 0, count = 1} {           for %k { barrier_wait … ; bulk_load … ; barrier_arrive … }
        barrier_wait … ; gemm_into … ; barrier_arrive …  }
      } {}
    }
    warp_groups %one { copy %C_local, %C[…] } {}

Each role gets the control flow around its parts, and the scalars, for itself. So no role runs through another one's
loop, a register budget holds for a whole role, and what stands in a part waits for its own role alone.

What several warpgroups do together (a tile operation, T.sync_threads) makes them one role, and what all of them do
together stays where it is: the roles before and behind it are split apart from each other, and a loop that holds both
stays a loop of all, with the roles inside. Stretches as long as possible are split at once, since between two of them
there may be a barrier of all threads, which a program that runs in its roles did not ask for.

A software-pipelined loop (`T.Pipelined`) with explicit parts or barriers inside runs as it is written, without
versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from minitile.hardware import WARPGROUP
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import control, explicit, tile
from minitile.ir.rewrite import clone, free_values
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext

Groups = frozenset[int]
_STORAGE = (tile.Alloc, explicit.Barriers)


def partition_warpgroups(kernel: Kernel, context: PassContext) -> None:
    """The pass. Sets kernel.attrs["explicit_sync"] where the program has roles or barriers of its own. Raises
    TargetError for operations that the target has no instructions for."""
    for op in kernel.walk():
        _check_target(op, context)
    if not any(isinstance(op, explicit.WarpGroups) or _is_ordering(op) or op.in_flight for op in kernel.walk()):
        return
    kernel.attrs["explicit_sync"] = True
    for op in kernel.walk():
        if isinstance(op, control.For) and (op.kind == "pipelined" or op.order) and _has_explicit_sync(op.body):
            op.kind, op.stages, op.order, op.stage_of = "serial", 1, None, None
    launch = control.find_launch(kernel)
    groups = frozenset(range(max(1, launch.threads // WARPGROUP)))
    _exact(launch.body, groups)
    _split(launch.body, groups)


def _exact(block: Block, groups: Groups) -> None:
    """Each branch between roles names exactly those of the warpgroups at hand that take it; one that all of them take,
    or none, is none."""
    old, block.ops = block.ops, []
    names: dict[Value, Value] = {}
    for op in old:
        _rename(op, names)
        if not isinstance(op, explicit.WarpGroups):
            for region in op.regions:
                _exact(region, groups)
            block.ops.append(op)
            continue
        sides = _side(op, groups)
        for region, side in zip(op.regions, sides, strict=True):
            _exact(region, side or groups)
        if all(sides):
            if min(sides[0]) != op.first or len(sides[0]) != op.count:
                op.first, op.count = min(sides[0]), len(sides[0])
                inside = explicit.InGroups(op.first, op.count)
                op.condition = inside.result
                block.ops.append(inside)
            block.ops.append(op)
            continue
        taken = op.then if sides[0] else op.orelse
        names.update(zip(op.results, taken.yielded, strict=True))
        block.ops += [inner for inner in taken.ops if not inner.terminator]


_ROLES = "roles (tile operations under conditions on the thread's index, too), explicit barriers: for sm_90a and up"
_PRODUCTS = "T.gemm multiplies by what the target has"


def _check_target(op: Op, context: PassContext) -> None:
    target = context.target
    name, feature = op.needs
    if name and not target.has(feature):
        raise TargetError(f"{target} has no {name}", op.loc, _ROLES if feature == "tma" else _PRODUCTS)
    if isinstance(op, explicit.Shuffle) and op.width > target.lanes:
        raise TargetError(f"T.shfl_* among {op.width} threads: a warp of {target} has {target.lanes}", op.loc)


def _is_ordering(op: Op) -> bool:
    """Whether the program orders accesses here by itself, among the threads of a block."""
    return any(sync.on != "cluster" for sync in op.syncs())


def _has_explicit_sync(block: Block) -> bool:
    return any(isinstance(op, explicit.WarpGroups) or _is_ordering(op) for op in block.walk())


# What happens where --------------------------------------------------------------------------------------------------


def _side(op: explicit.WarpGroups, groups: Groups) -> tuple[Groups, Groups]:
    """Which of the warpgroups at hand take either side."""
    inside = frozenset(g for g in groups if op.first <= g < op.first + op.count)
    return inside, groups - inside


def _is_together(op: Op) -> bool:
    """Whether the warpgroups that come here act as one: they meet, or one thread acts for all."""
    return op.uniform or any(
        a.threads == "one" or (a.kind == "write" and not _is_private(a.mem)) for a in op.accesses() if not op.pure
    )


def _is_private(mem: Value | None) -> bool:
    return mem is not None and isinstance(mem.type, BufferType) and mem.type.space != "shared"


def _meetings(op: Op, groups: Groups) -> set[Groups]:
    """The sets of warpgroups that act together somewhere in an operation."""
    if isinstance(op, explicit.WarpGroups):
        sides = zip(op.regions, _side(op, groups), strict=True)
        return {m for region, side in sides if side for inner in region.ops for m in _meetings(inner, side)}
    found = {m for region in op.regions for inner in region.ops for m in _meetings(inner, groups)}
    return found | {groups} if not op.terminator and _is_together(op) else found


def _parts(op: Op, groups: Groups) -> bool:
    """Whether only some of the warpgroups at hand do something in there."""
    inner = list(op.walk())
    return any(isinstance(o, explicit.WarpGroups) and all(_side(o, groups)) for o in inner)


def _roles(ops: list[Op], groups: Groups) -> list[Groups]:
    """The warpgroups that act together, or in the same parts as their neighbours: contiguous, in order."""
    joint = {m for op in ops for m in _meetings(op, groups)}
    parts = [o for op in ops for o in op.walk()]
    marks = [_side(o, groups)[0] for o in parts if isinstance(o, explicit.WarpGroups)]
    roles: list[Groups] = []
    for group in sorted(groups):
        last = max(roles[-1]) if roles else -1
        alike = bool(roles) and all((group in m) == (last in m) for m in marks)
        if alike or any(group in m and min(m) <= last for m in joint):
            together = {g for m in joint if group in m for g in m if g < group} | ({last} if alike else set())
            low = min(together)
            merged = frozenset({group}.union(*[r for r in roles if max(r) >= low]))
            roles = [r for r in roles if max(r) < low] + [merged]
        else:
            roles.append(frozenset({group}))
    return roles


# Splitting -----------------------------------------------------------------------------------------------------------


def _split(block: Block, groups: Groups) -> None:
    """Split a block that `groups` execute, in place."""
    old, block.ops = block.ops, []
    run: list[Op] = []
    for n, op in enumerate(old):
        if isinstance(op, _STORAGE):
            block.ops.append(op)
        elif op.terminator or groups in _meetings(op, groups):
            _flush(block, run, groups, old[n:])
            run = []
            if _parts(op, groups):
                for region in op.regions:
                    _split(region, groups)
            block.ops.append(op)
        else:
            run.append(op)
    _flush(block, run, groups, [])


def _flush(block: Block, run: list[Op], groups: Groups, rest: list[Op]) -> None:
    """Append a stretch without anything that all do together; from its first to its last part as roles."""
    parts = [n for n, op in enumerate(run) if _parts(op, groups)]
    if not parts:
        block.ops += run
        return
    before, middle, after = run[: parts[0]], run[parts[0] : parts[-1] + 1], run[parts[-1] + 1 :]
    block.ops += before
    roles = _roles(middle, groups)
    made = {r for op in middle for r in op.results}
    later = Block(ops=[*after, *rest])
    live = [v for v in free_values(later) if v in made]
    renamed = _emit_roles(block, middle, roles, live) if len(roles) > 1 else {}
    if len(roles) == 1:
        block.ops += middle
    for op in (*after, *rest):
        _rename(op, renamed)
    block.ops += after


def _rename(op: Op, names: dict[Value, Value]) -> None:
    for inner in op.walk():
        inner.replace_operands(lambda v: names.get(v, v))


def _emit_roles(block: Block, ops: list[Op], roles: list[Groups], live: list[Value]) -> dict[Value, Value]:
    """A chain of branches, one role after the other; what stands for the `live` values behind them."""
    role, *others = roles
    inside = explicit.InGroups(min(role), len(role))
    then, orelse = _role(ops, role, live), Block()
    if len(others) == 1:
        orelse = _role(ops, others[0], live)
    else:
        names = _emit_roles(orelse, ops, others, live)
        orelse.ops.append(control.Yield(tuple([names[v] for v in live])))
    branch = explicit.WarpGroups(inside.result, first=min(role), count=len(role), then=then, orelse=orelse)
    branch.loc = ops[0].loc
    block.ops += [inside, branch]
    return dict(zip(live, branch.results, strict=True))


def _role(ops: Iterable[Op], role: Groups, live: list[Value]) -> Block:
    names: dict[Value, Value] = {}
    block = Block(ops=_projected(role, ops, names))
    block.ops.append(control.Yield(tuple([names[v] for v in live])))
    if len(role) > 1:
        _split(block, role)
    return block


def _projected(role: Groups, ops: Iterable[Op], names: dict[Value, Value]) -> list[Op]:
    """Copies of the operations as far as a role executes them."""
    found: list[Op] = []
    for op in ops:
        if isinstance(op, explicit.WarpGroups):
            sides = [region for region, side in zip(op.regions, _side(op, role), strict=True) if side]
            if len(sides) == 1:
                (region,) = sides
                found += _projected(role, [o for o in region.ops if not o.terminator], names)
                names.update(zip(op.results, [names.get(v, v) for v in region.yielded], strict=True))
                continue
        found.append(clone(op, names, partial(_projected, role)))
    return found
