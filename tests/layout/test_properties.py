"""Properties of any register layout, and of moving data between two, against plain simulation with NumPy arrays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minitile.layout import (
    Digit,
    LaneSwaps,
    Layout,
    blocked,
    conversion,
    lane_exchange,
    lane_swaps,
    mma_accumulator,
    register_permutation,
    stays_in_warps,
    wgmma_accumulator,
    wgmma_operand_a,
)
from minitile.layout.atoms import M16N8K16

BUDGET = settings(max_examples=150, deadline=None)


@st.composite
def layouts(draw: st.DrawFn, max_rank: int = 3, exact: bool = False) -> Layout:
    """Any layout: factors assigned to places and dimensions in any order, some of the reach cut off the shape."""
    rank = draw(st.integers(0, max_rank))
    dims = st.sampled_from([None, *range(rank)])
    lanes = draw(st.sampled_from([(32,), (4, 8), (2, 16), (8, 2, 2), (2, 2, 2, 2, 2)]))
    pieces = [("lane", size, draw(dims)) for size in lanes]
    pieces += [("warp", size, draw(dims)) for size in draw(st.lists(st.sampled_from([2, 3, 4]), max_size=2))]
    if rank:
        held = st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from(range(rank)))
        pieces += [("reg", size, dim) for size, dim in draw(st.lists(held, max_size=4))]
    reach = [1] * rank
    places: dict[str, list[Digit]] = {"reg": [], "lane": [], "warp": []}
    for place, size, dim in draw(st.permutations(pieces)):
        places[place].append(Digit(size, dim, 0 if dim is None else reach[dim]))
        if dim is not None:
            reach[dim] *= size
    ordered = [tuple(draw(st.permutations(places[place]))) for place in ("reg", "lane", "warp")]
    shape = tuple(reach if exact else (draw(st.integers(max(1, size // 2), size)) for size in reach))
    return Layout(shape, *ordered)


def slots(layout: Layout) -> list[tuple[int, int, int]]:
    return list(itertools.product(range(layout.num_regs), range(layout.num_lanes), range(layout.num_warps)))


def distribute(layout: Layout, tile: np.ndarray) -> np.ndarray:
    """The tile's elements as [warps, lanes, regs], -1 where masked."""
    coords = layout.coord_array()
    inside = (coords < np.array(layout.shape, dtype=np.int64)).all(axis=-1)
    clipped = np.minimum(coords, np.array(layout.shape, dtype=np.int64) - 1)
    return np.where(inside, tile[tuple(np.moveaxis(clipped, -1, 0))], -1)


