"""The two descriptors of tcgen05.mma, as tables of their fields: numbers to a word, and a word to its numbers.

Sources, which agree on each field that they name: CUTLASS, include/cute/arch/mma_sm100_desc.hpp (`InstrDescriptor`,
`SmemDescriptor`); Triton, third_party/nvidia/lib/TritonNVIDIAGPUToLLVM/DotOpToLLVM/MMAv5.cpp and MMAHelpers.h; JAX,
jax/experimental/mosaic/gpu/tcgen05.py (`create_instr_descriptor`); DeepGEMM, deep_gemm/mma/sm100.cuh. For leading and
stride offsets: CUTLASS, include/cute/atom/mma_traits_sm100.hpp (`make_umma_desc`), and DeepGEMM's `make_umma_desc`.

    one = word(INSTRUCTION, d=1, a=1, b=1, n=256 >> 3, m=128 >> 4)        # 0x8400490: bf16 · bf16 into f32
    fields(INSTRUCTION, one)["n"] << 3                                    # 256
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from minitile.backends.nvidia.blackwell.shapes import Kind, misfit

Layout = Mapping[str, tuple[int, int]]  # field: its first bit, and how many

INSTRUCTION: Layout = MappingProxyType(
    {
        "sparsity_selector": (0, 2),
        "sparse": (2, 1),
        "saturate": (3, 1),
        "d": (4, 2),
        "a": (7, 3),
        "b": (10, 3),
        "negate_a": (13, 1),
        "negate_b": (14, 1),
        "a_mn_major": (15, 1),
        "b_mn_major": (16, 1),
        "n": (17, 6),  # / 8
        "m": (24, 5),  # / 16
        "shift": (30, 2),
    }
)
# Of products with scales of blocks (CUTLASS, the same file, `InstrDescriptorBlockScaled`; Triton, MMAv5.cpp,
# `createScaleInstDescriptor`).
SCALED: Layout = MappingProxyType(
    {
        "sparsity_selector": (0, 2),
        "sparse": (2, 1),
        "b_scale_byte": (4, 2),  # of a word of scales: where those of this instruction begin
        "a": (7, 3),
        "b": (10, 3),
        "negate_a": (13, 1),
        "negate_b": (14, 1),
        "a_mn_major": (15, 1),
        "b_mn_major": (16, 1),
        "n": (17, 6),  # / 8
        "scale_format": (23, 1),
        "m": (24, 5),  # / 16
        "a_scale_byte": (29, 2),
    }
)
SCALE_FORMAT = {"e4m3": 0, "u8": 1}  # ue4m3, ue8m0
SHARED: Layout = MappingProxyType(
    {
        "start": (0, 14),  # / 16, as the offsets
        "leading": (16, 14),
        "stride": (32, 14),
        "version": (46, 2),
        "base": (49, 3),
        "leading_mode": (52, 1),
        "swizzle": (61, 3),
    }
)
RESULT = {"f16": 0, "f32": 1, "i32": 2}
SWIZZLE = {0: 0, 128: 2, 64: 4, 32: 6}  # bytes of a row of the swizzle: the mode
VERSION = 1


def word(layout: Layout, **values: int) -> int:
    """The word in which fields have these values, and all others 0. Raises ValueError for a value that does not fit,
    KeyError for a field that there is not."""
    total = 0
    for name, value in values.items():
        first, bits = layout[name]
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name} = {value} does not fit {bits} bits")
        total |= value << first
    return total


def fields(layout: Layout, descriptor: int) -> dict[str, int]:
    """All fields of a word. Raises ValueError where a bit is set that belongs to none."""
    found = {name: descriptor >> first & (1 << bits) - 1 for name, (first, bits) in layout.items()}
    if word(layout, **found) != descriptor:
        raise ValueError(f"{descriptor:#x} has bits that are reserved")
    return found


def instruction(
    kind: Kind,
    dtypes: tuple[str, str],
    into: str,
    m: int,
    n: int,
    mn_major: tuple[bool, bool],
    cta_group: int = 1,
    scale_byte: int = 0,
) -> int:
    """The descriptor of a product by one CTA or two: dtypes of A and B, and whether M, N are contiguous in shared
    memory. Raises ValueError for what the kind has not."""
    operand = dict(kind.operands)
    a, b = dtypes
    if a not in operand or b not in operand or (a != b and not kind.mixed) or into not in kind.results:
        raise ValueError(f"kind {kind.name} does not multiply {a} by {b} into {into}")
    if any(mn_major) and not kind.mn_major:
        raise ValueError(f"operands of kind {kind.name} are K-major")
    if reason := misfit(kind, m, n, cta_group):
        raise ValueError(reason)
    common = {"a": operand[a], "b": operand[b], "a_mn_major": int(mn_major[0]), "b_mn_major": int(mn_major[1])}
    common |= {"n": n >> 3, "m": m >> 4}
    if not kind.factors:
        return word(INSTRUCTION, d=RESULT[into], **common)
    byte = {"a_scale_byte": scale_byte, "b_scale_byte": scale_byte}
    return word(SCALED, scale_format=SCALE_FORMAT[kind.scale], **byte, **common)


def shared(start: int, leading: int, stride: int, swizzle: int) -> int:
    """The descriptor of a matrix in shared memory; all numbers are bytes, multiples of 16, `swizzle` one of 0, 32, 64,
    128. Raises ValueError for others."""
    if any(each % 16 for each in (start, leading, stride)):
        raise ValueError(f"{start}, {leading}, {stride}: addresses and offsets are multiples of 16 bytes")
    if swizzle not in SWIZZLE:
        raise ValueError(f"no swizzle has rows of {swizzle} bytes")
    return word(
        SHARED, start=start >> 4, leading=leading >> 4, stride=stride >> 4, version=VERSION, swizzle=SWIZZLE[swizzle]
    )


def k_major(start: int, swizzle: int) -> int:
    """Of a matrix in contiguous rows of `swizzle` bytes of K. The leading offset is not used; it has the value 1 that
    CUTLASS gives it."""
    return shared(start, 16, 8 * swizzle, swizzle)


def mn_major(start: int, swizzle: int, panel: int) -> int:
    """Of a matrix in panels of `swizzle` bytes of M or N, `panel` bytes from one to the next; the rows of K in a panel
    are contiguous. Without a swizzle panels are 16 bytes wide, and each offset stands in the other one's field."""
    leading, stride = panel, 8 * (swizzle or 16)
    return shared(start, leading, stride, swizzle) if swizzle else shared(start, stride, leading, 0)
