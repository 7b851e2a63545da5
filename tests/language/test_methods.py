"""Kernels in classes, and parameters that say nothing of what they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@dataclass
class Scaled:
    factor: float
    block: int = 64

    def of(self, x):
        return x * self.factor

    @mt.kernel
    def run(self, A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), more=1):
        with T.Kernel(T.ceildiv(A.shape[0], self.block), threads=self.block) as bx:
            for i in T.Parallel(self.block):
                B[bx * self.block + i] = self.of(A[bx * self.block + i]) + more


class Plain:
    @staticmethod
    @mt.kernel
    def run(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i]


@pytest.fixture(autouse=True)
def on_sm_80(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_80")


def test_a_method_is_a_kernel_of_its_object():
    a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    two, five = Scaled(2.0), Scaled(5.0, 32)
    two.run(a, b)
    assert np.array_equal(b, 2 * a + 1)
    five.run(a, b, more=3)
    assert np.array_equal(b, 5 * a + 3)
    two.factor = 3.0  # what the object holds is compiled in, and looked at again
    two.run(a, b)
    assert np.array_equal(b, 3 * a + 1)
    assert two.run is two.run
    assert five.run.compile(target="sm_80").launch_info.block == (32, 1, 1)
    Plain().run(a, b)
    assert np.array_equal(b[:64], a[:64])


def test_a_methods_errors_count_its_arguments_as_a_call_does():
    with pytest.raises(mt.MinitileError, match="the kernel run lacks the argument 'B'"):
        Scaled(2.0).run(np.zeros(4, np.float32))


@mt.kernel
def unsaid(A, B: T.Tensor(("N",), T.float32)):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i]


def test_an_array_for_a_parameter_without_annotation():
    with pytest.raises(mt.MinitileError) as caught:
        unsaid(np.zeros((50, 100)), np.zeros(64, np.float32))
    assert "is given an array for 'A' (shape (50, 100), float64)" in str(caught.value)
    assert "annotate it: A: T.Tensor(" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_what_has_no_hash_is_shown_in_short():
    with pytest.raises(mt.MinitileError) as caught:
        unsaid(list(range(10000)), np.zeros(64, np.float32))
    assert "A=[0, 1, 2, 3, 4, 5, ...]" in str(caught.value)
