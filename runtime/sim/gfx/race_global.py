"""Races in global memory."""

from __future__ import annotations

from collections.abc import Callable

from ..scalars import Array, Sel


class GlobalRaces:
    """Not modelled yet."""

    def read(self, sel: Sel, where: Array, size: int, lanes: Array | None) -> None:
        """Waves read."""

    def write(
        self, sel: Sel, where: Array, size: int, lanes: Array | None, atomic: bool = False
    ) -> Callable[[Array], None] | None:
        """Waves write."""
        return None
