"""Where the waits and barriers of LLVM's assembly come from: the comments of our LLVM IR, behind the lines that keep
what they say.

    LLVM IR                                        assembly
    call … @llvm.amdgcn.s.waitcnt(…)  ; A          s_waitcnt vmcnt(2) lgkmcnt(0)  ; A | B
    call … @llvm.amdgcn.s.waitcnt(…)  ; B
    call … @llvm.amdgcn.s.barrier()   ; B          s_barrier  ; B
                                                   s_waitcnt lgkmcnt(1)  ; LLVM: registers

LLVM joins waits, moves code and adds waits of its own, for the registers that loads fill; nothing in its assembly says
which are ours. So both texts are walked as `verify_waits` does. A barrier is one of those that may come at its place in
the IR. A wait may be any of the IR's that are open there and that it covers. Of these it is

    in front of a barrier     those of which it is the last in front of the assembly's
    elsewhere                 those of its own source line, by .loc and !dbg, in a loop or not, as it is; any, where no
                              wait is of their line

and with one of them it is those that stand beside it in the IR. One that is left with none is LLVM's own. Where the
assembly has a path that the IR has not (what `verify_waits` refuses, where it matters), nothing more is said.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from minitile.backends.amd.verify.waitcnt_verification import (
    BARRIER,
    END,
    Event,
    Graph,
    Wait,
    graph_of_ir,
    graph_of_text,
)

Line = int  # of a text, from 1 on
Source = tuple[str, str]  # line and column
OWN = "LLVM: registers"  # a wait that LLVM has put in by itself
SEPARATOR = " | "
MOST = 3  # origins behind a line
_COMMENT = re.compile(r"; (\w+: .*)$")
_ORDERS = re.compile(r"\s+s_(waitcnt|barrier)\b")
_RUN = re.compile(r"\s+(?:call void @llvm\.amdgcn\.(?:s\.waitcnt|(s\.barrier)|sched\.barrier)\(|fence )")
_DEBUG = re.compile(r"!dbg (!\d+)")
_PLACE = re.compile(r"^(!\d+) = !DILocation\(line: (\d+), column: (\d+)", re.MULTILINE)
_LOC = re.compile(r"\s+\.loc\s+\d+ (\d+) (\d+)")


def annotated(llvm: str, text: str) -> str:
    """The assembly with a comment behind each line whose origin is known."""
    lines = text.splitlines()
    if not any(map(_ORDERS.match, lines)):
        return text
    asked = llvm.splitlines()
    for number, found in sorted(_Credits(llvm, text).run().items()):
        line = lines[number - 1]
        comments = dict.fromkeys(c[1] for n in sorted(found) if (c := _COMMENT.search(asked[n - 1])) is not None)
        if comments or line.lstrip().startswith("s_waitcnt"):
            lines[number - 1] = f"{line}  ; {SEPARATOR.join([*comments][:MOST]) or OWN}"
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Run:
    """Waits, fences and barriers of the IR with nothing between them: where they come from, and the last barrier."""

    sources: set[Source]
    barrier: Line = 0


class _Credits:
    def __init__(self, llvm: str, text: str) -> None:
        self.asked, self.made = graph_of_ir(llvm), graph_of_text(text)
        self.may, self.after = functools.cache(self.asked.next_events), functools.cache(self.made.next_events)
        self.runs = _runs(llvm)
        self.sources = _sources(text)
        self.looped = _looped(self.made), _looped(self.asked)
        self.meets = BARRIER in self.asked.event  # not where one wave is all there is

    def run(self) -> dict[Line, set[Line]]:
        """For each line of the assembly with a wait or barrier the lines of the IR that it is."""
        found: dict[Line, set[Line]] = {}
        pending = [(0, self.may(0))]
        seen = set(pending)
        while pending:
            point, places = pending.pop()
            for at in self.after(point):
                event = self.made.event[at]
                if isinstance(event, Wait):
                    there, following = self.covered(places, at, event)
                else:
                    there = {n for n in places if self.asked.event[n] == event}
                    following = frozenset().union(*map(self.may, there))
                if isinstance(event, Wait) or event == BARRIER:
                    found.setdefault(self.made.line[at], set()).update(self.asked.line[n] for n in there)
                state = (at, following)
                if event != END and following and state not in seen:
                    seen.add(state)
                    pending.append(state)
        return self.chosen(found)

    def covered(self, places: frozenset[int], at: int, wait: Wait) -> tuple[set[int], frozenset[int]]:
        """The waits of the IR that one of the assembly may be, and where one may be behind it."""
        passed: set[int] = set()
        left, seen = list(places), set(places)
        while left:
            n = left.pop()
            event = self.asked.event[n]
            if isinstance(event, Wait) and wait.covers(event):
                passed.add(n)
                new = self.may(n) - seen
                seen |= new
                left += new
        mine = {n for n in passed if not self.in_front(n) or self.last(at, self.asked.event[n])}
        sure = {n for n in mine if not self.in_front(n) and self.of_line(self.made.line[at], self.asked.line[n])}
        return mine, frozenset(seen - sure)

    def in_front(self, n: int) -> bool:
        """Whether a wait of the IR stands in front of a barrier."""
        return self.meets and self.runs[self.asked.line[n]].barrier > self.asked.line[n]

    def of_line(self, line: Line, asked: Line) -> bool:
        alike = (line in self.looped[0]) == (asked in self.looped[1])
        return alike and self.sources.get(line) in self.runs[asked].sources

    def last(self, at: int, wanted: Event | None) -> bool:
        """Whether a wait of the assembly is on some way the last one in front of a barrier that covers what is
        wanted."""
        assert isinstance(wanted, Wait)
        seen, left = {at}, [at]
        while left:
            for n in self.after(left.pop()):
                event = self.made.event[n]
                if event == BARRIER:
                    return True
                if isinstance(event, Wait) and not event.covers(wanted) and n not in seen:
                    seen.add(n)
                    left.append(n)
        return False

    def chosen(self, found: dict[Line, set[Line]]) -> dict[Line, set[Line]]:
        """Of what each line may be, what it is: of its own source line where there is a choice."""
        sure = {n for line, asked in found.items() for n in asked if self.is_sure(line, n)}
        kept: dict[Line, set[Line]] = {}
        for line, asked in found.items():
            mine = {n for n in asked if self.is_sure(line, n) or not any(m in sure for m in self.beside(n))}
            some = {n for n in mine if self.is_sure(line, n)} or mine
            kept[line] = {n for n in asked if any(self.runs[n] is self.runs[m] for m in some)}
        return kept

    def is_sure(self, line: Line, asked: Line) -> bool:
        return (self.meets and self.runs[asked].barrier >= asked) or self.of_line(line, asked)

    def beside(self, asked: Line) -> list[Line]:
        return [n for n, run in self.runs.items() if run is self.runs[asked]]


def _looped(graph: Graph) -> set[Line]:
    """The lines of waits that may come again."""
    found: set[Line] = set()
    for n, event in enumerate(graph.event):
        if isinstance(event, Wait) and graph.line[n] not in found:
            seen, left = set[int](), [n]
            while left and n not in seen:
                new = set(graph.following[left.pop()]) - seen
                seen |= new
                left += new
            if n in seen:
                found.add(graph.line[n])
    return found


def _runs(llvm: str) -> dict[Line, _Run]:
    """The run of each line of the IR that is in one."""
    places = {name: (line, column) for name, line, column in _PLACE.findall(llvm)}
    runs: dict[Line, _Run] = {}
    run: _Run | None = None
    for number, line in enumerate(llvm.splitlines(), 1):
        found = _RUN.match(line)
        if found is None:
            run = None
            continue
        run = runs[number] = run or _Run(set())
        if found[1]:
            run.barrier = number
        if (debug := _DEBUG.search(line)) is not None and debug[1] in places:
            run.sources.add(places[debug[1]])
    return runs


def _sources(text: str) -> dict[Line, Source]:
    """The source line of each wait and barrier of an assembly, as the last .loc in front says."""
    found: dict[Line, Source] = {}
    place: Source | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if (at := _LOC.match(line)) is not None:
            place = at[1], at[2]
        elif place is not None and _ORDERS.match(line):
            found[number] = place
    return found
