"""TileLang's dtypes: `T.dtype(x)` of a name, of torch's and NumPy's dtypes."""

from __future__ import annotations

from typing import Any

from minitile.ir.types import PACKED, DType
from minitile.language.math import dtype_of_name

_OTHER = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "uint": "uint32",
    "int": "int32",
    "tfloat32": "float32",
    "custom[tfloat32]32": "float32",
    "boolean": "bool",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
}
int4, uint4 = DType("i4", 4, "int"), DType("u4", 4, "uint")  # names of formats: no dtypes of memory or values
_NAMED = {"int4": int4, "uint4": uint4}
_PACKED = {"float4_e2m1fn": "e2m1", "float6_e2m3fn": "e2m3", "float6_e3m2fn": "e3m2"}


def dtype(given: Any) -> DType:
    """The dtype of that name, or that torch's or NumPy's dtype names: `T.dtype("float16")`, `T.dtype(q.dtype)`. Raises
    LanguageError for a name that there is not."""
    text = given if isinstance(given, str) else None
    if text in _PACKED:
        return PACKED[_PACKED[text]]
    if isinstance(given, DType):
        return given
    if text in _NAMED:
        return _NAMED[text]
    return dtype_of_name(_OTHER.get(text, text) if text is not None else given)


def short_name(given: Any) -> str:
    """TileLang's name of a dtype: "float16"."""
    return str(dtype(given).numpy)
