"""Which copies of a pipelined loop can be issued iterations ahead: the analysis of `software_pipeline`.

The copies into one shared buffer go ahead together (each iteration then has a version of the buffer of its own) if

* all writes of the buffer in the loop are plain copies from tensors, at the top of the body or under `if`s, before any
  other access to the buffer: nothing passes from one iteration to the next through it;
* whenever the buffer is read, the iteration has written all of it, by copies of constant regions that do not meet:
  their conditions hold for the reader, too, or those under `c` and those under `not c` do so together;
* the loop does not write the tensors that are copied;
* indices and conditions of the copies come from the loop's index and values from outside by scalar arithmetic, by
  scalar loads of tensors that the loop does not write, and by `if`s of these: not from what the loop carries;
* the buffer outlives the loop, and accesses outside the loops that pipeline it (they use version 0) read only what was
  written outside, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from minitile.analysis.variables import covers, is_shared
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.rewrite import free_values
from minitile.ir.types import ScalarType, TensorType
from minitile.transforms.schedule.graph import Box, Path, box_of, boxes_meet, contradict

# operation -> its operands that read memory, and the slot operand of each
READS: dict[type[Op], tuple[tuple[str, str], ...]] = {
    tile.Load: (("mem", "slot"),),
    tile.Copy: (("src", "src_slot"),),
    tile.Gemm: (("a", "a_slot"), ("b", "b_slot")),
    roles.AsyncGemm: (("a", "a_slot"), ("b", "b_slot")),
}


@dataclass(eq=False)
class Ahead:
    """The plan of one loop: the copies that go ahead, the buffers they write, and the operations of the body, outside
    of `if`s that hold copies or in them, that compute what the copies need."""

    copies: list[tile.Copy] = field(default_factory=list)
    buffers: set[Value] = field(default_factory=set)
    needed: set[Op] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    op: Op
    order: int
    path: Path
    nested: bool  # in a loop inside the loop


def plan(kernel: Kernel) -> dict[control.For, Ahead]:
    """The copies that go ahead, for every loop of kind "pipelined" with two or more stages."""
    loops = [op for op in kernel.walk() if isinstance(op, control.For) and op.kind == "pipelined" and op.stages > 1]
    plans = {loop: _candidates(loop) for loop in loops}
    outside = _Outside(kernel)
    for buffer in sorted({b for p in plans.values() for b in p.buffers}, key=lambda b: b.serial):
        inside = {op for loop, p in plans.items() if buffer in p.buffers for op in loop.body.walk()}
        if not outside.self_contained(buffer, inside):
            for p in plans.values():
                p.buffers.discard(buffer)
    for loop, p in plans.items():
        p.copies = [c for c in p.copies if c.dst in p.buffers]
        p.needed = _Slice(loop).closure(p.copies) or set()
    return plans


def closure(loop: control.For, copies: Iterable[Op]) -> set[Op] | None:
    """The operations of a loop's body that compute the indices of copies in it, for any iteration; None where these can
    not be known ahead."""
    return _Slice(loop).closure(copies)


def _uses(block: Block) -> Iterator[_Use]:
    counter = itertools.count()

    def go(block: Block, path: Path, nested: bool) -> Iterator[_Use]:
        for op in block.ops:
            yield _Use(op, next(counter), path, nested)
            if isinstance(op, control.If):
                yield from go(op.then, path | {(op.condition, True)}, nested)
                yield from go(op.orelse, path | {(op.condition, False)}, nested)
            else:
                for region in op.regions:
                    yield from go(region, path, True)

    return go(block, frozenset(), False)


def _candidates(loop: control.For) -> Ahead:
    uses = list(_uses(loop.body))
    if any(access.mem is None for use in uses for access in use.op.accesses()):
        return Ahead()
    by_buffer: dict[Value, list[_Use]] = {}
    for use in uses:
        for mem in {a.mem for a in use.op.accesses() if a.mem is not None and is_shared(a.mem)}:
            by_buffer.setdefault(mem, []).append(use)
    sliced = _Slice(loop)
    result = Ahead()
    for buffer, touching in by_buffer.items():
        copies = [use for use in touching if _is_copy_in(use, buffer)]
        if buffer.op in sliced.inside:
            continue
        if copies and _separate(buffer, copies, touching) and sliced.closure(use.op for use in copies) is not None:
            result.buffers.add(buffer)
            result.copies += [use.op for use in copies if isinstance(use.op, tile.Copy)]
    return result


def _is_copy_in(use: _Use, buffer: Value) -> bool:
    op = use.op
    return type(op) is tile.Copy and op.dst is buffer and isinstance(op.src.type, TensorType) and not use.nested


def _separate(buffer: Value, copies: list[_Use], touching: list[_Use]) -> bool:
    """Whether no iteration sees what another one has put into the buffer."""
    last = max(use.order for use in copies)
    others = [use for use in touching if use not in copies]
    for use in others:
        if use.order < last or type(use.op) not in READS or any(a.writes for a in use.op.accesses() if a.mem is buffer):
            return False
    boxes = [(use.path, _box(use.op)) for use in copies]
    for (path, box), (path2, box2) in itertools.combinations(boxes, 2):
        if not contradict(path, path2) and boxes_meet(box, box2):
            return False  # the later one would have to land later
    return all(_filled(buffer, boxes, use.path) for use in others)


def _box(op: Op) -> Box | None:
    """The region that a copy writes."""
    return box_of(op, op.footprints()[-1])


def _filled(buffer: Value, boxes: list[tuple[Path, Box | None]], reader: Path) -> bool:
    """Whether the copies that are made whenever a reader's conditions hold, which do not meet, write all elements."""
    boxes = [(path, box) for path, box in boxes if box is not None and not contradict(path, reader)]
    volumes = [math.prod(hi - lo for lo, hi in box) for path, box in boxes if box is not None and path <= reader]
    if sum(volumes) == math.prod(buffer.shape):
        return True
    unsettled = [condition for path, _ in boxes for condition, taken in path if (condition, taken) not in reader]
    return bool(unsettled) and all(_filled(buffer, boxes, reader | {(unsettled[0], taken)}) for taken in (True, False))


