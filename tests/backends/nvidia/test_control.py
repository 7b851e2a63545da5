"""Loops, branches and register coalescing: right for random programs, and without copies where none is needed."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.backends.nvidia.emit.register_coalescing import plan
from minitile.ir.builder import Builder
from minitile.ir.core import Value
from minitile.ir.ops import arith, control, thread
from minitile.ir.types import DTYPES, I32, dtype, f32
from tests.backends.nvidia.harness import Make, raw, run, width_of
from tests.backends.nvidia.programs import Programs, interpret

pytestmark = pytest.mark.every_case  # an instruction for each dtype


@pytest.mark.parametrize(("seed", "size"), [*((seed, 30) for seed in range(40)), (212, 60), (684, 60), (411, 60)])
def test_random_programs(seed: int, size: int) -> None:
    make = Make({"x": "i32", "out": "i32"})
    index = make.mul(make.thread(), 4)
    scalars = [make.load("x", index), make.load("x", make.add(index, 1))]
    vector = make.load("x", index, 4, 4)
    start = len(make.kernel.body.ops)
    values = Programs(make, seed, size).block([*scalars, vector])
    results = [v for v in values if v.type in (I32, vector.type)]
    total = results[-1]
    for v in results[3:-1]:  # every result counts, shuffled by a multiplication
        scaled = make.emit(arith.Mul(v, make.constant(31))).result
        total = make.emit(arith.Add(scaled, total)).result
    total = make.emit(arith.Xor(vector, total)).result
    end = len(make.kernel.body.ops)
    make.store("out", index, total, 4)
    program = make.kernel.body.ops[start:end]

    x = np.random.default_rng(seed).integers(-5, 6, (32, 4)).astype(np.int32)
    want = np.zeros_like(x)
    for lane in range(32):
        env = {scalars[0]: x[lane, :1], scalars[1]: x[lane, 1:2], vector: x[lane]}
        block = type(make.kernel.body)((), program)
        interpret(block, env)
        want[lane] = env[total]
    out = np.zeros_like(x)
    text = run(make, x, out)
    assert np.array_equal(out, want), f"{make.kernel}\n{text}"


def loop(make: Builder, trips: int | Value, init: list[Value]) -> tuple[control.For, list[Value]]:
    upper = trips if isinstance(trips, Value) else make.constant(trips)
    op = control.For(make.constant(0), upper, make.constant(1), tuple(init))
    op.body.add_arg(I32, "k")
    return op, [op.body.add_arg(v.type, v.name) for v in init]


def body_of(text: str, label: str = "$L_for0") -> str:
    """The lines from a loop's label to its branch back."""
    return text.split(label + ":\n")[1].split(f"bra.uni {label};")[0]


def zeros(make: Builder, count: int) -> Value:
    zero = make.constant(0.0, f32)
    return make.emit(thread.Concat((zero,) * count)).result


def test_accumulators_are_not_copied() -> None:
    """The steady state of a GEMM: each accumulator is updated where it is, and no register is moved."""
    make = Make({"a": "bf16", "c": "f32"}, dims=("n",))
    index = make.mul(make.thread(), 8)
    acc = zeros(make, 8)
    op, (carried,) = loop(make, make.dims["n"], [acc])
    carried.name = "C_local"
    with make.inside(op.body):
        a = make.load("a", index, 8, 8)
        b = make.load("a", index, 8, 8)
        c1 = make.emit(thread.MmaSync(a, b, carried, "m16n8k16", (1, 2, 1))).result
        c2 = make.emit(thread.MmaSync(a, b, c1, "m16n8k16", (1, 2, 1))).result
        make.emit(control.Yield((c2,)))
    make.emit(op)
    make.store("c", index, op.result, 4)
    text = make.write().text
    body = body_of(text)
    assert body.count("mma.sync") == 4
    assert "mov" not in body
    assert ".reg .f32 %C_local<8>;" in text
    for line in body.splitlines():
        if "mma" in line:
            operands = line.split("{")
            assert operands[1].split("}")[0] == operands[4].split("}")[0]
    assert text.count("mov.f32 %C_local") == 8  # the zeros, once


