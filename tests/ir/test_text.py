"""Printing and parsing are inverse, on kernels made at random from every operation there is."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import IRError, Location
from minitile.ir.ops import arith
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_attribute, print_kernel, print_op
from minitile.ir.type_parser import parse_type
from minitile.ir.types import (
    BOOL,
    COUNTERS,
    DTYPES,
    F32,
    I32,
    I64,
    BufferType,
    FutureType,
    PipelineType,
    RegsType,
    ScalarType,
    SlotType,
    TensorType,
    TileType,
    TokenType,
    Type,
    f32,
    i32,
    i64,
)
from minitile.layout import blocked
from minitile.layout.shared import SharedLayout

LAYOUT = blocked((8, 16), 128)
SHARED_LAYOUT = SharedLayout.parse("shared<64x64xb16; 64:1024; 64:16; swizzle 128>")

dtypes = st.sampled_from(list(DTYPES.values()))
sizes = st.integers(1, 64)
names = st.one_of(st.sampled_from(["", "x", "x_1", "acc", "As", "12", "né", "a b", "%", "for"]), st.text(max_size=3))
small_ints = st.integers(-3, 200)
texts = st.text(max_size=5) | st.sampled_from(['"', "\\", "a\nb", "// no", "; no", "}", "sum", "%d\n"])
floats = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([-0.0, 1e22, 5e-324])
buffers = st.builds(
    BufferType,
    st.sampled_from(["shared", "local", "fragment"]),
    st.lists(sizes, max_size=3).map(tuple),
    dtypes,
    st.integers(1, 5),
)
pipelines = st.builds(
    PipelineType, st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["A", "B"]), buffers), max_size=2).map(tuple)
)
tiles = st.one_of(
    st.builds(TileType, st.lists(sizes, min_size=1, max_size=3).map(tuple), dtypes),
    st.builds(TileType, st.just((8, 16)), dtypes, st.just(LAYOUT)),
)
dims = st.lists(sizes | st.sampled_from(["M", "K", "max", "x"]), max_size=3).map(tuple)
types: st.SearchStrategy[Type] = st.one_of(
    st.builds(ScalarType, dtypes),
    tiles,
    st.builds(RegsType, sizes, dtypes),
    st.builds(TensorType, dims, dtypes),
    buffers,
    st.builds(TokenType, st.sampled_from(COUNTERS)),
    st.builds(FutureType, tiles),
    pipelines,
    st.builds(SlotType, pipelines),
)
anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), small_ints, floats, texts, dtypes, st.sampled_from([LAYOUT, SHARED_LAYOUT]), buffers
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
runs = st.builds(
    lambda start, step, count: tuple(start + step * i for i in range(count)),
    st.integers(24, 40),
    st.integers(-3, 3),
    st.integers(0, 9),
)


def join(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(itertools.chain(*parts))


# Strategies by the annotation of an attribute; those not listed take anything.
BY_ANNOTATION: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(0, 3),
    "int | None": st.none() | small_ints,
    "str": texts,
    "bool": st.booleans(),
    "float": st.floats(0, 1),
    "DType": dtypes,
    "BufferType": buffers,
    "tuple[int, ...]": st.lists(st.integers(0, 3), max_size=4).map(tuple) | st.lists(runs, max_size=4).map(join),
    "tuple[int, ...] | None": st.none() | st.lists(st.integers(0, 3), max_size=4).map(tuple),
    "Dims": st.lists(st.none() | st.integers(0, 3), max_size=3).map(tuple),
    "tuple[int, int]": st.tuples(small_ints, small_ints),
    "tuple[int, int] | None": st.none() | st.tuples(small_ints, small_ints),
    "tuple[int, int, int]": st.tuples(small_ints, small_ints, small_ints),
    "tuple[str, str]": st.tuples(texts, texts),
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
    "tuple[DType, ...]": st.lists(dtypes, max_size=3).map(tuple),
    "tuple[DType, DType]": st.tuples(dtypes, dtypes),
    "tuple[tuple[int, int | None], tuple[int, int | None]]": st.tuples(
        *[st.tuples(small_ints, st.none() | small_ints)] * 2
    ),
    "Span": st.none() | st.tuples(small_ints, small_ints),
}
# What becomes part of a type, or of the spelling of an operand, cannot be just anything.
BY_NAME = {
    ("convert_layout", "layout"): st.just(LAYOUT),
    ("no_token", "counter"): st.sampled_from(COUNTERS),
    ("constant", "value"): st.booleans() | st.integers(-9, 1 << 63) | floats,
}


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    params = tuple(Value(t, name=draw(names)) for t in [F32, I32, I64, BOOL, *draw(st.lists(types, max_size=12))])
    dims = {name: Value(I32, name=name) for name in draw(st.sets(st.sampled_from(["M", "N", "K"])))}
    stage = draw(st.sampled_from(["traced", "tile", "thread"]))
    attrs = draw(st.dictionaries(st.sampled_from(["threads", "shared_bytes", "note"]), anything, max_size=3))
    facts = dict.fromkeys(dims, 16)
    kernel = Kernel("k", params, dims, Block(), facts, stage, attrs)
    fill(draw, kernel.body, [*params, *dims.values()], depth=2)
    return kernel


def fill(draw: st.DrawFn, block: Block, visible: list[Value], depth: int) -> None:
    """Random operations on visible values into a block."""
    visible = [*visible, *block.args]
    for _ in range(draw(st.integers(6, 20) if depth == 2 else st.integers(0, 3))):
        kind = draw(st.sampled_from(sorted(Op.registry)).map(Op.registry.__getitem__))
        if kind.region_fields and depth == 0:
            continue
        op = draw_op(draw, kind, block, visible, depth)
        if op is not None:
            visible.extend(op.results)


def draw_op(draw: st.DrawFn, kind: type[Op], block: Block, visible: list[Value], depth: int) -> Op | None:
    def value() -> Value:
        if draw(st.integers(0, 3)):
            return draw(st.sampled_from(visible))
        return draw_constant(draw, block)

    fields: dict[str, Any] = {}
    for name, mark in kind.operand_fields:
        if mark == "operands":
            fields[name] = tuple(value() for _ in range(draw(st.integers(0, 3))))
        elif mark == "operand" or draw(st.booleans()):
            fields[name] = value()
    annotations = {n: a for c in kind.__mro__ for n, a in inspect.get_annotations(c).items()}
    for name, _ in kind.attr_fields:
        general = BY_ANNOTATION.get(annotations[name], anything)
        fields[name] = draw(BY_NAME.get((kind.mnemonic, name), general))
    for name in kind.region_fields:
        fields[name] = Block(tuple(Value(t, name=draw(names)) for t in draw(st.lists(types, max_size=2))))
        fill(draw, fields[name], visible, depth - 1)
    try:
        op = kind(**fields)
        str([r.type for r in op.results])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None  # types that do not suit the operation
    if any(isinstance(r.type, TileType) and not all(isinstance(n, int) for n in r.type.shape) for r in op.results):
        return None  # a tile made of a tensor, whose sizes have names
    for result in op.results:
        result.name = draw(names)
    if draw(st.booleans()):
        op.loc = Location(draw(st.sampled_from(["a.py", 'with "quotes".py'])), draw(st.integers(1, 99)), 3)
    block.ops.append(op)
    return op


def draw_constant(draw: st.DrawFn, block: Block) -> Value:
    op = arith.Constant(draw(BY_NAME["constant", "value"]), draw(dtypes))
    block.ops.append(op)
    return op.result


def assert_same(a: Block, b: Block, same: dict[Value, Value]) -> None:
    """The same operations on the same values; constants are compared where they are used."""
    assert [x.type for x in a.args] == [y.type for y in b.args]
    same.update(zip(a.args, b.args, strict=True))
    left, right = ([op for op in block.ops if not isinstance(op, arith.Constant)] for block in (a, b))
    assert [op.mnemonic for op in left] == [op.mnemonic for op in right]
    for x, y in zip(left, right, strict=True):
        for name, mark in x.operand_fields:
            values = [[v] if isinstance(v, Value) else v or [] for v in (getattr(x, name), getattr(y, name))]
            assert len(values[0]) == len(values[1]), (x.mnemonic, name, mark)
            for v, w in zip(*values, strict=True):
                assert_same_value(v, w, same)
        assert all(equal(v, y.attributes()[name]) for name, v in x.attributes().items())
        for inner, other in zip(x.regions, y.regions, strict=True):
            assert_same(inner, other, same)
        assert [r.type for r in x.results] == [r.type for r in y.results]
        same.update(zip(x.results, y.results, strict=True))


def assert_same_value(v: Value, w: Value, same: dict[Value, Value]) -> None:
    if isinstance(v.op, arith.Constant):
        assert isinstance(w.op, arith.Constant)
        assert v.op.dtype is w.op.dtype
        assert equal(v.op.value, w.op.value)
    else:
        assert same[v] is w


def equal(a: Any, b: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, 0.0 from -0.0, and finds NaN equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)


@settings(max_examples=100, deadline=None)
@given(kernels())
def test_round_trip(kernel: Kernel) -> None:
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert print_kernel(again) == text
    assert (again.name, again.stage, again.facts) == (kernel.name, kernel.stage, kernel.facts)
    assert equal(tuple(again.attrs.items()), tuple(kernel.attrs.items()))
    assert list(again.dims) == list(kernel.dims)
    same = dict(zip(kernel.params, again.params, strict=True))
    same.update((value, again.dims[name]) for name, value in kernel.dims.items())
    assert_same(kernel.body, again.body, same)


@settings(max_examples=30, deadline=None)
@given(kernels())
def test_round_trip_of_locations(kernel: Kernel) -> None:
    for op in kernel.walk():
        op.loc = op.loc or Location("b.py", 7)
    text = print_kernel(kernel, locations=True)
    assert print_kernel(parse_kernel(text), locations=True) == text


@given(st.lists(runs, max_size=5).map(join))
def test_runs_of_numbers(numbers: tuple[int, ...]) -> None:
    numbers = tuple(n - 30 for n in numbers)
    kernel = Kernel("k", (), {}, Block(), attrs={"numbers": numbers})
    assert parse_kernel(print_kernel(kernel)).attrs["numbers"] == numbers


@given(types)
def test_types(t: Type) -> None:
    assert parse_type(str(t)) == t


def test_an_operation_prints_by_itself() -> None:
    a, b = Value(I32, name="a"), Value(I32)
    op = arith.Add(a, b)
    assert repr(op) == "%1 = add %a, %0 : i32"
    assert print_op(arith.Constant(3, i64)) == "%0 = constant {value = 3, dtype = i64} : i64"
    assert repr(arith.Add(arith.Constant(3, i32).result, arith.Constant(3, i64).result)) == "%0 = add 3, 3:i64 : i32"


def test_constants_in_text_are_made_once_a_block() -> None:
    kernel = parse_kernel(
        """
        tile kernel @k(%n: i32) {
          %a = add %n, 4
          %b = add %a, 4
          %c = cast 4:i64 {to = i32}
          if true then {
            %d = add %b, 4
          } orelse {
          }
        }
        """
    )
    found = [(op.value, op.dtype) for op in kernel.body.ops if isinstance(op, arith.Constant)]
    assert found == [(4, i32), (4, i64), (True, DTYPES["bool"])]
    assert sum(isinstance(op, arith.Constant) for op in kernel.walk()) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (float("inf"), "inf"),
        ((), "()"),
        ((1,), "(1,)"),
        ((None, True, f32), "(none, true, f32)"),
        ('a"b', '"a\\"b"'),
        ((0, 0, 0, 0), "(0, 0, 0, 0)"),
        ((0,) * 128, "(0 * 128,)"),
        ((*range(0, 16, 2), 7, 7), "(0, 2, .., 14, 7, 7)"),
        ((5, 4, 3, 2, 1, 1, 1, 1, 1), "(5, 4, .., 1, 1, 1, 1, 1)"),
    ],
)
def test_attribute_spelling(value: Any, text: str) -> None:
    assert print_attribute(value) == text


def test_errors_show_line_and_caret() -> None:
    with pytest.raises(IRError) as caught:
        parse_kernel("tile kernel @k() {\n  %a = add 1, %b\n}\n", "some.mt")
    assert str(caught.value) == (
        '%b is not defined here\n  File "some.mt", line 2\n      %a = add 1, %b\n                  ^^'
    )


def test_default_attributes_are_left_out_only_when_identical() -> None:
    """1 == True == 1.0 in Python, but not in IR."""
    kernel = parse_kernel("tile kernel @k(%n: i32) {\n  for 0, %n, 1 (%i: i32) {\n  }\n}\n")
    loop = kernel.body.ops[-1]
    assert "stages" not in print_kernel(kernel)
    loop.stages = 1.0  # type: ignore[attr-defined]
    assert "stages = 1.0" in print_kernel(kernel)
