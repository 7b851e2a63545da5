"""Where the values of thread IR are: their registers, in either of two forms, and the moves between the forms.

A value of 32- or 64-bit elements, or of bools, has one register an element. Elements of 8 and 16 bits have two forms:

    words      whole 32-bit registers of 4 or 2 elements; only when the count fills them
    elements   one 16-bit register each; an 8-bit integer is kept sign- or zero-extended

The rule that computes a value defines the form it has; `elements` and `words` make the other one when it is first asked
for and keep it until the region it was made in ends. A value of a coalescing class (register_coalescing.py) has the
registers of the class, in words if it can.

Sources: PTX ISA 8.3, 9.7.8.4 (mov, packing), 9.7.8.7 (prmt: selector nibbles 0–3 name bytes of a, 4–7 of b),
9.7.1.19 (bfe).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitile.backends.nvidia.emit.ptx import (
    FALSE,
    Code,
    Registers,
    braces,
    is_register,
    literal,
    per_word,
    reads_constant_predicate,
    register_type,
)
from minitile.backends.nvidia.emit.register_coalescing import Plan
from minitile.hardware import Target
from minitile.ir.core import Value
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops.arith import Constant
from minitile.ir.ops.thread import count_of
from minitile.ir.origin import Origin
from minitile.ir.types import DType


def fills_words(value: Value) -> bool:
    """Whether a value's narrow elements fill whole 32-bit words."""
    n = per_word(value.dtype)
    return n > 1 and count_of(value.type) % n == 0


