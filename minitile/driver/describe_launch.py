"""The launch of a compiled kernel as plain data for the runtime: what the caller passes, the entry's parameters, grid
and block, and the facts that were taken for true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from minitile.analysis.affine import LARGE, SMALL
from minitile.ir.types import ALIGNMENT
from minitile.runtime.launch_info import (
    Expr,
    LaunchInfo,
    Param,
    ScalarArg,
    TensorArg,
    TensorMapParam,
    Window,
    dims_of,
    size_expr,
)
from minitile.runtime.overlap import nbytes, span

if TYPE_CHECKING:
    from minitile.driver.compiled import Case
    from minitile.driver.pipeline import Result


def launch_info(result: Result, case: Case, more: tuple[TensorArg, ...] = ()) -> LaunchInfo:
    """The launch as plain data. The entry's parameters are the signature's in order, then the dimensions it uses.
    `more`: tensors behind those of the signature, which a pass has added."""
    args = [*case.args(), *more]
    by_position = iter(args)
    params: list[Param | TensorMapParam] = []
    maps = {entry[0]: entry for entry in result.tensor_maps}
    for name, kind, dtype in result.params:
        if kind == "tensor_map":
            params.append(tensor_map(args, *maps[name]))
            continue
        owner = name if kind == "dim" else next(by_position).name
        params.append(Param(name, "pointer" if kind == "pointer" else dtype, (kind, owner)))
    facts: list[Expr] = [("divides", ("dim", d), p) for d, p in case.divisors.items() if p > 1]
    tensors = [a.name for a in args if isinstance(a, TensorArg)]
    facts += [("divides", ("pointer", t), ALIGNMENT) for t in tensors if t not in case.unaligned]
    facts += [("less", ("dim", d), LARGE if d in case.large else SMALL) for d in dims_of(args)]
    facts += result.fits
    written = result.written
    if case.same:  # there the first of the names stands for the one that the user writes
        from minitile.driver.pipeline import written_tensors

        written = written_tensors(replace(case, same=()).trace())
    return LaunchInfo(
        result.entry,
        tuple(args),
        tuple(params),
        result.grid,
        result.block,
        cluster=result.cluster,
        early=result.early,
        cooperative=result.cooperative,
        window=None if result.window is None else window(args, *result.window),
        dynamic_shared=result.shared_bytes,
        facts=tuple(facts),
        written=written,
        same=(*case.same, *((m.of, m.name) for m in case.made if m.of)),
        asserts=result.asserts,
    )


def window(args: Sequence[TensorArg | ScalarArg], tensor: str, ratio: float) -> Window:
    """Of a whole tensor of the signature, from its first to its last byte."""
    (arg,) = (a for a in args if isinstance(a, TensorArg) and a.name == tensor)
    begin, end = span(arg)
    return Window(begin, ("sub", end, begin) if arg.strides else nbytes(arg), ratio)


def tensor_map(
    args: Sequence[TensorArg | ScalarArg], name: str, tensor: str, box: tuple[int, ...], swizzle: int, tf32: bool
) -> TensorMapParam:
    """The map of a whole tensor of the signature."""
    (arg,) = (a for a in args if isinstance(a, TensorArg) and a.name == tensor)
    dims: list[Expr] = [size_expr(d) for d in arg.shape]
    strides: list[Expr] = []
    if arg.strides is not None:
        strides = [size_expr(s) for s in arg.strides[:-1]]
    else:
        for size in reversed(dims[1:]):
            strides.insert(0, size if not strides else ("mul", strides[0], size))
    return TensorMapParam(name, tensor, arg.dtype, tuple(dims), tuple(strides), box, swizzle, tf32=tf32)
