"""T.annotate_min_blocks_per_sm: what reaches the assembler."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def twice(X: T.Tensor((256,), T.float32), blocks=2):
    with T.Kernel(1, threads=128):
        T.annotate_min_blocks_per_sm(blocks)
        for i in T.Parallel(256):
            X[i] = 2 * X[i]


def test_it_bounds_registers() -> None:
    x = np.ones(256, np.float32)
    compiled = twice.compile(target="sm_90a")
    assert re.search(r"\.reqntid 128\n\.minnctapersm 2\n", compiled.asm["ptx"])
    assert compiled.binary
    compiled.simulate(x)
    assert (x == 2).all()
    twice.compile(target="gfx942").simulate(x)
    assert (x == 4).all()


@pytest.mark.parametrize("blocks", [0, 33])
def test_counts_that_no_multiprocessor_has(blocks: int) -> None:
    with pytest.raises(mt.MinitileError, match=f"annotate_min_blocks_per_sm.{blocks}") as found:
        twice.compile(target="sm_80", blocks=blocks)
    assert "1 to 32" in found.value.hint
