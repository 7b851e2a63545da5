"""The syntax trees of functions, and what can be read off them: names assigned, jumps contained.

A function's tree is found by parsing its whole file once (so that lines and columns are the file's own) and looking up
(line, name). Everything here is a pure function of source text.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any

from minitile.ir.diagnostics import LanguageError, Location

FunctionNode = ast.FunctionDef | ast.Lambda

# Functions of these modules run as plain Python: the standard library and what cannot contain staged control flow.
_NATIVE = frozenset({*sys.stdlib_module_names, "numpy", "ml_dtypes", "torch", "cupy", "scipy"}) - {"__main__"}

_nodes: dict[CodeType, FunctionNode | None] = {}
_files: dict[str, tuple[list[str], ast.Module]] = {}


def is_interpreted(function: FunctionType) -> bool:
    """Whether calls of this function are traced through the interpreter (a user's helper) or run natively."""
    module = function.__module__ or ""
    if module == "minitile" or module.startswith("minitile."):
        return module.startswith("minitile.ops")
    return module.split(".")[0] not in _NATIVE


def function_node(function: FunctionType) -> FunctionNode | None:
    """The syntax tree of a function; None when its source is not at hand."""
    code = function.__code__
    if code not in _nodes:
        linecache.checkcache(code.co_filename)
        lines = linecache.getlines(code.co_filename, function.__globals__)
        known = _files.get(code.co_filename)
        if known is None or known[0] is not lines:
            try:
                known = lines, ast.parse("".join(lines), code.co_filename)
            except SyntaxError:
                known = lines, ast.Module([], [])
            _files[code.co_filename] = known
        _nodes[code] = _find(known[1], code)
    return _nodes[code]


def kernel_node(function: FunctionType) -> FunctionNode:
    """As `function_node`; LanguageError when there is no source."""
    node = function_node(function)
    if node is None:
        raise LanguageError(
            f"the source of {function.__name__!r} is not at hand",
            Location(function.__code__.co_filename, function.__code__.co_firstlineno),
            "kernels are read from source files (or notebook cells)",
        )
    return node


def _find(tree: ast.Module, code: CodeType) -> FunctionNode | None:
    """The function whose code this is, by its first line and name. Of several lambdas on a line, none."""
    if code.co_name == "<lambda>":
        lambdas = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
        return lambdas[0] if len(lambdas) == 1 else None
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if first == code.co_firstlineno:
                return node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, name, ())
            stack.extend(inside if isinstance(inside, list) else ())
    return None


def closure_values(function: FunctionType) -> dict[str, Any]:
    """The captured variables of a function that are bound."""
    values: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not yet bound
            continue
    return values


def builtin_values(globals: Mapping[str, Any]) -> dict[str, Any]:
    found = globals.get("__builtins__", builtins)
    return found if isinstance(found, dict) else vars(found)


_assigned: dict[ast.AST, tuple[str, ...]] = {}
_FILLS = ("clear", "fill")  # of the language: `T.clear(x)` assigns x where that is a variable


def assigned_names(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that statements (or expressions) assign, in order of appearance, and those that T.clear or T.fill may
    assign. Inner functions keep theirs."""
    names: dict[str, None] = {}
    for node in nodes:
        found = _assigned.get(node)
        if found is None:
            found = _assigned[node] = tuple(_names_in(node))
        names.update(dict.fromkeys(found))
    return list(names)


def own_names(node: FunctionNode) -> frozenset[str]:
    """The names that are local to a function, because it assigns them."""
    filled = {name for inner in ast.walk(node) if isinstance(inner, ast.Call) for name in filled_name(inner)}
    if isinstance(node, ast.Lambda):
        return frozenset()
    if not filled:
        return frozenset(assigned_names(node.body))
    return frozenset(name for statement in node.body for name in _names_in(statement, fills=False))


def filled_name(call: ast.Call) -> tuple[str, ...]:
    """The name that a call may be T.clear or T.fill of, if it is one."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "buffer"), None)
    return (first.id,) if called in _FILLS and isinstance(first, ast.Name) else ()


def _names_in(node: ast.AST, fills: bool = True) -> Iterable[str]:
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return [inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)]
    if isinstance(node, (ast.Constant, ast.Lambda, ast.expr_context, ast.operator)):
        return ()
    # Statements inside statements are remembered one by one: a loop's body is asked for again on its own.
    if isinstance(node, ast.stmt) and fills:
        return assigned_names(ast.iter_child_nodes(node))
    below = [name for child in ast.iter_child_nodes(node) for name in _names_in(child, fills)]
    return [*filled_name(node), *below] if isinstance(node, ast.Call) and fills else below


def jumps(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Which of "break", "continue", "return" may leave these statements (jumps of inner loops stay inside)."""
    found: set[str] = set()

    def go(items: Iterable[ast.AST], in_loop: bool) -> None:
        for node in items:
            if isinstance(node, ast.Return):
                found.add("return")
            elif isinstance(node, (ast.Break, ast.Continue)):
                if not in_loop:
                    found.add("break" if isinstance(node, ast.Break) else "continue")
            elif isinstance(node, (ast.For, ast.While)):
                go(node.body, True)
                go(node.orelse, in_loop)
            elif isinstance(node, (ast.If, ast.With)):
                go(node.body, in_loop)
                go(getattr(node, "orelse", ()), in_loop)

    go(nodes, False)
    return frozenset(found)
