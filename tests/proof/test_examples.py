"""The examples' GEMMs and attention are proved for every schedule and every trip count; what lacks or weakens one
synchronising instruction is refused, except where EXCEPTIONS of test_mutations.py says that it is to spare."""

from __future__ import annotations

import json
import re

import pytest

from minitile.proof import Launch, Proof, Refused, answer, certificate, check, prove
from minitile.runtime.sim.mutate.ptx import removals
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from minitile.tools.proving import launch_facts
from tests.examples.mutation_cases import CASES, MANY, compiled_case
from tests.proof.deep import deep_faults, every, residue_faults


def text_and_launch(name: str, target: str = "sm_90a") -> tuple[str, Launch]:
    kernel, _ = compiled_case({**CASES, **MANY}[name], target)
    return kernel.asm["ptx"], launch_facts(kernel.launch_info)


def is_proved(text: str, launch: Launch) -> bool:
    try:
        prove(text, launch, most_states=600)
    except Refused:
        return False
    return True


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def small() -> tuple[str, Launch]:
    return text_and_launch("gemm")


@pytest.mark.parametrize("name", ["gemm", "gemm, 2 stages, wide", "gemm, 4 stages", "attention"])
def test_is_proved(name):
    found = prove(*text_and_launch(name))
    assert isinstance(found, Proof)
    assert 0 < found.states < 600


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("sm_90a", "attention, 128"),  # only sizes that 128 divides: the loop's first round is not tested for
        ("sm_90a", "gemm_swapped"),
        ("sm_90a", "split_k"),
        ("sm_90a, one role", "gemm"),
        ("sm_90a, one role", "attention, causal"),  # two loops by a minimum that may be negative
        ("sm_80", "gemm"),
        ("sm_80", "rms_norm"),
    ],
)
def test_other_forms_are_proved(target, name):
    assert prove(*text_and_launch(name, target)).states < 600


def test_which_waits_a_warp_must_leave_together(small):
    """Only the producer's: the consumers' warps meet in wgmma."""
    text, launch = small
    lines = [text.splitlines()[n - 1] for n in prove(text, launch).together]
    assert len(lines) == 1
    assert "slot free" in lines[0]


def test_limits(small):
    for limits, why in (({"most_states": 5}, "more than 5 states"), ({"seconds": 0.01}, "more time than is allowed")):
        with pytest.raises(Refused, match=why):
            prove(*small, **limits)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_90a, one role", "sm_80"])
@pytest.mark.parametrize("name", {**CASES, **MANY})
def test_every_case_is_proved(target, name):
    prove(*text_and_launch(name, target))


def test_each_deletion_is_refused(small):
    text, launch = small
    entry = re.search(r"\.entry (\w+)", text)[1]
    mutants = list(removals(text, entry))
    assert len(mutants) >= 20
    assert [str(each) for each in mutants if is_proved(each.text, launch)] == []


def test_each_weakening_is_refused(small):
    text, launch = small
    entry = re.search(r"\.entry (\w+)", text)[1]
    mutants = list(weaker_mutants(text, entry))
    assert len(mutants) >= 15
    assert [str(each) for each in mutants if is_proved(each.text, launch)] == []


def test_a_wait_with_its_loop_is_needed(small):
    text, launch = small
    waits = re.findall(r"\$L_wait\d+:\n.*try_wait.*\n.*bra \$L_wait\d+;\n", text)
    assert len(waits) == 2
    for each in waits:
        assert not is_proved(text.replace(each, ""), launch)
        parity = re.search(r"\], (%\w+);", each)[1]
        other = f"xor.b32 {parity}, {parity}, 1;\n"
        assert not is_proved(text.replace(each, other + each + other), launch)


FORMS = [
    ("sm_80", "gemm"),
    ("sm_80", "attention"),
    ("sm_80", "rms_norm"),
    ("sm_90a", "attention"),
    ("sm_90a", "gemm_swapped"),
    ("sm_90a, one role", "gemm"),
    ("sm_90a, one role", "attention"),
]
# A second wgmma.fence between products of other registers orders nothing (EXCEPTIONS of test_mutations.py).
SPARE = {"attention": ["wgmma.fence.sync.aligned"]}


@pytest.mark.slow
def test_the_persistent_gemm():
    """Two ping-pong teams, tiles of any number, slots that go from tile to tile: a case for each residue of K's steps
    modulo twice the stages."""
    text, launch = text_and_launch("gemm_persistent")
    found = prove(text, launch)
    assert found.cases == 6
    assert found.states < 1000
    assert check(json.loads(json.dumps(certificate(text, launch))), text, launch) == found.states


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name"), FORMS)
def test_each_mutant_of_other_forms_is_refused(target, name):
    text, launch = text_and_launch(name, target)
    entry = re.search(r"\.entry (\w+)", text)[1]
    mutants = [*removals(text, entry), *weaker_mutants(text, entry)]
    assert len(mutants) >= (1 if name == "rms_norm" else 8)
    proved = [str(each) for each in mutants if is_proved(each.text, launch)]
    spare = SPARE.get(name, []) if target != "sm_80" else []
    assert [each.rpartition(": ")[2] for each in proved] == spare


