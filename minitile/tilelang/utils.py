"""`tilelang.utils`: inputs and comparisons."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from minitile.tilelang.inputs import TensorSupplyType, make
from minitile.tilelang.testing import torch_assert_close


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Auto) -> Any:
    """A function of a tensor parameter that makes an input."""
    return lambda parameter: make(parameter, {}, supply_type)


def map_torch_type(name: Any) -> Any:
    """torch's dtype of that name."""
    torch: Any = import_module("torch")

    from minitile.tilelang.language.dtypes import dtype

    return getattr(torch, dtype(name))


__all__ = ["TensorSupplyType", "get_tensor_supply", "map_torch_type", "torch_assert_close"]
