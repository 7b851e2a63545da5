"""The one operation that legalisation adds to thread IR: an LLVM intrinsic by its name."""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, operands
from minitile.ir.ops.arith import widest
from minitile.ir.types import DType, Type, with_dtype


class Intrinsic(Op, name="llvm", stage="thread", pure=True, elementwise=True):
    """`call text(operands…)` for each register, such as `llvm.amdgcn.rsq.f32`. Operands are of the result's shape or
    scalars; the result's elements are of `dtype`."""

    values: tuple[Value, ...] = operands()
    text: str = attr()
    dtype: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (with_dtype(widest(*self.values), self.dtype),)
