"""PTX as text: register types, literals, names, addresses, and the lines of one kernel.

An operand is a `str`: a register (`%x`), a literal (`7`, `0f3F800000`) or a symbol (`smem`). `Registers` hands out the
registers of a kernel under readable names and prints their declarations; `Code` collects instructions, labels and
`.loc` lines; `PtxModule` is the finished text with what a launcher must know.

Sources: PTX ISA 8.3, 4.4 (identifiers), 4.5 (constants), 5.2 (types), 10 (special registers), 11.5.3 (`.file`),
11.5.4 (`.loc`).
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minitile.ir.diagnostics import Location
from minitile.ir.types import DType

# Element type -> (type of a register that holds one element, name stem of registers without a name of their own).
REGISTER = {
    "f64": ("f64", "fd"),
    "f32": ("f32", "f"),
    "i64": ("b64", "rd"),
    "u64": ("b64", "rd"),
    "i32": ("b32", "r"),
    "u32": ("b32", "r"),
    "bool": ("pred", "p"),
    **dict.fromkeys(("f16", "bf16", "i16", "u16", "i8", "u8"), ("b16", "h")),
    **dict.fromkeys(("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"), ("b16", "h")),
}
STEMS = {**dict(REGISTER.values()), "b128": "rq"}

# Element type -> the type an instruction names when the sign or the format matters.
PTX_TYPE = {
    "f64": "f64",
    "f32": "f32",
    "f16": "f16",
    "bf16": "bf16",
    "i64": "s64",
    "u64": "u64",
    "i32": "s32",
    "u32": "u32",
    "i16": "s16",
    "u16": "u16",
    "i8": "s8",
    "u8": "u8",
}

_SPECIAL = frozenset(
    {
        *("tid", "ntid", "laneid", "warpid", "nwarpid", "ctaid", "nctaid", "smid", "nsmid", "gridid"),
        *("clusterid", "nclusterid", "is_explicit_cluster", "clock", "clock_hi", "clock64", "current_graph_exec"),
        *("pm", "envreg"),  # with a number
    }
)
_SPECIAL_STEMS = ("cluster_", "lanemask_", "globaltimer", "reserved_smem_", "total_smem_", "dynamic_smem_", "aggr_")

TRUE, FALSE = "1", "0"


def literal(value: bool | int | float, dtype: DType) -> str:
    """A constant as an operand: decimal integers, floats by their bits (16- and 8-bit floats as plain integers)."""
    if dtype.kind == "bool":
        return TRUE if value else FALSE
    if dtype.is_int:
        return str(int(value))
    if dtype.name == "f64":
        return f"0d{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    with np.errstate(over="ignore"):
        bits = int(np.asarray(value, dtype.numpy).view(f"u{dtype.bytes}"))
    return f"0f{bits:08X}" if dtype.name == "f32" else f"0x{bits:0{dtype.bytes * 2}X}"


def is_register(operand: str) -> bool:
    return operand[0] == "%"


# A constant where an instruction reads a predicate: as the guard of a line, of selp (the last operand), of setp that
# combines, of logic on predicates. (`mov.pred` makes a register of one.)
_CONSTANT_PREDICATE = re.compile(
    r"@(?!!?%)|(?:@!?%\S+ )?(?:"
    r"selp\.\S+ .*, (?!%)\S+;"
    r"|setp\.\w+\.(?:and|or|xor)\..*, (?!!?%)\S+;"
    r"|(?:and|or|xor|not)\.pred [^,]+, (?:(?!%)|\S+, (?!%))"
    r")"
)


def reads_constant_predicate(line: str) -> bool:
    """Whether a predicate operand is a constant: a guard must be a register, or there is no such PTX (9.3)."""
    return _CONSTANT_PREDICATE.match(line) is not None


def at(base: str, offset: int) -> str:
    """The address operand base + offset bytes: `[r+-8]` where that is negative (ptxas refuses `[r-8]`)."""
    return f"[{base}+{offset}]" if offset else f"[{base}]"


def braces(operands: list[str]) -> str:
    """A vector operand; one operand stands alone."""
    return operands[0] if len(operands) == 1 else "{" + ", ".join(operands) + "}"


def identifier(name: str, otherwise: str = "v") -> str:
    """A user's name as a PTX identifier; characters that PTX has not become underscores."""
    plain = (
        name
        if name.isascii() and name.isidentifier()
        else "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    )
    if not plain.strip("_"):
        return otherwise
    return plain if plain[0].isalpha() else otherwise + "_" + plain.lstrip("_")


class Registers:
    """The registers of one kernel.

    A named value gets `%name`, a named vector `%name0` to `%name<count-1>`; unnamed ones come from a pool for each
    register type (`%r`, `%f`, …). No two values get the same name, and none a special register's.
    """

    def __init__(self) -> None:
        self.pools: dict[str, int] = dict.fromkeys(STEMS, 0)
        self.named: list[tuple[str, str]] = []  # (register type, name as declared)
        self.scalars: set[str] = set()
        self.numbered: set[str] = set()  # what is before the digits in the names of scalars that end in digits
        self.vectors: set[str] = set(STEMS.values())
        self.tried: dict[tuple[str, str], int] = {}  # how far `_free` has come with a name

    def one(self, register_type: str, name: str = "") -> str:
        if not name:
            number = self.pools[register_type]
            self.pools[register_type] = number + 1
            return f"%{STEMS[register_type]}{number}"
        name = self._free(name, self._scalar_taken)
        self.scalars.add(name)
        if name[-1].isdigit():
            self.numbered.add(name.rstrip("0123456789"))
        self.named.append((register_type, name))
        return "%" + name

    def many(self, register_type: str, count: int, name: str = "") -> list[str]:
        if count == 1:
            return [self.one(register_type, name)]
        if not name:
            first = self.pools[register_type]
            self.pools[register_type] = first + count
            stem = STEMS[register_type]
            return [f"%{stem}{n}" for n in range(first, first + count)]
        name = self._free(name, self._vector_taken)
        self.vectors.add(name)
        self.named.append((register_type, f"{name}<{count}>"))
        return [f"%{name}{n}" for n in range(count)]

    def _scalar_taken(self, name: str) -> bool:
        return name in self.scalars or name in self.vectors or name.rstrip("0123456789") in self.vectors

    def _vector_taken(self, name: str) -> bool:
        return name[-1].isdigit() or name in self.scalars or name in self.vectors or name in self.numbered

    def _free(self, name: str, taken: Callable[[str], bool]) -> str:
        """The name, or `name_1`, `name_2`, … (`name_1_` for a vector, whose own digits follow)."""
        name = identifier(name)
        stem = name.rstrip("0123456789")
        if not (taken(name) or name in _SPECIAL or stem in _SPECIAL or stem.startswith(_SPECIAL_STEMS)):
            return name
        # What is taken stays taken: the search goes on where it ended for this name.
        for number in itertools.count(self.tried.get((name, taken.__name__), 1)):
            for candidate in (f"{name}_{number}", f"{name}_{number}_"):
                if not taken(candidate):
                    self.tried[name, taken.__name__] = number
                    return candidate
        raise AssertionError

    def declarations(self) -> list[str]:
        lines = [f".reg .{t} %{STEMS[t]}<{n}>;" for t, n in self.pools.items() if n]
        by_type: dict[str, list[str]] = {}
        for register_type, name in self.named:
            by_type.setdefault(register_type, []).append("%" + name)
        for register_type, names in by_type.items():
            lines += [f".reg .{register_type} {', '.join(names[i : i + 8])};" for i in range(0, len(names), 8)]
        return lines


class Code:
    """The instructions of a kernel, in order, with `.loc` lines where the user's line changes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.files: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self._loc: Location | None = None
        self._loc_line = ""

    @property
    def loc(self) -> Location | None:
        """Where what is written comes from."""
        return self._loc

    def at(self, loc: Location | None) -> None:
        """What follows comes from this place in the user's source."""
        if loc is None or loc is self._loc:
            return
        self._loc = loc
        file = self.files.setdefault(loc.file, len(self.files) + 1)
        line = f".loc {file} {loc.line} {loc.column + 1}"
        if line == self._loc_line:
            return
        if self.lines and self.lines[-1] is self._loc_line:  # nothing was emitted for the last place
            self.lines.pop()
        self._loc_line = line
        self.lines.append(line)

    def label(self, name: str) -> str:
        """A label of its own; `place` puts it."""
        number = self.labels.get(name, 0)
        self.labels[name] = number + 1
        return f"$L_{name}{number}"

    def place(self, label: str) -> None:
        self.lines.append(label + ":")


@dataclass(frozen=True, slots=True)
class PtxModule:
    """`text` with one entry; `params` are the entry's parameters in order: (name, "pointer" | "scalar" | "dim", dtype
    name). A pointer's dtype is that of its tensor; a dimension is an i32 of that name in the kernel."""

    text: str
    entry: str
    params: tuple[tuple[str, str, str], ...]


def ptx_type(dtype: DType) -> str:
    """The instruction type of an element, sign and format included: s32, f16, …"""
    return PTX_TYPE[dtype.name]


def register_type(dtype: DType) -> str:
    return REGISTER[dtype.name][0]


def per_word(dtype: DType) -> int:
    """How many elements share a 32-bit register; 1 for those of 32 bits and more, and for bool."""
    return 32 // dtype.bits if dtype.bits < 32 and dtype.kind != "bool" else 1
