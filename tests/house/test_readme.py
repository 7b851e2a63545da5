"""What README.md shows is so: its Python blocks run as one program and print what stands below, its commands work."""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder that looks like a checkout to the commands, so that nothing lands in ours."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "minitile", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def execute(words, folder, settings=()):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINITILE_CACHE_DIR": str(folder / "cache"), **dict(settings)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_python_blocks(tmp_path):
    file = tmp_path / "readme.py"
    file.write_text("".join(blocks("python")), encoding="utf-8")
    done = execute([str(file)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks("text"))


def test_the_commands(checkout):
    """In the order of the page, since some read what others write."""
    assert len(COMMANDS) >= 10
    for command in COMMANDS:
        words = shlex.split(command)
        settings = []
        while "=" in words[0]:
            settings.append(tuple(words.pop(0).split("=", 1)))
        assert words[0] == "minitile", command
        done = execute(["-m", *words], checkout, settings)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert bool(settings) == ("after infer_layouts" in done.stderr), command


def test_links():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("http") or (ROOT / target).exists(), target
    assert "make demo" in TEXT
    for target in re.findall(r"^    make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_kernel_on_the_first_screen():
    assert TEXT.index("@mt.kernel") < TEXT.index("make demo") < TEXT.index("What ran where") < TEXT.index("\n## ")
    assert TEXT[: TEXT.index("\n## ")].count("\n") < 60


def test_the_speeds_are_those_of_the_results():
    (ours,) = (row for row in results("gemm_sm80")["rows"] if row["contender"] == "minitile")
    said = (
        f"{ours['of']['cublas']:.2f} of the speed of cuBLAS (which uses wgmma), {ours['of']['tilelang']:.2f} of "
        f"TileLang's and {ours['of']['triton']:.2f} of Triton's"
    )
    assert said in " ".join(TEXT.split())


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


def test_the_speeds_on_hopper_are_those_of_the_results():
    said = " ".join(TEXT.split())
    large, _ = by_height("gemm_h200")
    stay, thin = by_height("gemm_persistent_h200")
    assert (
        f"{span(large, 'minitile', 'cublas')} of the speed of cuBLAS and {span(large, 'minitile', 'tilelang')} of "
        f"TileLang's; with blocks that stay, most with two teams, {span(stay, 'persistent', 'cublas')} of cuBLAS; of "
        f"64 and 128 rows, {span(thin, 'minitile', 'cublas')}, with operands that change places "
        f"{span(thin, 'swapped', 'cublas')}, with K over the blocks of a cluster {span(thin, 'cluster_k', 'cublas')}."
    ) in said
    rows = [row for row in results("matmul_h200")["rows"] if row["contender"] == "minitile"]
    ratios = [row["of"]["cublas"] for row in rows]
    assert (
        f"on {len(rows)} random problems: {statistics.geometric_mean(ratios):.2f} of cuBLAS as the geometric mean, "
        f"{min(ratios):.2f} at worst, and {statistics.geometric_mean([row['of']['tuned'] for row in rows]):.2f} of the "
        "fastest of all its plans."
    ) in said
    rows = results("gemm_grouped_h200")["rows"]
    behind, masked = ([row for row in rows if row["case"].startswith(form)] for form in ("rows:", "masked:"))
    assert (
        f"Groups (mixture of experts): {span(behind, 'minitile', 'cublas')} of a loop over cuBLAS, masked "
        f"{span(masked, 'minitile', 'cublas')}."
    ) in said
    rows = results("gemm_fp8_h200")["rows"]
    fast, exact, by_rows, by_blocks = (
        span([row for row in rows if row["case"].startswith(form)], "minitile", "cublas")
        for form in ("fast", "exact", "rows", "blocks")
    )
    assert (
        f"fp8: {fast} with fast sums, {exact} with exact ones, {by_rows} with scales of rows, {by_blocks} with scales "
        "of blocks."
    ) in said
    rows = results("attention_h200")["rows"]
    wide, narrow = ([row for row in rows if row["case"].split()[0].endswith(f"x{d}")] for d in (128, 64))
    assert (
        f"for heads of 128, {span(wide, 'minitile', 'cudnn')} of cuDNN and {span(wide, 'minitile', 'tilelang')} of "
        f"TileLang; for heads of 64, {span(narrow, 'minitile', 'cudnn')} and {span(narrow, 'minitile', 'tilelang')}."
    ) in said
