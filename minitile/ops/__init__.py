"""Ready kernels: `minitile.ops.matmul`, `minitile.ops.grouped_matmul`, and those of `minitile.ops.memory_bound`.

Public names are loaded on first use, as those of `minitile` itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitile.ops.grouped import grouped_matmul, grouped_plan_for
    from minitile.ops.memory_bound.cross_entropy import cross_entropy
    from minitile.ops.memory_bound.dropout import dropout, dropout_backward
    from minitile.ops.memory_bound.norms import layer_norm, rms_norm
    from minitile.ops.memory_bound.scans import cumsum
    from minitile.ops.memory_bound.softmax import log_softmax, softmax
    from minitile.ops.memory_bound.top_k import top_k
    from minitile.ops.multiply import matmul, plan_for
    from minitile.ops.plan import Plan

_HOME = {
    "matmul": "minitile.ops.multiply",
    "plan_for": "minitile.ops.multiply",
    "grouped_matmul": "minitile.ops.grouped",
    "grouped_plan_for": "minitile.ops.grouped",
    "Plan": "minitile.ops.plan",
    "cross_entropy": "minitile.ops.memory_bound.cross_entropy",
    "cumsum": "minitile.ops.memory_bound.scans",
    "dropout": "minitile.ops.memory_bound.dropout",
    "dropout_backward": "minitile.ops.memory_bound.dropout",
    "layer_norm": "minitile.ops.memory_bound.norms",
    "log_softmax": "minitile.ops.memory_bound.softmax",
    "rms_norm": "minitile.ops.memory_bound.norms",
    "softmax": "minitile.ops.memory_bound.softmax",
    "top_k": "minitile.ops.memory_bound.top_k",
}

__all__ = [
    "Plan",
    "cross_entropy",
    "cumsum",
    "dropout",
    "dropout_backward",
    "grouped_matmul",
    "grouped_plan_for",
    "layer_norm",
    "log_softmax",
    "matmul",
    "plan_for",
    "rms_norm",
    "softmax",
    "top_k",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'minitile.ops' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
