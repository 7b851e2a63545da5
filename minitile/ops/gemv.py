"""Products of 1 to 8 rows, by threads: a matrix W of N × K by few vectors, where the speed is that of reading W.

A block multiplies some rows of W, a step of K at a time, and each thread the elements that it has loaded; sums meet at
the end. Rows of W are read in vectors of 16 bytes even if they are no whole vectors: eight rows of any bf16 matrix are,
so that rows of one class (the same row mod 8) begin equally far behind such a multiple, and a block takes rows of one
class. It begins where the vector begins:

    row 8g + c      |.. .. .. w0 w1|w2 … w9|…       s = c·K mod 8 = 3 elements in front, | is a multiple of 16 bytes
    x               |0  0  0  x0 x1|x2 … x9|…       x is read with the same shift, once for all of the block's rows:
                                                    its rows begin elsewhere, so that 8 of it come from two vectors

What lies in front of a row and behind it belongs to other rows, and counts as zeros. The last rows, fewer than eight,
are read element by element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.epilogue import Epilogue, extra_tensors, named
from minitile.ops.gemm import finished
from minitile.ops.plan import VECTOR, Problem

MOST_VECTORS = 8


class Form(NamedTuple):
    """Which operand is the matrix: B, or, mirrored, A. turned: the vectors are columns."""

    turned: bool
    mirrored: bool


def by_threads(problem: Problem) -> Form | None:
    """How a problem is one of few vectors by a matrix whose rows lie along K; None where it is not."""
    if problem.size != 2 or problem.products > 1:
        return None
    if problem.m <= MOST_VECTORS and problem.transpose_b:
        return Form(problem.transpose_a, False)
    if problem.n <= MOST_VECTORS and not problem.transpose_a:
        return Form(not problem.transpose_b, True)
    return None


def take(C, q, n, value, mirrored, epilogue, tensors):
    """C gets the product of vector q and row n of W."""
    m, n = (n, q) if mirrored else (q, n)
    C[m, n] = finished(value, m, n, epilogue, tensors)


def element(X, q, k, turned):
    """Of vector q; turned: vectors are columns."""
    if turned:
        return X[k, q]
    return X[q, k]


def vector_of(X, Xs, q, first, shift, columns, turned, x, cut):
    """x = the numbers of vector q from first - shift on, zeros in front of the vector and behind it. Xs: all vectors in
    one row, where they begin anywhere, so that they are read by vectors; None: they are not. cut: whether some of the
    numbers may be outside."""
    if Xs is None:
        for j in T.Parallel(columns):
            x[j] = T.cast(element(X, q, first + j - shift, turned), T.float32)
    else:
        K = X.shape[1]
        loaded = T.alloc_fragment((columns,), X.dtype)
        T.copy(Xs[q * K + first - shift], loaded)
        for j in T.Parallel(columns):
            x[j] = T.cast(loaded[j], T.float32)
        if cut:
            for j in T.Parallel(columns):
                k = first + j - shift
                x[j] = T.if_then_else(k >= 0 and k < K, x[j], 0.0)


def add_products(total, w, x, alone):
    """total[i] += the products of row i of w and x. Threads add those of a vector's elements to each other first: one
    partial sum for each vector takes few registers, so that more blocks are at work, and more is on its way. alone:
    there is no other x; then a sum for each element takes no more registers, and fewer additions."""
    rows, columns = w.shape
    if alone:
        for i, j in T.Parallel(rows, columns):
            total[i] += T.cast(w[i, j], T.float32) * x[j]
    else:
        shape = rows, columns // VECTOR, VECTOR
        by_vectors, of_x = T.reshape(w, shape), T.reshape(x, shape[1:])
        products = T.alloc_fragment(shape, T.float32)
        sums = T.alloc_fragment(shape[:2], T.float32)
        for i, g, j in T.Parallel(*shape):
            products[i, g, j] = T.cast(by_vectors[i, g, j], T.float32) * of_x[g, j]
        T.reduce_sum(products, sums, dim=2)
        for i, g in T.Parallel(*shape[:2]):
            total[i] += sums[i, g]


def whole_classes(X, Xs, W, C, K, by, c, part, rows, columns, per, classes, turned, mirrored, epilogue, tensors):
    """Rows by · rows … of class c, by `per` vectors."""
    behind = c * K // VECTOR * VECTOR
    shift = c * K - behind
    steps = T.ceildiv(K + shift, columns)
    x = T.alloc_fragment((columns,), T.float32)
    w = T.alloc_fragment((rows, columns), W.dtype)
    total = [T.alloc_reducer((rows,), T.float32) for _ in range(per)]
    for q in T.unroll(per):
        T.clear(total[q])
    for step in T.serial(steps):
        T.copy(W[by * rows, behind + step * columns], w)
        if classes > 1 and (step == 0 or step == steps - 1):
            for i, j in T.Parallel(rows, columns):
                k = step * columns + j - shift
                w[i, j] = T.if_then_else(k >= 0 and k < K, w[i, j], T.cast(0.0, W.dtype))
        for q in T.unroll(per):
            vector_of(X, Xs, part * per + q, step * columns, shift, columns, turned, x, step == 0 or step == steps - 1)
            add_products(total[q], w, x, per == 1)
    for q in T.unroll(per):
        T.finalize_reducer(total[q])
        for i in T.Parallel(rows):
            if by * rows + i < W.shape[0] and part * per + q < C.shape[1 if mirrored else 0]:
                take(C, part * per + q, (by * rows + i) * classes + c, total[q][i], mirrored, epilogue, tensors)


def last_row(X, V, C, K, row, part, columns, per, turned, mirrored, epilogue, tensors):
    """One of the rows behind the whole classes, if there is such a one."""
    v = T.alloc_fragment((columns,), V.dtype)
    x = T.alloc_fragment((columns,), T.float32)
    total = [T.alloc_reducer((1,), T.float32) for _ in range(per)]
    for q in T.unroll(per):
        T.clear(total[q])
    for step in T.serial(T.ceildiv(K, columns)):
        T.copy(V[row, step * columns], v)
        for q in T.unroll(per):
            for j in T.Parallel(columns):
                x[j] = T.cast(element(X, part * per + q, step * columns + j, turned), T.float32)
            for j in T.Parallel(columns):
                total[q][0] += T.cast(v[j], T.float32) * x[j]
    for q in T.unroll(per):
        T.finalize_reducer(total[q])
        for i in T.Parallel(1):
            if row < V.shape[0] and part * per + q < C.shape[1 if mirrored else 0]:
                take(C, part * per + q, row + i, total[q][i], mirrored, epilogue, tensors)


def products_by_vectors(
    X, W, V, Xs, C, block_M, block_N, block_K, threads, classes, turned, mirrored, epilogue, tensors
):  # fmt: skip
    """The body of `gemv`."""
    K, count = X.shape[0 if turned else 1], C.shape[1 if mirrored else 0]
    whole = T.ceildiv(W.shape[0], block_N)
    left = 1 if classes > 1 else 0
    with T.Kernel(T.ceildiv(count, block_M), classes, whole + left, threads=threads) as (part, c, by):
        T.pdl_trigger()
        T.pdl_sync()
        how = block_M, turned, mirrored, epilogue, tensors
        if classes == 1:
            whole_classes(X, Xs, W, C, K, by, c, part, block_N, block_K, block_M, classes, *how[1:])
        else:
            if by < whole:
                whole_classes(X, Xs, W, C, K, by, c, part, block_N, block_K, block_M, classes, *how[1:])
            else:
                last_row(X, V, C, K, W.shape[0] * classes + c, part, 8 * threads, *how)


@lru_cache
def gemv(dtype: DType, result: DType, turned: bool, mirrored: bool, epilogue: Epilogue | None = None) -> Kernel:
    """C = X · Wᵀ; mirrored: C = W · Xᵀ. X is M × K (mirrored: N × K), turned: K × M (K × N).

    W is N × K (mirrored: M × K), seen as G × L: rows of `classes` times K elements, as many as there are whole ones;
    where there are several classes, V is all of W as it is, and Xs all of X in one row, if it is not turned. A block
    has block_N of W's rows by block_M vectors, block_K of K at a time. epilogue: what is made of the sums; then the
    kernel has its tensors at the end.
    """
    few, many = ("N", "M") if mirrored else ("M", "N")
    x_dims = ("K", few) if turned else (few, "K")
    extras = extra_tensors(epilogue)

    @kernel
    @named(epilogue)
    def gemv(
        X: T.Tensor(x_dims, dtype),
        W: T.Tensor(("G", "L"), dtype),
        C: T.Tensor(("M", "N"), result),
        V: T.Tensor((many, "K"), dtype) | None = None,
        Xs: T.Tensor(("F",), dtype) | None = None,
        E0: T.Tensor(*extras[0]) | None = None,
        E1: T.Tensor(*extras[1]) | None = None,
        E2: T.Tensor(*extras[2]) | None = None,
        E3: T.Tensor(*extras[3]) | None = None,
        block_M=1,
        block_N=4,
        block_K=512,
        threads=128,
        classes=1,
    ):
        tensors = [E for E in (E0, E1, E2, E3) if E is not None]
        products_by_vectors(
            X, W, V, Xs, C, block_M, block_N, block_K, threads, classes, turned, mirrored, epilogue, tensors
        )

    return gemv
