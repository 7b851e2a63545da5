"""Counts against an oracle: in no run is a group still in flight behind a wait for it, and in some run one more would
be."""

from __future__ import annotations

from random import Random

import pytest

from minitile.ir.core import Kernel, Op
from minitile.ir.ops import tile
from minitile.ir.parser import parse_kernel
from minitile.transforms.manager import PassContext
from minitile.transforms.sync.resolve_wait_counts import resolve_wait_counts
from tests.transforms.test_thread_barriers import COPY, GLOBAL, Run


class Groups(Run):
    """Follows commit groups by their number. `pending`: the counts by the waits' places; a wait that is not in there
    was found to be needless. `slack`: for each wait, how many groups younger than the awaited one there were at the
    least, over all runs in which that one was still in flight."""

    def __init__(self, random: Random, pending: dict[object, int], slack: dict[object, int]) -> None:
        super().__init__(random, None)
        self.pending = pending
        self.slack = slack
        self.committed = 0
        self.complete = 0
        self.waiting: list[object] = []  # copies in no group yet
        self.group: dict[object, int] = {}

    def op(self, op: Op) -> None:
        if isinstance(op, tile.Join):
            self.committed += 1
            members = {c for t in op.tokens for c in self.values[t]}  # type: ignore[attr-defined]
            self.values[op.result] = members
            self.group.update(dict.fromkeys(self.waiting, self.committed))
            self.waiting.clear()
        elif isinstance(op, tile.Wait):
            self.wait(op)
        else:
            super().op(op)

    def wait(self, op: tile.Wait) -> None:
        awaited = max((self.group[copy] for copy in self.values[op.token]), default=0)  # type: ignore[attr-defined]
        if awaited > self.complete:
            self.slack[op.loc] = min(self.committed - awaited, self.slack.get(op.loc, 99))
        if op.loc in self.pending:
            self.complete = max(self.complete, self.committed - self.pending[op.loc])
        assert awaited <= self.complete, f"{op} leaves its group in flight"

    def access(self, op: Op) -> None:
        super().access(op)
        if op.mnemonic == "cp_async":
            copy = object()
            self.values[op.result] = {copy}
            self.waiting.append(copy)


class Writer:
    """Writes random copies, commits, waits, branches and loops that carry tokens."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = 0
        self.lines: list[str] = []

    def new(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def emit(self, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def statements(self, tokens: list[str], depth: int) -> list[str]:
        """The tokens that are known afterwards, those given among them."""
        tokens = list(tokens)
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.random()
            if kind < 0.4 or not tokens:
                tokens.append(self.commit())
            elif kind < 0.65 or depth > 2:
                self.lines.append(f"wait {self.random.choice(tokens)}")
            elif kind < 0.8:
                tokens.append(self.branch(tokens, depth))
            else:
                tokens += self.loop(tokens, depth)
        return tokens

    def commit(self) -> str:
        copy = self.emit(f"cp_async %s, %g, %S, %B {COPY}")
        return self.emit(f"join {copy}")

    def branch(self, tokens: list[str], depth: int) -> str:
        flag = self.emit(f"load_mem %g, %B {GLOBAL}")
        condition = self.emit(f'cmp {flag}, 0 {{predicate = "gt"}}')
        result = self.new()
        self.lines.append(f"{result} = if {condition} : token then {{")
        self.lines.append(f"yield {self.statements(tokens, depth + 1)[-1]}")
        self.lines.append("} orelse {")
        self.lines += [f"yield {self.random.choice(tokens)}", "}"]
        return result

    def loop(self, tokens: list[str], depth: int) -> list[str]:
        trips = self.emit(f"load_mem %g, %B {GLOBAL}")
        count = self.random.randint(1, 3)
        init = [self.random.choice(tokens) for _ in range(count)]
        args, results = [self.new() for _ in init], [self.new() for _ in init]
        carried = ", ".join(f"{a}: token" for a in args)
        types = ", ".join(["token"] * count)
        self.lines.append(
            f"{', '.join(results)} = for 0, {trips}, 1, [{', '.join(init)}] : {types} ({self.new()}: i32, {carried}) {{"
        )
        inside = self.statements([*tokens, *args], depth + 1)
        self.lines += [f"yield {', '.join(self.random.choice(inside) for _ in args)}", "}"]
        return results


def write(random: Random) -> Kernel:
    writer = Writer(random)
    writer.statements([], 0)
    body = "\n".join(writer.lines)
    return parse_kernel(f"""thread kernel @k(%B: tensor<64xi32>) attrs {{threads = 96}} {{
        %S = alloc {{type_ = shared<64xf32>}}
        %s = buffer_address %S
        %g = global_address %B
        {body}
    }}""")


def counts(kernel: Kernel) -> tuple[dict[object, int], int]:
    """The pending count of each wait that is left, by its place, and how many waits there were."""
    waits = sum(isinstance(op, tile.Wait) for op in kernel.walk())
    resolve_wait_counts(kernel, PassContext())
    left: dict[object, int] = {}
    for op in kernel.walk():
        if isinstance(op, tile.Wait):
            assert op.pending is not None
            left[op.loc] = op.pending
    return left, waits


def test_no_wait_is_too_short_and_few_too_long() -> None:
    exact = total = removed = 0
    for seed in range(100):
        pending, waits = counts(write(Random(seed)))
        slack: dict[object, int] = {}
        kernel = write(Random(seed))
        for run in range(30):
            Groups(Random(run), pending, slack).block(kernel.body)
        removed += waits - len(pending)
        total += len(slack)
        exact += sum(pending[loc] == n for loc, n in slack.items())
    assert removed > 10
    assert total > 80
    assert exact > 0.85 * total, f"{exact} of {total}"


@pytest.mark.parametrize("change", [1, 2])
def test_the_oracle_sees_waits_that_are_too_short(change: int) -> None:
    found = 0
    for seed in range(40):
        kernel = write(Random(seed))
        pending, _ = counts(write(Random(seed)))
        longer = {loc: n + change for loc, n in pending.items()}
        try:
            for run in range(20):
                Groups(Random(run), longer, {}).block(kernel.body)
        except AssertionError:
            found += 1
    assert found > 20
