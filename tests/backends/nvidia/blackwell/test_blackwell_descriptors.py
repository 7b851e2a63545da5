"""Descriptors and shapes of tcgen05 against published words, and field by field against what sources give."""

from __future__ import annotations

import itertools

import pytest

from minitile.backends.nvidia.blackwell.descriptors import (
    INSTRUCTION,
    SCALED,
    SHARED,
    fields,
    instruction,
    k_major,
    mn_major,
    shared,
    word,
)
from minitile.backends.nvidia.blackwell.shapes import (
    F8F6F4,
    F16,
    I8,
    KINDS,
    MXF4,
    MXF8,
    NVF4,
    TF32,
    Kind,
    allocated,
    columns,
    kind_of,
    lane,
    misfit,
)

# First bit and bits of each field. CUTLASS: include/cute/arch/mma_sm100_desc.hpp, the comments of InstrDescriptor and
# SmemDescriptor. Triton: MMAv5.cpp, the bit fields of TCGen5InstructionDescriptor; MMAHelpers.h, SMEMDescriptor (whose
# swizzlingMode is the upper two of the three bits, and whose version is bit 46, set for MMAv5). JAX: tcgen05.py,
# create_instr_descriptor. None: not named there.
INSTRUCTION_FIELDS = {  # CUTLASS, Triton, JAX (which shifts: no widths, but those of its comments)
    "sparsity_selector": ((0, 2), (0, 2), (0, 2)),
    "sparse": ((2, 1), (2, 1), (2, 1)),
    "saturate": ((3, 1), None, None),
    "d": ((4, 2), (4, 2), (4, 2)),
    "a": ((7, 3), (7, 3), (7, 3)),
    "b": ((10, 3), (10, 3), (10, 3)),
    "negate_a": ((13, 1), (13, 1), (13, 1)),
    "negate_b": ((14, 1), (14, 1), (14, 1)),
    "a_mn_major": ((15, 1), (15, 1), (15, 1)),
    "b_mn_major": ((16, 1), (16, 1), (16, 1)),
    "n": ((17, 6), (17, 6), (17, 6)),
    "m": ((24, 5), (24, 5), (24, 5)),
    "shift": ((30, 2), (30, 2), (30, 2)),
}
SCALED_FIELDS = {  # CUTLASS, InstrDescriptorBlockScaled; Triton, createScaleInstDescriptor
    "sparsity_selector": ((0, 2), (0, 2)),
    "sparse": ((2, 1), (2, 1)),
    "b_scale_byte": ((4, 2), (4, 2)),
    "a": ((7, 3), (7, 3)),
    "b": ((10, 3), (10, 3)),
    "negate_a": ((13, 1), (13, 1)),
    "negate_b": ((14, 1), (14, 1)),
    "a_mn_major": ((15, 1), (15, 1)),
    "b_mn_major": ((16, 1), (16, 1)),
    "n": ((17, 6), (17, 6)),
    "scale_format": ((23, 1), (23, 1)),
    "m": ((24, 5), (24, 5)),
    "a_scale_byte": ((29, 2), (29, 2)),
}
SHARED_FIELDS = {  # CUTLASS, Triton
    "start": ((0, 14), (0, 14)),
    "leading": ((16, 14), (16, 14)),
    "stride": ((32, 14), (32, 14)),
    "version": ((46, 2), None),
    "base": ((49, 3), (49, 3)),
    "leading_mode": ((52, 1), (52, 1)),
    "swizzle": ((61, 3), None),
}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(INSTRUCTION, INSTRUCTION_FIELDS), (SCALED, SCALED_FIELDS), (SHARED, SHARED_FIELDS)],
)
def test_fields(ours, theirs):
    assert {name: places[0] for name, places in theirs.items()} == dict(ours)
    assert all(other in (None, places[0]) for places in theirs.values() for other in places[1:])
    taken = [bit for first, bits in ours.values() for bit in range(first, first + bits)]
    assert len(taken) == len(set(taken))


