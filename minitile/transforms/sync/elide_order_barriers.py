"""Removes order barriers between whose wait and arrival all warpgroups meet: on thread IR, behind `thread_barriers`.

    named_barrier %mine                                %s = wgmma …
    %s = wgmma …                                       barrier {id = 1, threads = 256}
    barrier {id = 1, threads = 256}             →      %o = wgmma …
    %o = wgmma …
    named_barrier %next {arrive}

The warpgroup that has passed the order barrier arrives at the next one's only behind the `barrier`, where it waits for
those that wait for its arrival. What makes them meet (a conversion that goes from warpgroup to warpgroup, a sum over
rows) is known only now.
"""

from __future__ import annotations

from typing import TypeGuard

from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import hopper, thread
from minitile.transforms.manager import PassContext


def elide_order_barriers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if _meets_in_order(kernel.body):
        _drop(kernel.body)


def _meets_in_order(block: Block) -> bool:
    having = False
    for op in block.ops:
        if _is_order_barrier(op):
            having = not op.arrive
        elif having and any(map(_all_meet, op.walk())):
            return True
        if any(map(_meets_in_order, op.regions)):
            return True
    return False


def _is_order_barrier(op: Op) -> TypeGuard[hopper.NamedBarrier]:
    return isinstance(op, hopper.NamedBarrier) and not op.needed


def _all_meet(op: Op) -> bool:
    return isinstance(op, thread.Barrier) and not op.each


def _drop(block: Block) -> None:
    block.ops = [op for op in block.ops if not _is_order_barrier(op)]
    for op in block.ops:
        for region in op.regions:
            _drop(region)
