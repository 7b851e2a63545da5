"""Shadow memory in cells for the race models; cells become smaller where an access must be told apart.

A cell begins as the size of the program's smallest access. An access that is not a multiple of it in place or size
splits all cells, and everything recorded of them, into the size that fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...core.scalars import Array, Sel

if TYPE_CHECKING:
    from ..machine import Machine

Over = Callable[[Array], None]


class Cells:
    """Base of the race models. `names` are the attributes that hold an array with a row for each cell; the marks
    of the last accesses (see lds.py) and their numbers are among them: `reader_mark`, `reader_ticket`, `writer_…`.
    `writer`: who wrote each cell last, from 1 on."""

    machine: Machine
    names: tuple[str, ...] = ()
    writer: Array

    def __init__(self, cell_size: int) -> None:
        self.cell_size = cell_size
        self.tickets = 0

    def spread(self, sel: Sel, where: Array, size: int, lanes: Array | None) -> tuple[Array, Array, Array]:
        """(cells, waves, positions of the waves in `sel`) of accesses of `size` bytes at arena offsets [waves, 64]."""
        waves = self.machine.wave[sel]
        place = np.broadcast_to(np.arange(len(waves))[:, None], where.shape)
        if lanes is not None:
            where, place = where[lanes], place[lanes]
        flat, place = where.reshape(-1), place.reshape(-1)
        if len(flat):
            bits = int(np.bitwise_or.reduce(flat)) | size | self.cell_size
            if bits & -bits < self.cell_size:
                self.split(bits & -bits)
        pieces = size // self.cell_size
        cells = flat // self.cell_size
        if pieces > 1:
            cells = (cells[:, None] + np.arange(pieces)).ravel()
            place = np.repeat(place, pieces)
        return cells, waves[place], place

    def lost(self, cells: Array) -> tuple[int, int] | None:
        """Positions of two that write one of these cells with one instruction: whose is lost, and whose stays."""
        order = np.arange(1, len(cells) + 1, dtype=np.int32)
        self.writer[cells] = order
        lost = np.flatnonzero(self.writer[cells] != order)
        return (int(lost[0]), int(self.writer[cells[lost[0]]]) - 1) if len(lost) else None

    def lane(self, position: int, where: Array, size: int, lanes: Array | None) -> int:
        """The lane of a position among the cells of an access (`spread`)."""
        numbers = np.broadcast_to(np.arange(where.shape[-1]), where.shape)
        numbers = numbers if lanes is None else numbers[lanes]
        return int(numbers.ravel()[position // (size // self.cell_size)])

    def split(self, cell_size: int) -> None:
        """Make the cell smaller."""
        factor = self.cell_size // cell_size
        for name in self.names:
            setattr(self, name, np.repeat(getattr(self, name), factor, axis=0))
        self.cell_size = cell_size

    def part(self, done: Array, place: Array, cells: Array, waves: Array, cell_size: int) -> tuple[Array, Array]:
        """The cells (of size `cell` then) and waves of the accesses at these positions, as cells of now."""
        if len(place):
            chosen = np.zeros(max(int(place.max()), int(done.max(initial=0))) + 1, bool)
            chosen[done] = True
            mine = chosen[place]
            if not mine.all():
                cells, waves = cells[mine], waves[mine]
        if cell_size != self.cell_size:
            factor = cell_size // self.cell_size
            cells = (cells[:, None] * factor + np.arange(factor)).ravel()
            waves = np.repeat(waves, factor)
        return cells, waves

    def ending(self, side: str, ticket: int, cells: Array, waves: Array, place: Array, columns: int = 0) -> Over:
        """What to call, with positions, when waves have waited for an access: who then passes a barrier of theirs knows
        of it, where no other access of that side has come since. columns: waves in a row of the side's arrays."""
        cell_size = self.cell_size

        def over(done: Array) -> None:
            at, who = self.part(done, place, cells, waves, cell_size)
            tickets, marks = getattr(self, f"{side}_ticket"), getattr(self, f"{side}_mark")
            where = (at, who % columns) if columns else (at,)
            still = tickets[where] == ticket
            marks[tuple(each[still] for each in where)] = self.machine.passed[who[still]] + 1

        return over

    def ticket(self) -> int:
        """A number for an access."""
        self.tickets += 1
        return self.tickets
