"""Single instructions with their meaning in NumPy or plain Python: (name, body, inputs, outputs, expected).

`expected` maps the inputs to the outputs, bit for bit. It is written from the PTX ISA independently of the simulator;
`tests/sim/ptx/test_instructions.py` compares the two, and with MINITILE_GPU=1 the GPU as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
_RNG = np.random.default_rng(7)
N = 256


def _ints(dtype: str) -> tuple[Array, Array, Array]:
    """Three arrays of N integers with the edge values crossed."""
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, 7, 31, 32, 33, info.max, info.max - 1, info.min, info.min + 1, info.max // 3, 100]
    values = _RNG.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
    a, b, c = values.copy(), _RNG.permutation(values), _RNG.permutation(values)
    for index, (x, y) in enumerate((x, y) for x in edges for y in edges[:10]):
        a[index], b[index] = np.clip(x, info.min, info.max), np.clip(y, info.min, info.max)
    return a, b, c


def _floats(dtype: Any) -> tuple[Array, Array, Array]:
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 65504.0, 3.4e38, 1e-7]
    values = np.concatenate([_RNG.standard_normal(N // 2), _RNG.standard_normal(N // 2) * 1e4])
    a, b, c = (_RNG.permutation(values) for _ in range(3))
    with np.errstate(over="ignore"):
        for index, (x, y) in enumerate((x, y) for x in special for y in special):
            a[index], b[index] = x, y
        return a.astype(dtype), b.astype(dtype), c.astype(dtype)


I32 = dict(zip("abc", _ints("i4"), strict=True))
U32 = dict(zip("abc", _ints("u4"), strict=True))
I64 = dict(zip("abc", _ints("i8"), strict=True))
U64 = dict(zip("abc", _ints("u8"), strict=True))
I16 = dict(zip("abc", _ints("i2"), strict=True))
F32 = dict(zip("abc", _floats("f4"), strict=True))
F64 = dict(zip("abc", _floats("f8"), strict=True))
F16 = dict(zip("abc", _floats("f2"), strict=True))
BF16 = {name: array.astype(ml_dtypes.bfloat16).view("u2") for name, array in F32.items()}
PACKED16 = {name: np.concatenate([x, x[::-1]]).view("u4") for name, x in F16.items()}
AMOUNT = {"n": _RNG.integers(0, 40, N).astype("u4")}


@dataclass
class Case:
    """One body and what it must compute."""

    name: str
    body: str
    inputs: dict[str, Array]
    outputs: dict[str, str]
    expected: Callable[..., Any]
    target: str = "sm_80"
    ulp: float = 0.0  # allowed error in units of the last place,
    absolute: float = 0.0  # or in absolute terms: the ISA's bounds for approximations
    tags: list[str] = field(default_factory=list)


CASES: list[Case] = []


def case(
    body: str, inputs: dict[str, Array], outputs: dict[str, str], expected: Callable[..., Any], **more: Any
) -> None:
    """Add a case; a tuple or single array from `expected` goes to the outputs in order."""
    use = {name: array for name, array in inputs.items() if re.search(rf"\b{name}\b", body)}
    name = body.replace(";", "").split("\n")[0].strip()
    CASES.append(Case(f"{len(CASES)} {name}", body, use, outputs, expected, **more))


def py(function: Callable[..., int], dtype: str) -> Callable[..., Array]:
    """Lift a function on Python integers; the result wraps to dtype."""
    bits = 8 * np.dtype(dtype).itemsize

    def lifted(*arrays: Array) -> Array:
        rows = zip(*(array.tolist() for array in arrays), strict=True)
        return np.array([function(*row) & ((1 << bits) - 1) for row in rows], f"u{bits // 8}").view(dtype)

    return lifted


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


# Integer arithmetic.
for kind, data in (("s32", I32), ("u32", U32), ("s64", I64), ("u64", U64), ("s16", I16)):
    dt = data["a"].dtype.str
    nonzero = {**data, "b": np.where(data["b"] == 0, data["b"].dtype.type(3), data["b"])}
    bits = 8 * data["a"].dtype.itemsize
    for name, function in {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "mul.hi": lambda a, b, bits=bits: a * b >> bits,
        "min": min,
        "max": max,
    }.items():
        case(f"{name}.{kind} d, a, b;", data, {"d": kind}, py(function, dt))
    case(f"div.{kind} d, a, b;", nonzero, {"d": kind}, py(truncated, dt))
    case(f"rem.{kind} d, a, b;", nonzero, {"d": kind}, py(lambda a, b: a - b * truncated(a, b), dt))
    case(f"mad.lo.{kind} d, a, b, c;", data, {"d": kind}, py(lambda a, b, c: a * b + c, dt))
    for cmp, test in {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "eq": int.__eq__}.items():
        case(f"setp.{cmp}.{kind} d, a, b;", data, {"d": "pred"}, py(test, "u4"))
for kind, data in (("s32", I32), ("s64", I64), ("s16", I16)):
    dt = data["a"].dtype.str
    case(f"abs.{kind} d, a;", data, {"d": kind}, py(abs, dt))
    case(f"neg.{kind} d, a;", data, {"d": kind}, py(lambda a: -a, dt))
LOW, HIGH = -(1 << 31), (1 << 31) - 1
case("add.sat.s32 d, a, b;", I32, {"d": "s32"}, py(lambda a, b: clamp(a + b, LOW, HIGH), "i4"))
case("sub.sat.s32 d, a, b;", I32, {"d": "s32"}, py(lambda a, b: clamp(a - b, LOW, HIGH), "i4"))
case("mad.hi.sat.s32 d, a, b, c;", I32, {"d": "s32"}, py(lambda a, b, c: clamp((a * b >> 32) + c, LOW, HIGH), "i4"))
case("mul.wide.s32 d, a, b;", I32, {"d": "s64"}, py(lambda a, b: a * b, "i8"))
case("mul.wide.u32 d, a, b;", U32, {"d": "u64"}, py(lambda a, b: a * b, "u8"))
case("mul.wide.s16 d, a, b;", I16, {"d": "s32"}, py(lambda a, b: a * b, "i4"))
case("mad.wide.s32 d, a, b, 77;", I32, {"d": "s64"}, py(lambda a, b: a * b + 77, "i8"))
case("mad.hi.u32 d, a, b, c;", U32, {"d": "u32"}, py(lambda a, b, c: (a * b >> 32) + c, "u4"))
case("sad.s32 d, a, b, c;", I32, {"d": "s32"}, py(lambda a, b, c: c + abs(a - b), "i4"))


def _s24(x: int) -> int:
    x &= 0xFFFFFF
    return x - (1 << 24) if x >> 23 else x


case("mul24.lo.s32 d, a, b;", I32, {"d": "s32"}, py(lambda a, b: _s24(a) * _s24(b), "i4"))
case("mul24.hi.u32 d, a, b;", U32, {"d": "u32"}, py(lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16, "u4"))


def _bytes(x: int, signed: bool) -> list[int]:
    return [b - 256 if signed and b > 127 else b for b in (x & 0xFFFFFFFF).to_bytes(4, "little")]


case(
    "dp4a.s32.u32 d, a, b, c;",
    U32,
    {"d": "s32"},
    py(lambda a, b, c: c + sum(x * y for x, y in zip(_bytes(a, True), _bytes(b, False), strict=True)), "i4"),
)
case(
    "dp2a.hi.u32.u32 d, a, b, c;",
    U32,
    {"d": "u32"},
    py(lambda a, b, c: c + (a & 0xFFFF) * (b >> 16 & 0xFF) + (a >> 16) * (b >> 24), "u4"),
)

# Carries: a 128-bit sum, difference and a multiply-add chain.
case(
    "add.cc.u64 d, a, b;\naddc.u64 e, a, c;",
    U64,
    {"d": "u64", "e": "u64"},
    lambda a, b, c: (py(lambda a, b: a + b, "u8")(a, b), py(lambda a, b, c: a + c + (a + b >> 64), "u8")(a, b, c)),
)
case(
    "sub.cc.u32 d, a, b;\nsubc.u32 e, a, c;",
    U32,
    {"d": "u32", "e": "u32"},
    lambda a, b, c: (a - b, py(lambda a, b, c: a - c - (a < b), "u4")(a, b, c)),
)
case(
    "mad.lo.cc.u32 d, a, b, c;\nmadc.hi.u32 e, a, b, 0;",
    U32,
    {"d": "u32", "e": "u32"},
    lambda a, b, c: (
        py(lambda a, b, c: a * b + c, "u4")(a, b, c),
        py(lambda a, b, c: (a * b >> 32) + ((a * b & 0xFFFFFFFF) + c >> 32), "u4")(a, b, c),
    ),
)

# Bits.
for kind, data in (("b32", U32), ("b64", U64)):
    bits, dt = 8 * data["a"].dtype.itemsize, data["a"].dtype.str
    ones = (1 << bits) - 1
    both = {**data, **AMOUNT}
    case(f"and.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a & b)
    case(f"or.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a | b)
    case(f"xor.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a ^ b)
    case(f"not.{kind} d, a;", data, {"d": kind}, lambda a: ~a)
    case(f"cnot.{kind} d, a;", data, {"d": kind}, py(lambda a: int(a == 0), dt))
    case(f"shl.{kind} d, a, n;", both, {"d": kind}, py(lambda a, n: a << n, dt))
    case(f"shr.u{bits} d, a, n;", both, {"d": f"u{bits}"}, py(lambda a, n: a >> n, dt))
    case(f"popc.{kind} d, a;", data, {"d": "u32"}, py(lambda a: a.bit_count(), "u4"))
    case(f"clz.{kind} d, a;", data, {"d": "u32"}, py(lambda a, bits=bits: bits - a.bit_length(), "u4"))
    case(f"brev.{kind} d, a;", data, {"d": kind}, py(lambda a, bits=bits: int(f"{a:0{bits}b}"[::-1], 2), dt))
    case(f"bfind.u{bits} d, a;", data, {"d": "u32"}, py(lambda a: a.bit_length() - 1, "u4"))
    case(f"bfe.u{bits} d, a, n, 9;", both, {"d": f"u{bits}"}, py(lambda a, n: a >> n & 511, dt))
    case(
        f"bfi.{kind} d, a, b, n, 11;",
        both,
        {"d": kind},
        py(lambda a, b, n, o=ones: b & ~(2047 << n) | ((a & 2047) << n & o), dt),
    )
case("shr.s32 d, a, n;", {**I32, **AMOUNT}, {"d": "s32"}, py(lambda a, n: a >> n, "i4"))
case("shr.s64 d, a, n;", {**I64, **AMOUNT}, {"d": "s64"}, py(lambda a, n: a >> n, "i8"))
case(
    "bfind.shiftamt.s32 d, a;",
    I32,
    {"d": "u32"},
    py(lambda a: -1 if a in (0, -1) else 32 - (~a if a < 0 else a).bit_length(), "u4"),
)


def _bfe_signed(a: int, start: int, length: int) -> int:
    """The ISA's pseudocode."""
    sign = 0 if length == 0 else a >> min(start + length - 1, 31) & 1
    result = 0
    for i in range(32):
        bit = a >> (start + i) & 1 if i < length and start + i <= 31 else sign
        result |= bit << i
    return result


