"""Integer facts: the proofs that matter, and none that is wrong: random expressions are computed for random sizes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from minitile.analysis.affine import ZERO_MULTIPLE, Affine, Facts
from minitile.analysis.counterexamples import Examples
from minitile.analysis.proof import Proof
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.ir.parser import parse_kernel
from minitile.ir.types import I32, i64
from minitile.language.block_swizzle import rasterise
from minitile.transforms.canonicalize.simplify import simplify
from minitile.transforms.manager import PassContext


def named(kernel: Kernel) -> dict[str, Value]:
    """All values by their name."""
    values = {v.name: v for v in (*kernel.params, *kernel.dims.values())}
    for op in kernel.walk():
        values.update({v.name: v for v in (*op.results, *(a for r in op.regions for a in r.args))})
    return values


def facts_of(
    body: str, stage: str = "tile", facts: str = "M = 128, N = 64, K = 64"
) -> tuple[Facts, Callable[[str], Affine]]:
    kernel = parse_kernel(f"""{stage} kernel @k(%A: tensor<64xi32>, %n: i32)
        dims(M = %M: i32, N = %N: i32, K = %K: i32, L = %L: i32) facts {{{facts}}} attrs {{threads = 128}} {{
        {body}
    }}""")
    known, values = Facts(kernel), named(kernel)
    return known, lambda name: known.affine(values[name])


GRID = """
    %m1 = add %M, 127
    %m = floordiv %m1, 128
    %n1 = add %N, 127
    %nb = floordiv %n1, 128
    launch %m, %nb, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
      %t = thread_index
      %row = mul %bx, 128
      %col = mul %by, 128
      %k1 = add %K, 31
      %steps = floordiv %k1, 32
      for 0, %steps, 1 (%k: i32) {
        %depth = mul %k, 32
        %next = add %depth, 32
      }
    }
