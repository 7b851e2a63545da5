"""`mt.ops.matmul_quantised(a, weights)` and `mt.ops.matmul_fp8(a, b, scales)`: few rows by weights of 4 and 8 bits.

Weights are packed once (pack.py). The plan of the least estimate is chosen (plans.py, cost.py); a repeated call looks
up the launch, as `matmul` does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from minitile.driver.dispatch import for_users, raise_for_caller
from minitile.driver.jit import Kernel
from minitile.ir.types import f32
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import frame_of
from minitile.ops.gemm import columns_for, padded
from minitile.ops.memory_bound.arguments import described
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
from minitile.ops.plan import LINE
from minitile.ops.quantised.fp8_gemm import SCALED, gemm_fp8_blocks
from minitile.ops.quantised.gemm import gemm_quantised
from minitile.ops.quantised.pack import FORMATS, QuantisedWeights
from minitile.ops.quantised.plans import Fp8Plan, QuantisedPlan, choose_fp8, choose_quantised, within
from minitile.runtime.arrays import ArrayInfo, describe
from minitile.runtime.errors import LaunchError
from minitile.target import target_at

SCALED_OPERANDS = ("e4m3", "e5m2")
GRAIN = 4  # scales of 4 bytes in the copy engine's 16

known: dict[Key, Ready] = {}


def matmul_quantised(
    a: Any, weights: QuantisedWeights, *, out: Any = None, dtype: Any = None, plan: QuantisedPlan | None = None
) -> Any:
    """a · Wᵀ for weights W (N × K) of 4 or 8 bits, summed in f32. There is no autograd.

    It is made for 1 to 256 rows, where the speed is that of reading the weights. The launch goes to the framework's
    current stream.

    Args:
        a: M × K, bf16 or f16 (by mxfp4 bf16), of torch, CuPy, or NumPy (then the simulator computes), row-major, K a
            multiple of 8; others are copied.
        weights: of `pack_weights` or `quantise_weights`, on a's device; their scales are of a's dtype. They are read
            while the kernel launched before this one ends, and are not what that one writes.
        out: where the result goes, row-major without gaps; without it, a new array of the same framework.
        dtype: of the new result: bf16, f16 or f32; a's by default.
        plan: instead of the choice that is made.

    Raises:
        LaunchArgumentError: operands that do not fit.

    Example:
        ```py
        weights = mt.ops.quantise_weights(w, format="int4", group=128)
        y = mt.ops.matmul_quantised(x, weights)
        ```
    """
    arrays = getattr(weights, "arrays", ())
    try:
        key = ("quantised", weights.key, *map(facts, (a, *arrays)), dtype, plan)
        ready = known.get(key)
    except AttributeError:  # no tensors of torch
        return _first_quantised(a, weights, out, dtype, plan, None)
    if ready is None or (out is not None and facts(out) != ready.out):
        return _first_quantised(a, weights, out, dtype, plan, key if ready is None else None)
    again = _again(ready, (a, *arrays), out)
    return _first_quantised(a, weights, out, dtype, plan, None) if again is None else again


def matmul_fp8(
    a: Any,
    b: Any,
    scales: tuple[Any, Any],
    *,
    out: Any = None,
    dtype: Any = None,
    ahead: bool = False,
    plan: Fp8Plan | None = None,
) -> Any:
    """a · bᵀ of fp8 matrices with scales of blocks (DeepSeek's form); sums of 128 products are scaled and added in f32.
    There is no autograd.

    It is made for 1 to 256 rows. The launch goes to the framework's current stream. sm_80 and gfx942 do not multiply
    these formats; in the simulator choose another target by MINITILE_TARGET.

    Args:
        a: M × K, e4m3 or e5m2, of torch, CuPy, or NumPy (then the simulator computes), row-major, K a multiple of 16;
            others are copied, so pad weights once.
        b: N × K, likewise.
        scales: f32: one for each row and 128 columns of a (M × K/128; column-major, of a multiple of 4 rows, costs
            nothing), and one for each 128 × 128 of b (N/128 × K/128), both rounded up.
        out: where the result goes, row-major without gaps; without it, a new array of the same framework.
        dtype: of the new result: bf16 (the default), f16 or f32.
        ahead: b is weights, which the kernel launched before this one does not write: its first tiles are asked for
            while that one ends.
        plan: instead of the choice that is made.

    Raises:
        LaunchArgumentError: operands that do not fit.

    Example:
        ```py
        q, scales = mt.ops.rms_norm_fp8(x, weight, block=True)
        y = mt.ops.matmul_fp8(q, w, (scales, w_scales))
        ```
    """
    try:
        arrays = (a, b, *scales)
        key = ("fp8", *map(facts, arrays), dtype, ahead, plan)
        ready = known.get(key)
    except (AttributeError, TypeError):  # no tensors of torch
        return _first_fp8(a, b, scales, out, dtype, ahead, plan, None)
    if ready is None or (out is not None and facts(out) != ready.out):
        return _first_fp8(a, b, scales, out, dtype, ahead, plan, key if ready is None else None)
    again = _again(ready, arrays, out)
    return _first_fp8(a, b, scales, out, dtype, ahead, plan, None) if again is None else again


def _again(ready: Ready, arrays: tuple[Any, ...], out: Any) -> Any:
    """A launch that is known; None where an address is not aligned."""
    out = ready.empty() if out is None else out
    pointers = [x.data_ptr() for x in (*arrays, out)]
    if any(pointer & (ALIGNMENT - 1) for pointer in pointers):
        return None
    try:
        ready.launch((*pointers, *ready.dims), ready.place)
    except LaunchError as error:
        raise_for_caller(error)
    return out


@lru_cache(maxsize=1024)
def _quantised(dtype: str, result: str, format: str, group: int, scales: str, plan: QuantisedPlan) -> Kernel:
    made = gemm_quantised(dtype_of_name(dtype), dtype_of_name(result), format, group, dtype_of_name(scales))
    return made.configured(**plan._asdict())


@lru_cache(maxsize=1024)
def _fp8(a: str, b: str, result: str, ahead: bool, plan: Fp8Plan) -> Kernel:
    return gemm_fp8_blocks(*map(dtype_of_name, (a, b, result)), ahead).configured(**plan._asdict())


def _read(a: Any, out: Any, dtypes: tuple[str, ...], what: str) -> tuple[ArrayInfo, ArrayInfo | None]:
    try:
        info, given = describe(a), None if out is None else describe(out)
    except LaunchError as error:
        raise_for_caller(error)
    if len(info.shape) != 2 or info.dtype not in dtypes:
        raise refused(
            f"a is {info.dtype} of shape {tuple(info.shape)}; {what} takes matrices of {' and '.join(dtypes)}"
        )
    return info, given


def _limits(info: ArrayInfo) -> tuple[bool, int, int]:
    """Of the target: whether it has clusters, what rows of a product's tile are a multiple of, its shared memory."""
    target = target_at(info.device_kind, info.device_index)
    return target.has("cluster"), 16 if target.has("mfma_bf16") else 8, target.max_shared


def _result(a: Any, out: Any, shape: tuple[int, int], result: Any) -> Any:
    if out is not None:
        return out
    frame = frame_of(a)
    if frame is None:
        raise refused("arrays of this framework cannot be made", "pass out=")
    return frame.empty(shape, result, a)


def _rows(a: Any, info: ArrayInfo) -> Any:
    """The matrix row-major, copied if it lies otherwise."""
    frame = frame_of(a)
    found, turned = lying(a, info, frame)
    return frame.whole(a) if turned and frame is not None else found


def _whole_rows(a: Any, info: ArrayInfo) -> Any:
    """The same for the copy engine: rows that are no multiples of 16 bytes are copied into longer ones, whole lines.
    The product is set up meanwhile, and asks for the weights that do not come from the kernel in front."""
    frame, dtype = frame_of(a), dtype_of_name(info.dtype)
    rows, columns = info.shape
    if not rows or columns * dtype.bits % (ALIGNMENT * 8) == 0:
        return _rows(a, info)
    if frame is None:
        grain = ALIGNMENT * 8 // dtype.bits
        raise refused(f"rows of {columns} elements, of arrays of this framework", f"pad them to a multiple of {grain}")
    line = LINE * 8 // dtype.bits
    whole = frame.empty((rows, -(-columns // line) * line), dtype, a)
    padded(dtype, columns_for(whole.shape[1]), early=True)(_rows(a, info), whole)
    return whole


@for_users
def _first_quantised(a: Any, weights: QuantisedWeights, out: Any, dtype: Any, plan: Any, key: Key | None) -> Any:
    """A call of which nothing is known."""
    info, given = _read(a, out, OPERANDS, "matmul_quantised")
    if not isinstance(weights, QuantisedWeights):
        raise refused(
            f"weights is of type {type(weights).__name__}", "pass what mt.ops.pack_weights or quantise_weights gives"
        )
    m, k = info.shape
    if k != weights.k:
        raise refused(f"a is {m}×{k} and the weights are {weights.n}×{weights.k}: both have K columns")
    of_scales = describe(weights.scales)
    if of_scales[4:6] != info[4:6]:
        raise refused("a and the weights are not on one device")
    if weights.format != "mxfp4" and of_scales.dtype != info.dtype:
        raise refused(f"a is {info.dtype} and the scales are {of_scales.dtype}", "pack the weights with a's dtype")
    if weights.format == "mxfp4" and info.dtype != "bf16":
        raise refused(f"a is {info.dtype} and the weights are mxfp4", "their scales want the range of bf16")
    result = result_dtype(given, (m, weights.n), info.dtype, dtype)
    rows, out = _whole_rows(a, info), _result(a, out, (m, weights.n), result)
    if not m or not weights.n:
        return out
    machine, wgmma, _ = hardware(info)
    plan = planned(plan, QuantisedPlan)
    if plan is None:
        plan = choose_quantised(m, weights.n, k, weights.group, machine.multiprocessors, wgmma, weights.format)
        steps = plan.block_K * 2, plan.block_K * FORMATS[weights.format].bits // 8
        plan = within(plan, *_limits(info), steps)
    if plan.block_K % weights.group:
        raise refused(f"no plan for groups of {weights.group}: {plan}", "block_K is a multiple of it")
    if plan.sums and weights.group < FORMATS[weights.format].unit:
        raise refused(f"no plan for groups of {weights.group}: {plan}", "sums=False: scales go to the weights")
    _check_parts(plan, plan.block_N)
    kernel = _quantised(info.dtype, result.name, weights.format, weights.group, of_scales.dtype, plan)
    arrays = (rows, weights.words, weights.scales, weights.zero_points, out)
    kernel(*arrays)
    if key is not None and rows is a and info.device_kind == "cuda" and (frame := frame_of(a)) is not None:
        tiles, strips, _ = weights.words.shape
        groups, wide = weights.scales.shape
        sizes = {"M": m, "N": weights.n, "K": k, "NT": tiles, "KT": strips, "G": groups, "L": wide}
        remember(known, key, kernel.executable(*arrays), sizes, frame, out)
    return out


@for_users
def _first_fp8(a: Any, b: Any, scales: Any, out: Any, dtype: Any, ahead: bool, plan: Any, key: Key | None) -> Any:
    """A call of which nothing is known."""
    info, given = _read(a, out, SCALED_OPERANDS, "matmul_fp8")
    of_b, _ = _read(b, None, SCALED_OPERANDS, "matmul_fp8")
    (m, k), (n, k2) = info.shape, of_b.shape
    if k != k2:
        raise refused(f"a is {m}×{k} and b is {n}×{k2}: both have K columns")
    result = result_dtype(given, (m, n), "bf16", dtype)
    if not isinstance(scales, (tuple, list)) or len(scales) != 2:
        raise refused(f"scales is of type {type(scales).__name__}", "pass a pair: those of a, those of b")
    of_a_scales, of_b_scales = (described(f"scales[{n}]", x) for n, x in enumerate(scales))
    shapes = (m, -(-k // SCALED)), (-(-n // SCALED), -(-k // SCALED))
    for name, found, shape in zip("ab", (of_a_scales, of_b_scales), shapes, strict=True):
        if found.dtype != f32.name or tuple(found.shape) != shape:
            raise refused(f"the scales of {name} are {found.dtype} of {tuple(found.shape)}; they are f32 of {shape}")
    if any(x[4:6] != info[4:6] for x in (of_b, of_a_scales, of_b_scales)):
        raise refused("a, b and their scales are not on one device")
    rows, wide, out = _whole_rows(a, info), _whole_rows(b, of_b), _result(a, out, (m, n), result)
    if not m or not n:
        return out
    scale_a, scale_b = _by_columns(scales[0], of_a_scales), _rows(scales[1], of_b_scales)
    machine, wgmma, _ = hardware(info)
    plan = planned(plan, Fp8Plan)
    if plan is None:
        plan = within(choose_fp8(m, n, k, machine.multiprocessors, wgmma), *_limits(info), (SCALED, SCALED))
    if plan.swap and SCALED % plan.block_N:
        raise refused(f"a tile of several scales of b: {plan}", f"block_N divides {SCALED}, or swap=False")
    if plan.blocks and plan.parts * plan.share > 1:
        raise refused(f"persistent blocks in clusters: {plan}", "blocks=0, or parts=1 and share=1")
    if plan.parts > 1 and plan.share > 1:
        raise refused(f"clusters along K and along M: {plan}", "parts=1 or share=1")
    _check_parts(plan, plan.block_N if plan.swap else plan.block_M)
    kernel = _fp8(info.dtype, of_b.dtype, result.name, ahead, plan)
    arrays = (rows, wide, scale_a, scale_b, out)
    kernel(*arrays)
    same = [describe(x).ptr for x in arrays[:4]] == [x.ptr for x in (info, of_b, of_a_scales, of_b_scales)]
    if key is not None and same and info.device_kind == "cuda" and (frame := frame_of(a)) is not None:
        sizes = {"M": m, "N": n, "K": k, "KB": shapes[0][1], "L": scale_a.shape[1], "NB": shapes[1][0]}
        remember(known, key, kernel.executable(*arrays), sizes, frame, out)
    return out


def _check_parts(plan: QuantisedPlan | Fp8Plan, by_64: int) -> None:
    """Each block of a cluster along K adds up a share of a tile's `by_64` rows or columns, those that come by 64."""
    if plan.parts > 1 and by_64 % (plan.parts * 8):
        raise refused(f"{by_64} of a tile by {plan.parts} blocks: {plan}", "shares are whole 8: parts=1, 2, 4 or 8")


def _by_columns(x: Any, info: ArrayInfo) -> Any:
    """M × KB scales as KB × M, M a multiple of GRAIN: as they lie, if they are column-major; else copied."""
    frame = frame_of(x)
    if frame is None:
        raise refused("scales of arrays of this framework", "pass arrays of torch, CuPy or NumPy")
    rows, columns = info.shape
    turned = frame.transposed(x)
    if rows % GRAIN == 0 and describe(turned).contiguous:
        return turned
    padded = frame.zeros((columns, -(-rows // GRAIN) * GRAIN), f32, x)
    padded[:, :rows] = turned
    return padded
