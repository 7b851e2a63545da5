"""The launch path on a real GPU (MINITILE_GPU=1): torch, CuPy, `__cuda_array_interface__`, streams, devices, costs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minitile.driver.dispatch import Executable
from minitile.ir.diagnostics import LaunchArgumentError
from minitile.runtime import cuda
from minitile.runtime.arrays import describe, read
from minitile.runtime.errors import DriverError
from minitile.target import parse_target
from tests.runtime.vector_add import INFO, PTX

pytestmark = pytest.mark.gpu


class ByInterface:
    """An array known only by `__cuda_array_interface__`."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


class ByDLPack:
    """An array known only by DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def kernel():
    return Executable(INFO, PTX)


def vectors(torch, n=1000):
    return torch.randn(n, device="cuda"), torch.randn(n, device="cuda"), torch.zeros(n, device="cuda")


@pytest.mark.parametrize("wrap", [lambda t: t, ByInterface, ByDLPack], ids=["torch", "interface", "dlpack"])
def test_adds(torch, kernel, wrap):
    for n in (1, 127, 128, 1000, 0):
        a, b, c = vectors(torch, n)
        torch.cuda.synchronize()
        kernel(wrap(a), wrap(b), wrap(c))
        torch.cuda.synchronize()
        assert torch.equal(c, a + b)


def test_cupy(kernel):
    cupy = pytest.importorskip("cupy")
    a, b, c = cupy.random.rand(1000, dtype="f"), cupy.random.rand(1000, dtype="f"), cupy.zeros(1000, "f")
    kernel(a, b, c)
    assert (c == a + b).all()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert read(a)[3].stream() == stream.ptr


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float16", "float64", "int8", "int64", "bool", "float8_e4m3fn"]
)
def test_describe_torch(torch, name):
    tensor = torch.zeros(6, 8, device="cuda").to(getattr(torch, name))
    short = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64", "int8": "i8", "int64": "i64"}
    info = describe(tensor[:, ::2])
    assert info.dtype == short.get(name, {"bool": "bool", "float8_e4m3fn": "e4m3"}.get(name))
    assert (info.shape, info.strides, info.contiguous) == ((6, 4), (8, 2), False)
    assert (info.device_kind, info.device_index) == ("cuda", torch.cuda.current_device())


def test_current_stream(torch, kernel):
    """A launch goes behind what its stream still has to do: the slow product before it feeds it."""
    a, b, c = vectors(torch, 4096)
    big = torch.randn(4096, 4096, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x = big
        for _ in range(20):
            x = torch.tanh(x @ big)
        a.copy_(x[0])
        kernel(a, b, c)
        want = a + b
    torch.cuda.synchronize()
    assert torch.equal(c, want)


def test_threads_on_streams_of_their_own(torch, kernel):
    """Four threads at once, each with a stream and arrays of its own; none waits for the others."""

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a = torch.full((4096,), float(number), device="cuda")
            b, c = torch.ones_like(a), torch.zeros_like(a)
            for _ in range(100):
                kernel(a, b, c)
                a.copy_(c)
        stream.synchronize()
        return bool((a == number + 100).all())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4


def test_captured_in_a_graph(torch, kernel):
    a, b, c = vectors(torch)
    kernel(a, b, c)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, c)
    a.fill_(2)
    b.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert (c == 5).all()


def test_prepared(torch, kernel):
    a, b, c = vectors(torch)
    again = kernel.prepare(a, b, c)
    for value in (1.0, 2.0):
        a.fill_(value)
        again()
        assert torch.equal(c, a + b)


def test_the_drivers_own_jit(torch):
    from minitile.runtime.cuda import Launcher

    a, b, c = vectors(torch)
    launcher = Launcher(INFO, lambda _: PTX.encode())
    launcher(a, b, c)
    assert torch.equal(c, a + b)
    bad = Launcher(INFO, lambda _: PTX.replace("add.f32", "add.f33").encode())
    with pytest.raises(DriverError, match=r"(?s)loading the code of vector_add.*line \d+"):
        bad(a, b, c)


def test_setmaxnreg_takes_effect(torch, monkeypatch):
    """A tile whose accumulators need more than an equal share of the registers: the driver's JIT gives them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    from gemm import gemm_nt_bf16

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs sm_90a")
    monkeypatch.setenv("MINITILE_PTXAS", "0")
    monkeypatch.setenv("MINITILE_STRICT", "1")
    a, b = (torch.randn(512, 384, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.full((512, 512), float("nan"), device="cuda", dtype=torch.bfloat16)
    tiles = {"block_M": 256, "block_N": 192, "block_K": 64, "num_stages": 3, "threads": 256}
    kernel = gemm_nt_bf16().compile(a, b, c, target="sm_90a", **tiles)
    kernel(a, b, c)
    exact = a.double() @ b.double().t()
    assert torch.linalg.norm(c.double() - exact) < 4e-3 * torch.linalg.norm(exact)
    assert "setmaxnreg" in kernel.asm["ptx"]
    assert (kernel.registers, kernel.spills) == (168, 0)
    place = read(a)[3]
    launcher = kernel.executable.launcher
    assert launcher.function_info(place).local == 0
    assert "C75" not in launcher.jit_log(place)


def test_registers_agree_with_the_assembler(torch, kernel):
    a, b, c = vectors(torch)
    kernel(a, b, c)
    (assembled,) = kernel.program.cubins.values()
    assert kernel.launcher.function_info(read(a)[3]).registers == assembled.registers


def test_mixed_devices(torch, kernel):
    a, b, c = vectors(torch)
    with pytest.raises(LaunchArgumentError, match="a is on cuda:0, b on cpu"):
        kernel(a, b.cpu(), c)


def test_the_tensors_device_is_used(torch, kernel):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    a, b, c = (x.to("cuda:1") for x in vectors(torch))
    kernel(a, b, c)
    torch.cuda.synchronize(1)
    assert torch.equal(c, a + b)
    assert torch.cuda.current_device() == 0


def test_auto_target(torch):
    """The device's own architecture; on an H100 or H200, the one with wgmma and TMA."""
    device = cuda.current_device_info()
    target = parse_target("auto")
    assert target.arch == ("sm_90a" if device.capability == (9, 0) else device.arch)
    assert target.capability <= device.capability == torch.cuda.get_device_capability()


def test_turns_on_the_gpu(torch, kernel):
    """A hundred times the elements take longer; with L2 flushed, so does a copy that fits in it."""
    from minitile.runtime.timing import time_interleaved

    small, large = vectors(torch, 1 << 16), vectors(torch, 1 << 23)
    launches = {"small": kernel.prepare(*small), "large": kernel.prepare(*large)}
    warm = {n: sorted(t)[len(t) // 2] for n, t in time_interleaved(launches, rounds=9).items()}
    assert warm["large"] > 3 * warm["small"]
    cold = {n: sorted(t)[len(t) // 2] for n, t in time_interleaved(launches, rounds=9, flush=True).items()}
    assert cold["large"] > warm["large"] * 0.9
    assert torch.equal(large[2], large[0] + large[1])


def test_autotune_on_the_gpu(torch, tmp_path, monkeypatch):
    import minitile as mt
    import minitile.language as T

    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))

    @mt.kernel
    def add(A: T.Tensor(("n",), T.float32), B: T.Tensor(("n",), T.float32), C: T.Tensor(("n",), T.float32), block=128):
        with T.Kernel(T.ceildiv(A.shape[0], block), threads=128) as b:
            for i in T.Parallel(block):
                C[b * block + i] = A[b * block + i] + B[b * block + i]

    a, b, c = vectors(torch, 1 << 22)
    tuned = mt.autotune(
        add,
        {"block": [32, 512, 2048, 8192]},
        check=lambda a, b, c: torch.equal(c, a + b),
        reset=lambda a, b, c: c.fill_(float("nan")),
        progress=False,
    )
    tuning = tuned.tune(a, b, c)
    assert all(t.ms is not None for t in tuning.trials), str(tuning)
    assert tuning.config["block"] != 32, str(tuning)
    c.zero_()
    tuning.kernel(a, b, c)
    torch.cuda.synchronize()
    assert torch.equal(c, a + b)
    assert tuned.tune(a, b, c).trials == tuning.trials, "from the store"


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize(
    "shape", [(256, 512, 384), (1, 4096, 1000), (300, 77, 1003), (64, 64, 16384), (4097, 2049, 513)]
)
def test_matmul(torch, form, shape):
    import minitile as mt

    m, n, k = shape
    for dtype, bound in ((torch.bfloat16, 4e-3), (torch.float16, 5e-4)):
        a = torch.randn((k, m) if form[0] == "T" else (m, k), device="cuda", dtype=dtype)
        b = torch.randn((n, k) if form[1] == "T" else (k, n), device="cuda", dtype=dtype)
        a, b = a.t() if form[0] == "T" else a, b.t() if form[1] == "T" else b
        expected = a.double() @ b.double()
        out = torch.full((m, n), float("nan"), device="cuda", dtype=dtype)
        for c in (mt.ops.matmul(a, b), mt.ops.matmul(a, b, out=out), mt.ops.matmul(a, b)):
            assert float((c.double() - expected).norm() / expected.norm()) < bound, mt.ops.plan_for(a, b)


def test_launches_are_captured_in_cuda_graphs(torch):
    """Plain calls, with tensor maps, padding, split-K and early starts; a replay sees new contents."""
    import minitile as mt

    for shape in ((512, 256, 256), (64, 64, 8192), (2048, 2048, 1001)):
        m, n, k = shape
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        c = mt.ops.matmul(a, b)  # compiled and loaded before
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(3):
                mt.ops.matmul(a, b, out=c)
        a.copy_(torch.randn_like(a))
        c.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        expected = a.double() @ b.double()
        assert float((c.double() - expected).norm() / expected.norm()) < 4e-3


def test_dependent_launches_in_a_chain(torch):
    """Each kernel of the chain reads what the one in front has written, and starts before that has ended."""
    import minitile as mt
    import minitile.language as T

    @mt.kernel
    def step(X: T.Tensor(("n",), T.float32), Y: T.Tensor(("n",), T.float32)):
        with T.Kernel(T.ceildiv(X.shape[0], 1024), threads=128) as b:
            T.pdl_trigger()
            T.pdl_sync()
            for i in T.Parallel(1024):
                Y[b * 1024 + i] = X[b * 1024 + i] + 1.0

    x = torch.zeros(1 << 22, device="cuda")
    y = torch.empty_like(x)
    for _ in range(100):
        step(x, y)
        step(y, x)
    torch.cuda.synchronize()
    assert bool((x == 200).all())
