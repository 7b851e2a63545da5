"""Random tiles: each thread computes the words of its own counters."""

from __future__ import annotations

from minitile.ir.core import Op, Value
from minitile.ir.ops.random import WORDS, RandomBits
from minitile.ir.philox import philox
from minitile.lowering.context import Lowering, Rule, layout_of


def _random_bits(low: Lowering, op: RandomBits) -> Value:
    source = layout_of(op.counter).register_offsets()
    words = philox(low.b, low.get(op.key), low.get(op.counter), low.get(op.stream))
    where = {at: reg for reg, at in enumerate(source)}
    order = []
    for *outer, last in layout_of(op.result).register_offsets():
        order.append(last % WORDS * len(source) + where[(*outer, last // WORDS)])
    return low.pick(low.concat(words), order)


RANDOM_RULES: dict[type[Op], Rule] = {RandomBits: _random_bits}
