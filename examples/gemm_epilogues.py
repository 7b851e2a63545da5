"""What comes behind a product, while it is in registers: one main loop, and epilogues that are plain functions.

`tiles_of` is the persistent GEMM of gemm_persistent.py; it hands each finished tile to a function of the kernel's own.

- `linear`: C = activation(A · Bᵀ + bias), with any function of one number as activation.
- `residual`: C = alpha · A · Bᵀ + beta · D; tiles of D come by the same engine as those of A and B.
- `quantized`: C = fp8(scale · A · Bᵀ), and the largest magnitude of A · Bᵀ, of each row and of all of it.
- `gated`: C = silu(A · Gᵀ) · (A · Uᵀ), two products that read A once.
- `interleaved`: the same with rows of G and U in one matrix, RUN of G, RUN of U, and so on: one product, whose columns
  are multiplied in pairs where they are. A tile of it takes as many registers as one of `linear`, so that it may be as
  large, and stores half as many columns.

On sm_90a the main loop keeps its warp that copies, which runs ahead into the next tile while an epilogue works. Vectors
(bias, scales) are read from the tensors; a whole tile (D) is asked for behind the loop over K, so that the warp that
copies brings it as soon as the last operands are on their way.
"""

import math
from typing import NamedTuple

import ml_dtypes
import numpy as np
from support import error, on_device, on_host, poisoned, random, report

import minitile as mt
import minitile.language as T


class Tiles(NamedTuple):
    """A block's tile, the versions of its operands, threads, blocks (best one for each multiprocessor), tile rows of a
    panel; with two teams one half of the threads is at its epilogue while the other one multiplies."""

    m: int = 128
    n: int = 128
    k: int = 32
    stages: int = 3
    threads: int = 128
    blocks: int = 132
    panel: int = 8
    teams: int = 1


TILES = Tiles()
SQRT_2_PI = math.sqrt(2.0 / math.pi)


def relu(x):
    return T.max(x, 0.0)


def gelu(x):
    """x · Φ(x), by the error function."""
    return 0.5 * x * (1.0 + T.erf(x * math.sqrt(0.5)))


def gelu_tanh(x):
    """gelu's approximation by tanh: x · sigmoid(2u), u = √(2/π) · (x + 0.044715 x³)."""
    u = x * (SQRT_2_PI + 0.044715 * SQRT_2_PI * x * x)
    return x / (1.0 + T.exp2(u * (-2.0 * math.log2(math.e))))


def silu(x):
    """x · sigmoid(x)."""
    return x / (1.0 + T.exp(-x))


def identity(x):
    return x


def tiles_of(A, factors, tiles, block, epilogue):
    """Each of a block's tiles of A · Bᵀ, B in `factors`: epilogue(row, column, products), products in f32."""
    M, K = A.shape
    N = factors[0].shape[0]
    A_shared = T.alloc_shared((tiles.m, tiles.k), A.dtype)
    shared = [T.alloc_shared((tiles.n, tiles.k), B.dtype) for B in factors]
    products = [T.alloc_fragment((tiles.m, tiles.n), T.float32) for B in factors]
    extents = [T.ceildiv(M, tiles.m), T.ceildiv(N, tiles.n)]
    for by, bx in T.Persistent(extents, tiles.blocks, block, group_size=tiles.panel, teams=tiles.teams):
        for product in products:
            T.clear(product)
        for k in T.Pipelined(T.ceildiv(K, tiles.k), num_stages=tiles.stages):
            T.copy(A[by * tiles.m, k * tiles.k], A_shared)
            for B, B_shared in zip(factors, shared, strict=True):
                T.copy(B[bx * tiles.n, k * tiles.k], B_shared)
            for B_shared, product in zip(shared, products, strict=True):
                T.gemm(A_shared, B_shared, product, transpose_B=True)
        epilogue(by * tiles.m, bx * tiles.n, *products)


@mt.kernel
def linear(
    A: T.Tensor(("M", "K"), None),
    B: T.Tensor(("N", "K"), None),
    bias: T.Tensor(("N",), T.float32),
    C: T.Tensor(("M", "N"), T.bfloat16),
    activation=identity,
    tiles=TILES,
):
    def epilogue(row, column, product):
        for i, j in T.Parallel(*product.shape):
            product[i, j] = activation(product[i, j] + bias[column + j])
        T.copy(product, C[row, column])

    with T.Kernel(tiles.blocks, threads=tiles.threads) as block:
        tiles_of(A, [B], tiles, block, epilogue)


