"""Loops of single threads that load from tensors go several rounds at once, the loads of all of them first.

    for 0, 16, 1 [%c] (%k, %x) {              for 0, 16, 4 [%c] (%k, %x) {
      %a = load_run %A[%k*8]                    %a = load_run %A[%k*8] ; … ; %a3 = load_run %A[%k*8 + 24]
      %y = add %x, %a                    →      %y = add %x, %a ; … ; %y3 = add %y2, %a3
      yield %y }                                yield %y3 }

One round's loads alone are few bytes on their way: 16 of each thread, of a matrix times a vector. ptxas does not unroll
such loops; TileLang's programs are written for nvcc, which does, so it is done for them (the attribute
`resources_are_hints`): where the rounds are known to be a multiple of 2 or 4, nothing in them writes memory or
synchronises, and what is loaded takes no more than LOADED registers.
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.ops.runs import LoadRun
from minitile.ir.rewrite import clone, rewrite_loops
from minitile.ir.types import ScalarType, TensorType
from minitile.transforms.manager import PassContext

ROUNDS = (4, 2)
MOST = 96  # operations of a round
LOADED = 64  # registers


def unroll_loads(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if kernel.attrs.get("resources_are_hints"):
        rewrite_loops(kernel.body, _unroll)


def _unroll(loop: control.For, before: Block) -> None:
    ops = loop.body.before_end
    loads = [op for op in ops if _loads(op)]
    bounds = [constant_of(v) for v in (loop.lower, loop.upper, loop.step)]
    if not loads or len(ops) > MOST or loop.kind != "serial" or None in bounds:
        return
    if not all(_loads(op) or (op.pure and not op.uniform and not op.region_fields) for op in ops):
        return
    if not all(isinstance(v.type, ScalarType) for op in ops for v in op.results):
        return
    lower, upper, step = (int(n) for n in bounds if n is not None)
    rounds = len(range(lower, upper, step))
    words = sum(-(-len(op.results) * op.results[0].dtype.bits // 32) for op in loads)
    count = next((n for n in ROUNDS if rounds % n == 0 and rounds >= n and n * words <= LOADED), 1)
    if count > 1:
        several(loop, count, before)


def _loads(op: Op) -> bool:
    return isinstance(op, LoadRun | tile.Load) and isinstance(op.mem.type, TensorType)


def several(loop: control.For, count: int, before: Block) -> None:
    """`count` rounds in one, the loads of tensors and what they need in front."""
    end = loop.body.terminator
    assert isinstance(end, control.Yield)
    ops, made = loop.body.before_end, Block()
    carried: tuple[Value, ...] = loop.carried
    b = Builder(made, loop.loc)
    dtype = loop.iv.dtype
    step = int(constant_of(loop.step) or 1)
    for n in range(count):
        names = dict(zip(loop.carried, carried, strict=True))
        names[loop.iv] = b.add(loop.iv, b.constant(n * step, dtype)) if n else loop.iv
        made.ops += [clone(op, names) for op in ops]
        carried = tuple(names.get(v, v) for v in end.values)
    first = _needed(made.ops)
    loop.body.ops = [op for op in made.ops if op in first] + [op for op in made.ops if op not in first]
    end.values = carried
    loop.body.ops.append(end)
    loop.step = Builder(before, loop.loc).constant(count * step, dtype)


def _needed(ops: list[Op]) -> set[Op]:
    """The loads, and what they need."""
    inside, found = set(ops), set[Op]()
    work = [op for op in ops if _loads(op)]
    while work:
        op = work.pop()
        if op not in found:
            found.add(op)
            work += [v.op for v in op.operands if v.op is not None and v.op in inside]
    return found
