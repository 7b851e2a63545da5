"""Programs of products and elementwise operations on a few accumulators, in loops and branches of every nesting: what
`sink_wgmma_waits` has to keep apart on sm_90a. sm_80, which knows no products in flight, is the reference."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np

import minitile as mt
from tests.fuzz.tile_programs import load_text

MODES: dict[str, dict[str, Any]] = {"sm_90a": {}, "sm_90a one role": {"warp_specialize": False}}
RUNS = ((1, "lazy"), (2, "random"), (0, "eager"))  # n, schedule

HEAD = """
import minitile.language as T

BM, BN, BK = {rows}, 32, 32


def kernel(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("K", BN), T.bfloat16),
    X: T.Tensor((64,), T.int32),
    C: T.Tensor(("R", BN), T.float32),
    n: T.int32,
):
    with T.Kernel(1, threads=128) as _:
        kt = T.ceildiv(A.shape[1], BK)
        one = T.alloc_fragment((BM, BN), T.float32)
        two = T.alloc_fragment((BM, BN), T.float32)
        three = T.alloc_fragment((BM, BN), T.float32)
        weights = T.alloc_fragment((BM, BK), A.dtype)
        row = T.alloc_fragment((BM,), T.float32)
        a = T.alloc_shared((BM, BK), A.dtype)
        b = T.alloc_shared((BK, BN), A.dtype)
        c = T.alloc_shared((BM, BK), A.dtype)
        d = T.alloc_shared((BK, BN), A.dtype)
        T.clear(one)
        T.clear(two)
        T.clear(three)
"""
TAIL = """
        T.copy(one, C[0, 0])
        T.copy(two, C[BM, 0])
"""


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rows = self.rng.choice((64, 128))
        self.tiles = ["one", "two", "three"][: self.rng.choice((2, 2, 3))]
        self.lines: list[str] = []
        self.names = 0

    def tile(self) -> str:
        return self.rng.choice(self.tiles)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def block(self, depth: int, nests: int) -> None:
        kinds = {self.pipeline: 5, self.serial: 3, self.branch: 3, self.loop: 2} if nests else {}
        for kind in self.rng.choices([*kinds, self.product, self.elementwise], [*kinds.values(), 4, 4], k=3):
            if self.rng.random() < 0.7:
                kind(depth, nests)
        self.product(depth, nests)

    def serial(self, depth: int, nests: int) -> None:
        self.line(depth, f"for {self.name('i')} in T.serial({self.rng.choice(('n', 'kt', '2'))}):")
        self.block(depth + 1, nests - 1)

    def branch(self, depth: int, nests: int) -> None:
        self.line(depth, f"if {self.rng.choice(('n != 1', 'X[3] > 2', 'n > X[1]'))}:")
        self.block(depth + 1, nests - 1)
        if self.rng.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1, nests - 1)

    def loop(self, depth: int, nests: int) -> None:
        w = self.name("w")
        self.line(depth, f"{w} = n")
        self.line(depth, f"while {w} < kt:")
        self.line(depth + 1, f"{w} = {w} + 1")
        self.block(depth + 1, nests - 1)

    def pipeline(self, depth: int, nests: int) -> None:
        k, rng = self.name("k"), self.rng
        bound, stages = rng.choice(("kt", "3", "n", "T.max(n, 1)")), rng.choice((0, 1, 2, 2, 3))
        self.line(depth, f"for {k} in T.Pipelined({bound}, num_stages={stages}):")
        self.line(depth + 1, f"T.copy(A[0, {k} * BK], a)")
        self.line(depth + 1, f"T.copy(B[{k} * BK, 0], b)")
        if rng.random() < 0.2:
            self.line(depth + 1, f"if X[{k}] > 1:")
            self.line(depth + 2, f"T.gemm(a, b, {self.tile()})")
        else:
            self.line(depth + 1, f"T.gemm(a, b, {self.tile()})")
        if rng.random() < 0.3:
            self.elementwise(depth + 1, 0)
        if rng.random() < 0.3:
            self.line(depth + 1, f"T.gemm(a, b, {self.tile()})")

    def product(self, depth: int, nests: int) -> None:
        self.line(depth, "T.copy(B[0, 0], d)")
        form = self.rng.random()
        if form < 0.25:  # of what has been computed: in registers, or by way of shared memory
            self.line(depth, f"T.copy({self.tile()}, weights)")
            if form < 0.1:
                self.line(depth, "T.copy(weights, c)")
            self.line(depth, f"T.gemm({'c' if form < 0.1 else 'weights'}, d, {self.tile()})")
            return
        self.line(depth, "T.copy(A[0, n * BK], c)")
        for _ in range(self.rng.choice((1, 1, 2))):
            clear = ", clear_accum=True" if self.rng.random() < 0.15 else ""
            self.line(depth, f"T.gemm(c, d, {self.tile()}{clear})")

    def elementwise(self, depth: int, nests: int) -> None:
        x, y, form = self.tile(), self.tile(), self.rng.randrange(5)
        if form == 0:
            self.line(depth, f"T.clear({x})")
        elif form == 1:
            self.line(depth, f"T.copy({y}, {x})")
        elif form == 2:
            self.line(depth, f"T.copy({x}, C[0, 0])")
        else:
            by = f"{y}[i, j]" if form == 3 else "row[i]"
            if form == 4:
                self.line(depth, f"T.reduce_max({y}, row, dim=1)")
            self.line(depth, "for i, j in T.Parallel(BM, BN):")
            self.line(depth + 1, f"{x}[i, j] = T.min(T.max({x}[i, j] + {by}, -64.0), 64.0)")


def write(seed: int) -> str:
    writer = _Writer(seed)
    writer.block(0, 3)
    return HEAD.format(rows=writer.rows) + textwrap.indent("\n".join(writer.lines), " " * 8) + TAIL


def check(seed: int, mode: str) -> None:
    """Raises what goes wrong: AssembleError where the assembler makes products wait for each other, a finding of the
    simulator, AssertionError for other numbers than sm_80's."""
    with TemporaryDirectory() as folder:
        kernel = load_text(write(seed), Path(folder))
        shapes = {"bfloat16": [(128, 96), (96, 32)], "int32": [(64,)], "float32": [(256, 32)]}
        specs = [mt.spec(shape, dtype) for dtype, some in shapes.items() for shape in some]
        reference = kernel.compile(*specs, target="sm_80")
        compiled = kernel.compile(*specs, target="sm_90a", **MODES[mode])
        assert compiled.binary  # the assembler takes it
        rng = np.random.default_rng(seed)
        a, b = (rng.integers(-1, 2, shape).astype(ml_dtypes.bfloat16) for shape in ((128, 96), (96, 32)))
        switches = rng.integers(-2, 4, 64).astype(np.int32)
        for n, schedule in RUNS:
            results = []
            for each in (reference, compiled):
                results.append(np.zeros((256, 32), np.float32))
                each.simulate(a, b, switches, results[-1], n, schedule=schedule, seed=seed)
            np.testing.assert_allclose(results[1], results[0], rtol=1e-5, err_msg=f"n = {n}, {schedule}")
