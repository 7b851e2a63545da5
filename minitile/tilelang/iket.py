"""`tilelang.tools.cuda.iket`: marks in a kernel for a tracer of TileLang's. They are taken, and mark nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minitile.tilelang.language.thread_reduce import Quiet


def range(name: str, *_: Any, **__: Any) -> Quiet:
    """`with iket.range("copies"):`."""
    return Quiet(name)


def mark(*_: Any, **__: Any) -> None:
    """A point in time."""


range_push = range_pop = range_start = range_end = mark


def payload(value: Any = None, *_: Any, **__: Any) -> Any:
    """A number beside a mark."""
    return value


@contextmanager
def session(*_: Any, **__: Any) -> Iterator[None]:
    """Traces are kept."""
    yield


def runtime_payloads_enabled(*_: Any, **__: Any) -> bool:
    """Whether payloads are kept: no."""
    return False


def event_table(*_: Any, **__: Any) -> dict[str, Any]:
    """The marks: none."""
    return {}


def trace_files(*_: Any, **__: Any) -> list[str]:
    """The files of traces: none."""
    return []


def output_dir(*_: Any, **__: Any) -> str:
    """Where they would be."""
    return "."


def output_path(name: str, *_: Any, directory: str = ".", **__: Any) -> str:
    """Where a file would be."""
    return f"{directory}/{name}"
