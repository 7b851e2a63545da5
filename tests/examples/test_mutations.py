"""Mutation testing of every example's synchronisation: each wait, arrival, fence and barrier of the emitted PTX, each
wait, barrier and wait state of the GCN assembly, is taken away in turn, and the mutant must be killed (a finding, a
refusal, another result) in some schedule.

Sizes are small, with a tail and more steps than stages, so that each round of a ring comes up. What survives is
either to spare, then the pass that inserts it is at fault, or the race model has a hole. What is right all the same
stands in EXCEPTIONS with the reason.
"""

from __future__ import annotations

import itertools
import re

import pytest
from mutation_testing import surviving_mutants

from tests.examples.gemm_forms import FORMS, HOPPER, everywhere
from tests.examples.mutation_cases import CASES, MANY, Case, compiled_case

LONG = ("attention", "gemm, 2 stages, wide", "gemm, odd rows", "split_k")  # with many instructions to take away
# case, target, instruction, how many of them, and why that is right all the same
EXCEPTIONS = [
    (
        "attention(, causal)?",
        "sm_80",
        r"bar\.sync 0",
        1,
        "rows of the result are staged where Q was: without any keys nothing else stands between",
    ),
    (
        "attention.*",
        "sm_80",
        r"cp\.async\.(commit_group|wait_group 0)",
        2,
        "Q is waited for by itself before the loop; the wait for the first K would do for it",
    ),
    (
        "attention.*",
        "sm_90a",
        r"bar\.(sync|arrive) %\w+, 256",
        4,
        "warpgroups alternate at the tensor cores by these: they order work, not memory",
    ),
    (
        "split_k|gemm.*|attention.*",
        "sm_90a",
        r"cp\.async\.bulk\.commit_group",
        2,
        "a group for each chunk, also where one wait is for all of them",
    ),
    (
        "attention.*|gemm_fp8.*, overlapped|gemm_epilogues, gated",
        "sm_90a",
        r"wgmma\.fence\.sync\.aligned",
        2,
        "a fence stands before each batch of products, as ptxas wants it (C7519); here the one before would do",
    ),
    (
        "vector_add|transpose",
        "gfx.*",
        r"(vmcnt|lgkmcnt)\(\d+\) of .*",
        13,
        "LLVM waits on ways that the guards rule out: later rows of a tile are there only if the earlier ones are, and "
        "those have been waited for",
    ),
    (
        "rms_norm",
        "gfx9..",
        r"vmcnt\(0\) of .*",
        1,
        "LLVM waits behind the loop whose last round has loaded nothing: its loads are a round ahead",
    ),
    (
        "attention, 128",
        "sm_80",
        r"bar\.sync 0",
        1,
        "results are staged where Q was, which all have read before the loop: its barriers do for that, unless S is 0",
    ),
    (
        "gemm_fp8, by block, no TMA",
        "sm_90a, one role",
        r"bar\.sync 0",
        1,
        "behind the mbarriers' initialisation: the barrier for `scales` comes before each wait for a slot",
    ),
    (
        "softmax",
        "gfx.*",
        r"a wait state of s_nop 0",
        2,
        "LLVM puts one between writes to two lanes of a register (of predicates, for which no scalar registers are "
        "left); the simulator's rules have none there, nor do those of rocRoller's for 94x and 950 that were looked up",
    ),
    (
        "split_k|gemm.*|attention.*",
        "gfx950",
        r"vmcnt\(0\) of .*",
        2,
        "what is under way when a loop ends is waited for there, although nothing uses that memory afterwards; and "
        "copies that are not pipelined are waited for one by one",
    ),
    (
        "gemm_persistent.*|gemm_fp8.*|gemm_epilogues.*",
        "sm_90a",
        r"cp\.async\.bulk\.wait_group 0",
        2,
        "a tile is written once the tile before is: that they never overlap follows from the divisions of the block "
        "swizzle only",
    ),
    (
        "gemm_fp8.*|gemm_epilogues, (linear|gated)",
        "sm_80|sm_89",
        r"bar\.sync 0",
        1,
        "as above: threads write the next tile's results, and the main loop's barriers are not there if K is 0",
    ),
    (
        "gemm_epilogues, residual",
        "sm_80",
        r"bar\.sync 0",
        1,
        "threads have read a tile of D before the next one is copied there: the main loop's barriers do for that, "
        "unless K is 0",
    ),
    (
        "gemm_epilogues, residual.*",
        "sm_90a",
        r"(mbarrier\.try_wait\.parity\.shared\.b64 %p\d+, \[%ring_1\+8\], .*|fence\.proxy\.async\.shared::cta|"
        r"bar\.warp\.sync 0xffffffff)",
        4,
        "D's slot: who copies has waited for slots of A and B, which come back behind it, unless a tile has no more "
        "steps than there are stages (another case). It is given back behind the last store, whose barrier and fence "
        "a warp that has read D has passed; this holds for each of two teams",
    ),
    (
        "gemm_fp8, by block.*",
        "sm_90a, one role",
        r"(mbarrier\.try_wait\.parity\.shared\.b64 %p\d+, \[%r\d+\], %r\d+|bar\.warp\.sync 0xffffffff)",
        3,
        "a tile's last slots are filled again with the next one's first copies: in between all meet at the barriers of "
        "the results, so that the mutants without that wait, or without the warp's meeting there, survive",
    ),
    (
        "gemm_epilogues, gated",
        "sm_90a",
        r"mbarrier\.try_wait\.parity\.shared\.b64 %p\d+, \[%r\d+\], %r\d+",
        2,
        "three rings in step: the slot that is given back last is asked for first, so that it speaks for the other two",
    ),
    (
        "gemm_epilogues, gated",
        "sm_90a",
        r"wgmma\.wait_group\.sync\.aligned [12]",
        2,
        "before a slot is given back; and that, as above, is one that another ring's slot speaks for",
    ),
    (
        "gemm_epilogues, quantized",
        "sm_90a",
        r"bar\.sync 1, 128",
        1,
        "partial maxima of the next tile: who has waited for the third of its steps knows that all warps have "
        "released the first, behind their reads; with no more steps than stages nothing else says so",
    ),
    (
        "gemm_epilogues, quantized, teams",
        "sm_90a",
        r"bar\.sync [23], 128",
        2,
        "a team reads partial maxima and writes the next tile's: between them it also meets where the teams alternate",
    ),
    (
        "gemm_split_k, swapped",
        "sm_90a",
        r"bar\.sync [01], 128",
        1,
        "the program's own, before a thread signals what all have stored: here that thread has stored it all, by TMA",
    ),
    (
        "gemm_split_k",
        "sm_90a",
        r"fence\.proxy\.async\.shared::cta",
        1,
        "the number that says who came last lies in bytes of one warpgroup's results, whose own fence comes behind it; "
        "which bytes of them are whose is not known to the fences",
    ),
]


