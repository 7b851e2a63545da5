"""Statements, labels and loops of a text that is rewritten, and what the rewrites ask of statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from minitile.proof.reading import Statement

INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
ALIASES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne", "eq": "eq"}
NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq", "eq": "ne"}
_BRANCHES = ("bra", "bra.uni")


class Flow:
    """Statements and labels, edited in place. `writes`: registers that a statement writes; `plain`: operations that
    only compute."""

    def __init__(
        self,
        found: Sequence[Statement],
        last: frozenset[str],
        writes: Callable[[Statement], tuple[str, ...]],
        plain: frozenset[str],
    ) -> None:
        self.items, self.last, self.plain = list(found), last, plain
        self.writes = cache(writes)
        self._count = 0
        self._places: dict[str, int] = {}  # where labels have been
        words = {word for each in found for arg in each.args for word in re.findall(r"%\w+", arg)}
        prefixes = (f"%_{n}c" for n in range(10**6))
        self._prefix = next(p for p in prefixes if not any(word.startswith(p) for word in words))

    # -- names and places

    def register(self) -> str:
        """A register that no statement has."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def label(self) -> str:
        """A label that no text can have."""
        self._count += 1
        return f"~{self._count}"

    def at(self, label: str) -> int:
        """The index of the statement behind a label; -1: no such label."""
        if label in self.last:
            return len(self.items)
        n = self._places.get(label, -1)
        if not 0 <= n < len(self.items) or label not in self.items[n].labels:
            self._places = {name: n for n, each in enumerate(self.items) for name in each.labels}
            n = self._places.get(label, -1)
        return n

    def target(self, each: Statement) -> int:
        """Where a statement branches to; -1: it is no branch."""
        return self.at(each.args[0]) if each.op in _BRANCHES and len(each.args) == 1 else -1

    def defined(self, name: str, head: int, back: int) -> list[int]:
        """The statements head … back that write a register."""
        return [n for n in range(head, back + 1) if name in self.writes(self.items[n])]

    def only_computes(self, each: Statement) -> bool:
        op = each.op
        return op.partition(".")[0] in self.plain and not op.startswith(("ld.shared", "mma", "shfl", "elect"))

    # -- loops

    def loops(self) -> list[tuple[int, int]]:
        """(head, back) of guarded backward branches, entered at their heads only; innermost first."""
        branches = [(n, self.target(each)) for n, each in enumerate(self.items) if each.op in _BRANCHES]
        found = [
            (head, back)
            for back, head in branches
            if self.items[back].guard
            and 0 <= head <= back
            and not any(head < target <= back and not head <= n <= back for n, target in branches)
        ]
        return sorted(found, key=lambda loop: loop[1] - loop[0])

    def loop_of(self, branch: Statement) -> tuple[int, int] | None:
        """Where the loop of a backward branch is by now."""
        return next((loop for loop in self.loops() if self.items[loop[1]] is branch), None)

    def is_always(self, at: int, head: int, back: int) -> bool:
        """Whether each round of a loop comes past a statement, once."""
        for n in range(head, back):
            if self.items[n].op.startswith("bra"):
                target = self.target(self.items[n])
                if n < at < target or (target <= at < n):
                    return False
        return not any(self.items[n].op in ("ret", "exit", "trap") and n < at for n in range(head, back))

    def is_live(self, name: str, head: int, back: int) -> bool:
        """Whether a register may be read behind a loop, before it is written again. The loop begins again with it."""
        inside = (self.target(each) for each in self.items[head : back + 1] if each.op.startswith("bra"))
        return self.is_read_from(name, [back + 1, *(n for n in inside if not head <= n <= back)], (head, back))

    def is_read_from(self, name: str, places: Iterable[int], loop: tuple[int, int] = (-1, -1)) -> bool:
        """Whether a register may be read on some way from these statements, before it is written again. To come to the
        head of `loop` counts as a read; what else is in it is left out."""
        head, back = loop
        todo, seen = list(places), set[int]()
        while todo:
            n = todo.pop()
            if n == head >= 0:
                return True
            if n in seen or head < n <= back or not 0 <= n < len(self.items):
                continue
            seen.add(n)
            each = self.items[n]
            written = name in self.writes(each)
            if name in _read(each, written):
                return True
            if written and not each.guard:
                continue
            if each.op.startswith("bra"):
                if each.op not in _BRANCHES or len(each.args) != 1:
                    return True
                todo.append(self.target(each))
            if each.guard or each.op not in (*_BRANCHES, "ret", "exit", "trap"):
                todo.append(n + 1)
        return False

    def readers(self, name: str, places: Iterable[int]) -> set[int]:
        """The statements that may read a register on some way from these, before it is written again."""
        todo, seen, found = list(places), set[int](), set[int]()
        while todo:
            n = todo.pop()
            if n in seen or not 0 <= n < len(self.items):
                continue
            seen.add(n)
            each = self.items[n]
            written = name in self.writes(each)
            if name in _read(each, written) or (written and each.guard):
                found.add(n)
            if written and not each.guard:
                continue
            if each.op in _BRANCHES:
                todo.append(self.target(each))
            if each.guard or each.op not in (*_BRANCHES, "ret", "exit", "trap"):
                todo.append(n + 1)
        return found

    def is_reached(self, place: int, without: int, start: int = 0) -> bool:
        """Whether some way from the start, or from another statement, leads to a statement and not past a third."""
        todo, seen = [start], {without}
        while todo:
            n = todo.pop()
            if n == place:
                return True
            if n in seen or not 0 <= n < len(self.items):
                continue
            seen.add(n)
            each = self.items[n]
            if each.op in _BRANCHES:
                todo.append(self.target(each))
            if each.guard or each.op not in (*_BRANCHES, "ret", "exit", "trap"):
                todo.append(n + 1)
        return False

    def of_numbers(self, name: str) -> bool:
        """Whether what a register holds is computed of the text's numbers alone, so that it may be known."""
        todo, seen = [name], {name}
        while todo:
            name = todo.pop()
            written = [each for each in self.items if name in self.writes(each)]
            if not written or any(each.op.partition(".")[0] not in self.plain for each in written):
                return False
            new = {arg for each in written for arg in each.args[1:] if not INTEGER.fullmatch(arg)} - seen
            todo += new
            seen |= new
        return True

    # -- edits

    def insert(self, place: int, new: Iterable[Statement]) -> None:
        """In front of a statement, behind its labels."""
        new = list(new)
        if new and place < len(self.items):
            old = self.items[place]
            new[0], self.items[place] = replace(new[0], labels=old.labels + new[0].labels), replace(old, labels=())
        self.items[place:place] = new

    def exchange(self, place: int, new: Sequence[Statement]) -> None:
        """Others instead of a statement, with its labels."""
        self.items[place : place + 1] = [replace(new[0], labels=self.items[place].labels), *new[1:]]

    def before_loop(self, head: int, back: int, new: list[Statement]) -> None:
        """Puts statements where they are executed once before a loop, whatever leads into it."""
        name, entered = self.label(), False
        names = self.items[head].labels
        for n, each in enumerate(self.items):
            if not head <= n <= back and each.args[:1] and each.args[0] in names and each.op.startswith("bra"):
                self.items[n], entered = replace(each, args=(name,)), True
        self.items[head:head] = [replace(new[0], labels=(name,)) if entered else new[0], *new[1:]]


