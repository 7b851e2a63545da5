"""A fixture that says which target the calls of kernels have: "auto", in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest


def auto_target(*targets: str, scope: Literal["function", "module"] = "function") -> Callable[..., Any]:
    """A fixture that tests get once for each of these targets; AMD's where there is an LLVM."""

    @pytest.fixture(params=targets, scope=scope)
    def target(request: pytest.FixtureRequest) -> Iterator[str]:
        if request.param.startswith("gfx"):
            pytest.importorskip("llvmlite")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MINITILE_TARGET", request.param)
            yield request.param

    return target
