"""The decorator: signatures, specialisation, what is compiled again and what is not, calls and their errors."""

import dataclasses
import sys
from types import ModuleType
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver import pipeline

SCALE = 2
TABLE = [1, 10]


class Config:
    offset = 0


CONFIG = Config()


def scaled(x):
    return x * SCALE


@mt.kernel
def add(A: T.Tensor(("M", "N"), T.float32), B: T.Tensor(("M", "N"), T.float32), alpha: T.float32 = 1.0, block=16):
    M, N = A.shape
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
        for i, j in T.Parallel(block, block):
            B[by * block + i, bx * block + j] = A[by * block + i, bx * block + j] + alpha


def arrays(m=5, n=20):
    return np.arange(m * n, dtype=np.float32).reshape(m, n), np.zeros((m, n), np.float32)


def count_compilations(monkeypatch):
    """The list that every compilation appends its kernel's name to."""
    import minitile.driver.jit as jit

    done = []
    original = jit.CompiledKernel

    class Counting(original):
        def __init__(self, case, target, passes):
            done.append((case.kernel.__name__, dict(case.divisors)))
            super().__init__(case, target, passes)

    monkeypatch.setattr(jit, "CompiledKernel", Counting)
    return done


def test_call():
    a, b = arrays()
    add(a, b)
    np.testing.assert_array_equal(b, a + 1)
    add(a, b, 2.5)
    np.testing.assert_array_equal(b, a + 2.5)
    add(B=b, A=a, alpha=3, block=8)
    np.testing.assert_array_equal(b, a + 3)


def test_one_kernel_for_every_size(monkeypatch):
    done = count_compilations(monkeypatch)

    @mt.kernel
    def copy(A: T.Tensor(("M", "N"), T.float32), B: T.Tensor(("M", "N"), T.float32)):
        with T.Kernel(A.shape[0], threads=32) as bx:
            for j in T.Parallel(32):
                B[bx, j] = A[bx, j]

    for m, n in ((1, 3), (3, 5), (7, 31), (2, 6), (16, 32), (48, 32), (128, 16)):
        a, b = arrays(m, n)
        copy(a, b)
        np.testing.assert_array_equal(a, b)
    divisors = [tuple(d.values()) for _, d in done]
    assert divisors == [(1, 1), (2, 2), (16, 16), (128, 16)]


def test_constants_are_part_of_the_key(monkeypatch):
    done = count_compilations(monkeypatch)

    @mt.kernel
    def store(B: T.Tensor((1,), T.float32), value=1):
        with T.Kernel(1, threads=32):
            B[0] = value

    b = np.zeros(1, np.float32)
    results = []
    for value in (1, 2, 1, True, 1.5):
        store(b, value)
        results.append(float(b[0]))
    assert results == [1, 2, 1, 1, 1.5]
    assert len(done) == 4  # 1 and True are different constants


