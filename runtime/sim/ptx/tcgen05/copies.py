"""tcgen05.cp: rows of shared memory into lanes of tensor memory (PTX ISA 8.8, 9.7.16.9.2; CUTLASS,
include/cute/atom/copy_traits_sm100.hpp, SM100_UTCCP_*).

    shape                     rows  bytes of each  row r goes to the lanes
    128x256b, 128x128b        128   32, 16         r
    64x128b.warpx2::02_13     64    16             r, r + 64
    64x128b.warpx2::01_23     64    16             r and r + 32 (r < 32), r + 32 and r + 64 (r ≥ 32)
    32x128b.warpx4            32    16             r, r + 32, r + 64, r + 96

The rows are a K-major matrix, by its descriptor. A copy is of the engine that multiplies, and commits cover it. What
comes behind it by the same thread is in order with it: a product that reads what it has written (by the ISA), and a
copy over what a product reads (CUTLASS's and DeepGEMM's block-scaled kernels do that without a wait; the ISA's list of
pipelined pairs, 9.7.16.6.2, has not that one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.scalars import Array
from .descriptors import matrix
from .order import COPY, GROUP, Engine

if TYPE_CHECKING:
    from ..machine import Machine

_R64, _R32 = np.arange(64), np.arange(32)
SHAPES: dict[str, tuple[int, tuple[Array, ...]]] = {  # bytes of a row; the lanes of each row, once or several times
    "128x256b": (32, (np.arange(128),)),
    "128x128b": (16, (np.arange(128),)),
    "64x128b.warpx2::02_13": (16, (_R64, _R64 + 64)),
    "64x128b.warpx2::01_23": (16, (_R64 + _R64 // 32 * 32, _R64 + _R64 // 32 * 32 + 32)),
    "32x128b.warpx4": (16, tuple(_R32 + 32 * warp for warp in range(4))),
}


def copy(m: Machine, thread: int, address: int, word: int, shape: str, pair: bool, site: int) -> None:
    """One thread copies from the shared memory of its CTA, or of each CTA of a pair, to its tensor memory."""
    memory, products = m.tensor, m.products
    size, places = SHAPES[shape]
    ctas = products.ctas(thread, pair, site)
    try:
        layout = matrix(word, False, 8)
    except ValueError as reason:
        memory.fault("bad_descriptor", str(reason), site, thread, "cp")
        return
    if address >> 16:
        memory.fault("lane_access", f"tcgen05.cp begins at lane {address >> 16}, not 0", site, thread, "cp")
    column = address & 0xFFFF
    for cta in ctas:
        memory.locate(cta, column, size // 4, site, thread, "cp")
    step = products.begin(thread, ctas, site)
    rows = [products.locate(layout.k_major(len(places[0]), size // 16), cta, thread, site) for cta in ctas]
    products.read_shared(thread, rows, step, site)
    span, groups = slice(column, column + size // 4), np.unique(np.concatenate(places) // GROUP)
    for cta in ctas:
        engine, issuer = Engine("mma", thread), np.array([thread])
        memory.order.access(engine, step, issuer, cta, groups, span, site, writes=True, chain=COPY)
        memory.written[cta, groups, span] = True

    def run() -> None:
        words = m.spaces["shared"].arena.view(4, 4)
        for cta, mine in zip(ctas, rows, strict=True):
            data = words[mine].reshape(len(mine), -1)
            for lanes in places:
                memory.cells[cta][lanes, span] = data

    products.put(thread, step, run)
