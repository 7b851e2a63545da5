"""The examples import each other as scripts do, from their own folder; what uses `target` runs once for each target."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(FOLDER), str(Path(__file__).parent)]

from targets import AMD, TARGETS  # noqa: E402 - found only now


@pytest.fixture(scope="module", params=TARGETS)
def target(request):
    """What "auto" means. The examples are loaded anew, because a kernel keeps what it has compiled."""
    if request.param in AMD:
        pytest.importorskip("llvmlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITILE_TARGET", request.param)
        for name in sorted((path.stem for path in FOLDER.glob("*.py")), key=lambda name: name == "demo"):
            importlib.reload(importlib.import_module(name))
        yield request.param
