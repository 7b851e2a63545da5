"""What other tools see of minitile: NVTX ranges, by a package that is made here, and the log."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.cache import Cache
from minitile.driver.compiled import CompiledKernel
from minitile.driver.jit import Kernel
from minitile.tools import ranges


@mt.kernel(target="sm_80")
def scale(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32), block=64):
    with T.Kernel(T.ceildiv(X.shape[0], block), threads=64) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] * 2


@pytest.fixture
def nvtx(monkeypatch):
    """The package's two functions; `said` has what they were told."""
    said = []

    def push(message, domain=None):
        said.append((f"> {message}", domain))

    def pop(domain=None):
        said.append(("<", domain))

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(push_range=push, pop_range=pop))
    return said


def arrays():
    return np.ones(64, np.float32), np.zeros(64, np.float32)


def test_ranges_around_calls_and_compilations(nvtx):
    before = Kernel.__call__, CompiledKernel.__call__, CompiledKernel.__init__
    x, y = arrays()
    with mt.nvtx_ranges():
        scale(x, y)
        with mt.nvtx_ranges():  # a second one changes nothing
            compiled = scale.compile(x, y, target="sm_80", block=32)
        compiled(x, y)
        with pytest.raises(mt.MinitileError, match="lacks the argument"):
            scale()
    scale(x, y)
    words = [word for word, _ in nvtx]
    assert words == [
        *("> scale", "> compile scale", "<", "<"),
        *("> compile scale", "<", "> scale__block32", "<"),
        *("> scale", "<"),
    ]
    assert {domain for _, domain in nvtx} == {"minitile"}
    assert (Kernel.__call__, CompiledKernel.__call__, CompiledKernel.__init__) == before
    assert (y == 2).all()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(mt.MinitileError, match="the package nvtx, which is not installed") as caught, mt.nvtx_ranges():
        pass
    assert caught.value.hint == "pip install nvtx"


def test_by_the_environment(nvtx, monkeypatch):
    monkeypatch.setenv("MINITILE_NVTX", "1")
    ranges.always.cache_clear()
    try:

        @mt.kernel(target="sm_80")
        def other(Y: T.Tensor((64,), T.float32)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    Y[i] = 1.0

        other(arrays()[1])
        assert nvtx[0] == ("> other", "minitile")
    finally:
        ranges.switch_off()
        ranges.always.cache_clear()


def test_the_log(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    with caplog.at_level(logging.DEBUG, "minitile"):
        for _ in range(2):
            assert scale.compile(target="sm_80", block=16).binary
    said = [(r.name, r.levelname, r.getMessage()) for r in caplog.records]
    assert [(name, level) for name, level, _ in said] == [
        ("minitile.compile", "INFO"),
        ("minitile.cache", "DEBUG"),
        ("minitile.assemble", "INFO"),
        ("minitile.compile", "INFO"),
        ("minitile.cache", "DEBUG"),
        ("minitile.assemble", "INFO"),
    ]
    texts = [text for *_, text in said]
    assert texts[0].startswith("scale__block16 for sm_80: trace ")
    assert " stored, " in texts[1]
    assert " found, " in texts[4]
    assert texts[2].startswith("scale__block16 for sm_80 by ")
    assert texts[2].endswith("0 bytes spilled")
    caplog.clear()
    with caplog.at_level(logging.INFO, "minitile"):
        Cache(tmp_path, 1000).evict()
    assert [r.getMessage() for r in caplog.records] == [
        "1 entries removed, which were not used for longest: 0 bytes are left"
    ]


def test_the_log_of_a_tuning(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    clock = {"block=32": [2.0], "block=64": [1.0]}
    tuned = mt.autotune(
        scale, {"block": [32, 64, 0]}, measure=lambda launches: {n: clock[n] for n in launches}, progress=False
    )
    with caplog.at_level(logging.DEBUG, "minitile.autotune"):
        tuned.tune(*arrays())
    texts = [r.getMessage() for r in caplog.records if r.name == "minitile.autotune"]
    assert "scale, block=64: 1.0 ms" in texts
    assert texts[-1] == "scale: 3 of 3; 1000.0 µs: block=64"
