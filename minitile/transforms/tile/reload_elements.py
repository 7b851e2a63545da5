"""Single elements of a tile that was loaded from a tensor are loaded from there.

    %mask = load %M[%b, 0] {shape = (4,)}                    %mask = load %M[%b, 0] {shape = (4,)}
    for 0, %n, 1 (%k: i32) {                                 for 0, %n, 1 (%k: i32) {
      %m = extract %mask[%k]                         →         %m = load %M[%b, %k] {shape = ()}
      if %m { copy %K[…], %Ks … } }                            if %m { copy %K[…], %Ks … } }

An element of a tile at an index that only run time knows goes through shared memory, and depends on what other threads
hold: no copy can be issued ahead on such a condition. A scalar load, of a tensor that the kernel does not write, is
known to every role and for any iteration.
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import tile
from minitile.ir.types import ScalarType, TensorType
from minitile.transforms.manager import PassContext


def reload_elements(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    found = {op: op.a.op for op in kernel.walk() if isinstance(op, tile.Extract) and isinstance(op.a.op, tile.Load)}
    if not found:
        return
    written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
    found = {op: load for op, load in found.items() if _again(load, written) and any(map(_unknown, op.indices))}
    if not found:
        return
    _rewrite(kernel.body, found, {})
    used = {v for op in kernel.walk() for v in op.operands}
    unused = {load for load in found.values() if load.result not in used}
    for block in [kernel.body, *(region for op in kernel.walk() for region in op.regions)]:
        block.ops = [op for op in block.ops if op not in unused]


def _unknown(index: Value) -> bool:
    return constant_of(index) is None


def _again(load: tile.Load, written: set[Value | None]) -> bool:
    """Whether a load gives the same wherever it stands, element by element."""
    whole = load.mask is None and load.slot is None and isinstance(load.mem.type, TensorType)
    scalars = all(isinstance(i.type, ScalarType) for i in load.indices)
    return whole and scalars and written.isdisjoint({load.mem, None})


def _rewrite(block: Block, found: dict[tile.Extract, tile.Load], names: dict[Value, Value]) -> None:
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        op.replace_operands(lambda v: names.get(v, v))
        for region in op.regions:
            _rewrite(region, found, names)
        load = found.get(op) if isinstance(op, tile.Extract) else None
        if load is None:
            block.ops.append(op)
            continue
        assert isinstance(op, tile.Extract)
        b.loc = op.loc
        at = []
        for start, dim in zip(load.indices, load.dims, strict=True):
            at.append(start if dim is None else b.add(start, b.cast(op.indices[dim], start.dtype)))
        again = b.emit(tile.Load(load.mem, tuple(at), shape=(), dims=(None,) * len(at)))
        again.result.name = op.result.name
        names[op.result] = again.result
