"""The reference of the language: every name of `minitile.language` has a page, a text and an example that compiles."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.types import DType

PAGES = Path(__file__).parents[2] / "docs" / "reference" / "language"
LISTED = {
    page.stem: re.findall(r"^::: minitile\.language\.(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    for page in PAGES.glob("*.md")
}
DTYPES = [name for name in T.__all__ if isinstance(getattr(T, name), DType)]
FUNCTIONS = [name for name in T.__all__ if name not in DTYPES]
EXAMPLE = re.compile(r"^Example:\n    ```py\n(.*?)^    ```$", re.MULTILINE | re.DOTALL)
SAME = re.compile(r"^The same as T\.(\w+)")
# What the examples stand in, as the reference's first page says; explicit roles have more threads and another target.
AROUND = """
@mt.kernel
def example(
    A: T.Tensor((256, 128), T.bfloat16),
    B: T.Tensor((256, 128), T.bfloat16),
    C: T.Tensor((256, 256), T.float32),
    X: T.Tensor(("M", "N"), T.float32),
    Y: T.Tensor(("M", "N"), T.float32),
    V: T.Tensor((256,), T.float32),
    I: T.Tensor((256,), T.int32),
):
    M, N = X.shape
    with T.Kernel(2, threads=128) as bx:
        A_shared = T.alloc_shared((128, 64), T.bfloat16)
        B_shared = T.alloc_shared((128, 64), T.bfloat16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        x = T.alloc_fragment((32, 128), T.float32)
        row = T.alloc_fragment((32,), T.float32)
        tx = T.get_thread_binding()
"""
HOPPER = {
    *LISTED["roles"],
    "wgmma_gemm",
    "cluster_sync",
    "cluster_arrive",
    "cluster_wait",
    "map_shared_rank",
    "all_reduce",
    "pdl_sync",
    "pdl_trigger",
}


def text(name: str) -> str:
    return inspect.getdoc(getattr(T, name)) or ""


def example(name: str) -> str:
    (found,) = EXAMPLE.findall(text(name))
    return textwrap.dedent(found)


def test_every_name_has_a_page():
    listed = [name for names in LISTED.values() for name in names]
    assert sorted(listed) == sorted(FUNCTIONS)
    table = (PAGES / "dtypes.md").read_text(encoding="utf-8")
    assert set(DTYPES) == set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))) - {
        "T"
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_text(name):
    """A sentence, every parameter, and an example unless the name is another one's."""
    doc = text(name)
    assert doc.split("\n")[0]
    function: Any = getattr(T, name)
    if inspect.isfunction(function):
        arguments = doc.partition("\nArgs:\n")[2].partition("\n\n")[0]
        for parameter in inspect.signature(function).parameters:
            if not parameter.startswith("_"):
                assert re.search(rf"^    {parameter}: ", arguments, re.MULTILINE), parameter
    if same := SAME.match(doc):
        assert EXAMPLE.search(text(same[1]))
    else:
        assert len(EXAMPLE.findall(doc)) == 1


def test_the_first_page_shows_what_is_around():
    page = (PAGES / "index.md").read_text(encoding="utf-8")
    assert AROUND.strip() in page


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A module with the example of each name as a kernel."""
    parts = ["import minitile as mt\nimport minitile.layout\nimport minitile.language as T\n"]
    for name in FUNCTIONS:
        if SAME.match(text(name)):
            continue
        body = example(name)
        if "@mt.kernel" not in body:
            around = AROUND.replace("def example(", f"def example_{name}(")
            around = around.replace("threads=128", f"threads={256 if name in HOPPER else 128}")
            body = around + textwrap.indent(body, " " * 8)
        parts.append(body)
    path = tmp_path_factory.mktemp("reference") / "reference_examples.py"
    path.write_text("\n".join(parts), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not SAME.match(text(name))])
def test_the_example_compiles(name, kernels):
    own = re.search(r"@mt\.kernel\n *def (\w+)", example(name))
    kernel = getattr(kernels, own[1] if own else f"example_{name}")
    target = "gfx950" if name == "gemm_blockscaled" else "sm_90a" if name in HOPPER else "sm_80"
    target = "sm_100a" if name in LISTED["tensor_memory"] else target
    assert isinstance(kernel, mt.Kernel)
    assert kernel.compile(target=target).asm


TARGETS = ("sm_80", "sm_89", "sm_90a", "gfx942", "gfx950")
PRODUCTS = {
    (dtype, accumulator.strip()): set(TARGETS if where.strip() == "all" else where.strip().split(", "))
    for dtypes, accumulator, where in re.findall(r"^\| (\w+\d.*?) \|(.*?)\|(.*?)\|$", text("gemm"), re.MULTILINE)
    for dtype in re.findall(r"[a-z]+\d[a-z0-9_]*", dtypes.partition(" (")[0].partition(", also with")[0])
}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "accumulator"), PRODUCTS)
def test_the_table_of_gemm(dtype, accumulator, target):
    """Compiled where the table says so, refused elsewhere."""

    @mt.kernel
    def product(C: T.Tensor((64, 64), accumulator)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), dtype)
            c = T.alloc_fragment((64, 64), accumulator)
            T.fill(a, 1)
            T.clear(c)
            T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    if target in PRODUCTS[dtype, accumulator]:
        assert product.compile(target=target).asm
    else:
        with pytest.raises(mt.MinitileError):
            product.compile(target=target)
