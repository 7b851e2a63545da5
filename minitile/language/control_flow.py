"""The interpreter's loops, branches and launch.

What is known at trace time stays Python; what is not becomes `for`, `while` and `if` with results:

* a loop carries every name that its body assigns and that is a scalar before it, with the dtype it has on entry;
* a branch yields every name that one of its sides assigns; equal values on both sides need no result;
* other names assigned inside have no value afterwards (`Poison` says why when they are used);
* a `for` that is left by `break` is traced as a `while`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import LanguageError, MinitileError, TypeMismatchError
from minitile.ir.ops import arith, control
from minitile.ir.types import I32, i32
from minitile.language import loops
from minitile.language.expressions import Poison
from minitile.language.loops import KernelScope, Loop, ParallelLoop
from minitile.language.memory import Memory
from minitile.language.raster import rasterise
from minitile.language.scalars import (
    Expr,
    coerce,
    entry_dtype,
    is_number,
    is_scalar,
    literal,
    operand_value,
    promote,
    truth,
)
from minitile.language.source import assigned_names, jumps
from minitile.language.statements import BROKE, FLAGS, RETURNED, SKIP, UNSET, VALUE, Statements

ITERATION_LIMIT = 100_000
_INDEX = ".index"  # the running index of a `for` that is traced as a `while`


@dataclass(frozen=True)
class _Pending:
    """A name's value after a branch: result number `index` of the `if`."""

    index: int


