# ruff: noqa: F401  (names that it has for others)
"""`import tilelang.language as T`, for TileLang's programs as they are: minitile.language, and the names that only such
programs have."""

from __future__ import annotations

from typing import Any as _Any

import minitile.language as _base
from minitile.tilelang.body import TensorFactory as _TensorFactory
from minitile.tilelang.body import const
from minitile.tilelang.language.absent import absent as _absent
from minitile.tilelang.language.cp_async import (
    access_ptr,
    cp_async_barrier_noinc,
    ptx_commit_group,
    ptx_cp_async,
    ptx_wait_group,
)
from minitile.tilelang.language.dtypes import (
    bfloat16,
    boolean,
    dtype,
    float4_e2m1fn,
    float6_e2m3fn,
    float6_e3m2fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from minitile.tilelang.language.dtypes import boolean as bool
from minitile.tilelang.language.dtypes import float4_e2m1fn as float4_e2m1
from minitile.tilelang.language.dtypes import float8_e4m3fn as float8_e4m3
from minitile.tilelang.language.dtypes import float16 as half
from minitile.tilelang.language.dtypes import float32 as float
from minitile.tilelang.language.dtypes import float32 as tfloat32
from minitile.tilelang.language.dtypes import float64 as double
from minitile.tilelang.language.dtypes import int32 as int
from minitile.tilelang.language.dtypes import uint32 as uint
from minitile.tilelang.language.hints import (
    Fragment,
    Layout,
    annotate_consumer_reg_alloc,
    annotate_layout,
    annotate_producer_reg_dealloc,
    annotate_safe_value,
    make_swizzled_layout,
)
from minitile.tilelang.language.names import (
    ClusterKernel,
    Kernel,
    Parallel,
    Pipelined,
    Serial,
    alloc_global,
    alloc_var,
    any_sync,
    atomic_add,
    ceildiv,
    cluster_arrive_relaxed,
    copy,
    dynamic,
    empty,
    fill,
    floordiv,
    floormod,
    gemm,
    max,
    max_value,
    min,
    min_value,
    parallel,
    reduce_max,
    reduce_sum,
    reinterpret,
    truncdiv,
    tvm_warp_shuffle,
    unroll,
)
from minitile.tilelang.language.thread_reduce import (
    attr,
    comm_reducer,
    evaluate,
    get_thread_binding,
    thread_binding,
)
from minitile.tilelang.macros import im2col, tvm_thread_allreduce
from minitile.tilelang.prim_func import prim_func

Tensor = _TensorFactory()
StridedTensor = _TensorFactory(strided=True)
symbolic = dynamic
Buffer = SharedBuffer = FragmentBuffer = LocalBuffer = Tensor
__all__ = sorted({*_base.__all__, *(name for name in globals() if not name.startswith("_"))} - {"annotations"})


def __getattr__(name: str) -> _Any:
    found = _base.__dict__.get(name)
    if found is None or name.startswith("__"):
        raise _absent(name)
    return found
