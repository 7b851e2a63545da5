"""Exceptions of the simulators.

`SimulationError` is for text that cannot be executed (with its line) and for faults found while running;
`RaceError` is for findings of the race model. Both carry plain data, so that callers can print their own message.
"""

from __future__ import annotations

# Whether what goes wrong inside of an instruction is made a SimulationError at its line. A fuzzer switches it off, to
# see what there is to mend.
LAST_RESORT = True


class SimulationError(RuntimeError):
    """The text cannot be executed, or its execution did something the ISA forbids.

    `line` is the 1-based line of the assembly text (`isa` says whose: "PTX" or "GCN") and `text` that line's content,
    when the error has one place.
    """

    def __init__(self, message: str, line: int | None = None, text: str | None = None, isa: str = "PTX") -> None:
        self.message = message
        self.line = line
        self.text = text
        where = "" if line is None else f"{isa} line {line}: "
        what = "" if text is None else f"\n    {text.strip()}"
        super().__init__(f"{where}{message}{what}")


class RaceError(SimulationError):
    """Two accesses of the program are not ordered although at least one of them writes."""
