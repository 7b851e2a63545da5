"""What a page about a kernel shows, before it is HTML: its stages line by line, each line with its place in the source.

`record` compiles the kernel once more and looks at it after each pass. A place is a line of a source file; it is known
by its number in `Page.places`, and a line of a stage names the number of its own (None: of no known place). Where the
place is in a helper function, `callers` has the places that call it.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from minitile.backends.line_table import line_table
from minitile.driver.pipeline import compile_ir
from minitile.ir.core import Kernel
from minitile.ir.diagnostics import Location
from minitile.ir.ops import tile
from minitile.ir.printer import print_lines
from minitile.language.tracing.source import text_of
from minitile.tools.explain import summary
from minitile.tools.html.memory import MemoryMap, lives_in, memory_map
from minitile.tools.html.roles import Chart, role_chart

if TYPE_CHECKING:
    from minitile.driver.jit import CompiledKernel

TITLES = {
    "traced_ir": "traced IR",
    "tile_ir": "tile IR",
    "thread_ir": "thread IR",
    "ptx": "PTX",
    "llvm": "LLVM IR",
    "gcn": "GCN assembly",
}
LONG = 4000  # lines of a text
_NUMBER = re.compile(r"%\d+|(?<=\w)_\d+\b")  # what tells values of the same name apart: every pass counts anew
Change = tuple[str, int, int, int, int]  # "replace", "delete" or "insert", and the lines before and after, from and to


@dataclass
class Stage:
    """A text, and of each line the number of its place."""

    name: str
    lines: list[str]
    places: list[int | None]


@dataclass
class Pass:
    """One run of a pass: its milliseconds, what came out, and how that differs from what came out of the one before;
    `after` is None where nothing changed."""

    name: str
    milliseconds: float
    after: Stage | None = None
    changes: list[Change] = field(default_factory=list)


@dataclass
class Excerpt:
    """Consecutive lines of a source file from line `first` on, and of each the number of its place, if it is one."""

    file: str
    first: int
    lines: list[str]
    places: list[int | None]


@dataclass
class Page:
    """All that is shown. `stages` in the order in which they come, `callers` by the number of a place."""

    kernel: str
    target: str
    summary: list[tuple[str, str]]
    places: list[tuple[str, int]] = field(default_factory=list)
    callers: dict[int, list[int]] = field(default_factory=dict)
    source: list[Excerpt] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    roles: Chart | None = None
    memory: MemoryMap | None = None


def record(compiled: CompiledKernel) -> Page:
    """The page's contents. Compiles once more, and assembles where an assembler is installed; raises MinitileError."""
    page = Page(compiled.launch_info.entry, str(compiled.target), summary(compiled))
    recorder = _Recorder(page)
    result = compile_ir(compiled.case.trace(), compiled.target, compiled.passes, texts=True, after=recorder.after)
    for name, text in result.assembly.items():
        places = [None if at is None else recorder.number(at) for at in line_table(text)]
        page.stages.append(Stage(name, text.splitlines(), places))
    function = compiled.case.kernel.function
    file, line = function.__code__.co_filename, function.__code__.co_firstlineno
    page.source = list(excerpts([(file, line), *page.places], recorder.numbers, {file: text_of(function).lines}))
    return page


class _Recorder:
    """Looks at the kernel after each pass. What is kept is text and numbers: the next pass changes the operations."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.numbers: dict[tuple[str, int], int] = {}
        self.last: Stage | None = None
        self.lives = lives_in(None)

    def number(self, place: tuple[str, int]) -> int:
        if place not in self.numbers:
            self.numbers[place] = len(self.page.places)
            self.page.places.append(place)
        return self.numbers[place]

    def at(self, loc: Location | None) -> int | None:
        if loc is None:
            return None
        own = self.number((loc.file, loc.line))
        callers = self.page.callers.setdefault(own, []) if loc.caller is not None else []
        while (loc := loc.caller) is not None:
            caller = self.number((loc.file, loc.line))
            if caller not in (own, *callers):
                callers.append(caller)
        return own

    def after(self, name: str, kernel: Kernel, milliseconds: float) -> None:
        printed = print_lines(kernel)
        stage = Stage(name, [text for text, _ in printed], [self.at(op.loc if op else None) for _, op in printed])
        if name in TITLES:
            self.page.stages.append(stage)
            if name == "tile_ir":
                self.page.roles = role_chart(kernel, self.at)
            if name == "thread_ir":
                self.page.memory = memory_map(self.lives, kernel.attrs.get("shared_bytes", 0), self.at)
        else:
            self.page.passes.append(self.change(name, milliseconds, stage))
        self.last = stage
        if kernel.stage == "thread" and any(_unplaced(op) for op in kernel.walk()):
            self.lives = lives_in(kernel)

    def change(self, name: str, milliseconds: float, stage: Stage) -> Pass:
        before = self.last
        if before is None or before.lines == stage.lines:
            return Pass(name, milliseconds)
        return Pass(name, milliseconds, stage, differences(before.lines, stage.lines))


def excerpts(
    wanted: Iterable[tuple[str, int]], numbers: Mapping[tuple[str, int], int], known: Mapping[str, list[str]]
) -> Iterator[Excerpt]:
    """The functions around places, each once, in the order of the places. `numbers` are those of all places; `known`
    has the lines of some files, whatever stands in them now."""
    shown: set[tuple[str, int]] = set()
    for file, line in wanted:
        if (file, line) not in shown:
            lines = known.get(file) or linecache.getlines(file)
            start, end = _function_around(lines, line)
            rows = range(start, end + 1)
            shown.update((file, n) for n in rows)
            texts = [lines[n - 1].rstrip("\r\n") if n <= len(lines) else "" for n in rows]
            yield Excerpt(file, start, texts, [numbers.get((file, n)) for n in rows])


def _unplaced(op: object) -> bool:
    return isinstance(op, tile.Alloc) and op.type_.space == "shared" and op.offset is None


def differences(before: list[str], after: list[str]) -> list[Change]:
    """How one text becomes the other, but for numbers that only tell values apart. In a long text frequent lines may be
    taken for changed: to compare each with each would take seconds."""
    old, new = ([_NUMBER.sub("%", line) for line in lines] for lines in (before, after))
    found = SequenceMatcher(None, old, new, autojunk=len(new) > LONG).get_opcodes()
    return [change for change in found if change[0] != "equal"]


def _function_around(lines: list[str], line: int) -> tuple[int, int]:
    """The first and last line of the innermost function around a line, decorators included; of the line alone where
    there is none, or no source."""
    around = line, line
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return around
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = min(n.lineno for n in (node, *node.decorator_list)), node.end_lineno or node.lineno
            if first <= line <= last:
                around = first, last  # the walk comes to inner ones later
    return around
