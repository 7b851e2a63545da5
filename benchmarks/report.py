"""What a benchmark found, as Markdown, JSON and a plot.

    python benchmarks/report.py NAME.json [NAME.svg]        draws the plot of a result that lies there

`Report` collects the rows of contest.py; `write` makes NAME.md, NAME.json and, where matplotlib is installed (the extra
`bench`), NAME.svg. The plot shows each contender's speed case by case; over each bar stands its ratio to the base.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contest import CaseResult, Entry

Row = dict[str, Any]
OURS = "minitile"
COLOURS = {
    "minitile": "#d1495b",
    "cublas": "#76b900",
    "cudnn": "#76b900",
    "flash2": "#00798c",
    "tilelang": "#edae49",
    "triton": "#30638e",
    "reference": "#8d99ae",
}


@dataclass
class Report:
    """`title` is the page's heading, `machine` what the numbers were taken on, `base` the contender whose speed is 1.
    rows: see contest.hold. tried: every entry, with its case. compiles: contender, config, seconds, stages (a text)."""

    title: str
    base: str
    machine: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    tried: list[Row] = field(default_factory=list)
    compiles: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The whole page."""
        lines = [f"# {self.title}", "", *(f"- {name}: {value}" for name, value in self.machine.items()), ""]
        lines += [*self.remarks, ""] if self.remarks else []
        lines += self._shares() + self._speeds() + self._compiles() + self._tried() + self._left_out()
        return "\n".join(lines).rstrip("\n") + "\n"

    def add(self, case: str, result: CaseResult) -> None:
        """The outcome of one case."""
        self.rows += result.rows
        self.tried += [{"case": case, **row} for row in result.tried]

    def compiled(self, entries: Iterable[Entry]) -> None:
        """What compiling them took: of each contender the first two that were measured."""
        for entry in entries:
            known = [row for row in self.compiles if row["contender"] == entry.contender]
            if entry.compile_seconds is None or len(known) == 2 or entry.config in [row["config"] for row in known]:
                continue
            self.compiles.append(
                {
                    "contender": entry.contender,
                    "config": entry.config,
                    "seconds": entry.compile_seconds,
                    "stages": entry.compile_stages,
                }
            )

    def write(self, path: str, plot: bool = True) -> list[str]:
        """Writes path.md, path.json and path.svg; a sentence on each. The plot only where matplotlib is installed."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        Path(path + ".md").write_text(self.markdown(), encoding="utf-8")
        Path(path + ".json").write_text(text, encoding="utf-8")
        return [f"wrote {path}.md and {path}.json", *([draw(self, path + ".svg")] if plot else [])]

    @staticmethod
    def read(path: str) -> Report:
        """The report that `write` left at `path` (the .json file)."""
        return Report(**json.loads(Path(path).read_text(encoding="utf-8")))

    def cases(self) -> dict[str, dict[str, Row]]:
        """The rows by case and contender, in the order in which they were measured."""
        found: dict[str, dict[str, Row]] = {}
        for row in self.rows:
            found.setdefault(row["case"], {})[row["contender"]] = row
        return found

    def contenders(self) -> list[str]:
        """Ours, then the others, each where it first came."""
        names = dict.fromkeys(row["contender"] for row in [*self.tried, *self.rows])
        return sorted(names, key=lambda name: name != OURS)

    def _shares(self) -> list[str]:
        """Ours against each other contender, case by case."""
        cases = {case: rows for case, rows in self.cases().items() if OURS in rows}
        others = [name for name in self.contenders() if any(name in rows[OURS]["of"] for rows in cases.values())]
        if not others:
            return []
        lines = ["Speed of minitile as a share of each one's speed: medians of the ratios round by round.", ""]
        lines += ["| case | TFLOP/s | " + " | ".join(f"of {name}" for name in others) + " |"]
        lines += ["|---|---:|" + "---:|" * len(others)]
        for case, rows in cases.items():
            of = [rows[OURS]["of"].get(name) for name in others]
            cells = [case, f"{rows[OURS]['tflops']:.0f}", *("" if share is None else f"{share:.3f}" for share in of)]
            lines.append("| " + " | ".join(cells) + " |")
        return [*lines, ""]

    def _speeds(self) -> list[str]:
        """Each contender's best entry, case by case."""
        if not self.rows:
            return []
        lines = ["## Each contender's best", ""]
        lines += [f"| case | contender | config | TFLOP/s | ± | of {self.base} | error | |"]
        lines += ["|---|---|---|---:|---:|---:|---:|---|"]
        for row in self.rows:
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
            known = ", ".join(f"{value} {name}" for name, value in row["facts"].items())
            cells = [
                row["case"],
                row["contender"],
                row["config"],
                f"{row['tflops']:.0f}",
                f"{row['spread']:.1%}",
                ratio,
            ]
            cells += [f"{row['error']:.1e}", "; ".join(filter(None, [known, row["note"]]))]
            lines.append("| " + " | ".join(cells) + " |")
        return [*lines, ""]

    def _compiles(self) -> list[str]:
        if not self.compiles:
            return []
        lines = [
            "## Compiling, nothing cached",
            "",
            "| contender | config | seconds | of these |",
            "|---|---|---:|---|",
        ]
        for row in self.compiles:
            lines.append(f"| {row['contender']} | {row['config']} | {row['seconds']:.2f} | {row['stages']} |")
        return [*lines, ""]

    def _tried(self) -> list[str]:
        """All entries by their speed in the choosing rounds, a line for each case and contender with several."""
        lines = []
        for case, contender in dict.fromkeys((row["case"], row["contender"]) for row in self.tried):
            timed = [
                row for row in self.tried if (row["case"], row["contender"]) == (case, contender) and row["tflops"]
            ]
            if len(timed) > 1:
                timed.sort(key=lambda row: -row["tflops"])
                speeds = "; ".join(f"{row['config']}: {row['tflops']:.0f}" for row in timed)
                lines.append(f"- {case}, {contender}: {speeds}")
        return ["## All entries, TFLOP/s in the rounds that chose", "", *lines, ""] if lines else []

    def _left_out(self) -> list[str]:
        failures = dict.fromkeys(
            f"- {row['contender']} {row['config']}".rstrip() + f", {row['case']}: {row['failure']}"
            for row in self.tried
            if row["failure"]
        )
        return ["## Left out", "", *failures, ""] if failures else []


