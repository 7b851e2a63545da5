"""Threads, forks and processes around one kernel: the first one compiles, none gets another one's result, and
no lock that a fork copies is held in the child."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.layout.lazy import cached_property

ROOT = Path(__file__).parents[2]
THREADS = 6
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)  # that is the test


def make_kernel():
    @mt.kernel
    def shifted(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), by: T.float32, factor=1):
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * factor + by

    return shifted


def together(work, count=THREADS):
    """work(0), work(1), … in threads that start at the same moment; raises what one of them raises."""
    gate = threading.Barrier(count)

    def start(number):
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def call(kernel, number, n=40, **constants):
    a = np.arange(n, dtype=np.float32)
    b = np.full_like(a, np.nan)
    kernel(a, b, number, **constants)
    np.testing.assert_array_equal(b, a * constants.get("factor", 1) + number)


def test_threads_call_a_kernel_that_is_not_compiled_yet():
    kernel = make_kernel()
    together(lambda number: call(kernel, number))


def test_threads_call_different_specialisations():
    """By compile-time parameters and by what the sizes are divisible by."""
    kernel = make_kernel()
    together(lambda number: call(kernel, number, n=32 + number, factor=number + 1))


def test_threads_compile_for_different_targets():
    """Each of them the text that it gets when it compiles alone."""
    targets = ("sm_80", "sm_90a", "gfx942") * 2

    def text(number):
        return list(make_kernel().compile(target=targets[number]).asm.values())[-1]

    alone = [text(number) for number in range(3)]
    assert together(text) == alone * 2


def test_an_error_in_one_thread_leaves_the_others_alone():
    kernel = make_kernel()

    def work(number):
        if number % 2:
            with pytest.raises(mt.MinitileError, match=r"N is 4 in A\.shape\[0\], but 3 in B\.shape\[0\]"):
                kernel(np.zeros(4, np.float32), np.zeros(3, np.float32), 0)
        else:
            call(kernel, number)

    together(work)


def in_child(work, seconds=60):
    """Runs work() in a forked process; its exit code, None where it hangs."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(seconds)
    if child.exitcode is None:
        child.kill()
    return child.exitcode


@FORK
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_fork_behind_a_compilation(target):
    """gfx942: the parent has a helper process that runs LLVM, of which the child makes one of its own."""
    kernel = make_kernel()
    before = kernel.compile(target=target).text

    def child():
        assert kernel.compile(target=target).text == before
        assert kernel.compile(target=target, factor=3).text != before
        call(kernel, 5)

    assert in_child(child) == 0
    assert kernel.compile(target=target).text == before


@FORK
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_fork_while_another_thread_compiles(target, monkeypatch):
    """Whatever is locked at that moment is free in the child, where the thread that would free it is not."""
    monkeypatch.setenv("MINITILE_CACHE", "0")
    kernel = make_kernel()
    kernel.compile(target=target)
    stop = threading.Event()

    def busy():
        factors = itertools.count(2)
        while not stop.is_set():
            kernel.compile(target=target, factor=next(factors))
        return next(factors)

    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(busy)
        try:
            codes = [in_child(lambda: call(kernel, 1) or kernel.compile(target=target)) for _ in range(3)]
        finally:
            stop.set()
        assert compiled.result() > 2
    assert codes == [0, 0, 0]


@FORK
@pytest.mark.parametrize("module", ["minitile.ir.depth", "minitile.language.tracing.source"])
def test_a_fork_finds_locks_free(module):
    """Another thread holds the lock when the fork is asked for."""
    lock = importlib.import_module(module)._lock
    make_kernel().compile(target="sm_80")
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert in_child(lambda: make_kernel().compile(target="sm_80"), seconds=20) == 0
    thread.join()
    assert not lock.locked()


def test_lazy_values_of_different_objects_do_not_wait_for_each_other():
    """So nothing of theirs can be taken when a fork happens."""

    class Slow:
        def __init__(self, gate):
            self.gate = gate

        @cached_property
        def value(self):
            """Ten of them."""
            return self.gate.wait(10)

    slow, quick = Slow(threading.Event()), Slow(threading.Event())
    quick.gate.set()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: slow.value)
        assert pool.submit(lambda: quick.value).result(timeout=5) is True
        slow.gate.set()
        assert first.result() is True
    assert vars(slow)["value"] is True
    assert Slow.value.__doc__ == "Ten of them."


PROCESS = """
import sys
import minitile as mt
import minitile.language as T

@mt.kernel
def shifted(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), factor=1):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = A[bx * 64 + i] * factor

for factor in range(1, 4):
    print(hash(shifted.compile(target="gfx942", factor=factor).text))
"""


def test_processes_share_a_cache(tmp_path):
    """Three at once on an empty cache, and one on what they have left: all have the same texts."""
    path = tmp_path / "program.py"
    path.write_text(PROCESS)
    environment = {**os.environ, "MINITILE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONHASHSEED": "0"}
    environment["PYTHONPATH"] = str(ROOT)

    def start():
        return subprocess.Popen([sys.executable, str(path)], env=environment, stdout=subprocess.PIPE, text=True)

    running = [start() for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in running]
    files = sorted(p for p in (tmp_path / "cache").rglob("*") if p.is_file())
    last = start()
    said.append(last.communicate(timeout=120)[0])
    assert [process.returncode for process in (*running, last)] == [0] * 4
    assert len(set(said)) == 1
    assert len(said[0].split()) == 3
    assert len(set(said[0].split())) == 3
    assert len(files) >= 3
    assert sorted(p for p in (tmp_path / "cache").rglob("*") if p.is_file()) == files, "the last one found everything"
