"""Warp-wide instructions with their meaning: shuffles, votes, ldmatrix, mma. Same form as cases.py.

The mma fragments are spelt out type by type as in the ISA's figures (PTX ISA 8.0, 9.7.13.4.7 to 9.7.13.4.10), while the
simulator computes them by one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.sim.ptx.cases import Array, Case, N

WARP_CASES: list[Case] = []
_RNG = np.random.default_rng(11)
_LANE = np.arange(N) % 32
VALUES = {"a": _RNG.integers(0, 1 << 32, N, dtype="u4")}
SMALL = {"a": _RNG.integers(0, 4, N, dtype="u4")}


def case(
    body: str, inputs: dict[str, Array], outputs: dict[str, str], expected: Callable[..., Any], **more: Any
) -> None:
    name = body.strip().split("\n")[-1].strip(" ;")
    WARP_CASES.append(Case(f"{len(WARP_CASES)} {name}", body, inputs, outputs, expected, **more))


def per_warp(function: Callable[[list[int]], list[int]]) -> Callable[..., Array]:
    """Lift a function of one warp's 32 values."""
    return lambda a: np.array([function(row.tolist()) for row in a.reshape(-1, 32)], "u4").ravel()


# -- shuffles: the ISA's pseudocode --------------------------------------------------------------------------------


def shuffle(mode: str, step: int, c: int) -> Callable[..., Any]:
    clamp, segment = c & 31, c >> 8 & 31

    def one(values: list[int]) -> tuple[list[int], list[int]]:
        data, flags = [], []
        for lane in range(32):
            last = (lane & segment) | (clamp & ~segment & 31)
            first = lane & segment
            j, ok = {
                "up": (lane - step, lane - step >= last),
                "down": (lane + step, lane + step <= last),
                "bfly": (lane ^ step, lane ^ step <= last),
                "idx": (first | (step & ~segment & 31), (first | (step & ~segment & 31)) <= last),
            }[mode]
            data.append(values[j if ok else lane])
            flags.append(int(ok))
        return data, flags

    def lifted(a: Array) -> tuple[Array, Array]:
        pairs = [one(row.tolist()) for row in a.reshape(-1, 32)]
        return np.array([x for x, _ in pairs], "u4").ravel(), np.array([p for _, p in pairs], "u4").ravel()

    return lifted


for mode, step, c in [
    ("up", 1, 0), ("up", 5, 0x1800), ("down", 3, 31), ("down", 2, 0x181F), ("bfly", 16, 31), ("bfly", 3, 0x1C1F),
    ("idx", 7, 31), ("idx", 2, 0x1C1F), ("bfly", 31, 31), ("up", 0, 0), ("down", 31, 31),
]:  # fmt: skip
    body = f"shfl.sync.{mode}.b32 d|p, a, {step}, {c}, -1;"
    case(body, VALUES, {"d": "b32", "p": "pred"}, shuffle(mode, step, c))

# A shuffle among the even lanes only; the odd ones keep their value.
case(
    """    and.b32 %x0, a, 0;
    mov.u32 %x1, %laneid;
    and.b32 %x1, %x1, 1;
    setp.eq.u32 %q0, %x1, 0;
    mov.b32 d, a;
    @%q0 shfl.sync.down.b32 d, a, 2, 31, 0x55555555;""",
    VALUES,
    {"d": "b32"},
    per_warp(lambda v: [v[i] if i % 2 or i + 2 > 31 else v[i + 2] for i in range(32)]),
)

# -- votes and reductions --------------------------------------------------------------------------------

ODD = "    and.b32 %x0, a, 1;\n    setp.ne.u32 %q0, %x0, 0;\n"
case(
    ODD + "vote.sync.ballot.b32 d, %q0, -1;",
    VALUES,
    {"d": "b32"},
    per_warp(lambda v: [sum((x & 1) << i for i, x in enumerate(v))] * 32),
)
case(
    ODD + "vote.sync.any.pred d, %q0, -1;", VALUES, {"d": "pred"}, per_warp(lambda v: [int(any(x & 1 for x in v))] * 32)
)
case(
    ODD + "vote.sync.all.pred d, !%q0, -1;",
    SMALL,
    {"d": "pred"},
    per_warp(lambda v: [int(not any(x & 1 for x in v))] * 32),
)
case("activemask.b32 d;\nxor.b32 d, d, a;", VALUES, {"d": "b32"}, lambda a: a ^ np.uint32(0xFFFFFFFF))
case(
    "match.any.sync.b32 d, a, -1;",
    SMALL,
    {"d": "b32"},
    per_warp(lambda v: [sum((x == y) << i for i, y in enumerate(v)) for x in v]),
)
case("match.all.sync.b32 d|p, a, -1;", SMALL, {"d": "b32", "p": "pred"}, lambda a: (a * 0, a * 0))
case("redux.sync.add.u32 d, a, -1;", VALUES, {"d": "u32"}, per_warp(lambda v: [sum(v) & 0xFFFFFFFF] * 32))
case("redux.sync.min.u32 d, a, -1;", VALUES, {"d": "u32"}, per_warp(lambda v: [min(v)] * 32))
case(
    "redux.sync.max.s32 d, a, -1;",
    VALUES,
    {"d": "u32"},
    per_warp(lambda v: [max(v, key=lambda x: x - (x >> 31 << 32))] * 32),
)
XORS = np.bitwise_xor
case(
    "redux.sync.xor.b32 d, a, -1;", VALUES, {"d": "b32"}, per_warp(lambda v: [int(XORS.reduce(np.array(v, "u4")))] * 32)
)

