"""What the steady loop of each kernel for sm_100a keeps busy: an estimate from public figures. Nothing is measured.

    python benchmarks/blackwell_estimate.py              the table of docs/blackwell.md

A turn is one tile of a persistent GEMM with K = 4096, or one block of keys of attention. Each unit of a multiprocessor
does its part of a turn in so many cycles at the least; where all parts overlap, a turn takes as long as the busiest
unit. Latencies, conflicts of banks, clocks that fall under load come on top.

    unit            a cycle                          source
    tensor          4096 multiply-adds of 16 bits    NVIDIA's data sheet of the B200: 2.25 dense PFLOPS of bf16, by 148
                                                     multiprocessors at 1.85 GHz; twice for 8 bits, 4 times for 4
    shared          128 bytes                        FlashAttention-4 (together.ai/blog/flashattention-4): as the H100's
    tensor memory   256 bytes of ld and st           open microbenchmarks on a B300: 57 bytes for each of four warps
    MUFU            16 exponentials                  FlashAttention-4, likewise
    arithmetic      128 results of 32 bits           CUDA C++ Programming Guide, "Arithmetic Instructions", 10.0
    issue           4 instructions of a warp         CUDA C++ Programming Guide, "Compute Capability 10.x"
    copies          64 bytes from L2                 hardware.Rates; no source for this GPU: not among the busiest

Products read A and B from shared memory once for each 128 rows, B by halves where two blocks are a pair, and A from
tensor memory where it is there. That they read and write accumulators costs nothing here. An exponential by polynomial
is 8 instructions. The output of attention with roles is scaled in no turn: its maxima have settled.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minitile as mt
from minitile.backends.nvidia.blackwell.layouts import ROWS
from minitile.backends.nvidia.targets import TARGETS
from minitile.ir.core import Block, Kernel, Op
from minitile.ir.ops import arith, blackwell, control, explicit, roles
from minitile.ir.parser import parse_kernel
from minitile.ir.types import PACKED, BufferType
from minitile.transforms.schedule.cost import cost_of

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import attention
import attention_roles
import gemm
import gemm_mx
import gemm_persistent

TARGET = next(each for each in TARGETS if each.name == "sm_100a")
UNITS = ("tensor", "shared", "tensor memory", "MUFU", "arithmetic", "issue", "copies")
TENSOR_MEMORY, LANES = 256, 128  # bytes of ld and st, threads whose instruction is issued in a cycle
WIDE = 16  # bytes that a thread moves by one instruction
DEPTH = 4096  # K of the GEMMs
POLYNOMIAL = 8  # instructions of an exponential by polynomial (lowering/expand_math.py)
NAMES = {"copy": "copies", "special": "MUFU"}


@dataclass(frozen=True)
class Case:
    """A kernel: its name, and how it is compiled; `step`: elements of K in a turn of the inner loops. `inner`: a turn
    is one of the inner loops."""

    name: str
    compile: Callable[[], Any]
    step: int = DEPTH
    inner: bool = False


def _arrays(m: int, n: int, k: int, element: str, result: str) -> list[Any]:
    return [mt.spec((m, k), element), mt.spec((n, k), element), mt.spec((m, n), result)]


def _plain(name: str, element: str, result: str, **tiles: int) -> Case:
    dtype, accumulate, numpy, _ = (gemm.DTYPES | gemm.FP8)[name]
    narrow = np.dtype(numpy).itemsize == 1
    kernel = gemm.make_gemm(dtype, accumulate, accumulate if narrow else dtype, False, True)
    given = {"persistent": 148, "block_M": 128, "block_N": 256, "threads": 256, **tiles}
    arrays = _arrays(8192, 8192, DEPTH, element, result)
    return Case(f"GEMM {name}", lambda: kernel.compile(*arrays, target=TARGET.name, **given), tiles["block_K"])


def _pair() -> Case:
    arrays = _arrays(8192, 8192, DEPTH, "bfloat16", "bfloat16")
    given = {"blocks": 148, "block_N": 256, "block_K": 64, "cluster": 2}
    kernel = gemm_persistent.gemm_persistent
    return Case("GEMM bf16, pairs", lambda: kernel.compile(*arrays, target=TARGET.name, **given), 64)


def _scaled(name: str, block: int, element: str, scale: str, title: str, cluster: int = 1) -> Case:
    packed, step = DEPTH * gemm_mx.FORMATS[name][2] // 8, 128 if name == "e4m3" else 256
    packs = (8192 // 128, DEPTH // block // 4, 32, 16)
    shapes = [((8192, packed), element)] * 2 + [(packs, scale)] * 2 + [((8192, 8192), "float32")]
    arrays = [mt.spec(*each) for each in shapes]
    given = {"block_N": 256, "block_K": step, "threads": 256, "cluster": cluster}
    kernel = gemm_mx.gemm_mx_packed(name, name, block)
    return Case(f"GEMM {title}", lambda: kernel.compile(*arrays, target=TARGET.name, **given), step)


def _attention() -> Case:
    arrays = [mt.spec((1, 16, 4096, 128), "bfloat16")] * 4
    kernel, given = attention.attention, {"block_M": 256, "block_N": 128}
    return Case("attention, heads of 128", lambda: kernel.compile(*arrays, target=TARGET.name, **given))


def _roles_attention(share: float) -> Case:
    arrays = [mt.spec((1, 16, 4096, 128), "bfloat16")] * 4
    kernel, by = attention_roles.attention_roles, f", {share:.1%} of exp2 by polynomial" if share else ""
    compiled = lambda: kernel.compile(*arrays, target=TARGET.name, share=share)  # noqa: E731
    return Case(f"attention, roles{by}", compiled, inner=True)


CASES = (
    _plain("bf16", "bfloat16", "bfloat16", block_K=64),
    _pair(),
    _plain("e4m3", "float8_e4m3fn", "float32", block_K=128),
    _plain("int8", "int8", "int32", block_K=128),
    _plain("tf32", "float32", "float32", block_K=32),
    _scaled("e4m3", 32, "float8_e4m3fn", "uint8", "mxf8"),
    _scaled("e4m3", 32, "float8_e4m3fn", "uint8", "mxf8, pairs", 2),
    _scaled("e2m1", 16, "uint8", "float8_e4m3fn", "nvf4"),
    _scaled("e2m1", 16, "uint8", "float8_e4m3fn", "nvf4, pairs", 2),
    _attention(),
    _roles_attention(0.0),
    _roles_attention(0.125),
    _roles_attention(0.25),
)

# The model ----------------------------------------------------------------------------------------------------------


def busy(op: Op) -> Counter[str]:
    """Cycles of each unit that an operation of tile IR, without what is in it, keeps busy."""
    if isinstance(op, blackwell.TensorGemm):
        return _products(op)
    if isinstance(op, blackwell.TensorLoad | blackwell.TensorStore):
        moved = op.result if isinstance(op, blackwell.TensorLoad) else op.value
        size = math.prod(moved.shape) * moved.dtype.bits / 8
        return Counter({"tensor memory": size / TENSOR_MEMORY})
    unit, cycles = cost_of(op, TARGET.rates)
    if isinstance(op, explicit.BulkLoad):
        unit, cycles = "copy", math.prod(op.shape) * op.dst.dtype.bits / 8 / TARGET.rates.copied
    found = Counter({NAMES.get(unit, unit): cycles} if unit else {})
    if isinstance(op, explicit.BulkLoad):
        found["shared"] += cycles * TARGET.rates.copied / TARGET.rates.shared
    elif isinstance(op, arith.Exp2) and op.polynomial:
        elements = cycles * TARGET.rates.special
        instructions = elements * (1 - op.polynomial + POLYNOMIAL * op.polynomial)
        found["MUFU"] = cycles * (1 - op.polynomial)
        found["arithmetic"] += elements * op.polynomial * POLYNOMIAL / TARGET.rates.arithmetic
        found["issue"] += instructions / LANES
    elif isinstance(op, roles.TmaCopy):
        found["shared"] += math.prod(op.dst.shape) * op.dst.dtype.bits / 8 / TARGET.rates.shared
    elif unit in ("arithmetic", "special"):
        found["issue"] += cycles * (TARGET.rates.arithmetic if unit == "arithmetic" else TARGET.rates.special) / LANES
    elif unit in ("shared", "copy"):
        found["issue"] += cycles * (TARGET.rates.shared if unit == "shared" else TARGET.rates.copied) / WIDE / LANES
    return found


def _products(op: blackwell.TensorGemm) -> Counter[str]:
    m, n = op.d.shape
    a, b = (PACKED[f].bits if f in PACKED else v.dtype.bits for f, v in zip(op.formats, (op.a, op.b), strict=True))
    found = Counter({"tensor": m * n * op.k * a / 16 / TARGET.rates.products})
    of_a, of_b = m * op.k * a / 8, max(1, m // ROWS) * n * op.k * b / 8 / (1 + op.pair)
    in_tensor = isinstance(op.a.type, BufferType) and op.a.type.space == "tmem"
    found["shared"] += (of_b if in_tensor else of_a + of_b) / TARGET.rates.shared
    found["tensor memory"] += of_a / TENSOR_MEMORY if in_tensor else 0
    for source in (op.a_scale_from, op.b_scale_from):  # tcgen05.cp
        if source is not None:
            found["shared"] += math.prod(source.shape) * source.dtype.bits / 8 / TARGET.rates.shared
    return found


def _block(block: Block, inner: int) -> Counter[str]:
    """Of a block; loops in it have `inner` turns."""
    total: Counter[str] = Counter()
    for op in block.ops:
        if isinstance(op, control.If) and _scales(op):
            continue
        if isinstance(op, control.If):  # what most turns do
            parts = [_block(region, inner) for region in op.regions]
            total += max(parts, key=lambda part: sum(part.values()))
        elif isinstance(op, control.For):
            for unit, cycles in _block(op.body, inner).items():
                total[unit] += cycles * inner
        else:
            total += busy(op)
    return total


def _scales(op: control.If) -> bool:
    """Whether a branch loads columns of an accumulator to store them again: most turns have no maximum that moves."""
    loaded = {each.d for each in op.then.ops if isinstance(each, blackwell.TensorLoad)}
    return any(isinstance(each, blackwell.TensorStore) and each.d in loaded for each in op.then.ops)


def _outer_loops(block: Block) -> Iterator[control.For]:
    for op in block.ops:
        if isinstance(op, control.For):
            yield op
        else:
            for region in op.regions:
                yield from _outer_loops(region)


def turn(kernel: Kernel, inner: int) -> Counter[str]:
    """Of all roles together, one turn of the outermost loops; where there are none but those of K, a tile."""
    launch = control.find_launch(kernel)
    loops = [loop for loop in _outer_loops(launch.body) if any(map(_works, loop.body.walk()))]
    tiles = any(isinstance(op, control.For) for loop in loops for op in loop.body.walk())
    total: Counter[str] = Counter()
    if tiles or inner == 1:
        for loop in loops:
            total += _block(loop.body, inner)
        return total
    return _roles(launch.body, inner)


def _roles(block: Block, inner: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for op in block.ops:
        if isinstance(op, roles.WarpSpecialized):
            for region in op.regions:
                total += _block(region, inner)
    return total


def _works(op: Op) -> bool:
    return isinstance(op, blackwell.TensorGemm | blackwell.TensorLoad | roles.TmaCopy | explicit.BulkLoad)


def estimate(case: Case) -> dict[str, float]:
    """Cycles of each unit in a turn."""
    compiled = case.compile()
    kernel = parse_kernel(compiled.asm["tile_ir"])
    found = turn(kernel, DEPTH // case.step)
    before = turn(kernel, 0) if case.inner else Counter[str]()
    return {unit: found[unit] - before[unit] for unit in UNITS}


def table() -> list[str]:
    """The lines of the table, in Markdown; "busiest" is one of the units whose rate has a source."""
    lines = [f"| kernel | {' | '.join(UNITS)} | busiest | tensor cores busy |", "|---" * (len(UNITS) + 3) + "|"]
    for case in CASES:
        cycles = estimate(case)
        most = max(UNITS[:-1], key=cycles.__getitem__)
        numbers = " | ".join(f"{cycles[unit]:.0f}" for unit in UNITS)
        lines.append(f"| {case.name} | {numbers} | {most} | {cycles['tensor'] / cycles[most]:.0%} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
