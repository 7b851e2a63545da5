"""The rewrites of minitile.proof.loops: each does what its docstring says where its precondition holds, and leaves
alone what does not have it; texts by chance do the same before and after; what is proved of them has no fault."""

from __future__ import annotations

import re

import pytest

from minitile.proof.loops import counters, division, retries, rotation, strides, sums
from minitile.proof.loops.flow import Flow
from minitile.proof.reading import statements
from minitile.proof.text import ARITHMETIC, _instruction
from tests.proof import loops_by_chance, roles_by_chance

TRY = "mbarrier.try_wait.parity.shared.b64 %p, [%s], %h;"
HI = "mul.hi.u32 %h, %x, -1431655765;"
UP = "L: st.shared.u32 [%s], %c; add.s32 %c, %c, 1; setp.le.s32 %p, %c, %n; @%p bra L;"
COPY = "L: add.s32 %y, %c, 2; st.shared.u32 [%s], %c; mov.u32 %c, %y; setp.lt.s32 %p, %c, %n; @%p bra L;"
GROWN = (
    "mov.u32 %c, 0; L: st.shared.u32 [%s], %r; add.s32 %r, %r, 2; add.s32 %c, %c, 1; setp.lt.s32 %p, %c, %n; @%p bra L;"
)
SUM = "L: bar.sync 1; add.s32 %c, %c, 1; add.s32 %y, %c, %r; setp.lt.s32 %p, %y, %n; @%p bra L;"
STRIDE = "mov.u32 %x, %ctaid.x; ld.param.u32 %n, [N]; mov.u32 %t, %x; L: add.s32 %t, %t, %nctaid.x;" + (
    " bar.sync 1; setp.lt.s32 %p, %t, %n; @%p bra L;"
)
START = "sub.s32 %c, %a, %b; L: bar.sync 1; add.s32 %c, %c, 1; setp.lt.s32 %p, %c, %n; @%p bra L;"
RETRY = f"L: {TRY} selp.b32 %r, 1, 0, %p; setp.eq.s32 %q, %r, 0; @%q bra L;"
POLL = (
    f"{TRY} selp.b32 %r, 1, 0, %p; setp.ne.s32 %q, %r, 0; @%q bra X; mov.u32 %t, 8; L: setp.lt.s32 %v, %t, 64; "
    f"@%v bra M; nanosleep.u32 %t; M: add.s32 %t, %t, %t; {TRY} selp.b32 %r, 1, 0, %p; setp.eq.s32 %q, %r, 0; "
    "@%q bra L; X: ld.shared.u32 %a, [%b]; ret;"
)
LATER = POLL.rindex(TRY)  # where the second try stands
HEAD = "L: mov.u32 %x, 1; setp.ge.s32 %p, %c, %n; @%p bra E; st.shared.u32 [%s], %c; bra L; E: ret;"
# Each rewrite, a text that it rewrites, and such that lack one part of its precondition.
CASES = {
    division.quotients: (
        f"{HI} shr.u32 %q, %h, 1;",
        {
            "a factor that is not exact": f"{HI} shr.u32 %q, %h, 1;".replace("-1431655765", "1431655765"),
            "another way to the shift": f"{HI} L: shr.u32 %q, %h, 1;",
            "a branch between": f"{HI} @%p bra L; shr.u32 %q, %h, 1; L: ret;",
            "x is written between": f"{HI} mov.u32 %x, 1; shr.u32 %q, %h, 1;",
            "x is the product": f"{HI} shr.u32 %q, %h, 1;".replace("%h", "%x"),
            "the product is written between": f"{HI} mov.u32 %h, 1; shr.u32 %q, %h, 1;",
            "a guarded product": f"@%p {HI} shr.u32 %q, %h, 1;",
            "a guarded shift": f"{HI} @%p shr.u32 %q, %h, 1;",
        },
    ),
    retries.waits: (
        RETRY,
        {
            "the branch is taken when it is done": RETRY.replace("@%q", "@!%q"),
            "the branch is of something else": RETRY.replace("%r, 0;", "%n, 0;"),
            "a register by the number of tries": RETRY.replace("setp", "xor.b32 %a, %a, 1; setp"),
            "what the try before has left": RETRY.replace("selp", "mov.b32 %a, %r; selp"),
            "another phase when it is tried again": RETRY.replace("setp", "mov.b32 %h, 1; setp"),
            "another mbarrier when it is tried again": RETRY.replace("L:", "L: add.s32 %s, %s, 8;"),
            "something that is done with each try": RETRY.replace("selp", "mbarrier.arrive.shared.b64 _, [%s]; selp"),
            "a load with each try": RETRY.replace("L:", "L: ld.shared.u32 %a, [%b];"),
            "another try with each": RETRY.replace("L:", f"L: {TRY}"),
            "a guard between": RETRY.replace("selp", "@%w selp"),
            "another way into it": RETRY.replace("setp", "M: setp") + " @%w bra M;",
        },
    ),
    retries.polls: (
        POLL,
        {
            "it gives up": POLL.replace("eq.s32 %q, %r, 0", "lt.s32 %q, %t, 9000"),
            "it ends when the phase is not complete": POLL.replace("@%q bra L", "@!%q bra L"),
            "it goes on when the phase is not complete": POLL.replace("@%q bra X", "@!%q bra X"),
            "another phase is tried then": POLL[:LATER] + POLL[LATER:].replace("%h", "%i"),
            "another mbarrier is tried then": POLL[:LATER] + POLL[LATER:].replace("[%s]", "[%i]"),
            "a token is tried then": POLL[:LATER] + POLL[LATER:].replace(".parity", ""),
            "a way out before the try": POLL.replace("@%v bra M", "@%v bra X"),
            "a way around the try": POLL.replace("@%v bra M", "@%v bra N").replace("%p; setp.eq", "%p; N: setp.eq"),
            "a loop in it": POLL.replace("M: add", "M: @%w bra L; add"),
            "a try is missing": POLL[:LATER] + POLL[LATER:].replace(TRY, "mov.pred %p, %w;"),
            "a phase that it writes": POLL.replace("nanosleep", "mov.u32 %h, 1; nanosleep"),
            "a store": POLL.replace("nanosleep.u32 %t", "st.shared.u32 [%b], %t"),
            "a load": POLL.replace("nanosleep.u32 %t", "ld.shared.u32 %t, [%b]"),
            "an arrival": POLL.replace("nanosleep.u32 %t", "mbarrier.arrive.shared.b64 _, [%s]"),
            "a barrier": POLL.replace("nanosleep.u32 %t", "bar.sync 0"),
            "an end": POLL.replace("nanosleep.u32 %t", "ret"),
            "how long it took is read": POLL.replace("ret;", "st.shared.u32 [%b], %t; ret;"),
            "what it found is read": POLL.replace("ret;", "st.shared.u32 [%b], %r; ret;"),
            "what it found is read by a guard": POLL.replace("ret;", "@%q st.shared.u32 [%b], %a; ret;"),
            "another way into it": POLL + " Y: bra M;",
            "more behind it before the end": POLL.replace("X: ld", "ld").replace("ret;", "X: ret;"),
        },
    ),
    rotation.straighten: (
        "@%p bra X; bra Y; X: bar.sync 1; Y: ret;",
        {
            "another way to the jump": "@%p bra X; Z: bra Y; X: bar.sync 1; Y: ret;",
            "a jump by a guard": "@%p bra X; @%q bra Y; X: bar.sync 1; Y: ret;",
            "a branch to elsewhere": "@%p bra Y; bra X; X: bar.sync 1; Y: ret;",
        },
    ),
    rotation.rotate: (
        HEAD,
        {
            "a way into the head": HEAD.replace("setp", "M: setp").replace("st.shared", "@%q bra M; st.shared"),
            "a loop in the head": HEAD.replace("setp", "@%q bra L; setp"),
            "never left": HEAD.replace("@%p bra E;", ""),
            "it ends in the head": HEAD.replace("setp", "@%q ret; setp"),
            "a jump by a guard": HEAD.replace("; bra L", "; @%q bra L"),
        },
    ),
    counters.copies: (
        COPY,
        {
            "of another register": COPY.replace("%y, %c, 2", "%y, %n, 2"),
            "a copy in some rounds": COPY.replace("mov", "@%q mov"),
            "a sum in some rounds": COPY.replace("add", "@%q bra M; add").replace("st.", "M: st."),
            "written twice": COPY.replace("st.", "mov.u32 %c, 1; st."),
            "the sum is written twice": COPY.replace("st.", "add.s32 %y, %y, 1; st."),
            "the copy before another sum": "L: mov.u32 %c, %y; add.s32 %y, %n, 2; setp.lt.s32 %p, %c, %n; @%p bra L;",
        },
    ),
    counters.count: (
        UP,
        {
            "a step in some rounds": UP.replace("add", "@%q add"),
            "a step around which a branch goes": UP.replace("add", "@%q bra M; add").replace("setp", "M: setp"),
            "a way back before the step": UP.replace("setp", "@%q bra L; setp"),
            "a test in some rounds": UP.replace("setp", "@%q setp"),
            "two steps": UP.replace("setp", "add.s32 %c, %c, 1; setp"),
            "another direction": UP.replace("le", "ge"),
            "a bound that the loop writes": UP.replace("setp", "add.s32 %n, %n, 1; setp"),
            "a bound that no number is beyond": UP.replace("%n", "0x7fffffff"),
            "an unsigned bound below 0": UP.replace("le.s32", "lt.u32").replace("%n", "-2"),
            "the second result of a test": UP.replace("%p, %c", "%w|%p, %c"),
            "the branch tests something else": UP.replace("@%p", "@%q"),
            "!= where all is computed": UP.replace("st.shared.u32 [%s], %c;", "").replace("le", "ne"),
            "another way into the loop": UP.replace("add", "M: add") + " @%q bra M;",
        },
    ),
    strides.strided: (
        STRIDE,
        {
            "set to something else": STRIDE.replace("L:", "@%q bra L; mov.u32 %t, 1; L:"),
            "grown by something else": STRIDE.replace("bar", "add.s32 %t, %t, 1; bar"),
            "grown in some rounds": STRIDE.replace("add.s32 %t", "@%q add.s32 %t"),
            "a bound that is written twice": STRIDE.replace("bar", "mov.u32 %n, 5; bar"),
            "a start that is written twice": STRIDE.replace("bar", "mov.u32 %x, 5; bar"),
            "a bound on some ways only": STRIDE.replace("ld.", "@%q ld."),
            "a bound that a branch leads around": STRIDE.replace("ld.", "@%q bra K; ld.").replace(
                "mov.u32 %t", "K: mov.u32 %t"
            ),
            "two starts and a bound behind a branch": "@%q bra K; K: " + STRIDE.replace("L:", "@%q mov.u32 %t, %x; L:"),
            "another comparison": STRIDE.replace("lt", "le"),
        },
    ),
    counters.offsets: (
        SUM,
        {
            "without a sign": SUM.replace("lt.s32", "lt.u32"),
            "a sum that the loop writes to": SUM.replace("setp", "add.s32 %r, %r, 1; setp"),
            "a bound that the loop writes": SUM.replace("setp", "add.s32 %n, %n, 1; setp"),
            "a step between": SUM.replace("add.s32 %c, %c, 1; ", "").replace("setp", "add.s32 %c, %c, 1; setp"),
            "a sum in some rounds": SUM.replace("add.s32 %y", "@%q add.s32 %y"),
            "around which a branch goes": SUM.replace("add.s32 %y", "@%q bra M; add.s32 %y").replace("setp", "M: setp"),
            "a step in some rounds": SUM.replace("add.s32 %c", "@%q add.s32 %c"),
            "another sum": SUM.replace("setp", "add.s32 %y, %y, 1; setp"),
        },
    ),
    sums.numbers: (
        "mov.u32 %x, 5; bar.sync 1; mov.u32 %y, %x;",
        {
            "a label between": "mov.u32 %x, 5; L: bar.sync 1; mov.u32 %y, %x; @%p bra L;",
            "written between": "mov.u32 %x, 5; add.u32 %x, %x, 1; mov.u32 %y, %x;",
            "written by some lanes between": "mov.u32 %x, 5; @%p add.u32 %x, %x, 1; mov.u32 %y, %x;",
            "set by some lanes": "@%p mov.u32 %x, 5; mov.u32 %y, %x;",
            "moved by some lanes": "mov.u32 %x, 5; @%p mov.u32 %y, %x;",
            "of other registers": "mov.u32 %x, %z; mov.u32 %y, %x;",
            "of 64 bits": "mov.u64 %x, 5; mov.u64 %y, %x;",
        },
    ),
    sums.follow: (
        GROWN,
        {
            "in some rounds": GROWN.replace("add.s32 %r", "@%q add.s32 %r"),
            "around which a branch goes": GROWN.replace("add.s32 %r", "@%q bra M; add.s32 %r").replace(
                "add.s32 %c", "M: add.s32 %c"
            ),
            "written twice": GROWN.replace("add.s32 %c", "mov.u32 %r, 1; add.s32 %c"),
            "by a register": GROWN.replace("%r, 2", "%r, %n"),
            "a step that does not divide it": GROWN.replace("%c, 1", "%c, 4").replace("%c, 0", "%c, %a"),
            "a loop that only computes": GROWN.replace("st.shared.u32 [%s], %r;", ""),
            "a loop that is not counted": GROWN.replace("lt", "gt"),
        },
    ),
    sums.starts: (
        START,
        {
            "in some lanes": START.replace("sub", "@%q sub"),
            "of no loop's counter": START.replace("%c, %a", "%d, %a"),
            "by a move": START.replace("sub.s32 %c, %a, %b", "mov.u32 %c, %a"),
        },
    ),
}


