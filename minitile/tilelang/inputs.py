"""Inputs for a kernel's tensors: torch's where it is installed, else NumPy's."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from minitile.ir.diagnostics import LaunchArgumentError
from minitile.ir.types import DType
from minitile.language.tracing.signature import Parameter
from minitile.language.tracing.trace import tensor_shape

SEED = 0


class TensorSupplyType(enum.Enum):
    """What inputs are made of: random integers from -2 to 2, uniform or normal numbers, zeros, ones; Auto: integers for
    dtypes of integers, else normal numbers."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def make(p: Parameter, sizes: Mapping[str, int], supply: Any = None, seed: int = SEED) -> Any:
    """A tensor of the signature on the GPU, if torch has one, else on the CPU. Raises LaunchArgumentError for a
    run-time size that is not in `sizes`."""
    assert p.tensor is not None
    missing = [d for d in p.tensor.shape if isinstance(d, str) and d not in sizes]
    if missing:
        raise LaunchArgumentError(
            f"no inputs can be made for {p.name}, whose size {missing[0]} is known at run time only",
            hint="pass tensors: do_bench(input_tensors=[…])",
        )
    shape = tuple(int(n) for n in tensor_shape(p, sizes))
    assert p.dtype is not None
    return _adopted(_numbers(shape, p.dtype, supply, seed), p.dtype)


def _numbers(shape: tuple[int, ...], dtype: DType, supply: Any, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = supply if isinstance(supply, TensorSupplyType) else TensorSupplyType.Auto
    if kind is TensorSupplyType.Zero:
        return np.zeros(shape, dtype.numpy)
    if kind is TensorSupplyType.One:
        return np.ones(shape, dtype.numpy)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not dtype.is_float:
        low = 0 if dtype.kind == "uint" else -2
        return rng.integers(low, 3, shape).astype(dtype.numpy)
    if kind is TensorSupplyType.Integer:
        return rng.integers(-2, 3, shape).astype(np.float32).astype(dtype.numpy)
    if kind is TensorSupplyType.Uniform:
        return rng.uniform(-1, 1, shape).astype(np.float32).astype(dtype.numpy)
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype.numpy)


def _adopted(numbers: np.ndarray[Any, Any], dtype: DType) -> Any:
    """The array as torch's tensor, where there is torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "from_numpy"):
        return numbers
    same = getattr(torch, str(dtype.numpy))
    tensor = torch.from_numpy(numbers.view(np.uint8).reshape(-1)).view(same).reshape(numbers.shape)
    return tensor.cuda() if torch.cuda.is_available() else tensor
