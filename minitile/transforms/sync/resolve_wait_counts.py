"""Tokens to counts, the last thing before emission: how many later commit groups may each `wait` leave in flight?

    %t0 = join %a                                  %t0 = join %a
    %t1 = join %b                                  %t1 = join %b
    for … [%t0, %t1] (%k, %u0, %u1) {       ->     for … [%t0, %t1] (%k, %u0, %u1) {
      wait %u0                                       wait %u0 {pending = 1}
      %u2 = join %c                                  %u2 = join %c
      yield %u1, %u2                                 yield %u1, %u2

Each `join` commits one group of its tokens' kind (cp.async.commit_group, cp.async.bulk.commit_group), an empty one too;
each `wgmma` one of its own kind, and `await` is its wait. Groups of a kind complete in order, so that waiting until at
most N are in flight completes a token exactly when N groups or more were committed after its own, on every path that
leads here: N is the least over the paths (PTX ISA 8.3, 9.7.8.24.5 "cp.async.wait_group", 9.7.14.7.3
"wgmma.wait_group").

LDS-DMA (AMD) has no groups: vmcnt counts instructions, which complete in order as well, so that each copy is as many
steps as it has instructions, and a join is as old as its youngest copy. Loads and stores count, too; leaving them out
only makes a wait stronger.

A forward walk counts, for each token, the groups committed since. Where paths meet, the least count holds; loops are
walked until nothing changes (counts only fall). What a token reads is counted apart: a wait with `reads` completes the
reads of its group and of those before, nothing else (9.7.8.24.13 "cp.async.bulk.wait_group"). A wait for a token that
is complete anyway, since there is nothing to wait for or a wait before this one has covered it, disappears. A copy that
is awaited without a join gets one.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, explicit, hopper, roles, thread, tile
from minitile.ir.types import BULK_TOKEN, WGMMA_TOKEN, TokenType, Type
from minitile.transforms.manager import PassContext

Ages = dict[tuple[Value, bool], int]  # groups of its kind committed after the token's own; for all of it, or its reads
_Waiting = tile.Wait | roles.Await
COMPLETE = 1 << 30  # the age of a token that needs no wait; counting on does not make it less
_UNCOMMITTED = -1  # a copy in no group yet; the next group takes it in


def resolve_wait_counts(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    counts = _Counts()
    counts.instructions = any(isinstance(op, thread.CpAsync) and op.wave for op in kernel.walk())
    last_uses(kernel.body, counts.over)
    _block(kernel.body, {}, counts)
    _write(kernel.body, counts)


class _Counts(dict[Op, int]):
    """The age of each wait's token. `instructions`: it is these that are counted, not groups (AMD's vmcnt). `ended`: of
    waits that the program counts by itself, the tokens of gemms that are complete behind them on every path.
    `over`: the tokens of which nothing is asked behind an operation of their block."""

    instructions = False

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[Op, set[Value]] = {}
        self.over: dict[Op, list[Value]] = {}


def ended_gemms(kernel: Kernel) -> dict[Op, set[Value]]:
    """The tokens of gemms that each wait_gemms of a program completes."""
    counts = _Counts()
    if any(isinstance(op, explicit.WaitGemms) for op in kernel.walk()):
        _block(kernel.body, {}, counts)
    return counts.ended


def last_uses(block: Block, over: dict[Op, list[Value]]) -> set[Value]:
    """Which tokens a block uses; notes behind which operation those of its own are forgotten, so that an age is kept
    for as long as a wait may ask for it, and a kernel's many waits do not each walk over all tokens before."""
    used: set[Value] = set()
    own = {v for op in block.ops for v in op.results} | set(block.args)
    for op in reversed(block.ops):
        if op.elementwise:
            continue
        now = {v for v in op.operands if isinstance(v.type, TokenType)}
        for region in op.regions:
            now |= last_uses(region, over)
        made = {v for v in op.results if isinstance(v.type, TokenType)}
        if not op.terminator:  # what it hands on is asked for by what takes it
            over[op] = list(((now - used) & own) | (made - used))
        used |= now
    return used


def _write(block: Block, counts: _Counts) -> None:
    """Write the counts into the waits; remove those that wait for nothing."""
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _write(region, counts)
        if isinstance(op, (tile.Wait, roles.Await)):
            age = counts[op]
            if age >= COMPLETE and isinstance(op, tile.Wait):
                continue
            if age == _UNCOMMITTED:
                commit = tile.Join((op.token,))
                commit.loc = op.loc
                ops.append(commit)
            op.pending = max(age, 0) if age < COMPLETE else None
        ops.append(op)
    block.ops = ops