def _read(each: Statement, written: bool) -> set[str]:
    args = each.args[1:] if written and each.args else each.args
    return {word for arg in args for word in re.findall(r"%\w+", arg)} | {each.guard}


def made(line: int, op: str, *args: str) -> Statement:
    return Statement(line, (), "", False, op, args)


_NEAR = 1 << 29


def near(flow: Flow, line: int, *args: str) -> list[Statement]:
    """What no run may come to where numbers of the text are so large that differences and sums of three wrap around."""
    out, moved, found = list[Statement](), flow.register(), flow.register()
    for arg in dict.fromkeys(arg for arg in args if arg.startswith("%") and flow.of_numbers(arg)):
        out += [made(line, "add.s32", moved, arg, str(_NEAR)), made(line, "setp.gt.u32", found, moved, str(2 * _NEAR))]
        out.append(Statement(line, (), found, False, "~beyond", ()))
    return out


_QUIET = ("bra", "st.global", "red.global", "prefetch", "nanosleep")


_MEETINGS = (
    "bar.",
    "barrier.",
    "mbarrier.",
    "cp.",
    "wgmma.",
    "mma.",
    "ldmatrix.",
    "stmatrix.",
    "shfl.",
    "vote.",
    "redux.",
)


def synchronises(flow: Flow, head: int, back: int) -> bool:
    """Whether a loop does what lanes, warps or copies meet in; any number of rounds of others may be passed at once."""
    return any(each.op.startswith(_MEETINGS) for each in flow.items[head:back])


def only_quiet(flow: Flow, head: int, back: int) -> bool:
    """Whether a loop does no more than to compute, and to access global memory."""
    return all(each.op.startswith(_QUIET) or flow.only_computes(each) for each in flow.items[head:back])


def number(arg: str) -> int | None:
    """What a literal of 32 bits is as a number with a sign; None: it is none."""
    if not INTEGER.fullmatch(arg):
        return None
    value = int(arg, 0)
    return value - (1 << 32) if value >= 1 << 31 else value


def added(each: Statement) -> tuple[str, int] | None:
    """(x, k) of a statement that gives x + k, without a guard."""
    if each.guard or len(each.args) != 3:
        return None
    if re.fullmatch(r"add\.[su]32", each.op):
        for a, b in ((each.args[1], each.args[2]), (each.args[2], each.args[1])):
            if a.startswith("%") and (k := number(b)) is not None:
                return a, k
    if re.fullmatch(r"sub\.[su]32", each.op) and each.args[1].startswith("%"):
        k = number(each.args[2])
        return None if k is None else (each.args[1], -k)
    return None


__all__ = [
    "ALIASES",
    "INTEGER",
    "NEGATED",
    "SWAPPED",
    "Flow",
    "added",
    "made",
    "near",
    "number",
    "only_quiet",
    "synchronises",
]
