"""The order of blocks: what a loop holds stands behind its head, and other branches lead forward.

before                                          after
`bra H; A: a; bra J; H: …; @p bra A; b; J: …`   `H: …; @!p bra B; A: a; bra J; B: b; J: …`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from minitile.proof.loops.flow import Flow, made, synchronises
from minitile.proof.reading import Statement

_ENDS = ("ret", "exit", "trap")
_JUMPS = ("bra", "bra.uni")


@dataclass(frozen=True)
class _Block:
    """Statements begin … end - 1; `ways`: blocks that follow, first the one that is not jumped to; -1: none."""

    begin: int
    end: int
    ways: tuple[int, ...]

    def following(self) -> tuple[int, ...]:
        return tuple(n for n in self.ways if n >= 0)


def arrange(flow: Flow) -> None:
    """Blocks stand in another order, with jumps where one is not followed by what followed it.

    Precondition: none; nothing is done unless a branch goes back to what is not the head of a loop around it, over what
    synchronises, nor where a loop has two ways in, or control runs out of the text.
    """
    if not (blocks := _blocks(flow)):
        return
    order = _order(0, lambda n: blocks[n].following())
    places = {n: place for place, n in enumerate(order)}
    above = _dominators(blocks, order)
    ways = [(u, v) for u in order for v in blocks[u].following()]
    if any(places[v] <= places[u] and not above[u] >> v & 1 for u, v in ways):
        return  # a loop with two ways in
    back = [(v, u) for u, v in ways if v <= u and not above[u] >> v & 1]
    if not any(synchronises(flow, blocks[v].begin, blocks[u].end) for v, u in back):
        return
    loops: dict[int, int] = {}  # what each loop holds, as bits, by its head
    for u, v in ways:
        if above[u] >> v & 1:
            loops[v] = loops.get(v, 0) | _loop(blocks, u, v)
    held = [sum(above[v] >> n & 1 for v in order) for n in range(len(blocks))]
    few = [replace(each, ways=tuple(sorted(each.ways, key=lambda n: held[n] if n >= 0 else 0))) for each in blocks]
    _write(flow, blocks, list(_laid(few, loops, 0, sum(1 << n for n in order))))


def _blocks(flow: Flow) -> list[_Block] | None:
    items = flow.items
    begins = sorted({0, *(n for n, each in enumerate(items) if each.labels), *(n + 1 for n in _branches(items))})
    begins = [n for n in begins if n < len(items)]
    number = {begin: n for n, begin in enumerate(begins)}
    found = []
    for n, begin in enumerate(begins):
        end = begins[n + 1] if n + 1 < len(begins) else len(items)
        last = items[end - 1]
        target = flow.target(last) if last.op.startswith("bra") else -1
        if last.op.startswith("bra") and (last.op not in _JUMPS or target not in number):
            return None
        falls = bool(last.guard) or not (last.op in _JUMPS or last.op in _ENDS)
        if falls and end == len(items):
            return None
        found.append(_Block(begin, end, (n + 1 if falls else -1, number.get(target, -1))))
    return found


def _branches(items: Iterable[Statement]) -> list[int]:
    return [n for n, each in enumerate(items) if each.op.startswith("bra") or each.op in _ENDS]


def _order(start: int, ways: Callable[[int], Iterable[int]]) -> list[int]:
    """What is come to, each in front of what follows it, but for ways back; what follows first as near as may be."""
    out, seen = list[int](), {start}
    stack = [(start, iter([*ways(start)][::-1]))]
    while stack:
        node, rest = stack[-1]
        way = next((n for n in rest if n not in seen), None)
        if way is None:
            out.append(node)
            stack.pop()
        else:
            seen.add(way)
            stack.append((way, iter([*ways(way)][::-1])))
    return out[::-1]


def _dominators(blocks: list[_Block], order: list[int]) -> dict[int, int]:
    """For each block, as bits, those that all ways to it come past, itself included."""
    everything = sum(1 << n for n in order)
    above = dict.fromkeys(order, everything) | {order[0]: 1 << order[0]}
    before: dict[int, list[int]] = {n: [] for n in order}
    for u in order:
        for v in blocks[u].following():
            before[v].append(u)
    changed = True
    while changed:
        changed = False
        for n in order[1:]:
            new = everything
            for u in before[n]:
                new &= above[u]
            new |= 1 << n
            changed, above[n] = changed or new != above[n], new
    return above


def _loop(blocks: list[_Block], back: int, head: int) -> int:
    """What a loop holds: the blocks from which its way back is come to without its head."""
    found, todo = 1 << head | 1 << back, [back] if back != head else []
    while todo:
        n = todo.pop()
        for u, each in enumerate(blocks):
            if n in each.following() and not found >> u & 1:
                found |= 1 << u
                todo.append(u)
    return found


def _laid(blocks: list[_Block], loops: dict[int, int], head: int, among: int) -> Iterable[int]:
    """The blocks of a loop, or of the whole text, in order: each loop within in one piece, behind all that leads to
    its head and in front of all that it leads to; of two ways the one first that less lies behind."""
    of: dict[int, int] = {}  # the head of the outermost loop within that holds a block, else the block
    for inner in sorted(loops, key=lambda n: -loops[n].bit_count()):
        if inner != head and among >> inner & 1 and inner not in of and loops[inner] & ~among == 0:
            of.update((n, inner) for n in range(len(blocks)) if loops[inner] >> n & 1 and n not in of)
    inside = [n for n in range(len(blocks)) if among >> n & 1]
    group = {n: of.get(n, n) for n in inside}
    ways: dict[int, dict[int, None]] = {n: {} for n in inside}
    for n in inside:
        for way in blocks[n].following():
            if way in group and way != head and group[way] != group[n]:
                ways[group[n]][group[way]] = None
    for n in _order(group[head], ways.__getitem__):
        if n in loops and n != head:
            yield from _laid(blocks, loops, n, loops[n])
        else:
            yield n


def _write(flow: Flow, blocks: list[_Block], order: list[int]) -> None:
    items, out = flow.items, list[Statement]()
    names, passed = {n: flow.label() for n in order}, tuple[str, ...]()
    for place, n in enumerate(order):
        each = blocks[n]
        behind = order[place + 1] if place + 1 < len(order) else -1
        code = items[each.begin : each.end]
        code[0] = replace(code[0], labels=(*passed, *code[0].labels, names[n]))
        passed = ()
        last, (falls, jumps) = code[-1], each.ways
        if falls >= 0 and falls != behind:
            if last.guard and last.op in _JUMPS and jumps == behind:
                code[-1] = replace(last, negated=not last.negated, args=(names[falls],))
            else:
                code.append(made(last.line, "bra", names[falls]))
        elif falls < 0 and jumps == behind and jumps >= 0:
            jump = code.pop()
            passed = () if code else jump.labels  # nothing is left of a block that only jumps there
        out += code
    used = {arg for each in out if each.op in _JUMPS for arg in each.args}
    flow.items = [replace(each, labels=tuple(name for name in each.labels if name in used)) for each in out]


__all__ = ["arrange"]
