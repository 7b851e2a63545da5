"""When two accesses to memory conflict: what `thread_barriers` asks.

A `MemoryAccess` is an access at one place of the program: the object, the version of it as a polynomial modulo the
number of versions, and the bytes. Two accesses conflict when their bytes may overlap and one writes, unless both
are atomic or both are made by the same single thread. Buffers that `allocate_shared_memory` gave the same bytes overlap
as well.

Versions:  %k % 3 and (%k + 2) % 3 never meet in the same iteration. `back` expresses an access of one iteration in the
terms of the next one, where %k has become %k - step:  %k % 3 is then (%k - 1) % 3, the same as (%k + 2) % 3.

Tensors:  an access has a box of them, per dimension from one index to before another. Elements of other indices are
other bytes, since accesses outside a tensor's bounds do not happen. What all iterations before this one have touched
is known by one end, where a loop goes one way only:

    store C[512*k : 512*k + 512]      before:  C[… : 512*k], which that box does not meet

Threads:  what each thread reaches by itself (disjoint.py) tells apart what boxes and versions do not, and which thread
an elected one is. One of each warpgroup stores fragments by TMA, the first one of all stores shared tiles: the same
place is not the same thread then.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from minitile.analysis.affine import Affine, Facts, divisor_of
from minitile.analysis.disjoint import Reach, Threads
from minitile.ir.core import Op, Value
from minitile.ir.effects import Access
from minitile.ir.ops import arith
from minitile.ir.ops.tile import Alloc
from minitile.ir.types import BufferType

GROUP = "group"  # an access's `threads`


@dataclass(frozen=True, slots=True)
class Slot:
    """Version number `value` modulo `versions`, in normal form; value None: any of them."""

    value: Affine | None
    versions: int

    def of(self, value: Affine) -> Slot:
        n = self.versions
        terms = {m: c % n for m, c in value.terms.items() if c % n}
        return Slot(Affine(value.const % n, terms), n)

    def differs(self, other: Slot) -> bool:
        """Whether the two are different versions for sure."""
        if self.value is None or other.value is None:
            return False
        gap = self.of(self.value - other.value).value
        return gap is not None and gap.is_constant and gap.const != 0


@dataclass(frozen=True, slots=True)
class Span:
    """The indices from `low` to before `high`; None: however far."""

    low: Affine | None
    high: Affine | None

    def misses(self, other: Span) -> bool:
        """Whether no index is in both, for sure."""
        return _before(self.high, other.low) or _before(other.high, self.low)

    def moved(self, values: Mapping[Value, Affine]) -> Span:
        low, high = (None if end is None else end.substitute(values) for end in (self.low, self.high))
        return Span(low, high)

    def back(self, iv: Value | None, step: Affine | None, local: Set[Value]) -> Span:
        """The indices of all iterations before this one, in its terms; without iv, those of any iteration. An end that
        the loop moves away from the earlier ones bounds them all, where it stood the last time: C[… : 512*k] is before
        C[512*k : …]. Where the other end is open it already bounds those before, and all the more now."""
        one = self.low is not None and self.high is not None
        return Span(*(_back(end, sign, one, iv, step, local) for end, sign in ((self.low, -1), (self.high, 1))))


def _back(
    end: Affine | None, sign: int, moves: bool, iv: Value | None, step: Affine | None, local: Set[Value]
) -> Affine | None:
    if end is None or any(v in local and v is not iv for v in end.atoms()):
        return None
    if iv is None or iv not in end.atoms():
        return end
    parts = end.split(iv)
    if step is None or parts is None:
        return None
    slope = parts[0]
    if not slope.is_constant or slope.const * sign < 0:
        return None
    least = step if step.is_constant else 1  # steps are positive
    return end.substitute({iv: Affine.of(iv) - least}) if moves else end


def _before(end: Affine | None, start: Affine | None) -> bool:
    gap = None if end is None or start is None else start - end
    return gap is not None and gap.is_constant and gap.const >= 0


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One access. `region`: bytes [lo, hi) of a version, None for all. `box`: the part of a tensor, None for all.
    `thread`: None when any thread may make it, else what singles out the one that does; GROUP: a warpgroup. `free`: a
    pipeline orders it behind all others of the buffer. `place`: of two accesses with the same one, each thread touches
    its own bytes; `whole`: of two with the same one and the same box, too. `reach`: where each thread's access goes,
    where that is known (disjoint.py); `apart`: by whose word no other thread's access goes there (of the same word).
    `passed`: a barrier behind it, where a pass keeps account of that."""

    kind: str
    mem: Value | None
    slot: Slot
    region: tuple[int, int] | None
    thread: object = None
    box: tuple[Span, ...] | None = None
    free: bool = False
    whole: int | None = None
    reach: Reach | None = None
    apart: frozenset[Value] = frozenset()
    place: object = field(default=None, compare=False)
    op: Op | None = field(default=None, compare=False)
    passed: Op | None = None
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        """Of what tells accesses of one object apart: thousands of stores to a tensor differ by their boxes alone."""
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.mem, self.kind, self.region, self.box, self.reach)))
        return self._hash  # type: ignore[return-value]

    @property
    def writes(self) -> bool:
        return self.kind != "read"


def is_private(access: Access) -> bool:
    """Whether only the accessing thread can see the memory."""
    t = None if access.mem is None else access.mem.type
    return isinstance(t, BufferType) and t.space in ("local", "fragment")


