"""What products of matrices have in common, whether they add to tiles (tile.py) or to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minitile.ir.core import Op, Value

# Scales of blocks in packs of 512 bytes, those of 128 rows and four blocks: by r % 32, then r / 32, then the block.
PACK = (32, 16)
PACK_ROWS, PACK_BLOCKS = 128, 4


class Product(Op):
    """a · b; `*_format`: what an operand of bytes holds, packed along K; "": elements of its dtype."""

    if TYPE_CHECKING:
        a: Value
        b: Value
        c: Value
        a_format: str
        b_format: str

    @property
    def formats(self) -> tuple[str, str]:
        """What the elements of a and b are."""
        return self.a_format or self.a.dtype.name, self.b_format or self.b.dtype.name

    @property
    def accumulator(self) -> Value:
        """What it adds to."""
        return self.c

    def factors(self) -> tuple[Value, ...]:
        return self.a, self.b
