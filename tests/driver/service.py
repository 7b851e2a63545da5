"""A helper's service for the tests of helpers: it does what the request says."""

from __future__ import annotations

import os
import sys
import time


def answer(fields: dict, data: bytes) -> bytes:
    print("said on standard output", flush=True)  # goes to standard error
    time.sleep(fields.get("sleep", 0))
    if "die" in fields:
        print("an error: no more", file=sys.stderr, flush=True)
        os._exit(fields["die"])
    if "kill" in fields:
        os.kill(os.getpid(), fields["kill"])
    if "refuse" in fields:
        raise RuntimeError(fields["refuse"])
    return data[::-1] * fields.get("times", 1)
