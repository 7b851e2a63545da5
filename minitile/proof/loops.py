"""Control flow in the forms that the prover reads: each step here rewrites statements into others that do the same.

before                                      after
`x·M >> s`, where that is x / d              `div x, d`
`@p bra X; bra Y; X:`                       `@!p bra Y; X:`
a wait whose predicate goes through         the wait tried again at once, then that arithmetic
arithmetic before it is tried again
`H: head; @p bra X; body; bra H`            `H: head; @p bra X; B: body; head; @!p bra B; bra X`
a counter that goes down, or to `!=`,       a counter of its own from 0 (or the same start) that grows while it is less
or that another loop counts with            than a bound, from which the old register is computed
`r = r + k` once a round of a counted loop     r computed from the counter
`t = X; while (t < n) { …; t += S; }`       the same by a counter v: t = X + v·S, bound (n - X + S - 1) / S

Counters and bounds do not wrap around (docs/proof.md): a loop that ends at `!=` ends where `<` would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from minitile.proof.reading import Statement

LONGEST_HEAD = 64  # statements that are copied to the end of a loop, at most
FAR = 1 << 30  # a test against a constant beyond this may never fail
INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne", "eq": "eq"}
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq", "eq": "ne"}
_ALIASES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_QUIET = ("bra", "st.global", "red.global", "prefetch", "nanosleep")
_OF_WAITS = ("selp", "setp", "mov", "not", "and", "or", "xor", "nanosleep")


class Flow:
    """Statements and labels, edited in place. `writes`: registers that a statement writes."""

    def __init__(
        self,
        found: Sequence[Statement],
        last: frozenset[str],
        writes: Callable[[Statement], tuple[str, ...]],
        plain: frozenset[str],
    ) -> None:
        self.items, self.last, self._writes, self.plain = list(found), last, writes, plain
        self._count = 0
        words = {word for each in found for arg in each.args for word in re.findall(r"%\w+", arg)}
        self._prefix = next(p for n in range(10**6) if not any(w.startswith(p := f"%_{n}c") for w in words))

    # -- names and places

    def register(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def label(self) -> str:
        self._count += 1
        return f"~{self._count}"

    def at(self, label: str) -> int:
        """The index of the statement behind a label; -1: no such label."""
        if label in self.last:
            return len(self.items)
        return next((n for n, each in enumerate(self.items) if label in each.labels), -1)

    def writes(self, each: Statement) -> tuple[str, ...]:
        return self._writes(each)

    def target(self, each: Statement) -> int:
        return self.at(each.args[0]) if each.op in ("bra", "bra.uni") and len(each.args) == 1 else -1

    def insert(self, place: int, new: Iterable[Statement]) -> None:
        """In front of a statement, behind its labels."""
        new = list(new)
        if new and place < len(self.items):
            old = self.items[place]
            new[0], self.items[place] = replace(new[0], labels=old.labels + new[0].labels), replace(old, labels=())
        self.items[place:place] = new

    def before_loop(self, head: int, back: int, new: list[Statement]) -> int:
        """Puts statements where they are executed once before a loop; gives how far the loop moves."""
        name = self.label()
        names = self.items[head].labels
        for n, each in enumerate(self.items):
            if not head <= n <= back and each.args[:1] and each.args[0] in names and each.op.startswith("bra"):
                self.items[n] = replace(each, args=(name,))
        self.items[head:head] = [replace(new[0], labels=(name,)), *new[1:]]
        return len(new)

    def is_always(self, at: int, head: int, back: int) -> bool:
        """Whether each round of a loop comes past a statement."""
        for n in range(head, back):
            if self.items[n].op.startswith("bra"):
                target = self.target(self.items[n])
                if n < at < target or (target <= at < n):
                    return False
        return not any(self.items[n].op in ("ret", "exit", "trap") and n < at for n in range(head, back))

    def defined(self, name: str, head: int, back: int) -> list[int]:
        return [n for n in range(head, back + 1) if name in self.writes(self.items[n])]

    def loops(self) -> list[tuple[int, int]]:
        """(head, back) of guarded backward branches, entered at their heads only; innermost first."""
        found = []
        for back, each in enumerate(self.items):
            head = self.target(each)
            if each.guard and 0 <= head <= back:
                inner = (n for n in range(len(self.items)) if not head <= n <= back)
                if not any(head < self.target(self.items[n]) <= back for n in inner):
                    found.append((head, back))
        return sorted(found, key=lambda loop: loop[1] - loop[0])


def canonical(
    found: Sequence[Statement],
    last: frozenset[str],
    writes: Callable[[Statement], tuple[str, ...]],
    plain: frozenset[str],
) -> tuple[list[Statement], frozenset[str]]:
    """Statements that do the same, in the forms above. `plain`: operations that only compute."""
    flow = Flow(found, last, writes, plain)
    _quotients(flow)
    _straighten(flow)
    _waits(flow)
    _rotate(flow)
    _copies(flow)
    _strided(flow)
    _count(flow)
    _follow(flow)
    _starts(flow)
    return flow.items, flow.last


def _made(line: int, op: str, *args: str) -> Statement:
    return Statement(line, (), "", False, op, args)


def _straighten(flow: Flow) -> None:
    n = 0
    while n + 1 < len(flow.items):
        first, second = flow.items[n], flow.items[n + 1]
        jumps = flow.target(first) == n + 2 and first.guard and not second.guard and not second.labels
        if jumps and second.op in ("bra", "bra.uni") and first.op in ("bra", "bra.uni"):
            flow.items[n] = replace(first, negated=not first.negated, args=second.args)
            del flow.items[n + 1]
        else:
            n += 1


def _quotients(flow: Flow) -> None:
    """`x·M >> s` that is x divided by a constant, for every x of 32 bits, stands as the division that it is."""
    for n, each in enumerate(flow.items):
        if each.guard or each.op not in ("mul.wide.u32", "mul.hi.u32") or len(each.args) != 3:
            continue
        x, factor = each.args[1], _number(each.args[2])
        if not x.startswith("%") or factor is None or x in flow.writes(each):
            continue
        name, shift, ends = each.args[0], 0 if each.op == "mul.wide.u32" else 32, each.op == "mul.hi.u32"
        for place in range(n + 1, min(n + 16, len(flow.items))):
            now = flow.items[place]
            if now.labels or now.op.startswith(("bra", "ret")) or x in flow.writes(now):
                break
            if len(now.args) >= 2 and now.args[1] == name and not now.guard:
                if now.op in ("shr.u64", "shr.u32") and (by := _number(now.args[2])) is not None:
                    name, shift = now.args[0], shift + by
                    ends = now.op == "shr.u32"
                elif now.op == "cvt.u32.u64":
                    ends = True
                else:
                    break
                divisor = _divisor(factor % (1 << 32), shift)
                if ends and divisor:
                    flow.items[place] = replace(now, op="div.u32", args=(now.args[0], x, str(divisor)))
                    break
            elif name in flow.writes(now):
                break


def _divisor(factor: int, shift: int) -> int:
    """d, if x·factor >> shift is x / d for every x of 32 bits; else 0 (Granlund and Montgomery, PLDI 1994)."""
    if not factor or shift < 32:
        return 0
    d = -(-(1 << shift) // factor)
    return d if d > 1 and 0 <= d * factor - (1 << shift) <= 1 << (shift - 32) else 0


# -- waits


def _is_try(each: Statement) -> bool:
    return each.op.startswith(("mbarrier.try_wait", "mbarrier.test_wait")) and not each.guard and len(each.args) >= 3


def _waits(flow: Flow) -> None:
    """Waits that are tried again behind some arithmetic of their predicate."""
    n = 0
    while n < len(flow.items):
        if _is_try(flow.items[n]):
            _wait(flow, n)
        n += 1


def _wait(flow: Flow, at: int) -> None:
    each = flow.items[at]
    back = next((n for n in range(at + 1, len(flow.items)) if flow.items[n].op.startswith("bra")), -1)
    if back < 0:
        return
    branch = flow.items[back]
    head = flow.target(branch)
    inside, ahead = flow.items[at + 1 : back], flow.items[max(head, 0) : at]
    if not (0 <= head <= at) or not branch.guard or any(i.labels for i in (*inside, branch)):
        return
    if back == at + 1 and head == at and branch.guard == each.args[0] and branch.negated:
        return
    if any(i.op.partition(".")[0] not in _OF_WAITS or i.guard for i in inside):
        return
    if any(i.labels for i in (*ahead[1:], *((each,) if ahead else ()))):
        return
    if not _is_repeatable(flow, [*ahead, each, *inside]):
        return
    if _truth(flow, each, inside, branch, 0) is True and _truth(flow, each, inside, branch, 1) is False:
        name = flow.label()
        again = Statement(branch.line, (), each.args[0], True, "bra", (name,))
        flow.items[at : back + 1] = [replace(each, labels=(*each.labels, name)), again, *inside]


def _is_repeatable(flow: Flow, each_try: list[Statement]) -> bool:
    """Whether statements around a try compute the same each time, from what the try has found and registers that none
    of them writes."""
    written = {name for i in each_try for name in flow.writes(i)}
    before: set[str] = set()
    for each in each_try:
        op = each.op.partition(".")[0]
        if not (_is_try(each) or op == "nanosleep"):
            if op not in flow.plain or op == "ld" or each.guard or op in ("shfl", "elect", "vote"):
                return False
        read = {word for arg in each.args[1:] for word in re.findall(r"%[\w.]+", arg)}
        if read & written - before:
            return False
        before |= set(flow.writes(each))
    return True


def _truth(flow: Flow, each: Statement, inside: list[Statement], branch: Statement, done: int) -> bool | None:
    """Whether the branch is taken, where the wait has found `done`; None: not known."""
    known: dict[str, int] = {each.args[0]: done}

    def value(arg: str) -> int | None:
        return int(arg, 0) if INTEGER.fullmatch(arg) else known.get(arg)

    for i in inside:
        if i.op.startswith("nanosleep"):
            continue
        a = [value(arg) for arg in i.args[1:]]
        out: int | None = None
        if i.op.startswith("selp.") and len(a) == 3 and a[2] is not None:
            out = a[0] if a[2] else a[1]
        elif i.op.startswith("mov.") and len(a) == 1:
            out = a[0]
        elif i.op == "not.pred" and a[0] is not None:
            out = 1 - a[0]
        elif (match := re.fullmatch(r"setp\.(eq|ne)\.[bsu](?:16|32)", i.op)) and None not in a and len(a) == 2:
            out = int((a[0] == a[1]) == (match[1] == "eq"))
        elif (match := re.fullmatch(r"(and|or|xor)\.(?:pred|b32)", i.op)) and a[0] is not None and a[1] is not None:
            out = {"and": a[0] & a[1], "or": a[0] | a[1], "xor": a[0] ^ a[1]}[match[1]]
        for name in flow.writes(i):
            known.pop(name, None)
        if out is not None and len(flow.writes(i)) == 1:
            known[i.args[0]] = out
    found = known.get(branch.guard)
    return None if found is None else bool(found) != branch.negated


# -- loops with their test at the head


def _rotate(flow: Flow) -> None:
    back = 0
    while back < len(flow.items):
        each = flow.items[back]
        head = flow.target(each)
        if each.guard or not 0 <= head <= back:
            back += 1
            continue
        test = _leaving(flow, head, back)
        if test < 0:
            back += 1
            continue
        leaves, name = flow.items[test], flow.label()
        new_names = {old: flow.label() for i in flow.items[head + 1 : test + 1] for old in i.labels}
        copied = []
        for i in flow.items[head:test]:
            args = tuple(new_names.get(arg, arg) for arg in i.args) if i.op.startswith("bra") else i.args
            copied.append(replace(i, labels=tuple(new_names[old] for old in i.labels if old in new_names), args=args))
        again = replace(leaves, labels=tuple(new_names.get(old, old) for old in leaves.labels), args=(name,))
        again = replace(again, negated=not leaves.negated)
        out = [] if flow.target(leaves) == back + 1 else [replace(leaves, labels=(), guard="", negated=False)]
        new = [*copied, again, *out]
        if test == head:
            new[0] = replace(new[0], labels=())
        new[0] = replace(new[0], labels=(*each.labels, *new[0].labels))
        flow.items[back : back + 1] = new
        body = flow.items[test + 1]
        flow.items[test + 1] = replace(body, labels=(*body.labels, name))
        back += len(new)


def _leaving(flow: Flow, head: int, back: int) -> int:
    """The first branch out of a loop, if what lies before it may be executed at the loop's end instead; else -1."""
    for n in range(head, min(back, head + LONGEST_HEAD)):
        each = flow.items[n]
        if each.op in ("ret", "trap"):
            return -1
        if each.op.startswith("bra"):
            if each.guard and flow.target(each) > back:
                inner = [i for i in range(head, n) if flow.items[i].op.startswith("bra")]
                closed = all(head < flow.target(flow.items[i]) <= n for i in inner)
                others = (i for i in range(len(flow.items)) if not head <= i <= n)
                entered = any(head < flow.target(flow.items[i]) <= n for i in others)
                return n if closed and not entered else -1
            if not each.guard and flow.target(each) <= n:
                return -1
    return -1