case("bfe.s32 d, a, n, 9;", {**I32, **AMOUNT}, {"d": "s32"}, py(lambda a, n: _bfe_signed(a & 0xFFFFFFFF, n, 9), "i4"))
case(
    "shf.l.wrap.b32 d, a, b, n;",
    {**U32, **AMOUNT},
    {"d": "b32"},
    py(lambda a, b, n: (b << 32 | a) << n % 32 >> 32, "u4"),
)
case(
    "shf.r.clamp.b32 d, a, b, n;",
    {**U32, **AMOUNT},
    {"d": "b32"},
    py(lambda a, b, n: (b << 32 | a) >> min(n, 32), "u4"),
)
case("lop3.b32 d, a, b, c, 0xE8;", U32, {"d": "b32"}, lambda a, b, c: (a & b) | (b & c) | (a & c))
case("lop3.b32 d, a, b, c, 0x96;", U32, {"d": "b32"}, lambda a, b, c: a ^ b ^ c)


def _prmt(a: int, b: int, c: int) -> int:
    data = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    result = 0
    for i in range(4):
        pick = c >> 4 * i & 15
        byte = data[pick & 7]
        result |= (0xFF * (byte >> 7) if pick & 8 else byte) << 8 * i
    return result


case("prmt.b32 d, a, b, c;", U32, {"d": "b32"}, py(_prmt, "u4"))
case(
    "prmt.b32.f4e d, a, b, n;", {**U32, **AMOUNT}, {"d": "b32"}, py(lambda a, b, n: (b << 32 | a) >> 8 * (n & 3), "u4")
)
case("prmt.b32 d, a, b, 0x5410;", U32, {"d": "b32"}, lambda a, b: (a & 0xFFFF) | b << 16)
case("bmsk.clamp.b32 d, n, 5;", AMOUNT, {"d": "b32"}, py(lambda n: 31 << min(n, 32), "u4"))

