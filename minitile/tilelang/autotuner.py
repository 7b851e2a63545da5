"""`@autotune(configs=…)` above `@tilelang.jit`, and `AutoTuner`: the configuration that is fastest on the GPU. Without
one the first that compiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minitile.driver.dispatch import caller_location
from minitile.ir.diagnostics import LanguageError, MinitileError
from minitile.tilelang.jit import JIT
from minitile.tilelang.jit import jit as _jit
from minitile.tilelang.kernel import JITKernel
from minitile.tilelang.mode import MODE
from minitile.tilelang.pass_config import options
from minitile.tilelang.profiler import _gpu

Configs = Any  # a list of dicts of parameters, or a function of a call's arguments that gives one
Call = Callable[..., Any]  # of positional and named arguments, and options
_OPTIONS = ("pass_configs", "target")  # keys of a configuration that are no parameters
_inputs: list[Sequence[Any]] = []


@contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """In the `with`, configurations are timed on these tensors."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    _inputs.append(given)
    try:
        yield
    finally:
        _inputs.pop()


@dataclass
class AutotuneResult:
    """The best configuration with its milliseconds and kernel; ref_latency: of the reference, if there was one."""

    latency: float
    config: dict[str, Any]
    kernel: JITKernel | None
    ref_latency: float | None = None
    libcode: str = ""
    func: Any = None


