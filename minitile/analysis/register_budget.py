"""Registers of the warps of a specialised kernel, as its passes and the lowering of its roles both count them.

ptxas gives every thread of a kernel the same number; setmaxnreg moves some from the warps that copy to those that
multiply, in steps of 8, and all of them together are at most a multiprocessor's (hardware.BLOCK_REGISTERS).

Source: PTX ISA 8.3, 9.7.17.5 "setmaxnreg"; the rooms are what ptxas was seen to want.
"""

from __future__ import annotations

from minitile.hardware import BLOCK_REGISTERS, THREAD_REGISTERS, WARPGROUP

PRODUCER_THREADS = WARPGROUP  # of the role that copies; see producer_threads
WARP = WARPGROUP // 4
ACCUMULATOR_ROOM = 32  # registers that ptxas wants beside accumulators (it named 26 for those of m64n256 and m64n192)
TILE_ROOM = 40  # registers that a thread takes besides its tiles, operands included
LOOP_ROOM = (
    32  # the same where threads have few: attention's loop of heads of 64 fits 160 with tiles of 128, 112 with 80
)
BUDGETS = {1: (56, 256), 2: (40, 232), 3: (32, 160), 4: (24, 112)}  # producer's, consumers', by consumer warpgroups


def budget(threads: int) -> tuple[int, int]:
    """Of a thread of the producer and of `threads` consumers."""
    return BUDGETS.get(threads // WARPGROUP, BUDGETS[4])


def producer_threads(threads: int, registers: int | None, together: int = 1) -> int:
    """Of the role that copies beside `threads` that compute: a warpgroup, since setmaxnreg is a warpgroup's. One warp
    alone where the program wants several blocks `together` on a multiprocessor: each has few registers then, and none
    to move. And where each thread has so many `registers` (None: it is not asked), if that leaves room for another
    block, and always beside one warpgroup: an equal share is then all that a thread can have, and nothing is moved."""
    if together > 1:
        return WARP
    if registers is None:
        return PRODUCER_THREADS
    if threads <= WARPGROUP:
        return WARP
    moved = registers + TILE_ROOM - ACCUMULATOR_ROOM > equal_share(threads + PRODUCER_THREADS)
    alone, all_four = (BLOCK_REGISTERS // (registers * (threads + more)) for more in (WARP, PRODUCER_THREADS))
    return WARP if alone > all_four and not moved else PRODUCER_THREADS


def equal_share(threads: int) -> int:
    """Of each of so many threads of a block, in setmaxnreg's steps."""
    return BLOCK_REGISTERS // threads // 8 * 8


__all__ = [
    "ACCUMULATOR_ROOM",
    "BUDGETS",
    "LOOP_ROOM",
    "PRODUCER_THREADS",
    "THREAD_REGISTERS",
    "TILE_ROOM",
    "budget",
    "equal_share",
    "producer_threads",
]
