"""Iterative modulo scheduling: when each operation of a loop starts, if an iteration begins every `interval` steps.

    products 0 … 3, four steps each, of the matrix unit;       interval 16: the matrix unit is never idle
    a read of eight steps, sixteen in front of product 0   →   product n at 4 n, the read at -16: a stage ahead
    the next copy behind the last read, …

After B. R. Rau, "Iterative Modulo Scheduling" (International Journal of Parallel Programming 24, 1996): the least
interval that units and cycles of needs allow is tried first; operations are placed by their height, each at the first
step where its unit is free; where there is none, it is placed all the same, and what conflicts is placed again. An
asynchronous operation occupies its unit, and what needs it stands its latency behind.

Here time goes backwards, from the last operation to the first: so each is placed as late as may be, which keeps what it
makes alive for the shortest time. The result depends on the arguments alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_NODES = 200
WIDER = (0, 1 / 32, 1 / 8, 1 / 4)  # by what part intervals that are tried are longer than the units' own
TRIES = 3  # how often each node may be placed for one interval, in the mean


@dataclass(frozen=True, slots=True)
class Node:
    """An operation: the unit that it occupies, "" for none, and for how many steps."""

    unit: str = ""
    steps: int = 0


class Need(NamedTuple):
    """`target`, `distance` iterations later, starts at least `latency` steps behind the start of `source`."""

    source: int
    target: int
    latency: int
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """interval: steps from one iteration's beginning to the next one's; starts: of each operation, in steps."""

    interval: int
    starts: tuple[int, ...]


def modulo(nodes: Sequence[Node], needs: Sequence[Need]) -> Times | None:
    """The starts of all nodes; None where there are more than 200 of them, or no interval up to a quarter longer than
    the units' own is found."""
    if len(nodes) > MOST_NODES or not nodes:
        return None
    work: dict[str, int] = {}
    for node in nodes:
        work[node.unit] = work.get(node.unit, 0) + node.steps
    least = max(1, *work.values(), *(node.steps for node in nodes))
    backwards = [
        Need(n.target, n.source, n.latency + nodes[n.target].steps - nodes[n.source].steps, n.distance) for n in needs
    ]
    for interval in [math.ceil(least * (1 + more)) for more in WIDER]:
        heights = _heights(len(nodes), backwards, interval)
        ends = None if heights is None else _place(nodes, backwards, heights, interval, TRIES * len(nodes))
        if ends is not None:
            return Times(interval, tuple([-end - node.steps for end, node in zip(ends, nodes, strict=True)]))
    return None


def _heights(count: int, needs: Sequence[Need], interval: int) -> list[int] | None:
    """How many steps there are at least from each node to the last one; None where needs that go round take longer than
    their iterations."""
    height = [0] * count
    for _ in range(count + 1):
        changed = False
        for source, target, latency, distance in needs:
            least = height[target] + latency - interval * distance
            if least > height[source]:
                height[source], changed = least, True
        if not changed:
            return height
    return None


def _place(
    nodes: Sequence[Node], needs: Sequence[Need], height: Sequence[int], interval: int, budget: int
) -> list[int] | None:
    """The start of each node, or None when all tries are spent."""
    before: list[list[Need]] = [[] for _ in nodes]
    behind: list[list[Need]] = [[] for _ in nodes]
    for need in needs:
        if need.source != need.target:
            before[need.target].append(need)
            behind[need.source].append(need)
    start: list[int | None] = [None] * len(nodes)
    last = [-1 << 30] * len(nodes)  # where a node was when it was placed last
    table: dict[str, list[int]] = {node.unit: [-1] * interval for node in nodes if node.unit}
    left = [(-height[n], n) for n in range(len(nodes))]
    heapq.heapify(left)
    while left:
        budget -= 1
        if budget < 0:
            return None
        _, n = heapq.heappop(left)
        unit, steps = nodes[n].unit, nodes[n].steps
        early = 0
        for source, _, latency, distance in before[n]:
            at = start[source]
            if at is not None:
                early = max(early, at + latency - interval * distance)
        found = early if not unit else _first_free(table[unit], early, steps)
        if found is None:
            found = max(early, last[n] + 1)
        start[n] = last[n] = found
        gone: set[int] = set()
        if unit:
            row = table[unit]
            places = [(found + i) % interval for i in range(steps)]
            gone = {row[p] for p in places if row[p] >= 0}
        for _, target, latency, distance in behind[n]:
            at = start[target]
            if at is not None and at < found + latency - interval * distance:
                gone.add(target)
        for other in sorted(gone):
            for i in range(nodes[other].steps if nodes[other].unit else 0):
                table[nodes[other].unit][(last[other] + i) % interval] = -1
            start[other] = None
            heapq.heappush(left, (-height[other], other))
        if unit:
            for p in places:
                table[unit][p] = n
    return [at for at in start if at is not None]


def _first_free(row: Sequence[int], early: int, steps: int) -> int | None:
    """The first step from `early` on, within an interval, from which on a unit is free for so many."""
    interval = len(row)
    free = 0
    for at in range(early, early + interval + steps):
        free = free + 1 if row[at % interval] < 0 else 0
        if free == steps:
            return at - steps + 1 if at - steps + 1 < early + interval else None
    return None
