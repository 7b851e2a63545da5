"""The backend of NVIDIA's targets: PTX text, cubins, CUDA."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minitile.backends.base import Backend, Pass, Rules, Written, installed
from minitile.backends.nvidia.extensions import extension_of, extensions
from minitile.hardware import Target
from minitile.ir.core import Kernel
from minitile.ir.diagnostics import MinitileError

if TYPE_CHECKING:
    from minitile.backends.nvidia.program import PtxProgram
    from minitile.runtime.launch_info import LaunchInfo
    from minitile.runtime.sim import Report
    from minitile.runtime.sim.mutate.ptx import Mutant

# The smallest kernel there is: to see the assembler work.
_EMPTY_KERNEL = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")
_HEAD = re.compile(r"^\s*\.version\s", re.MULTILINE)
# Instructions that move data between memories, synchronise or multiply matrices.
_TELLING = (
    r"mma\.sync|wgmma\.mma_async|ldmatrix|stmatrix|cp\.async\.bulk|cp\.async(?=\.c[ag])|mbarrier\.[a-z_]+|fence\.proxy"
    r"|(?:ld|st)\.(?:global|shared|local)|atom|red|bar|barrier|shfl"
)


class NvidiaBackend(Backend):
    name = "nvidia"
    texts = ("ptx",)
    binary = "cubin"
    device_kind = "cuda"

    def rules(self, target: Target) -> Rules:
        extension = extension_of(target)
        if extension is not None:
            return extension.rules(target)
        from minitile.backends.nvidia.lowering import rules_for

        return rules_for(target)

    def passes(self, target: Target) -> Mapping[str, Sequence[tuple[str, Pass]]]:
        extension = extension_of(target)
        return {} if extension is None else extension.passes()

    def legalize(self, kernel: Kernel, target: Target) -> None:
        from minitile.backends.nvidia.legalize import legalize

        legalize(kernel, target)

    def write(self, kernel: Kernel, target: Target, notes: list[str]) -> Written:
        from minitile.backends.nvidia.emit.writer import write_ptx

        start = time.perf_counter()
        module = write_ptx(kernel, target)
        return Written({"ptx": module.text}, module.entry, module.params, {"ptx": (time.perf_counter() - start) * 1e3})

    def program(self, texts: Mapping[str, str], entry: str, target: Target) -> PtxProgram:
        from minitile.backends.nvidia.program import PtxProgram

        return PtxProgram(texts["ptx"], target.arch)

    # Texts ------------------------------------------------------------------------------------------------------------

    def reads(self, text: str) -> bool:
        return _HEAD.search(text) is not None

    def program_of_text(self, text: str) -> PtxProgram:
        from minitile.backends.nvidia.program import PtxProgram

        return PtxProgram(text)

    def entries(self, text: str) -> list[str]:
        return _ENTRY.findall(text)

    def instructions(self, text: str) -> Counter[str]:
        """Of loads and stores with the width: ld.global.v4.f32."""
        words = "|".join((_TELLING, *(each.telling for each in extensions())))
        found = re.findall(rf"^\s*(?:@!?\S+\s+)?({words})([\w.:]*)", text, re.MULTILINE)
        return Counter(kind + rest if kind.startswith(("ld.", "st.")) else kind for kind, rest in found)

    # Running without a GPU --------------------------------------------------------------------------------------------

    def simulator(self) -> Callable[..., Report]:
        from minitile.runtime.sim import run_ptx

        return run_ptx

    def launch_options(self, info: LaunchInfo) -> dict[str, Any]:
        shared = {"cluster": info.cluster, "dynamic_shared": info.dynamic_shared}
        return {**shared, "cooperative": True} if info.cooperative else shared

    def check_grid(self, grid: Sequence[int], block: Sequence[int]) -> None:
        from minitile.runtime.cuda import check_grid

        check_grid(grid)

    def mutations(self) -> Callable[[str, str], Iterator[Mutant]]:
        from minitile.runtime.sim.mutate.ptx import removals

        return removals

    # Devices ----------------------------------------------------------------------------------------------------------

    def target_of_device(self, index: int) -> Target:
        from minitile.backends.nvidia.targets import target_for
        from minitile.runtime import cuda

        device = cuda.device_info(index)
        return target_for(device.capability, device.max_shared)

    def device_name(self, index: int) -> str:
        from minitile.runtime import cuda

        return cuda.device_info(index).name

    def current_target(self) -> Target | None:
        from minitile.backends.nvidia.targets import target_for
        from minitile.runtime import cuda

        device = cuda.current_device_info()
        return None if device is None else target_for(device.capability, device.max_shared)

    def doctor(self) -> Iterator[tuple[str, str]]:
        from minitile.runtime import cuda
        from minitile.runtime.errors import LaunchError

        extra = "missing: pip install 'minitile[cuda]'"
        yield "cuda-python", installed("cuda-python") or installed("cuda-bindings") or extra
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


BACKEND = NvidiaBackend()
