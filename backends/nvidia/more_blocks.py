"""Relocatable code takes more registers than a whole program's: where that leaves a block alone, two are asked for.

Where ptxas compiles a whole program, it aims at 1024 threads of a multiprocessor, 64 registers each, unless it spills.
Relocatable code, which nvJitLink always makes, takes what the schedule likes best, and less if it is asked:

    kernel of mt.ops                                registers asked for   else   blocks of a multiprocessor
    cumsum_rows, 16384 columns, 512 threads                          64     76   2, 1
    layer norm, 16384 columns, 512 threads                           64     94   2, 1
    partial_sums, 256 threads, 4 rows ahead                          64     75   4, 3
    transpose_registers, 256 threads                                 64     76   4, 3

Alone on its multiprocessor, a block that waits for memory leaves it idle: such rows of cumulative sums had 0.75 of a
copy's speed, and have 1.00 with two (benchmarks/sweep_memory.py on an H200). So a text whose block would be alone is
assembled again with `.minnctapersm 2`; what spills more is not taken. Where there are several blocks, one more is worth
a hundredth (column sums 0.95 and 0.96) or costs one (transposes 0.896 and 0.882), and is not worth a second assembly,
which takes half as long as all the rest. A text that names a number of blocks or registers itself, and one with tensor
core instructions, which want registers rather than blocks, stays as it is.

Sources: ptxas and nvJitLink 13.0 and 13.5, `-v`; PTX ISA 8.3, 11.3 (.minnctapersm); CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability".
"""

from __future__ import annotations

import re

from minitile.hardware import BLOCK_REGISTERS

AIM = 1024  # threads of a multiprocessor
GRAIN = 8  # registers of a thread are given in such steps
SHARED = 228 * 1024  # bytes of the multiprocessor that has the most
BESIDE = 1024  # bytes of each block's that the system has

_DECIDED = re.compile(
    r"^\s*(?:@\S+\s+)?(?:\.minnctapersm|\.maxnreg|\.maxntid|(?:wgmma|mma|wmma|setmaxnreg)\.)", re.MULTILINE
)
_THREADS = re.compile(r"^\.reqntid (\d+)$", re.MULTILINE)
_DYNAMIC = re.compile(r"^\.extern \.shared .*// (\d+) bytes$", re.MULTILINE)


def alone(ptx: str, registers: int, shared: int = 0) -> bool:
    """Whether the text's block has a multiprocessor for itself, where registers are all that keeps a second one away
    and half as many may do. It takes so many registers of a thread and bytes of static shared memory."""
    found = _THREADS.findall(ptx)
    if len(found) != 1 or _DECIDED.search(ptx):
        return False
    threads = int(found[0])
    dynamic = _DYNAMIC.search(ptx)
    shared += int(dynamic.group(1)) if dynamic else 0
    there = BLOCK_REGISTERS // (-(-registers // GRAIN) * GRAIN * threads)
    return there == 1 and 2 * threads <= AIM and 2 * (shared + BESIDE) <= SHARED


def asking(ptx: str) -> str:
    """The text that asks for room for two."""
    return _THREADS.sub(r"\g<0>\n.minnctapersm 2", ptx)
