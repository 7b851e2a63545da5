"""Scalar instructions: arithmetic, bits, comparisons, moves, EXEC manipulation (CDNA3 ISA, chapter 5, 12.1 to 12.5).

`salu("s_and_b32", 4, 2, function, "nonzero")`: result and source size, number of sources, function of unsigned arrays
[waves]; what SCC becomes: "nonzero" (of the result), None (unchanged), or the function returns the pair
(result, SCC) ("pair").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...core.bits import count_ones, reverse_bits, without_sign, zeros_above, zeros_below
from ...core.scalars import Array, Sel
from ..decode import Decoder, Read, Write, fixed
from ..program import CODE_BASE
from ..syntax import EXEC, VCC, Instruction, Literal, Operand, Reg, Word
from ..table import Control, Handler, Outcome, instruction

if TYPE_CHECKING:
    from ..machine import Machine

_32, _64 = np.uint32, np.uint64


def salu(
    names: str, size: int, count: int, function: Callable[..., object], scc: str | None = None, last: int = 0
) -> None:
    """Register scalar instructions; `last` is the size of the last source where it differs."""

    sources = [size] * (count - 1) + [last or size]
    form = " ".join([f"s{size // 4}", *(f"S{each // 4}" for each in sources)])

    @instruction(*names.split(), takes=form)
    def factory(ins: Instruction, d: Decoder) -> Handler:
        reads = [d.scalar(ins.operands[index + 1], each) for index, each in enumerate(sources)]
        write = d.scalar_result(ins.operands[0], size)
        return _run(reads, write, function, scc)


def _run(reads: list[Read], write: Write, function: Callable[..., object], scc: str | None) -> Handler:
    def run(m: Machine, sel: Sel) -> None:
        result = function(*(read(m, sel) for read in reads))
        flag = None
        if scc == "pair":
            result, flag = result  # type: ignore[misc]
        elif scc == "nonzero":
            flag = result != 0
        write(m, sel, result)  # type: ignore[arg-type]
        if flag is not None:
            m.scc[sel] = flag

    return run


def _signed(a: Array) -> Array:
    return np.ascontiguousarray(a).view(np.dtype(f"i{a.dtype.itemsize}"))


def _unsigned(a: Array) -> Array:
    return a.view(np.dtype(f"u{a.dtype.itemsize}"))


def _add_u(a: Array, b: Array) -> tuple[Array, Array]:
    total = a.astype(_64) + b.astype(_64)
    return total.astype(_32), total > 0xFFFFFFFF


def _sub_u(a: Array, b: Array) -> tuple[Array, Array]:
    return a - b, b > a


def _add_i(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    return total, (~(a ^ b) & (a ^ total)) >> _32(31) != 0


def _sub_i(a: Array, b: Array) -> tuple[Array, Array]:
    total = a - b
    return total, ((a ^ b) & (a ^ total)) >> _32(31) != 0


def _shift(size: int, kind: str) -> Callable[[Array, Array], Array]:
    word = np.dtype(f"u{size}")
    limit = np.uint32(8 * size - 1)

    def apply(a: Array, b: Array) -> Array:
        count = (b.astype(_32) & limit).astype(word)
        if kind == "a":
            return _unsigned(_signed(a) >> count.astype(np.dtype(f"i{size}")))
        moved: Array = a << count if kind == "l" else a >> count
        return moved

    return apply


def _bfe(size: int, signed: bool) -> Callable[[Array, Array], Array]:
    bits = 8 * size
    word, integer = np.dtype(f"u{size}"), np.dtype(f"i{size}")

    def apply(a: Array, b: Array) -> Array:
        low = (b & _32(bits - 1)).astype(word)
        width = np.minimum(b >> _32(16) & _32(0x7F), _32(bits)).astype(word)
        width = np.minimum(width, word.type(bits) - low)
        left = np.minimum(word.type(bits) - width - low, word.type(bits - 1))
        right = np.minimum(word.type(bits) - width, word.type(bits - 1))
        moved = a << left
        field = _unsigned(_signed(moved) >> right.astype(integer)) if signed else moved >> right
        return np.where(width == 0, word.type(0), field)

    return apply


def _bfm(size: int) -> Callable[[Array, Array], Array]:
    word, limit = np.dtype(f"u{size}"), np.uint32(8 * size - 1)
    return lambda a, b: (
        (word.type(1) << (a.astype(_32) & limit).astype(word)) - word.type(1) << (b.astype(_32) & limit).astype(word)
    )


def _mul_hi(a: Array, b: Array) -> Array:
    return (a.astype(_64) * b.astype(_64) >> _64(32)).astype(_32)


def _mul_hi_i(a: Array, b: Array) -> Array:
    return (_signed(a).astype(np.int64) * _signed(b).astype(np.int64) >> np.int64(32)).astype(np.int32).view(_32)


def _minmax(
    pick: Callable[[Array, Array], Array], first: Callable[[Array, Array], Array], signed: bool
) -> Callable[[Array, Array], object]:
    def apply(a: Array, b: Array) -> object:
        x, y = (_signed(a), _signed(b)) if signed else (a, b)
        return _unsigned(pick(x, y)), first(x, y)

    return apply


def _absdiff(a: Array, b: Array) -> Array:
    return _unsigned(np.abs(_signed(a) - _signed(b)))


def _lshl_add(count: int) -> Callable[[Array, Array], tuple[Array, Array]]:
    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        total = (a.astype(_64) << _64(count)) + b.astype(_64)
        return total.astype(_32), total > 0xFFFFFFFF

    return apply


def _pack(low: int, high: int) -> Callable[[Array, Array], Array]:
    return lambda a, b: (a >> _32(16 * low) & _32(0xFFFF)) | (b >> _32(16 * high) & _32(0xFFFF)) << _32(16)


for _bits, _size in (("b32", 4), ("b64", 8)):
    salu(f"s_mov_{_bits}", _size, 1, lambda a: a)
    salu(f"s_not_{_bits}", _size, 1, np.invert, "nonzero")
    salu(f"s_and_{_bits}", _size, 2, np.bitwise_and, "nonzero")
    salu(f"s_or_{_bits}", _size, 2, np.bitwise_or, "nonzero")
    salu(f"s_xor_{_bits}", _size, 2, np.bitwise_xor, "nonzero")
    salu(f"s_andn2_{_bits}", _size, 2, lambda a, b: a & ~b, "nonzero")
    salu(f"s_orn2_{_bits}", _size, 2, lambda a, b: a | ~b, "nonzero")
    salu(f"s_nand_{_bits}", _size, 2, lambda a, b: ~(a & b), "nonzero")
    salu(f"s_nor_{_bits}", _size, 2, lambda a, b: ~(a | b), "nonzero")
    salu(f"s_xnor_{_bits}", _size, 2, lambda a, b: ~(a ^ b), "nonzero")
    salu(f"s_lshl_{_bits}", _size, 2, _shift(_size, "l"), "nonzero", last=4)
    salu(f"s_lshr_{_bits}", _size, 2, _shift(_size, "r"), "nonzero", last=4)
    salu(f"s_ashr_i{8 * _size}", _size, 2, _shift(_size, "a"), "nonzero", last=4)
    salu(f"s_bfe_u{8 * _size}", _size, 2, _bfe(_size, False), "nonzero", last=4)
    salu(f"s_bfe_i{8 * _size}", _size, 2, _bfe(_size, True), "nonzero", last=4)
salu("s_brev_b32", 4, 1, reverse_bits)
salu("s_brev_b64", 8, 1, reverse_bits)
salu("s_add_u32", 4, 2, _add_u, "pair")
salu("s_sub_u32", 4, 2, _sub_u, "pair")
salu("s_add_i32", 4, 2, _add_i, "pair")
salu("s_sub_i32", 4, 2, _sub_i, "pair")
salu("s_mul_i32", 4, 2, np.multiply)
salu("s_mul_hi_u32", 4, 2, _mul_hi)
salu("s_mul_hi_i32", 4, 2, _mul_hi_i)
salu("s_abs_i32", 4, 1, lambda a: _unsigned(np.abs(_signed(a))), "nonzero")
salu("s_absdiff_i32", 4, 2, _absdiff, "nonzero")
salu("s_min_u32", 4, 2, _minmax(np.minimum, np.less, False), "pair")
salu("s_max_u32", 4, 2, _minmax(np.maximum, np.greater, False), "pair")
salu("s_min_i32", 4, 2, _minmax(np.minimum, np.less, True), "pair")
salu("s_max_i32", 4, 2, _minmax(np.maximum, np.greater, True), "pair")
salu("s_sext_i32_i8", 4, 1, lambda a: a.astype(np.int8).astype(np.int32).view(_32))
salu("s_sext_i32_i16", 4, 1, lambda a: a.astype(np.int16).astype(np.int32).view(_32))
salu("s_pack_ll_b32_b16", 4, 2, _pack(0, 0))
salu("s_pack_lh_b32_b16", 4, 2, _pack(0, 1))
salu("s_pack_hh_b32_b16", 4, 2, _pack(1, 1))
for _number in (1, 2, 3, 4):
    salu(f"s_lshl{_number}_add_u32", 4, 2, _lshl_add(_number), "pair")


def _narrowing(name: str, source: int, result: int, function: Callable[[Array], Array], scc: str | None = None) -> None:
    """A scalar instruction of one source whose size is not the result's."""

    @instruction(name, takes=f"s{result // 4} S{source // 4}")
    def factory(ins: Instruction, d: Decoder) -> Handler:
        return _run([d.scalar(ins.operands[1], source)], d.scalar_result(ins.operands[0], result), function, scc)


