"""Tile operations and storage: T.alloc_*, T.copy, T.gemm, T.fill, T.reduce_*, T.atomic_*, ….

`@regions(...)` names the parameters whose argument, when it is an index expression, is a region and not a load; the
interpreter looks for it. "slices" behind a name: only when the index has slices.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import arith, control, tile
from minitile.ir.types import BOOL, I32, BufferType, DType, f32
from minitile.language.blockscaled import Scaled, check_blocks, read_scaled, scale_tiles, unpacked
from minitile.language.math import dtype_of_name
from minitile.language.memory import Memory, Region, as_region, between, match_extents
from minitile.language.scalars import (
    Expr,
    assign_cast,
    check_store_cast,
    constant_int,
    constant_value,
    convert,
    is_scalar,
    operand_value,
    truth,
)
from minitile.language.tracing.context import Trace, current

F = TypeVar("F", bound=Callable[..., Any])


def regions(*names: str, slices: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Marks the parameters that take regions."""

    def mark(function: F) -> F:
        order = list(inspect.signature(function).parameters)
        modes = {**dict.fromkeys(names, "region"), **dict.fromkeys(slices, "slices")}
        function.region_modes = {**modes, **{order.index(n): m for n, m in modes.items()}}  # type: ignore[attr-defined]
        return function

    return mark


def tile_scope(what: str) -> Trace:
    """The trace, when a tile operation is allowed here: inside T.Kernel and outside T.Parallel."""
    trace = current()
    if trace.launch is None:
        raise trace.error(f"{what} outside T.Kernel", "write it inside `with T.Kernel(…) as …:`")
    if trace.parallel:
        raise trace.error(
            f"{what} inside T.Parallel",
            "the body of T.Parallel works on single elements; tile operations go before or after it",
        )
    return trace


# Storage -----------------------------------------------------------------------------------------------------------


def _alloc(space: str, shape: Any, dtype: Any, what: str) -> Memory:
    trace = tile_scope(what)
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    dims = tuple(constant_int(d, f"the shape of {what}") for d in items)
    if not dims or any(d < 1 for d in dims):
        raise trace.error(f"{what}: shape {dims} has no elements", "each dimension is at least 1")
    value = trace.b.emit(tile.Alloc(type_=BufferType(space, dims, dtype_of_name(dtype)))).result
    return Memory(value, trace)


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared.dyn") -> Memory:
    """A buffer in shared memory, common to the block's threads."""
    return _alloc("shared", shape, dtype, "T.alloc_shared")


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Memory:
    """A tile in registers, spread over the block's threads by a layout that the compiler chooses."""
    return _alloc("fragment", shape, dtype, "T.alloc_fragment")


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Memory:
    """Memory of each thread's own."""
    return _alloc("local", shape, dtype, "T.alloc_local")


class Variable(Expr):
    """What T.alloc_var gives: the name that it is assigned to keeps its dtype."""

    __slots__ = ()


def alloc_var(dtype: Any, init: Any = 0) -> Variable:
    """A scalar variable of a fixed dtype: later assignments to its name keep the dtype."""
    return Variable(convert(init, dtype_of_name(dtype)).value)


# Copies and fills --------------------------------------------------------------------------------------------------


@regions("src", "dst")
def copy(
    src: Any,
    dst: Any,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
) -> None:
    """Copies a tile between global, shared and register memory, with a cast if the dtypes differ. Reading outside a
    tensor gives 0, writing outside does nothing. `eviction_policy` is a hint to L2: the tensor's lines are to go first
    ("evict_first": read once) or last ("evict_last": read again soon); "evict_normal" and None say nothing. The other
    two arguments are hints that are not needed. Raises LanguageError for another policy."""
    trace = tile_scope("T.copy")
    evict = "" if eviction_policy in (None, "evict_normal") else str(eviction_policy)
    if evict not in tile.EVICTIONS:
        raise trace.error(f"eviction_policy={eviction_policy!r}", "evict_normal, evict_first or evict_last")
    a, b = as_region(src, "T.copy's source"), as_region(dst, "T.copy's destination")
    shape = match_extents(a, b, "T.copy")
    check_store_cast(a.memory.dtype, b.memory.dtype, f"T.copy from {a.memory.describe()} to {b.memory.describe()}")
    _inside(a, shape)
    _inside(b, shape)
    evict = evict if "global" in (a.memory.space, b.memory.space) else ""
    trace.b.emit(tile.Copy(**between(a, b, shape), evict=evict))


