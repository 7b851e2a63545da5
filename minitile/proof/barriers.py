"""Barriers, and the rules that let one schedule stand for all (docs/proof.md):

A  who arrives for phase n knows that n-1 is complete;
W  who waits for phase n knows that n-1 is complete;
L  who has waited for n is known to those who complete n+1.
"""

from __future__ import annotations

from dataclasses import replace

from minitile.proof.events import MBarrier, NamedBarrier
from minitile.proof.state import ALL, State, Warp
from minitile.proof.text import Fault, Instruction

MOST_BYTES = (1 << 20) - 1  # that an mbarrier counts (PTX ISA, "Contents of the mbarrier object")


class Lap(Fault):
    """Rule L is broken for the wait at `pc`."""

    def __init__(self, line: int, pc: int) -> None:
        super().__init__(line, "L: completes a phase while a wait for the phase before need not have passed")
        self.pc = pc


def initialised(state: State, warp: Warp, lanes: int) -> None:
    """A fence by these lanes: copies see the mbarriers that they have initialised."""
    for barrier in state.mbarriers.values():
        number, lane = divmod(barrier.by, 32)
        if warp.number == number and lanes >> lane & 1:
            warp.learn(barrier.fence, 1 << lane)


def arrive(state: State, warp: Warp, at: int, lanes: int, line: int, times: int, expect: int) -> None:
    """Each of these lanes arrives `times` times and expects so many bytes."""
    barrier = state.mbarriers[at]
    if barrier.last & ~warp.knows(lanes):
        raise Fault(line, "A: arrives, but need not know that the phase before is complete")
    if times < 1 or expect < 0:
        raise Fault(line, f"{times} arrivals, {expect} bytes")
    count = lanes.bit_count() * times
    if count > barrier.pending:
        raise Fault(line, "more arrivals than the mbarrier counts")
    expects, released = barrier.expects, barrier.released | warp.releases(lanes)
    if expect:
        event = state.new()
        warp.did(event, lanes)
        expects += ((event, expect * lanes.bit_count()),)
        released |= event
    _counts(expects, line)
    barrier = replace(barrier, pending=barrier.pending - count, expects=expects, released=released)
    state.mbarriers[at] = complete(state, barrier, line)


def expect(state: State, warp: Warp, at: int, lanes: int, line: int, size: int) -> None:
    """Each of these lanes expects so many bytes in the phase that is not complete, without an arrival."""
    barrier = state.mbarriers[at]
    if barrier.last & ~warp.knows(lanes):
        raise Fault(line, "A: expects bytes, but need not know that the phase before is complete")
    if size < 0:
        raise Fault(line, f"{size} bytes")
    event = state.new()
    warp.did(event, lanes)
    expects = (*barrier.expects, (event, size * lanes.bit_count()))
    _counts(expects, line)
    state.mbarriers[at] = replace(barrier, expects=expects, bare=barrier.bare | event)


def _counts(expects: tuple[tuple[int, int], ...], line: int) -> None:
    if (total := sum(count for _, count in expects)) > MOST_BYTES:
        raise Fault(line, f"expects {total} bytes, more than an mbarrier counts")


def copied(state: State, warp: Warp, at: int, lanes: int, line: int, size: int, event: int) -> None:
    """A copy, started by these lanes, counts its bytes at an mbarrier; only bytes whose expect_tx they know of."""
    barrier, knows = state.mbarriers[at], warp.knows(lanes)
    if barrier.fence & ~knows:
        raise Fault(line, "the mbarrier's initialisation need not be visible to copies (fence.mbarrier_init)")
    left, expects = size, []
    for expected, count in barrier.expects:
        drawn = 0 if expected & ~knows else min(left, count)
        left -= drawn
        if count > drawn:
            expects.append((expected, count - drawn))
    if left:
        raise Fault(line, "a copy of more bytes than are known to be expected")
    barrier = replace(barrier, expects=tuple(expects), released=barrier.released | event)
    state.mbarriers[at] = complete(state, barrier, line)


def complete(state: State, barrier: MBarrier, line: int) -> MBarrier:
    """The barrier in its next phase, if nothing is missing for this one."""
    if barrier.pending or barrier.expects:
        return barrier
    for event, phase, pc in barrier.waits:
        if phase == barrier.index - 1 and event & ~barrier.released:
            raise Lap(line, pc)
    if barrier.bare & ~barrier.released:
        raise Fault(line, "E: the phase may complete before bytes are expected for it")
    done = state.new()
    return replace(
        barrier,
        pending=barrier.count,
        last=done,
        before=barrier.last,
        index=barrier.index + 1,
        released=0,
        done=barrier.released | done,
        waits=tuple(each for each in barrier.waits if each[1] >= barrier.index),
        bare=0,
    )


def wait(state: State, warp: Warp, at: int, lanes: int, each: Instruction, parity: int, together: bool) -> bool:
    """Whether the wait passes now. Which phase it is for must be the same in every schedule. `together`: all lanes
    leave it at once."""
    barrier, knows = state.mbarriers[at], warp.knows(lanes)
    if not barrier.last & ~knows:
        phase = barrier.index - 1 if (barrier.index - 1) % 2 == parity else barrier.index
    elif not barrier.before & ~knows:
        if barrier.index % 2 == parity:
            raise Fault(each.line, "W: waits for a phase, or for the one two before")
        phase = barrier.index - 1
    else:
        raise Fault(each.line, "W: waits, but need not know that the phase before is complete")
    if phase == barrier.index:
        return False
    event = state.new()
    state.mbarriers[at] = replace(barrier, waits=(*barrier.waits, (event, phase, each.pc)))
    warp.learn(barrier.done, lanes)
    if lanes & (lanes - 1) and not (together and lanes == ALL):
        warp.passed |= event
    else:
        warp.learn(event, lanes)
    return True


def meet(state: State, warp: Warp, number: int, threads: int, line: int, waits: bool, kind: str = "") -> None:
    """A whole warp arrives at a named barrier; if it waits, it stands at it until State.warps' `at` is taken back.
    `kind`: the reduction that it takes part in."""
    barrier = state.named.get(number, NamedBarrier())
    warp.converge()
    if barrier.last & ~warp.known:
        raise Fault(line, "A: arrives at a barrier, but need not know that its last use is over")
    if barrier.arrived and barrier.threads != threads:
        raise Fault(line, "a barrier of different numbers of threads")
    if barrier.arrived and barrier.kind != kind:
        raise Fault(line, "a barrier at which some reduce and others do not, or in another way")
    if threads % 32 or not 0 < threads <= 32 * len(state.warps) or not 0 <= number < 16:
        raise Fault(line, f"a barrier {number} of {threads} threads")
    me = 1 << warp.number
    if barrier.arrived & me:
        raise Fault(line, "arrives at a barrier twice")
    released = barrier.released | warp.releases(ALL)
    arrived, waiting = barrier.arrived | me, barrier.waiting | (me if waits else 0)
    if waits:
        warp.at = number
    if arrived.bit_count() * 32 < threads:
        state.named[number] = NamedBarrier(threads, arrived, waiting, released, barrier.last, kind)
        return
    done = state.new()
    state.named[number] = NamedBarrier(last=done)
    for other in state.warps:
        if waiting >> other.number & 1:
            other.synchronise()
            other.known |= released | done
            other.at = -1
