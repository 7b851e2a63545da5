"""What is long is not deep: sums, conditions, `elif`s of any length compile; what is nested too deeply is an error at
its place, and only helpers that call each other are said to."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import minitile as mt
from minitile.ir import depth
from minitile.ir.diagnostics import LanguageError, MinitileError

SCALAR = """import minitile as mt
import minitile.language as T

@mt.kernel
def k(A: T.Tensor((64,), T.int32)):
    with T.Kernel(32, threads=64) as b:
{body}
        A[b + 32] = x
"""

HEAD = """import minitile as mt
import minitile.language as T
{before}
@mt.kernel
def k(A: T.Tensor(("N",), T.{dtype}), block=64):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=64) as b:
        f = T.alloc_fragment((block,), T.{dtype})
        T.copy(A[b * block], f)
        for j in T.Parallel(block):
{body}
        T.copy(f, A[b * block])
"""


@pytest.fixture(autouse=True)
def _without_cache(monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE", "0")


def kernel(body, dtype="int32", before="", head=HEAD):
    """With these lines in its T.Parallel."""
    name, indent = f"<length {abs(hash(body))}>", 12 if head is HEAD else 8
    text = head.format(before=before, dtype=dtype, body="\n".join(" " * indent + line for line in body.splitlines()))
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    space = {"__name__": "length"}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 4000))  # Python's own compiler needs it
    try:
        exec(compile(text, name, "exec"), space)
        space["k"].trace()
    finally:
        sys.setrecursionlimit(limit)
    return space["k"]


def out(k, dtype="int32", target="sm_80", n=128):
    a = np.arange(n).astype(dtype)
    k.compile(mt.spec((n,), dtype), target=target).simulate(a)
    return a


X = np.arange(128)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("terms", [400, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_long_sum(terms, target):
    k = kernel("f[j] = f[j]" + " + 1.5" * terms, "float32")
    assert (out(k, "float32", target) == X + 1.5 * terms).all()


def test_a_long_sum_of_integers():
    k = kernel("f[j] = f[j]" + "".join(f" + (j * {n % 7} - {n})" for n in range(300)))
    assert (out(k) == X + sum((X % 64) * (n % 7) - n for n in range(300))).all()


def test_a_long_index():
    k = kernel("f[j] = A[b * block + j" + " + 1 - 1" * 400 + "] + 1")
    assert (out(k) == X + 1).all()


@pytest.mark.parametrize("count", [3, 16, 17, 33, 400, pytest.param(2900, marks=pytest.mark.slow)])
@pytest.mark.parametrize("word", ["and", "or"])
def test_a_long_condition(word, count):
    """True for one element alone, or for all but one."""
    operator = "!=" if word == "and" else "=="
    k = kernel("f[j] = " + f" {word} ".join(f"f[j] {operator} {n}" for n in range(count)))
    among = count > X
    assert (out(k) == (~among if word == "and" else among)).all()


def test_a_long_condition_stops_where_python_would():
    """The loads behind a guard would be out of bounds, as would those far behind it."""
    k = kernel("if " + " and ".join(["j > 99", *(f"A[j + {1000 * n}] > 0" for n in range(1, 40))]) + ":\n    f[j] = 7")
    assert (out(k) == X).all()
    k = kernel("if " + " or ".join(["j >= 0", *(f"A[j + {1000 * n}] > 0" for n in range(1, 40))]) + ":\n    f[j] = 7")
    assert (out(k) == 7).all()


def test_a_long_condition_at_compile_time():
    k = kernel("if " + " and ".join(f"block != {n + 1000}" for n in range(400)) + ":\n    f[j] = 7")
    assert (out(k) == 7).all()
    k = kernel("f[j] = 1 if (" + " or ".join(["0"] * 100 + ["block"]) + ") == 64 else 2")
    assert (out(k) == 1).all()


def chain(count, arm, other="", test="f[j] == {n}"):
    lines = []
    for n in range(count):
        lines += [f"{'elif' if n else 'if'} {test.format(n=n)}:", *(f"    {x.format(n=n)}" for x in arm)]
    if other:
        lines += ["else:", f"    {other}"]
    return "\n".join(lines)


COUNTS = [2, 16, 17, 33, *(pytest.param(n, marks=pytest.mark.slow) for n in (18, 32, 50, 400))]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("target", ["sm_80", pytest.param("gfx942", marks=pytest.mark.slow)])
def test_a_long_chain(count, target):
    """A name that only the chain assigns, and one that had a value before."""
    body = "y = 5\n" + chain(count, ["x = {n} * 3", "y = y + {n}"], "x = 1 - f[j]") + "\nf[j] = x + 1000 * y"
    wanted = np.where(count > X, X * 3, 1 - X) + 1000 * np.where(count > X, X + 5, 5)
    assert (out(kernel(body), target=target) == wanted).all()


@pytest.mark.slow
def test_a_very_long_chain():
    """As long as Python's own parser takes it, traced."""
    k = kernel(chain(1500, ["x = {n} * 3"], "x = 1") + "\nf[j] = x")
    assert len(list(k.trace().body.walk())) > 1500


