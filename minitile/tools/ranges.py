"""NVTX ranges, for Nsight Systems and whatever else shows them: one around each call of a kernel, one around each
compilation. `mt.nvtx_ranges()` for a while, MINITILE_NVTX=1 for the whole process.

While they are wanted, the call operators of the classes are others; else there is nothing on the way of a call.
Ranges are pushed by the package `nvtx`, in the domain "minitile"; what runs on a GPU under them is named by the
kernel's entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

from minitile.driver.compiled import CompiledKernel
from minitile.driver.jit import Kernel
from minitile.ir.diagnostics import HostError
from minitile.runtime.saved import LoadedKernel

DOMAIN = "minitile"
_lock = threading.Lock()
_users = 0


@contextmanager
def nvtx_ranges() -> Iterator[None]:
    """NVTX ranges around calls ("gemm") and compilations ("compile gemm") while it is open, in all threads. It may be
    open several times at once. A range around a call is the host's: the kernel's name on the GPU is its entry.

    Raises:
        HostError: the package nvtx is not installed.

    Example:
        ```py
        with mt.nvtx_ranges():
            matmul(a, b, c)
        ```
    """
    switch_on()
    try:
        yield
    finally:
        switch_off()


@cache
def always() -> None:
    """For the rest of the process. Raises HostError as `nvtx_ranges`."""
    switch_on()


def switch_on() -> None:
    """Raises HostError as `nvtx_ranges`."""
    global _users
    try:
        import nvtx
    except ImportError:
        what = "NVTX ranges are made by the package nvtx, which is not installed"
        raise HostError(what, hint="pip install nvtx") from None
    with _lock:
        _users += 1
        if _users == 1:
            push, pop = nvtx.push_range, nvtx.pop_range
            for kind, method, around in _AROUND:
                setattr(kind, method, around(getattr(kind, method), push, pop))


def switch_off() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            for kind, method, _ in _AROUND:
                setattr(kind, method, getattr(kind, method).__wrapped__)


def _around_call(call: Callable[..., Any], push: Callable[..., Any], pop: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def ranged(self: Any, *args: Any, **named: Any) -> Any:
        info = getattr(self, "launch_info", None)
        push(self.__name__ if info is None else info.entry, domain=DOMAIN)
        try:
            return call(self, *args, **named)
        finally:
            pop(domain=DOMAIN)

    return ranged


def _around_compilation(
    init: Callable[..., None], push: Callable[..., Any], pop: Callable[..., Any]
) -> Callable[..., None]:
    @wraps(init)
    def ranged(self: CompiledKernel, case: Any, *rest: Any, **named: Any) -> None:
        push(f"compile {case.kernel.__name__}", domain=DOMAIN)
        try:
            init(self, case, *rest, **named)
        finally:
            pop(domain=DOMAIN)

    return ranged


_AROUND: tuple[tuple[type, str, Any], ...] = (
    (Kernel, "__call__", _around_call),
    (CompiledKernel, "__call__", _around_call),
    (LoadedKernel, "__call__", _around_call),
    (CompiledKernel, "__init__", _around_compilation),
)
