"""Thread IR to thread IR that the writer's tables know: types and operations the target has no instruction for go.

The rule of each operation is in a table; a rule returns the value that stands for the result, or None to keep the
operation. What a rule emits is legal already and is not looked at again.

    floats      16-bit add, mul, fma, min, max, neg, abs stay (exact, two in a word); bf16 add and mul become fma.
                Everything else on 16 and 8 bits is computed in f32, each operation rounded to its dtype.
    integers    of 8 and 16 bits are computed in 32 bits and cut off again, so that they wrap; pairs of 16 bits on
                words where no bit crosses (lowering/packed.py)
    division    floordiv and floormod: shift and mask for powers of two, C's division when nothing is negative, else
                C's division corrected
    logic       two in a row with a constant each are one lop3
    casts       a chain of conversions that PTX has; through f32 rounded to odd where two roundings differ from one

    %q = floordiv %x, 8    =>    %q = shr %x, 3

exp, log, tanh and the like are in lowering/expand_math.py, fp8 for targets without it in lowering/expand_fp8.py.

Sources: PTX ISA 8.3, 9.7 (which types an instruction takes on which target); for rounding to odd, Boldo & Melquiond,
"Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Comp. 57(4), 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, or_, xor
from typing import Any

import numpy as np

from minitile.backends.nvidia.emit.arith import MNEMONICS
from minitile.backends.nvidia.emit.cast import DIRECT
from minitile.backends.nvidia.inline_checks import check as check_inline
from minitile.backends.nvidia.ops import Instruction
from minitile.hardware import Target
from minitile.ir.builder import constant_of
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, inline, thread
from minitile.ir.ops.thread import count_of
from minitile.ir.types import DType, bool_, e4m3, e5m2, f16, f32, i32
from minitile.lowering.expand_fp8 import FP8, decode, encode
from minitile.lowering.legalize import Legalizer, Rule, clamped, common_rules, compare_bools, nan_first, wide, widened
from minitile.lowering.packed import packed

_OCP = (e4m3, e5m2)  # which the hardware converts, from sm_89 on


def legalize(kernel: Kernel, target: Target) -> None:
    """Rewrites the kernel in place. Raises TargetError for what the target cannot do."""
    Legalizer(kernel, target, _RULES, _native).run(kernel)


# Arithmetic ----------------------------------------------------------------------------------------------------------


def _arithmetic(self: Legalizer, op: Any) -> Value | None:
    """Narrow types that an operation has no instruction for."""
    dtype = op.result.dtype
    if (type(op), dtype.name) in MNEMONICS:
        return None
    if dtype.is_float and dtype.bits <= 16:
        return self.again(arith.Cast(self.in_dtype(op, f32), dtype))
    if dtype.is_int and dtype.bits < 32:
        on_words = packed(self, op)
        return widened(self, op) if on_words is None else on_words
    raise TargetError(f"{op.mnemonic} is not defined for {dtype}", op.loc)


def _native(self: Legalizer, name: str, x: Value) -> Value:
    """ex2 with .ftz: without it, three more instructions scale subnormals up and down again."""
    return self.make(Instruction((x,), _NATIVE[name], f32))


_NATIVE = {
    "exp2": "ex2.approx.ftz.f32",
    "log2": "lg2.approx.f32",
    "rsqrt": "rsqrt.approx.f32",
    "rcp": "rcp.approx.ftz.f32",
}


def _add(self: Legalizer, op: arith.Add) -> Value | None:
    if op.result.dtype.name == "bf16":
        return self.make(arith.Fma(op.a, self.const(1.0, op.a), op.b))
    return _arithmetic(self, op)


def _sub(self: Legalizer, op: arith.Sub) -> Value | None:
    if op.result.dtype.name == "bf16":
        return self.make(arith.Fma(op.b, self.const(-1.0, op.a), op.a))
    return _arithmetic(self, op)


def _mul(self: Legalizer, op: arith.Mul) -> Value | None:
    if op.result.dtype.name == "bf16":
        return self.make(arith.Fma(op.a, op.b, self.const(-0.0, op.a)))
    return _arithmetic(self, op)


def _nan_first(self: Legalizer, op: arith.MinNan | arith.MaxNan) -> Value | None:
    return None if (type(op), op.result.dtype.name) in MNEMONICS else nan_first(self, op)


def _neg(self: Legalizer, op: arith.Neg) -> Value | None:
    if op.a.dtype.kind == "uint":
        return self.again(arith.Sub(self.const(0, op.a), op.a))
    return _arithmetic(self, op)


_TABLES: dict[type[Op], Callable[[int, int], int]] = {arith.And: and_, arith.Or: or_, arith.Xor: xor}
_INPUTS = 0xF0, 0xCC, 0xAA  # what lop3 numbers its functions by (PTX ISA 8.3, 9.7.7.6)


def _logic(self: Legalizer, op: arith.And | arith.Or | arith.Xor) -> Value | None:
    """Two in a row on a tile, each with a constant, are one lop3: ptxas, which joins all others, keeps these two apart,
    since an instruction has room for one constant."""
    inner, dtype = op.a.op, op.result.dtype
    if type(inner) not in _TABLES or dtype.name not in ("i32", "u32"):
        return None if (type(op), dtype.name) in MNEMONICS else _arithmetic(self, op)
    assert isinstance(inner, arith.And | arith.Or | arith.Xor)
    if count_of(op.result.type) == 1 or constant_of(inner.b) is None or constant_of(op.b) is None:
        return None
    first, second, third = _INPUTS
    table = _TABLES[type(op)](_TABLES[type(inner)](first, second), third)
    values = (inner.a, inner.b, op.b, self.const(table, i32))
    return self.make(Instruction(values, "lop3.b32", dtype))


# Comparison and selection --------------------------------------------------------------------------------------------


def _cmp(self: Legalizer, op: arith.Cmp) -> Value | None:
    dtype = op.a.dtype
    if dtype is bool_:
        return compare_bools(self, op)
    if dtype.bits >= 32:
        return None
    return self.in_dtype(op, f32 if dtype.is_float else wide(dtype))


def _select(self: Legalizer, op: arith.Select) -> Value | None:
    if op.result.dtype is not bool_:
        return None
    taken = self.make(arith.And(op.condition, op.a))
    other = self.make(arith.And(self.make(arith.Not(op.condition)), op.b))
    return self.make(arith.Or(taken, other))


# Casts ---------------------------------------------------------------------------------------------------------------


def _cast(self: Legalizer, op: arith.Cast) -> Value | None:
    source, to = op.a.dtype, op.to
    if source is to:
        return op.a
    constant = constant_of(op.a)
    if constant is not None and to.is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            number = float(np.asarray(constant, source.numpy).astype(to.numpy)) if to not in FP8 else None
        if number is not None:
            return self.const(number, to)
    by_hardware = _OCP if self.target.has("mma_fp8") else ()  # fp8 conversions came together with fp8 mma
    if source in FP8 and source not in by_hardware:
        return self.again(arith.Cast(decode(self.b, op.a), to))
    if to in FP8 and to not in by_hardware and source in (f32, bool_):
        return encode(self.b, self.cast(op.a, f32), to)
    if (source.name, to.name) in DIRECT:
        return None
    return _route(self, op.a, to)


def _route(self: Legalizer, a: Value, to: DType) -> Value:
    """A cast without an instruction of its own, as several that have one."""
    source = a.dtype
    if source.is_int and source.bits < 32:  # any wider type holds it
        return self.again(arith.Cast(self.cast(a, wide(source)), to))
    if source in _OCP:
        return self.again(arith.Cast(self.cast(a, f16), to))
    if source.is_float and source.bits == 16:
        return self.again(arith.Cast(self.cast(a, f32), to))
    if to.is_int and to.bits < 32:
        if source.is_float:
            return self.cast(clamped(self, self.cast(a, wide(to)), to), to)
        return self.cast(self.again(arith.Cast(a, wide(to))), to)
    # What is left: 32- and 64-bit numbers to bf16 and fp8. f32 has more than two bits to spare, so rounding to odd
    # first makes the second rounding the only one.
    return self.again(arith.Cast(_round_to_odd(self, a), to))


def _round_to_odd(self: Legalizer, a: Value) -> Value:
    """A 32- or 64-bit number in f32: towards zero, with the last bit set when that was inexact."""
    if a.dtype is f32:
        return a
    kind = {"i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64", "f64": "f64"}[a.dtype.name]
    down = self.make(Instruction((a,), f"cvt.rz.f32.{kind}", f32))
    back = self.cast(down, a.dtype)
    inexact = self.make(arith.Cmp(back, a, "ne"))
    bits = self.make(arith.Reinterpret(down, i32))
    odd = self.make(arith.Or(bits, self.make(arith.Cast(inexact, i32))))
    return self.make(arith.Reinterpret(odd, f32))


def _printf(self: Legalizer, op: thread.Printf) -> None:
    """fp8 has no conversion to f64."""
    op.values = tuple(self.again(arith.Cast(v, f32)) if v.dtype in FP8 else v for v in op.values)


_ARITHMETIC = (
    arith.TruncDiv, arith.TruncMod, arith.Shl, arith.Shr, arith.Not,
    arith.Fma, arith.Div, arith.Sqrt,
)  # fmt: skip


def _ptx(self: Legalizer, op: inline.Ptx | inline.PtxEffect) -> None:
    check_inline(op)


_RULES: dict[type[Op], Rule] = {
    **common_rules(_arithmetic),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_TABLES, _logic),
    arith.Add: _add,
    arith.Sub: _sub,
    arith.Mul: _mul,
    arith.Neg: _neg,
    **dict.fromkeys((arith.MinNan, arith.MaxNan), _nan_first),
    arith.Cmp: _cmp,
    arith.Select: _select,
    arith.Cast: _cast,
    thread.Printf: _printf,
    inline.Ptx: _ptx,
    inline.PtxEffect: _ptx,
}
