"""What is said of vendors and targets is said in their backends: elsewhere no comparison of vendors, no name of a
target, no regular expression over assembly; and what is compiled for one vendor loads nothing of another."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGET = re.compile(r"\b(sm_\d+\w?|gfx\d+\w*)\b")
VENDORS = re.compile(r"\b(nvidia|amd|cuda|rocm)\b", re.IGNORECASE)
# Words that stand in assembly and nowhere else: opcodes, directives, special registers.
ASSEMBLY = re.compile(
    r"amdgcn|amdhsa|\.entry|\.version\\s|v_mfma|s_waitcnt|s_barrier|ds_\\w|cp\\\.async|wgmma\\|mbarrier\\|ld\\\.global|bar\\\.sync"
)
# File: the strings that may name a target, and why.
NAMES = {
    "minitile/transforms/warp_specialize/partition_warpgroups.py": (
        r".*for sm_90a and up",
        "tells a user which GPUs have it",
    ),
    "minitile/tilelang/run.py": (r".*sm_90a.*", "what a script's kernels are compiled for where nothing says"),
    "minitile/tilelang/language/fp8.py": (r"gfx942", "TileLang's own function, which tells by the target"),
    "minitile/tilelang/stand_in/torch_module.py": (r"gfx942", "torch's property of a device, of no content"),
    "minitile/ops/machine.py": (r"sm_90a", "PLANNED_FOR: the machine that the model's numbers are of"),
}
# File: the comparisons that mention a vendor's name, and why.
COMPARED = {
    f"minitile/ops/{name}.py": ("cuda", "repeated calls are remembered for launches through CUDA, the one way measured")
    for name in ("multiply", "batches", "grouped", "attention_op", "quantised/calls")
} | {
    "minitile/tilelang/stand_in/cpu.py": ("cuda", "torch's name of a device, which the CPU takes the place of"),
}


PROVER = ROOT / "minitile" / "proof"  # reads PTX text, of whatever origin; knows nothing of the compiler


def outside() -> Iterator[tuple[str, ast.Module]]:
    """The compiler's files that are of no vendor."""
    for path in sorted((ROOT / "minitile").rglob("*.py")):
        if not linked(path) and not path.is_relative_to(PROVER):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def docstrings(tree: ast.Module) -> set[int]:
    """The ids of the constants that are docstrings."""
    bodies = (n.body for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef))
    firsts = (body[0].value for body in bodies if body and isinstance(body[0], ast.Expr))
    return {id(first) for first in firsts if isinstance(first, ast.Constant)}


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts that code uses, with their lines."""
    said = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


# The files outside of blackwell's folder that name it, and why; of those in PAIRS, that know pairs of blocks.
BLACKWELL = re.compile(r"tcgen05|[Tt]ensor memory|tmem\b|[Bb]lackwell|sm_10[03]")
PAIR = re.compile(r"\bop\.pair\b|\bpair: bool|\bPair[A-Z]\w+|cta_group|\bpairs? of (?:CTA|block)|\beven (?:CTA|block)")
NAMED = {
    "backends/nvidia/extensions.py": "where the folder is",
    "backends/nvidia/targets.py": "the rows",
    "minitile/ir/types.py": "a space of buffers",
    "minitile/ir/ops/__init__.py": "the list of operations",
    "minitile/language/__init__.py": "the list of names",
}
PAIRS: dict[str, str] = {}
NEW = "backends/nvidia/blackwell/", "minitile/ir/ops/blackwell.py", "minitile/language/instructions/tcgen05.py"
TILELANGS = "minitile/tilelang/layout.py"  # has all names of a module of TileLang's


def without_docstrings(text: str) -> str:
    """What is said to users of a name is said where the name is."""
    tree, lines = ast.parse(text), text.splitlines()
    said = docstrings(tree)
    for node in ast.walk(tree):
        if id(node) in said:
            assert isinstance(node, ast.Constant)
            assert node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines)


def test_files_that_name_blackwell() -> None:
    """Fewer than ten: what else needs to know asks an operation."""
    files = [p for folder in ("minitile", "backends") for p in (ROOT / folder).rglob("*.py") if not linked(p)]
    texts = {p.relative_to(ROOT).as_posix(): without_docstrings(p.read_text()) for p in files}
    outside = {path: text for path, text in texts.items() if not path.startswith(NEW) and path != TILELANGS}
    assert {path for path, text in outside.items() if BLACKWELL.search(text)} == set(NAMED)
    assert {path for path, text in outside.items() if PAIR.search(text)} == set(PAIRS)
    assert len(NAMED.keys() | PAIRS.keys()) < 10


def target_names(path: str, tree: ast.Module) -> list[str]:
    fine = re.compile(NAMES[path][0]) if path in NAMES else None
    found = [(line, text) for line, text in strings(tree) if TARGET.search(text)]
    return [f"{path}:{line}: {text!r}" for line, text in found if fine is None or not fine.fullmatch(text)]


def vendor_comparisons(path: str, tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "vendor":
            found.append(f"{path}:{node.lineno}: .vendor")
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides += (
            [node.pattern.value]
            if isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchValue)
            else []
        )
        for side in sides:
            value = side.value if isinstance(side, ast.Constant) and isinstance(side.value, str) else ""
            if VENDORS.fullmatch(value) and value != COMPARED.get(path, ("",))[0]:
                found.append(f"{path}:{side.lineno}: compares with {value!r}")
            if isinstance(side, ast.Attribute) and side.attr == "backend":
                found.append(f"{path}:{side.lineno}: compares a backend")
    return found


def assembly_patterns(path: str, tree: ast.Module) -> list[str]:
    """Words of assembly in what is given to `re`, and to methods and operators that look into a text."""
    found = []
    for node in ast.walk(tree):
        looked: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            is_re = isinstance(owner, ast.Name) and owner.id == "re"
            if is_re or node.func.attr in ("find", "startswith", "endswith", "partition", "split", "count", "index"):
                looked = node.args
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            looked = [node.left]
        for arg in looked:
            words = [n.value for n in ast.walk(arg) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            found += [f"{path}:{node.lineno}: {word!r}" for word in words if ASSEMBLY.search(word)]
    return found


def test_vendors_are_the_backends_business() -> None:
    rules = (target_names, vendor_comparisons, assembly_patterns)
    found = [each for path, tree in outside() for rule in rules for each in rule(path, tree)]
    assert not found, "\n".join(found)


def test_a_number_of_the_hardware_stands_once() -> None:
    """65536 registers, written as one number, stand in hardware.py alone."""
    files = [p for folder in ("minitile", "backends") for p in (ROOT / folder).rglob("*.py") if not linked(p)]
    for path in files:
        text = path.read_text()
        if (
            re.search(r"(?i)65_?536|0x[_0]*1_?0000|0o[_0]*200_?000|0b[_0]*1[_0]{16}", text) is None
        ):  # a parse costs more
            continue
        found = [n.lineno for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and n.value == 65536]
        assert not found, f"{path}:{found}"


def linked(path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents)


def test_what_is_allowed_is_needed() -> None:
    """Exceptions that nothing makes use of any more go."""
    trees = {path: ast.parse((ROOT / path).read_text()) for path in (*NAMES, *COMPARED)}
    for path, (pattern, _) in NAMES.items():
        assert any(re.fullmatch(pattern, text) and TARGET.search(text) for _, text in strings(trees[path])), path
    for path, (vendor, _) in COMPARED.items():
        assert any(text == vendor for _, text in strings(trees[path])), path


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (target_names, 'x = {"gfx950": 1}'),
        (target_names, 'def f(t="sm_90a"): ...'),
        (vendor_comparisons, "if target.vendor == x: ..."),
        (vendor_comparisons, 'if "amd" != name: ...'),
        (vendor_comparisons, "if target.backend == name: ..."),
        (assembly_patterns, r're.compile(r"\.entry\s+(\w+)")'),
        (assembly_patterns, 'x = ".amdgcn_target" in text'),
        (assembly_patterns, r're.findall("v_mfma_" + y, text)'),
    ],
)
def test_the_rules_find_what_they_are_for(rule, code) -> None:
    assert rule("minitile/x.py", ast.parse(code)), code


@pytest.mark.parametrize(("target", "other"), [("sm_90a", "amd"), ("gfx950", "nvidia")])
def test_compiling_for_one_vendor_loads_nothing_of_another(target: str, other: str, tmp_path: Path) -> None:
    """But the rows of its targets."""
    if other == "nvidia":
        pytest.importorskip("llvmlite")
    file = tmp_path / "program.py"
    file.write_text(
        f"""
import sys
import minitile as mt
import minitile.language as T

@mt.kernel
def copy(A: T.Tensor((128,), T.float32), B: T.Tensor((128,), T.float32)):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            B[i] = A[i]

copy.compile(target={target!r}).registers
print(*(name for name in sys.modules if name.startswith("minitile.backends.{other}.")))
"""
    )
    done = subprocess.run(
        [sys.executable, file], cwd=ROOT, capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout.split() == [f"minitile.backends.{other}.targets"]


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}
