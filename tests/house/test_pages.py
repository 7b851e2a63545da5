"""The pages that show code: their Python blocks run as one program and print what stands below, their commands work.

In the README, the tutorial and the how-to pages ```python is run, ```text is what it prints, ```sh is run in a checkout
without a GPU. Only ```py, which the tutorial must not have, is shown and not run (it needs a GPU or a framework).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from minitile.tools.cli import main

ROOT = Path(__file__).parents[2]
TUTORIAL = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *TUTORIAL, *sorted((ROOT / "docs" / "how-to").glob("*.md")))
}
FENCES = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [body for name, body in FENCES.findall(text) if name == language]


def commands(text: str) -> list[str]:
    return [line for block in blocks(text, "sh") for line in block.splitlines() if line]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder that looks like a checkout to the commands, so that nothing lands in ours."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "minitile", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    yield folder
    for name, module in list(sys.modules.items()):  # so that no other test imports an example from here
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if blocks(text, "python")])
def test_the_python_blocks(page, tmp_path):
    file = tmp_path / f"{Path(page).stem.replace('-', '_')}.py"
    file.write_text("".join(blocks(PAGES[page], "python")), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINITILE_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, str(file)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks(PAGES[page], "text"))


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if commands(text)])
def test_the_commands(page, checkout, monkeypatch, capsys):
    """In the order of the page, since some read what others write."""
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(checkout / "cache"))
    for command in commands(PAGES[page]):
        words = shlex.split(command)
        dumps: list[str] = []
        with monkeypatch.context() as settings:
            while "=" in words[0]:
                name, value = words.pop(0).split("=", 1)
                settings.setenv(name, value)
                dumps += value.split(",") if name == "MINITILE_DUMP" else []
            assert words[0] == "minitile", command
            code = main(words[1:])
        shown = capsys.readouterr()
        assert code == 0, f"{command}\n{shown.err}"
        assert all(f"after {name}" in shown.err for name in dumps), command


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_the_tutorial_shows_nothing_that_is_not_run(page):
    text = page.read_text(encoding="utf-8")
    assert {name for name, _ in FENCES.findall(text)} <= {"python", "text", "sh"}
    assert blocks(text, "python")
