"""Layouts and hints. The compiler chooses layouts; what a program says of them is looked at and left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.language.annotations import annotate_layout as _annotate_layout
from minitile.language.memory import Memory
from minitile.layout import SharedLayout


class Layout:
    """`T.Layout(shape, f)`: where elements lie, as a program describes it. Kept, and not used: the compiler chooses the
    layouts of shared buffers and fragments."""

    def __init__(self, shape: Any = (), forward: Callable[..., Any] | None = None, *_: Any, **__: Any) -> None:
        self.shape = shape
        self.forward = forward

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: self


class Fragment(Layout):
    """`T.Fragment(…)`, likewise."""


def make_swizzled_layout(*_: Any, **__: Any) -> Layout:
    """A swizzled layout: the compiler's own choice."""
    return Layout()


def annotate_layout(layouts: dict[Memory, Any], *_: Any, **__: Any) -> None:
    """A `minitile.layout.SharedLayout` of a shared buffer is taken; TileLang's layouts are ignored, since the compiler
    has its own that no bank conflict is known of."""
    taken = {buffer: layout for buffer, layout in layouts.items() if isinstance(layout, SharedLayout)}
    if taken:
        _annotate_layout(taken)


def annotate_safe_value(*_: Any, **__: Any) -> None:
    """Ignored where the value is 0, which is what reads outside of a tensor give."""


def annotate_producer_reg_dealloc(*_: Any, **__: Any) -> None:
    """Ignored: the compiler says how many registers the roles of a block get."""


annotate_consumer_reg_alloc = annotate_producer_reg_dealloc
