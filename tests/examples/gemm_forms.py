"""The GEMMs' other forms on small sizes, for the tests of synchronisation: split-K, groups, fp8, epilogues, teams,
clusters. Each has tails, more steps than stages, and blocks with more than one tile in persistent kernels."""

from __future__ import annotations

from typing import Any

import gemm_epilogues
import gemm_fp8
import gemm_grouped
import gemm_persistent
import gemm_split_k
import gemm_stream_k
import gemm_swapped
import ml_dtypes
import numpy as np
from gemm_epilogues import Tiles
from support import poisoned

from tests.examples.mutation_cases import Case

BF16, FP8, F32 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float32
TALL = {"block_M": 128, "threads": 256}  # two warpgroups, either of which stores by itself
SMALL = {"block_M": 64, "block_N": 64, "num_stages": 2, "threads": 128}


def counters(count: int) -> Any:
    return np.zeros(count, np.int32)


def of_split_k(m: int, n: int, **settings: Any) -> Case:
    """Split-K by two for each tile; C is written by the block that adds them."""
    tile_m = settings.setdefault("block_M", 64)
    tensors = [((m, 264), BF16), ((n, 264), BF16), poisoned((m, n), BF16), poisoned((2, m, n)), None]
    tensors[-1] = counters(-(-m // tile_m) * -(-n // 64))
    return lambda: gemm_split_k.gemm_split_k, tensors, {"splits": 2, "num_stages": 2, **settings}


def of_stream(m: int, n: int, k: int, blocks: int) -> Case:
    tiles = -(-m // 128) * -(-n // 64)
    tensors = [
        ((m, k), BF16),
        ((n, k), BF16),
        poisoned((m, n), BF16),
        poisoned((tiles + blocks, 128, 64)),
        counters(tiles),
    ]
    return lambda: gemm_stream_k.gemm_stream_k, tensors, {"blocks": blocks, **SMALL, **TALL}


def of_fp8(scales: str, m: int = 136, n: int = 72, k: int = 400, **settings: Any) -> Case:
    """Scales of the tensor, by row or by block; persistent, two blocks."""
    blocks = -(-k // 128)
    shapes = {"tensor": ((1,), (1,)), "row": ((m,), (n,)), "block": ((blocks, m), (-(-n // 128), blocks))}[scales]
    kernel = gemm_fp8.gemm_fp8_blocks if scales == "block" else gemm_fp8.gemm_fp8
    settings |= {"per_row": True} if scales == "row" else {}
    tensors = [((m, k), FP8), ((n, k), FP8), *((shape, F32) for shape in shapes), ((m, n), BF16)]
    return lambda: kernel, tensors, {"blocks": 2, **SMALL, **settings}


def of_epilogue(name: str, m: int = 136, n: int = 72, k: int = 104, **tiles: Any) -> Case:
    c = {
        "linear": [((n,), F32), ((m, n), BF16)],
        "residual": [((m, n), BF16), ((m, n), BF16)],
        "quantized": [((1,), F32), poisoned((m, n), FP8), np.zeros(m, F32), np.zeros(1, F32)],
        "gated": [((n, k), BF16), ((m, n), BF16)],
    }[name]
    tiles = {"m": 64, "n": 64, "k": 32, "stages": 2, "threads": 128, "blocks": 2, **tiles}
    return lambda: getattr(gemm_epilogues, name), [((m, k), BF16), ((n, k), BF16), *c], {"tiles": Tiles(**tiles)}


def of_persistent(m: int, n: int, k: int, transpose_B: bool = True, **settings: Any) -> Case:
    tensors = [((m, k), BF16), ((n, k) if transpose_B else (k, n), BF16), ((m, n), BF16)]
    tiles = {"blocks": 2, "block_K": 64, **SMALL, **settings}
    return lambda: gemm_persistent.make_gemm_persistent(transpose_B), tensors, tiles


GROUPED = {"block_K": 64, **SMALL}
FORMS: dict[str, Case] = {
    "gemm_split_k": of_split_k(136, 64, **TALL),
    "gemm_split_k, shared": of_split_k(128, 64, share=True, **TALL),
    "gemm_split_k, swapped": of_split_k(24, 64, swap=True, block_M=32),
    "gemm_stream_k": of_stream(264, 136, 168, 2),
    "gemm_grouped, contiguous": (
        lambda: gemm_grouped.gemm_contiguous,
        [
            ((192, 264), BF16),
            ((2, 72, 264), BF16),
            poisoned((192, 72), BF16),
            np.repeat(np.array([1, -1, 0], np.int32), 64),
        ],
        GROUPED,
    ),
    "gemm_grouped, masked": (
        lambda: gemm_grouped.gemm_masked,
        [((2, 64, 264), BF16), ((2, 72, 264), BF16), poisoned((2, 64, 72), BF16), np.array([0, 40], np.int32)],
        GROUPED,
    ),
    "gemm_fp8": of_fp8("tensor"),
    "gemm_fp8, by row": of_fp8("row"),
    "gemm_fp8, promoted": of_fp8("tensor", promote=True),
    "gemm_fp8, by row, promoted, overlapped": of_fp8("row", k=656, promote=True, overlap=True),
    "gemm_fp8, by block": of_fp8("block"),
    "gemm_fp8, by block, overlapped": of_fp8("block", k=656, overlap=True),
    "gemm_fp8, by block, no TMA": of_fp8("block", m=137),
    "gemm_epilogues, linear": of_epilogue("linear"),
    "gemm_epilogues, residual": of_epilogue("residual"),
    "gemm_epilogues, quantized": of_epilogue("quantized"),
    "gemm_epilogues, gated": of_epilogue("gated"),
    "gemm_persistent, NN": of_persistent(136, 136, 168, transpose_B=False, teams=1),
}
TEAMS = {"threads": 256, "teams": 2}
HOPPER: dict[str, Case] = {  # teams and clusters are of sm_90a only
    "gemm_split_k, shared, clusters": of_split_k(128, 128, share=True, cluster=2, **TALL),
    "gemm_swapped, clusters": (
        lambda: gemm_swapped.gemm_swapped,
        [((24, 328), BF16), ((128, 328), BF16), ((24, 128), BF16)],
        {"cluster": 2, "num_stages": 2},
    ),
    "gemm_fp8, teams": of_fp8("tensor", n=200, **TEAMS),
    "gemm_fp8, by row, promoted, teams": of_fp8("row", n=200, promote=True, **TEAMS),
    "gemm_fp8, by block, teams": of_fp8("block", n=200, **TEAMS),
    "gemm_epilogues, linear, teams": of_epilogue("linear", n=200, **TEAMS),
    "gemm_epilogues, residual, as many steps as stages": of_epilogue("residual", k=56),
    "gemm_epilogues, residual, teams": of_epilogue("residual", n=200, k=56, **TEAMS),
    "gemm_epilogues, quantized, teams": of_epilogue("quantized", n=200, **TEAMS),
    "gemm_persistent, teams": of_persistent(136, 200, 168, **TEAMS),
    "gemm_persistent, clusters": of_persistent(256, 136, 168, cluster=2, teams=1),
    "gemm_persistent, teams, clusters": of_persistent(256, 200, 168, cluster=2, **TEAMS),
}


def everywhere() -> list[tuple[str, str]]:
    """(form, target): Hopper has all forms, and what is before it all but teams and clusters; fp8 begins with sm_89."""
    before = [(name, "sm_89" if "fp8" in name else "sm_80") for name in FORMS]
    return [(name, "sm_90a") for name in (*FORMS, *HOPPER)] + before
