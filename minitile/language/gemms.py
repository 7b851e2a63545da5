"""Products: T.gemm, T.wgmma_gemm, T.gemm_blockscaled; of four bytes of a thread, T.dp4a."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import Enum
from typing import Any

from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.ops import arith, tile
from minitile.ir.types import DType, f32
from minitile.language.blockscaled import Scaled, check_blocks, read_scaled, scale_tiles, unpacked
from minitile.language.memory import Region, View, as_region, first_of_run, load_of_run
from minitile.language.scalars import (
    constant_value,
    truth,
)
from minitile.language.storage.packed import copy_packed, stored
from minitile.language.tiles import alloc_shared, regions, tile_scope
from minitile.language.tracing.context import Trace


class GemmWarpPolicy(Enum):
    """How the warps split the result of T.gemm: into near squares (Square), along the rows only (FullRow), along the
    columns only (FullCol). With FullRow each warp has whole rows, so that a reduction along a row stays within the
    warp.

    Example:
        ```py
        T.copy(A[0, 0], A_shared)
        T.clear(C_local)
        T.gemm(A_shared, A_shared, C_local, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        T.copy(C_local, C[0, bx * 128])
        ```
    """

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
    """C += A · B, on tensor cores.

    | A and B | C | targets |
    |---|---|---|
    | float16 | float32 | all |
    | float16 | float16 | NVIDIA |
    | bfloat16 | float32 | all |
    | float32 (on NVIDIA as tf32) | float32 | all |
    | float64 | float64 | NVIDIA |
    | int8 | int32 | all |
    | uint8, also with int8 | int32 | NVIDIA |
    | int4 (unpacked to int8) | int32 | all |
    | float8_e4m3fn, float8_e5m2, also mixed | float32 | sm_89 and later, gfx950 |
    | float8_e4m3fn, float8_e5m2, also mixed | float16 | sm_90a |
    | float8_e4m3fnuz, float8_e5m2fnuz, also mixed | float32 | gfx942 |

    On sm_90a it is wgmma where the tile fits that, on sm_100a and sm_103a tcgen05, else `mma.sync`, and `k.notes` says
    why. Products of fp8 are added with the hardware's precision, about 14 bits of mantissa on Hopper.

    Args:
        A: M×K, or K×M with transpose_A: shared memory, a fragment, or slices of one.
        B: K×N, or N×K with transpose_B: shared memory, a fragment, or slices of one.
        C: an M×N fragment, as a whole.
        transpose_A: whether A is stored K×M.
        transpose_B: whether B is stored N×K.
        policy: how the warps split C.
        clear_accum: overwrites C instead; it may be a run-time condition, such as `k == 0`.
        k_pack: not looked at.
        wg_wait: not looked at.

    Raises:
        TypeMismatchError: dtypes that the table has not for the target; shapes that do not fit (the message says which
            transposition would).
        LanguageError: an operand in global memory; C that is no whole fragment; inside T.Parallel; tiles that cannot be
            split among the warps.

    Example:
        ```py
        T.clear(C_local)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
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
    """T.gemm by wgmma that is not waited for (sm_90a).

    A and B in shared memory must stay as they are until T.wait_wgmma. A use of C waits by itself. A product whose A is
    a fragment ends with its round of a loop.

    Args:
        A: as of T.gemm.
        B: as of T.gemm, in shared memory.
        C: as of T.gemm.
        transpose_A: as of T.gemm.
        transpose_B: as of T.gemm.
        policy: as of T.gemm.
        clear_accum: as of T.gemm.

    Raises:
        TypeMismatchError: as of T.gemm.
        LanguageError: as of T.gemm, and a tile that wgmma does not fit; the message says why.
        TargetError: another target.

    Example:
        ```py
        T.copy(A[0, 0], A_shared)
        T.copy(B[0, 0], B_shared)
        T.wgmma_gemm(A_shared, B_shared, C_local, transpose_B=True, clear_accum=True)
        T.wait_wgmma(0)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
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
    """C += (A · scales) · (B · scales), microscaled (MX): blocks of 32 elements along K share a scale 2^(byte - 127).
    gfx950, sm_100a, sm_103a.

    On sm_100a and sm_103a both are fp8, mixed as one likes, or both float4_e2m1fn; K a multiple of 128, or of 64 where
    16 elements share a scale, and M of 128, N of 32.

    Args:
        A: as of T.gemm, of float8_e4m3fn or float8_e5m2, mixed as one likes; or of uint8, packed along K, the last
            dimension.
        B: likewise.
        C: a float32 fragment.
        SFA: M×K/32 scales of uint8, in shared memory or a fragment, not transposed; or M×K/16 of float8_e4m3fn.
        SFB: N×K/32 scales, likewise, or N×K/16. Either may come in packs: M/128 × K/128 × 32 × 16 (K/64 of e4m3), as
            cuBLAS takes them; the scale of row r and block s of a pack is at [r % 32, r // 32 * 4 + s].
        transpose_A: as of T.gemm.
        transpose_B: as of T.gemm.
        policy: as of T.gemm.
        clear_accum: as of T.gemm.
        a_format: what is packed in A's uint8: T.float4_e2m1fn, T.float6_e2m3fn or T.float6_e3m2fn.
        b_format: likewise of B.
        k_start: 0.
        sf_a_granularity_k: the elements that share a scale: 32, or 16 (sm_100a, sm_103a; both of float4_e2m1fn).
        sf_b_granularity_k: the same.

    Raises:
        TypeMismatchError: other dtypes, shapes of scales that do not fit.
        LanguageError: another k_start or granularity, packed elements that do not lie along K.
        TargetError: another target.

    Example:
        ```py
        a, b = T.alloc_shared((128, 128), T.float8_e4m3fn), T.alloc_shared((128, 128), T.float8_e4m3fn)
        sfa, sfb = T.alloc_shared((128, 4), T.uint8), T.alloc_shared((128, 4), T.uint8)
        T.fill(a, 1)
        T.fill(b, 1)
        T.fill(sfa, 127)
        T.fill(sfb, 127)
        T.gemm_blockscaled(a, b, C_local, sfa, sfb, transpose_B=True, clear_accum=True)
        T.copy(C_local, C[0, bx * 128])
        ```
    """
    trace = tile_scope("T.gemm_blockscaled")
    block = check_blocks(trace, k_start, (sf_a_granularity_k, sf_b_granularity_k))
    scaled = read_scaled(trace, SFA, SFB, a_format, b_format, block)
    _gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, in_flight=False, scaled=scaled)


