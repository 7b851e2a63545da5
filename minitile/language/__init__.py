"""The language: `import minitile.language as T`.

Names and argument orders are TileLang's where TileLang has the thing; docs/tilelang.md lists them all. Inside a
function marked `@minitile.kernel` they build tile IR; dtypes double as casts: `T.float32(x)`.
"""

from typing import Any as _Any
from typing import TypeVar as _TypeVar

from minitile.ir.types import bf16 as bfloat16
from minitile.ir.types import bool_ as bool
from minitile.ir.types import e2m1 as float4_e2m1fn
from minitile.ir.types import e2m3 as float6_e2m3fn
from minitile.ir.types import e3m2 as float6_e3m2fn
from minitile.ir.types import e4m3 as float8_e4m3
from minitile.ir.types import e4m3 as float8_e4m3fn
from minitile.ir.types import e4m3fnuz as float8_e4m3fnuz
from minitile.ir.types import e5m2 as float8_e5m2
from minitile.ir.types import e5m2fnuz as float8_e5m2fnuz
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
from minitile.language.annotations import (
    annotate_l2_hit_ratio,
    annotate_layout,
    assume,
    device_assert,
    print,
    use_swizzle,
)
from minitile.language.atomics import (
    atomic_add,
    atomic_and,
    atomic_exch,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
)
from minitile.language.clusters import block_rank_in_cluster, cluster_sync, map_shared_rank
from minitile.language.explicit import (
    alloc_barrier,
    barrier_arrive,
    barrier_wait,
    dec_max_nreg,
    disable_warp_group_reg_alloc,
    inc_max_nreg,
    mbarrier_arrive,
    mbarrier_arrive_expect_tx,
    mbarrier_expect_tx,
    mbarrier_wait_parity,
    named_barrier_arrive,
    no_set_max_nreg,
    set_max_nreg,
    sync_threads,
    sync_warp,
    tma_copy,
    tma_store_arrive,
    tma_store_wait,
    wait_wgmma,
    warpgroup_arrive,
    warpgroup_commit_batch,
    warpgroup_fence_operand,
    warpgroup_wait,
    ws,
)
from minitile.language.fences import assume_disjoint, fence, fence_proxy_async, pdl_sync, pdl_trigger, proxy_hint
from minitile.language.gemms import GemmWarpPolicy, gemm, gemm_blockscaled, wgmma_gemm
from minitile.language.indices import (
    get_block_binding,
    get_block_bindings,
    get_thread_binding,
    get_thread_bindings,
    get_thread_extent,
    get_thread_extents,
)
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
from minitile.language.reducers import alloc_reducer, finalize_reducer, reducer_init, reducer_update
from minitile.language.reductions import (
    argmax,
    argmin,
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_max,
    reduce_min,
    reduce_sum,
)
from minitile.language.tiles import alloc_fragment, alloc_local, alloc_shared, alloc_var, clear, copy, fill
from minitile.language.tracing.expressions import Dim as dynamic
from minitile.language.tracing.expressions import Dim as symbolic
from minitile.language.tracing.loops import Kernel, Parallel, Persistent, Pipelined, serial, unroll, vectorized
from minitile.language.tracing.signature import Tensor
from minitile.language.warps import (
    get_lane_idx,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
    warp_reduce_bitand,
    warp_reduce_bitor,
    warp_reduce_max,
    warp_reduce_min,
    warp_reduce_sum,
)

_Function = _TypeVar("_Function")

Cast = cast
Buffer = Tensor


def macro(function: _Function) -> _Function:
    """Returns the function itself: helpers need no mark, since every function that a kernel calls is traced.

    Args:
        function: a Python function.

    Example:
        ```py
        @T.macro
        def squared(v):
            return v * v

        V[tx] = squared(V[tx])
        ```
    """
    return function


def __getattr__(name: str) -> _Any:
    raise _missing(name)


__all__ = [
    "Buffer",
    "Cast",
    "GemmWarpPolicy",
    "Kernel",
    "Parallel",
    "Persistent",
    "Pipelined",
    "Select",
    "Tensor",
    "abs",
    "alloc_barrier",
    "alloc_fragment",
    "alloc_local",
    "alloc_reducer",
    "alloc_shared",
    "alloc_var",
    "annotate_l2_hit_ratio",
    "annotate_layout",
    "argmax",
    "argmin",
    "assume",
    "assume_disjoint",
    "atomic_add",
    "atomic_and",
    "atomic_exch",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "barrier_arrive",
    "barrier_wait",
    "bfloat16",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "block_rank_in_cluster",
    "bool",
    "cast",
    "ceil",
    "ceildiv",
    "clamp",
    "clear",
    "cluster_sync",
    "copy",
    "cos",
    "dec_max_nreg",
    "device_assert",
    "disable_warp_group_reg_alloc",
    "dynamic",
    "erf",
    "exp",
    "exp2",
    "fabs",
    "fence",
    "fence_proxy_async",
    "fill",
    "finalize_reducer",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float16",
    "float32",
    "float64",
    "floor",
    "floordiv",
    "floormod",
    "gemm",
    "gemm_blockscaled",
    "get_block_binding",
    "get_block_bindings",
    "get_lane_idx",
    "get_thread_binding",
    "get_thread_bindings",
    "get_thread_extent",
    "get_thread_extents",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "if_then_else",
    "inc_max_nreg",
    "infinity",
    "int8",
    "int16",
    "int32",
    "int64",
    "isnan",
    "log",
    "log2",
    "macro",
    "map_shared_rank",
    "max",
    "max_value",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_expect_tx",
    "mbarrier_wait_parity",
    "min",
    "min_value",
    "named_barrier_arrive",
    "no_set_max_nreg",
    "pdl_sync",
    "pdl_trigger",
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
    "reducer_init",
    "reducer_update",
    "reinterpret",
    "round",
    "rsqrt",
    "serial",
    "set_max_nreg",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shift_left",
    "shift_right",
    "shuffle_elect",
    "sigmoid",
    "sin",
    "sqrt",
    "symbolic",
    "sync_threads",
    "sync_warp",
    "tanh",
    "tma_copy",
    "tma_store_arrive",
    "tma_store_wait",
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
    "wait_wgmma",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
    "warpgroup_arrive",
    "warpgroup_commit_batch",
    "warpgroup_fence_operand",
    "warpgroup_wait",
    "wgmma_gemm",
    "ws",
]
