"""docs/tilelang.md says of every name what the code does with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import minitile.language as T
from minitile.language.missing import PLANNED, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "tilelang.md"
ROWS = dict(re.findall(r"^\| `(\w+)[^`]*` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))


def test_every_supported_name_is_listed():
    assert sorted(n for n, status in ROWS.items() if status == "supported") == sorted(T.__all__)


@pytest.mark.parametrize(("status", "names"), [("planned", PLANNED), ("refused", REFUSED)])
def test_every_missing_name_is_listed(status, names):
    assert sorted(n for n, s in ROWS.items() if s == status) == sorted(names)


def test_missing_names_are_missing():
    assert not set(T.__all__) & (set(PLANNED) | set(REFUSED))
    for name in (*PLANNED, *REFUSED):
        with pytest.raises(AttributeError, match=rf"T\.{name} is"):
            getattr(T, name)


def test_every_exported_name_exists():
    for name in T.__all__:
        assert getattr(T, name) is not None
