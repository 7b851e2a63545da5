"""T.profile: a clock at the head of each turn, by warp; what the kernel computes stays."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError, TargetError


@mt.kernel
def product(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((64, "K"), T.float16),
    C: T.Tensor((64, 64), T.float32),
    clocks: T.Tensor((3, 8, 5), T.int64),
):
    with T.Kernel(2, threads=128) as bx:
        T.profile(clocks)
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        if bx == 0:
            T.copy(c, C)


def recorded(target: str, deep: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """The clocks of a product that is `deep` tiles of K deep."""
    rng = np.random.default_rng(deep)
    a, b = (rng.integers(-2, 3, (64, 64 * deep)).astype(np.float16) for _ in "ab")
    c, clocks = np.full((64, 64), np.nan, np.float32), np.full((3, 8, 5), -1, np.int64)
    wide = mt.spec((64, "K" if target == "sm_80" else 64 * deep), "float16")  # TMA wants to know that rows are aligned
    specs = wide, wide, mt.spec((64, 64), "float32"), mt.spec((3, 8, 5), "int64")
    compiled = product.compile(*specs, target=target)
    compiled.simulate(a, b, c, clocks)
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)
    return clocks, compiled.notes


@pytest.mark.parametrize("deep", [0, 1, 4, 7])
def test_each_turn_of_each_warp(deep: int) -> None:
    clocks, notes = recorded("sm_80", deep)
    turns = min(deep, 5)
    own = clocks[0, :4]
    assert (own[:, :turns] >= 0).all()
    assert (np.diff(own[:, :turns]) > 0).all()
    assert (own[:, turns:] == -1).all()
    assert (clocks[0, 4:] == -1).all()
    assert (clocks[1:] == -1).all()
    (note,) = [note for note in notes if note.startswith("T.profile")]
    assert note.startswith("T.profile: row 0 is the loop of line ")


def test_roles_have_rows_of_their_own() -> None:
    clocks, notes = recorded("sm_90a", 4)
    assert len([note for note in notes if note.startswith("T.profile")]) == 2
    wrote = (clocks[:, :, :4] >= 0).all(axis=2)
    copies, products = sorted(wrote[:2].tolist(), key=sum)
    assert sum(copies) == 1
    assert products == [True] * 4 + [False] * 4


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_rows_name_their_line(target: str) -> None:
    """Also where the loop carries values of the compiler's own, whose last operation has no line."""
    ours = [mt.spec((64, "K"), "float16")] * 2 + [mt.spec((64, 64), "float32"), mt.spec((3, 8, 5), "int64")]
    notes = product.compile(*ours, target=target).notes
    text, first = inspect.getsourcelines(product.function)
    line = first + next(n for n, each in enumerate(text) if "T.Pipelined" in each)
    assert f"T.profile: row 0 is the loop of line {line}" in notes


def test_amd_has_no_such_clock() -> None:
    with pytest.raises(TargetError, match=r"T.profile on gfx942"):
        recorded("gfx942", 1)


@pytest.mark.parametrize(("sizes", "dtype"), [((3, 8, 5), T.int32), (("rows", 8, 5), T.int64)])
def test_what_it_is_not_for(sizes: Any, dtype: Any) -> None:
    @mt.kernel
    def narrow(clocks: T.Tensor(sizes, dtype)):
        with T.Kernel(1, threads=32):
            T.profile(clocks)

    with pytest.raises(LanguageError, match=r"T.profile of") as raised:
        narrow.compile(target="sm_80")
    assert "known at compile time" in str(raised.value)
