"""In which form (elements a part) loops and branches carry each value: what the accumulator of an mfma is made of, what
an mfma takes as an operand or a load brings, else whole 32-bit words, else single elements.

A value that is carried in the form in which it is used needs no code at the loop's head: the parts of a form are
neighbouring registers, which LLVM keeps where they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import control, thread
from minitile.ir.types import RegsType
from minitile.layout import MFMA_ATOMS

_ACCUMULATOR, _OPERAND, _LOADED = range(3)  # whose wish counts more


def phi_widths(kernel: Kernel) -> dict[Value, int]:
    """The form of every value that control flow joins; 1 is left out."""
    parent: dict[Value, Value] = {}
    wishes: dict[Value, tuple[int, int]] = {}

    def find(value: Value) -> Value:
        while value in parent:
            value = parent[value]
        return value

    def wish(value: Value, rank: int, width: int) -> None:
        count = thread.count_of(value.type)
        if width > 1 and count % width == 0:
            wishes[value] = min(wishes.get(value, (rank, width)), (rank, width))
            if isinstance(value.op, thread.Pick) and _in_parts(value.op.indices, width):
                wish(value.op.a, rank, width)

    for op in kernel.walk():
        if isinstance(op, thread.MmaSync):
            atom = MFMA_ATOMS[op.atom]
            for value in (op.c, op.result):
                wish(value, _ACCUMULATOR, atom.c.num_regs)
            wish(op.a, _OPERAND, atom.a.num_regs)
            wish(op.b, _OPERAND, atom.b.num_regs)
        elif isinstance(op, thread.LoadMem):
            wish(op.result, _LOADED, op.width)
    joined: list[Value] = []
    for group in _joins(kernel.body):
        for value in group[1:]:
            a, b = find(group[0]), find(value)
            if a is not b:
                parent[b] = a
        joined += group
    best: dict[Value, tuple[int, int]] = {}
    for value, found in wishes.items():
        root = find(value)
        best[root] = min(best.get(root, found), found)
    return {v: width for v in joined if (width := _width(v, best.get(find(v)))) > 1}


def _in_parts(indices: tuple[int, ...], width: int) -> bool:
    """Whether registers are picked by whole parts of `width`."""
    starts = indices[::width]
    return all(i % width == 0 for i in starts) and indices == tuple(i + n for i in starts for n in range(width))


def _width(value: Value, wish: tuple[int, int] | None) -> int:
    if not isinstance(value.type, RegsType):
        return 1
    dtype = value.dtype
    width = wish[1] if wish is not None else 1 if dtype.kind == "bool" else max(1, 32 // dtype.bits)
    if dtype.kind == "bool":
        return 1
    if dtype.bits == 8 and width % 4 and width != 2:
        return 1
    return width if value.type.count % width == 0 else math.gcd(width, value.type.count) if dtype.bits > 8 else 1


def _joins(block: Block) -> Iterator[list[Value]]:
    """Values that become one another by control flow."""
    for op in block.ops:
        for t in op.transfers() if isinstance(op, control.Structured) else ():
            for column in zip(t.values, *t.targets, strict=True):
                if thread.in_registers(column[0]):
                    yield list(column)
        for region in op.regions:
            yield from _joins(region)
