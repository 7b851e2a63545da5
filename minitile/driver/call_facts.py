"""Which facts about a call's numbers make a specialisation.

Of a run-time dimension: the largest of 128, 16, 8, 4, 2 that divides it, and whether it is 2^30 or more. Of a run-time
stride: whether it is 1 or 0 (it is a constant then), else the power of two up to 16 bytes that divides it, and whether
it is 2^30 or more. Of an address: whether it is a multiple of 16. Of two tensors of one shape and dtype: whether they
are one array. All else are run-time values.

`CallFacts` has these as expressions over a call's slots (minitile.runtime.launch_info), which a dispatcher evaluates to
a key, and reads such a key.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from minitile.analysis.affine import SMALL
from minitile.ir.types import ALIGNMENT, Dim
from minitile.runtime.launch_info import Expr, ScalarArg, TensorArg, byte_size, dims_of, size_expr

DIVISORS = (128, 16, 8, 4, 2)
Args = Sequence[TensorArg | ScalarArg]


@dataclass(frozen=True)
class Found:
    """What a key says. equal: of each pair of `CallFacts.twins`, whether it is one array; strides: of the tensors that
    have any, by name."""

    divisors: Mapping[str, int]
    large: tuple[str, ...]
    strides: Mapping[str, tuple[Dim, ...]]
    unaligned: tuple[str, ...]
    equal: tuple[int, ...] = ()


class CallFacts:
    """Of the calls of one signature: `exprs`, whose values `read` takes."""

    def __init__(self, args: Args, fresh: Collection[str] = ()) -> None:
        """fresh: tensors that each call makes, which are no other."""
        self.args = args
        self.tensors = [a.name for a in args if isinstance(a, TensorArg)]
        self.dims = dims_of(args, strides=False)
        self.steps = dims_of(args)[len(self.dims) :]
        self.twins = [pair for pair in twins(args) if not {*pair} & {*fresh}]
        tensors = [a for a in args if isinstance(a, TensorArg)]
        self.widest = {s: ALIGNMENT // byte_size(a.dtype) for a in tensors for s in a.strides or ()}
        self.exprs: list[Expr] = [("divides", ("pointer", t), ALIGNMENT) for t in self.tensors]
        self.exprs += [("gcd", ("dim", d), DIVISORS[0]) for d in self.dims]
        self.exprs += sizes_of(self.dims)
        for s in self.steps:
            self.exprs.append(("max", -1, ("min", ("dim", s), 2)))
            self.exprs.append(("gcd", ("dim", s), self.widest[s]))
            self.exprs.append(("less", ("mul", ("dim", s), ("dim", s)), SMALL * SMALL))
        by_name = {a.name: a for a in args if isinstance(a, TensorArg)}
        self.exprs += [_same(by_name[a], by_name[b]) for a, b in self.twins]

    def read(self, found: Sequence[int]) -> Found:
        """The facts that a call's values of `exprs` are."""
        values = iter(found)
        unaligned = tuple([t for t in self.tensors if not next(values)])
        divisors = {d: divisor(next(values)) for d in self.dims}
        large = large_of(self.dims, [next(values) for _ in sizes_of(self.dims)])
        known: dict[str, int] = {}
        for s in self.steps:
            kind, divides, small = next(values), next(values), next(values)
            if kind in (0, 1):
                known[s] = kind
                continue
            divisors[s] = divides if kind > 0 else 1
            large += () if small else (s,)
        return Found(divisors, large, self.fixed(known), unaligned, tuple(values))

    def of_numbers(self, numbers: Mapping[str, int], unaligned: tuple[str, ...] = ()) -> Found:
        """The facts about dimensions and strides of which these are known."""
        known = {s: numbers[s] for s in self.steps if numbers.get(s) in (0, 1)}
        divisors = {d: divisor(numbers[d]) for d in self.dims if d in numbers}
        for s in self.steps:
            if s in numbers and s not in known:
                divisors[s] = math.gcd(numbers[s], self.widest[s]) if numbers[s] > 0 else 1
        large = tuple(d for d in (*self.dims, *self.steps) if abs(numbers.get(d, 0)) >= SMALL and d not in known)
        return Found(divisors, large, self.fixed(known), unaligned)

    def fixed(self, known: Mapping[str, int]) -> Mapping[str, tuple[Dim, ...]]:
        """The tensors' strides with these numbers in place of names."""
        return {
            a.name: tuple(known.get(s, s) if isinstance(s, str) else s for s in a.strides)
            for a in self.args
            if isinstance(a, TensorArg) and a.strides is not None
        }


def stride_names(args: Args, strided: Sequence[str]) -> list[TensorArg | ScalarArg]:
    """The signature with a name for each stride of these tensors."""
    taken = {*dims_of(args), *(a.name for a in args)}
    found: list[TensorArg | ScalarArg] = []
    for a in args:
        if isinstance(a, TensorArg) and a.name in strided:
            names = []
            for d in range(len(a.shape)):
                name = f"{a.name}_stride{d}"
                while name in taken:
                    name += "_"
                taken.add(name)
                names.append(name)
            found.append(replace(a, strides=tuple(names)))
        else:
            found.append(a)
    return found


def twins(args: Args) -> list[tuple[str, str]]:
    """The pairs of tensors that one array could be passed for."""
    tensors = [a for a in args if isinstance(a, TensorArg)]
    pairs = combinations(tensors, 2)
    return [(a.name, b.name) for a, b in pairs if (a.dtype, a.shape) == (b.dtype, b.shape) and _alike(a, b)]


def _alike(a: TensorArg, b: TensorArg) -> bool:
    """Whether both may have the same strides."""
    if a.strides is None or b.strides is None:
        return a.strides is b.strides
    pairs = zip(a.strides, b.strides, strict=True)
    return all(x == y or isinstance(x, str) or isinstance(y, str) for x, y in pairs)


def _same(a: TensorArg, b: TensorArg) -> Expr:
    """Whether both are one array."""
    same: Expr = ("same", ("pointer", a.name), ("pointer", b.name))
    for x, y in zip(a.strides or (), b.strides or (), strict=True):
        if x != y:
            same = ("mul", same, ("same", size_expr(x), size_expr(y)))
    return same


def divisor(n: int) -> int:
    """What the compiler is told that divides n: all the difference that is worth a compilation."""
    return next((p for p in DIVISORS if n % p == 0), 1)


def sizes_of(dims: Sequence[str]) -> list[Expr]:
    """What a call evaluates to know which dimensions are large: true, at once, where all of them together are not; else
    a number with a bit for each that is small."""
    if not dims:
        return []
    total: Expr = ("dim", dims[0])
    for d in dims[1:]:
        total = ("add", total, ("dim", d))
    bits: Expr = 0
    for n, d in enumerate(dims):
        bits = ("add", bits, ("mul", ("less", ("dim", d), SMALL), 2 << n))
    return [("or", ("less", total, SMALL), bits)]


def large_of(dims: Sequence[str], found: Sequence[int]) -> tuple[str, ...]:
    """The dimensions that are large, by what `sizes_of` came to."""
    return tuple(d for n, d in enumerate(dims) if found[0] is not True and not found[0] & 2 << n)
