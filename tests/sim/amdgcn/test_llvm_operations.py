"""LLVM's code for single operations of IR, per lane and uniform, on edge cases and random numbers, against NumPy.

What LLVM prints is the ground truth for what instructions mean: a wrong one gives a wrong operation here.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import run_gcn
from tests.sim.amdgcn.harness import assemble

TYPES = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "half": np.float16,
    "bfloat": ml_dtypes.bfloat16,
    "float": np.float32,
    "double": np.float64,
}
KERNEL = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
{declarations}
define amdgpu_kernel void @k(ptr addrspace(1) noalias readonly %pa, ptr addrspace(1) noalias readonly %pb,
                             ptr addrspace(1) noalias %pc) #0 {{
  %i = call i32 @llvm.amdgcn.work{who}.id.x()
  %qa = getelementptr {source}, ptr addrspace(1) %pa, i32 %i
  %qb = getelementptr {source}, ptr addrspace(1) %pb, i32 %i
  %qc = getelementptr {result}, ptr addrspace(1) %pc, i32 %i
  %a = load {source}, ptr addrspace(1) %qa
  %b = load {source}, ptr addrspace(1) %qb
{body}
  store {result} %c, ptr addrspace(1) %qc
  ret void
}}
"""


def numbers(kind: str) -> np.ndarray:
    """Edge cases and random numbers of a type."""
    rng = np.random.default_rng(len(kind))
    dtype = np.dtype(TYPES[kind])
    if kind[0] == "i":
        limits = np.iinfo(dtype)
        edges = [0, 1, -1, 2, 3, 7, -7, limits.max, limits.min, limits.max - 1, limits.min + 1, 64, 63, 100, -100]
        wild = rng.integers(limits.min, limits.max, 100, dtype, endpoint=True)
        return np.concatenate([np.array(edges, dtype), wild])
    form = ml_dtypes.finfo(dtype) if kind == "bfloat" else np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, 3.0, -3.7, np.inf, -np.inf, np.nan, float(form.max), float(form.tiny)]
    edges += [float(form.tiny) / 4, -float(form.max), 1e-3, 255.5, 65504.0]
    wild = rng.standard_normal(60) * np.exp2(rng.integers(-8, 8, 60))
    return np.concatenate([np.array(edges), wild]).astype(dtype)


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Every edge case against every other, within 256 pairs."""
    values = numbers(kind)
    edge = values[:15]
    rng = np.random.default_rng(7)
    a = np.concatenate([np.repeat(edge, 15), rng.choice(values, 31)])
    b = np.concatenate([np.tile(edge, 15), rng.choice(values, 31)])
    return a, b


def execute(body, kind, result, uniform, arch="gfx950", level=3, declarations="", operands=None):
    """Run a body that computes %c from %a and %b."""
    a, b = pairs(kind) if operands is None else operands
    who = "group" if uniform else "item"
    text = assemble(
        KERNEL.format(body=body, source=kind, result=result, who=who, declarations=declarations), arch, level
    )
    c = np.zeros(len(a), TYPES[result])
    shape = ((len(a),), (1,)) if uniform else ((1,), (len(a),))
    report = run_gcn(text, "k", *shape, [a, b, c])
    assert [str(finding) for finding in report.findings] == []
    return a, b, c


def same(got, wanted):
    """Equal bits, any NaN equal to any other."""
    wanted = wanted.astype(got.dtype)
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, wanted)
        return
    word = np.dtype(f"u{got.dtype.itemsize}")
    both = np.isnan(got.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    bad = np.flatnonzero((got.view(word) != wanted.view(word)) & ~both)
    assert not len(bad), [(int(index), got[index], wanted[index]) for index in bad[:5]]


def unsigned(x):
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def truncated(x, y):
    """(quotient, remainder) of a division that truncates, in Python's integers."""
    quotient = [abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, y, strict=True)]
    return quotient, [int(p) - int(q) * int(r) for p, q, r in zip(x, y, quotient, strict=True)]


