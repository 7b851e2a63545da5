"""Shared memory may be allocated anywhere in a program: in front of all of its uses it stands by itself."""

from __future__ import annotations

import os

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.core import Block, Kernel, Op, Value, operand
from minitile.ir.diagnostics import InternalError, IRError
from minitile.ir.ops import control, thread, tile
from minitile.ir.types import BOOL, I32, BufferType, f32
from minitile.ir.verifier import verify, verify_scopes
from minitile.transforms.manager import PassContext, run_passes
from minitile.transforms.sync.allocate_shared_memory import allocate_shared_memory
from tests.examples.thinned import thinned

MODES = [("sm_80", {}), ("sm_90a", {}), ("sm_90a", {"warp_specialize": False}), ("gfx942", {}), ("gfx950", {})]
ROWS, DEEP, WIDE = 64, 64, 32

RANDOM = np.random.default_rng(0)
Q = (RANDOM.integers(-4, 5, (3 * ROWS, DEEP)) / 4).astype(np.float16)
K = (RANDOM.integers(-4, 5, (5 * WIDE, DEEP)) / 4).astype(np.float16)


def tiles(*counts: int) -> np.ndarray:
    """What each row of tiles is to be: the product with so many of K's tiles; 7 where there are none."""
    wanted = np.full((len(counts) * ROWS, WIDE), 7, np.float32)
    for at, count in enumerate(counts):
        if count:
            k = K[: count * WIDE].astype(np.float32).reshape(-1, WIDE, DEEP).sum(0)
            wanted[at * ROWS : (at + 1) * ROWS] = Q[at * ROWS : (at + 1) * ROWS].astype(np.float32) @ k.T
    return wanted


def product(Q, K, Out, row, count):
    """A helper that allocates what it needs, wherever it is called."""
    q = T.alloc_shared((ROWS, DEEP), T.float16)
    sums = T.alloc_fragment((ROWS, WIDE), T.float32)
    T.copy(Q[row, 0], q)
    T.clear(sums)
    for i in T.Pipelined(count, num_stages=2):
        k = T.alloc_shared((WIDE, DEEP), T.float16)
        T.copy(K[i * WIDE, 0], k)
        T.gemm(q, k, sums, transpose_B=True)
    out = T.alloc_shared((ROWS, WIDE), T.float32)
    T.copy(sums, out)
    T.copy(out, Out[row, 0])


@mt.kernel
def early_return(
    Q: T.Tensor(("M", DEEP), T.float16),
    K: T.Tensor(("N", DEEP), T.float16),
    counts: T.Tensor(("B",), T.int32),
    Out: T.Tensor(("M", WIDE), T.float32),
):
    with T.Kernel(counts.shape[0], threads=128) as bx:
        count = counts[bx]
        if count <= 0:
            return
        product(Q, K, Out, bx * ROWS, count)


@mt.kernel
def in_branches(
    Q: T.Tensor(("M", DEEP), T.float16),
    K: T.Tensor(("N", DEEP), T.float16),
    counts: T.Tensor(("B",), T.int32),
    Out: T.Tensor(("M", WIDE), T.float32),
):
    with T.Kernel(counts.shape[0], threads=128) as bx:
        count = counts[bx]
        if count > 2:
            product(Q, K, Out, bx * ROWS, count)
        elif count > 0:
            product(Q, K, Out, bx * ROWS, 1)
        else:
            sevens = T.alloc_shared((ROWS, WIDE), T.float32)
            T.fill(sevens, 7.0)
            T.copy(sevens, Out[bx * ROWS, 0])


@mt.kernel
def in_loops(
    Q: T.Tensor(("M", DEEP), T.float16),
    K: T.Tensor(("N", DEEP), T.float16),
    counts: T.Tensor(("B",), T.int32),
    Out: T.Tensor(("M", WIDE), T.float32),
):
    with T.Kernel(2, threads=128) as bx:
        for (at,) in T.Persistent([counts.shape[0]], 2, bx):
            if counts[at] > 0:
                product(Q, K, Out, at * ROWS, counts[at])


