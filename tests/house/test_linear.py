"""Compile time is linear in the number of statements: what a statement costs does not grow with how many there are.

Counted in calls of Python functions, which do not vary on a busy machine; a slow test takes the time as well, since
work inside of sets and dictionaries is no call. LLVM's part on AMD is not ours, and left out.
"""

from __future__ import annotations

import cProfile
import gc
import importlib.util
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minitile as mt
from minitile.backends.amd.verify import scheduling_barrier_retry as pinned

HEAD = """import minitile as mt
import minitile.language as T


@mt.kernel
def k(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(1, threads=64) as bx:
        tx = T.get_thread_binding()
"""
TILES = """import minitile as mt
import minitile.language as T


@mt.kernel
def k(A: T.Tensor((64, {columns}), T.float16), B: T.Tensor((64, {columns}), T.float16), C: T.Tensor((64, {columns}), {c})):
    with T.Kernel(1, threads=128) as bx:
{body}
"""  # noqa: E501


def lines(indent: int, text: str, count: int) -> str:
    """The text for i = 0, 1, …; `{i}` is i, `{n}` 64 i."""
    return "".join(
        " " * indent + text.format(i=i, n=64 * i).replace("\n", "\n" + " " * indent) + "\n" for i in range(count)
    )


def stores(count: int) -> str:
    return HEAD + lines(8, "A[{n} + tx] = {i}.5", count)


def one_loop(count: int) -> str:
    total = 64 * count
    return (
        HEAD
        + "        for i in T.serial(4):\n"
        + lines(12, f"A[i * {total} + {{n}} + tx] = B[i + tx] * {{i}}.5", count)
    )


def chain(count: int) -> str:
    """One name assigned again and again."""
    text = HEAD + "        for i in T.serial(4):\n            x = B[i]\n"
    return text + lines(12, "x = x * {i}.5 + B[i]", count) + "            A[i] = x\n"


def many_loops(count: int) -> str:
    return HEAD + lines(8, "for i in T.serial(4):\n    A[i * 64 + {n} + tx] = B[i * 64 + {n} + tx] * 2.0", count)


def branches(count: int) -> str:
    return HEAD + lines(8, "if A.shape[0] > {i}:\n    A[{n} + tx] = B[{n} + tx] * 2.0", count)


def shared(count: int) -> str:
    body = "S[tx] = B[{n} + tx]\nT.sync_threads()\nA[{n} + tx] = S[63 - tx]\nT.sync_threads()"
    return HEAD + "        S = T.alloc_shared((64,), T.float32)\n" + lines(8, body, count)


def gemms(count: int) -> str:
    body = "        As = T.alloc_shared((64, 64), T.float16)\n        Bs = T.alloc_shared((64, 64), T.float16)\n"
    body += "        Cl = T.alloc_fragment((64, 64), T.float32)\n        T.clear(Cl)\n"
    each = "T.copy(A[0, {n}], As)\nT.copy(B[0, {n}], Bs)\nT.gemm(As, Bs, Cl, transpose_B=True)"
    body += lines(8, each, count) + "        T.copy(Cl, C[0, 0])\n"
    return TILES.format(columns=64 * count, c="T.float32", body=body)


def tiles(count: int) -> str:
    """Parts of tensors, each of its own box, by fragments with layouts of their own choice."""
    body = lines(
        8, "F{i} = T.alloc_fragment((64, 64), T.float16)\nT.copy(A[0, {n}], F{i})\nT.copy(F{i}, C[0, {n}])", count
    )
    return TILES.format(columns=64 * count, c="T.float16", body=body)


KINDS = (stores, one_loop, chain, many_loops, branches, shared, gemms, tiles)
SPECS = [mt.spec((1 << 22,), "float32")] * 2


def compile_text(text: str, folder: Path, target: str) -> None:
    path = folder / "k.py"
    path.write_text(text)
    found = importlib.util.spec_from_file_location("k", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    module.k.compile(*([] if '"N"' not in text else SPECS), target=target)


@pytest.fixture(autouse=True)
def without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "generate_in_order", lambda llvm, target: (llvm, "", []))


def calls(run: Callable[[], Any]) -> int:
    profile = cProfile.Profile()
    profile.runcall(run)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


TARGETS = ("sm_80", "sm_90a", "gfx942")
QUICK = {(kind, target) for kind in (stores, chain, tiles) for target in TARGETS}
QUICK |= {(one_loop, "sm_80"), (shared, "sm_80"), (shared, "gfx942"), (gemms, "sm_80"), (gemms, "sm_90a")}
CASES = [(kind, target) for kind in KINDS for target in TARGETS]


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("kind", "target"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_calls_of_a_statement(kind: Callable[[int], str], target: str, tmp_path: Path) -> None:
    """From 16 statements to 48; what does not depend on their number is taken out by a third point."""
    compile_text(kind(4), tmp_path, target)  # imports, and what is kept of them
    few, some, many = (calls(lambda n=n: compile_text(kind(n), tmp_path, target)) for n in (8, 16, 48))
    assert (many - some) / 32 < 1.2 * (some - few) / 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "target", "sizes"),
    [
        (stores, "sm_80", (1000, 4000, 16000)),
        (chain, "sm_80", (1000, 4000, 16000)),
        (stores, "gfx942", (1000, 4000, 16000)),
        *((kind, "sm_90a", (500, 2000)) for kind in KINDS),
    ],
)
def test_time_of_a_statement(kind: Callable[[int], str], target: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Of the processor's time for this process, the collector aside; the least of two runs."""
    each = []
    compile_text(kind(8), tmp_path, target)
    for size in sizes:
        spent = []
        for _ in range(2):
            gc.collect()
            gc.disable()
            start = time.process_time()
            compile_text(kind(size), tmp_path, target)
            spent.append(time.process_time() - start)
            gc.enable()
        each.append(min(spent) / size)
    assert max(each) < 1.2 * each[0], [f"{1e3 * spent:.3f} ms" for spent in each]
