"""Says of each wait for a token which accesses it stands between: on thread IR, the last pass. Changes nothing else.

    %t = join (cp_async %A → %As)  // k.py:12          wait %t {pending = 1}   why("software_pipeline", "RAW As",
    wait %t {pending = 1}                         →                                [k.py:12], [k.py:14])
    %a = ldmatrix %As              // k.py:14

The pass that inserts a wait says why by the name of its pass; waits are moved, and handed through loops, by other
passes, and what was asynchronous at tile level may have become several instructions. So the accesses are found when all
is done. Those before are what completes the token: through joins, branches and loops, back to the operations that made
it. Those behind are the next ones in the program, around a loop or in another role, that these conflict with (RAW, WAR,
WAW), or for products in flight the first use of their result. Where there are none the wait is for the kernel's end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter

from minitile.analysis.memory_dependence import is_private
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.effects import Access
from minitile.ir.ops import control
from minitile.ir.origin import ACCUMULATOR, LANDED, places
from minitile.ir.types import BULK_TOKEN, WGMMA_TOKEN, TensorType, TokenType
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.reasons import hazard, names

_Path = tuple[tuple[Op, int], ...]  # the operations around one, outermost first, each with the number of the region


def complete_origins(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    waits = [op for op in kernel.walk() if op.why is not None and not op.why.before and _token(op) is not None]
    if waits:
        program = _Program(kernel)
        for op in waits:
            program.complete(op)


def _token(op: Op) -> Value | None:
    return next((v for v in op.operands if isinstance(v.type, TokenType)), None) if op.orders else None


class _Program:
    """What of a kernel tells what tokens stand for and what comes next."""

    def __init__(self, kernel: Kernel) -> None:
        self.number: dict[Op, int] = {}
        self.path: dict[Op, _Path] = {}
        # By memory and whether they write, in the program's order.
        self.touching: dict[tuple[Value, bool], list[tuple[int, Op, Access]]] = {}
        self.sources: dict[Value, list[Value]] = {}  # what a value may be, and what it becomes
        self.becomes: dict[Value, list[Value]] = {}
        # Of waits that give a value, and what has regions: the operations around it, and where those behind it begin.
        self.behind: dict[Op, tuple[list[Op], int]] = {}
        self.block(kernel.body, ())

    def block(self, block: Block, path: _Path) -> None:
        for at, op in enumerate(block.ops):
            if op.pure and not op.region_fields:
                continue
            number = self.number[op] = len(self.number)
            self.path[op] = path
            if op.region_fields or (op.orders and op.results):
                self.behind[op] = block.ops, at + 1
            for n, region in enumerate(op.regions):
                self.block(region, (*path, (op, n)))
            if isinstance(op, control.Structured):
                for t in op.transfers():
                    for targets in t.targets:
                        self.flow(targets, t.values)
            elif op.regions:
                for region in op.regions:
                    self.flow(op.results, region.yielded)
            elif not op.terminator:
                for access in op.accesses():
                    if access.mem is not None and access.pipeline is not access.mem and not is_private(access):
                        self.touching.setdefault((access.mem, access.writes), []).append((number, op, access))

    def flow(self, targets: Sequence[Value], sources: Sequence[Value]) -> None:
        for target, source in zip(targets, sources, strict=False):
            self.sources.setdefault(target, []).append(source)
            self.becomes.setdefault(source, []).append(target)

    def complete(self, wait: Op) -> None:
        token = _token(wait)
        assert wait.why is not None
        assert token is not None
        made = self.made(token)
        if not made:
            wait.why = replace(
                wait.why, reason="an empty commit group: no asynchronous copy", before=places([wait.loc])
            )
            return
        done = [a for op in made for a in op.accesses() if a.token is not None]
        if token.type == BULK_TOKEN:  # a wait with `reads` is for what has been read, one without for what is written
            reads = bool(wait.attributes().get("reads"))
            done = [a for a in done if a.writes != reads]
        later: dict[str, list[Op]] = {}
        between: dict[str, list[Value | None]] = {}
        for access in done:
            found = self.next_of(wait, access)
            if found is not None:
                kind = hazard(access.writes, found[1].writes)
                later.setdefault(kind, []).append(found[0])
                between.setdefault(kind, []).append(access.mem)
        users = self.first_users(wait) if wait.results else []
        kind = next((k for k in ("RAW", "WAR", "WAW") if k in later), "")
        reason = wait.why.reason
        after = users
        if reason == LANDED or (not users and kind):
            after = later.get(kind, [])
            reason = f"{kind} {names(between[kind])}" if kind else _at_end(token, done)
        before = places(op.loc for op in made)
        wait.why = replace(wait.why, reason=reason, before=before, after=places(op.loc for op in after))

    def made(self, token: Value) -> list[Op]:
        """The operations whose asynchronous work a token stands for, in the program's order."""
        found: dict[Op, None] = {}
        seen, left = {token}, [token]
        while left:
            value = left.pop()
            sources = list(self.sources.get(value, ()))
            op = value.op
            if op is not None and not op.regions:
                sources += op.stands_for()
                if op in self.number and any(a.token is not None for a in op.accesses()):
                    found[op] = None
            left += [v for v in sources if v not in seen]
            seen.update(sources)
        return sorted(found, key=lambda op: self.number[op])

    def next_of(self, wait: Op, access: Access) -> tuple[Op, Access] | None:
        """The next access behind a wait that one before it conflicts with: a read, if there is any."""
        if access.mem is None:
            return None
        for writes in (False, True) if access.writes else (True,):
            candidates = self.touching.get((access.mem, writes), ())
            at = bisect_right(candidates, self.number[wait], key=itemgetter(0))
            for n in chain(range(at, len(candidates)), range(at)):
                number, op, other = candidates[n]
                if self.follows(op, wait, number):
                    return op, other
        return None

    def follows(self, op: Op, wait: Op, number: int) -> bool:
        """Whether an operation may run behind a wait: in the program's order, in a loop around both, or in another
        role."""
        mine, theirs = self.path[wait], self.path[op]
        for (one, n), (other, m) in zip(mine, theirs, strict=False):
            if one is not other:
                break
            if isinstance(one, control.Loop) or (n != m and one.by_role):
                return True
            if n != m:
                return False
        return number > self.number[wait]

    def first_users(self, wait: Op) -> list[Op]:
        """What first uses the result of a wait, or what that becomes through branches and loops."""
        seen, left = {*wait.results}, [*wait.results]
        while left:
            new = [v for v in self.becomes.get(left.pop(), ()) if v not in seen]
            seen.update(new)
            left += new
        ops, first = self.behind[wait]
        around = (op for op, _ in reversed(self.path[wait]))
        while True:
            for n in range(first, len(ops)):
                for inner in ops[n].walk():
                    if inner.loc is not None and not inner.terminator and not seen.isdisjoint(inner.operands):
                        return [inner]
            outer = next(around, None)
            if outer is None:
                return []
            ops, first = self.behind[outer]


def _at_end(token: Value, done: Sequence[Access]) -> str:
    """Of a wait behind which nothing touches what its copies did."""
    if token.type == WGMMA_TOKEN:
        return ACCUMULATOR
    written = [a.mem for a in done if a.mem is not None and a.writes]
    tensors = [mem for mem in written if isinstance(mem.type, TensorType)]
    if tensors:
        return f"RAW {names(tensors)}: written when the kernel ends"
    shared = [a.mem for a in done if a.mem is not None and not isinstance(a.mem.type, TensorType)]
    if shared:
        return f"{'WAW' if written else 'WAR'} {names(shared)}: complete before the memory is given back"
    return "complete when the kernel ends"
