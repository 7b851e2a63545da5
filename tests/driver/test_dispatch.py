"""Executables and dispatch: NumPy to the simulator, the cubin from the cache, errors at the caller's line."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from minitile.backends.nvidia import program
from minitile.backends.nvidia.assemble import (
    AssembleError,
    AssembleOptions,
    AssemblerMissing,
    AssemblerWarning,
    assemble,
    by_driver,
)
from minitile.backends.nvidia.program import PtxProgram, assemble_cached, device_arch
from minitile.driver.dispatch import DeviceError, Dispatcher, Executable
from minitile.ir.diagnostics import LaunchArgumentError, MinitileError
from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers
from minitile.runtime.errors import UnavailableError
from minitile.runtime.launch_info import ScalarArg, TensorArg
from tests.runtime.fake_cuda import FakeDriver
from tests.runtime.vector_add import INFO, PTX


def add(arrays):
    a, b, c = arrays
    c[:] = a + b


def vectors(n=5):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)


def test_numpy_goes_to_the_simulator():
    a, b, c = vectors()
    Executable(INFO, PTX, simulate=add)(a, b, c)
    assert c.tolist() == [1, 2, 3, 4, 5]


def test_without_a_simulator():
    with pytest.raises(LaunchArgumentError, match="on the CPU"):
        Executable(INFO, PTX)(*vectors())


def test_errors_show_the_callers_line():
    a, b, _ = vectors()
    kernel = Executable(INFO, PTX, simulate=add)
    with pytest.raises(MinitileError) as caught:
        kernel(a, b, np.zeros(6, np.float32))
    assert isinstance(caught.value, LaunchArgumentError)
    assert "n is 5 in a.shape[0], but 6 in c.shape[0]" in str(caught.value)
    assert "    kernel(a, b, np.zeros(6, np.float32))\n            ^^^^^" in str(caught.value)
    assert caught.value.loc.file == __file__


def test_dispatch_by_facts():
    kept = {}

    def compile(place, facts, exact):
        return kept.setdefault((place.kind, facts), Executable(INFO, PTX, simulate=add))

    kernel = Dispatcher(INFO.args, [("divides", ("dim", "n"), 4), ("less", ("dim", "n"), 100)], compile)
    for n in (4, 5, 8, 9, 200):
        a, b, c = vectors(n)
        kernel(a, b, c)
        assert (c == a + b).all()
    assert list(kept) == [("cpu", (True, True)), ("cpu", (False, True)), ("cpu", (True, False))]
    assert kernel.executable(*vectors(8)) is kernel.executable(*vectors(12))


def test_dispatch_where_32_bits_do_not_hold():
    """One specialisation, and another compilation of it for numbers that the launch does not find to fit."""
    kept = {}

    def compile(place, facts, exact):
        fits = [] if exact else [("less", ("dim", "n"), 7), ("less", ("scalar", "k"), 3)]
        info = dataclasses.replace(INFO, args=args)
        made = Executable(info, PTX, simulate=lambda values: ran.append((facts, exact)), fits=fits)
        return kept.setdefault((facts, exact), made)

    args = (*(TensorArg(name, "f32", ("n",)) for name in ("a", "b", "c")), ScalarArg("k", "i32"))
    kernel = Dispatcher(args, [("divides", ("dim", "n"), 4)], compile)
    ran = []
    for n, k in ((4, 2), (4, 3), (8, 2), (5, 2), (6, 2)):
        kernel(*vectors(n), k)
    assert ran == [((n % 4 == 0,), n >= 7 or k >= 3) for n, k in ((4, 2), (4, 3), (8, 2), (5, 2), (6, 2))]


def test_a_specialisation_takes_its_own_slots():
    """One that knows a stride as a number has no slot for it."""
    taken = []
    strided = (TensorArg("a", "f32", ("n",), strides=("s",)), TensorArg("b", "f32", ("n",)), ScalarArg("k", "i32"))
    own = (TensorArg("a", "f32", ("n",), strides=(1,)), *strided[1:])
    launcher = SimpleNamespace(launch=lambda values, place: taken.append(values))
    executable = SimpleNamespace(info=dataclasses.replace(INFO, args=own), fits=None, launcher=launcher)
    kernel = Dispatcher(strided, [], lambda place, facts, exact: executable)
    for fits in (None, lambda values: (taken.append(values) or True,)):
        executable.fits = fits
        kernel._launch(Place("cuda", 0), ("cuda", 0))((256, 512, 5, 1, 7), Place("cuda", 0))
    assert taken == [(256, 512, 5, 7)] * 3


class OnGPU:
    pass


def test_no_driver_says_what_to_install(monkeypatch):
    def missing():
        raise UnavailableError("no CUDA driver", "install it")

    monkeypatch.setattr(cuda, "driver", missing)
    cuda._ctypes_driver.cache_clear()
    monkeypatch.setitem(readers, OnGPU, lambda _: (256, (5,), "f32", Place("cuda", 0), True))
    with pytest.raises(DeviceError, match="no CUDA driver") as caught:
        Executable(INFO, PTX)(OnGPU(), OnGPU(), OnGPU())
    assert caught.value.hint == "install it"


def test_device_arch():
    assert device_arch(PTX, "sm_90") == "sm_90"
    assert device_arch(PTX.replace(".target sm_80", ".target sm_90a"), "sm_90") == "sm_90a"


def test_cubins_are_cached(tmp_path, monkeypatch):
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    first = assemble_cached(PTX, "sm_80", AssembleOptions())

    def never(*_):
        raise AssertionError("assembled again")

    with monkeypatch.context() as patch:
        patch.setattr(program, "assemble", never)
        assert assemble_cached(PTX, "sm_80", AssembleOptions()) == first
        for other in ((PTX + "\n", "sm_80", AssembleOptions()), (PTX, "sm_90", AssembleOptions())):
            with pytest.raises(AssertionError, match="assembled again"):
                assemble_cached(*other)
        with pytest.raises(AssertionError, match="assembled again"):
            assemble_cached(PTX, "sm_80", AssembleOptions(opt_level=2))
    monkeypatch.setenv("MINITILE_CACHE", "0")
    monkeypatch.setattr(program, "assemble", never)
    with pytest.raises(AssertionError, match="assembled again"):
        assemble_cached(PTX, "sm_80", AssembleOptions())


def test_without_nvjitlink_the_driver_gets_the_ptx(monkeypatch):
    def missing(*_):
        raise AssemblerMissing("none")

    monkeypatch.setattr(program, "assemble_cached", missing)
    device = cuda.DeviceInfo(0, "x", (9, 0), 232448, 132)
    assert PtxProgram(PTX).image(device) == PTX.encode()


# Kernels that need a whole program ------------------------------------------------------------------------------------

ROLES = PTX.replace(".target sm_80", ".target sm_90a").replace(
    "    ret;", "    setmaxnreg.inc.sync.aligned.u32 208;\n    ret;"
)
SERIALISED = b"info : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized"


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """A GPU made of Python, arrays on it, and no ptxas."""
    fake = FakeDriver([ctypes.c_void_p] * 3 + [ctypes.c_int32])
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    monkeypatch.setitem(readers, OnGPU, lambda _: (256, (5,), "f32", Place("cuda", 0, lambda: 0), True))
    monkeypatch.setenv("MINITILE_PTXAS", "0")
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()
    yield fake
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()


def call(kernel):
    kernel(OnGPU(), OnGPU(), OnGPU())


def test_setmaxnreg_is_for_the_drivers_jit(driver):
    kernel = Executable(INFO, ROLES)
    call(kernel)
    call(kernel)
    assert driver.loads == [(1000, ROLES.encode())]
    assert driver.jit_options[0]["OPTIMIZATION_LEVEL"] == 4
    assert len(driver.launches) == 2
    ran = kernel.program.costs_on("sm_90a")
    assert (ran.registers, ran.honoured) == (40, True)
    assert kernel.program.cubins == {}, "no cubin was asked for"
    with pytest.warns(AssemblerWarning, match="'setmaxnreg' ignored"):
        assert kernel.program.assemble("sm_90a").cubin.startswith(b"\x7fELF")
    assert len(kernel.remarks) == 1


def test_other_texts_are_not(driver):
    kernel = Executable(INFO, PTX)
    call(kernel)
    ((_, image),) = driver.loads
    assert image == kernel.program.cubins["sm_90"].cubin
    assert kernel.program.costs_on("sm_90") is kernel.program.cubins["sm_90"]


def test_ptxas_does_for_setmaxnreg(driver, monkeypatch):
    class Ptxas:
        name = "ptxas 99.0"

        def honours(self, _):
            return True

    done = dataclasses.replace(assemble(PTX, "sm_80"), assembler="ptxas 99.0")
    monkeypatch.setattr(program, "assembler_for", lambda _: Ptxas())
    monkeypatch.setattr(program, "assemble", lambda *_: done)
    call(Executable(INFO, ROLES))
    assert driver.loads == [(1000, done.cubin)]


def test_what_the_jit_serialised_is_not_launched(driver, monkeypatch):
    driver.jit_says = SERIALISED
    for _ in range(2):
        with pytest.raises(AssembleError, match=r"the driver's JIT for sm_90a: \(C7511\) Potential"):
            call(Executable(INFO, ROLES))
        driver.jit_says = b""  # the driver remembers the text, and says nothing
    assert driver.launches == []
    monkeypatch.setenv("MINITILE_STRICT", "0")
    with pytest.warns(AssemblerWarning, match="C7511") as heard:
        call(Executable(INFO, ROLES))
    assert heard[0].filename == __file__
    assert len(driver.launches) == 1


def test_the_jits_options(driver):
    call(Executable(INFO, PtxProgram(ROLES, options=AssembleOptions(2, False, 128))))
    options = driver.jit_options[0]
    assert (options["OPTIMIZATION_LEVEL"], options["GENERATE_LINE_INFO"], options["MAX_REGISTERS"]) == (2, 0, 128)


def test_spills_are_warned_of_once(monkeypatch):
    monkeypatch.delenv("MINITILE_STRICT", raising=False)
    done = dataclasses.replace(by_driver("sm_80", 255, 64, 0, ""), spill_stores=64, spill_loads=32)
    monkeypatch.setattr(program, "assemble_cached", lambda *_: done)
    kernel = Executable(INFO, PTX)
    with pytest.warns(AssemblerWarning, match="64 bytes per thread of spill stores, 32 bytes of spill loads"):
        kernel.program.assemble("sm_80")
    with warnings.catch_warnings(action="error"):
        kernel.program.assemble("sm_80")
    assert len(kernel.remarks) == 1


def test_no_framework_is_imported():
    """In a process of its own: other tests may have imported one."""
    code = """if True:
        import sys, numpy
        from minitile.driver.dispatch import Executable
        from minitile.runtime.launch_info import LaunchInfo, TensorArg
        info = LaunchInfo("f", (TensorArg("a", "f32", ("n",)),), (), (1, 1, 1), (32, 1, 1))
        Executable(info, "", simulate=lambda arrays: None)(numpy.zeros(4, "f"))
        print(*{"torch", "cupy", "jax"} & set(sys.modules))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
