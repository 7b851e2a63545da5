"""`@T.prim_func`: a function whose signature names tensors, before it is compiled. `minitile.kernel` reads the same
signatures; `tilelang.compile`, or the `tilelang.jit` around the factory that returns it, says of which tensors calls
are to make the result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from minitile.driver.dispatch import for_users
from minitile.language.tracing.signature import Signature, read_signature


class PrimFunc:
    """A function of tensors. It is not called: `tilelang.compile(f)` gives a kernel."""

    def __init__(self, function: FunctionType, around: Mapping[str, Any]) -> None:
        self.function = function
        self.signature: Signature = read_signature(function, around)
        self.attrs: dict[str, Any] = {}
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<tilelang prim_func {self.__name__}>"

    def with_attr(self, name: str, value: Any) -> PrimFunc:
        """The function itself, with an attribute that is kept and not looked at."""
        self.attrs[name] = value
        return self

    def script(self, *_: Any, **__: Any) -> str:
        """The traced IR; TileLang gives TVM's script."""
        from minitile.tilelang.kernel import JITKernel

        return JITKernel(self).traced_ir()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles it as it is, and calls that."""
        from minitile.tilelang.kernel import JITKernel

        return JITKernel(self)(*args, **kwargs)


@for_users
def prim_func(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Marks a function of tensors: `A: T.Tensor((M, K), dtype)`, scalars `n: T.int32`. Its body is as of
    `minitile.kernel`, and may have several `with T.Kernel`, which are launched in order.

    Raises LanguageError for a parameter without such an annotation.
    """
    around = dict(sys._getframe(2).f_locals)
    if function is None:
        return lambda f: PrimFunc(f, around)
    assert isinstance(function, FunctionType)
    return PrimFunc(function, around)
