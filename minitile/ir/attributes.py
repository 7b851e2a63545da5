"""What kind of value each attribute of each operation takes: read off the annotations of the operations' classes.

`count: int = attr()` is the declaration; there is no second list that could disagree. `wrong(kind, name, value)` says
what is wrong with a value, so that the parser can refuse it where it stands. A kernel's own attributes and facts are
in the table below.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from typing import Any

from minitile.hardware import BLOCK_THREADS
from minitile.ir.core import Op
from minitile.ir.diagnostics import shown

# A kernel's attributes as passes leave them: annotation, least and most of integers.
KERNEL: dict[str, tuple[Any, int, int]] = {
    "threads": (int, 1, BLOCK_THREADS),
    "producer_threads": (int, 0, BLOCK_THREADS),
    "shared_bytes": (int, 0, 1 << 24),
    "cluster": (tuple[int, int, int], 1, 16),
    "explicit_sync": (bool, 0, 1),
    "no_set_max_nreg": (bool, 0, 1),
    "resources_are_hints": (bool, 0, 1),
    "counts_threads": (bool, 0, 1),
    "min_ctas": (int, 1, 32),
    "l2_hit_ratio": (tuple[str, float], 0, 0),
    "profile": (str, 0, 0),
    "tensor_maps": (tuple[tuple[Any, ...], ...], 0, 1 << 31),
}
FACT = (int, 1, 1 << 31)


_known: dict[str, dict[str, Any]] = {}


def kinds_of(kind: type[Op]) -> dict[str, Any]:
    """The type of each attribute of an operation."""
    if kind.mnemonic not in _known:
        _known[kind.mnemonic] = _read(kind)
    return _known[kind.mnemonic]


def _read(kind: type[Op]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        names = vars(sys.modules[base.__module__])
        for name, written in inspect.get_annotations(base).items():
            if "ClassVar" not in str(written):
                found[name] = written, names
    return {name: _evaluated(*found[name]) for name, _ in kind.attr_fields}


def _evaluated(written: Any, names: dict[str, Any]) -> Any:
    """An annotation, which stands as text; names that only type checkers import are looked up where they live."""
    if not isinstance(written, str):
        return written
    from minitile.ir import types as ir_types

    return eval(written, {**vars(ir_types), **names})  # an annotation of our own source, never of the text


def wrong(kind: type[Op], name: str, value: Any) -> str:
    """Why the value cannot be this attribute of the operation; empty where it can."""
    annotation = kinds_of(kind)[name]
    return "" if fits(value, annotation) else f"{kind.mnemonic}'s {name} is {_named(annotation)}, not {shown(value)}"


def wrong_of_kernel(name: str, value: Any) -> str:
    """The same for a kernel's own attributes."""
    annotation, least, most = KERNEL.get(name, (Any, -(1 << 63), 1 << 64))
    if not fits(value, annotation) or not _within(value, least, most):
        return f"the kernel's {name} is {_named(annotation)} from {least} to {most}, not {shown(value)}"
    return ""


def wrong_of_fact(name: str, value: Any) -> str:
    """The same for what is known of a dimension: a number that divides it."""
    annotation, least, most = FACT
    if not fits(value, annotation) or not _within(value, least, most):
        return f"the fact of {name} is a number from {least} to {most} that divides it, not {shown(value)}"
    return ""


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of an annotation's type: plain types, unions, tuples. A bool is no int."""
    if annotation is Any:
        return True
    if annotation is None or annotation is type(None):
        return value is None
    origin = typing.get_origin(annotation)
    inner = typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is tuple:
        if type(value) is not tuple:
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(fits(each, inner[0]) for each in value)
        return len(value) == len(inner) and all(map(fits, value, inner))
    if annotation in (int, float, str, bool):
        return type(value) is annotation
    return isinstance(value, annotation)


def _within(value: Any, least: int, most: int) -> bool:
    if type(value) is tuple:
        return all(_within(each, least, most) for each in value)
    return type(value) is not int or least <= value <= most


def _named(annotation: Any) -> str:
    plain = isinstance(annotation, type) and not typing.get_origin(annotation)
    return annotation.__name__ if plain else str(annotation).replace("minitile.ir.types.", "")
