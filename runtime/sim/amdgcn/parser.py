"""From assembly text to a `Module`.

Understands what LLVM prints for amdgcn (LLVM, AMDGPUUsage, "Assembler"; AMDGPUModifierSyntax, AMDGPUOperandSyntax) and
what people write by hand in the same syntax: instructions, labels, .amdhsa_ directives, the YAML metadata, data
sections, .file and .loc. What an instruction means is no matter of this module.
"""

from __future__ import annotations

import functools
import posixpath
import re

import numpy as np

from ..core.errors import SimulationError
from .forms import MAX_DATA, MAX_DIGITS, MAX_LINE, MAX_REGISTERS, MAX_SETTING, MAX_SETTINGS, MAX_TEXT
from .metadata import kernels_of
from .syntax import SPECIAL, Datum, Instruction, Kernel, Literal, Modifier, Module, Operand, Reg, Word

ENCODINGS = ("e32", "e64", "dpp", "sdwa", "e64_dpp")
_REGISTER = re.compile(r"([sva])(\d+)$")
_RANGE = re.compile(r"([sva])\[\s*(\w+)\s*(?::\s*(\w+)\s*)?\]$")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)$")
_FLOAT = re.compile(r"-?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?$")
_LABEL = re.compile(r"([A-Za-z_.$][\w.$@]*):")
_DATA = {".byte": 1, ".short": 2, ".2byte": 2, ".long": 4, ".4byte": 4, ".int": 4, ".quad": 8, ".8byte": 8}
_NO_OPERANDS = ("buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "s_dcache_inv", "s_dcache_wb")
_RAW = ("s_waitcnt", "s_sendmsg", "s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32")


def parse_module(text: str) -> Module:
    """Parse a whole file; SimulationError with the line where it is not understood."""
    if len(text) > MAX_TEXT:
        raise SimulationError(f"a text of {len(text)} characters; there may be {MAX_TEXT}", isa="GCN")
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.kernels: dict[str, Kernel] = {}
        self.data: dict[str, Datum] = {}
        self.files: dict[str, str] = {}
        self.source: str | None = None
        self.arch = ""
        self.in_code = True
        self.datum: Datum | None = None
        self.kernel: Kernel | None = None
        self.metadata: list[str] | None = None
        self.bytes_left = MAX_DATA

    def run(self) -> Module:
        for number, raw in enumerate(self.lines, 1):
            if len(raw) > MAX_LINE:
                raise SimulationError(f"a line of {len(raw)} characters; there may be {MAX_LINE}", number, isa="GCN")
            if self.metadata is not None:
                if raw.strip() == ".end_amdgpu_metadata":
                    self.take_metadata(self.metadata, number)
                    self.metadata = None
                else:
                    self.metadata.append(raw)
                continue
            line = strip_comment(raw)
            match = _LABEL.match(line)
            while match:
                self.label(match[1])
                line = line[match.end() :].strip()
                match = _LABEL.match(line)
            if line.startswith("."):
                self.directive(line, number)
            elif line:
                self.code.append(parse_instruction(line, number, raw, self.source))
        return Module(self.arch, self.code, self.labels, self.kernels, self.data)

    def label(self, name: str) -> None:
        if self.in_code:
            self.labels[name] = len(self.code)
        else:
            self.datum = self.data[name] = Datum(name)

    def directive(self, line: str, number: int) -> None:
        name, rest = (*line.split(None, 1), "")[:2]
        if name == ".amdgcn_target":
            self.arch = rest.strip('"').rpartition("-")[2].partition(":")[0]
        elif name == ".amdhsa_kernel":
            self.kernel = self.kernels.setdefault(rest, Kernel(rest))
        elif name == ".end_amdhsa_kernel":
            self.kernel = None
        elif name.startswith(".amdhsa_") and self.kernel is not None:
            setting = name[len(".amdhsa_") :]
            most = MAX_SETTINGS.get(setting, MAX_SETTING)
            self.kernel.settings[setting] = self.expression(rest, number, line, 0, most)
        elif name == ".amdgpu_metadata":
            self.metadata = []
        elif name in (".text", ".section", ".data", ".rodata", ".bss"):
            self.in_code = name == ".text" or rest.startswith(".text")
            self.datum = None
        elif name == ".file":
            parts = re.findall(r'"([^"]*)"', rest)
            if parts and rest[:1].isdigit():
                self.files[rest.split()[0]] = posixpath.join(*parts[:2])  # a folder, if there is one, and the name
        elif name == ".loc":
            fields = rest.split()
            if len(fields) < 2:
                raise SimulationError(".loc names a file and a line", number, line, isa="GCN")
            self.source = f"{self.files.get(fields[0], '?')}:{fields[1]}" if fields[1] != "0" else None
        elif self.datum is not None:
            self.bytes(name, rest, number, line)

    def expression(self, text: str, number: int, line: str, least: int = -(1 << 63), most: int = (1 << 64) - 1) -> int:
        if len(text) > MAX_DIGITS or not _NUMBER.match(text):
            raise SimulationError(f"{text[:MAX_DIGITS]!r} is not a plain number", number, line, isa="GCN")
        try:
            value = int(text, 0)
        except ValueError:  # 08
            raise SimulationError(f"{text!r} is not a plain number", number, line, isa="GCN") from None
        if not least <= value <= most:
            raise SimulationError(f"{value} is not from {least} to {most}", number, line, isa="GCN")
        return value

    def bytes(self, name: str, rest: str, number: int, line: str) -> None:
        assert self.datum is not None
        if name in _DATA:
            size = _DATA[name]
            self.take_bytes(size * (rest.count(",") + 1), number, line)
            for part in rest.split(","):
                value = self.expression(part.strip(), number, line)
                self.datum.data += (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif name in (".zero", ".skip", ".space"):
            count = self.expression(rest.split(",")[0], number, line, 0)
            self.take_bytes(count, number, line)
            self.datum.data += bytes(count)
        elif name in (".ascii", ".asciz", ".string"):
            self.take_bytes(len(rest) + 1, number, line)
            try:
                raw = rest.strip()[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1")
            except UnicodeError:
                raise SimulationError("this string cannot be read", number, line, isa="GCN") from None
            self.datum.data += raw + (b"" if name == ".ascii" else b"\0")

    def take_bytes(self, count: int, number: int, line: str) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise SimulationError(f"more than {MAX_DATA} bytes of data", number, line, isa="GCN")

    def take_metadata(self, lines: list[str], number: int) -> None:
        try:
            found = kernels_of(lines)
        except ValueError as problem:
            raise SimulationError(f"the kernel metadata is not as expected: {problem}", number, isa="GCN") from None
        for name, args, limit, required in found:
            kernel = self.kernels.setdefault(name, Kernel(name))
            kernel.args, kernel.max_threads, kernel.required = args, limit, required


def strip_comment(raw: str) -> str:
    """The line without its comment, blanks trimmed."""
    if '"' not in raw:
        for sign in (";", "//"):
            raw = raw.partition(sign)[0]
    return raw.strip()


def parse_instruction(line: str, number: int, raw: str, source: str | None) -> Instruction:
    """One instruction from its text."""
    text = strip_comment(raw)
    try:
        return Instruction(*_parsed(line), number, text, source)
    except ValueError as problem:
        raise SimulationError(str(problem), number, text, isa="GCN") from None


@functools.lru_cache(maxsize=1 << 14)
def _parsed(line: str) -> tuple[str, str, tuple[Operand, ...], dict[str, Modifier]]:
    """Name, encoding, operands and modifiers, which lines of one text share. Most lines are found again: in unrolled
    loops, in the next program. ValueError with the reason where something is not understood."""
    full, _, rest = line.replace("\t", " ").partition(" ")
    rest = rest.strip()
    name, encoding = full, ""
    for suffix in ENCODINGS:
        if full.endswith("_" + suffix):
            name, encoding = full[: -len(suffix) - 1], suffix
    if name in _RAW:
        return name, encoding, (Word(rest),), {}
    operands: list[Operand] = []
    mods: dict[str, Modifier] = {}
    for index, piece in enumerate(_split(rest, ",")):
        words = _split(piece, " ")
        if index == 0 and name in _NO_OPERANDS:
            words.insert(0, "")
        if words[0]:
            operands.append(parse_operand(words[0]))
        for word in words[1:]:
            key, value = _modifier(word)
            mods[key] = value
    return name, encoding, tuple(operands), mods


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside brackets; runs of blanks count as one."""
    if "[" not in text and "(" not in text:
        parts = text.split(separator)
    else:
        parts, depth, current = [], 0, ""
        for char in text:
            depth += (char in "[(") - (char in "])")
            if char == separator and depth == 0:
                parts.append(current)
                current = ""
            else:
                current += char
        parts.append(current)
    return [part for part in map(str.strip, parts) if part]


def _modifier(word: str) -> tuple[str, Modifier]:
    key, colon, value = word.partition(":")
    if not colon:
        return key, True
    if value.startswith("["):
        return key, tuple(integer(part) for part in value.strip("[]").split(","))
    return key, integer(value) if _NUMBER.match(value) else value


def integer(text: str) -> int:
    """A number of an instruction; ValueError where it is none, or does not fit 64 bits."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} characters")
    value = int(text, 0)
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{text} does not fit 64 bits")
    return value


def _register(file: str, first: int, count: int, marks: tuple[bool, bool, bool]) -> Reg:
    if not 0 <= first < first + count <= MAX_REGISTERS[file]:
        raise ValueError(f"there are {MAX_REGISTERS[file]} registers {file}; not {file}[{first}:{first + count - 1}]")
    return Reg(file, first, count, *marks)


def parse_operand(text: str) -> Operand:
    """A register, a number, or a word, with `-`, `| |`, `neg()`, `abs()` and `sext()` around it; ValueError where it is
    none of these."""
    neg = absolute = sext = False
    while True:
        if text.startswith("-") and not _FLOAT.match(text) and not _NUMBER.match(text):
            neg, text = not neg, text[1:]
        elif text.startswith("|") and text.endswith("|"):
            absolute, text = True, text[1:-1]
        elif text.endswith(")") and text.partition("(")[0] in ("neg", "abs", "sext"):
            what, _, inner = text.partition("(")
            text = inner[:-1]
            neg, absolute, sext = neg or what == "neg", absolute or what == "abs", sext or what == "sext"
        else:
            break
    if text in SPECIAL:
        return Reg("s", *SPECIAL[text], neg, absolute, sext)
    match = _REGISTER.match(text)
    if match:
        return _register(match[1], integer(match[2]), 1, (neg, absolute, sext))
    match = _RANGE.match(text)
    if match:
        first = integer(match[2])
        last = first if match[3] is None else integer(match[3])
        return _register(match[1], first, last - first + 1, (neg, absolute, sext))
    if _NUMBER.match(text):
        return Literal(integer(text), neg, absolute, sext)
    if _FLOAT.match(text):
        return Literal(float(text), neg, absolute, sext)
    if not text or text[0] in "[|":
        raise ValueError(f"operand {text!r} is not understood")
    return Word(text)


def float_bits(value: float, size: int) -> int:
    """An inline float constant as the bits of a 2, 4 or 8 byte float."""
    with np.errstate(over="ignore"):
        return int(np.array(value, f"f{size}").view(f"u{size}"))