def test_a_used_accumulator_is_kept() -> None:
    """What the loop still needs after the mma is not overwritten."""
    make = Make({"a": "bf16", "c": "f32"}, dims=("n",))
    index = make.mul(make.thread(), 4)
    op, (carried,) = loop(make, make.dims["n"], [zeros(make, 4)])
    with make.inside(op.body):
        a, b = make.load("a", index, 8, 4), make.load("a", index, 4, 4)
        c1 = make.emit(thread.MmaSync(a, b, carried, "m16n8k16", (1, 1, 1))).result
        total = make.emit(arith.Add(c1, carried)).result
        make.emit(control.Yield((total,)))
    make.emit(op)
    make.store("c", index, op.result, 4)
    ones = np.full(32 * 8, 0x3F80, np.uint16)
    c = np.zeros(32 * 4, np.float32)
    run(make, ones.view(np.uint8), c, np.int32(3))
    assert np.all(c == 2 * (2 * 16 + 16) + 16)  # three times c -> (c + 16) + c


def test_a_rescaled_accumulator_is_not_copied() -> None:
    """As in attention: scaled under a condition, then updated, in the same registers all the time."""
    make = Make({"a": "bf16", "c": "f32", "s": "f32"}, dims=("n",))
    index = make.mul(make.thread(), 4)
    scale = make.load("s", make.thread())
    op, (carried,) = loop(make, make.dims["n"], [zeros(make, 4)])
    with make.inside(op.body):
        grown = make.emit(arith.Cmp(scale, make.constant(1.0, f32), "gt")).result
        branch = control.If(grown)
        with make.inside(branch.then):
            make.emit(control.Yield((make.emit(arith.Mul(carried, scale)).result,)))
        with make.inside(branch.orelse):
            make.emit(control.Yield((carried,)))
        branch.set_results((carried.type,))
        make.emit(branch)
        a, b = make.load("a", index, 8, 8), make.load("a", index, 4, 4)
        make.emit(control.Yield((make.emit(thread.MmaSync(a, b, branch.result, "m16n8k16", (1, 1, 1))).result,)))
    make.emit(op)
    make.store("c", index, op.result, 4)
    body = body_of(make.write().text)
    assert "mov" not in body
    assert body.count("mul.f32") == 4
    assert "$L_else" not in body


def test_swap() -> None:
    """A loop that swaps what it carries needs one register more, not a wrong result."""
    make = Make({"x": "f32", "y": "f32"})
    a, b = make.load("x", make.thread()), make.load("y", make.thread())
    op, (c, d) = loop(make, 3, [a, b])
    with make.inside(op.body):
        make.emit(control.Yield((d, c)))
    make.emit(op)
    make.store("x", make.thread(), op.results[0])
    make.store("y", make.thread(), op.results[1])
    x, y = np.arange(32, dtype=np.float32), np.full(32, -1, np.float32)
    run(make, x, y)
    assert np.all(x == -1)
    assert np.array_equal(y, np.arange(32))


def test_zero_trips_give_the_initial_value() -> None:
    make = Make({"x": "f32"}, dims=("n",))
    a = make.load("x", make.thread())
    op, (c,) = loop(make, make.dims["n"], [a])
    with make.inside(op.body):
        make.emit(control.Yield((make.emit(arith.Add(c, c)).result,)))
    make.emit(op)
    make.store("x", make.thread(), op.result)
    for n in (0, 1, 5):
        x = np.arange(32, dtype=np.float32)
        run(make, x, np.int32(n))
        assert np.array_equal(x, np.arange(32) * 2.0**n)


def test_packed_values_are_carried_in_words() -> None:
    make = Make({"x": "f16"}, dims=("n",))
    index = make.mul(make.thread(), 4)
    a = make.load("x", index, 4, 4)
    op, (c,) = loop(make, make.dims["n"], [a])
    with make.inside(op.body):
        make.emit(control.Yield((make.emit(arith.Add(c, a)).result,)))
    make.emit(op)
    make.store("x", index, op.result, 4)
    x = np.arange(128).astype(np.float16)
    text = run(make, x, np.int32(2))
    assert np.array_equal(x, np.arange(128) * 3)
    assert body_of(text).count("add.rn.f16x2") == 2
    assert "b16" not in body_of(text)


def test_loops_cost_one_branch() -> None:
    make = Make({"x": "f32"})
    op, (c,) = loop(make, 7, [make.load("x", make.thread())])
    with make.inside(op.body):
        make.emit(control.Yield((make.emit(arith.Add(c, c)).result,)))
    make.emit(op)
    make.store("x", make.thread(), op.result)
    assert make.write().text.count("bra") == 1  # constant bounds: no guard either


@pytest.mark.parametrize(("least", "branch", "guards"), [(0, False, 1), (1, False, 0), (0, True, 0)])
def test_a_loop_that_surely_has_a_turn_has_no_guard(least: int, branch: bool, guards: int) -> None:
    make = Make({"x": "f32"}, dims=("n",))
    trips = make.emit(arith.Max(make.dims["n"], make.constant(least))).result
    op, (c,) = loop(make, trips, [make.load("x", make.thread())])
    with make.inside(op.body):
        make.emit(control.Yield((make.emit(arith.Add(c, c)).result,)))
    with make.when(make.compare("lt", op.lower, trips)) if branch else make.inside(make.kernel.body):
        make.emit(op)
        make.store("x", make.thread(), op.result)
    assert make.write().text.count("bra") == 1 + guards + branch