# -- counters


def _number(arg: str) -> int | None:
    if not INTEGER.fullmatch(arg):
        return None
    value = int(arg, 0)
    return value - (1 << 32) if value >= 1 << 31 else value


def _added(each: Statement) -> tuple[str, int] | None:
    """(x, k) of a statement that gives x + k."""
    if each.guard or len(each.args) != 3:
        return None
    if re.fullmatch(r"add\.[su]32", each.op):
        for a, b in ((each.args[1], each.args[2]), (each.args[2], each.args[1])):
            if a.startswith("%") and (k := _number(b)) is not None:
                return a, k
    if re.fullmatch(r"sub\.[su]32", each.op) and each.args[1].startswith("%"):
        k = _number(each.args[2])
        return None if k is None else (each.args[1], -k)
    return None


def _copies(flow: Flow) -> None:
    """`y = c + k; …; c = y` becomes `y = c + k; …; c = c + k`."""
    for head, back in flow.loops():
        for n in range(head, back):
            each = flow.items[n]
            if each.guard or not re.fullmatch(r"mov\.[bsu]32", each.op) or not each.args[1].startswith("%"):
                continue
            name, source = each.args
            made = flow.defined(source, head, back)
            if flow.defined(name, head, back) != [n] or len(made) != 1 or made[0] >= n:
                continue
            found = _added(flow.items[made[0]])
            if found and found[0] == name and flow.is_always(made[0], head, back) and flow.is_always(n, head, back):
                flow.items[n] = replace(each, op="add.s32", args=(name, name, str(found[1])))


