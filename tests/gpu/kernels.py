"""The kernels of the benchmarks at small sizes, launched a few times each: for compute-sanitizer.

    compute-sanitizer --tool racecheck python tests/gpu/kernels.py [gemm | attention | fp8 | epilogues]

The examples run with small tiles; these are the tiles that are timed, of two consumer warpgroups where the target has
them, with tails in every dimension, fewer steps than stages, and K smaller than a tile. `MINITILE_TARGET` names what
they are compiled for. Results are checked against float64.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["MINITILE_GPU"] = "1"
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import attention
import gemm
import gemm_epilogues
import gemm_fp8
from support import has_form, report

GEMMS = [(128, 256, 64, 4, 256), (256, 128, 64, 4, 256), (128, 128, 64, 4, 256), (64, 128, 64, 3, 128)]
SIZES = [(200, 264, 328), (129, 136, 24), (77, 45, 51)]
ATTENTIONS = [
    ((1, 2, 200, 128), (128, 128, 2, 256)),
    ((1, 1, 333, 64), (128, 64, 3, 256)),
    ((1, 1, 130, 96), (128, 64, 2, 256)),
]
FP8S = [(128, 128, 6, 256), (128, 192, 4, 256), (192, 128, 4, 384)]
BLOCKS = [(128, 128, 6, 256), (192, 128, 4, 384)]
EPILOGUES = [(128, 128, 64, 4, 256, 4), (128, 128, 64, 4, 256, 4, 8, 2)]

SMALL = os.environ.get("MINITILE_TARGET") == "sm_80"  # less shared memory, fewer registers for a thread's tile


def main(what: str = "") -> None:
    if what in ("", "gemm"):
        for tiles in GEMMS:
            named = dict(zip(("block_M", "block_N", "block_K", "num_stages", "threads"), tiles, strict=True))
            named["num_stages"] = min(named["num_stages"], 3 if SMALL else 4)
            for size in SIZES:
                for form, panel in ((True, 10), (False, 0)):
                    found = gemm.run(*size, tb=form, panel=panel, **named)
                    report(f"gemm {'NT' if form else 'NN'} {size} {tiles}", found, 4e-3)
    if what in ("", "attention"):
        for shape, tiles in ATTENTIONS:
            named = dict(zip(("block_M", "block_N", "num_stages", "threads"), tiles, strict=True))
            named["block_N"] = min(named["block_N"], 64 if SMALL else 128)
            for causal in (False, True):
                found = attention.run(*shape, causal, **named)
                report(f"attention {shape} {tiles}{' causal' if causal else ''}", found, 8e-3)
    if what in ("", "fp8") and has_form("mma_fp8", "products of fp8 numbers"):
        for size in [(264, 200, 528), (129, 136, 48)]:
            for tile in FP8S:
                named = dict(zip(("block_M", "block_N", "num_stages", "threads"), tile, strict=True))
                for promote in (False, True):
                    found = gemm_fp8.run(*size, per_row=True, promote=promote, blocks=4, **named)
                    report(f"fp8 {size} {tile}{' promoted' if promote else ''}", found, gemm_fp8.BOUND)
            for tile in BLOCKS:
                named = dict(zip(("block_M", "block_N", "num_stages", "threads"), tile, strict=True))
                for overlap in (False, True) if tile[0] == 128 else (False,):
                    found = gemm_fp8.run_blocks(*size, overlap=overlap, blocks=4, **named)
                    report(f"fp8 blocks {size} {tile}{' overlapped' if overlap else ''}", found, gemm_fp8.BOUND)
    if what in ("", "epilogues"):
        for shape in [(64, 128, 32, 3, 128, 4)] if SMALL else EPILOGUES:
            tiles = gemm_epilogues.Tiles(*shape)
            for size in [(264, 200, 328), (129, 144, 40)]:
                # A team is one warpgroup, which has no registers for the two products of a gated pair.
                for name in ("linear", "residual", "gated")[: 2 if tiles.teams > 1 else 3]:
                    found = getattr(gemm_epilogues, f"run_{name}")(*size, tiles=tiles)
                    report(f"{name} {size} {shape}", found, gemm_epilogues.BOUND)
                results, largest = gemm_epilogues.run_quantized(*size, tiles=tiles)
                report(f"quantized {size} {shape}", results, gemm_epilogues.FP8_BOUND)
                report(f"its largest magnitudes {size} {shape}", largest, 1e-6)


if __name__ == "__main__":
    main(*sys.argv[1:])
