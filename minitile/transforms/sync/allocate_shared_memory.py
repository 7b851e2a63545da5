"""Gives every shared buffer its bytes; buffers that are never needed at the same time may get the same ones.

    %As = alloc shared<2 versions x 64x64xbf16>     used in the k loop      offset = 0
    %Cs = alloc shared<64x64xf32>                   used after it           offset = 0
                                                                            shared_bytes = 16384

A buffer lives from its first to its last access in program order. In a loop that began before the buffer was allocated,
one access makes it live through the whole loop: the next iteration may need what this one left; not in one whose body
says that the buffer is new in each iteration (`lifetime`, which no later pass needs, and goes). An asynchronous copy
accesses its destination until the wait for its token, and through every loop that carries the token round. (A token
that is not waited for stands for nothing: a pass that issues copies waits for each of them.) What other blocks of the
cluster access lives throughout.

What a pipeline hands from role to role belongs to a role at any time, and keeps its bytes for the whole kernel, if
there is room. If not, it gives them up behind the last access of the roles that receive: by then all that was sent has
been received (the compiler's own roles see to that; in a program with explicit roles it is not known).

Where threads diverge, no barrier can stand: what is used in one branch or loop of that kind
keeps its bytes from whatever else is used there, in the other branch, too.

Buffers of up to OWN bytes have theirs to themselves, as long as there is room: what they would save is less than the
barrier costs that bytes change hands behind.

The largest buffers are placed first, each in the smallest gap that fits among those that live when it does. Offsets are
multiples of the layout's alignment, 16 bytes without a layout, and of what TMA wants for what it copies, however small.
That all threads are done before bytes change hands is the business of `thread_barriers`, which sees the offsets.

Sets `offset` and `bytes` (of one version) of each alloc, and kernel.attrs["shared_bytes"]. A buffer without accesses
takes no room. One that is used where its alloc is not known has no bytes to use: that is refused, whatever pass is to
blame.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from minitile.analysis.divergence import divergent_values
from minitile.hardware import TMA_LINE
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import InternalError, ResourceError
from minitile.ir.ops import control, roles, tile
from minitile.ir.types import BufferType, TokenType
from minitile.transforms.manager import PassContext

OWN = 128

Loops = tuple[Op, ...]  # the loops around a place, outermost first


def allocate_shared_memory(kernel: Kernel, context: PassContext) -> None:
    """The pass. Raises ResourceError when the buffers do not fit the target, InternalError for a use of a buffer that
    its alloc does not dominate."""
    walk = walk_lives(kernel)
    for life in walk.lives.values():
        life.alloc.bytes, life.alloc.offset = life.alloc.version_bytes, 0
    for block in walk.renewing:
        block.ops = [op for op in block.ops if not isinstance(op, tile.Lifetime)]
    lives = [life for life in walk.lives.values() if life.last >= 0]
    _find_apart(kernel, lives)
    for life in lives:
        life.own = life.size <= OWN
    total = _place(lives)
    if total > context.target.max_shared:
        for life in lives:
            life.own = False
        total = _place(lives)
    if total > context.target.max_shared and not kernel.attrs.get("explicit_sync"):
        for life in lives:
            life.given_up = life.sent and bool(life.receivers)
        total = _place(lives)
    kernel.attrs["shared_bytes"] = total
    if total > context.target.max_shared:
        raise _too_large(lives, total, context.target.max_shared, context.target.name)


@dataclass(slots=True)
class Life:
    """A buffer and the operations, by number, from and to which it must keep its bytes (both included). `sides`: the
    roles that access it, as the operations that part them and the number of the region; `receivers`: those that do so
    by themselves, not by what a pipeline orders. Of a buffer that is `sent` by a pipeline others can have the bytes
    only when it is `given_up` behind its last access; of one that has its `own` no others have them. `around`: the
    branches and loops around its accesses, but for roles; in the end only those in which threads part."""

    alloc: tile.Alloc
    depth: int  # loops around the alloc
    first: int
    last: int = -1
    sides: set[tuple[Op, int]] = field(default_factory=set)
    receivers: set[tuple[Op, int]] = field(default_factory=set)
    sent: bool = False
    given_up: bool = False
    own: bool = False
    boxed: bool = False
    around: set[control.Structured] = field(default_factory=set)

    @property
    def size(self) -> int:
        return self.alloc.version_bytes * self.alloc.type_.versions

    @property
    def alignment(self) -> int:
        own = self.alloc.layout.alignment if self.alloc.layout is not None else 16
        return math.lcm(own, TMA_LINE) if self.boxed else own

    def cover(self, first: int, last: int) -> None:
        self.first = first if self.last < 0 else min(self.first, first)
        self.last = max(self.last, last)

    def meets(self, other: Life) -> bool:
        """Whether both are needed at some time. Roles run at the same time, whatever the order of their text."""
        if self.own or other.own or (self.sent and not self.given_up) or (other.sent and not other.given_up):
            return True
        first, other_first = (0 if life.sent else life.first for life in (self, other))
        if (first <= other.last and other_first <= self.last) or not self.around.isdisjoint(other.around):
            return True
        return any(
            op is theirs and side != other_side
            for op, side in (self.receivers if self.sent else self.sides)
            for theirs, other_side in (other.receivers if other.sent else other.sides)
        )


def walk_lives(kernel: Kernel) -> Walk:
    """When each shared buffer of a kernel, whose buffers have no places yet, must keep its bytes; changes nothing."""
    walk = Walk()
    walk.block(kernel.body, ())
    walk.finish()
    return walk


class Walk:
    """Numbers the operations, from 1 to `number`; notes what uses which buffer where, and how tokens flow. `lives` by
    buffer; `spans`: the numbers of an operation and of the last one in it."""

    def __init__(self) -> None:
        self.lives: dict[Value, Life] = {}
        self.number = 0
        self.sides: tuple[tuple[Op, int], ...] = ()  # the roles around
        self.around: list[control.Structured] = []  # other branches and loops
        self.spans: dict[Op, tuple[int, int]] = {}
        self.known: dict[Value, None] = {}  # the buffers whose allocs dominate the place
        self.begun: dict[int, int] = {}  # of each lifetime that has begun: in how many loops
        self.renewing: list[Block] = []
        self.uses: list[tuple[Value, int, Loops]] = []  # with the loops through which the buffer lasts
        self.waits: list[tuple[Value, int, Loops, dict[int, int]]] = []
        self.filling: dict[Value, set[Value]] = {}  # token: the buffers that its copies write
        self.loose: list[Value] = []  # tokens of copies that the program waits for by their number
        self.throughout: list[Value] = []  # accessed by other blocks of the cluster, or copies that the program awaits
        self.flows: list[tuple[Value, Value, Op | None]] = []  # from token to token, by a loop's back edge or not

    def block(self, block: Block, loops: Loops) -> None:
        begun, before = self.begun, len(self.known)
        for op in block.ops:
            self.number += 1
            start = self.number
            self.visit(op, loops, block)
            inner = (*loops, op) if isinstance(op, control.Loop) else loops
            sides, around = self.sides, self.around
            if isinstance(op, control.Structured) and not op.by_role:
                self.around = [*around, op]
            for side, region in enumerate(op.regions):
                self.sides = (*sides, (op, side)) if op.by_role else sides
                self.block(region, inner)
            self.sides, self.around = sides, around
            self.spans[op] = start, self.number
        self.begun = begun
        while len(self.known) > before:
            self.known.popitem()

    def visit(self, op: Op, loops: Loops, block: Block) -> None:
        for value in op.operands:
            if isinstance(value.type, BufferType) and value.type.space == "shared" and value not in self.known:
                name = value.name or "a buffer"
                raise InternalError(
                    f"{name} has no place in shared memory: `{op.mnemonic}` is not behind its alloc", op.loc
                )
        if isinstance(op, tile.Alloc):
            if op.type_.space == "shared":
                self.lives[op.result] = Life(op, len(loops), self.number)
                self.known[op.result] = None
        elif isinstance(op, tile.Lifetime):
            self.begun = {**self.begun, op.number: len(loops)}
            self.renewing.append(block)
        elif isinstance(op, tile.Join):
            self.flow(op.result, op.stands_for())
            if op.program_waits:
                self.loose.append(op.result)
        elif isinstance(op, (tile.Wait, roles.Await)):
            self.waits.append((op.token, self.number, loops, self.begun))
        elif op.regions:
            self.control(op)
        elif not op.pure and not op.terminator:
            if op.stands_for():
                self.flow(op.results[-1], op.stands_for())
            for access in op.accesses():
                if access.mem in self.lives:
                    life = self.lives[access.mem]
                    self.uses.append((access.mem, self.number, self.lasting(access.mem, loops, self.begun)))
                    if access.ctas == "cluster" and (access.pipeline is None or access.proxy == "generic"):
                        self.throughout.append(access.mem)
                    life.sides.update(self.sides)
                    life.around.update(self.around)
                    life.boxed |= access.proxy == "async"
                    if access.pipeline is not None:
                        life.sent = True
                    else:
                        life.receivers.update(self.sides)
                    if access.token is not None:
                        self.filling.setdefault(access.token, set()).add(access.mem)

    def control(self, op: Op) -> None:
        yields = [region.yielded for region in op.regions]
        if isinstance(op, control.For):
            self.carry(op.carried, op.init)
            self.carry(op.carried, yields[0], op)
            self.carry(op.results, op.init)
            self.carry(op.results, yields[0])
        elif isinstance(op, control.While):
            self.carry(op.before.args, op.init)
            self.carry(op.body.args, yields[0][1:])
            self.carry(op.results, yields[0][1:])
            self.carry(op.before.args, yields[1], op)
        elif op.results:
            for values in yields:
                self.carry(op.results, values)

    def carry(self, targets: tuple[Value, ...], sources: Sequence[Value], around: Op | None = None) -> None:
        for target, source in zip(targets, sources, strict=True):
            if isinstance(target.type, TokenType):
                self.flows.append((source, target, around))

    def flow(self, target: Value, sources: tuple[Value, ...]) -> None:
        self.flows.extend((source, target, None) for source in sources)

    def finish(self) -> None:
        """Put uses, waits and carried tokens together to lives."""
        for mem, number, lasting in self.uses:
            self.used(mem, number, lasting)
        while True:
            known = sum(map(len, self.filling.values()))
            for source, target, _ in self.flows:
                if source in self.filling:
                    self.filling.setdefault(target, set()).update(self.filling[source])
            if sum(map(len, self.filling.values())) == known:
                break
        for token in self.loose:
            self.throughout.extend(self.filling.get(token, ()))
        for mem in self.throughout:
            self.lives[mem].cover(0, self.number)
        for token, number, loops, begun in self.waits:
            for mem in self.filling.get(token, ()):
                self.used(mem, number, self.lasting(mem, loops, begun))
        for _, target, loop in self.flows:
            if loop is not None:
                for mem in self.filling.get(target, ()):
                    self.lives[mem].cover(*self.spans[loop])

    def lasting(self, mem: Value, loops: Loops, begun: dict[int, int]) -> Loops:
        """Of the loops around a place those in which the buffer stays what it is from one iteration to the next."""
        life = self.lives[mem]
        return loops[max(life.depth, begun.get(life.alloc.lifetime or 0, 0)) :]

    def used(self, mem: Value, number: int, lasting: Loops) -> None:
        """An access, within the outermost of the loops in which the buffer lasts."""
        self.lives[mem].cover(*(self.spans[lasting[0]] if lasting else (number, number)))


def _find_apart(kernel: Kernel, lives: list[Life]) -> None:
    """Leaves of what is around the lives that in which threads part, where it is around several of them."""
    times = Counter(op for life in lives for op in life.around)
    several = {op for op, count in times.items() if count > 1}
    varying = divergent_values(kernel) if several else set()
    apart = {op for op in several if not varying.isdisjoint(op.decides())}
    for life in lives:
        life.around &= apart


def _place(lives: list[Life]) -> int:
    """Give all buffers their offsets; the number of bytes needed."""
    placed: list[Life] = []
    for life in sorted(lives, key=lambda life: -life.size):
        taken = sorted((p.alloc.offset or 0, (p.alloc.offset or 0) + p.size) for p in placed if p.meets(life))
        life.alloc.offset = _best_gap(taken, life.size, life.alignment)
        placed.append(life)
    return max(((life.alloc.offset or 0) + life.size for life in lives), default=0)


def _best_gap(taken: list[tuple[int, int]], size: int, alignment: int) -> int:
    """The offset in the smallest gap between the taken ranges (sorted) that fits, or else behind them."""
    end = 0
    gaps: list[tuple[int, int]] = []  # (bytes left over, offset)
    for start, stop in taken:
        offset = -(-end // alignment) * alignment
        if offset + size <= start:
            gaps.append((start - offset - size, offset))
        end = max(end, stop)
    return min(gaps)[1] if gaps else -(-end // alignment) * alignment


def _too_large(lives: list[Life], total: int, limit: int, target: str) -> ResourceError:
    largest = sorted(lives, key=lambda life: -life.size)
    lines = [
        f"the kernel needs {total} bytes of shared memory at once; {target} has {limit} for one block. Its buffers:",
        *map(_describe, largest),
    ]
    return ResourceError("\n".join(lines), largest[0].alloc.loc, "smaller tiles or fewer stages need less")


def _describe(life: Life) -> str:
    alloc = life.alloc
    t = alloc.type_
    shape = "x".join(map(str, t.shape))
    copies = f"{t.versions} versions of " if t.versions > 1 else ""
    line = f", line {alloc.loc.line}" if alloc.loc is not None else ""
    return f"    {alloc.result.name or 'scratch'}: {life.size} bytes ({copies}{shape} {t.dtype}{line})"
