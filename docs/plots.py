"""The plots of the README and of the benchmarks' page, drawn by matplotlib from benchmarks/results/*.json.

    python docs/plots.py            draws the README's picture anew: docs/images/speed-light.svg and speed-dark.svg

All other plots are drawn when the site is built (`make docs`), so that they cannot disagree with the results. Each is
drawn twice, for a light and for a dark page. `FEATURED` names the rows of the README's table as well.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
IMAGES = Path(__file__).parent / "images"
THEMES = {"light": "#24292f", "dark": "#d0d7de"}  # the colour of text and lines; the background is the page's
COLOURS = {
    "minitile": "#d1495b",
    "cuBLAS": "#76a500",
    "cuDNN": "#76a500",
    "cuBLAS, cuDNN": "#76a500",
    "persistent": "#9b2f3f",
    "swapped": "#e5838f",
    "cluster_k": "#f0b3ba",
    "Triton": "#4a8fc7",
    "TileLang": "#e0a030",
    "FlashAttention-2": "#00998c",
    "torch": "#8d99ae",
    "the fastest plan": "#8d99ae",
}
NAMES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "triton": "Triton",
    "tilelang": "TileLang",
    "flash2": "FlashAttention-2",
    "grouped_mm": "torch._grouped_mm",
    "tuned": "the fastest plan",
    "two_kernels": "two kernels",
}


@dataclass(frozen=True)
class Featured:
    """A row of the README's table: what it is called, and the row of which result it is."""

    label: str
    result: str
    case: str
    contender: str = "minitile"


FEATURED = (
    Featured("GEMM 8192×8192×8192", "gemm_h200", "NT 8192x8192x8192"),
    Featured("the same, persistent kernel", "gemm_h200", "NT 8192x8192x8192", "persistent"),
    Featured("GEMM 4096×7168×2048, persistent kernel", "gemm_h200", "NT 4096x7168x2048", "persistent"),
    Featured("GEMM 128×8192×8192", "gemm_h200", "NT 128x8192x8192"),
    Featured("Attention, head size 128", "attention_h200", "4x16x4096x128"),
    Featured("Attention, head size 128, causal", "attention_h200", "4x16x4096x128 causal"),
    Featured("Attention, head size 64", "attention_h200", "4x32x4096x64"),
    Featured("fp8 GEMM 8192×8192×8192", "gemm_fp8_h200", "fast 8192x8192x8192"),
    Featured("Grouped GEMM, 4 groups of 8192 rows", "gemm_grouped_h200", "rows:4x8192:4096x7168"),
    Featured("GEMM 4096×4096×4096 by `mma.sync` (sm_80)", "gemm_sm80", "NT 4096x4096x4096"),
)


def load(name: str) -> Any:
    """benchmarks/results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def row(featured: Featured) -> dict[str, Any]:
    """The row of the result."""
    rows = load(featured.result)["rows"]
    (found,) = (r for r in rows if (r["case"], r["contender"]) == (featured.case, featured.contender))
    return dict(found)


def table() -> str:
    """The README's table: speed in TFLOP/s, and as a multiple of each peer's speed in the same run."""
    lines = [
        "| on an H200, bf16 unless it says fp8 | TFLOP/s | of cuBLAS, cuDNN | of Triton | of TileLang | run |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for featured in FEATURED:
        found = row(featured)
        vendor = found["of"].get("cudnn", found["of"].get("cublas"))
        shares = (vendor, found["of"].get("triton"), found["of"].get("tilelang"))
        cells = [featured.label, f"{found['tflops']:.0f}", *("–" if s is None else f"{s:.2f}" for s in shares)]
        link = f"[{featured.result.removesuffix('_h200')}](benchmarks/results/{featured.result}.md)"
        lines.append("| " + " | ".join([*cells, link]) + " |")
    return "\n".join(lines) + "\n"


def digest(*names: str) -> str:
    """What a plot was drawn from: a digest of the rows of these results."""
    text = json.dumps([load(name)["rows"] for name in names], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def featured_digest() -> str:
    """What the README's picture is drawn from."""
    return digest(*sorted({featured.result for featured in FEATURED}))


# Drawing -----------------------------------------------------------------------------------------------------------


