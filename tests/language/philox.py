"""Philox4x32-10 in NumPy, from its paper: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011."""

from __future__ import annotations

from typing import Any

import numpy as np

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(key: int, counter: Any, stream: int) -> np.ndarray:
    """The four words of each counter, as [4, …]; of all operands the lower 64 bits."""
    c = np.asarray(counter, np.uint64)
    upper, seed = np.uint64(stream), np.uint64(key)
    words = [c & LOW, c >> HALF, (upper & LOW) + 0 * c, (upper >> HALF) + 0 * c]
    keys = [seed & LOW, seed >> HALF]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> HALF) ^ words[1] ^ keys[0],
            second & LOW,
            (first >> HALF) ^ words[3] ^ keys[1],
            first & LOW,
        ]
        keys = [(k + np.uint64(w)) & LOW for k, w in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return np.stack(np.broadcast_arrays(*words)).astype(np.uint32)
