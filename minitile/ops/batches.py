"""`mt.ops.matmul` of batches: S products in one launch of a persistent kernel; see `batched` in grouped_gemm.py."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from minitile.driver.jit import Kernel
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import Frame, frame_of
from minitile.ops.grouped_gemm import batched
from minitile.ops.grouped_plans import Many, choose, constants
from minitile.ops.multiply import hardware, known, matmul, plan_for
from minitile.ops.operands import Key, lying, read_pair, refused, remember, result_dtype
from minitile.ops.plan import Plan
from minitile.runtime.arrays import ArrayInfo, describe


def multiply_batches(a: Any, b: Any, out: Any, dtype: Any, plan: Plan | None, key: Key | None) -> Any:
    """`matmul` where a or b has three dimensions. `key`: by which `matmul` may know such a call the next time."""
    product = _read(a, b, out, dtype)
    if out is None:
        if product.frame is None:
            raise refused("matmul cannot make arrays of this framework", "pass out=")
        out = product.frame.empty(product.shape, product.result, a)
    if 0 in product.shape:
        return out
    many = product.many
    if product.is_one:
        matmul(*product.one, out=out.reshape(many.products * many.m, many.n), plan=plan)
        return out
    plan = plan or choose(many, *hardware(product.info))
    forms = many.transpose_a, many.transpose_b, product.one_a, product.one_b
    kernel = _kernel(product.dtype, product.result, *forms, plan)
    arrays = product.a, product.b, out
    kernel(*arrays)
    if key is not None and product.same and product.frame is not None and product.info.device_kind == "cuda":
        sizes = {"S": many.products, "M": many.m, "N": many.n, "K": many.k}
        remember(known, key, kernel.executable(*arrays), sizes, product.frame, out)
    return out


def plan_for_batches(a: Any, b: Any, dtype: Any) -> Plan:
    """`plan_for` where a or b has three dimensions."""
    product = _read(a, b, None, dtype)
    if product.is_one:
        return plan_for(*product.one, dtype=dtype)
    return choose(product.many, *hardware(product.info))


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

    @property
    def is_one(self) -> bool:
        """Whether the rows of all of a are multiplied by one matrix."""
        return self.one_b and not self.one_a and not self.many.transpose_a

    @property
    def one(self) -> tuple[Any, Any]:
        """These rows, and that matrix."""
        rows = self.a.reshape(self.many.products * self.many.m, self.many.k)
        return rows, self.b[0].swapaxes(0, 1) if self.many.transpose_b else self.b[0]


def _read(a: Any, b: Any, out: Any, dtype: Any) -> _Product:
    """The operands. Raises LaunchArgumentError for what cannot be multiplied."""
    *infos, given = read_pair(a, b, out, (2, 3))
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
def _kernel(
    dtype: DType, result: DType, transpose_a: bool, transpose_b: bool, one_a: bool, one_b: bool, plan: Plan
) -> Kernel:
    return batched(dtype, result, transpose_a, transpose_b, one_a, one_b).configured(**constants(plan, "batches"))