def draw(report: Report, path: str) -> str:
    """Writes the plot to `path` (.svg); a sentence on what became of it."""
    if importlib.util.find_spec("matplotlib") is None:
        return "no plot: matplotlib is not installed (pip install 'minitile[bench]')"
    if not report.rows:
        return "no plot: there is nothing to draw"
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "minitile"  # the same numbers make the same file
    from matplotlib import pyplot

    cases, names = (
        report.cases(),
        [name for name in report.contenders() if any(name in c for c in report.cases().values())],
    )
    width = 0.8 / len(names)
    figure, axes = pyplot.subplots(figsize=(max(7.0, 1.0 + 1.35 * len(cases)), 4.8), layout="constrained")
    for place, name in enumerate(names):
        shown = [(i, rows[name]) for i, rows in enumerate(cases.values()) if name in rows]
        at = [i + (place - (len(names) - 1) / 2) * width for i, _ in shown]
        bars = axes.bar(at, [row["tflops"] for _, row in shown], width * 0.92, label=name, color=COLOURS.get(name))
        labels = ["" if row["ratio"] is None else f"{row['ratio']:.2f}" for _, row in shown]
        axes.bar_label(bars, labels, padding=2, fontsize=6.5, rotation=90)
    axes.set_xticks(range(len(cases)), [case.replace(" ", "\n", 1) for case in cases], fontsize=7.5)
    axes.set_ylabel("TFLOP/s")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.08)
    axes.set_title(f"{report.title}\n{report.machine.get('gpu', '')}; over the bars: of {report.base}", fontsize=9)
    axes.legend(fontsize=7.5, ncols=len(names), loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return f"drew {path}"


def draw_file(result: str, plot: str | None = None) -> str:
    """Draws the report at `result` (.json) to `plot`, by default NAME.svg beside it."""
    return draw(Report.read(result), plot or str(Path(result).with_suffix(".svg")))


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the plot of a benchmark's result.")
    parser.add_argument("result", help="NAME.json, as a benchmark wrote it")
    parser.add_argument("plot", nargs="?", help="the plot's file; without it: NAME.svg beside the result")
    args = parser.parse_args()
    print(draw_file(args.result, args.plot))


if __name__ == "__main__":
    main()
