"""Draws docs/steady_iteration.svg: one steady iteration of the GEMM on gfx950, in each of its schedules.

    PYTHONPATH=. python docs/steady_iteration.py

The GEMM of benchmarks/cdna4_schedules.py is compiled, executed in the simulator, and replayed on the model of a compute
unit, which says when each instruction is issued. Drawn is the time from one round of the loop to the next in the two
waves of one SIMD, with the units that they and the other six waves share. Pointing at an instruction shows its text.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import cdna4_schedules as bench

from minitile.backends.amd.verify.check import steady_loop
from minitile.driver.simulate import launch_of
from minitile.runtime.sim.amdgcn import estimate_gcn
from minitile.runtime.sim.amdgcn.timing.estimate import Issued

DEPTH, ROUND = 768, 6  # K, and the round of the loop that is drawn
HEIGHT = 0.72  # of a lane's bars
COLOURS = {
    "MFMA": ("#1a73e8", "matrix product"),
    "LDS": ("#188038", "read of LDS"),
    "VMEM": ("#e37400", "copy, memory to LDS"),
    "wait": ("#d93025", "wait"),
    "barrier": ("#000000", "barrier"),
    "other": ("#9aa0a6", "addresses, priorities, the loop"),
    "stall": ("#fad2cf", "the wave cannot issue"),
}
WAVES = (0, 4)  # of SIMD 0


@dataclass
class Panel:
    """One schedule: what was issued from `start` to `end`, in cycles."""

    name: str
    start: int
    end: int
    issued: list[Issued]


def record(schedule: str) -> Panel:
    """The instructions of one round, as wave 0 counts them."""
    kernel = bench.compiled(schedule, DEPTH)
    m, n = bench.TILE["block_M"], bench.TILE["block_N"]
    arrays = [np.zeros(shape, ml_dtypes.bfloat16) for shape in ((m, DEPTH), (n, DEPTH), (m, n))]
    info = kernel.launch_info
    grid, args = launch_of(info, arrays)
    timing = estimate_gcn(kernel.text, info.entry, grid, info.block, args, record=True)
    last = steady_loop(kernel.text)[-1]
    jumps = [x.start for x in timing.issued if x.wave == 0 and " ".join(x.text.split()) == last]
    start, end = jumps[ROUND], jumps[ROUND + 1]
    return Panel(schedule, start, end, [x for x in timing.issued if x.end > start and x.start < end])


def kind(unit: str) -> str:
    return unit if unit in COLOURS else "other"


def merged(spans: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Neighbours of one colour become one."""
    found: list[tuple[int, int, str]] = []
    for start, end, colour in sorted(spans):
        if found and found[-1][2] == colour and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), colour)
        else:
            found.append((start, end, colour))
    return found


def digest(panels: list[Panel]) -> str:
    """What the picture shows, as the file's description: the test compares it without drawing."""
    shown = [
        (p.name, p.end - p.start, [(x.wave, x.unit, x.ready - p.start, x.start - p.start, x.text) for x in p.issued])
        for p in panels
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


class Drawing:
    """The lanes of one panel, on axes of matplotlib's. `titles`: what pointing at a bar shows, by the bar's id."""

    def __init__(self, axes: Any, panel: Panel, titles: dict[str, str]) -> None:
        self.axes, self.panel, self.titles = axes, panel, titles
        self.lanes: list[str] = []

    def bars(self, spans: list[tuple[int, int, str]]) -> None:
        clipped = [(max(a, self.panel.start), min(b, self.panel.end), colour) for a, b, colour in spans]
        kept = [(a - self.panel.start, b - a, colour) for a, b, colour in clipped if b > a]
        place = len(self.lanes) - 1 - HEIGHT / 2
        colours = [colour for _, _, colour in kept]
        self.axes.broken_barh([(a, length) for a, length, _ in kept], (place, HEIGHT), facecolors=colours, linewidth=0)

    def instructions(self, wave: int) -> None:
        from matplotlib.patches import Rectangle

        mine = [x for x in self.panel.issued if x.wave == wave]
        self.bars([(x.ready, x.start, COLOURS["stall"][0]) for x in mine])
        for x in mine:
            a, b = max(x.start, self.panel.start), min(x.start + 4, self.panel.end)
            if b > a:
                name = f"i{len(self.titles)}"
                self.titles[name] = f"{x.start - self.panel.start}: line {x.line}: {' '.join(x.text.split())}"
                place = (a - self.panel.start, len(self.lanes) - 1 - HEIGHT / 2)
                colour = COLOURS[kind(x.unit)][0]
                self.axes.add_patch(Rectangle(place, b - a, HEIGHT, facecolor=colour, linewidth=0, gid=name))

    def draw(self) -> None:
        panel, axes = self.panel, self.axes
        products = [x for x in panel.issued if x.unit == "MFMA" and x.simd == 0]
        busy = sum(min(x.end, panel.end) - max(x.start, panel.start) for x in products)
        length = panel.end - panel.start
        for wave in WAVES:
            self.lanes.append(f"wave {wave} issues")
            self.instructions(wave)
        self.lanes.append("matrix unit, SIMD 0")
        shades = {0: COLOURS["MFMA"][0], 4: "#8ab4f8"}
        self.bars(merged([(x.start, x.end, shades[x.wave]) for x in products]))
        for name, unit in (("LDS, all waves", "LDS"), ("memory, all waves", "VMEM")):
            self.lanes.append(name)
            self.bars(merged([(x.start, x.end, COLOURS[unit][0]) for x in panel.issued if x.unit == unit]))
        title = f"{panel.name}: {length} cycles a tile, the matrix units {busy / length:.0%} busy"
        axes.set_title(title, fontsize=9, loc="left")
        axes.set_yticks(range(len(self.lanes)), self.lanes)
        axes.set_ylim(len(self.lanes) - 0.5, -0.5)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)


def draw(panels: list[Panel]) -> str:
    """All panels below each other, one scale of cycles, as SVG text."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle

    titles: dict[str, str] = {}
    with matplotlib.rc_context({"svg.hashsalt": "minitile", "svg.fonttype": "none", "font.size": 8}):
        figure, rows = pyplot.subplots(
            len(panels), 1, sharex=True, figsize=(12, 1.7 * len(panels)), layout="constrained"
        )
        for axes, panel in zip(rows, panels, strict=True):
            Drawing(axes, panel, titles).draw()
        rows[-1].set_xlabel("cycles")
        rows[-1].set_xlim(0, max(p.end - p.start for p in panels))
        patches = [Rectangle((0, 0), 1, 1, facecolor=colour) for colour, _ in COLOURS.values()]
        meanings = [meaning for _, meaning in COLOURS.values()]
        figure.legend(patches, meanings, loc="outside upper center", ncols=len(COLOURS), frameon=False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Description": digest(panels)})
        pyplot.close(figure)
    text = re.sub(r' clip-path="[^"]*"', "", out.getvalue())
    text = re.sub(r'(<g id="(i\d+)">)', lambda m: f"{m[1]}<title>{escape(titles[m[2]])}</title>", text)
    return "\n".join(line.strip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "steady_iteration.svg").write_text(
        draw([record(name) for name in bench.SCHEDULES]), encoding="utf-8"
    )
