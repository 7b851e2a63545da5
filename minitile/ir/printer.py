"""IR as text. `parser.py` reads all of it back; printing what was parsed gives the same text.

    tile kernel @scale(%A: tensor<Nx64xf32>, %s: f32) dims(N = %N: i32) facts {N = 16} attrs {threads = 128} {
      %g = floordiv %N, 16 : i32
      launch %g, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
        %acc = for 0, %N, 1, [%z] {kind = "pipelined", stages = 4} : f32 (%k: i32, %c: f32) {
          %x = load %A[%k, 0], mask = %m {shape = (), dims = (none, none)} : f32
          yield %x
        }
        if %p then {
        } orelse {
        }
      }
    }

An operation's line follows from the marks of its class: results, mnemonic, operands in field order, attributes that
differ from their default, result types, regions.

operands    several in brackets, which hug the operand before them when they are its indices; an optional one as
            `name = %v`; an operation whose only field is `operands` lists them bare
constants   stand where they are used: `4` is i32, `0.5` f32, `true` bool, other dtypes are written `4:i64`. They have
            no lines of their own, so an unused constant is not shown
numbers     many in a tuple: `0 * 128` is 128 zeros, `0, 2, .., 14` goes on in equal steps
names       the user's, with a number where that is needed to tell values apart; `%0`, `%1` without one
regions     block arguments, then the operations; named when there are two
"""

from __future__ import annotations

import json
import re
from typing import Any

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops.arith import Constant
from minitile.ir.types import DType, bool_, f32, i32

_WORDS = {None: "none", True: "true", False: "false"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMPLIED = {int: i32, float: f32, bool: bool_}


def print_kernel(kernel: Kernel, locations: bool = False, origins: bool = False) -> str:
    """The kernel's text, ending in a newline; if asked for with `loc("file":line:column)` behind each operation, and
    with `why(…)` (origin.py), which `locations` asks for as well, behind those that are there for order."""
    return _Printer(locations, origins or locations).kernel(kernel)


def print_lines(kernel: Kernel) -> list[tuple[str, Op | None]]:
    """The lines of the kernel's text, each with the operation that it is of: the first and the last one are of none."""
    printer = _Printer(False)
    printer.kernel(kernel)
    return [(line.rstrip("\n"), op) for line, op in zip(printer.lines, printer.owners, strict=True)]


def find_line(kernel: Kernel, op: Op) -> tuple[str, int]:
    """The kernel's text and the number (from 1) of the line on which `op` stands; 1 if it has none."""
    printer = _Printer(False)
    text = printer.kernel(kernel)
    return text, printer.starts.get(op, 0) + 1


def print_op(op: Op, locations: bool = False) -> str:
    """One operation's text (with its regions), without a newline at the end."""
    printer = _Printer(locations)
    printer.op(op, "")
    return "\n".join(printer.lines)


def print_attribute(value: Any) -> str:
    """An attribute's value; types and layouts print themselves."""
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        parts = _runs(value) if all(type(v) is int for v in value) else list(map(print_attribute, value))
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    return str(value)


def _runs(numbers: tuple[int, ...]) -> list[str]:
    """The numbers, with runs of five or more shortened: `0 * 128` for equal ones, `0, 2, .., 14` for equal steps."""
    parts: list[str] = []
    at = 0
    while at < len(numbers):
        first = numbers[at]
        step = numbers[at + 1] - first if at + 1 < len(numbers) else 0
        end = at + 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        if end - at < 5:
            parts.append(str(first))
            at += 1
            continue
        parts += (
            [f"{first} * {end - at}"] if step == 0 else [f"{first}", f"{first + step}", "..", f"{numbers[end - 1]}"]
        )
        at = end
    return parts


def print_attributes(attributes: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name} = {print_attribute(value)}" for name, value in attributes.items()) + "}"


def print_constant(value: Any, dtype: DType) -> str:
    """A constant as an operand."""
    text = print_attribute(value)
    return text if _IMPLIED.get(type(value)) is dtype else f"{text}:{dtype}"


