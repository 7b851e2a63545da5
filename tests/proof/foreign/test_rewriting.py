"""Texts whose control flow is rewritten (minitile.proof.loops) compute the same as before, in the simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

from minitile.proof.loops import canonical
from minitile.proof.reading import Statement, statements
from minitile.proof.text import ARITHMETIC, Launch, _body, _instruction, parse
from minitile.runtime.sim import TensorMap, run_ptx
from tests.proof.foreign.sound import HEAD, SOUND, Text
from tests.proof.foreign.test_programs import BOXES

LOOPS = {
    "down": "    mov.u32 %r6, %r9;\nL:\n    setp.eq.u32 %p0, %r6, 0;\n    @%p0 bra E;"
    "\n{}\n    sub.u32 %r6, %r6, 1;\n    bra L;\nE:",
    "down by two": "    shl.b32 %r6, %r9, 1;\n    setp.le.s32 %p0, %r6, 0;\n    @%p0 bra E;"
    "\nL:\n    add.s32 %r6, %r6, -2;\n{}\n"
    "    setp.gt.s32 %p0, %r6, 0;\n    @%p0 bra L;\nE:",
    "up to, with the test in between": "    mov.u32 %r6, 3;\n    add.u32 %r10, %r9, 3;"
    "\n    setp.ge.u32 %p0, %r6, %r10;\n    @%p0 bra E;\nL:\n"
    "    add.u32 %r7, %r6, 2;\n    setp.ne.u32 %p0, %r7, %r11;\n    add.u32 %r6, %r6, 1;\n{}\n    @%p0 bra L;"
    "\nE:".replace("@%p0 bra E;\nL:", "@%p0 bra E;\n    add.u32 %r11, %r10, 1;\nL:"),
    "a copy of the next": "    mov.u32 %r6, 0;\n    setp.eq.u32 %p0, %r9, 0;\n    @%p0 bra E;"
    "\nL:\n    add.u32 %r7, %r6, 1;\n{}\n"
    "    mov.u32 %r6, %r7;\n    setp.lt.u32 %p0, %r6, %r9;\n    @%p0 bra L;\nE:",
    "by a stride": "    mov.u32 %r6, %ctaid.x;\n    mov.u32 %r7, %nctaid.x;\n    add.u32 %r6, %r6, %r7;"
    "\nL:\n    setp.ge.u32 %p0, %r6, %r9;\n"
    "    @%p0 bra E;\n{}\n    add.u32 %r6, %r6, %r7;\n    add.u32 %r6, %r6, %r7;\n    bra L;\nE:",
    "one counter of two loops": "    mov.u32 %r6, 0;\n    setp.eq.u32 %p0, %r9, 0;\n    @%p0 bra E;"
    "\nK:\n    add.u32 %r6, %r6, 1;\n"
    "    setp.lt.u32 %p0, %r6, %r9;\n    @%p0 bra K;\n    mov.u32 %r6, 0;\nL:\n{}\n    add.u32 %r6, %r6, 1;"
    "\n    setp.ge.u32 %p0, %r6, %r9;\n"
    "    @!%p0 bra L;\nE:",
    "by 64 bits": "    mov.u32 %r6, 0;\n    mov.u64 %rd30, 0;\n    cvt.u64.u32 %rd31, %r9;"
    "\n    setp.ge.u64 %p0, %rd30, %rd31;\n    @%p0 bra E;\nL:\n    cvt.u32.u64 %r6, %rd30;\n    bar.sync 0;\n{}\n"
    "    add.s64 %rd30, %rd30, 1;\n    setp.lt.u64 %p0, %rd30, %rd31;\n    @%p0 bra L;\nE:",
    "by a stride, from a sum": "    mov.u32 %r6, %ctaid.x;\n    mov.u32 %r7, %nctaid.x;\n    add.u32 %r6, %r6, 1;"
    "\n    setp.ge.s32 %p0, %r6, %r9;\n    @%p0 bra E;\n    shl.b32 %r7, %r7, 1;\nL:\n    bar.sync 0;\n{}\n"
    "    add.s32 %r6, %r6, %r7;\n    setp.lt.s32 %p0, %r6, %r9;\n    @%p0 bra L;\nE:",
    "by two truths": "    mov.u32 %r6, 0;\n    setp.eq.u32 %p0, %r9, 0;\n    @%p0 bra E;\nL:\n{}\n"
    "    add.u32 %r6, %r6, 1;\n    setp.lt.s32 %p0, %r6, %r9;\n    setp.ne.u32 %p1, %r22, 35;"
    "\n    and.pred %p2, %p1, %p0;\n    @%p2 bra L;\nE:",
    "its end in front": "    mov.u32 %r6, 0;\n    bra H;\nK:\n    add.u32 %r6, %r6, 1;\nH:\n"
    "    setp.ge.u32 %p0, %r6, %r9;\n    @%p0 bra E;\n{}\n    bar.sync 0;\n    bra K;\nE:",
    "a copy first": "    mov.u32 %r7, 0;\n    mov.u32 %r6, 0;\n    setp.eq.u32 %p0, %r9, 0;\n    @%p0 bra E;\nL:\n"
    "    mov.u32 %r6, %r7;\n{}\n    add.u32 %r7, %r6, 1;\n    setp.lt.u32 %p0, %r7, %r9;\n    @%p0 bra L;\nE:",
    "by two": "    mov.u32 %r6, 0;\n    setp.eq.u32 %p0, %r9, 0;\n    @%p0 bra E;\nL:\n{}\n"
    "    add.u32 %r6, %r6, 2;\n    setp.lt.u32 %p0, %r6, %r9;\n    @%p0 bra L;\nE:",
}
# What each round leaves: a number of the round, and of registers that grow with it.
WORK = """
    mad.lo.u32 %r20, %r20, 3, %r6;
    add.u32 %r21, %r21, 7;
    add.u32 %r22, %r22, %r21;
    st.shared.u32 [%r5], %r22;
    mul.wide.u32 %rd20, %r22, -1431655765;
    shr.u64 %rd21, %rd20, 33;
    cvt.u32.u64 %r23, %rd21;
    add.u32 %r20, %r20, %r23;
    add.s64 %rd22, %rd22, 5;
    cvt.u32.u64 %r24, %rd22;
    add.u32 %r20, %r20, %r24;"""
BEGIN = "    mov.u32 %r20, 1;\n    mov.u32 %r21, %r0;\n    mov.u32 %r22, 0;\n    mov.u64 %rd22, 11;\n"
END = "\n    add.u32 %r20, %r20, %r6;\n    add.u32 %r20, %r20, %r21;\n    st.global.u32 [%rd4], %r20;\n"
CASES = {f"{name}": Text(BEGIN + loop.format(WORK) + END) for name, loop in LOOPS.items()} | SOUND
# What these give hangs on the schedule, or on data that is not told.
NOT_COMPARED = {"dynamic_tiles"}


def rewritten(text: str) -> str:
    """The text with its control flow as the prover sees it."""
    _, header, body = _body(text)
    found, last = canonical(*statements(body), lambda each: _instruction(0, each).writes, ARITHMETIC)
    names = {name for each in found for arg in (*each.args, each.guard) for name in re.findall(r"%[A-Za-z_]\w*", arg)}
    new = sorted(name for name in names if re.fullmatch(r"%_\d+c\d+|%\w+__\d+", name))
    declared = "\n".join(line for line in HEAD.split("{{\n")[1].split("\n") if ".reg" in line)
    lines = [f"{header.rstrip()}\n{{", declared, *(f"    .reg .{kind_of(name, found)} {name};" for name in new)]
    for each in found:
        lines += [f"{label.replace('~', 'R_')}:" for label in each.labels]
        if not each.op.startswith("~"):  # what asks whether a loop ends
            lines.append(f"    {each.text.replace('~', 'R_')};")
    return "\n".join([*lines, *(f"{label}:" for label in last), "}", ""])


def kind_of(name: str, found: list[Statement]) -> str:
    for each in found:
        if name == each.guard or (each.args and each.args[0] == name and each.op.startswith(("setp", "mbarrier.try"))):
            return "pred"
        if each.args and each.args[0] == name and re.search(r"\.[busf]64|\.wide", each.op):
            return "b64"
    return "b32"


def outputs(ptx: str, text: Text, n: int) -> np.ndarray:
    maps = [TensorMap(np.ones((256, 512), np.uint16), box=BOXES[text.boxes.get(name, 1024)]) for name in ("ma", "mb")]
    out = np.zeros(1 << 16, np.int32)
    data = np.random.default_rng(0).integers(0, 40, 1 << 16, dtype=np.int32)
    arguments = [data, out, np.uint32(n), *maps]
    run_ptx(ptx, "kernel", (1, 1, 1), (text.threads, 1, 1), arguments, dynamic_shared=text.shared, check=False)
    return out


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_COMPARED])
def test_rewritten_texts_compute_the_same(name):
    text = CASES[name]
    again = rewritten(text.ptx)
    for n in (0, 1, 2, 5, 8) if name in LOOPS else (3,):
        assert (outputs(text.ptx, text, n) == outputs(again, text, n)).all(), n


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_rewritten(name):
    """Each form comes to a loop that counts up to a bound."""
    text = CASES[name]
    program = parse(text.ptx, Launch({}, threads=text.threads, shared=text.shared))
    assert len(program.loops) == 1  # one that only computes is passed in one step
    assert not program.stepped