def _tested(flow: Flow, head: int, back: int) -> tuple[int, str, str, str] | None:
    """(where, comparison that goes on, its type, its operands as one text) of the test of a loop; None: no such."""
    branch = flow.items[back]
    made = flow.defined(branch.guard, head, back - 1)
    if not made or flow.items[made[-1]].guard or not flow.is_always(made[-1], head, back):
        return None
    match = re.fullmatch(r"setp\.(\w\w)\.([sub]32)", flow.items[made[-1]].op)
    if not match or len(flow.items[made[-1]].args) != 3 or flow.items[made[-1]].args[0] != branch.guard:
        return None
    name = _ALIASES.get(match[1], match[1])
    return made[-1], _NEGATED.get(name, "") if branch.negated else name, match[2], branch.guard


def _steps(flow: Flow, name: str, head: int, back: int) -> tuple[int, int] | None:
    """(where, by how much) the only statement of a loop that writes a register adds a constant."""
    made = flow.defined(name, head, back)
    if len(made) != 1 or not (found := _added(flow.items[made[0]])) or found[0] != name or not found[1]:
        return None
    return (made[0], found[1]) if flow.is_always(made[0], head, back) else None


@dataclass(frozen=True)
class _Test:
    """The test of a loop, at `place`: it goes on while counter + more `how` bound; the counter grows by `by` at `at`.
    `direct`: it is of the form that the prover reads."""

    place: int
    counter: str
    at: int
    by: int
    bound: str
    how: str
    more: int
    kind: str
    direct: bool