def _inside(region: Region, shape: tuple[int, ...]) -> None:
    """A start in a buffer (not a tensor) leaves room for the tile."""
    if region.start and region.memory.space != "global":
        for d, t in enumerate(region.dims(len(shape))):
            region.memory.index(Expr(region.offsets[d]), d, 1 if t is None else shape[t])


@regions("buffer")
def fill(buffer: Any, value: Any) -> None:
    """Every element of a buffer, or of a region of it, becomes `value`."""
    trace = tile_scope("T.fill")
    region = as_region(buffer, "T.fill's buffer")
    mem = region.memory
    if mem.space == "global":
        raise trace.error(f"T.fill of {mem.describe()}", "fill a fragment and T.copy it")
    shape = region.static("T.fill") if not region.start else ()
    what = f"T.fill of {mem.describe()}"
    if not is_scalar(value):
        raise TypeMismatchError(f"{what} with {shown(value)}, which is no scalar", trace.loc)
    number = assign_cast(value, mem.dtype, what)
    dims = (None,) * mem.ndim if region.start else region.dims(len(shape))
    trace.b.emit(tile.Fill(mem.value, region.offsets, number, shape=shape, dims=dims))


@regions("buffer")
def clear(buffer: Any) -> None:
    """T.fill with 0."""
    fill(buffer, 0)


# Matrix product ----------------------------------------------------------------------------------------------------


class GemmWarpPolicy(Enum):
    """How the warps split the result: into near squares, along the rows only, along the columns only."""

    Square = "square"
    FullRow = "full_row"
    FullCol = "full_col"


_ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f16": ("f32", "f16"),
    "bf16": ("f32",),
    "f32": ("f32",),
    "f64": ("f64",),
    "i8": ("i32",),
    "u8": ("i32",),
    "e4m3": ("f32", "f16"),
    "e5m2": ("f32", "f16"),
    "e4m3fnuz": ("f32",),
    "e5m2fnuz": ("f32",),
}


@regions("A", "B", "C")
def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    k_pack: int = 1,
    wg_wait: int = 0,
) -> None:
    """C += A @ B. A is M×K (K×M with transpose_A), B is K×N (N×K with transpose_B), both in shared memory or
    fragments of one dtype; C is an M×N fragment. `clear_accum` overwrites C; it may be
    a run-time condition, such as k == 0. k_pack and wg_wait are ignored."""
    _gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, in_flight=False)


@regions("A", "B", "C")
def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
) -> None:
    """T.gemm by wgmma that this does not wait for: A and B in shared memory must stay as they are until T.wait_wgmma. A
    use of C waits by itself. Where wgmma does not fit, the compiler says why."""
    _gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, in_flight=True)


@regions("A", "B", "C", "SFA", "SFB")
def gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA: Any,
    SFB: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    a_format: Any = None,
    b_format: Any = None,
    k_start: Any = 0,
    sf_a_granularity_k: int = 32,
    sf_b_granularity_k: int = 32,
) -> None:
    """C += (A · scales) @ (B · scales), microscaled (blockscaled.py): blocks of 32 elements along K share a scale
    2^(byte - 127). A and B are as T.gemm's, of float8_e4m3fn or float8_e5m2, mixed as one likes; or of uint8 and packed
    along K, the last dimension: `a_format`, `b_format` are T.float4_e2m1fn, T.float6_e2m3fn or T.float6_e3m2fn. SFA is
    M×K/32, SFB N×K/32, of uint8, in shared memory or fragments, not transposed. C is a float32 fragment. k_start is 0,
    the granularities are 32. gfx950; elsewhere a TargetError."""
    trace = tile_scope("T.gemm_blockscaled")
    check_blocks(trace, k_start, (sf_a_granularity_k, sf_b_granularity_k))
    scaled = read_scaled(trace, SFA, SFB, a_format, b_format)
    _gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, in_flight=False, scaled=scaled)


