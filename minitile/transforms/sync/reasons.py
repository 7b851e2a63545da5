"""Why synchronisation is inserted, in the field's terms: the origins (ir/origin.py) that several passes give alike.

between(a, b)     two conflicting accesses: "RAW A_shared", "WAR A_shared and staged, in the same bytes"
of_ring(…)        a ring of slots that copies fill and the program reads, by what is waited for or told
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minitile.analysis.memory_dependence import MemoryAccess
from minitile.ir.core import Value
from minitile.ir.origin import Origin, places
from minitile.transforms.warp_specialize.producer_partition import Ring, Rings


def hazard(first: bool, then: bool) -> str:
    """Of two accesses in the order of the program, of which each writes or not."""
    return ("WAW" if then else "RAW") if first else "WAR"


def names(mems: Iterable[Value | None]) -> str:
    """Memory objects in words, each once."""
    return ", ".join(dict.fromkeys((m.name or "a buffer") if m is not None else "any memory" for m in mems))


def between(earlier: MemoryAccess, later: MemoryAccess) -> str:
    """What an access conflicts with, and where."""
    kind = hazard(earlier.writes, later.writes)
    if earlier.mem is later.mem or None in (earlier.mem, later.mem):
        return f"{kind} {names([earlier.mem or later.mem])}"
    return f"{kind} {names([earlier.mem])} and {names([later.mem])}, in the same bytes"


class RingOrigins(NamedTuple):
    """Of a pipeline's own words, and of what is done at them."""

    pipeline: Origin
    acquire: Origin
    expect: Origin
    receive: Origin
    release: Origin


def of_ring(pass_name: str, ring: Ring, rings: Rings) -> RingOrigins:
    """Of one of the rings of a kernel."""
    filled = places(c.loc for c in ring.copies)
    used = places(op.loc for buffer in ring.buffers for op in rings.users[buffer])
    what = names(ring.buffers)
    return RingOrigins(
        Origin(pass_name, f"mbarriers of the ring of {what}", filled, used),
        Origin(pass_name, f"WAR {what}: slot free", used, filled),
        Origin(pass_name, f"RAW {what}: bytes of the slot announced", filled, used),
        Origin(pass_name, f"RAW {what}: slot full", filled, used),
        Origin(pass_name, f"WAR {what}: slot read", used, filled),
    )
