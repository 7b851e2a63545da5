"""What minitile's speed has to reach: each bar measured, judged and printed.

    python benchmarks/bars.py memory                        every row of a suite (here benchmarks/memory.py)
    python benchmarks/bars.py memory --rows rows odd        some of them
    python benchmarks/bars.py memory --list                 which there are, with their cases
    python benchmarks/bars.py memory --out benchmarks/results/memory_h200
    python benchmarks/bars.py serving --keep OLD.json --out …    and of an earlier run, what still holds

A row is a bar for the geometric mean of its cells; no cell may lie below the bar by more than SLACK, or below a least
of the row's own. A cell is a ratio
of speeds, this kernel's to a contender's in the same rounds, or a time that may at most be the bar's.

Measurements are kept in --state, by GPU and case, as soon as they are there: the same command goes on where the last
one ended, --again measures anew. After --seconds no new case is begun. The exit code is 0 when every row passes, 1
when one fails, 2 when cases are left.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import contest
import timing

SUITES = {  # the module of each
    "memory": "memory",
    "serving": "serving",
    "tilelang": "tilelang_peers",
    "attention": "attention_bars",
    "schedule": "schedule_bars",
}
SLACK = 0.04  # how far below the bar of its row a cell may lie

Found = dict[str, Any]  # of one case: against whom → [value, spread]; and NO_CONTENDERS
NO_CONTENDERS = "note", "error", "date"  # what else is worth a word; what went wrong; the day of the measurement


@dataclass(frozen=True)
class Row:
    """`cells`: cases, each with the contender that it is held against. at_most: cells are seconds, and the bar holds
    for each of them. least: what no cell may lie below; None: the bar, less SLACK."""

    name: str
    title: str
    bar: float
    goal: float
    cells: tuple[tuple[str, str], ...]
    at_most: bool = False
    least: float | None = None


class Suite(Protocol):
    """What a module of bars offers."""

    ROWS: Sequence[Row]

    def measure(self, case: str, against: Sequence[str]) -> Found:
        """One case against these contenders. Raises what went wrong; TimeoutError where there was no time for it and
        contest.Missing where a contender is not there: then the case stays unmeasured.

        A suite that works on several cases at once has `ahead(cases, seconds)` as well, which is called before; one
        that draws its measurements, `draw(known, path)`; one whose earlier measurements may still hold,
        `unchanged(case, found)`."""


@dataclass(frozen=True)
class Verdict:
    """value: the geometric mean (of times the longest); worst: the cell that is furthest off; left: cells without a
    number; spread: the greatest of a cell."""

    row: Row
    value: float
    worst: float
    worst_case: str
    spread: float
    left: int
    failed: tuple[str, ...]

    @property
    def word(self) -> str:
        if self.failed:
            return "FAIL"
        if self.left:
            return "unmeasured" if math.isnan(self.value) else "unfinished"
        return "pass" if self.passes else "FAIL"

    @property
    def passes(self) -> bool:
        if self.row.at_most:
            return self.worst <= self.row.bar
        least = self.row.bar - SLACK if self.row.least is None else self.row.least
        return self.value >= self.row.bar and self.worst >= least


def judge(row: Row, known: Mapping[str, Found]) -> Verdict:
    """What the measurements so far say of a row."""
    cells, failed, left = [], [], 0
    for case, against in row.cells:
        found = known.get(case, {})
        if "error" in found:
            failed.append(f"{case}: {found['error']}")
        elif against in found:
            cells.append((*found[against], case))
        else:
            left += 1
    if not cells:
        return Verdict(row, math.nan, math.nan, "", math.nan, left, tuple(failed))
    values = [value for value, _, _ in cells]
    worst, _, case = (max if row.at_most else min)(cells)
    value = max(values) if row.at_most else math.exp(math.fsum(map(math.log, values)) / len(values))
    return Verdict(row, value, worst, case, max(spread for _, spread, _ in cells), left, tuple(failed))


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """One line a row, as Markdown."""
    lines = ["| row | cells | bar | goal | value | worst cell | spread | |", "|---|---:|---:|---:|---:|---|---:|---|"]
    for v in verdicts:
        sign = "≤" if v.row.at_most else "≥"
        numbers = (
            ["–"] * 3 if math.isnan(v.value) else [f"{v.value:.3f}", f"{v.worst:.3f} {v.worst_case}", f"{v.spread:.1%}"]
        )
        lines.append(
            f"| {v.row.title} | {len(v.row.cells)} | {sign} {v.row.bar:g} | {v.row.goal:g} | "
            + " | ".join(numbers)
            + f" | {v.word} |"
        )
        lines += [f"| ↳ {text} | | | | | | | |" for text in v.failed]
    return lines


def cells_table(rows: Sequence[Row], known: Mapping[str, Found]) -> list[str]:
    """Every measured case with all its contenders, as Markdown."""
    cases = list(dict.fromkeys(case for row in rows for case, _ in row.cells if case in known))
    names = list(dict.fromkeys(name for case in cases for name in known[case] if name not in NO_CONTENDERS))
    dated = any("date" in known[case] for case in cases)
    last = " | |" if not dated else " | | date |"
    lines = ["| case | " + " | ".join(names) + last, "|---|" + "---:|" * len(names) + "---|" * (1 + dated)]
    for case in cases:
        values = [f"{known[case][name][0]:.3f}" if name in known[case] else "" for name in names]
        words = [known[case].get("error", known[case].get("note", "")), *([known[case].get("date", "")] * dated)]
        lines.append(f"| {case} | " + " | ".join([*values, *words]) + " |")
    return lines


class State:
    """Measurements in a file, written after each."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.known: dict[str, Found] = {}
        if self.path.exists():
            self.known = json.loads(self.path.read_text(encoding="utf-8"))

    def of(self, place: str) -> dict[str, Found]:
        return self.known.setdefault(place, {})

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.known, indent=1, ensure_ascii=False), encoding="utf-8")


