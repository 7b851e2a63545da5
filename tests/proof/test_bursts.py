"""What is executed at once, blocks of arithmetic and bursts of accesses, leaves what it leaves one after the other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from minitile.proof import Launch, Refused, answer, certificate, check, memory, prove, registers
from minitile.proof.events import Access
from minitile.proof.shortcuts.bursts import bursts
from minitile.proof.text import parse
from minitile.tools.proving import launch_facts
from tests.proof import test_tickets
from tests.proof.each_anew import by_chance, differences, of_tests, one_by_one
from tests.proof.kernels import kernels
from tests.proof.test_examples import text_and_launch
from tests.proof.test_rules import texts
from tests.proof.test_text import (
    CP,
    DATA,
    FENCE,
    FILLED,
    HEAD,
    INIT,
    LOAD,
    LOOP,
    NEXT,
    OTHER,
    STORE,
    WARPGROUP,
    verdict,
)

ROWS = "mad.lo.u32 %r3, %r0, 16, %r1; st.shared.v4.u32 [%r3], {0, 0, 0, 0};"
MATRICES = "mad.lo.u32 %r3, %r0, 16, %r1; "
FOUR = "st.shared.u32 [%r2], %r0; st.shared.u32 [%r2+256], %r0; st.shared.u32 [%r2+512], %r0;"


def states(data: Any) -> list[int]:
    return [len(case) for case in data["cases"]]


CASES = [  # (why it is refused, "" for proved; a body with a burst)
    ("", FOUR),
    ("", f"{FOUR} bar.sync 0; {NEXT} ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+256];"),
    ("lanes", f"{NEXT} st.shared.u32 [%r2], %r0;\n st.shared.u32 [%r3], %r0;"),
    ("out of bounds", "st.shared.u32 [%r2], %r0;\n st.shared.u32 [%r2+4096], %r0;"),
    ("misaligned", "st.shared.u32 [%r2], %r0;\n st.shared.u32 [%r2+2], %r0;"),
    ("nothing has written", "st.shared.u32 [%r2], %r0;\n ld.shared.u32 %r3, [%r2];\n ld.shared.u32 %r4, [%r2+1024];"),
    ("races", f"{FOUR} xor.b32 %r5, %r0, 32; mad.lo.u32 %r3, %r5, 4, %r1;\n st.shared.u32 [%r3+768], %r0;\n"
     " st.shared.u32 [%r3+512], %r0;"),
    # what one load gives all lanes is one number, also behind another load
    ("", "@%p0 st.shared.u32 [%r1], 1; @%p0 st.shared.u32 [%r1+4], 2; bar.sync 0;"
     " ld.shared.u32 %r4, [%r1]; ld.shared.u32 %r5, [%r1+4]; setp.eq.u32 %p4, %r5, 2;"
     " @%p4 bra $e; bar.sync 1, 32; $e:\n"),
    # what is loaded is not known any more
    ("not known", f"{FOUR} bar.sync 0; mov.b32 %r7, %r2; ld.shared.v2.u32 {{%r7, %r4}}, [%r1];\n"
     " ld.shared.v2.u32 {%r5, %r6}, [%r1+8]; st.shared.u32 [%r7], 0;"),
    ("nothing has written", "and.b32 %r5, %r0, 16; setp.eq.u32 %p4, %r5, 0; @%p4 bra $e;\n st.shared.u32 [%r2], 1;\n"
     " st.shared.u32 [%r2+256], 1;\n $e: bar.sync 0;\n ld.shared.u32 %r4, [%r2];"),
    ("nothing has written", f"{DATA} and.b32 %r5, %r0, 16; setp.eq.u32 %p5, %r5, 0; @%p5 bra $e;\n"
     " fence.proxy.async.shared::cta; @%p4 bra $i;\n st.shared.u32 [%r2], 1;\n st.shared.u32 [%r2+256], 1;\n $i:\n"
     " $e: bar.sync 0;\n ld.shared.u32 %r4, [%r2];"),
    ("", f"{DATA} @%p4 bra $e; {FOUR}\n $e:\n"),
    ("races", f"{CP}\n {CP} cp.async.wait_all;"),
    ("", f"{CP} {CP.replace('%r2', '%r2+256')} cp.async.wait_all;"),
    ("", f"{MATRICES} stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {{%r4, %r5, %r6, %r7}};"
     " stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3+2048], {%r4, %r5};"),
]  # fmt: skip
APART = [  # the same, where accesses may not be taken together
    ("not known", f"{ROWS} bar.sync 0; ld.shared.v2.u32 {{%r3, %r4}}, [%r1];"
     " ld.shared.v2.u32 {%r5, %r6}, [%r3];"),
    ("nothing has written", "@%p0 st.shared.u32 [%r2], 1;\n @%p0 st.shared.u32 [%r2+256], 1; bar.sync 0;\n"
     " ld.shared.u32 %r4, [%r2];"),
    # behind branches by data
    ("not known", f"{DATA} mov.b32 %r7, %r2; @%p4 bra $e; setp.eq.u32 %p5, %r3, 1; @%p5 bra $m;\n"
     " add.u32 %r7, %r2, 512;\n st.shared.u32 [%r2], 1;\n $m:\n st.shared.u32 [%r7], 2;\n $e:\n"),
]  # fmt: skip


def text_of(body: str) -> str:
    return HEAD.format(threads=64, shared=4096) + body + "\n  ret;\n}\n"


@pytest.mark.parametrize(("why", "body"), CASES + APART)
def test_is_what_it_is_one_by_one(why, body):
    program = parse(text_of(body), Launch({"T": 1024}))
    assert any(bursts(program, [0] * len(program.code))) is ((why, body) in CASES)
    found = verdict(body)
    assert why in found if why else found == "proved"
    with one_by_one():
        assert verdict(body) == found


def test_a_burst_of_registers_that_a_product_holds():
    begun, _, _ = WARPGROUP[0][0].partition("wgmma.wait")
    loads = "ld.shared.v2.f32 {%f0, %f1}, [%r3]; ld.shared.v2.f32 {%f2, %f3}, [%r3+8];"
    after = f"{begun} {loads} wgmma.wait_group.sync.aligned 0;"
    before = f"{FENCE} {loads} {begun.removeprefix(FENCE)} wgmma.wait_group.sync.aligned 0;"
    for body, why in ((after, "accesses registers of a product"), (before, "no wgmma.fence since")):
        assert why in verdict(FILLED + body, 128, box=128)
        with one_by_one():
            assert why in verdict(FILLED + body, 128, box=128)


def test_lanes_meet_in_a_burst_of_matrices():
    """So all have passed the wait before one of them completes the next phase."""
    arrive = "@%p0 mbarrier.arrive.shared.b64 _, [%r1+1024];"
    wait = "$w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0;\n @!%p1 bra $w;"
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r3{}];"
    body = f"{ROWS} {INIT} {arrive} {wait} {load.format('')} {load.format('+0')} {arrive}"
    text = HEAD.format(threads=32, shared=4096) + body + "\n  ret;\n}\n"
    assert prove(text, Launch({})).together == ()
    with one_by_one():
        assert prove(text, Launch({})).together == ()


def test_lanes_meet_in_products_by_mma():
    """Also in those of the second warp, which are not executed anew."""
    lane = "and.b32 %r9, %r0, 31; setp.eq.u32 %p2, %r9, 0;"
    arrive = "@%p2 mbarrier.arrive.shared.b64 _, [%r1+1024];"
    wait = "$w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0;\n @!%p1 bra $w;"
    product = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f0, %f1}, {%f2}, {%f3}, {%f0, %f1};"
    for between, together in ((f"{product} {product}", 0), ("", 1)):
        body = f"{INIT.replace('1024], 1;', '1024], 2;')} {lane} {arrive} {wait} {between} {arrive}"
        text = HEAD.format(threads=64, shared=4096) + body + "\n  ret;\n}\n"
        assert len(prove(text, Launch({})).together) == together
        with one_by_one():
            assert len(prove(text, Launch({})).together) == together


def test_a_burst_that_need_not_be_executed_is_guessed():
    """So what is at fault behind it need not be a fault."""
    found = answer(text_of(f"{DATA} @%p4 bra $e; {FOUR}\n $e: {NEXT} ld.shared.u32 %r4, [%r3];"), Launch({}))
    assert found.verdict == "refused"
    assert "have not met" in found.reason


def test_each_access_of_a_burst_is_a_step():
    found = answer(text_of(f"{FOUR} st.shared.u32 [%r2+4096], %r0;"), Launch({"T": 1024}))
    assert len([step for step in found.steps if step.text.startswith("st.shared")]) >= 4


def same_states(text: str, launch: Launch) -> None:
    """A certificate made either way is accepted either way."""
    found = certificate(text, launch)
    with one_by_one():
        other = certificate(text, launch)
        check(found, text, launch)
    check(other, text, launch)
    assert states(found) == states(other)


@pytest.mark.parametrize("name", ["gemm", "rms_norm"])
def test_states_are_the_same(name):
    same_states(*text_and_launch(name, "sm_80"))


def some() -> list[tuple[str, Launch]]:
    bodies = [body for _, body in CASES + APART] + [*test_tickets.SOUND.values()]
    return [(text_of(body), Launch({"T": 1024})) for body in bodies] + by_chance("by_chance", 0, 6)


def test_what_is_kept_is_what_is_worked_out_anew():
    assert differences(some(), 40) == []


class Blind(dict[tuple[Any, ...], Any]):
    """A table whose keys lack their last part."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(key[:-1], default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__(key[:-1], value)


