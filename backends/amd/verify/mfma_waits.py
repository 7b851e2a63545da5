"""Wait states behind matrix instructions and masks, on LLVM's assembly: from block to block LLVM 22 can leave too few.

The result of a matrix instruction is not to be touched for a number of wait states; an instruction that comes too early
gets what was there before. LLVM's hazard recognizer goes back from a use through the blocks in front, visits each block
once, and takes the least distance that it has met (GCNHazardRecognizer.cpp, getWaitStatesSince). A block that it has
reached by a longer way first is not looked at again by a shorter one:

    v_mfma_f32_32x32x16_f16 v[2:17], …            12 wait states on gfx950
    s_cbranch_execz .use                          the way that is too short
    …                                             the way that is long enough, seen first
    .use:
    v_min_f32 v2, …

Its addend is read while it runs: a vector instruction that overwrites one too early changes what is added to. Two are
wanted between a vector instruction that makes an operand and the matrix instruction, and likewise between one that
makes a mask or scalar and another one that reads it; LLVM has been seen to leave one out behind a comparison at the
end of the block before.

`early_use` finds such uses: over ways of more than one block, since within one LLVM is right. `with_wait_states` is the
same program with enough of them at the end of each block that multiplies, in front of its first product, and in front
of bools that become numbers, for a second compilation.

Source: "CDNA 3" and "CDNA 4" Instruction Set Architecture, 4.5 (manually inserted wait states); LLVM 22,
GCNHazardRecognizer.cpp (GFX940_XDL_N_PassWriteVgprVALUMemExpReadWaitStates and its like), SISchedule.td (passes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from minitile.backends.amd.verify.assembly import Code, Instruction, read
from minitile.hardware import Target

# 24 wait states; no matrix instruction needs more than 20.
_NOPS = ("  call void @llvm.amdgcn.sched.barrier(i32 0)", *["  call void @llvm.amdgcn.s.nop(i16 7)"] * 3)
_SHORT_NOPS = (_NOPS[0], "  call void @llvm.amdgcn.s.nop(i16 1)", _NOPS[0])
_DECLARED = ("declare void @llvm.amdgcn.sched.barrier(i32)", "declare void @llvm.amdgcn.s.nop(i16)")
_MATRIX = re.compile(r"^v_mfma_(?:scale_)?\w+?_(\d+)x\d+x\d+_?(\w*)")
_SCALAR = re.compile(r"\b(vcc)\b|\bs(\d+)\b|\bs\[(\d+):(\d+)\]")
_CARRIES = re.compile(r"^v_\w*(_co_|div_scale|mad_[ui]64)")
_VECTOR = re.compile(r"\b([va])(\d+)\b|\b([va])\[(\d+):(\d+)\]")

Rows = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """`states`: the wait states that it is worth; `operands`: the vector registers of each operand; `vector`: a vector
    instruction, but none of the matrix unit."""

    line: int
    text: str
    states: int
    operands: tuple[Rows, ...]
    matrix: bool
    vector: bool


def early_use(text: str, target: Target) -> int:
    """The number of the first line that touches the result of a matrix instruction of another block too early; 0 if
    there is none."""
    code, following, blocks = _followed(read(text))
    found = [0]
    for at, ins in enumerate(code):
        if ins.matrix:
            found += _too_early(at, code, following, blocks, target)
        elif ins.vector:
            found += _made_too_late(at, code, following, blocks)
    return min((line for line in found if line), default=0)


def with_wait_states(llvm: str) -> str:
    """The same program with wait states in front of the end of each block that multiplies."""
    made: list[str] = []
    multiplies = False
    for line in llvm.splitlines():
        if line and not line[0].isspace():
            multiplies = False
        if not multiplies and line.startswith("  ") and "@llvm.amdgcn.mfma." in line:
            multiplies = True
            made += _SHORT_NOPS
        if multiplies and line.startswith(("  br ", "  ret ", "  switch ")):
            made += _NOPS
        if " = zext i1 " in line:
            made += _SHORT_NOPS
        made.append(line)
    known = "\n".join(made)
    made += [line for line in _DECLARED if line.rpartition("(")[0] + "(" not in known.replace("call", "")]
    return "\n".join(made) + "\n"


def _too_early(
    start: int, code: list[_Instruction], following: list[tuple[int, ...]], blocks: list[int], target: Target
) -> list[int]:
    """The lines of other blocks that touch the result of the instruction at `start`, or write its addend, too early."""
    result, _, _, addend, *_ = code[start].operands
    passes, narrow = _passes(code[start].text)
    outside = passes + (3 if narrow else 2) + int(narrow and target.lowering == "gfx950" and passes > 2)
    read = passes - 1 if narrow else 0  # the wait states until its addend has been read
    best: dict[int, int] = {}
    lines, ends = [], [(n, 0) for n in following[start]]
    while ends:
        at, states = ends.pop()
        if states >= outside or best.get(at, outside) <= states:
            continue
        best[at] = states
        ins = code[at]
        if blocks[at] != blocks[start]:
            overwrites = ins.vector and not addend.isdisjoint(ins.operands[0])
            if states < _needed(ins, result, outside) or (overwrites and states < read):
                lines.append(ins.line)
        if ins.matrix and ins.operands[0] >= result:
            continue  # a new result stands there
        ends += [(n, states + ins.states) for n in following[at]]
    return lines


def _made_too_late(
    start: int, code: list[_Instruction], following: list[tuple[int, ...]], blocks: list[int]
) -> list[int]:
    """The lines of other blocks where, less than two wait states later, another vector instruction reads a scalar that
    the one at `start` makes, or a matrix instruction a vector register of it."""
    made, scalars = code[start].operands[0], _scalars_made(code[start].text)
    lines, ends = [], [(n, 0) for n in following[start]]
    while ends:
        at, states = ends.pop()
        ins = code[at]
        if states >= 2:
            continue
        if blocks[at] != blocks[start]:
            reads = ins.matrix and any(not made.isdisjoint(rows) for rows in ins.operands[1:4])
            if reads or (ins.text.startswith("v_") and not scalars.isdisjoint(_scalars_read(ins.text))):
                lines.append(ins.line)
        ends += [(n, states + ins.states) for n in following[at]]
    return lines


def _scalars_made(text: str) -> frozenset[str]:
    return frozenset(name for operand in _operands(text)[: _results(text)] for name in _scalars(operand))


def _scalars_read(text: str) -> frozenset[str]:
    return frozenset(name for operand in _operands(text)[_results(text) :] for name in _scalars(operand))


def _operands(text: str) -> list[str]:
    return text.partition(" ")[2].split(", ")


def _results(text: str) -> int:
    """How many operands an instruction writes: a carry or a mask besides its result."""
    return 2 if _CARRIES.match(text) else 1


def _scalars(operand: str) -> Iterator[str]:
    for match in _SCALAR.finditer(operand):
        if match[1]:
            yield "vcc"
        elif match[2]:
            yield f"s{match[2]}"
        else:
            yield from (f"s{n}" for n in range(int(match[3]), int(match[4]) + 1))


def _needed(ins: _Instruction, result: Rows, outside: int) -> int:
    """The wait states before an instruction that touches a result."""
    if not ins.matrix:
        return outside if any(not rows.isdisjoint(result) for rows in ins.operands) else 0
    _, a, b, addend = (*ins.operands, frozenset(), frozenset(), frozenset())[:4]
    if not result.isdisjoint(a | b):
        return outside
    return 0 if addend == result or result.isdisjoint(addend) else outside - 2


def _passes(text: str) -> tuple[int, bool]:
    """Passes of four cycles, and whether the narrow types' part of the unit executes it."""
    match = _MATRIX.match(text)
    assert match is not None
    wide, types = int(match[1]) == 32, match[2]
    if types.endswith("f64"):
        return 16, False
    if types == "f32":
        return (16 if wide else 8), False
    if "f8f6f4" in types:
        return (16 if wide else 8), True
    return (8 if wide else 4), True


def _followed(code: Code) -> tuple[list[_Instruction], list[tuple[int, ...]], list[int]]:
    """The instructions, what may follow each, and the number of its block."""
    found = [_instruction(ins) for ins in code.instructions]
    following: list[tuple[int, ...]] = [(n + 1,) for n in range(len(found))]
    for block in code.blocks:
        following[block.stop - 1] = tuple(code.blocks[to].start for to in block.following)
    return found, following, code.block_of_each()


def _instruction(ins: Instruction) -> _Instruction:
    operands = tuple(map(_rows, ins.operands)) if ins.name[0] in "vdgbf" else ()
    states = int(ins.operands[0]) + 1 if ins.name == "s_nop" else 1
    matrix = ins.name.startswith("v_mfma")
    return _Instruction(ins.line, ins.text, states, operands, matrix, ins.name.startswith("v_") and not matrix)


def _rows(operand: str) -> Rows:
    rows: set[tuple[str, int]] = set()
    for match in _VECTOR.finditer(operand):
        if match[1]:
            rows.add((match[1], int(match[2])))
        else:
            rows.update((match[3], n) for n in range(int(match[4]), int(match[5]) + 1))
    return frozenset(rows)