class Emitter:
    """The code of one kernel as it grows, and where its values are."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan = plan
        self.target = target
        self.code = Code()
        self.lines = self.code.lines
        self.why: Origin | None = None  # of the operation at hand
        self.registers = Registers()
        self.prologue: list[str] = []  # runs once at the top: parameters, special registers, addresses of buffers
        self.isa = target.isa  # raised by instructions that are newer
        self.fetch_maps = False  # tensor maps are fetched when the kernel begins
        self.globals: dict[str, None] = {}  # module-level declarations, such as format strings, in order
        self.shared: dict[tuple[int, int], str] = {}  # buffers in use: first and last byte, and what lies there
        self.locals: dict[object, tuple[str, int]] = {}  # arrays in local memory: symbol and bytes
        self._elements: dict[Value, list[str]] = {}
        self._words: dict[Value, list[str]] = {}
        self._class_registers: dict[Value, list[str]] = {}
        self._cache: dict[Any, Any] = {}
        self._shared: dict[Any, str] = {}
        self._trail: list[tuple[dict[Any, Any], Any]] = []

    # Lines ---------------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        if reads_constant_predicate(line):
            raise InternalError(f"a constant where a predicate is read: {line}", self.code.loc)
        self.lines.append(line)

    def order(self, line: str, why: Origin | None = None) -> None:
        """An instruction that is there for order, and behind it where it comes from: the operation at hand, or `why`
        where that is not for order alone."""
        why = why or self.why
        self.emit(line if why is None else f"{line}  // {why}")

    def temp(self, kind: str) -> str:
        """A new register of a PTX register type, without a name."""
        return self.registers.one(kind)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region: conversions made inside are forgotten at its end."""
        mark = len(self._trail)
        yield
        while len(self._trail) > mark:
            cache, key = self._trail.pop()
            del cache[key]

    def keep(self, cache: dict[Any, Any], key: Any, value: Any) -> Any:
        """Remember a conversion until the current region ends."""
        cache[key] = value
        self._trail.append((cache, key))
        return value

    def once(self, key: Any, make: Any) -> Any:
        """What `make()` returned in this region or one around it, or returns now."""
        found = self._cache.get(key)
        return self.keep(self._cache, key, make()) if found is None else found

    def at_top(self, key: Any, kind: str, name: str, line: str) -> str:
        """A register that `line` (with `{}` for the register) sets once for the whole kernel."""
        if key not in self._shared:
            register = self._shared[key] = self.registers.one(kind, name)
            self.prologue.append(line.format(register))
        return self._shared[key]

    # Reading values ------------------------------------------------------------------------------------------------

    def elements(self, value: Value) -> list[str]:
        """An operand for each element: registers, or literals where the value is constant."""
        found = self._elements.get(value)
        if found is not None:
            return found
        if isinstance(value.op, Constant):
            operands = [literal(value.op.value, value.dtype)]
            self._elements[value] = operands
            return operands
        words = self._words.get(value)
        if words is None:
            raise InternalError(f"{value} is used before it is computed", value.op.loc if value.op else None)
        return self.keep(self._elements, value, self._unpack(words, value.dtype))  # type: ignore[no-any-return]

    def spread(self, value: Value, count: int) -> list[str]:
        """`elements`, a scalar repeated `count` times."""
        operands = self.elements(value)
        return operands * count if len(operands) == 1 else operands

    def element(self, value: Value) -> str:
        """The operand of a scalar."""
        return self.elements(value)[0]

    def in_registers(self, value: Value) -> list[str]:
        """`elements`, literals moved to registers."""
        kind = register_type(value.dtype)
        return [self.register(operand, kind) for operand in self.elements(value)]

    def register(self, operand: str, kind: str) -> str:
        """The operand itself if it is a register, else one that holds the literal."""
        if is_register(operand):
            return operand
        return self.once((operand, kind), lambda: self._load_literal(operand, kind))  # type: ignore[no-any-return]

    def _load_literal(self, operand: str, kind: str) -> str:
        register = self.temp(kind)
        self.emit(f"mov.{kind} {register}, {operand};")
        return register

    def has_words(self, value: Value) -> bool:
        return value in self._words

    def words(self, value: Value) -> list[str]:
        """The 32-bit words of a value that fills them (32-bit elements: the elements, in registers)."""
        found = self._words.get(value)
        if found is not None:
            return found
        n = per_word(value.dtype)
        if n == 1:
            return self.in_registers(value)
        elements = self.elements(value)
        words = [self.temp("b32") for _ in range(len(elements) // n)]
        self.pack(words, elements, value.dtype)
        return self.keep(self._words, value, words)  # type: ignore[no-any-return]

    def splat(self, value: Value) -> str:
        """A word whose two halves are a 16-bit scalar."""
        operand = self.element(value)
        if not is_register(operand):
            return self.register(f"0x{int(operand, 0) * 0x10001:08X}", "b32")

        def make() -> str:
            word = self.temp("b32")
            self.emit(f"mov.b32 {word}, {{{operand}, {operand}}};")
            return word

        return self.once((value, "splat"), make)  # type: ignore[no-any-return]

    # Writing values ------------------------------------------------------------------------------------------------

    def class_registers(self, value: Value) -> list[str] | None:
        """The registers that a value shares with others (words if it fills them); None if it shares none."""
        of = self.plan.class_of.get(value)
        if of is None:
            return None
        if of not in self._class_registers:
            name = next((v.name for v in self.plan.members[of] if v.name), "")
            self._class_registers[of] = self._new_registers(value, name)
        return self._class_registers[of]

    def _new_registers(self, value: Value, name: str) -> list[str]:
        n = per_word(value.dtype) if fills_words(value) else 1
        kind = "b32" if n > 1 else register_type(value.dtype)
        return self.registers.many(kind, count_of(value.type) // n, name)

    def targets(self, value: Value) -> list[str]:
        """New registers (or those of its class) for the value, entered as what it is: words if it fills them."""
        found = self.class_registers(value) or self._new_registers(value, value.name)
        (self._words if fills_words(value) else self._elements)[value] = found
        return found

    def element_targets(self, value: Value) -> list[str]:
        """Registers for an instruction that makes element by element; `define` must follow."""
        if fills_words(value):
            return self.registers.many(register_type(value.dtype), count_of(value.type))
        return self.class_registers(value) or self._new_registers(value, value.name)

    def define(self, value: Value, elements: list[str]) -> None:
        """The value's elements are these operands; if it is of a coalescing class, they go to its registers."""
        shared = self.class_registers(value)
        if shared is None or elements is shared:
            self._elements[value] = elements
        elif fills_words(value):
            self.pack(shared, elements, value.dtype)
            self._words[value] = shared
        else:
            self.move(list(zip(shared, elements, strict=True)), register_type(value.dtype))
            self._elements[value] = shared

    def define_words(self, value: Value, words: list[str]) -> None:
        """The value's words are these registers; if it is of a coalescing class, they go to its registers."""
        shared = self.class_registers(value)
        if shared is not None:
            self.move(list(zip(shared, words, strict=True)), "b32")
        self._words[value] = words if shared is None else shared

    def copies(self, to: Value, source: Value) -> list[tuple[str, str, str]]:
        """The moves (register, operand, register type) that hand `source` over to the registers of `to`."""
        packed = fills_words(to)
        targets = (self._words if packed else self._elements).get(to) or self.targets(to)
        if packed:
            return [(d, s, "b32") for d, s in zip(targets, self.words(source), strict=True) if d != s]
        kind = register_type(to.dtype)
        return [(d, s, kind) for d, s in zip(targets, self.elements(source), strict=True) if d != s]

    def move(self, pairs: list[tuple[str, str]], kind: str) -> None:
        self.parallel([(d, s, kind) for d, s in pairs if d != s])

    def parallel(self, moves: list[tuple[str, str, str]]) -> None:
        """All moves at once: no source is overwritten before it is read; a cycle goes through a new register."""
        pending = {d: (s, kind) for d, s, kind in moves}
        readers: dict[str, int] = {}
        for s, _ in pending.values():
            readers[s] = readers.get(s, 0) + 1
        ready = [d for d in reversed(pending) if d not in readers]
        while pending:
            if not ready:  # only cycles are left: save one register, which frees it to be written
                d, (s, kind) = next(iter(pending.items()))
                saved = self.temp(kind)
                self.emit(f"mov.{kind} {saved}, {d};")
                pending = {to: (saved if source == d else source, k) for to, (source, k) in pending.items()}
                readers[saved] = readers.pop(d)
                ready.append(d)
            d = ready.pop()
            s, kind = pending.pop(d)
            self.emit(f"mov.{kind} {d}, {s};")
            readers[s] -= 1
            if not readers[s] and s in pending:
                ready.append(s)

    # Between the forms ---------------------------------------------------------------------------------------------

    def _unpack(self, words: list[str], dtype: DType) -> list[str]:
        elements = self.registers.many("b16", len(words) * per_word(dtype))
        if dtype.bits == 16:
            for n, word in enumerate(words):
                self.emit(f"mov.b32 {braces(elements[2 * n : 2 * n + 2])}, {word};")
            return elements
        for n, element in enumerate(elements):
            self.emit(f"cvt.u16.u32 {element}, {self.byte(words[n // 4], n % 4, dtype)};")
        return elements

    def byte(self, word: str, number: int, dtype: DType) -> str:
        """Byte `number` of a word, sign- or zero-extended to 32 bits."""
        wide = self.temp("b32")
        sign = "s" if dtype.kind == "int" else "u"
        self.emit(f"bfe.{sign}32 {wide}, {word}, {8 * number}, 8;")
        return wide

    def pack(self, words: list[str], elements: list[str], dtype: DType) -> None:
        """Elements (16-bit registers or literals) into words."""
        n = per_word(dtype)
        for i, word in enumerate(words):
            group = elements[i * n : i * n + n]
            if not any(is_register(e) for e in group):
                mask = (1 << dtype.bits) - 1
                bits = sum((int(e, 0) & mask) << (dtype.bits * k) for k, e in enumerate(group))
                self.emit(f"mov.b32 {word}, 0x{bits:08X};")
            elif n == 2:
                self.emit(f"mov.b32 {word}, {braces([self.register(e, 'b16') for e in group])};")
            else:
                wide = [self.widen(e) for e in group]
                self.pack_bytes(word, wide)

    def widen(self, element: str) -> str:
        """A 16-bit register as a 32-bit one; literals stay."""
        if not is_register(element):
            return element
        wide = self.temp("b32")
        self.emit(f"cvt.u32.u16 {wide}, {element};")
        return wide

    def pack_bytes(self, word: str, wide: list[str]) -> None:
        """The low bytes of four 32-bit operands into a word."""
        low, high = self.temp("b32"), self.temp("b32")
        self.emit(f"prmt.b32 {low}, {wide[0]}, {wide[1]}, 0x0040;")
        self.emit(f"prmt.b32 {high}, {wide[2]}, {wide[3]}, 0x0040;")
        self.emit(f"prmt.b32 {word}, {low}, {high}, 0x5410;")

    # Guards --------------------------------------------------------------------------------------------------------

    def guards(self, predicate: Value | None, predicate_of: tuple[int, ...], count: int) -> list[str | None]:
        """For each of `count` accesses: "" (always), "@%p " or None (never)."""
        if predicate is None:
            return [""] * count
        each = [f"@{p} " if is_register(p) else (None if p == FALSE else "") for p in self.elements(predicate)]
        if predicate_of:
            return [each[n] for n in predicate_of]
        return each * count if len(each) == 1 else each
