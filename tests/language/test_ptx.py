"""T.ptx: a program's own PTX text, with typed operands; what it does is executed by the simulator, and checked."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import assembler_name
from minitile.ir.diagnostics import TargetError
from minitile.ir.inline_ptx import read
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel

RNG = np.random.default_rng()
NVIDIA = pytest.mark.parametrize("target", ["sm_80", "sm_90a"])


def run(kernel, target, *args, **constants):
    compiled = kernel.compile(*args, target=target, **constants)
    compiled.simulate(*args, schedule="random", seed=3)
    ptx = compiled.asm["ptx"]
    if assembler_name(ptx) is not None:
        assert compiled.binary
    return ptx


@mt.kernel
def squares(X: T.Tensor(("N",), T.uint32), L: T.Tensor(("N",), T.uint32), H: T.Tensor(("N",), T.uint32)):
    (N,) = X.shape
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            x = X[bx * 256 + i]
            low, high = T.ptx(
                ".reg .b64 %wide;  // its own\n mul.wide.u32 %wide, %a, %b; mov.b64 {%low, %high}, %wide;",
                out={"low": T.uint32, "high": T.uint32},
                a=x,
                b=x,
            )
            L[bx * 256 + i] = low
            H[bx * 256 + i] = high


@NVIDIA
@pytest.mark.parametrize("n", [0, 1, 17, 1000])
def test_elements_with_several_results(target, n):
    x = RNG.integers(0, 1 << 32, n, np.uint32)
    low, high = (np.full(n, 7, np.uint32) for _ in range(2))
    run(squares, target, x, low, high)
    exact = x.astype(np.uint64) ** 2
    np.testing.assert_array_equal(low, exact & 0xFFFFFFFF)
    np.testing.assert_array_equal(high, exact >> 32)


@mt.kernel
def dtypes(H: T.Tensor((64,), T.float16), B: T.Tensor((64,), T.bfloat16), F: T.Tensor((64,), T.float32),
           D: T.Tensor((64,), T.float64), K: T.Tensor((64,), T.int64), S: T.Tensor((64,), T.int16)):  # fmt: skip
    """A register of every kind; Python's numbers."""
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        odd = T.ptx("and.b32 %1, %2, 1; setp.ne.s32 %0, %1, 0;", t, out=(T.bool, T.int32))[0]
        H[t] = T.ptx("{ .reg .f16 h; mul.rn.f16 h, %1, %1; selp.b16 %0, h, %1, %2; }", H[t], odd, out=T.float16)
        B[t] = T.ptx("neg.bf16 %0, %1;", B[t], out=T.bfloat16)
        F[t] = T.ptx("fma.rz.f32 %0, %1, %2, %3;", F[t], 2.0, -1.5, out=T.float32)
        D[t] = T.ptx("@%p sqrt.rn.f64 %y, %x;  @!%p mov.f64 %y, %x;", x=D[t], p=odd, out={"y": T.float64})[0]
        K[t] = T.ptx("mad.wide.s32 %0, %1, %2, %3;", t, 1 << 30, K[t], out=T.int64)
        S[t] = T.ptx("mul.hi.s16 %0, %1, %1;", S[t], out=T.int16)


@NVIDIA
def test_dtypes(target):
    import ml_dtypes

    t = np.arange(64)
    h, f, d = RNG.standard_normal(64).astype(np.float16), RNG.standard_normal(64).astype(np.float32), RNG.random(64)
    b = RNG.standard_normal(64).astype(ml_dtypes.bfloat16)
    i, s = RNG.integers(-(1 << 40), 1 << 40, 64), RNG.integers(-(1 << 15), 1 << 15, 64).astype(np.int16)
    got = [x.copy() for x in (h, b, f, d, i, s)]
    run(dtypes, target, *got)
    np.testing.assert_array_equal(got[0], np.where(t % 2, h * h, h))
    np.testing.assert_array_equal(got[1].view(np.uint16), (-b).view(np.uint16))
    exact = f.astype(np.float64) * 2 - 1.5
    np.testing.assert_allclose(got[2], exact, rtol=2**-22, atol=2**-23)
    assert (np.abs(got[2].astype(np.float64)) <= np.abs(exact)).all(), "rounded to zero"
    np.testing.assert_array_equal(got[3], np.where(t % 2, np.sqrt(d), d))
    np.testing.assert_array_equal(got[4], i + (t << 30))
    np.testing.assert_array_equal(got[5], (s.astype(np.int64) ** 2 >> 16).astype(np.int16))


