"""Verifies the waits of LLVM's assembly: does it still say what the LLVM IR asked for?

LLVM schedules after us and adds waits of its own. Three things must come in the order of the IR on every path, since
counts speak of it: copies by LDS-DMA (D), waits (W), barriers (B). vmcnt(N) covers all but the N youngest, so a wait
for no more than was asked covers all that it should, as long as the order holds. Where a workgroup is one wave, LLVM
takes barriers away.

    LLVM IR                                        assembly
    D D W(vm 2, lgkm 0) B                          D D W(vm 2, lgkm 0) B              as asked
                                                   D D W(vm 2, lgkm 0) B W(vm 0)      stronger: noted, if in a loop
                                                   D W(vm 2, lgkm 0) D B              refused: another order
                                                   D D W(vm 3, lgkm 0) B              refused: weaker

Both texts become graphs of these events. The assembly's is walked with the set of places in the IR at which one can be:
D and B must be possible there; a wait passes those waits of the IR that it covers, or is LLVM's own. Where nothing is
left, the assembly has a path that the IR has not; ways that no branch takes are not paths (exec_mask_cfg.py). A copy
directly behind itself is LLVM's loop over lanes, where it has the descriptor in vector registers: still one copy, and
what counts as younger than another one is only more.

What is refused is compiled again (scheduling_barrier_retry.py), at last so that no path needs to be known:
`awaited_at_once` sees in each block by itself that no copy outlives it.

Source: "CDNA 3" Instruction Set Architecture, 4.4 (what the counters count, in order), S_WAITCNT (its bits).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from minitile.backends.amd.verify.assembly import Code, Instruction, read
from minitile.backends.amd.verify.exec_mask_cfg import paths
from minitile.ir.diagnostics import InternalError, Location

WAY_OUT = (
    "num_stages=1 keeps no copies under way there; a copy through a fragment (T.copy to it, and from it to shared "
    "memory) is none that runs by itself"
)


class ScheduleError(InternalError):
    """LLVM's assembly does not keep what the LLVM IR asked for, at a line (from 1 on) of it."""

    def __init__(self, message: str, text: str, line: int) -> None:
        super().__init__(message, source_of(text, line), WAY_OUT)


COPY, BARRIER, END = "copy", "barrier", "end"
NO_VM, NO_LGKM = 63, 15  # no wait
WAVE = 64


@dataclass(frozen=True, slots=True)
class Wait:
    """s_waitcnt: at most so many may be outstanding."""

    vm: int = NO_VM
    lgkm: int = NO_LGKM

    def covers(self, other: Wait) -> bool:
        return self.vm <= other.vm and self.lgkm <= other.lgkm

    def __str__(self) -> str:
        parts = [f"vmcnt({self.vm})"] * (self.vm < NO_VM) + [f"lgkmcnt({self.lgkm})"] * (self.lgkm < NO_LGKM)
        return " ".join(parts)


Event = str | Wait


@dataclass(slots=True)
class Graph:
    """Points of a program. `event` is what happens at a point, `None` for nothing; `following` what may come next;
    `line` its line in the text."""

    event: list[Event | None] = field(default_factory=list)
    following: list[list[int]] = field(default_factory=list)
    line: list[int] = field(default_factory=list)

    def add(self, event: Event | None, line: int) -> int:
        self.event.append(event)
        self.following.append([])
        self.line.append(line)
        return len(self.event) - 1

    def next_events(self, point: int) -> frozenset[int]:
        """The points with events that may come first after this one."""
        found: set[int] = set()
        seen = set(self.following[point])
        pending = list(seen)
        while pending:
            at = pending.pop()
            if self.event[at] is not None:
                found.add(at)
                continue
            new = [other for other in self.following[at] if other not in seen]
            seen.update(new)
            pending += new
        return frozenset(found)

    def in_loops(self) -> set[int]:
        """The points from which one can come back to a copy, and from that copy to them."""
        loops: set[int] = set()
        back = self._backwards()
        for copy in (n for n, event in enumerate(self.event) if event == COPY):
            if copy in loops:
                continue
            after, before = self._reached(copy, self.following), self._reached(copy, back)
            if copy in after:
                loops |= after & before
        return loops

    def _backwards(self) -> list[list[int]]:
        back: list[list[int]] = [[] for _ in self.event]
        for at, others in enumerate(self.following):
            for other in others:
                back[other].append(at)
        return back

    @staticmethod
    def _reached(start: int, edges: list[list[int]]) -> set[int]:
        seen: set[int] = set()
        pending = [start]
        while pending:
            for other in edges[pending.pop()]:
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return seen


