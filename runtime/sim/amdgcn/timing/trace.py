"""What one workgroup executed, for the cycle estimate: each wave's instructions, with the cost of memory accesses.

Bank conflicts of the data share are counted from the addresses: an access goes in phases of lanes, a phase takes as
many turns as the bank that is asked for most different words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...core.scalars import Array
from .latencies import BANKS, WIDE_PHASES


@dataclass(frozen=True, slots=True)
class Event:
    """One executed instruction. `turns`: LDS cycles of 128 bytes; `bytes`: of vector memory; `lanes`: active ones."""

    site: int
    turns: int = 0
    bytes: int = 0
    lanes: int = 64


@dataclass(slots=True)
class Trace:
    """The waves of one workgroup. The machine fills in costs while an instruction executes, `record` ends it."""

    arch: str
    waves: list[list[Event]]
    turns: dict[int, int] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)
    ideal: int = 0
    conflicts: int = 0

    def record(self, site: int, waves: Array) -> None:
        """These waves executed the instruction."""
        for wave in waves.tolist():
            self.waves[wave].append(Event(site, self.turns.get(wave, 0), self.bytes.get(wave, 0)))
        self.turns.clear()
        self.bytes.clear()

    def shared(self, waves: Array, address: Array, size: int, lanes: Array | None) -> None:
        """An LDS access at byte addresses [waves, 64]."""
        for index, wave in enumerate(waves.tolist()):
            active = None if lanes is None else lanes[index]
            turns, ideal = bank_turns(self.arch, address[index], size, active)
            self.turns[wave] = self.turns.get(wave, 0) + turns
            self.ideal += ideal
            self.conflicts += turns - ideal

    def memory(self, waves: Array, size: int, lanes: Array | None) -> None:
        """A vector memory access of `size` bytes a lane."""
        for index, wave in enumerate(waves.tolist()):
            count = 64 if lanes is None else int(lanes[index].sum())
            self.bytes[wave] = self.bytes.get(wave, 0) + count * size


def phases(arch: str, size: int) -> list[list[int]]:
    """The lanes that an LDS access of `size` bytes a lane serves together."""
    if size >= 12:
        halves = [[32 * half + lane for lane in part] for half in (0, 1) for part in WIDE_PHASES]
        if BANKS[arch] == 64:
            return halves
        return [part[start : start + 8] for part in halves for start in (0, 8)]
    together = BANKS[arch] * 4 // max(size, 4)
    return [list(range(start, start + together)) for start in range(0, 64, together)]


def bank_turns(arch: str, address: Array, size: int, lanes: Array | None) -> tuple[int, int]:
    """(turns of 128 bytes that an access takes, turns without conflicts) for the addresses of 64 lanes."""
    banks = BANKS[arch]
    words = np.arange(max(size // 4, 1)) * 4
    total = ideal = 0
    for group in phases(arch, size):
        which = np.array(group)
        if lanes is not None:
            which = which[lanes[which]]
        if not len(which):
            continue
        distinct = np.unique((address[which][:, None] + words) // 4)
        conflict = int(np.bincount(distinct % banks, minlength=banks).max())
        width = banks // 32  # a turn of 64 banks moves 256 bytes, which takes two cycles
        total += conflict * width
        ideal += width
    return total, ideal
