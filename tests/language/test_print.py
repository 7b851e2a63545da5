"""T.print of tiles: each element behind its indices."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def prints(A: T.Tensor((4, 6), T.float32)):
    with T.Kernel(1, threads=32):
        shared = T.alloc_shared((4, 6), A.dtype)
        tile = T.alloc_fragment((4, 6), A.dtype)
        T.copy(A, shared)
        T.copy(A, tile)
        for i, j in T.Parallel(4, 6):
            tile[i, j] *= 2
        T.print(tile, "tile")
        T.print(shared[1, 2:4], "part")
        T.print(shared[3, 5], "one")
        T.print(shared)


def test_tiles(capfd):
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    prints.compile(a, target="sm_80").simulate(a)
    shown = sorted(capfd.readouterr().out.splitlines())
    wanted = [f"[{i}, {j}] tile: {2 * a[i, j]:f}" for i in range(4) for j in range(6)]
    wanted += [f"[{i}, {j}] {a[i, j]:f}" for i in range(4) for j in range(6)]
    wanted += [f"[0] part: {a[1, 2]:f}", f"[1] part: {a[1, 3]:f}", f"one: {a[3, 5]:f}"]
    assert shown == sorted(wanted)


def test_refused(refuses):
    def global_memory(A: T.Tensor((4, 6), T.float32)):
        with T.Kernel(1):
            T.print(A)

    refuses(global_memory, "T.print of the tensor A")


def message(text):
    @mt.kernel
    def kernel(C: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            T.print(C[0], text)
            T.device_assert(C[0] == 0, text)

    return kernel


@pytest.mark.parametrize("text", ["100% s", "%s", "%n", "%%", "%*d"])
def test_percent_is_no_directive(capfd, text):
    message(text).compile(target="sm_80").simulate(np.zeros(1, np.int32))
    assert capfd.readouterr().out == f"{text}: 0\n"


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_string_of_c_holds(text):
    with pytest.raises(mt.MinitileError, match=r"the message of T\.print is"):
        message(text).trace()