@mt.kernel
def collatz(X: T.Tensor((150,), T.int32), Y: T.Tensor((150,), T.int32)):
    """Labels and registers of the text's own, for each element, in two texts."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(150):
            text = """
                .reg .pred p, q<2>;
                .reg .b32 r0, bit;
                mov.b32 %0, 0;
                mov.b32 r0, %1;
            next:
                setp.le.s32 p, r0, 1;
                @p bra done;
                and.b32 bit, r0, 1;
                setp.ne.s32 q1, bit, 0;
                @q1 mad.lo.s32 r0, r0, 3, 1;
                @!q1 shr.s32 r0, r0, 1;
                add.s32 %0, %0, 1;
                bra next;
            done:
            """
            Y[i] = T.ptx(text, X[i], out=T.int32) + T.ptx(text, X[i] + 1, out=T.int32)


def steps(n):
    count = 0
    while n > 1:
        n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
    return count


@NVIDIA
def test_labels_are_each_texts_own(target):
    x, y = RNG.integers(0, 25, 150, np.int32), np.zeros(150, np.int32)
    run(collatz, target, x, y)
    np.testing.assert_array_equal(y, [steps(n) + steps(n + 1) for n in x])


@mt.kernel
def turned(X: T.Tensor((128,), T.float32), Y: T.Tensor((128,), T.float32), N: T.Tensor((1,), T.int32), said=True):
    """Shared memory by its address, of another thread: the text reads what is stored, and stores what is read."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        s = T.alloc_shared((2, 128), T.float32)
        s[0, t] = X[t]
        x = T.ptx("ld.shared.f32 %0, [%1];", T.address_of(s[0, 127 - t]), out=T.float32, memory="read")
        kind = "write" if said else "read"
        T.ptx("st.shared.f32 [%to], %x;", to=T.address_of(s[1, (t + 64) % 128]), x=x, memory=kind)
        Y[t] = s[1, t]
        T.ptx("red.global.add.s32 [%0], 1;", T.address_of(N[0]), memory="atomic")


@NVIDIA
def test_memory_by_addresses(target):
    x, y, n = RNG.random(128, np.float32), np.zeros(128, np.float32), np.zeros(1, np.int32)
    ptx = run(turned, target, x, y, n)
    np.testing.assert_array_equal(y, np.roll(x[::-1], 64))
    assert n[0] == 128
    assert ptx.count("bar.sync") == 3, "where in the buffer the text reads and writes is not known"


def test_what_is_not_said_is_found():
    """The simulator executes the text, whatever is said of it."""
    x, y, n = RNG.random(128, np.float32), np.zeros(128, np.float32), np.zeros(1, np.int32)
    with pytest.raises(mt.RaceError):
        turned.compile(x, y, n, target="sm_80", said=False).simulate(x, y, n)


@mt.kernel
def sums(X: T.Tensor(("N", 64), T.float32), Y: T.Tensor((64,), T.float32)):
    """A pipelined loop: what copies write is read by the text."""
    (N, _) = X.shape
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((4, 64), T.float32)
        total = 0.0
        for k in T.Pipelined(T.ceildiv(N, 4), num_stages=3):
            T.copy(X[k * 4, 0], s)
            for r in T.unroll(4):
                total += T.ptx("ld.shared.f32 %0, [%1];", T.address_of(s[r, t]), out=T.float32, memory="read")
        Y[t] = total


@NVIDIA
@pytest.mark.parametrize("n", [0, 3, 17])
def test_in_a_pipelined_loop(target, n):
    x, y = RNG.random((n, 64), np.float32), np.full(64, 9, np.float32)
    run(sums, target, x, y)
    np.testing.assert_allclose(y, x.astype(np.float64).sum(0), rtol=1e-6, atol=0)


