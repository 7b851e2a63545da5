"""Random kernels that copy between shared buffers and tensors in loops and branches, on sm_90a: what TMA stores late
must be there when it is read back, and its sources must last as long, whenever copies land."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitile.driver.pipeline import compile_ir
from minitile.ir.parser import parse_kernel
from minitile.runtime.sim import TensorMap, run_ptx
from minitile.target import parse_target
from tests.transforms.agree import run

SHARED, FRAGMENTS, TENSORS = ("S", "T", "U"), ("F", "E"), ("A", "C", "D")
SHAPE = "shape = (8, 8), src_dims = (0, 1), dst_dims = (0, 1)"


class Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.count = 0
        self.loops: list[str] = []

    def row(self) -> str:
        """Where eight rows of a tensor begin: some of them outside it."""
        if self.loops and self.random.random() < 0.6:
            self.count += 1
            self.lines.append(f"%r{self.count} = mul {self.random.choice(self.loops)}, 8")
            return f"%r{self.count}"
        return self.random.choice(("0", "8", "16"))

    def copy(self, src: str, dst: str) -> None:
        at = {name: f"%{name}[{self.row() if name in TENSORS else 0}, 0]" for name in (src, dst)}
        self.lines.append(f"copy {at[src]}, {at[dst]} {{{SHAPE}}}")

    def statements(self, depth: int) -> None:
        for _ in range(self.random.randint(2, 5)):
            kind = self.random.choice(("store", "store", "read", "inside", "fill", "sync", "loop", "branch"))
            if kind == "store":
                self.copy(self.random.choice((*SHARED, *SHARED, "F")), self.random.choice(("C", "D")))
            elif kind == "read":
                self.copy(self.random.choice(TENSORS), self.random.choice((*SHARED, *FRAGMENTS)))
            elif kind == "inside":
                self.copy(*self.random.sample((*SHARED, *FRAGMENTS), 2))
            elif kind == "fill":
                self.fill(self.random.choice((*SHARED, *FRAGMENTS)), self.random.choice(("0.0", "1.5", "-2.0")))
            elif kind == "sync":
                self.lines.append("sync_threads")
            elif depth < 2:
                self.loop(depth) if kind == "loop" else self.branch(depth)

    def fill(self, name: str, value: str) -> None:
        self.lines.append(f"fill %{name}[0, 0], {value} {{shape = (8, 8), dims = (0, 1)}}")

    def loop(self, depth: int) -> None:
        self.count += 1
        name = f"%k{self.count}"
        self.lines.append(f"for 0, %n, 1 ({name}: i32) {{")
        self.loops.append(name)
        self.statements(depth + 1)
        self.loops.pop()
        self.lines += ["yield", "}"]

    def branch(self, depth: int) -> None:
        self.count += 1
        value = self.random.choice([*self.loops, "%n"])
        self.lines.append(f'%p{self.count} = cmp {value}, {self.random.randint(0, 2)} {{predicate = "le"}}')
        self.lines.append(f"if %p{self.count} then {{")
        self.statements(depth + 1)
        self.lines += ["yield", "} orelse {"]
        if self.random.random() < 0.5:
            self.statements(depth + 1)
        self.lines += ["yield", "}"]


def write(random: Random) -> str:
    w = Writer(random)
    for name in SHARED:
        w.lines.append(f"%{name} = alloc {{type_ = shared<8x8xf32>}}")
    for name in FRAGMENTS:
        w.lines.append(f"%{name} = alloc {{type_ = fragment<8x8xf32>}}")
    for number, name in enumerate((*SHARED, *FRAGMENTS)):
        w.fill(name, f"{number}.0")
    w.statements(0)
    w.copy(random.choice(SHARED), "C")
    body = "\n    ".join(w.lines)
    return f"""
traced kernel @k(%A: tensor<20x8xf32>, %C: tensor<20x8xf32>, %D: tensor<20x8xf32>, %n: i32) {{
  launch 1, 1, 1 {{threads = 128}} (%bx: i32, %by: i32, %bz: i32) {{
    {body}
    yield
  }}
}}"""


def arrays() -> dict[str, np.ndarray]:
    values = np.random.default_rng(0)
    return {name: values.integers(-9, 10, (20, 8)).astype(np.float32) for name in TENSORS}


def check(random: Random, n: int) -> tuple[int, int]:
    """How many TMA stores the kernel has, and how many waits for all they do."""
    text = write(random)
    expected = run(parse_kernel(text), arrays(), {"n": n})
    compiled = compile_ir(parse_kernel(text), parse_target("sm_90a"))
    maps = {name: (tensor, box, swizzle) for name, tensor, box, swizzle, *_ in compiled.tensor_maps}
    ptx = compiled.assembly["ptx"]
    for schedule in ("lazy", "eager", "random"):
        given = arrays()
        args = []
        for name, kind, *_ in compiled.params:
            if kind == "tensor_map":
                tensor, box, swizzle = maps[name]
                args.append(TensorMap(given[tensor], box, swizzle=swizzle))
            else:
                args.append(given[name] if kind == "pointer" else np.int32(n))
        report = run_ptx(
            ptx, compiled.entry, (1, 1, 1), compiled.block, args,
            dynamic_shared=compiled.shared_bytes, schedule=schedule, seed=n,
        )  # fmt: skip
        report.raise_if_findings()
        for name in TENSORS:
            np.testing.assert_array_equal(given[name], expected[name], err_msg=f"{name}, {schedule}\n{text}")
    return ptx.count("cp.async.bulk.tensor"), ptx.count("cp.async.bulk.wait_group ")


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), n=st.integers(0, 3))
def test_stores(random: Random, n: int) -> None:
    check(random, n)


@pytest.mark.slow
def test_many_stores() -> None:
    found = [check(Random(seed), seed % 4) for seed in range(200)]
    assert sum(stores for stores, _ in found) > 400
    assert sum(waits for _, waits in found) > 100
