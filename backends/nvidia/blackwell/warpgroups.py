"""Warpgroups that multiply blocks of rows of their own: a pass behind `issue_apart`.

    %t = tensor_gemm %Qs, %Ks, %s, …          →       the same {groups = 2}: each warpgroup issues the products of its
                                                      blocks of rows, at a barrier of its own, and waits for these alone

Two blocks of 128 queries in two warpgroups: while one computes exponentials the tensor cores have the products of the
other. That no warpgroup waits for another takes that all gemms are so, that their shared operands come by TMA, whose
slots each warp releases by itself, and that nothing else has the threads meet: what is stored to tensor memory is the
warpgroup's alone, and its threads meet at a barrier of their own (`shared_by`).
"""

from __future__ import annotations

from typing import Any

from minitile.backends.nvidia.blackwell.layouts import own_blocks
from minitile.backends.nvidia.blackwell.products import in_tensor_memory
from minitile.hardware import WARPGROUP
from minitile.ir.core import Kernel, Value
from minitile.ir.ops import blackwell, control, roles


def by_warpgroups(kernel: Kernel, context: Any) -> None:
    """The pass."""
    launch = control.find_launch(kernel)
    groups = launch.threads // WARPGROUP
    apart = next((op for op in launch.body.ops if type(op) is roles.WarpSpecialized and op.producer_threads), None)
    gemms = [op for op in kernel.walk() if isinstance(op, blackwell.TensorGemm)]
    if apart is None or groups < 2 or not gemms:
        return
    rings = [op for op in launch.body.ops if isinstance(op, roles.MbarrierPipeline)]
    payload = {v for ring in rings for v in ring.payload}

    def fits(v: Value) -> bool:
        return v in payload or in_tensor_memory(v)

    if not all(op.a_scale is None and fits(op.a) and fits(op.b) and own_blocks(op.d.shape, groups) for op in gemms):
        return
    for op in kernel.walk():
        if isinstance(op, blackwell.TensorGemm):
            op.groups = groups
        elif isinstance(op, blackwell.TensorAlloc):
            op.shared_by = WARPGROUP
