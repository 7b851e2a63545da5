"""No bank conflicts: by the layouts alone, which know nothing of the simulator, and in the simulator.

gfx950's LDS has 64 banks of four bytes. A wave's read of 16 bytes a lane takes four turns at least; which 16 lanes are
served together is known by measurement (HipKittens). In each such group all words must be in banks of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from minitile.backends.amd.lowering import MFMA_OF_DTYPE
from minitile.driver.simulate import launch_of
from minitile.layout import MFMA_SCALED, Layout, mma_operand_a, mma_operand_b, swizzled
from minitile.runtime.sim.amdgcn import estimate_gcn

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import gemm
import gemm_mx

BANKS = 64
HALF = [{*range(4), *range(12, 16), *range(20, 28)}, {*range(4, 12), *range(16, 20), *range(28, 32)}]
TOGETHER = [{lane + first for lane in group} for first in (0, 32) for group in HALF]
ATOMS = {atom for atoms in MFMA_OF_DTYPE["gfx950"].values() for atom in atoms} | set(MFMA_SCALED.values())


def wide(atom):
    """Whether lanes have their parts of A and B in runs of 16 bytes."""
    return all(x.vector_width(dim, 16) * atom.bits == 128 for x, dim in ((atom.a, 1), (atom.b, 0)))


def conflicts(layout: Layout, k_dim: int, shape: tuple[int, int], bits: int) -> int:
    """The most words of one bank that lanes of a group ask for, over all reads of 16 bytes of a wave; the operand lies
    as its gemm has it laid out, rows along K."""
    shared, each, worst = swizzled(shape, bits), 128 // bits, 0
    for register in range(0, layout.num_regs, each):
        for group in TOGETHER:
            words = [0] * BANKS
            for lane in group:
                at = layout.coords(register, lane, 0)
                row, k = at[1 - k_dim], at[k_dim]
                addresses = [shared.offset((row, k + n)) for n in range(each)]
                assert addresses == [addresses[0] + n * bits // 8 for n in range(each)], "16 bytes in a row"
                for word in range(4):
                    words[addresses[0] // 4 % BANKS + word] += 1
            worst = max(worst, *words)
    return worst


@pytest.mark.parametrize("atom", sorted(filter(wide, ATOMS), key=str), ids=str)
@pytest.mark.parametrize("row_bytes", [64, 128, 256])
def test_by_the_layouts(atom, row_bytes):
    """None for 16x16. The rows of 32x32, which comes second, are twice as many as the swizzle's period has."""
    k = row_bytes * 8 // atom.bits
    rows, once = 2 * atom.m, (1, 1)
    most = 1 if atom.m == 16 else 2
    if k % atom.a.shape[1] == 0:
        assert conflicts(mma_operand_a((rows, k), atom, once), 1, (rows, k), atom.bits) == most
    if k % atom.b.shape[0] == 0:
        assert conflicts(mma_operand_b((k, rows), atom, once), 0, (rows, k), atom.bits) == most


def test_the_atoms_that_come_first_are_among_them():
    assert {atoms[0] for name, atoms in MFMA_OF_DTYPE["gfx950"].items()} <= set(filter(wide, ATOMS))


def estimated(kernel: mt.CompiledKernel, arrays: list[np.ndarray]):
    info = kernel.launch_info
    grid, args = launch_of(info, arrays)
    return estimate_gcn(kernel.text, info.entry, grid, info.block, args)


@pytest.mark.parametrize("name", ["f16", "int8", "e4m3"])
def test_in_the_simulator(name):
    """Reads, and writes by LDS-DMA, of whole kernels (test_cdna4_schedules.py has the large one in bf16)."""
    dtype, accumulate, element, _ = (gemm.DTYPES | gemm.FP8)[name]
    result = element if name == "f16" else np.int32 if name == "int8" else np.float32
    arrays = [np.zeros((128, 512), element), np.zeros((128, 512), element), np.zeros((128, 128), result)]
    tile = {"block_M": 128, "block_N": 128, "block_K": 128 // np.dtype(element).itemsize, "num_stages": 2}
    made = gemm.make_gemm(dtype, accumulate, dtype if name == "f16" else accumulate, False, True)
    found = estimated(made.compile(*arrays, target="gfx950", threads=256, **tile), arrays)
    assert found.lds_cycles > 0
    assert found.lds_conflicts == 0


def test_microscaled_in_the_simulator():
    """The scales, too, are read byte by byte without conflicts."""
    k = 512
    arrays = [np.zeros((64, k), ml_dtypes.float8_e4m3fn), np.zeros((64, k // 2), np.uint8)]
    arrays += [np.zeros((64, k // 32), np.uint8), np.zeros((64, k // 32), np.uint8), np.zeros((64, 64), np.float32)]
    kernel = gemm_mx.gemm_mx("e4m3", "e2m1").compile(
        *arrays, target="gfx950", block_M=64, block_N=64, threads=128, num_stages=1
    )
    assert estimated(kernel, arrays).lds_conflicts == 0
