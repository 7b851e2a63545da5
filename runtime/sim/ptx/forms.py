"""The form of each instruction: which modifiers it may carry, in which order, and how many operands of which kind
follow.

One table by opcode, as the PTX ISA gives the syntax of each (PTX ISA 8.7, chapter 9); `check` holds every instruction
of a text against it before it is decoded, so that a factory finds the operands and types that it asks for. What the
table lacks the simulator does not execute. The limits on what a text may declare stand here too.

    d   a destination: register, `_`, a vector of these        P   d, or d|p
    r   a source: register, constant, special register, symbol, vector, negated predicate
    a   [base+offset]         m   [map, {coordinates}]         i   an integer
    v   a vector              y   a label, function or list    t   (arguments)
    ?   behind an operand that may be left out, with those behind it
"""

from __future__ import annotations

import functools
import re

from ..core.errors import SimulationError
from .syntax import (
    Address,
    Float,
    Instruction,
    Integer,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Tuple,
    Vector,
)

MAX_TEXT = 64 << 20  # characters
MAX_DIGITS = 40  # of a number
MAX_DEPTH = 8  # brackets within brackets of an operand, functions that call functions
MAX_ITEMS = 512  # of a vector, of an instruction's operands
MAX_REGISTERS = 1 << 18  # declared in a text
MAX_REGISTER_BYTES = 1 << 30  # of all threads that run side by side, with their local memory
MAX_ALIGN = 1 << 16
MAX_PARAMS = 1 << 16  # bytes of an entry's parameters
MAX_LOCAL = 512 << 10  # bytes of local memory of a thread, as on the hardware
MAX_GLOBAL = 256 << 20  # bytes of a module's variables
MAX_CTAS = 1 << 22  # of a simulated grid
MAX_PRINTED = 4096  # the width and the precision of a number that vprintf prints

_INT = r"[us](?:16|32|64)"
_INT4 = r"[us](?:32|64)"
_ANY = r"(?:[bus](?:16|32|64)|f32|f64|f16|bf16)"
_MEMORY = r"(?:[bus](?:8|16|32|64)|b128|f32|f64|f16|bf16|f16x2|bf16x2)"
_ROUND = r"(?:\.(?:rn|rz|rm|rp))?"
_HALF = r"(?:f16|f16x2|bf16|bf16x2)"
_FLOAT = rf"{_ROUND}(?:\.ftz)?(?:\.sat)?\.(?:f32|f64|{_HALF})"
_LIMIT = rf"(?:\.ftz)?(?:\.NaN)?\.(?:f32|f64|{_HALF})|(?:\.relu)?\.(?:{_INT}|[us]16x2)"
_TEST = r"\.(?:eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan)"
_COMPARED = rf"(?:\.ftz)?\.(?:{_ANY}|f16x2|bf16x2)"
_PAIR = r"(?:f16x2|bf16x2)"
_SET = rf"(?:\.ftz)?\.(?:(?:u32|s32|f32|f16|bf16)\.{_ANY}|{_PAIR}\.{_PAIR})"
_LOGIC = r"\.(?:and|or|xor)"
_SCOPE = r"(?:\.(?:cta|cluster|gpu|gl|sys))?"
_SHARED = r"(?:\.shared(?:::cta|::cluster)?)?"
_SPACE = r"(?:\.(?:global|const|shared(?:::cta|::cluster)?|local|param(?:::entry|::func)?))?"
_HINTS = r"(?:\.(?:ca|cg|cs|cv|lu|wb|wt|nc|unified|L[12]::\w+(?:::\w+)?))*"
_ORDER = r"(?:\.(?:weak|volatile|relaxed|acquire|release|acq_rel|sc|mmio))*"
_ACCESS = rf"{_ORDER}{_SCOPE}{_ORDER}{_SPACE}{_HINTS}(?:\.v[248])?{_HINTS}\.{_MEMORY}"
# Texts differ in where they put semantics, scope, space and operation.
_ANYWHERE = r"relaxed|acquire|release|acq_rel|cta|cluster|gpu|sys|global|shared(?:::cta|::cluster)?|L[12]::\w+"
_UPDATES = r"add|min|max|and|or|xor|inc|dec|exch|noftz|v[248]"
_ATOMIC = rf"(?:\.(?:{_ANYWHERE}|{_UPDATES}))+\.{_MEMORY}"
_CAS = rf"(?:\.(?:{_ANYWHERE}))*\.cas(?:\.(?:{_ANYWHERE}))*\.b(?:16|32|64)"
_AT = rf"(?:\.(?:{_ANYWHERE}))*\.b64"  # of an mbarrier
_BOX = r"\.[1-5]d"
_SEND = r"\.shared::(?:cta|cluster)\.(?:global|shared::cta)(?:\.(?:tile|im2col\w*)(?:::\w+)?)?"
_LOAD = _SEND.replace("(?:global|shared::cta)", "global", 1)
_COMPLETES = r"\.mbarrier::complete_tx::bytes"
_EXTRAS = r"(?:\.multicast::cluster|\.cta_group::[12]|\.L2::cache_hint)*"
_OUT = r"\.global\.shared::cta(?:\.(?:tile|im2col\w*)(?:::\w+)?)?\.bulk_group(?:\.L2::cache_hint)?"
_REDUCED = r"\.(?:add|min|max|inc|dec|and|or|xor)(?:\.noftz)?"
_SYNC = r"\.sync\.aligned"
_GROUP = r"\.cta_group::[12]"
# Of tcgen05.ld and st, by the operands behind the address
_TENSOR_SHAPE = {"": r"(?:32x32b|16x64b|16x128b|16x256b)\.x\d{1,3}", " i": r"16x32bx2\.x\d{1,3}"}
_SCALED = r"(?:mxf8f6f4|mxf4|mxf4nvf4)\.block_scale(?:\.scale_vec::[124]X|\.block(?:16|32))?"
_MATRICES = rf"{_SYNC}(?:\.m8n8\.x[124]|\.x[124]\.m8n8)(?:\.trans)?{_SHARED}\.b16"
_ACCUMULATED = r"(?:\.(?:f16|f32)\.(?:f16|e4m3|e5m2)\.(?:f16|e4m3|e5m2)\.(?:f16|f32)"
_ACCUMULATED += r"|\.f32\.(?:bf16\.bf16|tf32\.tf32)\.f32|\.f64\.f64\.f64\.f64|\.s32\.[us]8\.[us]8\.s32)"
_MODE = r"(?:\.(?:rn|rz|rm|rp|rna|rni|rzi|rmi|rpi))?(?:\.relu)?(?:\.ftz)?(?:\.(?:sat|satfinite))?(?:\.relu)?"
_NUMBER = r"(?:[us](?:8|16|32|64)|f16|bf16|f32|f64)"