def _count(flow: Flow) -> None:
    """Brings the tests of loops to `counter < bound`, each with a counter that no other loop has."""
    backs = [flow.items[back] for _, back in flow.loops()]
    forms = [_form(flow, head, back) for head, back in flow.loops()]
    names = [each.counter for each in forms if each]
    for each in backs:
        for head, back in flow.loops():
            form = _form(flow, head, back) if flow.items[back] is each else None
            if form and not (form.direct and names.count(form.counter) == 1):
                _recount(flow, head, back, form)
                break


def _form(flow: Flow, head: int, back: int) -> _Test | None:
    if (test := _tested(flow, head, back)) is None:
        return None
    place, goes_on, kind, _ = test
    _, a, b = flow.items[place].args
    for name, bound, how in ((a, b, goes_on), (b, a, _SWAPPED.get(goes_on, ""))):
        counter, more, derived = name, 0, flow.defined(name, head, back)
        if len(derived) == 1 and (found := _added(flow.items[derived[0]])) and found[0] != name:
            counter, more = found
            if not flow.is_always(derived[0], head, back) or derived[0] > place:
                continue
        fixed = bound.startswith("%") or _number(bound) is not None
        step = _steps(flow, counter, head, back) if counter.startswith("%") and fixed else None
        if step is None or flow.defined(bound, head, back) or not -FAR < (_number(bound) or 0) < FAR:
            continue
        if kind == "u32" and (_number(bound) or 0) < 0:
            continue
        at, by = step
        if counter != name and derived[0] < at < place:
            more -= by  # the test is of a value from before the step
        if how in (("lt", "le", "ne") if by > 0 else ("gt", "ge", "ne")):
            direct = by > 0 and how == "lt" and not flow.items[back].negated and name == a
            return _Test(place, counter, at, by, bound, how, more, kind, direct)
    return None


