"""TileLang's programs as they are: `import minitile.tilelang as tilelang`, `import minitile.tilelang.language as T`.

`minitile tilelang FILE` runs an unmodified script with this package in TileLang's place (`run.py`). The front end is
thin: names go to `minitile.language`, functions to `minitile.Kernel`. docs/tilelang.md says what differs.
"""

from __future__ import annotations

from typing import Any

from minitile.tilelang import language, layout, math, profiler, testing
from minitile.tilelang.autotuner import AutoTuner, autotune, set_autotune_inputs
from minitile.tilelang.inputs import TensorSupplyType
from minitile.tilelang.jit import compile, jit, lazy_jit, par_compile
from minitile.tilelang.kernel import JITKernel
from minitile.tilelang.language.dtypes import dtype as DataType
from minitile.tilelang.math import cdiv, get_num_sms, next_power_of_2
from minitile.tilelang.pass_config import PassConfigKey
from minitile.tilelang.profiler import Profiler, do_bench

__version__ = "0.1.15"  # of TileLang, whose programs these are

GemmWarpPolicy = language.GemmWarpPolicy


def disable_cache() -> None:
    """Does nothing: what is compiled depends on all that it is compiled from."""


enable_cache = disable_cache


def set_log_level(*_: Any) -> None:
    """Does nothing."""


__all__ = [
    "AutoTuner",
    "DataType",
    "GemmWarpPolicy",
    "JITKernel",
    "PassConfigKey",
    "Profiler",
    "TensorSupplyType",
    "autotune",
    "cdiv",
    "compile",
    "disable_cache",
    "do_bench",
    "enable_cache",
    "get_num_sms",
    "jit",
    "language",
    "layout",
    "lazy_jit",
    "math",
    "next_power_of_2",
    "par_compile",
    "profiler",
    "set_autotune_inputs",
    "set_log_level",
    "testing",
]
