"""Which copies the blocks of a cluster have in common: the analysis behind TMA's multicast.

    launch … cluster (2, 1, 1) (%bx, %by) {
      for %k {
        copy %A[%by·128, %k·64], %As      the same in both blocks: each brings half of its rows, to both
        copy %B[%bx·256, %k·64], %Bs      each block its own

A copy is common to the blocks along a dimension of the cluster if neither its indices, nor the bounds and conditions of
the loops and branches around it, vary along it (analysis/divergence.py).
"""

from __future__ import annotations

import math

from minitile.analysis.divergence import Varying
from minitile.ir.ops import control, tile
from minitile.transforms.warp_specialize.producer_partition import Rings

ATOM = 8  # rows that no part of a swizzled tile divides

Common = dict[tile.Copy, tuple[int, ...]]


def find_common(launch: control.Launch, rings: Rings) -> Common:
    """The dimensions of the cluster along which a copy is common, of those that are and whose rows can be shared out.
    Copies of one ring go along the same dimensions or none: a consumer that releases a slot tells all blocks that
    write to it."""
    wide = tuple(d for d, n in enumerate(launch.cluster) if n > 1)
    if not wide:
        return {}
    varying = Varying(launch)
    places = rings.slice.places
    found: Common = {}
    for ring in rings.rings:
        together = [d for d in wide if all(d not in varying.way_to(copy, places) for copy in ring.copies)]
        for copy in ring.copies:
            common = tuple(d for d in together if all(d not in varying.of(v) for v in copy.src_indices))
            parts = math.prod(launch.cluster[d] for d in common)
            if common and len(copy.dst.shape) > 1 and copy.dst.shape[0] % (parts * ATOM) == 0:
                found[copy] = common
    return found
