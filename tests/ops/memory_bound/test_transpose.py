"""mt.ops.transpose: each size of element, by registers and by shared memory, odd sizes, batches, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.ops import transpose
from minitile.ops.memory_bound.transpose import TransposePlan, transpose_plan, transpose_registers, transpose_shared
from tests.ops.memory_bound.frames import bf16, f32, given

DTYPES = [np.int8, np.int16, bf16, f32, np.int64]


def matrix(dtype, *shape):
    """Every element tells where it is, as far as its dtype goes."""
    return np.arange(np.prod(shape)).reshape(shape).astype(np.int64).astype(dtype)


def bits(x):
    if not isinstance(x, np.ndarray):
        import torch

        x = x.view(torch.int16).cpu().numpy() if x.dtype == torch.bfloat16 else x.cpu().numpy()
    return x.view(f"i{x.dtype.itemsize}")


def check(x, **options):
    y = bits(transpose(given(x), **options))
    np.testing.assert_array_equal(y, np.swapaxes(bits(x), -1, -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (17, 67), (2, 80, 112), (300, 3)])
def test_sizes(shape, dtype):
    check(matrix(dtype, *shape))


def test_leading_dimensions_are_a_batch():
    check(matrix(f32, 2, 3, 4, 8))


@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("dtype", [np.int16, np.int64])
def test_small_plans(dtype, registers):
    """More blocks than one, also outside; more squares a thread."""
    lanes = 16 // np.dtype(dtype).itemsize
    for panel in (0, 2):
        check(matrix(dtype, 20 * lanes, 36 * lanes), plan=TransposePlan(registers, 8 * lanes, 16 * lanes, 64, panel))


def test_matrices_with_gaps():
    x = matrix(bf16, 2, 40, 64)
    for part in (np.s_[:, :32, 16:48], np.s_[:, 3:9, 5:64], np.s_[1, ::2]):
        y = bits(transpose(given(x)[part]))
        np.testing.assert_array_equal(y, np.swapaxes(bits(x)[part], -1, -2))


@pytest.mark.parametrize("shape", [(600, 8), (8, 600), (2, 24, 16)])
def test_narrow_matrices(shape):
    """A tile is as narrow, and as long as others are wide."""
    plan = transpose_plan(*shape[-2:], 2)
    assert plan.registers
    assert min(plan.block_M, plan.block_N) < 32
    check(matrix(bf16, *shape))


def test_multiples_of_a_vector_stay_in_registers():
    assert transpose_plan(64, 8, 2).registers
    assert transpose_plan(4, 4, 4).registers
    assert not transpose_plan(64, 9, 2).registers
    assert not transpose_plan(4, 6, 4).registers


def test_large_matrices_of_two_bytes_are_turned_in_shared_memory():
    """By vectors to and from global memory."""
    plan = transpose_plan(4096, 4096, 2)
    assert not plan.registers
    made = transpose_shared.compile(*[mt.spec((1, 4096, 4096), "bfloat16")] * 2, target="sm_90a", **plan.constants)
    for kind in ("ld", "st"):
        assert {w for w in made.asm["ptx"].split() if w.startswith(f"{kind}.global")} == {f"{kind}.global.v4.b32"}
    assert not made.spills


def test_registers_hold_squares():
    """As the file says: vectors of 16 bytes both ways, no shared memory, no barriers."""
    for size, dtype in ((1, "int8"), (2, "bfloat16"), (4, "float32"), (8, "int64")):
        specs = [mt.spec((1, 512, 512), dtype)] * 2
        made = transpose_registers.compile(*specs, target="sm_90a", **transpose_plan(64, 512, size).constants)
        text = made.asm["ptx"]
        assert "bar.sync" not in text
        assert "shared" not in text
        for kind in ("ld", "st"):
            widths = {word for word in text.split() if word.startswith(f"{kind}.global")}
            assert all(".v4." in w or ".v2.b64" in w for w in widths), widths


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: transpose(np.zeros(3, f32)), "a matrix has two dimensions"),
        (lambda: transpose(np.zeros((3, 4), f32), out=np.zeros((3, 4), f32)), "out is f32 of shape"),
        (lambda: transpose(3.0), "no array"),
    ],
)
def test_wrong_use(call, said):
    with pytest.raises(mt.MinitileError, match=said):
        call()
