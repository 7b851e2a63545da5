"""Texts in which warps must agree on what is not known: numbers that one lane has stored for all, what is computed of a
round, rounds counted from a start that is not known, bounds with constants."""

from __future__ import annotations

import pytest

from tests.proof.test_text import CP, DATA, LOAD, LOOP, OTHER, STORE, verdict

TELL = f"{DATA} @%p0 st.shared.u32 [%r1+512], %r3; bar.sync 0; ld.shared.u32 %r4, [%r1+512];"
MEET = "setp.eq.u32 %p4, %r4, 1; @%p4 bra.uni $a; bar.sync 0;\n$a:"
AGAIN = "ld.shared.u32 %r4, [%r1+512];"
ZERO = "@%p0 st.shared.u32 [%r1+512], 0; @%p0 st.shared.u32 [%r1+516], 0; bar.sync 0;"


def is_found(found: str, why: str) -> bool:
    return found == "proved" if not why else why in found


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (TELL + MEET, ""),
        (TELL + "cvt.u64.u32 %d4, %r4; cvt.u32.u64 %r4, %d4;" + MEET, ""),
        (TELL + "add.s32 %r4, %r4, 5; div.s32 %r4, %r4, 3;" + MEET, ""),
        # Another warp goes by what it has itself, or by one number more.
        (TELL + "mov.b32 %r4, %r3;" + MEET, "differ in the warp"),
        (TELL + "shr.u32 %r5, %r0, 5; add.s32 %r4, %r4, %r5;" + MEET, "stuck"),
        # Each warp has one of its own, stored by one instruction.
        (
            TELL.replace("@%p0 st", "and.b32 %r8, %r0, 31; setp.eq.u32 %p5, %r8, 0; shr.u32 %r8, %r0, 5;"
            "mad.lo.u32 %r8, %r8, 4, %r1; @%p5 st").replace("[%r1+512]", "[%r8+512]") + MEET,
            "stuck",
        ),
        # Stored perhaps, or by a lane of which it is not known, or overwritten.
        (ZERO + TELL.replace("@%p0 st", "and.pred %p5, %p0, %p4; @%p5 st") + MEET, "stuck"),
        (f"{TELL} bar.sync 0; @%p0 st.shared.u64 [%r1+512], %d1; bar.sync 0; {AGAIN} {MEET}", "stuck"),
        (
            f"{TELL} bar.sync 0; {CP} cp.async.wait_all; bar.sync 0; {AGAIN} {MEET}".replace("+512]", "]"),
            "stuck",
        ),
        (ZERO + TELL.replace("ld.shared.u32 %r4", "ld.shared.v2.u32 {%r4, %r5}") + MEET, "may differ in the warp"),
        (TELL.replace("ld.shared.u32", "ld.shared.u16") + MEET, "may differ in the warp"),
        (TELL.replace("bar.sync 0;", "") + MEET, "races with line"),
    ],
)  # fmt: skip
def test_a_number_that_one_lane_stores_for_all(body, why):
    assert is_found(verdict(body), why)


EACH = TELL + "bar.sync 0;"
LAST = f"mov.b32 %r7, %r8; {EACH} mov.b32 %r8, %r4;"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (EACH + MEET, ""),
        # One warp goes by this round's number, the other by the last one's.
        (LAST + "setp.lt.u32 %p5, %r0, 32; selp.b32 %r4, %r7, %r4, %p5;" + MEET, "races with line"),
        (LAST + "mov.b32 %r4, %r7;" + MEET, "races with line"),  # no longer known to be one number
        (EACH.replace("bar.sync 0; ld", "ld", 1) + MEET, "races with line"),
    ],
)
def test_a_number_for_each_round(body, why):
    found = verdict(ZERO + "mov.b32 %r8, 0; bar.sync 0;" + LOOP.format(body), most_states=60)
    assert is_found(found, why)


SINCE = "ld.param.s32 %r8, [N]; shr.s32 %r8, %r8, 1; mov.u32 %r5, %ctaid.x; mul.lo.s32 %r8, %r8, %r5;" + LOOP.replace(
    "mov.b32 %r6, 0;", "mov.b32 %r6, %r8;"
)
PUT = "mul.lo.s32 %r7, %r7, 256; add.s32 %r7, %r7, %r2; st.shared.u32 [%r7], %r0;"


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_slot_counted_from_a_start_that_is_not_known(n):
    assert verdict(SINCE.format(f"sub.s32 %r7, %r6, %r8; rem.s32 %r7, %r7, {n}; {PUT}")) == "proved"
    assert "not known" in verdict(SINCE.format(f"rem.s32 %r7, %r6, {n}; {PUT}"))
    assert "not known" in verdict(SINCE.format(f"sub.s32 %r7, %r6, %r9; rem.s32 %r7, %r7, {n}; {PUT}"))
    # The slot that is read is the one before that which is written; in three rounds more it is the same.
    read = f"sub.s32 %r7, %r6, %r8; rem.s32 %r7, %r7, {n}; mad.lo.s32 %r3, %r7, 256, %r1; mad.lo.s32 %r3, %r5, 4, %r3;"
    fill = " ".join(f"st.shared.u32 [%r2+{256 * slot}], %r0;" for slot in range(n)) + "bar.sync 0;"
    body = (
        "xor.b32 %r5, %r0, 32;"
        + read
        + "ld.shared.u32 %r4, [%r3]; sub.s32 %r7, %r6, %r8; add.s32 %r7, %r7, {};"
        + (f"rem.s32 %r7, %r7, {n}; {PUT} bar.sync 0;")
    )
    assert verdict(fill + SINCE.format(body.format(1))) == "proved"
    assert "races with line" in verdict(fill + SINCE.format(body.format(n)))


