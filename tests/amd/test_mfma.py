"""mfma against a product in float64: every atom, every dtype that a target multiplies, 2 × 2 × 2 of them."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.backends.amd.check import costs
from minitile.ir.ops import thread
from minitile.ir.types import dtype
from minitile.layout import MFMA_ATOMS, MFMA_OF_DTYPE, mma_accumulator, mma_operand_a, mma_operand_b
from minitile.target import TARGETS

from ..nvidia import harness
from ..nvidia.harness import Make, raw, run, width_of
from ..nvidia.test_warp import spread

pytest.importorskip("llvmlite")
BOTH = ("gfx942", "gfx950")
CASES = [
    *((atom, name, "f32", t) for atom in ("mfma16x16x32", "mfma16x16x16", "mfma16x16x32.chained")
      for name in ("f16", "bf16") for t in BOTH),
    *((atom, "i8", "i32", t) for atom in ("mfma16x16x64.b8", "mfma16x16x32.b8") for t in BOTH),
    *((atom, "f32", "f32", t) for atom in ("mfma16x16x16.f32", "mfma16x16x4.f32") for t in BOTH),
    *((atom, name, "f32", "gfx950") for atom in ("mfma16x16x64.b8", "mfma16x16x32.b8") for name in ("e4m3", "e5m2")),
]  # fmt: skip


def test_every_atom_is_here():
    assert {case[0] for case in CASES} == set(MFMA_ATOMS)
    assert {case[1] for case in CASES} == set(MFMA_OF_DTYPE)


@pytest.mark.parametrize(("name", "operand", "accumulator", "target"), CASES)
def test_mfma(name, operand, accumulator, target, monkeypatch):
    """With the registers in the order that minitile.layout says; small integers, so that sums are exact."""
    monkeypatch.setattr(harness, "redirect", TARGETS[target])
    atom = MFMA_ATOMS[name]
    m, n, k = 2 * atom.m, 2 * atom.n, 2 * atom.k
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (m, k)).astype(dtype(operand).numpy)
    b = rng.integers(-4, 5, (k, n)).astype(dtype(operand).numpy)
    c = rng.integers(-9, 10, (m, n)).astype(dtype(accumulator).numpy)
    layouts = [mma_operand_a((m, k), atom, (1, 1)), mma_operand_b((k, n), atom, (1, 1))]
    layouts.append(mma_accumulator((m, n), atom, (1, 1)))
    registers = [spread(t, layout) for t, layout in zip((a, b, c), layouts, strict=True)]

    make = Make({"a": operand, "b": operand, "c": accumulator}, threads=64)
    values = []
    for tensor, lanes in zip(make.tensors, registers, strict=True):
        count = lanes.shape[1]
        index = make.mul(make.thread(), count)
        values.append(make.load(tensor, index, count, width_of(make.tensors[tensor].dtype.name, count)))
    d = make.emit(thread.MmaSync(*values, name, (2, 2, 2))).result
    make.store("c", make.mul(make.thread(), registers[2].shape[1]), d, 4)
    text = run(make, *[raw(r.reshape(-1)) for r in registers], threads=64)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert np.array_equal(registers[2].astype(np.float64), spread(exact, layouts[2]))
    assert "v_mfma" in text
    assert costs(text).scratch == 0
