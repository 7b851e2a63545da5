"""Programs in TileLang's spelling, for the tests of `minitile.tilelang`. Their own text; each form that TileLang has of
writing a kernel once."""

import minitile.tilelang as tilelang
import minitile.tilelang.language as T


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True})
def scaled(M, N, block, dtype="float32"):
    """A factory: sizes are its arguments, the prim_func has them as constants."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), factor: T.float32, Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            tile = T.alloc_fragment((block, N), dtype)
            T.copy(X[bx * block, 0], tile)
            for i, j in T.Parallel(block, N):
                tile[i, j] *= factor
            T.copy(tile, Y[bx * block, 0])

    return main


@tilelang.jit
def matmul(A, B, block_M=32, block_N=32, block_K=32, dtype: T.dtype = T.float16, accum: T.dtype = T.float):
    """Tensors declared in the body: their sizes are known at compile time."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor[[K, N], dtype]
    C = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), accum)
        T.annotate_layout({A_shared: tilelang.layout.make_swizzled_layout(A_shared)})
        T.use_swizzle(panel_size=4)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilelang.jit
def chunk_sums(X, chunk: int, weights=None):
    """A size that is computed of T.const, a run-time one, and a tensor that may be missing."""
    N = T.const("N")
    rows = T.dynamic("rows")
    chunks = T.ceildiv(N, chunk)
    X: T.Tensor((rows, N), T.float32)
    if weights is not None:
        weights: T.Tensor((chunks, chunk), T.float32)
    S = T.empty((rows, chunks), T.float32)
    with T.Kernel(rows, chunks, threads=32) as (r, c):
        part = T.alloc_fragment((1, chunk), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[r, c * chunk], part)
        if weights is not None:
            for i, j in T.Parallel(1, chunk):
                part[i, j] *= weights[c, j]
        T.reduce_sum(part, total, dim=1)
        T.copy(total, S[r, c])
    return S


@tilelang.jit(out_idx=[-1])
def two_passes(M, N, parts):
    """Two launches in one function, with a workspace between them; the second is in a macro."""
    width = N // parts

    @T.macro
    def combine(partial, Y):
        with T.Kernel(T.ceildiv(M, 32), threads=32) as bx:
            tx = T.get_thread_binding(0)
            row = bx * 32 + tx
            if row < M:
                total = T.alloc_var(T.float32)
                total = 0
                for p in T.serial(parts):
                    total = total + partial[row, p]
                Y[row] = total

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M,), "float32")):
        partial = T.alloc_global([M, parts], T.float32)
        with T.Kernel(M, parts, threads=32) as (bx, by):
            x = T.alloc_fragment((1, width), T.float32)
            s = T.alloc_fragment((1,), T.float32)
            T.copy(X[bx, by * width], x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, partial[bx, by])
        combine(partial, Y)

    return main


