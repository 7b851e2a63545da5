"""Whole programs: module syntax, memory spaces, calls, atomics, launches, and the errors for bad text and arguments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import Report, SimulationError, run_ptx
from minitile.runtime.sim.core.arguments import allocations_of
from tests.sim.ptx.harness import assemble, simulate

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def run_checked(text: str, grid: Any, block: Any, args: list[Any], **options: Any) -> Report:
    """Assemble the text, run it, and demand silence."""
    assert assemble(text) is None
    report = run_ptx(text, "k", grid, block, args, **options)
    assert not report.findings, str(report.findings[0])
    return report


def test_arrays_that_share_memory_share_an_allocation() -> None:
    """Also where one overlaps another's end, and where one without bytes begins between them."""
    base = np.zeros(100, np.uint8)
    arrays = [base[40:], np.zeros(5, np.uint8), base[:60], base[45:45], base[50:90], base[40:]]
    allocations, places = allocations_of(arrays)
    assert sorted(allocations) == [(1, 5), (2, 100), (3, 0)]
    shared = allocations.index((2, 100))
    assert [places[n] for n in (0, 2, 4, 5)] == [(shared, 40), (shared, 0), (shared, 50), (shared, 40)]
    assert [allocations[number] for number, _ in (places[1], places[3])] == [(1, 5), (3, 0)]


# -- text that cannot be executed --------------------------------------------------------------------------------


def body(text: str) -> str:
    return (
        HEAD
        + ".visible .entry k(.param .u64 p) {\n.reg .b32 r<4>;\n.reg .b64 d<4>;\n.reg .pred q;\n"
        + text
        + "\nret;\n}\n"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("frobnicate.u32 r0, r1;", "unsupported instruction frobnicate.u32"),
        ("tcgen05.shift.cta_group::1.down [r0];", "unsupported instruction"),
        ("add.u32 r0, r9, 1;", "r9"),
        ("add.u32 r0, %zz, 1;", "%zz is not declared"),
        ("add.u32 r0, r1;", "takes 3 operands"),
        ("add.u64 d0, r1, d2;", "too narrow"),
        ("bra NOWHERE;", "no such label"),
        ("mov.u64 d0, unknown;", "unknown is not declared"),
        ("@r0 bra L;\nL:", "not a predicate"),
        ("ld.global.v2.u32 {r0}, [d0];", "another length"),
        ("call nothing, ();", "has no body"),
        ("cp.async.cg.shared.global [r0], [d0], 8;", "must be"),
        (
            "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {r0, r1}, {r2}, {r3}, {r0, r1};",
            "unsupported form",
        ),
        ("mov.u32 r0, r1 r2;", "mov"),
        ("setp.lt.u32 r0, r1, r2;", "predicates do not mix"),
        ("bar.sync 16;", "0 to 15"),
    ],
)
def test_errors_name_the_line(line: str, message: str) -> None:
    with pytest.raises(SimulationError, match="PTX line 8") as caught:
        run_ptx(body(line), "k", (1,), (32,), [np.zeros(4, np.uint32)])
    assert message in str(caught.value)
    assert caught.value.line == 8


def test_errors_of_structure() -> None:
    with pytest.raises(SimulationError, match="no closing brace"):
        run_ptx(HEAD + ".visible .entry k() {\n ret;\n", "k", (1,), (32,), [])
    with pytest.raises(SimulationError, match=r"no entry 'x'.*it has: k"):
        run_ptx(body(""), "x", (1,), (32,), [])
    with pytest.raises(SimulationError, match="declared twice"):
        run_ptx(body("L:\nL:\n"), "k", (1,), (32,), [np.zeros(1)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"args": []}, "takes 1 parameters"),
        ({"args": [np.float32(1)]}, "has 4 bytes"),
        ({"args": [np.zeros((4, 4))[:, 1]]}, "not contiguous"),
        ({"args": ["text"]}, "is a str"),
        ({"block": (64, 32)}, "more than the 1024"),
        ({"grid": (0,)}, "positive"),
        ({"schedule": "late"}, "schedule"),
        ({"dynamic_shared": 1 << 20}, "shared memory"),
    ],
)
def test_errors_of_arguments(options: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"grid": (1,), "block": (32,), "args": [np.zeros(4)], **options}
    with pytest.raises(SimulationError, match=message):
        run_ptx(body(""), "k", **call)