# Moves, selection, predicates.
case("mov.b64 d, {a, b};", U32, {"d": "b64"}, py(lambda a, b: b << 32 | a, "u8"))
case("mov.b64 {d, e}, a;", U64, {"d": "b32", "e": "b32"}, lambda a: (a.astype("u4"), (a >> np.uint64(32)).astype("u4")))
case("mov.b32 {d, e}, a;", U32, {"d": "b16", "e": "b16"}, lambda a: (a.astype("u2"), (a >> np.uint32(16)).astype("u2")))
case("setp.lt.s32 %q0, a, b;\nselp.b32 d, a, c, %q0;", I32, {"d": "s32"}, lambda a, b, c: np.where(a < b, a, c))
case("slct.s32.s32 d, a, b, c;", I32, {"d": "s32"}, lambda a, b, c: np.where(c >= 0, a, b))
case(
    "setp.lt.s32 %q0, a, 0;\nsetp.gt.and.s32 d|e, a, b, %q0;",
    I32,
    {"d": "pred", "e": "pred"},
    lambda a, b: ((a > b) & (a < 0), ~(a > b) & (a < 0)),
)
case("set.ge.u32.s32 d, a, b;", I32, {"d": "u32"}, lambda a, b: np.where(a >= b, 0xFFFFFFFF, 0).astype("u4"))
case("set.ge.f32.s32 d, a, b;", I32, {"d": "f32"}, lambda a, b: (a >= b).astype("f4"))
case("mov.u32 d, %laneid;\nadd.u32 d, d, a;", U32, {"d": "u32"}, lambda a: a + np.arange(N, dtype="u4") % 32)