def memory_access(op: Op, access: Access, thread: object, facts: Facts, threads: Threads | None = None) -> MemoryAccess:
    """An operation's access. Without `threads`, nothing is known of which threads go where, nor which one an elected
    one is."""
    if access.threads in ("one", "some") and thread is None and threads is not None:
        thread = threads.single(threads.around(op), access.threads == "one")
    elif access.threads == GROUP:
        thread = GROUP
    slot, box = slot_of(access, facts), box_of(access, facts)
    reach = None if threads is None else threads.reach(op, access)
    apart = frozenset() if threads is None else threads.words(op, access)
    return MemoryAccess(
        access.kind,
        access.mem,
        slot,
        access.region,
        thread,
        box,
        access.free,
        access.whole,
        reach,
        apart,
        access.place,
        op,
    )


def box_of(access: Access, facts: Facts) -> tuple[Span, ...] | None:
    """The part of a tensor, where it is the same for all threads; the other dimensions are open."""
    if access.box is None:
        return None
    starts = [facts.affine(start) for start, _ in access.box]
    return tuple(
        Span(low, low + extent) if all(facts.uniform(v) for v in low.atoms()) else Span(None, None)
        for low, (_, extent) in zip(starts, access.box, strict=True)
    )


def slot_of(access: Access, facts: Facts) -> Slot:
    """The version an access goes to: `x % versions`, or a number."""
    t = access.mem.type if access.mem is not None else None
    versions = t.versions if isinstance(t, BufferType) else 1
    if versions == 1:
        return Slot(Affine(), 1)
    if access.slot is None:
        return Slot(None, versions)
    op = access.slot.op
    while isinstance(op, arith.Cast):
        op = op.a.op
    if isinstance(op, (arith.FloorMod, arith.TruncMod, arith.And)) and divisor_of(op) == versions:
        return Slot(None, versions).of(facts.affine(op.a))
    return Slot(None, versions).of(facts.affine(access.slot))


def conflict(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether two accesses by different threads need to be ordered."""
    if not (a.writes or b.writes) or (a.kind == b.kind == "atomic" and a.mem is not None):
        return False
    if a.thread is not None and a.thread == b.thread:
        return False
    if a.whole is not None and a.whole == b.whole and a.box == b.box and _known(a.box):
        return False
    if not a.apart.isdisjoint(b.apart) or not overlap(a, b):
        return False
    return a.reach is None or b.reach is None or a.mem is not b.mem or not a.reach.apart(b.reach)


def _known(box: tuple[Span, ...] | None) -> bool:
    return box is not None and all(span.low is not None and span.high is not None for span in box)


def group_of(a: MemoryAccess, b: MemoryAccess) -> int | None:
    """How many consecutive threads two accesses meet among, where each such group has its own part of the buffer."""
    alloc = a.mem.op if a.mem is not None and a.mem is b.mem else None
    return None if alloc is None else alloc.shared_by


def overlap(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether two accesses may reach the same bytes."""
    if a.mem is None or b.mem is None:
        return True
    if a.mem is b.mem:
        if a.slot.differs(b.slot):
            return False
        if a.box is not None and b.box is not None and any(x.misses(y) for x, y in zip(a.box, b.box, strict=True)):
            return False
        return a.region is None or b.region is None or _meet(a.region, b.region)
    bytes_a = placed(a)
    bytes_b = None if bytes_a is None else placed(b)
    return bytes_a is not None and bytes_b is not None and _meet(bytes_a, bytes_b)


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def placed(t: MemoryAccess) -> tuple[int, int] | None:
    """The bytes of shared memory that an access may reach; None before buffers have places, or in global memory."""
    alloc = t.mem.op if t.mem is not None else None
    if not isinstance(alloc, Alloc) or alloc.offset is None or alloc.type_.space != "shared":
        return None
    size = alloc.version_bytes
    low, high = t.region if t.region is not None else (0, size)
    if t.slot.value is not None and t.slot.value.is_constant:
        at = alloc.offset + size * t.slot.value.const
        return at + low, at + high
    return alloc.offset + low, alloc.offset + size * (t.slot.versions - 1) + high


def moved(t: MemoryAccess, values: Mapping[Value, Affine]) -> MemoryAccess:
    """An access with some of the values that its version and its box are computed from replaced."""
    if t.box is not None:
        t = replace(t, box=tuple(span.moved(values) for span in t.box))
    if t.reach is not None:
        t = replace(t, reach=t.reach.moved(values))
    if t.slot.value is None or not t.slot.value.terms:
        return t
    return replace(t, slot=t.slot.of(t.slot.value.substitute(values)))


def any_version(t: MemoryAccess) -> MemoryAccess:
    """An access of any version, or of any part."""
    return replace(t, slot=Slot(None, t.slot.versions), box=None)


def back(t: MemoryAccess, iv: Value | None, step: Affine | None, local: Set[Value]) -> MemoryAccess:
    """An access of the previous iteration, said in this iteration's terms: `iv` was less by `step` then. What else was
    made in the loop's body (`local`) has no name any more. Without iv, the same for an access of any iteration."""
    if t.box is not None:
        t = replace(t, box=tuple(span.back(iv, step, local) for span in t.box))
    if t.reach is not None:
        t = replace(t, reach=t.reach.back(iv, step, local))
    if t.apart:
        t = replace(t, apart=t.apart - local)
    value = t.slot.value
    if value is None or not value.terms:
        return t
    if iv is not None and step is not None:
        value = value.substitute({iv: Affine.of(iv) - step})
    known = iv is not None and not any(v in local for v in value.atoms() if v is not iv)
    known = known or not any(v in local or v is iv for v in value.atoms())
    return replace(t, slot=t.slot.of(value)) if known else any_version(t)