def wanted(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The contenders that each case is held against."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for case, against in row.cells:
            if against not in found.setdefault(case, []):
                found[case].append(against)
    return found


def run(suite: Suite, rows: Sequence[Row], state: State, seconds: float, again: bool) -> None:
    """Measure what is not there yet, until the time is over."""
    known, start = state.of(timing.place()), time.monotonic()
    left = {case: against for case, against in wanted(rows).items() if again or set(against) - set(known.get(case, {}))}
    if left and hasattr(suite, "ahead"):
        suite.ahead([*left], seconds)
    for case, against in left.items():
        if time.monotonic() - start > seconds:
            print(f"{case:40} no time left")
            continue
        began = time.monotonic()
        try:
            known[case] = {**({} if again else known.get(case, {})), **suite.measure(case, against)}
            known[case].pop("error", None)
            known[case]["date"] = time.strftime("%Y-%m-%d", time.gmtime())
            numbers = "  ".join(
                f"{name} {value[0]:.3f}" for name, value in known[case].items() if name not in NO_CONTENDERS
            )
            print(f"{case:40} {numbers}  {known[case].get('note', '')}  ({time.monotonic() - began:.1f} s)", flush=True)
        except (TimeoutError, contest.Missing) as error:
            print(f"{case:40} {error}", flush=True)
            continue
        except Exception as error:
            known[case] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]}
            print(f"{case:40} {known[case]['error']}", flush=True)
        state.write()


def kept(suite: Any, path: Path) -> dict[str, Found]:
    """Of an earlier result, what still holds."""
    earlier = json.loads(path.read_text(encoding="utf-8"))
    return {case: found for case, found in earlier.items() if "error" not in found and suite.unchanged(case, found)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=[*SUITES])
    parser.add_argument("--rows", nargs="*", default=[], help="names of rows, first ones first; none: all")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=460.0)
    parser.add_argument("--state", default="build/bars.json")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", default="", help="also write OUT.md and OUT.json")
    parser.add_argument("--keep", type=Path, help="OUT.json of an earlier run: what is not measured and still holds")
    options = parser.parse_args()
    suite: Any = importlib.import_module(SUITES[options.suite])
    rows = [row for row in suite.ROWS if not options.rows or row.name in options.rows]
    if options.rows:
        rows.sort(key=lambda row: options.rows.index(row.name))
    if options.only:
        kept = [(row, tuple(cell for cell in row.cells if options.only in cell[0])) for row in rows]
        rows = [replace(row, cells=cells) for row, cells in kept if cells]
    if options.list:
        for row in rows:
            print(
                f"{row.name}: {row.title}\n   " + "\n   ".join(f"{case} against {other}" for case, other in row.cells)
            )
        return 0
    state = State(options.state)
    run(suite, rows, state, options.seconds, options.again)
    known = state.of(timing.place())
    if options.keep:  # into tables of all rows
        rows, known = suite.ROWS, {**kept(suite, options.keep), **known}
    verdicts = [judge(row, known) for row in rows]
    print("\n" + "\n".join(table(verdicts)))
    if options.out:
        head = [f"# {suite.TITLE}", "", *(f"- {name}: {value}" for name, value in timing.machine().items()), ""]
        text = "\n".join([*head, *suite.REMARKS, "", *table(verdicts), "", *cells_table(rows, known)])
        Path(options.out + ".md").write_text(text + "\n", encoding="utf-8")
        Path(options.out + ".json").write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")
        if hasattr(suite, "draw"):
            suite.draw(known, options.out + ".svg")
    if any(v.left for v in verdicts):
        return 2
    return 0 if all(v.word == "pass" for v in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
