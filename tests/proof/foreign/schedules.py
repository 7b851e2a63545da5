"""All schedules of a program of others, for a size (tests/proof/dpor.py)."""

from __future__ import annotations

import re

from minitile.proof import Launch
from tests.proof import dpor
from tests.proof.concrete import LOADED, Broken, Unsupported, traces


def some_schedule(text: str, launch: Launch, n: int, together: tuple[int, ...] = ()) -> str | None:
    """What goes wrong in some schedule if all sizes are n, "" for nothing; None: they cannot be run. What is loaded is
    not known, or else one number. `together`: waits that a warp leaves together."""
    entry = text.index(".entry")
    names = re.findall(r"\.param\s+\.[us]32\s+(\w+)", text[entry : text.index("{", entry)])
    for loaded in ({}, {LOADED: 40}, {LOADED: 1}):
        try:
            return dpor.verdict(traces(text, launch, {**dict.fromkeys(names, n), **loaded}, together))
        except (Unsupported, dpor.TooMany):
            continue
        except Broken as broken:
            return str(broken)
    return None
