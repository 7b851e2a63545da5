"""Tensor maps: what reaches cuTensorMapEncodeTiled and the launch, what is kept, and TMA's rules by name."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace

import pytest

from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers
from minitile.runtime.errors import ArgumentError, DriverError
from minitile.runtime.launch_info import LaunchInfo, Param, TensorArg, TensorMapParam, param_layout
from tests.runtime.fake_cuda import FakeDriver

M, K = ("dim", "M"), ("dim", "K")
MAP = TensorMapParam("tA", "A", "bf16", (M, K), (K,), (128, 64), swizzle=128)
INFO = LaunchInfo(
    entry="copy",
    args=(TensorArg("A", "bf16", ("M", "K")), TensorArg("C", "bf16", ("M", "K"))),
    params=(
        Param("M", "i32", M),
        MAP,
        Param("flag", "i8", 3),
        replace(MAP, name="tC", tensor="C", swizzle=0, fill="nan"),
    ),
    grid=(("ceildiv", M, 128), 1, 1),
    block=(128, 1, 1),
)
TYPES = [ctypes.c_int32, ctypes.c_uint8 * 128, ctypes.c_int8, ctypes.c_uint8 * 128]


class Matrix:
    def __init__(self, pointer, shape=(256, 512), device=0):
        self.pointer, self.shape, self.place = pointer, shape, Place("cuda", device)


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver(TYPES)
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    monkeypatch.setitem(readers, Matrix, lambda x: (x.pointer, x.shape, "bf16", x.place, True))
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()
    yield fake
    cuda.device_info.cache_clear()
    cuda._primary_context.cache_clear()


def launcher(*params):
    return cuda.Launcher(replace(INFO, params=params or INFO.params), lambda _: b"")


def test_what_the_driver_is_asked(driver):
    launcher()(Matrix(4096), Matrix(8192))
    a, c = driver.maps
    assert vars(a) == {
        "dtype": 9,
        "address": 4096,
        "dims": (512, 256),
        "strides": (1024,),
        "box": (64, 128),
        "steps": (1, 1),
        "swizzle": 3,
        "l2_promotion": 2,
        "fill": 0,
    }
    assert (c.address, c.swizzle, c.fill) == (8192, 0, 1)


def test_what_the_kernel_gets(driver):
    launcher()(Matrix(4096), Matrix(8192))
    (launch,) = driver.launches
    assert launch.values == (256, bytes([1]) * 128, 3, bytes([2]) * 128)
    assert launch.addresses[1] % 64 == 0
    assert launch.addresses[3] % 64 == 0


def test_a_repeated_call_encodes_nothing(driver):
    kernel = launcher()
    for _ in range(3):
        kernel(Matrix(4096), Matrix(8192))
    assert len(driver.maps) == 2
    kernel(Matrix(4096), Matrix(16384))
    assert [m.address for m in driver.maps] == [4096, 8192, 16384]
    kernel(Matrix(4096, (256, 1024)), Matrix(8192, (256, 1024)))
    assert [m.strides for m in driver.maps[3:]] == [(2048,), (2048,)]
    kernel(Matrix(4096), Matrix(8192))
    assert len(driver.maps) == 5
    assert driver.launches[-1].values == driver.launches[0].values


def test_the_store_of_maps_is_bounded(driver):
    kernel = launcher()
    for i in range(1, 1500):
        kernel(Matrix(4096), Matrix(4096 * i))
        assert driver.launches[-1].values[3] == bytes([len(driver.maps) % 256]) * 128
    before = len(driver.maps)
    kernel(Matrix(4096), Matrix(4096))
    assert len(driver.maps) == before + 1, "the oldest are gone"


def test_prepared_holds_its_maps(driver):
    again = launcher().prepare(Matrix(4096), Matrix(8192))
    again()
    again(7)
    assert len(driver.maps) == 2
    assert [launch.values[1] for launch in driver.launches] == [bytes([1]) * 128] * 2


def test_dimensions_are_expressions(driver):
    halves = replace(MAP, dims=(("floordiv", K, 64), M, 64), strides=(64, K), box=(1, 128, 64))
    launcher(INFO.params[0], halves, *INFO.params[2:])(Matrix(4096), Matrix(8192))
    assert (driver.maps[0].dims, driver.maps[0].strides) == ((64, 256, 8), (1024, 128))
    assert driver.maps[0].box == (64, 128, 1)


def test_an_empty_tensor_has_the_map_of_one_zero(driver):
    launcher()(Matrix(0, (256, 0)), Matrix(0, (256, 0)))
    ours, others = driver.maps
    assert (ours.dims, ours.strides, ours.box) == ((1, 1), (16,), MAP.box[::-1])
    assert ours.address != others.address, "what is stored by one map is not loaded by another"
    assert ctypes.string_at(ours.address, 16) == bytes(16)


def test_the_layout_of_parameters():
    form, offsets = param_layout(INFO.params, start=56)
    assert offsets == (56, 64, 192, 256)
    assert form == "i4x128sb63x128s"


def test_json():
    assert LaunchInfo.from_json(json.loads(json.dumps(INFO.to_json()))) == INFO


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dims": (M, 1, 1, 1, 1, K)}, "6 dimensions; TMA takes 1 to 5"),
        ({"box": (128, 64, 1)}, "2 dimensions want a box of 2 and 1 strides, not 3 and 1"),
        ({"strides": ()}, "2 dimensions want a box of 2 and 1 strides, not 2 and 0"),
        ({"dtype": "e2m1"}, "TMA has no elements of type e2m1"),
        ({"box": (257, 64)}, r"its box is \(257, 64\); each extent must be from 1 to 256"),
        ({"box": (0, 64)}, "each extent must be from 1 to 256"),
        ({"box": (128, 4)}, "its box is 8 bytes wide, which must be a multiple of 16"),
        ({"box": (128, 128)}, "its box is 256 bytes wide; the 128-byte swizzle allows 128"),
        ({"swizzle": 32}, "its box is 128 bytes wide; the 32-byte swizzle allows 32"),
        ({"swizzle": 16}, "a swizzle of 16 bytes; TMA has 0, 32, 64 and 128"),
        ({"l2_promotion": 32}, "an L2 promotion of 32 bytes; there are 0, 64, 128 and 256"),
        ({"fill": "one"}, "it is filled with 'one'"),
        ({"dtype": "i16", "fill": "nan"}, "i16 has no NaN"),
    ],
)
def test_rules_of_a_description(driver, change, words):
    with pytest.raises(ArgumentError, match=f"^A cannot be copied by TMA: .*{words}"):
        launcher(INFO.params[0], replace(MAP, **change), *INFO.params[2:])


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Matrix(4104), "its address 0x1008 is no multiple of 16"),
        (Matrix(4096, (256, 511)), "dimension 0 has a stride of 1022 bytes, which is no multiple of 16"),
        (Matrix(4096, (1, 2**40)), "dimension 1 is 1099511627776; TMA takes 1 to 2"),
    ],
)
def test_rules_of_a_call(driver, tensor, words):
    with pytest.raises(ArgumentError, match=f"^A cannot be copied by TMA: {words}"):
        launcher()(tensor, Matrix(8192, tensor.shape))
    assert driver.launches == []


def test_strides_have_a_limit(driver):
    far = replace(MAP, strides=(("mul", K, 2**32),))
    with pytest.raises(ArgumentError, match="dimension 0 has a stride of 4398046511104 bytes; TMA takes less than 2"):
        launcher(INFO.params[0], far, *INFO.params[2:])(Matrix(4096), Matrix(8192))


def test_what_the_driver_alone_refuses(driver):
    driver.fail_map = 1
    with pytest.raises(DriverError, match=r"refuses a tensor map of A: bf16, dimensions \(256, 512\)") as caught:
        launcher()(Matrix(4096), Matrix(8192))
    assert caught.value.code == "CUDA error 1"
