"""Assembly without what it says of itself: for tests that look for whole lines."""

from __future__ import annotations

import re


def bare(text: str) -> str:
    """PTX or AMD's assembly without the comments behind its lines."""
    return re.sub(r"  (?://|;) .*", "", text)
