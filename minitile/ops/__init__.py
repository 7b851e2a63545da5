"""Ready kernels: `minitile.ops.matmul`, `minitile.ops.grouped_matmul`.

Public names are loaded on first use, as those of `minitile` itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitile.ops.grouped import grouped_matmul, grouped_plan_for
    from minitile.ops.multiply import matmul, plan_for
    from minitile.ops.plan import Plan

_HOME = {
    "matmul": "minitile.ops.multiply",
    "plan_for": "minitile.ops.multiply",
    "grouped_matmul": "minitile.ops.grouped",
    "grouped_plan_for": "minitile.ops.grouped",
    "Plan": "minitile.ops.plan",
}

__all__ = ["Plan", "grouped_matmul", "grouped_plan_for", "matmul", "plan_for"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'minitile.ops' has no attribute {name!r}")
    from minitile.ops.torch_ops import differentiable

    value = differentiable(name, getattr(importlib.import_module(_HOME[name]), name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
