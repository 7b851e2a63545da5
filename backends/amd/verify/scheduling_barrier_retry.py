"""LLVM IR to assembly that keeps the schedule: as it is, and if LLVM has moved what must not move, once more with it
pinned down.

    call void @llvm.amdgcn.s.waitcnt(i32 3954)           call void @llvm.amdgcn.sched.barrier(i32 0)
    call void @llvm.amdgcn.s.barrier()             →     call void @llvm.amdgcn.s.waitcnt(i32 3954)
                                                         call void @llvm.amdgcn.sched.barrier(i32 0)
                                                         call void @llvm.amdgcn.s.barrier()
                                                         call void @llvm.amdgcn.sched.barrier(i32 0)

LLVM 22 keeps the order of copies, waits and barriers by itself, so that the second time is for LLVMs to come. Counts
are not corrected: they are of copies alone, whose order is compared; loads and stores that LLVM moves between them only
make a wait stronger. Scheduling barriers around everything would cost speed where nothing is wrong.

A program is compiled again as well where LLVM leaves too few wait states behind matrix instructions (mfma_waits.py).
"""

from __future__ import annotations

import re

from minitile.backends.amd.assemble.codegen import generate
from minitile.backends.amd.verify.check import remarks
from minitile.backends.amd.verify.mfma_waits import early_use, with_wait_states
from minitile.backends.amd.verify.waitcnt_verification import ScheduleError, source_of
from minitile.ir.diagnostics import InternalError
from minitile.target import Target

_PIN = "  call void @llvm.amdgcn.sched.barrier(i32 0)"
_DECLARED = "declare void @llvm.amdgcn.sched.barrier(i32)"
_FIXED = re.compile(r"\s+call void @llvm\.amdgcn\.(s\.waitcnt|s\.barrier|raw\.ptr\.buffer\.load\.lds)\(")


def generate_in_order(llvm: str, target: Target) -> tuple[str, str, list[str]]:
    """The LLVM IR that was compiled in the end, its assembly, and what to note. Raises ScheduleError where LLVM does
    not keep the schedule even so, and what `generate` raises."""
    notes = []
    try:
        text = generate(llvm, target)
        found = remarks(llvm, text)
    except ScheduleError as error:
        notes.append(f"compiled again with scheduling barriers: {error.message}")
        llvm = pinned(llvm)
        text = generate(llvm, target)
        found = remarks(llvm, text)
    if early_use(text, target):
        notes.append("compiled again with wait states behind matrix instructions and masks, of which LLVM left too few")
        llvm = with_wait_states(llvm)
        text = generate(llvm, target)
        found = remarks(llvm, text)
        line = early_use(text, target)
        if line:
            what = "LLVM leaves too few wait states between an instruction and what uses its result"
            raise InternalError(what, source_of(text, line))
    return llvm, text, [*notes, *found]


def pinned(llvm: str) -> str:
    """The same program with a scheduling barrier on either side of each copy, wait and barrier."""
    made: list[str] = []
    for line in llvm.splitlines():
        if not _FIXED.match(line):
            made.append(line)
            continue
        if made[-1] != _PIN:
            made.append(_PIN)
        made += [line, _PIN]
    if not any(line.startswith(_DECLARED[:-5]) for line in made):
        made.append(_DECLARED)
    return "\n".join(made) + "\n"
