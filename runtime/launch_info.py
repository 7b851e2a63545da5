"""A launch as plain data: what a compiled kernel wants from its caller and in which order its parameters lie.

`LaunchInfo` is all that the runtime is told of a kernel; it goes to JSON and back. What depends on the call is an
expression over the call's *slots*: one value for each pointer, run-time dimension and scalar, in the order that
`slots_of` gives. An expression is

    int                        itself
    ("pointer", "A")           address of tensor A
    ("dim", "M")               run-time dimension M
    ("scalar", "alpha")        scalar argument alpha
    (op, x, y)                 op one of add sub mul floordiv mod ceildiv min max gcd divides less same or
                               ("divides", x, 16) is true where 16 divides x; ("less", x, y) where x < y;
                               ("same", x, y) where x = y;
                               ("or", x, y) is x where that is not 0, else y

`compile_exprs` turns several at once into one Python function, so that a launch evaluates no tree; `expr_source` gives
one as Python text to callers that generate a function of their own.
Dtypes are the short names f64 f32 f16 bf16 e4m3 e5m2 e4m3fnuz e5m2fnuz i8…i64 u8…u64 bool.

Sources: PTX ISA 8.0, 5.4.2 (parameters are naturally aligned, or as `.align` says) and 5.5.8 (`.tensormap`: a tensor
map as a parameter is 128 bytes, aligned to 64).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .errors import short

Expr = int | tuple[Any, ...]
Slot = tuple[str, str]
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TensorArg:
    """A tensor that the caller passes; a dimension is an int or a run-time name. strides: None for row-major memory
    without gaps; otherwise those that it is to have, in elements, where names stand for run-time numbers ("dim" slots
    as those of the shape)."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    strides: tuple[int | str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """A number that the caller passes."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of the kernel's entry, as the kernel sees it: `dtype` is "pointer" or an element type's name;
    `source` the expression that gives its value."""

    name: str
    dtype: str
    source: Expr


@dataclass(frozen=True, slots=True)
class TensorMapParam:
    """A parameter that is a tensor map for TMA: `.param .align 64 .b8 name[128]`.

    The map is of the memory that the caller's `tensor` begins at, seen as `dims` elements of `dtype`. Everything is
    outermost first. strides: in elements, one for each dimension but the last, whose stride is 1. box: the elements
    that one copy moves, as many as dims. swizzle: of 16-byte chunks, in bytes: 0 (none), 32, 64 or 128. l2_promotion:
    bytes that L2 fetches at least: 0 (no more than asked), 64, 128 or 256. fill: what a load finds outside of the
    tensor, "zeros" or "nan". tf32: loads round f32 to tf32. See `tensor_map` for the limits.
    """

    name: str
    tensor: str
    dtype: str
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    l2_promotion: int = 128
    fill: str = "zeros"
    tf32: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Memory whose lines are to stay in L2: its address, its bytes, and the share of accesses for which that holds."""

    start: Expr
    size: Expr
    ratio: float


