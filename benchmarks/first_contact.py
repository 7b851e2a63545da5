"""Probes for the first minutes on a GPU of sm_100a or sm_103a: a small kernel for each thing that only paper has said.

    python benchmarks/first_contact.py                 all, in the simulator
    MINITILE_GPU=1 python benchmarks/first_contact.py  all, on the GPU
    python benchmarks/first_contact.py NAME …          those whose names begin so; --list: the names

Each probe adds one thing to those before it: tensor memory, one product, the layouts of its operands, then pipelines,
roles, pairs, tiles by cluster launch control, scales. Operands are small integers, so that results are exact in any
order of additions; where one is wrong, the rows and columns that are say which half, panel or step it is.
benchmarks/first_contact.sh runs them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import minitile as mt
import minitile.language as T

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import attention
import gemm
import gemm_mx
import gemm_persistent
from support import USE_GPU, on_device, on_host, poisoned

BF16 = ml_dtypes.bfloat16
ONE_ROLE = {"passes": {"warp_specialize": False}}
BY_THREADS = {"passes": {"warp_specialize": False, "tma_multistage": False}}


def target() -> str:
    """What kernels are compiled for: the GPU, or the first target of the kind."""
    return "auto" if USE_GPU else os.environ.get("MINITILE_TARGET", "sm_100a")


def launch(kernel: Any, arrays: list[np.ndarray], **options: Any) -> np.ndarray:
    """Compiles and runs a kernel; the last argument, which is its result."""
    compiled = kernel.compile(*arrays, target=target(), **options)
    if "tcgen05." not in compiled.asm["ptx"]:
        raise ValueError(f"it is not by tcgen05: {'; '.join(compiled.notes)}")
    if not USE_GPU:
        compiled.simulate(*arrays, schedule="random", seed=1)
        return arrays[-1]
    there = [on_device(each) for each in arrays]
    compiled(*there)
    return on_host(there[-1])


def integers(shape: tuple[int, ...], element: Any, seed: int = 0) -> np.ndarray:
    """From -2 to 2: all of them, their products and sums are exact in every dtype here."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(element)


def difference(found: np.ndarray, exact: np.ndarray, bound: float = 0.0) -> str:
    """Where a result differs; "" where it does not."""
    wrong = ~(np.abs(found.astype(np.float64) - exact) <= bound * np.abs(exact).max(initial=1))
    if not wrong.any():
        return ""
    rows, columns = (np.unique(each) for each in np.nonzero(wrong))
    first = tuple(int(at[0]) for at in np.nonzero(wrong))
    said = f"{wrong.mean():.0%} of {'×'.join(map(str, found.shape))} differ: rows {span(rows)}, columns {span(columns)}"
    return f"{said}; {found[first]} at {first}, not {exact[first]}"


def span(places: np.ndarray) -> str:
    """Numbers as ranges."""
    cuts = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    shown = [f"{each[0]}-{each[-1]}" if len(each) > 1 else str(each[0]) for each in cuts[:6]]
    return ", ".join(shown) + ", …" * (len(cuts) > 6)


# Tensor memory -------------------------------------------------------------------------------------------------------


@mt.kernel
def there_and_back(X: T.Tensor(("M", "N"), T.float32), Y: T.Tensor(("M", "N"), T.float32), m=128, n=32, threads=128):
    with T.Kernel(1, threads=threads):
        tile = T.alloc_fragment((m, n), T.float32)
        other = T.alloc_fragment((m, n), T.float32)
        memory = T.alloc_tmem((m, n), T.float32)
        T.copy(X, tile)
        T.copy(tile, memory)
        T.copy(memory, other)
        T.copy(other, Y)


def tensor_memory(m: int, n: int, threads: int = 128) -> Callable[[], str]:
    def probe() -> str:
        x = np.arange(m * n, dtype=np.float32).reshape(m, n)
        found = launch(there_and_back, [x, poisoned((m, n))], m=m, n=n, threads=threads)
        return difference(found, x)

    return probe


# Products ------------------------------------------------------------------------------------------------------------


