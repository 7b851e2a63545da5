"""Removes what is not used: pure operations and loads without users, carried values and results without readers, and
loops and branches that are left with nothing to do.

    %r:2 = for 0, %n, 1, [%z, %z] (%k, %a, %b) {       %r = for 0, %n, 1, [%z] (%k, %a) {
      %x = load %A[%k]                                   %x = load %A[%k]
      %y = add %a, %x                            ->      %y = add %a, %x
      %u = mul %b, 2.0                                   yield %y
      yield %y, %u                                     }
    }   // %r:1 has no reader

One backward walk. A carried value lives when its result does, or when something alive in the body reads it; each
newly found one makes the walk look at that body again.
"""

from __future__ import annotations

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control
from minitile.transforms.manager import PassContext


def dead_code(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    remove_dead(kernel.body, set())


def remove_dead(block: Block, live: set[Value]) -> None:
    """Remove what is dead in a block, given the values that are needed after it; `live` grows by what it needs."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        if live.isdisjoint(op.results) and _removable(op):
            continue
        if op.region_fields:
            if isinstance(op, control.For):
                _for(op, live)
            elif isinstance(op, control.If):
                _if(op, live)
            else:
                for region in reversed(op.regions):
                    remove_dead(region, live)
            if _idle(op):
                continue
        live.update(op.operands)
        kept.append(op)
    block.ops = kept[::-1]


def _removable(op: Op) -> bool:
    """Whether nothing but the results of the operation matters: it is pure, or it only reads memory."""
    if op.pure:
        return True
    if op.terminator or op.region_fields or not op.results:
        return False
    accesses = op.accesses()
    return bool(accesses) and all(a.kind == "read" and a.token is None and a.mem is not None for a in accesses)


def _idle(op: Op) -> bool:
    """Whether a loop or branch has no results and does nothing."""
    if op.results or not isinstance(op, (control.For, control.If)):
        return False
    return all(region.is_empty for region in op.regions)


def _for(op: control.For, live: set[Value]) -> None:
    end = op.body.terminator
    needed = [r in live for r in op.results]
    if end is None:
        remove_dead(op.body, live)
        return
    yields = end.operands
    while True:
        # The walk removes operations, so what only the dead carried values need must be known to be dead.
        found = _needs(op.body, {y for y, n in zip(yields, needed, strict=True) if n})
        grown = [n or a in found for n, a in zip(needed, op.carried, strict=True)]
        if grown == needed:
            break
        needed = grown
    if not all(needed):
        assert isinstance(end, control.Yield)
        end.values = _only(end.values, needed)
        op.init = _only(op.init, needed)
        op.results = _renumbered(_only(op.results, needed))
        op.body.args = (op.iv, *_only(op.carried, needed))
        _renumbered(op.body.args)
    remove_dead(op.body, live)


def _if(op: control.If, live: set[Value]) -> None:
    needed = [r in live for r in op.results]
    if not all(needed):
        for region in op.regions:
            end = region.terminator
            assert isinstance(end, control.Yield)
            end.values = _only(end.values, needed)
        op.results = _renumbered(_only(op.results, needed))
    for region in reversed(op.regions):
        remove_dead(region, live)


def _needs(block: Block, live: set[Value]) -> set[Value]:
    """`live` and every value that the block needs to make it; a superset, and nothing is changed. The block's own yield
    counts only as far as `live` says."""
    own_end = block.terminator

    def go(inner: Block) -> None:
        for op in reversed(inner.ops):
            if op is own_end:
                continue
            if live.isdisjoint(op.results) and _removable(op):
                continue
            for region in reversed(op.regions) if op.region_fields else ():
                go(region)
            live.update(op.operands)

    go(block)
    return live


def _only(values: tuple[Value, ...], keep: list[bool]) -> tuple[Value, ...]:
    return tuple([v for v, k in zip(values, keep, strict=True) if k])


def _renumbered(values: tuple[Value, ...]) -> tuple[Value, ...]:
    for i, v in enumerate(values):
        v.index = i
    return values