ONE_ROLE = "sm_90a, one role"
QUICK = ("split_k", "gemm", "gemm, 2 stages, wide")  # with products, in one role


def check(name: str, case: Case, target: str) -> None:
    found, count = surviving_mutants(*compiled_case(case, target))
    names = target, target.partition(",")[0]
    assert count or name in ("vector_add", "softmax")  # where each warp has rows of its own
    for cases, targets, instruction, most, _ in EXCEPTIONS:
        if re.fullmatch(cases, name) and any(re.fullmatch(targets, each) for each in names):
            known = [each for each in found if re.search(f": {instruction}$", each)]
            found = [each for each in found if each not in known[:most]]
    assert found == []


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, marks=pytest.mark.slow if name in LONG and target == "sm_80" else ())
        for name, target in itertools.product(CASES, ("sm_80", "sm_90a"))
    ],
)
def test_every_mutant_is_killed(name: str, target: str) -> None:
    check(name, CASES[name], target)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize(
    "name", [case if case == "gemm" else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_every_mutant_is_killed_on_amd(name: str, target: str) -> None:
    pytest.importorskip("llvmlite")
    check(name, CASES[name], target)


@pytest.mark.parametrize("name", QUICK)
def test_every_mutant_in_one_role_is_killed(name: str) -> None:
    check(name, CASES[name], ONE_ROLE)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", ONE_ROLE])
@pytest.mark.parametrize("name", MANY)
def test_every_mutant_of_more(name: str, target: str) -> None:
    check(name, MANY[name], target)


@pytest.mark.parametrize("name", ["gemm_grouped, masked", "gemm_split_k, swapped"])
def test_every_mutant_of_a_few_forms_is_killed(name: str) -> None:
    check(name, FORMS[name], "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), everywhere())
def test_every_mutant_of_forms(name: str, target: str) -> None:
    check(name, {**FORMS, **HOPPER}[name], target)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_every_mutant_of_forms_in_one_role(name: str) -> None:
    check(name, FORMS[name], ONE_ROLE)


@pytest.mark.slow
def test_every_mutant_of_attention_in_one_role() -> None:
    check("attention", CASES["attention"], ONE_ROLE)
