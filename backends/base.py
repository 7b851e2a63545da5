"""What a backend tells the target-independent passes: the layouts that its instructions demand, and how its
instructions are written.

`Rules` is one record per lowering (sm_80, …). `infer_layouts` asks `gemm_plan` which layouts a gemm needs; `lower`
looks up each tile operation in `lower`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitile.ir.core import Op
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops.tile import Copy, Gemm
from minitile.layout import Layout

if TYPE_CHECKING:
    from minitile.analysis.affine import Facts
    from minitile.lowering.lower import Lowering


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a gemm of `shape` (M, N, K) is split over `warps` (along M, along N), each of which does `atom` as often as
    `repeats` says (along M, N, K), `step` elements of K at a time. `a` is the layout of a M×K tile, `b` of K×N, `c` of
    M×N; where blocks have scales, `a_scale` of M×K/32, `b_scale` of N×K/32, and a and b are of the bytes that the
    operands are packed in."""

    atom: str
    shape: tuple[int, int, int]
    repeats: tuple[int, int, int]
    warps: tuple[int, int]
    step: int
    a: Layout
    b: Layout
    c: Layout
    a_scale: Layout | None = None
    b_scale: Layout | None = None


def refuse_scales(op: Gemm, target: object) -> None:
    """Raises TargetError for a gemm with scales of blocks, on a target that has no instruction for it."""
    if op.scaled:
        raise TargetError(
            f"{target} multiplies nothing with scales of blocks",
            op.loc,
            hint="gfx950 does (mfma_scale); elsewhere multiply by the scales in a T.Parallel loop, as bfloat16, and "
            "T.gemm that",
        )


def _none_in_flight(op: Gemm, threads: int) -> str:
    return "the target multiplies nothing asynchronously"


def _through_registers(facts: Facts, op: Copy, threads: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Rules:
    """gemm_plan(op, threads) raises MinitileError where no instruction fits. `lower` maps operation classes to
    functions (lowering, op) -> the values of op's results. refuses_async(op, threads) says why no asynchronous
    instruction does a gemm on whole shared matrices; "" where one does. copies_itself(facts, op, threads): does an
    instruction copy this from global to shared memory, past the registers?"""

    gemm_plan: Callable[[Gemm, int], GemmPlan]
    lower: dict[type[Op], Callable[[Lowering, Any], Any]]
    refuses_async: Callable[[Gemm, int], str] = _none_in_flight
    copies_itself: Callable[[Facts, Copy, int], bool] = _through_registers


def _no_backend(op: Gemm, threads: int) -> GemmPlan:
    raise TargetError("no backend lowers gemm for this target", op.loc)


NO_RULES = Rules(_no_backend, {})
