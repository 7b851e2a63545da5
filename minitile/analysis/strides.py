"""How a tensor lies in memory, as far as is known: strides, the dimension that vectors run along, alignment of rows.

    tensor<MxNxbf16>                    strides N, 1; rows begin at multiples of what divides N, up to 16 bytes
    tensor<MxNxbf16, strides (s, 1)>    strides s, 1; rows begin at multiples of what divides s
    tensor<MxNxbf16, strides (1, s)>    vectors run along dimension 0
    tensor<MxNxbf16, strides (s, t)>    no vectors
    tensor<MxNxbf16, align 2>           no vectors: the first element may be anywhere

(`TensorType` has the normal form.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from minitile.analysis.affine import Affine, Facts
from minitile.ir.core import Value
from minitile.ir.types import ALIGNMENT, TensorType


def strides_of(facts: Facts, tensor: Value) -> list[Affine]:
    """A tensor's strides, in elements."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    if kind.strides is not None:
        return [facts.affine(facts.kernel.dims[s]) if isinstance(s, str) else Affine(s) for s in kind.strides]
    strides = [Affine(1)]
    for d in range(len(kind.shape) - 1, 0, -1):
        strides.append(strides[-1] * facts.size(tensor, d))
    return strides[::-1][: len(kind.shape)]


def row_alignment(facts: Facts, tensor: Value) -> int:
    """Where index 0 of the contiguous dimension is, whatever the other indices: at multiples of so many elements. At
    most ALIGNMENT bytes, which nothing needs more than; 1 where no dimension is contiguous."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    along = kind.contiguous_dim
    if along is None:
        return 1
    found = max(1, kind.align // kind.dtype.bytes)
    for d, stride in enumerate(strides_of(facts, tensor)):
        if d != along:
            found = math.gcd(found, facts.multiple(stride))
    return found


def tile_alignment(facts: Facts, tensor: Value, starts: Sequence[Affine], spans: Collection[int]) -> int:
    """Where a tile's rows begin that starts at these indices and reaches along the dimensions `spans` besides the
    contiguous one: at multiples of so many elements. Where neither the row nor the index in it begins at such a
    multiple, their sum may: an index of  8 * (r * N // 8) - r * N  in row r of N elements."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    along = kind.contiguous_dim
    if along is None:
        return 1
    apart = math.gcd(row_alignment(facts, tensor), facts.multiple(starts[along]))
    strides = strides_of(facts, tensor)
    start = sum((index * stride for index, stride in zip(starts, strides, strict=True)), Affine(0))
    together = math.gcd(max(1, kind.align // kind.dtype.bytes), facts.multiple(start))
    for d in spans:
        if d != along:
            together = math.gcd(together, facts.multiple(strides[d]))
    return max(apart, together)


def why_no_tma(facts: Facts, tensor: Value) -> str:
    """Why no tensor map can be made of a tensor that lies so; "" where one can (limits: cuTensorMapEncodeTiled)."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    if kind.contiguous_dim != len(kind.shape) - 1:
        return f"the last dimension of {tensor.name} is not contiguous"
    if kind.strides is not None and any(isinstance(s, int) and s <= 0 for s in kind.strides):
        return f"{tensor.name} repeats its elements, or has them in the other order"
    if kind.align < ALIGNMENT:
        return f"{tensor.name} may begin off a multiple of {ALIGNMENT} bytes"
    if row_alignment(facts, tensor) * kind.dtype.bytes < ALIGNMENT:
        return f"the rows of {tensor.name} may not be multiples of {ALIGNMENT} bytes"
    return ""
