"""How deep kernels may be nested.

What is long is not deep: terms of a sum, operands of `and` and `or`, `elif`s are gone through in loops. What is nested
by its meaning (calls in calls, ternaries in ternaries, helpers in helpers) is interpreted by recursion, for which
`room` makes room: several times Python's usual 1000 frames, and few enough for the stack of any thread.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.locks import process_lock

FRAMES = 6000
MANY_CALLS = 40  # helpers in helpers: that deep, it is them who fill the stack
_lock = process_lock()
_inside = 0
_before = 0


@contextmanager
def room() -> Iterator[None]:
    """Python's recursion limit, which is the whole process', is at least FRAMES inside."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, FRAMES))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and sys.getrecursionlimit() == max(_before, FRAMES):
                sys.setrecursionlimit(_before)


def too_deep(loc: Location | None) -> LanguageError:
    """The error where even that room is used up, at `loc`."""
    calls, at = 0, loc
    while at is not None and at.caller is not None:
        calls, at = calls + 1, at.caller
    if calls >= MANY_CALLS:
        return LanguageError("helper functions call each other without end", loc)
    return LanguageError(
        f"this is nested too deeply: it takes more than {FRAMES} frames of Python to interpret",
        loc,
        "give parts of it names, in statements of their own",
    )
