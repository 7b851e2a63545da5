"""A row that goes through shared memory piece by piece: in plain rows, stored from registers, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


def norm(n, piece, threads=128):
    @mt.kernel
    def rms_norm(A: T.Tensor(("M", n), T.float32), B: T.Tensor(("M", n), T.float32)):
        with T.Kernel(A.shape[0], threads=threads) as row:
            part = T.alloc_shared((1, piece), T.float32)
            squares = T.alloc_fragment((1, piece), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.clear(squares)
            for k in T.serial(T.ceildiv(n, piece)):
                T.copy(A[row, k * piece], part)
                for i, j in T.Parallel(1, piece):
                    squares[i, j] += part[i, j] * part[i, j]
            T.reduce_sum(squares, total, dim=1)
            for k in T.serial(T.ceildiv(n, piece)):
                T.copy(A[row, k * piece], part)
                for i, j in T.Parallel(1, piece):
                    part[i, j] *= T.rsqrt(total[0] / n + 1e-6)
                T.copy(part, B[row, k * piece])

    return rms_norm


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(("m", "n", "piece"), [(3, 2048, 512), (2, 1000, 512), (1, 1021, 384)])
def test_rows(target, m, n, piece):
    """Not by TMA: of swizzled boxes each 128 bytes took eight rows' room and a copy of its own."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    a = np.random.default_rng().standard_normal((m, n)).astype(np.float32)
    b = np.full_like(a, np.nan)
    compiled = norm(n, piece).compile(a, b, target=target)
    compiled.simulate(a, b, schedule="random", seed=1)
    wide = a.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(b, expected, rtol=1e-5, atol=1e-6)
    assert compiled.launch_info.dynamic_shared <= piece * 4 + 64
    if target == "sm_90a":
        assert "cp.async.bulk" not in compiled.asm["ptx"]
        assert (".v4.f32" in compiled.asm["ptx"].split("st.global")[1][:16]) == (n % 4 == 0)


@mt.kernel
def scaled_by_sum(A: T.Tensor((8, 2048), T.float32), B: T.Tensor((8, 2048), T.float32), written=False):
    with T.Kernel(8, threads=128) as bx:
        x, total, s = (T.alloc_fragment(shape, T.float32) for shape in ((512,), (512,), (1,)))
        T.clear(total)
        for k in T.unroll(4):
            T.copy(A[bx, k * 512], x)
            for j in T.Parallel(512):
                total[j] += x[j]
        T.reduce_sum(total, s)
        for k in T.unroll(4):
            T.copy(A[bx, (3 - k) * 512], x)
            for j in T.Parallel(512):
                x[j] *= s[0]
            to = A if written else B
            T.copy(x, to[bx, (3 - k) * 512])


def test_pieces_are_loaded_once():
    """Also where a barrier is between, unless the kernel writes the tensor."""
    a = np.random.default_rng(5).integers(-3, 4, (8, 2048)).astype(np.float32)
    expected = a * a.sum(1, keepdims=True)
    specs = [mt.spec((8, 2048), "float32")] * 2
    for written, loads in ((False, 4), (True, 8)):
        x, y = a.copy(), np.zeros_like(a)
        scaled_by_sum(x, y, written=written)
        np.testing.assert_array_equal(x if written else y, expected)
        text = scaled_by_sum.compile(*specs, target="sm_90a", written=written).asm["ptx"]
        assert text.count("ld.global.v4") == loads
