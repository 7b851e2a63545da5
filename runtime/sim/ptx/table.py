"""The table of instructions: opcode name to how it is decoded and how the scheduler must treat it.

A module of instructions registers each opcode with `@instruction(...)`. The decorated *factory* is called once per
instruction of the text and returns a *handler*, which executes that instruction for the threads `sel` of a machine.
Three kinds of instructions differ in what the scheduler does around the handler:

    PLAIN    each thread for itself; a guard just narrows the threads
    WARP     the threads named by a mask (by default all of a warp) execute it together, so they are gathered first
    CONTROL  changes where threads continue or whether they do; its handler returns the continuing groups
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..core.scalars import Array, Sel
from .syntax import Instruction

if TYPE_CHECKING:
    from .machine import Machine
    from .program import Linker

Handler = Callable[["Machine", Sel], None]
Outcome = list[tuple[int, Sel]]  # the index of the next instruction, and the threads that continue there
ControlHandler = Callable[["Machine", Sel, int], Outcome]
Members = Callable[["Machine", Sel], Array]  # the lanes (a bit mask per thread) that must execute together


def whole_warp(m: Machine, sel: Sel) -> Array:
    """The members of an `.aligned` instruction: every lane."""
    return np.full(len(m.thread[sel]), 0xFFFFFFFF, np.uint32)


class Kind(enum.Enum):
    """How the scheduler treats an instruction."""

    PLAIN = enum.auto()
    WARP = enum.auto()
    CONTROL = enum.auto()


@dataclass(frozen=True, slots=True)
class Decoded:
    """A factory's result when a handler alone does not say it all."""

    run: Handler | ControlHandler
    members: Members | None = None


Factory = Callable[[Instruction, "Linker"], "Handler | ControlHandler | Decoded"]
AnyFactory = TypeVar("AnyFactory", bound=Factory)


@dataclass(frozen=True, slots=True)
class Entry:
    """One opcode's row: `results` is how many leading operands are written."""

    factory: Factory
    kind: Kind
    results: int
    opcode: str  # the registered name: what its row of forms.py is called


INSTRUCTIONS: dict[str, Entry] = {}


def instruction(*names: str, kind: Kind = Kind.PLAIN, results: int = 1) -> Callable[[AnyFactory], AnyFactory]:
    """Register the decorated factory for these opcodes. A name may contain modifiers ("bar.warp"): longest wins."""

    def register(factory: AnyFactory) -> AnyFactory:
        for name in names:
            INSTRUCTIONS[name] = Entry(factory, kind, results, name)
        return factory

    return register


def lookup(ins: Instruction) -> Entry | None:
    """The row of an instruction: the longest registered prefix of its opcode."""
    return _row(ins.name, ins.mods)


@functools.lru_cache(maxsize=1 << 10)
def _row(name: str, mods: tuple[str, ...]) -> Entry | None:
    parts = (name, *mods)
    for length in range(min(len(parts), 4), 0, -1):
        entry = INSTRUCTIONS.get(".".join(parts[:length]))
        if entry is not None:
            return entry
    return None
