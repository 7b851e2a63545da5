"""The launch path against a driver made of Python: what arrives at cuLaunchKernelEx, and in which context."""

from __future__ import annotations

import ctypes
import json
import struct
import threading

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers
from minitile.runtime.errors import ArgumentError, DriverError, LaunchError
from minitile.runtime.launch_info import LaunchInfo, Param, ScalarArg, TensorArg, Window
from tests.runtime.fake_cuda import FakeDriver

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
TYPES = [ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint16, ctypes.c_int32]


class Array:
    """A vector on a device, with a stream."""

    def __init__(self, pointer, n=1000, device=0, stream=0):
        self.pointer, self.n, self.place = pointer, n, Place("cuda", device, lambda: stream)


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver(TYPES)
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    monkeypatch.setitem(readers, Array, lambda x: (x.pointer, (x.n,), "f32", x.place, True))
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()
    yield fake
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()


def launcher(info=INFO):
    return cuda.Launcher(info, lambda device: device.arch.encode())


def test_what_arrives(driver):
    launcher()(Array(4096, stream=77), Array(8192), 1.5, True)
    (launch,) = driver.launches
    assert launch.grid == (8, 1, 1)
    assert launch.block == (128, 1, 1)
    assert launch.shared == 65536
    assert launch.stream == 77
    assert launch.cluster is None
    bits = int(np.float32(1.5).astype(ml_dtypes.bfloat16).view(np.uint16))
    assert launch.values == (True, 4096, 8192, bits, 1000)
    assert driver.shared_limits == {launch.function: 65536}


def test_loaded_once_per_context(driver):
    kernel = launcher()
    for device in (0, 1, 0, 1):
        kernel(Array(4096, device=device), Array(8192, device=device), 1, False)
    assert driver.loads == [(1000, b"sm_90"), (1001, b"sm_90")]
    assert [launch.context for launch in driver.launches] == [1000, 1001, 1000, 1001]
    assert driver.stack == [1000], "the caller's context is as before"


def test_the_callers_own_context_is_used(driver):
    driver.stack = [5000]
    launcher()(Array(4096), Array(8192), 1, False)
    assert driver.launches[0].context == 5000


def test_cluster(driver):
    info = LaunchInfo(**{**{f: getattr(INFO, f) for f in INFO.__slots__}, "cluster": (2, 1, 1)})
    launcher(info)(Array(4096), Array(8192), 1, False)
    assert driver.launches[0].cluster == (2, 1, 1)


def test_large_clusters_are_asked_for_once(driver):
    """Of more than 8 blocks: CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, and whether they fit."""
    for cluster in ((8, 1, 1), (8, 2, 1)):
        info = LaunchInfo(**{**{f: getattr(INFO, f) for f in INFO.__slots__}, "cluster": cluster, "grid": (8, 2, 1)})
        kernel = launcher(info)
        kernel(Array(4096), Array(8192), 1, False)
        kernel(Array(4096), Array(8192), 1, False)
    assert driver.large_clusters == {driver.launches[-1].function: 1}
    assert driver.asked == [((8, 2, 1), (128, 1, 1), (8, 2, 1))]


def test_large_clusters_without_room(driver):
    driver.fitting = 0
    info = LaunchInfo(**{**{f: getattr(INFO, f) for f in INFO.__slots__}, "cluster": (16, 1, 1), "grid": (16, 1, 1)})
    with pytest.raises(LaunchError, match=r"clusters of 16 blocks, for which Fake GPU has no room(.|\n)*up to 8"):
        launcher(info)(Array(4096), Array(8192), 1, False)
    assert driver.launches == []


def test_a_window_of_l2(driver):
    """CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW is 1: address, bytes, ratio, hits persist (2), misses stream (1)."""
    window = Window(("pointer", "y"), ("mul", 4, ("dim", "n")), 0.75)
    changed = {"cluster": (2, 1, 1), "early": True, "window": window}
    info = LaunchInfo(**{**{f: getattr(INFO, f) for f in INFO.__slots__}, **changed})
    assert LaunchInfo.from_json(json.loads(json.dumps(info.to_json()))) == info
    cuda.largest_window.cache_clear()
    kernel = launcher(info)
    kernel(Array(4096), Array(8192), 1, False)
    kernel(Array(4096), Array(16384, n=1000), 1, False)
    kernel.prepare(Array(1 << 30, n=1 << 20), Array(1 << 31, n=1 << 20), 1, False)()
    found = [struct.unpack("<QQfii36x", launch.attributes[1]) for launch in driver.launches]
    assert found == [(8192, 4000, 0.75, 2, 1), (16384, 4000, 0.75, 2, 1), (1 << 31, 1 << 20, 0.75, 2, 1)]
    assert [list(launch.attributes) for launch in driver.launches] == [[1, 4, 6]] * 3
    assert set(driver.limits.values()) == {1 << 24}, "as much as the device allows"
    driver.limits = dict.fromkeys(driver.limits, 4096)
    launcher(info)(Array(4096), Array(8192), 1, False)
    assert set(driver.limits.values()) == {4096}, "the caller's own choice stays"


def test_a_cooperative_launch(driver):
    """CU_LAUNCH_ATTRIBUTE_COOPERATIVE is 2, its value an int; a grid that does not fit at once has its own error."""
    info = LaunchInfo(**{**{f: getattr(INFO, f) for f in INFO.__slots__}, "cooperative": True})
    assert LaunchInfo.from_json(json.loads(json.dumps(info.to_json()))) == info
    kernel = launcher(info)
    kernel(Array(4096), Array(8192), 1, False)
    assert {n: int.from_bytes(v[:4], "little") for n, v in driver.launches[-1].attributes.items()} == {2: 1}
    driver.fail_launch = 720
    with pytest.raises(ArgumentError, match=r"T\.sync_grid(.|\n)*at the same time"):
        kernel(Array(4096), Array(8192), 1, False)