def verify_waits(llvm: str, text: str) -> list[str]:
    """What to note: waits in loops of copies that are stronger than the schedule's. Raises ScheduleError where the
    assembly has copies, waits or barriers in an order that the IR has not, or weaker waits."""
    asked = graph_of_ir(llvm)
    if COPY not in asked.event and not any(isinstance(event, Wait) for event in asked.event):
        return []
    try:
        return _compared(asked, graph_of_text(text), text)
    except ScheduleError:
        return _compared(asked, graph_of_text(text, closely=True), text)


def _compared(asked: Graph, made: Graph, text: str) -> list[str]:
    loops, their_loops = made.in_loops(), asked.in_loops()
    after, may = functools.cache(made.next_events), functools.cache(asked.next_events)
    stronger: dict[int, str] = {}
    pending = [(0, may(0))]
    seen = set(pending)
    while pending:
        point, places = pending.pop()
        for at in after(point):
            event = made.event[at]
            if isinstance(event, Wait):
                wishes = {w for n in places & their_loops if isinstance(w := asked.event[n], Wait)}
                if at in loops and event.vm < NO_VM and all(w.vm != event.vm for w in wishes):
                    asked_for = " or ".join(sorted(str(w) for w in wishes if w.vm < NO_VM)) or "nothing"
                    where = f"LLVM waits for {event} in a loop of asynchronous copies"
                    stronger[made.line[at]] = f"{where}, where the schedule asks for {asked_for}"
                places_then = passed(asked, may, places, event)
            else:
                there = [n for n in places if asked.event[n] == event]
                repeated = event == COPY and made.event[point] == COPY and made.line[at] == made.line[point]
                if not there and not repeated:
                    _refuse(asked, made, at, places, text)
                places_then = frozenset().union(*map(may, there), places if repeated else ())
            state = (at, places_then)
            if event != END and state not in seen:
                seen.add(state)
                pending.append(state)
    return [stronger[line] for line in sorted(stronger)]


def passed(asked: Graph, may: Callable[[int], frozenset[int]], places: frozenset[int], wait: Wait) -> frozenset[int]:
    """Where one may be after a wait of the assembly: where one was, and past all waits that it covers."""
    found = set(places)
    pending = list(places)
    while pending:
        at = pending.pop()
        event = asked.event[at]
        if isinstance(event, Wait) and wait.covers(event):
            new = may(at) - found
            found |= new
            pending += new
    return frozenset(found)


def _refuse(asked: Graph, made: Graph, at: int, places: frozenset[int], text: str) -> None:
    expected = " or ".join(sorted({str(asked.event[n]) for n in places}))
    raise ScheduleError(
        f"LLVM's assembly does not keep the schedule: line {made.line[at]} has {made.event[at]}, where {expected} was "
        "to come",
        text,
        made.line[at],
    )


_IN_MEMORY = ("ds_", "buffer_", "global_", "flat_", "scratch_")


def awaited_at_once(text: str) -> None:
    """Raises ScheduleError where a copy is under way at what comes next in memory, at a barrier or at the end of its
    block, or anything of the block may be at a barrier."""
    code = read(text)
    for n in range(len(code.blocks)):
        copy, waited = 0, Wait()
        for ins in code.inside(n):
            event = event_of(ins)
            if isinstance(event, Wait):
                waited = Wait(min(waited.vm, event.vm), min(waited.lgkm, event.lgkm))
                copy = copy if event.vm else 0
                continue
            in_memory = ins.name.startswith(_IN_MEMORY)
            if copy and (in_memory or event is not None or ins.branch):
                raise ScheduleError(f"LLVM's assembly does not wait for the copy in line {copy}", text, copy)
            if event == BARRIER and (waited.vm or waited.lgkm):
                what = f"LLVM's assembly does not wait in front of the barrier in line {ins.line}"
                raise ScheduleError(what, text, ins.line)
            copy = ins.line if event == COPY else copy
            waited = Wait() if in_memory else waited
        if copy:
            raise ScheduleError(f"LLVM's assembly does not wait for the copy in line {copy}", text, copy)


_FILE = re.compile(r'\s+\.file\s+(\d+) "(.*?)"(?: "(.*?)")?')
_PLACE = re.compile(r"\s+\.loc\s+(\d+) (\d+)")