def _recount(flow: Flow, head: int, back: int, form: _Test) -> None:
    """A loop with a new counter j: up, from the same start; down, from 0."""
    doubtful = form.how == "ne" or form.kind == "u32"  # it goes on as one by `<` would, but does it?
    if doubtful and all(each.op.startswith(_QUIET) or _only_computes(flow, each) for each in flow.items[head:back]):
        return  # such a loop is passed without being counted: what it leaves is not known
    place, counter, at, by, bound, how = form.place, form.counter, form.at, form.by, form.bound, form.how
    line = flow.items[back].line
    j, limit, truth = flow.register(), flow.register(), flow.register()
    step, test = flow.items[at], flow.items[place]
    kind = "s32" if form.kind == "b32" or by < 0 else form.kind
    new: list[Statement] = []
    checks: list[Statement] = []
    beyond = int(how in ("le", "ge"))
    if by > 0:
        begin = _start(flow, counter, head, back)
        offset = beyond - form.more
        stepped = [replace(step, op="add.s32", args=(j, j, str(by)))]
        if _is_live(flow, counter, head, back):
            stepped.append(_made(step.line, "mov.b32", counter, j))
        else:
            for n in range(head, back + 1):
                if n != at:
                    flow.items[n] = _with(flow.items[n], counter, j)
            test = flow.items[place]
        if offset or not bound.startswith("%"):
            constant = _number(bound)
            if constant is not None:
                limit = str(constant + offset)
            else:
                new.append(_made(line, "add.s32", limit, bound, str(offset)))
        else:
            limit = bound
    else:
        start, begin = flow.register(), "0"
        new.append(_made(line, "mov.b32", start, counter))
        stepped = [
            replace(step, op="add.s32", args=(j, j, str(-by))),
            _made(step.line, "sub.s32", counter, start, j),
        ]
        constant = _number(bound)
        offset = form.more + beyond - (constant or 0)
        if constant is None:
            new.append(_made(line, "sub.s32", limit, start, bound))
            if offset:
                new.append(_made(line, "add.s32", limit, limit, str(offset)))
        elif offset:
            new.append(_made(line, "add.s32", limit, start, str(offset)))
        else:
            limit = start
    old = flow.items[back]
    if doubtful:
        differs = flow.register()
        checks = [
            _made(line, "xor.pred", differs, old.guard, truth),
            Statement(line, (), differs, old.negated, "~beyond", ()),
        ]
        new += _beyond(flow, form, counter, line)
    new.append(_made(line, "mov.b32", j, begin))  # once its bound is known
    flow.items[back] = replace(flow.items[back], guard=truth, negated=False)
    # Statements behind move: the later place is changed first.
    added = [_made(test.line, f"setp.lt.{kind}", truth, j, limit), *checks]
    for where, old, extra in sorted(((place, test, added), (at, step, stepped)), key=lambda e: -e[0]):
        if extra is added:
            flow.items[where : where + 1] = [old, *extra]
        else:
            flow.items[where : where + 1] = extra
    flow.before_loop(head, back + len(added) + len(stepped) - 1, new)


