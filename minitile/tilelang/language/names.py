"""Names and arguments that only TileLang's programs have, each in terms of minitile.language."""

from __future__ import annotations

import builtins
from functools import wraps
from typing import Any

import minitile.language as T
from minitile.language.scalars import Expr
from minitile.language.tracing import loops
from minitile.language.tracing.context import active, current
from minitile.language.tracing.expressions import Dim
from minitile.tilelang.body import Declared, Unknown, collecting
from minitile.tilelang.language.dtypes import dtype as dtype_of


def _without(function: Any, *ignored: str) -> Any:
    """The function, that also takes these keywords, which mean nothing here."""

    @wraps(function)
    def taking(*args: Any, **named: Any) -> Any:
        return function(*args, **{n: v for n, v in named.items() if n not in ignored})

    return taking


def _of_sizes(function: Any) -> Any:
    """The function, which of a size of T.const that is not known yet gives another such."""

    @wraps(function)
    def of(*args: Any) -> Any:
        return Unknown() if any(isinstance(a, Unknown) for a in args) else function(*args)

    return of


ceildiv = _of_sizes(T.ceildiv)
floordiv = _of_sizes(T.floordiv)
floormod = _of_sizes(T.floormod)
truncdiv = _of_sizes(T.truncdiv)
max = _of_sizes(T.max)
min = _of_sizes(T.min)
parallel = Parallel = _without(loops.Parallel, "prefer_async", "loop_layout", "annotations")
Serial = T.serial
STAGES = "most_stages__"  # the compile-time parameter that says how many stages there may be


@wraps(T.Pipelined)
def Pipelined(start: Any, stop: Any = None, num_stages: Any = 0, *args: Any, **named: Any) -> Any:
    """`T.Pipelined`; with fewer stages where the kernel is compiled for that."""
    most = current().constants.get(STAGES, loops.MOST_STAGES)
    named.pop("annotations", None)
    if not args and not named and isinstance(num_stages, int) and num_stages >= 1:  # no schedule of the program's own
        num_stages = builtins.min(num_stages, most)
    return T.Pipelined(start, stop, num_stages, *args, **named)


unroll = _without(T.unroll, "annotations", "explicit", "unroll_factor")
copy = _without(T.copy, "annotations", "loop_layout", "prefer_async")
gemm = _without(T.gemm, "annotations", "mbar")
fill = T.fill
reduce_sum = _without(T.reduce_sum, "annotations", "batch", "nan_propagate")
reduce_max = _without(T.reduce_max, "annotations", "batch")
atomic_add = _without(T.atomic_add, "use_tma")


def Kernel(*grid: Any, threads: Any = None, cluster_dims: Any = None, **named: Any) -> Any:
    """`T.Kernel`; cluster_dims is minitile's `cluster`. prelude and is_cpu are ignored. Where a thread's fragments do
    not fit its registers, the kernel has more threads."""
    more: dict[str, Any] = {n: v for n, v in named.items() if n in ("cluster", "persistent")}
    if cluster_dims is not None:
        more["cluster"] = cluster_dims
    current().attrs["resources_are_hints"] = True
    return T.Kernel(*grid, threads=threads, **more)


def ClusterKernel(*grid: Any, cluster_dims: Any = 1, **named: Any) -> Any:
    """`T.Kernel(…, cluster_dims=…)`."""
    return Kernel(*grid, cluster_dims=cluster_dims, **named)


def cluster_arrive_relaxed() -> None:
    """`T.cluster_arrive`, which orders memory as well."""
    T.cluster_arrive()


def dynamic(names: str, dtype: Any = "int32") -> Any:
    """Run-time sizes, `m, n = T.dynamic("m, n")`; of one name that size alone."""
    each = [Dim(n) for n in names.replace(",", " ").split()]
    trace = active()
    found = each if trace is None else [Expr(trace.dims[n]) if n in trace.dims else n for n in each]
    return found[0] if len(found) == 1 else tuple(found)


def empty(shape: Any, dtype: Any = "float32") -> Any:
    """`T.empty`: a tensor that the call makes."""
    if collecting() is not None:
        return Declared(tuple(shape) if isinstance(shape, (tuple, list)) else (shape,), None, dtype)
    return T.empty(shape, dtype_of(dtype))


def alloc_global(shape: Any, dtype: Any, scope: str = "global") -> Any:
    """A workspace in global memory, which the kernel's launches share: as `T.empty`, and not returned."""
    return empty(shape, dtype)


def alloc_var(dtype: Any, *args: Any, init: Any = None, scope: str = "local.var") -> Any:
    """`T.alloc_var(dtype)`, `T.alloc_var(dtype, 0)`, `T.alloc_var(dtype, init=0)`."""
    start = [a for a in args if not isinstance(a, str)]
    return T.alloc_var(dtype_of(dtype), start[0] if start else 0 if init is None else init)


def tvm_warp_shuffle(mask: Any, value: Any, lane: Any, width: Any = 32, warp_size: Any = 32) -> Any:
    """`T.shfl_sync(value, lane, width)`, of all lanes."""
    return T.shfl_sync(value, lane, width)


def any_sync(mask: Any, condition: Any) -> Any:
    """Whether the condition holds in any lane of the warp."""
    return T.warp_reduce_max(T.cast(condition, "int32")) != 0


def reinterpret(*args: Any, dtype: Any = None) -> Any:
    """`T.reinterpret`; as a "handle" nothing, which is all that TVM's calls want of one."""
    given = (*args, *([] if dtype is None else [dtype]))
    return None if any(isinstance(g, str) and g == "handle" for g in given) else T.reinterpret(*given)


def max_value(dtype: Any) -> Any:
    """The largest number of a dtype."""
    return T.max_value(dtype_of(dtype))


def min_value(dtype: Any) -> Any:
    """The least number of a dtype."""
    return T.min_value(dtype_of(dtype))
