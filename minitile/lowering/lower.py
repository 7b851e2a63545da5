"""Tile IR to thread IR: each tile value becomes one thread's registers of it.

    %s = add %a, %b : tile<128x64xf32, layout<…>>            (128 threads)
    →
    %s = add %a, %b : regs<64xf32>

`Lowering` walks the kernel once. Arithmetic is the same operation on registers; memory (memory.py) and exchange
between threads (exchange.py) have rules of their own; what a backend registers in `Rules.lower` comes first.
The launch region is inlined: block indices become special registers, and the grid is the host's business.

Whatever depends on the thread alone (coordinates, ownership) is written once, into the entry block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.launch_bounds import LaunchBounds
from minitile.analysis.masks import Masks
from minitile.ir.builder import Builder, exact
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import InternalError, IRError
from minitile.ir.ops import arith, control, thread, tile
from minitile.ir.types import BOOL, DType, TileType, Type, i32
from minitile.layout import Layout

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

Rule = Callable[["Lowering", Any], "Value | tuple[Value, ...] | None"]


def lower(kernel: Kernel, context: PassContext) -> None:
    Lowering(kernel, context).run()


def layout_of(value: Value) -> Layout:
    layout = value.type.layout  # type: ignore[attr-defined]
    if not isinstance(layout, Layout):
        raise IRError(
            f"%{value.name or '_'} has no layout yet", value.op.loc if value.op else None, "run infer_layouts"
        )
    return layout


def _is_mask(op: Op) -> bool:
    kind = op.results[0].type if op.elementwise else None
    return isinstance(kind, TileType) and kind.dtype.kind == "bool"


class SharingBuilder(Builder):
    """A builder that finds a pure operation again instead of writing it twice, in its block and those around it.

    The entry block counts as around every other: what is appended to it stands in front of what is being built.
    """

    def __init__(self, entry: Block) -> None:
        super().__init__(entry)
        self.entry = entry
        self.scopes: list[dict[Any, Value]] = [{}]

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        outer = self.scopes
        self.scopes = outer[:1] if block is self.entry else [*outer, {}]
        with super().inside(block):
            yield block
        self.scopes = outer

    def value(self, op: Op, name: str = "") -> Value:
        kind = type(op)
        operands = [getattr(op, field) for field, _ in kind.operand_fields]
        return self._shared(
            (kind, *operands, *map(exact, op.attributes().values())),
            lambda: super(SharingBuilder, self).value(op, name),
        )

    def constant(self, value: bool | int | float, dtype: DType = i32) -> Value:
        key = (exact(value), dtype)
        return self._shared(key, lambda: super(SharingBuilder, self).constant(value, dtype))

    def _shared(self, key: Any, make: Callable[[], Value]) -> Value:
        for scope in self.scopes:
            if key in scope:
                return scope[key]
        return self.scopes[-1].setdefault(key, make())


class Lowering:
    def __init__(self, kernel: Kernel, context: PassContext) -> None:
        from minitile.lowering.exchange import EXCHANGE_RULES
        from minitile.lowering.memory import MEMORY_RULES

        self.kernel = kernel
        self.target = context.target
        self.notes = context.notes
        self.gemm_plan = context.rules.gemm_plan
        self.facts = Facts(kernel)
        self.masks = Masks(self.facts)
        self.threads: int = kernel.threads
        self.rules: dict[type[Op], Rule] = {**RULES, **MEMORY_RULES, **EXCHANGE_RULES, **context.rules.lower}
        self.map: dict[Value, Value] = {}
        self.entry = Block()
        self.b = SharingBuilder(self.entry)
        self.once: dict[object, Any] = {}
        self.used = {v for op in kernel.walk() for v in op.operands}
        self.written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
        self.meeting: tuple[int, int | None] = (0, None)  # the barrier at which the threads at hand meet
        self.previous: Op | None = None  # the last operation with effects that has been lowered
        self.team: tuple[int, int] | None = None  # the first of the threads at hand, and how many, in a role by hand
        self.divergent = 0  # how many enclosing branches and loops differ between threads

    # the walk ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.ops(self.kernel.body)
        self.kernel.body = self.entry
        self.kernel.stage = "thread"

    def ops(self, block: Block) -> None:
        outer = self.b.why
        for op in block.ops:
            self.b.loc, self.b.why = op.loc, op.why
            self.op(op)
            self.previous = self.previous if op.pure else op
        self.b.why = outer

    def op(self, op: Op) -> None:
        rule = self.rules.get(type(op))
        if rule is not None:
            out = rule(self, op)
        elif _is_mask(op):
            out = self.by_runs(op)
        elif type(op).stage == "both" and not op.region_fields:
            out = self.same(op)
        else:
            raise InternalError(f"no lowering for {op.mnemonic} on {self.target}", op.loc)
        values = out if isinstance(out, tuple) else () if out is None else (out,)
        for old, new in zip(op.results, values, strict=True):
            new.name = new.name or old.name
            self.map[old] = new

    def same(self, op: Op, get: Callable[[Value], Value] | None = None) -> tuple[Value, ...]:
        """The same operation on the lowered operands."""
        get = get or self.get
        fields: dict[str, Any] = {name: getattr(op, name) for name, _ in op.attr_fields}
        for name, mark in op.operand_fields:
            v = getattr(op, name)
            fields[name] = tuple(map(get, v)) if mark == "operands" else None if v is None else get(v)
        new = type(op)(**fields)
        if op.pure and len(new.results) == 1:
            return (self.b.value(new),)
        return self.b.emit(new).results

    def by_runs(self, op: Op) -> tuple[Value, ...]:
        """A mask: one register for each run of registers that are alike."""
        layout = layout_of(op.result)
        first = layout.register_offsets()
        where = {at: reg for reg, at in enumerate(first)}
        for dim in range(layout.rank):
            width = self.masks.run(op.result, dim, layout.vector_width(dim, layout.num_regs))
            first = tuple((*at[:dim], at[dim] - at[dim] % width, *at[dim + 1 :]) for at in first)
        which = dict.fromkeys(where[at] for at in first)
        if len(which) == layout.num_regs:
            return self.same(op)

        def some(v: Value) -> Value:
            registers = self.get(v)
            if isinstance(registers.op, thread.Offsets):
                constants = tuple(registers.op.constants[n] for n in which)
                return self.b.value(thread.Offsets(registers.op.a, constants))
            return registers if thread.count_of(registers.type) == 1 else self.pick(registers, tuple(which))

        parts = self.same(op, some)
        number = {register: n for n, register in enumerate(which)}
        return (self.pick(parts[0], [number[where[at]] for at in first]),)

    def get(self, value: Value) -> Value:
        return self.map.get(value, value)

    def type(self, value: Value) -> Type:
        """The thread-stage type of a tile-stage value."""
        if isinstance(value.type, TileType):
            return thread.regs(layout_of(value).num_regs, value.dtype)
        return value.type

    def block(self, source: Block, emit_into: Block) -> Block:
        for a in source.args:
            self.map[a] = emit_into.add_arg(self.type(a), a.name)
        with self.b.inside(emit_into):
            self.ops(source)
        return emit_into

    # once for the whole kernel ---------------------------------------------------------------------------------------

    def in_entry(self, key: object, make: Callable[[Builder], Any]) -> Any:
        """What `make` emits into the entry block, remembered by `key`; for each role of its own."""
        key = self.team, key
        if key not in self.once:
            with self.b.inside(self.entry):
                self.once[key] = make(self.b)
        return self.once[key]

    def special(self, register: str, name: str = "") -> Value:
        def make(b: Builder) -> Value:
            value = b.emit(thread.Special(register)).result
            value.name = name
            return value

        value: Value = self.in_entry(("special", register), make)
        return value

    @contextmanager
    def role(self, team: tuple[int, int], meeting: tuple[int, int | None]) -> Iterator[None]:
        """What is lowered inside is done by the threads `team` (the first, how many), who meet at their own barrier."""
        outer = self.team, self.threads, self.meeting
        self.team, self.threads, self.meeting = team, team[1], meeting
        yield
        self.team, self.threads, self.meeting = outer

    @contextmanager
    def decided_by(self, values: list[Value]) -> Iterator[None]:
        """What is lowered inside runs as these say: where they differ between threads, not for all of them."""
        outer = self.divergent
        self.divergent += not all(map(self.facts.uniform, values))
        yield
        self.divergent = outer

    @property
    def tid(self) -> Value:
        """The thread's number among those at hand."""
        tid = self.special("tid.x", "tid")
        if self.team is None:
            return tid
        first, count = self.team
        aligned = first % count == 0 and count & (count - 1) == 0

        def make(b: Builder) -> Value:
            return b.floormod(tid, count) if aligned else b.min(b.max(b.sub(tid, first), 0), count - 1)

        rank: Value = self.in_entry("rank", make)
        return rank

    def thread_coord(self, layout: Layout, dim: int) -> Value | None:
        """The thread's base coordinate in a dimension of its tile (None: 0)."""
        return self.digits_value(tuple(d for d in layout.thread_digits() if d.dim == dim))

    def digits_value(self, digits: Sequence[Any]) -> Value | None:
        """Σ ((tid // divisor) % size) * stride, None when there are no digits."""
        if not digits:
            return None

        def make(b: Builder) -> Value:
            total: Value | None = None
            for divisor, size, _, stride in digits:
                part = b.mul(self.digit(b, divisor, size), stride)
                total = part if total is None else b.add(total, part)
            assert total is not None
            return total

        value: Value = self.in_entry(("digits", tuple((d[0], d[1], d[3]) for d in digits)), make)
        return value

    def owner(self, layout: Layout) -> Value | None:
        """Is this thread the one that stores its elements? None: every thread is."""
        return self.at_zero([(divisor, size) for divisor, size, _, _ in layout.replica_digits()])

    def at_zero(self, digits: Sequence[tuple[int, int]]) -> Value | None:
        """Are these digits (divisor, size) of the thread's number all 0? None: there are none."""
        if not digits:
            return None

        def make(b: Builder) -> Value:
            first, *rest = (b.compare("eq", self.digit(b, divisor, size), 0) for divisor, size in digits)
            return reduce(b.and_, rest, first)

        value: Value = self.in_entry(("zero", tuple(digits)), make)
        return value

    def digit(self, b: Builder, divisor: int, size: int) -> Value:
        """(tid // divisor) % size."""
        part = b.floordiv(self.tid, divisor)
        return part if divisor * size == self.threads else b.floormod(part, size)

    def first_thread(self) -> Value:
        value: Value = self.in_entry("first", lambda b: b.compare("eq", self.tid, 0))
        return value

    # polynomials -----------------------------------------------------------------------------------------------------

    def emit(self, a: Affine, dtype: Any = i32) -> Value:
        """A polynomial over tile-stage scalars, as instructions on `dtype` integers; what varies least comes first."""
        total: Value | None = None
        for monomial, factor in sorted(a.terms.items(), key=lambda t: self.depth(t[0])):
            product: Value | None = None
            for atom in sorted(monomial, key=self.facts.loop_depth):
                v = self.b.cast(self.get(atom), dtype)
                product = v if product is None else self.b.mul(product, v)
            assert product is not None
            product = self.b.mul(product, factor)
            total = product if total is None else self.b.add(total, product)
        if total is None:
            return self.b.constant(a.const, dtype)
        return self.b.add(total, a.const)

    def depth(self, monomial: tuple[Value, ...]) -> int:
        return max((self.facts.loop_depth(v) for v in monomial), default=0)

    def by_depth(self, a: Affine) -> dict[int, Affine]:
        """The polynomial without its constant, split by the loop depth at which the terms vary."""
        parts: dict[int, dict[tuple[Value, ...], int]] = {}
        for monomial, factor in a.terms.items():
            parts.setdefault(self.depth(monomial), {})[monomial] = factor
        return {depth: Affine(0, terms) for depth, terms in parts.items()}

    def holds_at_launch(self, a: Affine) -> bool:
        """Whether 32 bits hold a polynomial over dimensions: proved, or left to the launch (index_widths.py)."""
        conditions = self._bounds().fit_conditions(a)
        attrs = self.kernel.attrs
        if conditions is None or (conditions and (attrs.get("exact") or attrs.get("large"))):
            return False
        if conditions:
            attrs["fits"] = tuple(dict.fromkeys((*attrs.get("fits", ()), *conditions)))
        return True

    def _bounds(self) -> LaunchBounds:
        if "launch_bounds" not in self.once:
            self.once["launch_bounds"] = LaunchBounds(self.kernel, Facts(self.kernel, bounded=True))
        found: LaunchBounds = self.once["launch_bounds"]
        return found

    # registers -------------------------------------------------------------------------------------------------------

    def pick(self, value: Value, indices: Sequence[int]) -> Value:
        """Registers by number; nothing when that is all of them in order, or the value is one scalar for all."""
        if thread.count_of(value.type) == len(indices) and tuple(indices) == tuple(range(len(indices))):
            return value
        if len(indices) == thread.count_of(value.type) == 1:
            return value
        return self.b.emit(thread.Pick(value, tuple(indices))).result

    def concat(self, values: Sequence[Value]) -> Value:
        return values[0] if len(values) == 1 else self.b.emit(thread.Concat(tuple(values))).result


