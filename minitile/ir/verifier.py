"""Is this IR well-formed? `verify(kernel)` raises an IRError at the first thing that is not.

scopes      a value is defined once, before its uses, in a block that encloses them
shapes      operations agree with their `verify()` and, but for layouts, with their `infer()`; terminators end blocks
stages      `LEGAL`: which operations a kernel's stage may hold, and which types
uniformity  an operation that all threads must reach together is not under control flow that differs between them.
            What differs is computed from the operations that say so (`Op.varies`), through operands, carried values and
            the branches that produce values. In thread IR what comes out of memory or a shuffle counts as the same for
            all threads: reductions are made of these, and the tile stage has already been checked more strictly.
"""

from __future__ import annotations

import linecache
import math

from minitile.ir.attributes import wrong, wrong_of_fact, wrong_of_kernel
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import IRError, Location
from minitile.ir.limits import MAX_DIMS, MAX_ELEMENTS
from minitile.ir.printer import find_line, print_op
from minitile.ir.types import I32, I64, BufferType, FutureType, RegsType, TensorType, TileType, Type

# The stages of operations that a kernel of each stage may hold.
LEGAL = {
    "traced": {"both", "tile", "traced"},
    "tile": {"both", "tile"},
    "thread": {"both", "thread"},
}


def verify(kernel: Kernel) -> None:
    """Raise IRError at the first fault, showing the operation and its line in the source or else in the IR text."""
    if kernel.stage not in LEGAL:
        raise IRError(f"kernel {kernel.name}: there is no stage {kernel.stage!r}")
    for name, value in kernel.dims.items():
        if value.type not in (I32, I64):
            raise IRError(f"kernel {kernel.name}: the dimension {name} is {value.type}, not i32 or i64")
    for name, fact in kernel.facts.items():
        if message := wrong_of_fact(name, fact):
            raise IRError(f"kernel {kernel.name}: {message}")
    for name, attribute in kernel.attrs.items():
        if message := wrong_of_kernel(name, attribute):
            raise IRError(f"kernel {kernel.name}: {message}")
    if kernel.body.args:
        raise IRError(f"kernel {kernel.name}: the body has arguments")
    for value in kernel.params:
        if message := _too_large(value.type):
            raise IRError(f"kernel {kernel.name}: {message}")
    _Verifier(kernel).run()


def verify_scopes(kernel: Kernel) -> None:
    """Only that every use is dominated by its definition, for a fraction of the time. Raises IRError."""
    defined = {*kernel.params, *kernel.dims.values()}
    try:
        _scopes(kernel.body, defined)
    except _Undefined:
        verify(kernel)  # says what is wrong, and where
        raise


class _Undefined(IRError):
    """A value that is used where it is not visible."""