def test_a_kernel_that_waits_by_itself_may_start_early(driver):
    """CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION is 6, its value an int; it comes behind a cluster."""
    for cluster, ids in (((1, 1, 1), [6]), ((2, 1, 1), [4, 6])):
        changed = {"cluster": cluster, "early": True}
        info = LaunchInfo(**{**{f: getattr(INFO, f) for f in INFO.__slots__}, **changed})
        assert LaunchInfo.from_json(info.to_json()) == info
        launcher(info)(Array(4096), Array(8192), 1, False)
        found = driver.launches[-1].attributes
        assert list(found) == ids
        assert int.from_bytes(found[6][:4], "little") == 1
    launcher()(Array(4096), Array(8192), 1, False)
    assert driver.launches[-1].attributes == {}


def test_an_empty_grid_is_no_launch(driver):
    kernel = launcher()
    kernel(Array(0, n=0), Array(0, n=0), 1, False)
    kernel.prepare(Array(0, n=0), Array(0, n=0), 1, False)()
    assert driver.launches == []


def test_prepared(driver):
    again = launcher().prepare(Array(4096, stream=9), Array(8192), 1, False)
    again()
    again(5)
    assert [launch.stream for launch in driver.launches] == [9, 5]
    assert driver.launches[0].values == driver.launches[1].values == (False, 4096, 8192, 0x3F80, 1000)


def test_facts(driver):
    with pytest.raises(
        ArgumentError, match="compiled for address of x divisible by 16, but the address of x is 0x1004"
    ):
        launcher()(Array(4100), Array(8192), 1, False)


def test_wrong_kind_of_device(driver):
    readers[Array] = lambda x: (x.pointer, (x.n,), "f32", Place("rocm", 0), True)
    with pytest.raises(ArgumentError, match="cannot work on tensors on rocm:0"):
        launcher()(Array(4096), Array(8192), 1, False)


def test_what_does_not_fit(driver):
    with pytest.raises(ArgumentError, match=r"n = 2147483648 does not fit the parameter n \(i32\)"):
        launcher()(Array(4096, n=2**31), Array(8192, n=2**31), 1, False)


def test_driver_errors_carry_name_and_launch(driver):
    driver.fail_launch = 1
    with pytest.raises(DriverError, match=r"launching axpy with grid \(8, 1, 1\).*CUDA_ERROR_INVALID_VALUE") as caught:
        launcher()(Array(4096), Array(8192), 1, False)
    assert caught.value.code == "CUDA_ERROR_INVALID_VALUE"


def test_load_errors_carry_the_drivers_log(driver):
    driver.fail_load = b"ptxas: no such instruction"
    with pytest.raises(DriverError, match=r"loading the code of axpy.*\nptxas: no such instruction"):
        launcher()(Array(4096), Array(8192), 1, False)


def test_ptx_is_compiled_by_the_driver(driver):
    driver.jit_says = b"info : used 40 registers"
    heard = []
    kernel = cuda.Launcher(INFO, lambda _: b"text", cuda.JitOptions(2, False, 64), lambda *what: heard.append(what))
    x = Array(4096)
    for _ in range(2):
        kernel(x, Array(8192), 1, False)
    (options,) = driver.jit_options
    assert (options["OPTIMIZATION_LEVEL"], options["GENERATE_LINE_INFO"], options["MAX_REGISTERS"]) == (2, 0, 64)
    assert options["LOG_VERBOSE"] == 1
    assert options["INFO_LOG_BUFFER_SIZE_BYTES"] == len(options["INFO_LOG_BUFFER"])
    assert heard == [(cuda.device_info(0), cuda.FunctionInfo(40, 0, 0), "info : used 40 registers")]
    assert kernel.jit_log(x.place) == "info : used 40 registers"


def test_a_cubin_has_no_jit_log(driver):
    driver.jit_says = b"unused"
    heard = []
    kernel = cuda.Launcher(INFO, lambda _: b"\x7fELF cubin", compiled=lambda *what: heard.append(what))
    kernel(Array(4096), Array(8192), 1, False)
    assert driver.loads == [(1000, b"\x7fELF cubin")]
    assert "OPTIMIZATION_LEVEL" not in driver.jit_options[0]
    assert heard == []
    assert kernel.jit_log(Place("cuda", 0)) == ""


def test_a_launcher_of_ptx_text(driver):
    kernel = cuda.Launcher.of_ptx(INFO, "any text")
    kernel.prepare(Array(4096), Array(8192), 1, False)()
    assert driver.loads == [(1000, b"any text")]
    assert driver.jit_options[0]["OPTIMIZATION_LEVEL"] == 4
    assert len(driver.launches) == 1


def test_threads_do_not_share_a_frame(driver):
    kernel = launcher()
    kernel(Array(4096), Array(8192), 1, False)

    def work(i):
        for _ in range(200):
            kernel(Array(4096 * i, n=i), Array(8192 * i, n=i), i, False)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launches) == 801
    for launch in driver.launches[1:]:
        assert launch.values[1] == 4096 * launch.values[4]
        assert launch.values[2] == 8192 * launch.values[4]
