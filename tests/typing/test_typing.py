"""Type checkers and users' kernels: what `mypy --strict` says of the files beside this one and of examples, and that
`Annotated[T.Tensor, …]`, which checkers accept, means what `T.Tensor(…)` does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# What examples leave out, like most programs: annotations of every function, and types of what NumPy and torch return.
LOOSE = ("valid-type", "no-untyped-def", "no-untyped-call", "no-any-return", "import-not-found", "import-untyped")


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs mypy --strict in an empty folder; returns what it says of the files, one line each."""
    folder = tmp_path_factory.mktemp("mypy")

    def run(*args):
        command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
        command += ["--hide-error-context", "--cache-dir", str(folder / "cache"), *map(str, args)]
        # The package as it is in this checkout, whatever is installed.
        environment = {**os.environ, "MYPYPATH": f"{ROOT}:{ROOT / 'examples'}"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return [line for line in done.stdout.splitlines() if ": note: " not in line]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", ["annotated_kernels", "called_annotations"])
def test_kernels_of_a_user(mypy, name):
    assert mypy(HERE / f"{name}.py") == []


@pytest.mark.slow
def test_the_line_is_needed(mypy, tmp_path):
    """Without the comment that switches it off, each call in an annotation is an error, and nothing else is."""
    text = (HERE / "called_annotations.py").read_text().replace("# mypy: disable", "# disable")
    path = tmp_path / "called.py"
    path.write_text(text)
    found = mypy(path)
    assert len(found) == text.count(": T.Tensor(")
    assert all(line.endswith("[valid-type]") for line in found)


@pytest.mark.slow
def test_examples(mypy):
    assert mypy(*(f"--disable-error-code={code}" for code in LOOSE), *EXAMPLES) == []


@pytest.mark.slow
def test_mistakes_are_found(mypy):
    path = HERE / "mistakes.py"
    wanted = re.findall(r"(?:.*\n)*?.*# error: ([a-z-]+)", text := path.read_text())
    lines = [n for n, line in enumerate(text.splitlines(), 1) if "# error: " in line]
    found = [(int(m[1]), m[2]) for line in mypy(path) if (m := re.search(r":(\d+): error: .*\[([a-z-]+)\]$", line))]
    assert found == list(zip(lines, wanted, strict=True))


# Both spellings ------------------------------------------------------------------------------------------------------


@mt.kernel
def called(A: T.Tensor(("N",), T.float32), B: T.Tensor((64,), None), x: T.float32, n=2):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
        for i in T.Parallel(64):
            A[bx * 64 + i] += x * B[i] * n


@mt.kernel
def annotated(
    A: Annotated[T.Tensor, "N", T.float32],
    B: Annotated[T.Tensor, (64,), None],
    x: Annotated[T.float32, "a factor"],
    n: Annotated[int, "compile-time"] = 2,
):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
        for i in T.Parallel(64):
            A[bx * 64 + i] += x * B[i] * n


def test_both_mean_the_same():
    def said(kernel):
        return [
            (p.name, p.kind, p.dtype, p.default, p.tensor and (p.tensor.shape, p.tensor.dtype))
            for p in kernel.signature.parameters
        ]

    assert said(annotated) == said(called)
    a, b = np.ones(100, np.float32), np.arange(64, dtype=np.float32)
    annotated(a, b, 0.5)
    np.testing.assert_array_equal(a, 1 + np.arange(100) % 64)


def test_annotations_kept_as_text():
    """`from __future__ import annotations`, as in this file, and an alias."""
    Vector = Annotated[T.Tensor, ("N",), T.float32]

    @mt.kernel
    def kernel(A: Vector, B: Annotated[T.Tensor, 8, T.float16]): ...

    assert [str(p.tensor) for p in kernel.signature.parameters] == ["T.Tensor(('N',), f32)", "T.Tensor((8,), f16)"]


def test_refused():
    def many(A: Annotated[T.Tensor, ("N",), T.float32, "row-major"]): ...

    def dimension(A: Annotated[T.Tensor, (1.5,), T.float32]): ...

    def dtype(A: Annotated[T.Tensor, (1,), "float31"]): ...

    for function, message in (
        (many, "A: T.Tensor takes a shape and a dtype, not 3 things"),
        (dimension, r"a dimension of T.Tensor is 1\.5"),
        (dtype, "unknown dtype 'float31'"),
    ):
        with pytest.raises(mt.MinitileError, match=message) as caught:
            mt.kernel(function)
        assert (caught.value.loc.file, caught.value.loc.function) == (__file__, function.__name__)


def test_the_static_names_are_those_of_the_run():
    stub = (ROOT / "minitile" / "language" / "kernel_types.pyi").read_text()
    from minitile.language import kernel_types

    named = set(re.findall(r"^(?:class |def )?(\w+)(?:\(|: | = )", stub, re.MULTILINE))
    assert named == set(kernel_types.__all__)
