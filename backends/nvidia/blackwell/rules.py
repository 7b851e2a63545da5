"""The lowering rules of targets with tensor memory: those of sm_90a, and products.py's before them."""

from __future__ import annotations

from functools import lru_cache

from minitile.backends.base import GemmPlan, Rules
from minitile.backends.nvidia import lowering
from minitile.backends.nvidia.blackwell.launch_control import RULES as LAUNCH_RULES
from minitile.backends.nvidia.blackwell.layouts import load_plan
from minitile.backends.nvidia.blackwell.pair_rules import RULES as PAIR_RULES
from minitile.backends.nvidia.blackwell.products import RULES, misfit_of
from minitile.hardware import Target
from minitile.ir.diagnostics import MinitileError, TargetError
from minitile.ir.ops import blackwell, tile


@lru_cache(maxsize=8)
def rules_for(target: Target) -> Rules:
    """The rules of such a target."""
    others = lowering.rules_for(target)

    def gemm_plan(op: tile.Gemm | blackwell.TensorLoad | blackwell.TensorStore, threads: int) -> GemmPlan:
        if isinstance(op, blackwell.TensorLoad | blackwell.TensorStore):
            return load_plan(op, threads)
        try:
            return others.gemm_plan(op, threads)
        except MinitileError:
            if op.scaled:  # before `tensor_memory`, which has a better reason
                raise TargetError(f"T.gemm_blockscaled: {misfit_of(op, threads, target)}", op.loc) from None
            raise

    return Rules(
        gemm_plan,
        {**others.lower, **RULES, **PAIR_RULES, **LAUNCH_RULES},
        lambda op, threads: misfit_of(op, threads, target),
    )
