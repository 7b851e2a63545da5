"""LDS-DMA on gfx950: what is waited for and no more, found out when less is; any swizzle turned round."""

from __future__ import annotations

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.dma import CHUNK, chunk_map
from minitile.backends.amd.verify.check import remarks
from minitile.layout import row_major, swizzled
from minitile.runtime.sim import run_gcn
from tests.comments import bare

pytest.importorskip("llvmlite")
M, N, K = 128, 64, 192
TILE = (64, 64, 32)
SCHEDULES = [("eager", 0), ("lazy", 0), ("random", 0), ("random", 1), ("random", 2)]


@mt.kernel(target="gfx950")
def matmul(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    num_stages=3,
    threads=128,
):
    m, n, k = TILE
    with T.Kernel(T.ceildiv(C.shape[1], n), T.ceildiv(C.shape[0], m), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((m, k), A.dtype)
        B_shared = T.alloc_shared((n, k), B.dtype)
        C_local = T.alloc_fragment((m, n), T.float32)
        T.clear(C_local)
        for step in T.Pipelined(T.ceildiv(A.shape[1], k), num_stages=num_stages):
            T.copy(A[by * m, step * k], A_shared)
            T.copy(B[bx * n, step * k], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * m, bx * n])


def compiled(stages: int, m: int = M, n: int = N, k: int = K):
    specs = [mt.spec((m, k), "bfloat16"), mt.spec((n, k), "bfloat16"), mt.spec((m, n), "float32")]
    one_wait = {"cdna4_half_tiles": False}  # for all copies of a tile
    return matmul.compile(*specs, target="gfx950", num_stages=stages, passes=one_wait)


def operands(m: int = M, n: int = N, k: int = K):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    return a, b, np.full((m, n), np.nan, np.float32), a.astype(np.float32) @ b.astype(np.float32).T


def waits(text: str) -> list[int]:
    """The vmcnt of every wait before a barrier."""
    return [int(n) for n in re.findall(r"s_waitcnt vmcnt\((\d+)\)[^\n]*\n(?:\s*\.loc[^\n]*\n)*\s*s_barrier", text)]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_waits_are_exact(stages):
    """Four instructions a tile: what belongs to younger ones than the one awaited may be under way. In front of the
    loop that is a tile more, since the loop's own wait stands in front of its copies."""
    kernel = compiled(stages)
    assert "offen lds" in kernel.text
    assert waits(kernel.text) == [4 * (stages - 1), 4 * (stages - 2)]
    assert "v_mov_b32_e32 v0, 0x80000000" not in kernel.text.split("s_barrier")[1].split("s_cbranch")[0]


def test_waits_that_nobody_asked_for_are_noted():
    kernel = compiled(4)
    assert not kernel.notes
    stronger = kernel.text.replace("vmcnt(8)", "vmcnt(5)")
    (remark,) = remarks(kernel.asm["llvm"], stronger)
    assert "vmcnt(5)" in remark
    (remark,) = remarks(kernel.asm["llvm"], kernel.text.replace(".vgpr_spill_count: 0", ".vgpr_spill_count: 7"))
    assert "7 vector" in remark


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_results(stages, schedule):
    a, b, c, want = operands()
    compiled(stages).simulate(a, b, c, schedule=schedule[0], seed=schedule[1])
    assert np.array_equal(c, want)


@pytest.mark.parametrize("size", [(64, 64, 0), (64, 64, 32), (64, 64, 64), (1, 8, 96), (65, 72, 8), (130, 60, 200)])
@pytest.mark.parametrize("stages", [2, 4])
def test_trips_and_edges(stages, size):
    """No step, one, fewer than the stages; rows and columns outside."""
    a, b, c, want = operands(*size)
    kernel = compiled(stages, *size)
    assert "offen lds" in kernel.text
    kernel.simulate(a, b, c)
    assert np.array_equal(c, want)


def test_rows_that_are_not_aligned_go_through_registers():
    a, b, c, want = operands(64, 64, 77)
    kernel = compiled(3, 64, 64, 77)
    assert " lds" not in kernel.text.replace("lds_", "")
    kernel.simulate(a, b, c)
    assert np.array_equal(c, want)