def _beyond(flow: Flow, form: _Test, counter: str, line: int) -> list[Statement]:
    """What no run may come to: a loop to `!=` that is first tested beyond its bound; one that goes down to what an
    unsigned number is never below."""
    first, found = flow.register(), flow.register()
    offset = form.more + (form.by if form.at < form.place else 0)
    made = [_made(line, "add.s32", first, counter, str(offset))]

    def never(how: str, a: str, b: str) -> list[Statement]:
        return [_made(line, f"setp.{how}.s32", found, a, b), Statement(line, (), found, False, "~beyond.asked", ())]

    if form.how == "ne":
        made += never("gt" if form.by > 0 else "lt", first, form.bound)
    elif form.by < 0:
        made += never("lt", first, "0")
        least = -form.by - (form.how == "gt")
        made += [_made(line, "mov.b32", first, form.bound), *never("lt", first, str(least))]
    return made


def _with(each: Statement, old: str, new: str) -> Statement:
    form = re.compile(rf"{re.escape(old)}(?![\w.])")
    guard = new if each.guard == old else each.guard
    return replace(each, args=tuple(form.sub(new, arg) for arg in each.args), guard=guard)


def _is_live(flow: Flow, name: str, head: int, back: int) -> bool:
    """Whether a register may be read behind a loop, before it is written again."""
    inside = (flow.target(each) for each in flow.items[head : back + 1] if each.op.startswith("bra"))
    todo = [back + 1, *(n for n in inside if not head <= n <= back)]
    seen: set[int] = set()
    while todo:
        n = todo.pop()
        if n == head:
            return True  # the loop begins again with it
        if n in seen or head < n <= back or not 0 <= n < len(flow.items):
            continue
        seen.add(n)
        each = flow.items[n]
        written = name in flow.writes(each)
        if name in _words(each, written):
            return True
        if written and not each.guard:
            continue
        if each.op.startswith("bra"):
            todo.append(flow.target(each))
        if not (each.op in ("bra", "bra.uni", "ret", "trap") and not each.guard):
            todo.append(n + 1)
    return False


def _words(each: Statement, written: bool) -> set[str]:
    args = each.args[1:] if written and each.args else each.args
    return {word for arg in args for word in re.findall(r"%\w+", arg)} | {each.guard}


def _follow(flow: Flow) -> None:
    """In counted loops that do more than to compute: registers that grow by the same in each round are computed from
    the counter, so that what they hold repeats when the counter's value does not matter."""
    for each in [flow.items[back] for _, back in flow.loops()]:
        for head, back in flow.loops():
            form = _form(flow, head, back) if flow.items[back] is each else None
            if form is None or not form.direct:
                continue
            inside = flow.items[head:back]
            if all(i.op.startswith("bra") or _only_computes(flow, i) for i in inside):
                continue
            grown = [(n, new) for n in range(head, back) if n != form.at and (new := _grown(flow, n, head, back, form))]
            before: list[Statement] = []
            for n, (ahead, within) in reversed(grown):
                before += ahead
                flow.items[n : n + 1] = [replace(within[0], labels=flow.items[n].labels), *within[1:]]
            if before:
                flow.before_loop(head, back + sum(len(within) - 1 for _, (_, within) in grown), before)
            break


def _only_computes(flow: Flow, each: Statement) -> bool:
    return each.op.partition(".")[0] in flow.plain and not each.op.startswith(("ld.shared", "mma", "shfl", "elect"))


