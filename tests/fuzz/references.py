"""What the NumPy references of random programs are made of: the program as data, its arguments, and what they must be
behind it. A reference is plain Python over NumPy arrays; nothing here is of the compiler."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

THREAD_ROWS = 64  # of X, and elements of the shared array that threads write one by one


class Pages:
    """A kernel and its reference while they are written side by side, line by line, and what the random choices follow
    from. `constructs`: what of the language has been used."""

    def __init__(self, kind: str, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(f"{kind} {seed}")
        self.pick = self.random.choice
        self.kernel: list[str] = []
        self.plain: list[str] = []
        self.constructs: set[str] = set()
        self.names = 0

    def both(self, indent: int, kernel: str, plain: str | None = None) -> None:
        """A line of the kernel and the one of the reference, which is the same if none is given."""
        self.kernel.append("    " * indent + kernel)
        self.plain.append("    " * indent + (kernel if plain is None else plain))

    def ours(self, indent: int, *lines: str) -> None:
        self.kernel.extend("    " * indent + line for line in lines)

    def theirs(self, indent: int, *lines: str) -> None:
        self.plain.extend("    " * indent + line for line in lines)

    def has(self, construct: str) -> None:
        self.constructs.add(construct)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"


@dataclass(frozen=True)
class Program:
    """`text` defines `kernel`, `reference` the function `reference` of the same parameters. `arrays(program)` are the
    arguments by name, in order; `n` the last one."""

    text: str
    reference: str
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, Any]
    n: int
    constructs: frozenset[str]
    seed: int


class _T:
    """What index and condition expressions of the kernels use of `T`, for the reference."""

    max = staticmethod(max)
    min = staticmethod(min)

    @staticmethod
    def ceildiv(a: int, b: int) -> int:
        return -(-a // b)


def _load(source: np.ndarray, start: tuple[int, ...], into: np.ndarray) -> None:
    """Copies a tile; what lies outside the source is 0."""
    into[...] = 0
    lead = len(start) - into.ndim
    for place in start[:lead]:
        assert 0 <= place < source.shape[0]
        source = source[place]
    rows, columns = start[lead:]
    part = source[rows : rows + into.shape[0], columns : columns + into.shape[1]]
    into[: part.shape[0], : part.shape[1]] = part


def _store(tile: np.ndarray, into: np.ndarray, row: int, column: int) -> None:
    """Copies a tile to a matrix; what lies outside vanishes."""
    part = into[row : row + tile.shape[0], column : column + tile.shape[1]]
    part[...] = tile[: part.shape[0], : part.shape[1]]


def _at(source: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Elements; 0 outside."""
    inside = (i >= 0) & (i < source.shape[0]) & (j >= 0) & (j < source.shape[1])
    if not source.size:
        return np.zeros(np.broadcast(i, j).shape, source.dtype)
    return np.where(inside, source[np.where(inside, i, 0), np.where(inside, j, 0)], np.zeros((), source.dtype))


class Numbers(list[int]):
    """A table of page numbers with a shape, so that the reference says table.shape[0] like the kernel."""

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


NAMES = {"T": _T, "np": np, "load": _load, "store": _store, "at": _at, "Numbers": Numbers}


def arrays(program: Program) -> dict[str, np.ndarray]:
    """Fresh arguments by name: small integers, and other numbers in what is only written."""
    rng = np.random.default_rng(program.seed)
    shapes, given = program.shapes, {}
    for name, dtype in program.dtypes.items():
        low, high = {"table": (0, shapes["pages"][0]), "mask": (0, 2), "X": (0, 5)}.get(name, (-2, 3))
        given[name] = rng.integers(low, high, shapes[name]).astype(dtype)
    given["C"] += 77
    given["D"] += 77
    return {name: given[name] for name in shapes}


def expected(program: Program) -> dict[str, np.ndarray]:
    """The arrays as the reference leaves them."""
    names: dict[str, Any] = dict(NAMES)
    exec(compile(program.reference, f"<reference of {program.seed}>", "exec"), names)
    given = arrays(program)
    names["reference"](*given.values(), program.n)
    return given