# -- syntax --------------------------------------------------------------------------------


def test_scopes_labels_comments_and_initialisers() -> None:
    text = (
        HEAD
        + """
/* a table, and a pointer to its
   second word */
.global .align 4 .u32 table[4] = {10, 20, 0x1E, 40};
.global .align 8 .u64 pointer = table+4;
.const .align 4 .f32 scale[2] = {0f40000000, 3.5};
.visible .entry k(
    .param .align 8 .b8 both[16],   // a pointer and two integers
    .param .f32 factor
)
.maxntid 64, 1, 1
{
    .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .pred %p;
    ld.param.u64 %rd1, [both];
    ld.param.v2.u32 {%r1, %r2}, [both+8];
    mov.u32 %r3, %tid.x;
    {
        .reg .b32 %r3;
        .reg .pred P1;
        mov.u32 %r3, 5;
        LOOP: sub.u32 %r3, %r3, 1;
        setp.ne.u32 P1, %r3, 0;
        @P1 bra LOOP;
        add.u32 %r1, %r1, %r3;
    }
    {
        .reg .pred P1;
        mov.u32 %r4, 3;
        LOOP: sub.u32 %r4, %r4, 1;
        add.u32 %r2, %r2, 100;
        setp.ne.u32 P1, %r4, 0;
        @P1 bra LOOP;
    }
    ld.global.u64 %rd2, [pointer];
    ld.global.u32 %r5, [%rd2+4];
    ld.const.f32 %f1, [scale+4];
    ld.param.f32 %f2, [factor];
    mul.f32 %f1, %f1, %f2;
    cvt.rzi.u32.f32 %r6, %f1;
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r5;
    add.u32 %r1, %r1, %r6;
    add.u32 %r1, %r1, %r3;
    mul.wide.u32 %rd3, %r3, 4;
    add.s64 %rd1, %rd1, %rd3;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
    )
    out = np.zeros(32, np.uint32)
    inner = np.zeros((), np.dtype([("p", "u8"), ("a", "u4"), ("b", "u4")]))
    inner["a"], inner["b"] = 1, 2
    with pytest.raises(SimulationError, match="give NumPy"):
        run_ptx(text, "k", (1,), (32,), [object(), np.float32(2)])
    # The pointer inside a struct: the caller lays the struct out, so pass the pieces as three parameters instead.
    pieces = text.replace(".param .align 8 .b8 both[16],", ".param .u64 both, .param .u32 one, .param .u32 two,")
    pieces = pieces.replace(
        "ld.param.v2.u32 {%r1, %r2}, [both+8];", "ld.param.u32 %r1, [one]; ld.param.u32 %r2, [two];"
    )
    run_checked(pieces, (1,), (32,), [out, np.uint32(1), np.uint32(2), 2.0])
    np.testing.assert_array_equal(out, 1 + 302 + 30 + 7 + np.arange(32))


def test_struct_parameters() -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u64 out, .param .align 4 .b8 s[12]) {
    .reg .b32 %r<4>; .reg .b64 %rd;
    ld.param.u64 %rd, [out];
    ld.param.u32 %r0, [s];
    ld.param.u32 %r1, [s+8];
    ld.param.u8 %r2, [s+5];
    add.u32 %r0, %r0, %r1;
    add.u32 %r0, %r0, %r2;
    st.global.u32 [%rd], %r0;
    ret;
}
"""
    )
    value = np.array((7, [1, 2, 3, 4], 30), np.dtype([("a", "u4"), ("b", "u1", 4), ("c", "u4")]))
    out = np.zeros(1, np.uint32)
    run_checked(text, (1,), (1,), [out, value[()]])
    assert out[0] == 7 + 30 + 2


