"""Drops what barriers and fences wanted to know of accesses: which part of a tensor or buffer they touch.

    store_mem %to, %v, %C, [%row, %column] {extent = (64, 32), …}      ->      store_mem %to, %v, %C {…}

and so for what TMA stores; and the program's word that threads touch different elements (`disjoint`).

The indices would otherwise be kept in registers, though no instruction needs them.
"""

from __future__ import annotations

from minitile.ir.core import Block, Kernel
from minitile.ir.ops import fences, hopper, thread
from minitile.transforms.manager import PassContext


def drop_access_ranges(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    for op in kernel.walk():
        if isinstance(op, thread.LoadMem | thread.StoreMem | thread.AtomicMem | hopper.TmaStore) and op.start:
            op.start, op.extent = (), ()
    _forget_words(kernel.body)


def _forget_words(block: Block) -> None:
    block.ops = [op for op in block.ops if not isinstance(op, fences.Disjoint)]
    for op in block.ops:
        for region in op.regions:
            _forget_words(region)
