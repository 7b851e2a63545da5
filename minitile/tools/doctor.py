"""`minitile doctor`: what is installed, which GPUs can be used, what is missing and how to get it."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from minitile import __version__
from minitile.backends.base import installed
from minitile.backends.registry import backends
from minitile.driver.cache import default_cache
from minitile.ir.diagnostics import MinitileError
from minitile.target import parse_target

Line = tuple[str, str]


def report() -> str:
    """The whole report, a line for each thing."""
    vendors = (line for backend in backends() for line in backend.doctor())
    lines = [*_python(), *vendors, *_target(), *_others(), *_cache()]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def _python() -> Iterator[Line]:
    yield "minitile", __version__
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for package in ("numpy", "ml_dtypes"):
        yield package, installed(package) or "missing: pip install minitile brings it"


def _target() -> Iterator[Line]:
    try:
        target = parse_target("auto")
    except MinitileError as error:
        yield "target auto", str(error)
        return
    yield "target auto", f"{target.name}, assembled for {target.arch}"


def _others() -> Iterator[Line]:
    for package in ("torch", "cupy", "triton"):
        yield package, installed(package) or "not installed (optional)"


def _cache() -> Iterator[Line]:
    store = default_cache()
    if store is None:
        yield "cache", "off (MINITILE_CACHE=0)"
        return
    if refusal := store.refusal():
        yield "cache", f"not used: {refusal}"
        return
    sizes = [path.stat().st_size for _, path in store.entries()]
    yield "cache", f"{store.root}: {len(sizes)} entries, {sum(sizes) / 1e6:.2f} MB"
