"""The kernels of `matmul`: a GEMM for any combination of transposes, and two helpers around it.

`gemm` is one text for every plan: persistent or one block a tile, and K whole or `split`. `padded`
copies an operand into longer rows of whole lines, 128 bytes, which the copy engine wants. What lies outside of a tensor
reads as zeros and adds nothing. Each kernel is set up while the one in front of it in the stream ends (T.pdl_sync),
which is a good part of what a small product takes (`in_order`).
"""

from __future__ import annotations

from functools import lru_cache

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.epilogue import Epilogue, extra_tensors, named
from minitile.ops.plan import HILBERT

AT_ONCE = 4  # parts that are on their way before they are added


def operand_dims(transpose_a: bool, transpose_b: bool, loose: bool) -> tuple[tuple[str, str], tuple[str, str]]:
    """The dimensions of A and of B by name; with `loose` they have none in common."""
    a, b = (("A0", "A1"), ("B0", "B1")) if loose else (("M", "K"), ("K", "N"))
    return a[::-1] if transpose_a else a, b[::-1] if transpose_b else b


def in_order(loose, short, ahead=()):
    """Waits for the kernel in front, and says when the next one may be set up. That one's blocks take the room that
    they find and then wait: if they come early, they are ill distributed over the multiprocessors, which costs a
    long product more than it gains, most where clusters want neighbours. So they come at once where a block's work is
    `short`, all of it on its way from the start; else towards the end. Where products come with helpers, only the end
    of each lets the next one start, which would take its room. ahead: tensors that need not wait."""
    if not loose and short:
        T.pdl_trigger()
    T.pdl_sync(ahead=ahead)


def whole(tiles, share):
    """So many tiles, or more: as clusters have them."""
    return tiles if share == 1 else T.ceildiv(tiles, share) * share


def accumulate(
    A, B, A_shared, B_shared, C_local, row, column, first, last, stages, transpose_a, transpose_b, swap
):  # fmt: skip
    """C_local = the products of the steps `first` to `last` of K, for the tile of C that begins at row, column."""
    deep = A_shared.shape[0 if transpose_a else 1]
    T.clear(C_local)
    for k in T.Pipelined(first, last, num_stages=stages):
        if transpose_a:
            T.copy(A[k * deep, row], A_shared)
        else:
            T.copy(A[row, k * deep], A_shared)
        if transpose_b:
            T.copy(B[column, k * deep], B_shared)
        else:
            T.copy(B[k * deep, column], B_shared)
        if swap:
            T.gemm(B_shared, A_shared, C_local, transpose_A=not transpose_b, transpose_B=not transpose_a)
        else:
            T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_a, transpose_B=transpose_b)


def finished(x, m, n, epilogue, tensors):
    """What the epilogue makes of the sum of row m and column n."""
    if epilogue is None:
        return x
    found = [at(tensor, extra, m, n) for tensor, extra in zip(tensors, epilogue.extras, strict=True)]
    made = epilogue.function(x, *[found.pop(0) if number is None else number for number in epilogue.numbers])
    T.static_assert(made is not None, "the epilogue gives None, not a number")
    return made


def at(tensor, extra, m, n):
    """A tensor's number for an element of C, as f32."""
    return T.cast(tensor[m if extra.dims[0] == "M" else 0, n if extra.dims[1] == "N" else 0], T.float32)


def stored(C, C_local, row, column, swap, epilogue, tensors):
    """The tile of C that begins at row, column: its sums, or what the epilogue makes of them."""
    if epilogue is not None:
        for i, j in T.Parallel(*C_local.shape):
            m, n = (j, i) if swap else (i, j)
            C_local[i, j] = finished(C_local[i, j], row + m, column + n, epilogue, tensors)
    if swap:
        for n, m in T.Parallel(*C_local.shape):
            C[row + m, column + n] = C_local[n, m]
    else:
        T.copy(C_local, C[row, column])