@tilelang.autotune(configs=[{"block": 4096}, {"block": 2}, {"block": 4}], warmup=1)
@tilelang.jit(out_idx=[1])
def tuned(M, N, block=None):
    """The first configuration does not fit."""

    @T.prim_func
    def main(X: T.Tensor((M, N), T.float32), Y: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            x = T.alloc_fragment((block, N), T.float32)
            T.copy(X[bx * block, 0], x)
            for i, j in T.Parallel(block, N):
                x[i, j] = x[i, j] + 1
            T.copy(x, Y[bx * block, 0])

    return main


@tilelang.jit
def convolved(image, weights, stride, dilation, pad, block=32, threads=128):
    """A convolution by T.im2col, with views of the weights and of the result."""
    N, C, H, W, F, K = T.const("N, C, H, W, F, K")
    OH = (H + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    image: T.Tensor((N, H, W, C), T.float16)
    weights: T.Tensor((K, K, C, F), T.float16)
    out = T.empty((N, OH, OW, F), T.float32)
    with T.Kernel(T.ceildiv(F, 16), T.ceildiv(N * OH * OW, block), threads=threads) as (bx, by):
        rows = T.alloc_shared((block, 16), T.float16)
        columns = T.alloc_shared((16, 16), T.float16)
        acc = T.alloc_fragment((block, 16), T.float32)
        flat = T.Tensor((K * K * C, F), T.float16, weights.data)
        flat_out = T.Tensor((N * OH * OW, F), T.float32, out.data)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(K * K * C, 16), num_stages=2):
            T.im2col(image, rows, by, k, K, stride, dilation, pad)
            T.copy(flat[k * 16, bx * 16], columns)
            T.gemm(rows, columns, acc)
        T.copy(acc, flat_out[by * block, bx * 16])
    return out


@tilelang.jit
def row_sums(X, over=8):
    """TVM's reduction over a dimension of the block's threads."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 4), threads=(4, over)) as bx:
        tn = T.get_thread_binding(0)
        tk = T.thread_binding(over, thread="threadIdx.y")
        own = T.alloc_local((1,), T.float32)
        whole = T.alloc_local((2,), T.float32)
        T.clear(own)
        for k in T.serial(T.ceildiv(N, over)):
            own[0] += X[bx * 4 + tn, k * over + tk]
        with T.attr(T.comm_reducer(lambda x, y: x + y, [T.cast(0, T.float32)]), "reduce_scope", None):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), own[0], True, whole[1], tk, dtype="handle"))
        if tk == 0:
            S[bx * 4 + tn] = whole[1]
    return S


@tilelang.jit(out_idx=[1, 2])
def heavy(kind, rows=64):
    """Fragments of 256 registers for each of 64 threads, and what counts threads, or not."""

    @T.prim_func
    def main(X: T.Tensor((rows, 128), T.float32), Y: T.Tensor((rows, 128), T.float32), N: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=64) as bx:
            a = T.alloc_fragment((64, 128), T.float32)
            b = T.alloc_fragment((64, 128), T.float32)
            T.copy(X[bx * 64, 0], a)
            for i, j in T.Parallel(64, 128):
                b[i, j] = a[i, j] * 2
            if kind == "index":
                N[0] = T.get_thread_extent(0)
            elif kind == "atomic":
                T.atomic_add(N[0], 1)
            elif kind == "tile atomic":
                for _ in T.Parallel(3):
                    T.atomic_add(N[0], 1)
            else:
                N[0] = 3
            for i, j in T.Parallel(64, 128):
                b[i, j] += a[i, j]
            T.copy(b, Y[bx * 64, 0])

    return main


@tilelang.jit
def in_pieces(X, how, threads=64):
    """Staged in shared memory that each thread reads where it has written: or not, by `how`."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=threads) as bx:
        s = T.alloc_shared((1, 128), T.float32)
        squares = T.alloc_fragment((1, 128), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(squares)
        for k in T.Pipelined(T.ceildiv(N, 128), num_stages=2 if how == "pipelined" else 0):
            T.copy(X[bx, k * 128], s)
            for i, j in T.Parallel(1, 128):
                squares[i, j] += s[i, 127 - j if how == "reversed" else j] * s[i, j]
        T.reduce_sum(squares, total, dim=1)
        for k in T.serial(T.ceildiv(N, 128)):
            T.copy(X[bx, k * 128], s)
            for i, j in T.Parallel(1, 128):
                s[i, j] *= total[i]
            T.copy(s, Y[bx, k * 128])
    return Y


@tilelang.jit
def product(A, B, stages, tile=64, step=32):
    """As many trips as the call's K asks for; stages as the program says, which the compiler may take for too few."""
    M, N = T.const("M, N")
    K = T.dynamic("K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        A_shared = T.alloc_shared((tile, step), T.float16)
        B_shared = T.alloc_shared((step, tile), T.float16)
        C_local = T.alloc_fragment((tile, tile), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, step), num_stages=stages):
            T.copy(A[by * tile, k * step], A_shared)
            T.copy(B[k * step, bx * tile], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * tile, bx * tile])
    return C


@tilelang.jit(out_idx=[2])
def attended(heads, rows, width, stages, block=64):
    """Two products a trip, of which the second one's copy stands behind the first; what both bring is read once."""

    @T.prim_func
    def main(
        Q: T.Tensor((heads, rows, width), T.float16),
        KV: T.Tensor((2, heads, rows, width), T.float16),
        Out: T.Tensor((heads, rows, width), T.float16),
    ):
        with T.Kernel(T.ceildiv(rows, block), heads, threads=128) as (bx, by):
            q = T.alloc_shared((block, width), T.float16)
            k = T.alloc_shared((block, width), T.float16)
            v = T.alloc_shared((block, width), T.float16)
            s = T.alloc_fragment((block, block), T.float32)
            p = T.alloc_fragment((block, block), T.float16)
            o = T.alloc_fragment((block, width), T.float32)
            T.copy(Q[by, bx * block : (bx + 1) * block, :], q)
            T.fill(o, 0)
            for n in T.Pipelined(bx + 1, num_stages=stages):
                T.copy(KV[0, by, n * block : (n + 1) * block, :], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.if_then_else(bx * block + i >= n * block + j, s[i, j], 0)
                T.copy(s, p)
                T.copy(KV[1, by, n * block : (n + 1) * block, :], v)
                T.gemm(p, v, o)
            T.copy(o, Out[by, bx * block : (bx + 1) * block, :])

    return main


@tilelang.jit(out_idx=[4])
def chosen_rows(blocks, threads=32):
    """Copies under a condition, in a loop that they cannot go ahead of: each one's rows are found in shared memory."""

    @T.prim_func
    def main(
        Q: T.Tensor((blocks * 16, 64), T.float16),
        K: T.Tensor((512, 64), T.float16),
        V: T.Tensor((512, 64), T.float16),
        Which: T.Tensor((blocks, 8), T.int32),
        Out: T.Tensor((blocks * 16, 64), T.float32),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            q = T.alloc_shared((16, 64), T.float16)
            k = T.alloc_shared((32, 64), T.float16)
            v = T.alloc_shared((32, 64), T.float16)
            which = T.alloc_shared((8,), T.int32)
            s = T.alloc_fragment((16, 32), T.float32)
            p = T.alloc_fragment((16, 32), T.float16)
            o = T.alloc_fragment((16, 64), T.float32)
            staged = T.alloc_shared((16, 64), T.float32)
            T.copy(Q[bx * 16, 0], q)
            T.copy(Which[bx, 0], which)
            T.fill(o, 0)
            for n in T.serial(8):
                at = which[n]
                if at >= 0:
                    T.copy(K[at * 32, 0], k)
                    T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                    T.copy(s, p)
                    T.copy(V[at * 32, 0], v)
                    T.gemm(p, v, o)
            T.copy(o, staged)
            T.copy(staged, Out[bx * 16, 0])

    return main


@tilelang.jit(out_idx=[3])
def masked_blocks(rows, parts):
    """Copies under a condition that is an element of a fragment."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, parts * 32), T.float16),
        B: T.Tensor((parts * 32, 64), T.float16),
        M: T.Tensor((rows // 64, parts), T.bool),
        C: T.Tensor((rows, 64), T.float32),
    ):
        with T.Kernel(rows // 64, threads=128) as bx:
            a = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((32, 64), T.float16)
            mask = T.alloc_fragment((parts,), T.bool)
            c = T.alloc_fragment((64, 64), T.float32)
            T.copy(M[bx, :], mask)
            T.clear(c)
            for k in T.Pipelined(parts, num_stages=1):
                if mask[k] != 0:
                    T.copy(A[bx * 64, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C[bx * 64, 0])

    return main
