"""Kernels whose tensors are declared in the body: from a call's arguments to the signature that it is compiled for.

    @tilelang.jit
    def add(A, B, block=128, dtype=T.float32):
        (N,) = T.const("N,")
        A: T.Tensor((N,), dtype)
        B: T.Tensor((N,), dtype)
        C = T.empty((N,), dtype)
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx: …
        return C

A size of T.const is known when the kernel is compiled: a call has it from its tensors' shapes, `add.compile(N=1024)`
from its arguments. So the statements up to the last declaration run as Python, once for each declaration that tells a
new size: T.const gives a number where it is known and an `Unknown` else. What they declare is the signature; the trace
then goes over the whole body, where T.const gives numbers alone and a declaration says nothing new.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from minitile.driver.dispatch import caller_location
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError, Location
from minitile.ir.types import DType
from minitile.language.tracing.expressions import Dim
from minitile.language.tracing.signature import Parameter, Signature, StridedTensor, Tensor, read_signature
from minitile.language.tracing.source import closure_values, kernel_node


def plain(annotation: Any) -> Any:
    """minitile's dtype of one of TileLang's, which is a string; anything else as it is."""
    return getattr(annotation, "ours", annotation) if isinstance(annotation, str) else annotation


class NotKnown(Exception):
    """A size was needed that only a later declaration tells."""


class Again(Exception):
    """A declaration told a size: the statements before it may look different."""


class Unknown:
    """A size of T.const that is not known yet, or what is computed from one (without a name)."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def _computed(self, *_: Any) -> Unknown:
        return Unknown()

    def _needed(self, *_: Any) -> Any:
        raise NotKnown(self.name)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _computed
    __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = __pow__ = __rpow__ = _computed
    __lshift__ = __rshift__ = __and__ = __or__ = _computed
    __bool__ = __index__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _needed

    def __eq__(self, other: object) -> bool:
        return bool(self._needed())

    __hash__ = object.__hash__


@dataclass(frozen=True)
class Declared:
    """`T.Tensor(shape, dtype)` while declarations are collected: sizes may be `Unknown`."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...] | None
    dtype: Any

    def tensor(self) -> Tensor:
        if self.strides is None:
            return Tensor(self.shape, plain(self.dtype))
        return StridedTensor(self.shape, self.strides, plain(self.dtype))


@dataclass
class Collecting:
    """What is known while the statements in front of the kernel run: sizes by name."""

    sizes: dict[str, Any]
    asked: dict[str, None]


_collecting: ContextVar[Collecting | None] = ContextVar("collecting", default=None)


def collecting() -> Collecting | None:
    """What collects declarations now, if anything does."""
    return _collecting.get()


@contextmanager
def _collect(into: Collecting) -> Iterator[None]:
    token = _collecting.set(into)
    try:
        yield
    finally:
        _collecting.reset(token)


def declares(function: FunctionType) -> bool:
    """Whether the function itself is a kernel: it has a `with T.Kernel`, outside of functions in it."""
    return any(_launches(statement) for statement in kernel_node(function).body)  # type: ignore[union-attr]


def _launches(node: ast.AST) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        return False
    if isinstance(node, ast.Call) and _last_name(node.func) in ("Kernel", "ClusterKernel"):
        return True
    if isinstance(node, ast.AnnAssign) and node.value is None and _tensor_like(node.annotation):
        return True
    return any(_launches(child) for child in ast.iter_child_nodes(node))


def _tensor_like(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else node
    return _last_name(called) in ("Tensor", "StridedTensor", "Buffer")


def _last_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


class Body:
    """The statements of a function up to the last declaration of a parameter, ready to run."""

    def __init__(self, function: FunctionType, around: Mapping[str, Any]) -> None:
        self.function = function
        self.python = inspect.signature(function)
        self.annotated = {p.name: p for p in read_signature(function, around).parameters}
        names = {*self.python.parameters}
        node = kernel_node(function)
        assert isinstance(node, ast.FunctionDef)
        last = max((i for i, s in enumerate(node.body) if any(_declared(s, names))), default=-1)
        statements = [_Declaring(names).visit(copy.deepcopy(s)) for s in node.body[: last + 1]]
        self._run = _function(function, node, statements)

    def signature(self, given: Mapping[str, Any], sizes: Mapping[str, Any]) -> tuple[Signature, dict[str, Any]]:
        """The signature for a call; given: of some parameters arrays or compile-time values, by name; sizes: of T.const
        by name. Also all sizes. Raises LaunchArgumentError for a size that nothing tells."""
        known = Collecting(dict(sizes), {})
        values = {**{p.name: p.default for p in self.python.parameters.values()}, **given}
        while True:
            found: dict[str, Any] = {}
            declare = _declarer(found, given, known)
            with _collect(known):
                try:
                    self._run(declare, *(_plain(values[n]) for n in self.python.parameters))
                    break
                except Again:
                    continue
                except NotKnown:
                    missing = next((n for n in known.asked if n not in known.sizes), "?")
                    raise self._refused(f"does not know the size {missing} of T.const where it is needed") from None
        return self._signature(found, values, known), known.sizes

    def _signature(self, found: Mapping[str, Any], values: Mapping[str, Any], known: Collecting) -> Signature:
        parameters = []
        for name in self.python.parameters:
            declared = found.get(name)
            if isinstance(declared, Declared):
                missing = [d for d in (*declared.shape, *(declared.strides or ())) if isinstance(d, Unknown)]
                if missing:
                    what = f"lacks the size {missing[0].name or 'that it computes'} of T.const, of the tensor {name}"
                    raise self._refused(what, "pass it to compile by name: f.compile(M=1024)")
                tensor = declared.tensor()
                parameters.append(Parameter(name, "tensor", tensor, tensor.dtype, inspect.Parameter.empty))
            elif isinstance(declared, DType):
                parameters.append(Parameter(name, "scalar", None, declared, values[name]))
            elif self.annotated[name].kind != "constant":
                parameters.append(self.annotated[name])
            else:
                if values[name] is inspect.Parameter.empty:
                    raise self._refused(f"lacks the argument '{name}'")
                parameters.append(Parameter(name, "self", None, None, values[name]))
        taken = {p.name for p in parameters}
        consts = [n for n in known.asked if n not in taken]
        parameters += [Parameter(n, "self", None, None, known.sizes[n]) for n in consts if n in known.sizes]
        return Signature(tuple(parameters))

    def _refused(self, what: str, hint: str = "") -> LaunchArgumentError:
        code = self.function.__code__
        where = caller_location() or Location(code.co_filename, code.co_firstlineno)
        return LaunchArgumentError(f"the kernel {self.function.__name__} {what}", where, hint)


def _plain(value: Any) -> Any:
    return None if value is inspect.Parameter.empty else value


def _declared(statement: ast.AST, names: set[str]) -> Iterator[str]:
    """The parameters that a statement declares."""
    for node in ast.walk(statement):
        bare = isinstance(node, ast.AnnAssign) and node.value is None
        if bare and isinstance(node.target, ast.Name) and node.target.id in names:  # type: ignore[attr-defined]
            yield node.target.id  # type: ignore[attr-defined]


class _Declaring(ast.NodeTransformer):
    """`A: T.Tensor(…)` of a parameter becomes a call that notes it."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name) or node.value is not None or node.target.id not in self.names:
            return node
        call = ast.Call(ast.Name(_DECLARE, ast.Load()), [ast.Constant(node.target.id), node.annotation], [])
        return ast.copy_location(ast.Expr(call), node)


