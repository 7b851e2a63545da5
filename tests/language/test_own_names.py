"""Names that have a scalar before a loop and something else in its body."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError


def test_a_name_that_the_body_makes_its_own():
    """`j` has a value before the loop, which the body does not read: it is not carried, and has none after it."""

    @mt.kernel
    def kernel(X: T.Tensor((4, 64), T.float32), n: T.int32):
        with T.Kernel(1, threads=64):
            for j in T.serial(2):
                X[0, j] = 1.0
            j = T.get_thread_binding() + 0
            for i in T.serial(n):
                if i > 0:
                    for j in T.Parallel(64):
                        X[i, j] = i * 64 + j

    x = np.zeros((4, 64), "f4")
    kernel(x, 4)
    np.testing.assert_array_equal(x[1:], np.arange(64, 256).reshape(3, 64))


def test_a_name_that_the_body_reads_first():
    """There it is carried, and must be a scalar at the end of the body as well."""

    @mt.kernel
    def kernel(X: T.Tensor((4, 64), T.float32), n: T.int32):
        with T.Kernel(1, threads=64):
            j = T.get_thread_binding() + 0
            for i in T.serial(n):
                X[i, j] = 1.0
                for j in T.Parallel(64):
                    X[i, j] = i * 64 + j

    with pytest.raises(LanguageError, match="'j' is a i32 before the loop and no scalar at its end"):
        kernel.trace()
