"""Texts that race or wait for ever by a value that a rule could take for another one: none is proved."""

from __future__ import annotations

import pytest

from minitile.proof.arithmetic import values
from minitile.proof.arithmetic.values import Affine, Counter, Predicate, symbol
from tests.proof.test_text import LOAD, LOOP, OTHER, STORE, verdict


def unless(guard: str) -> str:
    """Threads of both warps touch the same words without a barrier, where the guard is false."""
    return f"@{guard} bra.uni $s; {STORE} {OTHER} {LOAD}\n$s:"


PUT, GET = "@%p0 st.shared.u32 [%r1+2048], {}; bar.sync 0;", "ld.shared.u32 %r8, [%r1+2048];"
G = "ld.param.u64 %d2, [G];"
SEARCH = (
    "ld.param.u64 %d{0}, [G];\n$m{0}: mov.b32 %r1{0}, 0; ld.global.u32 %r3,[%d{0}]; add.s64 %d{0},%d{0},4;"
    " setp.ne.s32 %p2,%r3,0; @%p2 bra.uni $m{0};\n"
)
TRIPS = (
    "mov.b32 %r1{1}, %r1{0};\n setp.ge.s32 %p2, %r1{1}, %r9;\n @%p2 bra.uni $e{0};\n$l{0}:\n {2}\n"
    " add.s32 %r1{1}, %r1{1}, 1;\n setp.lt.s32 %p2, %r1{1}, %r9;\n @%p2 bra.uni $l{0};\n$e{0}:"
)
WAITS = SEARCH.format(2) + TRIPS.format(2, 5, "bar.warp.sync 0xffffffff;") + " bar.sync 1, 64;"
WRITES = "bar.sync 1, 64;" + SEARCH.format(3) + TRIPS.format(3, 6, "st.shared.u32 [%r2], %r0; add.u32 %r2,%r2,256;")

OF_ROUND = "mul.wide.s32 %d3, %r6, 4; add.s64 %d3, %d3, %d2; ld.global.s32 %r7, [%d3];"  # the round's own number
TWO_ROLES = (  # a barrier that both warps come to where 1 is below the round's number
    G + LOOP.format(OF_ROUND + "setp.lt.u32 %p3, %r0, 32; setp.lt.s32 %p5, {0}, %r7; setp.lt.s32 %p6, 1, %r7;"
    "@!%p3 bra $b; @!%p5 bra.uni $c;\n @!%p6 bra.uni $c; bar.sync 1, 64; bra $c;\n$b: @!%p6 bra.uni $c;"
    "bar.sync 1, 64;\n$c: bar.sync 0;")
)  # fmt: skip
NESTED = G + LOOP.format(  # in each round one loop from 0, and behind it one from the round's number on
    OF_ROUND + TRIPS.replace("%r1{0}", "0").format(2, 5, "bar.sync 0;") + "{0}"
    + TRIPS.replace("%r1{0}", "%r7").format(3, 6, "bar.sync 0; {1}")
)  # fmt: skip

BROKEN = {
    "two comparisons with one number of a round": TWO_ROLES.format(2),
    "a store in the second loop of a round": NESTED.format("", f"{STORE} {OTHER} {LOAD}"),
    "a store between the loops of a round": NESTED.format(STORE, f"{OTHER} {LOAD}").replace(
        "bar.sync 0;", "bar.warp.sync 0xffffffff;", 1
    ),
    "arithmetic of what is stored alone": "@%p0 st.shared.u32 [%r1+2052], 1; bar.sync 0; ld.shared.u32 %r7, [%r1+2052];"
    "add.s32 %r7, %r7, 1;" + PUT.format("%r7") + GET + "setp.eq.s32 %p3, %r8, 1;" + unless("%p3"),
    "a load of some lanes": "mov.b32 %r8, 9;" + PUT.format(1) + "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0;"
    "@%p4 ld.shared.u32 %r8, [%r1+2048]; mad.lo.u32 %r3, %r8, 4, %r2; st.shared.u32 [%r3], %r0;",
    "an immediate below 0": PUT.format(-1) + GET + "cvt.s64.s32 %d3, %r8; setp.ne.s64 %p3, %d3, -1;" + unless("%p3"),
    "a signed load of 32 bits into 64": PUT.format(4294967295)
    + "ld.shared.s32 %d3, [%r1+2048]; setp.gt.s64 %p3, %d3, 0;"
    + unless("%p3"),
    "a counter that starts at what a region leaves": "setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;"
    f"{WAITS} bra $b;\n$a:\n{WRITES}\n$b:",
    "a remainder of what may be negative": G + "ld.global.s32 %r8, [%d2]; rem.s32 %r5, %r8, 2; mul.lo.s32 %r5, %r5, 4;"
    "add.s32 %r5, %r5, %r1; @%p0 st.shared.u32 [%r5+2048], 0; setp.ge.s32 %p3, %r8, 0;" + unless("%p3"),
    "a remainder of a difference": "sub.s32 %r8, %r9, 5; min.s32 %r8, %r8, %r9; rem.s32 %r5, %r8, 2;"
    "mul.lo.s32 %r5, %r5, 4; add.s32 %r5, %r5, %r1; @%p0 st.shared.u32 [%r5+2048], 0; setp.ge.s32 %p3, %r8, 0;"
    + unless("%p3"),
    "signed and unsigned": G + "ld.global.s32 %r8, [%d2]; setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;"
    "setp.lt.s32 %p4, %r8, 5; @%p4 bra.uni $u; bar.sync 1, 64;\n$u: bra $b;\n$a: setp.lt.u32 %p4, %r8, 5;"
    "@%p4 bra.uni $v; bar.sync 1, 64;\n$v:\n$b:",
    "a pointer out of shared memory": G
    + "@%p0 st.shared.u64 [%r1+2048], %d2; bar.sync 0; ld.shared.u64 %d3, [%r1+2048];"
    "ld.global.u32 %r8, [%d2]; st.global.u32 [%d3], %r0; setp.eq.s32 %p3, %r8, 7; @%p3 bra.uni $s; bar.sync 0;\n$s:",
}
# Both roles meet in the rounds for which what they compute of the counter is at most 5.
WIDE = "cvt.u64.u32 %d3, %r6; mul.lo.u64 %d3, %d3, {}; shr.u64 %d3, %d3, 1; cvt.u32.u64 %r7, %d3;"
DEEP = "mov.u32 %r7, %r6;" + "".join(
    f"mad.lo.u32 %r7, %r7, %r6, {{}}; max.s32 %r7, %r7, {n}; xor.b32 %r7, %r7, %r9;" for n in range(12)
)


