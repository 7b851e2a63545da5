"""Bad schedules, planted: `verify` refuses each by the name of the rule that it breaks."""

from __future__ import annotations

import pytest

from minitile.ir.core import Kernel
from minitile.ir.ops import control
from minitile.ir.parser import parse_kernel
from minitile.transforms.schedule.graph import Body
from minitile.transforms.schedule.schedule import AHEAD, Place, Schedule
from minitile.transforms.schedule.verify import RULES, ScheduleError, verify

TILE = "{shape = (4, 8), src_dims = (0, 1), dst_dims = (0, 1)}"
DIMS = "{shape = (4, 8), dims = (0, 1)}"

# Entries: a copy; a sum that is carried; a store to W, twice; a load of W; a scalar and a store to the tensor.
ENTRIES = f"""
  %row = mul %k, 4
  statement {{number = 0}}
  copy %A[%row, 0], %S[0, 0] {TILE}
  statement {{number = 1}}
  %s = load %S[0, 0] {DIMS}
  %c1 = add %c, %s
  statement {{number = 2}}
  %two = mul %c1, 2.0
  store %W[0, 0], %two {{dims = (0, 1)}}
  statement {{number = 3}}
  %w = load %W[0, 0] {DIMS}
  statement {{number = 4}}
  store %W[0, 0], %w {{dims = (0, 1)}}
  statement {{number = 5}}
  %d1 = add %d, %w
  store %C[%row, 0], %d1 {{dims = (0, 1)}}
  yield %c1, %d1
"""
GOOD = [Place(AHEAD, AHEAD), *(Place(0, n) for n in range(5))]

# Each operation by itself: a copy in flight to one of three versions, its wait, a load of that version.
FLIGHT = f"""
  %slot = floormod %k, 3
  %row = mul %k, 4
  %t = async_copy %A[%row, 0], %V[0, 0], dst_slot = %slot {TILE}
  wait %t
  %s = load %V[0, 0], slot = %slot {DIMS}
  %c1 = add %c, %s
  %d1 = add %d, %s
  store %C[%row, 0], %c1 {{dims = (0, 1)}}
  yield %c1, %d1
"""

# Two gemms in rings.
RINGS = """
  consumer_wait %ring, %i, %p
  %f, %t = async_gemm %Qs[0, 0], %Ks[0, 0], %z, b_slot = %i {transpose_b = true}
  %s = await %f, %t
  consumer_release %ring, %i
  %e = exp2 %s
  %w = cast %e {to = bf16}
  consumer_wait %more, %i, %p
  %g, %u = async_gemm %w, %Vs[0, 0], %o, b_slot = %i
  %o1 = await %g, %u
  consumer_release %more, %i
  %i1 = xor %i, 1
  yield %o1, %i1, %p
"""


def kernel(body: str, more: str = "") -> Kernel:
    return parse_kernel(f"""
    tile kernel @k(%A: tensor<40x8xf32>, %C: tensor<40x8xf32>, %n: i32) {{
      launch 1, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        %S = alloc {{type_ = shared<4x8xf32>}}
        %V = alloc {{type_ = shared<3 versions x 4x8xf32>}}
        %W = alloc {{type_ = shared<4x8xf32>}}
        %z = splat 0.0 {{shape = (4, 8)}}
        %q, %r = for 0, %n, 1, [%z, %z] (%k: i32, %c: tile<4x8xf32>, %d: tile<4x8xf32>) {{ {more} {body} }}
        %y = add %q, %r
        store %C[0, 0], %y {{dims = (0, 1)}}
      }}
    }}""")


