"""What is checked of a program's own PTX text (`T.ptx`) before it is written: that an effect which an opcode has is
said, and that operands of common instructions have dtypes which these take.

Sources: PTX ISA 8.3, 9.4 (operand types), 9.7 (instructions), 10 (special registers).
"""

from __future__ import annotations

import re

from minitile.backends.nvidia.extensions import extensions
from minitile.ir.diagnostics import LanguageError, Location, TypeMismatchError
from minitile.ir.inline_ptx import Instruction, Piece, read
from minitile.ir.ops.inline import Ptx, PtxEffect
from minitile.ir.types import DType

_CHANGING = re.compile(r"%(?:clock|globaltimer|pm\d|smid|warpid)")
# What touches memory, and what is there for more than its results.
_MEMORY = frozenset(
    {
        "ld",
        "ldu",
        "st",
        "atom",
        "red",
        "multimem",
        "cp",
        "ldmatrix",
        "stmatrix",
        "tensormap",
        "mbarrier",
        "suld",
        "sust",
        "sured",
        "tex",
        "tld4",
        "prefetch",
        "prefetchu",
        "discard",
        "applypriority",
        "wgmma",
        "wmma",
    }
)
_EFFECTS = frozenset(
    {
        "bar",
        "barrier",
        "membar",
        "fence",
        "shfl",
        "vote",
        "match",
        "activemask",
        "redux",
        "elect",
        "nanosleep",
        "trap",
        "brkpt",
        "pmevent",
        "griddepcontrol",
        "setmaxnreg",
        "movmatrix",
    }
)
_ORDERS = r"cp\.async(?:\.bulk)?\.(?:commit|wait)|wgmma\.(?:fence|commit|wait)"


def check(op: Ptx | PtxEffect) -> None:
    """Raises LanguageError for an effect that is not said, TypeMismatchError for an operand that does not fit."""
    piece = read(op.text)
    touches = isinstance(op, PtxEffect) and bool(op.touches)
    opcode = touches_memory(piece)
    if opcode and not touches:
        raise LanguageError(
            f"{opcode} in T.ptx touches memory, which is not said", op.loc, 'say memory=True, or "read"'
        )
    what = has_effects(piece)
    if what and isinstance(op, Ptx):
        raise LanguageError(f"{what} in T.ptx has an effect, which is not said", op.loc, "say volatile=True")
    dtypes = dict(zip(op.names, (*op.outs, *(v.dtype for v in op.inputs)), strict=True))
    _check_dtypes(piece, dtypes, op.loc)


def _check_dtypes(piece: Piece, dtypes: dict[str, DType], loc: Location | None) -> None:
    kinds = {**piece.declared, **{name: kind_of(dtype) for name, dtype in dtypes.items()}}
    for instruction in piece.instructions:
        guard = kinds.get(instruction.guard, "pred")
        if guard != "pred":
            raise TypeMismatchError(f"T.ptx: the guard {instruction.guard} is no predicate but {guard}", loc)
        for name in instruction.bare():
            why = misfit(instruction, kinds[name]) if name in kinds else ""
            if why:
                hint = "T.cast, or T.reinterpret for the same bits" if name in dtypes else "declare it of another type"
                raise TypeMismatchError(f"T.ptx: {why}, which {name} is", loc, hint)


def touches_memory(piece: Piece) -> str:
    """An opcode that reads or writes memory; "" where there is none."""
    memory = _MEMORY.union(*(each.memory for each in extensions()))
    found = (i.opcode for i in piece.instructions if i.base in memory and not _only_orders(i.opcode))
    return next(found, "")


def _only_orders(opcode: str) -> bool:
    """Whether what looks like an access is a fence, a wait, or the end of a group."""
    return re.match("|".join((_ORDERS, *(each.orders for each in extensions()))), opcode) is not None


