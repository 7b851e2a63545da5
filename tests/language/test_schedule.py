"""`order`, `stage` and `group` of T.Pipelined as they are traced: what counts as a statement, and what is refused."""

from __future__ import annotations

import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.ops import control
from tests.language.conftest import traced

N = 64


def double(x):
    """Two statements, and one that does not count."""
    two = T.float32(2)
    for i in T.Parallel(N):
        x[i] = x[i] * two
    for i in T.Parallel(N):
        x[i] = x[i] + 1.0


def program(order=None, stage=None, num_stages=0, more=False, sync=None, group=None):
    """copy; [a branch]; a function of two statements; a store. The rest computes scalars."""

    @mt.kernel
    def kernel(A: T.Tensor((8, N), T.float32), P: T.Tensor((8,), T.int32), C: T.Tensor((8, N), T.float32)):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((N,), T.float32)
            x = T.alloc_fragment((N,), T.float32)
            for k in T.Pipelined(8, num_stages=num_stages, order=order, stage=stage, sync=sync, group=group):
                row = P[k]
                T.copy(A[row, :], S)
                if more:
                    T.copy(S, x)
                    for _ in T.unroll(2):
                        x[0] = x[0] + 1.0
                else:
                    T.copy(S, x)
                double(x)
                last = k
                T.copy(x, C[last, :])

    return kernel


def loop_of(kernel):
    (loop,) = [op for op in traced(kernel).walk() if isinstance(op, control.For) and op.order is not None]
    return loop


def numbers(loop):
    """The mnemonics that write, by the entry that they belong to."""
    found, at = {}, None
    for op in loop.body.ops:
        if isinstance(op, control.Statement):
            at = op.number
        elif op.mnemonic in ("copy", "parallel", "store", "fill"):
            found.setdefault(at, []).append(op.mnemonic)
    return found


def test_statements_of_functions_count():
    loop = loop_of(program([-1, 0, 1, 2, 3], [-1, 0, 0, 0, 0]))
    assert numbers(loop) == {0: ["copy"], 1: ["copy"], 2: ["parallel"], 3: ["parallel"], 4: ["copy"]}
    assert loop.order == (-1, 0, 1, 2, 3)
    assert loop.stage_of == (-1, 0, 0, 0, 0)


def test_a_call_counts_as_one():
    loop = loop_of(program([-1, 0, 1, 2], [-1, 0, 0, 0]))
    assert numbers(loop) == {0: ["copy"], 1: ["copy"], 2: ["parallel", "parallel"], 3: ["copy"]}


def test_branches_at_compile_time_do_not_count_and_unrolled_loops_are_one():
    loop = loop_of(program([-1, 0, 1, 2, 3, 4], [-1, 0, 0, 0, 0, 0], more=True))
    assert list(numbers(loop).values()) == [
        ["copy"],
        ["copy"],
        ["store", "store"],
        ["parallel"],
        ["parallel"],
        ["copy"],
    ]


def test_groups():
    loop = loop_of(program([-1, 1, 0], [-1, 0, 0], group=[[0], [1, 2, 3], [4]], sync=[[0]]))
    assert numbers(loop) == {0: ["copy"], 1: ["copy", "parallel", "parallel"], 2: ["copy"]}
    loop = loop_of(program([-1, 0, 1], [-1, 0, 0], group=[[0], [1, 2], [3]]))  # the call as one
    assert numbers(loop) == {0: ["copy"], 1: ["copy", "parallel", "parallel"], 2: ["copy"]}


@pytest.mark.parametrize(
    ("num_stages", "stage", "versions"),
    [(0, [0, 1, 1, 1], 2), (0, [0, 2, 2, 2], 3), (4, [0, 1, 1, 1], 4), (1, [-1, 0, 1, 1], 2), (0, [-1, 0, 0, 0], 1)],
)
def test_versions(num_stages, stage, versions):
    loop = loop_of(program([-1 if s < 0 else n for n, s in enumerate(stage)], stage, num_stages))
    assert loop.stages == versions
    assert loop.kind == ("pipelined" if versions > 1 else "serial")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"order": [0, 1], "stage": [0, 0]}, "order and stage are for 2 statements; the loop has 5, at line "),
        ({"order": [0], "stage": [0]}, "order and stage are for 1 statement;"),
        ({"order": [0, 1, 2, 3], "stage": [0, 0]}, "order has 4 entries, stage 2"),
        ({"order": [0, 1, 2, 3]}, "order and stage go together"),
        ({"group": [[0]]}, "order and stage go together"),
        ({"order": [0, 1, 1, 2], "stage": [0, 0, 0, 0]}, "order has the place 1 more than once"),
        ({"order": [-1, 0, 1, 2], "stage": [0, 0, 0, 0]}, "order -1 with stage 0"),
        ({"order": [-2, 0, 1, 2], "stage": [-2, 0, 0, 0]}, "order -2 with stage -2"),
        ({"order": [0, 1, 2], "stage": [0, 0, 0], "group": [[0], [1]]}, "order has 3 entries, stage 3, group 2"),
        ({"order": [0, 1], "stage": [0, 0], "group": [[0], [0, 1, 2]]}, "group has the statements [0, 0, 1, 2]"),
        ({"order": [0, 1.5], "stage": [0, 0]}, "an entry of order"),
        ({"order": [0, 1], "stage": [0, 16]}, "stage 16: stages go from 0 to 15"),
        ({"order": 3, "stage": [0]}, "order is 3"),
        ({"order": [0, 1], "stage": [0, 0], "group": [0, 1]}, "an entry of group is 0"),
    ],
)
def test_refused(how, text, refuses):
    refuses(program(**how), text, at="T.Pipelined")


def test_nested(refuses):
    @mt.kernel
    def kernel(A: T.Tensor((8, N), T.float32)):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((N,), T.float32)
            T.clear(x)
            for _ in T.Pipelined(8, order=[0], stage=[0]):
                for k in T.Pipelined(8, order=[0], stage=[0]):
                    T.copy(x, A[k, :])

    refuses(kernel, "a loop with order and stage in another one", at="T.Pipelined")


def test_break(refuses):
    @mt.kernel
    def kernel(A: T.Tensor((8, N), T.float32)):
        with T.Kernel(1, threads=64):
            for k in T.Pipelined(8, order=[0], stage=[0]):
                if k > 3:
                    break

    refuses(kernel, "`break`")


def test_statement_at_line(refuses):
    """An impossible order names the operation that needs another one, at its line."""
    kernel = program([-1, 1, 0, 2], [-1, 0, 0, 0])
    with pytest.raises(mt.MinitileError) as caught:
        kernel.compile(mt.spec((8, N), "float32"), mt.spec((8,), "int32"), mt.spec((8, N), "float32"), target="sm_80")
    assert "which the schedule puts behind it" in str(caught.value)
    assert "x[i] * two" in str(caught.value)
