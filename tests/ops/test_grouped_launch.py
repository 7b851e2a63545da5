"""grouped_matmul, matmul of batches and by quantised weights on tensors of a torch made here, with a driver made of
Python: repeated calls are one launch, and copy nothing that lies as the kernels want it."""

from __future__ import annotations

import pytest

import minitile as mt
from minitile.ops import batches, grouped, multiply
from minitile.ops.grouped import grouped_matmul
from minitile.ops.grouped_plans import choose
from minitile.ops.multiply import matmul
from minitile.ops.quantised import calls as quantised
from minitile.ops.quantised.calls import matmul_fp8, matmul_quantised
from minitile.ops.quantised.pack import QuantisedWeights
from minitile.runtime.arrays import readers, row_major
from tests.ops.test_matmul_launch import DTYPES, Dtype, Tensor, gpu

__all__ = ["gpu"]  # the fixture


class Array(Tensor):
    """Of any rank."""

    def __init__(self, shape, dtype="bfloat16", strides=None, pointer=None, device=0):
        super().__init__(shape, dtype, strides or row_major(shape), pointer, device)
        self.ndim = len(shape)

    def is_contiguous(self):
        return self.strides == row_major(self.shape)

    def transpose(self, one, other):
        shape, strides = list(self.shape), list(self.strides)
        shape[one], shape[other] = shape[other], shape[one]
        strides[one], strides[other] = strides[other], strides[one]
        return Array(shape, self.dtype.name, tuple(strides), self.pointer, self.device.index)

    def t(self):
        return self.transpose(0, 1)

    def __getitem__(self, index):
        assert index is None
        return Array((1, *self.shape), self.dtype.name, (0, *self.strides), self.pointer, self.device.index)


def empty(shape, *, dtype, device):
    Tensor.made += 1
    return Array(shape, dtype.name, device=device.index)


@pytest.fixture
def torch(gpu, monkeypatch):
    import sys

    for name in ("int32", "float8_e4m3fn"):
        monkeypatch.setitem(DTYPES, name, Dtype(name))
        monkeypatch.setattr(sys.modules["torch"], name, DTYPES[name], raising=False)
    monkeypatch.setattr(sys.modules["torch"], "empty", empty)
    caches = (choose, grouped._kernel, batches._kernel, quantised._quantised, quantised._fp8)
    for cache in caches:
        cache.cache_clear()
    yield gpu
    for cache in caches:
        cache.cache_clear()
    grouped.known.clear()
    quantised.known.clear()
    readers.pop(Array, None)


def test_groups(torch):
    a, b, offsets = Array((1024, 256)), Array((4, 512, 256)).transpose(1, 2), Array((4,), "int32")
    first = grouped_matmul(a, b, offsets)
    assert (first.shape, first.dtype, len(torch.launches), Tensor.made) == ((1024, 512), DTYPES["bfloat16"], 1, 1)
    for _ in range(2):
        out = Array((1024, 512))
        assert grouped_matmul(Array((1024, 256)), b, offsets, out=out) is out
        assert out.data_ptr() in {m.address for m in torch.maps}
    one, *others = torch.launches
    assert len(others) == 2
    assert {(x.grid, x.block, x.stream, x.function) for x in others} == {(one.grid, one.block, 700, one.function)}
    assert Tensor.made == 1
    assert {m.address for m in torch.maps} >= {a.data_ptr(), b.data_ptr()}
    masked = grouped_matmul(Array((4, 128, 256)), b, counts=offsets)
    assert masked.shape == (4, 128, 512)
    assert len(grouped.known) == 2


def test_groups_with_scales(torch):
    a, b = Array((1024, 256), "float8_e4m3fn"), Array((4, 512, 256), "float8_e4m3fn").transpose(1, 2)
    scales = Array((2, 1024), "float32").t(), Array((4, 4, 2), "float32").transpose(1, 2)
    for n in range(1, 3):
        result = grouped_matmul(a, b, Array((4,), "int32"), scales=scales)
        assert (result.shape, result.dtype) == ((1024, 512), DTYPES["bfloat16"])
        assert len(torch.launches) == n
    assert Tensor.made == 2
    assert {m.address for m in torch.maps} >= {x.data_ptr() for x in (a, b, scales[0])}


