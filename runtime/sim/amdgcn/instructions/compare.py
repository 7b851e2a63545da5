"""Vector comparisons: one bit per active lane into a lane mask, v_cmpx_ also into EXEC (CDNA3 ISA, 12.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...core.scalars import Array, Sel
from ..decode import Decoder
from ..syntax import EXEC, Instruction, Reg
from ..table import Handler, instruction
from .vector_alu import source, takes

if TYPE_CHECKING:
    from ..machine import Machine

Test = Callable[[Array, Array], Array]


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


_INTEGER: dict[str, Test] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "t": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}
_FLOAT: dict[str, Test] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "neq": np.not_equal,
    "lg": lambda a, b: (a != b) & ~_unordered(a, b),
    "o": lambda a, b: ~_unordered(a, b),
    "u": _unordered,
    "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a != b) & ~_unordered(a, b)),
    "f": _INTEGER["f"],
    "tru": _INTEGER["t"],
}


def _register(name: str, kinds: tuple[str, str], test: Test) -> None:
    for prefix in ("v_cmp", "v_cmpx"):

        def factory(ins: Instruction, d: Decoder) -> Handler:
            first, second = (source(d, ins.operands[index + 1], kinds[index], index) for index in (0, 1))
            write = d.mask_result(ins.operands[0])
            also_exec = None
            if ins.name.startswith("v_cmpx") and ins.operands[0] != Reg("s", EXEC, 2):
                also_exec = d.mask_result(Reg("s", EXEC, 2))

            def run(m: Machine, sel: Sel) -> None:
                outcome = test(first(m, sel), second(m, sel))
                if m.mask is not None:
                    outcome = outcome & m.mask
                elif outcome.shape != m.active[sel].shape:
                    outcome = np.broadcast_to(outcome, m.active[sel].shape)
                write(m, sel, outcome)
                if also_exec is not None:
                    also_exec(m, sel, outcome)

            return run

        form = takes(kinds[0], *kinds).partition(" ")[2]
        instruction(f"{prefix}_{name}", takes=f"s2 {form}", mods="vop")(factory)


def classify(value: Array, wanted: Array) -> Array:
    """Which values are of the wanted classes: bits signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, ..."""
    size = value.dtype.itemsize
    mantissa = {2: 10, 4: 23, 8: 52}[size]
    bits = value.view(np.dtype(f"u{size}")).astype(np.uint64)
    sign = (bits >> np.uint64(8 * size - 1)).astype(bool)
    fraction = bits & np.uint64((1 << mantissa) - 1)
    top = (1 << (8 * size - 1 - mantissa)) - 1
    exponent = bits >> np.uint64(mantissa) & np.uint64(top)
    quiet = (fraction >> np.uint64(mantissa - 1)).astype(bool)
    special, tiny = exponent == top, exponent == 0
    zero = tiny & (fraction == 0)
    infinite = special & (fraction == 0)
    positive = np.where(infinite, 9, np.where(zero, 6, np.where(tiny, 7, 8)))
    negative = np.where(infinite, 2, np.where(zero, 5, np.where(tiny, 4, 3)))
    kind = np.where(special & (fraction != 0), np.where(quiet, 1, 0), np.where(sign, negative, positive))
    return (wanted >> kind.astype(np.uint32) & np.uint32(1)).astype(bool)


for _kind in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _condition, _test in _INTEGER.items():
        _register(f"{_condition}_{_kind}", (_kind, _kind), _test)
for _kind in ("f16", "f32", "f64"):
    for _condition, _test in _FLOAT.items():
        _register(f"{_condition}_{_kind}", (_kind, _kind), _test)
    _register(f"class_{_kind}", (_kind, "b32"), classify)
