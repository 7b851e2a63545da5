"""Arrays for the ready kernels: NumPy's, so that the simulator runs them, or with MINITILE_GPU=1 torch's on the GPU."""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy as np

ON_GPU = os.environ.get("MINITILE_GPU") == "1"
bf16, f16, f32 = ml_dtypes.bfloat16, np.float16, np.float32
HALF_ULP = {bf16: 2.0**-8, f16: 2.0**-11, f32: 2.0**-21}  # relative; of f32 what exp has, and rounding besides


def given(x: Any) -> Any:
    """A NumPy array as the kernels get it."""
    if not ON_GPU:
        return x
    import torch

    if x.dtype == bf16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(x).cuda()


def exact(y: Any) -> Any:
    """A result in float64."""
    if not isinstance(y, np.ndarray):
        y = y.double().cpu().numpy()
    return y.astype(np.float64)


def random(seed: int, *shape: int, dtype: Any = f32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(y: Any, expected: Any, dtype: Any, least: float = 1e-30) -> None:
    """Each element is as near as rounding to dtype leaves it; where terms cancel, of terms of the size `least`."""
    y = exact(y)
    assert y.shape == expected.shape
    # An element below the normal numbers of f16 has fewer digits.
    bound = 1.15 * HALF_ULP[dtype] * np.maximum(np.abs(expected), least) + (2.0**-25 if dtype == f16 else 0)
    worst = np.max(np.abs(y - expected) / bound, initial=0.0)
    assert worst <= 1, f"{worst} times the bound"
