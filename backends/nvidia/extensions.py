"""What a generation of NVIDIA's GPUs adds from a folder of its own: an `Extension` is all that the backend asks of it.

    rules      the lowering rules of its targets, instead of the backend's                         `backend.py`
    passes     its own, behind those of the pipeline                                               `backend.py`
    telling    opcodes that --explain counts                                                       `backend.py`
    printers   how its operations print                                                            `emit/writer.py`
    memory, effects, orders    opcodes in programs' own PTX, by what they do                       `inline_checks.py`

A folder has its extension as EXTENSION in `extension.py`, and its row here. What its methods need they import when
they are called, so that a generation that is not compiled for costs nothing but its words.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from minitile.backends.base import Pass, Rules
from minitile.hardware import Target
from minitile.ir.core import Op

if TYPE_CHECKING:
    from minitile.backends.nvidia.emit.emitter import Emitter

Printers = Mapping[type[Op], "Callable[[Emitter, Any], None]"]

_MODULES = ("minitile.backends.nvidia.blackwell.extension",)


class Extension(ABC):
    """feature: what targets that have it say (`Target.has`). telling: a regular expression of opcodes. memory, effects:
    first words of opcodes that touch memory, and that are there for more than their results. orders: a regular
    expression of those among `memory` that only order things."""

    feature: ClassVar[str]
    telling: ClassVar[str]
    memory: ClassVar[frozenset[str]]
    effects: ClassVar[frozenset[str]]
    orders: ClassVar[str]

    @abstractmethod
    def rules(self, target: Target) -> Rules:
        """As of `Backend`."""

    @abstractmethod
    def passes(self) -> Mapping[str, Sequence[tuple[str, Pass]]]:
        """As of `Backend`."""

    @abstractmethod
    def printers(self) -> Printers:
        """By operation of thread IR: what prints it."""


@cache
def extensions() -> tuple[Extension, ...]:
    """All of them."""
    return tuple(importlib.import_module(module).EXTENSION for module in _MODULES)


def extension_of(target: Target) -> Extension | None:
    """That of a target; None where it has none."""
    return next((each for each in extensions() if target.has(each.feature)), None)
