"""T.Kernel(…, persistent=blocks): a persistent kernel, whose blocks take one tile of the grid after the other.

    launch %gx, %gy, %gz (%bx, %by, %bz) {        launch min(%gx·%gy·%gz, blocks), 1, 1 (%block, …) {
      %As = alloc …                                 %As = alloc …
      body                                     →    for %t = %block to %gx·%gy·%gz step blocks {
    }                                                 body with %bx = %t mod %gx, %by = %t div %gx mod %gy, …
                                                    } }

On a GPU of several XCDs the blocks of each take neighbours: the body has another number for %t
(block_swizzle.in_turns).
Shared memory is the block's own in every turn; nothing that a tile has left there counts for the next one. Nor does
what it has left in tensors, as between blocks of a grid: the loop is `apart`, and no barrier orders its turns' stores.
The primary grid is waited for once, ahead of the loop (T.pdl_sync): by all threads, whatever roles they take in it.
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, fences, tile
from minitile.ir.types import I32
from minitile.language.block_swizzle import in_turns


def make_persistent(b: Builder, launch: control.Launch, blocks: int, xcds: int = 1, dynamic: bool = False) -> None:
    """Changes the launch in place; `b` stands where the launch will be."""
    x, y, z = launch.grid
    total = b.mul(b.mul(x, y), z)
    steps, one = b.constant(blocks), b.constant(1)
    launch.grid = b.min(total, steps), one, one
    old, end = launch.body.ops[:-1], launch.body.ops[-1]
    names = [arg.name for arg in launch.body.args]
    turn = Block(launch.body.args)
    number = Value(I32, turn, 0, "tile")
    bx, by, bz = launch.body.args
    launch.body.args = tuple(Value(I32, launch.body, n, name) for n, name in enumerate(("block", "", "")))
    turn.args = (number,)
    with b.inside(turn):
        taken = in_turns(b, number, launch.body.args[0], launch.grid[0], total, xcds) if xcds > 1 else number
        places = (taken, b.constant(0), b.constant(0))
        if constant_of(y) != 1 or constant_of(z) != 1:
            across = b.floordiv(taken, x)
            places = b.floormod(taken, x), b.floormod(across, y), b.floordiv(across, y)
    for place, name in zip(places, names, strict=True):
        place.name = place.name or name
    once = [op for op in old if _is_shared(op)] + _begun(old)
    turn.ops += [op for op in old if op not in once]
    new = dict(zip((bx, by, bz), places, strict=True))
    for op in turn.walk():
        op.replace_operands(lambda v: new.get(v, v))
    launch.body.ops = once
    with b.inside(launch.body):
        with b.inside(turn):
            b.emit(control.Yield(()))
        b.emit(control.For(launch.body.args[0], total, steps, (), apart=True, dynamic=dynamic, body=turn))
    launch.body.ops.append(end)


def _is_shared(op: Op) -> bool:
    return isinstance(op, tile.Alloc) and op.type_.space == "shared"


def _begun(ops: list[Op]) -> list[Op]:
    """The wait for the primary grid, and the triggers of the next one in front of it."""
    last = max((n for n, op in enumerate(ops) if isinstance(op, fences.PdlSync)), default=-1)
    return [op for op in ops[: last + 1] if isinstance(op, fences.PdlSync | fences.PdlTrigger)]
