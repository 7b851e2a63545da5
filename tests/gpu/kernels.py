"""The kernels of the benchmarks at small sizes, launched a few times each: for compute-sanitizer.

    compute-sanitizer --tool racecheck python tests/gpu/kernels.py [gemm | attention]

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
from support import report

GEMMS = [(128, 256, 64, 4, 256), (256, 128, 64, 4, 256), (128, 128, 64, 4, 256), (64, 128, 64, 3, 128)]
SIZES = [(200, 264, 328), (129, 136, 24), (77, 45, 51)]
ATTENTIONS = [
    ((1, 2, 200, 128), (128, 128, 2, 256)),
    ((1, 1, 333, 64), (128, 64, 3, 256)),
    ((1, 1, 130, 96), (128, 64, 2, 256)),
]


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


if __name__ == "__main__":
    main(*sys.argv[1:])
