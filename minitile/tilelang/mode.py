"""What a session of `minitile.tilelang` does with kernels: runs them, or only compiles them and keeps a record.

In compile-only mode a call compiles for `target` and gives back tensors of no content; what was compiled, and what was
refused, is in `records`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Record:
    """One compilation. name: of the function, file and line: where it is; error: what was refused, "" if nothing;
    launches: how many T.Kernel it has; seconds: what it took."""

    name: str
    file: str
    line: int
    error: str
    launches: int
    seconds: float


@dataclass
class Mode:
    """compile_only: calls compile and do not run; target: what for ("auto": the device at hand);
    simulated: tensors that a script takes for CUDA's are the CPU's.

    In compile-only mode, records: what was compiled; made: the functions marked by `tilelang.jit`, by file and line;
    reached: those of them that were called.
    """

    compile_only: bool = False
    target: str = "auto"
    simulated: bool = False
    records: list[Record] = field(default_factory=list)
    made: dict[tuple[str, int], str] = field(default_factory=dict)
    reached: set[tuple[str, int]] = field(default_factory=set)

    def clear(self, target: str) -> None:
        """Compile-only mode for a target, with no record; "": back to running."""
        self.compile_only, self.target = bool(target), target or "auto"
        self.records, self.made, self.reached = [], {}, set()

    def copy(self) -> Mode:
        return replace(self)

    def define(self, function: FunctionType) -> None:
        """Notes a function that is marked by `tilelang.jit`."""
        if self.compile_only:
            self.made[function.__code__.co_filename, function.__code__.co_firstlineno] = function.__name__

    def reach(self, function: Any) -> None:
        """Notes a call of such a function."""
        self.reached.add((function.__code__.co_filename, function.__code__.co_firstlineno))

    def unreached(self) -> list[str]:
        """The names of marked functions that were not called."""
        return [name for place, name in self.made.items() if place not in self.reached]

    def note(self, function: Any, error: str, launches: int, began: float) -> None:
        self.reach(function)
        code = function.__code__
        spent = time.perf_counter() - began
        self.records.append(Record(function.__name__, code.co_filename, code.co_firstlineno, error, launches, spent))


MODE = Mode()