@pytest.mark.parametrize("count", [2, 20, 40])
def test_a_chain_without_else_assigns_on_one_side_only(count):
    with pytest.raises(LanguageError, match="'x' is assigned on one side only of the `if`"):
        kernel(chain(count, ["x = {n}"]) + "\nf[j] = x")
    k = kernel("x = f[j]\n" + chain(count, ["x = {n} + 5"]) + "\nf[j] = x")
    assert (out(k) == np.where(count > X, X + 5, X)).all()


@pytest.mark.parametrize("missing", [0, 16, 39])
def test_a_name_that_one_arm_does_not_assign(missing):
    lines = chain(40, ["x = {n}", "y = 1"], "x = 1").splitlines()
    lines[3 * missing + 1] = "    z = 1"
    with pytest.raises(LanguageError, match="'x' is assigned on one side only of the `if`"):
        kernel("\n".join(lines) + "\nf[j] = x")


def test_floats_tuples_and_bools_in_a_long_chain():
    arm = ["x = {n} * 0.5", "p = (f[j] + {n}, {n} > 3)"]
    body = chain(40, arm, "x, p = 0.25, (f[j], False)") + "\nf[j] = x + p[0] + (100 if p[1] else 0)"
    inside = X < 40
    wanted = np.where(inside, X * 1.5 + X + 100 * (X > 3) - 0.0 * X, 0.25 + X)
    wanted = np.where(inside, X * 0.5 + 2 * X + 100 * (X > 3), wanted)
    assert (out(kernel(body, "float32"), "float32") == wanted.astype(np.float32)).all()


def test_conditions_of_a_chain_are_lazy():
    """Those behind the first that holds are not evaluated: their loads would be out of bounds."""
    lines = ["if j >= 0:", "    x = 3"]
    for n in range(1, 40):
        lines += [f"elif A[j + {1000 * n}] > 0:", f"    x = {n}"]
    k = kernel("\n".join([*lines, "else:", "    x = 0", "f[j] = x"]))
    assert (out(k) == 3).all()


def test_a_long_chain_at_compile_time():
    k = kernel(chain(400, ["x = {n}"], "x = 7", "block == {n} + 1000") + "\nf[j] = x * 2")
    assert (out(k) == 14).all()
    k = kernel(chain(400, ["x = {n}"], "x = 7", "block == {n}") + "\nf[j] = x * 2")
    assert (out(k) == 128).all()


def test_returns_in_a_long_chain():
    before = "def g(x):\n" + "\n".join(
        f"    {'elif' if n else 'if'} x == {n}:\n        return {n} * 2" for n in range(40)
    )
    k = kernel("f[j] = g(f[j])", before=before + "\n    return -1\n")
    assert (out(k) == np.where(X < 40, X * 2, -1)).all()


