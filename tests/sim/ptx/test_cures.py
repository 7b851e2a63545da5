"""What a race's finding advises: the barrier that orders these two threads, where it stands, and one numbering of the
threads. Where a barrier is advised, the text with it there is free of findings."""

from __future__ import annotations

import numpy as np

from minitile.runtime.sim import Finding, Report
from tests.sim.ptx import test_races as plain
from tests.sim.ptx.test_hopper_cluster import EXCHANGE, SYNC, run


def first(report: Report) -> Finding:
    assert report.findings
    return report.findings[0]


def line_of(finding: Finding, text: str) -> int:
    """The line of the access whose text begins like this."""
    assert finding.second is not None
    (found,) = {a.line for a in (finding.first, finding.second) if a.text.startswith(text)}
    return found


RELAXED = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n"


def test_between_two_ctas_of_a_cluster() -> None:
    """bar.sync would not order them."""
    text = """    shl.b32 x0, tid, 2;
    add.u32 x1, x0, s;
    mov.u32 x2, 7;
    xor.b32 x3, rank, 1;
    mapa.shared::cluster.u32 x4, x1, x3;
    st.shared.u32 [x1], x2;
    {between}ld.shared::cluster.u32 x5, [x4];
    """
    found = first(run(text.format(between=RELAXED) + SYNC, []))
    assert found.kind == "missing_barrier"
    assert found.cure.startswith("barrier.cluster.arrive.release and barrier.cluster.wait.acquire between PTX line ")
    assert not run(text.format(between=SYNC) + SYNC, []).findings


def test_threads_are_numbered_in_their_block() -> None:
    """In the message as in the two accesses; and the CTA is named where there are two."""
    found = first(run(EXCHANGE.format(first=RELAXED, second=SYNC), [np.zeros((4, 64), np.uint32)]))
    assert found.second is not None
    for access, verb in ((found.first, " reads what "), (found.second, " has written")):
        assert access.thread is not None
        assert f"thread {access.thread[0]} of CTA {access.cta}{verb}" in found.message, str(found)
    assert found.first.cta != found.second.cta


def test_threads_of_one_block_are_named_by_their_number() -> None:
    found = first(plain.execute("st.shared.u32 [own], tid;\nld.shared.u32 v, [next];", block=64))
    assert "CTA" not in found.message
    assert found.cure.startswith("bar.")


def test_no_loop_is_made_up() -> None:
    """The later access stands further up, because its thread was slower; a line between them is where a barrier helps.
    Warp 1 goes straight to the store, while warp 0 spins for a while in front of its load."""
    text = """setp.lt.u32 p, tid, 32;
mov.u32 x1, 0;
st.shared.u32 [own], tid;
bar.sync 0;
xor.b32 next, own, 128;
@!p bra LOAD;
SPIN:
add.u32 x1, x1, 1;
setp.lt.u32 q, x1, 50;
@q bra SPIN;
LOAD:
ld.shared.u32 v, [next];
{b}st.shared.u32 [own], v;
"""
    found = first(plain.execute(text.format(b=""), block=64))
    store, load = line_of(found, "st.shared"), line_of(found, "ld.shared")
    assert found.first.line == load, "the load comes later, and stands further up"
    assert found.cure.endswith(f"between PTX line {load} and line {store}"), str(found)
    assert "round" not in str(found)
    assert not plain.execute(text.format(b="bar.sync 0;\n"), block=64).findings


LOOP = """mov.u32 x1, 0;
AGAIN:
ld.shared.u32 v, [next];
{a}st.shared.u32 [own], v;
{b}add.u32 x1, x1, 1;
setp.lt.u32 p, x1, 3;
@p bra AGAIN;
"""
BAR = "bar.sync 0;\n"


def test_the_next_round_of_a_loop() -> None:
    fill = "st.shared.u32 [own], tid;\nbar.sync 0;\n"
    found = first(plain.execute(fill + LOOP.format(a=BAR, b=""), block=64))
    store, load = line_of(found, "st.shared"), line_of(found, "ld.shared")
    assert found.cure.endswith(f"behind PTX line {store}, before the next round of the loop comes to line {load}")
    assert not plain.execute(fill + LOOP.format(a=BAR, b=BAR), block=64).findings


def test_one_instruction_in_a_loop_and_without_one() -> None:
    store = (
        "add.u32 x2, tid, x1;\nand.b32 x2, x2, 63;\nshl.b32 x2, x2, 2;\nadd.u32 x2, x2, s;\nst.shared.u32 [x2], tid;\n"
    )
    loop = f"mov.u32 x1, 0;\nAGAIN:\n{store}add.u32 x1, x1, 1;\nsetp.lt.u32 p, x1, 3;\n@p bra AGAIN;\n"
    found = first(plain.execute(loop, block=64))
    assert found.second is not None
    assert found.first.line == found.second.line
    assert found.cure.endswith(f"behind PTX line {found.first.line}, before the next round of the loop comes to it")
    alone = first(plain.execute("shr.u32 x1, tid, 5;\nsetp.eq.u32 p, lane, 0;\n@p st.shared.u32 [s], tid;", block=64))
    assert alone.cure.startswith("let one of them do it")
    assert "bar.sync" not in alone.cure


def test_on_different_branches() -> None:
    """No path leads from the one to the other: a barrier between their lines would be one that not all threads pass."""
    body = "setp.lt.u32 p, tid, 32;\n@p bra LOW;\nst.shared.u32 [s], tid;\nbra END;\nLOW:\nadd.u32 x1, tid, 0;\n"
    body += "add.u32 x1, x1, 0;\nst.shared.u32 [s+4], tid;\nld.shared.u32 v, [s];\nEND:\n"
    fill = "setp.eq.u32 q, tid, 0;\n@q st.shared.u32 [s], tid;\nbar.sync 0;\n"
    narrow = fill + body.replace(
        "st.shared.u32 [s], tid;\nbra", "setp.eq.u32 q, tid, 40;\n@q st.shared.u32 [s], tid;\nbra"
    )
    found = next(f for f in plain.execute(narrow, block=64).findings if f.hazard in ("RAW", "WAR"))
    assert "which all threads pass" in found.cure, str(found)
    assert "on different branches" in found.cure


def test_global_memory_in_a_cluster_and_beyond() -> None:
    """One CTA writes what another one reads."""
    body = """    setp.eq.u32 p, {number}, 0;
    setp.eq.and.u32 q, tid, 0, p;
    @q st.global.u32 [a0], tid;
    {sync}@!p ld.global.u32 x1, [a0];
"""
    near = first(run(body.format(number="rank", sync=""), [np.zeros(64, np.uint32)], grid=2))
    assert near.cure.startswith("barrier.cluster.arrive.release and barrier.cluster.wait.acquire between"), str(near)
    assert not run(body.format(number="rank", sync=SYNC), [np.zeros(64, np.uint32)], grid=2).findings
    far = first(run(body.format(number="cta", sync=SYNC), [np.zeros(64, np.uint32)], grid=4))
    assert far.cure == "CTAs of a launch are not ordered: use atomics, or two launches"


def test_a_wider_scope() -> None:
    """Both are strong: only the scope is too narrow, which no barrier mends."""
    body = "setp.eq.u32 p, tid, 0;\n@p st.relaxed.cta.global.u32 [b], tid;\n"
    found = first(plain.execute(body, grid=2, block=64))
    assert found.cure.startswith("scope .gpu for both accesses"), str(found)