def _as_it_fits(shapes: Sequence[tuple[int, ...]]) -> str:
    """Which operands of a gemm have to be transposed so that their shapes fit; "" if none are."""
    for ta, tb in itertools.product((False, True), repeat=2):
        (m, k), (k2, n) = (s[::-1] if t else s for s, t in zip(shapes, (ta, tb), strict=False))
        if k == k2 and (m, n) == shapes[2]:
            return f"with transpose_A={ta}, transpose_B={tb} they fit"
    return ""


def _gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool,
    transpose_B: bool,
    policy: GemmWarpPolicy,
    clear_accum: Any,
    in_flight: bool,
    scaled: Scaled | None = None,
) -> None:
    what = "T.gemm" if scaled is None else "T.gemm_blockscaled"
    trace = tile_scope(what)
    a, b, c = (as_region(x, f"{what}'s {n}") for x, n in ((A, "A"), (B, "B"), (C, "C")))
    k_dims = int(not transpose_A), int(bool(transpose_B))
    for name, r in (("A", a), ("B", b)):
        if r.memory.space not in ("shared", "fragment"):
            raise trace.error(
                f"{what}'s {name} is {r.memory.describe()}",
                "gemm reads shared memory or fragments: T.copy it there first",
            )
    if c.memory.space != "fragment" or c.shape != c.memory.static_shape:
        raise trace.error(f"{what}'s C is {c.describe()}", "accumulate into a whole fragment")
    shapes = [r.static(f"{what}'s {n}") for r, n in ((a, "A"), (b, "B"), (c, "C"))]
    for name, shape in zip("ABC", shapes, strict=True):
        if len(shape) != 2:
            raise TypeMismatchError(f"{what}'s {name} has {len(shape)} dimensions, not 2", trace.loc)
    if scaled is not None:
        for i, r in enumerate((a, b)):
            shapes[i] = unpacked(trace, shapes[i], r.memory.dtype, scaled.formats[i], k_dims[i], "AB"[i])
    (m, k), (k2, n) = (s[::-1] if t else s for s, t in zip(shapes, (transpose_A, transpose_B), strict=False))
    if k != k2 or (m, n) != shapes[2]:
        raise TypeMismatchError(
            f"{what}: A is {m}×{k} (M×K), B is {k2}×{n} (K×N), C is {shapes[2][0]}×{shapes[2][1]} (M×N): "
            + (f"K is {k} and {k2}" if k != k2 else f"A and B make {m}×{n}"),
            trace.loc,
            _as_it_fits(shapes)
            or f"transpose_A={bool(transpose_A)}, transpose_B={bool(transpose_B)} are already applied to these shapes",
        )
    if scaled is None:
        _check_gemm_dtypes(trace, a.memory.dtype, b.memory.dtype, c.memory.dtype)
    elif c.memory.dtype is not f32:
        raise TypeMismatchError(f"T.gemm_blockscaled accumulates in float32, not {c.memory.dtype}", trace.loc)
    if not isinstance(policy, GemmWarpPolicy):
        raise trace.error(f"{what}'s policy is {policy!r}", "use T.GemmWarpPolicy.Square, FullRow or FullCol")
    clear = constant_value(clear_accum)
    scales = (None, None) if scaled is None else scale_tiles(trace, scaled, (m, n), k)
    formats = ("", "") if scaled is None else scaled.formats
    wholes = [r.memory.static_shape[r.dims(2).index(d)] for r, d in zip((a, b), k_dims, strict=True)]
    parts = [r.shape[d] for r, d in zip((a, b), k_dims, strict=True)]
    trace.b.emit(
        tile.GemmInto(
            a.memory.value,
            a.offsets,
            b.memory.value,
            b.offsets,
            c.memory.value,
            transpose_a=bool(transpose_A),
            transpose_b=bool(transpose_B),
            a_dims=a.dims(2),
            b_dims=b.dims(2),
            policy=policy.value,
            scale_d=trace.b.value(arith.Not(truth(clear_accum))) if clear is None else None,
            in_flight=in_flight,
            a_scale=scales[0],
            b_scale=scales[1],
            a_format=formats[0],
            b_format=formats[1],
            k=0 if wholes == parts else k,
            clear_accum=bool(clear),
        )
    )