# By opcode: modifiers and operands, each alternative. The longest opcode that fits an instruction counts.
FORMS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(("add", "sub"), ((rf"\.cc\.{_INT4}|(?:\.sat)?\.s32|\.(?:{_INT}|[us]16x2)|{_FLOAT}", "d r r"),)),
    "mul": ((rf"\.(?:lo|hi)\.{_INT}|\.wide\.[us](?:16|32)|{_FLOAT}", "d r r"),),
    "mad": (
        (
            rf"\.(?:lo|hi)\.{_INT}|\.(?:lo|hi)\.cc\.{_INT4}|\.wide\.[us](?:16|32)|\.hi\.sat\.s32|{_FLOAT}",
            "d r r r",
        ),
    ),
    "div": ((rf"\.{_INT}|(?:\.(?:approx|full|rn|rz|rm|rp))?(?:\.ftz)?\.(?:f32|f64)", "d r r"),),
    **dict.fromkeys(("min", "max"), ((_LIMIT, "d r r"),)),
    **dict.fromkeys(("abs", "neg"), ((rf"\.s(?:16|32|64)|(?:\.ftz)?\.(?:f32|f64|{_HALF})", "d r"),)),
    "fma": ((rf"{_ROUND}(?:\.ftz)?(?:\.(?:sat|relu))?\.(?:f32|f64|{_HALF})", "d r r r"),),
    **dict.fromkeys(("rcp", "sqrt", "rsqrt"), ((r"(?:\.(?:approx|rn|rz|rm|rp))?(?:\.ftz)?\.(?:f32|f64)", "d r"),)),
    "ex2": ((rf"\.approx(?:\.ftz)?\.(?:f32|{_HALF})", "d r"),),
    **dict.fromkeys(("lg2", "sin", "cos"), ((r"\.approx(?:\.ftz)?\.f32", "d r"),)),
    "tanh": ((rf"\.approx\.(?:f32|{_HALF})", "d r"),),
    "copysign": ((r"\.(?:f32|f64)", "d r r"),),
    "testp": ((r"\.(?:finite|infinite|number|notanumber|normal|subnormal)\.(?:f32|f64)", "d r"),),
    "setp": (
        (rf"{_TEST}{_COMPARED}", "P r r"),
        (rf"{_TEST}{_LOGIC}{_COMPARED}", "P r r r"),
    ),
    "set": (
        (rf"{_TEST}{_SET}", "d r r"),
        (rf"{_TEST}{_LOGIC}{_SET}", "d r r r"),
    ),
    **dict.fromkeys(("and", "or", "xor"), ((r"\.(?:b16|b32|b64|pred)", "d r r"),)),
    "not": ((r"\.(?:b16|b32|b64|pred)", "d r"),),
    "rem": ((rf"\.{_INT}", "d r r"),),
    "cnot": ((r"\.b(?:16|32|64)", "d r"),),
    "mul24": ((r"\.(?:hi|lo)\.[us]32", "d r r"),),
    "mad24": ((r"\.(?:hi|lo)\.[us]32", "d r r r"),),
    "sad": ((rf"\.{_INT}", "d r r r"),),
    "dp4a": ((r"\.[us]32\.[us]32", "d r r r"),),
    "dp2a": ((r"\.(?:lo|hi)\.[us]32\.[us]32", "d r r r"),),
    **dict.fromkeys(("addc", "subc"), ((rf"(?:\.cc)?\.{_INT4}", "d r r"),)),
    "madc": ((rf"\.(?:lo|hi)(?:\.cc)?\.{_INT4}", "d r r r"),),
    "shl": ((r"\.b(?:16|32|64)", "d r r"),),
    "shr": ((r"\.[bus](?:16|32|64)", "d r r"),),
    "shf": ((r"\.[lr]\.(?:clamp|wrap)\.b32", "d r r r"),),
    "bfe": ((rf"\.{_INT4}", "d r r r"),),
    "bfi": ((r"\.b(?:32|64)", "d r r r r"),),
    **dict.fromkeys(("popc", "clz", "brev"), ((r"\.b(?:32|64)", "d r"),)),
    "bfind": ((rf"(?:\.shiftamt)?\.{_INT4}", "d r"),),
    "bmsk": ((r"\.(?:clamp|wrap)\.b32", "d r r"),),
    "lop3": ((r"\.b32", "d r r r i"),),
    "prmt": ((r"\.b32(?:\.(?:f4e|b4e|rc8|ecl|ecr|rc16))?", "d r r r"),),
    "mov": ((rf"\.(?:{_ANY}|pred|b128)", "d r"),),
    "selp": ((rf"\.{_ANY}", "d r r r"),),
    "slct": ((rf"(?:\.ftz)?\.{_ANY}\.(?:s32|f32)", "d r r r"),),
    # Memory
    **dict.fromkeys(("ld", "ldu"), ((_ACCESS, "d a r?"),)),
    "st": ((_ACCESS, "a r r?"),),
    "cvta": ((r"(?:\.to)?\.(?:global|const|shared(?:::cta|::cluster)?|local|param)\.(?:u32|u64)", "d r"),),
    "isspacep": ((r"\.(?:global|const|shared(?:::cta|::cluster)?|local|param)", "d r"),),
    **dict.fromkeys(("prefetch", "prefetchu"), ((r"(?:\.[\w:]+)+", "a"),)),
    **dict.fromkeys(("discard", "applypriority"), ((r"(?:\.[\w:]+)+", "a i"),)),
    "createpolicy": ((r"(?:\.[\w:]+)+", "d r? r? r?"), (r"\.range(?:\.[\w:]+)+", "d a r r")),
    "atom": ((_CAS, "d a r r r?"), (_ATOMIC, "d a r r?")),
    "red": ((_ATOMIC, "a r r?"),),
    **dict.fromkeys(("fence", "membar"), ((rf"{_ORDER}(?:\.sync_restrict::shared::(?:cta|cluster))?{_SCOPE}", ""),)),
    "cp.async": ((rf"\.(?:ca|cg)\.shared(?:::cta)?\.global{_HINTS}", "a a i r? r?"),),
    **dict.fromkeys(("cp.async.commit_group", "cp.async.wait_all"), (("", ""),)),
    "cp.async.wait_group": (("", "i"),),
    "st.async": (
        (rf"{_ORDER}{_SCOPE}{_SHARED}{_COMPLETES}(?:\.v[24])?\.(?:[bus](?:32|64)|f32|f64)", "a r a"),
        (rf"{_ORDER}{_SCOPE}\.global\.{_MEMORY}", "a r"),
    ),
    "red.async": ((rf"{_ORDER}{_SCOPE}{_SHARED}{_COMPLETES}{_REDUCED}\.[us](?:32|64)", "a r a"),),
    "cp.async.bulk.tensor": (
        (rf"{_BOX}(?:{_GROUP})?{_LOAD}{_COMPLETES}{_EXTRAS}", "a m a r? r?"),
        (rf"{_BOX}{_OUT}", "m a r?"),
    ),
    "cp.async.bulk": (
        (rf"{_SEND}{_COMPLETES}{_EXTRAS}", "a a r a r? r?"),
        (r"\.global\.shared::cta\.bulk_group(?:\.L2::cache_hint)?", "a a r r?"),
    ),
    "cp.reduce.async.bulk": (
        (rf"\.tensor{_BOX}\.global\.shared::cta{_REDUCED}(?:\.tile)?\.bulk_group(?:\.L2::cache_hint)?", "m a r?"),
        (rf"\.shared::cluster\.shared::cta{_COMPLETES}{_REDUCED}\.{_INT4}", "a a r a"),
        (
            rf"\.global\.shared::cta\.bulk_group(?:\.L2::cache_hint)?{_REDUCED}\.(?:[bus](?:32|64)|f16|bf16|f32|f64)",
            "a a r r?",
        ),
    ),
    "cp.async.bulk.prefetch": (
        (rf"\.tensor{_BOX}\.L2\.global(?:\.tile(?:::gather4)?)?(?:\.L2::cache_hint)?", "m r?"),
        (r"\.L2\.global(?:\.L2::cache_hint)?", "a r r?"),
    ),
    "cp.async.bulk.commit_group": (("", ""),),
    "cp.async.bulk.wait_group": ((r"(?:\.read)?", "i"),),
    "cp.async.mbarrier.arrive": ((rf"(?:\.noinc)?{_SHARED}\.b64", "a"),),
    "tensormap.replace": (
        (
            rf"\.tile\.(?:global_address|rank|elemtype|interleave_layout|swizzle_mode|fill_mode|swizzle_atomicity)"
            rf"{_SPACE}\.b1024\.b(?:32|64)",
            "a r",
        ),
        (rf"\.tile\.(?:box_dim|global_dim|global_stride|element_stride){_SPACE}\.b1024\.b(?:32|64)", "a i r"),
    ),
    "tensormap.cp_fenceproxy": ((r"\.global\.shared::cta\.tensormap::generic\.release\.\w+\.sync\.aligned", "a a i"),),
    # Between threads
    **dict.fromkeys(
        ("bar", "barrier"), ((r"(?:\.cta)?\.sync(?:\.aligned)?", "r r?"), (r"(?:\.cta)?\.arrive(?:\.aligned)?", "r r"))
    ),
    **dict.fromkeys(
        ("bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"),
        ((r"(?:\.aligned)?\.popc(?:\.aligned)?\.u32|(?:\.aligned)?\.(?:and|or)(?:\.aligned)?\.pred", "d r r r?"),),
    ),
    "bar.warp": ((r"\.sync", "r"),),
    "barrier.cluster.arrive": ((r"(?:\.(?:release|relaxed))?(?:\.aligned)?", ""),),
    "barrier.cluster.wait": ((r"(?:\.acquire)?(?:\.aligned)?", ""),),
    "shfl": ((r"\.sync\.(?:up|down|bfly|idx)\.b32", "P r r r r"),),
    "vote": ((r"\.sync\.(?:all|any|uni)\.pred|\.sync\.ballot\.b32", "d r r"),),
    "activemask": ((r"\.b32", "d"),),
    "match": ((r"\.(?:any|all)\.sync\.b(?:32|64)", "P r r"),),
    "redux": ((r"\.sync\.(?:add|min|max)\.[us]32|\.sync\.(?:and|or|xor)\.b32", "d r r"),),
    "elect": ((r"\.sync", "P r"),),
    "mapa": ((r"(?:\.shared::cluster)?\.u(?:32|64)", "d r r"),),
    "getctarank": ((r"(?:\.shared::cluster)?\.u(?:32|64)", "d r"),),
    "mbarrier.init": ((rf"{_SHARED}\.b64", "a r"),),
    "mbarrier.inval": ((rf"{_SHARED}\.b64", "a"),),
    **dict.fromkeys(
        ("mbarrier.arrive", "mbarrier.arrive_drop"),
        tuple((rf"(?:\.(?:expect_tx|noComplete))?{_AT}", operands) for operands in ("d a r?", "a r?")),
    ),
    **dict.fromkeys(("mbarrier.expect_tx", "mbarrier.complete_tx"), ((_AT, "a r"),)),
    "mbarrier.pending_count": ((r"\.b64", "d r"),),
    **dict.fromkeys(("mbarrier.test_wait", "mbarrier.try_wait"), ((rf"(?:\.parity)?{_AT}", "d a r r?"),)),
    "fence.proxy": (
        (r"\.tensormap::generic\.acquire\.\w+", "a i"),
        (
            r"\.(?:alias|async(?:::generic)?|tensormap::generic)(?:\.(?:global|shared(?:::cta|::cluster)?|release|acquire"
            r"|sync_restrict::shared::(?:cta|cluster)|cta|cluster|gpu|sys))*",
            "",
        ),
    ),
    "fence.mbarrier_init": ((r"\.release\.cluster", ""),),
    "clusterlaunchcontrol.try_cancel": (
        (rf"\.async(?:\.shared::cta)?{_COMPLETES}(?:\.multicast::cluster::all)?\.b128", "a a"),
    ),
    "clusterlaunchcontrol.query_cancel": (
        (r"\.is_canceled\.pred\.b128|\.get_first_ctaid(?:\.v4|::[xyz])\.b32\.b128", "d r"),
    ),
    "griddepcontrol": ((r"\.(?:launch_dependents|wait)", ""),),
    "setmaxnreg": ((rf"\.(?:inc|dec){_SYNC}\.u32", "i"),),
    # Matrices
    "ldmatrix": ((_MATRICES, "d a"),),
    "stmatrix": ((_MATRICES, "a r"),),
    "movmatrix": ((rf"{_SYNC}\.m8n8\.trans\.b16", "d r"),),
    "mma": ((rf"{_SYNC}\.m\d{{1,3}}n\d{{1,3}}k\d{{1,3}}\.row\.col(?:\.satfinite)?{_ACCUMULATED}", "d r r r"),),
    "wgmma.mma_async": ((rf"{_SYNC}\.m64n\d{{1,3}}k\d{{1,3}}(?:\.\w+){{3}}(?:\.satfinite)?", "v r r r i? i? i? i?"),),
    **dict.fromkeys(("wgmma.fence", "wgmma.commit_group"), ((_SYNC, ""),)),
    "wgmma.wait_group": ((_SYNC, "i"),),
    "tcgen05.alloc": ((rf"{_GROUP}{_SYNC}(?:\.shared::cta)?\.b32", "a r"),),
    "tcgen05.dealloc": ((rf"{_GROUP}{_SYNC}\.b32", "r r"),),
    "tcgen05.relinquish_alloc_permit": ((rf"{_GROUP}{_SYNC}", ""),),
    "tcgen05.ld": tuple((rf"{_SYNC}\.{_TENSOR_SHAPE[x]}(?:\.pack::16b)?\.b32", f"d a{x}") for x in _TENSOR_SHAPE),
    "tcgen05.st": tuple((rf"{_SYNC}\.{_TENSOR_SHAPE[x]}(?:\.unpack::16b)?\.b32", f"a{x} r") for x in _TENSOR_SHAPE),
    **dict.fromkeys(("tcgen05.wait::ld", "tcgen05.wait::st"), ((_SYNC, ""),)),
    **dict.fromkeys(("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"), (("", ""),)),
    "tcgen05.mma": tuple(
        (rf"{_GROUP}\.kind::{kind}", f"a {a} r r {rest}")
        for kind, rests in (("(?:f16|tf32)", "r i?,v r i?"), ("(?:f8f6f4|i8)", "r,v r"), (_SCALED, "a a r"))
        for rest in rests.split(",")
        for a in "ra"
    ),
    "tcgen05.cp": ((rf"{_GROUP}\.(?:128x256b|128x128b|64x128b\.warpx2::(?:02_13|01_23)|32x128b\.warpx4)", "a r"),),
    "tcgen05.commit": (
        (rf"{_GROUP}\.mbarrier::arrive::one(?:\.shared::cluster)?(?:\.multicast::cluster)?\.b64", "a r?"),
    ),
    # Conversions and control
    "cvt": (
        (rf"{_MODE}\.(?:f16x2|bf16x2|e4m3x2|e5m2x2)\.f32", "d r r"),
        (rf"{_MODE}\.(?:e4m3x2|e5m2x2)\.f16x2|{_MODE}\.f16x2\.(?:e4m3x2|e5m2x2)", "d r"),
        (rf"{_MODE}\.(?:tf32\.f32|{_NUMBER}\.{_NUMBER})", "d r"),
    ),
    "bra": ((r"(?:\.uni)?", "y"),),
    "brx": ((r"\.idx(?:\.uni)?", "r y"),),
    "exit": (("", ""),),
    "ret": ((r"(?:\.uni)?", ""),),
    **dict.fromkeys(("trap", "brkpt"), (("", ""),)),
    "nanosleep": ((r"\.u32", "r"),),
    "pmevent": ((r"(?:\.mask)?", "i"),),
    "call": tuple((r"(?:\.uni)?", operands) for operands in ("y t? y?", "t y t? y?", "r t? y?", "t r t? y?")),
}
# Opcodes that change nothing but registers: what endless loops may consist of (endless.py).
_QUIET = """
    add sub mul mad div min max abs neg fma rcp sqrt rsqrt ex2 lg2 sin cos tanh copysign testp setp set and or xor not
    rem cnot mul24 mad24 sad dp4a dp2a addc subc madc shl shr shf bfe bfi popc clz brev bfind bmsk lop3 prmt mov selp
    slct ld ldu cvta isspacep prefetch prefetchu createpolicy shfl vote activemask match redux elect mapa getctarank
    cvt bra brx nanosleep ldmatrix movmatrix mma
"""
QUIET = frozenset(_QUIET.split())
_KINDS: dict[str, tuple[type, ...]] = {
    "d": (Register, Sink, Vector),
    "P": (Register, Sink, Pair),
    "r": (Register, Integer, Float, Special, Symbol, Vector, Not),
    "a": (Address,),
    "m": (Address,),
    "i": (Integer,),
    "v": (Vector,),
    "y": (Symbol,),
    "t": (Tuple, Integer),
}
_WORDS = {
    "d": "a destination",
    "P": "a destination d or d|p",
    "r": "a source",
    "a": "an address",
    "m": "[map, {coordinates}]",
    "i": "an integer",
    "v": "a vector",
    "y": "a name",
    "t": "(arguments)",
}


