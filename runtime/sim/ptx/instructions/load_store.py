"""ld, st, ldu, cvta, isspacep, and the hints prefetch, discard and applypriority (PTX ISA 8.0, 9.7.8).

Cache operators, eviction priorities and prefetch sizes change nothing that can be seen. `.volatile`, `.relaxed`,
`.acquire`, `.release` and `.mmio` accesses are "strong" (PTX ISA 8.0, 8.2.2): the race model is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import split_generic
from ...core.scalars import DTYPES, FLOATS, SIZES, UNSIGNED, Array, Sel
from ..operands import address, count, error, read, write
from ..program import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_SIZE, Linker
from ..syntax import Address, Instruction, Operand, Symbol, Vector
from ..table import Handler, instruction

if TYPE_CHECKING:
    from ..machine import Machine

_SPACES = {
    "global": "global",
    "const": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "param": "param",
}
_WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW}
_WINDOWS |= {"local": LOCAL_WINDOW, "param": PARAM_WINDOW}


def space_of(ins: Instruction, operand: Operand, linker: Linker) -> str | None:
    """The arena an access goes to, None for a generic address."""
    space = next((_SPACES[mod] for mod in ins.mods if mod in _SPACES), None)
    if space == "param" and isinstance(operand, Address) and isinstance(operand.base, Symbol):
        variable = linker.variable(operand.base, ins)
        kernel = any(each is variable for each in linker.entry.params)
        return space if kernel else "local"  # parameters of calls are declared in blocks
    return space


def bit_kind(kind: str) -> str:
    """The untyped twin of a type: floats move through memory as bits."""
    return f"b{8 * SIZES[kind]}" if kind in FLOATS or kind.endswith("x2") else kind


@instruction("ld", "ldu")
def _load(ins: Instruction, linker: Linker) -> Handler:
    kind = bit_kind(ins.mods[-1])
    elem = SIZES[kind]
    dtype = DTYPES[kind]
    space = space_of(ins, ins.operands[1], linker)
    where = address(ins.operands[1], ins, linker)
    site = linker.site(ins)
    strong = ins.is_strong
    target = ins.operands[0]
    items = target.items if isinstance(target, Vector) else (target,)
    lanes = len(items)
    if lanes != next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1):
        raise error(ins, "the vector has another length than the instruction says")
    writers = [write(item, kind, ins, linker) for item in items]
    elem, lanes = (8, 2 * lanes) if kind == "b128" else (elem, lanes)

    def run(m: Machine, sel: Sel) -> None:
        addr = where(m, sel)
        if space is not None:
            value = m.spaces[space].load(m, sel, addr, elem, lanes, site, strong)
        else:
            value = _load_generic(m, sel, addr, elem, lanes, site, strong)
        value = np.ascontiguousarray(value).view(dtype) if kind == "b128" else value
        for lane, writer in enumerate(writers):
            writer(m, sel, np.ascontiguousarray(value[:, lane]).view(dtype))

    return run


def _load_generic(m: Machine, sel: Sel, addr: Array, elem: int, lanes: int, site: int, strong: bool) -> Array:
    parts = split_generic(m, sel, addr)
    if parts and parts[0][3] is None:
        space, threads, local, _ = parts[0]
        return space.load(m, threads, local, elem, lanes, site, strong)
    value = np.empty((count(sel), lanes), UNSIGNED[elem])
    for space, threads, local, positions in parts:
        value[positions] = space.load(m, threads, local, elem, lanes, site, strong)
    return value


@instruction("st", results=0)
def _store(ins: Instruction, linker: Linker) -> Handler:
    kind = bit_kind(ins.mods[-1])
    word = DTYPES[kind] if kind == "b128" else UNSIGNED[SIZES[kind]]
    space = space_of(ins, ins.operands[0], linker)
    where = address(ins.operands[0], ins, linker)
    site = linker.site(ins)
    strong = ins.is_strong
    source = ins.operands[1]
    items = source.items if isinstance(source, Vector) else (source,)
    if len(items) != next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1):
        raise error(ins, "the vector has another length than the instruction says")
    readers = [read(item, kind, ins, linker) for item in items]

    def run(m: Machine, sel: Sel) -> None:
        addr = where(m, sel)
        value = np.empty((count(sel), len(readers)), word)
        for lane, reader in enumerate(readers):
            value[:, lane] = reader(m, sel).view(word)
        value = value.view(np.uint64) if kind == "b128" else value
        if space is not None:
            m.spaces[space].store(m, sel, addr, value, site, strong)
            return
        for part, threads, local, positions in split_generic(m, sel, addr):
            part.store(m, threads, local, value if positions is None else value[positions], site, strong)

    return run


@instruction("cvta")
def _convert_address(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    dtype = DTYPES[kind]
    source, target = read(ins.operands[1], kind, ins, linker), write(ins.operands[0], kind, ins, linker)
    window = next((_WINDOWS[mod] for mod in ins.mods if mod in _WINDOWS), 0)
    bits = (1 << 8 * dtype.itemsize) - 1
    step = dtype.type((window if "to" not in ins.mods else -window) & bits)
    return lambda m, sel: target(m, sel, (source(m, sel) + step).astype(dtype))


@instruction("isspacep")
def _is_space(ins: Instruction, linker: Linker) -> Handler:
    source, target = read(ins.operands[1], "u64", ins, linker), write(ins.operands[0], "pred", ins, linker)
    space = _SPACES[ins.mods[0]]
    window = np.uint64(_WINDOWS.get(space, 0))

    def run(m: Machine, sel: Sel) -> None:
        offset = source(m, sel) - window
        inside = offset < np.uint64(WINDOW_SIZE) if window else source(m, sel) >= np.uint64(LOCAL_WINDOW + WINDOW_SIZE)
        target(m, sel, np.broadcast_to(inside, (count(sel),)))

    return run


@instruction("prefetch", "prefetchu", "discard", "applypriority", results=0)
def _hint(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: None


@instruction("createpolicy")
def _create_policy(ins: Instruction, linker: Linker) -> Handler:
    target = write(ins.operands[0], "b64", ins, linker)
    return lambda m, sel: target(m, sel, np.zeros(count(sel), np.uint64))
