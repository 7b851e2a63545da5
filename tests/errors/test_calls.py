"""Calls whose arguments do not fit, arrays on other devices, and what is not installed."""

from __future__ import annotations

import builtins
import inspect

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia import assemblers
from minitile.backends.nvidia.assemble import AssemblerMissing
from minitile.driver import dispatch as launching
from minitile.driver import pipeline
from minitile.driver.dispatch import DeviceError
from minitile.ir.diagnostics import InternalError, LaunchArgumentError
from minitile.runtime import cuda, hip
from minitile.runtime.arrays import Place, readers
from minitile.runtime.errors import UnavailableError

a = np.arange(8, dtype=np.float32)


@mt.kernel
def double(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 256)) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * 2


@mt.kernel
def watched(A: T.Tensor(("N",), T.float32), limit: T.int32):
    with T.Kernel(1, threads=32):
        T.print(A[1], "A[1]")
        T.device_assert(A[1] < limit, "A[1] is too large")


class Elsewhere:
    """An array of eight f32 that claims to be on a device, at an address of its choice."""

    def __init__(self, kind="cuda", index=0, address=4096):
        self.reading = address, (8,), "f32", Place(kind, index), True


@pytest.fixture(autouse=True)
def readable(monkeypatch):
    monkeypatch.setitem(readers, Elsewhere, lambda array: array.reading)


def misaligned():
    memory = np.zeros(64, np.uint8)
    skip = 1 if memory.ctypes.data % 4 == 0 else 0
    return memory[skip : skip + 32].view(np.float32)


def read_only():
    array = np.zeros(8, np.float32)
    array.flags.writeable = False
    return array


def line_of(call):
    """The last line of a function: in these tests, the only one."""
    return inspect.getsource(call).splitlines()[-1].strip()


# Each of these is one line that a user could have written; its error shows that line.


def rank():
    double(a, a.reshape(2, 4))


def dtype():
    double(a, a.astype(np.float64))


def disagreeing_sizes():
    double(a, np.zeros(9, np.float32))


def gaps():
    double.compile(mt.spec(8, "float32"), mt.spec(8, "float32"))(a, np.zeros(16, np.float32)[::2])


def bytes_apart():
    double(a, misaligned())


def no_array():
    double(a, [1.0, 2.0])


def too_few():
    double(a)


def host_and_device():
    double(a, Elsewhere())


def two_devices():
    double(Elsewhere(), Elsewhere(index=1))


def one_place_for_all():
    double(a, as_strided(np.zeros(1, np.float32), (8,), (0,)))


def too_large_a_scalar():
    watched(a, 2**31)


def written_read_only():
    double(a, read_only())


CALLS = [
    (rank, ["B has rank 2, the kernel takes 1: B is (N,), called with (2, 4)"], ""),
    (dtype, ["B is f64, the kernel takes f32"], ".astype(dtype)"),
    (disagreeing_sizes, ["N is 8 in A.shape[0], but 9 in B.shape[0]"], ""),
    (gaps, ["B is not row-major without gaps (shape (8,)), as this kernel was compiled for"], "the kernel function"),
    (bytes_apart, ["B is misaligned: its address 0x", "no multiple of a f32's size"], "copy"),
    (no_array, ["B: list is no array that minitile knows"], "NumPy"),
    (too_few, ["the kernel double lacks the argument 'B'"], ""),
    (host_and_device, ["A is on cpu, B on cuda:0: all tensors must be on one device"], ""),
    (two_devices, ["A is on cuda:0, B on cuda:1: all tensors must be on one device"], ""),
    (too_large_a_scalar, ["limit = 2147483648 does not fit the parameter limit (i32)"], ""),
    (one_place_for_all, ["writes B, which has several elements in one place (a stride of 0)"], ".copy()"),
]


@pytest.mark.parametrize(("call", "texts", "hint"), CALLS, ids=[call.__name__ for call, _, _ in CALLS])
def test_arguments(shows, call, texts, hint):
    shows(call, LaunchArgumentError, line_of(call), texts, hint)


