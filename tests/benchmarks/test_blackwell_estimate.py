"""benchmarks/blackwell_estimate.py against numbers worked out by hand, and docs/blackwell.md against its table."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "blackwell.md"


@pytest.fixture
def module(modules_of_benchmarks):
    return importlib.import_module("blackwell_estimate")


ESTIMATES = {}  # by name: a kernel is compiled for each


def found(module, name):
    if name not in ESTIMATES:
        (case,) = (case for case in module.CASES if case.name == name)
        ESTIMATES[name] = module.estimate(case)
    return ESTIMATES[name]


def test_gemm(module):
    """A tile of 128 × 256, K = 4096 by 64 steps."""
    cycles = found(module, "GEMM bf16")
    assert cycles["tensor"] == 128 * 256 * 4096 / 4096
    step = (128 + 256) * 64 * 2  # bytes of A and B: written by TMA, and read
    assert cycles["shared"] == 64 * 2 * step / 128
    assert cycles["tensor memory"] == 128 * 256 * 4 / 256  # the accumulator is loaded once
    assert cycles["MUFU"] == 0


def test_pairs(module):
    """Each block writes and reads half of B."""
    assert found(module, "GEMM bf16, pairs")["shared"] == 64 * 2 * (128 + 128) * 64 * 2 / 128


@pytest.mark.parametrize(("name", "share"), [("GEMM e4m3", 2), ("GEMM int8", 2), ("GEMM tf32", 0.5)])
def test_narrow(module, name, share):
    assert found(module, name)["tensor"] == 128 * 256 * 4096 / 4096 / share


@pytest.mark.parametrize(
    ("name", "share", "blocks"), [("GEMM mxf8", 2, 1), ("GEMM mxf8, pairs", 2, 2), ("GEMM nvf4, pairs", 4, 2)]
)
def test_scales(module, name, share, blocks):
    """TMA writes a word of four scales for each row and column and 128 or 64 of K, and tcgen05.cp reads it; in either
    block of a pair those of all columns."""
    cycles = found(module, name)
    assert cycles["tensor"] == 128 * 256 * 4096 / 4096 / share
    rows, factors = 128 + 256, 128 + 256 // blocks
    scales = rows * 4096 // (32 if share == 2 else 16)
    assert cycles["shared"] == 2 * (factors * 4096 * 2 // share + scales) / 128


def test_attention(module):
    """Two blocks of 128 queries by 128 keys, heads of 128: 4 · 128³ operations at 8192 a cycle are 1024 for one."""
    cycles = found(module, "attention, heads of 128")
    assert cycles["tensor"] == 2 * 4 * 128**3 / 8192
    assert cycles["MUFU"] == pytest.approx(2 * 128 * 128 / 16, rel=0.02)  # and one for each row
    read = 2 * (128 * 128 * 2 + 128 * 128 * 2 + 128 * 128 * 2)  # queries, keys; weights are in tensor memory; values
    written = 2 * 128 * 128 * 2  # keys, values
    assert cycles["shared"] == (read + written) / 128


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.125, pytest.param(0.25, marks=pytest.mark.slow)])
def test_attention_with_roles(module, share):
    """The same products; scores are loaded, weights stored and read, the output is not; exponentials go over to the
    units that multiply and add."""
    cycles = found(module, "attention, roles" + f", {share:.1%} of exp2 by polynomial")
    assert cycles["tensor"] == 2 * 4 * 128**3 / 8192
    assert cycles["tensor memory"] == 2 * (128 * 128 * 4 + 2 * 128 * 128 * 2) / 256
    elements = 2 * 128 * 128
    assert cycles["MUFU"] == elements * (1 - share) / 16 + 2 * 128 / 16
    plain = found(module, "attention, roles")
    assert cycles["arithmetic"] - plain["arithmetic"] == elements * share * 8 / 128


@pytest.mark.slow  # ten kernels; the rows above are worked out each time
def test_the_page_has_the_table(module):
    assert "\n".join(module.table()) in PAGE.read_text(encoding="utf-8")