def texts_of(rewrite, body: str) -> tuple[list[str], list[str]]:
    """Statements before and after a rewrite."""
    found, last = statements([(n, each) for n, each in enumerate(re.split(r"(?<=[;:]) ", body), 1)])
    flow = Flow(found, last, lambda each: _instruction(0, each).writes, ARITHMETIC)
    rewrite(flow)
    return [each.text for each in found], [each.text for each in flow.items]


@pytest.mark.parametrize("rewrite", CASES, ids=lambda each: each.__name__)
def test_a_rewrite(rewrite):
    before, after = texts_of(rewrite, CASES[rewrite][0])
    assert before != after


@pytest.mark.parametrize(
    ("rewrite", "name"), [(rewrite, name) for rewrite, (_, wrong) in CASES.items() for name in wrong]
)
def test_a_precondition(rewrite, name):
    """What lacks it is left alone."""
    before, after = texts_of(rewrite, CASES[rewrite][1][name])
    assert before == after


@pytest.mark.parametrize("where", ["at", "ahead"])
def test_a_phase_by_another_register(where):
    """A number is one in two registers; it is not known to be where a way leads around the statement that sets it."""
    begin = "mov.u32 %h, 0; mov.u32 %i, 0; " if where == "at" else "mov.u32 %h, 0; @%w bra S; mov.u32 %i, 0; S: "
    before, after = texts_of(retries.polls, begin + POLL[:LATER] + POLL[LATER:].replace("%h", "%i"))
    assert (before != after) == (where == "at")


