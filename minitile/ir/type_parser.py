"""Reads types and layouts as they print: `tile<128x64xf32, layout<…>>`, `shared<3 versions x 64x64xbf16>`, `token`.

Everything written `name<…>` is told apart by its name; the one name used twice is `shared`, a buffer's type or, with a
semicolon, a shared layout. Raises ValueError with the reason; the parser adds the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from minitile.ir.limits import MAX_SLOTS, integer
from minitile.ir.types import (
    ALIGNMENT,
    COUNTERS,
    DTYPES,
    SPACES,
    TOKEN,
    BufferType,
    Dim,
    DType,
    FutureType,
    PipelineType,
    RegsType,
    ScalarType,
    SlotType,
    TensorType,
    TileType,
    TokenType,
    Type,
)

_ANGLE = re.compile(r"([A-Za-z_]\w*)<(.*)>", re.DOTALL)
_DIM = re.compile(r'"([^"]*)"x|([^"x]+)x')
_VERSIONS = re.compile(r"(\d+) versions x ")


def parse_type(text: str) -> Type:
    """The type that prints as `text`."""
    found = parse_angle(text)
    if not isinstance(found, Type):
        raise ValueError(f"{text} is not a type")
    return found


def parse_angle(text: str) -> Any:
    """What prints as `text`: a type, a Layout or a SharedLayout."""
    text = text.strip()
    if text in DTYPES:
        return ScalarType(DTYPES[text])
    if text == "token":
        return TOKEN
    match = _ANGLE.fullmatch(text)
    if match is None or match[1] not in _READERS:
        raise ValueError(f"{text} is neither a type nor a layout")
    return _READERS[match[1]](match[2], text)


def _shape(text: str) -> tuple[tuple[Dim, ...], DType]:
    """`MxKx4xf32` as (("M", "K", 4), f32)."""
    dims: list[Dim] = []
    at = 0
    while match := _DIM.match(text, at):
        quoted, plain = match.groups()
        dims.append(quoted if plain is None else integer(plain) if plain.isdigit() else plain)
        at = match.end()
    last = text[at:]
    if last not in DTYPES:
        raise ValueError(f"{last!r} is not an element type; there are {', '.join(DTYPES)}")
    return tuple(dims), DTYPES[last]


def _sizes(text: str) -> tuple[tuple[int, ...], DType]:
    """A shape without names."""
    dims, dtype = _shape(text)
    sizes = tuple(d for d in dims if isinstance(d, int))
    if len(sizes) != len(dims):
        raise ValueError(f"the sizes of {text} must be numbers")
    return sizes, dtype


def _slots(text: str) -> int:
    """How many slots or versions there are."""
    count = integer(text)
    if not 0 <= count <= MAX_SLOTS:
        raise ValueError(f"{count} slots; there may be {MAX_SLOTS}")
    return count


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _tile(inner: str, text: str) -> Type:
    dims, *layout = _split(inner)
    found = parse_angle(layout[0]) if layout else None
    if isinstance(found, Type) or len(layout) > 1:
        raise ValueError(f"{text}: behind the shape of a tile stands its layout")
    return TileType(*_sizes(dims), found)


def _tensor(inner: str, text: str) -> Type:
    dims, *more = _split(inner)
    shape, dtype = _shape(dims)
    strides, align = None, ALIGNMENT
    for part in more:
        word, _, given = part.partition(" ")
        if word == "strides" and given.startswith("(") and given.endswith(")"):
            strides = tuple(_stride(each, text) for each in _split(given[1:-1]))
        elif word == "align" and given in ("1", "2", "4", "8", "16"):
            align = integer(given)
        else:
            raise ValueError(f"{text}: behind the shape of a tensor stand its strides and `align`, not {part!r}")
    return TensorType(shape, dtype, strides, align)


def _stride(text: str, of: str) -> Dim:
    if re.fullmatch(r"-?\d+", text):
        return -integer(text[1:]) if text.startswith("-") else integer(text)
    if not text.isidentifier():
        raise ValueError(f"{of}: a stride is a number or a name, not {text!r}")
    return text


def _regs(inner: str, text: str) -> Type:
    sizes, dtype = _sizes(inner)
    if len(sizes) != 1:
        raise ValueError(f"{text}: registers have one size")
    return RegsType(sizes[0], dtype)


def _buffer(inner: str, text: str) -> Any:
    if ";" in inner:
        from minitile.layout.shared import SharedLayout

        return SharedLayout.parse(text)
    match = _VERSIONS.match(inner)
    versions = _slots(match[1]) if match else 1
    return BufferType(text.partition("<")[0], *_sizes(inner[match.end() if match else 0 :]), versions)


def _layout(inner: str, text: str) -> Any:
    from minitile.layout import Layout

    return Layout.parse(text)


def _pipeline(inner: str, text: str) -> PipelineType:
    slots, _, fields = inner.partition(";")
    payload = []
    for field in _split(fields):
        name, _, type_text = field.partition(":")
        buffer = parse_type(type_text)
        if not isinstance(buffer, BufferType):
            raise ValueError(f"{text}: the payload {name} is {buffer}, not a buffer")
        payload.append((name.strip(), buffer))
    return PipelineType(_slots(slots), tuple(payload))


def _token(inner: str, text: str) -> TokenType:
    if inner not in COUNTERS:
        raise ValueError(f"{text}: no hardware counts by {inner!r}")
    return TokenType(inner)


def _slot(inner: str, text: str) -> Type:
    pipeline = parse_type(inner)
    if not isinstance(pipeline, PipelineType):
        raise ValueError(f"{text}: a slot is of a pipeline, not of {pipeline}")
    return SlotType(pipeline)


_READERS: dict[str, Callable[[str, str], Any]] = {
    "tile": _tile,
    "regs": _regs,
    "tensor": _tensor,
    **dict.fromkeys(SPACES, _buffer),
    "future": lambda inner, text: FutureType(parse_type(inner)),
    "mbarrier_pipeline": _pipeline,
    "slot": _slot,
    "token": _token,
    "layout": _layout,
}
