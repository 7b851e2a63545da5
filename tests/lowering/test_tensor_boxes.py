"""Random kernels that write parts of a tensor and read them again by other threads: with the barriers that are inserted
nothing races, and all is as in one thread. And where parts provably do not meet, there are none."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import numpy as np
import pytest

import minitile as mt
from minitile.ir.diagnostics import MinitileError
from minitile.ir.parser import parse_kernel
from minitile.target import parse_target
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.thread_barriers import thread_barriers
from tests.fuzz.tile_programs import load_text
from tests.tile_interpreter import interpret

ROWS, COLUMNS = 4, 32


def write(seed: int) -> str:
    """Loops, up and down, around boxes that are written or read mirrored, each at a place affine in the loops."""
    random = Random(seed)
    lines: list[str] = []

    def index(loops: list[str], step: int) -> str:
        start = random.choice((0, 0, step, 2 * step))
        terms = [f"{random.choice((step, step, 2 * step, step // 2, 0))} * {loop}" for loop in loops]
        if loops and random.random() < 0.3:
            return f"{start + 6 * step} - {random.choice((step, step // 2))} * {loops[-1]}"
        return " + ".join([str(start), *terms])

    def access(indent: int, loops: list[str]) -> None:
        row, column = index(loops, ROWS), index(loops, COLUMNS)
        head = f"{indent * '    '}for i, j in T.Parallel({ROWS}, {COLUMNS}):\n"
        inside = (indent + 1) * "    "
        if random.random() < 0.6:
            value = f"x[i, j] + {random.randrange(9)}"
            lines.append(f"{head}{inside}Y[{row} + i, {column} + j] = {value}")
        else:
            lines.append(f"{head}{inside}x[i, j] = Y[{row} + {ROWS - 1} - i, {column} + {COLUMNS - 1} - j]")

    def block(indent: int, loops: list[str], depth: int) -> None:
        for _ in range(random.randint(1, 3)):
            if depth < 2 and random.random() < 0.5:
                name = f"k{len(lines)}_{depth}"
                lines.append(f"{indent * '    '}for {name} in range({random.choice(('n', '3', 'n % 3'))}):")
                block(indent + 1, [*loops, name], depth + 1)
            else:
                access(indent, loops)

    block(2, [], 0)
    body = "\n".join(lines)
    return f"""import minitile.language as T


def kernel(Y: T.Tensor(("M", "N"), T.int32), n: T.int32):
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment(({ROWS}, {COLUMNS}), T.int32)
        T.fill(x, 1)
{body}
"""


def compiled(seed: int, target: str) -> tuple[mt.CompiledKernel, np.ndarray, np.ndarray]:
    """The kernel, the tensor as it is in the beginning, and as it has to be in the end."""
    before = np.arange(40 * 300, dtype=np.int32).reshape(40, 300)
    after = before.copy()
    with tempfile.TemporaryDirectory() as folder:
        kernel = load_text(write(seed), Path(folder))
        interpret(kernel.trace(mt.spec(before.shape, "int32")), {"Y": after}, {"n": 4})
        return kernel.compile(mt.spec(before.shape, "int32"), target=target), before, after


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", range(24))
def test_enough(seed: int) -> None:
    kernel, before, after = compiled(seed, ("sm_80", "sm_90a")[seed % 2])
    found = before.copy()
    kernel.simulate(found, 4, schedule="random", seed=seed)
    np.testing.assert_array_equal(found, after)


def test_loops_that_write_on_need_none() -> None:
    """What each round writes for itself: no thread waits for another."""
    loops = "for k in range(n):\n            for i, j in T.Parallel(4, 32):\n"
    body = f"{loops}                Y[4 * (k // 2) + i, {{}} + j] = k"
    for column, barriers in (("64 * k", 0), ("200 - 32 * k", 0), ("32 * n - 32 * k", 0), ("16 * k", 1), ("0 * k", 1)):
        with tempfile.TemporaryDirectory() as folder:
            text = write(0)
            kernel = load_text(
                text[: text.index("        x = ")] + "        " + body.format(column) + "\n", Path(folder)
            )
            found = kernel.compile(mt.spec((40, 300), "int32"), target="sm_80")
        assert found.asm["ptx"].count("bar.sync") == barriers, column


def test_threads_apart_are_anywhere() -> None:
    """In a loop that threads leave at different times, the boxes of one round say nothing of those of another one."""
    text = """thread kernel @k(%A: tensor<"N"xf32>, %n: i32) attrs {threads = 64} {
  %a = global_address %A
  %b = add %a, 4
  %tid = special {register = "tid.x"}
  for 0, %tid, 1 (%i: i32) {
    for 0, %n, 1 (%j: i32) {
      %now = mul %j, 32
      %next = add %now, 32
      store_mem %a, 1.0, %A, [%now] {space = "global", address_of = (0,), offsets = (0,), extent = (32,)}
      store_mem %b, 2.0, %A, [%next] {space = "global", address_of = (0,), offsets = (0,), extent = (32,)}
    }
  }
}"""
    with pytest.raises(MinitileError, match="another thread"):
        thread_barriers(parse_kernel(text), PassContext(parse_target("sm_80")))
    thread_barriers(parse_kernel(text.replace("for 0, %tid", "for 0, %n")), PassContext(parse_target("sm_80")))
