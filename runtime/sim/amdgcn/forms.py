"""The form of each instruction: how many operands it has, of which kind and size, and which modifiers it may carry.

`instruction(..., takes="v V V", mods="vop")` declares the form where the instruction is registered; `check` holds every
instruction of a text against it before anything is decoded, so that a factory finds the operands it asks for. The
limits on what a text may declare stand here too.

    v v2 v16      that many consecutive vector or accumulation registers; v* any number
    s s2 s4       scalar registers
    V V2          a vector source: vector or scalar registers of that many words, a constant, a symbol
    S S2          a scalar source: scalar registers, a constant, a symbol
    L I W         a label, an integer, the rest of the line as it stands
    off           the word `off`
    |             another form of the same instruction
    ?             behind an operand that may be left out, with those behind it
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from ..core.errors import SimulationError
from .syntax import Instruction, Literal, Modifier, Operand, Reg, Word

MAX_TEXT = 64 << 20  # characters
MAX_LINE = 1 << 16  # characters
MAX_DIGITS = 40  # of a number
MAX_REGISTERS = {"v": 256, "a": 256, "s": 102}  # of a file, by number; vcc, exec and m0 have names
MAX_GROUPS = 1 << 22  # of a simulated grid
MAX_DATA = 16 << 20  # bytes in data sections
MAX_ARGUMENTS = 1024
MAX_KERNARG = 1 << 16  # bytes of kernel arguments
MAX_METADATA_DEPTH = 16
# The largest value of each `.amdhsa_` directive that sizes something; of all others it is MAX_SETTING.
MAX_SETTINGS = {
    "kernarg_size": MAX_KERNARG,
    "group_segment_fixed_size": 1 << 20,
    "private_segment_fixed_size": 1 << 17,
    "user_sgpr_count": 32,
    "user_sgpr_kernarg_preload_length": 16,
    "user_sgpr_kernarg_preload_offset": 1024,
    "system_vgpr_workitem_id": 2,
}
MAX_SETTING = (1 << 32) - 1

_Test = Callable[[Modifier], bool]
Takes = str | Callable[[str], str]
FORMS: dict[str, tuple[Takes, str]] = {}  # by name: the operands, or what makes them of the name; the modifiers' group


def _flag(value: Modifier) -> bool:
    return value is True


def _number(least: int, most: int) -> Callable[[Modifier], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _listed(least: int, most: int, largest: int) -> Callable[[Modifier], bool]:
    return lambda v: isinstance(v, tuple) and least <= len(v) <= most and all(0 <= each <= largest for each in v)


def _word(*words: str) -> Callable[[Modifier], bool]:
    return lambda value: value in words


_SWIZZLE = re.compile(
    r"swizzle\(\s*(?:QUAD_PERM\s*(?:,\s*[0-3]\s*){4}|SWAP\s*,\s*(?:1|2|4|8|16)\s*|REVERSE\s*,\s*(?:2|4|8|16|32)\s*"
    r'|BROADCAST\s*,\s*(?:2|4|8|16|32)\s*,\s*\d{1,2}\s*|BITMASK_PERM\s*,\s*"[01pi]{5}"\s*)\)'
)
_SELECTIONS = _word("DWORD", "WORD_0", "WORD_1", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3")
_BITS = _listed(1, 4, 1)
_SIGNED_OFFSET, _DS_OFFSET = _number(-4096, 4095), _number(0, 65535)
_CACHE: dict[str, _Test] = dict.fromkeys(("glc", "slc", "sc0", "sc1", "nt", "scc", "dlc"), _flag)
_DPP: dict[str, _Test] = {
    "quad_perm": _listed(4, 4, 3),
    **{name: _number(1, 15) for name in ("row_shl", "row_shr", "row_ror")},
    **{name: _number(0, 15) for name in ("row_newbcast", "row_share", "row_mask", "bank_mask")},
    **dict.fromkeys(("row_mirror", "row_half_mirror"), _flag),
    **{name: lambda value: value is True or value == 1 for name in ("wave_shl", "wave_shr", "wave_rol", "wave_ror")},
    "row_bcast": lambda value: value in (15, 31) and value is not True,
    "bound_ctrl": lambda value: value is True or value in (0, 1),
}
_SDWA: dict[str, _Test] = {
    **dict.fromkeys(("dst_sel", "src0_sel", "src1_sel"), _SELECTIONS),
    "dst_unused": _word("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"),
}
_PACKED: dict[str, _Test] = dict.fromkeys(("op_sel", "op_sel_hi", "neg_lo", "neg_hi"), _BITS) | {"clamp": _flag}
_VECTOR: dict[str, _Test] = {
    "clamp": _flag,
    "mul": lambda value: value in (2, 4) and value is not True,
    "div": _number(2, 2),
    "op_sel": _BITS,
}
MODIFIERS: dict[str, dict[str, _Test]] = {
    "": {},
    "vop": {**_VECTOR, **_DPP, **_SDWA, "byte_sel": _number(0, 3)},
    "vop3p": _PACKED,
    "bitop3": {**_VECTOR, "bitop3": _number(0, 255)},
    "mfma": {**_PACKED, "cbsz": _number(0, 4), "abid": _number(0, 15), "blgp": _number(0, 7)},
    "ds": {"offset": _DS_OFFSET, "gds": _flag},
    "ds2": {"offset0": _number(0, 255), "offset1": _number(0, 255), "gds": _flag},
    "swizzle": {
        "offset": lambda value: _DS_OFFSET(value) or bool(isinstance(value, str) and _SWIZZLE.fullmatch(value))
    },
    "global": {**_CACHE, "offset": _SIGNED_OFFSET},
    "buffer": {**_CACHE, "offset": _number(0, 4095), "offen": _flag, "idxen": _flag, "lds": _flag},
    "atomic": {**_CACHE, "offset": _number(-4096, 4095), "offen": _flag, "idxen": _flag},
    "cache": _CACHE,
    "scalar": {"glc": _flag, "offset": _number(-(1 << 20), (1 << 21) - 1)},
}
_ITEM = re.compile(r"(?:([vsVS])(\d+|\*)?|([LIW])|(off))\Z")


def check(ins: Instruction) -> None:
    """Raises SimulationError unless the instruction has a form that its row of the table allows."""
    takes, group = FORMS[ins.name]
    wanted = takes if isinstance(takes, str) else takes(ins.name)
    if not _fits(wanted, ins.operands):
        raise _error(ins, f"{ins.name} takes {_described(wanted)}, not {_listed_kinds(ins.operands)}")
    known = MODIFIERS[group]
    for name, value in ins.mods.items():
        test = known.get(name)
        if test is None:
            raise _error(ins, f"{ins.name} has no modifier {name!r}")
        if not test(value):
            raise _error(ins, f"{name} cannot be {value!r}")


_LOUD = re.compile(
    r"(?:ds|buffer|global|flat|scratch)_(?!read|load|bpermute|permute|swizzle).*|\w+_load_lds_\w+|s_memtime\w*"
)


def is_loud(ins: Instruction) -> bool:
    """Whether an instruction does more than set registers: what an endless loop has not (endless.py)."""
    return bool(_LOUD.fullmatch(ins.name)) or "lds" in ins.mods


def _error(ins: Instruction, message: str) -> SimulationError:
    return SimulationError(message, ins.line, ins.text, isa="GCN")


@functools.lru_cache(maxsize=1 << 12)
def _fits(wanted: str, operands: tuple[Operand, ...]) -> bool:
    return any(_fits_one(form.split(), operands) for form in wanted.split("|"))


def _fits_one(items: list[str], operands: tuple[Operand, ...]) -> bool:
    least = next((index for index, item in enumerate(items) if item.endswith("?")), len(items))
    if not least <= len(operands) <= len(items):
        return False
    return all(_is(operand, item.rstrip("?")) for operand, item in zip(operands, items, strict=False))


def _is(operand: Operand, item: str) -> bool:
    match = _ITEM.match(item)
    assert match is not None, item
    kind, words, plain, off = match.groups()
    if off:
        return isinstance(operand, Word) and operand.text == "off"
    if plain:
        return (
            isinstance(operand, Literal) and type(operand.value) is int if plain == "I" else isinstance(operand, Word)
        )
    if isinstance(operand, Reg):
        files = {"v": "va", "V": "vas", "s": "s", "S": "s"}[kind]
        return operand.file in files and (words == "*" or operand.count == int(words or 1))
    return kind.isupper()


_NAMES = {"L": "a label", "I": "an integer", "W": "text", "off": "off"}
_KINDS = {"v": "vector registers", "s": "scalar registers", "V": "a vector source", "S": "a scalar source"}


def _described(wanted: str) -> str:
    """A form in words."""
    forms = []
    for form in wanted.split("|"):
        items = []
        for item in form.split():
            match = _ITEM.match(item.rstrip("?"))
            assert match is not None, item
            kind, words, plain, off = match.groups()
            text = _NAMES[plain or off] if plain or off else _KINDS[kind] + (f" ({words})" if words else "")
            items.append(f"[{text}]" if item.endswith("?") else text)
        forms.append(", ".join(items) or "no operands")
    return " or ".join(forms)


def _listed_kinds(operands: tuple[Operand, ...]) -> str:
    def one(operand: Operand) -> str:
        if isinstance(operand, Reg):
            return f"{operand.file}({operand.count})"
        return str(operand.value) if isinstance(operand, Literal) else operand.text[:40]

    return ", ".join(map(one, operands)) or "none"