# Words as they stand in public code, each with two places.
@pytest.mark.parametrize(
    ("published", "kind", "dtype", "m", "n", "b_mn_major"),
    [
        # CuTe DSL's IR of a dense bf16 GEMM of 128x256 (as 138413200), and pyptx's make_instr_desc_f16bf16_f32.
        (0x8400490, F16, "bf16", 128, 256, False),
        (0x8400010, F16, "f16", 128, 256, False),  # the same with f16
        # TIRx's flash_attention4: _QK_IDESC, _PV_IDESC (V is N-major); TileLang's generated tcgen05mma_ss of 128x128.
        (136316048, F16, "bf16", 128, 128, False),
        (136381584, F16, "bf16", 128, 128, True),
        (136314896, F16, "f16", 128, 128, False),
    ],
)
def test_published_instructions(published: int, kind: Kind, dtype: str, m: int, n: int, b_mn_major: bool) -> None:
    assert instruction(kind, (dtype, dtype), "f32", m, n, (False, b_mn_major)) == published
    found = fields(INSTRUCTION, published)
    assert (found["m"] << 4, found["n"] << 3, found["d"], found["b_mn_major"]) == (m, n, 1, b_mn_major)


def test_published_matrices():
    # pyptx, BLACKWELL_MASKED_DESC_B128, and TIRx's kernels: 128-byte rows of K, 1024 bytes from 8 rows to the next 8.
    assert k_major(0, 128) == 0x4000404000010000
    # TIRx's kernels: N-major, 64 columns of bf16 in a panel, 8192 bytes from panel to panel (64 of K).
    assert mn_major(0, 128, 8192) == 0x4000404002000000
    # TIRx's kernels: factors of blocks, not swizzled, 128 bytes from 8 rows to the next 8.
    assert shared(0, 16, 128, 0) == 0x400800010000
    # gau-nernst's tcgen05 kernels and others: the address in its field, 1 << 46 and 2 << 61, no leading offset.
    assert shared(0x12340, 0, 1024, 128) == 0x12340 >> 4 | (1024 >> 4) << 32 | 1 << 46 | 2 << 61


@pytest.mark.parametrize(("swizzle", "mode"), [(128, 2), (64, 4), (32, 6), (0, 0)])
def test_swizzles(swizzle: int, mode: int) -> None:
    """CUTLASS, UMMA::LayoutType; Triton has bits 62-63 alone, in which these are 1, 2, 3 and 0."""
    assert fields(SHARED, shared(0, 16, 512, swizzle))["swizzle"] == mode
    assert shared(0, 16, 512, swizzle) >> 62 == {128: 1, 64: 2, 32: 3, 0: 0}[swizzle]


def test_unswizzled_offsets_change_places():
    """DeepGEMM, make_umma_desc: `if (kSwizzleMode == 16) swap(stride, leading)`."""
    found = fields(SHARED, mn_major(0, 0, 2048))
    assert (found["leading"] << 4, found["stride"] << 4) == (128, 2048)
    found = fields(SHARED, mn_major(0, 64, 2048))
    assert (found["leading"] << 4, found["stride"] << 4) == (2048, 512)


def test_formats():
    """CUTLASS: F16F32Format, S8Format, MXF8F6F4Format, CFormat; Triton: getTypeEncoding, dType."""
    for dtypes, kind, into, numbers in (
        (("f32", "f32"), TF32, "f32", (2, 2, 1)),
        (("e4m3", "e5m2"), F8F6F4, "f32", (0, 1, 1)),
        (("u8", "i8"), I8, "i32", (0, 1, 2)),
        (("bf16", "bf16"), F16, "f32", (1, 1, 1)),
    ):
        found = fields(INSTRUCTION, instruction(kind, dtypes, into, 128, 64, (False, False)))
        assert (found["a"], found["b"], found["d"]) == numbers
        assert kind_of(*dtypes, into) is kind


def test_formats_with_scales():
    """CUTLASS: MXF8F6F4Format, MXF4Format (E2M1 is 1), ScaleFormat; Triton: getTypeEncoding, scaleType. The bytes of a
    word that an instruction may begin at: PTX ISA 8.8, 9.7.16.10.7."""
    for dtypes, scale, kind, numbers in (
        (("e4m3", "e5m2"), "u8", MXF8, (0, 1, 1)),
        (("e2m1", "e2m1"), "u8", MXF4, (1, 1, 1)),
        (("e2m1", "e2m1"), "e4m3", NVF4, (1, 1, 0)),
    ):
        assert kind_of(*dtypes, "f32", scale) is kind
        assert kind_of(*dtypes, "f32") is (F8F6F4 if kind is MXF8 else None)
        for byte in range(0, 4, kind.factors):
            found = fields(SCALED, instruction(kind, dtypes, "f32", 128, 64, (False, False), scale_byte=byte))
            assert (found["a"], found["b"], found["scale_format"]) == numbers
            assert (found["m"] << 4, found["n"] << 3) == (128, 64)
            assert found["a_scale_byte"] == found["b_scale_byte"] == byte
    whole = instruction(MXF8, ("e4m3", "e4m3"), "f32", 128, 256, (False, False))
    assert whole == 1 << 27 | 1 << 23 | 256 >> 3 << 17
    with pytest.raises(ValueError, match="M is 64 or 128"):
        instruction(MXF8, ("e4m3", "e4m3"), "f32", 64, 64, (False, False))


