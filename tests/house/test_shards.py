"""`pytest --shard --resume`: each test in one part, the same each time; what has passed is left out until a file or a
version changes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import shards

ROOT = Path(__file__).parents[2]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.shards import Shards, add_options as pytest_addoption
def pytest_configure(config):
    config.pluginmanager.register(Shards(config), "shards")
"""
TESTS = """
import pytest, pathlib
@pytest.mark.parametrize("n", range(7))
def test_all(n):
    assert n != 3 or pathlib.Path("mended").exists()
@pytest.mark.skip
def test_skipped():
    pass
@pytest.fixture
def left():
    yield
    assert pathlib.Path("mended").exists()
def test_teardown(left):
    pass
"""


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_test_is_in_one_part(count):
    names = [f"tests/a{file}.py::test[{n}]" for file in range(5) for n in range(file * 3 + 1)]
    parts = [shards.part_of(names, index, count) for index in range(1, count + 1)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert parts == [shards.part_of(names, index, count) for index in range(1, count + 1)]
    for part in parts:  # each file's tests are spread evenly
        for file in range(5):
            mine, all_ = (sum(name.startswith(f"tests/a{file}.py") for name in some) for some in (part, names))
            assert mine in (all_ // count, -(-all_ // count))


@pytest.fixture
def run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)

    def call(*options):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--record", "passed", *options]
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", found.stdout)}
        return found.returncode, counts

    return call


@pytest.mark.slow
def test_what_has_passed_is_left_out(run, tmp_path):
    assert run("--resume") == (1, {"failed": 1, "passed": 7, "skipped": 1, "error": 1})
    assert len((tmp_path / "passed").read_text().splitlines()) == 6
    assert run("--resume") == (1, {"failed": 1, "passed": 1, "skipped": 1, "error": 1})
    (tmp_path / "mended").touch()
    assert run("--resume") == (0, {"passed": 2, "skipped": 1})
    assert run("--resume", "--deselect", "test_some.py::test_skipped") == (0, {}), "nothing is left"
    assert run() == (0, {"passed": 8, "skipped": 1})


@pytest.mark.slow
def test_parts_and_workers(run, tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "mended").touch()
    assert run("--resume", "--shard=1/2", "-n", "1")[0] == 0
    first = set((tmp_path / "passed").read_text().splitlines())
    assert run("--resume", "--shard=2/2", "-n", "1")[0] == 0
    both = (tmp_path / "passed").read_text().splitlines()
    assert 3 <= len(first) <= 5
    assert len(both) == len(set(both)) == 8
    assert run("--resume", "-n", "1") == (0, {"skipped": 1})


MARKED = [pytest.param(text, marks=pytest.mark.slow) for text in ("0/2", "2", "1/0", "-1/2")]


@pytest.mark.parametrize("text", ["3/2", "a/b", *MARKED])
def test_a_part_that_is_none(run, text):
    assert run(f"--shard={text}")[0] == pytest.ExitCode.USAGE_ERROR


def test_the_hash_is_of_the_sources(monkeypatch):
    before = shards.tree_hash()
    assert before == shards.tree_hash()
    monkeypatch.setattr(shards, "_version", lambda name: "0")
    versions = shards.tree_hash()
    monkeypatch.setenv("MINITILE_STRICT", "2")
    assert len({before, versions, shards.tree_hash()}) == 3


def test_the_hash_changes_with_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(shards, "ROOT", tmp_path)
    (tmp_path / "minitile").mkdir()
    (tmp_path / "minitile" / "a.py").write_text("1")
    seen = {shards.tree_hash()}
    (tmp_path / "minitile" / "a.py").write_text("2")
    seen.add(shards.tree_hash())
    (tmp_path / "minitile" / "b.py").write_text("")
    seen.add(shards.tree_hash())
    assert len(seen) == 3
