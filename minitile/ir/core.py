"""Values, operations, blocks and kernels: what the IR is made of.

An operation is a dataclass whose fields are marked as `operand()`, `maybe()` (an optional operand), `operands()` (any
number), `attr()` or `region()`; printing, parsing, cloning, traversal and verification follow from these marks. What
the operation is like is said by class keywords:

    class Add(Op, name="add", pure=True): ...

`name`        the mnemonic in IR text
`stage`       "traced", "tile", "thread" or "both": where the verifier accepts it (its table LEGAL)
`pure`        no effects: may be merged, hoisted, deleted when unused
`terminator`  ends its block
`uniform`     must be reached by all threads of the CTA together (barriers, tile operations that exchange data)
`elementwise` an element of the result (a register) comes from those of the operands in its place; scalars go with all
`orders`      is there for order alone (a fence, a wait, a barrier): its slot `why` says where it comes from (origin.py)

`infer()` gives the result types from operands, attributes and regions; text may override them (layouts do).
`accesses()` says what memory the operation touches; the default for an operation that is not pure is the worst.
`syncs()` says how it orders the accesses of threads with one another.
`relations()` says which of its tiles share a layout.

There are no use lists: a pass walks the blocks in order, once, and writes new ones (`Rewriter` in rewrite.py).
Structured control flow only, so a region is one block.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from minitile.ir.diagnostics import IRError, Location
from minitile.ir.effects import UNKNOWN, Access, Footprint, Sync
from minitile.ir.origin import Origin
from minitile.ir.relations import Relation, Same
from minitile.ir.types import DType, Type

_serials = itertools.count()


class Value:
    """An SSA value. `owner` is the operation that defines it or the block whose argument it is; `name` is a hint from
    the user's source, not an identity; `serial` counts values as they are made, for orders that do not vary from run to
    run."""

    __slots__ = ("index", "name", "owner", "serial", "type")

    def __init__(self, type: Type, owner: Op | Block | None = None, index: int = 0, name: str = "") -> None:
        self.serial = next(_serials)
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name

    @property
    def op(self) -> Op | None:
        """The defining operation; None for a block argument."""
        return self.owner if isinstance(self.owner, Op) else None

    @property
    def dtype(self) -> DType:
        return self.type.dtype  # type: ignore[attr-defined,no-any-return]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a tile, tensor or buffer; () for scalars."""
        return getattr(self.type, "shape", ())

    def __repr__(self) -> str:
        return f"<%{self.name or '_'}: {self.type}>"


def operand() -> Any:
    return field(metadata={"mark": "operand"})


def maybe() -> Any:
    """An optional operand: a Value or None; given by keyword."""
    return field(default=None, kw_only=True, metadata={"mark": "maybe"})


def operands() -> Any:
    """Any number of operands: a tuple of Values."""
    return field(metadata={"mark": "operands"})


def maybe_operands() -> Any:
    """Any number of operands, given by keyword, and none where nothing is said."""
    return field(default=(), kw_only=True, metadata={"mark": "operands"})


def attr(default: Any = dataclasses.MISSING) -> Any:
    """A compile-time constant: int, float, str, bool, DType, Layout, None, or nested tuples of these. One
    with a default is given by keyword."""
    return field(default=default, kw_only=default is not dataclasses.MISSING, metadata={"mark": "attr"})


def region() -> Any:
    return field(default_factory=Block, kw_only=True, metadata={"mark": "region"})


_NO_REGIONS: list[Block] = []


def _regions(op: Op) -> list[Block]:
    return [getattr(op, name) for name in op.region_fields]


