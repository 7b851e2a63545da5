"""Every case of cases.py and warp_cases.py: the simulator agrees with NumPy, and the text assembles."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tests.sim.ptx.cases import CASES, Case
from tests.sim.ptx.gpu import Driver
from tests.sim.ptx.harness import assemble, kernel, output_dtype, simulate
from tests.sim.ptx.warp_cases import WARP_CASES

ALL_CASES = [*CASES, *WARP_CASES]


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def agrees(case: Case, kind: str, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where the two are the same bits, both NaN, or as near as the instruction promises."""
    same = _bits(got) == _bits(want)
    if kind in ("f16", "f32", "f64"):
        same |= np.isnan(got) & np.isnan(want)
        if "zero sign" in case.tags:
            same |= got == want
        if case.ulp or case.absolute:
            unit = np.spacing(np.maximum(np.abs(want), np.float32(2.0**-126)))
            with np.errstate(invalid="ignore"):
                same |= np.abs(got.astype("f8") - want.astype("f8")) <= np.maximum(case.ulp * unit, case.absolute)
    if "nan bits" in case.tags and not same.all():
        same |= _nan_alike(kind, case, got, want)
    return same


def _nan_alike(kind: str, case: Case, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Packed or raw results: equal element by element, a NaN matching any NaN."""
    unit, exponent = (
        ("u1", 0x7F) if "x2.f32" in case.name and "8" not in kind and got.dtype.itemsize == 2 else ("u2", 0)
    )
    a, b = _bits(got).view(unit), _bits(want).view(unit)
    if "tf32" in case.name:
        a, b, exponent = _bits(got), _bits(want), 0x7F800000
    elif unit == "u2":
        exponent = 0x7F80 if "bf16" in case.name else 0x7C00
    else:
        exponent = 0x7C if "e5m2" in case.name else 0x7E
    nan = ((a & exponent) == exponent) & ((b & exponent) == exponent) & ((a & (2 * exponent & ~exponent | 1)) != 0)
    ok = (a == b) | nan
    if "zero sign" in case.tags:
        ok |= ((a | b) & a.dtype.type(2 ** (8 * a.dtype.itemsize - 1) - 1)) == 0
    return ok.reshape(len(got), -1).all(axis=1)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_instruction(case: Case) -> None:
    results, report = simulate(case.body, case.inputs, case.outputs, case.target)
    assert not report.findings
    with np.errstate(all="ignore"):
        expected = case.expected(*case.inputs.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    for (name, kind), want in zip(case.outputs.items(), expected, strict=True):
        got = results[name]
        ok = agrees(case, kind, got, np.asarray(want).astype(output_dtype(kind)))
        if not ok.all():
            at = int(np.flatnonzero(~ok)[0])
            inputs = {key: value[at] for key, value in case.inputs.items()}
            pytest.fail(f"{name} at {at}: got {got[at]!r}, expected {want[at]!r} from {inputs} ({(~ok).sum()} differ)")


@pytest.mark.gpu
@pytest.mark.skipif(os.environ.get("MINITILE_GPU") != "1", reason="needs a GPU (MINITILE_GPU=1)")
def test_gpu_agrees() -> None:
    """The hardware computes what the cases say: bit for bit, or within the ISA's bounds for approximations."""
    driver = Driver()
    problems = []
    for case in ALL_CASES:
        count = len(next(iter(case.inputs.values())))
        results = {name: np.zeros(count, output_dtype(kind)) for name, kind in case.outputs.items()}
        text = kernel(case.body, case.inputs, case.outputs, case.target)
        driver.run(text, "k", (count // 128,), (128,), [*case.inputs.values(), *results.values()])
        simulated, _ = simulate(case.body, case.inputs, case.outputs, case.target)
        for name, kind in case.outputs.items():
            if not agrees(case, kind, results[name], simulated[name]).all():
                problems.append(case.name)
    assert not problems


def test_cases_assemble() -> None:
    problems = []
    for case in ALL_CASES:
        problem = assemble(kernel(case.body, case.inputs, case.outputs, case.target), case.target)
        if problem:
            problems.append(f"{case.name}: {problem}")
    assert not problems, "\n".join(problems)
