"""The launch path for AMD GPUs with hip-python, against a stand-in for the HIP runtime that is built here from
standin_hip.c: what arrives at hipModuleLaunchKernel, and on which device. Nothing runs on a GPU."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.assemble import link
from minitile.driver.dispatch import DeviceError
from minitile.ir.diagnostics import TargetError
from minitile.runtime import hip
from minitile.runtime.arrays import Place, find_reader, readers
from minitile.runtime.errors import ArgumentError, DriverError, UnavailableError
from minitile.runtime.launch_info import LaunchInfo, Param, ScalarArg, TensorArg
from minitile.target import parse_target
from minitile.tools import doctor

pytest.importorskip("hip")
CC = shutil.which("cc")
CACHED = (hip.driver, hip._ctypes_driver, hip.device_info)
needs_lld = pytest.mark.skipif(
    link.find_linker() is None, reason="no ld.lld here: apt-get install lld, or MINITILE_LLD"
)


class Launch(ctypes.Structure):
    """As standin_hip.c keeps it."""

    _fields_ = (
        ("function", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("kernarg", ctypes.c_ubyte * 512),
    )


class StandIn:
    """The stand-in library's variables."""

    def __init__(self, path: Path) -> None:
        self.built = ctypes.CDLL(str(path))

    def set(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.built, f"standin_{name}").value = value

    def get(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.built, f"standin_{name}").value

    def is_of(self, arch: str) -> None:
        (ctypes.c_char * 64).in_dll(self.built, "standin_arch").value = arch.encode()
        hip.device_info.cache_clear()

    def launches(self) -> list[Launch]:
        kept = (Launch * 64).in_dll(self.built, "standin_launch")
        return [kept[n] for n in range(self.get("launches"))]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """One for the whole process: hip-python loads a library once. Where it has looked for one in vain before, it asks
    for the mere name from then on, which the system's loader finds among the loaded libraries by their soname."""
    if CC is None:
        pytest.skip("no C compiler to build the stand-in with")
    if hip.loaded_libraries() and "standin" not in hip.loaded_libraries()[0]:
        pytest.skip("a real HIP runtime is in this process")
    folder = Path(os.environ.setdefault("STANDIN_HIP", str(tmp_path_factory.mktemp("standin"))))
    path = folder / "lib" / "libamdhip64.so"
    if not path.exists():
        path.parent.mkdir()
        source = Path(__file__).with_name("standin_hip.c")
        soname = f"-Wl,-soname,{path.name}"
        subprocess.run([CC, "-shared", "-fPIC", "-O1", soname, "-o", path, source], check=True)
    return path


@pytest.fixture
def standin(library, monkeypatch):
    monkeypatch.setenv("ROCM_PATH", str(library.parents[1]))
    for cached in CACHED:
        cached.cache_clear()
    found = StandIn(library)
    for name, value in {"devices": 2, "fail_launch": 0, "fail_init": 0, "loads": 0, "launches": 0}.items():
        found.set(name, value)
    found.is_of("gfx942:sramecc+:xnack-")
    found.built.hipSetDevice(0)
    monkeypatch.setitem(readers, Array, lambda x: (x.pointer, (x.n,), "f32", x.place, True))
    yield found
    found.set("fail_init", 1)  # for other tests there is no GPU
    for cached in CACHED:
        cached.cache_clear()


class Array:
    """A vector on a device, with a stream."""

    def __init__(self, pointer, n=1000, device=0, stream=0, kind="rocm"):
        self.pointer, self.n, self.place = pointer, n, Place(kind, device, lambda: stream)


INFO = LaunchInfo(
    entry="axpy",
    args=(
        TensorArg("x", "f32", ("n",)),
        TensorArg("y", "f32", ("n",)),
        ScalarArg("a", "bf16"),
        ScalarArg("flag", "bool"),
    ),
    params=(
        Param("flag", "bool", ("scalar", "flag")),
        Param("x", "pointer", ("pointer", "x")),
        Param("y", "pointer", ("pointer", "y")),
        Param("a", "bf16", ("scalar", "a")),
        Param("n", "i32", ("dim", "n")),
    ),
    grid=(("ceildiv", ("dim", "n"), 128), 1, 1),
    block=(128, 1, 1),
    dynamic_shared=65536,
    facts=(("divides", ("pointer", "x"), 16),),
)
PACKED = struct.Struct("<?7xQQH2xi")


