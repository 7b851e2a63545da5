"""The kernel of `matmul_quantised`: packed weights are unpacked in registers, in the order a product takes them in.

The product is computed as Cᵀ = W · Aᵀ, so that the tensor cores' rows, which come by 64, are columns of C and the few
rows of A are the side whose steps are 8. W comes from registers: a thread loads 16 bytes, four words that hold just
what it must have of 16 rows of W (pack.py says which), and makes pairs of 16-bit numbers of them by shifts
and masks. A comes from shared memory.

    words      the copy engine (or cp.async) → shared memory → 16 bytes a thread → pairs → W · Aᵀ
    scales     on the sums of a group (`sums`), in f32, which is exact; or on the weights, rounded to 16 bits
    K          in `parts`, which the blocks of a cluster multiply and add up together, as in split/cluster.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType, bf16
from minitile.ops.quantised.pack import FORMATS, TILE
from minitile.ops.split.cluster import add_shares

Pairs = Callable[[Any, Any, Any], Any]  # (word, h, g) → the word of a pair of 16-bit numbers


def _signed(word: int) -> int:
    """The i32 with the bits of a word."""
    return word - (1 << 32) if word >> 31 else word


def _under(mask: int, bits: int, step: int, both: bool) -> Pairs:
    """Some bits of a word, and `bits` set; where they are among those, turned over."""
    return lambda word, h, g: word >> step * (h + 2 * g if both else h) & mask ^ bits


def _int4(dtype: DType) -> Pairs:
    """The number's bits under those of 128 (bf16) or 1024 (f16), whose last place is 1."""
    return _under(0x000F000F, 0x43004300 if dtype is bf16 else 0x64006400, 4, True)


def _int8(dtype: DType) -> Pairs:
    """f16 holds all 8 bits under 1024, the number and 128; bf16 the lower 7 of them under 128, see `_negative`."""
    return _under(0x007F007F, 0x43004300, 8, False) if dtype is bf16 else _under(0x00FF00FF, 0x64806480, 8, False)


def _negative() -> Pairs:
    """What a bf16 of the lower 7 bits and 128 has too much: 128, and 256 of a negative number, whose sign is the last
    bit of the exponent."""
    return _under(0x00800080, 0x43004300, 8, False)


def _float(places: int, mask: int, step: int, both: bool) -> Pairs:
    """Exponent and mantissa at their places below the sign: a power of two less than the number, for the other bias."""

    def pair(word: Any, h: Any, g: Any) -> Any:
        high = word << (16 - step - step * (h + 2 * g if both else h))
        return high & _signed(0x80008000) | high >> places & mask

    return pair


def _e4m3(dtype: DType) -> Pairs:
    return _float(4, 0x07F007F0, 8, False) if dtype is bf16 else _float(1, 0x3F803F80, 8, False)


def _e2m1(dtype: DType) -> Pairs:
    return _float(6, 0x01C001C0, 4, True) if dtype is bf16 else _float(3, 0x0E000E00, 4, True)


UNPACK: dict[str, Callable[[DType], Pairs]] = {"int4": _int4, "int8": _int8, "e4m3": _e4m3, "mxfp4": _e2m1}
BIAS = {"int4": 8.0, "int8": 128.0}  # of unsigned codes
SMALLER = {("e4m3", True): 2.0**120, ("e4m3", False): 2.0**8, ("mxfp4", True): 2.0**126, ("mxfp4", False): 2.0**14}


