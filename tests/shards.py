"""`pytest --shard=2/3 --resume`: a part of the tests, without those that have passed on the same tree before.

The parts are the same each time: of each file's tests, every third goes into the same one. What has passed is noted in
`build/passed/HASH`, where HASH is of the contents of all sources and of the versions of what they run on: after any
change all tests run again. Several calls may note into one file at the same time. With xdist, the workers are told by
the process that started them, so that all choose alike.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("backends", "benchmarks/*.py", "docs/*.py", "docs/*.svg", "examples", "minitile", "runtime", "tests")
MORE = ("pyproject.toml",)  # no page of words: no slow test reads one
RUNS_ON = ("numpy", "ml_dtypes", "llvmlite", "hypothesis", "nvidia-nvjitlink", "pytest")


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("parts of the tests")
    group.addoption("--shard", metavar="I/N", help="part I of N of the tests, from 1/N to N/N")
    group.addoption("--resume", action="store_true", help="without tests that have passed on the same tree before")
    group.addoption("--record", metavar="FILE", help="where that is noted (default: build/passed/ and the tree's hash)")


class Shards:
    """The plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.part = _part(config.getoption("--shard"))
        self.worker = getattr(config, "workerinput", None)
        self.path: Path | None = None
        self.passed: frozenset[str] = frozenset()
        self.good: dict[str, bool] = {}
        self.left_out = 0
        if self.worker is not None:
            self.passed = frozenset(self.worker.get("passed", ()))
        elif config.getoption("--resume"):
            self.path = Path(config.getoption("--record") or ROOT / "build" / "passed" / tree_hash())
            self.passed = frozenset(self.path.read_text().splitlines() if self.path.exists() else ())

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker of xdist starts."""
        node.workerinput["passed"] = sorted(self.passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        index, count = self.part
        mine = set(part_of([item.nodeid for item in items], index, count))
        chosen = [item for item in items if item.nodeid in mine and item.nodeid not in self.passed]
        kept = set(map(id, chosen))
        left = [item for item in items if id(item) not in kept]
        self.left_out = len(mine) - len(chosen)
        items[:] = chosen
        if left:
            self.config.hook.pytest_deselected(items=left)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.path is None:
            return
        self.good[report.nodeid] = self.good.get(report.nodeid, True) and report.passed
        if report.when == "teardown" and self.good.pop(report.nodeid):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(f"{report.nodeid}\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # Nothing left to do is no error.
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.passed:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_report_header(self) -> list[str]:
        index, count = self.part
        header = [f"shard {index}/{count}"] if count > 1 else []
        return [*header, f"{len(self.passed)} tests passed before, by {self.path}"] if self.path else header


def part_of(names: Iterable[str], index: int, count: int) -> list[str]:
    """Part `index` (from 1) of `count`: of each file's tests, in their order, every `count`-th."""
    seen: dict[str, int] = {}
    chosen = []
    for name in names:
        file = name.partition("::")[0]
        number = seen[file] = seen.get(file, -1) + 1
        # Files of one test each are spread as well.
        if (number + sum(file.encode())) % count == index - 1:
            chosen.append(name)
    return chosen


def tree_hash() -> str:
    """Of the contents of all that tests depend on: the files that git knows or would take in, and versions."""
    named = ["git", "ls-files", "-co", "--exclude-standard", "-z", "--", *SOURCES, *MORE]
    found = subprocess.run(named, cwd=ROOT, capture_output=True, check=False)
    if found.returncode == 0:
        files = [ROOT / os.fsdecode(name) for name in found.stdout.split(b"\0") if name]
    else:  # no checkout
        files = [path for name in (*SOURCES, *MORE) for top in ROOT.glob(name) for path in (top, *top.rglob("*"))]
        files = [path for path in files if "__pycache__" not in path.parts]
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        if path.is_file():
            digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    digest.update("\n".join([platform.python_version(), platform.machine(), *map(_version, RUNS_ON)]).encode())
    for name, value in sorted(os.environ.items()):
        if name.startswith("MINITILE_") and name != "MINITILE_CACHE_DIR":
            digest.update(f"{name}={value}\0".encode())
    return digest.hexdigest()[:20]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _part(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise pytest.UsageError(f"--shard={text}: write I/N, from 1/N to N/N")
    return int(index), int(count)
