"""Integers as polynomials, and what is known of them: divisors, bounds, which threads share them.

`Affine` is  constant + sum of coefficient * product of values.  `Facts` answers questions about a kernel's integers:

    %m = floordiv(M + 127, 128)               facts: 128 divides M
    launch grid(%m, ...) -> (%by, ...)
        affine(%by * 128 + 127)               128*by + 127
        less(that, M)                         True: by <= m - 1 and 128*m = M

"Is a >= 0?" is answered by elimination: of the atoms in `a` (values that `affine` does not look through) the one made
last is replaced by a bound of it in terms of values made before, until a number is left. Bounds come from the launch
grid, loops, floordiv/floormod, min/max/select, dimensions (>= 0), thread indices, and `assume`. A bound is a pair
(d, A) that says d*v <= A or d*v >= A; keeping the d makes  128*floordiv(x, 128) <= x  exact.

Arithmetic of i64, and of i32 on index-like values (dimensions, scalar parameters, block and thread indices, loop
variables and what is computed from them), does not overflow: index_widths.py proves it, has the launch check it, or
has it done in 64 bits. Other i32 arithmetic (on loaded or carried values) wraps, so it is an atom, and so is unsigned
arithmetic. A cast of an index-like i64 to i32 loses nothing, unless it has a coefficient that i32 does not hold: that
is how numbers are hashed. In a kernel some of whose indices are wide ("wide" in its attributes), `bounded` facts know
how large dimensions and grids may be, and a cast is looked through only where that proves that it loses nothing. All
answers are one-sided: False, None, 1 mean "not known".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

from minitile.analysis.counterexamples import MOST_EXAMPLES, Examples
from minitile.analysis.divergence import divergent_values
from minitile.analysis.iterative import Chains
from minitile.analysis.polynomial import Affine, Monomial
from minitile.analysis.proof import Bounds, Proof, Range, between, product, quotient_limits
from minitile.hardware import BLOCK_THREADS
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, thread, tile
from minitile.ir.types import DType, ScalarType, Type, dtype_of, limits

__all__ = [
    "HIGHEST",
    "LARGE",
    "LOWEST",
    "SMALL",
    "ZERO_MULTIPLE",
    "Affine",
    "Bounds",
    "Facts",
    "Monomial",
    "Range",
    "divisor_of",
]

ZERO_MULTIPLE = 1 << 62  # what divides zero
SMALL, LARGE = 1 << 30, 1 << 46  # a dimension is less, unless it is one of kernel.attrs["large"]; those are less, too
LOWEST, HIGHEST = -(1 << 30), 3 << 29  # of an index in 32 bits: room for the tile around it, and for size - index
BLOCKS = (1 << 31) - 1  # the most in a dimension of the grid
_LOOP = (control.For, control.While, control.Parallel)
_FLOOR_DIVISIONS = (arith.FloorDiv, arith.TruncDiv, arith.Shr)
_FLOOR_REMAINDERS = (arith.FloorMod, arith.TruncMod, arith.And)
# Elementwise the same numbers as the operand, though of another shape.
_RESHAPED = (tile.Expand, tile.Permute, tile.Slice, tile.ConvertLayout, thread.Pick)
_OPEN: Range = (None, None)  # of an atom that is being looked at
_SPECIAL_RANGES = {"laneid": (0, 31), "tid.y": (0, 0), "tid.z": (0, 0)}


class Facts:
    """What is known of a kernel's integers. Answers are cached per value: make a new one when a pass has changed
    operands. Values made later are understood as well, loop variables once `note` has seen the loop."""

    def __init__(self, kernel: Kernel, bounded: bool = False) -> None:
        self.kernel = kernel
        self.bounded = bounded or bool(kernel.attrs.get("wide"))
        large = kernel.attrs.get("large", ())
        self._most = {v: (LARGE if name in large else SMALL) - 1 for name, v in kernel.dims.items()}
        self._factors = {v: kernel.facts.get(name, 1) for name, v in kernel.dims.items()}
        self._params = set(kernel.params)
        self._threads = int(kernel.attrs.get("threads", BLOCK_THREADS))
        self._owners: dict[Block, Op] = {}
        self._depths: dict[Value, int] = {}
        self._orders: dict[Value, tuple[int, int]] = {}
        self._affine: dict[Value, Affine] = {}
        self._sizes: dict[tuple[object, ...], Value] = {}  # the grid's quotients: the same one again is the same atom
        self._index: dict[Value, bool] = {}
        self._multiples: dict[Value, int] = {}
        self._bounds: dict[Value, Bounds] = {}
        self._ranges: dict[Any, Range] = {}  # of values, and of products of them
        self._chains = Chains()
        self._proved: dict[Affine, bool] = {}
        self._assumed: dict[Value, Bounds] = {}
        self._copies: dict[Value, Bounds] = {}
        self._joined: dict[Value, tuple[Bounds, Bounds]] = {}  # the bounds of a value, and with what is assumed
        self._divergent: set[Value] | None = None
        self._extents: list[Affine] = []
        self._analysed: set[Value] = set()  # the results that `_divergent` knows about
        self.assumptions: list[tuple[Value, Block | None]] = []
        self.examples = Examples(self._owners, self._factors, self._threads)  # for sizes of grids
        self._note(kernel.body, 0, None, self.assumptions)
        self.examples = Examples(self._owners, self._factors, self._threads)
        for condition, block in self.assumptions:
            self._assume(condition, True, block)
        self.examples.conditions += [(condition, True) for condition, _ in self.assumptions]
        if self.bounded:  # where a grid is empty, nothing runs
            for launch in (op for op in kernel.body.ops if isinstance(op, control.Launch)):
                for size in map(_grid, launch.grid):
                    self._record(self.affine(size) - 1, None)

    # Where values come from ----------------------------------------------------------------------------------------

    def _note(
        self, block: Block, depth: int, scope: Block | None, assumptions: list[tuple[Value, Block | None]]
    ) -> None:
        """Learn a block's owners, depths and assumptions. `scope` is None as long as the block runs once for sure."""
        for op in block.ops:
            for r in op.results:
                self._depths[r] = depth
                self._orders[r] = len(self._orders), 0
            if not op.region_fields:
                if not op.results and isinstance(op, arith.Assume):
                    assumptions.append((op.condition, scope))
                continue
            if isinstance(op, control.Launch):
                self._threads = op.threads
                extents = {v for size in op.grid for v in self.affine(_grid(size)).atoms()}
                for size in map(_grid, op.grid):
                    quotient = size.op
                    if isinstance(quotient, _FLOOR_DIVISIONS) and (d := divisor_of(quotient)) is not None:
                        self._sizes[type(quotient), self.affine(quotient.a), d, size.type] = size
                self._extents = [Affine.of(v) for v in sorted(extents, key=self.order)]
            inner = depth + isinstance(op, _LOOP)
            for region in op.regions:
                self._owners[region] = op
                for a in region.args:
                    self._depths[a] = inner
                    self._orders[a] = len(self._orders), 0
                once = scope is None and isinstance(op, control.Launch)
                self._note(region, inner, None if once else region, assumptions)

    def note(self, op: Op, depth: int = 0) -> None:
        """Tell of an operation with regions that was made after these facts; `depth` is the number of loops around."""
        block = Block()
        block.ops = [op]
        self._note(block, depth, block, [])

    def owner(self, block: Block) -> Op | None:
        """The operation that a block is a region of."""
        return self._owners.get(block)

    def loop_depth(self, v: Value) -> int:
        """The number of loops around the definition of `v`; of a value made after these facts: around its operands."""
        if v in self._depths:
            return self._depths[v]
        op = v.op
        return max((self.loop_depth(o) for o in op.operands), default=0) if op is not None else 0

    def order(self, v: Value) -> tuple[int, int]:
        """A key that puts values behind what they depend on: program order; of a value made later, its operands'."""
        known = self._orders.get(v)
        if known is None:
            op = v.op
            last = max((self.order(o)[0] for o in op.operands), default=-1) if op is not None else -1
            known = self._orders[v] = last, v.serial
        return known

    def latest(self, atoms: set[Value]) -> list[Value]:
        """Values by `order`, the last ones first."""
        if len(atoms) < 2:
            return list(atoms)
        try:
            return sorted(atoms, key=self._orders.__getitem__, reverse=True)
        except KeyError:
            return sorted(atoms, key=self.order, reverse=True)

    def uniform(self, v: Value) -> bool:
        """Whether all threads of the CTA hold the same number."""
        if self._divergent is None:
            self._divergent = divergent_values(self.kernel)
            self._analysed = {r for op in self.kernel.walk() for r in op.results}
        if v in self._divergent:
            return False
        if v in self._analysed:
            return True
        op = v.op
        if op is None or v in self._depths or not op.operands:
            return op is None or not op.varies()
        return op.pure and all(map(self.uniform, op.operands))

    # Polynomials ---------------------------------------------------------------------------------------------------

    def affine(self, v: Value) -> Affine:
        """`v` in terms of the values it is computed from by sums and products."""
        known = self._affine.get(v)
        if known is None:
            known = self._affine[v] = self._chains.ask(v, self._affine, self._look)
        return known

    def size(self, tensor: Value, d: int) -> Affine:
        """Of the tensor's dimension d."""
        size = tensor.shape[d]
        return self.affine(self.kernel.dims[size]) if isinstance(size, str) else Affine(size)

    def _look(self, v: Value) -> Affine:
        op = v.op
        if isinstance(op, arith.Constant):
            return Affine(int(op.value)) if dtype_of(v.type).kind in ("int", "uint", "bool") else Affine.of(v)
        if op is None or not _exact(v.type):
            return Affine.of(v)
        if isinstance(op, arith.Cast) and _exact(op.a.type):
            a = self.affine(op.a)
            if op.to.bits >= op.a.dtype.bits or (
                self.fits(a) if self.bounded else self.is_index(op.a) and _is_short(a)
            ):
                return a
        if isinstance(op, tile.Splat):
            return self.affine(op.value)
        rule = _POLYNOMIAL.get(type(op))
        if rule is not None and (op.results[0].dtype.bits == 64 or self.is_index(v)):
            made = rule(*[self.affine(o) for o in op.operands])
            if made is not None:
                return self._exact_products(made)
        elif isinstance(op, (arith.FloorDiv, arith.TruncDiv, arith.Shr)):
            d = divisor_of(op)
            if d is not None:
                a = self.affine(op.a)
                if a.content % d == 0:
                    return a.quotient(d)
                size = self._sizes.get((type(op), a, d, op.results[0].type), v)
                return Affine.of(size if self.order(size) < self.order(v) else v)
        return Affine.of(v)

    def _exact_products(self, a: Affine) -> Affine:
        """c*floordiv(x, c) becomes x (less the remainder) where x % c is known."""
        for m, c in a.terms.items():
            op = m[0].op
            if len(m) > 1 or not isinstance(op, _FLOOR_DIVISIONS):
                continue
            d = divisor_of(op)
            if d is None or c % d:
                continue
            low, high = self._division(op.a, d)
            if low == high and (not isinstance(op, arith.TruncDiv) or self.nonnegative(self.affine(op.a))):
                return self._exact_products(a - Affine(0, {m: c}) + low * (c // d))
        return a

    def _division(self, x: Value, d: int) -> tuple[Affine, Affine]:
        """Bounds of d*floordiv(x, d): x less the least and the greatest remainder that are possible."""
        a = self.affine(x)
        g = math.gcd(d, self._divisor(Affine(0, a.terms)))
        least = a.const % g
        return a - (d - g + least), a - least

    def is_index(self, v: Value) -> bool:
        """Whether the value is computed from dimensions, parameters, block, thread and loop indices only."""
        known = self._index.get(v)
        if known is None:
            self._index[v] = False  # for a cycle through carried values
            known = self._index[v] = self._chains.ask(v, self._index, self._look_index)
        return known

    def _look_index(self, v: Value) -> bool:
        op = v.op
        if op is None:
            if v in self._factors or v in self._params:
                return True
            owner = self._owners.get(v.owner) if isinstance(v.owner, Block) else None
            if isinstance(owner, control.For) and v.index == 0:
                return self.is_index(owner.lower) and self.is_index(owner.upper)
            return isinstance(owner, (control.Launch, control.Parallel))
        if isinstance(op, (tile.Iota, tile.ThreadIndex, thread.Special, arith.Constant)):
            return True
        if isinstance(op, arith.Cast) and not op.a.dtype.is_int:
            return op.a.dtype.kind == "bool"
        if v.dtype.kind == "uint" and v.dtype.bits >= 32:  # wraps on purpose, maybe: what is added to it may as well
            return False
        if isinstance(op, arith.Within):
            return self.is_index(op.a)
        return isinstance(op, _INDEX_OPS) and all(self.is_index(o) for o in op.operands if o.dtype.is_int)

    # Divisors ------------------------------------------------------------------------------------------------------

    def multiple(self, a: Value | Affine) -> int:
        """A positive number that divides `a`; the largest known. ZERO_MULTIPLE for 0."""
        return self._divisor(a if isinstance(a, Affine) else self.affine(a))

    def _divisor(self, a: Affine) -> int:
        g = abs(a.const)
        for m, c in a.terms.items():
            factor = abs(c)
            for v in m:
                factor *= self._atom_multiple(v)
            g = math.gcd(g, factor)
        return g or ZERO_MULTIPLE

    def _atom_multiple(self, v: Value) -> int:
        known = self._multiples.get(v)
        if known is None:
            self._multiples[v] = 1
            known = self._multiples[v] = self._chains.ask(v, self._multiples, self._look_multiple)
        return known

    def _look_multiple(self, v: Value) -> int:
        op = v.op
        if op is None:
            owner = self._owners.get(v.owner) if isinstance(v.owner, Block) else None
            if isinstance(owner, control.For) and v.index == 0:
                return math.gcd(self.multiple(owner.lower), self.multiple(owner.step))
            return self._factors.get(v, 1)
        if v in self._factors:
            return self._factors[v]
        if not v.dtype.is_int:
            return 1
        rule = _DIVISOR.get(type(op))
        if rule is not None:
            # Here arithmetic may wrap: only powers of two survive that.
            return _power_of_two(rule(*[self.multiple(o) for o in op.operands]))
        if isinstance(op, _FLOOR_DIVISIONS):
            d = divisor_of(op)
            m = self.multiple(op.a)
            return m // d if d is not None and m % d == 0 else 1
        if isinstance(op, _FLOOR_REMAINDERS):
            d = divisor_of(op)
            if d is not None:
                g = math.gcd(self.multiple(op.a), d)
                return ZERO_MULTIPLE if g == d else g
            return math.gcd(self.multiple(op.a), self.multiple(op.b)) if not isinstance(op, arith.And) else 1
        if isinstance(op, (arith.Select, arith.Min, arith.Max)):
            return math.gcd(*[self.multiple(o) for o in op.operands[-2:]])
        if isinstance(op, (arith.Cast, *_RESHAPED)):
            source = op.operands[0].dtype
            m = self.multiple(op.operands[0]) if source.is_int else 1
            return m if _holds(v.dtype, source) else _power_of_two(m)
        return 1

    # Bounds --------------------------------------------------------------------------------------------------------

    def bounds(self, v: Value) -> Bounds:
        """What bounds an atom, in terms of other values."""
        known = self._bounds.get(v)
        if known is None:
            self._bounds[v] = Bounds()
            known = self._bounds[v] = self._chains.ask(v, self._bounds, self._look_bounds)
        if v not in self._assumed:
            return known
        more = self._assumed[v]
        both = self._joined.get(v)
        if both is None or both[0] is not known:
            both = self._joined[v] = known, Bounds(more.lower + known.lower, more.upper + known.upper, known.cases)
        return both[1]

    def copy_of(self, v: Value, bounds: Bounds) -> Value:
        """Another number of what `v` stands for (that of another thread, or of another round), with bounds of its own:
        an atom for polynomials, not a value of the program."""
        new = Value(v.type)
        self._copies[new] = bounds
        self._orders[new] = self.order(v)[0], new.serial
        self._multiples[new] = self._atom_multiple(v)
        return new

    def _look_bounds(self, v: Value) -> Bounds:
        if v in self._copies:
            return self._copies[v]
        if v in self._factors:
            return Bounds([(1, Affine(0))], [(1, Affine(self._most[v]))] if self.bounded else [])
        if not isinstance(v.type, Type) or not hasattr(v.type, "dtype"):
            return Bounds()
        op = v.op
        if op is None:
            return self._argument_bounds(v)
        rule = _BOUNDS.get(type(op))
        if rule is not None:
            return rule(self, op)
        if isinstance(op, control.If):
            return Bounds(cases=[self.affine(region.yielded[v.index]) for region in op.regions])
        source = op.a.dtype if isinstance(op, arith.Cast) else v.dtype
        lost = source.kind == "int" and v.dtype.kind == "uint"  # the sign
        return _type_bounds(source if source.bits < v.dtype.bits and not lost else v.dtype)

    def _min_bounds(self, op: Any) -> Bounds:
        a, b = self.affine(op.a), self.affine(op.b)
        return Bounds(upper=[(1, a), (1, b)], cases=[a, b])

    def _max_bounds(self, op: Any) -> Bounds:
        a, b = self.affine(op.a), self.affine(op.b)
        return Bounds(lower=[(1, a), (1, b)], cases=[a, b])

    def _select_bounds(self, op: Any) -> Bounds:
        return Bounds(cases=[self.affine(op.a), self.affine(op.b)])

    def _abs_bounds(self, op: Any) -> Bounds:
        return Bounds([(1, Affine(0)), (1, self.affine(op.a))])

    def _within_bounds(self, op: arith.Within) -> Bounds:
        return Bounds([(1, Affine(0))], [(1, self.affine(op.limit))])

    def _reshaped_bounds(self, op: Op) -> Bounds:
        """Each element is some element of the operand, but two reshapings of one operand hold different ones of them
        (rows and columns of one index, two halves of the registers). So only what bounds all elements carries over."""
        a = self.affine(op.operands[0])
        several = [m for m, c in a.terms.items() if not _of_scalars(Affine(0, {m: c}))]
        if not several or isinstance(op, tile.ConvertLayout):
            return Bounds([(1, a)], [(1, a)])
        low, high = self.range(a)
        found = Bounds([] if low is None else [(1, Affine(low))], [] if high is None else [(1, Affine(high))])
        if len(several) == 1 and len(several[0]) == 1:
            (atom,) = several[0]
            c = a.terms[several[0]]
            rest = a - Affine.of(atom) * c
            known = self.bounds(atom)
            below, above = (known.lower, known.upper) if c > 0 else (known.upper, known.lower)
            found.lower += [(d, rest * d + bound * c) for d, bound in below if _of_scalars(bound)]
            found.upper += [(d, rest * d + bound * c) for d, bound in above if _of_scalars(bound)]
        return found

    def _argument_bounds(self, v: Value) -> Bounds:
        owner = self._owners.get(v.owner) if isinstance(v.owner, Block) else None
        if isinstance(owner, control.Launch):
            grid = [(1, Affine(BLOCKS - 1))] if self.bounded else []
            return Bounds([(1, Affine(0))], [(1, self.affine(_grid(owner.grid[v.index])) - 1), *grid])
        if isinstance(owner, control.Parallel):
            return between(0, owner.extents[v.index] - 1)
        if isinstance(owner, control.For) and v.index == 0:
            lower, upper = self.affine(owner.lower), self.affine(owner.upper)
            # upper - iv is positive, and a multiple of whatever divides both the step and the whole distance.
            gap = math.gcd(self.multiple(owner.step), self.multiple(upper - lower))
            return Bounds([(1, lower)], [(1, upper - gap)])
        return _type_bounds(v.dtype)

    def _iota_bounds(self, op: tile.Iota) -> Bounds:
        return between(0, op.shape[op.dim] - 1)

    def _special_bounds(self, op: Op) -> Bounds:
        register = op.register if isinstance(op, thread.Special) else "tid.x"
        if register == "tid.x":
            return between(0, self._threads - 1)
        if register in _SPECIAL_RANGES:
            return between(*_SPECIAL_RANGES[register])
        return Bounds([(1, Affine(0))])

    def _remainder_bounds(self, op: Any) -> Bounds:
        a, d = self.affine(op.a), divisor_of(op)
        positive = self.nonnegative(a)
        if isinstance(op, arith.TruncMod) and not positive:
            return Bounds()
        if isinstance(op, arith.And) and d is None:
            masks = [c for o in (op.a, op.b) if isinstance(c := constant_of(o), int) and c >= 0]
            return between(0, min(masks)) if masks else Bounds()
        if d is not None:
            found = between(0, d - math.gcd(d, self.multiple(a)))
        elif self.nonnegative(self.affine(op.b)):
            found = Bounds([(1, Affine(0))], [(1, self.affine(op.b) - 1)])
        else:
            return Bounds()
        if positive:
            found.upper.append((1, a))
        return found

    def _quotient_bounds(self, op: Any) -> Bounds:
        a, d = self.affine(op.a), divisor_of(op)
        positive = self.nonnegative(a)
        if isinstance(op, arith.TruncDiv) and not positive:
            return Bounds()
        found = Bounds([(1, Affine(0))]) if positive else Bounds()
        if d is not None:
            low, high = self._division(op.a, d)
            found.upper += [(d, high), *((1, Affine(n // d)) for n in self.interval(a)[1:] if n and not (n + 1) % d)]
            found.lower.append((d, low))
            return found
        if isinstance(op, arith.Shr) or not self.nonnegative(self.affine(op.b)):
            return found
        if positive:
            found.upper.append((1, a))
        divisor = self.affine(op.b)
        found.quotient = a, divisor
        if positive:
            # With x <= n*d - 1 the quotient by d is at most n - 1: likely numbers n are the grid's.
            for n in self._extents:
                if self.nonnegative(n * divisor - 1 - a):
                    found.upper.append((1, n - 1))
            if self.bounded:
                found.upper += [(1, most) for most in quotient_limits(self, a, divisor, 3)]
        return found

    def _bitwise_bounds(self, op: Any) -> Bounds:
        (low_a, high_a), (low_b, high_b) = self.range(op.a), self.range(op.b)
        if low_a is None or low_b is None or low_a < 0 or low_b < 0:
            return Bounds()
        found = Bounds([(1, Affine(0))])
        if high_a is not None and high_b is not None:
            found.upper.append((1, Affine((1 << max(high_a, high_b).bit_length()) - 1)))
        return found

    def range(self, a: Value | Affine) -> Range:
        """Constant bounds of `a`, inclusive."""
        if isinstance(a, Value):
            a = self.affine(a)
        low, high = self.interval(a)
        if low is None or high is None:
            if low is None:
                low = Proof(self).least(a, None)
            if high is None:
                least = Proof(self).least(-a, None)
                high = None if least is None else -least
        return low, high

    def interval(self, a: Affine) -> Range:
        low: int | None = a.const
        high: int | None = a.const
        ranges = self._ranges
        for m, c in a.terms.items():
            bottom, top = ranges[m] if m in ranges else self._monomial_range(m)
            if c < 0:
                bottom, top = top, bottom
            low = None if low is None or bottom is None else low + c * bottom
            high = None if high is None or top is None else high + c * top
            if low is None and high is None:
                break
        return low, high

    def _monomial_range(self, m: Monomial) -> Range:
        ranges = [self._atom_range(v) for v in m]
        found = reduce(product, ranges)
        if all(each is not _OPEN for each in ranges):  # none of them changes any more
            self._ranges[m] = found
        return found

    def fits(self, a: Affine) -> bool:
        """Whether 32 bits hold `a`, whatever part of its sum, and what code adds to it: the sums of its terms that are
        positive and of those that are negative are not beyond HIGHEST and LOWEST."""
        up, down = max(a.const, 0), max(-a.const, 0)
        for m, c in a.terms.items():
            low, high = self.interval(Affine(0, {m: c}))
            if low is None or high is None:
                return False
            up, down = up + max(high, 0), down + max(-low, 0)
        return up <= HIGHEST and down <= -LOWEST

    def short(self, size: Affine) -> bool:
        """Whether 32 bits hold a dimension, and what indices of it are compared with."""
        return self.fits(size) if self.bounded or size.is_constant else True

    def _atom_range(self, v: Value) -> Range:
        known = self._ranges.get(v)
        if known is None:
            self._ranges[v] = _OPEN
            known = self._ranges[v] = self._chains.ask(v, self._ranges, self._look_range)
        return known

    def _look_range(self, v: Value) -> Range:
        bounds = self.bounds(v)
        lows = [-(-low // d) for d, a in bounds.lower if (low := self.interval(a)[0]) is not None]
        highs = [high // d for d, a in bounds.upper if (high := self.interval(a)[1]) is not None]
        if bounds.cases:
            cases = [self.interval(a) for a in bounds.cases]
            bottoms = [low for low, _ in cases if low is not None]
            tops = [high for _, high in cases if high is not None]
            if len(bottoms) == len(cases):
                lows.append(min(bottoms))
            if len(tops) == len(cases):
                highs.append(max(tops))
        step = self._atom_multiple(v)
        low, high = max(lows, default=None), min(highs, default=None)
        return None if low is None else -(-low // step) * step, None if high is None else high // step * step

    # Proofs --------------------------------------------------------------------------------------------------------

    def nonnegative(self, a: Affine) -> bool:
        """Whether a >= 0 for sure."""
        if not a.terms:
            return a.const >= 0
        known = self._proved.get(a)
        if known is None:
            if self.examples.refute(a):
                return False
            self._proved[a] = False
            known = self._proved[a] = self._prove(a)
        return known

    def _prove(self, a: Affine) -> bool:
        low, high = self.interval(a)
        if low is not None and low >= 0:
            return True
        if (high is not None and high < 0) or self.examples.refute(a, harder=True):
            return False
        return Proof(self).holds(a, 0)

    def less(self, a: Affine, b: Affine) -> bool:
        """Whether a < b for sure."""
        return self.nonnegative(b - a - 1)

    def equal(self, a: Affine, b: Affine) -> bool:
        """Whether a = b for sure."""
        return a == b or (self.nonnegative(a - b) and self.nonnegative(b - a))

    # Assumptions ---------------------------------------------------------------------------------------------------

    def _assume(self, condition: Value, holds: bool, scope: Block | None) -> list[tuple[Value, bool]]:
        """Record what follows from a condition; with a scope, only for values defined directly in that block.
        The list of (atom, is an upper bound) recorded, for taking back."""
        op = condition.op
        if isinstance(op, arith.And) and holds:
            return self._assume(op.a, True, scope) + self._assume(op.b, True, scope)
        if isinstance(op, arith.Or) and not holds:
            return self._assume(op.a, False, scope) + self._assume(op.b, False, scope)
        if isinstance(op, arith.Not):
            return self._assume(op.a, not holds, scope)
        if not isinstance(op, arith.Cmp) or not op.a.dtype.is_int:
            return []
        a, b = self.affine(op.a), self.affine(op.b)
        predicate = op.predicate if holds else OPPOSITE[op.predicate]
        if predicate == "eq" and b == Affine() and isinstance(op.a.op, arith.FloorMod):
            x, d = op.a.op.a, divisor_of(op.a.op)
            if d is not None and _defined_in(x, scope):
                self._multiples[x] = math.lcm(self._atom_multiple(x), d)
        return [fact for x in AT_LEAST_ZERO[predicate](a, b) for fact in self._record(x, scope)]

    def _record(self, a: Affine, scope: Block | None) -> list[tuple[Value, bool]]:
        """Learn a >= 0 as a bound of each of its linear atoms."""
        g = self._divisor(Affine(0, a.terms))
        a = Affine(a.const // g * g, a.terms)
        recorded: list[tuple[Value, bool]] = []
        for m, c in a.terms.items():
            v = m[0]
            parts = a.split(v)
            if len(m) > 1 or parts is None or not parts[0].is_constant or not _defined_in(v, scope):
                continue
            bounds = self._assumed.setdefault(v, Bounds())
            self._joined.pop(v, None)
            if c > 0:
                bounds.lower.append((c, -parts[1]))
            else:
                bounds.upper.append((-c, parts[1]))
            recorded.append((v, c < 0))
            recorded += self._record_quotient(v, c, parts[1], scope)
        return recorded

    def _record_quotient(self, v: Value, c: int, rest: Affine, scope: Block | None) -> list[tuple[Value, bool]]:
        """What c*v + rest >= 0 says of x, where v is x / d: n <= x / d makes n*d <= x."""
        if not isinstance(v.op, _FLOOR_DIVISIONS):
            return []
        known = self._bounds.get(v) or self.bounds(v)
        return [
            fact
            for d, a in (known.upper if c > 0 else known.lower)
            if d > 1
            for fact in self._record(c * a + d * rest, scope)
        ]

    @contextmanager
    def given(self, claims: Iterable[Affine]) -> Iterator[None]:
        """Inside the `with`, these are known not to be negative, whatever values the examples have."""
        outer = self._ranges, self._proved, self._bounds, self.examples
        self.examples = Examples({}, {}, self._threads)
        self.examples.looked = MOST_EXAMPLES
        recorded = [fact for claim in claims for fact in self._record(claim, None)]
        self._ranges, self._bounds = {}, {}
        self._proved = {a: True for a, proved in self._proved.items() if proved}
        try:
            yield
        finally:
            self._ranges, self._proved, self._bounds, self.examples = outer
            for v, is_upper in reversed(recorded):
                (self._assumed[v].upper if is_upper else self._assumed[v].lower).pop()
                self._joined.pop(v, None)

    @contextmanager
    def assuming(self, condition: Value, holds: bool = True) -> Iterator[None]:
        """Inside the `with`, the condition is known to hold (or not to): for the branches of an `if`."""
        outer = self._ranges, self._proved, self._bounds, self._multiples, self._affine, self.examples
        self._multiples, self._affine = dict(self._multiples), dict(self._affine)  # x // 2 * 2 is x, if x is even
        recorded = self._assume(condition, holds, None)
        self.examples = self.examples.where(condition, holds)
        if recorded or self._multiples != outer[3]:
            self._ranges, self._bounds = {}, {}
            self._proved = {a: True for a, proved in self._proved.items() if proved}
        try:
            yield
        finally:
            self._ranges, self._proved, self._bounds, self._multiples, self._affine, self.examples = outer
            for v, is_upper in reversed(recorded):
                (self._assumed[v].upper if is_upper else self._assumed[v].lower).pop()
                self._joined.pop(v, None)


def _grid(size: Value) -> Value:
    """An extent of the grid before it was cast: no launch has more blocks than 32 bits hold."""
    return size.op.a if isinstance(size.op, arith.Cast) and size.op.a.dtype.is_int else size


def _power_of_two(n: int) -> int:
    return n & -n


def _holds(d: DType, source: DType) -> bool:
    """Whether all numbers of an integer type are of another one."""
    return d is source or (d.bits > source.bits and (source.kind == "uint" or d.kind == "int"))


def _is_short(a: Affine) -> bool:
    """Whether i32 holds what it is made of."""
    return all(-(1 << 31) <= n < 1 << 31 for n in (a.const, *a.terms.values()))


def _of_scalars(a: Affine) -> bool:
    return all(isinstance(v.type, ScalarType) for v in a.atoms())


def _exact(t: Type) -> bool:
    """Signed integers of 32 or 64 bits, alone or as tiles or registers."""
    d = getattr(t, "dtype", None)
    return isinstance(d, DType) and d.kind == "int" and d.bits >= 32


def _type_bounds(d: DType) -> Bounds:
    """What the type alone says; nothing for i32 and i64, whose limits decide nothing."""
    if d.kind == "bool":
        return between(0, 1)
    if d.kind == "uint" or (d.kind == "int" and d.bits < 32):
        return between(*limits(d))
    return Bounds()


def _defined_in(v: Value, scope: Block | None) -> bool:
    return scope is None or v.owner is scope or v.op in scope.ops


def divisor_of(op: Any) -> int | None:
    """c of a floordiv, floormod or the like by a constant c > 0: 1 << the amount of `shr`, the mask + 1 of `and`."""
    c = constant_of(op.b)
    if not isinstance(c, int) or isinstance(c, bool) or c < 0 or not op.a.dtype.is_int:
        return None
    if isinstance(op, arith.Shr):
        return 1 << c if c < op.a.dtype.bits else None
    if isinstance(op, arith.And):
        return c + 1 if c & (c + 1) == 0 else None
    return c or None


def _shifted(a: Affine, b: Affine) -> Affine | None:
    return a * (1 << b.const) if b.is_constant and 0 <= b.const < 63 else None


_POLYNOMIAL: dict[type[Op], Callable[..., Affine | None]] = {
    arith.Add: lambda a, b: a + b,
    arith.Sub: lambda a, b: a - b,
    arith.Mul: lambda a, b: a * b,
    arith.Neg: lambda a: -a,
    arith.Shl: _shifted,
}
_DIVISOR: dict[type[Op], Callable[..., int]] = {
    arith.Add: math.gcd,
    arith.Sub: math.gcd,
    arith.Or: lambda a, b: math.gcd(_power_of_two(a), _power_of_two(b)),
    arith.Xor: lambda a, b: math.gcd(_power_of_two(a), _power_of_two(b)),
    arith.Mul: lambda a, b: a * b,
    arith.Neg: lambda a: a,
    arith.Shl: lambda a, b: a,
}
_BOUNDS: dict[type[Op], Callable[[Facts, Any], Bounds]] = {
    **dict.fromkeys(_FLOOR_REMAINDERS, Facts._remainder_bounds),
    **dict.fromkeys(_FLOOR_DIVISIONS, Facts._quotient_bounds),
    **dict.fromkeys(_RESHAPED, Facts._reshaped_bounds),
    arith.Min: Facts._min_bounds,
    arith.Max: Facts._max_bounds,
    arith.Select: Facts._select_bounds,
    arith.Abs: Facts._abs_bounds,
    arith.Within: Facts._within_bounds,
    arith.Or: Facts._bitwise_bounds,
    arith.Xor: Facts._bitwise_bounds,
    tile.Iota: Facts._iota_bounds,
    tile.ThreadIndex: Facts._special_bounds,
    thread.Special: Facts._special_bounds,
}
_INDEX_OPS = (
    arith.Binary,
    arith.Unary,
    arith.Cast,
    arith.Select,
    tile.Splat,
    tile.Expand,
    tile.Permute,
    tile.Slice,
    tile.ConvertLayout,
    thread.Offsets,
    thread.Pick,
)
OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
# The polynomials that are >= 0 when a and b compare so.
AT_LEAST_ZERO: dict[str, Callable[[Affine, Affine], tuple[Affine, ...]]] = {
    "lt": lambda a, b: (b - a - 1,),
    "le": lambda a, b: (b - a,),
    "gt": lambda a, b: (a - b - 1,),
    "ge": lambda a, b: (a - b,),
    "eq": lambda a, b: (a - b, b - a),
    "ne": lambda a, b: (),
}
