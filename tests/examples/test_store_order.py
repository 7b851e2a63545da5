"""Copies by TMA to one place of a tensor, one after the other, and with whatever else accesses it.

Bulk operations are in no order, not even those of one thread, and different threads issue them: one of each warpgroup
stores fragments, the first thread shared tiles. Each must be complete, and the others of the role must know, before the
next access. On sm_90a, with explicit roles, automatic and none, against NumPy in the simulator with every access
checked.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU

import minitile as mt
from tests.fuzz.tile_programs import load_text

pytestmark = pytest.mark.skipif(USE_GPU, reason="looks for races")

FORMS = ("explicit", "automatic", "one role")
M, N = 384, 32  # rows of D and E, of which a tile is 128
ROUNDS = 3
TEXTS = {
    "fragment": "T.copy(acc, D[0, 0])",
    "staged": "T.copy(acc, S)\nT.copy(S, D[0, 0])",
    "plain": "for i, j in T.Parallel(128, 32):\n    if j < n + 20:\n        D[i, j] = acc[i, j]",
    "atomic": "for i, j in T.Parallel(128, 32):\n    T.atomic_add(D[127 - i, 31 - j], acc[i, j])",
    "sum": "T.atomic_add(D[0, 0], acc)",
    "staged sum": "T.copy(acc, S)\nT.atomic_add(D[0, 0], S)",
    "load": "for i, j in T.Parallel(128, 32):\n    E[i, j] = E[i, j] + D[127 - i, 31 - j]",
    "bulk load": "T.copy(D[0, 0], R)\nfor i, j in T.Parallel(128, 32):\n    E[i, j] = E[i, j] + R[127 - i, 31 - j]",
}
HEAD = """import minitile.language as T

def kernel(
    A: T.Tensor((128, 64), T.bfloat16),
    B: T.Tensor((32, 64), T.bfloat16),
    D: T.Tensor(("M", "N"), T.float32),
    E: T.Tensor(("M", "N"), T.float32),
    n: T.int32,
):
    with T.Kernel(1, threads={threads}):
        a = T.alloc_shared((128, 32), A.dtype)
        b = T.alloc_shared((32, 32), A.dtype)
        S = T.alloc_shared((128, 32), T.float32)
        R = T.alloc_shared((128, 32), T.float32)
        acc = T.alloc_fragment((128, 32), T.float32)
"""
BARRIERS = {"ready": 128, "free": 256, "landed": 256, "stored": 256, "came": 128}
EXPLICIT = """with T.ws(0, 1):
    T.clear(acc)
for k in range(2):
    with T.ws(2):
        T.barrier_wait(free, k % 2 ^ 1)
        T.tma_copy(A[0, k * 32], a, barrier=ready)
        T.tma_copy(B[0, k * 32], b, barrier=ready)
        T.barrier_arrive(ready)
    with T.ws(0, 1):
        T.barrier_wait(ready, k % 2)
        T.gemm(a, b, acc, transpose_B=True)
        T.barrier_arrive(free)
"""
AUTOMATIC = """T.clear(acc)
for k in T.Pipelined(2, num_stages=2):
    T.copy(A[0, k * 32], a)
    T.copy(B[0, k * 32], b)
    T.gemm(a, b, acc, transpose_B=True)
