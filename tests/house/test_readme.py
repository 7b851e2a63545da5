"""What README.md shows is so: its Python blocks run as one program and print what stands below, its commands work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

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
    results = json.loads((ROOT / "benchmarks" / "results" / "gemm_sm80.json").read_text(encoding="utf-8"))
    (ours,) = (row for row in results["rows"] if row["contender"] == "minitile")
    said = (
        f"{ours['of']['cublas']:.2f} of the speed of cuBLAS (which uses wgmma), {ours['of']['tilelang']:.2f} of "
        f"TileLang's and {ours['of']['triton']:.2f} of Triton's"
    )
    assert said in " ".join(TEXT.split())


def span(rows: list[dict], contender: str, of: str) -> str:
    """The least and the greatest ratio of a contender's speed to another's."""
    found = [row["of"][of] for row in rows if row["contender"] == contender and of in row["of"]]
    return f"{min(found):.2f}–{max(found):.2f}"


def test_the_speeds_on_hopper_are_those_of_the_results():
    said = " ".join(TEXT.split())
    rows = json.loads((ROOT / "benchmarks" / "results" / "gemm_h200.json").read_text(encoding="utf-8"))["rows"]
    large = [row for row in rows if int(row["case"].split()[1].split("x")[0]) >= 2048]
    small = [row for row in rows if row not in large]
    assert (
        f"{span(large, 'minitile', 'cublas')} of the speed of cuBLAS and {span(large, 'minitile', 'tilelang')} of "
        f"TileLang's; with blocks that stay, most with two teams, {span(large, 'persistent', 'cublas')} of cuBLAS; "
        f"of 64 and 128 rows, {span(small, 'minitile', 'cublas')}, with operands that change places "
        f"{span(small, 'swapped', 'cublas')}."
    ) in said
    rows = json.loads((ROOT / "benchmarks" / "results" / "gemm_fp8_h200.json").read_text(encoding="utf-8"))["rows"]
    fast, exact, by_rows, by_blocks = (
        span([row for row in rows if row["case"].startswith(form)], "minitile", "cublas")
        for form in ("fast", "exact", "rows", "blocks")
    )
    assert (
        f"fp8: {fast} with fast sums, {exact} with exact ones, {by_rows} with scales of rows, {by_blocks} with scales "
        "of blocks."
    ) in said
    rows = json.loads((ROOT / "benchmarks" / "results" / "attention_h200.json").read_text(encoding="utf-8"))["rows"]
    wide, narrow = ([row for row in rows if row["case"].split()[0].endswith(f"x{d}")] for d in (128, 64))
    assert (
        f"for heads of 128, {span(wide, 'minitile', 'cudnn')} of cuDNN and {span(wide, 'minitile', 'tilelang')} of "
        f"TileLang; for heads of 64, {span(narrow, 'minitile', 'cudnn')} and {span(narrow, 'minitile', 'tilelang')}."
    ) in said
