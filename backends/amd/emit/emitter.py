"""What the emit_*.py files write through: lines of LLVM IR, and the values of thread IR in vectors of any width.

A value of `count` registers is known in one or several forms: form n is count / n SSA values of n elements each. An
operation defines its result in the form that comes naturally and asks for its operands in the form that it wants; the
emitter makes one of the other with extractelement, insertelement and shufflevector, which cost nothing where LLVM keeps
the parts in neighbouring registers. A form made in a branch or loop is forgotten behind it, where it does not dominate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from minitile.backends.amd.emit import intrinsics as table
from minitile.backends.amd.emit.llvm import DebugLocations, identifier, is_literal, scalar_type, type_of
from minitile.hardware import Target
from minitile.ir.core import Value
from minitile.ir.diagnostics import Location, TargetError
from minitile.ir.ops.thread import count_of
from minitile.ir.types import DType

Forms = dict[int, list[str]]
FIRST_NODE = 8  # metadata nodes below are the module's own (writer.py)


class Emitter:
    def __init__(self, target: Target, entry: str, phi_widths: dict[Value, int]) -> None:
        """`phi_widths`: the form in which a value is carried through loops and branches."""
        self.target = target
        self.entry = entry
        self.phi_widths = phi_widths
        self.symbols: dict[Value, str] = {}  # the pointer to the object that a tensor or buffer is (in)
        self.starts: dict[Value, int] = {}  # where a buffer begins in its object
        self.lines: list[str] = []
        self.label = "entry"
        self.declared: dict[str, str] = {}
        self.debug = DebugLocations(FIRST_NODE)
        self.scopes: list[dict[Value, Forms]] = [{}]
        self.splats: list[dict[tuple[Value, int], str]] = [{}]
        self.made: list[dict[Value, str]] = [{}]
        self.loc: Location | None = None
        self.attachment = ""
        self.comment = ""  # the origin of the operation at hand
        self.serial = 0
        self.specials: set[str] = set()
        self.shared_in_lanes: set[Value] = set()  # scalars that may lie in vector registers (uniform.py)
        self.filled_by_dma: set[Value] = set()  # buffers that LDS-DMA writes
        self.shares_global = True  # whether barriers order global memory as well

    # Lines ----------------------------------------------------------------------------------------------------------

    def at(self, loc: Location | None) -> None:
        """Lines from here on come from this place of the source."""
        if loc is not self.loc:
            self.loc = loc
            self.attachment = self.debug.of(loc, self.entry)

    def name(self, hint: str = "v") -> str:
        self.serial += 1
        return f"%{identifier(hint, 'v')}.{self.serial}"

    def do(self, instruction: str) -> None:
        """An instruction without a result; behind it where it comes from, if that is known."""
        self.lines.append(f"  {instruction}{self.attachment}{self.comment}")

    def let(self, expression: str, hint: str = "v") -> str:
        """The name of an instruction's result."""
        name = self.name(hint)
        self.lines.append(f"  {name} = {expression}{self.attachment}")
        return name

    def new_label(self, hint: str) -> str:
        self.serial += 1
        return f"{hint}.{self.serial}"

    def place(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def call(
        self, name: str, result: str, arguments: Sequence[tuple[str, ...]], hint: str = "v", more: str = ""
    ) -> str:
        """A call of an intrinsic of the table; arguments are (type, operand). "" for a result of type void."""
        types = [argument[0] for argument in arguments]
        if not table.allowed(name, self.target):
            raise TargetError(f"{self.target} has no {name}", self.loc)
        self.declared[name] = f"declare {result} @{name}({', '.join(types)})"
        text = f"call {result} @{name}({', '.join(f'{t} {x}' for t, x in arguments)}){more}"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text, hint)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region whose definitions are not seen behind it."""
        self.scopes.append({})
        self.splats.append({})
        self.made.append({})
        yield
        self.scopes.pop()
        self.splats.pop()
        self.made.pop()

    # Values ---------------------------------------------------------------------------------------------------------

    def define(self, value: Value, parts: Sequence[str], width: int = 1) -> None:
        """`value` is these `parts`, of `width` elements each."""
        assert len(parts) * width == count_of(value.type), (value, len(parts), width)
        self.scopes[-1].setdefault(value, {})[width] = list(parts)

    def forms(self, value: Value) -> Forms:
        found: Forms = {}
        for scope in self.scopes:
            found.update(scope.get(value, {}))
        assert found, f"{value} is used before its definition"
        return found

    def parts(self, value: Value, width: int = 1) -> list[str]:
        """The value in form `width`."""
        forms = self.forms(value)
        if width in forms:
            return forms[width]
        wider = [n for n in forms if n > width and n % width == 0]
        if wider and (width == 1 or not _is_bytes(value.dtype)):
            made = self.split(forms[min(wider)], value.dtype, min(wider), width)
        elif width == 1:
            made = self.split(forms[max(forms)], value.dtype, max(forms), 1)
        elif _is_bytes(value.dtype):
            made = self.join_bytes(value, forms, width)
        else:
            made = self.join(value, forms, width)
        self.define(value, made, width)
        return made

    def element(self, value: Value) -> str:
        """A scalar."""
        return self.parts(value)[0]

    def once(self, value: Value, make: Callable[[], str]) -> str:
        """What was made of a value here or in a region around, else what `make` gives."""
        for made in self.made:
            if value in made:
                return made[value]
        found = self.made[-1][value] = make()
        return found

    def spread(self, value: Value, count: int, width: int = 1) -> list[str]:
        """`count` parts of the value, in form `width`; a scalar goes with every element."""
        if count_of(value.type) == 1 and count * width > 1:
            return [self.splat(value, width)] * count
        return self.parts(value, width)

    def splat(self, value: Value, width: int) -> str:
        scalar = self.element(value)
        if width == 1:
            return scalar
        for scope in self.splats:
            if (value, width) in scope:
                return scope[value, width]
        made = self.splats[-1][value, width] = self.splat_of(scalar, value.dtype, width)
        return made

    def splat_of(self, scalar: str, dtype: DType, width: int) -> str:
        if _is_bytes(dtype):
            return self.vector_of_bytes([scalar] * width)
        if is_literal(scalar):
            return f"splat ({scalar_type(dtype)} {scalar})"
        kind, element = type_of(dtype, width), scalar_type(dtype)
        first = self.let(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.let(f"shufflevector {kind} {first}, {kind} poison, <{width} x i32> zeroinitializer")

    def split(self, parts: Sequence[str], dtype: DType, width: int, to: int) -> list[str]:
        """Parts of `width` elements as parts of `to`."""
        if _is_bytes(dtype):
            return [byte for part in parts for byte in self.bytes_of(part, width)]
        kind = type_of(dtype, width)
        made = []
        for part in parts:
            for start in range(0, width, to):
                if to == 1:
                    made.append(self.let(f"extractelement {kind} {part}, i64 {start}"))
                else:
                    mask = ", ".join(f"i32 {start + k}" for k in range(to))
                    made.append(self.let(f"shufflevector {kind} {part}, {kind} poison, <{to} x i32> <{mask}>"))
        return made

    def join(self, value: Value, forms: Forms, width: int) -> list[str]:
        dtype = value.dtype
        halves = [n for n in forms if 1 < n < width and width % n == 0 and (width // n) & (width // n - 1) == 0]
        if halves:
            parts, n = forms[max(halves)], max(halves)
            while n < width:
                kind, mask = type_of(dtype, n), ", ".join(f"i32 {k}" for k in range(2 * n))
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [self.let(f"shufflevector {kind} {a}, {kind} {b}, <{2 * n} x i32> <{mask}>") for a, b in pairs]
                n *= 2
            return parts
        elements = self.parts(value)
        return [self.vector_of(elements[i : i + width], dtype) for i in range(0, len(elements), width)]

    def vector_of(self, elements: Sequence[str], dtype: DType) -> str:
        """One vector of scalars."""
        width = len(elements)
        if width == 1:
            return elements[0]
        if _is_bytes(dtype):
            return self.vector_of_bytes(elements)
        element, kind = scalar_type(dtype), type_of(dtype, width)
        if all(map(is_literal, elements)):
            return f"<{', '.join(f'{element} {x}' for x in elements)}>"
        made = "poison"
        for n, x in enumerate(elements):
            made = self.let(f"insertelement {kind} {made}, {element} {x}, i64 {n}")
        return made

    # Elements of 8 bits, four to an i32 -----------------------------------------------------------------------------

    def words_of(self, part: str, width: int) -> list[str]:
        """The i32 words of a part of `width` bytes."""
        if width == 4:
            return [part]
        return [self.let(f"extractelement <{width // 4} x i32> {part}, i64 {n}") for n in range(width // 4)]

    def bytes_of(self, part: str, width: int) -> list[str]:
        if width == 2:
            high = self.let(f"lshr i16 {part}, 8")
            return [self.let(f"trunc i16 {x} to i8") for x in (part, high)]
        made = []
        for word in self.words_of(part, width):
            for shift in (0, 8, 16, 24):
                moved = self.let(f"lshr i32 {word}, {shift}") if shift else word
                made.append(self.let(f"trunc i32 {moved} to i8"))
        return made

    def vector_of_bytes(self, elements: Sequence[str]) -> str:
        if len(elements) == 2:
            low, high = (self.let(f"zext i8 {x} to i16") for x in elements)
            shifted = self.let(f"shl i16 {high}, 8")
            return self.let(f"or i16 {low}, {shifted}")
        words = [self.word_of_bytes(elements[i : i + 4]) for i in range(0, len(elements), 4)]
        return self.vector_of_words(words)

    def word_of_bytes(self, elements: Sequence[str]) -> str:
        if all(map(is_literal, elements)):
            return str(int.from_bytes(bytes(int(x) & 255 for x in elements), "little", signed=True))
        word = ""
        for n, x in enumerate(elements):
            wide = self.let(f"zext i8 {x} to i32")
            moved = self.let(f"shl i32 {wide}, {8 * n}") if n else wide
            word = self.let(f"or i32 {word}, {moved}") if word else moved
        return word

    def vector_of_words(self, words: Sequence[str]) -> str:
        if len(words) == 1:
            return words[0]
        made, kind = "poison", f"<{len(words)} x i32>"
        for n, word in enumerate(words):
            made = self.let(f"insertelement {kind} {made}, i32 {word}, i64 {n}")
        return made

    def join_bytes(self, value: Value, forms: Forms, width: int) -> list[str]:
        """From words where there are any, else from bytes; `width` is a multiple of 4, or 2."""
        whole = [n for n in forms if n % 4 == 0]
        if whole and width % 4 == 0:
            words = [word for part in forms[max(whole)] for word in self.words_of(part, max(whole))]
            step = width // 4
            return [self.vector_of_words(words[i : i + step]) for i in range(0, len(words), step)]
        elements = self.parts(value)
        return [self.vector_of_bytes(elements[i : i + width]) for i in range(0, len(elements), width)]

    # 32-bit words of any value --------------------------------------------------------------------------------------

    def words(self, value: Value) -> list[str] | None:
        """The registers as i32 words, None where the elements do not fill them."""
        dtype, count = value.dtype, count_of(value.type)
        if dtype.kind == "bool" or dtype.bits > 32 or count * dtype.bits % 32:
            return None
        parts = self.parts(value, 32 // dtype.bits)
        kind = type_of(dtype, 32 // dtype.bits)
        return parts if kind == "i32" else [self.let(f"bitcast {kind} {x} to i32") for x in parts]

    def define_words(self, value: Value, words: Sequence[str]) -> None:
        width = 32 // value.dtype.bits
        kind = type_of(value.dtype, width)
        made = words if kind == "i32" else [self.let(f"bitcast i32 {x} to {kind}") for x in words]
        self.define(value, made, width)

    def each(self, result: Value, operands: Sequence[Value], width: int, make: Callable[..., str]) -> None:
        """result = make(operands…) for each part of `width` elements."""
        count = count_of(result.type) // width
        sources = [self.spread(v, count, width) for v in operands]
        self.define(result, [make(*xs) for xs in zip(*sources, strict=True)], width)


def _is_bytes(dtype: DType) -> bool:
    return dtype.bits == 8 and dtype.kind != "bool"