def has_effects(piece: Piece) -> str:
    """An opcode, or a special register, for which a text must stay where it is, once for each thread: barriers, fences,
    exchanges in a warp, what ends the program, clocks. "" where there is none."""
    effects = _EFFECTS.union(*(each.effects for each in extensions()))
    for each in piece.instructions:
        if each.opcode and (each.base in effects or _only_orders(each.opcode)):
            return each.opcode
    return next((name for name in piece.names() if name not in piece.declared and _CHANGING.match(name)), "")


# Operands of instructions --------------------------------------------------------------------------------------------

_CHECKED = frozenset(
    {
        "add",
        "addc",
        "sub",
        "subc",
        "mul",
        "mad",
        "madc",
        "mad24",
        "mul24",
        "fma",
        "div",
        "rem",
        "abs",
        "neg",
        "min",
        "max",
        "set",
        "setp",
        "selp",
        "slct",
        "and",
        "or",
        "xor",
        "not",
        "cnot",
        "shl",
        "shr",
        "shf",
        "mov",
        "cvt",
        "ld",
        "st",
        "prmt",
        "lop3",
        "rcp",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "lg2",
        "ex2",
        "tanh",
        "copysign",
        "sad",
        "popc",
        "clz",
        "brev",
        "bfind",
        "bfe",
        "bfi",
        "dp4a",
        "dp2a",
    }
)
_PREDICATES = frozenset({"set", "setp", "selp", "lop3", "ld", "addc", "subc"})
_WORDS = frozenset(
    {"shl", "shr", "shf", "prmt", "bfe", "bfi", "popc", "clz", "bfind", "dp4a", "dp2a", "slct"}
)  # with an operand of 32 bits
_WIDER = frozenset({"ld", "st", "cvt"})  # registers may be wider than the type
_TYPE = re.compile(r"(?:([usbf])(8|16|32|64)|(bf16|pred|tf32)|(f16x2|bf16x2|[us]16x2|e[45]m[23]x2))\Z")


def kind_of(dtype: DType) -> str:
    """The register of a value: "s32", "f32", "bf16", "pred", …"""
    if dtype.kind == "bool":
        return "pred"
    if dtype.name == "bf16":
        return "bf16"
    return {"int": "s", "uint": "u", "float": "f"}[dtype.kind] + str(dtype.bits)


def misfit(instruction: Instruction, register: str) -> str:
    """Why a register ("s32", "b64", "pred") can be no operand of an instruction; "" where it can, or where nothing is
    known."""
    if instruction.base not in _CHECKED or "cache_hint" in instruction.opcode:
        return ""
    types = [part for part in instruction.opcode.split(".")[1:] if _TYPE.match(part)]
    if not types:
        return ""
    wide = ".wide" in instruction.opcode
    if register == "pred":
        fits = "pred" in types or instruction.base in _PREDICATES
    else:
        fits = any(_agree(register, t, wide, instruction.base in _WIDER) for t in types)
        fits = fits or (instruction.base in _WORDS and _bits(register) == 32 and register[0] != "f")
    return "" if fits else f"{instruction.opcode} takes no operand of type {register}"


def _bits(kind: str) -> int:
    if kind.endswith("x2"):
        return 16 if kind[0] == "e" else 32
    return 32 if kind == "tf32" else int(re.sub(r"\D+", "", kind) or 0)


def _agree(register: str, type_: str, wide: bool, wider: bool) -> bool:
    """Sizes are equal; integers go with integers, floats with the same floats, untyped bits with all."""
    bits, wanted = _bits(register), _bits(type_)
    if wider and type_[0] in "usb" and register[0] in "usb":
        if bits >= wanted:
            return True
    elif bits != wanted and not (wide and bits == 2 * wanted):
        return False
    if bits != wanted and not wide:
        return False
    if "b" in (register[0], type_[0]) and "bf16" not in (register, type_):
        return True
    if type_ in ("tf32", "bf16", "f16") or type_.endswith("x2"):
        return register == type_ or register[0] in "usb" or (type_ == "tf32" and register == "f32")
    if register == "bf16":
        return type_ in ("b16", "bf16")
    return (register[0] in "us") == (type_[0] in "us")
