"""stmatrix, stores and reductions by TMA, bulk groups: what is written leaves through shared memory."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import assemble
from minitile.backends.nvidia.hopper.tma_store import Refused, check_columns, widths
from minitile.backends.nvidia.hopper.wgmma import panels_of
from minitile.ir.core import Value
from minitile.ir.ops import hopper, thread, tile
from minitile.ir.types import BufferType, TensorType, dtype
from minitile.layout.shared import SharedLayout
from minitile.runtime.launch_info import TensorMapParam
from minitile.runtime.sim import TensorMap, run_ptx
from minitile.target import parse_target
from tests.backends.nvidia.harness import Make, run

SM90A = parse_target("sm_90a")


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_stmatrix(number: int, transpose: bool) -> None:
    """Row r of matrix q goes to the address of lane 8·q + r; word w of lane l holds row l/4, columns 2·(l%4)."""
    make = Make({"out": "f16", "x": "f16"}, shared_bytes=512)
    alloc = make.emit(tile.Alloc(BufferType("shared", (4, 8, 8), dtype("f16")), offset=0)).result
    address = make.emit(thread.BufferAddress(alloc)).result
    at = make.add(address, make.mul(make.thread(), 16))
    value = make.load("x", make.mul(make.thread(), 2 * number), 2 * number, 2 * number)
    make.emit(thread.StMatrix(at, value, alloc, (0,), (0,), number=number, transpose=transpose))
    make.emit(thread.Barrier())
    row = thread.LoadMem(at, alloc, "shared", dtype("f16"), 8, (0,), (0,), width=8)
    make.store("out", make.mul(make.thread(), 8), make.emit(row).result, 8)
    x = np.arange(64 * number).astype(np.float16)
    out = np.zeros(256, np.float16)
    run(
        make, out, x, shared=512, target=SM90A, check=False
    )  # the other lanes' rows are read without having been written
    got = out.reshape(4, 8, 8)
    if transpose:
        got = got.transpose(0, 2, 1)
    lane = np.arange(32)
    for w in range(number):
        given = x.reshape(32, number, 2)[:, w]
        assert np.array_equal(got[w, lane // 4, 2 * (lane % 4)], given[:, 0])
        assert np.array_equal(got[w, lane // 4, 2 * (lane % 4) + 1], given[:, 1])


def bulk(name: str, kind: str | None) -> tuple[str, str]:
    """A kernel of one warp that stores 32 rows of 16 bytes to the box at (1, 0) of `out`, and its entry's name."""
    d = dtype(name)
    columns = 16 // d.bytes
    make = Make({"out": name, "x": name}, shared_bytes=512, tensor_maps=(("out_map", "out", (32, columns), 0),))
    tensor = Value(TensorType((30, columns), d), name="out")
    alloc = make.emit(tile.Alloc(BufferType("shared", (32, columns), d), offset=0)).result
    address = make.emit(thread.BufferAddress(alloc)).result
    row = make.load("x", make.mul(make.thread(), columns), columns, columns)
    at = make.add(address, make.mul(make.thread(), 16))
    make.emit(thread.StoreMem(at, row, alloc, "shared", (0,), (0,), width=columns))
    make.emit(thread.Barrier())
    elected = make.emit(hopper.Elect()).result
    at_box = (make.constant(0), make.constant(1))
    if kind is None:
        store = hopper.TmaStore(address, at_box, alloc, tensor, "out_map", predicate=elected)
    else:
        store = hopper.TmaReduce(address, at_box, alloc, tensor, "out_map", kind, predicate=elected)
    token = make.emit(tile.Join((make.emit(store).result,))).result
    make.emit(tile.Wait(token, reads=True))
    make.emit(tile.Wait(token))
    module = make.write(SM90A)
    return module.text, module.entry


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
@pytest.mark.parametrize(
    ("name", "kind"), [("bf16", None), ("f32", None), *[(d, "add") for d in hopper.REDUCES["add"]]]
)
def test_bulk_store(name: str, kind: str | None, schedule: str) -> None:
    text, entry = bulk(name, kind)
    assemble(text, SM90A.arch)
    columns = 16 // dtype(name).bytes
    x = np.arange(32 * columns).astype(dtype(name).numpy).reshape(32, columns)
    out = np.full((30, columns), 2).astype(dtype(name).numpy)
    run_ptx(
        text,
        entry,
        (1,),
        (32,),
        [out, x, TensorMap(out, (32, columns))],
        dynamic_shared=512,
        schedule=schedule,
        check=False,
    )
    assert np.all(out[0] == np.full(columns, 2).astype(out.dtype))
    wanted = x[:29] if kind is None else (x[:29] + out[0]).astype(out.dtype)
    assert np.array_equal(out[1:], wanted)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in hopper.REDUCES.items() for name in names])
def test_every_reduction_assembles(kind: str, name: str) -> None:
    text, _ = bulk(name, kind)
    assert f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{kind}.bulk_group" in text
    assemble(text, SM90A.arch)


# How a tile's columns are staged --------------------------------------------------------------------------------------

ROWS = 64
WIDTHS = [(bits, columns) for bits in (8, 16, 32) for columns in range(8, 257, 8)]
each_width = pytest.mark.parametrize(("bits", "columns"), WIDTHS)


