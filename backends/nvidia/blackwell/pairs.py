"""Pairs of blocks that multiply as one (cta_group::2): what `issue_apart` does with a cluster of two that shares B.

    cluster (2, 1, 1)                                     even block, odd block
      tma_copy %A[…], %As, %ring                            pair_copy: each its rows of A
      tma_copy %B[…], %Bs, %ring {common = (0)}      →      pair_copy {half = 0}: each half of B's rows
      tensor_gemm %As, %Bs, %d   (128 × N in each)          the even one: tensor_gemm {pair}   (256 × N in both)

Two blocks that have neighbouring rows of the result, and so the same B, need half of B each: products of M = 256 read
A, and half of B, from either block's shared memory, and each block has its rows of the accumulator as before. All bytes
of a slot land on the even block's barrier; its issuer multiplies for both, and its commits arrive at both blocks'
barriers. Scales of blocks each block has in its own shared and tensor memory, those of its rows of A and of all of B;
the even issuer's copies are made in both. That both have loaded an accumulator, they tell the even block. All meet
before tensor memory goes, which both allocate and free together.

Sources: PTX ISA 8.8, 9.7.16.2 to 9.7.16.5; CUTLASS, include/cutlass/pipeline/sm100_pipeline.hpp (PipelineTmaUmmaAsync)
and include/cute/arch/tmem_allocator_sm100.hpp (Allocator2Sm).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence

from minitile.analysis.divergence import Varying
from minitile.backends.nvidia.blackwell.layouts import HALF_ROWS, ROWS
from minitile.backends.nvidia.blackwell.pair_rules import PAIR
from minitile.backends.nvidia.blackwell.products import kind_of_gemm
from minitile.backends.nvidia.blackwell.shapes import misfit
from minitile.backends.nvidia.hopper.wgmma import panels_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import blackwell, control, roles, tile
from minitile.ir.rewrite import recast, replace_ops
from minitile.ir.types import BufferType
from minitile.layout import boxed


def why_no_pair(launch: control.Launch, copies: Sequence[roles.TmaCopy], gemms: Sequence[blackwell.TensorGemm]) -> str:
    """Why the blocks of a cluster that fill each other's slots are no pair; "" where they are."""
    if math.prod(launch.cluster) != PAIR:
        return f"blocks of a cluster of {math.prod(launch.cluster)} fill each other's slots"
    left, right = {gemm.a for gemm in gemms}, {gemm.b for gemm in gemms}
    right_scales = {gemm.b_scale_from for gemm in gemms if gemm.b_scale_from is not None}
    varying = Varying(launch)
    for copy in copies:
        name = copy.dst.name or "a buffer"
        if copy.dst in left and (copy.common or copy.dst in right):
            return f"both blocks of the cluster have the same {name}, which multiplies from the left"
        if copy.dst in right and not copy.common:
            return f"the blocks of the cluster do not share {name}"
        if copy.dst in right_scales and any(varying.of(v) for v in copy.src_indices):
            return f"the blocks of the cluster have other scales in {name}"
        if copy.dst in left | right and isinstance(copy.dst.op, tile.Alloc) and copy.dst.op.layout is not None:
            return f"the program says how {name} lies"
    for gemm in gemms:
        if reason := _unpaired(gemm):
            return reason
    return ""


def _unpaired(gemm: blackwell.TensorGemm) -> str:
    m, n = gemm.d.shape
    kind = kind_of_gemm(gemm)
    assert kind is not None
    if m == HALF_ROWS:
        return f"a pair's products have {PAIR * ROWS} rows"
    if reason := misfit(kind, PAIR * ROWS, n, PAIR):
        return reason
    half = boxed(_halved(gemm.b.shape, _n_dim(gemm)), gemm.b.dtype.bits)
    if not gemm.transpose_b and (n // PAIR % panels_of(half)[0] or not half.swizzle.width):
        return f"half of {n} columns is not whole panels"
    return ""


def _n_dim(gemm: blackwell.TensorGemm) -> int:
    return 0 if gemm.transpose_b else 1


def _halved(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return tuple(size // PAIR if d == dim else size for d, size in enumerate(shape))


def make_pair(
    blocks: Iterable[Block],
    rings: Mapping[Value, roles.MbarrierPipeline],
    copies: Container[roles.TmaCopy],
    gemms: Sequence[blackwell.TensorGemm],
) -> dict[Value, roles.MbarrierPipeline]:
    """The rings of TMA, the copies to them and the products become those of both blocks: the rings, by their values.
    `blocks`: those in which rings and copies stand, or something around them."""
    dims = {gemm.b: _n_dim(gemm) for gemm in gemms}
    for buffer, dim in dims.items():
        _halve(buffer, dim)
    made: dict[Value, roles.MbarrierPipeline] = {}

    def new(op: Op) -> Op:
        if isinstance(op, roles.TmaCopy) and op in copies:
            return recast(op, blackwell.PairCopy, common=(), half=dims.get(op.dst))
        if isinstance(op, roles.MbarrierPipeline) and op.result in rings:
            ring, value = recast(op, blackwell.PairPipeline, common=()), op.result
            value.owner, value.type = ring, ring.infer()[0]
            ring.results = (value,)
            made[value] = ring
            return ring
        return op

    for block in blocks:
        replace_ops(block, new)
    for gemm in gemms:
        gemm.pair = True
    return made


def _halve(buffer: Value, dim: int) -> None:
    t, alloc = buffer.type, buffer.op
    assert isinstance(t, BufferType)
    assert isinstance(alloc, tile.Alloc)
    alloc.type_ = buffer.type = BufferType(t.space, _halved(t.shape, dim), t.dtype, t.versions)
