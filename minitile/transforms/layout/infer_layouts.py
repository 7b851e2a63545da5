"""Gives every tile value a register layout and every shared buffer a shared layout.

    %c1 = gemm %As, %Bs, %c : tile<128x128xf32>
    →
    %c1 = gemm %As, %Bs, %c : tile<128x128xf32, layout<128x128; reg 2:1@1, 2:8@0, …>>

Values that an operation takes and gives in one layout form a group: elementwise operands and results, what a loop
carries. Three levels:

strict  an instruction demands it: the accumulator of a gemm. When two demands meet in one group, the group is cut
        at the last edge that joined them (never at a loop-carried one first), and a conversion stands there.
        A factor of a gemm that is computed, or comes from shared memory, has the layout that the instruction reads.
common  along uses between groups: a reduction's result has the quotient of its operand's layout, an expanded row
        vector likewise, a permuted tile the permuted layout.
free    what is left takes the layout that suits its memory accesses: coalesced, as wide as alignment proves, rows
        within a warp where a reduction runs along them.

Then conversions are placed wherever an operand's layout is not what its operation needs, outside of the loops in which
the operand does not change; `splat` and `iota` never need one, they are written again for each use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from minitile.analysis.affine import Facts
from minitile.analysis.masks import Masks
from minitile.analysis.strides import row_alignment, tile_alignment
from minitile.backends.base import Rules
from minitile.hardware import Target
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import control, explicit, roles, tile
from minitile.ir.relations import Interleaved, Permuted, Quotient, Repeated, Reshaped, Same
from minitile.ir.rewrite import clone
from minitile.ir.types import TensorType, TileType
from minitile.layout import (
    Layout,
    RowAccess,
    blocked,
    cheapest_vector,
    crossed,
    interleaved_slice,
    interleaved_source,
    reshaped,
    row_blocked,
    scan_blocked,
)
from minitile.layout.access import atomic_bytes
from minitile.lowering.context import layout_of
from minitile.transforms.layout.select_shared_layout import choose_shared_layouts

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

Access = tile.Load | tile.Store | tile.AtomicRmw
FREE = (tile.Splat, tile.Iota)  # written again for each use, so that they join no groups


def infer_layouts(kernel: Kernel, context: PassContext) -> None:
    _one_copy_per_use(kernel.body)
    inference = _Inference(kernel, context.rules, context.target)
    inference.collect(kernel.body)
    inference.solve()
    inference.assign()
    _Converter(inference).block(kernel.body)
    choose_shared_layouts(kernel, context.target.has("tma"))


def _one_copy_per_use(block: Block) -> None:
    seen: set[Value] = set()

    def go(block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:

            def own(value: Value) -> Value:
                if not isinstance(value.owner, FREE):
                    return value
                if value not in seen:
                    seen.add(value)
                    return value
                copy = clone(value.owner, {})
                ops.append(copy)
                return copy.result

            op.replace_operands(own)
            for inner in op.regions:
                go(inner)
            ops.append(op)
        block.ops = ops

    go(block)


def is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType)


_Passing = Quotient | Permuted | Interleaved | Repeated | Reshaped  # relations by which one layout follows from another


class _Group:
    """Values of one layout, spread over `threads` (None: not known yet)."""

    __slots__ = ("layout", "members", "threads")

    def __init__(self, member: Value) -> None:
        self.members = [member]
        self.layout: Layout | None = None
        self.threads: int | None = None


class _Inference:
    def __init__(self, kernel: Kernel, rules: Rules, target: Target) -> None:
        self.kernel = kernel
        self.rules = rules
        self.target = target
        self.lanes = target.lanes
        self.used = {v for op in kernel.walk() for v in op.operands}
        self.facts = Facts(kernel)
        self.masks = Masks(self.facts)
        self.threads: int = kernel.threads
        self.team: dict[Op, int] = {}  # how many threads execute an operation, where that is not all of them
        self.group_of: dict[Value, _Group] = {}
        self.firm: list[Same] = []  # joined first
        self.equal: list[Same] = []
        self.anchors: list[tuple[Value, Layout]] = []
        self.anchored: set[Value] = set()
        self.factors: list[tuple[Value, Layout]] = []  # of gemms, in registers: as instructions want them
        self.quotients: list[Quotient] = []
        self.permutes: list[Permuted] = []
        self.interleaved: list[Interleaved] = []
        self.repeats: list[Repeated] = []
        self.reshapes: list[Reshaped] = []
        self.uses: dict[Value, list[tuple[int, int, Access]]] = {}  # with their order, and the loops around each
        self.seen = 0  # of these
        self.loops = 0  # around the place that is collected
        self.relations: tuple[_Passing, ...] = ()
        self.touching: dict[_Group, list[int]] = {}  # the relations that pass layouts on, by number
        self.reduced: set[tuple[Value, int]] = set()
        self.scanned: set[tuple[Value, int]] = set()

    # collect -------------------------------------------------------------------------------------------------------

    def collect(self, block: Block, threads: int | None = None) -> None:
        threads = self.threads if threads is None else threads
        for value in block.args:
            self._new(value)
        for op in block.ops:
            for value in op.results:
                self._new(value)
            if threads != self.threads:
                self.team[op] = threads
            self._constrain(op)
            if not (op.region_fields or op.terminator or isinstance(op, FREE)):
                self._claim(op, threads)
            self.loops += isinstance(op, control.Loop)
            for region, count in zip(op.regions, explicit.sides(op, threads), strict=True):
                self.collect(region, count)
            self.loops -= isinstance(op, control.Loop)

    def threads_at(self, op: Op) -> int:
        return self.team.get(op, self.threads)

    def _claim(self, op: Op, threads: int) -> None:
        """The tiles of an operation are spread over the threads that execute it."""
        for value in (*op.operands, *op.results):
            group = self.group_of.get(value)
            if group is None:
                continue
            if group.threads not in (None, threads):
                raise _elsewhere(value, group.threads or 0, threads, op.loc)
            group.threads = threads

    def _new(self, value: Value) -> None:
        if is_tile(value):
            self.group_of[value] = _Group(value)

    def _constrain(self, op: Op) -> None:
        if isinstance(op, tile.Gemm):
            plan = self.rules.gemm_plan(op, self.threads_at(op))
            self.anchors.append((op.results[0], plan.c))
            self.anchored.add(op.results[0])
            for factor, read, turned in ((op.a, plan.a, op.transpose_a), (op.b, plan.b, op.transpose_b)):
                if is_tile(factor):
                    self.factors.append((factor, read.permute_dims((1, 0)) if turned else read))
            for value, layout in ((op.a_scale, plan.a_scale), (op.b_scale, plan.b_scale)):
                if value is not None and layout is not None and value not in self.anchored:
                    self.anchors.append((value, layout))
                    self.anchored.add(value)
        for value in op.fixed_tiles():
            self.anchors.append((value, self.rules.gemm_plan(op, self.threads_at(op)).c))
        if isinstance(op, (tile.Load, tile.Store, tile.AtomicRmw)) and op.subject is not None:
            self.uses.setdefault(op.subject, []).append((self.seen, self.loops, op))
            self.seen += 1
        for value, dim, ordered in op.meets_along():
            (self.scanned if ordered else self.reduced).add((value, dim))
        for relation in op.relations():
            if isinstance(relation, Same):
                if is_tile(relation.like):
                    (self.firm if relation.firm else self.equal).append(relation)
            elif isinstance(relation, Quotient):
                self.quotients.append(relation)
            elif isinstance(relation, Interleaved):
                self.interleaved.append(relation)
            elif isinstance(relation, Repeated):
                self.repeats.append(relation)
            elif isinstance(relation, Reshaped):
                self.reshapes.append(relation)
            else:
                self.permutes.append(relation)

    # solve ---------------------------------------------------------------------------------------------------------

    def solve(self) -> None:
        for value, layout in self.anchors:
            self.group_of[value].layout = layout
        for same in (*self.firm, *self.equal):
            self._join(same)
        self._propagate(None)
        for value, layout in self.factors:
            group = self.group_of[value]
            if group.layout is None and not self._in_tensors(group):
                group.layout = layout
                self._propagate(group)
        pending = {id(g): g for g in self.group_of.values() if g.layout is None}
        for group in sorted(pending.values(), key=self._turn(list(pending.values()))):
            if group.layout is None:
                group.layout = self._choose(group)
                self._propagate(group)

    def _turn(self, groups: list[_Group]) -> Callable[[_Group], tuple[int, bool, int, int]]:
        """When a group may choose: first those of most dimensions, of these the greatest; of tiles that are one tile
        under several shapes the ones that are accessed in memory."""
        rank = {id(g): len(g.members[0].shape) for g in groups}
        accessed = {
            id(g): any(value in self.uses for same, _ in self._same_elements(g) for value in same.members)
            for g in (groups if self.reshapes else ())
        }
        most = dict(rank)
        for relation in self.reshapes:
            views = [id(g) for g in (self.group_of.get(relation.source), self.group_of.get(relation.result)) if g]
            for view in views:
                most[view] = max(rank.get(v, 0) for v in views)
        return lambda g: (-most[id(g)], not accessed.get(id(g)), -rank[id(g)], -math.prod(g.members[0].shape))

    def _join(self, same: Same) -> None:
        ga, gb = self.group_of[same.like], self.group_of.get(same.value)
        if gb is None or ga is gb or same.like.shape != same.value.shape:
            return
        if ga.layout is not None and gb.layout is not None and ga.layout != gb.layout and not same.firm:
            return  # two demands: a conversion will stand on this edge
        if None not in (ga.threads, gb.threads) and ga.threads != gb.threads:
            raise _elsewhere(same.value, ga.threads or 0, gb.threads or 0, None)
        if len(ga.members) < len(gb.members):
            ga, gb = gb, ga
        if ga.threads is None:
            ga.threads = gb.threads
        if ga.layout is None:
            ga.layout = gb.layout
        for member in gb.members:
            self.group_of[member] = ga
        ga.members += gb.members

    def _propagate(self, group: _Group | None) -> None:
        """Pass layouts on, from one group or at first from all: rounds over the relations in their order, as long as
        one gives a layout; of each round only those that touch a group which has just got one."""
        if group is None:
            self.relations = (*self.quotients, *self.permutes, *self.interleaved, *self.repeats, *self.reshapes)
            for number, relation in enumerate(self.relations):
                for value in _values_of(relation):
                    if value in self.group_of:
                        self.touching.setdefault(self.group_of[value], []).append(number)
        first = range(len(self.relations)) if group is None else self.touching.get(group, ())
        waiting = [(0, number) for number in sorted(set(first))]
        asked = set(waiting)
        while waiting:
            turn, number = heappop(waiting)
            found = self._pass_on(self.relations[number])
            for other in self.touching.get(found, ()) if found is not None else ():
                place = turn + (other <= number), other
                if place not in asked:
                    asked.add(place)
                    heappush(waiting, place)

    def _pass_on(self, relation: _Passing) -> _Group | None:
        """The group that gets a layout by a relation now, if any does."""
        if isinstance(relation, Quotient):
            wide, narrow = self.group_of[relation.wide], self.group_of.get(relation.narrow)
            if narrow is None:
                return None
            if wide.layout is not None and narrow.layout is None:
                narrow.layout = wide.layout.quotient(relation.dim)
                return narrow
            if wide.layout is None and narrow.layout is not None and _is_flat(relation):
                shape = relation.wide.shape
                kept = [d for d in range(len(shape)) if d != relation.dim]
                wide.layout = narrow.layout.renumbered(dict(enumerate(kept)), shape)
                return wide
            return None
        source, result = self.group_of[relation.source], self.group_of[relation.result]
        if isinstance(relation, Repeated):
            if result.layout is not None and source.layout is None:
                source.layout = interleaved_slice(result.layout, relation.dim, 1, relation.times)
                return source if source.layout is not None else None
            if source.layout is not None and result.layout is None:
                result.layout = interleaved_source(source.layout, relation.dim, 1, relation.times)
                return result
            return None
        if isinstance(relation, Reshaped):
            for one, other, to in ((source, result, relation.result), (result, source, relation.source)):
                if one.layout is not None and other.layout is None:
                    other.layout = reshaped(one.layout, to.shape)
                    return other if other.layout is not None else None
            return None
        if isinstance(relation, Interleaved):
            if source.layout is not None and result.layout is None:
                result.layout = interleaved_slice(source.layout, relation.dim, relation.run, relation.count)
                return result if result.layout is not None else None
            return None
        if source.layout is not None and result.layout is None:
            result.layout = source.layout.permute_dims(relation.order)
            return result
        if source.layout is None and result.layout is not None:
            source.layout = result.layout.permute_dims(inverse_order(relation.order))
            return source
        return None

    def _choose(self, group: _Group) -> Layout:
        """The free choice: the order of dimensions from the widest memory access of the group, global before shared;
        the vectors so that all that go that way are cheap, where they are in the innermost loops."""
        shape = group.members[0].shape
        order = tuple(reversed(range(len(shape))))
        best = (-1, -1)
        along: dict[int, dict[int, list[RowAccess]]] = {}  # by dimension and loops
        same = self._same_elements(group)
        uses = [
            (place, loops, op, value, dims)
            for g, dims in same
            for value in g.members
            for place, loops, op in self.uses.get(value, ())
        ]
        for _, loops, op, value, dims in sorted(uses, key=lambda use: use[0]):
            width, own = self._width(op, value)
            if own is None or own not in dims:  # none of this one's, where it has size 1
                continue
            dim = dims[own]
            kind = (
                "shared"
                if not isinstance(op.mem.type, TensorType)
                else "load"
                if isinstance(op, tile.Load)
                else "store"
            )
            along.setdefault(dim, {}).setdefault(loops, []).append(
                RowAccess(kind, width, max(1, op.mem.dtype.bits // 8))
            )
            rank = (int(kind != "shared"), width * value.dtype.bits)
            if rank > best:
                best = rank
                order = (dim, *(d for d in reversed(range(len(shape))) if d != dim))
        threads = group.threads or self.threads
        vec = cheapest_vector(along[order[0]][max(along[order[0]])]) if along else 1
        while vec > 1 and vec * threads > math.prod(shape):
            vec //= 2
        innermost = {d: by[max(by)] for d, by in along.items()}
        across = self._across(innermost, order, vec, threads, shape)
        if across is not None:
            order, second = across
            return crossed(shape, threads, vec, second, order, self.lanes)
        rows = {(m, d) for g, dims in same for m in g.members for d in dims if dims[d] == order[0]}
        make = blocked if self.reduced.isdisjoint(rows) else row_blocked
        make = make if self.scanned.isdisjoint(rows) else scan_blocked
        return make(shape, threads, vec, order, self.lanes)

    def _across(
        self, along: dict[int, list[RowAccess]], order: tuple[int, ...], vec: int, threads: int, shape: tuple[int, ...]
    ) -> tuple[tuple[int, ...], int] | None:
        """Where a tile goes to or from global memory in vectors along a second dimension too: the order of dimensions
        with that one second, and how many elements its vectors have. None where registers don't hold both vectors."""
        for dim, accesses in along.items():
            far = [use for use in accesses if use.kind != "shared"]
            second = cheapest_vector(far) if far and dim != order[0] else 1
            if min(vec, second) > 1 and vec * second * threads <= math.prod(shape):
                return (order[0], dim, *(d for d in order[1:] if d != dim)), second
        return None

    def _in_tensors(self, group: _Group) -> bool:
        """Whether what has this group's elements is loaded from tensors or stored there."""
        values = (value for g, _ in self._same_elements(group) for value in g.members)
        return any(isinstance(op.mem.type, TensorType) for value in values for _, _, op in self.uses.get(value, ()))

    def _same_elements(self, group: _Group) -> list[tuple[_Group, dict[int, int]]]:
        """The groups whose tiles are this one's but for dimensions of size 1 and their order, itself first: their
        layouts follow from its own. With each, which of its dimensions each of theirs is."""
        found = [(group, {d: d for d in range(len(group.members[0].shape))})]
        seen = {group}
        for of, dims in found:
            for number in self.touching.get(of, ()):
                relation = self.relations[number]
                for at, other, where in _bijection(relation):
                    there = self.group_of.get(other)
                    if self.group_of.get(at) is of and there is not None and there.layout is None and there not in seen:
                        seen.add(there)
                        found.append((there, {d: dims[own] for d, own in where.items() if own in dims}))
        return found

    def _width(self, op: Access, value: Value) -> tuple[int, int | None]:
        """How many elements one access may take, and the tile dimension they run along."""
        tensor = isinstance(op.mem.type, TensorType)
        along = op.mem.type.contiguous_dim if isinstance(op.mem.type, TensorType) else len(op.dims) - 1
        dim = op.dims[along] if op.dims and along is not None else None
        if dim is None or along is None:
            return 1, None
        limit = max(1, 128 // op.mem.dtype.bits)
        if isinstance(op, tile.AtomicRmw):
            adds = op.kind == "add" and op.result not in self.used
            limit = atomic_bytes(self.target, op.mem.dtype, tensor) // op.mem.dtype.bytes if adds else 1
        limit = math.gcd(limit, value.shape[dim])
        if isinstance(op, (tile.Load, tile.Store)) and op.shift is not None:
            return self._rotated_width(op, limit), dim
        tests = tensor and not isinstance(op, tile.AtomicRmw) and op.mem.dtype.kind != "bool"  # a run's ends (cut_runs)
        elements = limit
        if op.mask is not None and not (tests and self.masks.sides(op.mask, dim) is not None):
            elements = self.masks.run(op.mask, dim, limit)
        if isinstance(op, tile.Load) and self.masks.between(op):
            return limit, dim
        if tests and not any(map(is_tile, op.indices)):
            starts = [self.facts.affine(v) for v in op.indices]
            spans = [d for d, t in enumerate(op.dims) if t is not None and value.shape[t] > 1]
            return math.gcd(elements, tile_alignment(self.facts, op.mem, starts, spans)), dim
        if not is_tile(op.indices[along]):
            elements = math.gcd(elements, self.facts.multiple(self.facts.affine(op.indices[along])))
        if tensor:
            elements = math.gcd(elements, row_alignment(self.facts, op.mem))
            if elements > 1 and not tests and not self._inside(op, along, value.shape[dim]):
                elements = math.gcd(elements, self.facts.multiple(self.facts.size(op.mem, along)))
        return elements, dim

    def _rotated_width(self, op: tile.Load | tile.Store, limit: int) -> int:
        """Of an access of a rotated tile: as its vectors lie, or those that they are put together of."""
        if op.vector > 1:
            return math.gcd(limit, op.vector)
        index = op.indices[op.dims.index(op.along)]
        aligned = math.gcd(limit, row_alignment(self.facts, op.mem), self.facts.multiple(self.facts.affine(index)))
        return aligned if isinstance(op, tile.Load) and op.mask is None else 1

    def _inside(self, op: Access, along: int, extent: int) -> bool:
        """Whether a vector's last element is inside for sure where its first one is: no row ends before the tile."""
        if is_tile(op.indices[along]):
            return False
        last = self.facts.affine(op.indices[along]) + (extent - 1)
        return self.facts.less(last, self.facts.size(op.mem, along))

    def assign(self) -> None:
        for value, group in self.group_of.items():
            assert group.layout is not None
            value.type = TileType(value.shape, value.dtype, group.layout)


def _values_of(relation: _Passing) -> tuple[Value, Value]:
    """The two sides of a relation."""
    if isinstance(relation, Quotient):
        return relation.wide, relation.narrow
    return relation.source, relation.result


def _is_flat(relation: Quotient) -> bool:
    """Whether both sides have the same elements."""
    return relation.wide.shape[relation.dim] == 1


def _bijection(relation: _Passing) -> list[tuple[Value, Value, dict[int, int]]]:
    """Each way from one side to the other, where both have the same elements: the one, the other, and for the other's
    dimensions the one's (none for what has size 1)."""
    if isinstance(relation, Quotient) and _is_flat(relation):
        wide, narrow, dim = relation.wide, relation.narrow, relation.dim
        outer = {d: d + (d >= dim) for d in range(len(wide.shape) - 1)}
        return [(wide, narrow, outer), (narrow, wide, {w: n for n, w in outer.items()})]
    if isinstance(relation, Permuted):
        there = dict(enumerate(relation.order))
        return [
            (relation.source, relation.result, there),
            (relation.result, relation.source, {s: r for r, s in there.items()}),
        ]
    return []


def _elsewhere(value: Value, one: int, other: int, loc: Location | None) -> LanguageError:
    """A tile held by threads that do not meet."""
    loc = loc or (value.op.loc if value.op is not None else None)
    return LanguageError(
        f"the fragment {value.name!r} is spread over {one} threads in one place and over {other} in another",
        loc,
        "a fragment of one T.ws role stays there: hand its contents over through shared memory",
    )


def inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(d) for d in range(len(order)))