def _grown(flow: Flow, n: int, head: int, back: int, form: _Test) -> tuple[list[Statement], list[Statement]] | None:
    """(what is done before the loop, what stands for the statement) for `r = r + k`; None: it is none."""
    each, j = flow.items[n], form.counter
    match = re.fullmatch(r"(add|sub)\.[su](32|64)", each.op)
    if not match or each.guard or len(each.args) != 3 or each.args[0] != each.args[1] or each.args[0] == j:
        return None
    r, step = each.args[1], _constant(each.args[2], int(match[2]))
    if step is None or step == 0 or flow.defined(r, head, back) != [n] or not flow.is_always(n, head, back):
        return None
    step = -step if match[1] == "sub" else step
    if step % form.by:
        return None
    times, first, moved = step // form.by, flow.register(), flow.register()
    line, start = each.line, _start(flow, j, head, back)
    moves = step if n < form.at else 0
    known = _number(start)
    ahead = -known * times if known is not None else 0
    bits, wide = ("s32", "mul.lo.s32") if match[2] == "32" else ("s64", "mul.wide.s32")
    base = flow.register()
    before = [_made(line, f"add.{bits}", base, r, str(ahead))]
    if known is None:
        before += [
            _made(line, wide, moved, start, str(times)),
            _made(line, f"sub.{bits}", base, base, moved),
        ]
    before.append(_made(line, f"add.{bits}", first, base, str(moves)))
    if bits == "s64":
        product = flow.register()
        within = [_made(line, wide, product, j, str(times)), _made(line, "add.s64", r, first, product)]
    elif times == 1:
        within = [_made(line, "add.s32", r, j, first)]
        before.append(_made(line, "add.s32", r, j, base))
    else:
        within = [_made(line, "mad.lo.s32", r, j, str(times), first)]
        before.append(_made(line, "mad.lo.s32", r, j, str(times), base))
    return before, within


def _constant(arg: str, width: int) -> int | None:
    value = int(arg, 0) if INTEGER.fullmatch(arg) else None
    if value is not None and width == 32 and 1 << 31 <= value < 1 << 32:
        value -= 1 << 32
    return value if value is not None and abs(value) < 1 << 31 else None


def _start(flow: Flow, counter: str, head: int, back: int) -> str:
    """What a counter is set to in front of a loop: a number, or the register that it is moved from, if that stands
    there and no other way leads into the loop; else the counter."""
    if any(flow.target(each) == head for n, each in enumerate(flow.items) if not head <= n <= back):
        return counter
    for n in range(head - 1, -1, -1):
        each = flow.items[n]
        if each.op.startswith("bra") and not each.guard:
            break
        if counter in flow.writes(each):
            if each.guard or not re.fullmatch(r"mov\.[bsu]32", each.op):
                break
            source = each.args[1]
            fixed = INTEGER.fullmatch(source) or not flow.defined(source, n, head - 1)
            return source if fixed else counter
        if each.labels:
            break
    return counter


def _starts(flow: Flow) -> None:
    """Counters are set by `mov` only, each time from a register of its own."""
    counters = set()
    for head, back in flow.loops():
        test = _tested(flow, head, back)
        name = flow.items[test[0]].args[1] if test else ""
        if name and _steps(flow, name, head, back):
            counters.add(name)
    n = 0
    while n < len(flow.items):
        each = flow.items[n]
        name = each.args[0] if each.args else ""
        alone = flow.writes(each) == (name,) and not each.guard and each.op.partition(".")[0] in flow.plain
        if name in counters and alone and not each.op.startswith(("mov.", "ld.global")):
            found = _added(each)
            if not (found and found[0] == name):
                made = flow.register()
                flow.items[n] = replace(each, args=(made, *each.args[1:]))
                flow.items[n + 1 : n + 1] = [_made(each.line, "mov.b32", name, made)]
                n += 1
        n += 1


# -- counters that grow by a register


def _strided(flow: Flow) -> None:
    """Registers t that are X, or grow by an S that does not change, and nothing else: t = X + v·S. What compares t with
    an n that is known before compares v with (n - X + S - 1) / S."""
    made: set[str] = set()
    for _, back in flow.loops():
        test = _tested(flow, *next(loop for loop in flow.loops() if loop[1] == back))
        if test is not None:
            made |= {arg for arg in flow.items[test[0]].args[1:] if arg.startswith("%")}
    for t in sorted(made):
        if (stride := _stride(flow, t)) is not None:
            _recount_stride(flow, t, *stride)


def _is_fixed(flow: Flow, name: str) -> bool:
    return bool(re.fullmatch(r"%n?ctaid\.[xyz]", name)) or len(flow.defined(name, 0, len(flow.items) - 1)) == 1