INTEGER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "ashr": lambda a, b: a >> b,
    "lshr": lambda a, b: (unsigned(a) >> unsigned(b)).view(a.dtype),
}


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("operation", INTEGER)
@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_integer(kind, operation, uniform):
    a, b = pairs(kind)
    if operation in ("shl", "ashr", "lshr"):
        b = b & (8 * b.dtype.itemsize - 1)
    a, b, c = execute(f"  %c = {operation} {kind} %a, %b", kind, kind, uniform, operands=(a, b))
    with np.errstate(over="ignore"):
        same(c, INTEGER[operation](a, b))


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("operation", ["sdiv", "srem", "udiv", "urem"])
@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_division(kind, operation, uniform):
    a, b = pairs(kind)
    keep = b != 0
    if operation[0] == "s":
        keep &= ~((b == -1) & (a == np.iinfo(a.dtype).min))
    a, b = a[keep][:64], b[keep][:64]
    a, b, c = execute(f"  %c = {operation} {kind} %a, %b", kind, kind, uniform, operands=(a, b))
    x, y = (unsigned(a), unsigned(b)) if operation[0] == "u" else (a, b)
    expected = truncated(x, y)[operation.endswith("rem")]
    same(c, np.array(expected, x.dtype).view(a.dtype))


BITS = {
    "ctpop": lambda x, bits: bin(x).count("1"),
    "ctlz": lambda x, bits: bits - x.bit_length(),
    "cttz": lambda x, bits: (x & -x).bit_length() - 1 if x else bits,
    "bitreverse": lambda x, bits: int(f"{x:0{bits}b}"[::-1], 2),
    "abs": lambda x, bits: x if x < 1 << bits - 1 else (1 << bits) - x,
}


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("operation", BITS)
@pytest.mark.parametrize("kind", ["i16", "i32", "i64"])
def test_bits(kind, operation, uniform):
    extra = ", i1 false" if operation in ("ctlz", "cttz", "abs") else ""
    declaration = f"declare {kind} @llvm.{operation}.{kind}({kind}{', i1' if extra else ''})"
    body = f"  %c = call {kind} @llvm.{operation}.{kind}({kind} %a{extra})"
    a, _, c = execute(body, kind, kind, uniform, declarations=declaration)
    bits = 8 * a.dtype.itemsize
    same(unsigned(c), np.array([BITS[operation](int(x), bits) for x in unsigned(a)], unsigned(a).dtype))


PAIRS = {
    "smin": np.minimum,
    "smax": np.maximum,
    "umin": lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(a.dtype),
    "umax": lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(a.dtype),
    "sadd.sat": lambda a, b: _saturate(a, b, 1),
    "ssub.sat": lambda a, b: _saturate(a, b, -1),
    "uadd.sat": lambda a, b: _saturate(unsigned(a), unsigned(b), 1).view(a.dtype),
    "usub.sat": lambda a, b: _saturate(unsigned(a), unsigned(b), -1).view(a.dtype),
}


def _saturate(a, b, sign):
    limits = np.iinfo(a.dtype)
    exact = [int(x) + sign * int(y) for x, y in zip(a, b, strict=True)]
    return np.array([min(max(x, limits.min), limits.max) for x in exact], a.dtype)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("operation", PAIRS)
@pytest.mark.parametrize("kind", ["i16", "i32", "i64"])
def test_pairs(kind, operation, uniform):
    declaration = f"declare {kind} @llvm.{operation}.{kind}({kind}, {kind})"
    body = f"  %c = call {kind} @llvm.{operation}.{kind}({kind} %a, {kind} %b)"
    a, b, c = execute(body, kind, kind, uniform, declarations=declaration)
    same(c, PAIRS[operation](a, b))


CONDITIONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": lambda a, b: unsigned(a) < unsigned(b),
    "uge": lambda a, b: unsigned(a) >= unsigned(b),
}


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", ["i16", "i32", "i64"])
def test_compare(kind, condition, uniform):
    body = f"  %p = icmp {condition} {kind} %a, %b\n  %c = select i1 %p, {kind} %a, {kind} 77"
    a, b, c = execute(body, kind, kind, uniform)
    same(c, np.where(CONDITIONS[condition](a, b), a, a.dtype.type(77)))