# Rules of control flow and of operations that move no data between threads --------------------------------------------


def _launch(low: Lowering, op: control.Launch) -> None:
    for axis, arg in zip("xyz", op.body.args, strict=True):
        low.map[arg] = low.special(f"ctaid.{axis}", arg.name)
    low.ops(op.body)


def _for(low: Lowering, op: control.For) -> tuple[Value, ...]:
    init = tuple(low.get(v) for v in op.init)
    with low.decided_by(op.decides()):
        body = low.block(op.body, Block())
    new = control.For(low.get(op.lower), low.get(op.upper), low.get(op.step), init, kind=op.kind, body=body)
    return low.b.emit(new).results


def _while(low: Lowering, op: control.While) -> tuple[Value, ...]:
    init = tuple(low.get(v) for v in op.init)
    with low.decided_by(op.decides()):
        before = low.block(op.before, Block())
        body = low.block(op.body, Block())
    return low.b.emit(control.While(init, before=before, body=body)).results


def _if(low: Lowering, op: control.If) -> tuple[Value, ...]:
    condition = low.get(op.condition)
    with low.decided_by(op.decides()):
        with low.facts.assuming(op.condition):
            then = low.block(op.then, Block())
        with low.facts.assuming(op.condition, holds=False):
            orelse = low.block(op.orelse, Block())
    return low.b.emit(control.If(condition, then=then, orelse=orelse)).results


