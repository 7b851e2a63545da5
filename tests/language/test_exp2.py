"""T.exp2 with a share of its elements by polynomial, against float64, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

COUNT, THREADS = 2048, 64
POLYNOMIAL, UNIT = 7.6e-5, 2.0**-21  # relative errors, of the special function unit at most


@mt.kernel
def powers(X: T.Tensor((COUNT,), T.float32), Y: T.Tensor((COUNT,), T.float32), share=0.0):
    with T.Kernel(1, threads=THREADS):
        for i in T.Parallel(COUNT):
            Y[i] = T.exp2(X[i], polynomial=share)


@pytest.fixture(params=("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950"))
def target(request, monkeypatch):
    if request.param.startswith("gfx"):
        pytest.importorskip("llvmlite")
    monkeypatch.setenv("MINITILE_TARGET", request.param)
    return request.param


def errors(x, y):
    wanted = np.exp2(x.astype(np.float64))
    return np.abs(y.astype(np.float64) - wanted) / wanted


@pytest.mark.parametrize("share", [0.0, 1 / 8, 1 / 3, 1.0])
def test_share_of_elements(share, target):
    """So many elements are off by the polynomial's error, the others by the unit's."""
    x = np.random.default_rng(1).uniform(-126, 126, COUNT).astype(np.float32)
    y = np.full(COUNT, np.nan, np.float32)
    powers(x, y, share=share)
    found = errors(x, y)
    assert found.max() <= (POLYNOMIAL if share else UNIT)
    rough = np.count_nonzero(found > UNIT) / COUNT
    assert share * 0.9 <= rough <= share + 0.001


def test_special_values(target):
    """-infinity and what is far below give 0, NaN gives NaN, whole numbers' powers are off by one factor."""
    x = np.zeros(COUNT, np.float32)
    special = [
        -np.inf,
        -3e38,
        -1e10,
        -1000.0,
        -151.0,
        -127.0,
        -126.6,
        np.nan,
        -0.0,
        1e-40,
        -1e-40,
        127.0,
        -126.0,
        -1e-20,
    ]
    x[: len(special)] = special
    y = np.full(COUNT, np.nan, np.float32)
    powers(x, y, share=1.0)
    assert not y[:7].any()
    assert np.isnan(y[7])
    assert errors(x[8:], y[8:]).max() <= POLYNOMIAL
    assert np.unique(y[len(special) :]).size == 1


def test_below_the_least_normal_number(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    x = np.linspace(-127.5, -126, COUNT).astype(np.float32)
    y = np.full(COUNT, np.nan, np.float32)
    powers(x, y, share=1.0)
    kept = x > -126.5
    assert not y[~kept].any()
    assert errors(x[kept], y[kept]).max() <= POLYNOMIAL


def test_a_share_is_a_number_of_compile_time():
    assert T.exp2(3, polynomial=0.5) == 8
    x = np.zeros(COUNT, np.float32)
    for share in (-0.1, 1.5, True, "all"):
        with pytest.raises(mt.MinitileError, match="polynomial is"):
            powers(x, x.copy(), share=share)
