"""The one operation that legalisation adds to thread IR: a PTX instruction by its name."""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, operands
from minitile.ir.ops.arith import widest
from minitile.ir.types import DType, Type, with_dtype


class Instruction(Op, name="ptx", stage="thread", pure=True, elementwise=True):
    """`text d, operands…;` for each register, such as `lg2.approx.f32`. Operands are of the result's shape or scalars,
    of 32 or 64 bits; the result's elements are of `dtype`."""

    values: tuple[Value, ...] = operands()
    text: str = attr()
    dtype: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (with_dtype(widest(*self.values), self.dtype),)
