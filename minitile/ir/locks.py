"""Locks that a fork finds free.

A fork copies locks as they are, and in the child there is no thread that would free one that another thread held.
"""

from __future__ import annotations

import os
import threading


def process_lock() -> threading.Lock:
    """A lock for what the whole process has. A fork takes it first, so that the child finds it free, and whole what it
    guards; no code that forks may run under it."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
