"""Loops that never end, found where a round leaves everything as it was.

Schedules "eager" and "lazy" are deterministic: what happens next follows from the machine's state. So when a group of
threads comes back to the same branch with the same registers, has done nothing on the way that others or memory could
notice, and no others can run, then it will do so for ever. `LoopWatch` looks now and then (every `EVERY` backward
branches, through at most `ROUNDS` of them), so that loops that end pay next to nothing. A loop in which something
changes each time, be it a counter that runs past its bound, is left to the limit on backward branches.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from .errors import SimulationError
from .scalars import Array

EVERY = 2048  # backward branches between two looks
ROUNDS = 64  # backward branches through which the state at the first of them is waited for
MAX_LOOPS = 1_000_000  # backward branches of all that run side by side; MINITILE_SIMULATED_LOOPS says otherwise

State = tuple[object, list[Array]]  # what is compared as it is, and registers


def most_loops() -> int:
    """The limit on backward branches. Raises SimulationError where the environment's is no number."""
    text = os.environ.get("MINITILE_SIMULATED_LOOPS", "")
    if text and not (text.isdecimal() and len(text) < 19):
        raise SimulationError(f"MINITILE_SIMULATED_LOOPS is a number of backward branches, not {text!r}")
    return int(text) if text else MAX_LOOPS


class LoopWatch:
    """What one scheduler remembers. `loud` is to be called for whatever is done that is not confined to registers."""

    def __init__(self) -> None:
        self.state: State | None = None
        self.at = (0, 0)
        self.left = 0
        self.until = EVERY

    def loud(self) -> None:
        """Something was done that others may notice."""
        self.state = None

    def repeats(self, branch: tuple[int, int], take: Callable[[], State | None]) -> bool:
        """A backward branch (from, to) is taken: whether all is as it was when it was taken before. `take` gives the
        state of all that could make a difference; None where others can still change something."""
        if self.state is None:
            self.until -= 1
            if self.until > 0:
                return False
            self.until, self.left, self.at = EVERY, ROUNDS, branch
            self.state = take()
            return False
        if branch == self.at:
            now = take()
            if now is not None and self._same(now):
                return True
        self.left -= 1
        if not self.left:
            self.state = None
        return False

    def _same(self, now: State) -> bool:
        assert self.state is not None
        plain, registers = self.state
        return plain == now[0] and all(map(np.array_equal, registers, now[1]))
