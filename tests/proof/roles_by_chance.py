"""Two warps by chance that meet in loops of different forms: what is proved of them has no fault for any size.

Each warp's loop goes n times in a form of its own (up, down, by two, tested at the head or left in the middle, against
a register or a number, by a copied counter, by a stride, …), and often one that only looks so: a test, a step or a
start is another. `wrong` says what goes wrong in some schedule, for sizes 0 … 12, where control flow is as it is
written (`concrete`).

`python -m tests.proof.roles_by_chance BEGIN END [SECONDS]` looks at these seeds, at each for so many seconds (10) at
most, in turn from small sizes to large ones; it tells which of them it has looked at in part only.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter

from minitile.proof import Launch, Refused, prove
from tests.proof import dpor
from tests.proof.by_chance import BARS, HEAD
from tests.proof.concrete import Broken, Unsupported, traces

SIZES = tuple((n, m) for n in range(13) for m in (1, 2, 5))
LAUNCH = Launch({"T": 128})
BOUNDS = [
    "min.s32 %b, %n, %m;",
    "max.s32 %b, %n, %m;",
    "min.s32 %b, %n, 3;",
    "shr.u32 %b, %n, 1;",
    "mul.lo.s32 %b, %n, %m;",
    "add.s32 %b, %n, 1;",
    "mov.b32 %b, 4;",
]
NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class Role:
    """The lines of one warp. Its registers and labels end with its number."""

    def __init__(self, rng: random.Random, number: int, wrong: float, by: int) -> None:
        self.rng, self.number, self.wrong, self.by = rng, number, wrong, by
        self.lines: list[str] = []
        self.labels = 0

    def put(self, *lines: str) -> None:
        self.lines += [re.sub(r"%(?=[A-Z])", f"%w{self.number}", each) for each in lines]

    def label(self) -> str:
        self.labels += 1
        return f"$w{self.number}l{self.labels}"

    def slip(self, right: int) -> int:
        """A number, or now and then another one."""
        return right + self.rng.choice([-1, 1, 1, 2]) if self.rng.random() < self.wrong else right

    def plus(self, name: str, source: str, number: int) -> None:
        rng = self.rng
        a, b = (source, str(number)) if rng.random() < 0.7 else (str(number), source)
        if rng.random() < 0.25:
            self.put(f"sub.{rng.choice('su')}32 {name}, {source}, {-number};")
        else:
            self.put(f"add.{rng.choice('su')}32 {name}, {a}, {b};")

    def test(self, how: str, a: str, b: str, to: str, goes_on: bool) -> None:
        """Branches if `a how b`, or if not."""
        rng, negated = self.rng, not goes_on
        if rng.random() < self.wrong / 2:
            how = rng.choice(["lt", "le", "gt", "ge", "ne", "eq"])
        if rng.random() < 0.25:
            a, b, how = b, a, SWAPPED[how]
        if rng.random() < 0.4:
            how, negated = NEGATED[how], not negated
        kind = rng.choice(["s32", "s32", "u32"] if how not in ("eq", "ne") else ["s32", "u32", "b32"])
        p = rng.choice(["%P0", "%P0", "%P1"])
        self.put(f"setp.{how}.{kind} {p}, {a}, {b};")
        if rng.random() < 0.15:
            self.between()
        self.put(f"@{'!' * negated}{p} bra{rng.choice(['', '.uni'])} {to};")

    def between(self) -> None:
        self.put(self.rng.choice(["bar.warp.sync 0xffffffff;", "add.s32 %K, %K, 0;", "mov.u32 %Z, %K;"]))

    def loop(self, rounds: str, body: list[str]) -> None:
        """`body`, so many times as a register says, or once less or more where a number slips."""
        rng = self.rng
        by = self.by if rng.random() < 0.95 else rng.choice([1, 2, 3])
        up = rng.random() < 0.6
        start: object = self.slip(rng.choice([0, 0, 0, 0, 0, 0, 1, 5]))
        if rng.random() < 0.1:
            start = rng.choice(["%m", "%m", "%n"])
        far = rounds  # rounds · by
        if by > 1:
            far = "%F"
            self.put(
                f"mul.lo.s32 {far}, {rounds}, {by};"
                if by == 3 or rng.random() < 0.5
                else f"shl.b32 {far}, {rounds}, 1;"
            )
        if start != 0:
            self.put(f"add.s32 %E, {far}, {start};")
            far = "%E"
        first, end = (str(start), far) if up else (far, str(start))
        counter, step, go = "%C", self.slip(by) * (1 if up else -1), "lt" if up else "gt"
        if rng.random() < 0.3:
            go = "ne"
        self.put(f"mov.{rng.choice('bus')}32 {counter}, {first};")
        if rng.random() < 0.2 and go != "ne":  # the test is by `<=`
            go = "le" if up else "ge"
            self.put(f"add.s32 %L, {end}, {self.slip(-1 if up else 1)};")
            end = "%L"
        head, out, form = self.label(), self.label(), rng.randrange(4)
        tested = counter

        def grow() -> None:
            kind = rng.random()
            if kind < 0.7:
                self.plus(counter, counter, step)
            else:
                self.plus("%Y", counter, step)
                self.put(f"mov.u32 {counter}, %Y;")

        if form == 0:
            self.put(f"{head}:")
            self.test(go, tested, end, out, False)
            self.put(*body)
            grow()
            self.put(f"bra {head};")
        elif form == 1:
            self.test(go, tested, end, out, False)
            self.put(f"{head}:", *body)
            grow()
            self.test(go, tested, end, head, True)
        elif form == 2:
            self.test(go, tested, end, out, False)
            self.put(f"{head}:")
            self.plus("%T", counter, step)
            self.put(*body[: len(body) // 2])
            grow()
            self.put(*body[len(body) // 2 :])
            self.test(go, "%T" if rng.random() < 0.6 else counter, end, head, True)
        else:
            self.test(go, tested, end, out, False)
            self.put(f"{head}:", *body)
            grow()
            self.test(go, tested, end, out, False)
            self.put(f"bra {head};")
        self.put(f"{out}:")

    def ring(self, stages: int, fills: bool) -> list[str]:
        """A round of a ring between the two: `fills`: it stores, else it loads."""
        rng, by_count = self.rng, self.rng.random() < 0.6
        lines = []
        if by_count:
            step = f"add.{rng.choice('su')}32 %K, %K, 1;"
            ahead = rng.random() < 0.3
            lines += [step] * ahead
            k = "%K"
            if ahead:
                lines.append("sub.s32 %Q, %K, 1;")
                k = "%Q"
            if stages & (stages - 1) == 0 and rng.random() < 0.5:
                lines.append(f"and.b32 %S, {k}, {stages - 1};")
                lines.append(f"shr.u32 %H, {k}, {stages.bit_length() - 1};")
            else:
                lines += [f"rem.u32 %S, {k}, {stages};", f"div.u32 %H, {k}, {stages};"]
            lines.append("and.b32 %H, %H, 1;")
        end = self.label()
        lines += ["mad.lo.u32 %A, %S, 8, %smem;", f"mad.lo.u32 %B, %S, 128, {'%mine' if fills else '%next'};"]
        parity = "%H"
        if fills:
            lines.append("xor.b32 %O, %H, 1;")
            parity = "%O"
        mine, other = (BARS + 8 * stages, BARS) if fills else (BARS, BARS + 8 * stages)
        lines += [f"{end}:", f"mbarrier.try_wait.parity.shared.b64 %D, [%A+{mine}], {parity};", f"@!%D bra {end};"]
        lines.append("st.shared.u32 [%B], %tid;" if fills else "ld.shared.u32 %G, [%B];")
        lines.append(f"mbarrier.arrive.shared.b64 _, [%A+{other}];")
        if by_count:
            lines += [step] * (not ahead)
        else:
            lines += [
                "add.s32 %S, %S, 1;",
                f"setp.eq.u32 %W, %S, {stages};",
                "xor.b32 %X, %H, 1;",
                "selp.b32 %H, %X, %H, %W;",
                "selp.b32 %S, 0, %S, %W;",
            ]
        return lines

    def mutate(self) -> None:
        rng, lines = self.rng, self.lines
        n = rng.randrange(len(lines))
        each, how = lines[n], rng.random()
        if each.endswith(":") or "mbarrier" in each:
            return
        if how < 0.2:
            del lines[n]
        elif how < 0.45:
            lines.insert(max(0, min(len(lines), n + rng.choice([-2, -1, 1, 2]))), lines.pop(n))
        elif how < 0.6:
            lines.insert(rng.randrange(len(lines) + 1), each)
        elif how < 0.75 and each.startswith("@"):
            lines[n] = "@" + each[2:] if each[1] == "!" else "@!" + each[1:]
        elif how < 0.9:
            names = re.findall(r"%w\d[A-Z]\d?|%[nm]\b", each)
            if names and not each.startswith("@"):
                lines[n] = each.replace(
                    rng.choice(names), rng.choice([f"%w{self.number}C", f"%w{self.number}K", "%n"]), 1
                )
        elif numbers := re.findall(r"(?<=, )-?\d+(?=;)", each):
            lines[n] = re.sub(r"(?<=, )-?\d+(?=;)", str(int(numbers[0]) + rng.choice([-1, 1])), each)


def text_of(seed: int) -> str:
    rng = random.Random(seed)
    wrong = rng.choice([0, 0, 0.15, 0.3])
    stages, meets = rng.choice([1, 2, 3]), rng.random() < 0.4
    bound = rng.choice(["mov.b32 %b, %n;"] * 4 + BOUNDS)
    lines = [HEAD, bound]
    for slot in range(4):
        lines.append(f"@%w0 st.shared.u32 [%mine+{128 * slot}], 0;")
    lines.append("@!%first bra $ready;")
    lines += [f"mbarrier.init.shared.b64 [%smem+{BARS + 8 * n}], 32;" for n in range(2 * stages)]
    lines += ["fence.mbarrier_init.release.cluster;", "$ready:", "bar.sync 0;"]
    twice, by = rng.random() < 0.15, rng.choice([1, 1, 1, 2, 3])
    for number in range(2):
        role = Role(rng, number, wrong, by)
        for name in "SHK":
            role.put(f"mov.b32 %{name}, 0;")
        body = ["bar.sync 1, 64;"] if meets else role.ring(stages, number == 0)
        rounds = "%n" if bound == "mov.b32 %b, %n;" and rng.random() < 0.6 else "%b"
        role.loop(rounds, body)
        if twice:
            again = ["bar.sync 1, 64;"] if meets else [re.sub(r"\$w(\d)l(\d+)", r"$w\1m\2", each) for each in body]
            role.loop(rng.choice(["%n", "%n", "%b"]), again)
        for _ in range(rng.choice([0, 0, 1, 2]) if wrong else 0):
            role.mutate()
        lines += [f"@!%w{number} bra $role{number};", *role.lines, "bra $end;", f"$role{number}:"]
    return "\n".join([*lines, "$end:", "ret;", "}"]) + "\n"


class Late(Exception):
    """There was no time for all sizes."""


def wrong(text: str, together: tuple[int, ...] = (), most: int = 60, seconds: float = float("inf")) -> str:
    """What goes wrong for some sizes in some schedule; "" for nothing; "unknown: …" where that is not known. Raises
    Late."""
    until = time.monotonic() + seconds
    for n, m in SIZES:
        if time.monotonic() > until:
            raise Late
        try:
            block = traces(text, LAUNCH, {"N": n, "M": m}, together)
            found = dpor.chance(block, 2) or (dpor.verdict(block, most) if n < 8 else "")
        except Broken as broken:
            found = str(broken)
        except dpor.TooMany:
            continue
        except Unsupported as unknown:
            found = f"unknown: {unknown}"
        if found:
            return f"n = {n}, m = {m}: {found}"
    return ""


def proved(text: str) -> tuple[int, ...] | None:
    """The lines of waits that warps must leave together, of what is proved; None: it is not."""
    try:
        return prove(text, LAUNCH, most_states=120, seconds=4.0).together
    except Refused:
        return None


def main() -> None:
    total: Counter[str] = Counter()
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        text = text_of(seed)
        together = proved(text)
        total["refused" if together is None else "proved"] += 1
        try:
            if together is not None and (found := wrong(text, together, seconds=seconds)):
                print(seed, found, flush=True)
            elif together is None and seed % 10 == 0:
                total["refused, looked at"] += 1
                total["refused, right"] += not wrong(text, seconds=seconds)
        except Late:
            total["in part"] += 1
        if seed % 500 == 499:
            print(seed, dict(total), flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
