"""The products that tcgen05.mma has: for each kind the dtypes, and which M and N by the size of the CTA group.

Dense products without `.ws`. Sources: PTX ISA 8.8, 9.7.16.2.1 "Matrix Shape", table 39;
CUTLASS, include/cute/arch/mma_sm100_umma.hpp (the static_asserts of SM100_MMA_*_SS and _TS); JAX,
jax/experimental/mosaic/gpu/tcgen05.py (`mma`). Where they differ, the table has what all of them allow: for i8 CUTLASS
has no N of 24, which the ISA has; with A in tensor memory CUTLASS wants steps of 16 for M = 128, the ISA 8.

An instruction takes 32 bytes of K, whatever the kind.
"""

from __future__ import annotations

from dataclasses import dataclass

ATOM_K_BYTES = 32  # of K in one instruction
MOST_COLUMNS = 256  # N of one instruction
LANES, COLUMNS = 128, 512  # of tensor memory, of 32 bits each
LEAST_COLUMNS = 32  # of an allocation, which is a power of two of columns


@dataclass(frozen=True, slots=True)
class Kind:
    """What one `.kind::name` multiplies: dtypes of A and B (any two of them), into which dtypes; the bits that say each
    operand's dtype in an instruction descriptor."""

    name: str
    operands: tuple[tuple[str, int], ...]
    results: tuple[str, ...]
    bits: int
    mixed: bool = False  # A and B may differ
    mn_major: bool = True  # M or N may be contiguous in shared memory, in layouts that there are (descriptors.py)
    factors: int = 0  # scales of blocks, of each row, for one instruction
    scale: str = ""  # what those are, by minitile's dtype: u8 are powers of two (ue8m0), e4m3 numbers without a sign

    @property
    def suffix(self) -> str:
        """Of the instruction's name (PTX ISA 8.8, 9.7.16.10.7)."""
        return f"{self.name}.block_scale.scale_vec::{self.factors}X" if self.factors else self.name

    @property
    def k(self) -> int:
        """Elements of K in one instruction."""
        return ATOM_K_BYTES * 8 // self.bits


F16 = Kind("f16", (("f16", 0), ("bf16", 1)), ("f32",), 16)
TF32 = Kind("tf32", (("f32", 2),), ("f32",), 32, mn_major=False)
F8F6F4 = Kind("f8f6f4", (("e4m3", 0), ("e5m2", 1)), ("f32",), 8, mixed=True)
I8 = Kind("i8", (("u8", 0), ("i8", 1)), ("i32",), 8, mixed=True)
# Block-scaled kinds; e2m1 is packed, two elements to a byte, and K-major.
MXF8 = Kind("mxf8f6f4", (("e4m3", 0), ("e5m2", 1)), ("f32",), 8, mixed=True, factors=1, scale="u8")
MXF4 = Kind("mxf4", (("e2m1", 1),), ("f32",), 4, mn_major=False, factors=2, scale="u8")
NVF4 = Kind("mxf4nvf4", (("e2m1", 1),), ("f32",), 4, mn_major=False, factors=4, scale="e4m3")
KINDS = (F16, TF32, F8F6F4, I8, MXF8, MXF4, NVF4)


def kind_of(a: str, b: str, result: str, scale: str = "") -> Kind | None:
    """The kind that multiplies these dtypes into that one, with scales of blocks of that dtype; None where there is
    none. Accumulators of f16 are not used: each fills a column of 32 bits."""
    for kind in KINDS:
        names = dict(kind.operands)
        if a in names and b in names and (a == b or kind.mixed) and result in kind.results and scale == kind.scale:
            return kind
    return None


def columns(kind: Kind, m: int, cta_group: int = 1, a_in_tensor_memory: bool = False) -> tuple[int, ...]:
    """The N that a product of `m` rows may have, ascending; empty where there is no such M."""
    if m not in {1: (64, 128), 2: (128, 256)}.get(cta_group, ()) or (kind.factors and m == 64):
        return ()
    if kind is I8:
        return (8, *range(16, 257, 16)) if cta_group == 1 else tuple(range(32, 257, 32))
    step = 8 if cta_group == 1 else 16
    if a_in_tensor_memory and m != 64:
        step *= 2
    return tuple(range(step, MOST_COLUMNS + 1, step))


def misfit(kind: Kind, m: int, n: int, cta_group: int = 1, a_in_tensor_memory: bool = False) -> str:
    """Why there is no product of m × n; "" where there is one."""
    fit = columns(kind, m, cta_group, a_in_tensor_memory)
    if not fit:
        return f"M is 64 or 128, or 128 or 256 of a pair of CTAs, not {m} of {cta_group}"
    if n not in fit:
        return f"N of kind {kind.name} is one of {fit[0]}, {fit[1]}, …, {fit[-1]} for M = {m}, not {n}"
    return ""


def allocated(needed: int) -> int:
    """Columns to allocate for so many: a power of two, 32 at least. Raises ValueError for more than there are."""
    if not 0 < needed <= COLUMNS:
        raise ValueError(f"{needed} columns of tensor memory; there are 1 to {COLUMNS}")
    return max(LEAST_COLUMNS, 1 << (needed - 1).bit_length())


def lane(m: int, row: int) -> int:
    """The lane of a row of an accumulator of m rows (PTX ISA 8.8, 9.7.16.10.5, layouts D and F)."""
    return row if m == 128 else row // 16 * 32 + row % 16
