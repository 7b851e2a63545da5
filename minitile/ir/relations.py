"""How the layouts of the tiles around one operation hang together: the one description that layouts are inferred from.

An operation says so in `relations()`; the default is one layout for its first result and all operands of that shape.
`infer_layouts` asks, so that a new operation needs no change there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minitile.ir.core import Value


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """`value` is in the layout of `like`. `firm`: where both are demanded otherwise, this is the last relation to give
    way to a conversion. Says nothing of values that are no tiles of one shape."""

    like: Value
    value: Value
    firm: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """`narrow` is in the layout of `wide` less its dimension `dim`; a scalar has none."""

    wide: Value
    dim: int
    narrow: Value


@dataclass(frozen=True, slots=True, eq=False)
class Permuted:
    """Dimension d of `result` is dimension order[d] of `source`, in the same registers."""

    source: Value
    order: tuple[int, ...]
    result: Value


@dataclass(frozen=True, slots=True, eq=False)
class Interleaved:
    """`result` is one of `count` interleaved slices of `source` along `dim`, `run` elements at a time; each thread has
    the elements of all slices."""

    source: Value
    dim: int
    run: int
    count: int
    result: Value


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """`result` has each element of `source` along `dim` `times` over, all of them in the thread that has the one."""

    source: Value
    dim: int
    times: int
    result: Value


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """`result` has the elements of `source`, counted row by row, under another shape."""

    source: Value
    result: Value


Relation = Interleaved | Same | Quotient | Permuted | Repeated | Reshaped
