"""The import hook: while it is in place, `tilelang` and `tilelang.…` are this package.

Modules that are not there can be imported, and using their names is an error that says so (`absent.py`). In
compile-only mode packages that scripts need for their references only (torch, einops, triton, …) come from
`stand_in`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from minitile.tilelang.absent import AbsentModule

OURS = "minitile.tilelang"
_OTHER_PLACES = {
    "tilelang.profiler.bench": f"{OURS}.profiler",
    "tilelang.utils.tensor": f"{OURS}.utils",
    "tilelang.utils": f"{OURS}.utils",
    "tilelang.tileop.base": "minitile.language.gemms",
    "tilelang.tileop": "minitile.language.gemms",
    "tilelang.language.dtypes": f"{OURS}.language.dtypes",
    "tilelang.transform": f"{OURS}.transform",
    "tilelang.carver.arch": f"{OURS}.arch",
    "tilelang.carver.arch.driver": f"{OURS}.arch",
    "tilelang.tools.cuda.iket": f"{OURS}.iket",
    "tilelang.contrib.nvcc": f"{OURS}.nvcc",
    "tilelang.cuda.intrinsics": f"{OURS}.intrinsics",
    "tilelang.cuda.intrinsics.layout.mma_layout": f"{OURS}.intrinsics",
    "tilelang.env": f"{OURS}.env",
    "tilelang.jit": f"{OURS}.jit",
    "tilelang.autotuner.tuner": f"{OURS}.autotuner",
}
_HIDDEN = ("hook", "run", "stand_in", "mode", "body")


class _Loader(importlib.abc.Loader):
    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it is loaded."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `tilelang…` here, and stand-ins of other packages where there are some and the real one is not wanted."""

    def __init__(self, stand_in: Callable[[str], ModuleType | None] | None = None) -> None:
        self.stand_in = stand_in

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.split(".")[0]
        full = f"tilelang.{name}" if top == "tvm" else name
        module = tilelang_module(full) if top in ("tilelang", "tvm") else None
        if module is None and self.stand_in is not None:
            module = self.stand_in(name)
        if module is None:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(module), is_package=True)


def tilelang_module(name: str) -> ModuleType:
    """The module of this package that stands for one of TileLang's; one of absent names where there is none."""
    here = _OTHER_PLACES.get(name, OURS + name.removeprefix("tilelang"))
    if name.removeprefix("tilelang.").split(".")[0] in _HIDDEN or importlib.util.find_spec(OURS) is None:
        return _absent(name)
    try:
        found = importlib.import_module(here)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(OURS):
            raise
        return _absent(name)
    return _proxy(name, found)


def _absent(name: str) -> ModuleType:
    """A module of absent names, and of those modules below it that are there."""
    made = AbsentModule(name)
    for each, here in _OTHER_PLACES.items():
        parent, _, last = each.rpartition(".")
        if parent == name:
            setattr(made, last, importlib.import_module(here))
    return made


def _proxy(name: str, module: ModuleType) -> ModuleType:
    """A module under TileLang's name with the names of ours, which keeps its own."""
    made = _Alias(name)
    made.__dict__.update(
        {k: v for k, v in vars(module).items() if not k.startswith("__") or k in ("__doc__", "__all__")}
    )
    made.__dict__["__version__"] = getattr(module, "__version__", "")
    made.__dict__["_ours"] = module
    made.__file__ = module.__file__
    made.__path__ = []
    return made


class _Alias(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.__dict__["_ours"], name, None)
        if found is None:
            if self.__name__ == "tilelang.language":
                return getattr(self.__dict__["_ours"], name)
            return tilelang_module(f"{self.__name__}.{name}")
        return found


def _stand_ins() -> Callable[[str], ModuleType | None]:
    from minitile.tilelang import stand_in
    from minitile.tilelang.stand_in import torch_module  # noqa: F401  (now, and not while something is being found)

    return stand_in.module_named


@contextmanager
def in_place(stand_ins: bool = False) -> Iterator[None]:
    """While this is active, programs that import tilelang get this package; stand_ins: and others stand-ins."""
    finder = _Finder(_stand_ins() if stand_ins else None)
    replaced = ("tilelang", "tvm", *(("torch", "einops", "triton") if stand_ins else ()))
    before = {n: sys.modules.pop(n) for n in [*sys.modules] if n.split(".")[0] in replaced}
    sys.meta_path.insert(0, finder)
    known = {*sys.modules}
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in {*sys.modules} - known:
            loader = getattr(getattr(sys.modules[name], "__spec__", None), "loader", None)
            if isinstance(loader, _Loader):
                del sys.modules[name]
        sys.modules.update(before)


def install() -> None:
    """From now on `import tilelang` gives this package, in the whole process."""
    sys.meta_path.insert(0, _Finder())