# Floating point.
for kind, data in (("f32", F32), ("f64", F64)):
    rn = ".rn"
    case(f"add{rn}.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a + b)
    case(f"sub{rn}.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a - b)
    case(f"mul{rn}.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a * b)
    case(f"div{rn}.{kind} d, a, b;", data, {"d": kind}, lambda a, b: a / b)
    case(f"sqrt{rn}.{kind} d, a;", data, {"d": kind}, lambda a: np.sqrt(a))
    case(f"rcp{rn}.{kind} d, a;", data, {"d": kind}, lambda a: 1 / a)
    case(
        f"min.{kind} d, a, b;",
        data,
        {"d": kind},
        lambda a, b: np.where((a == 0) & (b == 0) & (np.signbit(a) | np.signbit(b)), -0.0, np.fmin(a, b)),
    )
    case(
        f"max.{kind} d, a, b;",
        data,
        {"d": kind},
        lambda a, b: np.where((a == 0) & (b == 0) & ~(np.signbit(a) & np.signbit(b)), 0.0, np.fmax(a, b)),
    )
    for cmp, test in {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: (a < b) | (a > b),
        "lt": lambda a, b: a < b,
        "gtu": lambda a, b: ~(a <= b),
        "neu": lambda a, b: a != b,
        "nan": lambda a, b: np.isnan(a) | np.isnan(b),
        "num": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    }.items():
        case(f"setp.{cmp}.{kind} d, a, b;", data, {"d": "pred"}, lambda a, b, test=test: test(a, b).astype("u4"))
case("abs.f32 d, a;", F32, {"d": "f32"}, lambda a: np.abs(a))
case("neg.f32 d, a;", F32, {"d": "f32"}, lambda a: -a)
case("max.NaN.f32 d, a, b;", F32, {"d": "f32"}, lambda a, b: np.maximum(a, b), tags=["zero sign"])
case(
    "add.sat.f32 d, a, b;",
    F32,
    {"d": "f32"},
    lambda a, b: np.where((a + b) > 0, np.minimum(a + b, np.float32(1)), np.float32(0)),
)
case("copysign.f32 d, a, b;", F32, {"d": "f32"}, lambda a, b: np.copysign(b, a))
case(
    "ex2.approx.f32 d, a;", F32, {"d": "f32"}, lambda a: np.exp2(a.astype("f8")).astype("f4"), ulp=4, tags=["subnormal"]
)
case(
    "lg2.approx.f32 d, a;", F32, {"d": "f32"}, lambda a: np.log2(a.astype("f8")).astype("f4"), ulp=16, absolute=2.0**-22
)
case("rsqrt.approx.f32 d, a;", F32, {"d": "f32"}, lambda a: (1 / np.sqrt(a.astype("f8"))).astype("f4"), ulp=4)


def _flushed_reciprocal(a: Array) -> Array:
    tiny = np.float32(2.0**-126)
    result = 1 / np.where(np.abs(a) < tiny, np.copysign(np.float32(0), a), a)
    return np.where(np.abs(result) < tiny, np.copysign(np.float32(0), result), result)


case("rcp.approx.ftz.f32 d, a;", F32, {"d": "f32"}, _flushed_reciprocal, ulp=2)
UNIT = {"a": _RNG.uniform(-3, 3, N).astype("f4")}
case("sin.approx.f32 d, a;", UNIT, {"d": "f32"}, lambda a: np.sin(a), absolute=2.0**-20.5)
case("cos.approx.f32 d, a;", UNIT, {"d": "f32"}, lambda a: np.cos(a), absolute=2.0**-20.5)
case("tanh.approx.f32 d, a;", UNIT, {"d": "f32"}, lambda a: np.tanh(a), ulp=2.0**13)


def _fma_exact(mode: str) -> Callable[..., Array]:
    """Fused multiply-add through exact fractions."""
    from fractions import Fraction

    def one(a: float, b: float, c: float) -> np.float32:
        if not np.isfinite([a, b, c]).all():
            return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        if exact == 0:
            zero = np.float64(a) * np.float64(b) + np.float64(c)
            return np.float32(-0.0 if mode == "rm" and np.signbit(zero) != np.signbit(c) else zero)
        near = np.float32(float(exact))
        options = sorted({near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))})
        finite = [x for x in options if np.isfinite(x)]
        if mode == "rn":
            if not np.isfinite(near):
                return near
            best = min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), int(np.float32(x).view(np.uint32)) & 1))
            return np.float32(best)
        below = [x for x in finite if Fraction(float(x)) <= exact]
        above = [x for x in finite if Fraction(float(x)) >= exact]
        down = max(below) if below else np.float32(-np.inf)
        up = min(above) if above else np.float32(np.inf)
        toward_zero = down if exact > 0 else up
        return np.float32({"rm": down, "rp": up, "rz": toward_zero}[mode])

    return lambda a, b, c: np.array([one(*row) for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], "f4")


