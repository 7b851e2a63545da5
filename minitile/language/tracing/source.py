"""The syntax trees of functions, and what can be read off them: names assigned, jumps contained.

A function's tree is found by parsing its whole file once (so that lines and columns are the file's own) and looking up
(line, name). Everything here is a pure function of source text: code objects say nothing of it, since those of two
files, or of a notebook's cell and its edited version, are equal where the byte code is, which holds no annotations of
local names. A kernel and its helpers have the text that their file had when the kernel was made (`remember`), whatever
becomes of the file later. Where there is no file, `typed_source` looks for the text.

What is found out about a text is kept for the last few texts; what is found out about a node is kept on the node.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.locks import process_lock
from minitile.language.tracing.typed_source import HINT, typed_source

FunctionNode = ast.FunctionDef | ast.Lambda

# Functions of these modules run as plain Python: the standard library and what cannot contain staged control flow.
_NATIVE = frozenset({*sys.stdlib_module_names, "numpy", "ml_dtypes", "torch", "cupy", "scipy"}) - {"__main__"}

MOST_FILES = 64  # whose current text is known
MOST_TREES = 16  # that are kept parsed


class Text:
    """One version of a file. Compared by identity: there is one object for one version."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file = file
        self.lines = lines


_current: OrderedDict[str, Text] = OrderedDict()  # by file; those asked for last come last
_typed: dict[tuple[str, str], Text] = {}  # by the name that Python gave it, and what it is
_lock = process_lock()
_defined_by: WeakKeyDictionary[FunctionType, tuple[CodeType, Text]] = WeakKeyDictionary()


def remember(function: FunctionType) -> None:
    """From now on the function's source is what stands in its file now; until other code is put into the function, as
    reloading a module in place does."""
    if _remembered(function) is None:
        text = _text_of(function)
        if not text.lines:
            text = _named(text.file, typed_source(function))
        if text.lines:
            _defined_by[function] = function.__code__, text


def _named(file: str, lines: list[str]) -> Text:
    """A text without a file under a name of its own, by which errors find its lines."""
    if not lines:
        return Text(file, lines)
    with _lock:
        known = _typed.setdefault((file, "".join(lines)), Text(f"{file[:-1]} {len(_typed) + 1}>", lines))
    linecache.cache[known.file] = (sum(map(len, lines)), None, lines, known.file)
    return known


def file_of(function: FunctionType) -> str:
    """The file that errors name for a function's lines."""
    return text_of(function).file


def source_is(function: FunctionType, file: str, lines: list[str]) -> None:
    """The function comes from elsewhere, with the text of its file."""
    with _lock:
        known = _current.get(file)
        text = known if known is not None and known.lines == lines else Text(file, lines)
    _defined_by[function] = function.__code__, text


def _remembered(function: FunctionType) -> Text | None:
    code, text = _defined_by.get(function, (None, None))
    return text if code is function.__code__ else None