def test_unused_operations_leave_nothing() -> None:
    make = Make({"x": "f32", "y": "f32"}, dims=("n", "m"))
    index = make.thread()
    unused = make.load("y", make.add(index, make.dims["m"]))
    make.emit(arith.Exp(unused))
    make.store("x", index, make.load("x", make.add(index, make.dims["n"])))
    module = make.write()
    assert module.params == (("x", "pointer", "f32"), ("y", "pointer", "f32"), ("n", "dim", "i32"))
    assert "%y" not in module.text
    assert "ex2" not in module.text
    declared = [line for line in module.text.splitlines() if line.strip().startswith(".reg")]
    assert len(declared) == 5, declared  # %f, %rd, %r, %x, and %n with %thread


def test_interference_keeps_values_apart() -> None:
    """`plan` on its own: an initial value that is used after the loop is not of the loop's coalescing class."""
    make = Make({"x": "f32"})
    a = make.load("x", make.thread())
    op, (c,) = loop(make, 2, [a])
    with make.inside(op.body):
        d = make.emit(arith.Add(c, c)).result
        make.emit(control.Yield((d,)))
    make.emit(op)
    make.store("x", make.thread(), make.emit(arith.Sub(op.result, a)).result)
    classes = plan(make.kernel).class_of
    assert classes[op.result] is classes[c] is classes[d]
    assert a not in classes


def test_uniform_branches() -> None:
    """Known for conditions made of block indices and dimensions, not for those made of thread indices."""
    make = Make({"x": "f32"}, dims=("n",))
    bx = make.emit(thread.Special("ctaid.x")).result
    for value in (bx, make.thread()):
        branch = control.If(make.compare("lt", value, make.dims["n"]))
        with make.inside(branch.then):
            make.store("x", make.thread(), make.constant(1.0, f32))
        make.emit(branch)
    text = make.write().text
    assert text.count("bra.uni") == 1
    assert text.count("bra ") == 1


def test_many_names() -> None:
    """Names that collide with each other, with pools, with vectors' registers and with special registers."""
    make = Make({"tid": "f32", "r": "f32", "ret": "f32", "smem": "f32", "out": "f32"})
    index = make.thread()
    index.name = "tid"
    values = [make.load(n, index) for n in list(make.tensors)[:4]]
    vector = make.load("r", index, 2)
    vector.name = "a"
    for v, name in zip(values, ("a", "a1", "clock", "été"), strict=True):
        v.name = name
    total = make.emit(arith.Add(vector, values[0])).result
    for v in values[1:]:
        total = make.emit(arith.Add(total, v)).result
    total.name = "a"
    make.store("out", make.mul(index, 2), total)
    arrays = [np.full(64, n, np.float32) for n in range(5)]
    run(make, *arrays)
    assert np.all(arrays[-1] == 0 + 1 + 2 + 3 + 1)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", DTYPES)
def test_values_of_every_dtype_are_handed_over(name: str, count: int) -> None:
    """Swapped by a loop that starts from a value and a constant, then chosen by a branch."""
    d = dtype(name)
    make = Make({"x": name, "out": name}, dims=("n",))
    index = make.mul(make.thread(), count)
    x = make.load("x", index, count, width_of(name, count))
    one = make.constant(1, d)
    ones = make.emit(thread.Concat((one,) * count)).result
    op, (a, b) = loop(make, make.dims["n"], [x, ones])
    with make.inside(op.body):
        make.emit(control.Yield((b, a)))
    make.emit(op)
    branch = control.If(make.compare("lt", make.thread(), 16))
    for block, value in ((branch.then, op.results[0]), (branch.orelse, ones)):
        with make.inside(block):
            make.emit(control.Yield((value,)))
    branch.set_results((x.type,))
    make.emit(branch)
    make.store("out", index, branch.result, width_of(name, count))
    data = np.random.default_rng(4).integers(0, 2, 32 * count).astype(d.numpy)
    for n in (2, 3):
        out = np.zeros_like(data)
        run(make, raw(data), raw(out), np.int32(n))
        first = data if n == 2 else np.ones_like(data)
        assert np.array_equal(out, np.where(np.arange(32 * count) < 16 * count, first, np.ones_like(data)))
