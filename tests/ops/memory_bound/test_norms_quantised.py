"""mt.ops.rms_norm_fp8 and layer_norm_fp8 against float64: scales by row and by block, odd sizes, wrong use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
from minitile.ops import layer_norm_fp8, rms_norm_fp8
from tests.ops.memory_bound.frames import bf16, close, exact, f32, given, random
from tests.ops.memory_bound.test_norms import expected


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("shape", "block"), [
    ((1, 1), False), ((5, 17), False), ((2, 3, 72), False), ((3, 1000), False), ((5, 256), True), ((2, 1152), True),
])  # fmt: skip
@pytest.mark.parametrize("has", ["", "wr", "wbr"])
def test_scales(shape, block, has, centered):
    x, r = random(1, *shape, dtype=bf16), random(2, *shape, dtype=bf16)
    w, b = random(3, shape[-1]), random(4, shape[-1], dtype=bf16)
    options = {name: given(one) for name, one in (("weight", w), ("bias", b), ("residual", r)) if name[0] in has}
    q, scales, *rest = (layer_norm_fp8 if centered else rms_norm_fp8)(given(x), block=block, eps=1e-5, **options)
    if "r" in has:
        x = (x.astype(f32) + r.astype(f32)).astype(bf16)
        assert (exact(rest[0]) == exact(x)).all()
    right = expected(x, centered, w if "w" in has else None, b if "b" in has else None)
    parts = right.reshape(*shape[:-1], -1, 128) if block else right
    close(scales, np.maximum(np.abs(parts).max(-1) / 448, 1e-12), f32, 0.05)
    assert str(q.dtype).endswith("float8_e4m3fn")
    steps = np.repeat(exact(scales), 128, -1) if block else exact(scales)[..., None]
    # e4m3 has 4 digits, from 2^-6 on, and steps of 2^-9 below.
    assert (np.abs(exact(q) * steps - right) <= 1.01 * np.maximum(2.0**-4 * np.abs(right), 2.0**-10 * steps)).all()


def test_zeros_and_long_rows():
    q, scales = rms_norm_fp8(given(np.zeros((2, 128), f32)), block=True)
    assert (exact(q) == 0).all()
    assert (exact(scales) > 0).all()
    x = random(5, 1, 16384, dtype=bf16)
    q, scales = rms_norm_fp8(given(x), block=True, eps=1e-5)
    right = expected(x, False)
    assert np.abs(exact(q) * np.repeat(exact(scales), 128, -1) - right).max() < 0.07 * np.abs(right).max()
    assert rms_norm_fp8(given(random(1, 0, 8)))[0].shape == (0, 8)


def test_wrong_use():
    for call, message in (
        (lambda: rms_norm_fp8(random(1, 2, 72), block=True), "x has 72 columns"),
        (lambda: layer_norm_fp8(random(1, 2, 16392)), "x has 16392 columns"),
    ):
        with pytest.raises(mt.MinitileError) as error:
            call()
        assert re.search(message, f"{error.value.message} {error.value.hint}")  # its text shows this line too
        assert "test_norms_quantised.py" in str(error.value)
