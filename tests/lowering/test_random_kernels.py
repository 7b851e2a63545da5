"""Random traced kernels compute the same after each tile pass, and as PTX, whenever asynchronous copies land."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitile.driver.pipeline import compile_ir
from minitile.ir.core import Kernel
from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.parser import parse_kernel
from minitile.runtime.sim import run_gcn, run_ptx
from minitile.target import parse_target
from minitile.transforms.canonicalize.dead_code import dead_code
from minitile.transforms.canonicalize.simplify import simplify
from tests.transforms.agree import ALL, agree, count, run

SHAPES = {"F": (4, 3), "E": (4, 3), "G": (4,), "W": (3,), "S": (4, 3), "T": (4, 3), "U": (4, 3)}
SPACES = {
    "F": "fragment",
    "E": "fragment",
    "G": "fragment",
    "W": "fragment",
    "S": "shared",
    "T": "shared",
    "U": "shared",
}
SCALAR = "{{shape = (), dims = ({})}}"


def dims(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, range(len(shape))))}{',' if len(shape) == 1 else ''})"


def zeros(shape: tuple[int, ...]) -> str:
    return ", ".join("0" * len(shape))


class Writer:
    """Writes a kernel's text; every name is used once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.count = 0
        self.integers = ["%n", "%bx"]  # index-free ones in sight
        self.depth = 0
        self.transposed = False
        self.staged = False  # in a pipelined loop that copies to U

    def new(self) -> str:
        self.count += 1
        return f"%x{self.count}"

    def emit(self, text: str) -> str:
        """An operation with one result; its name."""
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    # Statements -----------------------------------------------------------------------------------------------------

    def statements(self, pipelined: bool = False) -> None:
        kinds = [self.fill, self.copy, self.reduce, self.parallel, self.element]
        if self.depth < 2:
            kinds += [self.loop, self.branch, self.loop]
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(kinds)()
            if pipelined and self.random.random() < 0.7:
                self.tile_copy()

    def fill(self) -> None:
        name = self.pick(*SHAPES)
        shape = SHAPES[name]
        self.lines.append(f"fill %{name}[{zeros(shape)}], {self.pick('0.0', '1.0', '-2.5')} "
                          f"{{shape = {shape}, dims = {dims(shape)}}}")  # fmt: skip

    def tile_copy(self) -> None:
        row = self.integer()
        self.region(f"%A[{row}, {self.pick('0', '2')}]", f"%{self.pick('S', 'T')}[0, 0]")

    def copy(self) -> None:
        where = self.pick("in", "out", "between")
        if where == "in":
            self.tile_copy()
        elif where == "out":
            self.region(f"%{self.pick('F', 'E', 'S', 'T')}[0, 0]", f"%C[{self.integer()}, 1]")
        else:
            a, b = self.random.sample(["F", "E", "S", "T"], 2)
            self.region(f"%{a}[0, 0]", f"%{b}[0, 0]")

    def region(self, src: str, dst: str) -> None:
        self.lines.append(f"copy {src}, {dst} {{shape = (4, 3), src_dims = (0, 1), dst_dims = (0, 1)}}")

    def reduce(self) -> None:
        dst, dim = self.random.choice([("G", 1), ("W", 0)])
        kind = self.pick("max", "min", "absmax")
        clear = self.pick("true", "false")
        src = self.pick("F", "E")
        self.lines.append(f'reduce_into %{src}, %{dst} {{dim = {dim}, kind = "{kind}", clear = {clear}}}')

    def element(self) -> None:
        x = self.emit(f"load %F[{self.pick('0', '3')}, {self.pick('0', '2')}] {SCALAR.format('none, none')}")
        self.lines.append(f"store %G[{self.pick('1', '3')}], {x} {{dims = (none,)}}")

    def integer(self) -> str:
        """A small number that no parallel index enters."""
        value = self.pick(*self.integers)
        for _ in range(self.random.randint(0, 2)):
            op, other = self.random.choice([("add", "1"), ("mul", "2"), ("floormod", "3"), ("max", "2"), ("sub", "1")])
            value = self.emit(f"{op} {value}, {other}")
        return value

    def loop(self) -> None:
        index, stages = self.new(), self.random.randint(0, 4)
        pipelined = self.random.random() < 0.6
        kind = "pipelined" if pipelined else self.pick("serial", "unroll")
        bounds = self.pick("0, %n, 1", "0, 3, 1", "%bx, 5, 2", "0, 0, 1")
        self.lines.append(f'for {bounds} {{kind = "{kind}", stages = {stages}}} ({index}: i32) {{')
        with_index = [*self.integers, index]
        self.block(with_index, pipelined)
        self.lines += ["yield", "}"]

    def branch(self) -> None:
        p = self.emit(
            f'cmp {self.integer()}, {self.pick("1", "2", "%n")} {{predicate = "{self.pick("lt", "ge", "eq")}"}}'
        )
        self.lines.append(f"if {p} then {{")
        self.block(self.integers, self.random.random() < 0.3)
        self.lines.append("} orelse {")
        if self.random.random() < 0.5:
            self.block(self.integers, self.random.random() < 0.3)
        self.lines.append("}")

    def block(self, integers: list[str], pipelined: bool) -> None:
        outer, self.integers = self.integers, list(integers)
        self.depth += 1
        staged = self.staged
        if pipelined and not staged:
            self.stage()
            self.staged = True
        self.statements(pipelined)
        self.depth -= 1
        self.integers, self.staged = outer, staged

    def stage(self) -> None:
        """Copy something to U, which only pipelined loops use, so that it can be copied ahead."""
        if self.random.random() < 0.5:
            self.region(f"%A[{self.integer()}, 0]", "%U[0, 0]")
            return
        loaded = self.emit(f"load %P[{self.integer()}] {SCALAR.format('none,')}")
        p = self.emit(f'cmp {loaded}, {self.integer()} {{predicate = "lt"}}')
        self.lines.append(f"if {p} then {{")
        self.region(f"%A[{self.integer()}, 1]", "%U[0, 0]")
        self.lines.append("} orelse {")
        self.region(f"%A[{loaded}, 2]", "%U[0, 0]")
        self.lines.append("}")

    # Parallel -------------------------------------------------------------------------------------------------------

    def parallel(self) -> None:
        outer = list(self.integers)
        i, j = self.new(), self.new()
        flat, self.transposed = self.random.random() < 0.3, self.random.random() < 0.5
        self.lines.append(
            f"parallel {{extents = {'(4,)' if flat else '(4, 3)'}}} ({i}: i32{'' if flat else f', {j}: i32'}) {{"
        )
        for _ in range(self.random.randint(1, 3)):
            self.element_statement(i, "" if flat else j, 0)
        self.lines.append("}")
        self.integers = outer

    def element_statement(self, i: str, j: str, depth: int) -> None:
        kind = self.random.random()
        outer = list(self.integers)
        if kind < 0.25 and depth < 2:
            p = self.condition(i, j)
            self.lines.append(f"if {p} then {{")
            self.element_statement(i, j, depth + 1)
            self.lines.append("} orelse {")
            if self.random.random() < 0.5:
                self.element_statement(i, j, depth + 1)
            self.lines.append("}")
        elif kind < 0.4 and depth < 2:
            self.lines.append(f"for 0, {self.pick('%n', '2')}, 1 ({(k := self.new())}: i32) {{")
            self.integers.append(k)
            self.element_statement(i, j, depth + 1)
            self.lines += ["yield", "}"]
        elif j:
            value = self.value(i, j, 2)
            target = self.pick(f"%F[{i}, {j}]", f"%E[{i}, {j}]", f"%S[{i}, {j}]", f"%C[{self.orient(i, j)}]")
            self.lines.append(f"store {target}, {value} {{dims = (none, none)}}")
        else:
            self.lines.append(f"store %G[{i}], {self.value(i, '', 2)} {{dims = (none,)}}")
        self.integers = outer

    def orient(self, i: str, j: str) -> str:
        """One place of C for each element, in all statements of a parallel body."""
        return f"{j}, {i}" if self.transposed else f"{i}, {j}"

    def condition(self, i: str, j: str) -> str:
        a, b = self.pick(i, j or i, self.integer()), self.pick("2", j or "3", "%n")
        return self.emit(f'cmp {a}, {b} {{predicate = "{self.pick("lt", "ge", "ne")}"}}')

    def value(self, i: str, j: str, depth: int) -> str:
        if depth and self.random.random() < 0.7:
            a, b = self.value(i, j, depth - 1), self.value(i, j, depth - 1)
            if self.random.random() < 0.3:
                return self.emit(f"select {self.condition(i, j)}, {a}, {b}")
            return self.emit(f"{self.pick('add', 'sub', 'mul', 'max')} {a}, {b}")
        both, one = SCALAR.format("none, none"), SCALAR.format("none,")
        shifted = self.emit(f"add {i}, {self.integer()}")
        choices = [f"load %A[{shifted}, {j or 1}] {both}", f"load %V[{shifted}] {one}", f"load %G[{i}] {one}",
                   f"load %F[{i}, {j or 2}] {both}", f"load %P[{i}] {one}"]  # fmt: skip
        if j:
            choices += [f"load %A[{j}, {i}] {both}", f"load %W[{j}] {one}", f"load %S[{i}, {j}] {both}",
                        f"load %E[{i}, {j}] {both}", f"load %T[{i}, 2] {both}"]  # fmt: skip
        if self.staged:
            choices += [f"load %U[{i}, {j or 0}] {both}"] * 4
        text = self.pick(*choices)
        if "%P" in text:
            gathered = self.emit(text)
            text = f"load %A[{gathered}, {j or 0}] {both}"
        return self.emit(text)


