"""PTX text to `Module` (PTX ISA 8.0, chapters 4, 5, 11, 12).

The text is cut into statements first (a statement ends with ";", a directive such as .loc with its line, a label with
":", and braces stand alone), then each statement is split into tokens and parsed by hand. Only syntax is checked
here; what an opcode means is the business of the tables of instructions.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator

import numpy as np

from ..core.errors import SimulationError
from ..core.scalars import SIZES
from .forms import MAX_ALIGN, MAX_DEPTH, MAX_DIGITS, MAX_GLOBAL, MAX_ITEMS, MAX_REGISTERS, MAX_TEXT
from .syntax import (
    Address,
    Float,
    Function,
    Instruction,
    Integer,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Scope,
    Sink,
    Special,
    Symbol,
    Tuple,
    Variable,
    Vector,
)

_COMMENT = re.compile(r"//[^\n]*|/\*")
_SKIP = re.compile(r"\s+")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_LINE_DIRECTIVE = re.compile(r"\.(version|target|address_size|file|loc)\b[^\n]*")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_SECTION = re.compile(r"\.section\b[^{]*\{[^}]*\}")
_FUNCTION = re.compile(r"(?:\.(?:visible|weak|extern|common)\s+)*\.(entry|func)\b")
_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?|laneid|warpid|nwarpid"
    r"|cluster_ctarank|cluster_nctarank|is_explicit_cluster|smid|nsmid|gridid|lanemask_(?:eq|lt|le|gt|ge)|clock(?:64|_hi)?"
    r"|globaltimer(?:_lo|_hi)?|total_smem_size|dynamic_smem_size|aggr_smem_size|envreg\d+|pm\d)\Z"
)
_DIGITS = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_TOKEN = re.compile(
    r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?"
    r"|[A-Za-z_$%][\w$]*(?:::\w+)*(?:\.[\w]+)*|[\[\]{}()|!+\-,=<>*]|\.\w+|\"[^\"]*\""
)


@functools.lru_cache(maxsize=32)
def parse_module(text: str) -> Module:
    """Parse a whole PTX text. The result is shared between calls: treat it as read-only."""
    if len(text) > MAX_TEXT:
        raise SimulationError(f"a text of {len(text)} characters; there may be {MAX_TEXT}")
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.text = _without_comments(text)
        self.at = 0
        self.line = 1
        self.counted = 0
        # .file may stand behind the .loc that uses it.
        self.files = {match.group(1): match.group(2) for match in _FILE.finditer(self.text)}
        self.slots = 0
        self.source: str | None = None
        self.version = self.target = ""
        self.root = Scope()
        self.functions: dict[str, Function] = {}
        self.variables: list[Variable] = []

    # -- cutting the text ------------------------------------------------------------------------------------------

    def fail(self, message: str, line: int | None = None) -> SimulationError:
        line = self.line if line is None else line
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return SimulationError(message, line, text)

    def skip(self) -> bool:
        """Move to the next character that is not white space; False at the end of the text."""
        match = _SKIP.match(self.text, self.at)
        if match:
            self.at = match.end()
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.at < len(self.text)

    def accept(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def until(self, stop: str) -> str:
        """The text up to the next `stop`, which is consumed."""
        end = self.text.find(stop, self.at)
        if end < 0:
            raise self.fail(f"expected {stop!r} before the end of the text")
        taken = self.text[self.at : end]
        self.at = end + len(stop)
        return taken

    # -- module level ----------------------------------------------------------------------------------------------

    def module(self) -> Module:
        while self.skip():
            if directive := self.accept(_LINE_DIRECTIVE):
                self.line_directive(directive.group())
            elif self.accept(_SECTION):
                continue
            elif header := self.accept(_FUNCTION):
                self.function(header.group(1) == "entry")
            elif self.text[self.at] == ".":
                statement = self.until(";")
                if not statement.startswith((".pragma", ".alias")):
                    self.declare(statement, self.root, None)
            else:
                raise self.fail("expected a directive")
        return Module(self.version, self.target, self.lines, self.functions, self.variables, self.slots)

    def line_directive(self, text: str) -> None:
        words = text.split(None, 1)
        rest = words[1].strip() if len(words) > 1 else ""
        if words[0] == ".version":
            self.version = rest
        elif words[0] == ".target":
            self.target = rest
        elif words[0] == ".loc":
            words = rest.replace(",", " ").split()[:2]
            if len(words) < 2:
                raise self.fail(".loc names a file and a line")
            self.source = f"{self.files.get(words[0], '?')}:{words[1]}"

    def function(self, entry: bool) -> None:
        self.skip()
        results = self.parameters() if self.text.startswith("(", self.at) else []
        self.skip()
        name = self.accept(re.compile(r"[\w$%]+"))
        if name is None:
            raise self.fail("expected a function name")
        self.skip()
        params = self.parameters() if self.text.startswith("(", self.at) else []
        function = Function(name.group(), entry, params, results, Scope(self.root))
        function.scope.names.update({param.name: param for param in (*params, *results)})
        header = re.compile(r"[^{;]*")
        match = self.accept(header)
        for limit in re.finditer(r"\.(\w+)\s+([\d\s,]+)", match.group() if match else ""):
            words = limit.group(2).replace(",", " ").split()
            function.limits[limit.group(1)] = tuple(self.integer(word, 1, 1 << 31) for word in words)
        if self.text[self.at : self.at + 1] == ";":
            self.at += 1
            self.functions.setdefault(function.name, function)
            return
        self.at += 1
        self.functions[function.name] = function
        self.body(function)

    def parameters(self) -> list[Variable]:
        self.at += 1
        inside = self.until(")")
        scope = Scope()
        return [self.variable(text, scope) for text in inside.split(",") if text.strip()]

    # -- function bodies -------------------------------------------------------------------------------------------

    def body(self, function: Function) -> None:
        scope = function.scope
        self.source = None
        depth = 1
        while depth:
            if not self.skip():
                raise self.fail(f"function {function.name} has no closing brace")
            char = self.text[self.at]
            if char == "{":
                self.at += 1
                depth += 1
                scope = Scope(scope)
            elif char == "}":
                self.at += 1
                depth -= 1
                scope = scope.parent or scope
            elif directive := self.accept(_LINE_DIRECTIVE):
                self.line_directive(directive.group())
            elif label := self.accept(_LABEL):
                self.label(label.group(1), scope, function)
            elif char == ".":
                statement = self.until(";")
                if not statement.startswith(".pragma"):
                    self.declare(statement, scope, function)
            else:
                line = self.line
                function.body.append(self.instruction(self.until(";"), line, scope))

    def label(self, name: str, scope: Scope, function: Function) -> None:
        self.skip()
        if self.accept(re.compile(r"\.branchtargets\b")):
            function.targets[name] = tuple(Symbol(word.strip()) for word in self.until(";").split(","))
        elif self.accept(re.compile(r"\.callprototype\b")):
            self.until(";")
        elif name in scope.names:
            raise self.fail(f"label {name} is declared twice")
        else:
            scope.names[name] = len(function.body)

    def declare(self, statement: str, scope: Scope, function: Function | None) -> None:
        if re.match(r"\.reg\b", statement):
            if function is None:
                raise self.fail("registers can be declared in functions only")
            self.registers(statement, scope, function)
            return
        for text in _split_declarators(statement):
            variable = self.variable(text, scope)
            scope.names[variable.name] = variable
            (self.variables if function is None else function.variables).append(variable)

    def registers(self, statement: str, scope: Scope, function: Function) -> None:
        match = re.match(r"\.reg\s*(?:\.(v[24])\s*)?\.(\w+)\s+(.*)\Z", statement, re.S)
        if match is None or match.group(1):
            raise self.fail(f"cannot read this register declaration: {statement.strip()}")
        kind = match.group(2)
        if kind not in SIZES:
            raise self.fail(f"unknown register type .{kind}")
        for name in match.group(3).split(","):
            ranged = re.match(r"\s*([\w$%]+)\s*<\s*(\d+)\s*>\s*\Z", name)
            count = self.integer(ranged.group(2), 0, MAX_REGISTERS) if ranged else 1
            if self.slots + count > MAX_REGISTERS:
                raise self.fail(f"more than {MAX_REGISTERS} registers")
            names = [f"{ranged.group(1)}{i}" for i in range(count)] if ranged else [name.strip()]
            for each in names:
                register = Register(each, self.slots, kind)
                self.slots += 1
                function.registers.append(register)
                scope.names[each] = register

    def variable(self, text: str, scope: Scope) -> Variable:
        """Parse one declarator such as `.visible .shared .align 16 .b8 tile[1024]` or `.param .u64 p`."""
        declaration, _, initial = text.partition("=")
        match = re.match(r"\s*((?:\.\w+\s*(?:\d+\s+)?)+)(?<=\s)([\w$%]+)\s*((?:\[[^\]]*\]\s*)*)\Z", declaration)
        if match is None:
            raise self.fail(f"cannot read this declaration: {text.strip()}")
        words = re.findall(r"\.\w+|\d+", match.group(1))
        name, dims = match.group(2), re.findall(r"\[([^\]]*)\]", match.group(3))
        elem = next((word[1:] for word in reversed(words) if word[1:] in SIZES), None)
        if elem is None:
            raise self.fail(f"unknown type in this declaration: {text.strip()}")
        space = next((w[1:] for w in words if w in (".param", ".shared", ".global", ".const", ".local")), "")
        if not space:
            raise self.fail(f"a variable has a state space other than .reg: {text.strip()}")
        lanes = next((int(w[2:]) for w in words if w in (".v2", ".v4")), 1)
        unit = SIZES[elem] * lanes
        align = self.alignment(words) if ".align" in words else unit
        open_ended = any(not dim.strip() for dim in dims)
        count = 1
        for dim in dims:
            count *= self.integer(dim.strip(), 0, MAX_GLOBAL) if dim.strip() else 1
        if count > MAX_GLOBAL:
            raise self.fail(f"{name} has {count} elements; there may be {MAX_GLOBAL}")
        data, pointers = self.initial(initial, elem, scope)
        size = len(data) if open_ended and data else unit * count
        extern = ".extern" in words or (open_ended and not data)
        return Variable(name, space, align, 0 if extern and open_ended else size, elem, data, pointers, extern)

    def alignment(self, words: list[str]) -> int:
        """What stands behind .align."""
        behind = words[words.index(".align") + 1 :]
        align = self.integer(behind[0], 1, MAX_ALIGN) if behind else 0
        if align < 1 or align & (align - 1):
            raise self.fail(f".align takes a power of two up to {MAX_ALIGN}")
        return align

    def integer(self, text: str, least: int, most: int) -> int:
        """A number of a declaration."""
        match = _DIGITS.fullmatch(text) if len(text) <= MAX_DIGITS else None
        if match is None or not least <= int(text, 16 if text[:2] in ("0x", "0X") else 10) <= most:
            raise self.fail(f"{text[:MAX_DIGITS]!r} is no number from {least} to {most}")
        return int(text, 16 if text[:2] in ("0x", "0X") else 10)

    def initial(self, text: str, elem: str, scope: Scope) -> tuple[bytes, tuple[tuple[int, Symbol], ...]]:
        """The bytes of an initialiser, flattened, and the symbols whose addresses go into them."""
        data, pointers = bytearray(), []
        for word in re.sub(r"[{}]", " ", text).split(","):
            word = word.strip()
            if not word:
                continue
            (value, *more) = self.operands(word, scope) or (None,)
            if more:
                raise self.fail(f"cannot read the initial value {word}")
            if isinstance(value, Float):
                data += np.array(value.value, "<f8" if elem == "f64" else "<f4").tobytes()
            elif isinstance(value, Integer):
                size = SIZES[elem]
                data += (value.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            elif isinstance(value, Symbol):
                pointers.append((len(data), value))
                data += bytes(SIZES[elem])
            else:
                raise self.fail(f"cannot read the initial value {word}")
        return bytes(data), tuple(pointers)

    # -- instructions ----------------------------------------------------------------------------------------------

    def instruction(self, statement: str, line: int, scope: Scope) -> Instruction:
        text = " ".join(statement.split())
        rest = text
        guard: Register | None = None
        negated = False
        if rest.startswith("@"):
            match = re.match(r"@(!?)\s*([\w$%]+)\s+(.*)\Z", rest)
            if match is None:
                raise self.fail("cannot read this guard", line)
            negated = match.group(1) == "!"
            found = scope.find(match.group(2))
            if not isinstance(found, Register) or found.kind != "pred":
                raise self.fail(f"{match.group(2)} is not a predicate register", line)
            guard, rest = found, match.group(3)
        opcode, _, operands = rest.partition(" ")
        parts = opcode.split(".")
        if not parts[0].isidentifier():
            raise self.fail(f"cannot read the opcode {opcode!r}", line)
        parsed = self.operands(operands, scope, line) if operands else ()
        return Instruction(parts[0], tuple(parts[1:]), parsed, guard, negated, line, text, self.source, scope)

    def operands(self, text: str, scope: Scope, line: int | None = None) -> tuple[Operand, ...]:
        tokens = _TOKEN.findall(text)
        if "".join(tokens) != "".join(text.split()) and '"' not in text:
            raise self.fail(f"cannot read the operands {text!r}", line)
        reader = _OperandReader(tokens, scope)
        try:
            return reader.list_until(_END)
        except ValueError as error:
            raise self.fail(f"cannot read the operands {text[:200]!r}: {error}", line) from None


def _split_declarators(statement: str) -> Iterator[str]:
    """`.shared .b32 a, b[2]` declares two variables: yield each with the leading words."""
    if "=" in statement:
        yield statement
        return
    first, *others = statement.split(",")
    yield first
    match = re.match(r"\s*(?:\.\w+\s*(?:\d+\s+)?)+(?<=\s)", first)
    prefix = match.group() if match else ""
    for other in others:
        yield prefix + other


_END = ""  # behind the last token


class _OperandReader:
    """Recursive descent over the tokens of one operand list."""

    def __init__(self, tokens: list[str], scope: Scope) -> None:
        self.tokens = [*tokens, _END]
        self.scope = scope
        self.at = 0
        self.depth = 0

    def next(self) -> str:
        """The next token, which is taken; the end stays where it is."""
        token = self.tokens[self.at]
        self.at += token != _END
        return token

    def accept(self, wanted: str) -> bool:
        """Whether this token comes next, which is taken then."""
        found = self.tokens[self.at] == wanted
        self.at += found
        return found

    def list_until(self, close: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while self.tokens[self.at] not in (close, _END):
            items.append(self.operand())
            self.accept(",")
            if len(items) > MAX_ITEMS:
                raise ValueError(f"more than {MAX_ITEMS} operands")
        if self.next() != close:
            raise ValueError(f"expected {close}")
        return tuple(items)

    def operand(self) -> Operand:
        first = self.single()
        return Pair(first, self.single()) if self.accept("|") else first

    def single(self) -> Operand:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} brackets or signs within one another")
        found = self.one()
        self.depth -= 1
        return found

    def one(self) -> Operand:
        token = self.next()
        if token == _END:
            raise ValueError("an operand is missing")
        found = self.scope.find(token)
        if isinstance(found, Register):
            return found
        if token == "[":
            return self.address()
        if token == "{":
            return Vector(self.list_until("}"))
        if token == "(":
            items = self.list_until(")")
            return items[0] if len(items) == 1 and isinstance(items[0], Integer) else Tuple(items)
        if token == "!":
            inner = self.single()
            if not isinstance(inner, Register):
                raise ValueError("! needs a predicate")
            return Not(inner)
        if token == "-":
            value = self.single()
            if isinstance(value, Integer):
                return Integer(-value.value)
            if isinstance(value, Float):
                return Float(-value.value)
            raise ValueError("- needs a constant")
        if token[0].isdigit():
            return _number(token)
        if token == "_":
            return Sink()
        if _SPECIAL.match(token):
            return Special(token[1:])
        if token.startswith("%") and not isinstance(found, Variable):
            raise ValueError(f"{token} is not declared")
        return Symbol(token, self.offset())

    def offset(self) -> int:
        """An optional constant after a name: `+4`, `+-4`; ptxas refuses `-4`."""
        total = 0
        while self.accept("+"):
            sign = 1
            while self.tokens[self.at] in ("+", "-"):
                sign = -sign if self.next() == "-" else sign
            value = _number(self.next())
            if not isinstance(value, Integer):
                raise ValueError("an offset must be an integer")
            total += sign * value.value
        if not -(1 << 63) <= total < 1 << 63:
            raise ValueError(f"the offset {total} does not fit 64 bits")
        return total

    def address(self) -> Address:
        base = self.single()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        elif isinstance(base, Register) or (isinstance(base, Integer) and -(1 << 63) <= base.value < 1 << 63):
            offset = self.offset()
        else:
            raise ValueError("an address starts with a register, a symbol or a number")
        if self.accept("]"):
            return Address(base, offset)
        if not self.accept(","):
            raise ValueError("expected ]")
        return Address(base, offset, self.list_until("]"))


def _number(token: str) -> Integer | Float:
    """A constant (PTX ISA 8.0, 4.5): 0f/0d hexadecimal floats, decimal floats, integers with 0x or octal 0."""
    if len(token) > MAX_DIGITS:
        raise ValueError(f"a number of {len(token)} characters")
    lower = token.lower().rstrip("u")
    if lower.startswith("0f"):
        return Float(struct.unpack("<f", int(lower[2:], 16).to_bytes(4, "little"))[0])
    if lower.startswith("0d"):
        return Float(struct.unpack("<d", int(lower[2:], 16).to_bytes(8, "little"))[0])
    if lower.startswith("0x"):
        return _bounded(int(lower, 16))
    if "." in lower or "e" in lower:
        return Float(float(lower))
    return _bounded(int(lower, 8) if len(lower) > 1 and lower[0] == "0" else int(lower))


def _bounded(value: int) -> Integer:
    if value >= 1 << 64:
        raise ValueError(f"{value} does not fit 64 bits")
    return Integer(value)


def _without_comments(text: str) -> str:
    """The text with a blank, or as many line ends as it has, for each comment."""
    parts, at = [], 0
    while match := _COMMENT.search(text, at):
        end = match.end() if match.group() != "/*" else text.find("*/", match.end()) + 2
        if end < match.end():
            line = text.count("\n", 0, match.start()) + 1
            raise SimulationError("a comment without its end", line, text.splitlines()[line - 1])
        parts += [text[at : match.start()], "\n" * text.count("\n", match.start(), end) or " "]
        at = end
    return "".join([*parts, text[at:]])
