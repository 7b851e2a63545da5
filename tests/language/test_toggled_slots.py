"""Two slots that a loop alternates between, `i % 2` and `(i % 2) ^ 1`, are different places, in a branch as well."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def halved(X: T.Tensor((64,), T.int32), Y: T.Tensor((64,), T.int32), counts: T.Tensor((5,), T.int32)):
    """Round by round, what is no multiple of 2^round goes: threads under a condition read one slot and write the other,
    at places that atomics give."""
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        slots = T.alloc_shared((2, 64), T.int32)
        count = T.alloc_shared((2,), T.int32)
        slots[0, t] = X[t]
        slots[1, t] = -1
        if t == 0:
            count[0] = 64
            count[1] = 0
        for r in T.serial(4):
            now = r % 2
            T.sync_threads()
            left = count[now]
            T.sync_threads()
            if t == 0:
                counts[r] = left
                count[now ^ 1] = 0
            T.sync_threads()
            if t < left and slots[now, t] % (2 << r) == 0:
                place = T.atomic_add(count[now ^ 1], 1, return_prev=True)
                slots[now ^ 1, place] = slots[now, t]
        T.sync_threads()
        if t == 0:
            counts[4] = count[0]
        Y[t] = slots[0, t]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_slots_in_turns(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    x = np.random.default_rng(2).permutation(256)[:64].astype(np.int32)
    y, counts = np.zeros(64, np.int32), np.zeros(5, np.int32)
    halved(x, y, counts)
    want = [64, *(int((x % (2 << r) == 0).sum()) for r in range(4))]
    np.testing.assert_array_equal(counts, want)
    assert sorted(y[: want[-1]]) == sorted(x[x % 16 == 0])
