"""Loops, branches, helpers: what runs (in the simulator, against the same Python), and what is refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


def collatz(n, limit):
    steps = 0
    while n != 1:
        if steps >= limit:
            break
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def sign(x):
    if x > 0:
        return 1
    if x == 0:
        return 0
    return -1


def both(x):
    """A tuple through a run-time return."""
    if x > 3:
        return x, 1
    return 2 * x, 0


def collect(values, wanted):
    """continue, break, nested loops."""
    total = 0
    for i in range(len(values)):
        if values[i] < 0:
            continue
        if values[i] == wanted:
            break
        for _ in range(i):
            if total > 1000:
                break
            total += values[i]
    return total


VALUES = [3, -1, 7, 0, 12, -5, 99, 4]


def test_helpers_are_the_same_python():
    @mt.kernel
    def kernel(A: T.Tensor((8,), T.int32), C: T.Tensor((4, 8), T.int32)):
        with T.Kernel(8, threads=32) as bx:
            x = A[bx]
            C[0, bx] = collatz(T.max(x, 1), 20)
            C[1, bx] = sign(x)
            a, b = both(x)
            C[2, bx] = a * 10 + b
            C[3, bx] = collect(A, x)

    out = np.zeros((4, 8), np.int32)
    kernel(np.array(VALUES, np.int32), out)
    assert out[0].tolist() == [collatz(max(v, 1), 20) for v in VALUES]
    assert out[1].tolist() == [sign(v) for v in VALUES]
    assert out[2].tolist() == [both(v)[0] * 10 + both(v)[1] for v in VALUES]
    assert out[3].tolist() == [collect(VALUES, v) for v in VALUES]


def test_loops_with_steps():
    @mt.kernel
    def kernel(n: T.int32, m: T.int32, C: T.Tensor((6,), T.int32)):
        with T.Kernel(1, threads=32):
            total = 0
            for i in T.serial(2, n, 3):
                total = total * 3 + i
            C[0] = total
            total = 0
            for i in range(n, m, -2):
                total = total * 3 + i
            C[1] = total
            total = 0
            for i in range(n, 0, -3):
                if i == 5:
                    break
                total += i
            C[2] = total
            total = 0
            for i in T.unroll(4):
                total += [1, 10, 100, 1000][i] * n
            C[3] = total
            total = 0
            for i in T.unroll(n):
                total += i
            C[4] = total
            for i in range(5, n):
                total += i
            C[5] = total

    out = np.zeros(6, np.int32)
    kernel(11, 2, out)
    horner = functools.partial(functools.reduce, lambda t, i: t * 3 + i)
    assert out.tolist() == [horner(range(2, 11, 3), 0), horner(range(11, 2, -2), 0), 11 + 8, 12221, 55, 100]


def test_while_true_and_scalars_of_a_tuple():
    @mt.kernel
    def fibonacci(n: T.int32, C: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=32):
            a, b, i = 0, 1, 0
            while True:
                if i == n:
                    break
                a, b = b, a + b
                i += 1
            C[0], C[1] = a, b

    out = np.zeros(2, np.int32)
    fibonacci(10, out)
    assert out.tolist() == [55, 89]


def test_and_or_ternary_guard_loads():
    """Reading outside a buffer would be found: the simulator checks."""

    @mt.kernel
    def kernel(A: T.Tensor(("n",), T.int32), C: T.Tensor((32,), T.int32)):
        with T.Kernel(1, threads=32):
            last = T.alloc_shared((8,), T.int32)
            for i in T.Parallel(8):
                last[i] = A[i] + 1
            for i in T.Parallel(32):
                C[i] = 0
                if i < 8 and last[i] > 3:
                    C[i] += 1
                if i >= 8 or last[i] > 5:
                    C[i] += 10
                C[i] += 100 * last[i] if i < 8 else 0
                C[i] += T.if_then_else(i < 8, last[i], 7) * 1000

    out = np.zeros(32, np.int32)
    kernel(np.arange(8, dtype=np.int32), out)
    for i in range(32):
        v = i + 1
        inside = i < 8
        want = (
            (inside and v > 3) + 10 * (not inside or v > 5) + (100 * v if inside else 0) + (v if inside else 7) * 1000
        )
        assert out[i] == want


def test_early_return_guards_the_rest(ops):
    def kernel(A: T.Tensor(("n",), T.float32)):
        with T.Kernel(4, threads=32) as bx:
            if bx * 32 >= A.shape[0]:
                return
            s = T.alloc_shared((32,), T.float32)
            T.copy(A[bx * 32], s)
            if bx == 2:
                return
            T.copy(s, A[0])

    outer, inner = ops(kernel, "if")
    assert [op.mnemonic for op in outer.then.ops if op.mnemonic in ("alloc", "copy", "if")] == ["alloc", "copy", "if"]
    assert [op.mnemonic for op in inner.then.ops if op.mnemonic == "copy"] == ["copy"]


def test_compile_time_stays_python(ops):
    log = []

    def kernel(A: T.Tensor((4,), T.float32), flag=True, n=3):
        with T.Kernel(1):
            for i in [1, 2, 3][:n]:
                if i == 2:
                    continue
                log.append(f"{i:02}")
            if flag or A.never_evaluated:
                log.extend(x * 2 for x in ["a", "b"])
            i = 0
            while i < 3:
                i += 1
            log.append({k: v + 0 for k, v in zip("xy", (i, len(log)), strict=True)})
            values = [T.float32(x) for x in range(3) if x != 1]
            A[0] = sum(values)

    assert len(ops(kernel, "store")) == 1
    assert log == ["01", "03", "aa", "bb", {"x": 3, "y": 4}]
    assert ops(kernel, "if", "for", "while") == []


def test_pure_branches_become_selects(ops):
    def kernel(n: T.int32, A: T.Tensor((2,), T.int32)):
        with T.Kernel(1):
            x = 1
            if n > 3:
                x = n * 2
            A[0] = x
            A[1] = x if n < 0 else 5

    assert ops(kernel, "if") == []
    assert len(ops(kernel, "select")) == 2


def test_unchanged_names_are_not_carried(ops):
    def kernel(n: T.int32, A: T.Tensor((2,), T.int32), scaled=False):
        with T.Kernel(1):
            x = n + 1
            y = 0
            for i in range(n):
                if scaled:
                    x = x * 2
                y += x + i
            A[0] = x + y

    (loop,) = ops(kernel, "for")
    assert len(loop.init) == 1
    (loop,) = ops(kernel, "for", scaled=True)
    assert len(loop.init) == 2


def test_inner_functions_and_lambdas():
    @mt.kernel
    def kernel(n: T.int32, C: T.Tensor((3,), T.int32), scale=3):
        with T.Kernel(1, threads=32):
            offset = n + 1

            def f(x, *rest, factor=scale, **named):
                if x > 2:
                    return x * factor + len(rest) + len(named)
                return offset

            g = lambda x, y=2: x * y if x > 3 else f(x)  # noqa: E731
            C[0] = f(n, 0, 0, other=1)
            C[1] = g(n)
            C[2] = [f, g][1](1, 5)

    out = np.zeros(3, np.int32)
    kernel(7, out)
    assert out.tolist() == [7 * 3 + 3, 14, 8]


class Doubler:
    def __call__(self, x):
        if x > 3:
            return x * 2
        return x


def test_objects_partials_and_builtins():
    @mt.kernel
    def kernel(n: T.int32, C: T.Tensor((6,), T.int32)):
        with T.Kernel(1, threads=32):
            C[0] = Doubler()(n)
            C[1] = functools.partial(both, n)()[0]
            C[2] = 1 if n in (1, 7) else 0
            C[3] = 1 if n not in [1, 7] else 0
            C[4] = T.int32(any([n == 1, n == 7])) + T.int32(all((n == 1, n == 7)))
            C[5] = sum([n, n, 1]) + max([n, 3]) + abs(-n)

    out = np.zeros(6, np.int32)
    kernel(7, out)
    assert out.tolist() == [14, 7, 1, 0, 1, 29]


def test_and_or_give_operands():
    """Of numbers, as in Python, the operand that decides."""

    @mt.kernel
    def kernel(A: T.Tensor((6,), T.int32), C: T.Tensor((4, 6), T.int32)):
        with T.Kernel(6, threads=32) as bx:
            x, y = A[bx], A[5 - bx]
            C[0, bx] = x or y or 9
            C[1, bx] = x and y
            C[2, bx] = x and A[x % 6]
            C[3, bx] = 1 if (x and not y) or x > 2 else 0

    a = [0, 3, 1, 0, 2, 5]
    out = np.zeros((4, 6), np.int32)
    kernel(np.array(a, np.int32), out)
    pairs = [(a[i], a[5 - i]) for i in range(6)]
    assert out[0].tolist() == [x or y or 9 for x, y in pairs]
    assert out[1].tolist() == [x and y for x, y in pairs]
    assert out[2].tolist() == [x and a[x % 6] for x, _ in pairs]
    assert out[3].tolist() == [int(bool((x and not y) or x > 2)) for x, y in pairs]


def test_branches_and_loops_in_parallel():
    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float32), C: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), T.float32)
            T.copy(A, s)
            for i in T.Parallel(64):
                x = s[i]
                if x < 0:
                    x = s[(i + 1) % 64] * 2 if i % 3 == 0 else -x
                for j in T.unroll(4):
                    if j == 2:
                        continue
                    x = x + j
                for j in range(3):
                    x += s[(i + j) % 64]
                C[i] = x

    a = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    c = np.zeros_like(a)
    kernel(a, c)
    x = np.where(a < 0, np.where(np.arange(64) % 3 == 0, np.roll(a, -1) * 2, -a), a)
    np.testing.assert_allclose(c, x + 4 + a + np.roll(a, -1) + np.roll(a, -2), rtol=1e-5, atol=1e-5)


def test_run_time_continue_in_an_unrolled_loop():
    @mt.kernel
    def kernel(n: T.int32, C: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            total = 0
            for j in T.unroll(5):
                if j == n:
                    continue
                total += 10**j
            C[0] = total

    out = np.zeros(1, np.int32)
    kernel(2, out)
    assert out[0] == 11011


def test_typed_variables(ops):
    def kernel(n: T.int32, A: T.Tensor((1,), T.float16)):
        with T.Kernel(1):
            x = T.alloc_var(T.float16)
            x = 0
            y: T.float16 = 1
            for _ in range(n):
                x = x + 1
                y = y + A[0]
            A[0] = x + y

    (loop,) = ops(kernel, "for")
    assert [r.dtype.name for r in loop.results] == ["f16", "f16"]


class TestErrors:
    """The rules of docs/tilelang.md, each broken once."""

    def test_one_branch_only(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                if n > 2:
                    x = 1
                A[0] = x

        refuses(kernel, "'x' is assigned on one side only of the `if`", at="x")

    def test_loop_local_used_after(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                for i in range(n):
                    x = i
                A[0] = x

        refuses(kernel, "'x' is assigned inside the loop", at="x")

    def test_loop_index_used_after(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                for i in range(n):
                    A[0] = i
                A[0] = i

        refuses(kernel, "'i' is assigned inside the loop")

    def test_changed_dtype_in_a_loop(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                total = 0
                for _ in range(n):
                    total = total + A[0]

        refuses(kernel, "'total' is i32 when the loop begins, and f32 is assigned", at="total")

    def test_changed_dtype_in_a_branch(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                x = 0
                if n > 1:
                    x = A[0]
                A[0] = x

        refuses(kernel, "'x' is i32 before the `if`, and f32 is assigned", at="x")

    def test_different_dtypes_of_the_sides(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                if n > 1:  # noqa: SIM108
                    x = A[0]
                else:
                    x = n
                A[0] = x

        refuses(kernel, "'x' is f32 on one side of the `if` and i32 on the other")

    def test_literal_that_does_not_fit(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                x = 0
                if n > 1:
                    x = 0.5
                A[0] = x

        refuses(kernel, "0.5 is no i32")

    def test_rebinding_a_buffer(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                x = T.alloc_shared((4,), T.float32)
                y = T.alloc_shared((4,), T.float32)
                for _ in range(n):
                    x, y = y, x
                T.copy(x, A)

        refuses(kernel, "'x' is the shared buffer x (4 f32) and is assigned anew in the loop")

    def test_rebinding_a_buffer_in_a_branch(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                x = T.alloc_shared((4,), T.float32)
                y = T.alloc_shared((4,), T.float32)
                if n > 1:
                    x = y
                T.copy(x, A)

        refuses(kernel, "'x' is the shared buffer x (4 f32) and is assigned anew in the `if`", at="x")

    @pytest.mark.parametrize("how", ["append", "setitem", "iadd", "attribute", "del"])
    def test_mutating_python(self, refuses, how):
        class Box:
            value = 0

        def change(x, box):
            if how == "append":
                x.append(1)
            elif how == "setitem":
                x[0] = 1
            elif how == "iadd":
                x += [1]
            elif how == "del":
                del x[0]
            else:
                box.value = 1

        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                x = [0]
                box = Box()
                for _ in range(n):
                    change(x, box)

        error = refuses(kernel, "a loop or branch on run-time values is traced once")
        assert error.loc.function == "change"
        assert error.loc.caller.function == "kernel"

    def test_lists_of_the_same_body_may_change(self, ops):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                for _ in range(n):
                    x = []
                    x.append(1)
                    x[0] = 2
                    A[0] = x[0]

        assert len(ops(kernel, "store")) == 1

    def test_nonlocal(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            count = 0

            def f():
                nonlocal count
                count += 1

            with T.Kernel(1):
                f()

        refuses(kernel, "`nonlocal count`", at="nonlocal")

    def test_return_of_a_value_from_the_kernel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                return 1

        refuses(kernel, "a kernel returns tensors, not 1", at="return")

    def test_return_in_a_loop(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                for i in range(n):
                    if i == 3:
                        return

        refuses(kernel, "`return` in a loop on run-time values")

    def test_helper_that_returns_on_some_paths(self, refuses):
        def f(x):  # noqa: RET503
            if x > 1:
                return 3

        def kernel(n: T.int32, A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                A[0] = f(n)

        refuses(kernel, "f() returns a value on some paths only")

    @pytest.mark.parametrize("loop", [T.Parallel, T.vectorized, functools.partial(T.Pipelined, num_stages=2)])
    def test_break_elsewhere(self, refuses, loop):
        def kernel(n: T.int32, A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                for i in loop(4):
                    if i == n:
                        break

        refuses(kernel, "`break` in")

    def test_break_of_a_loop_inside_parallel(self, refuses):
        def kernel(X: T.Tensor((64, "N"), T.float32), Y: T.Tensor((64,), T.int32)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    c = 0
                    for j in range(X.shape[1]):
                        for k in range(2):
                            if k == j:
                                continue
                        if X[i, j] > 1:
                            break
                        c += 1
                    Y[i] = c

        assert "T.get_thread_binding()" in refuses(kernel, "`break` inside T.Parallel", at="break").hint

    def test_while_inside_parallel(self, refuses):
        def kernel(X: T.Tensor((64,), T.int32)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    x = X[i]
                    while x > 1:
                        x = x // 2
                    X[i] = x

        assert "T.get_thread_binding()" in refuses(kernel, "`while` inside T.Parallel", at="while").hint

    def test_break_in_a_compile_time_loop(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                for i in T.unroll(4):
                    if i == n:
                        break

        refuses(kernel, "`break` under a run-time condition in a loop that runs at compile time")

    def test_scalar_out_of_parallel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                total = 0.0
                for i in T.Parallel(4):
                    total += A[i]
                A[0] = total

        error = refuses(kernel, "'total' is assigned inside the T.Parallel", at="total")
        assert "T.reduce_" in error.hint

    def test_tile_operation_in_parallel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((4,), T.float32)
                for i in T.Parallel(4):
                    T.copy(A[i], s)

        refuses(kernel, "T.copy inside T.Parallel", at="T.copy")

    def test_run_time_extent_of_parallel(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    A[i] = 0

        refuses(kernel, "an extent of T.Parallel must be known at compile time", at="T.Parallel(n)")

    def test_index_count_of_parallel(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                for i, j in T.Parallel(4):
                    A[i] = j

        refuses(kernel, "2 indices for T.Parallel with 1 extents", at="i, j")

    def test_tensor_as_condition(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                if A:
                    A[0] = 1

        refuses(kernel, "the tensor A (4 f32) as a condition", at="A")

    def test_comparison_of_tensors(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                if A > 0:
                    A[0] = 1

        refuses(kernel, "arithmetic on the tensor A (4 f32) as a whole", at="A > 0")

    def test_assert(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32), block=100):
            with T.Kernel(1):
                assert block % 16 == 0, f"block is {block}"

        refuses(kernel, "assertion failed: block is 100", at="assert")

    def test_run_time_assert(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                assert n > 0

        assert "T.device_assert" in refuses(kernel, "`assert` of a run-time value").hint

    def test_exceptions_of_user_code(self, refuses):
        def f(x):
            raise ValueError(f"no {x}")

        def kernel(A: T.Tensor((4,), T.float32), config=None):
            with T.Kernel(1):
                f(3)

        error = refuses(kernel, "ValueError: no 3", at="raise")
        assert isinstance(error.__cause__, ValueError)

        def other(A: T.Tensor((4,), T.float32), config=None):
            with T.Kernel(1):
                A[0] = config.missing

        refuses(other, "AttributeError: 'NoneType' object has no attribute 'missing'", at="config.missing")

    def test_names(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                A[0] = undefined  # noqa: F821

        refuses(kernel, "name 'undefined' is not defined", at="undefined")

        def early(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                A[0] = x  # noqa: F821
                x = 1  # noqa: F841

        refuses(early, "'x' is used before it is assigned", at="x")

    def test_walrus_where_it_may_not_be_reached(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                if n > 2 and (x := A[0]) > 1:
                    A[0] = x

        refuses(kernel, "'x' is assigned by `:=` in a part that may not be evaluated")

        def loop(n: T.int32, A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                while (x := A[0]) > 1:
                    A[0] = x - 1

        refuses(loop, "`:=` in the condition of a `while`", at="(x := A[0]) > 1")

    def test_kernel_in_a_kernel(self, refuses):
        @mt.kernel
        def inner(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                A[0] = 1

        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                inner(A)

        refuses(kernel, "the kernel inner is called in a kernel", at="inner(A)")

    def test_recursion(self, refuses):
        def f(x):
            return f(x + 1)

        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                A[0] = f(0)

        refuses(kernel, "without end")

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            ("try:\n    pass\nfinally:\n    pass", "`try` statements"),
            ("x = yield", "yield"),
            ("with memoryview(b''):\n    pass", "`with` has a meaning for T.Kernel"),
            ("class X:\n    pass", "`classdef` statements"),
        ],
    )
    def test_syntax_without_meaning(self, refuses, tmp_path, body, text):
        lines = "\n".join("        " + line for line in body.split("\n"))
        file = tmp_path / "module.py"
        file.write_text(
            "import minitile.language as T\ndef kernel(A: T.Tensor((4,), T.float32)):\n"
            f"    with T.Kernel(1):\n{lines}\n"
        )
        names = {"__name__": "module", "__file__": str(file)}
        exec(compile(file.read_text(), str(file), "exec"), names)
        refuses(names["kernel"], text)


class TestUniformity:
    """What all threads do together is not under a condition that differs between them."""

    def test_copy_under_a_thread_index(self, refuses):
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                s = T.alloc_shared((4,), T.float32)
                if T.get_thread_binding(0) < 4:
                    T.copy(A, s)

        refuses(kernel, "copy under a condition that differs between threads", at="T.copy")

    def test_sync_in_a_loop_over_a_varying_bound(self, refuses):
        def kernel(A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                tx = T.get_thread_binding()
                n = 0
                for _ in range(3):
                    n = n + A[tx]
                for _ in range(n):
                    T.sync_threads()

        refuses(kernel, "sync_threads under a condition that differs", at="T.sync_threads")

    def test_varying_through_a_carried_value(self, refuses):
        def kernel(A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                n = 0
                for _ in range(3):
                    if n > 1:
                        T.sync_threads()
                    n = n + T.get_thread_binding()

        refuses(kernel, "sync_threads under a condition that differs")

    def test_return(self, refuses):
        def kernel(A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                if T.get_thread_binding() > 3:
                    return
                A[0] = 1

        refuses(kernel, "`return` under a condition that differs")

    def test_result_of_an_atomic(self, refuses):
        def kernel(A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                old = T.atomic_add(A[0], 1, return_prev=True)
                if old == 3:
                    T.sync_threads()

        refuses(kernel, "sync_threads under a condition that differs")

    def test_scalar_work_may_differ(self, ops):
        def kernel(A: T.Tensor((128,), T.int32), n: T.int32):
            with T.Kernel(1):
                tx = T.get_thread_binding()
                x = 0
                if tx < 4:
                    x = A[tx]
                    A[tx] = x + 1
                T.sync_threads()
                if n > 2:
                    T.sync_threads()

        assert len(ops(kernel, "sync_threads")) == 2
