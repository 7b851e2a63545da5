"""Where kernels' source is found: by the text of their file, as it was when the kernel was made."""

from __future__ import annotations

import gc
import importlib.util
import linecache

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.language.tracing import source
from minitile.language.tracing.source import Text, function_node

KERNEL = """
import minitile as mt
import minitile.language as T

def scaled(x):
    v: {dtype} = 1.0
    return x * T.cast(v, T.float32) * {factor}

@mt.kernel
def k(A: T.Tensor(("N",), T.float32), block=32):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=32) as b:
        f = T.alloc_fragment((block,), T.float32)
        T.copy(A[b * block], f)
        for j in T.Parallel(block):
            v: {dtype} = 4097.0
            f[j] = scaled(f[j] * T.cast(v, T.float32))
        T.copy(f, A[b * block])
"""


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE", "0")


def text(dtype="T.float32", factor=1):
    return KERNEL.format(dtype=dtype, factor=factor)


def module(path, content):
    """What Python makes of a file."""
    path.write_text(content)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    exec(compile(content, str(path), "exec"), vars(found))
    return found


def cell(content, name="<cell>"):
    """A notebook's cell: not in any file, and of the name that an earlier one had."""
    linecache.cache[name] = len(content), None, content.splitlines(True), name
    space = {"__name__": "notebook"}
    exec(compile(content, name, "exec"), space)
    return space["k"]


def out(kernel):
    a = np.ones(32, np.float32)
    kernel.compile(mt.spec((32,), "float32"), target="sm_80").simulate(a)
    return float(a[0])


def test_files_that_differ_in_a_local_annotation(tmp_path):
    """Their code objects are equal: byte code does not hold what local names are annotated with."""
    half, single = (module(tmp_path / f"{n}.py", text(f"T.{n}")).k for n in ("float16", "float32"))
    assert half.function.__code__ == single.function.__code__
    assert (out(half), out(single), out(half)) == (4096, 4097, 4096)


def test_a_cell_that_is_edited_and_run_again():
    first = cell(text("T.float16"))
    assert out(first) == 4096
    second = cell(text("T.float32"))
    assert out(second) == 4097
    third = cell(text("T.float32", 2))
    assert out(third) == 4097 * 2
    assert out(first) == 4096, "each has the text that it was made of"


def test_a_cell_is_edited_before_its_kernel_is_compiled():
    kernels = [cell(text("T.float16")), cell(text()), cell(text(factor=3))]
    assert [out(k) for k in kernels] == [4096, 4097, 3 * 4097]


def test_a_file_is_edited_while_its_kernel_is_in_use(tmp_path):
    old = module(tmp_path / "edited.py", text(factor=2))
    (tmp_path / "edited.py").write_text(text(factor=3) + "# longer\n")
    linecache.checkcache()
    assert out(old.k) == 2 * 4097, "its helper's, too"
    assert out(module(tmp_path / "edited.py", text(factor=5) + "# longer still\n").k) == 5 * 4097


def test_helpers_of_one_maker_are_told_apart():
    """They have one code object, and captured values of their own."""

    def maker(values):
        def helper(x):
            return x * values[0]

        return helper

    first, second = [2.0], [3.0]
    a, b = maker(first), maker(second)

    @mt.kernel
    def k(A: T.Tensor((32,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = a(A[i]) + b(A[i])

    def run():
        x = np.ones(32, np.float32)
        k(x)
        return x[0]

    assert run() == 5
    second[0] = 10.0
    assert run() == 12
    first[0] = 1.0
    assert run() == 11


@pytest.fixture
def left_alone():
    """What earlier tests keep, millions of objects, is not looked through."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("left_alone")
def test_what_is_kept_has_a_bound(tmp_path):
    functions = [module(tmp_path / f"m{n}.py", f"x = {n}\ndef f(): return {n}\n").f for n in range(100)]
    for f in functions:
        assert function_node(f).body[0].value.value == f()
    assert len(source._current) <= source.MOST_FILES
    assert source._functions.cache_info().currsize <= source.MOST_TREES
    for f in functions:
        source.remember(f)
    del functions, f
    gc.collect()
    kept = [o for o in gc.get_objects() if isinstance(o, Text) and o.file.startswith(str(tmp_path))]
    assert len(kept) <= source.MOST_FILES + source.MOST_TREES


def test_captured_values_of_long_ago_are_forgotten():
    """And those in use are not compiled anew."""
    from minitile.driver.jit import MOST_CAPTURED

    values = [1.0]

    @mt.kernel
    def k(A: T.Tensor((32,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = A[i] * values[0]

    x = np.ones(32, np.float32)
    for n in range(3 * MOST_CAPTURED):
        values[0] = float(n)
        assert k.executable(x) is k.executable(x)
    assert len(k._tables) == MOST_CAPTURED
    values[0] = 3.0
    x[:] = 1
    k(x)
    assert (x == 3).all()
