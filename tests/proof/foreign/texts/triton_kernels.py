"""Triton kernels whose PTX stands beside: `python triton_kernels.py FOLDER` writes it (Triton 3.9.0; no GPU needed).

TRITON_DISABLE_LINE_INFO=1 leaves out where lines come from.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, e / tl.sum(e, 0), mask=at < n)


@triton.jit
def softmax_long(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    top = -float("inf")
    total = 0.0
    for i in range(0, n, BLOCK):
        v = tl.load(x + row * n + i + at, mask=i + at < n, other=-float("inf"))
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    for i in range(0, n, BLOCK):
        v = tl.load(x + row * n + i + at, mask=i + at < n, other=-float("inf"))
        tl.store(y + row * n + i + at, tl.exp(v - top) / total, mask=i + at < n)


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    pa = a + rows[:, None] * K + ks[None, :]
    pb = b + ks[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(pa, mask=ks[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * N
    pc = c + rows[:, None] * N + columns[None, :]
    tl.store(pc, acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


ROWS = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
TILES = {
    **dict.fromkeys("abc", "*fp16"),
    **dict.fromkeys("MNK", "i32"),
    **dict.fromkeys(("BM", "BN", "BK"), "constexpr"),
}
ALIGNED = {(n,): [["tt.divisibility", 16]] for n in range(6)}
JOBS = {
    "softmax": (softmax, ROWS, {"BLOCK": 1024}, {}, {}),
    "softmax_long": (softmax_long, ROWS, {"BLOCK": 1024}, {}, {}),
    "gemm": (gemm, TILES, {"BM": 64, "BN": 64, "BK": 32}, {}, {}),
    # Sizes that 16 divides: loads become cp.async in a ring of stages.
    "gemm_pipelined": (gemm, TILES, {"BM": 64, "BN": 64, "BK": 32}, ALIGNED, {"num_stages": 3}),
}

if __name__ == "__main__":
    for name, (kernel, signature, constants, attributes, options) in JOBS.items():
        for target in (80, 90):
            source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=attributes)
            made = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
            text = made.asm["ptx"]
            Path(sys.argv[1], f"triton_{name}_sm_{target}.ptx").write_text(text)
            print(name, target, len(text), made.metadata.shared, made.metadata.num_warps)
