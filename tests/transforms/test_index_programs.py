"""Index arithmetic in odd ways: what kernels compute from block indices, dimensions and scalars, against Python's own
integers, for sizes whose products 32 bits hold and for sizes where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.core.sparse import zeros
from tests.examples.thinned import thinned

TARGETS = ["sm_80", "gfx942"]
BLOCKS, LANES = 3, 32

PROGRAMS = [
    lambda b, t, N, M, n: b * N + t,
    lambda b, t, N, M, n: b * N - t,
    lambda b, t, N, M, n: (b * N + t) // 7,
    lambda b, t, N, M, n: (b * N + t) % 1000,
    lambda b, t, N, M, n: (N - 1 - b) * M + t,
    lambda b, t, N, M, n: b * M * 1000 * n,
    lambda b, t, N, M, n: t - b * N,
    lambda b, t, N, M, n: (t - b) * N,
    lambda b, t, N, M, n: N // (b + 1),
    lambda b, t, N, M, n: (N + b) % (t + 1),
    lambda b, t, N, M, n: N * M,
    lambda b, t, N, M, n: n * N + b,
    lambda b, t, N, M, n: n * b * 1000 + t,
    lambda b, t, N, M, n: n * n,
    lambda b, t, N, M, n: (n + 5) % 7 + n // 3 * 3,
    lambda b, t, N, M, n: min(b * N, n) if isinstance(b, int) else T.min(b * N, n),
    lambda b, t, N, M, n: max(b * N - n, 0) if isinstance(b, int) else T.max(b * N - n, 0),
    lambda b, t, N, M, n: abs(t * N - b * n),
    lambda b, t, N, M, n: (b * N) >> 3,
    lambda b, t, N, M, n: (b * N) & 255,
    lambda b, t, N, M, n: (b << 28) * 5 + t,
    lambda b, t, N, M, n: t << 27,
    lambda b, t, N, M, n: (t * 268435456) // 3,
    lambda b, t, N, M, n: (-N - t) // 3,
    lambda b, t, N, M, n: (-N - t) % 7,
    lambda b, t, N, M, n: (b * 1073741823 + 5) * (t + 1),
    lambda b, t, N, M, n: N - n * 2,
    lambda b, t, N, M, n: (N // M) * M + N % M,
    lambda b, t, N, M, n: (b * N + t) ^ 3,
    lambda b, t, N, M, n: (b * N) | 1,
    lambda b, t, N, M, n: ~(b * N),
    lambda b, t, N, M, n: (N + 127) // 128 * 128 - N,
    lambda b, t, N, M, n: (b * N + t) * 2 - N * b,
    lambda b, t, N, M, n: (N - b * 128) // 128,
    lambda b, t, N, M, n: (b - 1) * (n + N),
    lambda b, t, N, M, n: (N * 3 // 2 + b) // (M + 1),
    lambda b, t, N, M, n: -(-N // 3) * (b + t),
    lambda b, t, N, M, n: (b * n + t) // 5 - (b * n + t) % 5,
    lambda b, t, N, M, n: (t % 5 - 2) * n * 3,
    lambda b, t, N, M, n: ((N - 1) // 2 + (N - 1) // 2 + 1) * (b + 1),
]


def wrapped(number: int) -> int:
    """In 64 bits: some of the products are more."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def make(target, programs):
    @mt.kernel(target=target)
    def kernel(
        X: T.Tensor(("N",), T.uint8),
        Y: T.Tensor(("M",), T.uint8),
        n: T.int32,
        C: T.Tensor((len(programs), BLOCKS, LANES), T.int64),
    ):
        N, M = X.shape[0], Y.shape[0]
        with T.Kernel(BLOCKS, threads=64) as b:
            for t in T.Parallel(LANES):
                for k, program in enumerate(programs):
                    C[k, b, t] = program(b, t, N, M, n)

    return kernel


CASES = [(1000, 7, 12), (1 << 20, 513, -77), (1 << 29, 1 << 15, 1 << 20), (7, 5, (1 << 31) - 1), (7, 5, -(1 << 31))]
LARGE = [((1 << 31) + 1, (1 << 30) + 7, 12), ((1 << 33) - 5, 129, (1 << 31) - 1)]


@pytest.mark.parametrize(("part", "target"), thinned(range(4), TARGETS))
def test_against_python(part, target):
    programs = PROGRAMS[part::4]
    kernel = make(target, programs)
    for N, M, n in CASES + LARGE:
        C = np.zeros((len(programs), BLOCKS, LANES), np.int64)
        kernel(zeros(N, np.uint8), zeros(M, np.uint8), n, C)
        for k, program in enumerate(programs):
            wanted = [[wrapped(program(b, t, N, M, n)) for t in range(LANES)] for b in range(BLOCKS)]
            np.testing.assert_array_equal(C[k], np.array(wanted, np.int64), f"{part + 4 * k}: N={N} M={M} n={n}")
