"""`mt.ops.attention`: how its arrays are read, without copies, and which plan the kernel gets."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from minitile.driver.dispatch import for_users, raise_for_caller
from minitile.driver.jit import Kernel
from minitile.ir.types import f32
from minitile.ops.array_adapters import Frame, reshaped
from minitile.ops.attention_kernel import LOG2_E, attention_forward, attention_forward_one_role
from minitile.ops.attention_plans import MOST_GROWTH, AttentionPlan, choose, packed, side_by_side
from minitile.ops.memory_bound.arguments import FLOATS, INDICES, Argument, argument, multiprocessors
from minitile.ops.operands import ALIGNMENT, MOST_KNOWN, Key, facts, planned, refused
from minitile.runtime.arrays import Place
from minitile.runtime.errors import LaunchError
from minitile.target import target_at

OPERANDS = ("bf16", "f16")
GRAIN, MOST = 16, 256  # elements of a head
FAR = 1 << 30  # places: no bound


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    sinks: Any = None,
    q_lengths: Any = None,
    k_lengths: Any = None,
    return_lse: bool = False,
    layout: str = "bshd",
    out: Any = None,
    plan: AttentionPlan | None = None,
) -> Any:
    """softmax(scale · q · kᵀ) · v for each head: MHA, GQA and MQA. Forward alone: no gradient goes through it.

    Queries are the last of the keys: of S queries and N keys, query s has the place s + N - S among the keys; where
    there are lengths, S and N are those of the sequence. A query that sees no key gets zeros. The sums are in f32,
    weights are rounded to q's dtype.

    Args:
        q: [batch, S, heads, d], bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes). Any strides;
            nothing is copied, and heads whose elements lie side by side at multiples of 16 bytes are fast.
        k: [batch, N, heads of keys, d], of q's dtype; q has a multiple of its heads, which share one each, in order.
        v: [batch, N, heads of keys, e]; d and e are multiples of 16 up to 256, and may differ.
        causal: a query sees no key behind its own place.
        window: (left, right): a query sees that many keys before its own place, and behind it; -1: all of them. With
            `causal`, none behind it.
        softcap: scores become softcap · tanh(score / softcap).
        scale: of scores, greater than 0; 1/√d by default.
        sinks: [heads], f32, bf16 or f16: of each head of q, a further score (not scaled) that has no value.
        q_lengths: [batch], int32 or int64: how many of a sequence's queries count; of the others the results are zeros.
        k_lengths: [batch], likewise for keys; what lies behind them must be finite. Both are read on the GPU, and
            count as 0 or all where they are less or more.
        return_lse: the logarithms of the sums of weights are a second result.
        layout: "bshd", as above, or "bhsd": [batch, heads, S, d] for q, k, v and the result.
        out: where the result goes, of q's dtype, any strides; without it a new array.
        plan: instead of the table's choice.

    Returns:
        [batch, S, heads, e], in q's layout and dtype; with `return_lse` (result, lse), where lse is f32
        [batch, heads, S], -inf for a query that sees no key (with sinks: its head's score).

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        o = mt.ops.attention(q, k, v, causal=True, window=(1023, 0))
        ```
    """
    given = q, k, v, sinks, q_lengths, k_lengths
    key: Key | None
    try:
        options = causal, None if window is None else tuple(window), softcap, scale, return_lse, layout, plan
        key = (*[None if x is None else facts(x) for x in given], *options)
        ready = known.get(key)
    except (AttributeError, TypeError):  # no tensors of torch
        key = ready = None
    if ready is not None and (out is None or facts(out) == ready.out):
        o, lse = ready.empty() if out is None else out, ready.sums and ready.sums()
        addresses = [x.data_ptr() for x in (q, k, v, o, lse, sinks, q_lengths, k_lengths) if x is not None]
        if not any(address % ALIGNMENT for address in addresses):
            try:
                ready.launch((*addresses, *ready.numbers), ready.place)
            except LaunchError as error:
                raise_for_caller(error)
            return o if lse is None else (o, lse)
    return _first_call(given, window, causal, softcap, scale, return_lse, layout, out, plan, key)


class Ready(NamedTuple):
    """A launch on torch tensors of a GPU: `launch` takes their addresses, and then `numbers`. `empty()` is a new
    result, `sums()` a new lse, if the call returns it; `out` is what a given result must be."""

    launch: Callable[[tuple[Any, ...], Place], None]
    numbers: tuple[Any, ...]
    place: Place
    empty: Callable[[], Any]
    sums: Callable[[], Any] | None
    out: tuple[Any, ...]


known: dict[Key, Ready] = {}  # by all of a call that decides how it is launched, but addresses


@for_users
def _first_call(
    given: tuple[Any, ...], window: Any, causal: bool, softcap: Any, scale: Any, return_lse: bool, layout: str,
    out: Any, plan: AttentionPlan | None, key: Key | None,
) -> Any:  # fmt: skip
    """A call of which nothing is known."""
    q, k, v, sinks, q_lengths, k_lengths = given
    heads = _read(q, k, v, layout)
    batch = heads.q.shape[0]
    left, right = _window(window, causal)
    factor, inner = _scores(scale, softcap, heads.d)
    lengths = [_lengths("q_lengths", q_lengths, heads), _lengths("k_lengths", k_lengths, heads)]
    weights = _sinks(sinks, heads)
    o = heads.result(out)
    lse = heads.q.empty((batch, heads.of_q, heads.queries), f32) if return_lse else None
    if 0 not in heads.q.shape:
        plain = left == FAR and softcap is None and lse is None and all(x is None for x in (weights, *lengths))
        group, chosen = heads.group, planned(plan, AttentionPlan) or plan_of(heads, plain, right == 0)
        pack = chosen.packed or packed(group, heads.queries, chosen.block_M)
        if pack < 1 or chosen.block_M % pack:
            raise refused(f"the plan packs {pack} heads in {chosen.block_M} rows", "a divisor of the rows")
        if chosen.growth > MOST_GROWTH:
            raise refused(
                f"the plan's growth is {chosen.growth}", f"at most {MOST_GROWTH}: more than f16 holds follows"
            )
        parameters = chosen.parameters(multiprocessors(heads.q) if chosen.persistent else 0)
        tiles = -(-heads.queries * pack // chosen.block_M)
        groups = batch * heads.of_k * -(-group // pack)
        beside = side_by_side(groups, heads.keys, heads.d, heads.e, tiles, parameters["persistent"], right < FAR)
        sums = None if lse is None else reshaped(lse, (batch, heads.of_k, group, heads.queries)).swapaxes(2, 3)
        arrays = (heads.grouped(q), heads.turned(k), heads.turned(v), heads.grouped(o), sums, weights, *lengths)
        constants = {
            "D": heads.d, "E": heads.e, "bounds": (left < FAR, right < FAR), "capped": softcap is not None,
            "packed": pack, "whole": group <= pack, **parameters,
        }  # fmt: skip
        args = (*arrays, factor, inner, left, right, beside)
        forward = kernel_of(chosen)
        forward(*args, **constants)
        if key is not None and heads.q.device[0] == "cuda" and out is None:
            _remember(key, forward, args, constants, heads.q.frame, o, lse)
    return o if lse is None else (o, lse)


def kernel_of(plan: AttentionPlan) -> Kernel:
    """The kernel with warps that copy alone, or without."""
    return attention_forward if plan.together == 1 else attention_forward_one_role


def _remember(
    key: Key, forward: Kernel, args: tuple[Any, ...], constants: dict[str, Any], frame: Frame, o: Any, lse: Any
) -> None:
    """The next call with this key goes straight to the launch."""
    passed = [x for x in args if x is not None]
    executable = forward.executable(*args, **constants)
    values, place = executable.bind(*passed)
    pointers = sum(kind == "pointer" for kind, _ in executable.launcher.slots)
    if len(known) >= MOST_KNOWN:
        known.clear()
    sums = None if lse is None else frame.like(lse)
    known[key] = Ready(executable.launcher.launch, values[pointers:], place, frame.like(o), sums, facts(o))


@for_users
def attention_plan_for(
    q: Any, k: Any, v: Any, *, layout: str = "bshd", plain: bool = True, causal: bool = False
) -> AttentionPlan:
    """The plan that such a call of `attention` would use.

    Args:
        q: as of `attention`.
        k: as of `attention`.
        v: as of `attention`.
        layout: as of `attention`.
        plain: whether the call has no option but `causal`.
        causal: as of `attention`.

    Raises:
        LaunchArgumentError: operands that do not fit.
    """
    return plan_of(_read(q, k, v, layout), plain, causal)


class Heads(NamedTuple):
    """The operands of a call. S queries and N keys stand at the dimension `at`, heads at the other one."""

    q: Argument
    k: Argument
    v: Argument
    layout: str

    @property
    def across(self) -> bool:
        """Whether heads stand behind queries."""
        return self.layout == "bshd"

    @property
    def of_q(self) -> int:
        return self.q.shape[2 if self.across else 1]

    @property
    def of_k(self) -> int:
        return self.k.shape[2 if self.across else 1]

    @property
    def group(self) -> int:
        return self.of_q // self.of_k

    @property
    def queries(self) -> int:
        return self.q.shape[1 if self.across else 2]

    @property
    def keys(self) -> int:
        return self.k.shape[1 if self.across else 2]

    @property
    def d(self) -> int:
        return self.q.shape[3]

    @property
    def e(self) -> int:
        return self.v.shape[3]

    def turned(self, x: Any) -> Any:
        """batch × heads × keys × d, as a view."""
        return x.swapaxes(1, 2) if self.across else x

    def grouped(self, x: Any) -> Any:
        """batch × heads of keys × queries × heads of a group × d, as a view."""
        x = self.turned(x)
        return reshaped(x, (x.shape[0], self.of_k, self.group, *x.shape[2:])).swapaxes(2, 3)

    def result(self, out: Any) -> Any:
        shape = *self.q.shape[:3], self.e
        if out is None:
            return self.q.empty(shape)
        given = argument("out", out, (self.q.dtype.name,))
        self.q.together("out", given.device)
        if given.shape != shape:
            raise refused(f"out has shape {given.shape}; it must be {shape}")
        return out


def plan_of(heads: Heads, plain: bool, causal: bool) -> AttentionPlan:
    """The table's choice."""
    target = target_at(*heads.q.device)
    chosen = choose(heads.d, heads.e, heads.group, heads.queries, target, plain, causal)
    if chosen is None:
        raise refused(f"no plan for heads of {heads.d} and {heads.e} elements on {target}", "pass plan=")
    return chosen


# Reading arguments ---------------------------------------------------------------------------------------------------


def _read(q: Any, k: Any, v: Any, layout: str) -> Heads:
    """The operands. Raises LaunchArgumentError for those that do not fit together."""
    if layout not in ("bshd", "bhsd"):
        raise refused(f"layout is {layout!r}", '"bshd" or "bhsd"')
    query = argument("q", q, OPERANDS)
    key, value = argument("k", k, (query.dtype.name,)), argument("v", v, (query.dtype.name,))
    dims = "batch, S, heads, d" if layout == "bshd" else "batch, heads, S, d"
    for x in (query, key, value):
        query.together(x.name, x.device)
        if len(x.shape) != 4:
            raise refused(f"{x.name} has {len(x.shape)} dimensions", f"it is [{dims}]")
        if x.shape[3] % GRAIN or not 0 < x.shape[3] <= MOST:
            raise refused(f"heads of {x.name} have {x.shape[3]} elements", f"a multiple of {GRAIN} up to {MOST}")
    heads = Heads(query, key, value, layout)
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise refused(f"q has shape {query.shape} and k {key.shape}", "batch and d are the same in both")
    if key.shape[:3] != value.shape[:3]:
        raise refused(f"k has shape {key.shape} and v {value.shape}", "they differ in the last dimension at most")
    if heads.of_q and (not heads.of_k or heads.of_q % heads.of_k):
        raise refused(f"q has {heads.of_q} heads and k has {heads.of_k}", "a multiple of them: as many share one")
    return heads


def _window(window: Any, causal: bool) -> tuple[int, int]:
    """How many keys a query sees to the left and right of its own."""
    try:
        left, right = map(operator.index, (-1, -1) if window is None else window)
    except (TypeError, ValueError):
        raise refused(f"window is {window!r}", "(left, right): whole numbers, -1 for no bound") from None
    if min(left, right) < -1:
        raise refused(f"window is {window!r}", "-1 is no bound, 0 the query's own place alone")
    left, right = (FAR if n < 0 else min(n, FAR) for n in (left, right))
    return left, 0 if causal else right


def _scores(scale: Any, softcap: Any, d: int) -> tuple[float, float]:
    """The kernel's `factor` and `inner`."""
    for name, number in (("scale", scale), ("softcap", softcap)):
        if number is not None and not (isinstance(number, (int, float)) and 0 < number < math.inf):
            raise refused(f"{name} is {number!r}", "a number greater than 0, or None")
    by = 1 / math.sqrt(d) if scale is None else scale
    return (by * LOG2_E, 0.0) if softcap is None else (softcap * LOG2_E, 2 * LOG2_E * by / softcap)


def _lengths(name: str, x: Any, heads: Heads) -> Any:
    if x is None:
        return None
    given = argument(name, x, INDICES)
    heads.q.together(name, given.device)
    if given.shape != heads.q.shape[:1]:
        raise refused(f"{name} has shape {given.shape}; it must be {heads.q.shape[:1]}", "a length for each sequence")
    return x


def _sinks(x: Any, heads: Heads) -> Any:
    if x is None:
        return None
    given = argument("sinks", x, FLOATS)
    heads.q.together("sinks", given.device)
    if given.shape != (heads.of_q,):
        raise refused(f"sinks has shape {given.shape}; it must be {(heads.of_q,)}", "a score for each head of q")
    return reshaped(x, (heads.of_k, heads.group)) if heads.of_q else x
