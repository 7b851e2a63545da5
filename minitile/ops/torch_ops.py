"""The ready kernels as differentiable operators of torch: `torch.ops.minitile.*`.

One row of `ROWS` for each form of a function: the schema of its operator, what its results look like, and the function
that computes gradients, whose parameters `mt.torch_op` finds by name. A function of
`mt.ops` that has rows goes to its operator where torch is to see one: where a gradient is wanted, and inside of
torch.compile. Everything else goes straight to the kernels.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, NamedTuple

from minitile.driver.dispatch import caller_location
from minitile.driver.torch_op import torch_op
from minitile.ir.diagnostics import LaunchArgumentError


class Row(NamedTuple):
    """`function` of mt.ops in the form in which all of `needs` are given, as the operator `name` (the function's, if
    there is but one). gradients: the arguments whose gradients `backward` returns. shown: of the operator's results and
    a call's arguments, what the call returns."""

    function: str
    schema: str
    backward: Callable[..., Any] | None = None
    gradients: tuple[str | tuple[str, ...], ...] = ("x",)
    fake: Callable[..., Any] | None = None
    needs: tuple[str, ...] = ()
    suffix: str = ""
    backward_fake: Callable[..., Any] | None = None
    fixed: Mapping[str, Any] = MappingProxyType({})  # arguments that the operator always gives to the function
    aside: tuple[str, ...] = ()  # arguments that say nothing but what `shown` makes of the operator's results
    shown: Callable[[Any, Mapping[str, Any]], Any] | None = None
    own: str = ""  # the argument with which the function returns gradients itself, and no operator is wanted

    @property
    def name(self) -> str:
        return self.function + self.suffix

    @property
    def arguments(self) -> tuple[str, ...]:
        inside = self.schema[1 : self.schema.index(") ->")]
        return tuple(part.partition("=")[0].split()[-1] for part in inside.split(", "))


def ready(name: str) -> Callable[..., Any]:
    """A function of mt.ops itself."""
    from minitile import ops

    found: Callable[..., Any] = getattr(importlib.import_module(ops._HOME[name]), name)
    return found


# Gradients -----------------------------------------------------------------------------------------------------------


def _norm_backward(name: str, grad: Any, x: Any, weight: Any, bias: Any, eps: float, dsum: Any = None) -> Any:
    dx, dweight, dbias = ready(name)(grad.contiguous(), x, weight, bias=bias is not None, dsum=dsum, eps=eps)
    return dx, dweight, None if dbias is None else dbias.to(bias.dtype)


