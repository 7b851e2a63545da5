"""Shared layouts: swizzles against the published pattern, offsets, inverse, constants taken out of addresses."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minitile.layout import AddressDigit, LayoutError, SharedLayout, Swizzle, boxed, row_major, swizzled
from minitile.layout.shared import add_maybe_bits, bits_of_multiple

BUDGET = settings(max_examples=200, deadline=None)

# Which 16-byte chunk of its row, panel row by row, holds chunk 0, 1, 2, ... : the pattern of TMA's swizzle modes.
SWIZZLE_128 = [
    [0, 1, 2, 3, 4, 5, 6, 7],
    [1, 0, 3, 2, 5, 4, 7, 6],
    [2, 3, 0, 1, 6, 7, 4, 5],
    [3, 2, 1, 0, 7, 6, 5, 4],
    [4, 5, 6, 7, 0, 1, 2, 3],
    [5, 4, 7, 6, 1, 0, 3, 2],
    [6, 7, 4, 5, 2, 3, 0, 1],
    [7, 6, 5, 4, 3, 2, 1, 0],
]
SWIZZLE_64 = [[0, 1, 2, 3], [0, 1, 2, 3], [1, 0, 3, 2], [1, 0, 3, 2], [2, 3, 0, 1], [2, 3, 0, 1], [3, 2, 1, 0]]
SWIZZLE_32 = [[0, 1], [0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 0], [1, 0]]


@pytest.mark.parametrize(("width", "pattern"), [(128, SWIZZLE_128), (64, SWIZZLE_64), (32, SWIZZLE_32)])
def test_swizzle_patterns(width: int, pattern: list[list[int]]) -> None:
    tile = swizzled((16, width // 2), 16)
    assert tile.swizzle == Swizzle(width)
    for row, chunks in enumerate(pattern):
        for chunk, place in enumerate(chunks):
            for again in (0, 8):
                assert tile.offset((row + again, chunk * 8)) == (row + again) * width + place * 16
                assert tile.offset((row + again, chunk * 8 + 5)) == (row + again) * width + place * 16 + 10


def test_swizzle_periods_and_terms() -> None:
    assert [Swizzle(w).period for w in (0, 32, 64, 128)] == [1, 256, 512, 1024]
    assert [Swizzle(w).mask for w in (0, 32, 64, 128)] == [0, 0x10, 0x30, 0x70]
    assert swizzled((64, 64), 16).xor_terms() == (3, 0x70)
    assert row_major((64, 64), 16).xor_terms() is None
    with pytest.raises(LayoutError, match="not 96"):
        Swizzle(96)


def test_a_row_of_192_bytes_is_three_panels_of_64() -> None:
    tile = swizzled((64, 96), 16)
    assert str(tile) == "shared<64x96xb16; 64:512; 32:16, 3:32768; swizzle 64>"
    assert (tile.size_bytes, tile.alignment) == (64 * 192, 512)
    assert tile.offset((0, 32)) == 4096
    assert tile.offset((2, 32)) == 4096 + 2 * 64 + 16
    assert tile.address_terms() == ((0, 1, None, 64), (1, 1, 32, 2), (1, 32, None, 4096))


@pytest.mark.parametrize(
    ("shape", "bits", "width", "text"),
    [
        ((128, 64), 16, 128, "shared<128x64xb16; 128:1024; 64:16; swizzle 128>"),
        ((64, 256), 16, 128, "shared<64x256xb16; 64:1024; 64:16, 4:65536; swizzle 128>"),
        ((128, 64), 8, 64, "shared<128x64xb8; 128:512; 64:8; swizzle 64>"),
        ((8, 24), 32, 32, "shared<8x24xb32; 8:256; 8:32, 3:2048; swizzle 32>"),
        ((3, 16, 64), 16, 128, "shared<3x16x64xb16; 3:16384; 16:1024; 64:16; swizzle 128>"),
        ((64, 20), 16, 0, "shared<64x20xb16; 64:320; 20:16>"),
        ((256,), 16, 0, "shared<256xb16; 256:16>"),
        ((4, 6, 128), 16, 128, "shared<4x6x128xb16; 4:16384; 6:1024; 64:16, 2:8192; swizzle 128>"),
    ],
)
def test_swizzled_takes_the_widest_that_divides(shape: tuple[int, ...], bits: int, width: int, text: str) -> None:
    tile = swizzled(shape, bits)
    assert tile.swizzle.width == width
    assert str(tile) == text


def test_a_panel_starts_at_a_multiple_of_the_period() -> None:
    tile = swizzled((12, 128), 16)  # 12 rows of 128 B are 1.5 periods
    assert tile.offset((0, 64)) == 2048


def test_padding() -> None:
    tile = row_major((4, 6), 8, pad=2)
    assert tile.offset((2, 3)) == 19
    assert tile.size_bytes == 30
    assert tile.inverse(19) == (2, 3)
    assert tile.inverse(6) is None
    assert str(tile) == "shared<4x6xb8; 4:64; 6:8>"


def test_sizes_of_stages() -> None:
    tile = swizzled((12, 64), 16)
    assert (tile.size_bytes, tile.stage_bytes) == (1536, 2048)
    assert row_major((3,), 32).stage_bytes == 16


def test_elements_below_a_byte() -> None:
    tile = row_major((4, 8), 4)
    assert tile.affine_bits((1, 3)) == 44
    assert tile.offset((1, 3)) == 5
    with pytest.raises(LayoutError, match="moves by 4 bits"):
        tile.address_terms()


def test_transposed_view() -> None:
    tile = swizzled((64, 96), 16).permute_dims((1, 0))
    assert tile.contiguous_dim == 0
    assert tile.offset((32, 2)) == 4096 + 2 * 64 + 16


@pytest.mark.parametrize(
    ("tile", "dim", "run"),
    [
        (swizzled((128, 64), 16), 1, 8),
        (swizzled((128, 64), 16), 0, 1),
        (swizzled((128, 64), 8), 1, 16),
        (row_major((128, 64), 16), 1, 64),
        (SharedLayout.parse("shared<8x12xb16; 8:192; 4:16, 3:1536>"), 1, 4),
    ],
)
def test_contiguous_elems(tile: SharedLayout, dim: int, run: int) -> None:
    assert tile.contiguous_elems(dim) == run


def test_split_constant_on_the_gemm_tile() -> None:
    tile = swizzled((128, 64), 16)
    # ldmatrix rows: lane % 16 rows, columns 0 or 8 within a 16-column block, any k block from the constant.
    rows, columns = 0b1111, 0b1000
    assert tile.split_constant((16, 0), (rows, columns)) == (0, 2048)  # whole periods are an immediate
    assert tile.split_constant((0, 16), (rows, columns)) == (32, 0)  # chunk bits that the rows turn: xor
    assert tile.split_constant((64, 48), (rows, columns)) == (96, 8192)
    assert tile.split_constant((0, 16), (0b1111000, columns)) == (0, 32)  # rows are multiples of 8: nothing turns
    assert tile.split_constant((0, 8), (rows, columns)) is None  # may carry
    assert tile.split_constant((1, 0), (rows, columns)) is None
    assert tile.split_constant((1, 0), (0, columns)) == (16, 128)  # xor of a chunk bit, add of a row bit
    assert row_major((128, 64), 16).split_constant((3, 5), (rows, columns)) == (0, 3 * 128 + 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shared<8x8xb16; 8:64; 8:16>", r"moves by 64 bits, into the 128 bits"),
        ("shared<8x8xb16; 4:128; 8:16>", r"do not cover 8 coordinates of dimension 0"),
        ("shared<8x8xb16; 8:128>", r"1 lists of digits for the shape"),
        ("shared<8x8xb24; 8:192; 8:24; swizzle 32>", r"elements have 24 bits"),
        ("shared<8x8xb16; 8:144; 8:16; swizzle 32>", r"144 bits straddle"),
        ("shared<8x8xb16; 8:a; 8:16>", r"not digits"),
        ("shared 8", r"not a shared layout"),
    ],
)
def test_what_breaks_a_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        SharedLayout.parse(text)


def test_a_swizzle_asked_for_must_divide() -> None:
    with pytest.raises(LayoutError, match="128-byte swizzle does not divide the 192-byte rows"):
        swizzled((64, 96), 16, 128)
    assert swizzled((64, 64), 16, 32).swizzle.width == 32


@st.composite
def shared_layouts(draw: st.DrawFn) -> SharedLayout:
    """Digits of all dimensions stacked in any order, some padded; swizzled where whole chunks stay together."""
    rank, bits = draw(st.integers(1, 3)), draw(st.sampled_from([8, 16, 32]))
    width = draw(st.sampled_from([0, 32, 64, 128]))
    dims: list[list[AddressDigit]] = [[] for _ in range(rank)]
    stride = bits
    if width:
        chunk = 128 // bits
        dims[draw(st.sampled_from(range(rank)))].append(AddressDigit(chunk * draw(st.sampled_from([1, 2, 4])), bits))
        stride = max(d[0].size for d in dims if d) * bits
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.sampled_from([2, 3, 4, 8]))
        pad = draw(st.sampled_from([0, 0, 0, 128 if width else bits]))
        stride += pad
        dims[draw(st.sampled_from(range(rank)))].append(AddressDigit(size, stride))
        stride *= size
    shape = []
    for digits in dims:
        most = 1
        for size, _ in digits:
            most *= size
        shape.append(draw(st.integers(max(1, most // 2), most)))
    elements = 1
    for size in shape:
        elements *= size
    assume(elements <= 4096)
    return SharedLayout(tuple(shape), bits, tuple(map(tuple, dims)), Swizzle(width))


@BUDGET
@given(shared_layouts())
def test_offsets_are_a_bijection_with_the_inverse(tile: SharedLayout) -> None:
    seen = {}
    for coords in itertools.product(*map(range, tile.shape)):
        offset = tile.offset(coords)
        assert offset not in seen
        assert offset % (tile.element_bits // 8) == 0
        assert 0 <= offset <= tile.size_bytes - tile.element_bits // 8
        seen[offset] = coords
    for offset in range(tile.size_bytes):
        assert tile.inverse(offset) == seen.get(offset)


@BUDGET
@given(shared_layouts(), st.data())
def test_terms_add_up(tile: SharedLayout, data: st.DataObject) -> None:
    coords = [data.draw(st.integers(0, size - 1)) for size in tile.shape]
    offset = 0
    for dim, divisor, size, stride in tile.address_terms():
        value = coords[dim] // divisor
        offset += (value if size is None else value % size) * stride
    if (terms := tile.xor_terms()) is not None:
        shift, mask = terms
        offset ^= (offset >> shift) & mask
    assert offset == tile.offset(coords)


@BUDGET
@given(shared_layouts())
def test_text_parses_back(tile: SharedLayout) -> None:
    assert SharedLayout.parse(str(tile)) == tile


@settings(max_examples=500, deadline=None)
@given(st.one_of(shared_layouts(), st.sampled_from([swizzled((64, 96), 16), swizzled((128, 128), 16)])), st.data())
def test_a_split_constant_holds_for_every_base(tile: SharedLayout, data: st.DataObject) -> None:
    constant, bases, masks = [], [], []
    for size in tile.shape:
        constant.append(data.draw(st.integers(0, size - 1)))
        mask = data.draw(st.one_of(st.integers(0, 127), st.sampled_from([1, 2, 4, 8, 16]).map(bits_of_multiple)))
        masks.append(mask)
        bases.append([b for b in range(size - constant[-1]) if not b & ~mask])
    split = tile.split_constant(constant, masks)
    if split is None:
        return
    for base in itertools.islice(itertools.product(*bases), 500):
        whole = tile.offset([b + c for b, c in zip(base, constant, strict=True)])
        assert whole == (tile.offset(base) ^ split.xor) + split.add


@settings(max_examples=300, deadline=None)
@given(st.one_of(shared_layouts(), st.sampled_from([swizzled((64, 96), 16), swizzled((8, 64), 16)])), st.data())
def test_a_split_constant_holds_for_bases_below_the_tile(tile: SharedLayout, data: st.DataObject) -> None:
    """A thread's first element may lie below a tile that its second one is in."""
    constant = [data.draw(st.integers(0, 2 * size)) for size in tile.shape]
    masks = [data.draw(st.sampled_from([1, 2, 4, 8, 16, 64]).map(bits_of_multiple)) for _ in tile.shape]
    below = [data.draw(st.booleans()) for _ in tile.shape]
    split = tile.split_constant(constant, masks, below)
    if split is None:
        return
    bases = [
        [b for b in range(-c if low else 0, size - c) if not b & ~mask]
        for size, c, mask, low in zip(tile.shape, constant, masks, below, strict=True)
    ]
    for base in itertools.islice(itertools.product(*bases), 300):
        whole = tile.offset([b + c for b, c in zip(base, constant, strict=True)])
        assert whole == (tile.offset(base) ^ split.xor) + split.add


