"""The ring of tile numbers without its releases, where all threads meet in each turn: a pass on thread IR behind
`thread_barriers`, before fences are placed.

    while … {                                          while … {
      if %first_warp {                                   if %first_warp {
        mbarrier_wait %empty[%i], …                        mbarrier_expect %full[%i] ; try_cancel …
        mbarrier_expect %full[%i] ; try_cancel …         }
      }                                          →       body ; barrier
      body ; barrier                                     mbarrier_wait %full[%i], … ; query_cancel …
      mbarrier_wait %full[%i], … ; query_cancel …      }
      warp_barrier ; mbarrier_arrive %empty[%i]
    }

An answer is read at the end of a turn, and what is asked for into the same slot comes a whole ring of turns later:
behind the barrier of the turn after, to which each thread comes when it has read. What makes threads meet (an epilogue
through shared memory, say) is known only now. The blocks of a cluster need the releases, and so do roles.
"""

from __future__ import annotations

from typing import Any

from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import control, explicit, hopper, launch_control, roles, thread


def elide_tile_releases(kernel: Kernel, context: Any) -> None:
    """The pass."""
    asks = [op for op in kernel.walk() if isinstance(op, launch_control.TryCancel)]
    if not asks or asks[0].multicast or any(isinstance(op, roles.ByRole) for op in kernel.walk()):
        return
    (ask,) = asks
    loops = (op for op in kernel.walk() if isinstance(op, control.While))
    loop = next((each for each in loops if any(op is ask for op in each.body.walk())), None)
    if loop is None or not any(_all_meet(op, kernel.threads) for op in loop.body.ops):
        return
    released = [op for op in kernel.walk() if _of(op, hopper.MbarrierArrive, ask)]
    inits = [op for op in kernel.walk() if _of(op, hopper.MbarrierInit, ask)]
    gone = {*released, *inits[len(inits) // 2 :]}  # in front are those of `full`
    for block in _blocks(kernel.body):
        if any(op is ask for op in block.ops):
            gone |= {op for op in block.ops if _of(op, hopper.MbarrierWait, ask)}
        for op in released:
            if op in block.ops:
                before = [each for each in block.ops[: block.ops.index(op)] if not each.pure]
                if before and isinstance(before[-1], explicit.WarpBarrier):
                    gone.add(before[-1])
    for block in _blocks(kernel.body):
        block.ops = [op for op in block.ops if op not in gone]


def _all_meet(op: Op, threads: int) -> bool:
    return isinstance(op, thread.Barrier) and not op.each and op.threads in (None, threads)


def _of(op: Op, kind: type[Op], ask: launch_control.TryCancel) -> bool:
    """Whether an operation is of this kind, at the mbarriers of the ring."""
    return type(op) is kind and ask.ring in op.operands


def _blocks(block: Block) -> list[Block]:
    return [block, *(inner for op in block.walk() for inner in op.regions)]
