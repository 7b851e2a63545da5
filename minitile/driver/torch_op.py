"""`mt.torch_op`: a kernel, or a function on arrays, as an operator of torch.

An operator is what torch.compile, export and autograd see as one thing: a name, a schema, what its results look like
without computing them (fake), and its derivative. All of these follow from a kernel: tensors that it writes are
mutated, results come from T.empty or `out_idx`, their shapes are computed from the arguments' (`Kernel.result_shapes`).

    kernel (X: (M, N), eps: f32, weight: (N,) | None) that returns Y
    (Tensor X, float eps, Tensor? weight=None) -> Tensor

The derivative is a kernel or a function as well, registered as the operator `NAME_backward`. Its parameters say by
their names what it wants: an argument of the forward operator, a result of it, the gradient of a result.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitile.driver.dispatch import caller_location, for_users
from minitile.driver.jit import Kernel
from minitile.ir.diagnostics import LanguageError
from minitile.ir.types import DType, f32
from minitile.runtime.arrays import torch_tensors

_PLAIN = {bool: "bool", int: "int", float: "float", str: "str"}


@dataclass(frozen=True)
class _Operator:
    """What is registered: arguments as (type in the schema, name, default as text or ""), names of results, `run` and
    `fake` of the arguments in order."""

    args: tuple[tuple[str, str, str], ...]
    results: tuple[str, ...]
    run: Callable[..., Any]
    fake: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name, _ in self.args)

    @property
    def mutated(self) -> tuple[str, ...]:
        return tuple(name for kind, name, _ in self.args if "!" in kind)

    @property
    def schema(self) -> str:
        args = ", ".join(f"{kind} {name}{default and '=' + default}" for kind, name, default in self.args)
        back = "Tensor" if len(self.results) == 1 else f"({', '.join('Tensor' for _ in self.results)})"
        return f"({args}) -> {back}"


@for_users
def torch_op(
    function: Kernel | Callable[..., Any],
    *,
    name: str,
    backward: Kernel | Callable[..., Any] | None = None,
    gradients: Sequence[str | tuple[str, ...]] | None = None,
    schema: str | None = None,
    fake: Callable[..., Any] | None = None,
    backward_fake: Callable[..., Any] | None = None,
) -> Any:
    """An operator of torch (`torch.library.custom_op`), which torch.compile takes as a whole, with fullgraph=True, and
    which is captured in CUDA graphs (after a call that has compiled the kernel). Needs torch.

    Args:
        function: a kernel, or a function on tensors that calls kernels.
        name: "space::name", or a name in the space "minitile".
        backward: a kernel or function that computes gradients. Its parameters are found by name: `grad` is the gradient
            of the (first) result, `grad_Y` that of the result Y; the name of an argument or a result of `function` is
            that (of a function's results: `result`, or `result0`, `result1`, …).
        gradients: the arguments whose gradients `backward` returns, in order, a tuple of those that have the same one;
            as many as it has results, from the first tensor on, if not given. It may return None for an argument that
            is None.
        schema: of a function, which says nothing of its types: "(Tensor x, float eps=1e-6) -> Tensor".
        fake: of a function: results that have the right shapes, dtypes and devices, made from arguments of which
            nothing else may be looked at; one like the first tensor if not given.
        backward_fake: the same of `backward`, if that is a function; like the arguments that are differentiated if not
            given.

    Returns:
        torch's CustomOpDef, to be called as the function is.

    Raises:
        LanguageError: a kernel that returns what it is passed, parameters that have no place in a schema, a function
            without a schema.

    Example:
        ```py
        softmax = mt.torch_op(softmax_kernel, name="mine::softmax", backward=softmax_backward)  # (grad, Y) -> dX
        y = torch.compile(lambda x: softmax(x * 2), fullgraph=True)(x)
        ```
    """
    torch = _torch()
    where = name if "::" in name else f"minitile::{name}"
    forward = _of_kernel(function) if isinstance(function, Kernel) else _of_function(function, schema, fake)
    made = torch.library.custom_op(where, forward.run, mutates_args=forward.mutated, schema=forward.schema)
    made.register_fake(forward.fake)
    if backward is not None:
        derived = _derivative(forward, backward, gradients, backward_fake)
        gradient = torch.library.custom_op(f"{where}_backward", derived.run, mutates_args=(), schema=derived.schema)
        gradient.register_fake(derived.fake)
        _register_autograd(made, forward, gradient, derived)
    return made


def _torch() -> Any:
    """The framework, which nothing but its user's wish imports."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise _wrong(f"torch cannot be imported: {error}", "pip install torch") from None


def _of_kernel(kernel: Kernel) -> _Operator:
    from minitile.driver.compiled import Case
    from minitile.driver.pipeline import written_tensors

    dtypes: dict[str, DType] = {p.name: f32 for p in kernel.signature.runtime if p.kind == "tensor" and not p.dtype}
    missing = [p.name for p in kernel.signature.constants if p.required]
    if missing:
        raise _wrong(f"the compile-time parameter {missing[0]} has no default", "fix it by kernel.configured(…)")
    constants = kernel._constants({p.name: p.default for p in kernel.signature.constants})
    results = kernel._results(constants, dtypes)
    passed = [n for n in results.returned if n not in results.names]
    if passed:
        raise _wrong(f"{kernel.__name__} returns {passed[0]}, which it is passed", "an operator's results are new")
    if len(results.returned) == 1 and not results.one:
        raise _wrong(f"{kernel.__name__} returns a tuple of one tensor", "return the tensor itself")
    written = written_tensors(Case(kernel, constants, dtypes, {}, made=results.made).trace())
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    args: list[tuple[str, str, str]] = []
    for p in kernel.signature.parameters:
        if p.made or p.kind == "self":
            continue
        if p.kind == "tensor":
            kind = f"Tensor({next(letters)}!)" if p.name in written else "Tensor"
            args.append((f"{kind}?" if p.optional else kind, p.name, "None" if p.optional else ""))
            continue
        kind = _PLAIN.get(type(p.default), "")
        if p.kind == "scalar":
            assert p.dtype is not None
            kind = "float" if p.dtype.is_float else "bool" if p.dtype.kind == "bool" else "SymInt"
        if kind:  # others keep their defaults
            args.append((kind, p.name, "" if p.required else _text(p.default)))
    names = [name for _, name, _ in args]

    def run(*given: Any, **named: Any) -> Any:
        return kernel(**dict(zip(names, given, strict=False)), **named)

    def fake(*given: Any, **named: Any) -> Any:
        every = {**dict(zip(names, given, strict=False)), **named}
        like = _first([*every.values()])
        shapes = kernel.result_shapes(**every)
        back = [like.new_empty(shape, dtype=torch_tensors().dtypes[dtype.name]) for shape, dtype in shapes]
        return back[0] if results.one else tuple(back) if back else None

    return _Operator(tuple(args), results.returned, run, fake)


def _text(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


def _of_function(function: Callable[..., Any], schema: str | None, fake: Callable[..., Any] | None) -> _Operator:
    torch = _torch()
    if schema is None:
        raise _wrong("a function has no schema of its own", 'schema="(Tensor x, float eps=1e-6) -> Tensor"')
    parsed = torch._C.parse_schema(f"op{schema}")
    args = []
    inside = schema[schema.index("(") + 1 : schema.rindex("->")].rstrip()[:-1]
    for text, a in zip(_split(inside), parsed.arguments, strict=True):
        head, _, default = text.partition("=")
        args.append((head.strip().rsplit(" ", 1)[0], a.name, default.strip()))
    count = len(parsed.returns)
    results = ("result",) if count == 1 else tuple(f"result{i}" for i in range(count))

    def like_first(*given: Any, **named: Any) -> Any:
        first = next(x for x in (*given, *named.values()) if isinstance(x, torch.Tensor))
        back = [first.new_empty(first.shape) for _ in range(count)]
        return back[0] if count == 1 else tuple(back)

    return _Operator(tuple(args), results, function, fake or like_first)


def _split(args: str) -> list[str]:
    """The parts between commas that are not in brackets; the star before arguments by name is none."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(args):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(args[start:i].strip())
            start = i + 1
    return [p for p in (*parts, args[start:].strip()) if p and p != "*"]


def _derivative(
    forward: _Operator,
    backward: Kernel | Callable[..., Any],
    gradients: Sequence[str | tuple[str, ...]] | None,
    fake: Callable[..., Any] | None,
) -> _Operator:
    """The operator of the gradients; its results have the names of the arguments that they are the gradients of."""
    known = {name: kind for kind, name, _ in forward.args}
    tensors = [name for name, kind in known.items() if kind.startswith("Tensor")]
    own = _of_kernel(backward) if isinstance(backward, Kernel) else None
    parameters = inspect.signature(backward.function if isinstance(backward, Kernel) else backward).parameters.values()
    run: Callable[..., Any] = backward
    found = fake if own is None else own.fake
    of = gradients or tensors[: 1 if own is None else len(own.results)]
    wanted = tuple(n if isinstance(n, str) else " ".join(n) for n in of)
    if own is not None and len(wanted) != len(own.results):
        raise _wrong(f"backward returns {len(own.results)} tensors, for the gradients of {', '.join(wanted)}")
    for n in " ".join(wanted).split():
        if n not in tensors:
            raise _wrong(f"gradients: {n} is no tensor among {', '.join(forward.names)}")
    passed = [p for p in parameters if own is None or p.name in own.names]
    names = [p.name for p in passed if p.name in (*known, *forward.results) or _is_gradient(forward, p.name)]
    for p in passed:
        if p.name not in names and p.default is p.empty:
            what = ", ".join((*known, *forward.results, "grad", *(f"grad_{r}" for r in forward.results)))
            raise _wrong(f"backward's parameter {p.name} is none of {what}")

    def whole(*given: Any) -> Any:
        """The gradients; of what is None, something of no elements."""
        back = run(**dict(zip(names, given, strict=True)))
        back = back if isinstance(back, (tuple, list)) else (back,)
        like = _first(given)
        every = tuple(like.new_empty(0) if x is None else x for x in back)
        return every[0] if len(wanted) == 1 else every

    def like_arguments(*given: Any) -> Any:
        every = dict(zip(names, given, strict=True))
        gradient = next(x for n, x in every.items() if _is_gradient(forward, n))
        back = []
        for n in wanted:
            like = every.get(n.split()[0], gradient)
            back.append(_first(given).new_empty(0) if like is None else like.new_empty(like.shape))
        return back[0] if len(wanted) == 1 else tuple(back)

    def of_found(*given: Any) -> Any:
        assert found is not None
        return found(**dict(zip(names, given, strict=True)))

    args = tuple((known.get(n, "Tensor"), n, "") for n in names)
    return _Operator(args, wanted, whole, like_arguments if found is None else of_found)


def _first(given: Sequence[Any]) -> Any:
    """The first tensor."""
    return next(x for x in given if hasattr(x, "new_empty"))


def _is_gradient(forward: _Operator, name: str) -> bool:
    return name == "grad" or (name.startswith("grad_") and name[5:] in forward.results)


def _register_autograd(op: Any, forward: _Operator, gradient: Any, derived: _Operator) -> None:
    """Saves what the gradients' operator wants, and calls it."""
    kept = [n for n in derived.names if not _is_gradient(forward, n)]
    defaults = {a.name: a.default_value for a in op._opoverload._schema.arguments if a.has_default_value()}

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any, **more: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        known = {**defaults, **dict(zip(forward.names, inputs, strict=False)), **more.get("keyword_only_inputs", {})}
        ctx.absent = [known.get(n) is None for n in forward.names]
        known |= dict(zip(forward.results, outputs, strict=True))
        values = [known[n] for n in kept]
        is_tensor = [hasattr(v, "new_empty") for v in values]
        ctx.save_for_backward(*(v for v, t in zip(values, is_tensor, strict=True) if t))
        ctx.is_tensor = is_tensor
        ctx.others = [v for v, t in zip(values, is_tensor, strict=True) if not t]

    def backward(ctx: Any, *grads: Any) -> Any:
        tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
        known = {n: next(tensors if t else others) for n, t in zip(kept, ctx.is_tensor, strict=True)}
        known |= {f"grad_{r}": g for r, g in zip(forward.results, grads, strict=True)}
        known["grad"] = grads[0]
        back = gradient(*(known[n] for n in derived.names))
        found: dict[str, Any] = {}
        for of, g in zip(derived.results, back if isinstance(back, tuple) else (back,), strict=True):
            found |= dict.fromkeys(of.split(), g)
        return tuple(None if absent else found.get(n) for n, absent in zip(forward.names, ctx.absent, strict=True))

    op.register_autograd(backward, setup_context=setup_context)


def _wrong(what: str, hint: str = "") -> LanguageError:
    return LanguageError(f"mt.torch_op: {what}", caller_location(), hint)