def some_rounds(one: str, other: str) -> str:
    meet = "{} setp.gt.s32 %p4, %r7, 5; @%p4 bra.uni ${}; bar.sync 1, 64;\n${}:"
    first = LOOP.format(meet.format(one, "x", "x"))
    second = LOOP.replace("$l", "$k").replace("$e", "$f").format(meet.format(other, "y", "y"))
    return f"setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; {first} bra $b;\n$a:\n{second}\n$b:"


BROKEN |= {
    "a wide number of a round and another": some_rounds(WIDE.format(7), WIDE.format(9)),
    "a long chain of a round and another": some_rounds(DEEP.replace("{}", "3"), DEEP.replace("{}", "3", 11).format(4)),
}
SOUND = {
    "a wide number of a round": some_rounds(WIDE.format(7), WIDE.format(7)),
    "a long chain of a round": some_rounds(DEEP.replace("{}", "3"), DEEP.replace("{}", "3")),
    "two comparisons with one number of a round": TWO_ROLES.format(0),
    "two loops in a round": NESTED.format("", f"{STORE} bar.sync 0; {OTHER} {LOAD}"),
    "a number stored for all": PUT.format(1) + GET + "setp.eq.s32 %p3, %r8, 1;" + unless("%p3"),
    "one comparison in both roles": BROKEN["signed and unsigned"].replace("lt.u32 %p4", "lt.s32 %p4"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_text_is_not_proved(name: str) -> None:
    assert verdict(BROKEN[name], shared=65536, most_states=200) != "proved"


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_one_is(name: str) -> None:
    assert verdict(SOUND[name], shared=65536, most_states=200) == "proved"


# Thread 0 writes the word (k / 2 + c) & mask in round k of a loop, thread 32 reads another; all are written before.
SLOTS = """@%p0 st.shared.u32 [%r1], %r0; @%p0 st.shared.u32 [%r1+4], %r0;
@%p0 st.shared.u32 [%r1+8], %r0; @%p0 st.shared.u32 [%r1+12], %r0; bar.sync 0; setp.eq.u32 %p3, %r0, 32;"""
ROUND = """shr.s32 %r10, %r6, 1; add.s32 %r11, %r10, {}; and.b32 %r11, %r11, {}; mad.lo.u32 %r12, %r11, 4, %r1;
@%p0 st.shared.u32 [%r12], %r0; {} mad.lo.u32 %r14, %r13, 4, %r1; @%p3 ld.shared.u32 %r4, [%r14]; bar.sync 0;"""
EVERY_SIXTH = "rem.s32 %r15, %r6, 6; setp.eq.s32 %p4, %r15, 4; selp.b32 %r13, 0, 3, %p4;"


@pytest.mark.parametrize(
    ("more", "mask", "read", "found"),
    [
        (1, 1, "and.b32 %r13, %r10, 1;", "proved"),
        (3, 3, "and.b32 %r13, %r10, 3;", "proved"),
        (2, 1, "and.b32 %r13, %r10, 1;", "races"),
        (4, 3, "and.b32 %r13, %r10, 3;", "races"),
        (1, 1, "and.b32 %r13, %r10, 1; xor.b32 %r13, %r13, 1;", "races"),
        (0, 2, EVERY_SIXTH, "races"),  # k = 10 races: (10 / 2) & 2 is 0, and not 5 modulo 3
    ],
)
def test_a_quotient_of_a_counter_and_more_by_its_remainder(more, mask, read, found):
    assert found in verdict(SLOTS + LOOP.format(ROUND.format(more, mask, read)))


def nested(depth: int) -> Affine:
    base = (symbol("param", "N").terms, (), 0)
    found = symbol("counter", Counter(base, 3))
    for n in range(depth):
        found = symbol("selp", (Predicate(("lt", "s32", found, n)), found, n))
    return found


def test_equal_values_are_one_object():
    assert nested(4) is nested(4)
    assert nested(4) != nested(5)
    assert Counter(((), (), 0), 1) != Counter(((), (), 0), 1, True)


def test_equal_values_are_equal_after_the_table_has_been_emptied(monkeypatch):
    before = nested(4)
    monkeypatch.setattr(values, "_ONCE", {})
    assert nested(4) is not before
    assert nested(4) == before
    assert {before: 1}[nested(4)] == 1
    assert nested(5) != before


def test_the_table_of_values_is_bounded(monkeypatch):
    monkeypatch.setattr(values, "_ONCE", {})
    monkeypatch.setattr(values, "MOST_ONCE", 10)
    made = [Affine((), n) for n in range(25)]
    assert len(values._ONCE) <= 10
    assert [each.const for each in made] == [*range(25)]
