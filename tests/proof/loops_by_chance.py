"""Loops by chance, and what one thread does in them before and after they are rewritten (minitile.proof.loops).

`text_of` writes a body with loops of every form that the rewriting knows, and of forms that only look so: statements
are swapped, lost, doubled, or about another register. `run` executes statements for given sizes and says what was done:
each event with the numbers in it. Nothing of the prover is shared but the reading of texts.

`python -m tests.proof.loops_by_chance BEGIN END` compares for these seeds.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from minitile.proof.loops import canonical
from minitile.proof.reading import Refused, Statement, statements
from minitile.proof.text import ARITHMETIC, _instruction
from tests.proof.arithmetic import COMPARE, INTEGER

SIZES = ((0, 0), (1, 2), (2, 1), (3, 7), (4, 4), (5, 3), (7, 12), (8, 0), (12, 5))  # of n and m
MOST_STEPS = 800


@lru_cache
def _binary(op: str) -> tuple[str, str, int] | None:
    match = re.fullmatch(r"(add|sub|mul\.lo|and|or|xor|min|max|shl|shr|div|rem)\.([sub])(32|64)", op)
    return (match[1][:3], match[2], int(match[3])) if match else None


class Beyond(Exception):
    """The rewritten text has come where no run may come."""


class Wrapped(Exception):
    """A number goes round, which is taken not to happen."""


class Thread:
    """Registers of one thread, and what it has done. `found`: what its tries of waits find, one after the other."""

    def __init__(self, given: Mapping[str, int], found: random.Random) -> None:
        self.registers = dict(given)
        self.done: list[tuple[object, ...]] = []
        self.found = found

    def value(self, arg: str, kind: str = "s", width: int = 32) -> int:
        number = self.registers.get(arg, 0) if arg.startswith("%") else int(arg, 0)
        number %= 1 << width
        return number - (1 << width) if kind == "s" and number >> (width - 1) else number

    def do(self, each: Statement) -> None:
        op, args = each.op, each.args
        if form := _binary(op):
            name, kind, width = form
            exact = INTEGER[name](
                self.value(args[1], kind, width),
                self.value(args[2], "u" if name in ("shl", "shr") else kind, width),
            )
            signed = INTEGER[name](
                self.value(args[1], "s", width), self.value(args[2], "u" if name in ("shl", "shr") else "s", width)
            )
            if name in ("add", "sub", "mul", "shl") and not -(1 << width - 1) <= signed < 1 << width - 1:
                raise Wrapped
            self.registers[args[0]] = exact % (1 << width)
        elif match := re.fullmatch(r"mad\.lo\.([su])32", op):
            total = self.value(args[1]) * self.value(args[2]) + self.value(args[3])
            if not -(1 << 31) <= total < 1 << 31:
                raise Wrapped
            self.registers[args[0]] = total % (1 << 32)
        elif match := re.fullmatch(r"mul\.(wide|hi)\.([su])32", op):
            total = self.value(args[1], match[2]) * self.value(args[2], match[2])
            self.registers[args[0]] = (total >> 32 * (match[1] == "hi")) % (1 << 64)
        elif match := re.fullmatch(r"cvt\.([su])(\d+)\.([su])(\d+)", op):
            self.registers[args[0]] = self.value(args[1], match[3], int(match[4])) % (1 << int(match[2]))
        elif op.startswith("mov."):
            self.registers[args[0]] = self.value(args[1], "u", 64)
        elif match := re.fullmatch(r"setp\.(\w\w)\.([sub])(32|64)", op):
            a, b = (self.value(arg, match[2], int(match[3])) for arg in args[1:3])
            first, _, second = args[0].partition("|")
            self.registers[first] = int(COMPARE[match[1]](a, b))
            if second:
                self.registers[second] = 1 - self.registers[first]
        elif op.startswith("selp."):
            self.registers[args[0]] = self.value(args[1 if self.value(args[3]) else 2], "u", 64)
        elif op == "not.pred":
            self.registers[args[0]] = 1 - self.value(args[1])
        elif match := re.fullmatch(r"(and|or|xor)\.pred", op):
            self.registers[args[0]] = INTEGER[match[1]](self.value(args[1]), self.value(args[2]))
        elif op.startswith("mbarrier.try_wait"):
            self.registers[args[0]] = int(self.found.random() < 0.6)
            self.event(op, args[1:])
        elif op.startswith("~beyond"):
            raise Beyond
        elif not op.startswith("nanosleep"):
            self.event(op, args)

    def event(self, op: str, args: tuple[str, ...]) -> None:
        names = (name for arg in args for name in re.findall(r"%\w+", arg))
        self.done.append((op, *(self.value(name) for name in names)))


def run(
    found: list[Statement], last: frozenset[str], given: Mapping[str, int], steps: int = MOST_STEPS
) -> tuple[str, Thread]:
    """How it ends (end, long, beyond, wrapped), and the thread."""
    places = {name: n for n, each in enumerate(found) for name in each.labels} | dict.fromkeys(last, len(found))
    thread, at = Thread(given, random.Random(1)), 0
    try:
        for _ in range(steps):
            if at >= len(found):
                return "end", thread
            each = found[at]
            at += 1
            if each.guard and bool(thread.value(each.guard)) == each.negated:
                continue
            if each.op in ("bra", "bra.uni"):
                at = places[each.args[0]]
            elif each.op == "ret":
                return "end", thread
            else:
                thread.do(each)
    except Beyond:
        return "beyond", thread
    except Wrapped:
        return "wrapped", thread
    return "long", thread


class Writer:
    """Statements of a body by chance. Registers: %n, %m are sizes, %c counters, %a sums, %b bounds, %p predicates."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines, self.labels, self.counters = rng, [], 0, 0  # type: ignore[var-annotated]

    def put(self, *lines: str) -> None:
        self.lines += lines

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def bound(self) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.35:
            return rng.choice(["%n", "%m"])
        if kind < 0.6:
            return str(rng.choice([0, 1, 2, 3, 4, 6, 7, 8, -1]))
        name = f"%b{rng.randrange(3)}"
        a, b = rng.choice(["%n", "%m"]), rng.choice(["%n", "%m", "3", "2", "1", "4"])
        op = rng.choice(["add.s32", "sub.s32", "min.s32", "max.s32", "shl.b32", "shr.u32", "mul.lo.s32", "mov.b32"])
        if op in ("shl.b32", "shr.u32"):
            b = rng.choice("12")
        self.put(f"{op} {name}, {a}" + (";" if op == "mov.b32" else f", {b};"))
        return name

    def events(self, names: list[str]) -> None:
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            name = self.rng.choice([*names, "%a0", "%a1", "%n"])
            self.put(f"st.shared.u32 [%s], {name};")
        if self.rng.random() < 0.4:
            self.put("bar.sync 1, 64;")

    def sums(self, counter: str) -> None:
        rng = self.rng
        for _ in range(rng.choice([0, 0, 1, 2])):
            a = rng.choice(["%a0", "%a1"])
            self.put(
                rng.choice(
                    [
                        f"add.s32 {a}, {a}, {rng.choice([1, 2, 3, 4, -1, 8])};",
                        f"sub.u32 {a}, {a}, {rng.choice([1, 2])};",
                        f"add.s32 {a}, {a}, {counter};",
                        f"mov.u32 {a}, {counter};",
                        f"mul.lo.s32 {a}, {counter}, 2;",
                        f"xor.b32 {a}, {a}, 1;",
                        "add.s64 %e, %e, 4;",
                        f"cvt.u32.u64 {a}, %e;",
                    ]
                )
            )

    def wait(self) -> None:
        at, rng = self.label(), self.rng
        form = rng.randrange(5)
        place = rng.choice(["%s", "%a0", "%c0"])
        try_wait = f"mbarrier.try_wait.parity.shared.b64 %p5, [{place}], {rng.choice(['0', '%a1', '%c0'])};"
        if form == 0:
            self.put(f"{at}:", try_wait, f"@!%p5 bra {at};")
        elif form == 1:
            one, zero = rng.choice([(1, 0), (0, 1), (2, 1)])
            test = f"setp.{rng.choice(['eq', 'ne'])}.s32 %p6, %q, {rng.choice([0, 0, 1])};"
            ahead = rng.choice(["", "add.s32 %q2, %s, 8;", "mov.u32 %a1, %q;", "add.s32 %a0, %a0, 1;"])
            inside = [f"selp.b32 %q, {one}, {zero}, %p5;", test]
            more = [
                "xor.b32 %a0, %a0, 1;",
                "mov.u32 %a1, %q;",
                "mov.u32 %q2, 3;",
                "nanosleep.u32 20;",
                "not.pred %p4, %p4;",
            ]
            for _ in range(rng.choice([0, 0, 1, 1, 2])):
                inside.insert(rng.randrange(3), rng.choice(more))
            self.put(f"{at}:", *([ahead] if ahead else []), try_wait, *inside)
            self.put(f"@{rng.choice(['', '!'])}%p6 bra {at};")
        elif form == 2:
            self.put(f"{at}:", try_wait, "not.pred %p6, %p5;", f"@%p6 bra {at};")
        elif form == 3:
            self.poll(at, try_wait)
        else:
            end = self.label()
            self.put(f"{at}:", try_wait, f"@%p5 bra {end};", f"bra {at};", f"{end}:")

    def poll(self, at: str, try_wait: str) -> None:
        """A wait with a back-off, or what only looks so."""
        rng, end, over = self.rng, self.label(), self.label()
        found = ["selp.u32 %q, 1, 0, %p5;", f"setp.{rng.choice(['ne'] * 5 + ['eq'])}.s32 %p6, %q, 0;"]
        self.put(try_wait, *found, f"@%p6 bra {end};", "mov.u32 %q3, 8;", f"{at}:")
        more = ["add.s32 %a0, %a0, 1;", "mov.u32 %a1, 1;", "st.shared.u32 [%s], %q3;", f"@%p4 bra {end};"]
        self.put("setp.lt.s32 %p7, %q3, 64;", f"@%p7 bra {over};", "nanosleep.u32 %q3;")
        self.put(*([rng.choice(more)] if rng.random() < 0.4 else []), f"{over}:", "add.s32 %q3, %q3, 8;")
        again = try_wait if rng.random() < 0.7 else try_wait.replace("], ", rng.choice(["], 1", "+8], "]))
        test = "setp.eq.s32 %p6, %q, 0;" if rng.random() < 0.8 else rng.choice(["", "setp.lt.s32 %p6, %q3, 99;"])
        self.put(again, found[0], *([test] if test else []), f"@%p6 bra {at};", f"{end}:")
        if rng.random() < 0.2:
            self.put(f"st.shared.u32 [%s], {rng.choice(['%q', '%q3'])};")

    def body(self, depth: int, counter: str) -> None:
        rng = self.rng
        for _ in range(rng.choice([1, 1, 2, 3])):
            kind = rng.random()
            if kind < 0.35:
                self.events([counter])
            elif kind < 0.6:
                self.sums(counter)
            elif kind < 0.7:
                self.wait()
            elif kind < 0.8:
                end = self.label()
                self.put(f"setp.{rng.choice(['eq', 'lt', 'ge'])}.s32 %p4, {rng.choice([counter, '%a0', '%n'])}, 2;")
                self.put(f"@%p4 bra {end};")
                self.events([counter])
                self.sums(counter)
                self.put(f"{end}:")
            elif kind < 0.84:
                x, d = rng.choice([counter, "%a0"]), rng.choice(["%r0", "%a1"])
                factor, by = rng.choice([(-1431655765, 33), (-858993459, 34), (-1431655765, 34), (613566757, 32)])
                self.put(f"mov.u32 %r1, {x};")
                if rng.random() < 0.5:
                    self.put(f"mul.wide.u32 %f, {x}, {factor};", f"shr.u64 %f, %f, {by};", f"cvt.u32.u64 {d}, %f;")
                else:
                    x, r = rng.choice([(x, "%r1"), ("%r1", "%r1"), ("%r1", "%r2")])
                    self.put(f"mul.hi.u32 {r}, {x}, {factor};", f"shr.u32 {d}, {r}, {by - 32};")
                self.put(f"st.shared.u32 [%s], {d};")
            elif depth < 2:
                self.loop(depth + 1)

    def step(self, counter: str, by: int, stride: str) -> None:
        rng, kind = self.rng, self.rng.random()
        if stride:
            self.put(f"add.{rng.choice('su')}32 {counter}, {counter}, {stride};")
        elif kind < 0.5:
            self.put(f"add.{rng.choice('su')}32 {counter}, {counter}, {by};")
        elif kind < 0.65:
            self.put(f"add.s32 {counter}, {by}, {counter};")
        elif kind < 0.8:
            self.put(f"sub.{rng.choice('su')}32 {counter}, {counter}, {-by};")
        else:
            self.put(f"add.s32 %y, {counter}, {by};")
            if rng.random() < 0.5:
                self.events(["%y"])
            self.put(f"mov.{rng.choice('bus')}32 {counter}, %y;")

    def test(self, counter: str, bound: str, by: int, leaves: bool, to: str) -> None:
        rng = self.rng
        tested = counter
        if rng.random() < 0.25:
            tested = "%t"
            self.put(f"add.s32 %t, {counter}, {rng.choice([by, 1, -1, 2])};")
        op = rng.choice(["lt", "lt", "le", "ne"] if by > 0 else ["gt", "gt", "ge", "ne"])
        if rng.random() < 0.05:
            op = rng.choice(["lt", "eq", "gt", "ne"])
        kind = rng.choice(["s32", "s32", "u32"]) if op not in ("eq", "ne") else rng.choice(["s32", "u32", "b32"])
        a, b = tested, bound
        if rng.random() < 0.2 and bound.startswith("%"):
            a, b, op = b, a, {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(op, op)
        not_taken = leaves
        if rng.random() < 0.4:
            op = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}[op]
            not_taken = not not_taken
        p = rng.choice(["%p0", "%p0", "%p1"])
        both = rng.random() < 0.05
        self.put(f"setp.{op}.{kind} {p}{'|%p2' if both else ''}, {a}, {b};")
        if both and rng.random() < 0.5:
            p, not_taken = "%p2", not not_taken
        if rng.random() < 0.2:
            self.events([counter])
        self.put(f"@{'!' * not_taken}{p} bra {to};")

    def loop(self, depth: int) -> None:
        rng = self.rng
        counter = f"%c{depth}" if rng.random() < 0.6 else f"%c{rng.randrange(4)}"
        by = rng.choice([1, 1, 1, 2, -1, -1, -2, 3])
        stride = rng.choice(["%n", "%m", "%d"]) if rng.random() < 0.12 and by > 0 else ""
        bound = self.bound()
        if rng.random() < 0.9:
            start = rng.choice(["0", "0", "1", "3", "5", "7", "%n", "%m", "%a0"])
            if by < 0 and rng.random() < 0.6:
                start, bound = bound, rng.choice(["0", "0", "1", start])
            self.put(f"mov.{rng.choice('bus')}32 {counter}, {start};")
        head, end = self.label(), self.label()
        form = rng.randrange(4)
        if rng.random() < 0.06:  # another way into the loop
            self.put("setp.eq.s32 %p3, %n, 3;", f"@%p3 bra {head};", f"add.s32 {counter}, {counter}, 1;")
        if form == 0:  # tested at the head
            self.put(f"{head}:")
            if rng.random() < 0.3:
                self.sums(counter)
            self.test(counter, bound, by, True, end)
            self.body(depth, counter)
            self.step(counter, by, stride)
            self.put(f"bra {head};")
        elif form == 1:  # guarded, then tested at the end
            self.test(counter, bound, by, True, end)
            self.put(f"{head}:")
            self.body(depth, counter)
            self.step(counter, by, stride)
            self.test(counter, bound, by, False, head)
        elif form == 2:  # at least once; the step anywhere
            self.put(f"{head}:")
            places = [lambda: self.body(depth, counter), lambda: self.step(counter, by, stride)]
            if rng.random() < 0.4:
                places.reverse()
            for each in places:
                each()
            self.test(counter, bound, by, False, head)
        else:  # left in the middle
            self.put(f"{head}:")
            self.body(depth, counter)
            self.step(counter, by, stride)
            self.test(counter, bound, by, True, end)
            self.events([counter])
            self.put(f"bra {head};")
        self.put(f"{end}:")
        if rng.random() < 0.5:
            self.events([counter])

    def mutate(self) -> None:
        """A statement is lost, doubled, at another place, or about another register."""
        rng, lines = self.rng, self.lines
        places = [n for n, each in enumerate(lines) if not each.endswith(":")]
        if not places:
            return
        n, how = rng.choice(places), rng.random()
        each = lines[n]
        if how < 0.15:
            del lines[n]
        elif how < 0.4:
            lines.insert(rng.randrange(len(lines) + 1), lines.pop(n))
        elif how < 0.55:
            lines.insert(rng.randrange(len(lines) + 1), each)
        elif how < 0.75 and (names := re.findall(r"%[abc]\d", each)):
            lines[n] = each.replace(rng.choice(names), f"%{rng.choice('abcc')}{rng.randrange(3)}", 1)
        elif how < 0.85 and each.startswith("@"):
            lines[n] = "@" + each[2:] if each[1] == "!" else "@!" + each[1:]
        elif how < 0.88 and not each.startswith("@"):
            lines.insert(n, f"@{rng.choice(['', '!'])}%p{rng.randrange(3)} ret;")
        elif how < 0.95 and "bra" in each and self.labels:
            lines[n] = re.sub(r"\$L\d+", f"$L{rng.randrange(1, self.labels + 1)}", each)
        elif not each.startswith("@"):
            lines[n] = f"@{rng.choice(['', '!'])}%p{rng.randrange(2)} {each}"


