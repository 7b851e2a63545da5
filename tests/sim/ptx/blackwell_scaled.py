"""sm_100a programs with block scales for the tests of the simulator's tcgen05, from the parts of blackwell.py and
blackwell_pair.py: four products along 128 bytes of K, their scale factors copied to tensor memory by tcgen05.cp.

`Format` says what is multiplied; `Problem` draws operands and factors and computes the product in double precision from
ml_dtypes' own conversions. p3 has the images of the factors, of each CTA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.sim.ptx import blackwell, blackwell_pair
from tests.sim.ptx.blackwell import PLACE_B
from tests.sim.ptx.hopper import fill
from tests.sim.ptx.test_hopper_wgmma import Operand, lay_out

Array = np.ndarray[Any, Any]
PLACE_SCALES = 65536
ATOM = 512  # bytes of four factors for each of 128 rows
STEPS = 4
_ELEMENTS: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
_NUMBERS = {"e4m3": 0, "e5m2": 1, "e2m1": 1}  # in a descriptor of these kinds
_SCALES: dict[str, Any] = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}


@dataclass(frozen=True)
class Format:
    """The kind and its `.scale_vec` or `.block`, the elements of A and B, the factors' format, factors for each
    instruction."""

    kind: str
    vector: str
    a: str
    b: str
    scale: str
    factors: int

    @property
    def depth(self) -> int:
        """Elements of K that all products take."""
        return STEPS * (64 if self.a == "e2m1" else 32)

    def word(self, m: int, n: int, step: int) -> int:
        """The instruction descriptor of a step, from the fields' places in the ISA."""
        byte = step * self.factors % 4
        formats = _NUMBERS[self.a] << 7 | _NUMBERS[self.b] << 10
        return byte << 4 | formats | n >> 3 << 17 | (self.scale == "ue8m0") << 23 | m >> 7 << 27 | byte << 29


def pack(values: Array) -> Array:
    """Elements [rows, k] as bytes; two of four bits to a byte, the first in the lower bits."""
    if values.dtype == ml_dtypes.float4_e2m1fn:
        bits = values.view(np.uint8) & 15
        return np.ascontiguousarray(bits[:, ::2] | bits[:, 1::2] << 4)
    return values.view(np.uint8)


