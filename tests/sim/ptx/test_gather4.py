"""TMA's copies of four rows, tile::gather4 and tile::scatter4 (PTX ISA 8.8, 5.5.3.4), against NumPy, and faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import Report, TensorMap, run_ptx
from tests.sim.ptx.blackwell import assembles, changed, for_blackwell
from tests.sim.ptx.hopper import dump, fill, frame, wait

Program = dict[str, str]
Array = np.ndarray[Any, Any]
SCHEDULES = ("lazy", "eager", "random")
ROWS, WIDTH = 24, 96


def coordinates(column: int, rows: tuple[int, ...]) -> str:
    return "\n".join(f"    mov.b32 x{i + 1}, {each};" for i, each in enumerate((column, *rows)))


def gather(column: int, rows: tuple[int, ...], size: int) -> Program:
    """Four rows to shared memory, and their bytes as they lie there to p0."""
    return {
        "init": "    @lead mbarrier.init.shared::cta.b64 [bar], 1;",
        "init fence": "    @lead fence.mbarrier_init.release.cluster;",
        "meet": "    bar.sync 0;",
        "coordinates": coordinates(column, rows),
        "expect": f"    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};",
        "copy": "    @lead cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
        "[s], [m0, {x1, x2, x3, x4, x5}], [bar];",
        "wait": wait(),
        "dump": dump(size),
    }


def scatter(column: int, rows: tuple[int, ...], size: int) -> Program:
    """Bytes from p0 to shared memory, and as four rows to the tensor."""
    return {
        "fill": fill(size),
        "proxy fence": "    fence.proxy.async.shared::cta;",
        "meet": "    bar.sync 0;",
        "coordinates": coordinates(column, rows),
        "copy": "    @lead cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group "
        "[m0, {x1, x2, x3, x4, x5}], [s];",
        "commit": "    @lead cp.async.bulk.commit_group;",
        "wait": "    @lead cp.async.bulk.wait_group 0;",
    }


def text_of(program: Program) -> str:
    return for_blackwell(frame("\n".join(program.values()), maps=1))


def simulate(program: Program, tensor: TensorMap, data: Array, **options: Any) -> Report:
    text = text_of(program)
    assembles(text)
    return run_ptx(text, "k", (1,), (128,), [tensor, data], dynamic_shared=32768, **options)


def in_memory(rows: Array, swizzle: int) -> Array:
    """The bytes of four rows in shared memory: one after the other, pieces of 16 bytes exchanged by the swizzle."""
    raw = np.ascontiguousarray(rows).view(np.uint8).ravel()
    image = np.zeros_like(raw)
    for at in range(0, len(raw), 16):
        line = at // 128
        to = at ^ {0: 0, 32: line % 2, 64: line % 4, 128: line % 8}[swizzle] * 16
        image[to : to + 16] = raw[at : at + 16]
    return image


def tensor_of(dtype: Any, box: int, swizzle: int, fill_nan: bool = False) -> TensorMap:
    values = np.random.default_rng(box).integers(-99, 99, (ROWS, WIDTH)).astype(dtype)
    return TensorMap(values, (1, box), swizzle, oob_fill="nan" if fill_nan else "zeros")


CASES = [
    (np.float32, 32, 128, 8, (3, 17, 3, 0)),
    (ml_dtypes.bfloat16, 64, 128, 32, (9, 2, 23, 11)),
    (np.float16, 16, 32, 80, (1, 2, 3, 4)),
    (np.uint8, 32, 0, 16, (5, 4, 3, 2)),
    (np.float32, 16, 64, 88, (0, -1, 24, 7)),  # columns and rows outside
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", CASES)
def test_gather(case: tuple[Any, int, int, int, tuple[int, ...]], schedule: str) -> None:
    dtype, box, swizzle, column, rows = case
    tensor = tensor_of(dtype, box, swizzle)
    wide = np.zeros((ROWS + 40, WIDTH + box), dtype)  # what is outside is zero
    wide[:ROWS, :WIDTH] = tensor.array
    expected = in_memory(wide[list(rows), column : column + box], swizzle)
    out = np.zeros(len(expected), np.uint8)
    report = simulate(gather(column, rows, len(expected)), tensor, out, schedule=schedule, seed=box)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", [*CASES[:4], (np.float32, 16, 64, 88, (0, 24, 30, 7))])
def test_scatter(case: tuple[Any, int, int, int, tuple[int, ...]], schedule: str) -> None:
    dtype, box, swizzle, column, rows = case
    tensor = tensor_of(dtype, box, swizzle)
    rows = tuple(dict.fromkeys(rows)) + tuple(r for r in (13, 14) if len(set(rows)) < 4)[: 4 - len(set(rows))]
    values = np.arange(4 * box).reshape(4, box).astype(dtype)
    expected = np.zeros((ROWS + 40, WIDTH + box), dtype)
    expected[:ROWS, :WIDTH] = tensor.array
    expected[list(rows), column : column + box] = values
    report = simulate(
        scatter(column, rows, values.nbytes), tensor, in_memory(values, swizzle), schedule=schedule, seed=box
    )
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(tensor.array, expected[:ROWS, :WIDTH])


GATHER, SCATTER = gather(8, (3, 17, 2, 0), 512), scatter(8, (3, 17, 2, 0), 512)


def without(program: Program, *names: str) -> Program:
    return {name: text for name, text in program.items() if name not in names}


FAULTS: dict[str, tuple[str, Callable[[], Program]]] = {
    "four rows read before their phase": ("missing_wait", lambda: without(GATHER, "wait")),
    "bytes of eight rows expected": (
        "deadlock",
        lambda: changed(GATHER, "expect", GATHER["expect"].replace("512", "1024")),
    ),
    "a column at an odd place": ("misaligned", lambda: changed(GATHER, "coordinates", coordinates(7, (3, 17, 2, 0)))),
    "four rows stored without a proxy fence": ("missing_proxy_fence", lambda: without(SCATTER, "proxy fence")),
    "four rows stored without a barrier": ("missing_barrier", lambda: without(SCATTER, "meet")),
    "a store without a wait": ("missing_wait", lambda: without(SCATTER, "commit", "wait")),
    "a row in front of the tensor": (
        "out_of_bounds",
        lambda: changed(SCATTER, "coordinates", coordinates(8, (3, -1, 2, 0))),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str) -> None:
    kind, make = FAULTS[name]
    report = simulate(make(), tensor_of(np.float32, 32, 128), np.zeros(512, np.uint8))
    assert kind in [each.kind for each in report.findings], report.findings


def test_a_box_of_several_rows() -> None:
    tensor = TensorMap(np.zeros((ROWS, WIDTH), np.float32), (4, 32), 128)
    report = simulate(GATHER, tensor, np.zeros(512, np.uint8))
    assert [each.kind for each in report.findings] == ["out_of_bounds"]
