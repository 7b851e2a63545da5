"""Ready kernels: `minitile.ops.matmul`, `minitile.ops.grouped_matmul`, and those of `minitile.ops.memory_bound`.

Public names are loaded on first use, as those of `minitile` itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitile.ops.grouped import grouped_matmul, grouped_plan_for
    from minitile.ops.memory_bound.cross_entropy import cross_entropy
    from minitile.ops.memory_bound.gated import geglu, geglu_backward, swiglu, swiglu_backward
    from minitile.ops.memory_bound.norms import layer_norm, rms_norm
    from minitile.ops.memory_bound.rotary import rotary
    from minitile.ops.memory_bound.softmax import log_softmax, softmax
    from minitile.ops.memory_bound.sums import column_sums
    from minitile.ops.memory_bound.transpose import transpose
    from minitile.ops.multiply import matmul, plan_for
    from minitile.ops.plan import Plan

_HOME = {
    "matmul": "minitile.ops.multiply",
    "plan_for": "minitile.ops.multiply",
    "grouped_matmul": "minitile.ops.grouped",
    "grouped_plan_for": "minitile.ops.grouped",
    "Plan": "minitile.ops.plan",
    "column_sums": "minitile.ops.memory_bound.sums",
    "cross_entropy": "minitile.ops.memory_bound.cross_entropy",
    **dict.fromkeys(("swiglu", "swiglu_backward", "geglu", "geglu_backward"), "minitile.ops.memory_bound.gated"),
    "layer_norm": "minitile.ops.memory_bound.norms",
    "log_softmax": "minitile.ops.memory_bound.softmax",
    "rms_norm": "minitile.ops.memory_bound.norms",
    "rotary": "minitile.ops.memory_bound.rotary",
    "softmax": "minitile.ops.memory_bound.softmax",
    "transpose": "minitile.ops.memory_bound.transpose",
}

__all__ = [
    "Plan",
    "column_sums",
    "cross_entropy",
    "geglu",
    "geglu_backward",
    "grouped_matmul",
    "grouped_plan_for",
    "layer_norm",
    "log_softmax",
    "matmul",
    "plan_for",
    "rms_norm",
    "rotary",
    "softmax",
    "swiglu",
    "swiglu_backward",
    "transpose",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'minitile.ops' has no attribute {name!r}")
    from minitile.ops.torch_ops import differentiable

    value = differentiable(name, getattr(importlib.import_module(_HOME[name]), name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
