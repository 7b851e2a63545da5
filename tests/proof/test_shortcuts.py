"""Branches that some warps take as a shortcut: attention's is proved, arms that differ are not taken for alike."""

from __future__ import annotations

import pytest

from minitile.ops.attention_plans import AttentionPlan
from minitile.proof import Fault, Proof, Refused, prove
from minitile.tools.proving import launch_facts
from tests.ops.test_attention import compiled
from tests.proof.test_text import WAIT, verdict


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


ARRIVE = """@!%p0 bra $x;
  mbarrier.init.shared.b64 [%r1+1024], 64;
  mbarrier.init.shared.b64 [%r1+1032], 64;
  fence.mbarrier_init.release.cluster;
$x:
  bar.sync 0;
  ld.param.u64 %d2, [G];
  mad.wide.u32 %d3, %r0, 4, %d2;
  ld.global.u32 %r8, [%d3];
  setp.eq.u32 %p4, %r8, 0;
  vote.sync.any.pred %p3, %p4, 0xffffffff;
  @%p3 bra $b;
  add.u32 %r5, %r1, 1024;
  mbarrier.arrive.shared.b64 _, [{0}];
  bra $e;
$b:
  add.u32 %r5, %r1, {1};
  mbarrier.arrive.shared.b64 _, [{0}];
$e:
"""


def test_arms_whose_events_need_what_they_compute_are_not_alike():
    """Where a warp arrives at the other barrier, the wait for this one never ends."""
    assert verdict(ARRIVE.format("%r1+1024", 1032) + WAIT) == "proved"
    assert verdict(ARRIVE.format("%r5", 1032) + WAIT) != "proved"
