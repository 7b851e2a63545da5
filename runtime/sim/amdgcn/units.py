"""Which unit executes an instruction, and how long the matrix unit takes: what hazards and the cycle estimate share."""

from __future__ import annotations

from .instructions.mfma import Tile, tile_of
from .syntax import Instruction

VALU, TRANS, MFMA, SALU, SMEM, VMEM, LDS = "VALU", "TRANS", "MFMA", "SALU", "SMEM", "VMEM", "LDS"
BRANCH, WAIT, BARRIER, NOP, END = "branch", "wait", "barrier", "nop", "end"

_TRANSCENDENTAL = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")
_NOPS = ("s_nop", "s_sleep", "s_setprio", "s_inst_prefetch", "s_icache_inv")


def unit_of(ins: Instruction) -> str:
    """The unit of an instruction."""
    name = ins.name
    if name.startswith("v_mfma"):
        return MFMA
    if name.startswith(_TRANSCENDENTAL):
        return TRANS
    if name.startswith("v_"):
        return VALU
    if name.startswith("ds_"):
        return LDS
    if name.startswith(("buffer_", "global_", "flat_", "scratch_")):
        return VMEM
    if name.startswith(("s_load", "s_dcache", "s_mem")):
        return SMEM
    if name.startswith(("s_branch", "s_cbranch")):
        return BRANCH
    if name in _NOPS:
        return NOP
    return {"s_waitcnt": WAIT, "s_barrier": BARRIER, "s_endpgm": END}.get(name, SALU)


def passes_of(ins: Instruction, arch: str) -> int:
    """Passes (of four cycles) that a matrix instruction takes (CDNA3 and CDNA4 ISA, "Matrix Arithmetic
    Instructions"; LLVM's scheduling model, SISchedule.td)."""
    tile, types, _ = tile_of(ins.name)
    if types == "f8f6f4":
        small = all(int(ins.mods.get(name, 0)) > 1 for name in ("cbsz", "blgp"))  # type: ignore[arg-type]
        return (8 if tile.m == 32 else 4) * (1 if small else 2)
    if types == "f64":
        return 4 if tile.m == 4 else (16 if arch == "gfx950" else 8)
    if tile.m == 4:
        return 2
    if types == "xf32":
        return 4 if tile.m == 16 else 8
    if types == "f32":
        return 8 if tile.m == 16 else 16
    if tile.blocks > 1:
        return 8 if tile.m == 16 else 16
    return 4 if tile.m == 16 else 8


def flops_of(tile: Tile) -> int:
    """Multiplications and additions of a matrix instruction."""
    return 2 * tile.m * tile.n * tile.k * tile.blocks


def is_xdl(ins: Instruction) -> bool:
    """Whether the matrix unit's narrow-type path executes it (everything but f32 and f64 sources)."""
    _, types, _ = tile_of(ins.name)
    return types not in ("f32", "f64")