def test_what_is_refused():
    with pytest.raises(ValueError, match="does not multiply f16 by bf16"):
        instruction(F16, ("f16", "bf16"), "f32", 128, 64, (False, False))
    with pytest.raises(ValueError, match="K-major"):
        instruction(TF32, ("f32", "f32"), "f32", 128, 64, (False, True))
    with pytest.raises(ValueError, match="M is 64 or 128"):
        instruction(F16, ("f16", "f16"), "f32", 256, 64, (False, False))
    with pytest.raises(ValueError, match="not 12"):
        instruction(F16, ("f16", "f16"), "f32", 64, 12, (False, False))
    with pytest.raises(ValueError, match="multiples of 16"):
        shared(8, 16, 1024, 128)
    with pytest.raises(ValueError, match="rows of 16 bytes"):
        shared(0, 16, 1024, 16)
    with pytest.raises(ValueError, match="does not fit 14 bits"):
        shared(1 << 18, 16, 1024, 128)
    with pytest.raises(ValueError, match="reserved"):
        fields(INSTRUCTION, 1 << 6)
    assert kind_of("f16", "bf16", "f32") is None
    assert kind_of("f16", "f16", "f16") is None


def test_words_and_fields_are_inverse():
    for layout in (INSTRUCTION, SCALED, SHARED):
        for name, (_, bits) in layout.items():
            value = (1 << bits) - 1
            assert fields(layout, word(layout, **{name: value})) == {each: value * (each == name) for each in layout}


# N: (first, last, step) of table 39, and what CUTLASS's static_asserts of the _SS forms allow.
ISA = {
    ("f16", 1): {64: set(range(8, 257, 8)), 128: set(range(8, 257, 8))},
    ("f16", 2): {128: set(range(16, 257, 16)), 256: set(range(16, 257, 16))},
    ("i8", 1): {m: {8, 16, 24, 32, *range(48, 257, 16)} for m in (64, 128)},
    ("i8", 2): {m: set(range(32, 257, 32)) for m in (128, 256)},
}
CUTLASS = {
    ("f16", 1): {m: {n for n in range(1, 300) if n % 8 == 0 and 8 <= n <= 256} for m in (64, 128)},
    ("f16", 2): {m: {n for n in range(1, 300) if n % 16 == 0 and 16 <= n <= 256} for m in (128, 256)},
    ("i8", 1): {m: {n for n in range(1, 300) if n == 8 or (n % 16 == 0 and 16 <= n <= 256)} for m in (64, 128)},
    ("i8", 2): {m: {n for n in range(1, 300) if n % 32 == 0 and 32 <= n <= 256} for m in (128, 256)},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_shapes(kind: Kind) -> None:
    for group, m, n in itertools.product((1, 2), (16, 32, 64, 96, 128, 192, 256), range(300)):
        table = "i8" if kind is I8 else "f16"
        allowed = all(n in source[table, group].get(m, set()) for source in (ISA, CUTLASS))
        allowed = allowed and not (kind.factors and m == 64)  # with scales M is 128, of a pair 128 or 256
        assert (misfit(kind, m, n, group) == "") == (n in columns(kind, m, group)) == allowed, (group, m, n)
    assert kind.k == {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(kind.name, 32)


def test_shapes_with_a_in_tensor_memory():
    """CUTLASS's _TS forms: steps of 8 for M = 64, of 16 for M = 128."""
    assert columns(F16, 64, a_in_tensor_memory=True)[:2] == (8, 16)
    assert columns(F16, 128, a_in_tensor_memory=True)[:2] == (16, 32)


def test_allocations():
    assert [allocated(n) for n in (1, 32, 33, 64, 200, 256, 257, 512)] == [32, 32, 64, 64, 256, 256, 512, 512]
    for n in (0, 513):
        with pytest.raises(ValueError, match="columns of tensor memory"):
            allocated(n)


def test_lanes():
    """JAX: an accumulator of 64 rows has 16 lanes of each warp's 32 (`lanes_per_n_group`); of 128 all."""
    assert [lane(128, row) for row in (0, 31, 32, 127)] == [0, 31, 32, 127]
    assert [lane(64, row) for row in (0, 15, 16, 32, 63)] == [0, 15, 32, 64, 111]
