"""How much work the passes are, in calls of Python functions: on a busy machine time says nothing, calls do not vary.

About 4 million calls are a second. The limits are 1 to 3 % above what was measured; a kernel that needs more than its
own has a pass that walks too often, or searches for proofs that are not needed.
"""

from __future__ import annotations

import cProfile
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import minitile as mt
from minitile.driver import pipeline
from minitile.transforms.manager import run_passes

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

LARGE = mt.spec((8192, 8192), "bfloat16")


def plain(panel: int) -> None:
    from gemm import gemm_nt_bf16

    tiles = {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 4, "threads": 256}
    gemm_nt_bf16().compile(LARGE, LARGE, LARGE, target="sm_90a", panel=panel, **tiles)


def teams(panel: int) -> None:
    from gemm_persistent import gemm_persistent

    tiles = {"block_M": 128, "block_N": 192, "block_K": 64, "num_stages": 5, "teams": 2}
    gemm_persistent.compile(LARGE, LARGE, LARGE, target="sm_90a", panel=panel, **tiles)


def stream_k(blocks: int) -> None:
    from gemm_stream_k import gemm_stream_k

    parts, arrived = mt.spec((1024, 128, 128), "float32"), mt.spec((1024,), "int32")
    gemm_stream_k.compile(LARGE, LARGE, LARGE, parts, arrived, target="sm_90a", blocks=blocks)


def interleaved(panel: int, target: str = "gfx950") -> None:
    from gemm import gemm_nt_bf16

    tiles = {"block_M": 256, "block_N": 256, "block_K": 64, "num_stages": 2, "threads": 512}
    passes = {"cdna4_half_tiles": False}
    gemm_nt_bf16().compile(LARGE, LARGE, LARGE, target=target, panel=panel, passes=passes, **tiles)


def calls_of(profile: cProfile.Profile) -> int:
    """Without comparisons: whether a key is the same object as a cache's, or an equal one, is up to what ran before."""
    return sum(each.callcount for each in profile.getstats() if getattr(each.code, "co_name", "") != "__eq__")


@pytest.mark.parametrize(
    ("compiled", "limit"), [(plain, 234_500), (teams, 707_000), (stream_k, 1_387_000), (interleaved, 359_000)]
)
def test_calls(compiled: Callable[[int], None], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*args, **kwargs):  # the passes alone
        nonlocal calls
        profile = cProfile.Profile()
        profile.runcall(run_passes, *args, **kwargs)
        calls = calls_of(profile)

    monkeypatch.setenv("MINITILE_VERIFY", "0")
    compiled(8)  # imports, and what is computed once
    monkeypatch.setattr(pipeline, "run_passes", counted)
    compiled(9)
    assert 0 < calls <= limit, f"{calls} calls"


SCHEDULING = {
    "check_schedule",
    "skew",
    "software_pipeline",
    "spread_copies",
    "prefetch_fragments",
    "cdna4_half_tiles",
    "cdna4_interleave",
    "cdna4_modulo",
}


def overlapped(panel: int) -> None:
    from attention import attention

    shape = mt.spec((1, 1, 1024 * panel, 128), "bfloat16")
    attention.compile(*[shape] * 4, target="sm_90a", D=128)


def searched(panel: int) -> None:
    from gemm import gemm_nt_bf16

    tiles = {"block_M": 192, "block_N": 192, "block_K": 64, "num_stages": 2, "threads": 256}
    gemm_nt_bf16().compile(LARGE, LARGE, LARGE, target="gfx950", panel=panel, **tiles)


@pytest.mark.parametrize("compiled", [plain, teams, interleaved, overlapped, searched])
def test_scheduling(compiled: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """All loops of a kernel are scheduled in 80,000 calls, some 20 ms: the largest is the one of gfx950."""
    calls = 0

    def alone(run):
        def profiled(kernel, context):
            nonlocal calls
            profile = cProfile.Profile()
            profile.runcall(run, kernel, context)
            calls += calls_of(profile)

        return profiled

    def counted(kernel, passes, context, **more):
        run_passes(kernel, [(n, alone(run) if n in SCHEDULING else run) for n, run in passes], context, **more)

    monkeypatch.setenv("MINITILE_VERIFY", "0")
    compiled(8)
    monkeypatch.setattr(pipeline, "run_passes", counted)
    compiled(9)
    assert 0 < calls <= 80_000, f"{calls} calls"


def cpu_seconds(process: int) -> float:
    """What a process has used so far, on all cores."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a process' time is read from /proc")
def test_llvm_included(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 256x256x64 GEMM of gfx950 takes less than a second of this process and of LLVM's together, in assembly."""
    pytest.importorskip("llvmlite")
    from minitile.backends.amd.assemble.codegen import _worker

    monkeypatch.setenv("MINITILE_CACHE", "0")
    monkeypatch.setenv("MINITILE_VERIFY", "0")
    interleaved(0)  # imports, LLVM's start
    processes = os.getpid(), _worker().started().pid
    spent = []
    for panel in (1, 2):
        before = sum(map(cpu_seconds, processes))
        interleaved(panel)
        spent.append(sum(map(cpu_seconds, processes)) - before)
    assert 0 < min(spent) <= 1.0, f"{spent} seconds"
