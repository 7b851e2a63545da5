"""The examples import each other as scripts do, from their own folder; what uses `target` runs once for each target."""

from __future__ import annotations

import importlib
import os
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import minitile as mt

FOLDER = Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(FOLDER), str(Path(__file__).parent)]

from schedules import SCHEDULES, set_schedules  # noqa: E402 - found only now
from targets import AMD, TARGETS  # noqa: E402

KEPT = 64
kept: OrderedDict = OrderedDict()  # compiled kernels


@pytest.fixture(scope="module", autouse=True)
def compiled_once():
    """`compile` with the same arguments as before gives the same compiled kernel: what tests vary most is the schedule
    of the simulator. (Kernels that are called keep what they have compiled by themselves.)"""
    compile = mt.Kernel.compile

    def again(kernel, *specs, **named):
        described = tuple((x.dtype, x.shape, x.strides) if isinstance(x, np.ndarray) else x for x in specs)
        settings = sorted(item for item in os.environ.items() if item[0].startswith("MINITILE_"))
        key = kernel, described, tuple(sorted(named.items())), tuple(settings)
        try:
            found = kept.pop(key, None)
        except TypeError:  # an argument that has no hash
            return compile(kernel, *specs, **named)
        kept[key] = found = found or compile(kernel, *specs, **named)
        if len(kept) > KEPT:
            kept.popitem(last=False)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mt.Kernel, "compile", again)
        yield


@pytest.fixture(scope="module", params=TARGETS)
def target(request):
    """What "auto" means. The examples are loaded anew, because a kernel keeps what has been on a GPU; from their own
    folder, whatever other tests have put in front of it: benchmarks have some of their names."""
    if request.param in AMD:
        pytest.importorskip("llvmlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITILE_TARGET", request.param)
        patch.syspath_prepend(str(FOLDER))
        for name in sorted((path.stem for path in FOLDER.glob("*.py")), key=lambda name: name == "demo"):
            importlib.reload(importlib.import_module(name))
        yield request.param


@pytest.fixture
def schedule(request):
    """The one schedule under which `check` runs what the test asks for (schedules.py)."""
    set_schedules((request.param,))
    yield request.param
    set_schedules(SCHEDULES)
