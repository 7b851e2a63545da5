"""`tilelang.tvm`: the few of TVM's names that programs use beside the language. minitile has no TVM."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from minitile.tilelang.absent import Absent
from minitile.tilelang.language.dtypes import dtype as DataType
from minitile.tilelang.prim_func import PrimFunc


def const(value: Any, dtype: Any = "int32") -> Any:
    """A number of a dtype."""
    import minitile.language as T

    return T.cast(value, DataType(dtype))


def _marks(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda function: function


class Target(str):
    """A target's name."""

    __slots__ = ()

    @staticmethod
    def current(*_: Any) -> None:
        """There is none."""


class _Tirx:
    """`tvm.tirx`: a few names, and those of the language."""

    PrimExpr = Var = Buffer = IndexMap = object
    PrimFunc = PrimFunc
    const = staticmethod(const)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module("minitile.tilelang.language"), name)


tirx = tir = _Tirx()
target = SimpleNamespace(Target=Target)
testing = SimpleNamespace(requires_package=_marks, requires_cuda=lambda function: function)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"tilelang.tvm.{name}")