def atoms(factors: Array) -> Array:
    """Factors [rows ≤ 128, 4 · s] as s images of 512 bytes: row r has 4 bytes at 16 · (r % 32) + 4 · (r / 32)."""
    small = factors.view(np.uint8)
    image = np.zeros((small.shape[1] // 4, ATOM), np.uint8)
    for r in range(len(small)):
        at = 16 * (r % 32) + 4 * (r // 32)
        image[:, at : at + 4] = small[r].reshape(-1, 4)
    return image


class Problem:
    """A · B with factors, m × n."""

    def __init__(self, form: Format, m: int, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.form, self.m, self.n = form, m, n
        self.a, self.b = (
            rng.standard_normal((rows, form.depth)).astype(_ELEMENTS[kind]) for rows, kind in ((m, form.a), (n, form.b))
        )
        number = STEPS * form.factors
        self.scale_a, self.scale_b = (
            np.exp2(rng.integers(-6, 6, (rows, number))).astype(np.float32).astype(_SCALES[form.scale])
            if form.scale == "ue8m0"
            else rng.uniform(0.25, 4, (rows, number)).astype(np.float32).astype(_SCALES[form.scale])
            for rows in (m, n)
        )

    @property
    def exact(self) -> Array:
        """The product in double precision."""
        a, b = (
            values.astype(np.float64) * np.repeat(factors.astype(np.float64), values.shape[1] // factors.shape[1], 1)
            for values, factors in ((self.a, self.scale_a), (self.b, self.scale_b))
        )
        product: Array = a @ b.T
        return product

    @property
    def atoms(self) -> int:
        """Images of 512 bytes for each operand's factors (of 128 rows and less)."""
        return STEPS * self.form.factors // 4

    def operands(self, halves: int) -> tuple[list[Operand], list[Operand]]:
        """A and B in shared memory, in rows of 128 bytes, for each CTA."""
        left, right = (
            [lay_out(each, 128, False) for each in np.split(pack(values), halves)] for values in (self.a, self.b)
        )
        return left, right


def _copies(group: int, count: int, shape: str, place: int, column: int) -> str:
    """tcgen05.cp of `count` images from shared memory to four columns each."""
    word = 128 >> 4 << 32 | 1 << 46 | 1 << 16  # no swizzle: rows of 16 bytes, eight of them in 128 bytes
    size = ATOM if shape.startswith("32") else 2 * ATOM
    lines = []
    for index in range(count):
        start = place + index * size >> 4
        lines.append(f"    add.u64 y5, y1, {word + start};")
        lines.append(f"    tcgen05.cp.cta_group::{group}.{shape} [tm+{column + 4 * index}], y5;")
    return "\n".join(lines)


def _finish(program: dict[str, str], problem: Problem, group: int, size: int, split: bool) -> dict[str, str]:
    """The factors' copies, and products that use them, into a program whose accumulator has 64 columns at most."""
    form, count = problem.form, problem.atoms
    pointer = f"    mul.wide.u32 y5, rank, {size};\n    add.u64 a3, a3, y5;\n    add.u32 x12, s, {PLACE_SCALES};\n"
    program["fill"] += pointer + fill(size, "a3", "x12")
    first, second = 64, 64 + 4 * count
    copies = [
        _copies(group, count, "32x128b.warpx4", PLACE_SCALES, first),
        _copies(
            group, count, "64x128b.warpx2::01_23" if split else "32x128b.warpx4", PLACE_SCALES + count * ATOM, second
        ),
    ]
    place = next(name for name in program if name.startswith("mma"))
    result: dict[str, str] = {}
    for name, text in program.items():
        if name == place:
            result |= {"cp a": copies[0], "cp b": copies[1]}
            for step in range(STEPS):
                atom = step * form.factors // 4
                opcode = f"tcgen05.mma.cta_group::{group}.kind::{form.kind}.block_scale{form.vector}"
                scales = f"[tm+{first + 4 * atom}], [tm+{second + 4 * atom}]"
                result[f"mma {step}"] = (
                    f"    setp.ne.u32 q, {min(step, 1)}, 0;\n"
                    f"    mov.b32 word, {form.word(problem.m, problem.n, step)};\n"
                    f"    {opcode} [tm], y2, y3, word, {scales}, q;\n"
                    "    add.u64 y2, y2, 2;\n    add.u64 y3, y3, 2;"
                )
        elif not name.startswith("mma"):
            result[name] = text
    return result


def one(problem: Problem) -> tuple[dict[str, str], list[Array]]:
    """The program of one CTA, and its arguments."""
    (left,), (right,) = problem.operands(1)
    program = blackwell.parts(left, right, 0, "", problem.n, columns=128)
    image = np.concatenate([atoms(problem.scale_a), atoms(problem.scale_b)]).ravel()
    args = [left.image, right.image, np.full((128, problem.n), np.float32(-77.5)), image]
    return _finish(program, problem, 1, len(image), False), args


def pair(problem: Problem) -> tuple[dict[str, str], list[Array]]:
    """The program of a pair, and its arguments. Each CTA has the factors of its rows of A and of all columns of B;
    where it has 64 rows, the lower and the upper lanes compute halves of B, and have its factors."""
    m, n = problem.m, problem.n
    lefts, rights = problem.operands(2)
    program = blackwell_pair.filled(lefts[0], rights[0], 0, "", m, n, allocated=128)
    split = m == 128
    images = []
    for half in np.split(problem.scale_a, 2):
        rows = np.concatenate([half, half]) if split else half  # 64 rows: two columns; the others are not used
        if split:  # per factor word: 32 lanes of the first half of B, then 32 of the second
            two = [atoms(each) for each in np.split(problem.scale_b, 2)]
            of_b = np.stack(two, axis=1).reshape(-1)
        else:
            of_b = atoms(problem.scale_b).ravel()
        images.append(np.concatenate([atoms(rows).ravel(), of_b]))
    args = [np.concatenate([each.image for each in side]) for side in (lefts, rights)]
    args += [blackwell_pair.result(m, n), np.concatenate(images)]
    return _finish(program, problem, 2, len(images[0]), split), args


assert PLACE_B < PLACE_SCALES
