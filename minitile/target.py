"""The targets: what a named GPU architecture has, as one table.

A `Target` is all that the compiler knows of a vendor. `parse_target` turns a name into one; `"auto"` asks the current
device and fits the best lowering there is to it, assembled for the device's own architecture. The environment variable
MINITILE_TARGET says what "auto" means instead: to run the code for one GPU on a newer one, or in the simulator.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (shared memory, registers,
threads); PTX ISA 9.7 (the target notes of cp.async, ldmatrix, mma, wgmma, cp.async.bulk.tensor); CDNA 3 and CDNA 4 ISA
guides (wave size, LDS bytes).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from minitile.ir.diagnostics import TargetError


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture. Sizes in bytes.

    Attributes:
        name: what the user writes.
        vendor: "nvidia" or "amd".
        arch: what the assembler is asked for (the device's own one for "auto").
        lowering: the architecture whose rules lower the kernel and which the PTX names in `.target`.
        isa: the PTX ISA version of the text.
        capability: compute capability, (0, 0) for AMD.
        max_shared: dynamic shared memory that one block can have; above static_shared it must be asked for at launch.
        static_shared: see there.
        features: what instructions there are, by name.
        lanes: the threads of a warp (AMD: of a wave).
        max_threads: of a block.
        max_registers: of one thread, of 32 bits each.
        block_registers: of a block's threads together.
        max_unrolled: elements of one operation, for each thread, for which code can be written in minutes.
    """

    name: str
    vendor: str
    arch: str
    lowering: str
    isa: str
    capability: tuple[int, int]
    max_shared: int
    static_shared: int
    features: frozenset[str]
    lanes: int = 32
    max_threads: int = 1024
    max_registers: int = 255
    block_registers: int = 64 * 1024
    max_unrolled: int = 8192

    def has(self, feature: str) -> bool:
        return feature in self.features

    def __str__(self) -> str:
        return self.name


_SM80 = frozenset({"cp_async", "ldmatrix", "mma_f16", "mma_bf16", "mma_tf32", "mma_int8", "warp_barrier", "shuffle"})
_SM89 = _SM80 | {"mma_fp8"}
_SM90A = _SM89 | {"stmatrix", "tma", "mbarrier", "wgmma", "setmaxnreg", "cluster", "pdl"}
# gfx942 has fp8 as well, but its formats are others: no infinities, no negative zero, another bias ("FNUZ").
_CDNA3 = frozenset({"mfma_f16", "mfma_bf16", "mfma_int8", "lds_dma"})
_CDNA_SIZES = (64, 1024, 512, 128 * 1024, 2048)  # LLVM's time grows faster than the code
_CDNA4 = _CDNA3 | {"mfma_fp8", "mfma_scale", "lds_dma_128", "lds_transpose"}

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("sm_80", "nvidia", "sm_80", "sm_80", "8.0", (8, 0), 163 * 1024, 48 * 1024, _SM80),
        Target("sm_89", "nvidia", "sm_89", "sm_89", "8.4", (8, 9), 99 * 1024, 48 * 1024, _SM89),
        Target("sm_90a", "nvidia", "sm_90a", "sm_90a", "8.4", (9, 0), 227 * 1024, 48 * 1024, _SM90A),
        Target("gfx942", "amd", "gfx942", "gfx942", "", (0, 0), 64 * 1024, 64 * 1024, _CDNA3, *_CDNA_SIZES),
        Target("gfx950", "amd", "gfx950", "gfx950", "", (0, 0), 160 * 1024, 64 * 1024, _CDNA4, *_CDNA_SIZES),
    )
}
DEFAULT = TARGETS["sm_80"]


def parse_target(name: str | Target) -> Target:
    """The target called `name`; "auto" is MINITILE_TARGET, else the current device's, or sm_80 (for the simulator)
    where there is no GPU.

    Raises TargetError for an unknown name.
    """
    if isinstance(name, Target):
        return name
    if name == "auto":
        return chosen_target() or _auto()
    if name not in TARGETS:
        raise TargetError(f"unknown target {name!r}", hint=f"known targets: auto, {', '.join(TARGETS)}")
    return TARGETS[name]


def chosen_target() -> Target | None:
    """The target that MINITILE_TARGET names; None where it names none. Raises TargetError for an unknown name."""
    name = os.environ.get("MINITILE_TARGET", "auto")
    if name == "auto" or name in TARGETS:
        return TARGETS.get(name)
    raise TargetError(f"unknown target {name!r} in MINITILE_TARGET", hint=f"known targets: auto, {', '.join(TARGETS)}")


def target_for(capability: tuple[int, int], max_shared: int) -> Target:
    """The best target whose lowering exists for an NVIDIA device of this compute capability, with the device's own
    shared memory limit, assembled for the device itself.

    Raises TargetError for devices older than sm_80.
    """
    arch = "sm_{}{}".format(*capability)
    own = [t for t in TARGETS.values() if t.capability == capability]  # an "a" target runs on no other capability
    older = [t for t in TARGETS.values() if t.vendor == "nvidia" and t.capability < capability and t.arch[-1] != "a"]
    if not own + older:
        raise TargetError(f"this GPU is {arch}: minitile needs sm_80 (Ampere) or newer")
    best = max(own + older, key=lambda t: t.capability)
    arch = best.arch if own else arch
    return replace(best, arch=arch, max_shared=min(max_shared, 227 * 1024))


def target_at(kind: str, index: int) -> Target:
    """The target for arrays on a device: MINITILE_TARGET, else the device's; on the CPU sm_80, for the simulator.
    Raises TargetError as `chosen_target` and `target_of_device`."""
    chosen = chosen_target()
    if chosen is not None:
        return chosen
    return DEFAULT if kind == "cpu" else target_of_device(kind, index)


def target_of_device(kind: str, index: int) -> Target:
    """The target for a device that arrays are on: kind "cuda" or "rocm". Raises TargetError for others and for devices
    that there is no lowering for."""
    import minitile.runtime.cuda as cuda
    import minitile.runtime.hip as hip

    if kind == "cuda":
        device = cuda.device_info(index)
        return target_for(device.capability, device.max_shared)
    if kind != "rocm":
        raise TargetError(
            f"there is no backend for the arrays on {kind}:{index}", hint="NumPy arrays go to the simulator"
        )
    return _of_processor(hip.device_info(index).arch)


def _of_processor(arch: str) -> Target:
    known = [name for name, target in TARGETS.items() if target.vendor == "amd"]
    if arch not in known:
        raise TargetError(f"this GPU is {arch}: minitile compiles for {' and '.join(known)}")
    return TARGETS[arch]


def _auto() -> Target:
    import minitile.runtime.cuda as cuda
    import minitile.runtime.hip as hip

    device = cuda.current_device_info()
    if device is not None:
        return target_for(device.capability, device.max_shared)
    amd = hip.current_device_info()
    return DEFAULT if amd is None else _of_processor(amd.arch)
