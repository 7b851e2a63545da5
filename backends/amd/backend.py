"""The backend of AMD's targets: LLVM IR, GCN assembly, code objects, HIP."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minitile.backends.amd.targets import TARGETS
from minitile.backends.base import Backend, Rules, Written, installed
from minitile.hardware import Target
from minitile.ir.core import Kernel

if TYPE_CHECKING:
    from minitile.backends.amd.program import GcnProgram
    from minitile.runtime.launch_info import LaunchInfo
    from minitile.runtime.sim import Report
    from minitile.runtime.sim.mutate.ptx import Mutant

_ENTRY = re.compile(r"\.amdhsa_kernel\s+([\w$%]+)")
# Instructions that move data between memories, synchronise or multiply matrices.
_TELLING = re.compile(r"^\s+(v_mfma_\w+|ds_\w+|(?:global|buffer|scratch|flat)_\w+|s_barrier|s_waitcnt)\b", re.MULTILINE)


class AmdBackend(Backend):
    name = "amd"
    texts = ("llvm", "gcn")
    binary = "hsaco"
    device_kind = "rocm"

    def rules(self, target: Target) -> Rules:
        from minitile.backends.amd.lowering import rules_for

        return rules_for(target)

    def legalize(self, kernel: Kernel, target: Target) -> None:
        from minitile.backends.amd.legalize import legalize
        from minitile.backends.amd.named_barriers import pair_barriers

        pair_barriers(kernel, target)
        legalize(kernel, target)

    def write(self, kernel: Kernel, target: Target, notes: list[str]) -> Written:
        from minitile.backends.amd.emit.writer import write_llvm
        from minitile.backends.amd.verify.origins import annotated
        from minitile.backends.amd.verify.scheduling_barrier_retry import generate_in_order

        start = time.perf_counter()
        program = write_llvm(kernel, target)
        middle = time.perf_counter()
        llvm, text, remarks = generate_in_order(program.text, target)
        text = annotated(llvm, text)
        notes += remarks
        spent = {"llvm": (middle - start) * 1e3, "gcn": (time.perf_counter() - middle) * 1e3}
        return Written({"llvm": llvm, "gcn": text}, program.entry, program.params, spent)

    def program(self, texts: Mapping[str, str], entry: str, target: Target) -> GcnProgram:
        from minitile.backends.amd.program import GcnProgram

        return GcnProgram(texts["gcn"], entry, target, texts["llvm"])

    # Texts ------------------------------------------------------------------------------------------------------------

    def reads(self, text: str) -> bool:
        return ".amdgcn_target" in text

    def program_of_text(self, text: str) -> GcnProgram:
        from minitile.backends.amd.program import GcnProgram, arch_of
        from minitile.backends.amd.targets import target_for

        return GcnProgram(text, next(iter(self.entries(text)), ""), target_for(arch_of(text)))

    def entries(self, text: str) -> list[str]:
        return _ENTRY.findall(text)

    def instructions(self, text: str) -> Counter[str]:
        return Counter(_TELLING.findall(text))

    # Running without a GPU --------------------------------------------------------------------------------------------

    def simulator(self) -> Callable[..., Report]:
        from minitile.runtime.sim import run_gcn

        return run_gcn

    def launch_options(self, info: LaunchInfo) -> dict[str, Any]:
        """LDS is declared in the text."""
        return {}

    def text_options(self, cluster: tuple[int, int, int], dynamic_shared: int) -> dict[str, Any]:
        return {"dynamic_shared": dynamic_shared}

    def check_grid(self, grid: Sequence[int], block: Sequence[int]) -> None:
        from minitile.runtime.hip import check_grid

        check_grid(grid, block)

    def mutations(self) -> Callable[[str, str], Iterator[Mutant]]:
        from minitile.runtime.sim.mutate.amdgcn import removals

        return removals

    def estimator(self) -> Callable[..., object]:
        from minitile.runtime.sim import estimate_gcn

        return estimate_gcn

    # Devices ----------------------------------------------------------------------------------------------------------

    def target_of_device(self, index: int) -> Target:
        from minitile.backends.amd.targets import target_for
        from minitile.runtime import hip

        return target_for(hip.device_info(index).arch)

    def device_name(self, index: int) -> str:
        from minitile.runtime import hip

        return hip.device_info(index).name

    def current_target(self) -> Target | None:
        from minitile.backends.amd.targets import target_for
        from minitile.runtime import hip

        device = hip.current_device_info()
        return None if device is None else target_for(device.arch)

    def doctor(self) -> Iterator[tuple[str, str]]:
        from minitile.runtime import hip
        from minitile.runtime.errors import LaunchError

        extra = "missing: pip install 'minitile[amd]' (only for AMD GPUs)"
        yield "llvmlite", installed("llvmlite") or extra
        yield "hip-python", installed("hip-python") or extra
        yield "AMD linker", _linker()
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
            known = "" if device.arch in {t.name for t in TARGETS} else ", which minitile has no target for"
            yield f"AMD GPU {index}", f"{device.name}, {device.arch}, {device.compute_units} compute units{known}"


def _linker() -> str:
    from minitile.backends.amd.assemble import comgr
    from minitile.backends.amd.assemble.link import NO_LINKER, find_linker

    found = find_linker()
    if found is not None:
        return found
    if comgr.available():
        return f"ROCm's comgr {'.'.join(map(str, comgr.version()))}"
    return f"none (only for launches on AMD GPUs and .binary): {NO_LINKER}"


BACKEND = AmdBackend()
