"""Kernels and compiled kernels that are copied, pickled, and sent to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.pickles import _of_function
from minitile.ir.types import DTYPES, PACKED


def twice(x):
    return x * 2


@mt.kernel(target="sm_80")
def double(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), None), block=64):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = twice(A[bx * block + i])


@dataclass
class Scaled:
    factor: float

    @mt.kernel(target="sm_80")
    def run(self, A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * self.factor


@mt.autotune(configs=[{"block": 64}])
@mt.kernel(target="sm_80")
def tuned(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), block=32):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * 2


def again(x):
    return pickle.loads(pickle.dumps(x))


def doubles(kernel, factor=2):
    a, b = np.arange(100, dtype=np.float32), np.full(100, np.nan, np.float32)
    kernel(a, b)
    return bool((b == a * factor).all())


def described(target="sm_80", **named):
    return double.compile(mt.spec("N", "float32"), mt.spec(("N",), "float32"), target=target, **named)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, again], ids=["copy", "deepcopy", "pickle"])
def test_a_kernel_is_itself(way):
    assert way(double) is double
    assert way({"k": [tuned.kernel]})["k"][0] is tuned.kernel


def test_a_kernel_that_tunes_itself():
    there = again(tuned)
    assert there.kernel is tuned.kernel
    assert (there.configs, there.options) == (tuned.configs, tuned.options)


def test_what_is_made_of_a_kernel_takes_along_what_differs():
    made = again(double.configured(block=32))
    assert made is not double
    assert made.function is double.function
    assert made._parameters["block"].default == 32
    assert doubles(made)
    assert made.target == double.target


def test_a_method_is_its_objects():
    three = Scaled(0.0)
    for way in (again, copy.deepcopy):
        three.factor = 3.0
        method = way(three.run)
        assert doubles(method, 3)
        three.factor = 7.0  # the copy is another object's
        assert doubles(method, 3)
    held = [three, three.run]
    one, method = copy.deepcopy(held)
    one.factor = 5.0
    assert doubles(method, 5)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
def test_a_compiled_kernel(target):
    compiled = described(target)
    for way in (copy.copy, copy.deepcopy):
        assert way(compiled) is compiled
    there = again(compiled)
    assert doubles(there)
    assert there.launch_info == compiled.launch_info
    assert there.text == compiled.text
    assert there.notes == compiled.notes
    assert there.asm["tile_ir"] == compiled.asm["tile_ir"]
    assert there.timings["passes"] == compiled.timings["passes"]  # and not compiled again


def test_an_assembled_one_takes_its_cubin_along(monkeypatch):
    compiled = described()
    binary = compiled.binary
    data = pickle.dumps(compiled)
    monkeypatch.setattr("minitile.backends.nvidia.program.assemble_cached", None)
    assert pickle.loads(data).binary == binary
    assert pickle.loads(data).registers == compiled.registers


def test_dtypes_are_the_same_objects():
    for dtype in (*DTYPES.values(), *PACKED.values()):
        assert again(dtype) is dtype
        assert copy.deepcopy(dtype) is dtype


def test_in_a_process_that_is_spawned():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        sent = [double, double.configured(block=32), Scaled(2.0).run, described()]
        assert pool.map(doubles, sent) == [True] * 4


def test_a_kernel_without_a_name_needs_a_pickler_that_takes_functions():
    @mt.kernel(target="sm_80")
    def local(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = twice(A[bx * 64 + i])

    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        pickle.dumps(local)
    make, (function, sources, *rest) = local.__reduce__()
    assert make is _of_function
    assert {f.__name__ for f, _, _ in sources} == {"local", "twice"}
    assert function is local.function
    assert doubles(make(function, sources, *rest))


def test_with_cloudpickle_where_the_source_is_not(tmp_path):
    cloudpickle = pytest.importorskip("cloudpickle")
    path = tmp_path / "made.py"
    path.write_text(
        textwrap.dedent("""
        import minitile as mt, minitile.language as T
        def helper(x):
            return x + x
        def make():
            @mt.kernel(target="sm_80")
            def local(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
                with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
                    for i in T.Parallel(64):
                        B[bx * 64 + i] = helper(A[bx * 64 + i])
            return local
        """)
    )
    scope = {"__name__": "made_elsewhere"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    data = cloudpickle.dumps(scope["make"]())
    path.unlink()
    code = (
        "import pickle, sys, numpy as np; k = pickle.load(sys.stdin.buffer); a = np.ones(9, np.float32); b = a * 0; "
        "k(a, b); print(b.sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
    assert done.stdout.split() == [b"18.0"], done.stderr.decode()
