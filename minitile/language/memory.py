"""Tensors and buffers as a kernel sees them, and regions of them.

`A[i, j]` is a scalar load (`Memory.load`) except as a direct argument of copy, gemm, fill, atomics and reductions,
where it is a `Region`. A region has per memory dimension an offset and an extent:

    int     that many elements
    POINT   one element; the dimension is not a dimension of the tile
    WHOLE   all of a run-time dimension: the other side of the copy says how many

A region given by scalars only (`A[by * 128, k * 64]`) is a start: its extents are the other side's.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import arith, tile
from minitile.ir.types import SPACES, BufferType, DType, TensorType, dtype_of, i32, i64
from minitile.language.scalars import Expr, Scalar, assign_cast, constant_int, constant_value, is_scalar, operand_value
from minitile.language.tracing.context import Trace, current

FROM_THE_START = "indices count from the start only; write shape[d] - n"
POINT = None
WHOLE = -1
Extent = int | None
Dims = tuple[int | None, ...]


class Memory:
    """A tensor of the signature, or a buffer made by T.alloc_*. `shape` holds ints and, for run-time dimensions, staged
    scalars."""

    packed: DType | None = None  # int4 or uint4, two of which are in a byte (storage/packed.py)
    __hash__ = object.__hash__
    __array_ufunc__ = None  # NumPy scalars on the left defer to us

    def __init__(self, value: Value, trace: Trace) -> None:
        self.value = value
        self._launch = trace.launch
        self.shape: tuple[Any, ...] = tuple(
            Expr(trace.dims[d]) if isinstance(d, str) else d
            for d in value.type.shape  # type: ignore[attr-defined]
        )

    @property
    def dtype(self) -> DType:
        return dtype_of(self.value.type)

    @property
    def strides(self) -> tuple[Any, ...]:
        """In elements, of a tensor: ints and, for run-time values, staged scalars. Raises LanguageError for a buffer,
        whose layout the compiler chooses."""
        t = self.value.type
        if not isinstance(t, TensorType):
            raise current().error(f"{self.describe()} has no strides", "the compiler chooses how it lies")
        if t.strides is not None:
            dims = current().dims
            return tuple(Expr(dims[s]) if isinstance(s, str) else s for s in t.strides)
        found, step = [], 1
        for extent in reversed(self.shape):
            found.append(step)
            step = step * extent
        return tuple(reversed(found))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def data(self) -> Memory:
        """The memory itself: what TileLang's `T.Tensor(shape, dtype, x.data)` is given."""
        return self

    @property
    def space(self) -> str:
        """ "global", or that of a buffer."""
        t = self.value.type
        return t.space if isinstance(t, BufferType) else "global"

    @property
    def static_shape(self) -> tuple[int | str, ...]:
        """The shape with run-time dimensions by name."""
        t = self.value.type
        assert isinstance(t, (BufferType, TensorType))
        return t.shape

    def describe(self) -> str:
        shape = "×".join(map(str, self.static_shape))
        kind = SPACES.get(self.space, "tensor")
        return f"the {kind} {self.value.name or '(unnamed)'} ({shape} {self.dtype})"

    def __repr__(self) -> str:
        return f"<{self.describe()[4:]}>"

    def check_usable(self) -> None:
        """A buffer lives in its Kernel block only."""
        trace = current()
        if trace.launch is None:
            if self.space == "global":
                raise trace.error(
                    f"{self.describe()} is accessed outside T.Kernel", "memory is accessed inside `with T.Kernel(…)`"
                )
            raise trace.error(f"{self.describe()} is used outside the T.Kernel block that it was allocated in")
        if self.space != "global" and self._launch is not trace.launch:
            raise trace.error(f"{self.describe()} is used outside the T.Kernel block that it was allocated in")

    def indices(self, index: Any) -> tuple[Value, ...]:
        """The scalar indices of one element."""
        items = index if isinstance(index, tuple) else (index,)
        self.check_usable()
        if any(isinstance(i, slice) or i is Ellipsis for i in items):
            raise current().error(
                f"a slice of {self.describe()} where one element is needed",
                "slices are regions: direct arguments of T.copy, T.gemm, T.fill, T.atomic_* and T.reduce_*",
            )
        if len(items) != self.ndim:
            raise TypeMismatchError(
                f"{self.describe()} has {self.ndim} dimensions and is indexed with {len(items)}", current().loc
            )
        return tuple(self.index(i, d) for d, i in enumerate(items))

    def index(self, i: Any, d: int, extent: int = 1) -> Value:
        """One index as an i32 or i64 value; a constant one must lie inside a buffer."""
        if not is_scalar(i):
            several = isinstance(i, (tuple, list))
            hint = f"it is {len(i)} values: take them apart, as in `a, b = …`" if several else ""
            raise TypeMismatchError(f"an index of {self.describe()} is {shown(i)}, not an integer", current().loc, hint)
        value = operand_value(i)
        if not value.dtype.is_int:
            raise TypeMismatchError(
                f"an index of {self.describe()} is {value.dtype}, not an integer", current().loc, "cast it to T.int32"
            )
        number = constant_of(value)
        size = self.static_shape[d]
        if number is not None:
            if number < 0 and self.space != "global":
                raise current().error(
                    f"index {number} in dimension {d} of {self.describe()} is negative",
                    FROM_THE_START,
                )
            if isinstance(size, int) and self.space != "global" and number + extent > size:
                last = "" if extent == 1 else f" … {number + extent - 1}"
                raise TypeMismatchError(
                    f"index {number}{last} is outside dimension {d} (size {size}) of {self.describe()}", current().loc
                )
        if value.dtype.name == "u64":  # the largest would be negative
            value = current().b.min(value, (1 << 63) - 1)
        wide = value.dtype.bits == 64 or value.dtype.name == "u32"
        return current().b.cast(value, i64 if wide else i32)

    def load(self, index: Any) -> Scalar:
        """The element, read here and now."""
        indices = self.indices(index)
        points = (None,) * self.ndim
        return Expr(current().b.emit(tile.Load(self.value, indices, shape=(), dims=points)).result)

    def store(self, index: Any, value: Any) -> None:
        indices = self.indices(index)
        what = f"a store to {self.describe()}"
        if not is_scalar(value):
            raise TypeMismatchError(
                f"{what} of {shown(value)}: one element takes a scalar",
                current().loc,
                "tiles are copied with T.copy, filled with T.fill",
            )
        points = (None,) * self.ndim
        current().b.emit(tile.Store(self.value, indices, assign_cast(value, self.dtype, what), dims=points))

    def region(self, index: Any) -> Region:
        """The region that an index with scalars and slices names; missing trailing indices mean all."""
        self.check_usable()
        items = list(index) if isinstance(index, tuple) else [index]
        dots = [at for at, i in enumerate(items) if i is Ellipsis]
        if dots:
            items[dots[0] : dots[0] + 1] = [slice(None)] * (self.ndim - len(items) + 1)
        if len(items) > self.ndim:
            raise TypeMismatchError(
                f"{self.describe()} has {self.ndim} dimensions and is indexed with {len(items)}", current().loc
            )
        start = len(items) == self.ndim and not any(isinstance(i, slice) for i in items)
        items += [slice(None)] * (self.ndim - len(items))
        offsets: list[Value] = []
        extents: list[Extent] = []
        for d, item in enumerate(items):
            offset, extent = self._span(item, d) if isinstance(item, slice) else (item, POINT)
            offsets.append(self.index(offset, d, 1 if extent is POINT or extent == WHOLE else extent))
            extents.append(extent)
        return Region(self, tuple(offsets), tuple(extents), start)

    def _span(self, s: slice, d: int) -> tuple[Any, int]:
        """Offset and extent of a slice."""
        if s.step is not None and s.step != 1:
            raise current().error(f"a slice of {self.describe()} with step {s.step!r}", "regions are contiguous")
        size = self.static_shape[d]
        low = 0 if s.start is None else s.start
        if s.stop is None and is_scalar(low) and (constant_value(low) or 0) < 0:  # Python's last -low elements
            raise current().error(
                f"a slice of {self.describe()} in dimension {d} from {constant_value(low)} on", FROM_THE_START
            )
        if s.stop is None:
            if isinstance(size, str):
                return low, WHOLE
            if isinstance(low, int):
                return low, size - low
        high = self.shape[d] if s.stop is None else s.stop
        if not is_scalar(low) or not is_scalar(high):
            raise TypeMismatchError(
                f"a slice of {self.describe()} has bounds {shown(low)}, {shown(high)}", current().loc
            )
        extent = difference(high, low)
        if extent is None:
            read: set[Op] = set()
            extent = difference(high, low, read)
            if extent is not None and not _nothing_between(read):
                extent, again = None, extent
                hint = (
                    "each bound reads its own start, which may have changed between: give it a name in front, as in "
                    f"p = t[i], and write p : p + {again}, or only the start"
                )
            else:
                hint = "tiles have constant shapes: write start : start + constant, or only the start"
        if extent is None:
            raise current().error(
                f"a slice of {self.describe()} in dimension {d} has an extent that is not known at compile time", hint
            )
        if extent <= 0:
            raise TypeMismatchError(
                f"a slice of {self.describe()} in dimension {d} has {extent} elements",
                current().loc,
                FROM_THE_START if (constant_value(high) or 0) < 0 else "write start : stop, of which the start is less",
            )
        return low, extent

    def whole(self) -> Region:
        self.check_usable()
        zero = current().b.constant(0)
        extents = tuple(WHOLE if isinstance(d, str) else d for d in self.static_shape)
        return Region(self, (zero,) * self.ndim, extents, False)

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeMismatchError(
            f"arithmetic on {self.describe()} as a whole",
            current().loc,
            "write a loop over its elements: for i, j in T.Parallel(…): …",
        )

    if not TYPE_CHECKING:  # a checker is to refuse them, too
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refuse
        __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __bool__(self) -> bool:
        raise TypeMismatchError(
            f"{self.describe()} as a condition", current().loc, "a condition is a scalar; index the element you mean"
        )

    def __iter__(self) -> NoReturn:
        raise TypeMismatchError(f"iteration over {self.describe()}", current().loc, "loop over its indices")

    def __len__(self) -> int:
        return constant_int(self.shape[0], f"the length of {self.describe()}")

    # Only code that is not interpreted (a library's) comes here; kernels and helpers go through the interpreter.
    def __getitem__(self, index: Any) -> Scalar:
        return self.load(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.store(index, value)


class View(Memory):
    """A shared buffer under another shape or dtype. An element of it is one of the buffer's; tile operations take all
    of it, as the value of a `view`."""

    def __init__(self, value: Value, trace: Trace, base: Memory) -> None:
        super().__init__(value, trace)
        self.base = base

    def element(self, index: Any) -> tuple[Value, ...]:
        """The buffer's indices of an element."""
        b, found = current().b, []
        number, *rest = self.indices(index)
        for i, size in zip(rest, self.shape[1:], strict=True):
            number = b.add(b.mul(number, size), i)
        for size in reversed(self.base.shape[1:]):
            found.append(b.floormod(number, size))
            number = b.floordiv(number, size)
        return (number, *reversed(found))

    def load(self, index: Any) -> Scalar:
        points = (None,) * self.base.ndim
        value = current().b.emit(tile.Load(self.base.value, self.element(index), shape=(), dims=points)).result
        return Expr(value if value.dtype is self.dtype else current().b.value(arith.Reinterpret(value, self.dtype)))

    def store(self, index: Any, value: Any) -> None:
        what = f"a store to {self.describe()}"
        if not is_scalar(value):
            raise TypeMismatchError(f"{what} of {shown(value)}: one element takes a scalar", current().loc)
        points, number = (None,) * self.base.ndim, assign_cast(value, self.dtype, what)
        if self.base.dtype is not self.dtype:
            number = current().b.value(arith.Reinterpret(number, self.base.dtype))
        current().b.emit(tile.Store(self.base.value, self.element(index), number, dims=points))

    def region(self, index: Any) -> Region:
        found = super().region(index)
        if found.start or found.shape != self.static_shape:
            raise current().error(
                f"a part of {self.describe()}, which is a view",
                "a tile operation takes all of it, or slices of the buffer",
            )
        return found


@dataclass(frozen=True, eq=False)
class Region:
    """A rectangle of a tensor or buffer; see the module's text."""

    memory: Memory
    offsets: tuple[Value, ...]
    extents: tuple[Extent, ...]
    start: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the tile; empty for a start."""
        return tuple(e for e in self.extents if e is not POINT)

    def describe(self) -> str:
        return f"a region of {self.memory.describe()}"

    def dims(self, rank: int) -> Dims:
        """Per memory dimension the dimension of a tile of `rank` that runs along it."""
        if self.start:
            first = self.memory.ndim - rank
            return tuple(d - first if d >= first else None for d in range(self.memory.ndim))
        found: list[int | None] = []
        count = 0
        skip = len(self.shape) - rank  # dimensions of extent 1 that the tile lacks
        for e in self.extents:
            if e is POINT or (e == 1 and skip > 0):
                skip -= e == 1
                found.append(None)
            else:
                found.append(count)
                count += 1
        return tuple(found)

    def static(self, what: str) -> tuple[int, ...]:
        """The shape of a region that must say it by itself."""
        if self.start and self.memory.ndim:
            raise current().error(
                f"{what}: {self.describe()} given by its start only", "say how much with slices: buffer[i : i + n, :]"
            )
        if WHOLE in self.extents:
            raise current().error(f"{what}: {self.describe()} with a run-time extent", "tiles have constant shapes")
        return self.shape


def as_region(x: Any, what: str, packed: bool = False) -> Region:
    """A buffer, a tensor or a region of one; TypeMismatchError for anything else. `packed`: elements may be so."""
    if isinstance(x, (Region, Memory)):
        region = x if isinstance(x, Region) else x.whole()
        if region.memory.packed is not None and not packed:
            raise TypeMismatchError(
                f"{what} is {region.memory.describe()}", current().loc, "T.copy it to a fragment of int8 first"
            )
        return region
    raise TypeMismatchError(f"{what} must be a tensor, a buffer or a region of one, not {shown(x)}", current().loc)


def first_of_run(x: Any, count: int, what: str) -> Region:
    """Where `count` neighbours along the last dimension begin: given by the first of them, or as a slice."""
    region = as_region(x, what)
    if not region.start and region.shape != (count,):
        raise current().error(
            f"{what} is {region.describe()} of shape {_times(region.shape)}",
            f"give the first of {count} neighbours, or a slice of {count} of them",
        )
    return region


def index_in_run(region: Region, n: int) -> tuple[Value, ...]:
    """The indices of the n-th neighbour."""
    *outer, last = region.offsets
    return (*outer, current().b.add(last, n))


def load_of_run(region: Region, n: int) -> Value:
    """The n-th neighbour, read here and now."""
    points: tuple[None, ...] = (None,) * region.memory.ndim
    load = tile.Load(region.memory.value, index_in_run(region, n), shape=(), dims=points)
    return current().b.emit(load).result


def between(src: Region, dst: Region, shape: tuple[int, ...]) -> dict[str, Any]:
    """The fields of an operation that copies a tile of this shape."""
    return {
        "src": src.memory.value,
        "src_indices": src.offsets,
        "src_dims": src.dims(len(shape)),
        "dst": dst.memory.value,
        "dst_indices": dst.offsets,
        "dst_dims": dst.dims(len(shape)),
        "shape": shape,
    }


def match_extents(src: Region, dst: Region, what: str) -> tuple[int, ...]:
    """The tile shape that both sides of a copy agree on."""
    if src.start and dst.start:
        raise current().error(
            f"{what}: both sides are given by their start only, so how much is not said",
            "use slices on one side: A[i : i + 64, j : j + 64]",
        )
    if src.start or dst.start:
        open_side, other = (src, dst) if src.start else (dst, src)
        shape = other.static(what)
        if len(shape) > open_side.memory.ndim:
            raise TypeMismatchError(
                f"{what}: a tile of {_times(shape)} does not go into {open_side.memory.describe()}", current().loc
            )
        return shape
    a, b = list(src.shape), list(dst.shape)
    if len(a) != len(b):
        a, b = [e for e in a if e != 1], [e for e in b if e != 1]
    if len(a) == len(b):
        pairs = [(y if x == WHOLE else x, x if y == WHOLE else y) for x, y in zip(a, b, strict=True)]
        if any(x == WHOLE for x, _ in pairs):
            raise current().error(f"{what}: neither side has a constant extent", "copy tile by tile")
        if all(x == y for x, y in pairs):
            return tuple(x for x, _ in pairs)
    raise TypeMismatchError(
        f"{what}: shapes differ: {_times(src.shape)} from {src.memory.describe()}, "
        f"{_times(dst.shape)} in {dst.memory.describe()}",
        current().loc,
    )


def _times(shape: tuple[int, ...]) -> str:
    return "×".join("?" if d == WHOLE else str(d) for d in shape) or "one element"


def difference(high: Any, low: Any, read: set[Op] | None = None) -> int | None:
    """high - low when that is a constant, whatever run-time values both contain. With a set for `read`: as if what is
    read twice from the same place were the same; the set gets the operations of which that is said."""
    terms: dict[Hashable, int] = {}
    total = _linear(high, 1, terms, read) + _linear(low, -1, terms, read)
    return None if any(terms.values()) else total


def _linear(x: Any, factor: int, terms: dict[Hashable, int], read: set[Op] | None) -> int:
    """Adds factor·x to a linear form: coefficients by value in `terms`, the constant part returned."""
    if not isinstance(x, Expr):
        return factor * constant_int(x, "a slice bound")
    return _linear_value(x.value, factor, terms, read)


def _linear_value(v: Value, factor: int, terms: dict[Hashable, int], read: set[Op] | None) -> int:
    number = constant_of(v)
    if number is not None:
        return factor * int(number)
    op = v.op
    if isinstance(op, arith.Add):
        return _linear_value(op.a, factor, terms, read) + _linear_value(op.b, factor, terms, read)
    if isinstance(op, arith.Sub):
        return _linear_value(op.a, factor, terms, read) + _linear_value(op.b, -factor, terms, read)
    if isinstance(op, arith.Mul):
        for a, b in ((op.a, op.b), (op.b, op.a)):
            scale = constant_of(b)
            if scale is not None:
                return _linear_value(a, factor * int(scale), terms, read)
    key = _computed(v, read)
    terms[key] = terms.get(key, 0) + factor
    return 0


def _computed(v: Value, read: set[Op] | None) -> Hashable:
    """How a value is computed, the same for equal computations."""
    op = v.op
    if op is None or op.regions or not (op.pure or (read is not None and _only_reads(op))):
        return v
    if read is not None and not op.pure:
        read.add(op)
    attributes = tuple(getattr(op, name) for name, _ in op.attr_fields)
    return type(op), tuple(_computed(x, read) for x in op.operands), attributes, v.index


def _only_reads(op: Op) -> bool:
    accesses = op.accesses()
    return bool(accesses) and not op.syncs() and not any(access.writes for access in accesses)


def _nothing_between(read: set[Op]) -> bool:
    """Whether these operations, of a bound that is being computed, have nothing but reading and computing behind the
    first of them: then all have read the same."""
    behind = dropwhile(lambda op: op not in read, current().b.block.ops)
    passed = [*takewhile(lambda op: op.pure or _only_reads(op), behind)]
    return read <= {*passed}


__all__ = ["POINT", "WHOLE", "Memory", "Region", "as_region", "difference", "match_extents"]
