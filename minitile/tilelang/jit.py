"""`@tilelang.jit`: around a factory that returns a `@T.prim_func`, or around a function that is the kernel itself and
declares its tensors in its body (see body.py)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from minitile.driver.capture import Captures, captures, changeable, current_key
from minitile.driver.dispatch import caller_location, for_users
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError
from minitile.runtime.errors import LaunchError
from minitile.tilelang.body import Body, declares
from minitile.tilelang.kernel import JITKernel
from minitile.tilelang.mode import MODE
from minitile.tilelang.pass_config import Options, options
from minitile.tilelang.prim_func import PrimFunc


class JIT:
    """A factory: `f(M, N, K)` gives a JITKernel. Or a kernel that declares its tensors: `f(a, b, block=64)` runs it,
    `f.compile(M=1024, block=64)` gives the JITKernel. Kernels are kept, by the arguments that they were made for."""

    def __init__(
        self,
        function: FunctionType,
        out_idx: int | Sequence[int] | None,
        how: Options,
        around: Mapping[str, Any],
    ) -> None:
        self.function = function
        self.out_idx = out_idx
        self.options = how
        self.around = around
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._kept: dict[Any, JITKernel] = {}
        self._held: dict[Any, Captures] = {}  # by arguments: what is read of those that can change in place
        self._captures = captures(function)
        MODE.define(function)

    def __repr__(self) -> str:
        return f"<tilelang.jit {self.__name__}>"

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else _Method(self, owner)

    @cached_property
    def body(self) -> Body | None:
        """Where the function is the kernel itself: its declarations."""
        return Body(self.function, self.around) if declares(self.function) else None

    @for_users
    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.body is None:
            return self._made(args, named)
        given = self._bound(args, named)
        kernel, _ = self._declared(given, {})
        runtime = [given.get(p.name, p.default) for p in kernel.signature.runtime if not p.made]
        return kernel(*runtime)

    @for_users
    def compile(self, *args: Any, **named: Any) -> JITKernel:
        """The kernel for compile-time arguments: the factory's, or sizes of T.const by name and the parameters that the
        body does not declare. Tensors may be given in place of sizes."""
        if self.body is None:
            return self._made(args, named)
        parameters = self.body.python.parameters
        sizes = {n: v for n, v in named.items() if n not in parameters}
        given = self._bound(args, {n: v for n, v in named.items() if n in parameters}, partly=True)
        return self._declared(given, sizes)[0]

    def get_tir(self, *args: Any, **named: Any) -> Any:
        """What the factory returns: the T.prim_func. Of a kernel that declares its tensors, the JITKernel."""
        return self.function(*args, **named) if self.body is None else self.compile(*args, **named)

    def get_kernel_source(self, *args: Any, **named: Any) -> str:
        """The assembly of the kernel for these arguments, as of `compile`."""
        return self.compile(*args, **named).get_kernel_source()

    def par_compile(self, configs: Sequence[Any], **_: Any) -> list[JITKernel]:
        """The kernels of several configurations: dicts of arguments, or tuples of them."""
        return [self.compile(**c) if isinstance(c, Mapping) else self.compile(*c) for c in configs]

    # ----------------------------------------------------------------------------------------------------------------

    def _made(self, args: Sequence[Any], named: Mapping[str, Any]) -> JITKernel:
        key = self._key("made", inspect.signature(self.function).bind(*args, **named).arguments)
        if key not in self._kept:
            MODE.reach(self.function)
            found = self.function(*args, **named)
            if isinstance(found, JITKernel):
                return found
            if not isinstance(found, PrimFunc):
                raise LanguageError(
                    f"{self.__name__}, which tilelang.jit is around, returns {type(found).__name__}",
                    caller_location(),
                    "it returns a T.prim_func, or has `with T.Kernel(…)` itself and declares its tensors in its body",
                )
            self._kept[key] = JITKernel(found, self.out_idx, self.options)
        return self._kept[key]

    def _declared(self, given: Mapping[str, Any], sizes: Mapping[str, Any]) -> tuple[JITKernel, dict[str, Any]]:
        assert self.body is not None
        signature, known = self.body.signature(given, sizes)
        key = self._key("declared", {p.name: (p.kind, _stands_for(p)) for p in signature.parameters})
        if key not in self._kept:
            self._kept[key] = JITKernel((self.function, signature), self.out_idx, self.options)
        return self._kept[key], known

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any], partly: bool = False) -> dict[str, Any]:
        assert self.body is not None
        try:
            bind = self.body.python.bind_partial if partly else self.body.python.bind
            return dict(bind(*args, **named).arguments)
        except TypeError as error:
            raise LaunchArgumentError(f"the kernel {self.__name__}: {error}", caller_location()) from None

    def _key(self, kind: str, arguments: Mapping[str, Any]) -> Any:
        if not self._captures.current():
            self._captures = captures(self.function)
            self._kept.clear()
            self._held.clear()
        key = kind, tuple((n, current_key(v)) for n, v in arguments.items())
        held = {n: v for n, v in arguments.items() if changeable(v)}  # objects and functions, as they are now
        if not held:
            return key
        if key not in self._held or not self._held[key].current():
            self._held[key] = captures(self.function, held)
        return *key, self._held[key].key()


class _Method:
    """A JIT function of a class, of one object."""

    def __init__(self, jit: JIT, owner: Any) -> None:
        self.jit, self.owner = jit, owner

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.jit(self.owner, *args, **named)

    def compile(self, *args: Any, **named: Any) -> JITKernel:
        return self.jit.compile(self.owner, *args, **named)


def _stands_for(p: Any) -> Any:
    tensor = p.tensor
    return p.default if tensor is None else (tensor.shape, tensor.strides, tensor.dtype, tensor.packed)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    pass_configs: Mapping[Any, Any] | None = None,
    **ignored: Any,
) -> Any:
    """Marks a factory of kernels, or a kernel that declares its tensors in its body: `@jit` or `@jit(out_idx=[-1])`.

    Args:
        out_idx: which of the tensors calls make and return.
        target: "cuda", "hip", "auto": the device of the arrays; or minitile's "sm_90a", "gfx942", ….
        pass_configs: by `PassConfigKey`; see there for what means something.
        ignored: execution_backend, compile_flags, verbose, … have no meaning here.

    Raises:
        LanguageError: what is no function; pass_configs or a target that there are not.
    """
    around = dict(sys._getframe(1).f_locals)
    how = options(pass_configs, target)

    def decorate(f: Callable[..., Any]) -> JIT:
        if isinstance(f, JIT):
            f = f.function
        if not isinstance(f, FunctionType):
            raise LanguageError(f"@tilelang.jit is for functions, not {f!r}", caller_location())
        return JIT(f, out_idx, how, around)

    return decorate if function is None else decorate(function)


lazy_jit = jit


@for_users
def compile(
    func: Any,
    out_idx: int | Sequence[int] | None = None,
    execution_backend: Any = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    **_: Any,
) -> JITKernel:
    """A T.prim_func as a JITKernel, which compiles when it is called, or asked for.

    Args:
        func: the function; or what `jit` has made, which is compiled as its own options say.
        out_idx: as of `jit`.
        execution_backend: not looked at.
        target: as of `jit`.
        target_host: not looked at.
        verbose: not looked at.
        pass_configs: as of `jit`.

    Raises:
        LanguageError: what is no function; pass_configs or a target that there are not.
    """
    if isinstance(func, JIT):
        return func.compile()
    if not isinstance(func, PrimFunc):
        raise LanguageError(f"tilelang.compile of {type(func).__name__}", caller_location(), "it takes a T.prim_func")
    return JITKernel(func, out_idx, options(pass_configs, target))


def par_compile(funcs: Sequence[Any], out_idx: Any = None, **named: Any) -> list[JITKernel]:
    """`compile` of each."""
    return [compile(f, out_idx, **{k: v for k, v in named.items() if k in ("target", "pass_configs")}) for f in funcs]


__all__ = ["JIT", "LaunchError", "compile", "jit", "lazy_jit", "par_compile"]
