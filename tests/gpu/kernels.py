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


def main(what: str = "") -> None:
    if what in ("", "gemm"):
        names = ("block_M", "block_N", "block_K", "num_stages", "threads")
        for tiles in GEMMS:
            for size in SIZES:
                for form, panel in ((True, 10), (False, 0)):
                    found = gemm.run(*size, tb=form, panel=panel, **dict(zip(names, tiles, strict=True)))
                    report(f"gemm {'NT' if form else 'NN'} {size} {tiles}", found, 4e-3)
    if what in ("", "attention"):
        names = ("block_M", "block_N", "num_stages", "threads")
        for shape, tiles in ATTENTIONS:
            for causal in (False, True):
                found = attention.run(*shape, causal, **dict(zip(names, tiles, strict=True)))
                report(f"attention {shape} {tiles}{' causal' if causal else ''}", found, 8e-3)


if __name__ == "__main__":
    main(*sys.argv[1:])
