"""`mt.jax_op`, and kernels called under jax.jit. Skipped without JAX; on the CPU the simulator computes, with
MINITILE_GPU=1 the GPU that JAX has."""

from __future__ import annotations

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver import jax_op, results
from minitile.runtime import xla_ffi
from tests.driver.framework_kernels import affine, increment

jax = pytest.importorskip("jax")
pytest.importorskip("jax.ffi")
jnp = jax.numpy

GPU = os.environ.get("MINITILE_GPU") == "1" and jax.default_backend() == "gpu"


@mt.kernel
def squared(X: T.Tensor(("M", 64), T.float32), weight: T.Tensor((64,), T.float32), rows=4):
    """X² · weight, and X²; and memory that is not returned."""
    M = X.shape[0]
    Y, Z, work = T.empty((M, 64), T.float32), T.empty((M, 64), T.float32), T.empty(32, T.int32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        for i, j in T.Parallel(rows, 64):
            x = X[bx * rows + i, j]
            Y[bx * rows + i, j] = x * x * weight[j]
            Z[bx * rows + i, j] = x * x
        if bx == 0:
            work[0] = 1
    return Y, Z


@mt.kernel
def squared_backward(
    grad_Y: T.Tensor(("M", 64), T.float32),
    grad_Z: T.Tensor(("M", 64), T.float32),
    X: T.Tensor(("M", 64), T.float32),
    weight: T.Tensor((64,), T.float32),
    rows=4,
):
    D = T.empty((X.shape[0], 64), T.float32)
    with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
        for i, j in T.Parallel(rows, 64):
            at = bx * rows + i
            D[at, j] = 2 * X[at, j] * (grad_Y[at, j] * weight[j] + grad_Z[at, j])
    return D


@mt.kernel
def doubled(X: T.Tensor(("M", 32), T.float32), Y: T.Tensor(("M", 32), T.float32)):
    with T.Kernel(T.ceildiv(X.shape[0], 4), threads=128) as bx:
        for i, j in T.Parallel(4, 32):
            Y[bx * 4 + i, j] = X[bx * 4 + i, j] * 2


def array(*shape, dtype=np.float32, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 64), (1, 1), (5, 96), (17, 131)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_under_jit(shape, dtype):
    x, bias = array(*shape, dtype=dtype), array(shape[1], seed=1)
    found = jax.jit(lambda x, bias: affine(x, 2.0, bias) - 1)(x, bias)
    assert found.shape == shape
    close(found, np.asarray(x, np.float64) * 2 + np.asarray(bias, np.float64) - 1)
    close(jax.jit(lambda x: affine(x, scale=3, rows=2))(x), np.asarray(x, np.float64) * 3)


def test_calls_of_all_kinds_of_arrays():
    """A kernel that NumPy's arrays have made ready takes traced ones, and the other way round."""
    kernel = affine.configured(rows=2)
    x = array(5, 96)
    numbers = np.asarray(x)
    for _ in range(2):
        close(kernel(numbers, 2.0), 2 * numbers)
        close(jax.jit(lambda x: kernel(x, 2.0))(x), 2 * numbers)
        close(kernel(x, 2.0), 2 * numbers)
        close(jax.jit(lambda x: kernel(x, 2.0, numbers[0]))(x), 2 * numbers + numbers[0])


def test_transformations():
    x, weight = array(3, 5, 64), array(64, seed=1)
    y, z = jax.jit(jax.vmap(lambda x: squared(x, weight)))(x)
    close(z, np.asarray(x) ** 2)
    close(y, np.asarray(x) ** 2 * np.asarray(weight))

    def step(x, _):
        return squared(x, weight)[0] / 2, None

    close(jax.lax.scan(step, x[0], None, length=3)[0], _repeated(np.asarray(x[0], np.float64), np.asarray(weight)))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    spread = getattr(jax, "shard_map", None)
    if spread is not None:
        by_rows = jax.sharding.PartitionSpec("rows")
        whole = jax.sharding.PartitionSpec()
        part = spread(lambda x, w: squared(x, w), mesh=mesh, in_specs=(by_rows, whole), out_specs=by_rows)
        close(jax.jit(part)(x[0], weight)[1], np.asarray(x[0]) ** 2)


def _repeated(x, weight):
    for _ in range(3):
        x = x * x * weight / 2
    return x


@pytest.mark.parametrize("backward", [squared_backward, "function"])
def test_gradients(backward):
    def in_jax(grad_Y, grad_Z, X, weight):
        return 2 * X * (grad_Y * weight + grad_Z), (grad_Y * X * X).sum(0)

    backward = in_jax if backward == "function" else backward
    op = mt.jax_op(squared, backward=backward)
    x, weight, c = array(5, 64), array(64, seed=1), array(5, 64, seed=2)

    def loss(op, x, weight):
        y, z = op(x, weight)
        return (y * c + jnp.sin(z)).sum()

    found = jax.jit(jax.grad(lambda x, w: loss(op, x, w), argnums=(0, 1)))(x, weight)
    wanted = jax.grad(lambda x, w: loss(lambda x, w: (x * x * w, x * x), x, w), argnums=(0, 1))(x, weight)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-5)
    if backward is in_jax:
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-5)
    else:
        assert not found[1].any()