def _check_gemm_dtypes(trace: Trace, a: DType, b: DType, c: DType) -> None:
    mixed = a.bits == b.bits == 8 and a.is_float == b.is_float
    if a is not b and not mixed:
        raise TypeMismatchError(
            f"T.gemm: A is {a}, B is {b}", trace.loc, "both have one dtype; e4m3 and e5m2, or i8 and u8, may be mixed"
        )
    accumulators = _ACCUMULATORS.get(a.name)
    if accumulators is None:
        raise TypeMismatchError(f"T.gemm on {a}", trace.loc, f"operands are {', '.join(_ACCUMULATORS)}")
    if c.name not in accumulators:
        raise TypeMismatchError(f"T.gemm of {a} accumulates in {' or '.join(accumulators)}, not {c}", trace.loc)


# Reductions --------------------------------------------------------------------------------------------------------


@regions("buffer", "out")
def reduce(buffer: Any, out: Any, reduce_type: str, dim: int = -1, clear: bool = True) -> None:
    """out = the reduction of buffer along `dim` (its shape without that dimension, or with 1 there); combined with
    what out held unless `clear`. reduce_type: sum, max, min, absmax, abssum, and, or, xor."""
    trace = tile_scope(f"T.reduce_{reduce_type}")
    what = f"T.reduce_{reduce_type}"
    src, dst = as_region(buffer, f"{what}'s source"), as_region(out, f"{what}'s result")
    for r in (src, dst):
        if r.memory.space not in ("fragment", "shared") or r.shape != r.memory.static_shape:
            raise trace.error(f"{what} on {r.describe()}", "reduce a whole fragment into a whole fragment")
    rank = len(src.shape)
    d = constant_int(dim, "dim")
    if not -rank <= d < rank:
        raise trace.error(f"{what}: dim={d} of a buffer with {rank} dimensions")
    d %= rank
    rest = (*src.shape[:d], *src.shape[d + 1 :])
    kept = (*src.shape[:d], 1, *src.shape[d + 1 :])
    if dst.shape not in (rest, kept):
        raise TypeMismatchError(
            f"{what} along dimension {d} of {src.memory.describe()} gives {'×'.join(map(str, rest or (1,)))}, "
            f"not {'×'.join(map(str, dst.shape))}",
            trace.loc,
        )
    check_store_cast(src.memory.dtype, dst.memory.dtype, what)
    if reduce_type in ("and", "or", "xor") and src.memory.dtype.is_float:
        raise TypeMismatchError(f"{what} on {src.memory.dtype}", trace.loc, "bitwise reductions are for integers")
    trace.b.emit(tile.ReduceInto(src.memory.value, dst.memory.value, dim=d, kind=reduce_type, clear=bool(clear)))


