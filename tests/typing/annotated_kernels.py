"""Kernels as a user writes them for type checkers, nothing switched off: `mypy --strict` has nothing to say here."""

import copy
from typing import Annotated, Any

import numpy as np

import minitile as mt
import minitile.language as T

Matrix = Annotated[T.Tensor, ("M", "N"), T.float32]


def relu(x: float) -> float:
    return T.max(x, 0.0)


def gelu(x: T.float32) -> T.float32:
    return 0.5 * x * (1.0 + T.erf(x * 0.7071))


@mt.kernel
def scale(
    A: Matrix,
    B: Annotated[T.Tensor, ("M", "N"), T.float32],
    x: T.float32,
    n: T.int32,
    flag: T.bool,
    block: int = 32,
    bound: float = 3.0,
) -> None:
    M, N = A.shape
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_fragment((block, block), T.float32)
        staged = T.alloc_shared((block, block), A.dtype)
        highest = T.alloc_fragment((block,), "float32")
        T.copy(A[by * block, bx * block], tile)
        T.copy(A[by * block : by * block + block, bx * block : bx * block + block], staged)
        T.reduce_max(tile, highest, dim=1)
        total = 0.0
        low = -T.infinity(T.float32)
        for i in T.serial(4):
            total = total + staged[0, i] * x
            total += T.exp2(x)
            low = T.max(low, staged[i, 0])
        for i in range(n):
            total = x + T.cast(i, T.float32)
        if flag and n > 3:
            total = relu(total)
        for i, j in T.Parallel(block, block):
            tile[i, j] = gelu(tile[i, j] * x) + total - highest[i] if i < n else T.float32(0)
            tile[i, j] += T.cast(i, T.float32)
            staged[i, j] = T.if_then_else(x > 0, T.min(tile[i, j], bound), low)
        for i in T.Parallel(block):
            highest[i] = T.float32(i) ** 2
        for a, b, c in T.Parallel(2, 2, 2):
            T.atomic_add(B[a, b], T.float32(c))
        count = T.alloc_var(T.int32, 0)
        while count < 3:
            count += 1
        T.copy(tile, B[by * block, bx * block])
        T.device_assert(T.get_thread_binding() >= 0)
        T.static_assert(block % 16 == 0, "whole instructions")
        T.static_print("block", block, sep=": ")


@mt.kernel(target="sm_80", passes={"licm": False})
def double(A: Annotated[T.Tensor, "N", T.float32]) -> None:
    with T.Kernel(T.ceildiv(A.shape[0], 128)) as bx:
        for i in T.Parallel(128):
            A[bx * 128 + i] = A[bx * 128 + i] * 2


@mt.kernel
def double_too(A: Annotated[T.Tensor, "N", None]) -> None:
    with T.Kernel(T.ceildiv(A.shape[0], 128)) as (bx,):
        for i in T.Parallel(128):
            A[bx * 128 + i] *= 2


@mt.kernel
def product(
    A: Annotated[T.Tensor, ("M", "K"), T.bfloat16],
    B: Annotated[T.Tensor, ("K", "N"), T.bfloat16],
    C: Annotated[T.Tensor, ("M", "N"), T.float32],
    tile: int = 64,
) -> None:
    with T.Kernel(4, threads=128) as block:
        a, b = T.alloc_shared((tile, tile), A.dtype), T.alloc_shared((tile, tile), B.dtype)
        c = T.alloc_fragment((tile, tile), T.float32)
        for row, column in T.Persistent([T.ceildiv(C.shape[0], tile), T.ceildiv(C.shape[1], tile)], 4, block):
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(A.shape[1], tile), num_stages=2):
                T.copy(A[row * tile, k * tile], a)
                T.copy(B[k * tile, column * tile], b)
                T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullRow)
            T.copy(c, C[row * tile, column * tile])


class Halved:
    """Kernels as methods: `self` is compile-time."""

    def __init__(self, block: int) -> None:
        self.block = block

    @mt.kernel
    def run(self, A: Annotated[T.Tensor, ("N",), T.float32]) -> None:
        with T.Kernel(T.ceildiv(A.shape[0], self.block)) as bx:
            for i in T.Parallel(self.block):
                A[bx * self.block + i] = A[bx * self.block + i] * 0.5


tuned = mt.autotune(scale, {"block": [32, 64]})


@mt.autotune(configs=[{"tile": 64}])
@mt.kernel
def cleared(A: Matrix, tile: int = 32) -> None:
    with T.Kernel(1, 1, 1) as (bx, by, bz):
        zeros = T.alloc_fragment((tile, tile), T.float32)
        T.clear(zeros)
        T.copy(zeros, A[by + bz, bx])


def main() -> None:
    a = np.ones((40, 72), np.float32)
    b = np.zeros_like(a)
    scale(a, b, 1.0, 3, True)
    scale(a, b, x=1.0, n=3, flag=True, block=64)
    compiled = scale.compile(mt.spec((1024, "N"), T.float32), mt.spec(("M", "N"), "float32"), target="sm_90a", block=64)
    text: str = compiled.asm["ptx"]
    registers: int = compiled.registers
    notes: tuple[str, ...] = compiled.notes
    report = compiled.simulate(a, b, 1.0, 3, True, schedule="random", seed=1)
    print(len(text), registers, notes, report)
    best: mt.Kernel = tuned.tune(a, b, 1.0, 3, True).kernel
    best(a, b, 1.0, 3, True)
    print(mt.ops.matmul(a, b.T))
    Halved(64).run(a)
    again: mt.Kernel = copy.deepcopy(scale)
    again(a, b, np.float32(1.0), np.int64(3), np.bool_(True), block=np.int32(64))
    try:
        scale(a)
    except mt.MinitileError as error:
        print(error.message, error.hint)
    target: Any = mt.Target
    print(target)
