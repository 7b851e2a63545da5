"""k.save and mt.load: what is launched without the compiler is what the compiler's kernel launches."""

from __future__ import annotations

import ctypes
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers
from minitile.runtime.errors import ArgumentError, LaunchError
from minitile.runtime.saved import Saved, runs_on
from tests.runtime.fake_cuda import FakeDriver

ROOT = Path(__file__).parents[2]


@mt.kernel(target="sm_90a")
def scale(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32), f: T.float32, block=128):
    with T.Kernel(T.ceildiv(X.shape[0], block), threads=block) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] * f


TYPES = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int32]


class Array:
    def __init__(self, pointer, n=1000):
        self.pointer, self.n, self.place = pointer, n, Place("cuda", 0, lambda: 5)


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver(TYPES)
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    monkeypatch.setitem(readers, Array, lambda x: (x.pointer, (x.n,), "f32", x.place, True))
    for each in (cuda.device_info, cuda._primary_context):
        each.cache_clear()
    yield fake
    for each in (cuda.device_info, cuda._primary_context):
        each.cache_clear()


@pytest.fixture(scope="module")
def compiled():
    return scale.compile(target="sm_90a")


def what(launch):
    return launch.grid, launch.block, launch.shared, launch.values, launch.stream, launch.cluster


def test_a_launch_is_the_compilers(compiled, driver, tmp_path):
    path = tmp_path / "scale.kernel"
    compiled.save(path)
    loaded = mt.load(path)
    assert loaded.launch_info == compiled.launch_info
    x, y = Array(0x10000), Array(0x20000)
    compiled(x, y, 2.5)
    loaded(x, y, 2.5)
    loaded(x, f=2.5, Y=y)
    loaded.prepare(x, y, 2.5)()
    pickle.loads(pickle.dumps(loaded))(x, y, 2.5)
    assert len({what(launch) for launch in driver.launches}) == 1
    assert len(driver.launches) == 5
    assert len({image for _, image in driver.loads}) == 1
    assert driver.loads[0][1] == loaded.saved.images.get("cubin", loaded.saved.images["ptx"])


@mt.kernel(target="sm_90a")
def shifted(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32), by: T.float32 = np.float32(0.5)):  # noqa: B008
    with T.Kernel(T.ceildiv(X.shape[0], 128), threads=128) as bx:
        for i in T.Parallel(128):
            Y[bx * 128 + i] = X[bx * 128 + i] + by


def test_scalars_have_their_defaults(driver, tmp_path):
    compiled = shifted.compile(target="sm_90a")
    compiled.save(tmp_path / "k")
    loaded = mt.load(tmp_path / "k")
    x, y = Array(0x10000), Array(0x20000)
    for call in (compiled, loaded):
        call(x, y)
        call(x, Y=y)
        call(x, y, 0.5)
        call(x, y, by=2.0)
    loaded.prepare(x, y)()
    assert [launch.values[2] for launch in driver.launches] == [0.5, 0.5, 0.5, 2.0] * 2 + [0.5]
    with pytest.raises(ArgumentError, match=r"takes 3 arguments .*, and 1 are given"):
        loaded(x)
    with pytest.raises(ArgumentError, match="shifted takes X, Y, by; by name on are given"):
        loaded(x, y, on=2.0)


def test_arguments_are_checked(compiled, driver, tmp_path):
    compiled.save(tmp_path / "k")
    loaded = mt.load(str(tmp_path / "k"))
    for wrong, said in (
        ((Array(0x10000), Array(0x20004), 1.0), "compiled for address of Y divisible by 16"),
        ((Array(0x10000), Array(0x20000, 999), 1.0), "N is 1000 in X.shape"),
        ((Array(0x10000), Array(0x10010), 1.0), "X and Y overlap"),
        ((Array(0x10000), Array(0x20000)), "takes 3 arguments"),
    ):
        with pytest.raises(ArgumentError, match=said):
            loaded(*wrong)
    with pytest.raises(ArgumentError, match="scale takes X, Y, f; by name g are given"):
        loaded(Array(0x10000), Array(0x20000), g=1.0)
    assert repr(loaded) == "<minitile.LoadedKernel scale(X, Y, f) for sm_90a>"


