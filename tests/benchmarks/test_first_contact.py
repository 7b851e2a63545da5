"""benchmarks/first_contact.sh and its probes without a GPU: they run, and a wrong result has a place."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def run(tmp_path, steps, python=sys.executable, **more):
    environment = {**os.environ, "DRY": "1", "STEPS": steps, "PYTHON": python, "MINITILE_GPU": "", **more}
    command = [str(ROOT / "benchmarks" / "first_contact.sh"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout


@pytest.mark.slow
def test_the_script(tmp_path):
    code, said = run(tmp_path, "machine probes suite")
    assert code == 0, said
    assert [line.split()[:2] for line in said.splitlines()] == [
        ["PASS", "machine"],
        ["PASS", "probes"],
        ["DRY", "suite"],
    ]
    log = (tmp_path / "probes.log").read_text()
    assert "PASS pairs" in log
    assert "FAIL" not in log


@pytest.mark.slow
def test_all_steps(tmp_path):
    code, said = run(tmp_path, "encodings blackwell sanitizer")
    assert code == 0, said
    assert [line.split()[:2] for line in said.splitlines()] == [
        ["PASS", "encodings"],
        ["DRY", "blackwell"],
        ["SKIP", "sanitizer:"],
    ]


def test_an_interpreter_without_packages(tmp_path):
    """Said at once, and no step is tried."""
    bare = interpreter(tmp_path / "bare", "-S -E")  # without site-packages
    assert run(tmp_path, "machine", str(bare)) == (2, "")


def test_an_interpreter_is_found(tmp_path):
    """Without PYTHON, one that has what is needed, if there is one."""
    interpreter(tmp_path / "python3", "")
    code, said = run(tmp_path, "none", "", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (code, said) == (0, "")


def interpreter(path, options):
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {options} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_all_probes(modules_of_benchmarks):
    assert importlib.import_module("first_contact").main([]) == 0


def test_a_failure_is_told(modules_of_benchmarks, monkeypatch, capsys):
    """A wrong half is named by its rows and columns; a probe that cannot run does not end the others."""
    module = importlib.import_module("first_contact")
    right = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)
    wrong = right.copy()
    wrong[64:, 16:24] += 1
    said = module.difference(wrong, right)
    assert said == "12% of 128×32 differ: rows 64-127, columns 16-23; 2065.0 at (64, 16), not 2064.0"
    assert module.difference(right, right) == ""
    probes = {"one": lambda: said, "two": lambda: 1 / 0, "three": lambda: ""}
    monkeypatch.setattr(module, "PROBES", probes)
    assert module.main([]) == 2
    assert capsys.readouterr().out.splitlines()[1:] == ["FAIL two: ZeroDivisionError: division by zero", "PASS three"]