def test_a_loop_up_to_a_number():
    """It counts from 0, whatever its counter starts at; without a sign it is counted as it was."""
    _, after = texts_of(counters.count, UP.replace("%n", "5"))
    assert any(each.endswith("mov.b32 %_0c1, 0") for each in after)
    _, after = texts_of(counters.count, UP.replace("%n", "5").replace("s32 %p", "u32 %p"))
    assert not any(each.endswith("%_0c1, 0") for each in after)


def same(seeds: range) -> int:
    """Compares texts; how many were rewritten."""
    count = 0
    for seed in seeds:
        lines = loops_by_chance.text_of(seed)
        assert loops_by_chance.differs(lines) == "", seed
        count += loops_by_chance.is_rewritten(lines)
    return count


def test_texts_by_chance():
    assert same(range(60)) > 50


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_texts_by_chance_more(part):
    assert same(range(1000 * part + 100, 1000 * part + 1100)) > 900


def none_is_wrong(seeds: range) -> int:
    """What is proved has no fault in any schedule for any size; how many are proved."""
    count = 0
    for seed in seeds:
        text = roles_by_chance.text_of(seed)
        if (together := roles_by_chance.proved(text)) is not None:
            assert roles_by_chance.wrong(text, together) == "", seed
            count += 1
    return count


def test_roles_by_chance():
    assert none_is_wrong(range(12)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_roles_by_chance_more(part):
    assert none_is_wrong(range(400 * part + 100, 400 * part + 500)) > 40


def test_what_is_wrong_is_found():
    """The comparison sees a loop that goes once more, and a warp that does not come to a barrier."""
    lines = [
        "mov.u32 %c0, 0;",
        "$L:",
        "bar.sync 1;",
        "add.s32 %c0, %c0, 1;",
        "setp.lt.s32 %p0, %c0, %n;",
        "@%p0 bra $L;",
    ]
    given = {"%n": 3, "%m": 1}
    before, after = (
        loops_by_chance.run(*statements(list(enumerate(each))), given)
        for each in (lines, [each.replace(".lt.", ".le.") for each in lines])
    )
    assert before[0] == after[0] == "end"
    assert len(before[1].done) == 3
    assert len(after[1].done) == 4
    right = next(seed for seed in range(40) if roles_by_chance.proved(roles_by_chance.text_of(seed)) is not None)
    text = roles_by_chance.text_of(right)
    assert roles_by_chance.wrong(text) == ""
    assert roles_by_chance.wrong(text.replace("bar.sync 0;", "bar.sync 0;\n@%w0 ret;", 1)) != ""
