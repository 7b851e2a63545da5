"""File tests: each `.mt` file below this folder is a test; a folder for each pass.

    // pass: pipeline, fold        the passes to run, by name (none: only read and verify)
    // target: sm_80
    // print: origins              what comes out is printed with where synchronisation comes from
    tile kernel @k() { … }         the input
    // ----
    tile kernel @k() { … }         what must come out; `pytest --bless` writes it

An error test has, instead of an expectation, `// expect-error: part of the message` behind the line of the input at
which the error must point. The IR is verified before and after every pass, and what comes out must read back the same.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from minitile.driver.pipeline import PASSES
from minitile.ir.diagnostics import MinitileError
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel
from minitile.tools.opt import SEPARATOR, optimize
from tests.opaque import Opaque

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.mt"))
assert Opaque.registry  # the operation `opaque` is known to the texts
EXPECTED_ERROR = re.compile(r"//\s*expect-error:\s*(.*\S)")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_file(path: Path, bless: bool) -> None:
    text = path.read_text(encoding="utf-8")
    errors = [(n, m[1]) for n, line in enumerate(text.splitlines(), 1) if (m := EXPECTED_ERROR.search(line))]
    if errors:
        check_error(text, path, *errors[0])
        assert len(errors) == 1, "only the first error is reported: expect one a file"
        return
    before, separator, expected = text.partition(f"\n{SEPARATOR}\n")
    origins = "\n// print: origins\n" in before
    actual = print_kernel(optimize(text, str(path), verify=True), origins=origins)
    assert print_kernel(parse_kernel(actual), origins=origins) == actual
    if bless:
        path.write_text(f"{before}\n{SEPARATOR}\n{actual}", encoding="utf-8")
        return
    where = f"{path.relative_to(FOLDER.parent.parent)}"
    hint = f"if the new text is right: pytest --bless {FOLDER.relative_to(FOLDER.parent.parent)} -k {path.stem}"
    assert separator, f"{where} has no expectation; {hint}"
    assert actual == expected, f"{where} comes out otherwise; {hint}"


def test_every_pass_has_three() -> None:
    """So that a failure names the pass; among them one of what the pass leaves alone or refuses."""
    counts = Counter(path.parent.name for path in FILES if path.parent.name in PASSES)
    assert {name: counts[name] for name in PASSES if counts[name] < 3} == {}


def check_error(text: str, path: Path, line: int, message: str) -> None:
    with pytest.raises(MinitileError) as caught:
        optimize(text, str(path), verify=True)
    assert message in caught.value.message
    loc = caught.value.loc
    assert loc is not None
    assert (loc.file, loc.line) == (str(path), line)
