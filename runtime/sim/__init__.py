"""Simulators: they execute the assembly text that GPUs get, on any machine, and report what is wrong with it.

`run_ptx` executes PTX for sm_80 to sm_90a; a `TensorMap` is the argument for a tensor map parameter. `run_gcn` executes
AMD assembly for gfx942 and gfx950, and `estimate_gcn` estimates its cycles (see `gfx/`). Nothing here knows the
compiler; everything is written from the instruction set documents, so that compiler and simulator check each other. See
`machine.py` and `scheduler.py` for how PTX runs, `model.py` for what is found in it.
"""

from __future__ import annotations

from .amdgcn import Timing, estimate_gcn, run_gcn
from .core.arguments import Within
from .core.errors import RaceError, SimulationError
from .core.report import Access, Finding, MaskedAccess, Report
from .ptx.launch import run_ptx
from .ptx.tensor_map import TensorMap

__all__ = [
    "Access",
    "Finding",
    "MaskedAccess",
    "RaceError",
    "Report",
    "SimulationError",
    "TensorMap",
    "Timing",
    "Within",
    "estimate_gcn",
    "run_gcn",
    "run_ptx",
]
