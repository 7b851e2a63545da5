"""Structured control flow, legal in both stages.

Loops and branches have results instead of mutable variables: a carried value enters as an argument of the body and
leaves by the terminator, `yield`.
"""

from __future__ import annotations

from minitile.ir.core import Block, Op, Value, attr, operand, operands, region
from minitile.ir.effects import Access
from minitile.ir.relations import Relation, Same
from minitile.ir.types import BOOL, I32, Type


class Yield(Op, name="yield", terminator=True):
    values: tuple[Value, ...] = operands()


class For(Op, name="for"):
    """`for iv in lower..upper step step carry(args = init)`; step is positive. Results: the values carried out.

    The body's arguments are iv (the type of lower) and one per carried value. A trip count of zero gives `init`.
    kind              "serial", "unroll" (fully, before lowering), "vectorized", "pipelined"
    stages            of a pipelined loop: the number of versions of a buffer
    order, stage_of   the user's own schedule: one int for each number that a `statement` of the body has
    teams             how many teams of threads may share the iterations, where a kernel has roles
    """

    lower: Value = operand()
    upper: Value = operand()
    step: Value = operand()
    init: tuple[Value, ...] = operands()
    kind: str = attr("serial")
    stages: int = attr(1)
    order: tuple[int, ...] | None = attr(None)
    stage_of: tuple[int, ...] | None = attr(None)
    teams: int = attr(1)
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.init)

    @property
    def iv(self) -> Value:
        return self.body.args[0]

    @property
    def carried(self) -> tuple[Value, ...]:
        return self.body.args[1:]

    def relations(self) -> list[Relation]:
        columns = zip(self.init, self.carried, self.body.yielded, self.results, strict=True)
        return [Same(carried, v, firm=True) for i, carried, y, r in columns for v in (i, y, r)]

    def verify(self) -> None:
        if self.upper.type != self.lower.type or self.step.type != self.lower.type:
            raise ValueError(f"bounds {self.lower.type}, {self.upper.type}, {self.step.type} are of different types")
        if self.lower.dtype.kind not in ("int", "uint"):
            raise ValueError(f"the bounds are {self.lower.type}, not integers")
        types = [v.type for v in self.init]
        _check_arguments(self.body, [self.lower.type, *types])
        _check_end(self.body, Yield, types)


class Statement(Op, name="statement", stage="tile"):
    """In the body of a loop with a schedule of the user's own: what comes next, up to the next mark, belongs to entry
    `number` of the loop's `order` and `stage_of`."""

    number: int = attr()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class While(Op, name="while"):
    """`before` computes the condition from the carried values and ends in `condition`; `body` makes the next ones.

    Results: the values that `condition` passes on when it is false.
    """

    init: tuple[Value, ...] = operands()
    before: Block = region()
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        end = self.before.terminator
        return tuple(v.type for v in (end.values if isinstance(end, Condition) else self.init))

    def relations(self) -> list[Relation]:
        entered = zip(self.before.args, self.init, self.body.yielded, strict=True)
        passed = zip(self.before.yielded[1:], self.body.args, self.results, strict=True)
        found = [(a, v) for a, i, y in entered for v in (i, y)] + [(c, v) for c, a, r in passed for v in (a, r)]
        return [Same(like, v, firm=True) for like, v in found]

    def verify(self) -> None:
        types = [v.type for v in self.init]
        passed = [r.type for r in self.results]
        _check_arguments(self.before, types)
        _check_end(self.before, Condition, passed)
        _check_arguments(self.body, passed)
        _check_end(self.body, Yield, types)


class Condition(Op, name="condition", terminator=True):
    """Ends `before`: go on with the body when `flag`, else leave the loop; either gets `values`."""

    flag: Value = operand()
    values: tuple[Value, ...] = operands()

    def verify(self) -> None:
        if self.flag.type != BOOL:
            raise ValueError(f"the condition is {self.flag.type}, not bool")


class If(Op, name="if"):
    """Results: what the taken branch yields. The else block may be empty when there are no results."""

    condition: Value = operand()
    then: Block = region()
    orelse: Block = region()

    def infer(self) -> tuple[Type, ...]:
        end = self.then.terminator
        return tuple(v.type for v in end.values) if isinstance(end, Yield) else ()

    def relations(self) -> list[Relation]:
        return [
            Same(r, v, firm=True)
            for b in (self.then, self.orelse)
            for r, v in zip(self.results, b.yielded, strict=True)
        ]

    def verify(self) -> None:
        if self.condition.type != BOOL:
            raise ValueError(f"the condition is {self.condition.type}, not bool")
        for block in (self.then, self.orelse):
            _check_arguments(block, [])
            _check_end(block, Yield, [r.type for r in self.results])


def _listed(types: list[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _check_arguments(block: Block, types: list[Type]) -> None:
    given = [a.type for a in block.args]
    if given != types:
        raise ValueError(f"the block's arguments are {_listed(given)}, not {_listed(types)}")


def _check_end(block: Block, kind: type[Yield | Condition], types: list[Type]) -> None:
    """The block ends in a terminator of this kind with values of these types; a yield of nothing may be left out."""
    end = block.terminator
    if not isinstance(end, Yield | Condition):
        if types or kind is Condition:
            raise ValueError(f"a block lacks its {kind.mnemonic} of {_listed(types)}")
        return
    if type(end) is not kind:
        raise ValueError(f"a block ends in {end.mnemonic}, not {kind.mnemonic}")
    given = [v.type for v in end.values]
    if given != types:
        raise ValueError(f"the block's {kind.mnemonic} has {_listed(given)}, not {_listed(types)}")


class Parallel(Op, name="parallel", stage="traced", uniform=True):
    """One body run for every index of a rectangle, in any order; the arguments are the i32 indices.

    Scalars in, memory out: the body has no results. `parallel_to_tiles` turns it into tile operations.
    """

    extents: tuple[int, ...] = attr()
    body: Block = region()

    def varies(self) -> bool:
        return True

    def verify(self) -> None:
        _check_arguments(self.body, [I32] * len(self.extents))
        _check_end(self.body, Yield, [])


class Launch(Op, name="launch", stage="tile"):
    """The grid: its region runs once per CTA with the block indices (three i32) as arguments. `threads` compute."""

    grid: tuple[Value, ...] = operands()
    threads: int = attr()
    cluster: tuple[int, ...] = attr((1, 1, 1))
    body: Block = region()

    def verify(self) -> None:
        if [v.type for v in self.grid] != [I32] * 3:
            raise ValueError(f"the grid is {_listed([v.type for v in self.grid])}, not three i32")
        _check_arguments(self.body, [I32] * 3)
        _check_end(self.body, Yield, [])
