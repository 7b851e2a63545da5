"""minitile's own side of the benchmarks on a GPU made of Python: every entry compiles, loads and launches."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import itertools
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from minitile.runtime import cuda
from minitile.runtime.arrays import Place, readers

ROOT = Path(__file__).parents[2]


class OnGPU:
    """A bf16 tensor of this shape, at an address of its own."""

    addresses = itertools.count(1 << 30, 1 << 30)

    def __init__(self, *shape):
        self.shape = shape
        self.address = next(self.addresses)


@pytest.fixture
def driver(monkeypatch):
    spec = importlib.util.spec_from_file_location("fake_cuda", ROOT / "tests" / "runtime" / "fake_cuda.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fake = module.FakeDriver([])
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "_ctypes_driver", lambda: fake)
    place = Place("cuda", 0, lambda: 0)
    monkeypatch.setitem(readers, OnGPU, lambda array: (array.address, array.shape, "bf16", place, True))
    monkeypatch.setenv("MINITILE_PTXAS", "0")
    monkeypatch.setenv("MINITILE_CACHE", "0")
    monkeypatch.setenv("MINITILE_GPU", "")
    monkeypatch.delenv("MINITILE_TARGET", raising=False)
    for cached in (cuda.device_info, cuda._primary_context):
        cached.cache_clear()
    yield fake
    for cached in (cuda.device_info, cuda._primary_context):
        cached.cache_clear()


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("m", [512, 64])
def test_gemm(driver, m, transposed):
    import gemm_peers

    problem = gemm_peers.Gemm(m, 1024, 256, transposed)
    b = OnGPU(1024, 256) if transposed else OnGPU(256, 1024)
    operands = gemm_peers.Operands(OnGPU(m, 256), b, OnGPU(m, 1024))
    entries = list(gemm_peers.minitile(problem, operands, [problem]))
    assert {entry.failure for entry in entries} == {""}
    assert "wgmma" in driver.loads[0][1].decode()
    for entry, tiles in zip(entries, gemm_peers.OUR_THIN if m == 64 else gemm_peers.OURS, strict=True):
        assert entry.launch() is operands.c
        assert driver.launches[-1].shared >= 2 * tiles.k * (tiles.m + tiles.n)
        assert entry.facts["registers"] == 40  # as the driver says
        assert "the driver's JIT" in entry.compile_stages
    loads = len(driver.loads)
    list(gemm_peers.minitile(problem, operands, [problem]))
    assert len(driver.loads) == loads


class OfTorch:
    """The little of torch that makes a workspace."""

    float32, int32 = "f32", "i32"

    class cuda:
        get_device_properties = staticmethod(lambda device: SimpleNamespace(multi_processor_count=132))

    @staticmethod
    def empty(shape, device, dtype):
        found = OnGPU(*(shape if isinstance(shape, tuple) else (shape,)))
        found.dtype = dtype
        return found

    zeros = empty


@pytest.mark.slow
@pytest.mark.few_cases
@pytest.mark.parametrize("shape", [(128, 8192, 8192), (64, 7168, 18432)])
def test_gemm_of_few_rows(driver, monkeypatch, shape):
    """All entries are made for the H200's shared memory and registers, and fill its multiprocessors."""
    import gemm_peers
    import gemm_thin

    place = Place("cuda", 0, lambda: 0)
    read = lambda array: (array.address, array.shape, getattr(array, "dtype", "bf16"), place, True)  # noqa: E731
    monkeypatch.setitem(readers, OnGPU, read)
    monkeypatch.setitem(sys.modules, "torch", OfTorch)
    m, n, k = shape
    problem = gemm_peers.Gemm(m, n, k)
    operands = gemm_peers.Operands(OnGPU(m, k), OnGPU(n, k), OnGPU(m, n))
    for name, make in gemm_thin.THIN_CONTENDERS.items():
        for entry in make(problem, operands, [problem]):
            assert entry.failure == "", entry
            assert entry.launch() is operands.c
            launched = driver.launches[-1]
            assert launched.grid[0] * launched.grid[1] >= 112
            if name == "stream_k":
                assert launched.grid[0] == 132


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("d", [128, 64])
def test_attention(driver, d, causal):
    import attention_peers

    problem = attention_peers.Attention(2, 3, 1024, d, causal)
    operands = attention_peers.Operands(*(OnGPU(2, 3, 1024, d) for _ in range(4)))
    entries = list(attention_peers.minitile(problem, operands, [problem]))
    assert [entry.failure for entry in entries] == [""] * 3
    for entry in entries:
        assert entry.launch() is operands.o
        assert entry.compile_seconds > 0


def test_hand_written(driver, monkeypatch):
    import handwritten

    monkeypatch.setattr(handwritten, "processors_of", lambda tensor: 7)
    it = {"entry": "gemm", "block": [384, 1, 1], "dynamic_shared_bytes": 1024, "G": 12, "ptx": "a text"}
    texts = {"gemm_large_nt": {**it, "cfg": {"BM": 128, "BN": 192}}, "gemm_large_nn": it, "attention": it}
    a, b, c = OnGPU(1000, 128), OnGPU(800, 128), OnGPU(1000, 800)
    entries = list(handwritten.gemm(texts, True, a, b, c))
    assert [(entry.config, entry.failure) for entry in entries] == [
        ("gemm_large_nt, groups of 12", ""),
        ("gemm_large_nt, groups of 16", ""),
    ]
    assert entries[0].launch() is c
    launched = driver.launches[-1]
    assert (launched.grid, launched.block, launched.shared) == ((7, 1, 1), (384, 1, 1), 1024)
    assert driver.loads[0][1] == b"a text"
    assert [made.box for made in driver.maps[:3]] == [(64, 128), (64, 192), (64, 64)]


