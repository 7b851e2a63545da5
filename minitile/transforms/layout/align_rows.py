"""Rows that begin anywhere: tiles are rotated, so that their vectors lie at multiples of 16 bytes.

Row i of a bf16 matrix with 1001 columns begins s = 1001*i mod 8 elements behind such a multiple. No 8 neighbours that a
thread could have are one access, in most rows. So position p of the row's tile takes element (p - s) mod size:

    row         … |e0 e1 e2 e3 e4|e5 … e12|e13 …                    s = 3, | is a multiple of 16 bytes
    positions     p3          p7  p8 … p15 p16 …                    p0 … p2: the tile's last 3 elements

    %x = load %X[%i, 0] {shape = (1024,)}         %s = and (%i and 7) * (%N and 7), 7
    %j = iota {shape = (1024,)}              →    %x = load %X[%i, 0], shift = %s {shape = (1024,), vector = 8}
    %in = cmp %j, %N                              %j = rotated_iota %s {shape = (1024,)}

All tiles that meet element by element are rotated together: what is loaded, stored, computed and reduced along the row.
Only the first vector and the one behind the row's end are by elements. Of a load that has no such rows (a weight for
each column) the vectors are now off the multiples: it is two loads, whose parts are put together (`vector` 1).

What is rotated is all tiles that are joined by elementwise operations, branches and loops along a dimension, if each is
elementwise, a reduction, an expansion, or a load or store of a tensor along its contiguous dimension, from an index
that is not negative; if at least half of these accesses, and all of the stores, are of rows that begin at the same s;
and if they come in whole vectors. Where s differs between the tile's rows, tiles without these (`%j` of one row for
all) are written again for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.masks import Masks
from minitile.analysis.strides import strides_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.ir.ops.views import RotatedIota
from minitile.ir.rewrite import Rewriter, remake
from minitile.ir.types import ALIGNMENT, TensorType, TileType, i32
from minitile.transforms.canonicalize.dead_code import remove_dead

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

FREE = (tile.Splat, tile.Iota)
Row = tile.Load | tile.Store
Axis = tuple[Value, int]  # a tile and one of its dimensions


def align_rows(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    axes = _Axes(kernel)
    plans = [plan for group in axes.groups() if (plan := axes.plan(group)) is not None]
    if plans:
        _Rotation(kernel, axes, plans).run(kernel)
        remove_dead(kernel.body, set())


@dataclass(eq=False)
class _Group:
    """Axes that are rotated together or not at all. `rows`: the accesses along them."""

    axes: list[Axis] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    fixed: bool = False


@dataclass(frozen=True, eq=False)
class _Plan:
    """How a group is rotated: s is `start` plus, for each tile dimension of `across`, its index times the stride,
    modulo `vector`. `aligned`: the accesses whose vectors that aligns; `bounded`: those whose masks say no more than
    the tensor's bounds. `shape`: of the tiles, with the axis."""

    group: _Group
    start: Affine
    across: dict[int, Affine]
    vector: int
    aligned: frozenset[Row]
    bounded: frozenset[Row]
    shape: tuple[int, ...]
    dim: int


