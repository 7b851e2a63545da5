"""Some benchmarks have the names of examples: for each test here its modules are loaded anew, the others put aside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def modules_of_benchmarks(monkeypatch):
    """They import each other as scripts do, from their own folder."""
    names = [path.stem for path in FOLDER.glob("*.py")]
    aside = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(aside)