def _stride(flow: Flow, t: str) -> tuple[str, str] | None:
    """(X, S) of a register that is only set to X and grown by S."""
    start = step = ""
    for n in flow.defined(t, 0, len(flow.items) - 1):
        each = flow.items[n]
        if each.guard:
            return None
        if re.fullmatch(r"mov\.[bsu]32", each.op) and start in ("", each.args[1]):
            start = each.args[1]
        elif re.fullmatch(r"add\.[su]32", each.op) and each.args[1] == t and step in ("", each.args[2]):
            step = each.args[2]
        else:
            return None
    good = start and step.startswith("%") and step != t and start.startswith("%") and _is_fixed(flow, start)
    return (start, step) if good and _is_fixed(flow, step) else None


def _always_before(flow: Flow, names: list[str]) -> int:
    """Where all of these registers, written once each, are known to have been written; -1: nowhere for sure."""
    places = [n for name in names for n in flow.defined(name, 0, len(flow.items) - 1)]
    last = max(places, default=-1)
    branches = any(each.labels or each.op.startswith("bra") for each in flow.items[: last + 1])
    return -1 if branches or any(flow.items[n].guard for n in places) else last + 1


def _recount_stride(flow: Flow, t: str, start: str, step: str) -> None:
    bounds: dict[str, str] = {}
    unsigned = False
    for each in flow.items:
        match = re.fullmatch(r"setp\.(\w\w)\.([sub]32)", each.op)
        if not match or t not in each.args[1:3] or len(each.args) != 3:
            continue
        how, other = _ALIASES.get(match[1], match[1]), each.args[2] if each.args[1] == t else each.args[1]
        how = how if each.args[1] == t else _SWAPPED.get(how, "")
        if how in ("lt", "ge") and other.startswith("%") and _is_fixed(flow, other):
            bounds.setdefault(other, flow.register())
            unsigned |= match[2] == "u32"
    bounds = {other: limit for other, limit in bounds.items() if _always_before(flow, [other, start, step]) >= 0}
    if not bounds:
        return
    v = flow.register()
    out: list[Statement] = []
    for each in flow.items:
        match = re.fullmatch(r"setp\.(\w\w)\.[sub]32", each.op)
        if t in flow.writes(each):
            if each.op.startswith("mov"):
                out += [each, _made(each.line, "mov.b32", v, "0")]
            elif out and not each.labels and out[-1].op == "mad.lo.s32" and out[-1].args[:2] == (t, v):
                count = out[-2]  # two steps in a row are one
                out[-2] = replace(count, args=(v, v, str(int(count.args[2]) + 1)))
            else:
                out.append(replace(each, op="add.s32", args=(v, v, "1")))
                out.append(_made(each.line, "mad.lo.s32", t, v, step, start))
        elif match and len(each.args) == 3 and t in each.args[1:3]:
            how, swapped = _ALIASES.get(match[1], match[1]), each.args[1] != t
            limit = bounds.get(each.args[1] if swapped else each.args[2])
            how = _SWAPPED.get(how, "") if swapped else how
            known = limit is not None and how in ("lt", "ge")
            out.append(replace(each, op=f"setp.{how}.s32", args=(each.args[0], v, limit)) if known and limit else each)
        else:
            out.append(each)
    flow.items = out
    for other, limit in bounds.items():
        place = _always_before(flow, [name for name in (other, start, step) if not re.fullmatch(r"%n?ctaid\..", name)])
        line = flow.items[place - 1].line if place else 0
        # A stride below 1, or what is no number below 2^31 where it is compared as one without a sign.
        found = flow.register()
        few = [(step, "1", "~beyond.asked"), *((each, "0", "~beyond") for each in (start, other) if unsigned)]
        checks = [
            made
            for name, least, op in few
            for made in (_made(line, "setp.lt.s32", found, name, least), Statement(line, (), found, False, op, ()))
        ]
        flow.insert(
            max(place, 0),
            [
                *checks,
                _made(line, "sub.s32", limit, other, start),
                _made(line, "add.s32", limit, limit, step),
                _made(line, "sub.s32", limit, limit, "1"),
                _made(line, "div.s32", limit, limit, step),
            ],
        )


__all__ = ["canonical"]
