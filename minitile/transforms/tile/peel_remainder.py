"""A loop over whole pieces and a last part of one becomes two: the whole ones need no bounds.

    %n = floordiv (%K + 255), 256                 %whole = floordiv %K, 256
    %r = for 0, %n, 1, [%z] (%k, %c) {            %q = for 0, %whole, 1, [%z] (%k, %c) { … }
      %x = load_run %A[256 * %k + %t]       →     %r = for %whole, %n, 1, [%q] (%k, %c) { … }
      …
    }

In the first one `%k < %whole` proves what the loads' predicates would ask at run time; the second has a round or none,
and asks. A predicated load also needs its registers cleared before, and the assembler moves it less freely: of three
loads of 16 bytes in a loop it left the last one behind the arithmetic of the others.

Of a constant number of rounds, the last one is the second loop. That is done for loops of scalar code with runs of
tensors' elements (`join_accesses`) whose bounds are proven that way and not otherwise, of up to MOST operations.
"""

from __future__ import annotations

from minitile.analysis.affine import Facts
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control
from minitile.ir.ops.runs import LoadRun, StoreRun
from minitile.ir.rewrite import clone, rewrite_loops
from minitile.ir.types import TensorType
from minitile.transforms.manager import PassContext

MOST = 1024
"""Operations of a loop, which is written twice."""


def peel_remainder(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if any(_is_run(op) for op in kernel.walk()):
        facts = Facts(kernel)
        rewrite_loops(kernel.body, lambda loop, before: _peel(loop, before, facts))


def _is_run(op: Op) -> bool:
    return isinstance(op, LoadRun | StoreRun) and isinstance(op.mem.type, TensorType)


def _peel(loop: control.For, before: Block, facts: Facts) -> None:
    body = list(loop.body.walk())
    if len(body) > MOST or any(op.uniform or op.orders or op.syncs() for op in body):
        return
    runs = [op for op in body if _is_run(op) and not _inside(op, facts)]
    made = Block()
    end = _whole_pieces(loop, Builder(made, loop.loc), facts) if runs else None
    if end is None:
        return
    first = clone(loop, {})
    assert isinstance(first, control.For)
    first.upper = end
    facts.note(first)
    copies = [op for op, old in zip(first.body.walk(), body, strict=True) if old in runs]
    if any(_inside(op, facts) for op in copies):
        before.ops += [*made.ops, first]
        loop.lower, loop.init = end, first.results


def _whole_pieces(loop: control.For, b: Builder, facts: Facts) -> Value | None:
    """How many rounds a loop has for sure whole pieces for: of a number of rounds from 0 to ceil(x / d), floor(x / d),
    where x is not negative; of constant ones all but the last. None for other loops."""
    op, rounds = loop.upper.op, constant_of(loop.upper)
    if loop.kind != "serial" or constant_of(loop.lower) != 0 or constant_of(loop.step) != 1:
        return None
    if rounds is not None:
        return b.constant(rounds - 1, loop.upper.dtype) if rounds > 1 else None
    if not isinstance(op, arith.FloorDiv) or not isinstance(op.a.op, arith.Add):
        return None
    x, d = op.a.op.a, constant_of(op.b)
    if d is None or d < 2 or constant_of(op.a.op.b) != d - 1 or not facts.nonnegative(facts.affine(x)):
        return None
    return b.floordiv(x, d)


def _inside(op: Op, facts: Facts) -> bool:
    """Whether no element of a run is outside its tensor, for sure."""
    assert isinstance(op, LoadRun | StoreRun)
    count = len(op.values) if isinstance(op, StoreRun) else op.count
    for d, index in enumerate(op.indices):
        start, reach = facts.affine(index), count - 1 if d == op.along else 0
        if not facts.nonnegative(start) or not facts.less(start + reach, facts.size(op.mem, d)):
            return False
    return True
