"""`minitile.tilelang`: each form of TileLang's programs, in the simulator against NumPy; its host side; its errors."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitile.tilelang as tilelang
import minitile.tilelang.language as T
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError
from minitile.tools import cli
from tests.tilelang import programs

RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("rows", [1, 17, 64])
def test_a_factory(rows: int) -> None:
    kernel = programs.scaled(rows, 48, 8)
    x = normal(rows, 48)
    np.testing.assert_array_equal(kernel(x, 3.0), x * np.float32(3))
    assert programs.scaled(rows, 48, 8) is kernel
    assert programs.scaled(rows, 48, block=8, dtype="float16") is not kernel


class Factor:
    """Neither hashable nor frozen."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, by: int) -> None:
        self.by = by

    @tilelang.jit(out_idx=[-1])
    def times(self, N: int) -> Any:
        by = self.by

        @T.prim_func
        def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):  # type: ignore[valid-type]
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    Y[i] = X[i] * by

        return main


def test_kernels_are_those_of_what_an_argument_holds() -> None:
    """Not of where it lies: an object that is gone may have had the same place."""
    x = np.arange(32, dtype=np.int32)
    for by in range(1, 6):
        np.testing.assert_array_equal(Factor(by).times(32)(x), x * by)
    factor = Factor(7)
    kernel = factor.times(32)
    assert factor.times(32) is kernel
    factor.by = 8
    np.testing.assert_array_equal(factor.times(32)(x), x * 8)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_tensors_declared_in_the_body(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    a, b = normal(40, 64, dtype="float16"), normal(64, 72, dtype="float16")
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(programs.matmul(a, b, block_K=16), want, rtol=1e-3, atol=1e-2)


def test_compile_by_sizes() -> None:
    kernel = programs.matmul.compile(M=32, N=32, K=64)
    a, b = normal(32, 64, dtype="float16"), normal(64, 32, dtype="float16")
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(kernel(a, b), want, rtol=1e-3, atol=1e-2)
    assert ".visible .entry matmul" in kernel.compiled("sm_90a")[0].text
    with pytest.raises(LaunchArgumentError, match=r"lacks the size K of T.const"):
        programs.matmul.compile(M=32, N=32)


@pytest.mark.parametrize("rows", [1, 5])
def test_computed_and_dynamic_sizes_and_a_missing_tensor(rows: int) -> None:
    x, w = normal(rows, 64), normal(4, 16)
    parts = x.reshape(rows, 4, 16).astype(np.float64)
    np.testing.assert_allclose(programs.chunk_sums(x, 16), parts.sum(-1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(programs.chunk_sums(x, 16, w), (parts * w).sum(-1), rtol=1e-4, atol=1e-4)
    assert len(programs.chunk_sums._kept) == 2  # rows is a run-time size


def test_launches_in_order_share_a_workspace() -> None:
    kernel = programs.two_passes(33, 64, 4)
    x = normal(33, 64)
    np.testing.assert_allclose(kernel(x), x.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)
    assert len(kernel.kernels) == 2
    assert [len(k.launch_info.args) for k in kernel.compiled("sm_90a")] == [3, 3]


def test_autotune_takes_what_compiles() -> None:
    kernel = programs.tuned(10, 32)
    x = normal(10, 32)
    np.testing.assert_array_equal(kernel(x), x + 1)
    assert kernel.config in ({"block": 2}, {"block": 4})
    tuner = tilelang.AutoTuner.from_kernel(programs.tuned.jit.function, [{"M": 4, "N": 32, "block": 2}])
    found = tuner.set_compile_args(out_idx=[1]).run()
    assert found.kernel is not None
    np.testing.assert_array_equal(found.kernel(x[:4]), x[:4] + 1)


def test_the_profiler_compares() -> None:
    profiler = programs.scaled(8, 32, 8).get_profiler(tilelang.TensorSupplyType.Normal)
    profiler.assert_allclose(lambda x, factor: x * factor, rtol=0, atol=0)
    with pytest.raises(AssertionError, match="256 of 256 elements differ"):
        profiler.assert_allclose(lambda x, factor: x + 100)
    with pytest.raises(AssertionError, match="the kernel has 1 results, and the reference 2"):
        profiler.assert_allclose(lambda x, factor: (x * factor, x))
    profiler.assert_consistent(2)


def test_dtypes() -> None:
    import ml_dtypes

    assert T.dtype("float16") == T.float16 == "float16"
    assert T.float16 != T.float32
    assert T.dtype(np.dtype("int8")) == T.int8
    assert T.dtype(ml_dtypes.bfloat16) == T.bfloat16
    assert T.float == T.float32 == T.tfloat32
    assert getattr(ml_dtypes, T.float8_e4m3fn) is ml_dtypes.float8_e4m3fn
    assert (T.int4.bits, T.bfloat16.bytes) == (4, 2)
    assert tilelang.DataType("float8_e4m3fn").bits == 8
    assert tilelang.cdiv(7, 2) == 4
    assert [tilelang.next_power_of_2(n) for n in (0, 1, 2, 3, 17)] == [1, 1, 2, 4, 32]


def test_a_torch_dtype_by_its_name() -> None:
    class TorchDtype:
        def __repr__(self) -> str:
            return "torch.bfloat16"

    assert T.dtype(TorchDtype()) == T.bfloat16


def test_what_is_not_there_says_what_to_write() -> None:
    with pytest.raises(AttributeError, match=r"T.PersistentTileScheduler is not there \(write T.Persistent"):
        _ = T.PersistentTileScheduler

    @T.prim_func
    def waits(X: T.Tensor((32,), T.float32)):  # type: ignore[valid-type]
        with T.Kernel(2, threads=32) as bx:
            X[bx] = 1
            T.sync_grid()

    assert tilelang.compile(waits).compiled("sm_90a")[0].launch_info.cooperative
    with pytest.raises(LanguageError, match=r"which tilelang.jit is around, returns int"):
        tilelang.jit(_no_factory)()
    with pytest.raises(LanguageError, match=r"T.const outside of a function marked by tilelang.jit"):
        T.const("M")


def _no_factory() -> int:
    return 1


SCRIPT = """
    import tilelang
    import tilelang.language as T
    from tilelang.autotuner import *
    from tilelang.carver.roller.rasterization import NoRasterization
    from tilelang.profiler import do_bench
    {first}

    @tilelang.jit
    def doubled(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        Y = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                Y[bx * 32 + i] = 2 * X[bx * 32 + i]
        return Y

    {last}
"""


def run(tmp_path: Path, *args: str, first: str, last: str) -> int:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT).format(first=first, last=textwrap.dedent(last)))
    return cli.main(["tilelang", *args, str(file), "40"])


def test_a_script_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """tilelang's modules are ours, argv the script's; a module that is not there may be imported, and not used."""
    before = {n for n in sys.modules if n.startswith(("tilelang", "torch", "script"))}
    last = "x = np.arange(int(sys.argv[1]), dtype='f4')\nprint((doubled(x) == 2 * x).all(), __name__)\n"
    assert run(tmp_path, first="import sys\nimport numpy as np", last=last) == 0
    assert capsys.readouterr().out == "True __main__\n"
    assert run(tmp_path, first="", last="NoRasterization()") == 1
    assert "tilelang.carver.roller.rasterization.NoRasterization is not there" in capsys.readouterr().err
    assert {n for n in sys.modules if n.startswith(("tilelang", "torch", "script"))} == before
    assert sys.argv[0] != str(tmp_path / "script.py")


def test_compile_only_needs_no_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = """
        x = torch.randn(4, 25, device="cuda").view(-1)
        y = doubled(x)
        assert tuple(y.shape) == (100,)
        torch.testing.assert_close(y, F.relu(x) @ x)
        print("unseen", do_bench(lambda: doubled(x)))
    """
    status = run(tmp_path, "--compile-only", first="import torch\nimport torch.nn.functional as F", last=last)
    said = capsys.readouterr().out
    assert status == 0, said
    assert "1 kernels compiled for sm_90a, 0 of them refused" in said
    assert "unseen" not in said


def test_compile_only_reports_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = """
        @tilelang.jit
        def outside(X):
            X: T.Tensor((8,), T.float32)
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((8,), T.float32)
                s[9] = X[0]
        outside(torch.zeros(8))
        doubled(torch.zeros(8))
    """
    assert run(tmp_path, "--compile-only", first="import torch", last=last) == 1
    said = capsys.readouterr().out
    assert "outside (script.py:20): TypeMismatchError: index 9 is outside dimension 0" in said
    assert "2 kernels compiled for sm_90a, 1 of them refused" in said
    assert run(tmp_path, "--compile-only", "--target", "sm_91", first="import torch", last=last) == 1
    said = capsys.readouterr()
    assert not said.out
    assert "unknown target 'sm_91'" in said.err


@pytest.mark.parametrize(("stride", "dilation", "pad", "block"), [(1, 1, 1, 32), (2, 1, 0, 64), (1, 2, 2, 64)])
def test_a_convolution_by_im2col(
    stride: int, dilation: int, pad: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 64 rows by wgmma: what is gathered for the next product is written while one runs."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    sizes = {"N": 2, "C": 8, "H": 7, "W": 6, "F": 16, "K": 3}
    how = {"stride": stride, "dilation": dilation, "pad": pad, "block": block}
    (compiled,) = programs.convolved.compile(**sizes, **how).compiled("sm_90a")
    assert ("%rows = alloc {type_ = shared<2 versions" in compiled.asm["tile_ir"]) == (block == 64)
    image, weights = normal(2, 7, 6, 8, dtype="float16"), normal(3, 3, 8, 16, dtype="float16")
    padded = np.pad(image.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    reach = 2 * dilation + 1
    rows, columns = ((n + 2 * pad - reach) // stride + 1 for n in (7, 6))
    want = np.zeros((2, rows, columns, 16))
    for y in range(rows):
        for x in range(columns):
            at = (slice(n * stride, n * stride + reach, dilation) for n in (y, x))
            want[:, y, x] = np.einsum("nhwc,hwcf->nf", padded[:, *at], weights.astype(np.float64))
    np.testing.assert_allclose(programs.convolved(image, weights, **how), want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("rows", "columns", "over"), [(4, 64, 8), (7, 17, 16), (5, 1, 32), (3, 70, 64)])
def test_a_reduction_over_threads(rows: int, columns: int, over: int) -> None:
    """Of up to 32 threads, without a loop, in which each number would be waited for."""
    x = normal(rows, columns)
    (compiled,) = programs.row_sums.compile(M=rows, N=columns, over=over).compiled("sm_90a")
    behind = compiled.asm["tile_ir"].partition("sync_threads")[2]
    assert ("= for" in behind) == (over > 32)
    np.testing.assert_allclose(programs.row_sums(x, over), x.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)


def test_cuda_on_the_cpu() -> None:
    torch = pytest.importorskip("torch")
    from minitile.tilelang.stand_in.cpu import on_cpu

    with on_cpu():
        torch.cuda.init()
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
            torch.manual_seed(3)
            first = torch.randn(4, device="cuda")
        torch.manual_seed(3)
        assert torch.equal(first, torch.randn(4))
        assert first.device.type == "cpu"


def test_files_of_a_tracer(tmp_path: Path) -> None:
    from minitile.tilelang import iket

    with iket.session(output_dir=tmp_path / "a", runtime_payloads=False):
        iket.output_path("kernel.ptx").write_text("x")
    assert iket.output_dir() == tmp_path / "a"
    assert iket.output_path("kernel.ptx").read_text() == "x"  # behind the session as well
    assert iket.output_path("y", directory=str(tmp_path / "b" / "c")).parent.is_dir()
    assert not iket.trace_files()
