"""Which gemms are issued as wgmma: the one rule, for gemms in pipelined loops and outside of them, with roles, without
and explicit ones.

A gemm is issued asynchronously (`async_gemm`: a future tile and the token that completes it) if

* the backend has an asynchronous instruction for its shapes, types and threads (`Rules.refuses_async`: whole
  warpgroups of 64 rows each, K-major operands where the type wants them, layouts that a descriptor can say);
* each operand in shared memory is a matrix of rows of whole 16 bytes, or a part of one that begins where the swizzle
  begins anew, for all threads at the same place;
* f32 operands in shared memory are rounded to tf32 on their way there: the tensor cores would truncate them, where
  mma.sync rounds what it loads. `Rounding` knows what writes a buffer, and lets the writers round;
* the kernel calls no function (`calls`: T.print): beside a call ptxas lets one wgmma wait for the other (C7510);
* all gemms that add to the same accumulator are: the registers of a tile lie otherwise for mma.sync, and to move them
  there and back costs more than the one gemm saves.

It does not matter what wrote the operands (threads, cp.async, TMA) or where the gemm stands: a block, a loop of any
kind, a uniform branch. What its asynchrony needs is what the passes behind do for every asynchronous operation, from
what it declares:

    the future tile              awaited before its first use: at once to begin with, as late as can be after
                                 `sink_wgmma_waits`; resolve_wait_counts computes N of wgmma.wait_group
    operands in shared memory    read through the async proxy until the token is awaited. `sink_wgmma_waits` awaits it
                                 before anything writes them, allocate_shared_memory keeps their bytes, thread_barriers
                                 puts a barrier between the wait and other threads' writes, proxy_fence a
                                 fence.proxy.async between what threads stored and the gemm
    operands in registers        a `fragment` of their own, not written again before the await
    registers at issue           wgmma.fence in front of each group that ordinary instructions may have written
                                 registers for (the writer)

The rest is left to mma.sync, and `context.notes` has the reason for each. Who issues:

    warp_specialize, tma_multistage   in the consumers' part, all gemms of the program: where the rule refuses one, the
                                      kernel is not specialised
    lower_manual_wgmma                every gemm that is left
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.tf32_rounding import Rounding
from minitile.backends.base import Rules
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import explicit, roles, tile
from minitile.ir.rewrite import recast
from minitile.ir.types import BufferType, f32
from minitile.layout import boxed
from minitile.transforms.pipeline.accumulators import Accumulators

CHUNK = 16  # bytes of a row that the swizzle moves as a whole
ATOM_K = 32  # bytes along K that one instruction takes


def refusal(gemm: tile.Gemm, threads: int, rules: Rules, facts: Facts, rounded: Callable[[Value], str]) -> str:
    """Why a gemm of so many threads is not issued as wgmma; "" if it is. `rounded`: why the f32 elements of a shared
    buffer are not all rounded to tf32 when they get there; "" if they are."""
    for name, value, indices in (("A", gemm.a, gemm.a_indices), ("B", gemm.b, gemm.b_indices)):
        if isinstance(value.type, BufferType):
            reason = _place(gemm, name, value, indices, facts) or (rounded(value) if value.dtype is f32 else "")
            if reason:
                return reason
    return rules.refuses_async(gemm, threads)


def _place(gemm: tile.Gemm, name: str, value: Value, indices: tuple[Value, ...], facts: Facts) -> str:
    """Why an operand lies where no descriptor can begin."""
    if len(value.shape) != 2:
        return f"{name} is part of {value.name or 'a buffer'}, which has {len(value.shape)} dimensions"
    size = value.dtype.bytes
    if value.shape[1] * size % CHUNK:
        return f"the rows of {value.name or 'an operand'} are no whole 16 bytes, as wgmma wants them"
    if not all(map(facts.uniform, indices)):
        return f"{name} begins at places that differ between threads"
    row, column = (facts.affine(i) for i in indices)
    alloc = value.op
    layout = alloc.layout if isinstance(alloc, tile.Alloc) and alloc.layout else boxed(value.shape, value.dtype.bits)
    panel = layout.dims[-1][0].size
    k_major = (name == "A") != (gemm.transpose_a if name == "A" else gemm.transpose_b)
    step = ATOM_K // size if k_major else panel
    if k_major and not column.is_constant and panel < value.shape[1]:  # its steps along K stay in one panel
        step = gemm.depth if panel % gemm.depth == 0 else panel
    if any(facts.multiple(at) % unit for at, unit in ((row, 8), (column, step)) if at != Affine()):
        at = f"[{_shown(row)}, {_shown(column)}]"
        return f"{name} begins at {at} of its buffer, inside of what the swizzle keeps together"
    return ""


def _shown(at: Affine) -> str:
    return str(at.const) if at.is_constant else "…"


def call_in(body: Block) -> str:
    """Why no gemm of a kernel is issued as wgmma, if there is such a reason."""
    call = next((op for op in body.walk() if op.calls), None)
    return f"`{call.mnemonic}` is a function call, beside which products are not asynchronous" if call else ""


def issue(b: Builder, gemm: tile.Gemm, /, **fields: Value | None) -> roles.AsyncGemm:
    """The gemm in flight, with other operands as `fields` say. The pass that issues it places its await."""
    new = b.emit(recast(gemm, roles.AsyncGemm, **{"behind": None, **fields}))
    new.results[0].name = gemm.result.name
    return new


# All gemms of a kernel ----------------------------------------------------------------------------------------------


@dataclass
class Choice:
    """`chosen`: the gemms that are issued as wgmma; `refused`: the others, with the reason. `rounding`: what rounds the
    operands of those."""

    rounding: Rounding
    chosen: dict[tile.Gemm, None] = field(default_factory=dict)
    refused: dict[tile.Gemm, str] = field(default_factory=dict)


def choose(kernel: Kernel, rules: Rules) -> Choice:
    """The rule for all gemms of a kernel that are not issued yet."""
    rounding, facts = Rounding(kernel), Facts(kernel)
    choice, call = Choice(rounding), call_in(kernel.body)
    for gemm, threads in _gemms(kernel.body, kernel.threads):
        reason = refusal(gemm, threads, rules, facts, rounding.refusal) or (call if not gemm.in_flight else "")
        if reason:
            choice.refused[gemm] = reason
        else:
            choice.chosen[gemm] = None
    _together(kernel, choice)
    return choice


def _gemms(block: Block, threads: int) -> Iterator[tuple[tile.Gemm, int]]:
    """With the number of threads that execute each."""
    for op in block.ops:
        if type(op) is tile.Gemm:
            yield op, threads
        for region, count in zip(op.regions, explicit.sides(op, threads), strict=True):
            yield from _gemms(region, count)


def _together(kernel: Kernel, choice: Choice) -> None:
    """Gemms of one accumulator go one way."""
    accumulators = Accumulators(kernel.body)
    refused = {accumulators.find(gemm.result): gemm for gemm in choice.refused}
    for gemm in list(choice.chosen):
        other = refused.get(accumulators.find(gemm.result))
        if other is not None and not gemm.in_flight:
            del choice.chosen[gemm]
            where = f" of line {other.loc.line}" if other.loc is not None else ""
            choice.refused[gemm] = f"its accumulator is that of the gemm{where} as well: {choice.refused[other]}"
