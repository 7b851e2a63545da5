"""Element types: what they hold, against NumPy's and ml_dtypes' own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.ir.types import DTYPES


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bool"])
def test_limits(name: str) -> None:
    dtype = DTYPES[name]
    if dtype.is_float:
        assert dtype.largest == float(ml_dtypes.finfo(dtype.numpy).max)
        return
    about = np.iinfo(dtype.numpy)
    assert (dtype.integers[0], dtype.integers[-1]) == (about.min, about.max)
    assert about.max in dtype.integers
    assert int(about.max) + 1 not in dtype.integers
