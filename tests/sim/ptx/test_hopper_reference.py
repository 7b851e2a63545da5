"""The async proxy in the race model against a slow, obviously right one, on random programs.

All 64 threads execute the same list of operations on 64 pieces of 16 bytes of shared memory; thread 0 also starts bulk
copies of all pieces, out of shared memory ("put") and into it ("get", each on an mbarrier of its own). In global memory
there are puts alone, from elsewhere, which write the pieces there. The reference keeps per thread what it knows: the
accesses of others, those that are fenced as well, and the finished copies, all as plain sets. The simulator must find
something if and only if the reference does, under every schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.ptx.hopper import frame, simulate

THREADS, GETS = 64, 8
EVEN = 2  # in place of a warp: the even lanes of both


@dataclass(frozen=True)
class Op:
    """One operation; `warp` limits it to a warp (-1: both, or EVEN), `xor` says whose piece is touched."""

    kind: str
    warp: int = -1
    xor: int = 0


WARP = st.sampled_from([-1, -1, 0, 1, EVEN])
THREADS_DO = [
    st.builds(Op, st.sampled_from(["store", "load"]), WARP, st.sampled_from([0, 0, 1, 32])),
    st.builds(Op, st.sampled_from(["fence", "fence", "bar", "bar"]), st.just(-1)),
    st.builds(Op, st.just("fence"), WARP),
]
OPS = {
    "shared": st.one_of(
        *THREADS_DO,
        st.builds(Op, st.sampled_from(["put", "read", "get"])),
        st.builds(Op, st.just("arrived"), WARP),
    ),
    "global": st.one_of(*THREADS_DO, st.builds(Op, st.sampled_from(["put", "read"]))),
}
START = [Op("store"), Op("fence"), Op("bar")]


SETUP = """    mov.u32 x3, 1024;
    setp.eq.u32 q, warp, 0;
    setp.eq.u32 r, warp, 1;
    and.b32 v0, lane, 1;
    setp.eq.u32 even, v0, 0;
    mov.u32 v0, 1;
