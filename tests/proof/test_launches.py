"""What answers say of each other, what a grid says of a block, and numbers that give all answers of a run."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

import minitile as mt
from minitile.proof import Launch, Refused, answer, check, explore
from minitile.proof.arithmetic.values import Affine, Predicate, binary, compare, symbol
from minitile.proof.launches.implied import (
    above_of_quotient,
    ends,
    from_ends,
    from_facts,
    from_least,
    from_quotients,
    least_by_grid,
    least_of_sizes,
)
from minitile.proof.launches.witness import evaluate, witness
from minitile.tools.proving import launch_facts
from tests.proof.test_text import HEAD, LOAD, LOOP, OTHER, STORE, verdict

K = symbol("param", "K")
STEPS = binary("shr", "s32", K, 5)


def less(a, b):
    found = compare("lt", "s32", a, b)
    assert isinstance(found, Predicate)
    return found


@pytest.mark.parametrize("k", [0, 31, 32, 33, 63, 64, 95, 96])
def test_what_follows_is_true(k):
    """For a number k each answer that follows from others is the one that k gives."""
    facts = {less(K, 32): int(k < 32), less(63, K): int(k > 63)}
    for n in range(1, 100):
        for asked, truth in ((less(K, n), k < n), (less(n, K), n < k)):
            assert from_facts(facts, asked) in (None, int(truth))
            for v in range(4):
                bounds = {(((), (), -1), STEPS.terms): (v, None) if k // 32 > v else (-1, v)}
                assert from_quotients(bounds, -1, asked) in (None, int(truth))
                assert from_quotients(bounds, -2, asked) is None  # numbers that may have been shifted
    for v in range(5):
        assert above_of_quotient(facts, STEPS.terms, v) in (None, int(k // 32 > v))


def scaled(by: int, more: int = 0):
    return binary("add", "s32", binary("mul", "s32", K, by % 2**32), more % 2**32)


FORMS = [(by, more) for by in (1, 2, 4, -1, -4) for more in (-3, 0, 2)]


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5, 8])
def test_what_multiples_say_is_true(k):
    """For a number k each answer that follows from others, on multiples of it, is the one that k gives."""
    rng, followed = random.Random(k), 0

    def fact():
        (by, more), n = rng.choice(FORMS), rng.randrange(24)
        name, kind = rng.choice([("lt", "s32"), ("lt", "u32"), ("gt", "s32"), ("ge", "u32"), ("eq", "s32")])
        x = by * k + more
        a, b = (x % 2**32, n) if kind == "u32" else (x, n)
        return compare(name, kind, scaled(by, more), n), {"lt": a < b, "gt": a > b, "ge": a >= b, "eq": a == b}[name]

    for _ in range(2000):
        facts = {}
        for _ in range(rng.randrange(4)):
            value, truth = fact()
            if value.expression[0] == "not":
                value, truth = value.expression[1], not truth
            facts[value] = int(truth)
        bounds = []
        for by in rng.sample([1, 2, 4, -1, -4], 2):
            low, high = by * k - abs(by) * rng.randrange(3), by * k + abs(by) * rng.randrange(3)
            bounds.append((scaled(by).terms, rng.choice([None, low]), rng.choice([None, high])))
        value, truth = fact()
        if value.expression[0] == "not":
            value, truth = value.expression[1], not truth
        (terms,) = {each.terms for each in value.expression if isinstance(each, Affine)}
        low, high = ends(iter(bounds), facts, terms)
        number = terms[0][1] * k
        assert low is None or low <= number
        assert high is None or number <= high
        found = from_ends(low, high, value)
        assert found in (None, int(truth))
        followed += found is not None
    assert followed > 500


def test_what_multiples_say():
    four, down = scaled(4).terms, scaled(-4).terms
    assert ends(iter([(four, 8, None)]), {}, down) == (None, -8)
    assert ends(iter([]), {less(9, scaled(4)): 1}, down) == (None, -12)  # a multiple of 4
    assert ends(iter([]), {less(scaled(4), 9): 1}, four) == (None, 8)
    assert ends(iter([]), {compare("eq", "s32", K, 3): 1}, four) == (12, 12)
    assert ends(iter([]), {compare("eq", "s32", K, 3): 0}, four) == (None, None)
    assert from_ends(None, None, compare("eq", "s32", scaled(4), 6)) == 0
    assert ends(iter([(binary("add", "s32", K, symbol("param", "N")).terms, 8, None)]), {}, four) == (None, None)
    small = compare("lt", "u32", scaled(1, -1), 3)  # 1 ≤ K < 4
    assert ends(iter([]), {small: 1}, K.terms) == (1, 3)
    assert ends(iter([]), {small: 0}, K.terms) == (None, None)  # it may be 0
    assert ends(iter([(K.terms, 1, None)]), {small: 0}, K.terms) == (4, None)
    assert ends(iter([]), {compare("lt", "s16", K, 3): 1}, K.terms) == (None, None)


@pytest.mark.parametrize("least", [0, 1, 11, 12, 13, 25])
def test_what_sizes_by_residues_are_at_least(least):
    """K = 12·q + r is `least` at least: the smallest such q, and no smaller one, is named."""
    for residue in range(12):
        residues = {("param", "K"): (12, residue)}
        found = least_of_sizes({"K": least}, residues)
        assert found["quotient", ("param", "K")] == next(q for q in range(9) if 12 * q + residue >= least)
    assert least_of_sizes({}, residues) == {}
    times = Affine(((("quotient", ("param", "K")), 12),), 0)
    assert from_least(least_of_sizes({"K": 1}, {("param", "K"): (12, 0)}), less(times, 12)) == 0
    assert from_least(least_of_sizes({"K": 1}, {("param", "K"): (12, 0)}), less(times, 13)) is None
    assert from_least({}, less(times, 0 + 1)) is None


def test_what_follows():
    facts = {less(K, 64): 1, less(31, K): 1}
    assert from_facts(facts, less(K, 65)) == from_facts(facts, less(K, 64)) == 1
    assert from_facts(facts, less(K, 32)) == 0
    assert from_facts(facts, less(30, K)) == 1
    assert from_facts(facts, less(K, 40)) is None
    assert [above_of_quotient(facts, STEPS.terms, v) for v in (0, 1)] == [1, 0]
    assert above_of_quotient({less(K, 65): 1}, STEPS.terms, 1) is None
    assert from_facts({compare("lt", "u32", K, 8): 1}, less(K, 8)) is None


def test_one_number_in_two_forms():
    """What a loop of N / 32 rounds reads is written unless N < 32; with N < 33, it is not for 32."""
    skip = "shr.s32 %r9, %r3, 5; setp.lt.s32 %p4, %r3, {}; @%p4 bra.uni $a; {} \n$a:"
    body = "ld.param.s32 %r3, [N];" + skip + LOOP.format("ld.shared.u32 %r4, [%r2];")
    assert verdict(body.format(32, STORE)) == "proved"
    assert "nothing has written" in verdict(body.format(33, STORE))


@pytest.mark.parametrize(("m", "found"), [(1, "proved"), (2, "proved"), (5, "proved"), (9, "not known")])
def test_little_is_subtracted_from_counters(m, found):
    """A slot by what a counter was some rounds before: known in the first rounds, and in those after a shift."""
    start = LOOP.replace("mov.b32 %r6, 0", f"mov.b32 %r6, {m}")
    slot = f"sub.s32 %r7, %r6, {m}; rem.u32 %r7, %r7, 3; mad.lo.u32 %r7, %r7, 4, %r1;"
    assert found in verdict(start.format(f"{slot} @%p0 st.shared.u32 [%r7], %r0; bar.sync 0;"))


@pytest.mark.slow
def test_a_block_is_in_the_grid():
    """Causal attention takes its first step without asking: there is one in each block of the grid."""
    import attention

    spec = mt.spec(("B", "H", "S", 64), "bfloat16")
    kernel = attention.attention.compile(spec, spec, spec, spec, D=64, causal=True, threads=256, target="sm_90a")
    text, launch = kernel.asm["ptx"], launch_facts(kernel.launch_info)
    found = answer(text, launch)
    assert found.verdict == "proved"
    check(found.certificate, text, launch)
    wider = replace(launch, grid={"x": ("floordiv", ("add", ("param", "S"), 255), 128)})
    assert answer(text, wider).verdict == "fault"
    assert answer(text, replace(launch, grid={})).verdict == "fault"
    with pytest.raises(Refused):
        check(found.certificate, text, wider)


def test_what_a_grid_says():
    block = symbol("%ctaid.x")
    size = binary("shr", "s32", binary("add", "s32", K, 31), 5)
    expected = {size.terms: 0, binary("sub", "s32", size, block).terms: 0}  # a stride of as many blocks gets on
    assert least_by_grid({"x": ("floordiv", ("add", ("param", "K"), 31), 32), "y": 4}) == expected
    assert (
        least_by_grid({"x": ("sub", ("param", "K"), 1)}) == {}
    )  # K - 1 blocks: that K is above more is not made use of


def test_a_witness():
    def holds(left, right, truth=True):
        def asked(size_of):
            a, b = evaluate(left, size_of), evaluate(right, size_of)
            return None if a is None or b is None else (a < b) == truth

        return asked

    launch, block = Launch({}), symbol("%ctaid.x")
    assert witness([holds(K, 32), holds(0, STEPS)], {}, launch) is None
    found = witness([holds(K, 33), holds(0, STEPS)], {}, launch)
    assert found == {("param", "K"): 32}
    assert witness([holds(K, 5, False)], {("param", "K"): (8, 3)}, launch) == {("param", "K"): 11}
    assert witness([holds(K, 5, False)], {}, replace(launch, divides={"K": 24})) == {("param", "K"): 24}
    assert witness([holds(K, 9)], {}, replace(launch, least={"K": 9})) is None
    in_grid = replace(launch, grid={"x": ("param", "K")})
    assert witness([holds(0, block), holds(K, 2)], {}, launch) is not None
    assert witness([holds(0, block), holds(K, 2)], {}, in_grid) is None
    assert witness([holds(symbol("region", "text"), 2)], {}, launch) is None  # of something else than numbers


@pytest.mark.parametrize(("n", "found"), [(11, "proved"), (12, "fault")])
def test_multiples_in_a_text(n, found):
    """A race where N is 11 at least and 3 N below 3 n."""
    body = f"""ld.param.s32 %r6, [N]; mul.lo.s32 %r7, %r6, 3;
    setp.lt.s32 %p4, %r6, 11; @%p4 bra.uni $e; setp.ge.s32 %p4, %r7, {3 * n}; @%p4 bra.uni $e;
    {STORE} {OTHER} {LOAD}"""
    text = HEAD.format(threads=64, shared=4096) + body + "\n$e:\n  ret;\n}\n"
    assert answer(text, Launch({"T": 1024})).verdict == found


@pytest.mark.parametrize(("n", "found"), [(11, "refused"), (12, "fault")])
def test_a_run_that_no_numbers_give_is_no_fault(n, found):
    """A race where N is 11 at least and N + %ctaid.x below n: the two are asked as if they were of two numbers."""
    body = f"""ld.param.s32 %r6, [N]; mov.u32 %r7, %ctaid.x; add.s32 %r7, %r6, %r7;
    setp.lt.s32 %p4, %r6, 11; @%p4 bra.uni $e; setp.ge.s32 %p4, %r7, {n}; @%p4 bra.uni $e;
    {STORE} {OTHER} {LOAD}"""
    text = HEAD.format(threads=64, shared=4096) + body + "\n$e:\n  ret;\n}\n"
    assert answer(text, Launch({"T": 1024})).verdict == found


def test_a_residue_of_what_the_launch_divides() -> None:
    """A fixed K is 512 times a number; a fault that hangs on whether that is odd asks for K modulo 1024."""
    moduli: dict[Any, int] = {}
    given = Launch({}, 32, divides={"K": 512})
    assert explore._added(moduli, given, ("quotient", ("param", "K")), 2)
    assert moduli == {("param", "K"): 1024}
    assert not explore._added(moduli, given, ("param", "K"), 2)
