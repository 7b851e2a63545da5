"""The parsed form of AMD GPU assembly text: operands, instructions, kernels, modules.

`v_add_f32_e64 v3, -v1, |s4| clamp` is an `Instruction` with the name "v_add_f32", the encoding "e64", three operands
and the modifier `clamp`. Scalar registers are numbered as the hardware encodes them (CDNA3 ISA, 5.1), so that vcc is
s[106:107], m0 is s124 and exec is s[126:127].
"""

from __future__ import annotations

from dataclasses import dataclass, field

VCC, M0, EXEC = 106, 124, 126
SCALARS = 128  # rows of the scalar register file
SPECIAL = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2),
}


@dataclass(frozen=True, slots=True)
class Reg:
    """`count` consecutive registers of a file: "s", "v" or "a"; with the input modifiers of VOP3 and SDWA."""

    file: str
    first: int
    count: int
    neg: bool = False
    abs: bool = False
    sext: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """A number. A float is an inline constant, whose bits depend on the operand's type."""

    value: int | float
    neg: bool = False
    abs: bool = False
    sext: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """Anything else: a label, "off", "hwreg(...)", a symbol with a relocation."""

    text: str


Operand = Reg | Literal | Word
Modifier = bool | int | str | tuple[int, ...]


@dataclass(slots=True)
class Instruction:
    """One instruction; `line` counts from 1, `source` is the "file:line" of the last .loc."""

    name: str
    encoding: str
    operands: tuple[Operand, ...]
    mods: dict[str, Modifier]
    line: int
    text: str
    source: str | None = None


@dataclass(slots=True)
class Argument:
    """One kernel argument from the metadata: bytes [offset, offset + size) of the kernarg segment."""

    name: str
    offset: int
    size: int
    kind: str


@dataclass(slots=True)
class Kernel:
    """What `.amdhsa_kernel` and the metadata say of one kernel."""

    name: str
    settings: dict[str, int] = field(default_factory=dict)
    args: list[Argument] = field(default_factory=list)
    max_threads: int = 1024
    required: tuple[int, ...] | None = None

    def setting(self, name: str, default: int = 0) -> int:
        """The value of `.amdhsa_<name>`."""
        return self.settings.get(name, default)


@dataclass(slots=True)
class Datum:
    """One object in a data section."""

    name: str
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Module:
    """One assembly file: all its code as one list, labels as indices into it."""

    arch: str
    code: list[Instruction]
    labels: dict[str, int]
    kernels: dict[str, Kernel]
    data: dict[str, Datum]
