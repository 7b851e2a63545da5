"""Random programs as users write them, each with the same program in plain NumPy beside it.

`write(seed)` gives a `Program`: the kernel's source, and the source of `reference`, which computes in NumPy, block
after block and statement after statement, what the kernel must leave in its arrays. Both texts come from the same draws
and nothing of the compiler is used for the second one. A program mixes

* allocation (anywhere: in front, behind an early return, in branches, loops and macros), copies, gemms, reductions,
  element-wise loops, stores by threads, atomics, scalars that are stored and loaded;
* `if`, `if`/`else`, `while`, `for` of 0, 1 or n trips, `break`, `continue`, early `return`, `T.Pipelined`,
  `T.Persistent`, macros;
* conditions that are compile-time, uniform, per block, loaded, per thread; page numbers and masks loaded in the loop;
* indices of 32 and 64 bits, signed and unsigned; sizes 0, 1, odd.

All numbers are small integers, exact in every dtype used, so results are compared bit for bit. `Program.constructs`
says what a program has. `explicit_programs.py` beside this file does the same for explicit roles and barriers.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.fuzz.references import THREAD_ROWS, Pages, Program


class Writer(Pages):
    """Writes one program, and its reference beside it. What is defined is followed through branches and loops, so that
    nothing is read that was not written on every path."""

    def __init__(self, seed: int) -> None:
        super().__init__("user", seed)
        pick = self.pick
        self.rows = pick((64, 64, 64, 128))
        self.threads = pick((128, 128, 256)) if self.rows == 128 else 128
        self.columns, self.inner = pick((16, 32, 32)), pick((16, 32, 32))
        self.element = pick(("bfloat16", "float16"))
        self.transposed = pick((True, True, False))
        self.index = pick(("int32", "int32", "int32", "int64", "uint32", "uint64"))
        self.scratch = pick(("int32", "int32", "int32", "int64", "uint32"))
        self.count = pick(("int32", "int32", "int64"))
        self.shape = pick(("grid", "grid", "grid", "one", "persistent", "strided"))
        self.gemms = 0
        self.ints: list[str] = ["n", "bx", "by"]
        self.loaded: list[str] = []  # loop variables that are indices of table and mask
        self.tiles: dict[str, str] = {}  # shared buffers in scope, by name: their kind
        self.defined: set[str] = set()  # buffers with contents
        self.macros: set[str] = set()

    # Numbers and conditions ------------------------------------------------------------------------------------------

    def small(self) -> str:
        """An index that is small and not negative."""
        return self.pick((*self.ints, "0", "1", "2"))

    def trips(self) -> str:
        what = self.pick(
            (
                "0",
                "1",
                "2",
                "3",
                "n",
                "n",
                "n % 3",
                "bx + 1",
                "T.max(n, 1)",
                "kt",
                "kt",
                "kt",
                "T.min(v, 3)",
                "by + n % 2",
            )
        )
        self.has(f"trips {what}")
        return what

    def condition(self, element: str | None = None) -> str:
        """A condition that all threads of the block agree on."""
        kind = self.pick(("constant", "uniform", "uniform", "block", "loaded", "loaded", "scalar", "both"))
        x = self.pick(self.ints)
        if kind == "loaded":
            if self.loaded:
                self.has("condition loaded in a loop")
                return self.pick(("mask[{0}] != 0", "mask[{0}] == 0", "table[{0}] > 1")).format(self.pick(self.loaded))
            self.has("condition loaded")
            return f"X[tile, {self.random.randrange(8)}] {self.pick(('> 1', '< 3', '!= 2'))}"
        self.has(f"condition {kind}")
        if kind == "constant":
            return self.pick(("FLAG", "not FLAG", "BM > 64", "BK < 32"))
        if kind == "block":
            return self.pick(("bx == 0", "by == 0", "(bx + by) % 2 == 0", "bx < n"))
        if kind == "scalar":
            return self.pick(("v > 3", "v % 2 == 0", "v < 1"))
        if kind == "both":
            return self.pick((f"{x} > 0 and v % 3 != 1", f"n == 1 or {x} < 2", f"not ({x} == 1)"))
        return f"{x} {self.pick(('% 2 == 0', '> 1', '< 2', '!= 1', '> 0'))}"

    # Buffers ---------------------------------------------------------------------------------------------------------

    def shared(self, indent: int, kind: str) -> str:
        """A shared buffer: one in scope, or a new one that is allocated here."""
        there = [name for name, what in self.tiles.items() if what == kind]
        if there and self.chance(0.55):
            return self.pick(there)
        name = self.name(kind)
        if indent > self.base:
            self.has("allocation under control flow")
        self.allocate(indent, name, kind)
        return name

    def allocate(self, indent: int, name: str, kind: str) -> None:
        shape, dtype, numpy = {
            "a": ("(BM, BK)", "A.dtype", "A.dtype"),
            "b": (self.b_tile, "A.dtype", "A.dtype"),
            "p": ("(BN, BK)", "A.dtype", "A.dtype"),
            "c": ("(BM, BN)", "T.float32", "np.float32"),
            "h": ("(BM, BN)", "A.dtype", "A.dtype"),
            "s": (f"({THREAD_ROWS},)", "T.int32", "np.int64"),
            "r": (f"(2, {THREAD_ROWS})", "T.int32", "np.int64"),
        }[kind]
        self.both(indent, f"{name} = T.alloc_shared({shape}, {dtype})", f"{name} = np.full({shape}, 99, {numpy})")
        self.tiles[name] = kind

    @property
    def b_tile(self) -> str:
        return "(BN, BK)" if self.transposed else "(BK, BN)"

    # Regions ---------------------------------------------------------------------------------------------------------

    def inside(
        self, indent: int, body: Callable[[int], None], ints: tuple[str, ...] = (), loaded: bool = False
    ) -> set[str]:
        """What `body` writes one level deeper. Names and contents of the region end with it, as they may not have come
        about; gives what was defined at its end."""
        before = (self.ints, self.loaded, dict(self.tiles), set(self.defined))
        self.ints = [*self.ints, *ints]
        self.loaded = [*self.loaded, *ints] if loaded else self.loaded
        at = len(self.kernel)
        body(indent + 1)
        if len(self.kernel) == at:
            self.both(indent + 1, "v = (v + 1) % 97")
        end = set(self.defined)
        self.ints, self.loaded, self.tiles, self.defined = before
        return end

    def statements(self, indent: int, depth: int, most: int) -> None:
        simple = [
            self.elementwise,
            self.reduce,
            self.by_threads,
            self.scalar,
            self.through_shared,
            self.copy_away,
            self.atomic,
        ]
        heavy = [self.gemm_loop, self.gemm_loop, self.gemm_loop, self.one_gemm, self.chain, self.macro_gemm]
        nested = [self.loop, self.while_loop, self.branch, self.branch]
        for _ in range(self.random.randint(1, most)):
            kinds: list[Callable[[int, int], None]] = list(simple)
            if self.gemms < 4:
                kinds += heavy + heavy
            if depth < 3:
                kinds += nested
            if depth <= 1 and self.shape in ("grid", "one") and self.ints == ["n", "bx", "by"]:  # in no loop
                kinds.append(self.early_return)
            self.pick(kinds)(indent, depth)

    def branch(self, indent: int, depth: int) -> None:
        self.both(indent, f"if {self.condition()}:")
        first = self.inside(indent, lambda at: self.statements(at, depth + 1, 2))
        self.has("if")
        if self.chance(0.5):
            self.has("if else")
            self.both(indent, "else:")
            second = self.inside(indent, lambda at: self.statements(at, depth + 1, 2))
            self.defined |= first & second & set(self.tiles)

    def loop(self, indent: int, depth: int) -> None:
        i = self.name("i")
        over = self.chance(0.3)
        count = "mask.shape[0]" if over else self.trips()
        self.both(indent, f"for {i} in {self.pick(('range', 'T.serial'))}({count}):", f"for {i} in range({count}):")
        self.has("serial loop")

        def body(at: int) -> None:
            if self.chance(0.3):
                what = self.pick(("break", "continue"))
                self.has(what)
                self.statements(at, depth + 1, 1)
                self.both(at, f"if {self.condition()}:")
                self.both(at + 1, what)
            self.statements(at, depth + 1, 2)

        self.inside(indent, body, (i,), loaded=over)

    def while_loop(self, indent: int, depth: int) -> None:
        w = self.name("w")
        more = f" and ({self.condition()})" if self.chance(0.3) else ""
        self.both(
            indent, f"{w} = T.min(T.cast(n, T.int32), 0)", f"{w} = 0"
        )  # a loop at run time, which `break` may leave
        self.both(indent, f"while {w} < {self.trips()}{more}:")
        self.has("while")

        def body(at: int) -> None:
            self.both(at, f"{w} = {w} + 1")
            if self.chance(0.2):
                what = self.pick(("break", "continue"))
                self.has(f"{what} in while")
                self.both(at, f"if {self.condition()}:")
                self.both(at + 1, what)
            self.statements(at, depth + 1, 2)

        self.inside(indent, body, (w,))

    def early_return(self, indent: int, depth: int) -> None:
        condition = self.condition()
        while condition in ("FLAG", "BM > 64", "not FLAG", "BK < 32"):
            condition = self.condition()
        self.has("early return" if depth == 0 else "early return in a region")
        self.both(indent, f"if {condition}:")
        if self.chance(0.3):
            self.both(indent + 1, "X[tile, 9] = 7")
        self.both(indent + 1, "return")

    # Tiles -----------------------------------------------------------------------------------------------------------

    def bring_a(self, indent: int, a: str, k: str) -> None:
        if self.chance(0.15):
            self.has("operand by elements")
            self.ours(indent, "for i, j in T.Parallel(BM, BK):", f"    {a}[i, j] = A[by * BM + i, {k} * BK + j]")
            self.theirs(indent, f"load(A, (by * BM, {k} * BK), {a})")
        elif self.chance(0.15):
            self.has("macro")
            self.macros.add("bring")
            self.both(indent, f"bring(A, by * BM, {k} * BK, {a})")
        else:
            self.both(indent, f"T.copy(A[by * BM, {k} * BK], {a})", f"load(A, (by * BM, {k} * BK), {a})")
        self.defined.add(a)

    def bring_b(self, indent: int, b: str, k: str) -> None:
        kind = b.rstrip("0123456789")
        if kind == "p":
            table = f"table[{k}]"
            # An index of u64 has no common dtype with a dimension.
            form = self.pick(("direct", "direct", "name", "direct" if self.index == "uint64" else "twice"))
            self.has(f"page number loaded in a loop, {form}")
            if form == "name":
                page = self.name("page")
                self.both(indent, f"{page} = {table}")
                table = page
            elif form == "twice":
                table = f"table[table[{k}] % table.shape[0]]"
            self.both(indent, f"T.copy(pages[{table}, 0, 0], {b})", f"load(pages, (int({table}), 0, 0), {b})")
        elif self.transposed:
            self.both(indent, f"T.copy(B[bx * BN, {k} * BK], {b})", f"load(B, (bx * BN, {k} * BK), {b})")
        else:
            self.both(indent, f"T.copy(B[{k} * BK, bx * BN], {b})", f"load(B, ({k} * BK, bx * BN), {b})")
        self.defined.add(b)

    def multiply(self, indent: int, a: str, b: str, into: str, transposed: bool) -> None:
        self.gemms += 1
        self.both(
            indent,
            f"T.gemm({a}, {b}, {into}, transpose_B={transposed})",
            f"{into} += {a}.astype(np.float32) @ {b}.astype(np.float32){'.T' if transposed else ''}",
        )
        # Numbers stay exact however often this runs.
        if self.chance(0.3):
            self.clamp(indent, into, 1000)

    def clamp(self, indent: int, what: str, most: int) -> None:
        self.ours(indent, "for i, j in T.Parallel(BM, BN):")
        self.ours(indent + 1, f"{what}[i, j] = T.max(T.min({what}[i, j], {most}.0), -{most}.0)")
        self.theirs(indent, f"{what} = np.clip({what}, -{most}, {most})")

    def gemm_loop(self, indent: int, depth: int) -> None:
        """A loop, pipelined or not, that brings tiles and multiplies them; one part or the other, or both, under a
        condition."""
        paged = self.chance(0.35)
        over = paged or self.chance(0.2)
        into = self.pick(("acc", "other"))
        early = self.chance(0.7)  # buffers in front of the loop
        k = self.name("k")
        transposed = True if paged else self.transposed
        kind = "p" if paged else "b"
        a = b = ""
        if early:
            a, b = self.shared(indent, "a"), self.shared(indent, kind)
        fixed = early and self.chance(0.2)
        if fixed:
            self.has("operand in front of the loop")
            self.bring_a(indent, a, "0")
        if self.chance(0.2):
            self.both(indent, f"T.clear({into})", f"{into}[...] = 0")
        stages = self.pick((0, 1, 2, 2, 2, 3, 4))
        self.has(f"stages {stages}")
        trips = "mask.shape[0]" if over else self.trips()
        if self.chance(0.85):
            self.has("T.Pipelined")
            head = f"for {k} in T.Pipelined({trips}, num_stages={stages}):"
        else:
            head = f"for {k} in T.serial({trips}):"
        self.both(indent, head, f"for {k} in range({trips}):")
        form = self.pick(("always", "always", "always", "gemm", "gemm", "all", "either"))
        self.has(f"condition around {form}" if form != "always" else "no condition in the loop")

        def body(at: int) -> None:
            x, y = (a, b) if early else (self.shared(at, "a"), self.shared(at, kind))
            if form == "all":
                self.both(at, f"if {self.condition()}:")
                at += 1
            if not fixed:
                self.bring_a(at, x, k)
            if form == "either":
                self.both(at, f"if {self.condition()}:")
                self.bring_b(at + 1, y, k)
                self.both(at, "else:")
                if paged:
                    self.both(at + 1, f"T.copy(pages[0, 0, 0], {y})", f"load(pages, (0, 0, 0), {y})")
                elif transposed:
                    self.both(at + 1, f"T.copy(B[0, {k} * BK], {y})", f"load(B, (0, {k} * BK), {y})")
                else:
                    self.both(at + 1, f"T.copy(B[{k} * BK, 0], {y})", f"load(B, ({k} * BK, 0), {y})")
            else:
                self.bring_b(at, y, k)
            if self.chance(0.15):
                self.scalar(at, depth + 1)
            if form == "gemm":
                self.both(at, f"if {self.condition()}:")
                self.multiply(at + 1, x, y, into, transposed)
                if self.chance(0.2):
                    self.both(at, "else:")
                    self.both(at + 1, "v = (v + 5) % 97")
            else:
                self.multiply(at, x, y, into, transposed)
            if self.chance(0.2):
                self.pick((self.elementwise, self.reduce, self.scalar, self.by_threads))(at, depth + 1)

        self.inside(indent, body, (k,), loaded=over)

    def one_gemm(self, indent: int, depth: int) -> None:
        self.has("gemm outside a loop")
        a, b = self.shared(indent, "a"), self.shared(indent, "b")
        k = self.small()
        self.bring_a(indent, a, k)
        self.bring_b(indent, b, k)
        self.multiply(indent, a, b, self.pick(("acc", "other")), self.transposed)

    def chain(self, indent: int, depth: int) -> None:
        """A product of the accumulator, through registers or shared memory; its numbers are clamped for the cast."""
        self.has("chained gemm")
        self.gemms += 1
        self.clamp(indent, "other", 4)
        self.both(indent, "T.copy(other, weights)", "weights[...] = other")
        v = self.name("q")
        self.both(indent, f"{v} = T.alloc_shared((BN, BN), A.dtype)", f"{v} = np.full((BN, BN), 99, A.dtype)")
        self.both(indent, f"T.copy(Q[{self.pick(('0', 'n', 'bx'))} * 8, 0], {v})", "")
        start = self.kernel[-1].split("Q[")[1].split(",")[0]
        self.plain[-1] = "    " * indent + f"load(Q, ({start}, 0), {v})"
        if self.chance(0.5):
            h = self.shared(indent, "h")
            self.both(indent, f"T.copy(weights, {h})", f"{h}[...] = weights")
            self.defined.add(h)
            self.both(indent, f"T.gemm({h}, {v}, acc)", f"acc += {h}.astype(np.float32) @ {v}.astype(np.float32)")
        else:
            self.both(
                indent, f"T.gemm(weights, {v}, acc)", f"acc += weights.astype(np.float32) @ {v}.astype(np.float32)"
            )

    def macro_gemm(self, indent: int, depth: int) -> None:
        """A macro that allocates, copies and multiplies."""
        self.has("macro with allocations")
        self.macros.add("product")
        self.gemms += 1
        into = self.pick(("acc", "other"))
        k = self.small()
        self.both(indent, f"product(A, B, bx, by, {k}, {into})")

    # Simple statements -----------------------------------------------------------------------------------------------

    def elementwise(self, indent: int, depth: int) -> None:
        into, other = self.random.sample(("acc", "other"), 2)
        x = self.pick(self.ints)
        readable = [name for name in self.defined if self.tiles.get(name) == "c"]
        forms = ["add", "one", "mask", "parity", "edge", "guard"] + ["shared"] * 2 * bool(readable)
        form = self.pick(forms)
        self.has(f"element-wise {form}")
        self.ours(indent, "for i, j in T.Parallel(BM, BN):")
        self.theirs(indent, "i, j = np.indices((BM, BN))")
        new = f"{into}[i, j]"
        if form == "add":
            self.ours(indent + 1, f"{new} = T.max(T.min({new} + {other}[i, j], 1000.0), -1000.0)")
            self.theirs(indent, f"{into} = np.clip({into} + {other}, -1000, 1000)")
        elif form == "one":
            self.ours(indent + 1, f"{new} = {new} - 1.0")
            self.theirs(indent, f"{into} = {into} - 1")
        elif form == "mask":
            self.ours(indent + 1, f"{new} = T.if_then_else(i > j + {x}, {new}, 0.0)")
            self.theirs(indent, f"{into} = np.where(i > j + {x}, {into}, 0).astype(np.float32)")
        elif form == "parity":
            self.ours(indent + 1, f"{new} = {new} * T.cast({x} % 2, T.float32)")
            self.theirs(indent, f"{into} = {into} * np.float32({x} % 2)")
        elif form == "edge":  # reads of a tensor at places that may be outside
            self.ours(indent + 1, f"{new} = {new} + T.cast(A[by * BM + i, j + {x}], T.float32)")
            self.theirs(indent, f"{into} = {into} + at(A, by * BM + i, j + {x}).astype(np.float32)")
        elif form == "guard":
            self.ours(indent + 1, f"if i < {x} * 8 and j != 3:", f"    {new} = 2.0")
            self.theirs(indent, f"{into} = np.where((i < {x} * 8) & (j != 3), 2, {into}).astype(np.float32)")
        else:
            c = self.pick(sorted(readable))
            place = self.pick(("i, j", "BM - 1 - i, j", "i, BN - 1 - j"))
            self.ours(indent + 1, f"{new} = T.max(T.min({new} + {c}[{place}], 1000.0), -1000.0)")
            self.theirs(indent, f"{into} = np.clip({into} + {c}[{place}], -1000, 1000)")

    def reduce(self, indent: int, depth: int) -> None:
        into = self.pick(("acc", "other"))
        kind, axis = self.pick(("max", "min", "sum")), self.pick((0, 1))
        self.has(f"reduce_{kind} dim {axis}")
        row, i = (("row", "i"), ("column", "j"))[axis == 0]
        if kind == "sum":
            self.clamp(indent, into, 1000)
        self.both(indent, f"T.reduce_{kind}({into}, {row}, dim={axis})", f"{row} = {into}.{kind}(axis={axis})")
        self.ours(indent, "for i, j in T.Parallel(BM, BN):")
        self.ours(indent + 1, f"{into}[i, j] = T.max(T.min({into}[i, j] - {row}[{i}], 1000.0), -1000.0)")
        along = f"{row}[:, None]" if axis == 1 else f"{row}[None, :]"
        self.theirs(indent, f"{into} = np.clip({into} - {along}, -1000, 1000)")

    def through_shared(self, indent: int, depth: int) -> None:
        source = self.pick(("acc", "other"))
        c = self.shared(indent, "c")
        self.has("accumulator through shared memory")
        self.both(indent, f"T.copy({source}, {c})", f"{c}[...] = {source}")
        self.defined.add(c)
        if self.chance(0.5):
            self.both(indent, f"T.copy({c}, D[by * BM, bx * BN])", f"store({c}, D, by * BM, bx * BN)")

    def copy_away(self, indent: int, depth: int) -> None:
        self.has("accumulator to a tensor")
        source = self.pick(("acc", "other"))
        self.both(indent, f"T.copy({source}, D[by * BM, bx * BN])", f"store({source}, D, by * BM, bx * BN)")

    def limit(self) -> str:
        return self.pick(("n", "n * 16", "17", "64", "T.min(v, 64)", "bx * 32 + 5", "1", "0"))

    def by_threads(self, indent: int, depth: int) -> None:
        """Statements of single threads, which know their number."""
        readable = sorted(name for name in self.defined if self.tiles.get(name) == "s")
        form = self.pick(("if", "if else", "strided", "rows", "tensor", *["read"] * 3 * bool(readable)))
        self.has(f"per thread: {form}")
        x = self.pick(self.ints)
        size = THREAD_ROWS
        t = "for t in range(THREADS):"
        if form == "read":
            s = self.pick(readable)
            limit = self.limit()
            self.ours(
                indent,
                f"if t < {size} and t < {limit}:",
                f"    X[tile, t] = T.cast({s}[{size - 1} - t], T.{self.scratch})",
            )
            self.theirs(indent, t, f"    if t < {size} and t < {limit}:", f"        X[tile, t] = {s}[{size - 1} - t]")
            return
        if form == "tensor":
            limit = self.limit()
            self.ours(indent, f"if t < {size} and t >= {limit}:", f"    X[tile, t] = T.cast(t + {x}, T.{self.scratch})")
            self.theirs(indent, t, f"    if t < {size} and t >= {limit}:", f"        X[tile, t] = t + {x}")
            return
        if form == "rows":
            r = self.shared(indent, "r")
            self.both(indent, "v = (v + 1) % 97")
            for row in (0, 1):  # all of it, so that it is defined
                self.ours(indent, f"if t < {size}:", f"    {r}[{row}, t] = {row}")
                self.theirs(indent, f"{r}[{row}, :] = {row}")
            limit = self.limit()
            self.ours(indent, f"if t < {size} and t < {limit}:", f"    {r}[0, t] = t", f"    {r}[1, t] = v - t")
            self.theirs(
                indent, t, f"    if t < {size} and t < {limit}:", f"        {r}[0, t] = t", f"        {r}[1, t] = v - t"
            )
            self.ours(
                indent,
                f"if t < {size}:",
                f"    X[tile, t] = T.cast({r}[0, {size - 1} - t] + {r}[1, t] + 97, T.{self.scratch})",
            )
            self.theirs(
                indent, t, f"    if t < {size}:", f"        X[tile, t] = {r}[0, {size - 1} - t] + {r}[1, t] + 97"
            )
            return
        s = self.shared(indent, "s")
        if form == "strided":
            self.ours(indent, f"for q in range(t, {size}, THREADS):", f"    {s}[q] = q * 2 + v")
            self.theirs(indent, f"for q in range({size}):", f"    {s}[q] = q * 2 + v")
            self.defined.add(s)
            return
        if s not in self.defined:
            self.ours(indent, f"if t < {size}:", f"    {s}[t] = 1")
            self.theirs(indent, f"{s}[:] = 1")
            self.defined.add(s)
        limit = self.limit()
        self.ours(indent, f"if t < {size} and t < {limit}:", f"    {s}[t] = t + {x}")
        self.theirs(indent, t, f"    if t < {size} and t < {limit}:", f"        {s}[t] = t + {x}")
        if form == "if else":
            self.ours(indent, f"elif t < {size}:", f"    {s}[t] = v - t")
            self.theirs(indent, f"    elif t < {size}:", f"        {s}[t] = v - t")

    def scalar(self, indent: int, depth: int) -> None:
        readable = sorted(name for name in self.defined if self.tiles.get(name) == "s")
        form = self.pick(
            (
                "load",
                "store",
                "update",
                "wide",
                "unsigned",
                "narrow",
                *["table"] * 2 * bool(self.loaded),
                *["shared"] * 2 * bool(readable),
            )
        )
        self.has(f"scalar {form}")
        e = self.random.randrange(8)
        wide = f"T.{self.scratch}"
        if form == "load":
            self.both(indent, f"v = T.cast(X[tile, {e}], T.int32) % 97", f"v = int(X[tile, {e}]) % 97")
        elif form == "store":
            self.both(indent, f"X[tile, {e}] = T.cast(v + {self.small()}, {wide})", "")
            value = self.kernel[-1].split("T.cast(")[1].split(", T.")[0]
            self.plain[-1] = "    " * indent + f"X[tile, {e}] = {value}"
        elif form == "update":
            self.both(indent, f"X[tile, {e}] = X[tile, {e}] + 5", f"X[tile, {e}] = int(X[tile, {e}]) + 5")
        elif form == "wide":
            kernel = "v = T.cast((T.cast(v, T.int64) * 1000003 + 4294967296) % 97, T.int32)"
            self.both(indent, kernel, "v = (v * 1000003 + 4294967296) % 97")
        elif form == "unsigned":
            kernel = "v = T.cast((T.cast(v, T.uint32) - T.cast(98, T.uint32)) >> 20, T.int32) % 97"
            self.both(indent, kernel, "v = (((v - 98) & 0xFFFFFFFF) >> 20) % 97")
        elif form == "narrow":
            self.both(indent, "v = T.cast(T.cast(v * 9, T.uint8), T.int32) % 97", "v = ((v * 9) & 255) % 97")
        elif form == "table":
            k = self.pick(self.loaded)
            self.both(indent, f"v = (v + T.cast(table[{k}], T.int32)) % 97", f"v = (v + int(table[{k}])) % 97")
        else:
            s = self.pick(readable)
            self.both(indent, f"v = ({s}[{e}] + v + 97) % 97", f"v = (int({s}[{e}]) + v + 97) % 97")

    def atomic(self, indent: int, depth: int) -> None:
        self.has("atomics")
        e = 16 + self.random.randrange(8)
        limit = self.limit()
        self.ours(indent, f"if t < {limit}:", f"    T.atomic_add(X[tile, {e}], T.cast(1, T.{self.scratch}))")
        self.theirs(indent, f"X[tile, {e}] = int(X[tile, {e}]) + max(0, min(THREADS, {limit}))")

    # The whole -------------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        pick = self.pick
        across, down = pick(((1, 1), (2, 1), (1, 2), (2, 2))) if self.shape != "one" else (1, 1)
        m = (down - 1) * self.rows + pick((self.rows, self.rows, self.rows - 24, self.rows - 3, 1))
        n = (across - 1) * self.columns + pick((self.columns, self.columns, self.columns - 5, self.columns - 8, 1))
        k = pick((self.inner, 3 * self.inner, 3 * self.inner, 4 * self.inner + 8, 2 * self.inner + 3, 1, 0))
        pages, entries = pick((1, 3, 5)), pick((0, 1, 2, 3, 5))
        if m % self.rows or n % self.columns or k % self.inner:
            self.has("odd sizes")
        for size in (k, entries):
            if not size:
                self.has("a size of 0")
        self.has(f"shape {self.shape}")
        self.has(f"index {self.index}")
        self.has(f"scratch {self.scratch}")
        self.has(f"count {self.count}")
        self.base = 3 if self.shape in ("persistent", "strided") else 2
        for kind in ("a", "b", "s", "c"):
            if self.chance(0.35):
                self.allocate(self.base, self.name(kind), kind)
        self.statements(self.base, 0, 4)
        if not self.gemms:
            self.gemm_loop(self.base, 0)
        flag = pick((True, False))
        text = self.kernel_text(flag, across, down)
        reference = self.reference_text(flag, across, down)
        b_shape = (n, k) if self.transposed else (k, n)
        shapes: dict[str, tuple[int, ...]] = {
            "A": (m, k),
            "B": b_shape,
            "pages": (pages, self.columns, self.inner),
            "table": (entries,),
            "mask": (entries,),
            "Q": (self.columns + 16, self.columns),
            "X": (across * down, THREAD_ROWS),
            "C": (m, n),
            "D": (m, n),
        }
        element = ml_dtypes.bfloat16 if self.element == "bfloat16" else np.float16
        dtypes = dict.fromkeys(("A", "B", "pages", "Q"), element) | {
            "table": np.dtype(self.index),
            "mask": np.int32,
        }
        dtypes |= {"X": np.dtype(self.scratch), "C": np.float32, "D": np.float32}
        count = self.random.randrange(5)
        return Program(text, reference, shapes, dtypes, count, frozenset(self.constructs), self.seed)

    def head(self, flag: bool) -> str:
        return f"BM, BN, BK, THREADS, FLAG = {self.rows}, {self.columns}, {self.inner}, {self.threads}, {flag}\n"

    def kernel_text(self, flag: bool, across: int, down: int) -> str:
        b_shape = '("N", "K")' if self.transposed else '("K", "N")'
        b_place = "bx * BN, k * BK" if self.transposed else "k * BK, bx * BN"
        text = f"import minitile.language as T\n\n{self.head(flag)}"
        if "bring" in self.macros:
            text += "\n\n@T.macro\ndef bring(source, row, column, tile):\n    T.copy(source[row, column], tile)\n"
        if "product" in self.macros:
            text += f"""