@mt.kernel
def in_a_while(
    Q: T.Tensor(("M", DEEP), T.float16),
    K: T.Tensor(("N", DEEP), T.float16),
    counts: T.Tensor(("B",), T.int32),
    Out: T.Tensor(("M", WIDE), T.float32),
):
    with T.Kernel(1, threads=128):
        at = 0
        while at < counts.shape[0]:
            for _ in range(1):
                if counts[at] < 0:
                    break
                product(Q, K, Out, at * ROWS, counts[at])
            at += 1


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("kernel", "mode"),
    thinned([in_a_while, early_return, in_branches, in_loops], MODES, every=4),
    ids=lambda x: getattr(x, "__name__", None) or "-".join((x[0], *x[1])),
)
def test_anywhere(kernel, mode, monkeypatch):
    target, options = mode
    monkeypatch.setenv("MINITILE_VERIFY", "1")
    counts = np.array([3, 0, 1] if kernel is not in_a_while else [3, 1], np.int32)
    q, out = Q[: len(counts) * ROWS], np.full((len(counts) * ROWS, WIDE), 7, np.float32)
    compiled = kernel.compile(q, K, counts, out, target=target, **options)
    if target == "sm_90a" and kernel is not in_a_while:
        assert "wgmma" in compiled.asm["ptx"]
    for schedule in ("lazy", "random")[: 1 if kernel is in_a_while else 2]:
        out[:] = 7
        compiled.simulate(q, K, counts, out, schedule=schedule, seed=1)
        np.testing.assert_allclose(out, tiles(*counts), atol=1e-3)


@pytest.mark.parametrize("where", ["front", "loop", "role", "branch"])
def test_explicit(where, monkeypatch):
    monkeypatch.setenv("MINITILE_VERIFY", "1")

    @mt.kernel
    def kernel(A: T.Tensor((192, 64), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((192, 64), T.float32)):
        with T.Kernel(1, threads=256):
            x = T.alloc_fragment((64, 64), T.float32)
            if where in ("front", "role"):
                ready, done = T.alloc_barrier(128), T.alloc_barrier(128)
            if where == "front":
                a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
            if where == "role":
                with T.ws(1):
                    a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
            for w in range(3):
                if where in ("loop", "branch"):
                    ready, done = T.alloc_barrier(128), T.alloc_barrier(128)
                    a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
                with T.ws(1):
                    T.barrier_wait(done, (w + 1) % 2)
                    T.tma_copy(A[w * 64, 0], a, barrier=ready)
                    T.tma_copy(B, b, barrier=ready)
                    T.barrier_arrive(ready)
                with T.ws(0):
                    T.barrier_wait(ready, w % 2)
                    T.gemm(a, b, x, clear_accum=True)
                    T.barrier_arrive(done)
                    if where == "branch" and w >= 0:
                        row = T.alloc_shared((64, 64), T.float32)
                        T.copy(x, row)
                        T.copy(row, C[w * 64, 0])
                    else:
                        T.copy(x, C[w * 64, 0])

    a, b = Q, K[:64]
    c = np.full((192, 64), np.nan, np.float32)
    kernel.compile(a, b, c, target="sm_90a").simulate(a, b, c, schedule="random", seed=3)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


def test_barrier_of_a_loop():
    @mt.kernel
    def kernel(A: T.Tensor((64, 64), T.float16), n: T.int32):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), T.float16)
            for _ in range(n):
                ready = T.alloc_barrier(128)
                T.tma_copy(A, a, barrier=ready)
                T.barrier_arrive(ready)
                T.barrier_wait(ready, 0)

    with pytest.raises(mt.MinitileError, match="phases go on") as caught:
        kernel.compile(np.zeros((64, 64), np.float16), 1, target="sm_90a")
    assert caught.value.loc is not None
    assert "k % 2" in caught.value.hint


