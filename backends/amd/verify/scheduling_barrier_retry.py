"""LLVM IR to assembly that keeps the schedule: as it is; if LLVM has moved what must not move, once more with it pinned
down; if the assembly still can't be shown to keep it, with copies that nothing runs beside.

    call void @llvm.amdgcn.s.waitcnt(i32 3954)           call void @llvm.amdgcn.sched.barrier(i32 0)
    call void @llvm.amdgcn.s.barrier()             →     call void @llvm.amdgcn.s.waitcnt(i32 3954)
                                                         call void @llvm.amdgcn.sched.barrier(i32 0)
                                                         call void @llvm.amdgcn.s.barrier()
                                                         call void @llvm.amdgcn.sched.barrier(i32 0)

LLVM 22 keeps the order of copies, waits and barriers by itself, so that the second time is for LLVMs to come. Loads and
stores that LLVM moves between them only make a wait stronger. Scheduling barriers around everything would cost speed
where nothing is wrong.

The third time is for ways through the assembly that cannot be told from those of the IR (waitcnt_verification.py):
vmcnt(0) behind each copy, vmcnt(0) and lgkmcnt(0) in front of each barrier. Then nothing is under way from one block to
another, which is seen in each block by itself (`awaited_at_once`), whatever ways there are. It is slower, and noted.

A program is compiled again as well where LLVM leaves too few wait states behind matrix instructions (mfma_waits.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from minitile.backends.amd.assemble.codegen import generate
from minitile.backends.amd.verify.check import remarks, spills
from minitile.backends.amd.verify.mfma_waits import early_use, with_wait_states
from minitile.backends.amd.verify.waitcnt_verification import ScheduleError, awaited_at_once, source_of
from minitile.hardware import Target
from minitile.ir.diagnostics import InternalError

_BARRIER = "declare void @llvm.amdgcn.sched.barrier(i32)"
_WAIT = "declare void @llvm.amdgcn.s.waitcnt(i32)"
_PIN = "  call void @llvm.amdgcn.sched.barrier(i32 0)"
_FOR_COPIES = "  call void @llvm.amdgcn.s.waitcnt(i32 3952)"  # vmcnt(0)
_FOR_ALL = "  call void @llvm.amdgcn.s.waitcnt(i32 112)"  # vmcnt(0) lgkmcnt(0)
_FIXED = re.compile(r"\s+call void @llvm\.amdgcn\.(s\.waitcnt|s\.barrier|raw\.ptr\.buffer\.load\.lds)\(")


def generate_in_order(llvm: str, target: Target) -> tuple[str, str, list[str]]:
    """The LLVM IR that was compiled in the end, its assembly, and what to note. Raises ScheduleError where LLVM does
    not keep the schedule even so, and what `generate` raises."""
    level, made, text, notes = _kept(llvm, target, 0)
    if early_use(text, target):
        again = "compiled again with wait states behind matrix instructions and masks, of which LLVM left too few"
        _, made, text, found = _kept(with_wait_states(llvm), target, level)
        notes = [again, *(note for note in notes if note not in found), *found]
        line = early_use(text, target)
        if line:
            what = "LLVM leaves too few wait states between an instruction and what uses its result"
            raise InternalError(what, source_of(text, line))
    return made, text, notes


def _kept(llvm: str, target: Target, level: int) -> tuple[int, str, str, list[str]]:
    """From one of the levels on, the first that keeps the schedule: its number, the LLVM IR, the assembly, notes."""
    notes: list[str] = []
    while True:
        made = _LEVELS[level].change(llvm)
        try:
            text = generate(made, target)
            return level, made, text, [*notes, *_LEVELS[level].check(made, text)]
        except ScheduleError as error:
            level += 1
            if level == len(_LEVELS):
                raise
            notes.append(f"compiled again with {_LEVELS[level].what}: {error.message}")


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
    return _declaring(made, _BARRIER)


def awaited(llvm: str) -> str:
    """The same program with all under way awaited in front of each barrier, and each copy behind itself; pinned."""
    made: list[str] = []
    for line in llvm.splitlines():
        fixed = _FIXED.match(line)
        before = [_FOR_ALL] if fixed and fixed[1] == "s.barrier" else []
        behind = [_FOR_COPIES] if fixed and fixed[1].endswith("lds") else []
        made += [*before, line, *behind]
    return pinned(_declaring(made, _WAIT))


def _declaring(lines: list[str], declaration: str) -> str:
    start = declaration.partition("(")[0] + "("
    return "\n".join([*lines, *([] if any(line.startswith(start) for line in lines) else [declaration])]) + "\n"


def _at_once(llvm: str, text: str) -> list[str]:
    awaited_at_once(text)
    return spills(text)


@dataclass(frozen=True, slots=True)
class _Level:
    """What is compiled instead of a program, and how its assembly is checked: what to note, or a ScheduleError."""

    what: str
    change: Callable[[str], str]
    check: Callable[[str, str], list[str]]


_LEVELS = (
    _Level("", lambda llvm: llvm, remarks),
    _Level("scheduling barriers", pinned, remarks),
    _Level("a wait behind each copy, since no count is known that holds on every path", awaited, _at_once),
)
