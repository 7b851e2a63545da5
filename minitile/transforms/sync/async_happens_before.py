"""What asynchronous accesses an arrival leads to, in threads that wait for it: what `proxy_fence` asks.

    role A:  store to C ; arrive %ring                role B:  wait %ring ; tma_store from C

B's copy comes behind A's arrival. So do the accesses of threads that wait for an arrival of B's behind it. Arrivals are
matched with waits by the buffer of barrier words (or the number of a barrier at which roles meet), and by the word
where the addresses tell; not by phase: a thread that waits there may have learnt of it. Only accesses in other branches
of the program count: what threads of the same one do comes behind in the program's own order, and barriers stand
between.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.memory_dependence import MemoryAccess, any_version
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.effects import Sync
from minitile.ir.ops import arith, control, thread

Asynchronous = dict[Op, list[tuple[MemoryAccess, frozenset[str]]]]  # touches, and of which memories
_Path = tuple[tuple[Op, int], ...]  # the operations around one, outermost first, each with the number of the region


class Order:
    """`diverges`: whether threads diverge in an operation; `asynchronous`: the asynchronous
    touches of each operation."""

    def __init__(
        self, kernel: Kernel, facts: Facts, diverges: Callable[[Op], bool], asynchronous: Asynchronous
    ) -> None:
        self.facts = facts
        self.diverges = diverges
        self.asynchronous = asynchronous
        self.places: dict[Op, tuple[Block, int, _Path]] = {}
        self.acquires: dict[object, list[tuple[Op, Sync]]] = {}
        self.releases: dict[Op, list[Sync]] = {}
        self.links: dict[Block, list[tuple[int, Op]]] = {}  # what accesses or tells others in a block, and where it is
        self.known: dict[Op, list[tuple[MemoryAccess, frozenset[str]]]] = {}
        self._block(kernel.body, ())

    def _block(self, block: Block, path: _Path) -> None:
        links = self.links[block] = []
        for number, op in enumerate(block.ops):
            if op.pure:
                continue
            self.places[op] = block, number, path
            for sync in op.syncs():
                if sync.acquires:
                    self.acquires.setdefault(sync.on, []).append((op, sync))
                if sync.releases:
                    self.releases.setdefault(op, []).append(sync)
            if op in self.asynchronous or op in self.releases:
                links.append((number, op))
            for n, region in enumerate(op.regions):
                self._block(region, (*path, (op, n)))
                links += [(number, inner) for _, inner in self.links[region]]

    def leads_to(self, op: Op) -> list[tuple[MemoryAccess, frozenset[str]]]:
        """The asynchronous touches of those that learn of what came before `op`, and of those that they tell."""
        found = self.known.get(op)
        if found is None:
            touches: dict[tuple[MemoryAccess, frozenset[str]], None] = {}
            behind: set[Op] = set()
            told, left = {op}, [op]
            while left:
                for waiting in self._told_by(left.pop()):
                    for later in self._behind(waiting):
                        if later in self.asynchronous and later not in behind and self._apart(op, later):
                            behind.add(later)
                            found = [(any_version(t), spaces) for t, spaces in self.asynchronous[later]]
                            touches.update(dict.fromkeys(found))
                        if later not in told and later in self.releases:
                            told.add(later)
                            left.append(later)
            found = self.known[op] = list(touches)
        return found

    def _told_by(self, op: Op) -> Iterator[Op]:
        """The operations at which others learn what this one tells them."""
        branches = any(isinstance(around, control.If) and self.diverges(around) for around, _ in self.places[op][2])
        for sync in self.releases[op]:
            if sync.on is not None and (branches or sync.kind != "meet"):
                for waiting, other in self.acquires.get(sync.on, ()):
                    if "meet" in (sync.kind, other.kind):
                        matches = self._apart(op, waiting)
                    else:
                        matches = self._same_word(sync, other)
                    if matches:
                        yield waiting

    def _same_word(self, a: Sync, b: Sync) -> bool:
        """Whether two of the same buffer may be of one word."""
        if a.word is None or b.word is None:
            return True
        one, other = self._offset(a.word), self._offset(b.word)
        return not (self.facts.less(one, other) or self.facts.less(other, one))

    def _offset(self, address: Value) -> Affine:
        """An address in shared memory less that of its buffer: such sums do not overflow."""
        op = address.op
        if isinstance(op, thread.BufferAddress):
            return Affine()
        if isinstance(op, arith.Add):
            return self._offset(op.a) + self._offset(op.b)
        return self.facts.affine(address)

    def _apart(self, a: Op, b: Op) -> bool:
        """Whether different threads go past the two: they stand in different branches of a condition that differs, or
        are what different warps of a role do."""
        mine, theirs = self.places[a][2], self.places[b][2]
        role = False
        for (one, n), (other, m) in zip(mine, theirs, strict=False):
            if one is not other:
                return role and all(isinstance(op, control.If) and self.diverges(op) for op in (one, other))
            role = one.by_role
            if n != m:
                return isinstance(one, control.If) and self.diverges(one)
        return False

    def _behind(self, op: Op) -> Iterator[Op]:
        """What accesses or tells others, of the operations that may come behind this one in the same thread."""
        block, number, path = self.places[op]
        yield from self._from(block, number)
        for around, _ in reversed(path):
            if isinstance(around, control.Loop):
                for region in around.regions:
                    yield from self._from(region, -1)
            outer, at, _ = self.places[around]
            yield from self._from(outer, at)

    def _from(self, block: Block, number: int) -> Iterator[Op]:
        links = self.links[block]
        return (op for _, op in links[bisect.bisect_right(links, number, key=_number) :])


def _number(link: tuple[int, Op]) -> int:
    return link[0]
