"""`tilelang.language.fp8`: which fp8 formats a device has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from minitile.tilelang.mode import MODE


def determine_fp8_type(fp8_format: str = "e4m3") -> str:
    """The name of a GPU's format for "e4m3" or "e5m2": on gfx942 the fnuz ones."""
    fnuz = MODE.target == "gfx942"
    return {
        "e4m3": "float8_e4m3fnuz" if fnuz else "float8_e4m3fn",
        "e5m2": "float8_e5m2fnuz" if fnuz else "float8_e5m2",
    }[fp8_format]


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> object:
    """The same as torch's dtype."""
    torch: Any = import_module("torch")

    return getattr(torch, determine_fp8_type(fp8_format))
