"""Walking and rewriting: what most passes are made of.

`Rewriter` rebuilds a block in place, in one walk: each operation's operands are first replaced by what earlier rewrites
put in their stead; then `visit(op)` says what becomes of the operation: None keeps it, a Value or a tuple of Values
stands for its results (new operations have been emitted through `self.b`), `ERASE` drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from minitile.ir.builder import Builder, OpT
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control

ERASE: tuple[Value, ...] = ()


class Rewriter:
    def __init__(self) -> None:
        self.map: dict[Value, Value] = {}
        self.b = Builder(Block())

    def visit(self, op: Op) -> Value | tuple[Value, ...] | None:
        raise NotImplementedError

    def get(self, value: Value) -> Value:
        """What stands for a value of the old program."""
        return self.map.get(value, value)

    def run(self, kernel: Kernel) -> None:
        self.block(kernel.body)

    def block(self, block: Block) -> None:
        """Rewrite a block in place."""
        old, block.ops = block.ops, []
        with self.b.inside(block):
            for op in old:
                self.op(op)

    def op(self, op: Op) -> None:
        if self.map:
            op.replace_operands(self.get)
        b = self.b
        loc, why = b.loc, b.why
        b.loc, b.why = op.loc, op.why
        new = self.visit(op)
        b.loc, b.why = loc, why
        if new is None:
            self.b.block.ops.append(op)
            if op.region_fields:
                self.regions(op)
            return
        values = new if isinstance(new, tuple) else (new,)
        for old_value, value in zip(op.results, values, strict=False):
            value.name = value.name or old_value.name
            self.map[old_value] = value

    def regions(self, op: Op) -> None:
        """Rewrite the regions of an operation that stays."""
        for region in op.regions:
            self.block(region)


def remake(op: OpT, f: Callable[[Value], Value]) -> OpT:
    """A new operation of the same kind and attributes on the operands f(v); its result types are inferred anew."""
    fields: dict[str, object] = op.attributes()
    for name, mark in op.operand_fields:
        value = getattr(op, name)
        fields[name] = tuple([f(v) for v in value]) if mark == "operands" else value and f(value)
    new = type(op)(**fields)
    new.loc, new.why = op.loc, op.why
    return new


def recast(op: Op, kind: type[OpT], **changed: object) -> OpT:
    """The operation as one of another kind: each field of that which is not `changed` must be one of op's."""
    names = [name for name, _ in (*kind.operand_fields, *kind.attr_fields)]
    new = kind(**({name: getattr(op, name) for name in names if name not in changed} | changed))
    new.loc, new.why = op.loc, op.why
    return new


def replace_ops(block: Block, new: Callable[[Op], Op]) -> None:
    """Puts another operation in the place of each, in the regions within as well."""
    block.ops = [new(op) for op in block.ops]
    for op in block.ops:
        for region in op.regions:
            replace_ops(region, new)


def handing(op: OpT, f: Callable[[Value], Value], values: tuple[Value, ...], **regions: Block) -> OpT:
    """A loop, branch or terminator of this kind, attributes left at their defaults, that hands on `values`."""
    fields = {name: f(getattr(op, name)) if mark == "operand" else values for name, mark in op.operand_fields}
    return type(op)(**fields, **regions)


Copy = Callable[[list[Op], dict[Value, Value]], list[Op]]


def clones(ops: list[Op], map: dict[Value, Value]) -> list[Op]:
    return [clone(op, map) for op in ops]


def clone(op: Op, map: dict[Value, Value], inside: Copy = clones) -> Op:
    """A copy of an operation with its regions, operands taken through `map`, which learns the new results. `inside`
    copies the operations of the regions."""
    kind = type(op)
    fields: dict[str, object] = {}
    for name, mark in kind.operand_fields:
        value = getattr(op, name)
        if mark == "operands":
            fields[name] = tuple([map.get(v, v) for v in value])
        else:
            fields[name] = None if value is None else map.get(value, value)
    for name, _ in kind.attr_fields:
        fields[name] = getattr(op, name)
    for name in kind.region_fields:
        fields[name] = clone_block(getattr(op, name), map, inside)
    new = kind(**fields)
    new.loc = op.loc
    if op.why is not None:
        new.why = op.why
    new.set_results(tuple(r.type for r in op.results), tuple(r.name for r in op.results))
    map.update(zip(op.results, new.results, strict=True))
    return new


def clone_block(block: Block, map: dict[Value, Value], inside: Copy = clones) -> Block:
    new = Block()
    for a in block.args:
        map[a] = new.add_arg(a.type, a.name)
    new.ops = inside(block.ops, map)
    return new


def free_values(block: Block) -> list[Value]:
    """The values used in a block (and its regions) but defined outside, in order of first use."""
    defined: set[Value] = set(block.args)
    free: dict[Value, None] = {}

    def go(inner: Block) -> None:
        defined.update(inner.args)
        for op in inner.ops:
            for v in op.operands:
                if v not in defined:
                    free[v] = None
            for region in op.regions:
                go(region)
            defined.update(op.results)

    go(block)
    return list(free)


def made_inside(op: Op) -> set[Value]:
    """All values that are made in an operation's regions, their arguments among them."""
    made = {arg for inner in op.walk() for region in inner.regions for arg in region.args}
    return made.union(*(inner.results for region in op.regions for inner in region.walk()))


def made_by(op: Op, inside: Container[Op], ready: Callable[[Value], bool] = lambda v: False) -> list[Op] | None:
    """The pure operations among `inside` that give an operation its operands, in order, but for values that are
    `ready`; None where one that is not pure does: then it has to stay behind that."""
    found: dict[Op, None] = {}

    def go(op: Op) -> bool:
        for v in op.operands:
            maker = v.op
            if maker is None or maker in found or maker not in inside or ready(v):
                continue
            if not maker.pure or maker.uniform or maker.region_fields or not go(maker):
                return False
            found[maker] = None
        return True

    return list(found) if go(op) else None


def erase_unused(kernel: Kernel) -> None:
    """Delete pure operations without uses, in one backward walk."""

    def go(block: Block, live: set[Value]) -> None:
        kept: list[Op] = []
        for op in reversed(block.ops):
            if op.pure and not any(r in live for r in op.results):
                continue
            for region in reversed(op.regions):
                go(region, live)
            live.update(op.operands)
            kept.append(op)
        block.ops = kept[::-1]

    go(kernel.body, set())


def rewrite_loops(block: Block, rewrite: Callable[[control.For, Block], None]) -> None:
    """Call rewrite(loop, before) for every `for`, inner ones first; what it appends to `before` goes in front of it."""
    before = Block()
    for op in block.ops:
        for region in op.regions:
            rewrite_loops(region, rewrite)
        if isinstance(op, control.For):
            rewrite(op, before)
        before.ops.append(op)
    block.ops = before.ops