class _Slice:
    """What the copies of a loop need to be issued for another iteration."""

    def __init__(self, loop: control.For) -> None:
        self.loop = loop
        self.inside = set(loop.body.walk())
        self.written = {a.mem for op in self.inside for a in op.accesses() if a.writes}
        self.parent: dict[Op, Op] = {
            op: outer for outer in self.inside for region in outer.regions for op in region.ops
        }

    def closure(self, copies: Iterable[Op]) -> set[Op] | None:
        """The operations of the body that compute indices and conditions of the copies; None where these can not be
        known ahead, or the source not be read ahead."""
        wanted: list[Value] = []
        for op in copies:
            assert isinstance(op, tile.Copy)
            if op.src in self.written:
                return None
            wanted += (*op.src_indices, *op.dst_indices)
            around = self.parent.get(op)
            while around is not None:
                assert isinstance(around, control.If)
                wanted.append(around.condition)
                around = self.parent.get(around)
        needed: set[Op] = set()
        while wanted:
            value = wanted.pop()
            if isinstance(value.owner, Block) and value in self.loop.carried:
                return None
            made_by = value.op
            if made_by is None or made_by not in self.inside or made_by in needed:
                continue
            if not self.safe(made_by):
                return None
            needed.add(made_by)
            wanted += made_by.operands
            for region in made_by.regions:
                wanted += free_values(region)
        return needed

    def safe(self, op: Op) -> bool:
        """Whether the operation gives the same in the loop and ahead of it, and is cheap enough to be done twice."""
        if not all(isinstance(r.type, ScalarType) for r in op.results):
            return False
        if isinstance(op, tile.Load):
            return isinstance(op.mem.type, TensorType) and op.mem not in self.written
        if isinstance(op, control.If):
            return all(isinstance(inner, control.Yield) or self.safe(inner) for r in op.regions for inner in r.ops)
        return op.pure and not op.uniform


class _Outside:
    """Asks of the accesses outside pipelined loops whether they are among themselves."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.positions: dict[Op, tuple[Block, int, Op | None]] = {}  # op -> its block, place in it, op around
        self._enter(kernel.body, None)

    def _enter(self, block: Block, around: Op | None) -> None:
        for i, op in enumerate(block.ops):
            self.positions[op] = (block, i, around)
            for region in op.regions:
                self._enter(region, op)

    def self_contained(self, buffer: Value, inside: set[Op]) -> bool:
        """Whether every read of the buffer that is not in `inside` sees a whole write that is not, either."""
        readers = [
            op
            for op in self.positions
            if op not in inside and any(a.mem in (buffer, None) and a.kind != "write" for a in op.accesses())
        ]
        return all(self._written_before(op, buffer) for op in readers)

    def _written_before(self, reader: Op, buffer: Value) -> bool:
        block, place, around = self.positions[reader]
        while True:  # outwards
            for op in reversed(block.ops[:place]):
                if _writes_whole(op, buffer):
                    return True
                if _writes(op, buffer):
                    return False
            if around is None or (isinstance(around, control.Loop) and _writes(around, buffer)):
                return False
            block, place, around = self.positions[around]


def _writes(op: Op, buffer: Value) -> bool:
    accesses = itertools.chain(op.accesses(), *(inner.accesses() for region in op.regions for inner in region.walk()))
    return any(a.writes and a.mem in (buffer, None) for a in accesses)


def _writes_whole(op: Op, buffer: Value) -> bool:
    if isinstance(op, tile.Copy):
        return op.dst is buffer and covers(buffer, op.dst_indices, op.dst_dims, op.shape)
    if isinstance(op, tile.Store):
        return op.mem is buffer and op.mask is None and covers(buffer, op.indices, op.dims, op.value.shape)
    return False