# -- ldmatrix --------------------------------------------------------------------------------

# Each of 4 warps puts its lanes' words into its own 1 KiB (four copies), then loads rows in a scrambled order.
FILL = """    .shared .align 128 .b8 tile[4096];
    .reg .b32 s, row;
    mov.u32 s, tile;
    mov.u32 %x0, %tid.x;
    shl.b32 %x1, %x0, 4;
    add.u32 %x1, %x1, s;
    add.u32 %x2, a, 1;
    add.u32 %x3, a, 0x10001;
    not.b32 %x4, a;
    st.shared.v4.b32 [%x1], {a, %x2, %x3, %x4};
    bar.sync 0;
    and.b32 row, %x0, 31;
    mul.lo.u32 row, row, 5;
    and.b32 row, row, 31;
    and.b32 %x5, %x0, 96;
    add.u32 row, row, %x5;
    shl.b32 row, row, 4;
    add.u32 row, row, s;
"""


def matrices(a: Array) -> Array:
    """[warp, matrix, row, column] of the 16-bit elements that FILL's addresses name."""
    words = np.stack([a, a + np.uint32(1), a + np.uint32(0x10001), ~a], axis=1)
    rows = np.ascontiguousarray(words).view("u2").reshape(-1, 32, 8)
    return rows[:, np.arange(32) * 5 % 32].reshape(-1, 4, 8, 8)