@dataclass(frozen=True, slots=True)
class LaunchInfo:
    """How to launch one compiled kernel.

    args: what the caller passes, in order. params: the entry's parameters, in order, each naturally aligned.
    grid: blocks in x, y, z; a zero makes the launch a no-op. block, cluster: in threads and in blocks.
    dynamic_shared: bytes. facts: expressions that this specialisation took for true ("divides" and "less").
    early: it may start before the primary grid, the one before it in the stream, has ended (programmatic stream
    serialization). cooperative: its blocks wait for each other, so that all of them must run at once. window: the
    launch's access policy window. written: the tensors that it writes, which must not overlap others (overlap.py).
    same: pairs of tensors that are one array, for which it was compiled. asserts: what the program's own checks say
    when they fail, by the "file:line" that they stand on.
    """

    entry: str
    args: tuple[TensorArg | ScalarArg, ...]
    params: tuple[Param | TensorMapParam, ...]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared: int = 0
    facts: tuple[Expr, ...] = ()
    early: bool = False
    cooperative: bool = False
    window: Window | None = None
    written: tuple[str, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    asserts: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> LaunchInfo:
        """The inverse of `to_json`, after a trip through JSON too."""
        return LaunchInfo(
            entry=data["entry"],
            args=tuple(
                TensorArg(a["name"], a["dtype"], tuple(a["shape"]), _tuples(a.get("strides")))
                if "shape" in a
                else ScalarArg(a["name"], a["dtype"])
                for a in data["args"]
            ),
            params=tuple(_parameter(p) for p in data["params"]),
            grid=_tuples(data["grid"]),
            block=_tuples(data["block"]),
            cluster=_tuples(data["cluster"]),
            dynamic_shared=data["dynamic_shared"],
            facts=_tuples(data["facts"]),
            early=data.get("early", False),
            cooperative=data.get("cooperative", False),
            window=Window(**{k: _tuples(v) for k, v in data["window"].items()}) if data.get("window") else None,
            written=_tuples(data.get("written", ())),
            same=_tuples(data.get("same", ())),
            asserts=_tuples(data.get("asserts", ())),
        )


def _parameter(data: Mapping[str, Any]) -> Param | TensorMapParam:
    kind = TensorMapParam if "box" in data else Param
    return kind(**{name: _tuples(value) for name, value in data.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def slots_of(args: Sequence[TensorArg | ScalarArg]) -> tuple[Slot, ...]:
    """What a call yields, in order: the pointers, the run-time dimensions as first met (strides behind all of the
    shapes), the scalars."""
    tensors = [a for a in args if isinstance(a, TensorArg)]
    return (
        *(("pointer", t.name) for t in tensors),
        *(("dim", d) for d in dims_of(args)),
        *(("scalar", a.name) for a in args if isinstance(a, ScalarArg)),
    )


def dims_of(args: Sequence[TensorArg | ScalarArg], strides: bool = True) -> tuple[str, ...]:
    """The run-time dimensions, as first met; behind them the run-time strides that are none of these."""
    tensors = [a for a in args if isinstance(a, TensorArg)]
    numbers = [d for t in tensors for d in t.shape]
    if strides:
        numbers += [s for t in tensors for s in t.strides or ()]
    return tuple(dict.fromkeys(d for d in numbers if isinstance(d, str)))


_OPERATIONS = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "floordiv": "({} // {})",
    "mod": "({} % {})",
    "ceildiv": "(-(-{} // {}))",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "gcd": "gcd({}, {})",
    "divides": "({} % {} == 0)",
    "less": "({} < {})",
    "same": "({} == {})",
    "or": "({} or {})",
}


def size_expr(of: int | str) -> Expr:
    """A size or a stride of a tensor, known or by name, as an expression."""
    return of if isinstance(of, int) else ("dim", of)


def compile_exprs(exprs: Sequence[Expr], slots: Sequence[Slot]) -> Callable[[Values], Values]:
    """One function from a call's slot values to the expressions' values.

    Raises ValueError for an expression with an unknown operation or slot.
    """
    names = {slot: f"v[{i}]" for i, slot in enumerate(slots)}
    source = "".join(f"{expr_source(e, names)}, " for e in exprs)
    return eval(f"lambda v: ({source})", dict(FUNCTIONS))  # type: ignore[no-any-return]


FUNCTIONS = {"min": min, "max": max, "gcd": math.gcd}  # what the text of an expression calls


def expr_source(expr: Expr, names: Mapping[Slot, str]) -> str:
    """An expression as Python text, over `names`' texts for the slots. Raises ValueError as `compile_exprs` does."""
    if type(expr) is int:
        return str(expr)
    if isinstance(expr, tuple) and expr in names:
        return names[expr]
    if isinstance(expr, tuple) and len(expr) == 3 and expr[0] in _OPERATIONS:
        operation, x, y = expr
        if operation == "divides" and type(y) is int and y.bit_count() == 1:
            return f"(not {expr_source(x, names)} & {y - 1})"  # cheaper for an address than its remainder
        return _OPERATIONS[operation].format(expr_source(x, names), expr_source(y, names))
    raise ValueError(f"{expr!r} is no expression over {tuple(names)}")


def mentioned(expr: Expr) -> set[Slot]:
    """The slots that an expression reads."""
    if not isinstance(expr, tuple):
        return set()
    if len(expr) == 2:
        return {(expr[0], expr[1])}
    return mentioned(expr[1]) | mentioned(expr[2])


def show_expr(expr: Expr) -> str:
    """An expression as a reader would write it: `ceildiv(M, 128)`, `A % 16 == 0`."""
    if not isinstance(expr, tuple):
        return str(expr)
    if len(expr) == 2:
        return f"address of {expr[1]}" if expr[0] == "pointer" else str(expr[1])
    left, right = show_expr(expr[1]), show_expr(expr[2])
    words: dict[str, str] = {
        "add": "({} + {})",
        "sub": "({} - {})",
        "mul": "{} * {}",
        "floordiv": "{} // {}",
        "mod": "{} % {}",
        "divides": "{} divisible by {}",
        "less": "{} < {}",
        "same": "{} = {}",
    }
    return words.get(expr[0], f"{expr[0]}({{}}, {{}})").format(left, right)


_FORMATS = {
    "pointer": "Q",
    "f64": "d",
    "f32": "f",
    "f16": "e",
    "bf16": "H",
    "e4m3": "B",
    "e5m2": "B",
    "e4m3fnuz": "B",
    "e5m2fnuz": "B",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "bool": "?",
}


def byte_size(dtype: str) -> int:
    """Bytes of one element (1 for a dtype that minitile has not)."""
    return struct.calcsize("<" + _FORMATS.get(dtype, "B"))


TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64


def param_layout(params: Sequence[Param | TensorMapParam], start: int = 0) -> tuple[str, tuple[int, ...]]:
    """The `struct` format of the packed parameters (little endian, explicit padding) and each one's byte offset,
    counted from `start` bytes before the first. A tensor map is packed from its 128 bytes."""
    form, offsets, at = "", [], start
    for param in params:
        if isinstance(param, TensorMapParam):
            code, size, alignment = f"{TENSOR_MAP_BYTES}s", TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT
        else:
            code = _FORMATS[param.dtype]
            size = alignment = struct.calcsize("<" + code)
        padding = -at % alignment
        form += f"{padding}x{code}" if padding else code
        offsets.append(at + padding)
        at += padding + size
    return form, tuple(offsets)


def fits(param: Param, value: Any) -> bool:
    """Whether the parameter's type has this number."""
    form, _ = param_layout([param])
    try:
        struct.pack("<" + form, bf16_bits(value) if param.dtype == "bf16" else value)
    except (struct.error, OverflowError):
        return False
    return True


def misfit(param: Param, value: Any) -> str:
    """What is said where it does not."""
    return f"{show_expr(param.source)} = {short(value)} does not fit the parameter {param.name} ({param.dtype})"


def bf16_bits(value: float) -> int:
    """The 16 bits of `value` rounded to nearest even, as a bf16."""
    bits = int.from_bytes(struct.pack("<f", value), "little")
    if value != value:
        return 0x7FC0
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) & 0xFFFF
