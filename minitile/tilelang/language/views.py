"""A tensor of the signature under another shape: `T.Tensor(shape, dtype, x.data)`, `T.reshape(x, shape)`."""

from __future__ import annotations

from typing import Any

from minitile.language.tracing.context import current


def viewed(memory: Any, shape: Any, dtype: Any) -> Any:
    """Refused as yet."""
    raise current().error(
        "T.Tensor(shape, dtype, x.data): a tensor under another shape is not there",
        "reshape it before the call, and name that shape in the signature",
    )
