"""Tensor memory that the program allocates itself (T.alloc_tmem): the part of `tensor_memory` for such kernels.

    %c = alloc tmem<128x64xf32>               %m = tensor_memory {columns = 64} ; %c = tensor_alloc %m
    tensor_gemm %As, %Bs, %c, %bars, 0        tensor_gemm %As, %Bs, %c, %bars, 0
    barrier_wait %bars, 0, %parity       →    barrier_wait %bars, 0, %parity
    %t = load %c[0, 0] ; store %t, %C[…]      %t = tensor_load %c ; store %t, %C[…]
                                              tensor_free %m, %c

Where products are those of pairs of blocks, both allocate and free together, once both are done.

Buffers get columns one after the other, also those that loops and roles allocate; a view has those of its buffer. Which
products a wait is for is the program's own business, as is all order between roles; fences and the deallocation are the
compiler's.
"""

from __future__ import annotations

from typing import Any

from minitile.backends.nvidia.blackwell.layouts import HALF_ROWS, ROWS, accumulator, columns_of, words
from minitile.backends.nvidia.blackwell.products import in_tensor_memory, misfit_of
from minitile.backends.nvidia.blackwell.shapes import COLUMNS, allocated
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError, ResourceError
from minitile.ir.ops import blackwell, control, explicit, hopper, tile
from minitile.ir.origin import Origin, places
from minitile.ir.types import bool_


def lower_explicit(kernel: Kernel, target: Any) -> None:
    """Raises LanguageError, ResourceError for what tensor memory or tcgen05 has not."""
    launch = control.find_launch(kernel)
    allocs = _taken(launch.body)
    if not allocs:
        return
    pair = _of_pair(launch)
    _Accesses(target).block(launch.body, kernel.threads)
    why = Origin("tensor_memory", "T.alloc_tmem", places(op.loc for op in allocs))
    b, made = Builder(Block(), allocs[0].loc), Block()
    with b.inside(made), b.because(why):
        first = blackwell.TensorMemory(0, pair=pair)
        memory = b.emit(first).result
    names: dict[Value, Value] = {}
    buffers: list[Op] = []
    column = 0
    for alloc in allocs:
        blocks, stride = _shape(alloc)
        new = blackwell.TensorAlloc(memory, alloc.type_, column, stride)
        new.loc, new.result.name = alloc.loc, alloc.result.name
        names[alloc.result] = new.result
        buffers.append(new)
        column += blocks * stride
    if column > COLUMNS:
        raise ResourceError(
            f"{column} columns of tensor memory: there are {COLUMNS}",
            allocs[-1].loc,
            f"a buffer of {ROWS} rows has as many columns as it has, of 4 bytes each",
        )
    columns = allocated(column)
    first.columns = columns
    for op in launch.body.walk():
        op.replace_operands(lambda v: names.get(v, v))
    ops = launch.body.ops
    ready = max((n for n, op in enumerate(ops) if isinstance(op, explicit.Barriers)), default=-1) + 1
    rest = ops[ready:]
    end = [rest.pop()] if launch.body.terminator is not None else []
    last = Block()
    with b.inside(last), b.because(Origin("tensor_memory", "tensor memory is given back")):
        if pair:
            b.emit(hopper.ClusterBarrier())
        b.emit(blackwell.TensorFree(memory, tuple(names.values()), columns, pair=pair))
    launch.body.ops = [*made.ops, *ops[:ready], *buffers, *rest, *last.ops, *end]


def _of_pair(launch: control.Launch) -> bool:
    """Whether products are those of pairs, as all of a kernel are or none (PTX ISA 8.8, 9.7.16.5); their commits, too.
    Raises LanguageError."""
    gemms = [op for op in launch.body.walk() if isinstance(op, blackwell.TensorGemm)]
    pair = any(op.pair for op in gemms)
    for op in gemms:
        if op.pair != pair:
            raise LanguageError("T.tcgen05_gemm without use_2cta, in a kernel that has one with it", op.loc)
    for other in launch.body.walk():
        if isinstance(other, blackwell.BarrierCommit):
            other.pair = pair
    return pair


def _taken(block: Block) -> list[tile.Alloc]:
    """The allocations in a block and in what it contains, taken out of it."""
    found: list[tile.Alloc] = []
    for op in block.ops:
        if isinstance(op, tile.Alloc) and op.type_.space == "tmem":
            found.append(op)
        for region in op.regions:
            found += _taken(region)
    block.ops = [op for op in block.ops if op not in found]
    return found


