"""Spelling of LLVM IR: types, literals, names, debug locations.

Sources: LLVM Language Reference Manual, "Simple Constants" (floating-point literals in hexadecimal), "Debug Info".
"""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import numpy as np

from minitile.ir.diagnostics import Location
from minitile.ir.types import DType

# What LLVM 22's target machine of gfx942 and gfx950 says. Without it LDS has 64-bit addresses when the text is read,
# and 32-bit ones when code is made: what was said of an address's bits then ends LLVM's process.
DATA_LAYOUT = (
    "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-"
    "p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-"
    "n32:64-S32-A5-G1-ni:7:8:9"
)
_TYPES = {"f64": "double", "f32": "float", "f16": "half", "bf16": "bfloat", "bool": "i1"}
GLOBAL, LDS, PRIVATE = 1, 3, 5  # address spaces
SPACES = {"global": GLOBAL, "shared": LDS, "local": PRIVATE}


def scalar_type(dtype: DType) -> str:
    """The type of one element in a register; fp8 is its bits."""
    return _TYPES.get(dtype.name, f"i{dtype.bits}")


def memory_type(dtype: DType) -> str:
    """The type of one element in memory, where a bool is a byte."""
    return "i8" if dtype.kind == "bool" else scalar_type(dtype)


def vector(element: str, count: int) -> str:
    return element if count == 1 else f"<{count} x {element}>"


def type_of(dtype: DType, width: int) -> str:
    """The type of `width` elements. Four elements of 8 bits are an i32."""
    if dtype.bits == 8 and dtype.kind != "bool" and width > 1:
        return vector("i32", width // 4) if width % 4 == 0 else "i16"
    return vector(scalar_type(dtype), width)


def literal(value: bool | int | float, dtype: DType) -> str:
    """A constant of one element."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if not dtype.is_float:
        number = int(value) & ((1 << dtype.bits) - 1)
        return str(number - (1 << dtype.bits) if number >> (dtype.bits - 1) else number)
    with np.errstate(over="ignore", invalid="ignore"):
        held: Any = np.asarray(value, dtype.numpy)
    if dtype.bits == 8:
        return str(int(held.view(np.int8)))
    if dtype.bits == 16:
        bits = int(held.view(np.uint16))
        return f"0x{'H' if dtype.name == 'f16' else 'R'}{bits:04X}"
    double = float(held)
    if math.isfinite(double) and double == int(double) and abs(double) < 1e6 and math.copysign(1, double) > 0:
        return f"{double:.1f}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', double))[0]:016X}"


def is_literal(operand: str) -> bool:
    return operand[0] not in "%@<"


def identifier(name: str, default: str) -> str:
    """The name as LLVM takes it without quotes, and as an assembler symbol."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name) or default


class DebugLocations:
    """`!dbg` attachments. Only `.loc` directives come of them (DebugDirectivesOnly), no DWARF sections."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.nodes: list[str] = []
        self.files: dict[str, int] = {}
        self.known: dict[tuple[str, int, int], str] = {}
        self.subprogram = -1
        self.unit = -1
        self.own_file = ""

    def node(self, text: str) -> int:
        self.nodes.append(f"!{self.next} = {text}")
        self.next += 1
        return self.next - 1

    def file(self, path: str) -> int:
        if path not in self.files:
            name = path.replace("\\", "\\5C").replace('"', "\\22")
            self.files[path] = self.node(f'!DIFile(filename: "{name}", directory: "")')
        return self.files[path]

    def start(self, loc: Location, name: str) -> None:
        """The function's own file and line."""
        self.own_file = loc.file
        file = self.file(loc.file)
        kind = self.node("!DISubroutineType(types: !{null})")
        self.unit = self.node(
            f'distinct !DICompileUnit(language: DW_LANG_C, file: !{file}, producer: "minitile", isOptimized: true, '
            "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        self.subprogram = self.node(
            f'distinct !DISubprogram(name: "{name}", scope: !{file}, file: !{file}, line: {loc.line}, type: !{kind}, '
            f"scopeLine: {loc.line}, spFlags: DISPFlagDefinition, unit: !{self.unit})"
        )

    def of(self, loc: Location | None, name: str) -> str:
        """The attachment, with a comma before it; empty where the place is not known."""
        if loc is None:
            return ""
        if self.subprogram < 0:
            self.start(loc, name)
        key = (loc.file, loc.line, loc.column)
        if key not in self.known:
            scope = self.subprogram
            if loc.file != self.own_file:
                scope = self.scope_in(loc.file)
            number = self.node(f"!DILocation(line: {loc.line}, column: {loc.column + 1}, scope: !{scope})")
            self.known[key] = f", !dbg !{number}"
        return self.known[key]

    def scope_in(self, path: str) -> int:
        """Code of the kernel that stands in another file: a helper's."""
        key = (path, -1, -1)
        if key not in self.known:
            number = self.node(
                f"!DILexicalBlockFile(scope: !{self.subprogram}, file: !{self.file(path)}, discriminator: 0)"
            )
            self.known[key] = str(number)
        return int(self.known[key])
