"""The race model against a slow, obviously right one, on random programs.

All 96 threads execute the same short list of operations on shared or global memory, some only by some warps or lanes.
The reference keeps a full vector clock per thread and a list of every access per word, and asks for each pair of
conflicting accesses whether one happens before the other. The simulator must report something if and only if there is
an unordered pair (or, in shared memory, a read of what was never written), under every schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitile.runtime.sim import run_ptx

THREADS = 96
WORDS = 128  # a thread touches word tid ^ xor


@dataclass(frozen=True)
class Op:
    """One operation: `who` is a pair (mask, value): threads with `tid & mask == value` execute it."""

    kind: str
    xor: int = 0
    who: tuple[int, int] = (0, 0)
    number: int = 0

    def threads(self) -> list[int]:
        return [t for t in range(THREADS) if t & self.who[0] == self.who[1]]


WHO = st.sampled_from([(0, 0), (0, 0), (32, 0), (32, 32), (64, 64), (1, 0), (16, 16), (31, 3), (127, 40)])
XOR = st.sampled_from([0, 0, 1, 4, 16, 32])
OPS = st.one_of(
    st.builds(Op, st.sampled_from(["store", "store", "load", "load", "copy"]), XOR, WHO),
    st.builds(Op, st.just("atomic"), XOR, WHO),
    st.builds(Op, st.sampled_from(["bar", "bar", "commit"])),
    st.builds(Op, st.just("warp")),
    st.builds(Op, st.just("half"), number=st.integers(0, 1)),
    st.builds(Op, st.just("wait"), number=st.integers(0, 1)),
    st.builds(Op, st.just("named"), number=st.integers(0, 2)),
    st.builds(Op, st.just("arrive"), number=st.integers(0, 2)),
)


def text(ops: list[Op], space: str = "shared") -> str:
    """The PTX of a program. Thread t touches word t ^ xor."""
    at = {"shared": "[r]", "global": "[word]"}[space]
    lines = []
    for bar, op in enumerate(ops, 1):
        guard = ""
        if op.kind in ("store", "load", "copy", "atomic"):
            lines.append(f"xor.b32 r, tid, {op.xor};\nmul.wide.u32 word, r, 4;\nadd.u64 word, word, src;")
            lines.append("shl.b32 r, r, 2;\nadd.u32 r, r, base;")
            if op.who[0]:
                lines.append(f"and.b32 m, tid, {op.who[0]};\nsetp.eq.u32 p, m, {op.who[1]};")
                guard = "@p "
        # Named barriers: two of the three warps meet; or one arrives and one waits. Each has a barrier of its own, as
        # warps that are ahead would otherwise complete an earlier one.
        one, other = 32 * op.number, 32 * ((op.number + 1) % 3)
        pair = f"and.b32 m, tid, 96;\nsetp.eq.u32 p, m, {one};\nsetp.eq.u32 q, m, {other};"
        lines.append(
            {
                "store": f"{guard}st.{space}.u32 {at}, tid;",
                "load": f"{guard}ld.{space}.u32 v, {at};",
                "copy": f"{guard}cp.async.ca.shared.global [r], [src], 4;",
                "atomic": f"{guard}red.{space}.add.u32 {at}, 1;",
                "bar": "bar.sync 0;",
                "commit": "cp.async.commit_group;",
                "warp": "bar.warp.sync -1;",
                "half": "and.b32 m, tid, 16;\nsetp.eq.u32 p, m, 0;\n"
                + ("@p bar.warp.sync 0xFFFF;" if op.number == 0 else "@!p bar.warp.sync 0xFFFF0000;"),
                "wait": f"cp.async.wait_group {op.number};",
                "named": f"{pair}\n@p bar.sync {bar}, 64;\n@q bar.sync {bar}, 64;",
                "arrive": f"{pair}\n@p bar.arrive {bar}, 64;\n@q bar.sync {bar}, 64;",
            }[op.kind]
        )
    body = "\n".join(lines)
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {{
    .shared .align 4 .b8 tile[{4 * WORDS}];
    .reg .b32 tid, base, r, m, v; .reg .b64 src, word; .reg .pred p, q;
    ld.param.u64 src, [data];
    mov.u32 tid, %tid.x;
    mov.u32 base, tile;
    {body}
    ret;
}}
"""


