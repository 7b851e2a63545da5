"""Texts of T.ptx, blocks that meet, and packed elements on the GPU, against torch.

MINITILE_GPU=1 python -m pytest -q tests/gpu/test_instructions.py
"""

from __future__ import annotations

import numpy as np
import pytest

from minitile.ir.diagnostics import LaunchArgumentError
from tests.language.test_explicit import ring
from tests.language.test_packed import halves, pack, product
from tests.language.test_ptx import effects, squares, turned
from tests.language.test_sync_grid import mirrored, shares
from tests.language.test_sync_grid import turned as turned_blocks

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng()


@pytest.fixture
def there():
    """NumPy arrays as tensors on the GPU."""
    torch = pytest.importorskip("torch")
    return lambda *arrays: [torch.from_numpy(a).cuda() for a in arrays]


def test_texts(there):
    x = RNG.integers(0, 1 << 32, 1000, np.uint32)
    x, low, high = there(x, x, x)
    squares(x, low, high)
    exact = x.cpu().numpy().astype(np.uint64) ** 2
    np.testing.assert_array_equal(low.cpu().numpy(), exact & 0xFFFFFFFF)
    np.testing.assert_array_equal(high.cpu().numpy(), exact >> 32)


def test_texts_with_memory(there):
    x, y, n = there(RNG.random(128, np.float32), np.zeros(128, np.float32), np.zeros(1, np.int32))
    turned(x, y, n)
    np.testing.assert_array_equal(y.cpu().numpy(), np.roll(x.cpu().numpy()[::-1], 64))
    assert int(n[0]) == 128


def test_texts_with_effects(there):
    v, c = there(np.zeros(64, np.uint32), np.zeros(64, np.uint32))
    effects(v, c)
    t = np.arange(64)
    votes = [sum(1 << n for n in range(32) if (32 * w + n) % 3 == 0) for w in range(2)]
    np.testing.assert_array_equal(v.cpu().numpy(), np.array(votes, np.uint32)[t // 32] >> (t % 32).astype(np.uint32))
    assert (c.cpu().numpy() > 0).any()


@pytest.mark.parametrize("rounds", [1, 50])
def test_blocks_that_meet(there, rounds):
    """Again and again: the counter is ready for the next launch."""
    x, p, y = there(RNG.random(1000, np.float32) + 1, np.zeros(5, np.float32), np.zeros(1000, np.float32))
    for _ in range(20):
        y.zero_()
        shares(x, p, y, rounds=rounds)
        want = x.double() / x.double().sum() + rounds - 1
        np.testing.assert_allclose(y.cpu().numpy(), want.cpu().numpy(), rtol=1e-5)
        x2, y2 = there(RNG.random(640, np.float32), np.zeros(640, np.float32))
        mirrored(x2, y2)
        np.testing.assert_array_equal(y2.cpu().numpy(), 2 * x2.cpu().numpy()[::-1])


def test_copies_around_the_barrier(there):
    x = RNG.standard_normal((512, 64)).astype(np.float16)
    x, p, y = there(x, np.zeros_like(x), np.zeros_like(x))
    for _ in range(20):
        turned_blocks(x, p.zero_(), y.zero_())
        assert (y.view(4, 128, 64) == x.view(4, 128, 64).flip(0)).all()


def test_a_grid_that_does_not_fit(there):
    """It is refused, and does not hang."""
    import minitile as mt
    import minitile.language as T

    @mt.kernel
    def large(Y: T.Tensor((1,), T.float32), blocks=1 << 20):
        with T.Kernel(blocks, threads=1024):
            T.sync_grid()
            Y[0] = 1.0

    with pytest.raises(LaunchArgumentError, match=r"T\.sync_grid"):
        large(*there(np.zeros(1, np.float32)))


def test_barriers_of_other_blocks(there):
    x, y = there(RNG.random((4, 256), np.float32), np.zeros((4, 256), np.float32))
    ring(x, y, rounds=9)
    np.testing.assert_allclose(y.cpu().numpy(), np.roll(x.cpu().numpy(), 9, axis=0) + 9, rtol=1e-6)


def test_packed_elements(there):
    a, b = (RNG.integers(-8, 8, s, np.int8) for s in ((70, 256), (64, 256)))
    c = np.zeros((70, 64), np.int32)
    a2, b2, c2 = there(pack(a), pack(b), c)
    product(a2, b2, c2)
    np.testing.assert_array_equal(c2.cpu().numpy(), a.astype(np.int64) @ b.astype(np.int64).T)
    x, w = RNG.standard_normal((40, 128)).astype(np.float16), RNG.integers(0, 16, (32, 128), np.uint8)
    x2, w2, c2 = there(x, pack(w), np.zeros((40, 32), np.float32))
    halves(x2, w2, c2)
    want = x.astype(np.float64) @ ((w.astype(np.float64) - 8) / 4).T
    np.testing.assert_allclose(c2.cpu().numpy(), want, rtol=1e-4, atol=1e-3)