def test_a_base_below_the_tile_has_other_rows() -> None:
    """64 columns on from a column that is not negative is no element of this tile; from one below it, another row."""
    tile = swizzled((8, 64), 16)
    rows, columns = 0b110, bits_of_multiple(64) | 0b111
    assert tile.split_constant((0, 64), (rows, columns)) is not None
    assert tile.split_constant((0, 64), (rows, columns), (False, True)) is None


@given(st.integers(0, 255), st.integers(0, 255))
def test_maybe_bits_of_sums(a: int, b: int) -> None:
    most = add_maybe_bits(a, b)
    for x in (a, a & 0x55, a & 0x0F, a & -a):
        for y in (b, b & 0x33, b & 0xF0, b & -b):
            assert not (x + y) & ~most


def test_boxes_without_a_swizzle() -> None:
    """Rows of an odd number of 16 bytes: panels of 16 bytes; all others as `swizzled` has them."""
    layout = boxed((64, 24), 16)
    assert str(layout) == "shared<64x24xb16; 64:128; 8:16, 3:8192>"
    assert sorted(layout.offset((r, c)) for r in range(64) for c in range(24)) == list(range(0, 64 * 48, 2))
    assert layout.offset((5, 17)) == 2 * 64 * 16 + 5 * 16 + 2
    assert boxed((64, 32), 16) == swizzled((64, 32), 16)
    assert boxed((64, 20), 16) == swizzled((64, 20), 16)
