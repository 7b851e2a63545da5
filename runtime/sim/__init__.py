"""Simulators: they execute the assembly text that GPUs get, on any machine, and report what is wrong with it.

`run_ptx` executes PTX for sm_80 to sm_90a; a `TensorMap` is the argument for a tensor map parameter. Nothing here
knows the compiler; everything is written from the PTX ISA, so that compiler and simulator check each other. See
`machine.py` and `scheduler.py` for how it runs, `race.py` for what it finds.
"""

from __future__ import annotations

from .errors import RaceError, SimulationError
from .launch import run_ptx
from .report import Access, Finding, Report
from .tensor_map import TensorMap

__all__ = ["Access", "Finding", "RaceError", "Report", "SimulationError", "TensorMap", "run_ptx"]