class Reference:
    """Vector clocks and complete access histories."""

    def __init__(self, space: str = "shared") -> None:
        self.space = space
        self.clock = np.zeros((THREADS, THREADS), int)
        for thread in range(THREADS):
            self.clock[thread, thread] = 1
        self.history: list[list[tuple[str, int, int]]] = [[] for _ in range(WORDS)]
        self.pending: list[dict[str, int]] = []
        self.commits = 0
        self.bad = False

    def access(self, kind: str, thread: int, word: int) -> None:
        writes = kind != "load"
        history = self.history[word]
        if (
            self.space == "shared"
            and kind in ("load", "atomic")
            and not any(other != "load" for other, _, _ in history)
        ):
            self.bad = True
        for other, by, when in history:
            conflict = writes or other != "load"
            known = by == thread if when else False  # a copy in flight (when 0) is ordered before nothing
            known = known or (when > 0 and self.clock[thread, by] >= when)
            if conflict and not known and not (kind == other == "atomic"):
                self.bad = True
        stamp = 0 if kind == "copy" else int(self.clock[thread, thread])
        history.append((kind, thread, stamp))
        if kind == "copy":
            self.pending.append({"word": word, "at": len(history) - 1, "thread": thread, "group": self.commits})

    def wait(self, keep: int) -> None:
        for item in self.pending:
            if item["group"] < self.commits - keep and not item.get("done"):
                item["done"] = 1
                thread = item["thread"]
                self.history[item["word"]][item["at"]] = ("copy", thread, int(self.clock[thread, thread]))

    def meet(self, releases: list[int], acquires: list[int]) -> None:
        joined = self.clock[releases].max(axis=0)
        for thread in acquires:
            self.clock[thread] = np.maximum(self.clock[thread], joined)
        for thread in {*releases, *acquires}:
            self.clock[thread, thread] += 1

    def run(self, ops: list[Op]) -> bool:
        """Whether the program has a defect."""
        everyone = list(range(THREADS))
        for op in ops:
            first = list(range(32 * op.number, 32 * op.number + 32))
            second = list(range(32 * ((op.number + 1) % 3), 32 * ((op.number + 1) % 3) + 32))
            if op.kind in ("store", "load", "copy", "atomic"):
                for thread in op.threads():
                    self.access(op.kind, thread, thread ^ op.xor)
            elif op.kind == "bar":
                self.meet(everyone, everyone)
            elif op.kind == "warp":
                for warp in range(3):
                    lanes = everyone[32 * warp : 32 * warp + 32]
                    self.meet(lanes, lanes)
            elif op.kind == "half":
                for warp in range(3):
                    start = 32 * warp + 16 * op.number
                    self.meet(everyone[start : start + 16], everyone[start : start + 16])
            elif op.kind == "named":
                self.meet(first + second, first + second)
            elif op.kind == "arrive":
                self.meet(first + second, second)
            elif op.kind == "commit":
                self.commits += 1
            else:
                self.wait(op.number)
        return self.bad


def agree(ops: list[Op], space: str = "shared") -> None:
    expected = Reference(space).run(ops)
    for schedule, seed in (("lazy", 0), ("eager", 0), ("random", 1)):
        args = [np.zeros(WORDS, np.uint32)]
        report = run_ptx(text(ops, space), "k", (1,), (THREADS,), args, schedule=schedule, seed=seed)
        kinds = {finding.kind for finding in report.findings}
        assert kinds <= {"missing_barrier", "missing_wait", "uninitialised"}
        assert bool(kinds) == expected, (schedule, kinds)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(OPS, min_size=2, max_size=9))
def test_agrees_with_the_reference(ops: list[Op]) -> None:
    agree([Op("store"), *ops])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(["store", "load", "copy"]).flatmap(lambda kind: st.builds(Op, st.just(kind), XOR, WHO)),
        max_size=4,
    ),
    st.lists(OPS, max_size=5),
)
def test_agrees_after_a_barrier(first: list[Op], then: list[Op]) -> None:
    agree([Op("store"), Op("bar"), *first, Op("commit"), Op("wait"), Op("bar"), *then])


ORDER = st.one_of(
    st.builds(Op, st.sampled_from(["named", "named", "arrive"]), number=st.integers(0, 2)),
    st.builds(Op, st.just("half"), number=st.integers(0, 1)),
    st.builds(Op, st.sampled_from(["warp", "bar"])),
)


@pytest.mark.parametrize("space", ["shared", "global"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(st.builds(Op, st.sampled_from(["load", "load", "atomic"]), XOR, WHO), ORDER), max_size=6),
    st.lists(ORDER, max_size=2),
    st.sampled_from(["load", "store", "atomic"]).flatmap(lambda kind: st.builds(Op, st.just(kind), XOR, WHO)),
)
def test_agrees_on_access_sets(space: str, past: list[Op], order: list[Op], last: Op) -> None:
    """Accesses that do not conflict, in parts ordered with each other, and then one that may."""
    agree([Op("store"), Op("bar"), *past, *order, last], space)


@pytest.mark.parametrize(("wrong", "fine"), [(Op("load", 1), Op("load", 0)), (Op("store", 32), Op("store", 0))])
def test_the_reference_tells_them_apart(wrong: Op, fine: Op) -> None:
    assert Reference().run([Op("store"), wrong])
    assert not Reference().run([Op("store"), fine])