def _text_of(function: FunctionType) -> Text:
    """What stands in a function's file now."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__)
    with _lock:
        known = _current.get(file)
        if known is None or (known.lines is not lines and known.lines != lines):
            known = _current[file] = Text(file, lines)
        known.lines = lines
        _current.move_to_end(file)
        if len(_current) > MOST_FILES:
            _current.popitem(last=False)
    return known


def is_interpreted(function: FunctionType) -> bool:
    """Whether calls of this function are traced through the interpreter (a user's helper) or run natively."""
    module = function.__module__ or ""
    if module == "minitile" or module.startswith("minitile."):
        return module.startswith(("minitile.ops", "minitile.tilelang.macros"))
    return module.split(".")[0] not in _NATIVE


def function_node(function: FunctionType) -> FunctionNode | None:
    """The syntax tree of a function; None when its source is not at hand."""
    code = function.__code__
    return _functions(text_of(function)).get((code.co_name, code.co_firstlineno))


def text_of(function: FunctionType) -> Text:
    """The file of a function, as it was when the function was made into a kernel or helper; else as it is now."""
    return _remembered(function) or _text_of(function)


def kernel_node(function: FunctionType) -> FunctionNode:
    """As `function_node`; LanguageError when there is no source."""
    node = function_node(function)
    if node is None:
        raise LanguageError(
            f"the source of {function.__name__!r} is not at hand",
            Location(file_of(function), function.__code__.co_firstlineno),
            HINT if function.__code__.co_filename.startswith("<") else "kernels are read from source files",
        )
    return node


_PARSING = process_lock()  # Python 3.11's parser counts its depth for all threads together


@lru_cache(maxsize=MOST_TREES)
def _functions(text: Text) -> dict[tuple[str, int], FunctionNode | None]:
    """By name and first line (a decorator's, if there is one). Of several lambdas on a line, none."""
    try:
        with _PARSING:
            tree = ast.parse("".join(text.lines), text.file)
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return {}
    found: dict[tuple[str, int], FunctionNode | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            found.setdefault((node.name, first), node)
        elif isinstance(node, ast.Lambda):
            place = "<lambda>", node.lineno
            found[place] = None if place in found else node
    return found


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


_FILLS = ("clear", "fill")  # of the language: `T.clear(x)` assigns x where that is a variable


def assigned_names(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that statements (or expressions) assign, in order of appearance, and those that T.clear or T.fill
    may assign. Inner functions keep theirs."""
    names: dict[str, None] = {}
    for node in nodes:
        names.update(dict.fromkeys(_noted(node, "names_assigned", _names_in)))
    return list(names)


def own_names(node: FunctionNode) -> frozenset[str]:
    """The names that are local to a function, because it assigns them."""
    if isinstance(node, ast.Lambda):
        return frozenset()
    return frozenset(name for statement in node.body for name in _noted(statement, "names_bound", _bound_in))


def filled_name(call: ast.Call) -> tuple[str, ...]:
    """The name that a call may be T.clear or T.fill of, if it is one."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "buffer"), None)
    return (first.id,) if called in _FILLS and isinstance(first, ast.Name) else ()


def jumps(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Which of "break", "continue", "return" may leave these statements (jumps of inner loops stay inside)."""
    return frozenset(jump for node in nodes for jump in _noted(node, "jumps_out", _jumps_of))


def break_in(nodes: Iterable[ast.AST]) -> ast.Break | None:
    """The first `break` that leaves these statements, the body of a loop."""
    for node in nodes:
        if isinstance(node, ast.Break):
            return node
        if "break" in jumps([node]):
            return break_in(node.orelse if isinstance(node, (ast.For, ast.While)) else _statements_in(node))
    return None


def _noted(node: ast.AST, name: str, find: Callable[[ast.AST], Iterable[str]]) -> tuple[str, ...]:
    """What `find` says of a node, noted on it and on what is inside that may be asked for on its own (of a statement
    the statements, of an expression the lazy ones), inner ones first: so `find` may read the notes of those, and is
    asked about each once, however deep they are nested."""
    if not hasattr(node, name):
        inside = [node]
        if isinstance(node, ast.stmt):
            for each in inside:  # grows meanwhile
                inside.extend(_statements_in(each))
        else:
            inside.extend(each for each in ast.walk(node) if isinstance(each, _LAZY))
        for each in reversed(inside):
            if not hasattr(each, name):
                setattr(each, name, tuple(dict.fromkeys(find(each))))
    found: tuple[str, ...] = getattr(node, name)
    return found


def _statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly inside a statement: in its bodies."""
    if isinstance(node, _SCOPES):
        return
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        part = getattr(node, field, ())
        for each in part if isinstance(part, list) else ():
            if isinstance(each, ast.stmt):
                yield each
            else:
                yield from _statements_in(each)


_LAZY = (ast.BoolOp, ast.IfExp, ast.Compare)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _names_in(node: ast.AST) -> Iterator[str]:
    """The names that a node assigns, by T.clear and T.fill too."""
    return _names(node, "names_assigned", fills=True)


def _bound_in(node: ast.AST) -> Iterator[str]:
    """The names that a node assigns as Python sees it."""
    return _names(node, "names_bound", fills=False)


def _names(node: ast.AST, note: str, fills: bool) -> Iterator[str]:
    """In order; of the statements inside, what is noted there."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Name):
            if not isinstance(each.ctx, ast.Load):
                yield each.id
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield each.name
        elif isinstance(each, (ast.Import, ast.ImportFrom)):
            for alias in each.names:
                yield alias.asname or alias.name.split(".")[0]
        elif isinstance(each, _COMPREHENSIONS):
            for inner in ast.walk(each):
                if isinstance(inner, ast.NamedExpr):
                    yield inner.target.id
        elif each is not node and (noted := getattr(each, note, None)) is not None:
            yield from noted
        elif not isinstance(each, (ast.Constant, ast.Lambda, ast.expr_context, ast.operator)):
            if fills and isinstance(each, ast.Call):
                yield from filled_name(each)
            stack.extend(reversed(list(ast.iter_child_nodes(each))))


def _jumps_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Return):
        yield "return"
    elif isinstance(node, ast.Break):
        yield "break"
    elif isinstance(node, ast.Continue):
        yield "continue"
    elif isinstance(node, (ast.For, ast.While, ast.If, ast.With)):
        loop = isinstance(node, (ast.For, ast.While))
        for each in node.body:
            yield from (jump for jump in each.jumps_out if jump == "return" or not loop)  # type: ignore[attr-defined]
        for each in getattr(node, "orelse", ()):
            yield from each.jumps_out
