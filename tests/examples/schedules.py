"""Under which schedules of the simulator the tests' `check` functions run a kernel: all three one after the other, or
in tests marked `each_schedule` the one of the case, so that of many sizes each has some schedule, and each schedule
some size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from targets import ON_GPU

SCHEDULES = ("lazy", "eager", "random")
_asked = SCHEDULES


def schedules() -> tuple[str, ...]:
    """Those that are to be run now."""
    return _asked


def set_schedules(names: tuple[str, ...]) -> None:
    """What `schedules` says from now on; the fixture `schedule` calls this."""
    global _asked
    _asked = names


def each_schedule(test: Callable[..., Any]) -> Callable[..., Any]:
    """A case of the test for each schedule; on a GPU, which has its own, one."""
    test = pytest.mark.parametrize("schedule", SCHEDULES[:1] if ON_GPU else SCHEDULES, indirect=True)(test)
    return pytest.mark.usefixtures("schedule")(test)
