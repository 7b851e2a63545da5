"""The wait for a product that a shortcut of some warps alone reads (skip_rows.py) stands in both arms of its branch.

    %o = await %product, %token              %y = if %any { %o = await %product, %token
    release %slot                    →                      %z = … %o …
    %y = if %any { %z = … %o …                              yield %z }
                   yield %z }                    orelse { %o = await %product, %token
         orelse { yield %o }                              yield %o }
                                             release %slot

ptxas moves a wait up, past the arithmetic that was meant to run beside the product: for it only the accumulators depend
on a wait. It moves none out of a branch, and no arithmetic that stands before the branch into it. Masks' branches stay:
a product that they read is what the arithmetic begins with, and its operands' slot is released the sooner.
"""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, warp
from minitile.ir.rewrite import clone
from minitile.transforms.manager import PassContext


def pin_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not context.target.has("wgmma"):
        return
    found = _found(kernel.body, in_loop=False)
    if not found:
        return
    readers: dict[Value, list[Op]] = {}
    for op in kernel.walk():
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    for block, branch in found:
        inside = {op for region in branch.regions for op in region.walk()}
        for wait in [op for op in block.ops if isinstance(op, roles.Await)]:
            users = readers.get(wait.result)
            if users and inside.issuperset(users):
                _move(block, wait, branch)


def _found(block: Block, in_loop: bool) -> list[tuple[Block, control.If]]:
    """The shortcuts of loops behind waits, with their blocks."""
    found: list[tuple[Block, control.If]] = []
    waits = False
    for op in block.ops:
        if op.region_fields:
            for region in op.regions:
                found += _found(region, in_loop or isinstance(op, control.Loop))
        if type(op) is roles.Await:
            waits = in_loop
        elif waits and type(op) is control.If and isinstance(op.condition.op, warp.SomeInWarp):
            found.append((block, op))
    return found


def _move(block: Block, wait: roles.Await, branch: control.If) -> None:
    """The branch to where the wait is, if what it needs can go there too."""
    first, last = block.ops.index(wait), block.ops.index(branch)
    between = block.ops[first + 1 : last]
    needed: set[Value] = {v for op in (branch, *(op for r in branch.regions for op in r.walk())) for v in op.operands}
    early: list[Op] = []
    for op in reversed(between):
        if needed.intersection(op.results):
            if not op.pure or wait.result in op.operands:
                return
            needed.update(op.operands)
            early.insert(0, op)
    taken = {id(op) for op in early}
    block.ops = [
        *block.ops[:first], *early, branch, *(op for op in between if id(op) not in taken), *block.ops[last + 1 :]
    ]  # fmt: skip
    for region in branch.regions:
        ops, region.ops = region.ops, []
        b = Builder(region)
        b.loc = wait.loc
        (again,) = b.emit(clone(wait, {})).results
        for op in (inner for outer in ops for inner in outer.walk()):
            _replace(op, wait.result, again)
        region.ops += ops


def _replace(op: Op, old: Value, new: Value) -> None:
    op.replace_operands(lambda v: new if v is old else v)
