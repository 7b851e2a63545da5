"""Fewer combinations of parameters, with as many pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest


def thinned(*axes: Iterable) -> list:
    """All combinations of the parameters of three or more axes, every second one of them slow (`make slow` runs it).
    Each two values of different axes still meet in one that is not."""
    numbered = [list(enumerate(axis)) for axis in axes]
    assert len(axes) > 2
    return [
        pytest.param(*(value for _, value in picked), marks=pytest.mark.slow if sum(n for n, _ in picked) % 2 else ())
        for picked in itertools.product(*numbered)
    ]
