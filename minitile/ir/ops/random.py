"""Random tiles."""

from __future__ import annotations

from minitile.ir.core import Op, Value, operand
from minitile.ir.ops.checks import require, require_scalar
from minitile.ir.relations import Relation, Repeated
from minitile.ir.types import TileType, Type, u32, u64

WORDS = 4  # of a counter


class RandomBits(Op, name="random_bits", stage="tile", pure=True):
    """The words of Philox4x32-10 (ir/philox.py) of a tile of counters, next to each other along the last dimension:
    element n there is word n % 4 of counter n // 4. `key` and `stream` are scalars; all are u64."""

    counter: Value = operand()
    key: Value = operand()
    stream: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        *outer, last = self.counter.shape
        return (TileType((*outer, last * WORDS), u32),)

    def relations(self) -> list[Relation]:
        return [Repeated(self.counter, len(self.counter.shape) - 1, WORDS, self.result)]

    def verify(self) -> None:
        for value, what in ((self.key, "the key"), (self.stream, "the stream")):
            require_scalar(value, what)
        for value in (self.counter, self.key, self.stream):
            require(value.dtype is u64, f"{value.type} is not u64")