def test_groups_along_k(torch):
    x, y, offsets = Array((1024, 256)), Array((1024, 512)), Array((8,), "int32")
    for n in range(1, 3):
        assert grouped_matmul(x.t(), y, offsets, dtype="float32").shape == (8, 256, 512)
        assert len(torch.launches) == n
    assert {m.address for m in torch.maps} >= {x.data_ptr(), y.data_ptr()}


def test_batches(torch):
    a, b = Array((4, 256, 128)), Array((4, 512, 128)).transpose(1, 2)
    for n in range(1, 3):
        assert matmul(a, b).shape == (4, 256, 512)
        assert len(torch.launches) == Tensor.made == n
    assert len(multiply.known) == 1
    assert matmul(Array((256, 128)), b).shape == (4, 256, 512)
    assert {m.address for m in torch.maps} >= {a.data_ptr(), b.data_ptr()}


def test_known_calls_take_the_short_way(torch, monkeypatch):
    """Also with results of the caller's own: what is expected of them is what torch makes."""
    a, b, offsets = Array((1024, 256)), Array((4, 256, 512)), Array((4,), "int32")
    calls = (
        (lambda **given: matmul(a, Array((256, 512)), **given), Array((1024, 512))),
        (lambda **given: matmul(Array((4, 64, 256)), b, **given), Array((4, 64, 512))),
        (lambda **given: grouped_matmul(a, b, offsets, **given), Array((1024, 512))),
    )
    for call, _ in calls:
        call()
    monkeypatch.setattr(multiply, "_first_call", None)
    monkeypatch.setattr(grouped, "_first_call", None)
    for call, out in calls:
        assert call(out=out) is out
        assert (call().shape, call().stride()) == (out.shape, out.stride())


def test_one_device(torch):
    a, b = Array((64, 64)), Array((2, 64, 64))
    for bad in (
        lambda: grouped_matmul(a, b, Array((2,), "int32", device=1)),
        lambda: matmul(b, Array((2, 64, 64), device=1)),
    ):
        with pytest.raises(mt.MinitileError, match="on one device"):
            bad()


def test_weights_of_4_bits(torch):
    """Each call after the first is one launch, with its own arrays, and gives back the result."""
    a = Array((16, 256))
    weights = [QuantisedWeights("int4", 512, 256, 128, Array((8, 16, 128), "int32"), Array((2, 512))) for _ in range(3)]
    results = [matmul_quantised(a, each) for each in weights]
    assert [(x.shape, x.dtype) for x in results] == [((16, 512), DTYPES["bfloat16"])] * 3
    assert len(torch.launches) == Tensor.made == 3
    assert {m.address for m in torch.maps} >= {each.words.data_ptr() for each in weights}
    for _ in range(2):
        out = Array((16, 512))
        assert matmul_quantised(a, weights[0], out=out) is out
    assert len(torch.launches) == 5
    assert len(quantised.known) == 1
    with pytest.raises(mt.MinitileError, match="no multiple of 16"):
        matmul_quantised(a, weights[0], out=Array((16, 512), pointer=4104))


def test_fp8_by_weights_with_scales(torch):
    a, scale = Array((16, 256), "float8_e4m3fn"), Array((2, 16), "float32").t()
    weights = [(Array((512, 256), "float8_e4m3fn"), Array((4, 2), "float32")) for _ in range(3)]
    for ahead in (False, True):
        for b, of_b in weights:
            result = matmul_fp8(a, b, (scale, of_b), ahead=ahead)
            assert (result.shape, result.dtype) == ((16, 512), DTYPES["bfloat16"])
    assert len(torch.launches) == Tensor.made == 6
    assert {m.address for m in torch.maps} >= {b.data_ptr() for b, _ in weights}
    assert len(quantised.known) == 2
