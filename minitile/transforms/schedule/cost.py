"""What a turn of a loop costs, by unit: an expectation to look at, not a measurement.

A tile operation keeps one unit of a multiprocessor busy, for as many cycles as its rate says (hardware.Rates, with
sources): products the tensor cores, copies what brings tensors, accesses shared memory, functions such as exp2 the
special units, all else arithmetic. A turn takes as long as its busiest unit at the least; the share of each is of that.
Where a target's backend says what thread IR asks of the units (`Rules.work`), the instructions of the final kernel take
the place of what tile IR has of arithmetic, and a turn takes at least what one warpgroup needs for its own (issue.py).
Conflicts of banks and latencies of memory, waits and barriers come on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from minitile.analysis.variables import is_shared
from minitile.hardware import WARPGROUP, Rates
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.types import TensorType, TileType
from minitile.transforms.schedule.issue import Issued, issued, loops_of
from minitile.transforms.schedule.schedule import Line

if TYPE_CHECKING:
    from minitile.backends.base import Work

UNITS = ("tensor", "copy", "shared", "special", "arithmetic")
_SPECIAL = frozenset({"exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "rsqrt", "div", "truediv", "pow"})


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation of a turn as `--explain` draws it. cycles: of `unit`, "" where it takes none."""

    name: str
    line: int
    stage: int
    unit: str
    cycles: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of one loop, at a line of the program, in the order in which it runs. issued: what its instructions take,
    where that is known."""

    line: int
    entries: tuple[Entry, ...]
    issued: Issued | None = None

    def busy(self) -> dict[str, float]:
        """Cycles of each unit that has something to do."""
        sums = {unit: sum(e.cycles for e in self.entries if e.unit == unit) for unit in UNITS}
        if self.issued is not None:
            sums |= {"special": 0.0, "arithmetic": 0.0} | self.issued.busy
        return {unit: cycles for unit, cycles in sums.items() if cycles}

    @property
    def interval(self) -> float:
        """Cycles that a turn takes at the least."""
        own = 0.0 if self.issued is None else self.issued.cycles
        return max(own, *self.busy().values(), 0.0)


def with_instructions(
    turns: Sequence[Turn], kernel: Kernel, work: Callable[[Op], Work | None], rates: Rates
) -> list[Turn]:
    """The turns with what their instructions take, from the final thread IR: of the loop of the same line that issues
    asynchronous products as the turn does, if there is one. Others stay as they are: a producer's threads do next to
    nothing."""
    groups = max(1, kernel.threads // WARPGROUP)

    def counted(turn: Turn) -> Turn:
        tensor = any(entry.unit == "tensor" for entry in turn.entries)
        each = [issued(loop, work, rates, groups) for loop in (loops_of(kernel, turn.line, work) if tensor else ())]
        return replace(turn, issued=max(each, key=lambda one: one.cycles)) if each else turn

    return list(map(counted, turns))


def turn_of(loop: control.For, line: Line, rates: Rates) -> Turn:
    """What a loop's turn of these operations, each with its stage, is expected to cost. Scalars are left out."""
    entries = []
    for op, stage, _ in line:
        unit, cycles = cost_of(op, rates)
        if unit or isinstance(op, (tile.Wait, roles.ConsumerWait, roles.Await)):
            named = [v.name for v in (*op.results, *op.operands) if v.name] if unit != "copy" else [_filled(op)]
            name = " ".join([op.mnemonic, *named[:1]])
            entries.append(Entry(name, 0 if op.loc is None else op.loc.line, stage, unit, cycles))
    return Turn(0 if loop.loc is None else loop.loc.line, tuple(entries))


def _filled(op: Op) -> str:
    buffers = [v.name for inner in op.walk() for v in inner.operands if is_shared(v)]
    return buffers[0] if buffers else ""


def cost_of(op: Op, rates: Rates) -> tuple[str, float]:
    """The unit that an operation, with all that is in it, keeps busy for longest, and cycles."""
    if isinstance(op, control.Structured):
        inner = [cost_of(each, rates) for region in op.regions for each in region.ops]
        return max(inner, key=lambda each: each[1], default=("", 0.0))
    if isinstance(op, tile.Gemm):
        depth = op.a.shape[0 if op.transpose_a else -1]
        return "tensor", math.prod(op.c.shape) * depth * op.a.dtype.bits / 16 / rates.products
    if isinstance(op, roles.TmaCopy):
        return "copy", math.prod(op.dst.shape) * op.dst.dtype.bits / 8 / rates.copied
    for access in op.accesses():
        tensor = isinstance(access.mem, Value) and isinstance(access.mem.type, TensorType)
        if tensor and isinstance(op, (tile.Copy, tile.Load, tile.Store)):
            return "copy", _bytes(op) / rates.copied
    if isinstance(op, (tile.Load, tile.Store)) and is_shared(op.mem):
        return "shared", _bytes(op) / rates.shared
    tiles = [v for v in (*op.results, *op.operands) if isinstance(v.type, TileType)]
    if not tiles or not op.pure or not (op.elementwise or isinstance(op, tile.Reduce)):
        return "", 0.0
    elements = max(math.prod(v.shape) for v in tiles)
    if op.mnemonic in _SPECIAL:
        return "special", elements / rates.special
    return "arithmetic", elements / rates.arithmetic


def _bytes(op: tile.Copy | tile.Load | tile.Store) -> float:
    if isinstance(op, tile.Copy):
        return math.prod(op.shape) * op.src.dtype.bits / 8
    value = op.value if isinstance(op, tile.Store) else op.result
    return math.prod(getattr(value, "shape", ())) * value.dtype.bits / 8


def draw(turn: Turn) -> list[str]:
    """The lines of a table: operations in the order of a turn, beside the stage that each is in; then the units."""
    stages = sorted({entry.stage for entry in turn.entries})
    wide = max((len(entry.name) for entry in turn.entries), default=0)
    lines = [f"loop of line {turn.line}: stages {', '.join(map(str, stages))}; {turn.interval:.0f} cycles a turn"]
    for entry in turn.entries:
        marks = "".join(f"{'■' if entry.stage == stage else '·':>3}" for stage in stages)
        cost = f"{entry.unit} {entry.cycles:.0f}" if entry.unit else "waits"
        lines.append(f"  {entry.name:<{wide}} {marks}  line {entry.line}: {cost}")
    busy = turn.busy()
    shares = [f"{unit} {cycles / turn.interval:.0%}" for unit, cycles in busy.items()]
    lines.append(f"  busy: {', '.join(shares) or 'nothing'}")
    if turn.issued is not None:
        lines.append(f"  a warpgroup's own turn: {turn.issued.cycles:.0f} cycles")
    return lines