class Autotuned:
    """A JIT function that is tuned: calls that name no parameter of the configurations get the best one. As in
    TileLang, one that names some gets the defaults of the others."""

    def __init__(self, jit: JIT, configs: Configs, how: Mapping[str, Any]) -> None:
        self.jit, self.configs, self.how = jit, configs, how
        self.__name__, self.__doc__ = jit.__name__, jit.__doc__
        self._others: dict[str, JIT] = {}
        self._best: dict[Any, dict[str, Any]] = {}

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._tuned(lambda a, n, how=None: self._jit(how)(*a, **n), args, named)

    def _jit(self, how: Mapping[str, Any] | None) -> JIT:
        """The function for options of a configuration."""
        if not how:
            return self.jit
        key = repr(sorted(how.items()))
        if key not in self._others:
            made = JIT(self.jit.function, self.jit.out_idx, options(how.get("pass_configs"), how.get("target")), {})
            self._others[key] = made
        return self._others[key]

    def compile(self, *args: Any, **named: Any) -> Any:
        """The kernel of the best configuration for these arguments."""
        return self._tuned(lambda a, n, how=None: self._jit(how).compile(*a, **n), args, named)

    def get_tir(self, *args: Any, **named: Any) -> Any:
        return self.jit.get_tir(*args, **named)

    def _tuned(self, call: Call, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        configs = _listed(self.configs, args, named)
        passed = {**dict(zip(inspect.signature(self.jit.function).parameters, args, strict=False)), **named}
        if not configs or self._chosen(configs[0], passed):
            return call(args, named)
        key = self.jit._key("tuned", {str(i): _told(a) for i, a in enumerate((*args, *named.items()))})
        if key not in self._best:
            self._best[key] = self._find(call, configs, args, named)
        best = self._best[key]
        result = self._with(call, best, args, named)
        if isinstance(result, JITKernel) and result.config is None:
            result.config = best
        return result

    def _chosen(self, config: Mapping[str, Any], passed: Mapping[str, Any]) -> bool:
        """Whether a call says itself what is tuned: one parameter of it suffices, where the others have defaults."""
        own = inspect.signature(self.jit.function).parameters
        there = [n in passed for n in config]
        left = [own[n] for n in config if n not in passed and n in own]
        return all(there) or (any(there) and all(p.default not in (inspect.Parameter.empty, None) for p in left))

    def _find(
        self, call: Call, configs: list[dict[str, Any]], args: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Any]:
        def build(config: dict[str, Any]) -> Any:
            return self._with(call, config, args, named)

        return _search(build, configs, self.how)[0]

    def _with(self, call: Call, config: Mapping[str, Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """A call with a configuration, whose pass_configs are the kernel's own."""
        more = {n: v for n, v in config.items() if n not in named and n not in _OPTIONS}
        how = {n: v for n, v in config.items() if n in _OPTIONS and v is not None}
        return call(args, {**named, **more}, how)


def _told(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    return value if shape is None else ("tensor", tuple(shape), str(value.dtype))


def _search(
    build: Callable[[dict[str, Any]], Any], configs: list[dict[str, Any]], how: Mapping[str, Any]
) -> tuple[dict[str, Any], float, Any]:
    """The best configuration, its milliseconds, and what `build` gave for it."""
    best: tuple[dict[str, Any], float, Any] | None = None
    refused: MinitileError | None = None
    for config in configs:
        before = len(MODE.records)
        try:
            kernel = build(config)
            if any(r.error for r in MODE.records[before:]):
                refused = LanguageError(MODE.records[before].error)
                continue
            if isinstance(kernel, JITKernel):
                kernel.compiled()
            spent = _time(kernel, how)
        except MinitileError as error:
            refused = error
            continue
        if best is None or spent < best[1]:
            best = config, spent, kernel
        if not _gpu():
            break
    if best is None:
        raise refused or LanguageError("autotune without configurations", caller_location())
    if MODE.compile_only:  # a configuration that does not fit is no error of the program
        MODE.records[:] = [r for r in MODE.records if not r.error or r.name != getattr(best[2], "__name__", "")]
    return best


def _time(kernel: Any, how: Mapping[str, Any]) -> float:
    if not isinstance(kernel, JITKernel) or not _gpu():
        return float("inf")
    supply = how.get("supply_prog")
    tensors = _inputs[-1] if _inputs else supply(kernel.params) if supply else None
    profiler = kernel.get_profiler(how.get("supply_type"))
    return float(profiler.do_bench(warmup=how.get("warmup", 25), rep=how.get("rep", 100), input_tensors=tensors))


def _listed(configs: Configs, args: Sequence[Any], named: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = configs(*args, **named) if callable(configs) else configs
    return [dict(c) if isinstance(c, Mapping) else vars(c) for c in found]


def autotune(function: Any = None, *, configs: Configs = (), **how: Any) -> Any:
    """Tunes a `@tilelang.jit` function over configurations: dicts of its parameters.

    Args:
        configs: the list, or a function of a call's arguments that gives it.
        how: warmup and rep in milliseconds; supply_type, supply_prog: the inputs; others are ignored.
    """

    def decorate(f: Any) -> Autotuned:
        return Autotuned(f if isinstance(f, JIT) else _jit(f), configs, how)

    return decorate if function is None else decorate(function)


class AutoTuner:
    """`AutoTuner.from_kernel(kernel=f, configs=…).set_compile_args(out_idx=[-1]).run()`."""

    def __init__(self, fn: Callable[..., Any], configs: Configs) -> None:
        self.fn, self.configs = fn, configs
        self.compile_args: dict[str, Any] = {}
        self.profile_args: dict[str, Any] = {}

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Configs) -> AutoTuner:
        """kernel: gives a T.prim_func for a configuration."""
        return cls(kernel, configs)

    def set_compile_args(self, **given: Any) -> AutoTuner:
        """Arguments of `tilelang.compile` for all configurations: out_idx, target, pass_configs."""
        self.compile_args = given
        return self

    def set_profile_args(self, **given: Any) -> AutoTuner:
        """How configurations are timed: warmup, rep, ref_prog, supply_prog; others are ignored."""
        self.profile_args = given
        return self

    def run(self, **how: Any) -> AutotuneResult:
        """The best of all; a reference of `set_profile_args(ref_prog=…)` is timed too."""
        from minitile.tilelang.jit import compile

        def build(config: dict[str, Any]) -> Any:
            more = {n: v for n, v in config.items() if n in _OPTIONS}
            found = self.fn(**{n: v for n, v in config.items() if n not in more})
            return found if isinstance(found, JITKernel) else compile(found, **{**self.compile_args, **more})

        config, spent, kernel = _search(build, _listed(self.configs, (), {}), {**self.profile_args, **how})
        reference = self.profile_args.get("ref_prog")
        against = kernel.get_profiler().do_bench(reference) if reference is not None and _gpu() else None
        kernel.config, kernel.latency, kernel.ref_latency = config, spent, against
        return AutotuneResult(spent, config, kernel, against)


__all__ = ["AutoTuner", "AutotuneResult", "Autotuned", "autotune", "set_autotune_inputs"]
