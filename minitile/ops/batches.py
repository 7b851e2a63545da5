"""`mt.ops.matmul` of batches: S products in one launch, by blocks that stay; see `batched` in grouped_gemm.py."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from minitile.ir.types import DType
from minitile.jit import Kernel
from minitile.language.math import dtype_of_name
from minitile.launching import raise_for_caller
from minitile.ops.frames import Frame, frame_of
from minitile.ops.grouped_gemm import batched
from minitile.ops.machine import H200, Machine
from minitile.ops.many import Many, choose
from minitile.ops.multiply import machine_of_device, matmul
from minitile.ops.operands import (
    ALIGNMENT,
    MOST_KNOWN,
    OPERANDS,
    Ready,
    facts,
    lying,
    ready_for,
    refused,
    result_dtype,
)
from minitile.ops.plan import Plan
from minitile.runtime.arrays import ArrayInfo, Place, describe
from minitile.runtime.errors import LaunchError
from minitile.target import Target

_ready: dict[tuple[Any, ...], Ready] = {}


def multiply_batches(a: Any, b: Any, out: Any, dtype: Any, plan: Plan | None, key: tuple[Any, ...] | None) -> Any:
    """`matmul` where a or b has three dimensions. `key` says all of tensors of torch but addresses and `out`."""
    ready = _ready.get(key) if key is not None else None
    if ready is not None and (out is None or facts(out) == ready.out):
        result = ready.empty() if out is None else out
        at = a.data_ptr(), b.data_ptr(), result.data_ptr()
        if not any(pointer % ALIGNMENT for pointer in at):
            try:
                ready.launch((*at, *ready.dims), ready.place)
            except LaunchError as error:
                raise_for_caller(error)
            return result
    product = _read(a, b, out, dtype)
    if out is None:
        if product.frame is None:
            raise refused("matmul cannot make arrays of this framework", "pass out=")
        out = product.frame.empty(product.shape, product.result, a)
    if 0 in product.shape:
        return out
    if product.one_b and not product.many.transpose_a and not product.one_a:  # the rows of all of a times one matrix
        rows = product.many.products * product.many.m
        one = product.b[0].swapaxes(0, 1) if product.many.transpose_b else product.b[0]
        matmul(product.a.reshape(rows, product.many.k), one, out=out.reshape(rows, product.many.n), plan=plan)
        return out
    plan = plan or _plan(product.many, *_where(product))
    if not plan.blocks or plan.split > 1 or plan.swap or any(plan.pad):
        raise refused(
            f"the plan {plan} is none for batches", "it has blocks that stay, and neither parts of K nor swap"
        )
    many = product.many
    constants = {
        name: getattr(plan, name)
        for name in ("block_M", "block_N", "block_K", "stages", "threads", "panel", "blocks", "teams")
    }
    of = product.dtype, product.result, many.transpose_a, many.transpose_b, product.one_a, product.one_b
    kernel = _configured(*of, tuple(constants.items()))
    arrays = product.a, product.b, out
    kernel(*arrays)
    if key is not None and product.same and product.frame is not None and product.info.device_kind == "cuda":
        if len(_ready) >= MOST_KNOWN:
            _ready.clear()
        sizes = {"S": many.products, "M": many.m, "N": many.n, "K": many.k}
        _ready[key] = ready_for(kernel.executable(*arrays), sizes, product.frame, out)
    return out


class _Product(NamedTuple):
    """Batches as the kernel takes them, each S × … or, where it is one for all, 1 × …; `same`: they are at the
    caller's addresses."""

    many: Many
    dtype: DType
    result: DType
    a: Any
    b: Any
    one_a: bool
    one_b: bool
    same: bool
    info: ArrayInfo
    frame: Frame | None

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.many.products, self.many.m, self.many.n


def _read(a: Any, b: Any, out: Any, dtype: Any) -> _Product:
    """The operands. Raises LaunchArgumentError for what cannot be multiplied."""
    try:
        infos = describe(a), describe(b)
        given = None if out is None else describe(out)
    except LaunchError as error:
        raise_for_caller(error)
    for name, info in zip("ab", infos, strict=True):
        if len(info.shape) not in (2, 3):
            raise refused(f"{name} has {len(info.shape)} dimensions, matmul takes matrices and batches of them")
        if info.dtype not in OPERANDS:
            raise refused(f"{name} is {info.dtype}, matmul takes {' and '.join(OPERANDS)}")
    if infos[0].dtype != infos[1].dtype:
        raise refused(f"a is {infos[0].dtype} and b is {infos[1].dtype}", "convert one of them first")
    if infos[0][4:6] != infos[1][4:6] or (given is not None and given[4:6] != infos[0][4:6]):
        raise refused("a, b and out are not on one device")
    (m, k), (k2, n) = infos[0].shape[-2:], infos[1].shape[-2:]
    if k != k2:
        raise refused(f"a has {k} columns and b has {k2} rows: they must be as many")
    counts = [info.shape[0] if len(info.shape) == 3 else 1 for info in infos]
    count = counts[1] if counts[0] == 1 else counts[0]
    if counts[1] not in (1, count):
        raise refused(f"a has {counts[0]} matrices and b has {counts[1]}", "as many, or one for all")
    frame = frame_of(a)
    element = dtype_of_name(infos[0].dtype)
    result = result_dtype(given, (count, m, n), infos[0].dtype, dtype)
    (a, transpose_a), (b, transpose_b) = (_batch(x, info, frame) for x, info in zip((a, b), infos, strict=True))
    one_a, one_b = (x.shape[0] == 1 and count != 1 for x in (a, b))
    many = Many(count, m, n, k, transpose_a, transpose_b, element.bytes, result.bytes)
    same = [info.ptr for info in infos] == [describe(x).ptr for x in (a, b)]
    return _Product(many, element, result, a, b, one_a, one_b, same, infos[0], frame)


def _batch(x: Any, info: ArrayInfo, frame: Frame | None) -> tuple[Any, bool]:
    """The operand as three dimensions without gaps, and whether its matrices lie transposed. Where one matrix is
    repeated (a stride of 0), it is there once."""
    if frame is not None and len(info.shape) == 2:
        x = x[None]
    elif frame is not None and info.shape[0] > 1 and info.strides[0] == 0:
        x = x[:1]
    elif len(info.shape) == 2:
        raise refused("an operand is a matrix and the other one a batch", "pass arrays of torch, CuPy or NumPy")
    return lying(x, describe(x), frame)


@lru_cache(maxsize=1024)
def _configured(
    dtype: DType,
    result: DType,
    transpose_a: bool,
    transpose_b: bool,
    one_a: bool,
    one_b: bool,
    constants: tuple[tuple[str, int], ...],
) -> Kernel:
    return batched(dtype, result, transpose_a, transpose_b, one_a, one_b).configured(**dict(constants))


@lru_cache(maxsize=MOST_KNOWN)
def _plan(many: Many, target: Target, machine: Machine) -> Plan:
    return choose(many, machine, target.has("wgmma"), target.max_shared)


def _where(product: _Product) -> tuple[Target, Machine]:
    """What the product would be compiled for, and what is known of that GPU; the simulator plays an H200."""
    info = product.info
    kernel = batched(product.dtype, product.result, False, False, False, False)
    target = kernel._target_for(Place(info.device_kind, info.device_index))
    return target, machine_of_device(info.device_index) if info.device_kind == "cuda" else H200