def source_of(text: str, line: int) -> Location | None:
    """The kernel's line that a line of its assembly is of: what the last .loc in front says, as far as that is
    known."""
    files: dict[str, str] = {}
    place: tuple[str, int] | None = None
    for number, each in enumerate(text.splitlines(), 1):
        if (file := _FILE.match(each)) is not None:
            files[file[1]] = f"{file[2]}/{file[3]}" if file[3] else file[2]
        elif number <= line and (at := _PLACE.match(each)) is not None and at[2] != "0":
            place = at[1], int(at[2])
    return Location.of_line(files[place[0]], place[1]) if place is not None and place[0] in files else None


# The two texts as graphs ----------------------------------------------------------------------------------------------

_IR_EVENTS = (
    (re.compile(r"call void @llvm\.amdgcn\.raw\.ptr\.buffer\.load\.lds\("), COPY),
    (re.compile(r"call void @llvm\.amdgcn\.s\.barrier\("), BARRIER),
    (re.compile(r"^\s+ret void"), END),
)
_IR_WAIT = re.compile(r"call void @llvm\.amdgcn\.s\.waitcnt\(i32 (\d+)\)")
_THREADS = re.compile(r'"amdgpu-flat-work-group-size"="\d+,(\d+)"')
_IR_LABEL = re.compile(r"^([\w.]+):")
_IR_TARGETS = re.compile(r"label %([\w.]+)")
_COUNTER = re.compile(r"(vm|lgkm)cnt\((\d+)\)")


@functools.lru_cache(maxsize=1)  # origins.py asks again
def graph_of_ir(llvm: str) -> Graph:
    """Of the one function of LLVM IR text."""
    graph, labels = Graph(), {}
    jumps: list[tuple[int, str]] = []
    at = graph.add(None, 0)
    inside = False
    threads = _THREADS.search(llvm)
    one_wave = threads is not None and int(threads.group(1)) <= WAVE
    for number, line in enumerate(llvm.splitlines(), 1):
        if line.startswith("define "):
            inside = True
        if not inside:
            continue
        if line == "}":
            break
        label = _IR_LABEL.match(line)
        if label is not None:
            start = graph.add(None, number)
            labels[label.group(1)] = start
            if at >= 0 and label.group(1) == "entry":
                graph.following[at].append(start)
            at = start
        elif line.startswith("  br "):
            jumps += [(at, name) for name in _IR_TARGETS.findall(line)]
        elif "call void" in line or "  ret " in line:
            event: Event | None = next((event for pattern, event in _IR_EVENTS if pattern.search(line)), None)
            wait = _IR_WAIT.search(line)
            if wait is not None:
                event = decoded(int(wait.group(1)))
            if event is not None and not (one_wave and event == BARRIER):
                at = _follow(graph, at, event, number)
    for point, name in jumps:
        graph.following[point].append(labels[name])
    return graph


@functools.lru_cache(maxsize=2)  # origins.py asks again
def graph_of_text(text: str, closely: bool = False) -> Graph:
    """Of an assembly text."""
    return graph_of_assembly(read(text), closely)


def graph_of_assembly(code: Code, closely: bool = False) -> Graph:
    """Of the one kernel of an assembly text: of the paths that a wave can take (see exec_mask_cfg.py)."""
    graph, found = Graph(), paths(code, closely)
    events = [
        [(ins.line, event) for ins in code.inside(n) if (event := event_of(ins)) is not None]
        for n in range(len(code.blocks))
    ]
    starts = [graph.add(None, code.instructions[code.blocks[path.block].start].line) for path in found]
    for at, path in zip(starts, found, strict=True):
        for line, event in events[path.block]:
            at = _follow(graph, at, event, line)
        graph.following[at] += [starts[other] for other in path.following]
    return graph


def event_of(ins: Instruction) -> Event | None:
    if ins.name == "s_waitcnt":
        counts = {name: int(value) for name, value in _COUNTER.findall(ins.text)}
        return Wait(counts.get("vm", NO_VM), counts.get("lgkm", NO_LGKM))
    if ins.name == "s_barrier":
        return BARRIER
    if ins.ends:
        return END
    return COPY if ins.name.startswith("buffer_load") and ins.text.endswith(" lds") else None


def _follow(graph: Graph, at: int, event: Event | None, number: int) -> int:
    point = graph.add(event, number)
    graph.following[at].append(point)
    return point


def decoded(number: int) -> Wait:
    """The operand of s_waitcnt as bits."""
    return Wait(number & 15 | number >> 14 << 4, number >> 8 & 15)
