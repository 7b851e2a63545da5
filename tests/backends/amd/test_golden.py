"""Golden LLVM IR of small kernels, to be read by people: what the compiler hands to LLVM, line by line.

    pytest --bless tests/backends/amd/test_golden.py     writes the files anew; look at the difference before you commit
    it

What LLVM makes of it is in test_golden_assembly.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import minitile as mt

pytest.importorskip("llvmlite")
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
sys.path.insert(0, str(ROOT / "examples"))


def vector_add():
    from vector_add import add

    return add.compile(*[mt.spec((1024,), "float32")] * 3, target="gfx942", block=256, threads=64)


def softmax():
    from softmax import softmax

    return softmax.compile(*[mt.spec((16, 64), "float32")] * 2, target="gfx942", rows=1, columns=64, threads=64)


def gemm(target: str):
    from gemm import gemm_nt_bf16

    specs = [mt.spec((64, 64), "bfloat16")] * 3
    tiles = {"block_M": 32, "block_N": 16, "block_K": 32, "num_stages": 3, "threads": 64}
    return gemm_nt_bf16().compile(*specs, target=target, **tiles)


KERNELS = {
    "vector_add": vector_add,
    "softmax": softmax,
    "gemm_gfx942": lambda: gemm("gfx942"),
    "gemm_gfx950": lambda: gemm("gfx950"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name, bless):
    path = FOLDER / "golden" / f"{name}.ll"
    actual = KERNELS[name]().asm["llvm"].replace(f"{ROOT}/", "")
    if bless:
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual, encoding="utf-8")
    hint = f"if the new text is right: pytest --bless tests/backends/amd/test_golden.py -k {name}"
    assert path.exists(), hint
    assert actual == path.read_text(encoding="utf-8"), hint


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_every_time(name):
    """Nothing in the text depends on addresses, hashes or what was compiled before."""
    assert KERNELS[name]().asm["llvm"] == KERNELS[name]().asm["llvm"]
