"""minitile: a mini-compiler for GPU tile kernels written in Python.

    import minitile as mt
    import minitile.language as T

Public names are loaded on first use (PEP 562), so that `import minitile` costs almost nothing: `_HOME` says
where each one lives.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitile import language, ops
    from minitile.driver.jax_op import jax_op
    from minitile.driver.jit import CompiledKernel, Kernel, kernel, spec
    from minitile.driver.simulate import RaceError, SimulationError
    from minitile.driver.torch_op import torch_op
    from minitile.ir.diagnostics import MinitileError
    from minitile.runtime.saved import load
    from minitile.target import Target
    from minitile.tools.autotune import autotune
    from minitile.tools.ranges import nvtx_ranges

__version__ = "0.1.0"

_HOME = {
    "autotune": "minitile.tools.autotune",
    "jax_op": "minitile.driver.jax_op",
    "kernel": "minitile.driver.jit",
    "load": "minitile.runtime.saved",
    "nvtx_ranges": "minitile.tools.ranges",
    "spec": "minitile.driver.jit",
    "Kernel": "minitile.driver.jit",
    "CompiledKernel": "minitile.driver.jit",
    "Target": "minitile.target",
    "torch_op": "minitile.driver.torch_op",
    "MinitileError": "minitile.ir.diagnostics",
    "RaceError": "minitile.driver.simulate",
    "SimulationError": "minitile.driver.simulate",
}
_PARTS = ("language", "ir", "layout", "analysis", "transforms", "ops", "backends", "runtime", "hardware", "target")
_SUBMODULES = {
    **{name: f"minitile.{name}" for name in _PARTS},
    "cache": "minitile.driver.cache",
    "passes": "minitile.transforms",
}

__all__ = [
    "CompiledKernel",
    "Kernel",
    "MinitileError",
    "RaceError",
    "SimulationError",
    "Target",
    "autotune",
    "jax_op",
    "kernel",
    "language",
    "load",
    "nvtx_ranges",
    "ops",
    "spec",
    "torch_op",
]


if not TYPE_CHECKING:  # a checker is to say itself what is not there

    def __getattr__(name: str) -> Any:
        if name in _HOME:
            value = getattr(importlib.import_module(_HOME[name]), name)
            globals()[name] = value
            return value
        if name in _SUBMODULES:
            return importlib.import_module(_SUBMODULES[name])
        raise AttributeError(f"module 'minitile' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_SUBMODULES})