_DECLARE = "declare__"


def _function(function: FunctionType, node: ast.FunctionDef, statements: list[Any]) -> Callable[..., Any]:
    """A function of `declare` and the parameters that runs these statements among the names of `function`."""
    parameters = [*inspect.signature(function).parameters]
    around = closure_values(function)

    def spec(names: list[str]) -> ast.arguments:
        return ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])

    body = [*statements, ast.Pass()]
    inner = ast.FunctionDef(node.name, spec([_DECLARE, *parameters]), body, [], None)
    back = ast.Return(ast.Name(node.name, ast.Load()))
    outer = ast.FunctionDef("around__", spec([*around]), [inner, back], [], None)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    names = dict(function.__globals__)
    exec(compile(module, function.__code__.co_filename, "exec", dont_inherit=True), names)
    made: Callable[..., Any] = names["around__"](**around)
    return made


def _declarer(found: dict[str, Any], given: Mapping[str, Any], known: Collecting) -> Callable[[str, Any], None]:
    def declare(name: str, what: Any) -> None:
        if isinstance(what, Tensor):
            what = Declared(what.shape, what.strides, what.dtype)
        what = plain(what)
        found[name] = what
        shape = getattr(given.get(name), "shape", None)
        if not isinstance(what, Declared) or shape is None or len(shape) != len(what.shape):
            return
        before = len(known.sizes)
        for size, actual in zip(what.shape, shape, strict=True):
            if isinstance(size, Unknown) and size.name:
                known.sizes.setdefault(size.name, int(actual))
        if len(known.sizes) > before:
            raise Again

    return declare


def const(names: str, *_: Any) -> Any:
    """`M, N = T.const("M, N")`: sizes that are known when the kernel is compiled; of one name that size alone. Raises
    LanguageError outside of a function marked by tilelang.jit, and for a size that no declared tensor has."""
    from minitile.language.tracing.context import active

    each = [n for n in names.replace(",", " ").split() if n]
    trace, into = active(), collecting()
    if trace is not None:
        missing = [n for n in each if n not in trace.constants]
        if missing:
            what = f'T.const("{names}"): no tensor that the function declares has the size {missing[0]}'
            raise trace.error(what, "declare the parameters in the body: A: T.Tensor((M, N), dtype)")
        found = [trace.constants[n] for n in each]
    elif into is not None:
        into.asked.update(dict.fromkeys(each))
        found = [into.sizes.get(n, Unknown(n)) for n in each]
    else:
        raise LanguageError(
            "T.const outside of a function marked by tilelang.jit",
            caller_location(),
            'T.dynamic("M") is a run-time size in the signature of a T.prim_func',
        )
    return found[0] if len(found) == 1 else tuple(found)


class TensorFactory:
    """`T.Tensor(shape, dtype)` and `T.Tensor[shape, dtype]`; with a third argument, inside a kernel, the memory of a
    tensor under another shape and dtype."""

    def __init__(self, strided: bool = False) -> None:
        self.strided = strided

    def __call__(self, shape: Any, *args: Any, **named: Any) -> Any:
        from minitile.tilelang.language.views import viewed

        data = named.pop("data", None)
        order = ("strides", "dtype") if self.strided else ("dtype", "data")
        given = {**dict(zip(order, args, strict=False)), **{k: v for k, v in named.items() if k in order}}
        data = given.pop("data", data)
        if data is not None:
            return viewed(data, shape, given.get("dtype", "float32"))
        strides, dtype = given.get("strides"), given.get("dtype", "float32")
        several = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if collecting() is not None:
            return Declared(several, None if strides is None else tuple(strides), dtype)
        return Declared(several, None if strides is None else tuple(strides), dtype).tensor()

    def __getitem__(self, given: Any) -> Any:
        shape, *rest = given if isinstance(given, tuple) else (given,)
        return self(shape, *rest)


__all__ = ["Body", "Declared", "Dim", "TensorFactory", "Unknown", "collecting", "const", "declares"]
