"""What lowering rules write against: the walk over the kernel, the builder of thread IR, and what a rule asks.

`Lowering` walks the kernel once and looks each operation up in a table of rules (lower.py puts it together, a backend's
come first). A rule gets the `Lowering` and the operation, emits through `b`, and returns the values of the results.

Whatever depends on the thread alone (coordinates, ownership) is written once, into the entry block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.launch_bounds import LaunchBounds
from minitile.analysis.masks import Masks
from minitile.hardware import Target
from minitile.ir.builder import Builder, exact
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import InternalError, IRError
from minitile.ir.ops import thread, tile
from minitile.ir.types import DType, TileType, Type, i32
from minitile.layout import Layout

Rule = Callable[["Lowering", Any], "Value | tuple[Value, ...] | None"]


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
    """The walk over one kernel. `rules` by operation; gemm_plan(op, threads): as in a backend's `Rules`; `notes` gets
    what was not done, and why."""

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        rules: Mapping[type[Op], Rule],
        gemm_plan: Callable[[tile.Gemm, int], Any],
        notes: list[str],
    ) -> None:
        self.kernel = kernel
        self.target = target
        self.notes = notes
        self.gemm_plan = gemm_plan
        self.facts = Facts(kernel)
        self.masks = Masks(self.facts)
        self.threads: int = kernel.threads
        self.rules = rules
        self.map: dict[Value, Value] = {}
        self.entry = Block()
        self.b = SharingBuilder(self.entry)
        self.once: dict[object, Any] = {}
        self.used = {v for op in kernel.walk() for v in op.operands}
        self.written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
        self.meeting: tuple[int, int | None] = (0, None)  # the barrier at which the threads at hand meet
        self.previous: Op | None = None  # the last operation with effects that has been lowered
        self.team: tuple[int, int] | None = None  # the first of the threads at hand, and how many, in an explicit role
        self.divergent = 0  # how many enclosing branches and loops differ between threads

    # the walk ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.ops(self.kernel.body)
        self.kernel.body = self.entry
        self.kernel.stage = "thread"

    def ops(self, block: Block) -> None:
        outer = self.b.loc, self.b.why
        for op in block.ops:
            self.b.loc, self.b.why = op.loc, op.why
            self.op(op)
            self.previous = self.previous if op.pure else op
        self.b.loc, self.b.why = outer

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

    def tile_number(self) -> int:
        """A new number of a tile, for the parts that it is stored in."""
        number: int = self.once.get("tiles", 0) + 1
        self.once["tiles"] = number
        return number

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