def rms_norm_backward(grad: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _norm_backward("rms_norm_backward", grad, x, weight, bias, eps)


def layer_norm_backward(grad: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _norm_backward("layer_norm_backward", grad, x, weight, bias, eps)


def rms_norm_residual_backward(
    grad_result0: Any, grad_result1: Any, result1: Any, weight: Any, bias: Any, eps: float
) -> Any:
    return _norm_backward("rms_norm_backward", grad_result0, result1, weight, bias, eps, grad_result1.contiguous())


def layer_norm_residual_backward(
    grad_result0: Any, grad_result1: Any, result1: Any, weight: Any, bias: Any, eps: float
) -> Any:
    return _norm_backward("layer_norm_backward", grad_result0, result1, weight, bias, eps, grad_result1.contiguous())


def swiglu_backward(grad: Any, x: Any) -> Any:
    return ready("swiglu_backward")(grad.contiguous(), x)


def swiglu_pair_backward(grad: Any, x: Any, up: Any) -> Any:
    return ready("swiglu_backward")(grad.contiguous(), x, up)


def geglu_backward(grad: Any, x: Any, approximate: str) -> Any:
    return ready("geglu_backward")(grad.contiguous(), x, approximate=approximate)


def geglu_pair_backward(grad: Any, x: Any, up: Any, approximate: str) -> Any:
    return ready("geglu_backward")(grad.contiguous(), x, up, approximate=approximate)


def rotary_backward(
    grad_result0: Any, grad_result1: Any, cos: Any, sin: Any, positions: Any, interleaved: bool, inverse: bool
) -> Any:
    grads = grad_result0.contiguous(), grad_result1.contiguous()
    return ready("rotary")(*grads, cos, sin, positions, interleaved=interleaved, inverse=not inverse)


def rotary_query_backward(grad: Any, cos: Any, sin: Any, positions: Any, interleaved: bool, inverse: bool) -> Any:
    grad = grad.contiguous()
    return ready("rotary")(grad, None, cos, sin, positions, interleaved=interleaved, inverse=not inverse)


def transpose_backward(grad: Any) -> Any:
    return ready("transpose")(grad.contiguous())


def column_sums_backward(grad: Any, x: Any) -> Any:
    return grad.to(x.dtype).expand(x.shape).contiguous()


def embedding_backward(grad: Any, weight: Any, indices: Any) -> Any:
    return ready("embedding_backward")(grad.contiguous(), indices, weight.shape[0]).to(weight.dtype)


def cumsum_backward(grad: Any, reverse: bool) -> Any:
    return ready("cumsum")(grad.contiguous(), reverse=not reverse)


def dropout_backward(grad: Any, p: float, seed: int, offset: int) -> Any:
    return ready("dropout_backward")(grad.contiguous(), p, seed, offset=offset)


def top_k_backward(grad_result0: Any, x: Any, result1: Any) -> Any:
    return x.new_zeros(x.shape).scatter_(-1, result1, grad_result0.to(x.dtype))


def softmax_backward(grad: Any, result: Any) -> Any:
    return ready("softmax_backward")(grad.contiguous(), result)


def log_softmax_backward(grad: Any, result: Any) -> Any:
    return ready("log_softmax_backward")(grad.contiguous(), result)


def cross_entropy_backward(
    grad_result0: Any, grad_result1: Any, logits: Any, labels: Any, result1: Any, ignore_index: int
) -> Any:
    grads, out = (grad_result0.contiguous(), grad_result1.contiguous()), logits.new_empty(logits.shape)
    return ready("cross_entropy_backward")(
        grads[0], logits, labels, result1, ignore_index=ignore_index, dlse=grads[1], out=out
    )


def linear_cross_entropy_backward(
    grad: Any, x: Any, weight: Any, labels: Any, ignore_index: int, chunk: int | None
) -> Any:
    return ready("linear_cross_entropy_backward")(
        grad.contiguous(), x, weight, labels, ignore_index=ignore_index, chunk=chunk
    )


# What results look like ----------------------------------------------------------------------------------------------


def _half(x: Any, *_: Any) -> Any:
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


def _like_x(x: Any, *_: Any) -> Any:
    return x.new_empty(x.shape)


def _two_like_x(x: Any, *_: Any) -> Any:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _like_both(q: Any, k: Any, *_: Any) -> Any:
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _turned(x: Any) -> Any:
    return x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def _columns(x: Any) -> Any:
    return x.new_empty(x.shape[-1:], dtype=sys.modules["torch"].float32)


def _picked(x: Any, k: int, *_: Any) -> Any:
    shape = *x.shape[:-1], k
    return x.new_empty(shape), x.new_empty(shape, dtype=sys.modules["torch"].int64)


def _losses(logits: Any, *_: Any) -> Any:
    shape, dtype = logits.shape[:-1], sys.modules["torch"].float32
    return logits.new_empty(shape, dtype=dtype), logits.new_empty(shape, dtype=dtype)


def _loss_of(x: Any, *_: Any) -> Any:
    return x.new_empty(x.shape[:-1], dtype=sys.modules["torch"].float32)


def _attended(
    q: Any, k: Any, v: Any, causal: Any = False, window: Any = None, softcap: Any = None, scale: Any = None,
    sinks: Any = None, q_lengths: Any = None, k_lengths: Any = None, layout: str = "bshd",
) -> Any:  # fmt: skip
    batch, queries, heads = (q.shape[n] for n in ((0, 1, 2) if layout == "bshd" else (0, 2, 1)))
    lse = q.new_empty((batch, heads, queries), dtype=sys.modules["torch"].float32)
    return q.new_empty((*q.shape[:3], v.shape[3])), lse


def _with_lse(results: Any, given: Mapping[str, Any]) -> Any:
    return results if given.get("return_lse") else results[0]


def _rows_of(weight: Any, indices: Any) -> Any:
    return weight.new_empty((*indices.shape, weight.shape[-1]))


_RMS = "Tensor? weight=None, Tensor? bias=None, float eps=1e-06"
_LAYER = "Tensor? weight=None, Tensor? bias=None, float eps=1e-05"
_NORM = ("x", "weight", "bias")
_SUMMED = (("x", "residual"), "weight", "bias")
_TURN = "Tensor cos, Tensor sin, Tensor? positions=None, bool interleaved=False, bool inverse=False"

ROWS: tuple[Row, ...] = (  # of one function, the forms that need more come first
    Row(
        "rms_norm",
        f"(Tensor x, Tensor residual, {_RMS}) -> (Tensor, Tensor)",
        rms_norm_residual_backward,
        _SUMMED,
        _two_like_x,
        needs=("residual",),
        suffix="_residual",
    ),
    Row("rms_norm", f"(Tensor x, {_RMS}) -> Tensor", rms_norm_backward, _NORM, _like_x),
    Row(
        "layer_norm",
        f"(Tensor x, Tensor residual, {_LAYER}) -> (Tensor, Tensor)",
        layer_norm_residual_backward,
        _SUMMED,
        _two_like_x,
        needs=("residual",),
        suffix="_residual",
    ),
    Row("layer_norm", f"(Tensor x, {_LAYER}) -> Tensor", layer_norm_backward, _NORM, _like_x),
    Row(
        "swiglu",
        "(Tensor x, Tensor up) -> Tensor",
        swiglu_pair_backward,
        ("x", "up"),
        _like_x,
        needs=("up",),
        suffix="_pair",
    ),
    Row("swiglu", "(Tensor x) -> Tensor", swiglu_backward, fake=_half),
    Row(
        "geglu",
        '(Tensor x, Tensor up, str approximate="none") -> Tensor',
        geglu_pair_backward,
        ("x", "up"),
        _like_x,
        needs=("up",),
        suffix="_pair",
    ),
    Row("geglu", '(Tensor x, str approximate="none") -> Tensor', geglu_backward, fake=_half),
    Row(
        "rotary",
        f"(Tensor q, Tensor k, {_TURN}) -> (Tensor, Tensor)",
        rotary_backward,
        ("q", "k"),
        _like_both,
        needs=("k",),
        backward_fake=_like_both,
    ),
    Row(
        "rotary",
        f"(Tensor q, {_TURN}) -> Tensor",
        rotary_query_backward,
        ("q",),
        _like_x,
        suffix="_query",
        fixed={"k": None},
    ),
    Row("transpose", "(Tensor x) -> Tensor", transpose_backward, fake=_turned, backward_fake=_turned),
    Row("column_sums", "(Tensor x) -> Tensor", column_sums_backward, fake=_columns),
    Row(
        "embedding",
        "(Tensor weight, Tensor indices) -> Tensor",
        embedding_backward,
        ("weight",),
        _rows_of,
    ),
    Row("cumsum", "(Tensor x, bool reverse=False) -> Tensor", cumsum_backward, fake=_like_x),
    Row("dropout", "(Tensor x, float p, SymInt seed, SymInt offset=0) -> Tensor", dropout_backward, fake=_like_x),
    Row("top_k", "(Tensor x, SymInt k, bool largest=True) -> (Tensor, Tensor)", top_k_backward, fake=_picked),
    Row("softmax", "(Tensor x) -> Tensor", softmax_backward, fake=_like_x),
    Row("log_softmax", "(Tensor x) -> Tensor", log_softmax_backward, fake=_like_x),
    Row(
        "cross_entropy",
        "(Tensor logits, Tensor labels, int ignore_index=-100, bool check_labels=False) -> (Tensor, Tensor)",
        cross_entropy_backward,
        ("logits",),
        _losses,
        fixed={"return_lse": True},
        aside=("return_lse",),
        shown=_with_lse,
    ),
    Row(
        "linear_cross_entropy",
        "(Tensor x, Tensor weight, Tensor labels, int ignore_index=-100, int? chunk=None, bool check_labels=False)"
        " -> Tensor",
        linear_cross_entropy_backward,
        ("x", "weight"),
        _loss_of,
        aside=("gradient",),
        own="gradient",
    ),
    Row(
        "attention",
        "(Tensor q, Tensor k, Tensor v, bool causal=False, SymInt[2]? window=None, float? softcap=None,"
        " float? scale=None, Tensor? sinks=None, Tensor? q_lengths=None, Tensor? k_lengths=None,"
        ' str layout="bshd") -> (Tensor, Tensor)',
        fake=_attended,
        gradients=(),
        fixed={"return_lse": True},
        aside=("return_lse",),
        shown=_with_lse,
    ),
)

# Calls ---------------------------------------------------------------------------------------------------------------

# By the function's name, then the row's. A function's operators are looked up in its own table, behind `register`: of a
# table that Dynamo has looked into, it does not see what comes in later.
_OPERATORS: dict[str, dict[str, Any]] = {row.function: {} for row in ROWS}


def operator(row: Row) -> Any:
    """The operator of a row, registered on first use. Needs torch."""
    found = _OPERATORS[row.function].get(row.name)
    if found is None:

        def run(*given: Any) -> Any:
            return ready(row.function)(**dict(zip(row.arguments, given, strict=False)), **row.fixed)

        found = _OPERATORS[row.function][row.name] = torch_op(
            run,
            name=row.name,
            schema=row.schema,
            fake=row.fake,
            backward=row.backward,
            gradients=row.gradients,
            backward_fake=_by_place(row.backward_fake),
        )
    return found


def register(function: str) -> bool:
    """Registers the operators of a function of mt.ops. torch.compile runs this as it is and does not trace it, by the
    mark below: a function may be called for the first time inside of a compiled one, with torch imported later than
    minitile."""
    for row in ROWS:
        if row.function == function:
            operator(row)
    return True


# What torch.compiler.assume_constant_result sets (torch/_dynamo/decorators.py), where torch is not imported yet.
register._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _by_place(fake: Callable[..., Any] | None) -> Callable[..., Any] | None:
    return None if fake is None else lambda **given: fake(*given.values())


def differentiable(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of mt.ops, which goes to its operator where torch is to see one."""
    rows = [row for row in ROWS if row.function == name]
    if not rows:
        return function
    names, operators = tuple(inspect.signature(function).parameters), _OPERATORS[name]
    if "torch" in sys.modules:
        register(name)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not _is_seen(torch, args, kwargs):
            return function(*args, **kwargs)
        given = {n: x for n, x in (*zip(names, args, strict=False), *kwargs.items()) if x is not None}
        row = next(row for row in rows if all(n in given for n in row.needs))
        if given.get(row.own):
            return function(*args, **kwargs)
        beside = [n for n in given if n not in row.arguments and n not in row.aside]
        if not beside:
            register(name)
            back = operators[row.name](**{n: x for n, x in given.items() if n not in row.aside})
            return back if row.shown is None else row.shown(back, given)
        if not torch.compiler.is_compiling():
            raise LaunchArgumentError(
                f"mt.ops.{name}: no gradient goes through a call with {beside[0]}=",
                caller_location(),
                "leave it out, or call it under torch.no_grad()",
            )
        return function(*args, **kwargs)

    return call


def _is_seen(torch: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether torch is to see an operator: it traces, or one of its tensors wants a gradient."""
    if torch.compiler.is_compiling():
        return True
    if not torch.is_grad_enabled():
        return False
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in (*args, *kwargs.values()))
