"""TileLang's dtypes: strings, `T.float16 == "float16"`, which know their size, torch's dtype, and cast when called."""

from __future__ import annotations

from typing import Any

from minitile.ir.types import NIBBLES, PACKED, DType
from minitile.language.math import cast, dtype_of_name

_OTHER = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "uint": "uint32",
    "int": "int32",
    "long": "int64",
    "tfloat32": "float32",
    "custom[tfloat32]32": "float32",
    "boolean": "bool",
    "e4m3_float8": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "float4_e2m1": "float4_e2m1fn",
    "float4_e2m1fn_x2": "float4_e2m1fn",
}
# Formats that no tensor, buffer or value here has: names of packed bytes' contents.
_FORMATS = {
    "float4_e2m1fn": PACKED["e2m1"],
    "float6_e2m3fn": PACKED["e2m3"],
    "float6_e3m2fn": PACKED["e3m2"],
    "int4": NIBBLES["i4"],
    "uint4": NIBBLES["u4"],
    "float8_e8m0fnu": DType("e8m0", 8, "float"),
    "handle": DType("handle", 64, "uint"),
}


class dtype(str):
    """A dtype by its name, or by torch's, NumPy's or minitile's dtype: `T.dtype("float16")`, `T.dtype(q.dtype)`.
    Raises LanguageError for one that there is not."""

    __slots__ = ("ours",)
    ours: DType
    __hash__ = str.__hash__

    def __new__(cls, given: Any) -> dtype:
        text = _OTHER.get(given, given) if isinstance(given, str) else given
        ours = _FORMATS[text] if isinstance(text, str) and text in _FORMATS else dtype_of_name(text)
        made = super().__new__(cls, text if isinstance(text, str) and text in _FORMATS else str(ours.numpy))
        made.ours = ours
        return made

    @property
    def bits(self) -> int:
        """In memory."""
        return self.ours.bits

    @property
    def bytes(self) -> int:
        """In memory, rounded up."""
        return self.ours.bytes

    itemsize = bytes

    @property
    def lanes(self) -> int:
        """Always one."""
        return 1

    def as_torch(self) -> Any:
        """torch's dtype."""
        return self.ours.as_torch()

    def __call__(self, value: Any) -> Any:
        """`T.float32(x)`: a cast."""
        return cast(value, self.ours)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.ours is other
        return str.__eq__(self, _OTHER.get(other, other) if isinstance(other, str) else str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


float64, float32, float16, bfloat16 = (dtype(n) for n in ("float64", "float32", "float16", "bfloat16"))
float8_e4m3fn, float8_e5m2 = dtype("float8_e4m3fn"), dtype("float8_e5m2")
float8_e4m3fnuz, float8_e5m2fnuz = dtype("float8_e4m3fnuz"), dtype("float8_e5m2fnuz")
float8_e8m0fnu, float4_e2m1fn = dtype("float8_e8m0fnu"), dtype("float4_e2m1fn")
float6_e2m3fn, float6_e3m2fn = dtype("float6_e2m3fn"), dtype("float6_e3m2fn")
int4, int8, int16, int32, int64 = (dtype(f"int{b}") for b in (4, 8, 16, 32, 64))
uint4, uint8, uint16, uint32, uint64 = (dtype(f"uint{b}") for b in (4, 8, 16, 32, 64))
boolean = dtype("bool")
