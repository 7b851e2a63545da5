"""Operations on tensors of no content: their shapes, by name. What is not known gives the first tensor's shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitile.tilelang.stand_in.tensors import DTYPES, StandIn, StandInDtype

_REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "amax",
        "amin",
        "prod",
        "any",
        "all",
        "norm",
        "logsumexp",
        "argmax",
        "argmin",
        "var",
        "std",
        "count_nonzero",
        "nansum",
    ]
)
_PAIRS = frozenset(["max", "min", "sort", "topk", "median", "aminmax", "unique_consecutive", "mode"])
_TESTS = frozenset(["equal", "allclose", "is_floating_point", "is_nonzero"])


def tensors(args: Any) -> list[StandIn]:
    """The tensors among arguments, also in lists."""
    found = []
    for each in args:
        if isinstance(each, StandIn):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += tensors(each)
    return found


def broadcast(*args: Any) -> StandIn:
    """An element-wise operation's result."""
    given = tensors(args)
    try:
        shape = np.broadcast_shapes(*(tuple(x.shape) for x in given))
    except ValueError:
        shape = tuple(given[0].shape)
    return given[0].like(shape, max((x.dtype for x in given), key=lambda d: (d.is_floating_point, d.bits)))


def matmul(a: StandIn, b: StandIn) -> StandIn:
    """a @ b."""
    if a.ndim < 2 or b.ndim < 2:
        return a.like((*a.shape[:-1], *b.shape[:-2], *b.shape[-1:]) if b.ndim > 1 else a.shape[:-1])
    try:
        batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError:
        batch = tuple(a.shape[:-2])
    return a.like((*batch, a.shape[-2], b.shape[-1]))


def reduce(x: StandIn, dim: Any = None, keepdim: bool = False) -> StandIn:
    """A reduction over dimensions; of all of them, a scalar."""
    if dim is None:
        return x.like(())
    dims = {int(d) % max(1, x.ndim) for d in (dim if isinstance(dim, (list, tuple)) else [dim])}
    return x.like([1 if i in dims else n for i, n in enumerate(x.shape) if keepdim or i not in dims])


def einsum(rule: str, *given: StandIn) -> StandIn:
    """torch.einsum."""
    operands = tensors(given)
    left, _, right = rule.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for letters, x in zip(left.split(","), operands, strict=False):
        sizes.update(zip(letters, x.shape, strict=False))
    return operands[0].like([sizes.get(c, 1) for c in right])


def cat(given: Any, dim: int = 0, **_: Any) -> StandIn:
    """torch.cat."""
    parts = tensors(given)
    shape = list(parts[0].shape)
    if shape:
        shape[dim] = sum(x.shape[dim] for x in parts)
    return parts[0].like(shape)


def stack(given: Any, dim: int = 0, **_: Any) -> StandIn:
    """torch.stack."""
    parts = tensors(given)
    return parts[0].like((len(parts), *parts[0].shape)) if dim == 0 else cat([x.unsqueeze(dim) for x in parts], dim)


def numbers_of(x: StandIn, name: str, args: Any) -> StandIn | None:
    """Operations on tensors that have their numbers."""
    if x.numbers is None:
        return None
    values = np.asarray(x.numbers)
    if name in ("sum", "max", "min") and not args:
        found = getattr(values, name)()
    elif name == "cumsum":
        found = values.cumsum(int(args[0]) if args else -1)
    else:
        return None
    return StandIn(np.shape(found), x.dtype, found)


def method(x: StandIn, name: str) -> Callable[..., Any]:
    """`x.name`, a function of the arguments behind x."""

    def call(*args: Any, **named: Any) -> Any:
        return apply(name, (x, *args), named)

    return call


def apply(name: str, args: Any, named: dict[str, Any]) -> Any:
    """`torch.name(*args)`."""
    given = tensors(args)
    if not given:
        return StandIn((1,)) if not args or not callable(args[0]) else args[0]
    x = given[0]
    rest = args[1:]
    dim = named.get("dim", named.get("axis", rest[0] if rest and not isinstance(rest[0], StandIn) else None))
    keep = bool(named.get("keepdim", False) or (len(rest) > 1 and rest[1] is True))
    if (known := numbers_of(x, name, rest)) is not None:
        return known
    if name in ("einsum",):
        return einsum(args[0], *given)
    if name in ("matmul", "bmm", "mm"):
        return matmul(x, given[1])
    if name in ("cat", "concat"):
        return cat(*args, **named)
    if name == "stack":
        return stack(*args, **named)
    if name in ("linear",):
        return matmul(x, given[1].T)
    if name in _TESTS:
        return True
    if name in _REDUCTIONS:
        kind = named.get("dtype") if isinstance(named.get("dtype"), StandInDtype) else None
        return reduce(x, dim, keep).to(kind) if kind else reduce(x, dim, keep)
    if name in _PAIRS:
        return pair(name, x, dim, keep, rest, named)
    if name in _SHAPED:
        return getattr(x, name)(*rest, **named)
    if name in ("new_empty", "new_zeros", "new_ones", "new_full"):
        shape = rest[0] if isinstance(rest[0], (tuple, list)) else rest
        return x.like(shape, named.get("dtype"))
    if name == "scaled_dot_product_attention":
        return x.like((*x.shape[:-1], given[2].shape[-1]))
    if name == "where" and len(args) == 1:
        return tuple(x.like((x.numel(),), DTYPES["int64"]) for _ in x.shape)
    if name == "gather" and len(given) > 1:
        return x.like(given[1].shape)
    if name == "pad":
        return padded(x, rest[0] if rest else named["pad"])
    if name in ("is_contiguous",):
        return True
    if name == "nonzero":
        every = x.like((x.numel(), x.ndim), DTYPES["int64"])
        return tuple(every[:, 0] for _ in x.shape) if named.get("as_tuple") else every
    if name == "select":
        return x[(slice(None),) * (int(rest[0]) % x.ndim) + (0,)]
    if name == "narrow":
        return x[(slice(None),) * (int(rest[0]) % x.ndim) + (slice(0, int(rest[2])),)]
    if len(given) > 1 and not name.endswith("_"):
        return broadcast(*given)
    kind = next((a for a in (*rest, named.get("dtype")) if isinstance(a, StandInDtype)), None)
    return x.like(None, kind)


_SHAPED = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "squeeze",
        "unsqueeze",
        "expand",
        "repeat",
        "repeat_interleave",
        "flatten",
        "chunk",
        "split",
        "unbind",
        "t",
        "to",
        "numel",
    ]
)


def padded(x: StandIn, pads: Any) -> StandIn:
    """F.pad."""
    shape = list(x.shape)
    for i in range(len(pads) // 2):
        shape[-1 - i] += int(pads[2 * i]) + int(pads[2 * i + 1])
    return x.like(shape)


class Pair(tuple):  # type: ignore[type-arg]
    """(values, indices)."""

    __slots__ = ()
    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


def pair(name: str, x: StandIn, dim: Any, keep: bool, rest: Any, named: dict[str, Any]) -> Any:
    """What gives values and indices; `max` and `min` without a dimension give one number."""
    if name in ("max", "min") and dim is None:
        return broadcast(x, *rest) if tensors(rest) else x.like(())
    if name == "sort":
        shape = list(x.shape)
    elif name == "topk":
        shape = list(x.shape)
        axis = named.get("dim", rest[1] if len(rest) > 1 else -1)
        shape[axis] = int(named.get("k", rest[0] if rest else 1))
    else:
        shape = list(reduce(x, -1 if dim is None else dim, keep).shape)
    return Pair((x.like(shape), x.like(shape, DTYPES["int64"])))
