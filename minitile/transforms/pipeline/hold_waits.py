"""Arithmetic that was meant to run beside a product is complete in front of the wait for it.

    %o, %t = wgmma …                   %o, %t = wgmma …
    %s = … a sum of exponentials …     %s = …
    %r = await %o, %t             →    %r = if some_in_warp(bits of %s == NEVER) { %x = await %o, %t ; trap ; yield %x }
                                            orelse { %y = await %o, %t ; yield %y }

ptxas moves a wait up, past arithmetic that stands in front of it: for it only the accumulators depend on a wait. Then
the tensor cores are done before the exponentials begin. It moves no wait out of a branch, and what the branch's
condition needs stays in front (pin_waits does so with branches that are there). So the condition asks for bits that no
sum has: an f32 operation gives NaN as 0x7fffffff (PTX ISA 8.8, 9.7.3, "Floating Point Instructions"), and NEVER is
another NaN.
"""

from __future__ import annotations

from functools import reduce

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, roles, thread, warp
from minitile.ir.ops.thread import count_of
from minitile.ir.rewrite import clone
from minitile.ir.types import f32, u32
from minitile.transforms.manager import PassContext

NEVER = 0x7FBADBAD
FEW = 4  # registers of a value that a condition asks for: a thread's rows
LEAST = 64  # results of arithmetic, for a branch to be worth it


def hold_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not context.target.has("wgmma"):
        return
    renamed: dict[Value, Value] = {}
    _block(kernel.body, False, renamed)
    if renamed:
        for op in kernel.walk():
            op.replace_operands(lambda v: renamed.get(v, v))


def _block(block: Block, in_loop: bool, renamed: dict[Value, Value]) -> None:
    for number in reversed(range(len(block.ops))):
        op = block.ops[number]
        for region in op.regions:
            _block(region, in_loop or isinstance(op, control.Loop), renamed)
        if in_loop and type(op) is roles.Await and (held := _held(block.ops[:number], op.token)):
            ops = _branch(held, op)
            block.ops[number : number + 1] = ops
            renamed[op.result] = ops[-1].results[0]


def _held(before: list[Op], token: Value) -> list[Value]:
    """Values of few registers that most of the arithmetic leads to which is behind the product's issue and behind the
    last branch; none if that is little."""
    between: list[Op] = []
    for op in reversed(before):
        if op.region_fields or token in op.results:
            break
        between.insert(0, op)
    else:
        return []
    used = {v for op in between for v in op.operands}
    held = [
        op.result
        for op in between
        if isinstance(op, (arith.Add, arith.Sub, arith.Mul))
        and op.result.dtype is f32
        and count_of(op.result.type) <= FEW
        and op.result not in used
    ]
    needed, results = set(held), 0
    for op in reversed(between):
        if op.pure and not needed.isdisjoint(op.results):
            needed.update(op.operands)
            results += 0 if isinstance(op, thread.Pick) else sum(count_of(v.type) for v in op.results)
    return held if results >= LEAST else []


def _branch(held: list[Value], wait: roles.Await) -> list[Op]:
    """The wait in both arms of a branch, the last operation."""
    block = Block()
    b = Builder(block, wait.loc)
    found: list[Value] = []
    for value in held:
        same = b.value(arith.Cmp(b.value(arith.Reinterpret(value, u32)), b.constant(NEVER, u32), "eq"))
        found += [b.value(thread.Pick(same, (n,))) for n in range(count_of(value.type))]
    never = b.value(warp.SomeInWarp(reduce(lambda x, y: b.value(arith.Or(x, y)), found)))
    arms = Block(), Block()
    for arm, last in zip(arms, ([thread.Trap()], []), strict=True):
        arm.ops = [clone(wait, {}), *last]
        arm.ops.append(control.Yield(arm.ops[0].results))
    b.emit(control.If(never, then=arms[0], orelse=arms[1]))
    return block.ops
