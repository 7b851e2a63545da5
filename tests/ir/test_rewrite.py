"""Cloning, rewriting, deleting: the IR before and after, as text."""

from __future__ import annotations

import textwrap

import pytest

from minitile.ir.builder import constant_of
from minitile.ir.core import Kernel, Op, Value
from minitile.ir.ops import arith, control
from minitile.ir.parser import parse_kernel
from minitile.ir.rewrite import (
    ERASE,
    Rewriter,
    clone,
    clone_block,
    erase_unused,
    free_values,
    remake,
)
from minitile.ir.types import I32, I64, TileType, f32
from minitile.ir.verifier import verify
from minitile.layout import blocked

NESTED = """\
tile kernel @k(%n: i32, %x: f32) {
  %a = add %n, 1 : i32
  %sum = for 0, %a, 1, [%x] : f32 (%i: i32, %c: f32) {
    %p = cmp %i, %a {predicate = "lt"} : bool
    %r = if %p then {
      %u = mul %c, %x : f32
      yield %u
    } orelse {
      yield %c
    }
    yield %r
  }
  %b = mul %sum, %x : f32
}
"""


def parse(text: str) -> Kernel:
    return parse_kernel(textwrap.dedent(text))


def values(kernel: Kernel) -> dict[str, Value]:
    found = {v.name: v for v in kernel.params}
    for op in kernel.walk():
        found.update({r.name: r for r in op.results})
        found.update({a.name: a for block in op.regions for a in block.args})
    return found


def test_clone_copies_everything() -> None:
    kernel = parse_kernel(NESTED)
    copy = Kernel(kernel.name, kernel.params, {}, clone_block(kernel.body, {}))
    assert str(copy) == str(kernel) == NESTED.replace("%r = if %p then", "%r = if %p : f32 then")
    verify(copy)
    originals = {id(x) for op in kernel.walk() for x in (op, *op.results, *op.regions)}
    assert not any(id(x) in originals for op in copy.walk() for x in (op, *op.results, *op.regions))
    assert [op.loc for op in copy.walk()] == [op.loc for op in kernel.walk()]


def test_clone_replaces_what_the_map_says() -> None:
    kernel = parse_kernel(NESTED)
    loop = next(op for op in kernel.body.ops if isinstance(op, control.For))
    other = Value(I32, name="other")
    map = {loop.upper: other}
    copy = clone(loop, map)
    assert isinstance(copy, control.For)
    assert copy.upper is other
    assert copy.init == loop.init
    assert other in copy.body.ops[0].operands  # inside too
    assert map[loop.result] is copy.result
    assert map[loop.iv] is copy.iv
    assert loop.upper is values(kernel)["a"]


def test_clone_keeps_layouts_and_names() -> None:
    laid_out = TileType((64,), f32, blocked((64,), 32))
    op = arith.Neg(Value(TileType((64,), f32)))
    op.set_results((laid_out,), ("y",))
    copy = clone(op, {})
    assert copy.result.type == laid_out
    assert copy.result.name == "y"


def test_remake_infers_anew() -> None:
    n, wide = Value(I32), Value(I64)
    op = arith.Add(n, n)
    assert remake(op, lambda _: wide).result.type == I64
    assert op.result.type == I32


def test_erase_unused() -> None:
    kernel = parse(
        """
        tile kernel @k(%A: tensor<4xf32>, %n: i32) {
          %dead = add %n, 1
          %dead2 = mul %dead, 2
          %live = add %n, 3
          for 0, %live, 1 (%i: i32) {
            %inner_dead = mul %i, 4
            %outer_live = add %i, %n
            %v = load %A[%outer_live] {shape = (), dims = (none,)}
          }
          %after = neg %n
        }
        """
    )
    erase_unused(kernel)
    verify(kernel)
    assert sorted(n for n in values(kernel) if n) == ["A", "i", "live", "n", "outer_live", "v"]
    assert sorted(c for op in kernel.walk() for c in [getattr(op, "value", None)] if c is not None) == [0, 1, 3]


def test_erase_unused_keeps_effects() -> None:
    text = """\
tile kernel @k(%A: tensor<4xf32>, %x: f32) {
  store %A[0], %x {dims = (none,)}
  sync_threads
}
"""
    kernel = parse_kernel(text)
    erase_unused(kernel)
    assert str(kernel) == text


def test_free_values() -> None:
    kernel = parse_kernel(NESTED)
    named = values(kernel)
    loop = next(op for op in kernel.body.ops if isinstance(op, control.For))
    assert free_values(loop.body) == [named["a"], named["x"]]
    assert {v.name for v in free_values(kernel.body)} == {"n", "x"}


class ShiftsForMuls(Rewriter):
    """x * 2 becomes x << 1, abs goes away with its uses of nothing, the rest stays."""

    def visit(self, op: Op) -> Value | tuple[Value, ...] | None:
        if isinstance(op, arith.Mul) and constant_of(op.b) == 2:
            return self.b.value(arith.Shl(op.a, self.b.constant(1)))
        if isinstance(op, arith.Assume):
            return ERASE
        return None


def test_rewriter() -> None:
    kernel = parse(
        """
        tile kernel @k(%n: i32) {
          %a = mul %n, 2
          assume true
          for 0, %a, 1 (%i: i32) {
            %b = mul %i, 2
            %c = mul %b, %a
          }
        }
        """
    )
    ShiftsForMuls().run(kernel)
    verify(kernel)
    assert str(kernel) == textwrap.dedent(
        """\
        tile kernel @k(%n: i32) {
          %a = shl %n, 1 : i32
          for 0, %a, 1 (%i: i32) {
            %b = shl %i, 1 : i32
            %c = mul %b, %a : i32
          }
        }
        """
    )
    new = values(kernel)["b"].op
    assert new is not None
    assert new.loc is not None
    assert new.loc.line == 6  # a new operation has the place of the one it replaces


def test_rewriter_must_be_told_what_to_do() -> None:
    with pytest.raises(NotImplementedError):
        Rewriter().run(parse("tile kernel @k() {\n  sync_threads\n}"))
