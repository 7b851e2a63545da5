"""Lowering of the program's own PTX text: it stays, on registers; of what it has addresses of, these are computed."""

from __future__ import annotations

from minitile.ir.core import Op, Value
from minitile.ir.ops.inline import AddressOf, Ptx, PtxEffect
from minitile.ir.types import TensorType, u32
from minitile.lowering.accesses import Place
from minitile.lowering.context import Lowering, Rule
from minitile.lowering.memory import bits_of_start, global_addresses, shared_addresses


def _text(low: Lowering, op: Ptx | PtxEffect) -> tuple[Value, ...]:
    return low.same(op)


def _address_of(low: Lowering, op: AddressOf) -> Value:
    starts = [low.facts.affine(v) for v in op.indices]
    where = [Place(start, None, 0, bits_of_start(low, start)) for start in starts]
    here = [(0,) * len(where)]
    if isinstance(op.mem.type, TensorType):
        found = global_addresses(low, op.mem, where, here)
        return low.b.add(found.value, found.offsets[0])
    found = shared_addresses(low, op.mem, None, where, here)
    return low.b.cast(low.b.add(found.value, found.offsets[0]), u32)


INLINE_RULES: dict[type[Op], Rule] = {Ptx: _text, PtxEffect: _text, AddressOf: _address_of}