def _as_it_fits(shapes: Sequence[tuple[int, ...]]) -> str:
    """Which operands of a gemm have to be transposed so that their shapes fit; "" if none are."""
    for ta, tb in itertools.product((False, True), repeat=2):
        (m, k), (k2, n) = (s[::-1] if t else s for s, t in zip(shapes, (ta, tb), strict=False))
        if k == k2 and (m, n) == shapes[2]:
            return f"with transpose_A={ta}, transpose_B={tb} they fit"
    return ""


def matrices(trace: Trace, what: str, operands: Sequence[Region]) -> list[tuple[int, ...]]:
    """The shapes of A, B and C. Raises TypeMismatchError where one is no matrix."""
    shapes = [r.static(f"{what}'s {n}") for r, n in zip(operands, "ABC", strict=True)]
    for name, shape in zip("ABC", shapes, strict=True):
        if len(shape) != 2:
            raise TypeMismatchError(f"{what}'s {name} has {len(shape)} dimensions, not 2", trace.loc)
    return shapes


def fitting(trace: Trace, what: str, shapes: Sequence[tuple[int, ...]], transpose_A: bool, transpose_B: bool) -> int:
    """K of a product of these shapes. Raises TypeMismatchError where they do not fit."""
    (m, k), (k2, n) = (s[::-1] if t else s for s, t in zip(shapes, (transpose_A, transpose_B), strict=False))
    if k != k2 or (m, n) != shapes[2]:
        raise TypeMismatchError(
            f"{what}: A is {m}×{k} (M×K), B is {k2}×{n} (K×N), C is {shapes[2][0]}×{shapes[2][1]} (M×N): "
            + (f"K is {k} and {k2}" if k != k2 else f"A and B make {m}×{n}"),
            trace.loc,
            _as_it_fits(shapes)
            or f"transpose_A={bool(transpose_A)}, transpose_B={bool(transpose_B)} are already applied to these shapes",
        )
    return k


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
    c = as_region(C, f"{what}'s C")
    a, b = (_as_bytes(as_region(x, f"{what}'s {n}", packed=True), what) for x, n in ((A, "A"), (B, "B")))
    k_dims = int(not transpose_A), int(bool(transpose_B))
    for name, r in (("A", a), ("B", b)):
        if r.memory.space not in ("shared", "fragment"):
            raise trace.error(
                f"{what}'s {name} is {r.memory.describe()}",
                "gemm reads shared memory or fragments: T.copy it there first",
            )
        if isinstance(r.memory, View):
            raise trace.error(
                f"{what}'s {name} is {r.memory.describe()}, which is a view", "give it the buffer that it is of"
            )
    if c.memory.space != "fragment" or c.shape != c.memory.static_shape:
        raise trace.error(f"{what}'s C is {c.describe()}", "accumulate into a whole fragment")
    shapes = matrices(trace, what, (a, b, c))
    if scaled is not None:
        for i, r in enumerate((a, b)):
            shapes[i] = unpacked(trace, shapes[i], r.memory.dtype, scaled.formats[i], k_dims[i], "AB"[i])
    (m, n), k = shapes[2], fitting(trace, what, shapes, transpose_A, transpose_B)
    if scaled is None:
        check_dtypes(trace, a.memory.dtype, b.memory.dtype, c.memory.dtype)
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


