"""What text cannot say wrongly but a pass can; the rest is in tests/filetests/verify."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import IRError, Location
from minitile.ir.ops import arith, control
from minitile.ir.parser import parse_kernel
from minitile.ir.types import F32, I32, FutureType, RegsType, TileType, bool_, f32
from minitile.ir.verifier import LEGAL, verify
from minitile.layout import blocked


def kernel_of(*ops: Op, stage: str = "tile", params: tuple[Value, ...] = ()) -> Kernel:
    return Kernel("k", params, {}, Block(ops=list(ops)), stage=stage)


def fails(kernel: Kernel, message: str) -> IRError:
    with pytest.raises(IRError) as caught:
        verify(kernel)
    assert message in caught.value.message
    return caught.value


def test_use_before_definition() -> None:
    n = Value(I32, name="n")
    a = arith.Add(n, n)
    a.result.name = "a"
    b = arith.Neg(a.result)
    verify(kernel_of(a, b, params=(n,)))
    fails(kernel_of(b, a, params=(n,)), "%a is used before it is defined")


def test_use_outside_of_its_block() -> None:
    n, yes = Value(I32, name="n"), arith.Constant(True, bool_)
    a = arith.Neg(n)
    branch = control.If(yes.result, then=Block(ops=[a]))
    fails(kernel_of(yes, branch, arith.Neg(a.result), params=(n,)), "is not visible here")


def test_parameter_of_another_kernel() -> None:
    fails(kernel_of(arith.Neg(Value(I32, name="n"))), "%n is used before it is defined")


def test_operation_in_two_places() -> None:
    n = Value(I32, name="n")
    a = arith.Neg(n)
    a.result.name = "a"
    fails(kernel_of(a, a, params=(n,)), "%a is defined twice")


def test_block_in_two_places() -> None:
    n = Value(I32, name="n")
    body = Block((Value(I32),))
    loops = [control.For(n, n, n, (), body=body) for _ in range(2)]
    fails(kernel_of(*loops, params=(n,)), "the arguments of block 0 belong to another block as well")


def test_stale_result() -> None:
    """A pass that changes an operand's type must infer the results anew."""
    a, b = Value(I32, name="a"), Value(F32, name="b")
    op = arith.Neg(a)
    op.a = b
    fails(kernel_of(op, params=(a, b)), "the results of neg should be f32")


def test_operand_that_no_longer_suits() -> None:
    kernel = parse_kernel(
        """
        tile kernel @k(%n: i32) {
          %i = iota {shape = (4, 4), dim = 0}
          %s = reduce %i {dim = 1, kind = "sum"}
        }
        """
    )
    reduce = kernel.body.ops[1]
    verify(kernel)
    reduce.replace_operands(lambda _: kernel.params[0])
    fails(kernel, "the results of reduce should be")


def test_layouts_do_not_count_as_a_difference() -> None:
    plain = Value(TileType((64,), f32), name="plain")
    op = arith.Neg(plain)
    op.set_results((TileType((64,), f32, blocked((64,), 32)),))
    verify(kernel_of(op, params=(plain,)))


def test_types_in_futures_are_checked() -> None:
    future = Value(FutureType(TileType((4,), f32)), name="f")
    loop = control.For(*[Value(I32)] * 3, (future,), body=Block((Value(I32), Value(future.type))))
    loop.body.ops.append(control.Yield((loop.body.args[1],)))
    params = (loop.lower, future)
    verify(kernel_of(loop, params=params))
    fails(kernel_of(loop, stage="thread", params=params), "has no place in thread IR")


def test_registers_belong_to_thread_ir() -> None:
    a = Value(RegsType(4, f32), name="a")
    verify(kernel_of(arith.Neg(a), stage="thread", params=(a,)))
    fails(kernel_of(arith.Neg(a), stage="tile", params=(a,)), "a value of type regs<4xf32> has no place in tile IR")


def test_every_operation_has_a_stage() -> None:
    known = set().union(*LEGAL.values())
    assert [name for name, kind in Op.registry.items() if kind.stage not in known] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda k: setattr(k, "stage", "later"), "there is no stage 'later'"),
        (lambda k: k.dims.update(N=Value(F32)), "the dimension N is f32"),
        (lambda k: k.body.add_arg(I32), "the body has arguments"),
        (lambda k: k.dims.update(N=k.params[0]), "%n is declared twice"),
    ],
)
def test_kernels(change: Callable[[Kernel], object], message: str) -> None:
    kernel = kernel_of(params=(Value(I32, name="n"),))
    change(kernel)
    fails(kernel, message)


def test_error_shows_the_line_of_the_ir() -> None:
    """Without a source location, the IR's own text is shown."""
    n, x = Value(I32, name="n"), Value(F32, name="x")
    error = fails(kernel_of(arith.Neg(n), arith.Add(n, x), params=(n, x)), "operands of different dtypes")
    assert str(error) == (
        "operands of different dtypes: i32, f32\n"
        "    %0 = add %n, %x : i32\n"
        '  File "<tile IR of k>", line 3\n'
        "      %1 = add %n, %x : i32\n"
        "      ^^^^^^^^^^^^^^^^^^^^^"
    )


def test_error_shows_the_source_line() -> None:
    n, x = Value(I32, name="n"), Value(F32, name="x")
    bad = arith.Add(n, x)
    bad.loc = Location(__file__, 3, 0, 4)
    assert fails(kernel_of(bad, params=(n, x)), "operands of different dtypes").loc is bad.loc
