"""Several devices, streams and threads against a driver made of Python: each launch of a kernel goes to its arrays'
device and stream, with that device's module; tests/runtime/test_gpu.py has real streams."""

from __future__ import annotations

import ctypes
import threading

import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers
from tests.runtime.fake_cuda import FakeDriver


class Array:
    """A vector on a device, with the stream that its framework uses."""

    def __init__(self, pointer, n, device, stream):
        self.pointer, self.n, self.place = pointer, n, Place("cuda", device, lambda: stream)


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver([ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32])
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    monkeypatch.setitem(readers, Array, lambda x: (x.pointer, (x.n,), "f32", x.place, True))
    monkeypatch.setenv("MINITILE_CACHE", "0")
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()
    yield fake
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()


def make_kernel(monkeypatch):
    """A kernel whose code needs no assembler: the driver takes any image."""
    from minitile.backends.nvidia.program import PtxProgram

    monkeypatch.setattr(PtxProgram, "image", lambda self, device: b"\x7fELF" + str(device.index).encode())

    @mt.kernel(target="sm_90a")
    def copied(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
        with T.Kernel(T.ceildiv(A.shape[0], 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i]

    return copied


def arrays(device, stream, number=1, n=1000):
    return Array(4096 * number, n, device, stream), Array(1 << 30 | 4096 * number, n, device, stream)


def test_each_device_has_its_module_and_each_call_its_stream(driver, monkeypatch):
    kernel = make_kernel(monkeypatch)
    driver.stack = [1000]
    places = [(0, 0), (1, 0), (0, 77), (1, 99), (1, 77), (0, 0)]
    for device, stream in places:
        kernel(*arrays(device, stream))
    assert [(launch.context - 1000, launch.stream) for launch in driver.launches] == places
    assert driver.loads == [(1000, b"\x7fELF0"), (1001, b"\x7fELF1")]
    assert [launch.function for launch in driver.launches] == [1, 2, 1, 2, 2, 1]
    assert driver.stack == [1000], "the caller's context is current again"


def test_a_stream_may_change_between_calls_on_the_same_arrays(driver, monkeypatch):
    kernel, current = make_kernel(monkeypatch), [5]
    a, b = arrays(0, 0)
    a.place = b.place = Place("cuda", 0, lambda: current[0])
    kernel(a, b)
    current[0] = 6
    kernel(a, b)
    assert [launch.stream for launch in driver.launches] == [5, 6]


def test_arrays_of_two_devices_are_refused(driver, monkeypatch):
    kernel = make_kernel(monkeypatch)
    with pytest.raises(mt.MinitileError, match="A is on cuda:0, B on cuda:1: all tensors must be on one device"):
        kernel(arrays(0, 0)[0], arrays(1, 0)[1])
    assert driver.launches == []


def test_a_prepared_launch_takes_another_stream(driver, monkeypatch):
    prepared = make_kernel(monkeypatch).prepare(*arrays(1, 3))
    prepared()
    prepared(44)
    assert [(launch.context, launch.stream) for launch in driver.launches] == [(1001, 3), (1001, 44)]


def test_threads_on_two_devices_call_a_kernel_that_is_not_compiled_yet(driver, monkeypatch):
    """Each with a current context of its own, as the driver has it; what arrives belongs together. (No size is a
    multiple of 128, for which the kernel has no parameter.)"""
    own = threading.local()

    class Stack:
        """`driver.stack`, one for each thread."""

        def __getattr__(self, name):
            return getattr(vars(own).setdefault("stack", [0]), name)

        def __getitem__(self, at):
            return vars(own).setdefault("stack", [0])[at]

        def __setitem__(self, at, value):
            vars(own).setdefault("stack", [0])[at] = value

    driver.stack = Stack()
    kernel = make_kernel(monkeypatch)
    gate, failed = threading.Barrier(4), []

    def work(number):
        try:
            gate.wait()
            for turn in range(50):
                kernel(*arrays(number % 2, 100 + number, number, 1001 + 100 * number + 2 * turn))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(driver.launches) == 200
    for launch in driver.launches:
        number = launch.stream - 100
        pointer, other, n = launch.values
        assert (launch.context, pointer, other) == (1000 + number % 2, 4096 * number, 1 << 30 | 4096 * number)
        assert n // 100 == 10 + number
        assert launch.grid == (-(-n // 128), 1, 1)
