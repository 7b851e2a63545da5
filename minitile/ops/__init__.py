"""Ready kernels: `minitile.ops.matmul`, `minitile.ops.grouped_matmul`, `minitile.ops.attention`, and those of
`minitile.ops.memory_bound`.

Public names are loaded on first use, as those of `minitile` itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitile.ops.attention_op import attention, attention_plan_for
    from minitile.ops.attention_plans import AttentionPlan
    from minitile.ops.grouped import grouped_matmul, grouped_plan_for
    from minitile.ops.memory_bound.cross_entropy import cross_entropy, cross_entropy_backward, cross_entropy_gradient
    from minitile.ops.memory_bound.dropout import dropout, dropout_backward
    from minitile.ops.memory_bound.embedding import embedding, embedding_backward
    from minitile.ops.memory_bound.gated import geglu, geglu_backward, swiglu, swiglu_backward
    from minitile.ops.memory_bound.kv_cache import kv_cache_append
    from minitile.ops.memory_bound.linear_cross_entropy import linear_cross_entropy, linear_cross_entropy_backward
    from minitile.ops.memory_bound.norms import layer_norm, rms_norm
    from minitile.ops.memory_bound.norms_backward import layer_norm_backward, rms_norm_backward
    from minitile.ops.memory_bound.norms_quantised import layer_norm_fp8, rms_norm_fp8
    from minitile.ops.memory_bound.rotary import rotary
    from minitile.ops.memory_bound.scans import cumsum
    from minitile.ops.memory_bound.softmax import log_softmax, log_softmax_backward, softmax, softmax_backward
    from minitile.ops.memory_bound.sums import column_sums
    from minitile.ops.memory_bound.top_k import top_k
    from minitile.ops.memory_bound.transpose import transpose
    from minitile.ops.multiply import matmul, plan_for
    from minitile.ops.plan import Plan
    from minitile.ops.quantised.calls import matmul_fp8, matmul_quantised
    from minitile.ops.quantised.pack import QuantisedWeights, pack_weights, quantise_weights
    from minitile.ops.quantised.plans import Fp8Plan, QuantisedPlan

_HOME = {
    "AttentionPlan": "minitile.ops.attention_plans",
    "Fp8Plan": "minitile.ops.quantised.plans",
    "Plan": "minitile.ops.plan",
    "QuantisedPlan": "minitile.ops.quantised.plans",
    "QuantisedWeights": "minitile.ops.quantised.pack",
    "attention": "minitile.ops.attention_op",
    "attention_plan_for": "minitile.ops.attention_op",
    "column_sums": "minitile.ops.memory_bound.sums",
    "cross_entropy": "minitile.ops.memory_bound.cross_entropy",
    "cross_entropy_backward": "minitile.ops.memory_bound.cross_entropy",
    "cross_entropy_gradient": "minitile.ops.memory_bound.cross_entropy",
    "cumsum": "minitile.ops.memory_bound.scans",
    "dropout": "minitile.ops.memory_bound.dropout",
    "dropout_backward": "minitile.ops.memory_bound.dropout",
    "embedding": "minitile.ops.memory_bound.embedding",
    "embedding_backward": "minitile.ops.memory_bound.embedding",
    "geglu": "minitile.ops.memory_bound.gated",
    "geglu_backward": "minitile.ops.memory_bound.gated",
    "grouped_matmul": "minitile.ops.grouped",
    "grouped_plan_for": "minitile.ops.grouped",
    "kv_cache_append": "minitile.ops.memory_bound.kv_cache",
    "layer_norm": "minitile.ops.memory_bound.norms",
    "layer_norm_backward": "minitile.ops.memory_bound.norms_backward",
    "layer_norm_fp8": "minitile.ops.memory_bound.norms_quantised",
    "linear_cross_entropy": "minitile.ops.memory_bound.linear_cross_entropy",
    "linear_cross_entropy_backward": "minitile.ops.memory_bound.linear_cross_entropy",
    "log_softmax": "minitile.ops.memory_bound.softmax",
    "log_softmax_backward": "minitile.ops.memory_bound.softmax",
    "matmul": "minitile.ops.multiply",
    "matmul_fp8": "minitile.ops.quantised.calls",
    "matmul_quantised": "minitile.ops.quantised.calls",
    "pack_weights": "minitile.ops.quantised.pack",
    "plan_for": "minitile.ops.multiply",
    "quantise_weights": "minitile.ops.quantised.pack",
    "rms_norm": "minitile.ops.memory_bound.norms",
    "rms_norm_backward": "minitile.ops.memory_bound.norms_backward",
    "rms_norm_fp8": "minitile.ops.memory_bound.norms_quantised",
    "rotary": "minitile.ops.memory_bound.rotary",
    "softmax": "minitile.ops.memory_bound.softmax",
    "softmax_backward": "minitile.ops.memory_bound.softmax",
    "swiglu": "minitile.ops.memory_bound.gated",
    "swiglu_backward": "minitile.ops.memory_bound.gated",
    "top_k": "minitile.ops.memory_bound.top_k",
    "transpose": "minitile.ops.memory_bound.transpose",
}

__all__ = [
    "AttentionPlan",
    "Fp8Plan",
    "Plan",
    "QuantisedPlan",
    "QuantisedWeights",
    "attention",
    "attention_plan_for",
    "column_sums",
    "cross_entropy",
    "cross_entropy_backward",
    "cross_entropy_gradient",
    "cumsum",
    "dropout",
    "dropout_backward",
    "embedding",
    "embedding_backward",
    "geglu",
    "geglu_backward",
    "grouped_matmul",
    "grouped_plan_for",
    "kv_cache_append",
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_fp8",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "log_softmax",
    "log_softmax_backward",
    "matmul",
    "matmul_fp8",
    "matmul_quantised",
    "pack_weights",
    "plan_for",
    "quantise_weights",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_fp8",
    "rotary",
    "softmax",
    "softmax_backward",
    "swiglu",
    "swiglu_backward",
    "top_k",
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
