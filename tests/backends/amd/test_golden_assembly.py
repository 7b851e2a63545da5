"""Golden assembly of a small GEMM, to be read by people: what LLVM makes of the schedules on gfx942 and gfx950.

    pytest --bless tests/backends/amd/test_golden_assembly.py     writes the files anew; look at the difference before
    committing

Each file begins with the version of LLVM that wrote it. Another one may number registers and labels otherwise; if it
does more than that, the test fails and says so: then the schedules should be read again, and the files written anew.
What must hold with any LLVM is asserted elsewhere (test_cdna4_schedules.py).
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest

import minitile as mt

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import llvmlite.binding
from gemm import gemm_nt_bf16

FOLDER = Path(__file__).parent / "golden"
VERSION = ".".join(map(str, llvmlite.binding.llvm_version_info))
TILE = {"block_M": 64, "block_N": 32, "block_K": 64, "num_stages": 2, "threads": 128}
ORDERS = re.compile(r"\s+s_(waitcnt|barrier)\b")
CASES = {  # target, passes left out
    "gemm_gfx942": ("gfx942", ()),
    "gemm_gfx950_interleaved": ("gfx950", ("cdna4_half_tiles",)),
    "gemm_gfx950_half_tiles": ("gfx950", ("cdna4_interleave",)),
    "gemm_gfx950_plain": ("gfx950", ("cdna4_interleave", "cdna4_half_tiles", "cdna4_modulo")),
}


def instructions(text: str) -> str:
    """The kernel's instructions and labels, without what an assembler and a debugger need; with where waits and
    barriers come from."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if re.match(r"gemm\w*:", line))
    end = next(n for n, line in enumerate(lines) if n > start and line.strip() == "s_endpgm")
    kept = [line if ORDERS.match(line) else line.partition(";")[0].rstrip() for line in lines[start : end + 1]]
    kept = [line for line in kept if line and not re.match(r"\s+\.|\.L(tmp|func)", line)]
    return "\n".join(line.expandtabs(4) for line in kept) + "\n"


def unnumbered(text: str) -> str:
    """The text without comments and without the numbers of registers and labels; how many registers there are in a row
    stays."""
    text = re.sub(r"  ; .*", "", text)
    text = re.sub(r"\b([vsa])\[(\d+):(\d+)\]", lambda m: f"{m[1]}[{int(m[3]) - int(m[2]) + 1}]", text)
    text = re.sub(r"\b([vsa])\d+\b", r"\1", text)
    return re.sub(r"\.LBB\d+_\d+", ".L", text).partition("\n")[2]


def compare(actual: str, expected: str, version: str, bless: str) -> None:
    """Raises AssertionError where `actual`, by LLVM `version`, is not what the file has."""
    written_by = re.match(r"; LLVM ([\d.]+)", expected)[1]
    if written_by == version:
        assert actual == expected, bless
        return
    differs = difflib.unified_diff(unnumbered(expected).splitlines(), unnumbered(actual).splitlines(), lineterm="")
    lines = [*differs]
    assert not lines, "\n".join(
        [
            f"the file is LLVM {written_by}'s; LLVM {version}, which is installed, differs in more than registers",
            f"read what has become of the schedule; {bless}",
            *lines,
        ]
    )


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
    hint = f"if the new text is right: pytest --bless tests/backends/amd/test_golden_assembly.py -k {name}"
    assert path.exists(), hint
    expected = path.read_text(encoding="utf-8")
    compare(actual, expected, VERSION, hint)


def test_another_llvm():
    """Of another version other registers and labels will do; other instructions, orders and counts will not."""
    golden = (FOLDER / "gemm_gfx950_interleaved.s").read_text(encoding="utf-8")
    other = re.sub(r"; LLVM [\d.]+", "; LLVM 99.0.0", golden)
    moved = re.sub(r"\bv(\d+)\b", lambda m: f"v{int(m[1]) + 3}", other)
    moved = re.sub(r"v\[(\d+):(\d+)\]", lambda m: f"v[{int(m[1]) + 8}:{int(m[2]) + 8}]", moved)
    assert moved != other
    compare(moved.replace(".LBB0_", ".LBB7_"), golden, "99.0.0", "")
    compare(golden, golden, re.match(r"; LLVM ([\d.]+)", golden)[1], "")
    wait = re.search(r"vmcnt\((\d+)\)", other)
    changes = {
        "wait": other.replace(wait[0], f"vmcnt({int(wait[1]) + 1})", 1),
        "barrier": re.sub(r"    s_barrier.*\n", "", other, count=1),
        "width": other.replace("ds_read_b128", "ds_read_b64", 1),
        "span": re.sub(r"v\[(\d+):(\d+)\]", lambda m: f"v[{m[1]}:{int(m[2]) + 1}]", other, count=1),
    }
    for what, changed in changes.items():
        assert changed != other, what
        with pytest.raises(AssertionError, match=r"LLVM 99\.0\.0, which is installed, differs"):
            compare(changed, golden, "99.0.0", "")
    with pytest.raises(AssertionError):
        compare(moved, golden, re.match(r"; LLVM ([\d.]+)", golden)[1], "")
