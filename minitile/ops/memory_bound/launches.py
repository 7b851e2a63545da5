"""How launches of memory-bound kernels follow each other."""

from __future__ import annotations

import minitile.language as T
from minitile.language.annotations import MOST_BLOCKS


def in_order():
    """Lets the next kernel in the stream be set up at once, and waits for the one in front. Blocks are many and short,
    so that those of the next kernel take the room that the last ones of this leave."""
    T.pdl_trigger()
    T.pdl_sync()


def room_for(blocks):
    """Lets a thread take no more registers than so many blocks of a multiprocessor leave it; 0: as many as it likes."""
    if blocks:
        T.annotate_min_blocks_per_sm(min(blocks, MOST_BLOCKS))
