"""GEMM and attention over sizes, tiles, forms and dtypes drawn at random, each against float64.

In the simulator, which also looks for races, a few small examples, the same ones each time. On the GPU many and larger
ones, others each time (a failure prints how to repeat it):

    MINITILE_GPU=1 python -m pytest -q tests/examples/test_sweep.py

EXAMPLES=1000 sets how many, on either.
"""

from __future__ import annotations

import os

import attention
import gemm
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import USE_GPU

pytestmark = pytest.mark.usefixtures("target")
PRIMES = (1, 2, 3, 5, 7, 13, 17, 31, 61, 67, 97, 127, 131, 197, 251, 257, 509, 521, 1021, 1031, 2039)
SWEEP = {
    "deadline": None,
    "derandomize": not USE_GPU,
    "database": None,
    "print_blob": True,
    "suppress_health_check": list(HealthCheck),
}
LARGEST = 2100 if USE_GPU else 150


def examples(simulated: int, on_gpu: int) -> int:
    return int(os.environ.get("EXAMPLES", on_gpu if USE_GPU else simulated))


def extents(largest: int) -> st.SearchStrategy[int]:
    """Primes, which no tile divides; multiples of 8, which TMA takes; and any other."""
    return st.one_of(
        st.sampled_from([p for p in PRIMES if p <= largest]),
        st.integers(1, largest // 8).map(lambda n: 8 * n),
        st.integers(1, largest),
    )


# block_M, block_N, block_K, num_stages, threads: for one and two warpgroups, and fewer warps than sm_90a's path takes.
TILES = (
    (64, 64, 64, 3, 128),
    (64, 32, 32, 2, 128),
    (128, 128, 64, 4, 256),
    (128, 64, 128, 2, 256),
    (128, 256, 64, 3, 256),
    (256, 128, 64, 2, 256),
    (64, 64, 32, 1, 128),
    (32, 32, 32, 4, 64),
)
NAMES = ("block_M", "block_N", "block_K", "num_stages", "threads")


@settings(max_examples=examples(4, 400), **SWEEP)
@given(
    size=st.tuples(extents(LARGEST), extents(LARGEST), extents(LARGEST)),
    tiles=st.sampled_from(TILES),
    panel=st.sampled_from((0, 1, 3, 10)),
    form=st.tuples(st.booleans(), st.booleans()),
    name=st.sampled_from(("bf16", "f16", "int8")),
    seed=st.integers(0, 1000),
)
@example(size=(128, 128, 8), tiles=TILES[2], panel=0, form=(False, True), name="bf16", seed=0)  # K < block_K
@example(size=(129, 136, 24), tiles=TILES[3], panel=10, form=(False, False), name="bf16", seed=0)
@example(size=(1, 8, 8), tiles=TILES[0], panel=3, form=(False, True), name="f16", seed=0)
@example(size=(1, 1, 1), tiles=TILES[2], panel=1, form=(True, False), name="bf16", seed=0)
def test_gemm(size, tiles, panel, form, name, seed):
    found = gemm.run(*size, name, *form, seed=seed, panel=panel, **dict(zip(NAMES, tiles, strict=True)))
    assert found <= gemm.DTYPES[name][-1]


@st.composite
def attentions(draw):
    """(b, h, s, d), of so many scores at most as keep one example short."""
    s = draw(extents(1500 if USE_GPU else 140))
    heads = (1, 2, 3) if USE_GPU else (1,)
    return draw(st.sampled_from(heads)), draw(st.sampled_from(heads)), s, draw(st.sampled_from((64, 96, 128)))


@settings(max_examples=examples(3, 200), **SWEEP)
@given(
    shape=attentions(),
    causal=st.booleans(),
    tiles=st.sampled_from(((128, 64, 2, 256), (128, 128, 2, 256), (64, 64, 3, 128), (128, 64, 1, 256))),
    seed=st.integers(0, 1000),
)
@example(shape=(1, 2, 129, 64), causal=True, tiles=(128, 64, 2, 256), seed=0)
@example(shape=(1, 1, 1, 128), causal=True, tiles=(128, 128, 2, 256), seed=0)
@example(shape=(2, 1, 67, 96), causal=False, tiles=(64, 64, 3, 128), seed=0)
def test_attention(shape, causal, tiles, seed):
    names = ("block_M", "block_N", "num_stages", "threads")
    assert attention.run(*shape, causal, seed, **dict(zip(names, tiles, strict=True))) <= 8e-3
