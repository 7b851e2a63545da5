"""mma, ldmatrix, shuffles, barriers, printing: what a warp does together."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.backends.nvidia.assemble import assemble
from minitile.backends.nvidia.emit.warp import ATOMS
from minitile.ir.core import Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, thread, tile
from minitile.ir.types import DTYPES, BufferType, dtype, f32
from minitile.layout.atoms import MMA_ATOMS, mma_accumulator, mma_operand_a, mma_operand_b
from minitile.layout.register import Layout
from minitile.runtime.sim import run_ptx
from minitile.target import Target, parse_target
from tests.backends.nvidia.harness import SM80, Array, Make, raw, run, width_of
from tests.backends.nvidia.test_arith import numbers, same

pytestmark = pytest.mark.every_case  # an instruction for each dtype

SM89 = parse_target("sm_89")

CASES = [
    ("m16n8k16", "f16", "f32", SM80),
    ("m16n8k16", "f16", "f16", SM80),
    ("m16n8k16", "bf16", "f32", SM80),
    ("m16n8k8", "f16", "f32", SM80),
    ("m16n8k8", "bf16", "f32", SM80),
    ("m16n8k8.tf32", "f32", "f32", SM80),
    ("m16n8k32.b8", "i8", "i32", SM80),
    ("m16n8k32.b8", "u8", "i32", SM80),
    ("m16n8k16.b8", "i8", "i32", SM80),
    ("m16n8k32.b8", "e4m3", "f32", SM89),
    ("m16n8k32.b8", "e5m2", "f32", SM89),
    ("m8n8k4.f64", "f64", "f64", SM80),
]


def test_every_atom_is_known() -> None:
    assert set(ATOMS) == set(MMA_ATOMS) == {case[0] for case in CASES}


def spread(tile_: Array, layout: Layout) -> Array:
    """The registers of a warp, lane by lane, that hold a tile."""
    coordinates = layout.coord_array()[0]
    return tile_[coordinates[..., 0], coordinates[..., 1]].copy()


@pytest.mark.parametrize(("name", "operand", "accumulator", "target"), CASES)
def test_mma(name: str, operand: str, accumulator: str, target: Target) -> None:
    """2 × 2 × 2 atoms, with the registers in the order that minitile.layout says."""
    atom = MMA_ATOMS[name]
    m, n, k = 2 * atom.m, 2 * atom.n, 2 * atom.k
    rng = np.random.default_rng(1)
    low = 0 if operand == "u8" else -4
    a = rng.integers(low, 5, (m, k)).astype(dtype(operand).numpy)
    b = rng.integers(low, 5, (k, n)).astype(dtype(operand).numpy)
    c = rng.integers(-9, 10, (m, n)).astype(dtype(accumulator).numpy)
    layouts = [mma_operand_a((m, k), atom, (1, 1)), mma_operand_b((k, n), atom, (1, 1))]
    layouts.append(mma_accumulator((m, n), atom, (1, 1)))
    registers = [spread(t, layout) for t, layout in zip((a, b, c), layouts, strict=True)]

    make = Make({"a": operand, "b": operand, "c": accumulator})
    values: list[Value] = []
    for tensor, lanes in zip(make.tensors, registers, strict=True):
        count = lanes.shape[1]
        index = make.mul(make.thread(), count)
        values.append(make.load(tensor, index, count, width_of(make.tensors[tensor].dtype.name, count)))
    d = make.emit(thread.MmaSync(*values, name, (2, 2, 2))).result
    make.store("c", make.mul(make.thread(), registers[2].shape[1]), d, 1)
    run(make, *[raw(r.reshape(-1)) for r in registers], target=target)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert np.array_equal(registers[2].astype(np.float64), spread(exact, layouts[2]))


def test_fp8_mma_needs_sm_89() -> None:
    make = Make({"a": "e4m3", "c": "f32"})
    index = make.mul(make.thread(), 16)
    a, b = make.load("a", index, 16, 16), make.load("a", index, 8, 8)
    c = make.load("c", index, 4, 4)
    make.store("c", index, make.emit(thread.MmaSync(a, b, c, "m16n8k32.b8", (1, 1, 1))).result)
    with pytest.raises(TargetError, match="sm_80 has no fp8 mma"):
        make.write()


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_ldmatrix(number: int, transpose: bool) -> None:
    """Row r of matrix q is at the address of lane 8·q + r; word w of lane l holds row l/4, columns 2·(l%4)."""
    make = Make({"out": "f16", "x": "f16"}, shared_bytes=1024)
    alloc = make.emit(tile.Alloc(BufferType("shared", (4, 8, 8), dtype("f16")), offset=0)).result
    address = make.emit(thread.BufferAddress(alloc)).result
    at = make.emit(arith.Add(address, make.mul(make.thread(), 16))).result
    row = make.load("x", make.mul(make.thread(), 8), 8, 8)
    make.emit(thread.StoreMem(at, row, alloc, "shared", (0,), (0,), width=8))
    make.emit(thread.Barrier())
    op = thread.LdMatrix(at, alloc, dtype("f16"), number, (0,), (0,), number=number, transpose=transpose)
    make.emit(op)
    make.store("out", make.mul(make.thread(), 2 * number), op.result, 2 * number)
    x = np.arange(256, dtype=np.float16)
    out = np.zeros(64 * number, np.float16)
    run(make, out, x, shared=1024)
    matrices = x.reshape(4, 8, 8)
    if transpose:
        matrices = matrices.transpose(0, 2, 1)
    lane = np.arange(32)
    for w in range(number):
        got = out.reshape(32, number, 2)[:, w]
        assert np.array_equal(got[:, 0], matrices[w, lane // 4, 2 * (lane % 4)])
        assert np.array_equal(got[:, 1], matrices[w, lane // 4, 2 * (lane % 4) + 1])


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", DTYPES)
def test_shuffles(name: str, count: int) -> None:
    make = Make({"x": name, "xor": name})
    index = make.mul(make.thread(), count)
    value = make.load("x", index, count, width_of(name, count))
    make.store("xor", index, make.emit(thread.ShuffleXor(value, 9)).result)
    x = (
        numbers(name, 32 * count, 2)
        if name not in ("e4m3", "e5m2")
        else np.arange(32 * count).astype(dtype(name).numpy)
    )
    by_xor = np.zeros_like(x)
    run(make, raw(x), raw(by_xor))
    assert same(by_xor.reshape(32, count), x.reshape(32, count)[np.arange(32) ^ 9])


@pytest.mark.parametrize("name", ["f16", "f32", "i8"])
def test_pieces(name: str) -> None:
    """pick and concat of whole words, of parts of words, and of scalars."""
    make = Make({"x": name, "out": name})
    index = make.mul(make.thread(), 16)
    x = make.load("x", index, 16, width_of(name, 16))
    orders = [(8, 9, 10, 11, 0, 1, 2, 3), (3, 1, 0, 2), (5,), (7,), (4, 5)]
    pieces = [make.emit(thread.Pick(x, order)).result for order in orders]
    together = make.emit(thread.Concat(tuple(pieces))).result
    make.store("out", index, together, width_of(name, 16))
    data = np.arange(512).astype(dtype(name).numpy)
    out = np.zeros_like(data)
    text = run(make, raw(data), raw(out))
    picked = [i for order in orders for i in order]
    assert np.array_equal(out.reshape(32, 16), data.reshape(32, 16)[:, picked])
    if name == "f32":
        assert "mov.f32" not in text


@pytest.mark.parametrize("name", ["i8", "e4m3", "f16"])
def test_words_in_halves(name: str) -> None:
    """Pairs of bytes that change words, and words chosen by one condition for all of a thread."""
    make = Make({"x": name, "y": name, "out": name})
    tid = make.thread()
    index = make.mul(tid, 16)
    x, y = (make.load(n, index, 16, width_of(name, 16)) for n in ("x", "y"))
    chosen = make.select(make.compare("lt", tid, 11), x, y)
    order = (0, 1, 8, 9, 2, 3, 4, 5, 6, 7, 6, 7, 14, 15, 12, 13)
    make.store("out", index, make.emit(thread.Pick(chosen, order)).result, width_of(name, 16))
    data = np.random.default_rng(0).integers(0, 127 if name == "e4m3" else 256, (2, 32 * 16)).astype(np.uint8)
    x_data, y_data = (each.view(dtype(name).numpy) if name != "f16" else each.astype(np.float16) for each in data)
    out = np.zeros_like(x_data)
    text = run(make, raw(x_data), raw(y_data), raw(out))
    want = np.where(np.arange(32)[:, None] < 11, x_data.reshape(32, 16), y_data.reshape(32, 16))[:, order]
    assert same(out.reshape(32, 16), want)
    if "selp" in text:  # NVIDIA's
        assert text.count("selp.b32") == 16 * dtype(name).bits // 32
        assert ("prmt" in text) == (name != "f16")


def test_barriers() -> None:
    make = Make({"x": "f32"}, threads=64)
    make.emit(thread.Barrier())
    make.emit(thread.Barrier(id=3, threads=64))
    make.store("x", make.thread(), make.constant(0.0, f32))
    text = run(make, np.ones(64, np.float32), threads=64)
    assert "bar.sync 0;" in text
    assert "bar.sync 3, 64;" in text


@pytest.mark.parametrize(
    ("threads", "number"), [(64, "shr.u32 %group, %group, 6;"), (96, "div.u32 %group, %group, 96;")]
)
def test_barriers_of_each_group(threads: int, number: str) -> None:
    """One for each so many threads; ptxas divides by 64 here with some twenty instructions, as by any number."""
    make = Make({"x": "f32"}, threads=192)
    make.emit(thread.Barrier(id=2, threads=threads, each=True))
    make.store("x", make.thread(), make.constant(0.0, f32))
    text = run(make, np.ones(192, np.float32), threads=192)
    assert number in text
    assert f"bar.sync %group, {threads};" in text


def test_printf() -> None:
    make = Make({"x": "f32"})
    x = make.load("x", make.thread(), 2)
    half = make.emit(arith.Cast(x, dtype("bf16"))).result
    make.emit(thread.Printf((make.thread(), x, half, make.constant(7, dtype("i64"))), "%d: %g %g %lld\n"))
    module = make.write()
    assemble(module.text, "sm_80")
    data = np.arange(34, dtype=np.float32) / 2
    report = run_ptx(module.text, "k", (1,), (32,), [data])
    assert not report.findings
    want = [f"{n}: {m / 2:g} {m / 2:g} 7" for n in range(32) for m in (n, n + 1)]
    assert sorted(report.stdout.splitlines()) == sorted(want)


def test_trap() -> None:
    make = Make({"x": "f32"})
    make.emit(thread.Trap())
    assert "trap;" in make.write().text
