"""The interpreter's statements: assignments, calls, definitions, jumps; blocks of them.

Jumps are data: `break`, `continue` and `return` set flags, which live among the local names (under names that no user
can write) and so are merged by branches and carried by loops like everything else. A flag that is a Python bool is
known at trace time; one that is a staged bool guards the rest of the block.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from minitile.ir.diagnostics import LanguageError, MinitileError, shown
from minitile.ir.types import DType
from minitile.language.explicit import Barriers
from minitile.language.memory import Memory
from minitile.language.scalars import Expr, assign_cast, entry_dtype, is_scalar
from minitile.language.tiles import Variable, clear, fill
from minitile.language.tracing.calls import Calls
from minitile.language.tracing.context import Trace
from minitile.language.tracing.expressions import INPLACE, Poison, Scope
from minitile.language.tracing.source import FunctionNode, filled_name, own_names

SKIP, BROKE, RETURNED, VALUE = ".skip", ".broke", ".returned", ".value"
FLAGS = (SKIP, BROKE, RETURNED, VALUE)
UNSET = Poison("has no value")

# What to write in the place of statements that a kernel cannot have.
_INSTEAD = {
    "match": "write if, elif and else: of compile-time values only the branch that holds is traced",
    "try": "nothing is raised at run time; T.device_assert stops a launch",
}


class Statements(Calls):
    """Executes statements; loops, branches and `with` are in control_flow.py."""

    executors: ClassVar[dict[type[ast.stmt], Callable[[Any, Any], None]]] = {}

    def __init__(self, trace: Trace, scope: Scope) -> None:
        super().__init__(trace, scope)
        self.typed: dict[str, DType] = {}  # names with a declared dtype
        self.places: dict[str, ast.AST] = {}  # where a name was last assigned

    def run_function(self, node: FunctionNode) -> Any:
        if isinstance(node, ast.Lambda):
            return self.eval(node.body)
        self.scope.own = own_names(node)
        self.locals.update({SKIP: False, BROKE: False, RETURNED: False, VALUE: UNSET})
        self.block(node.body)
        value = self.locals[VALUE]
        returned = self.locals[RETURNED]
        if returned is False:
            return None
        if isinstance(returned, Expr) and value is not None:
            raise self.fail(
                node, f"{node.name}() returns a value on some paths only", "end the function with a return of its own"
            )
        return value

    def block(self, body: list[ast.stmt]) -> None:
        """Execute statements in order, as far as they are reached."""
        for i, node in enumerate(body):
            self.statement(node)
            skip = self.locals[SKIP]
            if skip is False:
                continue
            if isinstance(skip, Expr) and i + 1 < len(body):
                self.guarded(node, skip, body[i + 1 :])
            return

    def guarded(self, node: ast.stmt, skip: Expr, rest: list[ast.stmt]) -> None:
        """The rest of a block after a statement that may have jumped."""
        raise NotImplementedError

    def statement(self, node: ast.stmt) -> None:
        executor = self.executors.get(type(node))
        if executor is None:
            what = type(node).__name__.removeprefix("Async").lower()
            raise self.fail(node, f"`{what}` statements have no meaning in a kernel", _INSTEAD.get(what, ""))
        self.begin(node)
        try:
            executor(self, node)
        except MinitileError as error:
            if error.loc is None:
                error.loc = self.trace.b.loc or self.scope.location(node)
            raise

    def begin(self, node: ast.stmt) -> None:
        """Before a statement is executed."""
        if self.trace.marks is not None:
            self.at(node)
            self.trace.marks.mark(self.trace, self)

    # Assignment --------------------------------------------------------------------------------------------------

    def assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.bind_target(target, value)

    def annotated(self, node: ast.AnnAssign) -> None:
        """`x: T.float32 = 0` declares the dtype of x; of a tensor it repeats what the signature says."""
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        if node.value is None and self.scope.caller is None and name in self.trace.tensors:
            self.locals[name] = self.trace.tensors[name]
            return
        dtype = self.eval(node.annotation)
        if isinstance(dtype, DType) and isinstance(node.target, ast.Name):
            self.typed[node.target.id] = dtype
        if node.value is not None:
            self.bind_target(node.target, self.eval(node.value))

    def augmented(self, node: ast.AugAssign) -> None:
        target = node.target
        compute = INPLACE[type(node.op)]
        if isinstance(target, ast.Name):
            old = self.lookup(target.id, target)
            if isinstance(old, (list, set, dict, bytearray)):
                self.check_mutable(old, node, f"a change of a Python {type(old).__name__}")
            self.assign_name(target.id, self.perform(node, compute, old, self.eval(node.value)), target)
            return
        owner = self.eval(target.value)
        if isinstance(target, ast.Attribute):
            self.check_mutable(owner, node, f"an assignment to .{target.attr}")
            old = self.perform(target, getattr, owner, target.attr)
            new = self.perform(node, compute, old, self.eval(node.value))
            self.perform(node, setattr, owner, target.attr, new)
            return
        index = self.eval(target.slice)
        old = self.perform(target, operator.getitem, owner, index)
        new = self.perform(node, compute, old, self.eval(node.value))
        self.store(target, owner, index, new)

    def bind_target(self, target: ast.expr, value: Any) -> None:
        """Assign to a name, an element, an attribute, or to several by unpacking."""
        if isinstance(target, ast.Name):
            self.assign_name(target.id, value, target)
        elif isinstance(target, ast.Subscript):
            self.store(target, self.eval(target.value), self.eval(target.slice), value)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value)
            self.check_mutable(owner, target, f"an assignment to .{target.attr}")
            self.perform(target, setattr, owner, target.attr, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value)
        else:
            raise self.fail(target, "assignment to this has no meaning in a kernel")

    def unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        values = list(self.perform(target, iter, value))
        stars = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        if stars:
            at, tail = stars[0], len(target.elts) - stars[0] - 1
            if len(values) < at + tail:
                raise self.fail(target, f"{len(values)} values for at least {at + tail} names")
            middle = self.created(values[at : len(values) - tail])
            values = [*values[:at], middle, *values[len(values) - tail :]]
        if len(values) != len(target.elts):
            raise self.fail(target, f"{len(values)} values for {len(target.elts)} names")
        for t, v in zip(target.elts, values, strict=True):
            self.bind_target(t.value if isinstance(t, ast.Starred) else t, v)

    def assign_name(self, name: str, value: Any, node: ast.AST) -> None:
        self.places[name] = node
        if isinstance(value, Variable):
            self.typed[name] = value.dtype
            value = Expr(value.value)
        elif name in self.typed and not isinstance(value, Memory):
            self.at(node)
            value = Expr(assign_cast(value, self.typed[name], f"the value of '{name}'"))
        if isinstance(value, (Memory, Expr, Barriers)) and not value.value.name:
            value.value.name = name
        self.locals[name] = value

    def store(self, target: ast.Subscript, owner: Any, index: Any, value: Any) -> None:
        if isinstance(owner, Memory):
            self.perform(target, owner.store, index, value)
            return
        self.check_mutable(owner, target, f"an assignment to an element of a Python {type(owner).__name__}")
        self.perform(target, operator.setitem, owner, index, value)

    def delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.lookup(target.id, target)
                self.locals[target.id] = Poison("was deleted")
            elif isinstance(target, ast.Subscript):
                owner = self.eval(target.value)
                self.check_mutable(owner, target, f"`del` on a Python {type(owner).__name__}")
                self.perform(target, operator.delitem, owner, self.eval(target.slice))
            else:
                raise self.fail(target, "`del` of this has no meaning in a kernel")

    # Other simple statements -------------------------------------------------------------------------------------

    def expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and self.fills_variable(node.value):
            return
        self.eval(node.value)

    def fills_variable(self, call: ast.Call) -> bool:
        """`T.clear(x)` and `T.fill(x, value)` of a scalar variable assign it. Whether this was one."""
        for name in filled_name(call):
            value = self.locals.get(name)
            if not is_scalar(value):
                continue
            function = self.eval(call.func)
            if function is fill or function is clear:
                numbers = [*call.args[1:], *(k.value for k in call.keywords if k.arg == "value")]
                new = 0 if function is clear else self.eval(numbers[0])
                self.at(call)
                what = f"T.{function.__name__} of '{name}'"
                self.assign_name(name, Expr(self.perform(call, assign_cast, new, entry_dtype(value), what)), call)
                return True
        return False

    def nothing(self, node: ast.stmt) -> None:
        """`pass`."""

    def assertion(self, node: ast.Assert) -> None:
        test = self.eval(node.test)
        if isinstance(test, Expr):
            raise self.fail(
                node, "`assert` of a run-time value", "use T.device_assert(condition, message), or T.assume(condition)"
            )
        if not self.perform(node, bool, test):
            message = "" if node.msg is None else f": {self.eval(node.msg)}"
            raise self.fail(node, f"assertion failed{message}")

    def raising(self, node: ast.Raise) -> None:
        error = None if node.exc is None else self.eval(node.exc)
        if isinstance(error, MinitileError):
            raise error
        if isinstance(error, type):
            error = error()
        where = f" in {self.trace.region.what}" if self.trace.region else ""
        cause = error if isinstance(error, BaseException) else None
        raise LanguageError(f"{type(error).__name__}: {error}{where}", self.scope.location(node)) from cause

    def definition(self, node: ast.FunctionDef) -> None:
        function: Any = self.inner_function(node)
        for decorator in reversed(node.decorator_list):
            function = self.perform(decorator, self.eval(decorator), function)
        self.assign_name(node.name, function, node)

    def importing(self, node: ast.Import | ast.ImportFrom) -> None:
        names: dict[str, Any] = {}
        code = compile(ast.Module([node], []), self.scope.file, "exec")
        self.perform(node, exec, code, dict(self.scope.globals), names)
        for name, value in names.items():
            self.assign_name(name, value, node)

    def refuse_scope(self, node: ast.Global | ast.Nonlocal) -> None:
        word = type(node).__name__.lower()
        raise self.fail(
            node,
            f"`{word} {', '.join(node.names)}`: a kernel is traced once, so an assignment to an outer variable would "
            "happen once, at compile time",
            "return the value, or write it to a tensor",
        )

    # Jumps -------------------------------------------------------------------------------------------------------

    def break_(self, node: ast.Break) -> None:
        self.locals[BROKE] = True
        self.locals[SKIP] = True

    def continue_(self, node: ast.Continue) -> None:
        self.locals[SKIP] = True

    def return_(self, node: ast.Return) -> None:
        value = None if node.value is None else self.eval(node.value)
        if value is not None and self.scope.caller is None:
            items = value if isinstance(value, (tuple, list)) else (value,)
            for item in items:
                if not isinstance(item, Memory) or item.space != "global":
                    hint = "write it to a tensor that T.empty makes, and return that"
                    raise self.fail(node, f"a kernel returns tensors, not {shown(item)}", hint)
            if self.trace.region is not None:
                what = f"a kernel returns a tensor in {self.trace.region.what}"
                raise self.fail(node, what, "return it at the end of the function")
        self.locals[VALUE] = value
        self.locals[RETURNED] = True
        self.locals[SKIP] = True


Statements.executors = {
    ast.Assign: Statements.assign,
    ast.AnnAssign: Statements.annotated,
    ast.AugAssign: Statements.augmented,
    ast.Delete: Statements.delete,
    ast.Expr: Statements.expression,
    ast.Pass: Statements.nothing,
    ast.Assert: Statements.assertion,
    ast.Raise: Statements.raising,
    ast.FunctionDef: Statements.definition,
    ast.Import: Statements.importing,
    ast.ImportFrom: Statements.importing,
    ast.Global: Statements.refuse_scope,
    ast.Nonlocal: Statements.refuse_scope,
    ast.Break: Statements.break_,
    ast.Continue: Statements.continue_,
    ast.Return: Statements.return_,
}
