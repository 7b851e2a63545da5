"""Which values need code, and which of them live in the same registers.

Structured control flow passes values on: into a loop, around it, out of it; out of a branch. Each such hand-over is a
copy unless both sides live in the same registers, and so is an mma whose accumulator is not updated in place. `plan`
joins the values of a hand-over into one *coalescing class* whenever they do not interfere, those of inner loops first:

    %acc = for … carry(%c = %z) {             %z, %c, %c1 and %acc are one class: the loop body has no copy
      %c1 = mma_sync %a, %b, %c
      yield %c1
    }

Two values interfere when one is live where the other is written (the test of Chaitin's colouring, on SSA form). One
backward walk over the kernel finds liveness, interference, and what is needed at all. An operation that writes several
registers may write some before it has read all of its operands; only elementwise ones (`IN_PLACE`) and an mma's
accumulator may therefore share registers with an operand that dies there.

Aliases (`pick`, `concat`, …) have no registers of their own: a use of one is a use of what it was made from, its roots.
Constant offsets of addresses are folded into the access (`fold_address`), which is then a use of the base.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from minitile.backends.nvidia.ops import Instruction
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, cluster, control, hopper, roles, thread, tile
from minitile.ir.ops.views import Recast
from minitile.lowering.memory import FAR

# Operations that give existing registers another name; integer casts between equal widths too (`is_alias`).
_ALIASES = (thread.Pick, thread.Concat, arith.Reinterpret, Recast, roles.Fragment)
# Operations whose registers are shared by all that ask for the same thing.
_SHARED = (arith.Constant, thread.Special, thread.GlobalAddress, thread.BufferAddress, tile.Alloc)
IN_PLACE = (arith.Unary, arith.Binary, arith.Fma, arith.Select, Instruction)
# Loads have no effect but their result: like pure operations, they go when it is not used.
LOADS = (thread.LoadMem, thread.LdMatrix)
_MAYBE_ALIASES = (*_ALIASES, arith.Cast)
# Operations that update an operand's registers where they are.
_UPDATES: dict[type[Op], str] = {thread.MmaSync: "c", hopper.Wgmma: "c", roles.Await: "a"}

# The operands of memory operations that become code: addresses, then others. (`mem` and `slot` are for the analyses.)
_MEMORY: dict[type[Op], tuple[tuple[str, ...], tuple[str, ...]]] = {
    thread.LoadMem: (("address",), ("predicate",)),
    thread.StoreMem: (("address",), ("predicate", "value")),
    thread.AtomicMem: (("address",), ("predicate", "value")),
    thread.CpAsync: (("dst", "src"), ("predicate", "enable")),
    thread.LdMatrix: (("address",), ()),
    hopper.MbarrierInit: (("address",), ()),
    hopper.MbarrierArrive: (("address",), ("predicate", "rank")),
    hopper.MbarrierExpect: (("address",), ("predicate",)),
    hopper.UngroupedCpAsync: (("dst", "src"), ("predicate",)),
    hopper.MbarrierAnnounce: (("address",), ("predicate",)),
    hopper.MbarrierWait: (("address",), ("parity",)),
    cluster.AsyncStore: (("address", "barrier"), ("predicate", "value")),
    cluster.AwaitStores: (("address",), ("parity",)),
    hopper.TmaLoad: (("address", "barrier"), ("predicate", "multicast")),
    hopper.Wgmma: ((), ("a", "b", "c", "scale_d")),
    roles.Await: ((), ("a", "written")),
}


def fold_address(address: Value) -> tuple[Value, tuple[int, ...], int]:
    """`address` as (base, offsets by register or (), offset of all): register n is at base + offsets[n] + offset."""
    offset = 0
    while isinstance(op := address.op, arith.Add):
        constant = constant_of(op.b)
        if constant is None or op.a.type != address.type or not -FAR <= offset + constant < FAR:
            break
        offset += constant
        address = op.a
    if not isinstance(op, thread.Offsets):
        return address, (), offset
    base, offsets, inner = fold_address(op.a)
    assert not offsets, "the operand of `offsets` is a scalar"
    return base, op.constants, offset + inner


def is_alias(op: Op | None) -> bool:
    if isinstance(op, arith.Cast):
        return op.a.dtype.is_int and op.to.is_int and op.a.dtype.bits == op.to.bits >= 32
    return isinstance(op, _ALIASES)


@dataclass
class Plan:
    """`class_of[v]` is the leader of the coalescing class of v: the values that share its registers, which `members`
    lists by leader. `needed`: the values whose operations must be emitted."""

    needed: set[Value] = field(default_factory=set)
    class_of: dict[Value, Value] = field(default_factory=dict)
    members: dict[Value, list[Value]] = field(default_factory=dict)


def plan(kernel: Kernel) -> Plan:
    """The plan of a legalised kernel (thread stage)."""
    survey = _Survey(kernel)
    walk = _Backward(survey)
    live: set[Value] = set()
    walk.block(kernel.body, live)
    walk.define_all([*kernel.params, *kernel.dims.values()], live)
    classes = _CoalescingClasses(walk.interferes)
    for a, b in survey.links():
        classes.join(a, b)
    members = {leader: values for leader, values in classes.members.items() if len(values) > 1}
    return Plan(walk.needed, {v: leader for leader, values in members.items() for v in values}, members)


class _Survey:
    """The forward walk: hand-overs, roots of aliases, what operations use, and what regions use of the outside."""

    def __init__(self, kernel: Kernel) -> None:
        self.roots: dict[Value, tuple[Value, ...]] = {}
        self.used: dict[Op, list[Value]] = {}
        self.free: dict[Block, set[Value]] = {}
        self._links: list[tuple[int, Value, Value]] = []
        self._depth = 0
        self._block(kernel.body)
        self.candidates: set[Value] = {v for _, *pair in self._links for v in pair}

    def links(self) -> Iterable[tuple[Value, Value]]:
        """The pairs that want to share a class, the innermost loops' first."""
        return ((a, b) for _, a, b in sorted(self._links, key=lambda link: -link[0]))

    def roots_of(self, value: Value) -> tuple[Value, ...]:
        return self.roots.get(value, (value,))

    def _link(self, a: Value, b: Value, depth: int) -> None:
        if _has_registers(a) and _has_registers(b):
            self._links.append((depth, a, b))

    def _pairs(self, a: Sequence[Value], b: Sequence[Value], depth: int) -> None:
        for x, y in zip(a, b, strict=True):
            self._link(x, y, depth)

    def _block(self, block: Block) -> None:
        roots = self.roots
        used: set[Value] = set()
        defined: set[Value] = set(block.args)
        for op in block.ops:
            kind = type(op)
            values = self.used[op] = _code_operands(op)
            if kind.region_fields:
                self._structure(op)
                for region in op.regions:
                    used |= self.free[region]
            elif kind in _UPDATES:
                old = getattr(op, _UPDATES[kind])
                if old is not None:
                    self._link(op.results[0], old, self._depth)
            elif kind in _MAYBE_ALIASES and is_alias(op):
                roots[op.results[0]] = tuple({r: None for v in values for r in roots.get(v, (v,))})
            if self._depth:  # what a loop uses of the outside
                for v in values:
                    used.update(roots.get(v, (v,)))
                defined.update(op.results)
        self.free[block] = used - defined

    def _structure(self, op: Op) -> None:
        outside, inside = self._depth, self._depth + 1
        if isinstance(op, control.For):
            self._pairs(op.results, op.carried, 1 << 30)  # always possible: never both alive
            self._region(op.body, inside)
            self._pairs(op.body.yielded, op.carried, inside)
            self._pairs(op.init, op.carried, outside)
        elif isinstance(op, control.While):
            end = op.before.terminator
            assert isinstance(end, control.Condition)
            self._pairs(op.results, op.body.args, 1 << 30)
            self._region(op.before, inside)
            self._region(op.body, inside)
            self._pairs(end.values, op.body.args, inside)
            self._pairs(op.body.yielded, op.before.args, inside)
            self._pairs(op.init, op.before.args, outside)
        else:
            for block in op.regions:
                self._region(block, outside)
                if op.results:
                    self._pairs(block.yielded, op.results, outside)

    def _region(self, block: Block, depth: int) -> None:
        outer, self._depth = self._depth, depth
        self._block(block)
        self._depth = outer


