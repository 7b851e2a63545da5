"""What `matmul` chooses among: problems, and plans, each a kernel with its parameters, for a problem.

`choice.py` lists the plans that may suit a problem, `model.py` estimates how long each takes.
"""

from __future__ import annotations

from typing import NamedTuple

GRAIN = 16  # bytes: the copy engine's
LINE = 128  # bytes: of the caches; padded rows are whole ones
HILBERT = -1  # in place of the height of panels
MOST_CLUSTER = 8  # blocks, on any GPU that has clusters
FEW = 512  # rows
VECTOR = 8  # elements of 2 bytes, of 16 bytes
EDGE = 16  # elements at the beginning of a row of a plan by classes: the least that tensor cores multiply
LEAST_WEIGHTS = 8 << 20  # bytes of a matrix that few rows are multiplied by; smaller ones may well be in L2


def classes_of(k: int) -> int:
    """Rows of k elements of 2 bytes that are whole vectors together."""
    return VECTOR // max(n for n in (1, 2, 4, 8) if k % n == 0)


class Problem(NamedTuple):
    """C (m × n) = op(A) · op(B), summed over k; `size` is the bytes of an operand's element, `result` of C's.

    transpose_a: A lies as k × m. transpose_b: B lies as n × k. products: the rows are shared by so many products, each
    with a B of its own (grouped_plans.py).
    """

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    size: int = 2
    result: int = 2
    products: int = 1

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def few(self) -> bool:
        """Whether few rows are multiplied by a large matrix, which is taken to come from memory (thin.py)."""
        return self.m <= FEW and self.products == 1 and self.n * self.k * self.size >= LEAST_WEIGHTS

    @property
    def ragged(self) -> tuple[bool, bool]:
        """Whether the rows of A and of B, as they lie, are no whole 16 bytes."""
        a = self.m if self.transpose_a else self.k
        b = self.k if self.transpose_b else self.n
        return a * self.size % GRAIN != 0, b * self.size % GRAIN != 0

    @property
    def by_class(self) -> bool:
        """Whether B's rows lie along K and are no whole 16 bytes, as A's: what ragged.py is for."""
        return self.size == 2 and self.products == 1 and self.transpose_b and not self.transpose_a and self.ragged[1]


class Plan(NamedTuple):
    """How to compute a product, by tiles of block_M × block_N elements of it and block_K of the sum, `stages` copies of
    these at a time; threads: of those that compute.

    blocks: those of a persistent kernel, each for many tiles; 0: a block for each tile. panel: tiles are visited in
    panels of so many rows of tiles; 0: row by row; HILBERT: in Hilbert order. split: the parts of split-K, each with
    a sum of its own, which a cluster adds up (`together`, split/cluster.py) or a second kernel does. pad: whether
    A and B are copied, with longer rows, first. teams: of the threads of a persistent block, each with tiles of its
    own. swap: A and B are swapped, for few rows: block_M may then be any multiple of 8. share: so many blocks with
    neighbouring columns are a cluster, which reads the rows of A once; with `together` the parts of each tile are in
    the same cluster. share_rows: so many with neighbouring rows are a cluster, too, which reads the columns of B once.
    ahead: B's first tiles are brought before the kernel in front has ended, which must not write it.
    dots: by threads (gemv.py), no tensor cores: a block has block_M of the few vectors by block_N rows of the matrix.
    by_class: swapped, and the rows of the matrix, no whole 16 bytes, come by classes (ragged.py).
    """

    block_M: int
    block_N: int
    block_K: int
    stages: int
    threads: int
    blocks: int = 0
    panel: int = 0
    split: int = 1
    pad: tuple[bool, bool] = (False, False)
    teams: int = 1
    swap: bool = False
    together: bool = False
    share: int = 1
    ahead: bool = False
    dots: bool = False
    share_rows: int = 1
    by_class: bool = False

    def __str__(self) -> str:
        words = [f"{self.block_M}x{self.block_N}x{self.block_K}, {self.stages} stages, {self.threads} threads"]
        words += [f"{self.blocks} blocks"] if self.blocks else []
        words += [f"panels of {self.panel}"] if self.panel > 0 else []
        words += ["Hilbert order"] if self.panel == HILBERT else []
        words += [f"split-K by {self.split}"] if self.split > 1 else []
        words += [f"{name} padded" for name, padded in zip("AB", self.pad, strict=True) if padded]
        words += [f"{self.teams} teams"] if self.teams > 1 else []
        words += ["A/B swapped"] if self.swap else []
        words += ["added together in a cluster"] if self.together else []
        words += [f"A shared by {self.share}"] if self.share > 1 else []
        words += [f"B shared by {self.share_rows}"] if self.share_rows > 1 else []
        words += ["B ahead"] if self.ahead else []
        words += ["by threads"] if self.dots else []
        words += ["B by classes"] if self.by_class else []
        return ", ".join(words)

    @property
    def apart(self) -> bool:
        """Whether a second kernel adds up the sums of split-K."""
        return self.split > 1 and not self.together

    @property
    def cluster(self) -> int:
        """Blocks of one."""
        return (self.split if self.together else 1) * self.share * self.share_rows

    @property
    def constants(self) -> dict[str, int]:
        """The compile-time parameters of `gemm`, of `gemm_together`, of `gemv`, or of `gemm_ragged`."""
        values = self._asdict()
        if self.by_class:
            return {name: values[name] for name in ("block_M", "block_N", "block_K", "stages", "threads")}
        if self.dots:
            return {name: values[name] for name in ("block_M", "block_N", "block_K", "threads")}
        if self.split > 1 and self.together:
            names = ("block_M", "block_N", "block_K", "stages", "threads", "swap", "share", "share_rows", "ahead")
            return {**{name: values[name] for name in names}, "parts": self.split}
        without = ("split", "pad", "together", "dots", "by_class")
        return {name: value for name, value in values.items() if name not in without}