def test_break_and_continue_in_a_long_chain():
    """The rest of the loop's body is behind all of the chain."""
    arms = [f"    elif i == a + {n}:\n        {'continue' if n % 2 else 'x = x + 100'}" for n in range(1, 40)]
    last = ["    elif i == a + 45:", "        break", "    x = x + 1"]
    body = ["a = A[b]", "x = 0", "for i in T.serial(80):", "    if i == a + 70:", "        break", *arms, *last]
    wanted = []
    for a in range(32):
        x = 0
        for i in range(80):
            if i == a + 45:
                break
            if 1 <= i - a < 40:
                if (i - a) % 2:
                    continue
                x += 100
            x += 1
        wanted.append(x)
    a = np.arange(64).astype(np.int32)
    k = kernel("\n".join(body), head=SCALAR)
    k.compile(mt.spec((64,), "int32"), target="sm_80").simulate(a)
    assert (a[32:] == wanted).all()


# Nested by its meaning ------------------------------------------------------------------------------------------------


def test_calls_in_calls():
    """As many as Python's own parser takes in brackets."""
    k = kernel("f[j] = " + "T.max(" * 150 + "f[j]" + ", 3)" * 150)
    assert (out(k) == np.maximum(X, 3)).all()
    k = kernel("f[j] = " + "g(" * 150 + "f[j]" + ")" * 150, before="def g(x):\n    return x + 1\n")
    assert (out(k) == X + 150).all()


def test_a_table_of_ternaries():
    k = kernel("f[j] = " + "".join(f"{n * 7} if f[j] == {n} else " for n in range(100)) + "-1")
    assert (out(k) == np.where(X < 100, X * 7, -1)).all()


def test_helpers_in_helpers():
    before = "def g(x, n):\n    return x if n == 0 else g(x + 1, n - 1)\n"
    assert (out(kernel("f[j] = g(f[j], 150)", before=before)) == X + 150).all()


def test_what_is_too_deep_is_an_error_at_its_place():
    with pytest.raises(LanguageError, match="nested too deeply") as caught:
        kernel("f[j] = " + "".join(f"{n} if f[j] == {n} else " for n in range(2500)) + "-1")
    assert caught.value.loc.line == 10
    assert "give parts of it names" in caught.value.hint
    assert "helper" not in str(caught.value)


def test_helpers_without_end():
    with pytest.raises(LanguageError, match="helper functions call each other without end") as caught:
        kernel("f[j] = g(f[j])", before="def g(x):\n    return h(x) + 1\ndef h(x):\n    return g(x)\n")
    text = str(caught.value)
    assert 10 < len(text.splitlines()) < 50, "not all of the calls"
    assert "calls more" in text
    assert "f[j] = g(f[j])" in text


def test_the_limit_is_put_back():
    before = sys.getrecursionlimit()
    with depth.room(), depth.room():
        assert sys.getrecursionlimit() == max(before, depth.FRAMES)
    assert sys.getrecursionlimit() == before
    with pytest.raises(MinitileError):
        kernel("f[j] = nothing")
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("count", [400, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_long_chain_of_values(count):
    """Each statement needs the one before it: what passes find out of the last one follows from all of them."""
    body = ["x = j", *(f"x = T.max(x, j + {-(n % 7)})" for n in range(count)), "f[j] = A[b * block + x]"]
    assert (out(kernel("\n".join(body))) == X).all()


def test_an_interrupted_import_is_made_again():
    """A module that is executed once more declares its operations once more; another module may not take their name."""
    from minitile.ir.core import Op
    from minitile.ir.ops import control

    again = type("Yield", (Op,), {"__module__": control.__name__, "__annotations__": {}}, name=control.Yield.mnemonic)
    assert Op.registry[again.mnemonic] is again
    Op.registry[again.mnemonic] = control.Yield
    with pytest.raises(AssertionError):
        type("Yield", (Op,), {"__module__": "elsewhere", "__annotations__": {}}, name=control.Yield.mnemonic)
    assert Op.registry[again.mnemonic] is control.Yield