class _Backward:
    """The backward walk. `live` holds candidates only; a method turns what is live after into what is live before."""

    def __init__(self, survey: _Survey) -> None:
        self.survey = survey
        self.candidates = survey.candidates
        self.needed: set[Value] = set()
        self.interferes: dict[Value, set[Value]] = {v: set() for v in survey.candidates}

    def block(self, block: Block, live: set[Value]) -> None:
        for op in reversed(block.ops):
            if isinstance(op, control.For):
                self.loop(op, live)
            elif isinstance(op, control.While):
                self.while_(op, live)
            elif op.region_fields:
                self.branch(op, live)
            elif not op.terminator:
                self.plain(op, live)

    def plain(self, op: Op, live: set[Value]) -> None:
        results, needed = op.results, self.needed
        kind = type(op)
        if (kind.pure or kind in LOADS) and not any(r in needed for r in results):
            return
        used = self.survey.used[op]
        for r in results:
            if r in self.candidates:
                live.discard(r)
                self.interfere(r, live)
        self.use(used, live)
        for r in results:
            if r in self.candidates:
                self.interfere(r, self.read_late(op, used))

    def read_late(self, op: Op, used: Sequence[Value]) -> list[Value]:
        """What may still be read after a part of the result has been written. An alias may have the registers of its
        root in another order, so that not even an elementwise operation reads each before it writes it."""
        if isinstance(op, IN_PLACE):
            used = [v for v in used if v in self.survey.roots]
        elif type(op) in _UPDATES:
            old = getattr(op, _UPDATES[type(op)])
            used = [v for v in used if v is not old or v in self.survey.roots]
        return [root for v in used for root in self.survey.roots_of(v)]

    def loop(self, op: control.For, live: set[Value]) -> None:
        self.define_all(op.results, live)
        bounds = [op.lower, op.upper, op.step]
        self.needed.update(bounds)
        live |= self.outside(op.body)
        self.use([op.upper, op.step], live)
        inside = set(live)
        self.use([*op.body.yielded, op.iv], inside)
        self.block(op.body, inside)
        self.define_all(op.body.args, inside | live)
        self.use(op.init, live)
        self.interfere(op.iv, live)  # the induction variable is set before the carried values are
        self.use([op.lower], live)

    def while_(self, op: control.While, live: set[Value]) -> None:
        self.define_all(op.results, live)
        end = op.before.terminator
        assert isinstance(end, control.Condition)
        live |= self.outside(op.before) | self.outside(op.body)
        inside = set(live)
        self.use(op.body.yielded, inside)
        self.block(op.body, inside)
        inside |= live
        self.use([end.flag], inside)  # read after the values have been handed to the body
        self.define_all(op.body.args, inside)
        self.use(end.values, inside)
        self.block(op.before, inside)
        self.define_all(op.before.args, inside | live)
        self.use(op.init, live)

    def branch(self, op: Op, live: set[Value]) -> None:
        self.define_all(op.results, live)
        before = set(live)
        for block in op.regions:
            inside = set(live)
            self.use(block.yielded, inside)
            self.block(block, inside)
            before |= inside
        live |= before
        self.use(op.operands, live)

    def outside(self, block: Block) -> set[Value]:
        """What a loop's body uses of the outside is live all through the loop."""
        return self.survey.free[block] & self.candidates

    def use(self, values: Iterable[Value], live: set[Value]) -> None:
        self.needed.update(values)
        roots, candidates = self.survey.roots, self.candidates
        for v in values:
            if v in candidates:
                live.add(v)
            elif v in roots:
                live.update(candidates.intersection(roots[v]))

    def define_all(self, values: Sequence[Value], live: set[Value]) -> None:
        """Values that come into being together interfere with each other."""
        own = [v for v in values if v in self.candidates]
        live.difference_update(own)
        for v in own:
            self.interfere(v, live)
            self.interfere(v, own)

    def interfere(self, value: Value, others: Iterable[Value]) -> None:
        if value not in self.candidates:
            return
        own = self.candidates.intersection(others)
        own.discard(value)
        self.interferes[value] |= own
        for other in own:
            self.interferes[other].add(value)