def launcher(info=INFO, image=b"\x7fELF of a test"):
    return hip.Launcher(info, lambda device: image)


def test_what_arrives(standin):
    launcher()(Array(4096, stream=77), Array(8192), 1.5, True)
    (launch,) = standin.launches()
    assert (tuple(launch.grid), tuple(launch.block)) == ((8, 1, 1), (128, 1, 1))
    assert launch.stream == 77
    assert launch.shared == 0, "LDS is part of the code"
    assert launch.size == PACKED.size
    bits = int(np.float32(1.5).astype(ml_dtypes.bfloat16).view(np.uint16))
    assert PACKED.unpack(bytes(launch.kernarg[: launch.size])) == (True, 4096, 8192, bits, 1000)


def test_loaded_once_per_device_and_the_callers_device_stays(standin):
    kernel = launcher()
    for device in (0, 1, 0, 1):
        kernel(Array(4096, device=device), Array(8192, device=device), 1, False)
    assert standin.get("loads") == 2
    assert [launch.device for launch in standin.launches()] == [0, 1, 0, 1]
    assert int(hip.call("hipGetDevice")) == 0


def test_an_empty_grid_is_no_launch(standin):
    kernel = launcher()
    kernel(Array(0, n=0), Array(0, n=0), 1, False)
    kernel.prepare(Array(0, n=0), Array(0, n=0), 1, False)()
    assert standin.launches() == []


def test_prepared(standin):
    again = launcher().prepare(Array(4096, stream=9, device=1), Array(8192, device=1), 1, False)
    again()
    again(5)
    first, second = standin.launches()
    assert [first.stream, second.stream] == [9, 5]
    assert first.device == second.device == 1
    assert bytes(first.kernarg) == bytes(second.kernarg)
    assert PACKED.unpack(bytes(first.kernarg[: first.size])) == (False, 4096, 8192, 0x3F80, 1000)


def test_from_several_threads(standin):
    kernel = launcher()
    errors = []

    def work(device):
        try:
            for n in range(10):
                kernel(Array(4096, n=1000 + n, device=device), Array(8192, n=1000 + n, device=device), 1, False)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n % 2,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert standin.get("loads") == 2
    assert standin.get("launches") == 40


def test_facts(standin):
    with pytest.raises(
        ArgumentError, match="compiled for address of x divisible by 16, but the address of x is 0x1004"
    ):
        launcher()(Array(4100), Array(8192), 1, False)


def test_wrong_kind_of_device(standin):
    with pytest.raises(ArgumentError, match="a kernel for AMD GPUs cannot work on tensors on cuda:0"):
        launcher()(Array(4096, kind="cuda"), Array(8192, kind="cuda"), 1, False)


def test_what_does_not_fit(standin):
    with pytest.raises(ArgumentError, match=r"n = 2147483648 does not fit the parameter n \(i32\)"):
        launcher()(Array(4096, n=2**31), Array(8192, n=2**31), 1, False)


def test_a_grid_that_is_too_large(standin):
    standin.set("fail_launch", 1)
    info = dataclasses.replace(INFO, grid=(2**25, 1, 1))
    with pytest.raises(ArgumentError, match=r"fewer than 2\^32 threads in x"):
        launcher(info)(Array(4096), Array(8192), 1, False)


def test_hips_errors_carry_name_and_launch(standin):
    standin.set("fail_launch", 2)
    with pytest.raises(DriverError, match=r"launching axpy with grid \(8, 1, 1\).*hipErrorOutOfMemory") as caught:
        launcher()(Array(4096), Array(8192), 1, False)
    assert caught.value.code == "hipErrorOutOfMemory"


def test_code_that_is_refused(standin):
    with pytest.raises(DriverError, match="loading the code of axpy failed: hipErrorInvalidImage"):
        launcher(image=b"nothing")(Array(4096), Array(8192), 1, False)
    with pytest.raises(DriverError, match="finding the entry nowhere failed: hipErrorNotFound"):
        launcher(dataclasses.replace(INFO, entry="nowhere"))(Array(4096), Array(8192), 1, False)


def test_function_info(standin):
    assert launcher().function_info(Place("rocm", 1)) == hip.FunctionInfo(96, 0, 8192)


def test_no_device(standin):
    standin.set("fail_init", 1)
    hip.driver.cache_clear()
    with pytest.raises(UnavailableError, match="HIP finds no usable device"):
        launcher()
    assert not hip.available()