_narrowing("s_ff1_i32_b32", 4, 4, zeros_below)
_narrowing("s_ff1_i32_b64", 8, 4, zeros_below)
_narrowing("s_ff0_i32_b32", 4, 4, lambda a: zeros_below(~a))
_narrowing("s_ff0_i32_b64", 8, 4, lambda a: zeros_below(~a))
_narrowing("s_flbit_i32_b32", 4, 4, zeros_above)
_narrowing("s_flbit_i32_b64", 8, 4, zeros_above)
_narrowing("s_flbit_i32", 4, 4, lambda a: zeros_above(without_sign(_signed(a))))
_narrowing("s_flbit_i32_i64", 8, 4, lambda a: zeros_above(without_sign(_signed(a))))
_narrowing("s_bcnt1_i32_b32", 4, 4, count_ones, "nonzero")
_narrowing("s_bcnt1_i32_b64", 8, 4, count_ones, "nonzero")
_narrowing("s_bcnt0_i32_b32", 4, 4, lambda a: count_ones(~a), "nonzero")
_narrowing("s_bcnt0_i32_b64", 8, 4, lambda a: count_ones(~a), "nonzero")


def _words(name: str) -> int:
    """Of what an instruction writes, whose name ends with its bits."""
    return int(name[-2:]) // 32


