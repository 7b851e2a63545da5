"""The interpreter's expressions.

Each syntax node is evaluated by one method, so that every operation knows its place in the source. What has no run-time
operand is plain Python. `and`, `or`, `not`, chained comparisons and the ternary are lazy: the right side is traced into
a block of its own, which becomes a branch unless it is pure arithmetic.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, ClassVar

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import LanguageError, Location, MinitileError, shown
from minitile.ir.ops import arith, control, explicit
from minitile.ir.types import bool_
from minitile.language.memory import Memory
from minitile.language.scalars import Expr, convert, entry_dtype, is_scalar, operand_value, truth, unify
from minitile.language.tracing.context import Trace
from minitile.language.tracing.source import FunctionNode, assigned_names, builtin_values
from minitile.language.tracing.warpgroup_conditions import selected_warpgroups

MISSING = object()
GROUP = 16  # conditions that are nested in each other: of more, as many again lie behind them


class Poison:
    """Stands for a name that has no value here; `why` completes "'x' …"."""

    def __init__(self, why: str, hint: str = "") -> None:
        self.why = why
        self.hint = hint


class Scope:
    """Where the names of one function call live. `parent` is the scope of the enclosing interpreted function."""

    def __init__(
        self,
        globals: Mapping[str, Any],
        closure: Mapping[str, Any],
        file: str,
        function: str,
        caller: Location | None = None,
        parent: Scope | None = None,
    ) -> None:
        self.locals: dict[str, Any] = {}
        self.own: frozenset[str] = frozenset()  # names that are local because the function assigns them
        self.globals = globals
        self.builtins = builtin_values(globals)
        self.closure = closure
        self.file = file
        self.function = function
        self.caller = caller
        self.parent = parent
        self.locations: dict[ast.AST, Location] = {}

    def location(self, node: ast.AST) -> Location:
        found = self.locations.get(node)
        if found is None:
            line, end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
            end_column = node.end_col_offset if end == line else 1 << 20  # type: ignore[attr-defined]
            found = Location(self.file, line, node.col_offset, end_column, self.function, self.caller)  # type: ignore[attr-defined]
            self.locations[node] = found
        return found


class Expressions:
    """Evaluates expressions in one scope. Statements and control flow are added by the subclasses."""

    handlers: ClassVar[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {}

    def __init__(self, trace: Trace, scope: Scope) -> None:
        self.trace = trace
        self.scope = scope
        self.locals = scope.locals

    def run_function(self, node: FunctionNode) -> Any:
        """Run the body of a function whose arguments are bound; its return value."""
        raise NotImplementedError

    # Plumbing ----------------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Any:
        handler = self.handlers.get(type(node))
        if handler is None:
            raise self.fail(node, f"{type(node).__name__.lower()} expressions have no meaning in a kernel")
        return handler(self, node)

    def at(self, node: ast.AST) -> None:
        """What is emitted from now on comes from `node`."""
        self.trace.b.loc = self.scope.location(node)

    def fail(self, node: ast.AST, message: str, hint: str = "") -> LanguageError:
        return LanguageError(message, self.scope.location(node), hint)

    def perform(self, node: ast.AST, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run Python code on the user's behalf: whatever it raises becomes an error at `node`."""
        self.at(node)
        try:
            return function(*args, **kwargs)
        except MinitileError as error:
            if error.loc is None:
                error.loc = self.scope.location(node)
            raise
        except RecursionError:
            raise
        except Exception as error:
            hint = _keyword_meant(function, error)
            if isinstance(error, IndexError) and "valid indices" in str(error):
                hint = "a NumPy array is known at compile time only: pass it as a tensor, to index it at run time"
            if isinstance(error, TypeError) and "does not support ufuncs" in str(error):
                hint = "use the T.* function: NumPy's are of Python's numbers"
            in_call = isinstance(error, TypeError) and error.__traceback__ is not None
            # Arguments that do not fit the function: nothing of it has run, and the call is what there is to see.
            cause = None if in_call and error.__traceback__.tb_next is None else error  # type: ignore[union-attr]
            raise LanguageError(f"{type(error).__name__}: {error}", self.scope.location(node), hint) from cause

    # Names and constants -----------------------------------------------------------------------------------------

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def name(self, node: ast.Name) -> Any:
        return self.lookup(node.id, node)

    def lookup(self, name: str, node: ast.AST) -> Any:
        scope: Scope | None = self.scope
        while scope is not None:
            value = scope.locals.get(name, MISSING)
            if value is not MISSING:
                if isinstance(value, Poison):
                    raise self.fail(node, f"'{name}' {value.why}", value.hint)
                return value
            if name in scope.own:
                raise self.fail(node, f"'{name}' is used before it is assigned")
            for names in (scope.closure, scope.globals, scope.builtins) if scope.parent is None else ():
                if name in names:
                    return self.captured(names[name], node)
            scope = scope.parent
        raise self.fail(node, f"name '{name}' is not defined")

    def captured(self, value: Any, node: ast.AST) -> Any:
        """A value from Python, as the kernel sees it: the name of a run-time dimension stands for its size."""
        if not isinstance(value, Dim):
            return value
        size = self.trace.dims.get(str(value))
        if size is None:
            raise self.fail(
                node,
                f'T.dynamic("{value}"): no tensor of the signature has a run-time dimension {value}',
                "use A.shape[0], or this T.dynamic in the shape of a tensor of the signature",
            )
        return Expr(size)

    def attribute(self, node: ast.Attribute) -> Any:
        value = self.eval(node.value)
        return self.captured(self.perform(node, getattr, value, node.attr), node)

    def named(self, node: ast.NamedExpr) -> Any:
        value = self.eval(node.value)
        self.assign_name(node.target.id, value, node)
        return value

    def assign_name(self, name: str, value: Any, node: ast.AST) -> None:
        raise NotImplementedError

    # Operators ---------------------------------------------------------------------------------------------------

    def binary(self, node: ast.BinOp) -> Any:
        terms = [node]  # a + b + c is (a + b) + c: as deep as it is long
        while isinstance(terms[-1].left, ast.BinOp):
            terms.append(terms[-1].left)
        value = self.eval(terms[-1].left)
        for term in reversed(terms):
            right = self.eval(term.right)
            value = self.perform(term, BINARY[type(term.op)], value, right)
        return value

    def unary(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            if not isinstance(value, Expr):
                return self.perform(node, operator.not_, value)
            self.at(node)
            return Expr(self.trace.b.value(arith.Not(truth(value))))
        return self.perform(node, UNARY[type(node.op)], value)

    def compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        right = self.eval(node.comparators[0])
        first = self.perform(node, COMPARE[type(node.ops[0])], left, right)
        if len(node.ops) == 1:
            return first

        def rest(i: int, left: Any) -> Any:
            right = self.eval(node.comparators[i])
            found = self.perform(node, COMPARE[type(node.ops[i])], left, right)
            if i + 1 == len(node.ops):
                return found
            return self.lazy(node, "and", found, lambda: rest(i + 1, right))

        return self.lazy(node, "and", first, lambda: rest(1, right))

    def bool_op(self, node: ast.BoolOp) -> Any:
        """a and b and c as a and (b and c), but of many in groups, (a and (b and c)) and (d and (e and f)), which is
        the same and not as deep as it is long."""
        kind = "and" if isinstance(node.op, ast.And) else "or"

        def group(i: int, end: int) -> Any:
            value = self.eval(node.values[i])
            return value if i + 1 == end else self.lazy(node, kind, value, lambda: group(i + 1, end))

        count = len(node.values)
        found = group(0, min(count, GROUP))
        for start in range(GROUP, count, GROUP):
            found = self.lazy(node, kind, found, partial(group, start, min(count, start + GROUP)))
        return found

    def lazy(self, node: ast.expr, kind: str, left: Any, right: Callable[[], Any]) -> Any:
        """`left and right()` or `left or right()`: of bools a bool, else the operand that Python would give."""
        self.at(node)
        known = constant_of(left.value) if isinstance(left, Expr) else None
        if not isinstance(left, Expr) or known is not None:
            taken = self.perform(node, bool, left if known is None else known)
            return right() if taken == (kind == "and") else left
        condition = truth(left)
        block, other = Block(), Block()
        with self.trace.within(block, f"the right side of `{kind}`"), self.conditional(node):
            value = right()
        if not is_scalar(value):
            raise self.fail(node, f"`{kind}` of a run-time value and {shown(value)}, which is no scalar")
        self.at(node)
        bools = left.dtype is bool_ and entry_dtype(value) is bool_
        if bools and is_speculative(block):
            b = self.trace.b
            b.block.ops.extend(block.ops)
            return Expr(b.value((arith.And if kind == "and" else arith.Or)(condition, operand_value(value))))
        otherwise = (kind == "or") if bools else left
        blocks = (block, other) if kind == "and" else (other, block)
        found = [value, otherwise] if kind == "and" else [otherwise, value]
        return Expr(self.join(condition, blocks, (self.unified(blocks, found),))[0])

    @contextmanager
    def conditional(self, node: ast.expr) -> Iterator[None]:
        """Around the evaluation of a part of `node` that may not be reached: what it assigns has no value later."""
        names = assigned_names([node])
        before = {n: self.locals.get(n) for n in names}
        yield
        for n in names:
            if self.locals.get(n) is not before[n]:
                self.locals[n] = Poison("is assigned by `:=` in a part that may not be evaluated", "assign it before")

    def if_exp(self, node: ast.IfExp) -> Any:
        test = self.eval(node.test)
        return self.choose(node, test, lambda: self.eval(node.body), lambda: self.eval(node.orelse))

    def choose(self, node: ast.expr, test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """The ternary: evaluates one side only."""
        known = constant_of(test.value) if isinstance(test, Expr) else None
        if not isinstance(test, Expr) or known is not None:
            return a() if self.perform(node, bool, test if known is None else known) else b()
        self.at(node)
        condition = truth(test)
        blocks = (Block(), Block())
        found = []
        for block, side in zip(blocks, (a, b), strict=True):
            with self.trace.within(block, "a ternary"), self.conditional(node):
                found.append(side())
        if found[0] is found[1]:
            return found[0]
        for value in found:
            if not is_scalar(value):
                raise self.fail(
                    node, f"a choice at run time between values of which one is {shown(value)}, not a scalar"
                )
        self.at(node)
        return Expr(self.join(condition, blocks, (self.unified(blocks, found),))[0])

    def unified(self, blocks: tuple[Block, Block], found: list[Any]) -> tuple[Value, Value]:
        """Two scalars, each available in its block, with one dtype; casts go into the blocks."""
        scratch = Block()
        with self.trace.b.inside(scratch):
            dtype = unify(found[0], found[1])[0].dtype
        values = []
        for block, value in zip(blocks, found, strict=True):
            with self.trace.b.inside(block):
                values.append(convert(value, dtype).value)
        return values[0], values[1]

    def join(
        self, condition: Value, blocks: tuple[Block, Block], pairs: tuple[tuple[Value, Value], ...]
    ) -> list[Value]:
        """The two sides of a branch and what each yields: selects when both are pure arithmetic, else an `if`. Where
        the condition is one of roles, so is the branch; one on the thread's index that parts warpgroups is, if there
        are operations inside that threads do together."""
        b = self.trace.b
        role = condition.op if isinstance(condition.op, explicit.InGroups) else None
        if role is None and any(op.uniform for block in blocks for op in block.walk()):
            role = self.warpgroup_condition(condition)
        if role is None and all(is_speculative(block) for block in blocks):
            for block in blocks:
                b.block.ops.extend(block.ops)
            return [b.select(condition, x, y) for x, y in pairs]
        for side, block in enumerate(blocks):
            with b.inside(block):
                b.emit(control.Yield(tuple(p[side] for p in pairs)))
        if role is not None:
            then, orelse = blocks
            op = explicit.WarpGroups(role.result, first=role.first, count=role.count, then=then, orelse=orelse)
            return list(b.emit(op).results)
        return list(b.emit(control.If(condition, then=blocks[0], orelse=blocks[1])).results)

    def warpgroup_condition(self, condition: Value) -> explicit.InGroups | None:
        """The warpgroups for which a condition on the thread's index holds, if it holds for whole ones."""
        launch = self.trace.launch
        part = None if launch is None else selected_warpgroups(condition, launch.threads)
        if part is None:
            return None
        return self.trace.b.emit(explicit.InGroups(*part))

    # Displays ----------------------------------------------------------------------------------------------------

    def tuple_display(self, node: ast.Tuple) -> Any:
        return tuple(self.items(node.elts))

    def list_display(self, node: ast.List) -> Any:
        return self.created(self.items(node.elts))

    def set_display(self, node: ast.Set) -> Any:
        items = self.items(node.elts)
        return self.created(self.perform(node, set, items))

    def dict_display(self, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.perform(node, found.update, self.eval(value))
            else:
                k = self.eval(key)
                self.perform(key, operator.setitem, found, k, self.eval(value))
        return self.created(found)

    def items(self, nodes: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(self.perform(node, list, self.eval(node.value)))
            else:
                found.append(self.eval(node))
        return found

    def created(self, container: Any) -> Any:
        """Remember where a container was made: only there it may be changed."""
        if self.trace.control:
            self.trace.created[id(container)] = (container, self.trace.region)
        return container

    def check_mutable(self, container: Any, node: ast.AST, what: str) -> None:
        """Under run-time control, only what was made in the same loop body or branch may be changed."""
        region = self.trace.region
        if region is None:
            return
        known = self.trace.created.get(id(container))
        if known is not None and known[0] is container and known[1] is region:
            return
        raise self.fail(
            node,
            f"{what} in {region.what}: a loop or branch on run-time values is traced once, so this would happen once, "
            "and not as often as the kernel runs it",
            "keep run-time data in buffers or scalars; Python containers are for compile-time data",
        )

    def slice_bounds(self, node: ast.Slice) -> Any:
        parts = [None if n is None else self.eval(n) for n in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def subscript(self, node: ast.Subscript) -> Any:
        return self.subscript_as(node, "load")

    def subscript_as(self, node: ast.Subscript, mode: str) -> Any:
        """An index expression: of memory a load, or a region when the call it is an argument of wants one."""
        value = self.eval(node.value)
        index = self.eval(node.slice)
        if not isinstance(value, Memory):
            return self.captured(self.perform(node, operator.getitem, value, index), node)
        items = index if isinstance(index, tuple) else (index,)
        sliced = any(isinstance(i, slice) or i is Ellipsis for i in items)
        if mode == "region" or (mode == "slices" and sliced):
            return self.perform(node, value.region, index)
        return self.perform(node, value.load, index)

    def joined(self, node: ast.JoinedStr) -> str:
        return "".join(
            self.formatted(part) if isinstance(part, ast.FormattedValue) else str(self.eval(part))
            for part in node.values
        )

    def formatted(self, node: ast.FormattedValue) -> str:
        value = self.eval(node.value)
        spec = "" if node.format_spec is None else self.eval(node.format_spec)
        convert_to = _CONVERSIONS.get(node.conversion)
        text: str = self.perform(node, format, value if convert_to is None else convert_to(value), spec)
        return text

    # Comprehensions run in Python, at trace time -----------------------------------------------------------------

    def generators(self, generators: list[ast.comprehension], element: Callable[[], None]) -> None:
        if not generators:
            element()
            return
        first, *rest = generators
        for item in self.iterate(first.iter):
            wrong = self.trace.count_round()
            if wrong:
                raise self.fail(first.iter, wrong)
            self.bind_target(first.target, item)
            if all(self.compile_time_truth(test) for test in first.ifs):
                self.generators(rest, element)

    def iterate(self, node: ast.expr) -> Iterator[Any]:
        values = self.eval(node)
        return self.perform(node, iter, values)  # type: ignore[no-any-return]

    def compile_time_truth(self, node: ast.expr) -> bool:
        value = self.eval(node)
        return self.perform(node, bool, value)  # type: ignore[no-any-return]

    def bind_target(self, target: ast.expr, value: Any) -> None:
        raise NotImplementedError

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Any:
        found: list[Any] = []
        targets = [n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)]
        saved = {n: self.locals[n] for n in targets if n in self.locals}

        def element() -> None:
            if isinstance(node, ast.DictComp):
                found.append((self.eval(node.key), self.eval(node.value)))
            else:
                found.append(self.eval(node.elt))

        self.generators(node.generators, element)
        for n in targets:
            self.locals.pop(n, None)
        self.locals.update(saved)
        make = _COMPREHENSIONS.get(type(node))
        return self.created(found if make is None else self.perform(node, make, found))


def _keyword_meant(function: Callable[..., Any], error: Exception) -> str:
    """For a keyword that a function lacks: those that it has, the most similar one first."""
    found = re.search(r"unexpected keyword argument '(\w+)'", str(error)) if isinstance(error, TypeError) else None
    try:
        names = list(inspect.signature(function).parameters) if found else []
    except (TypeError, ValueError):
        return ""
    if not found or found[1] in names or not names:
        return ""
    close = difflib.get_close_matches(found[1], names, 1)
    return f"did you mean {close[0]}?" if close else f"its parameters are {', '.join(names)}"


class Dim(str):
    """`T.dynamic("m")`: a run-time dimension; `T.symbolic` is the same. Made outside the kernel: in a signature's shape
    it is the dimension, and the same object in the body is its size.

    A string in the shape does as well: `T.Tensor(("m",), T.float32)`, with `A.shape[0]` for the size.

    Example:
        ```py
        length = T.dynamic("length")

        @mt.kernel
        def negate(X: T.Tensor((length,), T.float32)):
            with T.Kernel(T.ceildiv(length, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    X[bx * 128 + i] = -X[bx * 128 + i]
        ```
    """

    __slots__ = ()


def is_speculative(block: Block) -> bool:
    """Whether a block may be executed although its condition is false: a little pure arithmetic."""
    return len(block.ops) <= 16 and all(op.pure and not op.region_fields for op in block.ops)


_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
_COMPREHENSIONS: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.SetComp: set,
    ast.DictComp: dict,
    ast.GeneratorExp: iter,
}

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
INPLACE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    kind: getattr(operator, "i" + f.__name__.strip("_")) for kind, f in BINARY.items()
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def _contains(item: Any, container: Any) -> Any:
    if isinstance(item, Expr) and isinstance(container, (tuple, list)) and container:
        return reduce(operator.or_, (item == x for x in container))
    return item in container


def _contains_not(item: Any, container: Any) -> Any:
    found = _contains(item, container)
    return ~found if isinstance(found, Expr) else not found


COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: _contains,
    ast.NotIn: _contains_not,
}

Expressions.handlers = {
    ast.Constant: Expressions.constant,
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute,
    ast.NamedExpr: Expressions.named,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.Compare: Expressions.compare,
    ast.BoolOp: Expressions.bool_op,
    ast.IfExp: Expressions.if_exp,
    ast.Tuple: Expressions.tuple_display,
    ast.List: Expressions.list_display,
    ast.Set: Expressions.set_display,
    ast.Dict: Expressions.dict_display,
    ast.Slice: Expressions.slice_bounds,
    ast.Subscript: Expressions.subscript,
    ast.JoinedStr: Expressions.joined,
    ast.ListComp: Expressions.comprehension,
    ast.SetComp: Expressions.comprehension,
    ast.DictComp: Expressions.comprehension,
    ast.GeneratorExp: Expressions.comprehension,
}
