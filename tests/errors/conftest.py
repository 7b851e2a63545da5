"""`shows`: what a user sees of an error."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

import minitile as mt

TESTS = Path(__file__).parents[1]


@pytest.fixture
def shows():
    """shows(call, kind, line, texts, hint, caret): the call raises a MinitileError of the class `kind` whose text has
    the source line `line` with carets below exactly `caret` (the whole line by default), each of `texts`, and `hint` in
    its hint (none by default). Python shows nothing else as its cause, and no frame of ours in the traceback."""

    def check(call, kind, line, texts, hint="", caret=""):
        with pytest.raises(mt.MinitileError) as caught:
            call()
        error, shown = caught.value, str(caught.value)
        assert isinstance(error, kind), f"{type(error).__name__}: {shown}"
        rows = shown.splitlines()
        at = next((n for n, row in enumerate(rows) if row.strip() == line), None)
        assert at is not None, f"no line {line!r} in\n{shown}"
        marked = "".join(c for c, mark in zip(rows[at], rows[at + 1].ljust(len(rows[at])), strict=False) if mark == "^")
        assert marked == (caret or line), shown
        assert f'File "{error.loc.file}", line {error.loc.line}' in shown
        for text in texts:
            assert text in shown, f"no {text!r} in\n{shown}"
        assert bool(error.hint) == bool(hint), shown
        assert hint in error.hint, shown
        assert "bug in minitile" not in shown
        full = "".join(traceback.format_exception(error))
        assert "During handling of the above exception" not in full, full
        assert "direct cause of the following" not in full, full
        frames = traceback.extract_tb(error.__traceback__)
        assert all(frame.filename.startswith(str(TESTS)) for frame in frames if "_pytest" not in frame.filename), full
        return error

    return check
