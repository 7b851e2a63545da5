"""Relocatable code takes more registers than a whole program's: asking for as few brings a multiprocessor more blocks.

Where ptxas compiles a whole program, it aims at 1024 threads of a multiprocessor, 64 registers each, unless it spills.
Relocatable code, which nvJitLink always makes, takes what the schedule likes best:

    kernel of mt.ops                                whole   relocatable   blocks of a multiprocessor
    partial_sums, 256 threads                          64            75      4, 3
    cumsum_rows, 16384 columns, 512 threads            64            76      2, 1
    layer norm, 1024 columns, 128 threads              63           108      8, 4

What memory bounds is slower by that much: blocks that load are all that hides its latency. So a text is assembled again
with `.minnctapersm`, first for 1024 threads, then for one block more than there were; what spills more is not taken. Of
these kernels the code is then that of the whole program, but for a few instructions. A text that names a number of
blocks or registers itself, and one with tensor core instructions, which want registers rather than blocks, stays as it
is.

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


def blocks_to_ask(ptx: str, registers: int, shared: int = 0) -> list[int]:
    """The numbers of blocks to assemble the text for, the best first; none where it has as many as it may. It takes
    so many registers of a thread and bytes of static shared memory."""
    found = _THREADS.findall(ptx)
    if len(found) != 1 or _DECIDED.search(ptx):
        return []
    threads = int(found[0])
    dynamic = _DYNAMIC.search(ptx)
    shared += int(dynamic.group(1)) if dynamic else 0
    wanted = min(AIM // threads, SHARED // (shared + BESIDE))
    there = BLOCK_REGISTERS // (-(-registers // GRAIN) * GRAIN * threads)
    return list(dict.fromkeys((wanted, there + 1))) if there < wanted else []


def asking(ptx: str, blocks: int) -> str:
    """The text that asks for so many."""
    return _THREADS.sub(rf"\g<0>\n.minnctapersm {blocks}", ptx)
