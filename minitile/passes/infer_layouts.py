"""Gives every tile value a register layout and every shared buffer a shared layout.

    %c1 = gemm %As, %Bs, %c : tile<128x128xf32>
    →
    %c1 = gemm %As, %Bs, %c : tile<128x128xf32, layout<128x128; reg 2:1@1, 2:8@0, …>>

Values that an operation takes and gives in one layout form a group: elementwise operands and results, what a loop
carries. Three levels:

strict  an instruction demands it: the accumulator of a gemm. When two demands meet in one group, the group is cut
        at the last edge that joined them (never at a loop-carried one first), and a conversion stands there.
common  along uses between groups: a reduction's result has the quotient of its operand's layout, an expanded row
        vector likewise, a permuted tile the permuted layout.
free    what is left takes the layout that suits its memory accesses: coalesced, as wide as alignment proves, rows
        within a warp where a reduction runs along them.

Then conversions are placed wherever an operand's layout is not what its operation needs; `splat` and `iota` never
need one, they are written again for each use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LayoutConflictError
from minitile.ir.ops import control, tile
from minitile.ir.rewrite import clone
from minitile.ir.types import TensorType, TileType
from minitile.layout import Layout, LayoutError, blocked, row_blocked
from minitile.passes.affine import Affine, Facts
from minitile.passes.choose_shared import choose_shared_layouts
from minitile.passes.rules import Rules

if TYPE_CHECKING:
    from minitile.passes.manager import PassContext

FREE = (tile.Splat, tile.Iota)  # written again for each use, so that they join no groups


def infer_layouts(kernel: Kernel, context: PassContext) -> None:
    _one_copy_per_use(kernel.body)
    inference = _Inference(kernel, context.rules)
    inference.collect(kernel.body)
    inference.solve()
    inference.assign()
    _Converter(inference).block(kernel.body)
    choose_shared_layouts(kernel)


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


class _Group:
    """Values of one layout."""

    __slots__ = ("demands", "layout", "members", "reason")

    def __init__(self, member: Value) -> None:
        self.members = [member]
        self.layout: Layout | None = None
        self.reason: Op | None = None
        self.demands = 0


class _Inference:
    def __init__(self, kernel: Kernel, rules: Rules) -> None:
        self.kernel = kernel
        self.rules = rules
        self.facts = Facts(kernel)
        self.threads: int = kernel.attrs["threads"]
        self.group_of: dict[Value, _Group] = {}
        self.firm: list[tuple[Value, Value]] = []  # carried by loops: joined first
        self.equal: list[tuple[Value, Value]] = []
        self.anchors: list[tuple[Value, Layout, Op]] = []
        self.quotients: list[tuple[Value, int, Value]] = []  # (wide, dim, narrow)
        self.permutes: list[tuple[Value, tuple[int, ...], Value]] = []  # (source, order, result)
        self.uses: list[tuple[Value, tile.Load | tile.Store | tile.AtomicRmw]] = []
        self.reduced: set[tuple[Value, int]] = set()

    # collect -------------------------------------------------------------------------------------------------------

    def collect(self, block: Block) -> None:
        for value in block.args:
            self._new(value)
        for op in block.ops:
            for value in op.results:
                self._new(value)
            self._constrain(op)
            for region in op.regions:
                self.collect(region)

    def _new(self, value: Value) -> None:
        if is_tile(value):
            self.group_of[value] = _Group(value)

    def _constrain(self, op: Op) -> None:
        if isinstance(op, tile.Gemm):
            plan = self.rules.gemm_plan(op, self.threads)
            self.firm.append((op.c, op.results[0]))
            self.anchors.append((op.results[0], plan.c, op))
        elif isinstance(op, tile.Reduce):
            if is_tile(op.result):
                self.quotients.append((op.a, op.dim, op.result))
            self.reduced.add((op.a, op.dim))
        elif isinstance(op, tile.Expand):
            self.quotients.append((op.result, op.dim, op.a))
        elif isinstance(op, tile.Permute):
            self.permutes.append((op.a, op.order, op.result))
        elif isinstance(op, (control.For, control.While, control.If)):
            self.firm += [(a, b) for a, b in carried_pairs(op) if is_tile(a)]
        elif isinstance(op, (tile.Load, tile.Store, tile.AtomicRmw)):
            subject = memory_subject(op)
            if subject is not None:
                self.uses.append((subject, op))
                self.equal += [
                    (subject, v) for v in op.operands if v is not subject and v.shape == subject.shape and is_tile(v)
                ]
                if isinstance(op, tile.AtomicRmw) and is_tile(op.result):
                    self.equal.append((subject, op.result))
        elif isinstance(op, tile.Slice) or not op.results or not is_tile(op.results[0]):
            same = [v for v in op.operands if is_tile(v)] if op.pure else []
            self.equal += [(same[0], v) for v in same[1:] if v.shape == same[0].shape]
        else:
            self.equal += [(op.result, v) for v in op.operands if is_tile(v) and v.shape == op.result.shape]

    # solve ---------------------------------------------------------------------------------------------------------

    def solve(self) -> None:
        for value, layout, op in self.anchors:
            group = self.group_of[value]
            group.layout, group.reason = layout, op
        for a, b in self.firm:
            self._join(a, b, firm=True)
        for a, b in self.equal:
            self._join(a, b, firm=False)
        self._propagate()
        pending = {id(g): g for g in self.group_of.values() if g.layout is None}
        for group in sorted(pending.values(), key=lambda g: (-len(g.members[0].shape), -math.prod(g.members[0].shape))):
            if group.layout is None:
                group.layout = self._choose(group)
                self._propagate()

    def _join(self, a: Value, b: Value, firm: bool) -> None:
        ga, gb = self.group_of[a], self.group_of[b]
        if ga is gb or a.shape != b.shape:
            return
        if ga.layout is not None and gb.layout is not None and ga.layout != gb.layout and not firm:
            return  # two demands: a conversion will stand on this edge
        if len(ga.members) < len(gb.members):
            ga, gb = gb, ga
        if ga.layout is None:
            ga.layout, ga.reason = gb.layout, gb.reason
        for member in gb.members:
            self.group_of[member] = ga
        ga.members += gb.members

    def _propagate(self) -> None:
        changed = True
        while changed:
            changed = False
            for wide, dim, narrow in self.quotients:
                source = self.group_of[wide].layout
                target = self.group_of.get(narrow)
                if source is not None and target is not None and target.layout is None:
                    target.layout = source.quotient(dim)
                    changed = True
            for a, order, result in self.permutes:
                source, target = self.group_of[a].layout, self.group_of[result]
                if source is not None and target.layout is None:
                    target.layout, changed = source.permute_dims(order), True
                elif source is None and target.layout is not None:
                    self.group_of[a].layout = target.layout.permute_dims(inverse_order(order))
                    changed = True

    def _choose(self, group: _Group) -> Layout:
        """The free choice: from the widest memory access of the group, global before shared."""
        shape = group.members[0].shape
        members = set(group.members)
        order = tuple(reversed(range(len(shape))))
        vec, best = 1, (-1, -1)
        for value, op in self.uses:
            if value not in members:
                continue
            width, dim = self._width(op, value)
            rank = (int(isinstance(op.mem.type, TensorType)), width * value.dtype.bits)
            if dim is not None and rank > best:
                best, vec = rank, width
                order = (dim, *(d for d in reversed(range(len(shape))) if d != dim))
        while vec > 1 and vec * self.threads > math.prod(shape):
            vec //= 2
        reduces = any((m, order[0]) in self.reduced for m in members)
        return (row_blocked if reduces else blocked)(shape, self.threads, vec, order)

    def _width(self, op: tile.Load | tile.Store | tile.AtomicRmw, value: Value) -> tuple[int, int | None]:
        """How many elements of a tile row one access may take, and the tile dimension they run along."""
        dim = op.dims[-1] if op.dims else None
        if dim is None:
            return 1, None
        limit = max(1, 128 // op.mem.dtype.bits)
        if isinstance(op, tile.AtomicRmw) or (op.mask is not None and is_tile(op.mask)):
            limit = 1
        elements = math.gcd(limit, value.shape[dim])
        if not is_tile(op.indices[-1]):
            elements = math.gcd(elements, self.facts.multiple(self.facts.affine(op.indices[-1])))
        if isinstance(op.mem.type, TensorType) and len(op.mem.shape) > 1:
            elements = math.gcd(elements, self.facts.multiple(dimension(self.kernel, op.mem, -1, self.facts)))
        return elements, dim

    def assign(self) -> None:
        for value, group in self.group_of.items():
            assert group.layout is not None
            value.type = TileType(value.shape, value.dtype, group.layout)

    def layout(self, value: Value) -> Layout:
        layout = value.type.layout  # type: ignore[attr-defined]
        assert isinstance(layout, Layout)
        return layout


def dimension(kernel: Kernel, tensor: Value, d: int, facts: Facts) -> Affine:
    """The size of a tensor's dimension as an affine expression."""
    size = tensor.shape[d]
    return facts.affine(kernel.dims[size]) if isinstance(size, str) else Affine(size)


