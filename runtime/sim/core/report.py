"""What a simulated launch reports: findings, printed text and executed instructions.

A `Finding` names one defect once, however many threads run into it; `Access` is one side of it. Lines are lines of
the assembly text; `source` is the "file:line" that the text's `.file` and `.loc` directives give (PTX ISA 8.0, 11.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import RaceError, SimulationError

RACES = frozenset({"missing_barrier", "missing_wait", "missing_proxy_fence", "missing_fence"})
# What the later access does, and the earlier one.
HAZARDS = {"RAW": ("read", "write"), "WAW": ("write", "write"), "WAR": ("write", "read")}


@dataclass(frozen=True, slots=True)
class Access:
    """One access: what it does ("read", "write", "wait", ...), who does it, and where it stands."""

    what: str
    line: int
    text: str
    source: str | None = None
    thread: tuple[int, int, int] | None = None
    cta: tuple[int, int, int] | None = None
    isa: str = "PTX"

    def __str__(self) -> str:
        who = "" if self.thread is None else f" by thread {self.thread} of CTA {self.cta}"
        source = "" if self.source is None else f" ({self.source})"
        return f"{self.what}{who} at {self.isa} line {self.line}{source}: {self.text}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect. `first` is the later access (the one that noticed), `second` the earlier one, if there are two.

    `bytes` is the half-open byte range inside `buffer` that the first occurrence touched; a buffer of several versions
    has the version's number behind its name. `cure` says which wait, barrier or fence is missing, and where.
    """

    kind: str
    message: str
    first: Access
    second: Access | None = None
    hazard: str | None = None
    space: str | None = None
    buffer: str | None = None
    bytes: tuple[int, int] | None = None
    cure: str = ""

    @property
    def cause(self) -> tuple[object, ...]:
        """What findings of one mistake in the source have in common: unrolled code has many lines of each of its."""
        second = self.second
        buffer = self.buffer and self.buffer.partition("[")[0]
        what = (self.first.what, self.first.source, second and second.what, second and second.source)
        return self.kind, self.hazard, self.space, buffer, what

    def __str__(self) -> str:
        hazard = f" ({self.hazard})" if self.hazard else ""
        lines = [f"{self.kind}{hazard}: {self.message}"]
        if self.bytes is not None:
            lines.append(
                f"    bytes {self.bytes[0]} to {self.bytes[1] - 1} of {self.buffer or 'no buffer'} ({self.space})"
            )
        lines.append(f"    {self.first}")
        if self.second is not None:
            lines.append(f"    {self.second}")
        if self.cure:
            lines.append(f"    cure: {self.cure}")
        return "\n".join(lines)


SHOWN = 4  # causes of which an error tells; the report has all


def described(findings: list[Finding], shown: int = SHOWN) -> str:
    """Findings as text: of those that come from the same lines of the source, the first one and how many there are."""
    causes: dict[object, list[Finding]] = {}
    for each in findings:
        causes.setdefault(each.cause, []).append(each)
    lines = []
    for alike in list(causes.values())[:shown]:
        lines.append(str(alike[0]))
        if len(alike) > 1:
            last = max(each.first.line for each in alike)
            first = min(each.first.line for each in alike)
            where = f"at line {first}" if first == last else f"from line {first} to {last}"
            lines.append(f"    and {len(alike) - 1} more of this kind, {where}, from the same source lines")
    if len(causes) > shown:
        rest = sum(map(len, list(causes.values())[shown:]))
        lines.append(f"and {rest} more findings of {len(causes) - shown} other kinds or places")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class MaskedAccess:
    """Accesses that did not happen because an index was outside of the tensor: loads gave 0, stores vanished. `what`:
    "read", "write" or "atomic"; `count`: how many elements."""

    source: str | None
    what: str
    tensor: str
    count: int

    def __str__(self) -> str:
        verb = {"read": "read as 0", "write": "not written"}.get(self.what, "not updated")
        many = "1 element" if self.count == 1 else f"{self.count} elements"
        return f"{self.source or 'no source line'}: {many} outside of {self.tensor} {verb}"


@dataclass(slots=True)
class Report:
    """The outcome of one launch.

    `instructions` maps an opcode such as "mma.sync" to how often warps executed it; `stopped` says that a fault
    ended the run early, so that the arguments hold partial results. `masked`: the accesses that bounds cut off, where
    they were asked for. `results`: what a kernel that returns arrays has returned.
    """

    findings: list[Finding] = field(default_factory=list)
    stdout: str = ""
    instructions: dict[str, int] = field(default_factory=dict)
    stopped: bool = False
    masked: tuple[MaskedAccess, ...] = ()
    results: tuple[Any, ...] = ()

    def raise_if_findings(self) -> None:
        """Raise `RaceError` if there is a race among the findings, `SimulationError` for any other finding."""
        if not self.findings:
            return
        text = described(self.findings)
        first = self.findings[0].first
        race = any(finding.kind in RACES for finding in self.findings)
        raise (RaceError if race else SimulationError)(text, first.line, isa=first.isa)