def swapped(held: np.ndarray, how: LaneSwaps) -> np.ndarray:
    """[warps, lanes, regs] after the swaps: a lane gives away the half of the registers that is not its own."""
    atoms = list(how.before)
    for bit, atom, other in how.swaps:
        below = int(np.prod([a.size for a in atoms[: atoms.index(atom)]]))
        halves = [held[:, :, np.arange(held.shape[2]) // below % 2 == half] for half in (0, 1)]
        after = [half.copy() for half in halves]
        for lane in range(held.shape[1]):
            mine = lane >> bit & 1
            after[1 - mine][:, lane] = halves[mine][:, lane ^ 1 << bit]
        held, atoms = np.concatenate(after, axis=2), [*(a for a in atoms if a != atom), other]
    return held[:, :, list(how.order)]


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)


@BUDGET
@given(layouts())
def test_coords_agree_with_the_array_and_with_thread_plus_register(layout: Layout) -> None:
    array = layout.coord_array()
    for reg, lane, warp in slots(layout)[::7]:
        assert tuple(array[warp, lane, reg]) == layout.coords(reg, lane, warp)
        base = layout.thread_base(lane + layout.num_lanes * warp)
        offset = layout.register_offsets()[reg]
        assert layout.coords(reg, lane, warp) == tuple(map(sum, zip(base, offset, strict=True)))


@BUDGET
@given(layouts())
def test_every_element_has_one_owner_and_as_many_copies_as_said(layout: Layout) -> None:
    held = distribute(layout, numbered(layout.shape))
    counts = np.bincount(held[held >= 0], minlength=int(np.prod(layout.shape)))
    assert (counts == layout.replication).all()
    assert ((held >= 0).all()) == layout.covers_exactly()
    owns = [
        lane + layout.num_lanes * warp
        for warp in range(layout.num_warps)
        for lane in range(layout.num_lanes)
        if all((lane + layout.num_lanes * warp) // div % size == 0 for div, size, _, _ in layout.replica_digits())
    ]
    owned = held.reshape(-1, layout.num_regs)[owns]
    assert sorted(owned[owned >= 0]) == list(range(int(np.prod(layout.shape))))


@BUDGET
@given(layouts())
def test_inverse_of_coords_is_identity(layout: Layout) -> None:
    for element in list(itertools.product(*map(range, layout.shape)))[:200]:
        slot = layout.inverse(element)
        assert layout.coords(*slot) == element


@BUDGET
@given(layouts())
def test_text_parses_back(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout


@BUDGET
@given(layouts(), st.data())
def test_splitting_a_digit_changes_nothing(layout: Layout, data: st.DataObject) -> None:
    def split(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
        out = []
        for digit in digits:
            inner = data.draw(st.sampled_from([d for d in range(1, digit.size + 1) if digit.size % d == 0]))
            stride = digit.stride * inner
            out += [Digit(inner, digit.dim, digit.stride), Digit(digit.size // inner, digit.dim, stride)]
        return tuple(out)

    again = Layout(layout.shape, split(layout.reg), split(layout.lane), split(layout.warp))
    assert again == layout
    assert hash(again) == hash(layout)


@BUDGET
@given(layouts(), st.data())
def test_quotient_drops_the_coordinate(layout: Layout, data: st.DataObject) -> None:
    assume(layout.rank)
    dim = data.draw(st.sampled_from(range(layout.rank)))
    quotient = layout.quotient(dim)
    full, less = layout.coord_array(), quotient.coord_array()
    for warp, lane in itertools.product(range(layout.num_warps), range(0, layout.num_lanes, 5)):
        wanted = {tuple(np.delete(c, dim)) for c in full[warp, lane]}
        assert {tuple(c) for c in less[warp, lane]} == wanted
        assert len(wanted) == quotient.num_regs
    kept = layout.broadcast_source([dim])
    assert kept.shape[dim] == 1
    assert kept.quotient(dim) == quotient


@BUDGET
@given(layouts(max_rank=2), st.integers(1, 40), st.sampled_from([1, 2, 4]), st.data())
def test_expand_is_inverse_to_quotient(layout: Layout, size: int, vec: int, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, layout.rank))
    wider = layout.expand(dim, size, vec)
    assert wider.shape[dim] == size
    assert wider.quotient(dim).same_threads(layout)


@BUDGET
@given(layouts(), st.data())
def test_register_orders_and_vectors(layout: Layout, data: st.DataObject) -> None:
    assume(layout.rank)
    dim = data.draw(st.sampled_from(range(layout.rank)))
    ordered = layout.sorted_registers(dim)
    assert ordered.same_threads(layout)
    assert set(ordered.register_offsets()) == set(layout.register_offsets())
    width = ordered.vector_width(dim, 8)
    for warp, lane in ((0, 0), (layout.num_warps - 1, 31), (0, 13)):
        held = [ordered.coords(reg, lane, warp) for reg in range(ordered.num_regs)]
        for first in range(0, len(held), width):
            start = held[first]
            assert start[dim] % width == 0
            for i in range(width):
                assert held[first + i] == (*start[:dim], start[dim] + i, *start[dim + 1 :])
            in_tile = [held[first + i][dim] < layout.shape[dim] for i in range(width)]
            assert len(set(in_tile)) == 1


def shuffled(draw: st.DrawFn, layout: Layout) -> Layout:
    """The same digits, registers and lanes and warps in another order or partly exchanged."""
    kind = draw(st.sampled_from(["reg", "lane", "warp", "swap"]))
    reg, lane, warp = layout.reg, layout.lane, layout.warp
    if kind == "reg":
        reg = tuple(draw(st.permutations(reg)))
    elif kind == "lane":
        lane = tuple(draw(st.permutations(lane)))
    elif kind == "warp":
        warp = tuple(draw(st.permutations(warp)))
    elif reg and lane and reg[0].size == lane[0].size and lane[0].dim is not None:
        reg, lane = (lane[0], *reg[1:]), (reg[0], *lane[1:])
    return Layout(layout.shape, reg, lane, warp)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Layout, Layout]:
    src = draw(layouts())
    how = draw(st.sampled_from(["shuffled", "any"]))
    if how == "shuffled":
        return src, shuffled(draw, src)
    vec = draw(st.sampled_from([1, 2, 4]))
    return src, blocked(src.shape, src.threads, vec)


@settings(max_examples=400, deadline=None)
@given(pairs())
def test_conversions_deliver_the_right_elements(pair: tuple[Layout, Layout]) -> None:
    src, dst = pair
    tile = numbered(src.shape)
    held, wanted = distribute(src, tile), distribute(dst, tile)

    def check(got: np.ndarray) -> None:
        assert (got == wanted)[wanted >= 0].all()

    permutation, exchange = register_permutation(src, dst), lane_exchange(src, dst)
    if permutation is not None:
        check(held[:, :, list(permutation)])
        assert exchange is not None
        assert all(move.xor == 0 for move in exchange)
    if exchange is not None:
        got = np.empty_like(wanted)
        for reg, move in enumerate(exchange):
            sources = [move.source(lane) for lane in range(dst.num_lanes)]
            assert all(0 <= lane < 32 for lane in sources)
            got[:, :, reg] = held[:, sources, move.reg]
        check(got)
    swaps = lane_swaps(src, dst)
    if swaps is not None:
        check(swapped(held, swaps))
    kind = conversion(src, dst)
    assert (kind in ("identity", "registers")) == (permutation is not None)
    assert (kind == "shared") == (exchange is None and swaps is None)
    if kind == "identity":
        check(held)


@settings(max_examples=200, deadline=None)
@given(pairs())
def test_a_register_permutation_is_found_when_there_is_one(pair: tuple[Layout, Layout]) -> None:
    src, dst = pair
    held = distribute(src, numbered(src.shape))
    wanted = distribute(dst, numbered(src.shape))
    exists = all(
        any(((wanted[:, :, r] == held[:, :, s]) | (wanted[:, :, r] < 0)).all() for s in range(src.num_regs))
        for r in range(dst.num_regs)
    )
    assert exists == (register_permutation(src, dst) is not None)


def test_which_way_a_conversion_goes() -> None:
    def over(digits: str) -> Layout:
        return Layout.parse(f"layout<8x16; {digits}>")

    src = over("reg 4:4@1; lane 4:1@1, 8:1@0")
    assert conversion(src, over("reg 2:8@1, 2:4@1; lane 4:1@1, 8:1@0")) == "registers"
    reordered = over("reg 4:4@1; lane 8:1@0, 4:1@1")
    exchange = lane_exchange(src, reordered)
    assert conversion(src, reordered) == "lanes"
    assert exchange is not None
    # Lane 9 = 1 + 8 of the result is row 1, column 1 (of 4): lane 1 + 4 of the source.
    assert [move.source(9) for move in exchange] == [5, 5, 5, 5]
    assert exchange[0].xor is None
    # Registers in the lanes' place: each lane would have to pick its register.
    assert conversion(src, over("reg 4:1@1; lane 4:4@1, 8:1@0")) == "swaps"
    assert conversion(src, over("reg 8:1@0; lane 16:1@1, 2:*")) == "shared"
    # From copies everywhere anything is a matter of registers ... if they are the same ones in all lanes.
    rows = Layout.parse("layout<8; lane 4:*, 8:1@0>")
    assert conversion(rows, Layout.parse("layout<8; lane 8:1@0, 4:*>")) == "lanes"
    assert conversion(Layout.parse("layout<8; lane 8:1@0, 4:*>"), Layout.parse("layout<8; lane 32:1@0>")) == "identity"


SPREAD = [  # of a 128x64 tile over 8 warps
    wgmma_accumulator((128, 64), (2, 1)),
    wgmma_accumulator((128, 64), (1, 2)),
    wgmma_operand_a((128, 64), 8, (2, 1)),
    wgmma_operand_a((128, 64), 32, (2, 1)),
    wgmma_operand_a((128, 64), 8, (1, 2)),
    mma_accumulator((128, 64), M16N8K16, (8, 1)),
    mma_accumulator((128, 64), M16N8K16, (4, 2)),
    blocked((128, 64), 256, 4),
    blocked((128, 64), 256, 8, (0, 1)),
]


@pytest.mark.parametrize("src", SPREAD, ids=str)
@pytest.mark.parametrize("dst", SPREAD, ids=str)
def test_what_stays_in_warps(src: Layout, dst: Layout) -> None:
    """Each warp's elements are the same set, and in no other warp."""
    of_warp = [[set(held.ravel()) for held in distribute(layout, numbered(layout.shape))] for layout in (src, dst)]
    alone = all(sum(map(len, sets)) == 128 * 64 for sets in of_warp)
    assert stays_in_warps(src, dst) == (alone and of_warp[0] == of_warp[1])


@pytest.mark.parametrize("columns", [32, 64, 96])
@pytest.mark.parametrize("bits", [8, 32])
def test_swaps_of_lane_bits(bits: int, columns: int) -> None:
    """The accumulator as an operand of other elements, by exchanges between lanes that differ in one bit."""
    src, dst = wgmma_accumulator((128, columns)), wgmma_operand_a((128, columns), bits)
    tile = numbered(src.shape)
    swaps = lane_swaps(src, dst)
    assert swaps is not None
    assert len(swaps.swaps) == 2
    assert np.array_equal(swapped(distribute(src, tile), swaps), distribute(dst, tile))


@pytest.mark.parametrize("src", SPREAD, ids=str)
@pytest.mark.parametrize("dst", SPREAD, ids=str)
def test_swaps_stay_in_warps(src: Layout, dst: Layout) -> None:
    if lane_swaps(src, dst) is not None:
        assert stays_in_warps(src, dst)
        assert len(lane_swaps(src, dst).swaps) <= 5  # type: ignore[union-attr]