def product(name: str = "bf16", ta: bool = False, tb: bool = True, size: Any = (128, 64, 128), **tiles: Any) -> Any:
    """One tile; how it is copied, `tiles` say."""

    def probe() -> str:
        m, n, k = size
        dtype, accumulate, element, _ = (gemm.DTYPES | gemm.FP8)[name]
        narrow = np.dtype(element).itemsize == 1
        a, b = integers((k, m) if ta else (m, k), element), integers((n, k) if tb else (k, n), element, 1)
        c = poisoned((m, n), (np.int32 if name == "int8" else np.float32) if narrow else element)
        kernel = gemm.make_gemm(dtype, accumulate, accumulate if narrow else dtype, ta, tb)
        given = {"block_N": 64, "block_K": 64, "num_stages": 0, **tiles}
        exact = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
        return difference(launch(kernel, [a, b, c], **given), exact, 0.0 if narrow or name == "tf32" else 4e-3)

    return probe


@mt.kernel
def from_tensor_memory(
    A: T.Tensor((128, 64), T.bfloat16), B: T.Tensor((64, 64), T.bfloat16), C: T.Tensor((128, 64), T.float32)
):
    """A · Bᵀ, A from a fragment."""
    with T.Kernel(1, threads=128):
        b = T.alloc_shared((64, 64), B.dtype)
        a = T.alloc_fragment((128, 64), A.dtype)
        c = T.alloc_fragment((128, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        T.copy(c, C)


def factor_in_tensor_memory() -> str:
    a, b = integers((128, 64), BF16), integers((64, 64), BF16, 1)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return difference(launch(from_tensor_memory, [a, b, poisoned((128, 64))]), exact)


def persistent(rows: int = 600, **tiles: Any) -> Callable[[], str]:
    def probe() -> str:
        a, b = integers((rows, 136), BF16), integers((130, 136), BF16, 1)
        exact = a.astype(np.float64) @ b.astype(np.float64).T
        found = launch(gemm_persistent.gemm_persistent, [a, b, poisoned((rows, 130), BF16)], **tiles)
        return difference(found, exact, 4e-3)

    return probe


@mt.kernel
def counted(Y: T.Tensor(("N",), T.int32), blocks=4, cluster=1):
    """Adds 1 and the tile's number to each element of each tile."""
    with T.Kernel(blocks, threads=64, cluster=cluster) as block:
        tx = T.get_thread_binding()
        for row, _ in T.Persistent([T.ceildiv(Y.shape[0], 64), 1], blocks, block, group_size=1, dynamic=True):
            if row * 64 + tx < Y.shape[0]:
                T.atomic_add(Y[row * 64 + tx], row + 1)


def launch_control(tiles: int, cluster: int) -> Callable[[], str]:
    """Each tile once, whichever block takes it: more than the GPU has room for at a time, so that some are taken."""

    def probe() -> str:
        y = np.zeros(tiles * 64, np.int32)
        compiled = counted.compile(y, target=target(), blocks=4 * cluster, cluster=cluster)
        if "clusterlaunchcontrol" not in compiled.asm["ptx"]:
            raise ValueError(f"it is not by cluster launch control: {'; '.join(compiled.notes)}")
        there = on_device(y)
        if USE_GPU:
            compiled(there)
        else:
            compiled.simulate(y, schedule="random", seed=1)
        found = (on_host(there) if USE_GPU else y).reshape(tiles, 64)
        return difference(found, np.broadcast_to(np.arange(1, tiles + 1)[:, None], found.shape).astype(np.float64))

    return probe


def scaled(name: str, block: int, m: int = 128, n: int = 64, **packed: int) -> Callable[[], str]:
    """With tiles of the persistent kernel (`packed`), by that one, whose scales come in packs."""

    def probe() -> str:
        rng = np.random.default_rng(4)
        quantize = gemm_mx.quantize_nvfp4 if block == 16 else lambda values: gemm_mx.quantize(values, name)
        (a, sa), (b, sb) = (quantize(rng.standard_normal((rows, 512))) for rows in (m, n))
        scales = [gemm_mx.pack_scales(each) for each in (sa, sb)] if packed else [sa, sb]
        arrays = [gemm_mx.pack(a, name), gemm_mx.pack(b, name), *scales, poisoned((m, n))]
        if packed:
            found = launch(gemm_mx.gemm_mx_packed(name, name, block), arrays, **packed)
        else:
            found = launch(gemm_mx.gemm_mx(name, name, block), arrays, block_N=64, threads=128)
        return difference(found, gemm_mx.exact(a, sa) @ gemm_mx.exact(b, sb).T, 1e-5)

    return probe


def attention_forward(**tiles: Any) -> Callable[[], str]:
    def probe() -> str:
        rng = np.random.default_rng(5)
        q, k, v = (rng.standard_normal((1, 1, 300, 64)).astype(BF16) for _ in range(3))
        found = launch(attention.attention, [q, k, v, poisoned(q.shape, BF16)], D=64, **tiles)
        exact = attention.reference(q, k, v, False)
        return difference(found.reshape(300, 64), exact.reshape(300, 64), 2e-2)

    return probe


MANY = 60000 if USE_GPU else 600  # rows, whose tiles the GPU has no room for at a time
MAJORS = [(ta, tb) for ta in (False, True) for tb in (False, True)]
PROBES: dict[str, Callable[[], str]] = {
    "tensor memory 128x32": tensor_memory(128, 32),
    "tensor memory 64x64, half the lanes each": tensor_memory(64, 64),
    "tensor memory 256x48, two warpgroups": tensor_memory(256, 48, 256),
    **{f"product of {name}": product(name) for name in ("bf16", "f16", "tf32", "e4m3", "e5m2", "int8")},
    **{f"K-major, rows of {2 * k} bytes": product(block_K=k) for k in (16, 32, 64, 128)},
    **{f"majors {'NT'[ta]}{'NT'[tb]}": product(ta=ta, tb=tb) for ta, tb in MAJORS},
    **{f"majors NN, {n} columns": product(tb=False, size=(128, n, 128), block_N=n) for n in (16, 32, 128)},
    "256 columns": product(size=(128, 256, 128), block_N=256, threads=256),
    "two blocks of rows": product(size=(256, 64, 128), block_M=256),
    "64 rows": product(size=(64, 128, 128), block_M=64, block_N=128),
    "A in tensor memory": factor_in_tensor_memory,
    "cp.async": product(size=(130, 72, 264), num_stages=2, **BY_THREADS),
    "TMA, one role": product(size=(130, 72, 264), num_stages=2, **ONE_ROLE),
    "roles": product(size=(130, 72, 264), num_stages=3),
    "persistent, two accumulators": persistent(blocks=2, block_N=64),
    "pairs": persistent(blocks=2, block_N=64, cluster=2),
    "pairs of 256 columns": persistent(blocks=2, block_N=256, cluster=2, threads=256),
    "launch control": launch_control(20001 if USE_GPU else 13, 1),
    "launch control in clusters": launch_control(20002 if USE_GPU else 14, 2),
    "dynamic tiles": persistent(MANY, blocks=2, block_N=64, dynamic=True),
    "dynamic tiles of pairs": persistent(MANY, blocks=2, block_N=64, cluster=2, dynamic=True),
    "scales of mxf8": scaled("e4m3", 32),
    "scales of mxf4": scaled("e2m1", 32),
    "scales of nvf4": scaled("e2m1", 16),
    "scales in packs, roles": scaled("e4m3", 32, 256, 256, blocks=1),
    "scales in packs, pairs": scaled("e2m1", 16, 600, 256, blocks=2, block_N=256, threads=256, cluster=2),
    "attention, one warpgroup": attention_forward(threads=128, block_N=64),
    "attention, two in ping-pong": attention_forward(block_M=256, block_N=64),
}


def main(names: list[str]) -> int:
    """How many probes failed."""
    if names == ["--list"]:
        print("\n".join(PROBES))
        return 0
    failed = 0
    for name, probe in PROBES.items():
        if names and not any(name.startswith(each) for each in names):
            continue
        if "int8" in name and "103" in target():
            print(f"SKIP {name}: sm_100a alone has it")
            continue
        try:
            said = probe()
        except Exception as error:  # a launch that fails, an instruction that is illegal: the next probe may tell more
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        failed += bool(said)
        print(f"FAIL {name}: {said}" if said else f"PASS {name}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