MODEST = {
    name: _RNG.standard_normal(N).astype("f4") * np.float32(2.0) ** _RNG.integers(-14, 14, N).astype("f4")
    for name in "abc"
}
MODEST["c"][:64] = -(MODEST["a"] * MODEST["b"])[:64]
for mode in ("rn", "rz", "rm", "rp"):
    case(f"fma.{mode}.f32 d, a, b, c;", MODEST, {"d": "f32"}, _fma_exact(mode))
    exact_add = _fma_exact(mode)
    case(f"add.{mode}.f32 d, a, b;", MODEST, {"d": "f32"}, lambda a, b, f=exact_add: f(a, np.ones_like(a), b))
    case(f"mul.{mode}.f32 d, a, b;", MODEST, {"d": "f32"}, lambda a, b, f=exact_add: f(a, b, np.zeros_like(a)))

# Halves.
for name, function in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
    case(f"{name}.f16 d, a, b;", F16, {"d": "f16"}, function)
    case(
        f"{name}.f16x2 d, a, b;",
        PACKED16,
        {"d": "f16x2"},
        lambda a, b, f=function: f(a.view("f2"), b.view("f2")).view("u4"),
        tags=["nan bits"],
    )
case(
    "fma.rn.f16 d, a, b, c;",
    F16,
    {"d": "f16"},
    lambda a, b, c: (a.astype("f8") * b.astype("f8") + c.astype("f8")).astype("f2"),
)
case(
    "max.f16 d, a, b;",
    F16,
    {"d": "f16"},
    lambda a, b: np.where((a == 0) & (b == 0) & ~(np.signbit(a) & np.signbit(b)), np.float16(0), np.fmax(a, b)),
)
case("neg.f16x2 d, a;", PACKED16, {"d": "f16x2"}, lambda a: a ^ np.uint32(0x80008000), tags=["nan bits"])


