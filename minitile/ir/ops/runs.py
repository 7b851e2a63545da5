"""Runs: neighbours in memory that each thread moves by itself, as scalars in registers.

`join_accesses` makes them of scalar loads and stores once all layouts are known; lowering gives each the widest
accesses that alignment allows. Legal in the tile stage, behind `infer_layouts`.

A run goes along one dimension of the memory, `along`: element n is at `indices` with n added there. Bounds are those of
the single accesses: an element outside a tensor is loaded as 0, and not stored.
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, maybe, operand, operands
from minitile.ir.effects import Access
from minitile.ir.ops.checks import require, require_dim, require_indices, require_scalar
from minitile.ir.types import I32, ScalarType, Type, bool_


def _require_run(op: LoadRun | StoreRun | AtomicRun, count: int) -> None:
    require_indices(op.indices, len(op.mem.shape))
    require_dim(op.along, len(op.mem.shape))
    require(count > 1, f"a run of {count}")
    if op.slot is not None:
        require(op.slot.type == I32, f"the slot is {op.slot.type}, not i32")
    if op.mask is not None:
        require_scalar(op.mask, "the mask")
        require(op.mask.dtype is bool_, f"the mask is {op.mask.type}, not bool")


class LoadRun(Op, name="load_run", stage="tile"):
    """`count` scalars, one result each. Where the mask is false, all of them are 0."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    mask: Value | None = maybe()
    slot: Value | None = maybe()
    count: int = attr()
    along: int = attr()
    evict: str = attr("")

    def infer(self) -> tuple[Type, ...]:
        return (ScalarType(self.mem.dtype),) * self.count

    def verify(self) -> None:
        _require_run(self, self.count)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot),)


class AtomicRun(Op, name="atomic_run", stage="tile"):
    """Each value is added to its element, atomically by itself."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    values: tuple[Value, ...] = operands()
    mask: Value | None = maybe()
    along: int = attr()

    slot = None

    def verify(self) -> None:
        _require_run(self, len(self.values))
        for value in self.values:
            require(value.type == ScalarType(self.mem.dtype), f"a value is {value.type}, the memory {self.mem.type}")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("atomic", self.mem),)


class StoreRun(Op, name="store_run", stage="tile"):
    """The values in order; none where the mask is false."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    values: tuple[Value, ...] = operands()
    mask: Value | None = maybe()
    slot: Value | None = maybe()
    along: int = attr()
    evict: str = attr("")

    def verify(self) -> None:
        _require_run(self, len(self.values))
        for value in self.values:
            require(value.type == ScalarType(self.mem.dtype), f"a value is {value.type}, the memory {self.mem.type}")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, self.slot),)