def _nothing(low: Lowering, op: control.Statement) -> None:
    """Marks are for the passes before; where these are left out, nothing becomes of them."""


def _terminator(low: Lowering, op: control.Yield | control.Condition) -> None:
    low.same(op)


def _iota(low: Lowering, op: tile.Iota) -> Value:
    layout = layout_of(op.result)
    constants = tuple(at[op.dim] for at in layout.register_offsets())
    base = low.thread_coord(layout, op.dim)
    if base is None:
        base = low.b.constant(0)
    return low.b.emit(thread.Offsets(base, constants)).result


def _splat(low: Lowering, op: tile.Splat) -> Value:
    count = layout_of(op.result).num_regs
    value = low.get(op.value)
    return value if count == 1 else low.b.emit(thread.Pick(value, (0,) * count)).result


def _expand(low: Lowering, op: tile.Expand) -> Value:
    if not isinstance(op.a.type, TileType):
        return low.pick(low.get(op.a), (0,) * layout_of(op.result).num_regs)
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    wide = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[at[: op.dim] + at[op.dim + 1 :]] for at in wide])


def _permute(low: Lowering, op: tile.Permute) -> Value:
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    order = [op.order.index(d) for d in range(len(op.order))]
    out = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[tuple(at[d] for d in order)] for at in out])


