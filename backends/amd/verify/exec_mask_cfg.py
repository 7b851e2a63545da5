"""The paths of an assembly text that a wave can take: branches on masks go one way where the mask is known.

LLVM makes one branch of the structured `if … else …` into two, of which the second asks again what the first one knew:
for a constant that each way has put in a register, or, after SIPreEmitPeephole, for whether the wave has any lane.
A walk that follows each branch both ways sees an if of which neither side runs.

    s_cbranch_vccz .M                             s_mov_b64 s[0:1], -1
    …                                             s_branch .M
    .M:                                           …
    s_cbranch_execz .N     never: exec has a      s_mov_b64 s[0:1], 0
    …                      lane since the start   .M:
                                                  s_and_b64 vcc, exec, s[0:1]
                                                  s_cbranch_vccz .N           taken from one of the two ways only

A path is a block of instructions with what is known of the masks (lanes.py) at its start; the same block stands in as
many paths as there are ways to it that are told apart, and what holds on all ways of a path is known there. Only what a
branch further on asks for is kept: other masks would tell ways apart that go on alike. A mask that is all lanes or none
by a condition of the whole wave (s_cselect_b64) is both, one by one. Comparisons are known from each other within a
block. A register that anything else writes is unknown, so what is said of a mask holds.

Source: "CDNA 3" Instruction Set Architecture, 5 and 12 (which instructions write scc, exec and masks); LLVM 22,
SIPreEmitPeephole.cpp.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product

from minitile.backends.amd.verify.assembly import Code, Instruction
from minitile.backends.amd.verify.lanes import KINDS, START, Facts, Kind

WAYS = 64  # so many are told apart at a block; further ones are joined

_SCALAR = re.compile(r"\bs(\d+)\b|\bs\[(\d+):(\d+)\]|\b(exec|vcc|scc)(?:_lo|_hi)?\b")
_MASK = re.compile(r"exec|vcc|s\[\d+:\d+\]")
_ASKED = re.compile(r"(exec|vcc)(n?)z|(scc)([01])")
_KEEPS_SCC = re.compile(
    r"s_(mov|cmov|cselect|load|buffer|mul|pack|sext|nop|waitcnt|barrier|set|sleep|branch|cbranch|endpgm|trap|memtime)"
)

_OPERATIONS: dict[str, Callable[..., bool]] = {
    "mov": lambda a: a,
    "not": lambda a: not a,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "andn2": lambda a, b: a and not b,
    "andn1": lambda a, b: b and not a,
    "orn2": lambda a, b: a or not b,
    "nand": lambda a, b: not (a and b),
    "nor": lambda a, b: not (a or b),
    "xnor": lambda a, b: a == b,
}
_BITS = {"0": False, "-1": True}
_ON_MASKS = re.compile(rf"s_({'|'.join(_OPERATIONS)})(_saveexec|_wrexec)?_b64")
_COMPARES = re.compile(r"s_cmp_(eq|lg|gt|ge|lt|le)_([iu]\d+)|s_bitcmp([01])_b32")
_NEGATED = {"lg": "eq", "le": "gt", "lt": "ge"}


Key = tuple[tuple[str, bool], ...]


@dataclass(slots=True)
class Path:
    """A block of the code; the numbers of the paths that may follow."""

    block: int
    following: list[int] = field(default_factory=list)


def paths(code: Code, closely: bool = False) -> list[Path]:
    """All that can be reached from the first block, which begins the first path. `closely`: the ways to a block are
    told apart by all that is known of masks; else by whether exec has a lane, and by masks that a constant is put
    in."""
    constants = {ins.operands[0] for ins in code.instructions if ins.name == "s_mov_b64" and ins.operands[1] in _BITS}
    told = None if closely else constants | _with_exec(code)
    live, steps = _live(code, told)
    known: dict[tuple[int, Key], Facts] = {}
    following: dict[tuple[int, Key], list[tuple[int, Key]]] = {}
    keys: dict[int, set[Key]] = {}
    pending: list[tuple[int, Key]] = []  # a heap

    def place(block: int, facts: Facts) -> tuple[int, Key]:
        key, others = facts.alike(), keys.setdefault(block, set())
        if not closely:
            key = tuple(one for one in key if one[0] in constants or one[0] == "exec")
        if key not in others and len(others) >= WAYS:
            key = (("", True), *(one for one in key if one[0] == "exec"))
        others.add(key)
        at = (block, key)
        joined = known[at].joined(facts) if at in known else facts
        if joined != known.get(at):
            known[at] = joined
            heappush(pending, at)
        return at

    first = place(0, START.only(live[0]))
    while pending:
        at = heappop(pending)
        block, states = at[0], [known[at]]
        for step in steps[block]:
            states = list(dict.fromkeys(after for state in states for after in step.after(state)))
        after = [place(to, then.only(live[to])) for state in states for to, then in _ways(code, block, state)]
        following[at] = list(dict.fromkeys(after))
    numbers = {first: 0}
    order = [first]
    for at in order:
        for to in following[at]:
            if to not in numbers:
                numbers[to] = len(order)
                order.append(to)
    return [Path(block, [numbers[to] for to in following[block, key]]) for block, key in order]


def _ways(code: Code, block: int, facts: Facts) -> Iterator[tuple[int, Facts]]:
    """Where the program may go on, and what is known there."""
    following = code.blocks[block].following
    asked = _ASKED.fullmatch(code.instructions[code.blocks[block].stop - 1].branch)
    if asked is None or len(following) < 2:
        yield from ((to, facts) for to in following)
        return
    for to, taken in zip(following, (True, False), strict=True):
        then: Facts | None
        if asked[3]:
            value = (asked[4] == "1") == taken
            then = facts.flagged("scc", value) if facts.flag("scc") in (None, value) else None
        else:
            then = facts.where_some(asked[1]) if (asked[2] == "n") == taken else facts.where_none(asked[1])
        if then is not None:
            yield to, then


# What instructions do -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Effect:
    """`written`: registers; `values`: what masks become, by the kind of a lane; `uses`: the masks that this takes;
    `chosen`: instead, the mask that becomes one of `operands` by scc; `compares`: what is compared, and scc if so."""

    written: frozenset[str]
    values: tuple[tuple[str, Callable[[Kind], bool | None]], ...] = ()
    uses: frozenset[str] = frozenset()
    operands: tuple[str, ...] = ()
    chosen: str = ""
    compares: tuple[str, bool] | None = None

    def makes(self) -> set[str]:
        return {name for name, _ in self.values} | ({self.chosen} - {""}) | ({"scc"} if self.compares else set())


@dataclass(frozen=True, slots=True)
class _Step:
    """An effect, and what is asked for behind it."""

    effect: _Effect
    live: frozenset[str]

    def after(self, facts: Facts) -> list[Facts]:
        effect = self.effect
        if effect.chosen:
            return [
                self._kept(each.with_masks(_uses(operand)).assigned({effect.chosen: _value(operand)}), {effect.chosen})
                for each, operand in self._by_scc(facts)
            ]
        if effect.compares is not None:
            return self._compared(facts, *effect.compares)
        values = {name: value for name, value in effect.values if name in self.live}
        made = facts.with_masks(effect.uses).assigned(values) if values else facts
        return [self._kept(made, set(values))]

    def _kept(self, facts: Facts, made: set[str]) -> Facts:
        """Without what was said of registers that are written, but for the masks that were made; without what no
        branch asks for any more."""
        stale = {name for name in facts.of - made if not registers(name).isdisjoint(self.effect.written)}
        for name, _ in facts.flags:
            if not registers(name).isdisjoint(self.effect.written):
                facts = facts.flagged(name, None)
        facts = facts.without(stale | (facts.of - self.live))
        return facts if len(facts.kinds) <= KINDS else facts.only(self.live)

    def _by_scc(self, facts: Facts) -> list[tuple[Facts, str]]:
        known = facts.flag("scc")
        return [
            (facts.flagged("scc", value), operand)
            for value, operand in zip((True, False), self.effect.operands, strict=True)
            if known in (None, value)
        ]

    def _compared(self, facts: Facts, what: str, if_so: bool) -> list[Facts]:
        known, facts = facts.flag(what), self._kept(facts, set())
        if known is None and what not in self.live:
            return [facts]
        return [
            facts.flagged(what, value).flagged("scc", value == if_so)
            for value in (True, False)
            if known in (None, value)
        ]


@functools.lru_cache(maxsize=1 << 12)
def _effect(ins: str, name: str, operands: tuple[str, ...]) -> _Effect | None:
    """None for an instruction that writes no scalar register."""
    scalar = name.startswith("s_")
    if not scalar and not name.startswith("v_"):
        return None
    results = operands[: 1 if scalar or name.startswith("v_cmp") else 2]
    written = frozenset().union(*map(registers, results))
    if scalar and not _KEEPS_SCC.match(name):
        written |= {"scc"}
    if "saveexec" in name or "wrexec" in name or name.startswith("v_cmpx"):
        written |= {"exec"}
    if (compare := _COMPARES.fullmatch(name)) is not None:
        return _Effect(frozenset({"scc"}), compares=_compared(compare, operands))
    if name == "s_cselect_b64" and _MASK.fullmatch(operands[0]):
        return _Effect(written, uses=_uses(*operands[1:]), operands=operands[1:], chosen=operands[0])
    on_masks = _ON_MASKS.fullmatch(name)
    if on_masks is None or not _MASK.fullmatch(operands[0]):
        return _Effect(written) if written else None
    operation, sources = _OPERATIONS[on_masks[1]], operands[1:]
    if on_masks[2]:
        sources = (*sources, "exec")
    result = _applied(operation, tuple(map(_value, sources)))
    values = {"_saveexec": ((operands[0], _value("exec")), ("exec", result)), None: ((operands[0], result),)}
    both = ((operands[0], result), ("exec", result))
    return _Effect(written, values.get(on_masks[2], both), _uses(*sources))


def _value(operand: str) -> Callable[[Kind], bool | None]:
    """Whether a lane of a kind is in an operand; None for either."""
    if operand in _BITS:
        constant = _BITS[operand]
        return lambda kind: constant
    if _MASK.fullmatch(operand):
        return lambda kind: operand in kind
    return lambda kind: None


def _applied(
    operation: Callable[..., bool], sources: tuple[Callable[[Kind], bool | None], ...]
) -> Callable[[Kind], bool | None]:
    def value(kind: Kind) -> bool | None:
        found = [source(kind) for source in sources]
        if None not in found:
            return operation(*found)
        cases = {operation(*case) for case in product(*((True, False) if one is None else (one,) for one in found))}
        return cases.pop() if len(cases) == 1 else None

    return value


def _compared(compare: re.Match[str], operands: tuple[str, ...]) -> tuple[str, bool]:
    """What is compared, in one of the spellings that say the same, and scc where that is so."""
    a, b = operands
    if compare[3]:
        return f"bit {a} {b}", compare[3] == "1"
    how, kind = compare[1], compare[2]
    if_so = how not in _NEGATED
    how = _NEGATED.get(how, how)
    if how == "ge" and b.isdigit() and b != "0":
        how, b = "gt", str(int(b) - 1)  # of integers
    return f"{how} {kind[1:] if how == 'eq' else kind} {a} {b}", if_so


def _uses(*operands: str) -> frozenset[str]:
    return frozenset(operand for operand in operands if _MASK.fullmatch(operand))


@functools.lru_cache(maxsize=1 << 12)
def registers(text: str) -> frozenset[str]:
    """The scalar registers that an operand, or what is compared, names."""
    found: set[str] = set()
    for one, first, last, name in _SCALAR.findall(text):
        found |= {name} if name else {f"s{n}" for n in range(int(first or one), int(last or one) + 1)}
    return frozenset(found)


# What branches ask for ------------------------------------------------------------------------------------------------


def _with_exec(code: Code) -> set[str]:
    """The masks that are made of exec, and exec."""
    effects = (_effect_of(ins) for ins in code.instructions)
    made = {name for effect in effects if effect is not None and "exec" in effect.uses for name in effect.makes()}
    return {"exec", "vcc", *made}


def _live(code: Code, told: set[str] | None) -> tuple[list[frozenset[str]], list[list[_Step]]]:
    """Of each block: the masks and conditions that a branch in it or behind it asks for, as far as they are among
    `told`; the instructions that make one of these, or end it."""
    effects = [
        [effect for ins in code.inside(n) if (effect := _effect_of(ins)) is not None] for n in range(len(code.blocks))
    ]
    before: list[list[int]] = [[] for _ in code.blocks]
    for n, block in enumerate(code.blocks):
        for to in block.following:
            before[to].append(n)
    live: list[frozenset[str]] = [frozenset()] * len(code.blocks)
    pending = list(range(len(code.blocks)))
    waiting = set(pending)
    while pending:
        n = pending.pop()
        waiting.discard(n)
        known = _behind(code, n, live)
        for effect in reversed(effects[n]):
            known = _asked_before(effect, known)
        known = known if told is None else known & told
        if known != live[n]:
            live[n] = known
            pending += [other for other in before[n] if other not in waiting]
            waiting.update(before[n])
    steps: list[list[_Step]] = []
    for n in range(len(code.blocks)):
        made: list[_Step] = []
        known = _behind(code, n, live)
        for effect in reversed(effects[n]):
            if any(not registers(name).isdisjoint(effect.written) for name in known):
                made.append(_Step(effect, known))
            known = _asked_before(effect, known)
        steps.append(made[::-1])
    return live, steps


def _effect_of(ins: Instruction) -> _Effect | None:
    return _effect(ins.text, ins.name, ins.operands)


def _behind(code: Code, block: int, live: list[frozenset[str]]) -> frozenset[str]:
    """What is asked for by a block's branch and behind it; comparisons only within a block."""
    known = {name for to in code.blocks[block].following for name in live[to] if " " not in name}
    asked = _ASKED.fullmatch(code.instructions[code.blocks[block].stop - 1].branch)
    return frozenset(known | ({asked[1] or asked[3]} if asked else set()))


def _asked_before(effect: _Effect, known: frozenset[str]) -> frozenset[str]:
    kept = frozenset(name for name in known if registers(name).isdisjoint(effect.written))
    if known.isdisjoint(effect.makes()):
        return kept
    if effect.compares is not None:
        return kept | {effect.compares[0]}
    return kept | effect.uses | ({"scc"} if effect.chosen else set())