def test_two_functions_and_printing() -> None:
    text = (
        HEAD
        + """
.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 words[23] =
    {116, 104, 114, 101, 97, 100, 32, 37, 100, 58, 32, 37, 46, 50, 102, 32, 37, 108, 108, 120, 37, 37, 10};
.global .align 1 .b8 end[1];
.func (.param .b32 result) square(.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r0, [x];
    mul.lo.u32 %r1, %r0, %r0;
    st.param.b32 [result], %r1;
    ret;
}
.func (.param .b32 result) fourth(.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r0, [x];
    { .param .b32 a; .param .b32 v; st.param.b32 [a], %r0; call.uni (v), square, (a); ld.param.b32 %r1, [v]; }
    { .param .b32 a; .param .b32 v; st.param.b32 [a], %r1; call.uni (v), square, (a); ld.param.b32 %r2, [v]; }
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry k(.param .u64 out)
{
    .local .align 8 .b8 frame[24];
    .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .pred %p; .reg .f64 %d;
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p, %r1, 0;
    mov.u32 %r2, 0;
    @%p bra SKIP;
    { .param .b32 a; .param .b32 v; st.param.b32 [a], %r0; call (v), fourth, (a); ld.param.b32 %r2, [v]; }
SKIP:
    ld.param.u64 %rd0, [out];
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd0, %rd0, %rd1;
    st.global.u32 [%rd0], %r2;
    setp.ne.u32 %p, %r0, 3;
    @%p bra DONE;
    mov.u64 %rd2, frame;
    cvta.local.u64 %rd3, %rd2;
    st.local.u32 [frame], %r0;
    mov.f64 %d, 0d3FF4000000000000;
    st.local.f64 [%rd2+8], %d;
    st.local.u64 [%rd2+16], 255;
    mov.u64 %rd4, words;
    cvta.global.u64 %rd5, %rd4;
    { .param .b64 f; .param .b64 a; .param .b32 v; st.param.b64 [f], %rd5; st.param.b64 [a], %rd3;
      call.uni (v), vprintf, (f, a); ld.param.b32 %r3, [v]; }
DONE:
    ret;
}
"""
    )
    out = np.zeros(32, np.uint32)
    report = run_checked(text, (1,), (32,), [out])
    lanes = np.arange(32, dtype=np.uint32)
    np.testing.assert_array_equal(out, np.where(lanes % 2, lanes**4, 0))
    assert report.stdout == "thread 3: 1.25 ff%\n"


def test_recursion_is_refused() -> None:
    text = HEAD + ".func f() { call f, (); ret; }\n.visible .entry k() { call f, (); ret; }\n"
    with pytest.raises(SimulationError, match="recursion"):
        run_ptx(text, "k", (1,), (32,), [])


# -- memory spaces --------------------------------------------------------------------------------


def test_generic_addresses_of_three_spaces() -> None:
    values = {"a": np.arange(96, dtype=np.uint32)}
    outputs = {"d": "u32", "e": "pred", "f": "pred"}
    code = """
    .shared .align 4 .b8 tile[512];
    .local .align 4 .b8 mine[8];
    .reg .b64 g;
    rem.u32 %x0, a, 3;
    mov.u64 %y0, tile;
    cvta.shared.u64 %y0, %y0;
    mul.wide.u32 %y1, %i, 4;
    add.u64 %y0, %y0, %y1;
    mov.u64 %y2, mine;
    cvta.local.u64 %y2, %y2;
    ld.param.u64 %y3, [p_d];
    add.u64 %y3, %y3, %y1;
    setp.eq.u32 %q0, %x0, 0;
    setp.eq.u32 %q1, %x0, 1;
    selp.b64 g, %y0, %y3, %q0;
    selp.b64 g, %y2, g, %q1;
    isspacep.shared e, g;
    isspacep.global f, g;
    st.u32 [g], a;
    ld.u32 d, [g];
    atom.add.u32 %x1, [g], 7;
    add.u32 d, d, %x1;
    ld.u32 %x1, [g];
    add.u32 d, d, %x1;
    cvta.to.shared.u64 %y4, %y0;
    """
    results, report = simulate(code, values, outputs, block=96)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(results["d"], 3 * values["a"] + 7)
    np.testing.assert_array_equal(results["e"], values["a"] % 3 == 0)
    np.testing.assert_array_equal(results["f"], values["a"] % 3 == 2)


