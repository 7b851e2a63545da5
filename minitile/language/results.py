"""`T.empty`: tensors that the call makes, and what a kernel returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitile.ir.builder import constant_of
from minitile.ir.core import Value
from minitile.ir.diagnostics import shown
from minitile.ir.types import I32, Dim, TensorType
from minitile.language.math import dtype_of_name
from minitile.language.memory import Memory
from minitile.language.scalars import Expr, is_number, python_number
from minitile.language.storage.packed import PackedMemory, nibble_of, stored, stored_shape
from minitile.language.tracing.context import Trace, current


@dataclass(frozen=True)
class Results:
    """What a traced kernel gives back. made: the tensors of T.empty, in order; sizes: of their dimensions that are
    computed, by name; returned: the names of the tensors that the call returns, one: that is a single one;
    launches: how many T.Kernel the function has; views: of those made that are views of other tensors, these."""

    made: tuple[Value, ...] = ()
    sizes: Mapping[str, Value] = field(default_factory=dict)
    returned: tuple[str, ...] = ()
    one: bool = False
    launches: int = 1
    views: Mapping[str, str] = field(default_factory=dict)


def empty(shape: int | Expr | Sequence[int | Expr], dtype: Any = "float32") -> Memory:
    """A new tensor in global memory, row-major, which the call makes and the kernel writes. What the kernel returns
    (`return C`, or several) the call returns, as arrays of the framework of the first tensor that it is given; the
    others are workspaces, which end with the call.

    It stands before `with T.Kernel`. Its contents are what happens to be there.

    Args:
        shape: sizes: Python ints, sizes of other tensors, and what `+ - * // %`, min and max make of these and of
            integer scalars of the signature.
        dtype: any dtype of the table.

    Raises:
        LanguageError: inside T.Kernel or under a condition at run time; a size that the host cannot compute; a dtype
            that there is not.

    Example:
        ```py
        @mt.kernel
        def row_sums(X: T.Tensor(("M", 128), T.float32), rows=4):
            M = X.shape[0]
            sums = T.empty((M,), T.float32)
            with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
                x, s = T.alloc_fragment((rows, 128), T.float32), T.alloc_fragment((rows,), T.float32)
                T.copy(X[bx * rows, 0], x)
                T.reduce_sum(x, s, dim=1)
                T.copy(s, sums[bx * rows])
            return sums
        ```
    """
    trace = current()
    if trace.launch is not None or (trace.only is None and trace.launched):
        raise trace.error(
            "T.empty stands before T.Kernel", "buffers of a block are made by T.alloc_shared and the like"
        )
    if trace.region is not None:
        raise trace.error(f"T.empty in {trace.region.what}", "make it unconditionally; a compile-time `if` is fine")
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    number = len(trace.made)
    dims = tuple(_dimension(trace, n, f"result{number}_size{d}") for d, n in enumerate(items))
    packed = nibble_of(dtype)
    sizes = dims if packed is None else stored_shape(dims, f"T.empty of {packed}")
    value = Value(TensorType(sizes, stored(dtype)), None, number, "")
    trace.made.append(value)
    return Memory(value, trace) if packed is None else PackedMemory(value, trace, packed)


def tensor_view(tensor: Memory, shape: Sequence[int | Expr], dtype: Any, what: str) -> Memory:
    """A tensor of the launch on the memory of another, which is row-major without gaps: the call reshapes the array.
    Raises LanguageError for another number of elements, another dtype."""
    trace = current()
    to = tensor.dtype if dtype is None else dtype_of_name(dtype)
    if to is not tensor.dtype:
        raise trace.error(f"{what} of {tensor.describe()} as {to}", "a view of a tensor has its dtype")
    if tensor.value in trace.views or (isinstance(tensor.value.type, TensorType) and tensor.value.type.strides):
        raise trace.error(f"{what} of {tensor.describe()}", "a view is of a tensor without gaps, and of no view")
    number = len(trace.made)
    dims = tuple(_dimension(trace, n, f"view{number}_size{d}") for d, n in enumerate(shape))
    counts = [math.prod(s) if all(isinstance(n, int) for n in s) else None for s in (dims, tensor.static_shape)]
    if None not in counts and counts[0] != counts[1]:
        raise trace.error(
            f"{what} of {tensor.describe()} as {'×'.join(map(str, dims))}", f"it has {counts[1]} elements"
        )
    value = Value(TensorType(dims, to), None, number, "")
    trace.made.append(value)
    trace.views[value] = tensor.value
    return Memory(value, trace)


def _dimension(trace: Trace, size: Any, name: str) -> Dim:
    """An int, or the name of a run-time dimension, which may be a new one."""
    if isinstance(size, Expr):
        known = next((d for d, value in trace.dims.items() if value is size.value), None)
        number = constant_of(size.value)
        if known is not None:
            return known
        if number is None:
            if not size.value.dtype.is_int:
                raise trace.error(f"a size of T.empty is {size.value.dtype}, no integer")
            while name in trace.dims:
                name += "_"
            trace.dims[name] = Value(I32, None, 0, name)
            trace.sizes[name] = size.value
            return name
        size = number
    if not is_number(size) or isinstance(size, bool) or python_number(size) != int(python_number(size)) or size < 0:
        raise trace.error(f"a size of T.empty is {shown(size)}", "sizes are integers, and those of other tensors")
    return int(python_number(size))


def results_of(trace: Trace, returned: Any, params: Sequence[Value]) -> Results:
    """What the trace of a kernel that returns this gives back; names the tensors of T.empty."""
    taken = {p.name for p in params}
    for number, value in enumerate(trace.made):
        name = value.name or f"result{number}"
        while name in taken:
            name += "_"
        value.name = name
        taken.add(name)
    one = not isinstance(returned, (tuple, list))
    items = () if returned is None else (returned,) if one else tuple(returned)
    names = tuple(item.value.name for item in items)
    one = one and returned is not None
    views = {view.name: of.name for view, of in trace.views.items()}
    return Results(tuple(trace.made), dict(trace.sizes), names, one, trace.launches, views)
