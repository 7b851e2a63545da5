"""Which copies a producer warp can make, and the rings of slots that they fill: the analysis of `warp_specialize`.

A copy from a tensor into a whole shared buffer becomes the producer's if

* TMA can make it: strides and starts of rows at multiples of 16 bytes, boxes of at most 256 rows (more in equal parts
  of whole 8 rows), no gather, the element type as it is;
* nothing else writes the buffer, and whatever reads it stands behind the copy, in its block or further inside: nothing
  passes from one iteration to the next;
* the kernel does not write the tensor;
* indices, and the bounds and conditions of the loops and branches around it, are scalar arithmetic and scalar loads of
  tensors that the kernel does not write (the `Slice`), never tiles or shared memory.

Other copies stay with the consumers, in the same loops; `notes` say why.

Copies of one block that the same stretch of operations uses share a ring: one barrier says that they have landed,
another that their slot is free. A few bytes that are used beside a large tile (scales, a bias) join its ring, unless
that would hold it through another gemm; or blocks of the cluster have the tile in common, and the few bytes are not
multiplied by tensor cores: what threads have read themselves they release to other blocks by a fence of the whole GPU
(MEMBAR.ALL.GPU), which takes longer than a barrier of its own. A ring has as many slots as the pipelined loop around
it has stages, else one. Rings of one block and of as many slots move on together, at the block's end: they share a
`PipelineState`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from minitile.analysis.affine import Facts
from minitile.analysis.op_places import Places
from minitile.analysis.strides import why_no_tma
from minitile.analysis.variables import is_shared
from minitile.hardware import TMA_BOX
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile, views
from minitile.ir.rewrite import free_values
from minitile.ir.types import ScalarType, TensorType, TileType
from minitile.transforms.pipeline.ahead import READS

SMALL = 8  # a ring that joins another one has at most this part of its bytes


class Refused(Exception):
    """Why a copy, or the kernel, is not specialised."""


@dataclass(eq=False)
class PipelineState:
    """The slot index and phase that the rings of a block share, by the block and the number of slots."""

    block: Block
    slots: int

    @property
    def multistage(self) -> bool:
        return self.slots > 1


@dataclass(eq=False)
class Ring:
    """Copies of one block that its operations from `first` to `last` use."""

    copies: list[tile.Copy]
    pipeline_state: PipelineState
    first: Op
    last: Op

    @property
    def buffers(self) -> tuple[Value, ...]:
        return tuple(c.dst for c in self.copies)

    @property
    def bytes(self) -> int:
        return sum(math.prod(b.shape) * b.dtype.bytes for b in self.buffers)


def _loaded(value: Value | None) -> Value | None:
    """The buffer that a tile is loaded from, in whatever shape."""
    while value is not None and isinstance(value.op, views.Reshape | tile.Permute):
        value = value.op.a
    return value.op.mem if value is not None and isinstance(value.op, tile.Load) else None


@dataclass
class Rings:
    """The rings in the order of their copies, and what the producer needs besides (see `Slice`)."""

    rings: list[Ring]
    slice: Slice
    pipelined: set[control.For] = field(default_factory=set)  # the loops with copies of the producer's alone
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.copies = {c: ring for ring in self.rings for c in ring.copies}
        self.of = {buffer: ring for ring in self.rings for buffer in ring.buffers}
        gemms = [op for op in self.slice.places.block if isinstance(op, tile.Gemm)]
        self.multiplied = {v for op in gemms for v in (op.a, op.b, _loaded(op.a_scale), _loaded(op.b_scale))} - {None}
        self.pipeline_states = list(dict.fromkeys(ring.pipeline_state for ring in self.rings))
        self.users: dict[Value, list[Op]] = {buffer: [] for buffer in self.of}  # besides the copies, in order
        for op in self.slice.places.block:
            if not op.region_fields and op not in self.copies:
                for v in op.operands:
                    if v in self.users:
                        self.users[v].append(op)


def find_rings(
    kernel: Kernel,
    launch: control.Launch,
    check: Callable[[tile.Copy, Places], None] = lambda copy, places: None,
    common: Callable[[control.Launch, Rings], Collection[tile.Copy]] = lambda launch, rings: (),
) -> Rings:
    """Raises Refused, with the first reason, where no copy of a pipelined loop can be the producer's. `check` may
    refuse a copy for a reason of its own. `common`: the copies that blocks of the cluster have in common."""
    places = Places(launch.body)
    written = {a.mem for op in launch.body.walk() for a in op.accesses() if a.writes}
    if None in written:
        op = next(op for op in launch.body.walk() if any(a.mem is None for a in op.accesses()))
        raise Refused(f"it is not known what `{op.mnemonic}` touches")
    facts = Facts(kernel)
    slice_ = Slice(places, written, facts)
    rings: list[Ring] = []
    fed: set[control.For] = set()  # pipelined loops with copies of the producer's
    mixed: set[control.For] = set()  # and with others
    notes: list[str] = []
    for op in launch.body.walk():
        if not (type(op) is tile.Copy and isinstance(op.src.type, TensorType) and is_shared(op.dst)):
            continue
        loop = places.pipelined(op)
        stages = loop.stages if loop is not None else 1
        try:
            check_tma(op, facts)
            first, last = _uses(op, places, written, late=stages == 1)
            check(op, places)
            slice_.include(op)
        except Refused as reason:
            if loop is not None:
                mixed.add(loop)
                notes.append(str(reason))
            continue
        if loop is not None and stages > 1:
            fed.add(loop)
        _enter(rings, op, PipelineState(places.block[op], stages), first, last)
    if not fed:
        raise Refused(notes[0] if notes else "no loop of two or more stages copies tensors to shared memory")
    found = Rings(rings, slice_, fed - mixed, notes)
    return replace(found, rings=_joined(found, common(launch, found)))


def _enter(rings: list[Ring], copy: tile.Copy, pipeline_state: PipelineState, first: Op, last: Op) -> None:
    for ring in rings:
        if ring.pipeline_state.block is pipeline_state.block and ring.pipeline_state.slots == pipeline_state.slots:
            pipeline_state = ring.pipeline_state
            if (ring.first, ring.last) == (first, last):
                ring.copies.append(copy)
                return
    rings.append(Ring([copy], pipeline_state, first, last))


def _joined(found: Rings, common: Collection[tile.Copy]) -> list[Ring]:
    """Small rings in one with a large one of the same pipeline state."""
    rings, number = found.rings, found.slice.places.number

    def joins(small: Ring, large: Ring) -> bool:
        apart = any(c in common for c in large.copies) and not found.multiplied.issuperset(small.buffers)
        return not apart and _joins(small, large, found.slice.places)

    large = [r for r in rings if not any(joins(r, other) for other in rings)]
    for ring in rings:
        if ring in large:
            continue
        into = next(r for r in large if joins(ring, r))
        into.copies = sorted((*into.copies, *ring.copies), key=number.__getitem__)
        into.first = min(into.first, ring.first, key=number.__getitem__)
        into.last = max(into.last, ring.last, key=number.__getitem__)
    return large


def _joins(small: Ring, large: Ring, places: Places) -> bool:
    """Whether the operations from the first use of either to the last one have no gemms but those of the large one."""
    if small.pipeline_state is not large.pipeline_state or small.bytes * SMALL > large.bytes:
        return False
    ops = small.pipeline_state.block.ops
    first, last = (places.number[op] for op in (large.first, large.last))
    ends = [places.number[op] for op in (small.first, small.last)]
    beside = [*ops[min(first, *ends) : first], *ops[last + 1 : max(last, *ends) + 1]]
    return not any(isinstance(inner, tile.Gemm) for op in beside for inner in op.walk())


def check_tma(copy: tile.Copy, facts: Facts) -> None:
    """Raises Refused where the copy engine cannot make the copy (limits: cuTensorMapEncodeTiled)."""
    shape, dtype = copy.dst.shape, copy.dst.dtype
    if copy.src.dtype is not dtype:
        raise Refused(f"the copy of {copy.src.name} does not go to shared memory as it is")
    if copy.shape != shape or copy.dst_slot is not None or any(constant_of(i) != 0 for i in copy.dst_indices):
        raise Refused(f"the copy of {copy.src.name} does not fill all of a buffer")
    order = [d for d in copy.src_dims if d is not None]
    if order != list(range(len(shape))) or copy.src_dims[-1] is None or len(copy.src.shape) > 5:
        raise Refused(f"the copy of {copy.src.name} turns it")
    if any(isinstance(i.type, TileType) for i in copy.src_indices):
        raise Refused(f"the copy of {copy.src.name} gathers")
    if not all(facts.short(facts.size(copy.src, d)) for d in range(len(copy.src.shape))):
        raise Refused(f"{copy.src.name} has a dimension that TMA's coordinates of 32 bits do not hold")
    parts = -(-shape[0] // TMA_BOX)
    if shape[0] % parts or (parts > 1 and shape[0] // parts % 8) or any(n > TMA_BOX for n in shape[1:-1]):
        raise Refused(f"{'x'.join(map(str, shape))} of {copy.src.name} is no boxes of at most {TMA_BOX} for TMA")
    part = (shape[0] // parts if len(shape) == 1 else shape[-1]) * dtype.bytes
    if part % 16 or math.prod(shape) // parts * dtype.bytes % 128:
        raise Refused(f"rows of {part} bytes of {copy.src.name} are no multiple of TMA's 16, or all of them not of 128")
    if facts.multiple(copy.src_indices[-1]) * dtype.bytes % 16:
        raise Refused(f"the copy of {copy.src.name} may start off a multiple of 16 bytes in a row")
    if reason := why_no_tma(facts, copy.src):
        raise Refused(reason)


def _uses(copy: tile.Copy, places: Places, written: set[Value | None], late: bool) -> tuple[Op, Op]:
    """The first and the last operation of the copy's block that use what it brings. Elements that are stored in the end
    may be loaded as late as that (chunk_epilogue), if `late`: a pipelined loop wants its slots back."""
    name = copy.dst.name or "the buffer"
    if copy.src in written:
        raise Refused(f"the kernel writes {copy.src.name}, which it copies")
    numbers = []
    for user in places.users[copy.dst]:
        if user is copy:
            continue
        if any(a.writes and a.mem is copy.dst for a in user.accesses()):
            raise Refused(f"`{user.mnemonic}` writes {name}, too")
        if not any(isinstance(user, kind) for kind in READS):
            raise Refused(f"`{user.mnemonic}` uses {name}")
        holder = places.in_block(user, places.block[copy])
        if holder is None or places.number[holder] < places.number[copy]:
            raise Refused(f"`{user.mnemonic}` reads {name} in another turn than it is copied")
        numbers.append(places.number[holder])
        if late:
            numbers.append(places.number[_until_stored(holder, places)])
    if not numbers:
        raise Refused(f"nothing reads {name}")
    ops = places.block[copy].ops
    return ops[min(numbers)], ops[max(numbers)]


def _until_stored(load: Op, places: Places) -> Op:
    """The last of the stores to which all goes that an operation makes, through others that work element by element in
    its block; the operation itself where there is another use."""
    last, work, seen = load, [load], {load}
    while work:
        for user in (user for value in work.pop().results for user in places.users.get(value, ())):
            if places.block[user] is not places.block[load] or user.region_fields or user.terminator:
                return load
            if user.stored and not user.results:
                last = max(last, user, key=places.number.__getitem__)
            elif not user.pure or user.uniform:
                return load
            elif user not in seen:
                seen.add(user)
                work.append(user)
    return last


class Slice:
    """What of the program the producer does besides its copies: `wanted` values, and the `needed` operations that make
    them. Loops and branches that hold copies (`holders`) are needed with their bounds and conditions, but only those of
    their carried values that are wanted."""

    def __init__(self, places: Places, written: set[Value | None], facts: Facts) -> None:
        self.places, self.written, self.facts = places, written, facts
        self.holders = {around for op in places.block if isinstance(op, tile.Copy) for around in places.all_around(op)}
        self.wanted: set[Value] = set()
        self.needed: set[Op] = set()

    def include(self, copy: tile.Copy) -> None:
        """Take a copy in. Raises Refused, and changes nothing, where the producer could not know what it needs."""
        saved = set(self.wanted), set(self.needed)
        values = list(copy.src_indices)
        try:
            for around in self.places.all_around(copy):
                if not isinstance(around, control.Structured):
                    raise Refused(f"`{around.mnemonic}` around it")
                self.needed.add(around)
                values += around.decides()
            self._close(values)
        except Refused as reason:
            self.wanted, self.needed = saved
            raise Refused(f"the copy of {copy.src.name} depends on {reason}") from None

    def _close(self, values: Iterable[Value]) -> None:
        work = list(values)
        while work:
            value = work.pop()
            if value in self.wanted:
                continue
            self.wanted.add(value)
            if isinstance(value.owner, Block):
                work += self._handed(value, self.places.parent.get(value.owner))
            elif value.op is not None and value.op in self.places.block:
                work += self._of_result(value, value.op)

    def _handed(self, value: Value, op: Op | None) -> list[Value]:
        """What becomes this argument or result of an operation; whatever else it becomes is wanted with it."""
        if not isinstance(op, control.Structured):
            return []  # the launch's own
        targets, sources = op.column(value)
        self.wanted.update(targets)
        return sources

    def _of_result(self, value: Value, op: Op) -> list[Value]:
        if not isinstance(value.type, ScalarType):
            raise Refused(f"`{op.mnemonic}`")
        if op in self.holders and isinstance(op, control.Structured):  # this result only
            self.needed.add(op)
            return op.decides() + self._handed(value, op)
        if op in self.needed:
            return []
        self.needed.add(op)
        if op.region_fields:
            self._check_all(op)
            inner = {r for o in op.walk() for r in o.results}
            return [v for v in (*op.operands, *(f for r in op.regions for f in free_values(r))) if v not in inner]
        self._check(op)
        return op.operands

    def _check_all(self, op: Op) -> None:
        for inner in op.walk():
            if not inner.terminator and not inner.region_fields:
                self._check(inner)

    def _check(self, op: Op) -> None:
        known = op.pure and not op.uniform and all(isinstance(r.type, ScalarType) for r in op.results)
        if isinstance(op, tile.Load):
            known = isinstance(op.mem.type, TensorType) and op.mem not in self.written and not op.result.shape
        if not known or any(isinstance(v.type, TileType) for v in op.operands):
            raise Refused(f"`{op.mnemonic}`")
