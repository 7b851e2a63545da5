"""What every example needs around its kernel: random arrays, where they live, and the error of the result.

The kernels run on the GPU when MINITILE_GPU=1 (arrays are torch tensors then), else in the simulator (NumPy arrays).
"""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy as np

from minitile.target import parse_target

_OF_TORCH = {  # what NumPy has no dtype for
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
    np.dtype(ml_dtypes.float8_e4m3fn): "float8_e4m3fn",
    np.dtype(ml_dtypes.float8_e5m2): "float8_e5m2",
}
USE_GPU = os.environ.get("MINITILE_GPU") == "1"


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Standard normal floats, or integers in [-8, 8)."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -8
        return rng.integers(low, 8, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def poisoned(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An output array that shows what was not written: NaN, or an unlikely integer."""
    dtype = np.dtype(dtype)
    return np.full(shape, -77 if dtype.kind in "iu" else np.nan).astype(dtype)


def on_device(array: np.ndarray) -> Any:
    """The array where kernels run: itself, or a torch tensor on the GPU with the same bytes."""
    if not USE_GPU:
        return array
    import torch

    if array.dtype in _OF_TORCH:
        bits = array.view(np.int16 if array.dtype.itemsize == 2 else np.int8)
        return torch.from_numpy(bits.copy()).cuda().view(getattr(torch, _OF_TORCH[array.dtype]))
    return torch.from_numpy(array.copy()).cuda()


def on_host(array: Any) -> np.ndarray:
    """The NumPy array of a result."""
    if isinstance(array, np.ndarray):
        return array
    import torch

    for dtype, name in _OF_TORCH.items():
        if array.dtype == getattr(torch, name):
            bits = torch.int16 if dtype.itemsize == 2 else torch.int8
            return array.view(bits).cpu().numpy().view(dtype)
    return array.cpu().numpy()


def error(result: Any, reference: np.ndarray) -> float:
    """‖result − reference‖ / ‖reference‖ in float64; NaN if any element is."""
    result = on_host(result).astype(np.float64)
    reference = reference.astype(np.float64)
    if not reference.size:
        return 0.0
    return float(np.linalg.norm(result - reference) / max(float(np.linalg.norm(reference)), 1e-30))


def report(name: str, value: float, tolerance: float) -> None:
    """One line for a person; raises AssertionError when the error is too large (or NaN)."""
    where = "GPU" if USE_GPU else "simulator"
    print(f"{name}: relative error {value:.2e} (bound {tolerance:.0e}), {where}")
    assert value <= tolerance, f"{name}: {value} > {tolerance}"


def has_form(feature: str, what: str) -> bool:
    """Whether the target that "auto" means has what the example's kernel cannot do without; says so if not."""
    target = parse_target("auto")
    if not target.has(feature):
        print(f"no form for {target}: it has no {what}")
    return target.has(feature)
