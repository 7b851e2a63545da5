"""`tilelang.transform`: passes are minitile's own; what scripts import from here does nothing."""

from __future__ import annotations

from typing import Any

from minitile.tilelang.pass_config import PassConfigKey


def simplify_prim_func(function: Any) -> Any:
    """The function itself: the compiler simplifies."""
    return function


__all__ = ["PassConfigKey", "simplify_prim_func"]
