"""Random programs with explicit roles and barriers (sm_90a), each with the same program in plain NumPy beside it.

One warpgroup brings tiles, one or two multiply them, and two barriers a slot order them: as in docs/how-to/explicit-
synchronisation.md, but inside the control flow that users write around it. Rounds of the ring stand in loops, `while`,
branches, behind `continue`, `break` and early returns; which of them run is decided by constants, arguments, the
block's place or loaded numbers; the count of rounds is a scalar that all roles carry. Buffers are allocated in front or
where they are used.
Between the rounds the multiplying role works on its accumulator, and all threads may store scalars.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.fuzz.references import THREAD_ROWS, Pages, Program

LIMIT = 220_000  # bytes of shared memory for tiles; sm_90a has 232,448, and tiles are aligned


class Writer(Pages):
    """Writes one program. `rings` holds, for each ring, its slots, its buffers' names and how they are indexed."""

    def __init__(self, seed: int) -> None:
        super().__init__("by hand", seed)  # which draws the programs: another word, and seeds give others
        pick = self.pick
        self.workers = pick((1, 1, 2))
        self.rows, self.columns, self.inner = 64 * self.workers, pick((16, 32, 64)), pick((16, 32, 64))
        self.first = pick((True, False))  # the role that brings tiles is warpgroup 0
        self.element = pick(("bfloat16", "float16"))
        self.transposed = pick((True, False))
        self.index = pick(("int32", "int32", "int64", "uint32"))
        self.shape = pick(("grid", "grid", "one", "strided"))
        self.ints = ["n", "bx", "by"]
        self.loaded: list[str] = []
        self.rounds = 0
        self.rings = [pick((1, 1, 2, 3)) for _ in range(pick((1, 1, 2)))]
        pair = 2 * self.inner * (self.rows + self.columns)
        self.bytes = sum(self.rings) * pair + 4 * self.rows * self.columns  # of shared memory
        self.times = 1  # that a statement is traced: Python runs a `while` of a constant number of rounds
        self.counting = self.shape == "strided"  # c0 has a value
        self.base = 3 if self.shape == "strided" else 2
        self.bring = "T.ws(0)" if self.first else f"T.ws({self.workers})"
        group = range(1, self.workers + 1) if self.first else range(self.workers)
        self.work = f"T.ws({', '.join(map(str, group))})"

    def condition(self) -> str:
        kind = self.pick(("constant", "uniform", "uniform", "block", "loaded", "loaded", "scalar"))
        if kind == "loaded":
            self.has("condition loaded in a loop" if self.loaded else "condition loaded")
            if self.loaded:
                return self.pick(("mask[{0}] != 0", "mask[{0}] == 0", "table[{0}] > 1")).format(self.pick(self.loaded))
            return f"X[tile, {self.random.randrange(8)}] {self.pick(('> 1', '< 3', '!= 2'))}"
        self.has(f"condition {kind}")
        if kind == "constant":
            return self.pick(("FLAG", "not FLAG", "BK < 32"))
        if kind == "block":
            return self.pick(("bx == 0", "by == 0", "(bx + by) % 2 == 0", "bx < n"))
        if kind == "scalar":
            return self.pick(("v > 3", "v % 2 == 0", *["c0 < 2"] * self.counting))
        return f"{self.pick(self.ints)} {self.pick(('% 2 == 0', '> 1', '< 2', '!= 1', '> 0'))}"

    def trips(self) -> str:
        what = self.pick(("0", "1", "2", "3", "n", "n", "n % 3", "bx + 1", "T.max(n, 1)", "kt", "kt", "T.min(v, 3)"))
        self.has(f"trips {what}")
        return what

    # Regions ---------------------------------------------------------------------------------------------------------

    def inside(
        self, indent: int, body: Callable[[int], None], ints: tuple[str, ...] = (), loaded: bool = False
    ) -> None:
        before = (self.ints, self.loaded)
        self.ints = [*self.ints, *ints]
        self.loaded = [*self.loaded, *ints] if loaded else self.loaded
        body(indent + 1)
        self.ints, self.loaded = before

    def statements(self, indent: int, depth: int, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            kinds: list[Callable[[int, int], None]] = [self.on_accumulator, self.scalar]
            if self.rounds < 5:
                kinds += [self.round] * 4
            if depth < 3:
                kinds += [self.loop, self.loop, self.while_loop, self.branch, self.branch]
            if depth == 0 and self.shape != "strided":
                kinds.append(self.early_return)
            self.pick(kinds)(indent, depth)

    def branch(self, indent: int, depth: int) -> None:
        self.has("if")
        self.both(indent, f"if {self.condition()}:")
        self.inside(indent, lambda at: self.statements(at, depth + 1, 2))
        if self.chance(0.4):
            self.has("if else")
            self.both(indent, "else:")
            self.inside(indent, lambda at: self.statements(at, depth + 1, 2))

    def loop(self, indent: int, depth: int) -> None:
        i = self.name("i")
        over = self.chance(0.5)
        count = "mask.shape[0]" if over else self.trips()
        kind = self.pick(("range", "T.serial", "T.Pipelined"))
        self.has(f"loop {kind}")
        stages = ", num_stages=2" if kind == "T.Pipelined" else ""
        self.both(indent, f"for {i} in {kind}({count}{stages}):", f"for {i} in range({count}):")

        def body(at: int) -> None:
            if self.chance(0.3) and kind != "T.Pipelined":
                what = self.pick(("break", "continue"))
                self.has(what)
                self.both(at, f"if {self.condition()}:")
                self.both(at + 1, what)
            self.statements(at, depth + 1, 2)

        self.inside(indent, body, (i,), loaded=over)

    def while_loop(self, indent: int, depth: int) -> None:
        w = self.name("w")
        self.has("while")
        trips = self.trips()
        self.both(indent, f"{w} = 0")
        self.both(indent, f"while {w} < {trips}:")

        def body(at: int) -> None:
            self.both(at, f"{w} = {w} + 1")
            self.statements(at, depth + 1, 2)

        times = self.times
        self.times *= int(trips) if trips.isdigit() else 1
        self.inside(indent, body, (w,))
        self.times = times

    def early_return(self, indent: int, depth: int) -> None:
        condition = self.condition()
        while "FLAG" in condition or "BK" in condition:
            condition = self.condition()
        self.has("early return")
        self.both(indent, f"if {condition}:")
        self.both(indent + 1, "return")

    # Statements ------------------------------------------------------------------------------------------------------

    def round(self, indent: int, depth: int) -> None:
        """A round of a ring: one role brings two tiles, the other multiplies them."""
        self.rounds += 1
        ring = self.random.randrange(len(self.rings))
        slots, c = self.rings[ring], f"c{ring}"
        part = f"[{c} % {slots}, :, :]" if slots > 1 else ""
        slot = f"[{c} % {slots}]" if slots > 1 else ""
        parity = f"{c} // {slots} % 2" if slots > 1 else f"{c} % 2"
        a, b = f"a{ring}", f"b{ring}"
        size = slots * 2 * self.inner * (self.rows + self.columns) * self.times
        if self.bytes + size < LIMIT and self.chance(0.4):
            self.bytes += size
            a, b = self.name("left"), self.name("right")
            self.has("allocation under control flow" if indent > self.base else "allocation between statements")
            lead = f"{slots}, " if slots > 1 else ""
            self.ours(indent, f"{a} = T.alloc_shared(({lead}BM, BK), A.dtype)")
            self.ours(indent, f"{b} = T.alloc_shared(({lead}{self.b_rows}), A.dtype)")
        k = self.pick((*self.loaded, *self.loaded, *self.ints, "0"))
        paged = k in self.loaded and self.transposed and self.chance(0.4)
        self.ours(indent, f"with {self.bring}:", f"    T.barrier_wait(free{ring}{slot}, ({parity}) ^ 1)")
        if self.chance(0.2):
            self.has("operand by the role's threads")
            place = f"{c} % {slots}, i, j" if slots > 1 else "i, j"
            self.ours(indent + 1, "for i, j in T.Parallel(BM, BK):", f"    {a}[{place}] = A[by * BM + i, {k} * BK + j]")
        else:
            self.ours(indent + 1, f"T.tma_copy(A[by * BM, {k} * BK], {a}{part}, barrier=ready{ring}{slot})")
        if paged:
            self.has("page number loaded in a loop")
            source, plain = f"pages[table[{k}], 0, 0]", f"pages, (table[{k}], 0, 0)"
        elif self.transposed:
            source, plain = f"B[bx * BN, {k} * BK]", f"B, (bx * BN, {k} * BK)"
        else:
            source, plain = f"B[{k} * BK, bx * BN]", f"B, ({k} * BK, bx * BN)"
        self.ours(indent + 1, f"T.tma_copy({source}, {b}{part}, barrier=ready{ring}{slot})")
        self.ours(indent + 1, f"T.barrier_arrive(ready{ring}{slot})")
        self.ours(indent, f"with {self.work}:", f"    T.barrier_wait(ready{ring}{slot}, {parity})")
        self.ours(indent + 1, f"T.gemm({a}{part}, {b}{part}, acc, transpose_B={self.transposed})")
        self.ours(indent + 1, f"T.barrier_arrive(free{ring}{slot})")
        self.theirs(indent, f"load(A, (by * BM, {k} * BK), left)", f"load({plain}, right)")
        self.theirs(
            indent, f"acc += left.astype(np.float32) @ right.astype(np.float32){'.T' if self.transposed else ''}"
        )
        self.both(indent, f"{c} = {c} + 1")

    @property
    def b_rows(self) -> str:
        return "BN, BK" if self.transposed else "BK, BN"

    def on_accumulator(self, indent: int, depth: int) -> None:
        form = self.pick(("clamp", "less", "parity", "away", "shared", "row"))
        self.has(f"accumulator {form}")
        x = self.pick(self.ints)
        self.ours(indent, f"with {self.work}:")
        each = "for i, j in T.Parallel(BM, BN):"
        if form == "clamp":
            self.ours(indent + 1, each, "    acc[i, j] = T.max(T.min(acc[i, j], 1000.0), -1000.0)")
            self.theirs(indent, "acc = np.clip(acc, -1000, 1000)")
        elif form == "less":
            self.ours(indent + 1, each, "    acc[i, j] = acc[i, j] - 1.0")
            self.theirs(indent, "acc = acc - 1")
        elif form == "parity":
            self.ours(indent + 1, each, f"    acc[i, j] = acc[i, j] * T.cast({x} % 2, T.float32)")
            self.theirs(indent, f"acc = acc * np.float32({x} % 2)")
        elif form == "away":
            self.ours(indent + 1, "T.copy(acc, D[by * BM, bx * BN])")
            self.theirs(indent, "store(acc, D, by * BM, bx * BN)")
        elif form == "shared":
            self.ours(indent + 1, "T.copy(acc, staged)", "T.copy(staged, D[by * BM, bx * BN])")
            self.theirs(indent, "store(acc, D, by * BM, bx * BN)")
        else:
            self.ours(indent + 1, "T.reduce_max(acc, row, dim=1)", each)
            self.ours(indent + 2, "acc[i, j] = T.max(acc[i, j] - row[i], -1000.0)")
            self.theirs(indent, "acc = np.maximum(acc - acc.max(axis=1)[:, None], -1000)")

    def scalar(self, indent: int, depth: int) -> None:
        e = self.random.randrange(8)
        form = self.pick(("count", "load", "update", *["table"] * bool(self.loaded)))
        self.has(f"scalar {form}")
        if form == "count":
            self.both(
                indent, f"v = (v + {self.pick(self.ints)} + 1) % 97", f"v = int(v + {self.pick(('0',))} + 0) % 97"
            )
            term = self.kernel[-1].split("(v + ")[1].split(" + 1)")[0]
            self.plain[-1] = "    " * indent + f"v = (v + {term} + 1) % 97"
        elif form == "load":
            self.both(indent, f"v = X[tile, {e}] % 97", f"v = int(X[tile, {e}]) % 97")
        elif form == "table":
            k = self.pick(self.loaded)
            self.both(indent, f"v = (v + T.cast(table[{k}], T.int32)) % 97", f"v = (v + table[{k}]) % 97")
        else:
            self.ours(indent, f"with {self.work}:", f"    X[tile, {8 + e}] = X[tile, {8 + e}] + v")
            self.theirs(indent, f"X[tile, {8 + e}] += v")

    # The whole -------------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        pick = self.pick
        across, down = pick(((1, 1), (2, 1), (1, 2), (2, 2))) if self.shape != "one" else (1, 1)
        m = (down - 1) * self.rows + pick((self.rows, self.rows, self.rows - 24, 1))
        n = (across - 1) * self.columns + pick((self.columns, self.columns, self.columns - 8))
        k = pick((self.inner, 3 * self.inner, 4 * self.inner + 8, 2 * self.inner + 8, 8))
        pages, entries = pick((1, 3, 5)), pick((0, 1, 2, 3, 5))
        if m % self.rows or n % self.columns or k % self.inner:
            self.has("odd sizes")
        self.has(f"shape {self.shape}")
        self.has(f"index {self.index}")
        for slots in self.rings:
            self.has(f"{slots} slots")
        late = self.chance(0.4) and self.shape != "strided"  # buffers and barriers behind an early return
        flag = pick((True, False))
        if late:
            self.early_return(self.base, 0)
            self.has("allocation behind an early return")
        self.allocations(self.base)
        self.statements(self.base, 0, 3)
        if not self.rounds:
            self.round(self.base, 0)
        shapes: dict[str, tuple[int, ...]] = {
            "A": (m, k),
            "B": (n, k) if self.transposed else (k, n),
            "pages": (pages, self.columns, self.inner),
            "table": (entries,),
            "mask": (entries,),
            "X": (across * down, THREAD_ROWS),
            "C": (m, n),
            "D": (m, n),
        }
        if self.shape == "strided":
            self.drop_front()
        element = ml_dtypes.bfloat16 if self.element == "bfloat16" else np.float16
        dtypes = dict.fromkeys(("A", "B", "pages"), element) | {"table": np.dtype(self.index), "mask": np.int32}
        dtypes |= {"X": np.int32, "C": np.float32, "D": np.float32}
        text, reference = self.kernel_text(flag, across, down), self.reference_text(flag, across, down)
        return Program(text, reference, shapes, dtypes, self.random.randrange(5), frozenset(self.constructs), self.seed)

    def allocations(self, indent: int) -> None:
        """Barriers, buffers of the rings and their counts. With tiles in a loop they stand in front of it."""
        self.front = len(self.kernel)
        self.counting = True
        for ring, slots in enumerate(self.rings):
            for name, count in (("ready", 128), ("free", 128 * self.workers)):
                counts = f"[{count}] * {slots}" if slots > 1 else str(count)
                self.ours(indent, f"{name}{ring} = T.alloc_barrier({counts})")
            lead = f"{slots}, " if slots > 1 else ""
            self.ours(indent, f"a{ring} = T.alloc_shared(({lead}BM, BK), A.dtype)")
            self.ours(indent, f"b{ring} = T.alloc_shared(({lead}{self.b_rows}), A.dtype)")
        self.ours(indent, "staged = T.alloc_shared((BM, BN), T.float32)")
        self.fronted = self.kernel[self.front :] if self.shape == "strided" else []
        for ring in range(len(self.rings)):
            if self.shape != "strided":
                self.both(indent, f"c{ring} = 0")
        self.ours(indent, "acc = T.alloc_fragment((BM, BN), T.float32)", "row = T.alloc_fragment((BM,), T.float32)")
        self.ours(indent, f"with {self.work}:", "    T.clear(acc)")
        self.theirs(indent, "acc = np.zeros((BM, BN), np.float32)")

    def drop_front(self) -> None:
        """Takes the rings' allocations out of the loop over tiles: kernel_text writes them in front of it."""
        for line in self.fronted:
            self.kernel.remove(line)

    def head(self, flag: bool) -> str:
        return f"BM, BN, BK, FLAG = {self.rows}, {self.columns}, {self.inner}, {flag}\n"

    def kernel_text(self, flag: bool, across: int, down: int) -> str:
        threads = 128 * (self.workers + 1)
        b_shape = '("N", "K")' if self.transposed else '("K", "N")'
        grid = f"T.Kernel({across}, {down}, threads={threads}) as (bx, by)"
        if self.shape != "grid":
            grid = f"T.Kernel(1, threads={threads}) as block"
        text = f"""import minitile.language as T

{self.head(flag)}

def kernel(
    A: T.Tensor(("M", "K"), T.{self.element}),
    B: T.Tensor({b_shape}, T.{self.element}),
    pages: T.Tensor(("P", BN, BK), T.{self.element}),
    table: T.Tensor(("W",), T.{self.index}),
    mask: T.Tensor(("W",), T.int32),
    X: T.Tensor(("tiles", {THREAD_ROWS}), T.int32),
    C: T.Tensor(("M", "N"), T.float32),
    D: T.Tensor(("M", "N"), T.float32),
    n: T.int32,
):
    K = A.shape[1]
    with {grid}:
        kt = T.ceildiv(K, BK)
"""
        if self.shape == "one":
            text += "        bx, by = block, block\n"
        elif self.shape == "strided":
            text += "\n".join([*(line[4:] for line in self.fronted), ""])
            text += "".join(f"        c{ring} = 0\n" for ring in range(len(self.rings)))
            text += f"        for turn in range(block, {across * down}):\n"
            text += f"            by, bx = turn // {across}, turn % {across}\n"
        pad = "    " * self.base
        ends = [f"with {self.work}:", "    T.copy(acc, C[by * BM, bx * BN])", "    X[tile, 63] = v"]
        lines = [f"tile = by * {across} + bx", "v = n + 1"]
        return text + "\n".join([*(pad + x for x in lines), *self.kernel, *(pad + x for x in ends), ""])

    def reference_text(self, flag: bool, across: int, down: int) -> str:
        shift, pad = self.base - 2, "    " * 2
        lines = [
            f"tile = by * {across} + bx",
            "v = n + 1",
            *(f"c{ring} = counts[{ring}]" for ring in range(len(self.rings))),
            "left = np.zeros((BM, BK), A.dtype)",
            f"right = np.zeros(({self.b_rows}), A.dtype)",
        ]
        ends = ["store(acc, C, by * BM, bx * BN)", "X[tile, 63] = v"]
        if self.shape == "strided":  # the counts go on from tile to tile
            ends += [f"counts[{ring}] = c{ring}" for ring in range(len(self.rings))]
        body = "\n".join(
            [*(pad + x for x in lines), *(line[4 * shift :] for line in self.plain), *(pad + x for x in ends)]
        )
        return f"""{self.head(flag)}

def reference(A, B, pages, table, mask, X, C, D, n):
    table = Numbers([int(x) for x in table])
    K = A.shape[1]
    kt = T.ceildiv(K, BK)
    counts = [0, 0]

    def block(bx, by):
{body}

    for by in range({down}):
        for bx in range({across}):
            block(bx, by)
"""


def write(seed: int) -> Program:
    """The program of a seed."""
    return Writer(seed).program()
