"""The operands of a multiplication, one step of K at a time: what the backends' gemm rules share.

A gemm is unrolled over K in steps of the instruction's k. A tile operand is in registers already, and a step picks its
own; of a shared buffer each step loads its part, with addresses that were made for all steps together, so that steps
differ by immediates or one xor. Loads are ldmatrix where the target has it and the shared layout whole 16-byte rows for
it, else as wide as registers and layout go together; where they do not at all, gfx950 has reads that transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitile.analysis.affine import Affine
from minitile.ir.core import Op, Value
from minitile.ir.ops import thread, tile
from minitile.ir.types import TileType
from minitile.layout import Layout
from minitile.layout.access import bits_of_digits, vector_runs
from minitile.layout.access import vector_width as shared_width
from minitile.layout.ldmatrix import ldmatrix_plan
from minitile.layout.shared import add_maybe_bits
from minitile.layout.transposed import transposed_plan
from minitile.lowering.accesses import Place
from minitile.lowering.context import Lowering
from minitile.lowering.memory import bits_of_start, in_memory, places, shared_addresses, shared_layout


class Fragments:
    """A gemm operand, one step of K at a time."""

    def step(self, number: int) -> Value:
        raise NotImplementedError


def fragments(
    low: Lowering,
    operand: Value,
    indices: Sequence[Value],
    dims: tile.Dims,
    slot: Value | None,
    layout: Layout,
    whole: Layout,
    transposed: bool,
    k_dim: int,
) -> Fragments:
    """`layout` is one step's, `whole` all of K's; both in the order of the multiplication, K along `k_dim`."""
    if transposed:
        layout, whole, k_dim = layout.permute_dims((1, 0)), whole.permute_dims((1, 0)), 1 - k_dim
    if isinstance(operand.type, TileType):
        return RegisterFragments(low, low.get(operand), layout, whole, k_dim)
    steps = whole.shape[k_dim] // layout.shape[k_dim]
    return SharedFragments(low, operand, indices, dims, slot, layout, k_dim, steps)


class RegisterFragments(Fragments):
    def __init__(self, low: Lowering, value: Value, layout: Layout, whole: Layout, k_dim: int) -> None:
        self.low, self.value, self.layout, self.k_dim = low, value, layout, k_dim
        self.where = {at: reg for reg, at in enumerate(whole.register_offsets())}

    def step(self, number: int) -> Value:
        moved = number * self.layout.shape[self.k_dim]
        wanted = [list(at) for at in self.layout.register_offsets()]
        for at in wanted:
            at[self.k_dim] += moved
        return self.low.pick(self.value, [self.where[tuple(at)] for at in wanted])


@dataclass(frozen=True, slots=True)
class _Access:
    registers: tuple[int, ...]
    offset: tuple[int, ...]


class SharedFragments(Fragments):
    """Addresses of all steps are made at once; each step then loads with its share of them."""

    def __init__(
        self,
        low: Lowering,
        buffer: Value,
        indices: Sequence[Value],
        dims: tile.Dims,
        slot: Value | None,
        layout: Layout,
        k_dim: int,
        steps: int,
    ) -> None:
        self.low, self.buffer, self.slot, self.layout = low, buffer, slot, layout
        shared = shared_layout(buffer)
        starts = [low.facts.affine(v) for v in indices] if indices else [Affine(0)] * len(buffer.shape)
        inside = in_memory(layout, dims)
        start_bits = tuple(bits_of_start(low, s) for s in starts)
        self.read: type[thread.LdMatrix] = thread.LdMatrix
        self.matrix = ldmatrix_plan(inside, shared, 4, start_bits) if low.target.has("ldmatrix") else None
        if low.target.has("lds_transpose") and shared_width(inside, shared) == 1:
            self.read, self.matrix = thread.LoadTransposed, transposed_plan(inside, shared, start_bits)
        if self.matrix is not None:
            bits = bits_of_digits(self.matrix.lane_digits + inside.warp, inside.rank)
            rows = [tuple(d for d in self.matrix.rows if d.dim == m) for m in range(inside.rank)]
            where = [
                Place(start, low.digits_value(row), 0, add_maybe_bits(mine, base))
                for start, row, mine, base in zip(starts, rows, bits, start_bits, strict=True)
            ]
            self.width = 1
            self.accesses = [_Access(sum(x.registers, ()), x.offset) for x in self.matrix.accesses]
        else:
            where = places(low, starts, inside)
            self.width = shared_width(inside, shared)
            runs = vector_runs(inside, self.width, shared.contiguous_dim)
            self.accesses = [_Access(registers, at) for registers, at in runs]
        k_memory = dims.index(k_dim)
        size = layout.shape[k_dim]
        offsets = [moved(x.offset, k_memory, step * size) for step in range(steps) for x in self.accesses]
        self.addresses = shared_addresses(low, buffer, slot, where, offsets)

    def step(self, number: int) -> Value:
        low, count = self.low, len(self.accesses)
        mine = slice(number * count, (number + 1) * count)
        order = [r for x in self.accesses for r in x.registers]
        common = {
            "mem": low.get(self.buffer),
            "slot": None if self.slot is None else low.get(self.slot),
            "address_of": self.addresses.index[mine],
            "offsets": self.addresses.offsets[mine],
        }
        if self.matrix is not None:
            words = count * self.matrix.count
            op: Op = self.read(
                self.addresses.value,
                dtype=self.buffer.dtype,
                words=words,
                number=self.matrix.count,
                transpose=self.matrix.trans,
                **common,
            )
        else:
            op = thread.LoadMem(
                self.addresses.value,
                space="shared",
                dtype=self.buffer.dtype,
                count=len(order),
                width=self.width,
                **common,
            )
        back = [0] * len(order)
        for n, register in enumerate(order):
            back[register] = n
        return low.pick(low.b.emit(op).result, back)


def moved(at: tuple[int, ...], dim: int, by: int) -> tuple[int, ...]:
    return (*at[:dim], at[dim] + by, *at[dim + 1 :])
