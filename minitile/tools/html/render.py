"""The page as HTML: the contents of `page.Page` put into page.html, where style and script are. All text is escaped."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import PurePath
from string import Template

from minitile.tools.html.memory import MemoryMap
from minitile.tools.html.page import TITLES, Change, Page, Stage
from minitile.tools.html.roles import Arrow, Chart, Row

HIDDEN = ("traced_ir", "llvm")  # stages that are not open at first
LANE, GAP, TRACK, ROW, TOP = 430, 90, 24, 22, 30  # pixels: lanes, between them, arrows within one, rows, titles
LETTER = 7.3  # pixels that a letter of the charts takes
WIDTH, HEIGHT, LEFT = 900, 320, 70  # pixels of the memory map, and of the bytes beside it
KINDS = {
    "waits": "waits",
    "arrives": "lets others go on",
    "async": "begins an asynchronous operation",
    "memory": "accesses memory",
    "compute": "computes tiles",
}


def render(page: Page) -> str:
    """The whole page: one text without links to anything outside."""
    template = files("minitile.tools.html").joinpath("page.html").read_text(encoding="utf-8")
    panes = [_source(page), *map(_stage, page.stages)]
    chosen = [
        ("source", "source", True),
        *((s.name, TITLES.get(s.name, s.name), s.name not in HIDDEN) for s in page.stages),
    ]
    return Template(template).substitute(
        title=escape(f"{page.kernel} for {page.target}"),
        summary=_table(page.summary),
        chooser="".join(
            f'<label><input type="checkbox" data-pane="{name}"{" checked" if on else ""}> {escape(title)}</label>'
            for name, title, on in chosen
        ),
        panes="\n".join(panes),
        passes=_passes(page),
        roles=_chart(page.roles) if page.roles else "",
        memory=_memory(page.memory, page) if page.memory else "",
        snapshots=_packed(page),
        callers=json.dumps(page.callers).replace("<", "\\u003c"),
    )


def _table(rows: list[tuple[str, str]]) -> str:
    """Names and what they say; several of one name stand below it."""
    names = [name if n == 0 or rows[n - 1][0] != name else "" for n, (name, _) in enumerate(rows)]
    lines = [
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, (_, text) in zip(names, rows, strict=True)
    ]
    return f"<table>{''.join(lines)}</table>"


def _line(place: int | None) -> str:
    return "" if place is None else f' data-line="{place}"'


def _pane(name: str, title: str, note: str, lines: Iterator[str]) -> str:
    head = f"<h3>{escape(title)} <small>{escape(note)}</small></h3>"
    text = "\n".join(lines)
    code = f'<div class="scroll"><pre class="code">\n{text}\n</pre></div>'
    return f'<div class="pane" id="{name}">{head}{code}</div>'


def _source(page: Page) -> str:
    def lines() -> Iterator[str]:
        for n, part in enumerate(page.source):
            if n:
                yield f"<b>{escape(PurePath(part.file).name)}</b>"
            for number, (place, text) in enumerate(zip(part.places, part.lines, strict=True), part.first):
                focus = "" if place is None else ' tabindex="0"'
                yield f'<span data-n="{number}"{_line(place)}{focus}>{escape(text)}</span>'

    return _pane("source", "source", PurePath(page.source[0].file).name, lines())


def _stage(stage: Stage) -> str:
    lines = (
        f"<span{_line(place)}>{escape(text)}</span>" for text, place in zip(stage.lines, stage.places, strict=True)
    )
    return _pane(stage.name, TITLES.get(stage.name, stage.name), f"{len(stage.lines)} lines", lines)


def _passes(page: Page) -> str:
    longest = max((p.milliseconds for p in page.passes), default=0) or 1
    items = []
    for number, p in enumerate(page.passes):
        minus, plus = sum(i2 - i1 for _, i1, i2, _, _ in p.changes), sum(j2 - j1 for _, _, _, j1, j2 in p.changes)
        counts = f"<i>+{plus}</i> <s>−{minus}</s>" if p.after else ""
        share = f"--share: {100 * p.milliseconds / longest:.0f}%"
        items.append(
            f'<li><button type="button" data-pass="{number}" class="{"" if p.after else "same"}" style="{share}">'
            f"<span>{escape(p.name)}</span><span>{counts}</span><small>{p.milliseconds:.2f} ms</small></button></li>"
        )
    return "\n".join(items)


def _packed(page: Page) -> str:
    """What came out of each pass, as JSON, deflated, in base 64: [name, lines, places, changes]."""

    def snapshot(name: str, stage: Stage | None, changes: list[Change]) -> list[object]:
        return [name, stage and stage.lines, stage and stage.places, changes]

    traced = next(stage for stage in page.stages if stage.name == "traced_ir")
    texts = {
        "traced": snapshot(traced.name, traced, []),
        "passes": [snapshot(p.name, p.after, p.changes) for p in page.passes],
    }
    return base64.b64encode(zlib.compress(json.dumps(texts, separators=(",", ":")).encode(), 9)).decode()


# Charts -----------------------------------------------------------------------------------------------------------


def _chart(chart: Chart) -> str:
    hues = {by: 137 * n % 360 for n, by in enumerate(dict.fromkeys(arrow.by for arrow in chart.arrows))}
    inner = [sum(a.source.lane == a.target.lane == n for a in chart.arrows) for n in range(len(chart.lanes))]
    lanes = [10]  # where each begins, and where the last one ends; arrows within a lane run at its right
    for count in inner:
        lanes.append(lanes[-1] + LANE + max(GAP, 30 + count * TRACK))
    parts = [f'<svg width="{lanes[-1]}" height="{TOP + chart.height * ROW + 16}" role="img" aria-label="roles">']
    for x, title in zip(lanes, chart.lanes, strict=False):
        parts.append(f'<rect class="lane" x="{x}" y="{TOP}" width="{LANE}" height="{chart.height * ROW + 8}" rx="8"/>')
        parts.append(f'<text x="{x}" y="{TOP - 10}">{_cut(title, LANE)}</text>')
    for n, arrow in enumerate(chart.arrows):
        before = sum(a.source.lane == a.target.lane == arrow.source.lane for a in chart.arrows[:n])
        parts.append(_arrow(arrow, lanes, hues[arrow.by], before))
    parts += [_row(row, lanes) for row in chart.rows]  # over the arrows that cross their lane
    parts.append("</svg>")
    legend = "".join(f'<span class="{k}"><i class="swatch"></i>{text}</span>' for k, text in KINDS.items())
    by = "".join(
        f'<span><i class="swatch" style="background:hsl({hue} 70% 50%)"></i>{escape(name)}</span>'
        for name, hue in hues.items()
    )
    return (
        "<p>Drawn from the tile IR. Lanes run at the same time; a lane's operations are in program order, and heights "
        "are no times. An arrow leads from what lets go to what waits: solid ones are barriers, dashed ones the "
        "completion of an asynchronous operation, with the number of iterations from its start to the wait.</p>"
        f'<p class="legend">{legend}</p><p class="legend">{by}</p>'
        f'{_table(chart.pipelines)}<div class="wide">{"".join(parts)}</div>'
    )


def _cut(text: str, width: float) -> str:
    most = int(width / LETTER)
    return escape(text if len(text) <= most else text[: most - 1] + "…")


def _row(row: Row, lanes: list[int]) -> str:
    x, y = lanes[row.lane] + 8 + 14 * row.depth, TOP + 4 + row.y * ROW
    room = LANE - 16 - 14 * row.depth
    box = f'<rect class="box" x="{x}" y="{y}" width="{room}" height="{(row.end - row.y + 1) * ROW - 2}" rx="5"/>'
    mark = f'<rect class="mark" x="{x + 3}" y="{y + 4}" width="4" height="{ROW - 10}" rx="2"/>'
    return (
        f'<g class="{row.kind}"{_line(row.place)}><title>{escape(row.text)}</title>'
        f'<rect class="back" x="{x}" y="{y}" width="{room}" height="{ROW - 2}" rx="5"/>'
        f"{box if row.kind == 'region' else ''}{mark}"
        f'<text x="{x + 13}" y="{y + 14}">{_cut(row.text, room - 20)}</text></g>'
    )


def _arrow(arrow: Arrow, lanes: list[int], hue: int, before: int) -> str:
    """From side to side between lanes; within one on a track of its own, `before` others, at the lane's right."""
    source, target = arrow.source, arrow.target
    y1, y2 = TOP + 18 + source.y * ROW, TOP + 12 + target.y * ROW
    label = ""
    if source.lane == target.lane:
        x2 = lanes[source.lane] + LANE
        out = x2 + 16 + before * TRACK
        path, side = f"M{x2} {y1}H{out}V{y2}H{x2 + 7}", 7
        if arrow.turns:
            label = f'<text x="{out + 5}" y="{(y1 + y2) / 2 + 4:.0f}">+{arrow.turns}</text>'
    else:
        forth = source.lane < target.lane
        x1, x2, side = lanes[source.lane] + LANE * forth, lanes[target.lane] + LANE * (not forth), -7 if forth else 7
        middle = (x1 + x2) / 2
        path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2 + side} {y2}"
    told = escape(
        f"{arrow.by}: {source.text} → {target.text}" + (f", {arrow.turns} iterations on" if arrow.turns else "")
    )
    return (
        f'<g class="arrow{" token" if arrow.by == "token" else ""}" style="--hue:{hue}"><title>{told}</title>'
        f'<path d="{path}"/><polygon points="{x2},{y2} {x2 + side},{y2 - 4} {x2 + side},{y2 + 4}"/>{label}</g>'
    )


