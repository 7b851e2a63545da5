"""Which copies of a pipelined loop can be issued iterations ahead: the analysis of `software_pipeline`.

The copies into one shared buffer go ahead together (each iteration then has a version of the buffer of its own) if

* all writes of the buffer in the loop are plain copies from tensors, at the top of the body or under `if`s, before any
  other access to the buffer: nothing passes from one iteration to the next through it;
* whenever the buffer is read, the iteration has written all of it: every copy's conditions hold for the reader, or
  the copies under `c` and those under `not c` do so together;
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

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.rewrite import free_values
from minitile.ir.types import BufferType, ScalarType, TensorType
from minitile.passes.variables import covers

Path = frozenset[tuple[Value, bool]]  # conditions of the enclosing ifs and which branch of each

# operation -> its operands that read memory, and the slot operand of each
READS: dict[type[Op], tuple[tuple[str, str], ...]] = {
    tile.Load: (("mem", "slot"),),
    tile.Copy: (("src", "src_slot"),),
    tile.Gemm: (("a", "a_slot"), ("b", "b_slot")),
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
        for mem in {a.mem for a in use.op.accesses() if a.mem is not None and _is_shared(a.mem)}:
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


def _is_shared(mem: Value) -> bool:
    return isinstance(mem.type, BufferType) and mem.type.space == "shared"


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
    by_path: dict[Path, list[_Use]] = {}
    for use in copies:
        by_path.setdefault(use.path, []).append(use)
    whole = [path for path, group in by_path.items() if _fill(buffer, group)]
    return len(whole) == len(by_path) and all(_always(whole, use.path) for use in others)


def _fill(buffer: Value, copies: list[_Use]) -> bool:
    """Whether copies with one path write every element of the buffer."""
    boxes = []
    for use in copies:
        op = use.op
        assert isinstance(op, tile.Copy)
        if covers(buffer, op.dst_indices, op.dst_dims, op.shape):
            return True
        offsets = [constant_of(i) for i in op.dst_indices]
        if None in offsets:
            return False
        sizes = [1 if d is None else op.shape[d] for d in op.dst_dims]
        boxes.append([(o, o + size) for o, size in zip(offsets, sizes, strict=True)])
    for a, b in itertools.combinations(boxes, 2):
        if all(lo < hi2 and lo2 < hi for (lo, hi), (lo2, hi2) in zip(a, b, strict=True)):
            return False  # they overlap, so that the sum below says nothing
    volume = sum(math.prod(hi - lo for lo, hi in box) for box in boxes)
    return bool(volume == math.prod(buffer.shape))


def _always(paths: list[Path], reader: Path) -> bool:
    """Whether some path is taken whenever the reader's is."""
    paths = [path for path in paths if not any((c, not taken) in reader for c, taken in path)]
    if any(path <= reader for path in paths):
        return True
    open_conditions = [c for path in paths for c, _ in path if (c, True) not in reader and (c, False) not in reader]
    if not open_conditions:
        return False
    condition = open_conditions[0]
    return all(_always(paths, reader | {(condition, taken)}) for taken in (True, False))


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
        self.home: dict[Op, tuple[Block, int, Op | None]] = {}  # operation -> its block, place in it, operation around
        self._enter(kernel.body, None)

    def _enter(self, block: Block, around: Op | None) -> None:
        for i, op in enumerate(block.ops):
            self.home[op] = (block, i, around)
            for region in op.regions:
                self._enter(region, op)

    def self_contained(self, buffer: Value, inside: set[Op]) -> bool:
        """Whether every read of the buffer that is not in `inside` sees a whole write that is not, either."""
        readers = [
            op
            for op in self.home
            if op not in inside and any(a.mem in (buffer, None) and a.kind != "write" for a in op.accesses())
        ]
        return all(self._written_before(op, buffer, inside) for op in readers)

    def _written_before(self, reader: Op, buffer: Value, inside: set[Op]) -> bool:
        block, place, around = self.home[reader]
        while True:  # outwards
            for op in reversed(block.ops[:place]):
                if _writes_whole(op, buffer):
                    return op not in inside
                if _writes(op, buffer):
                    return False
            if around is None or (isinstance(around, control.For | control.While) and _writes(around, buffer)):
                return False
            block, place, around = self.home[around]


def _writes(op: Op, buffer: Value) -> bool:
    accesses = itertools.chain(op.accesses(), *(inner.accesses() for region in op.regions for inner in region.walk()))
    return any(a.writes and a.mem in (buffer, None) for a in accesses)


def _writes_whole(op: Op, buffer: Value) -> bool:
    if isinstance(op, tile.Copy):
        return op.dst is buffer and covers(buffer, op.dst_indices, op.dst_dims, op.shape)
    if isinstance(op, tile.Store):
        return op.mem is buffer and op.mask is None and covers(buffer, op.indices, op.dims, op.value.shape)
    return False
