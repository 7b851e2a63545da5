"""Arrays that are not row-major without gaps: a call compiles the kernel for run-time strides, and vectors and TMA stay
where they may be."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel
from minitile.ir.types import TensorType, bf16, f32, tensor_type
from minitile.runtime.launch_info import LaunchInfo
from tests.auto_target import auto_target

BF16 = np.dtype(ml_dtypes.bfloat16)


target = auto_target("sm_80", "sm_90a", "gfx950")


@mt.kernel
def doubled(X: T.Tensor(("M", "N"), None), Y: T.Tensor(("M", "N"), T.float32), rows=4, columns=64):
    with T.Kernel(T.ceildiv(X.shape[0], rows), T.ceildiv(X.shape[1], columns), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            Y[bx * rows + i, by * columns + j] = T.float32(X[bx * rows + i, by * columns + j]) * 2


@mt.kernel
def matmul(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("K", "N"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    block=64,
):
    with T.Kernel(T.ceildiv(C.shape[0], block), T.ceildiv(C.shape[1], block), threads=128) as (bx, by):
        a, b = T.alloc_shared((block, block), T.bfloat16), T.alloc_shared((block, block), T.bfloat16)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(A.shape[1], block), num_stages=2):
            T.copy(A[bx * block, k * block], a)
            T.copy(B[k * block, by * block], b)
            T.gemm(a, b, c)
        T.copy(c, C[bx * block, by * block])


def room(shape, dtype, left=0, right=0, step=1):
    """A view of that shape in the middle of a larger array, and the array."""
    whole = np.full((shape[0] + 2, left + shape[1] * step + right), 77, dtype)
    return whole[1:-1, left : left + shape[1] * step : step], whole


VIEWS = {
    "transposed": lambda x: x.T,
    "columns": lambda x: x[:, :32],
    "odd columns": lambda x: x[:, 3:36],
    "every other row": lambda x: x[::2],
    "every other column": lambda x: x[:, ::2],
    "backwards": lambda x: x[::-1, ::-1],
    "repeated": lambda x: np.broadcast_to(x[1], (5, x.shape[1])),
    "one row": lambda x: x[3:4, 1:],
    "no row": lambda x: x[:0, :32],
    "one column": lambda x: x[:, 4:5],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_reads(view, target):
    for dtype in (np.dtype(np.float32), BF16):
        x = view(np.arange(17 * 48).reshape(17, 48).astype(dtype))
        y = np.full(x.shape, np.nan, np.float32)
        doubled(x, y)
        np.testing.assert_array_equal(y, x.astype(np.float32) * 2)


@pytest.mark.parametrize("where", [{"right": 5}, {"left": 1}, {"left": 4, "right": 4}, {"step": 2}])
def test_writes_change_nothing_in_the_gaps(where, target):
    x = np.arange(7 * 40, dtype=np.float32).reshape(7, 40)
    y, whole = room(x.shape, np.float32, **where)
    doubled(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert (whole == 77).sum() == whole.size - x.size


def test_in_place_and_side_by_side():
    """One strided array under two names is one tensor; the columns of one array are different tensors."""
    both = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    expected = both.copy()
    doubled(both[:, :32], both[:, 32:])
    expected[:, 32:] = 2 * expected[:, :32]
    np.testing.assert_array_equal(both, expected)
    doubled(both[:, 8:40], both[:, 8:40])
    expected[:, 8:40] *= 2
    np.testing.assert_array_equal(both, expected)
    with pytest.raises(mt.MinitileError, match="X and Y overlap, and the kernel writes Y"):
        doubled(both[:, :32], both[:, 31:63])
    with pytest.raises(mt.MinitileError, match="overlap"):
        doubled(both[:8, :8], both[:8, :8].T)
    doubled(both[::2], both[1::2])
    np.testing.assert_array_equal(both[1::2], 2 * expected[::2])


HOW = {
    "rows": ({"right": 64}, True),
    "odd rows": ({"right": 1}, False),
    "off": ({"left": 1, "right": 63}, False),
}


@pytest.mark.parametrize(("where", "wide"), HOW.values(), ids=HOW)
def test_gemm(where, wide, target):
    rng = np.random.default_rng(0)
    arrays = [room(shape, BF16, **where)[0] for shape in ((96, 64), (64, 64), (96, 64))]
    a, b, c = arrays
    for each in arrays:
        each[:] = rng.standard_normal(each.shape).astype(BF16)
    matmul(a, b, c)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), exact, atol=0.1, rtol=0.01)
    text = matmul.executable(a, b, c).text
    fast = {
        "sm_80": "cp.async.cg.shared.global",
        "sm_90a": "cp.async.bulk.tensor.2d.shared",
        "gfx950": "buffer_load_dwordx4",
    }[target]
    assert (fast in text) == wide


def test_transposed_operand(target):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(BF16) for s in ((64, 64), (64, 64)))
    c = np.zeros((64, 64), BF16)
    matmul(a, b.T, c.T)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_allclose(c.T.astype(np.float64), exact, atol=0.1, rtol=0.01)


def test_what_makes_a_specialisation(monkeypatch):
    """Strides of 1 and 0, and what divides the others up to 16 bytes; no other numbers."""
    from minitile.driver import jit

    made = []
    real = jit.CompiledKernel

    def counting(case, target, passes):
        made.append(case.strides)
        return real(case, target, passes)

    monkeypatch.setattr(jit, "CompiledKernel", counting)

    @mt.kernel
    def first(X: T.Tensor(("M", "N"), T.float32), Y: T.Tensor(("M",), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                if i < X.shape[0]:
                    Y[i] = X[i, 0]

    y = np.zeros(4, np.float32)
    for width, more in ((64, 1), (80, 0), (96, 0), (66, 1), (98, 0), (65, 1), (97, 0)):
        before = len(made)
        first(np.zeros((4, width), np.float32)[:, :32], y)
        assert len(made) - before == more, width
    assert made[0] == {"X": ("X_stride0", 1)}
    first(np.zeros((32, 4), np.float32).T, y)
    assert made[-1] == {"X": (1, "X_stride1")}
    first(np.broadcast_to(np.zeros(32, np.float32), (4, 32)), y)
    assert made[-1] == {"X": (0, 1)}
    first(np.zeros((4, 32), np.float32), y)
    assert made[-1] == {}


def test_vectors_along_the_contiguous_dimension():
    """A transposed tensor has them along its first dimension."""

    @mt.kernel
    def copied(X: T.Tensor(("M", 64), T.float32), Y: T.Tensor(("M", 64), T.float32)):
        with T.Kernel(T.ceildiv(X.shape[0], 64), threads=128) as bx:
            for i, j in T.Parallel(64, 64):
                Y[bx * 64 + i, j] = X[bx * 64 + i, j]

    turned = mt.spec((128, 64), "float32", (1, 128))
    text = copied.compile(turned, turned, target="sm_80").asm["ptx"]
    assert "ld.global.v4.f32" in text
    assert "ld.global.f32" not in text
    unaligned = mt.spec((128, 64), "float32", aligned=False)
    text = copied.compile(unaligned, unaligned, target="sm_80").asm["ptx"]
    assert "ld.global.v4.f32" not in text


class TestStridedTensor:
    @staticmethod
    def kernel():
        @mt.kernel
        def shifted(
            X: T.StridedTensor(("M", 32), ("row", 1), T.float32),
            Y: T.StridedTensor(("M", 32), ("row", 1), T.float32),
            S: T.Tensor((2,), T.int32),
        ):
            with T.Kernel(T.ceildiv(X.shape[0], 4), threads=128) as bx:
                for i, j in T.Parallel(4, 32):
                    Y[bx * 4 + i, j] = X[bx * 4 + i, j] + 1
                if bx == 0:
                    S[0], S[1] = X.strides[0], X.strides[1]

        return shifted

    def test_run(self, target):
        x, y = np.arange(9 * 40, dtype=np.float32).reshape(9, 40), np.zeros((9, 40), np.float32)
        s = np.zeros(2, np.int32)
        self.kernel()(x[:, 4:36], y[:, :32], s)
        np.testing.assert_array_equal(y[:, :32], x[:, 4:36] + 1)
        assert not y[:, 32:].any()
        assert s.tolist() == [40, 1]

    def test_contiguous_arrays_fit(self):
        x, y, s = np.ones((5, 32), np.float32), np.zeros((5, 32), np.float32), np.zeros(2, np.int32)
        self.kernel()(x, y, s)
        assert (y == 2).all()
        assert s.tolist() == [32, 1]

    def test_others_do_not(self):
        x = np.zeros((8, 80), np.float32)
        s = np.zeros(2, np.int32)
        with pytest.raises(mt.MinitileError, match=r"row is 80 in X.strides\[0\], but 40 in Y.strides\[0\]"):
            self.kernel()(x[:, :32], np.zeros((8, 40), np.float32)[:, :32], s)
        with pytest.raises(mt.MinitileError, match=r"X.strides\[1\] is 2, the kernel takes 1"):
            self.kernel()(x[:, :64:2], x[:, :64:2], s)

    def test_declarations(self):
        with pytest.raises(mt.MinitileError, match="has 2 dimensions and 1 strides"):
            T.StridedTensor(("M", "N"), ("s",))
        with pytest.raises(mt.MinitileError, match=r"a stride of T\.StridedTensor is 1\.5"):
            T.StridedTensor(("M", "N"), ("s", 1.5))
        with pytest.raises(mt.MinitileError, match=r"T\.StridedTensor without a shape"):

            @mt.kernel
            def bare(X: T.StridedTensor):
                pass


def test_compiled_for_strides_in_specs():
    compiled = doubled.compile(mt.spec(("M", 64), "float32", (128, 1)), mt.spec(("M", 64), "float32"), target="sm_80")
    assert "tensor<MxNxf32, strides (X_stride0, 1)>" in compiled.asm["traced_ir"]
    x, y = np.ones((4, 128), np.float32), np.zeros((4, 64), np.float32)
    compiled(x[:, :64], y)
    assert (y == 2).all()
    assert LaunchInfo.from_json(json.loads(json.dumps(compiled.launch_info.to_json()))) == compiled.launch_info
    with pytest.raises(mt.MinitileError, match="compiled for X_stride0 divisible by 4, but X_stride0 is 65"):
        compiled(np.ones((4, 65), np.float32)[:, :64], y)
    with pytest.raises(mt.MinitileError, match="a spec of 2 dimensions has 1 strides"):
        mt.spec((4, 4), "float32", (1,))


def test_types():
    assert tensor_type(("M", "N"), f32, ("N", 1)) == TensorType(("M", "N"), f32)
    assert tensor_type(("M", 4, 8), f32, (32, 8, 1)) == TensorType(("M", 4, 8), f32)
    assert tensor_type(("M", "N"), f32, ("s", 1)).strides == ("s", 1)
    assert TensorType(("M", "N"), bf16).contiguous_dim == 1
    assert TensorType(("M", "N"), bf16, (1, "s")).contiguous_dim == 0
    assert TensorType(("M", "N"), bf16, ("s", "t")).contiguous_dim is None
    text = doubled.trace(mt.spec((4, 64), "float32", (-3, 2), aligned=False), mt.spec((4, 64), "float32"))
    again = parse_kernel(print_kernel(text))
    assert print_kernel(again) == print_kernel(text)
    assert str(again.params[0].type) == "tensor<MxNxf32, strides (X_stride0, X_stride1), align 4>"


def test_large_strides():
    """A stride of 2^30 elements and more goes in 64 bits."""
    compiled = doubled.compile(mt.spec((4, 64), "float32", (1 << 31, 1)), mt.spec((4, 64), "float32"), target="sm_80")
    (stride,) = (p for p in compiled.launch_info.params if p.source == ("dim", "X_stride0"))
    assert stride.dtype == "i64"


@pytest.mark.gpu
def test_on_a_gpu():
    torch = pytest.importorskip("torch")
    for view in (lambda x: x.T, lambda x: x[:, :32], lambda x: x[:, 3:36], lambda x: x[::2, ::2], lambda x: x[1:2]):
        for dtype in (torch.float32, torch.bfloat16):
            x = view(torch.arange(17 * 48, device="cuda").reshape(17, 48).to(dtype))
            y = torch.full((x.shape[0], 2 * x.shape[1]), 77.0, device="cuda")
            for _ in range(2):
                doubled(x, y[:, ::2])
            assert torch.equal(y[:, ::2], x.float() * 2)
            assert (y[:, 1::2] == 77).all()
    for where, _ in HOW.values():
        a, b, c = (torch.from_numpy(room((96, 96), np.float32, **where)[1]).cuda().bfloat16() for _ in range(3))
        left = where.get("left", 0)
        a, b, c = (whole[1:-1, left : left + 96] for whole in (a, b, c))
        a[:], b[:] = torch.randn(96, 96), torch.randn(96, 96)
        for left_operand, right, out in ((a, b, c), (a, b.T, c), (a.T, b, c.T)):
            matmul(left_operand, right, out)
            torch.testing.assert_close(out.float(), left_operand.float() @ right.float(), atol=0.25, rtol=0.02)
