"""Small texts by chance: rings, turns and barriers between three warps, with some statements lost, swapped, doubled or
missing in some rounds. `dpor` runs every schedule of each, and the prover must agree where it says "proved".

`python -m tests.proof.by_chance BEGIN END` compares them for these seeds.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from minitile.proof import Fault, Launch, Refused, prove
from minitile.proof.text import parse
from tests.proof import dpor
from tests.proof.concrete import Broken, Unsupported, traces

# (operation, arguments…); of "loop" and "guard" the last argument is a list of statements.
Statement: TypeAlias = "tuple[Any, ...]"
THREADS, BARS, BOX = 96, 3072, 128
HEAD = """.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];  // 4096 bytes
.visible .entry f(.param .s32 N, .param .s32 M, .param .align 64 .b8 T[128])
.reqntid 96
{
  mov.u32 %tid, %tid.x;
  mov.u32 %smem, smem;
  mov.b64 %map, T;
  ld.param.s32 %n, [N];
  ld.param.s32 %m, [M];
  and.b32 %lane, %tid, 31;
  shr.u32 %warp, %tid, 5;
  setp.eq.u32 %first, %tid, 0;
  setp.eq.u32 %one, %lane, 0;
  mad.lo.u32 %mine, %lane, 4, %smem;
  xor.b32 %next, %mine, 4;
  setp.eq.u32 %w0, %warp, 0;
  setp.eq.u32 %w1, %warp, 1;
"""


class Writer:
    """PTX text of a program."""

    def __init__(self, counts: dict[int, int], roles: list[list[Statement]]) -> None:
        self.lines = [HEAD]
        self.labels = 0
        for slot in range(4):
            self.put("@%w0 " + f"st.shared.u32 [%mine+{128 * slot}], 0;")
        self.put("fence.proxy.async.shared::cta;")
        self.put("@!%first bra $ready;")
        for bar, count in counts.items():
            self.put(f"mbarrier.init.shared.b64 [%smem+{BARS + 8 * bar}], {count};")
        self.put("fence.mbarrier_init.release.cluster;\n$ready:\nbar.sync 0;")
        for number, role in enumerate(roles):
            if number + 1 < len(roles):
                self.put(f"@!%w{number} bra $role{number + 1};")
            self.number = number
            for name in ("slot", "phase"):
                self.put(f"mov.b32 %{name}{number}, 0;")
            self.body(role, 0)
            self.put(f"bra $end;\n$role{number + 1}:" if number + 1 < len(roles) else "$end:")
        self.put("ret;\n}")

    def put(self, text: str) -> None:
        self.lines.append(text)

    def label(self) -> str:
        self.labels += 1
        return f"$l{self.labels}"

    def body(self, statements: list[Statement], depth: int) -> None:
        for operation, *args in statements:
            getattr(self, f"_{operation}")(*args, depth=depth)

    def at(self, base: int, each: Any, stride: int = 8) -> str:
        """An address: of a constant place, or of the slot of a ring that begins at a place ("ring", place)."""
        if not isinstance(each, tuple):
            return f"[%smem+{base + stride * each}]"
        self.put(f"mad.lo.u32 %at, %slot{self.number}, {stride}, %smem;")
        return f"[%at+{base + stride * each[1]}]"

    def _loop(self, bound: str, inner: list[Statement], depth: int) -> None:
        head, end, counter = self.label(), self.label(), f"%k{self.number}{depth}_{self.labels}"
        self.put(f"mov.b32 {counter}, 0;\nsetp.ge.s32 %go, {counter}, {bound};\n@%go bra.uni {end};\n{head}:")
        before, self.counter = getattr(self, "counter", ""), counter
        self.body(inner, depth + 1)
        self.put(
            f"add.s32 {counter}, {counter}, 1;\nsetp.lt.s32 %go, {counter}, {bound};\n@%go bra.uni {head};\n{end}:"
        )
        self.counter = before

    def _guard(self, test: str, n: int, inner: list[Statement], depth: int) -> None:
        end, of = self.label(), getattr(self, "counter", "") or "%m"
        self.put(f"setp.{test}.s32 %skip, {of}, {n};\n@%skip bra.uni {end};")
        self.body(inner, depth)
        self.put(f"{end}:")

    def _advance(self, stages: int, depth: int) -> None:
        n = self.number
        self.put(
            f"add.s32 %slot{n}, %slot{n}, 1;\nsetp.eq.s32 %wrap, %slot{n}, {stages};\nxor.b32 %other, %phase{n}, 1;"
        )
        self.put(f"selp.b32 %phase{n}, %other, %phase{n}, %wrap;\nselp.b32 %slot{n}, 0, %slot{n}, %wrap;")

    def _flip(self, depth: int) -> None:
        self.put(f"xor.b32 %phase{self.number}, %phase{self.number}, 1;")

    def _wait(self, bar: Any, phase: Any, depth: int) -> None:
        place, label, parity = self.at(BARS, bar), self.label(), str(phase)
        if phase in ("same", "other"):
            self.put(f"xor.b32 %parity, %phase{self.number}, {int(phase == 'other')};")
            parity = "%parity"
        guard = f"%done{self.labels}"
        self.put(f"{label}:\nmbarrier.try_wait.parity.shared.b64 {guard}, {place}, {parity};\n@!{guard} bra {label};")

    def _arrive(self, bar: Any, lanes: str, depth: int) -> None:
        self.put(f"{self.guard(lanes)}mbarrier.arrive.shared.b64 _, {self.at(BARS, bar)};")

    def _copy(self, bar: Any, slot: Any, expect: int, size: int, depth: int) -> None:
        place, into = self.at(BARS, bar), self.at(0, slot, 128)
        if expect == 1:
            place = self.at(BARS, bar)
            self.put(f"@%one mbarrier.arrive.expect_tx.shared.b64 _, {place}, {size};")
        elif expect == 2:
            place = self.at(BARS, bar)
            self.put(f"@%one mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {place}, {size};")
        self.put(f"mov.u32 %bar, %{'at' if isinstance(bar, tuple) else 'smem'};") if expect else None
        place = place.replace("%at", "%bar") if expect else self._bar_of(bar)
        into = self.at(0, slot, 128)
        copy = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
        self.put(f"@%one {copy} {into}, [%map, {{%n}}], {place};")

    def _bar_of(self, bar: Any) -> str:
        place = self.at(BARS, bar)
        self.put(f"mov.u32 %bar, %{'at' if isinstance(bar, tuple) else 'smem'};")
        return place.replace("%at", "%bar").replace("%smem", "%bar")

    @staticmethod
    def guard(lanes: str) -> str:
        return "@%one " if lanes == "one" else ""

    def _store(self, slot: Any, depth: int) -> None:
        place = self.at(0, slot, 128).replace("%smem", "%mine")
        if "%at" in place:
            self.put("mad.lo.u32 %at, %lane, 4, %at;")
        self.put(f"st.shared.u32 {place}, %tid;")

    def _load(self, slot: Any, depth: int) -> None:
        place = self.at(0, slot, 128).replace("%smem", "%next")
        if "%at" in place:
            self.put("xor.b32 %near, %lane, 1;\nmad.lo.u32 %at, %near, 4, %at;")
        self.put(f"ld.shared.u32 %got, {place};")

    def _out(self, slot: Any, depth: int) -> None:
        self.put(
            f"@%one cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%map, {{%n}}], {self.at(0, slot, 128)};"
        )
        self.put("cp.async.bulk.commit_group;")

    def _drain(self, n: int, depth: int) -> None:
        self.put(f"cp.async.bulk.wait_group.read {n};")

    def _fence(self, depth: int) -> None:
        self.put("fence.proxy.async.shared::cta;")

    def _warp(self, depth: int) -> None:
        self.put("bar.warp.sync 0xffffffff;")

    def _meet(self, depth: int) -> None:
        self.put("elect.sync _|%elected, 0xffffffff;")

    def _sync(self, number: int, threads: int, depth: int) -> None:
        self.put(f"bar.sync {number}, {threads};")

    def _post(self, number: int, threads: int, depth: int) -> None:
        self.put(f"bar.arrive {number}, {threads};")


Program: TypeAlias = "tuple[dict[int, int], list[list[Statement]]]"


def ring(rng: random.Random) -> Program:
    """One warp fills a ring, two empty it; generic stores or copies; one arrival of a warp, or one of each lane."""
    stages, copies = rng.choice([1, 2, 3]), rng.random() < 0.5
    lanes = "one" if copies or rng.random() < 0.5 else "all"
    full, empty = ("ring", 0), ("ring", stages)
    fill: list[Statement] = [("wait", empty, "other")]
    if copies:
        fill += [("meet",)] if rng.random() < 0.5 else []
        fill += [("copy", full, ("ring", 0), 1, BOX)]
    else:
        fill += [("store", ("ring", 0)), *([("warp",)] if lanes == "one" else []), ("arrive", full, lanes)]
    use: list[Statement] = [("wait", full, "same"), ("load", ("ring", 0)), ("warp",), ("arrive", empty, "one")]
    step: Statement = ("advance", stages)
    bound = rng.choice(["%n", "%n", "%m"])
    roles = [
        [("loop", "%n", [*fill, step])],
        [("loop", "%n", [*use, step])],
        [("loop", bound if rng.random() < 0.1 else "%n", [*use, step])],
    ]
    counts = dict.fromkeys(range(stages), 1 if lanes == "one" else 32) | {stages + n: 2 for n in range(stages)}
    return counts, roles


def turns(rng: random.Random) -> Program:
    """Two warps store and read by turns, by named barriers; a third by an mbarrier."""
    first: list[Statement] = [("sync", 1, 64), ("store", 0), ("post", 2, 64)]
    second: list[Statement] = [("post", 1, 64), ("sync", 2, 64), ("load", 0)]
    if rng.random() < 0.5:
        first += [("warp",), ("arrive", 0, "one")]
        third: list[Statement] = [("wait", 0, "same"), ("flip",), ("store", 1), ("warp",), ("arrive", 1, "one")]
        second += [("wait", 1, "same"), ("flip",), ("load", 1), ("warp",)]
        first += [("wait", 2, "same"), ("flip",)]
        second += [("arrive", 2, "one")]
    else:
        third = [("store", 1), ("warp",), ("load", 1)]
    return {0: 1, 1: 1, 2: 1}, [[("loop", "%n", each)] for each in (first, second, third)]


def chain(rng: random.Random) -> Program:
    """Each warp waits for the one before; in loops of one or two levels."""
    roles = []
    for n in range(3):
        body: list[Statement] = [("arrive", n, "one")] if n == 0 else []
        body += [("wait", (n - 1) % 3, "same"), ("store", 0), ("warp",)]
        body += [("arrive", n, "one")] if n else []
        body += [("flip",)]
        if n == 0:
            body = [("store", 0), ("warp",), ("arrive", 0, "one"), ("wait", 2, "same"), ("flip",)]
        inner: Statement = ("loop", "%n", body)
        roles.append([inner if two < 0.6 else ("loop", "%m", [inner])] if (two := rng.random()) else [])
    if rng.random() < 0.8:
        roles = [[("loop", "%m", [role[0] if role[0][1] == "%n" else role[0][2][0]])] for role in roles]
    return {0: 1, 1: 1, 2: 1}, roles


def tiles(rng: random.Random) -> Program:
    """A ring that goes on from tile to tile, and a store of each tile by a copy."""
    stages = rng.choice([1, 2])
    counts, roles = ring(rng)
    counts, step = dict.fromkeys(range(stages), 1) | {stages + n: 1 for n in range(stages)}, ("advance", stages)
    fill: Statement = (
        "loop",
        "%n",
        [("wait", ("ring", stages), "other"), ("copy", ("ring", 0), ("ring", 0), 1, BOX), step],
    )
    use = (
        "loop",
        "%n",
        [("wait", ("ring", 0), "same"), ("load", ("ring", 0)), ("warp",), ("arrive", ("ring", stages), "one"), step],
    )
    end: list[Statement] = [("drain", 0), ("warp",), ("store", 3), ("fence",), ("warp",), ("out", 3)]
    roles = [[("loop", "%m", [fill])], [("loop", "%m", [use, *end]), ("drain", 0)], []]
    return counts, roles


SHAPES: tuple[Callable[[random.Random], Program], ...] = (ring, ring, turns, chain, tiles)


def bodies(statements: list[Statement]) -> Iterator[list[Statement]]:
    yield statements
    for each in statements:
        if each[0] in ("loop", "guard"):
            yield from bodies(each[-1])


def changed(rng: random.Random, program: Program) -> None:
    """One change, in place."""
    counts, roles = program
    body = rng.choice([body for role in roles for body in bodies(role) if body] or [[("warp",)]])
    place = rng.randrange(len(body))
    each, how = body[place], rng.random()
    if how < 0.2:
        del body[place]
    elif how < 0.35:
        other = rng.randrange(len(body))
        body[place], body[other] = body[other], body[place]
    elif how < 0.45:
        body.insert(rng.randrange(len(body) + 1), each)
    elif how < 0.6:
        body[place] = ("guard", rng.choice(["ge", "lt", "eq", "ne"]), rng.choice([0, 1, 2, 3, 5]), [each])
    elif how < 0.7 and each[0] == "wait":
        body[place] = ("wait", each[1], rng.choice(["same", "other", 0, 1]))
    elif how < 0.75 and each[0] in ("arrive",):
        body[place] = ("arrive", each[1], rng.choice(["one", "all"]))
    elif how < 0.8:
        bar = rng.choice(list(counts))
        counts[bar] = max(1, counts[bar] + rng.choice([-1, 1]))
    elif how < 0.85 and each[0] == "copy":
        body[place] = (*each[:3], rng.choice([0, 1, 2]), rng.choice([BOX, BOX // 2, 2 * BOX]))
    elif how < 0.9 and each[0] == "loop":
        body[place] = ("loop", rng.choice(["%n", "%m"]), each[2])
    else:
        bars: list[Statement] = [("wait", rng.choice(list(counts)), rng.choice(["same", "other", 0, 1]))]
        bars += [
            ("arrive", rng.choice(list(counts)), rng.choice(["one", "one", "all"])),
            ("warp",),
            ("meet",),
            ("fence",),
        ]
        bars += [("sync", rng.choice([1, 2, 3]), rng.choice([64, 96, 32])), ("post", rng.choice([1, 2, 3]), 64)]
        bars += [("store", rng.randrange(3)), ("load", rng.randrange(3)), ("advance", 2), ("flip",)]
        body.insert(rng.randrange(len(body) + 1), rng.choice(bars))


def text_of(seed: int) -> str:
    rng = random.Random(seed)
    program = rng.choice(SHAPES)(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 2])):
        changed(rng, program)
    return "\n".join(Writer(*program).lines) + "\n"


LAUNCH = Launch({"T": BOX})


def compared(text: str, most: int = 300) -> tuple[str, str]:
    """What the prover says, "" for proved; and what happens in some schedule, "" for nothing."""
    together: tuple[int, ...] = ()
    try:
        why, together = "", prove(text, LAUNCH, most_states=300, seconds=10.0).together
    except Fault as fault:
        code = parse(text, LAUNCH).code
        why, together = f"fault: {fault}", tuple(code[pc].line for pc in fault.together)
    except Refused as refused:
        why = f"refused: {refused}"
    many = "%m" in text.replace("%m, [M]", "")
    sizes = [(n, m) for m in (range(7) if many else (1,)) for n in range(8) if n * m < 24]
    found = ""
    for tries in (3, 0):
        for n, m in sizes:
            try:
                block = traces(text, LAUNCH, {"N": n, "M": m}, together)
                found = dpor.chance(block, tries) if tries else dpor.verdict(block, most)
            except Broken as broken:
                found = str(broken)
            except (Unsupported, dpor.TooMany) as unknown:
                found = f"unknown: {unknown!r}"
            if found:
                return why, f"{n}, {m}: {found}"
    return why, found


def main() -> None:
    total: Counter[str] = Counter()
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        why, found = compared(text_of(seed))
        really = "unknown" if "unknown" in found else "fault" if found else "sound"
        key = f"{why.partition(':')[0] or 'proved'} | {really}"
        total[key] += 1
        if key == "proved | fault" or (key == "fault | sound"):
            print(seed, key, why, "|", found, flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