def test_narrow_loads_extend_and_vectors_keep_order() -> None:
    values = {"a": np.arange(32, dtype=np.uint32) * np.uint32(0x08040201)}
    code = """
    ld.param.u64 %y0, [p_a];
    mul.wide.u32 %y1, %i, 4;
    add.u64 %y0, %y0, %y1;
    ld.global.s8 d, [%y0+3];
    ld.global.nc.L1::no_allocate.u16 e, [%y0+2];
    and.b64 %y2, %y0, -16;
    ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%y2];
    sub.u32 f, %x3, %x1;
    ld.global.v2.u16 {%h0, %h1}, [%y0];
    cvt.u32.u16 g, %h1;
    """
    results, _ = simulate(code, values, {"d": "s32", "e": "u32", "f": "u32", "g": "u32"})
    words = values["a"]
    np.testing.assert_array_equal(results["d"], (words >> 24).astype(np.uint8).view(np.int8))
    np.testing.assert_array_equal(results["e"], words >> 16)
    rows = words.reshape(-1, 4)
    np.testing.assert_array_equal(results["f"], np.repeat(rows[:, 3] - rows[:, 1], 4))
    np.testing.assert_array_equal(results["g"], words >> 16)


def test_the_same_array_twice_is_one_buffer() -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u64 x, .param .u64 y) {
    .reg .b64 %rd<2>; .reg .b32 %r;
    ld.param.u64 %rd0, [x];
    ld.param.u64 %rd1, [y];
    st.global.u32 [%rd0+8], 5;
    ld.global.u32 %r, [%rd1];
    st.global.u32 [%rd1+4], %r;
    ret;
}
"""
    )
    base = np.zeros(8, np.uint32)
    run_checked(text, (1,), (1,), [base, base[2:]])
    np.testing.assert_array_equal(base, [0, 0, 5, 5, 0, 0, 0, 0])


@pytest.mark.parametrize(("size", "cache"), [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")])
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_asynchronous_copies_fill_with_zeros(size: int, cache: str, schedule: str) -> None:
    """The first half gives a source size, the second half a predicate that ignores the source."""
    text = (
        HEAD
        + f""".visible .entry k(.param .u64 source, .param .u64 result) {{
    .shared .align 16 .b8 tile[{64 * size}];
    .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p, %q;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd1, [result];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd2, %r0, {size};
    add.u64 %rd0, %rd0, %rd2;
    add.u64 %rd1, %rd1, %rd2;
    mov.u32 %r1, tile;
    mad.lo.u32 %r1, %r0, {size}, %r1;
    rem.u32 %r2, %r0, {size + 1};
    and.b32 %r3, %r0, 1;
    setp.ne.u32 %q, %r3, 0;
    setp.lt.u32 %p, %r0, 32;
    @%p bra SIZED;
    cp.async.{cache}.shared.global [%r1], [%rd0], {size}, %q;
    bra JOIN;
SIZED:
    cp.async.{cache}.shared.global.L2::128B [%r1], [%rd0], {size}, %r2;
JOIN:
    cp.async.wait_all;
    mov.u32 %r4, 0;
LOOP:
    add.u32 %r5, %r1, %r4;
    ld.shared.u8 %r6, [%r5];
    cvt.u64.u32 %rd3, %r4;
    add.u64 %rd4, %rd1, %rd3;
    st.global.u8 [%rd4], %r6;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p, %r4, {size};
    @%p bra LOOP;
    ret;
}}
"""
    )
    source = np.arange(1, 64 * size + 1).astype(np.uint8).reshape(64, size)
    result = np.zeros_like(source)
    run_checked(text, (1,), (64,), [source, result], schedule=schedule)
    valid = np.where(np.arange(64) < 32, np.arange(64) % (size + 1), np.where(np.arange(64) % 2, 0, size))
    np.testing.assert_array_equal(result, np.where(np.arange(size) < valid[:, None], source, 0))


# -- atomics --------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
U = RNG.integers(0, 1 << 32, 128, dtype=np.uint32)


def atomic(op: str, kind: str, value: np.ndarray[Any, Any], start: np.ndarray[Any, Any], extra: str = "") -> Any:
    """All threads of two CTAs update one of four places; returns memory and the old values."""
    size = value.dtype.itemsize
    text = (
        HEAD
        + f""".visible .entry k(.param .u64 values, .param .u64 memory, .param .u64 result) {{
    .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .b{8 * size} %v, %d;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r0, %r1, 64, %r0;
    mul.wide.u32 %rd0, %r0, {size};
    and.b32 %r2, %r0, 3;
    mul.wide.u32 %rd1, %r2, {size};
    ld.param.u64 %rd2, [values];
    ld.param.u64 %rd3, [memory];
    ld.param.u64 %rd4, [result];
    add.u64 %rd2, %rd2, %rd0;
    add.u64 %rd3, %rd3, %rd1;
    add.u64 %rd4, %rd4, %rd0;
    ld.global.b{8 * size} %v, [%rd2];
    atom.global.{op}.{kind} %d, [%rd3], %v{extra};
    st.global.b{8 * size} [%rd4], %d;
    ret;
}}
"""
    )
    text = text.replace("sm_80", "sm_90") if kind == "bf16x2" else text
    memory, old = start.copy(), np.zeros_like(value)
    report = run_ptx(text, "k", (2,), (64,), [value, memory, old])
    assert not report.findings, str(report.findings[0])
    assert assemble(text, "sm_90" if kind == "bf16x2" else "sm_80") is None
    # The same with red, which returns nothing.
    if op not in ("exch", "cas"):
        again = start.copy()
        red = text.replace(f"atom.global.{op}.{kind} %d,", f"red.global.{op}.{kind}").replace("st.global", "// ")
        assert not run_ptx(red, "k", (2,), (64,), [value, again, old.copy()]).findings
        np.testing.assert_array_equal(again, memory)
    return memory, old


@pytest.mark.parametrize(
    ("op", "kind", "function"),
    [
        ("add", "u32", lambda old, a: old + a),
        ("add", "s32", lambda old, a: old + a),
        ("min", "u32", min),
        ("max", "u32", max),
        ("and", "b32", lambda old, a: old & a),
        ("or", "b32", lambda old, a: old | a),
        ("xor", "b32", lambda old, a: old ^ a),
        ("exch", "b32", lambda old, a: a),
        ("inc", "u32", lambda old, a: 0 if old >= a else old + 1),
        ("dec", "u32", lambda old, a: a if old == 0 or old > a else old - 1),
    ],
)
def test_integer_atomics_in_thread_order(op: str, kind: str, function: Any) -> None:
    start = np.array([0, 1, 1 << 31, 77], np.uint32)
    memory, old = atomic(op, kind, U, start)
    state = start.copy()
    for thread in range(128):
        place = thread % 4
        assert old[thread] == state[place]
        state[place] = function(int(state[place]), int(U[thread])) & 0xFFFFFFFF
    np.testing.assert_array_equal(memory, state)


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_float_atomics(kind: str, dtype: str) -> None:
    value = RNG.standard_normal(128).astype(dtype)
    memory, old = atomic("add", kind, value, np.zeros(4, dtype))
    np.testing.assert_allclose(memory, value.reshape(-1, 4).sum(axis=0), rtol=1e-4)
    np.testing.assert_array_equal(old[:4], 0)


def test_packed_atomics() -> None:
    value = RNG.integers(-4, 5, 256).astype(np.float16).view(np.uint32)
    memory, _ = atomic("add.noftz", "f16x2", value, np.zeros(4, np.uint32))
    want = value.view(np.float16).reshape(-1, 4, 2).sum(axis=0, dtype=np.float32)
    np.testing.assert_array_equal(memory.view(np.float16).reshape(4, 2), want)
    value = RNG.integers(-4, 5, 256).astype(ml_dtypes.bfloat16).view(np.uint32)
    memory, _ = atomic("add.noftz", "bf16x2", value, np.zeros(4, np.uint32))
    want = value.view(ml_dtypes.bfloat16).astype(np.float32).reshape(-1, 4, 2).sum(axis=0)
    np.testing.assert_array_equal(memory.view(ml_dtypes.bfloat16).astype(np.float32).reshape(4, 2), want)


def test_compare_and_swap() -> None:
    memory, old = atomic("cas", "b32", np.arange(128, dtype=np.uint32) // 4, np.zeros(4, np.uint32), ", 1000")
    np.testing.assert_array_equal(memory, 1000)
    np.testing.assert_array_equal(old[:4], 0)
    np.testing.assert_array_equal(old[4:], 1000)


# -- launches --------------------------------------------------------------------------------


def test_many_ctas_in_three_dimensions() -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u64 out) {
    .reg .b32 %r<12>; .reg .b64 %rd<2>;
    mov.u32 %r0, %tid.x;  mov.u32 %r1, %tid.y;  mov.u32 %r2, %tid.z;
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
    mov.u32 %r6, %ntid.x; mov.u32 %r7, %nctaid.x; mov.u32 %r8, %nctaid.y;
    mad.lo.u32 %r9, %r5, %r8, %r4;
    mad.lo.u32 %r9, %r9, %r7, %r3;       // CTA number
    mul.lo.u32 %r10, %r9, 42;
    mad.lo.u32 %r11, %r2, 7, %r1;
    mad.lo.u32 %r11, %r11, %r6, %r0;     // thread number (block 2 x 7 x 3)
    add.u32 %r10, %r10, %r11;
    ld.param.u64 %rd0, [out];
    mul.wide.u32 %rd1, %r10, 4;
    add.s64 %rd0, %rd0, %rd1;
    add.u32 %r10, %r10, 1;
    st.global.u32 [%rd0], %r10;
    ret;
}
"""
    )
    out = np.zeros(9 * 8 * 7 * 42, np.uint32)
    report = run_checked(text, (9, 8, 7), (2, 7, 3), [out])
    np.testing.assert_array_equal(out, np.arange(len(out)) + 1)
    assert report.instructions["st.global"] == 9 * 8 * 7 * 2


def test_required_block_is_checked() -> None:
    text = body("").replace(") {", ")\n.reqntid 64\n{")
    with pytest.raises(SimulationError, match="requires a block"):
        run_ptx(text, "k", (1,), (32,), [np.zeros(1)])


def test_random_schedules_repeat_with_their_seed() -> None:
    code = "atom.global.add.u32 d, [%y0], 1;"
    text = "ld.param.u64 %y0, [p_a];\nmov.u64 %y1, 0;\n" + code
    runs = []
    for seed in (1, 1, 2):
        results, _ = simulate(text, {"a": np.zeros(256, np.uint32)}, {"d": "u32"}, schedule="random", seed=seed)
        runs.append(results["d"])
        assert sorted(results["d"]) == list(range(256))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()
