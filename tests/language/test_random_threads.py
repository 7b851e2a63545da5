"""Random programs of threads over arrays, shared memory and tensors: the same results with the passes that unroll, join
and pack, and without them."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

OFF = dict.fromkeys(("unroll_local_arrays", "join_accesses", "pack_scalars", "peel_remainder"), False)
HEAD = """
import minitile as mt
import minitile.language as T

@mt.kernel
def program(A: T.Tensor((512,), T.float16), B: T.Tensor((512,), T.float16), C: T.Tensor((512,), T.float16)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((512,), T.float16)
        a = T.alloc_local((8,), T.float16)
        b = T.alloc_local((8,), T.float16)
        for k in T.serial(8):
            a[k] = 1.0
            b[k] = 2.0
            s[t * 8 + k] = 3.0
"""
TAIL = """        for k in T.vectorized(8):
            B[t * 8 + k] = a[k] + b[k]
"""


def text(rng):
    """Loops of a few statements on neighbours, in their order or the other one, each in the thread's own 8 elements."""
    lines = []
    for _ in range(rng.randrange(2, 6)):
        rounds = rng.choice([2, 4, 7, 8])
        first = rng.randrange(9 - rounds)
        lines.append(f"        for k in T.{rng.choice(['vectorized', 'serial'])}({rounds}):")
        for _ in range(rng.randrange(1, 4)):
            here, there = f"t * 8 + k + {first}", rng.choice(["t * 8 + 7 - k", f"t * 8 + k + {first}"])
            own = f"k + {first}"
            statements = [
                f"a[{own}] = A[{there}]",
                f"b[{own}] = B[{there}] * a[{own}]",
                f"C[{here}] = a[{own}]",
                f"C[{there}] = C[{here}] + b[{own}]",
                f"s[{here}] = b[{own}]",
                f"a[{own}] = s[{there}]",
                f"b[7 - k] = a[{own}]",
                f"A[{there}] = s[{here}]",
                f"if t < 17: C[{here}] = a[{own}]",
            ]
            lines.append(f"            {rng.choice(statements)}")
    return HEAD + "\n".join(lines) + "\n" + TAIL


@pytest.mark.parametrize(
    "seed", [seed if seed < 6 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(60)]
)
def test_with_the_passes_and_without(seed, tmp_path):
    rng = random.Random(seed)
    target = ("sm_80", "sm_90a", "gfx942")[seed % 3]
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    file = tmp_path / "program.py"
    file.write_text(text(rng))
    spec = importlib.util.spec_from_file_location("program", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = np.random.default_rng(seed)
    given = [data.integers(-3, 3, 512).astype(np.float16) for _ in range(3)]
    found = []
    for passes in (None, OFF):
        arrays = [x.copy() for x in given]
        module.program.compile(*arrays, target=target, passes=passes).simulate(*arrays, schedule="random", seed=seed)
        found.append(arrays)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
