"""NVIDIA's targets, and the one that a device is given.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA 9.7 (the target notes of
cp.async, ldmatrix, mma, wgmma, cp.async.bulk.tensor).
"""

from __future__ import annotations

from dataclasses import replace

from minitile.hardware import Rates, Target
from minitile.ir.diagnostics import TargetError

_SM80 = frozenset(
    {
        "cp_async",
        "ldmatrix",
        "mma_f16",
        "mma_bf16",
        "mma_tf32",
        "mma_int8",
        "warp_barrier",
        "shuffle",
        "l2_window",
        "add_f16x2",
        "max_f16x2",
        "max_bf16x2",
        "warp_reduce",
        "clock64",
    }
)
_SM89 = _SM80 | {"mma_fp8"}
_SM90A = (
    _SM89 | {"stmatrix", "tma", "mbarrier", "wgmma", "setmaxnreg", "cluster", "pdl"} | {"add_bf16x2", "add_vectors"}
)
# Tensor memory and its products instead of wgmma, cluster launch control (docs/blackwell.md); all else as sm_90a has.
_SM103A = _SM90A - {"wgmma"} | {"tcgen05", "launch_control"}
_SM100A = _SM103A | {"tcgen05_int8"}
_MOST_SHARED = 227 * 1024
_BLOCK_SHARED = 1024  # more than a block asks for, and what one block cannot ask for ("Shared Memory" of 8.x and 9.0)

TARGETS = (
    Target(
        "sm_80",
        "nvidia",
        "sm_80",
        "sm_80",
        "8.0",
        (8, 0),
        163 * 1024,
        48 * 1024,
        _SM80,
        multiprocessors=108,
        reserved_shared=_BLOCK_SHARED,
        rates=Rates(products=1024, arithmetic=64),
    ),
    Target(
        "sm_89",
        "nvidia",
        "sm_89",
        "sm_89",
        "8.4",
        (8, 9),
        99 * 1024,
        48 * 1024,
        _SM89,
        multiprocessors=142,
        reserved_shared=_BLOCK_SHARED,
        rates=Rates(products=512),
    ),
    Target(
        "sm_90a",
        "nvidia",
        "sm_90a",
        "sm_90a",
        "8.4",
        (9, 0),
        _MOST_SHARED,
        48 * 1024,
        _SM90A,
        multiprocessors=132,
        reserved_shared=_BLOCK_SHARED,
        rates=Rates(products=2048),
    ),
    Target(
        "sm_100a",
        "nvidia",
        "sm_100a",
        "sm_100a",
        "8.6",
        (10, 0),
        _MOST_SHARED,
        48 * 1024,
        _SM100A,
        multiprocessors=148,
        reserved_shared=_BLOCK_SHARED,
        rates=Rates(products=4096),
    ),
    Target(
        "sm_103a",
        "nvidia",
        "sm_103a",
        "sm_103a",
        "8.8",
        (10, 3),
        _MOST_SHARED,
        48 * 1024,
        _SM103A,
        reserved_shared=_BLOCK_SHARED,
        rates=Rates(products=4096),
    ),
)


def target_for(capability: tuple[int, int], max_shared: int) -> Target:
    """The best target whose lowering exists for a device of this compute capability, with the device's own shared
    memory limit, assembled for the device itself.

    Raises TargetError for devices older than sm_80.
    """
    arch = "sm_{}{}".format(*capability)
    own = [t for t in TARGETS if t.capability == capability]  # an "a" target runs on no other capability
    older = [t for t in TARGETS if t.capability < capability and t.arch[-1] != "a"]
    if not own + older:
        raise TargetError(f"this GPU is {arch}: minitile needs sm_80 (Ampere) or newer")
    best = max(own + older, key=lambda t: t.capability)
    arch = best.arch if own else arch
    return replace(best, arch=arch, max_shared=min(max_shared, _MOST_SHARED))
