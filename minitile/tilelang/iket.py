"""`tilelang.tools.cuda.iket`: marks in a kernel for a tracer of TileLang's. They are taken, and mark nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitile.tilelang.language.thread_reduce import Quiet


@dataclass
class _Session:
    """Where the files of the last session go."""

    directory: Path = Path()


_LAST = _Session()


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
def session(*_: Any, output_dir: str | Path = ".", **__: Any) -> Iterator[None]:
    """Traces are kept in this folder."""
    _LAST.directory = Path(output_dir)
    yield


def runtime_payloads_enabled(*_: Any, **__: Any) -> bool:
    """Whether payloads are kept: no."""
    return False


def event_table(*_: Any, **__: Any) -> dict[str, Any]:
    """The marks: none."""
    return {}


def trace_files(*_: Any, **__: Any) -> list[Path]:
    """The files of traces: none."""
    return []


def output_dir(*_: Any, **__: Any) -> Path:
    """Where they would be: the folder of the last session."""
    return _LAST.directory


def output_path(name: str, *_: Any, directory: str | Path | None = None, **__: Any) -> Path:
    """Where a file is to be: in a folder, which is made (None: that of the last session)."""
    folder = Path(directory) if directory else _LAST.directory
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name
