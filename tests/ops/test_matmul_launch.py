"""matmul on tensors of a torch made here, with a driver made of Python: what is launched, and on which way."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import minitile as mt
from minitile.ops.array_adapters import frame_of
from minitile.ops.gemm import gemm, padded, summed
from minitile.ops.multiply import _kernel, _plan, known, matmul
from minitile.ops.plan import Plan
from minitile.runtime import cuda
from minitile.runtime.arrays import readers, torch_tensors
from tests.runtime.fake_cuda import FakeDriver


class Dtype:
    """As torch's: its text has the name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


DTYPES = {name: Dtype(name) for name in ("bfloat16", "float32", "float16")}
ADDRESSES = iter(range(1 << 30, 1 << 46, 1 << 28))  # far enough apart for any of the arrays here


class Tensor:
    """As torch's, as far as matmul looks at one. `made` counts those that torch was asked for."""

    made = 0

    def __init__(self, shape, dtype="bfloat16", strides=None, pointer=None, device=0):
        self.shape, self.dtype = tuple(shape), DTYPES[dtype]
        self.strides = strides or (shape[-1], 1)
        self.pointer, self.device = pointer or next(ADDRESSES), SimpleNamespace(type="cuda", index=device)

    def __bool__(self):
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    def stride(self):
        return self.strides

    def get_device(self):
        return self.device.index

    def data_ptr(self):
        return self.pointer

    def is_contiguous(self):
        return self.strides == (self.shape[-1], 1)

    def t(self):
        return Tensor(self.shape[::-1], self.dtype.name, self.strides[::-1], self.pointer, self.device.index)

    def clone(self, memory_format):
        return empty(self.shape, self.dtype, self.device)


def empty(shape, dtype, device):
    Tensor.made += 1
    return Tensor(shape, dtype.name, device=device.index)


@pytest.fixture
def gpu(monkeypatch):
    torch = SimpleNamespace(
        Tensor=Tensor,
        dtype=Dtype,
        empty=empty,
        contiguous_format=None,
        version=SimpleNamespace(hip=None),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 700 + index),
        **DTYPES,
    )
    fake = FakeDriver([])
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    caches = (torch_tensors, cuda.device_info, cuda._primary_context, _plan, _kernel, gemm, padded, summed)
    for cache in caches:
        cache.cache_clear()
    known.clear()
    Tensor.made = 0
    yield fake
    known.clear()
    for cache in caches:
        cache.cache_clear()
    readers.pop(Tensor, None)


def test_a_repeated_call_is_one_launch_on_the_current_stream(gpu):
    a, b = Tensor((512, 256)), Tensor((256, 1024))
    first = matmul(a, b)
    assert (first.shape, first.dtype, len(gpu.launches), Tensor.made) == ((512, 1024), DTYPES["bfloat16"], 1, 1)
    assert len(known) == 1
    again = matmul(Tensor((512, 256)), b)
    assert again.shape == (512, 1024)
    assert again.data_ptr() != first.data_ptr()
    one, two = gpu.launches
    assert (one.grid, one.block, one.stream, one.function) == (two.grid, two.block, 700, two.function)
    assert Tensor.made == 2


def test_results_of_the_callers_own(gpu):
    a, b = Tensor((512, 256)), Tensor((256, 1024))
    for _ in range(2):
        out = Tensor((512, 1024))
        assert matmul(a, b, out=out) is out
        assert gpu.maps[-1].address == out.data_ptr()
    for bad in (Tensor((512, 512)), Tensor((1024, 512)).t(), Tensor((512, 1024), device=1)):
        with pytest.raises(mt.MinitileError) as caught:
            matmul(a, b, out=bad)
        assert caught.value.loc.file == __file__
    with pytest.raises(mt.MinitileError, match="no multiple of 16"):
        matmul(a, b, out=Tensor((512, 1024), pointer=4104))
    assert matmul(a, b, out=Tensor((512, 1024), "float32")).dtype is DTYPES["float32"]
    assert Tensor.made == 0


def test_forms_are_told_apart_and_nothing_is_copied(gpu):
    for a, b in ((Tensor((512, 256)), Tensor((1024, 256)).t()), (Tensor((256, 512)).t(), Tensor((256, 1024)))):
        for _ in range(2):
            matmul(a, b, out=Tensor((512, 1024)))
            assert {m.address for m in gpu.maps} >= {a.data_ptr(), b.data_ptr()}
    assert Tensor.made == 0
    assert len({launch.function for launch in gpu.launches}) == 2


def test_a_misaligned_operand_is_copied_each_time(gpu):
    b = Tensor((256, 1024))
    for _ in range(2):
        matmul(Tensor((512, 256), pointer=4098), b, out=Tensor((512, 1024)))
    assert Tensor.made == 2
    matmul(Tensor((512, 256)), b, out=Tensor((512, 1024)))
    matmul(Tensor((512, 256), pointer=4098), b, out=Tensor((512, 1024)))
    assert Tensor.made == 3


def test_padding_and_splitting_are_launches_of_their_own(gpu):
    matmul(Tensor((2048, 1001)), Tensor((1001, 2048)))
    assert len(gpu.launches) == 2
    assert Tensor.made == 2
    matmul(Tensor((64, 8192)), Tensor((8192, 64)), plan=Plan(64, 64, 64, 4, 128, split=4))
    assert len(gpu.launches) == 4
    assert len(known) == 0


def test_one_device(gpu):
    with pytest.raises(mt.MinitileError, match="one device"):
        matmul(Tensor((64, 64)), Tensor((64, 64), device=1))
    assert matmul(Tensor((64, 64), device=1), Tensor((64, 64), device=1)).get_device() == 1


def test_frames():
    assert frame_of(3) is None


def test_few_vectors_are_one_launch_that_is_known(gpu):
    plan = Plan(1, 4, 512, 1, 128, dots=True)
    a, b = Tensor((1, 512)), Tensor((4096, 512)).t()
    for count in (1, 2):
        out = Tensor((1, 4096))
        assert matmul(a, b, out=out, plan=plan) is out
        assert len(gpu.launches) == count
    assert len(known) == 1
    first, second = gpu.launches
    assert (first.grid, first.function) == (second.grid, second.function)
    assert first.grid == (1, 1, 1024)


def test_an_epilogue_is_one_launch_each_time(gpu):
    a, b, bias = Tensor((512, 256)), Tensor((256, 1024)), Tensor((512, 1024))
    for count in (1, 2):
        matmul(a, b, out=Tensor((512, 1024)), epilogue=lambda x, y: x + y, args=(bias,))
        assert len(gpu.launches) == count
    assert gpu.launches[0].function == gpu.launches[1].function
    assert not known
