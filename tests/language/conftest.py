"""Helpers of the language's tests."""

from __future__ import annotations

import pytest

import minitile as mt
from tests.language.by_threads import AMD, NVIDIA


def traced(function, *specs, **constants):
    """The traced IR of a plain function or a kernel."""
    kernel = function if isinstance(function, mt.Kernel) else mt.kernel(function)
    return kernel.trace(*specs, **constants)


@pytest.fixture
def ops():
    """ops(kernel, "copy"): the traced operations of a mnemonic."""

    def find(function, *mnemonics, **constants):
        kernel = traced(function, **constants)
        return [op for op in kernel.walk() if op.mnemonic in mnemonics]

    return find


@pytest.fixture
def refuses():
    """refuses(kernel, "text"): tracing fails with a MinitileError whose text has `text` and a caret line that shows
    the source, `at` if given."""

    def check(function, text, at=None, **constants):
        with pytest.raises(mt.MinitileError) as caught:
            traced(function, **constants)
        shown = str(caught.value)
        assert text in shown, shown
        assert "this is a bug in minitile" not in shown, shown
        assert caught.value.loc is not None, shown
        if at is not None:
            loc = caught.value.loc
            line = loc.excerpt().split("\n")[0][4:]
            assert line[loc.column : loc.end_column].startswith(at), shown
        return caught.value

    return check


@pytest.fixture(params=NVIDIA + AMD)
def target(request):
    """Each target that kernels written thread by thread are run for."""
    if request.param in AMD:
        pytest.importorskip("llvmlite")
    return request.param
