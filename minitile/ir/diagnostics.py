"""Errors that users see: what is wrong, on which of their lines, and the way out.

`Location` is a place in the user's source; `MinitileError` prints it with the line itself and a caret. Everything that
the compiler raises on purpose is a MinitileError; `InternalError` is for what would be our own fault and says so.
"""

from __future__ import annotations

import linecache
import reprlib
from dataclasses import dataclass
from typing import Any

MOST_CALLERS = 8  # that an error shows


@dataclass(frozen=True, slots=True)
class Location:
    """A place in source text: 1-based `line`, 0-based `column` and `end_column` on it; `caller` is the call site of the
    helper function that the place is in, so that an error shows the whole chain."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    caller: Location | None = None

    @staticmethod
    def of_line(file: str, line: int, function: str = "") -> Location:
        """All that stands on a line."""
        text = linecache.getline(file, line).rstrip()
        return Location(file, line, len(text) - len(text.lstrip()), len(text), function)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def excerpt(self) -> str:
        """The source line and a caret line below it; empty when the source is not at hand."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return ""
        width = max(1, min(self.end_column, len(text)) - self.column)
        return f"    {text}\n    {' ' * self.column}{'^' * width}"

    def render(self) -> str:
        """The place and its callers; of many, the first few and the last."""
        chain: list[Location] = [self]
        while chain[-1].caller is not None:
            chain.append(chain[-1].caller)
        cut = len(chain) - MOST_CALLERS
        shown = chain if cut <= 0 else [*chain[: MOST_CALLERS - 1], chain[-1]]
        lines: list[str] = []
        for number, at in enumerate(shown):
            if number:
                skipped = cut > 0 and number == MOST_CALLERS - 1
                lines.append(f"called from … {cut} calls more …" if skipped else "called from")
            lines.append(f'  File "{at.file}", line {at.line}' + (f", in {at.function}" if at.function else ""))
            if excerpt := at.excerpt():
                lines.append(excerpt)
        return "\n".join(lines)


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 60, 160


def shown(x: Any) -> str:
    """A value of the user's in a message: an array by what it is, anything long by its beginning."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None and type(x).__module__.partition(".")[0] != "minitile":
        return f"{type(x).__name__} of shape {shape} and {dtype}" if shape else repr(x)
    try:
        return _SHORT.repr(x)
    except ValueError:  # an integer of more than 4300 digits
        return f"this {type(x).__name__}"


class MinitileError(Exception):
    """Base of all errors a user can cause.

    Attributes:
        message: what is wrong, with the values involved.
        loc: where, in the user's own source; None where that is not known.
        hint: the way out, or "".
    """

    def __init__(self, message: str, loc: Location | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.loc is not None:
            parts.append(self.loc.render())
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class LanguageError(MinitileError):
    """The kernel's source breaks a rule of the language."""


class TypeMismatchError(LanguageError):
    """Shapes or dtypes do not fit."""


class ResourceError(MinitileError):
    """The kernel asks for more than the target has: shared memory, threads, registers."""


class TargetError(MinitileError):
    """Unknown target, or one that lacks what the kernel needs."""


class LaunchArgumentError(MinitileError):
    """A call's arguments do not fit the kernel's signature."""


class IRError(MinitileError):
    """Malformed IR: found by the parser or the verifier."""


class HostError(MinitileError):
    """Something around the compiler failed: a helper program died or took too long, a disk is full."""


class InternalError(MinitileError):
    """A fault of minitile itself."""

    def __str__(self) -> str:
        return super().__str__() + "\n  this is a bug in minitile; please report it with the kernel's source"