@instruction("s_bfm_b32", "s_bfm_b64", takes=lambda name: f"s{_words(name)} S S")
def _bitfield_mask(ins: Instruction, d: Decoder) -> Handler:
    size = int(ins.name[-2:]) // 8
    reads = [d.scalar(ins.operands[index]) for index in (1, 2)]
    return _run(reads, d.scalar_result(ins.operands[0], size), _bfm(size), None)


@instruction("s_addc_u32", "s_subb_u32", takes="s S S")
def _carry(ins: Instruction, d: Decoder) -> Handler:
    reads = [d.scalar(ins.operands[index]) for index in (1, 2)]
    write = d.scalar_result(ins.operands[0])
    subtract = ins.name == "s_subb_u32"

    def run(m: Machine, sel: Sel) -> None:
        a, b = (read(m, sel).astype(np.int64) for read in reads)
        carry = m.scc[sel].astype(np.int64)
        total = a - b - carry if subtract else a + b + carry
        write(m, sel, (total & 0xFFFFFFFF).astype(_32))
        m.scc[sel] = (total < 0) | (total > 0xFFFFFFFF)

    return run


def _selects(name: str) -> str:
    words = _words(name)
    return f"s{words} S{words}" + (f" S{words}" if "cselect" in name else "")


@instruction("s_cselect_b32", "s_cselect_b64", "s_cmov_b32", "s_cmov_b64", takes=_selects)
def _select(ins: Instruction, d: Decoder) -> Handler:
    size = int(ins.name[-2:]) // 8
    yes = d.scalar(ins.operands[1], size)
    no = d.scalar(ins.operands[2] if "cselect" in ins.name else ins.operands[0], size)
    write = d.scalar_result(ins.operands[0], size)
    return lambda m, sel: write(m, sel, np.where(m.scc[sel], yes(m, sel), no(m, sel)))


_BITSET = ("s_bitset0_b32", "s_bitset1_b32", "s_bitset0_b64", "s_bitset1_b64")


