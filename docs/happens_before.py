"""Draws docs/happens_before.svg: what is ordered with what while the GEMM for sm_90a runs.

    PYTHONPATH=. python docs/happens_before.py

The GEMM of examples/ is compiled for one small block with a ring of two slots, and run in the simulator over three
steps of K. The events of one producer thread and of one consumer thread are noted as they are executed; from the
addresses of the mbarriers and the groups that are waited for follows which event is ordered behind which, as
docs/memory.md explains.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))

LANES = ("producer (one thread)", "copy engine", "consumers (each thread)", "tensor cores")
PRODUCER, COPIES, CONSUMER, PRODUCTS = range(4)
SLOTS, STEPS = 2, 3
SIZE = {"block_M": 64, "block_N": 16, "block_K": 32, "num_stages": SLOTS, "threads": 128}
KINDS = {  # how an edge is drawn, and what it stands for
    "program": ("#9aa0a6", "", "program order"),
    "issue": ("#5f6368", "3 3", "starts an asynchronous operation"),
    "barrier": ("#1a73e8", "", "mbarrier: arrival or bytes, then wait"),
    "group": ("#188038", "", "group: committed, then waited for"),
    "fence": ("#d93025", "", "proxy fence and barrier"),
}


@dataclass(eq=False)
class Event:
    """A box: its lane, its text, and the events right before it, each with the kind of the edge."""

    lane: int
    text: str
    before: list[tuple[Event, str]] = field(default_factory=list)
    row: int = -1


def record() -> list[tuple[int, str, int]]:
    """(lane, opcode, address or number) of what the two threads execute that has to do with order."""
    import gemm

    from minitile.runtime.sim.ptx import launch as sim
    from minitile.runtime.sim.ptx.syntax import Address, Integer, Register

    a, b = (np.ones((rows, 32 * STEPS), ml_dtypes.bfloat16) for rows in (64, 16))
    c = np.zeros((64, 16), ml_dtypes.bfloat16)
    log: list[tuple[int, str, int]] = []
    lanes = {128: PRODUCER, 0: CONSUMER}

    def value(m: Any, operand: Any, thread: int) -> int:
        if isinstance(operand, Integer):
            return operand.value
        if isinstance(operand, Register):
            return int(m.regs[operand.slot][thread])
        return value(m, operand.base, thread) + operand.offset if isinstance(operand, Address) else 0

    def noting(ins: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        places = [each for each in ins.operands if isinstance(each, Address)]
        subject = (places[-1:] or [each for each in ins.operands if isinstance(each, Integer)] or [Integer(0)])[0]

        def noted(m: Any, sel: Any, *pc: int) -> Any:
            for thread in m.thread[sel].tolist():
                if m.ctas == 1 and thread in lanes:
                    log.append((lanes[thread], ins.opcode, value(m, subject, thread)))
            return run(m, sel, *pc)

        return noted

    def load(text: str, entry: str) -> Any:
        program = original(text, entry)
        for step in program.code:
            if step.ins.name in ("mbarrier", "wgmma", "cp", "fence", "bar", "barrier", "stmatrix"):
                step.run = noting(step.ins, step.run)
                step.control = noting(step.ins, step.control) if step.control is not None else None
        return program

    original = sim.load_program
    with mock.patch.object(sim, "load_program", load):
        gemm.gemm_nt_bf16().compile(a, b, c, target="sm_90a", **SIZE).simulate(a, b, c)
    return log


def build(log: list[tuple[int, str, int]]) -> list[Event]:
    """The graph of the recorded events."""
    words = sorted({at for _, opcode, at in log if opcode.startswith("mbarrier.init")})
    names = {at: f"{'full' if n < SLOTS else 'empty'}[{n % SLOTS}]" for n, at in enumerate(words)}
    events: list[Event] = []
    last: dict[int, Event] = {}
    landed: dict[str, list[Event]] = {}  # by full[i]: what completes its phases
    released: dict[str, list[Event]] = {}
    waits: dict[str, int] = {}
    open_ends: list[tuple[Event, list[Event], int]] = []  # waits, which are noted when they begin
    groups: list[Event] = []  # products by group
    filled: dict[str, Event] = {}  # the latest load by full[i]
    state: dict[str, Any] = {"batch": False, "k": 0, "store": None}

    def add(lane: int, text: str, *before: tuple[Event, str]) -> Event:
        event = Event(lane, text, [*before])
        if lane in (PRODUCER, CONSUMER):
            if lane in last:
                fenced = last[lane].text.startswith(("fence", "bar"))
                event.before.append((last[lane], "fence" if fenced else "program"))
            last[lane] = event
        events.append(event)
        return event

    for lane, opcode, at in log:
        name = names.get(at, "")
        if opcode.startswith("mbarrier.try_wait"):
            turn = waits[name] = waits.get(name, -1) + 1
            wait = add(lane, f"wait {name}" + (" (empty at first)" if lane == PRODUCER and not turn else ""))
            if lane == PRODUCER and turn:
                open_ends.append((wait, released.setdefault(name, []), turn - 1))
            elif lane == CONSUMER:
                open_ends.append((wait, landed.setdefault(name, []), turn))
        elif "expect_tx" in opcode:
            add(lane, f"expect bytes on {name}")
        elif opcode.startswith("cp.async.bulk.tensor") and lane == PRODUCER:
            if name not in filled or filled[name] is None:
                issue = add(lane, f"copy A, B of step {len(landed.get(name, [])) * SLOTS + int(name[-2])}")
                filled[name] = issue
                step = issue.text[-1]
                done = add(COPIES, f"bytes of step {step} in slot {name[-2]}", (issue, "issue"))
                landed.setdefault(name, []).append(done)
            else:
                filled[name] = None  # the second copy of the pair
        elif opcode.startswith("wgmma.mma_async"):
            if not state["batch"]:
                issue = add(lane, f"wgmma of step {state['k']}")
                order = [(groups[-1], "program")] if groups else []
                groups.append(
                    add(PRODUCTS, f"product {state['k']}: reads slot {state['k'] % SLOTS}", (issue, "issue"), *order)
                )
                state["batch"], state["k"] = True, state["k"] + 1
        elif opcode.startswith("wgmma.commit"):
            state["batch"] = False
        elif opcode.startswith("wgmma.wait"):
            if len(groups) > at:
                add(lane, f"wgmma.wait_group {at}", (groups[len(groups) - 1 - at], "group"))
        elif opcode.startswith("mbarrier.arrive"):
            released.setdefault(name, []).append(add(lane, f"arrive at {name}"))
        elif opcode.startswith("stmatrix"):
            if not (lane in last and last[lane].text.startswith("stmatrix")):
                add(lane, "stmatrix: result to staged")
        elif opcode.startswith("fence.proxy"):
            add(lane, "fence.proxy.async")
        elif opcode.startswith("bar") and lane == CONSUMER and state["k"]:
            add(lane, "bar.sync: all consumers")
        elif opcode.startswith("cp.async.bulk.tensor"):
            issue = add(lane, "TMA store of staged")
            state["store"] = add(COPIES, "staged has been read", (issue, "issue"))
        elif opcode.startswith("cp.async.bulk.wait"):
            add(lane, "cp.async.bulk.wait_group.read 0", (state["store"], "group"))
    for wait, completions, turn in open_ends:
        wait.before.append((completions[turn], "barrier"))
    _place(events)
    return events


def _place(events: list[Event]) -> None:
    """Rows, so that every edge leads down and no two boxes of a lane are in one row."""
    moved = True
    while moved:
        moved = False
        for event in events:
            row = max(event.row, 1 + max((before.row for before, _ in event.before), default=-1))
            asynchronous = event.lane in (COPIES, PRODUCTS)  # the others are in program order
            while asynchronous and any(e is not event and (e.lane, e.row) == (event.lane, row) for e in events):
                row += 1
            moved |= row != event.row
            event.row = row


WIDTH, HEIGHT, LANE, ROW = 0.84, 0.6, 1.0, 1.0  # of a box, and from one to the next


def digest(events: list[Event]) -> str:
    """What the picture shows, as the file's description: the test compares it without drawing."""
    numbers = {id(event): n for n, event in enumerate(events)}
    shown = [(e.lane, e.row, e.text, [(numbers[id(before)], kind) for before, kind in e.before]) for e in events]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def draw(events: list[Event]) -> str:
    """The graph as SVG text."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    rows = 1 + max(event.row for event in events)
    with matplotlib.rc_context({"svg.hashsalt": "minitile", "svg.fonttype": "none", "font.size": 8}):
        figure, axes = pyplot.subplots(figsize=(10, 0.36 * rows + 1.4), layout="constrained")
        axes.set_xlim(-0.5, len(LANES) - 0.5)
        axes.set_ylim(rows - 0.4, -1.4)
        axes.axis("off")
        for lane, title in enumerate(LANES):
            axes.text(lane * LANE, -0.9, title, ha="center", va="center", weight="bold")
        for event in events:
            x, y = event.lane * LANE, event.row * ROW
            for before, kind in event.before:
                colour, dashes, _ = KINDS[kind]
                side = (event.lane > before.lane) - (event.lane < before.lane)
                start = (before.lane * LANE + side * WIDTH / 2, before.row * ROW + (0 if side else HEIGHT / 2))
                end = (x - side * WIDTH / 2, y - (0 if side else HEIGHT / 2))
                style = {"arrowstyle": "-|>", "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.1}
                line = (0, (3, 2)) if dashes else "-"
                axes.add_patch(FancyArrowPatch(start, end, color=colour, linestyle=line, **style))
            fill = "#f1f3f4" if event.lane in (PRODUCER, CONSUMER) else "#fef7e0"
            lower_left = (x - WIDTH / 2, y - HEIGHT / 2)
            box = FancyBboxPatch(
                lower_left, WIDTH, HEIGHT, "round,pad=0,rounding_size=0.05", facecolor=fill, edgecolor="#5f6368"
            )
            axes.add_patch(box)
            axes.text(x, y, event.text, ha="center", va="center", fontsize=7.5)
        lines = [Line2D([], [], color=c, linestyle="--" if dashes else "-") for c, dashes, _ in KINDS.values()]
        meanings = [meaning for _, _, meaning in KINDS.values()]
        figure.legend(lines, meanings, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Description": digest(events)})
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    (HERE / "happens_before.svg").write_text(draw(build(record())), encoding="utf-8")