def bf(array: Array) -> Array:
    return array.view(ml_dtypes.bfloat16)


case(
    "fma.rn.bf16 d, a, b, c;",
    BF16,
    {"d": "b16"},
    lambda a, b, c: (
        (bf(a).astype("f4") * bf(b).astype("f4") + bf(c).astype("f4")).astype(ml_dtypes.bfloat16).view("u2")
    ),
    tags=["nan bits"],
)
case(
    "max.bf16 d, a, b;",
    BF16,
    {"d": "b16"},
    lambda a, b: np.where(
        (bf(a).astype("f4") == 0) & (bf(b).astype("f4") == 0),
        a & b,
        np.fmax(bf(a).astype("f4"), bf(b).astype("f4")).astype(ml_dtypes.bfloat16).view("u2"),
    ),
    tags=["nan bits"],
)
case("setp.lt.f16 d, a, b;", F16, {"d": "pred"}, lambda a, b: (a < b).astype("u4"))
case(
    "setp.lt.f16x2 d|e, a, b;",
    PACKED16,
    {"d": "pred", "e": "pred"},
    lambda a, b: tuple((a.view("f2") < b.view("f2")).astype("u4").reshape(-1, 2).T),
)

# Conversions.
INT_TYPES = {"s16": "i2", "u16": "u2", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8"}
for source, data in (("s32", I32), ("u32", U32), ("s64", I64), ("u64", U64), ("s16", I16)):
    for result, dtype in INT_TYPES.items():
        if result != source:
            case(f"cvt.{result}.{source} d, a;", data, {"d": result}, lambda a, t=dtype: a.astype(t))
            lo, hi = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            limit = py(lambda a, lo=lo, hi=hi: clamp(a, lo, hi), dtype)
            if not (lo <= np.iinfo(data["a"].dtype).min and np.iinfo(data["a"].dtype).max <= hi):
                case(f"cvt.sat.{result}.{source} d, a;", data, {"d": result}, limit)
    case(f"cvt.rn.f32.{source} d, a;", data, {"d": "f32"}, lambda a: a.astype("f4"))
    case(f"cvt.rn.f64.{source} d, a;", data, {"d": "f64"}, lambda a: a.astype("f8"))
case("cvt.rn.f16.s32 d, a;", I32, {"d": "f16"}, lambda a: a.astype("f8").astype("f2"))
ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _to_int(value: float, low: int, high: int, unknown: int = 0) -> int:
    return unknown if np.isnan(value) else clamp(int(np.clip(value, -1e300, 1e300)), low, high)


for mode, rounding in ROUND.items():
    for result in ("s32", "u32", "s64", "s16"):
        dtype = INT_TYPES[result]
        lo, hi = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)

        def integral(a: Array, r: Any = rounding, lo: int = lo, hi: int = hi, t: str = dtype) -> Array:
            unknown = lo if t == "i8" else 0
            return np.array([_to_int(float(x), lo, hi, unknown) for x in r(a.astype("f8"))]).astype(t)

        case(f"cvt.{mode}.{result}.f32 d, a;", F32, {"d": result}, integral)
    case(f"cvt.{mode}.f32.f32 d, a;", F32, {"d": "f32"}, lambda a, r=rounding: r(a))
