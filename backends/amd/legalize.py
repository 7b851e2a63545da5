"""Thread IR to thread IR that the LLVM writer's tables know.

    floats      f16, f32 and f64 stay. bf16 and fp8 are computed in f32, each operation rounded to its dtype; what only
                moves or flips bits stays. exp and its like are those of lowering/expand_math.py, in f32.
    fp8         conversions are integer arithmetic, the same for every format on every target
    integers    stay; floordiv and floormod as in lowering/legalize.py
    casts       from and to bf16 through f32; 32- and 64-bit integers through f64, whose one rounding is then LLVM's

v_exp_f32, v_log_f32 and v_rsq_f32 flush subnormals. exp2 may; log2 is asked only for what is no ordinary number; rsqrt
is scaled around it.

Source: "CDNA 3" Instruction Set Architecture, chapter "Vector ALU Operations" (precision and denormals of the
transcendental instructions); LLVM 22, "User Guide for AMDGPU Backend", "LLVM IR Intrinsics".
"""

from __future__ import annotations

from typing import Any

from minitile.backends.amd.ops import Intrinsic
from minitile.hardware import Target
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, fences, inline, thread
from minitile.ir.types import bf16, f16, f32, f64
from minitile.lowering.expand_fp8 import FP8, decode, encode
from minitile.lowering.legalize import Legalizer, Rule, common_rules

_IN_F32 = (bf16, *FP8)


def legalize(kernel: Kernel, target: Target) -> None:
    """Rewrites the kernel in place. Raises TargetError for what the target cannot do."""
    _silence_assertions(kernel.body)
    Legalizer(kernel, target, _RULES, _native).run(kernel)


def _silence_assertions(block: Block) -> None:
    """There is no printing on the device: an assertion that fails traps without a word."""
    followers = zip(block.ops, [*block.ops[1:], None], strict=False)
    block.ops = [
        op for op, after in followers if not (isinstance(op, thread.Printf) and isinstance(after, thread.Trap))
    ]
    for op in block.ops:
        for region in op.regions:
            _silence_assertions(region)


def _native(self: Legalizer, name: str, x: Value) -> Value:
    if name != "rsqrt":
        return self.make(Intrinsic((x,), _NATIVE[name], f32))
    tiny = self.make(arith.Cmp(x, self.const(2.0**-126, x), "lt"))
    scaled = self.make(arith.Select(tiny, self.make(arith.Mul(x, self.const(2.0**24, x))), x))
    root = self.make(Intrinsic((scaled,), "llvm.amdgcn.rsq.f32", f32))
    return self.make(arith.Select(tiny, self.make(arith.Mul(root, self.const(2.0**12, x))), root))


_NATIVE = {"exp2": "llvm.amdgcn.exp2.f32", "log2": "llvm.amdgcn.log.f32", "rcp": "llvm.amdgcn.rcp.f32"}


def _arithmetic(self: Legalizer, op: Any) -> Value | None:
    dtype = op.result.dtype
    if dtype in _IN_F32:
        return self.again(arith.Cast(self.in_dtype(op, f32), dtype))
    return None


def _fma(self: Legalizer, op: arith.Fma) -> Value | None:
    if op.result.dtype.is_int:
        return self.make(arith.Add(self.make(arith.Mul(op.a, op.b)), op.c))
    return _arithmetic(self, op)


def _neg(self: Legalizer, op: arith.Neg) -> Value | None:
    return None if op.a.dtype is bf16 else _arithmetic(self, op)


def _cmp(self: Legalizer, op: arith.Cmp) -> Value | None:
    return self.in_dtype(op, f32) if op.a.dtype in _IN_F32 else None


def _cast(self: Legalizer, op: arith.Cast) -> Value | None:
    source, to = op.a.dtype, op.to
    if source is to:
        return op.a
    if source in FP8:
        return self.again(arith.Cast(decode(self.b, op.a), to))
    if to in FP8:
        return encode(self.b, self.again(arith.Cast(op.a, f32)), to)
    if source is bf16 and to is not f32:
        return self.again(arith.Cast(self.cast(op.a, f32), to))
    if (source, to) == (f16, bf16):
        return self.cast(op.a, f32, bf16)
    if to is bf16 and not source.is_float:
        return self.cast(op.a, f64 if source.bits >= 32 else f32, bf16)
    return None


def _printf(self: Legalizer, op: thread.Printf) -> None:
    raise TargetError(f"there is no printing on {self.target}", op.loc, "run it in the simulator of another target")


def _ptx(self: Legalizer, op: inline.Ptx | inline.PtxEffect) -> None:
    raise TargetError(
        f"T.ptx on {self.target}, which has another assembly language",
        op.loc,
        "write it with the functions of T, or in a kernel of its own for NVIDIA's targets",
    )


def _grid_meet(self: Legalizer, op: fences.GridMeet) -> None:
    raise TargetError(f"T.sync_grid on {self.target} is planned, not there yet", op.loc, "launch two kernels")


_ARITHMETIC = (arith.Add, arith.Sub, arith.Mul, arith.Div, arith.Sqrt)
_RULES: dict[type[Op], Rule] = {
    **common_rules(_arithmetic),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    arith.Fma: _fma,
    arith.Neg: _neg,
    arith.Cmp: _cmp,
    arith.Cast: _cast,
    thread.Printf: _printf,
    fences.GridMeet: _grid_meet,
    inline.Ptx: _ptx,
    inline.PtxEffect: _ptx,
}
