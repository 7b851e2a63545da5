"""How many versions the buffers of TileLang's loops get: more than the program says, where copies then run ahead."""

from __future__ import annotations

import numpy as np
import pytest

import minitile.tilelang as tilelang
from minitile.analysis.register_budget import equal_share, producer_threads
from minitile.ir.diagnostics import ResourceError
from minitile.tilelang.pass_config import options
from tests.tilelang import programs

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
RNG = np.random.default_rng(11)


def half(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float16)


def made_anew(kernel: tilelang.JITKernel, pass_configs: dict[str, bool] | None = None) -> tilelang.JITKernel:
    return tilelang.JITKernel((kernel.function, kernel.signature), options=options(pass_configs))


def notes(kernel: tilelang.JITKernel, target: str) -> list[str]:
    return [n for c in kernel.compiled(target) for n in c.notes if n.startswith("stages")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stages", [0, 1, 3])
def test_products_of_any_number_of_trips(target: str, stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator refuses what races."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    for size in (0, 32, 64, 160) if stages == 1 else (224, 17):
        a, b = half(64, size), half(size, 128)
        have = programs.product(a, b, stages)
        want = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(have, want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_two_products_a_trip(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    kernel = programs.attended(2, 192, 64, 1)
    assert any("2 in place of 1" in n for n in notes(kernel, target))
    q, kv = half(2, 192, 64) / 8, half(2, 2, 192, 64)
    q64, k64, v64 = (x.astype(np.float64) for x in (q, *kv))
    want = np.tril(q64 @ k64.transpose(0, 2, 1)) @ v64
    have = kernel(q, kv).astype(np.float64)
    assert np.linalg.norm(have - want) / np.linalg.norm(want) < 2e-3


def test_copies_run_ahead_of_a_loop_of_one_stage() -> None:
    """By as many bytes as a multiprocessor has room for; a kernel that leaves the passes out is as it says."""
    kernel = programs.product.compile(M=128, N=128, stages=1)
    (compiled,) = kernel.compiled("sm_90a")
    assert [n.split(" (")[0] for n in notes(kernel, "sm_90a")] == ["stages: 2 in place of 1", "stages: 8 in place of 2"]
    assert "cp.async.bulk.tensor" in compiled.asm["ptx"]
    plain = made_anew(kernel, {"minitile.choose_stages": False, "minitile.deepen_stages": False})
    assert notes(plain, "sm_90a") == []
    assert plain.compiled("sm_90a")[0].launch_info.dynamic_shared < compiled.launch_info.dynamic_shared // 3


def test_one_warp_copies_beside_one_warpgroup() -> None:
    """Its registers are those of a warp, so that a multiprocessor has two blocks of 160 threads and 154 registers."""
    (compiled,) = programs.product.compile(M=128, N=128, stages=1).compiled("sm_90a")
    assert compiled.launch_info.block == (160, 1, 1)


@pytest.mark.parametrize(
    ("threads", "registers", "warps"),
    [
        (128, None, 4),  # a kernel that was measured with four
        (128, 160, 1),
        (128, 256, 1),
        (256, 72, 1),  # three blocks in place of two
        (256, 64, 1),
        (256, 168, 4),  # one either way
        (384, 104, 4),
    ],
)
def test_warps_of_the_role_that_copies(threads: int, registers: int | None, warps: int) -> None:
    assert producer_threads(threads, registers) == 32 * warps
    if registers is not None and warps == 1:
        assert registers <= equal_share(threads + 32)


def test_fewer_stages_where_shared_memory_does_not_suffice() -> None:
    """What the passes take for room may be needed for something else; then loops have the stages that they say."""
    kernel = made_anew(programs.product.compile(M=128, N=128, stages=1))
    left_out = []

    def run() -> str:
        left_out.append(kernel.left_out)
        if len(left_out) < 3:
            raise ResourceError("too much shared memory")
        return "done"

    assert kernel._fitting(run) == "done"
    assert left_out == [(), ("deepen_stages",), ("deepen_stages", "choose_stages")]
    assert notes(kernel, "sm_90a") == []