def rings() -> Kernel:
    return parse_kernel(f"""
    tile kernel @k(%O: tensor<64x64xf32>, %n: i32) {{
      launch 1, 1, 1 {{threads = 128}} (%bx: i32, %by: i32, %bz: i32) {{
        %Qs = alloc {{type_ = shared<64x64xbf16>}}
        %Ks = alloc {{type_ = shared<2 versions x 64x64xbf16>}}
        %Vs = alloc {{type_ = shared<2 versions x 64x64xbf16>}}
        %ring = mbarrier_pipeline %Ks {{slots = 2, consumers = 128}}
        %more = mbarrier_pipeline %Vs {{slots = 2, consumers = 128}}
        %z = splat 0.0 {{shape = (64, 64)}}
        %r, %x, %y = for 0, %n, 1, [%z, 0, 0] (%k: i32, %o: tile<64x64xf32>, %i: i32, %p: i32) {{ {RINGS} }}
        store %O[0, 0], %r {{dims = (0, 1)}}
      }}
    }}""")


def loop_of(kernel: Kernel) -> control.For:
    (loop,) = [op for op in kernel.walk() if isinstance(op, control.For)]
    return loop


def by_entries(changes: dict[int, Place], more: str = "", versions: int = 2, count: int = 6) -> None:
    places = [changes.get(n, place) for n, place in enumerate(GOOD)][:count]
    verify(Body(loop_of(kernel(ENTRIES, more))), Schedule(tuple(places), versions))


def each(body: Body, changes: dict[str, Place], unroll: int = 0) -> None:
    """A place for each operation, in its order, but for those that are named by what they make or, without, do."""
    places = []
    for n, op in enumerate(body.unit):
        name = op.results[0].name if op.results else op.mnemonic
        if op.mnemonic == "consumer_wait" or op.mnemonic == "consumer_release":
            name = f"{op.mnemonic} {op.pipeline.name}"
        places.append(changes.get(name or "", Place(0, 10 * n)))
    verify(body, Schedule(tuple(places), unroll=unroll))


def flight(changes: dict[str, Place], text: str = FLIGHT) -> None:
    each(Body(loop_of(kernel(text)), each=True), changes)


def in_rings(changes: dict[str, Place], unroll: int = 0) -> None:
    each(Body(loop_of(rings()), each=True), changes, unroll)


TWICE = FLIGHT.replace(
    "yield",
    """%u = async_copy %C[%row, 0], %V[0, 0], dst_slot = %slot {shape = (4, 8), src_dims = (0, 1), dst_dims = (0, 1)}
    yield""",
)


def away(stage: int, order: int) -> dict[str, Place]:
    """The copy and its address so many iterations ahead."""
    before = {"slot": Place(stage, order - 2, "kept"), "row": Place(stage, order - 1, "kept")}
    return before | {"t": Place(stage, order, "guarded")}


LATE = {
    "consumer_wait more": Place(1, 21),
    "g": Place(1, 22),
    "o1": Place(1, 23),
    "consumer_release more": Place(1, 24),
}


def test_good_ones() -> None:
    by_entries({})
    flight({})
    flight(away(-2, 105))
    flight(away(-2, -105))
    flight(away(-3, 105))  # behind the last read of the version
    flight(away(-2, 105), FLIGHT.replace("yield", 'memory_fence {scope = "gpu"} yield'))
    in_rings({})
    in_rings(LATE)


