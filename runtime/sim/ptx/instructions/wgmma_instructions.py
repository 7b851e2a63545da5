"""wgmma.fence, mma_async, commit_group, wait_group (PTX ISA 8.0, 9.7.14.5 to 9.7.14.7), decoded for `wgmma.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ...core.scalars import Array, Sel
from ..flow import products_of
from ..operands import error, per_thread, read
from ..program import Linker
from ..syntax import Instruction, Integer, Operand, Register, Vector
from ..table import Decoded, Kind, Outcome, instruction, whole_warp
from ..wait_queue import Waiter
from .wgmma import Shape

if TYPE_CHECKING:
    from ..machine import Machine

_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"),
    "s8": ("s32",),
    "u8": ("s32",),
}
_PAIRS = {"e4m3": ("e4m3", "e5m2"), "e5m2": ("e4m3", "e5m2"), "s8": ("s8", "u8"), "u8": ("s8", "u8")}


def _shape(ins: Instruction, site: int) -> Shape:
    """Check the types, the sizes and the constants of a product."""
    size = next((re.fullmatch(r"m64n(\d+)k(\d+)", mod) for mod in ins.mods if mod.startswith("m64")), None)
    types = [mod for mod in ins.mods if mod in _BYTES or mod in ("f32", "s32")]
    if size is None or len(types) != 3 or ins.mods[1:3] != ("sync", "aligned"):
        raise error(ins, f"unsupported form {ins.opcode}")
    columns, depth = int(size.group(1)), int(size.group(2))
    d_kind, a_kind, b_kind = types
    item = _BYTES.get(a_kind, 0)
    if d_kind not in _RESULTS.get(a_kind, ()) or b_kind not in _PAIRS.get(a_kind, (a_kind,)) or depth != 32 // item:
        raise error(ins, f"unsupported types or depth in {ins.opcode}")
    if columns % 8 or not 8 <= columns <= 256 or (item == 1 and d_kind == "s32" and columns > 32 and columns % 16):
        raise error(ins, f"n must be a multiple of 8 (16 for integers above 32) from 8 to 256, not {columns}")
    results, fragments = products_of(ins)
    if len(results) != columns // (4 if d_kind == "f16" else 2) or len(fragments) not in (0, 4):
        raise error(ins, "the operands have another number of registers than the shape needs")
    constants = [each.value for each in ins.operands[4:] if isinstance(each, Integer)]
    if len(constants) != len(ins.operands[4:]):
        raise error(ins, "scales and transpositions must be constants")
    wanted = 0 if d_kind == "s32" else 2
    if item == 2:
        wanted += 1 if fragments else 2
    if len(constants) != wanted:
        raise error(ins, f"this form takes {wanted} constants after scale-d, not {len(constants)}")
    scales = constants[:2] if wanted else [1, 1]
    transposed = constants[2:]
    if set(scales) - {1, -1} or set(transposed) - {0, 1}:
        raise error(ins, "imm-scale is 1 or -1, a transposition 0 or 1")
    return Shape(
        columns,
        depth,
        a_kind,
        b_kind,
        d_kind,
        item,
        bool(transposed[0]) if transposed and not fragments else False,
        bool(transposed[-1]) if transposed else False,
        scales[0],
        scales[1],
        results,
        fragments,
        "satfinite" in ins.mods,
        site,
    )


def _check_registers(ins: Instruction) -> None:
    operands: list[Operand] = [ins.operands[0]]
    if isinstance(ins.operands[1], Vector):
        operands.append(ins.operands[1])
    for operand in operands:
        if not isinstance(operand, Vector) or not all(isinstance(item, Register) for item in operand.items):
            raise error(ins, "accumulators and fragments are vectors of registers")
        if any(item.kind not in ("b32", "u32", "s32", "f32") for item in operand.items if isinstance(item, Register)):
            raise error(ins, "accumulators and fragments are 32-bit registers")


@instruction("wgmma.mma_async", kind=Kind.WARP)
def _multiply(ins: Instruction, linker: Linker) -> Decoded:
    """wgmma.mma_async.sync.aligned.shape.d.a.b d, a, b-desc, scale-d{, imm-scale-a, imm-scale-b{, transpositions}}."""
    _check_registers(ins)
    shape = _shape(ins, linker.site(ins))
    b = read(ins.operands[2], "b64", ins, linker)
    scale = read(ins.operands[3], "pred", ins, linker)
    fragments = ins.operands[1]
    a = None if isinstance(fragments, Vector) else read(fragments, "b64", ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        number = len(m.thread[sel])
        words: Array | None = None
        descriptors = np.zeros(number, np.uint64)
        if a is None:
            words = np.array([m.regs[slot][sel] for slot in shape.fragments]).T
        else:
            descriptors = per_thread(a(m, sel), sel)
        accumulate = per_thread(scale(m, sel), sel)
        m.wgmma.issue(sel, shape, descriptors, per_thread(b(m, sel), sel), words, accumulate)

    return Decoded(run, whole_warp)


@instruction("wgmma.fence", kind=Kind.WARP, results=0)
def _fence(ins: Instruction, linker: Linker) -> Decoded:
    return Decoded(lambda m, sel: m.wgmma.fence(sel), whole_warp)


@instruction("wgmma.commit_group", kind=Kind.WARP, results=0)
def _commit(ins: Instruction, linker: Linker) -> Decoded:
    return Decoded(lambda m, sel: m.wgmma.commit(sel), whole_warp)


@instruction("wgmma.wait_group", kind=Kind.CONTROL, results=0)
def _wait(ins: Instruction, linker: Linker) -> Decoded:
    number = ins.operands[0]
    if not isinstance(number, Integer):
        raise error(ins, "wait_group takes a constant")
    keep = number.value

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        threads = m.thread[sel]
        warps = threads[::32] // 32
        teams = warps // m.wgmma.per_cta * m.wgmma.per_cta + warps % m.wgmma.per_cta // 4
        goes = np.ones(len(warps), bool)
        for team in np.unique(teams):
            mine = warps[teams == team]
            if m.wgmma.ready(mine, keep):
                m.wgmma.wait(mine, keep)
                continue
            goes[teams == team] = False
            _sleep(m, mine, keep, pc)
        if goes.all():
            return [(pc + 1, sel)]
        return [(pc + 1, threads[np.repeat(goes, 32)])] if goes.any() else []

    return Decoded(run, whole_warp)


def _sleep(m: Machine, warps: Array, keep: int, pc: int) -> None:
    threads = (warps[:, None] * 32 + np.arange(32)).ravel()
    waiter = Waiter(
        pc,
        threads,
        lambda: m.wgmma.ready(warps, keep),
        lambda done: m.wgmma.wait(warps, keep),
        lambda: "wgmma groups, which the other warps of the warpgroup have not issued",
    )
    m.waiters.add(m.wgmma.key(int(warps[0])), waiter)