def _memory(memory: MemoryMap, page: Page) -> str:
    if not memory.buffers:
        return "<p>The kernel has no shared memory.</p>"
    loops = TOP + 4
    start, end = min(b.first for b in memory.buffers), max(b.last for b in memory.buffers)
    across, down = (WIDTH - LEFT) / (end - start + 1), HEIGHT / max(1, memory.total)
    parts = [f'<svg width="{WIDTH + 10}" height="{HEIGHT + loops + 24}" role="img" aria-label="shared memory">']
    for name, place, first, last in memory.loops:
        first, last = max(first, start), min(last, end)
        if first > last:
            continue
        x, width = LEFT + (first - start) * across, max(2.0, (last - first + 1) * across)
        parts.append(
            f"<g{_line(place)}>"
            f'<rect class="lane" x="{x:.1f}" y="4" width="{width:.1f}" height="{HEIGHT + loops}" rx="4"/>'
            f'<text class="dim" x="{x + 4:.1f}" y="18">{_cut(name, width)}</text></g>'
        )
    for n, b in enumerate(memory.buffers):
        x, y = LEFT + (b.first - start) * across, loops + b.offset * down
        width, height = max(3.0, (b.last - b.first + 1) * across), max(2.0, (b.end - b.offset) * down)
        cuts = [y + height * k / b.versions for k in range(1, b.versions)]
        label = f"{b.name} {f'{b.versions} × ' if b.versions > 1 else ''}{b.version_bytes} bytes"
        lines = "".join(f'<line x1="{x:.1f}" x2="{x + width:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>' for at in cuts)
        text = f'<text x="{x + 6:.1f}" y="{y + 14:.1f}">{_cut(label, width)}</text>' if height >= 16 else ""
        parts.append(
            f'<g class="buffer" style="--hue:{(210 + n * 67) % 360}"{_line(b.places[0])}><title>{escape(label)}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3"/>{lines}{text}</g>'
        )
    above = -ROW
    for at in sorted({edge for b in memory.buffers for edge in (b.offset, b.end)}):
        y = int(loops + at * down + 4)
        if y - above >= 11:  # else it would stand on the one above
            parts.append(f'<text class="dim" x="{LEFT - 6}" y="{y}" text-anchor="end">{at}</text>')
            above = y
    parts.append("</svg>")
    head = ("buffer", "bytes", "versions", "of one", "elements", "needed in", "shares bytes with")
    rows = []
    for b in memory.buffers:
        lines = " to ".join(str(page.places[at][1]) for at in b.places[1:] if at is not None)
        needed = "all of the kernel" if (b.first, b.last) == (1, memory.operations) else f"lines {lines}"
        cells = (
            b.name,
            f"{b.offset} to {b.end}",
            b.versions,
            b.version_bytes,
            b.what,
            needed,
            ", ".join(b.shares),
        )
        rows.append(f"<tr{_line(b.places[0])}>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>")
    table = f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{''.join(rows)}</table>"
    return (
        f"<p>{memory.total} bytes for a block. Down: bytes. To the right: the order of the program, operation by "
        "operation, loops shaded; roles, which run at the same time, stand one after the other. A buffer that a "
        "pipeline hands from role to role keeps its bytes throughout.</p>"
        f'<div class="wide">{"".join(parts)}</div><div class="wide">{table}</div>'
    )