def products(
    A, B, C, block_M, block_N, block_K, stages, threads, panel, blocks, teams, swap, share, share_rows, ahead,
    transpose_a, transpose_b, split, loose, epilogue, tensors,
):  # fmt: skip
    """The body of `gemm`."""
    M, N = C.shape[-2:]
    S = C.shape[0] if split else 1
    rows, columns = T.ceildiv(M, block_M), T.ceildiv(N, block_N)
    early = (B,) if ahead else ()
    steps = T.ceildiv(A.shape[0] if transpose_a else A.shape[1], block_K)

    def multiply(part, by, bx, A_shared, B_shared, C_local):
        first, last = (part * steps // S, (part + 1) * steps // S) if split else (0, steps)
        accumulate(
            A, B, A_shared, B_shared, C_local, by * block_M, bx * block_N,
            first, last, stages, transpose_a, transpose_b, swap,
        )  # fmt: skip
        if not blocks and not loose:
            T.pdl_trigger()
        if swap and split:
            for n, m in T.Parallel(block_N, block_M):
                C[part, by * block_M + m, bx * block_N + n] = C_local[n, m]
        elif split:
            T.copy(C_local, C[part, by * block_M, bx * block_N])
        else:
            stored(C, C_local, by * block_M, bx * block_N, swap, epilogue, tensors)

    a_shape = (block_K, block_M) if transpose_a else (block_M, block_K)
    b_shape = (block_N, block_K) if transpose_b else (block_K, block_N)
    c_tile = (block_N, block_M) if swap else (block_M, block_N)
    if blocks:
        with T.Kernel(blocks, threads=threads, cluster=share * share_rows) as block:
            in_order(loose, rows * columns * steps <= stages * blocks, early)
            A_shared = T.alloc_shared(a_shape, A.dtype)
            B_shared = T.alloc_shared(b_shape, B.dtype)
            C_local = T.alloc_fragment(c_tile, T.float32)
            tiles = [rows, columns] if share == 1 else [columns, rows]  # a cluster's go along the first
            domain = [S, *tiles] if split else tiles
            order = "hilbert" if panel == HILBERT else "row"
            for where in T.Persistent(domain, blocks, block, max(panel, 1), teams, order=order):
                part, y, x = where if split else (0, *where)
                by, bx = (y, x) if share == 1 else (x, y)
                multiply(part, by, bx, A_shared, B_shared, C_local)
            if split:
                T.pdl_trigger()
    else:
        across, down = whole(columns, share), whole(rows, share_rows)
        with T.Kernel(across, down, S, threads=threads, cluster=(share, share_rows)) as (bx, by, part):
            in_order(loose, steps <= stages, early)
            if panel:
                T.use_swizzle(max(panel, 1), "hilbert" if panel == HILBERT else "row")
            A_shared = T.alloc_shared(a_shape, A.dtype)
            B_shared = T.alloc_shared(b_shape, B.dtype)
            C_local = T.alloc_fragment(c_tile, T.float32)
            multiply(part, by, bx, A_shared, B_shared, C_local)
            if split:
                T.pdl_trigger()


@lru_cache
def gemm(
    dtype: DType,
    result: DType,
    transpose_a: bool,
    transpose_b: bool,
    split: bool,
    loose: bool,
    epilogue: Epilogue | None = None,
) -> Kernel:
    """C = op(A) · op(B) with sums in f32, op the identity or the transpose.

    A is M × K (K × M where transposed), B is K × N (N × K), C is M × N; with `split` C is S × M × N, and part s of K
    gives C[s]. With blocks = 0 there is a block for each tile, else so many persistent blocks; `panel` is the height
    in tiles of the panels in which tiles are visited, 0 for row by row (persistent kernels always have panels), HILBERT
    for the curve. With `loose` A and B may be larger than the product needs. teams: of a persistent kernel, see
    T.Persistent. swap: the tensor cores' rows, which come by 64, are columns of C. share: blocks with neighbouring
    columns that are a cluster, and bring A together; share_rows: with neighbouring rows, which bring B together. With
    `blocks` there is one of the two. ahead: B does not come from the kernel in front. epilogue: what is
    made of the sums; then the kernel has its tensors behind C.
    """
    a_dims, b_dims = operand_dims(transpose_a, transpose_b, loose)
    c_shape = ("S", "M", "N") if split else ("M", "N")
    how = transpose_a, transpose_b, split, loose
    extras = extra_tensors(epilogue)

    @kernel
    @named(epilogue)
    def gemm(
        A: T.Tensor(a_dims, dtype),
        B: T.Tensor(b_dims, dtype),
        C: T.Tensor(c_shape, result),
        E0: T.Tensor(*extras[0]) | None = None,
        E1: T.Tensor(*extras[1]) | None = None,
        E2: T.Tensor(*extras[2]) | None = None,
        E3: T.Tensor(*extras[3]) | None = None,
        block_M=128,
        block_N=128,
        block_K=64,
        stages=4,
        threads=256,
        panel=0,
        blocks=0,
        teams=1,
        swap=False,
        share=1,
        share_rows=1,
        ahead=False,
    ):
        tile = block_M, block_N, block_K, stages, threads
        tensors = [E for E in (E0, E1, E2, E3) if E is not None]
        products(A, B, C, *tile, panel, blocks, teams, swap, share, share_rows, ahead, *how, epilogue, tensors)

    return gemm


ROOM = 4096  # elements of a block of `padded`
COLUMNS = (32, 64, 128, 256)  # of one


@lru_cache
def padded(dtype: DType, x_columns: int, z_columns: int = 0, early: bool = False) -> Kernel:
    """Y, at least as large as X in both dimensions, becomes X with zeros behind its rows and below its columns; with
    `z_columns` a second pair does, W and Z. x_columns, z_columns: of a block, see `columns_for`. early: of one pair,
    set up while the kernel in front ends."""

    def pad(X, Y, block, columns):
        across, rows = T.ceildiv(Y.shape[1], columns), ROOM // columns
        by, bx = block // across, block % across
        part = T.alloc_fragment((rows, columns), dtype)
        T.copy(X[by * rows, bx * columns], part)
        T.copy(part, Y[by * rows, bx * columns])

    def blocks(Y, columns):
        return T.ceildiv(Y.shape[1], columns) * T.ceildiv(Y.shape[0], ROOM // columns)

    if not z_columns:

        @kernel
        def padded(X: T.Tensor(("M", "K"), dtype), Y: T.Tensor(("R", "L"), dtype)):
            with T.Kernel(blocks(Y, x_columns), threads=256) as block:
                if early:
                    T.pdl_sync()
                T.pdl_trigger()
                pad(X, Y, block, x_columns)

        return padded

    @kernel
    def padded_pair(
        X: T.Tensor(("M", "K"), dtype),
        Y: T.Tensor(("R", "L"), dtype),
        Z: T.Tensor(("M2", "K2"), dtype),
        W: T.Tensor(("R2", "L2"), dtype),
    ):
        first = blocks(Y, x_columns)
        with T.Kernel(first + blocks(W, z_columns), threads=256) as block:
            T.pdl_trigger()
            if block < first:
                pad(X, Y, block, x_columns)
            else:
                pad(Z, W, block - first, z_columns)

    return padded_pair


def columns_for(width: int) -> int:
    """Of a block that pads rows to `width` elements: enough for narrow ones, so that few of its lanes are idle."""
    return next((n for n in COLUMNS if n >= width), COLUMNS[-1])


def add_parts(W, C, block_M, block_N, epilogue, tensors):
    """The body of `summed`."""
    M, N = C.shape
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        T.pdl_sync()
        total = T.alloc_fragment((block_M, block_N), T.float32)
        parts = [T.alloc_fragment((block_M, block_N), T.float32) for _ in range(AT_ONCE)]
        T.clear(total)
        for s in T.serial(0, W.shape[0], AT_ONCE):
            for q in T.unroll(AT_ONCE):  # what lies behind the last part is zero
                T.copy(W[s + q, by * block_M, bx * block_N], parts[q])
            for q in T.unroll(AT_ONCE):
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += parts[q][i, j]
        if epilogue is not None:
            for i, j in T.Parallel(block_M, block_N):
                total[i, j] = finished(total[i, j], by * block_M + i, bx * block_N + j, epilogue, tensors)
        T.copy(total, C[by * block_M, bx * block_N])


@lru_cache
def summed(result: DType, epilogue: Epilogue | None = None) -> Kernel:
    """C = the sum of W[s] over s, always in the same order. W may have longer rows than C. epilogue: what is made of
    the sums; then the kernel has its tensors behind C."""
    extras = extra_tensors(epilogue)

    @kernel
    @named(epilogue)
    def summed(
        W: T.Tensor(("S", "M", "L"), T.float32),
        C: T.Tensor(("M", "N"), result),
        E0: T.Tensor(*extras[0]) | None = None,
        E1: T.Tensor(*extras[1]) | None = None,
        E2: T.Tensor(*extras[2]) | None = None,
        E3: T.Tensor(*extras[3]) | None = None,
        block_M=4,
        block_N=256,
    ):
        tensors = [E for E in (E0, E1, E2, E3) if E is not None]
        add_parts(W, C, block_M, block_N, epilogue, tensors)

    return summed
