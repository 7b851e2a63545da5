"""The checker of certificates: that a set of states is closed under all steps, without a fault on the way.

It searches nothing. From the start, and from each listed state along both answers of its question, it runs to the next
question and demands that the state there, in normal form, is listed; a run that ends must end well. Every cycle must
pass a "true" of a counted loop. What is listed is no hint that is trusted: the states are only where runs may end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from itertools import product
from math import prod
from typing import Any

from minitile.proof.arithmetic.values import variables_in
from minitile.proof.encoding import Decoder
from minitile.proof.explore import MOST_CASES, Explorer, cyclic
from minitile.proof.questions import is_symbol
from minitile.proof.state import State, Warp
from minitile.proof.text import Launch, Program, Refused, parse

FORMAT = 6
# What comes of data that is no state.
_NO_STATE = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError, MemoryError)
_OPERATIONS = ("add", "sub", "mul", "floordiv")


def check(certificate: Mapping[str, Any], text: str, launch: Launch, *, seconds: float = 600.0) -> int:
    """Checks that a certificate proves a PTX text for a launch; gives the number of states. Raises Refused."""
    _demand(certificate.get("format") == FORMAT, "another format")
    _demand(certificate.get("text") == digest(text), "of another text")
    _demand(certificate.get("launch") == facts(launch), "of another launch")
    program = parse(text, launch)
    try:
        cases, table = list(certificate["cases"]), list(certificate["table"])
        keys, moduli = _moduli(certificate["moduli"], table)
        together = frozenset(int(pc) for pc in certificate["together"])
        lines = sorted(program.code[pc].line for pc in together)
        _demand(min(together, default=0) >= 0 and certificate["lines"] == lines, "lines")
    except _NO_STATE as error:
        raise Refused(0, f"not a certificate: {error!r}") from error
    counts = [n if is_symbol(key) else 1 for key, n in zip(keys, moduli, strict=True)]
    _demand(len(cases) == prod(counts) <= MOST_CASES, "not all cases of residues")
    states = 0
    for case, each in zip(cases, product(*map(range, counts)), strict=True):
        known = {key: (n, residue) for key, n, residue in zip(keys, moduli, each, strict=True)}
        try:
            states += _check_case(program, launch, together, known, case, table, seconds)
        except _NO_STATE as error:
            raise Refused(0, f"not a certificate: {error!r}") from error
    return states


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def facts(launch: Launch) -> dict[str, Any]:
    return {
        "boxes": dict(sorted(launch.boxes.items())),
        "threads": launch.threads,
        "block": list(launch.block),
        "shared": launch.shared,
        "aligned": launch.aligned,
        "divides": dict(sorted(launch.divides.items())),
        "least": dict(sorted(launch.least.items())),
        "grid": {axis: _lists(size) for axis, size in sorted(launch.grid.items())},
    }


def _lists(size: Any) -> Any:
    """An expression for JSON, which has no tuples."""
    return [_lists(each) for each in size] if isinstance(size, tuple) else size


def launch_of(certificate: Any) -> Launch:
    """The launch that a certificate is for, as it says itself: the inverse of `facts`. Raises Refused."""
    try:
        said = certificate["launch"]
        boxes, divides, least = (
            {str(name): int(n) for name, n in said[each].items()} for each in ("boxes", "divides", "least")
        )
        threads, shared = (None if said[each] is None else int(said[each]) for each in ("threads", "shared"))
        grid = {str(n): _size(x) for n, x in said["grid"].items()}
        block = tuple(int(n) for n in said["block"])
        return Launch(boxes, threads, shared, divides, least, grid, int(said["aligned"]), block)
    except _NO_STATE as error:
        raise Refused(0, f"not a certificate: {error!r}") from None


def _size(data: Any) -> Any:
    """What `_lists` was made of."""
    if isinstance(data, int):
        return data
    if isinstance(data, list) and data[:1] == ["param"]:
        _, name = data
        return ("param", str(name))
    operation, a, b = data
    if operation not in _OPERATIONS:
        raise ValueError(f"{operation!r} in a grid")
    return (operation, _size(a), _size(b))


def _demand(holds: bool, reason: str) -> None:
    if not holds:
        raise Refused(0, f"not a certificate: {reason}")


def _moduli(data: Any, table: list[Any]) -> tuple[list[Any], list[int]]:
    decoder = Decoder(table, None)  # type: ignore[arg-type]
    keys, moduli = [decoder(key) for key, _ in data], [int(n) for _, n in data]
    _demand(len(set(keys)) == len(keys) and all(n >= 1 for n in moduli), "moduli")
    _demand(not any(variables_in(key) for key in keys), "moduli")
    return keys, moduli


def _check_case(
    program: Program,
    launch: Launch,
    together: frozenset[int],
    residues: dict[Any, tuple[int, int]],
    case: Any,
    table: list[Any],
    seconds: float,
) -> int:
    explorer = Explorer(program, launch, together, residues, 0, seconds)
    decoder = Decoder(table, explorer.machine.memory)
    states = [decoder.state(each) for each in case]
    places: dict[Hashable, int] = {}
    for place, state in enumerate(states):
        _demand(len(state.warps) == program.threads // 32, "warps")
        _demand(all(warp.number == n for n, warp in enumerate(state.warps)), "warps")
        places[explorer.key(state)] = place  # one that is in no normal form is never reached
    _reached(explorer, State([Warp(n) for n in range(program.threads // 32)]), places)
    idle: dict[int, list[int]] = {}  # steps that need not come nearer to the end of a loop
    for place, state in enumerate(states):
        question = explorer.run(state)
        _demand(question is not None, "a state that asks nothing")
        assert question is not None
        for yes in (True, False):
            to = _reached(explorer, explorer.answered(state, question, yes), places)
            if to is not None and explorer.idles(state, question, yes):
                idle.setdefault(place, []).append(to)
    _demand(not cyclic(idle), "a cycle in which no loop advances")
    return len(states)


def _reached(explorer: Explorer, state: State, places: Mapping[Hashable, int]) -> int | None:
    """The listed state that a run comes to; None: it ends."""
    if explorer.run(state) is None:
        explorer.check_end(state)
        return None
    place = places.get(explorer.normalise(state))
    _demand(place is not None, "a state that is not listed")
    return place


__all__ = ["FORMAT", "check", "digest", "facts", "launch_of"]
