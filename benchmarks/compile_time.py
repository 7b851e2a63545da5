"""How long compiling takes, by stage, in this process (imports and the assembler apart; the least of several runs).

    python benchmarks/compile_time.py            the GEMM of the examples, and 5,000 operations of thread IR

The thread IR is synthetic: a loop of scalar and vector arithmetic between loads and stores, as in a fused epilogue.
It is made anew for each run, since passes rewrite it in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.emit.register_coalescing import plan
from minitile.backends.nvidia.emit.writer import write_ptx
from minitile.backends.nvidia.legalize import legalize
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import arith, control, thread
from minitile.ir.types import I32, TensorType, f32, i32, i64
from minitile.target import parse_target

RUNS = 7
SM80 = parse_target("sm_80")


def synthetic(operations: int) -> Kernel:
    """A kernel of about so many operations, a quarter of them on four registers each."""
    a, n = Value(TensorType((1 << 20,), f32), name="A"), Value(I32, name="n")
    kernel = Kernel("synthetic", (a,), {"n": n}, Block(), stage="thread", attrs={"threads": 128})
    b = Builder(kernel.body)
    lane = b.emit(thread.Special("tid.x")).result
    base = b.emit(thread.GlobalAddress(a)).result
    address = b.add(base, b.mul(b.cast(lane, i64), 16))
    x = b.emit(thread.LoadMem(address, a, "global", f32, 4, (0,), (0,), width=4)).result
    loop = control.For(b.constant(0, i32), n, b.constant(1, i32), (x, lane))
    iv, vector, scalar = (loop.body.add_arg(v.type) for v in (n, x, lane))
    with b.inside(loop.body):
        for step in range(operations // 5):
            scaled = b.emit(arith.Mul(scalar, iv)).result
            scalar = b.emit(arith.Add(scaled, lane)).result
            scalar = b.emit(arith.Xor(scalar, b.constant(step, i32))).result
            vector = b.emit(arith.Add(vector, x)).result
        b.emit(control.Yield((vector, scalar)))
    b.emit(loop)
    total = b.emit(arith.Add(loop.results[0], b.cast(loop.results[1], f32))).result
    b.emit(thread.StoreMem(address, total, a, "global", (0,), (0,), width=4))
    return kernel


def least(make: Callable[[], Kernel], stage: Callable[[Kernel], object]) -> float:
    """The least time of a stage on a fresh kernel, in milliseconds."""
    times = []
    for _ in range(RUNS):
        kernel = make()
        started = time.perf_counter()
        stage(kernel)
        times.append(time.perf_counter() - started)
    return min(times) * 1e3


def thread_ir(operations: int = 5000) -> None:
    count = sum(1 for _ in synthetic(operations).walk())
    lines = write_ptx(synthetic(operations), SM80).text.count("\n")
    print(f"{count} operations of thread IR, {lines} lines of PTX")
    print(f"  legalize   {least(lambda: synthetic(operations), lambda k: legalize(k, SM80)):6.1f} ms")
    print(f"  coalesce   {least(lambda: synthetic(operations), plan):6.1f} ms")
    print(f"  write_ptx  {least(lambda: synthetic(operations), lambda k: write_ptx(k, SM80)):6.1f} ms, both included")


@mt.kernel
def gemm(
    A: T.Tensor(("M", "K"), T.bfloat16),  # type: ignore[valid-type]
    B: T.Tensor(("N", "K"), T.bfloat16),  # type: ignore[valid-type]
    C: T.Tensor(("M", "N"), T.bfloat16),  # type: ignore[valid-type]
    tile=128,
    depth=32,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        A_shared = T.alloc_shared((tile, depth), A.dtype)
        B_shared = T.alloc_shared((tile, depth), B.dtype)
        C_local = T.alloc_fragment((tile, tile), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * tile, k * depth], A_shared)
            T.copy(B[bx * tile, k * depth], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * tile, bx * tile])


def whole_gemm() -> None:
    spec = mt.spec((4096, 4096), "bfloat16")
    best: dict[str, float] = {}
    for _ in range(RUNS):
        compiled = gemm.compile(spec, spec, spec, target="sm_80")
        if not best or sum(compiled.timings.values()) < sum(best.values()):
            best = dict(compiled.timings)
    print("GEMM bf16 4096³, 128×128×32, 3 stages")
    for stage, milliseconds in best.items():
        print(f"  {stage:10} {milliseconds:6.1f} ms")
    print(f"  together   {sum(best.values()):6.1f} ms")


if __name__ == "__main__":
    whole_gemm()
    thread_ir()
