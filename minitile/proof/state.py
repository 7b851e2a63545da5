"""The abstract state of one CTA: warps with registers and what they know, barriers, accesses, answers of oracles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from minitile.proof.arithmetic.values import TOP, UNIFORM, Predicate, Stored, Value, uniform, variables_in
from minitile.proof.events import Access, MBarrier, NamedBarrier, Product

ALL = 0xFFFFFFFF


@dataclass(slots=True)
class Warp:
    """`known`: ids that every lane knows. `extra`: what single lanes know besides. `own`: (id, lanes) of which each of
    these lanes knows its own share only. `passed`: waits that not all lanes need have passed. `mask`: active lanes;
    `stack`: (pc, mask) where others join again. `dirty`: registers accessed since the last wgmma.fence, as bits.
    `bulk`: by lane, ids of stores since the last commit, and of the groups. `cp_open`, `cp_groups`: the same of
    cp.async, as (id, lanes). `fresh`: accesses, by kind, that later ones of the kind may join."""

    number: int
    pc: int = 0
    registers: dict[str, Value] = field(default_factory=dict)
    mask: int = ALL
    stack: tuple[tuple[int, int], ...] = ()
    known: int = 0
    extra: dict[int, int] = field(default_factory=dict)
    own: tuple[tuple[int, int], ...] = ()
    passed: int = 0
    at: int = -1  # the number of the named barrier it waits at
    done: bool = False
    open: tuple[Product, ...] = ()
    groups: tuple[tuple[Product, ...], ...] = ()
    dirty: int = -1
    bulk: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    fresh: tuple[tuple[tuple[bool, bool, int], int], ...] = ()
    cp_open: tuple[tuple[int, int], ...] = ()
    cp_groups: tuple[tuple[tuple[int, int], ...], ...] = ()

    def copy(self) -> Warp:
        new = Warp(*(getattr(self, name) for name in Warp.__slots__))
        new.registers, new.extra, new.bulk = dict(self.registers), dict(self.extra), dict(self.bulk)
        return new

    def knows(self, lanes: int) -> int:
        """What each of these lanes knows."""
        if not self.extra:
            return self.known
        both = -1
        for lane in lanes_in(lanes):
            both &= self.extra.get(lane, 0)
        return self.known | both if lanes else self.known

    def releases(self, lanes: int) -> int:
        """What is known once all of these lanes have arrived: each brings its share."""
        out = self.known
        for lane in lanes_in(lanes):
            out |= self.extra.get(lane, 0)
        for event, whose in self.own:
            out |= event if not whose & ~lanes else 0
        return out

    def learn(self, ids: int, lanes: int) -> None:
        if lanes == ALL:
            self.known |= ids
        else:
            for lane in lanes_in(lanes):
                self.extra[lane] = self.extra.get(lane, 0) | ids

    def did(self, event: int, lanes: int) -> None:
        """These lanes have each done their share of an event."""
        if lanes & (lanes - 1):
            self.own += ((event, lanes),) if (event, lanes) not in self.own else ()
        else:
            self.learn(event, lanes)

    def converge(self) -> None:
        """All lanes meet: waits are passed by all. Orders no memory."""
        self.known |= self.passed
        self.passed = 0

    def synchronise(self) -> None:
        """All lanes meet, and know what any of them knows."""
        self.converge()
        self.known = self.releases(ALL)
        self.extra, self.own = {}, ()


def committed(groups: tuple[Any, ...], now: Any) -> tuple[Any, ...]:
    """Groups of asynchronous operations, oldest first, with one more. Groups complete in order, so an empty one is
    complete if it is the oldest: it is not counted."""
    return (*groups, now) if groups or now else ()


def without_empty(groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the oldest groups, as long as they are empty."""
    first = next((n for n, each in enumerate(groups) if each), len(groups))
    return groups[first:]


def bits(mask: int) -> Iterable[int]:
    if mask < 0:
        raise ValueError("no set has all bits")
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=4096)
def lanes_in(mask: int) -> tuple[int, ...]:
    return tuple(bits(mask))


@dataclass(slots=True)
class State:
    """`oracle`: for (base of a counter, bound - base) up to which value the difference is above it, and from which it
    is not (None: not known). `facts`: predicates of the launch. `products`: for each warpgroup, what some of its warps
    have yet to execute: (product, id, warps that have, waits that they had passed). `contents`: what lies in units of
    shared memory, where that is one number for all. `truths`: what `oracle` and `facts` say of predicates and tests, as
    far as it has been worked out since they were changed."""

    warps: list[Warp]
    mbarriers: dict[int, MBarrier] = field(default_factory=dict)
    named: dict[int, NamedBarrier] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    oracle: dict[tuple[Any, Any], tuple[int, int | None]] = field(default_factory=dict)
    facts: dict[Any, int] = field(default_factory=dict)
    products: dict[int, tuple[tuple[Any, int, int, int], ...]] = field(default_factory=dict)
    contents: dict[int, Value] = field(default_factory=dict)
    ids: int = 0
    written: int = 0
    ended: int = 0
    truths: dict[Any, Value] = field(default_factory=dict, init=False)

    def new(self) -> int:
        self.ids += 1
        return 1 << (self.ids - 1)

    def forget(self, stored: Stored) -> None:
        """Makes unknown what is computed of a number that is not the last that was stored."""
        for warp in self.warps:
            for name, value in warp.registers.items():
                if value is not TOP and type(value) is not int and stored in variables_in(value):
                    truth = self.answered(value)
                    warp.registers[name] = truth if truth is not None else UNIFORM if uniform(value) else TOP
        self.truths = {}
        for known in (self.oracle, self.facts):
            for key in [key for key in known if stored in variables_in(key)]:
                del known[key]
        self.contents = {units: value for units, value in self.contents.items() if stored not in variables_in(value)}

    def answered(self, value: Value) -> int | None:
        """The truth of a predicate, or of the contrary of one, that has been answered."""
        if isinstance(value, Predicate) and value.expression[0] == "not":
            truth = self.answered(value.expression[1])
            return None if truth is None else 1 - truth
        return self.facts.get(value) if isinstance(value, Predicate) else None

    def copy(self) -> State:
        return State(
            warps=[each.copy() for each in self.warps],
            mbarriers=dict(self.mbarriers),
            named=dict(self.named),
            accesses=list(self.accesses),
            oracle=dict(self.oracle),
            facts=dict(self.facts),
            products=dict(self.products),
            contents=dict(self.contents),
            ids=self.ids,
            written=self.written,
            ended=self.ended,
        )
