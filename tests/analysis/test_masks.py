"""Runs of neighbours in which a mask is alike, and what it claims: known cases, and none that is wrong, as random masks
computed for all rows and random sizes show."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.masks import Masks
from minitile.ir.core import Kernel, Value
from minitile.ir.parser import parse_kernel

ROWS, COLUMNS = 8, 32
FACTS = {"M": 1, "N": 8, "K": 4, "L": 16}
HEAD = f"""
    %i1 = iota {{shape = ({ROWS},), dim = 0}} : tile<{ROWS}xi32>
    %j1 = iota {{shape = ({COLUMNS},), dim = 0}} : tile<{COLUMNS}xi32>
    %i = expand %i1 {{dim = 1, size = {COLUMNS}}} : tile<{ROWS}x{COLUMNS}xi32>
    %j = expand %j1 {{dim = 0, size = {ROWS}}} : tile<{ROWS}x{COLUMNS}xi32>
"""
WIDE = f"tile<{ROWS}x{COLUMNS}xi32>"
BITS = f"tile<{ROWS}x{COLUMNS}xbool>"


def kernel_of(body: str) -> tuple[Kernel, dict[str, Value]]:
    facts = ", ".join(f"{name} = {n}" for name, n in FACTS.items() if n > 1)
    dims = ", ".join(f"{name} = %{name}: i32" for name in FACTS)
    kernel = parse_kernel(f"""tile kernel @k(%A: tensor<64xi32>) dims({dims}) facts {{{facts}}} attrs {{threads = 32}}
        {{
        launch %M, 1, 1 {{threads = 32}} (%bx: i32, %by: i32, %bz: i32) {{
        {HEAD}
        {body}
        }}
    }}""")
    values = {v.name: v for v in kernel.dims.values()}
    for op in kernel.walk():
        values.update({v.name: v for v in (*op.results, *(a for r in op.regions for a in r.args))})
    return kernel, values


def run(*lines: str, limit: int = 8, dim: int = 1) -> int:
    kernel, values = kernel_of("\n".join(lines))
    return Masks(Facts(kernel)).run(values["m"], dim, limit)


def compare(a: str, b: str, predicate: str = "lt", name: str = "m") -> str:
    return f'%{name} = cmp {a}, {b} {{predicate = "{predicate}"}} : {BITS}'


def made(name: str, what: str) -> str:
    return f"%{name} = {what} : {WIDE}"


def number(name: str, what: str) -> str:
    return f"%{name} = {what} : i32"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([compare("%j", "%N")], 8),
        ([compare("%j", "%K")], 4),
        ([compare("%j", "%M")], 1),
        ([compare("%j", "%N", "le")], 1),
        ([compare("%j", "%N", "ge")], 8),
        ([number("n", "sub %N, 1"), compare("%j", "%n", "le")], 8),
        ([number("s", "mul %bx, 32"), made("c", "add %j, %s"), compare("%c", "%N")], 8),
        ([made("c", "add %j, %K"), compare("%c", "%N")], 4),
        ([made("c", "add %j, 1"), compare("%c", "%N")], 1),
        ([made("c", "mul %j, 2"), compare("%c", "%N")], 4),
        ([compare("%i", "%M")], 8),
        ([compare("%j", "%i")], 1),
        ([made("r", "mul %i, 8"), compare("%j", "%r")], 8),
        ([compare("%i", "%M", name="a"), compare("%j", "%N", name="b"), f"%m = and %a, %b : {BITS}"], 8),
        ([compare("%j", "%K", name="a"), compare("%j", "%N", name="b"), f"%m = or %a, %b : {BITS}"], 4),
        ([compare("%j", "%N", name="a"), f"%m = not %a : {BITS}"], 8),
        ([made("g", "floordiv %j, 4"), compare("%g", "%bx", "eq")], 4),
        ([made("c", "add %j, %K"), made("g", "floordiv %c, 8"), compare("%g", "%bx", "ne")], 4),
        ([compare("%j", "%bx", "eq")], 1),
    ],
)
def test_runs(lines: list[str], expected: int) -> None:
    assert run(*lines) == expected


def test_a_run_is_no_wider_than_asked_for() -> None:
    assert run(compare("%j", "%L"), limit=4) == 4
    assert run(compare("%j", "%L"), limit=16) == 16
    assert run(compare("%j", "%L"), dim=0) == 8


def test_the_same_loaded_numbers_along_both_dimensions_differ() -> None:
    """lens[j] < lens[i] is not 0 < 0."""
    body = f"""
        %x = load %A[0] {{shape = ({ROWS},), dims = (0,)}} : tile<{ROWS}xi32>
        %y = load %A[0] {{shape = ({COLUMNS},), dims = (0,)}} : tile<{COLUMNS}xi32>
        %s = slice %y {{offsets = (0,), shape = ({ROWS},)}} : tile<{ROWS}xi32>
        %a = expand %s {{dim = 1, size = {ROWS}}} : tile<{ROWS}x{ROWS}xi32>
        %b = expand %s {{dim = 0, size = {ROWS}}} : tile<{ROWS}x{ROWS}xi32>
        %m = cmp %a, %b {{predicate = "lt"}} : tile<{ROWS}x{ROWS}xbool>
        %r = cmp %a, %bx {{predicate = "lt"}} : tile<{ROWS}x{ROWS}xbool>"""
    kernel, values = kernel_of(body)
    masks = Masks(Facts(kernel))
    assert masks.run(values["m"], 1, 8) == masks.run(values["m"], 0, 8) == masks.run(values["r"], 0, 8) == 1
    assert masks.run(values["r"], 1, 8) == 8, "the row's number is the same along the row"
    assert all(claim.terms for claim in masks.claims(values["m"]))


def test_a_bound_that_the_mask_repeats_is_implied() -> None:
    kernel, values = kernel_of(compare("%j", "%N"))
    masks = Masks(Facts(kernel))
    column = Affine.of(masks.coordinate(1, COLUMNS))
    size = Affine.of(values["N"])
    claims = masks.claims(values["m"])
    assert masks.implied(size - column - 1, claims)
    assert masks.implied(size - column, claims)
    assert not masks.implied(size - column - 2, claims)
    assert not masks.implied(size - Affine.of(masks.coordinate(0, ROWS)) - 1, claims)


class _Random:
    """A random mask as text, and the arrays of its values by name."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.numbers = {name: rng.randrange(6) * factor for name, factor in FACTS.items()} | {"bx": rng.randrange(3)}
        i, j = np.mgrid[0:ROWS, 0:COLUMNS]
        self.arrays = {"i": i, "j": j}
        self.lines: list[str] = []

    def integer(self, depth: int) -> str:
        rng, name = self.rng, f"v{len(self.lines)}"
        if depth == 0:
            return rng.choice(["i", "j", "j"])
        a = self.integer(depth - 1)
        kind = rng.choice(["add", "sub", "mul", "floordiv", "floormod", "both"])
        name = f"v{len(self.lines)}"
        if kind == "both":
            b = self.integer(depth - 1)
            name = f"v{len(self.lines)}"
            self.lines.append(made(name, f"sub %{a}, %{b}"))
            self.arrays[name] = self.arrays[a] - self.arrays[b]
            return name
        constant = rng.choice([1, 2, 3, 4, 8, 16])
        operand, value = f"{constant}", constant
        if kind in ("add", "sub") and rng.random() < 0.6:
            operand, value = rng.choice([(f"%{n}", v) for n, v in self.numbers.items()])
        self.lines.append(made(name, f"{kind} %{a}, {operand}"))
        f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "floormod": np.mod}[
            kind
        ]
        self.arrays[name] = f(self.arrays[a], value)
        return name

    def mask(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            a, (other, value) = self.integer(rng.randrange(3)), rng.choice(list(self.numbers.items()))
            predicate = rng.choice(["lt", "le", "gt", "ge", "eq", "ne"])
            name = f"v{len(self.lines)}"
            self.lines.append(compare(f"%{a}", f"%{other}", predicate, name))
            compared = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
            compared |= {"eq": np.equal, "ne": np.not_equal}
            self.arrays[name] = compared[predicate](self.arrays[a], value)
            return name
        a, b = self.mask(depth - 1), self.mask(depth - 1)
        kind, f = rng.choice([("and", np.logical_and), ("or", np.logical_or)])
        name = f"v{len(self.lines)}"
        self.lines.append(f"%{name} = {kind} %{a}, %{b} : {BITS}")
        self.arrays[name] = f(self.arrays[a], self.arrays[b])
        return name


def test_random_masks() -> None:
    wide = 0
    for seed in range(400):
        case = _Random(seed)
        name = case.mask(seed % 3)
        kernel, values = kernel_of("\n".join(case.lines))
        masks, held = Masks(Facts(kernel)), case.arrays[name]
        for dim, size in enumerate((ROWS, COLUMNS)):
            width = masks.run(values[name], dim, 8)
            runs = np.moveaxis(held, dim, -1).reshape(-1, size // width, width)
            assert (runs == runs[..., :1]).all(), (seed, dim, width, case.lines, case.numbers)
            wide += width > 1
        places = {
            masks.coordinate(d, size): a
            for d, (size, a) in enumerate(zip((ROWS, COLUMNS), np.mgrid[0:ROWS, 0:COLUMNS], strict=True))
        }
        numbers = {values[n]: v for n, v in case.numbers.items()}
        for claim in masks.claims(values[name]):
            if claim.atoms() <= {*places, *numbers}:
                total = np.full(held.shape, claim.const)
                for atoms, factor in claim.terms.items():
                    product = np.full(held.shape, factor)
                    for atom in atoms:
                        product = product * (places[atom] if atom in places else numbers[atom])
                    total = total + product
                assert (total[held] >= 0).all(), (seed, case.lines, case.numbers)
    assert wide > 200, "the cases are to have something to find"


def sides(*lines: str, dim: int = 1) -> int | None:
    kernel, values = kernel_of("\n".join(lines))
    return Masks(Facts(kernel)).sides(values["m"], dim)


def test_sides_of_an_interval():
    splat = made("n", "splat %N {shape = (8, 32)}")
    assert sides(splat, compare("%j", "%n")) == 1
    assert sides(splat, compare("%i", "%n")) == 0
    assert sides(splat, compare("%j", "%n", "eq")) == 2
    both = f"%m = and %a, %b : {BITS}"
    assert sides(splat, compare("%j", "%n", name="a"), compare("%j", "%i", "ge", name="b"), both) == 2
    assert sides(splat, compare("%j", "%n", name="a"), compare("%i", "%n", "ge", name="b"), both) == 1


def test_no_interval():
    splat = made("n", "splat %N {shape = (8, 32)}")
    assert sides(splat, compare("%j", "%n", "ne")) is None
    assert sides(splat, made("rest", "floormod %j, %n"), compare("%rest", "%n")) is None
    either = f"%m = or %a, %b : {BITS}"
    assert sides(splat, compare("%j", "%n", name="a"), compare("%j", "%i", "gt", name="b"), either) is None


def test_claims_that_say_all():
    def known(*lines: str) -> bool:
        kernel, values = kernel_of("\n".join(lines))
        return Masks(Facts(kernel)).whole_claims(values["m"]) is not None

    splat = made("n", "splat %N {shape = (8, 32)}")
    assert known(splat, compare("%j", "%n"))
    assert not known(splat, compare("%j", "%n", "ne"))
    assert not known(splat, compare("%j", "%n", name="a"), f"%m = not %a : {BITS}")
