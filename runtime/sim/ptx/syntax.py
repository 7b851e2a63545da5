"""What the parser produces: instructions with resolved registers, variables, functions, a module.

Names follow PTX's scoping (PTX ISA 8.0, 4.4, 5.4, 12): a `Scope` maps names to registers, variables and label
positions and knows its parent. Symbols are looked up late, because labels may be used before they stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register: `slot` numbers the registers of the module, `kind` is its declared type ("b32")."""

    name: str
    slot: int
    kind: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant; `value` may be negative."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point constant. 0f and 0d forms are exact bits, kept here as the double they stand for."""

    value: float


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, label or function by name, plus a constant offset (`name+4`)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Sink:
    """The bit bucket `_`."""


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate source `!p`."""

    operand: Register


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two destinations of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Tuple:
    """`(a, b)`: the argument or result list of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, with a second operand for tensor coordinates: `[map, {x, y}]`."""

    base: Register | Symbol | Integer
    offset: int = 0
    rest: tuple[Operand, ...] = ()


Operand = Register | Integer | Float | Special | Symbol | Sink | Not | Vector | Pair | Tuple | Address


@dataclass(slots=True)
class Variable:
    """A declared variable: `size` bytes in `space`, with initial bytes and the symbols whose address they hold."""

    name: str
    space: str
    align: int
    size: int
    elem: str
    init: bytes = b""
    pointers: tuple[tuple[int, Symbol], ...] = ()
    extern: bool = False


@dataclass(slots=True)
class Scope:
    """One `{}` block's names."""

    parent: Scope | None = None
    names: dict[str, Register | Variable | int] = field(default_factory=dict)

    def find(self, name: str) -> Register | Variable | int | None:
        """The innermost meaning of a name: register, variable, or the index of a label's instruction."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})


@dataclass(slots=True)
class Instruction:
    """One instruction. `name` is the first part of the opcode, `mods` the others ("global", "v4", "u32")."""

    name: str
    mods: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    line: int
    text: str
    source: str | None
    scope: Scope

    @property
    def is_strong(self) -> bool:
        """Whether this is a strong memory operation (PTX ISA 8.0, 8.2.2)."""
        return self.name in ("atom", "red") or not _STRONG.isdisjoint(self.mods)

    @property
    def opcode(self) -> str:
        """The whole opcode as written."""
        return ".".join((self.name, *self.mods))


@dataclass(slots=True)
class Function:
    """An entry or device function. `limits` holds .reqntid and the like; `targets` the lists for brx.idx."""

    name: str
    entry: bool
    params: list[Variable]
    results: list[Variable]
    scope: Scope
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    body: list[Instruction] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    targets: dict[str, tuple[Symbol, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """A parsed text: its functions, its module-level variables and the target it names."""

    version: str
    target: str
    lines: list[str]
    functions: dict[str, Function]
    variables: list[Variable]
    slots: int  # registers of all functions
