"""The interpreter's loops and the launch.

What is known at trace time stays Python; what is not becomes `for` and `while` with results:

* a loop carries every name that its body assigns and that is a scalar before it, with the dtype it has on entry;
* other names assigned inside have no value afterwards (`Poison` says why when they are used);
* a `for` that is left by `break` is traced as a `while`;
* a `while` whose condition is known runs at trace time for as long as it is: where then the condition or a `break`
  depends on the run, the rest is a `while` behind these rounds.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import MinitileError, TypeMismatchError, shown
from minitile.ir.ops import control, explicit, tile
from minitile.ir.types import I32, i32
from minitile.language.annotations import hint_evictions
from minitile.language.block_swizzle import rasterise
from minitile.language.explicit import RoleScope
from minitile.language.fences import DisjointScope, HintScope
from minitile.language.persistent import make_persistent
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
from minitile.language.tiles import tile_scope
from minitile.language.tracing import loops
from minitile.language.tracing.branches import Branches
from minitile.language.tracing.expressions import Poison
from minitile.language.tracing.loops import KernelScope, Loop, ParallelLoop
from minitile.language.tracing.schedule import marking
from minitile.language.tracing.source import assigned_names, break_in, jumps
from minitile.language.tracing.statements import BROKE, RETURNED, SKIP, UNSET, VALUE, Statements

ITERATION_LIMIT = 100_000
AT_RUN_TIME = "its body is traced once for each of them; write a loop at run time, for i in T.serial(n)"
OWN_INDEX = "use a thread's own index instead of T.Parallel: i = bx * 64 + T.get_thread_binding()"
_INDEX = ".index"  # the running index of a `for` that is traced as a `while`


class Interpreter(Branches):
    """All of the language: expressions, statements, branches, and here loops and the launch."""

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
                with self.trace.one_statement():
                    self.unrolled(node, known)
            elif self.trace.launch is None:
                raise self.fail(
                    node.iter, "a loop with run-time bounds outside T.Kernel", "only the grid is computed there"
                )
            else:
                self.staged_for(node, items)
        else:
            if isinstance(items, Expr):
                raise self.fail(node.iter, f"a loop over {shown(items)}", "count with T.serial(n) or range(n)")
            self.unrolled(node, self.perform(node.iter, iter, items))

    def loop_of(self, node: ast.expr) -> Any:
        """What a `for` runs over; Python's range counts as T.serial inside a launch."""
        match node:
            case ast.Call(func=ast.Name() as function, args=args, keywords=[]) if self.trace.launch is not None:
                if self.eval(function) is range:
                    return self.perform(node, loops.range_loop, *self.items(args))
        return self.eval(node)

    def unrolled(self, node: ast.For | ast.While, items: Iterable[Any]) -> Any:
        """A loop that Python runs, at trace time. Where a `while` in the launch comes to a `break` under a run-time
        condition, that is what it gives: whether the loop has been left; else False."""
        outer_broke = self.locals[BROKE]
        outer_returned = self.locals[RETURNED]
        self.locals[BROKE] = False
        for count, item in enumerate(items):
            if count >= ITERATION_LIMIT:
                what = f"a loop at compile time with more than {ITERATION_LIMIT} iterations"
                raise self.fail(node, what, AT_RUN_TIME)
            self.count_round(node)
            if isinstance(node, ast.For):
                self.bind_target(node.target, item)
            self.block(node.body)
            broke, returned = self.locals[BROKE], self.locals[RETURNED]
            left = isinstance(returned, Expr) and returned is not outer_returned
            if isinstance(broke, Expr) and isinstance(node, ast.While) and not left and self.trace.launch is not None:
                self.locals.update({SKIP: False, BROKE: outer_broke})
                return broke
            if isinstance(broke, Expr) or left:
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
        return False

    def count_round(self, node: ast.AST) -> None:
        wrong = self.trace.count_round()
        if wrong:
            raise self.fail(node, wrong, AT_RUN_TIME)

    def while_(self, node: ast.While) -> None:
        forever = isinstance(node.test, ast.Constant) and node.test.value and "break" in jumps(node.body)
        broke: Any = False
        if not (forever and self.trace.launch is not None):
            with self.trace.b.inside(Block()):
                test = self.eval(node.test)
            if not isinstance(test, Expr) or constant_of(test.value) is not None:
                before, unknown = dict(self.locals), list[ast.expr]()
                broke = self.unrolled(node, self.while_true(node, unknown))
                if not unknown and broke is False:
                    return
                # Buffers that a round makes are its own: so are those of the rounds that follow.
                for name in assigned_names(node.body):
                    if name not in before and not is_scalar(self.locals.get(name)):
                        self.locals.pop(name, None)
        self.check_while(node)
        body = partial(self.block, node.body)
        self.staged_while(node, assigned_names(node.body), lambda: self.eval(node.test), body, broke=broke)

    def check_while(self, node: ast.While) -> None:
        """Raises LanguageError for what a `while` on run-time values cannot have."""
        self.refuse_jumps(node, "a `while` on run-time values", ("return",))
        if assigned_names([node.test]):
            raise self.fail(node.test, "`:=` in the condition of a `while` on run-time values", "assign in the body")

    def while_true(self, node: ast.While, unknown: list[ast.expr]) -> Iterable[None]:
        """One item for each time that the compile-time condition holds; `unknown` gets one that is for run time."""
        while True:
            with self.trace.b.inside(Block()) as aside:
                test = self.eval(node.test)
            known = constant_of(test.value) if isinstance(test, Expr) else test
            if isinstance(test, Expr) and known is None:
                if self.trace.launch is None:
                    raise self.fail(node.test, "a `while` on run-time values outside T.Kernel", AT_RUN_TIME)
                self.check_while(node)
                unknown.append(node.test)
                return
            self.trace.b.block.ops += aside.ops
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

    def forget(self, init: dict[str, Value], blocks: list[tuple[Block, int]]) -> None:
        """Names that are no scalars at the body's end, and whose values from before it does not read, are the body's
        own: they are not carried."""
        for name in [n for n in init if not is_scalar(self.locals.get(n))]:
            args = [block.args[first + [*init].index(name)] for block, first in blocks]
            if any(arg in op.operands for (block, _), arg in zip(blocks, args, strict=True) for op in block.walk()):
                continue
            for (block, _), arg in zip(blocks, args, strict=True):
                block.args = tuple(a for a in block.args if a is not arg)
                for number, each in enumerate(block.args):
                    each.index = number
            del init[name]

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

    def staged_for(self, node: ast.For, loop: Loop[Any]) -> None:
        if loop.place is None and not isinstance(node.target, ast.Name):
            raise self.fail(node.target, "a loop of the language has one index")
        own = assigned_names([ast.Assign(targets=[node.target], value=node.iter)])
        what = f"the loop at line {node.lineno}"
        if loop.kind == "serial" and loop.schedule is None and loop.place is None:
            self.refuse_jumps(node, "a loop on run-time values", ("return",))
        else:
            name = _NAMES[loop.kind if loop.place is None else "persistent"]
            # What follows a `continue` is guarded, as if by an `if`; a schedule counts statements as they are written.
            skips = () if loop.schedule is None else ("continue",)
            self.refuse_jumps(node, f"T.{name}", ("return", "break"))
            self.refuse_jumps(node, f"T.{name} with a schedule", skips)
        self.at(node.iter)
        lower, upper, step, index = self.bounds(loop)
        if "break" in jumps(node.body) and isinstance(node.target, ast.Name):
            self.breaking_for(node, node.target, lower, upper, step, index)
            return
        b = self.trace.b
        names = [n for n in assigned_names(node.body) if n not in own]
        before = {n: self.locals.get(n, UNSET) for n in names}
        init = self.carried(names)
        body = Block()
        iv = body.add_arg(lower.type, node.target.id if isinstance(node.target, ast.Name) else "tile")
        for name, value in init.items():
            self.locals[name] = Expr(body.add_arg(value.type, name))
        with self.trace.within(body, what), marking(self.trace, body, self, loop.schedule) as marks:
            at = index(Expr(iv))
            self.bind_target(node.target, at if loop.place is None else loop.place(at))
            self.block(node.body)
            self.locals[SKIP] = False
            self.at(node)
            self.forget(init, [(body, 1)])
            values = self.final(node, init)
            if marks is not None and loop.schedule is not None:
                marks.finish(loop.schedule, self.scope.location(node.iter))
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
            order=None if loop.schedule is None else loop.schedule.order,
            stage_of=None if loop.schedule is None else loop.schedule.stage,
            teams=loop.teams,
            apart=loop.dynamic,
            dynamic=loop.dynamic,
            body=body,
        )
        b.emit(op)
        self.leave(node, [*(n for n in names if n not in init), *own], before, what)
        self.bind_results(init, before, dict(zip(changed, op.results, strict=True)))

    def bind_results(self, init: dict[str, Value], before: dict[str, Any], results: dict[str, Value]) -> None:
        """After a loop: the carried names; those that it did not change have their old values."""
        for name in init:
            if name in results:
                results[name].name = "" if name.startswith(".") else name
                self.locals[name] = Expr(results[name])
            else:
                self.locals[name] = before[name]

    def bounds(self, loop: Loop[Any]) -> tuple[Value, Value, Value, Callable[[Expr], Any]]:
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
        broke: Any = False,
    ) -> None:
        """`while test(): body()`, with `names` assigned inside; BROKE is carried when there is a `break`. `broke`:
        whether the loop has been left already."""
        if self.trace.parallel:
            jump = break_in(node.body) if isinstance(node, ast.For) else None
            raise self.fail(jump or node, f"`{'break' if jump else 'while'}` inside T.Parallel", OWN_INDEX)
        what = f"the loop at line {node.lineno}"
        b = self.trace.b
        outer_broke = self.locals[BROKE]
        breaks = "break" in jumps(node.body)
        before = {n: self.locals.get(n, UNSET) for n in (*names, *local)}
        init = self.carried(names)
        if breaks:
            self.locals[BROKE] = broke
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

    def parallel(self, node: ast.For, loop: ParallelLoop[Any]) -> None:
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
        called = self.eval(node.func) if isinstance(node, ast.Call) else None
        return getattr(called, "__wrapped__", called) is loops.Parallel

    # The launch --------------------------------------------------------------------------------------------------

    def with_(self, node: ast.With) -> None:
        item, *rest = node.items
        if rest:  # `with a, b:` is `with a:` with a `with b:` in it
            inner = ast.copy_location(ast.With(rest, node.body), node)
            self.with_(ast.copy_location(ast.With([item], [inner]), node))
            return
        scope = self.eval(item.context_expr)
        trace = self.trace
        if isinstance(scope, HintScope | DisjointScope):
            self.at(item.context_expr)
            with scope.traced(tile_scope("this `with`")):
                self.block(node.body)
            return
        if isinstance(scope, RoleScope):
            self.at(item.context_expr)
            self.role(node, scope)
            return
        if not isinstance(scope, KernelScope):
            raise self.fail(node, "`with` has a meaning for T.Kernel, T.ws, T.proxy_hint and T.assume_disjoint only")
        if trace.launch is not None:
            raise self.fail(item.context_expr, "T.Kernel inside T.Kernel")
        if trace.control:
            raise self.fail(item.context_expr, f"T.Kernel in {trace.control[-1].what}", "launch without a condition")
        if trace.launched and trace.only is None:
            raise self.fail(item.context_expr, "a second T.Kernel", "a kernel has one launch: write two kernels")
        number, trace.launches = trace.launches, trace.launches + 1
        if trace.only not in (None, number):
            for name in assigned_names([node]):
                self.locals[name] = Poison("belongs to another T.Kernel block")
            return
        self.at(item.context_expr)
        grid = tuple(trace.b.cast(operand_value(g), i32) for g in scope.grid)
        launch = control.Launch(grid, scope.threads, cluster=scope.cluster)
        indices = [Expr(launch.body.add_arg(I32, n)) for n in ("bx", "by", "bz")]
        trace.launch, trace.launched, trace.block = launch, True, scope.block
        with trace.b.inside(launch.body):
            self.bind_blocks(item, scope, indices)
            self.block(node.body)
            trace.b.emit(control.Yield(()))
        trace.launch = None
        hint_evictions(launch, trace.evictions)
        self.at(item.context_expr)
        order, panel, xcds = trace.attrs.pop("rasterise", ("", 0, 1))
        if order:
            rasterise(trace.b, launch, order, panel, 1 if scope.persistent else xcds)
        if scope.persistent:
            make_persistent(trace.b, launch, scope.persistent, xcds, scope.dynamic)
        trace.b.emit(launch)
        self.locals.update({SKIP: False, RETURNED: False, VALUE: UNSET})
        for name in assigned_names([node]):
            if isinstance(self.locals.get(name), (Expr, Poison)):
                self.locals[name] = Poison("belongs to the T.Kernel block and has no value after it")

    def role(self, node: ast.With, scope: RoleScope) -> None:
        """`with T.ws(…)`: a branch that the warpgroups of the role take. Scalars are merged as behind an `if`; other
        names (buffers, Python objects) are known at trace time, so that they keep what they were given."""
        jumped = jumps(node.body)
        if jumped:
            raise self.fail(node, f"`{min(jumped)}` in {scope.name}", "the other warpgroups would not come along")
        around = self.trace.b.block
        inside = self.trace.b.value(explicit.InGroups(scope.first, scope.count))
        names = assigned_names(node.body)
        kept: dict[str, Any] = {}

        def body() -> None:
            self.block(node.body)
            allocated_outside(around, self.trace.b.block)
            kept.update({n: v for n in names if not is_scalar(v := self.locals.get(n, UNSET)) and v is not UNSET})
            names[:] = [n for n in names if n not in kept]

        self.branch(node, inside, body, lambda: None, names)
        self.locals.update(kept)

    def bind_blocks(self, item: ast.withitem, scope: KernelScope[Any], indices: list[Expr]) -> None:
        """`as bx`, `as (bx, by)`: as many block indices as the grid has dimensions."""
        target = item.optional_vars
        if target is None:
            return
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        for name, index in zip(names, indices, strict=False):
            if isinstance(name, ast.Name) and (len(names) > 1 or scope.rank == 1):
                index.value.name = name.id
        one = scope.rank == 1 and not isinstance(target, (ast.Tuple, ast.List))
        starred = any(isinstance(name, ast.Starred) for name in names)
        if not one and isinstance(target, (ast.Tuple, ast.List)) and len(names) != scope.rank and not starred:
            raise self.fail(target, f"{len(names)} names for the indices of a block in a grid of rank {scope.rank}")
        self.bind_target(target, indices[0] if one else tuple(indices[: scope.rank]))


_NAMES = {
    "serial": "Pipelined",
    "pipelined": "Pipelined",
    "unroll": "unroll",
    "vectorized": "vectorized",
    "persistent": "Persistent",
}


def allocated_outside(around: Block, block: Block) -> None:
    """Moves what a role's block allocates in front of it: the names of it are known to all, behind the role, too."""
    around.ops += [op for op in block.ops if isinstance(op, (tile.Alloc, explicit.Barriers))]
    block.ops = [op for op in block.ops if not isinstance(op, (tile.Alloc, explicit.Barriers))]


def drop_unchanged(body: Block, first: int, init: dict[str, Value], values: list[Value]) -> dict[str, Value]:
    """Removes carried arguments (from number `first` on) that a body hands on as they came; the others' end values."""
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
