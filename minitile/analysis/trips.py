"""Whether a loop has a turn.

for 0, max(%n, 1), 1 …                    at least one
if %a < %b { for %a, %b, 1 … }            at least one, under the condition
for 0, %n, 1 …                            not known
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from minitile.analysis.affine import Facts
from minitile.ir.core import Value
from minitile.ir.ops import control


def enters(facts: Facts, loop: control.For, conditions: Sequence[Value] = ()) -> bool | None:
    """Whether a loop has a turn: True, False, or None where it is not known. `conditions` hold around it."""
    lower, upper = facts.affine(loop.lower), facts.affine(loop.upper)
    if facts.less(lower, upper):
        return True
    if facts.nonnegative(lower - upper):
        return False
    if not conditions:
        return None
    with ExitStack() as stack:
        for condition in conditions:
            stack.enter_context(facts.assuming(condition))
        return enters(facts, loop)