@T.macro
def product(A, B, bx, by, k, into):
    left = T.alloc_shared((BM, BK), A.dtype)
    right = T.alloc_shared({self.b_tile}, A.dtype)
    T.copy(A[by * BM, k * BK], left)
    T.copy(B[{b_place}], right)
    T.gemm(left, right, into, transpose_B={self.transposed})
"""
        grid = {
            "grid": f"T.Kernel({across}, {down}, threads=THREADS) as (bx, by)",
            "one": "T.Kernel(1, threads=THREADS) as block",
            "persistent": "T.Kernel(2, threads=THREADS) as block",
            "strided": "T.Kernel(2, threads=THREADS) as block",
        }[self.shape]
        text += f"""

def kernel(
    A: T.Tensor(("M", "K"), T.{self.element}),
    B: T.Tensor({b_shape}, T.{self.element}),
    pages: T.Tensor(("P", BN, BK), T.{self.element}),
    table: T.Tensor(("W",), T.{self.index}),
    mask: T.Tensor(("W",), T.int32),
    Q: T.Tensor(("R", BN), T.{self.element}),
    X: T.Tensor(("tiles", {THREAD_ROWS}), T.{self.scratch}),
    C: T.Tensor(("M", "N"), T.float32),
    D: T.Tensor(("M", "N"), T.float32),
    n: T.{self.count},
):
    K = A.shape[1]
    with {grid}:
        t = T.get_thread_binding()
        kt = T.ceildiv(K, BK)
