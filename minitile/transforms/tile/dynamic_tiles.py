"""Loops over tiles that blocks take as they come (`dynamic`): the grid that they want of the target.

    launch %blocks, 1, 1 (%b, …) {                            launch %total, 1, 1 (%b, …) {
      for %b to %total step %blocks {dynamic} (%t) {     →      for %b to %total step 1 {dynamic} (%t) {

With cluster launch control (PTX ISA 8.8, 9.7.13.17) there are as many clusters as tiles, of which each that runs has
its own tile first, and then those of clusters that it has taken from the grid before they began. What else a cluster
does, it does as often as it runs. A target without it has the loop as it stands; so has a kernel that says more of its
blocks than a loop over tiles does, and a note says what.

It changes what the host launches, and so comes before the passes. The loop itself is made by the backend's
`launch_control.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from minitile.hardware import Target
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.host_expression import host_expression
from minitile.ir.ops import arith, control, explicit, fences
from minitile.ir.rewrite import clone
from minitile.ir.types import I32, i32


class _Static(Exception):
    """Why a loop stays as it is."""


def dynamic_tiles(kernel: Kernel, launch: control.Launch, target: Target, notes: list[str]) -> None:
    """Change the launch and its loop in place; a loop that stays as it is is not `dynamic` any more."""
    loops = [op for op in launch.body.walk() if isinstance(op, control.For) and op.dynamic]
    if not loops:
        return
    try:
        if not target.has("launch_control"):
            raise _Static(f"{target} has no cluster launch control")
        if len(loops) > 1 or loops[0] not in launch.body.ops:
            raise _Static("there is more than the one loop over tiles, or it stands under a condition")
        _launch_all(kernel, launch, loops[0])
    except _Static as reason:
        notes.append(f"tiles are not taken as they come: {reason}")
        for loop in loops:
            loop.dynamic = False


def _launch_all(kernel: Kernel, launch: control.Launch, loop: control.For) -> None:
    """A cluster for each turn of the loop. Raises _Static, and changes nothing, where that is something else than what
    the kernel says."""
    together = math.prod(launch.cluster)
    _check_blocks(launch, loop, together)
    head = list(_made_before(launch, loop.upper))
    scalars = {p: p for p in kernel.params} | {v: v for v in kernel.dims.values()}
    try:
        host_expression(loop.upper, scalars, "", loop.loc)
    except LanguageError:
        raise _Static("the host cannot compute how many there are") from None
    names: dict[Value, Value] = {}
    at = kernel.body.ops.index(launch)
    b = Builder(kernel.body, loop.loc)
    rest, kernel.body.ops = kernel.body.ops[at:], kernel.body.ops[:at]
    for op in head:
        b.emit(clone(op, names))
    blocks = b.mul(names.get(loop.upper, loop.upper), together)
    launch.grid = blocks, b.constant(1), b.constant(1)
    kernel.body.ops += rest
    step = arith.Constant(1, i32)
    launch.body.ops.insert(launch.body.ops.index(loop), step)
    loop.step, loop.teams = step.result, 1


def _check_blocks(launch: control.Launch, loop: control.For, together: int) -> None:
    """Raises _Static where the loop's first turn is not the number of the cluster, or the kernel does something else
    with the number of blocks or of this one, or by a part of its threads."""
    block = launch.body.args[0]
    if launch.cluster[0] != together or any(constant_of(n) != 1 for n in launch.grid[1:]):
        raise _Static("the grid, or a cluster, has more than one dimension")
    if loop.lower.type != I32:
        raise _Static("their number takes more than 32 bits")
    if not _shared_out(loop.lower, block, together):
        raise _Static("a block's first tile is not that of its number")
    if not any(_shared_out(loop.step, n, together) for n in _launched(launch.grid[0])):
        raise _Static("they are not shared out to all blocks")
    for op in launch.body.walk():
        if isinstance(op, explicit.WarpGroups):
            raise _Static("the program has roles of its own")
        if isinstance(op, fences.GridSync):
            raise _Static("all blocks meet")
        if block not in op.operands or op is loop:
            continue
        rank = isinstance(op, arith.FloorMod) and constant_of(op.b) == together
        if not rank and op.results != (loop.lower,):
            raise _Static("the kernel uses the block's number for something else")


def _shared_out(part: Value, whole: Value, together: int) -> bool:
    """Whether a number is that of clusters where another one is that of blocks."""
    constant, number = constant_of(part), constant_of(whole)
    if constant is not None and number is not None:
        return bool(constant == number // together)
    op = part.op
    if isinstance(op, arith.FloorDiv) and constant_of(op.b) == together:
        return _same(op.a, whole)
    return together == 1 and _same(part, whole)


def _same(a: Value, b: Value) -> bool:
    return a is b or (isinstance(a.op, arith.Cast) and a.op.a is b)


def _launched(grid: Value) -> Iterator[Value]:
    """The grid, or what it is at most."""
    yield grid
    if isinstance(grid.op, arith.Min):
        yield from grid.op.operands


def _made_before(launch: control.Launch, value: Value) -> Iterator[Op]:
    """The operations of the launch that a scalar is computed by, in order."""
    wanted = {value}
    found: list[Op] = []
    for op in reversed(launch.body.ops):
        if not wanted.isdisjoint(op.results):
            found.append(op)
            wanted.update(op.operands)
    return reversed(found)
