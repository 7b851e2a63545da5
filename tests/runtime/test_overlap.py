"""One array under two names: arrays that overlap are refused where one is written, and a whole one is one tensor."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime.errors import ArgumentError
from minitile.runtime.launch_info import LaunchInfo, ScalarArg, TensorArg, slots_of
from minitile.runtime.overlap import check_text, explain
from tests.auto_target import auto_target

target = auto_target("sm_80", "sm_90a", "gfx950")


def floats(*sizes):
    return [np.arange(n, dtype=np.float32) for n in sizes]


@mt.kernel
def add(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), C: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 128), threads=128) as bx:
        for i in T.Parallel(128):
            C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]


@mt.kernel
def mirrored(A: T.Tensor((128,), T.float32), C: T.Tensor((128,), T.float32)):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            C[i] = A[127 - i]


@mt.kernel
def in_bits(A: T.Tensor((128,), T.float32), C: T.Tensor((128,), T.int32)):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            C[i] = T.reinterpret(A[127 - i], T.int32)


@mt.kernel
def row_by_row(A: T.Tensor(("N", 128), T.float32), C: T.Tensor(("N", 128), T.float32)):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((1, 128), T.float32)
        for k in T.Pipelined(A.shape[0] - 1, num_stages=3):
            T.copy(A[k, 0], s)
            for i in T.Parallel(128):
                C[k + 1, i] = s[0, i] + 1


def test_one_array_under_two_names_is_one_tensor(target):
    x, y, z = floats(300, 300, 300)
    add(x, y, x)
    assert np.array_equal(x, 2 * y)
    add(x, x, x)
    assert np.array_equal(x, 4 * y)
    add(x, x, z)  # read twice: nothing else than two arrays
    assert np.array_equal(z, 8 * y)
    add(x, y, z)
    assert np.array_equal(z, 5 * y)
    (a,) = floats(128)
    mirrored(a, a)
    assert np.array_equal(a, np.arange(128)[::-1])
    rows = np.zeros((6, 128), np.float32)
    row_by_row(rows, rows)  # what copies ahead would have read too early
    assert np.array_equal(rows, np.broadcast_to(np.arange(6)[:, None], (6, 128)))


def test_arrays_that_overlap_are_refused(target):
    (x,), (y,) = floats(600), floats(300)
    with pytest.raises(mt.MinitileError, match="A and C overlap in 800 bytes, and the kernel writes C"):
        add(x[:300], y, x[100:400])
    with pytest.raises(mt.MinitileError, match="B and C overlap in 1200 bytes"):
        add.compile(y, y, y, target=target).simulate(x[300:], y, y)  # compiled for different arrays
    with pytest.raises(mt.MinitileError, match="A and C overlap in 512 bytes"):
        in_bits(x[:128], x[:128].view(np.int32))
    add(x[:300], x[200:500], y)  # both are only read
    add(x[:300], y, x[300:])  # side by side
    add(x[:0], y[:0], x[:0])


A, B, C = (TensorArg(name, "f32", ("N", 4)) for name in "ABC")
INFO = LaunchInfo("k", (A, B, C, ScalarArg("n", "i32")), (), (1, 1, 1), (32, 1, 1), written=("C",))


def verdict(info, a, b, c, n):
    """What the quick test says; the careful one must agree, or find that nothing is wrong."""
    slots = slots_of(info.args)
    names = {slot: f"v{i}" for i, slot in enumerate(slots)}
    values = (a, b, c, n, 0)
    quick = eval(check_text(info, names), {f"v{i}": v for i, v in enumerate(values)})
    try:
        explain(info, slots, values)
    except ArgumentError as error:
        assert quick
        return error.message
    return ""


def test_byte_ranges_to_the_byte():
    assert verdict(INFO, 1024, 2048, 1024 + 160, 10) == ""
    assert "A and C overlap in 1 bytes" in verdict(INFO, 1024, 2048, 1024 + 159, 10)
    assert "B and C overlap in 160 bytes" in verdict(INFO, 1024, 4096, 4096, 10)
    assert verdict(INFO, 1024, 1024, 4096, 10) == ""  # neither is written
    assert verdict(INFO, 1024, 2048, 1024 + 16, 0) == ""  # nothing in them
    same = LaunchInfo("k", INFO.args, (), (1, 1, 1), (32, 1, 1), written=("C",), same=(("A", "C"),))
    assert verdict(same, 1024, 2048, 1024, 10) == ""
    assert "B and C" in verdict(same, 1024, 1040, 1024, 10)


def test_null_pointers():
    assert verdict(INFO, 1024, 2048, 0, 0) == ""
    assert "C is a null pointer, and its 160 bytes" in verdict(INFO, 1024, 2048, 0, 10)


def test_the_launch_says_what_it_writes():
    info = add.compile(target="sm_80").launch_info
    assert info.written == ("C",)
    assert LaunchInfo.from_json(info.to_json()) == info
