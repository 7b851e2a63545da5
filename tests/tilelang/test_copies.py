"""Copies that no pipelined loop makes: issued early, waited for late. And conditions on elements of fragments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tilelang import programs

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
RNG = np.random.default_rng(12)


def half(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float16)


def close(have: np.ndarray, want: np.ndarray) -> None:
    assert np.linalg.norm(have.astype(np.float64) - want) < 2e-3 * max(1.0, float(np.linalg.norm(want)))


@pytest.mark.parametrize(("target", "threads"), [*((t, 64) for t in TARGETS), ("sm_90a", 128), ("sm_80", 32)])
def test_copies_of_a_serial_loop(target: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator refuses what races; rows of all conditions, and of none."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    kernel = programs.chosen_rows(3, threads)
    q, k, v = half(48, 64) / 8, half(512, 64), half(512, 64)
    which = np.array([[3, -1, 15, 0, 3, -1, -1, 7], [-1] * 8, range(8)], np.int32)
    rows = [
        np.concatenate([np.arange(i * 32, i * 32 + 32) for i in one if i >= 0] or [[]]).astype(int) for one in which
    ]
    q64, k64, v64 = (x.astype(np.float64) for x in (q, k, v))
    want = [q64[n * 16 : n * 16 + 16] @ k64[at].T @ v64[at] for n, at in enumerate(rows)]
    close(kernel(q, k, v, which), np.concatenate(want))


def test_copies_are_in_flight_together() -> None:
    (compiled,) = programs.chosen_rows(3).compiled("sm_90a")
    ptx = compiled.asm["ptx"]
    body = ptx[ptx.index("$L_for0:") :]
    assert body.index("cp.async.wait_group 1") > body.rindex("cp.async.commit_group")
    assert body.index("mma.sync") > body.index("cp.async.wait_group 1")
    assert body.index("cp.async.wait_group 0") > body.index("mma.sync")


@pytest.mark.parametrize(("threads", "few"), [(32, False), (64, True)])
def test_a_few_bytes_are_stored_by_all_threads(threads: int, few: bool) -> None:
    """64 bytes of each, as against 128."""
    (compiled,) = programs.chosen_rows(3, threads).compiled("sm_90a")
    assert any("a few bytes" in n for n in compiled.notes) == few
    assert ("cp.async.bulk.tensor" in compiled.asm["ptx"]) != few


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("parts", [1, 7])
def test_copies_under_an_element_of_a_fragment(target: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    kernel = programs.masked_blocks(192, parts)
    a, b, m = half(192, parts * 32), half(parts * 32, 64), RNG.random((3, parts)) > 0.5
    m[1] = False
    kept = m.repeat(64, 0).repeat(32, 1)
    close(kernel(a, b, m), np.where(kept, a, 0).astype(np.float64) @ b.astype(np.float64))


def test_the_role_that_copies_knows_the_condition() -> None:
    (compiled,) = programs.masked_blocks(192, 7).compiled("sm_90a")
    assert compiled.launch_info.block == (160, 1, 1)
    assert "extract" not in compiled.asm["tile_ir"]
    ptx = compiled.asm["ptx"]
    assert ptx.index("prefetch.tensormap") < ptx.index("mbarrier.init")
