"""The wait for a product that a branch alone reads stands in both of its arms.

    %o = await %product, %token              %y = if %any { %o = await %product, %token
    release %slot                    →                      %z = … %o …
    %y = if %any { %z = … %o …                              yield %z }
                   yield %z }                    orelse { %o = await %product, %token
         orelse { yield %o }                              yield %o }
                                             release %slot

ptxas moves a wait up, past the arithmetic that was meant to run beside the product: for it only the accumulators depend
on a wait. It moves none out of a branch, and no arithmetic that stands before the branch into it.
"""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles
from minitile.ir.rewrite import clone
from minitile.transforms.manager import PassContext


def pin_waits(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    readers: dict[Value, list[Op]] = {}
    for op in kernel.walk():
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    for op in list(kernel.walk()):
        if isinstance(op, control.Loop):
            for block in op.regions:
                _block(block, readers)


def _block(block: Block, readers: dict[Value, list[Op]]) -> None:
    for branch in [op for op in block.ops if isinstance(op, control.If)]:
        inside = {id(op) for region in branch.regions for op in region.walk()}
        for wait in [op for op in block.ops if isinstance(op, roles.Await)]:
            users = readers.get(wait.result, [])
            if users and all(id(user) in inside for user in users):
                _move(block, wait, branch)


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
        for op in ops:
            op.replace_operands(lambda v, new=again: new if v is wait.result else v)
            for inner in (inner for r in op.regions for inner in r.walk()):
                inner.replace_operands(lambda v, new=again: new if v is wait.result else v)
            region.ops.append(op)