"""
        if self.shape == "one":
            text += "        bx, by = block, block\n"
        elif self.shape == "persistent":
            text += f"        for by, bx in T.Persistent([{down}, {across}], 2, block):\n"
        elif self.shape == "strided":
            text += f"        for turn in range(block, {across * down}, 2):\n"
            text += f"            by, bx = turn // {across}, turn % {across}\n"
        pad = "    " * self.base
        lines = [
            f"tile = by * {across} + bx",
            "v = T.cast(n, T.int32) + 1",
            "acc = T.alloc_fragment((BM, BN), T.float32)",
            "other = T.alloc_fragment((BM, BN), T.float32)",
            "weights = T.alloc_fragment((BM, BN), A.dtype)",
            "row = T.alloc_fragment((BM,), T.float32)",
            "column = T.alloc_fragment((BN,), T.float32)",
            "T.clear(acc)",
            "T.clear(other)",
        ]
        ends = ["T.copy(acc, C[by * BM, bx * BN])", f"X[tile, 63] = T.cast(v, T.{self.scratch})"]
        return text + "\n".join([*(pad + x for x in lines), *self.kernel, *(pad + x for x in ends), ""])

    def reference_text(self, flag: bool, across: int, down: int) -> str:
        b_place = "bx * BN, k * BK" if self.transposed else "k * BK, bx * BN"
        lines = [
            f"tile = by * {across} + bx",
            "v = n + 1",
            "t = None",
            "acc = np.zeros((BM, BN), np.float32)",
            "other = np.zeros((BM, BN), np.float32)",
            "weights = np.zeros((BM, BN), A.dtype)",
        ]
        macros = f"""
def bring(source, row, column, tile):
    load(source, (row, column), tile)


def product(A, B, bx, by, k, into):
    left, right = np.zeros((BM, BK), A.dtype), np.zeros({self.b_tile}, A.dtype)
    load(A, (by * BM, k * BK), left)
    load(B, ({b_place}), right)
    into += left.astype(np.float32) @ right.astype(np.float32){".T" if self.transposed else ""}
"""
        shift = self.base - 2
        body = [line[4 * shift :] for line in self.plain]
        ends = ["store(acc, C, by * BM, bx * BN)", "X[tile, 63] = v"]
        pad = "    " * 2
        inner = "\n".join([*(pad + x for x in lines), *body, *(pad + x for x in ends)])
        return f"""{self.head(flag)}
{macros}

def reference(A, B, pages, table, mask, Q, X, C, D, n):
    table, mask = [int(x) for x in table], mask
    table = Numbers(table)
    K = A.shape[1]
    kt = T.ceildiv(K, BK)

    def block(bx, by):
{inner}

    for by in range({down}):
        for bx in range({across}):
            block(bx, by)
"""


def write(seed: int) -> Program:
    """The program of a seed."""
    return Writer(seed).program()