class _Scope:
    """A block that is being written: its operations so far, the values that it defines, what has been made of values
    for their users. `loops`: whether it is a loop's body, in front of which its own operations could stand."""

    def __init__(self, block: Block, loops: bool) -> None:
        self.ops: list[Op] = []
        self.defined: set[Value] = set(block.args)
        self.loops = loops
        self.made: dict[object, Value] = {}

    def append(self, op: Op) -> None:
        self.ops.append(op)
        self.defined.update(op.results)


class _Converter:
    """Puts conversions where an operand's layout is not the one that its operation needs."""

    def __init__(self, inference: _Inference) -> None:
        self.inference = inference
        self.rules = inference.rules
        self.scopes: list[_Scope] = []

    def block(self, block: Block, wanted: tuple[Layout | None, ...] = (), loops: bool = False) -> None:
        """`wanted`: the layouts in which the block's terminator hands on its values."""
        scope = _Scope(block, loops)
        self.scopes.append(scope)
        for op in block.ops:
            if op.terminator:
                values = op.values  # type: ignore[attr-defined]
                converted = tuple(self.convert(v, w, op) for v, w in zip(values, wanted, strict=True))
                op.values = converted  # type: ignore[attr-defined]
            else:
                self._operands(op)
                self._regions(op)
            scope.append(op)
        block.ops = self.scopes.pop().ops

    def _regions(self, op: Op) -> None:
        for region in op.regions:
            if isinstance(op, control.Structured):
                self.block(region, self._all(op.transfer(region).targets[0]), loops=op.repeats)
            else:
                self.block(region)

    def _all(self, values: Sequence[Value]) -> tuple[Layout | None, ...]:
        return tuple(layout_of(v) if is_tile(v) else None for v in values)

    def convert(self, value: Value, wanted: Layout | None, op: Op) -> Value:
        if wanted is None or not is_tile(value) or layout_of(value) == wanted:
            return value
        if isinstance(value.owner, FREE):  # used only here
            value.type = TileType(value.shape, value.dtype, wanted)
            return value
        return self.made_of(value, op, tile.ConvertLayout, wanted)

    def made_of(self, value: Value, user: Op, kind: type[Op], *attributes: Layout) -> Value:
        """`kind` of the value, once for all users, in front of the loops that do not define the value."""
        depth = len(self.scopes) - 1
        while self.scopes[depth].loops and value not in self.scopes[depth].defined:
            depth -= 1
        for scope in self.scopes[: depth + 1]:
            if (value, kind, attributes) in scope.made:
                return scope.made[value, kind, attributes]
        made = kind(value, *attributes)
        made.loc, made.result.name = user.loc, value.name
        self.scopes[depth].append(made)
        self.scopes[depth].made[value, kind, attributes] = made.result
        return made.result

    def _operands(self, op: Op) -> None:
        if isinstance(op, control.Loop):
            first = self._all(op.transfer(None).targets[0])
            op.init = tuple(self.convert(v, w, op) for v, w in zip(op.init, first, strict=True))
        elif isinstance(op, tile.Gemm):
            self._gemm(op)
        else:
            self._related(op)

    def _gemm(self, op: tile.Gemm) -> None:
        plan = self.rules.gemm_plan(op, self.inference.threads_at(op))
        op.a = self.convert(op.a, plan.a.permute_dims((1, 0)) if op.transpose_a else plan.a, op)
        op.b = self.convert(op.b, plan.b.permute_dims((1, 0)) if op.transpose_b else plan.b, op)
        op.c = self.convert(op.c, plan.c, op)
        op.a_scale = None if op.a_scale is None else self.convert(op.a_scale, plan.a_scale, op)
        op.b_scale = None if op.b_scale is None else self.convert(op.b_scale, plan.b_scale, op)
        op.results[0].type = TileType(op.c.shape, op.c.dtype, plan.c)
        if isinstance(op, roles.AsyncGemm) and is_tile(op.a):
            op.a = self.made_of(op.a, op, roles.Fragment)

    def _related(self, op: Op) -> None:
        """Operands follow results (and, in memory operations, the subject); a reduction's result follows its operand,
        in whose threads it comes about."""
        need: dict[Value, Layout] = {}
        for value in op.fixed_tiles():
            if value in op.operands:
                need[value] = self.rules.gemm_plan(op, self.inference.threads_at(op)).c
        for relation in op.relations():
            if isinstance(relation, Same):
                if is_tile(relation.like):
                    need[relation.value] = layout_of(relation.like)
            elif isinstance(relation, Permuted):
                need[relation.source] = layout_of(relation.result).permute_dims(inverse_order(relation.order))
            elif isinstance(relation, Interleaved):
                source, result = layout_of(relation.source), layout_of(relation.result)
                if interleaved_slice(source, relation.dim, relation.run, relation.count) != result:
                    need[relation.source] = interleaved_source(result, relation.dim, relation.run, relation.count)
            elif isinstance(relation, Repeated) and relation.result in op.operands:
                many = interleaved_slice(layout_of(relation.result), relation.dim, 1, relation.times)
                if many == layout_of(relation.source):
                    continue
                need[relation.result] = interleaved_source(layout_of(relation.source), relation.dim, 1, relation.times)
            elif isinstance(relation, Repeated):
                narrow_of = interleaved_slice(layout_of(relation.result), relation.dim, 1, relation.times)
                if narrow_of is not None:
                    need[relation.source] = narrow_of
                else:
                    wide = interleaved_source(layout_of(relation.source), relation.dim, 1, relation.times)
                    relation.result.type = TileType(relation.result.shape, relation.result.dtype, wide)
            elif isinstance(relation, Reshaped):
                here = reshaped(layout_of(relation.result), relation.source.shape)
                if here is not None:
                    need[relation.source] = here
            else:
                narrow = layout_of(relation.wide).quotient(relation.dim)
                if relation.narrow in op.operands:
                    need[relation.narrow] = narrow
                elif is_tile(relation.narrow):
                    relation.narrow.type = TileType(relation.narrow.shape, relation.narrow.dtype, narrow)
        op.replace_operands(lambda v: self.convert(v, need.get(v), op))
