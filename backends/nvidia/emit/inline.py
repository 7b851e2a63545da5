"""PTX text of the program's own: written out with the kernel's registers for its operands, and new ones for its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.ir.core import Op
from minitile.ir.inline_ptx import Piece, read
from minitile.ir.ops.inline import Ptx, PtxEffect
from minitile.ir.ops.thread import count_of

# Declared type -> the type of a register of the kernel's: bits are bits.
_POOL = {
    **{f"{kind}{bits}": f"b{bits}" for kind in "bus" for bits in (16, 32, 64)},
    "f16": "b16",
    "f16x2": "b32",
    "f32": "f32",
    "f64": "f64",
    "pred": "pred",
}


def text(w: Emitter, op: Ptx | PtxEffect) -> None:
    """Once for each register."""
    piece = read(op.text)
    targets = [w.element_targets(result) for result in op.results]
    count = max((count_of(v.type) for v in (*op.results, *op.inputs)), default=1)
    sources = [w.in_registers(v) for v in op.inputs]
    for n in range(count):
        registers = [each[n if len(each) > 1 else 0] for each in (*targets, *sources)]
        _once(w, piece, dict(zip(op.names, registers, strict=True)))
    for result, registers in zip(op.results, targets, strict=True):
        w.define(result, registers)


def _once(w: Emitter, piece: Piece, names: dict[str, str]) -> None:
    names |= {name: w.temp(_POOL[kind]) for name, kind in piece.declared.items()}
    names |= {label: w.code.label("ptx") for label in sorted(piece.labels)}
    for line in piece.written(lambda name: names.get(name, name)):
        if line.endswith(":"):
            w.code.place(line[:-1])
        else:
            w.emit(line)


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {Ptx: text, PtxEffect: text}
