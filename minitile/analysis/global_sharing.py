"""Whether threads of a kernel hand data to each other through global memory: what barriers and fences then have to do.

store %W … ; barrier ; load %W …       yes
load %A … ; store %C …                 no
"""

from __future__ import annotations

from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import control, fences
from minitile.ir.types import TensorType


def shares_global(kernel: Kernel) -> bool:
    """Whether threads may hand data to each other through global memory: the kernel writes a tensor and touches it in
    another place or in a loop as well, or it has a fence for others who do."""
    if any(isinstance(op, fences.MemoryFence) for op in kernel.walk()):
        return True
    touched: dict[Value | None, int] = {}
    written: set[Value | None] = set()

    def walk(block: Block, times: int) -> None:
        for op in block.ops:
            inside = times * 2 if isinstance(op, control.Loop) else times
            for region in op.regions:
                walk(region, inside)
            if op.regions or op.pure:
                continue
            for access in op.accesses():
                if access.mem is None or isinstance(access.mem.type, TensorType):
                    touched[access.mem] = touched.get(access.mem, 0) + times
                    if access.writes:
                        written.add(access.mem)

    walk(kernel.body, 1)
    return any(touched[mem] > 1 for mem in written)
