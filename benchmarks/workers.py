"""Processes that compile while another one measures, and that end with it however it ends: by itself, by a signal that
nothing can catch (`timeout -s KILL`), or by `os._exit`. What waits for the end of its output does not wait for them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor


def pool(count: int | None = None) -> ProcessPoolExecutor:
    """So many processes (as many as there are processors), which begin with nothing of this one's state."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=end_with_parent)


def end_with_parent() -> None:
    """Ends this process, in the middle of whatever it does, as soon as the one that started it is no more."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only of a process of multiprocessing"
    parent.join()
    os._exit(1)