def ways(columns: int, bits: int) -> list[tuple[int, SharedLayout]]:
    """The columns of a part and how 64 rows of it lie, in the order in which they are tried."""
    return [(n, lies((ROWS, n), bits)) for n, lies in widths(columns, bits)]


def boxes(columns: int, part: int, shared: SharedLayout) -> int:
    """How many boxes the columns of a tile are stored in."""
    return columns // part * panels_of(shared)[1]


@each_width
def test_widths(bits: int, columns: int) -> None:
    """Each way divides the tile, and its rows are TMA's, and short: one swizzled panel, at most 256 bytes, or all of a
    row that no swizzle divides. Rows that are no multiples of 16 bytes have one way, which is refused."""
    found = ways(columns, bits)
    assert found
    if columns * bits % 128:
        assert [part for part, _ in found] == [columns]
        with pytest.raises(Refused):
            check_columns(columns, bits // 8)
        return
    for part, shared in found:
        box = panels_of(shared)[0]
        row = box * bits // 8
        assert columns % part == 0
        assert row % 16 == 0
        check_columns(box, bits // 8)
        if shared.swizzle.width:
            assert row == shared.swizzle.width
        else:
            assert part == box
            assert row <= 256 or (part == columns and row % 32)


@each_width
def test_widths_by_boxes(bits: int, columns: int) -> None:
    """Fewer boxes come first; of as many boxes, the way that takes less shared memory."""
    order = [(boxes(columns, part, shared), part) for part, shared in ways(columns, bits)]
    assert order == sorted(order)
    assert len({*order}) == len(order)


@pytest.mark.parametrize(("bits", "columns"), [(b, n) for b, n in WIDTHS if n * b % 128 == 0])
def test_banks_of_widths(bits: int, columns: int) -> None:
    """stmatrix writes 16 bytes of each of 8 rows at once. They are in banks of their own where rows are swizzled, and
    else at most two are in the same four banks."""
    chunk = 128 // bits
    for part, shared in ways(columns, bits):
        most = 1 if shared.swizzle.width else 2
        for row in range(0, ROWS, 8):
            for column in range(0, part, chunk):
                groups = Counter(shared.offset((r, column)) % 128 // 16 for r in range(row, row + 8))
                assert max(groups.values()) <= most


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), None),
    columns=64,
    stages=2,
):
    """C = A · Bᵀ by two warpgroups, 64 rows of a tile each."""
    M, N = C.shape
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((columns, 64), B.dtype)
        products = T.alloc_fragment((128, columns), T.float32)
        T.clear(products)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=stages):
            T.copy(A[by * 128, k * 64], A_shared)
            T.copy(B[bx * columns, k * 64], B_shared)
            T.gemm(A_shared, B_shared, products, transpose_B=True)
        T.copy(products, C[by * 128, bx * columns])


def stored(done: mt.CompiledKernel) -> list[tuple[int, ...]]:
    """The boxes of C's maps."""
    return [p.box for p in done.launch_info.params if isinstance(p, TensorMapParam) and p.tensor == "C"]


@pytest.mark.parametrize(
    ("name", "columns", "part"),
    [
        ("bf16", 80, 80),
        ("bf16", 112, 112),
        ("bf16", 144, 72),
        ("bf16", 176, 88),
        ("bf16", 224, 112),
        ("fp8", 192, 96),
        ("f32", 40, 40),
    ],
)
def test_store_of_width(name: str, columns: int, part: int) -> None:
    """The tile's columns leave in parts of so many. The second tile ends inside its last part, the rows inside those of
    the second warpgroup. Sums of 16 signs are exact in each element."""
    element = {"bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn, "f32": np.float32}[name]
    rng = np.random.default_rng(columns)
    m, n, k = 120, 2 * columns - 16, 16
    a, b = (rng.integers(-1, 2, (size, k)).astype(ml_dtypes.bfloat16) for size in (m, n))
    c = np.full((m, n), np.nan).astype(element)
    done = product.compile(a, b, c, columns=columns, target="sm_90a")
    assert done.notes == ()
    assert stored(done) == [(64, part)]
    assert done.asm["ptx"].count("cp.async.bulk.tensor.2d.global") == columns // part
    done.simulate(a, b, c, schedule="random", seed=1)
    assert np.array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T)


def with_stages(columns: int, stages: int) -> mt.CompiledKernel:
    a, b, c = (mt.spec((2 * m, 2 * n), ml_dtypes.bfloat16) for m, n in ((128, 64), (columns, 64), (128, columns)))
    return product.compile(a, b, c, columns=columns, stages=stages, target="sm_90a")


def test_narrower_where_room_is_short() -> None:
    """Beside 8 versions of the operands' tiles, 2·64 rows of 160 bytes find no room, but halves of them do."""
    assert stored(with_stages(80, 7)) == [(64, 80)]
    done = with_stages(80, 8)
    assert done.notes == ()
    assert stored(done) == [(64, 40)]


def test_no_room() -> None:
    """The note says what would have been enough: 2·64 rows of the narrowest way's 64 bytes."""
    done = with_stages(96, 8)
    assert stored(done) == []
    (text,) = done.notes
    assert f"{2 * 64 * 64} bytes to stage it are more than what is left of shared memory" in text