def test_gradients_by_result_and_scalar():
    op = mt.jax_op(affine, backward=lambda grad, scale, Y, bias=None: (grad * scale, Y.sum(0)), gradients=("X", "bias"))
    x, bias = array(5, 96), array(96, seed=1)
    dx, dbias = jax.grad(lambda x, b: op(x, 3.0, bias=b).sum(), argnums=(0, 1))(x, bias)
    close(dx, np.full((5, 96), 3))
    np.testing.assert_allclose(dbias, (np.asarray(x) * 3 + np.asarray(bias)).sum(0), rtol=1e-5, atol=1e-5)
    close(jax.grad(lambda x: op(x, 3.0).sum())(x), np.full((5, 96), 3))


def test_what_is_written():
    """A tensor that is passed and written is a result; the argument stays as it is, donated or not."""
    op = mt.jax_op(increment)
    x, y = array(300), array(300, seed=1)
    before = np.asarray(y).copy()
    for call in (op, jax.jit(op), jax.jit(lambda x, y: op(x, Y=y))):
        close(call(x, y), before + np.asarray(x))
        close(y, before)
    close(op(x, y, by=3), before + 3 * np.asarray(x))
    close(jax.jit(lambda x: op(x, x))(x), 2 * np.asarray(x))
    close(jax.jit(op, donate_argnums=1)(x, y + 0), before + np.asarray(x))
    double = mt.jax_op(doubled, out="Y")
    assert double.__name__ == "doubled"
    close(jax.jit(double)(jnp.ones((7, 32))), np.full((7, 32), 2))


def test_of_a_gpu_or_the_host():
    """Without jit too a call's results are where its arguments are."""
    x = array(5, 96)
    y = affine(x, 2.0)
    assert isinstance(y, jax.Array)
    assert y.devices() == x.devices()
    close(y, 2 * np.asarray(x))
    with pytest.raises(mt.MinitileError, match="increment writes Y, and this array is read-only"):
        increment(x[0], x[1])
    if GPU:
        compiled = increment.compile(mt.spec((96,), "float32"), mt.spec((96,), "float32"))
        with pytest.raises(mt.MinitileError, match="launched on by JAX alone"):
            compiled(x[0], x[1])


