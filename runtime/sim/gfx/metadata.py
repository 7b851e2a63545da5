"""The part of YAML in which LLVM prints kernel metadata (LLVM, AMDGPUUsage, "Code Object V3 Metadata").

Maps and lists by indentation, scalars as words; nothing else occurs there.
"""

from __future__ import annotations

from typing import Any

from .syntax import Argument


def kernels_of(lines: list[str]) -> list[tuple[str, list[Argument], int, tuple[int, ...] | None]]:
    """(name, arguments, largest and required workgroup size) of each kernel of the metadata."""
    rows = [(len(line) - len(line.lstrip()), line.strip()) for line in lines if line.strip() not in ("", "---", "...")]
    root, _ = _parse(rows, 0)
    found = []
    for kernel in root["amdhsa.kernels"]:
        args = [
            Argument(
                arg.get(".name", f"argument {index}"),
                int(arg[".offset"]),
                int(arg[".size"]),
                arg[".value_kind"],
            )
            for index, arg in enumerate(kernel.get(".args") or [])
        ]
        required = kernel.get(".reqd_workgroup_size")
        sizes = None if required is None else tuple(int(each) for each in required)
        found.append((kernel[".name"], args, int(kernel.get(".max_flat_workgroup_size", 1024)), sizes))
    return found


def _parse(rows: list[tuple[int, str]], at: int) -> tuple[Any, int]:
    """The value that begins in row `at`, and the row behind it."""
    indent, text = rows[at]
    if text.startswith("- ") or text == "-":
        items: list[Any] = []
        while at < len(rows) and rows[at][0] == indent and rows[at][1].startswith("-"):
            rest = rows[at][1][1:]
            inner = rest.strip()
            if ":" in inner and not inner.startswith(("'", '"')):
                rows[at] = (indent + 1 + len(rest) - len(rest.lstrip()), inner)
                value, at = _parse(rows, at)
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
            table[key.strip("'\"")], at = _parse(rows, at)
        else:
            table[key.strip("'\"")] = None
    return table, at


def _scalar(text: str) -> Any:
    if text == "[]":
        return []
    return text.strip("'\"")
