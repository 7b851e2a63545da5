"""Random structured programs on i32 scalars and registers, and an interpreter of them to compare with.

They are made to hand values over in every way: loops that swap what they carry, branches that pass values through,
loops in loops, zero trips, values used after the loop that carried them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, thread
from minitile.ir.types import RegsType, Type, i32
from tests.backends.nvidia.harness import Array

_BINARY = {
    arith.Add: np.add,
    arith.Sub: np.subtract,
    arith.Xor: np.bitwise_xor,
    arith.Mul: np.multiply,
    arith.Min: np.minimum,
    arith.Max: np.maximum,
    arith.And: np.bitwise_and,
}
Env = dict[Value, Array]


class Programs:
    """A random program of about `size` operations, made from a seed."""

    def __init__(self, b: Builder, seed: int, size: int) -> None:
        self.b = b
        self.random = random.Random(seed)
        self.left = size

    def block(self, values: Sequence[Value], depth: int = 0) -> list[Value]:
        """Operations on the values in sight; returns all that are in sight after them."""
        values = list(values)
        for _ in range(self.random.randint(1, 5)):
            self.left -= 1
            make = self.random.choices(
                (self.compute, self.loop, self.branch, self.while_, self.rearrange), (5, 2, 2, 1, 1)
            )[0]
            if self.left < 0 or depth > 3:
                make = self.compute
            values += make(values, depth)
        return values

    def pick(self, values: Sequence[Value], type: Type) -> Value:
        """One of the type; late ones are likelier, so that values also die."""
        fitting = [v for v in values if v.type == type]
        return self.random.choice(fitting[-4:] if self.random.random() < 0.6 else fitting)

    def some(self, values: Sequence[Value]) -> list[Value]:
        """Values to hand over, of both types, repeated ones among them."""
        return [self.pick(values, self.random.choice(values).type) for _ in range(self.random.randint(1, 4))]

    def compute(self, values: Sequence[Value], depth: int) -> list[Value]:
        a = self.pick(values, self.random.choice(values).type)
        op = self.random.choice(list(_BINARY))
        return [self.b.emit(op(a, self.pick(values, a.type))).result]

    def rearrange(self, values: Sequence[Value], depth: int) -> list[Value]:
        vectors = [v for v in values if isinstance(v.type, RegsType)]
        a = self.random.choice(vectors)
        count = thread.count_of(a.type)
        order = tuple(self.random.randrange(count) for _ in range(count))
        return [self.b.emit(thread.Pick(a, order)).result]

    def loop(self, values: Sequence[Value], depth: int) -> list[Value]:
        init = self.some(values)
        trips = self.b.constant(self.random.randint(0, 3))
        if self.random.random() < 0.5:
            trips = self.b.emit(arith.And(self.pick(values, trips.type), self.b.constant(3))).result
        op = control.For(self.b.constant(0), trips, self.b.constant(1), tuple(init))
        iv = op.body.add_arg(trips.type)
        carried = [op.body.add_arg(v.type) for v in init]
        with self.b.inside(op.body):
            inside = self.block([*values, iv, *carried], depth + 1)
            self.b.emit(control.Yield(tuple(self.hand_on(inside, carried))))
        self.b.emit(op)
        return list(op.results)

    def hand_on(self, values: Sequence[Value], carried: Sequence[Value]) -> list[Value]:
        """One value for each carried one; often another of the carried ones, as in a swap."""
        chosen = []
        for c in carried:
            swap = [v for v in carried if v.type == c.type]
            chosen.append(self.random.choice(swap) if self.random.random() < 0.3 else self.pick(values, c.type))
        return chosen

    def branch(self, values: Sequence[Value], depth: int) -> list[Value]:
        scalar = self.pick(values, next(v.type for v in values if not isinstance(v.type, RegsType)))
        condition = self.b.emit(arith.Cmp(scalar, self.b.constant(self.random.randint(-3, 3)), "lt")).result
        types = [v.type for v in self.some(values)] if self.random.random() < 0.9 else []
        op = control.If(condition)
        for block in (op.then, op.orelse):
            with self.b.inside(block):
                inside = self.block(values, depth + 1) if self.random.random() < 0.7 else list(values)
                self.b.emit(control.Yield(tuple(self.pick(inside, t) for t in types)))
        op.set_results(tuple(types))
        self.b.emit(op)
        return list(op.results)

    def while_(self, values: Sequence[Value], depth: int) -> list[Value]:
        zero = self.b.constant(0)
        init = [zero, *self.some(values)]
        limit = self.b.emit(arith.And(self.pick(values, zero.type), self.b.constant(3))).result
        before, body = Block(), Block()
        first = [before.add_arg(v.type) for v in init]
        with self.b.inside(before):
            flag = self.b.emit(arith.Cmp(first[0], limit, "lt")).result
            rest = first[1:]
            self.random.shuffle(rest)
            self.b.emit(control.Condition(flag, (first[0], *rest)))
        inner = [body.add_arg(v.type) for v in (first[0], *rest)]
        with self.b.inside(body):
            count = self.b.emit(arith.Add(inner[0], self.b.constant(1))).result
            inside = self.block([*values, *inner], depth + 1)
            self.b.emit(control.Yield((count, *[self.pick(inside, v.type) for v in first[1:]])))
        op = control.While(tuple(init), before=before, body=body)
        self.b.emit(op)
        return list(op.results)


def interpret(block: Block, env: Env) -> list[Array]:
    """Runs a block on arrays, one thread's numbers; returns what its terminator passes on."""
    for op in block.ops:
        if isinstance(op, (control.Yield, control.Condition)):
            return [env[v] for v in op.values]
        _step(op, env)
    return []


def _step(op: Op, env: Env) -> None:
    if isinstance(op, control.For):
        carried = [env[v] for v in op.init]
        for n in range(int(env[op.lower][0]), int(env[op.upper][0]), int(env[op.step][0])):
            env.update(zip(op.body.args, [np.array([n], np.int32), *carried], strict=True))
            carried = interpret(op.body, env)
        env.update(zip(op.results, carried, strict=True))
    elif isinstance(op, control.While):
        carried = [env[v] for v in op.init]
        while True:
            env.update(zip(op.before.args, carried, strict=True))
            passed = interpret(op.before, env)
            end = op.before.terminator
            assert isinstance(end, control.Condition)
            if not env[end.flag][0]:
                break
            env.update(zip(op.body.args, passed, strict=True))
            carried = interpret(op.body, env)
        env.update(zip(op.results, passed, strict=True))
    elif isinstance(op, control.If):
        env.update(zip(op.results, interpret(op.then if env[op.condition][0] else op.orelse, env), strict=True))
    elif isinstance(op, arith.Constant):
        env[op.result] = np.array([op.value], np.int32)
    elif isinstance(op, thread.Pick):
        env[op.result] = env[op.a][list(op.indices)]
    elif isinstance(op, arith.Cmp):
        env[op.result] = env[op.a] < env[op.b]
    else:
        with np.errstate(over="ignore"):
            env[op.results[0]] = _BINARY[type(op)](*[env[v] for v in op.operands]).astype(i32.numpy)
