"""SwiGLU and GeGLU: y = act(gate) · up, forward and backward.

Nothing is used twice, so nothing is kept: each thread loads its vectors of gate and up, all before the first is used,
computes in f32, and stores the result's vectors. Where gate and up are the halves of one tensor's rows, X[:, 0] and
X[:, 1] are those halves. The reciprocal is the hardware's, as in what divides by 1 + e^-x elsewhere; 16-bit results
also take e^x as 2^(x·log2 e), whose error (|x|·2^-24) is far below theirs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.memory_bound.arguments import VECTOR, Argument, Tile, argument, tile_for
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.operands import refused

SWIGLU, GEGLU, GEGLU_TANH = "swiglu", "geglu", "geglu_tanh"
LOG2_E = 1.4426950408889634
THREADS = 256
VECTORS = 2  # of each input that a thread loads


def sigmoid(x, exact):
    return T.sigmoid(x) if exact else T.rcp(1.0 + T.exp2(x * -LOG2_E))


def activation(g, kind, exact):
    """act(g) and its derivative, in f32."""
    if kind == SWIGLU:
        s = sigmoid(g, exact)
        return g * s, s * (1.0 + g * (1.0 - s))
    if kind == GEGLU_TANH:  # (1 + tanh(u)) / 2 = sigmoid(2u), u = √(2/π) · (g + 0.044715 g³)
        square = g * g
        s = sigmoid(g * (1.5957691216057308 + 0.07135481282553603 * square), exact)
        return g * s, s + g * s * (1.0 - s) * (1.5957691216057308 + 0.2140644384766081 * square)
    below = 0.5 + 0.5 * T.erf(g * 0.7071067811865476)
    return g * below, below + g * T.exp(-0.5 * g * g) * 0.3989422804014327


@lru_cache
def gated(dtype: DType, kind: str, halves: bool) -> Kernel:
    """Y = act(G) · U for matrices; with `halves` G and U are X[:, 0] and X[:, 1]."""
    exact = dtype.bits == 32

    @kernel
    def gated_halves(
        X: T.Tensor(("M", 2, "N"), dtype), Y: T.Tensor(("M", "N"), dtype), rows=1, columns=4096, threads=256
    ):
        M, N = Y.shape
        across = T.ceildiv(N, columns)
        with T.Kernel(across * T.ceildiv(M, rows), threads=threads) as block:
            row, column = block // across * rows, block % across * columns
            in_order()
            for i, j in T.Parallel(rows, columns):
                g = T.cast(X[row + i, 0, column + j], T.float32)
                u = T.cast(X[row + i, 1, column + j], T.float32)
                Y[row + i, column + j] = activation(g, kind, exact)[0] * u

    @kernel
    def gated_pair(
        G: T.Tensor(("M", "N"), dtype), U: T.Tensor(("M", "N"), dtype), Y: T.Tensor(("M", "N"), dtype),
        rows=1, columns=4096, threads=256,
    ):  # fmt: skip
        M, N = Y.shape
        across = T.ceildiv(N, columns)
        with T.Kernel(across * T.ceildiv(M, rows), threads=threads) as block:
            row, column = block // across * rows, block % across * columns
            in_order()
            for i, j in T.Parallel(rows, columns):
                g = T.cast(G[row + i, column + j], T.float32)
                u = T.cast(U[row + i, column + j], T.float32)
                Y[row + i, column + j] = activation(g, kind, exact)[0] * u

    return gated_halves if halves else gated_pair


@lru_cache
def gated_backward(dtype: DType, kind: str, halves: bool) -> Kernel:
    """dG = dY · U · act'(G) and dU = dY · act(G); with `halves` they are dX[:, 0] and dX[:, 1]."""
    exact = dtype.bits == 32

    @kernel
    def gated_halves_backward(
        dY: T.Tensor(("M", "N"), dtype), X: T.Tensor(("M", 2, "N"), dtype), dX: T.Tensor(("M", 2, "N"), dtype),
        rows=1, columns=2048, threads=256,
    ):  # fmt: skip
        M, N = dY.shape
        across = T.ceildiv(N, columns)
        with T.Kernel(across * T.ceildiv(M, rows), threads=threads) as block:
            row, column = block // across * rows, block % across * columns
            in_order()
            for i, j in T.Parallel(rows, columns):
                dy = T.cast(dY[row + i, column + j], T.float32)
                g = T.cast(X[row + i, 0, column + j], T.float32)
                u = T.cast(X[row + i, 1, column + j], T.float32)
                act, slope = activation(g, kind, exact)
                dX[row + i, 0, column + j] = dy * u * slope
                dX[row + i, 1, column + j] = dy * act

    @kernel
    def gated_pair_backward(
        dY: T.Tensor(("M", "N"), dtype), G: T.Tensor(("M", "N"), dtype), U: T.Tensor(("M", "N"), dtype),
        dG: T.Tensor(("M", "N"), dtype), dU: T.Tensor(("M", "N"), dtype), rows=1, columns=2048, threads=256,
    ):  # fmt: skip
        M, N = dY.shape
        across = T.ceildiv(N, columns)
        with T.Kernel(across * T.ceildiv(M, rows), threads=threads) as block:
            row, column = block // across * rows, block % across * columns
            in_order()
            for i, j in T.Parallel(rows, columns):
                dy = T.cast(dY[row + i, column + j], T.float32)
                g = T.cast(G[row + i, column + j], T.float32)
                u = T.cast(U[row + i, column + j], T.float32)
                act, slope = activation(g, kind, exact)
                dG[row + i, column + j] = dy * u * slope
                dU[row + i, column + j] = dy * act

    return gated_halves_backward if halves else gated_pair_backward