def inverse_order(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(d) for d in range(len(order)))


def memory_subject(op: tile.Load | tile.Store | tile.AtomicRmw) -> Value | None:
    """The tile whose layout decides an access: what is loaded or stored, else a tile of indices."""
    if isinstance(op, tile.Load):
        return op.result if is_tile(op.result) else None
    if is_tile(op.value):
        return op.value
    return next((v for v in op.operands if is_tile(v)), None)


def carried_pairs(op: control.For | control.While | control.If) -> list[tuple[Value, Value]]:
    """Values that are one value at different times: what goes in, the body's argument, what comes out."""
    if isinstance(op, control.If):
        ends = [b.terminator for b in (op.then, op.orelse)]
        return [(r, e.operands[i]) for e in ends if e is not None for i, r in enumerate(op.results)]
    if isinstance(op, control.For):
        body = op.body.terminator
        yielded = body.operands if body is not None else []
        columns = zip(op.init, op.carried, yielded, op.results, strict=True)
        return [(carried, v) for i, carried, y, r in columns for v in (i, y, r)]
    condition, body = op.before.terminator, op.body.terminator
    assert isinstance(condition, control.Condition)
    assert body is not None
    passed = zip(condition.values, op.body.args, op.results, strict=True)
    entered = zip(op.before.args, op.init, body.operands, strict=True)
    return [(a, v) for a, i, y in entered for v in (i, y)] + [(c, v) for c, a, r in passed for v in (a, r)]