def _scopes(block: Block, visible: set[Value]) -> None:
    mine = [*block.args]
    visible.update(mine)
    for op in block.ops:
        pick = op.pick_operands
        if not visible.issuperset(op.operands if pick is None else pick(op)):
            raise _Undefined(f"{op.mnemonic} uses what is not visible", op.loc)
        if op.region_fields:
            for region in op.regions:
                _scopes(region, visible)
        results = op.results
        if results:
            mine += results
            visible.update(results)
    visible.difference_update(mine)


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.defined: set[Value] = set()
        self.visible: set[Value] = set()
        self.varying: set[Value] = set()

    def run(self) -> None:
        for value in (*self.kernel.params, *self.kernel.dims.values()):
            if value in self.defined:
                raise IRError(f"kernel {self.kernel.name}: %{value.name} is declared twice")
            self.define(value)
        self.block(self.kernel.body)
        while self.spread(self.kernel.body):
            pass
        self.uniform(self.kernel.body, None)

    def error(self, message: str, op: Op) -> IRError:
        text = print_op(op).partition("\n")[0]
        loc = op.loc or self.place(op)
        return IRError(f"{message}\n    {text if len(text) <= 200 else text[:200] + '…'}", loc)

    def place(self, op: Op) -> Location:
        """The operation's line in the IR's text."""
        text, line = find_line(self.kernel, op)
        file = f"<{self.kernel.stage} IR of {self.kernel.name}>"
        lines = text.splitlines(keepends=True)
        linecache.cache[file] = (len(text), None, lines, file)
        shown = lines[line - 1].rstrip("\n")
        return Location(file, line, len(shown) - len(shown.lstrip()), len(shown))

    # Scopes, shapes, stages -----------------------------------------------------------------------------------------

    def define(self, value: Value) -> None:
        self.defined.add(value)
        self.visible.add(value)

    def block(self, block: Block) -> None:
        outer, self.visible = self.visible, set(self.visible)
        for arg in block.args:
            self.define(arg)
        for op in block.ops:
            self.op(op)
            if op.terminator and op is not block.ops[-1]:
                raise self.error(f"{op.mnemonic} is not the last operation of its block", op)
        self.visible = outer

    def op(self, op: Op) -> None:
        if op.stage not in LEGAL[self.kernel.stage]:
            raise self.error(f"{op.mnemonic} has no place in {self.kernel.stage} IR", op)
        for value in op.operands:
            if value not in self.visible:
                fault = "is not visible here" if value in self.defined else "is used before it is defined"
                raise self.error(f"%{value.name or '_'} {fault}", op)
        for number, block in enumerate(op.regions):
            if any(arg in self.defined or arg.owner is not block for arg in block.args):
                raise self.error(f"the arguments of block {number} belong to another block as well", op)
            self.block(block)
        self.results(op)
        for name, value in op.attributes().items():
            if message := wrong(type(op), name, value):
                raise self.error(message, op)
        try:
            op.verify()
        except ValueError as e:
            raise self.error(str(e), op) from e

    def results(self, op: Op) -> None:
        try:
            inferred = op.infer()
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
            raise self.error(f"malformed {op.mnemonic}: {e}", op) from e
        if [_bare(t) for t in inferred] != [_bare(r.type) for r in op.results]:
            wanted = ", ".join(map(str, inferred)) or "nothing"
            raise self.error(f"the results of {op.mnemonic} should be {wanted}", op)
        for value in op.results:
            if value in self.defined or value.owner is not op:
                raise self.error(f"%{value.name or '_'} is defined twice", op)
            if not _fits(value.type, self.kernel.stage):
                raise self.error(f"a value of type {value.type} has no place in {self.kernel.stage} IR", op)
            if message := _too_large(value.type):
                raise self.error(message, op)
            self.define(value)

    # Uniformity -----------------------------------------------------------------------------------------------------

    def spread(self, block: Block) -> bool:
        """One walk that marks values which differ between threads; True when it has found new ones."""
        before = len(self.varying)
        for op in block.ops:
            for inner in op.regions:
                self.spread(inner)
            if op.region_fields:
                self.spread_regions(op)
            elif op.varies() or self.passes_on(op):
                self.varying.update(op.results)
        return len(self.varying) > before

    def passes_on(self, op: Op) -> bool:
        """Do results differ when operands do? In thread IR that is said of arithmetic alone."""
        arithmetic = op.pure and op.stage == "both"
        return (arithmetic or self.kernel.stage != "thread") and not self.varying.isdisjoint(op.operands)

    def spread_regions(self, op: Op) -> None:
        """Carried values, counted from the last one: initial value, argument, what is yielded, result."""
        ends = [b.terminator for b in op.regions if b.terminator is not None]
        to = [op.results, *(b.args for b in op.regions)]
        differs = op.varies() or self.diverges(op)
        for place in range(1, max(map(len, to)) + 1):
            row = [column[-place] for column in to if len(column) >= place]
            sources = [*row, *(column[-place] for column in map(_listed, [op, *ends]) if len(column) >= place)]
            if differs or not self.varying.isdisjoint(sources):
                self.varying.update(row)

    def diverges(self, op: Op) -> bool:
        """Do threads differ in whether, or how often, they run the regions of `op`?"""
        deciding = [op, *(b.terminator for b in op.regions if b.terminator is not None)]
        return any(
            getattr(o, name) in self.varying for o in deciding for name, mark in o.operand_fields if mark == "operand"
        )

    def uniform(self, block: Block, cause: Op | None) -> None:
        """`cause` is the control flow around the block on which threads differ."""
        for op in block.ops:
            whole = op.uniform or any(isinstance(v.type, TileType) for v in (*op.operands, *op.results))
            if _may_be_skipped(cause):
                whole = not (op.pure or op.terminator or op.mnemonic == "await")
            if cause is not None and whole:
                where = f" at {cause.loc}" if cause.loc is not None else ""
                raise self.error(
                    f"all threads must reach {op.mnemonic} together, but the {cause.mnemonic}{where} around it "
                    "is not the same for all of them",
                    op,
                )
            apart = op.region_fields and not op.by_role and (op.varies() or self.diverges(op))
            inside = op if apart else cause
            for inner in op.regions:
                self.uniform(inner, inside)


def _name(op: Op | None) -> str:
    return "" if op is None else op.mnemonic


def _may_be_skipped(cause: Op | None) -> bool:
    """Whether the branch is a shortcut of some warps, around which others may come along (warp.SomeInWarp)."""
    return cause is not None and cause.mnemonic == "if" and _name(cause.operands[0].op) == "some_in_warp"


def _listed(op: Op) -> list[Value]:
    """The operands that are given as lists: initial values, yielded values."""
    return [v for name, mark in op.operand_fields if mark == "operands" for v in getattr(op, name)]


def _bare(t: Type) -> Type:
    """The type without layouts."""
    if isinstance(t, TileType):
        return TileType(t.shape, t.dtype)
    return FutureType(_bare(t.of)) if isinstance(t, FutureType) else t


def _too_large(t: Type) -> str:
    """What of a type is over the limits; empty where nothing is. A tensor's sizes are the launch's matter."""
    shape = tuple(getattr(t, "shape", ()))
    if len(shape) > MAX_DIMS:
        return f"a shape of {len(shape)} dimensions; there may be {MAX_DIMS}"
    sizes = [size for size in shape if isinstance(size, int)]
    if isinstance(t, TensorType):
        if t.strides is not None and len(t.strides) != len(shape):
            return f"{t} has {len(shape)} dimensions, and {len(t.strides)} strides"
        return f"the sizes of {t} are below 2^63" if any(not 0 <= size < 1 << 63 for size in sizes) else ""
    count = math.prod(sizes) if shape else getattr(t, "count", 1)
    return f"{count} elements; there may be {MAX_ELEMENTS}" if count > MAX_ELEMENTS else ""


def _fits(t: Type, stage: str) -> bool:
    if isinstance(t, FutureType):
        return _fits(t.of, stage)
    if isinstance(t, BufferType):
        return t.space != "fragment" or stage == "traced"
    if isinstance(t, TileType):
        return stage != "thread"
    return not isinstance(t, RegsType) or stage == "thread"
