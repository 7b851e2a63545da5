"""T.gemm_blockscaled: products of microscaled operands (MX; OCP Microscaling Formats, version 1.0).

Blocks of 32 elements along K share a scale, a power of two stored as a byte: 2^(byte - 127), 255 is NaN (E8M0). Scales
are bytes, one row for each row of A and column of B:

    T.gemm_blockscaled(A_shared, B_shared, C_local, SFA_shared, SFB_shared, transpose_B=True)

    A 128×256 of float8_e4m3fn       SFA 128×8 of uint8
    B 128×128 of uint8, b_format=T.float4_e2m1fn: 128×256 elements, two in a byte, the first in its low half

With granularities of 16 instead of 32, scales are numbers of float8_e4m3fn, one for 16 elements of float4_e2m1fn
("nvfp4"); what the whole tensor is multiplied by beside that is the program's business.

Scales may also come in packs of 512 bytes, those of 128 rows and four blocks of K, as cuBLAS takes them: the scale of
row r and block s is byte 16 · (r % 32) + 4 · (r / 32) + s. A buffer of them is rows / 128 by blocks / 4 by 32 by 16,
which TMA copies where rows of four bytes are too short for it.

Elements below a byte have no buffers of their own: tensors and buffers hold their bytes, rows of K/2 or K·3/4 of them,
packed from the lowest bit on, and the product is told what they are. So copies, layouts and views know bytes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.ops import tile, views
from minitile.ir.ops.product import PACK, PACK_BLOCKS, PACK_ROWS
from minitile.ir.types import PACKED, BufferType, DType, e4m3, u8
from minitile.language.memory import Region, as_region
from minitile.language.scalars import constant_value
from minitile.language.tracing.context import Trace

BLOCK = 32  # elements of K that share a scale
SCALES: dict[int, DType] = {BLOCK: u8, 16: e4m3}  # by elements that share one: what a scale is
FP8 = ("e4m3", "e5m2")


@dataclass(frozen=True, slots=True)
class Scaled:
    """What a product with scales has besides: the regions of the scales, and the formats of packed operands."""

    scales: tuple[Region, Region]
    formats: tuple[str, str]
    block: int


def read_scaled(trace: Trace, sfa: Any, sfb: Any, a_format: Any, b_format: Any, block: int) -> Scaled:
    formats = tuple(_format(trace, x, name) for x, name in ((a_format, "a_format"), (b_format, "b_format")))
    scales = as_region(sfa, "T.gemm_blockscaled's SFA"), as_region(sfb, "T.gemm_blockscaled's SFB")
    return Scaled(scales, (formats[0], formats[1]), block)


def _format(trace: Trace, given: Any, name: str) -> str:
    if given is None:
        return ""
    if isinstance(given, DType) and given.name in PACKED:
        return given.name
    if isinstance(given, DType) and given.name in FP8:
        return ""
    raise trace.error(
        f"T.gemm_blockscaled's {name} is {given!r}", "T.float4_e2m1fn, T.float6_e2m3fn or T.float6_e3m2fn"
    )


def unpacked(trace: Trace, shape: tuple[int, ...], dtype: DType, packed: str, k_dim: int, name: str) -> tuple[int, ...]:
    """The shape in elements of an operand of bytes. Raises TypeMismatchError for operands that f8f6f4 has not."""
    what = f"T.gemm_blockscaled's {name}"
    if not packed:
        if dtype.name not in FP8:
            raise TypeMismatchError(
                f"{what} is of {dtype}",
                trace.loc,
                f"float8_e4m3fn, float8_e5m2, or uint8 with {name.lower()}_format=T.float4_e2m1fn (or a float6)",
            )
        return shape
    if dtype is not u8:
        raise TypeMismatchError(f"{what} is of {dtype}: elements of {packed} are packed in uint8", trace.loc)
    if k_dim != len(shape) - 1:
        raise trace.error(f"{what}: packed elements lie along K, which is its first dimension here", "store K last")
    elements, rest = divmod(shape[k_dim] * 8, PACKED[packed].bits)
    if rest:
        raise trace.error(f"{what}: {shape[k_dim]} bytes are no whole number of {packed}")
    return (*shape[:-1], elements)


def scale_tiles(trace: Trace, scaled: Scaled, rows: tuple[int, int], k: int) -> tuple[Value, Value]:
    """Fragments with the scales of A and B. Raises TypeMismatchError where they are not M×K/32 and N×K/32."""
    block, dtype = scaled.block, SCALES[scaled.block]
    if k % block:
        raise trace.error(f"T.gemm_blockscaled with K = {k}", f"blocks are of {block} elements")
    made = []
    for region, name, count in zip(scaled.scales, ("SFA", "SFB"), rows, strict=True):
        what, mem = f"T.gemm_blockscaled's {name}", region.memory
        if mem.dtype is not dtype:
            shown = "uint8: 2^(byte - 127)" if dtype is u8 else "float8_e4m3fn"
            raise TypeMismatchError(f"{what} is of {mem.dtype}", trace.loc, f"scales of {block} elements are {shown}")
        if mem.space not in ("shared", "fragment"):
            raise trace.error(f"{what} is {mem.describe()}", "T.copy the scales to shared memory or a fragment first")
        shape, blocks = region.static(what), k // block
        packed = shape == (count // PACK_ROWS, blocks // PACK_BLOCKS, *PACK)
        if shape != (count, blocks) and not (packed and count % PACK_ROWS == 0 and blocks % PACK_BLOCKS == 0):
            raise TypeMismatchError(
                f"{what} is {'×'.join(map(str, shape))}, of {count} rows and K = {k}",
                trace.loc,
                f"one for {block} elements: {count}×{blocks}, whether or not the operand is transposed",
            )
        if mem.space == "fragment" and shape == mem.static_shape and not packed:
            made.append(mem.value)
            continue
        own = trace.b.emit(tile.Alloc(type_=BufferType("fragment", (count, blocks), dtype))).result
        zero = trace.b.constant(0)
        if packed:
            load = trace.b.emit(tile.Load(mem.value, region.offsets, shape=shape, dims=region.dims(4))).result
            trace.b.emit(tile.Store(own, (zero, zero), _unpacked_scales(trace, load), dims=(0, 1)))
        else:
            copy = tile.Copy(
                mem.value, region.offsets, own, (zero, zero), shape=shape, src_dims=region.dims(2), dst_dims=(0, 1)
            )
            trace.b.emit(copy)
        made.append(own)
    return made[0], made[1]


def _unpacked_scales(trace: Trace, packs: Value) -> Value:
    """Packs of scales as one tile, rows × blocks."""
    rows, words, lanes, _ = packs.shape
    split = trace.b.value(views.Reshape(packs, (rows, words, lanes, PACK_ROWS // lanes, PACK_BLOCKS)))
    turned = trace.b.value(tile.Permute(split, (0, 3, 2, 1, 4)))
    return trace.b.value(views.Reshape(turned, (rows * PACK_ROWS, words * PACK_BLOCKS)))


def check_blocks(trace: Trace, k_start: Any, granularities: tuple[int, int]) -> int:
    """The elements that share a scale. Raises LanguageError for others of TileLang's arguments."""
    if constant_value(k_start) != 0:
        raise trace.error(
            f"T.gemm_blockscaled with k_start={k_start!r}",
            "pass the scales of this tile: SFA[:, first : first + K // 32]",
        )
    block, other = granularities
    if block != other or block not in SCALES:
        raise trace.error(
            f"T.gemm_blockscaled with scales of {block} and {other} elements", "both are 32, or 16 of float4_e2m1fn"
        )
    return block
