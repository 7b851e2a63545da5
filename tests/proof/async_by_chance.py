"""Small texts by chance of asynchronous operations: copies by cp.async, TMA and in bulk, st.async, matrices, atomics,
mbarriers and named barriers between two warps, of which some statements are lost, swapped, doubled or by other lanes.
The simulator must find nothing in what the prover proves.

`python -m tests.proof.async_by_chance BEGIN END` compares them for these seeds.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from minitile.proof import Launch, answer
from minitile.runtime.sim import TensorMap, run_ptx

# (what, lanes, …); `lanes` are "" where all lanes of the block must execute it.
Statement: TypeAlias = "tuple[Any, ...]"
BARS, PART, MATRICES = 3584, 256, 2048  # mbarriers; bytes of a buffer, of which there are four; rows of matrices
HEAD = """.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];  // 4096 bytes
.visible .entry f(.param .s32 N, .param .u64 G, .param .align 64 .b8 T[128])
.reqntid 64
{
  .reg .b32 %r<20>;
  .reg .b64 %d<9>;
  .reg .pred %p<9>;
  mov.u32 %r0, %tid.x; mov.u32 %r1, smem; ld.param.s32 %r9, [N];
  mov.b64 %d0, T; ld.param.u64 %d3, [G]; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d3;
  mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0; ld.global.u32 %r15, [%d1];
  and.b32 %r16, %r0, 31; and.b32 %r17, %r0, 1;
  setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r0, 32; setp.lt.u32 %p2, %r0, 32; setp.ge.u32 %p3, %r0, 32;
  setp.lt.u32 %p4, %r16, 8; setp.eq.u32 %p5, %r17, 0; setp.eq.u32 %p6, %r16, 0; setp.eq.u32 %p7, %r15, 1;
  mad.lo.u32 %r2, %r0, 4, %r1; xor.b32 %r10, %r0, 1; mad.lo.u32 %r10, %r10, 4, %r1;
  xor.b32 %r11, %r0, 32; mad.lo.u32 %r11, %r11, 4, %r1; mad.lo.u32 %r12, %r0, 16, %r1;
"""
LANES = {"all": "", "one": "@%p0", "two": "@%p1", "w0": "@%p2", "w1": "@%p3", "l8": "@%p4", "even": "@%p5"}
LANES |= {"l0": "@%p6", "data": "@%p7"}
OWN, NEXT, OTHER = "%r2", "%r10", "%r11"
FORMS = {
    "st": "st.shared.u32 [{0}+{1}], %r0;",
    "ld": "ld.shared.u32 %r4, [{0}+{1}];",
    "sync": "bar.sync 0;",
    "warp": "bar.warp.sync -1;",
    "fence": "fence.proxy.async.shared::cta;",
    "cp": "cp.async.ca.shared.global [%r2+{0}], [%d1], 4;",
    "commit": "cp.async.commit_group;",
    "cp_wait": "cp.async.wait_group {0};",
    "expect": "mbarrier.arrive.expect_tx.shared.b64 _, [{0}], 256;",
    "bare": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{0}], 256;",
    "tensor": "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+{1}], [%d0, {{%r8}}], [{0}];",  # noqa: E501
    "bytes": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+{1}], [%d3], 256, [{0}];",
    "wait": "\n$w#: mbarrier.try_wait.parity.shared.b64 %p8, [{0}], {1}; @!%p8 bra $w#;",
    "out": "cp.async.bulk.global.shared::cta.bulk_group [%d3+%], [%r1+{0}], 256;",
    "out_commit": "cp.async.bulk.commit_group;",
    "out_wait": "cp.async.bulk.wait_group{1} {0};",
    "later": "cp.async.mbarrier.arrive.noinc.shared.b64 [{0}];",
    "send": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r18], %r0, [%r19];",
    "rows": "st.shared.v4.u32 [%r12+2048], {{%r0, %r0, %r0, %r0}};",
    "rows_read": "ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r12+2048];",
    "add": "red.shared.add.u32 [%r1+{0}], 1;",
    "take": "mbarrier.arrive.shared.b64 %d5, [{0}];",
    "token": "\n$w#: mbarrier.try_wait.shared.b64 %p8, [{0}], %d5; @!%p8 bra $w#;",
    "arrive": "mbarrier.arrive.shared.b64 _, [{0}], {1};",
    "turn": "@!%p2 bra $b#; bar.{0} 2, 64; bra $c#;\n$b#: bar.{1} 2, 64;\n$c#:",
}
AT_BARRIER = ("expect", "bare", "tensor", "bytes", "wait", "later", "take", "token", "arrive")


@dataclass
class Writer:
    """`counts`: of mbarriers, by number. `looped`: the statements are within a loop, each mbarrier in one place."""

    rng: random.Random
    looped: bool
    counts: dict[int, int] = field(default_factory=dict)
    phases: Counter[int] = field(default_factory=Counter)
    number: int = 0

    def barrier(self, count: int) -> tuple[int, Any]:
        """An mbarrier of so many arrivals, and the parity of its next phase."""
        old = [each for each, n in self.counts.items() if n == count]
        number = self.rng.choice(old) if old and not self.looped and self.rng.random() < 0.6 else len(self.counts)
        self.counts[number] = count
        self.phases[number] += 1
        return number, "%r14" if self.looped else (self.phases[number] - 1) % 2

    def put(self, each: Statement) -> str:
        what, lanes, *args = each
        self.number += 1
        if what == "matrix":
            load, count, across = args
            names = ", ".join(("%r4", "%r5", "%r6", "%r7")[:count])
            name = f"{'ld' if load else 'st'}matrix.sync.aligned.m8n8.x{count}{across}.shared.b16"
            return f"{name} {{{names}}}, [%r12+2048];" if load else f"{name} [%r12+2048], {{{names}}};"
        if what in AT_BARRIER:
            args[0] = f"%r1+{BARS + 8 * args[0]}"
        text = FORMS[what].format(*args).replace("#", str(self.number))
        if what == "out":
            text = text.replace("+%]", f"+{4096 + PART * self.number}]")
        if what == "send":
            text = f"add.u32 %r18, %r2, {args[1]}; add.u32 %r19, %r1, {BARS + 8 * args[0]};\n{LANES[lanes]} {text}"
        elif what == "wait" and lanes != "all":
            text = f"@!{LANES[lanes][1:]} bra $s{self.number};{text}\n$s{self.number}:"
        elif lanes:
            text = f"{LANES[lanes]} {text}"
        return text


ALL, SYNC, WARP, FENCE = "all", ("sync", ""), ("warp", ""), ("fence", "all")


def segment(to: Writer) -> list[Statement]:
    """Statements that are sound where all know of all before, and leave it so."""
    rng, b = to.rng, to.rng.randrange(4) * PART
    c, end = (b + PART) % (4 * PART), [("ld", ALL, OTHER, b), FENCE, SYNC]
    across, count = rng.choice(["", ".trans"]), rng.choice([1, 2, 4])
    how = rng.randrange(15)
    put: Statement = ("st", ALL, OWN, b)
    if how < 3:
        one: list[Statement] = [put, SYNC] if how else [("cp", ALL, b), ("commit", ""), ("cp_wait", "", 0), SYNC]
        return [*one, *([("add", ALL, b), SYNC] if how == 2 else []), *end]
    if how == 3:
        two = [("cp", ALL, b), ("commit", ""), ("cp", ALL, c), ("commit", ""), ("cp_wait", "", 1), SYNC]
        return [*two, ("ld", ALL, OTHER, b), ("cp_wait", "", 0), ("ld", ALL, OWN, c), FENCE, SYNC]
    if how == 4:
        stored = [put, ("st", ALL, OWN, c), FENCE, SYNC, ("out", "one", b), ("out_commit", ALL), ("out", "one", c)]
        again = [("out_commit", ALL), ("out_wait", ALL, 1, ".read"), SYNC, put, ("out_wait", ALL, 0, ".read"), SYNC]
        return [*stored, *again, FENCE, SYNC]
    if how == 5:
        done = [("out_commit", ALL), ("out_wait", ALL, 0, rng.choice([".read", ""])), SYNC]
        return [put, FENCE, SYNC, ("out", "one", b), *done]
    if how == 6:
        read = [WARP, ("rows_read", ALL)] if count == 4 and rng.random() < 0.5 else []
        return [("matrix", "", False, count, across), *read, FENCE, SYNC, ("matrix", "", True, 1, ""), FENCE, SYNC]
    if how == 7:
        return [("rows", ALL), WARP, ("matrix", "", True, count, across), FENCE, SYNC]
    if how == 8:
        return [("st", "w0", OWN, b), ("turn", "", "arrive", "sync"), ("ld", "w1", OTHER, b), FENCE, SYNC]
    bar, parity = to.barrier({9: 64, 10: 64, 11: 2, 12: 2}.get(how, 1))
    wait: Statement = ("wait", ALL, bar, parity)
    expect: Statement = ("expect", "one", bar)
    if how == 9:
        return [("cp", ALL, b), ("later", ALL, bar), wait, *end]
    if how == 10:
        return [put, ("take", ALL, bar), ("token", "", bar), *end]
    if how == 11:
        return [put, WARP, ("arrive", "l0", bar, 1), wait, *end]
    if how == 12:
        arrive = [("arrive", "one", bar, 1), ("arrive", "two", bar, 1)]
        return [("bare", "one", bar), ("tensor", "one", bar, b), *arrive, wait, *end]
    if how == 13:
        return [expect, SYNC, ("send", ALL, bar, b), wait, *end]
    return [expect, (rng.choice(["tensor", "bytes"]), "one", bar, b), wait, *end]


def changed(rng: random.Random, body: list[Statement]) -> None:
    """One change, in place."""
    place = rng.randrange(len(body))
    each, how, part = body[place], rng.random(), rng.randrange(4) * PART
    if how < 0.3 and len(body) > 1:
        del body[place]
    elif how < 0.45:
        other = min(len(body) - 1, max(0, place + rng.choice([-2, -1, 1, 2])))
        body[place], body[other] = body[other], body[place]
    elif how < 0.55:
        body.insert(place + rng.randrange(3), each)
    elif how < 0.75 and each[1]:
        body[place] = (each[0], rng.choice(list(LANES)), *each[2:])
    elif how < 0.8 and each[0] in ("st", "ld"):
        body[place] = (*each[:2], rng.choice([OWN, NEXT, OTHER]), each[3])
    elif how < 0.85 and each == SYNC:
        body[place] = rng.choice([WARP, ("turn", "", "sync", "arrive"), ("turn", "", "arrive", "sync")])
    elif how < 0.95:
        more: list[Statement] = [("rows", ALL), ("rows_read", ALL), ("add", ALL, part), WARP, FENCE, ("commit", "")]
        more += [
            ("st", ALL, OWN, part),
            ("ld", ALL, OWN, part),
            ("ld", ALL, OTHER, part),
            ("cp", ALL, part),
            ("cp_wait", "", 1),
        ]
        more += [("matrix", "", False, 2, ""), ("out", "one", part), ("out_commit", ALL), ("out_wait", ALL, 1, ".read")]
        body.insert(place, rng.choice(more))
    elif isinstance(each[-1], int):
        body[place] = (*each[:-1], (each[-1] + PART) % (4 * PART) if each[-1] >= PART else 1 - min(each[-1], 1))


def text_of(seed: int) -> str:
    rng = random.Random(seed)
    to = Writer(rng, rng.random() < 0.4)
    begin: list[Statement] = [("st", ALL, OWN, part * PART) for part in range(4) if rng.random() < 0.7]
    body = [each for _ in range(rng.choice([1, 2, 2, 3])) for each in segment(to)]
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
        changed(rng, body)
    first, rest = (list(map(to.put, part)) for part in ([*begin, FENCE, SYNC], body))
    if to.looped:
        rest = [
            "mov.b32 %r3, 0; setp.ge.s32 %p8, %r3, %r9; @%p8 bra.uni $end;\n$loop: and.b32 %r14, %r3, 1;",
            *rest,
            "add.s32 %r3, %r3, 1; setp.lt.s32 %p8, %r3, %r9; @%p8 bra.uni $loop;\n$end:",
        ]
    bars = [f"mbarrier.init.shared.b64 [%r1+{BARS + 8 * n}], {count};" for n, count in to.counts.items()]
    ready = ["@!%p0 bra $ready;", *bars, "fence.mbarrier_init.release.cluster;\n$ready: bar.sync 0;"]
    return "\n".join([HEAD, *ready, *first, *rest, "ret;\n}\n"])


def simulated(text: str) -> str:
    """What the simulator finds in shared memory under some schedules and sizes; "" for nothing."""
    for schedule, seed in (("lazy", 0), ("eager", 0), ("random", 1), ("random", 2)):
        for n in (1, 2, 3, 5) if "$loop" in text else (3,):
            arguments = [np.int32(n), (np.arange(1 << 14) % 3 == 1).astype(np.int32)]
            arguments.append(TensorMap(np.ones(4096, np.uint16), box=(128,)))
            report = run_ptx(
                text, "f", (1, 1, 1), (64, 1, 1), arguments, dynamic_shared=4096, schedule=schedule, seed=seed
            )
            for each in report.findings:
                if "global memory" not in str(each) and "of G (global)" not in str(each):
                    return f"{n}, {schedule}: {each}"
    return ""


def compared(seed: int, simulate: Callable[[str], str] = simulated) -> tuple[str, str]:
    """The prover's verdict, and what the simulator finds in what is proved."""
    text = text_of(seed)
    verdict = answer(text, Launch({"T": PART}), most_states=100, seconds=10.0).verdict
    return verdict, simulate(text) if verdict == "proved" else ""


def main() -> None:
    total: Counter[str] = Counter()
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        verdict, found = compared(seed)
        total[f"{verdict}{', but not sound' * bool(found)}"] += 1
        if found:
            print(seed, found, flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
