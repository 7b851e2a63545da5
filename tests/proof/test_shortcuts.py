"""Branches that some warps take as a shortcut: attention's is proved, arms that differ are not taken for alike."""

from __future__ import annotations

import pytest

from minitile.ops.attention_plans import AttentionPlan
from minitile.proof import Fault, Proof, Refused, prove
from minitile.tools.proving import launch_facts
from tests.ops.test_attention import compiled


@pytest.fixture(scope="module")
def attention():
    made = compiled(64, 64, False, AttentionPlan(128, 128))
    return made.asm["ptx"], launch_facts(made.launch_info)


def arms(text):
    """The lines of the waits in the arms of the branch behind the loop's vote."""
    lines = text.splitlines()
    vote = next(n for n, line in enumerate(lines) if "vote.sync.any" in line)
    return lines, [n for n in range(vote, len(lines)) if "wgmma.wait_group.sync.aligned 0;" in lines[n]][:2]


def test_waits_in_both_arms_are_proved(attention):
    found = prove(*attention)
    assert isinstance(found, Proof)
    assert found.states < 600


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)], ids=str)
def test_a_wait_that_an_arm_lacks_is_missed(attention, which):
    lines, waits = arms(attention[0])
    text = "\n".join(line for n, line in enumerate(lines) if n not in [waits[i] for i in which])
    with pytest.raises((Fault, Refused)):
        prove(text, attention[1], seconds=20)
