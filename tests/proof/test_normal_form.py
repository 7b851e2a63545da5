"""What a state may forget: what all warps know, but not what a phase must have been told of."""

from __future__ import annotations

from minitile.proof.events import Access, Footprint, MBarrier
from minitile.proof.explore import Explorer
from minitile.proof.state import State, Warp

FOOT = Footprint(1, 1, ((0, 1),), False, 0)
WAIT, OLD, NEW, START = 1, 2, 4, 8


def a_state(*known: int, done: int = -1) -> State:
    warps = [Warp(number, known=each, done=number == done) for number, each in enumerate(known)]
    accesses = [Access(event, 0, True, True, FOOT, (0, 0), 1) for event in (OLD, NEW)]
    barrier = MBarrier(
        1, 1, START, START, START, released=WAIT | OLD | NEW, done=WAIT | OLD | NEW, waits=((WAIT, 0, 0),)
    )
    return State(warps, {0: barrier}, accesses=accesses, ended=OLD | NEW)


def test_what_all_know_is_forgotten():
    state = a_state(WAIT | OLD | START, WAIT | OLD | NEW | START)
    Explorer._forget_common(state)
    barrier = state.mbarriers[0]
    assert [each.id for each in state.accesses] == [NEW]
    assert (barrier.last, barrier.before, barrier.fence, barrier.done, state.ended) == (0, 0, 0, NEW, NEW)
    assert barrier.released == WAIT | NEW  # rule L asks for the wait


def test_what_one_warp_lacks_is_kept():
    state = a_state(WAIT | OLD | START, 0)
    Explorer._forget_common(state)
    assert [each.id for each in state.accesses] == [OLD, NEW]
    assert state.mbarriers[0].released == WAIT | OLD | NEW


def test_a_warp_that_has_ended_lacks_nothing():
    state = a_state(WAIT | OLD | START, 0, done=1)
    Explorer._forget_common(state)
    assert [each.id for each in state.accesses] == [NEW]


def test_an_access_that_is_begun_by_some_warps_is_kept():
    state = a_state(OLD, OLD)
    state.products[0] = (("product", OLD, 1, 0),)
    Explorer._forget_common(state)
    assert [each.id for each in state.accesses] == [OLD, NEW]