def test_bytes_are_shared_within_a_turn():
    """Two buffers of a loop's body, and of its branches, one after the other: the bytes of one."""

    @mt.kernel
    def kernel(A: T.Tensor(("N", 64, 64), T.float32), C: T.Tensor(("N", 64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            for n in range(A.shape[0]):
                if n % 2 == 0:
                    one = T.alloc_shared((64, 64), T.float32)
                    T.copy(A[n, 0, 0], one)
                    T.copy(one, C[n, 0, 0])
                else:
                    two = T.alloc_shared((64, 64), T.float32)
                    T.copy(A[n, 0, 0], two)
                    T.copy(two, C[n, 0, 0])
                three = T.alloc_shared((64, 64), T.float32)
                T.copy(C[n, 0, 0], three)
                T.copy(three, C[n, 0, 0])

    a = RANDOM.standard_normal((4, 64, 64)).astype(np.float32)
    for target in ("sm_80", "sm_90a"):
        c = np.zeros_like(a)
        compiled = kernel.compile(a, c, target=target)
        assert compiled.launch_info.dynamic_shared == 64 * 64 * 4
        compiled.simulate(a, c, schedule="random", seed=2)
        np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_where_threads_part(target):
    """Buffers of two branches that threads take by themselves are used at the same time."""

    @mt.kernel
    def kernel(A: T.Tensor((2, 128), T.float32), C: T.Tensor((128,), T.float32), D: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            if t < 64:
                one = T.alloc_shared((128,), T.float32)
                one[t] = A[0, t]
                C[t] = one[t]
            else:
                two = T.alloc_shared((128,), T.float32)
                two[127 - t] = A[1, t]
                D[t] = two[127 - t]

    a, c, d = RANDOM.standard_normal((2, 128)).astype(np.float32), np.zeros(128, np.float32), np.zeros(128, np.float32)
    compiled = kernel.compile(a, c, d, target=target)
    for seed in range(3):
        compiled.simulate(a, c, d, schedule="random", seed=seed)
        np.testing.assert_array_equal(np.concatenate([c[:64], d[64:]]), np.concatenate([a[0, :64], a[1, 64:]]))


def test_use_in_front_of_its_alloc():
    """A pass that left such IR would be stopped by the verifier, and without it where places are given."""
    alloc = tile.Alloc(BufferType("shared", (64,), f32))
    address = thread.BufferAddress(alloc.result)
    body = Block(ops=[address, alloc])
    kernel = Kernel("k", (), {}, body, stage="thread")
    for check in (verify, verify_scopes):
        with pytest.raises(IRError, match="used before it is defined"):
            check(kernel)
    with pytest.raises(InternalError, match="has no place"):
        allocate_shared_memory(kernel, PassContext())


@pytest.mark.parametrize("stage", ["traced", "tile", "thread"])
@pytest.mark.parametrize("around", ["branch", "loop"])
def test_use_behind_the_region_of_its_alloc(stage, around):
    flag, count = Value(BOOL, name="flag"), Value(I32, name="n")
    alloc = tile.Alloc(BufferType("shared", (64,), f32))
    inside = Block(ops=[alloc, control.Yield(())])
    if around == "branch":
        holder = control.If(flag, then=inside, orelse=Block(ops=[control.Yield(())]))
    else:
        inside.add_arg(I32, "k")
        holder = control.For(count, count, count, (), body=inside)
    kernel = Kernel("k", (flag, count), {}, Block(ops=[holder, Opaque(alloc.result)]), stage=stage)
    for check in (verify, verify_scopes):
        with pytest.raises(IRError, match="is not visible here"):
            check(kernel)


@pytest.mark.parametrize("how", ["1", "scopes"])
def test_between_passes(how, monkeypatch):
    """A pass that moves a use in front of its definition is named, in whatever tests compile."""

    def breaks(kernel: Kernel, _: PassContext) -> None:
        launch = control.find_launch(kernel)
        launch.body.ops.reverse()

    def compile_wrong() -> None:
        alloc = tile.Alloc(BufferType("shared", (64,), f32))
        zero = [Value(I32, name=n) for n in "xyz"]
        launch = control.Launch(tuple(zero), threads=128, body=Block(ops=[alloc, Opaque(alloc.result)]))
        for name in "xyz":
            launch.body.add_arg(I32, name)
        kernel = Kernel("k", tuple(zero), {}, Block(ops=[launch]))
        run_passes(kernel, [("breaks", breaks)], PassContext())

    assert os.environ["MINITILE_VERIFY"] in ("1", "scopes"), "set for all tests"
    monkeypatch.setenv("MINITILE_VERIFY", how)
    with pytest.raises(IRError, match="after the pass breaks"):
        compile_wrong()


class Opaque(Op, name="opaque_use"):
    memory: Value = operand()
