"""Loads, stores, shared memory, asynchronous copies and atomics, by dtype and width."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from minitile.backends.nvidia.emit.atomic import KINDS
from minitile.ir.core import Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, thread, tile
from minitile.ir.types import DTYPES, BufferType, dtype, f32
from tests.backends.nvidia import harness
from tests.backends.nvidia.harness import Array, Make, raw, run
from tests.backends.nvidia.test_arith import numbers, same

pytestmark = pytest.mark.every_case  # an instruction for each dtype

WIDTHS = [(name, width) for name in DTYPES for width in (1, 2, 4, 8, 16) if dtype(name).bytes * width <= 16]


@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_copy(name: str, width: int) -> None:
    """What is loaded is stored, whole; a false predicate gives zeros on one side and leaves the other alone."""
    count = 2 * width
    make = Make({"x": name, "out": name, "zeroed": name, "kept": name})
    index = make.mul(make.thread(), count)
    even = make.emit(arith.Cmp(make.and_(make.thread(), 1), make.constant(0), "eq")).result
    make.store("out", index, make.load("x", index, count, width), width)
    loaded = make.load("x", index, count, width, predicate=even, predicate_of=(0, 0))
    make.store("zeroed", index, loaded, width)
    make.store("kept", index, make.load("x", index, count, width), width, predicate=even, predicate_of=(0, 0))

    x = np.random.default_rng(1).integers(0, 2 if name == "bool" else 256, 32 * count * dtype(name).bytes, np.uint8)
    out, zeroed, kept = np.zeros_like(x), np.full_like(x, 9), np.full_like(x, 9)
    text = run(make, x, out, zeroed, kept)
    assert np.array_equal(out, x)
    lanes = np.arange(32)[:, None] % 2 == 0
    assert np.array_equal(zeroed.reshape(32, -1), np.where(lanes, x.reshape(32, -1), 0))
    assert np.array_equal(kept.reshape(32, -1), np.where(lanes, x.reshape(32, -1), 9))
    bits = dtype(name).bits * width
    if bits > 32 and name != "bool" and harness.redirect is None:
        assert f".v{bits // max(32, dtype(name).bits)}." in text or dtype(name).bits == bits


@pytest.mark.parametrize("name", ["f32", "f16", "i8", "bool", "i64"])
def test_a_scalar_is_stored_to_every_element(name: str) -> None:
    make = Make({"out": name})
    index = make.mul(make.thread(), 4)
    d = dtype(name)
    op = thread.StoreMem(
        make.element("out", index),
        make.constant(1, d),
        make.tensors["out"],
        "global",
        (0, 0),
        (0, 2 * d.bytes),
        width=2,
    )
    make.emit(op)
    out = np.zeros(128, d.numpy)
    run(make, raw(out))
    assert np.all(out == np.ones(1, d.numpy))


def test_addresses_fold_their_constants() -> None:
    """One address register serves all accesses; additions of constants become offsets."""
    make = Make({"x": "f32", "out": "f32"})
    base = make.element("x", make.thread())
    shifted = make.emit(thread.Offsets(make.add(base, 256), (0, 128, -256))).result
    x = make.tensors["x"]
    loads = thread.LoadMem(shifted, x, "global", f32, 4, (0, 1, 2, 0), (0, 0, 0, 4 * 8))
    make.emit(loads)
    make.store("out", make.mul(make.thread(), 4), loads.result, 4)
    text = make.write().text
    for offset in ("+256]", "+384]", "+288]"):
        assert offset in text
    lines = [line for line in text.splitlines() if "ld.global" in line]
    assert len(lines) == 4
    assert len({line.split("[")[1].split("+")[0].strip("];") for line in lines}) == 1
    data = np.arange(200, dtype=np.float32)
    out = np.zeros(128, np.float32)
    fresh = Make({"x": "f32", "out": "f32"})
    base = fresh.element("x", fresh.thread())
    shifted = fresh.emit(thread.Offsets(fresh.add(base, 256), (0, 128, -256))).result
    loads = thread.LoadMem(shifted, fresh.tensors["x"], "global", f32, 4, (0, 1, 2, 0), (0, 0, 0, 4 * 8))
    fresh.emit(loads)
    fresh.store("out", fresh.mul(fresh.thread(), 4), loads.result, 4)
    run(fresh, data, out)
    lane = np.arange(32)[:, None]
    assert np.array_equal(out.reshape(32, 4), lane + np.array([[64, 96, 0, 72]]))


def shared(make: Make, name: str, count: int, offset: int, space: str = "shared") -> tuple[Value, Value]:
    """A buffer and its address."""
    alloc = make.emit(tile.Alloc(BufferType(space, (count,), dtype(name)), offset=offset))
    return alloc.result, make.emit(thread.BufferAddress(alloc.result)).result


@pytest.mark.parametrize("space", ["shared", "local"])
def test_buffers(space: str) -> None:
    """Two buffers, written and read back: in shared memory by the neighbour, after a barrier."""
    make = Make({"x": "f32", "out": "f32"}, shared_bytes=2048)
    lane = make.thread()
    here = make.mul(lane, 4) if space == "shared" else make.constant(4)
    there = make.xor(here, 4) if space == "shared" else here
    x = make.load("x", lane)
    for offset, factor in ((0, 1.0), (1024, 2.0)):
        buffer, address = shared(make, "f32", 64, offset, space)
        at = make.emit(arith.Add(address, make.cast(here, address.dtype))).result
        value = make.emit(arith.Mul(x, make.constant(factor, f32))).result
        make.emit(thread.StoreMem(at, value, buffer, space, (0,), (0,)))
    make.emit(thread.Barrier())
    total = x
    for op in [op for op in make.kernel.body.ops if isinstance(op, thread.BufferAddress)]:
        at = make.emit(arith.Add(op.result, make.cast(there, op.result.dtype))).result
        total = make.emit(
            arith.Add(total, make.emit(thread.LoadMem(at, op.buffer, space, f32, 1, (0,), (0,))).result)
        ).result
    make.store("out", lane, total)
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run(make, x, out, shared=2048)
    other = x[np.arange(32) ^ 1] if space == "shared" else x
    assert np.array_equal(out, x + 3 * other)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async(size: int) -> None:
    """Copies land after the wait; where the predicate is false, zeros do."""
    make = Make({"x": "f32", "out": "f32"}, shared_bytes=1024)
    lane, count = make.thread(), size // 4
    buffer, address = shared(make, "f32", 32 * count, 0)
    to = make.emit(arith.Add(address, make.mul(lane, size))).result
    source = make.element("x", make.mul(lane, count))
    odd = make.emit(arith.Cmp(make.and_(lane, 1), make.constant(1), "eq")).result
    copy = thread.CpAsync(to, source, buffer, make.tensors["x"], size, (0,), (0,), (0,), (0,), predicate=odd)
    token = make.emit(copy).result
    joined = make.emit(tile.Join((token,))).result
    make.emit(tile.Wait(joined, pending=0))
    loaded = make.emit(thread.LoadMem(to, buffer, "shared", f32, count, (0,), (0,), width=count)).result
    make.store("out", make.mul(lane, count), loaded, count)
    x = np.random.default_rng(2).normal(size=32 * count).astype(np.float32)
    out = np.ones_like(x)
    text = run(make, x, out, shared=1024)
    assert ("cp.async.cg" in text) == (size == 16)
    assert np.array_equal(out.reshape(32, -1), np.where(np.arange(32)[:, None] % 2, x.reshape(32, -1), 0))


ATOMIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda a, b: b,
}
NO_ATOMICS = [n for n, d in DTYPES.items() if d.kind == "bool" or (d.is_float and d.bits == 8)]
ATOMIC_DTYPES = [n for n in DTYPES if n not in NO_ATOMICS]


INTEGERS = ("i32", "u32", "i64", "u64")


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("name", ATOMIC_DTYPES)
def test_atomics(name: str, returns: bool) -> None:
    """Every kind, on two neighbouring elements at once, guarded; the old value comes back. Loops say so."""
    kinds = [k for k in KINDS if dtype(name).is_int or k not in ("and", "or", "xor")]
    make = Make({"x": name, **{f"m_{k}": name for k in kinds}, **{f"old_{k}": name for k in kinds}})
    index = make.mul(make.thread(), 2)
    value = make.load("x", index, 2)
    some = make.emit(arith.Cmp(make.thread(), make.constant(20), "lt")).result
    atomics: dict[str, thread.AtomicMem] = {}
    for kind in kinds:
        op = thread.AtomicMem(
            make.element(f"m_{kind}", index),
            value,
            make.tensors[f"m_{kind}"],
            "global",
            kind,
            (0, 0),
            (0, dtype(name).bytes),
            predicate=some,
            predicate_of=(0, 0),
            returns=returns,
        )
        make.emit(op)
        atomics[kind] = op
        if returns:
            make.store(f"old_{kind}", index, op.result)
    x, before = numbers(name, 64, 3), numbers(name, 64, 4)
    memory = [before.copy() for _ in kinds]
    old = [np.zeros_like(x) for _ in kinds]
    text = run(make, raw(x), *map(raw, memory), *map(raw, old))
    for kind, after, first in zip(kinds, memory, old, strict=True):
        with np.errstate(all="ignore"):
            want = np.where(np.arange(64) < 40, ATOMIC[kind](before, x).astype(x.dtype), before)
        assert same(after, want), kind
        if returns:
            assert same(first[:40], before[:40]), kind
            assert not first[40:].any(), kind
    native = {("add", name), ("exch", name)} if name in ("f32", "f64") else {("add", "f16")}
    lone = {kind for kind in kinds if not atomics[kind].diverges()}
    assert lone == (set(kinds) if name in INTEGERS else {kind for kind, of in native if of == name})
    if harness.redirect is None:
        assert text.count(".cas.") == (2 * (len(kinds) - len(lone)) if returns or dtype(name).bits < 32 else 0)
        assert ("red.global" in text) == (not returns and dtype(name).bits != 8 and name not in ("i16", "u16", "bf16"))


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_atomic_extremes_of_every_sign(name: str, returns: bool) -> None:
    """Each special number meets each, a NaN as the value too. A NaN in memory may stay: the language allows both."""
    tiny = float(ml_dtypes.finfo(dtype(name).numpy).smallest_subnormal)
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, tiny, -tiny, np.inf, -np.inf, np.nan, -np.nan])
    special = special.astype(dtype(name).numpy)
    before, x = (a.ravel().copy() for a in np.meshgrid(special[:-2], special))
    make = Make({"x": name, "max": name, "min": name, "old_max": name, "old_min": name}, threads=len(x))
    value = make.load("x", make.thread())
    for kind in ("max", "min"):
        place = make.element(kind, make.thread())
        tensor = make.tensors[kind]
        op = thread.AtomicMem(place, value, tensor, "global", kind, (0,), (0,), returns=returns)
        make.emit(op)
        if returns:
            make.store(f"old_{kind}", make.thread(), op.result)
    after = {kind: before.copy() for kind in ("max", "min")}
    old = {kind: np.zeros_like(x) for kind in ("max", "min")}
    run(make, raw(x), *map(raw, after.values()), *map(raw, old.values()), threads=len(x))
    for kind in ("max", "min"):
        assert same(after[kind], ATOMIC[kind](before, x)), kind
        assert not returns or np.array_equal(raw(old[kind]), raw(before)), kind


@pytest.mark.parametrize("name", ["i32", "f32", "f16", "bf16", "u8"])
def test_contended_atomics(name: str) -> None:
    """All lanes add to one element."""
    make = Make({"m": name})
    zero = make.constant(0)
    op = thread.AtomicMem(
        make.element("m", zero),
        make.constant(1, dtype(name)),
        make.tensors["m"],
        "global",
        "add",
        (0,),
        (0,),
        returns=False,
    )
    make.emit(op)
    m = np.zeros(4, dtype(name).numpy)
    run(make, raw(m))
    assert m.astype(np.float32).tolist() == [32, 0, 0, 0]


def test_packed_f16_atomics() -> None:
    make = Make({"x": "f16", "m": "f16"})
    index = make.mul(make.thread(), 2)
    op = thread.AtomicMem(
        make.element("m", index),
        make.load("x", index, 2, 2),
        make.tensors["m"],
        "global",
        "add",
        (0,),
        (0,),
        width=2,
        returns=False,
    )
    make.emit(op)
    x, m = np.arange(64, dtype=np.float16), np.ones(64, np.float16)
    text = run(make, x, m)
    assert harness.redirect is not None or "red.global.add.noftz.f16x2" in text
    assert np.array_equal(m, x + 1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("xor", "f32"), ("and", "bf16"), *((kind, name) for name in NO_ATOMICS for kind in ("add", "exch"))],
)
def test_impossible_atomics_are_refused(kind: str, name: str) -> None:
    make = Make({"m": name})
    value = make.load("m", make.thread())
    make.emit(thread.AtomicMem(make.element("m", make.thread()), value, make.tensors["m"], "global", kind, (0,), (0,)))
    with pytest.raises(TargetError, match=f"no atomic {kind} on {name}$"):
        run(make)