ORDERS = {
    "oeq": lambda a, b: a == b,
    "one": lambda a, b: (a < b) | (a > b),
    "olt": lambda a, b: a < b,
    "oge": lambda a, b: a >= b,
    "ord": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: a != b,
}


@pytest.mark.parametrize("condition", ORDERS)
@pytest.mark.parametrize("kind", ["half", "float", "double"])
def test_float_compare(kind, condition):
    body = f"  %p = fcmp {condition} {kind} %a, %b\n  %c = zext i1 %p to i32"
    a, b, c = execute(body, kind, "i32", False)
    same(c, ORDERS[condition](a, b))


FLOAT = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fmul": lambda a, b: a * b,
    "fdiv": lambda a, b: a / b,
}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("operation", FLOAT)
@pytest.mark.parametrize("kind", ["half", "bfloat", "float", "double"])
def test_float(kind, operation, arch):
    """Rounded correctly: division is built from v_div_scale, v_rcp, v_fma, v_div_fmas, v_div_fixup."""
    a, b, c = execute(f"  %c = {operation} {kind} %a, %b", kind, kind, False, arch)
    with np.errstate(all="ignore"):
        if kind == "bfloat":
            expected = FLOAT[operation](a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        else:
            expected = FLOAT[operation](a, b)
    same(c, expected)


@pytest.mark.parametrize("seed", range(3))
def test_float_division_over_all_exponents(seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 1 << 32, 256, np.uint32).view(np.float32) for _ in range(2))
    a, b, c = execute("  %c = fdiv float %a, %b", "float", "float", False, operands=(a, b))
    with np.errstate(all="ignore"):
        same(c, a / b)


ROUND = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x.astype(np.longdouble)) + 0.5), x),
    "fabs": np.abs,
    "sqrt": np.sqrt,
    "canonicalize": lambda x: x,
}


@pytest.mark.parametrize("operation", ROUND)
@pytest.mark.parametrize("kind", ["half", "float", "double"])
def test_functions(kind, operation):
    declaration = f"declare {kind} @llvm.{operation}.f{8 * np.dtype(TYPES[kind]).itemsize}({kind})"
    body = f"  %c = call {kind} @llvm.{operation}.f{8 * np.dtype(TYPES[kind]).itemsize}({kind} %a)"
    a, _, c = execute(body, kind, kind, False, declarations=declaration)
    with np.errstate(all="ignore"):
        same(c, ROUND[operation](a))


@pytest.mark.parametrize(
    ("operation", "function"), [("exp", np.exp), ("exp2", np.exp2), ("log", np.log), ("log2", np.log2)]
)
@pytest.mark.parametrize("kind", ["half", "float"])
def test_transcendental(kind, operation, function):
    bits = 8 * np.dtype(TYPES[kind]).itemsize
    declaration = f"declare {kind} @llvm.{operation}.f{bits}({kind})"
    body = f"  %c = call {kind} @llvm.{operation}.f{bits}({kind} %a)"
    a, _, c = execute(body, kind, kind, False, declarations=declaration)
    with np.errstate(all="ignore"):
        expected = function(a.astype(np.float64)).astype(a.dtype)
    np.testing.assert_allclose(c.astype(np.float64), expected.astype(np.float64), rtol=4 * np.finfo(a.dtype).eps)