"""


def test_a_block_of_rows_is_inside_when_its_size_divides() -> None:
    facts, a = facts_of(GRID)
    assert facts.less(a("row") + 127, a("M"))
    assert facts.less(a("row") + a("t"), a("M"))
    assert facts.nonnegative(a("row"))
    assert not facts.less(a("row") + 128, a("M"))
    assert not facts.less(a("col") + 127, a("N")), "64 divides N, 128 need not"
    assert facts.less(a("col") + 63, a("N"))


def test_loops_stay_inside_likewise() -> None:
    facts, a = facts_of(GRID)
    assert facts.less(a("depth") + 31, a("K"))
    assert facts.nonnegative(a("K") - a("next"))
    assert not facts.less(a("next"), a("K"))
    facts, a = facts_of(GRID, facts="M = 128")
    assert not facts.less(a("depth") + 31, a("K"))
    assert facts.less(a("depth"), a("K"))


def test_steps_and_constant_bounds() -> None:
    facts, a = facts_of("""
      for 0, %K, 32 (%k: i32) { }
      for 4, 20, 4 (%j: i32) { %e = mul %j, 2 }
      for 0, %L, 32 (%l: i32) { }
    """)
    assert facts.less(a("k") + 31, a("K"))
    assert facts.multiple(a("k")) == 32
    assert facts.range(a("j")) == (4, 16)
    assert facts.range(a("e")) == (8, 32)
    assert facts.multiple(a("e")) == 8
    assert facts.less(a("l"), a("L"))
    assert not facts.less(a("l") + 1, a("L"))


def test_a_flattened_grid() -> None:
    facts, a = facts_of("""
    %m1 = add %M, 127
    %m = floordiv %m1, 128
    %n1 = add %N, 63
    %nb = floordiv %n1, 64
    %all = mul %m, %nb
    launch %all, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
      %i = floordiv %bx, %nb
      %j = floormod %bx, %nb
    }""")
    assert facts.less(a("i") * 128 + 127, a("M"))
    assert facts.less(a("j") * 64 + 63, a("N"))
    assert facts.range(a("i"))[0] == 0


def test_a_grouped_grid() -> None:
    """The order of blocks that shares rows in the cache: groups of 8 block rows, the last one smaller."""
    facts, a = facts_of("""
    %m1 = add %M, 127
    %m = floordiv %m1, 128
    launch %m, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
      %group = floordiv %bx, 8
      %first = mul %group, 8
      %left = sub %m, %first
      %size = min %left, 8
      %inside = floormod %by, %size
      %row = add %first, %inside
      %rows = mul %row, 128
    }""")
    assert facts.less(a("first"), a("m"))
    assert facts.nonnegative(a("size") - 1)
    assert facts.less(a("rows") + 127, a("M"))


@pytest.mark.parametrize("order", ["row", "col"])
@pytest.mark.parametrize("simplified", [False, True])
def test_blocks_in_panels(order: str, simplified: bool) -> None:
    dims = {name: Value(I32, None, 0, name) for name in ("M", "N")}
    b = Builder(Block())
    kernel = Kernel("k", (), dims, b.block, {"M": 128, "N": 64})
    height, width = b.floordiv(b.add(dims["M"], 127), 128), b.floordiv(b.add(dims["N"], 63), 64)
    launch = control.Launch((width, height, b.constant(1)), threads=256)
    bx, by, _ = (launch.body.add_arg(I32, name) for name in ("bx", "by", "bz"))
    b.emit(launch)
    with b.inside(launch.body):
        used = b.emit(tile.Print((b.mul(by, 128), b.mul(bx, 64)), text="%d %d"))
    rasterise(b, launch, order, 8)
    if simplified:
        simplify(kernel, PassContext())
        assert not any(isinstance(op, arith.FloorDiv) for op in launch.body.ops), "C's division will do"
    facts = Facts(kernel)
    rows, columns = (facts.affine(v) for v in used.operands)
    m, n = facts.affine(dims["M"]), facts.affine(dims["N"])
    assert facts.nonnegative(rows)
    assert facts.nonnegative(columns)
    assert facts.less(rows + 127, m)
    assert facts.less(columns + 63, n)
    assert not facts.less(rows + 128, m)
    assert not facts.less(columns + 64, n)


def test_divisors() -> None:
    facts, a = facts_of(GRID)
    assert facts.multiple(a("M")) == 128
    assert facts.multiple(a("row") * 3 + a("K") + 96) == 32
    assert facts.multiple(Affine(0)) == ZERO_MULTIPLE
    assert facts.multiple(a("row") * a("K")) == 128 * 64
    facts, a = facts_of("""
      %q = floordiv %M, 32
      %z = floormod %M, 64
      %r = floormod %M, 48
      %x = load %A[0] {shape = (), dims = (none,)}
      %y = mul %x, 12
      %s = and %x, -16
      %u = select true, %q, %K
      %big = xor %K, 32
    """)
    assert facts.multiple(a("q")) == 4
    assert facts.multiple(a("z")) == ZERO_MULTIPLE
    assert facts.multiple(a("r")) == 16
    assert facts.multiple(a("y")) == 4, "12*x may wrap, and only powers of two survive that"
    assert facts.multiple(a("u")) == 4
    assert facts.multiple(a("big")) == 32


def test_affine_writes_sums_and_products_out() -> None:
    facts, a = facts_of("""
      %x = add %K, 3
      %y = mul %x, %L
      %z = sub %y, %L
      %s = shl %z, 2
      %w = cast %s {to = i64}
      %w1 = add %w, 1:i64
      %h = mul %L, 12
      %q = floordiv %h, 4
      %p = add %K, 63
      %pq = floordiv %p, 64
      %round = mul %pq, 64
    """)
    assert str(a("w1")) == "4*K*L + 8*L + 1"
    assert str(a("q")) == "3*L"
    assert str(a("round")) == "K", "64 divides K: rounding up changes nothing"
    assert facts.equal(a("round"), a("K"))


def test_loaded_numbers_wrap_and_indices_do_not() -> None:
    facts, a = facts_of("""
      %x = load %A[0] {shape = (), dims = (none,)}
      %x1 = add %x, 1
      %n1 = add %n, 1
      %wide = cast %x {to = i64}
      %wide1 = add %wide, 1:i64
    """)
    assert not facts.less(a("x"), a("x1"))
    assert facts.less(a("n"), a("n1"))
    assert facts.less(a("x"), a("wide1"))


def test_conditions_hold_in_their_branch() -> None:
    kernel = parse_kernel("""tile kernel @k(%A: tensor<64xi32>, %n: i32) dims(M = %M: i32) facts {M = 16} {
      %x = load %A[0] {shape = (), dims = (none,)}
      %low = cmp 0, %x {predicate = "le"}
      %high = cmp %x, %M {predicate = "lt"}
      %both = and %low, %high
      %fours = floormod %x, 4
      %even = cmp %fours, 0 {predicate = "eq"}
      %blocks = floordiv %M, 16
      %some = cmp 0, %blocks {predicate = "lt"}
    }""")
    facts, values = Facts(kernel), named(kernel)
    x, m = facts.affine(values["x"]), facts.affine(values["M"])
    assert not facts.less(x, m)
    with facts.assuming(values["both"]):
        assert facts.less(x, m)
        assert facts.range(x) == (0, None)
        assert facts.less(Affine(15), m)
    with facts.assuming(values["both"], holds=False):
        assert not facts.less(x, m)
    with facts.assuming(values["high"], holds=False):
        assert facts.nonnegative(x - m)
    with facts.assuming(values["even"]):
        assert facts.multiple(x) == 4
    with facts.assuming(values["some"]):
        assert facts.less(Affine(15), m)
    assert facts.multiple(x) == 1
    assert not facts.less(Affine(15), m)


def test_assumptions_hold_where_they_are_made() -> None:
    facts, a = facts_of("""
      launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
        %small = cmp %n, 100 {predicate = "le"}
        assume %small
        for 0, %L, 1 (%k: i32) {
          %x = load %A[%k] {shape = (), dims = (none,)}
          %p = cmp %x, 7 {predicate = "gt"}
          assume %p
          %q = cmp %L, 1000 {predicate = "lt"}
          assume %q
        }
      }
    """)
    assert facts.range(a("n")) == (None, 100)
    assert facts.range(a("x")) == (8, None)
    assert facts.range(a("L")) == (0, None), "the loop may not run at all"


def test_uniform_and_loop_depth() -> None:
    kernel = parse_kernel("""thread kernel @k(%A: tensor<64xi32>, %B: tensor<64xi32>, %n: i32) attrs {threads = 128} {
      %t = special {register = "tid.x"}
      %b = special {register = "ctaid.x"}
      %g = global_address %A
      %h = global_address %B
      %same = load_mem %g, %A {space = "global", dtype = i32, count = 1, address_of = (0,), offsets = (0,)}
      %flag = load_mem %h, %B {space = "global", dtype = i32, count = 1, address_of = (0,), offsets = (0,)}
      %old = atomic_mem %h, %same, %B {space = "global", kind = "add", address_of = (0,), offsets = (0,)}
      %less = cmp %t, 7 {predicate = "lt"}
      %chosen = if %less : i32 then { yield 1 } orelse { yield 2 }
      %x, %y, %z = for 0, %n, 1, [0, 0, 0] : i32, i32, i32 (%k: i32, %p: i32, %q: i32, %r: i32) {
        %p1 = add %p, %b
        %q1 = add %q, %r
        %r1 = add %r, %t
        yield %p1, %q1, %r1
      }
      for 0, %t, 1 (%own: i32) { }
    }""")
    facts, values = Facts(kernel), named(kernel)
    uniform = {name for name, v in values.items() if name and facts.uniform(v)}
    assert uniform >= {"b", "flag", "same", "x", "p", "k", "n"}
    assert not uniform & {"t", "old", "less", "chosen", "y", "q", "z", "r", "own"}
    assert [facts.loop_depth(values[n]) for n in ("b", "k", "p1", "x")] == [0, 1, 1, 0]


# Random expressions -------------------------------------------------------------------------------------------------


def random_kernel(random: Random) -> tuple[Kernel, list[Value]]:
    dims = {name: Value(I32, None, 0, name) for name in ("M", "K")}
    body = Block()
    b = Builder(body)
    size = random.choice([16, 32, 48])
    grid = b.floordiv(b.add(dims["M"], size - 1), size)
    one = b.constant(1)
    launch = control.Launch((grid, one, one), threads=32)
    block, _, _ = (launch.body.add_arg(I32, name) for name in ("bx", "by", "bz"))
    b.emit(launch)
    facts = {"M": random.choice([1, 16, 96]), "K": random.choice([1, 8, 64])}
    kernel = Kernel("k", (), dims, body, facts)
    with b.inside(launch.body):
        values = [*dims.values(), block, b.mul(block, size), b.value(tile.ThreadIndex())]
        step = random.choice([1, 8, 16])
        loop = control.For(
            random.choice([b.constant(0), block]), b.add(dims["K"], random.randint(-3, 70)), b.constant(step), ()
        )
        values.append(loop.body.add_arg(I32, "k"))
        b.emit(loop)
        with b.inside(loop.body):
            for _ in range(14):
                values.append(random_operation(random, b, values))
    return kernel, values


def random_operation(random: Random, b: Builder, values: list[Value]) -> Value:
    x, y = random.choice(values), random.choice(values)
    c = random.choice([1, 2, 3, 4, 8, 16, 31, 64, 100])
    choices: list[Callable[[], Value]] = [
        lambda: b.add(x, y),
        lambda: b.add(x, c),
        lambda: b.sub(x, y),
        lambda: b.mul(x, random.choice([-2, 2, 3, 8])),
        lambda: b.floordiv(x, c),
        lambda: b.floormod(x, c),
        lambda: b.floordiv(x, b.max(y, 1)),
        lambda: b.sub(x, b.mul(b.floordiv(x, b.max(y, 1)), b.max(y, 1))),
        lambda: b.value(arith.TruncDiv(x, b.constant(c))),
        lambda: b.value(arith.TruncMod(x, b.constant(c))),
        lambda: b.value(arith.Shr(x, b.constant(random.randint(0, 4)))),
        lambda: b.value(arith.Shl(x, b.constant(random.randint(0, 3)))),
        lambda: b.and_(x, random.choice([1, 7, 12, 63])),
        lambda: b.xor(x, random.choice([1, 8, 24])),
        lambda: b.min(x, y),
        lambda: b.max(x, c),
        lambda: b.select(b.compare(random.choice(["lt", "ge", "ne"]), x, y), x, b.add(y, c)),
        lambda: b.cast(b.cast(x, i64), x.dtype),
    ]
    return random.choice(choices)()


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


COMPUTE: dict[type[Op], Callable[[int, int], int]] = {
    arith.Add: lambda a, b: a + b,
    arith.Sub: lambda a, b: a - b,
    arith.Mul: lambda a, b: a * b,
    arith.FloorDiv: lambda a, b: a // b,
    arith.FloorMod: lambda a, b: a % b,
    arith.TruncDiv: trunc,
    arith.TruncMod: lambda a, b: a - b * trunc(a, b),
    arith.Shr: lambda a, b: a >> b,
    arith.Shl: lambda a, b: a << b,
    arith.And: lambda a, b: a & b,
    arith.Xor: lambda a, b: a ^ b,
    arith.Min: min,
    arith.Max: max,
}
COMPARE = {"lt": lambda a, b: a < b, "ge": lambda a, b: a >= b, "ne": lambda a, b: a != b}


def compute(op: Op, at: dict[Value, int]) -> int:
    if isinstance(op, arith.Constant):
        return int(op.value)
    numbers = [at[v] for v in op.operands]
    if isinstance(op, arith.Cmp):
        return COMPARE[op.predicate](*numbers)
    if isinstance(op, arith.Select):
        return numbers[1] if numbers[0] else numbers[2]
    if isinstance(op, arith.Cast):
        return numbers[0]
    return COMPUTE[type(op)](*numbers)


def one_thread(random: Random, kernel: Kernel) -> dict[Value, int] | None:
    """The numbers of all values for some thread, block, loop index and size; None where the loop is not entered."""
    at = {v: kernel.facts[name] * random.randint(1, 5) for name, v in kernel.dims.items()}
    at |= {op.result: random.randrange(32) for op in kernel.walk() if isinstance(op, tile.ThreadIndex)}
    for op in kernel.walk():
        if isinstance(op, control.Launch):
            at[op.body.args[0]] = random.randrange(at[op.grid[0]])
        elif isinstance(op, control.For):
            trips = range(at[op.lower], at[op.upper], at[op.step])
            if not trips:
                return None
            at[op.iv] = random.choice(trips)
        elif op.results and op.result not in at:
            at[op.result] = compute(op, at)
    return at


def value_of(a: Affine, at: dict[Value, int]) -> int:
    return a.substitute(at).const


@pytest.mark.parametrize("seed", range(40))
def test_nothing_wrong_is_proved(seed: int) -> None:
    random = Random(seed)
    kernel, values = random_kernel(random)
    facts = Facts(kernel)
    examples = [at for _ in range(120) if (at := one_thread(random, kernel)) is not None]
    for v in values:
        a, multiple, (low, high) = facts.affine(v), facts.multiple(v), facts.range(v)
        for at in examples:
            n = at[v]
            assert value_of(a, at) == n, f"{kernel}\n{a}"
            assert n % multiple == 0, f"{kernel}\n{a} is no multiple of {multiple}"
            assert low is None or low <= n, f"{kernel}\n{a}: {n} < {low}"
            assert high is None or n <= high, f"{kernel}\n{a}: {n} > {high}"
    for _ in range(60):
        x, y = random.choice(values), random.choice(values)
        a, b = facts.affine(x), facts.affine(y) + random.randint(-8, 40)
        if facts.less(a, b):
            for at in examples:
                assert value_of(a, at) < value_of(b, at), f"{kernel}\n{a} < {b}"


@pytest.mark.parametrize("seed", range(40))
def test_examples_refute_nothing_that_is_proved(seed: int) -> None:
    """What a search finds that no example cuts short is also found by one that they do."""
    random = Random(seed)
    kernel, values = random_kernel(random)
    facts = Facts(kernel)
    for _ in range(60):
        claim = facts.affine(random.choice(values)) - facts.affine(random.choice(values)) + random.randint(-1, 40)
        patient = Proof(facts)
        patient.examples = Examples({}, {}, 1)
        if patient.holds(claim, 0):
            assert facts.nonnegative(claim), f"{kernel}\n{claim}"


def test_much_is_proved() -> None:
    proved = 0
    for seed in range(20):
        kernel, values = random_kernel(Random(seed))
        facts = Facts(kernel)
        proved += sum(facts.nonnegative(facts.affine(v)) for v in values)
    assert proved > 150


def test_elements_of_one_value_are_not_each_other() -> None:
    """Two registers of a value, its rows and its columns, its halves: bounded alike, but not equal."""
    facts, a = facts_of(
        """
        %none = constant 0 : i64
        %r = load_mem %none, %A {space = "global", dtype = i32, count = 4, width = 4, address_of = (0,), offsets = (0,)}
        %low = and %r, 63
        %p = pick %low {indices = (0,)}
        %q = pick %low {indices = (1,)}
        %s = pick %low {indices = (0,)}
        """.replace("%none = constant 0 : i64", "%none = global_address %A"),
        stage="thread",
    )
    assert facts.range(a("p")) == (0, 63)
    assert not facts.nonnegative(a("p") - a("q"))
    assert not facts.nonnegative(a("q") - a("p"))
    assert not facts.nonnegative(a("low") - a("q"))
    facts, a = facts_of("""
        launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
          %x = load %A[0] {shape = (64,), dims = (0,)}
          %i = expand %x {dim = 1, size = 64}
          %j = expand %x {dim = 0, size = 64}
          %b = splat %bx {shape = (64,)}
          %c = expand %b {dim = 0, size = 64}
        }
    """)
    assert not facts.nonnegative(a("i") - a("j"))
    assert not facts.nonnegative(a("j") - a("i"))
    assert facts.equal(a("c"), a("bx"))
