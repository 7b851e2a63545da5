"""The table of instructions: name to the factory that turns an instruction of the text into a handler.

A handler `run(m, sel)` executes one instruction for the waves `sel` of a machine, all of which stand at it. A few
instructions say where a wave goes on; their factories return a `Control`, whose handler returns a list of
(index of the next instruction, waves).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.scalars import Array, Sel
from .forms import FORMS, Takes
from .syntax import Instruction

if TYPE_CHECKING:
    from .decode import Decoder
    from .machine import Machine

Handler = Callable[["Machine", Sel], None]
Outcome = list[tuple[int, Sel]]
Factory = Callable[[Instruction, "Decoder"], "Handler | Control"]


@dataclass(frozen=True, slots=True)
class Control:
    """A handler that decides where its waves continue; gets the index of the next instruction."""

    run: Callable[[Machine, Sel, int], Outcome]


INSTRUCTIONS: dict[str, Factory] = {}


def instruction(*names: str, takes: Takes, mods: str = "") -> Callable[[Factory], Factory]:
    """Register the decorated factory for these names, with their form: operands and group of modifiers (forms.py)."""

    def register(factory: Factory) -> Factory:
        for name in names:
            INSTRUCTIONS[name] = factory
            FORMS[name] = takes, mods
        return factory

    return register


__all__ = ["INSTRUCTIONS", "Array", "Control", "Factory", "Handler", "Outcome", "instruction"]
