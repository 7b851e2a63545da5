"""Structured control flow, legal in both stages.

Loops and branches have results instead of mutable variables: a carried value enters as an argument of the body and
leaves by the terminator, `yield`. What a pass must know of them they say themselves (`Structured`): what decides how
they run, which values become which, and in which order their regions run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from minitile.ir.core import Block, Kernel, Op, Value, attr, operand, operands, region
from minitile.ir.diagnostics import LanguageError
from minitile.ir.effects import Access
from minitile.ir.relations import Relation, Same
from minitile.ir.types import BOOL, I32, Type


class Yield(Op, name="yield", terminator=True):
    values: tuple[Value, ...] = operands()


@dataclass(frozen=True, eq=False)
class Transfer:
    """Values that become others as control flows: those at the end of a region (`source`), or the `init` of a loop
    (`source` None), become each of `targets`, position by position: arguments of the region that is next, or results.
    """

    source: Block | None
    values: Sequence[Value]
    targets: tuple[Sequence[Value], ...]


class Structured(Op):
    """A loop or a branch.

    |         | decides            | transfers                                                | course           |
    |---------|--------------------|----------------------------------------------------------|------------------|
    | `for`   | lower, upper, step | init → carried, results; yield → carried, results        | body …           |
    | `while` | the condition      | init → before; condition → body, results; yield → before | before, body, …  |
    | `if`    | the condition      | yield of either → results                                | then, or else    |

    `repeats`: its regions may run more than once.
    """

    repeats: ClassVar[bool] = False

    def decides(self) -> list[Value]:
        """What decides which regions run, and how often."""
        raise NotImplementedError

    def transfers(self) -> list[Transfer]:
        """At most one for each source; in the order in which they first happen."""
        raise NotImplementedError

    def course(self, get: Callable[[Value], Any]) -> Iterator[tuple[Block, tuple[Any, ...]]]:
        """The regions as they run, with the numbers of the first arguments where no transfer gives them. `get` says
        what number a scalar has; the caller runs the region and makes its transfer before it goes on."""
        raise NotImplementedError

    def transfer(self, source: Block | None) -> Transfer:
        return next(t for t in self.transfers() if t.source is source)

    def given(self) -> set[Value]:
        """The arguments and results that transfers give: all but the number of a loop's turn."""
        return {v for t in self.transfers() for row in t.targets for v in row}

    def column(self, target: Value) -> tuple[list[Value], list[Value]]:
        """The arguments and results that are given what this one of them is given, and the values that are it in turn:
        none for the number of a loop's turn."""
        targets: dict[Value, None] = {}
        sources = []
        for t in self.transfers():
            for v, *taken in zip(t.values, *t.targets, strict=True):
                if target in taken:
                    targets.update(dict.fromkeys(taken))
                    sources.append(v)
        return list(targets), sources

    def relations(self) -> list[Relation]:
        return [
            Same(to, v, firm=True)
            for t in self.transfers()
            for row in t.targets
            for v, to in zip(t.values, row, strict=True)
        ]


class Loop(Structured):
    """A loop: `init` are the values that it starts with, its first operands but for its bounds."""

    repeats = True

    if TYPE_CHECKING:
        init: tuple[Value, ...]
        apart: bool


class For(Loop, name="for"):
    """`for iv in lower..upper step step carry(args = init)`; step is positive. Results: the values carried out.

    The body's arguments are iv (the type of lower) and one per carried value. A trip count of zero gives `init`.
    kind              "serial", "unroll" (fully, before lowering), "vectorized", "pipelined"
    stages            of a pipelined loop: the number of versions of a buffer
    order, stage_of   the user's own schedule: one int for each number that a `statement` of the body has
    teams             how many teams of threads may share the iterations, where a kernel has roles
    apart             iterations are tiles of a grid: in tensors one does not depend on what another leaves there
    dynamic           the block takes whichever tiles it is given, its own first: each of lower..upper is some block's
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
    apart: bool = attr(False)
    dynamic: bool = attr(False)
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.init)

    @property
    def iv(self) -> Value:
        return self.body.args[0]

    @property
    def carried(self) -> tuple[Value, ...]:
        return self.body.args[1:]

    def decides(self) -> list[Value]:
        return [self.lower, self.upper, self.step]

    def transfers(self) -> list[Transfer]:
        both = self.carried, self.results
        return [Transfer(None, self.init, both), Transfer(self.body, self.body.yielded, both)]

    def course(self, get: Callable[[Value], Any]) -> Iterator[tuple[Block, tuple[Any, ...]]]:
        for k in range(get(self.lower), get(self.upper), get(self.step)):
            yield self.body, (k,)

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


class While(Loop, name="while"):
    """`before` computes the condition from the carried values and ends in `condition`; `body` makes the next ones.

    Results: the values that `condition` passes on when it is false. `apart` as of `for`.
    """

    init: tuple[Value, ...] = operands()
    apart: bool = attr(False)
    before: Block = region()
    body: Block = region()

    def infer(self) -> tuple[Type, ...]:
        end = self.before.terminator
        return tuple(v.type for v in (end.values if isinstance(end, Condition) else self.init))

    def decides(self) -> list[Value]:
        return self.before.yielded[:1]

    def transfers(self) -> list[Transfer]:
        passed = self.before.yielded[1:]
        return [
            Transfer(None, self.init, (self.before.args,)),
            Transfer(self.before, passed, (self.body.args, self.results)),
            Transfer(self.body, self.body.yielded, (self.before.args,)),
        ]

    def course(self, get: Callable[[Value], Any]) -> Iterator[tuple[Block, tuple[Any, ...]]]:
        while True:
            yield self.before, ()
            if not get(self.before.yielded[0]):
                return
            yield self.body, ()

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


class If(Structured, name="if"):
    """Results: what the taken branch yields. The else block may be empty when there are no results."""

    condition: Value = operand()
    then: Block = region()
    orelse: Block = region()

    def infer(self) -> tuple[Type, ...]:
        end = self.then.terminator
        return tuple(v.type for v in end.values) if isinstance(end, Yield) else ()

    def decides(self) -> list[Value]:
        return [self.condition]

    def transfers(self) -> list[Transfer]:
        return [Transfer(region, region.yielded, (self.results,)) for region in self.regions]

    def course(self, get: Callable[[Value], Any]) -> Iterator[tuple[Block, tuple[Any, ...]]]:
        yield (self.then if get(self.condition) else self.orelse), ()

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

    Scalars in, memory out: the body has no results. `tile_vectorize` turns it into tile operations.
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


def find_launch(kernel: Kernel) -> Launch:
    """The kernel's launch. Raises LanguageError where it has none."""
    launch = next((op for op in kernel.body.ops if isinstance(op, Launch)), None)
    if launch is None:
        raise LanguageError(f"the kernel {kernel.name} has no `with T.Kernel(...)`")
    return launch