"""
GUARDS = {-1: "", 0: "@q ", 1: "@r ", EVEN: "@even "}


ACCESS_SETS = st.lists(  # reads by some, most of them fenced by those
    st.builds(
        lambda load, fence, bar: [load, *fence * [Op("fence", load.warp)], *bar * [Op("bar")]],
        st.builds(Op, st.just("load"), st.sampled_from([-1, 0, 1, EVEN]), st.sampled_from([0, 1, 32])),
        st.sampled_from([0, 1, 1, 1, 1, 1]),
        st.sampled_from([0, 0, 0, 0, 1]),
    ),
    min_size=1,
    max_size=5,
)


def complete(ops: list[Op]) -> list[Op]:
    """Start with memory that is written, and end with everything waited for."""
    gets = sum(op.kind == "get" for op in ops)
    return [*START, *ops, Op("read"), *[Op("arrived", xor=number) for number in range(gets)]]


def text(ops: list[Op], memory: str = "shared") -> str:
    """The PTX of a program."""
    if memory == "global":
        return global_text(ops)
    inits = "".join(f"    @lead mbarrier.init.shared::cta.b64 [bar+{8 * i}], 1;\n" for i in range(GETS))
    lines = [f"{inits}    @lead fence.mbarrier_init.release.cluster;\n    bar.sync 0;"]
    gets = 0
    lines.append(SETUP)
    for number, op in enumerate(ops):
        guard = GUARDS[op.warp]
        place = f"    xor.b32 x0, tid, {op.xor};\n    shl.b32 x0, x0, 4;\n    add.u32 x0, x0, s;\n"
        if op.kind == "store":
            lines.append(f"{place}    {guard}st.shared.v4.u32 [x0], {{v0, v0, v0, v0}};")
        elif op.kind == "load":
            lines.append(f"{place}    {guard}ld.shared.v4.u32 {{v1, v2, v3, v4}}, [x0];")
        elif op.kind == "fence":
            lines.append(f"    {guard}fence.proxy.async.shared::cta;")
        elif op.kind == "bar":
            lines.append("    bar.sync 0;")
        elif op.kind == "put":
            lines.append(f"    @lead cp.async.bulk.global.shared::cta.bulk_group [a0+{1024 * number}], [s], x3;")
            lines.append("    @lead cp.async.bulk.commit_group;")
        elif op.kind == "read":
            lines.append("    @lead cp.async.bulk.wait_group.read 0;")
        elif op.kind == "get":
            lines.append(f"    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+{8 * gets}], 1024;")
            copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            lines.append(f"    @lead {copy} [s], [a1], x3, [bar+{8 * gets}];")
            gets += 1
        elif op.kind == "arrived" and op.xor < gets:
            skip = f"    @!{guard[1:]}bra S{number};\n" if guard else ""
            lines.append(f"{skip}L{number}:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [bar+{8 * op.xor}], 0;")
            lines.append(f"    @!p bra L{number};\nS{number}:")
    return frame("\n".join(lines), pointers=2, registers=".reg .pred even;")


def global_text(ops: list[Op]) -> str:
    """The same with the pieces in global memory; the puts' source is the block's shared memory."""
    lines = [SETUP + "    shl.b32 x0, tid, 4;\n    add.u32 x0, x0, s;\n    st.shared.v4.u32 [x0], {v0, v0, v0, v0};"]
    lines.append("    fence.proxy.async.shared::cta;\n    bar.sync 0;")
    for op in ops:
        guard = GUARDS[op.warp]
        place = f"    xor.b32 x0, tid, {op.xor};\n    mul.wide.u32 y0, x0, 16;\n    add.u64 y0, y0, a0;\n"
        lines.append(
            {
                "store": f"{place}    {guard}st.global.v4.u32 [y0], {{v0, v0, v0, v0}};",
                "load": f"{place}    {guard}ld.global.v4.u32 {{v1, v2, v3, v4}}, [y0];",
                "fence": f"    {guard}fence.proxy.async.global;",
                "bar": "    bar.sync 0;",
                "put": "    @lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n"
                "    @lead cp.async.bulk.commit_group;",
                "read": "    @lead cp.async.bulk.wait_group 0;",
            }[op.kind]
        )
    return frame("\n".join(lines), pointers=2, registers=".reg .pred even;")


@dataclass
class Thread:
    """What a thread knows: generic accesses, those of them that are fenced, finished copies."""

    seen: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    own: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Access:
    """One access to a piece: its number, whether it writes, whether a copy makes it."""

    number: int
    writes: bool
    copy: bool


def races(ops: list[Op], memory: str = "shared") -> bool:
    """Whether two conflicting accesses are not ordered as the async proxy needs it."""
    threads = [Thread() for _ in range(THREADS)]
    pieces: list[list[Access]] = [[] for _ in range(THREADS)]
    puts: list[int] = []
    gets: list[int] = []

    def conflicts(piece: int, thread: Thread, writes: bool, copy: bool) -> bool:
        for before in pieces[piece]:
            if not (writes or before.writes):
                continue
            if before.copy:
                known = before.number in thread.done
            else:
                known = before.number in thread.seen and (not copy or before.number in thread.fenced)
            if not known:
                return True
        return False

    for number, op in enumerate(ops):
        chosen = [t for t in range(THREADS) if (t % 2 == 0 if op.warp == EVEN else op.warp in (-1, t // 32))]
        if op.kind in ("store", "load"):
            for t in chosen:
                if conflicts(t ^ op.xor, threads[t], op.kind == "store", False):
                    return True
                identity = number * THREADS + t
                pieces[t ^ op.xor].append(Access(identity, op.kind == "store", False))
                threads[t].seen.add(identity)
                threads[t].own.add(identity)
        elif op.kind == "fence":
            for t in chosen:
                threads[t].fenced |= threads[t].own
        elif op.kind == "bar":
            for part in ("seen", "fenced", "done"):
                union = set().union(*(getattr(thread, part) for thread in threads))
                for thread in threads:
                    setattr(thread, part, set(union))
        elif op.kind in ("put", "get"):
            writes = op.kind == "get" or memory == "global"
            if any(conflicts(piece, threads[0], writes, True) for piece in range(THREADS)):
                return True
            for piece in range(THREADS):
                pieces[piece].append(Access(-number, writes, True))
            (gets if op.kind == "get" else puts).append(-number)
        elif op.kind == "read":
            threads[0].done |= set(puts)
        elif op.kind == "arrived" and op.xor < len(gets):
            for t in chosen:
                threads[t].done.add(gets[op.xor])
    return False


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("memory", OPS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_same_verdict(memory: str, schedule: str, data: st.DataObject) -> None:
    compare(data.draw(st.lists(OPS[memory], min_size=2, max_size=9)), memory, schedule)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("memory", OPS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(past=ACCESS_SETS)
def test_same_verdict_on_access_sets(memory: str, schedule: str, past: list[list[Op]]) -> None:
    """Each reader of what a copy overwrites needs a fence of its own, behind its own last read."""
    copy = Op("get" if memory == "shared" else "put")
    compare([*[op for ops in past for op in ops], Op("bar"), copy], memory, schedule)


def compare(ops: list[Op], memory: str, schedule: str) -> None:
    program = complete(ops)
    args = [np.zeros(256 * 32, np.uint32), np.arange(256, dtype=np.uint32)]
    report = simulate(text(program, memory), args, block=THREADS, schedule=schedule, gpu=False)
    assert bool(report.findings) == races(program, memory), (program, report.findings[:1])


SAFE = {  # and which of the operations it is not safe without
    "shared": (
        [Op("store"), Op("fence"), Op("bar"), Op("put"), Op("read"), Op("get"), Op("arrived"), Op("load")],
        (1, 2, 4, 6),
    ),
    "global": (
        [Op("load"), Op("fence", EVEN), Op("fence"), Op("load", EVEN, 1), Op("fence", EVEN), Op("bar"), Op("put")],
        (2, 4, 5),
    ),
}


@pytest.mark.parametrize("memory", SAFE)
def test_both_verdicts_occur(memory: str) -> None:
    safe, needed = SAFE[memory]
    assert not races(complete(safe), memory)
    for gone in needed:
        assert races(complete(safe[:gone] + safe[gone + 1 :]), memory), gone
