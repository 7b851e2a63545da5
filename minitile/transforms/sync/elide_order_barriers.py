"""Warpgroups take no turns where they meet in the middle of one: on thread IR, behind `thread_barriers`.

    named_barrier %mine                                %s = wgmma …
    %s = wgmma …                                       barrier {id = 1, threads = 256}
    barrier {id = 1, threads = 256}             →      %o = wgmma …
    %o = wgmma …
    named_barrier %next {arrive}

Who has the turn passes it on behind the barrier, for which it waits for those who wait for the turn. What makes them
meet (a conversion that goes from warpgroup to warpgroup, a sum over rows) is known only now.
"""

from __future__ import annotations

from typing import TypeGuard

from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import hopper, thread
from minitile.transforms.manager import PassContext


def elide_order_barriers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if _meets_in_turn(kernel.body):
        _drop(kernel.body)


def _meets_in_turn(block: Block) -> bool:
    having = False
    for op in block.ops:
        if _of_turns(op):
            having = not op.arrive
        elif having and any(map(_all_meet, op.walk())):
            return True
        if any(map(_meets_in_turn, op.regions)):
            return True
    return False


def _of_turns(op: Op) -> TypeGuard[hopper.NamedBarrier]:
    return isinstance(op, hopper.NamedBarrier) and not op.needed


def _all_meet(op: Op) -> bool:
    return isinstance(op, thread.Barrier) and not op.each


def _drop(block: Block) -> None:
    block.ops = [op for op in block.ops if not _of_turns(op)]
    for op in block.ops:
        for region in op.regions:
            _drop(region)