@mt.kernel
def add(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), C: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
        for i in T.Parallel(64):
            C[bx * 64 + i] = A[bx * 64 + i] + B[bx * 64 + i]


def test_read_only_results(shows):
    shows(written_read_only, LaunchArgumentError, line_of(written_read_only), ["double writes B", "read-only"], "copy")


def test_read_only_results_that_would_not_change(shows):
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    y.setflags(write=False)

    def call():
        add(x, x, y)

    shows(call, LaunchArgumentError, "add(x, x, y)", ["add writes C"], "copy")


def test_a_read_only_view_of_what_is_written(shows):
    """One array under two names: only the name that is written has to be writable."""
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    view = x.view()
    view.setflags(write=False)
    add(view, y, x)
    assert (x == 2).all()

    def call():
        add(x, y, view)

    shows(call, LaunchArgumentError, "add(x, y, view)", ["add writes C"], "copy")
    assert (x == 2).all()


def test_what_was_printed_before_a_trap_is_shown(shows, capsys):
    watched(a, 2)
    assert capsys.readouterr().out == "A[1]: 1.000000\n"

    def call():
        watched(a, 1)

    text = "trap: T.device_assert failed: A[1] is too large"
    shows(call, mt.SimulationError, 'T.device_assert(A[1] < limit, "A[1] is too large")', [text])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "A[1]: 1.000000"
    assert printed[1].startswith(f"assertion failed: A[1] is too large ({__file__}:")


def test_compiled_kernels_check_their_arguments(shows):
    compiled = double.compile(mt.spec(8, "float32"), mt.spec(8, "float32"), target="sm_80")

    def too_many():
        compiled(a, a, a)

    shows(too_many, LaunchArgumentError, line_of(too_many), ["takes 2 arguments (A, B), and 3 are given"])

    def too_few():
        compiled.simulate(a)

    shows(too_few, LaunchArgumentError, line_of(too_few), ["takes 2 arguments (A, B), and 1 are given"])

    def other_size():
        compiled(a[:7], a[:7])

    texts = ["compiled for N divisible by 8, but N is 7"]
    shows(other_size, LaunchArgumentError, line_of(other_size), texts, "call the kernel function itself")

    def on_a_gpu():
        compiled.simulate(Elsewhere(), Elsewhere())

    shows(on_a_gpu, LaunchArgumentError, line_of(on_a_gpu), ["not on tensors on cuda:0"], "copy them to the host")


def test_specs(shows):
    def unknown_dtype():
        mt.spec((8,), "float99")

    shows(unknown_dtype, mt.MinitileError, line_of(unknown_dtype), ["unknown dtype 'float99'"], "T.bfloat16")

    def count():
        double.compile(mt.spec(8, "float32"))

    shows(count, LaunchArgumentError, line_of(count), ["has 2 tensors, and 1 specs are given"])

    def two_sizes():
        double.compile(mt.spec(8, "float32"), mt.spec(9, "float32"))

    shows(two_sizes, LaunchArgumentError, line_of(two_sizes), ["has N = 8 from one spec and 9 from B"])


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)])
def test_zero_sizes_are_a_no_op(sizes):
    @mt.kernel
    def copy(A: T.Tensor(("M", "N"), T.float32), B: T.Tensor(("M", "N"), T.float32)):
        M, N = A.shape
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32)) as (bx, by):
            F = T.alloc_fragment((32, 32), T.float32)
            T.copy(A[by * 32, bx * 32], F)
            T.copy(F, B[by * 32, bx * 32])

    empty = np.zeros(sizes, np.float32)
    copy(empty, empty)
    report = copy.compile(empty, empty, target="sm_80").simulate(empty, empty)
    assert report.instructions == {}


