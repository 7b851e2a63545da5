"""How instructions get at their operands: closures that read and write registers of the waves that execute.

Scalar values are arrays [waves] (constants: [1]); vector values [waves, 64], with one column for what is the same in
all lanes. Both are unsigned words, 64-bit ones put together from two registers; instruction modules view them as what
they are. The decoder notes which registers an instruction reads and writes, for the checks of `queue.py`: register row
r of the scalar file has code r, row r of the vector file `VECTOR + r`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import SimulationError
from ..core.scalars import Array, Sel
from .parser import float_bits
from .syntax import EXEC, Instruction, Literal, Operand, Reg, Word

if TYPE_CHECKING:
    from .machine import Machine
    from .program import Program

VECTOR = 1000
Read = Callable[["Machine", Sel], Array]
Write = Callable[["Machine", Sel, Array], None]
VectorWrite = Callable[["Machine", Sel, Array, "Array | None"], None]
_U64 = np.uint64(32)
_INV_2PI = {2: 0x3118, 4: 0x3E22F983, 8: 0x3FC45F306DC9C882}  # the inline constant 1 / (2 pi), CDNA3 ISA, 5.2


def fixed(value: Array) -> Read:
    """A source that is always the same."""
    return lambda m, sel: value


@dataclass(frozen=True, slots=True)
class Matrix:
    """The register codes of a matrix instruction; `double`: f64, which has rules of its own."""

    result: tuple[int, ...]
    factors: tuple[int, ...]
    addend: tuple[int, ...]
    double: bool


class Decoder:
    """Decodes the operands of one instruction."""

    def __init__(self, program: Program, ins: Instruction, site: int) -> None:
        self.program = program
        self.ins = ins
        self.site = site
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.labels: dict[str, int] = {}
        self.matrix: Matrix | None = None
        self.target: int | None = None
        self.whole: set[int] = set()  # vector registers read in all lanes, whatever EXEC

    def error(self, message: str) -> SimulationError:
        """An error at this instruction."""
        return SimulationError(message, self.ins.line, self.ins.text, isa="GCN")

    def operand(self, index: int) -> Operand:
        """Operand `index`, or an error if it is missing."""
        if index >= len(self.ins.operands):
            raise self.error(f"{self.ins.name} has too few operands")
        return self.ins.operands[index]

    def flag(self, name: str) -> bool:
        """Whether a modifier is there."""
        return bool(self.ins.mods.get(name, False))

    def number(self, name: str, default: int = 0) -> int:
        """A modifier's number."""
        value = self.ins.mods.get(name, default)
        if isinstance(value, bool):
            return int(value)
        if not isinstance(value, int):
            raise self.error(f"{name} is not a number")
        return value

    def bits(self, name: str, count: int, default: int = 0) -> tuple[int, ...]:
        """A modifier's list of bits, such as op_sel:[0,1]."""
        value = self.ins.mods.get(name)
        listed = value if isinstance(value, tuple) else ()
        return tuple(listed) + (default,) * (count - len(listed))

    def rows(self, operand: Operand, count: int | None = None) -> list[int]:
        """The vector rows of a register operand."""
        if not isinstance(operand, Reg) or operand.file == "s":
            raise self.error(f"{self.ins.name} needs a vector register here")
        if count is not None and operand.count != count:
            raise self.error(f"{self.ins.name} needs {count} registers here, not {operand.count}")
        first = operand.first + (self.program.accumulators if operand.file == "a" else 0)
        return list(range(first, first + operand.count))

    # -- constants -----------------------------------------------------------------------------------------------------

    def constant(self, operand: Operand, size: int, floating: bool | None = None) -> int | None:
        """A literal's bits as an operand of `size` bytes; None for registers."""
        if isinstance(operand, Word):
            return self.program.symbol(operand.text, self)
        if not isinstance(operand, Literal):
            return None
        if isinstance(operand.value, float):
            near = abs(abs(operand.value) - 0.15915494309189532) < 1e-6
            bits = _INV_2PI[size] if near else float_bits(operand.value, size)
            if near and operand.value < 0:
                bits ^= 1 << (8 * size - 1)
        else:
            bits = operand.value & ((1 << 8 * size) - 1)
            if size == 8 and floating and not -16 <= operand.value <= 64:
                bits = (operand.value & 0xFFFFFFFF) << 32
        sign = 1 << (8 * size - 1)
        if operand.abs:
            bits &= ~sign
        if operand.neg:
            bits = bits ^ sign if floating or isinstance(operand.value, float) else -bits & (2 * sign - 1)
        return bits

    # -- scalar registers ----------------------------------------------------------------------------------------------

    def scalar(self, operand: Operand, size: int = 4) -> Read:
        """A scalar source of 4 or 8 bytes: uint32 or uint64 [waves]."""
        value = self.constant(operand, size)
        if value is not None:
            return fixed(np.array([value], np.uint32 if size == 4 else np.uint64))
        if not isinstance(operand, Reg) or operand.file != "s" or operand.count != size // 4:
            raise self.error(f"{self.ins.name} needs {size // 4} scalar registers here")
        row = operand.first
        self.reads.update(range(row, row + size // 4))
        if size == 4:
            return lambda m, sel: m.s[row, sel]
        return lambda m, sel: m.s[row, sel] | m.s[row + 1, sel].astype(np.uint64) << _U64

    def scalar_result(self, operand: Operand, size: int = 4) -> Write:
        """Writes a scalar destination of 4 or 8 bytes."""
        if not isinstance(operand, Reg) or operand.file != "s" or operand.count != size // 4:
            raise self.error(f"{self.ins.name} needs a scalar register as destination")
        row = operand.first
        self.writes.update(range(row, row + size // 4))
        is_exec = row in (EXEC, EXEC + 1)

        def write(m: Machine, sel: Sel, value: Array) -> None:
            m.s[row, sel] = value if size == 4 else (value & np.uint64(0xFFFFFFFF))
            if size == 8:
                m.s[row + 1, sel] = value >> _U64
            if is_exec:
                m.exec_changed(sel)

        return write

    def mask(self, operand: Operand) -> Read:
        """A lane mask in scalar registers as booleans [waves, 64]."""
        from .machine import unpack

        value = self.constant(operand, 8)
        if value is not None:
            return fixed(np.array([[value >> lane & 1 for lane in range(64)]], bool))
        if not isinstance(operand, Reg) or operand.file != "s" or operand.count != 2:
            raise self.error(f"{self.ins.name} needs a pair of scalar registers here")
        row = operand.first
        self.reads.update((row, row + 1))
        return lambda m, sel: unpack(np.ascontiguousarray(m.s[row : row + 2, sel].T))

    def mask_result(self, operand: Operand) -> Write:
        """Writes booleans [waves, 64] as a lane mask."""
        from .machine import pack

        if not isinstance(operand, Reg) or operand.file != "s" or operand.count != 2:
            raise self.error(f"{self.ins.name} needs a pair of scalar registers as destination")
        row = operand.first
        self.writes.update((row, row + 1))
        is_exec = row == EXEC

        def write(m: Machine, sel: Sel, value: Array) -> None:
            m.s[row : row + 2, sel] = pack(value).T
            if is_exec:
                m.exec_changed(sel)

        return write

    # -- vector registers ----------------------------------------------------------------------------------------------

    def vector(self, operand: Operand, size: int = 4, floating: bool = False, whole: bool = False) -> Read:
        """A vector source: uint32 (or uint64, or uint16 from the low half), without modifiers."""
        value = self.constant(operand, size, floating)
        if value is not None:
            return fixed(np.array([[value]], np.dtype(f"u{size}")))
        if not isinstance(operand, Reg):
            raise self.error(f"operand {operand} is not understood here")
        if operand.file == "s":
            read = self.scalar(operand, max(size, 4))
            if size == 2:
                return lambda m, sel: (read(m, sel) & 0xFFFF).astype(np.uint16)[:, None]
            return lambda m, sel: read(m, sel)[:, None]
        rows = self.rows(operand, 2 if size == 8 else None)
        row = rows[0]
        codes = {VECTOR + each for each in rows[: max(size // 4, 1)]}
        self.reads |= codes
        if whole:
            self.whole |= codes
        if size == 8:
            return lambda m, sel: m.v[row, sel] | m.v[row + 1, sel].astype(np.uint64) << _U64
        if size == 2:
            return lambda m, sel: (m.v[row, sel] & 0xFFFF).astype(np.uint16)
        return lambda m, sel: m.v[row, sel]

    def vector_result(self, operand: Operand, size: int = 4) -> VectorWrite:
        """Writes a vector destination of 4 or 8 bytes in the active lanes."""
        rows = self.rows(operand, 2 if size == 8 else None)
        row = rows[0]
        self.writes.update(VECTOR + each for each in rows[: size // 4])
        if size == 4:
            return lambda m, sel, value, enabled: m.put(row, sel, value, enabled)

        def write(m: Machine, sel: Sel, value: Array, enabled: Array | None) -> None:
            m.put(row, sel, value.astype(np.uint32), enabled)
            m.put(row + 1, sel, (value >> _U64).astype(np.uint32), enabled)

        return write

    def words(self, operand: Operand, count: int | None = None, whole: bool = False) -> list[int]:
        """The rows of a vector source of several registers, noted as read."""
        rows = self.rows(operand, count)
        self.reads.update(VECTOR + row for row in rows)
        if whole:
            self.whole.update(VECTOR + row for row in rows)
        return rows

    def result_words(self, operand: Operand, count: int | None = None) -> list[int]:
        """The rows of a vector destination of several registers, noted as written."""
        rows = self.rows(operand, count)
        self.writes.update(VECTOR + row for row in rows)
        return rows