def _as_bytes(region: Region, what: str) -> Region:
    """An operand of int4, unpacked to a buffer of int8 of its own; any other one itself."""
    mem = region.memory
    if mem.packed is None or mem.space == "global":
        return region
    shape = region.static(what)
    made = alloc_shared(shape, stored(mem.packed))
    copy_packed(region, made.whole(), shape, what)
    return made.whole()


def check_dtypes(trace: Trace, a: DType, b: DType, c: DType) -> None:
    """Raises TypeMismatchError where no product is of these dtypes."""
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


@regions("A", "B", "C")
def dp4a(A: Any, B: Any, C: Any) -> None:
    """C += A[0]*B[0] + A[1]*B[1] + A[2]*B[2] + A[3]*B[3], of bytes of each thread's own, in one instruction.

    The sum has 32 bits and wraps.

    Args:
        A: int8 or uint8: the first of four neighbours, or a slice of four, of a T.alloc_local array, a tensor or a
            shared buffer.
        B: the same, of A's dtype.
        C: an element: int32, or with uint8 uint32.

    Raises:
        LanguageError: a slice of another size; inside T.Parallel.
        TypeMismatchError: other dtypes.

    Example:
        ```py
        a = T.alloc_local((4,), T.int8)
        for k in T.serial(4):
            a[k] = T.cast(k, T.int8)
        T.dp4a(a[0], a[0], I[tx])
        ```
    """
    trace = tile_scope("T.dp4a")
    a, b = (first_of_run(x, 4, f"T.dp4a's {name}") for x, name in ((A, "A"), (B, "B")))
    c = as_region(C, "T.dp4a's C")
    kinds = (a.memory.dtype.name, b.memory.dtype.name, c.memory.dtype.name)
    if kinds not in (("i8", "i8", "i32"), ("u8", "u8", "u32"), ("u8", "u8", "i32")):
        raise TypeMismatchError(
            f"T.dp4a of {a.memory.dtype} by {b.memory.dtype} to {c.memory.dtype}",
            trace.loc,
            "int8 by int8 to int32, or uint8 by uint8 to uint32 or int32",
        )
    if not c.start:
        raise trace.error(f"T.dp4a to {c.describe()}", "give one element")
    old = load_of_run(c, 0)
    factors = (tuple(load_of_run(x, n) for n in range(4)) for x in (a, b))
    points: tuple[None, ...] = (None,) * c.memory.ndim
    trace.b.emit(tile.Store(c.memory.value, c.offsets, trace.b.emit(arith.Dot4(*factors, old)).result, dims=points))
