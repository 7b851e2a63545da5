"""Which accesses of a kernel bounds cut off, by source line: `simulate(report_masked=True)`, `minitile check --masked`.

The kernel is compiled once more, with counters (`passes.count_masked`), for the same target but without what reorders
it, and that is run in the simulator on copies of the arguments. So the assembly that is meant needs to say nothing of
which of its predicates are bounds, and the counts do not depend on what hardware masks by itself (copies by TMA, buffer
descriptors)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitile.driver.simulate import run
from minitile.runtime.launch_info import LaunchInfo, TensorArg

if TYPE_CHECKING:
    from minitile.driver.compiled import CompiledKernel
    from minitile.runtime.sim.core.report import MaskedAccess
    from minitile.transforms.canonicalize.count_masked import Counted

# Counters would prevent these, and the counts are the same without them.
_LEFT_OUT = ("warp_specialize", "tma_multistage", "software_pipeline", "skew", "prefetch_fragments", "cdna4_half_tiles")


def copied(args: Sequence[Any]) -> list[Any]:
    """The arguments as they are now, strides and alignment included."""
    return [_copied(a) if isinstance(a, np.ndarray) else a for a in args]


def _copied(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    from minitile.runtime.sim import Within

    if array.flags.c_contiguous and array.ctypes.data % 16 == 0:
        return array.copy()
    memory = Within.of(array)
    skew = memory.root.ctypes.data % 16
    room = np.zeros(memory.root.nbytes + 32, np.uint8)
    begin = -room.ctypes.data % 16 + skew
    root = room[begin : begin + memory.root.nbytes].view(array.dtype)
    root[:] = memory.root
    return Within(root, memory.offset).view(array)


def masked_accesses(compiled: CompiledKernel, args: Sequence[Any]) -> tuple[MaskedAccess, ...]:
    """What bounds cut off of the kernel's accesses when it runs on these arguments, which a binder has checked and
    which it changes; in the program's order."""
    from minitile.runtime.sim.core.report import MaskedAccess

    built = _counting_kernel(compiled)
    if built is None:
        return ()
    counted, info, text = built
    counts = np.zeros(len(counted), np.int32)
    run(info, text, [*args, counts], check=False, backend=compiled.backend)
    totals: dict[tuple[str | None, str, str], int] = {}
    for each, n in zip(counted, counts.tolist(), strict=True):
        if n:
            source = None if each.loc is None else f"{each.loc.file}:{each.loc.line}"
            key = source, each.kind, each.tensor
            totals[key] = totals.get(key, 0) + n
    return tuple(MaskedAccess(*key, n) for key, n in totals.items())


def _counting_kernel(compiled: CompiledKernel) -> tuple[list[Counted], LaunchInfo, str] | None:
    """What is counted, the launch and the assembly of the kernel with counters; None where no access needs any."""
    from minitile.driver.describe_launch import launch_info
    from minitile.driver.pipeline import OPTIONAL, compile_ir
    from minitile.transforms.canonicalize.count_masked import COUNTS, count_masked

    traced = compiled.case.trace()
    counted = count_masked(traced)
    if not counted:
        return None
    switches = {**compiled.passes, **{name: False for name in _LEFT_OUT if name in OPTIONAL}}
    result = compile_ir(traced, compiled.target, switches)
    more = TensorArg(COUNTS, "i32", (len(counted),))
    info = launch_info(result, compiled.case, (more,))
    return counted, info, list(result.assembly.values())[-1]
