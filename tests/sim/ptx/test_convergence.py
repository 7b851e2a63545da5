"""Instructions that the threads of a warp execute together, where they may be apart (PTX ISA 8.3, 9.7.13.4.14 "mma",
9.7.14.7.1 "wgmma.fence", 9.7.12.1 "bar", 9.7.8.6 "shfl.sync").

`.sync`: a thread waits until all of the warp, or of the mask, execute the same instruction; so nothing need bring them
together behind a branch that some took. `.aligned`: all threads of the warp must execute it; where a condition stands
around it, all must find the same. What has a mask, and barriers, do not wait for those that have exited.

What makes no thread wait for its warp: an arrival at an mbarrier, and the wait for a phase, which is over when the next
one is, for those that come later.
"""

from __future__ import annotations

import numpy as np
import pytest

from minitile.runtime.sim import Report
from tests.sim.ptx.hopper import INIT, assembles, silent, simulate
from tests.sim.ptx.test_hopper_wgmma import FENCE, MMA, WAIT0, small

SCHEDULES = [("eager", 0), ("lazy", 0), ("random", 0), ("random", 1)]
TOGETHER = {
    "wgmma.fence": FENCE,
    "wgmma.mma_async": FENCE + MMA + WAIT0,
    "wgmma.commit_group": "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group": WAIT0,
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {v2}, [s];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [x1], {v1};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 v2, v1;",
    "mma": "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {v2, v3}, {v1, v1}, {v1}, {v1, v1};",
    "bar": "bar.sync 0;",
    "barrier.cta": "barrier.cta.sync.aligned 0;",
    "bar.red": "bar.red.popc.u32 v2, 0, q;",
    "barrier.cluster": "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
    "setmaxnreg": "setmaxnreg.dec.sync.aligned.u32 64;",
    "bar.warp": "bar.warp.sync -1;",
    "shfl": "shfl.sync.bfly.b32 v2, v1, 1, 31, -1;",
    "vote": "vote.sync.ballot.b32 v2, q, -1;",
    "match": "match.any.sync.b32 v2, v1, -1;",
    "redux": "redux.sync.add.u32 v2, v1, -1;",
    "elect": "elect.sync v2|r, -1;",
}
MATRICES = ("wgmma.mma_async", "ldmatrix", "stmatrix", "movmatrix", "mma")
SOME = """    setp.lt.u32 q, lane, 17;
    mov.b32 v1, 0;
    mul.lo.u32 x1, tid, 16;
    add.u32 x1, x1, s;
"""
BEHIND = SOME + "    @!q bra JOIN;\n    add.u32 v1, v1, 1;\nJOIN:\n    {}\n"
WITHIN = SOME + "    @!q bra JOIN;\n    {}\nJOIN:\n    bar.warp.sync -1;\n"
EXITED = SOME + "    @!q bra JOIN;\n    {}\nJOIN:\n"


def executed(body: str, schedule: str = "lazy", seed: int = 0) -> Report:
    return simulate(small(body), [np.zeros(4, np.uint32)], schedule=schedule, seed=seed, gpu=False)


@pytest.mark.parametrize("name", TOGETHER)
def test_behind_a_branch_that_some_take(name: str) -> None:
    body = BEHIND.format(TOGETHER[name])
    assembles(small(body))
    for schedule, seed in SCHEDULES:
        silent(executed(body, schedule, seed))


@pytest.mark.parametrize("name", TOGETHER)
def test_within_a_branch_that_some_take(name: str) -> None:
    """The others wait elsewhere."""
    for schedule, seed in SCHEDULES:
        found = executed(WITHIN.format(TOGETHER[name]), schedule, seed).findings
        assert {f.kind for f in found} == {"divergent_barrier"}, found


@pytest.mark.parametrize("name", [*MATRICES, "bar", "bar.warp", "shfl", "vote", "match", "redux", "elect"])
def test_others_have_exited(name: str) -> None:
    """A fragment lies in all 32 lanes."""
    for schedule, seed in SCHEDULES:
        found = executed(EXITED.format(TOGETHER[name]), schedule, seed).findings
        assert {f.kind for f in found} == ({"divergent_barrier"} if name in MATRICES else set()), found


ROUNDS = """    mov.b32 v2, 0;
    setp.eq.u32 r, lane, 0;
AGAIN:
    {meet}
    @r mbarrier.arrive.shared::cta.b64 _, [bar];
    and.b32 v3, v2, 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], v3;
    @!p bra WAIT;
    add.u32 v2, v2, 1;
    setp.lt.u32 p, v2, 6;
    @p bra AGAIN;
"""


def test_one_lane_arrives_for_its_warp() -> None:
    """The warps meet six times at an mbarrier. Behind a branch that some took, the lane goes on alone."""
    first = INIT.replace("b64 [bar], 1;", "b64 [bar], 4;") + BEHIND.format("")
    wrong, right = (first + ROUNDS.format(meet=meet) for meet in ("", "bar.warp.sync -1;"))
    assembles(small(right))
    kinds = set()
    for seed in range(8):
        silent(executed(right, "random", seed))
        for found in executed(wrong, "random", seed).findings:
            kinds.add(found.kind)
            assert "bar.warp.sync before the lane arrives" in found.cure
    assert kinds == {"deadlock"}
    silent(executed(first.replace("lane, 17", "warp, 2") + ROUNDS.format(meet=""), "random"))
