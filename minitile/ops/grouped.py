"""`mt.ops.grouped_matmul(a, b, offsets)`: rows of a by groups, each times its group's matrix (mixture of experts).

How many rows a group has stays on the GPU: one launch, whose blocks find their tiles by themselves (grouped_gemm.py),
by a plan that a model chooses for the average group (grouped_plans.py). A repeated call looks up the launch, as
`matmul` does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from minitile.driver.dispatch import for_users, raise_for_caller
from minitile.driver.jit import Kernel
from minitile.ir.types import DType, f32
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import Frame, frame_of
from minitile.ops.grouped_gemm import GRAIN, SCALED, grouped, grouped_along_k, grouped_scaled
from minitile.ops.grouped_plans import Many, choose, constants
from minitile.ops.multiply import hardware
from minitile.ops.operands import (
    ALIGNMENT,
    OPERANDS,
    Key,
    Ready,
    facts,
    lying,
    planned,
    refused,
    remember,
    result_dtype,
)
from minitile.ops.plan import Plan
from minitile.runtime.arrays import ArrayInfo, describe
from minitile.runtime.errors import LaunchError

SCALED_OPERANDS = ("e4m3", "e5m2")

known: dict[Key, Ready] = {}  # calls that are one launch


def grouped_matmul(
    a: Any,
    b: Any,
    offsets: Any = None,
    *,
    counts: Any = None,
    scales: tuple[Any, Any] | None = None,
    out: Any = None,
    dtype: Any = None,
    expected: int | None = None,
    plan: Plan | None = None,
) -> Any:
    """Grouped GEMM: each group's rows of `a` times the group's matrix of `b` (G × K × N), summed in f32. There is no
    autograd.

    | form | a | b | result | group g |
    |---|---|---|---|---|
    | contiguous | M × K | G × K × N | M × N | the rows from where group g - 1 ends up to offsets[g] |
    | masked | G × M × K | G × K × N | G × M × N | its first counts[g] rows |
    | along K | M × K | K × N | G × M × N | the columns of a and rows of b up to offsets[g]; of a group of none, zeros |

    Offsets and counts are read on the GPU and nowhere else: offsets must not decrease or pass M (K), counts be neither
    negative nor greater than M. Rows of no group are not written. Along K it is fast where neighbours lie along M and N
    (`x.t()` of a row-major x, row-major b). The forms are those of deepseek-ai/DeepGEMM (m_grouped_gemm_…_contiguous,
    …_masked; groups need not begin at multiples of a tile), and of torch._grouped_mm. The launch goes to the
    framework's current stream.

    Args:
        a: bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes), row-major without gaps; fp8 with
            `scales`.
        b: of a's dtype, without gaps, each matrix row-major or column-major (`w.transpose(1, 2)` of G × N × K costs
            nothing); others are copied first. fp8: column-major.
        offsets: int32, one for each group.
        counts: int32, one for each group, instead of `offsets`.
        scales: for a and b of fp8 (e4m3 or e5m2), f32: one for each 128 of K and each row of a (M × K/128, or G × M ×
            K/128; column-major costs nothing), and one for each 128 × 128 of b (G × K/128 × N/128, as b lies), both
            rounded up. Sums of 128 products are scaled and added in f32.
        out: where the result goes; without it, a new array of the same framework.
        dtype: of the new result: bf16, f16 or f32; a's by default, with scales bf16.
        expected: about how many rows (along K: columns of a) a group has, where that is far from M/G, M, or K/G.
        plan: instead of the model's choice, of a persistent kernel.

    Raises:
        LaunchArgumentError: operands that do not fit.
    """
    bounds = counts if offsets is None else offsets
    arrays = (a, b, bounds) if scales is None else (a, b, *scales, bounds)
    try:
        key = (*map(facts, arrays), counts is None, offsets is None, dtype, expected, plan)
        ready = known.get(key)
    except (AttributeError, TypeError):  # no tensors of torch
        return _first_call(a, b, offsets, counts, scales, out, dtype, expected, plan, None)
    if ready is None:
        return _first_call(a, b, offsets, counts, scales, out, dtype, expected, plan, key)
    if out is None:
        out = ready.empty()
    elif facts(out) != ready.out:
        return _first_call(a, b, offsets, counts, scales, out, dtype, expected, plan, None)
    *operands, last = [x.data_ptr() for x in arrays]
    at = (*operands, out.data_ptr(), last)
    if any(pointer % ALIGNMENT for pointer in at[:-1]):
        return _first_call(a, b, offsets, counts, scales, out, dtype, expected, plan, None)
    try:
        ready.launch((*at, *ready.dims), ready.place)
    except LaunchError as error:
        raise_for_caller(error)
    return out


@for_users
def grouped_plan_for(
    a: Any,
    b: Any,
    offsets: Any = None,
    *,
    counts: Any = None,
    scales: tuple[Any, Any] | None = None,
    dtype: Any = None,
    expected: int | None = None,
) -> Plan:
    """The plan that such a call of `grouped_matmul` would use.

    Args:
        a: as of `grouped_matmul`, like all that follow.
        b: see there.
        offsets: see there.
        counts: see there.
        scales: see there.
        dtype: see there.
        expected: see there.

    Raises:
        LaunchArgumentError: operands that do not fit.
    """
    product = _read(a, b, offsets, counts, scales, None, dtype, expected)
    return choose(product.problem, *hardware(product.info))


class _Product(NamedTuple):
    """What is to be multiplied: `arrays` as the kernel takes them, without C and the groups' bounds; `same`: they are
    the caller's own. form: contiguous "rows", "masked" rows, "along k". sizes: of the kernel's dimensions."""

    problem: Many
    dtype: DType
    result: DType
    arrays: tuple[Any, ...]
    same: bool
    bounds: Any
    form: str
    sizes: dict[str, int]
    info: ArrayInfo
    frame: Frame | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        rows, columns = self.sizes["M"], self.sizes["N"]
        return (rows, columns) if self.form == "rows" else (self.sizes["G"], rows, columns)


@for_users
def _first_call(
    a: Any,
    b: Any,
    offsets: Any,
    counts: Any,
    scales: tuple[Any, Any] | None,
    out: Any,
    dtype: Any,
    expected: int | None,
    plan: Plan | None,
    key: Key | None,
) -> Any:
    """A call of which nothing is known."""
    product = _read(a, b, offsets, counts, scales, out, dtype, expected)
    if out is None:
        if product.frame is None:
            raise refused("grouped_matmul cannot make arrays of this framework", "pass out=")
        out = product.frame.empty(product.shape, product.result, a)
    if 0 in product.shape:
        return out
    many = product.problem
    plan = planned(plan, Plan) or choose(many, *hardware(product.info))
    form = many.kind, product.form == "masked", many.transpose_a, many.transpose_b
    kernel = _kernel(product.dtype, product.result, *form, plan)
    arrays = (*product.arrays, out, product.bounds)
    kernel(*arrays)
    if key is not None and product.same and product.frame is not None and product.info.device_kind == "cuda":
        remember(known, key, kernel.executable(*arrays), product.sizes, product.frame, out)
    return out


@lru_cache(maxsize=1024)
def _kernel(
    dtype: DType, result: DType, kind: str, masked: bool, transpose_a: bool, transpose_b: bool, plan: Plan
) -> Kernel:
    given = constants(plan, "groups")
    if kind == "scaled":
        if given.pop("block_K") != SCALED or SCALED % plan.block_N:
            raise refused(
                f"the plan {plan} is none for scales by {SCALED}", f"block_K is {SCALED}, a multiple of block_N"
            )
        return grouped_scaled(dtype, result, masked).configured(**given)
    if kind == "along k":
        return grouped_along_k(dtype, result, transpose_a, transpose_b).configured(**given)
    return grouped(dtype, result, masked, transpose_b).configured(**given)


# Reading the operands ------------------------------------------------------------------------------------------------


def _read(
    a: Any,
    b: Any,
    offsets: Any,
    counts: Any,
    scales: tuple[Any, Any] | None,
    out: Any,
    dtype: Any,
    expected: int | None,
) -> _Product:
    """The operands as the kernels take them. Raises LaunchArgumentError for what cannot be multiplied."""
    if (offsets is None) == (counts is None):
        raise refused("grouped_matmul takes either offsets or counts", "offsets: contiguous rows; counts: padded")
    masked, bounds = offsets is None, counts if offsets is None else offsets
    named = {"a": a, "b": b, "counts" if masked else "offsets": bounds}
    if scales is not None:
        named |= dict(zip(("the scales of a", "the scales of b"), scales, strict=True))
    if out is not None:
        named["out"] = out
    try:
        infos = {name: describe(x) for name, x in named.items()}
    except LaunchError as error:
        raise_for_caller(error)
    of_a, of_b, of_bounds, *of_scales = list(infos.values())[: 3 if scales is None else 5]
    form = "masked" if masked else "along k" if len(of_b.shape) == 2 else "rows"
    _check_operands(of_a, of_b, of_bounds, form, scales is not None)
    if len({(info.device_kind, info.device_index) for info in infos.values()}) > 1:
        raise refused(f"{', '.join(infos)} are not on one device")
    *_, m, k = of_a.shape
    (groups,), n = of_bounds.shape, of_b.shape[-1]
    element = dtype_of_name(of_a.dtype)
    default = "bf16" if scales is not None else of_a.dtype
    result = result_dtype(infos.get("out"), (m, n) if form == "rows" else (groups, m, n), default, dtype)
    frame = frame_of(a)
    left, transpose_a = lying(a, of_a, frame)
    right, transpose_b = lying(b, of_b, frame)
    if transpose_a and form != "along k" and frame is not None:
        left, transpose_a = frame.whole(a), False
    arrays: tuple[Any, ...] = (left, right)
    if scales is not None:
        if not transpose_b:
            raise refused("b is fp8, and its matrices are not column-major", "pass w.transpose(1, 2) of w: G × N × K")
        arrays += _scales(scales, of_scales, (*of_a.shape[:-1], k), (groups, k, n), frame)
    whole = k if form == "along k" else m
    average = expected or (m if masked else -(-whole // max(1, groups)))
    rows, deep = (m, average) if form == "along k" else (average, k)
    kind = "scaled" if scales is not None else "along k" if form == "along k" else "plain"
    sizes = element.bytes, result.bytes
    problem = Many(groups, rows, n, deep, transpose_a, transpose_b, *sizes, kind, uneven=form == "rows")
    dims = {"G": groups, "M": m, "N": n, "K": k, "L": m + -m % GRAIN, "KB": -(-k // SCALED), "NB": -(-n // SCALED)}
    same = [x.ptr for x in (of_a, of_b, *of_scales)] == [describe(x).ptr for x in arrays]
    return _Product(problem, element, result, arrays, same, bounds, form, dims, of_a, frame)


_RANKS = {"rows": (2, 3), "masked": (3, 3), "along k": (2, 2)}  # of a and b


def _check_operands(a: ArrayInfo, b: ArrayInfo, bounds: ArrayInfo, form: str, scaled: bool) -> None:
    name = "counts" if form == "masked" else "offsets"
    if (len(a.shape), len(b.shape)) != _RANKS[form]:
        ranks = "a has 3 and b 3 (groups, K, N)" if form == "masked" else "a has 2 and b 3 (groups, K, N) or 2 (K, N)"
        raise refused(f"a has {len(a.shape)} dimensions and b {len(b.shape)}; with {name}, {ranks}")
    allowed = SCALED_OPERANDS if scaled else OPERANDS
    for operand, info in (("a", a), ("b", b)):
        if info.dtype not in allowed:
            hint = "fp8 comes with scales=" if info.dtype in SCALED_OPERANDS else ""
            raise refused(f"{operand} is {info.dtype}, grouped_matmul takes {' and '.join(allowed)}", hint)
    if scaled and form == "along k":
        raise refused("scales are for groups of rows, and b has 2 dimensions")
    if a.dtype != b.dtype:
        raise refused(f"a is {a.dtype} and b is {b.dtype}", "convert one of them first")
    if a.shape[-1] != b.shape[-2]:
        raise refused(f"a has {a.shape[-1]} columns and b has {b.shape[-2]} rows in each matrix")
    if form == "masked" and a.shape[0] != b.shape[0]:
        raise refused(f"a has {a.shape[0]} groups and b has {b.shape[0]}")
    if bounds.dtype != "i32" or len(bounds.shape) != 1 or not bounds.contiguous:
        raise refused(f"{name} is {bounds.dtype} of shape {bounds.shape}; it is i32 of one dimension, without gaps")
    if form != "along k" and bounds.shape != (b.shape[0],):
        raise refused(f"{name} is of shape {bounds.shape}; it is one for each of the {b.shape[0]} groups of b")


def _scales(
    scales: tuple[Any, Any],
    infos: list[ArrayInfo],
    of_rows: tuple[int, ...],
    of_b: tuple[int, int, int],
    frame: Frame | None,
) -> tuple[Any, ...]:
    """The scales of a with rows along M, as long as the copy engine wants them; those of b with rows along K."""
    *lead, k = of_rows
    steps = -(-k // SCALED)
    shapes = (*lead, steps), (of_b[0], steps, -(-of_b[2] // SCALED))
    found = []
    for name, x, info, shape, grain in zip("ab", scales, infos, shapes, (GRAIN, 1), strict=True):
        if info.dtype != f32.name or info.shape != shape:
            raise refused(f"the scales of {name} are {info.dtype} of shape {info.shape}; they are f32 of {shape}")
        made, turned = lying(x, info, frame)
        rows = shape[-2]
        if not turned or rows % grain:
            if frame is None:
                raise refused(
                    f"the scales of {name} are not column-major, of a multiple of {grain} rows", "pass such a copy"
                )
            made = frame.empty((*shape[:-2], steps, rows + -rows % grain), f32, x)
            made[..., :rows] = frame.turned(x) if len(shape) == 3 else frame.transposed(x)
        found.append(made)
    return tuple(found)