class _Converter:
    """Puts conversions where an operand's layout is not the one that its operation needs."""

    def __init__(self, inference: _Inference) -> None:
        self.inference = inference
        self.layout = inference.layout
        self.rules = inference.rules
        self.ops: list[Op] = []

    def block(self, block: Block, wanted: tuple[Layout | None, ...] = ()) -> None:
        """`wanted`: the layouts in which the block's terminator hands on its values."""
        outer, self.ops = self.ops, []
        for op in block.ops:
            if op.terminator:
                values = op.values  # type: ignore[attr-defined]
                converted = tuple(self.convert(v, w, op) for v, w in zip(values, wanted, strict=True))
                op.values = converted  # type: ignore[attr-defined]
            else:
                self._operands(op)
                self._regions(op)
            self.ops.append(op)
        block.ops, self.ops = self.ops, outer

    def _regions(self, op: Op) -> None:
        if isinstance(op, control.For):
            self.block(op.body, self._all(op.carried))
        elif isinstance(op, control.If):
            self.block(op.then, self._all(op.results))
            self.block(op.orelse, self._all(op.results))
        elif isinstance(op, control.While):
            self.block(op.before, self._all(op.body.args))
            self.block(op.body, self._all(op.before.args))
        else:
            for region in op.regions:
                self.block(region)

    def _all(self, values: tuple[Value, ...]) -> tuple[Layout | None, ...]:
        return tuple(self.layout(v) if is_tile(v) else None for v in values)

    def convert(self, value: Value, wanted: Layout | None, op: Op) -> Value:
        if wanted is None or not is_tile(value) or self.layout(value) == wanted:
            return value
        if isinstance(value.owner, FREE):  # used only here
            value.type = TileType(value.shape, value.dtype, wanted)
            return value
        try:
            conversion = tile.ConvertLayout(value, wanted)
        except LayoutError as error:  # pragma: no cover - shapes agree by construction
            raise LayoutConflictError(str(error), op.loc) from error
        conversion.loc, conversion.result.name = op.loc, value.name
        self.ops.append(conversion)
        return conversion.result

    def _operands(self, op: Op) -> None:
        need: dict[Value, Layout | None] = {}
        if isinstance(op, control.For):
            op.init = tuple(self.convert(v, w, op) for v, w in zip(op.init, self._all(op.carried), strict=True))
            return
        if isinstance(op, control.While):
            op.init = tuple(self.convert(v, w, op) for v, w in zip(op.init, self._all(op.before.args), strict=True))
            return
        if isinstance(op, tile.Gemm):
            plan = self.rules.gemm_plan(op, self.inference.threads)
            if is_tile(op.a):
                op.a = self.convert(op.a, plan.a.permute_dims((1, 0)) if op.transpose_a else plan.a, op)
            if is_tile(op.b):
                op.b = self.convert(op.b, plan.b.permute_dims((1, 0)) if op.transpose_b else plan.b, op)
            op.c = self.convert(op.c, plan.c, op)
            op.results[0].type = TileType(op.c.shape, op.c.dtype, plan.c)
            return
        if isinstance(op, tile.Reduce):
            if is_tile(op.result):
                narrow = self.layout(op.a).quotient(op.dim)
                op.result.type = TileType(op.result.shape, op.result.dtype, narrow)
            return
        if isinstance(op, tile.Expand):
            need = {op.a: self.layout(op.result).quotient(op.dim)}
        elif isinstance(op, tile.Permute):
            need = {op.a: self.layout(op.result).permute_dims(inverse_order(op.order))}
        elif isinstance(op, (tile.Load, tile.Store, tile.AtomicRmw)):
            subject = memory_subject(op)
            if subject is not None:
                need = {v: self.layout(subject) for v in op.operands if is_tile(v)}
        elif isinstance(op, (tile.Slice, tile.Extract, tile.ConvertLayout)):
            return
        elif op.pure and is_tile(op.results[0]):
            need = {v: self.layout(op.result) for v in op.operands if is_tile(v)}
        op.replace_operands(lambda v: self.convert(v, need.get(v), op))
