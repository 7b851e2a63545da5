"""docs/benchmarks.md says the numbers of benchmarks/results."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SAID = " ".join((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").split())


def results(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def by_height(name: str) -> tuple[list[Any], list[Any]]:
    """The rows of a result for products of at least 2048 rows, and the others."""
    rows = results(name)["rows"]
    large = [row for row in rows if int(row["case"].split()[1].split("x")[0]) >= 2048]
    return large, [row for row in rows if row not in large]


def span(rows: list[dict], contender: str, of: str) -> str:
    """The least and the greatest ratio of a contender's speed to another's."""
    found = [row["of"][of] for row in rows if row["contender"] == contender and of in row["of"]]
    return f"{min(found):.2f}–{max(found):.2f}"


def test_sm80():
    (ours,) = (row for row in results("gemm_sm80")["rows"] if row["contender"] == "minitile")
    assert (
        f"{ours['of']['cublas']:.2f} of the speed of cuBLAS (which uses wgmma), {ours['of']['triton']:.2f} of "
        f"Triton's and {ours['of']['tilelang']:.2f} of TileLang's"
    ) in SAID


def test_gemm():
    large, _ = by_height("gemm_h200")
    stay, thin = by_height("gemm_persistent_h200")
    assert (
        f"{span(large, 'minitile', 'cublas')} of the speed of cuBLAS and {span(large, 'minitile', 'tilelang')} of "
        "TileLang's; persistent kernels, most with ping-pong consumer warpgroups, "
        f"{span(stay, 'persistent', 'cublas')} of cuBLAS. 64 and 128 rows: {span(thin, 'minitile', 'cublas')}; with "
        f"swapped A/B {span(thin, 'swapped', 'cublas')}; with cluster split-K through distributed shared memory "
        f"{span(thin, 'cluster_k', 'cublas')}."
    ) in SAID


def test_matmul():
    for name in ("matmul_h200", "matmul_second_h200"):
        rows = [row for row in results(name)["rows"] if row["contender"] == "minitile"]
        ratios = [row["of"]["cublas"] for row in rows]
        assert (
            f"{len(rows)} random problems: {statistics.geometric_mean(ratios):.2f} of cuBLAS as the geometric mean, "
            f"{min(ratios):.2f} at worst, and {statistics.geometric_mean([row['of']['tuned'] for row in rows]):.2f} of "
            "the fastest of all its plans"
        ) in SAID, name


def test_grouped():
    rows = results("gemm_grouped_h200")["rows"]
    behind, masked = ([row for row in rows if row["case"].startswith(form)] for form in ("rows:", "masked:"))
    assert (
        f"Contiguous groups: {span(behind, 'minitile', 'cublas')} of a loop over cuBLAS; masked "
        f"{span(masked, 'minitile', 'cublas')}."
    ) in SAID


def test_fp8():
    rows = results("gemm_fp8_h200")["rows"]
    fast, exact, by_rows, by_blocks = (
        span([row for row in rows if row["case"].startswith(form)], "minitile", "cublas")
        for form in ("fast", "exact", "rows", "blocks")
    )
    assert (
        f"{fast} with fast accumulation, {exact} with f32 (promoted) accumulation, {by_rows} with scales of rows, "
        f"{by_blocks} with scales of blocks."
    ) in SAID


def test_attention():
    rows = results("attention_h200")["rows"]
    wide, narrow = ([row for row in rows if row["case"].split()[0].endswith(f"x{d}")] for d in (128, 64))
    assert (
        f"Heads of 128: {span(wide, 'minitile', 'cudnn')} of cuDNN and {span(wide, 'minitile', 'tilelang')} of "
        f"TileLang. Heads of 64: {span(narrow, 'minitile', 'cudnn')} and {span(narrow, 'minitile', 'tilelang')}."
    ) in SAID