def run(text: str) -> list[str]:
    """The kinds of what the simulator finds, and whether the result is right."""
    kernel = compiled(4)
    a, b, c, want = operands()
    found = set()
    for schedule, seed in SCHEDULES:
        c[:] = np.nan
        sizes = dict(zip("MNK", (np.int32(M), np.int32(N), np.int32(K)), strict=True))
        args = [{"A": a, "B": b, "C": c}.get(p.name, sizes.get(p.name)) for p in kernel.launch_info.params]
        report = run_gcn(text, kernel.launch_info.entry, (1, 2, 1), (128, 1, 1), args, schedule=schedule, seed=seed)
        found |= {f.kind for f in report.findings}
        if not np.array_equal(c, want):
            found.add("wrong result")
    return sorted(found)


def test_a_weaker_wait_is_found():
    text = compiled(4).text
    assert run(text) == []
    for weaker in (9, 11, 12, 63):
        assert run(text.replace("vmcnt(8)", f"vmcnt({weaker})")), weaker


def test_a_missing_barrier_is_found():
    text = bare(compiled(4).text)
    places = [found.span() for found in re.finditer(r"\ts_barrier\n", text)]
    assert len(places) == 2
    for start, end in places:
        assert run(text[:start] + text[end:])


LAYOUTS = [
    *(swizzled(shape, bits) for shape in ((64, 64), (128, 32), (64, 128), (96, 64)) for bits in (8, 16, 32)),
    row_major((64, 64), 16),
]


@pytest.mark.parametrize("threads", [64, 128, 256, 512])
@pytest.mark.parametrize("shared", LAYOUTS, ids=str)
def test_chunks_are_turned_round(shared, threads):
    """Every chunk of 16 bytes holds the elements that the layout puts there, each once."""
    found = chunk_map(shared, threads)
    rows, columns = shared.shape
    elements = CHUNK * 8 // shared.element_bits
    total = rows * columns // elements
    if found is None:  # the threads' chunks are not all of one box, or not as many in each round
        assert total % threads or rows * 128 // CHUNK % threads
        return
    masks, moves = found.masks, found.moves
    assert len(moves) * threads == total
    seen = set()
    for n, t in itertools.product(range(len(moves)), range(threads)):
        at = [0, 0]
        for d in range(2):
            for i, mask in enumerate(masks[d]):
                at[d] ^= mask if t >> i & 1 else 0
            at[d] += moves[n][d]
        assert shared.offset(at) == (n * threads + t) * CHUNK
        seen.add(tuple(at))
    assert len(seen) == total


@pytest.mark.parametrize("threads", [64, 256, 512])
@pytest.mark.parametrize(
    ("shape", "rows"), [((256, 64), rows) for rows in (8, 16, 32, 64, 128)] + [((128, 32), 32), ((64, 64), 4)], ids=str
)
def test_instructions_fill_one_half(shape, rows, threads):
    """Where halves are of so many rows each chunk is still filled once, by a wave's 64 neighbours at a time; and
    `halves` is true of every chunk."""
    shared = swizzled(shape, 16)
    found = chunk_map(shared, threads, (0, rows))
    total = shape[0] * shape[1] * 2 // CHUNK
    if total % threads:
        assert found is None
        return
    filled = set()
    for n, wave, lane in itertools.product(range(len(found.moves)), range(threads // 64), range(64)):
        place = found.starts[n]
        for i, bytes_ in enumerate(found.wave):
            place ^= bytes_ if wave >> i & 1 else 0
        t = wave * 64 + lane
        start = [0, 0]
        for d in range(2):
            for i, mask in enumerate(found.masks[d]):
                start[d] ^= mask if t >> i & 1 else 0
        element = tuple(s + m for s, m in zip(start, found.moves[n], strict=True))
        assert shared.offset(element) == place + lane * CHUNK
        assert not found.halves or element[0] // rows % 2 == found.halves[n]
        filled.add(element)
    assert len(filled) == total
    # A half is of whole instructions if a wave's kilobyte lies in one, and there is more than one instruction.
    whole = rows * shape[1] * 2 >= 1024 and total > threads
    assert bool(found.halves) == whole


def test_padding_is_not_for_dma():
    assert chunk_map(row_major((64, 64), 16, 8), 128) is None
