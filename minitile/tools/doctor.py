"""`minitile doctor`: what is installed, which GPUs can be used, what is missing and how to get it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata

from minitile import __version__
from minitile.driver.cache import default_cache
from minitile.ir.diagnostics import MinitileError
from minitile.runtime import cuda, hip
from minitile.runtime.errors import LaunchError
from minitile.target import TARGETS, parse_target

Line = tuple[str, str]

# The smallest kernel there is: to see the assembler work.
_EMPTY_KERNEL = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"


def report() -> str:
    """The whole report, a line for each thing."""
    lines = [*_python(), *_nvidia(), *_amd(), *_others(), *_cache()]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Iterator[Line]:
    yield "minitile", __version__
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for package in ("numpy", "ml_dtypes"):
        yield package, _version(package) or "missing: pip install minitile brings it"


def _nvidia() -> Iterator[Line]:
    extra = "missing: pip install 'minitile[cuda]'"
    yield "cuda-python", _version("cuda-python") or _version("cuda-bindings") or extra
    yield "nvJitLink", _assembler()
    yield "ptxas", _ptxas()
    try:
        release = int(cuda.driver().cuDriverGetVersion()[1])
        count = cuda.device_count()
    except LaunchError as error:
        yield "CUDA driver", f"{error.message}; kernels run in the simulator"
        return
    yield "CUDA driver", f"for CUDA {release // 1000}.{release % 1000 // 10}, {count} GPUs"
    for index in range(count):
        device = cuda.device_info(index)
        yield f"GPU {index}", f"{device.name}, {device.arch}, {device.multiprocessors} multiprocessors"
    target = parse_target("auto")
    yield "target auto", f"{target.name}, assembled for {target.arch}"


def _assembler() -> str:
    from minitile.backends.nvidia.assemble import AssemblerMissing, assemble

    try:
        done = assemble(_EMPTY_KERNEL, "sm_80")
    except AssemblerMissing as error:
        return f"{error.message}; {error.hint}"
    except MinitileError as error:
        return f"found, but it does not work: {error}"
    return f"{done.assembler} assembles: {len(done.cubin)} bytes for an empty kernel"


def _ptxas() -> str:
    from minitile.backends.nvidia.assemblers import PTXAS_HINT, find_ptxas

    try:
        found = find_ptxas()
    except MinitileError as error:
        return f"{error.message}; {error.hint}"
    if found is None:
        return f"none (for the cubins of kernels with wgmma; launches do without): {PTXAS_HINT}"
    return f"{'.'.join(map(str, found.release))}, {found.path}"


def _amd() -> Iterator[Line]:
    extra = "missing: pip install 'minitile[amd]' (only for AMD GPUs)"
    yield "llvmlite", _version("llvmlite") or extra
    yield "hip-python", _version("hip-python") or extra
    yield "AMD linker", _amd_linker()
    try:
        release = int(hip.call("hipRuntimeGetVersion"))
        count = hip.device_count()
    except LaunchError as error:
        yield "HIP runtime", f"{error.message}; kernels run in the simulator"
        return
    version = f"{release // 10_000_000}.{release // 100_000 % 100}"
    yield "HIP runtime", f"{version}, {count} GPUs, {', '.join(hip.loaded_libraries())}"
    for index in range(count):
        device = hip.device_info(index)
        known = "" if device.arch in TARGETS else ", which minitile has no target for"
        yield f"AMD GPU {index}", f"{device.name}, {device.arch}, {device.compute_units} compute units{known}"


def _amd_linker() -> str:
    from minitile.backends.amd.assemble import comgr
    from minitile.backends.amd.assemble.link import NO_LINKER, find_linker

    found = find_linker()
    if found is not None:
        return found
    if comgr.available():
        return f"ROCm's comgr {'.'.join(map(str, comgr.version()))}"
    return f"none (only for launches on AMD GPUs and .binary): {NO_LINKER}"


def _others() -> Iterator[Line]:
    for package in ("torch", "cupy", "triton"):
        yield package, _version(package) or "not installed (optional)"


def _cache() -> Iterator[Line]:
    store = default_cache()
    if store is None:
        yield "cache", "off (MINITILE_CACHE=0)"
        return
    if refusal := store.refusal():
        yield "cache", f"not used: {refusal}"
        return
    sizes = [path.stat().st_size for _, path in store.entries()]
    yield "cache", f"{store.root}: {len(sizes)} entries, {sum(sizes) / 1e6:.2f} MB"