@instruction(*_BITSET, takes=lambda name: f"s{_words(name)} S")
def _bitset(ins: Instruction, d: Decoder) -> Handler:
    size = int(ins.name[-2:]) // 8
    word = np.dtype(f"u{size}").type
    old, which = d.scalar(ins.operands[0], size), d.scalar(ins.operands[1])
    write = d.scalar_result(ins.operands[0], size)
    one = "set1" in ins.name

    def run(m: Machine, sel: Sel) -> None:
        bit = word(1) << (which(m, sel) & _32(8 * size - 1)).astype(word)
        write(m, sel, old(m, sel) | bit if one else old(m, sel) & ~bit)

    return run


@instruction("s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32", takes="s I")
def _with_constant(ins: Instruction, d: Decoder) -> Handler:
    """The 16-bit constant is sign-extended; addk sets SCC on signed overflow."""
    value = _constant(d, ins.operands[1], signed=True)
    write = d.scalar_result(ins.operands[0])
    if ins.name == "s_movk_i32":
        return lambda m, sel: write(m, sel, value)
    old = d.scalar(ins.operands[0])
    if ins.name == "s_cmovk_i32":
        return lambda m, sel: write(m, sel, np.where(m.scc[sel], value, old(m, sel)))
    if ins.name == "s_mulk_i32":
        return lambda m, sel: write(m, sel, old(m, sel) * value)
    return _run([old, lambda m, sel: value], write, _add_i, "pair")


def _constant(d: Decoder, operand: Operand, signed: bool) -> Array:
    if not isinstance(operand, Literal) or not isinstance(operand.value, int):
        raise d.error(f"{d.ins.name} needs a constant")
    value = operand.value & 0xFFFF
    if signed and value & 0x8000:
        value |= 0xFFFF0000
    return np.array([value], _32)


_TESTS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "lg": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare(condition: str, kind: str) -> None:
    test = _TESTS[condition]
    size = int(kind[1:]) // 8
    signed = kind[0] == "i"

    names = [f"s_cmp_{condition}_{kind}", *([f"s_cmpk_{condition}_{kind}"] if size == 4 else [])]

    @instruction(*names, takes=lambda name: "S I" if "cmpk" in name else f"S{size // 4} S{size // 4}")
    def factory(ins: Instruction, d: Decoder) -> Handler:
        first = d.scalar(ins.operands[0], size)
        if ins.name.startswith("s_cmpk"):
            second = fixed(_constant(d, ins.operands[1], signed))
        else:
            second = d.scalar(ins.operands[1], size)

        def run(m: Machine, sel: Sel) -> None:
            a, b = first(m, sel), second(m, sel)
            m.scc[sel] = test(_signed(a), _signed(b)) if signed else test(a, b)

        return run


for _condition in _TESTS:
    _compare(_condition, "i32")
    _compare(_condition, "u32")
for _condition in ("eq", "lg"):
    _compare(_condition, "u64")


_BITCMP = ("s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")


@instruction(*_BITCMP, takes=lambda name: f"S{_words(name)} S")
def _bitcmp(ins: Instruction, d: Decoder) -> Handler:
    size = int(ins.name[-2:]) // 8
    word = np.dtype(f"u{size}").type
    value, which = d.scalar(ins.operands[0], size), d.scalar(ins.operands[1])
    wanted = int(ins.name[8])

    def run(m: Machine, sel: Sel) -> None:
        bit = value(m, sel) >> (which(m, sel) & _32(8 * size - 1)).astype(word) & word(1)
        m.scc[sel] = bit == wanted

    return run


_SAVEEXEC: dict[str, Callable[[Array, Array], Array]] = {  # of (source, exec)
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "andn2": lambda s, e: s & ~e,
    "andn1": lambda s, e: ~s & e,
    "orn2": lambda s, e: s | ~e,
    "orn1": lambda s, e: ~s | e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
}


def _saveexec(name: str, function: Callable[[Array, Array], Array]) -> None:
    also = [f"s_{name}_wrexec_b64"] if name.startswith("andn") else []

    @instruction(f"s_{name}_saveexec_b64", *also, takes="s2 S2")
    def factory(ins: Instruction, d: Decoder) -> Handler:
        """The destination gets EXEC's old value, or with wrexec its new one; SCC says whether it is not 0."""
        source = d.scalar(ins.operands[1], 8)
        old = d.scalar(Reg("s", EXEC, 2), 8)
        write_exec = d.scalar_result(Reg("s", EXEC, 2), 8)
        write = d.scalar_result(ins.operands[0], 8)
        gives_new = "wrexec" in ins.name

        def run(m: Machine, sel: Sel) -> None:
            before = old(m, sel)
            after = function(source(m, sel), before)
            write_exec(m, sel, after)
            write(m, sel, after if gives_new else before)
            m.scc[sel] = after != 0

        return run


