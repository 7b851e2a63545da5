"""Golden assembly of a small GEMM, to be read by people: what LLVM makes of the schedules on gfx942 and gfx950.

    pytest --bless tests/amd/test_golden_assembly.py     writes the files anew; look at the difference before committing

Each file begins with the version of LLVM that wrote it; with another one the test is skipped, since another LLVM may
choose other registers. What must hold with any of them is asserted elsewhere (test_cdna4_schedules.py).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import minitile as mt

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import llvmlite.binding
from gemm import gemm_nt_bf16

FOLDER = Path(__file__).parent / "golden"
VERSION = ".".join(map(str, llvmlite.binding.llvm_version_info))
TILE = {"block_M": 64, "block_N": 32, "block_K": 64, "num_stages": 2, "threads": 128}
CASES = {  # target, passes left out
    "gemm_gfx942": ("gfx942", ()),
    "gemm_gfx950_interleaved": ("gfx950", ("cdna4_half_tiles",)),
    "gemm_gfx950_half_tiles": ("gfx950", ("cdna4_interleave",)),
    "gemm_gfx950_plain": ("gfx950", ("cdna4_interleave", "cdna4_half_tiles")),
}


def instructions(text: str) -> str:
    """The kernel's instructions and labels, without what an assembler and a debugger need."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if re.match(r"gemm\w*:", line))
    end = next(n for n, line in enumerate(lines) if n > start and line.strip() == "s_endpgm")
    kept = [line.partition(";")[0].rstrip() for line in lines[start : end + 1]]
    kept = [line for line in kept if line and not re.match(r"\s+\.|\.L(tmp|func)", line)]
    return "\n".join(line.expandtabs(4) for line in kept) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_golden(name, bless):
    target, left_out = CASES[name]
    specs = [mt.spec((128, 128), "bfloat16")] * 3  # divisible by the tiles: no bounds
    kernel = gemm_nt_bf16().compile(*specs, target=target, passes=dict.fromkeys(left_out, False), **TILE)
    actual = (
        f"; LLVM {VERSION}, {target}, {', '.join(f'{k}={v}' for k, v in TILE.items())}\n{instructions(kernel.text)}"
    )
    path = FOLDER / f"{name}.s"
    if bless:
        path.write_text(actual, encoding="utf-8")
    hint = f"if the new text is right: pytest --bless tests/amd/test_golden_assembly.py -k {name}"
    assert path.exists(), hint
    expected = path.read_text(encoding="utf-8")
    written_by = re.match(r"; LLVM ([\d.]+)", expected)[1]
    if written_by != VERSION:
        pytest.skip(f"written by LLVM {written_by}, this is {VERSION}")
    assert actual == expected, hint
