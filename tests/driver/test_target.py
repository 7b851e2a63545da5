"""Targets: names, what a device is given, the words for an unknown one."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile import target
from minitile.backends.nvidia.targets import target_for
from minitile.ir.diagnostics import TargetError
from minitile.runtime import cuda
from minitile.target import TARGETS, parse_target


@pytest.mark.parametrize("name", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "gfx942", "gfx950"])
def test_known_names(name):
    found = parse_target(name)
    assert found.name == str(found) == found.arch == name
    assert parse_target(found) is found


def test_unknown_names():
    with pytest.raises(TargetError, match=r"unknown target 'sm_70'\n  hint: known targets: auto, sm_80, sm_89, sm_90a"):
        parse_target("sm_70")


@pytest.mark.parametrize(
    ("capability", "limit", "lowering", "arch"),
    [
        ((8, 0), 166912, "sm_80", "sm_80"),
        ((8, 6), 101376, "sm_80", "sm_86"),
        ((8, 9), 101376, "sm_89", "sm_89"),
        ((9, 0), 232448, "sm_90a", "sm_90a"),
        ((10, 0), 232448, "sm_100a", "sm_100a"),
        ((10, 3), 232448, "sm_103a", "sm_103a"),
        ((12, 0), 101376, "sm_89", "sm_120"),
    ],
)
def test_a_devices_target(capability, limit, lowering, arch):
    found = target_for(capability, limit)
    assert (found.lowering, found.arch, found.max_shared) == (lowering, arch, limit)


def test_too_old_a_device():
    with pytest.raises(TargetError, match="this GPU is sm_75"):
        target_for((7, 5), 65536)


def test_auto(monkeypatch):
    monkeypatch.delenv("MINITILE_TARGET", raising=False)
    monkeypatch.setattr(cuda, "current_device_info", lambda: None)
    assert parse_target("auto") is target.DEFAULT
    monkeypatch.setattr(cuda, "current_device_info", lambda: cuda.DeviceInfo(0, "x", (8, 0), 166912, 108))
    assert parse_target("auto").arch == "sm_80"


def test_auto_by_the_environment(monkeypatch):
    monkeypatch.setattr(cuda, "current_device_info", lambda: cuda.DeviceInfo(0, "x", (9, 0), 232448, 132))
    monkeypatch.setenv("MINITILE_TARGET", "sm_80")
    assert parse_target("auto") is TARGETS["sm_80"]
    assert parse_target("sm_89") is TARGETS["sm_89"]
    monkeypatch.setenv("MINITILE_TARGET", "auto")
    assert parse_target("auto").arch == "sm_90a"
    monkeypatch.setenv("MINITILE_TARGET", "sm_7")
    with pytest.raises(TargetError, match="unknown target 'sm_7' in MINITILE_TARGET"):
        parse_target("auto")


def test_calls_go_by_the_environment(monkeypatch):
    """In the simulator also a kernel that has been called before."""

    @mt.kernel
    def double(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] + A[i]

    a, b = np.ones(64, np.float32), np.zeros(64, np.float32)
    for name in ("sm_80", "sm_90a", "sm_80"):
        monkeypatch.setenv("MINITILE_TARGET", name)
        double(a, b)
        assert (b == 2).all()
        assert f".target {name}\n" in double.executable(a, b).text


def test_the_limits_are_the_programming_guides():
    kilobytes = {name: t.max_shared / 1024 for name, t in TARGETS.items()}
    assert kilobytes == {
        "sm_80": 163,
        "sm_89": 99,
        "sm_90a": 227,
        "sm_100a": 227,
        "sm_103a": 227,
        "gfx942": 64,
        "gfx950": 160,
    }
