"""The interpreter's calls: who is interpreted, who runs as Python, and how arguments are bound.

A user's own functions, and functions and lambdas defined inside them, are interpreted, so that the language's rules
hold there too. Everything else (T.*, the standard library, NumPy) runs as Python.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial, reduce
from inspect import getattr_static
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import numpy as np

from minitile.language import math as tmath
from minitile.language.scalars import Expr, truth
from minitile.language.tracing.expressions import MISSING, Expressions, Scope
from minitile.language.tracing.source import FunctionNode, closure_values, file_of, function_node, is_interpreted

MUTATORS = {
    list: ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"),
    dict: ("update", "setdefault", "pop", "popitem", "clear"),
    set: ("add", "discard", "remove", "pop", "clear", "update", "difference_update", "intersection_update"),
    bytearray: ("append", "extend", "insert", "pop", "remove", "clear", "reverse"),
    deque: ("append", "appendleft", "extend", "extendleft", "pop", "popleft", "remove", "rotate", "clear"),
}


class InnerFunction:
    """A function or lambda defined inside interpreted code. Calling it interprets its body."""

    def __init__(self, owner: Calls, node: FunctionNode, defaults: list[Any], kw_defaults: list[Any]) -> None:
        self.owner = owner
        self.node = node
        self.defaults = defaults
        self.kw_defaults = kw_defaults
        self.__name__ = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.owner.call_inner(self, args, kwargs)


class Calls(Expressions):
    """Adds calls, functions and lambdas to the expressions."""

    def lambda_(self, node: ast.Lambda) -> InnerFunction:
        return self.inner_function(node)

    def inner_function(self, node: FunctionNode) -> InnerFunction:
        defaults = [self.eval(d) for d in node.args.defaults]
        kw_defaults = [MISSING if d is None else self.eval(d) for d in node.args.kw_defaults]
        return InnerFunction(self, node, defaults, kw_defaults)

    def call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        if function is tmath.if_then_else and len(node.args) == 3 and not node.keywords:
            test, a, b = node.args
            return self.choose(node, self.eval(test), lambda: self.eval(a), lambda: self.eval(b))
        modes = getattr(function, "region_modes", None)
        args: list[Any] = []
        for i, a in enumerate(node.args):
            if isinstance(a, ast.Starred):
                args.extend(self.perform(a, list, self.eval(a.value)))
            elif modes is not None and isinstance(a, ast.Subscript):
                args.append(self.subscript_as(a, modes.get(i, "load")))
            else:
                args.append(self.eval(a))
        kwargs: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                kwargs.update(self.eval(k.value))
            elif modes is not None and isinstance(k.value, ast.Subscript):
                kwargs[k.arg] = self.subscript_as(k.value, modes.get(k.arg, "load"))
            else:
                kwargs[k.arg] = self.eval(k.value)
        return self.call_value(node, function, args, kwargs)

    def call_value(self, node: ast.AST, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call: a user's function is interpreted, anything else runs as Python."""
        if isinstance(function, partial):
            args, kwargs = [*function.args, *args], {**function.keywords, **kwargs}
            function = function.func
        method = getattr_static(type(function), "__call__", None)
        if isinstance(method, FunctionType) and not isinstance(function, InnerFunction) and is_interpreted(method):
            args, function = [function, *args], method
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            args = [function.__self__, *args]
            function = function.__func__
        if isinstance(function, FunctionType) and is_interpreted(function):
            body = function_node(function)
            if body is not None:
                return self.call_function(node, function, body, args, kwargs)
        if isinstance(function, BuiltinMethodType):
            owner = function.__self__
            if any(isinstance(owner, t) and function.__name__ in names for t, names in MUTATORS.items()):
                self.check_mutable(owner, node, f".{function.__name__}() on a Python {type(owner).__name__}")
        elif isinstance(function, type) and issubclass(function, tuple(MUTATORS)):
            return self.created(self.perform(node, function, *args, **kwargs))
        staged = STAGED_BUILTINS.get(id(function))
        if staged is not None and any(isinstance(x, Expr) for a in args for x in _elements(a)):
            function = staged
        if isinstance(function, np.ufunc) and any(isinstance(a, Expr) for a in args):
            raise self.fail(node, f"NumPy's {function.__name__} of a run-time value", "use the T.* function")
        return self.captured(self.perform(node, function, *args, **kwargs), node)

    def call_function(
        self, node: ast.AST, function: FunctionType, body: FunctionNode, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Interpret a Python function of the user's."""
        scope = Scope(
            function.__globals__,
            closure_values(function),
            file_of(function),
            function.__name__,
            self.scope.location(node),
        )
        kw_defaults = function.__kwdefaults__ or {}
        defaults = [kw_defaults.get(a.arg, MISSING) for a in body.args.kwonlyargs]
        call = type(self)(self.trace, scope)
        return call.enter(node, self, body, [*(function.__defaults__ or ())], defaults, args, kwargs)

    def call_inner(self, function: InnerFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Interpret a function that interpreted code defined."""
        outer = self.scope
        scope = Scope(outer.globals, {}, outer.file, function.__name__, self.trace.b.loc, outer)
        call = type(self)(self.trace, scope)
        return call.enter(function.node, self, function.node, function.defaults, function.kw_defaults, [*args], kwargs)

    def enter(
        self,
        site: ast.AST,
        caller: Calls,
        function: FunctionNode,
        defaults: list[Any],
        kw_defaults: list[Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Bind the arguments, run the body, put the place back to the call."""
        caller.perform(site, self.bind_arguments, function.args, defaults, kw_defaults, args, kwargs)
        loc = self.trace.b.loc
        result = self.run_function(function)
        self.trace.b.loc = loc
        return result

    def bind_arguments(
        self,
        spec: ast.arguments,
        defaults: list[Any],
        kw_defaults: list[Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        """Python's rules for arguments."""
        positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        bound = dict(zip(positional, args, strict=False))
        if len(args) > len(positional) and spec.vararg is None:
            raise TypeError(f"{self.scope.function}() takes {len(positional)} arguments, not {len(args)}")
        if spec.vararg is not None:
            bound[spec.vararg.arg] = tuple(args[len(positional) :])
        by_name = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
        extra: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in by_name and name in bound:
                raise TypeError(f"{self.scope.function}() got argument '{name}' twice")
            if name not in by_name and spec.kwarg is None:
                raise TypeError(f"{self.scope.function}() has no argument '{name}'")
            (bound if name in by_name else extra)[name] = value
        if spec.kwarg is not None:
            bound[spec.kwarg.arg] = extra
        tail = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
        keyword_only = zip((a.arg for a in spec.kwonlyargs), kw_defaults, strict=True)
        for name, value in (*tail, *keyword_only):
            if value is not MISSING:
                bound.setdefault(name, value)
        missing = [n for n in (*positional, *(a.arg for a in spec.kwonlyargs)) if n not in bound]
        if missing:
            raise TypeError(f"{self.scope.function}() lacks argument {', '.join(map(repr, missing))}")
        self.locals.update(bound)


def _staged_float(x: Any) -> Any:
    raise TypeError("float() of a run-time value: use T.cast(x, T.float32)")


def _staged_int(x: Any) -> Any:
    raise TypeError("int() of a run-time value: use T.cast(x, T.int32)")


def _staged_bool(x: Any) -> Any:
    return Expr(truth(x))


def _staged_any(items: Any) -> Any:
    return reduce(operator.or_, (Expr(truth(x)) for x in items))


def _staged_all(items: Any) -> Any:
    return reduce(operator.and_, (Expr(truth(x)) for x in items))


def _elements(x: Any) -> Sequence[Any]:
    return x if isinstance(x, (list, tuple)) else (x,)


STAGED_BUILTINS: dict[int, Callable[..., Any]] = {
    id(builtins.min): tmath.min,
    id(builtins.max): tmath.max,
    id(builtins.round): tmath.round,
    id(builtins.float): _staged_float,
    id(builtins.int): _staged_int,
    id(builtins.bool): _staged_bool,
    id(builtins.any): _staged_any,
    id(builtins.all): _staged_all,
}

Calls.handlers = {**Expressions.handlers, ast.Lambda: Calls.lambda_, ast.Call: Calls.call}
