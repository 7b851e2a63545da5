"""From a Python function to traced IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.depth import room, too_deep
from minitile.ir.diagnostics import InternalError, LanguageError, Location, MinitileError, shown
from minitile.ir.types import ALIGNMENT, I32, Dim, DType, ScalarType, tensor_type
from minitile.language.memory import Memory
from minitile.language.results import Results, results_of
from minitile.language.scalars import Expr
from minitile.language.storage.packed import PackedMemory, stored_shape
from minitile.language.tracing.context import Trace, tracing
from minitile.language.tracing.control_flow import Interpreter
from minitile.language.tracing.entry_name import entry_name
from minitile.language.tracing.expressions import Scope
from minitile.language.tracing.signature import Parameter, Signature
from minitile.language.tracing.source import closure_values, file_of, kernel_node
from minitile.language.tracing.uniform import check_uniform


@dataclass(frozen=True)
class TraceInput:
    """What one specialisation fixes: the compile-time constants by parameter, the dtypes of tensors annotated without
    one, and for run-time dimensions the power of two known to divide them. large, exact: see index_widths.py.
    same: pairs of tensors that are one array, which the kernel knows by the first one's name. strides: of the tensors
    that are not row-major without gaps, by name; unaligned: those whose address may be any multiple of an element.
    launch: in a function of several T.Kernel the number of the one that is traced; None: a second one is an error."""

    constants: Mapping[str, Any]
    dtypes: Mapping[str, DType]
    facts: Mapping[str, int]
    large: tuple[str, ...] = ()
    exact: bool = False
    same: tuple[tuple[str, str], ...] = ()
    strides: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    unaligned: tuple[str, ...] = ()
    launch: int | None = None


def tensor_shape(p: Parameter, constants: Mapping[str, Any]) -> tuple[Dim, ...]:
    """The shape of a tensor parameter, in bytes where it holds packed elements; names of compile-time parameters become
    their values."""
    assert p.tensor is not None
    shape = _sizes(p, "dimension", p.tensor.shape, constants)
    return shape if p.tensor.packed is None else stored_shape(shape, f"{p.name}, of {p.tensor.packed},")


def tensor_strides(p: Parameter, constants: Mapping[str, Any]) -> tuple[Dim, ...] | None:
    """The same of its strides; None where it is annotated without any."""
    assert p.tensor is not None
    return None if p.tensor.strides is None else _sizes(p, "stride", p.tensor.strides, constants)


def _sizes(p: Parameter, what: str, given: tuple[Dim, ...], constants: Mapping[str, Any]) -> tuple[Dim, ...]:
    sizes: list[Dim] = []
    for d in given:
        value = constants.get(d, d) if isinstance(d, str) else d
        if not isinstance(value, (int, str)) or isinstance(value, bool):
            raise LanguageError(
                f"{what} '{d}' of {p.name} is the compile-time parameter {d}={shown(value)}, no integer"
            )
        sizes.append(value)
    return tuple(sizes)


def trace_kernel(function: FunctionType, signature: Signature, given: TraceInput) -> tuple[Kernel, Results]:
    """Run the kernel function with staged arguments; raises LanguageError for what breaks the language's rules. The
    tensors that it makes are parameters behind those of the signature."""
    known = {p.name: p.default for p in signature.parameters if p.kind == "self"}
    trace = Trace(Builder(Block()), constants={**known, **given.constants}, only=given.launch)
    params: list[Value] = []
    for p in signature.runtime:
        if p.kind == "tensor":
            shape = tensor_shape(p, given.constants)
            dtype = p.dtype or given.dtypes[p.name]
            strides = given.strides.get(p.name)
            align = dtype.bytes if p.name in given.unaligned else ALIGNMENT
            params.append(Value(tensor_type(shape, dtype, strides, align), None, len(params), p.name))
            for d in (*shape, *(strides or ())):
                if isinstance(d, str) and d not in trace.dims:
                    trace.dims[d] = Value(I32, None, 0, d)
        else:
            assert p.dtype is not None
            params.append(Value(ScalarType(p.dtype), None, len(params), p.name))
    code = function.__code__
    scope = Scope(function.__globals__, closure_values(function), file_of(function), function.__name__)
    values = iter(params)
    for p in signature.parameters:
        if p.kind == "self":
            scope.locals[p.name] = p.default
        elif p.kind == "constant":
            scope.locals[p.name] = given.constants[p.name]
        else:
            value = next(values)
            scope.locals[p.name] = _staged(p, value, trace)
            if p.kind == "tensor":
                trace.tensors[p.name] = scope.locals[p.name]
    for first, other in given.same:
        scope.locals[other] = trace.tensors[other] = scope.locals[first]
    returned = _interpret(function, trace, scope)
    results = results_of(trace, returned, params)
    _check_views(trace)
    if not trace.launched and not trace.launches:
        raise LanguageError(
            f"the kernel {function.__name__} launches nothing",
            Location(file_of(function), code.co_firstlineno, function=function.__name__),
            "its body needs `with T.Kernel(…) as …:`",
        )
    special = {"strided": given.strides, "unaligned": given.unaligned, "wide": given.exact or given.large}
    words = [word for word, here in special.items() if here]
    kernel = Kernel(
        entry_name(function, signature, given.constants, given.dtypes, *words),
        (*params, *results.made),
        trace.dims,
        trace.b.block,
        facts={d: p for d, p in given.facts.items() if d in trace.dims and p > 1},
        stage="traced",
        attrs=trace.attrs | ({"large": given.large} if given.large else {}) | ({"exact": True} if given.exact else {}),
    )
    check_uniform(kernel, trace.returns)
    return kernel, results


def _staged(p: Parameter, value: Value, trace: Trace) -> Memory | Expr:
    """A parameter as the kernel sees it."""
    if p.tensor is None or p.kind != "tensor":
        return Expr(value)
    return Memory(value, trace) if p.tensor.packed is None else PackedMemory(value, trace, p.tensor.packed)


def _check_views(trace: Trace) -> None:
    """A view and its tensor are two names of one memory, which no pass knows: where one is written, the other is not
    accessed."""
    if not trace.views:
        return
    used: dict[Value, bool] = {}  # by memory: whether it is written
    for op in trace.b.block.walk():
        for access in op.accesses():
            if isinstance(access.mem, Value):
                used[access.mem] = used.get(access.mem, False) or access.writes
    for view, of in trace.views.items():
        others = [v for v, base in trace.views.items() if base is of and v is not view]
        for other in (of, *others):
            if view in used and other in used and (used[view] or used[other]):
                raise LanguageError(
                    f"{view.name} and {other.name} are one memory, both are accessed, and one is written",
                    trace.loc,
                    "access it under one shape alone",
                )


def _interpret(function: FunctionType, trace: Trace, scope: Scope) -> Any:
    """What the function returns."""
    with tracing(trace), room():
        try:
            return Interpreter(trace, scope).run_function(kernel_node(function))
        except MinitileError:
            raise
        except RecursionError:
            raise too_deep(trace.loc) from None
        except Exception as error:
            raise InternalError(f"{type(error).__name__}: {error}", trace.loc) from error
