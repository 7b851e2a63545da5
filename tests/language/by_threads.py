"""What the tests of kernels written thread by thread have in common: targets, dtypes, a checked run, the assembly."""

from __future__ import annotations

import ml_dtypes
import numpy as np

NVIDIA, AMD = ("sm_80", "sm_90a"), ("gfx942", "gfx950")
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "int8": np.int8}
RNG = np.random.default_rng()


def run(kernel, target, *args, **constants):
    """The compiled kernel, which has run on these arrays in the simulator, on a random schedule, with a look for
    races."""
    compiled = kernel.compile(*args, target=target, **constants)
    compiled.simulate(*args, schedule="random", seed=1)
    return compiled


def text(compiled):
    """The assembly, of NVIDIA's or AMD's."""
    return compiled.asm["ptx"] if "ptx" in compiled.asm else compiled.asm["gcn"]
