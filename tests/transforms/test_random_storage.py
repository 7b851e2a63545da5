"""Random kernels that allocate shared memory anywhere: in loops, in branches, beside copies that TMA makes late.
What is new in each turn shares bytes with others of the turn, and never with what still lives."""

from __future__ import annotations

from random import Random

import pytest

from tests.transforms import test_random_stores as stores

KINDS = ("alloc", "alloc", "store", "store", "read", "inside", "fill", "sync", "loop", "branch")


class Writer(stores.Writer):
    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.mine: list[str] = []  # buffers that are known here

    def buffer(self) -> str:
        return self.random.choice((*stores.SHARED, *self.mine * 3))

    def alloc(self) -> None:
        self.count += 1
        name = f"N{self.count}"
        self.lines.append(f"%{name} = alloc {{type_ = shared<8x8xf32>}}")
        if self.random.random() < 0.5:
            self.fill(name, f"{self.count}.0")
        else:
            self.copy(self.random.choice((*stores.TENSORS, self.buffer(), "F")), name)
        self.mine.append(name)

    def statements(self, depth: int) -> None:
        outer = list(self.mine)
        for _ in range(self.random.randint(3, 6)):
            kind = self.random.choice(KINDS)
            if kind == "alloc":
                self.alloc()
            elif kind == "store":
                self.copy(self.random.choice((self.buffer(), self.buffer(), "F")), self.random.choice(("C", "D")))
            elif kind == "read":
                self.copy(self.random.choice(stores.TENSORS), self.random.choice((self.buffer(), *stores.FRAGMENTS)))
            elif kind == "inside":
                pair = self.buffer(), self.random.choice((self.buffer(), *stores.FRAGMENTS))
                if pair[0] != pair[1]:
                    self.copy(*(pair if self.random.random() < 0.5 else pair[::-1]))
            elif kind == "fill":
                self.fill(self.random.choice((self.buffer(), *stores.FRAGMENTS)), "1.5")
            elif kind == "sync":
                self.lines.append("sync_threads")
            elif depth < 3:
                self.loop(depth) if kind == "loop" else self.branch(depth)
        self.mine = outer


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(s, marks=pytest.mark.slow) for s in range(8, 200))])
def test_storage(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "Writer", Writer)
    stores.check(Random(seed), seed % 4)
