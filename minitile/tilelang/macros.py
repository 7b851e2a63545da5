"""Names of TileLang's language that are programs in minitile's: their bodies are traced like a user's helper."""

from __future__ import annotations

from typing import Any

import minitile.language as T
from minitile.language.tiles import regions
from minitile.tilelang.language.thread_reduce import combining, dimension, put

UNROLLED = 32  # numbers of T.tvm_thread_allreduce that are added without a loop


def im2col(img: Any, col: Any, nhw_step: Any, c_step: Any, kernel: int, stride: int, dilation: int, pad: int) -> None:
    """The tile (rows nhw_step · M, columns c_step · K, of M × K) of the matrix whose product with the kernels is the
    convolution of `img` (N, H, W, C): a row for each place of the window, a column for each of its elements."""
    _, height, width, depth = img.shape
    block_m, block_k = col.shape
    rows = (height + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    columns = (width + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    for i, j in T.Parallel(block_m, block_k):
        m = nhw_step * block_m + i
        k = c_step * block_k + j
        y = m // columns % rows * stride + k // (kernel * depth) * dilation - pad
        x = m % columns * stride + k // depth % kernel * dilation - pad
        col[i, j] = img[m // (rows * columns), y, x, k % depth]


@regions("target")
def tvm_thread_allreduce(size: Any, source: Any, condition: Any, target: Any, *threads: Any, dtype: str = "") -> None:
    """`target` of each thread becomes `source` combined over the threads that differ from it in the dimension of
    `threads[0]` alone: by shared memory, in the order of the threads. All threads of the block come there. Up to
    UNROLLED numbers are loaded before the first of them is used."""
    dim, combine = dimension(threads[0]), combining()
    sizes = T.get_thread_extents()
    place = T.get_thread_bindings()
    parts = T.alloc_shared(tuple(sizes), source.dtype)
    parts[place[0], place[1], place[2]] = source
    T.sync_threads()
    total = parts[at(place, dim, 0)]
    for n in (T.unroll if sizes[dim] <= UNROLLED else T.serial)(1, sizes[dim]):
        total = combine(total, parts[at(place, dim, n)])
    put(target, total)


def at(place: Any, dim: int, n: Any) -> Any:
    """The place with another index in one dimension."""
    return tuple([n if d == dim else i for d, i in enumerate(place)])