def write(random: Random) -> str:
    writer = Writer(random)
    writer.statements()
    writer.loop()
    writer.statements()
    allocs = [f"%{n} = alloc {{type_ = {SPACES[n]}<{'x'.join(map(str, s))}xf32>}}" for n, s in SHAPES.items()]
    kept = {n: s for n, s in SHAPES.items() if n != "U"}
    fills = [f"fill %{n}[{zeros(s)}], 0.5 {{shape = {s}, dims = {dims(s)}}}" for n, s in kept.items()]
    outs = []
    for at, (name, shape) in zip((0, 4, 8, 9, 10, 14), kept.items(), strict=True):
        to = "(0, 1)" if len(shape) == 2 else "(none, 0)"
        runs = f"src_dims = {dims(shape)}, dst_dims = {to}"
        outs.append(f"copy %{name}[{zeros(shape)}], %D[{at}, 0] {{shape = {shape}, {runs}}}")
    body = "\n".join([*allocs, *fills, *writer.lines, *outs])
    return f"""
    traced kernel @k(%A: tensor<12x6xf32>, %V: tensor<10xf32>, %P: tensor<4xi32>, %C: tensor<12x9xf32>,
                     %D: tensor<18x4xf32>, %n: i32) {{
      launch 2, 1, 1 {{threads = {random.choice((32, 64, 96, 128))}}} (%bx: i32, %by: i32, %bz: i32) {{
        {body}
      }}
    }}"""


