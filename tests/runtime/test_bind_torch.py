"""The binder's branch for torch, with a torch made here: it asks each tensor once and checks as much as the other."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.arrays import CPU, readers, torch_tensors
from minitile.runtime.bind import compile_binder, compile_dispatch, compile_selector
from minitile.runtime.errors import ArgumentError
from minitile.runtime.launch_info import ScalarArg, TensorArg


class Tensor:
    """As torch's, seen from a binder."""

    def __init__(self, shape=(4, 8), dtype="bfloat16", pointer=4096, device=0, kind="cuda", whole=True):
        self.shape, self.dtype, self.pointer = shape, DTYPES[dtype], pointer
        self.index, self.device, self.whole = device, SimpleNamespace(type=kind), whole
        self.asked = []

    def data_ptr(self):
        return self.pointer

    def get_device(self):
        self.asked.append("device")
        return self.index if self.device.type != "cpu" else -1

    def is_contiguous(self):
        self.asked.append("whole")
        return self.whole

    def stride(self):
        return (16, 1)


class Parameter(Tensor):
    pass


class Dtype:
    """As torch's: its text has the name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


DTYPES = {name: Dtype(name) for name in ("bfloat16", "float32", "float16")}


@pytest.fixture
def torch(monkeypatch):
    module = SimpleNamespace(
        Tensor=Tensor,
        dtype=Dtype,
        version=SimpleNamespace(hip=None),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 700 + index),
        **DTYPES,
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    torch_tensors.cache_clear()
    yield module
    torch_tensors.cache_clear()
    for kind in (Tensor, Parameter):
        readers.pop(kind, None)


TORCH_GEMM = (TensorArg("A", "bf16", ("M", "K")), TensorArg("B", "bf16", ("N", "K")), ScalarArg("n", "i32"))


def test_torch_is_read_straight(torch):
    bind = compile_binder(TORCH_GEMM)
    bind(Tensor(), Tensor(), 5)  # by the readers, and shows that torch is there
    for pointer in (4096, 8192, 12288):
        a, b = Tensor(pointer=pointer), Tensor((6, 8))
        values, place = bind(a, b, 5)
        assert values == (pointer, 4096, 4, 8, 6, 5)
        assert str(place) == "cuda:0"
        assert place.stream() == 700
        assert sorted(a.asked) == sorted(b.asked) == ["device", "whole"]


@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_the_branch_for_torch_checks_as_much(torch, kind):
    bind = compile_binder(TORCH_GEMM)
    bad = [
        (kind(dtype="float16"), "A is f16, the kernel takes bf16"),
        (kind(whole=False), "A is not row-major without gaps"),
        (kind(pointer=4097), "A is misaligned"),
        (kind((4, 9)), r"K is 9 in A.shape\[1\], but 8 in B.shape\[1\]"),
        (kind((4, 8, 1)), "A has rank 3"),
        (kind(device=1), "A is on cuda:1, B on cuda:0"),
        (kind(kind="cpu"), "A is on cpu, B on cuda:0"),
        (kind(kind="xpu", device=-1), "cannot be given to a kernel"),
    ]
    bind(Tensor(), Tensor(), 1)
    for tensor, words in bad:
        with pytest.raises(ArgumentError, match=words):
            bind(tensor, Tensor(), 1)
        with pytest.raises(ArgumentError):
            bind(Tensor(), tensor, 1)
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        bind(Tensor(), Tensor(), 1, 2)
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        bind(Tensor())
    with pytest.raises(ArgumentError, match="n is a i32 scalar"):
        bind(Tensor(), Tensor(), 1.5)


def test_torch_beside_others(torch):
    bind = compile_binder(TORCH_GEMM)
    with pytest.raises(ArgumentError, match="A is on cuda:0, B on cpu"):
        bind(Tensor(), np.zeros((6, 8), ml_dtypes.bfloat16), 1)
    values, place = bind(Tensor(), Tensor((6, 8)), 1)
    assert values[2:] == (4, 8, 6, 1)
    values, place = bind(Tensor(kind="cpu"), np.zeros((6, 8), ml_dtypes.bfloat16), 1)
    assert place == CPU
    values, place = bind(*(np.zeros((3, 8), ml_dtypes.bfloat16) for _ in range(2)), 1)
    assert values[2:] == (3, 8, 3, 1)


def test_torch_devices_have_places_of_their_own(torch):
    bind = compile_binder(TORCH_GEMM)
    for device in (0, 1, 0, 3):
        _, place = bind(Tensor(device=device), Tensor(device=device), 1)
        assert (place.index, place.stream()) == (device, 700 + device)


def test_keys(torch):
    select = compile_selector(TORCH_GEMM, [("divides", ("pointer", "A"), 16), ("gcd", ("dim", "K"), 128)])
    for pointer, aligned in ((4096, True), (4104, False)):
        _, _, key = select(Tensor(pointer=pointer), Tensor(), 1)
        assert key == ("cuda", 0, aligned, 8)


def test_dispatch(torch):
    seen, launches = [], {}
    errors = []
    call = compile_dispatch(
        TORCH_GEMM,
        [("less", ("dim", "M"), 5)],
        launches,
        lambda values, place, key, args: seen.append((values, key, args)),
        errors.append,
    )
    a, b = Tensor(), Tensor()
    call(a, b, 1)
    assert seen == [((4096, 4096, 4, 8, 4, 1), ("cuda", 0, True), (a, b, 1))]
    launches["cuda", 0, True] = lambda values, place: seen.append((values, place.index))
    call(a, b, 2)
    assert seen[1] == ((4096, 4096, 4, 8, 4, 2), 0)
    call(Tensor((5, 8)), b, 1)
    assert seen[2][1] == ("cuda", 0, False)
    assert errors == []
    call(a, Tensor(dtype="float16"), 1)
    assert [str(error).split("\n")[0] for error in errors] == ["B is f16, the kernel takes bf16"]
