"""The part of YAML in which LLVM prints kernel metadata (LLVM, AMDGPUUsage, "Code Object V3 Metadata").

Maps and lists by indentation, scalars as words; nothing else occurs there. What is not as the table of a kernel's and
an argument's entries says is a ValueError.
"""

from __future__ import annotations

from typing import Any

from .forms import MAX_ARGUMENTS, MAX_DIGITS, MAX_KERNARG, MAX_METADATA_DEPTH
from .syntax import Argument

Found = tuple[str, list[Argument], int, tuple[int, ...] | None]


def kernels_of(lines: list[str]) -> list[Found]:
    """(name, arguments, largest and required workgroup size) of each kernel of the metadata. ValueError."""
    rows = [(len(line) - len(line.lstrip()), line.strip()) for line in lines if line.strip() not in ("", "---", "...")]
    root: Any = _parse(rows, 0, 0)[0] if rows else {}
    return [_kernel(each) for each in _list(_entry(root, "amdhsa.kernels"))]


def _kernel(table: Any) -> Found:
    args = _list(_entry(table, ".args", None) or [])
    if len(args) > MAX_ARGUMENTS:
        raise ValueError(f"{len(args)} arguments; there may be {MAX_ARGUMENTS}")
    required = _entry(table, ".reqd_workgroup_size", None)
    sizes = None if required is None else tuple(_number(each, 1, 1024) for each in _list(required))
    if sizes is not None and len(sizes) != 3:
        raise ValueError(f".reqd_workgroup_size has three sizes, not {len(sizes)}")
    most = _number(_entry(table, ".max_flat_workgroup_size", "1024"), 1, 1 << 16)
    return _word(_entry(table, ".name")), [_argument(*each) for each in enumerate(args)], most, sizes


def _argument(index: int, table: Any) -> Argument:
    return Argument(
        _word(_entry(table, ".name", f"argument {index}")),
        _number(_entry(table, ".offset"), 0, MAX_KERNARG),
        _number(_entry(table, ".size"), 1, MAX_KERNARG),
        _word(_entry(table, ".value_kind")),
    )


_NEEDED: Any = object()


def _entry(table: Any, name: str, default: Any = _NEEDED) -> Any:
    if not isinstance(table, dict) or (name not in table and default is _NEEDED):
        raise ValueError(f"there is no {name}")
    return table.get(name, default)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:60]!r} is no list")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:60]!r} is no word")
    return value


def _number(value: Any, least: int, most: int) -> int:
    text = _word(value)
    if len(text) > MAX_DIGITS or not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{text[:60]!r} is no number from {least} to {most}")
    return int(text)


def _parse(rows: list[tuple[int, str]], at: int, depth: int) -> tuple[Any, int]:
    """The value that begins in row `at`, and the row behind it."""
    if depth > MAX_METADATA_DEPTH:
        raise ValueError(f"more than {MAX_METADATA_DEPTH} lists and tables within one another")
    indent, text = rows[at]
    if text.startswith("- ") or text == "-":
        items: list[Any] = []
        while at < len(rows) and rows[at][0] == indent and rows[at][1].startswith("-"):
            rest = rows[at][1][1:]
            inner = rest.strip()
            if ":" in inner and not inner.startswith(("'", '"')):
                rows[at] = (indent + 1 + len(rest) - len(rest.lstrip()), inner)
                value, at = _parse(rows, at, depth + 1)
            else:
                value, at = _scalar(inner), at + 1
            items.append(value)
        return items, at
    table: dict[str, Any] = {}
    while at < len(rows) and rows[at][0] == indent and not rows[at][1].startswith("- "):
        key, _, rest = rows[at][1].partition(":")
        rest = rest.strip()
        at += 1
        if rest:
            table[key.strip("'\"")] = _scalar(rest)
        elif at < len(rows) and (rows[at][0] > indent or rows[at][1].startswith("- ")):
            table[key.strip("'\"")], at = _parse(rows, at, depth + 1)
        else:
            table[key.strip("'\"")] = None
    return table, at


def _scalar(text: str) -> Any:
    if text == "[]":
        return []
    return text.strip("'\"")