def test_amd_tensors(shows, monkeypatch):
    def missing():
        raise UnavailableError("no HIP runtime: no library here", hip._INSTALL)

    monkeypatch.setattr(hip, "driver", missing)
    hip.device_info.cache_clear()

    def call():
        double(Elsewhere("rocm"), Elsewhere("rocm"))

    shows(call, DeviceError, line_of(call), ["no HIP runtime: no library here"], "hip-python")


def without_driver(monkeypatch):
    """The state of a process that has not met the driver yet."""
    monkeypatch.setattr(cuda, "driver", cuda.driver.__wrapped__)
    for cached in (cuda._ctypes_driver, cuda._primary_context, cuda.device_info):
        cached.cache_clear()


def without_modules(monkeypatch, *names):
    """Importing these packages fails, as where they are not installed."""
    real = builtins.__import__

    def find(name, *args, **kwargs):
        if name.split(".")[0] in names or any(f"{name}.{part}" in names for part in (args[2] or ())):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", find)


def on_gpu():
    double(Elsewhere(), Elsewhere())


def test_cuda_python_is_missing(shows, monkeypatch):
    without_driver(monkeypatch)
    without_modules(monkeypatch, "cuda")
    shows(on_gpu, DeviceError, line_of(on_gpu), ["cuda-python is not installed"], "pip install 'minitile[cuda]'")


def test_the_driver_is_missing(shows, monkeypatch):
    binding = pytest.importorskip("cuda.bindings.driver")

    def no_library(_):
        raise RuntimeError("cannot open shared object file: libcuda.so.1")

    without_driver(monkeypatch)
    monkeypatch.setattr(binding, "cuInit", no_library)
    texts = ["no CUDA driver: cannot open shared object file"]
    shows(on_gpu, DeviceError, line_of(on_gpu), texts, "the driver itself comes with NVIDIA's driver package")


def test_the_assembler_is_missing(shows, monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE", "0")
    monkeypatch.setenv("MINITILE_PTXAS", "0")
    monkeypatch.setattr(assemblers, "_loaded", None)
    without_modules(monkeypatch, "cuda")
    compiled = double.compile(target="sm_80")
    assert compiled.asm["ptx"].startswith(".version")  # needs nothing

    def binary():
        return compiled.binary

    shows(binary, AssemblerMissing, "return compiled.binary", ["nvJitLink"], "minitile[cuda]", "compiled.binary")


def test_a_bug_of_ours_says_so(monkeypatch):
    """What no rule foresaw is an InternalError that keeps its cause and names the kernel."""

    def broken(kernel, context):
        raise KeyError("nothing")

    monkeypatch.setattr(pipeline, "THREAD_PASSES", [("broken", broken)])
    with pytest.raises(InternalError) as caught:
        double.compile(target="sm_80")
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__traceback__.tb_next is not None
    assert "in double" in str(caught.value)
    assert "please report it" in str(caught.value)


def test_a_bug_in_the_simulator_says_so(monkeypatch):
    from minitile.runtime import sim

    def broken(*_, **__):
        raise AttributeError("nothing")

    monkeypatch.setattr(sim, "run_ptx", broken)
    with pytest.raises(InternalError, match="AttributeError: nothing") as caught:
        double(a, np.zeros(8, np.float32))
    assert "in double" in str(caught.value)


def test_frames_are_kept_on_request(monkeypatch):
    monkeypatch.setenv("MINITILE_TRACEBACK", "1")
    with pytest.raises(LaunchArgumentError) as caught:
        rank()
    files = []
    trace = caught.value.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert launching.__file__ in files


def test_races_show_the_statement(shows):
    @mt.kernel
    def racy(B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=64):
            B[0] = T.get_thread_binding()

    one = np.zeros(1, np.int32)
    texts = ["missing_barrier (WAW)", "thread (0, 0, 0)", "thread (63, 0, 0)"]
    shows(lambda: racy(one), mt.RaceError, "B[0] = T.get_thread_binding()", texts)
