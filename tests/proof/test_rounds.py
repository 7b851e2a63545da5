"""Loops whose counters, bounds or answers could be taken for others: each text has a fault for some sizes, which `dpor`
finds, and was proved by an earlier version."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from minitile.proof import Answer, Launch, answer
from minitile.proof.arithmetic.values import Counter
from minitile.proof.explore import Explorer
from minitile.proof.state import Warp
from minitile.proof.text import parse
from tests.proof import dpor
from tests.proof.concrete import traces
from tests.proof.test_attacks import against
from tests.proof.test_text import HEAD, LOAD, OTHER, STORE

RACE = f"{STORE} {OTHER} {LOAD}\n$z:"
SIZES = ".param .s32 N, .param .s32 M, .param .s32 K,"
BEGIN = HEAD.format(threads=64, shared=4096).replace(".param .s32 N,", SIZES) + (
    ".reg .b32 %x<20>; .reg .pred %q<9>; ld.param.s32 %x18, [M]; ld.param.s32 %x19, [K];\n"
)


def whole(body: str) -> str:
    return BEGIN + body + "\n  ret;\n}\n"


def found(body: str, states: int = 400, **facts: Mapping[str, int]) -> Answer:
    return answer(whole(body), Launch({"T": 1024}, **facts), most_states=states)  # type: ignore[arg-type]


def fault_at(body: str, **sizes: int) -> str:
    """What goes wrong in some schedule at these sizes."""
    return dpor.verdict(traces(whole(body), Launch({"T": 1024}), {"N": 0, "M": 0, "K": 0, **sizes}))


# A register that changes each round tells after the loop whether the rounds were even.
TOGGLES = (
    "mov.b32 %x0, 0; mov.b32 %x1, 0; setp.ge.s32 %p2, %x1, %r9; @%p2 bra.uni $e;\n$l: xor.b32 %x0, %x0, 1; bar.sync 0;"
    " add.s32 %x1, %x1, 1; setp.lt.s32 %p2, %x1, %r9; @%p2 bra.uni $l;\n$e: setp.eq.s32 %q0, %x0, {};"
    f" @!%q0 bra.uni $z; {RACE}"
)


@pytest.mark.parametrize("least", [1, 3, 8, 16, 17, 100])
@pytest.mark.parametrize("odd", [0, 1])
def test_a_size_is_at_least_what_no_shifted_counter_tells(least: int, odd: int) -> None:
    assert not found(TOGGLES.format(odd), least={"N": least})
    assert fault_at(TOGGLES.format(odd), N=100 + odd)


DIFFERENCE = "sub.s32 %x0, %r9, %x18;"
TEST = "setp.{} %q0, {}, {}; @!%q0 bra.uni $z;"
QUOTIENTS = {
    "a quotient by 1 without a sign": f"{DIFFERENCE} div.u32 %x1, %x0, 1; {TEST.format('lt.s32', '%x1', 1)}"
    f"{TEST.format('ge.u32', '%x0', 100)} {RACE}",
    "a quotient by a number below 0": f"{DIFFERENCE} div.s32 %x1, %x0, -2; {TEST.format('gt.s32', '%x1', 0)}"
    f"{TEST.format('lt.s32', '%x0', 100)} {RACE}",
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients(name: str) -> None:
    assert not found(QUOTIENTS[name])
    assert fault_at(QUOTIENTS[name], M=5)


MEET = "bar.sync 1, 64;"
OTHERS = (
    f"mov.b32 %x0, 0; setp.ge.s32 %q0, %x0, %r9; @%q0 bra.uni $e;\n$l: {MEET} add.s32 %x0, %x0, 1;"
    " setp.lt.s32 %q0, %x0, %r9; @%q0 bra.uni $l;\n$e:"
)
# The first loop ends in round M, %x10 is its rounds, but {most} at most; the second one goes on with a counter of its
# own. A loop of one round is around the second.
TWO_LOOPS = (
    f"mov.b32 %x10, 0; mov.b32 %x1, 0; setp.ge.s32 %q1, %x1, %r9; @%q1 bra.uni $be;\n$bl: {MEET}"
    " setp.eq.s32 %q7, %x10, {most}; @!%q7 add.s32 %x10, %x10, 1; add.s32 %x1, %x1, 1; setp.eq.s32 %q8, %x1, %x18;"
    " @%q8 bra.uni $be; setp.lt.s32 %q1, %x1, %r9; @%q1 bra.uni $bl;\n$be: {before} mov.b32 %x2, %x19;"
    " add.s32 %x9, %x19, 1;\n$o: {within} setp.ge.s32 %q2, %x3, %r9; @%q2 bra.uni $ce;"
    f"\n$cl: {MEET} add.s32 %x3, %x3, 1; setp.lt.s32 %q2, %x3, %r9; @%q2 bra.uni $cl;\n$ce: add.s32 %x2, %x2, 1;"
    " setp.lt.s32 %q3, %x2, %x9; @%q3 bra.uni $o;"
)
OUTSIDE = {"before": "mov.b32 %x3, {};", "within": "bar.warp.sync -1;"}
INSIDE = {"before": "", "within": "mov.b32 %x3, {};"}


@pytest.mark.parametrize("places", [OUTSIDE, INSIDE])
@pytest.mark.parametrize("most", [4, 5, 6])
def test_a_counter_that_is_set_outside_of_a_loop_around(places: Mapping[str, str], most: int) -> None:
    """While a warp may yet set such a counter, others that count from there are not shifted."""
    body = against(OTHERS, TWO_LOOPS.format(most=most, **{k: v.format("%x10") for k, v in places.items()}))
    assert not found(body, 1000)
    assert fault_at(body, N=12, M=9)


def around(counter: str, bound: str, label: str, body: str) -> str:
    return (
        f"mov.b32 {counter}, 0;\n${label}: {body} bar.sync 0; add.s32 {counter}, {counter}, 1;"
        f" setp.lt.s32 %q1, {counter}, {bound}; @%q1 bra.uni ${label};"
    )


def test_inner_counters_start_again_in_a_later_round() -> None:
    """In the second of the inner rounds a warp may yet come to the first of the next outer round, and to no round of an
    outer one that is over."""
    text = whole(around("%x1", "%r9", "i", around("%x2", "3", "j", around("%x3", "%x18", "k", ""))))
    launch = Launch({"T": 1024})
    program = parse(text, launch)
    explorer = Explorer(program, launch, frozenset(), {}, 100, 10.0)
    inner = next(each for each in program.loops if each.counter == "%x3")
    base = ((), (), 0)
    warp = Warp(0, inner.back, {"%x1": Counter(base, 5), "%x2": 1, "%x3": Counter(((), (1, Counter(base, 5)), 0), 2)})
    for outer, middle, may in [(5, 0, False), (5, 1, False), (5, 2, True), (4, 2, False), (6, 0, True), (6, 1, True)]:
        instance = (middle, Counter(base, outer))
        assert explorer._may_start(warp, ((), instance, 0)) == may, (outer, middle)


# %x2 starts at %x1, which is another number in each round of a loop around; {} stands in front of the start.
STRIDES = (
    "mov.u32 %x0, 0; mov.u32 %x7, 1; mov.u32 %x8, 2; bra.uni $o;\n$o: mul.lo.s32 %x1, %x0, 100;"
    " setp.eq.s32 %q0, %x0, 0; @%q0 bra.uni $s; {}\n$s: mov.u32 %x2, %x1;\n$h: setp.ge.s32 %q2, %x2, %x8;"
    " @%q2 bra.uni $e; bar.sync 0; add.s32 %x2, %x2, %x7; bra.uni $h;\n$e: add.s32 %x0, %x0, 1;"
    f" setp.lt.s32 %q3, %x0, 2; @%q3 bra.uni $o; bra.uni $z;\n$f: {RACE}"
)
GROWS = "add.s32 %x2, %x2, %x7; setp.eq.s32 %q1, %x2, 3; @%q1 bra.uni $f;"


def test_a_start_that_changes_before_what_grows_from_it() -> None:
    assert not found(STRIDES.format(GROWS))
    assert fault_at(STRIDES.format(GROWS))
    assert found(STRIDES.format(GROWS.replace("3;", "5;")))
    assert found(STRIDES.format("setp.eq.s32 %q1, %x0, 5; @%q1 bra.uni $f;"))


# In each round a minimum of a size is looked at; a race behind the loop, where there are 12 rounds at least, an odd
# number of them.
MINIMA = (
    "mov.b32 %x0, 0; mov.b32 %x5, 0; mov.b32 %x1, 0; setp.ge.s32 %p2, %x1, %r9; @%p2 bra.uni $e;\n$l: {}"
    " xor.b32 %x0, %x0, 1; setp.lt.s32 %q6, %x5, 12; @%q6 add.s32 %x5, %x5, 1; bar.sync 0; add.s32 %x1, %x1, 1;"
    " setp.lt.s32 %p2, %x1, %r9; @%p2 bra.uni $l;\n$e: setp.eq.s32 %q4, %x5, 12; @!%q4 bra.uni $z;"
    f" setp.eq.s32 %q0, %x0, 1; @!%q0 bra.uni $z; {RACE}"
)


@pytest.mark.parametrize("less", [3, 7, 9, 20])
def test_minima_are_of_no_shifted_counter(less: int) -> None:
    minimum = f"sub.s32 %x8, %r9, {less}; min.s32 %x9, %x8, 3; setp.ne.s32 %q3, %x9, 3; @%q3 bra.uni $z;"
    assert not found(MINIMA.format(minimum))
    assert fault_at(MINIMA.format(minimum), N=41)


@pytest.mark.parametrize("less", [8, 9])
def test_what_comes_of_shifted_counters_is_no_fault(less: int) -> None:
    """Where N is less + 1 alone the rounds are too few for the race; the run that is found is of no launch."""
    minimum = f"sub.s32 %x8, %r9, {less}; min.s32 %x9, %x8, 2; setp.ne.s32 %q3, %x9, 1; @%q3 bra.uni $z;"
    assert found(MINIMA.format(minimum)).verdict == "refused"
    assert not fault_at(MINIMA.format(minimum), N=less + 1)


# A loop that a branch leaves around its step, and that is entered again behind it: two rounds have one counter.
AROUND = "mov.b32 %x0, 0; mov.b32 %x8, 0; mov.b32 %x16, 0; setp.eq.u32 %q7, 1, 1; and.b32 %x10, %r0, 31;\n$h: {}"
STEPS = "add.u32 %x0, %x0, 1;\n$m: setp.lt.s32 %q4, %x0, %r9; @%q4 bra $h; bra $e;\n$o: {} @%q7 bra {};\n$e:"
DRAWN = AROUND.format(
    "bar.warp.sync -1; setp.ne.u32 %q1, %x10, 0; @%q1 bra $k; ld.param.u64 %d2, [G]; atom.global.add.u32 %x5, [%d2],"
    " 1;\n$k: shfl.sync.idx.b32 %x6, %x5, 0, 31, 0xffffffff; setp.eq.u32 %q6, %x8, 1; @!%q6 bra $n;"
    " setp.ne.u32 %q5, %x6, 0; @!%q5 bra $n; st.shared.u32 [%r1], %r0;\n$n: @%q6 bra $s; setp.eq.u32 %q5, %x6, 0;"
    " @%q5 bra $o;\n$s: mov.b32 %x8, 0; "
)
INSTANCES = AROUND.format(
    "mov.b32 %x13, 0; mov.b32 %x1, 0;\n$i: bar.sync 0; setp.lt.u32 %q2, %x13, 40; selp.u32 %x14, 1, 0, %q2;"
    " add.u32 %x13, %x13, %x14; add.u32 %x1, %x1, 1; setp.lt.s32 %q3, %x1, %x18; @%q3 bra $i; setp.eq.u32 %q6, %x8, 1;"
    " @!%q6 bra $o; setp.lt.s32 %q5, %x18, %x16; @%q5 bra $n; setp.eq.u32 %q5, %x13, 40; @!%q5 bra $n;"
    f" {{}}\n$n: mov.b32 %x8, 0; {STEPS.format('mov.b32 %x13, 0; mov.b32 %x8, 1; mov.b32 %x16, %x1;', '$m')}"
)


def test_a_draw_has_another_number_in_a_round_with_the_same_counter() -> None:
    """The first draw gives 0, the next one, in a round with the same counter, does not: then all lanes store."""
    assert not found(DRAWN + STEPS.format("mov.b32 %x8, 1;", "$m"))
    assert found(DRAWN + STEPS.format("", "$s"))  # each round comes past the step


def test_a_loop_within_begins_anew_in_a_round_with_the_same_counter() -> None:
    assert not found(INSTANCES.format(RACE.removesuffix("\n$z:")), states=3000)
    assert fault_at(INSTANCES.format(RACE.removesuffix("\n$z:")), N=2, M=60)
    assert not fault_at(INSTANCES.format(""), N=2, M=60)


LONG = (
    "mov.u64 %d5, {}; mov.u64 %d6, {}; mov.u64 %d7, {}; mov.u32 %x1, 0;\n$l: bar.sync 1, 64; add.s64 %d5, %d5, {};"
    " setp.{} %p2, %d5, {}; @%p2 bra $l;"
)


@pytest.mark.parametrize(
    ("start", "step", "test", "bound", "rounds"),
    [
        (0, 1, "lt.u64", -1, 1),
        (0, 1, "le.u64", "0xffffffffffffffff", 1),
        (0, 1, "lt.u64", 4294967301, 5),
        (0, 1, "lt.s64", 4294967301, 5),
        (0, 1, "ne.u64", 4294967301, 5),
        (4294967296, 1, "lt.s64", 5, 5),
        (-5, 1, "lt.u64", 1, 6),
        (0, 4294967297, "lt.s64", 4, 4),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_numbers_of_64_bits_that_32_bits_do_not_hold(
    start: int, step: int, test: str, bound: int, rounds: int, named: bool
) -> None:
    """One warp goes around more often than the other, or less often."""
    loop = LONG.format(start, step, bound, "%d6" if named or step >= 1 << 30 else step, test, "%d7" if named else bound)
    assert not found(against(loop, "bar.sync 1, 64;" * rounds))
    sound = LONG.format(3, 1, 7, "%d6" if named else 1, "lt.u64", "%d7" if named else 7)
    assert found(against(sound, "bar.sync 1, 64;" * 4))


DRAWER = (
    "and.b32 %x10, %r0, 31; mad.lo.u32 %x11, %x10, 4, %r1; @%p0 st.shared.u32 [%x11+512], 0; mov.b32 %x5, 0;"
    " ld.param.u64 %d2, [G]; setp.eq.u32 %q0, %r9, 7;"
    " @%q0 bra $k; bar.sync 0;\n$k: setp.eq.u32 %q1, %x10, {}; bar.warp.sync -1; setp.eq.u32 %q1, %x10, {};"
    " @%q1 atom.global.add.u32 %x5, [%d2], 1; shfl.sync.idx.b32 %x6, %x5, 0, 31, 0xffffffff; setp.eq.u32 %q5, %x6, 0;"
    " @%q5 bra $n; st.shared.u32 [%r1], %x10;\n$n:"
)


def test_a_guard_of_a_draw_is_the_last_that_was_computed() -> None:
    assert not found(DRAWER.format(1, 0))
    assert fault_at(DRAWER.format(1, 0), loaded=1)
    assert found(DRAWER.format(0, 1))


FAR = "mov.u32 %x6, {}; mov.u32 %x7, {}; mov.u32 %x8, {}; xor.b32 %x5, %x8, 4;\n$l: bar.sync 1, 64; add.s32 %x5, %x5, "


@pytest.mark.parametrize(
    ("step", "bound", "start", "test", "rounds"),
    [
        ("%x6", 0x7FFFFFFF, 0, "lt.u32", 1),
        ("%x6", 0x3FFFFFFF, -0x60000000, "lt.s32", 1),
        ("0x20000000", 0x3FFFFFFF, -0x60000000, "le.s32", 1),
        ("-536870912", -0x60000000, 0x60000000, "gt.s32", 1),
    ],
)
def test_differences_of_numbers_do_not_wrap_around(step: str, bound: int, start: int, test: str, rounds: int) -> None:
    """One warp goes around more often than by the difference modulo 2^32."""
    stride = 0x60000000 if test == "lt.u32" else 0x20000000
    for of in ("%x7", bound):
        loop = FAR.format(stride, bound, start ^ 4) + f"{step}; setp.{test} %p2, %x5, {of}; @%p2 bra $l;"
        assert not found(against(loop, "bar.sync 1, 64;" * rounds))
        assert fault_at(against(loop, "bar.sync 1, 64;" * rounds))
    assert found(against(FAR.format(2, 7, 4) + "%x6; setp.lt.s32 %p2, %x5, %x7; @%p2 bra $l;", "bar.sync 1, 64;" * 4))
