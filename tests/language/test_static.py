"""T.static_assert and T.static_print: what is decided, and said, while a kernel is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def copied(A: T.Tensor(("N", 64), T.float32), B: T.Tensor(("N", 64), T.float32), rows=4):
    T.static_assert(rows % 4 == 0, "rows are copied by fours")
    T.static_print("rows", rows, A.shape[1], A.shape[0], np.int64(3), sep=",")
    with T.Kernel(T.ceildiv(A.shape[0], rows), threads=64) as bx:
        for i, j in T.Parallel(rows, 64):
            B[bx * rows + i, j] = A[bx * rows + i, j]


@mt.kernel
def checks_at_run_time(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(1, threads=32):
        T.static_assert(A.shape[0] > 3)


@mt.kernel
def fails_without_words(A: T.Tensor((4,), T.float32)):
    with T.Kernel(1, threads=32):
        T.static_assert(A.shape[0] == 5)


def test_what_holds_leaves_nothing(capsys):
    text = copied.compile(target="sm_80").asm["ptx"]
    assert capsys.readouterr().out == "rows,4,64,<run-time i32 N>,3\n"
    assert "trap" not in text
    assert "printf" not in text


def test_what_does_not_hold_is_an_error_at_its_line():
    with pytest.raises(mt.MinitileError, match=r"^T\.static_assert failed: rows are copied by fours\n") as caught:
        copied.compile(target="sm_80", rows=np.int32(6))
    assert caught.value.loc.excerpt().strip().startswith('T.static_assert(rows % 4 == 0, "rows are copied by fours")')
    with pytest.raises(mt.MinitileError, match=r"^T\.static_assert failed\n"):
        fails_without_words.compile(target="sm_80")


def test_of_a_run_time_value():
    with pytest.raises(mt.MinitileError, match="which is known at run time only") as caught:
        checks_at_run_time.compile(target="sm_80")
    assert "T.device_assert" in caught.value.hint


def test_outside_a_kernel():
    with pytest.raises(mt.MinitileError):
        T.static_assert(True)


def test_numbers_of_numpy_are_numbers():
    d, rows, true = np.int64(8), np.int64(16), np.bool_(True)

    @mt.kernel(target="sm_80")
    def kernel(A: T.Tensor((np.int32(16), d), np.float32), n: T.int32, g: T.float32, block=rows, flag=true):
        with T.Kernel(np.int64(1), threads=np.int32(64)):
            for i, j in T.Parallel(block, d):
                if flag:
                    A[i, j] = g + T.cast(n, T.float32)

    a = np.zeros((16, 8), np.float32)
    kernel(a, np.int16(3), np.float16(0.5))
    assert (a == 3.5).all()
    kernel(a, np.array(4), np.array(0.5), block=np.uint8(8), flag=np.True_)
    assert (a[:8] == 4.5).all()
    assert (a[8:] == 3.5).all()
    assert len(kernel._table) == 2
    kernel(a, 4, 0.25, block=8)
    assert len(kernel._table) == 2  # 8 and np.uint8(8) are one specialisation
    with pytest.raises(mt.MinitileError, match="n is a i32 scalar"):
        kernel(a, np.float32(3.5), 1.0)