def unpack(P_shared: Any, W: Any, first: int, format: str, dtype: DType, Z_shared: Any, group: int) -> None:
    """W, a tile of weights, as numbers without their scales, of the words of units from `first` on."""
    rows, deep = W.shape
    form = FORMATS[format]
    tiles, units = rows // TILE, deep // form.unit
    words = 1 if form.bits == 4 else 2  # of 16 numbers along K
    many = 4 // words
    P_local = T.alloc_fragment((tiles, units * 4, 128), T.int32)
    T.copy(P_shared[:, first * 4 : (first + units) * 4, :], P_local)
    packed = T.reshape(P_local, (tiles, units, 4, 8, 4, many, words))

    def fill(pairs: Any, pair: Pairs) -> None:
        for t, w, h, r, b, s, g, q in T.Parallel(*pairs.shape):
            pairs[t, w, h, r, b, s, g, q] = pair(packed[t, b, w, r, q, s, g if words == 2 else 0], h, g)

    shape = (tiles, 4, 2, 8, units, many, 2, 4)
    fill(T.view(W, shape, T.int32), UNPACK[format](dtype))
    if not form.integer:
        factor = SMALLER[format, dtype is bf16]
        for i, j in T.Parallel(rows, deep):
            W[i, j] = W[i, j] * factor
    elif Z_shared is not None:
        base = 128.0 if dtype is bf16 else 1024.0
        Z_local = T.alloc_fragment((rows, deep // group), dtype)
        at = first * form.unit // group
        for n, g in T.Parallel(*Z_local.shape):
            Z_local[n, g] = Z_shared[at + g, n] + base
        grouped = T.reshape(W, (rows, deep // group, group))
        for n, g, k in T.Parallel(*grouped.shape):
            grouped[n, g, k] = grouped[n, g, k] - Z_local[n, g]
    elif format == "int8" and dtype is bf16:
        negative = T.alloc_fragment(W.shape, dtype)
        fill(T.view(negative, shape, T.int32), _negative())
        for i, j in T.Parallel(rows, deep):
            W[i, j] = W[i, j] - negative[i, j]
    else:
        base = (128.0 if dtype is bf16 else 1024.0) + BIAS[format]
        for i, j in T.Parallel(rows, deep):
            W[i, j] = W[i, j] - base


def scale_of(number: Any, format: str) -> Any:
    """A scale as f32."""
    if format == "mxfp4":  # 2^(number - 127), of 0 a subnormal one
        return T.reinterpret(T.max(T.cast(number, T.int32) << 23, 1 << 22), T.float32)
    return T.cast(number, T.float32)


def add_up(C_local: Any, C: Any, part: Any, parts: int, column: Any, row: Any, everywhere: bool, swap: bool) -> None:
    """Stores C_local, a tile of C (with swap of Cᵀ) that begins at this column and row, of which each block of a
    cluster has a part: each adds up those of its rows that it stores (split.add_shares). everywhere: all blocks get all
    sums, which are more bytes, but need no barrier of the cluster behind them."""
    high, wide = C_local.shape
    share = high // parts
    if everywhere:
        T.all_reduce(C_local, "sum")
    else:
        add_shares(C_local, part, parts)
    for i, j in T.Parallel(high, wide):
        if i // share == part:
            m, n = (j, i) if swap else (i, j)
            C[row + m, column + n] = C_local[i, j]


@lru_cache
def gemm_quantised(dtype: DType, result: DType, format: str, group: int, scales: DType) -> Kernel:
    """C = A · Wᵀ with sums in f32, W as `pack.py` packs it.

    A is M × K, C is M × N, S (and Z) G × L with L at least N. block_N is a multiple of 64, block_K of the group and of
    the format's unit. threads: of those that compute, two for each row of W, or one. parts: of split-K, the blocks of a
    cluster (1: no cluster); they divide block_N into shares of whole 8 rows. all_reduce: see `add_up`. early: the next
    kernel may be set up from the start on, else when the products are done. together: blocks of a multiprocessor that
    registers must suffice for.
    """

    words = T.Tensor(("NT", "KT", 128), T.int32)
    table = T.Tensor(("G", "L"), scales)

    @kernel
    def gemm_quantised(
        A: T.Tensor(("M", "K"), dtype),
        P: words,
        S: table,
        Z: table | None,
        C: T.Tensor(("M", "N"), result),
        block_M=16,
        block_N=64,
        block_K=128,
        stages=4,
        threads=128,
        parts=1,
        sums=True,
        all_reduce=False,
        early=True,
        together=0,
    ):
        M, N = C.shape
        K = A.shape[1]
        grid = parts, T.ceildiv(M, block_M), T.ceildiv(N, block_N)  # rows of one tile of weights are together
        with T.Kernel(*grid, threads=threads, cluster=parts) as (part, by, bx):
            if together:
                T.annotate_min_blocks_per_sm(together)
            if early:
                T.pdl_trigger()
            T.pdl_sync(ahead=(P, S) if Z is None else (P, S, Z))
            steps = T.ceildiv(K, block_K)
            first, last = (part * steps // parts, (part + 1) * steps // parts) if parts > 1 else (0, steps)
            unit = FORMATS[format].unit
            units, groups = block_K // unit, block_K // group
            full = T.GemmWarpPolicy.FullRow
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            P_shared = T.alloc_shared((block_N // TILE, units * 4, 128), T.int32)
            S_shared = T.alloc_shared((groups, block_N), scales)
            Z_shared = None if Z is None else T.alloc_shared((groups, block_N), scales)
            C_local = T.alloc_fragment((block_N, block_M), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(first, last, num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(P[bx * (block_N // TILE), k * (units * 4), 0], P_shared)
                T.copy(S[k * groups, bx * block_N], S_shared)
                if Z is not None:
                    T.copy(Z[k * groups, bx * block_N], Z_shared)
                if sums:
                    made = []
                    for g in T.unroll(groups):
                        W = T.alloc_fragment((block_N, group), dtype)
                        of_group = T.alloc_fragment((block_N, block_M), T.float32)
                        unpack(P_shared, W, g * group // unit, format, dtype, Z_shared, group)
                        along = slice(g * group, (g + 1) * group)
                        T.gemm(W, A_shared[:, along], of_group, transpose_B=True, policy=full, clear_accum=True)
                        made.append(of_group)
                    for g in T.unroll(groups):
                        for n, m in T.Parallel(block_N, block_M):
                            C_local[n, m] += made[g][n, m] * scale_of(S_shared[g, n], format)
                else:
                    W = T.alloc_fragment((block_N, block_K), dtype)
                    unpack(P_shared, W, 0, format, dtype, Z_shared, group)
                    S_local = T.alloc_fragment((block_N, groups), dtype)
                    for n, g in T.Parallel(*S_local.shape):
                        S_local[n, g] = T.cast(scale_of(S_shared[g, n], format), dtype)
                    grouped = T.reshape(W, (block_N, groups, group))
                    for n, g, k in T.Parallel(*grouped.shape):
                        grouped[n, g, k] = grouped[n, g, k] * S_local[n, g]
                    T.gemm(W, A_shared, C_local, transpose_B=True, policy=full)
            if not early:
                T.pdl_trigger()
            if parts == 1:
                for n, m in T.Parallel(block_N, block_M):
                    C[by * block_M + m, bx * block_N + n] = C_local[n, m]
            else:
                add_up(C_local, C, part, parts, bx * block_N, by * block_M, all_reduce, True)

    return gemm_quantised
