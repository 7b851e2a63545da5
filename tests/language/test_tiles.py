"""Buffers, regions, tile operations: what they do (in the simulator), and what they refuse."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.layout.shared import row_major, swizzled


def test_copy_forms():
    """Starts, slices, whole buffers, dropped dimensions, dimensions of one element, casts."""

    @mt.kernel
    def kernel(
        A: T.Tensor((3, 64, 32), T.float32), B: T.Tensor((64, 32), T.float16), C: T.Tensor((4, 32, 32), T.float32)
    ):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 32), T.float32)
            f = T.alloc_fragment((32, 32), T.float32)
            T.copy(A[1, 32, 0], s)
            T.copy(s, C[0, :, :])
            T.copy(A[2, 8:40, :], f)
            T.copy(f, C[1, 0, 0])
            T.copy(B[16:48, 0:32], s)
            T.copy(s[:, :], f)
            T.copy(f, C[2])
            T.copy(A[0:1, 0:16, :], s[0:16, :])
            T.copy(A[0, 16 : 16 + 16, ...], s[16:32, 0:32])
            T.copy(s, C[3, 0:32, 0:32])

    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 64, 32)).astype(np.float32)
    b = rng.standard_normal((64, 32)).astype(np.float16)
    c = np.zeros((4, 32, 32), np.float32)
    kernel(a, b, c)
    np.testing.assert_array_equal(c, [a[1, 32:], a[2, 8:40], b[16:48].astype(np.float32), a[0, :32]])


def test_bounds_of_tensors():
    @mt.kernel
    def kernel(A: T.Tensor(("M", "N"), T.float32), C: T.Tensor(("M", "N"), T.float32)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 32), T.float32)
            T.fill(s, 7)
            T.copy(A[0, 0], s)
            T.copy(s, C[1, 1])

    a = np.ones((5, 9), np.float32)
    c = np.full((5, 9), -1, np.float32)
    kernel(a, c)
    want = np.full((5, 9), -1, np.float32)
    want[1:, 1:] = 1
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
def test_gemm(ta, tb):
    @mt.kernel
    def kernel(A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 100)
            T.gemm(a, b, c, transpose_A=ta, transpose_B=tb, clear_accum=True)
            T.gemm(a, b, c, ta, tb, policy=T.GemmWarpPolicy.FullRow)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    kernel(a, b, c)
    x, y = (m.astype(np.float32).T if t else m.astype(np.float32) for m, t in ((a, ta), (b, tb)))
    np.testing.assert_allclose(c, 2 * (x @ y), rtol=1e-4, atol=1e-3)


def test_reductions():
    kinds = ["sum", "max", "min", "absmax", "abssum"]

    @mt.kernel
    def kernel(A: T.Tensor((16, 64), T.float32), C: T.Tensor((10, 64), T.float32)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((16, 64), T.float32)
            rows = T.alloc_fragment((16,), T.float32)
            columns = T.alloc_fragment((64,), T.float32)
            T.copy(A, f)
            for n, op in enumerate((T.reduce_sum, T.reduce_max, T.reduce_min, T.reduce_absmax, T.reduce_abssum)):
                op(f, rows, dim=1)
                T.copy(rows, C[2 * n, 0:16])
                T.fill(columns, 1.5)
                op(f, columns, 0, clear=False)
                T.copy(columns, C[2 * n + 1, :])

    a = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    c = np.zeros((10, 64), np.float32)
    kernel(a, c)
    numpy_op = {"sum": np.sum, "max": np.max, "min": np.min, "absmax": np.max, "abssum": np.sum}
    join = {"sum": np.add, "max": np.maximum, "min": np.minimum, "absmax": np.maximum, "abssum": np.add}
    for n, kind in enumerate(kinds):
        x = abs(a) if kind.startswith("abs") else a
        np.testing.assert_allclose(c[2 * n, :16], numpy_op[kind](x, axis=1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(c[2 * n + 1], join[kind](numpy_op[kind](x, axis=0), 1.5), rtol=1e-5, atol=1e-5)


def test_atomics():
    @mt.kernel
    def kernel(A: T.Tensor((4, 32), T.int32), S: T.Tensor((6,), T.int32), C: T.Tensor((4, 32), T.int32)):
        with T.Kernel(4, threads=32) as bx:
            f = T.alloc_fragment((4, 32), T.int32)
            T.copy(A, f)
            T.atomic_add(C, f)
            T.atomic_add(C[bx, 0], f[0:1, :])
            for i in T.Parallel(32):
                T.atomic_add(S[0], A[bx, i])
                T.atomic_max(S[1], A[bx, i])
                T.atomic_min(S[2], A[bx, i])
                T.atomic_or(S[3], A[bx, i])
                T.atomic_xor(S[4], A[bx, i])
                T.atomic_and(S[5], A[bx, i])

    a = np.random.default_rng(0).integers(0, 1000, (4, 32)).astype(np.int32)
    s = np.array([0, 0, 1000, 0, 0, -1], np.int32)
    c = np.zeros((4, 32), np.int32)
    kernel(a, s, c)
    reduced = [np.add, np.maximum, np.minimum, np.bitwise_or, np.bitwise_xor, np.bitwise_and]
    assert s.tolist() == [op.reduce(a, axis=None) for op in reduced]
    np.testing.assert_array_equal(c, 4 * a + a[0])


@pytest.mark.parametrize("target", ["sm_80", "gfx942", "gfx950"])
def test_float_extremes_of_several_blocks(target, monkeypatch):
    """Numbers of both signs and of one, with NaNs among them; the old value is -inf once, then some block's."""
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    monkeypatch.setenv("MINITILE_TARGET", target)

    @mt.kernel
    def kernel(
        A: T.Tensor((6, 64), T.float32),
        Most: T.Tensor((9,), T.float32),
        Least: T.Tensor((9,), T.float32),
        Old: T.Tensor((6, 64), T.float32),
    ):
        with T.Kernel(6, threads=64) as bx:
            inside = T.alloc_shared((2,), T.float32)
            for i in T.Parallel(2):
                inside[i] = A[bx, 0]
            for i in T.Parallel(64):
                T.atomic_max(inside[0], A[bx, i])
                T.atomic_min(inside[1], A[bx, i])
                T.atomic_max(Most[1 + i % 8], A[bx, i])
                T.atomic_min(Least[1 + i % 8], A[bx, i])
            for i in T.Parallel(64):
                Old[bx, i] = T.atomic_max(Most[0], inside[0], return_prev=True)
                T.atomic_min(Least[0], inside[1])

    rng = np.random.default_rng(0)
    for middle in (0, 9, -9):
        a = rng.normal(middle, 2, (6, 64)).astype(np.float32)
        a[:, 5::7] = np.nan
        most, least, old = np.full(9, -np.inf, np.float32), np.full(9, np.inf, np.float32), np.zeros_like(a)
        kernel(a, most, least, old)
        assert most.tolist() == [np.nanmax(a), *np.nanmax(a.reshape(48, 8), 0)]
        assert least.tolist() == [np.nanmin(a), *np.nanmin(a.reshape(48, 8), 0)]
        of_blocks = np.nanmax(a, 1)
        assert set(old.ravel()) <= {-np.inf, *of_blocks}
        assert np.count_nonzero(old == -np.inf) == 1


