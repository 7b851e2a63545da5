"""The house rules: what is packaged, what an import costs and brings along, which way the arrows run."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"minitile": "minitile", "minitile.backends": "backends", "minitile.runtime": "runtime"}


def sources(folder):
    """The Python files of one of the three top folders, not following the links into the others."""
    return sorted(p for p in (ROOT / folder).rglob("*.py") if not any(q.is_symlink() for q in p.parents))


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=environment or None, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_every_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = set()
    for package, folder in FOLDERS.items():
        for path in sources(folder):
            parts = path.parent.relative_to(ROOT / folder).parts
            found.add(".".join((package, *parts)))
            assert (path.parent / "__init__.py").exists(), f"{path.parent} lacks an __init__.py"
    assert sorted(listed) == sorted(found)


def test_the_map_of_the_passes():
    """Every file of passes/ is in a list of the pipeline or in the package's docstring, and that names no others."""
    import minitile.transforms
    from minitile.driver import pipeline

    listed = {name for name, _ in (*pipeline.TILE_PASSES, *pipeline.THREAD_PASSES)} | {"lower"}
    text = minitile.transforms.__doc__
    helpers, synchronising = text[text.index("integers ") :].split("Who has put")
    named = {word for line in helpers.strip().splitlines() for word in re.findall(r"[a-z_0-9]+", line.strip()[20:])}
    files = {path.stem for path in (ROOT / "minitile" / "passes").glob("*.py")} - {"__init__"}
    assert files - listed - {"manager"} <= named
    assert named & listed == {"proxy_fence"}
    for word in re.findall(r"\b[a-z]+4?_[a-z]+\b", synchronising[synchronising.index("fence.proxy") :]):
        assert word in files | {"wait_group", "pdl_sync", "s_barrier"}, word


def test_links():
    for name in ("backends", "runtime"):
        link = ROOT / "minitile" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name


@pytest.mark.parametrize("name", ["backends", "runtime"])
def test_the_bare_names_are_refused(name):
    code, _, error = python(f"import {name}")
    assert code != 0
    assert f"ImportError: this package is minitile.{name}" in error


def test_import_is_light():
    """Not timed here, since a busy machine lies: nothing heavy may be loaded by `import minitile`."""
    code, out, error = python(
        "import sys; before = set(sys.modules); import minitile; "
        "import json; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    assert code == 0, error
    loaded = json.loads(out)
    assert [name for name in loaded if name.startswith("minitile")] == ["minitile"]
    assert not {"numpy", "ml_dtypes", "torch", "cuda"} & set(loaded)


def test_the_public_names_are_there():
    code, out, error = python("import minitile as mt; print(*(getattr(mt, name).__name__ for name in mt.__all__))")
    assert code == 0, error
    assert "MinitileError" in out
    code, _, error = python("import minitile as mt; [getattr(mt, name) for name in dir(mt)]")
    assert code == 0, error


def imports(path):
    """The absolute names of the modules that a file imports anywhere, relative ones resolved."""
    top = path.relative_to(ROOT).parts
    package = [*(["minitile"] if top[0] != "minitile" else []), *top[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


# For each part, what it must not import: the arrows language → ir ← passes → layout run one way.
BARRED = {
    "runtime": ("minitile.ir", "minitile.language", "minitile.transforms", "minitile.layout", "minitile.backends"),
    "backends": ("minitile.language", "minitile.driver.jit", "minitile.runtime"),
    "minitile/ir": (
        "minitile.language",
        "minitile.transforms",
        "minitile.backends",
        "minitile.runtime",
        "minitile.driver.jit",
    ),
    "minitile/layout": (
        "minitile.language",
        "minitile.transforms",
        "minitile.backends",
        "minitile.runtime",
        "minitile.driver.jit",
    ),
    "minitile/passes": ("minitile.language", "minitile.backends", "minitile.runtime", "minitile.driver.jit"),
    "minitile/language": ("minitile.transforms", "minitile.backends", "minitile.runtime"),
}
FRAMEWORKS = ("torch", "cupy", "jax", "triton", "tvm", "tilelang")


@pytest.mark.parametrize("folder", BARRED)
def test_the_arrows_run_one_way(folder):
    for path in sources(folder):
        for name in imports(path):
            barred = [b for b in BARRED[folder] if name == b or name.startswith(b + ".")]
            assert not barred, f"{path.relative_to(ROOT)} imports {name}"


def test_the_simulator_stands_alone():
    for path in sources("runtime/sim"):
        for name in imports(path):
            assert not name.startswith("minitile") or name.startswith("minitile.runtime.sim"), f"{path} imports {name}"


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_no_framework_is_imported(folder):
    for path in sources(folder):
        assert not {name.split(".")[0] for name in imports(path)} & set(FRAMEWORKS), path


def test_files_are_short_and_say_what_they_are():
    for folder in (*FOLDERS.values(), "tests", "examples", "benchmarks"):
        for path in sources(folder):
            text = path.read_text()
            assert text.count("\n") <= 800, f"{path.relative_to(ROOT)} has {text.count(chr(10))} lines"
            assert ast.get_docstring(ast.parse(text)), f"{path.relative_to(ROOT)} has no docstring"
