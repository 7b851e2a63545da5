"""The IR is well-formed after every pass, for the kernels of examples/ on each lowering."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import minitile as mt

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from attention import attention  # now, before other tests put other folders in front
from gemm import gemm_nt_bf16
from softmax import softmax


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("stages", [1, 3])
def test_gemm(target: str, stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_VERIFY", "1")
    tiles = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": stages, "threads": 128}
    compiled = gemm_nt_bf16().compile(*[mt.spec((256, 256), "bfloat16")] * 3, target=target, **tiles)
    assert ("wgmma.mma_async" in compiled.asm["ptx"]) == (target == "sm_90a")
    assert ("cp.async.bulk" in compiled.asm["ptx"]) == (target == "sm_90a" and stages > 1)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_softmax(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_VERIFY", "1")
    softmax.compile(*[mt.spec((16, 256), "float32")] * 2, target=target, rows=2, columns=256, threads=128)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_attention(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_VERIFY", "1")
    attention.compile(*[mt.spec((1, 2, 256, 128), "bfloat16")] * 4, target=target, num_stages=2, causal=True)
