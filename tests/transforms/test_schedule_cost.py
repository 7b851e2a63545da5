"""What a loop's turn is expected to cost, and how `--explain` draws it."""

from __future__ import annotations

import pytest

import minitile as mt
import minitile.language as T
from minitile.driver import pipeline
from minitile.driver.pipeline import compile_ir
from minitile.tools.explain import summary
from minitile.transforms.schedule.cost import Turn, draw


@mt.kernel
def softened(
    A: T.Tensor((64, "K"), T.bfloat16),
    B: T.Tensor((64, "K"), T.bfloat16),
    C: T.Tensor((64, 64), T.float32),
    num_stages: int = 3,
):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), T.bfloat16)
        b = T.alloc_shared((64, 32), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=num_stages):
            T.copy(A[0, k * 32], a)
            T.copy(B[0, k * 32], b)
            T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                c[i, j] = T.exp2(c[i, j])
        T.copy(c, C)


SPECS = mt.spec((64, "K"), "bfloat16"), mt.spec((64, "K"), "bfloat16"), mt.spec((64, 64), "float32")


def turn(target: str, **constants: int) -> Turn:
    compiled = softened.compile(*SPECS, target=target, **constants)
    turns: list[Turn] = []
    compile_ir(compiled.case.trace(), compiled.target, compiled.passes, turns=turns)
    (found,) = turns
    return found


def test_units() -> None:
    """64 × 64 × 32 products of 1024 a cycle, 2 × 4 KB of 64 bytes, 4096 elements of 16."""
    found = turn("sm_80")
    assert found.busy() == {"tensor": 128.0, "copy": 128.0, "special": 256.0}
    assert found.interval == 256.0
    assert {e.stage for e in found.entries if e.unit == "copy"} == {-2}
    assert {e.stage for e in found.entries if e.unit != "copy"} == {0}


def test_rates_are_the_targets() -> None:
    pytest.importorskip("llvmlite")
    assert turn("gfx950", num_stages=2).busy()["tensor"] == 64.0
    assert {e.stage for e in turn("gfx942").entries if e.unit == "copy"} == {-1}  # through registers


def consumer() -> Turn:
    compiled = softened.compile(*SPECS, target="sm_90a")
    every: list[Turn] = []
    compile_ir(compiled.case.trace(), compiled.target, compiled.passes, turns=every)
    (found,) = (each for each in every if "tensor" in each.busy())
    return found


def test_a_warpgroups_own_turn() -> None:
    """64 × 64 × 32 products of 2048 a cycle, beside copies; then each thread has 32 functions, of 8 cycles for a
    warp, the last of which the next product waits for: 3 cycles more. No unit is busy for as long."""
    found = consumer()
    assert found.issued is not None
    assert found.busy() == {"tensor": 64.0, "copy": 128.0, "special": 256.0, "issue": 32.0}
    assert found.interval == found.issued.cycles == 64 + 256 + 3
    assert draw(found)[-1].strip() == "a warpgroup's own turn: 323 cycles"


def test_only_who_asks_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling counts no instructions where turns are not asked for."""

    def refuse(*_: object) -> None:
        raise AssertionError("instructions are counted")

    monkeypatch.setattr(pipeline, "with_instructions", refuse)
    compiled = softened.compile(*SPECS, target="sm_90a")
    compile_ir(compiled.case.trace(), compiled.target, compiled.passes)


def test_drawn() -> None:
    lines = draw(turn("sm_80"))
    assert lines[0].endswith("stages -2, 0; 256 cycles a turn")
    assert [line.split("line")[0].split() for line in lines[1:-1]] == [
        ["wait", "flight", "·", "■"],
        ["async_copy", "a", "■", "·"],
        ["async_copy", "b", "■", "·"],
        ["gemm", "c", "·", "■"],
        ["exp2", "c", "·", "■"],
    ]
    assert lines[-1].strip() == "busy: tensor 50%, copy 50%, special 100%"


def test_explain_has_it() -> None:
    compiled = softened.compile(*SPECS, target="sm_80")
    texts = [text for name, text in summary(compiled) if name == "schedule"]
    assert texts[0].startswith("loop of line ")
    assert texts[-1].split()[0] == "busy:"
