"""Arrays that share memory: a kernel is compiled for tensors that do not, wherever it writes one of them.

Different names are taken for different memory: barriers, copies ahead and the order of accesses follow from that. So a
launch with two arrays of which one is written and whose bytes overlap is an error, and so is a null pointer for an
array that has elements. What was compiled for one array under two names (`LaunchInfo.same`) is right for it alone.

`check_text` is the quick test, for the launch path: comparisons of addresses, true where something may be wrong;
`explain` looks again and says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from .errors import ArgumentError
from .launch_info import Expr, LaunchInfo, Slot, TensorArg, Values, byte_size, compile_exprs, expr_source


def check_text(info: LaunchInfo, names: Mapping[Slot, str]) -> str:
    """Whether a launch's arrays may be wrong, as Python text over the slots' names; "" where they cannot be."""
    tensors = [arg for arg in info.args if isinstance(arg, TensorArg)]
    tests = []
    if tensors:
        tests.append(f"not ({' and '.join(names['pointer', t.name] for t in tensors)})")
    for a, b in _pairs(info):
        first, second = names["pointer", a.name], names["pointer", b.name]
        ends = [expr_source(("add", ("pointer", arg.name), nbytes(arg)), names) for arg in (a, b)]
        tests.append(f"{second} < {ends[0]} if {first} <= {second} else {first} < {ends[1]}")
    return " or ".join(f"({test})" for test in tests)


def explain(info: LaunchInfo, slots: Sequence[Slot], values: Values) -> None:
    """Raises ArgumentError for a null pointer to elements, and for arrays that overlap where one is written."""
    for arg in info.args:
        if isinstance(arg, TensorArg):
            start, size = compile_exprs([("pointer", arg.name), nbytes(arg)], slots)(values)
            if not start and size:
                raise ArgumentError(f"{arg.name} is a null pointer, and its {size} bytes are to be accessed")
    for a, b in _pairs(info):
        exprs = [("pointer", a.name), nbytes(a), ("pointer", b.name), nbytes(b)]
        start, size, start_b, size_b = compile_exprs(exprs, slots)(values)
        if size and size_b and start < start_b + size_b and start_b < start + size:
            shared = min(start + size, start_b + size_b) - max(start, start_b)
            written = " and ".join(t.name for t in (a, b) if t.name in info.written)
            raise ArgumentError(
                f"{a.name} and {b.name} overlap in {shared} bytes, and the kernel writes {written}: tensors of "
                "different names are taken to be different memory",
                "pass a copy of one of them; one whole array under two names of the same shape and dtype works in a "
                "call of the kernel function itself, which compiles it as one tensor",
            )


def _pairs(info: LaunchInfo) -> Iterator[tuple[TensorArg, TensorArg]]:
    """The tensors that must not overlap."""
    tensors = [arg for arg in info.args if isinstance(arg, TensorArg)]
    first = {name: one for one, name in info.same}
    for a, b in combinations(tensors, 2):
        if {a.name, b.name} & {*info.written} and first.get(a.name, a.name) != first.get(b.name, b.name):
            yield a, b


def nbytes(arg: TensorArg) -> Expr:
    """The size of a tensor."""
    constant = byte_size(arg.dtype)
    size: Expr = 1
    for extent in arg.shape:
        if isinstance(extent, int):
            constant *= extent
        else:
            size = ("dim", extent) if size == 1 else ("mul", size, ("dim", extent))
    return constant if size == 1 else ("mul", size, constant)