def _shape(op: tile.Alloc) -> tuple[int, int]:
    """Blocks of rows of a buffer, and the columns of 32 bits of each. Raises LanguageError."""
    t = op.type_
    if len(t.shape) != 2 or (t.shape[0] % ROWS and t.shape[0] != HALF_ROWS) or t.shape[1] % 16:
        shown = "×".join(map(str, t.shape))
        raise LanguageError(
            f"T.alloc_tmem of {shown}: rows are {HALF_ROWS}, or come in blocks of {ROWS}, columns in steps of 16",
            op.loc,
        )
    if t.dtype.bits not in (8, 16, 32):
        raise LanguageError(f"T.alloc_tmem of {t.dtype}: elements have 8, 16 or 32 bits", op.loc)
    if columns_of(t) > COLUMNS:
        raise ResourceError(f"T.alloc_tmem of {columns_of(t)} columns: tensor memory has {COLUMNS}", op.loc)
    return words(t.shape, t.dtype.bits)


class _Accesses:
    """Loads and stores become those of tensor memory; products are checked."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.b = Builder(Block())

    def block(self, block: Block, threads: int) -> None:
        ops: list[Op] = []
        for op in block.ops:
            for region, count in zip(op.regions, explicit.sides(op, threads), strict=True):
                self.block(region, count)
            if isinstance(op, blackwell.TensorGemm) and (reason := misfit_of(op, threads, self.target)):
                raise LanguageError(f"T.tcgen05_gemm: {reason}", op.loc)
            if isinstance(op, tile.Copy) and (in_tensor_memory(op.src) or in_tensor_memory(op.dst)):
                through = tile.Load(op.src, op.src_indices, op.shape, op.src_dims, slot=op.src_slot)
                store = tile.Store(op.dst, op.dst_indices, through.result, op.dst_dims, slot=op.dst_slot)
                through.loc = store.loc = op.loc
                parts = Block(ops=[through, store])
                self.block(parts, threads)
                ops += parts.ops
            elif isinstance(op, tile.Load) and in_tensor_memory(op.mem):
                ops += self.load(op, threads)
            elif isinstance(op, tile.Store) and in_tensor_memory(op.mem):
                ops.append(self.store(op, threads))
            else:
                self.check(op)
                ops.append(op)
        block.ops = ops

    def load(self, op: tile.Load, threads: int) -> list[Op]:
        column = self.column(op, op.shape, threads)
        with self.b.inside(Block()) as made:
            always = self.b.constant(True, bool_)
        new = blackwell.TensorLoad(op.mem, always, column=column, count=op.shape[1])
        new.loc, new.results = op.loc, op.results
        op.result.owner = new
        return [*made.ops, new]

    def store(self, op: tile.Store, threads: int) -> Op:
        new = blackwell.TensorStore(op.value, op.mem, column=self.column(op, op.value.shape, threads))
        new.loc = op.loc
        return new

    def column(self, op: tile.Load | tile.Store, shape: tuple[int, ...], threads: int) -> int:
        """Where the region begins. Raises LanguageError for what is no whole columns."""
        name, (rows, columns) = op.mem.name or "a buffer", op.mem.shape
        first = [constant_of(i) for i in op.indices]
        if op.mask is not None or op.dims != (0, 1) or shape[0] != rows or first[0] != 0 or first[1] is None:
            raise LanguageError(
                f"{name} in tensor memory is not accessed by whole columns from a constant one on",
                op.loc,
                f"T.copy({name}[:, 0:32], …) copies 32 of them",
            )
        part = shape[1] != columns
        if part and (rows == HALF_ROWS or (first[1] | shape[1]) * op.mem.dtype.bits % 32):
            raise LanguageError(f"{shape[1]} columns of {rows}×{columns} are not copied alone", op.loc)
        if accumulator((rows, shape[1]), threads) is None:
            raise LanguageError(f"{threads} threads do not share {rows}×{shape[1]} of tensor memory", op.loc)
        return int(first[1])

    def check(self, op: Op) -> None:
        ours = isinstance(op, tile.Alloc | blackwell.TensorGemm | blackwell.TensorView)
        if not ours and any(in_tensor_memory(v) for v in op.operands):
            raise LanguageError(
                f"`{op.mnemonic}` on tensor memory", op.loc, "T.copy moves it to a fragment, and back; T.tcgen05_gemm"
            )