def test_what_is_kept_without_what_it_hangs_on(monkeypatch):
    """Is told from what is worked out anew."""
    kept = registers.Registers.evaluated

    def evaluated(self, state, warp, each):
        self.results = self.results if isinstance(self.results, Blind) else Blind()
        return kept(self, state, warp, each)

    monkeypatch.setattr(registers.Registers, "evaluated", evaluated)
    assert differences(some()[:12], 40)


@pytest.mark.parametrize("where", ["%p5", "!%p5"])
def test_answers_are_not_kept(where):
    """A test of equality asks within a loop: what one answer gives must not be taken for what the other does."""
    inner = LOOP.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7").format("bar.sync 0;")
    race = f"setp.eq.s32 %p5, %r9, 2; @{where} bra.uni $z; {STORE} {OTHER} {LOAD}\n$z:"
    assert answer(text_of(LOOP.format(f"{inner} {race}")), Launch({})).verdict == "fault"


@pytest.mark.parametrize("more", [1, 2])
def test_tests_against_other_bounds_are_others(more):
    """By the same instruction in the same run: each warp compares with a bound of its own."""
    bound = f"shr.u32 %r10, %r0, 5; add.s32 %r10, %r10, {more};"
    found = verdict(f"{bound} setp.lt.s32 %p5, %r9, %r10; @%p5 bra.uni $z; bar.sync 0;\n$z:")
    assert "waits for ever" in found