case(
    "cvt.rzi.s32.f64 d, a;",
    F64,
    {"d": "s32"},
    lambda a: np.array([_to_int(x, LOW, HIGH, LOW) for x in np.trunc(a).tolist()], "i4"),
)
case("cvt.rn.f16.f32 d, a;", F32, {"d": "f16"}, lambda a: a.astype("f2"))
case("cvt.rn.bf16.f32 d, a;", F32, {"d": "b16"}, lambda a: a.astype(ml_dtypes.bfloat16).view("u2"), tags=["nan bits"])
case("cvt.rn.f32.f64 d, a;", F64, {"d": "f32"}, lambda a: a.astype("f4"))
case("cvt.f32.f16 d, a;", F16, {"d": "f32"}, lambda a: a.astype("f4"))
case("cvt.f64.f32 d, a;", F32, {"d": "f64"}, lambda a: a.astype("f8"))
case("cvt.f32.bf16 d, a;", BF16, {"d": "f32"}, lambda a: bf(a).astype("f4"), target="sm_90")
case("cvt.sat.f32.f32 d, a;", F32, {"d": "f32"}, lambda a: np.where(a > 0, np.minimum(a, np.float32(1)), np.float32(0)))
case("cvt.rz.f16.f32 d, a;", F32, {"d": "f16"}, lambda a: _toward_zero16(a))
case(
    "cvt.rn.f16x2.f32 d, a, b;",
    F32,
    {"d": "f16x2"},
    lambda a, b: np.stack([b, a], 1).astype("f2").view("u4")[:, 0],
    tags=["nan bits"],
)
case(
    "cvt.rn.bf16x2.f32 d, a, b;",
    F32,
    {"d": "bf16x2"},
    lambda a, b: np.stack([b, a], 1).astype(ml_dtypes.bfloat16).view("u4")[:, 0],
    tags=["nan bits"],
)
case(
    "cvt.rn.relu.bf16x2.f32 d, a, b;",
    F32,
    {"d": "bf16x2"},
    lambda a, b: (
        np.where(np.stack([b, a], 1) <= 0, np.float32(0), np.stack([b, a], 1))
        .astype(ml_dtypes.bfloat16)
        .view("u4")[:, 0]
    ),
    tags=["nan bits"],
)


def _toward_zero16(a: Array) -> Array:
    near = a.astype("f2")
    near = np.where(np.isinf(near) & np.isfinite(a), np.copysign(np.float16(65504), near), near)
    over = np.abs(near.astype("f8")) > np.abs(a.astype("f8"))
    return np.where(over, np.nextafter(near, np.float16(0)), near)


def _tf32(a: Array) -> Array:
    bits = a.view("u4").astype("u8")
    return np.where(np.isfinite(a), (bits + 0x1000 & 0xFFFFE000), bits).astype("u4")


case("cvt.rna.tf32.f32 d, a;", F32, {"d": "b32"}, _tf32, tags=["nan bits"])


def _fp8(kind: Any, largest: float) -> Callable[..., Array]:
    def convert(a: Array, b: Array) -> Array:
        pair = np.stack([b, a], 1)
        limited = np.where(np.isnan(pair), pair, np.clip(pair, -largest, largest))
        return limited.astype(kind).view("u1").reshape(-1, 2).view("u2")[:, 0]

    return convert


case(
    "cvt.rn.satfinite.e4m3x2.f32 d, a, b;",
    F32,
    {"d": "b16"},
    _fp8(ml_dtypes.float8_e4m3fn, 448.0),
    target="sm_89",
    tags=["nan bits"],
)
case(
    "cvt.rn.satfinite.e5m2x2.f32 d, a, b;",
    F32,
    {"d": "b16"},
    _fp8(ml_dtypes.float8_e5m2, 57344.0),
    target="sm_89",
    tags=["nan bits"],
)
BYTES = {"a": np.arange(N, dtype="u2") * np.uint16(257)}
case(
    "cvt.rn.f16x2.e4m3x2 d, a;",
    BYTES,
    {"d": "f16x2"},
    lambda a: a.view("u1").view(ml_dtypes.float8_e4m3fn).astype("f2").view("u4"),
    target="sm_89",
    tags=["nan bits"],
)
case(
    "cvt.rn.f16x2.e5m2x2 d, a;",
    BYTES,
    {"d": "f16x2"},
    lambda a: a.view("u1").view(ml_dtypes.float8_e5m2).astype("f2").view("u4"),
    target="sm_89",
    tags=["nan bits"],
)