def _deal(low: Lowering, op: tile.Deal) -> Value:
    """Registers of the same threads."""
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    out = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[(*at[: op.dim], op.of_source(at[op.dim]), *at[op.dim + 1 :])] for at in out])


def _repeat(low: Lowering, op: tile.Repeat) -> Value:
    """Registers of the same threads."""
    where = {at: reg for reg, at in enumerate(layout_of(op.a).register_offsets())}
    out = layout_of(op.result).register_offsets()
    return low.pick(low.get(op.a), [where[(*at[: op.dim], at[op.dim] // op.times, *at[op.dim + 1 :])] for at in out])


def _insert(low: Lowering, op: tile.Insert) -> Value:
    layout = layout_of(op.result)
    hit: Value | None = None
    for dim, index in enumerate(op.indices):
        base = low.thread_coord(layout, dim)
        here = low.get(index) if base is None else low.b.sub(low.get(index), base)
        constants = tuple(at[dim] for at in layout.register_offsets())
        zero = low.b.constant(0, here.dtype)
        columns = low.b.emit(thread.Offsets(zero, constants)).result
        same = low.b.value(arith.Cmp(columns, here, "eq"))
        hit = same if hit is None else low.b.value(arith.And(hit, same))
    value, old = low.get(op.value), low.get(op.a)
    return value if hit is None else low.b.select(hit, value, old)


def _sync(low: Lowering, op: tile.SyncThreads) -> None:
    id, threads = low.meeting
    low.b.emit(thread.Barrier(id=id, threads=threads))


def _thread_index(low: Lowering, op: tile.ThreadIndex) -> Value:
    return low.special("tid.x", "tid")


def _assume(low: Lowering, op: arith.Assume) -> None:
    low.b.emit(arith.Assume(low.get(op.condition)))


def _print(low: Lowering, op: tile.Print) -> None:
    """Scalars once per CTA, a tile once per element: its indices come before its value."""
    tiles = [v for v in op.values if isinstance(v.type, TileType)]
    if not tiles:
        _guarded(low, low.first_thread(), lambda: low.b.emit(thread.Printf(tuple(map(low.get, op.values)), op.text)))
        return
    for reg, at in enumerate(layout_of(tiles[0]).register_offsets()):
        layout = layout_of(tiles[0])
        inside = element_guard(low, layout, at)
        values: list[Value] = []
        for dim in range(layout.rank):
            base = low.thread_coord(layout, dim)
            values.append(low.b.constant(at[dim]) if base is None else low.b.add(base, at[dim]))
        for v in op.values:
            values.append(low.pick(low.get(v), (reg,)) if isinstance(v.type, TileType) else low.get(v))
        text = "[" + ", ".join(["%d"] * layout.rank) + "] " + op.text
        _guarded(low, inside, lambda: low.b.emit(thread.Printf(tuple(values), text)))  # noqa: B023


def element_guard(low: Lowering, layout: Layout, at: tuple[int, ...]) -> Value | None:
    """Does this thread own the element at offset `at` from its base, and is that inside the tile?"""
    guard = low.owner(layout)
    for dim, (extent, size) in enumerate(zip(layout.extents, layout.shape, strict=True)):
        base = low.thread_coord(layout, dim)
        if extent > size and base is not None:
            here = low.b.compare("lt", base, size - at[dim])
            guard = here if guard is None else low.b.and_(guard, here)
    return guard


def _guarded(low: Lowering, guard: Value | None, emit: Callable[[], object]) -> None:
    if guard is None:
        emit()
        return
    with low.b.when(guard):
        emit()


def _device_assert(low: Lowering, op: tile.DeviceAssert) -> None:
    condition = low.get(op.condition)
    count = thread.count_of(condition.type)
    if isinstance(op.condition.type, TileType):
        layout = layout_of(op.condition)
        holds: Value | None = None
        for reg, at in enumerate(layout.register_offsets()):
            one = low.pick(condition, (reg,)) if count > 1 else condition
            guard = element_guard(low, layout, at)
            if guard is not None:
                one = low.b.value(arith.Or(one, low.b.value(arith.Not(guard))))
            holds = one if holds is None else low.b.and_(holds, one)
        assert holds is not None
        condition = holds
    assert condition.type == BOOL

    def fail() -> None:
        text = f"assertion failed: {op.text} ({op.loc})\n" if op.loc else f"assertion failed: {op.text}\n"
        low.b.emit(thread.Printf((), text.replace("%", "%%")))
        low.b.emit(thread.Trap())

    _guarded(low, low.b.value(arith.Not(condition)), fail)


RULES: dict[type[Op], Rule] = {
    control.Launch: _launch,
    control.For: _for,
    control.While: _while,
    control.If: _if,
    control.Yield: _terminator,
    control.Condition: _terminator,
    control.Statement: _nothing,
    tile.Iota: _iota,
    tile.Splat: _splat,
    tile.Expand: _expand,
    tile.Permute: _permute,
    tile.Deal: _deal,
    tile.Repeat: _repeat,
    tile.Insert: _insert,
    tile.SyncThreads: _sync,
    tile.ThreadIndex: _thread_index,
    tile.Print: _print,
    tile.DeviceAssert: _device_assert,
    arith.Assume: _assume,
}
