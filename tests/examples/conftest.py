"""The examples import each other as scripts do, from their own folder; what uses `target` runs once for each target.

In the simulator these are sm_80 and sm_90a; on a GPU sm_80 and the GPU's own one.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(FOLDER), str(Path(__file__).parent)]
TARGETS = ("sm_80", "auto") if os.environ.get("MINITILE_GPU") == "1" else ("sm_80", "sm_90a")


@pytest.fixture(scope="module", params=TARGETS)
def target(request):
    """What "auto" means. The examples are loaded anew, because a kernel keeps what it has compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITILE_TARGET", request.param)
        for name in sorted((path.stem for path in FOLDER.glob("*.py")), key=lambda name: name == "demo"):
            importlib.reload(importlib.import_module(name))
        yield request.param
