"""The language: `import minitile.language as T`.

Names and argument orders are TileLang's where TileLang has the thing; docs/tilelang.md lists them all. Inside a
function marked `@minitile.kernel` they build tile IR; dtypes double as casts: `T.float32(x)`.
"""

from typing import Any as _Any
from typing import TypeVar as _TypeVar

from minitile.ir.types import bf16 as bfloat16
from minitile.ir.types import bool_ as bool
from minitile.ir.types import e4m3 as float8_e4m3
from minitile.ir.types import e4m3 as float8_e4m3fn
from minitile.ir.types import e5m2 as float8_e5m2
from minitile.ir.types import f16 as float16
from minitile.ir.types import f32 as float32
from minitile.ir.types import f64 as float64
from minitile.ir.types import i8 as int8
from minitile.ir.types import i16 as int16
from minitile.ir.types import i32 as int32
from minitile.ir.types import i64 as int64
from minitile.ir.types import u8 as uint8
from minitile.ir.types import u16 as uint16
from minitile.ir.types import u32 as uint32
from minitile.ir.types import u64 as uint64
from minitile.language.expressions import Dim as dynamic
from minitile.language.expressions import Dim as symbolic
from minitile.language.fences import fence, fence_proxy_async, proxy_hint
from minitile.language.loops import Kernel, Parallel, Pipelined, serial, unroll, vectorized
from minitile.language.math import (
    Select,
    abs,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    ceildiv,
    clamp,
    cos,
    erf,
    exp,
    exp2,
    fabs,
    floor,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    isnan,
    log,
    log2,
    max,
    max_value,
    min,
    min_value,
    pow,
    reinterpret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sqrt,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)
from minitile.language.missing import missing as _missing
from minitile.language.signature import Tensor
from minitile.language.tiles import (
    GemmWarpPolicy,
    alloc_fragment,
    alloc_local,
    alloc_shared,
    alloc_var,
    annotate_layout,
    assume,
    atomic_add,
    atomic_and,
    atomic_exch,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    clear,
    copy,
    device_assert,
    fill,
    gemm,
    get_block_binding,
    get_thread_binding,
    print,
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_max,
    reduce_min,
    reduce_sum,
    sync_threads,
    use_swizzle,
)

_Function = _TypeVar("_Function")

Cast = cast
Buffer = Tensor


def macro(function: _Function) -> _Function:
    """Helpers need no mark: every function that a kernel calls is traced. Returns the function itself."""
    return function


def __getattr__(name: str) -> _Any:
    raise _missing(name)


__all__ = [
    "Buffer",
    "Cast",
    "GemmWarpPolicy",
    "Kernel",
    "Parallel",
    "Pipelined",
    "Select",
    "Tensor",
    "abs",
    "alloc_fragment",
    "alloc_local",
    "alloc_shared",
    "alloc_var",
    "annotate_layout",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "bfloat16",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bool",
    "cast",
    "ceil",
    "ceildiv",
    "clamp",
    "clear",
    "copy",
    "cos",
    "device_assert",
    "dynamic",
    "erf",
    "exp",
    "exp2",
    "fabs",
    "fence",
    "fence_proxy_async",
    "fill",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "floor",
    "floordiv",
    "floormod",
    "gemm",
    "get_block_binding",
    "get_thread_binding",
    "if_then_else",
    "infinity",
    "int8",
    "int16",
    "int32",
    "int64",
    "isnan",
    "log",
    "log2",
    "macro",
    "max",
    "max_value",
    "min",
    "min_value",
    "pow",
    "print",
    "proxy_hint",
    "reduce",
    "reduce_absmax",
    "reduce_abssum",
    "reduce_bitand",
    "reduce_bitor",
    "reduce_bitxor",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
    "reinterpret",
    "round",
    "rsqrt",
    "serial",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sqrt",
    "symbolic",
    "sync_threads",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unroll",
    "use_swizzle",
    "vectorized",
]