@pytest.mark.parametrize("times", range(4))
def test_a_truth_of_what_was_stored_before_is_forgotten(times):
    """In two rounds that ask nothing besides, the same instruction stores what may be another number."""
    tell = (
        "@%p0 ld.global.u32 %r3, [%d1]; @%p0 st.shared.u32 [%r1+2048], %r3; bar.sync 0; ld.shared.u32 %r8, [%r1+2048];"
    )
    count = f"{tell} bar.sync 0; setp.eq.u32 %p5, %r8, 0; @%p5 bra.uni $s; add.s32 %r12, %r12, 1;\n$s:"
    rounds = f"mov.b32 %r12, 0; {LOOP.format(count).replace('%r9', '2')}"
    found = verdict(f"{rounds} setp.ne.s32 %p6, %r12, {times}; @%p6 bra.uni $z; {STORE} {OTHER} {LOAD}\n$z:")
    assert (found == "proved") is (times == 3)


ANY = "ld.global.u32 %r8, [%d1]; and.b32 %r8, %r8, 63; mad.lo.u32 %r5, %r8, 8, %r1;"
GUESSED = {  # accesses somewhere, each unlike the one before only in its offset, its size, or the lanes
    "offset": ("nothing has written", "ld.shared.u32 %r4, [%r5];", "ld.shared.u32 %r4, [%r5+512];"),
    "size": ("nothing has written", "ld.shared.u32 %r4, [%r5];", "ld.shared.v2.u32 {%r4, %r6}, [%r5];"),
    "lanes": ("two lanes write", "@%p0 st.shared.u32 [%r5], 0; bar.sync 0;", "st.shared.u32 [%r5], %r0;"),
}


@pytest.mark.parametrize("what", GUESSED)
def test_places_are_guessed_of_each_access(what):
    why, first, second = GUESSED[what]
    begin = f"mad.lo.u32 %r3, %r0, 8, %r1; st.shared.u32 [%r3], 0; bar.sync 0; {ANY}"
    assert verdict(f"{begin} {first}") == "proved"
    assert why in verdict(f"{begin} {first} {second}")


def test_what_is_superseded():
    """Only what is by the same instruction, and where one of both is asynchronous what is written over."""
    found = memory.Memory(4, [(0, 64)])
    feet = [found.of(((lane, units),)) for lane, units in ((0, 1), (0, 3), (1, 1))]
    truths = (False, True)
    accesses = [
        Access(1, fence, write, asynchronous, foot, (0, pc), 1, atomic, atomic * adds)
        for fence, write, asynchronous, foot, pc, atomic, adds in itertools.product(
            (0, 2), truths, truths, feet, (0, 1), truths, (0, 1)
        )
    ]
    together = 0
    for each, new in itertools.product(accesses, accesses):
        for knows in (0, 3):
            if memory._superseded(each, knows, new):
                together += 1
                assert each.by == new.by or (new.write and (new.asynchronous or each.asynchronous))
    assert together > 1000


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(0, 1200, 100))
def test_all_small_texts_kept_or_anew(begin):
    assert differences(of_tests()[begin : begin + 100]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by_chance", "roles", "async", "loops"])
def test_texts_by_chance_kept_or_anew(name):
    assert differences(by_chance(name, 0, 60), 60, 10.0) == []


@pytest.mark.slow
def test_small_texts():
    every = texts()

    def verdicts() -> list[str]:
        found = []
        for text, _, launch in every:
            try:
                prove(text, launch, most_states=300, seconds=20.0)
                found.append("")
            except Refused as why:
                found.append(str(why))
        return found

    at_once = verdicts()
    with one_by_one():
        assert verdicts() == at_once


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_every_kernel(target):
    for _, kernel in kernels(target):
        text, launch = kernel.asm["ptx"], launch_facts(kernel.launch_info)
        found = answer(text, launch, most_states=100, seconds=600.0)
        if found:
            same_states(text, launch)
        else:
            with one_by_one():
                other = answer(text, launch, most_states=100, seconds=600.0)
            assert (other.verdict, other.line, other.reason) == (found.verdict, found.line, found.reason)