class _CoalescingClasses:
    """Disjoint sets of values, none of which interferes with another of its set."""

    def __init__(self, interferes: dict[Value, set[Value]]) -> None:
        self.interferes = {v: set(others) for v, others in interferes.items()}
        self.sets = {v: deque([v]) for v in interferes}  # by one of them
        self.of = {v: v for v in interferes}
        self.leaders = {v: v for v in interferes}  # the member that a class is called by

    @property
    def members(self) -> dict[Value, list[Value]]:
        """The values of each class, by its leader."""
        return {self.leaders[key]: list(values) for key, values in self.sets.items()}

    def join(self, a: Value, b: Value) -> None:
        """Put a and b into one class unless something in a's interferes with something in b's."""
        a, b = self.of[a], self.of[b]
        if a is b or self.meet(a, b):
            return
        leader, first, second = self.leaders[a], self.sets[a], self.sets[b]
        # The smaller one moves, so that long chains of hand-overs do not move all they have at each step.
        into, out = (a, b) if len(first) >= len(second) else (b, a)
        for v in self.sets.pop(out):
            self.of[v] = into
        if into is a:
            first.extend(second)
        else:
            second.extendleft(reversed(first))
        self.leaders[into] = leader
        less, more = sorted((self.interferes.pop(out), self.interferes[into]), key=len)
        more |= less
        self.interferes[into] = more

    def meet(self, a: Value, b: Value) -> bool:
        """Whether something in one set interferes with something in another. Interference is symmetric: the side with
        less to look at is asked."""
        ways = ((self.interferes[b], self.sets[a], a), (self.interferes[a], self.sets[b], b))
        others, members, key = min(ways, key=lambda way: min(len(way[0]), len(way[1])))
        if len(members) <= len(others):
            return not others.isdisjoint(members)
        return any(self.of[v] is key for v in others)


def _has_registers(value: Value) -> bool:
    """Whether a value lives in registers of its own, so that it can share them."""
    op = value.op
    return thread.in_registers(value) and not (isinstance(op, _SHARED) or is_alias(op))


def _memory_fields(op: Op) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Of the operation's class, or the nearest one that it is derived from."""
    return next((_MEMORY[kind] for kind in type(op).__mro__ if kind in _MEMORY), None)


def _code_operands(op: Op) -> list[Value]:
    """The operands that become code; of an address that is folded, the base."""
    fields = _memory_fields(op)
    if fields is None:
        return op.operands
    addresses, others = fields
    used = [fold_address(getattr(op, name))[0] for name in addresses]
    if isinstance(op, hopper.TmaLoad):
        used += op.coordinates
    return used + [v for name in others if (v := getattr(op, name)) is not None]