@pytest.mark.parametrize("kind", ["half", "float", "double"])
def test_fma_min_max(kind):
    bits = 8 * np.dtype(TYPES[kind]).itemsize
    declarations = "\n".join(
        f"declare {kind} @llvm.{name}.f{bits}({', '.join([kind] * count)})"
        for name, count in (("fma", 3), ("minnum", 2), ("maxnum", 2))
    )
    body = f"""
  %m = call {kind} @llvm.minnum.f{bits}({kind} %a, {kind} %b)
  %x = call {kind} @llvm.maxnum.f{bits}({kind} %a, {kind} 1.0)
  %c = call {kind} @llvm.fma.f{bits}({kind} %m, {kind} %x, {kind} %b)"""
    a, b, c = execute(body, kind, kind, False, declarations=declarations)
    with np.errstate(all="ignore"):
        low, high = np.where((a == 0) & (b == 0) & np.signbit(b), b, np.fmin(a, b)), np.fmax(a, a.dtype.type(1))
        exact = low.astype(np.longdouble) * high.astype(np.longdouble) + b.astype(np.longdouble)
        if kind == "double":
            np.testing.assert_allclose(c, exact.astype(np.float64), rtol=1e-15)
        else:
            same(c, exact.astype(a.dtype))


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize(
    ("source", "result", "operation"),
    [
        *((kind, to, "sitofp") for kind in ("i8", "i16", "i32", "i64") for to in ("half", "float", "double", "bfloat")),
        *((kind, "float", "uitofp") for kind in ("i8", "i16", "i32", "i64")),
        *((kind, to, "fptosi") for kind in ("half", "float", "double") for to in ("i16", "i32", "i64")),
        ("float", "half", "fptrunc"),
        ("float", "bfloat", "fptrunc"),
        ("double", "float", "fptrunc"),
        ("half", "float", "fpext"),
        ("bfloat", "float", "fpext"),
        ("float", "double", "fpext"),
        ("i8", "i64", "sext"),
        ("i8", "i32", "zext"),
        ("i16", "i64", "zext"),
        ("i64", "i8", "trunc"),
    ],
)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_convert(source, result, operation, uniform, arch):
    a, b = pairs(source)
    a, b = np.unique(a), np.unique(a)
    if operation == "fptosi":
        keep = np.isfinite(a) & (np.abs(a.astype(np.float64)) < 30000)
        a = b = a[keep]
    a, _, c = execute(f"  %c = {operation} {source} %a to {result}", source, result, uniform, arch, operands=(a, b))
    with np.errstate(all="ignore"):
        start = unsigned(a) if operation in ("uitofp", "zext") else a
        if source == "i64" and result in ("half", "bfloat"):
            # Through f32, as LLVM does it: rounded twice.
            start = start.astype(np.float32)
        same(c, start.astype(TYPES[result]))


