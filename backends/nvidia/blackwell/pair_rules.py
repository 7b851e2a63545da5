"""Lowering rules of pairs of blocks (pairs.py): slots that are those of both, and the copies to them.

All bytes of a slot land on the even block's barrier, which announces those of both; both release it there.
"""

from __future__ import annotations

from typing import Any

from minitile.backends.nvidia.hopper import pipelines
from minitile.ir.core import Op, Value
from minitile.ir.ops import blackwell
from minitile.lowering.context import Lowering

PAIR = 2


def is_even(low: Lowering) -> Value:
    """Whether the block is the even one of its pair, which issues the products of both."""
    even: Value = low.in_entry("even", lambda b: b.compare("eq", _place(low), 0))
    return even


def _place(low: Lowering) -> Value:
    return pipelines.place(low, pipelines.cluster_of(low).index(PAIR))


def pipeline(low: Lowering, op: blackwell.PairPipeline) -> Value:
    ring = pipelines.pipeline(low, op)
    low.once["payload", ring] = PAIR * low.once["payload", ring]
    low.once["far", ring] = low.once["told first", ring] = low.once["pair", ring] = True
    low.once["announces", ring] = is_even(low)
    return ring


def copy(low: Lowering, op: blackwell.PairCopy) -> None:
    shift = None
    if op.half is not None:
        shift = op.half, low.b.mul(_place(low), op.dst.shape[op.half])
    pipelines.tma_copy(low, op, shift, blackwell.PairLoad)


RULES: dict[type[Op], Any] = {blackwell.PairPipeline: pipeline, blackwell.PairCopy: copy}