@mt.kernel
def residual(
    A: T.Tensor(("M", "K"), None),
    B: T.Tensor(("N", "K"), None),
    D: T.Tensor(("M", "N"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    alpha: T.float32,
    beta: T.float32,
    tiles=TILES,
):
    with T.Kernel(tiles.blocks, threads=tiles.threads) as block:
        D_shared = T.alloc_shared((tiles.m, tiles.n), D.dtype)

        def epilogue(row, column, product):
            T.copy(D[row, column], D_shared)
            for i, j in T.Parallel(*product.shape):
                product[i, j] = alpha * product[i, j] + beta * T.cast(D_shared[i, j], T.float32)
            T.copy(product, C[row, column])

        tiles_of(A, [B], tiles, block, epilogue)


@mt.kernel
def quantized(
    A: T.Tensor(("M", "K"), None),
    B: T.Tensor(("N", "K"), None),
    scale: T.Tensor((1,), T.float32),
    C: T.Tensor(("M", "N"), T.float8_e4m3),
    row_amax: T.Tensor(("M",), T.float32),
    amax: T.Tensor((1,), T.float32),
    tiles=TILES,
):
    """`row_amax` and `amax` are zero before; fp8 saturates."""
    with T.Kernel(tiles.blocks, threads=tiles.threads) as block:
        rows = T.alloc_fragment((tiles.m,), T.float32)
        one = T.alloc_fragment((1,), T.float32)

        def epilogue(row, column, product):
            T.reduce_absmax(product, rows, dim=1)
            T.reduce_max(rows, one, dim=0)
            T.atomic_max(row_amax[row], rows)
            T.atomic_max(amax, one)
            s = scale[0]
            for i, j in T.Parallel(*product.shape):
                product[i, j] *= s
            T.copy(product, C[row, column])

        tiles_of(A, [B], tiles, block, epilogue)


@mt.kernel
def gated(
    A: T.Tensor(("M", "K"), None),
    G: T.Tensor(("N", "K"), None),
    U: T.Tensor(("N", "K"), None),
    C: T.Tensor(("M", "N"), T.bfloat16),
    activation=silu,
    tiles=TILES,
):
    def epilogue(row, column, gate, up):
        for i, j in T.Parallel(*gate.shape):
            gate[i, j] = activation(gate[i, j]) * up[i, j]
        T.copy(gate, C[row, column])

    with T.Kernel(tiles.blocks, threads=tiles.threads) as block:
        tiles_of(A, [G, U], tiles, block, epilogue)


RUN = 8


def columns(j, which, run=RUN):
    """Where column j of one of two interleaved matrices stands."""
    return j // run * (2 * run) + which * run + j % run


@mt.kernel
def interleaved(
    A: T.Tensor(("M", "K"), None),
    W: T.Tensor(("W", "K"), None),
    C: T.Tensor(("M", "N"), T.bfloat16),
    activation=silu,
    run=RUN,
    tiles=TILES,
):
    """W has 2N rows, N a multiple of `run`; tiles.n is the width of a tile of the product."""
    with T.Kernel(tiles.blocks, threads=tiles.threads) as block:
        result = T.alloc_fragment((tiles.m, tiles.n // 2), T.float32)

        def epilogue(row, column, product):
            for i, j in T.Parallel(*result.shape):
                result[i, j] = activation(product[i, columns(j, 0, run)]) * product[i, columns(j, 1, run)]
            T.copy(result, C[row, column // 2])

        tiles_of(A, [W], tiles, block, epilogue)


ACTIVATIONS = {
    identity: lambda x: x,
    relu: lambda x: np.maximum(x, 0),
    gelu: lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x * math.sqrt(0.5))),
    gelu_tanh: lambda x: 0.5 * x * (1 + np.tanh(SQRT_2_PI * (x + 0.044715 * x**3))),
    silu: lambda x: x / (1 + np.exp(-x)),
}  # in float64


class Operands:
    """Random matrices of a problem, the float64 product A · Bᵀ, scaled so that it is of order 1."""

    def __init__(self, m: int, n: int, k: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.m, self.n, self.k = m, n, k
        self.a, self.b = self.matrix(m, k), self.matrix(n, k)

    def matrix(self, rows: int, columns: int) -> np.ndarray:
        values = self.rng.standard_normal((rows, columns)) / max(self.k, 1) ** 0.25
        return values.astype(ml_dtypes.bfloat16)

    @property
    def product(self) -> np.ndarray:
        return self.a.astype(np.float64) @ self.b.astype(np.float64).T


def run_linear(m: int, n: int, k: int, activation=gelu, seed: int = 0, tiles=TILES) -> float:
    """The relative error on random matrices."""
    x = Operands(m, n, k, seed)
    bias = random(x.rng, (n,))
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    linear(on_device(x.a), on_device(x.b), on_device(bias), c, activation, tiles)
    return error(c, ACTIVATIONS[activation](x.product + bias))


def run_residual(m: int, n: int, k: int, alpha: float = 0.5, beta: float = -2.0, seed: int = 0, tiles=TILES) -> float:
    """The relative error on random matrices."""
    x = Operands(m, n, k, seed)
    d = x.matrix(m, n)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    residual(on_device(x.a), on_device(x.b), on_device(d), c, alpha, beta, tiles)
    return error(c, alpha * x.product + beta * d.astype(np.float64))


def run_quantized(m: int, n: int, k: int, scale: float = 16.0, seed: int = 0, tiles=TILES) -> tuple[float, float]:
    """The largest error of C, in halves of a last place, and the relative error of the largest magnitudes."""
    x = Operands(m, n, k, seed)
    c = on_device(poisoned((m, n), ml_dtypes.float8_e4m3fn))
    rows, amax = on_device(np.zeros(m, np.float32)), on_device(np.zeros(1, np.float32))
    quantized(on_device(x.a), on_device(x.b), on_device(np.full(1, scale, np.float32)), c, rows, amax, tiles)
    largest = np.abs(x.product).max(axis=1)
    exact = np.clip(x.product * scale, -448, 448)
    difference = np.abs(on_host(c).astype(np.float64) - exact)
    places = difference / np.maximum(np.abs(exact) / 16, 2.0**-10)  # at most: 3 bits, or the smallest subnormal's
    return float(places.max()), max(error(rows, largest), error(amax, largest.max(keepdims=True)))


def run_gated(m: int, n: int, k: int, seed: int = 0, tiles=TILES) -> float:
    """The relative error on random matrices."""
    x = Operands(m, n, k, seed)
    up = x.matrix(n, k)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    gated(on_device(x.a), on_device(x.b), on_device(up), c, tiles=tiles)
    return error(c, ACTIVATIONS[silu](x.product) * (x.a.astype(np.float64) @ up.astype(np.float64).T))


def run_interleaved(m: int, n: int, k: int, seed: int = 0, tiles=TILES, run: int = RUN) -> float:
    """The relative error on random matrices; n is a multiple of `run`."""
    x = Operands(m, n, k, seed)
    up = x.matrix(n, k)
    pairs = np.stack([x.b.reshape(n // run, run, k), up.reshape(n // run, run, k)], axis=1)
    c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
    interleaved(on_device(x.a), on_device(pairs.reshape(2 * n, k)), c, run=run, tiles=tiles)
    return error(c, ACTIVATIONS[silu](x.product) * (x.a.astype(np.float64) @ up.astype(np.float64).T))


BOUND = 4e-3  # of bf16 results
FP8_BOUND = 1 + 1e-3  # of e4m3 results, in halves of a last place

if __name__ == "__main__":
    small = Tiles(64, 64, 32, 3, 128, 3)
    for m, n, k in ((128, 192, 96), (100, 72, 56), (1, 17, 8)):
        for activation in ACTIVATIONS:
            name = f"{activation.__name__}(A · B + bias) {m}x{n}x{k}"
            report(name, run_linear(m, n, k, activation, tiles=small), BOUND)
        report(f"alpha · A · B + beta · D {m}x{n}x{k}", run_residual(m, n, k, tiles=small), BOUND)
        results, largest = run_quantized(m, n, k, tiles=small)
        report(f"fp8(scale · A · B) {m}x{n}x{k}, in halves of a last place", results, FP8_BOUND)
        report(f"its largest magnitudes {m}x{n}x{k}", largest, 1e-6)
        report(f"silu(A · G) · (A · U) {m}x{n}x{k}", run_gated(m, n, k, tiles=small), BOUND)
        pairs = -(-n // RUN) * RUN
        report(f"the same, interleaved {m}x{pairs}x{k}", run_interleaved(m, pairs, k, tiles=small), BOUND)
