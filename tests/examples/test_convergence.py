"""Rounds of a pipeline that leave their product out, behind control flow that parts the threads of a warp: nothing but
`warp_barriers` brings them together before one lane arrives for all. In the simulators, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.simulate import simulate

ROUNDS, K, N = 9, 32, 16
THIRDS = sum(t % 3 for t in range(128))
ADDED = {"if": 17, "for": THIRDS, "while": THIRDS, "inside": 17 * ROUNDS, "whole warps": 64}  # to X, in all


@mt.kernel
def chosen(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((N, "K"), T.float16),
    mask: T.Tensor(("W",), T.int32),
    X: T.Tensor((64,), T.int32),
    Y: T.Tensor((128,), T.int8),
    C: T.Tensor((64, N), T.float32),
    form="",
    always=False,
):
    """C = the sum of those products of which the mask is not zero; form: what comes first, or inside the loop."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        a = T.alloc_shared((64, K), T.float16)
        b = T.alloc_shared((N, K), T.float16)
        acc = T.alloc_fragment((64, N), T.float32)
        T.clear(acc)
        if form == "if":
            if t < 17:
                T.atomic_add(X[0], 1)
        elif form == "for":
            for i in T.serial(t % 3):
                T.atomic_add(X[i], 1)
        elif form == "while":
            i = t % 3
            while i > 0:
                T.atomic_add(X[i], 1)
                i = i - 1
        elif form == "swap":
            if t < 32:
                T.atomic_max(Y[t * 4], T.cast(1, T.int8))
        elif form == "whole warps":
            for _ in T.serial(t // 32 % 2):
                T.atomic_add(X[0], 1)
        for k in T.Pipelined(mask.shape[0], num_stages=2):
            T.copy(A[0, k * K], a)
            T.copy(B[0, k * K], b)
            if form == "inside" and t < 17:
                T.atomic_add(X[0], 1)
            if always or mask[k] != 0:
                T.gemm(a, b, acc, transpose_B=True)
        T.copy(acc, C)


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, ROUNDS * K)).astype(np.float16) for rows in (64, N))
    mask = np.array([0] * (ROUNDS - 1) + [1], np.int32)
    x, y = np.zeros(64, np.int32), np.ones(128, np.int8)
    y[:64] = 0  # half of the lanes swap at once, the others in a second turn
    return [a, b, mask, x, y, np.full((64, N), np.nan, np.float32)]


def check(kernel: mt.CompiledKernel, form: str, always: bool = False) -> None:
    for schedule, seed in [("lazy", 0), ("eager", 0), ("random", 0), ("random", 1)]:
        a, b, mask, x, _, c = args = arguments()
        kernel.simulate(*args, schedule=schedule, seed=seed)
        kept = a.astype(np.float64) * (1 if always else np.repeat(mask, K))
        np.testing.assert_array_equal(c, kept @ b.astype(np.float64).T)
        assert x.sum() == ADDED.get(form, 0)


def hangs(kernel: mt.CompiledKernel, text: str, seed: int) -> bool:
    try:
        simulate(kernel.launch_info, text, arguments(), schedule="random", seed=seed)
    except mt.SimulationError as error:
        return "mbarrier.try_wait" in str(error)
    return False


@pytest.mark.parametrize("form", ["if", "for", "while", "swap", "inside"])
def test_the_warp_meets(form: str) -> None:
    """Once; and without it the lane that arrives for its warp leaves the others behind, in some schedule."""
    kernel = chosen.compile(*arguments(), target="sm_90a", form=form)
    lines = kernel.asm["ptx"].splitlines()
    (place,) = (n for n, line in enumerate(lines) if "bar.warp.sync" in line)
    assert "warp_barriers" in lines[place]
    assert "wgmma" in kernel.asm["ptx"]
    check(kernel, form)
    without = "\n".join(lines[:place] + lines[place + 1 :])
    assert any(hangs(kernel, without, seed) for seed in range(8))


@pytest.mark.parametrize(("form", "always"), [("", False), ("whole warps", False), ("if", True)])
def test_nothing_to_do(form: str, always: bool) -> None:
    """No branch, one that whole warps take, a product in each round."""
    kernel = chosen.compile(*arguments(), target="sm_90a", form=form, always=always)
    assert "bar.warp.sync" not in kernel.asm["ptx"]
    check(kernel, form, always)


@mt.kernel
def handed_over(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((N, "K"), T.float16),
    mask: T.Tensor(("W",), T.int32),
    C: T.Tensor((64, N), T.float32),
    meets=False,
):
    """The same by explicit roles; one lane of each warp says that a slot is free."""
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        a = T.alloc_shared((2, 64, K), T.float16)
        b = T.alloc_shared((2, N, K), T.float16)
        acc = T.alloc_fragment((64, N), T.float32)
        full = T.alloc_barrier(arrive_count=[128, 128])
        free = T.alloc_barrier(arrive_count=[4, 4])
        with T.ws(0):
            T.clear(acc)
        for k in range(mask.shape[0]):
            with T.ws(1):
                T.barrier_wait(free[k % 2], (k // 2 + 1) % 2)
                T.tma_copy(A[0, k * K], a[k % 2, :, :], barrier=full[k % 2])
                T.tma_copy(B[0, k * K], b[k % 2, :, :], barrier=full[k % 2])
                T.barrier_arrive(full[k % 2])
            with T.ws(0):
                T.barrier_wait(full[k % 2], k // 2 % 2)
                if mask[k] != 0:
                    T.gemm(a[k % 2, :, :], b[k % 2, :, :], acc, transpose_B=True)
                if meets:
                    T.sync_warp()
                if t % 32 == 0:
                    T.barrier_arrive(free[k % 2])
        with T.ws(0):
            T.copy(acc, C)


@pytest.mark.parametrize("meets", [False, True])
def test_an_arrival_in_a_branch_for_one_lane(meets: bool) -> None:
    """The branch itself parts the warp; a program that has it meet in front needs nothing more."""
    a, b, mask, *_, c = arguments()
    kernel = handed_over.compile(a, b, mask, c, target="sm_90a", meets=meets)
    (line,) = (line for line in kernel.asm["ptx"].splitlines() if "bar.warp.sync" in line)
    assert ("warp_barriers" in line) != meets
    for seed in range(4):
        c[:] = np.nan
        kernel.simulate(a, b, mask, c, schedule="random", seed=seed)
        np.testing.assert_array_equal(c, a.astype(np.float64) * np.repeat(mask, K) @ b.astype(np.float64).T)


@pytest.mark.parametrize(("target", "form"), [("sm_80", "if"), ("gfx942", "while"), ("gfx950", "inside")])
def test_other_targets(target: str, form: str) -> None:
    kernel = chosen.compile(*arguments(), target=target, form=form)
    assert not any("warp_barriers" in text for text in kernel.asm.values())
    check(kernel, form)
