"""Numbers of a launch that give all answers of a run: what makes a run on abstract steps a real one.

Symbols that are no operations are parameters, the block and the grid, what is loaded, and rounds of loops. The search
is short and may miss numbers; what it finds is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

from minitile.proof.arithmetic.values import Affine, Predicate, binary, compare, symbol
from minitile.proof.launches.implied import size_of_grid
from minitile.proof.text import Launch

Holds = Callable[[Callable[[Any], int | None]], bool | None]
_MOST_TRIES = 4000
_NUMBERS = sorted({*range(13), *(64 * n + d for n in range(1, 13) for d in (-1, 0, 1)), 15, 16, 17, 31, 32, 33, 4096})


def evaluate(value: Any, size_of: Callable[[Any], int | None]) -> int | None:
    """A value of the launch, where `size_of` gives symbols that are no operations; None: not known."""
    if isinstance(value, int):
        return value
    if isinstance(value, Affine):
        total = value.const
        for key, c in value.terms:
            each = _symbol(key, size_of)
            if each is None:
                return None
            total += c * each
        return total
    if isinstance(value, Predicate):
        operation, *rest = value.expression
        if operation == "above":
            base, number, bound = rest
            start, end = evaluate(Affine(base[0], number), size_of), evaluate(bound, size_of)
            return None if start is None or end is None else int(start < end)
        if operation in ("not", "and", "or"):
            truths = [evaluate(each, size_of) for each in rest]
            if None in truths:
                return None
            return int({"not": not truths[0], "and": all(truths), "or": any(truths)}[operation])
        a, b = (evaluate(each, size_of) for each in rest[1:])
        width = int(rest[0][1:])
        return None if a is None or b is None else compare(operation, rest[0], a % (1 << width), b % (1 << width))
    return None


def _symbol(key: Any, size_of: Callable[[Any], int | None]) -> int | None:
    found = 1 if key == ("one",) else size_of(key)
    if found is not None or not isinstance(key, tuple) or len(key) != 4:
        return found
    a, b = evaluate(key[2], size_of), evaluate(key[3], size_of)
    if a is None or b is None:
        return None
    width = int(key[1][1:])
    out = binary(key[0], key[1], a % (1 << width), b % (1 << width))
    if not isinstance(out, int):
        return None
    return out - (1 << width) if key[1][0] == "s" and out >> (width - 1) & 1 else out


def witness(asked: Sequence[Holds], residues: Mapping[Any, tuple[int, int]], launch: Launch) -> dict[Any, int] | None:
    """Numbers of symbols with which each answer holds, within residues and what is known of the launch; None: none were
    found, or an answer is of something else than numbers."""
    conditions = [*asked, *(_of_residue(*each) for each in residues.items() if each[0] and each[0][0] != "since")]
    parts: list[tuple[set[Any], list[Holds]]] = []  # symbols, and the conditions on them
    while conditions:
        holds = conditions.pop()
        keys = _symbols(holds, residues)
        if keys is None:
            return None
        for axis in [axis for axis in launch.grid if (f"%ctaid.{axis}",) in keys]:
            inside = _of_grid(axis, launch.grid[axis])
            parts.append((_symbols(inside, residues) or set(), [inside]))
        parts.append((keys, [holds]))
    found: dict[Any, int] = {}
    while parts:
        keys, together = parts.pop()
        while near := next((each for each in parts if each[0] & keys), None):
            parts.remove(near)
            keys, together = keys | near[0], together + near[1]
        part = _solved(sorted(keys, key=repr), together, residues, launch)
        if part is None:
            return None
        found |= part
    return found


def _of_residue(key: Any, each: tuple[int, int]) -> Holds:
    def holds(size_of: Callable[[Any], int | None]) -> bool | None:
        whole = evaluate(symbol(*key), size_of)
        return None if whole is None else whole % each[0] == each[1]

    return holds


def _of_grid(axis: str, size: Any) -> Holds:
    def holds(size_of: Callable[[Any], int | None]) -> bool | None:
        blocks, block = evaluate(size_of_grid(size), size_of), size_of((f"%ctaid.{axis}",))
        return None if blocks is None or block is None else block < blocks

    return holds


def _value(key: Any, known: Callable[[Any], int | None], residues: Mapping[Any, tuple[int, int]]) -> int | None:
    """A symbol that is no operation, by those that numbers are sought for."""
    if key[0] == "counter":
        counter = key[1]
        return evaluate(Affine(() if counter.since else counter.base[0], counter.value), known)
    if key[0] == "quotient":
        whole = evaluate(symbol(*key[1]), known) if key[1] in residues else None
        return None if whole is None else whole // residues[key[1]][0]
    if key[0] in ("param", "loaded") or str(key[0]).startswith(("%ctaid.", "%nctaid.")):
        return known(key)
    return None


def _symbols(holds: Holds, residues: Mapping[Any, tuple[int, int]]) -> set[Any] | None:
    """The symbols that a condition is of; None: it is of others too."""
    found: set[Any] = set()

    def known(key: Any) -> int:
        found.add(key)
        return 1

    return None if holds(lambda key: _value(key, known, residues)) is None else found


def _solved(
    keys: Sequence[Any], conditions: Sequence[Holds], residues: Mapping[Any, tuple[int, int]], launch: Launch
) -> dict[Any, int] | None:
    """The first numbers that are found for these symbols, by trying."""
    of = [_numbers(key, launch) for key in keys]
    for numbers in islice(product(*of), _MOST_TRIES):
        chosen = dict(zip(keys, numbers, strict=True))
        value = partial(_value, known=chosen.get, residues=residues)
        if all(each(value) for each in conditions):
            return chosen
    return None


def _numbers(key: Any, launch: Launch) -> list[int]:
    by, least = (launch.divides.get(key[1], 1), launch.least.get(key[1], 0)) if key[0] == "param" else (1, 0)
    numbers = {-(-n // by) * by for n in _NUMBERS} | {by * n for n in range(13)}
    return sorted(n for n in numbers if n >= max(least, key[0].startswith("%nctaid")))


__all__ = ["evaluate", "witness"]
