"""Programs whose accumulators are written by products and by ordinary instructions: by elementwise operations, fills,
copies, in loops and branches around and between the products. What each computes, in NumPy.

All have one signature: A of M×K, B of K×32, two switches X, the result C, the number n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minitile as mt
import minitile.language as T

N, STEP = 32, 32
Array = np.ndarray[Any, Any]
Expected = Callable[[Array, Array, Array, int], Array]
PROGRAMS: dict[str, tuple[mt.Kernel, Expected]] = {}

SIGNATURE = {
    "A": T.Tensor(("M", "K"), T.bfloat16),
    "B": T.Tensor(("K", N), T.bfloat16),
    "X": T.Tensor((2,), T.int32),
    "C": T.Tensor(("M", N), T.float32),
    "n": T.int32,
}


def program(expected: Expected) -> Callable[[Callable[..., None]], None]:
    def add(function: Callable[..., None]) -> None:
        function.__annotations__ = dict(SIGNATURE)
        PROGRAMS[function.__name__] = mt.kernel(function), expected

    return add


def steps(a: Array, b: Array) -> list[Array]:
    """The products of each step of K."""
    return [a[:, k : k + STEP] @ b[k : k + STEP] for k in range(0, a.shape[1], STEP)]


@T.macro
def multiply(A, B, acc, stages=2):
    a = T.alloc_shared((64, STEP), A.dtype)
    b = T.alloc_shared((STEP, N), A.dtype)
    for k in T.Pipelined(T.ceildiv(A.shape[1], STEP), num_stages=stages):
        T.copy(A[0, k * STEP], a)
        T.copy(B[k * STEP, 0], b)
        T.gemm(a, b, acc)


@T.macro
def multiply_once(A, B, acc):
    a = T.alloc_shared((64, STEP), A.dtype)
    b = T.alloc_shared((STEP, N), A.dtype)
    T.copy(A[0, 0], a)
    T.copy(B[0, 0], b)
    T.gemm(a, b, acc)


@T.macro
def add_one(acc):
    for i, j in T.Parallel(64, N):
        acc[i, j] = acc[i, j] + 1.0


# Ways that meet in front of a loop which leaves a product in flight -------------------------------------------------


@program(lambda a, b, x, n: n + a @ b)
def filled_by_a_loop(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        for _i in T.serial(n):
            add_one(acc)
        multiply(A, B, acc)
        T.copy(acc, C[0, 0])


@program(lambda a, b, x, n: (steps(a, b)[0] if x[0] > 0 else 0) + a @ b)
def filled_by_a_branch(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        if X[0] > 0:
            multiply_once(A, B, acc)
        multiply(A, B, acc)
        T.copy(acc, C[0, 0])


def _written_between(a: Array, b: Array, x: Array, n: int) -> Array:
    return n * (a[:, :STEP] @ b[:STEP] + a[:, :STEP] @ b[STEP : 2 * STEP] + 1)


@program(_written_between)
def operand_written_between(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        a = T.alloc_shared((64, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        c = T.alloc_shared((STEP, N), A.dtype)
        T.copy(A[0, 0], a)
        T.copy(B[0, 0], b)
        for _i in T.serial(n):
            T.gemm(a, b, acc)
            T.copy(B[STEP, 0], c)
            add_one(acc)
            T.gemm(a, c, acc)
        T.copy(acc, C[0, 0])


@program(lambda a, b, x, n: (x[0] > 0) * n * (a[:, :STEP] @ b[:STEP]) + sum(steps(a, b)[: max(n, 1)]))
def filled_before_a_loop_that_runs(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        if X[0] > 0:
            for _i in T.serial(n):
                multiply_once(A, B, acc)
        a = T.alloc_shared((64, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        for k in T.Pipelined(T.max(n, 1), num_stages=4):
            T.copy(A[0, k * STEP], a)
            T.copy(B[k * STEP, 0], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[0, 0])


@program(lambda a, b, x, n: a @ b if x[0] > 0 else np.full((64, N), n))
def filled_in_the_other_branch(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        for _t in T.serial(2):
            acc = T.alloc_fragment((64, N), T.float32)
            T.clear(acc)
            if X[0] > 0:
                multiply(A, B, acc, 4)
            else:
                for _i in T.serial(n):
                    add_one(acc)
                    if X[1] > 0:
                        multiply_once(A, B, acc)
            T.copy(acc, C[0, 0])


# The next turn would begin with the wait ----------------------------------------------------------------------------


@program(lambda a, b, x, n: 3 + x[0] * (a @ b) + sum(a[:, :STEP] @ b[k : k + STEP] for k in range(0, len(b), STEP)))
def one_slot(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        first = T.alloc_shared((64, STEP), A.dtype)
        second = T.alloc_shared((STEP, N), A.dtype)
        for k in T.Pipelined(T.ceildiv(A.shape[1], STEP), num_stages=2):
            T.copy(A[0, k * STEP], first)
            T.copy(B[k * STEP, 0], second)
            if X[0] > 0:
                T.gemm(first, second, acc)
            add_one(acc)
        a = T.alloc_shared((64, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        T.copy(A[0, 0], a)
        for k in T.Pipelined(T.ceildiv(A.shape[1], STEP), num_stages=0):
            T.copy(B[k * STEP, 0], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[0, 0])


@program(lambda a, b, x, n: n + a @ b)
def a_ring_and_a_buffer(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        for _i in T.serial(n):
            add_one(acc)
        a = T.alloc_shared((64, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        for k in T.Pipelined(T.ceildiv(A.shape[1], STEP), num_stages=2):
            for i, j in T.Parallel(64, STEP):
                a[i, j] = A[i, k * STEP + j]
            T.copy(B[k * STEP, 0], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[0, 0])


# Another accumulator is touched while a product is in flight -------------------------------------------------------


def _beside(a: Array, b: Array, x: Array, n: int) -> Array:
    return 2 * n + (n + x[0]) * steps(a, b)[0]


@program(_beside)
def beside_in_a_loop(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        other = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        T.clear(other)
        for _i in T.serial(n):
            multiply_once(A, B, other)
            add_one(acc)
            add_one(acc)
        for _k in T.serial(X[0]):
            multiply_once(A, B, acc)
        for i, j in T.Parallel(64, N):
            acc[i, j] = acc[i, j] + other[i, j]
        T.copy(acc, C[0, 0])


def _in_a_branch(a: Array, b: Array, x: Array, n: int) -> Array:
    one = steps(a, b)[0]
    return sum((one + (1 + one if x[0] > 0 else 0) for _ in range(n)), np.zeros_like(one))


@program(_in_a_branch)
def beside_in_a_branch_of_a_while(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        other = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        T.clear(other)
        w = n
        while w > 0:
            w = w - 1
            if X[0] > 0:
                multiply_once(A, B, other)
                add_one(acc)
            multiply_once(A, B, acc)
        for i, j in T.Parallel(64, N):
            acc[i, j] = acc[i, j] + other[i, j]
        T.copy(acc, C[0, 0])


def _rotated(a: Array, b: Array, x: Array, n: int) -> Array:
    acc = other = np.zeros((64, N))
    for one in steps(a, b):
        acc, other = acc + one, acc
    return acc + 2 * other


@program(_rotated)
def copied_at_the_back_edge(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        other = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        T.clear(other)
        a = T.alloc_shared((64, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        for k in T.Pipelined(T.ceildiv(A.shape[1], STEP), num_stages=2):
            T.copy(A[0, k * STEP], a)
            T.copy(B[k * STEP, 0], b)
            T.copy(acc, other)
            T.gemm(a, b, acc)
        for i, j in T.Parallel(64, N):
            acc[i, j] = acc[i, j] + 2.0 * other[i, j]
        T.copy(acc, C[0, 0])


def _made_anew(a: Array, b: Array, x: Array, n: int) -> Array:
    return a @ b + n * steps(a, b)[-1]


@program(_made_anew)
def made_anew_each_turn(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((64, N), T.float32)
        other = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        T.clear(other)
        a = T.alloc_shared((64, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        for k in T.Pipelined(T.ceildiv(A.shape[1], STEP), num_stages=3):
            T.copy(A[0, k * STEP], a)
            T.copy(B[k * STEP, 0], b)
            T.gemm(a, b, acc)
            T.clear(other)
            T.gemm(a, b, other)
        for _i in T.serial(n):
            for i, j in T.Parallel(64, N):
                acc[i, j] = acc[i, j] + other[i, j]
        T.copy(acc, C[0, 0])


# A in registers -----------------------------------------------------------------------------------------------------


@program(lambda a, b, x, n: np.full((128, STEP), n) @ b[:STEP])
def equal_blocks_of_rows(A, B, X, C, n):
    with T.Kernel(1, threads=128) as _:
        acc = T.alloc_fragment((128, N), T.float32)
        w = T.alloc_fragment((128, STEP), A.dtype)
        b = T.alloc_shared((STEP, N), A.dtype)
        T.clear(acc)
        for i, j in T.Parallel(128, STEP):
            w[i, j] = T.cast(n, A.dtype)
        T.copy(B[0, 0], b)
        T.gemm(w, b, acc)
        T.copy(acc, C[0, 0])
