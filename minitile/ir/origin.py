"""Where an operation comes from that is there for order alone: a fence, a wait, a barrier, an mbarrier operation.

    bar.sync 0;  // thread_barriers: RAW A_shared, gemm.py:62 -> gemm.py:67

An operation whose class says `orders` has an `Origin` in its slot `why`: the pass that decided on it, the reason in the
field's terms, and the source lines of the accesses that it puts in order: those that come first, those that come after.
What the program itself asks for has PROGRAM for a pass, and its own line. Such an operation gets one when it is made;
what it is cloned or lowered to has the same. IR text shows it with locations, assembly as a comment (`str`), which
`read` takes apart again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from minitile.ir.diagnostics import Location

# Reasons that several passes and backends give alike.
ACCUMULATOR = "accumulator read"  # of a wait for products: their result, or the registers that they read
LANDED = ""  # of a wait for copies, whose hazard `complete_origins` names
MBARRIER_INIT = "mbarrier init"
MBARRIER_FENCE = "mbarrier init visible to the async proxy"
MBARRIER_MEET = "mbarrier init visible to all threads"
PROGRAM = "program"
MOST_PLACES = 6  # that are named on either side
Places = tuple[Location, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """`pass_name` inserted it for `reason`; `before` and `after`: the accesses that it stands between."""

    pass_name: str
    reason: str
    before: Places = ()
    after: Places = ()

    def __str__(self) -> str:
        """As a comment in assembly says it, with files by their last names."""
        first, second = _shown(self.before), _shown(self.after)
        where = f"{first} -> {second}".removesuffix(" -> ").lstrip()
        what = f"{self.pass_name}: {plain(self.reason)}"
        return f"{what}, {where}" if where else what

    def text(self) -> str:
        """As IR text has it: `why("pass", "reason", ["file":line:column], [])`."""
        sides = (", ".join(f"{json.dumps(at.file)}:{at.line}:{at.column + 1}" for at in side) for side in self.sides)
        return f"why({json.dumps(self.pass_name)}, {json.dumps(self.reason)}, {', '.join(f'[{s}]' for s in sides)})"

    @property
    def sides(self) -> tuple[Places, Places]:
        return self.before, self.after


def places(found: Iterable[Location | None]) -> Places:
    """One for each line, in their order; the first few of many."""
    lines: dict[tuple[str, int], Location] = {}
    for loc in found:
        if loc is not None:
            lines.setdefault((loc.file, loc.line), loc)
    return tuple(lines[key] for key in sorted(lines)[:MOST_PLACES])


def by_program(loc: Location | None) -> Origin:
    """Of what the program asks for, on a line of its own."""
    return Origin(PROGRAM, "asked for", places([loc]))


def plain(text: str) -> str:
    """A name in a comment: ASCII, on one line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def file_name(path: str) -> str:
    """What a comment calls a file: the last part of its path, without what separates places."""
    return re.sub(r"[\s:>&,]", "_", plain(PurePath(path).name)) or "_"


def _shown(side: Places) -> str:
    """`gemm.py:62+64`."""
    by_file: dict[str, list[str]] = {}
    for at in side:
        by_file.setdefault(file_name(at.file), []).append(str(at.line))
    return " & ".join(f"{name}:{'+'.join(lines)}" for name, lines in by_file.items())


_SIDE = r"[^\s:>&,]+:\d+(?:\+\d+)*(?: & [^\s:>&,]+:\d+(?:\+\d+)*)*"
_COMMENT = re.compile(rf"(?P<by>\w+): (?P<reason>.*?)(?:, (?P<first>{_SIDE})?(?: ?-> (?P<second>{_SIDE}))?)?")


def read(comment: str, files: Mapping[str, str]) -> Origin | None:
    """The origin that a comment of assembly tells of; None where it tells of none. `files`: paths by `file_name`."""
    found = _COMMENT.fullmatch(comment.strip())
    if found is None:
        return None
    first, second = (_read(side, files) if side else () for side in (found["first"], found["second"]))
    return Origin(found["by"], found["reason"], first, second)


def _read(side: str, files: Mapping[str, str]) -> Places:
    made = []
    for part in side.split(" & "):
        name, _, lines = part.rpartition(":")
        made += [Location.of_line(files.get(name, name), int(line)) for line in lines.split("+")]
    return tuple(made)
