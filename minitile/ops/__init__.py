"""Ready kernels: `minitile.ops.matmul`, `minitile.ops.grouped_matmul`, and those of `minitile.ops.memory_bound`.

Public names are loaded on first use, as those of `minitile` itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitile.ops.grouped import grouped_matmul, grouped_plan_for
    from minitile.ops.memory_bound.embedding import embedding, embedding_backward
    from minitile.ops.memory_bound.gated import geglu, geglu_backward, swiglu, swiglu_backward
    from minitile.ops.memory_bound.kv_cache import kv_cache_append
    from minitile.ops.memory_bound.rotary import rotary
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
    **dict.fromkeys(("swiglu", "swiglu_backward", "geglu", "geglu_backward"), "minitile.ops.memory_bound.gated"),
    **dict.fromkeys(("embedding", "embedding_backward"), "minitile.ops.memory_bound.embedding"),
    "kv_cache_append": "minitile.ops.memory_bound.kv_cache",
    "rotary": "minitile.ops.memory_bound.rotary",
    "column_sums": "minitile.ops.memory_bound.sums",
    "transpose": "minitile.ops.memory_bound.transpose",
}

__all__ = [
    "Plan",
    "column_sums",
    "embedding",
    "embedding_backward",
    "geglu",
    "geglu_backward",
    "grouped_matmul",
    "grouped_plan_for",
    "kv_cache_append",
    "matmul",
    "plan_for",
    "rotary",
    "swiglu",
    "swiglu_backward",
    "transpose",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'minitile.ops' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
