"""Operations declared by marks: what the class then knows, and how its instances behave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minitile.ir.core import Block, Kernel, Op, Value, attr, maybe, operand, operands, region
from minitile.ir.effects import UNKNOWN
from minitile.ir.ops import arith, control, tile
from minitile.ir.parser import parse_kernel
from minitile.ir.types import F32, I32, BufferType, TileType, Type, dtype, f32, i32


@pytest.fixture
def kind() -> Iterator[type[Op]]:
    """An operation with every kind of field, known only during the test."""

    class Everything(Op, name="everything", stage="tile", uniform=True):
        a: Value = operand()
        rest: tuple[Value, ...] = operands()
        extra: Value | None = maybe()
        b: Value = operand()
        size: int = attr()
        kind: str = attr("plain")
        body: Block = region()

        def infer(self) -> tuple[Type, ...]:
            return (self.a.type, TileType((self.size,), f32))

    yield Everything
    del Op.registry["everything"]


def test_marks_become_fields(kind: type[Op]) -> None:
    assert kind.operand_fields == (("a", "operand"), ("rest", "operands"), ("extra", "maybe"), ("b", "operand"))
    assert [name for name, _ in kind.attr_fields] == ["size", "kind"]
    assert kind.region_fields == ("body",)
    assert (kind.mnemonic, kind.stage, kind.pure, kind.terminator, kind.uniform) == (
        "everything",
        "tile",
        False,
        False,
        True,
    )
    assert Op.registry["everything"] is kind


def test_instances(kind: type[Op]) -> None:
    a, b, c, d = (Value(I32, name=n) for n in "abcd")
    op = kind(a, (b, c), d, 4)
    assert op.operands == [a, b, c, d]
    assert kind(a, (), d, 4, extra=b).operands == [a, b, d]
    assert op.attributes() == {"size": 4, "kind": "plain"}
    assert [r.type for r in op.results] == [I32, TileType((4,), f32)]
    assert [(r.op, r.index) for r in op.results] == [(op, 0), (op, 1)]
    assert op.regions == [op.body]
    assert op.accesses() == ()  # an operation with regions touches only what they touch
    with pytest.raises(ValueError, match="unpack"):
        _ = op.result


def test_required_fields(kind: type[Op]) -> None:
    a = Value(I32)
    with pytest.raises(TypeError, match="size"):
        kind(a, (), a)
    with pytest.raises(TypeError, match="positional"):
        kind(a, (), a, 4, "plain")


def test_text_follows_from_the_marks(kind: type[Op]) -> None:
    text = """\
tile kernel @k(%a: i32) {
  %x, %y = everything %a, [%a, 1], extra = %a, 2 {size = 8, kind = "odd"} : i32, tile<8xf32> (%z: i32) {
    %w = neg %z : i32
  }
}
"""
    assert str(parse_kernel(text)) == text


def test_replace_operands(kind: type[Op]) -> None:
    a, b, c, d = (Value(I32, name=n) for n in "abcd")
    op = kind(a, (b, c), a, 4, extra=b)
    op.replace_operands(lambda v: {a: d, b: c}.get(v, v))
    assert op.operands == [d, c, c, c, d]


def test_a_name_is_taken_once(kind: type[Op]) -> None:
    with pytest.raises(AssertionError, match="everything"):

        class Again(Op, name="everything"):
            pass


def test_keywords_are_inherited_and_overridden() -> None:
    assert arith.Add.pure
    assert arith.Add.stage == "both"
    assert arith.Binary not in Op.registry.values()
    assert tile.AsyncCopy.operand_fields == tile.Copy.operand_fields
    assert control.Yield.terminator
    assert not control.For.terminator


def test_effects_default_to_the_worst() -> None:
    class Unknown(Op):
        pass

    assert Unknown().accesses() == (UNKNOWN,)
    assert UNKNOWN.writes
    assert arith.Add(Value(I32), Value(I32)).accesses() == ()


def test_accesses_name_memory_and_token() -> None:
    source, ring = Value(BufferType("local", (8,), f32)), Value(BufferType("shared", (8,), f32, 3))
    zero, slot = Value(I32), Value(I32)
    op = tile.AsyncCopy(source, (zero,), ring, (zero,), (8,), (0,), (0,), dst_slot=slot)
    read, write = op.accesses()
    assert (read.kind, read.mem, read.slot, read.token) == ("read", source, None, op.result)
    assert (write.kind, write.mem, write.slot, write.token) == ("write", ring, slot, op.result)
    assert write.writes
    assert not read.writes


def test_blocks_own_their_arguments() -> None:
    block = Block((Value(I32), Value(F32)))
    extra = block.add_arg(I32, "extra")
    assert [(a.owner, a.index, a.op) for a in block.args] == [(block, 0, None), (block, 1, None), (block, 2, None)]
    assert extra.name == "extra"
    assert block.terminator is None
    block.ops = [control.Yield(())]
    assert block.terminator is block.ops[0]


def test_walk_goes_outside_in() -> None:
    kernel = parse_kernel(
        """
        tile kernel @k(%n: i32) {
          for 0, %n, 1 (%i: i32) {
            %a = neg %i
            yield
          }
          %b = abs %n
        }
        """
    )
    assert [op.mnemonic for op in kernel.walk() if op.mnemonic != "constant"] == ["for", "neg", "yield", "abs"]


def test_values() -> None:
    tensor = Value(TileType((4, 8), f32), name="t")
    assert tensor.shape == (4, 8)
    assert tensor.dtype is f32
    assert Value(I32).shape == ()
    assert repr(tensor) == "<%t: tile<4x8xf32>>"


def test_kernel_prints_itself() -> None:
    assert str(Kernel("k", (Value(I32, name="n"),), {}, Block())) == "tile kernel @k(%n: i32) {\n}\n"


def test_dtype_spellings() -> None:
    assert dtype("int32") is dtype("i32") is dtype(i32) is i32
    assert dtype("bfloat16").numpy.itemsize == dtype("bf16").bytes == 2
    with pytest.raises(KeyError):
        dtype("float31")
