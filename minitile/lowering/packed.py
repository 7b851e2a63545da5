"""Integers of 16 bits on words that hold two of them, where no bit of one comes into the other.

    %s = shr %x, 3 : regs<8xu16>     =>     %w = recast %x : regs<4xu32>
                                            %t = shr %w, 3
                                            %u = and %t, 0x1fff1fff           // not where those bits cannot be set
                                            %s = recast %u : regs<8xu16>

In 32 bits each (`widened`) an element takes an instruction, one to cut it off, and a share of those that take words
apart and put them together. Logic is the same on words; shifts by constants, of which those of the lower and the upper
halves may differ, need a mask where bits may cross; sums, and products by constants, go where the numbers stay below
2**16. What is asked of a value is which of its bits may be set: known of constants, of casts of narrower numbers, and
of what came out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minitile.ir.builder import constant_of, register_constants
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, thread
from minitile.ir.ops.thread import count_of
from minitile.ir.ops.views import Recast
from minitile.ir.types import RegsType, u32
from minitile.lowering.legalize import Legalizer

FULL = 0xFFFF
UPPER = FULL << 16
BOTH = 0x10001
DEPTH = 8  # operations looked through for the bits of a value

Found = tuple[Value, int] | None  # words, and the bits that may be set in a half


def packed(self: Legalizer, op: Any) -> Value | None:
    """The operation on words; None where it has to be widened."""
    rule, t = _RULES.get(type(op)), op.results[0].type
    if rule is None or not isinstance(t, RegsType) or t.dtype.bits != 16 or count_of(t) % 2:
        return None
    found = rule(self, op)
    if found is None:
        return None
    result = self.make(Recast(found[0], t.dtype))
    self.bits[result] = found[1]
    return result


# Which bits may be set -----------------------------------------------------------------------------------------------


def possible(self: Legalizer, value: Value, depth: int = DEPTH) -> int:
    """The bits that may be set in some element of an integer value."""
    found = self.bits.get(value)
    if found is None:
        every = (1 << value.dtype.bits) - 1
        found = self.bits[value] = (_possible(self, value, depth - 1) if depth else every) & every
    return found


def _possible(self: Legalizer, value: Value, depth: int) -> int:
    op, constants = value.op, register_constants(value)
    if constants is not None:
        return _union(int(n) for n in constants)
    if isinstance(op, arith.Cast) and op.a.dtype.is_int:
        source, width = possible(self, op.a, depth), op.a.dtype.bits
        extended = op.a.dtype.kind == "int" and op.to.bits > width and source >> (width - 1)
        return -1 if extended else source
    if isinstance(op, arith.And):
        return possible(self, op.a, depth) & possible(self, op.b, depth)
    if isinstance(op, arith.Or | arith.Xor):
        return possible(self, op.a, depth) | possible(self, op.b, depth)
    if isinstance(op, thread.Pick):
        return possible(self, op.a, depth)
    if isinstance(op, thread.Concat):
        return _union(possible(self, v, depth) for v in op.values)
    return -1


def _union(masks: Iterable[int]) -> int:
    every = 0
    for mask in masks:
        every |= mask
    return every


def _up_to(number: int) -> int:
    """The bits of all numbers up to one."""
    return (1 << number.bit_length()) - 1


# Words ---------------------------------------------------------------------------------------------------------------


def _words(self: Legalizer, value: Value) -> Value | None:
    """A value's words; of a scalar both halves alike, None where it is no constant."""
    number = constant_of(value)
    if number is not None:
        return self.const((int(number) & FULL) * BOTH, u32)
    if not isinstance(value.type, RegsType):
        return None
    op = value.op
    return op.a if isinstance(op, Recast) and op.a.dtype is u32 else self.make(Recast(value, u32))