for _name, _function in _SAVEEXEC.items():
    _saveexec(_name, _function)


@instruction("s_getpc_b64", takes="s2")
def _getpc(ins: Instruction, d: Decoder) -> Handler:
    write = d.scalar_result(ins.operands[0], 8)
    base = np.array([CODE_BASE], np.uint64)
    return lambda m, sel: write(m, sel, base)


@instruction("s_getreg_b32", takes="W")
def _getreg(ins: Instruction, d: Decoder) -> Handler:
    """Hardware registers read as 0; the first operand is the destination."""
    text = ins.operands[0]
    assert isinstance(text, Word)
    from ..parser import parse_operand

    try:
        target = parse_operand(text.text.partition(",")[0].strip())
    except ValueError as problem:
        raise d.error(str(problem)) from None
    write = d.scalar_result(target)
    zero = np.zeros(1, np.uint32)
    return lambda m, sel: write(m, sel, zero)


@instruction("s_memtime", "s_memrealtime", takes="s2")
def _memtime(ins: Instruction, d: Decoder) -> Handler:
    write = d.scalar_result(ins.operands[0], 8)

    def run(m: Machine, sel: Sel) -> None:
        m.clock += 64
        write(m, sel, np.array([m.clock], np.uint64))

    return run


# -- control -----------------------------------------------------------------------------------------------------------


def _split(sel: Sel, taken: Array, target: int, following: int, m: Machine) -> Outcome:
    if taken.all():
        return [(target, sel)]
    if not taken.any():
        return [(following, sel)]
    waves = m.wave[sel]
    return [(following, waves[~taken]), (target, waves[taken])]


_CONDITIONS: dict[str, Callable[[Machine, Sel], Array]] = {
    "s_cbranch_scc0": lambda m, sel: ~m.scc[sel],
    "s_cbranch_scc1": lambda m, sel: m.scc[sel],
    "s_cbranch_vccz": lambda m, sel: (m.s[VCC, sel] | m.s[VCC + 1, sel]) == 0,
    "s_cbranch_vccnz": lambda m, sel: (m.s[VCC, sel] | m.s[VCC + 1, sel]) != 0,
    "s_cbranch_execz": lambda m, sel: (m.s[EXEC, sel] | m.s[EXEC + 1, sel]) == 0,
    "s_cbranch_execnz": lambda m, sel: (m.s[EXEC, sel] | m.s[EXEC + 1, sel]) != 0,
}


def _target(ins: Instruction, d: Decoder) -> int:
    label = d.operand(0)
    if not isinstance(label, Word) or label.text not in d.labels:
        raise d.error(f"{ins.name} goes to {label}, which is no label of this kernel")
    d.target = d.labels[label.text]
    if d.target == d.program.length:
        raise d.error(f"{ins.name} goes past the kernel's end")
    return d.target


@instruction(*_CONDITIONS, takes="L")
def _cbranch(ins: Instruction, d: Decoder) -> Control:
    target, condition = _target(ins, d), _CONDITIONS[ins.name]
    return Control(lambda m, sel, following: _split(sel, condition(m, sel), target, following, m))


@instruction("s_branch", takes="L")
def _branch(ins: Instruction, d: Decoder) -> Control:
    target = _target(ins, d)
    return Control(lambda m, sel, following: [(target, sel)])


@instruction("s_nop", "s_setprio", "s_sleep", "s_inst_prefetch", takes="I")
@instruction("s_icache_inv", "s_dcache_inv", "s_dcache_wb", takes="")
def _nop(ins: Instruction, d: Decoder) -> Handler:
    return lambda m, sel: None


@instruction("s_setreg_b32", "s_setreg_imm32_b32", takes="W")
def _setreg(ins: Instruction, d: Decoder) -> Handler:
    """The mode register's rounding and subnormal fields are as the simulator has them; nothing else is modelled."""
    text = ins.operands[0]
    assert isinstance(text, Word)
    if "HW_REG_MODE" in text.text:
        raise d.error("the simulator does not change rounding or subnormal modes")
    return lambda m, sel: None
