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


def names_in(text):
    """The words that may be a file's name, as a set."""
    return set(re.findall(r"\b[a-z]\w*\b", text))


def test_the_map_of_the_passes():
    """Every file of transforms/ holds a pass of the pipeline or is named by the package's docstring, behind its folder,
    and that names no others."""
    import minitile.transforms
    from minitile.driver import pipeline

    package = ROOT / "minitile" / "transforms"
    modules = {run.__module__.removeprefix("minitile.transforms.") for run in pipeline.PASSES.values()}
    parts, synchronising = minitile.transforms.__doc__.split("Who has put")
    rows = dict(re.findall(r"^    (\w+) +(.*(?:\n {10,}.*)*)", parts, re.MULTILINE))
    files = {}
    for folder in sorted(path for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"):
        files[folder.name] = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        passes = {name for name in files[folder.name] if f"{folder.name}.{name}" in modules}
        assert files[folder.name] - passes <= names_in(rows.get(folder.name, "")), folder.name
    assert rows.keys() <= files.keys()
    every = set().union(*files.values())
    named = {word for word in names_in(" ".join(rows.values())) if "_" in word}
    assert named <= every, "these are gone"
    for word in re.findall(r"\b[a-z]+[0-9]*_[a-z_]+\b", synchronising[synchronising.index("fence.proxy") :]):
        assert word in every | {"wait_group", "pdl_sync", "s_barrier"}, word


def test_the_map_of_the_analyses():
    import minitile.analysis

    files = {path.stem for path in (ROOT / "minitile" / "analysis").glob("*.py")} - {"__init__"}
    assert files <= names_in(minitile.analysis.__doc__)


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


def test_what_is_imported_is_in_this_tree():
    """A name of a module that has moved could be found in another checkout that is installed as well."""
    here = {
        ".".join((package, *path.relative_to(ROOT / folder).with_suffix("").parts)).removesuffix(".__init__")
        for package, folder in FOLDERS.items()
        for path in sources(folder)
    }
    for folder in (*FOLDERS.values(), "tests", "examples", "benchmarks"):
        for path in sources(folder):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                gone = [n for n in names if n and (n + ".").startswith("minitile.") and n not in here]
                assert not gone, f"{path.relative_to(ROOT)} imports {gone}"


# For each part, what it must not import: the arrows run language → ir ← transforms → analysis, layout; backends write
# against ir, layout, analysis and lowering's interface.
BARRED = {
    "runtime": (
        *("minitile.ir", "minitile.language", "minitile.analysis", "minitile.transforms", "minitile.layout"),
        *("minitile.lowering", "minitile.backends", "minitile.driver", "minitile.tools", "minitile.hardware"),
    ),
    "backends": (
        *("minitile.language", "minitile.transforms", "minitile.driver", "minitile.runtime", "minitile.tools"),
        *("minitile.ops", "minitile.target", "minitile.lowering.lower"),
    ),
    "minitile/ir": (
        *("minitile.language", "minitile.analysis", "minitile.transforms", "minitile.lowering", "minitile.backends"),
        *("minitile.runtime", "minitile.driver", "minitile.tools", "minitile.target"),
    ),
    "minitile/layout": (
        *("minitile.language", "minitile.analysis", "minitile.transforms", "minitile.lowering", "minitile.backends"),
        *("minitile.runtime", "minitile.driver", "minitile.tools", "minitile.target"),
    ),
    "minitile/analysis": (
        *("minitile.language", "minitile.transforms", "minitile.lowering", "minitile.backends", "minitile.runtime"),
        *("minitile.driver", "minitile.tools", "minitile.target"),
    ),
    "minitile/transforms": ("minitile.language", "minitile.backends", "minitile.runtime", "minitile.driver"),
    "minitile/lowering": ("minitile.language", "minitile.backends", "minitile.runtime", "minitile.driver"),
    "minitile/language": ("minitile.transforms", "minitile.lowering", "minitile.backends", "minitile.runtime"),
}
# What may be imported all the same: by which files (a pattern), what, and why.
ALLOWED = (
    (r"backends/(base|\w+/(backend|program))\.py", r"minitile\.runtime\b.*", "they tie text to what runs it"),
    (
        r"backends/\w+/(program|assemble\w*|assemble/\w+)\.py",
        r"minitile\.driver(\.(cache|elf|processes)\b.*|$)",
        "services of the host, which know nothing of kernels: the disk, processes, whole files",
    ),
    (r"minitile/transforms/.*", r"minitile\.backends(\.base\b.*|$)", "the record that says what a backend demands"),
)


def allowed(path, name):
    return any(re.fullmatch(files, path) and re.fullmatch(names, name) for files, names, _ in ALLOWED)


FRAMEWORKS = ("torch", "cupy", "jax", "triton", "tvm", "tilelang")


@pytest.mark.parametrize("folder", BARRED)
def test_the_arrows_run_one_way(folder):
    for path in sources(folder):
        for name in imports(path):
            barred = [b for b in BARRED[folder] if name == b or name.startswith(b + ".")]
            barred = barred and not allowed(path.relative_to(ROOT).as_posix(), name)
            assert not barred, f"{path.relative_to(ROOT)} imports {name}"


def test_the_simulator_stands_alone():
    for path in sources("runtime/sim"):
        for name in imports(path):
            assert not name.startswith("minitile") or name.startswith("minitile.runtime.sim"), f"{path} imports {name}"


def test_the_prover_stands_alone():
    """It shares no code with what it checks, nor with the simulators, which it is checked against."""
    for path in sources("minitile/proof"):
        for name in imports(path):
            assert not name.startswith(("minitile", "z3")) or name.startswith("minitile.proof"), (
                f"{path} imports {name}"
            )


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
