"""The language: `import minitile.language as T`.

Names and argument orders are TileLang's where TileLang has the thing; docs/tilelang.md lists them all. Inside a function
marked `@minitile.kernel` they build tile IR; dtypes double as casts: `T.float32(x)`.
"""

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

Cast = cast
Buffer = Tensor
