"""Random kernels of the kind that people write: tiles through shared memory into tensor cores.

`write(seed)` gives a `Program`: the kernel's source and its sizes. It has pipelined loops with one or two gemms, loops
and branches around them, chains of gemms as in attention, elementwise work and reductions in between, buffers that are
used again for something else, and results that leave through shared memory. Some are persistent and go through
the tiles in a loop. Numbers are small integers, clamped in
time, so that every order of additions gives the same sums and results compare bit for bit.

`check` compiles one for a target and runs it under schedules of the simulator, with the race model. What must come out
is said by the tile interpreter, which executes the traced IR in one thread.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import minitile as mt
from tests.tile_interpreter import interpret

SCHEDULES = (("lazy", 0), ("eager", 0), ("random", 1))


@dataclass(frozen=True)
class Program:
    """`text` defines `kernel`; `shapes` are those of A, B, C, D and O, and `n` is its last argument."""

    text: str
    shapes: tuple[tuple[int, int], ...]
    element: Any
    n: int


class Writer:
    """Writes one program. `depth` counts the loops and branches around the place."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.warpgroups = pick((1, 1, 1, 2))
        self.rows = 64 * self.warpgroups
        self.columns = pick((16, 16, 32, 64))
        self.inner = pick((16, 32, 32, 64))
        self.threads = 128 * self.warpgroups
        self.transposed = pick((True, True, False))
        self.element = pick(("bfloat16", "float16"))
        self.lines: list[str] = []
        self.names = 0
        self.integers = ["n", "bx", "by"]
        self.pairs = 0  # of buffers for A and B
        self.tame = self.random.random() < 0.6  # each loop has its own buffers, which TMA and roles ask for
        # Decided by draws of its own, so that a seed without it means the program it always meant.
        persistent = random.Random(f"persistent {seed}")
        self.blocks = persistent.choice((1, 2, 3)) if persistent.random() < 0.3 else None
        self.panel = persistent.choice((1, 2, 8))

    def pair(self) -> None:
        """The buffers that the next loads and gemms use: new ones, or those of an earlier loop."""
        if not self.pairs or (self.pairs < 3 and self.random.random() < (1.0 if self.tame else 0.5)):
            self.pairs += 1
            self.a, self.b = f"A_shared{self.pairs}", f"B_shared{self.pairs}"
        elif not self.tame and self.random.random() < 0.5:
            used = self.random.randint(1, self.pairs)
            self.a, self.b = f"A_shared{used}", f"B_shared{used}"

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    # Statements ------------------------------------------------------------------------------------------------------

    def statements(self, indent: int, depth: int, most: int = 3) -> None:
        kinds = [self.elementwise, self.reduce, self.through_shared]
        if self.pairs < 3 or not self.tame:
            kinds += [*[self.gemm_loop] * 4, self.chain]
        if depth < 2:
            kinds += [self.loop, self.branch]
        for _ in range(self.random.randint(1, most)):
            self.random.choice(kinds)(indent, depth)

    def loop(self, indent: int, depth: int) -> None:
        t = self.name("t")
        self.emit(indent, f"for {t} in range({self.random.choice(('2', '3', 'n', 'n % 3', 'by + 1'))}):")
        self.inside(indent, depth, [t])

    def branch(self, indent: int, depth: int) -> None:
        self.emit(indent, f"if {self.condition()}:")
        self.inside(indent, depth, [])
        if self.random.random() < 0.5:
            self.emit(indent, "else:")
            self.inside(indent, depth, [])

    def inside(self, indent: int, depth: int, more: list[str]) -> None:
        outer = self.integers
        self.integers = [*outer, *more]
        self.statements(indent + 1, depth + 1, 2)
        self.integers = outer

    def condition(self) -> str:
        x = self.random.choice(self.integers)
        return f"{x} {self.random.choice(('% 2 == 0', '> 1', '< 2', '!= 1'))}"

    def accumulator(self) -> str:
        return self.random.choice(("acc", "other"))

    def load(self, indent: int, what: str, k: str) -> None:
        """A tile of A or B, from the block's place or a little beside it."""
        shift = self.random.choice(("", "", "", " + 8", f" + {self.random.choice(self.integers)} * 8"))
        if what == "A":
            self.emit(indent, f"T.copy(A[by * BM{shift}, {k} * BK], {self.a})")
        elif self.transposed:
            self.emit(indent, f"T.copy(B[bx * BN{shift}, {k} * BK], {self.b})")
        else:
            self.emit(indent, f"T.copy(B[{k} * BK, bx * BN{shift}], {self.b})")

    def multiply(self, indent: int, into: str) -> None:
        self.emit(indent, f"T.gemm({self.a}, {self.b}, {into}, transpose_B={self.transposed})")

    def trips(self) -> str:
        return self.random.choice((*["T.ceildiv(K, BK)"] * 4, "n", "n % 3", "1", "2", "3", "0"))

    def pipelined(self, indent: int) -> str:
        k = self.name("k")
        stages = self.random.choice((2, 2, 3, 3, 4) if self.tame else (0, 1, 2, 3))
        self.emit(indent, f"for {k} in T.Pipelined({self.trips()}, num_stages={stages}):")
        return k

    def gemm_loop(self, indent: int, depth: int) -> None:
        self.pair()
        into = self.accumulator()
        if self.random.random() < 0.2:
            self.emit(indent, f"T.clear({into})")
        fixed = not self.tame and self.random.random() < 0.3  # one operand stays
        if fixed:
            self.load(indent, "A", "0")
        k = self.pipelined(indent)
        inner = indent + 1
        if not fixed:
            self.load(inner, "A", k)
        self.load(inner, "B", k)
        if self.random.random() < 0.15:
            self.emit(inner, f"if {self.random.choice((self.condition(), f'{k} % 2 == 0'))}:")
            self.multiply(inner + 1, into)
        else:
            self.multiply(inner, into)
        if not self.tame and self.random.random() < 0.3:
            self.load(inner, "B", k)
            self.multiply(inner, "other" if into == "acc" else "acc")
        if self.random.random() < 0.2:
            self.elementwise(inner, depth)

    def chain(self, indent: int, depth: int) -> None:
        """Two gemms, the second on the result of the first: registers, or shared memory in between."""
        self.pair()
        self.load(indent, "A", "0")
        if self.random.random() < 0.5:
            self.emit(indent, "T.clear(out)")
        k = self.pipelined(indent)
        inner = indent + 1
        self.load(inner, "B", k)
        self.emit(inner, "T.clear(other)")
        self.multiply(inner, "other")
        self.clamp(inner, "other", 8)
        if self.random.random() < 0.3:
            self.emit(inner, "T.reduce_max(other, row, dim=1)")
            self.emit(inner, "for i, j in T.Parallel(BM, BN):")
            self.emit(inner + 1, "other[i, j] = other[i, j] - row[i]")
        self.emit(inner, "T.copy(other, weights)")
        self.emit(inner, f"T.copy(V[{k} * BN, 0], V_shared)")
        if self.random.random() < 0.3:
            self.emit(inner, "T.copy(weights, W_shared)")
            self.emit(inner, "T.gemm(W_shared, V_shared, out)")
        else:
            self.emit(inner, "T.gemm(weights, V_shared, out)")

    def clamp(self, indent: int, what: str, most: int) -> None:
        self.emit(indent, "for i, j in T.Parallel(BM, BN):")
        self.emit(indent + 1, f"{what}[i, j] = T.max(T.min({what}[i, j], {most}.0), -{most}.0)")

    def elementwise(self, indent: int, depth: int) -> None:
        into, other = self.random.sample(("acc", "other"), 2)
        value = self.random.choice(
            (
                f"{into}[i, j] + {other}[i, j]",
                f"{into}[i, j] - 1.0",
                f"T.if_then_else(i > j, {into}[i, j], 0.0)",
                f"{into}[i, j] * T.cast({self.random.choice(self.integers)} % 2, T.float32)",
                f"{other}[i, j]",
            )
        )
        self.emit(indent, "for i, j in T.Parallel(BM, BN):")
        self.emit(indent + 1, f"{into}[i, j] = T.max(T.min({value}, 1000.0), -1000.0)")

    def reduce(self, indent: int, depth: int) -> None:
        into = self.accumulator()
        self.emit(indent, f"T.{self.random.choice(('reduce_max', 'reduce_min'))}({into}, row, dim=1)")
        self.emit(indent, "for i, j in T.Parallel(BM, BN):")
        self.emit(indent + 1, f"{into}[i, j] = T.max(T.min({into}[i, j] - row[i], 1000.0), -1000.0)")

    def through_shared(self, indent: int, depth: int) -> None:
        self.emit(indent, f"T.copy({self.accumulator()}, C_shared)")
        if self.random.random() < 0.5:
            self.emit(indent, "T.copy(C_shared, D[by * BM, bx * BN])")
        else:
            self.emit(indent, "for i, j in T.Parallel(BM, BN):")
            self.emit(indent + 1, "acc[i, j] = T.max(T.min(acc[i, j] + C_shared[BM - 1 - i, j], 1000.0), -1000.0)")

    def launch(self) -> str:
        """A block for each tile, or a few blocks that go through all tiles."""
        if self.blocks is not None:
            return f"T.Kernel({self.blocks}, threads={self.threads}) as block"
        return f"T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads={self.threads}) as (bx, by)"

    def program(self) -> Program:
        pick = self.random.choice
        m, n = pick((self.rows, self.rows - 24)), pick((self.columns, self.columns, self.columns + 8))
        k = pick((self.inner, 3 * self.inner, 4 * self.inner + 8))
        if not self.tame and self.random.random() < 0.3:
            m, n, k = m - 3, n + 1, k + 3  # rows that are for no bulk copy
        if self.blocks is not None and self.tame:  # several tiles for each block
            n += self.columns
        indent = 2 if self.blocks is None else 3
        if self.tame:
            self.gemm_loop(indent, 0)
        self.statements(indent, 0)
        grid = -(-n // self.columns)
        b_shape = '("N", "K")' if self.transposed else '("K", "N")'
        b_tile = "(BN, BK)" if self.transposed else "(BK, BN)"
        buffers = "\n".join(
            f"        A_shared{i} = T.alloc_shared((BM, BK), A.dtype)\n"
            f"        B_shared{i} = T.alloc_shared({b_tile}, A.dtype)"
            for i in range(1, self.pairs + 1)
        )
        text = f"""import minitile.language as T

BM, BN, BK = {self.rows}, {self.columns}, {self.inner}


def kernel(
    A: T.Tensor(("M", "K"), T.{self.element}),
    B: T.Tensor({b_shape}, T.{self.element}),
    V: T.Tensor(("R", BK), T.{self.element}),
    C: T.Tensor(("M", "N"), T.float32),
    D: T.Tensor(("M", "N"), T.float32),
    O: T.Tensor(("M", "L"), T.float32),
    n: T.int32,
):
    M, K = A.shape
    N = C.shape[1]
    with {self.launch()}:
{buffers}
        V_shared = T.alloc_shared((BN, BK), A.dtype)
        W_shared = T.alloc_shared((BM, BN), A.dtype)
        C_shared = T.alloc_shared((BM, BN), T.float32)
        acc = T.alloc_fragment((BM, BN), T.float32)
        other = T.alloc_fragment((BM, BN), T.float32)
        weights = T.alloc_fragment((BM, BN), A.dtype)
        out = T.alloc_fragment((BM, BK), T.float32)
        row = T.alloc_fragment((BM,), T.float32)
"""
        clears = ["T.clear(acc)", "T.clear(other)", "T.clear(out)"]
        ends = [
            "for i, j in T.Parallel(BM, BN):",
            "    acc[i, j] = acc[i, j] + other[i, j]",
            "T.copy(acc, C[by * BM, bx * BN])",
            "T.copy(out, O[by * BM, bx * BK])",
        ]
        if self.blocks is not None:
            tiles = "[T.ceildiv(M, BM), T.ceildiv(N, BN)]"
            loop = f"for by, bx in T.Persistent({tiles}, {self.blocks}, block, group_size={self.panel}):"
            text += f"        {loop}\n"
        outer = "    " * indent
        text += "\n".join([*(outer + line for line in clears), *self.lines, *(outer + line for line in ends), ""])
        shapes = ((m, k), (n, k) if self.transposed else (k, n), (3 * self.columns, self.inner), (m, n), (m, n))
        element = ml_dtypes.bfloat16 if self.element == "bfloat16" else np.float16
        return Program(text, (*shapes, (m, grid * self.inner)), element, self.random.randrange(5))


def write(seed: int) -> Program:
    return Writer(seed).program()


def arrays(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(program.n)
    a, b, v, c, d, o = program.shapes
    inputs = {name: rng.integers(-2, 3, s).astype(program.element) for name, s in zip("ABV", (a, b, v), strict=True)}
    return {**inputs, **{name: np.zeros(s, np.float32) for name, s in zip("CDO", (c, d, o), strict=True)}}


def load(program: Program, folder: Path) -> mt.Kernel:
    return load_text(program.text, folder)


def load_text(text: str, folder: Path) -> mt.Kernel:
    """The function `kernel` of a source text, as a kernel; the text is written to the folder."""
    file = folder / f"fuzzed_{abs(hash(text))}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return mt.kernel(module.kernel)


def check(program: Program, target: str, schedules: Sequence[tuple[str, int]] = SCHEDULES) -> mt.CompiledKernel:
    """Raises what goes wrong: a finding as mt.RaceError or mt.SimulationError, another result as AssertionError."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = load(program, Path(folder))
        expected = arrays(program)
        specs = [mt.spec(array.shape, array.dtype.name) for array in expected.values()]
        interpret(kernel.trace(*specs), expected, {"n": program.n})
        compiled = kernel.compile(*specs, target=target)
        for schedule, seed in schedules:
            given = arrays(program)
            compiled.simulate(*given.values(), program.n, schedule=schedule, seed=seed)
            for name, array in expected.items():
                np.testing.assert_array_equal(given[name], array, err_msg=f"{name}, {schedule}")
        return compiled
