"""What loops and branches say of themselves: run by `course` and `transfers` alone, they compute what they should."""

from __future__ import annotations

from typing import Any

import pytest

from minitile.ir.builder import COMPARE, INTEGER
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control
from minitile.ir.parser import parse_kernel
from minitile.ir.verifier import verify

TEXT = """
tile kernel @collatz(%n: i32) {
  %total, %last = for 0, %n, 2, [0, -1] : i32, i32 (%k: i32, %sum: i32, %previous: i32) {
    %steps, %at = while [0, %k] : i32, i32 before (%s: i32, %v: i32) {
      %more = cmp %v, 1 {predicate = "gt"}
      condition %more, [%s, %v]
    } body (%s: i32, %v: i32) {
      %odd = and %v, 1
      %is_odd = cmp %odd, 1 {predicate = "eq"}
      %next = if %is_odd : i32 then {
        %tripled = mul %v, 3
        %up = add %tripled, 1
        yield %up
      } orelse {
        %half = floordiv %v, 2
        yield %half
      }
      %s1 = add %s, 1
      yield [%s1, %next]
    }
    %more = add %sum, %steps
    yield [%more, %k]
  }
}
"""


class Machine:
    """Runs integer arithmetic; of structured control flow it knows no operation by name."""

    def __init__(self) -> None:
        self.known: dict[Value, Any] = {}

    def get(self, v: Value) -> Any:
        return v.op.value if isinstance(v.op, arith.Constant) else self.known[v]

    def hand(self, transfer: control.Transfer) -> None:
        numbers = [self.get(v) for v in transfer.values]
        for targets in transfer.targets:
            self.known.update(zip(targets, numbers, strict=True))

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        if isinstance(op, control.Structured):
            if op.repeats:
                self.hand(op.transfer(None))
            for region, numbers in op.course(self.get):
                self.known.update(zip(region.args, numbers, strict=False))
                self.block(region)
                self.hand(op.transfer(region))
        elif isinstance(op, arith.Cmp):
            self.known[op.result] = COMPARE[op.predicate](self.get(op.a), self.get(op.b))
        elif type(op) in INTEGER:
            self.known[op.result] = INTEGER[type(op)](*map(self.get, op.operands))


def collatz(k: int) -> int:
    steps = 0
    while k > 1:
        k = 3 * k + 1 if k % 2 else k // 2
        steps += 1
    return steps


@pytest.mark.parametrize("n", [0, 1, 2, 13, 60])
def test_course_and_transfers(n: int) -> None:
    kernel = parse_kernel(TEXT)
    verify(kernel)
    machine = Machine()
    machine.known[kernel.params[0]] = n
    machine.block(kernel.body)
    (loop,) = (op for op in kernel.body.ops if isinstance(op, control.For))
    turns = range(0, n, 2)
    assert [machine.known[r] for r in loop.results] == [sum(map(collatz, turns)), max(turns, default=-1)]


def test_columns() -> None:
    """Which values are given the same, and what they may have been."""
    kernel = parse_kernel(TEXT)
    loops = {type(op): op for op in kernel.walk() if isinstance(op, control.Structured)}
    loop, while_, branch = (loops[kind] for kind in (control.For, control.While, control.If))
    assert isinstance(loop, control.For)
    assert isinstance(while_, control.While)
    total, last = loop.results
    assert loop.column(last) == ([loop.carried[1], last], [loop.init[1], loop.iv])
    assert loop.column(loop.carried[0]) == ([loop.carried[0], total], [loop.init[0], loop.body.yielded[0]])
    assert loop.column(loop.iv) == ([], [])
    s, v = while_.before.args
    assert while_.column(v) == ([v], [while_.init[1], while_.body.yielded[1]])
    assert while_.column(while_.body.args[0]) == ([while_.body.args[0], while_.results[0]], [s])
    assert branch.column(branch.result) == ([branch.result], [r.yielded[0] for r in branch.regions])
    assert loop.decides() == [loop.lower, loop.upper, loop.step]
    assert while_.decides() == [while_.before.yielded[0]]