def loaded(count: int, transposed: bool) -> Callable[..., Any]:
    def expected(a: Array) -> tuple[Array, ...]:
        tiles = matrices(a)
        outs = []
        for index in range(count):
            tile = tiles[:, index]
            if transposed:
                tile = tile.transpose(0, 2, 1)
            lane = np.arange(32)
            low, high = tile[:, lane // 4, lane % 4 * 2], tile[:, lane // 4, lane % 4 * 2 + 1]
            outs.append((low.astype("u4") | high.astype("u4") << np.uint32(16)).ravel())
        return tuple(outs)

    return expected


for count in (1, 2, 4):
    for suffix in ("", ".trans"):
        registers = "defg"[:count]
        vector = "{" + ", ".join(registers) + "}"
        body = f"{FILL}    ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {vector}, [row];"
        outputs = dict.fromkeys(registers, "b32")
        case(body, VALUES, outputs, loaded(count, bool(suffix)))

# A fragment of one 8 x 8 matrix, transposed in registers, and stored to shared memory and read back in order.
case(
    "movmatrix.sync.aligned.m8n8.trans.b16 d, a;",
    VALUES,
    {"d": "b32"},
    lambda a: (
        np.ascontiguousarray(np.ascontiguousarray(a).view("u2").reshape(-1, 8, 8).transpose(0, 2, 1)).view("u4").ravel()
    ),
)


def stored(transposed: bool) -> Callable[..., Any]:
    def expected(a: Array) -> Array:
        tiles = np.stack([a, ~a], 1).reshape(-1, 32, 2).transpose(0, 2, 1)
        tiles = np.ascontiguousarray(tiles).view("u2").reshape(-1, 2, 8, 8)
        if transposed:
            tiles = tiles.transpose(0, 1, 3, 2)
        # Lane l reads the first half of row l % 16 of its warp's 16 rows: two elements.
        rows = tiles.reshape(-1, 16, 8)[:, np.arange(32) % 16, :2]
        return np.ascontiguousarray(rows).view("u4").ravel()

    return expected


for suffix in ("", ".trans"):
    case(
        f"""    .shared .align 128 .b8 tile[1024];
    .reg .b32 s, other;
    mov.u32 s, tile;
    mov.u32 %x0, %tid.x;
    and.b32 %x1, %x0, 15;
    and.b32 %x2, %x0, 96;
    shr.u32 %x2, %x2, 1;
    add.u32 %x1, %x1, %x2;
    shl.b32 %x1, %x1, 4;
    add.u32 s, s, %x1;
    not.b32 other, a;
    stmatrix.sync.aligned.m8n8.x2{suffix}.shared.b16 [s], {{a, other}};
    bar.warp.sync -1;
    ld.shared.b32 d, [s];
    // stmatrix{suffix}""",
        VALUES,
        {"d": "b32"},
        stored(bool(suffix)),
        target="sm_90",
    )
case(
    "elect.sync %x0|p, -1;\nadd.u32 d, a, %x0;",
    VALUES,
    {"p": "pred", "d": "b32"},
    lambda a: ((_LANE == 0).astype("u4"), a),
    target="sm_90",
)

# -- mma --------------------------------------------------------------------------------


def fragment(places: list[tuple[Array, Array]], shape: tuple[int, int], elems: Array) -> Array:
    """Lane elements [warps, 32, n] at (row, column) `places[i]` as matrices [warps, rows, columns]."""
    result = np.zeros((elems.shape[0], *shape), elems.dtype)
    for index, (row, column) in enumerate(places):
        result[:, row, column] = elems[:, :, index]
    return result


G, T = np.arange(32) // 4, np.arange(32) % 4
C_PLACES = [(G, 2 * T), (G, 2 * T + 1), (G + 8, 2 * T), (G + 8, 2 * T + 1)]
A_16X16 = [(G if i < 2 or 4 <= i < 6 else G + 8, T * 2 + (i & 1) + (0 if i < 4 else 8)) for i in range(8)]
B_16X8 = [(T * 2 + (i & 1) + (0 if i < 2 else 8), G) for i in range(4)]
A_16X8 = [(G if i < 2 else G + 8, T * 2 + (i & 1)) for i in range(4)]
B_8X8 = [(T * 2 + i, G) for i in range(2)]
A_TF32 = [(G if i in (0, 2) else G + 8, T if i < 2 else T + 4) for i in range(4)]
B_TF32 = [(T, G), (T + 4, G)]
A_TF32_4 = [(G, T), (G + 8, T)]
B_TF32_4 = [(T, G)]
A_8BIT = [(G if i < 4 or 8 <= i < 12 else G + 8, T * 4 + (i & 3) + (0 if i < 8 else 16)) for i in range(16)]
B_8BIT = [(T * 4 + (i & 3) + (0 if i < 4 else 16), G) for i in range(8)]
A_8BIT_16 = [(G if i < 4 else G + 8, T * 4 + (i & 3)) for i in range(8)]
B_8BIT_16 = [(T * 4 + i, G) for i in range(4)]
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def mma_case(
    op: str, a_type: Any, b_type: Any, a_places: Any, b_places: Any, k: int, d: str = "f32", target: str = "sm_80"
) -> None:
    """One mma form: random small integers as values, so that every order of summation gives the same result."""
    a_regs = len(a_places) * np.dtype(a_type).itemsize // 4
    b_regs = len(b_places) * np.dtype(b_type).itemsize // 4
    names_a, names_b = [f"a{i}" for i in range(a_regs)], [f"b{i}" for i in range(b_regs)]
    c_regs = 2 if d == "f16" else 4
    names_c, names_d = [f"c{i}" for i in range(c_regs)], [f"d{i}" for i in range(c_regs)]

    def registers(kind: Any, names: list[str]) -> dict[str, Array]:
        kind = np.dtype(kind)
        low = 0 if kind.kind == "u" else -8
        data = _RNG.integers(low, 9, (N, len(names) * 4 // kind.itemsize)).astype("f4").astype(kind)
        words = np.ascontiguousarray(data).view("u4").reshape(N, len(names))
        return {name: np.ascontiguousarray(words[:, i]) for i, name in enumerate(names)}

    acc = {"f32": "f4", "f16": "f2", "s32": "i4"}[d]
    inputs = registers(a_type, names_a) | registers(b_type, names_b) | registers(acc, names_c)

    def elements(args: list[Array], kind: Any) -> Array:
        return np.ascontiguousarray(np.stack(args, 1)).view(kind).reshape(N // 32, 32, -1).astype("f8")

    def expected(*args: Array) -> tuple[Array, ...]:
        a = fragment(a_places, (16, k), elements(list(args[:a_regs]), a_type))
        b = fragment(b_places, (k, 8), elements(list(args[a_regs : a_regs + b_regs]), b_type))
        c = elements(list(args[a_regs + b_regs :]), acc)
        product = a @ b
        total = np.stack([product[:, row, column] for row, column in C_PLACES], axis=2) + c
        words = np.ascontiguousarray(total.astype(acc)).view("u4").reshape(N, c_regs)
        return tuple(words[:, i] for i in range(c_regs))

    sets = ", ".join("{" + ", ".join(names) + "}" for names in (names_d, names_a, names_b, names_c))
    case(f"{op} {sets};", inputs, dict.fromkeys(names_d, "b32"), expected, target=target)


_MMA = "mma.sync.aligned"
DOUBLES = {name: _RNG.integers(-8, 9, N).astype("f8") for name in ("a", "b", "x", "y")}


def _double(a: Array, b: Array, x: Array, y: Array) -> tuple[Array, Array]:
    left = fragment([(G, T)], (8, 4), a.reshape(-1, 32, 1))
    right = fragment([(T, G)], (4, 8), b.reshape(-1, 32, 1))
    total = left @ right
    return total[:, G, 2 * T].ravel() + x, total[:, G, 2 * T + 1].ravel() + y


case(
    f"{_MMA}.m8n8k4.row.col.f64.f64.f64.f64 {{d, e}}, {{a}}, {{b}}, {{x, y}};",
    DOUBLES,
    {"d": "f64", "e": "f64"},
    _double,
)
mma_case(f"{_MMA}.m16n8k16.row.col.f32.f16.f16.f32", "f2", "f2", A_16X16, B_16X8, 16)
mma_case(f"{_MMA}.m16n8k16.row.col.f16.f16.f16.f16", "f2", "f2", A_16X16, B_16X8, 16, "f16")
mma_case(f"{_MMA}.m16n8k16.row.col.f32.bf16.bf16.f32", BF16, BF16, A_16X16, B_16X8, 16)
mma_case(f"{_MMA}.m16n8k8.row.col.f32.f16.f16.f32", "f2", "f2", A_16X8, B_8X8, 8)
mma_case(f"{_MMA}.m16n8k8.row.col.f32.bf16.bf16.f32", BF16, BF16, A_16X8, B_8X8, 8)
mma_case(f"{_MMA}.m16n8k8.row.col.f32.tf32.tf32.f32", "f4", "f4", A_TF32, B_TF32, 8)
mma_case(f"{_MMA}.m16n8k4.row.col.f32.tf32.tf32.f32", "f4", "f4", A_TF32_4, B_TF32_4, 4)
mma_case(f"{_MMA}.m16n8k32.row.col.s32.s8.s8.s32", "i1", "i1", A_8BIT, B_8BIT, 32, "s32")
mma_case(f"{_MMA}.m16n8k32.row.col.satfinite.s32.u8.s8.s32", "u1", "i1", A_8BIT, B_8BIT, 32, "s32")
mma_case(f"{_MMA}.m16n8k16.row.col.s32.s8.u8.s32", "i1", "u1", A_8BIT_16, B_8BIT_16, 16, "s32")
mma_case(f"{_MMA}.m16n8k32.row.col.f32.e4m3.e4m3.f32", E4M3, E4M3, A_8BIT, B_8BIT, 32, target="sm_89")
mma_case(f"{_MMA}.m16n8k32.row.col.f32.e5m2.e4m3.f32", E5M2, E4M3, A_8BIT, B_8BIT, 32, target="sm_89")

# -- divergence --------------------------------------------------------------------------------

case(
    """    mov.u32 d, 0;
    mov.u32 %x0, a;
LOOP:
    setp.le.u32 %q0, %x0, 1;
    @%q0 bra DONE;
    and.b32 %x1, %x0, 1;
    setp.eq.u32 %q1, %x1, 0;
    add.u32 d, d, 1;
    @%q1 bra EVEN;
    mad.lo.u32 %x0, %x0, 3, 1;
    bra LOOP;
EVEN:
    shr.u32 %x0, %x0, 1;
    bra LOOP;
DONE:
    // Collatz steps of each lane, then a vote by all of them""",
    {"a": np.arange(N, dtype="u4") % 97},
    {"d": "u32"},
    lambda a: np.array([_collatz(int(x)) for x in a], "u4"),
)


def _collatz(value: int) -> int:
    steps = 0
    while value > 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return steps


case(
    """    .reg .b32 k;
    and.b32 k, a, 3;
    ts: .branchtargets B0, B1, B2, B3;
    brx.idx k, ts;
B3: mov.u32 d, 33;
    bra.uni OUT;
B1: mov.u32 d, 11;
    bra.uni OUT;
B0: mov.u32 d, 7;
    bra OUT;
B2: add.u32 d, a, 22;
OUT:
    add.u32 d, d, 0;""",
    VALUES,
    {"d": "u32"},
    lambda a: np.select([a % 4 == 0, a % 4 == 1, a % 4 == 2], [a * 0 + 7, a * 0 + 11, a + np.uint32(22)], a * 0 + 33),
)
