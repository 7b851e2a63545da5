"""T.shfl_* and T.warp_reduce_* on waves of 64 lanes: a warp has 32 threads there as well, and 64 where a shuffle says
so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.examples.thinned import thinned

pytest.importorskip("llvmlite")
SHUFFLES = {"idx": T.shfl_sync, "up": T.shfl_up, "down": T.shfl_down, "bfly": T.shfl_xor}
WIDTHS = (1, 4, 16, 32, 64)
DISTANCES = (0, 1, 3, 8, 15, 16, 31, 33)


def source(kind, thread, number, width):
    """The thread whose value a thread gets."""
    warp = max(width, 32)
    lane, number = thread % warp, number % warp
    first = lane - lane % width
    last = first + width - 1
    other = {
        "idx": first + number % width,
        "up": lane - number if lane - number >= first else lane,
        "down": lane + number if lane + number <= last else lane,
        "bfly": lane ^ number if lane ^ number <= last else lane,
    }[kind]
    return thread - lane + other


@mt.kernel
def by_constants(x: T.Tensor((128,), T.int32), y: T.Tensor(("n", 128), T.int32), kind="idx", widths=WIDTHS):
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        for n, (width, distance) in enumerate(itertools.product(widths, DISTANCES)):
            y[n, t] = SHUFFLES[kind](x[t], distance, width)


@mt.kernel
def by_values(
    x: T.Tensor((128,), T.int32),
    d: T.Tensor((128,), T.int32),
    y: T.Tensor(("n", 128), T.int32),
    kind="idx",
    widths=WIDTHS,
):
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        for n, width in enumerate(widths):
            y[n, t] = SHUFFLES[kind](x[t], d[t], width)


@pytest.mark.parametrize("kind", SHUFFLES)
@pytest.mark.parametrize("target", ["gfx942", "gfx950", "sm_80"])
def test_every_lane(target, kind):
    """By constant distances and by each thread's own; as on NVIDIA's targets up to 32."""
    widths = WIDTHS if target.startswith("gfx") else WIDTHS[:-1]
    rng = np.random.default_rng(2)
    x, d = rng.permutation(128).astype(np.int32), rng.integers(0, 64, 128).astype(np.int32)
    y = np.full((len(widths) * len(DISTANCES), 128), -1, np.int32)
    by_constants.compile(x, y, target=target, kind=kind, widths=widths).simulate(x, y)
    for n, (width, distance) in enumerate(itertools.product(widths, DISTANCES)):
        assert y[n].tolist() == [x[source(kind, t, distance, width)] for t in range(128)], (width, distance)
    y = np.full((len(widths), 128), -1, np.int32)
    by_values.compile(x, d, y, target=target, kind=kind, widths=widths).simulate(x, d, y, schedule="random")
    for n, width in enumerate(widths):
        assert y[n].tolist() == [x[source(kind, t, int(d[t]), width)] for t in range(128)], width


@pytest.mark.parametrize(
    ("name", "target"),
    thinned(["bool", "int8", "float16", "bfloat16", "float32", "int64", "float64"], ["gfx942", "gfx950"]),
)
def test_elements_of_any_size(target, name):
    import ml_dtypes

    dtype = getattr(ml_dtypes, name, None) or np.dtype(name)

    @mt.kernel
    def kernel(x: T.Tensor((64,), getattr(T, name)), y: T.Tensor((2, 64), getattr(T, name))):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            y[0, t] = T.shfl_down(x[t], 5, 64)
            y[1, t] = T.shfl_xor(x[t], 2)

    x = np.arange(64).astype(dtype) if name != "bool" else np.arange(64) % 3 == 0
    y = np.zeros((2, 64), x.dtype)
    kernel.compile(target=target).simulate(x, y)
    assert y[0].tolist() == [x[t + 5 if t + 5 < 64 else t] for t in range(64)]
    assert y[1].tolist() == [x[t ^ 2] for t in range(64)]


REDUCTIONS = {
    "sum": (T.warp_reduce_sum, np.add),
    "max": (T.warp_reduce_max, np.maximum),
    "min": (T.warp_reduce_min, np.minimum),
    "bitand": (T.warp_reduce_bitand, np.bitwise_and),
    "bitor": (T.warp_reduce_bitor, np.bitwise_or),
}


@pytest.mark.parametrize(("name", "target"), thinned(REDUCTIONS, ["gfx942", "gfx950", "sm_80"]))
def test_reductions_are_over_32_threads(target, name):
    function, ufunc = REDUCTIONS[name]

    @mt.kernel
    def kernel(x: T.Tensor((128,), T.int32), y: T.Tensor((128,), T.int32)):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            y[t] = function(x[t])

    x = np.random.default_rng(1).integers(-1000, 1000, 128).astype(np.int32)
    y = np.zeros(128, np.int32)
    kernel.compile(target=target).simulate(x, y)
    assert np.array_equal(y, np.repeat(ufunc.reduce(x.reshape(4, 32), axis=1), 32))


def test_instructions():
    """Constant distances by exclusive or stay in the vector unit within 16 lanes."""

    @mt.kernel
    def kernel(x: T.Tensor((64,), T.int32), y: T.Tensor((4, 64), T.int32)):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for n, distance in enumerate((1, 8, 16, 32)):
                y[n, t] = T.shfl_xor(x[t], distance, 64)

    text = kernel.compile(target="gfx950").text
    assert ("quad_perm:[1,0,3,2]" in text, "row_ror:8" in text) == (True, True)
    assert (text.count("ds_swizzle_b32"), text.count("ds_bpermute_b32")) == (1, 1)


def test_what_a_warp_does_not_have():
    @mt.kernel
    def kernel(x: T.Tensor((64,), T.int32), width=64):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            x[t] = T.shfl_xor(x[t], 32, width)

    with pytest.raises(mt.MinitileError, match="among 64 threads: a warp of sm_80 has 32"):
        kernel.compile(target="sm_80")
    with pytest.raises(mt.MinitileError, match="width=128"):
        kernel.compile(target="gfx942", width=128)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_lanes_meet(target):
    """T.sync_warp: what a wave's lanes wrote, others of it read."""

    @mt.kernel
    def kernel(x: T.Tensor((64,), T.int32), y: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), T.int32)
            t = T.get_thread_binding()
            s[t] = x[t]
            T.sync_warp()
            y[t] = s[t ^ 31]

    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for schedule in ("lazy", "random"):
        kernel.compile(target=target).simulate(x, y, schedule=schedule)
        assert y.tolist() == [t ^ 31 for t in range(64)]
