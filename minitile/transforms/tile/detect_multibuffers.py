"""A shared buffer of which the program picks one slice at a time becomes versions of that slice.

    %As = alloc shared<2x128x64xbf16>                       %As = alloc shared<2 versions x 128x64xbf16>
    bulk_load %A[…], %As[%k % 2, 0, 0] {dst_dims = (None, 0, 1)}    bulk_load %A[…], %As[0, 0], dst_slot = %k % 2
    gemm %As[%k % 2, 0, 0] {a_dims = (None, 0, 1)}, …    →          gemm %As[0, 0], a_slot = %k % 2, …

So a ring of buffers of the program is what the compiler's own rings are: each slice has the layout that copies and
multiplications want, and accesses of different slices are known to be apart. It is done where every access of the
buffer has a scalar index in the first dimension and two dimensions more: in programs with explicit synchronisation, and
where wgmma reads the slices, which knows matrices only. Not where a pipelined loop writes the buffer: it makes
versions of its own.
"""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.types import BufferType, ScalarType, i32
from minitile.transforms.manager import PassContext

Fields = tuple[tuple[str, str, str, str], ...]
_PLACES: dict[type[Op], Fields] = {}  # known ones


def _places(kind: type[Op]) -> Fields:
    """The fields of an operation that are memory, each with those of its indices, dims and slot."""
    if kind not in _PLACES:
        names, attrs = [name for name, _ in kind.operand_fields], {name for name, _ in kind.attr_fields}
        found = []
        for name in names:
            prefix = "" if name == "mem" else f"{name}_"
            indices, dims, slot = (prefix + field for field in ("indices", "dims", "slot"))
            if indices in names and slot in names and dims in attrs:
                found.append((name, indices, dims, slot))
        _PLACES[kind] = tuple(found)
    return _PLACES[kind]


def detect_multibuffers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    found = {op.result: op for op in kernel.walk() if isinstance(op, tile.Alloc) and _is_candidate(op)}
    if not kernel.attrs.get("explicit_sync"):
        multiplied = _multiplied(kernel) if found and context.target.has("wgmma") else set()
        found = {value: op for value, op in found.items() if value in multiplied}
    for op in kernel.walk():
        for value in op.operands:
            if value in found and not _picks_one(op, value):
                del found[value]
    for alloc in found.values():
        versions, *shape = alloc.type_.shape
        alloc.type_ = alloc.result.type = BufferType("shared", tuple(shape), alloc.type_.dtype, versions)
    if found:
        _rewrite(kernel.body, set(found))


def _multiplied(kernel: Kernel) -> set[Value]:
    """The buffers that gemms read and no pipelined loop writes."""
    loops = (op for op in kernel.walk() if isinstance(op, control.For) and op.kind == "pipelined" and op.stages > 1)
    written = {a.mem for loop in loops for op in loop.body.walk() for a in op.accesses() if a.writes}
    return {v for op in kernel.walk() if isinstance(op, tile.Gemm) for v in (op.a, op.b)} - written


def _is_candidate(op: tile.Alloc) -> bool:
    t = op.type_
    return t.space == "shared" and len(t.shape) == 3 and t.versions == 1 and op.layout is None


def _picks_one(op: Op, mem: Value) -> bool:
    places = [p for p in _places(type(op)) if getattr(op, p[0]) is mem]
    uses = sum(v is mem for v in op.operands)
    return uses == len(places) and all(
        getattr(op, dims)[0] is None
        and isinstance(getattr(op, indices)[0].type, ScalarType)
        and getattr(op, slot) is None
        for _, indices, dims, slot in places
    )


def _rewrite(block: Block, buffers: set[Value]) -> None:
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        for region in op.regions:
            _rewrite(region, buffers)
        for mem, indices, dims, slot in _places(type(op)):
            if getattr(op, mem) in buffers:
                first, *rest = getattr(op, indices)
                setattr(op, slot, b.cast(first, i32))
                setattr(op, indices, tuple(rest))
                setattr(op, dims, getattr(op, dims)[1:])
        block.ops.append(op)
