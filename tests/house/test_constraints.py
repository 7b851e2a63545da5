"""constraints.txt: a version, recent enough, for everything that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
UNTESTED = {"hip-python"}  # launches on AMD GPUs


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def asked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(t for extra in project["optional-dependencies"].values() for t in extra)]
    return [r for r in map(Requirement, texts) if r.name not in {"minitile", *UNTESTED}]


@pytest.mark.parametrize("requirement", asked(), ids=str)
def test_a_version_is_pinned_that_will_do(requirement):
    assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_each_line_is_a_version():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line), line


def test_the_makefile_installs_them():
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)
