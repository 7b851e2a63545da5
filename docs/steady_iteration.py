"""Draws docs/steady_iteration.svg: one steady iteration of the GEMM on gfx950, in each of its schedules.

    PYTHONPATH=. python docs/steady_iteration.py

The GEMM of benchmarks/cdna4_schedules.py is compiled, executed in the simulator, and replayed on the model of a compute
unit, which says when each instruction is issued. Drawn is the time from one round of the loop to the next in the two
waves of one SIMD, with the units that they and the other six waves share. Pointing at an instruction shows its text.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import cdna4_schedules as bench

from minitile.backends.amd.verify.check import steady_loop
from minitile.driver.simulate import launch_of
from minitile.runtime.sim.amdgcn import estimate_gcn
from minitile.runtime.sim.amdgcn.timing.estimate import Issued

DEPTH, ROUND = 768, 6  # K, and the round of the loop that is drawn
SCALE = 0.4  # pixels a cycle
LEFT, TOP, LANE, GAP, PANEL = 150, 56, 16, 6, 40
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


class Drawing:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = TOP

    def text(self, x: float, y: float, what: str, more: str = "") -> None:
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(what)}</text>')

    def bar(self, panel: Panel, start: int, end: int, colour: str, title: str = "") -> None:
        start, end = max(start, panel.start), min(end, panel.end)
        if end > start:
            x, width = LEFT + (start - panel.start) * SCALE, (end - start) * SCALE
            end_tag = f"><title>{escape(title)}</title></rect>" if title else "/>"
            self.parts.append(
                f'<rect x="{x:.1f}" y="{self.y}" width="{width:.1f}" height="{LANE}" fill="{colour}"{end_tag}'
            )

    def lane(self, name: str) -> None:
        self.y += LANE + GAP
        self.text(LEFT - 8, self.y + 12, name, ' text-anchor="end"')

    def panel(self, panel: Panel) -> None:
        products = [x for x in panel.issued if x.unit == "MFMA" and x.simd == 0]
        busy = sum(min(x.end, panel.end) - max(x.start, panel.start) for x in products)
        length = panel.end - panel.start
        self.text(LEFT, self.y + 12, f"{panel.name}: {length} cycles a tile, the matrix units {busy / length:.0%} busy")
        for wave in WAVES:
            self.lane(f"wave {wave} issues")
            mine = [x for x in panel.issued if x.wave == wave]
            for x in mine:
                self.bar(panel, x.ready, x.start, COLOURS["stall"][0])
            for x in mine:
                at = f"{x.start - panel.start}: line {x.line}: {' '.join(x.text.split())}"
                self.bar(panel, x.start, x.start + 4, COLOURS[kind(x.unit)][0], at)
        self.lane("matrix unit, SIMD 0")
        shades = {0: COLOURS["MFMA"][0], 4: "#8ab4f8"}
        for start, end, colour in merged([(x.start, x.end, shades[x.wave]) for x in products]):
            self.bar(panel, start, end, colour)
        for name, unit in (("LDS, all waves", "LDS"), ("memory, all waves", "VMEM")):
            self.lane(name)
            spans = [(x.start, x.end, COLOURS[unit][0]) for x in panel.issued if x.unit == unit]
            for start, end, colour in merged(spans):
                self.bar(panel, start, end, colour)
        self.y += LANE + PANEL


def draw(panels: list[Panel]) -> str:
    drawing = Drawing()
    x = LEFT
    for colour, what in COLOURS.values():
        drawing.parts.append(f'<rect x="{x}" y="18" width="12" height="12" fill="{colour}"/>')
        drawing.text(x + 17, 28, what)
        x += 30 + 7 * len(what)
    for panel in panels:
        drawing.panel(panel)
    width = LEFT + max(p.end - p.start for p in panels) * SCALE + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(width, x):.0f}" height="{drawing.y}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *drawing.parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "steady_iteration.svg").write_text(
        draw([record(name) for name in bench.SCHEDULES]), encoding="utf-8"
    )
