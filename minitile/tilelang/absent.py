"""Parts of TileLang's host side that are not there: they can be imported, and using one is an error that names it."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from minitile.driver.dispatch import caller_location
from minitile.ir.diagnostics import LanguageError

INSTEAD: dict[str, str] = {
    "tilelang.tvm": "minitile has an IR of its own: kernel.compiled()[0].asm",
    "tilelang.carver": "configurations by hand, or minitile.autotune",
    "tilelang.tools": "minitile compile --html shows layouts",
    "tilelang.transform": "minitile's passes: docs/passes.md",
    "tilelang.engine": "kernel.get_kernel_source() reads the assembly; it cannot be replaced",
    "tilelang.contrib": "kernel.compiled()[0].binary is the cubin or code object",
    "tilelang.cuda": "T.gemm and T.copy, which choose instructions and layouts",
    "tilelang.rocm": "T.gemm and T.copy, which choose instructions and layouts",
    "tilelang.intrinsics": "T.gemm and T.copy, which choose instructions and layouts",
}


class Absent:
    """A name of TileLang that is not there. Naming it is fine; calling it, or asking it for a value, is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __repr__(self) -> str:
        return f"<{self._name}, which minitile has not>"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise LanguageError(f"{self._name} is not there", caller_location(), _instead(self._name))

    __call__ = __enter__ = __getitem__ = __iter__ = __index__ = __bool__ = _refuse

    def __exit__(self, *_: object) -> None: ...


class AbsentModule(ModuleType):
    """A module of such names."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__all__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise LanguageError(f"{self.__name__} is not there", caller_location(), _instead(self.__name__))


def _instead(name: str) -> str:
    for part, hint in INSTEAD.items():
        if name == part or name.startswith(part + "."):
            return f"use {hint}"
    return ""