@mt.kernel
def effects(V: T.Tensor((64,), T.uint32), C: T.Tensor((64,), T.uint32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        votes = T.ptx("vote.sync.ballot.b32 %0, %1, -1;", t % 3 == 0, out=T.uint32, volatile=True)
        lane = T.ptx("mov.u32 %0, %laneid;", out=T.uint32)
        V[t] = votes >> lane
        T.ptx("nanosleep.u32 20;", volatile=True)
        T.ptx("membar.gl;", volatile=True)
        T.ptx("mov.u32 %0, %clock;", out=T.uint32, volatile=True)
        C[t] = T.ptx("mov.u32 %0, %clock;", out=T.uint32, volatile=True)


@NVIDIA
def test_effects(target):
    i, c = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    ptx = run(effects, target, i, c)
    t = np.arange(64)
    votes = [sum(1 << n for n in range(32) if (32 * w + n) % 3 == 0) for w in range(2)]
    np.testing.assert_array_equal(i, np.array(votes, np.uint32)[t // 32] >> (t % 32).astype(np.uint32))
    assert ptx.count("%clock") == 2
    assert "nanosleep" in ptx
    assert ptx.index("nanosleep") < ptx.index("membar.gl")


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("N", "K"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    S: T.Tensor(("M", "N"), T.float16),
):
    """On an accumulator, on halves, and as a mask."""
    (M, K), N = A.shape, B.shape[0]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
        c, h = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64, 64), T.float16)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 64, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            c[i, j] = T.ptx("max.f32 %0, %1, %2;", c[i, j], 0.0, out=T.float32)
        T.copy(c, h)
        T.copy(h, C[by * 64, bx * 64])
        for i, j in T.Parallel(64, 64):
            large = T.ptx("setp.gt.f16 %0, %1, %2;", h[i, j], T.float16(1.0), out=T.bool)
            if large:
                S[by * 64 + i, bx * 64 + j] = T.ptx("mul.rn.f16 %0, %1, %1;", h[i, j], out=T.float16)


@NVIDIA
def test_behind_a_product(target):
    a, b = (RNG.standard_normal(s).astype(np.float16) / 4 for s in ((70, 72), (100, 72)))
    c, s = np.zeros((70, 100), np.float16), np.full((70, 100), 9, np.float16)
    run(product, target, a, b, c, s)
    np.testing.assert_allclose(c, np.maximum(a.astype(np.float64) @ b.astype(np.float64).T, 0), rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(s, np.where(c > 1, c * c, np.float16(9)))


@mt.kernel
def equal_texts(X: T.Tensor((64,), T.int32), Y: T.Tensor((64,), T.int32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        x = X[t]
        total = 0
        for _ in range(X[0]):
            total += T.ptx("brev.b32 %0, %1;", x, out=T.int32) ^ T.ptx("brev.b32 %0, %1;", x, out=T.int32)
        T.ptx("popc.b32 %0, %1;", x, out=T.int32)
        Y[t] = total


def test_pure_texts_are_computed_once():
    """Equal ones are one, in front of the loop; one whose result is not used is none."""
    ptx = equal_texts.compile(target="sm_80").asm["ptx"]
    assert ptx.count("brev") == 1
    assert ptx.index("brev") < ptx.index("$L_for")
    assert "popc" not in ptx


def test_numbers_and_long_texts():
    """Constants of every form are no names; a long text takes time in proportion to its length."""
    piece = read(
        "mad.f32 %0, 0fBF800000, %1, 1.5e3; add.s32 %2, -0x7F, 12U; // %no\n /* %no; */ mov.b64 %3, 0d3FF0000000000000;"
    )
    assert set(piece.names()) == {"%0", "%1", "%2", "%3"}
    assert len(read("add.s32 %0, %0, 1;\n" * 20_000).instructions) == 20_000
    assert [*read("a: @!%p bra a;").written(lambda name: name.replace("%p", "%r1").replace("a", "$L0"))] == [
        "$L0:",
        "@!%r1 bra $L0;",
    ]


def test_the_text_of_the_ir():
    for kernel in (squares, turned):
        text = print_kernel(kernel.trace())
        assert print_kernel(parse_kernel(text)) == text


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_amd_has_another_assembly(target):
    pytest.importorskip("llvmlite")
    for kernel in (squares, effects):
        with pytest.raises(TargetError, match=r"T\.ptx on gfx9.*another assembly language(.|\n)*functions of T"):
            kernel.compile(target=target)


def _refused(ptx):
    def kernel():
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((64,), T.float32)
            ptx(t, s)

    return kernel


@pytest.mark.parametrize(
    ("ptx", "says"),
    [
        (lambda t, s: T.ptx("add.s32 %0, %1, %2;", t, out=T.int32), "has no operand %2: there are %0, %1"),
        (lambda t, s: T.ptx("add.s32 %y, %a, %bb;", a=t, b=t, out={"y": T.int32}), "did you mean %b?"),
        (lambda t, s: T.ptx("add.s32 %0, %1, extra;", t, out=T.int32), "extra in T.ptx is no operand, and no register"),
        (lambda t, s: T.ptx("mov.b32 %0, %1;", t, t, out=T.int32), "operand %2 of T.ptx does not stand in its text"),
        (lambda t, s: T.ptx("cvt.s16.s32 %0, %1;", t, out=T.int8), "no registers of 8 bits"),
        (lambda t, s: T.ptx("mov.b32 %0, %1;", s, out=T.int32), "no scalar"),
        (lambda t, s: T.ptx("mov.b32 %0, %1", t, out=T.int32), "no semicolon"),
        (lambda t, s: T.ptx("ret;", volatile=True), "leaves the text"),
        (lambda t, s: T.ptx(".shared .b32 x; mov.b32 %0, 1;", out=T.int32), "no declaration of registers"),
        (lambda t, s: T.ptx(".reg .b8 x; mov.b32 %0, 1;", out=T.int32), "no registers of type .b8"),
        (lambda t, s: T.ptx("  // nothing", out=T.int32), "no instruction"),
        (lambda t, s: T.ptx("mov.b32 %y, %0;", t, out={"y": T.int32}), "by number and by name"),
        (lambda t, s: T.ptx("mov.u32 %0, %1;", T.address_of(s[0]), out=T.uint32), "an address and without memory"),
        (lambda t, s: T.ptx(".reg .b32 r; mov.b32 r, 1;"), "without results has no effect"),
        (lambda t, s: T.ptx("mov.b32 %0, 1;", out=T.int32, memory="all"), "memory='all'"),
        (lambda t, s: T.address_of(s[0:4]), "give one element"),
        (lambda t, s: T.ptx("bar.warp.sync -1;"), "without results has no effect"),
    ],
)
def test_what_is_refused(ptx, says, refuses):
    refuses(_refused(ptx), says)


@pytest.mark.parametrize(
    ("ptx", "says"),
    [
        (lambda t, s: T.ptx("add.s32 %0, %1, %1;", t, out=T.int64), "takes no operand of type s64, which %0 is"),
        (lambda t, s: T.ptx(".reg .b64 w; add.s32 %0, %1, w;", t, out=T.int32), "type b64, which w is"),
        (lambda t, s: T.ptx("@%1 mov.b32 %0, 1;", t, out=T.int32), "the guard %1 is no predicate but s32"),
        (
            lambda t, s: T.ptx("ld.shared.f32 %0, [%1];", t, out=T.float32),
            "ld.shared.f32 in T.ptx touches memory, which is",
        ),
        (lambda t, s: T.ptx("bar.warp.sync -1; mov.b32 %0, 1;", out=T.int32), "has an effect, which is not said"),
        (lambda t, s: T.ptx("mov.u32 %0, %clock;", out=T.uint32), "%clock in T.ptx has an effect"),
    ],
)
def test_what_the_backend_refuses(ptx, says):
    """With the line of the program."""

    @mt.kernel
    def kernel(Y: T.Tensor((64,), None)):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((64,), T.float32)
            Y[t] = ptx(t, s)

    dtype = np.float32 if "float32" in says or "f32" in says or "ld" in says else np.int64
    with pytest.raises(mt.MinitileError) as caught:
        kernel.compile(np.zeros(64, dtype), target="sm_80")
    assert says in str(caught.value)
    assert "T.ptx(" in caught.value.loc.excerpt()


def test_effects_are_refused_for_elements(refuses):
    def kernel():
        with T.Kernel(1, threads=64):
            for _ in T.Parallel(64):
                T.ptx("membar.gl;", volatile=True)

    refuses(kernel, "inside T.Parallel")