def _reduction(kind: str, what: str, name: str = "") -> Callable[..., None]:
    @regions("buffer", "out")
    def function(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
        reduce(buffer, out, kind, dim, clear)

    function.__name__ = function.__qualname__ = f"reduce_{name or kind}"
    function.__doc__ = f"out = {what} of buffer along `dim`; see `reduce`."
    return function


reduce_sum = _reduction("sum", "the sum")
reduce_max = _reduction("max", "the maximum")
reduce_min = _reduction("min", "the minimum")
reduce_abssum = _reduction("abssum", "the sum of absolute values")
reduce_absmax = _reduction("absmax", "the maximum of absolute values")
reduce_bitand = _reduction("and", "the bitwise and", "bitand")
reduce_bitor = _reduction("or", "the bitwise or", "bitor")
reduce_bitxor = _reduction("xor", "the bitwise exclusive or", "bitxor")


# Atomics -----------------------------------------------------------------------------------------------------------


def _atomic(kind: str, what: str, more: str = "") -> Callable[..., Any]:
    @regions("dst", slices=("value",))
    def function(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Expr | None:
        return _emit_atomic(kind, dst, value, f"T.{function.__name__}", return_prev)

    function.__name__ = function.__qualname__ = f"atomic_{kind}"
    function.__doc__ = (
        f"dst = {what}, atomically, relaxed, for the whole GPU. dst is one element and value a scalar (with "
        f"`return_prev` the old value is returned), or both are tiles.{more}"
    )
    return function


def _emit_atomic(kind: str, dst: Any, value: Any, what: str, return_prev: bool) -> Expr | None:
    trace = current()
    target = as_region(dst, f"{what}'s destination")
    mem = target.memory
    if mem.space not in ("global", "shared"):
        raise trace.error(f"{what} on {mem.describe()}", "atomics are for tensors and shared buffers")
    if isinstance(value, (Memory, Region)):
        if return_prev:
            raise trace.error(f"{what} of a tile returns nothing", "use a loop over elements")
        _atomic_tile(kind, target, as_region(value, f"{what}'s value"), what)
        return None
    if not is_scalar(value):
        raise TypeMismatchError(f"{what} of {shown(value)}, which is no scalar and no tile", trace.loc)
    if not target.start:
        raise trace.error(f"{what} of a scalar to {target.describe()}", "index one element, or give a tile as value")
    number = assign_cast(value, mem.dtype, what)
    op = tile.AtomicRmw(mem.value, target.offsets, number, kind=kind, dims=(None,) * mem.ndim)
    old = trace.b.emit(op).result
    return Expr(old) if return_prev else None


def _atomic_tile(kind: str, target: Region, value: Region, what: str) -> None:
    """A tile of atomics is a parallel loop of single ones."""
    trace = tile_scope(what)
    shape = match_extents(value, target, what)
    check_store_cast(value.memory.dtype, target.memory.dtype, what)
    loop = control.Parallel(extents=shape)
    ivs = [loop.body.add_arg(I32) for _ in shape]
    with trace.b.inside(loop.body):

        def element(r: Region) -> tuple[Value, ...]:
            return tuple(
                o if t is None else trace.b.add(o, trace.b.cast(ivs[t], o.dtype))
                for o, t in zip(r.offsets, r.dims(len(shape)), strict=True)
            )

        points: tuple[None, ...] = (None,) * value.memory.ndim
        x = trace.b.emit(tile.Load(value.memory.value, element(value), shape=(), dims=points)).result
        x = trace.b.cast(x, target.memory.dtype)
        points = (None,) * target.memory.ndim
        trace.b.emit(tile.AtomicRmw(target.memory.value, element(target), x, kind=kind, dims=points))
        trace.b.emit(control.Yield(()))
    trace.b.emit(loop)


atomic_add = _atomic("add", "dst + value")
_NAN = " A value that is NaN changes nothing; a NaN in dst may stay, as may a zero of the other sign."
atomic_max = _atomic("max", "max(dst, value)", _NAN)
atomic_min = _atomic("min", "min(dst, value)", _NAN)
atomic_and = _atomic("and", "dst & value")
atomic_or = _atomic("or", "dst | value")
atomic_xor = _atomic("xor", "dst ^ value")
atomic_exch = _atomic("exch", "value")


# Threads and blocks ------------------------------------------------------------------------------------------------


def get_thread_binding(dim: int = 0) -> Expr | int:
    """The thread's index in dimension `dim` of its block, of which x (0) goes fastest. In a dimension of one thread,
    such as those that `threads` of T.Kernel does not name, it is 0. The launch itself has one dimension: the index is
    computed."""
    trace = tile_scope("T.get_thread_binding")
    if constant_int(dim, "dim") not in (0, 1, 2):
        raise trace.error(f"T.get_thread_binding({dim}): dimensions are 0, 1, 2")
    size, inner = trace.block[dim], math.prod(trace.block[:dim])
    if size == 1:
        return 0
    index = trace.b.emit(tile.ThreadIndex()).result
    if inner > 1:
        index = trace.b.value(arith.FloorDiv(index, trace.b.constant(inner)))
    if math.prod(trace.block[dim + 1 :]) > 1:
        index = trace.b.value(arith.FloorMod(index, trace.b.constant(size)))
    return Expr(index)


def get_thread_bindings() -> list[Expr | int]:
    """The thread's index in x, y and z."""
    return [get_thread_binding(dim) for dim in range(3)]


def get_thread_extent(dim: int = 0) -> int:
    """The block's threads in dimension `dim`."""
    trace = tile_scope("T.get_thread_extent")
    if constant_int(dim, "dim") not in (0, 1, 2):
        raise trace.error(f"T.get_thread_extent({dim}): dimensions are 0, 1, 2")
    return trace.block[dim]


def get_thread_extents() -> list[int]:
    """The block's threads in x, y and z."""
    return [get_thread_extent(dim) for dim in range(3)]


def get_block_binding(dim: int = 0) -> Expr:
    """The block's index in dimension `dim` of the grid."""
    trace = current()
    if trace.launch is None:
        raise trace.error("T.get_block_binding outside T.Kernel")
    if constant_int(dim, "dim") not in (0, 1, 2):
        raise trace.error(f"T.get_block_binding({dim}): dimensions are 0, 1, 2")
    return Expr(trace.launch.body.args[dim])


def get_block_bindings() -> list[Expr]:
    """The block's index in x, y and z."""
    return [get_block_binding(dim) for dim in range(3)]


# Annotations and debugging -----------------------------------------------------------------------------------------


def annotate_layout(layouts: dict[Memory, Any]) -> None:
    """Fixes the layout of shared buffers: {buffer: layout}."""
    trace = tile_scope("T.annotate_layout")
    for buffer, layout in layouts.items():
        op = buffer.value.op if isinstance(buffer, Memory) else None
        if not isinstance(op, tile.Alloc) or op.type_.space != "shared":
            raise trace.error(f"T.annotate_layout of {shown(buffer)}", "it is for buffers of T.alloc_shared")
        fits = (getattr(layout, "shape", None), getattr(layout, "element_bits", None))
        if fits != (op.type_.shape, op.type_.dtype.bits):
            raise trace.error(
                f"T.annotate_layout: {shown(layout)} is no layout of {buffer.describe()}",
                "give a SharedLayout of its shape and element size, see minitile.layout.shared",
            )
        op.layout = layout


def annotate_l2_hit_ratio(ratios: dict[Memory, float]) -> None:
    """{tensor: ratio}: of the tensor's accesses, `ratio` (over 0, up to 1) are to stay in the part of L2 that is kept
    for such; the others pass through. A launch has one such tensor (NVIDIA, from sm_80 on; elsewhere it says nothing).

    Lines stay there after the kernel, until `cuCtxResetPersistingL2Cache` or others like them push them out. Raises
    LanguageError for other memory, a ratio outside, and a second tensor.
    """
    trace = tile_scope("T.annotate_l2_hit_ratio")
    known = trace.attrs.get("l2_hit_ratio")
    for tensor, ratio in ratios.items():
        if not isinstance(tensor, Memory) or tensor.space != "global":
            raise trace.error(f"T.annotate_l2_hit_ratio of {shown(tensor)}", "it is for tensors of the signature")
        if not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
            raise trace.error(f"a hit ratio of {ratio!r} for {tensor.describe()}", "it is over 0, up to 1")
        if known is not None and known[0] != tensor.value.name:
            raise trace.error("T.annotate_l2_hit_ratio of two tensors", "a launch has one: choose the one read most")
        known = trace.attrs["l2_hit_ratio"] = (tensor.value.name, float(ratio))


def use_swizzle(panel_size: int = 8, order: str = "row", enable: bool = True, num_xcds: int = 1) -> None:
    """Visits the blocks of the grid in panels of `panel_size` rows, so that neighbours in time share cache lines; order
    "column": in panels of columns; "hilbert": along Hilbert's curve, which has no panels (hilbert.py).
    `num_xcds`: the dies of the GPU, which have an L2 each and get blocks in turn (8 on MI300X and MI355X); each then
    gets runs of panel_size² neighbouring blocks. Where T.Kernel's blocks stay (`persistent`), those of a die have
    neighbouring tiles in every turn but the last one, where tiles are fewer than blocks."""
    trace = tile_scope("T.use_swizzle")
    size, dies = constant_int(panel_size, "panel_size"), constant_int(num_xcds, "num_xcds")
    if size < 1 or order not in ("row", "column", "col", "hilbert"):
        expected = 'panel_size ≥ 1, order "row", "column" or "hilbert"'
        raise trace.error(f"T.use_swizzle({panel_size}, order={order!r})", expected)
    if dies < 1:
        raise trace.error(f"T.use_swizzle(num_xcds={dies})", "a GPU has at least one die")
    if enable:
        trace.attrs["rasterise"] = ("col" if order == "column" else order, size, dies)


def assume(condition: Any) -> None:
    """Promises that the condition holds; bounds checks that it makes needless are dropped."""
    if constant_value(condition) is None:
        current().b.emit(arith.Assume(truth(condition)))
    elif not constant_value(condition):
        raise current().error("T.assume of a condition that is false")


def device_assert(condition: Any, msg: str = "") -> None:
    """Traps when the condition is false."""
    trace = current()
    value = truth(condition)
    assert value.type == BOOL
    trace.b.emit(tile.DeviceAssert(value, text=_message(trace, msg, "T.device_assert")))


def _message(trace: Trace, msg: object, where: str) -> str:
    """A text that C's strings can hold: UTF-8, and no zero in it."""
    try:
        if isinstance(msg, str) and b"\0" not in msg.encode():
            return msg
    except UnicodeEncodeError:
        pass
    raise trace.error(f"the message of {where} is {shown(msg)}", "a string without zeros and lone surrogates")


_FORMATS = {"float": "%f", "int": "%d", "uint": "%u", "bool": "%d"}


@regions(slices=("obj",))
def print(obj: Any, msg: str = "") -> None:
    """Prints, for debugging: a run-time scalar once per block; a fragment, a shared buffer or a part of one element by
    element, each behind its indices in the tile."""
    trace = current()
    if trace.launch is None:
        raise trace.error("T.print outside T.Kernel")
    value = _printed(trace, obj) if isinstance(obj, (Memory, Region)) else operand_value(obj)
    said = _message(trace, msg, "T.print").replace("%", "%%")
    text = f"{said + ': ' if said else ''}{_FORMATS[value.dtype.kind]}\n"
    trace.b.emit(tile.Print((value,), text=text))


def _printed(trace: Trace, obj: Memory | Region) -> Value:
    region = as_region(obj, "T.print's argument")
    mem = region.memory
    if mem.space == "fragment" and not region.start and region.shape == mem.static_shape:
        return mem.value
    if mem.space != "shared":
        raise trace.error(
            f"T.print of {region.describe() if isinstance(obj, Region) else obj.describe()}",
            "print fragments, shared buffers and parts of these, or single elements in a serial loop",
        )
    shape = region.static("T.print")
    load = tile.Load(mem.value, region.offsets, shape=shape, dims=region.dims(len(shape)))
    return trace.b.emit(load).result