def _masked(self: Legalizer, words: Value, mask: int) -> Value:
    """Bits of words, in one step also of what is bits of words, or made of halves."""
    op = words.op
    parts = _halves(words)
    if parts is not None:
        return self.make(arith.Or(_masked(self, parts[0], mask & FULL), _masked(self, parts[1], mask & UPPER)))
    inner = constant_of(op.b) if isinstance(op, arith.And) else None
    if isinstance(op, arith.And) and inner is not None:
        words, mask = op.a, mask & int(inner)
    return self.again(arith.And(words, self.const(mask, u32)))


def _halves(words: Value) -> tuple[Value, Value] | None:
    """Of words that `_shift` has joined, not yet masked, the two sides."""
    op = words.op
    if isinstance(op, arith.Or) and isinstance(op.a.op, arith.And) and isinstance(op.b.op, arith.And):
        lower, upper = constant_of(op.a.op.b), constant_of(op.b.op.b)
        apart = lower is not None and upper is not None and not (lower & UPPER or upper & FULL)
        if apart and (lower == FULL or upper == UPPER):
            return op.a, op.b
    return None


# Rules ---------------------------------------------------------------------------------------------------------------


def _logic(self: Legalizer, op: Any) -> Found:
    a, b = _words(self, op.a), _words(self, op.b)
    if a is None or b is None:
        return None
    bits = possible(self, op.a), possible(self, op.b)
    if not isinstance(op, arith.And):
        return self.again(type(op)(a, b)), bits[0] | bits[1]
    mask = constant_of(b)
    return self.again(arith.And(a, b)) if mask is None else _masked(self, a, mask), bits[0] & bits[1]


def _not(self: Legalizer, op: arith.Not) -> Found:
    a = _words(self, op.a)
    return None if a is None else (self.make(arith.Not(a)), FULL)


def _shift(self: Legalizer, op: Any) -> Found:
    left, bits, amounts = isinstance(op, arith.Shl), possible(self, op.a), register_constants(op.b)
    if amounts is None or not isinstance(op.a.type, RegsType) or not all(0 <= n < 16 for n in amounts):
        return None
    if op.a.dtype.kind == "int" and not left and bits >> 15:
        return None  # the sign comes in
    lower, upper = int(amounts[0]), int(amounts[-1])
    if any(n != (lower, upper)[k % 2] for k, n in enumerate(amounts)):
        return None
    words = _words(self, op.a)
    if words is None:
        return None
    shifted = _shifted(self, words, lower, left, bits)
    if upper != lower:
        other = _shifted(self, words, upper, left, bits)
        shifted = self.make(arith.Or(_masked(self, shifted, FULL), _masked(self, other, UPPER)))
    return shifted, _union((bits << n if left else bits >> n) & FULL for n in (lower, upper))


def _shifted(self: Legalizer, words: Value, n: int, left: bool, bits: int) -> Value:
    """Both halves by n, without what crosses."""
    if n == 0:
        return words
    crosses = bits << n & ~FULL if left else bits & ((1 << n) - 1)
    words = self.make((arith.Shl if left else arith.Shr)(words, self.const(n, u32)))
    return _masked(self, words, ((bits << n if left else bits >> n) & FULL) * BOTH) if crosses else words


def _add(self: Legalizer, op: arith.Add) -> Found:
    a, b = _words(self, op.a), _words(self, op.b)
    most = possible(self, op.a) + possible(self, op.b)
    return None if a is None or b is None or most > FULL else (self.again(arith.Add(a, b)), _up_to(most))


def _mul(self: Legalizer, op: arith.Mul) -> Found:
    a, factor = _words(self, op.a), constant_of(op.b)
    if a is None or factor is None or factor < 0 or possible(self, op.a) * factor > FULL:
        return None
    return self.again(arith.Mul(a, self.const(int(factor), u32))), _up_to(possible(self, op.a) * int(factor))


_RULES: dict[type[Op], Callable[[Legalizer, Any], Found]] = {
    **dict.fromkeys((arith.And, arith.Or, arith.Xor), _logic),
    arith.Not: _not,
    **dict.fromkeys((arith.Shl, arith.Shr), _shift),
    arith.Add: _add,
    arith.Mul: _mul,
}
