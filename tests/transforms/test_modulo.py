"""Iterative modulo scheduling: what it gives keeps every need and no unit does two things at once, for random graphs;
and the least interval where that is known."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from minitile.transforms.schedule.modulo import MOST_NODES, Need, Node, Times, modulo

LINES = 901622  # 1.1 times what was measured


def check(nodes: list[Node], needs: list[Need], found: Times) -> None:
    for source, target, latency, distance in needs:
        assert found.starts[target] + found.interval * distance >= found.starts[source] + latency
    for unit in {node.unit for node in nodes if node.unit}:
        taken = [
            (start + i) % found.interval
            for node, start in zip(nodes, found.starts, strict=True)
            if node.unit == unit
            for i in range(node.steps)
        ]
        assert len(taken) == len(set(taken))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Node], list[Need]]:
    units = st.sampled_from(["", "tensor", "shared", "copy"])
    nodes = [
        Node(unit, draw(st.integers(1, 4)) if unit else 0) for unit in draw(st.lists(units, min_size=1, max_size=14))
    ]
    needs = []
    for _ in range(draw(st.integers(0, 20))):
        source, target = (draw(st.integers(0, len(nodes) - 1)) for _ in range(2))
        needs.append(Need(source, target, draw(st.integers(0, 6)), 0 if source < target else draw(st.integers(1, 3))))
    return nodes, needs


@settings(max_examples=300, deadline=None, derandomize=True)
@given(graphs())
def test_needs_and_units(graph: tuple[list[Node], list[Need]]) -> None:
    nodes, needs = graph
    found = modulo(nodes, needs)
    assume(found is not None)
    check(nodes, needs, found)
    assert found == modulo(nodes, needs)


def test_no_unit_is_idle() -> None:
    """Reads a latency in front of products that keep their unit busy are a stage ahead, as late as may be."""
    nodes = [Node("tensor", 4) for _ in range(4)] + [Node("shared", 2)] * 2
    needs = [Need(n, n + 1, 4) for n in range(3)] + [Need(4, 0, 16), Need(5, 2, 16)]
    found = modulo(nodes, needs)
    assert found is not None
    check(nodes, needs, found)
    first = found.starts[0]
    assert found.interval == 16
    assert [start - first for start in found.starts] == [0, 4, 8, 12, -16, -8]


def test_what_goes_round_takes_longer() -> None:
    """An interval may be a quarter longer than the sixteen steps of the unit: twenty do."""
    nodes = [Node("tensor", 16), Node()]
    assert modulo(nodes, [Need(0, 1, 18), Need(1, 0, 2, 1)]) == Times(20, (-18, 0))
    assert modulo(nodes, [Need(0, 1, 30), Need(1, 0, 2, 1)]) is None
    assert modulo([Node("tensor", 1)] * (MOST_NODES + 1), []) is None


def test_lines_executed() -> None:
    """The most nodes that there may be, as in a loop of one gemm, take some 20 ms. On a busy machine
    a clock says little, so lines are counted."""
    rng = np.random.default_rng(0)
    nodes = [Node("tensor", 4)] * 120 + [Node("shared", 8)] * 56 + [Node("copy", 4)] * 23 + [Node()]
    needs = [Need(n, n + 1, 4) for n in range(119)]
    needs += [Need(120 + n, int(rng.integers(0, 120)), 32) for n in range(56)]
    needs += [Need(120 + n, 199, 0) for n in range(56)] + [Need(199, 120 + n, 1, 1) for n in range(56)]
    needs += [Need(199, 176 + n, 1, 1) for n in range(23)]
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        found = modulo(nodes, needs)
    finally:
        sys.settrace(before)
    assert found is not None
    check(nodes, needs, found)
    assert lines < LINES, lines
