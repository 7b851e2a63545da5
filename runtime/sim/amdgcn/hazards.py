"""Wait states that software must keep between instructions (CDNA3 ISA, 4.5 "Manually Inserted Wait States").

The hardware does not interlock everything: the result of a matrix instruction may be read by another unit only so many
instructions later (s_nop N counts as N + 1), and some other pairs need distance too. This is checked over all paths of
the program: from each producing instruction forward, with the least distance at which each instruction is reached.

P passes (of four cycles); gfx950 needs one more wait state where P > 2 (LLVM, GCNHazardRecognizer.cpp,
GFX940_XDL_N_Pass...):

    matrix result, narrow types    read or written by a vector instruction, read by memory or as A or B: P + 3
                                   read as C, other registers: P + 1; the same registers: 0 (2 if P is 2)
    matrix result, f32 sources     P + 2, P + 2, P, the same
    C of narrow types, written by a vector instruction: P - 1
    A, B or C, written by a vector instruction in front: 2 (LLVM, GCNHazardRecognizer::checkMAIHazards90A)

The other pairs are in `_sources` and the functions that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.report import Access, Finding
from .decode import VECTOR
from .program import Program, Step
from .syntax import M0, VCC, Literal, Reg
from .units import LDS, MFMA, NOP, SALU, TRANS, VALU, VMEM, is_xdl, passes_of, unit_of

Rows = frozenset[int]


@dataclass(frozen=True, slots=True)
class Source:
    """Something that must not be touched too early: `need` gives the wait states before an instruction, and why; they
    are never more than `most`."""

    rows: Rows
    need: Callable[[Step, str, Rows], tuple[int, str]]
    most: int


def find_hazards(program: Program, executed: list[int]) -> list[Finding]:
    """One finding for each pair of instructions that may come too close; only of those that were executed."""
    code = program.code
    units = [unit_of(step.ins) for step in code]
    follows = [_follows(step, unit, index) for index, (step, unit) in enumerate(zip(code, units, strict=True))]
    findings = []
    for index, step in enumerate(code):
        sources = _sources(step, units[index], program.arch) if executed[index] else ()
        reached = _walk(follows, index, max((source.most for source in sources), default=0))
        for source in sources:
            for other, distance in reached.items():
                if executed[other] and not source.rows.isdisjoint(code[other].touched):
                    needed, why = source.need(code[other], units[other], source.rows)
                    if distance < needed:
                        findings.append(_finding(program, source, step, code[other], distance, needed, why))
    return findings


def _finding(
    program: Program, source: Source, step: Step, other: Step, distance: int, needed: int, why: str
) -> Finding:
    row = min(source.rows & other.touched)
    message = f"{why}: {needed} wait states are needed, there are {distance}"
    cure = f"s_nop {needed - distance - 1} between them"
    first = Access("use", other.ins.line, other.ins.text, other.ins.source, isa="GCN")
    second = Access("result", step.ins.line, step.ins.text, step.ins.source, isa="GCN")
    return Finding("hazard", message, first, second, space="register", buffer=program.row_name(row), cure=cure)


Follows = tuple[int, tuple[int, ...]]  # the wait states that an instruction is worth, what may come next


def _follows(step: Step, unit: str, index: int) -> Follows:
    ins = step.ins
    states = 1
    if unit == NOP and ins.name == "s_nop" and isinstance(ins.operands[0], Literal):
        states = int(ins.operands[0].value) + 1
    if ins.name == "s_endpgm":
        return states, ()
    ahead = () if ins.name == "s_branch" else (index + 1,)
    return states, ahead if step.target is None else (step.target, *ahead)


def _walk(follows: list[Follows], start: int, most: int) -> dict[int, int]:
    """The least wait states since `start`, fewer than `most`, of what follows."""
    best: dict[int, int] = {}
    open_ends = [(start + 1, 0)]
    while open_ends:
        at, states = open_ends.pop()
        if states >= most or at >= len(follows) or best.get(at, most) <= states:
            continue
        best[at] = states
        cost, ahead = follows[at]
        for following in ahead:
            open_ends.append((following, states + cost))
    return best


def _sources(step: Step, unit: str, arch: str) -> list[Source]:
    """What an instruction makes delicate."""
    if unit == MFMA:
        return _matrix_sources(step, arch)
    sources = []
    vectors = frozenset(row for row in step.writes if row >= VECTOR)
    scalars = step.writes - vectors
    if unit == TRANS:
        sources.append(Source(vectors, _after_trans, 1))
    if unit == VMEM and "store" in step.ins.name:
        sources += _store_sources(step)
    if unit == SALU and M0 in scalars:
        sources.append(Source(frozenset({M0}), _use_of_m0, 1))
    if unit in (VALU, TRANS):
        sources.append(Source(vectors, _dpp_read, 2))
        sources.append(Source(vectors, _matrix_read, 2))
        if scalars:
            sources.append(Source(scalars, _scalar_read, 5))
    return sources


def _is_operand(step: Step, index: int, rows: Rows) -> bool:
    """Whether one of the rows is in an operand."""
    operand = step.ins.operands[index]
    if not isinstance(operand, Reg):
        return False
    first = operand.first + (0 if operand.file == "s" else VECTOR)
    return not rows.isdisjoint(range(first, first + operand.count))


def _store_sources(step: Step) -> list[Source]:
    """A store of more than two dwords reads its data late (LLVM, GCNHazardRecognizer::createsVALUHazard)."""
    ins = step.ins
    buffer = ins.name.startswith("buffer")
    data = ins.operands[0 if buffer else 1]
    if not isinstance(data, Reg) or data.count <= 2 or (buffer and isinstance(ins.operands[-1], Reg)):
        return []
    rows = frozenset(VECTOR + data.first + index for index in range(data.count)) & step.reads
    return [Source(rows, _write_of_data, 2)]


def _use_of_m0(step: Step, unit: str, rows: Rows) -> tuple[int, str]:
    if unit == VMEM and M0 in step.reads:
        return 1, "LDS-DMA reads the M0 that a scalar instruction has just written"
    return 0, ""


def _write_of_data(step: Step, unit: str, rows: Rows) -> tuple[int, str]:
    if unit in (VALU, TRANS) and not rows.isdisjoint(step.writes):
        return 2, "a vector instruction overwrites the data of a store of three or four dwords"
    return 0, ""


def _dpp_read(step: Step, unit: str, rows: Rows) -> tuple[int, str]:
    if step.ins.encoding == "dpp" and _is_operand(step, 1, rows):
        return 2, "DPP reads what a vector instruction has just written"
    return 0, ""


def _matrix_read(step: Step, unit: str, rows: Rows) -> tuple[int, str]:
    matrix = step.matrix
    if matrix is not None and not (rows.isdisjoint(matrix.factors) and rows.isdisjoint(matrix.addend)):
        return 2, "a matrix instruction reads what a vector instruction has just written"
    return 0, ""


def _after_trans(step: Step, unit: str, rows: Rows) -> tuple[int, str]:
    return (1, "a vector instruction uses the result of a transcendental one") if unit == VALU else (0, "")


def _scalar_read(step: Step, unit: str, rows: Rows) -> tuple[int, str]:
    if rows.isdisjoint(step.reads):
        return 0, ""
    if unit == VMEM:
        return 5, "vector memory reads a scalar register that a vector instruction wrote"
    if step.ins.name.startswith("v_div_fmas") and VCC in rows:
        return 4, "v_div_fmas reads the vcc of a vector instruction"
    if step.ins.name in ("v_readlane_b32", "v_writelane_b32") and _is_operand(step, 2, rows):
        return 4, "the lane number comes from a vector instruction"
    if unit in (VALU, TRANS):
        return 2, "a vector instruction reads a scalar register or mask that another one wrote"
    return 0, ""


def _matrix_sources(step: Step, arch: str) -> list[Source]:
    matrix = step.matrix
    if matrix is None or matrix.double:
        return []
    passes = passes_of(step.ins, arch)
    xdl = is_xdl(step.ins)
    more = int(arch == "gfx950" and passes != 2 and xdl)
    outside = passes + (3 if xdl else 2) + more
    result, addend = frozenset(matrix.result), frozenset(matrix.addend)
    what = f"the result of a matrix instruction of {passes} passes"

    def use_of_result(other: Step, unit: str, rows: Rows) -> tuple[int, str]:
        if unit == MFMA and other.matrix is not None:
            if not result.isdisjoint(other.matrix.factors):
                return outside, f"{what} is read as A or B"
            if frozenset(other.matrix.addend) == result:
                return (2 if passes == 2 else 0), f"{what} is read as C"
            if not result.isdisjoint(other.matrix.addend):
                return passes + (1 if xdl else 0) + more, f"{what} is read as part of another C"
            return 0, ""
        if unit in (VALU, TRANS):
            return outside, f"{what} is touched by a vector instruction"
        if unit in (VMEM, LDS) and not result.isdisjoint(other.reads):
            return outside, f"{what} is read by a memory instruction"
        return 0, ""

    def write_of_addend(other: Step, unit: str, rows: Rows) -> tuple[int, str]:
        if xdl and unit in (VALU, TRANS) and not addend.isdisjoint(other.writes):
            return passes - 1, f"C of a matrix instruction of {passes} passes is overwritten"
        return 0, ""

    return [Source(result, use_of_result, outside), Source(addend, write_of_addend, passes - 1)]
