"""Fewer combinations of parameters, with as many pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest


def thinned(*axes: Iterable, every: int = 2) -> list:
    """All combinations of the parameters of several axes, of which one of `every` is quick and the others are slow
    (`make slow` runs them). Of three axes and more, with every second one quick, each two values of different axes
    still meet in one of these; of two axes each value still occurs in one, where both have `every` values or more.
    tests/sweeps.py chooses among the quick ones once more."""
    numbered = [list(enumerate(axis)) for axis in axes]
    assert len(axes) > 1
    return [
        pytest.param(
            *(value for _, value in picked), marks=pytest.mark.slow if sum(n for n, _ in picked) % every else ()
        )
        for picked in itertools.product(*numbered)
    ]