@pytest.mark.parametrize("far", [0, 1, 3, 7])
def test_a_barrier_missing_from_a_round_on_since_the_start(far):
    skip = f"sub.s32 %r7, %r6, %r8; setp.ge.s32 %p3, %r7, {far}; @%p3 bra.uni $s;\n bar.sync 0;\n$s:\n"
    assert verdict(f"{STORE} bar.sync 0; " + SINCE.format(f"{OTHER} {LOAD} {skip} {STORE} bar.sync 0;")) != "proved"


BOUND = "add.s32 %r12, %r9, 1000; add.s32 %r13, %r9, {}; setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;" + (
    LOOP.replace("%r9", "%r12").format("bar.sync 1, 64;")
    + "bra $b;\n$a:"
    + LOOP.replace("%r9", "%r13")
    .replace("%r6", "%r7")
    .replace("$l", "$k")
    .replace("$e", "$f")
    .format("bar.sync 1, 64;")
    + "\n$b:"
)


@pytest.mark.parametrize(("more", "why"), [(1000, ""), (1001, "stuck"), (999, "stuck"), (-1000, "stuck")])
def test_bounds_with_constants(more, why):
    assert is_found(verdict(BOUND.replace("{}", str(more)), most_states=100), why)


PAIRS = "shr.s32 %r12, %r9, 1; mul.lo.s32 %r12, %r12, 2; setp.lt.s32 %p3, %r0, 32; @%p3 bra $a;" + (
    LOOP.replace("%r9", "%r12").format("bar.sync 1, 64;")
    + "setp.lt.s32 %p4, %r12, %r9; @!%p4 bra.uni $b; {} bra $b;\n$a:"
    + LOOP.replace("%r6", "%r7").replace("$l", "$k").replace("$e", "$f").format("bar.sync 1, 64;")
    + "\n$b:"
)


@pytest.mark.parametrize(("rest", "why"), [("bar.sync 1, 64;", ""), ("", "stuck")])
def test_a_fault_that_hangs_on_a_residue(rest, why):
    """One warp meets the other in pairs of rounds, and once more where their number is odd."""
    assert is_found(verdict(PAIRS.replace("{}", rest)), why)


CHOOSE = "rem.s32 %r5, %r9, %r8; setp.gt.s32 %p4, %r5, 3; @!%p4 bra.uni $o;"
CHOOSE += "mov.b32 %r7, 1; bra.uni $p;\n$o: mov.b32 %r7, 2;\n$p:"
GO = "setp.eq.s32 %p3, %r7, 1; @%p3 bra.uni $s; bar.sync 0;\n$s:"


def test_a_branch_that_only_computes():
    assert verdict(LOOP.format(f"add.s32 %r8, %r6, 1; {CHOOSE} {GO}")) == "proved"
    other = "shr.u32 %r5, %r0, 5; add.s32 %r8, %r8, %r5;"
    assert "stuck" in verdict(LOOP.format(f"add.s32 %r8, %r6, 1; {other} {CHOOSE} {GO}"))


FEW = "mov.u32 %r8, %ctaid.x; sub.s32 %r8, %r9, %r8; min.s32 %r8, %r8, 3;"
FILL = LOOP.replace("%r9", "%r8").format("mul.lo.s32 %r5, %r6, 256; add.s32 %r5, %r5, %r2; st.shared.u32 [%r5], 0;")
TAKE = FILL.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7").replace("st.shared.u32 [%r5], 0", "{}")


def test_a_minimum_that_may_be_negative():
    """No round, or up to three; a second loop has as many."""
    read = "ld.shared.u32 %r4, [%r5]"
    assert verdict(FEW + FILL + TAKE.format(read)) == "proved"
    assert "nothing has written" in verdict(FEW + FILL + TAKE.format("ld.shared.u32 %r4, [%r5+256]"))
    assert "nothing has written" in verdict(FEW + FILL + "ld.shared.u32 %r4, [%r2+512];")
    assert "nothing has written" in verdict(FEW + FILL + "min.s32 %r8, %r9, 3;" + TAKE.format(read))


NEXT = f"$l: bar.sync 0; {TELL} setp.lt.s32 %p5, %r4, %r9; @%p5 bra.uni $l;"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (NEXT, ""),
        (NEXT.replace("bar.sync 0;", "", 1), "races with line"),
        (NEXT.replace("setp", "shr.u32 %r5, %r0, 5; add.s32 %r4, %r4, %r5; setp"), "stuck"),
        (NEXT.replace("%p5, %r4", "%p5, %r3"), "does not grow"),
        (
            NEXT.replace(
                "$l: ",
                "$l: mov.b32 %r6, 0;\n$i: add.s32 %r6, %r6, 1; bar.sync 1, 64; setp.lt.s32 %p3, %r6, %r9;"
                "@%p3 bra.uni $i;\n",
            ),
            "",  # its rounds are counted, so each has an inner loop of its own
        ),
    ],
)
def test_a_loop_whose_test_is_on_data(body, why):
    assert is_found(verdict(body), why)
