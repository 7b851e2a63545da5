"""Control flow in the forms that the prover reads: each step here rewrites statements into others that do the same.

| module | what it rewrites |
|---|---|
| `division` | a product by a factor and a shift, where that is a division |
| `layout` | blocks that stand in front of what leads to them |
| `retries` | waits that are tried again behind arithmetic, or after a while |
| `rotation` | loops that are tested at their head, or by two truths; branches around jumps |
| `unrolled` | loops of a few rounds at most |
| `counters` | tests of loops that count down, to `!=`, to `<=`, by a sum, or by a register that another loop has too |
| `wide` | counters of 64 bits, pointers among them |
| `strides` | counters that grow by a register |
| `sums` | numbers that are moved on; other registers that grow once a round; starts of counters |
| `told` | rounds of loops whose end shared memory or an atomic operation tells |

Each rewrite says what must hold of the statements (its precondition), and leaves alone what does not have it
(tests/proof/test_loops.py). tests/proof/loops_by_chance.py executes texts before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitile.proof.loops.counters import copies, count, offsets
from minitile.proof.loops.division import quotients
from minitile.proof.loops.flow import Flow
from minitile.proof.loops.layout import arrange
from minitile.proof.loops.retries import polls, waits
from minitile.proof.loops.rotation import part, rotate, straighten
from minitile.proof.loops.strides import stepped, strided
from minitile.proof.loops.sums import bounds, follow, numbers, starts
from minitile.proof.loops.told import tell
from minitile.proof.loops.unrolled import unroll
from minitile.proof.loops.wide import narrow
from minitile.proof.reading import Statement

REWRITES = (
    quotients,
    numbers,
    arrange,
    straighten,
    polls,
    waits,
    rotate,
    unroll,
    part,
    bounds,
    narrow,
    copies,
    offsets,
    strided,
    stepped,
    count,
    follow,
    starts,
    tell,
)


def canonical(
    found: Sequence[Statement],
    last: frozenset[str],
    writes: Callable[[Statement], tuple[str, ...]],
    plain: frozenset[str],
) -> tuple[list[Statement], frozenset[str]]:
    """Statements that do the same, in the forms that the prover reads. `last`: labels at the end; `writes`: registers
    that a statement writes; `plain`: operations that only compute."""
    flow = Flow(found, last, writes, plain)
    for rewrite in REWRITES:
        rewrite(flow)
    return flow.items, flow.last


__all__ = ["REWRITES", "canonical"]
