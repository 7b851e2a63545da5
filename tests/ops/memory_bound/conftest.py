"""Of long sweeps over sizes and dtypes every fourth case runs each time; the others are slow. On a GPU all run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from examples.support import USE_GPU

LONG = 12  # cases of one test
KEPT = 4  # one of so many


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    names = [(item.path, getattr(item, "originalname", item.name)) for item in here]
    cases, seen = Counter(names), Counter[tuple[Path, str]]()
    for item, name in zip(here, names, strict=True):
        if cases[name] >= LONG and seen[name] % KEPT and not USE_GPU:
            item.add_marker(pytest.mark.slow)
        seen[name] += 1
