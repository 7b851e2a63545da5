"""y = W · x, a matrix by a vector, written thread by thread and as tiles.

by_threads: each warp takes `rows` rows of W; a thread loads 16 bytes of each of them and of x at a time, multiplies and
adds in registers, and the warp adds up by shuffles. by_tiles: a block has a tile of W, whose rows a reducer adds up.

Both read W once, which is all that counts: 2·N·K bytes. They are two on purpose: the first is how such kernels are
written by hand, for exact control of who loads what; the second leaves that to the compiler, and is half as long.
"""

import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def by_threads(
    X: T.Tensor(("K",), T.float16),
    W: T.Tensor(("N", "K"), T.float16),
    Y: T.Tensor(("N",), T.float16),
    rows=2,
    warps=4,
    width=8,
):
    N, K = W.shape
    with T.Kernel(T.ceildiv(N, rows * warps), threads=(32, warps)) as bx:
        lane = T.get_thread_binding(0)
        first = (bx * warps + T.get_thread_binding(1)) * rows
        x = T.alloc_local((width,), T.float16)
        w = T.alloc_local((rows, width), T.float16)
        total = T.alloc_local((rows,), T.float32)
        T.clear(total)
        for step in T.serial(T.ceildiv(K, 32 * width)):
            at = (step * 32 + lane) * width
            for k in T.vectorized(width):
                x[k] = X[at + k]
            for row in T.serial(rows):
                for k in T.vectorized(width):
                    w[row, k] = W[first + row, at + k]
            for row in T.serial(rows):
                for k in T.serial(width):
                    total[row] += T.cast(w[row, k], T.float32) * T.cast(x[k], T.float32)
        for row in T.serial(rows):
            total[row] = T.warp_reduce_sum(total[row])
        if lane == 0:
            for row in T.serial(rows):
                Y[first + row] = T.cast(total[row], T.float16)


@mt.kernel
def by_tiles(
    X: T.Tensor(("K",), T.float16),
    W: T.Tensor(("N", "K"), T.float16),
    Y: T.Tensor(("N",), T.float16),
    rows=8,
    columns=512,
    threads=128,
):
    N, K = W.shape
    with T.Kernel(T.ceildiv(N, rows), threads=threads) as bx:
        x = T.alloc_fragment((columns,), T.float16)
        w = T.alloc_fragment((rows, columns), T.float16)
        total = T.alloc_reducer((rows,), T.float32)
        T.clear(total)
        for step in T.serial(T.ceildiv(K, columns)):
            T.copy(X[step * columns], x)
            T.copy(W[bx * rows, step * columns], w)
            for i, j in T.Parallel(rows, columns):
                total[i] += T.cast(w[i, j], T.float32) * T.cast(x[j], T.float32)
        T.finalize_reducer(total)
        T.copy(total, Y[bx * rows])


def run(n: int, k: int, seed: int = 0, kernel=by_threads, **constants) -> float:
    """The relative error of a random n × k matrix by a vector."""
    rng = np.random.default_rng(seed)
    x, w = random(rng, (k,), np.float16), random(rng, (n, k), np.float16)
    y = on_device(poisoned((n,), np.float16))
    kernel(on_device(x), on_device(w), y, **constants)
    return error(y, w.astype(np.float64) @ x.astype(np.float64))


if __name__ == "__main__":
    for n, k in ((1, 1), (5, 17), (17, 1000), (64, 4096)):
        for kernel, how in ((by_threads, "by threads"), (by_tiles, "by tiles")):
            report(f"gemv {how} {n}x{k}", run(n, k, kernel=kernel), 2e-3)