def test_captured_values_are_part_of_the_key(monkeypatch):
    done = count_compilations(monkeypatch)
    local = 100

    def helper(x):
        return scaled(x) + local + TABLE[1] + CONFIG.offset

    @mt.kernel
    def kernel(B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            B[0] = helper(3)

    b = np.zeros(1, np.int32)

    def value():
        kernel(b)
        return int(b[0])

    assert value() == 116
    assert value() == 116
    assert len(done) == 1
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert value() == 125
    monkeypatch.setitem(globals(), "TABLE", [1, 20])
    assert value() == 135
    TABLE[1] = 21
    assert value() == 136
    local = 200
    assert value() == 236
    monkeypatch.setattr(CONFIG, "offset", 1)
    assert value() == 237
    monkeypatch.setitem(globals(), "scaled", lambda x: x)
    assert value() == 225
    assert len(done) == 7


@mt.kernel
def above_its_helper(B: T.Tensor((1,), T.int32)):
    with T.Kernel(1, threads=32):
        B[0] = below(20)


def below(x):
    return x + OFFSET


OFFSET = 1


def test_globals_that_come_after_the_kernel(monkeypatch):
    """A helper may stand below the kernel, and appear when a call has failed already; its changes are seen as well."""
    b = np.zeros(1, np.int32)
    above_its_helper(b)
    assert b[0] == 21
    monkeypatch.setitem(globals(), "OFFSET", 2)
    above_its_helper(b)
    assert b[0] == 22
    monkeypatch.delitem(globals(), "below")
    with pytest.raises(mt.MinitileError, match="below"):
        above_its_helper(b)
    monkeypatch.setitem(globals(), "below", lambda x: x - OFFSET)
    above_its_helper(b)
    assert b[0] == 18


def test_attributes_that_come_after_the_kernel():
    """Of modules and classes, as where modules import one another: from the first call on their changes are seen."""
    helpers = ModuleType("helpers")

    class Late:
        pass

    @mt.kernel
    def kernel(B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            B[0] = helpers.late + Late.offset

    b = np.zeros(1, np.int32)
    for helpers.late, Late.offset in ((1, 10), (2, 10), (2, 20)):
        kernel(b)
        assert b[0] == helpers.late + Late.offset


@dataclasses.dataclass
class Settings:
    width: int = 1
    rows: list = dataclasses.field(default_factory=lambda: [1])
    depth = 1  # of the class


class Slotted:
    __slots__ = ("size",)


def test_changes_inside_captured_values():
    """What a captured value holds counts, however deep; equal numbers of other types are other values."""
    table, nested, settings, slotted = np.array([1, 2]), {"a": [1, (2, [3])]}, Settings(), Slotted()
    slotted.size = 1
    endless = [1]
    endless.append(endless)

    @mt.kernel
    def kernel(B: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            B[0] = int(table[0])
            B[1] = nested["a"][1][1][0]
            B[2] = settings.width
            B[3] = settings.rows[0]
            B[4] = settings.depth + Settings.depth
            B[5] = slotted.size
            B[6] = endless[0]
            B[7] = 1 if isinstance(nested["a"][0], bool) else 0

    b = np.zeros(8, np.float32)

    def values():
        kernel(b)
        return b.astype(int).tolist()

    assert values() == [1, 3, 1, 1, 2, 1, 1, 0]
    table[0] = 7
    assert values() == [7, 3, 1, 1, 2, 1, 1, 0]
    nested["a"][1][1][0] = 4
    assert values() == [7, 4, 1, 1, 2, 1, 1, 0]
    settings.rows[0] = 5
    assert values() == [7, 4, 1, 5, 2, 1, 1, 0]
    try:
        Settings.depth = 3
        assert values() == [7, 4, 1, 5, 6, 1, 1, 0]
    finally:
        Settings.depth = 1
    slotted.size = 6
    assert values() == [7, 4, 1, 5, 2, 6, 1, 0]
    endless[0] = 2
    assert values() == [7, 4, 1, 5, 2, 6, 2, 0]
    nested["a"][0] = True
    assert values() == [7, 4, 1, 5, 2, 6, 2, 1]
    assert kernel._captures.current()


@mt.kernel
def before_its_helpers(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = twice(A[i]) + BEHIND


BEHIND = 3


def twice(x):
    return 2 * x


def test_what_is_defined_behind_the_kernel():
    """As long as it is there when the kernel is called."""
    a = np.ones(8, np.float32)
    before_its_helpers(a)
    before_its_helpers(a)
    np.testing.assert_array_equal(a, np.full(8, 13, np.float32))


def test_string_annotations():
    """As `from __future__ import annotations` makes them, with a name that only the annotations use."""

    def make(width):
        @mt.kernel
        def kernel(A: "T.Tensor((4, width), T.float32)", s: "T.float32", n: "int" = 2):
            with T.Kernel(1, threads=32):
                for i, j in T.Parallel(4, 8):
                    A[i, j] = s * n

        return kernel

    a = np.zeros((4, 8), np.float32)
    make(8)(a, 3.0)
    assert (a == 6).all()


def test_dimensions_named_by_compile_time_parameters():
    @mt.kernel
    def kernel(A: T.Tensor(("M", "width"), T.float32), width=8):
        with T.Kernel(1, threads=32):
            for j in T.Parallel(A.shape[1]):
                A[0, j] = width

    a = np.zeros((2, 16), np.float32)
    kernel(a, 16)
    assert a.sum() == 256
    with pytest.raises(mt.MinitileError, match=r"shape\[1\]"):
        kernel(a)


def test_dynamic_names():
    m = T.dynamic("m")

    @mt.kernel
    def kernel(A: T.Tensor((m, 4), T.float32)):
        with T.Kernel(m, threads=32) as bx:
            for j in T.Parallel(4):
                A[bx, j] = m

    a = np.zeros((5, 4), np.float32)
    kernel(a)
    assert (a == 5).all()


def test_dynamic_names_inside_the_kernel():
    """It is the name that tells the dimension, not the object."""

    @mt.kernel
    def kernel(A: T.Tensor(("m", 4), T.float32)):
        m = T.dynamic("m")
        with T.Kernel(m, threads=32) as bx:
            for j in T.Parallel(4):
                A[bx, j] = m

    a = np.zeros((5, 4), np.float32)
    kernel(a)
    assert (a == 5).all()


def test_any_dtype():
    @mt.kernel
    def double(A: T.Tensor(("n",), None)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i] = A[i] * 2

    for dtype in (np.float32, np.int32, np.float16, ml_dtypes.bfloat16):
        a = np.arange(8).astype(dtype)
        double(a)
        np.testing.assert_array_equal(a.astype(np.int64), np.arange(8) * 2)


def test_scalars_of_every_kind():
    @mt.kernel
    def kernel(B: T.Tensor((8,), T.float64), f: T.float32, h: T.bfloat16, i: T.int8, u: T.uint64, b: T.bool):
        with T.Kernel(1, threads=32):
            B[0] = f
            B[1] = h
            B[2] = i
            B[3] = T.cast(u >> 60, T.int32)
            B[4] = T.cast(b, T.int32)

    out = np.zeros(8)
    kernel(out, 0.5, 1.0009765625, -3, (1 << 63) + 1, True)
    assert out.tolist() == [0.5, 1.0, -3, 8, 1, 0, 0, 0]


@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (0, 0)])
def test_zero_sizes_are_a_no_op(m, n):
    a, b = arrays(m, n)
    add(a, b)


def test_a_sum_over_nothing():
    @mt.kernel
    def total(A: T.Tensor(("n",), T.float32), B: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=32):
            s = 0.0
            for i in range(A.shape[0]):
                s += A[i]
            B[0] = s

    b = np.ones(1, np.float32)
    total(np.zeros(0, np.float32), b)
    assert b[0] == 0


def test_compiled_kernel():
    k = add.compile(mt.spec((64, 64), "float32"), mt.spec(("M", "N"), T.float32), target="sm_80", block=32)
    assert set(k.asm) == {"traced_ir", "tile_ir", "thread_ir", "ptx"}
    assert "parallel {extents = (32, 32)}" in k.asm["traced_ir"]
    assert "tile kernel @add__block32" in k.asm["tile_ir"]
    assert "thread kernel @add__block32" in k.asm["thread_ir"]
    assert ".visible .entry add__block32(" in k.asm["ptx"]
    with pytest.raises(KeyError):
        k.asm["gcn"]
    info = k.launch_info
    assert info.block == (32, 1, 1)
    assert [a.name for a in info.args] == ["A", "B", "alpha"]
    assert [p.name for p in info.params[:3]] == ["A", "B", "alpha"]
    assert info.facts[:2] == (("divides", ("dim", "M"), 16), ("divides", ("dim", "N"), 16))
    assert info.facts[2:4] == (("divides", ("pointer", "A"), 16), ("divides", ("pointer", "B"), 16))
    assert info.facts[4:] == (("less", ("dim", "M"), 1 << 30), ("less", ("dim", "N"), 1 << 30))
    a, b = arrays(64, 64)
    report = k.simulate(a, b, 1.0, schedule="random", seed=3)
    assert report.findings == []
    np.testing.assert_array_equal(b, a + 1)
    k(a, b, 2.0)
    np.testing.assert_array_equal(b, a + 2)
    assert set(k.timings) == {"trace", "passes", "ptx"}
    pytest.importorskip("cuda.bindings.nvjitlink")
    assert k.binary[:4] == b"\x7fELF"
    assert k.registers > 0
    assert k.spills == 0
    assert k.timings["assemble"] >= 0


def test_dumps_are_numbered_in_order(tmp_path, monkeypatch):
    """Through the whole pipeline: no pass that runs again writes over what it dumped before."""
    monkeypatch.setenv("MINITILE_DUMP", "all")
    monkeypatch.setenv("MINITILE_DUMP_DIR", str(tmp_path))
    add.compile(target="sm_80")
    files = sorted(p.name for p in tmp_path.iterdir())
    assert [name.split(".")[1] for name in files] == [f"{n:02}" for n in range(len(files))]
    assert [name.split(".")[2] for name in files] == [
        name for name, _ in (*pipeline.TILE_PASSES, ("lower", None), *pipeline.THREAD_PASSES)
    ]


def test_defaults_of_scalars():
    """A compiled kernel has them, too, whatever it is given and whatever it makes."""

    @mt.kernel
    def shifted(
        A: T.Tensor(("N",), T.float32),
        bias: T.Tensor(("N",), T.float32) | None = None,
        by: T.float32 = 2.0,
        *,
        times: T.int32 = 3,
    ):
        B = T.empty(A.shape[0], T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                b = A[i] * T.float32(times) + by
                B[i] = b if bias is None else b + bias[i]
        return B

    a, b = np.arange(20, dtype=np.float32), np.full(20, np.nan, np.float32)
    k = shifted.compile(a, target="sm_80")
    for args, named, right in (
        ((a,), {}, 3 * a + 2),
        ((a, None), {"times": 5}, 5 * a + 2),
        ((a,), {"by": 1.0}, 3 * a + 1),
        ((a, None, 1.0), {}, 3 * a + 1),
        ((), {"A": a}, 3 * a + 2),
        ((a, 4.0, 0, b), {}, np.full(20, 4)),
        ((a,), {"B": b}, 3 * a + 2),
    ):
        np.testing.assert_array_equal(k(*args, **named), right)
        np.testing.assert_array_equal(k.simulate(*args, **named).results[0], right)
    np.testing.assert_array_equal(shifted.compile(a, a, target="sm_80")(a, a), 4 * a + 2)
    with pytest.raises(mt.MinitileError, match="takes 3 arguments"):
        k(a, 1.0, 3, 4, 5)
    a, b = arrays()
    compiled = add.compile(a, b, target="sm_80")
    compiled(a, b)
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(mt.MinitileError, match=r"takes 3 arguments \(A, B, alpha\), and 1 are given"):
        compiled(a)


def test_compiled_for_other_sizes():
    k = add.compile(mt.spec((64, 64), "float32"), mt.spec((64, 64), "float32"), target="sm_80")
    a, b = arrays(63, 64)
    with pytest.raises(mt.MinitileError, match="compiled for M divisible by 16, but M is 63"):
        k.simulate(a, b, 1.0)
    with pytest.raises(mt.MinitileError, match="compiled for M divisible by 16"):
        k(a, b, 1.0)


def test_compile_without_specs():
    k = add.compile(target="sm_80")
    a, b = arrays()
    k.simulate(a, b, 1.0)
    np.testing.assert_array_equal(b, a + 1)


def test_trace_has_no_passes():
    traced = add.trace(block=8)
    assert traced.stage == "traced"
    assert [p.name for p in traced.params] == ["A", "B", "alpha"]
    assert list(traced.dims) == ["M", "N"]
    assert add.trace(mt.spec((48, 128), "float32"), mt.spec((48, 128), "float32")).facts == {"M": 16, "N": 128}


def test_the_function_shows_through():
    assert add.__name__ == "add"
    assert repr(add) == "<minitile.Kernel add(A, B, alpha, block)>"
    assert add.__wrapped__ is add.function


def test_races_are_found():
    @mt.kernel
    def racy(B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=64):
            B[0] = T.get_thread_binding()

    with pytest.raises(mt.RaceError) as caught:
        racy(np.zeros(1, np.int32))
    assert isinstance(caught.value, mt.SimulationError)
    assert caught.value.loc.file == __file__
    assert "B[0] = T.get_thread_binding()" in str(caught.value)
    assert caught.value.findings[0].hazard == "WAW"


def test_kernels_can_be_named_in_a_module(tmp_path, monkeypatch):
    """A helper module's constants are captured too."""
    (tmp_path / "helper_of_test_jit.py").write_text("FACTOR = 3\ndef times(x):\n    return x * FACTOR\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import helper_of_test_jit as helper

    @mt.kernel
    def kernel(B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            B[0] = helper.times(helper.FACTOR)

    b = np.zeros(1, np.int32)
    kernel(b)
    assert b[0] == 9
    helper.FACTOR = 4
    kernel(b)
    assert b[0] == 16
    del sys.modules["helper_of_test_jit"]


class TestErrors:
    def refuses(self, text, call, *args, **kwargs):
        with pytest.raises(mt.MinitileError) as caught:
            call(*args, **kwargs)
        shown = str(caught.value)
        assert text in shown, shown
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__, shown
        return caught.value

    def test_arguments(self):
        a, b = arrays()
        self.refuses("the kernel add lacks the argument 'B'", add, a)
        self.refuses("takes 4 arguments, not 5", add, a, b, 1.0, 16, 3)
        self.refuses("has no parameter 'blok'", add, a, b, blok=3)
        self.refuses("got 'A' twice", add, a, b, A=a)
        self.refuses("cannot tell specialisations apart by block=[16]", add, a, b, block=[16])

    def test_arrays(self):
        a, b = arrays()
        self.refuses("A has rank 1, the kernel takes 2", add, a[0], b)
        self.refuses("f64", add, a.astype(np.float64), b)
        self.refuses("M is 5 in A.shape[0], but 4 in B.shape[0]", add, a, b[:4])
        self.refuses("no array", add, a[:, ::2], "x")
        self.refuses("no array", add, [1, 2], b)
        self.refuses("alpha", add, a, b, "x")

    def test_specs(self):
        s = mt.spec((64, 64), "float32")
        self.refuses("has 2 tensors, and 1 specs are given", add.compile, s)
        self.refuses("takes A as f32, not f16", add.compile, mt.spec((64, 64), "float16"), s)
        self.refuses("takes A with 2 dimensions, not 1", add.compile, mt.spec(64, "float32"), s)
        self.refuses("has M = 64 from one spec and 32 from B", add.compile, s, mt.spec((32, 64), "float32"))
        self.refuses("has no compile-time parameter 'alpha'", add.compile, s, s, alpha=2)
        self.refuses("is no spec and no array", add.compile, s, "x")

    def test_targets(self):
        with pytest.raises(mt.MinitileError, match="unknown target 'sm_42'"):
            add.compile(target="sm_42")
        with pytest.raises(mt.MinitileError, match="unknown target 'sm_42'"):

            @mt.kernel(target="sm_42")
            def kernel(A: T.Tensor((1,), T.float32)):
                pass

    def test_passes(self):
        with pytest.raises(mt.MinitileError, match="no pass 'nonsense'"):
            add.compile(passes={"nonsense": False}, target="sm_80")

    def test_signatures(self):
        def star(*args):
            pass

        def no_shape(A: T.Tensor):
            pass

        def bad_dimension(A: "T.Tensor(('M N',), T.float32)"):
            pass

        def unknown(A: "T.Tensor((nowhere,), T.float32)"):  # noqa: F821
            pass

        def default(A: T.Tensor((1,), T.float32) = None):
            pass

        self.refuses("a kernel takes no *args", mt.kernel, star)
        self.refuses("T.Tensor without a shape", mt.kernel, no_shape)
        self.refuses("a dimension of T.Tensor is 'M N'", mt.kernel, bad_dimension)
        self.refuses("NameError: name 'nowhere' is not defined", mt.kernel, unknown)
        self.refuses("has a default value", mt.kernel, default)
        self.refuses("@kernel is for functions", mt.kernel, len)

    def test_no_source(self):
        names = {"T": T}
        exec("def f(A: T.Tensor((1,), T.float32)):\n    pass\n", names)
        with pytest.raises(mt.MinitileError, match="the source of 'f' is not at hand"):
            mt.kernel(names["f"]).trace()


def zeros(v):
    @mt.kernel
    def kernel(C: T.Tensor((3,), T.float32), value=v):
        with T.Kernel(1, threads=32):
            C[0] = 0.0
            C[1] = -0.0
            C[2] = value

    return kernel


class TestSignsOfZero:
    """0.0 == -0.0 in Python; 1 / x is not."""

    @pytest.mark.parametrize("target", ["sm_80", "gfx942"])
    def test_in_one_kernel(self, target):
        @mt.kernel(target=target)
        def kernel(C: T.Tensor((2,), T.float32)):
            with T.Kernel(1, threads=64):
                C[0] = 0.0
                C[1] = -0.0

        c = np.ones(2, np.float32)
        kernel(c)
        assert np.signbit(c).tolist() == [False, True]

    def test_parameters(self):
        kernel, c = zeros(0.0), np.ones(3, np.float32)
        signs = []
        for value in (-0.0, 0.0, -0.0):
            kernel(c, value=value)
            signs.append(bool(np.signbit(c[2])))
        assert signs == [True, False, True]

    def test_parameters_in_tuples(self):
        @mt.kernel
        def kernel(C: T.Tensor((1,), T.float32), value=(0.0,)):
            with T.Kernel(1, threads=32):
                C[0] = value[0]

        c = np.ones(1, np.float32)
        signs = []
        for value in ((0.0,), (-0.0,)):
            kernel(c, value=value)
            signs.append(bool(np.signbit(c[0])))
        assert signs == [False, True]

    def test_captured(self):
        held = 0.0

        @mt.kernel
        def kernel(C: T.Tensor((1,), T.float32)):
            with T.Kernel(1, threads=32):
                C[0] = held

        c = np.ones(1, np.float32)
        kernel(c)
        held = -0.0
        kernel(c)
        assert np.signbit(c[0])


class TestHelpersThatChange:
    """A helper that is changed in place, as IPython's autoreload does, and helpers in containers."""

    @staticmethod
    def value(kernel):
        c = np.zeros(1, np.int32)
        kernel(c)
        return int(c[0])

    def kernel_of(self, helper):
        @mt.kernel
        def kernel(C: T.Tensor((1,), T.int32)):
            with T.Kernel(1, threads=32):
                C[0] = helper(1)

        return kernel

    def test_code(self):
        def helper(x):
            return x + 1

        def edited(x):
            return x + 60

        kernel = self.kernel_of(helper)
        assert self.value(kernel) == 2
        helper.__code__ = edited.__code__
        assert self.value(kernel) == 61

    def test_defaults(self):
        def helper(x, k=5, *, j=0):
            return x + k + j

        kernel = self.kernel_of(helper)
        assert self.value(kernel) == 6
        helper.__defaults__ = (50,)
        assert self.value(kernel) == 51
        helper.__kwdefaults__ = {"j": 100}
        assert self.value(kernel) == 151

    def test_in_a_list(self):
        number = 1

        def helper(x):
            return x + number

        helpers = [helper]

        @mt.kernel
        def kernel(C: T.Tensor((1,), T.int32)):
            with T.Kernel(1, threads=32):
                C[0] = helpers[0](1)

        assert self.value(kernel) == 2
        number = 50
        assert self.value(kernel) == 51


class TestOddArguments:
    @pytest.mark.parametrize("size", [None, -1, 1.5, 2**63, True, ()])
    def test_specs(self, size):
        with pytest.raises(mt.MinitileError, match="the shape of a spec has"):
            mt.spec((size,), "float32")

    def test_numbers_that_cannot_be_shown(self):
        @mt.kernel
        def kernel(C: T.Tensor((1,), T.float32), f: T.float32, i: T.int32):
            with T.Kernel(1, threads=32):
                C[0] = f + T.cast(i, T.float32)

        class Odd:
            def __repr__(self):
                raise RuntimeError("no")

        c = np.zeros(1, np.float32)
        for f, i in [(10**5000, 1), (Odd(), 1), (1.0, 10**5000), (1.0, Odd())]:
            with pytest.raises(mt.MinitileError, match=r"does not fit|scalar, not "):
                kernel(c, f, i)

    def test_byte_order(self):
        a, b = arrays()
        with pytest.raises(mt.MinitileError, match="A holds its f32 in the other byte order"):
            add(a.astype(">f4"), b)

    def test_masked_arrays(self):
        a, b = arrays()
        with pytest.raises(mt.MinitileError, match="A: a masked array is no plain memory"):
            add(np.ma.masked_array(a, True), b)

    def test_a_folder_for_dumps_that_cannot_be(self, monkeypatch):
        monkeypatch.setenv("MINITILE_DUMP", "all")
        monkeypatch.setenv("MINITILE_DUMP_DIR", "/dev/null/dump")
        with pytest.raises(mt.MinitileError, match="MINITILE_DUMP_DIR='/dev/null/dump' cannot be written"):
            add.compile(target="sm_80")


class Factors(NamedTuple):
    by: float


@dataclasses.dataclass(frozen=True)
class Factor:
    by: float


@mt.kernel
def times(X: T.Tensor((32,), T.int32), Y: T.Tensor((32,), T.float32), factor=None):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            Y[i] = X[i] * factor.by


@pytest.mark.parametrize("kind", [Factors, Factor])
def test_what_equal_constants_hold_may_mean_different_things(kind):
    """Products of whole numbers wrap in 32 bits, those of floats do not."""
    x, y = np.full(32, 1 << 20, np.int32), np.full(32, np.nan, np.float32)
    assert kind(1 << 20) == kind(float(1 << 20))
    for by in (1 << 20, float(1 << 20), 1 << 20):
        times(x, y, factor=kind(by))
        assert (y == (2.0**40 if isinstance(by, float) else 0)).all()
