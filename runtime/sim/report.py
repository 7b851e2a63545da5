"""What a simulated launch reports: findings, printed text and executed instructions.

A `Finding` names one defect once, however many threads run into it; `Access` is one side of it. Lines are lines of
the assembly text; `source` is the "file:line" that the text's `.file` and `.loc` directives give (PTX ISA 8.0, 11.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    they were asked for.
    """

    findings: list[Finding] = field(default_factory=list)
    stdout: str = ""
    instructions: dict[str, int] = field(default_factory=dict)
    stopped: bool = False
    masked: tuple[MaskedAccess, ...] = ()

    def raise_if_findings(self) -> None:
        """Raise `RaceError` if there is a race among the findings, `SimulationError` for any other finding."""
        if not self.findings:
            return
        text = "\n".join(str(finding) for finding in self.findings)
        first = self.findings[0].first
        race = any(finding.kind in RACES for finding in self.findings)
        raise (RaceError if race else SimulationError)(text, first.line, first.text, first.isa)
