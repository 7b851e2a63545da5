"""TVM's reduction over a dimension of the block's threads: `with T.attr(T.comm_reducer(f, …), "reduce_scope", …):`
around `T.evaluate(T.tvm_thread_allreduce(…))`. The reduction itself is a macro (`macros.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import minitile.language as T
from minitile.language.fences import HintScope
from minitile.language.memory import Region
from minitile.language.scalars import Expr
from minitile.language.tracing.context import Trace, current

_combining: list[Callable[[Any, Any], Any]] = []


@dataclass(frozen=True)
class Reducer:
    """`T.comm_reducer(f, [identity])`."""

    combine: Callable[[Any, Any], Any]


class ReduceScope(HintScope):
    """`T.attr(reducer, "reduce_scope", …)`: what is reduced inside is combined so."""

    def __init__(self, reducer: Reducer) -> None:
        object.__setattr__(self, "reducer", reducer)

    @contextmanager
    def traced(self, trace: Trace) -> Iterator[None]:
        _combining.append(self.reducer.combine)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            _combining.pop()


class Quiet(HintScope):
    """A `with` that means nothing here."""

    def __init__(self, name: str = "") -> None:
        object.__setattr__(self, "scope", name)

    @contextmanager
    def traced(self, trace: Trace) -> Iterator[None]:
        yield


class ThreadIndex(Expr):
    """A thread's index in one dimension of its block."""

    __slots__ = ("dim",)

    def __init__(self, index: Any, dim: int) -> None:
        super().__init__(index.value)
        self.dim = dim


def get_thread_binding(dim: int = 0) -> Any:
    """The thread's index in its block, in x (0), y or z."""
    found = T.get_thread_binding(dim)
    return ThreadIndex(found, dim) if isinstance(found, Expr) else found


def thread_binding(*extents: Any, thread: str = "threadIdx.x") -> Any:
    """`T.get_thread_binding` of the dimension that is named."""
    name = next((e for e in extents if isinstance(e, str)), thread)
    return get_thread_binding("xyz".index(name[-1]))


def comm_reducer(combine: Callable[[Any, Any], Any], identity: Any = None) -> Reducer:
    """How a reduction combines two numbers."""
    return Reducer(combine)


def attr(node: Any, name: str, value: Any = None) -> Any:
    """`with T.attr(T.comm_reducer(…), "reduce_scope", …):`. Raises LanguageError for other attributes."""
    if isinstance(node, Reducer):
        return ReduceScope(node)
    raise current().error(f'T.attr(…, "{name}") is not there', "it is TVM's; of it, reduce_scope has a meaning here")


def evaluate(value: Any) -> None:
    """The value is a call, which has been made."""


def combining() -> Callable[[Any, Any], Any]:
    """What the innermost T.attr reduces by. Raises LanguageError outside of one."""
    if not _combining:
        raise current().error("T.tvm_thread_allreduce outside of T.attr", "T.warp_reduce_sum, T.reduce_sum")
    return _combining[-1]


def dimension(thread: Any) -> int:
    """Of a thread's index. Raises LanguageError for another number."""
    if not isinstance(thread, ThreadIndex):
        raise current().error("T.tvm_thread_allreduce over what is no T.get_thread_binding(…)")
    return thread.dim


def put(target: Region, value: Any) -> None:
    """Stores to the one element of a region."""
    target.memory.store(tuple(Expr(i) for i in target.offsets), value)