F8 = {
    ("gfx942", "fp8"): ml_dtypes.float8_e4m3fnuz,
    ("gfx942", "bf8"): ml_dtypes.float8_e5m2fnuz,
    ("gfx950", "fp8"): ml_dtypes.float8_e4m3fn,
    ("gfx950", "bf8"): ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize(("arch", "kind"), F8)
def test_small_floats(arch, kind, high):
    """Two floats to bytes of one half of a register, then back in pairs and one by one."""
    declarations = f"""
declare i32 @llvm.amdgcn.cvt.pk.{kind}.f32(float, float, i32, i1)
declare <2 x float> @llvm.amdgcn.cvt.pk.f32.{kind}(i32, i1)
declare float @llvm.amdgcn.cvt.f32.{kind}(i32, i32)
"""
    byte = 3 if high else 1
    body = f"""
  %p = call i32 @llvm.amdgcn.cvt.pk.{kind}.f32(float %a, float %b, i32 305419896, i1 {int(high)})
  %u = call <2 x float> @llvm.amdgcn.cvt.pk.f32.{kind}(i32 %p, i1 {int(high)})
  %x = extractelement <2 x float> %u, i32 0
  %y = call float @llvm.amdgcn.cvt.f32.{kind}(i32 %p, i32 {byte})
  %xi = bitcast float %x to i32
  %yi = bitcast float %y to i32
  %xl = lshr i32 %xi, 16
  %yh = and i32 %yi, -65536
  %c1 = or i32 %xl, %yh
  %m = and i32 %p, {0xFFFF if high else -65536}
  %big = zext i32 %c1 to i64
  %m64 = zext i32 %m to i64
  %ms = shl i64 %m64, 32
  %c = or i64 %big, %ms"""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(200).astype(np.float32) * 20 for _ in range(2))
    _, _, c = execute(body, "float", "i64", False, arch, declarations=declarations, operands=(a, b))
    words = c.view(np.uint32).reshape(-1, 2)
    dtype = F8[arch, kind]
    np.testing.assert_array_equal(words[:, 1], 0x12345678 & (0xFFFF if high else 0xFFFF0000))
    np.testing.assert_array_equal((words[:, 0] << 16).view(np.float32), a.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal((words[:, 0] & 0xFFFF0000).view(np.float32), b.astype(dtype).astype(np.float32))


PACKED = {
    "fadd": lambda a, b: a + b,
    "fmul": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << b,
    "ashr": lambda a, b: a >> b,
}


@pytest.mark.parametrize("operation", PACKED)
@pytest.mark.parametrize("order", ["0, i32 1", "1, i32 0"])
def test_packed(operation, order):
    """Vectors of two: v_pk_ instructions, with halves exchanged by op_sel."""
    kind = "half" if operation[0] == "f" else "i16"
    mask = "<i32 {}>".format(order.replace("i32 ", "i32 "))
    extra = f"  %b2 = and <2 x {kind}> %b1, splat ({kind} 15)\n" if operation in ("shl", "ashr") else ""
    body = f"""
  %b1 = shufflevector <2 x {kind}> %b, <2 x {kind}> poison, <2 x i32> {mask}
{extra}  %c = {operation} <2 x {kind}> %a, {"%b2" if extra else "%b1"}"""
    a, b = pairs(kind)
    a, b = a[:256].reshape(-1, 2), b[:256].reshape(-1, 2)
    text = assemble(
        KERNEL.format(body=body, source=f"<2 x {kind}>", result=f"<2 x {kind}>", who="item", declarations="")
    )
    assert "v_pk_" in text
    c = np.zeros_like(a)
    report = run_gcn(text, "k", (1,), (len(a),), [a, b, c])
    assert not report.findings
    other = b[:, ::-1] if order.startswith("1") else b
    if extra:
        other = other & np.int16(15)
    with np.errstate(all="ignore"):
        same(c.ravel(), PACKED[operation](a, other).ravel())


def test_packed_f32():
    body = """
  %m = fmul <2 x float> %a, %b
  %s = fadd <2 x float> %m, <float 1.0, float 2.0>
  %n = fneg <2 x float> %a
  %c = call <2 x float> @llvm.fma.v2f32(<2 x float> %n, <2 x float> %s, <2 x float> %b)"""
    declarations = "declare <2 x float> @llvm.fma.v2f32(<2 x float>, <2 x float>, <2 x float>)"
    text = assemble(
        KERNEL.format(body=body, source="<2 x float>", result="<2 x float>", who="item", declarations=declarations)
    )
    assert {"v_pk_mul_f32", "v_pk_add_f32", "v_pk_fma_f32"} <= set(text.split())
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 2)).astype(np.float32) for _ in range(2))
    c = np.zeros_like(a)
    run_gcn(text, "k", (1,), (64,), [a, b, c])
    total = (a * b + np.array([1, 2], np.float32)).astype(np.float64)
    np.testing.assert_array_equal(c, (b - a.astype(np.float64) * total).astype(np.float32))


def test_lines_of_the_source():
    text = assemble(
        KERNEL.format(body="  %c = fadd float %a, %b", source="float", result="float", who="item", declarations="")
    )
    store = next(line for line in text.split("\n") if "global_store" in line)
    text = text.replace(store, '\t.file 7 "/somewhere" "user.py"\n\t.loc\t7 12 5 prologue_end ; user.py:12:5\n' + store)
    a = np.zeros(64, np.float32)
    report = run_gcn(text, "k", (1,), (64,), [a, a.copy(), a[:60].copy()])
    assert report.findings[0].first.source == "/somewhere/user.py:12"
    assert "(/somewhere/user.py:12)" in str(report.findings[0])