"""


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def source(body: str, form: str) -> str:
    """A kernel of two warpgroups that compute `acc`, and do what `body` says."""
    if form != "explicit":
        return HEAD.format(threads=256) + indented(AUTOMATIC + body, 8)
    if "T.ws(" not in body:
        body = f"with T.ws(0, 1):\n{indented(body, 4)}"
    body = EXPLICIT + body
    barriers = [f"{name} = T.alloc_barrier({n})\n" for name, n in BARRIERS.items() if name in body]
    return HEAD.format(threads=384) + indented("".join(barriers) + body, 8)


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (rows, 64)).astype(ml_dtypes.bfloat16) for rows in (128, 32))
    return a, b, a.astype(np.float32) @ b.astype(np.float32).T


def compiled(body: str, form: str, folder: Path) -> mt.CompiledKernel:
    a, b, _ = operands()
    specs = [mt.spec(a.shape, "bfloat16"), mt.spec(b.shape, "bfloat16"), *[mt.spec((M, N), "float32")] * 2]
    options = {"warp_specialize": False} if form == "one role" else {}
    return load_text(source(body, form), folder).compile(*specs, target="sm_90a", **options)


def results(kernel: mt.CompiledKernel) -> tuple[np.ndarray, np.ndarray]:
    a, b, _ = operands()
    found = []
    for schedule in ("lazy", "random"):
        d, e = (np.zeros((M, N), np.float32) for _ in range(2))
        kernel.simulate(a, b, d, e, ROUNDS, schedule=schedule)
        found.append((d, e))
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    return found[0]


def in_turn(names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """D and E when the accesses have been made ROUNDS times."""
    _, _, acc = operands()
    d, e = (np.zeros((M, N), np.float32) for _ in range(2))
    tile = d[:128]
    for name in names * ROUNDS:
        if name in ("fragment", "staged"):
            tile[:] = acc
        elif name == "plain":
            tile[:, : ROUNDS + 20] = acc[:, : ROUNDS + 20]
        elif name == "atomic":
            tile += acc[::-1, ::-1]
        elif name in ("sum", "staged sum"):
            tile += acc
        else:
            e[:128] += tile[::-1, ::-1]
    return d, e


IN_TURN = [
    ("staged", "fragment"),
    ("fragment", "plain", "staged sum"),
    ("sum", "staged", "load"),
    ("staged", "atomic", "sum"),
    ("fragment", "staged", "bulk load"),
]


@pytest.mark.parametrize(
    ("names", "form"),
    [
        pytest.param(names, form, marks=[] if n == 0 or form == FORMS[n % 3] else pytest.mark.slow)
        for n, names in enumerate(IN_TURN)
        for form in FORMS
    ],
)
def test_one_place_in_turn(names, form, tmp_path):
    body = "for t in range(n):\n" + indented("\n".join(TEXTS[name] for name in names), 4)
    d, e = results(compiled(body, form, tmp_path))
    wanted_d, wanted_e = in_turn(names)
    assert np.array_equal(d, wanted_d)
    assert np.array_equal(e, wanted_e)


OVERLAPPING = "for t in range(n):\n    T.copy(acc, D[t * 64, 0])"
APART = "for t in range(n):\n    T.copy(acc, D[t * 128, 0])"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "body",
    [OVERLAPPING, "T.copy(acc, D[0, 0])\nT.copy(acc, D[64, 0])\nT.copy(acc, D[128, 0])"],
    ids=["in a loop", "one by one"],
)
def test_tiles_that_overlap(body, form, tmp_path):
    """Where the one warpgroup stores, the other one has."""
    _, _, acc = operands()
    d, _ = results(compiled(body, form, tmp_path))
    wanted = np.zeros((M, N), np.float32)
    for start in range(0, 64 * ROUNDS, 64):
        wanted[start : start + 128] = acc
    assert np.array_equal(d, wanted)


def synchronised(body: str, folder: Path) -> tuple[int, int]:
    """How often a kernel of explicit roles waits for stores to be complete, and how often both warpgroups meet."""
    folder.mkdir()
    text = compiled(body, "explicit", folder).asm["ptx"]
    return text.count("cp.async.bulk.wait_group 0;"), text.count("bar.sync 1, 256;")


def test_what_does_not_meet_costs_nothing(tmp_path):
    """Tiles of their own, or of the same threads: these wait for completion, but need no other one. The warpgroups stay
    apart."""
    assert synchronised(APART, tmp_path / "apart") == (0, 0)
    assert synchronised("for t in range(n):\n    T.copy(acc, D[0, 0])", tmp_path / "same") == (1, 0)
    assert synchronised(OVERLAPPING, tmp_path / "overlapping") == (1, 1)


LOADED_EXPLICIT = """T.tma_copy(D[0, 0], R, barrier=landed)
T.barrier_arrive(landed)
T.barrier_wait(landed, 0)
T.copy(R, E[0, 0])
"""
LOADED_BY_OTHERS = """with T.ws(0, 1):
{store}    T.barrier_arrive(stored)
with T.ws(2):
    T.barrier_wait(stored, 0)
    T.tma_copy(D[0, 0], R, barrier=came)
    T.barrier_arrive(came)
with T.ws(0, 1):
    T.barrier_wait(came, 0)
    T.copy(R, E[0, 0])
"""


@pytest.mark.parametrize("store", ["fragment", "plain", pytest.param("staged", marks=pytest.mark.slow)])
@pytest.mark.parametrize("loaded", ["by the same role", "by another role"])
def test_copies_by_hand_of_what_was_stored(store, loaded, tmp_path):
    """By T.tma_copy, in the same role or behind a barrier of the program's."""
    if loaded == "by the same role":
        body = f"{TEXTS[store]}\n{LOADED_EXPLICIT}"
    else:
        body = LOADED_BY_OTHERS.format(store=indented(TEXTS[store], 4))
    d, e = results(compiled(body, "explicit", tmp_path))
    _, _, acc = operands()
    columns = ROUNDS + 20 if store == "plain" else N
    assert np.array_equal(d[:128, :columns], acc[:, :columns])
    assert np.array_equal(e, d)


def test_stores_that_the_program_waits_for(tmp_path):
    body = "T.copy(acc, S)\nT.tma_copy(S, D[0, 0])\nT.tma_store_wait(0, False)\nT.copy(acc, D[0, 0])"
    d, _ = results(compiled(body, "explicit", tmp_path))
    assert np.array_equal(d[:128], operands()[2])


@pytest.mark.parametrize(
    "names",
    [
        ("staged", "fragment"),
        pytest.param(("sum", "staged"), marks=pytest.mark.slow),
        pytest.param(("fragment", "staged", "load"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_mutants_are_killed(names, tmp_path):
    body = "for t in range(n):\n" + indented("\n".join(TEXTS[name] for name in names), 4)
    a, b, _ = operands()
    d, e = (np.zeros((M, N), np.float32) for _ in range(2))
    found, tried = surviving_mutants(compiled(body, "explicit", tmp_path), (a, b, d, e, 2))
    assert tried >= 10
    assert found == []
