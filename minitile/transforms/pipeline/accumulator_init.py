"""The first product of a loop writes its accumulator, which need not be cleared: on tile IR, when gemms are in flight.

    %z = splat 0.0                                       %u = unset
    %r, %t = for %lo, %hi, … [%z, …] (%k, %c, …) {       %r, %t = for %lo, %hi, … [%u, …] (%k, %c, …) {
      %f, %t1 = async_gemm %As, %Bs, %c                    %more = cmp %k, %lo {"ne"}
      …                                            →       %f, %t1 = async_gemm %As, %Bs, %c, scale_d = %more
      yield %f, %t1                                        … yield %f, %t1
    }                                                    }
                                                         %some = cmp %lo, %hi {"lt"}
    %a = await %r, %t                                    %a = await %r, %t, written = %some

To clear a tile takes half as many instructions as a thread has registers of it, for each tile anew, while the tensor
cores wait for the next products. A loop without a turn leaves zeros. They are written behind the wait: registers that
something else writes in front of a loop on one way only make ptxas serialise all products (C7515).

It is done where one accumulator of a loop starts from zeros and goes to one product alone, which hands it on in flight,
and where what the loop leaves is awaited in its block. (Zeros of one, written while another one is in flight, are C7515
as well.) Since the predicate may be true, the accumulators count as read by the first product: in a persistent loop
their registers are taken all the way round, through the epilogue, too. So tiles of more than MOST registers are
cleared; a team does it while the other team's last products run.
"""

from __future__ import annotations

import math
from collections import Counter

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, explicit, roles, tile
from minitile.ir.types import TileType
from minitile.transforms.manager import PassContext

MOST = 128  # registers of a thread


def accumulator_init(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    uses = Counter(v for op in kernel.walk() for v in op.operands)
    if any(isinstance(op, roles.AsyncGemm) for op in kernel.walk()):
        _block(kernel.body, kernel.threads, uses)


def _block(block: Block, threads: int, uses: Counter[Value]) -> None:
    """`threads`: of those whose block it is."""
    old, block.ops = block.ops, []
    b = Builder(block)
    awaited = {op.a: op for op in old if isinstance(op, roles.Await)}
    loops: dict[Op, control.For] = {}
    for op in old:
        b.loc = op.loc
        for region, mine in zip(op.regions, explicit.sides(op, threads), strict=True):
            _block(region, mine, uses)
        if isinstance(op, control.For):
            first = {v: gemm for n, v in enumerate(op.results) if (gemm := _first(op, n, uses)) is not None}
            for result, gemm in first.items() if len(first) == 1 else ():
                few = math.prod(gemm.c.shape) * gemm.c.dtype.bits <= 32 * MOST * threads
                if few and result in awaited and uses[result] == 1:
                    _unset(b, op, result.index, gemm)
                    loops[awaited[result]] = op
        if isinstance(op, roles.Await) and op in loops:
            some = b.compare("lt", loops[op].lower, loops[op].upper)
            op.written = None if constant_of(some) is True else some
        b.emit(op)


def _first(loop: control.For, place: int, uses: Counter[Value]) -> roles.AsyncGemm | None:
    """The product that an accumulator of a loop goes to and comes from, if it starts from zeros."""
    start, carried, gemm = loop.init[place].op, loop.carried[place], loop.body.yielded[place].op
    if not (isinstance(start, tile.Splat) and constant_of(start.value) == 0 and uses[carried] == 1):
        return None
    while isinstance(gemm, roles.AsyncGemm) and gemm.c is not carried:  # several products one after the other
        gemm = gemm.c.op
    return gemm if isinstance(gemm, roles.AsyncGemm) and gemm.scale_d is None and gemm in loop.body.ops else None


def _unset(b: Builder, loop: control.For, place: int, gemm: roles.AsyncGemm) -> None:
    kind = loop.init[place].type
    assert isinstance(kind, TileType)
    unset = b.emit(roles.Unset(kind.shape, kind.dtype)).result
    loop.init = (*loop.init[:place], unset, *loop.init[place + 1 :])
    with b.inside(Block()) as before:
        gemm.scale_d = b.compare("ne", loop.iv, loop.lower)
    at = loop.body.ops.index(gemm)
    loop.body.ops[at:at] = before.ops