def arrays(n: int) -> dict[str, np.ndarray]:
    values = np.random.default_rng(n)
    return {
        "A": values.integers(-3, 4, (12, 6)).astype(np.float32),
        "V": values.integers(-3, 4, 10).astype(np.float32),
        "P": values.integers(-2, 14, 4).astype(np.int32),
        "C": np.zeros((12, 9), np.float32),
        "D": np.zeros((18, 4), np.float32),
    }


def compare_passes(random: Random, n: int) -> Kernel:
    return agree(write(random), (*ALL, simplify, dead_code), arrays(n), n=n)


def compare_machine_code(random: Random, n: int, target: str = "sm_80") -> None:
    """One block only: all blocks of these kernels write the same places."""
    text = write(random).replace("launch 2, 1, 1", "launch 1, 1, 1")
    if target.startswith("gfx"):
        text = text.replace("threads = 32", "threads = 64").replace("threads = 96", "threads = 192")
    kernel = parse_kernel(text)
    expected = run(kernel, arrays(n), {"n": n})
    try:
        compiled = compile_ir(kernel, parse_target(target))
    except TypeMismatchError as error:  # a random place that is outside whatever happens
        if "never" not in error.message:
            raise
        return
    for schedule in ("lazy", "eager", "random"):
        given = arrays(n)
        args = [given[name] if kind == "pointer" else np.int32(n) for name, kind, *_ in compiled.params]
        how = {"schedule": schedule, "seed": n}
        if "gcn" in compiled.assembly:
            report = run_gcn(compiled.assembly["gcn"], compiled.entry, (1, 1, 1), compiled.block, args, **how)
        else:
            how["dynamic_shared"] = compiled.shared_bytes
            report = run_ptx(compiled.assembly["ptx"], compiled.entry, (1, 1, 1), compiled.block, args, **how)
        report.raise_if_findings()
        for name, array in expected.items():
            np.testing.assert_allclose(given[name], array, rtol=1e-5, err_msg=f"{name}, {schedule}")


QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(random=st.randoms(use_true_random=False), n=st.integers(0, 4))
def test_each_pass(random: Random, n: int) -> None:
    compare_passes(random, n)


@QUICK
@given(random=st.randoms(use_true_random=False), n=st.integers(0, 4))
def test_machine_code(random: Random, n: int) -> None:
    compare_machine_code(random, n)


@pytest.mark.few_cases
@settings(QUICK, max_examples=6)
@given(random=st.randoms(use_true_random=False), n=st.integers(0, 4))
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_machine_code_of_amd(target: str, random: Random, n: int) -> None:
    pytest.importorskip("llvmlite")
    compare_machine_code(random, n, target)


@pytest.mark.slow
def test_each_pass_on_many() -> None:
    ahead = sum(count(compare_passes(Random(seed), seed % 5), "async_copy") > 0 for seed in range(150))
    assert ahead > 30, "the generator should reach software pipelining"


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 200, 50))
@pytest.mark.parametrize("target", ["sm_80", "gfx942", "gfx950"])
def test_machine_code_of_many(target: str, start: int) -> None:
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    for seed in range(start, start + 50):
        compare_machine_code(Random(seed), seed % 5, target)