def check(ins: Instruction, opcode: str) -> None:
    """Raises SimulationError unless the instruction has a form that the table gives for this opcode."""
    forms = _forms(opcode, ins.opcode[len(opcode) :])
    if not forms:
        raise SimulationError(f"unsupported form of {opcode}: {ins.opcode}", ins.line, ins.text)
    if not any(_fits(form, ins.operands) for form in forms):
        wanted = " or ".join(_described(form) for form in forms)
        raise SimulationError(f"{ins.opcode} takes {wanted}; there are {len(ins.operands)}", ins.line, ins.text)


@functools.lru_cache(maxsize=1 << 12)
def _forms(opcode: str, modifiers: str) -> tuple[tuple[str, ...], ...]:
    """The operands that go with these modifiers."""
    return tuple(tuple(operands.split()) for pattern, operands in FORMS[opcode] if re.fullmatch(pattern, modifiers))


def _fits(form: tuple[str, ...], operands: tuple[Operand, ...]) -> bool:
    least = next((index for index, item in enumerate(form) if item.endswith("?")), len(form))
    if not least <= len(operands) <= len(form):
        return False
    return all(
        isinstance(operand, _KINDS[item[0]])
        and (item[0] == "m") == (isinstance(operand, Address) and bool(operand.rest))
        for operand, item in zip(operands, form, strict=False)
    )


def _described(form: tuple[str, ...]) -> str:
    words = (f"[{_WORDS[item[0]]}]" if item.endswith("?") else _WORDS[item[0]] for item in form)
    return f"{len(form)} operands: {', '.join(words)}" if form else "no operands"
