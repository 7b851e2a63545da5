"""Scalar passes on random index arithmetic: every number that is stored stays the same, and there is less to do."""

from __future__ import annotations

from random import Random

import pytest

from minitile.ir.builder import Builder
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.ir.types import I32, TensorType, i32
from minitile.ir.verifier import verify
from minitile.transforms.canonicalize.cse import cse
from minitile.transforms.canonicalize.licm import licm
from minitile.transforms.canonicalize.simplify import simplify
from minitile.transforms.manager import PassContext
from tests.analysis.test_affine import compute, random_kernel, random_operation


def storing_kernel(random: Random) -> Kernel:
    """Random arithmetic under random branches and loops; some of the values are stored."""
    kernel, values = random_kernel(random)
    out = Value(TensorType((64,), i32), None, 0, "out")
    kernel.params = (out,)
    (loop,) = (op for op in kernel.walk() if isinstance(op, control.For))
    b = Builder(loop.body)
    nest(random, b, out, values, 0)
    return kernel


def nest(random: Random, b: Builder, out: Value, values: list[Value], depth: int) -> None:
    values = list(values)
    for _ in range(3):
        kind = random.random()
        if depth < 3 and kind < 0.3:
            branch = control.If(b.compare(random.choice(["lt", "ge", "ne"]), *random.sample(values, 2)))
            b.emit(branch)
            for region in branch.regions:
                with b.inside(region):
                    nest(random, b, out, values, depth + 1)
        elif depth < 3 and kind < 0.5:
            values.append(carry(random, b, out, values, depth))
        else:
            values.append(random_operation(random, b, values))
        index = b.constant(random.randrange(64))
        b.emit(tile.Store(out, (index,), random.choice(values), dims=(None,)))


def carry(random: Random, b: Builder, out: Value, values: list[Value], depth: int) -> Value:
    """A short loop with two carried values, of which one may be idle."""
    lower, trips = b.constant(random.randint(0, 2)), random.randint(0, 3)
    loop = control.For(lower, b.constant(trips), b.constant(1), tuple(random.sample(values, 2)))
    inside = [loop.body.add_arg(I32, name) for name in ("j", "p", "q")]
    b.emit(loop)
    with b.inside(loop.body):
        nest(random, b, out, [*values, *inside], depth + 1)
        changed = random_operation(random, b, [*values, *inside])
        b.emit(control.Yield((changed, random.choice([inside[2], inside[1], changed]))))
    return loop.results[random.randrange(2)]


class Run:
    """Runs a kernel for one thread; `stored` is what it stores, in order."""

    def __init__(self, kernel: Kernel, sizes: dict[str, int], thread: int, block: int) -> None:
        self.at: dict[Value, int] = {v: sizes[name] for name, v in kernel.dims.items()}
        self.thread, self.block = thread, block
        self.stored: list[tuple[int, int]] = []
        self.ops(kernel.body.ops)

    def ops(self, ops: list[Op]) -> list[int]:
        for op in ops:
            if op.terminator:
                return [self.at[v] for v in op.operands]
            if isinstance(op, control.Launch):
                self.at[op.body.args[0]] = min(self.block, self.at[op.grid[0]] - 1)
                self.at[op.body.args[1]] = self.at[op.body.args[2]] = 0
                self.ops(op.body.ops)
            elif isinstance(op, control.For):
                carried = [self.at[v] for v in op.init]
                for i in range(self.at[op.lower], self.at[op.upper], self.at[op.step]):
                    self.at.update(zip(op.body.args, [i, *carried], strict=True))
                    carried = self.ops(op.body.ops)
                self.at.update(zip(op.results, carried, strict=True))
            elif isinstance(op, control.If):
                self.ops((op.then if self.at[op.condition] else op.orelse).ops)
            elif isinstance(op, tile.ThreadIndex):
                self.at[op.result] = self.thread
            elif isinstance(op, tile.Store):
                self.stored.append((self.at[op.indices[0]], self.at[op.value]))
            else:
                self.at[op.result] = compute(op, self.at)
        return []


def runs(kernel: Kernel) -> list[list[tuple[int, int]]]:
    found = []
    for n in range(6):
        random = Random(n)
        sizes = {name: kernel.facts[name] * random.randint(1, 3) for name in kernel.dims}
        found.append(Run(kernel, sizes, random.randrange(32), random.randrange(3)).stored)
    return found


def size(kernel: Kernel) -> int:
    return sum(not isinstance(op, arith.Constant) for op in kernel.walk())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("stage", ["tile", "thread"])
def test_the_same_is_stored(seed: int, stage: str) -> None:
    kernel = storing_kernel(Random(seed))
    verify(kernel)
    expected, before = runs(kernel), size(kernel)
    for transform in (simplify, cse, licm, simplify):
        kernel.stage = stage
        transform(kernel, PassContext())
        kernel.stage = "tile"
        verify(kernel)
        assert runs(kernel) == expected, f"{transform.__name__} {kernel}"
    assert size(kernel) < before


def test_a_second_time_changes_nothing() -> None:
    for seed in range(15):
        kernel = storing_kernel(Random(seed))
        for _ in range(3):
            simplify(kernel, PassContext())
            cse(kernel, PassContext())
        text = str(kernel)
        simplify(kernel, PassContext())
        cse(kernel, PassContext())
        assert str(kernel) == text