def svg(draw: Callable[[Any], None], size: tuple[float, float], theme: str, source: str = "") -> str:
    """What `draw(axes)` draws, as SVG. `source` goes into the file's metadata."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    ink = THEMES[theme]
    settings = {
        "svg.hashsalt": "minitile",  # the same numbers make the same file
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["Roboto", "Helvetica", "Arial", "DejaVu Sans"],
        "font.size": 9,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink),
    }
    with matplotlib.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=size, layout="constrained")
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Description": source or None})
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def bars(
    axes: Any, groups: list[tuple[str, dict[str, float]]], unit: str, base: float | None = None, digits: int = 2
) -> None:
    """Groups of bars: (label, {name: number}) each. `base`: a line at this height."""
    names = list(dict.fromkeys(name for _, values in groups for name in values))
    for i, (_, values) in enumerate(groups):
        width = 0.84 / max(len(names), 1)
        here = [name for name in names if name in values]
        for j, name in enumerate(here):
            at = i + (j - (len(here) - 1) / 2) * width
            bar = axes.bar(at, values[name], width * 0.92, color=COLOURS.get(name, "#8d99ae"))
            axes.bar_label(bar, [f"{values[name]:.{digits}f}"], padding=2, fontsize=6.5, rotation=90)
    if base is not None:
        axes.axhline(base, color="#8d99ae", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(groups)), [label for label, _ in groups], fontsize=7.5)
    axes.set_ylabel(unit)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.12)
    axes.margins(x=0.01)
    handles = [axes.bar(0, 0, color=COLOURS.get(name, "#8d99ae")) for name in names]
    axes.legend(handles, names, fontsize=8, ncols=len(names), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)


def speed(axes: Any) -> None:
    """The README's picture: the featured rows that were run beside Triton and TileLang on the GPU's own target."""
    groups = []
    for featured in FEATURED:
        rows = {r["contender"]: r for r in load(featured.result)["rows"] if r["case"] == featured.case}
        base = "cudnn" if "cudnn" in rows else "cublas"
        if not featured.result.endswith("_h200") or not {"triton", "tilelang"} <= set(rows):
            continue
        values = {"minitile": rows[featured.contender]["of"][base], "cuBLAS, cuDNN": 1.0}
        values |= {NAMES[name]: rows[name]["of"][base] for name in ("triton", "tilelang")}
        label = featured.label.replace("the same, ", "GEMM 8192×8192×8192, ")
        groups.append((label.replace(" ", "\n", 1).replace(", ", "\n"), values))
    bars(axes, groups, "speed, cuBLAS or cuDNN = 1", base=1.0)
    axes.set_title("bf16 on an NVIDIA H200, 22 November 2026", fontsize=9, loc="left")


def ratios(name: str, contenders: Iterable[str], base: str) -> Callable[[Any], None]:
    """Speeds of a result's contenders as shares of `base`."""

    def draw(axes: Any) -> None:
        cases: dict[str, dict[str, float]] = {}
        for r in load(name)["rows"]:
            if r["contender"] == base or (r["contender"] in contenders and base in r["of"]):
                value = 1.0 if r["contender"] == base else r["of"][base]
                cases.setdefault(r["case"], {})[NAMES.get(r["contender"], r["contender"])] = value
        order = [NAMES.get(c, c) for c in (*contenders, base)]
        groups = [
            (re.sub(r"[ :]|(?<=\d)x", "\n", case), {n: found[n] for n in order if n in found})
            for case, found in cases.items()
        ]
        bars(axes, groups, f"speed, {NAMES.get(base, base)} = 1", base=1.0)

    return draw


def scatter(axes: Any) -> None:
    """mt.ops.matmul on random problems: its speed over cuBLAS's by the problem's size."""
    for name, colour in (("matmul_h200", "#d1495b"), ("matmul_second_h200", "#4a8fc7")):
        rows = [r for r in load(name)["rows"] if r["contender"] == "minitile"]
        flops = []
        for r in rows:
            m, n, k = map(int, r["case"].split()[-1].split("x")[-3:])
            flops.append(2e-9 * m * n * k)
        shares = [r["of"]["cublas"] for r in rows]
        label = f"{name}: geometric mean {statistics.geometric_mean(shares):.2f}"
        axes.scatter(flops, shares, s=18, color=colour, label=label)
    axes.axhline(1.0, color="#8d99ae", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xlabel("GFLOP of the problem")
    axes.set_ylabel("speed, cuBLAS = 1")
    axes.legend(fontsize=8, frameon=False)


def launches(axes: Any) -> None:
    """Host time of a launch."""
    shown = {
        "minitile, prepared": "minitile, prepared",
        "minitile, plain call": "minitile, call",
        "triton 3.6.0": "Triton 3.6.0, call",
        "minitile, ops.matmul": "mt.ops.matmul",
        "torch: matmul": "torch.matmul",
        "driver alone": "the driver alone",
    }
    times = load("launch_h200")["microseconds"]
    values = [times[name]["median"] for name in shown]
    colours = ["#d1495b" if "m" in label[:2] else "#8d99ae" for label in shown.values()]
    bar = axes.barh(list(shown.values())[::-1], values[::-1], color=colours[::-1])
    axes.bar_label(bar, [f"{value:.1f}" for value in values[::-1]], padding=3, fontsize=8)
    axes.set_xlabel("µs on the host, median")
    axes.margins(x=0.1)


PLOTS: dict[str, tuple[Callable[[Any], None], tuple[float, float]]] = {
    "speed": (speed, (9.0, 3.6)),
    "gemm": (ratios("gemm_h200", ("persistent", "minitile", "triton", "tilelang"), "cublas"), (11.0, 4.0)),
    "gemm_persistent": (
        ratios("gemm_persistent_h200", ("persistent", "minitile", "swapped", "cluster_k"), "cublas"),
        (13.0, 4.0),
    ),
    "attention": (ratios("attention_h200", ("minitile", "triton", "tilelang", "flash2"), "cudnn"), (10.0, 4.0)),
    "gemm_fp8": (ratios("gemm_fp8_h200", ("minitile",), "cublas"), (9.0, 3.6)),
    "gemm_grouped": (ratios("gemm_grouped_h200", ("minitile", "grouped_mm"), "cublas"), (15.0, 4.0)),
    "matmul": (scatter, (8.0, 3.8)),
    "launch": (launches, (7.0, 2.6)),
}


def draw(name: str, theme: str) -> str:
    """The SVG of a plot in a theme: "light" or "dark"."""
    function, size = PLOTS[name]
    return svg(function, size, theme, featured_digest() if name == "speed" else "")


def main() -> None:
    for theme in THEMES:
        path = IMAGES / f"speed-{theme}.svg"
        path.write_text(draw("speed", theme), encoding="utf-8")
        print(f"drew {path}")


if __name__ == "__main__":
    main()
