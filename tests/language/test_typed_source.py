"""Kernels that stand in no file: made by exec, given to `python -c`, typed at a prompt, in a notebook's cell."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

ROOT = Path(__file__).parents[2]
HEAD = "import numpy as np\nimport minitile as mt\nimport minitile.language as T\n"
KERNEL = """
def plus(x):
    return x + {amount}

@mt.kernel(target="sm_80")
def add(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = plus(A[bx * 32 + i])

"""
CALL = 'a = np.arange(40, dtype="f4"); b = a * np.nan; add(a, b); print("added", (b - a).max(), (b - a).min())\n'


def added(kernel):
    a = np.arange(40, dtype=np.float32)
    b = np.full_like(a, np.nan)
    kernel(a, b)
    return {*(b - a)}


def made_of(text):
    scope = {"mt": mt, "T": T}
    exec(text, scope)
    return scope["add"]


def test_exec_of_a_variable():
    kernels = [made_of(KERNEL.format(amount=n)) for n in (1, 2, 1)]  # all of them in "<string>"
    assert [added(k) for k in kernels] == [{1.0}, {2.0}, {1.0}]


def test_exec_of_a_literal():
    scope = {"mt": mt, "T": T}
    exec(
        """
@mt.kernel(target="sm_80")
def add(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] + 3
""",
        scope,
    )
    assert added(scope["add"]) == {3.0}


def test_exec_of_text_under_a_name_of_its_own():
    """As notebooks do it: the text is in linecache."""
    text, name = KERNEL.format(amount=5), "<made 5>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"mt": mt, "T": T}
    exec(compile(text, name, "exec"), scope)
    assert added(scope["add"]) == {5.0}


def test_text_that_nobody_keeps_is_an_error_that_says_what_to_do():
    scope = {"mt": mt, "T": T}
    exec("".join([KERNEL.format(amount=4), "\n"]), scope)
    with pytest.raises(mt.MinitileError, match="the source of 'add' is not at hand") as caught:
        added(scope["add"])
    assert "linecache.cache[name]" in caught.value.hint


def test_another_text_is_not_taken_for_it():
    """Each variable that is near compiles to something else: in its places, its numbers or its names."""
    nearly = "\n" + KERNEL.format(amount=4)
    other = KERNEL.format(amount=5)
    scope = {"mt": mt, "T": T}
    exec("".join([KERNEL.format(amount=4)]), scope)
    assert nearly != other
    with pytest.raises(mt.MinitileError, match="not at hand"):
        added(scope["add"])


def python(*words, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False, **options
    )


def test_python_c():
    done = python("-c", HEAD + KERNEL.format(amount=6) + CALL)
    assert done.stdout == "added 6.0 6.0\n", done.stderr


@pytest.mark.slow
def test_standard_input_from_a_file(tmp_path):
    path = tmp_path / "typed.py"
    path.write_text(HEAD + KERNEL.format(amount=7) + CALL)
    with path.open() as file:
        done = python("-", stdin=file)
    assert done.stdout == "added 7.0 7.0\n", done.stderr


def test_the_prompt(tmp_path):
    """Typed into Python's own prompt, with readline's history."""
    pty = pytest.importorskip("pty")
    pytest.importorskip("readline")
    lines = (HEAD + KERNEL.format(amount=8).replace("\n\n@", "\n@") + CALL).splitlines()
    lines = [each for n, each in enumerate(lines) if each or n + 1 < len(lines)]
    typed = "\n".join(lines).replace("x + 8\n@mt", "x + 8\n\n@mt") + "\nexit()\n"
    main, side = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "HOME": str(tmp_path), "PYTHON_HISTORY": ""}
    words = [sys.executable, "-q"]
    process = subprocess.Popen(words, stdin=side, stdout=side, stderr=side, env=environment, close_fds=True)
    os.close(side)
    said = b""
    os.write(main, typed.encode())
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            part = os.read(main, 4096)
        except OSError:
            break
        if not part:
            break
        said += part
    process.wait(10)
    os.close(main)
    assert "added 8.0 8.0" in said.decode(errors="replace"), said.decode(errors="replace")


def test_errors_show_the_lines_of_text_without_a_file():
    text = KERNEL.format(amount=1).replace("plus(A[bx", "plus(A[wrong")
    scope = {"mt": mt, "T": T, "__name__": "made"}
    exec(text, scope)
    with pytest.raises(mt.MinitileError, match="wrong") as caught:
        scope["add"].compile()
    assert "B[bx * 32 + i] = plus(A[wrong * 32 + i])" in caught.value.loc.excerpt()
    again = {"mt": mt, "T": T, "__name__": "made"}
    exec(text, again)
    with pytest.raises(mt.MinitileError) as repeated:
        again["add"].compile()
    assert repeated.value.loc.file == caught.value.loc.file  # one text, one name


def test_errors_of_calls_show_the_line_of_the_call():
    scope = {"add": made_of(KERNEL.format(amount=1)), "__name__": "typed"}
    text, name = "x = 1\nadd(x)\n", "<typed call>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    with pytest.raises(mt.MinitileError) as caught:
        exec(compile(text, name, "exec"), scope)
    assert (caught.value.loc.file, caught.value.loc.line) == (name, 2)
    assert caught.value.loc.excerpt().strip().startswith("add(x)")


def test_errors_of_calls_in_what_dataclasses_make():
    add = made_of(KERNEL.format(amount=1))

    @dataclass
    class Calls:
        x: int

        def __post_init__(self):
            add(self.x)

    def call():
        Calls(1)

    for wrong in (call, lambda: mt.autotune(add, [{"none": 1}], measure=dict, progress=False).tune(1)):
        with pytest.raises(mt.MinitileError) as caught:
            wrong()
        assert caught.value.loc.file == __file__
