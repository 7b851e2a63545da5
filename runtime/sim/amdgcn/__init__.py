"""Simulator for AMD assembly text (gfx942, gfx950): `run_gcn` executes what LLVM prints and reports what is wrong.

Written from the CDNA3 and CDNA4 instruction set documents and LLVM's description of the code object, apart from the
backend that makes such text, so that the two check each other. One way through the modules:

    parser, metadata, syntax    text to instructions, kernels, labels
    program, decode, table      a kernel's instructions to handlers; its initial registers
    machine, scheduler          registers of all waves of a batch as arrays; who executes when
    queue                       memory operations in flight, vmcnt and lgkmcnt
    memory, race                global memory and LDS; accesses that nothing orders
    visibility                  what a workgroup knows of others: releases and acquires
    hazards                     wait states between instructions, over all paths
    trace, timing, latencies    `estimate_gcn`: cycles of a workgroup, and what the matrix units wait for
    the other modules           the instructions
"""

from __future__ import annotations

from .launch import run_gcn
from .timing.estimate import Timing, estimate_gcn

__all__ = ["Timing", "estimate_gcn", "run_gcn"]
