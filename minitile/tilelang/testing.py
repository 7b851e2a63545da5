"""`tilelang.testing`: marks of tests, and `main()`, which runs the tests of the calling file."""

from __future__ import annotations

import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitile.tilelang.mode import MODE

Function = Callable[..., Any]


def requires_cuda(function: Function) -> Function:
    """The function itself: kernels run in the simulator where there is no GPU."""
    return function


requires_gpu = requires_llvm = requires_rocm = requires_metal = requires_cuda


def _requires(*_: Any, **__: Any) -> Callable[[Function], Function]:
    return lambda function: function


requires_cuda_compute_version = requires_cuda_compute_version_eq = _requires
requires_cuda_compute_version_ge = requires_cuda_compute_version_gt = requires_package = _requires
requires_cuda_compute_version_le = requires_cuda_compute_version_lt = _requires


def set_random_seed(seed: int = 42) -> None:
    """Of random, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def main() -> None:
    """Runs the functions test_… of the calling file, each with every set of its parameters (pytest's marks)."""
    names = sys._getframe(1).f_globals
    for name, function in list(names.items()):
        if name.startswith("test_") and callable(function):
            for given in parameter_sets(function):
                function(**given)


def parameter_sets(function: Function) -> Iterator[dict[str, Any]]:
    """The arguments of each test that pytest would make of a function."""
    marks = [m for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
    choices = []
    for mark in marks:
        names, values = mark.args[0], mark.args[1]
        listed = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        choices.append([dict(zip(listed, _several(v, len(listed)), strict=False)) for v in values])
    for picked in itertools.product(*choices):
        given = {n: v for each in picked for n, v in each.items()}
        if all(n in given for n in needed(function)):
            yield given


def needed(function: Function) -> list[str]:
    """The parameters that a call must pass."""
    return [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]


def _several(value: Any, count: int) -> Any:
    values = getattr(value, "values", value)  # of pytest.param
    values = values if not callable(values) else value
    return values if count > 1 or hasattr(value, "marks") else (values,)


def process_func(function: Function, name: str = "", *args: Any, **named: Any) -> Any:
    """Times a function of TileLang's regression tests: runs it."""
    return function(*args, **named)


def regression(*_: Any, **__: Any) -> None:
    """Runs the functions regression_… of the calling file."""
    names = sys._getframe(1).f_globals
    for name, function in list(names.items()):
        if name.startswith("regression_") and callable(function):
            function()


def torch_assert_close(
    have: Any, want: Any, rtol: float = 1e-2, atol: float = 1e-2, max_mismatched_ratio: float = 0.001, **_: Any
) -> bool:
    """Raises AssertionError where more than that share of the elements differs."""
    from minitile.tilelang.profiler import compare

    if not MODE.compile_only:
        compare(have, want, atol, rtol, max_mismatched_ratio)
    return True
