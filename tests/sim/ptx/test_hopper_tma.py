"""TMA and bulk copies: every rank, swizzle, edge and reduction against NumPy, under every schedule."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import SimulationError, TensorMap
from tests.sim.ptx.hopper import INIT, assembles, dump, fill, frame, silent, simulate, wait

SCHEDULES = ["eager", "lazy", "random"]
Array = np.ndarray[Any, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)


def load_text(rank: int, coordinates: tuple[int, ...], size: int) -> str:
    """Load one box and copy the raw bytes of shared memory out. Coordinates innermost first."""
    where = ", ".join(f"v{i}" for i in range(rank))
    moves = "".join(f"    mov.u32 v{i}, {value};\n" for i, value in enumerate(coordinates))
    return frame(
        f"""{INIT}{moves}
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};
    @lead cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"""
        f""" [s], [m0, {{{where}}}], [bar];
{wait()}{dump(size)}""",
        maps=1,
    )


def box_of(array: Array, box: tuple[int, ...], start: tuple[int, ...], steps: tuple[int, ...], fill_with: Any) -> Array:
    """The box with its origin at `start` (outermost first), element by element."""
    shape = tuple(-(-side // step) for side, step in zip(box, steps, strict=True))
    result = np.full(shape, fill_with, array.dtype)
    for index in np.ndindex(*shape):
        at = tuple(s + i * step for s, i, step in zip(start, index, steps, strict=True))
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            result[index] = array[at]
    return result


def swizzled(plain: Array, mode: int) -> Array:
    """A box's bytes as they lie in shared memory: in each span of 8 x `mode` bytes, 16-byte chunk c of row r of `mode`
    bytes is at chunk c ^ (r's part), rows counted in units of 128 bytes."""
    data = np.ascontiguousarray(plain).view(np.uint8).ravel()
    result = np.zeros_like(data)
    for start in range(0, len(data), 16):
        line, chunk = start // 128, start % 128 // 16
        bits = {0: 0, 32: line & 1, 64: line & 3, 128: line & 7}[mode]
        to = line * 128 + (chunk ^ bits) * 16
        result[to : to + 16] = data[start : start + 16]
    return result


LOADS = [
    # array shape, dtype, box, origin (outermost first), swizzle, element strides
    ((256,), np.uint32, (64,), (16,), 0, None),
    ((256,), np.uint8, (256,), (128,), 0, None),
    ((40, 72), BF16, (16, 64), (8, 8), 128, None),
    ((40, 72), BF16, (16, 64), (32, 16), 128, None),
    ((40, 72), BF16, (16, 64), (-3, -8), 128, None),
    ((40, 72), BF16, (16, 32), (1, 16), 64, None),
    ((40, 72), BF16, (16, 16), (1, 8), 32, None),
    ((40, 72), np.float32, (8, 32), (33, 60), 128, None),
    ((40, 72), np.float64, (8, 4), (33, 60), 0, None),
    ((10, 20, 24), np.float16, (4, 6, 16), (8, 17, 8), 0, None),
    ((6, 10, 20, 24), BF16, (2, 2, 8, 24), (5, -1, 16, 0), 0, None),
    ((3, 4, 5, 6, 8), np.float32, (2, 2, 2, 2, 8), (2, 3, 4, 5, 0), 32, None),
    ((40, 64), np.uint16, (16, 64), (2, 0), 0, (2, 1)),
    ((40, 64), np.uint32, (8, 32), (0, 8), 0, (3, 2)),  # the innermost step is ignored
    ((4, 4), np.uint32, (8, 4), (100, 0), 0, None),
]


@pytest.mark.parametrize("case", LOADS, ids=lambda case: f"{case[0]}-{np.dtype(case[1]).name}-{case[4]}")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_load(case: tuple[Any, ...], schedule: str) -> None:
    shape, dtype, box, origin, swizzle, steps = case
    array = np.random.default_rng(1).integers(0, 256, np.prod(shape) * np.dtype(dtype).itemsize).astype(np.uint8)
    array = array.view(dtype).reshape(shape)
    want = swizzled(box_of(array, box, origin, (*steps[:-1], 1) if steps else (1,) * len(shape), 0), swizzle)
    text = load_text(len(shape), origin[::-1], len(want))
    assembles(text)
    out = np.zeros(len(want), np.uint8)
    report = simulate(text, [TensorMap(array, box, swizzle, steps), out], schedule=schedule)
    silent(report)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_the_swizzle_follows_the_address(swizzle: int) -> None:
    """A box that does not start where the pattern does."""
    array, out = np.arange(16 * 64, dtype=np.uint16).reshape(16, 64), np.zeros(1024, np.uint8)
    box = (1024 // (swizzle or 128), (swizzle or 128) // 2)
    text = load_text(2, (0, 0), 1024).replace(" [s], [m0", " [s+384], [m0").replace(", s;", ", x12;")
    text = text.replace("    shl.b32 x15, tid, 4;", "    add.u32 x12, s, 384;\n    shl.b32 x15, tid, 4;")
    assembles(text)
    silent(simulate(text, [TensorMap(array, box, swizzle), out]))
    plain = box_of(array, box, (0, 0), (1, 1), 0)
    image = swizzled(np.concatenate([np.zeros(192, np.uint16), plain.ravel()]), swizzle)
    np.testing.assert_array_equal(out, image[384:])


def test_nan_fill() -> None:
    array = np.ones((8, 32), np.float16)
    out = np.zeros((8, 32), np.float16)
    silent(simulate(load_text(2, (0, 4), 512), [TensorMap(array, (8, 32), oob_fill="nan"), out], gpu=False))
    assert (out[:4] == 1).all()
    assert np.isnan(out[4:]).all()


def test_load_from_a_view() -> None:
    """A strided view of a larger array, as the heads of a packed tensor are."""
    base = np.arange(16 * 4 * 64, dtype=np.uint32).reshape(16, 4, 64)
    view = base[:, 2, 16:48]
    out = np.zeros((8, 32), np.uint32)
    silent(simulate(load_text(2, (0, 3), 1024), [TensorMap(view, (8, 32)), out]))
    np.testing.assert_array_equal(out, view[3:11])


def store_text(rank: int, coordinates: tuple[int, ...], size: int, op: str = "cp.async", red: str = "") -> str:
    where = ", ".join(f"v{i + 4}" for i in range(rank))
    moves = "".join(f"    mov.u32 v{i + 4}, {value};\n" for i, value in enumerate(coordinates))
    return frame(
        f"""{fill(size)}{moves}
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @lead {op}.bulk.tensor.{rank}d.global.shared::cta{red}.tile.bulk_group [m0, {{{where}}}], [s];
    @lead cp.async.bulk.commit_group;
    @lead cp.async.bulk.wait_group.read 0;
""",
        maps=1,
    )


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("origin", [(0, 0), (36, 24), (3, 72)])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_store(swizzle: int, origin: tuple[int, int], schedule: str) -> None:
    box = (8, (swizzle or 64) // 2)
    tile = np.arange(1, 8 * box[1] + 1).astype(np.uint16).reshape(box)
    target = np.zeros((40, 72), np.uint16)
    want = target.copy()
    for i, j in np.ndindex(*box):
        if 0 <= origin[0] + i < 40 and 0 <= origin[1] + j < 72:
            want[origin[0] + i, origin[1] + j] = tile[i, j]
    text = store_text(2, origin[::-1], tile.nbytes)
    assembles(text)
    report = simulate(text, [TensorMap(target, box, swizzle), swizzled(tile, swizzle)], schedule=schedule)
    silent(report)
    np.testing.assert_array_equal(target, want)


REDUCTIONS = [
    ("add", np.float32),
    ("add", BF16),
    ("add", np.float16),
    ("min", BF16),
    ("max", np.float16),
    ("add", np.int32),
    ("min", np.int32),
    ("max", np.uint32),
    ("and", np.uint32),
    ("or", np.uint32),
    ("xor", np.uint32),
    ("inc", np.uint32),
    ("dec", np.uint32),
]


@pytest.mark.parametrize(("name", "dtype"), REDUCTIONS, ids=lambda value: str(value))
def test_reduce(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    old, new = (rng.integers(-8 if np.dtype(dtype).kind != "u" else 0, 9, (8, 32)).astype(dtype) for _ in range(2))
    target = old.copy()
    text = store_text(2, (0, 0), new.nbytes, "cp.reduce.async", f".{name}")
    assembles(text)
    silent(simulate(text, [TensorMap(target, (8, 32)), new.view(np.uint8).ravel()]))
    want = {
        "add": lambda: old + new,
        "min": lambda: np.minimum(old, new),
        "max": lambda: np.maximum(old, new),
        "and": lambda: old & new,
        "or": lambda: old | new,
        "xor": lambda: old ^ new,
        "inc": lambda: np.where(old >= new, 0, old + 1),
        "dec": lambda: np.where((old == 0) | (old > new), new, old - 1),
    }[name]()
    np.testing.assert_array_equal(target.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=str)
@pytest.mark.parametrize("name", ["min", "max"])
def test_reduce_special_values(name: str, dtype: Any) -> None:
    """As atom and the arithmetic have it: a NaN loses against a number, and -0 is less than +0."""
    some = np.array([0.0, -0.0, 1, -2, 3, np.inf, -np.inf, np.nan], np.float32)
    old, new = (np.ascontiguousarray(each).astype(dtype) for each in np.meshgrid(some, some, indexing="ij"))
    old[-1, -1] = 5  # of two NaNs nothing is said
    a, b = old.astype(float), new.astype(float)
    better = b < a if name == "min" else b > a
    better |= np.isnan(a) | (a == 0) & (b == 0) & (np.signbit(b) == (name == "min"))
    want = np.where(better, new, old)
    target = old.copy()
    text = store_text(2, (0, 0), new.nbytes, "cp.reduce.async", f".{name}")
    silent(simulate(text, [TensorMap(target, (8, 8)), new.view(np.uint8).ravel()]))
    np.testing.assert_array_equal(target.view(np.uint16), want.view(np.uint16))


BULK = f"""{INIT}
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
    mov.u32 x0, 512;
    @lead cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [a0], x0, [bar];
{wait()}
    shl.b32 x1, tid, 2;
    add.u32 x1, x1, s;
    ld.shared.u32 v0, [x1];
    add.u32 v0, v0, 1;
    st.shared.u32 [x1], v0;
    fence.proxy.async;
    bar.sync 0;
    @lead OP [a1], [s], x0;
    @lead cp.async.bulk.commit_group;
    @lead cp.async.bulk.wait_group 0;
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("adds", [False, True])
def test_plain_bulk(schedule: str, adds: bool) -> None:
    op = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32" if adds else ""
    text = frame(BULK.replace("OP", op or "cp.async.bulk.global.shared::cta.bulk_group"), pointers=2)
    assembles(text)
    source, target = np.arange(128, dtype=np.uint32), np.full(128, 1000, np.uint32)
    silent(simulate(text, [source, target], schedule=schedule))
    np.testing.assert_array_equal(target, source + 1 + (1000 if adds else 0))


def test_hints_and_prefetches_change_nothing() -> None:
    text = load_text(2, (0, 0), 512)
    copy = next(line for line in text.split("\n") if "cp.async.bulk.tensor" in line)
    hinted = copy.replace("bytes [", "bytes.L2::cache_hint [").replace("[bar];", "[bar], y0;")
    extra = (
        "    createpolicy.fractional.L2::evict_first.b64 y0, 1.0;\n"
        "    @lead prefetch.param.tensormap [map0];\n"
        "    @lead cp.async.bulk.prefetch.tensor.2d.L2.global.tile [m0, {v0, v1}];\n"
        "    @lead cp.async.bulk.prefetch.L2.global [a0], 512;\n"
    )
    text = text.replace(copy, extra + hinted)
    assembles(text)
    array, out = np.arange(16 * 32, dtype=np.uint16).reshape(16, 32), np.zeros((8, 32), np.uint16)
    silent(simulate(text, [TensorMap(array, (8, 32)), out]))
    np.testing.assert_array_equal(out, array[:8])


def test_a_map_is_given_by_its_generic_address() -> None:
    text = load_text(2, (0, 0), 512).replace("[m0, {", "[map0, {")
    with pytest.raises(SimulationError, match="generic address"):
        simulate(text, [TensorMap(np.zeros((16, 32), np.uint16), (8, 32)), np.zeros(512, np.uint8)])


REFUSED = [
    ({"box": (8, 30)}, "not a multiple of 16"),
    ({"box": (8, 64), "swizzle": 64}, "more than the swizzle"),
    ({"box": (300, 8)}, "1 to 256"),
    ({"box": (8,)}, "2 numbers"),
    ({"box": (8, 8), "swizzle": 16}, "0, 32, 64 or 128"),
    ({"box": (8, 8), "oob_fill": "ones"}, "zeros"),
    ({"box": (8, 8), "element_strides": (9, 1)}, "1 to 8"),
    ({"box": (8, 8), "interleave": "16B"}, "interleaved"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_maps_that_the_driver_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        TensorMap(np.zeros((64, 64), np.uint16), **options)


def test_strides_must_be_multiples_of_16() -> None:
    with pytest.raises(SimulationError, match="multiples of 16"):
        TensorMap(np.zeros((64, 63), np.uint16), (8, 8))


def test_faults() -> None:
    """A misaligned destination, a copy beyond shared memory, a parameter that is no map, a row that starts askew."""
    text = load_text(2, (0, 0), 512)
    array, out = np.zeros((16, 32), np.uint16), np.zeros(512, np.uint8)
    wrong = text.replace(" [s], [m0", " [s+16], [m0")
    assert simulate(wrong, [TensorMap(array, (8, 32)), out]).findings[0].kind == "misaligned"
    assert simulate(text, [TensorMap(array, (8, 32)), out], shared=256).findings[0].kind == "out_of_bounds"
    report = simulate(text, [np.void(bytes(128)), out])
    assert "no tensor map" in report.findings[0].message
    report = simulate(load_text(2, (4, 0), 512), [TensorMap(array, (8, 32)), out])
    assert report.findings[0].kind == "misaligned"
    assert "8 bytes into its row" in report.findings[0].message
    report = simulate(store_text(2, (0, -8), 512), [TensorMap(array, (8, 32)), out])
    assert "negative" in report.findings[0].message
