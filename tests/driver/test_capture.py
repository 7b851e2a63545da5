"""What is compiled in changes with what it was made of: objects in objects, and compile-time parameters that are
objects or functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
import minitile.tilelang as tilelang
import minitile.tilelang.language as TL

SCALE = 1


class Part:
    def __init__(self, number: int = 1) -> None:
        self.number, self.owner = number, None

    def get(self) -> int:
        return self.number

    def __call__(self) -> int:
        return self.number * SCALE

    @property
    def scaled(self) -> int:
        return self.number * SCALE

    @cached_property
    def kept(self) -> int:
        return 5


@dataclass
class Whole:
    part: Part = field(default_factory=Part)
    parts: list[Part] = field(default_factory=lambda: [Part()])
    by_name: dict[str, Part] = field(default_factory=lambda: {"a": Part()})
    other: Any = None

    def __hash__(self) -> int:
        return id(self)


def second() -> None:
    global SCALE
    SCALE = 2


def times_scale(x: int) -> int:
    return x * SCALE


@mt.kernel
def given(X: T.Tensor((1,), T.float32), f=None, value=None):
    with T.Kernel(1, threads=32):
        X[0] = f(value)


def number_of(run: Any) -> float:
    x = np.full(1, np.nan, np.float32)
    run(x)
    return float(x[0])


@pytest.fixture(autouse=True)
def _scale():
    global SCALE
    SCALE = 1
    yield
    SCALE = 1


READ = {
    "attribute": (lambda w: w.part.number, lambda w: setattr(w.part, "number", 2)),
    "another part": (lambda w: w.part.number, lambda w: setattr(w, "part", Part(2))),
    "in a list": (lambda w: w.parts[0].number, lambda w: setattr(w.parts[0], "number", 2)),
    "one more": (lambda w: len(w.parts), lambda w: w.parts.append(Part())),
    "in a dict": (lambda w: w.by_name["a"].number, lambda w: setattr(w.by_name["a"], "number", 2)),
    "method": (lambda w: w.part.get(), lambda w: setattr(w.part, "number", 2)),
    "getattr": (lambda w: getattr(w.part, "number"), lambda w: setattr(w.part, "number", 2)),  # noqa: B009
    "global of a method": (lambda w: w.part(), lambda w: second()),
    "global of a property": (lambda w: w.parts[0].scaled, lambda w: second()),
}


@pytest.mark.parametrize("how", READ)
@pytest.mark.parametrize("where", ["closure", "parameter", "default", "method", "tuple", "partial"])
def test_objects_in_objects(where, how):
    read, change = READ[how]
    whole = Whole()
    whole.part.owner = whole  # in a circle

    @mt.kernel
    def closure(X: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=32):
            X[0] = read(whole)

    @mt.kernel
    def default(X: T.Tensor((1,), T.float32), value=whole):
        with T.Kernel(1, threads=32):
            X[0] = read(value)

    run = {
        "closure": closure,
        "default": default,
        "parameter": lambda x: given(x, read, whole),
        "tuple": lambda x: given(x, lambda pair: read(pair[0]), (whole, 1)),
        "partial": partial(given, f=partial(lambda w, _: read(w), whole)),
        "method": partial(given, f=SimpleMethods(read, whole).go),
    }[where]
    assert [number_of(run), number_of(run)] == [1, 1]
    change(whole)
    assert [number_of(run), number_of(run)] == [2, 2]


class SimpleMethods:
    def __init__(self, read: Any, whole: Whole) -> None:
        self.read, self.whole = read, whole

    def go(self, _: Any) -> Any:
        return self.read(self.whole)


def test_functions_as_parameters():
    """A function is what it reads, too; what it was before is not compiled again."""
    global SCALE
    kernel = given.configured(f=times_scale, value=3)
    assert number_of(kernel) == number_of(lambda x: given(x, times_scale, 3)) == 3
    first = given._held_in((("f", times_scale), ("value", 3))).table
    SCALE = 4
    assert number_of(kernel) == number_of(lambda x: given(x, f=times_scale, value=3)) == 12
    SCALE = 1
    assert number_of(lambda x: given(x, times_scale, 3)) == 3
    assert given._held_in((("f", times_scale), ("value", 3))).table is first


def test_compile_and_keyword_only():
    whole = Whole()
    x = np.zeros(1, np.float32)
    for n in (1, 2, 3):
        whole.part.number = n
        given.compile(x, target="sm_80", f=lambda w: w.part.number, value=whole).simulate(x)
        assert x[0] == n


def test_what_is_not_named_is_not_looked_at():
    """An object's objects may hold much: only what the code names counts, and nothing is compiled anew for the rest."""
    whole = Whole(other=SimpleNamespace(log=[]))

    @mt.kernel
    def kernel(X: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=32):
            X[0] = whole.part.number

    number_of(kernel)
    calls = kernel._table
    whole.part.unnamed = 7
    assert number_of(kernel) == 1
    assert kernel._captures.current()
    assert kernel._table is calls


def test_many_ways_to_one_object():
    """Each object is looked at once, however many paths lead to it."""
    ring = [Part(n) for n in range(40)]
    for each in ring:
        each.owner = ring
    whole = SimpleNamespace()
    holder = Whole(parts=ring, other=whole)

    @mt.kernel
    def kernel(X: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=32):
            X[0] = holder.parts[3].owner[4].number

    assert number_of(kernel) == 4
    ring[4].number = 9
    assert number_of(kernel) == 9


@tilelang.jit(out_idx=[-1])
def made(whole):
    number = whole.part.number

    @TL.prim_func
    def main(A: TL.Tensor((1,), "float32"), B: TL.Tensor((1,), "float32")):
        with TL.Kernel(1, threads=32):
            B[0] = A[0] * number

    return main


def test_factories_of_tilelang():
    whole, one = Whole(), np.ones(1, np.float32)
    first = made(whole)
    assert first(one)[0] == 1
    assert made(whole) is first
    whole.part.number = 5
    assert made(whole)(one)[0] == 5