PLANTED = [
    # entries by themselves
    ("entries", by_entries, {"changes": {}, "count": 5}),
    ("entries", by_entries, {"changes": {}, "count": 0}),
    ("end", by_entries, {"changes": {3: Place(0, 2, "dropped")}}),
    ("place", by_entries, {"changes": {2: Place(0, 0)}}),
    ("place", by_entries, {"changes": {5: Place(1, 3)}}),
    ("stages", by_entries, {"changes": {5: Place(16, 4)}}),
    ("guard", by_entries, {"changes": {1: Place(-1, 0)}}),
    ("effect", by_entries, {"changes": {5: Place(0, 4, "guarded")}}),
    ("effect", by_entries, {"changes": {2: Place(0, 1, "kept")}}),
    ("effect", by_entries, {"changes": {0: Place(-1, 7, "guarded")}}),  # a copy that has no token
    ("alloc", by_entries, {"changes": {}, "more": "%R = alloc {type_ = shared<4x8xf32>}"}),
    # values
    ("value", by_entries, {"changes": {1: Place(0, 1), 2: Place(0, 0)}}),
    ("value", by_entries, {"changes": {1: Place(1, 0)}}),
    ("value", by_entries, {"changes": {3: Place(1, 9), 4: Place(1, 10)}}),
    ("value", flight, {"changes": {"s": Place(1, 95)}}),
    ("value", flight, {"changes": {"t": Place(0, 95)}}),  # a token
    ("value", flight, {"changes": {"t": Place(-2, 95, "guarded")}}),  # its address is not ahead
    ("value", in_rings, {"changes": {"s": Place(1, 11)}}),
    ("value", in_rings, {"changes": {"g": Place(1, 31)}}),
    ("carried", in_rings, {"changes": LATE | {"o1": Place(2, 31), "consumer_release more": Place(2, 32)}}),
    ("carried", in_rings, {"changes": {"i1": Place(1, 150)}}),
    # memory
    ("feed", by_entries, {"changes": {0: Place(0, 9)}}),
    ("feed", by_entries, {"changes": {0: Place(2, 8)}}),
    ("read", by_entries, {"changes": {2: Place(0, 2), 3: Place(0, 1)}}),
    ("read", by_entries, {"changes": {1: Place(0, 0), 2: Place(1, 9)}}),
    ("overwrite", by_entries, {"changes": {3: Place(1, 2), 4: Place(1, 3), 5: Place(1, 4)}}),
    ("overwrite", by_entries, {"changes": {3: Place(2, 9), 4: Place(3, 7), 5: Place(2, 10)}}),
    ("rewrite", by_entries, {"changes": {4: Place(1, 3)}}),
    (
        "rewrite",
        flight,
        {
            "changes": {"u": Place(-1, 3, "guarded"), "row": Place(-1, 1, "kept"), "slot": Place(-1, 2, "kept")},
            "text": TWICE,
        },
    ),
    # versions
    ("versions", flight, {"changes": away(-3, 5)}),
    ("versions", flight, {"changes": away(-4, 5)}),
    ("versions", flight, {"changes": away(-2, 5), "text": FLIGHT.replace("floormod %k, 3", "floormod %k, 2")}),
    ("overwrite", flight, {"changes": away(-2, 105), "text": FLIGHT.replace("slot = %slot", "slot = 0")}),
    ("overwrite", flight, {"changes": away(-1, 5), "text": FLIGHT.replace("floormod %k, 3", "floormod %n, 3")}),
    # an operation that may access anything; one that only orders threads holds no policy's copy
    ("read", flight, {"changes": away(-2, 105), "text": FLIGHT.replace("yield", "grid_sync yield")}),
    # rings
    ("receive", in_rings, {"changes": {"consumer_wait ring": Place(0, 45)}}),
    ("receive", in_rings, {"changes": {"consumer_wait more": Place(1, 1)}}),
    ("release", in_rings, {"changes": {"consumer_release ring": Place(0, 5)}}),
    ("release", in_rings, {"changes": LATE | {"consumer_release more": Place(0, 145)}}),
    # registers
    ("unroll", in_rings, {"changes": LATE | {"e": Place(1, 1), "w": Place(1, 2)}, "unroll": 1}),
]


@pytest.mark.parametrize("planted", PLANTED, ids=[f"{n}-{rule}" for n, (rule, _, _) in enumerate(PLANTED)])
def test_planted(planted) -> None:
    rule, check, given = planted
    with pytest.raises(ScheduleError) as caught:
        check(**given)
    assert caught.value.rule == rule, caught.value


def test_every_rule_is_planted() -> None:
    """`ahead` is one of the user's own schedules alone (test_schedule.py)."""
    assert {rule for rule, _, _ in PLANTED} == RULES.keys() - {"ahead"}
    assert len(PLANTED) >= 30