@for_users
def swiglu(x: Any, up: Any = None, *, out: Any = None, plan: Tile | None = None) -> Any:
    """silu(gate) · up with silu(g) = g / (1 + e^-g), in f32, rounded once.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes): […, 2N], whose rows hold gate and
            behind it up; with `up`, the gate alone.
        up: […, N], of x's shape and dtype.
        out: where the result goes, […, N], row-major; without it, a new array.
        plan: instead of the one that `gated_plan` chooses.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y = mt.ops.swiglu(x @ w)
        ```
    """
    return _forward(SWIGLU, x, up, out, plan)


@for_users
def geglu(x: Any, up: Any = None, *, approximate: str = "none", out: Any = None, plan: Tile | None = None) -> Any:
    """gelu(gate) · up with gelu(g) = g · (1 + erf(g/√2)) / 2, in f32, rounded once.

    Args:
        x: as of `swiglu`.
        up: as of `swiglu`.
        approximate: "tanh" for g · (1 + tanh(√(2/π) · (g + 0.044715 g³))) / 2 instead, as in torch.
        out: as of `swiglu`.
        plan: as of `swiglu`.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y = mt.ops.geglu(x @ w, approximate="tanh")
        ```
    """
    return _forward(_gelu(approximate), x, up, out, plan)


@for_users
def swiglu_backward(dy: Any, x: Any, up: Any = None, *, plan: Tile | None = None) -> Any:
    """The gradients of `swiglu`'s arguments, from that of its result: one array for x alone, two with `up`.

    Args:
        dy: the gradient of the result.
        x: as of `swiglu`.
        up: as of `swiglu`.
        plan: as of `swiglu`.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        dx = mt.ops.swiglu_backward(dy, x)
        ```
    """
    return _backward(SWIGLU, dy, x, up, plan)


@for_users
def geglu_backward(dy: Any, x: Any, up: Any = None, *, approximate: str = "none", plan: Tile | None = None) -> Any:
    """The gradients of `geglu`'s arguments, from that of its result: one array for x alone, two with `up`.

    Args:
        dy: the gradient of the result.
        x: as of `swiglu`.
        up: as of `swiglu`.
        approximate: as of `geglu`.
        plan: as of `swiglu`.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        dgate, dup = mt.ops.geglu_backward(dy, gate, up)
        ```
    """
    return _backward(_gelu(approximate), dy, x, up, plan)


def _gelu(approximate: str) -> str:
    if approximate not in ("none", "tanh"):
        raise refused(f"approximate={approximate!r}", 'it is "none" or "tanh"')
    return GEGLU if approximate == "none" else GEGLU_TANH


@lru_cache
def gated_plan(n: int, size: int) -> Tile:
    """For rows of n elements of `size` bytes. To sweep: VECTORS 1, 2, 4; THREADS 128, 256, 512."""
    vector = VECTOR // size
    return tile_for(n, THREADS * VECTORS * vector, THREADS, 32 * vector)


def _forward(kind: str, x: Any, up: Any, out: Any, plan: Tile | None) -> Any:
    x = argument("x", x)
    shape, views = _views(x, None if up is None else x.like("up", up))
    y = x.result(out, shape)
    if math.prod(shape):
        tile = plan or gated_plan(views[0].shape[-1], x.dtype.bytes)
        gated(x.dtype, kind, up is None)(*views, y.reshape(-1, views[0].shape[-1]), **tile.constants)
    return y


def _backward(kind: str, dy: Any, x: Any, up: Any, plan: Tile | None) -> Any:
    x = argument("x", x)
    shape, views = _views(x, None if up is None else x.like("up", up))
    dy = x.like("dy", dy, shape)
    slopes = [x.empty(x.shape) for _ in views]
    if math.prod(shape):
        tile = plan or gated_plan(views[0].shape[-1], x.dtype.bytes)
        given = [dy.view(-1, views[0].shape[-1]), *views]
        results = [slope.reshape(view.shape) for slope, view in zip(slopes, views, strict=True)]
        gated_backward(x.dtype, kind, up is None)(*given, *results, **tile.constants)
    return slopes[0] if up is None else tuple(slopes)


def _views(x: Argument, up: Argument | None) -> tuple[tuple[int, ...], list[Any]]:
    """The result's shape, and the inputs as a kernel takes them: X as M × 2 × N; or G and U, each as one row if they
    have no gaps."""
    if up is not None:
        n = math.prod(x.shape) if x.contiguous and up.contiguous else x.shape[-1]
        return x.shape, [v.view(math.prod(x.shape) // max(n, 1), n) for v in (x, up)]
    if not x.shape or x.shape[-1] % 2:
        raise refused(f"x has shape {x.shape}", "its last dimension holds gate and up; or pass up as well")
    m, n = math.prod(x.shape[:-1]), x.shape[-1] // 2
    return (*x.shape[:-1], n), [x.view(m, 2, n)]