def test_lone_elements_of_a_fragment():
    @mt.kernel
    def kernel(C: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((64,), T.float32)
            T.clear(f)
            f[3] = 5
            f[4] = f[3] + 1
            T.copy(f, C)

    c = np.ones(64, np.float32)
    kernel(c)
    want = np.zeros(64, np.float32)
    want[3:5] = [5, 6]
    np.testing.assert_array_equal(c, want)


def test_per_thread_memory():
    @mt.kernel
    def kernel(A: T.Tensor((64, 4), T.float32), C: T.Tensor((64, 4), T.float32), threads=64):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding(0)
            own = T.alloc_local((4,), T.float32)
            for i in T.vectorized(4):
                own[i] = A[tx, i]
            for i in T.serial(4):
                C[tx, i] = own[3 - i] * 2

    a = np.arange(256, dtype=np.float32).reshape(64, 4)
    c = np.zeros_like(a)
    kernel(a, c)
    np.testing.assert_array_equal(c, a[:, ::-1] * 2)


def test_block_indices():
    @mt.kernel
    def kernel(C: T.Tensor((2, 3, 4), T.int32)):
        with T.Kernel(4, 3, 2, threads=32) as (bx, by, bz):
            C[bz, by, bx] = bx + 10 * by + 100 * T.get_block_binding(2)

    c = np.zeros((2, 3, 4), np.int32)
    kernel(c)
    z, y, x = np.indices(c.shape)
    np.testing.assert_array_equal(c, x + 10 * y + 100 * z)


@pytest.mark.parametrize("order", ["row", "column", "hilbert"])
@pytest.mark.parametrize("shape", [(4, 5), (7, 3), (1, 9), (8, 8)])
def test_swizzle_visits_every_block_once(order, shape):
    rows, columns = shape

    @mt.kernel
    def kernel(C: T.Tensor((rows, columns), T.int32), N: T.Tensor((rows, columns), T.int32)):
        with T.Kernel(columns, rows, threads=32) as (bx, by):
            T.use_swizzle(3, order=order)
            if T.get_thread_binding() == 0:
                T.atomic_add(C[by, bx], 1)

    c = np.zeros(shape, np.int32)
    kernel(c, np.zeros_like(c))
    np.testing.assert_array_equal(c, np.ones(shape))


def visited(kernel, blocks):
    """The indices at which each block stores, by the order in which blocks start."""
    launch, store = launch_of(kernel)
    given = ({**dict(zip(launch.body.args, block, strict=False)), launch.body.args[2]: 0} for block in blocks)
    return [tuple(evaluate(index, known) for index in store.indices) for known in given]


def launch_of(kernel):
    """The launch of a kernel, and its only store."""
    (launch,) = [op for op in mt.kernel(kernel).trace().walk() if op.mnemonic == "launch"]
    (store,) = [op for op in launch.body.walk() if op.mnemonic == "store"]
    return launch, store


def evaluate(v, known):
    """A value of scalar arithmetic on what is known."""
    compute = {
        "mul": int.__mul__,
        "add": int.__add__,
        "sub": int.__sub__,
        "floordiv": int.__floordiv__,
        "within": lambda a, *_: a,
        "floormod": int.__mod__,
        "min": min,
        "select": lambda condition, a, b: a if condition else b,
    }
    if v in known:
        return known[v]
    if v.op.mnemonic == "constant":
        return v.op.value
    values = [evaluate(o, known) for o in v.op.operands]
    if v.op.mnemonic == "cmp":
        return {"lt": int.__lt__, "le": int.__le__}[v.op.predicate](*values)
    return compute[v.op.mnemonic](*values)


def test_swizzle_order():
    """Blocks that start one after the other share columns: a panel of rows is walked column by column."""

    def kernel(C: T.Tensor((4, 8), T.int32)):
        with T.Kernel(8, 4, threads=32) as (bx, by):
            T.use_swizzle(2)
            C[by, bx] = 1

    found = visited(kernel, [(n % 8, n // 8) for n in range(6)])
    assert found == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("shape", [(32, 32), (16, 17), (5, 7), (3, 60), (1, 1)], ids=str)
def test_swizzle_over_xcds(shape, order):
    """Every tile once. The blocks of a die, every eighth one, have squares of 2 x 2 tiles, one after the other; those
    at the end, which make no square for each die, stay where they are."""
    rows, columns = shape

    def kernel(C: T.Tensor((rows, columns), T.int32)):
        with T.Kernel(columns, rows, threads=32) as (bx, by):
            T.use_swizzle(2, order=order, num_xcds=8)
            C[by, bx] = 1

    found = visited(kernel, [(n % columns, n // columns) for n in range(rows * columns)])
    assert sorted(found) == [(y, x) for y in range(rows) for x in range(columns)]
    if shape == (32, 32):
        for xcd in range(8):
            mine = found[xcd::8]
            for start in range(0, len(mine), 4):
                y, x = mine[start]
                assert sorted(mine[start : start + 4]) == [(y, x), (y, x + 1), (y + 1, x), (y + 1, x + 1)]


@pytest.mark.parametrize("blocks", [1, 7, 8, 19, 60, 200])
@pytest.mark.parametrize("shape", [(16, 17), (5, 7), (3, 60), (1, 1)], ids=str)
def test_swizzle_over_xcds_of_blocks_that_stay(shape, blocks):
    """Every tile once; in each whole turn the blocks of a die, every eighth, have neighbours in the panels' order."""
    rows, columns = shape

    def plain(C: T.Tensor((rows, columns), T.int32)):
        with T.Kernel(columns, rows, threads=32) as (bx, by):
            T.use_swizzle(2)
            C[by, bx] = 1

    def kernel(C: T.Tensor((rows, columns), T.int32)):
        with T.Kernel(columns, rows, threads=32, persistent=blocks) as (bx, by):
            T.use_swizzle(2, num_xcds=8)
            C[by, bx] = 1

    total = rows * columns
    order = visited(plain, [(n % columns, n // columns) for n in range(total)])
    launch, store = launch_of(kernel)
    (loop,) = [op for op in launch.body.walk() if op.mnemonic == "for"]
    started = evaluate(launch.grid[0], {})
    assert started == min(blocks, total)

    def tile(block, number):
        known = {launch.body.args[0]: block, loop.iv: number}
        return tuple(evaluate(index, known) for index in store.indices)

    taken = [[tile(block, number) for number in range(block, total, blocks)] for block in range(started)]
    assert sorted(t for mine in taken for t in mine) == sorted(order)
    for turn in range(total // started):
        tiles = [taken[block][turn] for xcd in range(8) for block in range(xcd, started, 8)]
        assert tiles == order[turn * started : (turn + 1) * started]
    last = total // started
    assert [mine[last] for mine in taken if len(mine) > last] == order[last * started :]


def test_dies_are_counted():
    def kernel(C: T.Tensor((4, 8), T.int32)):
        with T.Kernel(8, 4, threads=32) as (bx, by):
            T.use_swizzle(2, num_xcds=0)
            C[by, bx] = 1

    with pytest.raises(mt.MinitileError, match="num_xcds=0"):
        mt.kernel(kernel).trace()


def test_orders_have_names():
    def kernel(C: T.Tensor((4, 8), T.int32)):
        with T.Kernel(8, 4, threads=32) as (bx, by):
            T.use_swizzle(2, order="peano")
            C[by, bx] = 1

    with pytest.raises(mt.MinitileError, match="order='peano'"):
        mt.kernel(kernel).trace()


def test_kernel_targets_and_names(ops):
    def kernel(A: T.Tensor((4,), T.float32)):
        with T.Kernel(3) as column:
            buffer = T.alloc_shared((4,), T.float32)
            total = A[column] * 2
            buffer[0] = total

    (launch,) = ops(kernel, "launch")
    assert launch.threads == 128
    assert launch.body.args[0].name == "column"
    assert [op.result.name for op in ops(kernel, "alloc", "mul")] == ["buffer", "total"]


def test_annotated_layouts():
    @mt.kernel
    def transpose(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32), layout=None):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), T.float32)
            T.annotate_layout({s: layout})
            T.copy(A, s)
            for i, j in T.Parallel(64, 64):
                B[i, j] = s[j, i]

    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    for layout in (row_major((64, 64), 32), row_major((64, 64), 32, 4), swizzled((64, 64), 32)):
        b = np.zeros_like(a)
        transpose(a, b, layout)
        np.testing.assert_array_equal(b, a.T)
        assert str(layout) in transpose.compile(target="sm_80", layout=layout).asm["tile_ir"]
    with pytest.raises(mt.MinitileError, match="is no layout of the shared buffer s"):
        transpose.trace(layout=row_major((64, 64), 16))


def test_attention():
    """Online softmax over pipelined key and value tiles, causal."""
    tile, dim, length = 32, 32, 96

    @mt.kernel
    def attention(
        Q: T.Tensor(("S", dim), T.float16),
        K: T.Tensor(("S", dim), T.float16),
        V: T.Tensor(("S", dim), T.float16),
        Out: T.Tensor(("S", dim), T.float32),
        stages=2,
    ):
        S, _ = Q.shape
        scale = 1.44269504 / dim**0.5
        with T.Kernel(T.ceildiv(S, tile), threads=64) as bx:
            q = T.alloc_shared((tile, dim), T.float16)
            k = T.alloc_shared((tile, dim), T.float16)
            v = T.alloc_shared((tile, dim), T.float16)
            scores = T.alloc_fragment((tile, tile), T.float32)
            weights = T.alloc_fragment((tile, tile), T.float16)
            out = T.alloc_fragment((tile, dim), T.float32)
            old, new, total, part = [T.alloc_fragment((tile,), T.float32) for _ in range(4)]
            T.copy(Q[bx * tile, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(new, -T.infinity(T.float32))
            for n in T.Pipelined(bx + 1, num_stages=stages):
                T.copy(K[n * tile, 0], k)
                T.copy(V[n * tile, 0], v)
                for i, j in T.Parallel(tile, tile):
                    scores[i, j] = 0 if bx * tile + i >= n * tile + j else -T.infinity(T.float32)
                T.gemm(q, k, scores, transpose_B=True)
                T.copy(new, old)
                T.reduce_max(scores, new, dim=1, clear=False)
                for i, j in T.Parallel(tile, tile):
                    scores[i, j] = T.exp2((scores[i, j] - new[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(tile):
                    old[i] = T.exp2((old[i] - new[i]) * scale)
                    total[i] = total[i] * old[i] + part[i]
                for i, j in T.Parallel(tile, dim):
                    out[i, j] *= old[i]
                T.copy(scores, weights)
                T.gemm(weights, v, out)
            for i, j in T.Parallel(tile, dim):
                Out[bx * tile + i, j] = out[i, j] / total[i]

    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((length, dim)).astype(np.float16) for _ in range(3))
    out = np.zeros((length, dim), np.float32)
    attention(q, k, v, out)
    scores = q.astype(np.float32) @ k.astype(np.float32).T / dim**0.5
    scores[np.triu_indices(length, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = weights @ v.astype(np.float32) / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, want, atol=3e-3)


def test_fp8_storage():
    @mt.kernel(target="sm_89")
    def kernel(A: T.Tensor((64,), T.float8_e4m3), C: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                C[i] = A[i] + 1.0 * T.float32(A[i])

    a = np.linspace(-20, 20, 64).astype(ml_dtypes.float8_e4m3fn)
    c = np.zeros(64, np.float32)
    kernel(a, c)
    np.testing.assert_array_equal(c, 2 * a.astype(np.float32))


class TestErrors:
    def test_copy_of_different_shapes(self, refuses):
        def kernel(A: T.Tensor((64, 64), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((32, 64), T.float32)
                T.copy(A[0:64, 0:32], s)

        refuses(kernel, "shapes differ: 64×32 from the tensor A (64×64 f32), 32×64 in the shared buffer s", at="T.copy")

    def test_copy_without_extents(self, refuses):
        def kernel(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32)):
            with T.Kernel(1):
                T.copy(A[0, 0], B[0, 0])

        refuses(kernel, "both sides are given by their start only")

    def test_copy_of_run_time_extent(self, refuses):
        def kernel(A: T.Tensor(("M", 64), T.float32), B: T.Tensor(("M", 64), T.float32), n: T.int32):
            with T.Kernel(1):
                T.copy(A, B)

        refuses(kernel, "neither side has a constant extent")

        def sliced(A: T.Tensor(("M", 64), T.float32), n: T.int32):
            with T.Kernel(1):
                s = T.alloc_shared((32, 64), T.float32)
                T.copy(A[0:n, :], s)

        refuses(sliced, "an extent that is not known at compile time", at="A[0:n, :]")

    def test_copy_of_rows_by_a_start_that_may_have_changed(self, refuses):
        """The hint is not what the program does already."""

        def kernel(A: T.Tensor(("P", 64), T.float32), t: T.Tensor((8,), T.int32)):
            with T.Kernel(1):
                s = T.alloc_shared((2, 64), T.float32)
                p = t[3] // 4
                t[3] = 8
                T.copy(A[2 * p : 2 * (t[3] // 4) + 2, :], s)

        unknown = "an extent that is not known at compile time"
        assert "p = t[i], and write p : p + 2, or only" in refuses(kernel, unknown, at="A[2 * p").hint

        def other(A: T.Tensor(("P", 64), T.float32), t: T.Tensor((8,), T.int32)):
            with T.Kernel(1):
                s = T.alloc_shared((2, 64), T.float32)
                T.copy(A[t[3] : t[2] + 2, :], s)

        assert "write start : start + constant" in refuses(other, unknown).hint

    @pytest.mark.parametrize("loaded", [False, True])
    def test_copy_of_rows_by_a_start_that_is_computed_twice(self, loaded):
        """The same computation gives the same start, also of what is read twice with nothing written between."""

        @mt.kernel
        def kernel(
            A: T.Tensor(("P", 64), T.float32), B: T.Tensor((2, 64), T.float32), t: T.Tensor((8,), T.int32), loaded=False
        ):
            with T.Kernel(1, threads=64):
                s = T.alloc_shared((2, 64), T.float32)
                p = t[3]
                if loaded:
                    T.copy(A[t[3] // 4 * 2 : t[3] // 4 * 2 + 2, :], s)
                else:
                    T.copy(A[p // 4 * 2 : p // 4 * 2 + 2, :], s)
                T.copy(s, B)

        a, b = np.arange(640, dtype=np.float32).reshape(10, 64), np.zeros((2, 64), np.float32)
        kernel(a, b, np.full(8, 9, np.int32), loaded=loaded)
        assert np.array_equal(b, a[4:6])

    def test_copy_float_to_integer(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((64,), T.int32)
                T.copy(A, s)

        refuses(kernel, "f32 is not cast to i32 silently")

    def test_region_outside_a_buffer(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((64,), T.float32)
                T.copy(s[32:96], A)

        refuses(kernel, "index 32 … 95 is outside dimension 0 (size 64) of the shared buffer s", at="s[32:96]")

    def test_start_without_room(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((32,), T.float32)
                T.copy(A[0:32], s[8])

        refuses(kernel, "index 8 … 39 is outside dimension 0")

    def test_index_outside_a_buffer(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((32,), T.float32)
                A[0] = s[32]

        refuses(kernel, "index 32 is outside dimension 0 (size 32)", at="s[32]")

        def negative(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((32,), T.float32)
                A[0] = s[-1]

        refuses(negative, "is negative", at="s[-1]")

    def test_rank(self, refuses):
        def kernel(A: T.Tensor((64, 64), T.float32)):
            with T.Kernel(1):
                A[0] = 1

        refuses(kernel, "has 2 dimensions and is indexed with 1", at="A[0]")

    def test_float_index(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                A[A[0]] = 1

        refuses(kernel, "is f32, not an integer")

    def test_slice_as_a_value(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                x = A[0:4]
                A[0] = x

        refuses(kernel, "a slice of the tensor A (64 f32) where one element is needed", at="A[0:4]")

    def test_tile_as_a_value(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((64,), T.float32)
                A[0] = s

        refuses(kernel, "one element takes a scalar")

    def test_arithmetic_on_a_tile(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_fragment((64,), T.float32)
                T.copy(s * 2, A)

        error = refuses(kernel, "arithmetic on the fragment s (64 f32) as a whole", at="s * 2")
        assert "T.Parallel" in error.hint

    def test_gemm_shapes(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                a = T.alloc_shared((64, 32), T.float16)
                b = T.alloc_shared((64, 32), T.float16)
                c = T.alloc_fragment((64, 64), T.float32)
                T.gemm(a, b, c)

        refuses(kernel, "K is 32 and 64", at="T.gemm")

        def wrong_result(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                a = T.alloc_shared((64, 32), T.float16)
                b = T.alloc_shared((64, 32), T.float16)
                c = T.alloc_fragment((64, 32), T.float32)
                T.gemm(a, b, c, transpose_B=True)

        refuses(wrong_result, "A and B make 64×64")

    @pytest.mark.parametrize(
        ("a", "b", "c", "text"),
        [
            ("f16", "bf16", "f32", "A is f16, B is bf16"),
            ("bf16", "bf16", "f16", "accumulates in f32, not f16"),
            ("i8", "i8", "f32", "accumulates in i32"),
            ("i16", "i16", "i32", "T.gemm on i16"),
        ],
    )
    def test_gemm_dtypes(self, refuses, a, b, c, text):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                x = T.alloc_shared((64, 64), a)
                y = T.alloc_shared((64, 64), b)
                z = T.alloc_fragment((64, 64), c)
                T.gemm(x, y, z)

        refuses(kernel, text, at="T.gemm")

    def test_gemm_of_a_tensor(self, refuses):
        def kernel(A: T.Tensor((64, 64), T.float16)):
            with T.Kernel(1):
                z = T.alloc_fragment((64, 64), T.float32)
                T.gemm(A, A, z)

        refuses(kernel, "T.gemm's A is the tensor A")

    def test_reduce_shape(self, refuses):
        def kernel(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                x = T.alloc_fragment((64, 32), T.float32)
                y = T.alloc_fragment((32,), T.float32)
                T.reduce_sum(x, y, dim=1)

        refuses(kernel, "along dimension 1 of the fragment x (64×32 f32) gives 64, not 32")

        def wrong_dim(A: T.Tensor((64,), T.float32)):
            with T.Kernel(1):
                x = T.alloc_fragment((64, 32), T.float32)
                T.reduce_sum(x, x, dim=2)

        refuses(wrong_dim, "dim=2 of a buffer with 2 dimensions")

    def test_run_time_shape(self, refuses):
        def kernel(A: T.Tensor(("M",), T.float32)):
            with T.Kernel(1):
                T.alloc_shared((A.shape[0],), T.float32)

        refuses(kernel, "the shape of T.alloc_shared must be known at compile time")

    def test_run_time_threads(self, refuses):
        def kernel(A: T.Tensor(("M",), T.float32)):
            with T.Kernel(1, threads=A.shape[0]):
                pass

        refuses(kernel, "threads must be known at compile time")

    @pytest.mark.parametrize("threads", [0, 100, 2048])
    def test_threads(self, refuses, threads):
        def kernel(A: T.Tensor(("M",), T.float32)):
            with T.Kernel(1, threads=threads):
                pass

        refuses(kernel, "a block has a multiple of 32 threads", at="T.Kernel")

    def test_buffer_outside_its_kernel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((4,), T.float32)
            T.copy(s, A)

        refuses(kernel, "T.copy outside T.Kernel", at="T.copy")

        def indexed(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((4,), T.float32)
            s[0] = 1

        refuses(indexed, "the shared buffer s (4 f32) is used outside the T.Kernel block", at="s[0]")

    def test_values_of_the_kernel_after_it(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1) as bx:
                A[0] = bx
            print(bx + 1)

        refuses(kernel, "'bx' belongs to the T.Kernel block", at="bx")

    def test_no_kernel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            pass

        refuses(kernel, "launches nothing")

    def test_two_kernels(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                pass
            with T.Kernel(1):
                pass

        refuses(kernel, "a second T.Kernel")

    def test_kernel_under_a_condition(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32), n: T.int32):
            if n > 1:
                with T.Kernel(1):
                    pass

        refuses(kernel, "T.Kernel in the `if`")

    def test_store_outside_a_kernel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            A[0] = 1

        refuses(kernel, "is accessed outside T.Kernel", at="A[0]")

    def test_atomic_on_a_fragment(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                f = T.alloc_fragment((4,), T.float32)
                T.atomic_add(f[0], 1)

        refuses(kernel, "atomics are for tensors and shared buffers")

    def test_wrong_arguments(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                T.copy(A)

        refuses(kernel, "missing 1 required positional argument: 'dst'", at="T.copy(A)")

    def test_planned_names(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                T.gemm_sp(A, A)

        refuses(kernel, "T.gemm_sp is planned", at="T.gemm_sp")

    def test_unknown_names(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                T.copi(A, A)

        refuses(kernel, "there is no T.copi; did you mean T.copy?", at="T.copi")
