"""Golden PTX of small kernels, to be read by people: what comes out of the compiler, line by line.

    pytest --bless tests/golden     writes the files anew; look at the difference before you commit it

The kernels are those of examples/ with tiles for one warp (for sm_90a: one warpgroup that multiplies), so that each is
a page or two. Each text must also assemble, without spills, for the architecture it is written for and for later ones;
what is written for sm_90a, for that alone.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

import minitile as mt
from minitile.backends.nvidia.assemble import assemble

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT / "examples"))


def vector_add():
    from vector_add import add

    return add.compile(*[mt.spec((1024,), "float32")] * 3, target="sm_80", block=128, threads=32)


def softmax():
    from softmax import softmax

    return softmax.compile(*[mt.spec((16, 64), "float32")] * 2, target="sm_80", rows=2, columns=64, threads=32)


def gemm():
    from gemm import gemm_nt_bf16

    specs = [mt.spec((64, 64), "bfloat16")] * 3
    tiles = {"block_M": 32, "block_N": 16, "block_K": 32, "num_stages": 2, "threads": 32}
    return gemm_nt_bf16().compile(*specs, target="sm_80", **tiles)


def gemm_sm90a():
    from gemm import gemm_nt_bf16

    specs = [mt.spec((128, 128), "bfloat16")] * 3
    tiles = {"block_M": 64, "block_N": 16, "block_K": 32, "num_stages": 2, "threads": 128}
    return gemm_nt_bf16().compile(*specs, target="sm_90a", **tiles)


def attention_sm90a():
    from attention import attention

    specs = [mt.spec((1, 1, 64, 32), "bfloat16")] * 4
    tiles = {"D": 32, "block_M": 64, "block_N": 16, "num_stages": 2, "threads": 128}
    return attention.compile(*specs, target="sm_90a", causal=True, **tiles)


KERNELS = {f.__name__: f for f in (vector_add, softmax, gemm, gemm_sm90a, attention_sm90a)}
ASSEMBLED = [(name, arch) for name in ("vector_add", "softmax", "gemm") for arch in ("sm_80", "sm_89", "sm_90")]
ASSEMBLED += [("gemm_sm90a", "sm_90a"), ("attention_sm90a", "sm_90a")]


@cache
def ptx_of(name: str) -> str:
    """The text, with the paths of source files as seen from the repository."""
    return KERNELS[name]().asm["ptx"].replace(f"{ROOT}/", "")


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name: str, bless: bool) -> None:
    path = FOLDER / f"{name}.ptx"
    actual = ptx_of(name)
    if bless:
        path.write_text(actual, encoding="utf-8")
    hint = f"if the new text is right: pytest --bless tests/golden -k {name}"
    assert path.exists(), hint
    assert actual == path.read_text(encoding="utf-8"), hint


@pytest.mark.parametrize(("name", "arch"), ASSEMBLED)
def test_assembles(name: str, arch: str) -> None:
    assembled = assemble(ptx_of(name), arch)
    assert (assembled.spill_stores, assembled.spill_loads, assembled.stack) == (0, 0, 0)
    assert not assembled.warnings


@pytest.mark.parametrize("name", KERNELS)
def test_the_same_every_time(name: str) -> None:
    """Nothing in the text depends on addresses, hashes or what was compiled before."""
    assert KERNELS[name]().asm["ptx"].replace(f"{ROOT}/", "") == ptx_of(name)
