"""Pieces of PTX text that a program gives (`T.ptx`): cut into instructions, and what each of them says of itself.

    .reg .pred %p;
    setp.lt.s32 %p, %a, %b;             →     declared {"%p": "pred"}, labels {"done"},
    @!%p bra done;                            instructions with the names that they use and where these stand
    add.s32 %y, %y, 1;
    done:

Registers and labels of the text are its own: `written` puts others in their place, so that a text may stand several
times in a kernel. Here are only names; what the backend knows of opcodes it checks (`inline_checks.py`), and whether an
instruction exists, and in which forms, is the assembler's business.

Sources: PTX ISA 8.3, 4.2 (statements), 4.4 (identifiers), 5.2 (types), 10 (special registers).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

REGISTERS = frozenset(
    {*(f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64)), "f16", "f16x2", "f32", "f64", "pred"}
)
SPECIAL = re.compile(
    r"%(?:(?:n?(?:tid|ctaid|clusterid)|cluster_n?ctaid)(?:\.[xyz])?|laneid|n?warpid|n?smid|gridid|lanemask_\w+"
    r"|cluster_n?ctarank|is_explicit_cluster|clock(?:64|_hi)?|globaltimer(?:_lo|_hi)?|\w+_smem_\w+|envreg\d+|pm\d+(?:_64)?"
    r"|current_graph_exec)\Z"
)
_UNIFORM = re.compile(r"%(?:n?ctaid|ntid|n?clusterid|cluster_|is_explicit|gridid|envreg|total_|dynamic_|aggr_)")

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([A-Za-z_$][\w$]*)\s*:(?!:)")
_REG = re.compile(r"\.reg\s+\.(\w+)\s+(.+)\Z", re.DOTALL)
_GUARD = re.compile(r"@(!?)\s*([\w$%]+)\s+")
_OPCODE = re.compile(r"[a-z]\w*(?:(?:\.|::)\w+)*")
_TOKEN = re.compile(r"(?P<number>\d[\w.]*)|(?P<skip>\.[\w.:]+)|(?P<name>[%$A-Za-z_][\w$]*(?:\.[xyz]\b)?)")

_REFUSED = frozenset({"call", "ret", "exit", "brx"})


class TextError(ValueError):
    """The text is not what can stand in a kernel; the message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, or a label (without opcode, its name in `operands`)."""

    guard: str
    negated: bool
    opcode: str
    operands: str

    @property
    def base(self) -> str:
        return self.opcode.partition(".")[0]

    def names(self) -> Iterator[str]:
        """The names among the operands, and the guard."""
        if self.guard:
            yield self.guard
        yield from (m["name"] for m in _TOKEN.finditer(self.operands) if m["name"])

    def bare(self) -> Iterator[str]:
        """The names that are operands by themselves: in no brackets and no braces."""
        depth = 0
        for part in re.split(r"([\[\]{}(),|])", self.operands):
            depth += part in ("[", "{", "(")
            depth -= part in ("]", "}", ")")
            name = part.strip().removeprefix("!")
            if depth == 0 and (found := _TOKEN.fullmatch(name)) and found["name"]:
                yield name


@dataclass(frozen=True, slots=True)
class Piece:
    """A text as it was read: `declared` registers of its own with their types, its labels."""

    instructions: tuple[Instruction, ...]
    declared: Mapping[str, str]
    labels: frozenset[str]

    def names(self) -> Iterator[str]:
        for each in self.instructions:
            if each.opcode:
                yield from each.names()

    def written(self, name: Callable[[str], str]) -> Iterator[str]:
        """The lines, with name(x) for each name of an operand, a register or a label."""

        def put(match: re.Match[str]) -> str:
            return name(match["name"]) if match["name"] else match.group()

        for each in self.instructions:
            if not each.opcode:
                yield f"{name(each.operands)}:"
                continue
            guard = f"@{'!' * each.negated}{name(each.guard)} " if each.guard else ""
            operands = _TOKEN.sub(put, each.operands)
            yield f"{guard}{each.opcode}{' ' * bool(operands)}{operands};"


@functools.lru_cache(maxsize=256)
def read(text: str) -> Piece:
    """Cuts a text into instructions. Raises TextError for what cannot stand in a kernel."""
    plain, at = _COMMENT.sub(" ", text), 0
    instructions: list[Instruction] = []
    declared: dict[str, str] = {}
    labels: set[str] = set()
    while (at := _SPACE.match(plain, at).end()) < len(plain):  # type: ignore[union-attr]
        if plain[at] in "{}":
            at += 1
        elif label := _LABEL.match(plain, at):
            if label[1] in labels:
                raise TextError(f"the label {label[1]} stands twice")
            labels.add(label[1])
            instructions.append(Instruction("", False, "", label[1]))
            at = label.end()
        else:
            end = plain.find(";", at)
            if end < 0:
                raise TextError(f"`{_short(plain[at:])}` has no semicolon behind it")
            statement, at = plain[at:end], end + 1
            if statement.startswith("."):
                _declare(statement, declared)
            else:
                instructions.append(_instruction(statement))
    if not any(each.opcode for each in instructions):
        raise TextError("there is no instruction")
    return Piece(tuple(instructions), declared, frozenset(labels))


def _declare(statement: str, declared: dict[str, str]) -> None:
    match = _REG.match(statement)
    if match is None:
        raise TextError(
            f"`{_short(statement)}` is no declaration of registers", "a text declares registers alone: .reg"
        )
    kind = match[1]
    if kind not in REGISTERS:
        raise TextError(f"there are no registers of type .{kind}", "narrower numbers are in registers of 16 bits")
    for each in match[2].split(","):
        found = re.fullmatch(r"\s*([%$A-Za-z_][\w$]*)\s*(?:<\s*(\d{1,4})\s*>)?\s*", each)
        if found is None:
            raise TextError(f"`{_short(each)}` is no name of a register")
        names = [found[1]] if found[2] is None else [f"{found[1]}{n}" for n in range(int(found[2]))]
        for name in names:
            if name in declared:
                raise TextError(f"the register {name} is declared twice")
            declared[name] = kind


def _instruction(statement: str) -> Instruction:
    rest, guard = statement.strip(), _GUARD.match(statement.strip())
    if guard:
        rest = rest[guard.end() :]
    opcode = _OPCODE.match(rest)
    if opcode is None:
        raise TextError(f"`{_short(statement)}` is no instruction")
    operands = " ".join(rest[opcode.end() :].split())
    found = Instruction(guard[2] if guard else "", bool(guard and guard[1]), opcode.group(), operands)
    if found.base in _REFUSED:
        raise TextError(f"`{_short(rest)}` leaves the text", "branches go to labels in it")
    return found


def _short(text: str) -> str:
    return " ".join(text.split())[:60]


def varies(piece: Piece) -> bool:
    """Whether the results may differ between threads whose operands are the same."""
    own = (name for name in piece.names() if name.startswith("%") and name not in piece.declared)
    return any(SPECIAL.match(name) and not _UNIFORM.match(name) for name in own)