class _Printer:
    def __init__(self, locations: bool, origins: bool = False) -> None:
        self.locations, self.origins = locations, origins
        self.lines: list[str] = []
        self.owners: list[Op | None] = []  # of each line
        self.starts: dict[Op, int] = {}
        self.names: dict[Value, str] = {}
        # By name, how many times a number had to be put behind it.
        self.taken: dict[str, int] = {}
        self.unnamed = 0

    def line(self, text: str, op: Op | None) -> None:
        self.lines.append(text)
        self.owners.append(op)

    def name(self, value: Value) -> str:
        """The value's unique name, made when it is first asked for."""
        found = self.names.get(value)
        if found is None:
            found = self.names[value] = self.new_name(value.name)
        return found

    def new_name(self, hint: str) -> str:
        if not hint:
            self.unnamed += 1
            return f"%{self.unnamed - 1}"
        base = name = hint if _NAME.fullmatch(hint) else re.sub(r"\W|^(?=\d)", "_", hint, flags=re.ASCII)
        while name in self.taken:
            self.taken[base] += 1
            name = f"{base}_{self.taken[base]}"
        self.taken[name] = 0
        return f"%{name}"

    def use(self, value: Value) -> str:
        """A value as an operand."""
        op = value.owner
        return print_constant(op.value, op.dtype) if isinstance(op, Constant) else self.name(value)

    def kernel(self, kernel: Kernel) -> str:
        head = f"{kernel.stage} kernel @{kernel.name}({self.declare(kernel.params)})"
        if kernel.dims:
            dims = ", ".join(f"{name} = {self.declare((value,))}" for name, value in kernel.dims.items())
            head += f" dims({dims})"
        if kernel.facts:
            head += f" facts {print_attributes(kernel.facts)}"
        if kernel.attrs:
            head += f" attrs {print_attributes(kernel.attrs)}"
        self.line(head + " {", None)
        self.block(kernel.body, "  ")
        self.line("}\n", None)
        return "\n".join(self.lines)

    def declare(self, values: tuple[Value, ...]) -> str:
        return ", ".join(f"{self.name(v)}: {v.type}" for v in values)

    def block(self, block: Block, indent: str) -> None:
        for op in block.ops:
            if not isinstance(op, Constant):
                self.op(op, indent)

    def op(self, op: Op, indent: str) -> None:
        self.starts[op] = len(self.lines)
        # Operands before results, so that a lone operation's unnamed values count in reading order of its inputs.
        operands = self.operands(op)
        text = op.mnemonic
        if op.results:
            text = f"{', '.join(map(self.name, op.results))} = {text}"
        if operands:
            text += f" {operands}"
        attributes = changed_attributes(op)
        if attributes:
            text += f" {print_attributes(attributes)}"
        if op.results:
            text += f" : {', '.join(str(r.type) for r in op.results)}"
        for region_name in op.region_fields:
            block: Block = getattr(op, region_name)
            if len(op.region_fields) > 1:
                text += f" {region_name}"
            if block.args:
                text += f" ({self.declare(block.args)})"
            self.line(f"{indent}{text} {{", op)
            self.block(block, indent + "  ")
            text = "}"
        if self.locations and op.loc is not None:
            text += f" loc({json.dumps(op.loc.file)}:{op.loc.line}:{op.loc.column + 1})"
        if self.origins and op.why is not None:
            text += f" {op.why.text()}"
        self.line(indent + text, op)

    def operands(self, op: Op) -> str:
        fields = op.operand_fields
        if len(fields) == 1 and fields[0][1] == "operands":
            return ", ".join(map(self.use, getattr(op, fields[0][0])))
        text = ""
        for number, (name, mark) in enumerate(fields):
            value = getattr(op, name)
            separator = ", " if text else ""
            if mark == "operand":
                text += separator + self.use(value)
            elif mark == "maybe":
                text += f"{separator}{name} = {self.use(value)}" if value is not None else ""
            # Nothing at all stands for no operands, unless the next bracket would be taken for this one.
            elif value or (number + 1 < len(fields) and fields[number + 1][1] == "operands"):
                hugs = name.endswith("indices") and number > 0 and fields[number - 1][1] == "operand"
                text += ("" if hugs else separator) + f"[{', '.join(map(self.use, value))}]"
        return text


def changed_attributes(op: Op) -> dict[str, Any]:
    """The attributes that differ from their default."""
    changed = {}
    for name, default in op.attr_fields:
        value = getattr(op, name)
        if type(value) is not type(default) or value != default:
            changed[name] = value
    return changed
