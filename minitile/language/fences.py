"""Explicit fences, and hints: T.fence, T.fence_proxy_async, T.proxy_hint, T.assume_disjoint.

The compiler inserts the fences that the operations it knows need (`transforms/sync/proxy_fence.py`) and takes those
written here into account; they are for what it cannot see, such as other kernels or the host looking at the same
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minitile.ir.diagnostics import LanguageError, TypeMismatchError, shown
from minitile.ir.ops import fences
from minitile.language.memory import Memory
from minitile.language.tiles import tile_scope
from minitile.language.tracing.context import Trace, current

_SCOPES = ("async_shared", "gpu", "sys")


def fence(scope: str) -> None:
    """This thread's accesses before are in order with those behind, for who looks on with the other scope's eyes.

    | scope | | NVIDIA |
    |---|---|---|
    | "async_shared" | shared memory, as TMA and the tensor cores see it | fence.proxy.async.shared::cta (sm_90) |
    | "gpu" | as all threads of the GPU see it | fence.acq_rel.gpu |
    | "sys" | as the host sees it as well | fence.acq_rel.sys |

    The compiler inserts the proxy fences that its own operations need.

    Args:
        scope: one of the three.

    Raises:
        LanguageError: another scope; outside T.Kernel.

    Example:
        ```py
        V[tx] = 1.0
        T.fence("gpu")
        T.atomic_add(I[0], 1)
        ```
    """
    trace = tile_scope("T.fence")
    if scope not in _SCOPES:
        raise trace.error(f"T.fence({scope!r})", f"scopes are {', '.join(_SCOPES)}")
    trace.b.emit(fences.ProxyFence(space="shared") if scope == "async_shared" else fences.MemoryFence(scope))


def fence_proxy_async() -> None:
    """The same as T.fence("async_shared")."""
    fence("async_shared")


def pdl_sync(ahead: Any = ()) -> None:
    """Waits for the primary grid, the one before in the stream (programmatic dependent launch, from sm_90 on; elsewhere
    nothing, since grids follow one another there). A kernel with this call may start while that grid is still ending.

    In front of it stands what does not depend on that grid: the set-up, loads of weights.

    Args:
        ahead: a tensor, or several, that no earlier grid which may still run writes (weights): the first copies of
            them in a pipelined loop behind need not wait.

    Raises:
        LanguageError: under run-time control.
        TypeMismatchError: what is no tensor.

    Example:
        ```py
        T.pdl_sync()
        T.copy(X[bx * 32, 0], x)
        T.copy(x, Y[bx * 32, 0])
        T.pdl_trigger()
        ```
    """
    trace = tile_scope("T.pdl_sync")
    if trace.region is not None:
        raise trace.error(
            f"T.pdl_sync in {trace.region.what}", "all threads wait, once: move it to the kernel's own level"
        )
    tensors = tuple(ahead) if isinstance(ahead, (tuple, list)) else (ahead,)
    for tensor in tensors:
        if not isinstance(tensor, Memory) or tensor.space != "global":
            raise TypeMismatchError(f"T.pdl_sync(ahead={shown(tensor)}), which is no tensor", trace.loc)
    trace.b.emit(fences.PdlSync(tuple(tensor.value for tensor in tensors)))


def pdl_trigger() -> None:
    """The next grid in the stream may start where there is room, if it begins with T.pdl_sync (from sm_90 on; elsewhere
    nothing).

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        T.pdl_trigger()
        ```
    """
    tile_scope("T.pdl_trigger").b.emit(fences.PdlTrigger())


@dataclass(frozen=True)
class HintScope:
    """`T.proxy_hint(…)` as a `with` statement of a kernel sees it."""

    scope: str

    @contextmanager
    def traced(self, trace: Trace) -> Iterator[None]:
        trace.b.emit(fences.ProxyHint(scope=self.scope))
        yield
        trace.b.emit(fences.ProxyHint(end=True))

    def __enter__(self) -> None:
        raise LanguageError("T.proxy_hint has a meaning only in a `with` statement of a function marked @mt.kernel")

    def __exit__(self, *_: object) -> None: ...


def proxy_hint(scope: str) -> HintScope:
    """`with T.proxy_hint("generic"):` says how the accesses inside count where proxy fences are inserted.

    Args:
        scope: "generic" or "async": as such, whatever they are; "neutral": not at all, and what was before is in order
            then.

    Raises:
        LanguageError: another scope; elsewhere than in a `with` statement of a kernel.

    Example:
        ```py
        with T.proxy_hint("neutral"):
            V[tx] = 1.0
        ```
    """
    if scope not in fences.HINTS:
        raise current().error(f"T.proxy_hint({scope!r})", f"scopes are {', '.join(fences.HINTS)}")
    return HintScope(scope)


@dataclass(frozen=True)
class DisjointScope:
    """`T.assume_disjoint(…)` as a `with` statement of a kernel sees it."""

    memory: tuple[Memory, ...]

    @contextmanager
    def traced(self, trace: Trace) -> Iterator[None]:
        values = tuple(m.value for m in self.memory)
        trace.b.emit(fences.Disjoint(values))
        yield
        trace.b.emit(fences.Disjoint(values, end=True))

    def __enter__(self) -> None:
        raise LanguageError(
            "T.assume_disjoint has a meaning only in a `with` statement of a function marked @mt.kernel"
        )

    def __exit__(self, *_: object) -> None: ...


def assume_disjoint(*memory: Any) -> DisjointScope:
    """`with T.assume_disjoint(Y, s):` is the program's word that inside, different threads of the block touch different
    elements of these (or only read, or only update by atomics, what they have in common).

    For places that only the program knows to be different, such as those that atomics gave. The compiler asks for no
    barrier between two accesses inside, nor refuses them where none can stand; between those inside and others it does,
    and in a loop around the `with` between its rounds. Nothing is removed from what the simulator checks.

    Args:
        memory: tensors and shared buffers.

    Raises:
        TypeMismatchError: what is no tensor or shared buffer.
        LanguageError: none at all; elsewhere than in a `with` statement of a kernel.

    Example:
        ```py
        place = T.atomic_add(I[0], 1, return_prev=True)
        with T.assume_disjoint(V):
            V[place] = V[place] + 1
        ```
    """
    trace = tile_scope("T.assume_disjoint")
    for m in memory:
        if not isinstance(m, Memory) or m.space not in ("global", "shared"):
            raise TypeMismatchError(f"T.assume_disjoint({m!r}), which is no tensor and no shared buffer", trace.loc)
    if not memory:
        raise trace.error("T.assume_disjoint() of nothing", "name the tensors and shared buffers: T.assume_disjoint(A)")
    return DisjointScope(memory)
