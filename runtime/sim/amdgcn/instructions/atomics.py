"""Atomic operations on global memory, through buffers, and on LDS (CDNA3 ISA, 12.15 to 12.17).

They happen lane by lane, when the operation lands. Vector memory returns the old value with sc0; LDS with "rtn".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ...core.memory import Arena
from ...core.scalars import Array, Sel, where
from ...core.updates import decrement, increment
from ..decode import VECTOR, Decoder
from ..queue import DS, VM
from ..race.lds import LDS_UNIT
from ..syntax import Instruction, Operand, Reg
from ..table import Handler, instruction
from .lds import all_of, consume, gather, locate, poison
from .vector_memory import Shape, buffer_address, check_bounds, global_address

if TYPE_CHECKING:
    from ..machine import Machine

Combine = Callable[[Array, Array], Array]  # of (old, operand)


def lower(old: Array, new: Array) -> Array:
    """The new one if it is less: unlike V_MIN_F32 this has nothing for NaNs and for -0 and +0, which leave memory as
    it is (CDNA3 ISA, DS_MIN_RTN_F32 and GLOBAL_ATOMIC_MIN_F64)."""
    return where(new < old, new, old)


def higher(old: Array, new: Array) -> Array:
    """The new one if it is greater."""
    return where(new > old, new, old)


_OPERATIONS: dict[str, tuple[str, Combine]] = {  # name: (type without size, function)
    "swap": ("u", lambda old, new: new),
    "add": ("u", np.add),
    "sub": ("u", np.subtract),
    "smin": ("i", np.minimum),
    "smax": ("i", np.maximum),
    "umin": ("u", np.minimum),
    "umax": ("u", np.maximum),
    "and": ("u", np.bitwise_and),
    "or": ("u", np.bitwise_or),
    "xor": ("u", np.bitwise_xor),
    "inc": ("u", increment),
    "dec": ("u", decrement),
}
_FLOATS: dict[str, tuple[Any, Combine]] = {
    "add_f32": (np.float32, np.add),
    "add_f64": (np.float64, np.add),
    "min_f64": (np.float64, lower),
    "max_f64": (np.float64, higher),
    "pk_add_f16": (np.float16, np.add),
    "pk_add_bf16": (ml_dtypes.bfloat16, np.add),
}


def apply(
    arena: Arena, where: Array, data: Array, dtype: Any, size: int, combine: Combine | None, wanted: Array | None
) -> Array:
    """One access after the other: returns the old bytes [n, size]. With `combine` None: compare with `wanted`."""
    old = np.empty((len(where), size), np.uint8)
    for index, at in enumerate(where.tolist()):
        cell = arena.data[at : at + size]
        old[index] = cell
        if combine is not None:
            cell[:] = combine(cell.view(dtype), data[index : index + 1].view(dtype).ravel()).view(np.uint8)
        elif wanted is not None and np.array_equal(cell, wanted[index]):
            cell[:] = data[index]
    return old


def _bytes(words: Array) -> Array:
    return np.ascontiguousarray(words).view(np.uint8)


def _put_old(m: Machine, rows: list[int], waves: Array, lanes: Array, old: Array) -> None:
    words = old.view(np.uint32)
    for index, row in enumerate(rows):
        held = m.v[row, waves]
        held[lanes] = words[:, index]
        m.v[row, waves] = held


# -- vector memory -----------------------------------------------------------------------------------------------------


def _kinds() -> dict[str, tuple[Any, int, Combine | None]]:
    """Instruction name behind "_atomic_": (NumPy type, bytes, function or None for cmpswap)."""
    kinds: dict[str, tuple[Any, int, Combine | None]] = {}
    for suffix, size in (("", 4), ("_x2", 8)):
        for name, (letter, combine) in _OPERATIONS.items():
            kinds[name + suffix] = (np.dtype(f"{letter}{size}"), size, combine)
        kinds["cmpswap" + suffix] = (np.dtype(f"u{size}"), size, None)
    for name, (dtype, combine) in _FLOATS.items():
        kinds[name] = (np.dtype(dtype), 8 if name.endswith("f64") else 4, combine)
    return kinds


_KINDS = _kinds()


def _form(name: str) -> str:
    """With a result, where sc0 asks for the old value, or without."""
    space, _, kind = name.partition("_atomic_")
    _, size, combine = _KINDS[kind]
    old = size // 4
    data = f"v{old * (2 if combine is None else 1)}"
    if space == "buffer":
        return " | ".join(f"{data} {address}" for address in ("off s4 S", "v s4 S", "v2 s4 S"))
    plain = [f"v2 {data} off?", f"v {data} s2"]
    return " | ".join([*plain, *(f"v{old} {each}" for each in plain)])


@instruction(
    *(f"{space}_atomic_{name}" for space in ("global", "flat", "buffer") for name in _KINDS), takes=_form, mods="atomic"
)
def _memory_atomic(ins: Instruction, d: Decoder) -> Handler:
    space, _, name = ins.name.partition("_atomic_")
    dtype, size, combine = _KINDS[name]
    shape = Shape(4, size // 4)
    returns = d.flag("sc0")
    if space == "buffer":
        data, vector, descriptor, scalar = ins.operands
        address = buffer_address(d, vector, descriptor, scalar, shape)
        target: Operand | None = data if returns else None
    else:
        target = ins.operands[0] if returns else None
        if len(ins.operands) < 2 + returns or len(ins.operands) > 3 + returns:
            raise d.error(f"{ins.name} has a result if and only if it says sc0")
        first, data, *base = ins.operands[1:] if returns else ins.operands
        address = global_address(d, first, base[0] if base else None)
    rows = d.words(data)
    words = size // 4
    results: list[int] = []
    if isinstance(target, Reg):
        results = d.rows(target)[:words]
        d.writes.update(VECTOR + row for row in results)
    codes = tuple(VECTOR + row for row in results)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, rows)
        places, valid = address(m, sel)
        where = check_bounds(m, sel, places, valid, shape, "atomic")
        values = gather(m, sel, rows)
        lanes = m.lanes(sel)
        if valid is not None:
            lanes &= valid.all(axis=2)
        waves = m.wave[sel]
        finish, meets = None, None
        if m.global_race is not None:
            over = m.global_race.write(sel, where, size, lanes, strong=True)
            meets, hear = m.global_race.synchronises(sel, where, size, lanes, "update")
            finish = all_of([over, hear])
        poison(m, results, sel)

        def land(done: Array) -> None:
            if meets is not None:
                meets(done)
            part = lanes[done]
            given = _bytes(values[done][part])
            wanted = given[:, size:] if combine is None else None
            old = apply(m.globals.arena, where[done][part], given[:, :size], dtype, size, combine, wanted)
            _put_old(m, results, waves[done], part, old)

        m.queue.issue(sel, VM, land, codes, lanes, finish, "atomic")

    return run


# -- LDS ---------------------------------------------------------------------------------------------------------------

_LDS_NAMES = {
    "add": "add",
    "sub": "sub",
    "min_i": "smin",
    "max_i": "smax",
    "min_u": "umin",
    "max_u": "umax",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "inc": "inc",
    "dec": "dec",
    "wrxchg": "swap",
}


def _lds_kinds() -> dict[str, tuple[Any, int, Combine | None]]:
    kinds: dict[str, tuple[Any, int, Combine | None]] = {}
    for bits in (32, 64):
        size = bits // 8
        for short, name in _LDS_NAMES.items():
            letter, combine = _OPERATIONS[name]
            stem = short[:-2] if short.endswith(("_i", "_u")) else short
            kind = short[-1] if short.endswith(("_i", "_u")) else "b" if name in ("and", "or", "xor", "swap") else "u"
            middle = "_rtn" if name == "swap" else ""
            kinds[f"{stem}{middle}_{kind}{bits}"] = (np.dtype(f"{letter}{size}"), size, combine)
        kinds[f"cmpst_b{bits}"] = (np.dtype(f"u{size}"), size, None)
        float_type = np.dtype(f"f{size}")
        for short, function in (("add", np.add), ("min", lower), ("max", higher)):
            kinds[f"{short}_f{bits}"] = (float_type, size, function)
    kinds["pk_add_f16"] = (np.dtype(np.float16), 4, np.add)
    kinds["pk_add_bf16"] = (np.dtype(ml_dtypes.bfloat16), 4, np.add)
    with_result = {
        name.replace("_", "_rtn_", 1) if not name.startswith("pk") else name.replace("pk_add_", "pk_add_rtn_"): kind
        for name, kind in kinds.items()
        if "_rtn" not in name
    }
    return kinds | with_result


_LDS_KINDS = _lds_kinds()


def _lds_form(name: str) -> str:
    _, size, combine = _LDS_KINDS[name[3:]]
    data = f"v{size // 4}"
    return " ".join([*([data] if "_rtn" in name else []), "v", data, *([data] if combine is None else [])])


@instruction(*(f"ds_{name}" for name in _LDS_KINDS), takes=_lds_form, mods="ds")
def _lds_atomic(ins: Instruction, d: Decoder) -> Handler:
    """[destination,] address, operand; ds_cmpst takes the value to compare with, then the new one."""
    dtype, size, combine = _LDS_KINDS[ins.name[3:]]
    words, offset = size // 4, d.number("offset")
    operands = list(ins.operands)
    results = d.result_words(operands.pop(0), words) if "_rtn" in ins.name else []
    base, sources = d.vector(operands[0]), d.words(operands[0], 1)
    data = [d.words(operand, words) for operand in operands[1:]]
    for rows in data:
        sources += rows
    codes = tuple(VECTOR + row for row in results)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        address = np.broadcast_to(base(m, sel).astype(np.int64) + offset & 0xFFFFFFFF, (len(m.wave[sel]), 64))
        where = locate(m, sel, address, size, m.mask, "atomic")
        values = [gather(m, sel, rows) for rows in data]
        lanes, waves = m.lanes(sel), m.wave[sel]
        finish = None if m.race is None else m.race.write(sel, where, size, m.mask, LDS_UNIT, atomic=True)
        poison(m, results, sel)

        def land(done: Array) -> None:
            part = lanes[done]
            given = [_bytes(value[done][part]) for value in values]
            wanted = given[0] if combine is None else None
            old = apply(m.lds, where[done][part], given[-1], dtype, size, combine, wanted)
            _put_old(m, results, waves[done], part, old)

        m.queue.issue(sel, DS, land, codes, lanes, finish, "LDS atomic")

    return run
