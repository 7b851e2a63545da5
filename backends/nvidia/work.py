"""What an operation of thread IR asks of a multiprocessor's units: the hook of the cost model (`Rules.work`).

An operation names the rate of `hardware.Rates` that holds for it; the rates are the target's. Source: CUDA C++
Programming Guide, "Arithmetic Instructions", compute capability 9.0. Additions and products of floats have a row of
their own; comparisons, minima, maxima, logic and shifts have rows of half that rate; conversions between integers and
floats ("all other type conversions") go at the special functions' rate. Pairs of 16-bit floats are one instruction
(PTX ISA 8.3, 9.7.4; 9.7.9.21 "cvt", `.bf16x2`); what packs them (F2FP) has a fixed latency in disassembled cubins, as
minima have, and no scoreboard, as special functions have: it is counted as the former.

What has no row costs nothing here: registers that only change their names, and accesses of memory, which are counted
by bytes.
"""

from __future__ import annotations

from minitile.backends.base import Work
from minitile.backends.nvidia.ops import Instruction
from minitile.ir.core import Op
from minitile.ir.ops import arith, hopper, thread
from minitile.ir.types import RegsType, ScalarType

_ROWS = 64  # of a wgmma, which four warps do together (PTX ISA 8.3, 9.7.14)
_FLOATS = (arith.Add, arith.Sub, arith.Mul, arith.Fma, arith.Neg, arith.Abs)
_SPECIAL = ("ex2.", "lg2.", "rcp.", "rsqrt.", "sqrt.approx", "sin.", "cos.", "tanh.")


def work_of(op: Op) -> Work | None:
    """What `op` asks of which unit; None where it asks nothing that is known."""
    if isinstance(op, hopper.Wgmma):
        products = _ROWS * op.blocks * op.n * op.strips * op.k * op.steps
        return Work("products", whole=products * op.dtypes[0].bits / 16)
    if not op.results or not isinstance(op.results[0].type, (RegsType, ScalarType)):
        return None
    dtype = op.results[0].dtype
    packed = 2 if dtype.is_float and dtype.bits <= 16 else 1
    if isinstance(op, Instruction):
        return Work("special" if op.text.startswith(_SPECIAL) else "arithmetic")
    if isinstance(op, thread.ShuffleXor):
        return Work("shuffled")
    if isinstance(op, arith.Cast) and dtype.is_float != op.a.dtype.is_float:
        return Work("special")
    if isinstance(op, _FLOATS) and dtype.is_float:
        return Work("arithmetic", packed)
    return Work("integer", packed) if op.elementwise and not isinstance(op, arith.Reinterpret) else None
