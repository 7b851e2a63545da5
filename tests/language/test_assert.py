"""T.device_assert: its message is in the error, on every target; findings of one cause are told of once."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@mt.kernel
def checked(A: T.Tensor((64,), T.int32), limit: T.int32):
    with T.Kernel(1, threads=64):
        T.device_assert(A[0] >= 0, "the first is negative")
        for i in T.Parallel(64):
            T.device_assert(A[i] < limit, "one is beyond the limit")
        T.device_assert(A[1] != 7)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("index", "value", "text"),
    [
        (0, -1, "trap: T.device_assert failed: the first is negative"),
        (63, 100, "trap: T.device_assert failed: one is beyond the limit"),
        (1, 7, "T.device_assert(A[1] != 7)"),
    ],
)
def test_the_message(target, index, value, text):
    a = np.zeros(64, np.int32)
    kernel = checked.compile(target=target)
    kernel.simulate(a, 100)
    a[index] = value
    with pytest.raises(mt.SimulationError) as caught:
        kernel.simulate(a, 100)
    assert text in str(caught.value)
    assert "T.device_assert(A[" in caught.value.loc.excerpt()


@mt.kernel
def races(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1, threads=128):
        S = T.alloc_shared((64, 64), T.float32)
        T.copy(A, S)
        for i, j in T.Parallel(64, 64):
            B[j, i] = S[i, j]


def test_one_cause_is_told_of_once():
    """The barrier taken away: each of the unrolled accesses is a finding."""
    a = np.ones((64, 64), np.float32)
    kernel = races.compile(target="sm_80")
    text = kernel.text.replace("bar.sync", "// bar.sync")
    from minitile.runtime.sim import RaceError, run_ptx

    info = kernel.launch_info
    report = run_ptx(text, info.entry, (1,), info.block, [a, a * 0], dynamic_shared=info.dynamic_shared)
    with pytest.raises(RaceError) as caught:
        report.raise_if_findings()
    assert len(report.findings) > 8
    shown = str(caught.value)
    causes = {finding.cause for finding in report.findings}
    assert len(causes) < len(report.findings) // 2
    assert len(shown.splitlines()) <= 6 * min(len(causes), 4) + 1
    assert "more of this kind, from line " in shown