# the whole way -------------------------------------------------------------------------------------------------------


def double(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), s: T.float32):
    with T.Kernel(T.ceildiv(A.shape[0], 256), threads=64) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * s


def a_kernel():
    """A new one: a kernel keeps what it has compiled for a device."""
    return mt.kernel(double)


@needs_lld
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_kernel_is_called(standin, arch):
    """What the kernel's own metadata says of its arguments is where they arrive."""
    standin.is_of(f"{arch}:sramecc+:xnack-")
    kernel = a_kernel()
    kernel(Array(4096, stream=5), Array(8192), 2.5)
    kernel(Array(4096, n=1001), Array(8192, n=1001), 2.5)
    first, second = standin.launches()
    assert standin.get("loads") == 2, "one for sizes that 8 divides, one for others"
    compiled = kernel.compile(target=arch)
    params = compiled.launch_info.params
    at = {p.name: offset for p, offset in zip(params, hip.param_layout(params)[1], strict=True)}
    for launch, n in ((first, 1000), (second, 1001)):
        kernarg = bytes(launch.kernarg)
        assert struct.unpack_from("<QQ", kernarg, at["A"]) == (4096, 8192)
        assert struct.unpack_from("<f", kernarg, at["s"]) == (2.5,)
        assert struct.unpack_from("<i", kernarg, at["N"]) == (n,)
        assert tuple(launch.grid) == (4, 1, 1)
        assert launch.block[0] == 64
    assert first.stream == 5


def test_auto_asks_the_device(standin, monkeypatch):
    monkeypatch.delenv("MINITILE_TARGET", raising=False)
    monkeypatch.setattr("minitile.runtime.cuda.current_device_info", lambda: None)
    standin.is_of("gfx950")
    assert parse_target("auto").name == "gfx950"
    standin.is_of("gfx90a:sramecc+")
    with pytest.raises(TargetError, match="this GPU is gfx90a: minitile compiles for gfx942 and gfx950"):
        a_kernel()(Array(4096), Array(8192), 1.0)


def test_code_for_another_processor(standin):
    kernel = a_kernel().compile(target="gfx950")
    with pytest.raises(mt.MinitileError, match="double was compiled for gfx950, and GPU 0 is gfx942"):
        kernel(Array(4096, n=1024), Array(8192, n=1024), 1.0)
    with pytest.raises(mt.MinitileError, match="cannot work on tensors on cuda:0"):
        kernel(Array(4096, n=1024, kind="cuda"), Array(8192, n=1024, kind="cuda"), 1.0)


def test_without_hip(monkeypatch):
    def missing():
        raise UnavailableError("no HIP runtime: none", "get it")

    monkeypatch.setattr(hip, "driver", missing)
    hip._ctypes_driver.cache_clear()
    monkeypatch.setitem(readers, Array, lambda x: (x.pointer, (x.n,), "f32", x.place, True))
    kernel = a_kernel().compile(target="gfx950")
    with pytest.raises(DeviceError, match="no HIP runtime: none"):
        kernel(Array(4096, n=1024), Array(8192, n=1024), 1.0)


class Interface:
    """What says where it is by __cuda_array_interface__ only."""

    def __init__(self, pointer, stream):
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": (8,), "typestr": "<f4", "version": 3, "stream": stream,
        }  # fmt: skip


@pytest.mark.parametrize(("stream", "handle"), [(1, 0), (2, 2), (4242, 4242)])
def test_array_interface(standin, monkeypatch, stream, handle):
    monkeypatch.setattr("minitile.runtime.cuda.available", lambda: False)
    array = Interface((1 << 40) + 64, stream)
    place = find_reader(array)(array)[3]
    readers.pop(Interface, None)
    assert (place.kind, place.index, place.stream()) == ("rocm", 1, handle)


def test_the_doctor(standin):
    text = doctor.report()
    assert "7.0, 2 GPUs" in text
    assert "AMD GPU 1" in text
    assert "Stand-in GPU, gfx942, 304 compute units" in text


def test_the_doctor_without_hip(monkeypatch):
    def missing(*_):
        raise UnavailableError("no HIP runtime: none")

    monkeypatch.setattr(hip, "call", missing)
    assert "no HIP runtime: none; kernels run in the simulator" in doctor.report()


def test_import_brings_nothing_along():
    code = "import sys, minitile.runtime.hip; assert not {'hip', 'rocm', 'ctypes.util'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
