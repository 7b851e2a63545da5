"""Counters for kernels that leave zeros: whose launches share them, and how they are allocated."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace

import pytest

from minitile.ops.memory_bound.sums import sums_at_once
from minitile.runtime import arrays, counters, cuda
from minitile.runtime.arrays import Place, describe
from minitile.runtime.counters import COUNTERS, Counters, counters_for
from tests.runtime.fake_cuda import FakeDriver, Status


class Streams(FakeDriver):
    """With streams, by handle: their number and the capture that they are in, if any; what is called beside."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")

    def __init__(self):
        super().__init__([])
        self.numbers, self.captures, self.called, self.mode = {0: 1}, {}, [], "global"
        self.no_memory = self.invalid = False

    def cuStreamGetId(self, stream, out):
        out._obj.value = self.numbers[stream.value or 0]
        return 0

    def cuStreamGetCaptureInfo_v2(self, stream, status, number, graph, dependencies, count):
        assert graph is dependencies is count is None
        capture = self.captures.get(stream.value or 0)
        status._obj.value, number._obj.value = (0 if capture is None else 2 if self.invalid else 1), capture or 0
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before, self.mode = self.mode, mode
        return Status.CUDA_SUCCESS, before

    def cuStreamCreate(self, flags):
        assert flags == 1
        return Status.CUDA_SUCCESS, 77

    def cuMemAlloc(self, size):
        assert self.mode == "relaxed", "or a capture would forbid it"
        self.called.append(("alloc", size))
        code = Status.CUDA_ERROR_INVALID_VALUE if self.no_memory else Status.CUDA_SUCCESS
        return code, 1 << 20 << len(self.called)

    def cuGetErrorName(self, _):
        return 0, b"no memory"

    cuGetErrorString = cuGetErrorName

    def cuMemsetD8Async(self, pointer, value, size, stream):
        assert (value, stream) == (0, 77)
        self.called.append(("clear", size))
        return (Status.CUDA_SUCCESS,)

    def cuStreamSynchronize(self, stream):
        self.called.append(("wait", stream))
        return (Status.CUDA_SUCCESS,)

    def cuStreamDestroy(self, stream):
        return (Status.CUDA_SUCCESS,)


@pytest.fixture
def fake(monkeypatch):
    fake = Streams()
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    monkeypatch.setattr(counters, "_given", {})
    monkeypatch.setattr(counters, "_free", {})
    cuda._primary_context.cache_clear()
    yield fake
    cuda._primary_context.cache_clear()


def on(stream, index=0):
    return counters_for(Place("cuda", index, lambda: stream))


def test_one_stream_shares_them(fake):
    assert on(0) is on(0)
    assert fake.called == [("alloc", 1 << 20), ("clear", 1 << 20), ("wait", 77)]
    assert fake.mode == "global"
    info = describe(on(0))
    assert (info.shape, info.dtype, info.contiguous, info.device_kind) == ((COUNTERS,), "i32", True, "cuda")


def test_others_do_not(fake):
    """Other streams, other devices, a stream with the handle of one that is gone, captures."""
    fake.numbers |= {5: 2, 6: 3}
    places = [on(0).pointer, on(5).pointer, on(6).pointer, on(0, 1).pointer]
    fake.numbers[6] = 4
    places.append(on(6).pointer)
    for capture in (0, 1, 2):
        fake.captures = {5: capture, 6: capture}
        places += [on(5).pointer, on(6).pointer]
        assert on(5).pointer == places[-2]
    assert len(set(places)) == len(places)
    of_one_device = sorted(place for i, place in enumerate(places) if i != 3)
    assert all(b - a >= 4 * COUNTERS for a, b in itertools.pairwise(of_one_device))
    fake.captures = {}
    assert on(5).pointer == places[1]


def test_there_is_an_end(fake, monkeypatch):
    monkeypatch.setattr(counters, "_MOST", counters._TOGETHER)
    fake.numbers = {stream: stream for stream in range(300)}
    found = [on(stream) for stream in range(300)]
    assert all(found[: counters._TOGETHER])
    assert not any(found[counters._TOGETHER :])
    assert on(3) is found[3]
    assert len({one.pointer for one in found if one}) == counters._TOGETHER


def test_where_there_are_none(fake, monkeypatch):
    assert counters_for(Place("cpu")) is None
    assert counters_for(Place("rocm")) is None
    fake.captures, fake.invalid = {0: 9}, True
    assert on(0) is None
    fake.captures = {}
    fake.no_memory = True
    assert on(0) is None
    assert fake.mode == "global"
    old = SimpleNamespace(cuCtxGetCurrent=fake.cuCtxGetCurrent)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: old)
    assert on(0) is None


def test_handles_are_of_64_bits(fake):
    high = 0x7F12_3456_789A
    fake.numbers[high] = 9
    assert isinstance(on(high), Counters)
    assert ctypes.sizeof(ctypes.c_void_p) == 8


class OnGPU:
    def __init__(self, pointer, shape, dtype):
        self.pointer, self.shape, self.dtype = pointer, shape, dtype


def test_kernels_take_them(fake, monkeypatch):
    """Beside arrays of a framework, on its stream."""
    place = Place("cuda", 0, lambda: 5)
    monkeypatch.setitem(arrays.readers, OnGPU, lambda a: (a.pointer, a.shape, a.dtype, place, True))
    cuda.device_info.cache_clear()
    fake.numbers[5] = 2
    fake.parameters += [ctypes.c_void_p] * 4 + [ctypes.c_int32] * 2
    done = counters_for(place)
    x, parts, y = OnGPU(1 << 16, (64, 256), "bf16"), OnGPU(1 << 17, (3, 256), "f32"), OnGPU(1 << 18, (256,), "f32")
    sums_at_once(x, parts, done, y, split=3)
    cuda.device_info.cache_clear()
    (launch,) = fake.launches
    assert launch.grid == (1, 3, 1)
    assert launch.stream == 5
    assert launch.values == (1 << 16, 1 << 17, done.pointer, 1 << 18, 64, 256)


@pytest.mark.gpu
def test_streams_and_graphs():
    """Launches of sums on several streams and in graphs that are replayed beside them; each finds zeros."""
    import torch

    from minitile.ops import column_sums

    xs = [torch.randn(4096, 4096, device="cuda") for _ in range(4)]
    right = [x.double().sum(0) for x in xs]
    first = [column_sums(x) for x in xs]
    streams = [torch.cuda.Stream() for _ in xs]
    graphs, found = [], []
    for x, stream in zip(xs, streams, strict=True):
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(3):
                y = column_sums(x)
        graphs.append(graph)
        found.append(y)
    for _ in range(20):
        torch.cuda.synchronize()
        for y in found:
            y.fill_(float("nan"))
        torch.cuda.synchronize()
        beside = []
        for x, stream, graph in zip(xs, streams, graphs, strict=True):
            with torch.cuda.stream(torch.cuda.Stream()):
                graph.replay()
            with torch.cuda.stream(stream):
                beside += [column_sums(x), column_sums(x)]
        torch.cuda.synchronize()
        for i, y in enumerate(found):
            assert torch.equal(y, first[i])
            assert torch.equal(beside[2 * i], first[i])
            assert torch.equal(beside[2 * i + 1], first[i])
    for y, wanted in zip(first, right, strict=True):
        assert (y - wanted).abs().max() < 1e-2
