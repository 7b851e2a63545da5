"""Of a long sweep over parameters, which cases are quick: enough that every value of every parameter occurs, and as
many pairs of values together as a part of the cases can hold. The others are slow; on a GPU all run.

    @pytest.mark.parametrize("stages", [1, 2, 3, 4])              # 36 cases, 12 of them quick: each number of stages
    @pytest.mark.parametrize("k", [0, 1, 31, 32, 33, 64, 96, 97, 160])   # and each k

A test with fewer than `LONG` cases that are not slow by themselves runs them all; so do tests marked `every_case`,
whose cases are other code each, as each conversion of a dtype into another one is. Of tests marked `few_cases`, whose
cases take long, `FEW` are quick however many values there are; a folder may have a number of its own. The choice
depends on the cases and their names alone, so it is the same each time and in each process.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any
from zlib import crc32

import pytest

LONG = 4  # cases of one test
SHARE = 8  # one of so many is quick, unless more are needed to have each value
FEW = 2

Case = tuple[str, Sequence[Hashable]]  # its name, and the value of each parameter


def chosen(cases: Sequence[Case], share: int = SHARE, most: int | None = None) -> list[int]:
    """The numbers of the cases that are quick, in order: the first and the last, then always one that has the most
    values that have not occurred, and among these the most pairs; up to `most`."""
    values = [frozenset(enumerate(case[1])) for case in cases]
    pairs = [frozenset(itertools.combinations(sorted(each, key=lambda x: x[0]), 2)) for each in values]
    ends = {0, len(cases) - 1} if cases else set()
    picked = sorted(ends)
    seen_values = set().union(*(values[number] for number in ends))
    seen_pairs = set().union(*(pairs[number] for number in ends))
    missing = set().union(*values) - seen_values
    wanted = -(-len(cases) // share)

    def rank(number: int) -> tuple[int, int, int]:
        """The smaller the better. It only grows while others are picked."""
        name = crc32(cases[number][0].encode())
        return -len(values[number] - seen_values), -len(pairs[number] - seen_pairs), name

    left = [(rank(number), number) for number in range(len(cases)) if number not in ends]
    heapq.heapify(left)
    while left and (missing or len(picked) < wanted) and (most is None or len(picked) < most):
        _, number = heapq.heappop(left)
        now = rank(number)
        if left and (now, number) > left[0]:
            heapq.heappush(left, (now, number))
            continue
        picked.append(number)
        seen_values |= values[number]
        seen_pairs |= pairs[number]
        missing -= values[number]
    return sorted(picked)


def thin_out(items: Sequence[pytest.Item], most: int | None = None) -> None:
    """Mark the cases of long sweeps that are not chosen as slow; `most` of a sweep's are quick."""
    sweeps: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_itself = any(item.get_closest_marker(name) is not None for name in ("slow", "every_case"))
        if getattr(item, "callspec", None) is not None and not by_itself:
            sweeps[item.path, item.nodeid.partition("[")[0]].append(item)
    for sweep in sweeps.values():
        few = sweep[0].get_closest_marker("few_cases") is not None
        if len(sweep) >= LONG:
            quick = set(chosen([(item.nodeid, _values(item)) for item in sweep], most=FEW if few else most))
            for number, item in enumerate(sweep):
                if number not in quick:
                    item.add_marker(pytest.mark.slow)


def _values(item: pytest.Item) -> list[Hashable]:
    return [_key(value) for _, value in sorted(item.callspec.params.items())]  # type: ignore[attr-defined]


def _key(value: Any) -> Hashable:
    """Equal for equal values of one type."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return type(value), value
