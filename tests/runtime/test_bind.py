"""Binding a call's arguments: the values that come out, and the words of each refusal."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.arrays import CPU, Place, describe, readers
from minitile.runtime.bind import compile_binder
from minitile.runtime.errors import ArgumentError
from minitile.runtime.launch_info import ScalarArg, TensorArg

GEMM = (
    TensorArg("A", "bf16", ("M", "K")),
    TensorArg("B", "bf16", ("N", "K")),
    TensorArg("C", "f32", ("M", "N")),
    ScalarArg("alpha", "f32"),
    ScalarArg("steps", "i32"),
)
bf16 = ml_dtypes.bfloat16


def operands(m=4, n=6, k=8):
    return np.zeros((m, k), bf16), np.zeros((n, k), bf16), np.zeros((m, n), np.float32)


def test_values_in_slot_order():
    a, b, c = operands()
    values, place = compile_binder(GEMM)(a, b, c, 2, np.int64(3))
    assert values == (a.ctypes.data, b.ctypes.data, c.ctypes.data, 4, 8, 6, 2.0, 3)
    assert place == CPU


def test_without_arguments():
    assert compile_binder(())() == ((), CPU)


def test_rank_zero():
    (pointer,), _ = compile_binder([TensorArg("x", "f32", ())])(np.zeros((), np.float32))
    assert pointer


class OnGPU:
    """An array that claims to be on a GPU."""

    def __init__(self, index):
        self.index = index


@pytest.fixture
def gpu_arrays():
    readers[OnGPU] = lambda x: (256, (4, 8), "bf16", Place("cuda", x.index), True)
    yield OnGPU
    del readers[OnGPU]


def test_equal_places_of_two_frameworks_are_one(gpu_arrays):
    bind = compile_binder((GEMM[0], TensorArg("D", "bf16", ("M", "K"))))
    assert bind(gpu_arrays(1), gpu_arrays(1)) == ((256, 256, 4, 8), Place("cuda", 1))


def test_mixed_devices(gpu_arrays):
    bind = compile_binder((GEMM[0], TensorArg("D", "bf16", ("M", "K"))))
    with pytest.raises(ArgumentError, match="A is on cuda:0, D on cuda:1"):
        bind(gpu_arrays(0), gpu_arrays(1))
    with pytest.raises(ArgumentError, match="A is on cuda:0, D on cpu"):
        bind(gpu_arrays(0), np.zeros((4, 8), bf16))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: np.zeros(4, bf16)}, r"A has rank 1, the kernel takes 2: A is \(M, K\), called with \(4,\)"),
        ({1: np.zeros((6, 8), np.float16)}, "B is f16, the kernel takes bf16"),
        ({1: np.zeros((6, 9), bf16)}, r"K is 8 in A.shape\[1\], but 9 in B.shape\[1\]"),
        ({2: np.zeros((4, 7), np.float32)}, r"N is 6 in B.shape\[0\], but 7 in C.shape\[1\]"),
        ({2: np.zeros((6, 4), np.float32).T}, "C is not row-major without gaps"),
        ({0: np.zeros((4, 16), bf16)[:, ::2]}, "A is not row-major without gaps"),
        (
            {2: np.zeros(100, np.uint8)[1 : 1 + 96].view(np.float32).reshape(4, 6)},
            "C is misaligned: its address 0x[0-9a-f]+ is no multiple of a f32's size",
        ),
        ({0: 7}, "A: int is no array that minitile knows"),
        ({3: "2"}, "alpha is a f32 scalar, not '2'"),
        ({4: 2.5}, "steps is a i32 scalar, not 2.5"),
    ],
)
def test_refusals(change, message):
    args = [*operands(), 1.0, 3]
    for position, value in change.items():
        args[position] = value
    with pytest.raises(ArgumentError, match=message):
        compile_binder(GEMM)(*args)


def test_constant_dimension():
    bind = compile_binder([TensorArg("W", "f32", ("n", 128))])
    with pytest.raises(ArgumentError, match=r"W.shape\[1\] is 64, the kernel takes 128: W is \(n, 128\)"):
        bind(np.zeros((3, 64), np.float32))


@pytest.mark.parametrize(("value", "want"), [(True, True), (np.bool_(False), False), (1, True), (2, None), ("", None)])
def test_truth_values(value, want):
    bind = compile_binder([ScalarArg("flag", "bool")])
    if want is None:
        with pytest.raises(ArgumentError, match="flag is a bool scalar"):
            bind(value)
    else:
        assert bind(value)[0] == (want,)


def test_describe_numpy():
    info = describe(np.zeros((4, 6), np.int16)[:, ::2])
    assert (info.shape, info.strides, info.dtype) == ((4, 3), (6, 2), "i16")
    assert not info.contiguous
    assert info.device_kind == "cpu"


class Foreign:
    """An array known only by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint64", "bool"])
def test_describe_dlpack(dtype):
    array = np.zeros((5, 4, 3), dtype)
    assert describe(Foreign(array)) == describe(array)
    turned = describe(Foreign(array.transpose(2, 0, 1)))
    assert turned == describe(array.transpose(2, 0, 1))
    assert describe(Foreign(array[2:])).ptr == array[2:].ctypes.data
