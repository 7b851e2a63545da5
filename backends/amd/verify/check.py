"""Reads the assembly that LLVM returns: what a kernel costs, and what it must not contain.

A call (s_swappc) is a misspelt intrinsic or a library function that does not exist. A barrier with LDS accesses of
the own wave still under way would hand over what is not there yet, or let others overwrite what is still to be read:
LLVM was asked by fences to wait, and this makes sure that it did.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from minitile.backends.amd.emit.intrinsics import SWITCHED_OFF
from minitile.backends.amd.verify.waitcnt_verification import ScheduleError, source_of, verify_waits
from minitile.hardware import Target
from minitile.ir.diagnostics import InternalError


@dataclass(frozen=True, slots=True)
class Costs:
    """Per thread: registers (vector, scalar), how many are spilled, bytes of scratch; per block: bytes of LDS."""

    vgprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch: int
    lds: int


_NUMBER = re.compile(r"^\s*\.(\w+):\s*(\d+)\s*$", re.MULTILINE)


def costs(text: str) -> Costs:
    """What the metadata of a kernel's assembly says."""
    metadata = text[max(0, text.find(".amdgpu_metadata")) :]  # all the code stands in front
    numbers = dict(_NUMBER.findall(metadata))

    def number(key: str) -> int:
        if key not in numbers:
            raise InternalError(f"LLVM's assembly says nothing of .{key}")
        return int(numbers[key])

    return Costs(
        number("vgpr_count"),
        number("sgpr_count"),
        number("vgpr_spill_count"),
        number("sgpr_spill_count"),
        number("private_segment_fixed_size"),
        number("group_segment_fixed_size"),
    )


_ARGUMENT = re.compile(r"\.name:\s+'?([^\s']+)'?\s+\.offset:\s+(\d+)\s+\.size:\s+(\d+)")


def arguments(text: str) -> list[tuple[str, int, int]]:
    """The kernel's arguments in its assembly's metadata: name, offset and size in bytes."""
    return [(name, int(offset), int(size)) for name, offset, size in _ARGUMENT.findall(text)]


def check(text: str, target: Target) -> None:
    """Raises InternalError for assembly that must not run."""
    if re.search(r"^\s*s_swappc", text, re.MULTILINE):
        raise InternalError(f"LLVM made a call of something that {target} has no instruction for")
    line = erratum(text, target)
    if line:
        raise InternalError(
            f"LLVM wrote v_pk_fma_f32 with op_sel:[0,1,0], which {target} computes wrongly", source_of(text, line)
        )
    lds = costs(text).lds
    if lds > target.max_shared:
        raise InternalError(f"LLVM placed {lds} bytes of LDS; {target} has {target.max_shared}")
    line = unwaited_barrier(text)
    if line:
        what = f"LLVM left LDS accesses outstanding at the barrier in line {line} of its assembly"
        raise ScheduleError(what, text, line)


def remarks(llvm: str, text: str) -> list[str]:
    """What costs speed: spilled registers, and waits for copies that LLVM has made stronger than the schedule's. Raises
    ScheduleError where they are weaker, or in another order."""
    return spills(text) + verify_waits(llvm, text)


def spills(text: str) -> list[str]:
    """What to note of spilled registers."""
    cost = costs(text)
    if not cost.vgpr_spills and not cost.sgpr_spills:
        return []
    return [f"LLVM spills {cost.vgpr_spills} vector and {cost.sgpr_spills} scalar registers"]


def steady_loop(text: str) -> list[str]:
    """The instructions of the loop that multiplies: of the blocks that end in a jump to their own label the one with
    most matrix instructions. [] where there is none."""
    best: list[str] = []
    label, block = "", list[str]()
    for line in text.splitlines():
        words = line.split()
        if not words or (words[0].startswith((";", ".")) and not words[0].endswith(":")):
            continue
        if words[0].endswith(":"):
            label, block = words[0][:-1], []
            continue
        block.append(" ".join(line.partition(";")[0].split()))
        if words[0].startswith("s_cbranch") and words[-1] == label and _products(block) > _products(best):
            best = block
    return best


def _products(block: list[str]) -> int:
    return sum(line.startswith("v_mfma") for line in block)


_BROADCAST = re.compile(r"^\s+v_pk_fma_f32\b.*\bop_sel:\[0,1,0\]")


def erratum(text: str, target: Target) -> int:
    """The number of the first line with a packed multiply-add that the target computes wrongly (intrinsics.py); 0 for
    none."""
    if not SWITCHED_OFF[target.lowering]:
        return 0
    return next((number for number, line in enumerate(text.splitlines(), 1) if _BROADCAST.match(line)), 0)


# Shuffles go through the LDS unit too, but touch no memory: LLVM moves them between a wait and its barrier.
_COUNTED = re.compile(r"^\s+(ds_(?!swizzle|b?permute|nop)\w+|s_waitcnt|s_barrier)\b(.*)$")


def unwaited_barrier(text: str) -> int:
    """The number of the first line with an s_barrier that LDS accesses of the same block of code may pass; 0 if there
    is none. Blocks are looked at one by one: what ends in another block is LLVM's own bookkeeping to follow."""
    pending = False
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line[0].isspace():
            pending = False  # a label
            continue
        found = _COUNTED.match(line)
        if found is None:
            continue
        opcode, operands = found.groups()
        if opcode == "s_barrier":
            if pending:
                return number
        elif opcode == "s_waitcnt":
            if "lgkmcnt(0)" in operands:
                pending = False
        else:
            pending = True
    return 0