class Interpreter(Statements):
    """All of the language."""

    # Branches ----------------------------------------------------------------------------------------------------

    def if_(self, node: ast.If) -> None:
        test = self.eval(node.test)
        known = constant_of(test.value) if isinstance(test, Expr) else None
        if not isinstance(test, Expr) or known is not None:
            self.block(node.body if self.perform(node.test, bool, test if known is None else known) else node.orelse)
            return
        self.at(node.test)
        condition = truth(test)
        jumped = jumps((*node.body, *node.orelse))
        if "return" in jumped and self.scope.caller is None:
            self.trace.returns.append((condition, self.trace.b.loc))
        names = assigned_names((*node.body, *node.orelse)) + (list(FLAGS) if jumped else [])
        self.branch(node, condition, lambda: self.block(node.body), lambda: self.block(node.orelse), names)

    def guarded(self, node: ast.stmt, skip: Expr, rest: list[ast.stmt]) -> None:
        condition = self.negated(skip.value)

        def reached() -> None:
            self.locals.update({SKIP: False, BROKE: False, RETURNED: False})
            self.block(rest)

        def skipped() -> None:
            self.locals[SKIP] = True
            if jumps([node]) == {"return"}:
                self.locals[RETURNED] = True

        self.branch(node, condition, reached, skipped, assigned_names(rest) + list(FLAGS))

    def branch(
        self,
        node: ast.stmt,
        condition: Value,
        then: Callable[[], None],
        orelse: Callable[[], None],
        names: list[str],
    ) -> None:
        """Trace both sides, each from the same names, and merge what they assigned."""
        before = {n: self.locals.get(n, UNSET) for n in names}
        blocks = (Block(), Block())
        after: list[dict[str, Any]] = []
        for block, side in zip(blocks, (then, orelse), strict=True):
            self.at(node)
            with self.trace.within(block, f"the `if` at line {node.lineno}"):
                side()
            after.append({n: self.locals[n] for n in names if n in self.locals})
            self.restore(before)
        self.at(node)
        merge = _Merge(self, node, condition, blocks)
        merged = {n: merge.name(n, before[n], after[0].get(n, UNSET), after[1].get(n, UNSET)) for n in names}
        results = self.join(condition, blocks, tuple(merge.pairs))
        self.restore({n: _resolve(value, results) for n, value in merged.items()})

    def negated(self, condition: Value) -> Value:
        op = condition.op
        return op.a if isinstance(op, arith.Not) else self.trace.b.value(arith.Not(condition))

    def restore(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value is UNSET and name not in FLAGS:
                self.locals.pop(name, None)
            else:
                self.locals[name] = value

    # Loops -------------------------------------------------------------------------------------------------------

    def for_(self, node: ast.For) -> None:
        items = self.loop_of(node.iter)
        if isinstance(items, KernelScope):
            raise self.fail(node.iter, "T.Kernel is no loop", "write `with T.Kernel(…) as (bx, by):`")
        if isinstance(items, ParallelLoop):
            self.parallel(node, items)
        elif isinstance(items, Loop):
            known = items.constant()
            if known is not None and (items.kind == "unroll" or self.trace.launch is None):
                self.unrolled(node, known)
            elif self.trace.launch is None:
                raise self.fail(
                    node.iter, "a loop with run-time bounds outside T.Kernel", "only the grid is computed there"
                )
            else:
                self.staged_for(node, items)
        else:
            if isinstance(items, Expr):
                raise self.fail(node.iter, f"a loop over {items!r}", "count with T.serial(n) or range(n)")
            self.unrolled(node, self.perform(node.iter, iter, items))

    def loop_of(self, node: ast.expr) -> Any:
        """What a `for` runs over; Python's range counts as T.serial inside a launch."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self.trace.launch is not None:
            if self.eval(node.func) is range and not node.keywords:
                return self.perform(node, loops.range_loop, *self.items(node.args))
        return self.eval(node)

    def unrolled(self, node: ast.For | ast.While, items: Iterable[Any]) -> None:
        """A loop that Python runs, at trace time."""
        outer_broke = self.locals[BROKE]
        outer_returned = self.locals[RETURNED]
        self.locals[BROKE] = False
        for count, item in enumerate(items):
            if count >= ITERATION_LIMIT:
                raise self.fail(node, f"a loop at compile time with more than {ITERATION_LIMIT} iterations")
            if isinstance(node, ast.For):
                self.bind_target(node.target, item)
            self.block(node.body)
            broke, returned = self.locals[BROKE], self.locals[RETURNED]
            if isinstance(broke, Expr) or (isinstance(returned, Expr) and returned is not outer_returned):
                raise self.fail(
                    node,
                    f"`{'break' if isinstance(broke, Expr) else 'return'}` under a run-time condition in a loop that "
                    "runs at compile time",
                    "loop with T.serial or range inside T.Kernel, or guard the statements with `if`",
                )
            self.locals[SKIP] = returned is True
            if broke or returned is True:
                break
        else:
            self.block(node.orelse)
        if self.locals[BROKE] is True or not node.orelse:
            self.locals[BROKE] = outer_broke

    def while_(self, node: ast.While) -> None:
        forever = isinstance(node.test, ast.Constant) and node.test.value and "break" in jumps(node.body)
        if not (forever and self.trace.launch is not None):
            with self.trace.b.inside(Block()):
                test = self.eval(node.test)
            if not isinstance(test, Expr) or constant_of(test.value) is not None:
                self.unrolled(node, self.while_true(node))
                return
        self.refuse_jumps(node, "a `while` on run-time values", ("return",))
        self.staged_while(
            node, assigned_names((*node.body, node.test)), lambda: self.eval(node.test), lambda: self.block(node.body)
        )

    def while_true(self, node: ast.While) -> Iterable[None]:
        """One item for each time that the compile-time condition holds."""
        while True:
            test = self.eval(node.test)
            known = constant_of(test.value) if isinstance(test, Expr) else test
            if isinstance(test, Expr) and known is None:
                raise self.fail(
                    node.test,
                    "the condition of a compile-time `while` became a run-time value",
                    "use T.serial or T.alloc_var",
                )
            if not self.perform(node.test, builtins.bool, known):
                return
            yield None

    def refuse_jumps(self, node: ast.For | ast.While, what: str, refused: tuple[str, ...]) -> None:
        found = sorted(jumps(node.body) & set(refused))
        if found:
            hint = "leave it with `break`" if found == ["return"] else "guard the statements with `if`"
            raise self.fail(node, f"`{found[0]}` in {what}", hint)
        if node.orelse:
            raise self.fail(node.orelse[0], f"`else` of {what}")

    def carried(self, names: Iterable[str]) -> dict[str, Value]:
        """The loop-carried names among those that a body assigns, with their values on entry."""
        found = {}
        for name in names:
            value = self.locals.get(name)
            if is_scalar(value):
                found[name] = literal(value, entry_dtype(value)) if is_number(value) else operand_value(value)
        return found

    def final(self, node: ast.stmt, init: dict[str, Value]) -> list[Value]:
        """The carried names at the end of a body, each of the dtype that it entered with."""
        values = []
        for name, entry in init.items():
            value = self.locals.get(name)
            place = self.places.get(name, node)
            if not is_scalar(value):
                why = f", which {value.why}" if isinstance(value, Poison) else ""
                raise self.fail(place, f"'{name}' is a {entry.dtype} before the loop and no scalar at its end{why}")
            if isinstance(value, Expr) and value.dtype is not entry.dtype:
                raise TypeMismatchError(
                    f"'{name}' is {entry.dtype} when the loop begins, and {value.dtype} is assigned to it in the loop",
                    self.scope.location(place),
                    "a variable keeps its dtype: cast the value, or begin with one of the other dtype "
                    "(T.float32(0), or T.alloc_var)",
                )
            values.append(self.located(place, coerce, value, entry.dtype, f"the value of '{name}'"))
        return values

    def located(self, place: ast.AST, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except MinitileError as error:
            error.loc = error.loc or self.scope.location(place)
            raise

    def leave(self, node: ast.stmt, names: Iterable[str], before: dict[str, Any], what: str) -> None:
        """After a loop, names that are not carried have what they had before, if the loop did not assign them."""
        for name in names:
            old, new = before.get(name, UNSET), self.locals.get(name, UNSET)
            if old is new:
                continue
            if old is not UNSET and not isinstance(old, Poison) and not is_scalar(old):
                self.refuse_rebinding(self.places.get(name, node), name, old, what)
            self.locals[name] = Poison(
                f"is assigned inside {what} and has no value after it", "assign it before, so that it is carried"
            )

    def refuse_rebinding(self, place: ast.AST, name: str, old: Any, what: str) -> None:
        kind = old.describe() if isinstance(old, Memory) else f"a Python {type(old).__name__}"
        raise self.fail(
            place,
            f"'{name}' is {kind} and is assigned anew in {what}: it is traced once, so which one is meant would depend on "
            "run-time values",
            "only scalars change at run time; use another name, or copy the contents",
        )

    def staged_for(self, node: ast.For, loop: Loop) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.fail(node.target, "a loop of the language has one index")
        what = f"the loop at line {node.lineno}"
        if loop.kind == "serial" and loop.stages == 1:
            self.refuse_jumps(node, "a loop on run-time values", ("return",))
        else:
            self.refuse_jumps(node, f"T.{_NAMES[loop.kind]}", ("return", "break", "continue"))
        self.at(node.iter)
        lower, upper, step, index = self.bounds(loop)
        if "break" in jumps(node.body):
            self.breaking_for(node, node.target, lower, upper, step, index)
            return
        b = self.trace.b
        names = [n for n in assigned_names(node.body) if n != node.target.id]
        before = {n: self.locals.get(n, UNSET) for n in names}
        init = self.carried(names)
        body = Block()
        iv = body.add_arg(lower.type, node.target.id)
        for name, value in init.items():
            self.locals[name] = Expr(body.add_arg(value.type, name))
        with self.trace.within(body, what):
            self.bind_target(node.target, index(Expr(iv)))
            self.block(node.body)
            self.locals[SKIP] = False
            self.at(node)
            values = self.final(node, init)
        changed = drop_unchanged(body, 1, init, values)
        with b.inside(body):
            b.emit(control.Yield(tuple(changed.values())))
        op = control.For(
            lower,
            upper,
            step,
            tuple(init[n] for n in changed),
            kind=loop.kind,
            stages=loop.stages,
            order=loop.order,
            stage_of=loop.stage_of,
            body=body,
        )
        b.emit(op)
        self.leave(node, [*(n for n in names if n not in init), node.target.id], before, what)
        self.bind_results(init, before, dict(zip(changed, op.results, strict=True)))

    def bind_results(self, init: dict[str, Value], before: dict[str, Any], results: dict[str, Value]) -> None:
        """After a loop: the carried names; those that it did not change have their old values."""
        for name in init:
            if name in results:
                results[name].name = "" if name.startswith(".") else name
                self.locals[name] = Expr(results[name])
            else:
                self.locals[name] = before[name]

    def bounds(self, loop: Loop) -> tuple[Value, Value, Value, Callable[[Expr], Any]]:
        """Lower and upper bound and a positive step, of one type, and what the body's index is of the IR's."""
        step = loop.constant_step()
        start, stop, by = loop.start, loop.stop, loop.step
        if step is not None and step <= 0:
            if step == 0:
                raise self.trace.error("the step of a loop is 0")
            trips = (
                -((stop - start) // -step)
                if is_number(start) and is_number(stop)
                else (start - stop - step - 1) // -step
            )
            lower, upper, one, _ = self.bounds(Loop(0, trips, 1))
            return lower, upper, one, lambda i: start + i * step
        dtype = i32
        for x in (start, stop, by):
            dtype = promote(dtype, entry_dtype(x))
        convert = [
            self.trace.b.cast(operand_value(x), dtype) if isinstance(x, Expr) else literal(x, dtype)
            for x in (start, stop, by)
        ]
        return convert[0], convert[1], convert[2], lambda i: i

    def breaking_for(
        self,
        node: ast.For,
        target: ast.Name,
        lower: Value,
        upper: Value,
        step: Value,
        index: Callable[[Expr], Any],
    ) -> None:
        outer = self.locals.get(_INDEX, UNSET)
        self.locals[_INDEX] = Expr(lower)

        def body() -> None:
            at = self.locals[_INDEX]
            self.bind_target(target, index(at))
            self.block(node.body)
            self.locals[_INDEX] = at + Expr(step)

        names = [_INDEX, *(n for n in assigned_names(node.body) if n != target.id)]
        self.staged_while(node, names, lambda: self.locals[_INDEX] < Expr(upper), body, (target.id,))
        self.restore({_INDEX: outer})

    def staged_while(
        self,
        node: ast.For | ast.While,
        names: list[str],
        test: Callable[[], Any],
        body: Callable[[], None],
        local: tuple[str, ...] = (),
    ) -> None:
        """`while test(): body()`, with `names` assigned inside; BROKE is carried when there is a `break`."""
        what = f"the loop at line {node.lineno}"
        b = self.trace.b
        outer_broke = self.locals[BROKE]
        breaks = "break" in jumps(node.body)
        before = {n: self.locals.get(n, UNSET) for n in (*names, *local)}
        init = self.carried(names)
        if breaks:
            self.locals[BROKE] = False
            init |= self.carried([BROKE])
        place = node.test if isinstance(node, ast.While) else node.iter
        self.at(place)
        first = self.carried_block(init)
        with self.trace.within(first, what):
            flag = self.lazy(place, "and", ~self.locals[BROKE], test) if breaks else test()
            self.at(place)
            b.emit(control.Condition(truth(flag), first.args))
        second = self.carried_block(init)
        with self.trace.within(second, what):
            self.locals[BROKE] = False
            body()
            self.locals[SKIP] = False
            self.at(node)
            b.emit(control.Yield(tuple(self.final(node, init))))
        op = b.emit(control.While(tuple(init.values()), before=first, body=second))
        self.leave(node, [*(n for n in names if n not in init), *local], before, what)
        self.bind_results(init, before, dict(zip(init, op.results, strict=True)))
        self.locals[BROKE] = outer_broke

    def carried_block(self, init: dict[str, Value]) -> Block:
        block = Block()
        for name, value in init.items():
            self.locals[name] = Expr(block.add_arg(value.type, "" if name.startswith(".") else name))
        return block

    def parallel(self, node: ast.For, loop: ParallelLoop) -> None:
        """T.Parallel: one body for all indices. Directly nested ones are one."""
        what = f"the T.Parallel at line {node.lineno}"
        if self.trace.launch is None:
            raise self.fail(node.iter, "T.Parallel outside T.Kernel", "write it inside `with T.Kernel(…) as …:`")
        if self.trace.parallel:
            raise self.fail(
                node.iter, "T.Parallel inside T.Parallel", "give all extents to one: for i, j in T.Parallel(n, m)"
            )
        targets: list[ast.expr] = []
        extents: list[int] = []
        inner = node
        while True:
            elements = inner.target.elts if isinstance(inner.target, ast.Tuple) else [inner.target]
            if len(elements) != len(loop.extents) or not all(isinstance(t, ast.Name) for t in elements):
                raise self.fail(
                    inner.target, f"{len(elements)} indices for T.Parallel with {len(loop.extents)} extents"
                )
            targets += elements
            extents += loop.extents
            self.refuse_jumps(inner, "T.Parallel", ("return", "break", "continue"))
            only = inner.body[0]
            if len(inner.body) > 1 or not isinstance(only, ast.For) or not self.is_parallel(only.iter):
                break
            inner, loop = only, self.eval(only.iter)
        names = [t.id for t in targets if isinstance(t, ast.Name)] + assigned_names(inner.body)
        before = {n: self.locals.get(n, UNSET) for n in names}
        op = control.Parallel(extents=tuple(extents))
        for target in targets:
            self.bind_target(target, Expr(op.body.add_arg(I32)))
        self.trace.parallel += 1
        try:
            with self.trace.within(op.body, what) as block:
                self.block(inner.body)
                self.trace.b.emit(control.Yield(()))
            assert block.terminator is not None
        finally:
            self.trace.parallel -= 1
        self.at(node)
        self.trace.b.emit(op)
        for name in names:
            if self.locals.get(name, UNSET) is not before[name]:
                self.locals[name] = Poison(
                    f"is assigned inside {what}: each index has its own, so it has no value after it",
                    "write to a buffer; sums and extrema are T.reduce_*",
                )

    def is_parallel(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.eval(node.func) is loops.Parallel

    # The launch --------------------------------------------------------------------------------------------------

    def with_(self, node: ast.With) -> None:
        item = node.items[0]
        scope = self.eval(item.context_expr)
        if len(node.items) != 1 or not isinstance(scope, KernelScope):
            raise self.fail(node, "`with` has a meaning for T.Kernel only")
        trace = self.trace
        if trace.launch is not None:
            raise self.fail(item.context_expr, "T.Kernel inside T.Kernel")
        if trace.control:
            raise self.fail(item.context_expr, f"T.Kernel in {trace.control[-1].what}", "launch without a condition")
        if trace.launched:
            raise self.fail(item.context_expr, "a second T.Kernel", "a kernel has one launch: write two kernels")
        self.at(item.context_expr)
        grid = tuple(trace.b.cast(operand_value(g), i32) for g in scope.grid)
        launch = control.Launch(grid, scope.threads)
        indices = [Expr(launch.body.add_arg(I32, n)) for n in ("bx", "by", "bz")]
        trace.launch, trace.launched = launch, True
        with trace.b.inside(launch.body):
            self.bind_blocks(item, scope, indices)
            self.block(node.body)
            trace.b.emit(control.Yield(()))
        trace.launch = None
        self.at(item.context_expr)
        if "rasterise" in trace.attrs:
            rasterise(trace.b, launch, *trace.attrs.pop("rasterise"))
        trace.b.emit(launch)
        self.locals.update({SKIP: False, RETURNED: False, VALUE: UNSET})
        for name in assigned_names([node]):
            if isinstance(self.locals.get(name), (Expr, Poison)):
                self.locals[name] = Poison("belongs to the T.Kernel block and has no value after it")

    def bind_blocks(self, item: ast.withitem, scope: KernelScope, indices: list[Expr]) -> None:
        """`as bx`, `as (bx, by)`: as many block indices as the grid has dimensions."""
        target = item.optional_vars
        if target is None:
            return
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        for name, index in zip(names, indices, strict=False):
            if isinstance(name, ast.Name) and (len(names) > 1 or scope.rank == 1):
                index.value.name = name.id
        one = scope.rank == 1 and not isinstance(target, (ast.Tuple, ast.List))
        self.bind_target(target, indices[0] if one else tuple(indices[: scope.rank]))


_NAMES = {
    "serial": "Pipelined",
    "pipelined": "Pipelined",
    "unroll": "unroll",
    "vectorized": "vectorized",
    "persistent": "Persistent",
}


class _Merge:
    """What the names assigned in a branch are after it. `pairs` are the values that the two sides yield."""

    def __init__(self, interpreter: Interpreter, node: ast.stmt, condition: Value, blocks: tuple[Block, Block]) -> None:
        self.interpreter = interpreter
        self.node = node
        self.condition = condition
        self.blocks = blocks
        self.pairs: list[tuple[Value, Value]] = []

    def name(self, name: str, before: Any, a: Any, b: Any) -> Any:
        if a is b:
            return a
        if name == VALUE:
            return self.returned(a, b)
        if isinstance(a, Poison) or isinstance(b, Poison):
            line = self.node.lineno
            return Poison(
                f"is assigned on one side only of the `if` at line {line}", "assign it before, or on both sides"
            )
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            parts = before if isinstance(before, tuple) and len(before) == len(a) else (UNSET,) * len(a)
            return tuple(self.name(name, p, x, y) for p, x, y in zip(parts, a, b, strict=True))
        if is_scalar(a) and is_scalar(b):
            return self.scalar(name, before, a, b)
        place = self.interpreter.places.get(name, self.node)
        if before is not UNSET and not isinstance(before, Poison):
            self.interpreter.refuse_rebinding(place, name, before, f"the `if` at line {self.node.lineno}")
        return Poison("is a different Python object on each side of an `if` on a run-time value")

    def scalar(self, name: str, before: Any, a: Any, b: Any) -> Any:
        if is_number(a) and is_number(b) and type(a) is type(b) and a == b:
            return a
        if isinstance(a, bool) and isinstance(b, bool) and (before is UNSET or entry_dtype(before).kind == "bool"):
            return Expr(self.condition if a else self.interpreter.negated(self.condition))
        dtype = self.dtype(name, before, a, b)
        pair = []
        for value, block in ((a, self.blocks[0]), (b, self.blocks[1])):
            with self.interpreter.trace.b.inside(block):
                pair.append(coerce(value, dtype, f"the value of '{name}'"))
        if pair[0] is pair[1]:
            return Expr(pair[0])
        self.pairs.append((pair[0], pair[1]))
        return _Pending(len(self.pairs) - 1)

    def dtype(self, name: str, before: Any, a: Any, b: Any) -> Any:
        """The dtype on entry; for a name that was not there, the one that both sides agree on."""
        given = [x.dtype for x in (a, b) if isinstance(x, Expr)]
        if is_scalar(before):
            entry = entry_dtype(before)
            for d in given:
                if d is not entry:
                    raise self.mismatch(name, f"is {entry} before the `if`, and {d} is assigned to it in a branch")
            return entry
        if not given:
            return promote(entry_dtype(a), entry_dtype(b))
        if len(given) == 2 and given[0] is not given[1]:
            raise self.mismatch(name, f"is {given[0]} on one side of the `if` and {given[1]} on the other")
        return given[0]

    def mismatch(self, name: str, why: str) -> LanguageError:
        place = self.interpreter.places.get(name, self.node)
        loc = self.interpreter.scope.location(place)
        return TypeMismatchError(f"'{name}' {why}", loc, "a variable keeps its dtype: cast the value with T.cast")

    def returned(self, a: Any, b: Any) -> Any:
        """A function's return value; the side that has not returned yet yields any value of the other's dtype."""
        if isinstance(a, tuple) or isinstance(b, tuple):
            count = len(a) if isinstance(a, tuple) else len(b)
            left, right = (x if isinstance(x, tuple) else (UNSET,) * count for x in (a, b))
            if len(left) == len(right) and all(x is UNSET or isinstance(x, tuple) for x in (a, b)):
                return tuple(self.returned(x, y) for x, y in zip(left, right, strict=True))
        if a is UNSET or b is UNSET:
            set_one = b if a is UNSET else a
            if not is_scalar(set_one):
                return set_one
            zero = literal(0, entry_dtype(set_one))
            return self.scalar("the return value", UNSET, *(Expr(zero) if x is UNSET else x for x in (a, b)))
        if is_scalar(a) and is_scalar(b):
            return self.scalar("the return value", UNSET, a, b)
        if a is b:
            return a
        raise self.interpreter.fail(
            self.node, "a function returns different Python objects under a run-time condition", "return scalars"
        )


def _resolve(value: Any, results: list[Value]) -> Any:
    if isinstance(value, _Pending):
        return Expr(results[value.index])
    if isinstance(value, tuple):
        return tuple(_resolve(v, results) for v in value)
    return value


def drop_unchanged(body: Block, first: int, init: dict[str, Value], values: list[Value]) -> dict[str, Value]:
    """Removes carried arguments (from number `first` on) that a body hands on as they came; the others' final values."""
    args = body.args[first:]
    same = {a: init[n] for n, a, v in zip(init, args, values, strict=True) if v is a}
    if same:
        for op in body.walk():
            op.replace_operands(lambda v: same.get(v, v))
        body.args = tuple(a for a in body.args if a not in same)
        for i, a in enumerate(body.args):
            a.index = i
    return {n: same.get(v, v) for n, a, v in zip(init, args, values, strict=True) if a not in same}


Interpreter.executors = {
    **Statements.executors,
    ast.If: Interpreter.if_,
    ast.For: Interpreter.for_,
    ast.While: Interpreter.while_,
    ast.With: Interpreter.with_,
}
