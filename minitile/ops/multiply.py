"""`mt.ops.matmul(a, b)`: the product of two matrices, by the kernel that suits them.

How a and b lie in memory (their strides) says which of the four forms it is; a plan for the sizes is chosen (choice.py)
by a model (model.py) and is kept. On the way of a repeated call stand one look-up, `torch.empty` and the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from minitile.driver.dispatch import for_users, raise_for_caller
from minitile.driver.jit import Kernel, Spec, spec
from minitile.hardware import Target
from minitile.ir.types import DType, f32
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import Frame, frame_of, reshaped
from minitile.ops.choice import choose, shares
from minitile.ops.epilogue import Epilogue, read_epilogue
from minitile.ops.gemm import columns_for, gemm, padded, summed
from minitile.ops.gemv import Form, by_threads, gemv
from minitile.ops.machine import H200, PLANNED_FOR, Machine, machine_for
from minitile.ops.operands import (
    ALIGNMENT,
    MOST_KNOWN,
    Key,
    Ready,
    lying,
    planned,
    read_pair,
    refused,
    remember,
    result_dtype,
)
from minitile.ops.plan import LINE, Plan, Problem, classes_of
from minitile.ops.ragged import gemm_ragged, shifted, shifted_width
from minitile.ops.split.cluster import gemm_together
from minitile.runtime.arrays import ArrayInfo
from minitile.runtime.errors import LaunchError
from minitile.target import target_at

NO_ARGS: tuple[Any, ...] = ()
known: dict[Key, Ready] = {}  # calls that are one launch, of matrices and of batches


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    plan: Plan | None = None,
    epilogue: Callable[..., Any] | None = None,
    args: Sequence[Any] = NO_ARGS,
) -> Any:
    """The product of the matrices a (M × K) and b (K × N), summed in f32. There is no autograd.

    Of batches (S × M × K, S × K × N) it is S × M × N; a single matrix, or a batch of one, goes with each of the other.
    A product of sizes that are new takes the choice of a plan (some hundred microseconds) and, where no kernel of that
    plan is known yet, a compilation. The launch goes to the framework's current stream.

    Args:
        a: bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); row-major or column-major without gaps
            (`x.t()` costs nothing), others are copied first.
        b: likewise, of a's dtype.
        out: where the result goes, row-major without gaps; without it, a new array of the same framework.
        dtype: of the new result: bf16, f16 or f32; a's by default.
        plan: instead of the model's choice.
        epilogue: a function of one element, which C gets in place of the sum: traced as a part of the kernel, by the
            rules of the language. Its first parameter is the f32 sum; the others are the elements of `args` that go
            with it, as f32. For matrices, not for batches.
        args: of the epilogue: up to four tensors, of shape (N,) or (1, N), (M, 1), (M, N), or of one element; and
            numbers, each of which makes a kernel of its own.

    Raises:
        LaunchArgumentError: operands that do not fit.

    Example:
        ```py
        def relu_of_layer(x, bias, residual):
            return T.max(x + bias, 0.0) + residual

        y = mt.ops.matmul(x, w.T, epilogue=relu_of_layer, args=(bias, residual))
        ```
    """
    if epilogue is not None or args is not NO_ARGS:
        return _with_epilogue(a, b, out, dtype, plan, epilogue, args)
    try:
        key = (a.shape, a.stride(), a.dtype, a.get_device(), b.shape, b.stride(), b.dtype, b.get_device(), dtype, plan)
        ready = known.get(key)
    except (AttributeError, TypeError):  # no tensors of torch
        return _first_call(a, b, out, dtype, plan, None)
    if ready is None:
        return _first_call(a, b, out, dtype, plan, key)
    if out is None:
        out = ready.empty()
    elif (out.shape, out.stride(), out.dtype, out.get_device()) != ready.out:
        return _first_call(a, b, out, dtype, plan, None)
    at_a, at_b, at_c = a.data_ptr(), b.data_ptr(), out.data_ptr()
    if (at_a | at_b | at_c) & (ALIGNMENT - 1):
        return _first_call(a, b, out, dtype, plan, None)
    try:
        ready.launch((at_a, at_b, at_c, *ready.dims), ready.place)
    except LaunchError as error:
        raise_for_caller(error)
    return out


def assembled(problem: Problem, dtype: DType, result: DType, plan: Plan, target: Target | str = PLANNED_FOR) -> None:
    """Compiles and assembles the kernel that multiplies operands of this problem by this plan: then the cache has it;
    for `padded` and `summed` the first call is early enough. Needs no GPU."""
    m, n, k, transpose_a, transpose_b, size, *_ = problem
    if plan.dots:
        _assembled_by_threads(problem, dtype, result, plan, target)
        return
    if plan.by_class:
        classes = classes_of(k)
        specs = [spec((m, k), dtype), spec((classes * m, shifted_width(k)), dtype)]
        specs += [spec((n // classes, classes * k), dtype), spec((n, k), dtype), spec((m, n), result)]
        made = _kernel_by_class(dtype, result, plan, classes).compile(*specs, target=target)
        made.executable.program.assembled  # noqa: B018
        return

    def operand(rows: int, columns: int, transposed: bool, pad: bool) -> Spec:
        rows, columns = (columns, rows) if transposed else (rows, columns)
        return spec((rows, _up(columns, LINE // size) if pad else columns), dtype)

    specs = [operand(m, k, transpose_a, plan.pad[0]), operand(k, n, transpose_b, plan.pad[1])]
    specs.append(spec(*_written(problem, result, plan)))
    made = _kernel(dtype, result, transpose_a, transpose_b, plan).compile(*specs, target=target)
    made.executable.program.assembled  # noqa: B018


def _assembled_by_threads(problem: Problem, dtype: DType, result: DType, plan: Plan, target: Target | str) -> None:
    form, k, classes = by_threads(problem), problem.k, classes_of(problem.k)
    assert form is not None
    few, rows = (problem.n, problem.m) if form.mirrored else (problem.m, problem.n)
    x = spec((k, few) if form.turned else (few, k), dtype)
    w, c = spec((rows // classes, classes * k), dtype), spec((problem.m, problem.n), result)
    kernel = _kernel_by_threads(dtype, result, form, plan, classes)
    more = [spec((rows, k), dtype), None if form.turned else spec((few * k,), dtype)] if classes > 1 else [None, None]
    made = kernel.compile(x, w, c, *more, target=target)
    made.executable.program.assembled  # noqa: B018


@for_users
def plan_for(a: Any, b: Any, *, dtype: Any = None) -> Plan:
    """The plan that `matmul(a, b)` would use.

    Args:
        a: as of `matmul`.
        b: as of `matmul`.
        dtype: as of `matmul`.

    Raises:
        LaunchArgumentError: operands that do not fit.
    """
    if _batches(a, b):
        from minitile.ops.batches import plan_for_batches

        return plan_for_batches(a, b, dtype)
    product = _read(a, b, None, dtype)
    return _plan(product.problem, *hardware(product.info))


class _Product(NamedTuple):
    """What is to be multiplied: the operands as they lie (an operand of the form "T" is its own transposed view)."""

    problem: Problem
    dtype: DType
    result: DType
    a: Any
    b: Any
    info: ArrayInfo
    frame: Frame | None


def _batches(a: Any, b: Any) -> bool:
    return 3 in (getattr(a, "ndim", 2), getattr(b, "ndim", 2))


@for_users
def _with_epilogue(
    a: Any,
    b: Any,
    out: Any,
    dtype: Any,
    plan: Plan | None,
    function: Callable[..., Any] | None,
    args: Sequence[Any],
) -> Any:
    """A product with an epilogue: nothing of the call is kept, since what the function refers to may change."""
    if _batches(a, b):
        raise refused("an epilogue goes with matrices, and an operand is a batch of them", "reshape to one matrix")
    product = _read(a, b, out, dtype)
    shape = product.problem.m, product.problem.n
    epilogue, tensors = read_epilogue(function, args, product.info, shape)
    if out is None:
        out = _workspace(product).empty(shape, product.result, a)
    plan = planned(plan, Plan) or _plan(product.problem, *hardware(product.info))
    _multiply(product, plan, out, epilogue, tensors)
    return out


@for_users
def _first_call(a: Any, b: Any, out: Any, dtype: Any, plan: Plan | None, key: Key | None) -> Any:
    """A call of which nothing is known."""
    if _batches(a, b):
        from minitile.ops.batches import multiply_batches

        return multiply_batches(a, b, out, dtype, plan, key)
    product = _read(a, b, out, dtype)
    if out is None:
        out = _workspace(product).empty((product.problem.m, product.problem.n), product.result, a)
    plan = planned(plan, Plan) or _plan(product.problem, *hardware(product.info))
    executable = _multiply(product, plan, out)
    if key is not None and executable is not None and product.info.device_kind == "cuda":
        p, frame = product.problem, _workspace(product)
        sizes = {"M": p.m, "N": p.n, "K": p.k, "G": p.n, "L": p.k}  # the last two: as gemv names those of B
        remember(known, key, executable, sizes, frame, out)
    return out


def _multiply(
    product: _Product, plan: Plan, out: Any, epilogue: Epilogue | None = None, tensors: tuple[Any, ...] = ()
) -> Any:
    """Launches what the plan says; the executable where that is one launch of what `product` was read from."""
    if plan.together and not shares(plan):
        raise refused(f"no cluster adds up this: {plan}", "at most 8 blocks, each part with whole 8 rows of a tile")
    if plan.dots:
        return _multiply_by_threads(product, plan, out, epilogue, tensors)
    if plan.by_class:
        return _multiply_by_class(product, plan, out, epilogue, tensors)
    a, b = _padded(product, plan)
    p = product.problem
    kernel = _kernel(
        product.dtype, product.result, p.transpose_a, p.transpose_b, plan, None if plan.apart else epilogue
    )
    if plan.apart:
        parts = _workspace(product).empty(*_written(p, product.result, plan), a)
        kernel(a, b, parts)
        summed(product.result, epilogue)(parts, out, *tensors)
        return None
    kernel(a, b, out, *tensors)
    if epilogue is not None:
        return None
    return None if any(plan.pad) or a is not product.a or b is not product.b else kernel.executable(a, b, out)


def _multiply_by_threads(
    product: _Product, plan: Plan, out: Any, epilogue: Epilogue | None, tensors: tuple[Any, ...]
) -> Any:
    """The same of a plan by threads."""
    p, form = product.problem, by_threads(product.problem)
    if form is None or product.dtype.bytes != 2:
        raise refused(f"the plan {plan} is for few rows by a matrix that lies along K, or the mirrored form")
    x, w = (product.b, product.a) if form.mirrored else (product.a, product.b)
    classes = classes_of(p.k)
    groups = w.shape[0] // classes
    kernel = _kernel_by_threads(product.dtype, product.result, form, plan, classes, epilogue)
    if classes == 1:
        kernel(x, w, out, None, None, *tensors)
        return None if form.mirrored or epilogue is not None else kernel.executable(x, w, out, None, None)
    row = None if form.turned else reshaped(x, (x.shape[0] * p.k,))
    kernel(x, reshaped(w[: groups * classes], (groups, classes * p.k)), out, w, row, *tensors)
    return None


def _multiply_by_class(
    product: _Product, plan: Plan, out: Any, epilogue: Epilogue | None, tensors: tuple[Any, ...]
) -> None:
    """The same of a plan by classes of rows: a launch for the few rows, and one for the product."""
    p, classes = product.problem, classes_of(product.problem.k)
    if not p.by_class or p.n < classes:
        raise refused(
            f"the plan {plan} is for rows by a matrix that lies along K, in rows that are no whole 16 bytes",
            f"of f16 or bf16, with at least {classes} columns of the result; without `plan` one is chosen",
        )
    x = _workspace(product).empty((classes * p.m, shifted_width(p.k)), product.dtype, product.a)
    shifted(product.dtype)(product.a, x, classes=classes)
    w = reshaped(product.b[: p.n // classes * classes], (p.n // classes, classes * p.k))
    _kernel_by_class(product.dtype, product.result, plan, classes, epilogue)(product.a, x, w, product.b, out, *tensors)


def _written(problem: Problem, result: DType, plan: Plan) -> tuple[tuple[int, ...], DType]:
    """Shape and dtype of what the product's kernel writes: C, or its parts."""
    if plan.apart:
        return (plan.split, problem.m, _up(problem.n, LINE // 4)), f32
    return (problem.m, problem.n), result


def _padded(product: _Product, plan: Plan) -> tuple[Any, Any]:
    """The operands, those that the plan says with longer rows: copied by one launch."""
    operands = [product.a, product.b]
    given: list[Any] = []
    columns: list[int] = []
    for n, x in enumerate(operands):
        if plan.pad[n]:
            rows, width = x.shape
            wide = _up(width, LINE // product.problem.size)
            operands[n] = _workspace(product).empty((rows, wide), product.dtype, x)
            given += [x, operands[n]]
            columns.append(columns_for(wide))
    if given:
        padded(product.dtype, *columns)(*given)
    return operands[0], operands[1]


@lru_cache(maxsize=1024)
def _kernel(
    dtype: DType, result: DType, transpose_a: bool, transpose_b: bool, plan: Plan, epilogue: Epilogue | None = None
) -> Kernel:
    loose = any(plan.pad) or plan.apart
    if plan.split > 1 and plan.together:
        made = gemm_together(dtype, result, transpose_a, transpose_b, loose, epilogue)
    else:
        made = gemm(dtype, f32 if plan.apart else result, transpose_a, transpose_b, plan.apart, loose, epilogue)
    return made.configured(**plan.constants)


@lru_cache(maxsize=1024)
def _kernel_by_threads(
    dtype: DType, result: DType, form: Form, plan: Plan, classes: int, epilogue: Epilogue | None = None
) -> Kernel:
    return gemv(dtype, result, *form, epilogue).configured(**plan.constants, classes=classes)


@lru_cache(maxsize=1024)
def _kernel_by_class(dtype: DType, result: DType, plan: Plan, classes: int, epilogue: Epilogue | None = None) -> Kernel:
    return gemm_ragged(dtype, result, epilogue).configured(**plan.constants, classes=classes)


def _up(n: int, grain: int) -> int:
    return -(-n // grain) * grain


_plan = lru_cache(maxsize=MOST_KNOWN)(choose)


def hardware(info: ArrayInfo) -> tuple[Machine, bool, int]:
    """What a choice of plans must know of the GPU that an operand is on: its numbers, whether it has wgmma, and the
    most bytes of shared memory of a block. The simulator plays an H200."""
    target = target_at(info.device_kind, info.device_index)
    machine = machine_of_device(info.device_index) if info.device_kind == "cuda" else H200
    return machine, target.has("wgmma"), target.max_shared


def machine_of_device(index: int) -> Machine:
    """What is known of CUDA device `index`."""
    from minitile.runtime.cuda import device_info

    device = device_info(index)
    return machine_for(device.name, device.multiprocessors, device.capability)


# Reading the operands ------------------------------------------------------------------------------------------------


def _read(a: Any, b: Any, out: Any, dtype: Any) -> _Product:
    """The operands as matrices without gaps. Raises LaunchArgumentError for what cannot be multiplied."""
    of_a, of_b, given = read_pair(a, b, out, (2,))
    (m, k), (k2, n) = of_a.shape, of_b.shape
    if k != k2:
        raise refused(f"a is {m}×{k} and b is {k2}×{n}: the columns of a are not as many as the rows of b")
    element = dtype_of_name(of_a.dtype)
    result = result_dtype(given, (m, n), of_a.dtype, dtype)
    frame = frame_of(a)
    a, transpose_a = lying(a, of_a, frame)
    b, transpose_b = lying(b, of_b, frame)
    problem = Problem(m, n, k, transpose_a, transpose_b, element.bytes, result.bytes)
    return _Product(problem, element, result, a, b, of_a, frame)


def _workspace(product: _Product) -> Frame:
    if product.frame is None:
        raise refused(
            "matmul cannot make arrays of this framework",
            "pass out=, rows of whole 16 bytes, and a plan without split; or arrays of torch or CuPy",
        )
    return product.frame
