"""stmatrix, stores and reductions by TMA, bulk groups: what is written leaves through shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.backends.nvidia.assemble import assemble
from minitile.ir.core import Value
from minitile.ir.ops import hopper, thread, tile
from minitile.ir.types import BufferType, TensorType, dtype
from minitile.runtime.sim import TensorMap, run_ptx
from minitile.target import parse_target

from .harness import Make, run

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