def test_without_jit_as_on_a_gpu(monkeypatch):
    """Calls with arrays of a GPU go through JAX, whatever the kernel has been called with before."""
    kernel = affine.configured(rows=2)
    numbers = np.asarray(array(5, 96))
    kernel(numbers, 2.0)
    kernel(array(5, 96), 2.0)
    monkeypatch.setattr(jax_op, "_on_device", lambda array: True)
    monkeypatch.setitem(results._MAKERS, type(array(1)), (_no_array, None))
    seen, real = [], jax_op.call_by_jax
    monkeypatch.setattr(jax_op, "call_by_jax", lambda *given: seen.append(given) or real(*given))
    for each in (kernel, affine.configured(rows=8)):
        close(each(array(5, 96), 2.0), 2 * numbers)
        close(each(numbers, 2.0), 2 * numbers)
    assert len(seen) == 2


def _no_array(*_):
    raise mt.MinitileError("no results are made beside arrays of a GPU")


def test_captured_values():
    """What the kernel captures is as it was when the program was traced."""
    by = 2

    @mt.kernel
    def times(X: T.Tensor(("N",), T.float32)):
        Y = T.empty(X.shape[0], T.float32)
        with T.Kernel(T.ceildiv(X.shape[0], 128), threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i] * by
        return Y

    x = array(130)
    program = jax.jit(lambda x: times(x))
    close(program(x), 2 * np.asarray(x))
    by = 3
    close(jax.jit(lambda x: times(x) + 0)(x), 3 * np.asarray(x))
    close(program(x), 2 * np.asarray(x))
    by = 4
    lowered = jax.jit(lambda x: times(x)).lower(x).compile()
    by = 5
    with pytest.raises(Exception, match="reads variables that have changed since its call"):
        jax.block_until_ready(lowered(x))


def test_threads():
    """XLA calls back from its threads while others hold the interpreter's lock."""
    x = array(5, 96)
    program = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda _, y: affine(y, 1.0) + 1, x))
    program(x, 1)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda n: np.asarray(program(x, n)), [1, 2, 3]))
    for n, each in enumerate(found, start=1):
        np.testing.assert_allclose(each, np.asarray(x) + n, rtol=1e-5, atol=1e-5)
    assert threading.active_count() < 100


def test_programs_name_their_kernels():
    """By what the kernels do, so that a program that XLA has kept for another process runs the same."""

    def text(kernel, scale):
        return jax.jit(lambda x: kernel(x, scale)).lower(array(5, 96)).as_text()

    def key(text):
        return text.partition('call = "')[2].partition('"')[0]

    assert key(text(affine, 2.0)) == key(text(affine.configured(rows=4), 2))
    assert len({key(text(affine, 2.0)), key(text(affine, 3.0)), key(text(affine.configured(rows=2), 2.0))}) == 3
    assert "minitile" in text(affine, 2.0)


