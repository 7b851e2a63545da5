"""The interpreter's branches: both sides are traced, and what they assigned is merged.

A name that one side assigns becomes a result of the `if`, unless both sides agree on it; when both sides are a little
pure arithmetic there is no `if` but selects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import LanguageError, TypeMismatchError
from minitile.ir.ops import arith
from minitile.ir.types import DType
from minitile.language.memory import Memory
from minitile.language.scalars import Expr, coerce, entry_dtype, is_number, is_scalar, literal, promote, truth
from minitile.language.tracing.expressions import GROUP, Poison
from minitile.language.tracing.source import assigned_names, jumps
from minitile.language.tracing.statements import BROKE, FLAGS, RETURNED, SKIP, UNSET, VALUE, Statements

MORE = ".more"  # whether none of the conditions of a chain of `elif` held yet


@dataclass(frozen=True)
class _Pending:
    """A name's value after a branch: result number `index` of the `if`."""

    index: int


class _Later(Poison):
    """What a name that had no value has where a chain of `elif` goes on in another branch: any value will do."""


class Branches(Statements):
    def if_(self, node: ast.If) -> None:
        """`if` with its `elif`s, which are an `if` in each `else`: traced so up to GROUP deep, and then behind each
        other, under a condition that says whether one of the conditions held:

            if a: A                         more = False
            elif b: B                       if a: A
            elif c: C            becomes    elif b: B
            else: D                         else: more = True
                                            if more:  if c: C
                                                      else: D
        """
        outer = self.locals.get(MORE, UNSET)
        self.locals[MORE] = False
        before = {n: self.locals.get(n, UNSET) for n in assigned_names([node])}
        without = {n: value for n, value in before.items() if isinstance(value, Poison)}
        rest = self.group(node, 0)
        while rest is not None:
            rest = self.grouped(rest, without)
        self.restore({MORE: outer})

    def grouped(self, node: ast.If, without: dict[str, Any]) -> ast.If | None:
        """The group that begins with `node`, where none of the conditions before it held. `without`: the names that
        had no value before the chain."""
        found: list[ast.If | None] = []
        jumped = bool(jumps([node]))

        def reached() -> None:
            self.locals[MORE] = False
            if jumped:
                self.locals.update({SKIP: False, BROKE: False, RETURNED: False})
            self.restore(without)
            found.append(self.group(node, 0))

        def held_before() -> None:
            self.locals[MORE] = False

        more = self.locals[MORE]
        if more is True:
            reached()
        elif more is not False:
            names = [*assigned_names([node]), MORE, *(FLAGS if jumped else ())]
            self.branch(node, truth(more), reached, held_before, names)
        return found[0] if found else None

    def group(self, node: ast.If, depth: int) -> ast.If | None:
        """An `if` and what is below it in the chain, down to GROUP; the one that is left for the next group."""
        while True:
            test = self.eval(node.test)
            known = constant_of(test.value) if isinstance(test, Expr) else None
            if isinstance(test, Expr) and known is None:
                return self.one_if(node, test, depth)
            if self.perform(node.test, bool, test if known is None else known):
                self.block(node.body)
                return None
            below = _elif(node)
            if below is None:
                self.block(node.orelse)
                return None
            self.begin(below)
            node = below

    def one_if(self, node: ast.If, test: Expr, depth: int) -> ast.If | None:
        """One on a run-time condition."""
        self.at(node.test)
        condition = truth(test)
        jumped = jumps((*node.body, *node.orelse))
        if "return" in jumped and self.scope.caller is None:
            self.trace.returns.append((condition, self.trace.b.loc))
        names = assigned_names((*node.body, *node.orelse)) + (list(FLAGS) if jumped else [])
        below = _elif(node)
        left: list[ast.If] = []

        def otherwise() -> None:
            if below is None:
                self.block(node.orelse)
                return
            if depth + 1 < GROUP:
                self.begin(below)
                rest = self.group(below, depth + 1)
                left.extend([] if rest is None else [rest])
                return
            left.append(below)
            self.locals[MORE] = True
            for name in assigned_names([below]):
                if isinstance(self.locals.get(name, UNSET), Poison):
                    self.locals[name] = _Later("has no value")

        self.branch(
            node, condition, lambda: self.block(node.body), otherwise, names if below is None else [*names, MORE]
        )
        return left[0] if left else None

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

    def refuse_rebinding(self, place: ast.AST, name: str, old: Any, what: str) -> None:
        kind = old.describe() if isinstance(old, Memory) else f"a Python {type(old).__name__}"
        raise self.fail(
            place,
            f"'{name}' is {kind} and is assigned anew in {what}: it is traced once, so which one is meant would depend "
            "on run-time values",
            "only scalars change at run time; use another name, or copy the contents",
        )


class _Merge:
    """What the names assigned in a branch are after it. `pairs` are the values that the two sides yield."""

    def __init__(self, interpreter: Branches, node: ast.stmt, condition: Value, blocks: tuple[Block, Block]) -> None:
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
        if isinstance(a, _Later) or isinstance(b, _Later):
            return self.later(name, a, b)
        if isinstance(a, Poison) or isinstance(b, Poison):
            return self.one_sided()
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            parts = before if isinstance(before, tuple) and len(before) == len(a) else (UNSET,) * len(a)
            return tuple(self.name(name, p, x, y) for p, x, y in zip(parts, a, b, strict=True))
        if is_scalar(a) and is_scalar(b):
            return self.scalar(name, before, a, b)
        place = self.interpreter.places.get(name, self.node)
        if before is not UNSET and not isinstance(before, Poison):
            self.interpreter.refuse_rebinding(place, name, before, f"the `if` at line {self.node.lineno}")
        return Poison("is a different Python object on each side of an `if` on a run-time value")

    def later(self, name: str, a: Any, b: Any) -> Any:
        """One side goes on in another branch, which gives the name a value."""
        value = b if isinstance(a, _Later) else a
        if isinstance(value, tuple):
            return tuple(self.later(name, *((a, v) if value is b else (v, b))) for v in value)
        if not is_scalar(value):
            return value if isinstance(value, Poison) and value is not UNSET else self.one_sided()
        any_value = Expr(literal(0, entry_dtype(value)))
        return self.scalar(name, UNSET, *((any_value, value) if value is b else (value, any_value)))

    def one_sided(self) -> Poison:
        return Poison(
            f"is assigned on one side only of the `if` at line {self.node.lineno}",
            "assign it before, or on both sides",
        )

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

    def dtype(self, name: str, before: Any, a: Any, b: Any) -> DType:
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


def _elif(node: ast.If) -> ast.If | None:
    """The `elif` of an `if`; an `if` that is all that stands behind `else:` is the same."""
    only = node.orelse[0] if len(node.orelse) == 1 else None
    return only if isinstance(only, ast.If) else None


def _resolve(value: Any, results: list[Value]) -> Any:
    if isinstance(value, _Pending):
        return Expr(results[value.index])
    if isinstance(value, tuple):
        return tuple(_resolve(v, results) for v in value)
    return value