def test_peers_that_are_not_there(driver, monkeypatch):
    import attention_peers
    import contest
    import gemm_peers

    for name in ("triton", "tilelang"):
        monkeypatch.setitem(sys.modules, name, None)
    for peers, problem in ((gemm_peers, gemm_peers.Gemm(8, 8, 8)), (attention_peers, SimpleNamespace(causal=False))):
        for name in ("triton", "tilelang"):
            (entry,) = contest.gather({name: lambda make=peers.CONTENDERS[name], p=problem: make(p, None, [])})
            assert entry.failure.startswith("not installed")


def test_launches_by_the_driver_alone(driver, monkeypatch):
    """Each way to hand over the parameters gives the same ones, also when what prepared it is long gone."""
    import launch

    place = Place("cuda", 0, lambda: 0)
    monkeypatch.setitem(readers, OnGPU, lambda array: (1 << 20, array.shape, "f32", place, True))
    monkeypatch.setattr(launch.ctypes, "PyDLL", lambda name: driver)
    cuda_of_torch = SimpleNamespace(
        Stream=lambda: SimpleNamespace(cuda_stream=77),
        CUDAGraph=lambda: SimpleNamespace(replay=None),
        graph=lambda graph: nullcontext(),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda_of_torch))
    driver.parameters[:] = [ctypes.c_uint64] * 3 + [ctypes.c_uint32]
    variants = launch.driver_alone(*(OnGPU(1024) for _ in range(3)))
    gc.collect()
    others = [ctypes.c_size_t(7) for _ in range(1000)]  # they come to lie where something was let go of
    for name in ("driver alone", "driver alone, one buffer", "driver alone, own stream", "driver alone, lock held"):
        assert variants[name]() == 0, name
        launched = driver.launches[-1]
        assert launched.values == (1 << 20, 1 << 20, 1 << 20, 1024), name
        assert launched.stream == (77 if "stream" in name else 0)
        assert launched.grid == (8, 1, 1)
    assert len(others) == 1000


@pytest.mark.parametrize("form", ["fast", "exact", "rows", "blocks", "gelu"])
def test_gemm_fp8(driver, monkeypatch, form):
    """Each entry is made for a multiprocessor's shared memory, and launches as many blocks as there are of these."""
    import gemm_fp8_peers

    place = Place("cuda", 0, lambda: 0)
    read = lambda array: (array.address, array.shape, getattr(array, "dtype", "bf16"), place, True)  # noqa: E731
    monkeypatch.setitem(readers, OnGPU, read)
    monkeypatch.setitem(sys.modules, "torch", OfTorch)
    m, n, k = 1024, 768, 512
    problem = gemm_fp8_peers.Problem(form, m, n, k)
    scales = {"rows": ((m,), (n,)), "blocks": ((4, m), (6, 4)), "gelu": ((n,),)}.get(form, ((1,), (1,)))
    a, b, c = OnGPU(m, k), OnGPU(n, k), OnGPU(m, n)
    a.dtype = b.dtype = "bf16" if form == "gelu" else "e4m3"
    beside = tuple(OnGPU(*shape) for shape in scales)
    for x in beside:
        x.dtype = "f32"
    operands = gemm_fp8_peers.Operands(a, b, beside, c)
    entries = list(gemm_fp8_peers.minitile(problem, operands))
    assert [entry.failure for entry in entries] == [""] * len(gemm_fp8_peers.OURS[form])
    assert "wgmma" in driver.loads[0][1].decode()
    for entry in entries:
        assert entry.launch() is c
        assert driver.launches[-1].grid == (132, 1, 1)


def test_gemm_fp8_of_several_sizes(driver, monkeypatch):
    """A kernel is compiled for what divides the scales' sizes: 16 and 56 blocks of K do not have it in common."""
    import gemm_fp8_peers

    place = Place("cuda", 0, lambda: 0)
    read = lambda array: (array.address, array.shape, getattr(array, "dtype", "e4m3"), place, True)  # noqa: E731
    monkeypatch.setitem(readers, OnGPU, read)
    monkeypatch.setitem(sys.modules, "torch", OfTorch)
    monkeypatch.setitem(gemm_fp8_peers.OURS, "blocks", gemm_fp8_peers.OURS["blocks"][:1])
    for m, n, k in ((4096, 7168, 2048), (4096, 4096, 7168), (4096, 4096, 7168)):
        beside = OnGPU(k // 128, m), OnGPU(n // 128, k // 128)
        c = OnGPU(m, n)
        c.dtype = "bf16"
        for x in beside:
            x.dtype = "f32"
        operands = gemm_fp8_peers.Operands(OnGPU(m, k), OnGPU(n, k), beside, c)
        (entry,) = gemm_fp8_peers.minitile(gemm_fp8_peers.Problem("blocks", m, n, k), operands)
        assert entry.failure == ""
        assert entry.launch() is c
    assert len(driver.loads) == 2


def test_cases_of_gemm_fp8(driver):
    import gemm_fp8

    problems = gemm_fp8.parse(["--cases", "fast:4096", "blocks:4096x7168x2048"]).cases
    assert [str(problem) for problem in problems] == ["fast 4096x4096x4096", "blocks 4096x7168x2048"]
    with pytest.raises(SystemExit):
        gemm_fp8.parse(["--cases", "slow:4096"])
