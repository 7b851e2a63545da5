"""README.md: short, its numbers those of benchmarks/results, its links whole. test_pages.py runs its code."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
WORDS = " ".join(TEXT.split())


def results(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def plots():
    spec = importlib.util.spec_from_file_location("plots", ROOT / "docs" / "plots.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_it_is_short():
    assert TEXT.count("\n") <= 150
    tour = TEXT[TEXT.index("## A tour") : TEXT.index("## What runs where")]
    assert re.search(r"^```python\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL).group(1).count("\n") <= 40


def test_links_and_commands():
    for target in re.findall(r"\]\(([^)#]+)\)|(?:src|srcset)=\"([^\"]+)\"", TEXT):
        name = "".join(target)
        assert name.startswith("http") or (ROOT / name).exists(), name
    targets = re.findall(r"^    make (\w+)", TEXT, re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_results(plots):
    assert plots.table() in TEXT, "run: PYTHONPATH=docs python -c 'import plots; print(plots.table())'"
    assert len(plots.FEATURED) <= 10
    for featured in plots.FEATURED:
        assert results(featured.result)["machine"]["date"].startswith("2026-11-22")
        assert results(featured.result)["machine"]["gpu"] == "NVIDIA H200"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_is_drawn_from_the_results(plots, theme):
    drawn = (ROOT / "docs" / "images" / f"speed-{theme}.svg").read_text(encoding="utf-8")
    assert plots.featured_digest() in drawn, "run: python docs/plots.py"


def test_the_seconds_and_microseconds_are_those_of_the_results():
    second: dict[str, float] = {}
    for row in results("gemm_h200")["compiles"]:  # two of each; the first one starts things up
        second[row["contender"]] = row["seconds"]
    said = f"nothing cached | {second['minitile']:.2f} s | {second['tilelang']:.2f} s | {second['triton']:.2f} s |"
    assert said in WORDS
    times = {name: each["median"] for name, each in results("launch_h200")["microseconds"].items()}
    assert f"| {times['minitile, plain call']:.1f} µs | | {times['triton 3.6.0']:.1f} µs |" in WORDS
