"""Reads IR text: what `printer.py` writes, and what a person writes in that style.

An operation's operands begin on its line, otherwise lines break freely; `//` and `;` start comments. Result types may
be left out where the operation infers them; an operation may also be a constant's own line. A name may be used again in
a block that does not see its first use. A constant written as an operand becomes a `constant` operation before its
user, one per block and number.

Every operation gets the location that its `loc(…)` says, or else its place in the text, so that whatever is found wrong
later can show it. Errors are IRErrors with line, column and caret.
"""

from __future__ import annotations

import dataclasses
import json
import linecache
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import minitile.ir.ops  # noqa: F401  (fills Op.registry)
from minitile.ir.attributes import wrong
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import IRError, Location
from minitile.ir.limits import (
    MAX_ARGUMENTS,
    MAX_ELEMENTS,
    MAX_NESTING,
    MAX_NUMBER,
    MAX_OPERATIONS,
    MAX_TEXT,
    elements,
    integer,
)
from minitile.ir.ops.arith import Constant
from minitile.ir.origin import Origin
from minitile.ir.type_parser import parse_angle, parse_type
from minitile.ir.types import DTYPES, DType, Type, bool_, f32, i32

_NUMBER = r"-?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+|inf\b|nan\b)|true\b|false\b"
_TOKEN = re.compile(
    rf"""(?P<skip>\s+|//[^\n]*|;[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>(?:{_NUMBER})(?::(?:{"|".join(DTYPES)})\b)?)
    |(?P<value>%\w+)
    |(?P<symbol>@[\w.]+)
    |(?P<angle>[A-Za-z_]\w*<)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>\.\.|[()\[\]{{}},:=*])""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False}


class Token(NamedTuple):
    """`kind` is a group of _TOKEN's or "end"; `start` and `stop` count characters from the text's beginning."""

    kind: str
    text: str
    start: int
    stop: int


class Piece(NamedTuple):
    """An operand as written: a value, or several in brackets; `name` of an optional one."""

    token: Token
    name: str
    values: Value | tuple[Value, ...]


def parse_kernel(text: str, file: str = "<ir>") -> Kernel:
    """The kernel that the text describes. `file` is what locations name. Raises IRError."""
    if len(text) > MAX_TEXT:
        raise IRError(f"{file}: a text of {len(text)} characters; there may be {MAX_TEXT}")
    parser = _Parser(text, file)
    kernel = parser.kernel()
    parser.take("end", "the end of the text")
    return kernel


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
        # So that a location can show its line although there may be no such file.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        self.names: dict[str, Value] = {}
        self.block = Block()
        self.constants: dict[tuple[str, DType], Value] = {}
        self.regions = self.brackets = self.count = 0
        self.tokens = self.tokenize()
        self.at = 0

    # Tokens and places ----------------------------------------------------------------------------------------------

    def tokenize(self) -> list[Token]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self.error(f"unexpected {self.text[at]!r}", Token("", "", at, at + 1))
            kind, stop = str(match.lastgroup), match.end()
            if kind == "angle":
                stop = self.close(match.start(), stop)
            if kind != "skip":
                tokens.append(Token(kind, self.text[at:stop], at, stop))
            if kind == "number" and stop - at > MAX_NUMBER:
                message = f"a number of {stop - at} characters; there may be {MAX_NUMBER}"
                raise self.error(message, Token(kind, "", at, at + 1))
            at = stop
        return [*tokens, Token("end", "the end of the text", at, at)]

    def close(self, start: int, at: int) -> int:
        """Behind the `>` that closes the `<` before `at`."""
        depth = 1
        for match in re.compile(r"[<>\n]").finditer(self.text, at):
            if match[0] == "\n":
                break
            depth += 1 if match[0] == "<" else -1
            if depth > MAX_NESTING:
                break
            if depth == 0:
                return match.end()
        if depth > MAX_NESTING:
            raise self.error(f"more than {MAX_NESTING} '<' within one another", Token("", "", start, at))
        raise self.error("'<' without its '>' on the same line", Token("", "", start, at))

    def place(self, token: Token) -> Location:
        line = bisect_right(self.line_starts, token.start)
        start = self.line_starts[line - 1]
        return Location(self.file, line, token.start - start, token.stop - start)

    def error(self, message: str, token: Token | None = None, hint: str = "") -> IRError:
        return IRError(message, self.place(token or self.tokens[self.at]), hint)

    def peek(self, text: str, ahead: int = 0) -> bool:
        i = self.at + ahead
        return i < len(self.tokens) and self.tokens[i].text == text and self.tokens[i].kind != "string"

    def accept(self, text: str) -> bool:
        found = self.peek(text)
        self.at += found
        return found

    def expect(self, text: str) -> Token:
        if not self.peek(text):
            raise self.error(f"expected '{text}', found {self.tokens[self.at].text}")
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, kind: str, what: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise self.error(f"expected {what}, found {token.text}")
        self.at += 1
        return token

    def listed(self, item: Callable[[], None], close: str) -> None:
        """Items with commas between (and perhaps behind), up to and with `close`."""
        self.brackets += 1
        if self.brackets > MAX_NESTING:
            raise self.error(f"more than {MAX_NESTING} brackets within one another")
        self.items(item, close)
        self.brackets -= 1

    def items(self, item: Callable[[], None], close: str) -> None:
        count = 0
        while not self.accept(close):
            item()
            count += 1
            if count > MAX_ELEMENTS:
                raise self.error(f"more than {MAX_ELEMENTS} elements")
            if not self.accept(","):
                self.expect(close)
                return

    # Kernels, blocks, operations ------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        stage = self.take("word", "the kernel's stage (traced, tile, thread)").text
        self.expect("kernel")
        name = self.take("symbol", "the kernel's @name").text[1:]
        self.expect("(")
        params = self.declared()
        dims: dict[str, Value] = {}
        if self.accept("dims"):
            self.expect("(")

            def dim() -> None:
                dim_name = self.take("word", "a dimension's name").text
                self.expect("=")
                dims[dim_name] = self.declare()

            self.listed(dim, ")")
        facts = self.attributes() if self.accept("facts") else {}
        attrs = self.attributes() if self.accept("attrs") else {}
        body = Block()
        self.operations(body)
        return Kernel(name, params, dims, body, facts, stage, attrs)

    def declared(self) -> tuple[Value, ...]:
        """`%a: i32, %b: f32)`"""
        values: list[Value] = []
        self.listed(lambda: values.append(self.declare()), ")")
        return self.some(values, "arguments")

    def some(self, values: list[Any], what: str) -> tuple[Any, ...]:
        """As many as there may be of anything that is written out."""
        if len(values) > MAX_ARGUMENTS:
            raise self.error(f"{len(values)} {what}; there may be {MAX_ARGUMENTS}")
        return tuple(values)

    def declare(self) -> Value:
        token = self.take("value", "a %name")
        self.expect(":")
        return self.define(token, Value(self.type()))

    def define(self, token: Token, value: Value) -> Value:
        name = token.text[1:]
        if name in self.names:
            raise self.error(f"%{name} is already defined", token)
        self.names[name] = value
        value.name = "" if name.isdigit() else name
        return value

    def operations(self, block: Block) -> None:
        """`{ … }` into the block; its arguments are already known by name."""
        self.expect("{")
        outer, self.block = self.block, block
        constants, self.constants = self.constants, {}
        while not self.accept("}"):
            self.operation()
        self.block, self.constants = outer, constants

    def operation(self) -> None:
        self.count += 1
        if self.count > MAX_OPERATIONS:
            raise self.error(f"more than {MAX_OPERATIONS} operations")
        first = self.tokens[self.at]
        result_names = self.result_names()
        head = self.take("word", "an operation")
        kind = Op.registry.get(head.text)
        if kind is None:
            raise self.error(f"there is no operation {head.text}", head)
        place = self.place(first._replace(stop=head.stop))
        fields: dict[str, Any] = self.distribute(kind, head, self.pieces())
        named = self.peek("{") and self.tokens[self.at + 1].kind == "word" and self.peek("=", 2)
        given = self.attributes() if named else {}
        fields.update(self.check_attributes(kind, head, given))
        types = self.types() if self.accept(":") else None
        for name in kind.region_fields:
            fields[name] = self.region(name)
        try:
            op = kind(**fields)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
            raise self.error(f"malformed {kind.mnemonic}: {e}", head) from e
        if types is not None:
            if len(types) != len(op.results):
                raise self.error(f"{kind.mnemonic} has {len(op.results)} results here, not {len(types)}", head)
            op.set_results(types)
        if len(result_names) != len(op.results):
            raise self.error(f"{kind.mnemonic} has {len(op.results)} results here, not {len(result_names)}", head)
        for token, value in zip(result_names, op.results, strict=True):
            self.define(token, value)
        op.loc = self.location() if self.accept("loc") else place
        if self.accept("why"):
            op.why = self.origin()
        self.block.ops.append(op)

    def result_names(self) -> list[Token]:
        """`%a, %b =`, if there is any."""
        names: list[Token] = []
        while self.tokens[self.at].kind == "value":
            names.append(self.take("value", "a result"))
            if not self.accept(","):
                self.expect("=")
        return names

    def region(self, name: str) -> Block:
        self.accept(name)
        self.regions += 1
        if self.regions > MAX_NESTING:
            raise self.error(f"more than {MAX_NESTING} regions within one another")
        names = self.names
        self.names = dict(names)
        block = Block(self.declared() if self.accept("(") else ())
        self.operations(block)
        self.names = names
        self.regions -= 1
        return block

    def location(self) -> Location:
        """`("file":line:column)`"""
        self.expect("(")
        found = self.source_place()
        self.expect(")")
        return found

    def source_place(self) -> Location:
        """`"file":line:column`"""
        file = self.string(self.take("string", "a file name"))
        self.expect(":")
        line = self.number()
        self.expect(":")
        return Location(file, line, self.number() - 1)

    def origin(self) -> Origin:
        """`("pass", "reason", ["file":line:column], [])`"""
        self.expect("(")
        name = self.string(self.take("string", "a pass"))
        self.expect(",")
        reason = self.string(self.take("string", "a reason"))
        sides: list[tuple[Location, ...]] = []
        for _ in range(2):
            self.expect(",")
            self.expect("[")
            found: list[Location] = []
            self.listed(lambda into=found: into.append(self.source_place()), "]")  # type: ignore[misc]
            sides.append(tuple(found))
        self.expect(")")
        return Origin(name, reason, sides[0], sides[1])

    # Operands -------------------------------------------------------------------------------------------------------

    def pieces(self) -> list[Piece]:
        """The operands as written, from the mnemonic's line on. A bracket may follow its neighbour without a comma."""
        found: list[Piece] = []
        if "\n" in self.text[self.tokens[self.at - 1].stop : self.tokens[self.at].start]:
            return found
        while True:
            token = self.tokens[self.at]
            name = ""
            if token.kind == "word" and self.peek("=", 1):
                name = token.text
                self.at += 2
            if self.accept("["):
                values: list[Value] = []
                self.listed(lambda into=values: into.append(self.operand()), "]")  # type: ignore[misc]
                found.append(Piece(token, name, self.some(values, "operands")))
            elif self.tokens[self.at].kind in ("value", "number"):
                found.append(Piece(token, name, self.operand()))
            elif found or name:
                raise self.error(f"expected an operand, found {self.tokens[self.at].text}")
            else:
                return found
            if not self.accept(",") and not self.peek("["):
                return found

    def operand(self) -> Value:
        token = self.tokens[self.at]
        if token.kind == "number":
            return self.constant()
        self.take("value", "an operand")
        value = self.names.get(token.text[1:])
        if value is None:
            raise self.error(f"{token.text} is not defined here", token)
        return value

    def constant(self) -> Value:
        token = self.take("number", "a constant")
        value, dtype = self.read(read_number, token)
        key = token.text, dtype
        if key not in self.constants:
            op = Constant(value, dtype)
            op.loc = self.place(token)
            self.block.ops.append(op)
            self.constants[key] = op.result
        return self.constants[key]

    def distribute(self, kind: type[Op], head: Token, pieces: list[Piece]) -> dict[str, Any]:
        """The pieces as the operand fields of an operation, in order."""
        fields = kind.operand_fields
        if len(fields) == 1 and fields[0][1] == "operands" and all(isinstance(p.values, Value) for p in pieces):
            return {fields[0][0]: tuple([p.values for p in pieces])}
        rest = pieces[::-1]
        found: dict[str, Any] = {}
        for name, mark in fields:
            piece = rest[-1] if rest else None
            if mark == "maybe":
                fits = piece is not None and piece.name == name
                found[name] = rest.pop().values if fits else None
            elif mark == "operands":
                fits = piece is not None and isinstance(piece.values, tuple) and not piece.name
                found[name] = rest.pop().values if fits else ()
            elif piece is None:
                raise self.error(f"{kind.mnemonic} lacks its operand '{name}'", head)
            elif piece.name or isinstance(piece.values, tuple):
                raise self.error(f"expected the operand '{name}' of {kind.mnemonic}", piece.token)
            else:
                found[name] = rest.pop().values
        if rest:
            wants = ", ".join(name for name, _ in fields) or "none"
            raise self.error(f"{kind.mnemonic} has no such operand", rest[-1].token, f"its operands are: {wants}")
        return found

    # Attributes and types -------------------------------------------------------------------------------------------

    def attributes(self) -> dict[str, Any]:
        """`{a = 1, b = "x"}`"""
        found: dict[str, Any] = {}

        def item() -> None:
            name = self.take("word", "an attribute's name").text
            self.expect("=")
            found[name] = self.attribute()

        self.expect("{")
        self.listed(item, "}")
        return found

    def check_attributes(self, kind: type[Op], head: Token, given: dict[str, Any]) -> dict[str, Any]:
        known = dict(kind.attr_fields)
        for name in given:
            if name not in known:
                hint = f"its attributes are: {', '.join(known)}" if known else "it has none"
                raise self.error(f"{kind.mnemonic} has no attribute '{name}'", head, hint)
        for name, value in given.items():
            if message := wrong(kind, name, value):
                raise self.error(message, head)
        for name, default in known.items():
            if name not in given and default is dataclasses.MISSING:
                raise self.error(f"{kind.mnemonic} lacks its attribute '{name}'", head)
        return given

    def attribute(self) -> Any:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "string":
            return self.string(token)
        if token.kind == "number" and ":" not in token.text:
            return self.read(read_number, token)[0]
        if token.kind == "angle":
            return self.read(parse_angle, token)
        if token.text == "none":
            return None
        if token.text == "token":
            return parse_type(token.text)
        if token.text in DTYPES:
            return DTYPES[token.text]
        if token.text == "(":
            values: list[Any] = []
            self.listed(lambda: self.element(values), ")")
            self.enough(elements(tuple(values)))
            return tuple(values)
        raise self.error(f"expected an attribute's value, found {token.text}", token)

    def element(self, into: list[Any]) -> None:
        """One of a tuple's elements, `0 * 128`, or the `.., 14` that continues `0, 2`."""
        if self.accept(".."):
            self.expect(",")
            last = self.number()
            if len(into) < 2 or not all(type(v) is int for v in into[-2:]):
                raise self.error("'..' continues the two numbers before it")
            start, step = into[-1], into[-1] - into[-2]
            if step == 0 or (last - start) % step or (last - start) // step < 0:
                raise self.error(f"{last} is not reached from {start} in steps of {step}", self.tokens[self.at - 1])
            self.enough(len(into) + (last - start) // step)
            into.extend(range(start + step, last + (1 if step > 0 else -1), step))
            return
        value = self.attribute()
        times = self.number() if self.accept("*") else 1
        self.enough(len(into) + times * elements(value))
        into.extend([value] * times)

    def enough(self, count: int) -> None:
        if count > MAX_ELEMENTS:
            raise self.error(f"a tuple of {count} elements; there may be {MAX_ELEMENTS}", self.tokens[self.at - 1])

    def string(self, token: Token) -> str:
        try:
            return str(json.loads(token.text))
        except ValueError as e:
            raise self.error(f"this string cannot be read: {e}", token) from e

    def number(self) -> int:
        token = self.take("number", "a number")
        value, _ = self.read(read_number, token)
        if type(value) is not int:
            raise self.error(f"expected an integer, found {token.text}", token)
        return value

    def types(self) -> tuple[Type, ...]:
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return tuple(found)

    def type(self) -> Type:
        token = self.tokens[self.at]
        if token.kind not in ("word", "angle"):
            raise self.error(f"expected a type, found {token.text}")
        self.at += 1
        found: Type = self.read(parse_type, token)
        return found

    def read(self, reader: Callable[[str], Any], token: Token) -> Any:
        try:
            return reader(token.text)
        except ValueError as e:
            raise self.error(str(e), token) from e


def read_number(text: str) -> tuple[bool | int | float, DType]:
    """`4`, `0.5`, `true`, `inf`, `4:i64` as a Python number and its dtype."""
    digits, _, suffix = text.partition(":")
    value: bool | int | float
    if digits in _WORDS:
        value, dtype = _WORDS[digits], bool_
    elif re.fullmatch(r"-?\d+", digits):
        value, dtype = integer(digits), i32
    else:
        value, dtype = float(digits), f32
    return value, DTYPES[suffix] if suffix else dtype