@mt.kernel(target="sm_90a")
def doubled(X: T.Tensor(("N",), T.float32)):
    N = X.shape[0]
    Y = T.empty((2 * N,), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        for i in T.Parallel(64):
            Y[2 * (bx * 64 + i)] = X[bx * 64 + i]
    return Y


def test_results_are_passed_and_have_the_size_that_the_kernel_computes(driver, tmp_path):
    doubled.compile(target="sm_90a").save(tmp_path / "k")
    loaded = mt.load(tmp_path / "k")
    driver.parameters = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int32] * (len(loaded.launch_info.params) - 2)]
    loaded(Array(0x10000, 64), Array(0x20000, 128))
    assert len(driver.launches) == 1
    with pytest.raises(ArgumentError, match=r"compiled for result0_size0 = 2 \* N, but N is 64, result0_size0 is 127"):
        loaded(Array(0x10000, 64), Array(0x20000, 127))


def test_code_for_a_device():
    both = {"ptx": b".ptx", "cubin": b"\x7fELF"}

    def image(arch, capability, images=both):
        device = cuda.DeviceInfo(0, "GPU", capability, 0, 0)
        info = scale.compile(target="sm_80").launch_info
        return Saved("k", "cuda", arch, info, images)._image(device)

    assert image("sm_80", (8, 0)) == image("sm_80", (8, 6)) == b"\x7fELF"
    assert image("sm_89", (8, 0)) == image("sm_80", (9, 0)) == b".ptx"
    assert image("sm_90a", (9, 0)) == b"\x7fELF"
    assert image("sm_90a", (9, 0), {"ptx": b".ptx"}) == b".ptx"
    with pytest.raises(ArgumentError, match="k was compiled for sm_90a, and GPU is sm_100"):
        image("sm_90a", (10, 0))
    assert runs_on("sm_103a", (10, 3))
    assert not runs_on("sm_103a", (10, 0))


def test_code_for_amd(tmp_path):
    info = scale.compile(target="gfx942").launch_info
    Saved("scale", "rocm", "gfx942", info, {"hsaco": b"\x7fELF"}).write(tmp_path / "k")
    saved = mt.load(tmp_path / "k").saved
    from minitile.runtime.hip import DeviceInfo

    assert saved._code_object(DeviceInfo(0, "MI300X", "gfx942", 304)) == b"\x7fELF"
    with pytest.raises(ArgumentError, match="compiled for gfx942, and GPU 1 is gfx950"):
        saved._code_object(DeviceInfo(1, "MI355X", "gfx950", 256))


def test_what_is_no_saved_kernel(compiled, tmp_path):
    good, path = tmp_path / "good", tmp_path / "bad"
    compiled.save(good)
    with pytest.raises(FileNotFoundError):
        mt.load(path)

    def refused(said):
        with pytest.raises(LaunchError, match=said):
            mt.load(path)

    for data in (b"", b"PK", good.read_bytes()[:-30], b"\x7fELF" + bytes(100)):
        path.write_bytes(data)
        refused("is no saved kernel")

    def changed(**about):
        with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "kernel.json":
                    data = json.dumps({k: v for k, v in (json.loads(data) | about).items() if v is not None}).encode()
                new.writestr(name, data)

    changed()
    assert mt.load(path).launch_info == compiled.launch_info
    changed(format=2)
    refused("has the format 2, and this minitile reads 1")
    changed(launch=None)
    refused("is no saved kernel")
    changed(launch=[1])
    refused("is no saved kernel")
    changed(device="vulkan")
    refused("it has no code for a GPU")
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("kernel.json", json.dumps(json.loads(zipfile.ZipFile(good).read("kernel.json"))))
    refused("it has no code for a GPU")


ALONE = """
import sys
import minitile as mt
from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers
from tests.runtime.fake_cuda import FakeDriver
import ctypes
fake = FakeDriver([ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int32])
cuda.driver = cuda._ctypes_driver = lambda: fake
class Array:
    def __init__(self, pointer): self.pointer = pointer
readers[Array] = lambda x: (x.pointer, (1000,), "f32", Place("cuda"), True)
mt.load(sys.argv[1])(Array(4096), Array(65536), 2.0)
print(fake.launches[0].values)
print([n for n in sys.modules if n.startswith("minitile") and not n.startswith("minitile.runtime") and n != "minitile"])
print("numpy" in sys.modules)
"""


def test_without_the_compiler(compiled, tmp_path):
    compiled.save(tmp_path / "k")
    command = [sys.executable, "-c", ALONE, str(tmp_path / "k")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["(4096, 65536, 2.0, 1000)", "[]", "False"], done.stderr
