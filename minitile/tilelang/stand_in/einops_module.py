"""einops in compile-only mode: the shapes that its patterns give."""

from __future__ import annotations

import math
import re
from types import ModuleType
from typing import Any

from minitile.tilelang.stand_in import operations
from minitile.tilelang.stand_in.tensors import StandIn

Axes = list[list[str]]


def _axes(text: str) -> Axes:
    return [each.strip("()").split() for each in re.findall(r"\([^)]*\)|\S+", text)]


def _sizes(left: Axes, x: StandIn, given: dict[str, Any]) -> dict[str, int]:
    sizes = {name: int(n) for name, n in given.items() if isinstance(n, int)}
    for names, n in zip(left, x.shape, strict=False):
        unknown = [a for a in names if a not in sizes and not a.isdigit()]
        known = math.prod(sizes.get(a, 1) for a in names)
        for a in unknown:
            sizes[a] = 1
        if unknown:
            sizes[unknown[0]] = n // max(1, known)
    return sizes


def _patterned(x: Any, pattern: str, *more: Any, **given: Any) -> StandIn:
    operand = x if isinstance(x, StandIn) else operations.stack(list(x))
    left, _, right = pattern.partition("->")
    between = operand.ndim - len(_axes(left.replace("...", "")))
    left, right = (side.replace("...", " ".join(f"dots{i}" for i in range(between))) for side in (left, right))
    sizes = _sizes(_axes(left), operand, given)
    found = [math.prod(int(a) if a.isdigit() else sizes.get(a, 1) for a in names) for names in _axes(right)]
    return operand.like(found)


def _einsum(*args: Any) -> StandIn:
    pattern = next(a for a in args if isinstance(a, str))
    letters: dict[str, str] = {}

    def letter(match: re.Match[str]) -> str:
        return letters.setdefault(match.group(0), chr(97 + len(letters)))

    rule = re.sub(r"[A-Za-z_]\w*", letter, pattern)
    return operations.einsum(rule, *operations.tensors(args))


def einops_module() -> ModuleType:
    """rearrange, repeat, reduce, einsum."""
    made = ModuleType("einops")
    made.__dict__.update(rearrange=_patterned, repeat=_patterned, reduce=_patterned, einsum=_einsum, __path__=[])
    return made
