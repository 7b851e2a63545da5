"""Arrays that share memory: a kernel is compiled for tensors that do not, wherever it writes one of them.

Different names are taken for different memory: barriers, copies ahead and the order of accesses follow from that. So a
launch with two arrays of which one is written and whose bytes overlap is an error, and so is a null pointer for an
array that has elements. What was compiled for one array under two names (`LaunchInfo.same`) is right for it alone.

A tensor with strides has gaps, in which another one may lie (`x[:, :32]` and `x[:, 32:]`): what is compared first are
the spans from the lowest to the highest byte, then what is left of both modulo each of their strides (`_apart`). One
that is written must not hold an element twice (a stride of 0).

`check_text` is the quick test, for the launch path: comparisons of addresses, true where something may be wrong;
`explain` looks again and says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from .arrays import row_major
from .errors import ArgumentError
from .launch_info import Expr, LaunchInfo, Slot, TensorArg, Values, byte_size, compile_exprs, expr_source, size_expr


def check_text(info: LaunchInfo, names: Mapping[Slot, str]) -> str:
    """Whether a launch's arrays may be wrong, as Python text over the slots' names; "" where they cannot be."""
    tensors = [arg for arg in info.args if isinstance(arg, TensorArg)]
    tests = []
    if tensors:
        tests.append(f"not ({' and '.join(names['pointer', t.name] for t in tensors)})")
    for a, b in pairs(info):
        first, second = names["pointer", a.name], names["pointer", b.name]
        if a.strides is None and b.strides is None:
            ends = [expr_source(("add", ("pointer", arg.name), nbytes(arg)), names) for arg in (a, b)]
            tests.append(f"{second} < {ends[0]} if {first} <= {second} else {first} < {ends[1]}")
            continue
        (low, high), (low_b, high_b) = ([expr_source(e, names) for e in span(arg)] for arg in (a, b))
        tests.append(f"{low} < {high_b} and {low_b} < {high}")
    for arg in tensors:
        if arg.name in info.written:
            numbers = [str(s) if isinstance(s, int) else names["dim", s] for s in arg.strides or ()]
            tests += [f"{number} == 0" for number in numbers]
    return " or ".join(f"({test})" for test in tests)


def explain(info: LaunchInfo, slots: Sequence[Slot], values: Values) -> None:
    """Raises ArgumentError for a null pointer to elements, and for arrays that overlap where one is written."""
    for arg in info.args:
        if isinstance(arg, TensorArg):
            start, size = compile_exprs([("pointer", arg.name), nbytes(arg)], slots)(values)
            if not start and size:
                raise ArgumentError(f"{arg.name} is a null pointer, and its {size} bytes are to be accessed")
            lies = _Lies.of(arg, slots, values)
            if arg.name in info.written and any(not stride for stride, _ in lies.steps):
                raise ArgumentError(
                    f"the kernel writes {arg.name}, which has several elements in one place (a stride of 0)",
                    "pass a copy: `.contiguous()` in torch, `.copy()` in NumPy",
                )
    for a, b in pairs(info):
        one, other = _Lies.of(a, slots, values), _Lies.of(b, slots, values)
        shared = min(one.end, other.end) - max(one.begin, other.begin)
        if one.begin < one.end and other.begin < other.end and shared > 0 and not _apart(one, other):
            written = " and ".join(t.name for t in (a, b) if t.name in info.written)
            how = "" if a.strides is not None or b.strides is not None else f" in {shared} bytes"
            raise ArgumentError(
                f"{a.name} and {b.name} overlap{how}, and the kernel writes {written}: tensors of different names are "
                "taken to be different memory",
                "pass a copy of one of them; one whole array under two names of the same shape and dtype works in a "
                "call of the kernel function itself, which compiles it as one tensor",
            )


def pairs(info: LaunchInfo) -> Iterator[tuple[TensorArg, TensorArg]]:
    """The tensors that must not overlap."""
    tensors = [arg for arg in info.args if isinstance(arg, TensorArg)]
    first = {name: one for one, name in info.same}
    for a, b in combinations(tensors, 2):
        if {a.name, b.name} & {*info.written} and first.get(a.name, a.name) != first.get(b.name, b.name):
            yield a, b


@dataclass(frozen=True, slots=True)
class _Lies:
    """Where a call's array lies: its span in bytes, and the stride in bytes and the extent of each of its dimensions
    that have more than one element."""

    begin: int
    end: int
    steps: tuple[tuple[int, int], ...]
    element: int

    @staticmethod
    def of(arg: TensorArg, slots: Sequence[Slot], values: Values) -> _Lies:
        known = dict(zip(slots, values, strict=True))
        shape = [n if isinstance(n, int) else known["dim", n] for n in arg.shape]
        start, element = known["pointer", arg.name], byte_size(arg.dtype)
        if 0 in shape:
            return _Lies(start, start, (), element)
        strides = [s if isinstance(s, int) else known["dim", s] for s in arg.strides or row_major(tuple(shape))]
        steps = tuple((s * element, n) for s, n in zip(strides, shape, strict=True) if n > 1)
        reach = [s * (n - 1) for s, n in steps]
        begin = start + sum(min(0, each) for each in reach)
        return _Lies(begin, start + sum(max(0, each) for each in reach) + element, steps, element)

    def width(self, modulus: int) -> int:
        """Of all elements, in bytes, where dimensions whose stride is a multiple of `modulus` do not count."""
        return self.element + sum(abs(s) * (n - 1) for s, n in self.steps if s % modulus)


def _apart(a: _Lies, b: _Lies) -> bool:
    """Whether they have no byte in common for sure: modulo one of the strides they are in different places."""
    for modulus in {abs(s) for s, _ in (*a.steps, *b.steps) if s}:
        distance = (b.begin - a.begin) % modulus
        if distance >= a.width(modulus) and modulus - distance >= b.width(modulus):
            return True
    return False


def span(arg: TensorArg) -> tuple[Expr, Expr]:
    """The first byte of a tensor's elements, and the one behind the last; of one without elements, any two."""
    start: Expr = ("pointer", arg.name)
    if arg.strides is None:
        return start, ("add", start, nbytes(arg))
    low: Expr = 0
    high: Expr = 1
    for n, stride in zip(arg.shape, arg.strides, strict=True):
        reach: Expr = ("mul", ("sub", size_expr(n), 1), size_expr(stride))
        if not isinstance(stride, int) or stride < 0:
            low = ("add", low, ("min", 0, reach))
        if not isinstance(stride, int) or stride > 0:
            high = ("add", high, ("max", 0, reach))
    size = byte_size(arg.dtype)
    return ("add", start, ("mul", low, size)), ("add", start, ("mul", high, size))


def nbytes(arg: TensorArg) -> Expr:
    """The size of a tensor's elements."""
    constant = byte_size(arg.dtype)
    size: Expr = 1
    for extent in arg.shape:
        if isinstance(extent, int):
            constant *= extent
        else:
            size = ("dim", extent) if size == 1 else ("mul", size, ("dim", extent))
    return constant if size == 1 else ("mul", size, constant)