# What a run of few steps does not meet: faults from the seventh step on, from the examples' small GEMM.
GIVEN_BACK = r"  @(%p\d+) mbarrier\.arrive\.shared\.b64 _, \[(%r\d+)\];"
DEEP = {
    "a slot given back for a while only": (
        GIVEN_BACK,
        r"  setp.lt.s32 %late, %k_1, {n};\n  and.pred %late, %late, \1;\n  @%late mbarrier.arrive.shared.b64 _, [\2];",
    ),
    "a slot given back twice from then on": (
        GIVEN_BACK,
        r"\g<0>\n  setp.ge.s32 %late, %k_1, {n};\n  and.pred %late, %late, \1;\n"
        r"  @%late mbarrier.arrive.shared.b64 _, [\2];",
    ),
    "a wait that weakens": (
        r"  wgmma\.wait_group\.sync\.aligned 1;",
        r"  setp.ge.s32 %late, %k_1, {n};\n  @%late bra $L_late;\n  wgmma.wait_group.sync.aligned 1;\n$L_late:",
    ),
    "the consumers' phase sticks": (
        r"  selp\.b32 %phase_1, (%r\d+), %phase_1, (%p\d+);",
        r"  setp.lt.s32 %late, %k_1, {n};\n  and.pred %late, %late, \2;\n  selp.b32 %phase_1, \1, %phase_1, %late;",
    ),
    "the producer's phase sticks": (
        r"  selp\.b32 %phase, (%r\d+), %phase, (%p\d+);",
        r"  setp.lt.s32 %late, %k, {n};\n  and.pred %late, %late, \2;\n  selp.b32 %phase, \1, %phase, %late;",
    ),
    "fewer bytes expected from then on": (
        r"  @(%p\d+) mbarrier\.arrive\.expect_tx\.shared\.b64 _, \[(%r\d+)\], 8192;",
        r"  setp.lt.s32 %late, %k, {n};\n  selp.b32 %bytes, 8192, 4096, %late;\n"
        r"  @\1 mbarrier.arrive.expect_tx.shared.b64 _, [\2], %bytes;",
    ),
    "the slot is not changed from then on": (
        r"  selp\.b32 %slot, 0, (%r\d+), (%p\d+);",
        r"  setp.lt.s32 %late, %k, {n};\n  selp.b32 %bytes, 0, \1, \2;\n  selp.b32 %slot, %bytes, %slot, %late;",
    ),
}


@pytest.mark.parametrize("fault", DEEP)
@pytest.mark.parametrize("n", [5, 7])
def test_a_deep_fault_is_refused(small, fault, n):
    text, launch = small
    pattern, by = DEEP[fault]
    broken, count = re.subn(pattern, by.replace("{n}", str(n)), text)
    assert count == 1
    broken = changed(broken, ("  .reg .b32 %last;", "  .reg .b32 %last, %bytes;\n  .reg .pred %late;"))
    with pytest.raises(Refused) as found:
        prove(broken, launch)
    assert "not known" not in found.value.reason


def test_the_same_changes_that_never_happen_are_proved(small):
    """The texts of DEEP are refused for the fault, not for their form: where n is out of reach they are proved."""
    text, launch = small
    for fault in ("a slot given back for a while only", "the consumers' phase sticks"):
        pattern, by = DEEP[fault]
        same = re.sub(pattern, by.replace("setp.lt.s32 %late, %k_1, {n}", "setp.ge.s32 %late, %k_1, 0"), text)
        same = changed(same, ("  .reg .b32 %last;", "  .reg .b32 %last, %bytes;\n  .reg .pred %late;"))
        assert is_proved(same, launch), fault


@pytest.mark.parametrize("rounds", [5, 7])
def test_deep_faults_are_found(small, rounds):
    """One instruction of a loop missing from a round on, or in one round: beyond the rounds of the tests' sizes."""
    found = [(deep.what, answer(deep.text, small[1])) for deep in deep_faults(*small, (rounds,))]
    assert len(found) == 12
    assert [what for what, each in found if each.verdict != "fault"] == []


@pytest.mark.slow
def test_deep_faults_of_some_sizes_only(small):
    found = [(deep.what, answer(deep.text, small[1])) for deep in residue_faults(*small, 6, 1)]
    assert len(found) == 6
    assert [what for what, each in found if each.verdict != "fault"] == []


def test_what_is_missing_in_no_round_is_proved(small):
    """The texts of the deep faults are refused for the fault, not for their form."""
    for deep in deep_faults(*small, (-1,)):
        if "only" in deep.what:
            assert is_proved(deep.text, small[1]), deep.what


@pytest.mark.slow
def test_deep_faults_of_every_form():
    """None is proved; of the persistent GEMM also what is missing from the third tile on."""
    found = [(key, deep.what, prove_or_why(deep.text, launch)) for key, _, _, deep, launch in every()]
    assert len(found) >= 100
    assert [each for each in found if each[2] is None and not is_spare(*each[:2])] == []


def prove_or_why(text: str, launch: Launch) -> str | None:
    try:
        prove(text, launch, most_states=1500)
    except Refused as why:
        return str(why)
    return None


def is_spare(key: tuple[str, str], what: str) -> bool:
    """What only global memory needs: that a tile is in it before a later one is stored to the same bytes."""
    return key == ("sm_90a", "gemm_persistent") and "cp.async.bulk.wait_group, missing" in what
