"""T.use_swizzle: the order in which the blocks of a grid are visited.

The hardware starts blocks row by row. In panels of `size` rows it goes down the panel's rows first and then to the next
column, so that the blocks which run at the same time share rows and columns of the operands (the idea of CUTLASS'
threadblock swizzle).

A GPU of several XCDs gives them the blocks in turn: block n goes to XCD n mod 8 (MI300X and MI355X have 8, each with an
L2 of its own). Then neighbours never share an L2. With `xcds` the numbers are exchanged first, so that each XCD gets
runs of size² neighbours, a square of a panel (the idea of HipKittens' chiplet swizzle):

    8 XCDs, size 2      block     0  1  2 …  7 |  8  9 … 15 | 16 …
                        becomes   0  4  8 … 28 |  1  5 … 29 |  2 …        XCD 0: 0 1 2 3, 32 33 …; XCD 1: 4 5 6 7, …

The blocks of a persistent kernel take a tile each in every turn, and those of an XCD should take neighbours:

    8 XCDs, 19 blocks   block     0  1  2  3 …  7 |  8  9 10 … 15 | 16 17 18
                        takes     0  3  6  9 … 17 |  1  4  7 … 18 |  2  5  8        of the tiles of this turn

The last turn has fewer tiles than blocks; there each keeps its own number, so that the XCDs have equal shares.

Order "hilbert" follows a curve that needs no size (hilbert.py); with `xcds` each gets runs of size² blocks of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Value
from minitile.ir.ops import arith, control
from minitile.language.scalars import Expr
from minitile.language.tracing import hilbert


def rasterise(b: Builder, launch: control.Launch, order: str, size: int, xcds: int = 1) -> None:
    """Compute the block indices x and y anew at the start of the launch and let everything use those.

    With n = y·width + x, a panel holds size·width blocks; in a panel of h rows (the last may be lower than `size`)
    block r stands in row r mod h, column r div h. order "col" exchanges the roles of x and y, "hilbert" has no panels.
    The blocks of a cluster stay together: what is numbered are clusters. With `xcds`, blocks that do not make up runs
    for all of them keep their numbers.
    """
    x, y = (1, 0) if order == "col" else (0, 1)
    bx, by = launch.body.args[x], launch.body.args[y]
    body, launch.body.ops = launch.body.ops, []
    start = Block()
    with b.inside(start):
        sides = launch.cluster[x], launch.cluster[y]
        width, height = b.floordiv(launch.grid[x], sides[0]), b.floordiv(launch.grid[y], sides[1])
        ranks = b.floormod(bx, sides[0]), b.floormod(by, sides[1])
        first = b.floordiv(bx, sides[0]), b.floordiv(by, sides[1])
        number = b.add(b.mul(first[1], width), first[0])
        if xcds > 1:  # which are numbered in the order in which the hardware starts blocks, x first
            started = number if x == 0 else b.add(b.mul(first[0], height), first[1])
            number = in_runs(b, started, b.mul(width, height), xcds, size * size)
        most = b.add(b.mul(width, height), b.mul(width, size))
        if order == "hilbert":
            row, column = (e.value for e in hilbert.place(Expr(number), Expr(height), Expr(width)))
            most = b.add(most, height)
        else:
            row, column = in_panels(b, number, height, width, size)
        inputs = bx, by, *launch.grid
        row = within(b, row, b.sub(height, 1), most, inputs)
        column = within(b, column, b.sub(width, 1), most, inputs)
        column, row = b.add(b.mul(column, sides[0]), ranks[0]), b.add(b.mul(row, sides[1]), ranks[1])
    column.name, row.name = bx.name, by.name
    new: dict[Value, Value] = {bx: column, by: row}
    launch.body.ops = body
    for op in launch.body.walk():
        op.replace_operands(lambda v: new.get(v, v))
    launch.body.ops = [*start.ops, *body]


def within(b: Builder, a: Value, limit: Value, most: Value, inputs: Sequence[Value]) -> Value:
    """The value, with what is known of it (arith.Within)."""
    return a if a.op is None or a in inputs else b.value(arith.Within(a, limit, most, tuple(inputs)))


def in_panels(b: Builder, number: Value, height: Value, width: Value, size: int) -> tuple[Value, Value]:
    """Row and column of a block, down panels of `size` rows."""
    panel_blocks = b.mul(width, size)
    panel = b.floordiv(number, panel_blocks)
    inside = b.sub(number, b.mul(panel, panel_blocks))
    first_row = b.mul(panel, size)
    rows = b.min(b.sub(height, first_row), size)
    column = b.floordiv(inside, rows)
    return b.add(first_row, b.sub(inside, b.mul(column, rows))), column


def in_runs(b: Builder, number: Value, total: Value, xcds: int, run: int) -> Value:
    """The number of the tile for a block: each of the XCDs, which get blocks in turn, has runs of so many tiles."""
    xcd, turn = b.floormod(number, xcds), b.floordiv(number, xcds)
    place = b.mul(b.add(b.mul(b.floordiv(turn, run), xcds), xcd), run)
    whole = b.mul(b.floordiv(total, xcds * run), xcds * run)
    return b.select(b.compare("lt", number, whole), b.add(place, b.floormod(turn, run)), number)


def in_turns(b: Builder, number: Value, block: Value, blocks: Value, total: Value, xcds: int) -> Value:
    """The tile instead of `number` = block + turn · blocks, of `total`, in a persistent kernel of `blocks`: in each
    whole turn each XCD's blocks have neighbours.

    Of the blocks (block mod xcds) are on one XCD, rounded up on the first blocks mod xcds of them. So `mine` counts the
    XCDs' blocks one XCD after the other and is a permutation of 0 … blocks - 1, whatever the two numbers are; and in
    each turn, so is what is added to its first tile.
    """
    xcd, share, rest = b.floormod(block, xcds), b.floordiv(blocks, xcds), b.floormod(blocks, xcds)
    mine = b.add(b.add(b.mul(xcd, share), b.min(xcd, rest)), b.floordiv(block, xcds))
    first = b.sub(number, block)
    whole = b.compare("le", b.add(first, blocks), total)
    return b.add(first, b.select(whole, mine, block))
