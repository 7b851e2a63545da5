"""docs/decisions.md: numbered without gaps, and each decision in the index of topics once."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text(encoding="utf-8")


def test_the_index():
    numbers = [int(n) for n in re.findall(r"^(\d+)\. \*\*", PAGE, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    linked = re.findall(r"\[(\d+)\]\(#d(\d+)\)", PAGE)
    assert all(shown == anchor for shown, anchor in linked)
    assert sorted(int(shown) for shown, _ in linked) == numbers, "put each new decision into the table of topics, once"
