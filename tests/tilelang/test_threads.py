"""Where a thread's fragments do not fit its registers, programs that do not count their threads get more of them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import minitile.tilelang as tilelang
from tests.tilelang import programs

X = np.random.default_rng(9).standard_normal((64, 128)).astype("float32")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("kind", "threads"), [("", 128), ("tile atomic", 128), ("index", 64), ("atomic", 64)])
def test_threads_grow_where_nothing_counts_them(
    target: str, kind: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    kernel = programs.heavy(kind)
    (compiled,) = kernel.compiled(target)
    assert compiled.launch_info.block[0] == threads
    assert any("128 in place of 64" in note for note in compiled.result.notes) == (threads == 128)
    y, n = kernel(X)
    np.testing.assert_array_equal(y, X * 3)
    if kind == "index":
        assert n[0] == 64


def test_threads_stay_where_registers_suffice() -> None:
    """A thread of gfx942 has 512."""
    (compiled,) = programs.heavy("").compiled("gfx942")
    assert compiled.launch_info.block[0] == 64


def test_a_call_that_names_one_tuned_parameter_is_not_tuned() -> None:
    configs = [{"block": 2, "more": 3}]

    @tilelang.autotune(configs=configs)
    @tilelang.jit(out_idx=[0])
    def scaled(M, block=1, more=0):
        raise ValueError((block, more))

    for given, want in (({"block": 4}, (4, 0)), ({"more": 1}, (1, 1)), ({}, (2, 3))):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            scaled(8, **given)
        assert error.value.args[0] == want
    assert inspect.signature(scaled.jit.function).parameters["more"].default == 0


@pytest.mark.parametrize(
    ("target", "how", "columns"),
    [
        ("sm_80", "", 512),
        ("sm_90a", "", 200),
        ("gfx942", "", 384),
        ("gfx950", "", 17),
        ("gfx950", "", 1000),
        ("sm_90a", "pipelined", 512),
        ("sm_80", "reversed", 200),
    ],
)
def test_staging_that_threads_keep_to_themselves_is_registers(
    target: str, how: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    kernel = programs.in_pieces.compile(M=3, N=columns, how=how)
    (compiled,) = kernel.compiled(target)
    assert ("shared<" in compiled.asm["tile_ir"]) == bool(how)
    assert ("for 0" in compiled.asm["tile_ir"]) == bool(how)  # else all rounds at once
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype("float32")
    pad = np.pad(x.astype(np.float64), ((0, 0), (0, -columns % 128))).reshape(3, -1, 128)
    other = pad[:, :, ::-1] if how == "reversed" else pad
    want = x * (pad * other).sum((1, 2))[:, None]
    np.testing.assert_allclose(kernel(x), want, rtol=1e-4, atol=1e-3)