class Op:
    """Base of all operations."""

    mnemonic: ClassVar[str] = ""
    stage: ClassVar[str] = "both"
    pure: ClassVar[bool] = False
    terminator: ClassVar[bool] = False
    uniform: ClassVar[bool] = False
    calls: ClassVar[bool] = False  # a function, on some target
    elementwise: ClassVar[bool] = False
    orders: ClassVar[bool] = False
    needs: ClassVar[tuple[str, str]] = ("", "")  # its name in the language, and the feature that a target must have
    in_flight: bool = False  # the program itself waits for what it starts, or orders what accesses it
    shared_by: int | None = None  # of an allocation: how many consecutive threads have a part of their own each
    stored: ClassVar[str] = ""  # the operand whose registers it writes to memory, if it does
    operand_fields: ClassVar[tuple[tuple[str, str], ...]] = ()  # (name, mark)
    plain_operands: ClassVar[tuple[str, ...] | None] = None  # the names when all are plain single ones: the fast way
    pick_operands: ClassVar[attrgetter[tuple[Value, ...]] | None] = None  # those, where there are several
    attr_fields: ClassVar[tuple[tuple[str, Any], ...]] = ()  # (name, default)
    region_fields: ClassVar[tuple[str, ...]] = ()
    by_role: ClassVar[bool] = False  # each region is a role's: what all threads do together there, all of the role do
    registry: ClassVar[dict[str, type[Op]]] = {}

    loc: Location | None = None
    why: Origin | None = None
    results: tuple[Value, ...] = ()
    regions: list[Block] = _NO_REGIONS  # those of `region_fields`, where there are some

    def __init_subclass__(
        cls,
        name: str = "",
        stage: str | None = None,
        pure: bool | None = None,
        terminator: bool = False,
        uniform: bool | None = None,
        elementwise: bool | None = None,
        orders: bool | None = None,
    ) -> None:
        dataclass(eq=False, repr=False)(cls)
        marks = [(f.name, f.metadata.get("mark"), f.default) for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        cls.operand_fields = tuple((n, m) for n, m, _ in marks if m in ("operand", "maybe", "operands"))
        plain = all(mark == "operand" for _, mark in cls.operand_fields)
        cls.plain_operands = tuple(n for n, _ in cls.operand_fields) if plain else None
        several = plain and len(cls.operand_fields) > 1
        cls.pick_operands = attrgetter(*cls.plain_operands or ()) if several else None
        cls.attr_fields = tuple((n, d) for n, m, d in marks if m == "attr")
        cls.region_fields = tuple(n for n, m, _ in marks if m == "region")
        cls.regions = property(_regions) if cls.region_fields else _NO_REGIONS  # type: ignore[assignment]
        if stage is not None:
            cls.stage = stage
        if pure is not None:
            cls.pure = pure
        if uniform is not None:
            cls.uniform = uniform
        if elementwise is not None:
            cls.elementwise = elementwise
        if orders is not None:
            cls.orders = orders
        cls.terminator = terminator
        if name:
            # A module whose first import was interrupted is executed once more.
            known = Op.registry.get(name, cls)
            assert (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__), name
            cls.mnemonic = name
            Op.registry[name] = cls

    if TYPE_CHECKING:  # the marks' defaults and keyword-only fields are more than `dataclass_transform` can express

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __post_init__(self) -> None:
        self.set_results(self.infer())

    # What an operation says of itself ------------------------------------------------------------------------------

    def infer(self) -> tuple[Type, ...]:
        """The result types."""
        return ()

    def accesses(self) -> tuple[Access, ...]:
        """The memory accesses of this operation itself (not of its regions)."""
        return () if self.pure or self.region_fields or self.terminator else (UNKNOWN,)

    def footprints(self) -> tuple[Footprint, ...]:
        """Which elements of which memory it names, where it names some by indices that bounds are checked against."""
        return ()

    def factors(self) -> tuple[Value, ...]:
        """The buffers and tiles that it multiplies as matrices."""
        return ()

    def stands_for(self) -> tuple[Value, ...]:
        """The tokens that are complete where the one that it gives is, its last result."""
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        """How the operation orders what threads access."""
        return ()

    def varies(self) -> bool:
        """May results, or arguments of regions, differ between the threads of a CTA that have the same operands?"""
        return False

    def counts_threads(self) -> int | None:
        """Where the result is the number of the thread, or of its group of neighbours, in the CTA: how many have the
        same one. None: it is not."""
        return None

    def agrees(self) -> bool:
        """Are the results the same in all threads of a CTA, also where operands are not?"""
        return False

    def reconverges(self) -> bool:
        """Does a thread go on only when all of its warp have come here (PTX's `.sync`)? Not of what may go where its
        result is not needed."""
        return False

    def diverges(self) -> bool:
        """May the threads of a warp that come here together go on apart?"""
        return False

    def exchange_bytes(self) -> int | None:
        """Shared memory that threads may exchange data through, at most, once layouts are known; None: never any."""
        return None

    def meets_along(self) -> tuple[tuple[Value, int, bool], ...]:
        """Tiles, each with a dimension along which its elements come together, best in the lanes of one warp; and
        whether they do so in their order, neighbours first."""
        return ()

    def fixed_tiles(self) -> tuple[Value, ...]:
        """Tiles, operands or results, in the one layout that the target's instruction has for the operation: that of
        the backend's plan (`Rules.gemm_plan`). A gemm's factors have rules of their own."""
        return ()

    @property
    def grain(self) -> int:
        """Of what loads registers: how many come by one access, so that `part` can make some of them; else 0."""
        return 0

    def part(self, start: int, stop: int) -> Op:
        """The same operation for its registers from `start` up to `stop`, both at multiples of its grain."""
        raise NotImplementedError(self.mnemonic)

    def relations(self) -> list[Relation]:
        """How the layouts of the tiles that it takes and gives hang together."""
        return [Same(self.results[0], v) for v in self.operands] if self.results else []

    def verify(self) -> None:
        """Raise ValueError with the reason when operands or attributes are ill-formed."""

    # What follows from the marks -----------------------------------------------------------------------------------

    def set_results(self, types: tuple[Type, ...], names: tuple[str, ...] = ()) -> None:
        self.results = tuple([Value(t, self, i, names[i] if i < len(names) else "") for i, t in enumerate(types)])

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def operands(self) -> list[Value]:
        """All operands in field order."""
        if self.pick_operands is not None:
            return [*self.pick_operands(self)]
        if self.plain_operands is not None:
            return [getattr(self, name) for name in self.plain_operands] if self.plain_operands else []
        found: list[Value] = []
        for name, mark in self.operand_fields:
            value = getattr(self, name)
            if mark == "operands":
                found.extend(value)
            elif value is not None:
                found.append(value)
        return found

    def walk(self) -> Iterator[Op]:
        """The operation and all in its regions, outer before inner, in program order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def replace_operands(self, f: Callable[[Value], Value]) -> None:
        """Put f(v) for every operand v, in place."""
        if self.plain_operands is not None:
            for name in self.plain_operands:
                setattr(self, name, f(getattr(self, name)))
            return
        for name, mark in self.operand_fields:
            value = getattr(self, name)
            if mark == "operands":
                if value:
                    setattr(self, name, tuple([f(v) for v in value]))
            elif value is not None:
                setattr(self, name, f(value))

    def attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name, _ in self.attr_fields}

    def __repr__(self) -> str:
        from minitile.ir.printer import print_op

        return print_op(self)


class Block:
    """Arguments and operations in order; the last one is a terminator in every region but a kernel's body."""

    __slots__ = ("args", "ops")

    def __init__(self, args: tuple[Value, ...] = (), ops: list[Op] | None = None) -> None:
        self.args = args
        self.ops: list[Op] = [] if ops is None else ops
        for i, a in enumerate(args):
            a.owner, a.index = self, i

    def add_arg(self, type: Type, name: str = "") -> Value:
        value = Value(type, self, len(self.args), name)
        self.args = (*self.args, value)
        return value

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].terminator else None

    @property
    def yielded(self) -> list[Value]:
        """What the terminator hands on; one that hands on nothing may be left out."""
        end = self.terminator
        return end.operands if end is not None else []

    @property
    def before_end(self) -> list[Op]:
        """The operations but for the terminator, which may be left out."""
        return self.ops[: len(self.ops) - (self.terminator is not None)]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but a terminator."""
        return not self.ops or self.ops[0].terminator

    def walk(self) -> Iterator[Op]:
        """All operations, outer before inner, in program order."""
        left = [iter(self.ops)]
        while left:
            for op in left[-1]:
                yield op
                if op.region_fields:
                    left.extend([iter(region.ops) for region in reversed(op.regions)])
                    break
            else:
                left.pop()


@dataclass(eq=False)
class Kernel:
    """A kernel: parameters, then a body.

    `params` are the signature's tensors and scalars in order; `dims` maps the name of each run-time dimension to its
    value (i32, at least 0). `facts` are what the specialisation knows: for a dimension's name, the power of two that
    divides it. `stage` is "traced", "tile" or "thread". `attrs` holds what passes leave for the backend:
    threads, shared bytes.
    """

    name: str
    params: tuple[Value, ...]
    dims: dict[str, Value]
    body: Block
    facts: dict[str, int] = field(default_factory=dict)
    stage: str = "tile"
    attrs: dict[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[Op]:
        return self.body.walk()

    @property
    def threads(self) -> int:
        """The threads that compute. Raises IRError where the kernel does not say."""
        if "threads" not in self.attrs:
            raise IRError(f"kernel {self.name} does not say how many threads it has", hint="attrs {threads = 128}")
        return int(self.attrs["threads"])

    def __str__(self) -> str:
        from minitile.ir.printer import print_kernel

        return print_kernel(self)