def _block(block: Block, ages: Ages, counts: _Counts) -> None:
    """Walk a block; `ages` becomes what holds at its end, `counts` gets the age of each awaited token."""
    for op in block.ops:
        if op.elementwise:  # has nothing to do with tokens
            continue
        _one(op, ages, counts)
        for token in counts.over.get(op, ()):
            for reads in (False, True):
                ages.pop((token, reads), None)


def _one(op: Op, ages: Ages, counts: _Counts) -> None:
    if isinstance(op, (tile.Wait, roles.Await)):
        _wait(op, ages, counts)
    elif counts.instructions and isinstance(op, tile.Join):
        _start(ages, op.result, min((ages[t, False] for t in op.tokens), default=COMPLETE))
    elif counts.instructions and isinstance(op, thread.CpAsync):
        _commit(ages, op.result.type, len(op.dst_of))
        _start(ages, op.result, 0)
    elif isinstance(op, (tile.Join, hopper.Wgmma)):
        token = op.results[-1]
        _commit(ages, token.type)
        _start(ages, token, 0)
    elif isinstance(op, explicit.CommitGemms):
        _commit(ages, WGMMA_TOKEN)
    elif isinstance(op, explicit.CommitStores):
        _commit(ages, BULK_TOKEN)
    elif isinstance(op, explicit.WaitStores):
        for key, age in ages.items():
            if key[0].type == BULK_TOKEN and age >= op.pending and (key[1] or not op.reads):
                ages[key] = COMPLETE
    elif isinstance(op, explicit.WaitGemms):
        ended = [key for key, age in ages.items() if key[0].type == WGMMA_TOKEN and age >= op.pending]
        counts.ended[op] = {token for token, _ in ended if ages[token, False] < COMPLETE}
        ages.update(dict.fromkeys(ended, COMPLETE))
    elif isinstance(op, tile.NoToken):
        _start(ages, op.result, COMPLETE)
    elif isinstance(op, control.For):
        _for(op, ages, counts)
    elif isinstance(op, control.While):
        _while(op, ages, counts)
    elif isinstance(op, control.If):
        _if(op, ages, counts)
    else:
        for result in op.results:
            if isinstance(result.type, TokenType):
                _start(ages, result, _UNCOMMITTED)


def _start(ages: Ages, token: Value, age: int) -> None:
    ages[token, False] = ages[token, True] = age


def _commit(ages: Ages, kind: Type, count: int = 1) -> None:
    for key in ages:
        if key[0].type == kind:
            ages[key] += count


def _wait(op: _Waiting, ages: Ages, counts: _Counts) -> None:
    only_reads = isinstance(op, tile.Wait) and op.reads
    age = counts[op] = ages[op.token, only_reads]
    if age >= COMPLETE:
        return
    if age == _UNCOMMITTED:
        _commit(ages, op.token.type)
        age = 0
    for (token, reads), other in ages.items():
        if other >= age and token.type == op.token.type and (reads or not only_reads):
            ages[token, reads] = COMPLETE


def _meet(into: Ages, other: Ages) -> bool:
    """Keep the lesser count of each token that both paths know. Whether that changes anything."""
    changed = False
    for key in into:
        if key in other and other[key] < into[key]:
            into[key] = other[key]
            changed = True
    return changed


def _carry(ages: Ages, targets: tuple[Value, ...], sources: Sequence[Value]) -> Ages:
    """The ages that targets get from sources."""
    pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if isinstance(t.type, TokenType)]
    return {(t, reads): ages[s, reads] for t, s in pairs for reads in (False, True)}


def _for(op: control.For, ages: Ages, counts: _Counts) -> None:
    results = _carry(ages, op.results, op.init)
    head = ages | _carry(ages, op.carried, op.init)
    while True:
        end = dict(head)
        _block(op.body, end, counts)
        back = end | _carry(end, op.carried, op.body.yielded)
        if not _meet(head, back):
            break
    ages |= results
    _meet(ages, end | _carry(end, op.results, op.body.yielded))


def _while(op: control.While, ages: Ages, counts: _Counts) -> None:
    head = ages | _carry(ages, op.before.args, op.init)
    while True:
        left = dict(head)
        _block(op.before, left, counts)
        passed = op.before.yielded[1:]
        end = left | _carry(left, op.body.args, passed)
        _block(op.body, end, counts)
        if not _meet(head, end | _carry(end, op.before.args, op.body.yielded)):
            break
    for key in ages:
        ages[key] = left[key]
    ages |= _carry(left, op.results, passed)


def _if(op: control.If, ages: Ages, counts: _Counts) -> None:
    ends = []
    for region in op.regions:
        end = dict(ages)
        _block(region, end, counts)
        ends.append(end | _carry(end, op.results, region.yielded))
    _meet(ends[0], ends[1])
    ages.update({key: age for key, age in ends[0].items() if key in ages or key[0] in op.results})
