"""AMD's targets, and the one that a device is given.

gfx942 has fp8 as well, but its formats are others: no infinities, no negative zero, another bias ("FNUZ").

Sources: "CDNA 3" and "CDNA 4" Instruction Set Architecture (wave size, LDS bytes, registers).
"""

from __future__ import annotations

from minitile.hardware import BLOCK_THREADS, Rates, Target
from minitile.ir.diagnostics import TargetError

_CDNA3 = frozenset({"mfma_f16", "mfma_bf16", "mfma_int8", "lds_dma", "counted_stores"}) | {"add_f16x2", "add_bf16x2"}
_CDNA4 = _CDNA3 | {"mfma_fp8", "mfma_scale", "lds_dma_128", "lds_transpose"}
_SIZES = (64, BLOCK_THREADS, 512, 128 * 1024, 2048)  # LLVM's time grows faster than the code

TARGETS = (
    Target("gfx942", "amd", "gfx942", "gfx942", "", (0, 0), 64 * 1024, 64 * 1024, _CDNA3, *_SIZES, multiprocessors=304),
    Target(
        "gfx950",
        "amd",
        "gfx950",
        "gfx950",
        "",
        (0, 0),
        160 * 1024,
        64 * 1024,
        _CDNA4,
        *_SIZES,
        multiprocessors=256,
        rates=Rates(products=2048),
    ),
)


def target_for(arch: str) -> Target:
    """The target of a device's processor. Raises TargetError where there is none."""
    for target in TARGETS:
        if target.name == arch:
            return target
    raise TargetError(f"this GPU is {arch}: minitile compiles for {' and '.join(t.name for t in TARGETS)}")
