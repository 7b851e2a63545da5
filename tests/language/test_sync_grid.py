"""T.sync_grid: the blocks of a grid meet, which all run at the same time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import assembler_name
from minitile.ir.diagnostics import TargetError
from minitile.runtime.sim import run_ptx

RNG = np.random.default_rng()
NVIDIA = pytest.mark.parametrize("target", ["sm_80", "sm_90a"])


@mt.kernel
def shares(
    X: T.Tensor(("N",), T.float32), P: T.Tensor((5,), T.float32), Y: T.Tensor(("N",), T.float32), rounds=3, meet=True
):
    """Each block sums a part of the vector; then each divides by the sum of all, and adds the number of the round."""
    (N,) = X.shape
    with T.Kernel(5, threads=128) as bx:
        for r in T.serial(rounds):
            x, s = T.alloc_fragment((1, 128), T.float32), T.alloc_fragment((1,), T.float32)
            T.clear(x)
            for t in T.serial(T.ceildiv(N, 640)):
                for _, i in T.Parallel(1, 128):
                    x[0, i] += X[(t * 5 + bx) * 128 + i]
            T.reduce_sum(x, s, dim=1)
            T.copy(s, P[bx])
            if meet:
                T.sync_grid()
            total = 0.0
            for j in T.serial(5):
                total += P[j]
            for t in T.serial(T.ceildiv(N, 640)):
                for i in T.Parallel(128):
                    Y[(t * 5 + bx) * 128 + i] = X[(t * 5 + bx) * 128 + i] / total + r
            if meet:
                T.sync_grid()


@NVIDIA
@pytest.mark.parametrize(("rounds", "n"), [(0, 17), (1, 1), (2, 700)])
def test_partial_sums(target, rounds, n):
    x, p, y = RNG.random(n, np.float32) + 0.1, np.full(5, np.nan, np.float32), np.full(n, -1, np.float32)
    compiled = shares.compile(x, p, y, target=target, rounds=rounds)
    for schedule in ("eager", "lazy", "random"):
        y[:] = -1
        compiled.simulate(x, p, y, schedule=schedule)
        expected = x / x.sum(dtype=np.float64) + rounds - 1 if rounds else np.full(n, -1)
        np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert compiled.launch_info.cooperative
    if assembler_name(compiled.asm["ptx"]) is not None:
        assert compiled.binary


def test_without_it_there_is_a_race():
    x, p, y = np.ones(1000, np.float32), np.zeros(5, np.float32), np.zeros(1000, np.float32)
    compiled = shares.compile(x, p, y, target="sm_80", meet=False)
    assert not compiled.launch_info.cooperative
    with pytest.raises(mt.RaceError):
        compiled.simulate(x, p, y)


@mt.kernel
def mirrored(X: T.Tensor((640,), T.float32), Y: T.Tensor((640,), T.float32)):
    """Every thread writes, and reads what another block has written."""
    with T.Kernel(5, threads=128) as bx:
        t = T.get_thread_binding()
        Y[bx * 128 + t] = X[bx * 128 + t] * 2
        T.sync_grid()
        x = Y[639 - bx * 128 - t]
        T.sync_grid()
        Y[bx * 128 + t] = x


@NVIDIA
def test_each_part_of_it_is_needed(target):
    """Without an atomic, a wait, a fence or a barrier of the block the simulator finds something."""
    x, y = RNG.random(640, np.float32), np.zeros(640, np.float32)
    compiled = mirrored.compile(x, y, target=target)
    compiled.simulate(x, y)
    np.testing.assert_array_equal(y, 2 * x[::-1])
    text, info = compiled.asm["ptx"], compiled.launch_info

    def findings(changed):
        launch = {"dynamic_shared": info.dynamic_shared, "cooperative": True, "schedule": "random"}
        runs = (run_ptx(changed, info.entry, (5, 1, 1), (128, 1, 1), (x, y), seed=n, **launch) for n in range(4))
        return next((run.findings for run in runs if run.findings), [])

    assert not findings(text)
    first = text.index("bar.sync 0;  // program")
    end = text.index("ld.global", first)  # of what stands between the two
    for pattern in (r"bar\.sync 0;", r"fence\.acq_rel\.gpu;", r"@%p\d+ bra \$L_grid0;", r"atom\.global\.add\.u32"):
        for m in re.finditer(pattern + "[^\n]*", text[first:end]):
            changed = text[: first + m.start()] + text[first + m.end() :]
            assert findings(changed), text[first + m.start() : first + m.end()]


@mt.kernel
def turned(X: T.Tensor((512, 64), T.float16), P: T.Tensor((512, 64), T.float16), Y: T.Tensor((512, 64), T.float16)):
    """Copies by TMA, where there is one, on both sides of the barrier."""
    with T.Kernel(4, threads=128) as bx:
        s, t = T.alloc_shared((128, 64), T.float16), T.alloc_shared((128, 64), T.float16)
        T.copy(X[bx * 128, 0], s)
        T.copy(s, P[bx * 128, 0])
        T.sync_grid()
        T.copy(P[(3 - bx) * 128, 0], t)
        T.copy(t, Y[bx * 128, 0])


@NVIDIA
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_copies_in_flight(target, schedule):
    x = RNG.standard_normal((512, 64)).astype(np.float16)
    p, y = np.zeros_like(x), np.zeros_like(x)
    compiled = turned.compile(x, p, y, target=target)
    compiled.simulate(x, p, y, schedule=schedule)
    np.testing.assert_array_equal(y, x.reshape(4, 128, 64)[::-1].reshape(512, 64))
    if target == "sm_90a":
        assert "cp.async.bulk.wait_group 0;" in compiled.asm["ptx"].split("grid_barrier]")[0]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_amd(target):
    pytest.importorskip("llvmlite")
    with pytest.raises(TargetError, match=r"T\.sync_grid on gfx9.. is planned"):
        turned.compile(target=target)


def test_not_where_threads_part(refuses):
    def kernel(V: T.Tensor((128,), T.float32)):
        with T.Kernel(1, threads=128):
            if T.get_thread_binding() < 64:
                T.sync_grid()

    refuses(kernel, "differs between threads")