class TestErrors:
    def refuses(self, text, call, *args, **named):
        with pytest.raises(mt.MinitileError, match=text) as caught:
            call(*args, **named)
        assert "test_jax_op.py" in str(caught.value)

    def test_when_traced(self):
        x = array(5, 96)
        self.refuses("the scalar scale is traced by JAX", jax.jit(affine), x, 2.0)
        self.refuses("X has rank 1, the kernel takes 2", jax.jit(lambda x: affine(x[0], 2.0)), x)
        self.refuses("N is 96 in X.shape.1., but 3", jax.jit(lambda x: affine(x, 2.0, x[0, :3])), x)
        self.refuses("X is i32, the kernel takes f32", jax.jit(mt.jax_op(increment)), x[0].astype(int), x[0])
        self.refuses("increment writes Y, and this array is read-only", jax.jit(increment), x[0], x[1])
        self.refuses("is passed its result Y", jax.jit(lambda x: affine(x, 2.0, Y=x)), x)
        self.refuses("bias is list, and others are arrays of JAX", jax.jit(lambda x: affine(x, 2.0, [1])), x)
        with pytest.raises(Exception, match="differentiated"):
            jax.grad(lambda x: affine(x, 2.0).sum())(x)

    def test_when_made(self):
        self.refuses("is no kernel", mt.jax_op, lambda x: x)
        self.refuses("out='Z' is no tensor of doubled", mt.jax_op, doubled, out="Z")
        self.refuses("gradients: y is none of", mt.jax_op, doubled, backward=lambda grad: grad, gradients=("y",))
        x = array(5, 96)
        op = mt.jax_op(affine, backward=lambda Z: Z)
        self.refuses("backward's parameter Z is none of", op, x, 2.0)
        op = mt.jax_op(affine, backward=lambda grad: grad, gradients=("X", "bias"))
        self.refuses("backward returns 1 arrays", jax.grad(lambda x: op(x, 2.0).sum()), x)

        @mt.kernel
        def nothing(X: T.Tensor((32,), T.float32)):
            with T.Kernel(1, threads=32):
                T.clear(T.alloc_shared((32,), T.float32))

        self.refuses("nothing has no result", mt.jax_op(nothing), array(32))

    @pytest.mark.skipif(jax.default_backend() != "cpu", reason="the simulator finds races")
    def test_when_run(self):
        @mt.kernel
        def racing(X: T.Tensor((64,), T.float32)):
            Y = T.empty(1, T.float32)
            with T.Kernel(1, threads=64):
                Y[0] = X[T.get_thread_binding()]
            return Y

        with pytest.raises(Exception, match=r"(?s)two threads write the same bytes.*test_jax_op\.py"):
            jax.block_until_ready(jax.jit(lambda x: racing(x))(array(64)))

    def test_program_of_an_unknown_kernel(self, monkeypatch):
        monkeypatch.setattr(jax_op, "_keys_known", {})
        kernel = affine.configured(rows=8)
        program = jax.jit(lambda x: kernel(x, 2.0)).lower(array(5, 96)).compile()
        jax_op._keys_known.clear()
        with pytest.raises(Exception, match="that this process has not traced"):
            jax.block_until_ready(program(array(5, 96)))


class TestHandlers:
    """The interface to XLA, on the CPU."""

    @staticmethod
    def called(name, run, gpu=False):
        made = xla_ffi.handler(run, gpu)
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(made), platform="cpu")
        host = jax.devices("cpu")[0]
        x = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), host)
        call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((6,), np.float32))
        return np.asarray(jax.jit(lambda x: call(x, call="täxt"))(x))

    def test_frame(self):
        seen = []

        def run(text, arguments, results, queue):
            seen.append((text, arguments[0].shape, results[0].shape, queue))
            ctypes.memmove(results[0].data, arguments[0].data, 24)

        assert self.called("minitile_test_frame", run).tolist() == [0, 1, 2, 3, 4, 5]
        assert seen == [("täxt", (2, 3), (6,), None)]

    def test_errors(self):
        def run(text, arguments, results, queue):
            raise KeyError("nö")

        with pytest.raises(Exception, match="nö"):
            self.called("minitile_test_errors", run)

    def test_stream(self):
        """The CPU has no stream, and says so by an error of XLA's."""
        with pytest.raises(Exception, match=r"XLA tells of no stream: .*GPU"):
            self.called("minitile_test_stream", lambda *_: None, gpu=True)

    def test_device(self, monkeypatch):
        must, asked = xla_ffi._must, []

        def only_device(frame, place, args, what):
            if what == "device":
                must(frame, place, args, what)
            asked.append(what)

        monkeypatch.setattr(xla_ffi, "_must", only_device)
        queues = []
        self.called("minitile_test_device", lambda *given: queues.append(given[3]), gpu=True)
        assert queues in ([xla_ffi.Queue(0, 0)], [xla_ffi.Queue(None, 0)])
        assert asked[0] == "stream"


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="JAX has no GPU")
def test_on_the_stream():
    """The kernel comes between JAX's own work before and behind it, a thousand times."""
    x = jnp.zeros((512, 1024))
    program = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, y: affine(jnp.flip(y), 1.0) + 1, x))
    for _ in range(3):
        assert (program(x) == 1000).all()
