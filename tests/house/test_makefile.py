"""The Makefile's lists of tests name files that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this system")
def test_the_quick_tests_are_there():
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", "quick"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = re.findall(r"(?<=[ =])tests/\S+", done.stdout.splitlines()[-1])
    assert len(names) > 15
    for name in names:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(), name
