"""What a mask says of integers: of how many neighbours it holds alike, and which inequalities hold where it does.

    %in = cmp %j, %N {lt}          facts: 8 divides N
        run(%in, 0, 8)             8: of elements 8*k … 8*k + 7 either all are in, or none
        steps(%j, 0, 8)            8: each such run is 8 neighbours, from a multiple of 8 on
        claims(%in)                N - j - 1 >= 0

Both come from one description: an integer tile is a polynomial over the tile's own coordinates (`coordinate`) and
the values that it is made of. Along one dimension a comparison asks whether  c*i + rest >= 0, c a number and `rest` the
same for all i. In an aligned run i = w*k + r, 0 <= r < w, that changes with r only where  c*w*k + rest  lies within
|c|*(w - 1) of 0, on the side from which c leads over; `Facts` knows a divisor of rest and of c*w, so which numbers that
may be. Other elementwise operations are alike where their operands are. All answers are one-sided: 1 and () mean "not
known".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from minitile.analysis.affine import AT_LEAST_ZERO, Affine, Facts, divisor_of
from minitile.analysis.strides import row_alignment
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, tile
from minitile.ir.types import ALIGNMENT, TensorType, TileType

_SUMS: dict[type[Op], Callable[[Affine, Affine], Affine]] = {
    arith.Add: Affine.__add__,
    arith.Sub: Affine.__sub__,
    arith.Mul: Affine.__mul__,
}
_DIVISIONS = (arith.FloorDiv, arith.Shr)

Where = tuple[int, ...]  # which coordinate each dimension of a tile runs along


class Masks:
    """Questions about a kernel's tiles. Answers are remembered: make a new one with new facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._coordinates: dict[tuple[int, int], Value] = {}
        self._atoms: dict[tuple[Value, Where], Value] = {}
        self._along_of: dict[Value, Where] = {}  # along which coordinates an atom of `_atom` may vary
        self._expressions: dict[tuple[Value, Where], Affine] = {}
        self._runs: dict[tuple[Value, int, int], int] = {}

    def coordinate(self, dim: int, size: int) -> Value:
        """The atom that stands for a tile's own coordinate in dimension `dim`, of `size`."""
        key = dim, size
        if key not in self._coordinates:
            self._coordinates[key] = tile.Iota((size,), 0).result
        return self._coordinates[key]

    # Runs ------------------------------------------------------------------------------------------------------------

    def run(self, mask: Value, dim: int, limit: int) -> int:
        """The most neighbours along a dimension that are alike in each aligned run of so many: a power of two, at most
        `limit`, which is one, too."""
        if not isinstance(mask.type, TileType):
            return limit
        key = mask, dim, limit
        if key not in self._runs:
            self._runs[key] = self._run(mask, dim, limit)
        return self._runs[key]

    def _run(self, v: Value, dim: int, limit: int) -> int:
        op = v.op
        if limit == 1 or isinstance(op, tile.Splat):
            return limit
        if isinstance(op, tile.Expand):
            return limit if op.dim == dim else self.run(op.a, dim - (op.dim < dim), limit)
        if isinstance(op, tile.Permute):
            return self.run(op.a, op.order[dim], limit)
        if isinstance(op, tile.ConvertLayout):
            return self.run(op.a, dim, limit)
        if op is None or not op.elementwise:
            return 1
        found = min(self.run(o, dim, limit) for o in op.operands)
        while limit > found and not self._is_alike(v, dim, limit):
            limit //= 2
        return max(limit, found)

    def steps(self, index: Value, dim: int, limit: int) -> int:
        """The most neighbours along a dimension that are numbers one after the other in each aligned run of so many,
        the first a multiple of that: a power of two, at most `limit`, which is one, too."""
        op = index.op
        if limit == 1 or not isinstance(index.type, TileType):
            return 1
        if isinstance(op, tile.Expand):
            return 1 if op.dim == dim else self.steps(op.a, dim - (op.dim < dim), limit)
        if isinstance(op, tile.Permute):
            return self.steps(op.a, op.order[dim], limit)
        if isinstance(op, tile.ConvertLayout):
            return self.steps(op.a, dim, limit)
        if isinstance(op, (arith.FloorMod, arith.And)) and (divisor := divisor_of(op)) is not None:
            return math.gcd(self.steps(op.a, dim, limit), divisor)
        where = tuple(range(len(index.shape)))
        found = self._along(self.expression(index, where, index), index, dim)
        if found is None or found[0] != 1:
            return 1
        return math.gcd(limit, self.facts.multiple(found[1]))

    def _is_alike(self, v: Value, dim: int, width: int) -> bool:
        """Whether what an operation makes of numbers that go up by steps is the same all over runs of `width`."""
        op, where = v.op, tuple(range(len(v.shape)))
        if isinstance(op, arith.Cmp) and op.a.dtype.is_int:
            predicate = "eq" if op.predicate == "ne" else op.predicate
            sides = AT_LEAST_ZERO[predicate](self.expression(op.a, where, v), self.expression(op.b, where, v))
            return all(self._keeps_sign(side, v, dim, width) for side in sides)
        if isinstance(op, _DIVISIONS) and (divisor := divisor_of(op)) is not None:
            found = self._along(self.expression(op.a, where, v), v, dim)
            if found is None or found[0] < 0:
                return False
            step, rest = found
            g = math.gcd(divisor, self._first(step, rest, width)[1])
            return rest.const % g + step * (width - 1) < g
        return False

    def _keeps_sign(self, a: Affine, v: Value, dim: int, width: int) -> bool:
        found = self._along(a, v, dim)
        if found is None:
            return False
        step, rest = found
        reach = abs(step) * (width - 1)
        if not reach:
            return True
        first, g = self._first(step, rest, width)
        least = 0 if step < 0 else -reach  # of the first elements with which the run's last ones are on the other side
        return (first - least) % g >= reach

    def _first(self, step: int, rest: Affine, width: int) -> tuple[int, int]:
        """What the first elements of runs are: a remainder, and of what."""
        return rest.const, math.gcd(self.facts.multiple(Affine(0, rest.terms)), step * width)

    def _along(self, a: Affine, v: Value, dim: int) -> tuple[int, Affine] | None:
        """c and rest of  c*i + rest  for the coordinate i along `dim` of the tile `v`."""
        mine = self.coordinate(dim, v.shape[dim])
        parts = a.split(mine)
        if parts is None or not parts[0].is_constant:
            return None
        if any(dim in self._along_of.get(atom, ()) for atom in parts[1].atoms()):
            return None
        return parts[0].const, parts[1]

    def sides(self, mask: Value, dim: int) -> int | None:
        """On how many sides it ends along a dimension, at most, where it holds of an interval for sure; None where it
        may hold of others: 0 where all along `dim` are alike."""
        if not isinstance(mask.type, TileType):
            return 0
        return self._sides(mask, dim, tuple(range(len(mask.shape))), mask)

    def _sides(self, v: Value, dim: int, where: Where, like: Value) -> int | None:
        op = v.op
        if isinstance(op, tile.Splat) or not isinstance(v.type, TileType):
            return 0
        if isinstance(op, tile.Expand):
            return self._sides(op.a, dim, where[: op.dim] + where[op.dim + 1 :], like)
        if isinstance(op, tile.Permute):
            return self._sides(op.a, dim, tuple(where[op.order.index(d)] for d in range(len(where))), like)
        if isinstance(op, tile.ConvertLayout):
            return self._sides(op.a, dim, where, like)
        if isinstance(op, arith.And):
            parts = [self._sides(o, dim, where, like) for o in (op.a, op.b)]
            return None if None in parts else sum(n for n in parts if n is not None)
        if dim not in where:
            return 0
        if not isinstance(op, arith.Cmp) or not op.a.dtype.is_int or op.predicate == "ne":
            return None
        sides = [self.expression(o, where if isinstance(o.type, TileType) else (), like) for o in (op.a, op.b)]
        steps = [self._along(side, like, dim) for side in AT_LEAST_ZERO[op.predicate](*sides)]
        return None if None in steps else sum(1 for step in steps if step is not None and step[0])

    # Polynomials -----------------------------------------------------------------------------------------------------

    def expression(self, v: Value, where: Where, like: Value) -> Affine:
        """An integer (a tile whose dimensions are those of `like` with these numbers) as a polynomial over the
        coordinates of `like`; tiles that are no such polynomial are atoms."""
        if not isinstance(v.type, TileType):
            return self.facts.affine(v)
        key = v, where
        if key not in self._expressions:
            self._expressions[key] = self._express(v, where, like)
        return self._expressions[key]

    def _express(self, v: Value, where: Where, like: Value) -> Affine:
        op = v.op
        if isinstance(op, tile.Iota):
            return Affine.of(self.coordinate(where[op.dim], op.shape[op.dim]))
        if isinstance(op, tile.Splat):
            return self.facts.affine(op.value)
        if isinstance(op, tile.Expand):
            return self.expression(op.a, where[: op.dim] + where[op.dim + 1 :], like)
        if isinstance(op, tile.Permute):
            return self.expression(op.a, tuple(where[op.order.index(d)] for d in range(len(where))), like)
        if isinstance(op, tile.ConvertLayout):
            return self.expression(op.a, where, like)
        if op is None or v.dtype.kind != "int" or v.dtype.bits < 32:
            return self._atom(v, where)
        if isinstance(op, arith.Cast) and op.a.dtype.kind == "int" and 32 <= op.a.dtype.bits <= v.dtype.bits:
            return self.expression(op.a, where, like)
        if type(op) in _SUMS and (v.dtype.bits == 64 or self.facts.is_index(v)):
            a, b = (self.expression(o, where, like) for o in op.operands)
            return _SUMS[type(op)](a, b)
        return self._atom(v, where)

    def _atom(self, v: Value, where: Where) -> Affine:
        """A tile that is not looked through: the same one along other coordinates is another number."""
        key = v, where
        if key not in self._atoms:
            atom = self._atoms[key] = Value(v.type)
            self._along_of[atom] = where
        return Affine.of(self._atoms[key])

    # Claims ----------------------------------------------------------------------------------------------------------

    def claims(self, mask: Value | None) -> tuple[Affine, ...]:
        """Polynomials, over the mask's coordinates, that are >= 0 for each element of which it holds."""
        if mask is None:
            return ()
        dims = tuple(range(len(mask.shape))) if isinstance(mask.type, TileType) else ()
        return self._claims(mask, dims, mask)

    def _claims(self, v: Value, where: Where, like: Value) -> tuple[Affine, ...]:
        op = v.op
        if isinstance(op, arith.And):
            return self._claims(op.a, where, like) + self._claims(op.b, where, like)
        if isinstance(op, tile.Splat):
            return self._claims(op.value, (), like)
        if isinstance(op, tile.Expand):
            return self._claims(op.a, where[: op.dim] + where[op.dim + 1 :], like)
        if isinstance(op, tile.Permute):
            return self._claims(op.a, tuple(where[op.order.index(d)] for d in range(len(where))), like)
        if isinstance(op, tile.ConvertLayout):
            return self._claims(op.a, where, like)
        if isinstance(op, arith.Cmp) and _is_number(op.a):
            sides = [self.expression(o, where if isinstance(o.type, TileType) else (), like) for o in (op.a, op.b)]
            return AT_LEAST_ZERO[op.predicate](*sides)
        return ()

    def whole_claims(self, mask: Value) -> tuple[Affine, ...] | None:
        """As `claims`, where the mask holds of no other elements; None where it says more than these."""
        parts, claims = [mask], self.claims(mask)
        while parts:
            op = parts.pop().op
            if isinstance(op, arith.And):
                parts += [op.a, op.b]
            elif isinstance(op, tile.Splat):
                parts.append(op.value)
            elif isinstance(op, (tile.Expand, tile.Permute, tile.ConvertLayout)):
                parts.append(op.a)
            elif not isinstance(op, arith.Cmp) or op.predicate == "ne" or not _is_number(op.a):
                return None
        return claims

    def says_bounds(self, mem: Value, indices: Sequence[Value], dims: Sequence[int | None], mask: Value) -> bool:
        """Whether a mask of an access of a tensor holds wherever its bounds do. Indices are scalars."""
        claims = self.whole_claims(mask) if isinstance(mask.type, TileType) else None
        if claims is None:
            return False
        bounds: list[Affine] = []
        for d, (v, along) in enumerate(zip(indices, dims, strict=True)):
            index = self.facts.affine(v)
            index = index if along is None else index + Affine.of(self.coordinate(along, mask.shape[along]))
            bounds += [self.facts.size(mem, d) - index - 1, index]
        return all(self.implied(claim, tuple(bounds)) for claim in claims)

    def between(self, op: tile.Load) -> bool:
        """Whether a load is of vectors that lie in two each: from a scalar index that may be no multiple of 16 bytes,
        of rows that begin at such multiples; no more than the bounds keep it from an element."""
        kind = op.mem.type
        if not isinstance(kind, TensorType) or kind.contiguous_dim is None or kind.dtype.kind == "bool":
            return False
        vector = ALIGNMENT // kind.dtype.bytes if kind.dtype.bits >= 8 else 1
        along = op.dims[kind.contiguous_dim]
        if vector < 2 or along is None or op.shape[along] % vector or row_alignment(self.facts, op.mem) % vector:
            return False
        if any(isinstance(v.type, TileType) for v in op.indices):
            return False
        if self.facts.multiple(self.facts.affine(op.indices[kind.contiguous_dim])) % vector == 0:
            return False
        return op.mask is None or self.says_bounds(op.mem, op.indices, op.dims, op.mask)

    def implied(self, a: Affine, claims: tuple[Affine, ...]) -> bool:
        """Whether a >= 0 follows from one of the claims."""
        return any(self.facts.nonnegative(a - claim) for claim in claims)


def _is_number(v: Value) -> bool:
    """Whether it is of a type whose sums are taken for polynomials."""
    return v.dtype.kind == "int" and v.dtype.bits >= 32