def text_of(seed: int) -> list[str]:
    """Lines of a body."""
    rng = random.Random(seed)
    writer = Writer(rng)
    for _ in range(rng.choice([1, 1, 2, 2, 3])):
        writer.loop(0)
        writer.events(["%c0"])
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        writer.mutate()
    return [*writer.lines, "st.shared.u32 [%s], %a0;", "st.shared.u32 [%s], %c0;", "st.shared.u32 [%s], %q2;", "ret;"]


def is_rewritten(lines: list[str]) -> bool:
    found, last = statements(list(enumerate(lines, 1)))
    return canonical(found, last, _writes, ARITHMETIC)[0] != found


def _writes(each: Statement) -> tuple[str, ...]:
    return _instruction(0, each).writes


def differs(lines: list[str], sizes: tuple[tuple[int, int], ...] = SIZES) -> str | None:
    """How the rewritten statements do something else, for which sizes; "" if they do the same; None: not looked at."""
    found, last = statements(list(enumerate(lines, 1)))
    again, behind = canonical(found, last, _writes, ARITHMETIC)
    for n, m in sizes:
        given = {"%n": n, "%m": m, "%d": 2, "%s": 4096, "%e": 40}
        how, before = run(found, last, given)
        if how == "wrapped":
            continue
        now, after = run(again, behind, given, 4 * MOST_STEPS)
        if now in ("beyond", "wrapped"):
            continue
        if how == now == "end" and before.done == after.done:
            continue
        if (how, now) == ("long", "end"):
            how, before = run(found, last, given, 40 * MOST_STEPS)
        if how == now and before.done == after.done:
            continue
        shorter = min(len(before.done), len(after.done))
        if how == now == "long" and before.done[:shorter] == after.done[:shorter]:
            continue
        return f"n = {n}, m = {m}: {how}, {now}: {before.done} | {after.done}"
    return ""


def main() -> None:
    total: Counter[str] = Counter()
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            why = differs(text_of(seed))
        except Refused as refused:
            why = None
            total[f"refused: {refused.reason[:40]}"] += 1
        total["differs" if why else "same" if why == "" else "refused"] += 1
        if why:
            print(seed, len(text_of(seed)), why[:300], flush=True)
    print(dict(total))


if __name__ == "__main__":
    main()
