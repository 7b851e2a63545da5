"""docs/reference/environment.md: every MINITILE_… variable that the code reads, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
NAME = re.compile(r"\bMINITILE_[A-Z_]*[A-Z]\b")
OF_THE_TESTS = {"MINITILE_GPU"}  # read by tests/conftest.py, not by the package


def listed() -> set[str]:
    return set(re.findall(r"^\| `(MINITILE_\w+)` \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE))


def read_by(folder: str) -> set[str]:
    files = [p for p in (ROOT / folder).rglob("*.py") if not any(q.is_symlink() for q in p.parents)]
    assert files
    return {name for path in files for name in NAME.findall(path.read_text(encoding="utf-8"))}


def test_the_table_is_whole():
    found = read_by("minitile") | read_by("backends") | read_by("runtime")
    assert found | OF_THE_TESTS == listed()
    assert read_by("tests") | read_by("benchmarks") | read_by("examples") >= OF_THE_TESTS


def test_other_pages_name_no_others():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert set(NAME.findall(page.read_text(encoding="utf-8"))) <= listed(), page