class _Axes:
    """The dimensions of a kernel's tiles, joined where their elements meet."""

    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.masks = Masks(self.facts)
        self.parent: dict[Axis, Axis] = {}
        self.fixed: set[Axis] = set()
        self.rows: list[tuple[Row, Axis]] = []
        self.written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
        self.users: dict[Value, list[Op]] = {}
        self.defined: dict[Value, tuple[Block, int]] = {}  # the block that defines a value, and when
        self.places: dict[Op, tuple[frozenset[Block], int]] = {}  # the blocks around an operation, and when it is
        self._walk(kernel.body, frozenset())

    def _walk(self, block: Block, outer: frozenset[Block]) -> None:
        around = outer | {block}
        for v in block.args:
            self.defined[v] = block, len(self.places)
        for op in block.ops:
            self.places[op] = around, len(self.places)
            self._collect(op)
            for v in op.operands:
                self.users.setdefault(v, []).append(op)
            for region in op.regions:
                self._walk(region, around)
            for v in op.results:
                self.defined[v] = block, len(self.places)

    def find(self, axis: Axis) -> Axis:
        while (up := self.parent.setdefault(axis, axis)) != axis:
            self.parent[axis] = self.parent[up]
            axis = up
        return axis

    def _join(self, a: Axis, b: Axis) -> None:
        if isinstance(a[0].op, FREE) or isinstance(b[0].op, FREE):
            return
        self.parent[self.find(a)] = self.find(b)

    def _collect(self, op: Op) -> None:
        tiles = [v for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]
        if isinstance(op, control.Structured):
            for transfer in op.transfers():
                for v, *targets in zip(transfer.values, *transfer.targets, strict=True):
                    for target in targets:
                        if isinstance(v.op, tile.Iota):
                            self._fix([target])
                        elif isinstance(v.type, TileType):
                            self._same([v, target])
        elif op.terminator or isinstance(op, FREE):
            pass
        elif op.elementwise:
            self._same([v for v in tiles if not isinstance(v.op, FREE)])
        elif isinstance(op, tile.Expand) and isinstance(op.a.type, TileType):
            for d in range(len(op.a.shape)):
                self._join((op.a, d), (op.result, d + (d >= op.dim)))
        elif isinstance(op, tile.Expand):
            pass
        elif isinstance(op, tile.Permute) and not isinstance(op.a.op, FREE):
            for d, source in enumerate(op.order):
                self._join((op.a, source), (op.result, d))
        elif type(op) is tile.Reduce:
            for d in range(len(op.a.shape)):
                self.find((op.a, d))
                if d != op.dim:
                    self._join((op.a, d), (op.result, d - (d > op.dim)))
        elif isinstance(op, Row) and self._is_row(op):
            self._row(op)
        else:
            self._fix(tiles)

    def _fix(self, tiles: list[Value]) -> None:
        self.fixed |= {(v, d) for v in tiles for d in range(len(v.shape))}

    def _same(self, tiles: list[Value]) -> None:
        for v in tiles:
            for d in range(len(v.shape)):
                self._join((tiles[0], d), (v, d))

    def _is_row(self, op: Row) -> bool:
        """Whether it is an access of a tensor with one scalar index for each dimension."""
        scalars = not any(isinstance(v.type, TileType) for v in op.indices)
        return isinstance(op.mem.type, TensorType) and scalars and isinstance(op.moved.type, TileType)

    def _row(self, op: Row) -> None:
        assert isinstance(op.mem.type, TensorType)
        masks = [v for v in (op.mask,) if v is not None and isinstance(v.type, TileType) and not isinstance(v.op, FREE)]
        if isinstance(op.moved.op, FREE):
            self._fix(masks)
            return
        along = op.mem.type.contiguous_dim
        self._same([op.moved, *masks])
        for m, t in enumerate(op.dims):
            if t is not None and m == along:
                self.rows.append((op, (op.moved, t)))
            elif t is not None:
                self.fixed.add((op.moved, t))
        if isinstance(op, tile.Store):
            self.fixed |= {(op.moved, t) for t in range(len(op.moved.shape)) if t not in op.dims}

    def groups(self) -> list[_Group]:
        """Those with accesses."""
        found: dict[Axis, _Group] = {}
        for op, axis in self.rows:
            found.setdefault(self.find(axis), _Group()).rows.append(op)
        for axis in list(self.parent):
            if self.find(axis) in found:
                found[self.find(axis)].axes.append(axis)
        for axis in self.fixed:
            if self.find(axis) in found:
                found[self.find(axis)].fixed = True
        return list(found.values())

    # Plans -----------------------------------------------------------------------------------------------------------

    def plan(self, group: _Group) -> _Plan | None:
        """How to rotate a group; None where that cannot be, or is of no use."""
        if group.fixed or len({v.shape[d] for v, d in group.axes}) != 1:
            return None
        dim_of = dict(group.axes)
        if len(dim_of) != len(group.axes):
            return None  # one tile, along two of its dimensions
        vector = max(ALIGNMENT // max(1, op.mem.dtype.bits // 8) for op in group.rows)
        size = group.axes[0][0].shape[group.axes[0][1]]
        if size % vector or size < 2 * vector or not all(map(self._can_move, group.rows)):
            return None
        off = {op: place for op in group.rows if (place := self._place(op, vector)) is not None and not _is_zero(place)}
        leading = next((op for op in off if isinstance(op, tile.Store)), next(iter(off), None))
        if leading is None:
            return None
        aligned = frozenset(op for op in off if off[op] == off[leading])
        others = [op for op in group.rows if op not in aligned]
        if len(others) > len(aligned) or any(isinstance(op, tile.Store) for op in others):
            return None
        start, across = off[leading]
        bounded = frozenset(op for op in group.rows if self._is_bounded(op))
        shape, dim = leading.moved.shape, dim_of[leading.moved]
        plan = _Plan(group, start, dict(across), vector, aligned, bounded, shape, dim)
        return plan if self._is_known(plan) and (not across or self._can_spread(plan, dim_of)) else None

    def _is_known(self, plan: _Plan) -> bool:
        """Whether what s is made of is there for each of the group's operations."""
        atoms = {v for a in (plan.start, *plan.across.values()) for v in a.atoms()} & self.defined.keys()
        for op in {*plan.group.rows, *(v.op for v, _ in plan.group.axes if v.op is not None)}:
            around, when = self.places[op]
            if any(self.defined[v][0] not in around or self.defined[v][1] > when for v in atoms):
                return False
        return True

    def _is_bounded(self, op: Row) -> bool:
        return op.mask is not None and self.masks.says_bounds(op.mem, op.indices, op.dims, op.mask)

    def _can_move(self, op: Row) -> bool:
        """Whether each of its elements is where its index says: none from an index below 0."""
        assert isinstance(op.mem.type, TensorType)
        along = op.mem.type.contiguous_dim
        if along is None or op.mem.dtype.bits < 8 or op.mem.dtype.kind == "bool" or op.mem.type.align < ALIGNMENT:
            return False
        return self.facts.nonnegative(self.facts.affine(op.indices[along]))

    def _place(self, op: Row, vector: int) -> tuple[Affine, tuple[tuple[int, Affine], ...]] | None:
        """Where position 0 of the tile's rows is, in elements modulo `vector`: of the first row, and the steps of those
        dimensions of the tile that matter."""
        start, across = Affine(0), []
        for index, t, stride in zip(op.indices, op.dims, strides_of(self.facts, op.mem), strict=True):
            start += self.facts.affine(index) * stride
            step = self._modulo(stride, vector)
            if t is not None and op.moved.shape[t] > 1 and stride != Affine(1) and step != Affine(0):
                across.append((t, step))
        return self._modulo(start, vector), tuple(sorted(across, key=lambda pair: pair[0]))

    def _modulo(self, a: Affine, vector: int) -> Affine:
        """Less the terms that are multiples."""
        terms = {m: c % vector for m, c in a.terms.items() if self.facts.multiple(Affine(0, {m: c})) % vector}
        return Affine(a.const % vector, terms)

    def _can_spread(self, plan: _Plan, dim_of: dict[Value, int]) -> bool:
        """Whether each tile that has not all dimensions can be written again with them."""
        for v, d in plan.group.axes:
            if v.shape == plan.shape and d == plan.dim:
                continue
            if v.op is None or not (v.op.elementwise or isinstance(v.op, tile.Load)):
                return False
            if isinstance(v.op, tile.Load) and v.op.mem in self.written:
                return False
            for user in self.users.get(v, ()):
                spread = isinstance(user, tile.Expand) and user.result.shape == plan.shape
                if not (spread or user.elementwise or isinstance(user, tile.Load)):
                    return False
        return True


def _is_zero(place: tuple[Affine, tuple[tuple[int, Affine], ...]]) -> bool:
    return place == (Affine(0), ())


class _Rotation(Rewriter):
    """Writes the groups' operations again."""

    def __init__(self, kernel: Kernel, axes: _Axes, plans: list[_Plan]) -> None:
        super().__init__()
        self.axes = axes
        self.plan_of = {v: plan for plan in plans for v, _ in plan.group.axes}
        self.dim_of = {v: d for plan in plans for v, d in plan.group.axes}
        self.shifts: list[dict[_Plan, Value]] = []  # s by plan, of each block around the operation

    def block(self, block: Block) -> None:
        self.shifts.append({})
        super().block(block)
        self.shifts.pop()

    def visit(self, op: Op) -> tuple[Value, ...] | None:
        mine = next((v for v in self._tiles(op) if v in self.plan_of), None)
        if mine is None:
            return None
        plan, dim = self.plan_of[mine], self.dim_of[mine]
        if isinstance(op, Row):
            return self._access(op, plan)
        if isinstance(op, tile.Expand):
            if plan.across and op.result.shape == plan.shape and isinstance(op.a.type, TileType):
                moved = op.a in self.plan_of or isinstance(op.a.op, tile.Iota)
                return (self._spread(op.a, op.dim, plan),) if moved else None
            if isinstance(op.a.op, tile.Iota):
                op.a = self._index(op.a, plan, dim - (dim > op.dim))
            return None
        if op.elementwise:
            op.replace_operands(lambda v: self._index(v, plan, dim))
        return None

    def _tiles(self, op: Op) -> Iterator[Value]:
        return (v for v in (*op.results, *op.operands) if isinstance(v.type, TileType))

    def _index(self, v: Value, plan: _Plan, dim: int) -> Value:
        """The same of an elementwise operand along `dim` of its tile: elements' own indices are where they are now."""
        if not isinstance(v.op, tile.Iota) or v.op.dim != dim or (plan.across and v.shape != plan.shape):
            return v
        return self.b.value(RotatedIota(self._shift(plan), v.shape, dim), v.name)

    def _access(self, op: Row, plan: _Plan) -> tuple[Value, ...] | None:
        if plan.across and op.moved.shape != plan.shape:
            return None  # written again where it is expanded
        new = remake(op, lambda v: v)
        self._rotate(new, plan, op)
        self.b.emit(new)
        self.plan_of.update(dict.fromkeys(new.results, plan))
        self.dim_of.update(dict.fromkeys(new.results, self.dim_of[op.moved] if new.results else 0))
        return new.results

    def _rotate(self, op: Row, plan: _Plan, like: Row) -> None:
        op.shift = self._shift(plan)
        op.vector = plan.vector if like in plan.aligned else 1
        op.mask = None if like in plan.bounded else op.mask

    def _spread(self, v: Value, at: int, plan: _Plan) -> Value:
        """A tile with a further dimension `at`, along which it is the same but for how it is rotated."""
        op = v.op
        if not isinstance(v.type, TileType):
            return v
        shape = (*v.shape[:at], plan.shape[at], *v.shape[at:])
        if isinstance(op, tile.Splat):
            return self.b.value(tile.Splat(op.value, shape))
        if isinstance(op, tile.Iota):
            own = op.dim + (op.dim >= at)
            return self._index(self.b.value(tile.Iota(shape, own), v.name), plan, plan.dim)
        if isinstance(op, tile.Load):
            dims = tuple(t if t is None else t + (t >= at) for t in op.dims)
            mask = None if op.mask is None or op in plan.bounded else self._spread(op.mask, at, plan)
            new = tile.Load(op.mem, op.indices, shape, dims, mask=mask, evict=op.evict)
            self._rotate(new, plan, op)
            return self.b.emit(new).result
        assert op is not None
        return self.b.value(remake(op, lambda operand: self._spread(operand, at, plan)), v.name)

    # s ---------------------------------------------------------------------------------------------------------------

    def _shift(self, plan: _Plan) -> Value:
        """s, a number, or a tile of the plan's shape less the axis."""
        for scope in self.shifts:
            if plan in scope:
                return scope[plan]
        b = self.b
        total: Value = self._emit(plan.start, plan.vector)
        outer = (*plan.shape[: plan.dim], *plan.shape[plan.dim + 1 :])
        for t, stride in plan.across.items():
            index = b.value(tile.Iota(outer, t - (t > plan.dim)))
            part = b.value(arith.Mul(index, self._emit(stride, plan.vector)))
            total = b.value(arith.Add(part, total))
        shift = b.value(arith.FloorMod(total, b.constant(plan.vector)), "shift")
        return self.shifts[-1].setdefault(plan, shift)

    def _emit(self, a: Affine, vector: int) -> Value:
        """A number that is `a` modulo the vector, of small ones."""
        b = self.b
        total: Value = b.constant(a.const % vector)
        for monomial, factor in a.terms.items():
            product: Value = b.constant(factor % vector)
            for atom in monomial:
                product = b.mul(product, b.cast(b.floormod(self.get(atom), vector), i32))
            total = b.add(total, product)
        return total
