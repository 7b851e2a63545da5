"""A tensor of the signature under another shape: `T.Tensor(shape, dtype, x.data)`."""

from __future__ import annotations

from typing import Any

from minitile.language.results import tensor_view
from minitile.tilelang.language.dtypes import dtype as dtype_of


def viewed(memory: Any, shape: Any, dtype: Any) -> Any:
    """`T.reshape(x, shape)`, of a tensor. Raises LanguageError for another dtype or number of elements."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tensor_view(memory, sizes, dtype_of(dtype), "T.Tensor(…, x.data)")
