"""Random programs of assignments, branches, loops, break, continue and return compute what Python computes."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

import minitile as mt

NAMES = ("a", "b", "c")
HEAD = """\
import minitile.language as T

def program(x):
    a = x
    b = 1
    c = x - 3
    flag = x > 2
"""
TAIL = """
def kernel(A: T.Tensor(("n",), T.int32), C: T.Tensor(("n",), T.int32)):
    with T.Kernel(A.shape[0], threads=32) as bx:
        C[bx] = program(A[bx])
"""


class Writer:
    """Writes one program; loops are bounded, so that it ends."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.loops = 0

    def expression(self, depth=2):
        pick = self.random.randrange
        if depth == 0 or pick(3) == 0:
            return self.random.choice([*NAMES, str(pick(-4, 9))])
        kind = pick(10)
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        if kind < 4:
            return f"({x} {'+-*&'[kind]} {y}) % 1009"
        if kind == 4:
            return f"({x} // {pick(1, 9)})"
        if kind == 5:
            return f"({x} % -{pick(1, 9)})"
        if kind == 9:
            return f"({x} {('and', 'or')[pick(2)]} {y})"
        if kind == 6:
            return f"({x} if {self.condition(1)} else {y})"
        return f"{('min', 'max')[kind - 7]}({x}, {y})"

    def condition(self, depth=2):
        pick = self.random.randrange
        kind = pick(6) if depth else 0
        if kind == 1:
            return f"({self.condition(depth - 1)} and {self.condition(depth - 1)})"
        if kind == 2:
            return f"({self.condition(depth - 1)} or {self.condition(depth - 1)})"
        if kind == 3:
            return f"not {self.condition(depth - 1)}"
        if kind == 4:
            return "flag"
        if kind == 5:
            return f"{self.expression(1)} <= {self.expression(1)} < {self.expression(1)}"
        return f"{self.expression(1)} {self.random.choice(['<', '>=', '==', '!='])} {self.expression(1)}"

    def block(self, depth, in_loop, indent):
        lines = []
        for _ in range(self.random.randrange(1, 4)):
            lines += self.statement(depth, in_loop, indent)
        return lines

    def statement(self, depth, in_loop, indent):
        pad = "    " * indent
        kind = self.random.randrange(10 if depth else 4)
        if kind < 3:
            return [f"{pad}{self.random.choice(NAMES)} = {self.expression()}"]
        if kind == 3:
            if self.random.randrange(2):
                return [f"{pad}flag = {self.condition()}"]
            x, y = self.random.sample(NAMES, 2)
            return [f"{pad}{x}, {y} = {y}, {self.expression(1)}"]
        if kind < 7:
            lines = [f"{pad}if {self.condition()}:", *self.block(depth - 1, in_loop, indent + 1)]
            jumps = ["break", "continue"] if in_loop else [f"return {self.expression()}"]
            if self.random.randrange(3) == 0:
                lines.append(f"{pad}    {self.random.choice(jumps)}")
            if self.random.randrange(2):
                lines += [f"{pad}else:", *self.block(depth - 1, in_loop, indent + 1)]
            return lines
        self.loops += 1
        i = f"i{self.loops}"
        if kind < 9:
            loop = f"for {i} in range({self.random.choice(['a % 5', 'b % 4', '3', '1, 6, 2', 'a % 4, -1, -1'])}):"
            return [pad + loop, *self.block(depth - 1, True, indent + 1), f"{pad}    b = b + {i}"]
        head = [f"{pad}{i} = 0", f"{pad}while {i} < 4 and {self.condition(1)}:", f"{pad}    {i} += 1"]
        return [*head, *self.block(depth - 1, True, indent + 1)]

    def program(self):
        return HEAD + "\n".join(self.block(3, False, 1)) + "\n    return a * 31 + b * 7 + c + flag\n" + TAIL


def check(seed, folder):
    """Runs one program as a kernel and as Python."""
    file = folder / f"random_program_{seed}.py"
    file.write_text(Writer(seed).program())
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs = np.arange(-4, 8, dtype=np.int32)
    outputs = np.zeros_like(inputs)
    mt.kernel(module.kernel)(inputs, outputs)
    assert outputs.tolist() == [int(module.program(int(x))) for x in inputs], file.read_text()


@pytest.mark.parametrize("seed", range(30))
def test_random_program(seed, tmp_path):
    check(seed, tmp_path)
